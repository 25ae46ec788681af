// SPDX-License-Identifier: Apache-2.0
//
// Rows that an index names: GATHER, SCATTER and ACCUMULATE. Either a row is one along a run, and is
// moved as a whole, or each element of a run is of a row of its own: then the offsets of these are
// computed first, in a loop of their own, and kept as long as the runs that follow name the same.
#include <string.h>

#include "base/clones.h"
#include "card/tile/runs.h"
#include "tensor/accumulate.h"
#include "tensor/numeric.h"

enum { OFFSETS = 1024, ROWS_AHEAD = 32 };

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

// Rows on their way. Those that are named lie anywhere, so the host is told of each some rows
// before it is moved, however short the dims are along which they follow each other. They are moved
// in order.
typedef struct {
    const plan_tile *tile;
    uint32_t table, element;                // operand whose rows are named; bytes of an element
    bool sticks;                            // each row is a whole stick
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
    if (m->sticks) {
        move_sticks(m->to[batch], m->from[batch], count);
        return;
    }
    for (uint32_t n = 0; n < count; n++)
        copy_elements(m->to[batch][n], run_stride(tile, 0), m->from[batch][n], run_stride(tile, 1),
                      run_length(tile), m->element);
}

static inline void announce(const uint8_t *row)
{
    __builtin_prefetch(row);
    __builtin_prefetch(row + SPYRE_STICK_BYTES / 2);
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
    if (!index_stays(tile, address)) {
        exact_run(tile, address, scratch);
        return;
    }
    const isa_instruction *i = tile->instruction;
    row_moves m = {tile, isa_row_operand(i->opcode), spyre_format_bytes(i->operand[0].format),
                   .count = 0};
    m.sticks = run_stride(tile, 0) == m.element && run_stride(tile, 1) == m.element &&
               run_length(tile) * m.element == SPYRE_STICK_BYTES;
    runs r;
    first_run(&r, tile, address, 2);
    do add_row_moves(&m, &r);
    while (next_run(&r));
    finish_row_moves(&m);
}

plan_run *tile_gather(const plan_tile *tile)
{
    return run_stride(tile, 2) == 0 ? run_rows : run_elements;
}

// --- Rows that are joined to what is there

// Operand 0 along one run, from `done` on, where the values go.
typedef struct {
    opfunc op;
    spyre_format format;
    int64_t stride;
} joined_run;

// Extremes of SEN169_FP16, which has no NaN of its own, are one of both; without a branch, which
// no host foresees.
static void choose_elements(const joined_run *j, uint8_t *to, const int64_t *offset,
                            const float *values, size_t count)
{
    const bool raises = j->op == OPFUNC_MAX;
    for (size_t n = 0; n < count; n++) {
        uint8_t *at = to + (int64_t)n * j->stride + offset[n];
        uint16_t code;
        memcpy(&code, at, sizeof code);
        const float before = dl16_to_float(code), next = values[n];
        const bool stays = (raises & (before > next)) | (!raises & (before < next));
        const uint16_t mask = (uint16_t)-(int)stays;
        code = (uint16_t)((code & mask) | (dl16_from_float(next) & ~mask));
        memcpy(at, &code, sizeof code);
    }
}

static void join_elements(const joined_run *j, uint8_t *to, const int64_t *offset,
                          const float *values, size_t count)
{
    for (size_t n = 0; n < count; n++) {
        uint8_t *at = to + (int64_t)n * j->stride + offset[n];
        float before = (float)element_load(at, j->format);
        element_store(at, j->format, (double)opfunc_combine(j->op, before, values[n]));
    }
}

#define JOIN_FP32(name, combine)                                                                 \
    static void name(const joined_run *j, uint8_t *to, const int64_t *offset,                    \
                     const float *values, size_t count)                                          \
    {                                                                                            \
        for (size_t n = 0; n < count; n++) {                                                     \
            uint8_t *at = to + (int64_t)n * j->stride + offset[n];                               \
            float before;                                                                        \
            memcpy(&before, at, sizeof before);                                                  \
            before = (combine);                                                                  \
            memcpy(at, &before, sizeof before);                                                  \
        }                                                                                        \
    }
JOIN_FP32(add_elements, before + values[n])
JOIN_FP32(join_fp32, opfunc_combine(j->op, before, values[n]))

