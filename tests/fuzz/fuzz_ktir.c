// SPDX-License-Identifier: Apache-2.0
//
// KTIR modules: what parses prints, and what is printed parses to the same.
#include "fuzz/fuzz.h"
#include "ktir/ir.h"

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

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    arena *memory = arena_create();
    ktir_module *m;
    if (fuzz_ok(ktir_parse(memory, fuzz_string(memory, bytes, count), count, "input", &m)) &&
        fuzz_ok(ktir_verify(m)))
        check_text(memory, m);
    arena_destroy(memory);
    return 0;
}
