// SPDX-License-Identifier: Apache-2.0
//
// The JSON wrapper: what parses prints and parses again; every reader takes every value.
#include "base/json.h"
#include "fuzz/fuzz.h"

enum { DEEPEST = 12 };

static void read_values(const json_node *node)
{
    int64_t integer, coordinates[3];
    double real;
    bool boolean;
    const char *string;
    fuzz_ok(json_as_int(node, -5, 1000, &integer));
    fuzz_ok(json_as_number(node, INT64_MIN, INT64_MAX, &integer));
    fuzz_ok(json_as_real(node, &real));
    fuzz_ok(json_as_bool(node, &boolean));
    fuzz_ok(json_as_string(node, &string));
    fuzz_ok(json_expect_array_of(node, 2));
    if (!node->key) return;
    fuzz_ok(json_key_decimal(node, 0, 31, &integer));
    fuzz_ok(json_key_coordinates(node, 3, coordinates));
}

static void walk(const json_node *node, int depth)
{
    json_node inner;
    void *cursor = NULL;
    read_values(node);
    if (depth == DEEPEST) return;
    while (json_next_member(node, &cursor, &inner)) walk(&inner, depth + 1);
    for (size_t i = 0; i < json_count(node) && json_is_array(node->value); i++) {
        fuzz_must(json_item(node, i, &inner));
        walk(&inner, depth + 1);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    json_node root, again;
    if (!fuzz_ok(json_read_buffer("input", (const char *)bytes, count, &root))) return 0;
    text printed = {0};
    walk(&root, 0);
    fuzz_must(json_print(root.value, 0, &printed));
    fuzz_must(json_read_buffer("again", printed.bytes, printed.length, &again));
    FUZZ_HOLDS(json_equal(root.value, again.value));
    json_close(&root);
    json_close(&again);
    text_free(&printed);
    return 0;
}
