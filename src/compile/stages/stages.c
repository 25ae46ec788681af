// SPDX-License-Identifier: Apache-2.0
//
// The stages of an executable as texts. Several users may share an executable and ask at a time;
// printers allocate in its memory, so they take turns.
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "compile/stages/collective_overlap.h"
#include "compile/executable.h"
#include "compile/explore/lx_stage.h"
#include "compile/explore/lx_map_picture.h"
#include "compile/inspect/inspect.h"
#include "compile/stages/op_specs.h"
#include "compile/stages/why.h"
#include "front/divide/division_text.h"
#include "front/explain/cost_table.h"
#include "front/pass_times.h"
#include "graph/text/print.h"

static spyre_status compile_again(const spyre_executable *e, spyre_executable **out_stages)
{
    spyre_graph *graph;
    if (e->make_stages) return e->make_stages(e, out_stages);
    if (!e->source)
        return status_new(SPYRE_UNSUPPORTED, "an executable that came as bytes has no stages");
    TRY(spyre_graph_parse(e->source, "a cached graph", &graph));
    spyre_status status = executable_compile(graph, &e->options, out_stages);
    spyre_graph_destroy(graph);
    return status;
}

// Its lock and what that guards are not part of its value.
static spyre_executable *shared(const spyre_executable *e)
{
    return (spyre_executable *)(uintptr_t)e;
}

spyre_status executable_with_stages(const spyre_executable *executable,
                                    const spyre_executable **out_staged)
{
    spyre_status status = NULL;
    *out_staged = executable;
    if (executable->prepared) return NULL;
    spyre_executable *e = shared(executable);
    pthread_mutex_lock(&e->lock);
    if (!e->stages) status = compile_again(e, &e->stages);
    *out_staged = e->stages;
    pthread_mutex_unlock(&e->lock);
    return status;
}

spyre_status executable_staged_segment(const spyre_executable **executable, uint32_t index,
                                       const executable_segment **out_segment)
{
    TRY(executable_card_segment(*executable, index, out_segment));
    TRY(executable_with_stages(*executable, executable));
    return executable_card_segment(*executable, index, out_segment);
}

// --- Texts

typedef struct {
    const executable_segment *segment;
    uint32_t index;
    text *out;
} printer;

static spyre_status print_graph(const printer *p)
{
    return graph_print(p->segment->graph, false, p->out);
}

static spyre_status print_loop(const printer *p)
{
    loop_print(p->segment->front.loops, p->out);
    return NULL;
}

static spyre_status print_op_specs(const printer *p)
{
    return op_specs_print(p->segment, p->out);
}

static spyre_status print_cost(const printer *p)
{
    return cost_table_print(p->segment->front.loops, p->out);
}

static spyre_status print_splits(const printer *p)
{
    division_splits_print(p->segment->front.loops, p->out);
    return NULL;
}

static spyre_status print_why(const printer *p)
{
    const executable_segment *s = p->segment;
    return why_print(s->front.loops, s->counters, s->info.kernel_count, p->out);
}

static spyre_status print_lx(const printer *p)
{
    lx_map map;
    const loop_graph *loops = p->segment->front.loops;
    TRY(lx_map_of(loops->memory, loops, &map));
    lx_map_print(&map, p->out);
    return NULL;
}

static spyre_status print_time(const printer *p)
{
    pass_times_print(&p->segment->front.records, p->out);
    return NULL;
}

static spyre_status print_bundle(const printer *p)
{
    char name[32];
    snprintf(name, sizeof name, "of segment %u", p->index);
    return inspect_print_bundle(p->segment->front.bundle, name, p->out);
}

static spyre_status print_listing(const printer *p)
{
    isa_print(p->segment->program, p->out);
    return NULL;
}

static const struct {
    const char *name;
    spyre_status (*print)(const printer *);
    bool in_dump;
} stages[] = {
    {"graph", print_graph, true}, {"loop", print_loop, true},     {"opspec", print_op_specs, false},
    {"cost", print_cost, true},   {"splits", print_splits, false}, {"why", print_why, true},
    {"lx", print_lx, true},       {"time", print_time, true},      {"bundle", print_bundle, true},
    {"listing", print_listing, true},
};

enum { STAGE_COUNT = sizeof stages / sizeof *stages };

static spyre_status unknown_stage(const char *name)
{
    text known = {0};
    for (uint32_t i = 0; i < STAGE_COUNT; i++)
        text_printf(&known, "%s%s", i ? ", " : "", stages[i].name);
    spyre_status status = status_new(SPYRE_INVALID_ARGUMENT, "stage '%.60s': expected one of %s",
                                     name, text_string(&known));
    text_free(&known);
    return status;
}

