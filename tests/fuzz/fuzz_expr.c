// SPDX-License-Identifier: Apache-2.0
//
// Expressions of sizes: one that parses prints, and parses again to the same id.
#include "fuzz/fuzz.h"
#include "graph/expr/expr.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    arena *memory = arena_create();
    expr_table *table = expr_table_create(memory);
    expr_symbol(table, "B", 1, 64, 1);
    expr_symbol(table, "S", 0, 4096, 32);
    const char *at = fuzz_string(memory, bytes, count);
    expr_id e = expr_parse(table, &at);
    FUZZ_HOLDS(!expr_short_of_memory(table));
    if (e != EXPR_NONE) {
        text printed = {0};
        expr_print(table, e, &printed);
        const char *again = text_string(&printed);
        FUZZ_HOLDS(expr_parse(table, &again) == e && *again == '\0');
        text_free(&printed);
    }
    arena_destroy(memory);
    return 0;
}
