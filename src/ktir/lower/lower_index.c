// SPDX-License-Identifier: Apache-2.0
//
// Integers: numbers on every core, affine in the open loops. What is not affine asks for the loop
// to be unrolled.
#include <string.h>

#include "ktir/lower/lowering.h"
#include "ktir/interpret/tensor.h"

lowered_index *lower_index_of(lowering *w, int64_t number)
{
    lowered_index *x = ARENA_NEW(w->memory, lowered_index, 1);
    if (!x) return NULL;
    x->memory = LOWERING_NO_MEMORY;
    for (uint32_t c = 0; c < ISA_CORES; c++) x->at[c] = number;
    return x;
}

static bool advances(const lowered_index *x)
{
    for (uint32_t n = 0; n < ISA_MAX_LOOPS; n++)
        if (x->loop[n]) return true;
    return false;
}

bool lower_uniform(const lowering *w, const lowered_index *x, int64_t *out_number)
{
    uint32_t first = (uint32_t)__builtin_ctz(w->active);
    *out_number = x->at[first];
    for (uint32_t c = first; c < ISA_CORES; c++)
        if ((w->active >> c & 1) && x->at[c] != *out_number) return false;
    return !advances(x) && x->memory == LOWERING_NO_MEMORY;
}

static spyre_status unroll(lowering *w, const ktir_op *op, const char *what)
{
    w->wants_unroll = true;
    return LOWER_NO(w, op, "%s", what);
}

// a + factor * b
static bool add_scaled(const lowered_index *a, int64_t factor, const lowered_index *b,
                       lowered_index *out)
{
    bool fits = true;
    int64_t product;
    *out = *a;
    for (uint32_t c = 0; c < ISA_CORES; c++)
        fits = fits && !__builtin_mul_overflow(factor, b->at[c], &product) &&
               !__builtin_add_overflow(out->at[c], product, &out->at[c]);
    for (uint32_t n = 0; n < ISA_MAX_LOOPS; n++)
        fits = fits && !__builtin_mul_overflow(factor, b->loop[n], &product) &&
               !__builtin_add_overflow(out->loop[n], product, &out->loop[n]);
    return fits;
}

static spyre_status add(lowering *w, const ktir_op *op, int64_t sign, const lowered_index *a,
                        const lowered_index *b, lowered_index *out)
{
    bool both = a->memory != LOWERING_NO_MEMORY && b->memory != LOWERING_NO_MEMORY;
    if (both || (sign < 0 && b->memory != LOWERING_NO_MEMORY))
        return LOWER_NO(w, op, "a sum of addresses");
    if (!add_scaled(a, sign, b, out)) return LOWER_NO(w, op, "a number beyond 64 bits");
    if (b->memory != LOWERING_NO_MEMORY) out->memory = b->memory;
    return NULL;
}

static spyre_status multiply(lowering *w, const ktir_op *op, const lowered_index *a,
                             const lowered_index *b, lowered_index *out)
{
    static const lowered_index zero = {.memory = LOWERING_NO_MEMORY};
    int64_t factor;
    if (a->memory != LOWERING_NO_MEMORY || b->memory != LOWERING_NO_MEMORY)
        return LOWER_NO(w, op, "a product of an address");
    if (lower_uniform(w, b, &factor) || lower_uniform(w, a, &factor)) {
        const lowered_index *other = lower_uniform(w, b, &factor) ? a : b;
        if (other == b) (void)lower_uniform(w, a, &factor);
        return add_scaled(&zero, factor, other, out) ? NULL
                                                     : LOWER_NO(w, op, "a number beyond 64 bits");
    }
    if (advances(a) || advances(b)) return unroll(w, op, "a product that is not affine");
    *out = zero;
    for (uint32_t c = 0; c < ISA_CORES; c++)
        if (__builtin_mul_overflow(a->at[c], b->at[c], &out->at[c]))
            return LOWER_NO(w, op, "a number beyond 64 bits");
    return NULL;
}

