// SPDX-License-Identifier: Apache-2.0
//
// Random small graphs of natives and views, evaluated in fp64 while they are built. A value carries
// a bound of its error, so that results of 16 bits can be compared without knowing the graph.
#ifndef TESTS_RANDOM_GRAPH_H
#define TESTS_RANDOM_GRAPH_H

#include <math.h>

#include "support/front_run.h"

#ifndef RANDOM_MOST_ELEMENTS
#define RANDOM_MOST_ELEMENTS 6000
#endif

enum { RANDOM_MOST_VALUES = 64, RANDOM_MOST_INPUTS = 12 };

typedef struct {
    uint32_t id;
    bool computed; // by an op, so that it may be an output
    bool checked;  // false: too inexact to compare
    spyre_dtype dtype;
    spyre_view view;
    double *storage;
    int64_t count; // elements of the storage
    double bound, error;
} random_value;

typedef struct {
    front_run run;
    uint64_t state;
    const uint8_t *tape; // decisions that the caller has made, before the random ones
    size_t tape_left;
    random_value value[RANDOM_MOST_VALUES];
    uint32_t count;
    void *owned[4 * RANDOM_MOST_VALUES];
    uint32_t owned_count;
} random_graph;

static inline uint32_t random_noise(random_graph *g, uint32_t limit)
{
    g->state ^= g->state << 13;
    g->state ^= g->state >> 7;
    g->state ^= g->state << 17;
    return (uint32_t)(g->state >> 20) % limit;
}

// A decision, below 256.
static inline uint32_t random_below(random_graph *g, uint32_t limit)
{
    if (g->tape_left == 0 || limit > 256) return random_noise(g, limit);
    g->tape_left--;
    return *g->tape++ % limit;
}

static inline bool random_chance(random_graph *g, uint32_t percent)
{
    return random_below(g, 100) < percent;
}

static inline void *random_own(random_graph *g, size_t bytes)
{
    if (g->owned_count == sizeof g->owned / sizeof g->owned[0]) abort();
    return g->owned[g->owned_count++] = calloc(1, bytes + 1);
}

static inline random_graph *random_graph_begin(uint64_t seed)
{
    random_graph *g = calloc(1, sizeof *g);
    g->run = front_run_begin();
    g->state = seed * 0x9E3779B97F4A7C15ULL + 1;
    for (int i = 0; i < 8; i++) random_noise(g, 2);
    return g;
}

// Decisions are bytes of the tape as far as it goes; it must stay as long as the graph.
static inline random_graph *random_graph_begin_tape(const uint8_t *tape, size_t count)
{
    random_graph *g = random_graph_begin(count);
    g->tape = tape;
    g->tape_left = count;
    return g;
}

static inline void random_graph_end(random_graph *g)
{
    for (uint32_t i = 0; i < g->owned_count; i++) free(g->owned[i]);
    front_run_end(&g->run);
    free(g);
}

static inline bool random_room(const random_graph *g)
{
    return g->count + 8 < RANDOM_MOST_VALUES && g->run.input_count + 4 < RANDOM_MOST_INPUTS;
}

// The storage element that index `at` (in row-major order over the view's sizes) names.
static inline int64_t random_offset(const spyre_view *view, int64_t at)
{
    int64_t offset = view->offset;
    for (uint32_t d = view->rank; d-- > 0;) {
        offset += at % view->size[d] * view->stride[d];
        at /= view->size[d];
    }
    return offset;
}

// `v` with the sizes of `like`, right aligned, dims of size 1 repeated.
static inline spyre_view random_broadcast(const spyre_view *v, const spyre_view *like)
{
    spyre_view out = *like;
    out.offset = v->offset;
    for (uint32_t d = 0; d < out.rank; d++) {
        uint32_t shift = out.rank - v->rank;
        bool moves = d >= shift && v->size[d - shift] > 1;
        out.stride[d] = moves ? v->stride[d - shift] : 0;
    }
    return out;
}

static inline random_value *random_add(random_graph *g, random_value value)
{
    g->value[g->count] = value;
    return &g->value[g->count++];
}

static inline double random_rounding(spyre_dtype dtype)
{
    return dtype == SPYRE_DTYPE_F32 ? 1e-6 : 1.0 / 500.0;
}

// --- Inputs

static inline int64_t random_extent(random_graph *g)
{
    static const int64_t extents[] = {1,  2,  3,  4,  5,  6,  8,   10, 16,
                                      32, 33, 48, 64, 65, 96, 100, 128};
    return extents[random_below(g, sizeof extents / sizeof extents[0])];
}

static inline spyre_view random_sizes(random_graph *g)
{
    int64_t size[4], elements = 1;
    uint32_t rank = 1 + random_below(g, 4);
    for (uint32_t d = 0; d < rank; d++) {
        size[d] = random_extent(g);
        while (elements * size[d] > RANDOM_MOST_ELEMENTS) size[d] = (size[d] + 1) / 2;
        elements *= size[d];
    }
    return dense_view(rank, size);
}

