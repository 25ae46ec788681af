// SPDX-License-Identifier: Apache-2.0
//
// A state has a slot for every buffer about which states differ. Buffers that the next op touches
// get slots; those that nothing touches any more lose theirs, and so do those that all states agree
// about. Where slots run out, the oldest are decided as in the cheapest state.
#include "front/stick_search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "front/stick_greedy.h"

enum { MOST_SLOTS = 32, NO_SLOT = 0xFF, UNWRITTEN = 0xFFFF };

typedef struct {
    uint32_t copies; // bits of stick_price.h
    uint32_t stick;  // dim, STICK_SPARSE or UNWRITTEN
} slot;

typedef struct {
    double us;
    uint32_t trail; // the last decision
    slot slots[MOST_SLOTS + LOOP_MAX_OPERANDS];
} state;

typedef struct {
    uint32_t before;
    uint32_t mode;
} decision;

typedef VEC(state) state_list;

typedef struct {
    stick_relayout_price price;
    uint32_t op_known; // op + 1 whose price it is
} memo;

typedef struct {
    loop_graph *loops;
    arena *scratch;
    const uint16_t *writable;
    stick_pricer pricer;
    uint32_t *last_use;     // by buffer
    slot *settled;          // by buffer, when it has no slot
    uint8_t *slot_of;       // by buffer
    uint32_t slot_buffer[MOST_SLOTS + LOOP_MAX_OPERANDS];
    uint32_t slot_count;
    state_list states, next;
    VEC(decision) trail;
    uint32_t *table;        // hash of a state's slots -> place in next, plus one
    uint32_t table_size;
    double *rest_us;        // by op: the least that it and all behind it cost
    double limit_us;        // states from here on are of no use
    uint64_t left_out;
    uint32_t widest;
    // Of the op in work.
    stick_mode_list modes;
    double mode_us[STICK_MOST_MODES];
    memo (*memos)[LOOP_MAX_OPERANDS][STICK_CHOICES]; // by mode
} search;

// --- Slots

static void add_slot(search *s, uint32_t buffer)
{
    if (s->slot_of[buffer] != NO_SLOT) return;
    uint32_t at = s->slot_count++;
    s->slot_of[buffer] = (uint8_t)at;
    s->slot_buffer[at] = buffer;
    for (uint32_t i = 0; i < s->states.count; i++)
        s->states.items[i].slots[at] = s->settled[buffer];
}

static bool is_agreed(const search *s, uint32_t at)
{
    for (uint32_t i = 1; i < s->states.count; i++)
        if (memcmp(&s->states.items[i].slots[at], &s->states.items[0].slots[at], sizeof(slot)))
            return false;
    return true;
}

static void remove_slot(search *s, uint32_t at)
{
    uint32_t last = --s->slot_count, buffer = s->slot_buffer[at];
    if (s->states.count) s->settled[buffer] = s->states.items[0].slots[at];
    s->slot_of[buffer] = NO_SLOT;
    if (at == last) return;
    s->slot_buffer[at] = s->slot_buffer[last];
    s->slot_of[s->slot_buffer[at]] = (uint8_t)at;
    for (uint32_t i = 0; i < s->states.count; i++)
        s->states.items[i].slots[at] = s->states.items[i].slots[last];
}

static uint32_t cheapest(const search *s)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < s->states.count; i++)
        if (s->states.items[i].us < s->states.items[best].us) best = i;
    return best;
}

// Keeps the states that have what the cheapest one has in slot `at`.
static void decide_slot(search *s, uint32_t at)
{
    const slot kept = s->states.items[cheapest(s)].slots[at];
    uint32_t count = 0;
    for (uint32_t i = 0; i < s->states.count; i++)
        if (memcmp(&s->states.items[i].slots[at], &kept, sizeof kept) == 0)
            s->states.items[count++] = s->states.items[i];
    s->left_out += s->states.count - count;
    s->states.count = count;
}

static void settle(search *s)
{
    for (uint32_t at = s->slot_count; at-- > 0;)
        if (is_agreed(s, at)) remove_slot(s, at);
    while (s->slot_count > MOST_SLOTS) {
        decide_slot(s, 0);
        remove_slot(s, 0);
    }
}

// --- Merging

static uint64_t hash_of(const search *s, const state *from)
{
    uint64_t hash = 1469598103934665603u; // FNV-1a by slots
    for (uint32_t i = 0; i < s->slot_count; i++) {
        uint64_t word = (uint64_t)from->slots[i].copies << 32 | from->slots[i].stick;
        hash = (hash ^ word) * 1099511628211u;
        hash ^= hash >> 29;
    }
    return hash;
}

