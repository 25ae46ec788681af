// SPDX-License-Identifier: Apache-2.0
//
// Text of the loop IR: what parses prints, what is printed reads back as itself, and small programs
// go through the passes that are left, to what the back-end takes.
#include "back/back.h"
#include "fuzz/fuzz.h"
#include "front/front.h"

enum { MOST_OPS = 40, MOST_BUFFERS = 60 };

static void go_on(loop_graph *loops, arena *memory)
{
    const front_options options = {0};
    const back_options back = BACK_OPTIONS_INIT;
    front_result result;
    isa_program *program;
    if (loops->ops.count > MOST_OPS || loops->buffers.count > MOST_BUFFERS) return;
    if (fuzz_ok(front_continue(loops, &options, &result)))
        fuzz_ok(back_compile(result.bundle, &back, memory, &program));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    arena *memory = arena_create();
    loop_graph *loops;
    if (fuzz_ok(loop_parse(fuzz_string(memory, bytes, count), "input", NULL, memory, &loops))) {
        fuzz_must(loop_check_text(loops));
        go_on(loops, memory);
    }
    arena_destroy(memory);
    return 0;
}
