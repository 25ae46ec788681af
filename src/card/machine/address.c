// SPDX-License-Identifier: Apache-2.0
//
// Addresses of a tile's operands and their bounds. A tile is checked once, by the lowest and the
// highest byte that it touches, not once an element.
#include <string.h>

#include "card/machine.h"
#include "base/target_clones.h"
#include "base/odometer.h"
#include "tensor/joined_index.h"

// In wrapping arithmetic: a program with absurd strides gets an absurd address, which the bounds
// check then judges as any other.
static int64_t loop_offset(const isa_operand *operand, uint32_t depth, const queue_state *queue)
{
    uint64_t offset = (uint64_t)operand->offset;
    for (uint32_t n = 0; n < depth; n++)
        offset += (uint64_t)queue->index[n] * (uint64_t)operand->loop_stride[n];
    return (int64_t)offset;
}

static int64_t add(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

static bool inside(int64_t low, byte_range span, uint64_t limit)
{
    uint64_t bytes = (uint64_t)span.high - (uint64_t)span.low;
    return low >= 0 && (uint64_t)low <= limit && bytes <= limit - (uint64_t)low;
}

static bool resolve_lx(core_run *run, const plan_step *step, uint32_t o, int64_t offset,
                       uint8_t **out_address)
{
    byte_range span = step->tile->span[o];
    int64_t low = add(offset, span.low), high = add(offset, span.high);
    if (!inside(low, span, ISA_LX_BYTES)) {
        core_fault(run, step->instruction, (uint64_t)offset,
                   "operand %u touches bytes %lld to %lld of LX, which has %d", o, (long long)low,
                   (long long)high, ISA_LX_BYTES);
        return false;
    }
    *out_address = run->lx + offset;
    return true;
}

static bool resolve_memory(core_run *run, const plan_step *step, uint32_t o, int64_t offset,
                           byte_range span, uint8_t **out_address)
{
    const isa_operand *operand = &step->tile->instruction->operand[o];
    const card_argument *window = &run->arguments[operand->arg];
    if (operand->slot != ISA_NO_SLOT) offset = add(offset, run->parameters[operand->slot]);
    int64_t low = add(offset, span.low), high = add(offset, span.high);
    if (!inside(low, span, window->limit)) {
        uint64_t address = window->base + (uint64_t)(low < 0 ? low : add(high, -1));
        core_fault(run, step->instruction, address,
                   "operand %u touches bytes %lld to %lld of argument %u, which has %llu", o,
                   (long long)low, (long long)high, operand->arg,
                   (unsigned long long)window->limit);
        return false;
    }
    *out_address = run->owner->memory + window->base + offset;
    return true;
}

// The number of element 0, which stands in the place of its address.
static uint8_t *number_of(const core_run *run, const isa_operand *operand, int64_t offset)
{
    if (operand->slot != ISA_NO_SLOT) offset = add(offset, run->parameters[operand->slot]);
    return (uint8_t *)(uintptr_t)offset;
}

typedef struct {
    int32_t least, most;
} row_bounds;

BASE_CLONES
static row_bounds bounds_of_line(const uint8_t *rows, int64_t count)
{
    row_bounds b = {INT32_MAX, INT32_MIN};
    for (int64_t n = 0; n < count; n++) {
        int32_t row;
        memcpy(&row, rows + n * (int64_t)sizeof row, sizeof row);
        b.least = row < b.least ? row : b.least;
        b.most = row > b.most ? row : b.most;
    }
    return b;
}

// Of all rows that a tile names; dims along which the row does not move are not walked.
static row_bounds bounds_of(const plan_tile *tile, const uint8_t *rows)
{
    int64_t extent[ISA_MAX_DIMS], stride[ISA_MAX_DIMS], index[ISA_MAX_DIMS] = {0}, line = 1;
    row_bounds all = {INT32_MAX, INT32_MIN};
    uint32_t dims = 0;
    for (uint32_t d = 0; d < tile->dim_count; d++) {
        if (tile->stride[2][d] == 0) continue;
        extent[dims] = tile->extent[d];
        stride[dims++] = tile->stride[2][d];
    }
    if (dims > 0 && stride[dims - 1] == sizeof(int32_t)) line = extent[--dims];
    odometer_place place = {stride, 0};
    do {
        row_bounds b = bounds_of_line(rows + place.at, line);
        all.least = b.least < all.least ? b.least : all.least;
        all.most = b.most > all.most ? b.most : all.most;
    } while (odometer_next(dims, extent, index, &place, 1));
    return all;
}

// The operand whose rows are chosen, by operand 2, which is resolved already.
static bool resolve_rows(core_run *run, const plan_step *step, const queue_state *queue,
                         uint8_t **out_address)
{
    const plan_tile *tile = step->tile;
    const isa_instruction *i = tile->instruction;
    uint32_t o = isa_row_operand(i->opcode);
    row_bounds named = bounds_of(tile, out_address[2]);
    if (named.least < 0 || named.most >= i->row_count) {
        core_fault(run, step->instruction, 0, "%s of row %lld, outside 0..%lld",
                   isa_describe(i->opcode)->mnemonic,
                   (long long)joined_index_of(named.least < 0 ? named.least : named.most),
                   (long long)i->row_count - 1);
        run->fault.of_index = true;
        return false;
    }
    byte_range span = tile->span[o];
    int64_t first = isa_row_offset(i, named.least), last = isa_row_offset(i, named.most);
    span.low = add(span.low, first < last ? first : last);
    span.high = add(span.high, first < last ? last : first);
    int64_t offset = loop_offset(&i->operand[o], step->depth, queue);
    return resolve_memory(run, step, o, offset, span, &out_address[o]);
}

bool core_resolve(core_run *run, const plan_step *step, const queue_state *queue,
                  uint8_t **out_address)
{
    const isa_instruction *i = step->tile->instruction;
    uint32_t chosen = isa_row_operand(i->opcode);
    for (uint32_t o = 0; o < i->operand_count; o++) {
        const isa_operand *operand = &i->operand[o];
        int64_t offset = loop_offset(operand, step->depth, queue);
        bool good = true;
        if (operand->space == ISA_SPACE_NUMBER)
            out_address[o] = number_of(run, operand, offset);
        else if (operand->space == ISA_SPACE_LX)
            good = resolve_lx(run, step, o, offset, &out_address[o]);
        else if (o != chosen)
            good = resolve_memory(run, step, o, offset, step->tile->span[o], &out_address[o]);
        if (!good) return false;
    }
    return chosen == ISA_NO_OPERAND || resolve_rows(run, step, queue, out_address);
}
