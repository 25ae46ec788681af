// SPDX-License-Identifier: Apache-2.0
//
// Reductions in the card's fixed order: fp32 accumulators (int32 of integers) per kept element (and
// per lane, when the stick dim is reduced) take the elements in ascending order, FOLD joins the
// lanes, a chain joins the cores, one multiplication, one rounding.
#include "back/select_emitter.h"

#include "back/reduced_tile.h"
#include "back/ring_reduction.h"
#include "back/staged_tile.h"
#include "bundle/step_facts.h"
#include "isa/time_formulas.h"
#include "tensor/accumulate.h"

typedef struct {
    emitter *e;
    nest n;
    tile_buffers tiles;
    uint32_t input, output, moments;
    int32_t factor;        // the input that the elements are multiplied with; -1: none
    int32_t end_factor;    // the one that the result is multiplied with; -1: none
    uint32_t first_moment; // 1: the first one stays 0
    opfunc op;             // its accumulator
    bool integers;         // are in int32
    bool folds;            // the stick dim is reduced
    bundle_finish end;
    int64_t reduced_bytes; // cap on the input tile while its reduced dims grow
    lx_region accumulator[RING_MOST_PARTS], received[RING_MOST_PARTS], factor_cell, products;
    tile_loops kept, reduced;
    ring_reduction chain;
    const nest_class *present; // whose elements are reduced
} reduction;

// --- Places

static int64_t lanes_of(const reduction *r)
{
    return r->folds ? r->n.operand[r->input].stick : 1;
}

// The kept axes; behind them, when the lanes fold, one over all lanes of an accumulator.
static place_axes accumulator_axes(const reduction *r, const box *kept)
{
    return place_find_axes(&r->n, kept, r->folds ? (uint32_t)lanes_of(r) : 1);
}

static place accumulator_place(const reduction *r, const box *kept, const place_axes *axes,
                               const lx_region *region)
{
    place home = place_home(&r->n, kept, axes, r->input);
    place_order order = place_sorted(&home, axes);
    spyre_format format = r->integers ? SPYRE_FORMAT_IEEE_INT32 : SPYRE_FORMAT_IEEE_FP32;
    place p = place_dense(kept, axes, &order, format, 4 * lanes_of(r), region);
    if (r->folds) p.stride[axes->count - 1] = 4;
    return p;
}

// --- The reduction of one core

static spyre_status reduce_tile(const reduction *r, const place_axes *axes, const box *b,
                                const place *input)
{
    const nest_operand *o = &r->n.operand[r->input];
    box kept = box_kept(&r->n, b);
    place_axes kept_axes = accumulator_axes(r, &kept);
    for (uint32_t m = r->first_moment; m < r->moments; m++) {
        place whole = accumulator_place(r, &kept, &kept_axes, &r->accumulator[m]);
        place accumulator = place_project(&whole, &kept_axes, axes);
        for (uint32_t a = 0; r->folds && a < axes->count; a++)
            if (axes->axis[a].dim == o->stick_dim && axes->axis[a].step == 1)
                accumulator.stride[a] = 4;
        place_order order = reduced_order(&accumulator, input, axes);
        isa_instruction i = {.opcode = m ? ISA_REDUCESQ : ISA_REDUCE};
        if (m == 0) i.op = r->op;
        TRY(emit_tile(r->e, &i, axes, &order, (const place *const[]){&accumulator, input}, 2));
    }
    return NULL;
}

// Puts the products with the factor into the place of the input.
static spyre_status multiply(const reduction *r, const place_axes *axes, const box *b, place *input)
{
    if (r->factor < 0) return NULL;
    place home = place_home(&r->n, b, axes, r->input);
    place_order order = place_sorted(&home, axes);
    place products = place_dense(b, axes, &order, SPYRE_FORMAT_IEEE_FP32, 4, &r->products);
    place factor = buffers_place(&r->tiles, b, axes, (uint32_t)r->factor);
    TRY(emit_vector(r->e, OPFUNC_MUL, NULL, axes,
                    (const place *const[]){&products, input, &factor}, 3));
    *input = products;
    return NULL;
}

// The inputs that a tile reads: not what multiplies results.
static uint32_t inputs_of(const reduction *r)
{
    return r->factor >= 0 ? 2 : 1;
}

