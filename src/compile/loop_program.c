// SPDX-License-Identifier: Apache-2.0
//
// An executable of one card segment from the text of its loop IR, however many passes are behind
// it.
#include "compile/executable.h"
#include "front/front.h"

// Inputs and outputs are their own numbers: there is no graph of the caller.
static spyre_status number_values(arena *memory, uint32_t count, const uint32_t **out)
{
    uint32_t *numbers = ARENA_NEW(memory, uint32_t, count);
    TRY_ALLOC(numbers);
    for (uint32_t i = 0; i < count; i++) numbers[i] = i;
    *out = numbers;
    return NULL;
}

static spyre_status compile(spyre_executable *e, const char *source, const char *file_name,
                            const char *after, bool dumps)
{
    loop_graph *loops;
    executable_segment *segment;
    uint32_t step;
    TRY(loop_parse(source, file_name, after, e->memory, &loops));
    TRY(executable_add_segment(e, loops, &segment));
    graph_segment from = {.kind = SPYRE_SEGMENT_CARD,
                          .graph = segment->graph,
                          .input_count = loops->graph->inputs.count,
                          .output_count = loops->outputs.count};
    TRY(number_values(e->memory, from.input_count, &from.inputs));
    TRY(number_values(e->memory, from.output_count, &from.outputs));
    segment->info.input_count = from.input_count;
    segment->info.inputs = from.inputs;
    segment->info.output_count = from.output_count;
    TRY(executable_describe_inputs(e, 0, &from));
    const front_options front = {.dump = dumps ? &segment->loop_dump : NULL};
    TRY(status_at(front_continue(loops, &front, &segment->front), "%s", file_name));
    TRY(executable_describe_outputs(e, 0, &from));
    TRY(executable_describe_preferences(e, 0));
    return executable_finish_segment(e, 0, &loops->settings, &step);
}

spyre_status spyre_compile_loops(const char *source, const char *file_name, const char *after,
                                 const char *dump_dir, spyre_executable **out_executable)
{
    *out_executable = NULL;
    spyre_executable *e = executable_create();
    TRY_ALLOC(e);
    spyre_status status = compile(e, source, file_name, after, dump_dir != NULL);
    if (!status && dump_dir) status = executable_dump(e, dump_dir);
    if (status) spyre_executable_destroy(e);
    else *out_executable = e;
    return status;
}
