// SPDX-License-Identifier: Apache-2.0
//
// What a person or a tool may ask of an executable: segments, records, boundary files. stages.c has
// the texts.
#include <string.h>

#include "bundle/files.h"
#include "bundle/write.h"
#include "compile/executable.h"
#include "compile/spyrecode/spyrecode_of_bundle.h"

uint32_t spyre_executable_segment_count(const spyre_executable *executable)
{
    return executable->segment_count;
}

const spyre_segment *spyre_executable_segment(const spyre_executable *executable, uint32_t index)
{
    return index < executable->segment_count ? &executable->segments[index].info : NULL;
}

bool spyre_executable_stage_record(const spyre_executable *executable, uint32_t segment,
                                   uint32_t index, spyre_stage_record *out_record)
{
    if (segment >= executable->segment_count) return false;
    const pass_times *records = &executable->segments[segment].front.records;
    if (index >= records->count) return false;
    const pass_time *r = &records->items[index];
    *out_record = (spyre_stage_record){.name = r->name,
                                       .us = (double)r->ns / 1e3,
                                       .bytes = r->bytes,
                                       .ops = r->ops,
                                       .buffers = r->buffers,
                                       .changed = r->changed};
    return true;
}

spyre_status spyre_executable_loops(const spyre_executable *executable, uint32_t segment,
                                    const spyre_loops **out_loops)
{
    const executable_segment *s;
    TRY(executable_staged_segment(&executable, segment, &s));
    *out_loops = s->front.loops;
    return NULL;
}

static spyre_status write_bundle(const executable_segment *segment, const char *directory)
{
    const bundle *b = segment->front.bundle;
    if (segment->front.loops->settings.bundle_symbolic_args)
        return bundle_write_form(b, directory, BUNDLE_FORM_SYMBOLIC);
    return bundle_write(b, directory);
}

// Inputs, then output buffers.
static spyre_status launch_layouts(arena *memory, const spyre_segment *info, spyre_layout **out)
{
    spyre_layout *layouts = ARENA_NEW(memory, spyre_layout, info->input_count + info->buffer_count);
    TRY_ALLOC(layouts);
    for (uint32_t i = 0; i < info->input_count; i++) layouts[i] = info->input_layouts[i];
    for (uint32_t i = 0; i < info->output_count; i++)
        if (info->outputs[i].buffer != SPYRE_NO_ID)
            layouts[info->input_count + info->outputs[i].buffer] = info->outputs[i].layout;
    *out = layouts;
    return NULL;
}

static spyre_status write_code_in(arena *memory, const executable_segment *segment,
                                  const char *directory)
{
    spyrecode *code;
    spyre_layout *layouts = NULL;
    TRY(launch_layouts(memory, &segment->info, &layouts));
    TRY(code_of_segment(memory, segment->front.bundle, layouts, segment->program, &code));
    return spyrecode_write(code, directory);
}

static spyre_status write_code(const executable_segment *segment, const char *directory)
{
    arena *memory = arena_create();
    TRY_ALLOC(memory);
    spyre_status status = write_code_in(memory, segment, directory);
    arena_destroy(memory);
    return status;
}

spyre_status spyre_executable_write(const spyre_executable *executable, uint32_t segment,
                                    const char *stage, const char *directory)
{
    const executable_segment *s;
    TRY(executable_staged_segment(&executable, segment, &s));
    if (strcmp(stage, "bundle") == 0) return write_bundle(s, directory);
    if (strcmp(stage, "spyrecode") == 0) return write_code(s, directory);
    return status_new(SPYRE_INVALID_ARGUMENT, "stage '%s': bundle and spyrecode are possible",
                      stage);
}
