// SPDX-License-Identifier: Apache-2.0
//
// From an access to card bytes. A step of a loop is a step of one dim; along the stick it is one of
// lanes, or of whole sticks. A view may cut the stick: patches of 16 pixels in lines of 224,
//     b1[.. + 16*c1 + 1*c2] = b0[.. + 16*c0 + 1*c2]      c0<14, c2<16
// lie in sticks of 64 as four patches (c0 mod 4) of 16 lanes (c2) each, c0 div 4 counts the sticks.
// A restickify may walk them so on both sides: that is the published form of a stick of several
// dims (stickDimOrder_ [c2 16, c0 4]). A copy may write them so and then becomes one, other ops
// have one loop along their sticks.
#include <string.h>

#include "base/integer.h"
#include "front/ir/loop.h"

uint8_t loop_stick_var(const loop_op *op, const loop_access *access, const loop_buffer *buffer)
{
    uint8_t v = 0;
    if (buffer->stick == LOOP_NO_DIM || !buffer->dim_count) return LOOP_NO_DIM;
    while (v < op->var_count && access->stride[v] != buffer->dim[buffer->stick].stride) v++;
    return v < op->var_count ? v : LOOP_NO_DIM;
}

bool loop_is_move(const loop_graph *loops, const loop_op *op)
{
    if (!loop_is_copy(op)) return false;
    const loop_buffer *source = loop_operand_buffer(loops, op, 0);
    return source->kind != LOOP_CONSTANT &&
           source->format == loop_operand_buffer(loops, op, 1)->format;
}

static bool may_cut_stick(const loop_graph *loops, const loop_op *op, const loop_access *access)
{
    if (loops->settings.published_opfuncs) return false;
    return op->op == OPFUNC_RESTICKIFY || (access == loop_result(op) && loop_is_move(loops, op));
}

// These two divide no more than they have to: most steps are of one unit.
static int64_t units_of(int64_t stride, int64_t unit)
{
    return stride == unit ? 1 : stride / unit;
}

static bool is_multiple(int64_t step, int64_t lanes)
{
    return step >= lanes && step % lanes == 0;
}

// Lists the variables that walk lanes, by ascending step. *out_least: the smallest step of those
// that walk whole sticks, or INT64_MAX.
static void find_lane_vars(const loop_op *op, const loop_access *access, const loop_buffer *buffer,
                           uint8_t stick, loop_stick_walk *out, int64_t *out_least)
{
    const bool outermost = stick + 1u == buffer->dim_count;
    const int64_t unit = buffer->dim[stick].stride, lanes = loop_lanes(buffer);
    const int64_t outer = outermost ? INT64_MAX : buffer->dim[stick + 1].stride;
    for (uint8_t v = 0; v < op->var_count; v++) {
        const int64_t stride = access->stride[v];
        if (stride < unit || stride >= outer) continue;
        const int64_t step = units_of(stride, unit);
        if (step * unit != stride) continue;
        if (is_multiple(step, lanes)) {
            if (step < *out_least) *out_least = step;
            continue;
        }
        uint32_t at = out->count++;
        for (; at > 0 && out->step[out->var[at - 1]] > step; at--) out->var[at] = out->var[at - 1];
        out->var[at] = v;
        out->step[v] = step;
    }
}

// Each part begins where the one before it ends, and the last one fills the stick.
static const char *nest_parts(const loop_op *op, int64_t lanes, loop_stick_walk *w)
{
    int64_t next = 1;
    for (uint32_t i = 0; i < w->count; i++) {
        uint8_t v = w->var[i];
        if (i && w->step[v] == w->step[w->var[i - 1]]) return "walks the stick twice";
        if (w->step[v] != next || lanes % next) return "steps inside a stick";
        w->span[v] = i + 1 < w->count ? op->extent[v] : lanes / next;
        next *= op->extent[v];
    }
    return NULL;
}

const char *loop_walk_stick(const loop_graph *loops, const loop_op *op, const loop_access *access,
                            uint8_t stick, loop_stick_walk *out)
{
    const loop_buffer *buffer = &loops->buffers.items[access->buffer];
    int64_t least = INT64_MAX, lanes = loop_lanes(buffer);
    out->count = 0;
    for (uint32_t v = 0; v < LOOP_MAX_VARS; v++) {
        out->step[v] = 0;
        out->span[v] = 1;
    }
    if (stick >= buffer->dim_count) return NULL;
    find_lane_vars(op, access, buffer, stick, out, &least);
    const char *why = nest_parts(op, lanes, out);
    if (why || out->count < 2) return why;
    uint8_t last = out->var[out->count - 1];
    bool may_cut = may_cut_stick(loops, op, access) && out->count <= BUNDLE_MAX_DIGITS;
    if (!may_cut) return "steps inside a stick";
    return out->step[last] * op->extent[last] > least ? "walks the stick twice" : NULL;
}

bool loop_cuts_sticks(const loop_graph *loops, const loop_op *op)
{
    for (uint32_t k = 0; k < op->operand_count; k++) {
        loop_location place;
        if (!loop_locate(loops, op, &op->operand[k], &place) && place.walk.count > 1) return true;
    }
    return false;
}

// An access under translation.
typedef struct {
    const loop_buffer *buffer;
    int64_t lanes, device[LOOP_MAX_DIMS];
    int64_t span[LOOP_MAX_DIMS]; // the largest index that the access reaches in each dim
    bool parts;                  // steps of parts of a stick may be: loop_walk_stick() decides
} walk;

