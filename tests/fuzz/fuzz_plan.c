// SPDX-License-Identifier: Apache-2.0
//
// Text of the loop IR and, from a line that begins with "plan" on, the plan that it is to follow:
// any text is followed or left alone, and what follows it goes through the other passes. A graph
// that gives a plan of its own can follow that, and is planned then as it was.
#include "back/back.h"
#include "front/front.h"
#include "front/plan/plan_text.h"
#include "fuzz/fuzz.h"

enum { MOST_OPS = 40, MOST_BUFFERS = 60 };

// Cuts the plan off; the empty text where there is none.
static const char *cut_plan(char *loops)
{
    char *line = strstr(loops, "\nplan");
    if (!line) return "";
    *line = '\0';
    return line + 1;
}

static bool parse(const char *input, const char *plan, arena *memory, loop_graph **out)
{
    if (!fuzz_ok(loop_parse(input, "input", NULL, memory, out))) return false;
    (*out)->handed_plan = *plan ? plan : NULL;
    return (*out)->ops.count <= MOST_OPS && (*out)->buffers.count <= MOST_BUFFERS;
}

// The graph behind all passes, or null.
static loop_graph *compile(const char *input, const char *plan, arena *memory)
{
    const front_options options = {0};
    const back_options back = BACK_OPTIONS_INIT;
    front_result result;
    isa_program *program;
    loop_graph *loops;
    if (!parse(input, plan, memory, &loops)) return NULL;
    if (!fuzz_ok(front_continue(loops, &options, &result))) return NULL;
    fuzz_ok(back_compile(result.bundle, &back, memory, &program));
    return loops;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    arena *memory = arena_create();
    char *input = fuzz_string(memory, bytes, count);
    const char *plan = cut_plan(input);
    const loop_graph *loops = compile(input, plan, memory);
    if (loops && loops->plan) {
        loop_graph *follower = compile(input, loops->plan, memory);
        FUZZ_HOLDS(follower && follower->follows);
        fuzz_must(plan_text_print(follower));
        FUZZ_HOLDS(follower->plan && strcmp(follower->plan, loops->plan) == 0);
    }
    arena_destroy(memory);
    return 0;
}
