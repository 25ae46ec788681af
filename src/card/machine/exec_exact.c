// SPDX-License-Identifier: Apache-2.0
//
// What instructions do, element by element in the order of the dims (the last one fastest): the
// definition that tile_run.c is held to. Slow on purpose.
#include <math.h>
#include <string.h>

#include "card/machine/exec_integers.h"
#include "card/plan.h"
#include "tensor/accumulate.h"
#include "tensor/ranking.h"
#include "tensor/running_value.h"

// Walks the index space of an instruction and keeps the byte offset of every operand.
typedef struct {
    const isa_instruction *i;
    uint32_t index[ISA_MAX_DIMS];
    int64_t offset[ISA_MAX_OPERANDS];
} walk;

static bool walk_next(walk *w)
{
    const isa_instruction *i = w->i;
    for (uint32_t d = i->dim_count; d-- > 0;) {
        for (uint32_t o = 0; o < i->operand_count; o++) w->offset[o] += i->operand[o].stride[d];
        if (++w->index[d] < i->extent[d]) return true;
        for (uint32_t o = 0; o < i->operand_count; o++)
            w->offset[o] -= i->operand[o].stride[d] * (int64_t)i->extent[d];
        w->index[d] = 0;
    }
    return false;
}

static float load_float(const uint8_t *address, spyre_format format)
{
    return (float)element_load(address, format);
}

static void copy(const isa_instruction *i, uint8_t *const *address)
{
    size_t bytes = spyre_format_bytes(i->operand[0].format);
    walk w = {.i = i};
    do memmove(address[0] + w.offset[0], address[1] + w.offset[1], bytes);
    while (walk_next(&w));
}

static void gather(const isa_instruction *i, uint8_t *const *address)
{
    size_t bytes = spyre_format_bytes(i->operand[0].format);
    walk w = {.i = i};
    do {
        int32_t row;
        memcpy(&row, address[2] + w.offset[2], sizeof row);
        memmove(address[0] + w.offset[0], address[1] + w.offset[1] + isa_row_offset(i, row),
                bytes);
    } while (walk_next(&w));
}

static void scatter(const isa_instruction *i, uint8_t *const *address)
{
    size_t bytes = spyre_format_bytes(i->operand[0].format);
    walk w = {.i = i};
    do {
        int32_t row;
        memcpy(&row, address[2] + w.offset[2], sizeof row);
        memmove(address[0] + w.offset[0] + isa_row_offset(i, row), address[1] + w.offset[1],
                bytes);
    } while (walk_next(&w));
}

static void accumulate(const isa_instruction *i, uint8_t *const *address)
{
    walk w = {.i = i};
    do {
        int32_t row;
        memcpy(&row, address[2] + w.offset[2], sizeof row);
        accumulate_element(i->op, address[0] + w.offset[0] + isa_row_offset(i, row),
                           i->operand[0].format, address[1] + w.offset[1], i->operand[1].format);
    } while (walk_next(&w));
}

static void integers(const isa_instruction *i, uint8_t *const *address)
{
    walk w = {.i = i};
    do {
        uint64_t value[ISA_MAX_OPERANDS] = {0};
        for (uint32_t o = 1; o < i->operand_count; o++)
            value[o] = exec_integer_load(address[o] + w.offset[o], i->operand[o].format);
        exec_integer_store(address[0] + w.offset[0], i->operand[0].format,
                           exec_integer_apply(i->op, value[1], value[2]));
    } while (walk_next(&w));
}

static void vector(const isa_instruction *i, uint8_t *const *address)
{
    bool copies = opfunc_describe(i->op)->kind == OPFUNC_KIND_COPY;
    if (copies && i->operand[0].format == i->operand[1].format) {
        copy(i, address);
        return;
    }
    if (exec_integer_wraps(i)) {
        integers(i, address);
        return;
    }
    uint32_t inputs = i->operand_count - 1u;
    walk w = {.i = i};
    do {
        double value[ISA_MAX_OPERANDS], result;
        for (uint32_t o = 0; o < inputs; o++)
            value[o] = element_load(address[o + 1] + w.offset[o + 1], i->operand[o + 1].format);
        if (i->op == OPFUNC_LAYERNORMSCALE)
            result = opfunc_layernormscale(value[0], value[1], i->constant[0]);
        else
            result = opfunc_apply(i->op, value, inputs, i->constant);
        element_store(address[0] + w.offset[0], i->operand[0].format, result);
    } while (walk_next(&w));
}

