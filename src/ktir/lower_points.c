// SPDX-License-Identifier: Apache-2.0
//
// Tiles over sets that are no boxes: triangles, bands, every other row.
//
// The elements of such a tile are the points of its set in the tile's order, so its tensor is a
// flat row. Points that lie equally far apart along the innermost dim are a run; runs of one length
// and step, each the same distance behind the one before, are a block, which one instruction of two
// dims moves. Of the band -1 <= d0 - d1 <= 1 of 64 x 64 these are three: the first row has two
// points, 62 rows have three, the last has two.
#include <string.h>

#include "ktir/lower_access.h"

enum { MOST_POINTS = 1 << 22, MOST_BLOCKS = 1 << 12 };

typedef struct {
    int64_t first[KTIR_MOST_RANK];      // by dim of the set
    int64_t count, step;
} run;

typedef struct {
    run of;                             // the first one
    int64_t runs, apart[KTIR_MOST_RANK];
} block;

typedef struct {
    lowering *w;
    const ktir_op *op;
    isa_opcode opcode;
    const access *a;                    // its strides are by dim of the set
    const ktir_set *set;
    const lowered_tensor *t;
    int64_t least[KTIR_MOST_RANK], most[KTIR_MOST_RANK];
    bool moves;                         // else counts
    int64_t done, blocks;
    run run;
    block block;
} walk;

// --- Blocks

static spyre_status move_block(walk *k)
{
    const block *b = &k->block;
    const lowered_tensor *t = k->t;
    int64_t element = k->a->v.element, points = b->runs * b->of.count;
    uint32_t inner = k->a->permutation[k->a->rank - 1];
    access a = *k->a;
    lowered_tensor part = *t;
    if (!b->runs) return NULL;
    if (++k->blocks > MOST_BLOCKS)
        return LOWER_NO(k->w, a.op, "a set of more than %d blocks", MOST_BLOCKS);
    part.rank = a.rank = 2;
    part.offset += (k->done - points) * element;
    part.size[0] = b->runs;
    part.size[1] = b->of.count;
    part.stride[0] = b->of.count * element;
    part.stride[1] = element;
    a.stride[0] = 0;
    a.stride[1] = b->of.step * k->a->stride[inner];
    for (uint32_t d = 0; d < k->a->rank; d++) {
        a.stride[0] += b->apart[d] * k->a->stride[d];
        for (uint32_t c = 0; c < ISA_CORES; c++)
            a.address.at[c] += b->of.first[d] * k->a->stride[d];
    }
    if (a.v.in_lx) return place_move(k->w, k->op, k->opcode == ISA_LOAD, &a, &part);
    return access_move(k->w, k->op, k->opcode, &a, &part);
}

// Whether the run is where the block's next one would be.
static bool goes_on(const block *b, const run *r, uint32_t rank)
{
    bool same = b->runs && b->of.count == r->count && b->of.step == r->step;
    for (uint32_t d = 0; same && b->runs > 1 && d < rank; d++)
        same = r->first[d] == b->of.first[d] + b->runs * b->apart[d];
    return same;
}

static spyre_status end_run(walk *k)
{
    uint32_t rank = k->a->rank;
    run *r = &k->run;
    if (!r->count) return NULL;
    if (goes_on(&k->block, r, rank)) {
        for (uint32_t d = 0; k->block.runs == 1 && d < rank; d++)
            k->block.apart[d] = r->first[d] - k->block.of.first[d];
        k->block.runs++;
    } else {
        if (k->moves) TRY(move_block(k));
        k->block = (block){.of = *r, .runs = 1};
    }
    k->done += r->count;
    *r = (run){.count = 0};
    return NULL;
}

static spyre_status add_point(walk *k, const int64_t *point)
{
    uint32_t inner = k->a->permutation[k->a->rank - 1];
    run *r = &k->run;
    int64_t step = point[inner] - r->first[inner] - (r->count - 1) * r->step;
    if (r->count > 1 && step != r->step) TRY(end_run(k));
    if (r->count == 1) r->step = point[inner] - r->first[inner];
    if (!r->count) memcpy(r->first, point, sizeof r->first);
    r->count++;
    return NULL;
}

// --- Points

