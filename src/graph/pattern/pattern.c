// SPDX-License-Identifier: Apache-2.0
//
// Matching goes from a root backwards through producers. Names are bound as they are met; a choice
// of operand order is undone by restoring the bindings.
#include "graph/pattern/pattern.h"

#include <math.h>
#include <string.h>

#include "graph/aten.h"
#include "graph/build.h"

typedef struct {
    const spyre_graph *graph;
    const pattern *pattern;
    uint32_t value[PATTERN_MOST_NAMES];      // by name: a value, or SPYRE_NO_ID
    const spyre_arg *number[PATTERN_MOST_NAMES];
    uint32_t node[PATTERN_MOST_NODES];       // by line: the node, or SPYRE_NO_ID
} match;

// --- Arguments

static bool is_number(const spyre_arg *arg)
{
    return arg->kind == SPYRE_ARG_INT || arg->kind == SPYRE_ARG_FLOAT;
}

static double number_of(const spyre_arg *arg)
{
    return arg->kind == SPYRE_ARG_INT ? (double)arg->of.integer : arg->of.real;
}

// Numbers of users are as long as they care to write them: 0.7978845608 or 0.79788456.
static bool same_number(const spyre_arg *a, const spyre_arg *b)
{
    double x = number_of(a), y = number_of(b);
    return fabs(x - y) <= 1e-6 * fabs(y);
}

static bool same_literal(const spyre_arg *arg, const spyre_arg *literal)
{
    if (is_number(arg) && is_number(literal)) return same_number(arg, literal);
    if (arg->kind != literal->kind) return false;
    switch (literal->kind) {
    case SPYRE_ARG_NONE: return true;
    case SPYRE_ARG_BOOL: return arg->of.boolean == literal->of.boolean;
    case SPYRE_ARG_DTYPE: return arg->of.dtype == literal->of.dtype;
    case SPYRE_ARG_STRING: return strcmp(arg->of.string, literal->of.string) == 0;
    case SPYRE_ARG_LIST:
        return arg->of.list.count == 1 && is_number(&arg->of.list.items[0]) &&
               same_number(&arg->of.list.items[0], &literal->of.list.items[0]);
    case SPYRE_ARG_VALUE:
    case SPYRE_ARG_INT:
    case SPYRE_ARG_FLOAT:
    case SPYRE_ARG_SCALAR: break;
    }
    return false;
}

// --- Nodes

static bool match_node(match *m, uint32_t line, uint32_t node);

static uint32_t line_of(const pattern *p, uint32_t name)
{
    for (uint32_t i = 0; i < p->node_count; i++)
        if (p->nodes[i].result == name) return i;
    return SPYRE_NO_ID;
}

static bool match_tensor(match *m, uint32_t name, uint32_t value)
{
    if (m->value[name] != SPYRE_NO_ID) return m->value[name] == value;
    m->value[name] = value;
    uint32_t line = line_of(m->pattern, name);
    if (line == SPYRE_NO_ID) return true;
    uint32_t producer = m->graph->values.items[value].node;
    return producer != SPYRE_NO_ID && match_node(m, line, producer);
}

static bool match_number(match *m, uint32_t name, const spyre_arg *arg)
{
    if (!is_number(arg)) return false;
    if (m->number[name]) return number_of(m->number[name]) == number_of(arg);
    m->number[name] = arg;
    return true;
}

static bool match_pair(match *m, const pattern_arg *wanted, const spyre_arg *arg)
{
    const spyre_arg *items = arg->of.list.items;
    return arg->kind == SPYRE_ARG_LIST && arg->of.list.count == 2 &&
           items[0].kind == SPYRE_ARG_VALUE && items[1].kind == SPYRE_ARG_VALUE &&
           match_tensor(m, wanted->name, items[0].of.value) &&
           match_tensor(m, wanted->second, items[1].of.value);
}

static bool match_arg(match *m, const pattern_arg *wanted, const spyre_arg *arg)
{
    switch (wanted->kind) {
    case PATTERN_ANY: return true;
    case PATTERN_TENSOR:
        return arg->kind == SPYRE_ARG_VALUE && match_tensor(m, wanted->name, arg->of.value);
    case PATTERN_NUMBER: return match_number(m, wanted->name, arg);
    case PATTERN_LITERAL: return same_literal(arg, &wanted->literal);
    case PATTERN_PAIR: return match_pair(m, wanted, arg);
    case PATTERN_LAST:
    case PATTERN_INVERSE: break; // of replacements only
    }
    return false;
}