// Core by core, for what is not affine.
static spyre_status each_core(lowering *w, const ktir_op *op, uint32_t count, lowered_index *out)
{
    const ktir_op_info *info = ktir_op_describe(op->opcode);
    ktir_element element = ktir_operand_type(w->m, op, count > 2 ? 1 : 0)->element;
    const lowered_index *x[3] = {NULL, NULL, NULL};
    *out = (lowered_index){.memory = LOWERING_NO_MEMORY};
    for (uint32_t n = 0; n < count; n++) {
        x[n] = lower_operand(w, op, n)->index;
        if (advances(x[n])) return unroll(w, op, "it is not affine in a loop's induction variable");
        if (x[n]->memory != LOWERING_NO_MEMORY) return LOWER_NO(w, op, "an operand is an address");
    }
    for (uint32_t c = 0; c < ISA_CORES; c++) {
        if (!(w->active >> c & 1)) continue;
        int64_t a = x[0]->at[c], b = count > 1 ? x[1]->at[c] : 0;
        if (info->form == KTIR_FORM_COMPARE) {
            const ktir_predicate *predicate =
                &ktir_predicates[ktir_number(w->m, op, KTIR_KEY_PREDICATE, 0)];
            out->at[c] = ktir_compare(predicate, element, (ktir_number_value){.integer = a},
                                      (ktir_number_value){.integer = b});
        } else if (info->form == KTIR_FORM_SELECT) {
            out->at[c] = a ? b : x[2]->at[c];
        } else if (!ktir_integer_apply(info->integer, element, a, b, &out->at[c])) {
            return ktir_error(w->m, op, SPYRE_DEVICE_FAULT, "%s of %lld and %lld has no result",
                              info->mnemonic, (long long)a, (long long)b);
        }
    }
    return NULL;
}

// Coordinate r of compute tile `tile` in the grid, the first dim fastest; the last result has the
// dims that are left.
static int64_t tile_id(const lowering *w, const ktir_op *op, uint32_t r, uint32_t tile)
{
    int64_t rest = tile;
    for (uint32_t d = 0; d < r; d++) rest /= d < w->call->grid_rank ? w->call->grid[d] : 1;
    int64_t extent = r < w->call->grid_rank ? w->call->grid[r] : 1;
    return r + 1 == op->result_count ? rest : rest % extent;
}

// With a loop over waves, the coordinate must advance alike on all cores and from wave to wave.
static spyre_status advance_by_wave(lowering *w, const ktir_op *op, uint32_t r, lowered_index *x)
{
    if (!w->waves) return NULL;
    x->loop[0] = tile_id(w, op, r, ISA_CORES) - tile_id(w, op, r, 0);
    for (uint32_t tile = ISA_CORES; tile < w->waves * ISA_CORES; tile++)
        if (tile_id(w, op, r, tile) - tile_id(w, op, r, tile - ISA_CORES) != x->loop[0])
            return LOWER_NO(w, op, "waves of compute tiles that are no loop");
    return NULL;
}

static spyre_status tile_ids(lowering *w, const ktir_op *op)
{
    for (uint32_t r = 0; r < op->result_count; r++) {
        lowered_index *x = lower_index_of(w, 0);
        TRY_ALLOC(x);
        for (uint32_t c = 0; c < ISA_CORES; c++) x->at[c] = tile_id(w, op, r, w->first_tile + c);
        TRY(advance_by_wave(w, op, r, x));
        w->cells[op->first_result + r].index = x;
    }
    return NULL;
}

static spyre_status apply(lowering *w, const ktir_op *op, lowered_index *out)
{
    const ktir_op_info *info = ktir_op_describe(op->opcode);
    const lowered_index *a = lower_operand(w, op, 0)->index;
    const lowered_index *b = op->operand_count > 1 ? lower_operand(w, op, 1)->index : NULL;
    if (info->form == KTIR_FORM_CAST) {
        // Widths wrap only where numbers are larger than any size: checked, not modelled.
        ktir_element element = ktir_result_type(w->m, op)->element;
        for (uint32_t c = 0; c < ISA_CORES; c++)
            if ((w->active >> c & 1) && ktir_wrap(element, a->at[c]) != a->at[c])
                return LOWER_NO(w, op, "%lld does not fit", (long long)a->at[c]);
        *out = *a;
        return NULL;
    }
    if (info->integer == KTIR_INTEGER_ADD) return add(w, op, 1, a, b, out);
    if (info->integer == KTIR_INTEGER_SUB) return add(w, op, -1, a, b, out);
    if (info->integer == KTIR_INTEGER_MUL) return multiply(w, op, a, b, out);
    return each_core(w, op, op->operand_count, out);
}

