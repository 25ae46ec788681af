// SPDX-License-Identifier: Apache-2.0
//
// Segments run in order. A collective starts where its segment stands and takes the link between
// cards, which does one after the other; a segment of the card takes its modelled time meanwhile; a
// wait takes what is left of the collective. What did not have to be waited for was hidden.
//
//   card     |--- segment 0 ---|--- segment 2 ---|wait|--- segment 4 ---|
//   link                       |----- all_reduce -----|
#include "compile/stages/collective_overlap.h"

#include <inttypes.h>
#include <string.h>

#include "isa/constants.h"
#include "spyre/runtime.h"

// One tensor of a collective.
typedef struct {
    const char *op;
    uint32_t node, ranks;           // of the caller's graph
    uint32_t start, wait;           // segments; SPYRE_NO_ID: no segment waits
    int64_t bytes;
    double us, end_us, seen_us;
} exchange;

typedef struct {
    const spyre_executable *executable;
    const spyre_graph *graph;
    uint32_t ranks;
    double now_us, link_free_us;
    uint32_t *by_value;             // place among `found`, or SPYRE_NO_ID
    VEC(exchange) found;
} schedule;

static const char prefix[] = "_c10d_functional.";

static const struct {
    const char *name;
    spyre_comm_kind kind;
    uint32_t ranks_at;              // the argument with their number; 0: none says it
} KINDS[] = {
    {"all_reduce", SPYRE_COMM_ALL_REDUCE, 0},
    {"all_gather_into_tensor", SPYRE_COMM_ALL_GATHER, 1},
    {"reduce_scatter_tensor", SPYRE_COMM_REDUCE_SCATTER, 2},
    {"all_to_all_single", SPYRE_COMM_ALL_TO_ALL, 0},
    {"broadcast", SPYRE_COMM_BROADCAST, 0},
};

enum { KIND_COUNT = sizeof KINDS / sizeof *KINDS };

// The row of a node that starts a collective; KIND_COUNT for others.
static uint32_t kind_of(const graph_node *node)
{
    uint32_t kind = 0;
    if (strncmp(node->op_name, prefix, sizeof prefix - 1)) return KIND_COUNT;
    const char *name = node->op_name + sizeof prefix - 1;
    while (kind < KIND_COUNT && strncmp(name, KINDS[kind].name, strlen(KINDS[kind].name))) kind++;
    return kind;
}

static bool is_wait(const graph_node *node)
{
    return strcmp(node->op_name, "_c10d_functional.wait_tensor.default") == 0;
}

static spyre_status bytes_of(const spyre_graph *graph, uint32_t value, int64_t *out_bytes)
{
    const graph_value *v = &graph->values.items[value];
    spyre_view view;
    TRY(graph_view_constant(graph, &v->view, &view));
    *out_bytes = spyre_dtype_bytes(v->dtype);
    for (uint32_t d = 0; d < view.rank; d++) *out_bytes *= view.size[d];
    return NULL;
}

static spyre_status start(schedule *s, uint32_t segment, uint32_t node, uint32_t kind,
                          uint32_t source, uint32_t result)
{
    const graph_node *n = &s->graph->nodes.items[node];
    int64_t ranks = s->ranks;
    exchange x = {.op = n->op_name + sizeof prefix - 1, .node = n->origin, .start = segment,
                  .wait = SPYRE_NO_ID};
    if (KINDS[kind].ranks_at)
        TRY(graph_arg_int(s->graph, node, KINDS[kind].ranks_at, ranks, &ranks));
    if (ranks < 1 || ranks > UINT32_MAX) ranks = s->ranks;
    TRY(bytes_of(s->graph, source, &x.bytes));
    x.ranks = (uint32_t)ranks;
    bool parts = KINDS[kind].kind == SPYRE_COMM_REDUCE_SCATTER ||
                 KINDS[kind].kind == SPYRE_COMM_ALL_TO_ALL;
    spyre_exchange_info info = {.kind = KINDS[kind].kind, .ranks = x.ranks,
                                .bytes = parts ? x.bytes / ranks : x.bytes};
    x.us = spyre_exchange_us(&info);
    s->link_free_us = (s->now_us > s->link_free_us ? s->now_us : s->link_free_us) + x.us;
    x.end_us = s->link_free_us;
    s->by_value[result] = s->found.count;
    return VEC_PUSH(s->graph->memory, &s->found, x);
}

