// SPDX-License-Identifier: Apache-2.0
//
// Functions as programs of the card: lowered once, launched on card memory, or run on host arrays.
#include <stdlib.h>
#include <string.h>

#include "base/thread_pool.h"
#include "compile/card_bytes.h"
#include "compile/kernel_counters.h"
#include "ktir/coverage.h"
#include "ktir/kernel.h"
#include "ktir/lower/lower.h"
#include "runtime/job.h"

struct spyre_ktir_program {
    arena *memory;
    isa_program *program;
    job *job;
    const spyre_kernel_counters *counters;
    uint32_t memory_count;              // parameters that are memory of all compute tiles
    uint32_t parameter_count;           // of the function
    ktir_parameter *parameters;
    int32_t *argument_of;               // the program's argument of a parameter, or -1
    bool *overwritten;                  // of a parameter: from end to end
    const char *file;
    ktir_places places;
};

void spyre_ktir_program_destroy(spyre_ktir_program *program)
{
    if (!program) return;
    job_destroy(program->job);
    arena_destroy(program->memory);
}

// --- Lowering

static spyre_status describe_argument(const ktir_parameter *p, const spyre_ktir_value *value,
                                      ktir_argument *out)
{
    *out = (ktir_argument){.is_memory = p->form.is_memory, .element = p->element,
                           .integer = value->integer, .real = value->real};
    return p->form.is_memory ? kernel_card_bytes(p, value, &out->byte_count) : NULL;
}

// LX without an array of the caller belongs to the kernel alone.
static bool is_argument(const ktir_parameter *p, const spyre_ktir_value *value)
{
    if (!p->form.is_memory) return false;
    return !p->form.is_view || p->space == KTIR_HBM || value->byte_count > 0;
}

static ktir_placed placed_as(const ktir_parameter *p, bool argument)
{
    return (ktir_placed){.address = p->address, .byte_count = p->byte_count, .space = p->space,
                         .element = p->element, .is_argument = argument,
                         .is_written = p->form.is_written};
}

static spyre_status describe_call(spyre_ktir_program *program, const ktir_parameters *all,
                                  const spyre_ktir_value *values, ktir_lowering *call)
{
    uint32_t own = call->function->body.argument_count, next = 0;
    ktir_argument *arguments = ARENA_NEW(program->memory, ktir_argument, own + 1);
    ktir_placed *placed = ARENA_NEW(program->memory, ktir_placed, all->count + 1);
    TRY_ALLOC(arguments);
    TRY_ALLOC(placed);
    for (uint32_t n = 0; n < all->count; n++) {
        const ktir_parameter *p = &all->items[n];
        program->parameters[n] = *p;
        program->argument_of[n] = -1;
        if (n < own) TRY(describe_argument(p, &values[n], &arguments[n]));
        if (!is_argument(p, &values[n])) continue;
        program->argument_of[n] = (int32_t)next++;
        if (p->form.is_view) placed[call->placed_count++] = placed_as(p, true);
    }
    for (uint32_t n = own; n < all->count; n++)
        if (program->argument_of[n] < 0)
            placed[call->placed_count++] = placed_as(&all->items[n], false);
    call->arguments = arguments;
    call->placed = placed;
    program->memory_count = next;
    return NULL;
}

static spyre_status make_job(spyre_ktir_program *program, const char *name)
{
    const card_counters *kernels;
    uint32_t count = program->program->arg_count;
    job_argument *arguments = ARENA_NEW(program->memory, job_argument, count + 1);
    TRY_ALLOC(arguments);
    for (uint32_t a = 0; a < count; a++)
        arguments[a] = (job_argument){.kind = JOB_INPUT, .index = a,
                                      .bytes = program->program->arg_bytes[a]};
    if (count > program->memory_count) {
        int32_t *numbers = ARENA_NEW(program->memory, int32_t, LOWER_COUNTED);
        TRY_ALLOC(numbers);
        for (int32_t n = 0; n < LOWER_COUNTED; n++) numbers[n] = n;
        arguments[count - 1] = (job_argument){.kind = JOB_CONSTANTS, .data = numbers,
                                              .bytes = LOWER_COUNTED * sizeof *numbers};
    }
    const job_plan plan = {.program = program->program, .argument_count = count,
                           .arguments = arguments, .name = name, .forgets_lx = true};
    TRY(job_create(&plan, &program->job));
    job_counters(program->job, &kernels);
    return counters_describe(program->memory, program->program, kernels, &program->counters);
}

