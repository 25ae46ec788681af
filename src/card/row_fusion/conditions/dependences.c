// SPDX-License-Identifier: Apache-2.0
//
// Dependences: whether tiles may be taken block of rows by block of rows, and streams stick by
// stick. Two accesses of different tiles, one of which writes, stay in order when they never
// overlap; when they are the same elements stick for stick; or when they are of one row each and
// rows keep apart:
//
//     sub lx+0 <- lx+0, lx+4096; sum lx+8192 <- lx+0      each stick of lx+0 is written, then read
//     max lx+4096 <- lx+0; sub lx+0 <- lx+0, lx+4096      a row's maximum is made before its sub
//
// Sums and constants are a kernel's own: each block fills them anew. Neither does it matter what a
// result overwrites that stays inside of the row fusion, nor what lies over it, nor what a tile
// between both overwrites.
#include "card/row_fusion/conditions/dependences.h"

#include <string.h>

#include "card/footprint/byte_set.h"
#include "card/row_fusion/cores/message_map.h"

typedef struct {
    const rows_tile *tile;
    const rows_access *access;
    bool writes;
} side;

// How much further parameters move b than a, each amount once: on most cores it is the same.
typedef struct {
    uint32_t count;
    int64_t bytes[ISA_CORES];
} distances;

static void find_distances(const plan_phase *first, const rows_place *a, const rows_place *b,
                           distances *out)
{
    const isa_kernel *x = first[a->kernel].kernel->source, *y = first[b->kernel].kernel->source;
    bool a_moves = a->space != ISA_SPACE_LX && a->slot != ISA_NO_SLOT;
    bool b_moves = b->space != ISA_SPACE_LX && b->slot != ISA_NO_SLOT;
    const bool same = x == y && a_moves == b_moves && a->slot == b->slot;
    const bool alike = same || (!a_moves && !b_moves);
    out->count = 0;
    for (uint32_t core = 0; core < ISA_CORES; core++) {
        if (!isa_is_active(x, core)) continue;
        int64_t low = a_moves ? isa_parameter(x, core, a->slot) : 0;
        int64_t high = b_moves ? isa_parameter(y, core, b->slot) : 0;
        if (!out->count || out->bytes[out->count - 1] != high - low)
            out->bytes[out->count++] = high - low;
        if (alike) return;
    }
}

// Of LX, the same bytes of a core. Arguments that are stored to are apart from all others where
// kernels run without a barrier.
static bool may_overlap(const rows_tile *a, uint32_t x, const rows_tile *b, uint32_t y)
{
    const rows_place *one = &a->operand[x].place, *other = &b->operand[y].place;
    if (one->space != other->space || one->arg != other->arg) return false;
    return one->space != ISA_SPACE_LX || ranges_overlap(rows_reach(a, x), rows_reach(b, y));
}

static bool was_sent(const side *s)
{
    return s->tile->sent[s->access - s->tile->operand];
}

static bool is_own(const side *s)
{
    return s->access->sums != ROWS_NONE || s->access->constant;
}

static bool is_stream(const side *s)
{
    return s->tile->role <= ROWS_REDUCES && s->access->sums == ROWS_NONE &&
           s->access->lane == spyre_format_bytes(s->access->place.format);
}

// From the first byte of a row to behind its last one.
static int64_t row_bytes(const side *s, uint32_t o)
{
    const bool whole = s->tile->role <= ROWS_REDUCES;
    int64_t element = spyre_format_bytes(s->tile->tile->instruction->operand[o].format);
    const int64_t lanes = s->access->lane ? SIMD_LANES / 2 - 1 : 0;
    const int64_t upper = whole ? s->access->place.upper : rows_second_run(s->access);
    byte_range row = {0, upper + lanes * s->access->lane + element};
    if (whole) nested_strides_reach(&s->access->place.stick, &row);
    return row.high;
}

// The loops that stay outside move both alike.
static bool moves_alike(const rows_place *a, const rows_place *b)
{
    return memcmp(a->outer, b->outer, sizeof a->outer) == 0;
}

static bool goes_up(const nested_strides *n)
{
    for (uint32_t level = 0; level < n->levels; level++)
        if (n->stride[level] < 0) return false;
    return true;
}

