// SPDX-License-Identifier: Apache-2.0
//
// Matmuls of several cores at a time. Cores often multiply a few rows each by the same columns, or
// the same rows by columns of their own. What they load from one place in memory stays there
// (fuse.h), so that the operand has one address for all of them. A host thread that runs several
// cores lets each PT stop at its MATMUL and then executes them together.
#include <string.h>

#include "card/machine.h"
#include "card/matmul.h"

typedef struct {
    core_run *run;
    matmul_operands address;
    matmul_strides strides;
} waiting;

static void finish(core_run *run)
{
    run->matmul = NULL;
    run->queue[ISA_QUEUE_SEQ].next++;
    run->executed++;
}

static bool joins(const waiting *a, const waiting *b)
{
    return a->run->matmul->tile == b->run->matmul->tile &&
           memcmp(a->strides, b->strides, sizeof a->strides) == 0;
}

// Executes the first of the list with all that can join it; returns how many are left.
static uint32_t execute_first(waiting *list, uint32_t count)
{
    const waiting first = list[0];
    const plan_tile *tile = first.run->matmul->tile;
    core_run *taken[ISA_CORES];
    matmul_operands cores[ISA_CORES];
    uint32_t together = 0, left = 0;
    for (uint32_t n = 0; n < count; n++) {
        if (!joins(&first, &list[n])) {
            list[left++] = list[n];
            continue;
        }
        for (uint32_t o = 0; o < 3; o++) cores[together][o] = list[n].address[o];
        taken[together++] = list[n].run;
    }
    fast_matmul(tile, &first.strides, (const matmul_operands *)cores, together,
                first.run->scratch);
    for (uint32_t n = 0; n < together; n++) finish(taken[n]);
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
        if (core_resolve(run, run->matmul, &run->queue[ISA_QUEUE_SEQ], list[stopped].address,
                         &list[stopped].strides))
            stopped++;
        else run->matmul = NULL;
    }
    while (stopped) stopped = execute_first(list, stopped);
    return any;
}
