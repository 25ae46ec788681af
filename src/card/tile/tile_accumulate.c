// SPDX-License-Identifier: Apache-2.0
//
// Elements that are joined to what is there, in the row that an index names (ACCUMULATE): each of a
// run to a row of its own, or whole rows, some of which are converted at a time. Their order is
// that of the index.
#include <string.h>

#include "base/target_clones.h"
#include "card/simd/simd.h"
#include "card/tile/row_offsets.h"
#include "card/tile/runs.h"
#include "tensor/accumulate.h"
#include "tensor/numeric.h"

enum { ROWS_AHEAD = 32 };

// Operand 0 along one run, from `done` on, where the values go.
typedef struct {
    opfunc op;
    spyre_format format;
    int64_t stride;
} joined_run;

// Elements that are joined to it.
typedef struct {
    const uint8_t *at;
    int64_t stride;
    spyre_format format;
} value_run;

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
JOIN_FP32(multiply_elements, before *values[n])
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

static void join_floats(const joined_run *j, uint8_t *to, const row_offsets *o,
                        const float *values, size_t count)
{
    if (j->format == SPYRE_FORMAT_SEN169_FP16 && (j->op == OPFUNC_MAX || j->op == OPFUNC_MIN))
        choose_elements(j, to, o->offset, values, count);
    else if (j->format != SPYRE_FORMAT_IEEE_FP32) join_elements(j, to, o->offset, values, count);
    else if (j->op == OPFUNC_SUM) add_elements(j, to, o->offset, values, count);
    else if (j->op == OPFUNC_PROD) multiply_elements(j, to, o->offset, values, count);
    else join_fp32(j, to, o->offset, values, count);
}

// --- Rows along runs, some of them at a time

// A row is a few runs: 64 elements that come as one stick of 16 bits go to two sticks of fp32.
typedef struct {
    int64_t length, parts, rows;            // elements of a run, runs of a row, rows
    int64_t to_part, from_part;             // bytes from run to run
    int64_t to_row, from_row, index_row;    // bytes from row to row
    uint32_t dims;
} row_shape;

static row_shape shape_rows(const plan_tile *tile)
{
    const bool parted = tile->dim_count > 2 && outer_stride(tile, 1, 2) == 0;
    const uint32_t level = parted ? 2 : 1;
    return (row_shape){.length = run_length(tile),
                       .parts = parted ? outer_extent(tile, 1) : 1,
                       .rows = outer_extent(tile, level),
                       .to_part = parted ? outer_stride(tile, 1, 0) : 0,
                       .from_part = parted ? outer_stride(tile, 1, 1) : 0,
                       .to_row = outer_stride(tile, level, 0),
                       .from_row = outer_stride(tile, level, 1),
                       .index_row = outer_stride(tile, level, 2),
                       .dims = level + 1};
}

// Whether the values of rows lie side by side, and some of them are a chunk.
static bool has_dense_rows(const row_shape *s, int64_t element)
{
    const int64_t run = s->length * element;
    return (s->parts == 1 || s->from_part == run) && s->from_row == s->parts * run &&
           s->parts * s->length <= LANES_CHUNK;
}

// Operand 0 is fp32 in neighbours.
BASE_CLONES
static void add_rows(uint8_t *to, const int64_t *offset, const row_shape *s,
                     const float *values, int64_t rows)
{
    for (int64_t n = 0; n < rows; n++) {
        for (int64_t part = 0; part < s->parts; part++, values += s->length) {
            float *restrict sum = (float *)(void *)(to + offset[n] + part * s->to_part);
            for (int64_t k = 0; k < s->length; k++) sum[k] += values[k];
        }
    }
}

static bool adds_rows(const joined_run *j, const uint8_t *to)
{
    return j->op == OPFUNC_SUM && j->format == SPYRE_FORMAT_IEEE_FP32 &&
           j->stride == (int64_t)sizeof(float) && (uintptr_t)to % sizeof(float) == 0;
}

// How many of the rows go where the first one goes.
static int64_t count_equal(const int64_t *offset, int64_t rows)
{
    int64_t n = 1;
    while (n < rows && offset[n] == offset[0]) n++;
    return n;
}

// Rows that are joined to one, as those of a bag: its sums stay in registers meanwhile.
static void add_to_one(uint8_t *to, const row_shape *s, const value_run *from, simd_format format,
                       int64_t rows)
{
    const simd_reduction r = {.accumulator = (float *)(void *)to,
                              .in = from->at,
                              .format = format,
                              .rows = (size_t)s->parts,
                              .count = (size_t)s->length,
                              .depth = (size_t)rows,
                              .turns = 1,
                              .accumulator_row = s->to_part,
                              .in_row = s->from_part,
                              .step = s->from_row};
    simd_in_use()->reduce[SIMD_SUM](&r);
}

// Where the rows from row `first` on go, of at most ROWS_AHEAD. They lie anywhere, so the host is
// told of them before they are changed.
static int64_t find_rows(const plan_tile *tile, const row_shape *s, const runs *r, int64_t first,
                         int64_t *out)
{
    enum { LINE = 64, MOST_LINES = 4 };
    const isa_instruction *i = tile->instruction;
    const int64_t count = s->rows - first < ROWS_AHEAD ? s->rows - first : ROWS_AHEAD;
    const int64_t bytes = s->length * run_stride(tile, 0);
    for (int64_t n = 0; n < count; n++) {
        int32_t row;
        memcpy(&row, r->at[2] + (first + n) * s->index_row, sizeof row);
        out[n] = (first + n) * s->to_row + isa_row_offset(i, row);
        for (int64_t at = 0; at < bytes && at < MOST_LINES * LINE; at += LINE)
            __builtin_prefetch(r->at[0] + out[n] + at, 1);
    }
    return count;
}

