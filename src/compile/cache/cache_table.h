// SPDX-License-Identifier: Apache-2.0
//
// The executables in use, by key. The table holds no references: an executable leaves it with its
// last user. Safe from any thread.
#ifndef COMPILE_CACHE_TABLE_H
#define COMPILE_CACHE_TABLE_H

#include "compile/executable.h"

// The executable made of `subject`, with one more reference; null when none is in use. The whole
// subject is compared, so that equal hashes do no harm.
spyre_executable *cache_table_find(content_key key, const char *subject);

// Puts an executable that has key and subject into the table and returns it; or, when the table has
// one of the same subject, that one with one more reference.
spyre_executable *cache_table_add(spyre_executable *made);

// One more reference.
spyre_executable *cache_table_hold(spyre_executable *executable);

// Gives a reference back, also of an executable that the table does not have. True when it was the
// last: the executable has left the table and may be destroyed.
bool cache_table_let_go(spyre_executable *executable);

#endif