static spyre_status find_overwritten(spyre_ktir_program *program)
{
    spyre_status status = NULL;
    program->overwritten = ARENA_NEW(program->memory, bool, program->parameter_count + 1);
    arena *scratch = arena_create();
    if (!program->overwritten || !scratch) status = status_no_memory();
    for (uint32_t n = 0; n < program->parameter_count && !status; n++) {
        int32_t argument = program->argument_of[n];
        program->overwritten[n] = false;
        if (argument >= 0 && program->parameters[n].form.is_written)
            status = coverage_is_whole(scratch, program->program, (uint32_t)argument,
                                       program->program->arg_bytes[argument],
                                       &program->overwritten[n]);
    }
    arena_destroy(scratch);
    return status;
}

static spyre_status lower(const spyre_ktir *kernel, const spyre_ktir_options *options,
                          const spyre_ktir_value *values, spyre_ktir_program *program)
{
    const ktir_parameters *all = &kernel->parameters[options->function];
    ktir_lowering call = {0};
    program->parameter_count = all->count;
    program->parameters = ARENA_NEW(program->memory, ktir_parameter, all->count + 1);
    program->argument_of = ARENA_NEW(program->memory, int32_t, all->count + 1);
    TRY_ALLOC(program->parameters);
    TRY_ALLOC(program->argument_of);
    TRY(kernel_function(kernel, options, &call.function, call.grid, &call.grid_rank));
    TRY(describe_call(program, all, values, &call));
    TRY(ktir_lower(kernel->m, &call, program->memory, &program->program, &program->places));
    program->file = arena_strdup(program->memory, kernel->m->file);
    TRY_ALLOC(program->file);
    TRY(find_overwritten(program));
    return make_job(program, arena_strdup(program->memory, call.function->name));
}

spyre_status spyre_ktir_lower(const spyre_ktir *kernel, const spyre_ktir_options *options,
                              const spyre_ktir_value *values, spyre_ktir_program **out_program)
{
    *out_program = NULL;
    if (options->function >= kernel->m->functions.count)
        return status_new(SPYRE_INVALID_ARGUMENT, "function %u of %u", options->function,
                          kernel->m->functions.count);
    arena *memory = arena_create();
    TRY_ALLOC(memory);
    spyre_ktir_program *program = ARENA_NEW(memory, spyre_ktir_program, 1);
    if (!program) {
        arena_destroy(memory);
        return status_no_memory();
    }
    program->memory = memory;
    spyre_status status = lower(kernel, options, values, program);
    if (status) spyre_ktir_program_destroy(program);
    else *out_program = program;
    return status;
}

spyre_status spyre_ktir_program_listing(const spyre_ktir_program *program, char **out_text)
{
    text out = {0};
    isa_print(program->program, &out);
    return text_give(&out, NULL, out_text);
}

spyre_status spyre_ktir_program_plan(const spyre_ktir_program *program, char **out_text)
{
    uint32_t threads;
    text out = {0};
    TRY(thread_default_count(&threads));
    return text_give(&out, card_print_plan(program->program, threads, &out), out_text);
}

const spyre_kernel_counters *spyre_ktir_program_counters(const spyre_ktir_program *program,
                                                         uint32_t *out_count)
{
    *out_count = program->program->kernels.count;
    return program->counters;
}

uint32_t spyre_ktir_program_argument_count(const spyre_ktir_program *program)
{
    return program->memory_count;
}

spyre_status spyre_ktir_launch(spyre_context *context, uint32_t card_id, uint32_t stream_id,
                               const spyre_ktir_program *program, const uint64_t *addresses)
{
    return job_launch(context, card_id, stream_id, program->job, addresses, NULL, NULL);
}

// --- Host arrays

