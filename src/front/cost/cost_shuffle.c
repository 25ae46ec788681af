// SPDX-License-Identifier: Apache-2.0
//
// Over old * new slices of a dim both begin at whole numbers, so what a sender and a receiver share
// is the product over the dims of what their two slices share, as integers:
//
//     2 slices -> 4 of one dim, 8 units: sender 0 has [0, 4), receivers [0, 2) [2, 4) ..,
//     so it sends 2 units to cores 0 and 1
#include "front/cost/cost_shuffle.h"

#include <math.h>

#include "isa/constants.h"

// Usually the op at which the buffer's life begins, once lives are known.
static const loop_op *writer_of(const loop_graph *loops, uint32_t buffer)
{
    uint32_t begin = loops->buffers.items[buffer].first_op;
    for (uint32_t n = 0; n <= loops->ops.count; n++) {
        uint32_t i = n ? n - 1 : begin;
        if (i >= loops->ops.count) continue;
        const loop_op *op = &loops->ops.items[i];
        if (loop_result(op)->buffer == buffer) return op;
    }
    return NULL;
}

lx_slices shuffle_source(const loop_graph *loops, const loop_op *shuffle)
{
    const loop_op *writer = writer_of(loops, shuffle->operand[0].buffer);
    return writer ? lx_slices_written(loops, writer) : lx_slices_undivided();
}

// --- Messages

// Every dim is cut where slices of the one or the other division end. Several cores may get one.
static int64_t count_messages(const lx_slices *from, const lx_slices *to)
{
    int64_t sent = to->cores / lx_slices_count(to), received = 1;
    for (uint32_t d = 0; d < LOOP_MAX_DIMS; d++) {
        int64_t a = from->slices[d], b = to->slices[d], units = a;
        while (units % b) units += a;
        sent *= units / a;
        received *= units / b;
    }
    return sent + received;
}

// What a core that has a slice of the old division shares with each core's slice of the new one,
// along the dims that are cut; in units of the dim over old * new slices. Products over all dims
// are at most the cores squared.
typedef struct {
    uint32_t count;
    uint8_t slices[LOOP_MAX_DIMS], core_stride[LOOP_MAX_DIMS];         // old
    int16_t shared[LOOP_MAX_DIMS][BUNDLE_MAX_CORES][BUNDLE_MAX_CORES]; // by old slice, receiver
} overlaps;

static void find_shared(int16_t old, int16_t new, uint8_t new_stride,
                        int16_t out[][BUNDLE_MAX_CORES])
{
    int16_t low[BUNDLE_MAX_CORES];
    for (int32_t to = 0; to < BUNDLE_MAX_CORES; to++)
        low[to] = (int16_t)(to / new_stride % new * old);
    for (int32_t slice = 0; slice < old; slice++) {
        int16_t begin = (int16_t)(slice * new), end = (int16_t)(begin + new);
        for (uint32_t to = 0; to < BUNDLE_MAX_CORES; to++) {
            int16_t first = low[to] > begin ? low[to] : begin, last = (int16_t)(low[to] + old);
            if (last > end) last = end;
            out[slice][to] = last > first ? (int16_t)(last - first) : 0;
        }
    }
}

static void find_overlaps(const lx_slices *from, const lx_slices *to, overlaps *out)
{
    out->count = 0;
    for (uint32_t d = 0; d < LOOP_MAX_DIMS; d++) {
        if (from->slices[d] == 1 && to->slices[d] == 1) continue;
        find_shared(from->slices[d], to->slices[d], to->core_stride[d], out->shared[out->count]);
        out->slices[out->count] = from->slices[d];
        out->core_stride[out->count++] = from->core_stride[d];
    }
}

// What core `from` sends to each of `cores`, in units of the whole over the product of all old and
// new slices.
static void find_messages(const overlaps *o, uint32_t cores, int32_t from,
                          int16_t out[BUNDLE_MAX_CORES])
{
    for (uint32_t to = 0; to < BUNDLE_MAX_CORES; to++) out[to] = to < cores;
    for (uint32_t n = 0; n < o->count; n++) {
        const int16_t *shared = o->shared[n][from / o->core_stride[n] % o->slices[n]];
        for (uint32_t to = 0; to < BUNDLE_MAX_CORES; to++)
            out[to] = (int16_t)(out[to] * shared[to]);
    }
}

// Hops from a core to the one `CENTRE - index` before it.
enum { CENTRE = BUNDLE_MAX_CORES - 1 };

static void find_hops(int16_t out[2 * BUNDLE_MAX_CORES - 1])
{
    for (int32_t i = 0; i < 2 * BUNDLE_MAX_CORES - 1; i++) {
        int32_t distance = i > CENTRE ? i - CENTRE : CENTRE - i;
        bool around = distance > BUNDLE_MAX_CORES / 2;
        out[i] = (int16_t)(around ? BUNDLE_MAX_CORES - distance : distance);
    }
}

shuffle_cost shuffle_cost_between(const lx_slices *from, const lx_slices *to, double bytes)
{
    overlaps o;
    int32_t load[BUNDLE_MAX_CORES] = {0}, carried = 0, busiest = 0;
    int16_t hops[2 * BUNDLE_MAX_CORES - 1];
    int16_t message[BUNDLE_MAX_CORES];
    double units = (double)lx_slices_count(from) * lx_slices_count(to);
    find_overlaps(from, to, &o);
    find_hops(hops);
    for (int32_t core = 0; core < from->cores; core++) {
        const int16_t *hops_to = &hops[CENTRE - core];
        int32_t sent = 0;
        find_messages(&o, to->cores, core, message);
        for (uint32_t other = 0; other < BUNDLE_MAX_CORES; other++) {
            sent += message[other];
            load[other] += message[other];
            carried += message[other] * hops_to[other];
        }
        load[core] += sent;
    }
    for (uint32_t core = 0; core < BUNDLE_MAX_CORES; core++)
        if (load[core] > busiest) busiest = load[core];
    return (shuffle_cost){bytes / units * fmax(busiest, (double)carried / (2 * BUNDLE_MAX_CORES)) /
                              RING_BANDWIDTH,
                          count_messages(from, to)};
}

shuffle_cost shuffle_cost_of(const loop_graph *loops, const loop_op *shuffle, double bytes)
{
    lx_slices from = shuffle_source(loops, shuffle), to = lx_slices_of(loops, shuffle, 1);
    return shuffle_cost_between(&from, &to, bytes);
}
