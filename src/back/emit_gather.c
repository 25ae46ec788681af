// SPDX-License-Identifier: Apache-2.0
//
// out[i, ..] = value[index[i], ..]: a tile of the index, one GATHER of the rows, the store. The
// recorded start addresses of the value tensor are not used: front-ends compute them as if the
// indexed dim were as long as the index. Only the lowest of them means something, the start of the
// whole tensor; the offsets of the other dims' slices are computed here.
#include "back/select.h"

#include "back/schedule.h"
#include "back/stage.h"
#include "bundle/derived.h"

typedef struct {
    emitter *e;
    nest n;
    stage tiles;
    uint32_t index, value, output;
    int64_t row_stride, row_count;
} gather;

static spyre_status body(void *context, const box *b)
{
    const gather *g = context;
    emitter *e = g->e;
    place_axes axes = place_find_axes(&g->n, b, 1);
    place index = stage_place(&g->tiles, b, &axes, g->index);
    place value = place_home(&g->n, b, &axes, g->value);
    place target = stage_place(&g->tiles, b, &axes, g->output);
    if (g->tiles.staged[g->index]) {
        place home = place_home(&g->n, b, &axes, g->index);
        TRY(emit_load(e, &axes, &index, &home));
    }
    place_order order = place_sorted(&target, &axes);
    isa_instruction i = {
        .opcode = ISA_GATHER, .row_stride = g->row_stride, .row_count = g->row_count};
    TRY(emit_tile(e, &i, &axes, &order, (const place *const[]){&target, &value, &index}, 3));
    if (!g->tiles.staged[g->output]) return NULL;
    TRY(emit_handover(e, ISA_QUEUE_LOAD, ISA_QUEUE_STORE, TOKEN_OUTPUT_FULL));
    place home = place_home(&g->n, b, &axes, g->output);
    TRY(emit_store(e, &axes, &home, &target));
    return emit_handover(e, ISA_QUEUE_STORE, ISA_QUEUE_LOAD, TOKEN_OUTPUT_FREE);
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

static spyre_status place_value(gather *g)
{
    nest *n = &g->n;
    const bundle_step *step = n->step;
    nest_operand *value = &n->operand[g->value];
    int32_t indexed = bundle_indexed_dim(step, g->value);
    bundle_geometry geometry;
    TRY(bundle_tensor_geometry(g->e->b, step, g->value, &geometry));
    if (indexed < 0 || (uint32_t)indexed == value->stick_dim)
        return status_new(SPYRE_UNSUPPORTED, "%s: a gather along sticks", value->tensor->name);
    g->row_stride = geometry.stride[indexed];
    g->row_count = geometry.valid[indexed];
    value->stride[indexed] = 0;
    nest_operand whole = *value; // with the dims along which a core has one index only
    for (uint32_t d = 0; d < n->dim_count; d++)
        whole.stride[d] = (int32_t)d == indexed ? 0 : geometry.stride[d];
    int64_t base = INT64_MAX;
    for (uint32_t core = 0; core < step->core_count; core++)
        if (value->tensor->start[core] < base) base = value->tensor->start[core];
    for (uint32_t core = 0; core < step->core_count; core++) {
        int64_t *parameter = &n->parameters[core * n->slot_count + value->slot];
        *parameter = base;
        TRY(add_slices(step, &whole, core, parameter));
    }
    return NULL;
}

spyre_status emit_gather(emitter *e, const bundle_step *step)
{
    gather g = {
        .e = e, .index = step->indices[0], .value = step->inputs[0], .output = step->output};
    TRY(nest_build(e->memory, e->b, step, e->depth, 0, &g.n));
    TRY(place_value(&g));
    g.tiles = stage_of(&g.n);
    g.tiles.staged[g.value] = false;

    int64_t tile[BUNDLE_MAX_DIMS];
    uint8_t dims[BUNDLE_MAX_DIMS];
    uint32_t dim_count = nest_order(&g.n, g.output, dims);
    TRY(stage_fit(&g.tiles, e->options, dims, dim_count, tile));

    schedule s = {.e = e, .n = &g.n, .body = body, .context = &g};
    schedule_add_buffer(&s, g.tiles.staged[g.output], ISA_QUEUE_LOAD, ISA_QUEUE_STORE,
                        TOKEN_OUTPUT_FREE);
    for (uint32_t d = 0; d < dim_count; d++) schedule_add(&s, dims[d], tile[dims[d]]);
    return schedule_kernels(&s);
}
