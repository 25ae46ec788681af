// SPDX-License-Identifier: Apache-2.0
//
// Blocking and packing. The rows of all cores form one list, those that several cores read once. Of
// that list as much as fits half of the host's second cache is packed, for a chunk of k; then one
// stick after the other of everybody's columns passes by, packed to the rest of that cache, while
// blocks of rows keep their sums in registers for as much of k as there is. Between chunks the sums
// wait in memory. After the last one they are rounded to where they belong.
#include "card/matmul.h"

#include <stdlib.h>
#include <string.h>

#include "card/lanes.h"
#include "tensor/convert.h"

enum {
    ROWS_BYTES = 512 << 10,             // packed rows
    CHUNK_DEPTH = 512,                  // of k in them
    PANEL_BYTES = 128 << 10,            // packed columns
    FEW_PANEL_BYTES = 32 << 10,         // of which only one block of rows makes use
    PACK_ALIGNMENT = 64,
    PREFETCH_LINES = 12,                // ahead of lines that do not follow each other
};

static bool ensure(void **memory, size_t *bytes, size_t needed)
{
    if (*bytes >= needed) return true;
    needed = (needed + PACK_ALIGNMENT - 1) / PACK_ALIGNMENT * PACK_ALIGNMENT;
    free(*memory);
    *memory = aligned_alloc(PACK_ALIGNMENT, needed);
    *bytes = *memory ? needed : 0;
    return *memory != NULL;
}

// Significant bits of formats whose products cannot leave fp32's exponent range; 0 for others.
static int fraction_bits(spyre_format format)
{
    if (format == SPYRE_FORMAT_SEN169_FP16) return 10;
    if (format == SPYRE_FORMAT_IEEE_FP16) return 11;
    if (format == SPYRE_FORMAT_SEN143_FP8 || format == SPYRE_FORMAT_SEN152_FP8) return 4;
    return 0;
}

static matmul_block *choose_block(spyre_format format)
{
#if defined(__x86_64__)
    const char *variant = convert_variant();
    if (__builtin_cpu_supports("fma")) {
        if (strcmp(variant, "avx512") == 0) return matmul_block_avx512;
        if (strcmp(variant, "avx2") == 0) return matmul_block_avx2;
    }
#endif
    return fraction_bits(format) ? matmul_block_portable : NULL;
}

bool matmul_is_fast(spyre_format a, spyre_format b)
{
    return a == b && lanes_fits_f32(a) && spyre_format_elements_per_stick(a) % 32 == 0 &&
           choose_block(a) != NULL;
}

// --- The work at hand

typedef struct {
    size_t begin, end;
} range;

typedef struct {
    const product *x;
    matmul_block *block;
    strip_multiplier *few;              // null: rows are not few
    int64_t element;                    // bytes of A and B
    uint32_t a_count, b_count;          // different operands 1 and 2
    const uint8_t *a[ISA_CORES], *b[ISA_CORES];
    uint8_t *c[ISA_CORES][ISA_CORES];   // [b][a]: the result, null when no core wants it
    range wanted[ISA_CORES];            // [b]: the a of those that are not null
    const product_index *batch;         // at work
    size_t first, count;                // rows of the list that are packed
    size_t panel_depth;                 // of k, at most, in packed columns
    size_t sums_first[ISA_CORES];       // [b]: floats before its sums
    float *rows, *columns, *sums;       // plan_scratch
    uint8_t **results;                  // results[b][row of the group], column 0
} job;

// The part of k that is packed: whole runs, and the elements before it.
typedef struct {
    uint32_t begin, end;
    size_t before, depth;
} chunk;

static bool is_last(const job *j, const chunk *k)
{
    return k->end == j->x->runs.count;
}

// --- Packing

