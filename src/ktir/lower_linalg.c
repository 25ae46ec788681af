// SPDX-License-Identifier: Apache-2.0
//
// Products on the PT, reductions on the SFP, regions over elements as vector instructions.
#include <string.h>

#include "ktir/combiner.h"
#include "ktir/lowering.h"
#include "tensor/opfunc.h"

// --- Products

static uint32_t lanes_of(spyre_format format)
{
    return spyre_format_elements_per_stick(format);
}

// The matrix of the last two dims of one batch.
static lowered_tensor matrix_of(const lowered_tensor *t, int64_t batch)
{
    lowered_tensor m = *t;
    if (t->rank == 2) return m;
    m.offset += t->is_constant ? 0 : batch * t->stride[0];
    m.rank = 2;
    for (uint32_t d = 0; d < 2; d++) {
        m.size[d] = t->size[d + 1];
        m.stride[d] = t->stride[d + 1];
    }
    return m;
}

// A factor as MATMUL reads it: elements of a row side by side, rows as long as the columns' sticks
// when `sticks`. Copies it when it lies otherwise.
static spyre_status factor(lowering *w, const ktir_op *op, bool sticks, lowered_tensor *t)
{
    int64_t element = spyre_format_bytes(t->format), lanes = lanes_of(t->format);
    bool ready = !t->is_constant && (t->size[1] == 1 || t->stride[1] == element) &&
                 (!sticks || t->size[1] % lanes == 0);
    if (ready) return NULL;
    int64_t size[2] = {t->size[0], sticks ? (t->size[1] + lanes - 1) / lanes * lanes : t->size[1]};
    lowered_tensor copy;
    TRY(lower_scratch(w, op, t->format, 2, size, lower_number(w, op), &copy));
    copy.element = t->element;
    copy.size[1] = t->size[1];
    TRY(lower_copy(w, op, &copy, t));
    *t = copy;
    return NULL;
}

static spyre_status emit_product(lowering *w, const ktir_op *op, const lowered_tensor *a,
                                 const lowered_tensor *b, const lowered_tensor *sums)
{
    int64_t lanes = lanes_of(b->format);
    isa_instruction i = {.opcode = ISA_MATMUL, .operand_count = 3, .dim_count = 3,
                         .extent = {(uint32_t)a->size[0],
                                    (uint32_t)((b->size[1] + lanes - 1) / lanes),
                                    (uint32_t)a->size[1]}};
    i.operand[0] = (isa_operand){.format = SPYRE_FORMAT_IEEE_FP32, .offset = sums->offset,
                                 .stride = {sums->stride[0], lanes * 4}};
    i.operand[1] = (isa_operand){.format = a->format, .offset = a->offset,
                                 .stride = {a->stride[0], 0, SPYRE_STICK_BYTES}};
    i.operand[2] = (isa_operand){.format = b->format, .offset = b->offset,
                                 .stride = {0, SPYRE_STICK_BYTES, b->stride[0]}};
    return lower_emit(w, op, i);
}

// out = start + a b
static spyre_status product(lowering *w, const ktir_op *op, lowered_tensor a, lowered_tensor b,
                            const lowered_tensor *start, const lowered_tensor *out)
{
    int64_t lanes = lanes_of(b.format), columns = (b.size[1] + lanes - 1) / lanes * lanes;
    int64_t size[2] = {a.size[0], columns};
    lowered_tensor sums;
    TRY(factor(w, op, false, &a));
    TRY(factor(w, op, true, &b));
    bool own = out->format != SPYRE_FORMAT_IEEE_FP32 || columns != b.size[1] ||
               (!start->is_constant && start->offset != out->offset);
    if (own)
        TRY(lower_scratch(w, op, SPYRE_FORMAT_IEEE_FP32, 2, size, lower_number(w, op), &sums));
    else sums = *out;
    // Columns of the last stick that nobody asked for begin as zeros, too.
    lowered_tensor whole = sums;
    if (start->is_constant) {
        lowered_tensor value = *start;
        value.size[1] = columns;
        TRY(lower_copy(w, op, &whole, &value));
    } else if (own) {
        lowered_tensor zero = {.is_constant = true, .rank = 2, .format = sums.format};
        memcpy(zero.size, size, sizeof size);
        if (columns != b.size[1]) TRY(lower_copy(w, op, &whole, &zero));
        whole.size[1] = b.size[1];
        TRY(lower_copy(w, op, &whole, start));
    }
    TRY(emit_product(w, op, &a, &b, &sums));
    if (!own) return NULL;
    sums.size[1] = b.size[1];
    return lower_copy(w, op, out, &sums);
}

