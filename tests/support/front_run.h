// SPDX-License-Identifier: Apache-2.0
//
// Runs a native graph through front and bundle interpreter on host tensors of fp16 or int64, for
// tests that compare with plain loops.
#ifndef TESTS_FRONT_RUN_H
#define TESTS_FRONT_RUN_H

#include <stdlib.h>
#include <string.h>

#include "back/back.h"
#include "bundle/interpret.h"
#include "card/card.h"
#include "front/front.h"
#include "graph/graph.h"
#include "tensor/dci.h"
#include "tensor/numeric.h"

// What executes programs, kept from run to run: making it costs more than a small run.
typedef struct {
    card *device;
    uint8_t *lx; // of the interpreter
    card_program *loaded; // of the bundle that ran last; forget it before the bundle's memory
    const bundle *of;
} front_machine;

typedef struct {
    spyre_graph *graph;
    arena *memory;
    uint32_t input_count;
    const void *host[16]; // host storage of each input
    spyre_dtype dtype[16];
    spyre_settings settings;
    spyre_loops_pass *loop_pass; // or null
    void *loop_context;
    front_machine *machine; // or null: one for each execution
    // After an execution: buffers in LX, ops in counted loops, ops that send LX over the ring.
    uint32_t in_lx, tiled, shuffled;
} front_run;

static inline spyre_view dense_view(uint32_t rank, const int64_t *size)
{
    spyre_view view = {.rank = rank};
    int64_t stride = 1;
    for (uint32_t d = rank; d-- > 0;) {
        view.size[d] = size[d];
        view.stride[d] = stride;
        stride *= size[d];
    }
    return view;
}

static inline int64_t view_elements(const spyre_view *view)
{
    int64_t count = 1;
    for (uint32_t d = 0; d < view->rank; d++) count *= view->size[d];
    return count;
}

static inline front_run front_run_begin(void)
{
    front_run run = {.memory = arena_create(), .settings = spyre_settings_default()};
    if (spyre_graph_create(&run.graph)) abort();
    return run;
}

static inline void front_run_end(front_run *run)
{
    spyre_graph_destroy(run->graph);
    arena_destroy(run->memory);
}

static inline uint32_t front_run_input(front_run *run, spyre_dtype dtype, uint32_t rank,
                                       const int64_t *size, const void *host)
{
    uint32_t value;
    char name[16];
    spyre_tensor_type type = {dtype, true, dense_view(rank, size)};
    snprintf(name, sizeof name, "in%u", run->input_count);
    spyre_status status = spyre_graph_add_input(run->graph, name, &type, NULL, NULL, &value);
    if (status) abort();
    run->host[run->input_count] = host;
    run->dtype[run->input_count++] = dtype;
    return value;
}

static inline uint32_t front_run_node(front_run *run, const char *op, const spyre_arg *args,
                                      uint32_t arg_count, spyre_dtype dtype, spyre_view view)
{
    static unsigned serial;
    uint32_t node, value;
    char name[16];
    spyre_tensor_type type = {dtype, true, view};
    snprintf(name, sizeof name, "v%u", serial++);
    spyre_status status = spyre_graph_add_node(run->graph, name, op, args, arg_count, &type, 1,
                                               "model.py:1", &node, &value);
    if (status) {
        fprintf(stderr, "%s\n", spyre_status_message(status));
        abort();
    }
    return value;
}

// A view of `base`: `view` counts elements of the base's storage.
static inline uint32_t front_run_view(front_run *run, uint32_t base, spyre_dtype dtype,
                                      spyre_view view)
{
    spyre_arg arg = {.kind = SPYRE_ARG_VALUE, .of.value = base};
    uint32_t value = front_run_node(run, "aten.as_strided.default", &arg, 1, dtype, view);
    run->graph->nodes.items[run->graph->nodes.count - 1].layer = GRAPH_LAYER_VIEW;
    return value;
}

static inline spyre_status front_run_transfer(arena *memory, const spyre_view *storage,
                                              const spyre_layout *layout, spyre_dtype dtype,
                                              void *on_card, void *host, bool to_card)
{
    dci transfer;
    TRY(dci_build(memory, storage, layout, dtype, &transfer));
    return to_card ? dci_to_card(&transfer, on_card, host) : dci_to_host(&transfer, host, on_card);
}

typedef enum { FRONT_RUN_INTERPRETER, FRONT_RUN_CARD_EXACT, FRONT_RUN_CARD_FAST } front_engine;

static inline void front_machine_forget(front_machine *machine)
{
    if (machine->loaded) card_unload(machine->device, machine->loaded);
    machine->loaded = NULL;
    machine->of = NULL;
}

static inline void front_machine_end(front_machine *machine)
{
    front_machine_forget(machine);
    if (machine->device) card_destroy(machine->device);
    free(machine->lx);
    *machine = (front_machine){0};
}

// Back-end and card's loader, unless the bundle ran last.
static inline spyre_status front_machine_load(front_machine *machine, arena *memory,
                                              const bundle *b)
{
    isa_program *program;
    back_options options = BACK_OPTIONS_INIT;
    if (machine->of == b) return NULL;
    front_machine_forget(machine);
    TRY(back_compile(b, &options, memory, &program));
    if (!machine->device) TRY(card_create(&machine->device));
    TRY(card_load_with(machine->device, program, bundle_pools(b), &machine->loaded));
    machine->of = b;
    return NULL;
}

