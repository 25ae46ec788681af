// SPDX-License-Identifier: Apache-2.0
//
// The page is made from the texts of a dump alone, so it shows any dump, also one that was carried
// here. Nothing of them reaches the page but as escaped text and checked numbers.
#include "spyre/explore.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "compile/explore/explore_stage.h"
#include "compile/explore/lx_stage.h"
#include "compile/explore/lx_map_picture.h"
#include "compile/explore/markup.h"

enum { MOST_FILE_BYTES = 256 << 20 };

static const char style[] = {
#include "explore_css.inc"
};

static const char script[] = {
#include "explore_js.inc"
};

typedef struct {
    arena *memory;
    const char *directory;
    const char *stages;         // "stages/" when that holds the segments' stages, else ""
    text *out;
} page;

typedef struct {
    uint32_t number;
    explore_ops ops;
} segment;

static spyre_status read_text(const page *p, const char *name, explore_file *out)
{
    char *content;
    size_t length;
    *out = (explore_file){0};
    out->path = file_join(p->memory, p->directory, name);
    TRY_ALLOC(out->path);
    TRY(file_read_member(p->memory, p->directory, name, MOST_FILE_BYTES, &content, &length));
    if (strlen(content) != length)
        return status_new(SPYRE_INVALID_FORMAT, "%s: not a text: byte %zu is zero", out->path,
                          strlen(content));
    out->content = content;
    return NULL;
}

static spyre_status read_stage(const page *p, uint32_t number, const char *stage,
                               explore_file *out)
{
    char *name = arena_printf(p->memory, "%ssegment%u.%s", p->stages, number, stage);
    TRY_ALLOC(name);
    return read_text(p, name, out);
}

// --- Stages side by side

// A section of one of the page's classes: "stage", beside others, or "wide".
static void begin_section(const page *p, const char *width, const char *name, const char *title)
{
    text_printf(p->out, "<section class=\"%s\" data-stage=\"%s\"><h2>%s</h2>"
                "<div class=\"scroll\">\n", width, name, title);
}

static void end_section(const page *p)
{
    text_append(p->out, "</div></section>\n");
}

static spyre_status print_lines(const page *p, const segment *s, const char *width,
                                const char *title, const char *name, explore_kind kind,
                                const explore_file *file)
{
    begin_section(p, width, name, title);
    TRY(explore_print(kind, p->memory, file, &s->ops, p->out));
    end_section(p);
    return NULL;
}

static spyre_status print_stage(const page *p, const segment *s, const char *width,
                                const char *title, const char *stage, explore_kind kind)
{
    explore_file file = {0};
    TRY(read_stage(p, s->number, stage, &file));
    return print_lines(p, s, width, title, stage, kind, &file);
}

typedef struct {
    const char *name;
    explore_file listing;
} pass;

typedef VEC(pass) pass_list;

// "after NAME", then the loop IR.
static spyre_status cut_passes(const page *p, const explore_file *file, pass_list *out)
{
    static const char mark[] = "after ";
    for (const char *at = file->content; *at;) {
        if (strncmp(at, mark, strlen(mark)) != 0)
            return status_new(SPYRE_INVALID_FORMAT, "%s: does not begin with '%sPASS'", file->path,
                              mark);
        const char *name = at + strlen(mark);
        const char *body = name + strcspn(name, "\n");
        const char *end = strstr(body, "\nafter ");
        if (!end) {
            end = body + strlen(body);
            if (end - body > 1 && end[-1] == '\n' && end[-2] == '\n') end--;
        }
        pass one = {arena_strndup(p->memory, name, (size_t)(body - name)),
                    {file->path, arena_strndup(p->memory, body, (size_t)(end - body))}};
        TRY_ALLOC(one.name);
        TRY_ALLOC(one.listing.content);
        if (*one.listing.content) one.listing.content++;
        TRY(VEC_PUSH(p->memory, out, one));
        at = end + (*end == '\n');
    }
    return NULL;
}

static void print_pass_choice(const page *p, const pass_list *passes)
{
    text_append(p->out, "<section class=\"stage\" data-stage=\"loop\"><h2><label>Loop IR after "
                "<select class=\"pass\">");
    for (uint32_t i = 0; i < passes->count; i++) {
        text_printf(p->out, "<option value=\"%u\">", i);
        markup_append(p->out, passes->items[i].name);
        text_append(p->out, "</option>");
    }
    text_append(p->out, "<option value=\"final\" selected>all passes</option></select></label></h2>"
                "<div class=\"scroll\">\n");
}

