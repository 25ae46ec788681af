// SPDX-License-Identifier: Apache-2.0
//
// Tiles as loops over runs of lanes: the same bytes as exec_exact.c. The innermost dim is a run,
// taken in chunks through fp32 or fp64 registers (lanes.h); the dims around it are walked. What has
// no fast form, or overlaps in a way that makes the order of elements matter, goes to exact_run.
#include <string.h>

#include "card/integer.h"
#include "card/lanes.h"
#include "card/matmul.h"
#include "card/plan.h"

// --- Walking the runs of a tile

typedef struct {
    const plan_tile *tile;
    uint32_t outer_dims;
    int64_t index[ISA_MAX_DIMS];
    uint8_t *at[ISA_MAX_OPERANDS];          // first element of the run
} runs;

static runs first_run(const plan_tile *tile, uint8_t *const *address)
{
    runs r = {.tile = tile, .outer_dims = tile->dim_count - 1};
    for (uint32_t o = 0; o < tile->instruction->operand_count; o++) r.at[o] = address[o];
    return r;
}

static bool next_run(runs *r)
{
    const plan_tile *tile = r->tile;
    uint32_t operands = tile->instruction->operand_count;
    for (uint32_t d = r->outer_dims; d-- > 0;) {
        for (uint32_t o = 0; o < operands; o++) r->at[o] += tile->stride[o][d];
        if (++r->index[d] < tile->extent[d]) return true;
        for (uint32_t o = 0; o < operands; o++) r->at[o] -= tile->stride[o][d] * tile->extent[d];
        r->index[d] = 0;
    }
    return false;
}

static int64_t run_length(const plan_tile *tile)
{
    return tile->extent[tile->dim_count - 1];
}

static int64_t run_stride(const plan_tile *tile, uint32_t operand)
{
    return tile->stride[operand][tile->dim_count - 1];
}

// --- Overlap

static bool disjoint(const plan_tile *tile, uint8_t *const *address, uint32_t a, uint32_t b)
{
    uintptr_t at_a = (uintptr_t)address[a], at_b = (uintptr_t)address[b];
    plan_span x = tile->span[a], y = tile->span[b];
    return at_a + (uintptr_t)x.high <= at_b + (uintptr_t)y.low ||
           at_b + (uintptr_t)y.high <= at_a + (uintptr_t)x.low;
}

// No two indices share a byte, found by nesting the strides: each clears all shorter ones.
bool plan_injective(const plan_tile *tile, uint32_t operand)
{
    int64_t covered = spyre_format_bytes(tile->instruction->operand[operand].format);
    bool used[ISA_MAX_DIMS] = {false};
    for (uint32_t round = 0; round < tile->dim_count; round++) {
        uint32_t best = ISA_MAX_DIMS;
        for (uint32_t d = 0; d < tile->dim_count; d++) {
            int64_t stride = tile->stride[operand][d];
            if (stride < 0) return false;
            if (!used[d] && (best == ISA_MAX_DIMS || stride < tile->stride[operand][best]))
                best = d;
        }
        used[best] = true;
        int64_t stride = tile->stride[operand][best];
        if (tile->extent[best] == 1) continue;
        if (stride < covered) return false;
        covered += stride * (tile->extent[best] - 1);
    }
    return true;
}

static bool same_elements(const plan_tile *tile, uint8_t *const *address, uint32_t a, uint32_t b)
{
    const isa_instruction *i = tile->instruction;
    uint32_t bytes = spyre_format_bytes(i->operand[a].format);
    if (address[a] != address[b]) return false;
    if (bytes != spyre_format_bytes(i->operand[b].format)) return false;
    for (uint32_t d = 0; d < tile->dim_count; d++)
        if (tile->stride[a][d] != tile->stride[b][d]) return false;
    return true;
}

bool plan_independent(const plan_tile *tile, uint8_t *const *address, uint32_t operand)
{
    if (disjoint(tile, address, 0, operand)) return true;
    return same_elements(tile, address, 0, operand) && plan_injective(tile, 0);
}