// The bytes of the first element; span, all zero, becomes its indices.
static const char *locate_offset(walk *w, int64_t offset, int64_t *out_bytes)
{
    const loop_buffer *buffer = w->buffer;
    int64_t element = SPYRE_STICK_BYTES / w->lanes, first_lane = 0;
    *out_bytes = 0;
    if (offset == 0) return NULL;
    if (offset < 0) return "starts outside its storage";
    for (uint32_t d = buffer->dim_count; d-- > 0;) {
        int64_t digit = w->span[d] = offset / buffer->dim[d].stride;
        offset %= buffer->dim[d].stride;
        if (digit >= buffer->dim[d].extent) return "starts outside its storage";
        if (d == buffer->stick) {
            first_lane = digit % w->lanes;
            digit /= w->lanes;
            *out_bytes += first_lane * element;
        }
        *out_bytes += digit * w->device[d];
    }
    if (offset) return "starts between two elements";
    return first_lane ? "starts inside a stick" : NULL;
}

// The bytes of one of `extent` steps of `stride` host elements; *out_lanes: it walks lanes, and
// these are the bytes of a stick.
static const char *locate_step(walk *w, int64_t extent, int64_t stride, int64_t *out_bytes,
                               bool *out_lanes)
{
    const loop_buffer *buffer = w->buffer;
    *out_bytes = 0;
    *out_lanes = false;
    if (stride == 0) return NULL;
    if (stride < 0 || buffer->dim_count == 0) return "walks outside its storage";
    uint32_t d = loop_dim_at(buffer, stride);
    int64_t step = units_of(stride, buffer->dim[d].stride);
    if (step * buffer->dim[d].stride != stride) return "steps across its dims";
    w->span[d] += step * (extent - 1);
    *out_lanes = d == buffer->stick && !is_multiple(step, w->lanes);
    if (*out_lanes && step > 1 && !w->parts) return "steps inside a stick";
    if (d == buffer->stick) step = step <= w->lanes ? 1 : divide_up(step, w->lanes);
    *out_bytes = step * w->device[d];
    return NULL;
}

// Rows that walk whole sticks of their dim go on in the next dim where that continues them, so that
// sticks lie one step apart in all of them.
static void run_on(walk *w, int64_t rows, int64_t *row_stride)
{
    const loop_buffer *buffer = w->buffer;
    uint32_t d = buffer->stick, next = d + 1;
    const loop_dim *dim = &buffer->dim[d];
    int64_t sticks = dim->extent / w->lanes;
    if (w->span[d] < dim->extent || next >= buffer->dim_count || w->span[d] != rows - 1) return;
    if (dim->extent % w->lanes || dim[1].stride != dim->stride * dim->extent) return;
    if (sticks == 1) *row_stride = w->device[next];
    if (w->device[next] != *row_stride * sticks) return;
    w->span[next] += w->span[d] / dim->extent;
    w->span[d] = dim->extent - 1;
}

// All steps together may leave a dim only where the next one continues it in memory.
static bool stays_in_dims(walk *w)
{
    const loop_buffer *buffer = w->buffer;
    for (uint32_t d = 0; d < buffer->dim_count; d++) {
        const loop_dim *dim = &buffer->dim[d];
        if (w->span[d] < dim->extent) continue;
        uint32_t next = d + 1;
        if (next == buffer->dim_count || d == buffer->stick || next == buffer->stick) return false;
        if (dim[1].stride != dim->stride * dim->extent) return false;
        if (w->device[next] != w->device[d] * dim->extent) return false;
        w->span[next] += w->span[d] / dim->extent;
    }
    return true;
}

const char *loop_locate(const loop_graph *loops, const loop_op *op, const loop_access *access,
                        loop_location *out)
{
    walk w = {.buffer = &loops->buffers.items[access->buffer]};
    int64_t bytes;
    bool lanes;
    w.lanes = loop_lanes(w.buffer);
    loop_device_strides(w.buffer, w.device, &bytes);
    *out = (loop_location){.stick_var = LOOP_NO_DIM};
    const char *why = locate_offset(&w, access->offset, &out->offset);
    w.parts = true;
    for (uint32_t v = 0; !why && v < op->var_count; v++)
        why = locate_step(&w, op->extent[v], access->stride[v], &out->stride[v], &lanes);
    w.parts = false;
    if (!why) why = loop_walk_stick(loops, op, access, w.buffer->stick, &out->walk);
    if (!why && out->walk.count) out->stick_var = out->walk.var[0];
    for (uint32_t t = 0; !why && t < op->tile_depth; t++) {
        int64_t count = loops->tiles.items[op->tiles[t]].count;
        why = locate_step(&w, count, access->tile_stride[t], &out->tile_stride[t], &lanes);
        if (!why && lanes) return "has tiles of parts of a stick";
    }
    if (!why && loop_is_table(op, access) && op->row_count > 1) {
        why = locate_step(&w, op->row_count, op->row_stride, &out->row_stride, &lanes);
        if (lanes && out->stick_var != LOOP_NO_DIM) return "walks the stick twice";
        if (lanes) out->stick_var = LOOP_ROWS;
        if (lanes) run_on(&w, op->row_count, &out->row_stride);
    }
    if (!why && !stays_in_dims(&w)) return "runs from one dim into the next";
    return why;
}
