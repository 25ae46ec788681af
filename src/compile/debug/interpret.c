// SPDX-License-Identifier: Apache-2.0
//
// A segment by the interpreter of bundles, on copies of what lies on the card.
#include <stdlib.h>
#include <string.h>

#include "bundle/interpret.h"
#include "compile/card_bytes.h"
#include "compile/executable.h"
#include "tensor/scalar.h"

typedef struct {
    const executable_segment *segment;
    const uint64_t *inputs, *buffers;   // card addresses
    const double *scalars;
    card_bytes place;                   // context, card, stream
    bundle_buffer *copies;              // of every argument
} interpretation;

static bool is_on_card(const interpretation *in, uint32_t k)
{
    job_argument_kind kind = in->segment->arguments[k].kind;
    return kind == JOB_INPUT || kind == JOB_BUFFER;
}

static card_bytes place_of(const interpretation *in, uint32_t k)
{
    const job_argument *argument = &in->segment->arguments[k];
    card_bytes place = in->place;
    const uint64_t *addresses = argument->kind == JOB_INPUT ? in->inputs : in->buffers;
    place.address = addresses[argument->index];
    place.sticks = card_bytes_sticks(argument->bytes);
    return place;
}

static spyre_status fetch(interpretation *in, uint32_t k)
{
    const job_argument *argument = &in->segment->arguments[k];
    bundle_buffer *copy = &in->copies[k];
    copy->size_bytes = argument->bytes;
    copy->bytes = calloc((size_t)card_bytes_sticks(argument->bytes) + 1, SPYRE_STICK_BYTES);
    TRY_ALLOC(copy->bytes);
    if (argument->kind == JOB_CONSTANTS)
        memcpy(copy->bytes, argument->data, (size_t)argument->bytes);
    for (uint32_t s = 0; s < in->segment->scalar_count; s++) {
        const job_scalar *scalar = &in->segment->scalars[s];
        if (scalar->argument == k)
            scalar_fill_stick((char *)copy->bytes + scalar->offset, scalar->format,
                              scalar_apply(scalar->form, in->scalars[scalar->index]));
    }
    if (!is_on_card(in, k) || argument->bytes == 0) return NULL;
    const card_bytes place = place_of(in, k);
    return card_bytes_read(&place, copy->bytes);
}

// An output buffer, or an input that is written in place.
static bool is_written(const interpretation *in, uint32_t k)
{
    const job_argument *argument = &in->segment->arguments[k];
    const loop_graph *loops = in->segment->front.loops;
    for (uint32_t b = 0; argument->kind == JOB_INPUT && b < loops->buffers.count; b++) {
        const loop_buffer *buffer = &loops->buffers.items[b];
        if (buffer->kind == LOOP_INPUT && buffer->index == argument->index)
            return buffer->replaced_by != 0;
    }
    return argument->kind == JOB_BUFFER;
}

static spyre_status store(const interpretation *in, uint32_t k)
{
    if (!is_written(in, k) || in->copies[k].size_bytes == 0) return NULL;
    const card_bytes place = place_of(in, k);
    return card_bytes_write(&place, in->copies[k].bytes);
}

static spyre_status interpret(interpretation *in, uint8_t *lx)
{
    const bundle *b = in->segment->front.bundle;
    for (uint32_t k = 0; k < b->args.count; k++)
        TRY(status_at(fetch(in, k), "argument %u", k));
    TRY(bundle_interpret(b, in->copies, lx));
    for (uint32_t k = 0; k < b->args.count; k++)
        TRY(status_at(store(in, k), "argument %u", k));
    return NULL;
}

spyre_status spyre_interpret(spyre_context *context, uint32_t card_id, uint32_t stream,
                             spyre_executable *executable, uint32_t segment,
                             const uint64_t *inputs, const uint64_t *buffers)
{
    return spyre_interpret_scalars(context, card_id, stream, executable, segment, inputs, buffers,
                                   NULL);
}

spyre_status spyre_interpret_scalars(spyre_context *context, uint32_t card_id, uint32_t stream,
                                     spyre_executable *executable, uint32_t segment,
                                     const uint64_t *inputs, const uint64_t *buffers,
                                     const double *scalars)
{
    const spyre_executable *staged = executable;
    interpretation in = {.inputs = inputs,
                         .buffers = buffers,
                         .scalars = scalars,
                         .place = {.context = context, .card = card_id, .stream = stream}};
    TRY(executable_staged_segment(&staged, segment, &in.segment));
    if (in.segment->scalar_count && !scalars)
        return status_new(SPYRE_INVALID_ARGUMENT, "a launch without its scalars");
    uint32_t count = in.segment->front.bundle->args.count;
    in.copies = calloc(count + 1u, sizeof *in.copies);
    uint8_t *lx = calloc(BUNDLE_MAX_CORES, BUNDLE_LX_BYTES);
    spyre_status status = in.copies && lx ? interpret(&in, lx) : status_no_memory();
    for (uint32_t k = 0; in.copies && k < count; k++) free(in.copies[k].bytes);
    free(in.copies);
    free(lx);
    return status;
}
