// SPDX-License-Identifier: Apache-2.0
//
// Tiles over sets that are no boxes: triangles, bands, every other row.
//
// The elements of such a tile are the points of its set in the tile's order, so its tensor is a
// flat row. Points that lie equally far apart along the innermost dim, and side by side in the
// tensor, are a run; runs of one length and step, each the same distance behind the one before in
// the set and in the tensor, are a block, which one instruction of two dims moves. Of the band
// -1 <= d0 - d1 <= 1 of 64 x 64 these are three: the first row has two points, 62 rows have three,
// the last has two. So are runs that begin again after others: the rows of a checkerboard are two
// blocks, those of a hundred triangles of 64 rows are 64. Points of another part of memory, or of
// another slice of the tensor, end a run. Indices take no steps: of a tile with indices a block is
// moved as boxes.
#include <string.h>

#include "ktir/lower/access/lower_access.h"

enum { MOST_POINTS = 1 << 22, MOST_BLOCKS = 1 << 12, MOST_TRIED = 16 };

typedef struct {
    int64_t first[KTIR_MOST_RANK];      // by dim of the set
    int64_t at;                         // of the first point in the tensor
    int64_t count, step;
} run;

// The points of a set in the order of a tile, found once for all that move some of them.
struct lowered_points {
    const lowered_points *next;
    const ktir_set *set;
    uint32_t rank, permutation[KTIR_MOST_RANK];
    int64_t least[KTIR_MOST_RANK], most[KTIR_MOST_RANK];        // of the points
    int64_t count;
    VEC(run) runs;
};

typedef struct {
    run of;                             // the first one
    int64_t runs, apart[KTIR_MOST_RANK];
    int64_t at_apart;                   // in the tensor
} block;

typedef struct walk walk;
struct walk {
    lowering *w;
    const ktir_op *op;
    const access *a;                    // its strides are by dim of the set
    const lowered_points *points;
    const int64_t *base;                // or null: of a tile over several parts of memory, of which
                                        // a->v is one
    lowered_tensor t;
    int64_t begin, count;               // the points that t has
    spyre_status (*move)(walk *k);      // the block
    int64_t taken, blocks;
    block block;
    VEC(run) runs;                      // that t has, for the part of memory
};

// --- Blocks

static spyre_status move_strided(walk *k)
{
    const block *b = &k->block;
    int64_t element = k->a->v.element;
    uint32_t inner = k->a->permutation[k->a->rank - 1];
    access a = *k->a;
    lowered_tensor part = k->t;
    part.rank = a.rank = 2;
    part.offset += b->of.at * element;
    part.size[0] = b->runs;
    part.size[1] = b->of.count;
    part.stride[0] = b->at_apart * element;
    part.stride[1] = element;
    a.stride[0] = 0;
    a.stride[1] = b->of.step * k->a->stride[inner];
    for (uint32_t d = 0; d < k->a->rank; d++) {
        a.stride[0] += b->apart[d] * k->a->stride[d];
        for (uint32_t c = 0; c < ISA_CORES; c++)
            a.address.at[c] += b->of.first[d] * k->a->stride[d];
    }
    if (a.v.in_lx) return place_move(k->w, k->op, &a, &part);
    return access_move(k->w, k->op, &a, &part);
}

// So many runs, each one step along dim `outer` of the set behind the one before, as a box.
static spyre_status move_box(walk *k, const run *first, uint32_t outer, int64_t runs)
{
    const int64_t element = k->a->v.element;
    uint32_t rank = k->a->rank, inner = k->a->permutation[rank - 1];
    access a = *k->a;
    lowered_tensor part = k->t;
    a.box = first->first;
    part.rank = rank;
    part.offset += first->at * element;
    for (uint32_t n = 0; n < rank; n++) {
        uint32_t d = a.permutation[n];
        part.size[n] = d == inner ? first->count : d == outer ? runs : 1;
        part.stride[n] = (d == inner ? 1 : d == outer ? k->block.at_apart : 0) * element;
    }
    return access_move_box(k->w, k->op, &a, &part);
}

// The dim of the set that runs follow each other along in single steps; the rank: none.
static uint32_t outer_dim(const block *b, uint32_t rank, uint32_t inner)
{
    uint32_t outer = rank, moved = 0;
    for (uint32_t d = 0; d < rank; d++) {
        if (b->apart[d]) moved++;
        if (b->apart[d] == 1 && d != inner) outer = d;
    }
    return moved == 1 ? outer : rank;
}