static void wait_for(schedule *s, uint32_t segment, uint32_t value)
{
    if (s->by_value[value] == SPYRE_NO_ID) return;
    exchange *x = &s->found.items[s->by_value[value]];
    x->wait = segment;
    if (x->end_us <= s->now_us) return;
    x->seen_us = x->end_us - s->now_us < x->us ? x->end_us - s->now_us : x->us;
    s->now_us = x->end_us;
}

static spyre_status visit(schedule *s, uint32_t segment, uint32_t node)
{
    const graph_node *n = &s->graph->nodes.items[node];
    uint32_t kind = kind_of(n);
    if (!n->arg_count || (kind == KIND_COUNT && !is_wait(n))) return NULL;
    bool several = n->args[0].kind == SPYRE_ARG_LIST;
    const spyre_arg *sources = several ? n->args[0].of.list.items : n->args;
    uint32_t count = several ? n->args[0].of.list.count : 1;
    for (uint32_t i = 0; i < count; i++) {
        if (sources[i].kind != SPYRE_ARG_VALUE) continue;
        if (is_wait(n)) wait_for(s, segment, sources[i].of.value);
        else if (i < n->result_count)
            TRY(start(s, segment, node, kind, sources[i].of.value, n->results[i]));
    }
    return NULL;
}

// The nodes that came of the caller's node.
static spyre_status visit_origin(schedule *s, uint32_t segment, uint32_t origin)
{
    for (uint32_t n = 0; n < s->graph->nodes.count; n++)
        if (s->graph->nodes.items[n].origin == origin) TRY(visit(s, segment, n));
    return NULL;
}

static spyre_status find(schedule *s)
{
    for (uint32_t i = 0; i < s->executable->segment_count; i++) {
        const spyre_segment *info = &s->executable->segments[i].info;
        bool here = info->kind == SPYRE_SEGMENT_CARD;
        if (here) s->now_us += info->card_us;
        for (uint32_t n = 0; !here && n < info->node_count; n++)
            TRY(visit_origin(s, i, info->nodes[n]));
    }
    return NULL;
}

static void print_one(const exchange *x, text *out)
{
    text_printf(out, "%10.3f%10.3f %10" PRId64 "%6u  %s (node %u), starts in segment %u, ", x->us,
                x->us - x->seen_us, x->bytes, x->ranks, x->op, x->node, x->start);
    if (x->wait == SPYRE_NO_ID) text_append(out, "no segment waits\n");
    else text_printf(out, "waits in segment %u\n", x->wait);
}

spyre_status exchanges_print(const spyre_executable *executable, uint32_t ranks, text *out)
{
    const spyre_graph *graph = executable->prepared;
    schedule s = {.executable = executable, .graph = graph,
                  .ranks = ranks ? ranks : (uint32_t)HOST_CARDS};
    if (!graph || !graph->values.count) return NULL;
    TRY_NEW(graph->memory, s.by_value, graph->values.count);
    memset(s.by_value, 0xFF, graph->values.count * sizeof *s.by_value);
    TRY(find(&s));
    if (!s.found.count) return NULL;
    double us = 0, hidden_us = 0;
    text_append(out, "        us    hidden      bytes ranks  between cards\n");
    for (uint32_t i = 0; i < s.found.count; i++) {
        print_one(&s.found.items[i], out);
        us += s.found.items[i].us;
        hidden_us += s.found.items[i].us - s.found.items[i].seen_us;
    }
    text_printf(out, "%10.3f us between cards, %.3f us (%.0f %%) behind the card's work\n", us,
                hidden_us, us > 0 ? 100 * hidden_us / us : 0);
    return NULL;
}