static void fill(const isa_instruction *i, uint8_t *const *address)
{
    walk w = {.i = i};
    do element_store(address[0] + w.offset[0], i->operand[0].format, (double)i->constant[0]);
    while (walk_next(&w));
}

// Of a number its low 32 bits count.
static void count(const isa_instruction *i, uint8_t *const *address)
{
    uint64_t first = (uint64_t)(uintptr_t)address[1];
    walk w = {.i = i};
    do {
        double number = (int32_t)(uint32_t)(first + (uint64_t)w.offset[1]);
        element_store(address[0] + w.offset[0], i->operand[0].format,
                      opfunc_apply(i->op, &number, 1, i->constant));
    } while (walk_next(&w));
}

static void reduce(const isa_instruction *i, uint8_t *const *address)
{
    bool square = i->opcode == ISA_REDUCESQ, integers = isa_accumulates_integers(i);
    opfunc op = square ? OPFUNC_SUM : i->op;
    walk w = {.i = i};
    do {
        accumulator_cell cell, next;
        if (integers) memcpy(&next, address[1] + w.offset[1], sizeof next);
        else next.real = load_float(address[1] + w.offset[1], i->operand[1].format);
        memcpy(&cell, address[0] + w.offset[0], sizeof cell);
        if (square) next.real *= next.real;
        cell = accumulator_join(op, integers, cell, next);
        memcpy(address[0] + w.offset[0], &cell, sizeof cell);
    } while (walk_next(&w));
}

// The tree halves: element n combines with n + half, until one is left.
static void fold_one(const isa_instruction *i, uint8_t *base, int64_t stride, uint32_t count)
{
    bool integers = isa_accumulates_integers(i);
    for (uint32_t half = count / 2; half > 0; half /= 2) {
        for (uint32_t n = 0; n < half; n++) {
            accumulator_cell near, far;
            memcpy(&near, base + n * stride, sizeof near);
            memcpy(&far, base + (n + half) * stride, sizeof far);
            near = accumulator_join(i->op, integers, near, far);
            memcpy(base + n * stride, &near, sizeof near);
        }
    }
}

static void fold(const isa_instruction *i, uint8_t *const *address)
{
    isa_instruction outer = isa_copy(i);
    outer.dim_count--;
    walk w = {.i = &outer};
    uint32_t last = outer.dim_count;
    do fold_one(i, address[0] + w.offset[0], i->operand[0].stride[last], i->extent[last]);
    while (walk_next(&w));
}

// int8 times int8 in int32, which wraps.
static void matmul_integers(const isa_instruction *i, uint8_t *c, const uint8_t *a,
                            const uint8_t *b)
{
    int64_t lanes = matmul_lanes(i);
    uint32_t accumulator;
    memcpy(&accumulator, c, sizeof accumulator);
    for (int64_t k = 0; k < i->extent[2]; k++) {
        int32_t x = (int8_t)a[k / lanes * i->operand[1].stride[2] + k % lanes];
        int32_t y = (int8_t)b[k * i->operand[2].stride[2]];
        accumulator += (uint32_t)(x * y);
    }
    memcpy(c, &accumulator, sizeof accumulator);
}

static void matmul_element(const isa_instruction *i, uint8_t *c, const uint8_t *a,
                           const uint8_t *b)
{
    int64_t lanes = matmul_lanes(i);
    const isa_operand *left = &i->operand[1], *right = &i->operand[2];
    int64_t element = spyre_format_bytes(left->format);
    float accumulator;
    memcpy(&accumulator, c, sizeof accumulator);
    for (int64_t k = 0; k < i->extent[2]; k++) {
        const uint8_t *a_k = a + k / lanes * left->stride[2] + k % lanes * element;
        float x = load_float(a_k, left->format);
        float y = load_float(b + k * right->stride[2], right->format);
        accumulator = fmaf(x, y, accumulator);
    }
    memcpy(c, &accumulator, sizeof accumulator);
}

