// SPDX-License-Identifier: Apache-2.0
//
// Tiles without a hint: an op that no division of its loops keeps within the span limit is
// cut into the fewest tiles that do, along one loop or two, loops of the result before reduced
// ones. Ops with a user's tiles are left to them. Source: torch-spyre,
// docs/source/compiler/span_overflow_hint_analysis.md, which wants every tile to fit whatever the
// division. Here the division is planned next and keeps what this file counts on;
// chunk_large_tensors asks for more tiles of element-wise ops, as there. Where no tiles are small
// enough for one core, it asks for nothing.
#include "front/divide/span_reduction.h"
#include "front/tile/tiling.h"

#include "base/log.h"

typedef struct {
    const loop_graph *loops;
    const loop_op *op;
    int64_t unit[LOOP_MAX_VARS];
    bool undivided;               // a tile must fit for one core alone
    int64_t best;                 // tiles of the best choice, or 0
    int64_t count[LOOP_MAX_VARS]; // the best choice
} search;

static bool fits(const search *s, const loop_op *op)
{
    division d = s->undivided ? division_whole() : span_division(s->loops, op);
    return span_fits(s->loops, op, &d) && span_reduced_splits(op, &d) <= 1;
}

// Tries all counts of loop v that promise fewer tiles than the best choice, on top of `tiles`.
static void try_loop(search *s, uint32_t v, loop_op *trial, int64_t tiles, uint32_t more)
{
    int64_t extent = trial->extent[v];
    if (extent % s->unit[v]) return;
    for (int64_t count = 2; count <= extent / s->unit[v]; count++) {
        if (s->best && tiles * count >= s->best) return;
        if (extent / s->unit[v] % count) continue;
        trial->extent[v] = extent / count;
        if (fits(s, trial)) {
            s->best = tiles * count;
            for (uint32_t u = 0; u < trial->var_count; u++)
                s->count[u] = s->op->extent[u] / trial->extent[u];
        } else {
            for (uint32_t u = v + 1; more && u < trial->var_count; u++)
                if (loop_result(trial)->stride[u])
                    try_loop(s, u, trial, tiles * count, more - 1);
        }
        trial->extent[v] = extent;
    }
}

static bool may_reduce_in_tiles(const loop_op *op)
{
    opfunc_kind kind = opfunc_describe(op->op)->kind;
    return kind == OPFUNC_KIND_MATMUL || (kind == OPFUNC_KIND_REDUCTION && op->op != OPFUNC_EXX2);
}

static void find_tiles(search *s)
{
    loop_op trial = *s->op;
    const loop_access *result = loop_result(&trial);
    for (uint32_t v = 0; v < trial.var_count; v++)
        s->unit[v] = tile_unit(s->loops, s->op, v);
    for (uint32_t more = 0; more < 2 && !s->best; more++)
        for (uint32_t v = 0; v < trial.var_count; v++)
            if (result->stride[v]) try_loop(s, v, &trial, 1, more);
    for (uint32_t v = 0; v < trial.var_count && !s->best && may_reduce_in_tiles(s->op); v++)
        if (loop_var_is_reduced(s->op, v)) try_loop(s, v, &trial, 1, 0);
}

static bool equal_counts(const tile_path *a, const tile_path *b)
{
    if (a->depth != b->depth) return false;
    for (uint32_t l = 0; l < a->depth; l++)
        if (a->level[l].count != b->level[l].count) return false;
    return true;
}

// An op that an operand comes from, cut alike by this file, shares its loops.
static void join_writer(const tiling *t, uint32_t index, tile_path *path)
{
    const loop_op *op = &t->loops->ops.items[index];
    for (uint32_t w = index; w-- > 0;) {
        const loop_op *writer = &t->loops->ops.items[w];
        const tile_path *known = &t->paths.items[w];
        bool feeds = loop_reads(op, loop_result(writer)->buffer);
        if (!feeds || !known->depth || known->level[0].scope > 0 || !equal_counts(known, path))
            continue;
        for (uint32_t l = 0; l < path->depth; l++) path->level[l].scope = known->level[l].scope;
        return;
    }
}

void tile_by_spans(tiling *t, uint32_t index)
{
    const loop_graph *loops = t->loops;
    search s = {.loops = loops, .op = &loops->ops.items[index]};
    tile_path *path = &t->paths.items[index];
    if (path->depth) return;
    s.undivided = loops->settings.chunk_large_tensors && loop_is_element_wise(s.op);
    if (fits(&s, s.op)) return;
    find_tiles(&s);
    if (!s.best && s.undivided) {
        s.undivided = false;
        if (fits(&s, s.op)) return;
        find_tiles(&s);
    }
    for (uint8_t v = 0; s.best && v < s.op->var_count; v++)
        if (s.count[v] > 1) {
            int64_t scope = -(int64_t)(index * LOOP_MAX_TILES + path->depth + 1);
            path->level[path->depth++] = (tile_level){scope, "a long span", s.count[v], v};
        }
    if (!path->depth) return;
    log_info("%s: %lld tiles keep every core within its span", loop_op_place(loops, index),
             (long long)s.best);
    join_writer(t, index, path);
}
