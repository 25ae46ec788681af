// SPDX-License-Identifier: Apache-2.0
//
// COUNT: numbers that grow along the dims, a run at a time.
#include <stdlib.h>

#include "base/target_clones.h"
#include "card/tile/runs.h"
#include "tensor/numeric.h"

// Float32 has every whole number up to here.
#define MOST_WHOLE (1 << 24)

// True when all numbers of the tile, from `first` on, lie within `most` of 0.
static bool stays_within(const plan_tile *tile, int64_t first, int64_t most)
{
    byte_range span = tile->span[1];
    int64_t last = span.high - (int64_t)spyre_format_bytes(tile->instruction->operand[1].format);
    return llabs(first) <= most && first + span.low >= -most && first + last <= most;
}

// Numbers of a run, which fit int32; where the op tells signs, of each whether it is positive.
typedef struct {
    uint32_t first, step;
    bool signs;
} count_run;

BASE_CLONES
static void count_integers(int32_t *to, const count_run *c, size_t count)
{
    const uint32_t first = c->first, step = c->step;
    for (size_t n = 0; n < count; n++) to[n] = (int32_t)(first + (uint32_t)n * step);
    for (size_t n = 0; c->signs && n < count; n++) to[n] = to[n] > 0;
}

BASE_CLONES
static void count_signs(uint16_t *to, const count_run *c, size_t count, uint16_t one)
{
    const uint32_t first = c->first, step = c->step;
    for (size_t n = 0; n < count; n++)
        to[n] = (int32_t)(first + (uint32_t)n * step) > 0 ? one : 0;
}

BASE_CLONES
static void to_floats(float *to, const int32_t *numbers, size_t count)
{
    for (size_t n = 0; n < count; n++) to[n] = (float)numbers[n];
}

static void count_floats(uint8_t *to, spyre_format format, count_run c, size_t count)
{
    int32_t numbers[LANES_CHUNK];
    float values[LANES_CHUNK];
    for (size_t done = 0, length; done < count; done += length) {
        length = chunk_length((int64_t)(count - done));
        count_integers(numbers, &c, length);
        to_floats(values, numbers, length);
        lanes_store_f32(to + done * spyre_format_bytes(format), spyre_format_bytes(format), format,
                        values, length);
        c.first += (uint32_t)length * c.step;
    }
}

static void take_run(const isa_instruction *i, uint8_t *to, const count_run *c, size_t count)
{
    const spyre_format format = i->operand[0].format;
    if (format == SPYRE_FORMAT_IEEE_INT32) count_integers((int32_t *)(void *)to, c, count);
    else if (c->signs && format == SPYRE_FORMAT_SEN169_FP16)
        count_signs((uint16_t *)(void *)to, c, count, dl16_from_float(1.0f));
    else count_floats(to, format, *c, count);
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
        const count_run c = {(uint32_t)(uintptr_t)r.at[1], (uint32_t)run_stride(tile, 1),
                             i->op == OPFUNC_CLIP};
        take_run(i, r.at[0], &c, (size_t)run_length(tile));
    } while (next_run(&r));
}

// 1 where the number is positive, else 0.
static bool tells_sign(const isa_instruction *i)
{
    return i->op == OPFUNC_CLIP && i->constant[0] == 0.0f && i->constant[1] == 1.0f;
}

plan_executor tile_count(const plan_tile *tile)
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
    return (plan_executor){.run = fast ? run_count : exact_run};
}