static void join_integers(const joined_run *j, uint8_t *to, const int64_t *offset,
                          const uint8_t *from, int64_t from_stride, size_t count)
{
    for (size_t n = 0; n < count; n++) {
        uint8_t *at = to + (int64_t)n * j->stride + (offset ? offset[n] : 0);
        accumulate_element(j->op, at, j->format, from + (int64_t)n * from_stride, j->format);
    }
}

// One row along the run, which no element of it leaves.
static void join_row(const joined_run *j, uint8_t *to, const float *values, size_t count)
{
    float before[LANES_CHUNK];
    if (j->format == SPYRE_FORMAT_IEEE_FP32 && j->stride == (int64_t)sizeof(float) &&
        (uintptr_t)to % sizeof(float) == 0) {
        lanes_combine(j->op, (float *)(void *)to, values, count);
        return;
    }
    lanes_load_f32(before, to, j->stride, j->format, count);
    lanes_combine(j->op, before, values, count);
    lanes_store_f32(to, j->stride, j->format, before, count);
}

static void join_floats(const joined_run *j, uint8_t *to, const row_offsets *o, bool whole_row,
                        const float *values, size_t count)
{
    if (whole_row && j->stride) join_row(j, to + o->offset[0], values, count);
    else if (j->format == SPYRE_FORMAT_SEN169_FP16 &&
             (j->op == OPFUNC_MAX || j->op == OPFUNC_MIN))
        choose_elements(j, to, o->offset, values, count);
    else if (j->format != SPYRE_FORMAT_IEEE_FP32) join_elements(j, to, o->offset, values, count);
    else if (j->op == OPFUNC_SUM) add_elements(j, to, o->offset, values, count);
    else join_fp32(j, to, o->offset, values, count);
}

// Rows that are named lie anywhere: the host is told of each some runs before it is changed.
typedef struct {
    runs at;
    bool more;
} runs_ahead;

static void fetch_next(runs_ahead *a)
{
    enum { LINE = 64, MOST_LINES = 4 };
    const plan_tile *tile = a->at.tile;
    const int64_t bytes = run_length(tile) * run_stride(tile, 0);
    int32_t row;
    if (!a->more) return;
    memcpy(&row, a->at.at[2], sizeof row);
    const uint8_t *to = a->at.at[0] + isa_row_offset(tile->instruction, row);
    for (int64_t at = 0; at < bytes && at < MOST_LINES * LINE; at += LINE)
        __builtin_prefetch(to + at, 1);
    a->more = next_run(&a->at);
}

static runs_ahead look_ahead(const plan_tile *tile, uint8_t *const *address, bool whole_rows)
{
    enum { RUNS_AHEAD = 12 };
    runs_ahead a = {.more = whole_rows};
    first_run(&a.at, tile, address, 1);
    for (uint32_t n = 0; n < RUNS_AHEAD; n++) fetch_next(&a);
    return a;
}

void tile_accumulate(const plan_tile *tile, uint8_t *const *address, plan_scratch *scratch)
{
    const isa_instruction *i = tile->instruction;
    spyre_format format = i->operand[1].format;
    bool integers = format == SPYRE_FORMAT_IEEE_INT32;
    joined_run j = {i->op, i->operand[0].format, run_stride(tile, 0)};
    bool fits = lanes_fits_f32(format) && lanes_fits_f32(j.format);
    int64_t from = run_stride(tile, 1), rows = run_stride(tile, 2);
    if (!integers && (!fits || (rows == 0 && j.stride == 0))) {
        exact_run(tile, address, scratch);
        return;
    }
    float values[LANES_CHUNK];
    row_offsets o = {.of = NULL};
    runs_ahead ahead = look_ahead(tile, address, rows == 0 && !integers);
    runs r;
    first_run(&r, tile, address, 1);
    do {
        fetch_next(&ahead);
        for (int64_t done = 0; done < run_length(tile); done += LANES_CHUNK) {
            size_t count = chunk_length(run_length(tile) - done);
            uint8_t *at = r.at[0] + done * j.stride;
            const uint8_t *element = r.at[1] + done * from;
            find_offsets(&o, tile, r.at[2] + done * rows, rows ? (int64_t)count : 1);
            if (integers) {
                join_integers(&j, rows ? at : at + o.offset[0], rows ? o.offset : NULL, element,
                              from, count);
                continue;
            }
            lanes_load_f32(values, element, from, format, count);
            join_floats(&j, at, &o, rows == 0, values, count);
        }
    } while (next_run(&r));
}
