// SPDX-License-Identifier: Apache-2.0
//
// From places in LX to the places in memory that a copy pairs them with, by the copy's dims as they
// nest in LX. A dim of the instruction that steps along one of them without leaving it has a stride
// in memory; one that leaves it is split where it does.
#include <string.h>

#include "card/pass/forward.h"
#include "isa/dims.h"

typedef struct {
    tile_nest copy;                                     // from LX to memory
    int64_t first[ISA_MAX_DIMS], last[ISA_MAX_DIMS];    // indices that the operand touches
} shape;

// A dim of the instruction, or a loop around it.
typedef struct {
    int64_t extent, stride;
    int64_t *out_stride;
    uint32_t dim;
    bool may_split;
    bool same;                                          // must keep its stride
} axis;

enum { MOST_AXES = ISA_MAX_DIMS + ISA_MAX_LOOPS };
typedef enum { MAPPED, SPLIT, IMPOSSIBLE } outcome;

tile_nest tile_nest_of(const plan_tile *tile, uint32_t from, uint32_t to)
{
    tile_nest nest = {.count = tile->dim_count};
    for (uint32_t d = 0; d < nest.count; d++) {
        int64_t stride = tile->stride[from][d];
        uint32_t n = d;
        for (; n > 0 && nest.from[n - 1] < stride; n--) {
            nest.from[n] = nest.from[n - 1];
            nest.to[n] = nest.to[n - 1];
            nest.extent[n] = nest.extent[n - 1];
        }
        nest.from[n] = stride;
        nest.to[n] = tile->stride[to][d];
        nest.extent[n] = tile->extent[d];
    }
    return nest;
}

// The index of each dim; false when the tile has no element at the offset.
static bool tile_nest_find(const tile_nest *nest, int64_t offset, int64_t *out_index)
{
    if (offset < 0) return false;
    for (uint32_t n = 0; n < nest->count; n++) {
        // One element has no stride.
        out_index[n] = nest->from[n] ? offset / nest->from[n] : 0;
        if (nest->from[n]) offset %= nest->from[n];
        if (out_index[n] < 0 || out_index[n] >= nest->extent[n]) return false;
    }
    return offset == 0;
}

bool tile_nest_map(const tile_nest *nest, int64_t from, int64_t *to)
{
    int64_t index[ISA_MAX_DIMS];
    *to = 0;
    if (!tile_nest_find(nest, from, index)) return false;
    for (uint32_t d = 0; d < nest->count; d++) *to += index[d] * nest->to[d];
    return true;
}

static outcome map_axis(isa_instruction *work, shape *s, const axis *a)
{
    if (a->extent == 1 || a->stride == 0) {
        *a->out_stride = 0;
        return MAPPED;
    }
    const tile_nest *c = &s->copy;
    uint32_t n = 0;
    while (n < c->count && c->from[n] > a->stride) n++;
    if (n == c->count || c->from[n] <= 0 || a->stride % c->from[n] != 0) return IMPOSSIBLE;
    int64_t step = a->stride / c->from[n];
    s->last[n] += step * (a->extent - 1);
    if (s->last[n] < c->extent[n]) {
        *a->out_stride = step * c->to[n];
        return a->same && *a->out_stride != a->stride ? IMPOSSIBLE : MAPPED;
    }
    int64_t inner = c->extent[n] / step;
    if (!a->may_split || c->extent[n] % step != 0 || inner <= 1 || inner >= a->extent ||
        a->extent % inner != 0 || work->dim_count == ISA_MAX_DIMS)
        return IMPOSSIBLE;
    isa_split_dim(work, a->dim, (uint32_t)inner);
    return SPLIT;
}

// The dims of the operand. A MATMUL's cannot be split; the elements of its sticks stay neighbours.
static uint32_t list_axes(const isa_instruction *i, uint32_t o, axis *axes, int64_t *strides,
                          int64_t *elements)
{
    int64_t extent[ISA_MAX_DIMS], stride[ISA_MAX_DIMS];
    uint32_t count = lx_list_dims(i, o, extent, stride);
    for (uint32_t d = 0; d < count; d++) {
        axes[d] = (axis){.extent = extent[d],
                         .stride = stride[d],
                         .out_stride = &strides[d],
                         .dim = d,
                         .may_split = i->opcode != ISA_MATMUL};
    }
    if (i->opcode != ISA_MATMUL) return count;
    axes[0].out_stride = &strides[o == 1 ? 0 : 1];
    axes[1].out_stride = &strides[2];
    axes[2].out_stride = elements;
    axes[2].same = true;
    return count;
}

static outcome try_once(isa_instruction *work, uint32_t o, shape s, const isa_operand *memory,
                        uint32_t copy_depth, uint32_t depth, const uint32_t *iterations)
{
    isa_operand result = *memory;
    axis axes[MOST_AXES];
    int64_t elements;
    result.format = work->operand[o].format;
    for (uint32_t d = 0; d < ISA_MAX_DIMS; d++) result.stride[d] = 0;
    uint32_t count = list_axes(work, o, axes, result.stride, &elements);
    for (uint32_t n = copy_depth; n < depth; n++) {
        axes[count++] = (axis){.extent = iterations[n],
                               .stride = work->operand[o].loop_stride[n],
                               .out_stride = &result.loop_stride[n]};
    }
    for (uint32_t n = 0; n < count; n++) {
        outcome mapped = map_axis(work, &s, &axes[n]);
        if (mapped != MAPPED) return mapped;
    }
    for (uint32_t n = 0; n < s.copy.count; n++) result.offset += s.first[n] * s.copy.to[n];
    work->operand[o] = result;
    return MAPPED;
}

bool forward_operand(isa_instruction *work, uint32_t o, const plan_tile *copy, uint32_t copy_depth,
                     uint32_t depth, const uint32_t *iterations)
{
    const isa_instruction *c = copy->instruction;
    uint32_t lx = c->opcode == ISA_LOAD ? 0 : 1;
    if (spyre_format_bytes(c->operand[lx].format) !=
        spyre_format_bytes(work->operand[o].format))
        return false;
    shape s = {.copy = tile_nest_of(copy, lx, 1 - lx)};
    if (!tile_nest_find(&s.copy, work->operand[o].offset - c->operand[lx].offset, s.first))
        return false;
    memcpy(s.last, s.first, sizeof s.last);
    outcome mapped = SPLIT;
    while (mapped == SPLIT)
        mapped = try_once(work, o, s, &c->operand[1 - lx], copy_depth, depth, iterations);
    return mapped == MAPPED;
}