static spyre_status reduced_body(void *context, const box *b)
{
    const reduction *r = context;
    place_axes axes = place_find_axes(&r->n, b, 1);
    place input = buffers_place(&r->tiles, b, &axes, r->input);
    TRY(staged_load(r->e, &r->tiles, b, &axes, inputs_of(r)));
    TRY(multiply(r, &axes, b, &input));
    TRY(reduce_tile(r, &axes, b, &input));
    return staged_release(r->e, &r->tiles, inputs_of(r));
}

// Leaves the core's own result in lane 0 of every accumulator.
static spyre_status reduce_core(const reduction *r, const box *part)
{
    emitter *e = r->e;
    box kept = box_kept(&r->n, part);
    place_axes axes = accumulator_axes(r, &kept);
    for (uint32_t m = 0; m < r->moments; m++) {
        place accumulator = accumulator_place(r, &kept, &axes, &r->accumulator[m]);
        TRY(emit_fill(e, &axes, &accumulator, opfunc_reduction_identity(r->op)));
    }
    if (!nest_class_empty(&r->n, r->present)) {
        box b = box_reduced(&r->n, &kept, r->present);
        TRY(tile_loops_run(&r->reduced, &b));
    }
    for (uint32_t m = 0; r->folds && m < r->moments; m++) {
        place accumulator = accumulator_place(r, &kept, &axes, &r->accumulator[m]);
        place_order order = place_sorted(&accumulator, &axes);
        isa_instruction i = {.opcode = ISA_FOLD, .op = r->op};
        TRY(emit_tile(e, &i, &axes, &order, (const place *const[]){&accumulator}, 1));
    }
    return NULL;
}

// --- The result

static spyre_status clip_and_scale(const reduction *r, const place_axes *axes, const place *sum)
{
    const float limits[OPFUNC_MAX_PARAMETERS] = {r->end.least, r->end.most};
    place cell = place_cell(&r->factor_cell, SPYRE_FORMAT_IEEE_FP32);
    if (r->end.clips)
        TRY(emit_vector(r->e, OPFUNC_CLIP, limits, axes, (const place *const[]){sum, sum}, 2));
    if (!r->end.scales) return NULL;
    TRY(emit_fill(r->e, &(place_axes){0}, &cell, r->end.factor));
    return emit_vector(r->e, OPFUNC_MUL, NULL, axes, (const place *const[]){sum, sum, &cell}, 3);
}

// Each result has a factor of its own.
static spyre_status multiply_results(const reduction *r, const place_axes *axes, const box *kept,
                                     const place *sum)
{
    if (r->end_factor < 0) return NULL;
    uint32_t f = (uint32_t)r->end_factor;
    place factor = buffers_place(&r->tiles, kept, axes, f);
    if (r->tiles.staged[f]) {
        place home = place_home(&r->n, kept, axes, f);
        TRY(emit_load(r->e, axes, &factor, &home));
        TRY(emit_handover(r->e, ISA_QUEUE_LOAD, ISA_QUEUE_SFP, TOKEN_KEPT_FULL));
    }
    TRY(emit_vector(r->e, OPFUNC_MUL, NULL, axes, (const place *const[]){sum, sum, &factor}, 3));
    if (!r->tiles.staged[f]) return NULL;
    return emit_handover(r->e, ISA_QUEUE_SFP, ISA_QUEUE_LOAD, TOKEN_KEPT_FREE);
}

static spyre_status finish(void *context, const box *b)
{
    const reduction *r = context;
    box kept = box_kept(&r->n, b);
    place_axes axes = place_find_axes(&r->n, &kept, 1), folded = accumulator_axes(r, &kept);
    place_axes lanes = place_find_axes(&r->n, &kept, r->moments);
    place target = buffers_place(&r->tiles, &kept, &lanes, r->output);
    for (uint32_t m = 0; m < r->moments; m++) {
        place sum = accumulator_place(r, &kept, &folded, &r->accumulator[m]);
        TRY(clip_and_scale(r, &axes, &sum));
        TRY(multiply_results(r, &axes, &kept, &sum));
        place lane = target;
        lane.operand.offset += (int64_t)m * r->n.operand[r->output].element;
        TRY(emit_identity(r->e, &axes, &lane, &sum));
    }
    return staged_store(r->e, &r->tiles, &kept, &lanes);
}

