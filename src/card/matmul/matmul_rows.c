// SPDX-License-Identifier: Apache-2.0
//
// One part of a product. Of its rows as much as fits half of the host's second cache is packed, for
// a chunk of k; then one stick after the other of the part's columns passes by, packed to the rest
// of that cache, while blocks of rows keep their sums in registers for as much of k as there is.
// Between chunks the sums wait in memory. After the last one they are rounded to where they belong.
#include <string.h>

#include "card/matmul/matmul_job.h"
#include "card/simd/lanes.h"

enum { CACHE_LINE = 64 };

static bool is_last(const matmul_part *p, const matmul_chunk *k)
{
    return k->end == p->x->runs.count;
}

// --- Results

// Rows of the group that columns b may be wanted by.
static matmul_range rows_of(const matmul_part *p, uint32_t b)
{
    size_t height = p->x->rows.count, last = p->first + p->count;
    size_t begin = p->job->wanted[b].begin * height, end = p->job->wanted[b].end * height;
    if (begin < p->first) begin = p->first;
    if (end > last) end = last;
    return (matmul_range){begin - p->first, end > begin ? end - p->first : begin - p->first};
}

// Column 0 of the results of those rows in `wanted`, a range of the list, that are rows of operand
// a; null where no core wants them. results[0] is the group's first row.
static void find_rows(const matmul_part *p, uint8_t *c, size_t a, matmul_range wanted,
                      uint8_t **results)
{
    const product_list *rows = &p->x->rows;
    size_t begin = a * rows->count, end = matmul_least(wanted.end, begin + rows->count);
    for (size_t n = begin > wanted.begin ? begin : wanted.begin; n < end; n++)
        results[n - p->first] =
            c ? c + p->batch->at[PRODUCT_C] + rows->items[n - begin].at[PRODUCT_C] : NULL;
}

static void find_results(matmul_part *p)
{
    size_t sums = 0, height = p->x->rows.count;
    for (uint32_t b = 0; b < p->job->b_count; b++) {
        matmul_range rows = rows_of(p, b), sticks = matmul_sticks_of(p, b);
        matmul_range wanted = {p->first + rows.begin, p->first + rows.end};
        for (size_t a = wanted.begin / height; a * height < wanted.end; a++)
            find_rows(p, p->job->c[b][a], a, wanted, p->results + b * p->count);
        p->sums_first[b] = sums;
        sums += (rows.end - rows.begin) * (sticks.end - sticks.begin) * p->x->lanes;
    }
}

// The first rows of a range that have results, without gaps.
static matmul_range wanted_rows(const matmul_part *p, uint8_t *const *results, matmul_range rows)
{
    if (!p->job->gaps) return rows;
    while (rows.begin < rows.end && !results[rows.begin]) rows.begin++;
    size_t end = rows.begin;
    while (end < rows.end && results[end]) end++;
    return (matmul_range){rows.begin, end};
}

// Rounds the finished sums of neighbouring rows, [rows][lanes], to their results.
static void put_results(const product *x, const float *sums, uint8_t *const *results, size_t rows,
                        int64_t column)
{
    int64_t element = spyre_format_bytes(x->result), line = element * x->lanes;
    size_t n = 0;
    while (n < rows) {
        size_t dense = 1;
        while (x->kept == x->lanes && n + dense < rows &&
               results[n + dense] - results[n + dense - 1] == line)
            dense++;
        size_t count = dense > 1 ? dense * x->lanes : x->kept;
        lanes_store_f32(results[n] + column, element, x->result, sums + n * x->lanes, count);
        n += dense;
    }
}

// --- Multiplying

// A panel of a stick of columns and the rows it meets.
typedef struct {
    uint8_t *const *results;            // of the stick's columns b
    float *sums;                        // [row][lanes]; null: they live for one panel only, or
                                        // are the results
    size_t sums_row;                    // row of the group that sums begins with
    int64_t column;                     // bytes from a result's column 0
    size_t wanted;                      // lanes
    bool rounds;                        // the wanted lanes to SEN169_FP16 and nothing else
    bool last;                          // of k
    matmul_ahead ahead;
} destination;

