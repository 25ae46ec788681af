// SPDX-License-Identifier: Apache-2.0
//
// The order of ops in counted loops. Ops of one scope are drawn together: what they need from
// elsewhere goes before their loop, what does not need them after it. Two ops may share a loop
// when each iteration of it reads exactly what the same iteration wrote; where an op needs other
// tiles (a whole reduction, say), the loop ends and another one over the same dim begins.
//
// One walk over the ops, which always takes the one that fits deepest into the loops that are open.
#include "front/tile/tiling.h"

#include <inttypes.h>

enum { MOST_TURNS = 64 }; // scopes may need each other's ops; then they have several loops

// Where an op was put: its loops, by number.
typedef struct {
    uint32_t depth;
    uint32_t tiles[LOOP_MAX_TILES];
} nest;

typedef struct {
    uint32_t writer;  // op
    uint32_t operand; // of the reader
    uint8_t shared;   // levels that the two may share
} need;

typedef struct {
    tiling *t;
    uint32_t count;
    VEC(need) needs;
    uint32_t *first_need; // by op, and one more
    bool *done, *wanted;  // by op
    nest *nests;          // by op
    nest open;
    int64_t open_scope[LOOP_MAX_TILES];
    VEC(int64_t) opened;  // scopes that had a loop
    uint32_t *order, ordered;
} scheduler;

static const tile_path *path_of(const scheduler *s, uint32_t op)
{
    return &s->t->paths.items[op];
}

static const loop_op *op_at(const scheduler *s, uint32_t op)
{
    return &s->t->loops->ops.items[op];
}

// --- What may share a loop

int64_t tile_step(const loop_op *op, const tile_path *path, uint32_t at, uint32_t k)
{
    uint8_t v = path->level[at].var;
    return v == LOOP_NO_DIM ? 0 : op->operand[k].stride[v] * tile_extent(op, path, at + 1, v);
}

bool tile_stays_inside(const loop_graph *loops, const loop_op *op, const tile_path *path,
                       uint32_t at, uint32_t k, int64_t *out_first)
{
    const loop_access *access = &op->operand[k];
    const loop_buffer *buffer = &loops->buffers.items[access->buffer];
    int64_t last = 0, step = tile_step(op, path, at, k);
    if (step < 1 || buffer->dim_count == 0) return false;
    uint32_t d = loop_dim_at(buffer, step);
    for (uint32_t v = 0; v < op->var_count; v++)
        if (access->stride[v] > 0 && loop_dim_at(buffer, access->stride[v]) == d)
            last += access->stride[v] * (tile_extent(op, path, at + 1, v) - 1);
    *out_first = access->offset / buffer->dim[d].stride % buffer->dim[d].extent;
    return last < step;
}

// True when one iteration of level `at` reaches the same elements through both accesses, whose
// iterations start alike, because the same loops walk them.
static bool same_walk(const scheduler *s, uint32_t writer, uint32_t reader, uint32_t operand,
                      uint32_t at)
{
    const loop_op *from = op_at(s, writer), *to = op_at(s, reader);
    const loop_access *written = loop_result(from);
    const loop_access *read = &to->operand[operand];
    uint32_t matched = 0;
    if (written->offset != read->offset || loop_is_table(to, read)) return false;
    for (uint32_t v = 0; v < to->var_count; v++) {
        int64_t extent = tile_extent(to, path_of(s, reader), at + 1, v);
        bool found = !read->stride[v] || extent == 1;
        for (uint32_t u = 0; u < from->var_count && !found; u++)
            if (!(matched >> u & 1) && written->stride[u] == read->stride[v] &&
                tile_extent(from, path_of(s, writer), at + 1, u) == extent) {
                matched |= 1u << u;
                found = true;
            }
        if (!found) return false;
    }
    return true;
}

// True when the reader's iterations of level `at` need what the writer's make.
static bool in_step(const scheduler *s, uint32_t writer, uint32_t reader, uint32_t operand,
                    uint32_t at)
{
    const loop_graph *loops = s->t->loops;
    const loop_op *from = op_at(s, writer), *to = op_at(s, reader);
    const tile_path *from_path = path_of(s, writer), *to_path = path_of(s, reader);
    uint32_t output = from->operand_count - 1;
    int64_t step = tile_step(from, from_path, at, output), first_from, first_to;
    if (step != tile_step(to, to_path, at, operand)) return false;
    if (step == 0) return true;
    if (same_walk(s, writer, reader, operand, at)) return true;
    return tile_stays_inside(loops, from, from_path, at, output, &first_from) &&
           tile_stays_inside(loops, to, to_path, at, operand, &first_to) &&
           first_from == first_to;
}

