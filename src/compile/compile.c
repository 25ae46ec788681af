// SPDX-License-Identifier: Apache-2.0
//
// The compiler's driver: prepare, partition, then front and back for every card segment. When front
// or back cannot express a node (a view that no layout fits, say), the node goes to the host and
// the whole compilation starts again; each attempt has fewer nodes for the card, so it ends.
#include "compile/executable.h"

#include <stdio.h>
#include <string.h>

#include "back/back.h"
#include "base/clock.h"
#include "base/log.h"
#include "compile/operation_refusals.h"
#include "compile/statistics.h"
#include "graph/hint.h"
#include "graph/verify.h"

enum { PROFILE_CARD, PROFILE_EXTENDED };    // choices of the setting

typedef struct {
    const spyre_graph *graph;
    const spyre_compile_options *options;
    spyre_executable *executable;
    const spyre_segment_output **made; // by value: the output of a card segment that holds it
    uint32_t failed_node;              // of the caller's graph, or SPYRE_NO_ID
    bool failed_across;                // at an operand that steps across its storage
    uint32_t most_tensors;             // of a card segment; 0: any number
    bool is_too_wide;                  // a segment of several nodes has too many launch arguments
    uint32_t attempts;
    int64_t graph_ns, front_ns, back_ns;
} compilation;

static void set_constant_view(spyre_graph *graph, graph_view *view, const spyre_view *from)
{
    view->rank = from->rank;
    view->offset = expr_constant(graph->exprs, from->offset);
    for (uint32_t d = 0; d < from->rank; d++) {
        view->size[d] = expr_constant(graph->exprs, from->size[d]);
        view->stride[d] = expr_constant(graph->exprs, from->stride[d]);
    }
}

// An input that another segment makes takes the layout that this one chose; any other is dense.
static spyre_status resolve_input(spyre_graph *graph, graph_input *input,
                                  const spyre_segment_output *made)
{
    const graph_value *value = &graph->values.items[input->value];
    spyre_view storage;
    if (input->layout.rank) return NULL;
    if (made) {
        storage = made->storage;
        input->layout = made->layout;
    } else {
        TRY(graph_view_constant(graph, &value->view, &storage));
        storage.offset = 0;
        TRY(status_at(spyre_layout_dense(&storage, value->dtype, &input->layout), "value %s",
                      value->name));
    }
    set_constant_view(graph, &input->storage, &storage);
    return NULL;
}

spyre_status executable_describe_inputs(spyre_executable *e, uint32_t index,
                                        const graph_segment *from)
{
    spyre_segment *info = &e->segments[index].info;
    spyre_view *storages = ARENA_NEW(e->memory, spyre_view, from->input_count);
    spyre_layout *layouts = ARENA_NEW(e->memory, spyre_layout, from->input_count);
    TRY_ALLOC(storages);
    spyre_dtype *dtypes = ARENA_NEW(e->memory, spyre_dtype, from->input_count);
    TRY_ALLOC(layouts);
    TRY_ALLOC(dtypes);
    for (uint32_t i = 0; i < from->input_count; i++) {
        const graph_input *input = &from->graph->inputs.items[i];
        TRY(graph_view_constant(from->graph, &input->storage, &storages[i]));
        layouts[i] = input->layout;
        dtypes[i] = from->graph->values.items[input->value].dtype;
    }
    info->input_storages = storages;
    info->input_dtypes = dtypes;
    info->input_layouts = layouts;
    return NULL;
}

spyre_status executable_describe_preferences(spyre_executable *e, uint32_t index)
{
    executable_segment *segment = &e->segments[index];
    uint32_t count = segment->info.input_count;
    spyre_layout *preferred = ARENA_NEW(e->memory, spyre_layout, count);
    TRY_ALLOC(preferred);
    for (uint32_t i = 0; i < count; i++)
        TRY(front_preferred_layout(segment->front.loops, i, &preferred[i]));
    segment->info.preferred_layouts = preferred;
    return NULL;
}

