// SPDX-License-Identifier: Apache-2.0
#include "graph/hint.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "graph/build.h"

// A name ends at ',' or '='; a dim without a name has an empty one.
static size_t name_length(const char *at)
{
    return strcspn(at, ",=");
}

bool hint_next_name(const char **at, hint_entry *out)
{
    const char *here = *at;
    if (!here || !*here) return false;
    out->name = here;
    out->length = name_length(here);
    here += out->length;
    if (*here == '=') return false;
    *at = *here ? here + 1 : here;
    return true;
}

// A number at *at in front of an end, of `stop` or of ','; *at moves behind it.
static bool take_number(const char **at, const char *end, char stop, int64_t *out)
{
    char *behind;
    errno = 0;
    *out = strtoll(*at, &behind, 10);
    if (behind == *at || errno || (behind != end && *behind && *behind != stop && *behind != ','))
        return false;
    *at = behind;
    return true;
}

bool hint_next_factor(const char **at, const hint_entry *entry, hint_factor *out)
{
    const char *here = *at, *end = entry->name + entry->length;
    if (here == end) return false;
    *out = (hint_factor){.name = here, .length = strcspn(here, ":*,=")};
    here += out->length;
    if (out->length == 0) return false;
    if (*here == ':') {
        here++;
        if (!take_number(&here, end, '*', &out->size) || out->size < 1) return false;
    }
    bool last = here == end;
    if (!last && (*here != '*' || here + 1 == end || !out->size)) return false;
    *at = last ? here : here + 1;
    return true;
}

bool hint_next_tiles(const char **at, hint_tiles *out)
{
    const char *here = *at;
    hint_entry entry;
    if (!here || !*here) return false;
    if (!take_number(&here, NULL, ':', &out->scope) || out->scope < 1 || *here != ':') return false;
    here++;
    if (!hint_next_split(&here, &entry)) return false;
    out->name = entry.name;
    out->length = entry.length;
    out->count = entry.slices;
    *at = here;
    return true;
}

bool hint_next_split(const char **at, hint_entry *out)
{
    const char *here = *at;
    char *end;
    if (!here || !*here) return false;
    out->name = here;
    out->length = name_length(here);
    if (out->length == 0 || here[out->length] != '=') return false;
    const char *number = here + out->length + 1;
    errno = 0;
    out->slices = strtoll(number, &end, 10);
    if (end == number || errno || (*end && *end != ',') || (*end == ',' && !end[1])) return false;
    *at = *end ? end + 1 : end;
    return true;
}

// A list of names for `rank` dims.
static spyre_status check_names(const char *names, uint32_t rank)
{
    hint_entry entry;
    hint_factor factor;
    const char *at = names;
    uint32_t count = 0;
    while (hint_next_name(&at, &entry)) {
        const char *part = entry.name;
        while (hint_next_factor(&part, &entry, &factor)) {}
        if (part != entry.name + entry.length)
            return status_new(SPYRE_INVALID_ARGUMENT, "dims '%s': no list of names", names);
        count++;
    }
    if (*at) return status_new(SPYRE_INVALID_ARGUMENT, "dims '%s': no list of names", names);
    if (names[0] && names[strlen(names) - 1] == ',') count++; // the last dim has no name
    if (count == rank) return NULL;
    return status_new(SPYRE_INVALID_ARGUMENT, "dims '%s': %u names for %u dims", names, count,
                      rank);
}

spyre_status spyre_graph_name_dims(spyre_graph *graph, uint32_t value, const char *names)
{
    for (uint32_t i = 0; i < graph->inputs.count; i++) {
        graph_input *input = &graph->inputs.items[i];
        if (input->value != value) continue;
        TRY(check_names(names, graph->values.items[value].view.rank));
        return graph_add_location(graph, names, &input->dims);
    }
    return status_new(SPYRE_INVALID_ARGUMENT, "dims '%s': value %u is no input", names, value);
}

spyre_status hint_check_split(const char *slices)
{
    hint_entry entry;
    const char *at = slices;
    while (hint_next_split(&at, &entry))
        if (entry.slices < 1)
            return status_new(SPYRE_UNSUPPORTED, "work_div %.*s=%lld: slices are 1 or more",
                              (int)entry.length, entry.name, (long long)entry.slices);
    if (*at || at == slices)
        return status_new(SPYRE_UNSUPPORTED, "work_div '%s': expected NAME=SLICES,..", slices);
    return NULL;
}

