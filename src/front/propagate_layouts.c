// SPDX-License-Identifier: Apache-2.0
//
// propagate_layouts: walks the ops in order and gives each result a stick. Rules by kind:
//   element-wise  all operands that move along the result's stick carry it there; those that do not
//                 are broadcast from lane 0 (one element a stick)
//   reduction     takes its input as it is; reducing the stick leaves one element a stick
//   batchmatmul   A sticks on a contracted variable, B and the result on a column variable
//   gather        the table and the result stick on a row variable
// The element-wise choice is the variable that leaves the fewest elements to restickify; ties go to
// the innermost host dim. Where an operand disagrees, relayout.c inserts restickify ops.
#include "front/front.h"
#include "front/relayout.h"

typedef struct {
    relayouter relayout;
    uint16_t *sticks; // by buffer: bit d: its stick may run along dim d, bit SPARSE: along none
} layouter;

enum { SPARSE = LOOP_MAX_DIMS };

static int64_t elements_of(const loop_op *op, const loop_access *access)
{
    int64_t count = 1;
    for (uint32_t v = 0; v < op->var_count; v++)
        if (access->stride[v]) count *= op->extent[v];
    return count;
}

static uint8_t wanted(const loop_op *op, uint32_t operand, uint8_t stick)
{
    return stick != LOOP_NO_DIM && op->operand[operand].stride[stick] ? stick : LOOP_NO_DIM;
}

// Elements that a stick along `stick` would have to restickify.
static int64_t relayout_cost(const loop_graph *loops, const loop_op *op, uint8_t stick)
{
    int64_t cost = 0;
    for (uint32_t k = 0; k + 1 < op->operand_count; k++) {
        loop_location place;
        bool located = !loop_locate(loops, op, &op->operand[k], &place);
        if (!located)
            cost += 2 * elements_of(op, &op->operand[k]);
        else if (place.stick_var != wanted(op, k, stick))
            cost += elements_of(op, &op->operand[k]);
    }
    return cost;
}

// Removes the sticks that this writer of a local buffer cannot use. A buffer may be written in
// pieces, so all its writers are asked before the first one chooses. A piece that does not move along
// the stick would write whole sticks with one element each.
static void restrict_sticks(const layouter *l, const loop_op *op)
{
    const loop_graph *loops = l->relayout.loops;
    const loop_access *access = &op->operand[op->operand_count - 1];
    loop_buffer *buffer = &loops->buffers.items[access->buffer];
    uint16_t *sticks = &l->sticks[access->buffer];
    for (uint8_t d = 0; d <= SPARSE; d++) {
        if (!(*sticks & 1u << d)) continue;
        loop_location place;
        loop_set_layout(buffer, d == SPARSE ? LOOP_NO_DIM : d);
        bool fits = !loop_locate(loops, op, access, &place);
        if (fits && d != SPARSE) fits = place.stick_var != LOOP_NO_DIM;
        if (!fits) *sticks &= (uint16_t) ~(1u << d);
    }
    buffer->has_layout = false;
}

static spyre_status collect_sticks(layouter *l)
{
    const loop_graph *loops = l->relayout.loops;
    l->sticks = ARENA_NEW(loops->memory, uint16_t, loops->buffers.count);
    TRY_ALLOC(l->sticks);
    for (uint32_t b = 0; b < loops->buffers.count; b++)
        l->sticks[b] = (uint16_t)((1u << loops->buffers.items[b].dim_count) - 1) | 1u << SPARSE;
    for (uint32_t i = 0; i < loops->ops.count; i++) restrict_sticks(l, &loops->ops.items[i]);
    return NULL;
}

// True when the result's buffer may carry its stick along variable v.
static bool result_allows(const layouter *l, loop_op *op, uint8_t v)
{
    const loop_graph *loops = l->relayout.loops;
    const loop_access *access = loop_output_of(op);
    const loop_buffer *buffer = &loops->buffers.items[access->buffer];
    if (buffer->has_layout) {
        loop_location place;
        return !loop_locate(loops, op, access, &place) && place.stick_var == v;
    }
    if (v == LOOP_NO_DIM) return l->sticks[access->buffer] & 1u << SPARSE;
    for (uint32_t d = 0; d < buffer->dim_count; d++)
        if (buffer->dim[d].stride == access->stride[v]) return l->sticks[access->buffer] & 1u << d;
    return false;
}

