// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <string.h>

#include "base/scanner.h"
#include "graph/pattern/pattern.h"

typedef struct {
    scanner in;
    pattern *pattern;
} reader;

static spyre_status name_index(reader *r, const char *name, uint32_t *out_index)
{
    pattern *p = r->pattern;
    for (*out_index = 0; *out_index < p->name_count; ++*out_index)
        if (strcmp(p->names[*out_index], name) == 0) return NULL;
    if (p->name_count == PATTERN_MOST_NAMES)
        return scan_error(&r->in, "more than %d names", PATTERN_MOST_NAMES);
    p->names[p->name_count++] = name;
    return NULL;
}

// "%x"
static spyre_status read_tensor(reader *r, uint32_t *out_name)
{
    const char *name;
    TRY(scan_expect(&r->in, "%"));
    TRY(scan_name(&r->in, "a tensor's name", &name));
    return name_index(r, name, out_name);
}

// "$s", "$last(%x)" or "$inverse($s)"; '$' is a character of names.
static spyre_status read_number_form(reader *r, pattern_arg *out)
{
    const char *name;
    TRY(scan_name(&r->in, "a number's name", &name));
    if (strcmp(name, "$last") == 0) {
        out->kind = PATTERN_LAST;
        TRY(scan_expect(&r->in, "("));
        TRY(read_tensor(r, &out->name));
        return scan_expect(&r->in, ")");
    }
    out->kind = PATTERN_NUMBER;
    if (strcmp(name, "$inverse") == 0) {
        out->kind = PATTERN_INVERSE;
        TRY(scan_expect(&r->in, "("));
        TRY(scan_name(&r->in, "a number's name", &name));
        TRY(scan_expect(&r->in, ")"));
    }
    return name_index(r, name, &out->name);
}

static spyre_status read_number(reader *r, spyre_arg *out)
{
    bool is_int;
    TRY(scan_number(&r->in, &is_int, &out->of.integer, &out->of.real));
    out->kind = is_int ? SPYRE_ARG_INT : SPYRE_ARG_FLOAT;
    return NULL;
}

// "[%x, %y]" behind its bracket
static spyre_status read_pair(reader *r, pattern_arg *out)
{
    out->kind = PATTERN_PAIR;
    TRY(read_tensor(r, &out->name));
    TRY(scan_expect(&r->in, ","));
    TRY(read_tensor(r, &out->second));
    return scan_expect(&r->in, "]");
}

// "[-1]", "[$last(%x)]" or "[%x, %y]"
static spyre_status read_list(reader *r, pattern_arg *out)
{
    size_t length;
    spyre_arg *item = ARENA_NEW(r->in.memory, spyre_arg, 1);
    TRY_ALLOC(item);
    if (*scan_peek_word(&r->in, &length) == '%') return read_pair(r, out);
    if (*scan_peek_word(&r->in, &length) == '$') {
        TRY(read_number_form(r, out));
        out->listed = true;
        return scan_expect(&r->in, "]");
    }
    TRY(read_number(r, item));
    out->literal.kind = SPYRE_ARG_LIST;
    out->literal.of.list.items = item;
    out->literal.of.list.count = 1;
    return scan_expect(&r->in, "]");
}

static bool accept_word(reader *r, spyre_arg *out)
{
    static const struct {
        const char *word;
        spyre_arg arg;
    } words[] = {
        {"none", {.kind = SPYRE_ARG_NONE}},
        {"true", {.kind = SPYRE_ARG_BOOL, .of.boolean = true}},
        {"false", {.kind = SPYRE_ARG_BOOL, .of.boolean = false}},
        {"f16", {.kind = SPYRE_ARG_DTYPE, .of.dtype = SPYRE_DTYPE_F16}},
        {"f32", {.kind = SPYRE_ARG_DTYPE, .of.dtype = SPYRE_DTYPE_F32}},
    };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (!scan_accept_word(&r->in, words[i].word)) continue;
        *out = words[i].arg;
        return true;
    }
    return false;
}