static bool all_independent(const plan_tile *tile, uint8_t *const *address)
{
    for (uint32_t o = 1; o < tile->instruction->operand_count; o++)
        if (!plan_independent(tile, address, o)) return false;
    return true;
}

// --- Copies

#define COPY_STRIDED(type)                                                                   \
    static void copy_##type(uint8_t *to, int64_t to_stride, const uint8_t *from,             \
                            int64_t from_stride, int64_t count)                              \
    {                                                                                        \
        for (int64_t n = 0; n < count; n++) {                                                \
            type value;                                                                      \
            memcpy(&value, from + n * from_stride, sizeof value);                            \
            memcpy(to + n * to_stride, &value, sizeof value);                                \
        }                                                                                    \
    }
COPY_STRIDED(uint8_t)
COPY_STRIDED(uint16_t)
COPY_STRIDED(uint32_t)
COPY_STRIDED(uint64_t)

static void copy_run(uint8_t *to, int64_t to_stride, const uint8_t *from, int64_t from_stride,
                     int64_t count, uint32_t bytes)
{
    if (to_stride == bytes && from_stride == bytes) {
        if (to != from) memcpy(to, from, (size_t)count * bytes);
        return;
    }
    switch (bytes) {
    case 1: copy_uint8_t(to, to_stride, from, from_stride, count); return;
    case 2: copy_uint16_t(to, to_stride, from, from_stride, count); return;
    case 4: copy_uint32_t(to, to_stride, from, from_stride, count); return;
    case 8: copy_uint64_t(to, to_stride, from, from_stride, count); return;
    default:
        for (int64_t n = 0; n < count; n++)
            memcpy(to + n * to_stride, from + n * from_stride, bytes);
    }
}

static void run_copy(const plan_tile *tile, uint8_t *const *address, plan_scratch *scratch)
{
    if (!plan_independent(tile, address, 1)) {
        exact_run(tile, address, scratch);
        return;
    }
    uint32_t bytes = spyre_format_bytes(tile->instruction->operand[0].format);
    int64_t to = run_stride(tile, 0), from = run_stride(tile, 1), count = run_length(tile);
    runs r = first_run(tile, address);
    do copy_run(r.at[0], to, r.at[1], from, count, bytes);
    while (next_run(&r));
}

static void run_gather(const plan_tile *tile, uint8_t *const *address, plan_scratch *scratch)
{
    // The row must be the same along a run, as it is when rows are copied whole.
    if (run_stride(tile, 2) != 0 || !disjoint(tile, address, 0, 2)) {
        exact_run(tile, address, scratch);
        return;
    }
    const isa_instruction *i = tile->instruction;
    uint32_t bytes = spyre_format_bytes(i->operand[0].format);
    int64_t to = run_stride(tile, 0), from = run_stride(tile, 1), count = run_length(tile);
    runs r = first_run(tile, address);
    do {
        int32_t row;
        memcpy(&row, r.at[2], sizeof row);
        copy_run(r.at[0], to, r.at[1] + row * i->row_stride, from, count, bytes);
    } while (next_run(&r));
}

// Copies of what is there already, twice as long each time.
static void repeat_run(uint8_t *to, size_t element_bytes, size_t bytes)
{
    for (size_t done = element_bytes; done < bytes; done *= 2)
        memcpy(to + done, to, done < bytes - done ? done : bytes - done);
}

static void run_fill(const plan_tile *tile, uint8_t *const *address, plan_scratch *scratch)
{
    (void)scratch;
    const isa_instruction *i = tile->instruction;
    uint32_t bytes = spyre_format_bytes(i->operand[0].format);
    bool contiguous = run_stride(tile, 0) == bytes;
    uint8_t element[8];
    element_store(element, i->operand[0].format, (double)i->constant[0]);
    runs r = first_run(tile, address);
    do {
        copy_run(r.at[0], run_stride(tile, 0), element, 0, contiguous ? 1 : run_length(tile),
                 bytes);
        if (contiguous) repeat_run(r.at[0], bytes, (size_t)run_length(tile) * bytes);
    } while (next_run(&r));
}