// The two moments of a row share a stick: nothing may restickify them.
static bool moves_moments(const loop_graph *loops, const loop_op *op, uint8_t v)
{
    for (uint32_t k = 0; v != LOOP_NO_DIM && k + 1 < op->operand_count; k++)
        if (loops->buffers.items[op->operand[k].buffer].exx2 && op->operand[k].stride[v])
            return true;
    return false;
}

static spyre_status choose_elementwise(const layouter *l, loop_op *op)
{
    const loop_graph *loops = l->relayout.loops;
    int64_t best_cost = 0, best_stride = 0;
    bool found = false;
    for (uint32_t i = 0; i <= op->var_count; i++) {
        uint8_t v = i < op->var_count ? (uint8_t)i : LOOP_NO_DIM;
        if (!result_allows(l, op, v) || moves_moments(loops, op, v)) continue;
        int64_t cost = relayout_cost(loops, op, v);
        int64_t stride = v == LOOP_NO_DIM ? INT64_MAX : loop_output_of(op)->stride[v];
        if (found && (cost > best_cost || (cost == best_cost && stride >= best_stride))) continue;
        found = true;
        best_cost = cost;
        best_stride = stride;
        op->stick = v;
    }
    if (found) return NULL;
    return status_new(SPYRE_UNSUPPORTED, "op %s %s (%s): no dim of the result can carry the stick",
                      op->name, opfunc_describe(op->op)->name,
                      op->location ? op->location : "unknown source line");
}

static spyre_status lay_out_elementwise(layouter *l, loop_op *op)
{
    relayouter *r = &l->relayout;
    TRY(choose_elementwise(l, op));
    for (uint32_t k = 0; k + 1 < op->operand_count; k++)
        TRY(relayout_operand(r, op, k, wanted(op, k, op->stick)));
    return NULL;
}

// The variable with the smallest stride in `access` among those with the given role.
static uint8_t innermost(const loop_op *op, const loop_access *access, bool reduced)
{
    uint8_t best = LOOP_NO_DIM;
    for (uint8_t v = 0; v < op->var_count; v++) {
        if (!access->stride[v] || loop_var_is_reduced(op, v) != reduced) continue;
        if (best == LOOP_NO_DIM || access->stride[v] < access->stride[best]) best = v;
    }
    return best;
}

static spyre_status lay_out_reduction(relayouter *r, loop_op *op)
{
    loop_location place;
    bool located = !loop_locate(r->loops, op, &op->operand[0], &place);
    uint8_t want = located ? place.stick_var : innermost(op, &op->operand[0], true);
    bool off_stick = want == LOOP_NO_DIM || !loop_var_is_reduced(op, want);
    if (op->op == OPFUNC_EXX2 && off_stick) want = innermost(op, &op->operand[0], true);
    TRY(relayout_operand(r, op, 0, want));
    op->stick = want != LOOP_NO_DIM && loop_var_is_reduced(op, want) ? LOOP_NO_DIM : want;
    return NULL;
}

// The operand's present stick when it plays the wanted role, else the innermost such variable.
static uint8_t role_stick(const relayouter *r, const loop_op *op, uint32_t operand, bool reduced,
                          uint32_t other)
{
    loop_location place;
    const loop_access *access = &op->operand[operand];
    if (!loop_locate(r->loops, op, access, &place) && place.stick_var != LOOP_NO_DIM &&
        loop_var_is_reduced(op, place.stick_var) == reduced &&
        (reduced || !op->operand[other].stride[place.stick_var]))
        return place.stick_var;
    uint8_t best = LOOP_NO_DIM;
    for (uint8_t v = 0; v < op->var_count; v++) {
        if (!access->stride[v] || loop_var_is_reduced(op, v) != reduced) continue;
        if (!reduced && op->operand[other].stride[v]) continue; // a batch variable
        if (best == LOOP_NO_DIM || access->stride[v] < access->stride[best]) best = v;
    }
    return best;
}

