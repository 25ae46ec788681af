// SPDX-License-Identifier: Apache-2.0
//
// OpSpecs as JSON: what is read prints and reads back as itself, and small programs go through the
// rest of the compiler.
#include "back/back.h"
#include "base/json.h"
#include "front/spec/op_spec.h"
#include "fuzz/fuzz.h"

enum { MOST_OPS = 20 };

static void go_on(loop_graph *loops, arena *memory)
{
    const back_options options = BACK_OPTIONS_INIT;
    front_result result;
    isa_program *program;
    if (loops->ops.count > MOST_OPS) return;
    if (fuzz_ok(front_fault_of_input(front_emit(loops, &result))))
        fuzz_ok(back_compile(result.bundle, &options, memory, &program));
}

// The printer's dims may be finer than those that were read, so the second text is the one to keep.
static json_t *again(json_t *specs, const spyre_settings *settings, arena *memory)
{
    json_node root = {.value = specs, .key = "specs"};
    op_spec_list list;
    json_t *printed;
    fuzz_must(op_spec_read(&root, settings, memory, &list));
    fuzz_must(op_spec_print(list.loops, &printed));
    return printed;
}

static void check(const json_node *root, arena *memory)
{
    const spyre_settings settings = spyre_settings_default();
    op_spec_list list;
    json_t *printed;
    if (!fuzz_ok(op_spec_read(root, &settings, memory, &list))) return;
    fuzz_must(op_spec_print(list.loops, &printed));
    json_t *second = again(printed, &settings, memory), *third = again(second, &settings, memory);
    FUZZ_HOLDS(json_equal(second, third));
    json_decref(printed);
    json_decref(second);
    json_decref(third);
    go_on(list.loops, memory);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    arena *memory = arena_create();
    json_node root = {0};
    if (fuzz_ok(json_read_buffer("input", (const char *)bytes, count, &root))) {
        check(&root, memory);
        json_close(&root);
    }
    arena_destroy(memory);
    return 0;
}
