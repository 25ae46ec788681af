// SPDX-License-Identifier: Apache-2.0
//
// The whole way of a graph through the public interface: parse, compile, allocate, copy, launch,
// copy back, free. Every card segment runs by itself on made-up inputs, so that graphs with host
// segments can be used too. All errors come back as a status; nothing is kept behind.
#ifndef TESTS_JOURNEY_H
#define TESTS_JOURNEY_H

#include <stdlib.h>

#include <xxhash.h>

#include "base/status.h"
#include "spyre/runtime.h"

// Elements of storage that a view is of, and bytes of it.
static inline size_t journey_host_bytes(const spyre_view *storage, spyre_dtype dtype)
{
    size_t elements = 1;
    for (uint32_t d = 0; d < storage->rank; d++) elements *= (size_t)storage->size[d];
    return elements * spyre_dtype_bytes(dtype);
}

// Small positive numbers, the same in every run: valid rows for a gather, finite for everything.
static inline void journey_fill(uint8_t *bytes, size_t count, spyre_dtype dtype)
{
    size_t element = spyre_dtype_bytes(dtype);
    for (size_t at = 0; at + element <= count; at += element) {
        uint32_t step = (uint32_t)(at / element * 2654435761u) >> 29;
        uint16_t half = (uint16_t)(0x3800 + 0x40 * step);            // 0.5 to 0.72
        uint32_t single = 0x3F000000u + (step << 20);
        memset(bytes + at, 0, element);
        if (dtype == SPYRE_DTYPE_F16) memcpy(bytes + at, &half, sizeof half);
        else if (dtype == SPYRE_DTYPE_F32) memcpy(bytes + at, &single, sizeof single);
        else bytes[at] = (uint8_t)(step & 1);
    }
}

typedef struct {
    spyre_context *context;
    const spyre_segment *segment;
    uint64_t address[64];               // of inputs, then of buffers; 0: none
    uint32_t input_count, buffer_count;
} journey_segment;

static inline spyre_dtype journey_input_dtype(const journey_segment *j, uint32_t input)
{
    spyre_format format = j->segment->input_layouts[input].format;
    if (format == SPYRE_FORMAT_IEEE_FP32) return SPYRE_DTYPE_F32;
    return format == SPYRE_FORMAT_IEEE_INT32 ? SPYRE_DTYPE_I32 : SPYRE_DTYPE_F16;
}

static inline spyre_status journey_inputs(journey_segment *j)
{
    for (uint32_t i = 0; i < j->segment->input_count; i++) {
        const spyre_view *storage = &j->segment->input_storages[i];
        const spyre_layout *layout = &j->segment->input_layouts[i];
        spyre_dtype dtype = journey_input_dtype(j, i);
        TRY(spyre_memory_allocate(j->context, 0, 0, spyre_layout_bytes(layout), &j->address[i]));
        size_t bytes = journey_host_bytes(storage, dtype);
        uint8_t *host = calloc(1, bytes + 1);
        TRY_ALLOC(host);
        journey_fill(host, bytes, dtype);
        const spyre_transfer transfer = {.address = j->address[i], .layout = layout,
                                         .storage = storage, .dtype = dtype};
        spyre_status status = spyre_copy_to_card(j->context, &transfer, host);
        free(host);
        TRY(status);
    }
    return NULL;
}

static inline spyre_status journey_buffers(journey_segment *j)
{
    for (uint32_t i = 0; i < j->segment->output_count; i++) {
        const spyre_segment_output *out = &j->segment->outputs[i];
        uint64_t *address = &j->address[j->input_count + out->buffer];
        if (out->input >= 0 || *address) continue;
        TRY(spyre_memory_allocate(j->context, 0, 0, out->bytes, address));
        TRY(spyre_copy_raw(j->context, 0, 0, *address, 0, out->bytes));
    }
    return NULL;
}

static inline spyre_status journey_results(journey_segment *j, uint64_t *hash)
{
    for (uint32_t i = 0; i < j->segment->output_count; i++) {
        const spyre_segment_output *out = &j->segment->outputs[i];
        if (out->input >= 0) continue;
        size_t bytes = journey_host_bytes(&out->storage, out->type.dtype);
        uint8_t *host = calloc(1, bytes + 1);
        TRY_ALLOC(host);
        const spyre_transfer transfer = {.address = j->address[j->input_count + out->buffer],
                                         .layout = &out->layout, .storage = &out->storage,
                                         .dtype = out->type.dtype};
        spyre_status status = spyre_copy_to_host(j->context, &transfer, host);
        if (!status) *hash = XXH3_64bits_withSeed(host, bytes, *hash);
        free(host);
        TRY(status);
    }
    return NULL;
}

static inline spyre_status journey_segment_run(journey_segment *j, spyre_executable *executable,
                                               uint32_t index, uint64_t *hash)
{
    TRY(journey_inputs(j));
    TRY(journey_buffers(j));
    TRY(spyre_launch(j->context, 0, SPYRE_DEFAULT_STREAM, executable, index, j->address,
                     j->address + j->input_count));
    TRY(spyre_stream_synchronize(j->context, 0, SPYRE_DEFAULT_STREAM));
    return journey_results(j, hash);
}

// Runs every card segment once; *hash gets the results folded in.
static inline spyre_status journey_launch(spyre_context *context, spyre_executable *executable,
                                          uint64_t *hash)
{
    spyre_status status = NULL;
    for (uint32_t s = 0; !status && s < spyre_executable_segment_count(executable); s++) {
        const spyre_segment *segment = spyre_executable_segment(executable, s);
        if (segment->kind != SPYRE_SEGMENT_CARD) continue;
        journey_segment j = {.context = context, .segment = segment,
                             .input_count = segment->input_count,
                             .buffer_count = segment->buffer_count};
        if (j.input_count + j.buffer_count > sizeof j.address / sizeof *j.address) abort();
        status = journey_segment_run(&j, executable, s, hash);
        for (uint32_t i = 0; i < j.input_count + j.buffer_count; i++)
            if (j.address[i]) spyre_memory_free(context, 0, j.address[i]);
    }
    return status;
}

// Parse and compile.
static inline spyre_status journey_compile(const char *source, const char *name, uint32_t cores,
                                           spyre_executable **out_executable)
{
    spyre_graph *graph;
    spyre_compile_options options = spyre_compile_options_default();
    options.settings.sencores = cores;
    TRY(spyre_graph_parse(source, name, &graph));
    spyre_status status = spyre_compile(graph, &options, out_executable);
    spyre_graph_destroy(graph);
    return status;
}

// Everything, on a card of its own when `context` is null.
static inline spyre_status journey_run(const char *source, const char *name, uint32_t cores,
                                       spyre_context *context, uint64_t *out_hash)
{
    spyre_executable *executable;
    spyre_context *own = NULL;
    *out_hash = 0;
    TRY(journey_compile(source, name, cores, &executable));
    spyre_status status = context ? NULL : spyre_context_create(1, &own);
    if (!status) status = journey_launch(context ? context : own, executable, out_hash);
    spyre_executable_destroy(executable);
    spyre_context_destroy(own);
    return status;
}

#endif
