// SPDX-License-Identifier: Apache-2.0
#include "graph/hint.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

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

spyre_status spyre_graph_name_dims(spyre_graph *graph, uint32_t value, const char *names)
{
    hint_entry entry;
    const char *at = names;
    uint32_t count = 0;
    while (hint_next_name(&at, &entry)) count++;
    if (*at) return status_new(SPYRE_INVALID_ARGUMENT, "dims '%s': no list of names", names);
    for (uint32_t i = 0; i < graph->inputs.count; i++) {
        graph_input *input = &graph->inputs.items[i];
        if (input->value != value) continue;
        uint32_t rank = graph->values.items[value].view.rank;
        if (names[0] && names[strlen(names) - 1] == ',') count++; // the last dim has no name
        if (count != rank)
            return status_new(SPYRE_INVALID_ARGUMENT, "dims '%s': %u names for %u dims", names,
                              count, rank);
        return graph_add_location(graph, names, &input->dims);
    }
    return status_new(SPYRE_INVALID_ARGUMENT, "dims '%s': value %u is no input", names, value);
}

spyre_status spyre_graph_set_work_division(spyre_graph *graph, uint32_t node, const char *slices)
{
    hint_entry entry;
    const char *at = slices;
    if (node >= graph->nodes.count)
        return status_new(SPYRE_INVALID_ARGUMENT, "work_div: node %u of %u", node,
                          graph->nodes.count);
    while (hint_next_split(&at, &entry))
        if (entry.slices < 1)
            return status_new(SPYRE_UNSUPPORTED, "work_div %.*s=%lld: slices are 1 or more",
                              (int)entry.length, entry.name, (long long)entry.slices);
    if (*at || at == slices)
        return status_new(SPYRE_UNSUPPORTED, "work_div '%s': expected NAME=SLICES,..", slices);
    return graph_add_location(graph, slices, &graph->nodes.items[node].hint);
}
