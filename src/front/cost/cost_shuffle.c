// SPDX-License-Identifier: Apache-2.0
//
// A pattern has the loops along which the buffer is divided, with slices before and afterwards.
// Over old * new slices a loop's slices begin at whole numbers, so what a sender and a receiver
// share is the product over the loops of what their two slices share, as integers:
//
//     2 slices -> 4 along one loop, 8 units: sender 0 has [0, 4), receivers [0, 2) [2, 4) ..,
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
        if (op->operand[op->operand_count - 1].buffer == buffer) return op;
    }
    return NULL;
}

lx_slices shuffle_source(const loop_graph *loops, const loop_op *shuffle)
{
    const loop_op *writer = writer_of(loops, shuffle->operand[0].buffer);
    if (writer) return lx_slices_written(loops, writer);
    lx_slices whole = {.cores = 1};
    for (uint32_t d = 0; d < LOOP_MAX_DIMS; d++) whole.slices[d] = 1;
    return whole;
}

static shuffle_pattern pattern_of(const loop_graph *loops, const loop_op *op,
                                  const lx_slices *source)
{
    const loop_access *from = &op->operand[0];
    const loop_buffer *b = &loops->buffers.items[from->buffer];
    shuffle_pattern out = {.old_cores = (uint8_t)source->cores,
                           .new_cores = (uint8_t)loop_core_count(op)};
    for (uint32_t v = 0; v < op->var_count; v++) {
        bool moves = from->stride[v];
        uint32_t d = moves ? loop_dim_at(b, from->stride[v]) : 0;
        bool was_cut = moves && source->slices[d] > 1;
        if (op->split[v] == 1 && !was_cut) continue;
        out.loop[out.count++] =
            (shuffle_loop){.old_slices = (uint8_t)(was_cut ? source->slices[d] : 1),
                           .old_stride = (uint8_t)(was_cut ? source->core_stride[d] : 1),
                           .new_slices = (uint8_t)op->split[v],
                           .new_stride = (uint8_t)(op->split[v] > 1 ? op->core_stride[v] : 1),
                           .repeats = !moves};
    }
    return out;
}

// --- Messages

// Every loop is cut where slices of the one or the other division end.
static int64_t count_messages(const shuffle_pattern *p)
{
    int64_t sent = 1, received = 1;
    for (uint32_t n = 0; n < p->count; n++) {
        int64_t a = p->loop[n].old_slices, b = p->loop[n].new_slices, units = a;
        while (units % b) units += a;
        if (p->loop[n].repeats) units = b;
        sent *= units / a;
        if (!p->loop[n].repeats) received *= units / b;
    }
    return sent + received;
}

// What a core that has a slice of the old division shares with each core's slice of the new one,
// along the loops that move; in units of the loop over old * new slices. Products over all loops
// are at most the cores squared.
typedef struct {
    uint32_t count;
    shuffle_loop loop[LOOP_MAX_VARS];
    int16_t shared[LOOP_MAX_VARS][BUNDLE_MAX_CORES][BUNDLE_MAX_CORES]; // by old slice, receiver
} overlaps;

static void find_shared(const shuffle_loop *l, int16_t out[][BUNDLE_MAX_CORES])
{
    int16_t old = l->old_slices, new = l->new_slices, low[BUNDLE_MAX_CORES];
    for (int32_t to = 0; to < BUNDLE_MAX_CORES; to++)
        low[to] = (int16_t)(to / l->new_stride % new * old);
    for (int32_t slice = 0; slice < old; slice++) {
        int16_t begin = (int16_t)(slice * new), end = (int16_t)(begin + new);
        for (uint32_t to = 0; to < BUNDLE_MAX_CORES; to++) {
            int16_t first = low[to] > begin ? low[to] : begin, last = (int16_t)(low[to] + old);
            if (last > end) last = end;
            out[slice][to] = last > first ? (int16_t)(last - first) : 0;
        }
    }
}

static void find_overlaps(const shuffle_pattern *p, overlaps *out)
{
    out->count = 0;
    for (uint32_t n = 0; n < p->count; n++) {
        if (p->loop[n].repeats) continue;
        find_shared(&p->loop[n], out->shared[out->count]);
        out->loop[out->count++] = p->loop[n];
    }
}

// What core `from` sends to each, in units of the whole over the product of all old and new slices.
static void find_messages(const shuffle_pattern *p, const overlaps *o, int32_t from,
                          int16_t out[BUNDLE_MAX_CORES])
{
    for (uint32_t to = 0; to < BUNDLE_MAX_CORES; to++) out[to] = to < p->new_cores;
    for (uint32_t n = 0; n < o->count; n++) {
        const shuffle_loop *l = &o->loop[n];
        const int16_t *shared = o->shared[n][from / l->old_stride % l->old_slices];
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

shuffle_cost shuffle_pattern_cost(const shuffle_pattern *p, double bytes)
{
    overlaps o;
    int32_t load[BUNDLE_MAX_CORES] = {0}, carried = 0, busiest = 0;
    int16_t hops[2 * BUNDLE_MAX_CORES - 1];
    int16_t message[BUNDLE_MAX_CORES];
    double units = 1;
    find_overlaps(p, &o);
    find_hops(hops);
    for (uint32_t n = 0; n < o.count; n++) units *= o.loop[n].old_slices * o.loop[n].new_slices;
    for (int32_t from = 0; from < p->old_cores; from++) {
        const int16_t *hops_to = &hops[CENTRE - from];
        int32_t sent = 0;
        find_messages(p, &o, from, message);
        for (uint32_t to = 0; to < BUNDLE_MAX_CORES; to++) {
            sent += message[to];
            load[to] += message[to];
            carried += message[to] * hops_to[to];
        }
        load[from] += sent;
    }
    for (uint32_t core = 0; core < BUNDLE_MAX_CORES; core++)
        if (load[core] > busiest) busiest = load[core];
    return (shuffle_cost){bytes / units * fmax(busiest, (double)carried / (2 * BUNDLE_MAX_CORES)) /
                              (GEOMETRY_RING_WIDTH * CLOCK),
                          count_messages(p)};
}

shuffle_cost shuffle_cost_of(const loop_graph *loops, const loop_op *op, const lx_slices *source,
                             double bytes)
{
    shuffle_pattern pattern = pattern_of(loops, op, source);
    return shuffle_pattern_cost(&pattern, bytes);
}