static void matmul(const isa_instruction *i, uint8_t *const *address)
{
    const isa_operand *c = &i->operand[0], *a = &i->operand[1], *b = &i->operand[2];
    int64_t b_bytes = spyre_format_bytes(b->format);
    bool integers = c->format == SPYRE_FORMAT_IEEE_INT32;
    for (int64_t row = 0; row < i->extent[0]; row++) {
        for (int64_t stick = 0; stick < i->extent[1]; stick++) {
            for (int64_t lane = 0; lane < matmul_lanes(i); lane++) {
                uint8_t *sum = address[0] + row * c->stride[0] + stick * c->stride[1] + lane * 4;
                const uint8_t *left = address[1] + row * a->stride[0];
                const uint8_t *right = address[2] + stick * b->stride[1] + lane * b_bytes;
                if (integers) matmul_integers(i, sum, left, right);
                else matmul_element(i, sum, left, right);
            }
        }
    }
}

// Of a candidate, how many came before it in the walk over the dims that count them: those from
// `first` on along which the operand stands still.
static uint32_t candidate(const walk *w, uint32_t operand, uint32_t first)
{
    uint32_t number = 0;
    for (uint32_t d = first; d < w->i->dim_count; d++)
        if (w->i->operand[operand].stride[d] == 0) number = number * w->i->extent[d] + w->index[d];
    return number;
}

static void rank(const isa_instruction *i, uint8_t *const *address)
{
    uint32_t ranks = i->extent[0], first;
    isa_instruction rest = isa_copy(i);
    rest.extent[0] = 1;
    memcpy(&first, address[2], sizeof first);
    walk w = {.i = &rest};
    do {
        int32_t value = ranking_load(i->op, address[1] + w.offset[1], i->operand[1].format);
        int64_t entry = ranking_entry(value, first + candidate(&w, 0, 1));
        if (i->operand_count > 3 && entry >= ranking_at(address[3] + w.offset[3])) continue;
        ranking_insert(address[0] + w.offset[0], i->operand[0].stride[0], ranks, entry);
    } while (walk_next(&w));
}

static void ranked(const isa_instruction *i, uint8_t *const *address)
{
    walk w = {.i = i};
    do
        ranking_store(i->op, ranking_at(address[1] + w.offset[1]), address[0] + w.offset[0],
                      i->operand[0].format);
    while (walk_next(&w));
}

static void scan(const isa_instruction *i, uint8_t *const *address)
{
    uint32_t first = 0;
    if (i->operand_count > 3) memcpy(&first, address[3], sizeof first);
    walk w = {.i = i};
    do {
        int32_t position = (int32_t)(first + candidate(&w, 1, 0));
        int64_t state = ranking_at(address[1] + w.offset[1]);
        state = running_next(i->op, state, address[2] + w.offset[2], i->operand[2].format,
                             position);
        memcpy(address[1] + w.offset[1], &state, sizeof state);
        running_store(i->op, state, address[0] + w.offset[0], i->operand[0].format);
    } while (walk_next(&w));
}

void exact_run(const plan_tile *tile, uint8_t *const *address, plan_scratch *scratch)
{
    (void)scratch;
    const isa_instruction *i = tile->instruction;
    switch (i->opcode) {
    case ISA_LOAD:
    case ISA_STORE: copy(i, address); return;
    case ISA_GATHER: gather(i, address); return;
    case ISA_SCATTER: scatter(i, address); return;
    case ISA_ACCUMULATE: accumulate(i, address); return;
    case ISA_VECTOR: vector(i, address); return;
    case ISA_FILL: fill(i, address); return;
    case ISA_COUNT: count(i, address); return;
    case ISA_REDUCE:
    case ISA_REDUCESQ: reduce(i, address); return;
    case ISA_FOLD: fold(i, address); return;
    case ISA_MATMUL: matmul(i, address); return;
    case ISA_RANK: rank(i, address); return;
    case ISA_RANKED: ranked(i, address); return;
    case ISA_SCAN: scan(i, address); return;
    case ISA_HALT:
    case ISA_KERNEL:
    case ISA_END_KERNEL:
    case ISA_LOOP:
    case ISA_END_LOOP:
    case ISA_WAIT:
    case ISA_SIGNAL:
    case ISA_SEND:
    case ISA_RECEIVE:
    case ISA_OPCODE_COUNT: return;
    }
}