// `count` lines of `run` elements, `stride` bytes apart, to lines of `lanes` floats.
static void pack_lines(const job *j, const uint8_t *from, int64_t stride, size_t count, size_t run,
                       float *to)
{
    size_t lanes = j->x->lanes;
    if (run == lanes && stride == (int64_t)run * j->element &&
        j->x->format == SPYRE_FORMAT_SEN169_FP16) {
        convert_dl16_to_float(to, from, count * run);
        return;
    }
    for (size_t n = 0; n < count; n++) {
        const uint8_t *line = from + (int64_t)n * stride;
        __builtin_prefetch(line + PREFETCH_LINES * stride);
        __builtin_prefetch(line + PREFETCH_LINES * stride + 64);
        lanes_load_f32(to + n * lanes, line, j->element, j->x->format, run);
    }
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
static void pack_run(const job *j, int64_t at, size_t run, float *to)
{
    const product_list *rows = &j->x->rows;
    size_t end = j->first + j->count;
    for (size_t row = j->first; row < end;) {
        size_t within = row % rows->count, most = rows->count - within;
        const product_index *index = &rows->items[within];
        int64_t stride;
        size_t now = even_rows(index, most < end - row ? most : end - row, &stride);
        const uint8_t *from = j->a[row / rows->count] + j->batch->at[PRODUCT_A];
        pack_lines(j, from + index->at[PRODUCT_A] + at, stride, now, run, to);
        to += now * j->x->lanes;
        row += now;
    }
}

// The group's rows as [k / lanes][row][k % lanes], however k is cut into runs.
static void pack_rows(const job *j, const chunk *k)
{
    size_t lanes = j->x->lanes, done = 0;
    for (uint32_t n = k->begin; n < k->end; n++) {
        const product_index *run = &j->x->runs.items[n];
        for (size_t within = 0; within < run->run;) {
            size_t lane = done % lanes, now = lanes - lane;
            if (now > run->run - within) now = run->run - within;
            pack_run(j, run->at[PRODUCT_A] + (int64_t)within * j->element, now,
                     j->rows + done / lanes * lanes * j->count + lane);
            within += now;
            done += now;
        }
    }
}

// Elements [begin, end) of the chunk's k, of one stick of columns, as [k][lanes].
static void pack_columns(const job *j, const chunk *k, const uint8_t *stick, range elements)
{
    const product *x = j->x;
    float *to = j->columns;
    size_t before = 0;
    for (uint32_t n = k->begin; n < k->end && before < elements.end; n++) {
        const product_index *run = &x->runs.items[n];
        size_t begin = elements.begin > before ? elements.begin - before : 0;
        size_t end = elements.end - before < run->run ? elements.end - before : run->run;
        before += run->run;
        if (begin >= end) continue;
        const uint8_t *from = stick + run->at[PRODUCT_B] + (int64_t)begin * x->line;
        pack_lines(j, from, x->line, end - begin, x->lanes, to);
        to += (end - begin) * x->lanes;
    }
}

// --- Results

// Rows of the group that columns b may be wanted by.
static range rows_of(const job *j, uint32_t b)
{
    size_t height = j->x->rows.count, last = j->first + j->count;
    size_t begin = j->wanted[b].begin * height, end = j->wanted[b].end * height;
    if (begin < j->first) begin = j->first;
    if (end > last) end = last;
    return (range){begin - j->first, end > begin ? end - j->first : begin - j->first};
}

static void find_results(job *j)
{
    const product_list *rows = &j->x->rows;
    size_t sums = 0;
    for (uint32_t b = 0; b < j->b_count; b++) {
        range wanted = rows_of(j, b);
        for (size_t n = wanted.begin; n < wanted.end; n++) {
            size_t row = j->first + n;
            uint8_t *result = j->c[b][row / rows->count];
            if (result)
                result += j->batch->at[PRODUCT_C] +
                          rows->items[row % rows->count].at[PRODUCT_C];
            j->results[b * j->count + n] = result;
        }
        j->sums_first[b] = sums;
        sums += (wanted.end - wanted.begin) * j->x->lanes * j->x->columns.count;
    }
}

// The first rows of a range that have results, without gaps.
static range wanted_rows(uint8_t *const *results, range rows)
{
    while (rows.begin < rows.end && !results[rows.begin]) rows.begin++;
    size_t end = rows.begin;
    while (end < rows.end && results[end]) end++;
    return (range){rows.begin, end};
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
    float *sums;                        // [row][lanes]; null: they live for one panel only
    size_t sums_row;                    // row of the group that sums begins with
    int64_t column;                     // bytes from a result's column 0
    bool last;                          // of k
} destination;

static void multiply_block(const job *j, const destination *d, size_t row, size_t height,
                           const matmul_panel *panel)
{
    float sums[MATMUL_ROWS * 128], *c[MATMUL_ROWS];
    float *first = d->sums ? d->sums + (row - d->sums_row) * j->x->lanes : sums;
    for (size_t n = 0; n < height; n++) {
        c[n] = first + n * j->x->lanes;
        if (j->x->adds) c[n] = (float *)(void *)(d->results[row + n] + d->column);
    }
    j->block(c, height, panel);
    if (d->last && !j->x->adds) put_results(j->x, first, d->results + row, height, d->column);
}

// All rows that are packed by one panel; blocks of about the same height.
static void multiply_panel(const job *j, const destination *d, range rows, matmul_panel panel)
{
    const float *packed = panel.a;
    for (;;) {
        range wanted = wanted_rows(d->results, rows);
        if (wanted.begin == wanted.end) return;
        size_t blocks = (wanted.end - wanted.begin + MATMUL_ROWS - 1) / MATMUL_ROWS;
        for (size_t row = wanted.begin; row < wanted.end; blocks--) {
            size_t height = (wanted.end - row + blocks - 1) / blocks;
            panel.a = packed + row * j->x->lanes;
            multiply_block(j, d, row, height, &panel);
            row += height;
        }
        rows.begin = wanted.end;
    }
}

// Adds the products of rows [first, first + height) of the group with one stick of columns to
// sums, [row][lane].
static void add_few(const job *j, size_t first, size_t height, const uint8_t *columns, float *sums)
{
    const product *x = j->x;
    size_t k = 0;
    for (uint32_t n = 0; n < x->runs.count; k += x->runs.items[n++].run) {
        const float *packed = j->rows + k / x->lanes * x->lanes * j->count + k % x->lanes;
        const strip_product part = {.sums = sums,
                                    .a = packed + first * x->lanes,
                                    .b = columns + x->runs.items[n].at[PRODUCT_B],
                                    .rows = height,
                                    .depth = x->runs.items[n].run};
        j->few(&part);
    }
}

// Rows so few that packing columns would cost more than multiplying. All of k is packed.
static void multiply_few(const job *j, const destination *d, range rows, const uint8_t *columns)
{
    const size_t line = STRIP_LANES * sizeof(float);
    bool adds = j->x->adds;
    range wanted = wanted_rows(d->results, rows);
    while (wanted.begin < wanted.end) {
        float sums[STRIP_MOST_ROWS][STRIP_LANES] = {{0}};
        size_t height = wanted.end - wanted.begin;
        uint8_t *const *results = d->results + wanted.begin;
        for (size_t n = 0; n < height && adds; n++) memcpy(sums[n], results[n] + d->column, line);
        add_few(j, wanted.begin, height, columns, sums[0]);
        for (size_t n = 0; n < height && adds; n++) memcpy(results[n] + d->column, sums[n], line);
        if (!adds) put_results(j->x, sums[0], results, height, d->column);
        wanted = wanted_rows(d->results, (range){wanted.end, rows.end});
    }
}

static void multiply_stick(const job *j, const chunk *k, uint32_t b, uint32_t stick)
{
    const product *x = j->x;
    const product_index *column = &x->columns.items[stick];
    range rows = rows_of(j, b);
    if (rows.begin == rows.end) return;
    const uint8_t *columns = j->b[b] + j->batch->at[PRODUCT_B] + column->at[PRODUCT_B];
    bool one_panel = x->depth <= j->panel_depth;
    destination d = {.results = j->results + b * j->count,
                     .sums_row = rows.begin,
                     .column = column->at[PRODUCT_C]};
    if (j->few) {
        multiply_few(j, &d, rows, columns);
        return;
    }
    if (!one_panel) {
        size_t height = rows.end - rows.begin;
        d.sums = j->sums + j->sums_first[b] + stick * height * x->lanes;
    }
    for (size_t done = 0; done < k->depth; done += j->panel_depth) {
        size_t now = k->depth - done < j->panel_depth ? k->depth - done : j->panel_depth;
        pack_columns(j, k, columns, (range){done, done + now});
        d.last = is_last(j, k) && done + now == k->depth;
        matmul_panel panel = {.a = j->rows + done * j->count,
                              .b = j->columns,
                              .a_next = j->count * x->lanes,
                              .lanes = x->lanes,
                              .depth = now,
                              .fresh = !x->adds && k->before + done == 0};
        multiply_panel(j, &d, rows, panel);
    }
}

// As many runs from `begin` on as a chunk of k takes.
static chunk next_chunk(const product *x, const chunk *before, size_t most)
{
    chunk k = {.begin = before->end, .end = before->end, .before = before->before + before->depth};
    while (k.end < x->runs.count && (k.depth == 0 || k.depth + x->runs.items[k.end].run <= most))
        k.depth += x->runs.items[k.end++].run;
    return k;
}

static void multiply_rows(job *j, size_t chunk_depth)
{
    find_results(j);
    chunk k = {0};
    while (!is_last(j, &k)) {
        k = next_chunk(j->x, &k, chunk_depth);
        pack_rows(j, &k);
        for (uint32_t b = 0; b < j->b_count; b++)
            for (uint32_t stick = 0; stick < j->x->columns.count; stick++)
                multiply_stick(j, &k, b, stick);
    }
}

// --- The product

// Each pair of operands is one product; a core that has the same pair as another gets rows of its
// own.
static void add_core(job *j, const matmul_operands *core)
{
    uint32_t a = 0, b = 0;
    while (b < j->b_count && j->b[b] != (*core)[PRODUCT_B]) b++;
    if (b == j->b_count) j->b[j->b_count++] = (*core)[PRODUCT_B];
    while (a < j->a_count && (j->a[a] != (*core)[PRODUCT_A] || j->c[b][a])) a++;
    if (a == j->a_count) j->a[j->a_count++] = (*core)[PRODUCT_A];
    j->c[b][a] = (*core)[PRODUCT_C];
    range *wanted = &j->wanted[b];
    if (wanted->end == 0) wanted->begin = a;
    if (a < wanted->begin) wanted->begin = a;
    if (a >= wanted->end) wanted->end = a + 1;
}

// Floats for sums that outlive a panel: every pair of rows and columns of a group at most.
static size_t sums_floats(const job *j, size_t group)
{
    size_t rows = 0, height = j->x->rows.count;
    if (j->x->adds || j->x->depth <= j->panel_depth) return 0;
    for (uint32_t b = 0; b < j->b_count; b++) {
        size_t own = (j->wanted[b].end - j->wanted[b].begin) * height;
        rows += own < group ? own : group;
    }
    return rows * j->x->columns.count * j->x->lanes;
}

static bool prepare(job *j, size_t group, size_t chunk_depth, plan_scratch *scratch)
{
    size_t line = j->x->lanes * sizeof(float);
    size_t sticks = (chunk_depth + j->x->lanes - 1) / j->x->lanes;
    bool ready = ensure(&scratch->rows, &scratch->rows_bytes, group * sticks * line) &&
                 ensure(&scratch->columns, &scratch->columns_bytes, j->panel_depth * line) &&
                 ensure(&scratch->sums, &scratch->sums_bytes,
                        sums_floats(j, group) * sizeof(float)) &&
                 ensure(&scratch->results, &scratch->results_bytes,
                        group * j->b_count * sizeof(uint8_t *));
    j->rows = scratch->rows;
    j->columns = scratch->columns;
    j->sums = scratch->sums;
    j->results = scratch->results;
    return ready;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

// Whole sticks of k.
static size_t panel_depth(size_t lanes, size_t bytes)
{
    size_t sticks = bytes / sizeof(float) / lanes / lanes;
    return sticks ? sticks * lanes : lanes;
}

// No run may lie across two packed sticks.
static bool runs_within_sticks(const product *x)
{
    size_t done = 0;
    for (uint32_t n = 0; n < x->runs.count; done += x->runs.items[n++].run)
        if (done % x->lanes + x->runs.items[n].run > x->lanes) return false;
    return true;
}

static strip_multiplier *choose_few(const product *x, matmul_block *block, size_t rows,
                                    size_t chunk_depth)
{
    const strip_table *table = strip_in_use();
    // A host without fma has a block in portable C only.
    if (block == matmul_block_portable && table != &strip_portable) return NULL;
    bool suits = x->format == SPYRE_FORMAT_SEN169_FP16 && x->lanes == STRIP_LANES &&
                 x->line == STRIP_LANES * 2 && x->depth <= chunk_depth;
    return suits && rows <= table->few_rows && runs_within_sticks(x) ? table->multiply : NULL;
}

bool matmul_fast(const product *x, const matmul_operands *cores, uint32_t count,
                 plan_scratch *scratch)
{
    job j = {.x = x, .block = choose_block(x->format), .element = spyre_format_bytes(x->format)};
    for (uint32_t n = 0; n < count; n++) add_core(&j, &cores[n]);
    size_t rows = (size_t)j.a_count * x->rows.count;
    bool few = rows <= MATMUL_ROWS;
    size_t chunk_depth = few ? ROWS_BYTES / sizeof(float) / MATMUL_ROWS / x->lanes * x->lanes
                             : CHUNK_DEPTH;
    chunk_depth = least(chunk_depth, x->depth);
    j.panel_depth = least(panel_depth(x->lanes, few ? FEW_PANEL_BYTES : PANEL_BYTES), chunk_depth);
    j.few = choose_few(x, j.block, rows, chunk_depth);
    size_t groups = (rows * chunk_depth * sizeof(float) + ROWS_BYTES - 1) / ROWS_BYTES;
    size_t group = (rows + groups - 1) / groups;
    if (!prepare(&j, group, chunk_depth, scratch)) return false;
    for (uint32_t n = 0; n < x->batches.count; n++) {
        j.batch = &x->batches.items[n];
        for (j.first = 0; j.first < rows; j.first += group) {
            j.count = least(group, rows - j.first);
            multiply_rows(&j, chunk_depth);
        }
    }
    return true;
}