typedef struct {
    spyre_context *context;
    uint32_t card;
    const spyre_ktir_program *program;
    const spyre_ktir_value *values;
    uint64_t *addresses;                // of the program's arguments; 0: none yet
} run;

static bool converts(const ktir_parameter *p)
{
    return ktir_element_describe(p->element)->is_float;
}

// A dense array without tiles: element n at n elements from its begin.
static spyre_status move_floats(const run *r, const ktir_parameter *p, uint64_t address,
                                const spyre_ktir_value *value, bool to_card)
{
    int64_t count = value->byte_count / spyre_dtype_bytes(p->form.dtype);
    spyre_layout layout;
    spyre_view view = {.rank = 1, .size = {count}, .stride = {1}};
    if (!count) return NULL;
    TRY(spyre_layout_default(&count, 1, p->form.dtype, &layout));
    const spyre_transfer transfer = {.card = r->card, .stream = SPYRE_DEFAULT_STREAM,
                                     .address = address, .layout = &layout, .storage = &view,
                                     .dtype = p->form.dtype};
    return to_card ? spyre_copy_to_card(r->context, &transfer, value->bytes)
                   : spyre_copy_to_host(r->context, &transfer, value->bytes);
}

static spyre_status move_bits(const run *r, uint64_t address, const spyre_ktir_value *value,
                              bool to_card)
{
    int64_t sticks = card_bytes_sticks(value->byte_count);
    const card_bytes place = {.context = r->context, .card = r->card,
                              .stream = SPYRE_DEFAULT_STREAM, .address = address,
                              .sticks = sticks};
    uint8_t *padded = calloc((size_t)sticks + 1, SPYRE_STICK_BYTES);
    TRY_ALLOC(padded);
    if (to_card) memcpy(padded, value->bytes, (size_t)value->byte_count);
    spyre_status status = to_card ? card_bytes_write(&place, padded)
                                  : card_bytes_read(&place, padded);
    if (!status && !to_card) memcpy(value->bytes, padded, (size_t)value->byte_count);
    free(padded);
    return status;
}

static spyre_status move(const run *r, uint32_t n, bool to_card)
{
    const ktir_parameter *p = &r->program->parameters[n];
    const spyre_ktir_value *value = &r->values[n];
    uint64_t address = r->addresses[r->program->argument_of[n]];
    if (!value->byte_count) return NULL;
    spyre_status status = converts(p) ? move_floats(r, p, address, value, to_card)
                                      : move_bits(r, address, value, to_card);
    return status_at(status, "%s", p->form.name);
}

// The memory that parameter n is on the card, for each that is any.
#define EACH_MEMORY(r, n)                                               \
    for (uint32_t n = 0; n < (r)->program->parameter_count; n++)        \
        if ((r)->program->argument_of[n] >= 0)

static spyre_status check_value(const run *r, uint32_t n, int64_t *out_bytes)
{
    const ktir_parameter *p = &r->program->parameters[n];
    if (!r->values[n].bytes && !p->form.is_view)
        return status_new(SPYRE_INVALID_ARGUMENT, "%s: an array is wanted", p->form.name);
    TRY(kernel_card_bytes(p, &r->values[n], out_bytes));
    if (p->form.is_view) *out_bytes = p->byte_count;
    return NULL;
}

// An array of float16 may stay where it is (CARD_HALVES), unless a part of it is stored to: the
// rest would come back from the card rounded.
static bool may_be_halves(const run *r, uint32_t n)
{
    const ktir_parameter *p = &r->program->parameters[n];
    const ktir_element_info *info = ktir_element_describe(p->element);
    return r->values[n].bytes && r->values[n].byte_count > 0 &&
           spyre_dtype_host_format(info->dtype) == SPYRE_FORMAT_IEEE_FP16 &&
           info->format == SPYRE_FORMAT_SEN169_FP16 &&
           (!p->form.is_written || r->program->overwritten[n]);
}

