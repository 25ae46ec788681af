// SPDX-License-Identifier: Apache-2.0
//
// From the caller's graph to natives, views and nodes of the host: each node that something needs
// is rewritten in turn; when that is impossible it stays as it is, for the host, with the reason.
//
// Ids of the caller's values stay, so that a host segment can be run by the caller as it stands;
// the values that decompositions add follow behind them.
#include <string.h>

#include "graph/effect.h"
#include "graph/segments/segments.h"
#include "graph/pattern/pattern.h"
#include "graph/text/print.h"
#include "graph/promote.h"
#include "graph/rewrite/rewrite.h"
#include "graph/verify.h"

static const rewrite_handler HANDLERS[ATEN_COUNT] = {
#define ATEN_REWRITE(id, name, handler, opfunc, doc) [ATEN_##id] = rewrite_##handler,
#include "graph/aten.def"
};

static spyre_status copy_view(spyre_graph *to, const spyre_graph *from, const graph_view *view,
                              graph_view *out)
{
    *out = (graph_view){.rank = view->rank};
    out->offset = expr_copy(to->exprs, from->exprs, view->offset);
    bool failed = out->offset == EXPR_NONE;
    for (uint32_t i = 0; i < view->rank; i++) {
        out->size[i] = expr_copy(to->exprs, from->exprs, view->size[i]);
        out->stride[i] = expr_copy(to->exprs, from->exprs, view->stride[i]);
        failed |= out->size[i] == EXPR_NONE || out->stride[i] == EXPR_NONE;
    }
    return failed ? status_no_memory() : NULL;
}

// Values, inputs, locations; no nodes.
static spyre_status copy_shell(const spyre_graph *source, spyre_graph *target)
{
    for (uint32_t i = 1; i < source->locations.count; i++) {
        uint32_t same;
        TRY(graph_add_location(target, source->locations.items[i], &same));
    }
    for (uint32_t i = 0; i < expr_symbol_count(source->exprs); i++) {
        const expr_symbol_info *s = expr_symbol_at(source->exprs, i);
        expr_id symbol = expr_symbol(target->exprs, s->name, s->least, s->most, s->granularity);
        if (symbol == EXPR_NONE) return status_no_memory();
    }
    for (uint32_t i = 0; i < source->values.count; i++) {
        const graph_value *value = &source->values.items[i];
        graph_type type = {.dtype = value->dtype, .on_card = value->on_card};
        uint32_t same;
        TRY(copy_view(target, source, &value->view, &type.view));
        TRY(graph_add_value(target, value->name, &type, &same));
    }
    for (uint32_t i = 0; i < source->inputs.count; i++) {
        graph_input input = source->inputs.items[i];
        TRY(copy_view(target, source, &source->inputs.items[i].storage, &input.storage));
        TRY(VEC_PUSH(target->memory, &target->inputs, input));
    }
    target->caller_node_count = source->nodes.count;
    return NULL;
}

// Adds the node in work unchanged.
static spyre_status keep_node(rewriter *r, uint32_t *out_node)
{
    graph_new_node node = {.op_name = r->from->op_name,
                           .args = r->from->args,
                           .arg_count = r->from->arg_count,
                           .results = r->from->results,
                           .result_count = r->from->result_count,
                           .location = r->from->location,
                           .hint = r->from->hint,
                           .origin = r->from->origin};
    return graph_add_node(r->target, &node, out_node);
}

static spyre_status keep_native(rewriter *r)
{
    uint32_t node;
    for (uint32_t i = 0; i < r->from->read_count; i++) {
        tensor ignored;
        TRY(status_at(rewrite_value(r, r->from->reads[i], &ignored), "operand %u", i));
    }
    TRY(keep_node(r, &node));
    return native_check(r->target, node);
}

// A part of a split without elements, which only the host reads.
static bool is_empty_part(const rewriter *r, uint32_t index)
{
    spyre_view view;
    const graph_value *value = &r->source->values.items[r->from->results[index]];
    spyre_status status = graph_view_constant(r->source, &value->view, &view);
    bool is_empty = !status && r->from->result_count > 1 && view_element_count(&view) == 0;
    spyre_status_free(status);
    return is_empty;
}

static spyre_status keep_view(rewriter *r)
{
    tensor ignored;
    uint32_t node;
    TRY(rewrite_tensor(r, 0, &ignored));
    for (uint32_t i = 0; i < r->from->result_count; i++)
        if (!is_empty_part(r, i)) TRY(rewrite_result(r, i, &ignored));
    return keep_node(r, &node);
}

