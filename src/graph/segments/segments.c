// SPDX-License-Identifier: Apache-2.0
//
// Cuts a prepared graph into its segments (partition.c) and finds what crosses the cuts. A
// host segment receives a view that the card made as a result of the card segment; views of graph
// inputs and of its own results it makes itself, with the caller's nodes.
#include "graph/segments/segments.h"

#include <stdlib.h>
#include <string.h>

#include "graph/aten.h"
#include "graph/segments/partition.h"
#include "graph/segments/segment_split.h"
#include "graph/segments/segment_graph.h"

typedef struct {
    const spyre_graph *graph;
    graph_segments segments;
    segment_draft *drafts; // by segment
    uint32_t draft_count;
    arena *memory;
    uint32_t *input_mark, *node_mark; // by value and by node: last segment that has it, plus one
    uint32_t *input_of;               // by value: its graph input, or SPYRE_NO_ID
    bool *is_output;                  // by value: an output of the segment that makes it
    uint32_t *update_of; // by value: the output that replaces it in its segment, or SPYRE_NO_ID
} partitioner;

static uint32_t segment_of_value(const partitioner *p, uint32_t base)
{
    uint32_t node = p->graph->values.items[base].node;
    return node == SPYRE_NO_ID ? SPYRE_NO_ID : p->segments.segment_of[node];
}

static bool is_card(const partitioner *p, uint32_t segment)
{
    return segment != SPYRE_NO_ID && p->drafts[segment].kind == SPYRE_SEGMENT_CARD;
}

static spyre_status add_node(partitioner *p, uint32_t segment, uint32_t node)
{
    if (p->node_mark[node] == segment + 1) return NULL;
    p->node_mark[node] = segment + 1;
    return VEC_PUSH(p->memory, &p->drafts[segment].nodes, node);
}

static spyre_status add_input(partitioner *p, uint32_t segment, uint32_t value)
{
    if (p->input_mark[value] == segment + 1) return NULL;
    p->input_mark[value] = segment + 1;
    return VEC_PUSH(p->memory, &p->drafts[segment].inputs, value);
}

static spyre_status add_output(partitioner *p, uint32_t segment, uint32_t value)
{
    if (p->is_output[value]) return NULL;
    p->is_output[value] = true;
    return VEC_PUSH(p->memory, &p->drafts[segment].outputs, value);
}

// The views from `value` down to its base become nodes of the segment.
static spyre_status add_views(partitioner *p, uint32_t segment, uint32_t value)
{
    for (;;) {
        uint32_t node = p->graph->values.items[value].node;
        if (node == SPYRE_NO_ID) return NULL;
        if (p->graph->nodes.items[node].layer != GRAPH_LAYER_VIEW) return NULL;
        if (p->node_mark[node] == segment + 1) return NULL; // and so are those below
        TRY(add_node(p, segment, node));
        value = p->graph->nodes.items[node].args[0].of.value;
    }
}

// Makes the storage of a base value present in a segment.
static spyre_status need_base(partitioner *p, uint32_t segment, uint32_t base)
{
    uint32_t from = segment_of_value(p, base), node = p->graph->values.items[base].node;
    if (from == segment) return NULL;
    if (node != SPYRE_NO_ID && from == SPYRE_NO_ID) return add_node(p, segment, node);
    if (from != SPYRE_NO_ID) TRY(add_output(p, from, base));
    return add_input(p, segment, base);
}

static spyre_status need_value(partitioner *p, uint32_t segment, uint32_t value)
{
    uint32_t base = p->segments.base[value], from = segment_of_value(p, base);
    if (is_card(p, segment) || !is_card(p, from)) {
        TRY(add_views(p, segment, value));
        return need_base(p, segment, base);
    }
    TRY(add_output(p, from, value));
    return add_input(p, segment, value);
}

// Outputs that view a graph input are made by the first card segment, else by the first there is.
static uint32_t segment_for_views(const partitioner *p)
{
    for (uint32_t s = 0; s < p->draft_count; s++) {
        if (p->drafts[s].kind == SPYRE_SEGMENT_CARD) return s;
    }
    return 0;
}

static bool views_an_input(const partitioner *p, uint32_t value)
{
    uint32_t base = p->segments.base[value];
    return base != value && p->graph->values.items[base].node == SPYRE_NO_ID;
}

static bool needs_segment_for_views(const partitioner *p)
{
    for (uint32_t i = 0; i < p->graph->outputs.count; i++) {
        if (views_an_input(p, p->graph->outputs.items[i])) return true;
    }
    return false;
}

static spyre_status collect_nodes(partitioner *p)
{
    for (uint32_t i = 0; i < p->graph->nodes.count; i++) {
        uint32_t segment = p->segments.segment_of[i];
        if (segment == SPYRE_NO_ID) continue;
        TRY(VEC_PUSH(p->memory, &p->drafts[segment].own, i));
    }
    return NULL;
}

// Everything that graph outputs ask of a segment. Marks are by segment, so it goes with its nodes.
static spyre_status collect_segment(partitioner *p, uint32_t segment)
{
    for (uint32_t i = 0; i < p->drafts[segment].own.count; i++) {
        uint32_t node = p->drafts[segment].own.items[i];
        const graph_node *n = &p->graph->nodes.items[node];
        for (uint32_t k = 0; k < n->read_count; k++) TRY(need_value(p, segment, n->reads[k]));
        TRY(add_node(p, segment, node));
    }
    for (uint32_t i = 0; i < p->graph->outputs.count; i++) {
        uint32_t value = p->graph->outputs.items[i], base = p->segments.base[value];
        bool is_view = views_an_input(p, value);
        uint32_t from = is_view ? segment_for_views(p) : segment_of_value(p, base);
        if (from != segment) continue;
        TRY(add_views(p, segment, value));
        TRY(need_base(p, segment, base));
        TRY(add_output(p, segment, value));
    }
    return NULL;
}

