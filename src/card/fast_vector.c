// SPDX-License-Identifier: Apache-2.0
//
// VECTOR. Tiles whose runs are dense or repeat one element, in the formats of card/strip.h, go
// through strips; the rest in chunks through fp32 or fp64 registers in memory (card/lanes.h).
#include <string.h>

#include "card/integer.h"
#include "card/lanes.h"
#include "card/runs.h"
#include "card/strip.h"

// --- Strips

// Runs of the tile that strips can take: dense, or of inputs one element again and again.
static bool strip_shaped(const plan_tile *tile)
{
    const isa_instruction *i = tile->instruction;
    for (uint32_t o = 0; o < i->operand_count; o++) {
        int64_t stride = run_stride(tile, o);
        if (stride == spyre_format_bytes(i->operand[o].format) || run_length(tile) == 1) continue;
        if (o == 0 || stride != 0) return false;
    }
    return true;
}

static strip strip_of(const plan_tile *tile)
{
    const isa_instruction *i = tile->instruction;
    strip s = {.rows = (size_t)row_count(tile), .count = (size_t)run_length(tile)};
    s.inputs = i->operand_count - 1u;
    s.constant = i->constant;
    for (uint32_t o = 0; o < i->operand_count; o++) {
        s.operand[o].row_stride = row_stride(tile, o);
        strip_reads(i->operand[o].format, &s.operand[o].format);
        s.operand[o].repeats = run_stride(tile, o) == 0;
    }
    return s;
}

static void run_strip(const plan_tile *tile, uint8_t *const *address, plan_scratch *scratch)
{
    if (!runs_independent(tile, address)) {
        exact_run(tile, address, scratch);
        return;
    }
    strip s = strip_of(tile);
    runs r = first_run(tile, address, 2);
    do {
        for (uint32_t o = 0; o <= s.inputs; o++) s.operand[o].at = r.at[o];
        tile->strip(&s);
    } while (next_run(&r));
}

// --- Chunks

static void run_table(const plan_tile *tile, uint8_t *const *address, plan_scratch *scratch)
{
    if (!plan_independent(tile, address, 1)) {
        exact_run(tile, address, scratch);
        return;
    }
    const uint16_t *table = opfunc_dl16_table(tile->instruction->op);
    int64_t to = run_stride(tile, 0), from = run_stride(tile, 1), count = run_length(tile);
    runs r = first_run(tile, address, 1);
    bool dense = to == 2 && from == 2;
    do {
        if (dense) strip_in_use()->lookup(r.at[0], r.at[1], table, (size_t)count);
        for (int64_t n = 0; n < count && !dense; n++) {
            uint16_t code;
            memcpy(&code, r.at[1] + n * from, sizeof code);
            memcpy(r.at[0] + n * to, &table[code], sizeof code);
        }
    } while (next_run(&r));
}

// Of an operand that is not there: layernormnorm without weight and bias multiplies by 1 and adds 0.
static float neutral_input(uint32_t operand)
{
    return operand == OPFUNC_MAX_INPUTS ? 0.0f : 1.0f;
}

static void run_vector_f32(const plan_tile *tile, uint8_t *const *address, plan_scratch *scratch)
{
    if (!runs_independent(tile, address)) {
        exact_run(tile, address, scratch);
        return;
    }
    const isa_instruction *i = tile->instruction;
    lanes_f32_fn *function = lanes_f32_function(i->op);
    float lanes[OPFUNC_MAX_INPUTS][LANES_CHUNK], result[LANES_CHUNK];
    const float *inputs[OPFUNC_MAX_INPUTS] = {lanes[0], lanes[1], lanes[2], lanes[3], lanes[4]};
    for (uint32_t o = i->operand_count; o <= OPFUNC_MAX_INPUTS; o++)
        for (size_t n = 0; n < LANES_CHUNK; n++) lanes[o - 1][n] = neutral_input(o);
    runs r = first_run(tile, address, 1);
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
    if (!runs_independent(tile, address)) {
        exact_run(tile, address, scratch);
        return;
    }
    const isa_instruction *i = tile->instruction;
    lanes_f64_fn *function = lanes_f64_function(i->op);
    double lanes[OPFUNC_MAX_INPUTS][LANES_CHUNK], result[LANES_CHUNK];
    const double *inputs[OPFUNC_MAX_INPUTS] = {lanes[0], lanes[1], lanes[2], lanes[3], lanes[4]};
    for (uint32_t o = i->operand_count; o <= OPFUNC_MAX_INPUTS; o++)
        for (size_t n = 0; n < LANES_CHUNK; n++) lanes[o - 1][n] = (double)neutral_input(o);
    runs r = first_run(tile, address, 1);
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
    if (!runs_independent(tile, address)) {
        exact_run(tile, address, scratch);
        return;
    }
    const isa_instruction *i = tile->instruction;
    uint32_t second = i->operand_count > 2 ? 2 : 1;
    runs r = first_run(tile, address, 1);
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

plan_run *fast_vector(plan_tile *tile)
{
    const isa_instruction *i = tile->instruction;
    if (copies_bits(i)) return fast_copy;
    if (integer_wraps(i)) return run_integers;
    spyre_format inputs[OPFUNC_MAX_INPUTS];
    for (uint32_t o = 1; o < i->operand_count; o++) inputs[o - 1] = i->operand[o].format;
    spyre_format result = i->operand[0].format;
    bool dl16 = result == SPYRE_FORMAT_SEN169_FP16 && inputs[0] == SPYRE_FORMAT_SEN169_FP16;
    bool suffices = lanes_f32_suffices(i->op, result, inputs, i->operand_count - 1u);
    if (!suffices && dl16 && opfunc_describe(i->op)->kind == OPFUNC_KIND_UNARY) return run_table;
    tile->strip = strip_find(i->op, result, inputs, i->operand_count - 1u);
    if (tile->strip && strip_shaped(tile)) return run_strip;
    if (suffices && lanes_f32_function(i->op)) return run_vector_f32;
    return run_vector_f64;
}
