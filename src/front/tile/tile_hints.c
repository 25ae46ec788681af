// SPDX-License-Identifier: Apache-2.0
//
// From the scopes around graph nodes to the loops around ops. An op takes part in a scope when one
// of its loops has the scope's name; others of the scope are left as they are. Where views have cut
// the dim into several loops, the outermost one is cut further.
#include "front/tile/tiling.h"

#include <inttypes.h>
#include <string.h>

#include "base/log.h"
#include "front/ir/dim_names.h"
#include "front/ir/division.h"
#include "graph/hint.h"

// A scope as the first op of it says.
typedef struct {
    hint_tiles hint;
    bool used;
} scope;

typedef struct {
    tiling *t;
    VEC(scope) scopes;
} reader;

const char *tile_scopes_of(const loop_graph *loops, const loop_op *op)
{
    uint32_t tiles = loops->graph->nodes.items[op->node].hint.tiles;
    return tiles ? loops->graph->locations.items[tiles] : NULL;
}

bool tile_in_scope(const loop_graph *loops, const loop_op *op, int64_t number)
{
    const char *at = tile_scopes_of(loops, op);
    hint_tiles hint;
    while (hint_next_tiles(&at, &hint))
        if (hint.scope == number) return true;
    return false;
}

int64_t tile_unit(const loop_graph *loops, const loop_op *op, uint32_t var)
{
    int64_t unit = 1;
    if (loop_var_is_rank(op, var) || loop_var_is_scanned(op, var)) return op->extent[var];
    for (uint32_t k = 0; k < op->operand_count; k++) {
        loop_location place;
        if (loop_locate(loops, op, &op->operand[k], &place) || place.stick_var != var) continue;
        int64_t lanes = loop_lanes(loop_operand_buffer(loops, op, k));
        if (lanes > unit) unit = lanes;
    }
    return unit;
}

// --- Refusals

// Blames no node: the host would not do what the user asks either.
static spyre_status refuse(const reader *r, uint32_t index, const hint_tiles *hint, const char *why)
{
    *r->t->loops->at_node = SPYRE_NO_ID;
    return status_new(SPYRE_UNSUPPORTED, "%s: tiles %.*s=%" PRId64 " (scope %" PRId64 "): %s",
                      loop_op_place(r->t->loops, index), (int)hint->length, hint->name,
                      hint->count, hint->scope, why ? why : "out of memory");
}

static spyre_status refuse_count(const reader *r, uint32_t index, const hint_tiles *hint,
                                 int64_t extent, int64_t unit)
{
    arena *memory = r->t->loops->memory;
    int64_t parts = extent % unit ? 1 : extent / unit;
    const char *of = unit == 1 ? arena_printf(memory, "%" PRId64, extent)
                               : arena_printf(memory, "%" PRId64 " in whole sticks of %" PRId64,
                                              extent, unit);
    int64_t nearest = division_nearest(parts, hint->count, false);
    return refuse(r, index, hint,
                  arena_printf(memory, "does not divide a loop of %s; the nearest count is %lld",
                               of ? of : "", (long long)nearest));
}

// Element-wise ops move their result along every loop, so what is left are ops that reduce.
static const char *why_not_combined(const loop_graph *loops, const loop_op *op)
{
    if (!loops->settings.enable_reduction_tiling) return "enable_reduction_tiling is off";
    if (op->op == OPFUNC_EXX2) return "moments of a normalisation are not combined tile by tile";
    opfunc_kind kind = opfunc_describe(op->op)->kind;
    if (kind == OPFUNC_KIND_RANK)
        return "the ranks of tiles are not combined; tiles of another dim are possible";
    if (kind == OPFUNC_KIND_REDUCTION || kind == OPFUNC_KIND_MATMUL) return NULL;
    return "the result does not move along the dim";
}

// --- Scopes

static spyre_status note_scope(reader *r, uint32_t index, const hint_tiles *hint, uint32_t *out)
{
    for (*out = 0; *out < r->scopes.count; (*out)++) {
        const hint_tiles *known = &r->scopes.items[*out].hint;
        if (known->scope != hint->scope) continue;
        if (known->count == hint->count && known->length == hint->length &&
            memcmp(known->name, hint->name, hint->length) == 0)
            return NULL;
        return refuse(r, index, hint,
                      arena_printf(r->t->loops->memory, "another op has %.*s=%" PRId64
                                   " for the same scope", (int)known->length, known->name,
                                   known->count));
    }
    return VEC_PUSH(r->t->loops->memory, &r->scopes, ((scope){.hint = *hint}));
}

static uint8_t outermost_named(const loop_graph *loops, const loop_op *op, const tile_path *path,
                               const hint_tiles *hint)
{
    for (uint8_t v = 0; v < op->var_count; v++) {
        bool named = hint_is_name(dim_names_of(loops, op, v), hint->name, hint->length);
        if (named && tile_extent(op, path, path->depth, v) > 1) return v;
    }
    return LOOP_NO_DIM;
}

static spyre_status add_level(reader *r, uint32_t index, const hint_tiles *hint, tile_path *path)
{
    const loop_graph *loops = r->t->loops;
    const loop_op *op = &loops->ops.items[index];
    uint32_t at;
    TRY(note_scope(r, index, hint, &at));
    uint8_t v = outermost_named(loops, op, path, hint);
    if (v == LOOP_NO_DIM) return NULL;
    r->scopes.items[at].used = true;
    if (hint->count == 1) return NULL;
    int64_t extent = tile_extent(op, path, path->depth, v), unit = tile_unit(loops, op, v);
    if (extent % hint->count || extent / hint->count % unit) {
        // Copies are the compiler's way to change a layout; whole ones serve as well.
        if (opfunc_describe(op->op)->kind == OPFUNC_KIND_COPY && !op->table) return NULL;
        return refuse_count(r, index, hint, extent, unit);
    }
    if (!loop_result(op)->stride[v]) {
        const char *why = why_not_combined(loops, op);
        if (why) return refuse(r, index, hint, why);
    }
    if (path->depth == LOOP_MAX_TILES)
        return refuse(r, index, hint, arena_printf(loops->memory, "more than %d loops around an op",
                                                   LOOP_MAX_TILES));
    const char *name = arena_strndup(loops->memory, hint->name, hint->length);
    TRY_ALLOC(name);
    path->level[path->depth++] = (tile_level){hint->scope, name, hint->count, v};
    return NULL;
}

spyre_status tile_by_hints(tiling *t)
{
    reader r = {.t = t};
    for (uint32_t i = 0; i < t->loops->ops.count; i++) {
        const loop_op *op = &t->loops->ops.items[i];
        const char *at = tile_scopes_of(t->loops, op);
        hint_tiles hint;
        *t->loops->at_node = op->node;
        while (hint_next_tiles(&at, &hint))
            if (!hint_is_step(&hint)) TRY(add_level(&r, i, &hint, &t->paths.items[i]));
    }
    for (uint32_t s = 0; s < r.scopes.count; s++) {
        const hint_tiles *hint = &r.scopes.items[s].hint;
        if (r.scopes.items[s].used) continue;
        log_warn("tiles %.*s=%" PRId64 " (scope %" PRId64 "): no op of the scope moves along %.*s, "
                 "so it is left out; %s",
                 (int)hint->length, hint->name, hint->count, hint->scope, (int)hint->length,
                 hint->name, dim_names_in_use(t->loops));
    }
    return NULL;
}
