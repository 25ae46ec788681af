// SPDX-License-Identifier: Apache-2.0
#include "front/check/translation_run.h"

#include <string.h>

#include "base/odometer.h"
#include "bundle/interpret.h"
#include "front/check/evaluate.h"

enum { STALE = 0x7f, PITCH = EVALUATE_ELEMENT_BYTES };

// --- Elements of a buffer

// Between host values and the bytes that the layout gives the buffer on the card.
static void transfer(const loop_buffer *buffer, uint8_t *values, uint8_t *card, bool to_card)
{
    int64_t strides[LOOP_MAX_DIMS], host[LOOP_MAX_DIMS], extent[LOOP_MAX_DIMS], bytes;
    int64_t index[LOOP_MAX_DIMS] = {0}, lanes = loop_lanes(buffer);
    uint32_t element = spyre_format_bytes(buffer->format);
    loop_device_strides(buffer, strides, &bytes);
    for (uint32_t d = 0; d < buffer->dim_count; d++) {
        host[d] = buffer->dim[d].stride * PITCH;
        extent[d] = buffer->dim[d].extent;
    }
    odometer_place value = {host, 0};
    do {
        int64_t at = 0;
        for (uint32_t d = 0; d < buffer->dim_count; d++) {
            bool stick = d == buffer->stick;
            at += (stick ? index[d] / lanes : index[d]) * strides[d];
            if (stick) at += index[d] % lanes * element;
        }
        if (to_card)
            memcpy(card + at, values + value.at, element);
        else
            memcpy(values + value.at, card + at, element);
    } while (odometer_next(buffer->dim_count, extent, index, &value, 1));
}

// --- Executions

spyre_status translation_evaluate(const translation_subject *v, const loop_graph *loops,
                                  arena *scratch, uint8_t **out)
{
    uint8_t **values = ARENA_NEW(scratch, uint8_t *, loops->buffers.count);
    TRY_ALLOC(values);
    for (uint32_t b = 0; b < loops->buffers.count; b++) {
        const loop_buffer *buffer = &loops->buffers.items[b];
        if (buffer->kind != LOOP_INPUT) continue;
        values[b] = v->inputs[buffer->index];
        if (!buffer->replaced_by) continue;
        size_t bytes = (size_t)(evaluate_elements(buffer) * PITCH);
        values[b] = arena_alloc(scratch, bytes);
        TRY_ALLOC(values[b]);
        memcpy(values[b], v->inputs[buffer->index], bytes);
    }
    TRY(loop_evaluate(loops, scratch, values));
    for (uint32_t i = 0; i < loops->outputs.count; i++)
        out[i] = values[loops->outputs.items[i].buffer];
    return NULL;
}

static spyre_status bind(const translation_subject *v, const front_result *result, arena *scratch,
                         bundle_buffer *buffers)
{
    const bundle *b = result->bundle;
    for (uint32_t i = 0; i < b->args.count; i++) {
        buffers[i].size_bytes = b->args.items[i].bytes;
        buffers[i].bytes = arena_alloc(scratch, (size_t)buffers[i].size_bytes);
        TRY_ALLOC(buffers[i].bytes);
        memset(buffers[i].bytes, STALE, (size_t)buffers[i].size_bytes);
        if (b->args.items[i].kind == BUNDLE_ARG_CONSTANTS)
            memcpy(buffers[i].bytes, b->constants, (size_t)b->constants_bytes);
    }
    for (uint32_t i = 0; i < result->loops->buffers.count; i++) {
        const loop_buffer *buffer = &result->loops->buffers.items[i];
        if (buffer->kind == LOOP_INPUT)
            transfer(&v->given[buffer->index], v->inputs[buffer->index],
                     buffers[(result->has_pool ? 1 : 0) + buffer->index].bytes, true);
    }
    return NULL;
}

static spyre_status collect(const translation_subject *v, const front_result *result,
                            arena *scratch, const bundle_buffer *buffers, uint8_t **out)
{
    const loop_graph *loops = result->loops;
    uint32_t first = (result->has_pool ? 1u : 0u) + result->input_count;
    for (uint32_t i = 0; i < loops->outputs.count; i++) {
        const loop_buffer *buffer = &loops->buffers.items[loops->outputs.items[i].buffer];
        bool given = buffer->kind == LOOP_INPUT;
        if (given && !buffer->replaced_by) {
            out[i] = v->inputs[buffer->index];
            continue;
        }
        uint32_t argument = given ? (result->has_pool ? 1u : 0u) + buffer->index
                                  : first + (uint32_t)buffer->output;
        out[i] = arena_alloc(scratch, (size_t)(evaluate_elements(buffer) * PITCH));
        TRY_ALLOC(out[i]);
        transfer(buffer, out[i], buffers[argument].bytes, false);
    }
    return NULL;
}

spyre_status translation_execute(const translation_subject *v, loop_graph *loops, arena *scratch,
                                 uint8_t **out)
{
    front_result result;
    TRY(v->emit(loops, &result));
    bundle_buffer *buffers = ARENA_NEW(scratch, bundle_buffer, result.bundle->args.count);
    TRY_ALLOC(buffers);
    TRY(bind(v, &result, scratch, buffers));
    memset(v->lx, STALE, (size_t)BUNDLE_MAX_CORES * BUNDLE_LX_BYTES);
    TRY(bundle_interpret(result.bundle, buffers, v->lx));
    return collect(v, &result, scratch, buffers, out);
}

spyre_status translation_lay_out(const translation_subject *v, loop_graph *loops, arena *scratch,
                                 uint8_t **out)
{
    uint8_t **card = ARENA_NEW(scratch, uint8_t *, loops->buffers.count);
    TRY_ALLOC(card);
    for (uint32_t b = 0; b < loops->buffers.count; b++) {
        const loop_buffer *buffer = &loops->buffers.items[b];
        if (buffer->kind != LOOP_INPUT) continue;
        card[b] = arena_alloc(scratch, (size_t)loop_device_bytes(buffer));
        TRY_ALLOC(card[b]);
        transfer(&v->given[buffer->index], v->inputs[buffer->index], card[b], true);
    }
    TRY(loop_evaluate_laid_out(loops, scratch, card));
    for (uint32_t i = 0; i < loops->outputs.count; i++) {
        const loop_buffer *buffer = &loops->buffers.items[loops->outputs.items[i].buffer];
        out[i] = arena_alloc(scratch, (size_t)(evaluate_elements(buffer) * PITCH));
        TRY_ALLOC(out[i]);
        transfer(buffer, out[i], card[loops->outputs.items[i].buffer], false);
    }
    return NULL;
}
