// SPDX-License-Identifier: Apache-2.0
//
// Rows that an index names: GATHER and SCATTER. Either a row is one along a run, and is
// moved as a whole, or each element of a run is of a row of its own: then the offsets of these are
// computed first, in a loop of their own, and kept as long as the runs that follow name the same.
// tile_gather_lines.c copies the line that such elements are taken from, where that is worth it.
#include <string.h>

#include "base/target_clones.h"
#include "card/tile/row_offsets.h"
#include "card/tile/runs.h"
#include "tensor/convert.h"

enum { ROWS_AHEAD = 32 };

BASE_CLONES
static void apart_offsets(int64_t *out, const uint8_t *rows, int64_t row_stride, int64_t count)
{
    for (int64_t n = 0; n < count; n++) {
        int32_t row;
        memcpy(&row, rows + n * (int64_t)sizeof row, sizeof row);
        out[n] = row * row_stride;
    }
}

// Of rows that share sticks, a power of two of them.
BASE_CLONES
static void lane_offsets(int64_t *out, const uint8_t *rows, int64_t row_stride, uint32_t lanes,
                         int64_t element, int64_t count)
{
    const int shift = __builtin_ctz(lanes);
    for (int64_t n = 0; n < count; n++) {
        int32_t row;
        memcpy(&row, rows + n * (int64_t)sizeof row, sizeof row);
        out[n] = (row >> shift) * row_stride + (row & (int32_t)(lanes - 1)) * element;
    }
}

void row_offsets_find(row_offsets *o, const plan_tile *tile, const uint8_t *rows, int64_t count)
{
    const isa_instruction *i = tile->instruction;
    int64_t stride = run_stride(tile, 2);
    uint32_t lanes = i->row_lanes;
    if (o->of == rows && o->count == count) return;
    o->of = rows;
    o->count = count;
    if (stride == sizeof(int32_t) && lanes == 0) {
        apart_offsets(o->offset, rows, i->row_stride, count);
    } else if (stride == sizeof(int32_t) && (lanes & (lanes - 1)) == 0) {
        int64_t element = spyre_format_bytes(i->operand[isa_row_operand(i->opcode)].format);
        lane_offsets(o->offset, rows, i->row_stride, lanes, element, count);
    } else {
        for (int64_t n = 0; n < count; n++) {
            int32_t row;
            memcpy(&row, rows + n * stride, sizeof row);
            o->offset[n] = isa_row_offset(i, row);
        }
    }
}

// --- Elements, each of its own row

#define MOVE_ELEMENTS(type)                                                                     \
    static void gather_##type(uint8_t *to, int64_t to_stride, const uint8_t *from,              \
                              int64_t from_stride, const int64_t *offset, int64_t count)        \
    {                                                                                           \
        for (int64_t n = 0; n < count; n++) {                                                   \
            type value;                                                                         \
            memcpy(&value, from + n * from_stride + offset[n], sizeof value);                   \
            memcpy(to + n * to_stride, &value, sizeof value);                                   \
        }                                                                                       \
    }                                                                                           \
    static void scatter_##type(uint8_t *to, int64_t to_stride, const uint8_t *from,             \
                               int64_t from_stride, const int64_t *offset, int64_t count)       \
    {                                                                                           \
        for (int64_t n = 0; n < count; n++) {                                                   \
            type value;                                                                         \
            memcpy(&value, from + n * from_stride, sizeof value);                               \
            memcpy(to + n * to_stride + offset[n], &value, sizeof value);                       \
        }                                                                                       \
    }
MOVE_ELEMENTS(uint8_t)
MOVE_ELEMENTS(uint16_t)
MOVE_ELEMENTS(uint32_t)
MOVE_ELEMENTS(uint64_t)

typedef void move_elements(uint8_t *to, int64_t to_stride, const uint8_t *from,
                           int64_t from_stride, const int64_t *offset, int64_t count);

static move_elements *mover_of(const isa_instruction *i)
{
    bool gathers = i->opcode == ISA_GATHER;
    switch (spyre_format_bytes(i->operand[0].format)) {
    case 1: return gathers ? gather_uint8_t : scatter_uint8_t;
    case 2: return gathers ? gather_uint16_t : scatter_uint16_t;
    case 4: return gathers ? gather_uint32_t : scatter_uint32_t;
    case 8: return gathers ? gather_uint64_t : scatter_uint64_t;
    default: return NULL;
    }
}

static void run_elements(const plan_tile *tile, uint8_t *const *address, plan_scratch *scratch)
{
    move_elements *move = mover_of(tile->instruction);
    (void)scratch;
    int64_t to = run_stride(tile, 0), from = run_stride(tile, 1), rows = run_stride(tile, 2);
    row_offsets o = {.of = NULL};
    runs r;
    first_run(&r, tile, address, 1);
    do {
        for (int64_t done = 0, count; done < run_length(tile); done += count) {
            count = run_length(tile) - done < ROW_OFFSETS ? run_length(tile) - done : ROW_OFFSETS;
            row_offsets_find(&o, tile, r.at[2] + done * rows, count);
            move(r.at[0] + done * to, to, r.at[1] + done * from, from, o.offset, count);
        }
    } while (next_run(&r));
}