static spyre_status read_arg(reader *r, pattern_arg *out)
{
    size_t length;
    *out = (pattern_arg){.kind = PATTERN_LITERAL};
    const char *next = scan_peek_word(&r->in, &length);
    if (scan_accept_word(&r->in, "_")) {
        out->kind = PATTERN_ANY;
        return NULL;
    }
    if (*next == '%') {
        out->kind = PATTERN_TENSOR;
        return read_tensor(r, &out->name);
    }
    if (*next == '$') return read_number_form(r, out);
    if (scan_accept(&r->in, "[")) return read_list(r, out);
    if (*next == '"') {
        out->literal.kind = SPYRE_ARG_STRING;
        return scan_string(&r->in, &out->literal.of.string);
    }
    return accept_word(r, &out->literal) ? NULL : read_number(r, &out->literal);
}

// "op(a, b)"
static spyre_status read_call(reader *r, pattern_call *out)
{
    TRY(scan_name(&r->in, "an operation", &out->op));
    TRY(scan_expect(&r->in, "("));
    do {
        if (out->arg_count == PATTERN_MOST_ARGS)
            return scan_error(&r->in, "more than %d arguments", PATTERN_MOST_ARGS);
        TRY(read_arg(r, &out->args[out->arg_count++]));
    } while (scan_accept(&r->in, ","));
    TRY(scan_expect(&r->in, ")"));
    return scan_line_end(&r->in);
}

static spyre_status read_line(reader *r)
{
    pattern *p = r->pattern;
    if (scan_accept_word(&r->in, "becomes")) return read_call(r, &p->becomes);
    if (scan_accept_word(&r->in, "if")) {
        if (p->condition_count == sizeof p->conditions / sizeof p->conditions[0])
            return scan_error(&r->in, "too many conditions");
        pattern_call *condition = &p->conditions[p->condition_count++];
        TRY(read_call(r, condition));
        return pattern_knows(condition) ? NULL
                                        : scan_error(&r->in, "no condition %s of %u tensors",
                                                     condition->op, condition->arg_count);
    }
    if (p->node_count == PATTERN_MOST_NODES)
        return scan_error(&r->in, "more than %d nodes", PATTERN_MOST_NODES);
    pattern_call *node = &p->nodes[p->node_count++];
    TRY(read_tensor(r, &node->result));
    TRY(scan_expect(&r->in, "="));
    return read_call(r, node);
}

spyre_status pattern_parse(const char *name, const char *source, arena *memory,
                           pattern *out_pattern)
{
    *out_pattern = (pattern){.name = name};
    reader r = {scan_start(memory, source, name), out_pattern};
    while (scan_next_line(&r.in)) TRY(read_line(&r));
    if (out_pattern->node_count == 0 || !out_pattern->becomes.op)
        return scan_error(&r.in, "a pattern needs nodes and what they become");
    return NULL;
}

static const struct {
    const char *name, *text;
} rows[] = {
#define PATTERN(name, ...) {#name, __VA_ARGS__},
#include "graph/pattern/pattern.def"
};

enum { ROWS = sizeof rows / sizeof rows[0] };

// Read once a process and kept: the rows are constants. A failure, which can only be of memory once
// the tests pass, leaves nothing behind, and the next caller tries again.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const pattern *table;
static arena *table_memory;

static spyre_status read_rows(arena *memory, const pattern **out)
{
    pattern *patterns = ARENA_NEW(memory, pattern, ROWS);
    TRY_ALLOC(patterns);
    for (uint32_t i = 0; i < ROWS; i++)
        TRY(pattern_parse(rows[i].name, rows[i].text, memory, &patterns[i]));
    *out = patterns;
    return NULL;
}

static spyre_status read_table(void)
{
    arena *memory = arena_create();
    TRY_ALLOC(memory);
    spyre_status status = read_rows(memory, &table);
    if (status)
        arena_destroy(memory);
    else
        table_memory = memory;
    return status;
}

spyre_status pattern_table(const pattern **out_patterns, uint32_t *out_count)
{
    pthread_mutex_lock(&lock);
    spyre_status status = table_memory ? NULL : read_table();
    *out_patterns = table;
    pthread_mutex_unlock(&lock);
    *out_count = ROWS;
    return status;
}
