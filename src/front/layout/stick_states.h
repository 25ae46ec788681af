// SPDX-License-Identifier: Apache-2.0
//
// The states of the search for sticks. A state has a slot for every buffer about which states
// differ. Buffers that the next op touches get slots; those that nothing touches any more lose
// theirs, and so do those that all states agree about. Where slots run out, the oldest are decided
// as in the cheapest state. Internal.
#ifndef FRONT_STICK_STATES_H
#define FRONT_STICK_STATES_H

#include "front/layout/stick_price.h"

enum { STICK_MOST_SLOTS = 32, STICK_NO_SLOT = 0xFF, STICK_UNWRITTEN = 0xFFFF };

typedef struct {
    uint32_t copies; // bits of stick_price.h
    uint32_t stick;  // dim, STICK_SPARSE or UNWRITTEN
} stick_slot;

typedef struct {
    double us;
    uint32_t trail; // the last decision
    stick_slot slots[STICK_MOST_SLOTS + LOOP_MAX_OPERANDS];
} stick_state;

typedef struct {
    uint32_t before;
    uint32_t mode;
} stick_decision;

typedef VEC(stick_state) stick_state_list;

typedef struct {
    stick_restickify_price price;
    uint32_t op_known; // op + 1 whose price it is
} stick_memo;

typedef struct {
    loop_graph *loops;
    arena *scratch;
    const uint16_t *writable;
    stick_pricer pricer;
    uint32_t *last_use;     // by buffer
    stick_slot *settled;    // by buffer, when it has no slot
    uint8_t *slot_of;       // by buffer
    uint32_t slot_buffer[STICK_MOST_SLOTS + LOOP_MAX_OPERANDS];
    uint32_t slot_count;
    stick_state_list states, next;
    VEC(stick_decision) trail;
    uint32_t *table;        // hash of a state's slots -> place in next, plus one
    uint32_t table_size;
    double *rest_us;        // by op: the least that it and all behind it cost
    double limit_us;        // states from here on are of no use
    uint64_t left_out;
    uint32_t widest;
    // Of the op in work.
    stick_mode_list modes;
    double mode_us[STICK_MOST_MODES];
    stick_memo (*memos)[LOOP_MAX_OPERANDS][STICK_CHOICES]; // by mode
} stick_search;

// Gives the buffer a slot, if it has none.
void stick_add_slot(stick_search *s, uint32_t buffer);

// Takes slots away that tell no states apart, and then the oldest that are too many.
void stick_settle(stick_search *s);

// The number of the state that costs least.
uint32_t stick_cheapest(const stick_search *s);

// Adds a state to the next ones, or makes an equal one cheaper. Its trail is that of its parent.
SPYRE_MUST_CHECK spyre_status stick_add_state(stick_search *s, const stick_state *made,
                                              uint32_t mode);

#endif
