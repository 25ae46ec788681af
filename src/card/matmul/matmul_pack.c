// SPDX-License-Identifier: Apache-2.0
#include "card/matmul/matmul_job.h"
#include "card/simd/lanes.h"
#include "tensor/convert.h"

// Lines that do not follow each other: so many at a time, asked for so many lines before, or of
// rows so many runs of k before. Asking beyond the last is harmless.
enum { LINES_A_STEP = 4, LINES_AHEAD = 12, RUNS_AHEAD = 4 };

// `count` lines of `run` elements, the next one `stride` bytes further. What lies `ahead` bytes
// further is read soon.
typedef struct {
    const uint8_t *from;
    int64_t stride, ahead;
    size_t count, run;
} packed_lines;

static void fetch_lines(const uint8_t *from, int64_t stride, size_t count)
{
    for (size_t n = 0; n < count; n++, from += stride) {
        __builtin_prefetch(from, 0, 2);
        __builtin_prefetch(from + MATMUL_LINE / 2, 0, 2);
    }
}

static void widen_lines(const packed_lines *l, float *to)
{
    const int64_t line = MATMUL_RUN * sizeof(float);
    if (l->stride == MATMUL_LINE) {
        convert_dl16_rows_to_float(to, line, l->from, l->stride, l->count, l->run);
        return;
    }
    const uint8_t *from = l->from;
    for (size_t now, left = l->count; left; left -= now) {
        now = matmul_least(left, LINES_A_STEP);
        fetch_lines(from + l->ahead, l->stride, now);
        convert_dl16_rows_to_float(to, line, from, l->stride, now, l->run);
        from += (int64_t)now * l->stride;
        to += now * MATMUL_RUN;
    }
}

// To lines of MATMUL_RUN floats.
static void pack_lines(const matmul_part *p, const packed_lines *l, float *to)
{
    if (p->x->format == SPYRE_FORMAT_SEN169_FP16) {
        widen_lines(l, to);
        return;
    }
    for (size_t n = 0; n < l->count; n++)
        lanes_load_f32(to + n * MATMUL_RUN, l->from + (int64_t)n * l->stride, p->element,
                       p->x->format, l->run);
}

// A row of the group: its core, and its number there.
typedef struct {
    size_t core, within;
} row_place;

static const uint8_t *row_at(const matmul_part *p, row_place row)
{
    const product_index *index = &p->x->rows.items[row.within];
    return p->job->a[row.core] + p->batch->at[PRODUCT_A] + index->at[PRODUCT_A];
}

static row_place row_behind(const matmul_part *p, row_place row)
{
    return row.within + 1 < p->x->rows.count ? (row_place){row.core, row.within + 1}
                                             : (row_place){row.core + 1, 0};
}

// How many rows from *row on, at most `most`, lie *stride bytes apart, which they mostly do,
// whatever core they are of; *row is then the one behind them.
static size_t even_rows(const matmul_part *p, row_place *row, size_t most, int64_t *stride)
{
    const uint8_t *last = row_at(p, *row), *next = NULL;
    size_t count = 1;
    *stride = 0;
    *row = row_behind(p, *row);
    for (; count < most; count++, last = next, *row = row_behind(p, *row)) {
        next = row_at(p, *row);
        if (count == 1) *stride = next - last;
        if (next - last != *stride) break;
    }
    return count;
}

// `run` elements of k, from `at` bytes on, of all rows of the group.
static void pack_run(const matmul_part *p, int64_t at, int64_t ahead, size_t run, float *to)
{
    const size_t height = p->x->rows.count;
    row_place row = {p->first / height, p->first % height};
    for (size_t left = p->count; left > 0;) {
        packed_lines l = {.from = row_at(p, row) + at, .ahead = ahead, .run = run};
        l.count = even_rows(p, &row, left, &l.stride);
        pack_lines(p, &l, to);
        to += l.count * MATMUL_RUN;
        left -= l.count;
    }
}

void matmul_pack_rows(const matmul_part *p, const matmul_chunk *k)
{
    const size_t last = p->x->runs.count - 1;
    size_t done = 0;
    for (uint32_t n = k->begin; n < k->end; n++) {
        const product_index *run = &p->x->runs.items[n];
        const product_index *soon = &p->x->runs.items[matmul_least(n + RUNS_AHEAD, last)];
        int64_t at = run->at[PRODUCT_A], ahead = soon->at[PRODUCT_A] - at;
        for (size_t within = 0; within < run->run;) {
            size_t lane = done % MATMUL_RUN, now = MATMUL_RUN - lane;
            if (now > run->run - within) now = run->run - within;
            pack_run(p, at + (int64_t)within * p->element, ahead, now,
                     p->packed_rows + done / MATMUL_RUN * MATMUL_RUN * p->count + lane);
            within += now;
            done += now;
        }
    }
}

void matmul_pack_columns(const matmul_part *p, const matmul_chunk *k, const uint8_t *stick,
                         matmul_range elements)
{
    const product *x = p->x;
    size_t before = 0, depth = elements.end - elements.begin, wanted = matmul_wanted(x);
    float *to = p->packed_columns;
    for (uint32_t n = k->begin; n < k->end && before < elements.end; n++) {
        const product_index *run = &x->runs.items[n];
        size_t begin = elements.begin > before ? elements.begin - before : 0;
        size_t end = matmul_least(elements.end - before, run->run);
        before += run->run;
        if (begin >= end) continue;
        const uint8_t *from = stick + run->at[PRODUCT_B] + (int64_t)begin * x->line;
        for (size_t lane = 0; lane < wanted; lane += MATMUL_RUN) {
            packed_lines l = {from + (int64_t)lane * p->element, x->line, x->line * LINES_AHEAD,
                              end - begin, matmul_least(wanted - lane, MATMUL_RUN)};
            pack_lines(p, &l, to + lane * depth);
        }
        to += (end - begin) * MATMUL_RUN;
    }
}