static spyre_status walk_dim(walk *k, uint32_t n, int64_t *point)
{
    uint32_t d = k->a->permutation[n];
    for (point[d] = k->least[d]; point[d] <= k->most[d]; point[d]++) {
        if (n + 1 < k->a->rank) TRY(walk_dim(k, n + 1, point));
        else if (ktir_set_holds(k->set, point)) TRY(add_point(k, point));
    }
    return n + 1 == k->a->rank ? end_run(k) : NULL;
}

static spyre_status walk_set(walk *k, bool moves)
{
    int64_t point[KTIR_MOST_RANK] = {0};
    k->moves = moves;
    k->done = 0;
    k->block.runs = 0;
    TRY(walk_dim(k, 0, point));
    return moves ? move_block(k) : NULL;
}

// As far as the points go, which a constraint may keep from where all bounds let them.
static void tighten(walk *k)
{
    uint32_t rank = k->a->rank;
    int64_t least[KTIR_MOST_RANK], most[KTIR_MOST_RANK], point[KTIR_MOST_RANK];
    memcpy(point, k->least, sizeof point);
    for (uint32_t d = 0; d < rank; d++) {
        least[d] = k->most[d];
        most[d] = k->least[d];
    }
    for (uint32_t n = rank; n > 0;) {
        for (uint32_t d = 0; d < rank && ktir_set_holds(k->set, point); d++) {
            if (point[d] < least[d]) least[d] = point[d];
            if (point[d] > most[d]) most[d] = point[d];
        }
        for (n = rank; n > 0 && ++point[n - 1] > k->most[n - 1]; n--)
            point[n - 1] = k->least[n - 1];
    }
    memcpy(k->least, least, sizeof least);
    memcpy(k->most, most, sizeof most);
}

static spyre_status find_bounds(walk *k)
{
    int64_t points = 1;
    if (!ktir_set_bounds(k->set, k->least, k->most))
        return LOWER_NO(k->w, k->a->op, "a set without bounds");
    for (uint32_t d = 0; d < k->a->rank; d++) {
        int64_t extent = k->most[d] - k->least[d] + 1;
        points = extent < 1 ? 0 : extent > MOST_POINTS ? MOST_POINTS + 1 : points * extent;
        if (points > MOST_POINTS)
            return LOWER_NO(k->w, k->a->op, "a set within more than %d points", MOST_POINTS);
    }
    if (points) tighten(k);
    return NULL;
}

// Dense, which the elements of a tile from memory are.
static spyre_status dense_of(lowering *w, const ktir_op *op, isa_opcode opcode,
                             const lowered_tensor *t, lowered_tensor *out)
{
    *out = *t;
    if (lower_is_dense(t)) return NULL;
    if (opcode == ISA_LOAD) return LOWER_NO(w, op, "a part of a set that is no box");
    TRY(lower_scratch(w, op, t->format, t->rank, t->size, lower_number(w, op), out));
    out->element = t->element;
    return lower_copy(w, op, out, t);
}

spyre_status access_move_points(lowering *w, const ktir_op *op, isa_opcode opcode, access *a,
                                const ktir_set *set, const lowered_tensor *t)
{
    lowered_tensor dense;
    int64_t wanted = 1;
    walk k = {.w = w, .op = op, .opcode = opcode, .a = a, .set = set, .t = &dense};
    TRY(find_bounds(&k));
    TRY(walk_set(&k, false));
    for (uint32_t d = 0; d < t->rank; d++) {
        wanted *= t->size[d];
        if (a->from[d]) return LOWER_NO(w, a->op, "a part of a set that is no box");
    }
    if (k.done != wanted)
        return ktir_error(w->m, op, SPYRE_DEVICE_FAULT, "the set has %s points than the tile's "
                          "%lld", k.done > wanted ? "more" : "fewer", (long long)wanted);
    if (!wanted) return NULL;
    TRY(dense_of(w, op, opcode, t, &dense));
    a->address = a->v.first;
    for (uint32_t d = 0; d < a->rank; d++) {
        lowered_index x;
        TRY(access_base(w, a, d, &x));
        TRY(access_check_bounds(w, a, &x, d, k.least[d], k.most[d]));
        a->stride[d] = a->v.stride[d] * a->v.element;
        access_advance(a, &x, a->stride[d], -a->v.origin[d]);
    }
    return walk_set(&k, true);
}
