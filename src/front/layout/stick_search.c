// SPDX-License-Identifier: Apache-2.0
#include "front/layout/stick_search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "front/layout/stick_greedy.h"
#include "front/layout/stick_states.h"

// --- One op

// Reads operand k in state `made`: adds its price and the copies that exist from now on.
static spyre_status read_operand(stick_search *s, const loop_op *op, uint32_t op_index,
                                 uint32_t mode, uint32_t k, stick_state *made)
{
    uint32_t buffer = op->operand[k].buffer, at = s->slot_of[buffer];
    if (at == STICK_NO_SLOT) return NULL; // a constant
    uint32_t stick = made->slots[at].stick;
    if (stick >= STICK_CHOICES)
        return status_new(SPYRE_INTERNAL, "%s reads what no op has written", op->name);
    stick_memo *known = &s->memos[mode][k][stick];
    const stick_restickify_price *price = &known->price;
    if (known->op_known != op_index + 1)
        TRY(stick_price_restickify(&s->pricer, op, k, &s->modes.items[mode], (uint8_t)stick,
                                   &known->price));
    known->op_known = op_index + 1;
    if (price->impossible) made->us = INFINITY;
    for (uint32_t i = 0; i < price->count; i++) {
        uint32_t bit = price->copy[i].bit;
        if (bit < STICK_UNSHARED && made->slots[at].copies >> bit & 1u) continue;
        made->us += price->copy[i].us;
        if (bit < STICK_UNSHARED) made->slots[at].copies |= 1u << bit;
    }
    return NULL;
}

// Writes the result of the mode; false when an earlier piece has another stick.
static bool write_result(stick_search *s, const loop_op *op, uint32_t mode, stick_state *made)
{
    uint32_t buffer = loop_result(op)->buffer;
    stick_slot *result = &made->slots[s->slot_of[buffer]];
    uint8_t dim = s->modes.items[mode].dim;
    if (result->stick == STICK_UNWRITTEN) {
        result->stick = dim;
        made->us += stick_output_us(s->loops, &s->loops->buffers.items[buffer], dim);
    }
    return result->stick == dim;
}

static void forget_dead(const stick_search *s, uint32_t op_index, stick_state *made)
{
    for (uint32_t i = 0; i < s->slot_count; i++)
        if (s->last_use[s->slot_buffer[i]] <= op_index) made->slots[i] = (stick_slot){0};
}

static spyre_status expand(stick_search *s, const loop_op *op, uint32_t op_index,
                           const stick_state *from, uint32_t mode)
{
    if (from->us + s->mode_us[mode] + s->rest_us[op_index + 1] >= s->limit_us) return NULL;
    stick_state made = *from;
    made.us += s->mode_us[mode];
    if (!write_result(s, op, mode, &made)) return NULL;
    for (uint32_t k = 0; k + 1 < op->operand_count; k++) {
        TRY(read_operand(s, op, op_index, mode, k, &made));
        if (!(made.us + s->rest_us[op_index + 1] < s->limit_us)) return NULL;
    }
    forget_dead(s, op_index, &made);
    return stick_add_state(s, &made, mode);
}

static int by_cost(const void *a, const void *b)
{
    const stick_state *x = a, *y = b;
    if (x->us != y->us) return x->us < y->us ? -1 : 1;
    return x->trail < y->trail ? -1 : x->trail > y->trail;
}

static void narrow(stick_search *s)
{
    uint32_t width = s->loops->settings.stick_beam_width;
    if (s->next.count > s->widest) s->widest = s->next.count;
    if (s->next.count <= width) return;
    qsort(s->next.items, s->next.count, sizeof(stick_state), by_cost);
    s->left_out += s->next.count - width;
    s->next.count = width;
}

static void begin_op(stick_search *s, const loop_op *op)
{
    uint32_t result = loop_result(op)->buffer;
    for (uint32_t k = 0; k < op->operand_count; k++)
        if (loop_operand_buffer(s->loops, op, k)->kind != LOOP_CONSTANT)
            stick_add_slot(s, op->operand[k].buffer);
    stick_modes_of(s->loops, op, s->writable[result], &s->modes);
    for (uint32_t m = 0; m < s->modes.count; m++)
        s->mode_us[m] = stick_op_us(s->loops, op, &s->modes.items[m]);
    s->next.count = 0;
    if (s->table) memset(s->table, 0, s->table_size * sizeof *s->table);
}

// Takes every state over op `index`; with `only`, in that mode.
static spyre_status step(stick_search *s, uint32_t index, const stick_mode *only)
{
    const loop_op op = s->loops->ops.items[index];
    begin_op(s, &op);
    for (uint32_t i = 0; i < s->states.count; i++)
        for (uint32_t m = 0; m < s->modes.count; m++) {
            bool is = !only || memcmp(&s->modes.items[m], only, sizeof *only) == 0;
            if (is) TRY(expand(s, &op, index, &s->states.items[i], m));
        }
    narrow(s);
    stick_state_list done = s->states;
    s->states = s->next;
    s->next = done;
    stick_settle(s);
    return NULL;
}

// --- All ops

