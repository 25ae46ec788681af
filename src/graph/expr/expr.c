// SPDX-License-Identifier: Apache-2.0
//
// The table of expressions: an equal node is the same id.
#include "graph/expr/expr_node.h"

#include <string.h>

expr_table *expr_table_create(arena *memory)
{
    expr_table *table = ARENA_NEW(memory, expr_table, 1);
    if (!table) return NULL;
    table->memory = memory;
    return expr_constant(table, 1) == EXPR_UNIT ? table : NULL;
}

bool expr_short_of_memory(const expr_table *table)
{
    return table->no_memory;
}

static expr_id no_memory(expr_table *table, spyre_status status)
{
    spyre_status_free(status);
    table->no_memory = true;
    return EXPR_NONE;
}

static const void *copy_array(arena *memory, const void *items, uint32_t count, size_t item_bytes)
{
    void *copy = arena_alloc_array(memory, count, item_bytes);
    if (copy && count) memcpy(copy, items, count * item_bytes);
    return copy;
}

static uint32_t depth_of(const expr_table *table, const expr_node *node)
{
    uint32_t deepest = 0;
    for (uint32_t i = 0; i < node->count; i++) {
        uint32_t depth = table->nodes.items[node->operands[i]].depth;
        deepest = depth > deepest ? depth : deepest;
    }
    return deepest + 1;
}

expr_id expr_intern(expr_table *table, expr_node node)
{
    unsigned char key[sizeof(uint32_t) + sizeof(int64_t) + EXPR_MOST_TERMS * 12];
    uint32_t kind = node.kind, id;
    size_t length = 0, coefficient_bytes = node.coefficients ? node.count * sizeof(int64_t) : 0;
    memcpy(key, &kind, sizeof kind);
    length += sizeof kind;
    memcpy(key + length, &node.value, sizeof node.value);
    length += sizeof node.value;
    if (node.count) memcpy(key + length, node.operands, node.count * sizeof(expr_id));
    length += node.count * sizeof(expr_id);
    if (coefficient_bytes) memcpy(key + length, node.coefficients, coefficient_bytes);
    length += coefficient_bytes;
    if (map_bytes_get(&table->ids, key, length, &id)) return id;

    node.depth = depth_of(table, &node);
    if (node.depth > EXPR_DEEPEST) return EXPR_NONE;
    node.operands = copy_array(table->memory, node.operands, node.count, sizeof(expr_id));
    if (node.coefficients) {
        node.coefficients =
            copy_array(table->memory, node.coefficients, node.count, sizeof(int64_t));
    }
    if (!node.operands || (coefficient_bytes && !node.coefficients)) return no_memory(table, NULL);
    id = table->nodes.count;
    spyre_status status = VEC_PUSH(table->memory, &table->nodes, node);
    if (!status) status = map_bytes_put(table->memory, &table->ids, key, length, id);
    return status ? no_memory(table, status) : id;
}

expr_id expr_constant(expr_table *table, int64_t value)
{
    return expr_intern(table, (expr_node){.kind = KIND_CONSTANT, .value = value});
}

expr_id expr_symbol(expr_table *table, const char *name, int64_t least, int64_t most,
                    int64_t granularity)
{
    if (least > most || granularity < 1) return EXPR_NONE;
    for (uint32_t i = 0; i < table->symbols.count; i++) {
        const expr_symbol_info *s = &table->symbols.items[i];
        if (strcmp(s->name, name) != 0) continue;
        bool same = s->least == least && s->most == most && s->granularity == granularity;
        return same ? table->symbol_ids.items[i] : EXPR_NONE;
    }
    expr_symbol_info info = {arena_strdup(table->memory, name), least, most, granularity};
    if (!info.name) return no_memory(table, NULL);
    int64_t index = (int64_t)table->symbols.count;
    expr_id id = expr_intern(table, (expr_node){.kind = KIND_SYMBOL, .value = index});
    if (id == EXPR_NONE) return EXPR_NONE;
    spyre_status status = VEC_PUSH(table->memory, &table->symbols, info);
    if (!status) status = VEC_PUSH(table->memory, &table->symbol_ids, id);
    return status ? no_memory(table, status) : id;
}

uint32_t expr_symbol_count(const expr_table *table)
{
    return table->symbols.count;
}

const expr_symbol_info *expr_symbol_at(const expr_table *table, uint32_t index)
{
    return &table->symbols.items[index];
}

expr_id expr_find_symbol(const expr_table *table, const char *name)
{
    for (uint32_t i = 0; i < table->symbols.count; i++) {
        if (strcmp(table->symbols.items[i].name, name) == 0) return table->symbol_ids.items[i];
    }
    return EXPR_NONE;
}

bool expr_is_constant(const expr_table *table, expr_id e, int64_t *out_value)
{
    if (e >= table->nodes.count || table->nodes.items[e].kind != KIND_CONSTANT) return false;
    *out_value = table->nodes.items[e].value;
    return true;
}

uint32_t expr_factors(const expr_table *table, const expr_id *e, const expr_id **out_factors)
{
    const expr_node *node = &table->nodes.items[*e];
    bool product = node->kind == KIND_PRODUCT;
    *out_factors = product ? node->operands : e;
    return product ? node->count : 1;
}
