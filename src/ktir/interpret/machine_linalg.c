// SPDX-License-Identifier: Apache-2.0
//
// Products, reductions and regions over elements. The orders of additions are those of the card:
// interpreter.h has them.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/odometer.h"
#include "ktir/ir/combiner.h"
#include "ktir/ir/contraction.h"
#include "ktir/interpret/machine.h"

// --- Products

typedef struct {
    int64_t size[KTIR_AXES];
    int64_t stride[3][KTIR_AXES];       // of the factors and of the result, in elements
} product;

static spyre_status product_of(tile *t, const ktir_op *op, product *p)
{
    const ktir_contraction c = ktir_contraction_of(op->opcode);
    *p = (product){.size = {-1, -1, -1, -1}};
    for (uint32_t n = 0; n < 3; n++) {
        const ktir_tensor *from = machine_tensor(t, op, n);
        int64_t stride = 1;
        for (uint32_t d = c.rank[n]; d-- > 0; stride *= from->size[d]) {
            ktir_axis axis = c.axis[n][d];
            if (p->size[axis] >= 0 && p->size[axis] != from->size[d])
                return machine_fault(t, op, "factors that do not fit: %lld and %lld",
                                     (long long)p->size[axis], (long long)from->size[d]);
            p->size[axis] = from->size[d];
            p->stride[n][axis] = stride;
        }
    }
    for (uint32_t axis = 0; axis < KTIR_AXES; axis++)
        if (p->size[axis] < 0) p->size[axis] = 1;
    return NULL;
}

// One row of the result; `a` and `b` are the row of one factor and the matrix of the other.
static void real_row(const product *p, const ktir_number_value *a, const ktir_number_value *b,
                     ktir_element element, ktir_number_value *out, float *sums)
{
    int64_t columns = p->size[KTIR_AXIS_N], next = p->stride[1][KTIR_AXIS_N];
    for (int64_t n = 0; n < columns; n++) sums[n] = (float)out[n * p->stride[2][KTIR_AXIS_N]].real;
    for (int64_t k = 0; k < p->size[KTIR_AXIS_K]; k++) {
        float factor = (float)a[k * p->stride[0][KTIR_AXIS_K]].real;
        const ktir_number_value *row = b + k * p->stride[1][KTIR_AXIS_K];
        for (int64_t n = 0; n < columns; n++)
            sums[n] = fmaf(factor, (float)row[n * next].real, sums[n]);
    }
    for (int64_t n = 0; n < columns; n++)
        out[n * p->stride[2][KTIR_AXIS_N]].real = ktir_round(element, (double)sums[n]);
}

static void integer_row(const product *p, const ktir_number_value *a, const ktir_number_value *b,
                        ktir_element element, ktir_number_value *out)
{
    for (int64_t n = 0; n < p->size[KTIR_AXIS_N]; n++) {
        int64_t *sum = &out[n * p->stride[2][KTIR_AXIS_N]].integer;
        for (int64_t k = 0; k < p->size[KTIR_AXIS_K]; k++) {
            uint64_t x = (uint64_t)a[k * p->stride[0][KTIR_AXIS_K]].integer;
            uint64_t y = (uint64_t)b[k * p->stride[1][KTIR_AXIS_K] +
                                     n * p->stride[1][KTIR_AXIS_N]].integer;
            *sum = ktir_wrap(element, (int64_t)((uint64_t)*sum + x * y));
        }
    }
}

static spyre_status matmul(tile *t, const ktir_op *op)
{
    const ktir_tensor *c = machine_tensor(t, op, 2);
    bool real = ktir_element_describe(c->element)->is_float;
    product p;
    TRY(product_of(t, op, &p));
    ktir_tensor *out = ktir_tensor_like(c);
    float *sums = malloc((size_t)p.size[KTIR_AXIS_N] * sizeof *sums + 1);
    if (out) memcpy(out->at, c->at, (size_t)c->count * sizeof *c->at);
    for (int64_t r = 0; out && sums && r < p.size[KTIR_AXIS_B] * p.size[KTIR_AXIS_M]; r++) {
        int64_t batch = r / p.size[KTIR_AXIS_M], row = r % p.size[KTIR_AXIS_M], at[3];
        for (uint32_t n = 0; n < 3; n++)
            at[n] = batch * p.stride[n][KTIR_AXIS_B] + row * p.stride[n][KTIR_AXIS_M];
        const ktir_number_value *a = machine_tensor(t, op, 0)->at + at[0];
        const ktir_number_value *b = machine_tensor(t, op, 1)->at + at[1];
        if (real) real_row(&p, a, b, c->element, out->at + at[2], sums);
        else integer_row(&p, a, b, c->element, out->at + at[2]);
    }
    if (!sums) {
        ktir_tensor_drop(out);
        out = NULL;
    }
    free(sums);
    return machine_give(t, op, op->first_result, out);
}

