// SPDX-License-Identifier: Apache-2.0
#include "graph/text/print.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/scalar.h"

static const char *const DTYPE_WORDS[SPYRE_DTYPE_COUNT] = {
#define SPYRE_DTYPE_ROW(name, torch_name, word, bytes, host_format, card_format) \
    [SPYRE_DTYPE_##name] = (word),
#include "spyre/dtype.def"
};

static const char *dtype_word(spyre_dtype dtype)
{
    return (uint32_t)dtype < SPYRE_DTYPE_COUNT ? DTYPE_WORDS[dtype] : "?";
}

bool graph_dtype_of_word(const char *word, size_t length, spyre_dtype *out_dtype)
{
    for (uint32_t i = 0; i < SPYRE_DTYPE_COUNT; i++) {
        if (strlen(DTYPE_WORDS[i]) != length || memcmp(DTYPE_WORDS[i], word, length) != 0) continue;
        *out_dtype = (spyre_dtype)i;
        return true;
    }
    return false;
}

bool graph_view_set_contiguous(spyre_graph *graph, graph_view *view)
{
    expr_id step = expr_constant(graph->exprs, 1);
    for (uint32_t i = view->rank; i-- > 0;) {
        int64_t size;
        if (step == EXPR_NONE) return false;
        view->stride[i] = step;
        if (expr_is_constant(graph->exprs, view->size[i], &size) && size <= 1) continue;
        step = expr_mul(graph->exprs, step, view->size[i]);
    }
    view->offset = expr_constant(graph->exprs, 0);
    return view->offset != EXPR_NONE;
}

static void print_expressions(const spyre_graph *graph, const expr_id *items, uint32_t count,
                              const char *open, const char *close, text *out)
{
    text_append(out, open);
    for (uint32_t i = 0; i < count; i++) {
        if (i) text_append(out, ", ");
        expr_print(graph->exprs, items[i], out);
    }
    text_append(out, close);
}

// Sizes, then what of strides and offset is not the default.
static void print_view(const spyre_graph *graph, const graph_view *view, text *out)
{
    // Interning an expression does not change the graph.
    spyre_graph interner = {.memory = graph->memory, .exprs = graph->exprs};
    graph_view contiguous = *view;
    int64_t offset = -1;
    print_expressions(graph, view->size, view->rank, "[", "]", out);
    bool same = graph_view_set_contiguous(&interner, &contiguous);
    for (uint32_t i = 0; i < view->rank && same; i++) {
        same = contiguous.stride[i] == view->stride[i];
    }
    if (!same) print_expressions(graph, view->stride, view->rank, "{", "}", out);
    if (expr_is_constant(graph->exprs, view->offset, &offset) && offset == 0) return;
    text_append(out, "+");
    expr_print(graph->exprs, view->offset, out);
}

void graph_print_type(const spyre_graph *graph, const graph_value *value, text *out)
{
    text_append(out, dtype_word(value->dtype));
    print_view(graph, &value->view, out);
    if (!value->on_card) text_append(out, " host");
}

// The shortest decimal that reads back as the same double, with a mark that it is no int. Whole
// numbers that need no exponent have none.
static void print_real(double value, text *out)
{
    char digits[40];
    if (isnan(value)) {
        text_append(out, "nan");
        return;
    }
    if (fabs(value) < 1e15 && value == trunc(value)) {
        text_printf(out, "%.1f", value);
        return;
    }
    for (int precision = 1; precision <= 17; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, value);
        if (strtod(digits, NULL) == value) break;
    }
    text_append(out, digits);
}

void graph_print_string(const char *string, text *out)
{
    text_append(out, "\"");
    for (const char *c = string; *c; c++) {
        if (*c == '"' || *c == '\\') {
            text_printf(out, "\\%c", *c);
        } else if (iscntrl((unsigned char)*c)) {
            text_printf(out, "\\x%02x", (unsigned)(unsigned char)*c);
        } else {
            text_append_bytes(out, c, 1);
        }
    }
    text_append(out, "\"");
}

static void print_args(const spyre_graph *graph, const spyre_arg *args, uint32_t count, text *out);

// "$0(2.0)", "$1(2)" of an int, "$0(0.25 rest)" where the program makes something of it.
static void print_scalar(const spyre_arg *arg, text *out)
{
    text_printf(out, "$%u(", arg->of.scalar.index);
    if (arg->of.scalar.is_int) text_printf(out, "%lld", (long long)arg->of.scalar.like);
    else print_real(arg->of.scalar.like, out);
    if (arg->of.scalar.form != SPYRE_SCALAR_AS_IS)
        text_printf(out, " %s", scalar_form_word(arg->of.scalar.form));
    text_append(out, ")");
}

static void print_arg(const spyre_graph *graph, const spyre_arg *arg, text *out)
{
    switch (arg->kind) {
    case SPYRE_ARG_NONE: text_append(out, "none"); break;
    case SPYRE_ARG_VALUE: text_printf(out, "%%%s", graph->values.items[arg->of.value].name); break;
    case SPYRE_ARG_INT: text_printf(out, "%lld", (long long)arg->of.integer); break;
    case SPYRE_ARG_FLOAT: print_real(arg->of.real, out); break;
    case SPYRE_ARG_BOOL: text_append(out, arg->of.boolean ? "true" : "false"); break;
    case SPYRE_ARG_DTYPE: text_append(out, dtype_word(arg->of.dtype)); break;
    case SPYRE_ARG_STRING: graph_print_string(arg->of.string, out); break;
    case SPYRE_ARG_LIST:
        text_append(out, "[");
        print_args(graph, arg->of.list.items, arg->of.list.count, out);
        text_append(out, "]");
        break;
    case SPYRE_ARG_SCALAR: print_scalar(arg, out); break;
    }
}

