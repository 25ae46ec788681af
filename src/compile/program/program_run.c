// SPDX-License-Identifier: Apache-2.0
//
// SpyreCode from a directory on an emulated card.
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "compile/card_bytes.h"
#include "compile/program/program_state.h"

// --- Opening

static spyre_status open_program(spyre_program *program, const char *directory)
{
    spyrecode *code;
    TRY(program_find_bundle(program, directory));
    const char *json = file_join(program->memory, directory, "spyrecode.json");
    const char *init = spyrecode_text_path(program->memory, directory);
    TRY_ALLOC(json);
    TRY_ALLOC(init);
    if (program->bundle && !file_exists(json)) return program_open_waiting(program);
    bool as_text = !file_exists(json) && file_exists(init);
    TRY(as_text ? spyrecode_read_text(program->memory, init, &code)
                : spyrecode_read(program->memory, directory, &code));
    return program_take_code(program, code);
}

spyre_status spyre_program_open(const char *directory, spyre_program **out_program)
{
    *out_program = NULL;
    spyre_program *program = program_new();
    TRY_ALLOC(program);
    spyre_status status = status_at(open_program(program, directory), "%s", directory);
    if (status) spyre_program_close(program);
    else *out_program = program;
    return status;
}

uint32_t spyre_program_argument_count(const spyre_program *program)
{
    return program->argument_count;
}

int64_t spyre_program_argument_bytes(const spyre_program *program, uint32_t argument)
{
    return argument < program->argument_count ? program->argument_bytes[argument] : 0;
}

// --- Launch arguments

int64_t spyre_program_argument_reach(const spyre_program *program, uint32_t argument)
{
    int64_t bytes = spyre_program_argument_bytes(program, argument);
    const spyrecode_operand *operand =
        argument < program->argument_count ? program->operands[argument] : NULL;
    return operand && operand->least_bytes > bytes ? operand->least_bytes : bytes;
}

int64_t spyre_program_argument_stored(const spyre_program *program, uint32_t argument)
{
    bool known = program->stored_bytes && argument < program->argument_count;
    return known ? program->stored_bytes[argument] : 0;
}

static bool has_32_bits(spyre_format format)
{
    return format == SPYRE_FORMAT_IEEE_FP32 || format == SPYRE_FORMAT_IEEE_INT32 ||
           format == SPYRE_FORMAT_SENUINT32;
}

// torch-spyre's bundles name whole numbers that are only moved, or that choose rows, otherwise than
// its tensors do.
static bool may_stand_for(spyre_format tensor, spyre_format program)
{
    return program == SPYRE_FORMAT_INVALID || tensor == program ||
           (has_32_bits(tensor) && has_32_bits(program));
}

spyre_status spyre_program_check_argument(const spyre_program *program, uint32_t argument,
                                          const spyre_layout *layout)
{
    if (argument >= program->argument_count)
        return status_new(SPYRE_INVALID_ARGUMENT, "launch argument %u of %u", argument,
                          program->argument_count);
    const spyrecode_operand *operand = program->operands[argument];
    int64_t bytes = spyre_layout_bytes(layout);
    if (!operand || layout->format == SPYRE_FORMAT_SENINT8 ||
        layout->format == SPYRE_FORMAT_SENUINT32)
        return NULL;
    if (!may_stand_for(layout->format, operand->format))
        return status_new(SPYRE_INVALID_ARGUMENT,
                          "launch argument %u: it lies on the card as %s, the program was compiled "
                          "for %s", argument, spyre_format_name(layout->format),
                          spyre_format_name(operand->format));
    if (bytes < operand->least_bytes)
        return status_new(SPYRE_INVALID_ARGUMENT,
                          "launch argument %u has %lld bytes on the card, the program touches %lld",
                          argument, (long long)bytes, (long long)operand->least_bytes);
    return program_check_walks(operand, argument, layout);
}

// --- Steps
//
// Every program of this stack is launched in the same steps, but code that was read may have more.
static const spyre_program_step own_steps[] = {SPYRE_STEP_HOST_COMPUTE, SPYRE_STEP_TO_CARD,
                                               SPYRE_STEP_COMPUTE};

