// SPDX-License-Identifier: Apache-2.0
//
// Corrections: which numbers of a program depend on the sizes of what it works on, how one program
// is corrected to serve tensors of many sizes, and whether two programs do the same.
#ifndef ISA_CORRECTIONS_H
#define ISA_CORRECTIONS_H

#include "isa/isa.h"

// The numbers of a program that depend on the sizes of what it works on: sizes of arguments,
// parameters of kernels, of each instruction counts, extents, offsets and strides, then constants,
// of which 1/n is n. Two programs of one form have as many, and differ in nothing else (names of
// kernels apart).
uint32_t isa_number_count(const isa_program *program);
void isa_numbers(const isa_program *program, int64_t *out_numbers);
bool isa_same_form(const isa_program *a, const isa_program *b);

// The program with its corrections applied: it has none left. `values` are value_count.
// SPYRE_INVALID_ARGUMENT for a value that its field cannot hold.
SPYRE_MUST_CHECK spyre_status isa_correct(arena *memory, const isa_program *program,
                                          const int64_t *values, isa_program **out_program);

// Adds the kernels of a program to another one, with parameters of their own, by kernel.
SPYRE_MUST_CHECK spyre_status isa_copy_kernels(const isa_program *program, isa_program *out,
                                               int64_t ***out_parameters);

// Writes every tile in its plainest form, in place: without dims of one index, neighbouring dims as
// one where all operands walk them so, strides that nothing multiplies as 0. Programs that are
// equal then do the same.
void isa_simplify(isa_program *program);

#endif
