// SPDX-License-Identifier: Apache-2.0
//
// Jobs on cards. A binding is what a job keeps on one card of one context: the loaded program and
// its constants. It is made at the first launch there and ends with the job or with the context,
// whichever goes first.
#include "runtime/job.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/thread_pool.h"
#include "runtime/profile.h"
#include "runtime/launch_recorder.h"
#include "tensor/scalar.h"

// Up to this much work a launch on an idle stream runs on the caller's thread: waking the worker
// would take a good part of its time.
#define SMALL_BYTES (1 << 20)
#define SMALL_ELEMENTS (1 << 19)
#define SMALL_MACS (8 << 20)

// So much more takes some ten milliseconds. The threads of OpenMP spin about as long after a
// framework's own operators, beside whatever other threads would run the launch meanwhile.
enum { BRIEF_TIMES = 256 };

// Bytes of the caller's place in a task.
enum { PLACE_TEXT = 160 };

struct job_binding {
    device *owner;                      // null once its context is gone
    card_program *program;
    uint64_t *constants;                // card address of argument k, 0 when it is none
    job_binding *next_of_job;
    job_binding *next_of_context;
};

struct job {
    atomic_uint references;             // the user's, and one a launch under way
    const isa_program *program;
    uint32_t argument_count;
    job_argument *arguments;
    uint32_t scalar_count;
    const job_scalar *scalars;
    char name[SPYRE_PROFILE_NAME];
    card_counters *kernels;             // of the program
    _Atomic(profile_outline *) outline;    // null until a launch is profiled
    card_counters total;
    bool small;                         // runs at once on an idle card
    bool brief;                         // so where the caller's thread has a team
    bool forgets_lx;
    bool takes_indices;                 // which may be out of range
    pthread_mutex_t lock;               // guards bindings
    job_binding *bindings;
};

typedef struct {
    task base;
    job *j;
    const job_binding *binding;
    const uint64_t *inputs, *buffers;   // the caller's, read while the task is submitted
    double *scalars;                    // its own, one for each of the job's, behind `arguments`
    char *place;                        // of the caller, behind `scalars`; null: not asked
    recording *recording;               // null: not wanted
    uint32_t argument_count;
    card_argument arguments[];
} launch_task;

// --- Life

static bool is_within(const card_counters *work, int64_t times)
{
    return work->memory_read_bytes + work->memory_written_bytes <= times * SMALL_BYTES &&
           work->vector_element_count <= times * SMALL_ELEMENTS &&
           work->mac_count <= times * SMALL_MACS;
}

// A program that cannot end is a fault of its launches, which name more than its timing does.
static spyre_status count_work(const isa_program *program, job *j)
{
    spyre_status status = card_time(program, j->kernels);
    if (status && spyre_status_code(status) != SPYRE_DEVICE_FAULT) return status;
    spyre_status_free(status);
    for (uint32_t k = 0; k < program->kernels.count; k++)
        card_counters_add(&j->total, &j->kernels[k]);
    j->small = is_within(&j->total, 1);
    j->brief = is_within(&j->total, BRIEF_TIMES);
    return NULL;
}

static bool takes_indices(const isa_program *program)
{
    for (uint32_t n = 0; n < program->code.count; n++)
        if (isa_uses_rows(program->code.items[n]->opcode)) return true;
    return false;
}

static spyre_status check_plan(const job_plan *plan)
{
    TRY(isa_verify(plan->program));
    if (plan->argument_count != plan->program->arg_count) {
        return status_new(SPYRE_INTERNAL, "job %s: %u arguments, its program has %u", plan->name,
                          plan->argument_count, plan->program->arg_count);
    }
    for (uint32_t s = 0; s < plan->scalar_count; s++) {
        const job_scalar *scalar = &plan->scalars[s];
        const job_argument *of = scalar->argument < plan->argument_count
                                     ? &plan->arguments[scalar->argument] : NULL;
        if (!of || of->kind != JOB_CONSTANTS || scalar->offset < 0 ||
            scalar->offset > of->bytes - SPYRE_STICK_BYTES)
            return status_new(SPYRE_INVALID_FORMAT, "job %s: scalar %u lies in no constants",
                              plan->name, s);
    }
    uint32_t pools = 0;
    for (uint32_t k = 0; k < plan->argument_count; k++)
        pools += plan->arguments[k].kind == JOB_POOL;
    if (pools <= 1) return NULL;
    return status_new(SPYRE_UNSUPPORTED, "job %s: %u pools, at most one is supported", plan->name,
                      pools);
}

