// SPDX-License-Identifier: Apache-2.0
//
// Kernels that break a rule while they run: what the interpreter says, and what is said when they
// are lowered and launched on a card with its checker. Both name operation and line.
#include "unit/ktir/golden_kernel.h"

#include "spyre/ktir.h"

#define INVALID SPYRE_TESTS_DIR "/invalid/kernel"

// An array of the first view's size for x, index 9 for all that indexes, 64 for numbers.
enum { MOST_PARAMETERS = 4, ROWS_BYTES = 8 * 64 * 2 };

typedef struct {
    spyre_ktir *kernel;
    spyre_ktir_value values[MOST_PARAMETERS];
    uint16_t rows[ROWS_BYTES / 2];
    int32_t indices[4];
} call;

static void begin(call *c, arena *memory, const char *name)
{
    size_t length;
    const char *path = file_join(memory, file_join(memory, INVALID, name), "input.mlir");
    const char *source = read_file(memory, path, &length);
    assert_ok(spyre_ktir_parse(source, "input.mlir", &c->kernel));
    assert_true(spyre_ktir_parameter_count(c->kernel, 0) <= MOST_PARAMETERS);
    for (uint32_t n = 0; n < spyre_ktir_parameter_count(c->kernel, 0); n++) {
        spyre_ktir_parameter p;
        spyre_ktir_describe_parameter(c->kernel, 0, n, &p);
        c->values[n] = (spyre_ktir_value){.integer = 64};
        if (p.is_memory && !p.is_view)
            c->values[n] = (spyre_ktir_value){.bytes = c->rows, .byte_count = ROWS_BYTES};
        else if (p.dtype == SPYRE_DTYPE_I32)
            c->values[n] = (spyre_ktir_value){.bytes = c->indices, .byte_count = 16};
        else if (p.is_view) c->values[n] = (spyre_ktir_value){0};
    }
    for (uint32_t n = 0; n < 4; n++) c->indices[n] = 9;
    memset(c->rows, 0, sizeof c->rows);
}

static spyre_status launch(call *c)
{
    spyre_ktir_program *program = NULL;
    spyre_context *context = NULL;
    setenv("SPYRE_CARD_CHECK", "1", 1);
    spyre_status status = spyre_ktir_lower(c->kernel, &(spyre_ktir_options){0}, c->values,
                                           &program);
    if (!status) status = spyre_context_create(1, &context);
    if (!status) status = spyre_ktir_program_run(context, 0, program, c->values);
    unsetenv("SPYRE_CARD_CHECK");
    spyre_context_destroy(context);
    spyre_ktir_program_destroy(program);
    return status;
}

static void check(arena *memory, const char *name, const char *file, spyre_status status)
{
    const char *directory = file_join(memory, INVALID, name);
    if (!status) fail_msg("%s: %s: no fault", name, file);
    char *message = arena_printf(memory, "%s\n", spyre_status_message(status));
    if (!strstr(message, "input.mlir:")) fail_msg("%s: no place: %s", name, message);
    spyre_status_free(status);
    check_text(file_join(memory, directory, file), message, name);
}

static void fault__kernels(void **state)
{
    (void)state;
    arena *memory = arena_create();
    file_names names = {0};
    assert_ok(file_list(memory, INVALID, "", &names));
    assert_true(names.count >= 18);
    for (uint32_t i = 0; i < names.count; i++) {
        call c = {0};
        begin(&c, memory, names.items[i]);
        check(memory, names.items[i], "interpreted",
              spyre_ktir_interpret(c.kernel, &(spyre_ktir_options){.most_steps = 10000},
                                   c.values));
        spyre_ktir_destroy(c.kernel);
        begin(&c, memory, names.items[i]);
        check(memory, names.items[i], "lowered", launch(&c));
        spyre_ktir_destroy(c.kernel);
    }
    arena_destroy(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(fault__kernels)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
