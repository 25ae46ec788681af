// SPDX-License-Identifier: Apache-2.0
//
// Between two panels the registers would wait for memory, unless it has been asked before. It pays
// where a panel is long, as those of weights are.
#include "card/matmul_job.h"

enum { CACHE_LINE = 64, LEAST_DEPTH = 256 };

static matmul_range panel_at(const matmul_part *p, const matmul_chunk *k, size_t begin)
{
    size_t left = k->depth - begin;
    return (matmul_range){begin, begin + (left < p->panel_depth ? left : p->panel_depth)};
}

matmul_ahead matmul_look_ahead(const matmul_part *p, const matmul_chunk *k, uint32_t b,
                               size_t stick, size_t done)
{
    matmul_ahead ahead = {.elements = panel_at(p, k, done < k->depth ? done : 0)};
    if (done == k->depth) stick++;
    if (ahead.elements.end - ahead.elements.begin < LEAST_DEPTH ||
        stick == matmul_sticks_of(p, b).end)
        return (matmul_ahead){0};
    ahead.stick = p->job->b[b] + p->batch->at[PRODUCT_B] +
                  p->x->columns.items[stick].at[PRODUCT_B];
    return ahead;
}

static void add_lines(matmul_lines *lines, const uint8_t *from, size_t bytes)
{
    for (size_t at = 0; at < bytes && lines->count < MATMUL_MOST_LINES; at += CACHE_LINE)
        lines->at[lines->count++] = from + at;
}

void matmul_list_ahead(const matmul_part *p, const matmul_chunk *k, const matmul_ahead *ahead,
                       matmul_range which, size_t parts, matmul_lines *out)
{
    const product *x = p->x;
    size_t first = ahead->elements.begin, count = ahead->elements.end - first, before = 0;
    matmul_range part = {first + count * which.begin / parts, first + count * which.end / parts};
    out->count = 0;
    if (!ahead->stick) return;
    for (uint32_t n = k->begin; n < k->end && before < part.end; n++) {
        const product_index *run = &x->runs.items[n];
        size_t begin = part.begin > before ? part.begin - before : 0;
        size_t end = part.end - before < run->run ? part.end - before : run->run;
        before += run->run;
        for (size_t e = begin; e < end; e++)
            add_lines(out, ahead->stick + run->at[PRODUCT_B] + (int64_t)e * x->line,
                      (size_t)p->element * x->lanes);
    }
}