// `bytes` bytes at each index of both, and of two runs `upper` bytes apart, share none.
static bool nests_apart(const nested_strides *a, const nested_strides *b, int64_t upper,
                        int64_t bytes)
{
    int64_t extent[1 + 2 * NESTED_STRIDES_MOST_LEVELS] = {2},
                           stride[1 + 2 * NESTED_STRIDES_MOST_LEVELS] = {upper};
    uint32_t dims = nested_strides_dims(a, b ? 1 : 0, extent, stride);
    if (b) dims = nested_strides_dims(b, dims, extent, stride);
    return byte_runs_lie_apart(dims, extent, stride, bytes);
}

// No row of one touches another row of the other; where one of them is a stream, nor the same row.
static bool rows_apart(const side *a, const side *b, int64_t behind)
{
    const rows_access *x = a->access, *y = b->access;
    int64_t first = row_bytes(a, (uint32_t)(x - a->tile->operand));
    int64_t second = row_bytes(b, (uint32_t)(y - b->tile->operand));
    // Per-row values of the only row are taken in the order of the tiles.
    if (a->tile->rows == 1 && !is_stream(a) && !is_stream(b)) return true;
    if (!goes_up(&x->place.stick) || !goes_up(&y->place.stick)) return false;
    if (!nested_strides_equal(&x->place.row, &y->place.row) || x->lane < 0 || y->lane < 0)
        return false;
    if ((is_stream(a) || is_stream(b)) && behind < first && behind + second > 0) return false;
    int64_t low = behind < 0 ? behind : 0;
    int64_t high = first > behind + second ? first : behind + second;
    return nests_apart(&x->place.row, NULL, 0, high - low);
}

// No two rows of a stream at this place share a byte.
static bool stream_lies_apart(const rows_place *p)
{
    return nests_apart(&p->row, &p->stick, p->upper,
                       SIMD_LANES / 2 * (int64_t)spyre_format_bytes(p->format));
}

static bool places_alike(const rows_place *a, const rows_place *b)
{
    return a->format == b->format && a->upper == b->upper &&
           nested_strides_equal(&a->row, &b->row) && nested_strides_equal(&a->stick, &b->stick);
}

static bool in_order(const plan_phase *first, const side *a, const side *b)
{
    const rows_place *x = &a->access->place, *y = &b->access->place;
    distances apart;
    if (b->writes && a->tile != b->tile && b->tile->stays_inside) return true;
    // What a tile reads of messages is not where it would write.
    if (a->tile == b->tile && (was_sent(a) || was_sent(b)) && b->tile->stays_inside) return true;
    if (is_own(a) && is_own(b)) return true;
    find_distances(first, x, y, &apart);
    for (uint32_t n = 0; n < apart.count; n++) {
        if (!ranges_overlap(a->access->range, range_shifted(b->access->range, apart.bytes[n])))
            continue;
        int64_t behind = y->offset - x->offset + apart.bytes[n];
        bool same = is_stream(a) && is_stream(b) && behind == 0 && places_alike(x, y) &&
                    stream_lies_apart(x);
        if (is_own(a) || is_own(b) || !moves_alike(x, y)) return false;
        if (!same && !rows_apart(a, b, behind)) return false;
    }
    return true;
}

// The tile's result is all that is read there.
static bool writes_all(const plan_phase *first, const rows_tile *t, const side *read)
{
    const rows_access *written = &t->operand[0];
    const bool by_row = read->tile->role == ROWS_BY_ROW;
    const bool one = read->access->lane == 0 || (by_row && read->tile->lanes == 1);
    const bool lanes = by_row && t->role == ROWS_BY_ROW && t->lanes == read->tile->lanes &&
                       written->lane == read->access->lane;
    const bool all = one || lanes || (t->role == ROWS_STREAMS && is_stream(read));
    return all && written->sums == ROWS_NONE && !written->constant &&
           rows_same_place(first, &written->place, &read->access->place);
}

// A tile between a and b writes all that b reads there.
static bool is_replaced(const plan_phase *first, const rows_tile *a, const side *b)
{
    for (const rows_tile *t = a + 1; t < b->tile && !t->outer; t++)
        if (writes_all(first, t, b)) return true;
    return false;
}

// What a reads was written by an earlier tile whose result stays inside.
static bool reads_inside(const plan_phase *first, const rows_tile *tiles, const side *a)
{
    if (a->writes || is_own(a)) return false;
    for (const rows_tile *t = a->tile; t-- > tiles;)
        if (writes_all(first, t, a)) return t->stays_inside;
    return false;
}

