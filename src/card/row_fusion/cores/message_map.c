// SPDX-License-Identifier: Apache-2.0
//
// The messages of a kernel as one map from the LX of receivers to that of senders. Each message is
// a tile at both ends; which messages there are is nested like cores are:
//
//     32 cores of 8 rows each hand a value of each row to 4 cores, of which each takes 64 rows
//     received [8, 128 bytes] [8, 1024 bytes] [4, a core] [4, 4 cores]
//     sent     [8, 128 bytes] [8, a core]     [4, 0]      [4, 8 cores]
//
// What reads received elements then reads them where they were sent from: its rows and sticks are
// levels, too, cut where levels of the map end. That a message is a copy of what lay there when it
// was sent, and is gone once something else is written over it, is the search's to watch.
#include "card/row_fusion/cores/message_map.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    int64_t to, from;
} point;

static int by_target(const void *a, const void *b)
{
    const point *x = a, *y = b;
    return (x->to > y->to) - (x->to < y->to);
}

static bool alike(const isa_instruction *a, const isa_instruction *b)
{
    return a->dim_count == b->dim_count && a->operand[0].format == b->operand[0].format &&
           memcmp(a->extent, b->extent, a->dim_count * sizeof *a->extent) == 0 &&
           memcmp(a->operand[0].stride, b->operand[0].stride,
                  a->dim_count * sizeof *a->operand[0].stride) == 0;
}

// All messages are the same tiles at other places.
static bool are_alike(const message_copies *copies)
{
    const message_copy *one = &copies->list.items[0];
    const isa_instruction *sent = one->sent->instruction, *received = one->received->instruction;
    bool same = sent->operand[0].format == received->operand[0].format;
    for (uint32_t n = 1; n < copies->list.count && same; n++) {
        const message_copy *m = &copies->list.items[n];
        same = alike(sent, m->sent->instruction) && alike(received, m->received->instruction);
    }
    return same;
}

// By rising `to`; false without room.
static bool add_level(rows_messages *m, int64_t extent, int64_t to, int64_t from)
{
    uint32_t at = m->levels;
    if (extent == 1) return true;
    if (to <= 0 || m->levels == ROWS_MESSAGE_LEVELS) return false;
    for (m->levels++; at > 0 && m->level[at - 1].to > to; at--) m->level[at] = m->level[at - 1];
    m->level[at].extent = extent;
    m->level[at].to = to;
    m->level[at].from = from;
    return true;
}

// Levels that go on where the one below them ends become one with it. False when levels overlap.
static bool merge_levels(rows_messages *m)
{
    uint32_t kept = 0;
    for (uint32_t n = 0; n < m->levels; n++) {
        const int64_t extent = m->level[n].extent, to = m->level[n].to, from = m->level[n].from;
        if (kept > 0) {
            const int64_t below = m->level[kept - 1].extent;
            if (to < m->level[kept - 1].to * below) return false;
            if (to == m->level[kept - 1].to * below && from == m->level[kept - 1].from * below) {
                m->level[kept - 1].extent *= extent;
                continue;
            }
        }
        m->level[kept++] = m->level[n];
    }
    m->levels = kept;
    return kept == 0 || m->level[0].to >= (int64_t)spyre_format_bytes(m->format);
}

// Mostly they are listed so.
static void sort_points(point *points, uint32_t count)
{
    uint32_t n = 1;
    while (n < count && points[n - 1].to <= points[n].to) n++;
    if (n < count) qsort(points, count, sizeof *points, by_target);
}

static void list_points(const message_copies *copies, rows_messages *m, point *points)
{
    m->received = m->sent = RANGE_NONE;
    for (uint32_t core = 0; core < ISA_CORES; core++)
        for (uint32_t n = copies->first[core]; n < copies->first[core + 1]; n++) {
            const message_copy *c = &copies->list.items[n];
            const isa_operand *to = &c->received->instruction->operand[0];
            const isa_operand *from = &c->sent->instruction->operand[0];
            points[n].to = (int64_t)core * ISA_LX_BYTES + to->offset;
            points[n].from = (int64_t)c->sender * ISA_LX_BYTES + from->offset;
            range_add(&m->received, plan_range(c->received, 0));
            range_add(&m->sent, plan_range(c->sent, 0));
        }
}

static bool add_points(rows_messages *m, uint32_t count, const point *points)
{
    for (uint32_t block = 1, blocks; block < count; block *= blocks) {
        blocks = points_count_blocks(count, 2, &points->to, block);
        if (blocks < 2 || !add_level(m, blocks, points[block].to - points->to,
                                     points[block].from - points->from))
            return false;
    }
    return true;
}

// The dims of one end of a message, from the innermost on.
typedef struct {
    const isa_instruction *i;
    uint32_t dim;                           // the next one further out
    int64_t left, stride;                   // of the one inside of it
} dims;

// Comes to a dim of which something is left; false when there is none.
static bool next_dim(dims *d)
{
    while (d->left == 1 && d->dim > 0) {
        d->left = d->i->extent[--d->dim];
        d->stride = d->i->operand[0].stride[d->dim];
    }
    return d->left > 1;
}

