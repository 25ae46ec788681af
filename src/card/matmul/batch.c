// SPDX-License-Identifier: Apache-2.0
//
// Matmuls of several cores at a time. Cores often multiply a few rows each by the same columns, or
// the same rows by columns of their own. What they load from one place in memory stays there
// (forward.h), so that the operand has one address for all of them. A host thread that runs several
// cores lets each PT stop at its MATMUL and then executes them together.
#include "card/plan.h"
#include "card/machine.h"
#include "card/matmul/matmul.h"

typedef struct {
    core_run *run;
    matmul_operands address;
} waiting;

static void finish(core_run *run)
{
    run->matmul = NULL;
    run->queue[ISA_QUEUE_SEQ].next++;
    run->executed++;
}

// Executes the first of the list with all that can join it; returns how many are left.
static uint32_t execute_first(waiting *list, uint32_t count, const matmul_host *host)
{
    const plan_tile *tile = list[0].run->matmul->tile;
    core_run *taken[ISA_CORES];
    matmul_operands cores[ISA_CORES];
    uint32_t together = 0, left = 0;
    for (uint32_t n = 0; n < count; n++) {
        if (list[n].run->matmul->tile != tile) {
            list[left++] = list[n];
            continue;
        }
        for (uint32_t o = 0; o < 3; o++) cores[together][o] = list[n].address[o];
        taken[together++] = list[n].run;
    }
    const remote_operand *t = taken[0]->remote;
    if (t && t->tile == tile) tile = &t->instead;
    tile_matmul(tile, (const matmul_operands *)cores, together, host);
    for (uint32_t n = 0; n < together; n++) finish(taken[n]);
    return left;
}

bool batch_execute(core_run *const *runs, uint32_t count, const matmul_host *host)
{
    waiting list[ISA_CORES];
    uint32_t stopped = 0;
    bool any = false;
    for (uint32_t n = 0; n < count; n++) {
        core_run *run = runs[n];
        if (!run->matmul) continue;
        any = true;
        list[stopped].run = run;
        if (!core_resolve(run, run->matmul, &run->queue[ISA_QUEUE_SEQ], list[stopped].address)) {
            run->matmul = NULL;
            continue;
        }
        if (run->remote && run->remote->tile == run->matmul->tile)
            list[stopped].address[PRODUCT_A] = run->owner->lx + run->remote->from[run->core];
        stopped++;
    }
    while (stopped) stopped = execute_first(list, stopped, host);
    return any;
}

// --- Groups of cores

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

core_group batch_core_group(const isa_kernel *kernel, plan_tile *const *tiles, uint32_t count)
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