uint32_t spyre_program_step_count(const spyre_program *program)
{
    return program->code ? program->code->commands.count : sizeof own_steps / sizeof *own_steps;
}

spyre_program_step spyre_program_step_at(const spyre_program *program, uint32_t index)
{
    assert(index < spyre_program_step_count(program));
    if (!program->code) return own_steps[index];
    const spyrecode_command *command = &program->code->commands.items[index];
    switch (command->kind) {
    case SPYRECODE_COMPUTE_ON_HOST: return SPYRE_STEP_HOST_COMPUTE;
    case SPYRECODE_DATA_TRANSFER:
        return command->to_host ? SPYRE_STEP_TO_HOST : SPYRE_STEP_TO_CARD;
    case SPYRECODE_COMPUTE_ON_DEVICE: break;
    }
    return SPYRE_STEP_COMPUTE;
}

const char *spyre_program_step_name(const spyre_program *program, uint32_t index)
{
    assert(index < spyre_program_step_count(program));
    return program->code ? program->code->commands.items[index].name : NULL;
}

int64_t spyre_program_allocation_bytes(const spyre_program *program)
{
    return program->code ? (int64_t)program->code->space_bytes : 0;
}

uint32_t spyre_program_pinned_buffers(const spyre_program *program)
{
    return program->host_buffer != NULL;
}

const spyre_kernel_counters *spyre_program_counters(const spyre_program *program,
                                                    uint32_t *out_count)
{
    if (!program->job && program->compiled) program = program->compiled;
    *out_count = program->kernel_count;
    return program->counters;
}

// --- Running
//
// Bytes are copied in pieces through a small buffer. A piece of zeros is not written to card
// memory, which begins as zeros, nor to a buffer of the caller that has zeros there: the host then
// keeps no pages for what neither has written.

enum { PIECE_BYTES = 1 << 20 };

typedef struct {
    spyre_context *context;
    uint32_t card, count;
    uint64_t *addresses;                // 0: not allocated
    uint8_t *piece;                     // PIECE_BYTES, whole sticks
    const spyre_program_buffer *buffers;
} run;

static bool is_zero(const uint8_t *bytes, size_t count)
{
    return count == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, count - 1) == 0);
}

// The piece from byte `at` of an argument; *out_bytes of it are the argument's.
static card_bytes piece_at(const run *r, uint32_t argument, int64_t at, size_t *out_bytes)
{
    int64_t left = r->buffers[argument].byte_count - at;
    *out_bytes = (size_t)(left < PIECE_BYTES ? left : PIECE_BYTES);
    return (card_bytes){.context = r->context, .card = r->card, .stream = SPYRE_DEFAULT_STREAM,
                        .address = r->addresses[argument] + (uint64_t)at,
                        .sticks = card_bytes_sticks((int64_t)*out_bytes)};
}

static spyre_status send_pieces(run *r, uint32_t argument)
{
    const spyre_program_buffer *buffer = &r->buffers[argument];
    for (int64_t at = 0; buffer->bytes && at < buffer->byte_count; at += PIECE_BYTES) {
        size_t bytes;
        const card_bytes place = piece_at(r, argument, at, &bytes);
        const uint8_t *source = (const uint8_t *)buffer->bytes + at;
        if (is_zero(source, bytes)) continue;
        memset(r->piece, 0, PIECE_BYTES);
        memcpy(r->piece, source, bytes);
        TRY(card_bytes_write(&place, r->piece));
    }
    return NULL;
}

static spyre_status send(run *r, uint32_t argument)
{
    int64_t bytes = card_bytes_sticks(r->buffers[argument].byte_count) * SPYRE_STICK_BYTES;
    TRY(spyre_memory_allocate(r->context, r->card, SPYRE_DEFAULT_STREAM, bytes,
                              &r->addresses[argument]));
    TRY(spyre_copy_raw(r->context, r->card, SPYRE_DEFAULT_STREAM, r->addresses[argument], 0,
                       bytes));
    return send_pieces(r, argument);
}

