// SPDX-License-Identifier: Apache-2.0
//
// The rules that tie commands together. Order of execution: nothing before ComputeOnDevice, or
// ComputeOnHost and the transfer of its output first, as torch-spyre's runtime asks. Transfers to
// the host, of the job's space or of a launch argument (segments 0 to 6), may stand anywhere else.
#include <string.h>

#include "spyrecode/model.h"

#define BROKEN(...) return status_new(SPYRE_INVALID_FORMAT, __VA_ARGS__)

static spyre_status check_place(const spyrecode *code, const char *field, uint64_t address,
                                uint64_t bytes)
{
    if (address % SPYRECODE_ALIGNMENT) {
        BROKEN("%s %llu: must be a multiple of %d", field, (unsigned long long)address,
               SPYRECODE_ALIGNMENT);
    }
    if (address < SPYRECODE_BASE || address >= SPYRECODE_BASE + ISA_SEGMENT_BYTES) {
        BROKEN("%s %llu: must lie in segment 7, from %llu", field, (unsigned long long)address,
               (unsigned long long)SPYRECODE_BASE);
    }
    uint64_t at = address - SPYRECODE_BASE;
    if (at > code->space_bytes || bytes > code->space_bytes - at) {
        BROKEN("%s %llu: %llu bytes leave the %llu that Allocate asks for", field,
               (unsigned long long)address, (unsigned long long)bytes,
               (unsigned long long)code->space_bytes);
    }
    return NULL;
}

static spyre_status check_patch(const spyrecode *code, const spyrecode_command *command,
                                const spyrecode_patch *patch)
{
    bool fits = patch->offset % sizeof(uint64_t) == 0 &&
                command->byte_count >= sizeof(uint64_t) &&
                patch->offset <= command->byte_count - sizeof(uint64_t);
    if (!fits) {
        BROKEN("offset %llu: must be a multiple of 8 inside the %llu bytes of the output",
               (unsigned long long)patch->offset, (unsigned long long)command->byte_count);
    }
    if (patch->source == SPYRECODE_FROM_ADDRESS)
        return check_place(code, "address", patch->address, patch->byte_count);
    if (patch->source == SPYRECODE_FROM_SIZES) {
        if (patch->index >= command->sizes.expression_count)
            BROKEN("index %u of %u expressions", patch->index, command->sizes.expression_count);
        return NULL;
    }
    if (patch->index >= command->argument_count)
        BROKEN("index %u: ishape has %u arguments", patch->index, command->argument_count);
    return NULL;
}

static spyre_status check_sizes(const spyrecode_sizes *sizes)
{
    for (uint32_t s = 0; s < sizes->symbol_count; s++) {
        const spyrecode_symbol *symbol = &sizes->symbols[s];
        if (symbol->granularity < 1 || symbol->most < 1 || symbol->most % symbol->granularity)
            BROKEN("hcm.symbols[%u]: %lld is no multiple of %lld", s, (long long)symbol->most,
                   (long long)symbol->granularity);
    }
    for (uint32_t e = 0; e < sizes->expression_count; e++)
        for (uint32_t t = 0; t < sizes->expressions[e].term_count; t++)
            for (uint32_t s = sizes->symbol_count; s < SPYRECODE_MOST_SYMBOLS; s++)
                if (sizes->expressions[e].terms[t].power[s])
                    BROKEN("hcm.expressions[%u]: a symbol beyond the %u", e, sizes->symbol_count);
    return NULL;
}

static spyre_status check_operand(const spyrecode_sizes *sizes, const spyrecode_operand *operand)
{
    for (uint32_t n = 0; n < operand->variation_count; n++) {
        const spyrecode_variation *v = &operand->variations[n];
        if (v->field > 2 * operand->walk_count || v->expression >= sizes->expression_count)
            BROKEN("varies[%u]: field %u of %u, expression %u of %u", n, v->field,
                   1 + 2 * operand->walk_count, v->expression, sizes->expression_count);
    }
    return NULL;
}

static spyre_status check_host(const spyrecode *code, const spyrecode_command *command)
{
    if (command->byte_count > SPYRECODE_MOST_PATCHES * sizeof(uint64_t)) {
        BROKEN("size %llu: at most %zu", (unsigned long long)command->byte_count,
               SPYRECODE_MOST_PATCHES * sizeof(uint64_t));
    }
    for (uint32_t n = 0; n < command->patch_count; n++)
        TRY(status_at(check_patch(code, command, &command->patches[n]), "hcm.patches[%u]", n));
    for (uint32_t n = 0; n < command->operand_count; n++)
        TRY(status_at(check_operand(&command->sizes, &command->operands[n]), "hcm.arguments[%u]",
                      n));
    return check_sizes(&command->sizes);
}

