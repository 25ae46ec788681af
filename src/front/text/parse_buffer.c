// SPDX-License-Identifier: Apache-2.0
//
// A buffer of the text form, docs/loop-text.md.
#include "front/text/parse.h"

#include "tensor/scalar.h"

static spyre_status read_dims(parse_reader *r, loop_buffer *buffer)
{
    int64_t reach = 0;
    TRY(scan_expect(&r->in, "dims"));
    TRY(scan_expect(&r->in, "("));
    while (!scan_accept(&r->in, ")")) {
        if (buffer->dim_count == LOOP_MAX_DIMS)
            return scan_error(&r->in, "more than %d dims", LOOP_MAX_DIMS);
        loop_dim *dim = &buffer->dim[buffer->dim_count++];
        TRY(scan_int_within(&r->in, "an extent", 2, PARSE_MOST_ELEMENTS, &dim->extent));
        TRY(scan_expect(&r->in, ":"));
        TRY(scan_int_within(&r->in, "a stride", 1, PARSE_MOST_ELEMENTS, &dim->stride));
        TRY(parse_reach(r, dim->extent - 1, dim->stride, &reach));
    }
    buffer->storage = loop_plain_storage(buffer);
    return NULL;
}

// The dense host tensor, where the dims do not tell it: "(4:100 1:100 100:1)".
static spyre_status read_storage(parse_reader *r, loop_buffer *buffer)
{
    int64_t reach = 0;
    spyre_view *view = &buffer->storage;
    TRY(scan_expect(&r->in, "("));
    TRY(parse_view(r, view));
    for (uint32_t d = 0; d < view->rank; d++) {
        if (view->size[d] < 1) return scan_error(&r->in, "a tensor of size 0");
        TRY(parse_reach(r, view->size[d] - 1, view->stride[d], &reach));
    }
    return scan_expect(&r->in, ")");
}

// "(1 2 0*)" or "(1 2 sparse)"
static spyre_status read_layout(parse_reader *r, loop_buffer *buffer)
{
    int64_t dim;
    uint32_t ordered = 0, known = 0;
    buffer->has_layout = true;
    TRY(scan_expect(&r->in, "("));
    while (ordered < buffer->dim_count) {
        TRY(scan_int_within(&r->in, "a dim", 0, buffer->dim_count - 1, &dim));
        if (known & 1u << dim) return scan_error(&r->in, "dim %lld twice", (long long)dim);
        known |= 1u << dim;
        buffer->order[ordered++] = (uint8_t)dim;
        if (!scan_accept(&r->in, "*")) continue;
        if (buffer->stick != LOOP_NO_DIM) return scan_error(&r->in, "a second stick");
        buffer->stick = (uint8_t)dim;
    }
    if (buffer->stick == LOOP_NO_DIM && !scan_accept_word(&r->in, "sparse"))
        return scan_error(&r->in, "expected 'sparse', or a dim with '*'");
    return scan_expect(&r->in, ")");
}

static spyre_status read_place(parse_reader *r, loop_buffer *buffer)
{
    TRY(scan_expect(&r->in, "("));
    TRY(scan_int_within(&r->in, "an offset", 0, PARSE_MOST_BYTES, &buffer->memory_offset));
    TRY(scan_expect(&r->in, "+"));
    TRY(scan_int_within(&r->in, "a size", 1, PARSE_MOST_BYTES, &buffer->bytes));
    return scan_expect(&r->in, ")");
}

// "(1:5)": what an input's layout allocates in dim 1, tiles for the stick dim.
static spyre_status read_room(parse_reader *r, loop_buffer *buffer)
{
    int64_t dim, room, *fixed_size;
    TRY(scan_expect(&r->in, "("));
    TRY(scan_int_within(&r->in, "a dim", 0, (int64_t)buffer->dim_count - 1, &dim));
    TRY(scan_expect(&r->in, ":"));
    TRY(scan_int_within(&r->in, "a size", 1, PARSE_MOST_ELEMENTS, &room));
    TRY(loop_own_sizes(r->loops->memory, buffer, &fixed_size));
    fixed_size[dim] = room;
    return scan_expect(&r->in, ")");
}

static spyre_status read_slices(parse_reader *r, loop_buffer *buffer)
{
    int64_t dim, count;
    TRY(scan_expect(&r->in, "("));
    TRY(scan_int_within(&r->in, "a dim", 0, (int64_t)buffer->dim_count - 1, &dim));
    TRY(scan_expect(&r->in, "/"));
    TRY(scan_int_within(&r->in, "a count of slices", 2, PARSE_MOST_SLICES, &count));
    buffer->slices[dim] = (int32_t)count;
    return scan_expect(&r->in, ")");
}

static spyre_status read_kind(parse_reader *r, loop_buffer_kind *out)
{
    if (scan_accept_word(&r->in, "input")) *out = LOOP_INPUT;
    else if (scan_accept_word(&r->in, "constant")) *out = LOOP_CONSTANT;
    else if (scan_accept_word(&r->in, "local")) *out = LOOP_LOCAL;
    else return scan_error(&r->in, "expected input, constant or local");
    return NULL;
}