// --- VECTOR

static void run_table(const plan_tile *tile, uint8_t *const *address, plan_scratch *scratch)
{
    if (!plan_independent(tile, address, 1)) {
        exact_run(tile, address, scratch);
        return;
    }
    const uint16_t *table = opfunc_dl16_table(tile->instruction->op);
    int64_t to = run_stride(tile, 0), from = run_stride(tile, 1), count = run_length(tile);
    runs r = first_run(tile, address);
    do {
        for (int64_t n = 0; n < count; n++) {
            uint16_t code;
            memcpy(&code, r.at[1] + n * from, sizeof code);
            memcpy(r.at[0] + n * to, &table[code], sizeof code);
        }
    } while (next_run(&r));
}

static size_t chunk_length(int64_t left)
{
    return (size_t)(left < LANES_CHUNK ? left : LANES_CHUNK);
}

static void run_vector_f32(const plan_tile *tile, uint8_t *const *address, plan_scratch *scratch)
{
    if (!all_independent(tile, address)) {
        exact_run(tile, address, scratch);
        return;
    }
    const isa_instruction *i = tile->instruction;
    lanes_f32_fn *function = lanes_f32_function(i->op);
    float lanes[OPFUNC_MAX_INPUTS][LANES_CHUNK], result[LANES_CHUNK];
    const float *inputs[OPFUNC_MAX_INPUTS] = {lanes[0], lanes[1], lanes[2], lanes[3], lanes[4]};
    for (uint32_t o = i->operand_count; o <= OPFUNC_MAX_INPUTS; o++) inputs[o - 1] = lanes[0];
    runs r = first_run(tile, address);
    do {
        for (int64_t done = 0; done < run_length(tile); done += LANES_CHUNK) {
            size_t count = chunk_length(run_length(tile) - done);
            for (uint32_t o = 1; o < i->operand_count; o++) {
                int64_t stride = run_stride(tile, o);
                lanes_load_f32(lanes[o - 1], r.at[o] + done * stride, stride,
                               i->operand[o].format, count);
            }
            function(result, inputs, i->constant, count);
            lanes_store_f32(r.at[0] + done * run_stride(tile, 0), run_stride(tile, 0),
                            i->operand[0].format, result, count);
        }
    } while (next_run(&r));
}

static void apply_each(const isa_instruction *i, double *result, double (*lanes)[LANES_CHUNK],
                       size_t count)
{
    uint32_t inputs = i->operand_count - 1u;
    for (size_t n = 0; n < count; n++) {
        double value[OPFUNC_MAX_INPUTS];
        for (uint32_t o = 0; o < inputs; o++) value[o] = lanes[o][n];
        result[n] = opfunc_apply(i->op, value, inputs, i->constant);
    }
}

static void run_vector_f64(const plan_tile *tile, uint8_t *const *address, plan_scratch *scratch)
{
    if (!all_independent(tile, address)) {
        exact_run(tile, address, scratch);
        return;
    }
    const isa_instruction *i = tile->instruction;
    lanes_f64_fn *function = lanes_f64_function(i->op);
    double lanes[OPFUNC_MAX_INPUTS][LANES_CHUNK], result[LANES_CHUNK];
    const double *inputs[OPFUNC_MAX_INPUTS] = {lanes[0], lanes[1], lanes[2], lanes[3], lanes[4]};
    // layernormnorm without weight and bias multiplies by 1 and adds 0.
    for (uint32_t o = i->operand_count; o <= OPFUNC_MAX_INPUTS; o++)
        for (size_t n = 0; n < LANES_CHUNK; n++) lanes[o - 1][n] = o == OPFUNC_MAX_INPUTS ? 0 : 1;
    runs r = first_run(tile, address);
    do {
        for (int64_t done = 0; done < run_length(tile); done += LANES_CHUNK) {
            size_t count = chunk_length(run_length(tile) - done);
            for (uint32_t o = 1; o < i->operand_count; o++) {
                int64_t stride = run_stride(tile, o);
                lanes_load_f64(lanes[o - 1], r.at[o] + done * stride, stride,
                               i->operand[o].format, count);
            }
            if (function) function(result, inputs, i->constant, count);
            else apply_each(i, result, lanes, count);
            lanes_store_f64(r.at[0] + done * run_stride(tile, 0), run_stride(tile, 0),
                            i->operand[0].format, result, count);
        }
    } while (next_run(&r));
}

