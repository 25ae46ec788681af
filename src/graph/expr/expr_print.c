// SPDX-License-Identifier: Apache-2.0
//
// Expressions to text; expr_parse.c reads it.
#include "graph/expr/expr_node.h"

// A term without the parentheses of its own; `coefficient` is written when it is not 1.
static void print_term(const expr_table *table, expr_id base, int64_t coefficient, text *out)
{
    const expr_id *factors;
    uint32_t count = expr_factors(table, &base, &factors);
    if (coefficient != 1) text_printf(out, "%lld*", (long long)coefficient);
    for (uint32_t i = 0; i < count; i++) {
        if (i) text_append(out, "*");
        expr_print(table, factors[i], out);
    }
}

static void print_sum(const expr_table *table, const expr_node *node, text *out)
{
    for (uint32_t i = 0; i < node->count; i++) {
        int64_t coefficient = node->coefficients[i];
        bool minus = i > 0 && coefficient < 0 && coefficient != INT64_MIN;
        if (i) text_append(out, minus ? " - " : " + ");
        print_term(table, node->operands[i], minus ? -coefficient : coefficient, out);
    }
    if (node->value == 0) return;
    bool minus = node->value < 0 && node->value != INT64_MIN;
    text_append(out, minus ? " - " : " + ");
    text_printf(out, "%lld", (long long)(minus ? -node->value : node->value));
}

static void print_pair(const expr_table *table, const expr_node *node, const char *between,
                       text *out)
{
    expr_print(table, node->operands[0], out);
    text_append(out, between);
    expr_print(table, node->operands[1], out);
    text_append(out, ")");
}

void expr_print(const expr_table *table, expr_id e, text *out)
{
    if (e >= table->nodes.count) {
        text_append(out, "?");
        return;
    }
    const expr_node *node = &table->nodes.items[e];
    switch (node->kind) {
    case KIND_CONSTANT: text_printf(out, "%lld", (long long)node->value); return;
    case KIND_SYMBOL: text_append(out, table->symbols.items[node->value].name); return;
    case KIND_CEILDIV: text_append(out, "ceildiv("); break;
    case KIND_FLOORDIV:
    case KIND_MOD:
    case KIND_PRODUCT:
    case KIND_SUM: text_append(out, "("); break;
    }
    switch (node->kind) {
    case KIND_CONSTANT:
    case KIND_SYMBOL: return;
    case KIND_FLOORDIV: print_pair(table, node, " // ", out); return;
    case KIND_CEILDIV: print_pair(table, node, ", ", out); return;
    case KIND_MOD: print_pair(table, node, " % ", out); return;
    case KIND_PRODUCT: print_term(table, e, 1, out); break;
    case KIND_SUM: print_sum(table, node, out); break;
    }
    text_append(out, ")");
}