static void join_parts(const joined_run *j, uint8_t *to, const row_shape *s, const float *values)
{
    for (int64_t part = 0; part < s->parts; part++)
        join_row(j, to + part * s->to_part, values + part * s->length, (size_t)s->length);
}

enum { LEAST_EQUAL = 4 };

// As many rows at a time as a chunk has, or as go to one row.
static void join_dense_rows(const joined_run *j, const row_shape *s, uint8_t *to,
                            const int64_t *offset, const value_run *from, int64_t count)
{
    const int64_t elements = s->parts * s->length, most = LANES_CHUNK / elements;
    simd_format format;
    const bool adds = adds_rows(j, to), reads = adds && simd_reads(from->format, &format);
    float values[LANES_CHUNK];
    for (int64_t n = 0, rows; n < count; n += rows) {
        const value_run rest = {from->at + n * s->from_row, from->stride, from->format};
        rows = reads ? count_equal(offset + n, count - n) : 1;
        if (rows >= LEAST_EQUAL) {
            add_to_one(to + offset[n], s, &rest, format, rows);
            continue;
        }
        rows = count - n < most ? count - n : most;
        lanes_load_f32(values, rest.at, rest.stride, rest.format, (size_t)(rows * elements));
        if (adds) {
            add_rows(to, offset + n, s, values, rows);
            continue;
        }
        for (int64_t m = 0; m < rows; m++)
            join_parts(j, to + offset[n + m], s, values + m * elements);
    }
}

static void join_long_row(const joined_run *j, const row_shape *s, uint8_t *to,
                          const value_run *from)
{
    float values[LANES_CHUNK];
    for (int64_t part = 0; part < s->parts; part++) {
        for (int64_t done = 0; done < s->length; done += LANES_CHUNK) {
            size_t count = chunk_length(s->length - done);
            lanes_load_f32(values, from->at + part * s->from_part + done * from->stride,
                           from->stride, from->format, count);
            join_row(j, to + part * s->to_part + done * j->stride, values, count);
        }
    }
}

static void accumulate_rows(const plan_tile *tile, const joined_run *j, const row_shape *s,
                            const runs *r)
{
    int64_t offset[2][ROWS_AHEAD], count = find_rows(tile, s, r, 0, offset[0]);
    value_run from = {r->at[1], run_stride(tile, 1), tile->instruction->operand[1].format};
    const bool dense = has_dense_rows(s, from.stride);
    for (int64_t first = 0, turn = 0; count > 0; turn = 1 - turn) {
        int64_t next = find_rows(tile, s, r, first + count, offset[1 - turn]);
        if (dense) join_dense_rows(j, s, r->at[0], offset[turn], &from, count);
        for (int64_t n = 0; n < count && !dense; n++) {
            value_run row = from;
            row.at += n * s->from_row;
            join_long_row(j, s, r->at[0] + offset[turn][n], &row);
        }
        from.at += count * s->from_row;
        first += count;
        count = next;
    }
}

static void accumulate_all_rows(const plan_tile *tile, uint8_t *const *address,
                                const joined_run *j)
{
    const row_shape s = shape_rows(tile);
    runs r;
    first_run(&r, tile, address, s.dims);
    do accumulate_rows(tile, j, &s, &r);
    while (next_run(&r));
}

static void run_accumulate(const plan_tile *tile, uint8_t *const *address,
                           plan_scratch *scratch)
{
    (void)scratch;
    const isa_instruction *i = tile->instruction;
    spyre_format format = i->operand[1].format;
    bool integers = format == SPYRE_FORMAT_IEEE_INT32;
    joined_run j = {i->op, i->operand[0].format, run_stride(tile, 0)};
    int64_t from = run_stride(tile, 1), rows = run_stride(tile, 2);
    if (!integers && rows == 0) {
        accumulate_all_rows(tile, address, &j);
        return;
    }
    float values[LANES_CHUNK];
    row_offsets o = {.of = NULL};
    runs r;
    first_run(&r, tile, address, 1);
    do {
        for (int64_t done = 0; done < run_length(tile); done += LANES_CHUNK) {
            size_t count = chunk_length(run_length(tile) - done);
            uint8_t *at = r.at[0] + done * j.stride;
            const uint8_t *element = r.at[1] + done * from;
            row_offsets_find(&o, tile, r.at[2] + done * rows, rows ? (int64_t)count : 1);
            if (integers) {
                join_integers(&j, rows ? at : at + o.offset[0], rows ? o.offset : NULL, element,
                              from, count);
                continue;
            }
            lanes_load_f32(values, element, from, format, count);
            join_floats(&j, at, &o, values, count);
        }
    } while (next_run(&r));
}

plan_executor tile_accumulate(const plan_tile *tile)
{
    const isa_operand *operand = tile->instruction->operand;
    const bool integers = operand[1].format == SPYRE_FORMAT_IEEE_INT32;
    const bool fits = lanes_fits_f32(operand[0].format) && lanes_fits_f32(operand[1].format) &&
                      (run_stride(tile, 2) != 0 || run_stride(tile, 0) != 0);
    return (plan_executor){.run = integers || fits ? run_accumulate : exact_run};
}
