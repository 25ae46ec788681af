// SPDX-License-Identifier: Apache-2.0
//
// Reads the text form, docs/graph-text.md. Legality of values and nodes is the builder's business;
// its messages get the line in front.
#include <math.h>
#include <string.h>

#include "base/scanner.h"
#include "graph/text/print.h"
#include "tensor/scalar.h"

typedef struct {
    scanner in;
    spyre_graph *graph;
} parser;

// A builder's error at the place where the statement began.
static spyre_status at_line(const parser *p, spyre_status status)
{
    return status_at(status, "%s:%u", p->in.file_name, p->in.line);
}

static spyre_status read_expression(parser *p, expr_id *out_expression)
{
    *out_expression = expr_parse(p->graph->exprs, &p->in);
    if (*out_expression != EXPR_NONE) return NULL;
    if (expr_short_of_memory(p->graph->exprs)) return status_no_memory();
    return scan_error(&p->in, "expected an expression of ints and declared symbols");
}

// "a, b, c]": up to SPYRE_MAX_RANK expressions and the closing bracket.
static spyre_status read_expressions(parser *p, const char *close, expr_id *out,
                                     uint32_t *out_count)
{
    *out_count = 0;
    if (scan_accept(&p->in, close)) return NULL;
    do {
        if (*out_count == SPYRE_MAX_RANK) {
            return scan_error(&p->in, "more than %d dims", SPYRE_MAX_RANK);
        }
        TRY(read_expression(p, &out[(*out_count)++]));
    } while (scan_accept(&p->in, ","));
    return scan_expect(&p->in, close);
}

// [sizes]{strides}+offset
static spyre_status read_view(parser *p, graph_view *view)
{
    uint32_t strides = 0;
    *view = (graph_view){0};
    TRY(scan_expect(&p->in, "["));
    TRY(read_expressions(p, "]", view->size, &view->rank));
    if (!graph_view_set_contiguous(p->graph, view)) {
        if (expr_short_of_memory(p->graph->exprs)) return status_no_memory();
        return scan_error(&p->in, "the sizes are too large");
    }
    if (scan_accept(&p->in, "{")) {
        TRY(read_expressions(p, "}", view->stride, &strides));
        if (strides != view->rank) {
            return scan_error(&p->in, "%u strides for %u sizes", strides, view->rank);
        }
    }
    if (scan_accept(&p->in, "+")) TRY(read_expression(p, &view->offset));
    return NULL;
}

static spyre_status read_dtype(parser *p, spyre_dtype *out_dtype)
{
    size_t length;
    const char *word = scan_peek_word(&p->in, &length);
    if (!graph_dtype_of_word(word, length, out_dtype)) {
        return scan_error(&p->in, "expected a dtype such as f16");
    }
    p->in.at += length;
    return NULL;
}

static spyre_status read_type(parser *p, graph_type *type)
{
    TRY(read_dtype(p, &type->dtype));
    TRY(read_view(p, &type->view));
    type->on_card = !scan_accept_word(&p->in, "host");
    return NULL;
}

static spyre_status read_value(parser *p, uint32_t *out_value)
{
    const char *name = NULL;
    TRY(scan_expect(&p->in, "%"));
    const scanner before = p->in;
    TRY(scan_name(&p->in, "a name", &name));
    if (map_string_get(&p->graph->value_names, name, out_value)) return NULL;
    return scan_error(&before, "no value is named %%%s", name);
}

static spyre_status read_symbol(parser *p)
{
    const char *name = NULL;
    int64_t least, most, granularity = 1;
    TRY(scan_name(&p->in, "a name", &name));
    TRY(scan_expect(&p->in, ":"));
    TRY(scan_int(&p->in, &least));
    TRY(scan_expect(&p->in, ".."));
    TRY(scan_int(&p->in, &most));
    if (scan_accept_word(&p->in, "step")) TRY(scan_int(&p->in, &granularity));
    if (strpbrk(name, ".$") || (*name >= '0' && *name <= '9')) {
        return scan_error(&p->in, "\"%s\" is no name of a symbol", name);
    }
    if (expr_find_symbol(p->graph->exprs, name) != EXPR_NONE) {
        return scan_error(&p->in, "symbol %s is already declared", name);
    }
    if (least > most || granularity < 1) {
        return scan_error(&p->in, "a symbol needs least <= most and step >= 1");
    }
    expr_id symbol = expr_symbol(p->graph->exprs, name, least, most, granularity);
    return symbol == EXPR_NONE ? status_no_memory() : NULL;
}