// Views that leave a card segment for the host are known only after the host segment was looked at.
static spyre_status collect_output_views(partitioner *p, uint32_t segment)
{
    segment_draft *draft = &p->drafts[segment];
    for (uint32_t i = 0; i < draft->nodes.count; i++) {
        p->node_mark[draft->nodes.items[i]] = segment + 1;
    }
    for (uint32_t i = 0; i < draft->outputs.count; i++) {
        TRY(add_views(p, segment, draft->outputs.items[i]));
    }
    return NULL;
}

static bool has_input(const segment_draft *draft, uint32_t value)
{
    for (uint32_t i = 0; i < draft->inputs.count; i++)
        if (draft->inputs.items[i] == value) return true;
    return false;
}

// Whether a node after segment `from` reads the old contents of an input.
static bool is_needed_later(const partitioner *p, uint32_t value, uint32_t from)
{
    for (uint32_t s = from + 1; s < p->draft_count; s++)
        if (has_input(&p->drafts[s], value)) return true;
    for (uint32_t i = 0; i < p->graph->outputs.count; i++)
        if (p->segments.base[p->graph->outputs.items[i]] == value) return true;
    return false;
}

// An input that is replaced is one of the segment that makes its new contents.
static spyre_status collect_updates(partitioner *p)
{
    for (uint32_t v = 0; v < p->graph->values.count; v++) p->update_of[v] = SPYRE_NO_ID;
    for (uint32_t i = 0; i < p->graph->inputs.count; i++) {
        const graph_input *input = &p->graph->inputs.items[i];
        if (!input->update || !p->graph->values.items[input->value].on_card) continue;
        uint32_t value = p->graph->outputs.items[input->update - 1];
        uint32_t from = segment_of_value(p, p->segments.base[value]);
        if (!is_card(p, from) || is_needed_later(p, input->value, from)) continue;
        if (!has_input(&p->drafts[from], input->value))
            TRY(VEC_PUSH(p->memory, &p->drafts[from].inputs, input->value));
        p->update_of[input->value] = value;
    }
    return NULL;
}

static int compare_ids(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static spyre_status make_drafts(partitioner *p)
{
    uint32_t count = p->segments.segment_count;
    bool adds_one = count == 0 && needs_segment_for_views(p);
    p->draft_count = count + (adds_one ? 1 : 0);
    TRY_NEW(p->memory, p->drafts, p->draft_count);
    for (uint32_t s = 0; s < p->draft_count; s++) {
        p->drafts[s].kind = s < count ? p->segments.kinds[s] : SPYRE_SEGMENT_HOST;
    }
    TRY(collect_nodes(p));
    for (uint32_t s = 0; s < p->draft_count; s++) TRY(collect_segment(p, s));
    for (uint32_t s = 0; s < p->draft_count; s++) {
        TRY(collect_output_views(p, s));
        segment_draft *draft = &p->drafts[s];
        if (draft->nodes.count) {
            qsort(draft->nodes.items, draft->nodes.count, sizeof draft->nodes.items[0],
                  compare_ids);
        }
    }
    return collect_updates(p);
}

spyre_status graph_make_segments(const spyre_graph *prepared, bool fused, uint32_t most_tensors,
                                 arena *memory, graph_segment **out_segments,
                                 uint32_t *out_count)
{
    partitioner p = {.graph = prepared, .memory = memory};
    TRY(graph_partition(prepared, memory, &p.segments));
    if (!fused || most_tensors)
        TRY(graph_split_segments(prepared, fused ? most_tensors : 0, memory, &p.segments));
    TRY_NEW(memory, p.input_mark, prepared->values.count);
    TRY_NEW(memory, p.node_mark, prepared->nodes.count);
    TRY_NEW(memory, p.is_output, prepared->values.count);
    TRY_NEW(memory, p.input_of, prepared->values.count);
    TRY_NEW(memory, p.update_of, prepared->values.count);
    for (uint32_t i = 0; i < prepared->values.count; i++) p.input_of[i] = SPYRE_NO_ID;
    for (uint32_t i = 0; i < prepared->inputs.count; i++) {
        p.input_of[prepared->inputs.items[i].value] = i;
    }
    TRY(make_drafts(&p));
    graph_segment *segments = ARENA_NEW(memory, graph_segment, p.draft_count);
    TRY_ALLOC(segments);
    for (uint32_t s = 0; s < p.draft_count; s++) {
        TRY(status_at(segment_build(prepared, p.input_of, p.update_of, &p.drafts[s], memory,
                                    &segments[s]),
                      "segment %u", s));
    }
    *out_segments = segments;
    *out_count = p.draft_count;
    return NULL;
}

static const char *layer_name(graph_layer layer)
{
    switch (layer) {
    case GRAPH_LAYER_NATIVE: return "native";
    case GRAPH_LAYER_DECOMPOSITION: return "decomposition";
    case GRAPH_LAYER_VIEW: return "view";
    case GRAPH_LAYER_HOST: return "host";
    }
    return "?";
}

spyre_status graph_report(const graph_fate *fates, uint32_t count, text *out)
{
    for (uint32_t i = 0; i < count; i++) {
        const graph_fate *fate = &fates[i];
        text_printf(out, "node %u %s", i, fate->op_name);
        if (strcmp(fate->location, "unknown") != 0) text_printf(out, " (%s)", fate->location);
        text_printf(out, ": %s", fate->removed ? "removed" : layer_name(fate->layer));
        if (fate->reason) text_printf(out, ", %s", fate->reason);
        if (fate->beyond) text_printf(out, "; not published: %s", fate->beyond);
        text_append(out, "\n");
    }
    return text_status(out);
}