static spyre_status grow_table(search *s)
{
    uint32_t size = s->table_size ? s->table_size * 4 : 256;
    s->table = ARENA_NEW(s->scratch, uint32_t, size);
    TRY_ALLOC(s->table);
    s->table_size = size;
    for (uint32_t i = 0; i < s->next.count; i++) {
        uint64_t at = hash_of(s, &s->next.items[i]);
        while (s->table[at & (size - 1)]) at++;
        s->table[at & (size - 1)] = i + 1;
    }
    return NULL;
}

// Adds a state to the next ones, or makes an equal one cheaper. Its trail is that of its parent.
static spyre_status add_state(search *s, const state *made, uint32_t mode)
{
    if (s->next.count * 2 >= s->table_size) TRY(grow_table(s));
    uint64_t at = hash_of(s, made);
    state *same = NULL;
    for (;; at++) {
        uint32_t found = s->table[at & (s->table_size - 1)];
        if (!found) break;
        same = &s->next.items[found - 1];
        if (memcmp(same->slots, made->slots, s->slot_count * sizeof(slot)) == 0) break;
        same = NULL;
    }
    if (same && same->us <= made->us) return NULL;
    const decision step = {made->trail, mode};
    if (same) {
        *same = *made;
    } else {
        s->table[at & (s->table_size - 1)] = s->next.count + 1;
        TRY(VEC_PUSH(s->scratch, &s->next, *made));
        same = &s->next.items[s->next.count - 1];
    }
    same->trail = s->trail.count;
    return VEC_PUSH(s->scratch, &s->trail, step);
}

// --- One op

static spyre_status price_of(search *s, const loop_op *op, uint32_t op_index, uint32_t mode,
                             uint32_t k, uint32_t stick, const stick_relayout_price **out)
{
    memo *m = &s->memos[mode][k][stick];
    *out = &m->price;
    if (m->op_known == op_index + 1) return NULL;
    m->op_known = op_index + 1;
    return stick_price_relayout(&s->pricer, op, k, &s->modes.items[mode], (uint8_t)stick,
                                &m->price);
}