static spyre_status matmul(lowering *w, const ktir_op *op)
{
    const lowered_tensor *a = lower_operand(w, op, 0)->tensor;
    const lowered_tensor *b = lower_operand(w, op, 1)->tensor;
    const lowered_tensor *start = lower_operand(w, op, 2)->tensor;
    ktir_element element = ktir_result_type(w->m, op)->element;
    lowered_tensor *out;
    int64_t batches = start->rank == 3 ? start->size[0] : 1;
    TRY(lower_new(w, op, op->first_result, element, start->rank, start->size, &out));
    for (uint32_t n = 0; n < 2; n++)
        if (lower_operand(w, op, n)->tensor->format == SPYRE_FORMAT_IEEE_INT32)
            return LOWER_NO(w, op, "the PT multiplies floating-point numbers");
    for (int64_t batch = 0; batch < batches; batch++) {
        lowered_tensor from = matrix_of(start, batch), to = matrix_of(out, batch);
        TRY(product(w, op, matrix_of(a, batch), matrix_of(b, batch), &from, &to));
    }
    return NULL;
}

// --- Reductions

typedef struct {
    opfunc op;
    uint32_t reduced;                   // bit d: dim d
    uint32_t lanes;                     // 1: the last dim stays
    lowered_tensor in, sums;
} reduction;

static spyre_status emit_reduce(lowering *w, const ktir_op *op, const reduction *r, int64_t first,
                                int64_t tiles, int64_t lanes)
{
    lowered_tile tile = {.i = {.opcode = ISA_REDUCE, .op = r->op, .operand_count = 2}};
    uint32_t kept = 0;
    tile.i.operand[0] = (isa_operand){.format = SPYRE_FORMAT_IEEE_FP32, .offset = r->sums.offset};
    tile.i.operand[1] = (isa_operand){.format = r->in.format,
                                      .offset = r->in.offset +
                                                first * r->in.stride[r->in.rank - 1]};
    for (uint32_t d = 0; d < r->in.rank; d++) {
        bool last = d + 1 == r->in.rank && r->lanes > 1, reduced = r->reduced >> d & 1;
        tile.size[tile.rank] = last ? tiles : r->in.size[d];
        tile.stride[0][tile.rank] = reduced ? 0 : r->sums.stride[kept];
        tile.stride[1][tile.rank] = r->in.stride[d] * (last ? (int64_t)r->lanes : 1);
        kept += !reduced;
        tile.rank++;
    }
    if (r->lanes > 1) {
        tile.size[tile.rank] = lanes;
        tile.stride[0][tile.rank] = 4;
        tile.stride[1][tile.rank] = r->in.stride[r->in.rank - 1];
        tile.rank++;
    }
    return lower_tile(w, op, &tile);
}

static spyre_status emit_fold(lowering *w, const ktir_op *op, const reduction *r)
{
    lowered_tile tile = {.i = {.opcode = ISA_FOLD, .op = r->op, .operand_count = 1}, .keep = 1,
                         .rank = r->sums.rank};
    tile.i.operand[0] = (isa_operand){.format = SPYRE_FORMAT_IEEE_FP32, .offset = r->sums.offset};
    memcpy(tile.size, r->sums.size, sizeof r->sums.size);
    memcpy(tile.stride[0], r->sums.stride, sizeof r->sums.stride);
    return lower_tile(w, op, &tile);
}