// One result of a map that is linear.
static spyre_status linear(lowering *w, const ktir_op *op, const ktir_expr *e, bool *out_done,
                           lowered_index *out)
{
    int64_t factor[KTIR_MOST_NAMES], constant;
    *out_done = ktir_expr_linear(e, factor, &constant);
    for (uint32_t n = 0; n < op->operand_count && *out_done; n++) {
        const lowered_index sum = *out;
        if (!add_scaled(&sum, factor[n], lower_operand(w, op, n)->index, out))
            return LOWER_NO(w, op, "a number beyond 64 bits");
    }
    for (uint32_t c = 0; c < ISA_CORES && *out_done; c++)
        if (__builtin_add_overflow(out->at[c], constant, &out->at[c]))
            return LOWER_NO(w, op, "a number beyond 64 bits");
    return NULL;
}

// affine.apply, affine.min, affine.max: core by core, where the map is not one linear result.
static spyre_status affine(lowering *w, const ktir_op *op, lowered_index *out)
{
    const ktir_map *map = ktir_find(w->m, op, KTIR_KEY_SUBSCRIPTS)->map;
    int64_t names[KTIR_MOST_NAMES], value;
    bool done = false, moves = false;
    for (uint32_t n = 0; n < op->operand_count; n++) {
        const lowered_index *x = lower_operand(w, op, n)->index;
        if (!x) return LOWER_NO(w, op, "a number that depends on the data of a tensor");
        if (x->memory != LOWERING_NO_MEMORY) return LOWER_NO(w, op, "an operand is an address");
        moves = moves || advances(x);
    }
    if (map->count == 1) TRY(linear(w, op, map->results[0], &done, out));
    if (done) return NULL;
    if (moves) return unroll(w, op, "it is not affine in a loop's induction variable");
    for (uint32_t c = 0; c < ISA_CORES; c++) {
        if (!(w->active >> c & 1)) continue;
        for (uint32_t n = 0; n < op->operand_count; n++)
            names[n] = lower_operand(w, op, n)->index->at[c];
        for (uint32_t r = 0; r < map->count; r++) {
            if (!ktir_expr_value(map->results[r], names, &value))
                return ktir_error(w->m, op, SPYRE_DEVICE_FAULT, "result %u has no value", r);
            bool takes = r == 0 || (op->opcode == KTIR_OP_AFFINE_MIN ? value < out->at[c]
                                                                     : value > out->at[c]);
            if (takes) out->at[c] = value;
        }
    }
    return NULL;
}

spyre_status lower_indices(lowering *w, const ktir_op *op, bool *out_done)
{
    ktir_form form = ktir_op_describe(op->opcode)->form;
    *out_done = true;
    if (form == KTIR_FORM_TILE_ID) return tile_ids(w, op);
    if (form == KTIR_FORM_AFFINE) {
        lowered_index *number = lower_index_of(w, 0);
        TRY_ALLOC(number);
        w->cells[op->first_result].index = number;
        return affine(w, op, number);
    }
    *out_done = form <= KTIR_FORM_CAST && ktir_result_type(w->m, op)->kind == KTIR_SCALAR &&
                !ktir_element_describe(ktir_result_type(w->m, op)->element)->is_float;
    if (!*out_done) return NULL;
    lowered_index *x = lower_index_of(w, 0);
    TRY_ALLOC(x);
    w->cells[op->first_result].index = x;
    if (form == KTIR_FORM_CONSTANT) {
        int64_t number = ktir_number(w->m, op, KTIR_KEY_VALUE, 0);
        for (uint32_t c = 0; c < ISA_CORES; c++) x->at[c] = number;
        return NULL;
    }
    for (uint32_t n = 0; n < op->operand_count; n++)
        if (!lower_operand(w, op, n)->index)
            return LOWER_NO(w, op, "a number that depends on the data of a tensor");
    return apply(w, op, x);
}