spyre_status hint_check_tiles(const char *tiles)
{
    hint_tiles entry;
    const char *at = tiles;
    int64_t outer = 0;
    while (hint_next_tiles(&at, &entry)) {
        if (entry.count < 1)
            return status_new(SPYRE_UNSUPPORTED, "tiles %.*s=%lld: a count is 1 or more",
                              (int)entry.length, entry.name, (long long)entry.count);
        if (entry.scope <= outer)
            return status_new(SPYRE_UNSUPPORTED,
                              "tiles '%s': scope %lld inside scope %lld, numbers grow inwards",
                              tiles, (long long)entry.scope, (long long)outer);
        outer = entry.scope;
    }
    if (*at || at == tiles)
        return status_new(SPYRE_UNSUPPORTED, "tiles '%s': expected SCOPE:NAME=COUNT,..", tiles);
    return NULL;
}

spyre_status spyre_graph_set_work_division(spyre_graph *graph, uint32_t node, const char *slices)
{
    if (node >= graph->nodes.count)
        return status_new(SPYRE_INVALID_ARGUMENT, "work_div: node %u of %u", node,
                          graph->nodes.count);
    TRY(hint_check_split(slices));
    return graph_add_location(graph, slices, &graph->nodes.items[node].hint.work_div);
}

// A reduction that runs on the host, which has no tiles.
static spyre_status check_combined(const spyre_graph *graph, uint32_t node, const hint_tiles *tiles)
{
    const graph_node *of = &graph->nodes.items[node];
    if (hint_is_step(tiles) || !strstr(of->op_name, ".xor_sum.")) return NULL;
    return status_new(SPYRE_UNSUPPORTED,
                      "%s: tiles %.*s=%lld (scope %lld): no opfunc of the card combines the "
                      "results of tiles",
                      graph_node_place(graph, node), (int)tiles->length, tiles->name,
                      (long long)tiles->count, (long long)tiles->scope);
}

spyre_status spyre_graph_set_tiles(spyre_graph *graph, uint32_t node, const char *tiles)
{
    hint_tiles entry;
    const char *at = tiles;
    if (node >= graph->nodes.count)
        return status_new(SPYRE_INVALID_ARGUMENT, "tiles: node %u of %u", node, graph->nodes.count);
    TRY(hint_check_tiles(tiles));
    while (hint_next_tiles(&at, &entry)) TRY(check_combined(graph, node, &entry));
    return graph_add_location(graph, tiles, &graph->nodes.items[node].hint.tiles);
}

spyre_status spyre_graph_name_result(spyre_graph *graph, uint32_t node, const char *names)
{
    if (node >= graph->nodes.count || graph->nodes.items[node].result_count == 0)
        return status_new(SPYRE_INVALID_ARGUMENT, "dims '%s': node %u has no result", names, node);
    uint32_t value = graph->nodes.items[node].results[0];
    TRY(check_names(names, graph->values.items[value].view.rank));
    return graph_add_location(graph, names, &graph->nodes.items[node].hint.dims);
}

void hint_warn_of_host(const spyre_graph *source, const spyre_graph *prepared)
{
    for (uint32_t i = 0; i < prepared->fates.count; i++) {
        const graph_fate *fate = &prepared->fates.items[i];
        const graph_hint *asked = &source->nodes.items[i].hint;
        hint_tiles first;
        const char *tiles = source->locations.items[asked->tiles];
        bool in_tiles = asked->tiles && hint_next_tiles(&tiles, &first) && !hint_is_step(&first);
        if (fate->layer != GRAPH_LAYER_HOST || fate->removed || !(asked->work_div || in_tiles))
            continue;
        log_warn("%s: %s %s has no effect on the host: %s", graph_node_place(source, i),
                 in_tiles ? "tiles" : "work_div",
                 source->locations.items[in_tiles ? asked->tiles : asked->work_div],
                 fate->reason ? fate->reason : "");
    }
}
