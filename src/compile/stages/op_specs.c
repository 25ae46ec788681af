// SPDX-License-Identifier: Apache-2.0
#include "compile/stages/op_specs.h"

#include <string.h>

#include "front/spec/op_spec.h"
#include "graph/build.h"
#include "spyre/op_spec.h"

// --- Printing

static json_t *list_of(const int64_t *items, uint32_t count)
{
    json_t *out = json_array();
    for (uint32_t i = 0; i < count; i++) {
        if (json_array_append_new(out, json_integer((json_int_t)items[i])) == 0) continue;
        json_decref(out);
        return NULL;
    }
    return out;
}

static json_t *layout_of(const spyre_layout *layout)
{
    return json_pack("{s:o, s:o, s:s}", "device_size", list_of(layout->device_size, layout->rank),
                     "stride_map", list_of(layout->stride_map, layout->rank), "device_dtype",
                     spyre_format_name(layout->format));
}

static json_t *tensor_of(const char *kind, const loop_buffer *buffer, const spyre_view *storage,
                         const spyre_layout *layout)
{
    return json_pack("{s:s, s:s, s:o, s:o, s:s, s:o}", "kind", kind, "name", buffer->name, "size",
                     list_of(storage->size, storage->rank), "stride",
                     list_of(storage->stride, storage->rank), "dtype",
                     spyre_dtype_name(buffer->dtype), "layout", layout_of(layout));
}

static spyre_status print_argument(const executable_segment *s, uint32_t buffer, json_t **out)
{
    const loop_graph *loops = s->front.loops;
    const loop_buffer *of = &loops->buffers.items[buffer];
    spyre_layout layout;
    switch (of->kind) {
    case LOOP_INPUT:
        *out = tensor_of("input", of, &s->info.input_storages[of->index],
                         &s->info.input_layouts[of->index]);
        return NULL;
    case LOOP_CONSTANT:
        *out = json_pack("{s:s, s:o, s:s}", "kind", "constant", "value", op_spec_real(of->value),
                         "dtype", spyre_dtype_name(of->dtype));
        if (of->scalar && json_object_set_new(*out, "scalar", json_integer(of->scalar - 1)))
            return status_no_memory();
        return NULL;
    case LOOP_LOCAL: break;
    }
    TRY(front_buffer_layout(of, &layout));
    *out = tensor_of("output", of, &of->storage, &layout);
    return NULL;
}

// In the order of arg_index.
static spyre_status print_arguments(const executable_segment *s, json_t *out)
{
    const loop_graph *loops = s->front.loops;
    for (int32_t k = 0;; k++) {
        uint32_t b = 0;
        json_t *argument;
        while (b < loops->buffers.count &&
               (op_spec_argument(loops, b) != k ||
                (loops->buffers.items[b].kind == LOOP_CONSTANT &&
                 loops->buffers.items[b].first_op == LOOP_UNUSED)))
            b++;
        if (b == loops->buffers.count) return NULL;
        TRY(print_argument(s, b, &argument));
        if (json_array_append_new(out, argument)) return status_no_memory();
    }
}

static spyre_status print_results(const executable_segment *s, json_t *out)
{
    for (uint32_t i = 0; i < s->info.output_count; i++) {
        const spyre_segment_output *o = &s->info.outputs[i];
        const spyre_view *view = &o->type.view;
        int argument = o->input >= 0 ? o->input : (int)(s->info.input_count + o->buffer);
        json_t *result = json_pack("{s:i, s:i, s:o, s:o, s:I}", "value", (int)o->value, "argument",
                                   argument, "size", list_of(view->size, view->rank), "stride",
                                   list_of(view->stride, view->rank), "offset",
                                   (json_int_t)view->offset);
        if (json_array_append_new(out, result)) return status_no_memory();
    }
    return NULL;
}

spyre_status op_specs_print(const executable_segment *segment, text *out)
{
    json_t *arguments = json_array(), *results = json_array(), *specs = NULL, *whole = NULL;
    spyre_status status = arguments && results ? NULL : status_no_memory();
    if (!status) status = print_arguments(segment, arguments);
    if (!status) status = print_results(segment, results);
    if (!status) status = op_spec_print(segment->front.loops, &specs);
    if (!status)
        whole = json_pack("{s:O, s:O, s:O}", "arguments", arguments, "results", results, "specs",
                          specs);
    if (!status) status = whole ? json_print(whole, 1, out) : status_no_memory();
    json_decref(whole);
    json_decref(specs);
    json_decref(results);
    json_decref(arguments);
    return status;
}

// --- Compiling

static spyre_status describe(spyre_executable *e, const op_spec_list *list)
{
    spyre_segment *info = &e->segments[0].info;
    uint32_t count = list->argument_count;
    uint32_t *inputs = ARENA_NEW(e->memory, uint32_t, count);
    spyre_segment_output *outputs = ARENA_NEW(e->memory, spyre_segment_output, count);
    spyre_layout *layouts = ARENA_NEW(e->memory, spyre_layout, count);
    spyre_layout *preferred = ARENA_NEW(e->memory, spyre_layout, count); // none
    TRY_ALLOC(inputs);
    TRY_ALLOC(outputs);
    TRY_ALLOC(layouts);
    TRY_ALLOC(preferred);
    for (uint32_t k = 0; k < count; k++) {
        const op_spec_argument_use *use = &list->arguments[k];
        if (!use->written) {
            layouts[info->input_count] = use->layout;
            inputs[info->input_count++] = k;
            continue;
        }
        outputs[info->output_count++] =
            (spyre_segment_output){.value = k,
                                   .layout = use->layout,
                                   .bytes = spyre_layout_bytes(&use->layout),
                                   .buffer = use->place,
                                   .input = -1};
    }
    info->inputs = inputs;
    info->input_layouts = layouts;
    info->preferred_layouts = preferred;
    info->outputs = outputs;
    info->buffer_count = info->output_count;
    info->pool_bytes = list->loops->pool_bytes;
    return NULL;
}

static spyre_status compile(spyre_executable *e, const json_node *specs,
                            const spyre_settings *settings)
{
    op_spec_list list;
    executable_segment *segment;
    uint32_t step;
    TRY(spyre_settings_check(settings));
    TRY(op_spec_read(specs, settings, e->memory, &list));
    TRY(executable_add_segment(e, list.loops, &segment));
    TRY(front_fault_of_input(front_emit(list.loops, &segment->front)));
    TRY(describe(e, &list));
    return executable_finish_segment(e, 0, settings, &step);
}

spyre_status spyre_compile_op_specs(const char *json, const char *name,
                                    const spyre_settings *settings,
                                    spyre_executable **out_executable)
{
    json_node root = {0};
    *out_executable = NULL;
    TRY(json_read_buffer(name, json, strlen(json), &root));
    spyre_executable *e = executable_create();
    spyre_status status = e ? compile(e, &root, settings) : status_no_memory();
    json_close(&root);
    if (status) spyre_executable_destroy(e);
    else *out_executable = e;
    return status;
}