// --- Reductions

// Some dims of an operand; strides in elements.
typedef struct {
    uint32_t rank;
    int64_t size[KTIR_MOST_RANK], stride[KTIR_MOST_RANK];
} dims;

static void add_dim(dims *to, int64_t size, int64_t stride)
{
    to->size[to->rank] = size;
    to->stride[to->rank++] = stride;
}

typedef struct {
    const ktir_tensor *from;
    dims reduced, kept;
    opfunc op;
    uint32_t lanes;                     // above 1: the last dim is reduced, over lanes
} reduction;

// The reduction of one result in fp32: `first` is its first element.
static float reduce_one(const reduction *r, int64_t first)
{
    float sums[SPYRE_STICK_BYTES];
    int64_t index[KTIR_MOST_RANK] = {0};
    bool lanes = r->lanes > 1;
    uint32_t rank = r->reduced.rank - lanes;
    int64_t length = lanes ? r->reduced.size[rank] : 1;
    odometer_place row = {r->reduced.stride, first};
    for (uint32_t l = 0; l < r->lanes; l++) sums[l] = opfunc_reduction_identity(r->op);
    do {
        for (int64_t i = 0; i < length; i++) {
            float *sum = &sums[i % r->lanes];
            *sum = opfunc_combine(r->op, *sum, (float)r->from->at[row.at + i].real);
        }
    } while (odometer_next(rank, r->reduced.size, index, &row, 1));
    for (uint32_t half = r->lanes / 2; half > 0; half /= 2)
        for (uint32_t l = 0; l < half; l++)
            sums[l] = opfunc_combine(r->op, sums[l], sums[l + half]);
    return sums[0];
}

typedef struct reducing reducing;
struct reducing {
    tile *t;
    const ktir_op *op;
    const reduction *r;
    const ktir_tensor *outs;
    ktir_tensor *out;
    spyre_status (*combine)(const reducing *x, ktir_number_value in, ktir_number_value *sum);
};

static spyre_status combine_by_region(const reducing *x, ktir_number_value in,
                                      ktir_number_value *sum)
{
    const ktir_region *region = ktir_op_region(x->t->x->m, x->op, 0);
    const machine_cell *yielded;
    machine_set(x->t, region->first_argument, in);
    machine_set(x->t, region->first_argument + 1, *sum);
    TRY(machine_region(x->t, x->op, 0, &yielded));
    *sum = yielded->number;
    return NULL;
}

// { arith.addi }: without a region.
static spyre_status combine_brief(const reducing *x, ktir_number_value in, ktir_number_value *sum)
{
    ktir_element element = x->r->from->element;
    const ktir_op_info *info = ktir_op_describe(combiner_opcode(x->t->x->m, x->op));
    if (info->integer != KTIR_INTEGER_NONE) {
        if (ktir_integer_apply(info->integer, element, in.integer, sum->integer, &sum->integer))
            return NULL;
        return machine_fault(x->t, x->op, "%s has no result", info->mnemonic);
    }
    const double both[2] = {in.real, sum->real};
    sum->real = ktir_round(element, opfunc_apply(info->op, both, 2, NULL));
    return NULL;
}