spyre_status job_create(const job_plan *plan, job **out_job)
{
    TRY(check_plan(plan));
    job *j = calloc(1, sizeof *j);
    TRY_ALLOC(j);
    j->arguments = calloc(plan->argument_count + 1u, sizeof *j->arguments);
    j->kernels = calloc(plan->program->kernels.count + 1u, sizeof *j->kernels);
    spyre_status status = j->arguments && j->kernels ? NULL : status_no_memory();
    if (!status) status = count_work(plan->program, j);
    if (status) {
        free(j->kernels);
        free(j->arguments);
        free(j);
        return status;
    }
    atomic_init(&j->references, 1);
    pthread_mutex_init(&j->lock, NULL);
    j->program = plan->program;
    arena_keep(j->program->memory);
    j->forgets_lx = plan->forgets_lx;
    j->takes_indices = takes_indices(plan->program);
    j->argument_count = plan->argument_count;
    j->scalar_count = plan->scalar_count;
    j->scalars = plan->scalars;
    if (plan->argument_count)
        memcpy(j->arguments, plan->arguments, plan->argument_count * sizeof *j->arguments);
    strncpy(j->name, plan->name ? plan->name : "", sizeof j->name - 1);
    *out_job = j;
    return NULL;
}

void job_set_name(job *j, const char *name)
{
    snprintf(j->name, sizeof j->name, "%s", name);
}

const card_counters *job_counters(const job *j, const card_counters **out_kernels)
{
    if (out_kernels) *out_kernels = j->kernels;
    return &j->total;
}

int64_t job_bytes(job *j)
{
    int64_t constants = 0, kernels = j->program->kernels.count + 1;
    for (uint32_t k = 0; k < j->argument_count; k++)
        if (j->arguments[k].kind == JOB_CONSTANTS) constants += j->arguments[k].bytes;
    int64_t bytes = (int64_t)sizeof *j + kernels * (int64_t)sizeof *j->kernels;
    pthread_mutex_lock(&j->lock);
    for (const job_binding *b = j->bindings; b; b = b->next_of_job)
        if (b->program) bytes += constants + (int64_t)card_program_bytes(b->program);
    pthread_mutex_unlock(&j->lock);
    return bytes;
}

static void free_binding(job_binding *binding)
{
    free(binding->constants);
    free(binding);
}

static void leave_context(job_binding *binding)
{
    job_binding **at = &binding->owner->context->bindings;
    while (*at && *at != binding) at = &(*at)->next_of_context;
    if (*at) *at = binding->next_of_context;
}

static void unbind(const job *j, job_binding *binding)
{
    device *d = binding->owner;
    if (!d) return;
    pthread_mutex_lock(&d->context->bindings_lock);
    leave_context(binding);
    pthread_mutex_unlock(&d->context->bindings_lock);
    pthread_mutex_lock(&d->lock);
    for (uint32_t k = 0; k < j->argument_count; k++)
        if (binding->constants[k]) memory_give(d, binding->constants[k]);
    pthread_mutex_unlock(&d->lock);
    card_unload(d->machine, binding->program);
}

static void release_job(job *j)
{
    if (atomic_fetch_sub(&j->references, 1) != 1) return;
    while (j->bindings) {
        job_binding *binding = j->bindings;
        j->bindings = binding->next_of_job;
        unbind(j, binding);
        free_binding(binding);
    }
    pthread_mutex_destroy(&j->lock);
    profile_outline_destroy(j->outline);
    arena_destroy(j->program->memory);
    free(j->kernels);
    free(j->arguments);
    free(j);
}