static spyre_status finish_reduce(lowering *w, const ktir_op *op, const reduction *r,
                                  const lowered_tensor *start)
{
    lowered_tensor sums = r->sums, *out;
    opfunc both = opfunc_pairwise(r->op);
    bool neutral = start->is_constant &&
                   start->value == (double)opfunc_reduction_identity(r->op);
    if (r->lanes > 1) sums.rank--;
    TRY(lower_new(w, op, op->first_result, ktir_result_type(w->m, op)->element, start->rank,
                  start->size, &out));
    if (neutral) return lower_copy(w, op, out, &sums);
    const lowered_tensor *inputs[] = {&sums, start};
    return lower_vector(w, op, both, out, inputs, 2);
}

static spyre_status reduce(lowering *w, const ktir_op *op)
{
    const ktir_attribute *dims = ktir_find(w->m, op, KTIR_KEY_DIMENSIONS);
    const lowered_tensor *start = lower_operand(w, op, 1)->tensor;
    reduction r = {.op = combiner_reduction(w->m, op), .lanes = 1};
    int64_t size[KTIR_MOST_RANK];
    uint32_t kept = 0;
    if (r.op == OPFUNC_NONE)
        return LOWER_NO(w, op, "the card reduces floating-point numbers by sum, maximum, minimum");
    TRY(lower_in_lx(w, op, lower_operand(w, op, 0)->tensor, &r.in));
    if (r.in.format != SPYRE_FORMAT_SEN169_FP16 && r.in.format != SPYRE_FORMAT_IEEE_FP32)
        return LOWER_NO(w, op, "the card reduces floating-point numbers");
    if (!dims->count) return LOWER_NO(w, op, "a reduction of no dim");
    for (uint32_t n = 0; n < dims->count; n++) r.reduced |= 1u << dims->list[n];
    for (uint32_t d = 0; d < r.in.rank; d++)
        if (!(r.reduced >> d & 1)) size[kept++] = r.in.size[d];
    if (r.reduced >> (r.in.rank - 1) & 1) size[kept++] = r.lanes = lanes_of(r.in.format);
    TRY(lower_scratch(w, op, SPYRE_FORMAT_IEEE_FP32, kept, size, lower_number(w, op), &r.sums));
    lowered_tensor neutral = {.is_constant = true, .rank = kept,
                              .format = SPYRE_FORMAT_IEEE_FP32,
                              .value = (double)opfunc_reduction_identity(r.op)};
    memcpy(neutral.size, size, kept * sizeof *size);
    TRY(lower_copy(w, op, &r.sums, &neutral));
    int64_t length = r.lanes > 1 ? r.in.size[r.in.rank - 1] : 1, tiles = length / r.lanes;
    if (r.lanes == 1 || tiles) TRY(emit_reduce(w, op, &r, 0, tiles, r.lanes));
    if (length % r.lanes) TRY(emit_reduce(w, op, &r, tiles * r.lanes, 1, length % r.lanes));
    if (r.lanes > 1) TRY(emit_fold(w, op, &r));
    return finish_reduce(w, op, &r, start);
}

// --- Regions over elements: every operation of the region on whole tensors of the iteration space.

static spyre_status bind(lowering *w, const ktir_op *op, uint32_t n, uint32_t rank,
                         const int64_t *extent)
{
    const ktir_map *map = ktir_find(w->m, op, KTIR_KEY_INDEXING_MAPS)->maps[n];
    uint32_t argument = ktir_op_region(w->m, op, 0)->first_argument + n;
    const lowered_tensor *from = lower_operand(w, op, n)->tensor;
    lowered_tensor *t = ARENA_NEW(w->memory, lowered_tensor, 1);
    TRY_ALLOC(t);
    *t = *from;
    t->rank = rank;
    memset(t->stride, 0, sizeof t->stride);
    memcpy(t->size, extent, rank * sizeof *extent);
    for (uint32_t k = 0; k < map->count; k++)
        t->stride[map->results[k]->number] += from->stride[k];
    w->cells[argument].tensor = t;
    return NULL;
}

