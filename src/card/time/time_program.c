// SPDX-License-Identifier: Apache-2.0
//
// Kernel after kernel: each is timed by itself, then counts with what it adds to those that it
// overlaps, and loops around kernels multiply. Counters are sums over the code; loops multiply
// them, too.
#include <string.h>

#include "card/time/time.h"

typedef struct {
    const isa_program *program;
    const time_options *options;
    card_counters *kernels;
    double repeats[ISA_MAX_LOOPS + 1];          // of the loops that are open around kernels
    uint32_t depth;
    time_overlap *overlap;
    time_messages messages;
    time_messages before[ISA_MAX_LOOPS];        // messages when the loop was entered
    arena *scratch;                             // of a kernel
} time_state;

// Counts of absurd programs end here instead of beyond what an integer holds.
static int64_t whole(double count)
{
    return count < 1e18 ? (int64_t)count : (int64_t)1e18;
}

static void add(int64_t *sum, int64_t more)
{
    if (__builtin_add_overflow(*sum, more, sum)) *sum = INT64_MAX;
}

// --- One run of a kernel

typedef struct {
    double read, written, lx, ring, hops, carried, macs, elements; // carried: ring bytes * hops
    double busy_us[CARD_RESOURCES];
} sums;

static void count_message(const time_kernel *k, const time_step *step, double times, sums *s)
{
    for (uint32_t core = 0; core < ISA_CORES; core++) {
        if (!isa_is_active(k->source, core)) continue;
        double hops = time_hops(core, isa_peer(k->source, core, step->token));
        s->ring += times * step->cost.message_bytes;
        s->hops += times * hops;
        s->carried += times * hops * step->cost.message_bytes;
    }
}

static void count_step(const time_kernel *k, uint32_t q, const time_step *step, sums *s)
{
    const double times = step->times;
    const time_cost *cost = &step->cost;
    s->read += times * cost->read_bytes;
    s->written += times * cost->written_bytes;
    s->lx += times * cost->lx_bytes;
    s->macs += times * cost->macs;
    s->elements += times * cost->elements;
    if (cost->kind == TIME_SEND) count_message(k, step, times, s);
    switch (time_queue_of(q)) {
    case ISA_QUEUE_PT: s->busy_us[CARD_PT] += times * cost->us; return;
    case ISA_QUEUE_SFP: s->busy_us[CARD_SFP] += times * cost->us; return;
    case ISA_QUEUE_RING: s->busy_us[CARD_RING] += times * cost->us; return;
    case ISA_QUEUE_LOAD:
    case ISA_QUEUE_STORE:
    case ISA_QUEUE_SEQ:
    case ISA_QUEUE_COUNT: return;
    }
}

// Messages that a kernel without RECEIVE leaves; the walk of the others counts them itself.
static void leave_messages(const time_kernel *k, const time_step *step, time_messages messages)
{
    for (uint32_t core = 0; core < ISA_CORES; core++)
        if (isa_is_active(k->source, core))
            add(&messages[core][isa_peer(k->source, core, step->token)], whole(step->times));
}

static void count_kernel(const time_kernel *k, time_messages messages, sums *s)
{
    for (uint32_t q = 0; q < TIME_QUEUES; q++) {
        for (uint32_t n = 0; n < k->steps[q].count; n++) {
            const time_step *step = &k->steps[q].items[n];
            if (step->kind != TIME_EXECUTE) continue;
            count_step(k, q, step, s);
            if (step->cost.kind == TIME_SEND && !k->receives) leave_messages(k, step, messages);
        }
    }
}

static spyre_status time_one(time_state *s, uint32_t begin, uint32_t end)
{
    const isa_program *program = s->program;
    time_kernel kernel;
    time_result result;
    sums once = {0};
    arena_clear(s->scratch);
    TRY(time_kernel_build(s->scratch, program, begin, end, &kernel));
    TRY(time_kernel_run(s->scratch, &kernel, s->options, s->messages, &result));
    count_kernel(&kernel, s->messages, &once);
    once.busy_us[CARD_MEMORY] = result.memory_us;
    double links_us = time_ring_links_us(once.carried);
    if (links_us > once.busy_us[CARD_RING]) once.busy_us[CARD_RING] = links_us;
    if (links_us > result.us) result.us = links_us;
    double runs = s->repeats[s->depth];
    double added_us = time_overlap_add(s->overlap, result.us, once.busy_us);
    card_counters more = {
        .runs = whole(runs),
        .memory_read_bytes = whole(runs * once.read),
        .memory_written_bytes = whole(runs * once.written),
        .lx_bytes = whole(runs * once.lx),
        .ring_bytes = whole(runs * once.ring),
        .ring_hops = whole(runs * once.hops),
        .mac_count = whole(runs * once.macs),
        .vector_element_count = whole(runs * once.elements),
        .us = runs * added_us,
        .overlap_us = runs * (result.us - added_us),
        .stall_us = runs * (result.us - result.compute_us),
        .estimated = result.estimated,
    };
    for (uint32_t r = 0; r < CARD_RESOURCES; r++) more.busy_us[r] = runs * once.busy_us[r];
    card_counters_add(&s->kernels[program->code.items[begin]->count], &more);
    return NULL;
}

