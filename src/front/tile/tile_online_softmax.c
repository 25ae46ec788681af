// SPDX-License-Identifier: Apache-2.0
//
// Online softmax: sums over exp(x - max(x)) along a cut loop, which a softmax and attention are
// made of, in one pass over the tiles instead of one for the maximum and another for the sums. Each
// iteration takes the largest value so far, brings the sums so far to it, and adds those of its
// tile:
//
//     new = max(most, max(x)); shift = exp(most - new)
//     sum = sum * shift + sum(exp(x - new)); most = new
//
// What else needs exp(x - max(x)) computes it again, behind the loop. The largest value begins with
// the lowest finite number, so that a tile of -inf adds 0; a row of nothing else ends as 0 / 0 all
// the same. Source: Milakov and Gimelshein, "Online normalizer calculation for softmax",
// arXiv:1805.02867; for torch-spyre's carried values, docs/source/compiler/coarse_tiling_loops.md,
// "Sequential carry".
#include <string.h>

#include "front/tile/online_softmax_ops.h"

static const loop_buffer *buffer_at(const online_softmax *r, uint32_t id)
{
    return &r->t->loops->buffers.items[id];
}

// --- The order

static bool is_ours(const online_softmax *r, uint32_t index)
{
    return index == r->most || index == r->guard || index == r->shifted || index == r->power ||
           online_is_summed(r, index);
}

// Marks the ops that need a result of the pattern; false when the pattern needs one of theirs.
static bool mark_behind(const online_softmax *r, bool *behind, bool *tainted)
{
    for (uint32_t i = 0; i < r->t->loops->ops.count; i++) {
        const loop_op *op = online_op(r, i);
        for (uint32_t k = 0; k + 1 < op->operand_count; k++) {
            uint32_t buffer = op->operand[k].buffer;
            if (!tainted[buffer]) continue;
            bool made_here =
                def_use_is_written_once(&r->f, buffer) && is_ours(r, r->f.writer[buffer]);
            if (is_ours(r, i) && !made_here) return false;
            behind[i] = !is_ours(r, i);
        }
        tainted[online_result(r, i)] |= behind[i] || is_ours(r, i);
    }
    return true;
}

static spyre_status push(online_softmax *r, const loop_op *op, const tile_path *path)
{
    TRY(VEC_PUSH(r->t->loops->memory, &r->ops, *op));
    return VEC_PUSH(r->t->loops->memory, &r->paths, *path);
}

// target = func(a, b) inside of `depth` loops; b: LOOP_UNUSED for functions of one.
typedef struct {
    opfunc func;
    uint32_t target, depth, a, b;
} assignment;

// Adds it over the kept loops of reduction `like`.
static spyre_status add(online_softmax *r, uint32_t like, assignment of)
{
    tile_path path;
    loop_op op = tile_begin(online_op(r, like), online_path(r, like), of.func, of.target,
                            of.depth, &path);
    if (of.b != LOOP_UNUSED) tile_add_operand(&op, of.b, true);
    tile_add_operand(&op, of.a, buffer_at(r, of.a)->kind != LOOP_CONSTANT);
    return push(r, &op, &path);
}

// The largest value before any tile.
static spyre_status add_first(online_softmax *r, uint32_t lowest)
{
    if (r->guard == SPYRE_NO_ID)
        return add(r, r->most,
                   (assignment){OPFUNC_IDENTITY, r->kept, r->level, lowest, LOOP_UNUSED});
    loop_op op = *online_op(r, r->guard);
    uint32_t k = op.operand[1].buffer == online_result(r, r->most);
    op.operand[k] = (loop_access){.buffer = lowest};
    op.operand[2].buffer = r->kept;
    return push(r, &op, online_path(r, r->guard));
}