// Result number `result`, whose first element is `first`; element by element unless the card has
// the reduction.
static spyre_status reduce_result(const reducing *x, int64_t result, int64_t first)
{
    const reduction *r = x->r;
    ktir_number_value sum = x->outs->at[result];
    if (r->op != OPFUNC_NONE) {
        const double values[] = {(double)reduce_one(r, first), sum.real};
        opfunc both = opfunc_pairwise(r->op);
        x->out->at[result].real = ktir_round(x->out->element, opfunc_apply(both, values, 2, NULL));
        return NULL;
    }
    int64_t index[KTIR_MOST_RANK] = {0};
    odometer_place element = {r->reduced.stride, first};
    do TRY(x->combine(x, r->from->at[element.at], &sum));
    while (odometer_next(r->reduced.rank, r->reduced.size, index, &element, 1));
    x->out->at[result] = sum;
    return NULL;
}

static spyre_status reduce_all(const reducing *x)
{
    int64_t index[KTIR_MOST_RANK] = {0}, result = 0;
    odometer_place first = {x->r->kept.stride, 0};
    do TRY(reduce_result(x, result++, first.at));
    while (odometer_next(x->r->kept.rank, x->r->kept.size, index, &first, 1));
    return NULL;
}

static spyre_status reduce(tile *t, const ktir_op *op)
{
    const ktir_module *m = t->x->m;
    const ktir_tensor *from = machine_tensor(t, op, 0), *outs = machine_tensor(t, op, 1);
    const ktir_attribute *list = ktir_find(m, op, KTIR_KEY_DIMENSIONS);
    reduction r = {.from = from, .op = combiner_reduction(m, op), .lanes = 1};
    int64_t stride = from->count;
    uint32_t reduced = 0;
    if (!list->count) {
        machine_copy(t, op->first_result, machine_operand(t, op, 0));
        return NULL;
    }
    for (uint32_t n = 0; n < list->count; n++) reduced |= 1u << list->list[n];
    for (uint32_t d = 0; d < from->rank && from->count; d++) {
        stride /= from->size[d];
        add_dim(reduced >> d & 1 ? &r.reduced : &r.kept, from->size[d], stride);
    }
    if (reduced >> (from->rank - 1) & 1)
        r.lanes = spyre_format_elements_per_stick(ktir_element_describe(from->element)->format);
    if (outs->count == 0 || from->count == 0) {
        machine_copy(t, op->first_result, machine_operand(t, op, 1));
        return NULL;
    }
    reducing x = {.t = t, .op = op, .r = &r, .outs = outs, .out = ktir_tensor_like(outs)};
    if (x.out) {
        x.combine = ktir_find(m, op, KTIR_KEY_COMBINER) ? combine_brief : combine_by_region;
        spyre_status status = reduce_all(&x);
        if (status) {
            ktir_tensor_drop(x.out);
            return status;
        }
    }
    return machine_give(t, op, op->first_result, x.out);
}

// --- Regions over elements

typedef struct {
    uint32_t rank;
    int64_t extent[KTIR_MOST_RANK];
    int64_t first[KTIR_MOST_NAMES];                     // element of an operand
    int64_t stride[KTIR_MOST_NAMES][KTIR_MOST_RANK];    // of an operand along a dim
} space;

static spyre_status space_of(tile *t, const ktir_op *op, space *s)
{
    const ktir_module *m = t->x->m;
    const ktir_attribute *maps = ktir_find(m, op, KTIR_KEY_INDEXING_MAPS);
    s->rank = ktir_find(m, op, KTIR_KEY_ITERATORS)->count;
    for (uint32_t d = 0; d < s->rank; d++) s->extent[d] = -1;
    for (uint32_t n = 0; n < op->operand_count; n++) {
        const ktir_tensor *operand = machine_tensor(t, op, n);
        int64_t stride = 1;
        for (uint32_t k = operand->rank; k-- > 0; stride *= operand->size[k]) {
            const ktir_expr *e = maps->maps[n]->results[k];
            int64_t d = e->number;
            if (e->kind == KTIR_EXPR_NUMBER) {
                s->first[n] += d * stride;
                if (d < operand->size[k]) continue;
                return machine_fault(t, op, "its map asks for index %lld of %lld", (long long)d,
                                     (long long)operand->size[k]);
            }
            s->stride[n][d] += stride;
            if (s->extent[d] >= 0 && s->extent[d] != operand->size[k])
                return machine_fault(t, op, "dim d%lld has %lld and %lld points", (long long)d,
                                     (long long)s->extent[d], (long long)operand->size[k]);
            s->extent[d] = operand->size[k];
        }
    }
    return NULL;
}