static spyre_status read_numbers(parser *p, const char *close, int64_t *out, uint32_t *out_count)
{
    *out_count = 0;
    do {
        if (*out_count == SPYRE_MAX_DEVICE_RANK) {
            return scan_error(&p->in, "more than %d device dims", SPYRE_MAX_DEVICE_RANK);
        }
        TRY(scan_int(&p->in, &out[(*out_count)++]));
    } while (scan_accept(&p->in, ","));
    return scan_expect(&p->in, close);
}

// FORMAT[device sizes]{stride map} ARRANGEMENT
static spyre_status read_layout(parser *p, spyre_layout *layout)
{
    const char *format = NULL;
    uint32_t strides = 0;
    TRY(scan_name(&p->in, "a format", &format));
    layout->format = spyre_format_named(format);
    if (layout->format == SPYRE_FORMAT_INVALID) {
        return scan_error(&p->in, "\"%s\" is no format of the card", format);
    }
    TRY(scan_expect(&p->in, "["));
    TRY(read_numbers(p, "]", layout->device_size, &layout->rank));
    TRY(scan_expect(&p->in, "{"));
    TRY(read_numbers(p, "}", layout->stride_map, &strides));
    if (strides != layout->rank) {
        return scan_error(&p->in, "%u strides for %u device sizes", strides, layout->rank);
    }
    for (int i = SPYRE_ARRANGEMENT_DL16_TO_FP32; i < SPYRE_ARRANGEMENT_COUNT; i++) {
        if (scan_accept_word(&p->in, spyre_arrangement_name((spyre_arrangement)i))) {
            layout->arrangement = (spyre_arrangement)i;
        }
    }
    return NULL;
}

static spyre_status read_input(parser *p)
{
    const char *name = NULL;
    graph_type type;
    graph_view storage;
    spyre_layout layout = {0};
    uint32_t value;
    TRY(scan_expect(&p->in, "%"));
    TRY(scan_name(&p->in, "a name", &name));
    TRY(scan_expect(&p->in, ":"));
    TRY(read_type(p, &type));
    bool has_storage = scan_accept_word(&p->in, "storage");
    if (has_storage) TRY(read_view(p, &storage));
    bool has_layout = has_storage && scan_accept_word(&p->in, "layout");
    if (has_layout) TRY(read_layout(p, &layout));
    const char *dims = NULL;
    if (scan_accept_word(&p->in, "dims")) TRY(scan_string(&p->in, &dims));
    TRY(at_line(p, graph_add_value(p->graph, name, &type, &value)));
    TRY(at_line(p, graph_add_input(p->graph, value, has_storage ? &storage : NULL,
                                   has_layout ? &layout : NULL)));
    return dims ? at_line(p, spyre_graph_name_dims(p->graph, value, dims)) : NULL;
}

typedef VEC(spyre_arg) arg_list;

static spyre_status read_arg(parser *p, uint32_t depth, spyre_arg *out_arg);

// "a, b, c)" and the closing character.
static spyre_status read_args(parser *p, const char *close, uint32_t depth, arg_list *out)
{
    if (depth > GRAPH_DEEPEST_LIST) {
        return scan_error(&p->in, "lists lie more than %d deep", GRAPH_DEEPEST_LIST);
    }
    if (scan_accept(&p->in, close)) return NULL;
    do {
        spyre_arg arg = {0};
        TRY(read_arg(p, depth, &arg));
        TRY(VEC_PUSH(p->graph->memory, out, arg));
    } while (scan_accept(&p->in, ","));
    return scan_expect(&p->in, close);
}