// Takes back what a handler emitted before it gave up.
static void take_back(rewriter *r, uint32_t nodes, uint32_t values)
{
    r->target->nodes.count = nodes;
    r->target->values.count = values;
    uint32_t kept = 0;
    while (kept < r->constants.count && r->constants.items[kept].made.value < values) kept++;
    r->constants.count = kept;
    kept = 0;
    while (kept < r->causal_masks.count && r->causal_masks.items[kept].value < values) kept++;
    r->causal_masks.count = kept;
}

// On-card results of the host that are not dense from element 0, or parts of what they are views
// of: no card segment can take them.
static spyre_status mark_loose(rewriter *r)
{
    for (uint32_t i = 0; i < r->from->result_count; i++) {
        uint32_t id = r->from->results[i];
        spyre_view view;
        spyre_status status =
            graph_view_constant(r->target, &r->target->values.items[id].view, &view);
        r->loose[id] = status || !view_is_dense(&view) || r->from->layer == GRAPH_LAYER_VIEW;
        if (spyre_status_code(status) != SPYRE_UNSUPPORTED) TRY(status);
        spyre_status_free(status);
    }
    return NULL;
}

static spyre_status give_to_host(rewriter *r, const char *reason)
{
    uint32_t node;
    TRY(keep_node(r, &node));
    graph_node *kept = &r->target->nodes.items[node];
    kept->layer = GRAPH_LAYER_HOST;
    kept->reason = arena_strdup(r->target->memory, reason);
    TRY_ALLOC(kept->reason);
    return mark_loose(r);
}

const char GRAPH_GATHERED[] = "gathered";

static spyre_status try_card(rewriter *r, const char *const *host_reasons)
{
    const char *reason = host_reasons ? host_reasons[r->node] : NULL;
    r->change_operand = reason == GRAPH_GATHERED ? rewrite_gather_across : NULL;
    if (reason && !r->change_operand) return status_new(SPYRE_UNSUPPORTED, "%s", reason);
    switch (r->from->layer) {
    case GRAPH_LAYER_NATIVE: return keep_native(r);
    case GRAPH_LAYER_VIEW: return keep_view(r);
    case GRAPH_LAYER_DECOMPOSITION:
        return rewrite_is_unary(r) ? rewrite_unary(r) : HANDLERS[r->from->op](r);
    case GRAPH_LAYER_HOST: break;
    }
    return status_new(SPYRE_UNSUPPORTED, "%s", r->from->reason ? r->from->reason : "");
}

// The same; once more in 32 bits where that has no form for integers of 8 or 16.
static spyre_status try_widths(rewriter *r, const char *const *host_reasons)
{
    uint32_t nodes = r->target->nodes.count, values = r->target->values.count;
    spyre_status status = try_card(r, host_reasons);
    bool again = spyre_status_code(status) == SPYRE_UNSUPPORTED && rewrite_has_narrow(r) &&
                 r->from->layer == GRAPH_LAYER_DECOMPOSITION;
    if (!again) return status;
    spyre_status_free(status);
    take_back(r, nodes, values);
    r->widens = true;
    r->common = promote_all(r);
    r->wide_results.count = 0;
    status = try_card(r, host_reasons);
    if (!status) status = rewrite_narrow_results(r);
    r->widens = false;
    return status;
}

// The layer that took the node, for the report: what it became from node `first` on.
static graph_layer layer_taken(const spyre_graph *target, uint32_t first)
{
    uint32_t natives = 0;
    for (uint32_t i = first; i < target->nodes.count; i++) {
        const graph_node *node = &target->nodes.items[i];
        if (node->layer == GRAPH_LAYER_HOST) return GRAPH_LAYER_HOST;
        bool is_constant = node->op == ATEN_SPYRE_CONSTANT && i + 1 < target->nodes.count;
        natives += node->layer == GRAPH_LAYER_NATIVE && !is_constant;
    }
    if (natives == 0) return GRAPH_LAYER_VIEW;
    return natives == 1 ? GRAPH_LAYER_NATIVE : GRAPH_LAYER_DECOMPOSITION;
}

// Whether a list "a, b" has the name, not only one that begins with it.
static bool lists(const char *names, const char *name)
{
    for (const char *at = names; (at = strstr(at, name)) != NULL; at++)
        if (at[strlen(name)] == ',' || at[strlen(name)] == '\0') return true;
    return false;
}

// Appends "own erf" or "extended batchmatmul of float32", once.
static void name_beyond(const rewriter *r, const graph_node *node, text *out)
{
    const aten_row *row = aten_describe((aten_op)node->op);
    bool multiplies = row->kind == ATEN_KIND_MATMUL;    // 16 bits may give float32
    uint32_t value = multiplies ? node->args[0].of.value : node->results[0];
    spyre_dtype dtype = r->target->values.items[value].dtype;
    bool is_own = row->opfunc != OPFUNC_NONE && !opfunc_is_published(row->opfunc);
    bool is_extended = row->result == ATEN_RESULT_SAME &&
                       !aten_takes((aten_op)node->op, dtype, false);
    if (!is_own && !is_extended) return;
    const char *name = opfunc_describe(row->opfunc)->name, *of = spyre_dtype_name(dtype);
    text line = {0};
    if (is_extended) text_printf(&line, "extended %s of %s", name, of);
    else text_printf(&line, "own %s", name);
    if (!lists(text_string(out), text_string(&line)))
        text_printf(out, "%s%s", *text_string(out) ? ", " : "", text_string(&line));
    text_free(&line);
}