// What the card computes of integers that are not negative, in fp64 and back.
static opfunc natural_function(ktir_integer integer)
{
    switch ((int)integer) {
    case KTIR_INTEGER_ADD: return OPFUNC_ADD;
    case KTIR_INTEGER_MUL: return OPFUNC_MUL;
    case KTIR_INTEGER_DIV: case KTIR_INTEGER_UDIV: case KTIR_INTEGER_FLOORDIV:
        return OPFUNC_FLOORDIV;
    case KTIR_INTEGER_REM: case KTIR_INTEGER_UREM: return OPFUNC_REMAINDER;
    case KTIR_INTEGER_MAX: case KTIR_INTEGER_UMAX: return OPFUNC_MAXIMUM;
    case KTIR_INTEGER_MIN: case KTIR_INTEGER_UMIN: return OPFUNC_MINIMUM;
    default: return OPFUNC_NONE;
    }
}

static opfunc point_function(const lowering *w, const ktir_op *op)
{
    const ktir_op_info *info = ktir_op_describe(op->opcode);
    bool casts = op->opcode == KTIR_OP_EXTF || op->opcode == KTIR_OP_TRUNCF ||
                 op->opcode == KTIR_OP_SITOFP || op->opcode == KTIR_OP_INDEX_CAST;
    if (info->form == KTIR_FORM_SELECT) return OPFUNC_WHERE3;
    if (info->form == KTIR_FORM_COMPARE)
        return ktir_predicates[ktir_number(w->m, op, KTIR_KEY_PREDICATE, 0)].relation;
    if (info->form == KTIR_FORM_CAST) return casts ? OPFUNC_IDENTITY : OPFUNC_NONE;
    return info->integer == KTIR_INTEGER_NONE ? info->op : natural_function(info->integer);
}

// Operand n of an operation of the region; numbers of the cores become elements.
static spyre_status point_operand(lowering *w, const ktir_op *op, const ktir_op *inner, uint32_t n,
                                  lowered_tensor *made, const lowered_tensor **out)
{
    const lowered_cell *cell = lower_operand(w, inner, n);
    bool integers = !ktir_element_describe(ktir_operand_type(w->m, inner, n)->element)->is_float;
    *out = cell->tensor;
    if (!cell->tensor) {
        TRY(lower_number_tensor(w, op, cell->index, made));
        *out = made;
    }
    bool condition = ktir_operand_type(w->m, inner, n)->element == KTIR_I1;
    if (!integers || condition || (*out)->is_natural) return NULL;
    return LOWER_NO(w, inner, "integers that may be negative");
}

static bool all_numbers(const lowering *w, const ktir_op *op)
{
    for (uint32_t n = 0; n < op->operand_count; n++)
        if (!lower_operand(w, op, n)->index) return false;
    return op->operand_count;
}

static spyre_status count_points(lowering *w, const ktir_op *op, const ktir_op *inner,
                                 uint32_t rank, const int64_t *extent)
{
    int64_t dim = ktir_number(w->m, inner, KTIR_KEY_VALUE, 0);
    lowered_tensor *t = ARENA_NEW(w->memory, lowered_tensor, 1);
    TRY_ALLOC(t);
    if (dim < 0 || dim >= rank) return LOWER_NO(w, inner, "there is no dim %lld", (long long)dim);
    w->cells[inner->first_result].tensor = t;
    return lower_count_along(w, op, lower_number(w, op), rank, extent, (uint32_t)dim, t);
}

// An operation of the region, for all points.
static spyre_status point_op(lowering *w, const ktir_op *op, const ktir_op *inner, uint32_t rank,
                             const int64_t *extent)
{
    const ktir_op_info *info = ktir_op_describe(inner->opcode);
    const lowered_tensor *inputs[3];
    lowered_tensor made[3], *out;
    bool done = true;
    if (info->form == KTIR_FORM_LINALG_INDEX) return count_points(w, op, inner, rank, extent);
    if (info->form > KTIR_FORM_CAST) return LOWER_NO(w, inner, "it is no operation on elements");
    if (info->form == KTIR_FORM_CONSTANT || all_numbers(w, inner)) {
        TRY(lower_indices(w, inner, &done));
        return done ? NULL : lower_arith(w, inner);
    }
    opfunc function = point_function(w, inner);
    if (function == OPFUNC_NONE || inner->operand_count > 3)
        return LOWER_NO(w, inner, "the card has no opfunc for it");
    for (uint32_t n = 0; n < inner->operand_count; n++)
        TRY(point_operand(w, op, inner, n, &made[n], &inputs[n]));
    uint32_t value = inner->first_result, last = lower_number(w, op);
    ktir_element element = ktir_result_type(w->m, inner)->element;
    if (w->last_use[value] < last) w->last_use[value] = last;
    bool natural = !ktir_element_describe(element)->is_float && element != KTIR_I1;
    TRY(lower_new(w, op, value, natural ? KTIR_I32 : element, rank, extent, &out));
    out->is_natural = natural;
    return lower_vector(w, inner, function, out, inputs, inner->operand_count);
}

