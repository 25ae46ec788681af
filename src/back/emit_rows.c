// SPDX-License-Identifier: Apache-2.0
//
// Rows of a value tensor that an index chooses: out[i, ..] = value[index[i], ..] (GATHER) or
// value[index[i], ..] = in[i, ..] (SCATTER). A tile of the index and one of the rows pass LX. The
// recorded start addresses of the value tensor are not used: front-ends compute them as if the
// indexed dim were as long as the index. Only the lowest of them means something, the start of the
// whole tensor; the offsets of the other dims' slices are computed here.
#include "back/select_emitter.h"

#include "back/tile_loops.h"
#include "back/tile_buffers.h"
#include "bundle/step_facts.h"

typedef struct {
    emitter *e;
    nest n;
    tile_buffers tiles;
    uint32_t index, value, rows;            // tensors; rows: what is moved, index by index
    isa_instruction move;                   // GATHER, SCATTER or ACCUMULATE
} indirect;

static spyre_status load_if_staged(const indirect *w, const box *b, const place_axes *axes,
                                   uint32_t tensor, const place *tile)
{
    if (!w->tiles.staged[tensor]) return NULL;
    place home = place_home(&w->n, b, axes, tensor);
    return emit_load(w->e, axes, tile, &home);
}

static spyre_status gather(const indirect *w, const box *b, const place_axes *axes,
                           const place *index, const place *value, const place *rows)
{
    emitter *e = w->e;
    place_order order = place_sorted(rows, axes);
    TRY(load_if_staged(w, b, axes, w->index, index));
    TRY(emit_tile(e, &w->move, axes, &order, (const place *const[]){rows, value, index}, 3));
    if (!w->tiles.staged[w->rows]) return NULL;
    TRY(emit_handover(e, ISA_QUEUE_LOAD, ISA_QUEUE_STORE, TOKEN_OUTPUT_FULL));
    place home = place_home(&w->n, b, axes, w->rows);
    TRY(emit_store(e, axes, &home, rows));
    return emit_handover(e, ISA_QUEUE_STORE, ISA_QUEUE_LOAD, TOKEN_OUTPUT_FREE);
}

// What is written may repeat what is read, so the axes are the value tensor's, inside of those of
// the index.
static place_order scattered_order(const place_axes *axes, const place *index, const place *value)
{
    place_order order = place_sorted(index, axes), within = place_sorted(value, axes);
    for (uint32_t n = 0; n < within.count; n++)
        if (!index->stride[within.axis[n]]) order.axis[order.count++] = within.axis[n];
    return order;
}

// Of equal indices the last one counts: tiles follow each other in the index's order.
static spyre_status scatter(const indirect *w, const box *b, const place_axes *axes,
                            const place *index, const place *value, const place *rows)
{
    emitter *e = w->e;
    place_order order = scattered_order(axes, index, value);
    bool loads = w->tiles.staged[w->index] || w->tiles.staged[w->rows];
    TRY(load_if_staged(w, b, axes, w->index, index));
    TRY(load_if_staged(w, b, axes, w->rows, rows));
    if (loads) TRY(emit_handover(e, ISA_QUEUE_LOAD, ISA_QUEUE_STORE, TOKEN_OUTPUT_FULL));
    TRY(emit_tile(e, &w->move, axes, &order, (const place *const[]){value, rows, index}, 3));
    return loads ? emit_handover(e, ISA_QUEUE_STORE, ISA_QUEUE_LOAD, TOKEN_OUTPUT_FREE) : NULL;
}

static spyre_status body(void *context, const box *b)
{
    const indirect *w = context;
    place_axes axes = place_find_axes(&w->n, b, 1);
    place index = buffers_place(&w->tiles, b, &axes, w->index);
    place value = place_home(&w->n, b, &axes, w->value);
    place rows = buffers_place(&w->tiles, b, &axes, w->rows);
    bool gathers = w->move.opcode == ISA_GATHER;
    return (gathers ? gather : scatter)(w, b, &axes, &index, &value, &rows);
}

