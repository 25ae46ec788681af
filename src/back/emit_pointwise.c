// SPDX-License-Identifier: Apache-2.0
//
// One VECTOR a tile: loads of the inputs, COUNTs of those that are numbers, the opfunc, the store.
// Broadcast operands have stride 0 along what they lack; relayouts and casts are an identity
// between two tiles whose axes are ordered, or cut, differently.
#include "back/select_emitter.h"

#include "back/staged_tile.h"
#include "back/tile_loops.h"
#include "bundle/step_facts.h"
#include "isa/constants.h"

typedef struct {
    emitter *e;
    nest n;
    tile_buffers tiles;
    opfunc op;
    float constants[OPFUNC_MAX_PARAMETERS];
    uint32_t lanes; // 2 when an operand has two
} pointwise;

// The axis over the two elements of a byte becomes an operand for each.
static void split_pairs(const pointwise *p, const place_axes *axes, place *places, uint32_t *count)
{
    uint32_t pair = place_pair_axis(&p->n, axes, p->n.step->output);
    places[2] = places[1];
    places[2].operand.offset += places[1].stride[pair];
    places[1].stride[pair] = places[2].stride[pair] = 0;
    *count = 3;
}

static spyre_status count_into(const pointwise *p, const box *b, const place_axes *axes,
                               uint32_t input, const place *target)
{
    place numbers = place_home(&p->n, b, axes, input);
    return emit_count(p->e, axes, target, &numbers, p->n.operand[input].tensor->count->signs);
}

// Numbers that are the result need no tile of their own.
static bool is_count_alone(const pointwise *p)
{
    const bundle_step *step = p->n.step;
    uint32_t input = step->inputs[0];
    return p->op == OPFUNC_IDENTITY && p->tiles.counted[input] &&
           p->n.operand[input].format == p->n.operand[step->output].format;
}

static spyre_status compute(const pointwise *p, const box *b, const place_axes *axes)
{
    const bundle_step *step = p->n.step;
    place places[ISA_MAX_OPERANDS];
    const place *operands[ISA_MAX_OPERANDS];
    uint32_t count = 0;
    places[count++] = buffers_place(&p->tiles, b, axes, step->output);
    if (is_count_alone(p)) return count_into(p, b, axes, step->inputs[0], &places[0]);
    for (uint32_t i = 0; i < step->input_count; i++) {
        uint32_t o = step->inputs[i];
        places[count] = buffers_place(&p->tiles, b, axes, o);
        if (p->tiles.counted[o]) TRY(count_into(p, b, axes, o, &places[count]));
        count++;
    }
    if (p->op == OPFUNC_LAYERNORMSCALE) {
        places[count] = places[count - 1];
        places[count++].operand.offset += p->n.operand[step->inputs[0]].element;
    }
    if (opfunc_makes_pairs(p->op)) split_pairs(p, axes, places, &count);
    if (p->e->zone && bundle_fills_masked(step)) places[count++] = places[1];
    for (uint32_t o = 0; o < count; o++) operands[o] = &places[o];
    return emit_vector(p->e, p->op, p->constants, axes, operands, count);
}

static spyre_status body(void *context, const box *b)
{
    const pointwise *p = context;
    uint32_t inputs = p->n.step->input_count;
    place_axes axes = place_find_axes(&p->n, b, p->lanes);
    TRY(staged_load(p->e, &p->tiles, b, &axes, inputs));
    TRY(compute(p, b, &axes));
    TRY(staged_release(p->e, &p->tiles, inputs));
    return staged_store(p->e, &p->tiles, b, &axes);
}

static void find_constants(pointwise *p)
{
    const bundle_step *step = p->n.step;
    const opfunc_info *info = opfunc_describe(step->op);
    for (uint32_t c = 0; c < opfunc_constant_count(step->op, step->input_count); c++) {
        int32_t number = bundle_find_constant(step, info->parameter[c]);
        p->constants[c] = bundle_constant_value(step, (uint32_t)number);
    }
}

// True when an input stands still along the dim and moves along another: it is loaded again in
// every tile of the dim.
static bool repeats_an_input(const pointwise *p, uint32_t dim)
{
    const nest *n = &p->n;
    for (uint32_t o = 0; o < n->operand_count; o++) {
        if (o == n->step->output || !p->tiles.staged[o] || n->operand[o].stride[dim]) continue;
        for (uint32_t d = 0; d < n->dim_count; d++)
            if (n->operand[o].stride[d] && n->most[d] > 1) return true;
    }
    return false;
}

// First runs as long as memory likes them, then the dims whose tiles would repeat an input.
static spyre_status choose_tile(const pointwise *p, const uint8_t *dims, uint32_t count,
                                int64_t *tile)
{
    tile_buffers runs = p->tiles;
    runs.largest_bytes = (int64_t)LONG_RUN;
    uint8_t repeating[BUNDLE_MAX_DIMS];
    uint32_t repeating_count = 0;
    int64_t budget = lx_share_bytes(p->e->options);
    tile_limits limits = {budget, buffers_bytes, &p->tiles};
    tile_limits short_limits = {budget, buffers_bytes, &runs};
    for (uint32_t i = 0; i < count; i++)
        if (repeats_an_input(p, dims[i])) repeating[repeating_count++] = dims[i];
    tile_smallest(&p->n, tile);
    TRY(tile_check(&limits, tile));
    tile_grow_all(&p->n, &short_limits, dims, count, tile);
    tile_grow_all(&p->n, &limits, repeating, repeating_count, tile);
    tile_grow_all(&p->n, &limits, dims, count, tile);
    return NULL;
}

spyre_status emit_pointwise(emitter *e, const bundle_step *step)
{
    pointwise p = {.e = e, .op = step->op == OPFUNC_RESTICKIFY ? OPFUNC_IDENTITY : step->op};
    if (e->zone && bundle_fills_masked(step)) p.op = OPFUNC_LESSERTHAN; // than itself: 0
    TRY(nest_build(e->memory, e->b, step, e->zone, e->depth, 0, &p.n));
    find_constants(&p);
    p.lanes = step->op == OPFUNC_LAYERNORMSCALE ? 2 : 1;
    p.tiles = buffers_of(&p.n);
    buffers_join_equal_inputs(&p.tiles);

    int64_t tile[BUNDLE_MAX_DIMS];
    uint8_t dims[BUNDLE_MAX_DIMS];
    uint32_t dim_count = nest_order(&p.n, step->output, dims);
    TRY(choose_tile(&p, dims, dim_count, tile));
    lx_share share = lx_share_whole(e->options);
    TRY(buffers_take(&p.tiles, &share, tile));

    tile_loops s = {.e = e, .n = &p.n, .body = body, .context = &p};
    tile_loops_add_buffer(&s, buffers_stage_inputs(&p.tiles, step->input_count), ISA_QUEUE_LOAD,
                          ISA_QUEUE_SFP, TOKEN_INPUT_FREE);
    tile_loops_add_buffer(&s, p.tiles.staged[step->output], ISA_QUEUE_SFP, ISA_QUEUE_STORE,
                          TOKEN_OUTPUT_FREE);
    for (uint32_t d = 0; d < dim_count; d++) tile_loops_add(&s, dims[d], tile[dims[d]]);
    return tile_loops_kernels(&s);
}