// Of the outermost `limit` levels.
static uint8_t count_in_step(const scheduler *s, uint32_t writer, uint32_t reader,
                             uint32_t operand, uint32_t limit)
{
    const tile_path *a = path_of(s, writer), *b = path_of(s, reader);
    uint8_t shared = 0;
    while (shared < a->depth && shared < b->depth && shared < limit &&
           a->level[shared].scope == b->level[shared].scope &&
           in_step(s, writer, reader, operand, shared))
        shared++;
    return shared;
}

static uint8_t may_share(const scheduler *s, uint32_t writer, uint32_t reader, uint32_t operand)
{
    const loop_op *to = op_at(s, reader);
    uint32_t buffer = to->operand[operand].buffer, limit = s->t->whole_at.items[buffer];
    if (loop_result(to)->buffer == buffer) limit = LOOP_MAX_TILES;
    return count_in_step(s, writer, reader, operand, limit);
}

// What reads the value before it is written anew goes first; in a loop around both, too, unless
// iterations accumulate it.
static spyre_status add_old_readers(scheduler *s, uint32_t writer, uint32_t buffer)
{
    const bool accumulated = s->t->whole_at.items[buffer] < LOOP_MAX_TILES;
    for (uint32_t i = 0; i < writer; i++)
        for (uint32_t k = 0; k + 1 < op_at(s, i)->operand_count; k++) {
            if (op_at(s, i)->operand[k].buffer != buffer) continue;
            uint8_t shared = LOOP_MAX_TILES;
            if (!accumulated) shared = count_in_step(s, writer, i, k, LOOP_MAX_TILES);
            TRY(VEC_PUSH(s->t->loops->memory, &s->needs, ((need){i, k, shared})));
        }
    return NULL;
}

// What another op has written before is written anew, in part or whole: that goes first, and so
// does what reads it. Pieces that share a scope are in order by themselves.
static spyre_status add_old_writers(scheduler *s, uint32_t writer, uint32_t first,
                                    const uint32_t *next)
{
    const tile_path *own = path_of(s, writer);
    const uint32_t output = op_at(s, writer)->operand_count - 1;
    for (uint32_t w = first; w; w = next[w - 1]) {
        const tile_path *path = path_of(s, w - 1);
        if (own->depth && path->depth && own->level[0].scope == path->level[0].scope) continue;
        TRY(VEC_PUSH(s->t->loops->memory, &s->needs, ((need){w - 1, output, 0})));
    }
    return first ? add_old_readers(s, writer, loop_result(op_at(s, writer))->buffer) : NULL;
}

static spyre_status find_needs(scheduler *s)
{
    arena *memory = s->t->loops->memory;
    uint32_t buffers = s->t->loops->buffers.count, *head = ARENA_NEW(memory, uint32_t, buffers);
    uint32_t *next = ARENA_NEW(memory, uint32_t, s->count); // writers of a buffer, op + 1
    TRY_ALLOC(head);
    TRY_ALLOC(next);
    for (uint32_t i = 0; i < s->count; i++) {
        const loop_op *op = op_at(s, i);
        s->first_need[i] = s->needs.count;
        for (uint32_t k = 0; k + 1 < op->operand_count; k++)
            for (uint32_t w = head[op->operand[k].buffer]; w; w = next[w - 1]) {
                need n = {w - 1, k, may_share(s, w - 1, i, k)};
                TRY(VEC_PUSH(memory, &s->needs, n));
            }
        uint32_t result = loop_result(op)->buffer;
        if (s->t->whole_at.items[result] < LOOP_MAX_TILES) TRY(add_old_readers(s, i, result));
        else TRY(add_old_writers(s, i, head[result], next));
        next[i] = head[result];
        head[result] = i + 1;
    }
    s->first_need[s->count] = s->needs.count;
    return NULL;
}

// --- The walk

static bool is_ready(const scheduler *s, uint32_t op)
{
    if (s->done[op]) return false;
    for (uint32_t n = s->first_need[op]; n < s->first_need[op + 1]; n++)
        if (!s->done[s->needs.items[n].writer]) return false;
    return true;
}

