// SPDX-License-Identifier: Apache-2.0
//
// Blocking and packing. The rows of all cores form one list, those that several cores read once. Of
// that list as much as fits part of the host's second cache is packed, for up to DEEPEST of k; then
// one stick after the other of everybody's columns passes by, in pieces of k that stay in the first
// cache while all rows meet them whose cores want them. Partial sums wait in the fp32 results
// between pieces, so the chain of additions is the one of the definition.
#include "card/matmul.h"

#include <stdlib.h>
#include <string.h>

#include "card/lanes.h"
#include "tensor/convert.h"

enum {
    ROWS_BYTES = 512 << 10,             // packed rows
    DEEPEST = 512,                      // of k in them, a multiple of every stick
    PIECE_BYTES = 32 << 10,             // packed columns
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

static matmul_block *choose_block(spyre_format a, spyre_format b)
{
#if defined(__x86_64__)
    const char *variant = convert_variant();
    if (__builtin_cpu_supports("fma")) {
        if (strcmp(variant, "avx512") == 0) return matmul_block_avx512;
        if (strcmp(variant, "avx2") == 0) return matmul_block_avx2;
    }
#endif
    return fraction_bits(a) && fraction_bits(b) ? matmul_block_portable : NULL;
}

// --- Packing

// What does not change while one instruction is executed.
typedef struct {
    const isa_instruction *i;
    const int64_t *a_stride, *b_stride; // matmul_strides
    size_t core_rows;                   // of one operand 1
    size_t lanes;                       // also the stick of k
    spyre_format format;
    int64_t element;
    matmul_block *block;
    uint32_t a_count, b_count;          // different operands 1 and 2
    const uint8_t *a[ISA_CORES], *b[ISA_CORES];
    uint8_t *c[ISA_CORES][ISA_CORES];   // [b][a]: the result, null when no core wants it
    uint32_t a_first[ISA_CORES], a_end[ISA_CORES];      // [b]: those that are not null
    float *rows, *columns, **results;   // plan_scratch; results[b][row of the group]
} product;

// `count` lines of `run` elements, `stride` bytes apart, to lines of `lanes` floats.
static void pack_lines(const product *p, const uint8_t *from, int64_t stride, size_t count,
                       size_t run, float *to)
{
    if (run == p->lanes && stride == (int64_t)run * p->element &&
        p->format == SPYRE_FORMAT_SEN169_FP16) {
        convert_dl16_to_float(to, from, count * run);
        return;
    }
    for (size_t n = 0; n < count; n++) {
        const uint8_t *line = from + (int64_t)n * stride;
        __builtin_prefetch(line + PREFETCH_LINES * stride);
        __builtin_prefetch(line + PREFETCH_LINES * stride + 64);
        lanes_load_f32(to + n * p->lanes, line, p->element, p->format, run);
    }
}

// Rows [first, first + count) of the list from index k on, as [k stick][row][lanes].
static void pack_rows(const product *p, size_t first, size_t count, size_t k, size_t depth)
{
    float *to = p->rows;
    for (size_t done = 0; done < depth; done += p->lanes) {
        size_t run = depth - done < p->lanes ? depth - done : p->lanes;
        int64_t stick = (int64_t)((k + done) / p->lanes) * p->a_stride[1];
        for (size_t row = first; row < first + count;) {
            size_t within = row % p->core_rows, now = p->core_rows - within;
            if (now > first + count - row) now = first + count - row;
            const uint8_t *from = p->a[row / p->core_rows];
            pack_lines(p, from + (int64_t)within * p->a_stride[0] + stick, p->a_stride[0], now,
                       run, to);
            to += now * p->lanes;
            row += now;
        }
    }
}

// --- Multiplying

typedef struct {
    size_t begin, end;
} range;

// Rows of the list that columns b may be wanted by, of the group [first, first + count).
static range rows_of(const product *p, uint32_t b, size_t first, size_t count)
{
    size_t begin = p->a_first[b] * p->core_rows, end = p->a_end[b] * p->core_rows;
    if (begin < first) begin = first;
    if (end > first + count) end = first + count;
    return (range){begin - first, end > begin ? end - first : begin - first};
}

static void find_results(const product *p, size_t first, size_t count)
{
    for (uint32_t b = 0; b < p->b_count; b++) {
        range rows = rows_of(p, b, first, count);
        for (size_t n = rows.begin; n < rows.end; n++) {
            uint8_t *result = p->c[b][(first + n) / p->core_rows];
            int64_t within = (int64_t)((first + n) % p->core_rows) * p->i->operand[0].stride[0];
            p->results[b * count + n] = result ? (float *)(void *)(result + within) : NULL;
        }
    }
}

// The first rows of a range that have results, without gaps.
static range wanted_rows(float *const *results, range rows)
{
    while (rows.begin < rows.end && !results[rows.begin]) rows.begin++;
    size_t end = rows.begin;
    while (end < rows.end && results[end]) end++;
    return (range){rows.begin, end};
}

// All rows that are packed by one piece of a column stick; blocks of about the same height.
static void multiply_piece(const product *p, float *const *results, range rows,
                           matmul_panel panel)
{
    const float *packed = panel.a;
    for (;;) {
        range wanted = wanted_rows(results, rows);
        if (wanted.begin == wanted.end) return;
        size_t blocks = (wanted.end - wanted.begin + MATMUL_ROWS - 1) / MATMUL_ROWS;
        for (size_t row = wanted.begin; row < wanted.end; blocks--) {
            size_t height = (wanted.end - row + blocks - 1) / blocks;
            panel.a = packed + row * p->lanes;
            p->block(results + row, height, &panel);
            row += height;
        }
        rows.begin = wanted.end;
    }
}

// Whole sticks of k.
static size_t piece_depth(size_t lanes)
{
    size_t sticks = PIECE_BYTES / sizeof(float) / lanes / lanes;
    return sticks ? sticks * lanes : lanes;
}

// `rows` of a packed group of `count`.
static void multiply_stick(const product *p, uint32_t b, int64_t stick, range rows, size_t count,
                           size_t k, size_t depth)
{
    const uint8_t *columns = p->b[b] + stick * p->b_stride[0];
    size_t most = piece_depth(p->lanes);
    for (size_t done = 0; done < depth; done += most) {
        size_t now = depth - done < most ? depth - done : most;
        pack_lines(p, columns + (int64_t)(k + done) * p->b_stride[1], p->b_stride[1], now,
                   p->lanes, p->columns);
        matmul_panel panel = {p->rows + done * count, p->columns, count * p->lanes, p->lanes, now,
                              stick * p->i->operand[0].stride[1] / (int64_t)sizeof(float)};
        multiply_piece(p, p->results + b * count, rows, panel);
    }
}

static void multiply_rows(const product *p, size_t first, size_t count)
{
    size_t depth = p->i->extent[2];
    find_results(p, first, count);
    for (size_t k = 0; k < depth; k += DEEPEST) {
        size_t now = depth - k < DEEPEST ? depth - k : DEEPEST;
        pack_rows(p, first, count, k, now);
        for (uint32_t b = 0; b < p->b_count; b++) {
            range rows = rows_of(p, b, first, count);
            for (int64_t stick = 0; rows.begin < rows.end && stick < p->i->extent[1]; stick++)
                multiply_stick(p, b, stick, rows, count, k, now);
        }
    }
}

// --- The instruction

// Results that share bytes are left to the definition.
static bool plain_result(const isa_instruction *i, const matmul_operands *cores, uint32_t count)
{
    const isa_operand *c = &i->operand[0];
    int64_t line = (int64_t)matmul_lanes(i) * 4, inner = 0, outer = 1;
    if (c->stride[0] % 4 != 0 || c->stride[1] % 4 != 0) return false;
    for (uint32_t n = 0; n < count; n++)
        if ((uintptr_t)cores[n][0] % 4 != 0) return false;
    if (i->extent[0] == 1 || (i->extent[1] > 1 && c->stride[1] < c->stride[0])) inner = 1, outer = 0;
    if (i->extent[inner] > 1 && c->stride[inner] < line) return false;
    if (i->extent[inner] > 1) line += c->stride[inner] * (i->extent[inner] - 1);
    return i->extent[outer] == 1 || c->stride[outer] >= line;
}

static bool prepare(product *p, size_t rows, size_t rows_bytes, plan_scratch *scratch)
{
    size_t columns_bytes = piece_depth(p->lanes) * p->lanes * sizeof(float);
    size_t results_bytes = rows * p->b_count * sizeof(float *);
    bool ready = ensure(&scratch->rows, &scratch->rows_bytes, rows_bytes) &&
                 ensure(&scratch->columns, &scratch->columns_bytes, columns_bytes) &&
                 ensure(&scratch->results, &scratch->results_bytes, results_bytes);
    p->rows = scratch->rows;
    p->columns = scratch->columns;
    p->results = scratch->results;
    return ready;
}

// Each pair of operands is one product; a core that has the same pair as another gets rows of its
// own.
static void add_core(product *p, const matmul_operands *core)
{
    uint32_t a = 0, b = 0;
    while (b < p->b_count && p->b[b] != (*core)[2]) b++;
    if (b == p->b_count) p->b[p->b_count++] = (*core)[2];
    while (a < p->a_count && (p->a[a] != (*core)[1] || p->c[b][a])) a++;
    if (a == p->a_count) p->a[p->a_count++] = (*core)[1];
    p->c[b][a] = (*core)[0];
    if (p->a_end[b] == 0) p->a_first[b] = a;
    if (a < p->a_first[b]) p->a_first[b] = a;
    if (a >= p->a_end[b]) p->a_end[b] = a + 1;
}

bool matmul_fast(const isa_instruction *i, const matmul_strides *strides,
                 const matmul_operands *cores, uint32_t count, plan_scratch *scratch)
{
    spyre_format a = i->operand[1].format, b = i->operand[2].format;
    product p = {.i = i, .a_stride = (*strides)[0], .b_stride = (*strides)[1],
                 .core_rows = i->extent[0], .lanes = matmul_lanes(i), .format = a,
                 .element = spyre_format_bytes(a), .block = choose_block(a, b)};
    if (!p.block || a != b || p.lanes % 32 != 0 || !plain_result(i, cores, count)) return false;
    if (!lanes_fits_f32(a)) return false;
    for (uint32_t n = 0; n < count; n++) add_core(&p, &cores[n]);
    size_t rows = p.a_count * p.core_rows, depth = i->extent[2] < DEEPEST ? i->extent[2] : DEEPEST;
    size_t row_bytes = (depth + p.lanes - 1) / p.lanes * p.lanes * sizeof(float);
    size_t groups = (rows * row_bytes + ROWS_BYTES - 1) / ROWS_BYTES;
    size_t group = (rows + groups - 1) / groups;
    if (!prepare(&p, group, group * row_bytes, scratch)) return false;
    for (size_t first = 0; first < rows; first += group)
        multiply_rows(&p, first, rows - first < group ? rows - first : group);
    return true;
}