spyre_status executable_describe_outputs(spyre_executable *e, uint32_t index,
                                         const graph_segment *from)
{
    executable_segment *segment = &e->segments[index];
    const loop_graph *loops = segment->front.loops;
    spyre_segment_output *outputs = ARENA_NEW(e->memory, spyre_segment_output, from->output_count);
    TRY_ALLOC(outputs);
    for (uint32_t i = 0; i < from->output_count; i++) {
        const loop_output *output = &loops->outputs.items[i];
        const loop_buffer *buffer = &loops->buffers.items[output->buffer];
        const graph_value *value = &from->graph->values.items[output->value];
        spyre_segment_output *out = &outputs[i];
        out->value = from->outputs[i];
        out->type = (spyre_tensor_type){value->dtype, true, output->view};
        out->storage = buffer->storage;
        out->storage.offset = 0;
        out->input = buffer->kind == LOOP_INPUT ? (int32_t)buffer->index : -1;
        out->buffer = buffer->output >= 0 ? (uint32_t)buffer->output : SPYRE_NO_ID;
        if (buffer->kind == LOOP_INPUT)
            out->layout = from->graph->inputs.items[buffer->index].layout;
        else
            TRY(front_buffer_layout(buffer, &out->layout));
        out->bytes = spyre_layout_bytes(&out->layout);
    }
    segment->info.outputs = outputs;
    segment->info.buffer_count = segment->front.output_buffer_count;
    segment->info.pool_bytes = loops->pool_bytes;
    return NULL;
}

// Operands of a composition are those of what stands for it in the prepared graph.
static void blame_node(compilation *c, const spyre_graph *graph, uint32_t node)
{
    if (node >= graph->nodes.count) return;
    c->failed_node = graph->nodes.items[node].origin;
    c->failed_across = graph_steps_across(graph, node) ||
                       (c->failed_node < c->graph->nodes.count &&
                        graph_steps_across(c->graph, c->failed_node));
}

// How many of its launch arguments a bundle needs for the pool and for constants is known only now.
static spyre_status check_arguments(compilation *c, const executable_segment *segment)
{
    uint32_t most = c->options->settings.max_launch_arguments;
    uint32_t count = segment->front.bundle->args.count;
    if (!most || count <= most) return NULL;
    c->is_too_wide = c->most_tensors > 1;
    if (!c->is_too_wide && segment->front.loops->ops.count)
        blame_node(c, segment->graph, segment->front.loops->ops.items[0].node);
    return status_new(SPYRE_UNSUPPORTED,
                      "a bundle of %u launch arguments where max_launch_arguments is %u", count,
                      most);
}

// Its part of spyre_executable_plan()'s text, or null.
static const char *plan_of_segment(const char *plan, uint32_t index)
{
    char head[32];
    snprintf(head, sizeof head, "segment %u\n", index);
    const char *part = plan ? strstr(plan, head) : NULL;
    return part ? part + strlen(head) : NULL;
}

static spyre_status front_segment(compilation *c, uint32_t index, const graph_segment *from)
{
    spyre_executable *e = c->executable;
    executable_segment *segment = &e->segments[index];
    segment->graph = from->graph;
    for (uint32_t i = 0; i < from->input_count; i++)
        TRY(resolve_input(from->graph, &from->graph->inputs.items[i], c->made[from->inputs[i]]));
    TRY(executable_describe_inputs(e, index, from));
    const front_options front = {.plan = plan_of_segment(c->options->plan, index),
                                 .settings = c->options->settings,
                                 .loop_pass = c->options->loop_pass,
                                 .loop_context = c->options->loop_context,
                                 .dump = c->options->dump_dir ? &segment->loop_dump : NULL};
    uint32_t node = SPYRE_NO_ID;
    spyre_status status = front_compile(from->graph, &front, e->memory, &node, &segment->front);
    if (status) blame_node(c, from->graph, node);
    TRY(status);
    segment->plan = segment->front.loops->plan;
    TRY(check_arguments(c, segment));
    statistics_add_front(&segment->front.records);
    TRY(executable_describe_outputs(e, index, from));
    TRY(executable_describe_preferences(e, index));
    for (uint32_t i = 0; i < from->output_count; i++)
        c->made[from->outputs[i]] = &segment->info.outputs[i];
    return NULL;
}

