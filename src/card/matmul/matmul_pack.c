// SPDX-License-Identifier: Apache-2.0
#include "card/matmul/matmul_job.h"
#include "card/simd/lanes.h"
#include "tensor/convert.h"

// Lines that do not follow each other: so many at a time, asked for so many before. Asking beyond
// the last is harmless.
enum { LINES_A_STEP = 4, LINES_AHEAD = 12 };

static void fetch_lines(const uint8_t *from, int64_t stride, size_t count)
{
    for (size_t n = 0; n < count; n++, from += stride) {
        __builtin_prefetch(from, 0, 2);
        __builtin_prefetch(from + MATMUL_LINE / 2, 0, 2);
    }
}

static void widen_lines(const uint8_t *from, int64_t stride, size_t count, size_t run, float *to)
{
    const int64_t line = MATMUL_RUN * sizeof(float);
    if (stride == MATMUL_LINE) {
        convert_dl16_rows_to_float(to, line, from, stride, count, run);
        return;
    }
    for (size_t now; count; count -= now, from += (int64_t)now * stride, to += now * MATMUL_RUN) {
        now = matmul_least(count, LINES_A_STEP);
        fetch_lines(from + LINES_AHEAD * stride, stride, now);
        convert_dl16_rows_to_float(to, line, from, stride, now, run);
    }
}

// `count` lines of `run` elements, `stride` bytes apart, to lines of MATMUL_RUN floats.
static void pack_lines(const matmul_part *p, const uint8_t *from, int64_t stride, size_t count,
                       size_t run, float *to)
{
    if (p->x->format == SPYRE_FORMAT_SEN169_FP16) {
        widen_lines(from, stride, count, run, to);
        return;
    }
    for (size_t n = 0; n < count; n++)
        lanes_load_f32(to + n * MATMUL_RUN, from + (int64_t)n * stride, p->element, p->x->format,
                       run);
}

// How many of the rows from n on, at most `most`, lie `stride` bytes apart.
static size_t even_rows(const product_index *rows, size_t most, int64_t *stride)
{
    *stride = most > 1 ? rows[1].at[PRODUCT_A] - rows[0].at[PRODUCT_A] : 0;
    size_t n = 1;
    while (n < most && rows[n].at[PRODUCT_A] - rows[n - 1].at[PRODUCT_A] == *stride) n++;
    return n;
}

// Elements [skip, skip + run) of a run of k, of all rows of the group.
static void pack_run(const matmul_part *p, int64_t at, size_t run, float *to)
{
    const product_list *rows = &p->x->rows;
    size_t end = p->first + p->count;
    for (size_t row = p->first; row < end;) {
        size_t within = row % rows->count, most = rows->count - within;
        const product_index *index = &rows->items[within];
        int64_t stride;
        size_t now = even_rows(index, most < end - row ? most : end - row, &stride);
        const uint8_t *from = p->job->a[row / rows->count] + p->batch->at[PRODUCT_A];
        pack_lines(p, from + index->at[PRODUCT_A] + at, stride, now, run, to);
        to += now * MATMUL_RUN;
        row += now;
    }
}

void matmul_pack_rows(const matmul_part *p, const matmul_chunk *k)
{
    size_t done = 0;
    for (uint32_t n = k->begin; n < k->end; n++) {
        const product_index *run = &p->x->runs.items[n];
        for (size_t within = 0; within < run->run;) {
            size_t lane = done % MATMUL_RUN, now = MATMUL_RUN - lane;
            if (now > run->run - within) now = run->run - within;
            pack_run(p, run->at[PRODUCT_A] + (int64_t)within * p->element, now,
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
    size_t before = 0, depth = elements.end - elements.begin;
    float *to = p->packed_columns;
    for (uint32_t n = k->begin; n < k->end && before < elements.end; n++) {
        const product_index *run = &x->runs.items[n];
        size_t begin = elements.begin > before ? elements.begin - before : 0;
        size_t end = matmul_least(elements.end - before, run->run);
        before += run->run;
        if (begin >= end) continue;
        const uint8_t *from = stick + run->at[PRODUCT_B] + (int64_t)begin * x->line;
        for (size_t lane = 0; lane < x->lanes; lane += MATMUL_RUN)
            pack_lines(p, from + (int64_t)lane * p->element, x->line, end - begin,
                       matmul_least(x->lanes - lane, MATMUL_RUN), to + lane * depth);
        to += (end - begin) * MATMUL_RUN;
    }
}