static spyre_status print_loops(const page *p, const segment *s, const explore_file *final)
{
    explore_file file = {0};
    pass_list passes = {0};
    TRY(read_stage(p, s->number, "passes", &file));
    TRY(cut_passes(p, &file, &passes));
    print_pass_choice(p, &passes);
    for (uint32_t i = 0; i < passes.count; i++) {
        text_printf(p->out, "<div data-pass=\"%u\" hidden>\n", i);
        TRY(explore_print(EXPLORE_PASS, p->memory, &passes.items[i].listing, &s->ops, p->out));
        text_append(p->out, "</div>\n");
    }
    text_append(p->out, "<div data-pass=\"final\">\n");
    TRY(explore_print(EXPLORE_LOOP, p->memory, final, &s->ops, p->out));
    text_append(p->out, "</div>");
    end_section(p);
    return NULL;
}

// --- Below them

static void print_core(const page *p, const explore_op *op, uint32_t core)
{
    if (core >= op->cores) {
        text_append(p->out, "<td></td>");
        return;
    }
    text_append(p->out, "<td>");
    for (uint32_t i = 0; i < op->split_count; i++) {
        const explore_split *split = &op->split[i];
        text_printf(p->out, "%s%u", i ? "," : "", core / split->core_stride % split->slices);
    }
    text_append(p->out, op->split_count ? "</td>" : "all</td>");
}

static void print_core_row(const page *p, const segment *s, uint32_t index)
{
    const explore_op *op = &s->ops.items[index];
    text_printf(p->out, "<tr data-op=\"%u\" data-node=\"", index);
    markup_append(p->out, op->node);
    text_printf(p->out, "\"><th scope=\"row\"><a href=\"#segment=%u&amp;op=%u\">%u ", s->number,
                index, index);
    markup_append(p->out, op->opfunc);
    text_append(p->out, "</a></th><td>");
    for (uint32_t i = 0; i < op->split_count; i++)
        text_printf(p->out, "%sc%u/%u", i ? " " : "", op->split[i].var, op->split[i].slices);
    text_append(p->out, "</td>");
    for (uint32_t core = 0; core < EXPLORE_CORES; core++) print_core(p, op, core);
    text_append(p->out, "</tr>\n");
}

static void print_cores(const page *p, const segment *s)
{
    begin_section(p, "wide", "cores", "Slices of each core");
    text_append(p->out, "<table><tr><th>op</th><th>loops</th>");
    for (uint32_t core = 0; core < EXPLORE_CORES; core++) text_printf(p->out, "<th>%u</th>", core);
    text_append(p->out, "</tr>\n");
    for (uint32_t i = 0; i < s->ops.count; i++) print_core_row(p, s, i);
    text_append(p->out, "</table>");
    end_section(p);
}

static spyre_status print_lx(const page *p, const segment *s)
{
    explore_file file = {0};
    lx_map map;
    const char *title = "";
    TRY(read_stage(p, s->number, "lx", &file));
    TRY(lx_map_parse(p->memory, file.path, file.content, &map));
    if (map.ops.count != s->ops.count)
        return status_new(SPYRE_INVALID_FORMAT, "%s: %u ops, segment%u.loop has %u", file.path,
                          map.ops.count, s->number, s->ops.count);
    begin_section(p, "wide", "lx", "LX of a core over time");
    lx_picture_print(&map, &title, 1, p->out);
    end_section(p);
    return NULL;
}

// A file of the whole compilation; none when the dump has none.
static spyre_status print_document(const page *p, const segment *s, const char *width,
                                   const char *title, const char *section, explore_kind kind,
                                   const char *name)
{
    explore_file file = {0};
    const char *path = file_join(p->memory, p->directory, name);
    TRY_ALLOC(path);
    if (!file_exists(path)) return NULL;
    TRY(read_text(p, name, &file));
    return print_lines(p, s, width, title, section, kind, &file);
}

