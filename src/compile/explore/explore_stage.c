// SPDX-License-Identifier: Apache-2.0
//
// Every text says in a line's first words what the line is about, and lines further in belong to
// the one above. Numbers of ops change from pass to pass, names of values do not: passes are linked
// by name, what was made from the final loop IR by number.
#include "compile/explore/explore_stage.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "compile/explore/markup.h"

enum { NO_OP = -1 };

typedef struct {
    arena *memory;
    const explore_file *file;
    const explore_ops *ops;
    explore_ops *made;      // by explore_read_ops()
    text *out;
    const char *line;       // at hand, without its end
    uint32_t number;
    int64_t op;             // that lines are about, or NO_OP
    const char *nodes;      // graph values, blanks between, or null
    VEC(uint32_t) kernel_op;
} walk;

static spyre_status refuse(const walk *w, const char *what)
{
    return status_new(SPYRE_INVALID_FORMAT, "%s: line %u: %s", w->file->path, w->number, what);
}

static bool begins(const char *line, const char *words)
{
    return strncmp(line, words, strlen(words)) == 0;
}

static spyre_status about_op(walk *w, uint32_t op)
{
    if (op >= w->ops->count)
        return status_new(SPYRE_INVALID_FORMAT, "%s: line %u: op %u, the final loop IR has %u ops",
                          w->file->path, w->number, op, w->ops->count);
    w->op = op;
    w->nodes = w->ops->items[op].node;
    return NULL;
}

static void about_nothing(walk *w)
{
    w->op = NO_OP;
    w->nodes = NULL;
}

static void put_line(const walk *w)
{
    text_append(w->out, "<div class=\"l\"");
    if (w->op != NO_OP) text_printf(w->out, " data-op=\"%" PRId64 "\"", w->op);
    if (w->nodes) {
        text_append(w->out, " data-node=\"");
        markup_append(w->out, w->nodes);
        text_append(w->out, "\"");
    }
    bool heads = *w->line != ' ' && (w->op != NO_OP || w->nodes);
    text_append(w->out, heads ? " tabindex=\"0\">" : ">");
    markup_append(w->out, w->line);
    text_append(w->out, "</div>\n");
}

// Says what a line is about.
typedef spyre_status line_reader(walk *w);

// Calls `about` for every line, and appends it when there is an `out`.
static spyre_status walk_lines(walk *w, line_reader *about)
{
    about_nothing(w);
    for (const char *at = w->file->content; *at;) {
        size_t length = strcspn(at, "\n");
        w->line = arena_strndup(w->memory, at, length);
        TRY_ALLOC(w->line);
        w->number++;
        TRY(about(w));
        if (w->out) put_line(w);
        at += length + (at[length] == '\n');
    }
    return NULL;
}

// --- Graph

// "%a, %b = .." gives "a b"; "input %x: .." gives "x".
static spyre_status about_graph_line(walk *w)
{
    about_nothing(w);
    bool input = begins(w->line, "input %");
    if (!input && *w->line != '%') return NULL;
    const char *from = w->line + (input ? strlen("input ") : 0);
    char *names = arena_strndup(w->memory, from, strcspn(from, input ? ":" : "="));
    TRY_ALLOC(names);
    char *to = names;
    for (const char *c = names; *c; c++)
        if (*c != '%' && *c != ',' && (*c != ' ' || c[1] == '%')) *to++ = *c;
    *to = '\0';
    w->nodes = names;
    return NULL;
}

// --- Loop IR

// The value's name behind the mark of a comment, which `end` ends.
static spyre_status read_name(const walk *w, const char *end, const char **out)
{
    const char *mark = strstr(w->line, "  // ");
    if (!mark) return refuse(w, "the name behind '  // ' is missing");
    const char *stop = strstr(mark + 5, end);
    size_t length = stop ? (size_t)(stop - mark - 5) : strlen(mark + 5);
    *out = arena_strndup(w->memory, mark + 5, length);
    TRY_ALLOC(*out);
    return NULL;
}

static spyre_status about_pass_line(walk *w)
{
    if (*w->line == ' ') return NULL;
    about_nothing(w);
    if (begins(w->line, "op ")) return read_name(w, ", ", &w->nodes);
    if (begins(w->line, "buffer ")) return read_name(w, "; in memory: ", &w->nodes);
    return NULL;
}

static spyre_status about_loop_line(walk *w)
{
    uint32_t op;
    TRY(about_pass_line(w));
    if (!begins(w->line, "op ")) return NULL;
    if (sscanf(w->line, "op %" SCNu32, &op) != 1) return refuse(w, "an op without a number");
    return about_op(w, op);
}

// " split(c0/4)", " split(c0/4:8)": the parts before the comment.
static spyre_status read_splits(const walk *w, explore_op *out)
{
    const char *end = strstr(w->line, "  // ");
    out->cores = 1;
    const char *at = strstr(w->line, " split(");
    for (; at && at < end; at = strstr(at + 1, " split(")) {
        explore_split split = {.core_stride = 1};
        if (sscanf(at, " split(c%" SCNu32 "/%" SCNu32 ":%" SCNu32, &split.var, &split.slices,
                   &split.core_stride) < 2)
            return refuse(w, "a split is 'split(cN/SLICES)' or 'split(cN/SLICES:STRIDE)'");
        bool fits = split.slices >= 2 && split.slices <= EXPLORE_CORES / out->cores &&
                    split.core_stride >= 1 && out->split_count < EXPLORE_VARS;
        if (!fits) return refuse(w, "splits make more slices than a card has cores, or none");
        out->split[out->split_count++] = split;
        out->cores *= split.slices;
    }
    return NULL;
}