static spyre_status run_points(tile *t, const ktir_op *op, const space *s, ktir_tensor *out)
{
    const ktir_region *region = ktir_op_region(t->x->m, op, 0);
    uint32_t operands = op->operand_count;
    odometer_place place[KTIR_MOST_NAMES];
    for (uint32_t n = 0; n < operands; n++) place[n] = (odometer_place){s->stride[n], s->first[n]};
    memset(t->indices, 0, sizeof t->indices);
    do {
        const machine_cell *yielded;
        for (uint32_t n = 0; n < operands; n++) {
            const ktir_tensor *from = n + 1 < operands ? machine_tensor(t, op, n) : out;
            machine_set(t, region->first_argument + n, from->at[place[n].at]);
        }
        TRY(machine_region(t, op, 0, &yielded));
        out->at[place[operands - 1].at] = yielded->number;
    } while (odometer_next(s->rank, s->extent, t->indices, place, operands));
    return NULL;
}

static spyre_status generic(tile *t, const ktir_op *op)
{
    const ktir_tensor *outs = machine_tensor(t, op, op->operand_count - 1);
    space s = {0};
    if (op->operand_count > KTIR_MOST_NAMES)
        return machine_fault(t, op, "more than %d operands", KTIR_MOST_NAMES);
    TRY(space_of(t, op, &s));
    ktir_tensor *out = ktir_tensor_like(outs);
    if (out) {
        bool empty = false;
        for (uint32_t d = 0; d < s.rank; d++) empty = empty || s.extent[d] < 1;
        memcpy(out->at, outs->at, (size_t)outs->count * sizeof *outs->at);
        spyre_status status = empty ? NULL : run_points(t, op, &s, out);
        if (status) {
            ktir_tensor_drop(out);
            return status;
        }
    }
    return machine_give(t, op, op->first_result, out);
}

static spyre_status map_points(tile *t, const ktir_op *op, ktir_tensor *out)
{
    const ktir_region *region = ktir_op_region(t->x->m, op, 0);
    for (int64_t i = 0; i < out->count; i++) {
        const machine_cell *yielded;
        for (uint32_t n = 0; n + 1 < op->operand_count; n++) {
            const ktir_tensor *from = machine_tensor(t, op, n);
            if (from->count != out->count)
                return machine_fault(t, op, "ins of %lld elements, outs of %lld",
                                     (long long)from->count, (long long)out->count);
            machine_set(t, region->first_argument + n, from->at[i]);
        }
        TRY(machine_region(t, op, 0, &yielded));
        out->at[i] = yielded->number;
    }
    return NULL;
}

static spyre_status map(tile *t, const ktir_op *op)
{
    if (ktir_find(t->x->m, op, KTIR_KEY_COMBINER)) {
        // The operation by its name, on whole tensors.
        ktir_op named = *op;
        named.opcode = combiner_opcode(t->x->m, op);
        named.operand_count--;
        return t->x->compute(t, &named);
    }
    ktir_tensor *out = ktir_tensor_like(machine_tensor(t, op, op->operand_count - 1));
    spyre_status status = out ? map_points(t, op, out) : NULL;
    if (status) {
        ktir_tensor_drop(out);
        return status;
    }
    return machine_give(t, op, op->first_result, out);
}

spyre_status machine_linalg(tile *t, const ktir_op *op, ktir_form form)
{
    switch ((int)form) {
    case KTIR_FORM_MATMUL: return matmul(t, op);
    case KTIR_FORM_LINALG_REDUCE: return reduce(t, op);
    case KTIR_FORM_GENERIC: return generic(t, op);
    case KTIR_FORM_MAP: return map(t, op);
    default: {
        int64_t dim = ktir_number(t->x->m, op, KTIR_KEY_VALUE, 0);
        if (dim < 0 || dim >= KTIR_MOST_RANK) return machine_fault(t, op, "there is no dim");
        machine_set(t, op->first_result, (ktir_number_value){.integer = t->indices[dim]});
        return NULL;
    }
    }
}
