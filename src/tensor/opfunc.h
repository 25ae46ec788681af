// SPDX-License-Identifier: Apache-2.0
//
// What the card's operation functions compute, element by element: the definitions that the bundle
// interpreter and the card are both held to. A reduction off the stick carries the name
// "<name>nonstick" in a bundle and means the same.
#ifndef TENSOR_OPFUNC_H
#define TENSOR_OPFUNC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "spyre/dtype.h"

typedef enum {
#define OPFUNC_ROW(id, name, kind, least, most, ...) OPFUNC_##id,
#include "tensor/opfunc.def"
    OPFUNC_COUNT,
    OPFUNC_NONE = OPFUNC_COUNT,
    OPFUNC_FIRST_OWN = OPFUNC_SIN
} opfunc;

typedef enum {
    OPFUNC_KIND_UNARY,
    OPFUNC_KIND_BINARY,
    OPFUNC_KIND_TERNARY,
    OPFUNC_KIND_PARAMETRIC,
    OPFUNC_KIND_NORM,
    OPFUNC_KIND_COPY,
    OPFUNC_KIND_REDUCTION,
    OPFUNC_KIND_MATMUL,
    OPFUNC_KIND_RANK,
    OPFUNC_KIND_POOL, // a reduction over a window
    OPFUNC_KIND_MASK,
    OPFUNC_KIND_SCAN, // running values along dims (tensor/running_value.h)
} opfunc_kind;

enum { OPFUNC_MAX_INPUTS = 5, OPFUNC_MAX_PARAMETERS = 3 };

typedef struct {
    const char *name;
    opfunc_kind kind;
    uint8_t least_inputs, most_inputs;
    const char *parameter[OPFUNC_MAX_PARAMETERS];   // null: none
    opfunc accumulator; // REDUCTION, POOL, MATMUL: the row ACCUMULATOR it sums up by; else NONE
} opfunc_info;

const opfunc_info *opfunc_describe(opfunc op);

// True when the result of an opfunc depends on all elements along the dims that it lacks.
static inline bool opfunc_reduces(opfunc op)
{
    opfunc_kind kind = opfunc_describe(op)->kind;
    return kind == OPFUNC_KIND_REDUCTION || kind == OPFUNC_KIND_MATMUL ||
           kind == OPFUNC_KIND_RANK || kind == OPFUNC_KIND_POOL;
}

// Of rankings and scans: whether the result is positions, and whether the least come first.
static inline bool opfunc_gives_positions(opfunc op)
{
    return op == OPFUNC_TOPKINDEX || op == OPFUNC_BOTTOMKINDEX || op == OPFUNC_CUMMAXINDEX ||
           op == OPFUNC_CUMMININDEX;
}

static inline bool opfunc_ascends(opfunc op)
{
    return op == OPFUNC_BOTTOMKVALUE || op == OPFUNC_BOTTOMKINDEX || op == OPFUNC_CUMMINVALUE ||
           op == OPFUNC_CUMMININDEX;
}

// Whether the input of an opfunc may have windows (bundle/model.h).
static inline bool opfunc_slides(opfunc op)
{
    return op == OPFUNC_CONV2D || op == OPFUNC_CONV2DFP8 || op == OPFUNC_CONV2DINT4 ||
           op == OPFUNC_CONV2DINT8 || opfunc_describe(op)->kind == OPFUNC_KIND_POOL;
}

// Whether an opfunc makes a byte of two elements, which are inputs 0 and 1 of opfunc_apply().
static inline bool opfunc_makes_pairs(opfunc op)
{
    return op == OPFUNC_CSQINT4 || op == OPFUNC_CSQINT4WT;
}

// Results of a reduction for one kept element, in lanes side by side: 2 of the moments of exx2.
static inline uint32_t opfunc_moments(opfunc op)
{
    return op == OPFUNC_EXX2 || op == OPFUNC_EXX2_ZEROMEAN ? 2 : 1;
}

// Whether inputs behind the first stand for the parameters of an opfunc with so many.
static inline bool opfunc_takes_parameters(opfunc op, uint32_t inputs)
{
    return inputs > 1 && opfunc_describe(op)->kind == OPFUNC_KIND_PARAMETRIC &&
           !opfunc_makes_pairs(op);
}

// Parameters that are constants of an opfunc with so many inputs.
uint32_t opfunc_constant_count(opfunc op, uint32_t inputs);

// A reduction whose results are multiplied with the last input, too, in fp32: avgpoolnmapfwd, and
// exx2 with two inputs, which is this project's own.
static inline bool opfunc_multiplies_results(opfunc op, uint32_t inputs)
{
    return op == OPFUNC_AVGPOOLNMAPFWD || (op == OPFUNC_EXX2 && inputs == 2);
}

