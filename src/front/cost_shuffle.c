// SPDX-License-Identifier: Apache-2.0
#include "front/cost_shuffle.h"

#include <math.h>

#include "front/residency.h"
#include "isa/constants.h"

static const loop_op *writer_of(const loop_graph *loops, uint32_t buffer)
{
    for (uint32_t i = 0; i < loops->ops.count; i++) {
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

// --- Messages

// The part of the whole that core `from` has before and core `to` afterwards.
static double share_of(const loop_op *op, const shuffle_division *source, uint32_t from, uint32_t to)
{
    double share = 1;
    for (uint32_t v = 0; v < op->var_count; v++) {
        if (!op->operand[0].stride[v]) continue;
        double old = 1.0 / source->slices[v], new = 1.0 / op->split[v];
        int32_t n = (int32_t)from / source->core_stride[v] % source->slices[v];
        double begin = fmax(n * old, loop_core_slice(op, v, to) * new);
        double end = fmin((n + 1) * old, (loop_core_slice(op, v, to) + 1) * new);
        if (end - begin < 1e-9) return 0;
        share *= end - begin;
    }
    return share;
}

// Every loop is cut where slices of the one or the other division end.
static int64_t count_messages(const loop_op *op, const shuffle_division *source)
{
    int64_t sent = 1, received = 1;
    for (uint32_t v = 0; v < op->var_count; v++) {
        int64_t a = source->slices[v], b = op->split[v], units = a;
        if (!op->operand[0].stride[v]) {
            sent *= b;
            continue;
        }
        while (units % b) units += a;
        sent *= units / a;
        received *= units / b;
    }
    return sent + received;
}

static double hops(uint32_t a, uint32_t b)
{
    uint32_t distance = a > b ? a - b : b - a;
    return distance <= BUNDLE_MAX_CORES / 2 ? distance : BUNDLE_MAX_CORES - distance;
}

shuffle_cost shuffle_cost_of(const loop_op *op, const shuffle_division *source, double bytes)
{
    double sent[BUNDLE_MAX_CORES] = {0}, received[BUNDLE_MAX_CORES] = {0};
    double carried = 0, busiest = 0;
    for (uint32_t from = 0; from < source->cores; from++)
        for (uint32_t to = 0; to < loop_core_count(op); to++) {
            double message = bytes * share_of(op, source, from, to);
            sent[from] += message;
            received[to] += message;
            carried += message * hops(from, to);
        }
    for (uint32_t core = 0; core < BUNDLE_MAX_CORES; core++)
        busiest = fmax(busiest, sent[core] + received[core]);
    return (shuffle_cost){fmax(busiest, carried / (2 * BUNDLE_MAX_CORES)) /
                              (GEOMETRY_RING_WIDTH * CLOCK),
                          count_messages(op, source)};
}
