// SPDX-License-Identifier: Apache-2.0
//
// Rows that an index names: GATHER, SCATTER and SCATTERADD. Either a row is one along a run, and is
// moved as a whole, or each element of a run is of a row of its own: then the offsets of these are
// computed first, in a loop of their own, and kept as long as the runs that follow name the same.
#include <string.h>

#include "base/clones.h"
#include "card/tile/runs.h"

enum { OFFSETS = 1024 };

// Offsets of the rows of one run, or of a part of it.
typedef struct {
    const uint8_t *of;                      // the index that they were computed from; null: none
    int64_t count;
    int64_t offset[OFFSETS];
} row_offsets;

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

static void find_offsets(row_offsets *o, const plan_tile *tile, const uint8_t *rows, int64_t count)
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

// A gather could read an index that it has written: then its order matters.
static bool index_stays(const plan_tile *tile, uint8_t *const *address)
{
    return tile->instruction->opcode != ISA_GATHER || runs_disjoint(tile, address, 0, 2);
}

static void run_elements(const plan_tile *tile, uint8_t *const *address, plan_scratch *scratch)
{
    move_elements *move = mover_of(tile->instruction);
    if (!move || !index_stays(tile, address)) {
        exact_run(tile, address, scratch);
        return;
    }
    int64_t to = run_stride(tile, 0), from = run_stride(tile, 1), rows = run_stride(tile, 2);
    row_offsets o = {.of = NULL};
    runs r;
    first_run(&r, tile, address, 1);
    do {
        for (int64_t done = 0, count; done < run_length(tile); done += count) {
            count = run_length(tile) - done < OFFSETS ? run_length(tile) - done : OFFSETS;
            find_offsets(&o, tile, r.at[2] + done * rows, count);
            move(r.at[0] + done * to, to, r.at[1] + done * from, from, o.offset, count);
        }
    } while (next_run(&r));
}

// --- Rows, each as a whole

// Rows of one stick; those that are named lie anywhere, so the host is told of them in time.
static void copy_sticks(uint8_t *const *at, const int64_t *step, uint32_t table, int64_t row_stride,
                        int64_t rows)
{
    enum { AHEAD = 16 };
    const uint8_t *names = at[2];
    for (int64_t n = 0; n < rows; n++, names += step[2]) {
        int32_t row, later;
        memcpy(&row, names, sizeof row);
        memcpy(&later, names + (rows - n > AHEAD ? AHEAD * step[2] : 0), sizeof later);
        uint8_t *moved[2] = {at[0] + n * step[0], at[1] + n * step[1]};
        const uint8_t *next = moved[table] + later * row_stride;
        __builtin_prefetch(next);
        __builtin_prefetch(next + SPYRE_STICK_BYTES / 2);
        moved[table] += row * row_stride;
        memcpy(moved[0], moved[1], SPYRE_STICK_BYTES);
    }
}

// All rows along the dim around the innermost one. Operand `table` is the one whose rows are named.
static void copy_rows(const plan_tile *tile, const runs *r, uint32_t table)
{
    const isa_instruction *i = tile->instruction;
    uint32_t bytes = spyre_format_bytes(i->operand[0].format);
    int64_t to = run_stride(tile, 0), from = run_stride(tile, 1), count = run_length(tile);
    int64_t step[3], rows = outer_extent(tile, 1);
    for (uint32_t o = 0; o < 3; o++) step[o] = outer_stride(tile, 1, o);
    if (to == bytes && from == bytes && count * bytes == SPYRE_STICK_BYTES && i->row_lanes == 0) {
        copy_sticks(r->at, step, table, i->row_stride, rows);
        return;
    }
    for (int64_t n = 0; n < rows; n++) {
        int32_t row;
        memcpy(&row, r->at[2] + n * step[2], sizeof row);
        uint8_t *at[2] = {r->at[0] + n * step[0], r->at[1] + n * step[1]};
        at[table] += isa_row_offset(i, row);
        copy_elements(at[0], to, at[1], from, count, bytes);
    }
}

static void run_rows(const plan_tile *tile, uint8_t *const *address, plan_scratch *scratch)
{
    if (!index_stays(tile, address)) {
        exact_run(tile, address, scratch);
        return;
    }
    runs r;
    first_run(&r, tile, address, 2);
    do copy_rows(tile, &r, isa_row_operand(tile->instruction->opcode));
    while (next_run(&r));
}

plan_run *tile_rows(const plan_tile *tile)
{
    return run_stride(tile, 2) == 0 ? run_rows : run_elements;
}

// --- Sums

static void add_element(uint8_t *to, float value)
{
    float sum;
    memcpy(&sum, to, sizeof sum);
    sum += value;
    memcpy(to, &sum, sizeof sum);
}

// One row along the run.
static void add_row(uint8_t *to, int64_t stride, const float *values, size_t count)
{
    if (stride == (int64_t)sizeof(float) && (uintptr_t)to % sizeof(float) == 0) {
        lanes_combine(OPFUNC_SUM, (float *)(void *)to, values, count);
        return;
    }
    for (size_t n = 0; n < count; n++) add_element(to + (int64_t)n * stride, values[n]);
}

void tile_scatter_add(const plan_tile *tile, uint8_t *const *address, plan_scratch *scratch)
{
    spyre_format format = tile->instruction->operand[1].format;
    if (!lanes_fits_f32(format)) {
        exact_run(tile, address, scratch);
        return;
    }
    int64_t to = run_stride(tile, 0), from = run_stride(tile, 1), rows = run_stride(tile, 2);
    float values[LANES_CHUNK];
    row_offsets o = {.of = NULL};
    runs r;
    first_run(&r, tile, address, 1);
    do {
        for (int64_t done = 0; done < run_length(tile); done += LANES_CHUNK) {
            size_t count = chunk_length(run_length(tile) - done);
            uint8_t *at = r.at[0] + done * to;
            lanes_load_f32(values, r.at[1] + done * from, from, format, count);
            find_offsets(&o, tile, r.at[2] + done * rows, rows ? (int64_t)count : 1);
            if (rows == 0) add_row(at + o.offset[0], to, values, count);
            for (size_t n = 0; n < count && rows; n++)
                add_element(at + (int64_t)n * to + o.offset[n], values[n]);
        }
    } while (next_run(&r));
}