static spyre_status lay_out_matmul(relayouter *r, loop_op *op)
{
    uint8_t k = role_stick(r, op, 0, true, 1);
    op->stick = role_stick(r, op, 1, false, 0);
    TRY(relayout_operand(r, op, 0, k));
    TRY(relayout_operand(r, op, 1, op->stick));
    if (k == LOOP_NO_DIM) return NULL;
    int64_t lanes = loop_lanes(&r->loops->buffers.items[op->operand[0].buffer]);
    return relayout_padded(r, op, 1, k, lanes);
}

static spyre_status lay_out_gather(layouter *l, loop_op *op)
{
    relayouter *r = &l->relayout;
    loop_location place;
    TRY(choose_elementwise(l, op));
    if (op->stick == LOOP_NO_DIM || !op->operand[1].stride[op->stick]) {
        op->stick = LOOP_NO_DIM;
        for (uint8_t v = 0; v < op->var_count; v++)
            if (op->operand[1].stride[v] &&
                (op->stick == LOOP_NO_DIM ||
                 op->operand[1].stride[v] < op->operand[1].stride[op->stick]))
                op->stick = v;
    }
    if (loop_locate(r->loops, op, &op->operand[0], &place))
        TRY(relayout_operand(r, op, 0, innermost(op, &op->operand[0], false)));
    return relayout_table(r, op, op->stick);
}

static spyre_status assign_result(loop_graph *loops, loop_op *op)
{
    const loop_access *access = loop_output_of(op);
    loop_buffer *buffer = &loops->buffers.items[access->buffer];
    if (!buffer->has_layout) {
        uint8_t stick = LOOP_NO_DIM;
        for (uint8_t d = 0; op->stick != LOOP_NO_DIM && d < buffer->dim_count; d++)
            if (buffer->dim[d].stride == access->stride[op->stick]) stick = d;
        loop_set_layout(buffer, stick);
    }
    loop_location place;
    const char *why = loop_locate(loops, op, access, &place);
    if (!why && place.stick_var != op->stick) why = "wants another stick than its op";
    if (why)
        return status_new(SPYRE_UNSUPPORTED, "op %s %s (%s), result: the view %s", op->name,
                          opfunc_describe(op->op)->name,
                          op->location ? op->location : "unknown source line", why);
    return NULL;
}

static spyre_status lay_out(layouter *l, loop_op *op)
{
    relayouter *r = &l->relayout;
    if (op->gather) return lay_out_gather(l, op);
    switch (opfunc_describe(op->op)->kind) {
    case OPFUNC_KIND_REDUCTION: return lay_out_reduction(r, op);
    case OPFUNC_KIND_MATMUL: return lay_out_matmul(r, op);
    case OPFUNC_KIND_UNARY:
    case OPFUNC_KIND_BINARY:
    case OPFUNC_KIND_TERNARY:
    case OPFUNC_KIND_PARAMETRIC:
    case OPFUNC_KIND_NORM:
    case OPFUNC_KIND_COPY: break;
    }
    return lay_out_elementwise(l, op);
}

spyre_status pass_propagate_layouts(loop_graph *loops, bool *out_changed)
{
    loop_op_list list = {0};
    layouter l = {.relayout = {.loops = loops, .ops = &list}};
    TRY(collect_sticks(&l));
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        loop_op op = loops->ops.items[i];
        *loops->at_node = op.node;
        TRY(lay_out(&l, &op));
        TRY(assign_result(loops, &op));
        TRY(VEC_PUSH(loops->memory, &list, op));
    }
    loops->ops.items = list.items;
    loops->ops.count = list.count;
    loops->ops.capacity = list.capacity;
    *out_changed = list.count > 0;
    return NULL;
}