static spyre_status place(const run *r, uint32_t n, int64_t bytes)
{
    const ktir_parameter *p = &r->program->parameters[n];
    uint64_t *address = &r->addresses[r->program->argument_of[n]];
    TRY(spyre_memory_allocate(r->context, r->card, SPYRE_DEFAULT_STREAM, bytes, address));
    if (p->form.is_written && r->program->overwritten[n]) return NULL;
    if (r->values[n].bytes) return move(r, n, true);
    return spyre_copy_raw(r->context, r->card, SPYRE_DEFAULT_STREAM, *address, 0,
                          card_bytes_sticks(bytes) * SPYRE_STICK_BYTES);
}

static spyre_status place_all(const run *r)
{
    int64_t bytes;
    EACH_MEMORY(r, n)
    {
        TRY(check_value(r, n, &bytes));
        uint64_t *address = &r->addresses[r->program->argument_of[n]];
        if (may_be_halves(r, n)) *address = CARD_HALVES + (uint64_t)(uintptr_t)r->values[n].bytes;
        else TRY(place(r, n, bytes));
    }
    bool *taken = calloc(r->program->memory_count + 1u, sizeof *taken);
    TRY_ALLOC(taken);
    spyre_status status = job_takes_halves(r->context, r->card, SPYRE_DEFAULT_STREAM,
                                           r->program->job, r->addresses, taken);
    EACH_MEMORY(r, n)
    {
        if (status || taken[r->program->argument_of[n]]) continue;
        r->addresses[r->program->argument_of[n]] = 0;
        status = check_value(r, n, &bytes);
        if (!status) status = place(r, n, bytes);
    }
    free(taken);
    return status;
}

static spyre_status execute(const run *r)
{
    for (uint32_t n = 0; n < r->program->parameter_count; n++) {
        const ktir_parameter *p = &r->program->parameters[n];
        if (p->form.is_view && r->program->argument_of[n] < 0 && r->values[n].bytes)
            return status_new(SPYRE_INVALID_ARGUMENT, "%s: a view of LX that had no array when "
                              "the program was made", p->form.name);
    }
    TRY(place_all(r));
    TRY(spyre_ktir_launch(r->context, r->card, SPYRE_DEFAULT_STREAM, r->program, r->addresses));
    TRY(spyre_stream_synchronize(r->context, r->card, SPYRE_DEFAULT_STREAM));
    EACH_MEMORY(r, n)
    {
        bool on_card = r->addresses[r->program->argument_of[n]] < CARD_HALVES;
        if (r->program->parameters[n].form.is_written && r->values[n].bytes && on_card)
            TRY(move(r, n, false));
    }
    return NULL;
}

// The card's faults name instructions: behind each, the operation that it was made for.
static spyre_status with_operations(const spyre_ktir_program *program, spyre_status status)
{
    static const char word[] = "instruction ";
    if (!status_is_fault(status)) return status;
    text out = {0};
    const char *at = spyre_status_message(status), *found;
    while ((found = strstr(at, word))) {
        char *end;
        unsigned long n = strtoul(found + sizeof word - 1, &end, 10);
        text_append_bytes(&out, at, (size_t)(end - at));
        const ktir_place *place = &program->places.items[n];
        if (n < program->places.count && place->line)
            text_printf(&out, " (%s:%u:%u: %s)", program->file, place->line, place->column,
                        ktir_op_describe(place->opcode)->mnemonic);
        at = end;
    }
    text_append(&out, at);
    spyre_status named = status_new(spyre_status_code(status), "%s", text_string(&out));
    text_free(&out);
    spyre_status_free(status);
    return named;
}

spyre_status spyre_ktir_program_run(spyre_context *context, uint32_t card_id,
                                    const spyre_ktir_program *program,
                                    const spyre_ktir_value *values)
{
    uint32_t count = program->memory_count;
    run r = {.context = context, .card = card_id, .program = program, .values = values};
    r.addresses = calloc(count + 1u, sizeof *r.addresses);
    TRY_ALLOC(r.addresses);
    spyre_status status = execute(&r);
    for (uint32_t a = 0; a < count; a++)
        if (r.addresses[a] && r.addresses[a] < CARD_HALVES)
            spyre_memory_free(context, card_id, r.addresses[a]);
    free(r.addresses);
    return with_operations(program, status);
}