static void run_integers(const plan_tile *tile, uint8_t *const *address, plan_scratch *scratch)
{
    if (!all_independent(tile, address)) {
        exact_run(tile, address, scratch);
        return;
    }
    const isa_instruction *i = tile->instruction;
    uint32_t second = i->operand_count > 2 ? 2 : 1;
    runs r = first_run(tile, address);
    do {
        for (int64_t n = 0; n < run_length(tile); n++) {
            uint64_t a = integer_load(r.at[1] + n * run_stride(tile, 1), i->operand[1].format);
            uint64_t b = integer_load(r.at[second] + n * run_stride(tile, second),
                                      i->operand[second].format);
            integer_store(r.at[0] + n * run_stride(tile, 0), i->operand[0].format,
                          integer_apply(i->op, a, b));
        }
    } while (next_run(&r));
}

static bool copies_bits(const isa_instruction *i)
{
    return opfunc_describe(i->op)->kind == OPFUNC_KIND_COPY &&
           i->operand[0].format == i->operand[1].format;
}

static plan_run *choose_vector(const plan_tile *tile)
{
    const isa_instruction *i = tile->instruction;
    if (copies_bits(i)) return run_copy;
    if (integer_wraps(i)) return run_integers;
    spyre_format inputs[OPFUNC_MAX_INPUTS];
    for (uint32_t o = 1; o < i->operand_count; o++) inputs[o - 1] = i->operand[o].format;
    spyre_format result = i->operand[0].format;
    bool dl16 = result == SPYRE_FORMAT_SEN169_FP16 && inputs[0] == SPYRE_FORMAT_SEN169_FP16;
    bool suffices = lanes_f32_suffices(i->op, result, inputs, i->operand_count - 1u);
    if (suffices && lanes_f32_function(i->op)) return run_vector_f32;
    if (dl16 && opfunc_describe(i->op)->kind == OPFUNC_KIND_UNARY) return run_table;
    return run_vector_f64;
}

// --- Reductions

static void reduce_run(const isa_instruction *i, uint8_t *accumulator, int64_t stride,
                       float *values, size_t count)
{
    opfunc op = i->opcode == ISA_REDUCESQ ? OPFUNC_SUM : i->op;
    if (i->opcode == ISA_REDUCESQ) lanes_square(values, count);
    if (stride == (int64_t)sizeof(float) && (uintptr_t)accumulator % sizeof(float) == 0) {
        lanes_combine(op, (float *)(void *)accumulator, values, count);
        return;
    }
    for (size_t n = 0; n < count; n++) {
        float sum;
        memcpy(&sum, accumulator + (int64_t)n * stride, sizeof sum);
        sum = opfunc_combine(op, sum, values[n]);
        memcpy(accumulator + (int64_t)n * stride, &sum, sizeof sum);
    }
}