static bool match_args(match *m, const pattern_call *call, const spyre_arg *args, bool swapped)
{
    for (uint32_t i = 0; i < call->arg_count; i++) {
        uint32_t from = swapped && i < 2 ? 1 - i : i;
        if (!match_arg(m, &call->args[i], &args[from])) return false;
    }
    return true;
}

static bool commutes(const char *op)
{
    return strcmp(op, "aten.add.Tensor") == 0 || strcmp(op, "aten.mul.Tensor") == 0;
}

// pow(x, 2) of a pattern also stands for x * x.
static bool match_square(match *m, const pattern_call *call, const graph_node *found)
{
    const pattern_arg *power = &call->args[1];
    bool is_square = strcmp(call->op, "aten.pow.Tensor_Scalar") == 0 &&
                     power->kind == PATTERN_LITERAL && is_number(&power->literal) &&
                     number_of(&power->literal) == 2;
    if (!is_square || strcmp(found->op_name, "aten.mul.Tensor") != 0) return false;
    return match_arg(m, &call->args[0], &found->args[0]) &&
           match_arg(m, &call->args[0], &found->args[1]);
}

static bool match_node(match *m, uint32_t line, uint32_t node)
{
    const pattern_call *call = &m->pattern->nodes[line];
    const graph_node *found = &m->graph->nodes.items[node];
    m->node[line] = node;
    const match before = *m;
    if (match_square(m, call, found)) return true;
    *m = before;
    if (strcmp(found->op_name, call->op) != 0 || found->arg_count != call->arg_count ||
        found->result_count != 1)
        return false;
    if (match_args(m, call, found->args, false)) return true;
    *m = before;
    return commutes(call->op) && match_args(m, call, found->args, true);
}

// --- Uses: how often a value is an argument or an output

static bool is_first_line_of_node(const match *m, uint32_t line)
{
    for (uint32_t i = 0; i < line; i++)
        if (m->node[i] == m->node[line]) return false;
    return true;
}

// Uses of `value` by the nodes of the match.
static uint32_t uses_inside(const match *m, uint32_t value)
{
    uint32_t uses = 0;
    for (uint32_t line = 0; line < m->pattern->node_count; line++) {
        if (!is_first_line_of_node(m, line)) continue;
        const graph_node *node = &m->graph->nodes.items[m->node[line]];
        for (uint32_t i = 0; i < node->read_count; i++) uses += node->reads[i] == value;
    }
    return uses;
}

static bool is_closed(const match *m, const uint32_t *uses)
{
    for (uint32_t line = 0; line + 1 < m->pattern->node_count; line++) {
        uint32_t value = m->graph->nodes.items[m->node[line]].results[0];
        if (uses[value] != uses_inside(m, value)) return false;
    }
    return true;
}

// --- Replacement

static spyre_status make_arg(const match *m, const pattern_arg *from, arena *memory,
                             spyre_arg *out)
{
    spyre_view view;
    switch (from->kind) {
    case PATTERN_TENSOR:
        *out = (spyre_arg){.kind = SPYRE_ARG_VALUE, .of.value = m->value[from->name]};
        break;
    case PATTERN_NUMBER:
        *out = *m->number[from->name];
        break;
    case PATTERN_INVERSE:
        out->kind = SPYRE_ARG_FLOAT;
        out->of.real = 1 / number_of(m->number[from->name]);
        break;
    case PATTERN_LAST:
        TRY(graph_view_constant(m->graph, &m->graph->values.items[m->value[from->name]].view,
                                &view));
        *out = (spyre_arg){.kind = SPYRE_ARG_INT, .of.integer = view.size[view.rank - 1]};
        break;
    case PATTERN_PAIR: // of nodes only
    case PATTERN_LITERAL:
    case PATTERN_ANY:
        *out = from->literal;
        break;
    }
    if (!from->listed) return NULL;
    spyre_arg *item = ARENA_NEW(memory, spyre_arg, 1);
    TRY_ALLOC(item);
    *item = *out;
    *out = (spyre_arg){.kind = SPYRE_ARG_LIST, .of.list = {item, 1}};
    return NULL;
}

