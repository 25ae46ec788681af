// SPDX-License-Identifier: Apache-2.0
#include "spyre/deploy.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "compile/files/executable_bytes.h"
#include "compile/files/sealed_file.h"

// The name of all encoded executables: what they are of is theirs alone to know.
static content_key key_of_bytes(void)
{
    static const char name[] = "spyre_executable_encode";
    return sealed_file_key(name, sizeof name);
}

spyre_status spyre_executable_encode(const spyre_executable *executable, void **out_bytes,
                                     size_t *out_length)
{
    text content = {0};
    *out_bytes = NULL;
    if (!sealed_file_is_possible())
        return status_new(SPYRE_UNSUPPORTED, "the library has no build id to tell its bytes by");
    spyre_status status = executable_put(executable, "", &content);
    if (!status)
        status = sealed_file_make(key_of_bytes(), content.bytes, content.length, out_bytes,
                                  out_length);
    text_free(&content);
    return status;
}

void spyre_bytes_free(void *bytes)
{
    free(bytes);
}

static spyre_status decode(spyre_executable *e, const void *bytes, size_t length)
{
    const content_key key = key_of_bytes();
    const char *refusal = sealed_file_refusal(bytes, length, &key);
    if (refusal) return status_new(SPYRE_INVALID_FORMAT, "encoded executable: %s", refusal);
    size_t content_length = length - SEALED_HEADER_BYTES;
    uint8_t *content = arena_alloc(e->memory, content_length);
    TRY_ALLOC(content);
    memcpy(content, (const uint8_t *)bytes + SEALED_HEADER_BYTES, content_length);
    return status_at(executable_take(e, "", content, content_length), "encoded executable");
}

spyre_status spyre_executable_decode(const void *bytes, size_t length,
                                     spyre_executable **out_executable)
{
    *out_executable = NULL;
    spyre_executable *e = executable_create();
    TRY_ALLOC(e);
    spyre_status status = decode(e, bytes, length);
    if (status)
        spyre_executable_destroy(e);
    else
        *out_executable = e;
    return status;
}

// --- Running

typedef struct {
    spyre_context *context;
    uint32_t card;
    spyre_executable *executable;
    const spyre_segment *segment;
    const spyre_host_tensor *inputs, *outputs;
    uint64_t *input_addresses, *buffer_addresses;   // 0: not allocated
} run;

static spyre_status check_tensor(const spyre_host_tensor *tensor, const spyre_view *storage)
{
    int64_t bytes = spyre_dtype_bytes(tensor->dtype);
    if (bytes == 0)
        return status_new(SPYRE_INVALID_ARGUMENT, "%d is no dtype", (int)tensor->dtype);
    for (uint32_t d = 0; d < storage->rank; d++)
        if (__builtin_mul_overflow(bytes, storage->size[d], &bytes))
            return status_new(SPYRE_INVALID_ARGUMENT, "its size is beyond 63 bits");
    if (tensor->byte_count != bytes)
        return status_new(SPYRE_INVALID_ARGUMENT, "%" PRId64 " bytes are given, it has %" PRId64,
                          tensor->byte_count, bytes);
    if (bytes && !tensor->data) return status_new(SPYRE_INVALID_ARGUMENT, "its data are null");
    return NULL;
}

static spyre_status send_input(run *r, uint32_t i)
{
    const spyre_view *storage = &r->segment->input_storages[i];
    const spyre_layout *layout = &r->segment->input_layouts[i];
    TRY(check_tensor(&r->inputs[i], storage));
    TRY(spyre_memory_allocate(r->context, r->card, SPYRE_DEFAULT_STREAM, spyre_layout_bytes(layout),
                              &r->input_addresses[i]));
    const spyre_transfer transfer = {.card = r->card, .stream = SPYRE_DEFAULT_STREAM,
                                     .address = r->input_addresses[i], .layout = layout,
                                     .storage = storage, .dtype = r->inputs[i].dtype};
    return spyre_copy_to_card(r->context, &transfer, r->inputs[i].data);
}

