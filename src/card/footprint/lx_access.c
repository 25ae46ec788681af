// SPDX-License-Identifier: Apache-2.0
#include "card/footprint/lx_access.h"

#include "base/integer.h"

// --- Dims

uint32_t lx_list_dims(const isa_instruction *i, uint32_t operand, int64_t *out_extent,
                      int64_t *out_stride)
{
    const isa_operand *o = &i->operand[operand];
    if (i->opcode != ISA_MATMUL) {
        for (uint32_t d = 0; d < i->dim_count; d++) {
            out_extent[d] = i->extent[d];
            out_stride[d] = o->stride[d];
        }
        return i->dim_count;
    }
    int64_t lanes = matmul_lanes(i), k = i->extent[2];
    bool left = operand == 1;
    out_extent[0] = left ? i->extent[0] : i->extent[1];
    out_stride[0] = left ? o->stride[0] : o->stride[1];
    out_extent[1] = left ? divide_up(k, lanes) : k;
    out_stride[1] = o->stride[2];
    out_extent[2] = left && k < lanes ? k : lanes;
    out_stride[2] = spyre_format_bytes(o->format);
    return 3;
}

uint32_t lx_list_runs(const lx_access *a, int64_t *extent, int64_t *stride, int64_t *run)
{
    uint32_t dims = lx_list_dims(a->i, a->operand, extent, stride);
    *run = spyre_format_bytes(a->i->operand[a->operand].format);
    while (dims > 0 && stride[dims - 1] == *run) *run *= extent[--dims];
    return dims;
}

static bool leaves_sticks_alone(const lx_access *a, uint32_t dims, const int64_t *extent,
                                const int64_t *stride)
{
    for (uint32_t d = 0; d < dims; d++)
        if (extent[d] > 1 && stride[d] % SPYRE_STICK_BYTES != 0) return false;
    for (uint32_t n = 0; n < a->depth; n++)
        if (lx_loop_stride(a, n) % SPYRE_STICK_BYTES != 0) return false;
    return true;
}

// Runs that lie alike in their sticks, in all iterations.
static byte_range lanes_of(const lx_access *a)
{
    int64_t extent[ISA_MAX_DIMS], stride[ISA_MAX_DIMS], run;
    const bool sums = a->i->opcode == ISA_MATMUL && a->operand == 0;
    if (sums || isa_uses_rows(a->i->opcode)) return LX_WHOLE_STICKS;
    const uint32_t dims = lx_list_runs(a, extent, stride, &run);
    const int64_t low = a->i->operand[a->operand].offset % SPYRE_STICK_BYTES;
    const byte_range lanes = {low, low + run};
    bool apart = leaves_sticks_alone(a, dims, extent, stride) &&
                 range_covers(LX_WHOLE_STICKS, lanes);
    return apart ? lanes : LX_WHOLE_STICKS;
}

static bool is_dense(const plan_tile *tile)
{
    if (tile->instruction->opcode == ISA_MATMUL) return false;
    int64_t bytes = spyre_format_bytes(tile->instruction->operand[0].format);
    for (uint32_t d = 0; d < tile->dim_count; d++) bytes *= tile->extent[d];
    return tile->span[0].high - tile->span[0].low == bytes && plan_injective(tile, 0);
}

// A run of the lanes in every stick from the first to the last.
static bool fills_lanes(const lx_access *a, const plan_tile *tile)
{
    const int64_t bytes = a->lanes.high - a->lanes.low;
    const int64_t sticks = (a->first.high - a->first.low - bytes) / SPYRE_STICK_BYTES + 1;
    int64_t filled = spyre_format_bytes(a->i->operand[0].format);
    if (bytes == SPYRE_STICK_BYTES) return false;
    for (uint32_t d = 0; d < tile->dim_count; d++) filled *= tile->extent[d];
    return filled == sticks * bytes && plan_injective(tile, 0);
}

// --- Ranges

int64_t lx_loop_stride(const lx_access *a, uint32_t loop)
{
    return a->i->operand[a->operand].loop_stride[loop];
}

// The range over all iterations of the loops from `first` on.
byte_range lx_over_loops(const lx_access *a, uint32_t first)
{
    byte_range r = a->first;
    for (uint32_t n = first; n < a->depth; n++)
        range_repeat(&r, lx_loop_stride(a, n), a->iterations[n]);
    return r;
}

uint32_t lx_shared_loops(const lx_access *a, const lx_access *b)
{
    uint32_t shared = 0;
    while (shared < a->depth && shared < b->depth && a->loop_id[shared] == b->loop_id[shared])
        shared++;
    return shared;
}

bool lx_move_alike(const lx_access *a, const lx_access *b, uint32_t loops)
{
    for (uint32_t n = 0; n < loops; n++)
        if (lx_loop_stride(a, n) != lx_loop_stride(b, n)) return false;
    return true;
}

bool lx_covers(const lx_access *write, const lx_access *read)
{
    bool fills = write->dense || (write->fills_lanes && range_covers(write->lanes, read->lanes));
    return fills && lx_spans(write, read);
}

bool lx_spans(const lx_access *write, const lx_access *read)
{
    uint32_t shared = lx_shared_loops(write, read);
    if (!lx_move_alike(write, read, shared)) return false;
    return range_covers(write->first, lx_over_loops(read, shared));
}

bool lx_overlap(const lx_access *a, const lx_access *b, uint32_t loops)
{
    if (!ranges_overlap(a->lanes, b->lanes)) return false;
    if (!lx_move_alike(a, b, loops)) loops = 0;
    return ranges_overlap(lx_over_loops(a, loops), lx_over_loops(b, loops));
}

// --- Collecting

static spyre_status add_accesses(arena *memory, const plan_tile *tile, const loop_nest *place,
                                 uint32_t at, lx_access_list *out)
{
    const isa_instruction *i = tile->instruction;
    for (uint32_t o = 0; o < i->operand_count; o++) {
        if (i->operand[o].space != ISA_SPACE_LX) continue;
        lx_access a = {.i = i, .at = at, .operand = o, .depth = place->depth};
        for (uint32_t n = 0; n < place->depth; n++) {
            a.loop_id[n] = place->loop_id[n];
            a.iterations[n] = place->iterations[n];
        }
        a.first = plan_range(tile, o);
        a.writes = isa_writes(i->opcode, o);
        a.reads = isa_reads(i->opcode, o);
        a.dense = a.writes && is_dense(tile);
        a.lanes = lanes_of(&a);
        a.fills_lanes = a.writes && fills_lanes(&a, tile);
        TRY(VEC_PUSH(memory, out, a));
    }
    return NULL;
}

spyre_status lx_collect(arena *memory, const isa_program *program, plan_tile *const *tiles,
                        const plan_kernel *kernel, lx_access_list *out)
{
    loop_nest place = kernel->around;
    for (uint32_t at = kernel->begin; at < kernel->end; at++) {
        loop_nest_follow(&place, program->code.items[at], at);
        if (tiles[at]) TRY(add_accesses(memory, tiles[at], &place, at, out));
    }
    VEC_FIT(memory, out);
    return NULL;
}
