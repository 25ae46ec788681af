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

spyre_status loop_set_count(loop_graph *loops, loop_access *access, loop_count count)
{
    TRY(VEC_PUSH(loops->memory, &loops->counts, count));
    access->count = loops->counts.count;
    return NULL;
}

static spyre_status split_count(loop_graph *loops, loop_access *access, uint32_t var,
                                int64_t inner)
{
    const loop_count *was = loop_count_of(loops, access);
    if (!was) return NULL;
    loop_count count = *was;
    for (uint32_t u = LOOP_MAX_VARS - 1; u > var; u--) count.step[u] = was->step[u - 1];
    count.step[var] *= (int32_t)inner;
    return loop_set_count(loops, access, count);
}

spyre_status loop_split_var(loop_graph *loops, loop_op *op, uint32_t var, int64_t inner)
{
    for (uint32_t u = op->var_count; u > var; u--) {
        op->extent[u] = op->extent[u - 1];
        op->split[u] = op->split[u - 1];
        op->dim_name[u] = op->dim_name[u - 1];
        for (uint32_t k = 0; k < op->operand_count; k++)
            op->operand[k].stride[u] = op->operand[k].stride[u - 1];
    }
    op->var_count++;
    uint32_t before = op->scanned & ((1u << var) - 1), from = op->scanned & ~((1u << var) - 1);
    bool scans = loop_var_is_scanned(op, var);
    op->scanned = (uint8_t)(before | from << 1 | (uint32_t)scans << var);
    op->extent[var + 1] = inner;
    op->extent[var] /= inner;
    for (uint32_t k = 0; k < op->operand_count; k++) {
        op->operand[k].stride[var] *= inner;
        TRY(split_count(loops, &op->operand[k], var, inner));
    }
    if (op->stick != LOOP_NO_DIM && op->stick >= var) op->stick++;
    return NULL;
}

static spyre_status remove_from_count(loop_graph *loops, loop_access *access, uint32_t gone)
{
    const loop_count *was = loop_count_of(loops, access);
    if (!was) return NULL;
    loop_count count = *was;
    for (uint32_t v = gone; v < LOOP_MAX_VARS; v++)
        count.step[v] = v + 1 < LOOP_MAX_VARS ? was->step[v + 1] : 0;
    return loop_set_count(loops, access, count);
}

spyre_status loop_remove_var(loop_graph *loops, loop_op *op, uint32_t gone)
{
    op->var_count--;
    for (uint32_t v = gone; v < op->var_count; v++) {
        op->extent[v] = op->extent[v + 1];
        op->split[v] = op->split[v + 1];
        op->dim_name[v] = op->dim_name[v + 1];
        for (uint32_t k = 0; k < op->operand_count; k++)
            op->operand[k].stride[v] = op->operand[k].stride[v + 1];
    }
    for (uint32_t k = 0; k < op->operand_count; k++) {
        op->operand[k].stride[op->var_count] = 0;
        TRY(remove_from_count(loops, &op->operand[k], gone));
    }
    if (op->stick != LOOP_NO_DIM && op->stick > gone) op->stick--;
    uint32_t before = op->scanned & ((1u << gone) - 1);
    op->scanned = (uint8_t)(before | (uint32_t)(op->scanned >> (gone + 1)) << gone);
    return NULL;
}

static spyre_status start_count(loop_graph *loops, loop_access *access, uint32_t var, int64_t first)
{
    const loop_count *was = loop_count_of(loops, access);
    if (!was || !first) return NULL;
    loop_count count = *was;
    count.first += count.step[var] * (int32_t)first;
    return loop_set_count(loops, access, count);
}

spyre_status loop_take_part(loop_graph *loops, loop_op *op, uint32_t var, int64_t first,
                            int64_t count)
{
    for (uint32_t k = 0; k < op->operand_count; k++) {
        loop_access *access = &op->operand[k];
        access->offset += first * access->stride[var];
        TRY(start_count(loops, access, var, first));
    }
    op->extent[var] = count;
    return count == 1 ? loop_remove_var(loops, op, var) : NULL;
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

bool loop_is_returned(const loop_graph *loops, uint32_t buffer)
{
    for (uint32_t i = 0; i < loops->outputs.count; i++)
        if (loops->outputs.items[i].buffer == buffer) return true;
    return loops->buffers.items[buffer].output >= 0;
}

bool loop_is_dense(const loop_buffer *buffer)
{
    int64_t elements = 1;
    for (uint32_t d = 0; d < buffer->dim_count; elements *= buffer->dim[d++].extent)
        if (buffer->dim[d].stride != elements) return false;
    return true;
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

spyre_status loop_add_in_dims(loop_graph *loops, uint32_t like, const loop_dim *dims,
                              uint32_t count, uint32_t *out)
{
    const loop_buffer *from = &loops->buffers.items[like];
    spyre_view storage = {.rank = count};
    if (count > SPYRE_MAX_RANK)
        return status_new(SPYRE_UNSUPPORTED, "%s: a buffer of %u dims, %d are supported",
                          from->name, count, SPYRE_MAX_RANK);
    for (uint32_t d = 0; d < count; d++) {
        storage.size[count - 1 - d] = dims[d].extent;
        storage.stride[count - 1 - d] = dims[d].stride;
    }
    return loop_add_local(loops, from->name, from->dtype, from->format, &storage, out);
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

uint32_t loop_count_writers(const loop_graph *loops, uint32_t buffer, uint32_t first, uint32_t end)
{
    uint32_t writers = 0;
    for (uint32_t i = first; i < end; i++)
        writers += loop_result(&loops->ops.items[i])->buffer == buffer;
    return writers;
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
    COPY_LIST(loop_count, counts);
    COPY_LIST(const char *, dim_names);
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

void loop_line_up(loop_buffer *buffer)
{
    loop_set_layout(buffer, 0);
    for (uint8_t d = 0; d < LOOP_MAX_DIMS; d++) buffer->order[d] = d;
}

spyre_status loop_own_sizes(arena *memory, loop_buffer *buffer, int64_t **out_sizes)
{
    TRY_NEW(memory, *out_sizes, LOOP_MAX_DIMS);
    if (buffer->fixed_size)
        memcpy(*out_sizes, buffer->fixed_size, LOOP_MAX_DIMS * sizeof **out_sizes);
    buffer->fixed_size = *out_sizes;
    return NULL;
}

int64_t loop_device_extent(const loop_buffer *buffer, uint32_t d)
{
    int64_t extent = buffer->dim[d].extent;
    if (buffer->in_lx) extent = divide_up(extent, buffer->slices[d]);
    return d == buffer->stick ? divide_up(extent, loop_lanes(buffer)) : extent;
}

int64_t loop_allocated_extent(const loop_buffer *buffer, uint32_t d)
{
    int64_t extent = loop_device_extent(buffer, d);
    bool roomy = buffer->kind == LOOP_INPUT && buffer->fixed_size &&
                 buffer->fixed_size[d] > extent;
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