static spyre_status read_op(walk *w)
{
    uint32_t number;
    char kind[64];
    explore_op op = {0};
    if (!begins(w->line, "op ")) return NULL;
    if (sscanf(w->line, "op %" SCNu32 " %63s", &number, kind) != 2 || number != w->made->count)
        return refuse(w, "ops are numbered from 0 in order");
    TRY(read_name(w, ", ", &op.node));
    TRY(read_splits(w, &op));
    const char *place = strstr(strstr(w->line, "  // "), ", ");
    op.place = arena_strdup(w->memory, place ? place + 2 : "");
    op.opfunc = arena_strdup(w->memory, kind);
    TRY_ALLOC(op.place);
    TRY_ALLOC(op.opfunc);
    return VEC_PUSH(w->memory, w->made, op);
}

spyre_status explore_read_ops(arena *memory, const explore_file *loop, explore_ops *out)
{
    *out = (explore_ops){0};
    walk w = {.memory = memory, .file = loop, .made = out};
    return walk_lines(&w, read_op);
}

// --- What is made from it: steps and kernels are called "<op>_<opfunc>"

static spyre_status about_bundle_line(walk *w)
{
    uint32_t op;
    bool listed = begins(w->line, "    step ");
    if (listed || begins(w->line, "step ")) {
        if (sscanf(w->line, " step %*u  %" SCNu32 "_", &op) != 1)
            return refuse(w, "a step is 'step N  OP_OPFUNC'");
        return about_op(w, op);
    }
    if (*w->line != ' ') about_nothing(w);
    return NULL;
}

static spyre_status about_listing_line(walk *w)
{
    uint32_t kernel, op;
    if (begins(w->line, "kernel ")) {
        int found = sscanf(w->line, "kernel %" SCNu32 " \"%" SCNu32 "_", &kernel, &op);
        if (found == 2 && kernel == w->kernel_op.count) {
            TRY(about_op(w, op));
            return VEC_PUSH(w->memory, &w->kernel_op, op);
        }
        if (found < 1 || kernel >= w->kernel_op.count)
            return refuse(w, "kernels are named \"OP_OPFUNC\" and numbered from 0 in order");
        return about_op(w, w->kernel_op.items[kernel]);
    }
    if (*w->line != ' ' && !begins(w->line, "endkernel")) about_nothing(w);
    return NULL;
}

// A kernel's line has its name behind what binds it; lines of changes begin with "if".
static spyre_status about_why_line(walk *w)
{
    uint32_t op;
    const char *bound = strstr(w->line, "-bound ");
    if (begins(w->line + strspn(w->line, " "), "if ")) return NULL;
    about_nothing(w);
    for (const char *at = bound; at && *at; at++)
        if (sscanf(at, "  %" SCNu32 "_", &op) == 1 && strspn(at, " ") == 2) return about_op(w, op);
    return bound ? refuse(w, "a kernel without a name") : NULL;
}

// --- Beside them

// "    add_1: "f16[4]" = ..", "    add_1 = .." assign to the value of that name.
static spyre_status about_fx_line(walk *w)
{
    about_nothing(w);
    const char *name = w->line + strspn(w->line, " ");
    size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
    bool assigns = begins(name + length, ": \"") || begins(name + length, " = ");
    if (!length || name == w->line || !assigns) return NULL;
    w->nodes = arena_strndup(w->memory, name, length);
    TRY_ALLOC(w->nodes);
    return NULL;
}

// Numbers, then "op N name ..".
static spyre_status about_cost_line(walk *w)
{
    uint32_t op;
    const char *mark = strstr(w->line, " op ");
    about_nothing(w);
    bool row = *w->line == ' ' && mark && sscanf(mark, " op %" SCNu32 " ", &op) == 1;
    return row ? about_op(w, op) : NULL;
}

// The values that a line of the program makes, which the last word names.
static spyre_status about_errors_line(walk *w)
{
    about_nothing(w);
    const char *blank = strrchr(w->line, ' '), *place = blank ? blank + 1 : w->line;
    size_t length = strlen(place);
    for (uint32_t i = 0; i < w->ops->count && length; i++) {
        const explore_op *op = &w->ops->items[i];
        bool here = strncmp(op->place, place, length) == 0 && strchr(" ", op->place[length]);
        if (!here) continue;
        w->nodes = arena_printf(w->memory, "%s%s%s", w->nodes ? w->nodes : "", w->nodes ? " " : "",
                                op->node);
        TRY_ALLOC(w->nodes);
    }
    return NULL;
}

static spyre_status about_plain_line(walk *w)
{
    (void)w;
    return NULL;
}

static line_reader *const readers[] = {
    [EXPLORE_GRAPH] = about_graph_line,     [EXPLORE_PASS] = about_pass_line,
    [EXPLORE_LOOP] = about_loop_line,       [EXPLORE_BUNDLE] = about_bundle_line,
    [EXPLORE_LISTING] = about_listing_line, [EXPLORE_WHY] = about_why_line,
    [EXPLORE_FX] = about_fx_line,           [EXPLORE_COST] = about_cost_line,
    [EXPLORE_ERRORS] = about_errors_line,   [EXPLORE_PLAIN] = about_plain_line,
};

spyre_status explore_print(explore_kind kind, arena *memory, const explore_file *file,
                           const explore_ops *ops, text *out)
{
    walk w = {.memory = memory, .file = file, .ops = ops, .out = out};
    return walk_lines(&w, readers[kind]);
}
