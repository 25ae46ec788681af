// SPDX-License-Identifier: Apache-2.0
//
// A node's level is the length of the longest chain of card-host changes that leads to it, so
// nodes of one level and kind are one segment and no schedule has fewer changes on that chain.
// Levels of one parity are the card's, those of the other the host's; both ways to start are tried
// and the one with fewer segments wins. The obvious shortcut, cutting the node list where the kind
// changes, cuts at every host node that merely stands between independent card nodes. Linear in
// nodes and args.
//
// What ranks exchange overlaps with the card's work, if there is any that does not need it:
//
//   %s = all_reduce(%x)      level 1, host
//   %p = mm(%y, %w)          level 2, card: as late as that, although level 0 would do
//   %r = wait(%s)            level 3, host: one card level behind the start
//   %z = add(%r, %p)         level 4, card
//
// A wait whose level would stay empty stays beside its start: starts begin with a level behind each
// of them, and those that nothing fills give it up, until all that are left are filled. In a graph
// that writes all waits stay there.
#include "graph/segments/partition.h"

#include "graph/aten.h"
#include "graph/effect.h"

typedef struct {
    const spyre_graph *graph;
    const bool *is_free;  // by node
    const uint32_t *base; // by value: in whose storage it lies
    uint32_t *level;      // by node
    // By base value: levels of the nodes that use its storage, plus one; 0 is "none".
    uint32_t *card_reads, *host_reads, *writes;
    uint32_t ordered;  // level of the last node whose effects keep an order
    bool *is_apart;    // by node: a start that leaves a card level between itself and its wait
    uint32_t start[2]; // lowest level of card and host
} scheduler;

static spyre_segment_kind kind_of(const graph_node *node)
{
    return node->layer == GRAPH_LAYER_HOST ? SPYRE_SEGMENT_HOST : SPYRE_SEGMENT_CARD;
}

static spyre_status find_free(const spyre_graph *graph, const uint32_t *base, arena *memory,
                              const bool **out_free)
{
    bool *is_free = ARENA_NEW(memory, bool, graph->nodes.count);
    bool *seen = ARENA_NEW(memory, bool, graph->values.count);
    TRY_ALLOC(is_free);
    TRY_ALLOC(seen);
    for (uint32_t i = 0; i < graph->outputs.count; i++) {
        seen[base[graph->outputs.items[i]]] = true;
    }
    for (uint32_t i = 0; i < graph->nodes.count; i++) {
        const graph_node *node = &graph->nodes.items[i];
        for (uint32_t k = 0; k < node->read_count; k++)
            seen[base[node->reads[k]]] |= node->layer == GRAPH_LAYER_HOST;
    }
    for (uint32_t i = 0; i < graph->nodes.count; i++) {
        const graph_node *node = &graph->nodes.items[i];
        bool is_constant = node->layer == GRAPH_LAYER_NATIVE &&
                           (node->op == ATEN_SPYRE_CONSTANT || node->op == ATEN_SPYRE_COUNTS);
        is_free[i] = node->layer == GRAPH_LAYER_VIEW || (is_constant && !seen[node->results[0]]);
    }
    *out_free = is_free;
    return NULL;
}

static void raise_to(uint32_t *level, uint32_t least)
{
    if (*level < least) *level = least;
}

// The level that a node of `kind` needs behind one of `other` kind at `level_plus_one - 1`.
static uint32_t behind(uint32_t level_plus_one, bool same_kind)
{
    if (level_plus_one == 0) return 0;
    return same_kind ? level_plus_one - 1 : level_plus_one;
}

static void follow_read(const scheduler *s, uint32_t value, spyre_segment_kind kind, bool writes,
                        uint32_t *level)
{
    uint32_t base = s->base[value];
    uint32_t producer = s->graph->values.items[base].node;
    bool is_host = kind == SPYRE_SEGMENT_HOST;
    if (producer != SPYRE_NO_ID && !s->is_free[producer]) {
        bool same = kind_of(&s->graph->nodes.items[producer]) == kind;
        raise_to(level, behind(s->level[producer] + 1, same));
    }
    raise_to(level, behind(s->writes[base], is_host));
    if (!writes) return;
    raise_to(level, behind(s->host_reads[base], is_host));
    raise_to(level, behind(s->card_reads[base], !is_host));
}

static void note_read(const scheduler *s, uint32_t value, spyre_segment_kind kind, bool writes,
                      uint32_t level)
{
    uint32_t base = s->base[value];
    raise_to(kind == SPYRE_SEGMENT_HOST ? &s->host_reads[base] : &s->card_reads[base], level + 1);
    if (writes) raise_to(&s->writes[base], level + 1);
}

