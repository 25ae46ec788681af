// SPDX-License-Identifier: Apache-2.0
//
// The loops of card/simd/simd.h. A file that includes this defines before that:
//   V, D            fp32 and fp64 registers; +, -, * and / work on them
//   LANES           fp32 lanes of a V; a `pair` is 2 * LANES elements in two V
//   pair_load_dl16, pair_store_dl16, pair_load_f32, pair_store_f32      elements <-> pair, four in
//                   a, four in b, and so on; one in each where there is but one lane
//   v_load, v_store fp32 elements <-> V, in their order
//   pair_load_turns, pair_store_turns   fp32 elements <-> pair, even lanes in a, odd lanes in b
//   pair_load_scaled    the same of SEN169_FP16 elements, as simd_product wants them
//   code_bounds     what see_codes has seen since no_codes(): all_scaled, when pair_load_scaled is
//                   right of all
//   v_lanes_behind  lane n = lane n + so many, fewer than LANES; the last lanes are anything
//   v_low, v_high   the fp64 halves of a V; v_join and v_join_cut round and cut them back
//   v_fma           of SEN169_FP16 values a and b, and an fp32 sum
//   v_round_bits    fp32 to the significand of SEN169_FP16; v_round_dl16 to its values
//   round_pairs     v_round_dl16 of several pairs
//   v_exp_dl16      exp of SEN169_FP16 values, rounded to them, when HAS_EXP
//   what card/simd/simd_formulas.h wants
#include <math.h>
#include <string.h>

#include "card/simd/simd.h"
#include "card/simd/simd_formulas.h"
#include "tensor/numeric.h"

enum { STEP = 2 * LANES, STICK_LANES = 64 };

// The loops need the shapes.
#include "card/simd/simd_shape.h"

#include "card/simd/simd_loops.h"

// --- Opfuncs

#define VALUE_F32(op, arity, worth, expression)                                                 \
    static inline V value_f32_##op(V a, V b, V c, V d, V e, float p_, float q_,                \
                                   bool ends_dl16, bool no_nan)                                \
    {                                                                                          \
        const V p = v_set(p_), q = v_set(q_);                                                  \
        (void)b, (void)c, (void)d, (void)e, (void)p, (void)q, (void)ends_dl16, (void)no_nan;   \
        return (expression);                                                                   \
    }                                                                                          \
    KERNEL(f32_##op, value_f32_##op, arity)

#define VALUE_F64(op, arity, worth, expression)                                                 \
    static inline D half_##op(D a, D b, D c, D d, D e, D p, D q, bool ends_dl16, bool no_nan)  \
    {                                                                                          \
        (void)b, (void)c, (void)d, (void)e, (void)p, (void)q, (void)ends_dl16, (void)no_nan;   \
        return (expression);                                                                   \
    }                                                                                          \
    static inline V value_f64_##op(V a, V b, V c, V d, V e, float p_, float q_,                \
                                   bool ends_dl16, bool no_nan)                                \
    {                                                                                          \
        const D p = d_set((double)p_), q = d_set((double)q_);                                  \
        D low = half_##op(v_low(a), v_low(b), v_low(c), v_low(d), v_low(e), p, q, ends_dl16,   \
                          no_nan);                                                             \
        D high = half_##op(v_high(a), v_high(b), v_high(c), v_high(d), v_high(e), p, q,        \
                           ends_dl16, no_nan);                                                 \
        return ends_dl16 ? v_join_cut(low, high) : v_join(low, high);                          \
    }                                                                                          \
    WIDE_KERNEL(f64_##op, value_f64_##op, arity)

COMMON_ROWS(VALUE_F32)
F32_ROWS(VALUE_F32)
COMMON_ROWS(VALUE_F64)
F64_ROWS(VALUE_F64)

#include "card/simd/look_up.h"
#include "card/simd/simd_reduce.h"
#include "card/simd/simd_multiply.h"
#include "card/simd/program_body.h"

#define F32_ENTRY(op, arity, worth, expression) [OPFUNC_##op] = f32_##op,
#define F64_ENTRY(op, arity, worth, expression) [OPFUNC_##op] = f64_##op,
#define SIMD_ENTRIES                                                                           \
    {                                                                                          \
        .f32 = {COMMON_ROWS(F32_ENTRY) F32_ROWS(F32_ENTRY)},                                   \
        .f64 = {COMMON_ROWS(F64_ENTRY) F64_ROWS(F64_ENTRY)},                                   \
        .lookup = look_up,                                                                     \
        .reduce = {reduce_sum, reduce_square, reduce_max, reduce_min, reduce_product},         \
        .fold = {fold_sum, NULL, fold_max, fold_min, fold_product},                            \
        .multiply = multiply, .few_rows = FEW_ROWS,                                           \
        .run_program = run_program, .are_plain = are_plain, .has_exp = HAS_EXP,          \
    }
