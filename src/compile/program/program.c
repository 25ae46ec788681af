// SPDX-License-Identifier: Apache-2.0
//
// A program's life: what it has of its code, the job that runs it, those made of it for launches.
#include <stdio.h>
#include <string.h>

#include "compile/kernel_counters.h"
#include "compile/program/program_state.h"
#include "spyre/host_memory.h"

spyre_program *program_new(void)
{
    arena *memory = arena_create();
    spyre_program *program = memory ? ARENA_NEW(memory, spyre_program, 1) : NULL;
    if (!program) {
        arena_destroy(memory);
        return NULL;
    }
    program->memory = memory;
    spyre_program_set_name(program, "program");
    return program;
}

void spyre_program_set_name(spyre_program *program, const char *name)
{
    snprintf(program->name, sizeof program->name, "%s", name);
    if (program->job) job_set_name(program->job, program->name);
}

static void close_all(spyre_program *first)
{
    for (spyre_program *next, *each = first; each; each = next) {
        next = each->next;
        spyre_program_close(each);
    }
}

void program_keep(spyre_program **list, spyre_program *latest)
{
    spyre_program **at = list;
    while (*at && *at != latest) at = &(*at)->next;
    if (*at) *at = latest->next;
    latest->next = *list;
    *list = latest;
    at = &latest->next;
    for (uint32_t count = 1; *at && count < PROGRAM_MOST_KEPT; count++) at = &(*at)->next;
    close_all(*at);
    *at = NULL;
}

void spyre_program_close(spyre_program *program)
{
    if (!program) return;
    close_all(program->compiled);
    close_all(program->tiled);
    job_destroy(program->job);
    spyre_host_free(program->host_buffer);
    arena_destroy(program->memory);
}

// --- Code

const spyrecode_command *program_host_of(const spyrecode *code)
{
    const spyrecode_command *first = &code->commands.items[0];
    return first->kind == SPYRECODE_COMPUTE_ON_HOST ? first : NULL;
}

const spyrecode_sizes *program_sizes_of(const spyre_program *program)
{
    const spyrecode_command *host = program->code ? program_host_of(program->code) : NULL;
    return host && host->sizes.symbol_count ? &host->sizes : NULL;
}

// Half a stick is stored where all of its elements lie there (bundle_stored_size()): it counts as a
// stick.
static int64_t stored_by(const isa_instruction *i)
{
    const uint32_t last = i->dim_count - 1u;
    const int64_t element = spyre_format_bytes(i->operand[0].format);
    int64_t bytes = element;
    for (uint32_t d = 0; d < i->dim_count; d++)
        if (__builtin_mul_overflow(bytes, i->extent[d], &bytes)) return INT64_MAX;
    const bool half = i->dim_count > 0 && element == 2 && i->operand[0].stride[last] == element &&
                      i->extent[last] * element == SPYRE_STICK_BYTES / 2;
    return half && __builtin_mul_overflow(bytes, 2, &bytes) ? INT64_MAX : bytes;
}

static void add_stored(int64_t *total, int64_t bytes, int64_t times)
{
    if (__builtin_mul_overflow(bytes, times, &bytes) ||
        __builtin_add_overflow(*total, bytes, total))
        *total = INT64_MAX;
}

static void count_stores(spyre_program *program)
{
    const isa_program *image = program->image;
    int64_t times[ISA_MAX_LOOPS + 1] = {1};
    uint32_t depth = 0, cores = 1;
    for (uint32_t n = 0; n < image->code.count; n++) {
        const isa_instruction *i = image->code.items[n];
        if (i->opcode == ISA_LOOP) {
            if (__builtin_mul_overflow(times[depth], i->count, &times[depth + 1]))
                times[depth + 1] = INT64_MAX;
            depth++;
        }
        if (i->opcode == ISA_END_LOOP) depth--;
        if (i->opcode == ISA_KERNEL)
            cores = (uint32_t)__builtin_popcount(image->kernels.items[i->count].active_cores);
        if (!isa_stores(i->opcode)) continue;
        const spyrecode_argument *argument = &program->arguments[i->operand[0].arg];
        if (argument->kind != SPYRECODE_LAUNCH) continue;
        int64_t *total = &program->stored_bytes[argument->index];
        for (uint32_t core = 0; core < cores; core++) add_stored(total, stored_by(i), times[depth]);
    }
}