static bool same_handle(const spyrecode_command *a, const spyrecode_command *b)
{
    return strcmp(a->handle, b->handle) == 0;
}

// The input of a host function: what the launch gives, or what a command before has given.
static spyre_status check_input(const spyrecode *code, uint32_t n)
{
    const char *input = code->commands.items[n].input;
    bool given = !*input || strcmp(input, SPYRECODE_LAUNCH_NUMBERS) == 0;
    for (uint32_t before = 0; before < n && !given; before++) {
        const spyrecode_command *command = &code->commands.items[before];
        given = command->handle && strcmp(command->handle, input) == 0;
    }
    if (!given) BROKEN("ihandle '%s' not found in pinned buffer map", input);
    return NULL;
}

static spyre_status check_to_host(const spyrecode *code, uint32_t n)
{
    const spyrecode_command *command = &code->commands.items[n];
    if (n > 0 && command[-1].kind == SPYRECODE_COMPUTE_ON_HOST)
        BROKEN("the output of ComputeOnHost must be transferred to the card first");
    if (command->address >= SPYRECODE_BASE)
        return check_place(code, "dev_ptr", command->address, command->byte_count);
    uint64_t at = command->address % ISA_SEGMENT_BYTES;
    if (command->byte_count > ISA_SEGMENT_BYTES - at)
        BROKEN("dev_ptr %llu: %llu bytes leave the segment", (unsigned long long)command->address,
               (unsigned long long)command->byte_count);
    return NULL;
}

static spyre_status check_command(const spyrecode *code, uint32_t n)
{
    const spyrecode_command *command = &code->commands.items[n];
    switch (command->kind) {
    case SPYRECODE_COMPUTE_ON_HOST:
        if (n != 0) BROKEN("ComputeOnHost must be the first command");
        if (code->commands.count < 3) BROKEN("a transfer and ComputeOnDevice must follow");
        TRY(check_input(code, n));
        return check_host(code, command);
    case SPYRECODE_DATA_TRANSFER:
        if (command->to_host) return check_to_host(code, n);
        if (n != 1 || command[-1].kind != SPYRECODE_COMPUTE_ON_HOST)
            BROKEN("DataTransfer must follow ComputeOnHost");
        if (!same_handle(command, &command[-1]))
            BROKEN("host_handle \"%s\": nothing has that name", command->handle);
        if (command->byte_count != command[-1].byte_count) {
            BROKEN("size %llu: ComputeOnHost gives %llu bytes",
                   (unsigned long long)command->byte_count,
                   (unsigned long long)command[-1].byte_count);
        }
        return check_place(code, "dev_ptr", command->address, command->byte_count);
    case SPYRECODE_COMPUTE_ON_DEVICE:
        if (n == 1 && command[-1].kind == SPYRECODE_COMPUTE_ON_HOST)
            BROKEN("the output of ComputeOnHost must be transferred first");
        return check_place(code, "job_bin_ptr", command->address, 1);
    }
    BROKEN("unknown kind %d", (int)command->kind);
}

spyre_status spyrecode_verify(const spyrecode *code)
{
    if (code->transfers.count == 0) BROKEN("JobPreparationPlan: no InitTransfer");
    for (uint32_t n = 0; n < code->transfers.count; n++) {
        const spyrecode_transfer *transfer = &code->transfers.items[n];
        TRY(status_at(check_place(code, "dev_ptr", transfer->target, transfer->byte_count),
                      "JobPreparationPlan[%u]", n + 1));
    }
    uint32_t count = code->commands.count;
    if (count == 0) BROKEN("JobExecPlan: no commands");
    for (uint32_t n = 0; n < count; n++)
        TRY(status_at(check_command(code, n), "JobExecPlan[%u]", n));
    const spyrecode_command *last = &code->commands.items[count - 1];
    if (last->kind != SPYRECODE_COMPUTE_ON_DEVICE && !last->to_host)
        BROKEN("JobExecPlan: must end with ComputeOnDevice or a transfer to the host");
    return NULL;
}