static void blame_step(compilation *c, const executable_segment *segment, uint32_t step)
{
    const front_result *front = &segment->front;
    if (step >= front->bundle->steps.count) return;
    uint32_t op = front_op_of_step(front->bundle->steps.items[step].name);
    if (op < front->loops->ops.count)
        blame_node(c, segment->graph, front->loops->ops.items[op].node);
}

spyre_status executable_finish_segment(spyre_executable *e, uint32_t index,
                                       const spyre_settings *settings, uint32_t *out_step)
{
    executable_segment *segment = &e->segments[index];
    const back_options back = {
        .lx_reserved_bytes = (int64_t)(ISA_LX_BYTES * settings->dxp_lx_frac_avail),
        .lx_borrows = true,
        .at_step = out_step};
    TRY(back_compile(segment->front.bundle, &back, e->memory, &segment->program));
    *out_step = SPYRE_NO_ID;
    TRY(executable_bind_arguments(e, index));
    return executable_make_job(e, index);
}

static spyre_status back_segment(compilation *c, uint32_t index)
{
    uint32_t step = SPYRE_NO_ID;
    spyre_status status =
        executable_finish_segment(c->executable, index, &c->options->settings, &step);
    if (status) blame_step(c, &c->executable->segments[index], step);
    return status;
}

static spyre_status describe_host(spyre_executable *e, uint32_t index, const graph_segment *from)
{
    spyre_segment_output *outputs = ARENA_NEW(e->memory, spyre_segment_output, from->output_count);
    TRY_ALLOC(outputs);
    for (uint32_t i = 0; i < from->output_count; i++) {
        const graph_value *value = &e->prepared->values.items[from->outputs[i]];
        outputs[i] =
            (spyre_segment_output){.value = from->outputs[i], .input = -1, .buffer = SPYRE_NO_ID};
        outputs[i].type.dtype = value->dtype;
        outputs[i].type.on_card = value->on_card;
        TRY(graph_view_constant(e->prepared, &value->view, &outputs[i].type.view));
    }
    e->segments[index].info.outputs = outputs;
    return NULL;
}

static spyre_status front_segments(compilation *c, const graph_segment *segments, uint32_t count)
{
    spyre_executable *e = c->executable;
    TRY_NEW(e->memory, e->segments, count);
    TRY_NEW(e->memory, c->made, e->prepared->values.count);
    e->segment_count = count;
    for (uint32_t s = 0; s < count; s++) {
        const graph_segment *from = &segments[s];
        spyre_segment *info = &e->segments[s].info;
        info->kind = from->kind;
        info->node_count = from->node_count;
        info->nodes = from->nodes;
        info->input_count = from->input_count;
        info->inputs = from->inputs;
        info->output_count = from->output_count;
        spyre_status status = from->kind == SPYRE_SEGMENT_CARD ? front_segment(c, s, from)
                                                               : describe_host(e, s, from);
        TRY(status_at(status, "segment %u", s));
    }
    return NULL;
}

static spyre_status back_segments(compilation *c)
{
    const spyre_executable *e = c->executable;
    for (uint32_t s = 0; s < e->segment_count; s++)
        if (e->segments[s].info.kind == SPYRE_SEGMENT_CARD)
            TRY(status_at(back_segment(c, s), "segment %u", s));
    return NULL;
}

static spyre_status verify_graphs(const compilation *c, const graph_segment *segments,
                                  uint32_t count)
{
    if (!front_validates(&c->options->settings)) return NULL;
    TRY(graph_verify_made(c->executable->prepared, "preparation"));
    for (uint32_t s = 0; s < count; s++)
        if (segments[s].graph)
            TRY(status_at(graph_verify_made(segments[s].graph, "partition"), "segment %u", s));
    return NULL;
}

