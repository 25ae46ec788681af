// SPDX-License-Identifier: Apache-2.0
//
// What opfuncs are, and the accumulators of reductions.
#include "tensor/numeric.h"
#include "tensor/opfunc.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

// The accumulator of each kind; that of a REDUCTION or POOL comes from its row ACCUMULATES.
#define ACCUMULATES_UNARY(id)      OPFUNC_NONE
#define ACCUMULATES_BINARY(id)     OPFUNC_NONE
#define ACCUMULATES_TERNARY(id)    OPFUNC_NONE
#define ACCUMULATES_PARAMETRIC(id) OPFUNC_NONE
#define ACCUMULATES_NORM(id)       OPFUNC_NONE
#define ACCUMULATES_COPY(id)       OPFUNC_NONE
#define ACCUMULATES_RANK(id)       OPFUNC_NONE
#define ACCUMULATES_MATMUL(id)     OPFUNC_SUM
#define ACCUMULATES_MASK(id)       OPFUNC_NONE
#define ACCUMULATES_SCAN(id)       OPFUNC_NONE
#define ACCUMULATES_REDUCTION(id)  (opfunc)ACCUMULATOR_OF_##id
#define ACCUMULATES_POOL(id)       (opfunc)ACCUMULATOR_OF_##id

enum {
#define OPFUNC_ACCUMULATES(id, accumulator) ACCUMULATOR_OF_##id = OPFUNC_##accumulator,
#include "tensor/opfunc.def"
};

static const opfunc_info table[OPFUNC_COUNT] = {
#define OPFUNC_ROW(id, name_, kind_, least, most, ...) \
    [OPFUNC_##id] = {.name = (name_),                  \
                     .kind = OPFUNC_KIND_##kind_,      \
                     .least_inputs = (least),          \
                     .most_inputs = (most),            \
                     .parameter = {__VA_ARGS__},       \
                     .accumulator = ACCUMULATES_##kind_(id)},
#include "tensor/opfunc.def"
};

const opfunc_info *opfunc_describe(opfunc op)
{
    assert(op < OPFUNC_COUNT);
    return &table[op];
}

uint32_t opfunc_constant_count(opfunc op, uint32_t inputs)
{
    uint32_t count = 0;
    if (opfunc_takes_parameters(op, inputs)) return 0;
    while (count < OPFUNC_MAX_PARAMETERS && table[op].parameter[count]) count++;
    return count;
}

static opfunc exactly_named(const char *name, size_t length)
{
    for (int op = 0; op < OPFUNC_COUNT; op++) {
        const char *candidate = table[op].name;
        if (strlen(candidate) == length && memcmp(candidate, name, length) == 0) return (opfunc)op;
    }
    return OPFUNC_NONE;
}

opfunc opfunc_named(const char *name)
{
    static const char suffix[] = "nonstick";
    size_t length = strlen(name), suffix_length = sizeof suffix - 1;
    opfunc op = exactly_named(name, length);
    if (op != OPFUNC_NONE || length <= suffix_length) return op;
    if (strcmp(name + length - suffix_length, suffix) != 0) return OPFUNC_NONE;
    op = exactly_named(name, length - suffix_length);
    bool reduces = op != OPFUNC_NONE && table[op].kind == OPFUNC_KIND_REDUCTION;
    return reduces ? op : OPFUNC_NONE;
}

const char *opfunc_meaning(opfunc op)
{
    static const char *const meanings[OPFUNC_COUNT] = {
#define OPFUNC_MEANING(id, text) [OPFUNC_##id] = (text),
#include "tensor/opfunc.def"
    };
    return meanings[op];
}

// --- Reductions

float opfunc_combine(opfunc op, float a, float b)
{
    switch ((int)table[op].accumulator) {
#define OPFUNC_ACCUMULATOR(id, neutral, combination, pairwise, exactness) \
    case OPFUNC_##id: return combination;
#include "tensor/opfunc.def"
    default: break;
    }
    assert(false && "an opfunc with an accumulator");
    return a;
}

typedef enum { INEXACT, EXACT } exactness;

typedef struct {
    float neutral;
    opfunc pairwise;
    exactness exactness;
} accumulator;

static const accumulator accumulators[OPFUNC_COUNT] = {
#define OPFUNC_ACCUMULATOR(id, neutral_, combination, pairwise_, exactness_) \
    [OPFUNC_##id] = {(neutral_), OPFUNC_##pairwise_, (exactness_)},
#include "tensor/opfunc.def"
};

static const accumulator *accumulator_of(opfunc op)
{
    assert(table[op].accumulator != OPFUNC_NONE);
    return &accumulators[table[op].accumulator];
}

float opfunc_reduction_identity(opfunc op)
{
    return accumulator_of(op)->neutral;
}

opfunc opfunc_pairwise(opfunc op)
{
    return accumulator_of(op)->pairwise;
}

bool opfunc_reduces_exactly(opfunc op)
{
    return accumulator_of(op)->exactness == EXACT;
}

opfunc opfunc_accumulator_of(opfunc pairwise)
{
    for (int op = 0; op < OPFUNC_COUNT; op++)
        if (opfunc_accumulates((opfunc)op) && accumulators[op].pairwise == pairwise)
            return (opfunc)op;
    return OPFUNC_NONE;
}