static spyre_status receive(run *r, uint32_t argument)
{
    const spyre_program_buffer *buffer = &r->buffers[argument];
    for (int64_t at = 0; buffer->bytes && at < buffer->byte_count; at += PIECE_BYTES) {
        size_t bytes;
        const card_bytes place = piece_at(r, argument, at, &bytes);
        uint8_t *target = (uint8_t *)buffer->bytes + at;
        TRY(card_bytes_read(&place, r->piece));
        if (is_zero(r->piece, bytes) && is_zero(target, bytes)) continue;
        memcpy(target, r->piece, bytes);
    }
    return NULL;
}

static spyre_status execute(run *r, const spyre_program *program)
{
    for (uint32_t k = 0; k < r->count; k++)
        TRY(status_at(send(r, k), "launch argument %u", k));
    TRY(job_launch(r->context, r->card, SPYRE_DEFAULT_STREAM, program->job, r->addresses, NULL,
                   NULL));
    TRY(spyre_stream_synchronize(r->context, r->card, SPYRE_DEFAULT_STREAM));
    for (uint32_t k = 0; k < r->count; k++)
        TRY(status_at(receive(r, k), "launch argument %u", k));
    return NULL;
}

static spyre_status check_buffers(const spyre_program *program, const spyre_program_buffer *buffers)
{
    for (uint32_t k = 0; k < program->argument_count; k++) {
        int64_t wanted = program->argument_bytes[k], found = buffers[k].byte_count;
        if (found < 1 || (wanted && found != wanted))
            return status_new(SPYRE_INVALID_ARGUMENT,
                              "launch argument %u has %lld bytes, the program takes %lld", k,
                              (long long)found, (long long)wanted);
        const spyrecode_operand *operand = program->operands[k];
        if (operand && found < operand->least_bytes)
            return status_new(SPYRE_INVALID_ARGUMENT,
                              "launch argument %u has %lld bytes, the program touches %lld", k,
                              (long long)found, (long long)operand->least_bytes);
        if ((uint64_t)found > CARD_SEGMENT_BYTES)
            return status_new(SPYRE_OUT_OF_MEMORY,
                              "launch argument %u has %lld bytes, a segment of the card %llu", k,
                              (long long)found, CARD_SEGMENT_BYTES);
    }
    return NULL;
}

static spyre_status run_sized(spyre_context *context, uint32_t card_id,
                              const spyre_program *program, const spyre_program_buffer *buffers,
                              uint64_t *addresses)
{
    TRY(check_buffers(program, buffers));
    run r = {.context = context, .card = card_id, .count = program->argument_count,
             .addresses = addresses, .piece = malloc(PIECE_BYTES), .buffers = buffers};
    spyre_status status = r.piece ? execute(&r, program) : status_no_memory();
    for (uint32_t k = 0; k < r.count; k++)
        if (r.addresses[k]) spyre_memory_free(context, card_id, r.addresses[k]);
    free(r.piece);
    return status;
}

spyre_status spyre_program_run(spyre_context *context, uint32_t card_id, spyre_program *program,
                               const spyre_program_buffer *buffers)
{
    uint32_t count = program->argument_count;
    spyre_program *sized = NULL;
    int64_t *bytes = calloc((size_t)count + 1, sizeof *bytes);
    uint64_t *addresses = calloc((size_t)count + 1, sizeof *addresses);
    spyre_status status = bytes && addresses ? NULL : status_no_memory();
    for (uint32_t k = 0; !status && k < count; k++) bytes[k] = buffers[k].byte_count;
    if (!status) status = spyre_program_sized(program, bytes, NULL, &sized);
    if (!status) status = run_sized(context, card_id, sized, buffers, addresses);
    free(addresses);
    free(bytes);
    return status;
}

spyre_status spyre_program_launch(spyre_context *context, uint32_t card_id, uint32_t stream,
                                  const spyre_program *program, const uint64_t *addresses)
{
    if (!program->job)
        return status_new(SPYRE_INVALID_ARGUMENT,
                          "the program has no code before the sizes of its arguments are given");
    return job_launch(context, card_id, stream, program->job, addresses, NULL, NULL);
}
