// SPDX-License-Identifier: Apache-2.0
//
// maskbyindex: a tile of positions along the scanned dims is compared with all indices at once;
// where one is equal the input stays. A counter in LX has the position of a tile's first element
// and goes on from tile to tile, which take the scanned dims in their order as those of a reduction
// do; the other positions follow by doubling what is there.
#include "back/select_emitter.h"

#include "back/reduced_tile.h"
#include "back/staged_tile.h"
#include "bundle/step_facts.h"

typedef struct {
    emitter *e;
    nest n;
    tile_buffers tiles;
    uint32_t input, index, output;
    int64_t weight[BUNDLE_MAX_DIMS];        // positions from one index of a scanned dim to the next
    bool ranks[BUNDLE_MAX_DIMS];            // dims of which only the indices have some
    lx_region positions, equal, found, counter, added, zero;
    tile_loops kept, scanned;
} masking;

// --- Places

static bool is_scanned(const masking *m, const place_axis *axis)
{
    return m->weight[axis->dim] != 0;
}

static place cell(const lx_region *region)
{
    return place_cell(region, SPYRE_FORMAT_IEEE_FP32);
}

typedef enum { SCANNED_AXES, KEPT_AXES, ALL_AXES } axes_chosen;

// A dense array over some of the axes, those of ranks outermost.
static place array(const masking *m, const box *b, const place_axes *axes, axes_chosen chosen,
                   spyre_format format, const lx_region *region)
{
    place_order order = {0};
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t a = 0; a < axes->count; a++) {
            const place_axis *axis = &axes->axis[a];
            bool rank = m->ranks[axis->dim];
            bool has = chosen == ALL_AXES || (chosen == KEPT_AXES ? !rank : is_scanned(m, axis));
            if (has && rank == (pass == 0)) order.axis[order.count++] = (uint8_t)a;
        }
    }
    return place_dense(b, axes, &order, format, spyre_format_bytes(format), region);
}

// --- One tile

static spyre_status add_cell(const masking *m, const place_axes *axes, const place *to,
                             const place *from, int64_t value)
{
    place added = cell(&m->added);
    TRY(emit_fill(m->e, &(place_axes){0}, &added, (float)value));
    return emit_vector(m->e, OPFUNC_ADD, NULL, axes, (const place *const[]){to, from, &added}, 3);
}

// The positions of what comes along one more axis, behind those along the axes before it.
static spyre_status double_axis(const masking *m, place_axes *axes, uint32_t a,
                                const place *positions)
{
    int64_t extent = axes->axis[a].extent;
    int64_t weight = m->weight[axes->axis[a].dim] * axes->axis[a].step;
    for (int64_t done = 1; done < extent;) {
        int64_t more = extent - done < done ? extent - done : done;
        place to = *positions;
        to.operand.offset += done * positions->stride[a];
        axes->axis[a].extent = more;
        TRY(add_cell(m, axes, &to, positions, done * weight));
        done += more;
    }
    axes->axis[a].extent = extent;
    return NULL;
}

static spyre_status make_positions(const masking *m, const place_axes *axes,
                                   const place *positions)
{
    place_axes some = *axes;
    place counter = cell(&m->counter), first = *positions;
    for (uint32_t a = 0; a < axes->count; a++) first.stride[a] = 0;
    TRY(emit_identity(m->e, &(place_axes){0}, &first, &counter));
    for (uint32_t a = 0; a < axes->count; a++)
        if (is_scanned(m, &axes->axis[a])) some.axis[a].extent = 1;
    for (uint32_t a = 0; a < axes->count; a++)
        if (is_scanned(m, &axes->axis[a])) {
            some.axis[a].extent = axes->axis[a].extent;
            TRY(double_axis(m, &some, a, positions));
        }
    return NULL;
}

// What was found is 1: the largest of all comparisons.
static spyre_status find(const masking *m, const place_axes *axes, const place *equal,
                         const place *found)
{
    place_order kept = place_sorted(found, axes), order = {0};
    TRY(emit_fill(m->e, axes, found, 0.0f));
    for (uint32_t a = 0; a < axes->count; a++)
        if (m->ranks[axes->axis[a].dim]) order.axis[order.count++] = (uint8_t)a;
    for (uint32_t i = 0; i < kept.count; i++) order.axis[order.count++] = kept.axis[i];
    isa_instruction i = {.opcode = ISA_REDUCE, .op = OPFUNC_MAX};
    return emit_tile(m->e, &i, axes, &order, (const place *const[]){found, equal}, 2);
}

static spyre_status mask_tile(const masking *m, const box *b, const place_axes *axes)
{
    place positions = array(m, b, axes, SCANNED_AXES, SPYRE_FORMAT_IEEE_FP32, &m->positions);
    place equal = array(m, b, axes, ALL_AXES, SPYRE_FORMAT_SEN169_FP16, &m->equal);
    place found = array(m, b, axes, KEPT_AXES, SPYRE_FORMAT_IEEE_FP32, &m->found);
    place x = buffers_place(&m->tiles, b, axes, m->input);
    place index = buffers_place(&m->tiles, b, axes, m->index);
    place out = buffers_place(&m->tiles, b, axes, m->output), zero = cell(&m->zero);
    place counter = cell(&m->counter);
    int64_t elements = 1;
    TRY(make_positions(m, axes, &positions));
    TRY(emit_vector(m->e, OPFUNC_EQUAL, NULL, axes,
                    (const place *const[]){&equal, &positions, &index}, 3));
    TRY(find(m, axes, &equal, &found));
    TRY(emit_vector(m->e, OPFUNC_WHERE3, NULL, axes,
                    (const place *const[]){&out, &found, &x, &zero}, 4));
    for (uint32_t d = 0; d < m->n.dim_count; d++)
        if (m->weight[d]) elements *= b->extent[d];
    return add_cell(m, &(place_axes){0}, &counter, &counter, elements);
}

