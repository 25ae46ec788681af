// SPDX-License-Identifier: Apache-2.0
//
// What a person or a tool may ask of an executable: segments, report, stage texts, boundary files.
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "bundle/files.h"
#include "bundle/write.h"
#include "compile/code.h"
#include "compile/executable.h"
#include "compile/inspect.h"
#include "compile/lx_map.h"
#include "compile/lx_picture.h"
#include "compile/op_specs.h"
#include "compile/why.h"
#include "front/cost_table.h"
#include "front/division_splits.h"
#include "front/record.h"

uint32_t spyre_executable_segment_count(const spyre_executable *executable)
{
    return executable->segment_count;
}

const spyre_segment *spyre_executable_segment(const spyre_executable *executable, uint32_t index)
{
    return index < executable->segment_count ? &executable->segments[index].info : NULL;
}

// Hands the text's bytes to the caller.
static spyre_status give(text *t, char **out_text)
{
    text_append(t, "");
    spyre_status status = text_status(t);
    *out_text = NULL;
    if (!status) {
        *out_text = t->bytes;
        *t = (text){0};
    }
    text_free(t);
    return status;
}

spyre_status spyre_executable_report(const spyre_executable *executable, char **out_text)
{
    text t = {0};
    if (executable->report) text_append(&t, executable->report);
    spyre_status status = executable->report ? NULL : graph_report(executable->prepared, &t);
    if (!status) return give(&t, out_text);
    text_free(&t);
    return status;
}

bool spyre_executable_stage_record(const spyre_executable *executable, uint32_t segment,
                                   uint32_t index, spyre_stage_record *out_record)
{
    if (segment >= executable->segment_count) return false;
    const front_records *records = &executable->segments[segment].front.records;
    if (index >= records->count) return false;
    const front_record *r = &records->items[index];
    *out_record = (spyre_stage_record){.name = r->name,
                                       .us = (double)r->ns / 1e3,
                                       .bytes = r->bytes,
                                       .ops = r->ops,
                                       .buffers = r->buffers,
                                       .changed = r->changed};
    return true;
}

static spyre_status compile_again(const spyre_executable *e, spyre_executable **out_stages)
{
    spyre_graph *graph;
    if (!e->source)
        return status_new(SPYRE_UNSUPPORTED, "an executable that came as bytes has no stages");
    TRY(spyre_graph_parse(e->source, "a cached graph", &graph));
    spyre_status status = executable_compile(graph, &e->options, out_stages);
    spyre_graph_destroy(graph);
    return status;
}

spyre_status executable_with_stages(const spyre_executable *executable,
                                    const spyre_executable **out_staged)
{
    spyre_status status = NULL;
    *out_staged = executable;
    if (executable->prepared) return NULL;
    spyre_executable *e = (spyre_executable *)(uintptr_t)executable;    // `stages` is a memo
    pthread_mutex_lock(&e->lock);
    if (!e->stages) status = compile_again(e, &e->stages);
    *out_staged = e->stages;
    pthread_mutex_unlock(&e->lock);
    return status;
}

static spyre_status card_segment(const spyre_executable *e, uint32_t segment,
                                 const executable_segment **out)
{
    if (segment >= e->segment_count)
        return status_new(SPYRE_INVALID_ARGUMENT, "segment %u of %u", segment, e->segment_count);
    if (e->segments[segment].info.kind != SPYRE_SEGMENT_CARD)
        return status_new(SPYRE_INVALID_ARGUMENT, "segment %u runs on the host: it has no stages",
                          segment);
    TRY(executable_with_stages(e, &e));
    *out = &e->segments[segment];
    return NULL;
}

static spyre_status print_lx(const loop_graph *loops, text *out)
{
    lx_map map;
    TRY(lx_map_of(loops->memory, loops, &map));
    lx_map_print(&map, out);
    return NULL;
}

static spyre_status print_bundle(const executable_segment *s, uint32_t segment, text *out)
{
    char name[32];
    snprintf(name, sizeof name, "of segment %u", segment);
    spyre_status status = inspect_print_bundle(s->front.bundle, name, out);
    if (status) text_free(out);
    return status;
}

static spyre_status print_op_specs(const executable_segment *s, text *out)
{
    spyre_status status = op_specs_print(s, out);
    if (status) text_free(out);
    return status;
}

