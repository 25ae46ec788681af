// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "card/launch/launch.h"
#include "card/launch/parallel.h"

void launch_begin_run(launch *l, const plan_kernel *kernel, uint32_t core, bool by_tiles,
                      core_run *run)
{
    run->owner = l->owner;
    run->program = l->program;
    run->kernel = kernel;
    run->arguments = l->arguments;
    run->parameters = kernel->source->parameters + (size_t)core * kernel->source->slot_count;
    run->lx = l->owner->lx + (size_t)core * ISA_LX_BYTES;
    run->core = core;
    run->executed = 0;
    run->by_tiles = by_tiles;
    run->gathers_matmuls = by_tiles && kernel->has_matmul;
    run->matmul = NULL;
    run->remote = NULL;
    run->state = ADVANCE_RAN;
    if (!by_tiles) memset(run->token, 0, sizeof run->token);
    for (uint32_t q = 0; q < (by_tiles ? 1u : ISA_QUEUE_COUNT); q++) {
        run->queue[q].next = 0;
        memcpy(run->queue[q].index, l->index, sizeof l->index);
    }
}

bool launch_is_parallel(const launch *l, double weight_bytes)
{
    if (weight_bytes >= WAKING_WEIGHT_BYTES) return true;
    return weight_bytes >= PARALLEL_WEIGHT_BYTES && pool_awake(l->owner->workers);
}

void launch_share(launch *l, size_t count, pool_fn *fn, double weight_bytes)
{
    if (count > 1 && launch_is_parallel(l, weight_bytes)) pool_run(l->owner->workers, count, fn, l);
    else for (size_t n = 0; n < count; n++) fn(l, n, 0);
}