static void move_on(dims *d, int64_t extent)
{
    d->left /= extent;
    d->stride *= extent;
}

// Both ends have the elements in one order: dims are cut where those of either end.
static bool add_dims(rows_messages *m, const message_copy *one)
{
    const isa_instruction *received = one->received->instruction, *sent = one->sent->instruction;
    dims to = {received, received->dim_count, 1, 0}, from = {sent, sent->dim_count, 1, 0};
    while (next_dim(&to) && next_dim(&from)) {
        const int64_t extent = to.left < from.left ? to.left : from.left;
        if (to.left % extent || from.left % extent) return false;
        if (!add_level(m, extent, to.stride, from.stride)) return false;
        move_on(&to, extent);
        move_on(&from, extent);
    }
    return to.left == 1 && !next_dim(&from);
}

spyre_status rows_map_messages(arena *scratch, const message_copies *copies, rows_messages *out,
                               bool *out_good)
{
    const uint32_t count = copies->list.count;
    *out = (rows_messages){0};
    *out_good = count > 0 && are_alike(copies);
    if (!*out_good) return NULL;
    point *points = ARENA_NEW(scratch, point, count);
    TRY_ALLOC(points);
    out->format = copies->list.items[0].sent->instruction->operand[0].format;
    list_points(copies, out, points);
    sort_points(points, count);
    out->to = points->to;
    out->from = points->from;
    *out_good = add_dims(out, &copies->list.items[0]) && add_points(out, count, points) &&
                merge_levels(out);
    return NULL;
}

bool rows_messages_turn(const rows_messages *m, rows_messages *out)
{
    *out = (rows_messages){.format = m->format, .to = m->from, .from = m->to,
                           .received = m->sent, .sent = m->received};
    for (uint32_t n = 0; n < m->levels; n++)
        if (!add_level(out, m->level[n].extent, m->level[n].from, m->level[n].to)) return false;
    return merge_levels(out);
}

// --- Receivers' places as the senders'

// The digits of a place, of which elements reach that are so many further on.
typedef struct {
    const rows_messages *m;
    int64_t digit[ROWS_MESSAGE_LEVELS];
} digits;

static bool begin(const rows_messages *m, int64_t offset, digits *d, int64_t *out)
{
    int64_t left = offset - m->to;
    *d = (digits){.m = m};
    *out = m->from;
    if (left < 0) return false;
    for (uint32_t n = m->levels; n-- > 0;) {
        d->digit[n] = left / m->level[n].to;
        left %= m->level[n].to;
        *out += d->digit[n] * m->level[n].from;
    }
    return left == 0;
}

static bool add_pieces(digits *d, int64_t extent, int64_t stride, nested_strides *out)
{
    const rows_messages *m = d->m;
    if (stride == 0) return nested_strides_add(out, extent, 0);
    while (extent > 1) {
        uint32_t n = m->levels;
        while (n > 0 && m->level[n - 1].to > stride) n--;
        if (n-- == 0 || stride % m->level[n].to) return false;
        const int64_t steps = stride / m->level[n].to, most = m->level[n].extent;
        int64_t piece = extent;
        if (steps >= most) return false;
        if ((extent - 1) * steps >= most) {
            piece = most / steps;
            if (most % steps || extent % piece) return false;
        }
        d->digit[n] += (piece - 1) * steps;
        if (!nested_strides_add(out, piece, steps * m->level[n].from)) return false;
        extent /= piece;
        stride *= piece;
    }
    return true;
}

static bool end(const digits *d)
{
    for (uint32_t n = 0; n < d->m->levels; n++)
        if (d->digit[n] >= d->m->level[n].extent) return false;
    return true;
}

bool rows_messages_offset(const rows_messages *m, int64_t offset, int64_t *out)
{
    digits d;
    return begin(m, offset, &d, out) && end(&d);
}

bool rows_messages_level(const rows_messages *m, int64_t extent, int64_t stride,
                         nested_strides *out)
{
    digits d = {.m = m};
    return add_pieces(&d, extent, stride, out);
}

static bool move_nest(digits *d, nested_strides *nest)
{
    nested_strides moved = {0};
    for (uint32_t n = 0; n < nest->levels; n++)
        if (!add_pieces(d, nest->extent[n], nest->stride[n], &moved)) return false;
    *nest = moved;
    return true;
}

// Elements at one stride, which still are.
static bool move_stride(digits *d, int64_t extent, int64_t *stride)
{
    nested_strides moved = {0};
    if (*stride == 0 || extent == 1) return true;
    if (*stride < 0 || !add_pieces(d, extent, *stride, &moved) || moved.levels != 1) return false;
    *stride = moved.stride[0];
    return true;
}

bool rows_messages_place(const rows_messages *m, int64_t lanes, int64_t lane, rows_place *place)
{
    digits d;
    int64_t moved = lane;
    return place->format == m->format && begin(m, place->offset, &d, &place->offset) &&
           move_stride(&d, lanes, &moved) && moved == lane &&
           move_stride(&d, 2, &place->upper) && move_nest(&d, &place->row) &&
           move_nest(&d, &place->stick) && end(&d);
}
