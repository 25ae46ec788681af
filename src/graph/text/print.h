// SPDX-License-Identifier: Apache-2.0
//
// The text form of graphs, docs/graph-text.md.
#ifndef GRAPH_PRINT_H
#define GRAPH_PRINT_H

#include "graph/build.h"

// Appends the text form. `notes` adds a comment with the layer to nodes of the host, views and
// natives keep silent; comments do not survive a parse.
SPYRE_MUST_CHECK spyre_status graph_print(const spyre_graph *graph, bool notes, text *out);

// "f16[4, 64]{1, 4}+8 host": strides when the view is not row-major, offset when it is not 0.
void graph_print_type(const spyre_graph *graph, const graph_value *value, text *out);

// "aten.add.Tensor(%x, %y, 1)".
void graph_print_call(const spyre_graph *graph, const graph_node *node, text *out);

// In double quotes, as scan_string() reads it.
void graph_print_string(const char *string, text *out);

// Of the short names in the text form: "f16", "bool", "i64".
bool graph_dtype_of_word(const char *word, size_t length, spyre_dtype *out_dtype);

// Row-major strides and offset 0 for the sizes of a view; false when an expression overflows.
bool graph_view_set_contiguous(spyre_graph *graph, graph_view *view);

#endif
