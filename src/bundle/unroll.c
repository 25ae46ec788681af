// SPDX-License-Identifier: Apache-2.0
#include "bundle/unroll.h"

#include <string.h>

typedef struct {
    const bundle *from;
    bundle *to;
    int64_t index[BUNDLE_MAX_LOOPS + 1];
} unroller;

static bool too_long(int64_t executions)
{
    return executions > BUNDLE_MOST_UNROLLED;
}

// Executions of the statements, as far as they are counted: what is too long stays so.
static int64_t count_executions(const bundle *b, uint32_t first, uint32_t last)
{
    int64_t executions = 0;
    for (uint32_t at = first; at < last && !too_long(executions);) {
        const bundle_statement *statement = &b->body.items[at];
        if (statement->kind != BUNDLE_LOOP) {
            executions += statement->kind == BUNDLE_EXECUTE;
            at++;
            continue;
        }
        uint32_t behind = bundle_behind_loop(b, at);
        int64_t inside = count_executions(b, at + 1, behind - 1);
        executions += too_long(inside) || too_long(statement->count) ? BUNDLE_MOST_UNROLLED + 1
                                                                     : inside * statement->count;
        at = behind;
    }
    return executions;
}

// Numbers in the round that is written down.
static spyre_status unroll_count(const unroller *u, bundle_tensor *tensor)
{
    if (!tensor->count) return NULL;
    bundle_count *count = ARENA_NEW(u->to->memory, bundle_count, 1);
    TRY_ALLOC(count);
    *count = *tensor->count;
    for (uint32_t loop = 0; loop < BUNDLE_MAX_LOOPS; loop++) {
        count->first += u->index[loop] * count->loop_step[loop];
        count->loop_step[loop] = 0;
    }
    tensor->count = count;
    return NULL;
}

static spyre_status unroll_step(unroller *u, uint32_t number)
{
    bundle_step step = u->from->steps.items[number];
    bundle_tensor *tensors = ARENA_NEW(u->to->memory, bundle_tensor, step.tensor_count);
    TRY_ALLOC(tensors);
    memcpy(tensors, step.tensors, step.tensor_count * sizeof *tensors);
    step.tensors = tensors;
    for (uint32_t t = 0; t < step.tensor_count; t++) {
        int64_t advance = 0;
        TRY(unroll_count(u, &tensors[t]));
        for (uint32_t loop = 0; loop < BUNDLE_MAX_LOOPS; loop++) {
            advance += u->index[loop] * tensors[t].loop_stride[loop];
            tensors[t].loop_stride[loop] = 0;
        }
        tensors[t].start += advance;
    }
    return bundle_add_step(u->to, &step);
}

// Statements [first, last) inside of `depth` loops.
static spyre_status unroll(unroller *u, uint32_t first, uint32_t last, uint32_t depth)
{
    for (uint32_t at = first; at < last;) {
        const bundle_statement *statement = &u->from->body.items[at];
        if (statement->kind == BUNDLE_EXECUTE) {
            TRY(unroll_step(u, statement->step));
            at++;
            continue;
        }
        uint32_t behind = bundle_behind_loop(u->from, at);
        for (u->index[depth] = 0; u->index[depth] < statement->count; u->index[depth]++)
            TRY(unroll(u, at + 1, behind - 1, depth + 1));
        u->index[depth] = 0;
        at = behind;
    }
    return NULL;
}

// A nest as it is.
static spyre_status keep(unroller *u, uint32_t first, uint32_t last)
{
    for (uint32_t at = first; at < last; at++) {
        bundle_statement statement = u->from->body.items[at];
        if (statement.kind == BUNDLE_EXECUTE)
            TRY(bundle_add_step(u->to, &u->from->steps.items[statement.step]));
        else
            TRY(VEC_PUSH(u->to->memory, &u->to->body, statement));
    }
    return NULL;
}

spyre_status bundle_unroll(bundle *b, uint32_t *out_kept)
{
    bundle unrolled = *b;
    unroller u = {.from = b, .to = &unrolled};
    memset(&unrolled.steps, 0, sizeof unrolled.steps);
    memset(&unrolled.body, 0, sizeof unrolled.body);
    *out_kept = 0;
    for (uint32_t at = 0; at < b->body.count;) {
        uint32_t behind =
            b->body.items[at].kind == BUNDLE_LOOP ? bundle_behind_loop(b, at) : at + 1;
        bool long_one = too_long(count_executions(b, at, behind));
        TRY(long_one ? keep(&u, at, behind) : unroll(&u, at, behind, 0));
        *out_kept += long_one;
        at = behind;
    }
    *b = unrolled;
    return NULL;
}