static spyre_status make_buffer(run *r, uint32_t i)
{
    const spyre_segment_output *output = &r->segment->outputs[i];
    TRY(check_tensor(&r->outputs[i], &output->storage));
    if (r->outputs[i].dtype != output->type.dtype)
        return status_new(SPYRE_INVALID_ARGUMENT, "%s is given, it is %s",
                          spyre_dtype_name(r->outputs[i].dtype),
                          spyre_dtype_name(output->type.dtype));
    if (output->input >= 0 || r->buffer_addresses[output->buffer]) return NULL;
    return spyre_memory_allocate(r->context, r->card, SPYRE_DEFAULT_STREAM, output->bytes,
                                 &r->buffer_addresses[output->buffer]);
}

static spyre_status fetch_output(run *r, uint32_t i)
{
    const spyre_segment_output *output = &r->segment->outputs[i];
    uint64_t address = output->input >= 0 ? r->input_addresses[output->input]
                                          : r->buffer_addresses[output->buffer];
    const spyre_transfer transfer = {.card = r->card, .stream = SPYRE_DEFAULT_STREAM,
                                     .address = address, .layout = &output->layout,
                                     .storage = &output->storage, .dtype = output->type.dtype};
    return spyre_copy_to_host(r->context, &transfer, r->outputs[i].data);
}

static spyre_status execute(run *r)
{
    for (uint32_t i = 0; i < r->segment->input_count; i++)
        TRY(status_at(send_input(r, i), "input %u", i));
    for (uint32_t i = 0; i < r->segment->output_count; i++)
        TRY(status_at(make_buffer(r, i), "output %u", i));
    TRY(spyre_launch(r->context, r->card, SPYRE_DEFAULT_STREAM, r->executable, 0,
                     r->input_addresses, r->buffer_addresses));
    TRY(spyre_stream_synchronize(r->context, r->card, SPYRE_DEFAULT_STREAM));
    for (uint32_t i = 0; i < r->segment->output_count; i++)
        TRY(status_at(fetch_output(r, i), "output %u", i));
    return NULL;
}

static spyre_status check_counts(const spyre_executable *e, uint32_t inputs, uint32_t outputs)
{
    const spyre_segment *segment = spyre_executable_segment(e, 0);
    if (e->segment_count != 1 || segment->kind != SPYRE_SEGMENT_CARD)
        return status_new(SPYRE_UNSUPPORTED,
                          "an executable of %u segments%s: only one card segment runs by itself",
                          e->segment_count, e->segment_count == 1 ? ", which is the host's" : "");
    if (segment->input_count != inputs || segment->output_count != outputs)
        return status_new(SPYRE_INVALID_ARGUMENT,
                          "%u inputs and %u outputs are given, there are %u and %u", inputs,
                          outputs, segment->input_count, segment->output_count);
    return NULL;
}

spyre_status spyre_executable_run(spyre_context *context, uint32_t card_id,
                                  spyre_executable *executable, const spyre_host_tensor *inputs,
                                  uint32_t input_count, const spyre_host_tensor *outputs,
                                  uint32_t output_count)
{
    TRY(check_counts(executable, input_count, output_count));
    const spyre_segment *segment = spyre_executable_segment(executable, 0);
    arena *memory = arena_create();
    TRY_ALLOC(memory);
    run r = {.context = context, .card = card_id, .executable = executable, .segment = segment,
             .inputs = inputs, .outputs = outputs};
    r.input_addresses = ARENA_NEW(memory, uint64_t, input_count);
    r.buffer_addresses = ARENA_NEW(memory, uint64_t, segment->buffer_count);
    bool good = r.input_addresses && r.buffer_addresses;
    spyre_status status = good ? execute(&r) : status_no_memory();
    for (uint32_t i = 0; good && i < input_count; i++)
        if (r.input_addresses[i]) spyre_memory_free(context, card_id, r.input_addresses[i]);
    for (uint32_t b = 0; good && b < segment->buffer_count; b++)
        if (r.buffer_addresses[b]) spyre_memory_free(context, card_id, r.buffer_addresses[b]);
    arena_destroy(memory);
    return status;
}
