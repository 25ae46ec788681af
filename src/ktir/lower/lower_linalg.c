// SPDX-License-Identifier: Apache-2.0
//
// Products on the PT, reductions on the SFP, named operations as vector instructions.
#include <string.h>

#include "ktir/ir/combiner.h"
#include "ktir/ir/contraction.h"
#include "ktir/lower/lowering.h"
#include "tensor/opfunc.h"

// --- Products

static uint32_t lanes_of(spyre_format format)
{
    return spyre_format_elements_per_stick(format);
}

// Operand n of the product as a matrix with these columns, of one batch. What it lacks is one row
// or column.
static lowered_tensor matrix_of(const ktir_contraction *c, uint32_t n, const lowered_tensor *t,
                                int64_t batch, ktir_axis columns)
{
    lowered_tensor m = *t;
    m.rank = 2;
    m.size[0] = m.size[1] = 1;
    m.stride[0] = m.stride[1] = spyre_format_bytes(t->format);
    for (uint32_t d = 0; d < c->rank[n]; d++) {
        ktir_axis axis = c->axis[n][d];
        if (axis == KTIR_AXIS_B) {
            m.offset += t->is_constant ? 0 : batch * t->stride[d];
            continue;
        }
        m.size[axis == columns] = t->size[d];
        m.stride[axis == columns] = t->stride[d];
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
    TRY(lower_scratch(w, op, t->format, (lowered_sizes){2, size}, lower_number(w, op), &copy));
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
        TRY(lower_scratch(w, op, SPYRE_FORMAT_IEEE_FP32, (lowered_sizes){2, size},
                          lower_number(w, op), &sums));
    else sums = *out;
    // Columns behind the last one asked for, up to the end of the stick, begin as zeros, too.
    lowered_tensor whole = sums;
    if (start->is_constant) {
        lowered_tensor value = *start;
        value.size[1] = columns;
        TRY(lower_copy(w, op, &whole, &value));
    } else if (own) {
        const lowered_tensor zero = lower_constant(sums.format, 0);
        if (columns != b.size[1]) TRY(lower_copy(w, op, &whole, &zero));
        whole.size[1] = b.size[1];
        TRY(lower_copy(w, op, &whole, start));
    }
    TRY(emit_product(w, op, &a, &b, &sums));
    if (!own) return NULL;
    sums.size[1] = b.size[1];
    return lower_copy(w, op, out, &sums);
}

// As sum after sum of rows times columns, on the SFP, in a loop of the card over k.
static spyre_status integer_product(lowering *w, const ktir_op *op, const lowered_tensor *a,
                                    const lowered_tensor *b, const lowered_tensor *start,
                                    const lowered_tensor *out)
{
    lowered_tensor wide[2], part, x, y;
    const lowered_tensor *from[2] = {a, b};
    for (uint32_t n = 0; n < 2; n++) {
        TRY(lower_scratch(w, op, out->format, (lowered_sizes){2, from[n]->size},
                          lower_number(w, op), &wide[n]));
        wide[n].element = out->element;
        TRY(lower_copy(w, op, &wide[n], from[n]));
    }
    TRY(lower_scratch(w, op, out->format, (lowered_sizes){2, out->size}, lower_number(w, op),
                      &part));
    part.element = out->element;
    TRY(lower_copy(w, op, out, start));
    TRY(lower_loop(w, op, a->size[1]));
    uint32_t begin = w->program->code.count;
    x = y = *out;
    x.offset = wide[0].offset;
    x.stride[0] = wide[0].stride[0];
    y.offset = wide[1].offset;
    y.stride[1] = wide[1].stride[1];
    x.stride[1] = y.stride[0] = 0;
    x.loop[w->depth - 1] = wide[0].stride[1];
    y.loop[w->depth - 1] = wide[1].stride[0];
    const lowered_tensor *factors[] = {&x, &y}, *terms[] = {out, &part};
    TRY(lower_integer(w, op, KTIR_INTEGER_MUL, &part, factors, 2));
    TRY(lower_integer(w, op, KTIR_INTEGER_ADD, out, terms, 2));
    return lower_end_loop(w, lower_first_queue(w, begin));
}

// Types may leave sizes open. *out_size: of the axes.
static bool fits(const lowering *w, const ktir_op *op, const ktir_contraction *c,
                 int64_t *out_size)
{
    for (uint32_t axis = 0; axis < KTIR_AXES; axis++) out_size[axis] = 0;
    for (uint32_t n = 0; n < 3; n++)
        for (uint32_t d = 0; d < c->rank[n]; d++) {
            int64_t *known = &out_size[c->axis[n][d]];
            int64_t size = lower_operand(w, op, n)->tensor->size[d];
            if (*known && *known != size) return false;
            *known = size;
        }
    return true;
}

static spyre_status matmul(lowering *w, const ktir_op *op)
{
    const ktir_contraction c = ktir_contraction_of(op->opcode);
    const lowered_tensor *a = lower_operand(w, op, 0)->tensor;
    const lowered_tensor *b = lower_operand(w, op, 1)->tensor;
    const lowered_tensor *start = lower_operand(w, op, 2)->tensor;
    ktir_element element = ktir_result_type(w->m, op)->element;
    int64_t size[KTIR_AXES];
    lowered_tensor *out;
    if (!fits(w, op, &c, size))
        return ktir_error(w->m, op, SPYRE_DEVICE_FAULT, "factors that do not fit the result");
    TRY(lower_new(w, op, op->first_result, element, lower_sizes(start), &out));
    bool real = ktir_element_describe(element)->is_float;
    for (int64_t n = 0; n < (size[KTIR_AXIS_B] ? size[KTIR_AXIS_B] : 1); n++) {
        lowered_tensor from = matrix_of(&c, 2, start, n, KTIR_AXIS_N);
        lowered_tensor to = matrix_of(&c, 2, out, n, KTIR_AXIS_N);
        lowered_tensor left = matrix_of(&c, 0, a, n, KTIR_AXIS_K);
        lowered_tensor right = matrix_of(&c, 1, b, n, KTIR_AXIS_N);
        const lowered_heap before = w->heap;
        TRY(real ? product(w, op, left, right, &from, &to)
                 : integer_product(w, op, &left, &right, &from, &to));
        w->heap = before;               // the next batch has the same room
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
    TRY(lower_new(w, op, op->first_result, ktir_result_type(w->m, op)->element, lower_sizes(start),
                  &out));
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
    if (r.op == OPFUNC_NONE) return lower_reduce_in_loops(w, op);
    TRY(lower_in_lx(w, op, lower_operand(w, op, 0)->tensor, &r.in));
    if (!dims->count) return LOWER_NO(w, op, "a reduction of no dim");
    for (uint32_t n = 0; n < dims->count; n++) r.reduced |= 1u << dims->list[n];
    for (uint32_t d = 0; d < r.in.rank; d++)
        if (!(r.reduced >> d & 1)) size[kept++] = r.in.size[d];
    if (r.reduced >> (r.in.rank - 1) & 1) size[kept++] = r.lanes = lanes_of(r.in.format);
    TRY(lower_scratch(w, op, SPYRE_FORMAT_IEEE_FP32, (lowered_sizes){kept, size},
                      lower_number(w, op), &r.sums));
    const lowered_tensor neutral = lower_constant(SPYRE_FORMAT_IEEE_FP32,
                                                  (double)opfunc_reduction_identity(r.op));
    TRY(lower_copy(w, op, &r.sums, &neutral));
    int64_t length = r.lanes > 1 ? r.in.size[r.in.rank - 1] : 1, tiles = length / r.lanes;
    if (r.lanes == 1 || tiles) TRY(emit_reduce(w, op, &r, 0, tiles, r.lanes));
    if (length % r.lanes) TRY(emit_reduce(w, op, &r, tiles * r.lanes, 1, length % r.lanes));
    if (r.lanes > 1) TRY(emit_fold(w, op, &r));
    return finish_reduce(w, op, &r, start);
}

// --- linalg.map of a named operation

static spyre_status map(lowering *w, const ktir_op *op)
{
    if (!ktir_find(w->m, op, KTIR_KEY_COMBINER)) return lower_map_region(w, op);
    const lowered_tensor *inputs[3];
    lowered_tensor *out;
    uint32_t count = op->operand_count - 1;
    for (uint32_t n = 0; n < count; n++) inputs[n] = lower_operand(w, op, n)->tensor;
    TRY(lower_result(w, op, ktir_result_type(w->m, op)->element,
                     lower_operand(w, op, count)->tensor->rank,
                     lower_operand(w, op, count)->tensor->size, &out));
    return lower_elements(w, op, combiner_opcode(w->m, op), out, inputs, count);
}

spyre_status lower_linalg(lowering *w, const ktir_op *op)
{
    switch ((int)ktir_op_describe(op->opcode)->form) {
    case KTIR_FORM_MATMUL: return matmul(w, op);
    case KTIR_FORM_LINALG_REDUCE: return reduce(w, op);
    case KTIR_FORM_GENERIC: return lower_generic(w, op);
    case KTIR_FORM_MAP: return map(w, op);
    default: return LOWER_NO(w, op, "the card has no numbers of elements");
    }
}