static spyre_status add_most(online_softmax *r)
{
    uint32_t like = online_result(r, r->most), part, lowest, gap, inside = r->level + 1;
    loop_op op = *online_op(r, r->most);
    tile_path path = *online_path(r, r->most);
    TRY(tile_add_buffer(r->t, like, LOOP_MAX_TILES, &part));
    TRY(tile_add_buffer(r->t, like, LOOP_MAX_TILES, &r->fresh));
    TRY(tile_add_buffer(r->t, like, LOOP_MAX_TILES, &gap));
    TRY(tile_add_buffer(r->t, like, LOOP_MAX_TILES, &r->change));
    TRY(tile_add_buffer(r->t, like, (uint8_t)r->level, &r->kept));
    TRY(tile_add_constant(r->t, r->lowest, like, &lowest));
    TRY(add_first(r, lowest));
    loop_output_of(&op)->buffer = part;
    path.combined = true;
    TRY(push(r, &op, &path));
    TRY(add(r, r->most, (assignment){OPFUNC_MAXIMUM, r->fresh, inside, r->kept, part}));
    TRY(add(r, r->most, (assignment){OPFUNC_SUB, gap, inside, r->kept, r->fresh}));
    return add(r, r->most, (assignment){OPFUNC_EXP, r->change, inside, gap, LOOP_UNUSED});
}

// exp(x - most) with another `most`; *out is its buffer.
static spyre_status add_power(online_softmax *r, uint32_t most, uint32_t *out)
{
    loop_op shifted = *online_op(r, r->shifted), power = *online_op(r, r->power);
    uint32_t between;
    TRY(tile_add_buffer(r->t, online_result(r, r->shifted), LOOP_MAX_TILES, &between));
    TRY(tile_add_buffer(r->t, online_result(r, r->power), LOOP_MAX_TILES, out));
    shifted.operand[1].buffer = most;
    shifted.operand[2].buffer = power.operand[0].buffer = between;
    power.operand[1].buffer = *out;
    TRY(push(r, &shifted, online_path(r, r->shifted)));
    return push(r, &power, online_path(r, r->power));
}

// sum = sum * change + the tile's, of exponentials in buffer `power`.
static spyre_status add_sum(online_softmax *r, uint32_t n, uint32_t power)
{
    uint32_t index = r->sums[n], result = online_result(r, index), sum = result;
    uint32_t part, scaled, zero, k = 0, v = 0;
    const loop_op *shifted = online_op(r, r->shifted);
    loop_op op = *online_op(r, index);
    tile_path path = *online_path(r, index), around;
    if (r->level > 0)
        TRY(tile_add_buffer(r->t, result, (uint8_t)r->level, &sum));
    else
        r->t->whole_at.items[result] = 0;
    r->held[n] = sum;
    TRY(tile_add_buffer(r->t, result, LOOP_MAX_TILES, &part));
    TRY(tile_add_buffer(r->t, result, LOOP_MAX_TILES, &scaled));
    TRY(tile_add_constant(r->t, 0, result, &zero));
    TRY(add(r, index, (assignment){OPFUNC_IDENTITY, sum, r->level, zero, LOOP_UNUSED}));
    while (op.operand[k].buffer != online_result(r, r->power)) k++;
    op.operand[k].buffer = power;
    loop_output_of(&op)->buffer = part;
    path.combined = true;
    TRY(push(r, &op, &path));
    loop_op scale = tile_begin(&op, &path, OPFUNC_MUL, scaled, r->level + 1, &around);
    tile_add_operand(&scale, r->change, false);
    scale.operand[0].offset = shifted->operand[1].offset;
    for (uint32_t u = 0; u < op.var_count; u++) {
        if (!loop_output_of(&op)->stride[u]) continue;
        int walked = op.operand[k].stride[u] ? online_loop(r, index, k, u) : ONLINE_NO_LOOP;
        scale.operand[0].stride[v++] =
            walked == ONLINE_NO_LOOP ? 0 : shifted->operand[1].stride[walked];
    }
    tile_add_operand(&scale, sum, true);
    TRY(push(r, &scale, &around));
    return add(r, index, (assignment){OPFUNC_ADD, sum, r->level + 1, scaled, part});
}