static spyre_status describe_arguments(spyre_program *program)
{
    const isa_program *image = program->image;
    for (uint32_t k = 0; k < image->arg_count; k++)
        if (program->arguments[k].kind == SPYRECODE_LAUNCH &&
            program->arguments[k].index >= program->argument_count)
            program->argument_count = program->arguments[k].index + 1;
    program->argument_bytes = ARENA_NEW(program->memory, int64_t, program->argument_count);
    TRY_NEW(program->memory, program->operands, program->argument_count);
    TRY_ALLOC(program->argument_bytes);
    TRY_NEW(program->memory, program->stored_bytes, program->argument_count);
    count_stores(program);
    for (uint32_t k = 0; k < image->arg_count; k++) {
        if (program->arguments[k].kind != SPYRECODE_LAUNCH) continue;
        program->argument_bytes[program->arguments[k].index] = image->arg_bytes[k];
        program->operands[program->arguments[k].index] = program->arguments[k].operand;
    }
    return NULL;
}

// The job of program->image, with program->arguments.
static spyre_status make_job(spyre_program *program)
{
    const card_counters *kernels;
    uint32_t inputs;
    TRY(describe_arguments(program));
    TRY(code_create_job(program->memory, program->image, program->arguments, program->name,
                        &program->job, &inputs));
    job_counters(program->job, &kernels);
    program->kernel_count = program->image->kernels.count;
    return counters_describe(program->memory, program->image, kernels, &program->counters);
}

spyre_status program_take_image(spyre_program *program, const spyrecode *code,
                                const isa_program *image, const spyrecode_argument *arguments)
{
    program->code = code;
    program->image = image;
    program->arguments = arguments;
    return make_job(program);
}

// Code of another back-end has steps to tell about; what its programs do is not public.
static spyre_status take_foreign(spyre_program *program, spyre_status why)
{
    program->foreign = arena_strdup(program->memory, spyre_status_message(why));
    spyre_status_free(why);
    TRY_ALLOC(program->foreign);
    return NULL;
}

spyre_status program_take_code(spyre_program *program, const spyrecode *code)
{
    isa_program *image;
    program->code = code;
    spyre_status status = spyrecode_program(program->memory, code, &image, &program->arguments);
    if (spyre_status_code(status) == SPYRE_UNSUPPORTED) return take_foreign(program, status);
    TRY(status);
    program->image = image;
    if (!program_sizes_of(program)) return make_job(program);
    program->host_buffer = spyre_host_allocate(program_host_of(code)->byte_count);
    TRY_ALLOC(program->host_buffer);
    return describe_arguments(program);
}

// --- Walks

// A walk fits when it stays within one dim, or takes whole dims one after the other.
static bool fits(const spyrecode_walk *walk, const spyre_layout *layout)
{
    int64_t stride = SPYRE_STICK_BYTES;
    for (uint32_t d = layout->rank - 1; d-- > 0; stride *= layout->device_size[d]) {
        if (walk->step_bytes % stride) continue;
        int64_t steps = walk->step_bytes / stride, end = stride;
        if ((walk->count - 1) * steps < layout->device_size[d]) return true;
        for (uint32_t outer = d + 1; outer-- > 0;) {
            end *= layout->device_size[outer];
            if (end == walk->step_bytes * walk->count) return true;
        }
    }
    return false;
}

spyre_status program_check_walks(const spyrecode_operand *operand, uint32_t argument,
                                 const spyre_layout *layout)
{
    for (uint32_t n = 0; n < operand->walk_count; n++) {
        const spyrecode_walk *walk = &operand->walks[n];
        char shown[512];
        if (walk->count <= 1 || fits(walk, layout)) continue;
        spyre_layout_format(layout, shown, sizeof shown);
        return status_new(SPYRE_INVALID_ARGUMENT,
                          "launch argument %u: the program takes %lld steps of %lld bytes along "
                          "it, which no dim of %s has: it was compiled for another shape", argument,
                          (long long)walk->count, (long long)walk->step_bytes, shown);
    }
    return NULL;
}