static inline random_value *random_input(random_graph *g, spyre_dtype dtype, spyre_view view)
{
    int64_t count = view_elements(&view);
    double *storage = random_own(g, (size_t)count * sizeof *storage);
    uint16_t *half = random_own(g, (size_t)count * sizeof(float));
    float *single = (float *)(void *)half;
    for (int64_t i = 0; i < count; i++) {
        storage[i] = ((double)random_noise(g, 256) - 128) / 64;
        if (dtype == SPYRE_DTYPE_F16)
            half[i] = fp16_from_float((float)storage[i]);
        else
            single[i] = (float)storage[i];
    }
    uint32_t id = front_run_input(&g->run, dtype, view.rank, view.size, half);
    return random_add(g, (random_value){id, false, true, dtype, view, storage, count, 2, 0});
}

// --- Views

static inline bool random_merge(random_graph *g, spyre_view *v, uint32_t d)
{
    (void)g;
    if (d + 1 >= v->rank || v->stride[d] != v->stride[d + 1] * v->size[d + 1]) return false;
    v->size[d] *= v->size[d + 1];
    v->stride[d] = v->stride[d + 1];
    v->rank--;
    for (uint32_t e = d + 1; e < v->rank; e++) {
        v->size[e] = v->size[e + 1];
        v->stride[e] = v->stride[e + 1];
    }
    return true;
}

static inline void random_insert(spyre_view *v, uint32_t d, int64_t size, int64_t stride)
{
    for (uint32_t e = v->rank; e > d; e--) {
        v->size[e] = v->size[e - 1];
        v->stride[e] = v->stride[e - 1];
    }
    v->rank++;
    v->size[d] = size;
    v->stride[d] = stride;
}

static inline bool random_split(random_graph *g, spyre_view *v, uint32_t d)
{
    int64_t factors[16];
    uint32_t count = 0;
    for (int64_t f = 2; f < v->size[d] && count < 16; f++)
        if (v->size[d] % f == 0) factors[count++] = f;
    if (v->rank == 5 || count == 0) return false;
    int64_t inner = factors[random_below(g, count)];
    random_insert(v, d + 1, inner, v->stride[d]);
    v->size[d] /= inner;
    v->stride[d] *= inner;
    return true;
}

static inline bool random_slice(random_graph *g, spyre_view *v, uint32_t d)
{
    if (v->size[d] < 2) return false;
    int64_t start = random_below(g, (uint32_t)v->size[d]), step = random_chance(g, 25) ? 2 : 1;
    int64_t most = (v->size[d] - start + step - 1) / step;
    v->offset += start * v->stride[d];
    v->size[d] = random_chance(g, 50) ? most : 1 + random_below(g, (uint32_t)most);
    v->stride[d] *= step;
    return true;
}

static inline bool random_window(random_graph *g, spyre_view *v, uint32_t d)
{
    if (v->size[d] < 4 || v->rank == 5 || view_elements(v) * 3 > RANDOM_MOST_ELEMENTS) return false;
    int64_t width = 2 + random_below(g, 2);
    random_insert(v, d + 1, width, v->stride[d]);
    v->size[d] -= width - 1;
    return true;
}

static inline bool random_permute(random_graph *g, spyre_view *v)
{
    if (v->rank < 2) return false;
    for (uint32_t d = v->rank; d-- > 1;) {
        uint32_t e = random_below(g, d + 1);
        int64_t size = v->size[d], stride = v->stride[d];
        v->size[d] = v->size[e], v->stride[d] = v->stride[e];
        v->size[e] = size, v->stride[e] = stride;
    }
    return true;
}

static inline bool random_expand(random_graph *g, spyre_view *v)
{
    int64_t size = 2 + random_below(g, 3);
    if (v->rank == 5 || view_elements(v) * size > RANDOM_MOST_ELEMENTS) return false;
    random_insert(v, random_below(g, v->rank + 1), size, 0);
    return true;
}

static inline const random_value *random_view(random_graph *g, const random_value *of)
{
    random_value out = *of;
    uint32_t kind = random_below(g, 40);
    uint32_t d = of->view.rank ? random_below(g, of->view.rank) : 0;
    bool done = false;
    if (of->view.rank == 0) return of;
    if (kind < 12)
        done = random_permute(g, &out.view);
    else if (kind < 20)
        done = random_split(g, &out.view, d);
    else if (kind < 28)
        done = random_merge(g, &out.view, d);
    else if (kind < 34)
        done = random_slice(g, &out.view, d);
    else if (kind < 39)
        done = random_expand(g, &out.view);
    else
        done = random_window(g, &out.view, d);
    if (!done) return of;
    out.id = front_run_view(&g->run, of->id, of->dtype, out.view);
    out.computed = false;
    return random_add(g, out);
}

#endif