static spyre_status add_pass(online_softmax *r)
{
    uint32_t power;
    TRY(add_most(r));
    TRY(add_power(r, r->fresh, &power));
    for (uint32_t n = 0; n < r->sum_count; n++) TRY(add_sum(r, n, power));
    assignment kept = {OPFUNC_IDENTITY, r->kept, r->level + 1, r->fresh, LOOP_UNUSED};
    TRY(add(r, r->most, kept));
    for (uint32_t n = 0; n < r->sum_count && r->level > 0; n++)
        TRY(add(r, r->sums[n],
                (assignment){OPFUNC_IDENTITY, online_result(r, r->sums[n]), r->level,
                             r->held[n], LOOP_UNUSED}));
    if (r->guard == SPYRE_NO_ID) return NULL;
    uint32_t largest = online_result(r, r->guard);
    if (def_use_use_count(&r->f, largest) == 1 && buffer_at(r, largest)->output < 0) return NULL;
    return add(r, r->most,
               (assignment){OPFUNC_IDENTITY, largest, r->level, r->kept, LOOP_UNUSED});
}

// The shift and its exponential, for those who read them besides the pattern.
static spyre_status add_originals(online_softmax *r)
{
    loop_op shifted = *online_op(r, r->shifted);
    uint32_t powers = online_result(r, r->power), gaps = online_result(r, r->shifted);
    bool power = def_use_use_count(&r->f, powers) > r->sum_count;
    bool shift = power || def_use_use_count(&r->f, gaps) > 1;
    shifted.operand[1].buffer = r->kept;
    if (shift) TRY(push(r, &shifted, online_path(r, r->shifted)));
    return power ? push(r, online_op(r, r->power), online_path(r, r->power)) : NULL;
}

// True when the operands of the new ops lie as element-wise ops need them.
static bool lies_well(const online_softmax *r)
{
    for (uint32_t i = 0; i < r->ops.count; i++) {
        const loop_op *op = &r->ops.items[i];
        if (opfunc_reduces(op->op)) continue;
        for (uint32_t k = 0; k < op->operand_count; k++) {
            const loop_access *access = &op->operand[k];
            loop_location place;
            bool along = op->stick != LOOP_NO_DIM && access->stride[op->stick];
            if (loop_locate(r->t->loops, op, access, &place)) return false;
            if (place.stick_var != (along ? op->stick : LOOP_NO_DIM)) return false;
        }
    }
    return true;
}

static spyre_status rewrite(online_softmax *r, bool *out_done)
{
    loop_graph *loops = r->t->loops;
    uint32_t count = loops->ops.count;
    bool *behind = ARENA_NEW(loops->memory, bool, count);
    bool *tainted = ARENA_NEW(loops->memory, bool, loops->buffers.count);
    TRY_ALLOC(behind);
    TRY_ALLOC(tainted);
    if (!mark_behind(r, behind, tainted)) return NULL;
    TRY(add_pass(r));
    *out_done = lies_well(r);
    if (!*out_done) {
        for (uint32_t n = 0; n < r->sum_count; n++)
            r->t->whole_at.items[online_result(r, r->sums[n])] = LOOP_MAX_TILES;
        return NULL;
    }
    online_softmax whole = *r;
    memset(&whole.ops, 0, sizeof whole.ops);
    memset(&whole.paths, 0, sizeof whole.paths);
    for (uint32_t i = 0; i < count; i++)
        if (!behind[i] && !is_ours(r, i))
            TRY(push(&whole, online_op(r, i), online_path(r, i)));
    for (uint32_t i = 0; i < r->ops.count; i++)
        TRY(push(&whole, &r->ops.items[i], &r->paths.items[i]));
    TRY(add_originals(&whole));
    for (uint32_t i = 0; i < count; i++)
        if (behind[i]) TRY(push(&whole, online_op(r, i), online_path(r, i)));
    loops->ops = whole.ops;
    r->t->paths = whole.paths;
    return NULL;
}

spyre_status tile_online_softmax(tiling *t)
{
    bool found = false;
    for (uint32_t i = 0; i < t->loops->ops.count; i = found ? 0 : i + 1) {
        online_softmax r = {.t = t, .most = i, .guard = SPYRE_NO_ID};
        found = false;
        if (t->loops->ops.items[i].op != OPFUNC_MAX || t->paths.items[i].depth == 0) continue;
        TRY(def_use_build(t->loops, &r.f));
        if (online_find(&r)) TRY(rewrite(&r, &found));
    }
    return NULL;
}