// Back-end and card on the same buffers: argument k lies in segment k % 7.
static inline spyre_status front_run_on_card(arena *memory, const bundle *b, card_mode mode,
                                             const bundle_buffer *buffers, front_machine *machine)
{
    card_argument arguments[64] = {{0}};
    uint64_t next[7] = {0};
    TRY(front_machine_load(machine, memory, b));
    card *device = machine->device;
    card_set_mode(device, mode);
    for (uint32_t i = 0; i < b->args.count; i++) {
        uint64_t bytes = (uint64_t)buffers[i].size_bytes;
        arguments[i] = (card_argument){i % 7 * CARD_SEGMENT_BYTES + next[i % 7], bytes};
        next[i % 7] += bytes;
        memcpy(card_memory(device, arguments[i].base, bytes), buffers[i].bytes, bytes);
    }
    card_program_forget_lx(machine->loaded);
    TRY(card_launch(device, machine->loaded, arguments, b->args.count, NULL));
    for (uint32_t i = 0; i < b->args.count; i++) {
        uint64_t bytes = (uint64_t)buffers[i].size_bytes;
        memcpy(buffers[i].bytes, card_memory(device, arguments[i].base, bytes), bytes);
    }
    return NULL;
}

static inline spyre_status front_run_interpret(const bundle *b, const bundle_buffer *buffers,
                                               front_machine *machine)
{
    size_t stale_bytes = machine->lx ? 4 << 10 : 64 << 10;
    if (!machine->lx) machine->lx = calloc(BUNDLE_MAX_CORES, BUNDLE_LX_BYTES);
    for (uint32_t core = 0; core < BUNDLE_MAX_CORES; core++)
        memset(machine->lx + (size_t)core * BUNDLE_LX_BYTES, 0x7f, stale_bytes);
    return bundle_interpret(b, buffers, machine->lx);
}

static inline spyre_status front_run_compile(front_run *run, uint32_t cores, text *listing,
                                             front_result *out)
{
    uint32_t node;
    front_options options = {.settings = run->settings, .dump = listing};
    options.settings.sencores = cores;
    options.loop_pass = run->loop_pass;
    options.loop_context = run->loop_context;
    TRY(front_compile(run->graph, &options, run->memory, &node, out));
    const front_result result = *out;
    run->in_lx = run->tiled = run->shuffled = 0;
    for (uint32_t i = 0; i < result.loops->ops.count; i++) {
        run->tiled += result.loops->ops.items[i].tile_depth > 0;
        run->shuffled += result.loops->ops.items[i].op == OPFUNC_SHUFFLE;
    }
    for (uint32_t i = 0; i < result.loops->buffers.count; i++)
        run->in_lx += result.loops->buffers.items[i].in_lx;
    return NULL;
}

// Executes what was compiled; out[i] gets the whole storage of output i as its host dtype.
static inline spyre_status front_run_launch(front_run *run, const front_result *compiled,
                                            front_engine engine, void **out)
{
    const front_result result = *compiled;
    const bundle *b = result.bundle;
    front_machine own = {0}, *machine = run->machine ? run->machine : &own;
    bundle_buffer buffers[64] = {0};
    for (uint32_t i = 0; i < b->args.count; i++) {
        buffers[i].size_bytes = b->args.items[i].bytes;
        buffers[i].bytes = calloc(1, (size_t)buffers[i].size_bytes + 1);
        // Stale memory: nothing may depend on what padding holds.
        memset(buffers[i].bytes, 0x7f, (size_t)buffers[i].size_bytes);
        if (b->args.items[i].kind == BUNDLE_ARG_CONSTANTS)
            memcpy(buffers[i].bytes, b->constants, (size_t)b->constants_bytes);
    }
    uint32_t first = result.has_pool ? 1 : 0;
    spyre_status status = NULL;
    for (uint32_t i = 0; i < run->input_count; i++) {
        spyre_view storage;
        const graph_input *input = &run->graph->inputs.items[i];
        TRY_DONE(graph_view_constant(run->graph, &input->storage, &storage));
        void *host = (void *)(uintptr_t)run->host[i];
        TRY_DONE(front_run_transfer(run->memory, &storage, &input->layout, run->dtype[i],
                                    buffers[first + i].bytes, host, true));
    }
    if (engine == FRONT_RUN_INTERPRETER) {
        status = front_run_interpret(b, buffers, machine);
    } else {
        card_mode chosen = engine == FRONT_RUN_CARD_EXACT ? CARD_EXACT : CARD_FAST;
        status = front_run_on_card(run->memory, b, chosen, buffers, machine);
    }
    if (status) goto done;
    for (uint32_t i = 0; i < result.loops->outputs.count; i++) {
        const loop_buffer *buffer =
            &result.loops->buffers.items[result.loops->outputs.items[i].buffer];
        if (buffer->output < 0) continue; // an input, returned as it is
        spyre_layout layout;
        TRY_DONE(front_buffer_layout(buffer, &layout));
        TRY_DONE(front_run_transfer(
            run->memory, &buffer->storage, &layout, buffer->dtype,
            buffers[first + run->input_count + (uint32_t)buffer->output].bytes, out[i], false));
    }
done:
    for (uint32_t i = 0; i < b->args.count; i++) free(buffers[i].bytes);
    front_machine_end(&own);
    return status;
}

static inline spyre_status front_run_execute(front_run *run, uint32_t cores, front_engine engine,
                                             void **out, text *listing)
{
    front_result result;
    TRY(front_run_compile(run, cores, listing, &result));
    return front_run_launch(run, &result, engine, out);
}

#endif