static spyre_status move_boxes(walk *k)
{
    const block *b = &k->block;
    uint32_t rank = k->a->rank, inner = k->a->permutation[rank - 1];
    uint32_t outer = outer_dim(b, rank, inner);
    bool whole = b->of.count == 1 || b->of.step == 1;
    if (whole && b->runs > 1 && outer < rank) return move_box(k, &b->of, outer, b->runs);
    for (int64_t r = 0; r < b->runs; r++)
        for (int64_t n = 0; n < b->of.count; n += whole ? b->of.count : 1) {
            run one = b->of;
            for (uint32_t d = 0; d < rank; d++) one.first[d] += r * b->apart[d];
            one.first[inner] += n * b->of.step;
            one.at += r * b->at_apart + n;
            if (!whole) one.count = 1;
            if (++k->blocks > MOST_BLOCKS) break;
            TRY(move_box(k, &one, rank, 1));
        }
    return NULL;
}

// Whether two runs are as long, with the step, and `b` lies as far behind `a` as the block's runs
// behind each other.
static bool is_behind(const block *of, const run *a, const run *b, uint32_t rank)
{
    bool same = a->count == b->count && a->step == b->step && b->at - a->at == of->at_apart;
    for (uint32_t d = 0; same && d < rank; d++) same = b->first[d] - a->first[d] == of->apart[d];
    return same;
}

// The block of runs that begin with `first` and come again every `period` runs, together with those
// between: how often all of them do, one after the other.
static int64_t count_turns(const walk *k, uint32_t first, uint32_t period, block *out)
{
    const run *runs = k->runs.items, *last = &runs[first], *next = last + period;
    uint32_t done = first + period;
    *out = (block){.of = *last, .runs = 1, .at_apart = next->at - last->at};
    for (uint32_t d = 0; d < k->a->rank; d++) out->apart[d] = next->first[d] - last->first[d];
    while (done < k->runs.count &&
           is_behind(out, &runs[done - period], &runs[done], k->a->rank))
        done++;
    return (done - first) / period;
}

// After how many runs the first one comes again, so that most are saved; *out: the block that it
// begins, which is it alone where it does not.
static uint32_t find_period(const walk *k, uint32_t first, block *out)
{
    const run *of = &k->runs.items[first];
    const uint32_t left = k->runs.count - first;
    uint32_t period = 1, tried = 0;
    int64_t most = 0;
    *out = (block){.of = *of, .runs = 1};
    // A scatter takes its rows in their order.
    const uint32_t longest = k->a->opcode == ISA_SCATTER ? 1 : MOST_BLOCKS;
    for (uint32_t p = 1; p <= left / 2 && p <= longest && tried < MOST_TRIED; p++) {
        block turns;
        if (of[p].count != of->count || of[p].step != of->step) continue;
        const int64_t count = count_turns(k, first, p, &turns), saved = (count - 1) * p;
        tried++;
        if (saved <= most) continue;
        most = saved;
        period = p;
        *out = turns;
        out->runs = count;
    }
    return period;
}

static spyre_status move_runs(walk *k)
{
    for (uint32_t first = 0; first < k->runs.count;) {
        const uint32_t period = find_period(k, first, &k->block);
        for (uint32_t n = 0; n < period; n++) {
            k->block.of = k->runs.items[first + n];
            if (++k->blocks <= MOST_BLOCKS) TRY(k->move(k));
            if (k->blocks > MOST_BLOCKS)
                return LOWER_NO(k->w, k->a->op, "a set of more than %d blocks", MOST_BLOCKS);
        }
        first += period * (uint32_t)k->block.runs;
    }
    return NULL;
}

// Leaves points [low, high) of a run.
static void cut(run *r, uint32_t inner, int64_t low, int64_t high)
{
    if (high > r->count) high = r->count;
    if (low < 0) low = 0;
    r->first[inner] += low * r->step;
    r->at += low;
    r->count = high > low ? high - low : 0;
}