// What the nodes from `first` on need that no real card has.
static spyre_status note_beyond(const rewriter *r, uint32_t first, graph_fate *fate)
{
    text names = {0};
    for (uint32_t i = first; i < r->target->nodes.count; i++) {
        const graph_node *node = &r->target->nodes.items[i];
        if (node->layer == GRAPH_LAYER_NATIVE) name_beyond(r, node, &names);
    }
    spyre_status status = text_status(&names);
    if (!status && *text_string(&names)) {
        fate->beyond = arena_strdup(r->target->memory, text_string(&names));
        if (!fate->beyond) status = status_no_memory();
    }
    text_free(&names);
    return status;
}

// The message without the place that argument getters put in front.
static const char *bare_message(const rewriter *r, spyre_status status)
{
    const char *message = spyre_status_message(status);
    const char *place = graph_node_place(r->source, r->node);
    size_t length = strlen(place);
    bool has_place = strncmp(message, place, length) == 0 && message[length] == ':';
    return has_place ? message + length + 2 : message;
}

static spyre_status place_error(const rewriter *r, spyre_status status)
{
    if (bare_message(r, status) != spyre_status_message(status)) return status;
    return status_at(status, "%s", graph_node_place(r->source, r->node));
}

// A handler makes the results it knows of; a node may claim more.
static spyre_status check_results(const rewriter *r, uint32_t first_node)
{
    for (uint32_t i = 0; i < r->from->result_count; i++) {
        uint32_t value = r->from->results[i], node = r->target->values.items[value].node;
        bool made = node != SPYRE_NO_ID && node >= first_node;
        if (made || r->uses[value] == 0) continue;
        return status_new(SPYRE_UNSUPPORTED, "result %u is used", i);
    }
    return NULL;
}

static spyre_status prepare_node(rewriter *r, const char *const *host_reasons)
{
    uint32_t nodes = r->target->nodes.count, values = r->target->values.count;
    graph_fate *fate = &r->target->fates.items[r->node];
    r->from = &r->source->nodes.items[r->node];
    r->serial = 0;
    spyre_status status = try_widths(r, host_reasons);
    if (!status) status = check_results(r, nodes);
    if (status) {
        if (spyre_status_code(status) != SPYRE_UNSUPPORTED || !r->rules.host_fallback) {
            return place_error(r, status);
        }
        take_back(r, nodes, values);
        spyre_status kept = give_to_host(r, bare_message(r, status));
        spyre_status_free(status);
        TRY(kept);
        fate->reason = r->target->nodes.items[nodes].reason;
    }
    fate->layer = layer_taken(r->target, nodes);
    return note_beyond(r, nodes, fate);
}

static spyre_status prepare_nodes(rewriter *r, const bool *needed,
                                  const char *const *host_reasons)
{
    for (r->node = 0; r->node < r->source->nodes.count; r->node++) {
        const graph_node *node = &r->source->nodes.items[r->node];
        graph_fate fate = {.removed = !needed[r->node]};
        fate.op_name = arena_strdup(r->target->memory, node->op_name);
        fate.location = r->target->locations.items[node->location];
        TRY_ALLOC(fate.op_name);
        TRY(VEC_PUSH(r->target->memory, &r->target->fates, fate));
        if (needed[r->node]) TRY(prepare_node(r, host_reasons));
    }
    return NULL;
}

// "silu as aten.silu.default(%x)"
static const char *composition_note(arena *memory, const pattern_result *found, uint32_t root)
{
    text call = {0};
    graph_print_call(&found->graph, &found->graph.nodes.items[root], &call);
    char *note = arena_printf(memory, "%s" GRAPH_COMPOSITION "%s", found->name[root],
                              text_string(&call));
    if (call.failed) note = NULL;
    text_free(&call);
    return note;
}

// "part of node 7" for a node inside a composition, what it became for its root.
static spyre_status note_patterns(spyre_graph *prepared, const spyre_graph *graph,
                                  const pattern_result *found)
{
    for (uint32_t i = 0; i < prepared->fates.count; i++) {
        graph_fate *fate = &prepared->fates.items[i];
        uint32_t root = found->root[i];
        if (root == SPYRE_NO_ID || fate->reason) continue;
        if (root == i)
            fate->reason = composition_note(prepared->memory, found, i);
        else
            fate->reason = arena_printf(prepared->memory, "part of node %u", root);
        fate->op_name = arena_strdup(prepared->memory, graph->nodes.items[i].op_name);
        TRY_ALLOC(fate->reason);
        TRY_ALLOC(fate->op_name);
    }
    return NULL;
}