// Whether opfunc_dl16_table_of() knows the opfunc: a function of one element.
static inline bool opfunc_has_table(opfunc op)
{
    opfunc_kind kind = opfunc_describe(op)->kind;
    return kind == OPFUNC_KIND_UNARY ||
           (kind == OPFUNC_KIND_PARAMETRIC && !opfunc_makes_pairs(op));
}

// Whether the specification of bundles, or torch-spyre, has the opfunc; the others are our own.
static inline bool opfunc_is_published(opfunc op)
{
    return op < OPFUNC_FIRST_OWN;
}

// The opfunc of a bundle name, "...nonstick" included; OPFUNC_NONE when unknown.
opfunc opfunc_named(const char *name);

// One element from and to memory (element.c), of any format whose elements are whole bytes, as a
// double: exact but for integers beyond 2^53. Store rounds once: by dl16_from_float's rule, without
// an fp32 step, or to nearest even; integers are cut towards zero and saturate, NaN gives the
// least one.
double element_load(const void *address, spyre_format format);
void element_store(void *address, spyre_format format, double value);

// Element-wise opfuncs (UNARY, BINARY, TERNARY, PARAMETRIC, layernormnorm, COPY): the exact or
// faithfully rounded fp64 result for inputs[0..count). Comparisons give 1.0 or 0.0. NaN: maximum
// and minimum return NaN when an input is NaN; every NaN is the positive quiet one, except where
// where3 and COPY pass an input on. Of a PARAMETRIC one inputs[1 + n] is parameter n, where there
// is such an input. layernormnorm(x, mean, scale, w = 1, b = 0) is
// ((x - mean) * scale) * w + b in fp32, each step rounded.
double opfunc_apply(opfunc op, const double *inputs, uint32_t count, const float *parameters);

// The same of `count` elements, for the opfuncs of the section FORMULA in opfunc.def, with
// parameters as constants; `result` is none of the inputs.
void opfunc_apply_lanes(opfunc op, double *result, const double *const *inputs,
                        const float *parameters, size_t count);

// The same of fp32 elements, rounded once to fp32.
void opfunc_apply_f32(opfunc op, float *result, const float *const *inputs,
                      const float *parameters, size_t count);

// Whether the opfunc has a formula.
static inline bool opfunc_has_formula(opfunc op)
{
    opfunc_kind kind = opfunc_describe(op)->kind;
    return kind == OPFUNC_KIND_UNARY || kind == OPFUNC_KIND_BINARY ||
           kind == OPFUNC_KIND_PARAMETRIC ||
           (kind == OPFUNC_KIND_TERNARY && op != OPFUNC_WHERE3);
}

// What a published name that comes without a definition means here; null for other opfuncs.
const char *opfunc_meaning(opfunc op);

// layernormscale(mean, mean_square): 1 / sqrt(max(mean_square - mean * mean, 0) + eps) in fp64.
double opfunc_layernormscale(double mean, double mean_square, float eps);

// Of a REDUCTION or MATMUL, by the row of its accumulator in opfunc.def: the neutral element, the
// combination of two elements or partial results in fp32, and the BINARY opfunc that combines two
// tensors of partial results.
float opfunc_reduction_identity(opfunc op);
float opfunc_combine(opfunc op, float a, float b);
opfunc opfunc_pairwise(opfunc op);

// Whether neither the order nor a repetition of elements changes a bit of a reduction's result.
bool opfunc_reduces_exactly(opfunc op);

// Whether an opfunc is a row ACCUMULATOR itself: what REDUCE and FOLD take.
static inline bool opfunc_accumulates(opfunc op)
{
    return op < OPFUNC_COUNT && opfunc_describe(op)->accumulator == op;
}

// The accumulator that a BINARY opfunc combines; OPFUNC_NONE if there is none.
opfunc opfunc_accumulator_of(opfunc pairwise);

// The result code of a UNARY opfunc for every one of the 65,536 SEN169_FP16 codes, built on first
// use (thread safe) from opfunc_apply, shared by the process; null when memory is short.
const uint16_t *opfunc_dl16_table(opfunc op);

// The same of a UNARY opfunc or of a PARAMETRIC one with these parameters. Of PARAMETRIC ones the
// process keeps the first OPFUNC_PARAMETRIC_TABLES; null for more of them.
enum { OPFUNC_PARAMETRIC_TABLES = 16 };
const uint16_t *opfunc_dl16_table_of(opfunc op, const float *parameters);

// A new one; the caller's to free().
uint16_t *opfunc_dl16_table_build(opfunc op, const float *parameters);

// The same of parameters that change (changing_tables.c), for `elements` elements that would be
// looked up; null: to compute them costs less. A table is given back when nothing is looked up any
// more. Thread safe.
const uint16_t *opfunc_dl16_table_take(opfunc op, const float *parameters, uint64_t elements);
void opfunc_dl16_table_give(const uint16_t *codes);

#endif