// All fronts before the first back: what a front refuses starts everything again.
static spyre_status attempt(compilation *c, const char *const *host_reasons)
{
    spyre_executable *e = c->executable;
    graph_segment *segments;
    uint32_t count;
    c->attempts++;
    int64_t began = clock_now_ns();
    const spyre_settings *settings = &c->options->settings;
    const graph_rules rules = {
        .host_fallback = c->options->host_fallback,
        .published_opfuncs = settings->published_opfuncs,
        .extended = settings->profile == PROFILE_EXTENDED && !settings->published_opfuncs};
    spyre_status status = graph_prepare(c->graph, rules, host_reasons, e->memory, &e->prepared);
    if (!status)
        status = graph_make_segments(e->prepared, settings->enable_fusion, c->most_tensors,
                                     e->memory, &segments, &count);
    if (!status) status = verify_graphs(c, segments, count);
    int64_t prepared = clock_now_ns();
    if (!status) status = front_segments(c, segments, count);
    int64_t fronted = clock_now_ns();
    if (!status) status = back_segments(c);
    c->graph_ns += prepared - began;
    c->front_ns += fronted - prepared;
    c->back_ns += clock_now_ns() - fronted;
    return status;
}

// Compiles, in smaller segments as long as one is too wide. A node that front or back blame gets
// copies of operands that step across their storage, if it has any; then it is the host's.
static spyre_status compile_with_retries(compilation *c, arena *memory)
{
    refusals refused;
    TRY(refusals_begin(c->graph, memory, &refused));
    c->most_tensors = c->options->settings.max_launch_arguments;
    for (;;) {
        c->failed_node = SPYRE_NO_ID;
        c->is_too_wide = false;
        c->executable = executable_create();
        TRY_ALLOC(c->executable);
        spyre_status status = attempt(c, refused.reason);
        if (!status) return NULL;
        spyre_executable_destroy(c->executable);
        c->executable = NULL;
        if (c->is_too_wide) {
            spyre_status_free(status);
            c->most_tensors--;
            continue;
        }
        bool has_way = spyre_status_code(status) == SPYRE_UNSUPPORTED &&
                       c->failed_node < c->graph->nodes.count &&
                       refusals_has_way(&refused, c->failed_node);
        bool gathers = has_way && !refused.reason[c->failed_node] && c->failed_across;
        if (!gathers && !(has_way && c->options->host_fallback)) return status;
        const char *reason = gathers ? GRAPH_GATHERED : spyre_status_message(status);
        log_info("%s: %s", gathers ? "gathered" : "host", spyre_status_message(status));
        spyre_status added = refusals_add(&refused, c->failed_node, reason);
        spyre_status_free(status);
        TRY(added);
        c->most_tensors = c->options->settings.max_launch_arguments;
    }
}

static void count_compilation(const compilation *c)
{
    statistics_add(STATISTIC_COMPILATIONS, 1);
    statistics_add(STATISTIC_ATTEMPTS, c->attempts);
    statistics_add(STATISTIC_GRAPH_US, c->graph_ns / 1000);
    statistics_add(STATISTIC_FRONT_US, c->front_ns / 1000);
    statistics_add(STATISTIC_BACK_US, c->back_ns / 1000);
    log_info("compiled %u nodes in %u attempts: graph %.1f ms, front %.1f ms, back %.1f ms",
             c->graph->nodes.count, c->attempts, (double)c->graph_ns / 1e6,
             (double)c->front_ns / 1e6, (double)c->back_ns / 1e6);
}

spyre_status executable_compile(const spyre_graph *graph, const spyre_compile_options *options,
                                spyre_executable **out_executable)
{
    compilation c = {.graph = graph, .options = options};
    arena *memory = arena_create();
    TRY_ALLOC(memory);
    spyre_status status = compile_with_retries(&c, memory);
    arena_destroy(memory);
    count_compilation(&c);
    if (!status) hint_warn_of_host(graph, c.executable->prepared);
    *out_executable = status ? NULL : c.executable;
    return status;
}
