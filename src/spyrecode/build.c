// SPDX-License-Identifier: Apache-2.0
//
// Between programs and code. The job's space is: program, constants, pool, each on a multiple of
// 128 bytes. Program correction fills the argument table, which stands at a fixed place of the
// encoded program, and the table of values behind it, which say how instructions are changed.
#include <string.h>

#include "spyrecode/model.h"

static uint64_t aligned(uint64_t bytes)
{
    return (bytes + SPYRECODE_ALIGNMENT - 1) / SPYRECODE_ALIGNMENT * SPYRECODE_ALIGNMENT;
}

typedef struct {
    spyrecode *code;
    const isa_program *program;
    const spyrecode_argument *arguments;
    const spyrecode_sizes *sizes;       // or null
    uint64_t program_bytes;
    uint64_t init_bytes;
    uint64_t *place;                    // of argument k in the space
    uint32_t launch_count;
} builder;

// Constants follow the program, pools follow everything that init.bin fills.
static spyre_status place_arguments(builder *b)
{
    uint32_t count = b->program->arg_count;
    b->place = ARENA_NEW(b->code->memory, uint64_t, count);
    TRY_ALLOC(b->place);
    uint64_t at = aligned(b->program_bytes);
    for (uint32_t k = 0; k < count; k++) {
        const spyrecode_argument *argument = &b->arguments[k];
        if (argument->kind == SPYRECODE_LAUNCH && argument->index >= b->launch_count)
            b->launch_count = argument->index + 1;
        if (argument->kind != SPYRECODE_CONSTANTS) continue;
        b->place[k] = at;
        at += aligned(argument->byte_count);
    }
    b->init_bytes = at;
    for (uint32_t k = 0; k < count; k++) {
        if (b->arguments[k].kind != SPYRECODE_POOL) continue;
        b->place[k] = at;
        at += aligned(b->arguments[k].byte_count);
    }
    if (at > ISA_SEGMENT_BYTES) {
        return status_new(SPYRE_UNSUPPORTED, "spyrecode: a job of %llu bytes leaves segment 7",
                          (unsigned long long)at);
    }
    b->code->space_bytes = at;
    return NULL;
}

static spyre_status add_init(builder *b, const uint8_t *encoded)
{
    uint8_t *init = ARENA_NEW(b->code->memory, uint8_t, b->init_bytes);
    TRY_ALLOC(init);
    memcpy(init, encoded, b->program_bytes);
    for (uint32_t k = 0; k < b->program->arg_count; k++) {
        const spyrecode_argument *argument = &b->arguments[k];
        if (argument->kind == SPYRECODE_CONSTANTS && argument->byte_count)
            memcpy(init + b->place[k], argument->bytes, argument->byte_count);
    }
    spyrecode_transfer transfer = {"init.bin", SPYRECODE_BASE, b->init_bytes, init};
    return VEC_PUSH(b->code->memory, &b->code->transfers, transfer);
}

static spyre_status add_correction(builder *b)
{
    uint32_t count = b->program->arg_count, values = b->program->value_count;
    spyrecode_patch *patches = ARENA_NEW(b->code->memory, spyrecode_patch, (size_t)count + values);
    TRY_ALLOC(patches);
    spyrecode_operand *operands = ARENA_NEW(b->code->memory, spyrecode_operand, count);
    TRY_ALLOC(operands);
    uint32_t operand_count = 0;
    for (uint32_t k = 0; k < count; k++) {
        const spyrecode_argument *argument = &b->arguments[k];
        patches[k].offset = k * sizeof(uint64_t);
        if (argument->kind == SPYRECODE_LAUNCH) {
            patches[k].source = SPYRECODE_FROM_ARGUMENT;
            patches[k].index = argument->index;
            if (!argument->operand) continue;
            operands[operand_count] = *argument->operand;
            operands[operand_count++].index = argument->index;
        } else {
            patches[k].source = SPYRECODE_FROM_ADDRESS;
            patches[k].address = SPYRECODE_BASE + b->place[k];
            patches[k].byte_count = argument->byte_count;
        }
    }
    for (uint32_t v = 0; v < values; v++)
        patches[count + v] = (spyrecode_patch){.offset = (count + v) * sizeof(uint64_t),
                                               .source = SPYRECODE_FROM_SIZES, .index = v};
    spyrecode_command host = {.kind = SPYRECODE_COMPUTE_ON_HOST,
                              .handle = "correction",
                              .input = SPYRECODE_LAUNCH_NUMBERS,
                              .byte_count = (count + values) * sizeof(uint64_t),
                              .argument_count = b->launch_count,
                              .program_bytes = b->program_bytes,
                              .patch_count = count + values,
                              .patches = patches,
                              .operand_count = operand_count,
                              .operands = operands};
    if (b->sizes) host.sizes = *b->sizes;
    TRY(VEC_PUSH(b->code->memory, &b->code->commands, host));
    spyrecode_command transfer = {.kind = SPYRECODE_DATA_TRANSFER,
                                  .handle = "correction",
                                  .byte_count = host.byte_count,
                                  .address = SPYRECODE_BASE + ISA_ARGUMENT_TABLE_OFFSET};
    return VEC_PUSH(b->code->memory, &b->code->commands, transfer);
}

