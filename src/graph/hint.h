// SPDX-License-Identifier: Apache-2.0
//
// What a user says about a graph, as texts. Names of a value's dims: "M,K", an empty name for a dim
// without one, a product for a dim that is several in one ("M:64*K:512,N"). Slices by name of a
// node: "M=2,K=4". Scopes of tiles around a node, outermost first: "1:M=8,2:K=4"; the numbers tell
// scopes apart and grow inwards. "3:@5=16" is no scope of tiles: the node belongs to step 5,
// counted from 0 in the order of execution, of the 16 of a loop that was written step by step.
#ifndef GRAPH_HINT_H
#define GRAPH_HINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "spyre/graph.h"

typedef struct {
    const char *name; // not terminated
    size_t length;
    int64_t slices; // of a work division
} hint_entry;

// One of the names that a dim has.
typedef struct {
    const char *name; // not terminated
    size_t length;
    int64_t size;     // 0: that of the dim
} hint_factor;

typedef struct {
    int64_t scope;
    const char *name; // not terminated
    size_t length;
    int64_t count;
} hint_tiles;

// The next entry of a list of names; false at its end. *at starts at the text.
bool hint_next_name(const char **at, hint_entry *out);

// The next factor of an entry, outermost first; false at its end, and where the text is none, with
// *at not at the entry's end. *at starts at entry->name.
bool hint_next_factor(const char **at, const hint_entry *entry, hint_factor *out);

// The next entry of a work division; false at its end, and where the text is none, with **at not 0.
bool hint_next_split(const char **at, hint_entry *out);

// The next scope; false as above.
bool hint_next_tiles(const char **at, hint_tiles *out);

// Whether all of a work division, or of scopes, is one: counts of 1 or more, numbers that grow.
SPYRE_MUST_CHECK spyre_status hint_check_split(const char *slices);
SPYRE_MUST_CHECK spyre_status hint_check_tiles(const char *tiles);

// Warns of nodes of the caller that the host has although the user asks for slices or tiles.
void hint_warn_of_host(const spyre_graph *source, const spyre_graph *prepared);

// True when `name`, null for none, is the `length` characters at `other`.
static inline bool hint_is_name(const char *name, const char *other, size_t length)
{
    return name && strlen(name) == length && memcmp(name, other, length) == 0;
}

static inline bool hint_is_step(const hint_tiles *hint)
{
    return hint->name[0] == '@';
}

#endif