static spyre_status print_segment(const page *p, uint32_t number)
{
    segment s = {.number = number};
    explore_file loop = {0};
    TRY(read_stage(p, number, "loop", &loop));
    TRY(explore_read_ops(p->memory, &loop, &s.ops));
    text_printf(p->out, "<article id=\"segment%u\" data-segment=\"%u\"><div class=\"stages\">\n",
                number, number);
    TRY(print_document(p, &s, "stage", "FX graph as traced", "traced", EXPLORE_FX,
                       "fx_graph_readable.py"));
    TRY(print_document(p, &s, "stage", "FX graph as handed over", "fx", EXPLORE_FX,
                       "fx_graph_transformed.py"));
    TRY(print_stage(p, &s, "stage", "Graph", "graph", EXPLORE_GRAPH));
    TRY(print_loops(p, &s, &loop));
    TRY(print_stage(p, &s, "stage", "Bundle", "bundle", EXPLORE_BUNDLE));
    TRY(print_stage(p, &s, "stage", "Program", "listing", EXPLORE_LISTING));
    text_append(p->out, "</div>\n");
    TRY(print_stage(p, &s, "wide", "Where the time goes", "why", EXPLORE_WHY));
    TRY(print_document(p, &s, "wide", "How far from float64", "numerics", EXPLORE_ERRORS,
                       "numerics.txt"));
    TRY(print_stage(p, &s, "wide", "Cost by the planner's model", "cost", EXPLORE_COST));
    print_cores(p, &s);
    TRY(print_lx(p, &s));
    TRY(print_stage(p, &s, "wide", "What the passes took", "time", EXPLORE_PLAIN));
    TRY(print_document(p, &s, "wide", "Exchanges between cards", "exchanges", EXPLORE_PLAIN,
                       "exchanges.txt"));
    TRY(print_document(p, &s, "wide", "Who took which node", "report", EXPLORE_PLAIN,
                       "report.txt"));
    text_append(p->out, "</article>\n");
    return NULL;
}

// --- The page

typedef VEC(uint32_t) numbers;

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

// The segments that have a "segment<n>.loop".
static spyre_status find_segments(arena *memory, const char *directory, numbers *out)
{
    file_names names = {0};
    TRY(file_list(memory, directory, ".loop", &names));
    for (uint32_t i = 0; i < names.count; i++) {
        uint32_t number;
        char want[32];
        if (sscanf(names.items[i], "segment%6" SCNu32, &number) != 1) continue;
        snprintf(want, sizeof want, "segment%u.loop", number);
        if (strcmp(names.items[i], want) == 0) TRY(VEC_PUSH(memory, out, number));
    }
    if (out->count) qsort(out->items, out->count, sizeof *out->items, by_number);
    return NULL;
}

static void print_head(const page *p, const char *title, const numbers *segments)
{
    text_append(p->out, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
                "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
                "style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n<title>");
    markup_append(p->out, title);
    text_append(p->out, "</title>\n<style>\n");
    text_append_bytes(p->out, style, sizeof style);
    text_append(p->out, "</style></head><body>\n<header><h1>");
    markup_append(p->out, title);
    text_append(p->out, "</h1><label>Segment <select id=\"segment\">");
    for (uint32_t i = 0; i < segments->count; i++)
        text_printf(p->out, "<option value=\"%u\">%u</option>", segments->items[i],
                    segments->items[i]);
    text_append(p->out, "</select></label><span>Point at a line to see what it came from and "
                "became; click or Enter keeps it, j and k go on, Escape lets go.</span></header>\n"
                "<main>\n");
}

static spyre_status print_page(page *p, const char *directory)
{
    numbers segments = {0};
    const char *stages = file_join(p->memory, directory, "stages");
    TRY_ALLOC(stages);
    if (!file_is_directory(directory))
        return status_new(SPYRE_NOT_FOUND, "%s: no such directory", directory);
    bool apart = file_is_directory(stages);
    p->directory = directory;
    p->stages = apart ? "stages/" : "";
    TRY(find_segments(p->memory, apart ? stages : directory, &segments));
    if (segments.count == 0)
        return status_new(SPYRE_NOT_FOUND, "%s: holds no segment<n>.loop; a folder model__<n>.. of "
                          "TORCH_COMPILE_DEBUG=1 does, and the directory of compile --dump",
                          apart ? stages : directory);
    print_head(p, directory, &segments);
    for (uint32_t i = 0; i < segments.count; i++) TRY(print_segment(p, segments.items[i]));
    text_append(p->out, "</main>\n<script>\n");
    text_append_bytes(p->out, script, sizeof script);
    text_append(p->out, "</script></body></html>\n");
    return text_status(p->out);
}

spyre_status spyre_explore(const char *directory, const char *path)
{
    text out = {0};
    page p = {.memory = arena_create(), .out = &out};
    TRY_ALLOC(p.memory);
    spyre_status status = print_page(&p, directory);
    if (!status) status = file_write(path, text_string(&out), out.length);
    text_free(&out);
    arena_destroy(p.memory);
    return status;
}
