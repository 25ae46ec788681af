// SPDX-License-Identifier: Apache-2.0
#include "front/loop.h"

#include <string.h>

bool loop_var_is_reduced(const loop_op *op, uint32_t var)
{
    uint32_t output = op->operand_count - 1;
    if (op->operand[output].stride[var]) return false;
    for (uint32_t i = 0; i < output; i++)
        if (op->operand[i].stride[var]) return true;
    return false;
}

int64_t loop_lanes(const loop_buffer *buffer)
{
    return spyre_format_elements_per_stick(buffer->format);
}

void loop_set_dims(loop_buffer *buffer)
{
    buffer->dim_count = 0;
    for (uint32_t d = buffer->storage.rank; d-- > 0;) {
        if (buffer->storage.size[d] < 2) continue;
        uint32_t at = buffer->dim_count++;
        while (at > 0 && buffer->dim[at - 1].stride > buffer->storage.stride[d]) {
            buffer->dim[at] = buffer->dim[at - 1];
            at--;
        }
        buffer->dim[at] = (loop_dim){buffer->storage.size[d], buffer->storage.stride[d]};
    }
}

spyre_status loop_add_local(loop_graph *loops, const char *name, spyre_dtype dtype,
                            spyre_format format, const spyre_view *storage, uint32_t *out)
{
    loop_buffer buffer = {.name = name,
                          .kind = LOOP_LOCAL,
                          .dtype = dtype,
                          .format = format,
                          .storage = *storage,
                          .stick = LOOP_NO_DIM,
                          .output = -1};
    buffer.storage.offset = 0;
    loop_set_dims(&buffer);
    *out = loops->buffers.count;
    return VEC_PUSH(loops->memory, &loops->buffers, buffer);
}

void loop_set_layout(loop_buffer *buffer, uint8_t stick)
{
    uint32_t count = 0;
    for (uint8_t d = 0; d < buffer->dim_count; d++)
        if (d != stick) buffer->order[count++] = d;
    if (stick != LOOP_NO_DIM) buffer->order[count] = stick;
    buffer->stick = stick;
    buffer->has_layout = true;
}

void loop_device_strides(const loop_buffer *buffer, int64_t out_strides[LOOP_MAX_DIMS],
                         int64_t *out_bytes)
{
    int64_t stride = SPYRE_STICK_BYTES, lanes = loop_lanes(buffer);
    for (uint32_t i = 0; i < buffer->dim_count; i++) {
        uint8_t d = buffer->order[i];
        int64_t extent = buffer->dim[d].extent;
        if (d == buffer->stick) extent = (extent + lanes - 1) / lanes;
        if (buffer->kind == LOOP_INPUT && buffer->fixed_size[d] > extent)
            extent = buffer->fixed_size[d];
        out_strides[d] = stride;
        stride *= extent;
    }
    *out_bytes = stride;
}

// The dim whose stride is the largest not above `stride`.
static uint32_t dim_at(const loop_buffer *buffer, int64_t stride)
{
    uint32_t d = 0;
    while (d + 1 < buffer->dim_count && buffer->dim[d + 1].stride <= stride) d++;
    return d;
}

// True when dims d and above, as far as `reach` steps of dim d go, continue each other in memory.
static bool runs_on(const loop_buffer *buffer, const int64_t *device, uint32_t d, int64_t reach)
{
    int64_t covered = buffer->dim[d].extent;
    int64_t next = device[d] * covered;
    while (reach > covered) {
        if (d == buffer->stick || d + 1 >= buffer->dim_count) return false;
        if (buffer->dim[d + 1].stride != buffer->dim[d].stride * buffer->dim[d].extent)
            return false;
        d++;
        if (d == buffer->stick || device[d] != next) return false;
        covered *= buffer->dim[d].extent;
        next *= buffer->dim[d].extent;
    }
    return true;
}

const char *loop_locate(const loop_graph *loops, const loop_op *op, const loop_access *access,
                        loop_location *out)
{
    const loop_buffer *buffer = &loops->buffers.items[access->buffer];
    int64_t device[LOOP_MAX_DIMS], digit[LOOP_MAX_DIMS] = {0}, bytes;
    int64_t lanes = loop_lanes(buffer), element = SPYRE_STICK_BYTES / lanes;
    loop_device_strides(buffer, device, &bytes);
    *out = (loop_location){.stick_var = LOOP_NO_DIM};

    int64_t rest = access->offset, first_lane = 0;
    for (uint32_t d = buffer->dim_count; d-- > 0;) {
        digit[d] = rest / buffer->dim[d].stride;
        rest %= buffer->dim[d].stride;
        if (digit[d] >= buffer->dim[d].extent) return "starts outside its storage";
        if (d == buffer->stick) {
            first_lane = digit[d] % lanes;
            out->offset += digit[d] / lanes * device[d] + first_lane * element;
        } else {
            out->offset += digit[d] * device[d];
        }
    }
    if (rest) return "starts between two elements";
    if (first_lane) return "starts inside a stick";

    for (uint32_t v = 0; v < op->var_count; v++) {
        int64_t stride = access->stride[v];
        if (stride == 0) continue;
        if (stride < 0 || buffer->dim_count == 0) return "walks outside its storage";
        uint32_t d = dim_at(buffer, stride);
        if (stride % buffer->dim[d].stride) return "steps across its dims";
        int64_t step = stride / buffer->dim[d].stride;
        int64_t reach = digit[d] + step * (op->extent[v] - 1) + 1;
        if (reach > buffer->dim[d].extent && !runs_on(buffer, device, d, reach))
            return "runs from one dim into the next";
        if (d != buffer->stick) {
            out->stride[v] = step * device[d];
        } else if (step == 1) {
            if (out->stick_var != LOOP_NO_DIM) return "walks the stick twice";
            out->stick_var = (uint8_t)v;
            out->stride[v] = device[d];
        } else if (step % lanes == 0) {
            out->stride[v] = step / lanes * device[d];
        } else {
            return "steps inside a stick";
        }
    }
    return NULL;
}

const char *loop_op_place(const loop_graph *loops, uint32_t index)
{
    const loop_op *op = &loops->ops.items[index];
    const char *place = arena_printf(loops->memory, "op %u %s %s (%s)", index, op->name,
                                     opfunc_describe(op->op)->name,
                                     op->location ? op->location : "unknown source line");
    return place ? place : op->name;
}