// Whether the node writes into the i-th value that it reads.
static bool writes_into(const graph_node *node, graph_effect effect, uint32_t i)
{
    return effect == EFFECT_UNKNOWN ||
           (effect == EFFECT_WRITES && i == 0 && node->args[0].kind == SPYRE_ARG_VALUE);
}

// The node that starts what a wait is for, or SPYRE_NO_ID.
static uint32_t start_of(const scheduler *s, const graph_node *wait)
{
    if (!graph_is_wait(wait) || wait->arg_count == 0 || wait->args[0].kind != SPYRE_ARG_VALUE)
        return SPYRE_NO_ID;
    uint32_t start = s->graph->values.items[wait->args[0].of.value].node;
    if (start == SPYRE_NO_ID) return start;
    return graph_effect_of(&s->graph->nodes.items[start]) == EFFECT_EXCHANGE ? start : SPYRE_NO_ID;
}

static void assign(scheduler *s)
{
    s->ordered = 0;
    for (uint32_t i = 0; i < s->graph->nodes.count; i++) {
        const graph_node *node = &s->graph->nodes.items[i];
        graph_effect effect = graph_effect_of(node);
        if (s->is_free[i]) continue;
        uint32_t level = s->start[kind_of(node)];
        bool in_order = effect != EFFECT_NONE && !graph_is_wait(node);
        if (in_order) raise_to(&level, s->ordered);
        uint32_t start = start_of(s, node);
        if (start != SPYRE_NO_ID && s->is_apart[start]) raise_to(&level, s->level[start] + 2);
        for (uint32_t k = 0; k < node->read_count; k++)
            follow_read(s, node->reads[k], kind_of(node), writes_into(node, effect, k), &level);
        for (uint32_t k = 0; k < node->read_count; k++)
            note_read(s, node->reads[k], kind_of(node), writes_into(node, effect, k), level);
        if (in_order) s->ordered = level;
        s->level[i] = level;
    }
}

// Lowers, for each base value that the node reads, the latest level of a card node for it.
static void bound(const scheduler *s, const graph_node *node, uint32_t most, uint32_t *latest)
{
    for (uint32_t k = 0; k < node->read_count; k++) {
        uint32_t *of_value = &latest[s->base[node->reads[k]]];
        if (*of_value > most) *of_value = most;
    }
}

// Moves card nodes behind the first start that need not have waited for them. `behind_start` says
// by level whether a start's wait leaves it for the card.
static void delay(scheduler *s, const bool *behind_start, uint32_t count, uint32_t *latest)
{
    for (uint32_t i = s->graph->nodes.count; i-- > 0;) {
        const graph_node *node = &s->graph->nodes.items[i];
        if (s->is_free[i]) continue;
        bool is_card = kind_of(node) == SPYRE_SEGMENT_CARD;
        uint32_t most = count - 1, to = s->level[i];
        for (uint32_t k = 0; k < node->result_count; k++)
            if (latest[s->base[node->results[k]]] < most)
                most = latest[s->base[node->results[k]]];
        while (is_card && to <= most && !behind_start[to]) to++;
        if (is_card && to <= most) s->level[i] = to;
        if (is_card || s->level[i] > 0)
            bound(s, node, is_card ? s->level[i] : s->level[i] - 1, latest);
    }
}

static uint32_t count_levels(const scheduler *s)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < s->graph->nodes.count; i++)
        if (!s->is_free[i] && s->level[i] + 1 > most) most = s->level[i] + 1;
    return most;
}

static void mark_used(const scheduler *s, bool *used)
{
    for (uint32_t i = 0; i < s->graph->nodes.count; i++)
        if (!s->is_free[i]) used[s->level[i]] = true;
}

// Whether every level but maybe the lowest has a node.
static bool is_gapless(const bool *used, uint32_t count)
{
    for (uint32_t level = 1; level < count; level++)
        if (!used[level]) return false;
    return true;
}

static bool may_overlap(const spyre_graph *graph)
{
    bool starts = false;
    for (uint32_t i = 0; i < graph->nodes.count; i++) {
        graph_effect effect = graph_effect_of(&graph->nodes.items[i]);
        if (effect >= EFFECT_WRITES) return false;
        starts = starts || effect == EFFECT_EXCHANGE;
    }
    for (uint32_t i = 0; i < graph->inputs.count; i++)
        if (graph->inputs.items[i].update) return false;
    return starts;
}

static void forget(scheduler *s)
{
    for (uint32_t v = 0; v < s->graph->values.count; v++)
        s->card_reads[v] = s->host_reads[v] = s->writes[v] = 0;
}