static void find_last_uses(stick_search *s)
{
    const loop_graph *loops = s->loops;
    for (uint32_t i = 0; i < loops->ops.count; i++)
        for (uint32_t k = 0; k < loops->ops.items[i].operand_count; k++)
            s->last_use[loops->ops.items[i].operand[k].buffer] = i;
}

static void find_rests(stick_search *s)
{
    s->rest_us[s->loops->ops.count] = 0;
    for (uint32_t i = s->loops->ops.count; i-- > 0;) {
        const loop_op *op = &s->loops->ops.items[i];
        double least = INFINITY;
        stick_modes_of(s->loops, op, s->writable[loop_result(op)->buffer],
                       &s->modes);
        for (uint32_t m = 0; m < s->modes.count; m++)
            least = fmin(least, stick_op_us(s->loops, op, &s->modes.items[m]));
        s->rest_us[i] = s->rest_us[i + 1] + least;
    }
}

static spyre_status begin(stick_search *s, loop_graph *loops, arena *scratch)
{
    uint32_t buffers = loops->buffers.count;
    *s = (stick_search){.loops = loops, .scratch = scratch};
    TRY(stick_writable(loops, &s->writable));
    TRY(stick_pricer_begin(loops, scratch, &s->pricer));
    TRY_NEW(scratch, s->last_use, buffers);
    TRY_NEW(scratch, s->settled, buffers);
    TRY_NEW(scratch, s->slot_of, buffers);
    TRY_NEW(scratch, s->rest_us, loops->ops.count + 1);
    s->memos = arena_alloc(scratch, STICK_MOST_MODES * sizeof *s->memos);
    TRY_ALLOC(s->memos);
    find_last_uses(s);
    find_rests(s);
    return NULL;
}

// Walks all ops; *out_us is infinite when no state is left, else the cheapest one's modes, when
// asked for, are in out_modes.
static spyre_status walk(stick_search *s, double limit_us, const stick_mode *only,
                         stick_mode *out_modes, double *out_us)
{
    const stick_state start = {.us = 0, .trail = 0};
    s->limit_us = limit_us;
    s->slot_count = s->states.count = s->trail.count = 0;
    memset(s->slot_of, STICK_NO_SLOT, s->loops->buffers.count);
    for (uint32_t b = 0; b < s->loops->buffers.count; b++) {
        bool local = s->loops->buffers.items[b].kind == LOOP_LOCAL;
        s->settled[b] = (stick_slot){.stick = local ? STICK_UNWRITTEN : 0};
    }
    TRY(VEC_PUSH(s->scratch, &s->states, start));
    for (uint32_t i = 0; i < s->loops->ops.count; i++) TRY(step(s, i, only ? &only[i] : NULL));
    *out_us = INFINITY;
    if (!s->states.count) return NULL;
    const stick_state *best = &s->states.items[stick_cheapest(s)];
    *out_us = best->us;
    uint32_t at = best->trail;
    for (uint32_t i = s->loops->ops.count; out_modes && i-- > 0;) {
        const loop_op *op = &s->loops->ops.items[i];
        stick_modes_of(s->loops, op, s->writable[loop_result(op)->buffer],
                       &s->modes);
        out_modes[i] = s->modes.items[s->trail.items[at].mode];
        at = s->trail.items[at].before;
    }
    return NULL;
}

static void drop_layouts(loop_graph *loops)
{
    for (uint32_t b = 0; b < loops->buffers.count; b++)
        if (loops->buffers.items[b].kind == LOOP_LOCAL) loops->buffers.items[b].has_layout = false;
}

spyre_status stick_price_modes(loop_graph *loops, arena *scratch, const stick_mode *modes,
                               double *out_us)
{
    stick_search s;
    TRY(begin(&s, loops, scratch));
    return walk(&s, INFINITY, modes, NULL, out_us);
}

spyre_status stick_choose(loop_graph *loops, arena *scratch, const stick_mode **out_modes,
                          stick_choice *out_choice)
{
    stick_search s;
    TRY(begin(&s, loops, scratch));
    stick_mode *modes = ARENA_NEW(scratch, stick_mode, loops->ops.count);
    stick_mode *found = ARENA_NEW(scratch, stick_mode, loops->ops.count);
    TRY_ALLOC(modes);
    TRY_ALLOC(found);
    *out_modes = modes;
    *out_choice = (stick_choice){.least_us = s.rest_us[0]};
    TRY(stick_greedy(loops, s.writable, modes));
    drop_layouts(loops);
    TRY(walk(&s, INFINITY, modes, NULL, &out_choice->greedy_us));
    out_choice->us = out_choice->greedy_us;
    if (!loops->settings.global_stick_optimizer) return NULL;
    double limit = out_choice->greedy_us * (1 - STICK_LEAST_GAIN), us = INFINITY;
    s.widest = 0;
    out_choice->searched = out_choice->least_us < limit;
    if (out_choice->searched) TRY(walk(&s, limit, NULL, found, &us));
    out_choice->left_out = s.left_out;
    out_choice->widest = s.widest;
    if (!(us < limit)) return NULL;
    out_choice->global = true;
    out_choice->us = us;
    *out_modes = found;
    return NULL;
}