// Levels of the open loops that the op can be put into.
static uint32_t fit(const scheduler *s, uint32_t op)
{
    const tile_path *path = path_of(s, op);
    uint32_t fits = 0;
    while (fits < path->depth && fits < s->open.depth &&
           path->level[fits].scope == s->open_scope[fits])
        fits++;
    for (uint32_t n = s->first_need[op]; n < s->first_need[op + 1]; n++) {
        const nest *writer = &s->nests[s->needs.items[n].writer];
        uint32_t inside = 0;
        while (inside < writer->depth && inside < s->open.depth &&
               writer->tiles[inside] == s->open.tiles[inside])
            inside++;
        if (inside > s->needs.items[n].shared && fits > s->needs.items[n].shared)
            fits = s->needs.items[n].shared;
    }
    return fits;
}

// The ready op that fits deepest; the first of several, those that open no further loop before
// those that do.
static uint32_t pick(const scheduler *s, uint32_t first, uint32_t *out_fits)
{
    uint32_t best = SPYRE_NO_ID, score = 0;
    for (uint32_t i = first; i < s->count; i++) {
        const tile_path *path = path_of(s, i);
        bool inside = s->open.depth && path->depth && path->level[0].scope == s->open_scope[0];
        if (s->done[i] || (best != SPYRE_NO_ID && !inside) || !is_ready(s, i)) continue;
        uint32_t fits = inside ? fit(s, i) : 0;
        uint32_t now = 1 + 2 * fits + (fits && fits == path->depth);
        if (now <= score) continue;
        best = i;
        score = now;
        *out_fits = fits;
        if (!s->open.depth) break;
    }
    return best;
}

static bool has_scope(const tile_path *path, int64_t scope)
{
    for (uint32_t l = 0; l < path->depth; l++)
        if (path->level[l].scope == scope) return true;
    return false;
}

// Marks what the ops of the scope that are not done need.
static void mark_wanted(scheduler *s, int64_t scope)
{
    for (uint32_t i = s->count; i-- > 0;) s->wanted[i] = has_scope(path_of(s, i), scope);
    for (uint32_t i = s->count; i-- > 0;) {
        if (!s->wanted[i] || s->done[i]) continue;
        for (uint32_t n = s->first_need[i]; n < s->first_need[i + 1]; n++)
            s->wanted[s->needs.items[n].writer] = true;
    }
}

// An op outside of a loop that `chosen` would open that can go before it and is needed in it; else
// `chosen`.
static uint32_t before_loops(scheduler *s, uint32_t chosen, uint32_t *fits)
{
    const tile_path *path = path_of(s, chosen);
    for (uint32_t l = *fits; l < path->depth; l++) {
        mark_wanted(s, path->level[l].scope);
        for (uint32_t i = 0; i < s->count; i++) {
            if (!s->wanted[i] || has_scope(path_of(s, i), path->level[l].scope)) continue;
            if (!is_ready(s, i) || fit(s, i) < *fits) continue;
            *fits = fit(s, i);
            return i;
        }
    }
    return chosen;
}

// --- Scopes whose ops cannot follow each other

static const char *name_of(const scheduler *s, uint32_t op)
{
    return loop_op_place(s->t->loops, op);
}

// An op outside of a scope that needs another one of the scope.
typedef struct {
    uint32_t op, before;
} gap;

// Finds a gap between op and another one of the user's scope that is done; `between` is the first
// op outside. `wanted` marks the ops that were looked at.
static bool find_between(scheduler *s, uint32_t op, int64_t scope, bool outside,
                         uint32_t between, gap *out)
{
    for (uint32_t n = s->first_need[op]; n < s->first_need[op + 1]; n++) {
        uint32_t writer = s->needs.items[n].writer;
        bool in = tile_in_scope(s->t->loops, op_at(s, writer), scope);
        if (s->wanted[writer]) continue;
        s->wanted[writer] = outside || !in;
        if (outside && in && has_scope(path_of(s, writer), scope)) {
            *out = (gap){between, writer};
            return true;
        }
        if (!outside && in) continue;
        if (find_between(s, writer, scope, true, outside ? between : writer, out)) return true;
    }
    return false;
}

