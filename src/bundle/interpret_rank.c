// SPDX-License-Identifier: Apache-2.0
//
// Rankings (topkvalue and its like): the elements along the reduced dims in the order of N_,
// ranked; the output's index along the dims that the input lacks is the rank, in the order of N_.
#include "bundle/step_facts.h"
#include "bundle/execution.h"
#include "tensor/ranking.h"

typedef struct {
    uint8_t kept[BUNDLE_MAX_DIMS], ranks[BUNDLE_MAX_DIMS];
    uint32_t kept_count, rank_dims;
    uint32_t rank_count;
    int64_t *entries;
} ranking;

static spyre_status describe(const execution *x, ranking *r)
{
    int64_t count = 1;
    *r = (ranking){0};
    for (uint32_t i = 0; i < x->kept_count; i++) {
        uint8_t d = x->kept[i];
        if (x->operands[x->step->inputs[0]].geometry.moves[d]) {
            r->kept[r->kept_count++] = d;
            continue;
        }
        r->ranks[r->rank_dims++] = d;
        count *= x->local[d];
    }
    r->rank_count = (uint32_t)count;
    r->entries = ARENA_NEW(x->scratch, int64_t, (size_t)count);
    TRY_ALLOC(r->entries);
    return NULL;
}

static spyre_status enter_all(const execution *x, const ranking *r, uint32_t core, int64_t *index)
{
    uint32_t position = 0;
    spyre_format format = x->step->tensors[x->step->inputs[0]].format;
    for (uint32_t i = 0; i < r->rank_count; i++) r->entries[i] = RANKING_NONE;
    do {
        uint8_t *element;
        if (execution_masked(x, core, index)) continue;
        TRY(execution_place(x, x->step->inputs[0], core, index, 0, &element));
        ranking_insert((uint8_t *)r->entries, sizeof *r->entries, r->rank_count,
                       ranking_entry(ranking_load(x->step->op, element, format), position++));
    } while (odometer_next_of(x->reduced, x->reduced_count, x->local, index));
    return NULL;
}

static spyre_status store_all(const execution *x, const ranking *r, uint32_t core, int64_t *index)
{
    const int64_t *entry = r->entries;
    do {
        uint8_t *element;
        TRY(execution_place(x, x->step->output, core, index, 0, &element));
        ranking_store(x->step->op, *entry++, element, x->step->tensors[x->step->output].format);
    } while (odometer_next_of(r->ranks, r->rank_dims, x->local, index));
    return NULL;
}

spyre_status interpret_rank(execution *x)
{
    ranking r;
    TRY(describe(x, &r));
    for (uint32_t core = 0; core < x->step->cores->core_count; core++) {
        execution_begin_core(x, core);
        int64_t index[BUNDLE_MAX_DIMS] = {0};
        do {
            TRY(enter_all(x, &r, core, index));
            TRY(store_all(x, &r, core, index));
        } while (odometer_next_of(r.kept, r.kept_count, x->local, index));
    }
    return NULL;
}

// --- Positions that indices name

static int64_t position_of(const execution *x, const int64_t *index)
{
    int64_t position = 0;
    for (uint32_t d = 0; d < x->step->dim_count; d++)
        if (bundle_is_scan_dim(x->step, d)) position = position * x->local[d] + index[d];
    return position;
}

static spyre_status is_named(const execution *x, uint32_t core, int64_t *index, bool *out_named)
{
    const double position = (double)position_of(x, index);
    *out_named = false;
    do {
        double named;
        TRY(execution_load(x, x->step->inputs[1], core, index, &named));
        *out_named |= named == position;
    } while (odometer_next_of(x->reduced, x->reduced_count, x->local, index));
    return NULL;
}

spyre_status interpret_mask(execution *x)
{
    const bundle_step *step = x->step;
    for (uint32_t core = 0; core < step->cores->core_count; core++) {
        execution_begin_core(x, core);
        int64_t index[BUNDLE_MAX_DIMS] = {0};
        do {
            double value;
            bool named;
            TRY(is_named(x, core, index, &named));
            TRY(execution_load(x, step->inputs[0], core, index, &value));
            TRY(execution_store(x, core, index, 0, named ? value : 0.0));
        } while (odometer_next_of(x->kept, x->kept_count, x->local, index));
    }
    return NULL;
}