static spyre_status kept_body(void *context, const box *b)
{
    reduction *r = context;
    if (!r->chain.needed) {
        TRY(reduce_core(r, b));
        return finish(r, b);
    }
    for (uint32_t c = 0; c < r->n.class_count; c++) {
        r->present = &r->n.classes[c];
        TRY(emit_kernel(r->e, &r->n, r->present->cores));
        TRY(reduce_core(r, b));
        TRY(emit_end_kernel(r->e));
    }
    box kept = box_kept(&r->n, b);
    place_axes axes = place_find_axes(&r->n, &kept, 1), folded = accumulator_axes(r, &kept);
    place accumulator[RING_MOST_PARTS], received[RING_MOST_PARTS];
    for (uint32_t m = 0; m < r->moments; m++) {
        accumulator[m] = accumulator_place(r, &kept, &folded, &r->accumulator[m]);
        received[m] = accumulator_place(r, &kept, &folded, &r->received[m]);
    }
    ring_reduction_plan plan = {.e = r->e,
                                .n = &r->n,
                                .chain = r->chain,
                                .combine = opfunc_pairwise(r->op),
                                .everyone = !r->tiles.staged[r->output],
                                .finish = finish,
                                .context = r};
    return ring_reduction_emit(&plan, b, &axes, accumulator, received, r->moments);
}

// --- Tiles

static int64_t accumulator_bytes(const reduction *r, const int64_t *tile)
{
    int64_t bytes = 4 * lanes_of(r);
    for (uint32_t d = 0; d < r->n.dim_count; d++)
        if (!r->n.reduced[d] && r->n.operand[r->input].stride[d]) bytes *= tile[d];
    return bytes;
}

static int64_t products_bytes(const reduction *r, const int64_t *tile)
{
    int64_t bytes = 4;
    for (uint32_t d = 0; d < r->n.dim_count; d++)
        if (r->n.operand[r->input].stride[d]) bytes *= tile[d];
    return bytes;
}

static int64_t lx_bytes(const void *context, const int64_t *tile)
{
    const reduction *r = context;
    int64_t bytes = buffers_bytes(&r->tiles, tile) + LX_ALIGNMENT;
    if (r->factor >= 0) bytes += lx_align(products_bytes(r, tile));
    if (r->tiles.staged[r->input] && place_tile_bytes(&r->n, r->input, tile) > r->reduced_bytes)
        return INT64_MAX / 2;
    return bytes + 2 * r->moments * lx_align(accumulator_bytes(r, tile));
}

// True when the dim beside the stick is kept and the tile has so little of it that memory is slow.
static bool has_short_runs(const reduction *r, const uint8_t *dims, uint32_t count,
                           const int64_t *tile)
{
    const nest_operand *input = &r->n.operand[r->input];
    for (uint32_t i = count; i-- > 0;) {
        uint32_t d = dims[i];
        if (input->stride[d] != SPYRE_STICK_BYTES || d == input->stick_dim) continue;
        return tile[d] < r->n.most[d] && (double)tile[d] * SPYRE_STICK_BYTES < LONG_RUN;
    }
    return false;
}

static spyre_status choose_tiles(reduction *r, int64_t *tile)
{
    uint8_t dims[BUNDLE_MAX_DIMS];
    uint32_t dim_count = nest_order(&r->n, r->input, dims);
    tile_limits limits = {lx_share_bytes(r->e->options), lx_bytes, r};
    tile_smallest(&r->n, tile);
    r->reduced_bytes = ISA_TILE_BYTES;
    TRY(tile_check(&limits, tile));
    if (!tile_grow_reduced(&r->n, &limits, tile)) {
        // Half for the reduced dims, so that some kept ones fit beside them.
        tile_smallest(&r->n, tile);
        r->reduced_bytes = ISA_TILE_BYTES / 2;
        tile_grow_reduced(&r->n, &limits, tile);
        r->reduced_bytes = ISA_TILE_BYTES;
    }
    tile_grow_kept(&r->n, &limits, dims, dim_count, tile);
    if (has_short_runs(r, dims, dim_count, tile)) {
        r->reduced_bytes = r->tiles.largest_bytes = 2 * ISA_TILE_BYTES;
        tile_grow_kept(&r->n, &limits, dims, dim_count, tile);
    }
    tile_loops_add_reduced(&r->kept, &r->reduced, dims, dim_count, tile);
    return NULL;
}

