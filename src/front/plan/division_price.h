// SPDX-License-Identifier: Apache-2.0
//
// What an op costs next to its neighbours, for joint_work_division: every op has a division in
// force, and the price of another one counts what then stays in LX and what goes over the ring.
#ifndef FRONT_DIVISION_PRICE_H
#define FRONT_DIVISION_PRICE_H

#include "front/cost/cost_shuffle.h"
#include "front/plan/division_choice.h"
#include "front/ir/def_use.h"
#include "front/plan/lx_copies.h"

// Prices of ops that are alike.
typedef struct division_memo division_memo;

typedef struct {
    const loop_graph *loops;
    arena *memory;
    double lx_bytes; // of a core, for buffers
    bool shuffles;   // slices go over the ring to readers that divide otherwise
    def_use f;
    division_kinds *kinds;
    const cost_basis **basis;    // by op
    uint32_t *use_at;            // by op * LOOP_MAX_OPERANDS + operand: the use of f
    const division_choice **now; // by op: the division in force
    bool *apart_at;            // by op * LOOP_MAX_OPERANDS + operand: a use that does not find its
    uint32_t *apart;           //   part in LX; by buffer: how many there are
    bool *may_stay, *may_move; // by buffer: in LX; over the ring
    uint32_t *copier;          // by buffer: of a clone, the op that copies; or SPYRE_NO_ID
    uint64_t turn, *changed;   // counts choices put in force; by buffer: the last one of its ops
    division_memo **memo;      // by op that is the first of its kind
    struct division_move *moves; // what was found of late of reads and their writers
    map_bytes shuffle_ids;       // by what is cut before and afterwards
    VEC(shuffle_cost) shuffle_costs;
} division_prices;

// `copies`: those that were inserted for the search, or null.
SPYRE_MUST_CHECK spyre_status division_prices_create(const loop_graph *loops,
                                                     const lx_copies *copies, arena *memory,
                                                     division_prices *out);

// cost_of, remembered. Nothing for a copy whose clone has no place in LX: it is left out.
cost division_cost(const division_prices *p, uint32_t op, const division *d, uint32_t resident);

// True when operand k is not what the op makes: it reads it, or adds to what others have written.
bool division_is_use(const division_prices *p, uint32_t op, uint32_t k);

// Time that ops other than `op` save when the buffer is in LX, which the op touches `own` times;
// what copies a clone then costs time. SPYRE_NO_ID: that all ops save.
double division_saved_us(const division_prices *p, uint32_t buffer, uint32_t op, uint32_t own);

// The shuffle that use u of the buffer pays for, 0 when it shares one of an earlier use.
double division_use_us(division_prices *p, uint32_t buffer, uint32_t u,
                       const division_choice *writer);

// Finds apart_at and apart for the choices in force.
void division_count_apart(division_prices *p);

// The time of the op under a choice, less what other ops save by buffers that it lets stay in LX.
cost division_price_of(division_prices *p, uint32_t op, const division_choice *c);

// Puts a choice in force.
void division_take(division_prices *p, uint32_t op, const division_choice *c);

#endif
