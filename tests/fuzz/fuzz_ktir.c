// SPDX-License-Identifier: Apache-2.0
//
// KTIR modules: what parses prints, and what is printed parses to the same; small functions run in
// the interpreter and, lowered, on the card.
#include "fuzz/fuzz.h"
#include "ktir/ir/ir.h"
#include "spyre/ktir.h"

enum { MOST_ELEMENTS = 1 << 13, MOST_TILES = 8, MOST_PARAMETERS = 24, MEMORY_BYTES = 1 << 16 };

static void check_text(arena *memory, const ktir_module *m)
{
    text once = {0}, twice = {0};
    ktir_module *again;
    ktir_print(m, &once);
    fuzz_must(ktir_parse(memory, text_string(&once), once.length, "again", &again));
    ktir_print(again, &twice);
    FUZZ_HOLDS(strcmp(text_string(&once), text_string(&twice)) == 0);
    text_free(&once);
    text_free(&twice);
}

static bool is_small(const ktir_module *m)
{
    for (uint32_t v = 0; v < m->values.count; v++) {
        const ktir_type *type = m->values.items[v].type;
        double elements = 1;
        for (uint32_t d = 0; d < type->rank; d++)
            elements *= type->size[d] == KTIR_DYNAMIC ? 1 : (double)type->size[d];
        if (elements > MOST_ELEMENTS) return false;
    }
    return true;
}

// A fault of the kernel is as good as an end.
static void run_on_card(const spyre_ktir *kernel, const spyre_ktir_options *options,
                        const spyre_ktir_value *values)
{
    static spyre_context *context;
    spyre_ktir_program *program;
    if (!context) fuzz_must(spyre_context_create(1, &context));
    spyre_status status = spyre_ktir_lower(kernel, options, values, &program);
    if (!status) status = spyre_ktir_program_run(context, 0, program, values);
    spyre_ktir_program_destroy(program);
    bool fault = spyre_status_code(status) == SPYRE_DEVICE_FAULT;
    if (fault) spyre_status_free(status);
    else fuzz_ok(status);
}

static void run(const spyre_ktir *kernel, uint32_t function, uint64_t seed)
{
    static uint8_t bytes[MOST_PARAMETERS][MEMORY_BYTES];
    spyre_ktir_value values[MOST_PARAMETERS];
    spyre_ktir_options options = {.function = function, .grid_rank = 1, .most_steps = 300};
    uint32_t count = spyre_ktir_parameter_count(kernel, function);
    options.grid[0] = 1 + (int64_t)(seed % MOST_TILES);
    if (count > MOST_PARAMETERS) return;
    for (uint32_t n = 0; n < count; n++) {
        spyre_ktir_parameter p;
        spyre_ktir_describe_parameter(kernel, function, n, &p);
        values[n] = (spyre_ktir_value){.integer = (int64_t)(seed >> n % 8 & 31), .real = 0.5};
        if (!p.is_memory || p.is_view) continue;
        values[n].bytes = bytes[n];
        values[n].byte_count = MEMORY_BYTES;
    }
    spyre_status status = spyre_ktir_interpret(kernel, &options, values);
    if (spyre_status_code(status) == SPYRE_DEVICE_FAULT) {
        FUZZ_HOLDS(!strchr(spyre_status_message(status), '\n'));
        spyre_status_free(status);
    } else {
        fuzz_ok(status);
    }
    run_on_card(kernel, &options, values);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    arena *memory = arena_create();
    char *source = fuzz_string(memory, bytes, count);
    ktir_module *m;
    spyre_ktir *kernel;
    if (fuzz_ok(ktir_parse(memory, source, count, "input", &m)) && fuzz_ok(ktir_verify(m))) {
        check_text(memory, m);
        if (is_small(m) && strlen(source) == count &&
            fuzz_ok(spyre_ktir_parse(source, "input", &kernel))) {
            for (uint32_t f = 0; f < spyre_ktir_function_count(kernel); f++)
                run(kernel, f, count * 0x9E3779B9u + f);
            spyre_ktir_destroy(kernel);
        }
    }
    arena_destroy(memory);
    return 0;
}
