// SPDX-License-Identifier: Apache-2.0
//
// Machine code for vector programs: what program_body.h does op by op, written once for a list of
// ops. Constants and sums of rows stay in registers, and nothing asks what comes next.
#ifndef CARD_CODEGEN_VECTOR_CODE_H
#define CARD_CODEGEN_VECTOR_CODE_H

#include "card/simd/vector_program.h"

// The loop for a vector program; NULL where its simd_table has to run it op by op: without AVX-512,
// or beyond CODE_MOST_PROGRAMS programs of different ops. What is made stays.
enum { CODE_MOST_PROGRAMS = 4096 };
vector_loop *vector_code_of(const vector_program *w);

// True for programs that need no more than the codes of their elements (unconverted_code.c).
bool vector_is_narrow(const vector_program *w);

#endif
