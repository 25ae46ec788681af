// SPDX-License-Identifier: Apache-2.0
#include "front/ir/padded_sizes.h"

#include "base/integer.h"

// Sticks of operands along each variable: their smallest and largest length; 0 when there is none.
typedef struct {
    int64_t least[LOOP_MAX_VARS], most[LOOP_MAX_VARS];
    bool parts; // some stick is walked in parts
} stick_lengths;

static void find_sticks(const loop_graph *loops, const loop_op *op, stick_lengths *out)
{
    *out = (stick_lengths){{0}, {0}, false};
    for (uint32_t k = 0; k < op->operand_count; k++) {
        const loop_buffer *buffer = loop_operand_buffer(loops, op, k);
        loop_stick_walk walk;
        if (loop_walk_stick(loops, op, &op->operand[k], buffer->stick, &walk)) continue;
        for (uint32_t i = 0; i < walk.count; i++) {
            uint8_t v = walk.var[i];
            int64_t lanes = walk.span[v];
            if (!out->least[v] || lanes < out->least[v]) out->least[v] = lanes;
            if (lanes > out->most[v]) out->most[v] = lanes;
        }
        out->parts |= walk.count > 1;
    }
}

// True when what follows the indices of v in the operand's memory starts right behind them, or
// nothing does: then the operand says itself how many of them there are.
static bool ends_exactly(const loop_graph *loops, const loop_op *op, uint32_t k, uint32_t v)
{
    loop_location place;
    int64_t next = 0, lanes = loop_lanes(loop_operand_buffer(loops, op, k));
    if (loop_locate(loops, op, &op->operand[k], &place)) return false;
    if (place.stick_var == v) return true;
    for (uint32_t u = 0; u < op->var_count; u++) {
        bool single = u == place.stick_var && op->extent[u] <= lanes;
        if (single || place.stride[u] <= place.stride[v]) continue;
        if (!next || place.stride[u] < next) next = place.stride[u];
    }
    return !next || next == place.stride[v] * op->extent[v];
}

// Both sides of a restickify have to agree on padding; an index's own dims keep their size, and so
// do those of a table whose sticks are of rows.
static bool pads(const loop_graph *loops, const loop_op *op, uint32_t v)
{
    if (op->op == OPFUNC_RESTICKIFY)
        return ends_exactly(loops, op, 0, v) && ends_exactly(loops, op, 1, v);
    if (!op->table) return true;
    const loop_access *table = &op->operand[op->table];
    loop_location place;
    bool by_rows = !loop_locate(loops, op, table, &place) && place.stick_var == LOOP_ROWS;
    return !op->operand[0].stride[v] && !by_rows;
}

void padded_sizes(const loop_graph *loops, const loop_op *op, int64_t out_size[LOOP_MAX_VARS],
                int64_t out_units[LOOP_MAX_VARS])
{
    stick_lengths sticks;
    find_sticks(loops, op, &sticks);
    for (uint32_t v = 0; v < op->var_count; v++) {
        int64_t size = op->extent[v], most = sticks.most[v];
        if (most && !sticks.parts && pads(loops, op, v)) size = round_up(size, sticks.least[v]);
        out_size[v] = size;
        out_units[v] = !most ? size : size % most ? 1 : size / most;
    }
}
