// SPDX-License-Identifier: Apache-2.0
#include "compile/files/executable_bytes.h"

#include <string.h>

#include "base/bytes.h"

// --- Writing

_Static_assert(sizeof(job_scalar) == 24, "no gaps: same executable, same bytes");

static spyre_status put_program(arena *memory, const executable_segment *segment, text *out)
{
    uint8_t *image;
    size_t length;
    TRY(isa_encode(memory, segment->program, &image, &length));
    bytes_put_string(out, segment->plan ? segment->plan : "");
    bytes_put_number(out, length);
    bytes_put(out, image, length);
    bytes_put_number(out, segment->argument_count);
    for (uint32_t k = 0; k < segment->argument_count; k++) {
        const job_argument *a = &segment->arguments[k];
        job_argument plain;
        memset(&plain, 0, sizeof plain);        // gaps too: same executable, same bytes
        plain.kind = a->kind;
        plain.index = a->index;
        plain.bytes = a->bytes;
        bytes_put(out, &plain, sizeof plain);
        if (a->kind == JOB_CONSTANTS) bytes_put(out, a->data, (size_t)a->bytes);
    }
    bytes_put_number(out, segment->scalar_count);
    bytes_put(out, segment->scalars, segment->scalar_count * sizeof *segment->scalars);
    return NULL;
}

static spyre_status put_segment(arena *memory, const executable_segment *segment, text *out)
{
    const spyre_segment *info = &segment->info;
    spyre_segment plain = *info;
    plain.name = NULL;
    plain.nodes = plain.inputs = NULL;
    plain.input_storages = NULL;
    plain.input_dtypes = NULL;
    plain.input_layouts = plain.preferred_layouts = NULL;
    plain.outputs = NULL;
    bytes_put(out, &plain, sizeof plain);
    bytes_put(out, info->nodes, info->node_count * sizeof *info->nodes);
    bytes_put(out, info->inputs, info->input_count * sizeof *info->inputs);
    bytes_put(out, info->outputs, info->output_count * sizeof *info->outputs);
    if (info->kind == SPYRE_SEGMENT_HOST) return NULL;
    bytes_put(out, info->input_storages, info->input_count * sizeof *info->input_storages);
    bytes_put(out, info->input_layouts, info->input_count * sizeof *info->input_layouts);
    bytes_put(out, info->input_dtypes, info->input_count * sizeof *info->input_dtypes);
    bytes_put(out, info->preferred_layouts, info->input_count * sizeof *info->preferred_layouts);
    return put_program(memory, segment, out);
}

static spyre_status put_segments(arena *memory, const spyre_executable *executable, text *out)
{
    bytes_put_number(out, executable->segment_count);
    for (uint32_t s = 0; s < executable->segment_count; s++)
        TRY(status_at(put_segment(memory, &executable->segments[s], out), "segment %u", s));
    return text_status(out);
}

static void put_fates(const spyre_executable *executable, text *out)
{
    uint32_t count;
    const graph_fate *fates = executable_fates(executable, &count);
    bytes_put_number(out, count);
    for (uint32_t i = 0; i < count; i++) {
        bytes_put_string(out, fates[i].op_name);
        bytes_put_string(out, fates[i].location);
        bytes_put_number(out, fates[i].layer);
        bytes_put_number(out, fates[i].removed);
        bytes_put_string(out, fates[i].reason ? fates[i].reason : "");
        bytes_put_string(out, fates[i].beyond ? fates[i].beyond : "");
    }
}

spyre_status executable_put(const spyre_executable *executable, const char *subject, text *out)
{
    bytes_put_string(out, subject);
    put_fates(executable, out);
    arena *memory = arena_create();
    TRY_ALLOC(memory);
    spyre_status status = put_segments(memory, executable, out);
    arena_destroy(memory);
    return status;
}

// --- Reading

static spyre_status broken(const char *what)
{
    return status_new(SPYRE_INVALID_FORMAT, "%s", what);
}

static spyre_status take_scalars(bytes_reader *from, executable_segment *segment)
{
    uint64_t count = bytes_take_number(from);
    const job_scalar *scalars = BYTES_TAKE(from, job_scalar, count);
    if (!scalars) return broken("it ends inside the scalars");
    for (uint64_t s = 0; s < count; s++) {
        bool good = scalars[s].index < GRAPH_MOST_SCALARS &&
                    (uint32_t)scalars[s].form < SPYRE_SCALAR_FORM_COUNT &&
                    spyre_format_bytes(scalars[s].format) > 0;
        if (!good) return broken("a scalar has no such form");
    }
    segment->scalars = scalars;
    segment->scalar_count = (uint32_t)count;
    return NULL;
}

static spyre_status take_arguments(spyre_executable *e, bytes_reader *from,
                                   executable_segment *segment)
{
    uint64_t count = bytes_take_number(from);
    if (count != segment->program->arg_count) return broken("another number of arguments");
    job_argument *arguments = ARENA_NEW(e->memory, job_argument, count);
    TRY_ALLOC(arguments);
    for (uint64_t k = 0; k < count; k++) {
        const job_argument *a = BYTES_TAKE(from, job_argument, 1);
        if (!a) return broken("it ends inside the arguments");
        arguments[k] = *a;
        if (a->kind == JOB_CONSTANTS && a->bytes >= 0)
            arguments[k].data = bytes_take(from, (uint64_t)a->bytes, 1);
    }
    segment->arguments = arguments;
    segment->argument_count = (uint32_t)count;
    return take_scalars(from, segment);
}

