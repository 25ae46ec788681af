// SPDX-License-Identifier: Apache-2.0
#include "card/footprint/lx_liveness.h"

#include <string.h>

#include "base/integer.h"
#include "base/odometer.h"

static bool tile_dense(const plan_tile *tile)
{
    if (tile->instruction->opcode == ISA_MATMUL) return false;
    int64_t bytes = spyre_format_bytes(tile->instruction->operand[0].format);
    for (uint32_t d = 0; d < tile->dim_count; d++) bytes *= tile->extent[d];
    return tile->span[0].high - tile->span[0].low == bytes && plan_injective(tile, 0);
}

// --- Ranges

static int64_t loop_stride(const lx_access *a, uint32_t loop)
{
    return a->i->operand[a->operand].loop_stride[loop];
}

// The range over all iterations of the loops from `first` on.
static byte_range over_loops(const lx_access *a, uint32_t first)
{
    byte_range r = a->first;
    for (uint32_t n = first; n < a->depth; n++)
        range_repeat(&r, loop_stride(a, n), a->iterations[n]);
    return r;
}

uint32_t lx_shared_loops(const lx_access *a, const lx_access *b)
{
    uint32_t shared = 0;
    while (shared < a->depth && shared < b->depth && a->loop_id[shared] == b->loop_id[shared])
        shared++;
    return shared;
}

static bool move_alike(const lx_access *a, const lx_access *b, uint32_t loops)
{
    for (uint32_t n = 0; n < loops; n++)
        if (loop_stride(a, n) != loop_stride(b, n)) return false;
    return true;
}

bool lx_covers(const lx_access *write, const lx_access *read)
{
    return write->dense && lx_spans(write, read);
}

bool lx_spans(const lx_access *write, const lx_access *read)
{
    uint32_t shared = lx_shared_loops(write, read);
    if (!move_alike(write, read, shared)) return false;
    return range_covers(write->first, over_loops(read, shared));
}

bool lx_overlap(const lx_access *a, const lx_access *b, uint32_t loops)
{
    if (!move_alike(a, b, loops)) loops = 0;
    return ranges_overlap(over_loops(a, loops), over_loops(b, loops));
}

bool lx_is_live(const lx_access *access, const byte_ranges *exposed)
{
    byte_range r = over_loops(access, 0);
    for (uint32_t n = 0; n < exposed->count; n++)
        if (ranges_overlap(exposed->items[n], r)) return true;
    return false;
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
        a.dense = a.writes && tile_dense(tile);
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
    return NULL;
}

// --- Reads of what several instructions wrote

enum { PIECES_MOST_BYTES = 1 << 16 };

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

// The same around runs of bytes without gaps.
static uint32_t list_runs(const lx_access *a, int64_t *extent, int64_t *stride, int64_t *run)
{
    uint32_t dims = lx_list_dims(a->i, a->operand, extent, stride);
    *run = spyre_format_bytes(a->i->operand[a->operand].format);
    while (dims > 0 && stride[dims - 1] == *run) *run *= extent[--dims];
    return dims;
}

// Marks or clears the bytes of [within.low, within.high) that an access touches in one iteration;
// returns how many changed.
static int64_t set_bytes(const lx_access *a, byte_range within, uint8_t *bytes, uint8_t value)
{
    int64_t extent[ISA_MAX_DIMS], stride[ISA_MAX_DIMS], index[ISA_MAX_DIMS] = {0};
    int64_t changed = 0, most = within.high - within.low, run;
    uint32_t dims = list_runs(a, extent, stride, &run);
    odometer_place place = {stride, a->i->operand[a->operand].offset - within.low};
    do {
        int64_t end = place.at + run < most ? place.at + run : most;
        for (int64_t n = place.at > 0 ? place.at : 0; n < end; n++) {
            changed += bytes[n] != value;
            bytes[n] = value;
        }
    } while (odometer_next(dims, extent, index, &place, 1));
    return changed;
}

