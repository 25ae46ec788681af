// SPDX-License-Identifier: Apache-2.0
//
// The environment as a whole: names that nobody reads are most often misspelt.
#ifndef BASE_ENVIRONMENT_H
#define BASE_ENVIRONMENT_H

// Warns of each variable SPYRE_... that is not known, with the known name nearest to it. Only the
// first call in a process does something.
void environment_check(void);

// The known name that differs from `name` in the fewest letters (added, missing or other), at most
// a third of them; null when none is so near.
const char *environment_nearest(const char *name);

#endif
