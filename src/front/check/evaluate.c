// SPDX-License-Identifier: Apache-2.0
#include "front/check/evaluate.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/odometer.h"
#include "bundle/execution.h"
#include "tensor/accumulate.h"

int64_t evaluate_elements(const loop_buffer *buffer)
{
    int64_t count = 1;
    for (uint32_t d = 0; d < buffer->dim_count; d++)
        count += buffer->dim[d].stride * (buffer->dim[d].extent - 1);
    return count;
}

// One op as a step of a bundle on one core, its tensors without sticks.
typedef struct {
    const loop_graph *loops;
    const loop_op *op;
    const int64_t *tile; // index of each counted loop around the op
    uint8_t **values;
    bool laid_out;       // the values lie as the buffers' layouts say
    int64_t row_stride, row_lanes; // bytes; rows a stick
    bundle_step step;
    bundle_division cores;
    bundle_constant constants[BUNDLE_MAX_CONSTANTS];
    bundle_tensor tensors[LOOP_MAX_OPERANDS];
    bundle_buffer buffers[LOOP_MAX_OPERANDS];
    execution x;
} evaluation;

static void describe_step(evaluation *e)
{
    const loop_op *op = e->op;
    const opfunc_info *info = opfunc_describe(op->op);
    bundle_step *step = &e->step;
    step->op = op->op;
    step->name = op->name;
    step->dim_count = op->var_count;
    step->cores = &e->cores;
    step->constants = e->constants;
    e->cores.core_count = 1;
    for (uint32_t v = 0; v < op->var_count; v++) {
        snprintf(step->dim_name[v], sizeof step->dim_name[v], "c%c", (char)('0' + v));
        step->size[v] = op->extent[v];
        step->scanned[v] = loop_var_is_scanned(op, v);
        e->cores.slices[v] = 1;
    }
    for (uint32_t i = 0; i < opfunc_constant_count(op->op, op->operand_count - 1u); i++) {
        bundle_constant *constant = &step->constants[step->constant_count++];
        snprintf(constant->name, sizeof constant->name, "%s", info->parameter[i]);
        constant->format = SPYRE_FORMAT_IEEE_FP32;
        memcpy(&constant->bits, &op->parameter[i], sizeof constant->bits);
    }
    step->tensors = e->tensors;
    step->tensor_count = op->operand_count;
    step->output = (uint8_t)(op->operand_count - 1);
    for (uint8_t k = 0; k < step->output; k++) step->inputs[step->input_count++] = k;
}

// Where the operand's elements are, in bytes: an access in host elements, or as the layout has it.
static spyre_status locate(const evaluation *e, const loop_access *access, loop_location *out)
{
    if (e->laid_out) {
        const char *why = loop_locate(e->loops, e->op, access, out);
        return why ? status_new(SPYRE_INTERNAL, "b%u: %s", access->buffer, why) : NULL;
    }
    *out = (loop_location){.stick_var = LOOP_NO_DIM,
                           .offset = access->offset * EVALUATE_ELEMENT_BYTES,
                           .row_stride = e->op->row_stride * EVALUATE_ELEMENT_BYTES};
    for (uint32_t v = 0; v < e->op->var_count; v++) {
        out->stride[v] = access->stride[v] * EVALUATE_ELEMENT_BYTES;
        out->walk.span[v] = 1;
    }
    for (uint32_t t = 0; t < e->op->tile_depth; t++)
        out->tile_stride[t] = access->tile_stride[t] * EVALUATE_ELEMENT_BYTES;
    return NULL;
}

static int64_t bytes_of(const loop_buffer *buffer, bool laid_out)
{
    return laid_out ? loop_device_bytes(buffer)
                    : evaluate_elements(buffer) * EVALUATE_ELEMENT_BYTES;
}

// Numbers of the round in hand; of none there are places.
static spyre_status describe_count(evaluation *e, uint32_t k)
{
    const loop_count *of = loop_count_of(e->loops, &e->op->operand[k]);
    if (!of) return NULL;
    bundle_count *count = ARENA_NEW(e->x.scratch, bundle_count, 1);
    TRY_ALLOC(count);
    TRY_NEW(e->x.scratch, e->x.operands[k].number, sizeof(int64_t));
    count->first = of->first;
    count->signs = of->signs;
    for (uint32_t v = 0; v < e->op->var_count; v++) count->step[v] = of->step[v];
    for (uint32_t t = 0; t < e->op->tile_depth; t++) count->first += e->tile[t] * of->tile_step[t];
    e->tensors[k].count = count;
    return NULL;
}