spyre_status spyrecode_build(arena *memory, const isa_program *program,
                             const spyrecode_argument *arguments, const spyrecode_sizes *sizes,
                             spyrecode **out_code)
{
    spyrecode *code = ARENA_NEW(memory, spyrecode, 1);
    TRY_ALLOC(code);
    code->memory = memory;
    builder b = {.code = code, .program = program, .arguments = arguments, .sizes = sizes};
    uint8_t *encoded;
    size_t encoded_bytes;
    TRY(isa_encode(memory, program, &encoded, &encoded_bytes));
    b.program_bytes = encoded_bytes;
    TRY(place_arguments(&b));
    TRY(add_init(&b, encoded));
    if (program->arg_count) TRY(add_correction(&b));
    spyrecode_command device = {.kind = SPYRECODE_COMPUTE_ON_DEVICE, .address = SPYRECODE_BASE};
    TRY(VEC_PUSH(memory, &code->commands, device));
    TRY(spyrecode_verify(code));
    *out_code = code;
    return NULL;
}

// --- Back to a program

static spyre_status foreign(const char *rule)
{
    return status_new(SPYRE_UNSUPPORTED, "spyrecode: not of this stack's form: %s", rule);
}

static spyre_status read_argument(const spyrecode *code, const spyrecode_command *host,
                                  const spyrecode_patch *patch, spyrecode_argument *out)
{
    if (patch->source == SPYRECODE_FROM_ARGUMENT) {
        *out = (spyrecode_argument){.kind = SPYRECODE_LAUNCH, .index = patch->index};
        for (uint32_t n = 0; n < host->operand_count; n++)
            if (host->operands[n].index == patch->index) out->operand = &host->operands[n];
        return NULL;
    }
    const spyrecode_transfer *init = &code->transfers.items[0];
    uint64_t at = patch->address - init->target;
    out->byte_count = patch->byte_count;
    out->kind = at < init->byte_count ? SPYRECODE_CONSTANTS : SPYRECODE_POOL;
    if (out->kind == SPYRECODE_POOL) return NULL;
    if (patch->byte_count > init->byte_count - at) return foreign("constants beyond init.bin");
    out->bytes = init->bytes + at;
    return NULL;
}

static spyre_status read_arguments(arena *memory, const spyrecode *code,
                                   const isa_program *program, const spyrecode_command *host,
                                   const spyrecode_argument **out_arguments)
{
    spyrecode_argument *arguments = ARENA_NEW(memory, spyrecode_argument, program->arg_count);
    bool *seen = ARENA_NEW(memory, bool, (size_t)program->arg_count + program->value_count);
    if (!arguments || !seen) return status_no_memory();
    uint32_t patches = host ? host->patch_count : 0, table = program->arg_count;
    for (uint32_t n = 0; n < patches; n++) {
        const spyrecode_patch *patch = &host->patches[n];
        uint64_t k = patch->offset / sizeof(uint64_t);
        bool is_size = patch->source == SPYRECODE_FROM_SIZES;
        if (k >= table + program->value_count || seen[k] || is_size != (k >= table))
            return foreign("patches are not one an argument and one a value");
        seen[k] = true;
        if (!is_size) TRY(read_argument(code, host, patch, &arguments[k]));
    }
    if (patches != table + program->value_count) return foreign("an argument without a patch");
    *out_arguments = arguments;
    return NULL;
}

spyre_status spyrecode_program(arena *memory, const spyrecode *code, isa_program **out_program,
                               const spyrecode_argument **out_arguments)
{
    const spyrecode_command *commands = code->commands.items;
    bool corrected = code->commands.count == 3;
    if (!corrected && code->commands.count != 1) return foreign("one or three commands");
    const spyrecode_command *host = corrected ? &commands[0] : NULL;
    const spyrecode_command *device = &commands[code->commands.count - 1];
    const spyrecode_transfer *init = &code->transfers.items[0];
    if (code->transfers.count != 1 || device->address != init->target)
        return foreign("one init.bin that starts with the program");
    if (!init->bytes) return foreign("init.bin was not read");
    if (host && host->foreign) return foreign("hcm that says how addresses become arguments");
    if (isa_image_bytes(init->bytes, init->byte_count) == 0)
        return foreign("init.bin that begins with SPYRECOD");
    if (corrected && (commands[1].address != init->target + ISA_ARGUMENT_TABLE_OFFSET))
        return foreign("a correction of the argument table");
    uint64_t bytes = host ? host->program_bytes : init->byte_count;
    if (bytes > init->byte_count) return foreign("program_bytes within init.bin");
    TRY(status_at(isa_decode(memory, init->bytes, bytes, out_program), "%s", init->name));
    return read_arguments(memory, code, *out_program, host, out_arguments);
}
