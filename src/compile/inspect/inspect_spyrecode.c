// SPDX-License-Identifier: Apache-2.0
//
// A SpyreCode directory for people: the job's space, what is put there once, what a launch does
// with its patches, and the program when it is one of ours.
#include <inttypes.h>

#include "compile/inspect/inspect.h"
#include "spyrecode/model.h"

static void print_preparation(const spyrecode *code, text *out)
{
    text_printf(out, "prepare\n    allocate %" PRIu64 " bytes at 0x%" PRIx64 "\n",
                code->space_bytes, (uint64_t)SPYRECODE_BASE);
    for (uint32_t i = 0; i < code->transfers.count; i++) {
        const spyrecode_transfer *t = &code->transfers.items[i];
        text_printf(out, "    transfer %s, %" PRIu64 " bytes, to 0x%" PRIx64 "\n", t->name,
                    t->byte_count, t->target);
    }
}

// "64 + 128 s0 s1 s1", sizes in granules.
static void print_expression(const spyrecode_sizes *sizes, uint32_t number, text *out)
{
    const spyrecode_expression *e = &sizes->expressions[number];
    if (e->term_count == 0) text_append(out, "0");
    for (uint32_t t = 0; t < e->term_count; t++) {
        text_printf(out, t ? " + %" PRId64 : "%" PRId64, e->terms[t].factor);
        for (uint32_t s = 0; s < sizes->symbol_count; s++)
            for (uint32_t n = 0; n < e->terms[t].power[s]; n++)
                text_printf(out, " %s", sizes->symbols[s].name);
    }
    text_append(out, "\n");
}

static void print_patches(const spyrecode_command *command, text *out)
{
    for (uint32_t s = 0; s < command->sizes.symbol_count; s++) {
        const spyrecode_symbol *symbol = &command->sizes.symbols[s];
        text_printf(out, "        size %s: a multiple of %" PRId64 " up to %" PRId64
                    "; below, how many of it\n", symbol->name, symbol->granularity, symbol->most);
    }
    for (uint32_t i = 0; i < command->patch_count; i++) {
        const spyrecode_patch *patch = &command->patches[i];
        text_printf(out, "        output byte %" PRIu64 " = ", patch->offset);
        switch (patch->source) {
        case SPYRECODE_FROM_ARGUMENT:
            text_printf(out, "address of launch argument %u\n", patch->index);
            break;
        case SPYRECODE_FROM_ADDRESS:
            text_printf(out, "0x%" PRIx64 " (%" PRIu64 " bytes)\n", patch->address,
                        patch->byte_count);
            break;
        case SPYRECODE_FROM_SIZES: print_expression(&command->sizes, patch->index, out); break;
        }
    }
}

static void print_execution(const spyrecode *code, text *out)
{
    text_append(out, "execute\n");
    for (uint32_t i = 0; i < code->commands.count; i++) {
        const spyrecode_command *c = &code->commands.items[i];
        switch (c->kind) {
        case SPYRECODE_COMPUTE_ON_HOST:
            text_printf(out, "    compute on host: %u launch arguments, %u patches, %" PRIu64
                        " bytes into %s\n", c->argument_count, c->patch_count, c->byte_count,
                        c->handle);
            print_patches(c, out);
            break;
        case SPYRECODE_DATA_TRANSFER:
            text_printf(out, "    transfer %" PRIu64 " bytes %s %s %s 0x%" PRIx64 "\n",
                        c->byte_count, c->to_host ? "to" : "from", c->handle,
                        c->to_host ? "from" : "to", c->address);
            break;
        case SPYRECODE_COMPUTE_ON_DEVICE:
            text_printf(out, "    compute on device: program at 0x%" PRIx64 "\n", c->address);
            break;
        }
    }
}

static void print_arguments(const isa_program *program, const spyrecode_argument *arguments,
                            text *out)
{
    for (uint32_t i = 0; i < program->arg_count; i++) {
        const spyrecode_argument *a = &arguments[i];
        text_printf(out, "    argument %u  ", i);
        switch (a->kind) {
        case SPYRECODE_LAUNCH: text_printf(out, "launch argument %u\n", a->index); break;
        case SPYRECODE_POOL:
            text_printf(out, "pool of %" PRIu64 " bytes\n", a->byte_count);
            break;
        case SPYRECODE_CONSTANTS:
            text_printf(out, "constants of %" PRIu64 " bytes\n", a->byte_count);
            break;
        }
    }
}

static spyre_status print_code(arena *memory, const char *name, const spyrecode *code, text *out)
{
    isa_program *program;
    const spyrecode_argument *arguments;
    text_printf(out, "SpyreCode %s\n", name);
    print_preparation(code, out);
    print_execution(code, out);
    spyre_status status = spyrecode_program(memory, code, &program, &arguments);
    if (spyre_status_code(status) == SPYRE_UNSUPPORTED) {
        text_printf(out, "program of another back-end: %s\n", spyre_status_message(status));
        spyre_status_free(status);
        return NULL;
    }
    TRY(status_at(status, "%s", name));
    TRY(inspect_program_summary(memory, program, out));
    print_arguments(program, arguments, out);
    return NULL;
}

spyre_status inspect_spyrecode(arena *memory, const char *directory, text *out)
{
    spyrecode *code;
    TRY(spyrecode_read(memory, directory, &code));
    return print_code(memory, directory, code, out);
}

spyre_status inspect_init_text(arena *memory, const char *path, text *out)
{
    spyrecode *code;
    TRY(spyrecode_read_text(memory, path, &code));
    return print_code(memory, path, code, out);
}
