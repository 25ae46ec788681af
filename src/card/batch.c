// SPDX-License-Identifier: Apache-2.0
//
// Matmuls of several cores at a time. Cores often multiply a few rows each by the same columns: what
// they load from one place in memory stays there (defer.h), so operand 2 has one address for all.
// A host thread that runs several cores lets each PT stop at its MATMUL, and then multiplies all
// their rows by each piece of the columns while it is in the cache.
#include "card/machine.h"
#include "card/matmul.h"

typedef struct {
    core_run *run;
    matmul_operands address;
} waiting;

static void finish(core_run *run)
{
    run->matmul = NULL;
    run->queue[ISA_QUEUE_PT].next++;
    run->executed++;
}

// Executes the first of the list with all that can join it; returns how many are left.
static uint32_t execute_first(waiting *list, uint32_t count)
{
    matmul_operands cores[ISA_CORES];
    const plan_tile *tile = list[0].run->matmul->tile;
    const uint8_t *columns = list[0].address[2];
    plan_scratch *scratch = list[0].run->scratch;
    uint32_t taken = 0, left = 0;
    for (uint32_t n = 0; n < count; n++) {
        core_run *run = list[n].run;
        if (run->matmul->tile != tile || list[n].address[2] != columns) {
            list[left++] = list[n];
            continue;
        }
        for (uint32_t o = 0; o < 3; o++) cores[taken][o] = list[n].address[o];
        taken++;
        finish(run);
    }
    fast_matmul(tile, (const matmul_operands *)cores, taken, scratch);
    return left;
}

bool batch_execute(core_run *const *runs, uint32_t count)
{
    waiting list[ISA_CORES];
    uint32_t stopped = 0;
    bool any = false;
    for (uint32_t n = 0; n < count; n++) {
        core_run *run = runs[n];
        if (!run->matmul) continue;
        any = true;
        list[stopped].run = run;
        if (core_resolve(run, run->matmul, &run->queue[ISA_QUEUE_PT], list[stopped].address))
            stopped++;
        else run->matmul = NULL;
    }
    while (stopped) stopped = execute_first(list, stopped);
    return any;
}
