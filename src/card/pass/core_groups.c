// SPDX-License-Identifier: Apache-2.0
//
// Core groups: which cores a host thread takes along together, and in which order. Cores that share
// an operand of a product in memory multiply by it together, packed once (matmul/batch.c), if they
// bring enough rows or columns for that:
//
//     32 cores of 8 rows each, all by the same columns     groups of 32: 256 rows
//     4 x 8 cores, of 4 batches with columns of their own  order 0, 4, 8, ..: groups of 8
#include "card/pass/core_groups.h"

// --- Of a kernel

enum {
    GROUP_ROWS = 256,                       // rows that a packed element of columns should serve
    GROUP_COLUMNS = 512,                    // columns that a packed element of rows should serve
};

// Bits of the cores that read the operand at one place with a core.
static uint32_t sharers(const isa_kernel *kernel, const isa_operand *operand, uint32_t with)
{
    uint32_t active = kernel->active_cores, found = 0;
    if (operand->space != ISA_SPACE_MEMORY) return 0;
    if (operand->slot == ISA_NO_SLOT) return active;
    for (uint32_t core = 0; core < ISA_CORES; core++) {
        const int64_t *row = kernel->parameters + (size_t)core * kernel->slot_count;
        const int64_t *other = kernel->parameters + (size_t)with * kernel->slot_count;
        if ((active >> core & 1u) && row[operand->slot] == other[operand->slot])
            found |= 1u << core;
    }
    return found;
}

// How many cores it takes until those that share an operand, each of which brings `own` rows or
// columns, bring `wanted` or are all there: of the sharers alone, and of all neighbouring cores.
typedef struct {
    uint32_t sharers, neighbours;
} group_size;

static group_size group_for(uint32_t wanted, uint32_t own, const isa_kernel *kernel,
                            const isa_operand *operand)
{
    uint32_t first = (uint32_t)__builtin_ctz(kernel->active_cores | 1u << 31);
    uint32_t shared = sharers(kernel, operand, first);
    group_size w = {1, 1};
    if ((shared & (shared - 1)) == 0) return w;
    w.sharers = 0;
    for (uint32_t have = 0; shared && have < wanted; have += own) {
        uint32_t next = shared & (~shared + 1);
        shared &= ~next;
        w.sharers++;
        w.neighbours = (uint32_t)__builtin_popcount(kernel->active_cores & (next | (next - 1)));
    }
    return w;
}

// Cores that share the operand behind each other.
static void order_by(const isa_kernel *kernel, const isa_operand *operand, core_group *group)
{
    uint32_t left = kernel->active_cores, count = 0;
    while (left) {
        uint32_t together = sharers(kernel, operand, (uint32_t)__builtin_ctz(left));
        for (uint32_t core = 0; core < ISA_CORES; core++)
            if (together >> core & 1u) group->order[count++] = (uint8_t)core;
        left &= ~together;
    }
}

core_group core_group_of(const isa_kernel *kernel, plan_tile *const *tiles, uint32_t count)
{
    core_group group = {.cores = 1};
    uint32_t products = 0, cores = 0;
    for (uint32_t core = 0; core < ISA_CORES; core++)
        if (isa_is_active(kernel, core)) group.order[cores++] = (uint8_t)core;
    for (uint32_t n = 0; n < count; n++) {
        if (!tiles[n] || !tiles[n]->product) continue;
        const product *x = tiles[n]->product;
        const isa_operand *operand = tiles[n]->instruction->operand;
        group_size rows = group_for(GROUP_COLUMNS, x->columns.count * x->lanes, kernel,
                                    &operand[PRODUCT_A]);
        group_size columns = group_for(GROUP_ROWS, x->rows.count, kernel, &operand[PRODUCT_B]);
        // Where only one operand is shared, those that share it are a group.
        if (products++ == 0 && rows.sharers == 1 && columns.sharers > 1) {
            order_by(kernel, &operand[PRODUCT_B], &group);
            columns.neighbours = columns.sharers;
        }
        if (rows.neighbours > group.cores) group.cores = rows.neighbours;
        if (columns.neighbours > group.cores) group.cores = columns.neighbours;
    }
    return group;
}

// --- Of a stage

uint32_t core_groups_per_thread(uint32_t threads, uint32_t cores)
{
    return (cores + threads - 1) / threads;
}

// Those cores of a stage that share operands of a product come first, in its order.
static void order_cores(const plan_kernel *kernel, uint32_t all, core_group *out)
{
    uint32_t active = kernel->source->active_cores, count = 0;
    for (uint32_t left = active; left; left &= left - 1) {
        out->order[count] = kernel->group.order[count];
        count++;
    }
    for (all &= ~active; all; all &= all - 1) out->order[count++] = (uint8_t)__builtin_ctz(all);
}

void core_groups_divide(uint32_t threads, const plan_phase *first, plan_stage *stage)
{
    uint32_t active = (uint32_t)__builtin_popcount(stage->cores), cores = 0;
    const uint32_t most = core_groups_per_thread(threads, active);
    for (uint32_t left = stage->cores; left; left &= left - 1)
        stage->group.order[cores++] = (uint8_t)__builtin_ctz(left);
    stage->group.cores = 1;
    for (uint32_t k = 0; k < stage->kernels; k++) {
        const plan_kernel *kernel = first[k].kernel;
        bool alone = kernel->has_matmul && stage->kernels == 1;
        uint32_t wanted = alone ? most : kernel->group.cores;
        if (wanted <= stage->group.cores) continue;
        stage->group.cores = wanted;
        order_cores(kernel, stage->cores, &stage->group);
    }
    if (stage->group.cores > most) stage->group.cores = most;
    if (stage->divides_products) stage->group.cores = cores;
}
