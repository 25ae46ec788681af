// SPDX-License-Identifier: Apache-2.0
//
// REDUCE, REDUCESQ and FOLD.
#include <stdlib.h>
#include <string.h>

#include "card/footprint/byte_set.h"
#include "card/tile/runs.h"
#include "card/simd/lanes.h"
#include "card/simd/simd.h"

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

// --- Chunks

static void run_reduce(const plan_tile *tile, uint8_t *const *address, plan_scratch *scratch)
{
    const isa_instruction *i = tile->instruction;
    (void)scratch;
    int64_t to = run_stride(tile, 0), from = run_stride(tile, 1);
    float values[LANES_CHUNK];
    runs r;
    first_run(&r, tile, address, 1);
    do {
        for (int64_t done = 0; done < run_length(tile); done += LANES_CHUNK) {
            size_t count = chunk_length(run_length(tile) - done);
            lanes_load_f32(values, r.at[1] + done * from, from, i->operand[1].format, count);
            reduce_run(i, r.at[0] + done * to, to, values, count);
        }
    } while (next_run(&r));
}

// --- Vector loops

// Lanes side by side in both operands. The dims around them may go over the same accumulators, the
// one around those over others.
static void run_reduce_simd(const plan_tile *tile, uint8_t *const *address,
                             plan_scratch *scratch)
{
    if ((uintptr_t)address[0] % sizeof(float) != 0) {
        run_reduce(tile, address, scratch);
        return;
    }
    simd_reduction s = {.rows = 1, .count = (size_t)run_length(tile), .depth = 1, .turns = 1};
    simd_reads(tile->instruction->operand[1].format, &s.format);
    uint32_t inner = 1;
    if (inner < tile->dim_count && outer_stride(tile, inner, 0) == 0) {
        s.depth = (size_t)outer_extent(tile, inner);
        s.step = outer_stride(tile, inner++, 1);
    }
    if (inner > 1 && inner < tile->dim_count && outer_stride(tile, inner, 0) == 0) {
        s.turns = (size_t)outer_extent(tile, inner);
        s.turn = outer_stride(tile, inner++, 1);
    }
    if (outer_stride(tile, inner, 0) >= run_length(tile) * (int64_t)sizeof(float)) {
        s.rows = (size_t)outer_extent(tile, inner);
        s.in_row = outer_stride(tile, inner, 1);
        s.accumulator_row = outer_stride(tile, inner++, 0);
    }
    runs r;
    first_run(&r, tile, address, inner);
    do {
        s.accumulator = (float *)(void *)r.at[0];
        s.in = r.at[1];
        tile->reducer(&s);
    } while (next_run(&r));
}

static bool aligned_floats(const plan_tile *tile)
{
    for (uint32_t d = 0; d + 1 < tile->dim_count; d++)
        if (tile->stride[0][d] % (int64_t)sizeof(float) != 0) return false;
    return run_stride(tile, 0) == sizeof(float);
}

// The least distance between what one accumulator takes.
static int64_t nearest_step(const plan_tile *tile)
{
    int64_t least = INT64_MAX;
    for (uint32_t d = 0; d + 1 < tile->dim_count; d++)
        if (tile->stride[0][d] == 0 && llabs(tile->stride[1][d]) < least)
            least = llabs(tile->stride[1][d]);
    return least;
}

bool runs_accumulators_apart(const plan_tile *tile, uint32_t operand)
{
    int64_t bytes = spyre_format_bytes(tile->instruction->operand[operand].format);
    int64_t extent[ISA_MAX_DIMS], stride[ISA_MAX_DIMS];
    uint32_t count = 0;
    for (uint32_t d = 0; d < tile->dim_count; d++) {
        if (tile->stride[operand][d] == 0) continue;
        extent[count] = tile->extent[d];
        stride[count++] = tile->stride[operand][d];
    }
    return byte_runs_lie_apart(count, extent, stride, bytes);
}

// Accumulators whose inputs lie farther apart than what one of them takes come one after the other:
// each stays in registers. The order of each one's elements stays.
static void take_in_turns(plan_tile *tile)
{
    int64_t nearest = nearest_step(tile);
    if (!runs_accumulators_apart(tile, 0)) return;
    for (uint32_t n = 1; n + 1 < tile->dim_count; n++) {
        if (tile->stride[0][n] == 0 || llabs(tile->stride[1][n]) <= nearest) continue;
        for (uint32_t d = n; d > 0 && tile->stride[0][d - 1] == 0; d--)
            plan_swap_dims(tile, d - 1, d);
    }
}

plan_executor tile_reduce(plan_tile *tile)
{
    simd_format format;
    spyre_format input = tile->instruction->operand[1].format;
    const bool integers = isa_accumulates_integers(tile->instruction);
    const bool dense = simd_reads(input, &format) && aligned_floats(tile) &&
                       run_stride(tile, 1) == spyre_format_bytes(input);
    if (integers || dense) take_in_turns(tile);
    if (integers) return tile_reduce_integers(tile);
    tile->reducer = dense ? simd_in_use()->reduce[plan_sum_of(tile->instruction)] : NULL;
    return (plan_executor){tile->reducer            ? run_reduce_simd
                           : lanes_fits_f32(input) ? run_reduce
                                                    : exact_run, NEEDS_APART};
}

// --- FOLD

static void fold_row(opfunc op, simd_folder *fold, float *values, uint32_t count)
{
    if (fold && count >= SIMD_LEAST_FOLD) {
        fold(values, count);
        return;
    }
    for (uint32_t half = count / 2; half > 0; half /= 2)
        lanes_combine(op, values, values + half, half);
}

// Rows are floats where a host wants them.
static bool has_float_rows(const isa_instruction *i)
{
    bool aligned = true;
    for (uint32_t d = 0; d + 1u < i->dim_count; d++)
        aligned = aligned && i->operand[0].stride[d] % (int64_t)sizeof(float) == 0;
    return aligned && i->operand[0].stride[i->dim_count - 1u] == sizeof(float);
}

static void run_fold(const plan_tile *tile, uint8_t *const *address, plan_scratch *scratch)
{
    const isa_instruction *i = tile->instruction;
    uint32_t last = i->dim_count - 1u;
    (void)scratch;
    bool integers = isa_accumulates_integers(i);
    simd_folder *fold = simd_in_use()->fold[plan_sum_of(i)];
    uint32_t index[ISA_MAX_DIMS] = {0};
    uint8_t *at = address[0];
    for (;;) {
        if (integers) tile_fold_integers(i->op, at, i->extent[last]);
        else fold_row(i->op, fold, (float *)(void *)at, i->extent[last]);
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

plan_executor tile_fold(const plan_tile *tile)
{
    return (plan_executor){has_float_rows(tile->instruction) ? run_fold : exact_run,
                           NEEDS_ALIGNED};
}
