// SPDX-License-Identifier: Apache-2.0
#include "card/footprint/lx_liveness.h"

#include <string.h>

#include "base/integer.h"
#include "base/odometer.h"

static lx_range touched(const lx_access *a)
{
    return (lx_range){lx_over_loops(a, 0), a->lanes};
}

bool lx_is_live(const lx_access *access, const lx_ranges *exposed)
{
    const lx_range r = touched(access);
    for (uint32_t n = 0; n < exposed->count; n++)
        if (lx_ranges_meet(exposed->items[n], r)) return true;
    return false;
}

// --- Reads of what several instructions wrote

enum { PIECES_MOST_BYTES = 1 << 16 };

// Marks or clears the bytes of [within.low, within.high) that an access touches in one iteration;
// returns how many changed.
static int64_t set_bytes(const lx_access *a, byte_range within, uint8_t *bytes, uint8_t value)
{
    int64_t extent[ISA_MAX_DIMS], stride[ISA_MAX_DIMS], index[ISA_MAX_DIMS] = {0};
    int64_t changed = 0, most = within.high - within.low, run;
    uint32_t dims = lx_list_runs(a, extent, stride, &run);
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
           lx_move_alike(write, read, read->depth) && lx_overlap(write, read, read->depth);
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
static byte_range repeat_filled(const lx_access *a, byte_range first, uint32_t outer)
{
    byte_range r = first;
    for (bool grown = true; grown;) {
        grown = false;
        for (uint32_t n = outer; n < a->depth; n++) {
            int64_t stride = lx_loop_stride(a, n);
            int64_t reach = first.low + stride * ((int64_t)a->iterations[n] - 1);
            bool next_to = stride > 0 && stride <= r.high - r.low;
            if (!next_to || r.high >= reach + (first.high - first.low)) continue;
            r.high += stride * ((int64_t)a->iterations[n] - 1);
            grown = true;
        }
    }
    return r;
}

static lx_range filled(const lx_access *a, uint32_t outer)
{
    if (a->dense) return (lx_range){repeat_filled(a, a->first, outer), LX_WHOLE_STICKS};
    const byte_range sticks = {a->first.low - a->lanes.low,
                               a->first.high - a->lanes.high + SPYRE_STICK_BYTES};
    return (lx_range){repeat_filled(a, sticks, outer), a->lanes};
}

// Of a write with gaps a few long runs, such as rows of a window.
enum { MOST_LONG_RUNS = 8 };

static spyre_status list_long_runs(arena *memory, const lx_access *a, uint32_t outer,
                                   lx_ranges *out)
{
    int64_t extent[ISA_MAX_DIMS], stride[ISA_MAX_DIMS], index[ISA_MAX_DIMS] = {0};
    int64_t run, runs = 1;
    if (a->i->opcode == ISA_MATMUL || isa_uses_rows(a->i->opcode)) return NULL;
    uint32_t dims = lx_list_runs(a, extent, stride, &run);
    odometer_place place = {stride, a->i->operand[a->operand].offset};
    for (uint32_t d = 0; d < dims; d++) {
        if (extent[d] > MOST_LONG_RUNS / runs) return NULL;
        runs *= extent[d];
    }
    do {
        const byte_range filled = {place.at, place.at + run};
        lx_range r = {repeat_filled(a, filled, outer), LX_WHOLE_STICKS};
        TRY(VEC_PUSH(memory, out, r));
    } while (odometer_next(dims, extent, index, &place, 1));
    return NULL;
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
    uint32_t dims = lx_list_runs(a, extent, stride, &run);
    odometer_place place = {stride, a->i->operand[a->operand].offset};
    for (uint32_t d = 0; d < dims; d++) {
        if (extent[d] > MOST_RUNS / runs) return;
        runs *= extent[d];
    }
    do mark_sticks((byte_range){place.at, place.at + run}, full);
    while (odometer_next(dims, extent, index, &place, 1));
}

static spyre_status list_received(arena *memory, const lx_access_list *accesses, lx_ranges *out)
{
    bool full[STICKS + 1], any = false;
    for (uint32_t n = 0; n < accesses->count; n++) {
        const lx_access *a = &accesses->items[n];
        if (a->i->opcode != ISA_RECEIVE || a->depth > 0 || a->dense || a->fills_lanes) continue;
        if (!any) memset(full, 0, sizeof full);
        any = true;
        mark_runs(a, full);
    }
    for (int64_t n = 0, count = 0; any && n < STICKS && count < MOST_FILLED; n++) {
        int64_t end = n;
        while (full[end]) end++;
        if (end == n) continue;
        lx_range r = {{n * SPYRE_STICK_BYTES, end * SPYRE_STICK_BYTES}, LX_WHOLE_STICKS};
        TRY(VEC_PUSH(memory, out, r));
        count++;
        n = end;
    }
    return NULL;
}

spyre_status lx_summarise(arena *memory, const lx_access_list *accesses, const plan_kernel *kernel,
                          lx_summary *out)
{
    const uint32_t outer = kernel->around.depth;
    *out = (lx_summary){.cores = kernel->source->active_cores};
    for (uint32_t n = 0; n < accesses->count; n++) {
        const lx_access *a = &accesses->items[n];
        const lx_range all = touched(a);
        if (a->reads && is_exposed(accesses, n)) TRY(VEC_PUSH(memory, &out->exposed, all));
        if (a->writes) TRY(VEC_PUSH(memory, &out->written, all.bytes));
        if (a->dense || a->fills_lanes) TRY(VEC_PUSH(memory, &out->replaced, filled(a, outer)));
        else if (a->writes) TRY(list_long_runs(memory, a, outer, &out->replaced));
    }
    return list_received(memory, accesses, &out->replaced);
}

enum { SOON = 64 }; // kernels

// Pieces of a range that are still what they were.
enum { MOST_PIECES = 32, MOST_PARTS = 4 };
typedef struct {
    uint32_t count;
    lx_range of[MOST_PIECES];
} pieces;

static bool any_meets(const pieces *p, const lx_ranges *ranges)
{
    for (uint32_t n = 0; n < ranges->count; n++)
        for (uint32_t k = 0; k < p->count; k++)
            if (lx_ranges_meet(ranges->items[n], p->of[k])) return true;
    return false;
}

// What is left of a piece: bytes before and behind, and between them lanes below and above.
static uint32_t list_left(lx_range piece, lx_range gone, lx_range *out)
{
    const byte_range before = {piece.bytes.low, gone.bytes.low};
    const byte_range behind = {gone.bytes.high, piece.bytes.high};
    const byte_range below = {piece.lanes.low, gone.lanes.low};
    const byte_range above = {gone.lanes.high, piece.lanes.high};
    const byte_range between = {before.low < before.high ? before.high : before.low,
                                behind.low < behind.high ? behind.low : behind.high};
    uint32_t count = 0;
    if (before.low < before.high) out[count++] = (lx_range){before, piece.lanes};
    if (behind.low < behind.high) out[count++] = (lx_range){behind, piece.lanes};
    if (below.low < below.high) out[count++] = (lx_range){between, below};
    if (above.low < above.high) out[count++] = (lx_range){between, above};
    return count;
}

// Without room for more pieces one stays longer than it is.
static void take_away(pieces *p, lx_range gone)
{
    for (uint32_t k = p->count; k-- > 0;) {
        lx_range left[MOST_PARTS];
        if (!lx_ranges_meet(p->of[k], gone)) continue;
        const uint32_t count = list_left(p->of[k], gone, left);
        if (p->count - 1 + count > MOST_PIECES) continue;
        p->of[k] = p->of[--p->count];
        for (uint32_t n = 0; n < count; n++) p->of[p->count++] = left[n];
    }
}

// From one kernel to another, whose reads and all those behind it count, up to `end`; what is left
// then counts as read.
typedef struct {
    uint32_t from, last, end;
} reading;

// On any of the cores. Those of a kernel that others do not run are followed apart from there on.
static bool pieces_read_after(const lx_summaries *kernels, reading r, uint32_t cores, pieces left)
{
    for (uint32_t k = r.from + 1; k < kernels->count && left.count && cores; k++) {
        if (k == r.end) return true;
        const lx_summary *next = &kernels->items[k];
        if (!(cores & next->cores)) continue;
        if (k > r.last && any_meets(&left, &next->exposed)) return true;
        if (cores & ~next->cores && next->replaced.count) {
            if (pieces_read_after(kernels, (reading){k, r.last, r.end}, cores & ~next->cores, left))
                return true;
            cores &= next->cores;
        }
        for (uint32_t n = 0; n < next->replaced.count; n++)
            take_away(&left, next->replaced.items[n]);
    }
    return false;
}

bool lx_read_after(const lx_summaries *kernels, uint32_t kernel, uint32_t cores, byte_range range)
{
    return lx_read_behind(kernels, kernel, kernel, cores, range);
}

bool lx_read_behind(const lx_summaries *kernels, uint32_t writer, uint32_t last, uint32_t cores,
                    byte_range range)
{
    return pieces_read_after(kernels, (reading){writer, last, UINT32_MAX}, cores,
                             (pieces){1, {{range, LX_WHOLE_STICKS}}});
}

bool lx_is_read_soon(const lx_summaries *kernels, uint32_t kernel, const lx_access *access)
{
    return pieces_read_after(kernels, (reading){kernel, kernel, kernel + SOON},
                             kernels->items[kernel].cores, (pieces){1, {touched(access)}});
}

bool lx_reads_before(const lx_summaries *kernels, uint32_t first, uint32_t kernel)
{
    const lx_summary *reader = &kernels->items[kernel];
    for (uint32_t n = 0; n < reader->exposed.count; n++) {
        pieces left = {1, {reader->exposed.items[n]}};
        for (uint32_t k = first; k < kernel; k++) {
            const lx_summary *s = &kernels->items[k];
            for (uint32_t m = 0; m < s->replaced.count && !(reader->cores & ~s->cores); m++)
                take_away(&left, s->replaced.items[m]);
        }
        if (left.count) return true;
    }
    return false;
}
