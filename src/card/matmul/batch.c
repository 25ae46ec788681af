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
