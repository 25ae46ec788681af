// SPDX-License-Identifier: Apache-2.0
//
// Loops that repeat themselves. Durations do not depend on loop indices, so when all queues of all
// cores stand as they stood some iterations of a loop before (same steps, tokens, messages and
// remaining times, the loop's own index moved on by the same number for every queue inside it),
// everything between will happen again until a queue reaches the loop's end. These periods are
// added at once. A loop around it is found to repeat in the same way, so the walk takes a few
// iterations of every loop however many there are.
#include <math.h>
#include <string.h>

#include "card/time/time.h"

// Iterations back that are compared: a period may be as long.
enum { REMEMBERED = 8 };

// Remaining times that differ by less of a period count as equal.
#define TOLERANCE 1e-7

typedef struct {
    double us, memory_us, compute_us;
    uint32_t index;                     // of the leader
    int64_t *places;
    double *remaining_us;
} snapshot;

// A queue is in one loop of each depth at a time, so what is known of it needs no more room.
typedef struct {
    uint32_t loop;
    uint32_t count;                     // of snapshots ever taken since the loop was entered
    bool marked;
    snapshot *seen;                     // a ring of REMEMBERED; null until the first
} slot;

struct time_steady {
    arena *memory;
    const time_kernel *kernel;
    slot slots[TIME_QUEUES][ISA_MAX_LOOPS];     // [leader][depth]
    uint32_t place_count, time_count;
    uint32_t marked_count;
    snapshot present;
};

enum { PLACES_OF_QUEUE = 3 + ISA_MAX_LOOPS };

static bool make_snapshot(const time_steady *steady, snapshot *out)
{
    out->places = ARENA_NEW(steady->memory, int64_t, steady->place_count);
    out->remaining_us = ARENA_NEW(steady->memory, double, steady->time_count);
    return out->places && out->remaining_us;
}

static bool make_ring(const time_steady *steady, slot *s)
{
    snapshot *seen = ARENA_NEW(steady->memory, snapshot, REMEMBERED);
    for (uint32_t n = 0; seen && n < REMEMBERED; n++)
        if (!make_snapshot(steady, &seen[n])) return false;
    s->seen = seen;
    return seen != NULL;
}

spyre_status time_steady_create(arena *memory, const time_kernel *kernel, time_steady **out_steady)
{
    time_steady *steady = ARENA_NEW(memory, time_steady, 1);
    TRY_ALLOC(steady);
    steady->memory = memory;
    steady->kernel = kernel;
    steady->place_count = kernel->core_count * (ISA_MAX_TOKENS + TIME_QUEUES * PLACES_OF_QUEUE) +
                          (kernel->receives ? ISA_CORES * ISA_CORES : 0);
    steady->time_count = kernel->core_count * TIME_QUEUES;
    if (!make_snapshot(steady, &steady->present)) return status_no_memory();
    *out_steady = steady;
    return NULL;
}

static slot *slot_of(time_steady *steady, uint32_t loop)
{
    const time_loop *l = &steady->kernel->loops.items[loop];
    return &steady->slots[l->leader][l->depth];
}

void time_steady_enter(time_steady *steady, uint32_t loop)
{
    slot_of(steady, loop)->count = 0;
}

void time_steady_mark(time_steady *steady, uint32_t loop)
{
    slot *s = slot_of(steady, loop);
    if (!s->marked) steady->marked_count++;
    s->marked = true;
    s->loop = loop;
}

// --- What is compared

static uint32_t loop_at(const time_kernel *kernel, const time_core *core, uint32_t q)
{
    return kernel->steps[q].items[core->queue[q].at].loop;
}

static bool is_inside(const time_kernel *kernel, uint32_t loop, uint32_t outer)
{
    while (loop != TIME_NO_LOOP && loop != outer) loop = kernel->loops.items[loop].parent;
    return loop == outer;
}

static const time_queue *leader_of(const time_walk *walk, uint32_t loop)
{
    return &walk->cores[0].queue[walk->kernel->loops.items[loop].leader];
}

// In the same run of the loop as the leader, so that both leave it at the same iteration.
static bool goes_along(const time_walk *walk, const time_core *core, uint32_t q, uint32_t loop)
{
    if (!is_inside(walk->kernel, loop_at(walk->kernel, core, q), loop)) return false;
    const time_queue *leader = leader_of(walk, loop);
    uint32_t depth = walk->kernel->loops.items[loop].depth;
    return memcmp(core->queue[q].index, leader->index, depth * sizeof *leader->index) == 0;
}

static int64_t *write_queue(const time_walk *walk, const time_core *core, uint32_t q, uint32_t loop,
                            int64_t *out)
{
    const time_queue *queue = &core->queue[q];
    uint32_t inner = loop_at(walk->kernel, core, q);
    uint32_t depth = inner == TIME_NO_LOOP ? 0 : walk->kernel->loops.items[inner].depth + 1;
    *out++ = queue->at;
    *out++ = queue->active + 2 * queue->waited;
    *out++ = goes_along(walk, core, q, loop);
    int64_t *index = out;
    for (uint32_t d = 0; d < ISA_MAX_LOOPS; d++) *out++ = d < depth ? queue->index[d] : 0;
    uint32_t own = walk->kernel->loops.items[loop].depth;
    if (index[-1]) index[own] -= leader_of(walk, loop)->index[own];
    return out;
}