void job_destroy(job *j)
{
    if (j) release_job(j);
}

void job_forget_context(spyre_context *context)
{
    pthread_mutex_lock(&context->bindings_lock);
    for (job_binding *b = context->bindings; b; b = b->next_of_context) {
        card_unload(b->owner->machine, b->program);
        b->program = NULL;
        b->owner = NULL;
    }
    context->bindings = NULL;
    pthread_mutex_unlock(&context->bindings_lock);
}

// --- Binding

static spyre_status put_constants(device *d, const job *j, job_binding *binding)
{
    for (uint32_t k = 0; k < j->argument_count; k++) {
        const job_argument *argument = &j->arguments[k];
        if (argument->kind != JOB_CONSTANTS) continue;
        pthread_mutex_lock(&d->lock);
        spyre_status status =
            memory_take(d, MEMORY_NO_STREAM, argument->bytes, NULL, &binding->constants[k]);
        pthread_mutex_unlock(&d->lock);
        TRY(status);
        void *bytes = card_memory(d->machine, binding->constants[k], (uint64_t)argument->bytes);
        if (argument->bytes) memcpy(bytes, argument->data, (size_t)argument->bytes);
    }
    return NULL;
}

// Bit k: argument k has no contents between launches.
static uint32_t pools_of(const job *j)
{
    uint32_t pools = 0;
    for (uint32_t k = 0; k < j->argument_count && k < 32; k++)
        if (j->arguments[k].kind == JOB_POOL) pools |= 1u << k;
    return pools;
}

static spyre_status make_binding(device *d, job *j, job_binding **out_binding)
{
    job_binding *binding = calloc(1, sizeof *binding);
    TRY_ALLOC(binding);
    binding->owner = d;
    binding->constants = calloc(j->argument_count + 1u, sizeof *binding->constants);
    spyre_status status = binding->constants ? NULL : status_no_memory();
    if (!status)
        status = card_load_with(d->machine, j->program, pools_of(j), &binding->program);
    if (!status && j->forgets_lx) card_program_forget_lx(binding->program);
    if (!status) status = put_constants(d, j, binding);
    if (status) {
        if (binding->constants) unbind(j, binding);
        free_binding(binding);
        return status;
    }
    binding->next_of_job = j->bindings;
    j->bindings = binding;
    pthread_mutex_lock(&d->context->bindings_lock);
    binding->next_of_context = d->context->bindings;
    d->context->bindings = binding;
    pthread_mutex_unlock(&d->context->bindings_lock);
    *out_binding = binding;
    return NULL;
}

static spyre_status bind(device *d, job *j, job_binding **out_binding)
{
    pthread_mutex_lock(&j->lock);
    job_binding *binding = j->bindings;
    while (binding && binding->owner != d) binding = binding->next_of_job;
    spyre_status status = binding ? NULL : make_binding(d, j, &binding);
    pthread_mutex_unlock(&j->lock);
    *out_binding = binding;
    return status;
}

// --- Launching

// The pool of a card only grows. Launches run one after another, so they can share it; one that is
// still queued keeps the smaller pool it was given, which is freed behind it.
static spyre_status grow_pool(device *d, int64_t bytes)
{
    if (d->pool_address && d->pool_bytes >= bytes) return NULL;
    if (d->pool_address) memory_give(d, d->pool_address);
    d->pool_address = 0;
    d->pool_bytes = 0;
    uint64_t address;
    TRY(memory_take(d, MEMORY_NO_STREAM, bytes, NULL, &address));
    // Another thread may have been first while this one waited for memory.
    if (d->pool_address) memory_give(d, d->pool_address);
    d->pool_address = address;
    d->pool_bytes = bytes;
    return NULL;
}