static spyre_status describe_operand(evaluation *e, uint32_t k)
{
    const loop_access *access = &e->op->operand[k];
    const loop_buffer *buffer = &e->loops->buffers.items[access->buffer];
    bundle_tensor *tensor = &e->tensors[k];
    operand *o = &e->x.operands[k];
    loop_location place;
    TRY(locate(e, access, &place));
    snprintf(tensor->name, sizeof tensor->name, "b%u", access->buffer);
    tensor->format = buffer->format;
    tensor->element_bytes = spyre_format_bytes(buffer->format);
    tensor->stick_dim = LOOP_NO_DIM;
    int64_t offset = place.offset, lanes = loop_lanes(buffer);
    for (uint32_t t = 0; t < e->op->tile_depth; t++) offset += e->tile[t] * place.tile_stride[t];
    tensor->arg = (int32_t)k;
    tensor->start = offset;
    e->buffers[k] = (bundle_buffer){e->values[access->buffer], bytes_of(buffer, e->laid_out)};
    if (loop_is_table(e->op, access)) {
        e->row_stride = place.row_stride;
        e->row_lanes = place.stick_var == LOOP_ROWS ? lanes : 1;
    }
    o->tensor = tensor;
    TRY(describe_count(e, k));
    for (uint32_t v = 0; v < e->op->var_count; v++) {
        int64_t lane_bytes = place.walk.step[v] * tensor->element_bytes;
        o->geometry.valid[v] = e->op->extent[v];
        if (!access->stride[v]) continue;
        o->geometry.moves[v] = true;
        TRY_NEW(e->x.scratch, o->offset[v], (size_t)e->op->extent[v]);
        for (int64_t i = 0; i < e->op->extent[v]; i++)
            o->offset[v][i] = 8 * (i / place.walk.span[v] * place.stride[v] +
                                   i % place.walk.span[v] * lane_bytes);
    }
    return NULL;
}

static void describe_space(evaluation *e)
{
    execution *x = &e->x;
    for (uint8_t v = 0; v < e->op->var_count; v++) {
        x->local[v] = e->op->extent[v];
        if (loop_var_is_reduced(e->op, v) && !e->op->table)
            x->reduced[x->reduced_count++] = v;
        else
            x->kept[x->kept_count++] = v;
    }
}

static spyre_status move_rows(const evaluation *e)
{
    const execution *x = &e->x;
    int64_t index[BUNDLE_MAX_DIMS] = {0};
    do {
        uint8_t *row, *source, *target;
        TRY(execution_place(x, 0, 0, index, 0, &row));
        int64_t position = (int64_t)element_load(row, e->tensors[0].format);
        if (position < 0 || position >= e->op->row_count)
            return status_new(SPYRE_DEVICE_FAULT, "index %" PRId64 " of %" PRId64 " rows", position,
                              e->op->row_count);
        TRY(execution_place(x, 1, 0, index, 0, &source));
        TRY(execution_place(x, 2, 0, index, 0, &target));
        *(e->op->table == 1 ? &source : &target) +=
            position / e->row_lanes * e->row_stride +
            position % e->row_lanes * e->tensors[e->op->table].element_bytes;
        if (opfunc_accumulates(e->op->accumulator))
            accumulate_element(e->op->accumulator, target, e->tensors[2].format, source,
                               e->tensors[1].format);
        else memcpy(target, source, e->tensors[1].element_bytes);
    } while (odometer_next_of(x->kept, x->kept_count, x->local, index));
    return NULL;
}