static spyre_status scanned_body(void *context, const box *b)
{
    const masking *m = context;
    place_axes axes = place_find_axes(&m->n, b, 1);
    TRY(staged_load(m->e, &m->tiles, b, &axes, 2));
    TRY(mask_tile(m, b, &axes));
    TRY(staged_release(m->e, &m->tiles, 2));
    return staged_store(m->e, &m->tiles, b, &axes);
}

static spyre_status kept_body(void *context, const box *b)
{
    const masking *m = context;
    place counter = cell(&m->counter), zero = cell(&m->zero);
    TRY(emit_fill(m->e, &(place_axes){0}, &counter, 0.0f));
    TRY(emit_fill(m->e, &(place_axes){0}, &zero, 0.0f));
    return tile_loops_run(&m->scanned, b);
}

// --- Tiles

static int64_t tile_elements(const masking *m, const int64_t *tile, axes_chosen chosen)
{
    int64_t elements = 1;
    for (uint32_t d = 0; d < m->n.dim_count; d++)
        if (chosen == ALL_AXES || (chosen == KEPT_AXES ? !m->ranks[d] : m->weight[d] != 0))
            elements *= tile[d];
    return elements;
}

static int64_t lx_bytes(const void *context, const int64_t *tile)
{
    const masking *m = context;
    return buffers_bytes(&m->tiles, tile) + 3 * LX_ALIGNMENT +
           lx_align(4 * tile_elements(m, tile, SCANNED_AXES)) +
           lx_align(4 * tile_elements(m, tile, KEPT_AXES)) +
           lx_align(2 * tile_elements(m, tile, ALL_AXES));
}

static spyre_status choose_tiles(masking *m, int64_t *tile)
{
    uint8_t dims[BUNDLE_MAX_DIMS];
    uint32_t count = nest_order(&m->n, m->output, dims);
    tile_limits limits = {lx_share_bytes(m->e->options), lx_bytes, m};
    tile_smallest(&m->n, tile);
    for (uint32_t d = 0; d < m->n.dim_count; d++)
        if (m->ranks[d]) tile[d] = m->n.size[d];
    TRY(tile_check(&limits, tile));
    tile_grow_reduced(&m->n, &limits, tile);
    tile_grow_kept(&m->n, &limits, dims, count, tile);
    tile_loops_add_reduced(&m->kept, &m->scanned, dims, count, tile);
    return NULL;
}

static spyre_status allocate(masking *m, const int64_t *tile)
{
    lx_share share = lx_share_whole(m->e->options);
    TRY(buffers_take(&m->tiles, &share, tile));
    TRY(lx_take(&share, 4 * tile_elements(m, tile, SCANNED_AXES), false, &m->positions));
    TRY(lx_take(&share, 2 * tile_elements(m, tile, ALL_AXES), false, &m->equal));
    TRY(lx_take(&share, 4 * tile_elements(m, tile, KEPT_AXES), false, &m->found));
    TRY(lx_take(&share, 4, false, &m->counter));
    TRY(lx_take(&share, 4, false, &m->added));
    return lx_take(&share, 4, false, &m->zero);
}

// Scanned dims are cut as reduced ones are, so that positions go on from tile to tile; those of
// ranks stay whole.
static void find_roles(masking *m)
{
    int64_t positions = 1;
    for (uint32_t d = m->n.dim_count; d-- > 0;) {
        m->ranks[d] = m->n.size[d] > 1 && !m->n.operand[m->output].stride[d];
        m->n.reduced[d] = bundle_is_scan_dim(m->n.step, d);
        if (!m->n.reduced[d]) continue;
        m->weight[d] = positions;
        positions *= m->n.size[d];
    }
}

spyre_status emit_mask(emitter *e, const bundle_step *step)
{
    masking m = {.e = e, .input = step->inputs[0], .index = step->inputs[1],
                 .output = step->output};
    TRY(nest_build(e->memory, e->b, step, e->zone, e->depth, 0, &m.n));
    find_roles(&m);
    m.tiles = buffers_of(&m.n);
    m.kept = (tile_loops){.e = e, .n = &m.n, .body = kept_body, .context = &m};
    m.scanned = (tile_loops){.e = e, .n = &m.n, .body = scanned_body, .context = &m};
    int64_t tile[BUNDLE_MAX_DIMS];
    TRY(choose_tiles(&m, tile));
    TRY(allocate(&m, tile));
    tile_loops *innermost = m.scanned.levels.count ? &m.scanned : &m.kept;
    tile_loops_add_buffer(innermost, buffers_stage_inputs(&m.tiles, 2), ISA_QUEUE_LOAD,
                          ISA_QUEUE_SFP, TOKEN_INPUT_FREE);
    tile_loops_add_buffer(innermost, m.tiles.staged[m.output], ISA_QUEUE_SFP, ISA_QUEUE_STORE,
                          TOKEN_OUTPUT_FREE);
    return tile_loops_kernels(&m.kept);
}
