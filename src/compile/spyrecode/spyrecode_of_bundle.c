// SPDX-License-Identifier: Apache-2.0
#include "compile/spyrecode/spyrecode_of_bundle.h"

#include <string.h>

#include "bundle/step_facts.h"
#include "compile/spyrecode/tiled_launch.h"

// --- What launches of the program can be checked for

// Which tensors of all steps use one argument, seen as one.
typedef struct {
    bool seen, several;
    int64_t base;
    spyrecode_operand operand;
} argument_use;

static int64_t lowest_start(const bundle_step *step, const bundle_tensor *tensor)
{
    int64_t lowest = tensor->start;
    for (uint32_t core = 1; core < step->cores->core_count; core++)
        if (bundle_start(tensor, core) < lowest) lowest = bundle_start(tensor, core);
    return lowest;
}

// The end of what any core touches, from the argument's base.
static int64_t reach_of(const bundle_step *step, uint32_t number, const bundle_geometry *geometry,
                        const int64_t *rounds)
{
    const bundle_tensor *tensor = &step->tensors[number];
    int64_t farthest = 0, looped = 0;
    bundle_bytes cores[BUNDLE_MAX_CORES];
    for (uint32_t l = 0; l < BUNDLE_MAX_LOOPS; l++)
        if (tensor->loop_stride[l] > 0) looped += tensor->loop_stride[l] * (rounds[l] - 1);
    bundle_reach(step, number, geometry, cores);
    for (uint32_t core = 0; core < step->cores->core_count; core++)
        if (cores[core].end + looped > farthest) farthest = cores[core].end + looped;
    return farthest;
}

static bool same_walks(const spyrecode_operand *a, const spyrecode_operand *b)
{
    return a->walk_count == b->walk_count &&
           memcmp(a->walks, b->walks, a->walk_count * sizeof *a->walks) == 0;
}

static spyrecode_operand describe(const bundle_step *step, uint32_t number,
                                  const bundle_geometry *geometry, const int64_t *rounds)
{
    const bundle_tensor *tensor = &step->tensors[number];
    spyrecode_operand operand = {.format = tensor->format};
    if (tensor->index_kind == BUNDLE_INDEX_VALUE) return operand;
    operand.least_bytes = reach_of(step, number, geometry, rounds);
    for (uint32_t d = 0; d < step->dim_count; d++) {
        const bundle_window *window = bundle_window_of(step, number, d);
        int64_t span = bundle_stick_span(tensor, d), stride = geometry->stride[d];
        int64_t count = (geometry->valid[d] + span - 1) / span;
        if (count > geometry->extent[d] || window) count = geometry->extent[d];
        if (window) stride /= window->stride;
        if (!geometry->moves[d] || (window && window->kernel == d)) continue;
        if (count <= 1 && !step->symbol[d]) continue;
        operand.walks[operand.walk_count++] = (spyrecode_walk){stride, count};
    }
    return operand;
}

static spyre_status add_use(const bundle *b, const bundle_step *step, uint32_t number,
                            const int64_t *rounds, argument_use *use)
{
    const bundle_tensor *tensor = &step->tensors[number];
    bundle_geometry geometry;
    TRY(bundle_tensor_geometry(b, step, number, &geometry));
    spyrecode_operand operand = describe(step, number, &geometry, rounds), *known = &use->operand;
    int64_t base = lowest_start(step, tensor);
    for (uint32_t loop = 0; loop < BUNDLE_MAX_LOOPS; loop++)
        if (tensor->loop_stride[loop]) use->several = true;
    if (!use->seen) {
        *use = (argument_use){true, use->several, base, operand};
        return NULL;
    }
    if (base != use->base || !same_walks(known, &operand)) use->several = true;
    if (known->format != operand.format) known->format = SPYRE_FORMAT_INVALID;
    if (operand.least_bytes > known->least_bytes) known->least_bytes = operand.least_bytes;
    return NULL;
}

