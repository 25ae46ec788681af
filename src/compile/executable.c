// SPDX-License-Identifier: Apache-2.0
//
// What every executable has, compiled or read: its life, its arguments, its jobs, its
// report.
#include "compile/executable.h"

#include <string.h>

#include "compile/cache/cache_table.h"
#include "compile/kernel_counters.h"
#include "compile/sizes/size_rules.h"

// Constants come last.
static spyre_status bind_scalars(arena *memory, executable_segment *segment)
{
    uint32_t count = segment->front.scalar_count;
    job_scalar *scalars = ARENA_NEW(memory, job_scalar, count);
    TRY_ALLOC(scalars);
    for (uint32_t s = 0; s < count; s++) {
        const front_scalar *from = &segment->front.scalars[s];
        scalars[s] = (job_scalar){segment->argument_count - 1, from->index, from->form,
                                  from->format, from->offset};
    }
    segment->scalars = scalars;
    segment->scalar_count = count;
    return NULL;
}

// Numbers that a launch gives, up to the last that the program reads.
static uint32_t count_scalars(const executable_segment *segment)
{
    uint32_t count = 0;
    for (uint32_t s = 0; s < segment->scalar_count; s++)
        if (segment->scalars[s].index >= count) count = segment->scalars[s].index + 1;
    return count;
}

spyre_status executable_bind_arguments(spyre_executable *e, uint32_t index)
{
    executable_segment *segment = &e->segments[index];
    const bundle *b = segment->front.bundle;
    job_argument *arguments = ARENA_NEW(e->memory, job_argument, b->args.count);
    TRY_ALLOC(arguments);
    uint32_t input = 0, buffer = 0;
    for (uint32_t i = 0; i < b->args.count; i++) {
        job_argument *argument = &arguments[i];
        argument->bytes = b->args.items[i].bytes;
        switch (b->args.items[i].kind) {
        case BUNDLE_ARG_POOL: argument->kind = JOB_POOL; break;
        case BUNDLE_ARG_CONSTANTS:
            argument->kind = JOB_CONSTANTS;
            argument->data = b->constants;
            break;
        case BUNDLE_ARG_TENSOR:
            argument->kind = input < segment->front.input_count ? JOB_INPUT : JOB_BUFFER;
            argument->index = argument->kind == JOB_INPUT ? input++ : buffer++;
            break;
        }
    }
    segment->arguments = arguments;
    segment->argument_count = b->args.count;
    return bind_scalars(e->memory, segment);
}

static spyre_status count_work(arena *memory, executable_segment *segment)
{
    const card_counters *kernels, *work = job_counters(segment->job, &kernels);
    segment->info.kernel_count = segment->program->kernels.count;
    segment->info.mac_count = work->mac_count;
    segment->info.memory_bytes = work->memory_read_bytes + work->memory_written_bytes;
    segment->info.card_us = work->us;
    return counters_describe(memory, segment->program, kernels, &segment->counters);
}

// "sdsc_fused_mul_add_0_1a2b3c4d": after the first few opfuncs, as torch-spyre names kernels, the
// segment and the program, so that programs of several sizes have names of their own.
static spyre_status name_segment(arena *memory, uint32_t index, executable_segment *segment)
{
    enum { MOST_OPS = 4 };
    const char *ops[MOST_OPS];
    uint32_t count = 0;
    text name = {0};
    uint32_t digest;
    TRY(isa_digest(segment->program, &digest));
    text_append(&name, "sdsc_fused");
    for (uint32_t k = 0; k < segment->program->kernels.count && count < MOST_OPS; k++) {
        const char *kernel = segment->program->kernels.items[k].name, *op = strchr(kernel, '_');
        op = op ? op + 1 : kernel;
        bool known = false;
        for (uint32_t n = 0; n < count; n++) known = known || strcmp(ops[n], op) == 0;
        if (known) continue;
        ops[count++] = op;
        text_printf(&name, "_%s", op);
    }
    text_printf(&name, "_%u_%08x", index, (unsigned)digest);
    spyre_status status = text_status(&name);
    segment->info.name = arena_strdup(memory, text_string(&name));
    text_free(&name);
    TRY(status);
    TRY_ALLOC(segment->info.name);
    return NULL;
}

spyre_status executable_make_job(spyre_executable *executable, uint32_t index)
{
    executable_segment *segment = &executable->segments[index];
    // Nothing reads LX after a segment of ours.
    job_plan plan = {.program = segment->program,
                     .argument_count = segment->argument_count,
                     .arguments = segment->arguments,
                     .scalar_count = segment->scalar_count,
                     .scalars = segment->scalars,
                     .forgets_lx = true};
    segment->info.scalar_count = count_scalars(segment);
    TRY(name_segment(executable->memory, index, segment));
    plan.name = segment->info.name;
    TRY(job_create(&plan, &segment->job));
    return count_work(executable->memory, segment);
}

