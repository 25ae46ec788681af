// SPDX-License-Identifier: Apache-2.0
//
// Between two panels the registers would wait for memory, unless it has been asked before. It pays
// where a panel is long, as those of weights are.
#include "card/matmul/matmul_job.h"

enum { LEAST_DEPTH = 256 };

matmul_ahead matmul_look_ahead(const matmul_part *p, const matmul_chunk *k, uint32_t b,
                               size_t stick, size_t done)
{
    size_t begin = done < k->depth ? done : 0;
    if (done == k->depth) stick++;
    matmul_ahead ahead = {.run = k->begin, .count = matmul_least(k->depth - begin, p->panel_depth)};
    if (ahead.count < LEAST_DEPTH || stick == matmul_sticks_of(p, b).end)
        return (matmul_ahead){0};
    const product_index *runs = p->x->runs.items;
    while (begin >= runs[ahead.run].run) begin -= runs[ahead.run++].run;
    ahead.element = begin;
    ahead.stick = p->job->b[b] + p->batch->at[PRODUCT_B] +
                  p->x->columns.items[stick].at[PRODUCT_B];
    return ahead;
}

matmul_lines matmul_take_ahead(const matmul_part *p, matmul_ahead *ahead, size_t most,
                               size_t runs)
{
    if (!ahead->count) return (matmul_lines){0};
    const product_index *run = &p->x->runs.items[ahead->run];
    size_t now = matmul_least(matmul_least(most, ahead->count), run->run - ahead->element);
    matmul_lines lines = {
        .at = ahead->stick + run->at[PRODUCT_B] + (int64_t)ahead->element * p->x->line,
        .step = p->x->line, .count = now, .a_run = matmul_share(now, runs)};
    ahead->count -= now;
    ahead->element += now;
    if (ahead->element == run->run) ahead->run++, ahead->element = 0;
    return lines;
}
