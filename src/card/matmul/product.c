// SPDX-License-Identifier: Apache-2.0
#include "card/matmul/product.h"

#include <math.h>

#include "card/plan.h"
#include "tensor/numeric.h"

spyre_status product_repeat(arena *memory, product_list *list, uint32_t count,
                            const int64_t *step, bool *out_done)
{
    uint32_t own = list->count;
    *out_done = (uint64_t)own * count <= PRODUCT_LONGEST;
    if (!*out_done) return NULL;
    for (uint32_t n = 1; n < count; n++) {
        for (uint32_t m = 0; m < own; m++) {
            product_index index = list->items[m];
            for (int o = 0; o < PRODUCT_OPERANDS; o++) index.at[o] += (int64_t)n * step[o];
            TRY(VEC_PUSH(memory, list, index));
        }
    }
    return NULL;
}

static spyre_status list_steps(arena *memory, uint32_t count, int64_t c, int64_t a, int64_t b,
                               product_list *out)
{
    TRY(VEC_ROOM(memory, out, count));
    for (; out->count < count; out->count++) {
        const int64_t n = out->count;
        out->items[n] = (product_index){.at = {c * n, a * n, b * n}};
    }
    return NULL;
}

// No two results share a byte, and all are aligned where the first one is.
static bool plain_result(const isa_instruction *i)
{
    const isa_operand *c = &i->operand[0];
    int64_t line = (int64_t)matmul_lanes(i) * 4, inner = 0, outer = 1;
    if (c->stride[0] % 4 != 0 || c->stride[1] % 4 != 0) return false;
    if (i->extent[0] == 1 || (i->extent[1] > 1 && c->stride[1] < c->stride[0]))
        inner = 1, outer = 0;
    if (i->extent[inner] > 1 && c->stride[inner] < line) return false;
    if (i->extent[inner] > 1) line += c->stride[inner] * (i->extent[inner] - 1);
    return i->extent[outer] == 1 || c->stride[outer] >= line;
}

spyre_status product_of(arena *memory, const isa_instruction *i, product **out_product)
{
    const isa_operand *c = &i->operand[0], *a = &i->operand[1], *b = &i->operand[2];
    uint32_t lanes = matmul_lanes(i), k = i->extent[2], sticks = (k - 1) / lanes + 1;
    bool fits = i->extent[0] <= PRODUCT_LONGEST && i->extent[1] <= PRODUCT_LONGEST &&
                sticks <= PRODUCT_LONGEST;
    *out_product = NULL;
    if (!fits || !plain_result(i)) return NULL;
    product *x = ARENA_NEW(memory, product, 1);
    TRY_ALLOC(x);
    *x = (product){.format = a->format, .result = c->format, .adds = true, .lanes = lanes,
                   .kept = lanes, .line = b->stride[2], .depth = k};
    TRY(list_steps(memory, 1, 0, 0, 0, &x->batches));
    TRY(list_steps(memory, i->extent[0], c->stride[0], a->stride[0], 0, &x->rows));
    TRY(list_steps(memory, i->extent[1], c->stride[1], 0, b->stride[1], &x->columns));
    TRY(list_steps(memory, sticks, 0, a->stride[2], b->stride[2] * lanes, &x->runs));
    for (uint32_t n = 0; n < sticks; n++)
        x->runs.items[n].run = k - n * lanes < lanes ? k - n * lanes : lanes;
    *out_product = x;
    return NULL;
}

// --- By definition

static float one_result(const product *x, const uint8_t *a, const uint8_t *b, float sum)
{
    int64_t element = spyre_format_bytes(x->format);
    for (uint32_t n = 0; n < x->runs.count; n++) {
        const product_index *run = &x->runs.items[n];
        for (int64_t k = 0; k < run->run; k++)
            sum = fmaf((float)element_load(a + run->at[PRODUCT_A] + k * element, x->format),
                       (float)element_load(b + run->at[PRODUCT_B] + k * x->line, x->format), sum);
    }
    return sum;
}

static void compute_line(const product *x, uint8_t *const *operand, const product_index *batch,
                         const product_index *row, const product_index *column)
{
    int64_t at[PRODUCT_OPERANDS], element = spyre_format_bytes(x->format);
    for (int o = 0; o < PRODUCT_OPERANDS; o++) at[o] = batch->at[o] + row->at[o] + column->at[o];
    for (uint32_t lane = 0; lane < x->kept; lane++) {
        uint8_t *c = operand[PRODUCT_C] + at[PRODUCT_C] + lane * spyre_format_bytes(x->result);
        float sum = x->adds ? (float)element_load(c, x->result) : 0.0f;
        sum = one_result(x, operand[PRODUCT_A] + at[PRODUCT_A],
                         operand[PRODUCT_B] + at[PRODUCT_B] + lane * element, sum);
        element_store(c, x->result, (double)sum);
    }
}

void product_compute(const product *x, uint8_t *const *operand)
{
    for (uint32_t n = 0; n < x->batches.count; n++)
        for (uint32_t row = 0; row < x->rows.count; row++)
            for (uint32_t column = 0; column < x->columns.count; column++)
                compute_line(x, operand, &x->batches.items[n], &x->rows.items[row],
                             &x->columns.items[column]);
}