// The first cache fetches what the results of a block will overwrite.
static void fetch_results(const product *x, uint8_t *const *results, size_t rows, int64_t column)
{
    int64_t bytes = x->kept * (int64_t)spyre_format_bytes(x->result);
    for (size_t n = 0; n < rows; n++)
        for (int64_t at = 0; at < bytes; at += CACHE_LINE)
            __builtin_prefetch(results[n] + column + at, 1);
}

// Rows [row, row + height) of the group by a panel, stick part by stick part.
static void multiply_block(const matmul_part *p, const destination *d, size_t row, size_t height,
                           matmul_panel *panel)
{
    const product *x = p->x;
    const float *columns = panel->b;
    float sums[MATMUL_ROWS * 128], *c[MATMUL_ROWS];
    float *first = d->sums ? d->sums + (row - d->sums_row) * x->lanes : sums;
    bool finishes = d->last && !x->adds;
    if (finishes) fetch_results(x, d->results + row, height, d->column);
    panel->next_sums.at = (const uint8_t *)(first + height * x->lanes);
    for (size_t lane = 0; lane < d->wanted; lane += MATMUL_RUN) {
        for (size_t n = 0; n < height; n++) {
            c[n] = first + n * x->lanes + lane;
            if (x->adds) c[n] = (float *)(void *)(d->results[row + n] + d->column) + lane;
        }
        panel->b = columns + lane * panel->depth;
        panel->wanted = matmul_least(d->wanted - lane, MATMUL_RUN);
        panel->results = finishes && d->rounds ? d->results + row : NULL;
        panel->column = d->column + 2 * (int64_t)lane;
        p->job->block(c, height, panel);
    }
    panel->b = columns;
    if (finishes && !d->rounds) put_results(x, first, d->results + row, height, d->column);
}

// All rows that are packed by one panel; blocks of about the same height.
static void multiply_panel(const matmul_part *p, destination *d, matmul_range rows,
                           matmul_panel panel)
{
    const float *packed = panel.a;
    size_t runs = matmul_share(panel.depth, MATMUL_RUN);
    size_t ahead = matmul_share(d->ahead.count,
                                matmul_share(rows.end - rows.begin, MATMUL_ROWS));
    size_t lines = panel.fresh || !d->sums ? 0 : MATMUL_ROWS * p->x->lanes * 4 / MATMUL_LINE;
    panel.next_sums = (matmul_lines){NULL, MATMUL_LINE, lines, matmul_share(lines, runs)};
    for (;;) {
        matmul_range wanted = wanted_rows(p, d->results, rows);
        if (wanted.begin == wanted.end) return;
        size_t blocks = matmul_share(wanted.end - wanted.begin, MATMUL_ROWS);
        for (size_t row = wanted.begin; row < wanted.end; blocks--) {
            size_t height = matmul_share(wanted.end - row, blocks);
            panel.a = packed + row * MATMUL_RUN;
            panel.next_columns = matmul_take_ahead(p, &d->ahead, ahead, runs);
            multiply_block(p, d, row, height, &panel);
            row += height;
        }
        rows.begin = wanted.end;
    }
}

// Columns as they lie. False, and no result written, where they have to be packed: all calls for a
// stick see the same codes.
static bool multiply_few(matmul_part *p, const destination *d, matmul_range rows, uint32_t b,
                         size_t stick)
{
    const size_t line = SIMD_LANES * sizeof(float);
    bool adds = p->x->adds;
    matmul_range wanted = wanted_rows(p, d->results, rows);
    while (wanted.begin < wanted.end) {
        float sums[MATMUL_FEW_ROWS][SIMD_LANES];
        size_t height = wanted.end - wanted.begin;
        memset(sums, 0, height * line);
        uint8_t *const *results = d->results + wanted.begin;
        for (size_t n = 0; n < height && adds; n++) memcpy(sums[n], results[n] + d->column, line);
        if (!matmul_add_few(p, wanted, b, stick, sums[0])) return false;
        for (size_t n = 0; n < height && adds; n++) memcpy(results[n] + d->column, sums[n], line);
        if (!adds) put_results(p->x, sums[0], results, height, d->column);
        wanted = wanted_rows(p, d->results, (matmul_range){wanted.end, rows.end});
    }
    return true;
}

