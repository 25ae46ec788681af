// SPDX-License-Identifier: Apache-2.0
//
// The environment as a whole: names without a reader are most often misspelt. And variables that
// hold one of a few words.
#ifndef BASE_ENVIRONMENT_H
#define BASE_ENVIRONMENT_H

#include <stdint.h>

#include "base/status.h"

// Warns of each variable SPYRE_... that is not known, with the known name nearest to it. Only the
// first call in a process does something.
void environment_check(void);

// The known name that differs from `name` in the fewest letters (added, missing or other), at most
// a third of them; null when none is so near.
const char *environment_nearest(const char *name);

// Which of `count` words the variable holds: *out_index. The first one when it is unset or empty.
// An error names the variable, its value and the words.
SPYRE_MUST_CHECK spyre_status environment_choice(const char *name, const char *const *words,
                                                 uint32_t count, uint32_t *out_index);

#endif