static spyre_status generic(lowering *w, const ktir_op *op)
{
    const ktir_attribute *iterators = ktir_find(w->m, op, KTIR_KEY_ITERATORS);
    const ktir_attribute *maps = ktir_find(w->m, op, KTIR_KEY_INDEXING_MAPS);
    const ktir_region *region = ktir_op_region(w->m, op, 0);
    uint32_t outs = op->operand_count - 1, permutation[KTIR_MOST_RANK];
    int64_t extent[KTIR_MOST_RANK] = {0};
    for (uint32_t d = 0; d < iterators->count; d++)
        if (iterators->list[d]) return LOWER_NO(w, op, "a reduction by a region over elements");
    if (!ktir_map_permutation(maps->maps[outs], permutation))
        return LOWER_NO(w, op, "outs is walked by less than all dims");
    const lowered_tensor *target = lower_operand(w, op, outs)->tensor;
    for (uint32_t k = 0; k < iterators->count; k++) extent[permutation[k]] = target->size[k];
    for (uint32_t n = 0; n < op->operand_count; n++)
        TRY(bind(w, op, n, iterators->count, extent));
    const ktir_op *yield = &w->m->ops.items[region->end - 1];
    for (uint32_t n = region->begin; n + 1 < region->end; n++)
        TRY(point_op(w, op, &w->m->ops.items[n], iterators->count, extent));
    const lowered_tensor *result = lower_operand(w, yield, 0)->tensor;
    if (!result) return LOWER_NO(w, yield, "it yields a number of the cores");
    lowered_tensor *out = ARENA_NEW(w->memory, lowered_tensor, 1);
    TRY_ALLOC(out);
    *out = *result;
    for (uint32_t k = 0; k < iterators->count; k++) {
        out->size[k] = extent[permutation[k]];
        out->stride[k] = result->rank ? result->stride[permutation[k]] : 0;
    }
    out->rank = iterators->count;
    lower_set_tensor(w, op->first_result, out);
    return NULL;
}

static spyre_status map(lowering *w, const ktir_op *op)
{
    ktir_opcode opcode = combiner_opcode(w->m, op);
    if (opcode == KTIR_OP_COUNT || !ktir_find(w->m, op, KTIR_KEY_COMBINER))
        return LOWER_NO(w, op, "a region over elements: linalg.generic is lowered");
    const ktir_op_info *info = ktir_op_describe(opcode);
    const lowered_tensor *inputs[2];
    lowered_tensor *out;
    uint32_t count = op->operand_count - 1;
    for (uint32_t n = 0; n < count; n++) inputs[n] = lower_operand(w, op, n)->tensor;
    if (info->op == OPFUNC_NONE) return LOWER_NO(w, op, "the card has no opfunc for it");
    TRY(lower_result(w, op, ktir_result_type(w->m, op)->element,
                     lower_operand(w, op, count)->tensor->rank,
                     lower_operand(w, op, count)->tensor->size, &out));
    return lower_vector(w, op, info->op, out, inputs, count);
}

spyre_status lower_linalg(lowering *w, const ktir_op *op)
{
    switch ((int)ktir_op_describe(op->opcode)->form) {
    case KTIR_FORM_MATMUL: return matmul(w, op);
    case KTIR_FORM_LINALG_REDUCE: return reduce(w, op);
    case KTIR_FORM_GENERIC: return generic(w, op);
    case KTIR_FORM_MAP: return map(w, op);
    default: return LOWER_NO(w, op, "the card has no numbers of elements");
    }
}
