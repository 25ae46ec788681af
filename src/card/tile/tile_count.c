// SPDX-License-Identifier: Apache-2.0
//
// COUNT: numbers that grow along the dims, a run at a time.
#include <stdlib.h>
#include <string.h>

#include "card/tile/runs.h"
#include "tensor/convert.h"

// Float32 has every whole number up to here.
#define MOST_WHOLE (1 << 24)

// True when all numbers of the tile, from `first` on, lie within `most` of 0.
static bool stays_within(const plan_tile *tile, int64_t first, int64_t most)
{
    byte_range span = tile->span[1];
    int64_t last = span.high - (int64_t)spyre_format_bytes(tile->instruction->operand[1].format);
    return llabs(first) <= most && first + span.low >= -most && first + last <= most;
}

static int32_t number_at(const isa_instruction *i, int64_t number)
{
    if (i->op == OPFUNC_CLIP) return number > 0;
    return (int32_t)number;
}

static void count_integers(const isa_instruction *i, int32_t *to, int64_t first, int64_t step,
                           int64_t count)
{
    for (int64_t n = 0; n < count; n++) to[n] = number_at(i, first + n * step);
}

static void count_floats(const isa_instruction *i, uint8_t *to, int64_t first, int64_t step,
                         int64_t count)
{
    bool halves = i->operand[0].format == SPYRE_FORMAT_SEN169_FP16;
    for (int64_t done = 0; done < count; done += LANES_CHUNK) {
        float values[LANES_CHUNK];
        size_t length = chunk_length(count - done);
        for (size_t n = 0; n < length; n++)
            values[n] = (float)number_at(i, first + (done + (int64_t)n) * step);
        if (halves) convert_float_to_dl16(to + done * 2, values, length);
        else memcpy(to + done * 4, values, length * sizeof *values);
    }
}

static void run_count(const plan_tile *tile, uint8_t *const *address, plan_scratch *scratch)
{
    const isa_instruction *i = tile->instruction;
    bool integers = i->operand[0].format == SPYRE_FORMAT_IEEE_INT32;
    bool aligned = (uintptr_t)address[0] % spyre_format_bytes(i->operand[0].format) == 0;
    int64_t most = integers ? INT32_MAX : MOST_WHOLE;
    if (!aligned || !stays_within(tile, (int64_t)(uintptr_t)address[1], most)) {
        exact_run(tile, address, scratch);
        return;
    }
    runs r;
    first_run(&r, tile, address, 1);
    do {
        int64_t first = (int64_t)(uintptr_t)r.at[1];
        if (integers)
            count_integers(i, (int32_t *)(void *)r.at[0], first, run_stride(tile, 1),
                           run_length(tile));
        else count_floats(i, r.at[0], first, run_stride(tile, 1), run_length(tile));
    } while (next_run(&r));
}

// 1 where the number is positive, else 0.
static bool tells_sign(const isa_instruction *i)
{
    return i->op == OPFUNC_CLIP && i->constant[0] == 0.0f && i->constant[1] == 1.0f;
}

plan_run *tile_count(const plan_tile *tile)
{
    const isa_instruction *i = tile->instruction;
    spyre_format format = i->operand[0].format;
    bool known = format == SPYRE_FORMAT_IEEE_INT32 || format == SPYRE_FORMAT_IEEE_FP32 ||
                 format == SPYRE_FORMAT_SEN169_FP16;
    bool contiguous = run_stride(tile, 0) == spyre_format_bytes(format) || run_length(tile) == 1;
    bool aligned = true;
    for (uint32_t d = 0; d < tile->dim_count; d++)
        aligned = aligned && tile->stride[0][d] % spyre_format_bytes(format) == 0;
    bool fast = known && contiguous && aligned && (i->op == OPFUNC_IDENTITY || tells_sign(i));
    return fast ? run_count : exact_run;
}