// --- Tiled launches

// The device dim that a tile's is all of, or the outermost digit of, or ends with; -1 without one,
// or where it may be another of the same place.
static int32_t dim_of_tile(const spyrecode_operand *operand, const launch_tile *tile)
{
    int64_t stride = SPYRE_STICK_BYTES, end;
    for (uint32_t d = operand->layout.rank - 1; d-- > 0; stride = end) {
        const int64_t *size = &operand->layout.device_size[d];
        end = stride * *size;
        if (end != tile->bytes) continue;
        if (*size > 1 && tile->stride < end) return (int32_t)d;
        bool alone = (d == 0 || size[-1] > 1) && (d + 2 == operand->layout.rank || size[1] > 1);
        if (*size == 1 && tile->stride == stride && alone) return (int32_t)d;
    }
    return -1;
}

static bool find_dims(const launch_tile *tiles, uint32_t count, argument_use *uses, int32_t *dims)
{
    for (uint32_t a = 0; a < count; a++) {
        dims[a] = tiles[a].bytes ? dim_of_tile(&uses[a].operand, &tiles[a]) : -1;
        if (tiles[a].bytes && dims[a] < 0) return false;
    }
    return true;
}

static void add_way(uint32_t way, uint32_t count, const int32_t *dims, argument_use *uses,
                    spyrecode_tile *const *tiles)
{
    for (uint32_t a = 0; a < count; a++)
        if (dims[a] >= 0)
            tiles[a][uses[a].operand.tile_count++] = (spyrecode_tile){way, (uint32_t)dims[a]};
}

// Gives the tiles along a dim its new number; false when there are none.
static bool rename_dim(uint32_t count, spyrecode_tile *tiles, uint32_t from, uint32_t to)
{
    bool any = false;
    for (uint32_t n = 0; n < count; n++) {
        if (tiles[n].dim != from) continue;
        tiles[n].dim = to;
        any = true;
    }
    return any;
}

// Dims of one index that no tile is along are no matter, and loop IR does not have them.
static void drop_short_dims(spyrecode_operand *operand, spyrecode_tile *tiles)
{
    spyre_layout *layout = &operand->layout;
    uint32_t kept = 0;
    for (uint32_t d = 0; d < layout->rank; d++) {
        bool is_long = layout->device_size[d] > 1 || d + 1 == layout->rank;
        if (!rename_dim(operand->tile_count, tiles, d, kept) && !is_long) continue;
        layout->device_size[kept] = layout->device_size[d];
        layout->stride_map[kept++] = layout->stride_map[d];
    }
    layout->rank = kept;
}

static spyre_status find_tiles(arena *memory, const bundle *b, argument_use *uses)
{
    const launch_tile *found;
    uint32_t ways, count = b->args.count, added = 0;
    int32_t *dims = ARENA_NEW(memory, int32_t, count);
    spyrecode_tile **tiles = ARENA_NEW(memory, spyrecode_tile *, count);
    TRY_ALLOC(dims);
    TRY_ALLOC(tiles);
    TRY(tiled_launch_find(memory, b, &found, &ways));
    for (uint32_t a = 0; a < count; a++) {
        TRY_NEW(memory, tiles[a], ways);
        uses[a].operand.tiles = tiles[a];
    }
    for (uint32_t w = 0; w < ways; w++)
        if (find_dims(&found[w * count], count, uses, dims))
            add_way(added++, count, dims, uses, tiles);
    for (uint32_t a = 0; a < count; a++) drop_short_dims(&uses[a].operand, tiles[a]);
    return NULL;
}

// `layouts` has one per launch argument, or is null.
static void state_layouts(const bundle *b, const spyre_layout *layouts, argument_use *uses)
{
    uint32_t launch = 0;
    for (uint32_t a = 0; layouts && a < b->args.count; a++) {
        if (b->args.items[a].kind != BUNDLE_ARG_TENSOR) continue;
        uses[a].operand.layout = layouts[launch++];
    }
}

