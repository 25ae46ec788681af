// SPDX-License-Identifier: Apache-2.0
//
// A list scheduler: of the next steps of all micro-batches the one that can begin first is placed.
// A resource's steps are therefore placed in the order of their begin, and what cards and links of
// a stage do at once is found on the way.
#include "estimate/timeline.h"

#include <stdlib.h>

typedef struct {
    uint32_t round, stage, step;
    double ready_us;
} walker;                       // a micro-batch

typedef struct {
    double begin_us, end_us;
} span;

typedef struct {
    span last[TIMELINE_RESOURCES];      // the step that was placed last, by resource
    double busy_us[TIMELINE_RESOURCES], hidden_us;
    const walker *inside;               // of an exclusive stage
} stage_state;

typedef struct {
    const timeline_stage *stages;
    uint32_t stage_count, micro_batches, rounds;
    bool exclusive;
    walker *walkers;
    stage_state *states;
    double first_end_us, last_end_us;   // of the first and the last round
} simulation;

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static const timeline_step *next_of(const simulation *s, const walker *w)
{
    return &s->stages[w->stage].steps[w->step];
}

static double begin_of(const simulation *s, const walker *w)
{
    return larger(w->ready_us, s->states[w->stage].last[next_of(s, w)->resource].end_us);
}

// The micro-batch whose next step begins first; null at the end.
static walker *find_next(const simulation *s, double *out_begin_us)
{
    walker *found = NULL;
    for (uint32_t m = 0; m < s->micro_batches; m++) {
        walker *w = &s->walkers[m];
        if (w->round == s->rounds) continue;
        const walker *inside = s->states[w->stage].inside;
        if (s->exclusive && inside && inside != w) continue;
        double begin_us = begin_of(s, w);
        if (found && begin_us > *out_begin_us) continue;
        if (found && begin_us == *out_begin_us && w->round >= found->round) continue;
        found = w;
        *out_begin_us = begin_us;
    }
    return found;
}

static void advance(simulation *s, walker *w, double end_us)
{
    w->ready_us = end_us;
    s->states[w->stage].inside = w->step + 1 < s->stages[w->stage].count ? w : NULL;
    if (++w->step < s->stages[w->stage].count) return;
    w->step = 0;
    if (++w->stage < s->stage_count) return;
    w->stage = 0;
    w->round++;
    if (w->round == 1) s->first_end_us = larger(s->first_end_us, end_us);
    s->last_end_us = larger(s->last_end_us, end_us);
}

// Steps begin in ascending order, so of the other resource only the last one can overlap this step;
// a step of the other that overlaps and begins later counts then.
static void place(simulation *s, walker *w, double begin_us)
{
    const timeline_step *step = next_of(s, w);
    stage_state *state = &s->states[w->stage];
    span now = {begin_us, begin_us + step->us}, other = state->last[1 - step->resource];
    double until_us = other.end_us < now.end_us ? other.end_us : now.end_us;
    state->hidden_us += larger(0, until_us - larger(now.begin_us, other.begin_us));
    state->busy_us[step->resource] += step->us;
    state->last[step->resource] = now;
    advance(s, w, now.end_us);
}

static double busy(const stage_state *state)
{
    return state->busy_us[TIMELINE_CARD] + state->busy_us[TIMELINE_LINK] - state->hidden_us;
}

static void report(const simulation *s, timeline_result *out)
{
    uint32_t longest = 0;
    for (uint32_t p = 1; p < s->stage_count; p++)
        if (busy(&s->states[p]) > busy(&s->states[longest])) longest = p;
    const stage_state *state = &s->states[longest];
    double rounds = s->rounds, between = rounds - 1;
    *out = (timeline_result){
        .us = s->rounds > 1 ? (s->last_end_us - s->first_end_us) / between : s->last_end_us,
        .card_us = state->busy_us[TIMELINE_CARD] / rounds,
        .link_us = state->busy_us[TIMELINE_LINK] / rounds,
        .hidden_us = state->hidden_us / rounds,
        .stage = longest,
    };
}

spyre_status timeline_simulate(const timeline_stage *stages, uint32_t stage_count,
                               uint32_t micro_batches, uint32_t rounds, bool exclusive,
                               timeline_result *out_result)
{
    simulation s = {.stages = stages, .stage_count = stage_count, .micro_batches = micro_batches,
                    .rounds = rounds, .exclusive = exclusive};
    spyre_status status = NULL;
    double begin_us;
    for (uint32_t p = 0; p < stage_count; p++)
        if (stages[p].count == 0)
            return status_new(SPYRE_INVALID_ARGUMENT, "stage %u of a timeline has no steps", p);
    s.walkers = calloc(micro_batches, sizeof *s.walkers);
    s.states = calloc(stage_count, sizeof *s.states);
    TRY_DONE(s.walkers && s.states ? NULL : status_new(SPYRE_OUT_OF_MEMORY, "out of host memory"));
    for (walker *w; (w = find_next(&s, &begin_us));) place(&s, w, begin_us);
    report(&s, out_result);
done:
    free(s.walkers);
    free(s.states);
    return status;
}