static spyre_status allocate(reduction *r, const int64_t *tile)
{
    lx_share share = lx_share_whole(r->e->options);
    TRY(buffers_take(&r->tiles, &share, tile));
    for (uint32_t m = 0; m < r->moments; m++) {
        TRY(lx_take(&share, accumulator_bytes(r, tile), false, &r->accumulator[m]));
        TRY(lx_take(&share, accumulator_bytes(r, tile), false, &r->received[m]));
    }
    if (r->factor >= 0) TRY(lx_take(&share, products_bytes(r, tile), false, &r->products));
    return lx_take(&share, 4, false, &r->factor_cell);
}

// --- The step

// Masked elements count as the mask constant. As long as that changes nothing they are left out.
static spyre_status check_mask(const bundle_step *step, bool integers)
{
    if (step->mask_count == 0) return NULL;
    double value = (double)bundle_constant_value(step, (uint32_t)step->mask_constant);
    double masked = accumulator_value(accumulator_of_value(value, integers), integers);
    double neutral = accumulator_value(accumulator_neutral(step->op, integers), integers);
    if (masked == neutral) return NULL;
    return status_new(SPYRE_UNSUPPORTED, "maskingConstId_: %s masked with %g, only %g is supported",
                      opfunc_describe(step->op)->name, value, neutral);
}

static void describe(reduction *r, const bundle_step *step)
{
    r->op = opfunc_describe(step->op)->accumulator;
    r->integers =
        accumulate_in_integers(step->op, step->tensors[step->output].format,
                               step->tensors[step->inputs[0]].format);
    r->moments = opfunc_moments(step->op);
    r->factor = step->op == OPFUNC_DEPTHWISECONV2D ? step->inputs[1] : -1;
    r->end_factor = opfunc_multiplies_results(step->op, step->input_count) ? step->inputs[1] : -1;
    r->first_moment = bundle_takes_zero_mean(step);
    r->end = bundle_finish_of(step);
    const nest_operand *input = &r->n.operand[r->input];
    r->folds = r->n.reduced[input->stick_dim] && input->tensor->scale[input->stick_dim] > 0;
}

static void add_buffers(reduction *r)
{
    bool deep = r->reduced.levels.count;
    if (!deep && r->chain.needed) return;
    tile_loops *innermost = deep ? &r->reduced : &r->kept;
    tile_loops_add_buffer(innermost, buffers_stage_inputs(&r->tiles, inputs_of(r)),
                          ISA_QUEUE_LOAD, ISA_QUEUE_SFP, TOKEN_INPUT_FREE);
    tile_loops_add_buffer(innermost, !deep && r->tiles.staged[r->output], ISA_QUEUE_SFP,
                          ISA_QUEUE_STORE, TOKEN_OUTPUT_FREE);
}

spyre_status emit_reduction(emitter *e, const bundle_step *step)
{
    reduction r = {.e = e, .input = step->inputs[0], .output = step->output};
    TRY(nest_build(e->memory, e->b, step, e->zone, e->depth, RING_SLOTS, &r.n));
    describe(&r, step);
    TRY(check_mask(step, r.integers));
    TRY(ring_reduction_build(&r.n, &r.chain));
    r.tiles = buffers_of(&r.n);
    r.kept = (tile_loops){.e = e, .n = &r.n, .body = kept_body, .context = &r};
    r.reduced = (tile_loops){.e = e, .n = &r.n, .body = reduced_body, .context = &r};
    int64_t tile[BUNDLE_MAX_DIMS];
    TRY(choose_tiles(&r, tile));
    TRY(allocate(&r, tile));
    add_buffers(&r);
    if (r.chain.needed) {
        box whole = box_of_class(&r.n, &r.n.classes[0]);
        return tile_loops_run(&r.kept, &whole);
    }
    r.kept.present = &r.present;
    r.kept.rests_apart = step->window_count > 0;
    return tile_loops_kernels(&r.kept);
}