// --- Rows, each as a whole

// Rows on their way. Those that are named lie anywhere, so the host is told of each some rows
// before it is moved, however short the dims are along which they follow each other. They are moved
// in order.
typedef struct {
    const plan_tile *tile;
    uint32_t table, element;                // operand whose rows are named; bytes of an element
    bool sticks;                            // each row is a whole stick
    bool streams;                           // past the host's caches
    uint32_t count;
    uint8_t *to[2][ROWS_AHEAD];             // of this batch and the one before
    const uint8_t *from[2][ROWS_AHEAD];
} row_moves;

BASE_CLONES
static void move_sticks(uint8_t *const *to, const uint8_t *const *from, uint32_t count)
{
    for (uint32_t n = 0; n < count; n++) memcpy(to[n], from[n], SPYRE_STICK_BYTES);
}

static void move_rows(const row_moves *m, uint32_t batch, uint32_t count)
{
    const plan_tile *tile = m->tile;
    for (uint32_t n = 0; m->streams && n < count; n++)
        convert_stream_lines(m->to[batch][n], 0, m->from[batch][n], 0, 1,
                             (size_t)run_length(tile) * m->element);
    if (m->streams) return;
    if (m->sticks) {
        move_sticks(m->to[batch], m->from[batch], count);
        return;
    }
    for (uint32_t n = 0; n < count; n++)
        copy_elements(m->to[batch][n], run_stride(tile, 0), m->from[batch][n], run_stride(tile, 1),
                      run_length(tile), m->element);
}

// Moves the batch before where this one is full.
static inline void add_row_move(row_moves *m, uint8_t *to, const uint8_t *from)
{
    const uint32_t batch = m->count / ROWS_AHEAD % 2, at = m->count % ROWS_AHEAD;
    m->to[batch][at] = to;
    m->from[batch][at] = from;
    announce(m->table == 0 ? to : from);
    m->count++;
    if (at == ROWS_AHEAD - 1 && m->count > ROWS_AHEAD) move_rows(m, 1 - batch, ROWS_AHEAD);
}

static void finish_row_moves(const row_moves *m)
{
    const uint32_t full = m->count / ROWS_AHEAD, rest = m->count % ROWS_AHEAD;
    if (full) move_rows(m, (full - 1) % 2, ROWS_AHEAD);
    move_rows(m, full % 2, rest);
}

// All rows along the dim around the innermost one.
static void add_row_moves(row_moves *m, const runs *r)
{
    const isa_instruction *i = m->tile->instruction;
    int64_t step[3], rows = outer_extent(m->tile, 1);
    for (uint32_t o = 0; o < 3; o++) step[o] = outer_stride(m->tile, 1, o);
    for (int64_t n = 0; n < rows; n++) {
        int32_t row;
        memcpy(&row, r->at[2] + n * step[2], sizeof row);
        uint8_t *at[2] = {r->at[0] + n * step[0], r->at[1] + n * step[1]};
        at[m->table] += i->row_lanes ? isa_row_offset(i, row) : row * i->row_stride;
        add_row_move(m, at[0], at[1]);
    }
}

static void run_rows(const plan_tile *tile, uint8_t *const *address, plan_scratch *scratch)
{
    (void)scratch;
    const isa_instruction *i = tile->instruction;
    row_moves m = {tile, isa_row_operand(i->opcode), spyre_format_bytes(i->operand[0].format),
                   .count = 0};
    m.sticks = run_stride(tile, 0) == m.element && run_stride(tile, 1) == m.element &&
               run_length(tile) * m.element == SPYRE_STICK_BYTES;
    m.streams = i->opcode == ISA_GATHER && run_stride(tile, 0) == m.element &&
                run_stride(tile, 1) == m.element && runs_stream(tile, address[0]);
    runs r;
    first_run(&r, tile, address, 2);
    do add_row_moves(&m, &r);
    while (next_run(&r));
    finish_row_moves(&m);
    if (m.streams) convert_stream_end();
}

// A gather could read an index that it has written: then its order matters.
plan_executor tile_gather(const plan_tile *tile)
{
    const isa_instruction *i = tile->instruction;
    if (tile_gathers_lines(tile)) return (plan_executor){tile_gather_lines, NEEDS_APART};
    plan_run *elements = mover_of(i) ? run_elements : exact_run;
    return (plan_executor){run_stride(tile, 2) == 0 ? run_rows : elements,
                           i->opcode == ISA_GATHER ? NEEDS_INDEX_APART : 0};
}
