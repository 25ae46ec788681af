// SPDX-License-Identifier: Apache-2.0
#include "graph/segments/segment_split.h"

#include "base/vec.h"

typedef struct {
    const spyre_graph *graph;
    const graph_segments *segments;
    arena *memory;
    uint32_t most;
    uint32_t *last_use; // by base value: the last node of its segment that reads it, plus one
    bool *escapes;      // by base value: another segment or the caller wants it
    // Of the part in work.
    uint32_t walk;      // its number among all that were tried
    uint32_t *known;    // by base value: the last walk that read or made it
    uint32_t taken;     // base values that it reads from outside
    VEC(uint32_t) made; // live-out results: base values that others read
} parter;

static uint32_t segment_of(const parter *p, uint32_t base)
{
    uint32_t node = p->graph->values.items[base].node;
    return node == SPYRE_NO_ID ? SPYRE_NO_ID : p->segments->segment_of[node];
}

static bool is_constant(const parter *p, uint32_t base)
{
    uint32_t node = p->graph->values.items[base].node;
    return node != SPYRE_NO_ID && p->segments->segment_of[node] == SPYRE_NO_ID;
}

static void find_uses(const parter *p)
{
    for (uint32_t i = 0; i < p->graph->outputs.count; i++)
        p->escapes[p->segments->base[p->graph->outputs.items[i]]] = true;
    for (uint32_t n = 0; n < p->graph->nodes.count; n++) {
        const graph_node *node = &p->graph->nodes.items[n];
        if (p->segments->segment_of[n] == SPYRE_NO_ID) continue;
        for (uint32_t i = 0; i < node->read_count; i++) {
            uint32_t base = p->segments->base[node->reads[i]];
            if (segment_of(p, base) == p->segments->segment_of[n])
                p->last_use[base] = n + 1;
            else
                p->escapes[base] = true;
        }
    }
}

static bool is_wanted_after(const parter *p, uint32_t base, uint32_t node)
{
    return p->escapes[base] || p->last_use[base] > node + 1;
}

static spyre_status add(parter *p, uint32_t node)
{
    const graph_node *n = &p->graph->nodes.items[node];
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n->read_count; i++) {
        uint32_t base = p->segments->base[n->reads[i]];
        if (p->known[base] == p->walk || is_constant(p, base)) continue;
        p->known[base] = p->walk;
        p->taken++;
    }
    for (uint32_t i = 0; i < p->made.count; i++)
        if (is_wanted_after(p, p->made.items[i], node)) p->made.items[kept++] = p->made.items[i];
    p->made.count = kept;
    for (uint32_t r = 0; r < n->result_count; r++) {
        uint32_t base = p->segments->base[n->results[r]];
        p->known[base] = p->walk;
        if (is_wanted_after(p, base, node)) TRY(VEC_PUSH(p->memory, &p->made, base));
    }
    return NULL;
}

// How many of the nodes may be one part. What the part makes may be consumed again, what it reads
// from outside stays: so there is an end to looking ahead.
static spyre_status find_part(parter *p, const uint32_t *nodes, uint32_t count, uint32_t *out_count)
{
    *out_count = 1;
    p->walk++;
    p->taken = p->made.count = 0;
    for (uint32_t i = 0; i < count && p->taken <= p->most; i++) {
        TRY(add(p, nodes[i]));
        if (p->taken + p->made.count <= p->most) *out_count = i + 1;
    }
    return NULL;
}

// Nodes in order of their segments; first[s] is where those of segment s start.
static void sort_nodes(const graph_segments *segments, uint32_t nodes, uint32_t *first,
                       uint32_t *sorted)
{
    for (uint32_t n = 0; n < nodes; n++)
        if (segments->segment_of[n] != SPYRE_NO_ID) first[segments->segment_of[n] + 1]++;
    for (uint32_t s = 0; s < segments->segment_count; s++) first[s + 1] += first[s];
    for (uint32_t n = 0; n < nodes; n++)
        if (segments->segment_of[n] != SPYRE_NO_ID) sorted[first[segments->segment_of[n]]++] = n;
    for (uint32_t s = segments->segment_count; s > 0; s--) first[s] = first[s - 1];
    first[0] = 0;
}

spyre_status graph_split_segments(const spyre_graph *graph, uint32_t most_tensors, arena *memory,
                                graph_segments *segments)
{
    uint32_t values = graph->values.count, nodes = graph->nodes.count, count = 0;
    parter p = {.graph = graph,
                .segments = segments,
                .memory = memory,
                .most = most_tensors,
                .last_use = ARENA_NEW(memory, uint32_t, values),
                .escapes = ARENA_NEW(memory, bool, values),
                .known = ARENA_NEW(memory, uint32_t, values)};
    uint32_t *first = ARENA_NEW(memory, uint32_t, segments->segment_count + 1);
    uint32_t *sorted = ARENA_NEW(memory, uint32_t, nodes);
    uint32_t *part_of = ARENA_NEW(memory, uint32_t, nodes);
    spyre_segment_kind *kinds = ARENA_NEW(memory, spyre_segment_kind, nodes);
    TRY_ALLOC(p.last_use);
    TRY_ALLOC(p.escapes);
    TRY_ALLOC(p.known);
    TRY_ALLOC(first);
    TRY_ALLOC(sorted);
    TRY_ALLOC(part_of);
    TRY_ALLOC(kinds);
    find_uses(&p);
    sort_nodes(segments, nodes, first, sorted);
    for (uint32_t n = 0; n < nodes; n++) part_of[n] = SPYRE_NO_ID;
    for (uint32_t s = 0; s < segments->segment_count; s++) {
        for (uint32_t n = first[s], end; n < first[s + 1]; n = end) {
            bool is_card = segments->kinds[s] == SPYRE_SEGMENT_CARD;
            uint32_t length = is_card && !most_tensors ? 1 : first[s + 1] - n;
            if (is_card && most_tensors) TRY(find_part(&p, &sorted[n], length, &length));
            for (end = n; end < n + length; end++) part_of[sorted[end]] = count;
            kinds[count++] = segments->kinds[s];
        }
    }
    *segments = (graph_segments){count, kinds, part_of, segments->base};
    return NULL;
}