spyre_status spyre_executable_text(const spyre_executable *executable, uint32_t segment,
                                   const char *stage, char **out_text)
{
    text t = {0};
    printer p = {.index = segment, .out = &t};
    uint32_t i = 0;
    *out_text = NULL;
    while (i < STAGE_COUNT && strcmp(stage, stages[i].name) != 0) i++;
    if (i == STAGE_COUNT) return unknown_stage(stage);
    TRY(executable_staged_segment(&executable, segment, &p.segment));
    pthread_mutex_lock(&shared(executable)->lock);
    spyre_status status = stages[i].print(&p);
    pthread_mutex_unlock(&shared(executable)->lock);
    return text_give(&t, status, out_text);
}

spyre_status spyre_executable_exchanges(const spyre_executable *executable, uint32_t ranks,
                                        char **out_text)
{
    text t = {0};
    *out_text = NULL;
    TRY(executable_with_stages(executable, &executable));
    pthread_mutex_lock(&shared(executable)->lock);
    spyre_status status = exchanges_print(executable, ranks, &t);
    pthread_mutex_unlock(&shared(executable)->lock);
    return text_give(&t, status, out_text);
}

static spyre_status draw_lx(const spyre_executable *e, text *out)
{
    lx_map *maps = ARENA_NEW(e->memory, lx_map, e->segment_count);
    const char **titles = ARENA_NEW(e->memory, const char *, e->segment_count);
    uint32_t count = 0;
    TRY_ALLOC(maps);
    TRY_ALLOC(titles);
    for (uint32_t s = 0; s < e->segment_count; s++) {
        if (e->segments[s].info.kind != SPYRE_SEGMENT_CARD) continue;
        TRY(lx_map_of(e->memory, e->segments[s].front.loops, &maps[count]));
        titles[count] = arena_printf(e->memory, "segment %u", s);
        TRY_ALLOC(titles[count++]);
    }
    lx_picture_print(maps, titles, count, out);
    return text_status(out);
}

spyre_status spyre_executable_draw_lx(const spyre_executable *executable, const char *path)
{
    text t = {0};
    TRY(executable_with_stages(executable, &executable));
    pthread_mutex_lock(&shared(executable)->lock);
    spyre_status status = draw_lx(executable, &t);
    pthread_mutex_unlock(&shared(executable)->lock);
    if (!status) status = file_write(path, text_string(&t), t.length);
    text_free(&t);
    return status;
}

// --- A dump

static spyre_status dump_text(const spyre_executable *executable, const char *directory,
                              const char *name, const char *content)
{
    const char *path = file_join(executable->memory, directory, name);
    TRY_ALLOC(path);
    return file_write(path, content, strlen(content));
}

static spyre_status dump_report(const spyre_executable *executable, const char *directory)
{
    char *content;
    TRY(spyre_executable_report(executable, &content));
    spyre_status status = dump_text(executable, directory, "report.txt", content);
    spyre_string_free(content);
    return status;
}

static spyre_status dump_exchanges(const spyre_executable *executable, const char *directory)
{
    char *content;
    TRY(spyre_executable_exchanges(executable, 0, &content));
    spyre_status status = NULL;
    if (*content) status = dump_text(executable, directory, "exchanges.txt", content);
    spyre_string_free(content);
    return status;
}

static spyre_status dump_stage(const spyre_executable *executable, uint32_t segment,
                               const char *stage, const char *directory)
{
    char *content;
    const char *path =
        arena_printf(executable->memory, "%s/segment%u.%s", directory, segment, stage);
    TRY_ALLOC(path);
    TRY(spyre_executable_text(executable, segment, stage, &content));
    spyre_status status = file_write(path, content, strlen(content));
    spyre_string_free(content);
    return status;
}

static spyre_status dump_segment(const spyre_executable *executable, uint32_t segment,
                                 const char *directory)
{
    const text *passes = &executable->segments[segment].loop_dump;
    const char *path = arena_printf(executable->memory, "%s/segment%u.passes", directory, segment);
    TRY_ALLOC(path);
    TRY(file_write(path, text_string(passes), passes->length));
    for (uint32_t i = 0; i < STAGE_COUNT; i++)
        if (stages[i].in_dump) TRY(dump_stage(executable, segment, stages[i].name, directory));
    return NULL;
}

spyre_status executable_dump(const spyre_executable *executable, const char *directory)
{
    TRY(file_make_directories(directory));
    TRY(dump_report(executable, directory));
    TRY(dump_exchanges(executable, directory));
    for (uint32_t s = 0; s < executable->segment_count; s++)
        if (executable->segments[s].info.kind == SPYRE_SEGMENT_CARD)
            TRY(dump_segment(executable, s, directory));
    return NULL;
}