// Removes nodes that nothing needs and closes the gaps in node ids.
static spyre_status remove_unneeded(spyre_graph *graph)
{
    bool *nodes = ARENA_NEW(graph->memory, bool, graph->nodes.count);
    uint32_t *uses = ARENA_NEW(graph->memory, uint32_t, graph->values.count);
    TRY_ALLOC(nodes);
    TRY_ALLOC(uses);
    graph_find_needed(graph, nodes, uses);
    for (uint32_t i = 0; i < graph->values.count; i++) graph->values.items[i].node = SPYRE_NO_ID;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < graph->nodes.count; i++) {
        const graph_node node = graph->nodes.items[i];
        if (!nodes[i]) continue;
        for (uint32_t k = 0; k < node.result_count; k++) {
            graph->values.items[node.results[k]].node = kept;
        }
        graph->nodes.items[kept++] = node;
    }
    graph->nodes.count = kept;
    return NULL;
}

static spyre_status count_part_writes(const spyre_graph *graph, const bool *needed, arena *memory,
                                      const uint32_t **out)
{
    uint32_t *counts = ARENA_NEW(memory, uint32_t, graph->values.count);
    TRY_ALLOC(counts);
    for (uint32_t i = 0; i < graph->nodes.count; i++) {
        const graph_node *node = &graph->nodes.items[i];
        bool writes = node->op == ATEN_SLICE_SCATTER || node->op == ATEN_SELECT_SCATTER;
        if (needed[i] && writes && node->args[0].kind == SPYRE_ARG_VALUE)
            counts[node->args[0].of.value]++;
    }
    *out = counts;
    return NULL;
}

static spyre_status prepare_found(const pattern_result *found, graph_rules rules,
                                  const char *const *host_reasons, arena *memory,
                                  spyre_graph **out_graph)
{
    const spyre_graph *graph = &found->graph;
    rewriter r = {.source = graph, .target = graph_create(memory), .rules = rules};
    TRY_ALLOC(r.target);
    r.target->extended = rules.extended;
    bool *needed = ARENA_NEW(memory, bool, graph->nodes.count);
    uint32_t *uses = ARENA_NEW(memory, uint32_t, graph->values.count);
    TRY_NEW(memory, r.loose, graph->values.count);
    r.uses = uses;
    TRY_ALLOC(needed);
    TRY_ALLOC(uses);
    graph_find_needed(graph, needed, uses);
    TRY(count_part_writes(graph, needed, memory, &r.part_writes));
    TRY(copy_shell(graph, r.target));
    TRY(prepare_nodes(&r, needed, host_reasons));
    for (uint32_t i = 0; i < graph->outputs.count; i++) {
        TRY(VEC_PUSH(memory, &r.target->outputs, graph->outputs.items[i]));
    }
    TRY(remove_unneeded(r.target));
    *out_graph = r.target;
    return NULL;
}

// The host runs nodes as the caller knows them: a composition that ends there is blocked. Without a
// host (`status` is UNSUPPORTED then) all are.
static bool block_roots_on_host(const spyre_graph *prepared, const pattern_result *found,
                                bool *blocked)
{
    bool any = false;
    for (uint32_t i = 0; i < found->graph.nodes.count; i++) {
        if (found->root[i] != i) continue;
        const graph_fate *fate = prepared ? &prepared->fates.items[i] : NULL;
        if (fate && (fate->removed || fate->layer != GRAPH_LAYER_HOST)) continue;
        blocked[i] = any = true;
    }
    return any;
}

spyre_status graph_prepare(const spyre_graph *graph, graph_rules rules,
                           const char *const *host_reasons, arena *memory, spyre_graph **out_graph)
{
    TRY(graph_verify(graph));
    pattern_result found;
    bool *blocked = ARENA_NEW(memory, bool, graph->nodes.count);
    TRY_ALLOC(blocked);
    for (uint32_t i = 0; host_reasons && i < graph->nodes.count; i++) blocked[i] = host_reasons[i];
    for (;;) {
        TRY(pattern_apply(graph, blocked, memory, &found));
        spyre_status status = prepare_found(&found, rules, host_reasons, memory, out_graph);
        bool unsupported = spyre_status_code(status) == SPYRE_UNSUPPORTED;
        if (status && !unsupported) return status;
        if (!block_roots_on_host(unsupported ? NULL : *out_graph, &found, blocked))
            return status ? status : note_patterns(*out_graph, graph, &found);
        spyre_status_free(status);
    }
}
