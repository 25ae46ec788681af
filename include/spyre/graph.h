// SPDX-License-Identifier: Apache-2.0
//
// Building a graph of ATen operations for the compiler, one call per node, in topological order.
// A graph is not thread safe; it belongs to one thread at a time.
#ifndef SPYRE_GRAPH_H
#define SPYRE_GRAPH_H

#include <stdbool.h>
#include <stdint.h>

#include "spyre/layout.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct spyre_graph spyre_graph;

// Values and nodes are named by 32-bit ids, dense from 0 in order of creation.
#define SPYRE_NO_ID UINT32_MAX

// A tensor: its dtype and its view of a storage. For the result of a view op, stride and offset
// are those of the storage that the op's first argument lies in.
typedef struct {
    spyre_dtype dtype;
    bool on_card;               // false: a tensor of the host
    spyre_view view;
} spyre_tensor_type;

typedef enum {
    SPYRE_ARG_NONE,
    SPYRE_ARG_VALUE,            // a tensor: id in `value`
    SPYRE_ARG_INT,
    SPYRE_ARG_FLOAT,
    SPYRE_ARG_BOOL,
    SPYRE_ARG_DTYPE,
    SPYRE_ARG_STRING,           // anything else, as text (device, layout, memory format)
    SPYRE_ARG_LIST,
    SPYRE_ARG_SCALAR,           // a number that each launch gives (spyre_launch_scalars())
} spyre_arg_kind;

// What a program makes of such a number before it is rounded to the operand's dtype. A caller gives
// SPYRE_SCALAR_AS_IS; decompositions give the others.
typedef enum {
#define SCALAR_FORM(name, word, formula) SPYRE_SCALAR_##name,
#include "spyre/scalar_form.def"
    SPYRE_SCALAR_FORM_COUNT
} spyre_scalar_form;

typedef struct spyre_arg {
    spyre_arg_kind kind;
    union {
        uint32_t value;
        int64_t integer;
        double real;
        bool boolean;
        spyre_dtype dtype;
        const char *string;                                          // copied by the graph
        struct {
            const struct spyre_arg *items;                           // copied by the graph
            uint32_t count;
        } list;
        struct {
            uint32_t index;                                          // among those of a launch
            spyre_scalar_form form;
            bool is_int;                                             // an int that fits 32 bits
            double like;                                             // of spyre_scalar_like()
        } scalar;
    } of;
} spyre_arg;

SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_graph_create(spyre_graph **out_graph);
SPYRE_API void spyre_graph_destroy(spyre_graph *graph);

// Adds a graph input. `storage` is the dense tensor that `layout` describes (the whole storage,
// offset 0), of which type->view is a view; both null: the storage is the view itself in the
// default layout. `name` is copied.
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_graph_add_input(
    spyre_graph *graph, const char *name, const spyre_tensor_type *type, const spyre_view *storage,
    const spyre_layout *layout, uint32_t *out_value);

// Adds a call of `op` ("aten.add.Tensor"). Arguments are positional in the order of the op's
// schema, keyword-only ones included, defaults filled in. `location` is the user's source line
// ("model.py:12 in forward") or null. Ids of the results go to out_values[0..output_count).
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_graph_add_node(
    spyre_graph *graph, const char *name, const char *op, const spyre_arg *args, uint32_t arg_count,
    const spyre_tensor_type *outputs, uint32_t output_count, const char *location,
    uint32_t *out_node, uint32_t *out_values);

// Names the dims of an input, outermost first: "M,K", an empty name for a dim without one, and
// "M:64*K:512" for one dim that holds two. Ops that move along a named dim carry the name to their
// results. SPYRE_INVALID_ARGUMENT: another number of names, or no input.
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_graph_name_dims(spyre_graph *graph, uint32_t value,
                                                              const char *names);

// How the cores divide a node's work: "M=2,K=4", slices of named dims. Names that a kernel of the
// node does not move along are left out. SPYRE_UNSUPPORTED here when it is no such text, when
// compiling when the slices are more than the cores, do not divide a dim (a stick's in sticks), or
// divide two reduced dims.
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_graph_set_work_division(spyre_graph *graph,
                                                                      uint32_t node,
                                                                      const char *slices);

// Counted loops around a node: "1:M=8,2:K=4", outermost first, a positive number that tells the
// scope from others and grows inwards, a named dim, the tiles that it is cut into. Consecutive
// nodes of one scope share its loop. SPYRE_UNSUPPORTED here when it is no such text, when compiling
// when the tiles do not divide a dim (a stick's in whole sticks) or the scope's nodes cannot follow
// each other. "3:@5=16" says instead that the node is of step 5 of the 16 of a loop whose steps,
// alike but for their tiles, stand in the graph one behind the other; they become one counted loop
// where they can.
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_graph_set_tiles(spyre_graph *graph, uint32_t node,
                                                              const char *tiles);

// Names the dims of the first result of a node that reads no tensor, such as full.
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_graph_name_result(spyre_graph *graph, uint32_t node,
                                                                const char *names);

// Marks a value as the graph's next output; the same value may be marked twice.
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_graph_add_output(spyre_graph *graph, uint32_t value);

// Marks a value as the graph's next output, which is to replace the contents of `input`. Where it
// may be, it is written in place: the output is then a view of the input
// (spyre_segment_output.input); elsewhere the caller copies. SPYRE_INVALID_ARGUMENT: no input, one
// that has an update already, or a value of another dtype or other sizes.
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_graph_add_update(spyre_graph *graph, uint32_t value,
                                                               uint32_t input);

// The ops that the compiler has rows for, on the card or with a stated reason for the host: a front
// end hands these over whole, without a decomposition of its own. Null behind the last. Static.
SPYRE_API const char *spyre_op_name(uint32_t index);

// Which numbers among the arguments of an op may be SPYRE_ARG_SCALAR, by the place of the argument;
// SPYRE_SCALAR_FIXED for all others. What a decomposition chooses by a number's value stays part of
// the program: such values are no parameters, or fall into classes.
typedef enum {
    SPYRE_SCALAR_FIXED,
#define SCALAR_RULE(name, words) SPYRE_SCALAR_##name,
#include "spyre/scalar_rule.def"
    SPYRE_SCALAR_RULE_COUNT
} spyre_scalar_rule;
SPYRE_API spyre_scalar_rule spyre_op_scalar(const char *op, uint32_t argument);

// The numbers that all dtypes of a call hold.
typedef struct {
    double lowest, largest;
} spyre_number_range;

// Whether a number may be a parameter by that rule, and in *out_like the number that stands for its
// class: programs of one class are equal.
SPYRE_API bool spyre_scalar_like(spyre_scalar_rule rule, double value, bool is_int,
                                 spyre_number_range range, double *out_like);

// Reads the text form (docs/graph-text.md); errors name line and rule. `file_name` is for messages.
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_graph_parse(const char *source, const char *file_name,
                                                          spyre_graph **out_graph);

// The text form, a string that the caller frees with spyre_string_free().
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_graph_print(const spyre_graph *graph,
                                                          char **out_text);
SPYRE_API void spyre_string_free(char *string);

#ifdef __cplusplus
}
#endif
#endif
