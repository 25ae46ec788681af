// SPDX-License-Identifier: Apache-2.0
//
// Programs of operators' calls and the table in which calls find them.
#ifndef CORE_EAGER_TABLE_H
#define CORE_EAGER_TABLE_H

#include <stdatomic.h>

#include "eager/eager.h"
#include "tensor/bucket_operands.h"
#include "tensor/integer_bounds.h"

enum { EAGER_MOST_INPUTS = 48, EAGER_MOST_BOUNDS = 4 };
enum { EAGER_EMPTY_RESULT = UINT8_MAX, EAGER_NO_RESULT = UINT8_MAX - 1 };

// How the tensors of a call fit a program of other sizes.
typedef struct {
    fit inputs[EAGER_MOST_INPUTS], results[GLUE_MOST_RESULTS];
    PyObject *constants[EAGER_MOST_INPUTS]; // inputs that are none of the call's tensors
} eager_fitting;

// What the integers of a call must be for the program to have its result.
typedef struct {
    bool of_number;                         // a parameter; else a tensor
    uint8_t index;
    spyre_integer_range range;
} eager_bound;

// A result without elements.
typedef struct {
    int64_t rank, size[SPYRE_MAX_RANK], stride[SPYRE_MAX_RANK];
    int32_t torch_dtype;
} eager_nothing;

typedef struct eager_program eager_program;
struct eager_program {
    uint64_t hash;
    uint32_t key_length, card;
    spyre_executable *executable;           // that of `object`, which the program keeps; or null
    eager_nothing *nothing;                 // then its results, which need none
    PyObject *object;
    atomic_uint users;                      // calls that are at it
    atomic_bool used;                       // since forget_program() has asked
    eager_program *next_forgotten;
    uint32_t input_count, result_count;
    uint8_t inputs[EAGER_MOST_INPUTS];      // of the call's tensors, those that the segment reads
    uint8_t results[GLUE_MOST_RESULTS];     // of the segment's outputs, in the operator's order;
                                            // EAGER_EMPTY_RESULT or EAGER_NO_RESULT
    bool by_value;                          // no program: look again with the numbers' values
    bool prefers;                           // other layouts of inputs
    int32_t written;                        // tensor of the call that takes the result, or -1
    bool in_place;                          // the program itself writes there
    eager_fitting *fitting;                 // or null
    uint32_t bound_count;
    eager_bound bounds[EAGER_MOST_BOUNDS];
    uint8_t key[];
};

// Of the first bytes of the call's key.
uint64_t eager_hash(const glue_call *call, uint32_t length);

// The program of any call with such numbers, or where there is none that of these numbers; null
// without one. The caller lets go of it.
eager_program *eager_find(glue_call *call);
void eager_let_go(eager_program *p);

// The table then owns the program. False where it has another one that is as good, or when memory
// is short: the call is then looked up by Python again.
bool eager_add(eager_program *p);
void eager_free(eager_program *p);      // that the table does not own

// No call finds programs of the object any more; unless `always`, only where none has since the
// last time this was asked. Whether they are forgotten. With Python's lock, as the others.
bool eager_forget(PyObject *object, bool always);
void eager_forget_all(void);
void eager_free_forgotten(void);        // that no thread is at

#endif
