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
    scanner in = scan_start(memory, fuzz_string(memory, bytes, count), "fuzz");
    expr_id e = expr_parse(table, &in);
    FUZZ_HOLDS(!expr_short_of_memory(table));
    if (e != EXPR_NONE) {
        text printed = {0};
        expr_print(table, e, &printed);
        in = scan_start(memory, text_string(&printed), "fuzz");
        FUZZ_HOLDS(expr_parse(table, &in) == e && *in.at == '\0');
        text_free(&printed);
    }
    arena_destroy(memory);
    return 0;
}