// --- The program

static uint32_t end_of_kernel(const isa_program *program, uint32_t at)
{
    while (program->code.items[at]->opcode != ISA_END_KERNEL) at++;
    return at;
}

static void enter_loop(time_state *s, double count)
{
    memcpy(s->before[s->depth], s->messages, sizeof s->messages);
    s->repeats[s->depth + 1] = s->repeats[s->depth] * count;
    s->depth++;
}

// What one iteration left in the ring, every iteration leaves.
static void leave_loop(time_state *s, double count)
{
    s->depth--;
    for (uint32_t a = 0; a < ISA_CORES; a++)
        for (uint32_t b = 0; b < ISA_CORES; b++) {
            int64_t before = s->before[s->depth][a][b];
            double change = (double)s->messages[a][b] - (double)before;
            s->messages[a][b] = whole((double)before + change * count);
        }
}

static spyre_status time_code(time_state *s)
{
    uint32_t counts[ISA_MAX_LOOPS] = {0};
    for (uint32_t at = 0; at < s->program->code.count; at++) {
        const isa_instruction *i = s->program->code.items[at];
        if (i->opcode == ISA_LOOP || i->opcode == ISA_END_LOOP) time_overlap_end(s->overlap);
        if (i->opcode == ISA_LOOP) {
            counts[s->depth] = i->count;
            enter_loop(s, i->count);
        } else if (i->opcode == ISA_END_LOOP) {
            leave_loop(s, counts[s->depth - 1]);
        } else if (i->opcode == ISA_KERNEL) {
            uint32_t end = end_of_kernel(s->program, at);
            TRY(time_one(s, at, end));
            at = end;
        }
    }
    return NULL;
}

spyre_status time_program(const isa_program *program, const time_options *options,
                          card_counters *out_kernels)
{
    memset(out_kernels, 0, program->kernels.count * sizeof *out_kernels);
    arena *memory = arena_create(), *scratch = arena_create();
    time_state *s = memory && scratch ? ARENA_NEW(memory, time_state, 1) : NULL;
    spyre_status status = s ? NULL : status_no_memory();
    if (!status) {
        s->program = program;
        s->options = options;
        s->kernels = out_kernels;
        s->repeats[0] = 1;
        s->scratch = scratch;
        status = time_overlap_create(memory, program, &s->overlap);
        if (!status) status = time_code(s);
    }
    arena_destroy(scratch);
    arena_destroy(memory);
    return status;
}

spyre_status card_time(const isa_program *program, card_counters *out_kernels)
{
    time_options options = {false};
    return time_program(program, &options, out_kernels);
}

void card_counters_add(card_counters *sum, const card_counters *more)
{
    add(&sum->runs, more->runs);
    add(&sum->memory_read_bytes, more->memory_read_bytes);
    add(&sum->memory_written_bytes, more->memory_written_bytes);
    add(&sum->lx_bytes, more->lx_bytes);
    add(&sum->ring_bytes, more->ring_bytes);
    add(&sum->ring_hops, more->ring_hops);
    add(&sum->mac_count, more->mac_count);
    add(&sum->vector_element_count, more->vector_element_count);
    sum->us += more->us;
    sum->overlap_us += more->overlap_us;
    sum->stall_us += more->stall_us;
    for (uint32_t r = 0; r < CARD_RESOURCES; r++) sum->busy_us[r] += more->busy_us[r];
    sum->estimated = sum->estimated || more->estimated;
}

card_resource card_bound(const card_counters *counters)
{
    card_resource busiest = CARD_MEMORY;
    for (card_resource r = CARD_PT; r < CARD_RESOURCES; r++)
        if (counters->busy_us[r] > counters->busy_us[busiest]) busiest = r;
    double alone_us = counters->us + counters->overlap_us;
    return counters->busy_us[busiest] >= alone_us / 2 ? busiest : CARD_RESOURCES;
}