static spyre_status fill_argument(device *d, launch_task *self, uint32_t k)
{
    const job_argument *from = &self->j->arguments[k];
    card_argument *out = &self->arguments[k];
    uint64_t address = 0;
    switch (from->kind) {
    case JOB_INPUT: address = self->inputs[from->index]; break;
    case JOB_BUFFER: address = self->buffers[from->index]; break;
    case JOB_CONSTANTS: address = self->binding->constants[k]; break;
    case JOB_POOL:
        TRY(grow_pool(d, from->bytes));
        *out = (card_argument){d->pool_address, (uint64_t)from->bytes};
        return NULL;
    }
    out->base = address;
    out->limit = (uint64_t)from->bytes;
    if (address >= CARD_HALVES) return NULL;
    bool reads = from->kind == JOB_INPUT;
    TRY(status_at(memory_window(d, address, from->bytes, reads, &out->limit), "%s %u",
                  reads ? "input" : "buffer", from->index));
    if (from->kind == JOB_BUFFER) memory_restore(d, address, (int64_t)out->limit);
    return NULL;
}

// While the program is there: it may be gone when the launch runs.
static spyre_status make_outline(job *j)
{
    if (j->outline) return NULL;
    profile_outline *made, *none = NULL;
    TRY(profile_outline_create(j->program, j->kernels, &made));
    // A launch on another card may have been faster.
    if (!atomic_compare_exchange_strong(&j->outline, &none, made)) profile_outline_destroy(made);
    return NULL;
}

static spyre_status prepare_launch(device *d, task *t)
{
    launch_task *self = (launch_task *)(void *)t;
    if (t->correlation) TRY(make_outline(self->j));
    for (uint32_t k = 0; k < self->argument_count; k++) {
        const job_argument *from = &self->j->arguments[k];
        if (from->kind == JOB_INPUT && self->inputs[from->index] < CARD_HALVES)
            TRY(memory_await(d, t->stream, self->inputs[from->index]));
        if (from->kind == JOB_BUFFER) TRY(memory_await(d, t->stream, self->buffers[from->index]));
    }
    for (uint32_t k = 0; k < self->argument_count; k++)
        TRY(status_at(fill_argument(d, self, k), "%s", t->name));
    for (uint32_t k = 0; k < self->argument_count; k++)
        if (self->arguments[k].base < CARD_HALVES)
            memory_note_use(d, t->stream, self->arguments[k].base);
    return NULL;
}

// Launches of a card run one after another, so that the job's constants are this one's now.
static void put_scalars(device *d, const launch_task *self)
{
    for (uint32_t s = 0; s < self->j->scalar_count; s++) {
        const job_scalar *scalar = &self->j->scalars[s];
        uint64_t at = self->binding->constants[scalar->argument] + (uint64_t)scalar->offset;
        scalar_fill_stick(card_memory(d->machine, at, SPYRE_STICK_BYTES), scalar->format,
                          self->scalars[s]);
    }
}

static void record_before(device *d, const launch_task *self)
{
    for (uint32_t k = 0; k < self->argument_count; k++)
        recorder_window(self->recording, &self->arguments[k],
                        self->j->arguments[k].kind != JOB_POOL);
    recorder_before(self->recording, d->machine);
}

static spyre_status run_launch(device *d, task *t)
{
    launch_task *self = (launch_task *)(void *)t;
    put_scalars(d, self);
    if (self->recording) record_before(d, self);
    spyre_status status = card_launch(d->machine, self->binding->program, self->arguments,
                                      self->argument_count, NULL);
    if (self->recording) recorder_after(self->recording, d->machine, status != NULL);
    status = status_at(status, "%s", t->name);
    return self->place && self->place[0] ? status_at(status, "%s", self->place) : status;
}

static void lose_results(device *d, task *t)
{
    const launch_task *self = (const launch_task *)(const void *)t;
    for (uint32_t k = 0; k < self->argument_count; k++)
        if (self->j->arguments[k].kind == JOB_BUFFER) memory_lose(d, self->arguments[k].base);
}

static void release_launch(task *t)
{
    launch_task *self = (launch_task *)(void *)t;
    recorder_drop(self->recording);
    release_job(self->j);
    free(self);
}

