// SPDX-License-Identifier: Apache-2.0
//
// Bundle directories: one that reads and verifies is written, reads back, and compiles to a program
// that a card loads.
#include "back/back.h"
#include "bundle/files.h"
#include "card/card.h"
#include "fuzz/files.h"

static void compile(arena *memory, const bundle *b)
{
    static card *device;
    if (!device) fuzz_must(card_create(&device));
    isa_program *program;
    card_program *loaded;
    back_options options = BACK_OPTIONS_INIT;
    if (!fuzz_ok(back_compile(b, &options, memory, &program))) return;
    fuzz_must(card_load(device, program, &loaded));
    card_unload(device, loaded);
}

// At the smallest of the sizes that a launch may choose.
static void compile_bound(arena *memory, const bundle *b)
{
    int64_t values[BUNDLE_MAX_SYMBOLS];
    bundle *bound;
    for (uint32_t s = 0; s < b->symbols.count; s++) values[s] = b->symbols.items[s].granularity;
    if (fuzz_ok(bundle_bind(memory, b, values, &bound))) compile(memory, bound);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    arena *memory = arena_create();
    const char *directory = file_join(memory, fuzz_directory(), "bundle");
    const char *copy = file_join(memory, fuzz_directory(), "copy");
    bundle *b, *again;
    fuzz_must(file_make_directories(directory));
    fuzz_unpack(memory, directory, bytes, count);
    if (fuzz_ok(bundle_read(memory, directory, count % 2 == 1, &b))) {
        compile(memory, b);
        if (b->symbols.count) compile_bound(memory, b);
        if (fuzz_ok(bundle_write(b, copy))) {
            bool pool_first = b->args.count && b->args.items[0].kind == BUNDLE_ARG_POOL;
            fuzz_must(bundle_read(memory, copy, pool_first, &again));
            fuzz_remove(memory, copy);
        }
    }
    fuzz_remove(memory, directory);
    arena_destroy(memory);
    return 0;
}