static void take_snapshot(const time_walk *walk, uint32_t loop, snapshot *out)
{
    int64_t *place = out->places;
    double *remaining = out->remaining_us;
    out->us = walk->us;
    out->memory_us = walk->memory_us;
    out->compute_us = walk->compute_us;
    out->index = leader_of(walk, loop)->index[walk->kernel->loops.items[loop].depth];
    for (uint32_t c = 0; c < walk->kernel->core_count; c++) {
        const time_core *core = &walk->cores[c];
        for (uint32_t t = 0; t < ISA_MAX_TOKENS; t++) *place++ = core->token[t];
        for (uint32_t q = 0; q < TIME_QUEUES; q++) {
            place = write_queue(walk, core, q, loop, place);
            *remaining++ = core->queue[q].remaining_us;
        }
    }
    if (walk->kernel->receives)
        memcpy(place, walk->messages, ISA_CORES * ISA_CORES * sizeof *place);
}

static bool same(const time_steady *steady, const snapshot *a, const snapshot *b)
{
    if (memcmp(a->places, b->places, steady->place_count * sizeof *a->places) != 0) return false;
    double allowed = TOLERANCE * fabs(b->us - a->us) / steady->time_count;
    for (uint32_t n = 0; n < steady->time_count; n++)
        if (fabs(a->remaining_us[n] - b->remaining_us[n]) > allowed) return false;
    return true;
}

// --- Skipping

// Periods of `iterations` that all queues can still do without leaving the loop.
static uint32_t periods_left(const time_walk *walk, uint32_t loop, uint32_t iterations)
{
    const time_loop *l = &walk->kernel->loops.items[loop];
    uint32_t periods = UINT32_MAX;
    for (uint32_t c = 0; c < walk->kernel->core_count; c++)
        for (uint32_t q = 0; q < TIME_QUEUES; q++) {
            if (!goes_along(walk, &walk->cores[c], q, loop)) continue;
            uint32_t left = (l->count - 1 - walk->cores[c].queue[q].index[l->depth]) / iterations;
            if (left < periods) periods = left;
        }
    return periods;
}

static void move_on(time_walk *walk, uint32_t loop, uint32_t iterations)
{
    uint32_t depth = walk->kernel->loops.items[loop].depth;
    bool along[ISA_CORES][TIME_QUEUES];
    for (uint32_t c = 0; c < walk->kernel->core_count; c++)
        for (uint32_t q = 0; q < TIME_QUEUES; q++)
            along[c][q] = goes_along(walk, &walk->cores[c], q, loop);
    for (uint32_t c = 0; c < walk->kernel->core_count; c++)
        for (uint32_t q = 0; q < TIME_QUEUES; q++)
            if (along[c][q]) walk->cores[c].queue[q].index[depth] += iterations;
}

static bool skip(time_walk *walk, uint32_t loop, const snapshot *before, const snapshot *now)
{
    uint32_t iterations = now->index - before->index;
    uint32_t periods = iterations ? periods_left(walk, loop, iterations) : 0;
    if (periods == 0) return false;
    walk->us += periods * (now->us - before->us);
    walk->memory_us += periods * (now->memory_us - before->memory_us);
    walk->compute_us += periods * (now->compute_us - before->compute_us);
    move_on(walk, loop, periods * iterations);
    return true;
}

static void look_back(time_walk *walk, slot *known)
{
    time_steady *steady = walk->steady;
    snapshot *now = &steady->present;
    if (!known->seen && !make_ring(steady, known)) return;
    take_snapshot(walk, known->loop, now);
    for (uint32_t n = 0; n < REMEMBERED && n < known->count; n++) {
        const snapshot *before = &known->seen[(known->count - 1 - n) % REMEMBERED];
        if (!same(steady, before, now)) continue;
        if (skip(walk, known->loop, before, now)) known->count = 0;
        return;
    }
    snapshot *oldest = &known->seen[known->count++ % REMEMBERED];
    snapshot kept = *oldest;
    *oldest = *now;
    *now = kept;
}

// Inner loops first: what they skip is what the outer ones then see.
void time_steady_skip(time_walk *walk)
{
    time_steady *steady = walk->steady;
    for (uint32_t d = ISA_MAX_LOOPS; steady->marked_count && d-- > 0;) {
        for (uint32_t q = 0; q < TIME_QUEUES; q++) {
            slot *s = &steady->slots[q][d];
            if (!s->marked) continue;
            s->marked = false;
            steady->marked_count--;
            uint32_t present = loop_at(walk->kernel, &walk->cores[0], q);
            if (is_inside(walk->kernel, present, s->loop)) look_back(walk, s);
        }
    }
}
