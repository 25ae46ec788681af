// SPDX-License-Identifier: Apache-2.0
#include "front/layout/long_lines.h"

#include "base/integer.h"

// Two copies of a line along its stick, and two across: by so much fewer lanes they have to have.
enum { FEWEST_ROWS = 16, FEWER_SLOTS = 5 };

// The loops that walk dim 0, the one of longer steps first; false when there are more than two, or
// some walk backwards.
static bool find_vars(const loop_buffer *buffer, const loop_op *op, const loop_access *access,
                      uint32_t found[2], uint32_t *out_count)
{
    *out_count = 0;
    for (uint32_t v = 0; v < op->var_count; v++) {
        if (access->stride[v] < 0) return false;
        if (!access->stride[v] || loop_dim_at(buffer, access->stride[v])) continue;
        if (*out_count == 2) return false;
        found[(*out_count)++] = v;
    }
    if (*out_count == 2 && access->stride[found[0]] < access->stride[found[1]]) {
        const uint32_t longer = found[1];
        found[1] = found[0];
        found[0] = longer;
    }
    return true;
}

bool long_lines_find_part(const loop_graph *loops, const loop_op *op, const loop_access *access,
                    line_part *out)
{
    const loop_buffer *buffer = &loops->buffers.items[access->buffer];
    int64_t first[LOOP_MAX_DIMS];
    uint32_t var[2], count;
    if (buffer->kind == LOOP_CONSTANT || !buffer->dim_count || buffer->dim[0].stride != 1 ||
        (buffer->has_layout && buffer->stick != 0) || buffer->exx2 || access->count ||
        op->tile_depth || loop_is_table(op, access))
        return false;
    if (!find_vars(buffer, op, access, var, &count) ||
        loop_split_offset(buffer, access->offset, first))
        return false;
    *out = (line_part){op->var_count, op->var_count, first[0], 1, 1, 1, loop_lanes(buffer)};
    if (count > 0) {
        out->var = var[0];
        out->step = access->stride[var[0]];
        out->count = op->extent[var[0]];
    }
    if (count == 2) {
        if (access->stride[var[1]] != 1) return false;
        out->within = var[1];
        out->size = op->extent[var[1]];
    }
    return out->first + out->step * (out->count - 1) + out->size <= buffer->dim[0].extent;
}

bool long_lines_pay(int64_t rows, int64_t other, int64_t lanes)
{
    if (rows < FEWEST_ROWS) return false;
    const double along = (double)round_up(other, lanes) / (double)other;
    const double across = (double)round_up(rows, lanes) / (double)rows;
    return along >= FEWER_SLOTS * across;
}
