// SPDX-License-Identifier: Apache-2.0
//
// MATMUL of int8, whose results are apart from its operands: a line of sums at a time, which wrap,
// so that no order of the additions matters.
#include "card/matmul/matmul.h"

#include <string.h>

#include "base/target_clones.h"

enum { LANES = 128 };

BASE_CLONES
static void add_line(int32_t *restrict sums, const int8_t *restrict line, int32_t factor)
{
    for (int lane = 0; lane < LANES; lane++)
        sums[lane] = (int32_t)((uint32_t)sums[lane] + (uint32_t)(factor * line[lane]));
}

static void multiply_line(const isa_instruction *i, uint8_t *c, const uint8_t *a, const uint8_t *b)
{
    int32_t sums[LANES];
    memcpy(sums, c, sizeof sums);
    for (int64_t k = 0; k < i->extent[2]; k++) {
        int8_t line[LANES];
        int32_t factor = (int8_t)a[k / LANES * i->operand[1].stride[2] + k % LANES];
        if (factor == 0) continue;
        memcpy(line, b + k * i->operand[2].stride[2], sizeof line);
        add_line(sums, line, factor);
    }
    memcpy(c, sums, sizeof sums);
}

void matmul_integers(const isa_instruction *i, uint8_t *const *operand)
{
    for (int64_t row = 0; row < i->extent[0]; row++)
        for (int64_t stick = 0; stick < i->extent[1]; stick++)
            multiply_line(i, operand[0] + row * i->operand[0].stride[0] +
                                 stick * i->operand[0].stride[1],
                          operand[1] + row * i->operand[1].stride[0],
                          operand[2] + stick * i->operand[2].stride[1]);
}