static spyre_status print_why(const executable_segment *s, text *out)
{
    spyre_status status = why_print(s->front.loops, s->counters, s->info.kernel_count, out);
    if (status) text_free(out);
    return status;
}

spyre_status spyre_executable_text(const spyre_executable *executable, uint32_t segment,
                                   const char *stage, char **out_text)
{
    const executable_segment *s = NULL;
    TRY(card_segment(executable, segment, &s));
    if (strcmp(stage, "graph") == 0) return spyre_graph_print(s->graph, out_text);
    text t = {0};
    if (strcmp(stage, "loop") == 0) loop_print(s->front.loops, &t);
    else if (strcmp(stage, "listing") == 0) isa_print(s->program, &t);
    else if (strcmp(stage, "cost") == 0) TRY(cost_table_print(s->front.loops, &t));
    else if (strcmp(stage, "splits") == 0) division_splits_print(s->front.loops, &t);
    else if (strcmp(stage, "time") == 0) record_print(&s->front.records, &t);
    else if (strcmp(stage, "bundle") == 0) TRY(print_bundle(s, segment, &t));
    else if (strcmp(stage, "lx") == 0) TRY(print_lx(s->front.loops, &t));
    else if (strcmp(stage, "why") == 0) TRY(print_why(s, &t));
    else if (strcmp(stage, "opspec") == 0) TRY(print_op_specs(s, &t));
    else
        return status_new(SPYRE_INVALID_ARGUMENT,
                          "stage '%s': graph, loop, opspec, cost, splits, why, lx, time, bundle "
                          "and listing are possible", stage);
    return give(&t, out_text);
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
    spyre_status status = draw_lx(executable, &t);
    if (!status) status = file_write(path, text_string(&t), t.length);
    text_free(&t);
    return status;
}

static spyre_status write_bundle(const executable_segment *segment, const char *directory)
{
    const bundle *b = segment->front.bundle;
    if (segment->front.loops->settings.bundle_symbolic_args)
        return bundle_write_form(b, directory, BUNDLE_FORM_SYMBOLIC);
    return bundle_write(b, directory);
}

static spyre_status write_code(const executable_segment *segment, const char *directory)
{
    spyrecode *code;
    arena *memory = arena_create();
    TRY_ALLOC(memory);
    spyre_status status = code_of_segment(memory, segment->front.bundle, segment->program, &code);
    if (!status) status = spyrecode_write(code, directory);
    arena_destroy(memory);
    return status;
}

spyre_status spyre_executable_write(const spyre_executable *executable, uint32_t segment,
                                    const char *stage, const char *directory)
{
    const executable_segment *s = NULL;
    TRY(card_segment(executable, segment, &s));
    if (strcmp(stage, "bundle") == 0) return write_bundle(s, directory);
    if (strcmp(stage, "spyrecode") == 0) return write_code(s, directory);
    return status_new(SPYRE_INVALID_ARGUMENT, "stage '%s': bundle and spyrecode are possible",
                      stage);
}

static spyre_status dump_report(const spyre_executable *executable, const char *directory)
{
    char *content;
    const char *path = file_join(executable->memory, directory, "report.txt");
    TRY_ALLOC(path);
    TRY(spyre_executable_report(executable, &content));
    spyre_status status = file_write(path, content, strlen(content));
    spyre_string_free(content);
    return status;
}

spyre_status executable_dump(const spyre_executable *executable, const char *directory)
{
    static const char *const stages[] = {"graph", "loop", "cost",   "why",
                                        "lx",    "time", "bundle", "listing"};
    TRY(file_make_directories(directory));
    TRY(dump_report(executable, directory));
    for (uint32_t s = 0; s < executable->segment_count; s++) {
        if (executable->segments[s].info.kind != SPYRE_SEGMENT_CARD) continue;
        const text *passes = &executable->segments[s].loop_dump;
        char *path = arena_printf(executable->memory, "%s/segment%u.passes", directory, s);
        TRY_ALLOC(path);
        TRY(file_write(path, text_string(passes), passes->length));
        for (uint32_t i = 0; i < sizeof stages / sizeof stages[0]; i++) {
            char *content;
            path = arena_printf(executable->memory, "%s/segment%u.%s", directory, s, stages[i]);
            TRY_ALLOC(path);
            TRY(spyre_executable_text(executable, s, stages[i], &content));
            spyre_status status = file_write(path, content, strlen(content));
            spyre_string_free(content);
            TRY(status);
        }
    }
    return NULL;
}
