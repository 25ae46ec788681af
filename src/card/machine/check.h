// SPDX-License-Identifier: Apache-2.0
//
// The checker: runs a program and looks for what happens to go well. Its findings are faults like
// any other, with these rules:
//     race           two queues touch the same bytes of LX, or queues of any cores the same bytes
//                    of memory, in one kernel, one of them writes, and neither tokens nor messages
//                    order them
//     never written  an instruction reads a stick of LX of which nothing has written a byte:
//                    since the card was opened, its LX was wiped, or a program ran that forgets LX
//     misaligned     an element does not lie at a multiple of its size
// Accesses outside LX or an argument are faults without the checker too.
//
// One thread at a time, as card_launch in this mode. Internal to src/card.
#ifndef CARD_CHECK_H
#define CARD_CHECK_H

#include "card/machine.h"

SPYRE_MUST_CHECK spyre_status check_create(checker **out_checker);
void check_destroy(checker *c);

// All of a core's LX is known from now on, or (with wipe) none of any core's.
void check_know_lx(checker *c, uint32_t core);
void check_wipe_lx(checker *c);

// All cores and queues have met.
void check_begin_kernel(checker *c);

// The order that a step makes. Each false after a fault: the host has no memory.
bool check_signal(core_run *run, isa_queue queue, const plan_step *step);
void check_wait(core_run *run, isa_queue queue, uint32_t token);
bool check_send(core_run *run, uint32_t receiver, const plan_step *step);
void check_receive(core_run *run, uint32_t sender);

// The accesses of a tile whose operands lie at `address`, which are in bounds. False after a fault.
bool check_tile(core_run *run, const plan_step *step, uint8_t *const *address);

// Drops the messages that no core has received.
void check_end_launch(checker *c);

#endif