static spyre_status read_list(parser *p, uint32_t depth, spyre_arg *out_arg)
{
    arg_list items = {0};
    TRY(read_args(p, "]", depth + 1, &items));
    out_arg->kind = SPYRE_ARG_LIST;
    out_arg->of.list.items = items.items;
    out_arg->of.list.count = items.count;
    return NULL;
}

// "0(2.0)" or "0(0.25 rest)", behind the dollar sign.
static spyre_status read_scalar(parser *p, spyre_arg *out_arg)
{
    int64_t index, integer = 0;
    double real = 0;
    bool is_int;
    size_t length;
    TRY(scan_int(&p->in, &index));
    if (index < 0 || index >= GRAPH_MOST_SCALARS)
        return scan_error(&p->in, "scalar %lld: at most %d", (long long)index, GRAPH_MOST_SCALARS);
    TRY(scan_expect(&p->in, "("));
    TRY(scan_number(&p->in, &is_int, &integer, &real));
    *out_arg = (spyre_arg){.kind = SPYRE_ARG_SCALAR,
                           .of.scalar = {.index = (uint32_t)index,
                                         .is_int = is_int,
                                         .like = is_int ? (double)integer : real}};
    const char *word = scan_peek_word(&p->in, &length);
    if (length && !scalar_form_named(word, length, &out_arg->of.scalar.form))
        return scan_error(&p->in, "a scalar has no form '%.*s'", (int)length, word);
    p->in.at += length;
    return scan_expect(&p->in, ")");
}

// none, true, false, inf, nan or a dtype; false when the next word is none of them.
static bool accept_word_arg(parser *p, spyre_arg *out_arg)
{
    size_t length;
    spyre_dtype dtype;
    if (scan_accept_word(&p->in, "none")) {
        out_arg->kind = SPYRE_ARG_NONE;
    } else if (scan_accept_word(&p->in, "true") || scan_accept_word(&p->in, "false")) {
        out_arg->kind = SPYRE_ARG_BOOL;
        out_arg->of.boolean = p->in.at[-2] == 'u';
    } else if (scan_accept_word(&p->in, "inf") || scan_accept(&p->in, "-inf")) {
        out_arg->kind = SPYRE_ARG_FLOAT;
        out_arg->of.real = p->in.at[-4] == '-' ? -HUGE_VAL : HUGE_VAL;
    } else if (scan_accept_word(&p->in, "nan")) {
        out_arg->kind = SPYRE_ARG_FLOAT;
        out_arg->of.real = (double)NAN;
    } else {
        const char *word = scan_peek_word(&p->in, &length);
        if (!graph_dtype_of_word(word, length, &dtype)) return false;
        p->in.at += length;
        out_arg->kind = SPYRE_ARG_DTYPE;
        out_arg->of.dtype = dtype;
    }
    return true;
}

static spyre_status read_arg(parser *p, uint32_t depth, spyre_arg *out_arg)
{
    bool is_int;
    scan_blanks(&p->in);
    if (*p->in.at == '%') {
        out_arg->kind = SPYRE_ARG_VALUE;
        return read_value(p, &out_arg->of.value);
    }
    if (*p->in.at == '"') {
        out_arg->kind = SPYRE_ARG_STRING;
        return scan_string(&p->in, &out_arg->of.string);
    }
    if (scan_accept(&p->in, "[")) return read_list(p, depth, out_arg);
    if (scan_accept(&p->in, "$")) return read_scalar(p, out_arg);
    if (accept_word_arg(p, out_arg)) return NULL;
    int64_t integer = 0;
    double real = 0;
    TRY(scan_number(&p->in, &is_int, &integer, &real));
    out_arg->kind = is_int ? SPYRE_ARG_INT : SPYRE_ARG_FLOAT;
    if (is_int)
        out_arg->of.integer = integer;
    else
        out_arg->of.real = real;
    return NULL;
}

typedef VEC(const char *) name_list;
typedef VEC(uint32_t) id_list;

// "%a, %b =": nothing for a node without results.
static spyre_status read_result_names(parser *p, name_list *names)
{
    scan_blanks(&p->in);
    if (*p->in.at != '%') return NULL;
    do {
        const char *name = NULL;
        TRY(scan_expect(&p->in, "%"));
        TRY(scan_name(&p->in, "a name", &name));
        TRY(VEC_PUSH(p->graph->memory, names, name));
    } while (scan_accept(&p->in, ","));
    return scan_expect(&p->in, "=");
}