// --- Arguments

// Of each argument what all its uses have in common; walks where they are one.
static spyre_status find_operands(arena *memory, const bundle *b, const spyre_layout *layouts,
                                  spyrecode_argument *arguments)
{
    argument_use *uses = ARENA_NEW(memory, argument_use, b->args.count);
    TRY_ALLOC(uses);
    bundle_walk walk = bundle_walk_of(b);
    for (const bundle_step *step; (step = bundle_next_step(&walk));)
        for (uint32_t t = 0; t < step->tensor_count; t++)
            if (!step->tensors[t].in_lx)
                TRY(add_use(b, step, t, walk.rounds, &uses[step->tensors[t].arg]));
    state_layouts(b, layouts, uses);
    if (layouts) TRY(find_tiles(memory, b, uses));
    for (uint32_t i = 0; i < b->args.count; i++) {
        if (uses[i].several) uses[i].operand.walk_count = 0;
        bool is_launch = arguments[i].kind == SPYRECODE_LAUNCH && uses[i].seen;
        if (is_launch && b->args.items[i].kind == BUNDLE_ARG_TENSOR)
            arguments[i].operand = &uses[i].operand;
    }
    return NULL;
}

spyre_status code_of_segment(arena *memory, const bundle *b, const spyre_layout *layouts,
                             const isa_program *program, spyrecode **out_code)
{
    spyrecode_argument *arguments = ARENA_NEW(memory, spyrecode_argument, b->args.count);
    uint32_t launch = 0;
    TRY_ALLOC(arguments);
    for (uint32_t i = 0; i < b->args.count; i++) {
        const bundle_arg *arg = &b->args.items[i];
        spyrecode_argument *out = &arguments[i];
        out->byte_count = (uint64_t)arg->bytes;
        switch (arg->kind) {
        case BUNDLE_ARG_TENSOR:
            *out = (spyrecode_argument){.kind = SPYRECODE_LAUNCH, .index = launch++};
            break;
        case BUNDLE_ARG_POOL: out->kind = SPYRECODE_POOL; break;
        case BUNDLE_ARG_CONSTANTS:
            out->kind = SPYRECODE_CONSTANTS;
            out->byte_count = (uint64_t)b->constants_bytes;
            out->bytes = b->constants;
            break;
        }
    }
    TRY(find_operands(memory, b, layouts, arguments));
    return spyrecode_build(memory, program, arguments, NULL, out_code);
}

uint32_t code_launch_count(const bundle *b)
{
    uint32_t count = b->args.count;
    const bundle_arg *last = count ? &b->args.items[count - 1] : NULL;
    return last && last->kind == BUNDLE_ARG_POOL && last->bytes ? count - 1 : count;
}

spyre_status code_bundle_arguments(arena *memory, const bundle *b,
                                   spyrecode_argument **out_arguments)
{
    spyrecode_argument *arguments = ARENA_NEW(memory, spyrecode_argument, b->args.count);
    TRY_ALLOC(arguments);
    uint32_t launch = code_launch_count(b);
    for (uint32_t i = 0; i < launch; i++)
        arguments[i] = (spyrecode_argument){.kind = SPYRECODE_LAUNCH, .index = i};
    if (launch < b->args.count)
        arguments[launch] = (spyrecode_argument){
            .kind = SPYRECODE_POOL, .byte_count = (uint64_t)b->args.items[launch].bytes};
    *out_arguments = arguments;
    return find_operands(memory, b, NULL, arguments);
}

spyre_status code_of_bundle(arena *memory, const bundle *b, const isa_program *program,
                            spyrecode **out_code)
{
    spyrecode_argument *arguments = NULL;
    TRY(code_bundle_arguments(memory, b, &arguments));
    return spyrecode_build(memory, program, arguments, NULL, out_code);
}