static spyre_status replace(const match *m, arena *memory, pattern_result *result)
{
    const pattern_call *call = &m->pattern->becomes;
    uint32_t root = m->node[m->pattern->node_count - 1];
    spyre_arg *args = ARENA_NEW(memory, spyre_arg, call->arg_count);
    TRY_ALLOC(args);
    for (uint32_t i = 0; i < call->arg_count; i++)
        TRY(make_arg(m, &call->args[i], memory, &args[i]));
    aten_op op;
    if (!aten_named(call->op, &op))
        return status_new(SPYRE_INTERNAL, "pattern %s: no row for %s", m->pattern->name, call->op);
    graph_node *node = &result->graph.nodes.items[root];
    node->op = op;
    node->op_name = aten_describe(op)->name;
    node->layer = aten_describe(op)->layer;
    TRY(graph_set_args(memory, node, args, call->arg_count));
    for (uint32_t i = 0; i < m->pattern->node_count; i++) result->root[m->node[i]] = root;
    result->name[root] = m->pattern->name;
    return NULL;
}

// --- The pass

static bool try_pattern(match *m, uint32_t root, const uint32_t *uses, const uint32_t *taken)
{
    const pattern *p = m->pattern;
    memset(m->value, 0xff, sizeof m->value);
    memset(m->node, 0xff, sizeof m->node);
    memset(m->number, 0, sizeof m->number);
    m->value[p->nodes[p->node_count - 1].result] = m->graph->nodes.items[root].results[0];
    if (!match_node(m, p->node_count - 1, root) || !is_closed(m, uses)) return false;
    for (uint32_t i = 0; i < p->node_count; i++)
        if (taken[m->node[i]] != SPYRE_NO_ID) return false;
    for (uint32_t i = 0; i < p->condition_count; i++)
        if (!pattern_holds(m->graph, &p->conditions[i], m->value)) return false;
    return true;
}

static spyre_status begin(const spyre_graph *graph, arena *memory, pattern_result *out)
{
    uint32_t count = graph->nodes.count;
    out->graph = *graph;
    TRY_NEW(memory, out->graph.nodes.items, count);
    out->graph.nodes.capacity = count;
    TRY_NEW(memory, out->root, count);
    TRY_NEW(memory, out->name, count);
    if (count) memcpy(out->graph.nodes.items, graph->nodes.items, count * sizeof(graph_node));
    memset(out->root, 0xff, count * sizeof *out->root);
    return NULL;
}

static bool on_card(const spyre_graph *graph, uint32_t node)
{
    const graph_node *n = &graph->nodes.items[node];
    return n->result_count == 1 && graph->values.items[n->results[0]].on_card;
}

spyre_status pattern_apply(const spyre_graph *graph, const bool *blocked, arena *memory,
                           pattern_result *out_result)
{
    const pattern *patterns = NULL;
    uint32_t pattern_count = 0;
    TRY(begin(graph, memory, out_result));
    if (graph->nodes.count < 2) return NULL;
    TRY(status_at(pattern_table(&patterns, &pattern_count), "patterns"));
    uint32_t *uses = ARENA_NEW(memory, uint32_t, graph->values.count);
    TRY_ALLOC(uses);
    for (uint32_t i = 0; i < graph->nodes.count; i++) {
        const graph_node *node = &graph->nodes.items[i];
        for (uint32_t k = 0; k < node->read_count; k++) uses[node->reads[k]]++;
    }
    for (uint32_t i = 0; i < graph->outputs.count; i++) uses[graph->outputs.items[i]]++;
    for (uint32_t root = graph->nodes.count; root-- > 0;) {
        if (blocked[root] || !on_card(graph, root) || out_result->root[root] != SPYRE_NO_ID)
            continue;
        for (uint32_t i = 0; i < pattern_count; i++) {
            match m = {.graph = graph, .pattern = &patterns[i]};
            const pattern_call *last = &patterns[i].nodes[patterns[i].node_count - 1];
            if (strcmp(last->op, graph->nodes.items[root].op_name) != 0) continue;
            if (!try_pattern(&m, root, uses, out_result->root)) continue;
            TRY(replace(&m, memory, out_result));
            break;
        }
    }
    return NULL;
}
