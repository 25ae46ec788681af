// SPDX-License-Identifier: Apache-2.0
//
// Text of the loop IR: what parses prints, and what is printed reads back as itself.
#include "fuzz/fuzz.h"
#include "front/loop.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    arena *memory = arena_create();
    loop_graph *loops;
    if (fuzz_ok(loop_parse(fuzz_string(memory, bytes, count), "input", memory, &loops)))
        fuzz_must(loop_check_text(loops));
    arena_destroy(memory);
    return 0;
}