static void run_reduce(const plan_tile *tile, uint8_t *const *address, plan_scratch *scratch)
{
    const isa_instruction *i = tile->instruction;
    if (!disjoint(tile, address, 0, 1) || !lanes_fits_f32(i->operand[1].format)) {
        exact_run(tile, address, scratch);
        return;
    }
    int64_t to = run_stride(tile, 0), from = run_stride(tile, 1);
    float values[LANES_CHUNK];
    runs r = first_run(tile, address);
    do {
        for (int64_t done = 0; done < run_length(tile); done += LANES_CHUNK) {
            size_t count = chunk_length(run_length(tile) - done);
            lanes_load_f32(values, r.at[1] + done * from, from, i->operand[1].format, count);
            reduce_run(i, r.at[0] + done * to, to, values, count);
        }
    } while (next_run(&r));
}

static void run_fold(const plan_tile *tile, uint8_t *const *address, plan_scratch *scratch)
{
    const isa_instruction *i = tile->instruction;
    uint32_t last = i->dim_count - 1u;
    if (i->operand[0].stride[last] != sizeof(float) || (uintptr_t)address[0] % sizeof(float)) {
        exact_run(tile, address, scratch);
        return;
    }
    uint32_t index[ISA_MAX_DIMS] = {0};
    uint8_t *at = address[0];
    for (;;) {
        float *values = (float *)(void *)at;
        for (uint32_t half = i->extent[last] / 2; half > 0; half /= 2)
            lanes_combine(i->op, values, values + half, half);
        uint32_t d = last;
        while (d-- > 0) {
            at += i->operand[0].stride[d];
            if (++index[d] < i->extent[d]) break;
            at -= i->operand[0].stride[d] * (int64_t)i->extent[d];
            index[d] = 0;
        }
        if (d == UINT32_MAX) return;
    }
}

static bool result_is_apart(const plan_tile *tile, uint8_t *const *address)
{
    return disjoint(tile, address, 0, 1) && disjoint(tile, address, 0, 2);
}

static void set_strides(isa_instruction *i, const matmul_strides *strides)
{
    i->operand[1].stride[0] = (*strides)[0][0];
    i->operand[1].stride[2] = (*strides)[0][1];
    i->operand[2].stride[1] = (*strides)[1][0];
    i->operand[2].stride[2] = (*strides)[1][1];
}

void fast_matmul(const plan_tile *tile, const matmul_strides *strides,
                 const matmul_operands *cores, uint32_t count, plan_scratch *scratch)
{
    bool apart = true;
    for (uint32_t n = 0; n < count; n++) apart = apart && result_is_apart(tile, cores[n]);
    if (apart && matmul_fast(tile->instruction, strides, cores, count, scratch)) return;
    isa_instruction instruction = *tile->instruction;
    set_strides(&instruction, strides);
    plan_tile translated = *tile;
    translated.instruction = &instruction;
    for (uint32_t n = 0; n < count; n++) exact_run(&translated, cores[n], scratch);
}

static void run_matmul(const plan_tile *tile, uint8_t *const *address, plan_scratch *scratch)
{
    const isa_operand *a = &tile->instruction->operand[1], *b = &tile->instruction->operand[2];
    const matmul_strides own = {{a->stride[0], a->stride[2]}, {b->stride[1], b->stride[2]}};
    const matmul_operands operands = {address[0], address[1], address[2]};
    fast_matmul(tile, &own, &operands, 1, scratch);
}

plan_run *fast_choose(const plan_tile *tile)
{
    switch (tile->instruction->opcode) {
    case ISA_LOAD:
    case ISA_STORE: return run_copy;
    case ISA_GATHER: return run_gather;
    case ISA_VECTOR: return choose_vector(tile);
    case ISA_FILL: return run_fill;
    case ISA_REDUCE:
    case ISA_REDUCESQ: return run_reduce;
    case ISA_FOLD: return run_fold;
    case ISA_MATMUL: return run_matmul;
    case ISA_HALT:
    case ISA_KERNEL:
    case ISA_END_KERNEL:
    case ISA_LOOP:
    case ISA_END_LOOP:
    case ISA_WAIT:
    case ISA_SIGNAL:
    case ISA_SEND:
    case ISA_RECEIVE:
    case ISA_OPCODE_COUNT: break;
    }
    return exact_run;
}
