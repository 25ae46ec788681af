// SPDX-License-Identifier: Apache-2.0
//
// Blocking and packing. k is cut into pieces whose part of one column stick stays in the host's
// second cache; partial sums wait in the fp32 result between pieces, so the chain of additions is
// the one of the definition.
#include "card/matmul.h"

#include <stdlib.h>
#include <string.h>

#include "card/lanes.h"
#include "tensor/convert.h"

enum { K_PIECE = 256, MOST_ROWS = 256, PACK_ALIGNMENT = 64 };

static bool ensure(float **memory, size_t *bytes, size_t needed)
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

// Columns k_first.. of all rows, as [row][k].
static void pack_rows(const isa_instruction *i, const int64_t *stride, const uint8_t *a,
                      int64_t k_first, size_t k_count, float *out)
{
    const isa_operand *operand = &i->operand[1];
    int64_t lanes = matmul_lanes(i), element = spyre_format_bytes(operand->format);
    for (uint32_t row = 0; row < i->extent[0]; row++) {
        const uint8_t *line = a + (int64_t)row * stride[0];
        for (size_t k = 0; k < k_count;) {
            int64_t at = k_first + (int64_t)k, lane = at % lanes;
            size_t left = k_count - k, run = (size_t)(lanes - lane);
            if (run > left) run = left;
            lanes_load_f32(out + k, line + at / lanes * stride[1] + lane * element,
                           element, operand->format, run);
            k += run;
        }
        out += k_count;
    }
}

// Rows k_first.. of one column stick, as [k][lane].
static void pack_columns(const isa_instruction *i, int64_t stride, const uint8_t *b,
                         size_t k_count, float *out)
{
    const isa_operand *operand = &i->operand[2];
    size_t lanes = matmul_lanes(i);
    int64_t element = spyre_format_bytes(operand->format), line = (int64_t)lanes * element;
    if (stride == line && line == SPYRE_STICK_BYTES) {
        size_t step = LANES_CHUNK / lanes;
        for (size_t k = 0; k < k_count; k += step) {
            size_t run = k_count - k < step ? k_count - k : step;
            lanes_load_f32(out + k * lanes, b + (int64_t)k * line, element, operand->format,
                           run * lanes);
        }
        return;
    }
    for (size_t k = 0; k < k_count; k++)
        lanes_load_f32(out + k * lanes, b + (int64_t)k * stride, element,
                       operand->format, lanes);
}

// Cores that are multiplied at a time: their packed rows should stay in the second cache too.
static uint32_t group_size(uint32_t rows, uint32_t count)
{
    uint32_t most = rows < MOST_ROWS ? MOST_ROWS / rows : 1;
    return count < most ? count : most;
}

static void multiply(const isa_instruction *i, const matmul_strides *strides,
                     const matmul_operands *cores, uint32_t count, matmul_block *block,
                     size_t piece, plan_scratch *scratch)
{
    const isa_operand *c = &i->operand[0];
    const int64_t *a_stride = (*strides)[0], *b_stride = (*strides)[1];
    size_t rows = i->extent[0], lanes = matmul_lanes(i), depth = i->extent[2];
    for (size_t k = 0; k < depth; k += piece) {
        size_t now = depth - k < piece ? depth - k : piece;
        for (uint32_t n = 0; n < count; n++)
            pack_rows(i, a_stride, cores[n][1], (int64_t)k, now,
                      scratch->rows + n * rows * piece);
        for (int64_t stick = 0; stick < i->extent[1]; stick++) {
            const uint8_t *from = cores[0][2] + stick * b_stride[0] + (int64_t)k * b_stride[1];
            pack_columns(i, b_stride[1], from, now, scratch->columns);
            for (uint32_t n = 0; n < count; n++) {
                float *to = (float *)(void *)(cores[n][0] + stick * c->stride[1]);
                block(to, (size_t)c->stride[0] / 4, scratch->rows + n * rows * piece, now,
                      scratch->columns, lanes, rows, lanes, now);
            }
        }
    }
}

// Rows that share a result (a negative or zero stride) are left to the definition.
static bool plain_result(const isa_instruction *i, const matmul_operands *cores, uint32_t count)
{
    const isa_operand *c = &i->operand[0];
    int64_t lanes = matmul_lanes(i);
    if (c->stride[0] % 4 != 0 || c->stride[1] % 4 != 0) return false;
    if (i->extent[0] > 1 && c->stride[0] < lanes * 4) return false;
    for (uint32_t n = 0; n < count; n++)
        if ((uintptr_t)cores[n][0] % 4 != 0) return false;
    return true;
}

bool matmul_fast(const isa_instruction *i, const matmul_strides *strides,
                 const matmul_operands *cores, uint32_t count, plan_scratch *scratch)
{
    spyre_format a = i->operand[1].format, b = i->operand[2].format;
    matmul_block *block = choose_block(a, b);
    size_t rows = i->extent[0], lanes = matmul_lanes(i), depth = i->extent[2];
    if (!block || lanes % 16 != 0 || !plain_result(i, cores, count)) return false;
    if (!lanes_fits_f32(a) || !lanes_fits_f32(b)) return false;
    size_t piece = depth < K_PIECE ? depth : K_PIECE;
    uint32_t group = group_size(i->extent[0], count);
    if (!ensure(&scratch->rows, &scratch->rows_bytes, group * rows * piece * sizeof(float)))
        return false;
    if (!ensure(&scratch->columns, &scratch->columns_bytes, piece * lanes * sizeof(float)))
        return false;
    for (uint32_t done = 0; done < count; done += group) {
        uint32_t now = count - done < group ? count - done : group;
        multiply(i, strides, cores + done, now, block, piece, scratch);
    }
    return true;
}

void matmul_block_portable(float *c, size_t c_stride, const float *a, size_t a_stride,
                           const float *b, size_t b_stride, size_t rows, size_t lanes, size_t k)
{
    for (size_t row = 0; row < rows; row++) {
        float *restrict sums = c + row * c_stride;
        for (size_t n = 0; n < k; n++) {
            float x = a[row * a_stride + n];
            const float *restrict line = b + n * b_stride;
            for (size_t lane = 0; lane < lanes; lane++) sums[lane] = sums[lane] + x * line[lane];
        }
    }
}
