// SPDX-License-Identifier: Apache-2.0
//
// SpyreCode directories: one that reads is written and reads back; its program, if it is one of
// ours, is a program that a card loads; its corrections run.
#include "card/card.h"
#include "fuzz/files.h"
#include "spyrecode/model.h"

static void correct(const spyrecode *code)
{
    static const uint64_t arguments[64];
    static const int64_t granules[SPYRECODE_MOST_SYMBOLS] = {1, 2, 3, 1LL << 40};
    for (uint32_t n = 0; n < code->commands.count; n++) {
        const spyrecode_command *command = &code->commands.items[n];
        if (command->kind != SPYRECODE_COMPUTE_ON_HOST || command->byte_count > 1 << 20) continue;
        uint8_t *output = malloc(command->byte_count + 1);
        FUZZ_HOLDS(output);
        fuzz_ok(spyrecode_correct(command, arguments, 64, granules, output));
        free(output);
    }
}

static void load(arena *memory, const spyrecode *code)
{
    static card *device;
    if (!device) fuzz_must(card_create(&device));
    isa_program *program;
    card_program *loaded;
    const spyrecode_argument *arguments;
    if (!fuzz_ok(spyrecode_program(memory, code, &program, &arguments))) return;
    if (!fuzz_ok(card_load(device, program, &loaded))) return;
    card_unload(device, loaded);
}

// init.txt: what parses prints and parses to the same.
static void as_text(arena *memory, const char *source, size_t count)
{
    spyrecode *code, *again;
    text out = {0};
    if (!fuzz_ok(spyrecode_parse_text(memory, "init.txt", source, count, &code))) return;
    load(memory, code);
    fuzz_must(spyrecode_print_text(code, &out));
    fuzz_must(spyrecode_parse_text(memory, "init.txt", text_string(&out), out.length, &again));
    text_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    arena *memory = arena_create();
    const char *directory = file_join(memory, fuzz_directory(), "code");
    const char *copy = file_join(memory, fuzz_directory(), "copy");
    spyrecode *code, *again;
    fuzz_must(file_make_directories(directory));
    fuzz_unpack(memory, directory, bytes, count);
    if (fuzz_ok(spyrecode_read(memory, directory, &code))) {
        correct(code);
        load(memory, code);
        fuzz_must(spyrecode_write(code, copy));
        fuzz_must(spyrecode_read(memory, copy, &again));
        fuzz_remove(memory, copy);
    }
    if (count && bytes[0] == '#') as_text(memory, (const char *)bytes, count);
    fuzz_remove(memory, directory);
    arena_destroy(memory);
    return 0;
}