// Adds the offset of a core's slices. A slice of a stick dim is affine when it starts at a stick or
// stays inside one.
static spyre_status add_slices(const bundle_step *step, const nest_operand *whole, uint32_t core,
                               int64_t *offset)
{
    for (uint32_t d = 0; d < step->dim_count; d++) {
        if (whole->stride[d] == 0) continue;
        int64_t start = bundle_slice_start(step, core, d), size = bundle_local_size(step, d);
        int64_t lane = start % whole->stick;
        if (d == whole->stick_dim && lane && lane + size > whole->stick)
            return status_new(SPYRE_UNSUPPORTED,
                              "%s: the slice of core %u in dim %s crosses a stick",
                              whole->tensor->name, core, step->dim_name[d]);
        *offset += nest_offset(whole, d, start);
    }
    return NULL;
}

static spyre_status place_value(indirect *w)
{
    nest *n = &w->n;
    const bundle_step *step = n->step;
    nest_operand *value = &n->operand[w->value];
    int32_t indexed = bundle_indexed_dim(step, w->value);
    bundle_geometry geometry;
    TRY(bundle_tensor_geometry(w->e->b, step, w->value, &geometry));
    bool along_sticks = indexed >= 0 && bundle_stick_span(value->tensor, (uint32_t)indexed) > 1;
    if (indexed < 0 || (along_sticks && value->tensor->digit_count))
        return status_new(SPYRE_UNSUPPORTED, "%s: an index along sticks of several dims",
                          value->tensor->name);
    w->move.row_stride = geometry.stride[indexed];
    w->move.row_lanes = along_sticks ? (uint32_t)value->stick : 0;
    w->move.row_count = geometry.valid[indexed];
    value->stride[indexed] = 0;
    nest_operand whole = *value; // with the dims along which a core has one index only
    for (uint32_t d = 0; d < n->dim_count; d++)
        whole.stride[d] = (int32_t)d == indexed ? 0 : geometry.stride[d];
    int64_t base = INT64_MAX;
    for (uint32_t core = 0; core < step->cores->core_count; core++)
        if (bundle_start(value->tensor, core) < base) base = bundle_start(value->tensor, core);
    for (uint32_t core = 0; core < step->cores->core_count; core++) {
        int64_t *parameter = &n->parameters[core * n->slot_count + value->slot];
        *parameter = base;
        TRY(add_slices(step, &whole, core, parameter));
    }
    return NULL;
}

spyre_status emit_rows(emitter *e, const bundle_step *step)
{
    uint32_t value = bundle_value_tensor(step);
    bool gathers = value != step->output, joins = opfunc_accumulates(step->accumulator);
    indirect w = {.e = e,
                  .index = step->indices[0],
                  .value = value,
                  .rows = gathers ? step->output : step->inputs[0],
                  .move = {.opcode = gathers ? ISA_GATHER : joins ? ISA_ACCUMULATE : ISA_SCATTER,
                           .op = joins ? step->accumulator : OPFUNC_ADD}};
    TRY(nest_build(e->memory, e->b, step, e->zone, e->depth, 0, &w.n));
    TRY(place_value(&w));
    w.tiles = buffers_of(&w.n);
    w.tiles.staged[w.value] = false;

    int64_t tile[BUNDLE_MAX_DIMS];
    uint8_t dims[BUNDLE_MAX_DIMS];
    uint32_t dim_count = nest_order(&w.n, w.rows, dims);
    TRY(buffers_fit(&w.tiles, e->options, dims, dim_count, tile));

    tile_loops s = {.e = e, .n = &w.n, .body = body, .context = &w};
    bool buffers = w.tiles.staged[w.rows] || (!gathers && w.tiles.staged[w.index]);
    tile_loops_add_buffer(&s, buffers, ISA_QUEUE_LOAD, ISA_QUEUE_STORE, TOKEN_OUTPUT_FREE);
    for (uint32_t d = 0; d < dim_count; d++) tile_loops_add(&s, dims[d], tile[dims[d]]);
    return tile_loops_kernels(&s);
}