static void tell_kernels(const task *t, const spyre_activity *launch, profile_list *records)
{
    const launch_task *self = (const launch_task *)(const void *)t;
    profile_kernel_rows(self->j->outline, launch, records);
}

static _Atomic(spyre_caller) caller;

void spyre_set_caller(spyre_caller ask)
{
    atomic_store(&caller, ask);
}

static launch_task *make_task(job *j, const job_binding *binding, const double *scalars)
{
    spyre_caller ask = j->takes_indices ? atomic_load(&caller) : NULL;
    size_t head = sizeof(launch_task) + j->argument_count * sizeof(card_argument);
    size_t all = head + j->scalar_count * sizeof *scalars;
    launch_task *self = calloc(1, all + (ask ? PLACE_TEXT : 0));
    if (!self) return NULL;
    self->j = j;
    self->scalars = (double *)(void *)((char *)self + head);
    if (ask) ask(self->place = (char *)self + all, PLACE_TEXT);
    for (uint32_t s = 0; s < j->scalar_count; s++)
        self->scalars[s] = scalar_apply(j->scalars[s].form, scalars[j->scalars[s].index]);
    atomic_fetch_add(&j->references, 1);
    self->binding = binding;
    self->argument_count = j->argument_count;
    self->base.prepare = prepare_launch;
    self->base.run = run_launch;
    self->base.cancelled = lose_results;
    self->base.release = release_launch;
    self->base.recorded = true;
    self->base.kind = SPYRE_ACTIVITY_LAUNCH;
    self->base.tell_inside = tell_kernels;
    self->base.name = j->name;
    self->base.bytes = j->total.memory_read_bytes + j->total.memory_written_bytes;
    self->base.work = &j->total;
    self->base.resource = CLOCK_COMPUTE;
    self->base.card_us = j->total.us;
    self->recording = recorder_begin(j->program, j->name, j->forgets_lx);
    return self;
}

spyre_status job_takes_halves(spyre_context *context, uint32_t card_id, uint32_t stream_id, job *j,
                              const uint64_t *inputs, bool *out_taken)
{
    device *d;
    job_binding *binding;
    TRY(device_of(context, card_id, stream_id, &d));
    TRY(status_at(bind(d, j, &binding), "%s", j->name));
    bool seen = recorder_is_on() || profile_is_on(d);
    card_argument *arguments = calloc(j->argument_count + 1u, sizeof *arguments);
    TRY_ALLOC(arguments);
    for (uint32_t k = 0; k < j->argument_count; k++) {
        const job_argument *from = &j->arguments[k];
        uint64_t base = from->kind == JOB_INPUT ? inputs[from->index] : binding->constants[k];
        arguments[k] = (card_argument){base, (uint64_t)from->bytes};
    }
    bool planned = !seen && card_goes_as_planned(d->machine, binding->program, arguments);
    free(arguments);
    for (uint32_t k = 0; k < j->argument_count; k++)
        if (j->arguments[k].kind == JOB_INPUT)
            out_taken[j->arguments[k].index] = inputs[j->arguments[k].index] < CARD_HALVES ||
                                               (planned && card_takes_halves(binding->program, k));
    return NULL;
}

spyre_status job_launch(spyre_context *context, uint32_t card_id, uint32_t stream_id, job *j,
                        const uint64_t *inputs, const uint64_t *buffers, const double *scalars)
{
    device *d;
    if (j->scalar_count && !scalars)
        return status_new(SPYRE_INVALID_ARGUMENT, "%s: a launch without its scalars", j->name);
    TRY(device_of(context, card_id, stream_id, &d));
    job_binding *binding;
    TRY(status_at(bind(d, j, &binding), "%s", j->name));
    launch_task *self = make_task(j, binding, scalars);
    TRY_ALLOC(self);
    self->inputs = inputs;
    self->buffers = buffers;
    bool here = j->small || (j->brief && thread_has_team());
    return device_submit(d, stream_id, &self->base, here);
}