// Both stand in a loop that becomes rows: an iteration of b comes before the next one of a.
static bool take_turns(const rows_tile *a, const rows_tile *b)
{
    const uint32_t outside = a->outer > a->cores ? a->outer : a->cores;
    return a->kernel == b->kernel && a->loops.depth > outside && b->loops.depth > outside;
}

// Stores over what is nowhere but inside of the row fusion, or was read before.
static bool lies_over(const plan_phase *first, const rows_tile *tiles, const side *a, const side *b)
{
    if (!b->writes || a->tile == b->tile) return false;
    if (a->writes) return a->tile->stays_inside;
    return !take_turns(a->tile, b->tile) && reads_inside(first, tiles, a);
}

bool rows_in_order(const plan_phase *first, const rows_tile *tiles, const rows_tile *a,
                   const rows_tile *b)
{
    const uint32_t operands = b->tile->instruction->operand_count;
    for (uint32_t x = 0; x < a->tile->instruction->operand_count; x++) {
        for (uint32_t y = 0; y < (x == 0 ? operands : 1); y++) {    // one of both writes
            if (!may_overlap(a, x, b, y)) continue;
            side one = {a, &a->operand[x], x == 0}, other = {b, &b->operand[y], y == 0};
            if (in_order(first, &one, &other) || lies_over(first, tiles, &one, &other)) continue;
            if (other.writes || !is_replaced(first, a, &other)) return false;
        }
    }
    return true;
}

bool rows_same_place(const plan_phase *first, const rows_place *a, const rows_place *b)
{
    distances apart;
    if (a->space != b->space || a->arg != b->arg || !places_alike(a, b) || !moves_alike(a, b))
        return false;
    find_distances(first, a, b, &apart);
    return apart.count == 1 && a->offset == b->offset + apart.bytes[0];
}

// --- Loops that go into blocks

// All bytes of row 0.
static byte_range row_of(const rows_place *p)
{
    byte_range row = {0, SIMD_LANES / 2 * (int64_t)spyre_format_bytes(p->format)};
    range_repeat(&row, p->upper, 2);
    nested_strides_reach(&p->stick, &row);
    return row;
}

// So many bytes at each row in each iteration share none.
static bool cells_apart(const row_fusion *c, uint32_t loops, const rows_place *p, int64_t bytes)
{
    int64_t extent[ISA_MAX_LOOPS + NESTED_STRIDES_MOST_LEVELS],
        stride[ISA_MAX_LOOPS + NESTED_STRIDES_MOST_LEVELS];
    for (uint32_t n = 0; n < loops; n++) {
        extent[n] = c->iterations[c->loops - loops + n];
        stride[n] = p->outer[c->loops - loops + n];
    }
    return byte_runs_lie_apart(nested_strides_dims(&p->row, loops, extent, stride), extent, stride,
                               bytes);
}

static bool iterations_apart(const row_fusion *c, const plan_phase *first, uint32_t loops,
                             const rows_step *s, const rows_step *other)
{
    const rows_place *x = &s->place, *y = &other->place;
    distances apart;
    if (x->space != y->space || x->arg != y->arg) return true;
    find_distances(first, x, y, &apart);
    for (uint32_t n = 0; n < apart.count; n++) {
        byte_range all = range_shifted(rows_step_range(c, other), apart.bytes[n]);
        if (!ranges_overlap(rows_step_range(c, s), all)) continue;
        if (!moves_alike(x, y) || !nested_strides_equal(&x->row, &y->row)) return false;
        byte_range cell = row_of(x);
        range_add(&cell, range_shifted(row_of(y), y->offset - x->offset + apart.bytes[n]));
        if (!cells_apart(c, loops, x, cell.high - cell.low)) return false;
    }
    return true;
}

bool rows_loops_turn(const row_fusion *c, const plan_phase *first, uint32_t loops)
{
    for (uint32_t n = 0; n < c->steps.count; n++)
        for (uint32_t other = 0; other < c->steps.count; other++)
            if (vector_stores(c->steps.items[n].op) &&
                vector_takes_elements(c->steps.items[other].op) &&
                !iterations_apart(c, first, loops, &c->steps.items[n], &c->steps.items[other]))
                return false;
    return true;
}

bool rows_divides(const row_fusion *c)
{
    if (c->loops) return false;
    for (uint32_t n = 0; n < c->steps.count; n++) {
        const rows_step *s = &c->steps.items[n];
        if (!vector_stores(s->op)) continue;
        if (!stream_lies_apart(&s->place)) return false;
    }
    return true;
}