// One attempt with the starts that are apart now. *out_good: all levels behind them are filled, and
// there are some; those that are not give up.
static spyre_status try_overlapping(scheduler *s, arena *memory, bool *out_good, bool *out_again)
{
    forget(s);
    assign(s);
    uint32_t count = count_levels(s), values = s->graph->values.count, apart = 0;
    bool *behind_start = ARENA_NEW(memory, bool, count + 1), *used = ARENA_NEW(memory, bool, count);
    uint32_t *latest = ARENA_NEW(memory, uint32_t, values);
    TRY_ALLOC(behind_start);
    TRY_ALLOC(used);
    TRY_ALLOC(latest);
    for (uint32_t v = 0; v < values; v++) latest[v] = UINT32_MAX;
    for (uint32_t i = 0; i < s->graph->nodes.count; i++)
        if (s->is_apart[i]) behind_start[s->level[i] + 1] = true;
    delay(s, behind_start, count, latest);
    mark_used(s, used);
    *out_again = false;
    for (uint32_t i = 0; i < s->graph->nodes.count; i++) {
        if (!s->is_apart[i]) continue;
        s->is_apart[i] = used[s->level[i] + 1];
        *out_again = *out_again || !s->is_apart[i];
        apart += s->is_apart[i];
    }
    *out_good = apart && !*out_again && is_gapless(used, count);
    return NULL;
}

// Levels with waits behind the card's work, where there is some.
static spyre_status assign_overlapping(scheduler *s, arena *memory, bool *out_good)
{
    uint32_t nodes = s->graph->nodes.count;
    bool again = may_overlap(s->graph);
    *out_good = false;
    for (uint32_t i = 0; again && i < nodes; i++) {
        uint32_t start = start_of(s, &s->graph->nodes.items[i]);
        if (start != SPYRE_NO_ID) s->is_apart[start] = true;
    }
    while (again) TRY(try_overlapping(s, memory, out_good, &again));
    if (*out_good) return NULL;
    for (uint32_t i = 0; i < nodes; i++) s->is_apart[i] = false;
    forget(s);
    return NULL;
}

// One schedule; levels of the kind `first` are even. *out_count is the number of levels in use.
static spyre_status schedule(scheduler *s, arena *memory, spyre_segment_kind first,
                             uint32_t *out_count)
{
    uint32_t values = s->graph->values.count, nodes = s->graph->nodes.count;
    TRY_NEW(memory, s->level, nodes);
    TRY_NEW(memory, s->is_apart, nodes);
    TRY_NEW(memory, s->card_reads, values);
    TRY_NEW(memory, s->host_reads, values);
    TRY_NEW(memory, s->writes, values);
    s->start[SPYRE_SEGMENT_CARD] = first == SPYRE_SEGMENT_CARD ? 0 : 1;
    s->start[SPYRE_SEGMENT_HOST] = first == SPYRE_SEGMENT_HOST ? 0 : 1;
    bool good;
    TRY(assign_overlapping(s, memory, &good));
    if (!good) assign(s);
    bool uses_lowest = false;
    uint32_t most = count_levels(s);
    for (uint32_t i = 0; i < nodes; i++) uses_lowest |= !s->is_free[i] && s->level[i] == 0;
    *out_count = most - (most && !uses_lowest ? 1 : 0);
    return NULL;
}

// Segments from levels 0 .. count - 1.
static spyre_status take_levels(const scheduler *s, uint32_t count, arena *memory,
                                graph_segments *out)
{
    uint32_t nodes = s->graph->nodes.count, lowest = UINT32_MAX;
    uint32_t *segment_of = ARENA_NEW(memory, uint32_t, nodes);
    spyre_segment_kind *kinds = ARENA_NEW(memory, spyre_segment_kind, count);
    TRY_ALLOC(segment_of);
    TRY_ALLOC(kinds);
    for (uint32_t i = 0; i < nodes; i++)
        if (!s->is_free[i] && s->level[i] < lowest) lowest = s->level[i];
    for (uint32_t i = 0; i < nodes; i++) {
        segment_of[i] = s->is_free[i] ? SPYRE_NO_ID : s->level[i] - lowest;
        if (!s->is_free[i]) kinds[segment_of[i]] = kind_of(&s->graph->nodes.items[i]);
    }
    *out = (graph_segments){count, kinds, segment_of, s->base};
    return NULL;
}

spyre_status graph_partition(const spyre_graph *graph, arena *memory, graph_segments *out_segments)
{
    const bool *is_free = NULL;
    uint32_t card_count, host_count, *base = ARENA_NEW(memory, uint32_t, graph->values.count);
    TRY_ALLOC(base);
    graph_find_bases(graph, base);
    TRY(find_free(graph, base, memory, &is_free));
    scheduler card = {.graph = graph, .is_free = is_free, .base = base}, host = card;
    TRY(schedule(&card, memory, SPYRE_SEGMENT_CARD, &card_count));
    TRY(schedule(&host, memory, SPYRE_SEGMENT_HOST, &host_count));
    bool host_first = host_count < card_count;
    return take_levels(host_first ? &host : &card, host_first ? host_count : card_count, memory,
                       out_segments);
}
