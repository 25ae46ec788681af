// SPDX-License-Identifier: Apache-2.0
#include "front/cost_shuffle.h"

#include <math.h>

#include "front/residency.h"
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

shuffle_division shuffle_source(const loop_graph *loops, const loop_op *shuffle)
{
    const loop_access *access = &shuffle->operand[0];
    const loop_buffer *b = &loops->buffers.items[access->buffer];
    const loop_op *writer = writer_of(loops, access->buffer);
    shuffle_division out = {.cores = 1};
    for (uint32_t v = 0; v < shuffle->var_count; v++) out.slices[v] = out.core_stride[v] = 1;
    if (!writer) return out;
    residency_view written = residency_written(loops, writer);
    out.cores = written.cores;
    for (uint32_t v = 0; v < shuffle->var_count; v++) {
        if (!access->stride[v]) continue;
        uint32_t d = loop_dim_at(b, access->stride[v]);
        out.slices[v] = written.slices[d];
        if (written.slices[d] > 1) out.core_stride[v] = written.core_stride[d];
    }
    return out;
}

shuffle_pattern shuffle_pattern_of(const loop_op *op, const shuffle_division *source)
{
    shuffle_pattern out = {.old_cores = (uint8_t)source->cores,
                           .new_cores = (uint8_t)loop_core_count(op)};
    for (uint32_t v = 0; v < op->var_count; v++) {
        bool moves = op->operand[0].stride[v];
        if (op->split[v] == 1 && (!moves || source->slices[v] == 1)) continue;
        out.loop[out.count++] = (shuffle_loop){
            .old_slices = (uint8_t)(moves ? source->slices[v] : 1),
            .old_stride = (uint8_t)(moves ? source->core_stride[v] : 1),
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

// The new division's slice of every core, along the loops that move.
typedef struct {
    uint32_t count;
    shuffle_loop loop[LOOP_MAX_VARS];
    int32_t slice[LOOP_MAX_VARS][BUNDLE_MAX_CORES];
} receivers;

static receivers find_receivers(const shuffle_pattern *p)
{
    receivers r;
    r.count = 0;
    for (uint32_t n = 0; n < p->count; n++) {
        const shuffle_loop *l = &p->loop[n];
        if (l->repeats) continue;
        for (int32_t to = 0; to < BUNDLE_MAX_CORES; to++)
            r.slice[r.count][to] = to / l->new_stride % l->new_slices;
        r.loop[r.count++] = *l;
    }
    return r;
}

// What core `from` sends to each, in units of the whole over the product of all old and new slices.
static void find_messages(const receivers *r, int32_t from, int32_t out[BUNDLE_MAX_CORES])
{
    for (uint32_t to = 0; to < BUNDLE_MAX_CORES; to++) out[to] = 1;
    for (uint32_t n = 0; n < r->count; n++) {
        int32_t old = r->loop[n].old_slices, new = r->loop[n].new_slices, overlap[BUNDLE_MAX_CORES];
        int32_t begin = from / r->loop[n].old_stride % old * new, end = begin + new;
        for (int32_t slice = 0; slice < new; slice++) {
            int32_t low = slice * old > begin ? slice * old : begin;
            int32_t high = (slice + 1) * old < end ? (slice + 1) * old : end;
            overlap[slice] = high > low ? high - low : 0;
        }
        for (uint32_t to = 0; to < BUNDLE_MAX_CORES; to++) out[to] *= overlap[r->slice[n][to]];
    }
}

static int32_t hops(int32_t a, int32_t b)
{
    int32_t distance = a > b ? a - b : b - a;
    return distance <= BUNDLE_MAX_CORES / 2 ? distance : BUNDLE_MAX_CORES - distance;
}

shuffle_cost shuffle_pattern_cost(const shuffle_pattern *p, double bytes)
{
    receivers r = find_receivers(p);
    int64_t load[BUNDLE_MAX_CORES] = {0}, carried = 0, busiest = 0;
    int32_t message[BUNDLE_MAX_CORES];
    double units = 1;
    for (uint32_t n = 0; n < r.count; n++) units *= r.loop[n].old_slices * r.loop[n].new_slices;
    for (int32_t from = 0; from < p->old_cores; from++) {
        find_messages(&r, from, message);
        for (int32_t to = 0; to < p->new_cores; to++) {
            load[from] += message[to];
            load[to] += message[to];
            carried += message[to] * hops(from, to);
        }
    }
    for (uint32_t core = 0; core < BUNDLE_MAX_CORES; core++)
        if (load[core] > busiest) busiest = load[core];
    return (shuffle_cost){bytes / units *
                              fmax((double)busiest, (double)carried / (2 * BUNDLE_MAX_CORES)) /
                              (GEOMETRY_RING_WIDTH * CLOCK),
                          count_messages(p)};
}

shuffle_cost shuffle_cost_of(const loop_op *op, const shuffle_division *source, double bytes)
{
    shuffle_pattern pattern = shuffle_pattern_of(op, source);
    return shuffle_pattern_cost(&pattern, bytes);
}
