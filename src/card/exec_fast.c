// SPDX-License-Identifier: Apache-2.0
//
// Tiles as loops over runs of lanes: the same bytes as exec_exact.c. What has no fast form, or
// overlaps in a way that makes the order of elements matter, goes to exact_run. This file has the
// choice, copies and matmuls; fast_vector.c and fast_reduce.c the rest.
#include <string.h>

#include "card/matmul.h"
#include "card/runs.h"

// --- Overlap

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
    if (runs_disjoint(tile, address, 0, operand)) return true;
    return same_elements(tile, address, 0, operand) && plan_injective(tile, 0);
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

void fast_copy(const plan_tile *tile, uint8_t *const *address, plan_scratch *scratch)
{
    if (!plan_independent(tile, address, 1)) {
        exact_run(tile, address, scratch);
        return;
    }
    uint32_t bytes = spyre_format_bytes(tile->instruction->operand[0].format);
    int64_t to = run_stride(tile, 0), from = run_stride(tile, 1), count = run_length(tile);
    runs r = first_run(tile, address, 1);
    do copy_run(r.at[0], to, r.at[1], from, count, bytes);
    while (next_run(&r));
}

static void run_gather(const plan_tile *tile, uint8_t *const *address, plan_scratch *scratch)
{
    // The row must be the same along a run, as it is when rows are copied whole.
    if (run_stride(tile, 2) != 0 || !runs_disjoint(tile, address, 0, 2)) {
        exact_run(tile, address, scratch);
        return;
    }
    const isa_instruction *i = tile->instruction;
    uint32_t bytes = spyre_format_bytes(i->operand[0].format);
    int64_t to = run_stride(tile, 0), from = run_stride(tile, 1), count = run_length(tile);
    runs r = first_run(tile, address, 1);
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
    runs r = first_run(tile, address, 1);
    do {
        copy_run(r.at[0], run_stride(tile, 0), element, 0, contiguous ? 1 : run_length(tile),
                 bytes);
        if (contiguous) repeat_run(r.at[0], bytes, (size_t)run_length(tile) * bytes);
    } while (next_run(&r));
}

static bool result_is_apart(const plan_tile *tile, uint8_t *const *address)
{
    return (uintptr_t)address[0] % 4 == 0 && runs_disjoint(tile, address, 0, 1) &&
           runs_disjoint(tile, address, 0, 2);
}

void fast_matmul(const plan_tile *tile, const matmul_operands *cores, uint32_t count,
                 plan_scratch *scratch)
{
    // What is more than one MATMUL was found to be apart when the program was loaded.
    bool apart = tile->product != NULL;
    for (uint32_t n = 0; n < count && apart && tile->product->adds; n++)
        apart = result_is_apart(tile, cores[n]);
    if (apart && matmul_fast(tile->product, cores, count, scratch)) return;
    for (uint32_t n = 0; n < count; n++) {
        if (apart) product_compute(tile->product, cores[n]);
        else exact_run(tile, cores[n], scratch);
    }
}

static void run_matmul(const plan_tile *tile, uint8_t *const *address, plan_scratch *scratch)
{
    const matmul_operands operands = {address[0], address[1], address[2]};
    fast_matmul(tile, &operands, 1, scratch);
}

plan_run *fast_choose(plan_tile *tile)
{
    switch (tile->instruction->opcode) {
    case ISA_LOAD:
    case ISA_STORE: return fast_copy;
    case ISA_GATHER: return run_gather;
    case ISA_VECTOR: return fast_vector(tile);
    case ISA_FILL: return run_fill;
    case ISA_REDUCE:
    case ISA_REDUCESQ: return fast_reduce(tile);
    case ISA_FOLD: return fast_fold;
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
