// SPDX-License-Identifier: Apache-2.0
//
// What a user says about the division of a graph: names of an input's dims ("M,K") and slices by
// name ("M=2,K=4") of a node.
#ifndef GRAPH_HINT_H
#define GRAPH_HINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    const char *name; // not terminated
    size_t length;
    int64_t slices; // of a work division
} hint_entry;

// The next entry of a list of names; false at its end. *at starts at the text.
bool hint_next_name(const char **at, hint_entry *out);

// The next entry of a work division; false at its end, and where the text is none, with **at not 0.
bool hint_next_split(const char **at, hint_entry *out);

#endif