static spyre_status take_program(spyre_executable *e, bytes_reader *from, uint32_t index)
{
    executable_segment *segment = &e->segments[index];
    segment->plan = bytes_take_string(from);
    uint64_t length = bytes_take_number(from);
    const uint8_t *image = BYTES_TAKE(from, uint8_t, length);
    if (!image) return broken("it ends inside a program");
    TRY(isa_decode(e->memory, image, length, &segment->program));
    TRY(take_arguments(e, from, segment));
    return from->failed ? NULL : executable_make_job(e, index);
}

static spyre_status check_outputs(const spyre_segment *info)
{
    for (uint32_t i = 0; i < info->output_count; i++) {
        const spyre_segment_output *output = &info->outputs[i];
        bool made = output->input < 0;
        if (made ? output->buffer >= info->buffer_count
                 : (uint32_t)output->input >= info->input_count)
            return broken("an output is in no buffer and in no input");
        if (made && output->bytes != spyre_layout_bytes(&output->layout))
            return broken("an output has other bytes than its layout");
    }
    return NULL;
}

static spyre_status check_layouts(const spyre_segment *info)
{
    for (uint32_t i = 0; i < info->input_count; i++) {
        TRY(spyre_layout_check(&info->input_layouts[i]));
        if (info->preferred_layouts[i].rank) TRY(spyre_layout_check(&info->preferred_layouts[i]));
        if (info->input_storages[i].rank > SPYRE_MAX_RANK) return broken("an input's rank");
        if (spyre_dtype_bytes(info->input_dtypes[i]) == 0) return broken("an input's dtype");
    }
    for (uint32_t i = 0; i < info->output_count; i++) {
        TRY(spyre_layout_check(&info->outputs[i].layout));
        if (info->outputs[i].storage.rank > SPYRE_MAX_RANK) return broken("an output's rank");
    }
    return check_outputs(info);
}

static spyre_status take_segment(spyre_executable *e, bytes_reader *from, uint32_t index)
{
    spyre_segment *info = &e->segments[index].info;
    const spyre_segment *plain = BYTES_TAKE(from, spyre_segment, 1);
    if (!plain) return broken("it ends inside the segments");
    *info = *plain;
    info->nodes = BYTES_TAKE(from, uint32_t, info->node_count);
    info->inputs = BYTES_TAKE(from, uint32_t, info->input_count);
    info->outputs = BYTES_TAKE(from, spyre_segment_output, info->output_count);
    if (info->kind == SPYRE_SEGMENT_HOST) return NULL;
    info->input_storages = BYTES_TAKE(from, spyre_view, info->input_count);
    info->input_layouts = BYTES_TAKE(from, spyre_layout, info->input_count);
    info->input_dtypes = BYTES_TAKE(from, spyre_dtype, info->input_count);
    info->preferred_layouts = BYTES_TAKE(from, spyre_layout, info->input_count);
    if (from->failed) return broken("it ends inside the segments");
    TRY(check_layouts(info));
    return take_program(e, from, index);
}

static spyre_status take_fates(spyre_executable *e, bytes_reader *from, size_t length)
{
    uint64_t count = bytes_take_number(from);
    if (count > length) return broken("it states more nodes than it has bytes");
    graph_fate *fates = ARENA_NEW(e->memory, graph_fate, count);
    TRY_ALLOC(fates);
    for (uint64_t i = 0; i < count; i++) {
        fates[i].op_name = bytes_take_string(from);
        fates[i].location = bytes_take_string(from);
        uint64_t layer = bytes_take_number(from), removed = bytes_take_number(from);
        const char *reason = bytes_take_string(from), *beyond = bytes_take_string(from);
        if (from->failed) return broken("it ends inside its nodes");
        if (layer > GRAPH_LAYER_HOST || removed > 1) return broken("a node has no such layer");
        fates[i].layer = (graph_layer)layer;
        fates[i].removed = removed != 0;
        fates[i].reason = *reason ? reason : NULL;
        fates[i].beyond = *beyond ? beyond : NULL;
    }
    e->fates = fates;
    e->fate_count = (uint32_t)count;
    return NULL;
}

spyre_status executable_take(spyre_executable *executable, const char *subject,
                             const uint8_t *bytes, size_t length)
{
    bytes_reader from = {.bytes = bytes, .length = length};
    bool same = strcmp(bytes_take_string(&from), subject) == 0;
    if (from.failed) return broken("it ends inside its texts");
    if (!same) return broken("it is of another graph or of other options");
    TRY(take_fates(executable, &from, length));
    uint64_t count = bytes_take_number(&from);
    if (from.failed) return broken("it ends inside its texts");
    if (count > length) return broken("it states more segments than it has bytes");
    TRY_NEW(executable->memory, executable->segments, count);
    executable->segment_count = (uint32_t)count;
    for (uint32_t s = 0; s < count; s++)
        TRY(status_at(take_segment(executable, &from, s), "segment %u", s));
    if (from.failed || from.at != length) return broken("its length does not fit its content");
    return NULL;
}