static spyre_status check_reopening(scheduler *s, uint32_t op, int64_t scope)
{
    gap found;
    bool again = false;
    for (uint32_t i = 0; i < s->opened.count; i++) again |= s->opened.items[i] == scope;
    for (uint32_t i = 0; i < s->count; i++) s->wanted[i] = false;
    if (!again) return VEC_PUSH(s->t->loops->memory, &s->opened, scope);
    if (scope < 0 || !find_between(s, op, scope, false, SPYRE_NO_ID, &found)) return NULL;
    *s->t->loops->at_node = SPYRE_NO_ID;
    return status_new(SPYRE_UNSUPPORTED,
                      "scope %" PRId64 " of tiles is not one piece: %s of it needs %s, which is "
                      "outside and needs %s of it; ops of a scope must follow each other",
                      scope, name_of(s, op), name_of(s, found.op), name_of(s, found.before));
}

// --- Putting ops

// A partial result is that of its iteration: what reads it must be inside of the same loops; what
// has to come behind the op for another reason need not.
static spyre_status check_parts(const scheduler *s, uint32_t op)
{
    for (uint32_t n = s->first_need[op]; n < s->first_need[op + 1]; n++) {
        const need *of = &s->needs.items[n];
        const loop_op *writer = op_at(s, of->writer);
        uint32_t output = writer->operand_count - 1, depth = s->nests[of->writer].depth;
        uint32_t result = writer->operand[output].buffer;
        if (s->t->whole_at.items[result] < LOOP_MAX_TILES) continue;
        if (!loop_reads(op_at(s, op), result)) continue;
        for (uint32_t l = 0; l < depth; l++) {
            if (tile_step(writer, path_of(s, of->writer), l, output)) continue;
            if (l < s->open.depth && s->open.tiles[l] == s->nests[of->writer].tiles[l]) continue;
            return status_new(SPYRE_INTERNAL, "%s: a partial result leaves its loop",
                              name_of(s, of->writer));
        }
    }
    return NULL;
}

static spyre_status put(scheduler *s, uint32_t op, uint32_t fits)
{
    loop_graph *loops = s->t->loops;
    const tile_path *path = path_of(s, op);
    s->open.depth = fits;
    for (uint32_t l = fits; l < path->depth; l++) {
        const tile_level *level = &path->level[l];
        TRY(check_reopening(s, op, level->scope));
        s->open_scope[l] = level->scope;
        s->open.tiles[l] = loops->tiles.count;
        s->open.depth++;
        loop_tiles tiles = {.count = level->count, .name = level->name};
        TRY(VEC_PUSH(loops->memory, &loops->tiles, tiles));
    }
    TRY(check_parts(s, op));
    s->nests[op] = s->open;
    s->done[op] = true;
    s->order[s->ordered++] = op;
    return NULL;
}

static spyre_status walk(scheduler *s)
{
    uint32_t first = 0;
    while (s->ordered < s->count) {
        uint32_t fits = 0, op = pick(s, first, &fits);
        if (op == SPYRE_NO_ID) return status_new(SPYRE_INTERNAL, "ops that need each other");
        for (uint32_t turn = 0; turn < MOST_TURNS && path_of(s, op)->depth > fits; turn++) {
            uint32_t other = before_loops(s, op, &fits);
            if (other == op) break;
            op = other;
        }
        *s->t->loops->at_node = op_at(s, op)->node;
        TRY(put(s, op, fits));
        while (first < s->count && s->done[first]) first++;
    }
    return NULL;
}

static spyre_status reorder(scheduler *s)
{
    loop_graph *loops = s->t->loops;
    loop_op_list ops = {0};
    tile_path_list paths = {0};
    for (uint32_t i = 0; i < s->count; i++) {
        loop_op op = *op_at(s, s->order[i]);
        const nest *n = &s->nests[s->order[i]];
        op.tile_depth = n->depth;
        for (uint32_t l = 0; l < n->depth; l++) op.tiles[l] = n->tiles[l];
        TRY(VEC_PUSH(loops->memory, &ops, op));
        TRY(VEC_PUSH(loops->memory, &paths, *path_of(s, s->order[i])));
    }
    loops->ops = ops;
    s->t->paths = paths;
    return NULL;
}

spyre_status tile_schedule(tiling *t)
{
    arena *memory = t->loops->memory;
    scheduler s = {.t = t, .count = t->loops->ops.count};
    TRY_NEW(memory, s.first_need, s.count + 1);
    TRY_NEW(memory, s.done, s.count);
    TRY_NEW(memory, s.wanted, s.count);
    TRY_NEW(memory, s.nests, s.count);
    TRY_NEW(memory, s.order, s.count);
    TRY(find_needs(&s));
    TRY(walk(&s));
    return reorder(&s);
}