static void multiply_stick(matmul_part *p, const matmul_chunk *k, uint32_t b, size_t stick)
{
    const product *x = p->x;
    const product_index *column = &x->columns.items[stick];
    matmul_range rows = rows_of(p, b);
    if (rows.begin == rows.end) return;
    const uint8_t *columns = p->job->b[b] + p->batch->at[PRODUCT_B] + column->at[PRODUCT_B];
    bool sums_wait = x->depth > p->panel_depth && !x->adds;
    destination d = {.results = p->results + b * p->count,
                     .sums_row = rows.begin,
                     .column = column->at[PRODUCT_C],
                     .wanted = matmul_wanted(x)};
    d.rounds = x->result == SPYRE_FORMAT_SEN169_FP16 && x->kept == d.wanted;
    if (p->few && multiply_few(p, &d, rows, b, stick)) return;
    if (sums_wait) {
        size_t height = rows.end - rows.begin, place = stick - matmul_sticks_of(p, b).begin;
        d.sums = p->sums + p->sums_first[b] + place * height * x->lanes;
    }
    for (size_t done = 0; done < k->depth; done += p->panel_depth) {
        size_t now = k->depth - done < p->panel_depth ? k->depth - done : p->panel_depth;
        matmul_pack_columns(p, k, columns, (matmul_range){done, done + now});
        d.last = is_last(p, k) && done + now == k->depth;
        d.ahead = matmul_look_ahead(p, k, b, stick, done + now);
        matmul_panel panel = {.a = p->packed_rows + done * p->count,
                              .b = p->packed_columns,
                              .a_next = p->count * MATMUL_RUN,
                              .depth = now,
                              .fresh = !x->adds && k->before + done == 0};
        multiply_panel(p, &d, rows, panel);
    }
}

// As many runs from `begin` on as a chunk of k takes.
static matmul_chunk next_chunk(const product *x, const matmul_chunk *before, size_t most)
{
    matmul_chunk k = {.begin = before->end, .end = before->end};
    k.before = before->before + before->depth;
    while (k.end < x->runs.count && (k.depth == 0 || k.depth + x->runs.items[k.end].run <= most))
        k.depth += x->runs.items[k.end++].run;
    return k;
}

static bool stops(const matmul_part *p)
{
    return p->job->stop && atomic_load_explicit(p->job->stop, memory_order_relaxed);
}

static void multiply_group(matmul_part *p)
{
    find_results(p);
    matmul_chunk k = {0};
    while (!is_last(p, &k) && !stops(p)) {
        k = next_chunk(p->x, &k, p->chunk_depth);
        matmul_pack_rows(p, &k);
        if (p->few) matmul_scale_few(p);
        for (uint32_t b = 0; b < p->job->b_count; b++) {
            matmul_range sticks = matmul_sticks_of(p, b);
            for (size_t stick = sticks.begin; stick < sticks.end && !stops(p); stick++)
                multiply_stick(p, &k, b, stick);
        }
    }
}

void matmul_multiply(matmul_part *p)
{
    for (size_t n = p->batches.begin; n < p->batches.end; n++) {
        p->batch = &p->x->batches.items[n];
        for (p->first = p->rows.begin; p->first < p->rows.end; p->first += p->group) {
            size_t left = p->rows.end - p->first;
            p->count = p->group < left ? p->group : left;
            multiply_group(p);
        }
    }
}
