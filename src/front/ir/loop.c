// SPDX-License-Identifier: Apache-2.0
#include "front/ir/loop.h"

#include <string.h>

#include "base/integer.h"
#include "tensor/scalar.h"

bool loop_var_is_reduced(const loop_op *op, uint32_t var)
{
    uint32_t output = op->operand_count - 1;
    if (op->operand[output].stride[var]) return false;
    for (uint32_t i = 0; i < output; i++)
        if (op->operand[i].stride[var]) return true;
    return false;
}

bool loop_var_is_rank(const loop_op *op, uint32_t var)
{
    return opfunc_describe(op->op)->kind == OPFUNC_KIND_RANK && !op->operand[0].stride[var];
}

bool loop_repeats_input(const loop_op *op, uint32_t k)
{
    const loop_access *access = &op->operand[k];
    for (uint32_t before = 0; before < k && k + 1 < op->operand_count && !op->table; before++) {
        const loop_access *other = &op->operand[before];
        if (access->buffer == other->buffer && access->offset == other->offset &&
            memcmp(access->stride, other->stride, op->var_count * sizeof *access->stride) == 0 &&
            memcmp(access->tile_stride, other->tile_stride,
                   op->tile_depth * sizeof *access->tile_stride) == 0)
            return true;
    }
    return false;
}

const char *loop_table_word(const loop_op *op)
{
    if (opfunc_accumulates(op->accumulator)) return " accumulate";
    return op->table == 0 ? "" : op->table == 1 ? " gather" : " scatter";
}

bool loop_is_element_wise(const loop_op *op)
{
    switch (opfunc_describe(op->op)->kind) {
    case OPFUNC_KIND_UNARY:
    case OPFUNC_KIND_BINARY:
    case OPFUNC_KIND_TERNARY:
    case OPFUNC_KIND_PARAMETRIC:
    case OPFUNC_KIND_COPY: return !op->table;
    case OPFUNC_KIND_REDUCTION:
    case OPFUNC_KIND_MATMUL:
    case OPFUNC_KIND_RANK:
    case OPFUNC_KIND_POOL:
    case OPFUNC_KIND_MASK:
    case OPFUNC_KIND_SCAN:
    case OPFUNC_KIND_NORM: break;
    }
    return false;
}

loop_op loop_over_dims(const loop_op *near, opfunc func, const loop_buffer *shape)
{
    loop_op op = {.op = func,
                  .name = shape->name,
                  .operand_count = 2,
                  .stick = LOOP_NO_DIM,
                  .location = near->location,
                  .node = near->node};
    for (uint32_t d = shape->dim_count; d-- > 0;) {
        uint32_t v = op.var_count++;
        if (d == shape->stick) op.stick = (uint8_t)v;
        op.extent[v] = shape->dim[d].extent;
        op.split[v] = 1;
        op.operand[0].stride[v] = op.operand[1].stride[v] = shape->dim[d].stride;
    }
    return op;
}