static spyre_status read_types(parse_reader *r, loop_buffer *buffer)
{
    const char *dtype, *format;
    const scanner before = r->in;
    TRY(scan_name(&r->in, "a dtype", &dtype));
    spyre_status unknown = spyre_dtype_named(dtype, &buffer->dtype);
    if (unknown) {
        spyre_status_free(unknown);
        return scan_error(&before, "no dtype is named '%s'", dtype);
    }
    TRY(scan_name(&r->in, "a format", &format));
    buffer->format = spyre_format_named(format);
    if (buffer->format == SPYRE_FORMAT_INVALID)
        return scan_error(&r->in, "no format is named '%s'", format);
    if (loop_lanes(buffer) == 0) return scan_error(&r->in, "%s has no sticks", format);
    return NULL;
}

static spyre_status read_scalar(parse_reader *r, loop_buffer *buffer)
{
    int64_t index;
    size_t length;
    TRY(scan_expect(&r->in, "("));
    TRY(scan_int_within(&r->in, "a scalar", 0, GRAPH_MOST_SCALARS - 1, &index));
    const char *word = scan_peek_word(&r->in, &length);
    if (!scalar_form_named(word, length, &buffer->form))
        return scan_error(&r->in, "a scalar has no form '%.*s'", (int)length, word);
    r->in.at += length;
    buffer->scalar = (uint32_t)index + 1;
    return scan_expect(&r->in, ")");
}

static spyre_status read_traits(parse_reader *r, loop_buffer *buffer)
{
    int64_t output, depth = 0;
    if (scan_accept_word(&r->in, "tensor")) TRY(read_storage(r, buffer));
    if (scan_accept_word(&r->in, "layout")) TRY(read_layout(r, buffer));
    while (buffer->kind == LOOP_INPUT && scan_accept_word(&r->in, "room"))
        TRY(read_room(r, buffer));
    if (buffer->kind == LOOP_INPUT && scan_accept_word(&r->in, "replaced")) {
        TRY(parse_int_in_parens(r, "an output", 0, INT32_MAX, &output)); // a return line's number
        buffer->replaced_by = (uint32_t)output + 1;
    }
    if (buffer->kind == LOOP_CONSTANT) {
        TRY(scan_expect(&r->in, "value"));
        TRY(scan_expect(&r->in, "("));
        TRY(scan_real(&r->in, &buffer->value));
        TRY(scan_expect(&r->in, ")"));
        if (scan_accept_word(&r->in, "scalar")) TRY(read_scalar(r, buffer));
    }
    buffer->exx2 = scan_accept_word(&r->in, "exx2");
    if (scan_accept_word(&r->in, "output")) {
        TRY(parse_int_in_parens(r, "an output", 0, INT32_MAX, &output));
        buffer->output = (int32_t)output;
    }
    if (scan_accept_word(&r->in, "per_tile"))
        TRY(parse_int_in_parens(r, "a count of loops", 1, LOOP_MAX_TILES, &depth));
    buffer->tile_depth = (uint32_t)depth;
    buffer->walked = scan_accept_word(&r->in, "walked");
    buffer->in_lx = scan_accept_word(&r->in, "lx");
    if (buffer->in_lx || scan_accept_word(&r->in, "memory")) TRY(read_place(r, buffer));
    while (buffer->in_lx && scan_accept_word(&r->in, "slices")) TRY(read_slices(r, buffer));
    return NULL;
}

// The host sees inputs and outputs, so their dims are those of a tensor of the host.
static spyre_status check_host_tensor(const parse_reader *r, const loop_buffer *buffer)
{
    const spyre_view *host = &buffer->storage;
    int64_t dims_reach = 0, host_reach = 0;
    if (buffer->kind != LOOP_INPUT && buffer->output < 0) return NULL;
    for (uint32_t d = 0; d < buffer->dim_count; d++)
        dims_reach += (buffer->dim[d].extent - 1) * buffer->dim[d].stride;
    for (uint32_t d = 0; d < host->rank; d++)
        host_reach += (host->size[d] - 1) * host->stride[d];
    if (dims_reach == host_reach) return NULL;
    return scan_error(&r->in, "the dims end at element %lld, the tensor at %lld",
                      (long long)dims_reach, (long long)host_reach);
}

spyre_status parse_buffer(parse_reader *r)
{
    uint32_t id, count = r->loops->buffers.count;
    parse_names names = {0};
    loop_buffer buffer = {.stick = LOOP_NO_DIM, .output = -1};
    for (uint32_t d = 0; d < LOOP_MAX_DIMS; d++) buffer.slices[d] = 1;
    TRY(parse_id(r, 'b', "a buffer", UINT32_MAX, &id));
    if (id != count) return scan_error(&r->in, "the next buffer is b%u", count);
    TRY(read_kind(r, &buffer.kind));
    TRY(read_types(r, &buffer));
    TRY(read_dims(r, &buffer));
    TRY(read_traits(r, &buffer));
    TRY(check_host_tensor(r, &buffer));
    if (buffer.kind == LOOP_INPUT) {
        buffer.index = r->inputs.count;
        if (scan_accept_word(&r->in, "names")) TRY(parse_dim_names(r, &names));
        TRY(VEC_PUSH(r->loops->memory, &r->inputs, names));
    }
    TRY(parse_comment(r, "; in memory: ", &buffer.name, &buffer.why_in_memory));
    return VEC_PUSH(r->loops->memory, &r->loops->buffers, buffer);
}