static spyre_status read_results(parser *p, const name_list *names, id_list *results)
{
    for (uint32_t i = 0; i < names->count; i++) {
        graph_type type;
        uint32_t value;
        TRY(scan_expect(&p->in, i ? "," : "->"));
        TRY(read_type(p, &type));
        TRY(at_line(p, graph_add_value(p->graph, names->items[i], &type, &value)));
        TRY(VEC_PUSH(p->graph->memory, results, value));
    }
    return NULL;
}

static spyre_status read_node(parser *p)
{
    name_list names = {0};
    arg_list args = {0};
    id_list results = {0};
    const char *location = NULL, *work_div = NULL, *tiles = NULL, *dims = NULL;
    graph_new_node node = {.origin = p->graph->nodes.count};
    uint32_t id;
    TRY(read_result_names(p, &names));
    TRY(scan_name(&p->in, "symbol, input, return, or a node", &node.op_name));
    TRY(scan_expect(&p->in, "("));
    TRY(read_args(p, ")", 0, &args));
    TRY(read_results(p, &names, &results));
    if (scan_accept(&p->in, "@")) TRY(scan_string(&p->in, &location));
    if (scan_accept_word(&p->in, "work_div")) TRY(scan_string(&p->in, &work_div));
    if (scan_accept_word(&p->in, "tiles")) TRY(scan_string(&p->in, &tiles));
    if (scan_accept_word(&p->in, "dims")) TRY(scan_string(&p->in, &dims));
    TRY(graph_add_location(p->graph, location, &node.location));
    node.args = args.items;
    node.arg_count = args.count;
    node.results = results.items;
    node.result_count = results.count;
    TRY(at_line(p, graph_add_node(p->graph, &node, &id)));
    if (work_div) TRY(at_line(p, spyre_graph_set_work_division(p->graph, id, work_div)));
    if (tiles) TRY(at_line(p, spyre_graph_set_tiles(p->graph, id, tiles)));
    if (dims) TRY(at_line(p, spyre_graph_name_result(p->graph, id, dims)));
    p->graph->caller_node_count = p->graph->nodes.count;
    return NULL;
}

static spyre_status read_return(parser *p)
{
    scan_blanks(&p->in);
    if (*p->in.at != '%') return NULL;
    do {
        uint32_t value, input;
        TRY(read_value(p, &value));
        if (scan_accept_word(&p->in, "into")) {
            TRY(read_value(p, &input));
            TRY(at_line(p, spyre_graph_add_update(p->graph, value, input)));
        } else {
            TRY(VEC_PUSH(p->graph->memory, &p->graph->outputs, value));
        }
    } while (scan_accept(&p->in, ","));
    return NULL;
}

static spyre_status read_graph(parser *p)
{
    bool returned = false;
    while (!returned) {
        if (!scan_next_line(&p->in)) return scan_error(&p->in, "the return line is missing");
        if (scan_accept_word(&p->in, "symbol")) {
            TRY(read_symbol(p));
        } else if (scan_accept_word(&p->in, "input")) {
            TRY(read_input(p));
        } else if (scan_accept_word(&p->in, "return")) {
            TRY(read_return(p));
            returned = true;
        } else {
            TRY(read_node(p));
        }
        TRY(scan_line_end(&p->in));
    }
    if (scan_next_line(&p->in)) return scan_error(&p->in, "text after the return line");
    return NULL;
}

spyre_status spyre_graph_parse(const char *source, const char *file_name, spyre_graph **out_graph)
{
    *out_graph = NULL;
    spyre_graph *graph = NULL;
    TRY(spyre_graph_create(&graph));
    parser p = {.in = scan_start(graph->memory, source, file_name ? file_name : "graph"),
                .graph = graph};
    spyre_status status = read_graph(&p);
    if (status) {
        spyre_graph_destroy(graph);
        return status;
    }
    *out_graph = graph;
    return NULL;
}