static spyre_status run(evaluation *e)
{
    if (e->op->table) return move_rows(e);
    switch (opfunc_describe(e->op->op)->kind) {
    case OPFUNC_KIND_UNARY:
    case OPFUNC_KIND_BINARY:
    case OPFUNC_KIND_TERNARY:
    case OPFUNC_KIND_PARAMETRIC:
    case OPFUNC_KIND_COPY: return interpret_pointwise(&e->x);
    case OPFUNC_KIND_NORM:
        return e->op->op == OPFUNC_LAYERNORMSCALE ? interpret_layernormscale(&e->x)
                                                  : interpret_pointwise(&e->x);
    case OPFUNC_KIND_REDUCTION:
    case OPFUNC_KIND_POOL: return interpret_reduction(&e->x);
    case OPFUNC_KIND_MATMUL: return interpret_matmul(&e->x);
    case OPFUNC_KIND_RANK: return interpret_rank(&e->x);
    case OPFUNC_KIND_SCAN: return interpret_scan(&e->x);
    case OPFUNC_KIND_MASK: break; // no native of a graph
    }
    return status_new(SPYRE_INTERNAL, "an opfunc of no kind");
}

// What is evaluated, and where its values are.
typedef struct {
    const loop_graph *loops;
    uint8_t **values;
    bool laid_out;
} subject;

static spyre_status evaluate_op(const subject *s, const loop_op *op, const int64_t *tile)
{
    evaluation *e = calloc(1, sizeof *e);
    TRY_ALLOC(e);
    *e = (evaluation){.loops = s->loops,
                      .op = op,
                      .tile = tile,
                      .values = s->values,
                      .laid_out = s->laid_out};
    spyre_status status = NULL;
    e->x.scratch = arena_create();
    if (!e->x.scratch) TRY_DONE(status_no_memory());
    e->x.step = &e->step;
    e->x.buffers = e->buffers;
    describe_step(e);
    describe_space(e);
    for (uint32_t k = 0; k < op->operand_count; k++) TRY_DONE(describe_operand(e, k));
    status = run(e);
done:
    arena_destroy(e->x.scratch);
    free(e);
    return status;
}

// Ops [first, last), inside of `depth` counted loops that stand at `tile`.
static spyre_status evaluate_ops(const subject *s, uint32_t first, uint32_t last, uint32_t depth,
                                 int64_t *tile)
{
    const loop_graph *loops = s->loops;
    for (uint32_t i = first; i < last; i++) {
        const loop_op *op = &loops->ops.items[i];
        if (op->tile_depth == depth) {
            TRY(status_at(evaluate_op(s, op, tile), "%s", loop_op_place(loops, i)));
            continue;
        }
        uint32_t end = i + 1;
        while (end < last && loop_shared_tiles(op, &loops->ops.items[end]) > depth) end++;
        for (tile[depth] = 0; tile[depth] < loops->tiles.items[op->tiles[depth]].count;
             tile[depth]++)
            TRY(evaluate_ops(s, i, end, depth + 1, tile));
        i = end - 1;
    }
    return NULL;
}

static void fill(const loop_buffer *buffer, uint8_t *values, int64_t bytes, int64_t pitch)
{
    for (int64_t at = 0; at < bytes; at += pitch)
        element_store(values + at, buffer->format, buffer->value);
}

static spyre_status evaluate_all(const subject *s, arena *memory)
{
    for (uint32_t b = 0; b < s->loops->buffers.count; b++) {
        const loop_buffer *buffer = &s->loops->buffers.items[b];
        int64_t bytes = bytes_of(buffer, s->laid_out), pitch = EVALUATE_ELEMENT_BYTES;
        if (s->values[b]) continue;
        s->values[b] = arena_alloc(memory, (size_t)bytes);
        TRY_ALLOC(s->values[b]);
        if (s->laid_out) pitch = spyre_format_bytes(buffer->format);
        if (buffer->kind == LOOP_CONSTANT) fill(buffer, s->values[b], bytes, pitch);
    }
    int64_t tile[LOOP_MAX_TILES] = {0};
    return evaluate_ops(s, 0, s->loops->ops.count, 0, tile);
}

spyre_status loop_evaluate(const loop_graph *loops, arena *memory, uint8_t **values)
{
    return evaluate_all(&(subject){loops, values, false}, memory);
}

spyre_status loop_evaluate_laid_out(const loop_graph *loops, arena *memory, uint8_t **values)
{
    return evaluate_all(&(subject){loops, values, true}, memory);
}