// True for a write that may fill a part of what the read reads in the same iteration.
static bool fills_piece(const lx_access *write, const lx_access *read)
{
    return write->writes && write->at != read->at && write->i->opcode != ISA_MATMUL &&
           write->depth == read->depth && lx_shared_loops(write, read) == read->depth &&
           move_alike(write, read, read->depth) && lx_overlap(write, read, read->depth);
}

// Writes in the same iteration, none of which covers the read alone, do so together.
static bool covered_in_pieces(const lx_access_list *accesses, uint32_t at)
{
    const lx_access *read = &accesses->items[at];
    uint8_t wanted[PIECES_MOST_BYTES];
    bool accumulates = read->i->opcode == ISA_MATMUL && read->operand == 0;
    bool begun = false;
    int64_t bytes = read->first.high - read->first.low, left = 0;
    if (bytes > PIECES_MOST_BYTES || accumulates) return false;
    for (uint32_t n = 0; n < at; n++) {
        const lx_access *write = &accesses->items[n];
        if (!fills_piece(write, read)) continue;
        if (!begun) {
            memset(wanted, 0, (size_t)bytes);
            left = set_bytes(read, read->first, wanted, 1);
            begun = true;
        }
        left -= set_bytes(write, read->first, wanted, 0);
        if (left == 0) return true;
    }
    return false;
}

static bool is_exposed(const lx_access_list *accesses, uint32_t at)
{
    const lx_access *read = &accesses->items[at];
    for (uint32_t n = 0; n < at; n++) {
        const lx_access *write = &accesses->items[n];
        // An instruction's own write comes too late for its reads.
        if (write->at != read->at && lx_covers(write, read)) return false;
    }
    return !covered_in_pieces(accesses, at);
}

// --- Kernels

// What a write fills without gaps in all iterations of its kernel's loops together. Of the `outer`
// loops around the kernel the first iteration counts: others may read before the next one.
static byte_range filled(const lx_access *a, uint32_t outer)
{
    byte_range r = a->first;
    for (bool grown = true; grown;) {
        grown = false;
        for (uint32_t n = outer; n < a->depth; n++) {
            int64_t stride = loop_stride(a, n);
            int64_t reach = a->first.low + stride * ((int64_t)a->iterations[n] - 1);
            bool next_to = stride > 0 && stride <= r.high - r.low;
            if (!next_to || r.high >= reach + (a->first.high - a->first.low)) continue;
            r.high += stride * ((int64_t)a->iterations[n] - 1);
            grown = true;
        }
    }
    return r;
}

// --- What messages fill together, each of them with gaps

enum { STICKS = ISA_LX_BYTES / SPYRE_STICK_BYTES, MOST_RUNS = 1 << 14, MOST_FILLED = 16 };

static void mark_sticks(byte_range run, bool *full)
{
    if (run.low < 0 || run.high > ISA_LX_BYTES) return;
    int64_t first = divide_up(run.low, SPYRE_STICK_BYTES);
    for (int64_t n = first; n < run.high / SPYRE_STICK_BYTES; n++) full[n] = true;
}

// Marks the whole sticks of each run of bytes of a tile.
static void mark_runs(const lx_access *a, bool *full)
{
    int64_t extent[ISA_MAX_DIMS], stride[ISA_MAX_DIMS], index[ISA_MAX_DIMS] = {0};
    int64_t run, runs = 1;
    uint32_t dims = list_runs(a, extent, stride, &run);
    odometer_place place = {stride, a->i->operand[a->operand].offset};
    for (uint32_t d = 0; d < dims; d++) {
        if (extent[d] > MOST_RUNS / runs) return;
        runs *= extent[d];
    }
    do mark_sticks((byte_range){place.at, place.at + run}, full);
    while (odometer_next(dims, extent, index, &place, 1));
}

