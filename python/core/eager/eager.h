// SPDX-License-Identifier: Apache-2.0
//
// Calls of operators, between the files that describe them (eager_key.c), find their programs
// (eager_table.c) and run them (eager.c).
#ifndef CORE_EAGER_H
#define CORE_EAGER_H

#include "core.h"

// Which numbers of an operator are parameters, by argument; null for one without. Adding fails
// where there is no room.
const uint8_t *eager_rules_of(const void *op);
bool eager_add_rules(const void *op, const char *rules, size_t count);

// Puts classes in the place of the values of parameters, which go behind the key: it then begins
// with the key of any such call, and is as a whole that of this one.
void eager_settle_scalars(glue_call *call);
uint32_t eager_length_with_values(const glue_call *call);

#endif