// What of a run lies in the part of memory.
static void cut_to_part(const walk *k, run *r)
{
    const view *v = &k->a->v;
    uint32_t inner = k->a->permutation[k->a->rank - 1];
    int64_t step = r->step > 0 ? r->step : 1;
    for (uint32_t d = 0; k->base && d < k->a->rank; d++) {
        int64_t at = k->base[d] + r->first[d] - v->origin[d], left = v->size[d] - at;
        if (d == inner) cut(r, inner, at < 0 ? (-at + step - 1) / step : 0,
                            left < 0 ? 0 : (left + step - 1) / step);
        else if (at < 0 || left <= 0) r->count = 0;
    }
}

static spyre_status walk_runs(walk *k, spyre_status (*move)(walk *k))
{
    uint32_t inner = k->a->permutation[k->a->rank - 1];
    k->move = move;
    k->runs.count = 0;
    for (uint32_t n = 0; n < k->points->runs.count; n++) {
        run r = k->points->runs.items[n];
        cut(&r, inner, k->begin - r.at, k->begin + k->count - r.at);
        r.at -= k->begin;
        cut_to_part(k, &r);
        if (!r.count) continue;
        k->taken += r.count;
        TRY(VEC_PUSH(k->w->memory, &k->runs, r));
    }
    return move_runs(k);
}

// --- Points

static spyre_status add_point(lowering *w, lowered_points *p, const int64_t *point, bool begins)
{
    uint32_t inner = p->permutation[p->rank - 1];
    run *last = p->runs.count ? &p->runs.items[p->runs.count - 1] : NULL;
    for (uint32_t d = 0; d < p->rank; d++) {
        if (point[d] < p->least[d]) p->least[d] = point[d];
        if (point[d] > p->most[d]) p->most[d] = point[d];
    }
    int64_t step = begins ? 0 : point[inner] - last->first[inner] - (last->count - 1) * last->step;
    if (begins || (last->count > 1 && step != last->step)) {
        run next = {.at = p->count++, .count = 1};
        memcpy(next.first, point, sizeof next.first);
        return VEC_PUSH(w->memory, &p->runs, next);
    }
    last->step = step;
    last->count++;
    p->count++;
    return NULL;
}

static spyre_status walk_dim(lowering *w, lowered_points *p, const int64_t *least,
                             const int64_t *most, uint32_t n, int64_t *point)
{
    uint32_t d = p->permutation[n];
    bool begins = true;
    for (point[d] = least[d]; point[d] <= most[d]; point[d]++) {
        if (n + 1 < p->rank) TRY(walk_dim(w, p, least, most, n + 1, point));
        else if (ktir_set_holds(p->set, point)) {
            TRY(add_point(w, p, point, begins));
            begins = false;
        }
    }
    return NULL;
}

static spyre_status walk_set(lowering *w, const ktir_op *op, lowered_points *p)
{
    int64_t least[KTIR_MOST_RANK], most[KTIR_MOST_RANK], point[KTIR_MOST_RANK] = {0}, points = 1;
    if (!ktir_set_bounds(p->set, least, most)) return LOWER_NO(w, op, "a set without bounds");
    for (uint32_t d = 0; d < p->rank; d++) {
        int64_t extent = most[d] - least[d] + 1;
        points = extent < 1 ? 0 : extent > MOST_POINTS ? MOST_POINTS + 1 : points * extent;
        if (points > MOST_POINTS)
            return LOWER_NO(w, op, "a set within more than %d points", MOST_POINTS);
        p->least[d] = most[d];
        p->most[d] = least[d];
    }
    return walk_dim(w, p, least, most, 0, point);
}

static spyre_status find_points(lowering *w, const access *a, const ktir_set *set,
                                const lowered_points **out)
{
    const size_t order = a->rank * sizeof *a->permutation;
    for (*out = w->points; *out; *out = (*out)->next)
        if ((*out)->set == set && !memcmp((*out)->permutation, a->permutation, order)) return NULL;
    lowered_points *p = ARENA_NEW(w->memory, lowered_points, 1);
    TRY_ALLOC(p);
    *p = (lowered_points){.next = w->points, .set = set, .rank = a->rank};
    memcpy(p->permutation, a->permutation, order);
    TRY(walk_set(w, a->op, p));
    *out = w->points = p;
    return NULL;
}