spyre_status executable_add_segment(spyre_executable *executable, const loop_graph *loops,
                                    executable_segment **out_segment)
{
    executable_segment *segment = ARENA_NEW(executable->memory, executable_segment, 1);
    TRY_ALLOC(segment);
    executable->segments = segment;
    executable->segment_count = 1;
    executable->options.settings = loops->settings;
    executable->prepared = segment->graph = (spyre_graph *)(uintptr_t)loops->graph;
    segment->info.kind = SPYRE_SEGMENT_CARD;
    *out_segment = segment;
    return NULL;
}

const graph_fate *executable_fates(const spyre_executable *executable, uint32_t *out_count)
{
    const spyre_graph *prepared = executable->prepared;
    *out_count = prepared ? prepared->fates.count : executable->fate_count;
    return prepared ? prepared->fates.items : executable->fates;
}

static spyre_node_layer layer_of(const graph_fate *fate)
{
    if (fate->removed) return SPYRE_NODE_REMOVED;
    switch (fate->layer) {
    case GRAPH_LAYER_NATIVE: return SPYRE_NODE_NATIVE;
    case GRAPH_LAYER_DECOMPOSITION: return SPYRE_NODE_DECOMPOSITION;
    case GRAPH_LAYER_VIEW: return SPYRE_NODE_VIEW;
    case GRAPH_LAYER_HOST: break;
    }
    return SPYRE_NODE_HOST;
}

// The call in the reason of a fate that a pattern gave, or null.
static const char *composition_of(const graph_fate *fate)
{
    if (!fate->reason || fate->layer == GRAPH_LAYER_HOST) return NULL;
    const char *mark = strstr(fate->reason, GRAPH_COMPOSITION);
    return mark ? mark + strlen(GRAPH_COMPOSITION) : NULL;
}

bool spyre_executable_node(const spyre_executable *executable, uint32_t index,
                           spyre_node_report *out_report)
{
    uint32_t count;
    const graph_fate *fates = executable_fates(executable, &count);
    if (index >= count) return false;
    const graph_fate *fate = &fates[index];
    *out_report = (spyre_node_report){.op = fate->op_name,
                                      .location = fate->location,
                                      .layer = layer_of(fate),
                                      .reason = fate->reason,
                                      .beyond = fate->beyond,
                                      .composition = composition_of(fate)};
    return true;
}

spyre_status spyre_executable_report(const spyre_executable *executable, char **out_text)
{
    text t = {0};
    uint32_t count;
    const graph_fate *fates = executable_fates(executable, &count);
    return text_give(&t, graph_report(fates, count, &t), out_text);
}

spyre_status spyre_executable_plan(const spyre_executable *executable, char **out_text)
{
    text t = {0};
    for (uint32_t s = 0; s < executable->segment_count; s++) {
        const char *plan = executable->segments[s].plan;
        if (plan && *plan) text_printf(&t, "segment %u\n%s", s, plan);
    }
    return text_give(&t, NULL, out_text);
}

spyre_status executable_card_segment(const spyre_executable *executable, uint32_t index,
                                     const executable_segment **out_segment)
{
    if (index >= executable->segment_count)
        return status_new(SPYRE_INVALID_ARGUMENT, "segment %u of %u", index,
                          executable->segment_count);
    if (executable->segments[index].info.kind != SPYRE_SEGMENT_CARD)
        return status_new(SPYRE_INVALID_ARGUMENT, "segment %u runs on the host", index);
    *out_segment = &executable->segments[index];
    return NULL;
}

spyre_executable *executable_create(void)
{
    arena *memory = arena_create();
    spyre_executable *e = memory ? ARENA_NEW(memory, spyre_executable, 1) : NULL;
    if (!e) {
        arena_destroy(memory);
        return NULL;
    }
    e->memory = memory;
    e->references = 1;
    pthread_mutex_init(&e->lock, NULL);
    return e;
}

void size_rules_destroy(size_rules *rules)
{
    if (!rules) return;
    for (uint32_t n = 0; n < size_smaller_count(rules); n++)
        spyre_executable_destroy(rules->smaller[n]);
    arena_destroy(rules->memory);
}

void spyre_executable_destroy(spyre_executable *executable)
{
    if (!executable || !cache_table_let_go(executable)) return;
    for (uint32_t s = 0; s < executable->segment_count; s++) {
        job_destroy(executable->segments[s].job);
        text_free(&executable->segments[s].loop_dump);
    }
    spyre_executable_destroy(executable->stages);
    spyre_executable_destroy(executable->base);
    size_rules_destroy(executable->sizes);
    pthread_mutex_destroy(&executable->lock);
    arena_destroy(executable->memory);
}

int64_t spyre_executable_bytes(spyre_executable *executable)
{
    int64_t bytes = (int64_t)arena_host_bytes(executable->memory);
    for (uint32_t s = 0; s < executable->segment_count; s++)
        if (executable->segments[s].job) bytes += job_bytes(executable->segments[s].job);
    return bytes;
}