static void print_args(const spyre_graph *graph, const spyre_arg *args, uint32_t count, text *out)
{
    for (uint32_t i = 0; i < count; i++) {
        if (i) text_append(out, ", ");
        print_arg(graph, &args[i], out);
    }
}

static void print_symbols(const spyre_graph *graph, text *out)
{
    for (uint32_t i = 0; i < expr_symbol_count(graph->exprs); i++) {
        const expr_symbol_info *s = expr_symbol_at(graph->exprs, i);
        text_printf(out, "symbol %s: %lld..%lld", s->name, (long long)s->least, (long long)s->most);
        if (s->granularity != 1) text_printf(out, " step %lld", (long long)s->granularity);
        text_append(out, "\n");
    }
}

static void print_numbers(const int64_t *items, uint32_t count, const char *open, const char *close,
                          text *out)
{
    text_append(out, open);
    for (uint32_t i = 0; i < count; i++) {
        text_printf(out, i ? ", %lld" : "%lld", (long long)items[i]);
    }
    text_append(out, close);
}

static bool same_storage(const graph_view *a, const graph_view *b)
{
    if (a->rank != b->rank || a->offset != b->offset) return false;
    for (uint32_t i = 0; i < a->rank; i++) {
        if (a->size[i] != b->size[i] || a->stride[i] != b->stride[i]) return false;
    }
    return true;
}

static spyre_status print_input(const spyre_graph *graph, const graph_input *input, text *out)
{
    const graph_value *value = &graph->values.items[input->value];
    text_printf(out, "input %%%s: ", value->name);
    graph_print_type(graph, value, out);
    graph_view storage = {0};
    spyre_layout layout = {0};
    spyre_status status = graph_default_storage(graph, value, &storage, &layout);
    if (spyre_status_code(status) == SPYRE_OUT_OF_MEMORY) return status;
    bool known = !status && same_storage(&storage, &input->storage) &&
                 (layout.rank == 0) == (input->layout.rank == 0) &&
                 (layout.rank == 0 || spyre_layout_equal(&layout, &input->layout));
    spyre_status_free(status);
    if (!known) {
        text_append(out, " storage ");
        print_view(graph, &input->storage, out);
    }
    if (!known && input->layout.rank) {
        const spyre_layout *l = &input->layout;
        text_printf(out, " layout %s", spyre_format_name(l->format));
        print_numbers(l->device_size, l->rank, "[", "]", out);
        print_numbers(l->stride_map, l->rank, "{", "}", out);
        if (l->arrangement != SPYRE_ARRANGEMENT_STANDARD) {
            text_printf(out, " %s", spyre_arrangement_name(l->arrangement));
        }
    }
    if (input->dims) {
        text_append(out, " dims ");
        graph_print_string(graph->locations.items[input->dims], out);
    }
    text_append(out, "\n");
    return NULL;
}

// " into %x" behind an output that replaces the contents of input x.
static void print_update(const spyre_graph *graph, uint32_t output, text *out)
{
    for (uint32_t i = 0; i < graph->inputs.count; i++) {
        const graph_input *input = &graph->inputs.items[i];
        if (input->update != output + 1) continue;
        text_printf(out, " into %%%s", graph->values.items[input->value].name);
    }
}

// A text of spyre_graph.locations behind its word; nothing for 0.
static void print_note(const spyre_graph *graph, const char *word, uint32_t note, text *out)
{
    if (!note) return;
    text_printf(out, " %s ", word);
    graph_print_string(graph->locations.items[note], out);
}

void graph_print_call(const spyre_graph *graph, const graph_node *node, text *out)
{
    text_printf(out, "%s(", node->op_name);
    print_args(graph, node->args, node->arg_count, out);
    text_append(out, ")");
}

static void print_node(const spyre_graph *graph, const graph_node *node, bool notes, text *out)
{
    for (uint32_t i = 0; i < node->result_count; i++) {
        text_printf(out, i ? ", %%%s" : "%%%s", graph->values.items[node->results[i]].name);
    }
    if (node->result_count) text_append(out, " = ");
    graph_print_call(graph, node, out);
    for (uint32_t i = 0; i < node->result_count; i++) {
        text_append(out, i ? ", " : " -> ");
        graph_print_type(graph, &graph->values.items[node->results[i]], out);
    }
    print_note(graph, "@", node->location, out);
    print_note(graph, "work_div", node->hint.work_div, out);
    print_note(graph, "tiles", node->hint.tiles, out);
    print_note(graph, "dims", node->hint.dims, out);
    if (notes && node->layer == GRAPH_LAYER_HOST) {
        text_printf(out, "  # host: %s", node->reason ? node->reason : "");
    }
    text_append(out, "\n");
}

spyre_status graph_print(const spyre_graph *graph, bool notes, text *out)
{
    print_symbols(graph, out);
    for (uint32_t i = 0; i < graph->inputs.count; i++) {
        TRY(print_input(graph, &graph->inputs.items[i], out));
    }
    for (uint32_t i = 0; i < graph->nodes.count; i++) {
        print_node(graph, &graph->nodes.items[i], notes, out);
    }
    text_append(out, "return");
    for (uint32_t i = 0; i < graph->outputs.count; i++) {
        text_printf(out, i ? ", %%%s" : " %%%s", graph->values.items[graph->outputs.items[i]].name);
        print_update(graph, i, out);
    }
    text_append(out, "\n");
    return text_status(out);
}

spyre_status spyre_graph_print(const spyre_graph *graph, char **out_text)
{
    text out = {0};
    *out_text = NULL;
    spyre_status status = graph_print(graph, false, &out);
    if (status) {
        text_free(&out);
        return status;
    }
    *out_text = out.bytes;
    return NULL;
}

void spyre_string_free(char *string)
{
    free(string);
}
