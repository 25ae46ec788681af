// SPDX-License-Identifier: Apache-2.0
#include "front/layout/line.h"

#include "base/integer.h"

// Two copies of a line along its stick, and two across: by so much fewer lanes they have to have.
enum { FEWEST_ROWS = 16, FEWER_SLOTS = 5 };

// The loop that alone walks dim 0, or var_count; *out_alone: no other does.
static uint32_t find_var(const loop_buffer *buffer, const loop_op *op, const loop_access *access,
                         bool *out_alone)
{
    uint32_t found = op->var_count;
    *out_alone = true;
    for (uint32_t v = 0; v < op->var_count; v++) {
        if (access->stride[v] < 0) *out_alone = false;
        if (access->stride[v] <= 0 || loop_dim_at(buffer, access->stride[v])) continue;
        *out_alone &= found == op->var_count;
        found = v;
    }
    return found;
}

bool line_find_part(const loop_graph *loops, const loop_op *op, const loop_access *access,
                    line_part *out)
{
    const loop_buffer *buffer = &loops->buffers.items[access->buffer];
    int64_t first[LOOP_MAX_DIMS];
    bool alone;
    if (buffer->kind == LOOP_CONSTANT || !buffer->dim_count || buffer->dim[0].stride != 1 ||
        (buffer->has_layout && buffer->stick != 0) || buffer->exx2 || access->count ||
        op->tile_depth || loop_is_table(op, access))
        return false;
    const uint32_t v = find_var(buffer, op, access, &alone);
    if (!alone || loop_split_offset(buffer, access->offset, first)) return false;
    const bool walks = v < op->var_count;
    *out = (line_part){v, first[0], walks ? access->stride[v] : 1, walks ? op->extent[v] : 1,
                       loop_lanes(buffer)};
    return out->first + out->step * (out->count - 1) < buffer->dim[0].extent;
}

bool line_is_long(int64_t rows, int64_t other, int64_t lanes)
{
    if (rows < FEWEST_ROWS) return false;
    const double along = (double)round_up(other, lanes) / (double)other;
    const double across = (double)round_up(rows, lanes) / (double)rows;
    return along >= FEWER_SLOTS * across;
}
