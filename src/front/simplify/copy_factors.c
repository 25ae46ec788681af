// SPDX-License-Identifier: Apache-2.0
#include "front/simplify/copy_factors.h"

enum { ROWS, COLUMNS, RESULT };             // operands of a product

// A loop of the product along k that moves, or does not move, along an operand; LOOP_NO_DIM: none.
static uint8_t loop_along_k(const loop_op *op, uint32_t operand, bool moves)
{
    for (uint8_t v = 0; v < op->var_count; v++)
        if (!op->operand[RESULT].stride[v] && (op->operand[operand].stride[v] != 0) == moves)
            return v;
    return LOOP_NO_DIM;
}

// The loop over the columns of the result.
static uint8_t loop_of_columns(const loop_op *op)
{
    for (uint8_t v = 0; v < op->var_count; v++)
        if (op->operand[RESULT].stride[v] == 1 && op->operand[COLUMNS].stride[v]) return v;
    return LOOP_NO_DIM;
}

// Whether that loop runs over several dims of a buffer, of less than whole sticks each.
static bool has_parted_columns(const loop_graph *loops, const loop_op *op)
{
    const loop_access *access = &op->operand[COLUMNS];
    const loop_buffer *b = &loops->buffers.items[access->buffer];
    uint8_t v = loop_of_columns(op);
    if (v == LOOP_NO_DIM || !b->dim_count || access->stride[v] < 0) return false;
    const loop_dim *dim = &b->dim[loop_dim_at(b, access->stride[v])];
    int64_t part = dim->extent / (access->stride[v] / dim->stride);
    return op->extent[v] > part && part % loop_lanes(b) != 0;
}

// Whether a loop over windows of taps would have to be cut where the taps' dims end: those that
// walk the windows cannot follow.
static bool parts_taps(const loop_graph *loops, const loop_op *op)
{
    const loop_access *access = &op->operand[COLUMNS];
    if (!opfunc_slides(op->op)) return false;
    return !loop_stays_in_dims(&loops->buffers.items[access->buffer], op, access);
}

static bool must_be_copied(const loop_graph *loops, const loop_op *op, uint32_t operand)
{
    if (loop_along_k(op, operand, false) != LOOP_NO_DIM) return true;
    return operand == COLUMNS && (has_parted_columns(loops, op) || parts_taps(loops, op));
}

// The loops that the copy has: those that move along the factor and those along k; `last`, which
// its sticks may take, is the innermost one.
static uint32_t list_loops(const loop_op *op, uint32_t operand, uint8_t last, uint8_t *out)
{
    uint32_t count = 0;
    for (uint8_t v = 0; v < op->var_count; v++)
        if (v != last && (op->operand[operand].stride[v] || !op->operand[RESULT].stride[v]))
            out[count++] = v;
    if (last != LOOP_NO_DIM) out[count++] = last;
    return count;
}

// Appends the copy, one dim a loop; the product then reads it.
static spyre_status copy_factor(loop_graph *loops, loop_op *product, uint32_t operand,
                                loop_op_list *ops)
{
    loop_access old = product->operand[operand], *read = &product->operand[operand];
    const loop_buffer *from = &loops->buffers.items[old.buffer];
    uint8_t loop[LOOP_MAX_VARS];
    uint8_t last = operand == COLUMNS ? loop_of_columns(product)
                                      : loop_along_k(product, ROWS, true);
    uint32_t count = list_loops(product, operand, last, loop);
    spyre_view storage = {.rank = count};
    loop_op copy = {.op = OPFUNC_IDENTITY, .name = product->name, .var_count = count,
                    .operand_count = 2, .stick = LOOP_NO_DIM, .location = product->location,
                    .node = product->node};
    *read = (loop_access){0};
    copy.operand[0] = (loop_access){.buffer = old.buffer, .offset = old.offset};
    int64_t elements = 1;
    for (uint32_t d = count; d-- > 0;) {
        copy.extent[d] = storage.size[d] = product->extent[loop[d]];
        copy.split[d] = 1;
        copy.operand[0].stride[d] = old.stride[loop[d]];
        storage.stride[d] = copy.operand[1].stride[d] = read->stride[loop[d]] = elements;
        elements *= storage.size[d];
    }
    TRY(loop_add_local(loops, from->name, from->dtype, from->format, &storage, &read->buffer));
    copy.operand[1].buffer = read->buffer;
    return VEC_PUSH(loop_scratch(loops), ops, copy);
}

static bool is_product(const loop_op *op)
{
    return loop_is_matmul(op) && !op->tile_depth;
}

static bool any_must_be_copied(const loop_graph *loops)
{
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        const loop_op *op = &loops->ops.items[i];
        if (!is_product(op)) continue;
        if (must_be_copied(loops, op, ROWS) || must_be_copied(loops, op, COLUMNS)) return true;
    }
    return false;
}

spyre_status copy_factors(loop_graph *loops)
{
    loop_op_list ops = {0};
    if (!any_must_be_copied(loops)) return NULL;
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        loop_op op = loops->ops.items[i];
        for (uint32_t operand = ROWS; operand < RESULT && is_product(&op); operand++)
            if (must_be_copied(loops, &op, operand))
                TRY(copy_factor(loops, &op, operand, &ops));
        TRY(VEC_PUSH(loop_scratch(loops), &ops, op));
    }
    return loop_take_ops(loops, &ops);
}
