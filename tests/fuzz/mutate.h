// SPDX-License-Identifier: Apache-2.0
//
// Mutations that know what an input is made of. Text is words, numbers, strings and signs, in lines
// and brackets: tokens are dropped, doubled and swapped, lists emptied, numbers replaced by extreme
// ones, lines and bracketed parts taken from another input. Other inputs are words of 1, 2, 4 and 8
// bytes. driver.c calls it, and libFuzzer through LLVMFuzzerCustomMutator().
#ifndef FUZZ_MUTATE_H
#define FUZZ_MUTATE_H

#include <stddef.h>
#include <stdint.h>

// A number below `limit`, from the state, which is never 0.
uint32_t mutate_below(uint64_t *random, uint32_t limit);

// Changes `bytes`, which have room for `capacity`; pieces may come from `other`. Returns the new
// count. Same arguments, same result.
size_t mutate_structure(uint8_t *bytes, size_t count, size_t capacity, const uint8_t *other,
                        size_t other_count, uint64_t *random);

#endif