void loop_split_var(loop_op *op, uint32_t var, int64_t inner)
{
    for (uint32_t u = op->var_count; u > var; u--) {
        op->extent[u] = op->extent[u - 1];
        op->split[u] = op->split[u - 1];
        op->dim_name[u] = op->dim_name[u - 1];
        for (uint32_t k = 0; k < op->operand_count; k++) {
            op->operand[k].stride[u] = op->operand[k].stride[u - 1];
            op->operand[k].count.step[u] = op->operand[k].count.step[u - 1];
        }
    }
    op->var_count++;
    uint32_t before = op->scanned & ((1u << var) - 1), from = op->scanned & ~((1u << var) - 1);
    bool scans = loop_var_is_scanned(op, var);
    op->scanned = (uint8_t)(before | from << 1 | (uint32_t)scans << var);
    op->extent[var + 1] = inner;
    op->extent[var] /= inner;
    for (uint32_t k = 0; k < op->operand_count; k++) {
        op->operand[k].stride[var] *= inner;
        op->operand[k].count.step[var] *= (int32_t)inner;
    }
    if (op->stick != LOOP_NO_DIM && op->stick >= var) op->stick++;
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

const char *loop_division_origin_name(loop_division_origin origin)
{
    static const char *const names[] = {
        [LOOP_UNDIVIDED] = "none",
        [LOOP_DIVIDED_BY_SPAN] = "span",
        [LOOP_DIVIDED_BY_MATMUL_COST] = "published cost",
        [LOOP_DIVIDED_BY_DISTRIBUTION] = "distribution",
        [LOOP_DIVIDED_BY_AGREEMENT] = "agreement",
        [LOOP_DIVIDED_BY_HINT] = "hint",
    };
    return names[origin];
}

uint32_t loop_replaced_input(const loop_graph *loops, uint32_t buffer)
{
    for (uint32_t b = 0; b < loops->buffers.count; b++) {
        uint32_t output = loops->buffers.items[b].replaced_by;
        if (output && loops->outputs.items[output - 1].buffer == buffer) return b;
    }
    return LOOP_UNUSED;
}

spyre_view loop_plain_storage(const loop_buffer *buffer)
{
    spyre_view plain = {0};
    if (buffer->dim_count > SPYRE_MAX_RANK) return plain;
    plain.rank = buffer->dim_count;
    for (uint32_t d = 0; d < buffer->dim_count; d++) {
        plain.size[plain.rank - 1 - d] = buffer->dim[d].extent;
        plain.stride[plain.rank - 1 - d] = buffer->dim[d].stride;
    }
    return plain;
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

spyre_status loop_add_constant(loop_graph *loops, const graph_number *number, spyre_dtype dtype,
                               uint32_t *out)
{
    loop_buffer buffer = {.name = "constant",
                          .kind = LOOP_CONSTANT,
                          .value = scalar_apply(number->form, number->value),
                          .scalar = number->scalar,
                          .form = number->form,
                          .dtype = dtype,
                          .format = spyre_dtype_card_format(dtype),
                          .stick = LOOP_NO_DIM,
                          .has_layout = true,
                          .output = -1,
                          .bytes = SPYRE_STICK_BYTES};
    *out = loops->buffers.count;
    return VEC_PUSH(loops->memory, &loops->buffers, buffer);
}

bool loop_drop_ops(loop_graph *loops, const bool *gone)
{
    uint32_t kept = 0, count = loops->ops.count;
    for (uint32_t i = 0; i < count; i++)
        if (!gone[i]) loops->ops.items[kept++] = loops->ops.items[i];
    loops->ops.count = kept;
    return kept != count;
}

spyre_status loop_take_ops(loop_graph *loops, const loop_op_list *ops)
{
    if (ops->count > loops->ops.capacity)
        TRY(VEC_ROOM(loops->memory, &loops->ops, ops->count));
    for (uint32_t i = 0; i < ops->count; i++) loops->ops.items[i] = ops->items[i];
    loops->ops.count = ops->count;
    return NULL;
}

spyre_status loop_copy(const loop_graph *loops, arena *scratch, loop_graph *out)
{
    *out = *loops;
    out->memory = scratch;
    out->scratch = NULL;
#define COPY_LIST(type, list)                                                     \
    out->list.items = ARENA_NEW(scratch, type, loops->list.count);                \
    TRY_ALLOC(out->list.items);                                                   \
    out->list.capacity = loops->list.count;                                       \
    for (uint32_t i = 0; i < loops->list.count; i++) out->list.items[i] = loops->list.items[i]
    COPY_LIST(loop_buffer, buffers);
    COPY_LIST(loop_op, ops);
    COPY_LIST(loop_tiles, tiles);
    COPY_LIST(loop_output, outputs);
#undef COPY_LIST
    return NULL;
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

int64_t loop_device_extent(const loop_buffer *buffer, uint32_t d)
{
    int64_t extent = buffer->dim[d].extent, lanes = loop_lanes(buffer);
    if (buffer->in_lx) extent = divide_up(extent, buffer->slices[d]);
    return d == buffer->stick ? divide_up(extent, lanes) : extent;
}

int64_t loop_allocated_extent(const loop_buffer *buffer, uint32_t d)
{
    int64_t extent = loop_device_extent(buffer, d);
    bool roomy = buffer->kind == LOOP_INPUT && buffer->fixed_size[d] > extent;
    return roomy ? buffer->fixed_size[d] : extent;
}

void loop_device_strides(const loop_buffer *buffer, int64_t out_strides[LOOP_MAX_DIMS],
                         int64_t *out_bytes)
{
    int64_t stride = SPYRE_STICK_BYTES;
    for (uint32_t i = 0; i < buffer->dim_count; i++) {
        uint8_t d = buffer->order[i];
        out_strides[d] = stride;
        stride *= loop_allocated_extent(buffer, d);
    }
    *out_bytes = stride;
}

int64_t loop_device_bytes(const loop_buffer *buffer)
{
    int64_t strides[LOOP_MAX_DIMS], bytes;
    loop_device_strides(buffer, strides, &bytes);
    return bytes;
}

int64_t loop_split_offset(const loop_buffer *buffer, int64_t offset,
                          int64_t out_index[LOOP_MAX_DIMS])
{
    for (uint32_t d = buffer->dim_count; d-- > 0; offset %= buffer->dim[d].stride)
        out_index[d] = offset / buffer->dim[d].stride;
    return offset;
}

uint32_t loop_dim_at(const loop_buffer *buffer, int64_t stride)
{
    uint32_t d = 0;
    while (d + 1 < buffer->dim_count && buffer->dim[d + 1].stride <= stride) d++;
    return d;
}

int64_t loop_part_within(const loop_dim *dim, int64_t first, int64_t step, int64_t count)
{
    int64_t inner = dim->extent / step;
    if (first + step * (count - 1) < dim->extent) return count;
    return first || dim->extent % step || count % inner ? 0 : inner;
}

bool loop_find_reach(const loop_buffer *buffer, const loop_op *op, const loop_access *access,
                     int64_t out_first[LOOP_MAX_DIMS], int64_t out_last[LOOP_MAX_DIMS])
{
    loop_split_offset(buffer, access->offset, out_first);
    for (uint32_t d = 0; d < buffer->dim_count; d++) out_last[d] = out_first[d];
    for (uint32_t v = 0; v < op->var_count; v++) {
        if (!access->stride[v]) continue;
        uint32_t d = loop_dim_at(buffer, access->stride[v]);
        if (access->stride[v] % buffer->dim[d].stride) return false;
        out_last[d] += access->stride[v] / buffer->dim[d].stride * (op->extent[v] - 1);
    }
    for (uint32_t d = 0; d < buffer->dim_count; d++)
        if (out_last[d] < 0 || out_last[d] >= buffer->dim[d].extent) return false;
    return true;
}

bool loop_stays_in_dims(const loop_buffer *buffer, const loop_op *op, const loop_access *access)
{
    int64_t first[LOOP_MAX_DIMS], last[LOOP_MAX_DIMS];
    return loop_find_reach(buffer, op, access, first, last);
}

bool loop_walks_evenly(const loop_buffer *buffer, const loop_op *op, const loop_access *access)
{
    uint32_t walking[LOOP_MAX_DIMS] = {0};
    bool uneven[LOOP_MAX_DIMS] = {false};
    for (uint32_t v = 0; v < op->var_count; v++) {
        if (!access->stride[v]) continue;
        uint32_t d = loop_dim_at(buffer, access->stride[v]);
        const loop_dim *dim = &buffer->dim[d];
        walking[d]++;
        uneven[d] |= dim->extent % (access->stride[v] / dim->stride) != 0;
    }
    for (uint32_t d = 0; d < buffer->dim_count; d++)
        if (walking[d] > 1 && uneven[d]) return false;
    return true;
}

uint8_t loop_stick_var(const loop_op *op, const loop_access *access, const loop_buffer *buffer)
{
    uint8_t v = 0;
    if (buffer->stick == LOOP_NO_DIM || !buffer->dim_count) return LOOP_NO_DIM;
    while (v < op->var_count && access->stride[v] != buffer->dim[buffer->stick].stride) v++;
    return v < op->var_count ? v : LOOP_NO_DIM;
}

uint8_t loop_tap_of(const loop_op *op, const loop_buffer *buffer, uint32_t v)
{
    const int64_t *stride = op->operand[0].stride;
    if (!opfunc_slides(op->op) || !stride[v] || loop_var_is_reduced(op, v)) return LOOP_NO_DIM;
    uint32_t d = loop_dim_at(buffer, stride[v]);
    for (uint8_t u = 0; u < op->var_count; u++)
        if (loop_var_is_reduced(op, u) && stride[u] && loop_dim_at(buffer, stride[u]) == d)
            return u;
    return LOOP_NO_DIM;
}

bool loop_starts_dim(const loop_buffer *buffer, int64_t offset, int64_t stride)
{
    if (buffer->dim_count == 0) return false;
    const loop_dim *dim = &buffer->dim[loop_dim_at(buffer, stride)];
    return offset / dim->stride % dim->extent == 0;
}

// An access under translation.
typedef struct {
    const loop_buffer *buffer;
    int64_t lanes, device[LOOP_MAX_DIMS];
    int64_t span[LOOP_MAX_DIMS]; // the largest index that the access reaches in each dim
} walk;

// The bytes of the first element; span starts as its indices.
static const char *locate_offset(walk *w, int64_t offset, int64_t *out_bytes)
{
    const loop_buffer *buffer = w->buffer;
    int64_t element = SPYRE_STICK_BYTES / w->lanes, first_lane = 0;
    *out_bytes = 0;
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

// The bytes of one of `extent` steps of `stride` host elements; *out_lanes: it walks the stick.
static const char *locate_step(walk *w, int64_t extent, int64_t stride, int64_t *out_bytes,
                               bool *out_lanes)
{
    const loop_buffer *buffer = w->buffer;
    *out_bytes = 0;
    *out_lanes = false;
    if (stride == 0) return NULL;
    if (stride < 0 || buffer->dim_count == 0) return "walks outside its storage";
    uint32_t d = loop_dim_at(buffer, stride);
    if (stride % buffer->dim[d].stride) return "steps across its dims";
    int64_t step = stride / buffer->dim[d].stride;
    w->span[d] += step * (extent - 1);
    *out_lanes = d == buffer->stick && step == 1;
    if (d == buffer->stick && step > 1) {
        if (step % w->lanes) return "steps inside a stick";
        step /= w->lanes;
    }
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
    for (uint32_t v = 0; !why && v < op->var_count; v++) {
        why = locate_step(&w, op->extent[v], access->stride[v], &out->stride[v], &lanes);
        if (!lanes) continue;
        if (out->stick_var != LOOP_NO_DIM) return "walks the stick twice";
        out->stick_var = (uint8_t)v;
    }
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

int64_t loop_row_steps(const loop_graph *loops, const loop_op *op, const loop_location *table)
{
    int64_t lanes = loop_lanes(loop_operand_buffer(loops, op, op->table));
    return table->stick_var == LOOP_ROWS ? divide_up(op->row_count, lanes) : op->row_count;
}

const char *loop_op_place(const loop_graph *loops, uint32_t index)
{
    const loop_op *op = &loops->ops.items[index];
    const char *place = arena_printf(loops->memory, "op %u %s %s (%s)", index, op->name,
                                     opfunc_describe(op->op)->name,
                                     op->location ? op->location : "unknown source line");
    return place ? place : op->name;
}

const char *loop_access_place(const loop_graph *loops, uint32_t op, uint32_t operand)
{
    uint32_t buffer = loops->ops.items[op].operand[operand].buffer;
    const char *place = loop_op_place(loops, op);
    if (buffer >= loops->buffers.count)
        place = arena_printf(loops->memory, "%s, operand %u", place, operand);
    else
        place = arena_printf(loops->memory, "%s, operand %u (b%u %%%s)", place, operand, buffer,
                             loops->buffers.items[buffer].name);
    return place ? place : "an operand";
}