static spyre_status list_received(arena *memory, const lx_access_list *accesses,
                                  byte_ranges *out)
{
    bool full[STICKS + 1], any = false;
    for (uint32_t n = 0; n < accesses->count; n++) {
        const lx_access *a = &accesses->items[n];
        if (a->i->opcode != ISA_RECEIVE || a->depth > 0 || a->dense) continue;
        if (!any) memset(full, 0, sizeof full);
        any = true;
        mark_runs(a, full);
    }
    for (int64_t n = 0, count = 0; any && n < STICKS && count < MOST_FILLED; n++) {
        int64_t end = n;
        while (full[end]) end++;
        if (end == n) continue;
        byte_range r = {n * SPYRE_STICK_BYTES, end * SPYRE_STICK_BYTES};
        TRY(VEC_PUSH(memory, out, r));
        count++;
        n = end;
    }
    return NULL;
}

static spyre_status summarise(arena *memory, const lx_access_list *accesses, uint32_t outer,
                              lx_summary *out)
{
    for (uint32_t n = 0; n < accesses->count; n++) {
        const lx_access *a = &accesses->items[n];
        byte_range all = over_loops(a, 0), some = filled(a, outer);
        if (a->reads && is_exposed(accesses, n)) TRY(VEC_PUSH(memory, &out->exposed, all));
        if (a->writes) TRY(VEC_PUSH(memory, &out->written, all));
        if (a->dense) TRY(VEC_PUSH(memory, &out->replaced, some));
    }
    return list_received(memory, accesses, &out->replaced);
}

spyre_status lx_summarise(arena *memory, const isa_program *program, plan_tile *const *tiles,
                          const plan_kernel *kernel, lx_summary *out)
{
    lx_access_list accesses = {0};
    *out = (lx_summary){.cores = kernel->source->active_cores};
    TRY(lx_collect(memory, program, tiles, kernel, &accesses));
    return summarise(memory, &accesses, kernel->around.depth, out);
}

// Pieces of a range that are still what they were.
enum { MOST_PIECES = 16 };
typedef struct {
    uint32_t count;
    byte_range of[MOST_PIECES];
} pieces;

static bool any_meets(const pieces *p, const byte_ranges *ranges)
{
    for (uint32_t n = 0; n < ranges->count; n++)
        for (uint32_t k = 0; k < p->count; k++)
            if (ranges_overlap(ranges->items[n], p->of[k])) return true;
    return false;
}

// Without room for another piece one stays longer than it is.
static void take_away(pieces *p, byte_range gone)
{
    for (uint32_t k = p->count; k-- > 0;) {
        byte_range *piece = &p->of[k];
        byte_range behind = {gone.high, piece->high};
        if (!ranges_overlap(*piece, gone)) continue;
        bool before = piece->low < gone.low, after = behind.low < behind.high;
        if (before && after && p->count == MOST_PIECES) continue;
        if (before) piece->high = gone.low;
        else if (after) *piece = behind;
        else *piece = p->of[--p->count];
        if (before && after) p->of[p->count++] = behind;
    }
}

// On any of the cores. Those of a kernel that others do not run are followed apart from there on.
static bool pieces_read_after(const lx_summaries *kernels, uint32_t kernel, uint32_t cores,
                              pieces left)
{
    for (uint32_t k = kernel + 1; k < kernels->count && left.count && cores; k++) {
        const lx_summary *next = &kernels->items[k];
        if (!(cores & next->cores)) continue;
        if (any_meets(&left, &next->exposed)) return true;
        if (cores & ~next->cores && next->replaced.count) {
            if (pieces_read_after(kernels, k, cores & ~next->cores, left)) return true;
            cores &= next->cores;
        }
        for (uint32_t n = 0; n < next->replaced.count; n++)
            take_away(&left, next->replaced.items[n]);
    }
    return false;
}

bool lx_read_after(const lx_summaries *kernels, uint32_t kernel, uint32_t cores, byte_range range)
{
    return pieces_read_after(kernels, kernel, cores, (pieces){1, {range}});
}
