// SPDX-License-Identifier: Apache-2.0
//
// Tiles as loops over runs of lanes: the same bytes as exec_exact.c. What has no fast form, or
// overlaps in a way that makes the order of elements matter (tile_overlap.c), goes to exact_run.
// This file has the choice and matmuls; tile_copy.c, tile_gather.c, tile_vector.c and tile_reduce.c
// the rest.
#include <string.h>

#include "card/tile/runs.h"
#include "card/matmul/matmul.h"

// --- FILL and MATMUL

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
    runs r;
    first_run(&r, tile, address, 1);
    do {
        copy_elements(r.at[0], run_stride(tile, 0), element, 0,
                      contiguous ? 1 : run_length(tile), bytes);
        if (contiguous) repeat_run(r.at[0], bytes, (size_t)run_length(tile) * bytes);
    } while (next_run(&r));
}

static bool result_is_apart(const plan_tile *tile, uint8_t *const *address)
{
    return (uintptr_t)address[0] % 4 == 0 && runs_disjoint(tile, address, 0, 1) &&
           runs_disjoint(tile, address, 0, 2);
}

static bool multiplies_integers(const plan_tile *tile, uint8_t *const *address)
{
    const isa_operand *c = &tile->instruction->operand[0];
    int64_t line = (int64_t)sizeof(int32_t) * SPYRE_STICK_BYTES;
    bool lines = c->stride[0] % line == 0 && c->stride[1] % line == 0;
    return c->format == SPYRE_FORMAT_IEEE_INT32 && lines && result_is_apart(tile, address);
}

void tile_matmul(const plan_tile *tile, const matmul_operands *cores, uint32_t count,
                 const matmul_host *host)
{
    // What is more than one MATMUL was found to be apart when the program was loaded.
    bool apart = tile->product != NULL;
    for (uint32_t n = 0; n < count && apart && tile->product->adds; n++)
        apart = result_is_apart(tile, cores[n]);
    if (apart && matmul_fast(tile->product, cores, count, host)) return;
    for (uint32_t n = 0; n < count; n++) {
        if (apart) product_compute(tile->product, cores[n]);
        else if (multiplies_integers(tile, cores[n])) matmul_integers(tile->instruction, cores[n]);
        else exact_run(tile, cores[n], host->scratch);
    }
}

static void run_matmul(const plan_tile *tile, uint8_t *const *address, plan_scratch *scratch)
{
    const matmul_operands operands = {address[0], address[1], address[2]};
    tile_matmul(tile, &operands, 1, &(matmul_host){.scratch = scratch});
}

plan_executor tile_choose(plan_tile *tile)
{
    switch ((int)tile->instruction->opcode) {
    case ISA_LOAD:
    case ISA_STORE: return tile_copy(tile);
    case ISA_GATHER:
    case ISA_SCATTER: return tile_gather(tile);
    case ISA_ACCUMULATE: return tile_accumulate(tile);
    case ISA_VECTOR: return tile_vector(tile);
    case ISA_FILL: return (plan_executor){.run = run_fill};
    case ISA_COUNT: return tile_count(tile);
    case ISA_REDUCE:
    case ISA_REDUCESQ: return tile_reduce(tile);
    case ISA_FOLD: return tile_fold(tile);
    case ISA_MATMUL: return (plan_executor){.run = run_matmul};
    case ISA_RANK: return tile_rank(tile);
    case ISA_RANKED: return tile_ranked(tile);
    case ISA_SCAN: return (plan_executor){.run = tile_scan};
    default: return (plan_executor){.run = exact_run};
    }
}