// Reads operand k in state `made`: adds its price and the copies that exist from now on.
static spyre_status read_operand(search *s, const loop_op *op, uint32_t op_index, uint32_t mode,
                                 uint32_t k, state *made)
{
    uint32_t buffer = op->operand[k].buffer, at = s->slot_of[buffer];
    const stick_relayout_price *price;
    if (at == NO_SLOT) return NULL; // a constant
    if (made->slots[at].stick >= STICK_CHOICES)
        return status_new(SPYRE_INTERNAL, "%s reads what no op has written", op->name);
    TRY(price_of(s, op, op_index, mode, k, made->slots[at].stick, &price));
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
static bool write_result(search *s, const loop_op *op, uint32_t mode, state *made)
{
    uint32_t buffer = op->operand[op->operand_count - 1].buffer;
    slot *result = &made->slots[s->slot_of[buffer]];
    uint8_t dim = s->modes.items[mode].dim;
    if (result->stick == UNWRITTEN) {
        result->stick = dim;
        made->us += stick_output_us(&s->loops->buffers.items[buffer], dim);
    }
    return result->stick == dim;
}

static void forget_dead(const search *s, uint32_t op_index, state *made)
{
    for (uint32_t i = 0; i < s->slot_count; i++)
        if (s->last_use[s->slot_buffer[i]] <= op_index) made->slots[i] = (slot){0};
}

static spyre_status expand(search *s, const loop_op *op, uint32_t op_index, const state *from,
                           uint32_t mode)
{
    if (from->us + s->mode_us[mode] + s->rest_us[op_index + 1] >= s->limit_us) return NULL;
    state made = *from;
    made.us += s->mode_us[mode];
    if (!write_result(s, op, mode, &made)) return NULL;
    for (uint32_t k = 0; k + 1 < op->operand_count; k++) {
        TRY(read_operand(s, op, op_index, mode, k, &made));
        if (!(made.us + s->rest_us[op_index + 1] < s->limit_us)) return NULL;
    }
    forget_dead(s, op_index, &made);
    return add_state(s, &made, mode);
}

static int by_cost(const void *a, const void *b)
{
    const state *x = a, *y = b;
    if (x->us != y->us) return x->us < y->us ? -1 : 1;
    return x->trail < y->trail ? -1 : x->trail > y->trail;
}

static void narrow(search *s)
{
    uint32_t width = s->loops->settings.stick_beam_width;
    if (s->next.count > s->widest) s->widest = s->next.count;
    if (s->next.count <= width) return;
    qsort(s->next.items, s->next.count, sizeof(state), by_cost);
    s->left_out += s->next.count - width;
    s->next.count = width;
}

static void begin_op(search *s, const loop_op *op)
{
    uint32_t result = op->operand[op->operand_count - 1].buffer;
    for (uint32_t k = 0; k < op->operand_count; k++)
        if (s->loops->buffers.items[op->operand[k].buffer].kind != LOOP_CONSTANT)
            add_slot(s, op->operand[k].buffer);
    stick_modes_of(s->loops, op, s->writable[result], &s->modes);
    for (uint32_t m = 0; m < s->modes.count; m++)
        s->mode_us[m] = stick_op_us(s->loops, op, &s->modes.items[m]);
    s->next.count = 0;
    if (s->table) memset(s->table, 0, s->table_size * sizeof *s->table);
}

// Takes every state over op `index`; with `only`, in that mode.
static spyre_status step(search *s, uint32_t index, const stick_mode *only)
{
    const loop_op op = s->loops->ops.items[index];
    begin_op(s, &op);
    for (uint32_t i = 0; i < s->states.count; i++)
        for (uint32_t m = 0; m < s->modes.count; m++) {
            bool is = !only || memcmp(&s->modes.items[m], only, sizeof *only) == 0;
            if (is) TRY(expand(s, &op, index, &s->states.items[i], m));
        }
    narrow(s);
    state_list done = s->states;
    s->states = s->next;
    s->next = done;
    settle(s);
    return NULL;
}

// --- All ops

static void find_last_uses(search *s)
{
    const loop_graph *loops = s->loops;
    for (uint32_t i = 0; i < loops->ops.count; i++)
        for (uint32_t k = 0; k < loops->ops.items[i].operand_count; k++)
            s->last_use[loops->ops.items[i].operand[k].buffer] = i;
}

static void find_rests(search *s)
{
    s->rest_us[s->loops->ops.count] = 0;
    for (uint32_t i = s->loops->ops.count; i-- > 0;) {
        const loop_op *op = &s->loops->ops.items[i];
        double least = INFINITY;
        stick_modes_of(s->loops, op, s->writable[op->operand[op->operand_count - 1].buffer],
                       &s->modes);
        for (uint32_t m = 0; m < s->modes.count; m++)
            least = fmin(least, stick_op_us(s->loops, op, &s->modes.items[m]));
        s->rest_us[i] = s->rest_us[i + 1] + least;
    }
}

static spyre_status begin(search *s, loop_graph *loops, arena *scratch)
{
    uint32_t buffers = loops->buffers.count;
    *s = (search){.loops = loops, .scratch = scratch};
    TRY(stick_writable(loops, &s->writable));
    TRY(stick_pricer_begin(loops, scratch, &s->pricer));
    s->last_use = ARENA_NEW(scratch, uint32_t, buffers);
    s->settled = ARENA_NEW(scratch, slot, buffers);
    s->slot_of = ARENA_NEW(scratch, uint8_t, buffers);
    s->rest_us = ARENA_NEW(scratch, double, loops->ops.count + 1);
    s->memos = arena_alloc(scratch, STICK_MOST_MODES * sizeof *s->memos);
    TRY_ALLOC(s->last_use);
    TRY_ALLOC(s->settled);
    TRY_ALLOC(s->slot_of);
    TRY_ALLOC(s->rest_us);
    TRY_ALLOC(s->memos);
    find_last_uses(s);
    find_rests(s);
    return NULL;
}

// Walks all ops; *out_us is infinite when no state is left, else the cheapest one's modes, when
// asked for, are in out_modes.
static spyre_status walk(search *s, double limit_us, const stick_mode *only, stick_mode *out_modes,
                         double *out_us)
{
    const state start = {.us = 0, .trail = 0};
    s->limit_us = limit_us;
    s->slot_count = s->states.count = s->trail.count = 0;
    memset(s->slot_of, NO_SLOT, s->loops->buffers.count);
    for (uint32_t b = 0; b < s->loops->buffers.count; b++) {
        bool local = s->loops->buffers.items[b].kind == LOOP_LOCAL;
        s->settled[b] = (slot){.stick = local ? UNWRITTEN : 0};
    }
    TRY(VEC_PUSH(s->scratch, &s->states, start));
    for (uint32_t i = 0; i < s->loops->ops.count; i++) TRY(step(s, i, only ? &only[i] : NULL));
    *out_us = INFINITY;
    if (!s->states.count) return NULL;
    const state *best = &s->states.items[cheapest(s)];
    *out_us = best->us;
    uint32_t at = best->trail;
    for (uint32_t i = s->loops->ops.count; out_modes && i-- > 0;) {
        const loop_op *op = &s->loops->ops.items[i];
        stick_modes_of(s->loops, op, s->writable[op->operand[op->operand_count - 1].buffer],
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
    search s;
    TRY(begin(&s, loops, scratch));
    return walk(&s, INFINITY, modes, NULL, out_us);
}

spyre_status stick_choose(loop_graph *loops, arena *scratch, const stick_mode **out_modes,
                          stick_choice *out_choice)
{
    search s;
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
