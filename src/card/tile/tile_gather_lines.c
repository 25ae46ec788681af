// SPDX-License-Identifier: Apache-2.0
//
// GATHER of elements that each name a row of their own: whether they are taken from the table one
// by one (tile_gather.c), or whole lines of it are copied first, here.
//
// Sticks of a line mostly lie a power of two apart, so far that they share a set of the host's
// caches, which has room for half of them: each element would come from beyond.
#include <string.h>

#include "card/footprint/byte_set.h"
#include "card/tile/row_offsets.h"
#include "card/tile/runs.h"

enum { LINE_BYTES = 16 << 10, RUNS_AHEAD = 4 };

// How many elements are taken from one line.
static int64_t taken_of_line(const plan_tile *tile)
{
    int64_t count = 1;
    for (uint32_t d = 0; d < tile->dim_count; d++)
        if (tile->stride[1][d] == 0) count *= tile->extent[d];
    return count;
}

static bool elements_lie_apart(const plan_tile *tile)
{
    int64_t extent[ISA_MAX_DIMS], stride[ISA_MAX_DIMS];
    for (uint32_t d = 0; d < tile->dim_count; d++) {
        extent[d] = tile->extent[d];
        stride[d] = tile->stride[0][d];
    }
    return byte_runs_lie_apart(tile->dim_count, extent, stride,
                       (int64_t)spyre_format_bytes(tile->instruction->operand[0].format));
}

// Lines in sticks, of which as many elements are taken as to copy them takes.
bool tile_gathers_lines(const plan_tile *tile)
{
    const isa_instruction *i = tile->instruction;
    const int64_t element = spyre_format_bytes(i->operand[1].format);
    return i->opcode == ISA_GATHER && i->row_lanes > 0 && run_stride(tile, 1) == 0 &&
           run_stride(tile, 2) == sizeof(int32_t) && (element == 2 || element == 4) &&
           i->row_count * element <= LINE_BYTES && i->row_count > 2 * (int64_t)i->row_lanes &&
           taken_of_line(tile) >= i->row_count / 4 && elements_lie_apart(tile);
}

static void copy_line(const isa_instruction *i, const uint8_t *from, uint8_t *line)
{
    const size_t element = (size_t)spyre_format_bytes(i->operand[1].format);
    for (int64_t row = 0; row < i->row_count; row += i->row_lanes, from += i->row_stride) {
        const int64_t left = i->row_count - row;
        const size_t lanes = left < i->row_lanes ? (size_t)left : i->row_lanes;
        memcpy(line + (size_t)row * element, from, lanes * element);
    }
}

#define TAKE_ELEMENTS(type)                                                                     \
    static void take_##type(uint8_t *to, int64_t to_stride, const uint8_t *line,                \
                            const uint8_t *rows, int64_t count)                                 \
    {                                                                                           \
        for (int64_t n = 0; n < count; n++) {                                                   \
            int32_t row;                                                                        \
            memcpy(&row, rows + n * (int64_t)sizeof row, sizeof row);                           \
            memcpy(to + n * to_stride, line + row * (int64_t)sizeof(type), sizeof(type));       \
        }                                                                                       \
    }
TAKE_ELEMENTS(uint16_t)
TAKE_ELEMENTS(uint32_t)

// The tile with dims that go from line to line around the others.
static plan_tile line_by_line(const plan_tile *tile)
{
    plan_tile by_line = *tile;
    uint32_t at = 0;
    for (uint32_t inner = 0; inner < 2; inner++)
        for (uint32_t d = 0; d < tile->dim_count; d++) {
            if ((tile->stride[1][d] == 0) != inner) continue;
            by_line.extent[at] = tile->extent[d];
            for (uint32_t o = 0; o < 3; o++) by_line.stride[o][at] = tile->stride[o][d];
            at++;
        }
    return by_line;
}

void tile_gather_lines(const plan_tile *tile, uint8_t *const *address, plan_scratch *scratch)
{
    (void)scratch;
    const bool narrow = spyre_format_bytes(tile->instruction->operand[1].format) == 2;
    const plan_tile by_line = line_by_line(tile);
    const uint8_t *copied = NULL;
    uint8_t line[LINE_BYTES];
    runs r, ahead;
    bool more = true;
    first_run(&r, &by_line, address, 1);
    first_run(&ahead, &by_line, address, 1);
    for (uint32_t n = 0; n < RUNS_AHEAD && more; n++) more = next_run(&ahead);
    do {
        if (more) {
            announce(ahead.at[2]);
            __builtin_prefetch(ahead.at[0], 1);
            more = next_run(&ahead);
        }
        if (copied != r.at[1]) copy_line(tile->instruction, r.at[1], line);
        copied = r.at[1];
        (narrow ? take_uint16_t : take_uint32_t)(r.at[0], run_stride(tile, 0), line, r.at[2],
                                                 run_length(tile));
    } while (next_run(&r));
}