// Which of the points t has: a slice of a tensor is whole in its last dims, along one dim some of
// it, and 1 along those before.
static spyre_status find_slice(walk *k, const lowered_tensor *t, int64_t *out_all)
{
    const ktir_type *tile = ktir_result_type(k->w->m, k->a->op);
    bool is_whole = true;
    k->begin = 0;
    k->count = *out_all = 1;
    for (uint32_t d = 0; d < t->rank; d++) is_whole = is_whole && !k->a->from[d];
    for (uint32_t d = t->rank; d-- > 0;) {
        int64_t size = tile->size[d] == KTIR_DYNAMIC ? t->size[d] : tile->size[d];
        if (size != tile->size[d] && !is_whole)
            return LOWER_NO(k->w, k->a->op, "a slice of a set of unknown size");
        k->begin += k->a->from[d] * *out_all;
        k->count *= t->size[d];
        *out_all *= size;
    }
    return NULL;
}

// Dense, which the elements of a tile from memory are.
static spyre_status dense_of(walk *k, const lowered_tensor *t)
{
    k->t = *t;
    if (lower_is_dense(t)) return NULL;
    if (access_loads(k->a)) return LOWER_NO(k->w, k->op, "a part of a set that is no box");
    TRY(lower_scratch_like(k->w, k->op, t->format, t, &k->t));
    k->t.element = t->element;
    return lower_copy(k->w, k->op, &k->t, t);
}

static spyre_status begin_walk(walk *k, const lowered_tensor *t)
{
    int64_t all;
    TRY(find_points(k->w, k->a, access_set(k->w, k->a), &k->points));
    TRY(find_slice(k, t, &all));
    if (k->points->count != all)
        return ktir_error(k->w->m, k->op, SPYRE_DEVICE_FAULT, "the set has %s points than the "
                          "tile's %lld", k->points->count > all ? "more" : "fewer",
                          (long long)all);
    return k->count ? dense_of(k, t) : NULL;
}

// The points of every run are in the view's set.
static spyre_status check_runs(const walk *k, access_box *box)
{
    const uint32_t inner = k->a->permutation[k->a->rank - 1];
    for (uint32_t n = 0; k->a->v.set && n < k->points->runs.count; n++) {
        const run *r = &k->points->runs.items[n];
        memcpy(box->low, r->first, sizeof box->low);
        memcpy(box->high, r->first, sizeof box->high);
        for (uint32_t d = 0; d < k->a->rank; d++) box->step[d] = 1;
        if (r->count > 1) box->step[inner] = r->step;
        box->high[inner] += (r->count - 1) * r->step;
        TRY(access_check_set(k->w, k->a, box));
    }
    return NULL;
}

spyre_status access_move_points(lowering *w, const ktir_op *op, access *a, const lowered_tensor *t)
{
    const bool indirect = a->opcode == ISA_GATHER || a->opcode == ISA_SCATTER;
    walk k = {.w = w, .op = op, .a = a};
    TRY(begin_walk(&k, t));
    if (!k.count) return NULL;
    if (indirect) return walk_runs(&k, move_boxes);
    access_box box;
    a->address = a->v.first;
    for (uint32_t d = 0; d < a->rank; d++) {
        TRY(access_base(w, a, d, &box.base[d]));
        TRY(access_check_bounds(w, a, &box.base[d], d, k.points->least[d], k.points->most[d]));
        a->stride[d] = a->v.stride[d] * a->v.element;
        access_advance(a, &box.base[d], a->stride[d], -a->v.origin[d]);
    }
    TRY(check_runs(&k, &box));
    return walk_runs(&k, move_strided);
}

spyre_status access_move_points_in_part(lowering *w, const ktir_op *op, access *a,
                                        const int64_t *base, const lowered_tensor *t,
                                        int64_t *out_count)
{
    walk k = {.w = w, .op = op, .a = a, .base = base};
    *out_count = 0;
    TRY(begin_walk(&k, t));
    if (!k.count) return NULL;
    a->address = a->v.first;
    for (uint32_t d = 0; d < a->rank; d++) {
        a->stride[d] = a->v.stride[d] * a->v.element;
        for (uint32_t c = 0; c < ISA_CORES; c++)
            a->address.at[c] += (base[d] - a->v.origin[d]) * a->stride[d];
    }
    TRY(walk_runs(&k, move_strided));
    *out_count = k.taken;
    return NULL;
}
