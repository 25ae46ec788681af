// SPDX-License-Identifier: Apache-2.0
//
// Opfuncs of vector programs, quarter by quarter: the expressions of simd_formulas.h, of values of
// SEN169_FP16 (VECTOR_APPLY) or with every NaN as in fp32 (VECTOR_APPLY_F32).
#include <float.h>
#include <math.h>
#include <string.h>

#include "card/codegen/unit_code.h"
#include "card/simd/exp_dl16_constants.h"
#include "tensor/numeric.h"

typedef struct {
    opfunc op;
    bool f32;                               // a NaN is one of the values, and becomes quiet
    zmm a, b;
    operand first;                          // of three inputs, of which a and b are the others
    mask condition;                         // instead of it; 0: none
} inputs;

enum { CHOSEN = 1, IS_NAN = 2 };            // masks

static const uint32_t sign = 0x80000000, one = 0x3F800000, quiet_nan = 0x7FC00000;
// To the nearest, ties to even, to an infinity, to zero; without exceptions.
enum { ROUND_NEAREST = 8, ROUND_DOWN, ROUND_UP, ROUND_TO_ZERO };

static void quieten(unit_code *c, zmm x)
{
    code_compare(c, IS_NAN, CODE_UNORDERED, x, in_zmm(x));
    code_masked(c, VPORD, x, IS_NAN, x, code_constant(c, 0x00400000));
}

static void compare(unit_code *c, zmm to, code_order order, zmm a, zmm b)
{
    code_compare(c, CHOSEN, order, a, in_zmm(b));
    code_zeroed(c, VMOVAPS, to, CHOSEN, 0, code_constant(c, one));
}

static void larger_or_smaller(unit_code *c, zmm to, avx512 op, const inputs *in)
{
    code_op(c, op, to, in->a, in_zmm(in->b));
    if (!in->f32) return;
    code_compare(c, IS_NAN, CODE_UNORDERED, in->a, in_zmm(in->b));
    code_masked(c, VMOVAPS, to, IS_NAN, 0, code_constant(c, quiet_nan));
}

static void choose(unit_code *c, zmm to, const inputs *in)
{
    if (in->condition) {
        code_masked(c, VBLENDMPS, to, in->condition, in->b, in_zmm(in->a));
    } else {
        const zmm zero = code_new(c);
        code_op(c, VPXORD, zero, zero, in_zmm(zero));
        code_compare(c, CHOSEN, CODE_EQUAL, zero, in->first);
        code_masked(c, VBLENDMPS, to, CHOSEN, in->a, in_zmm(in->b));
        code_release(c, zero);
    }
    if (in->f32) quieten(c, to);
}

// to = x between the bounds, of which a NaN is none: the second operand of the instructions wins.
static void clip(unit_code *c, zmm to, operand low, operand high, zmm x)
{
    const zmm bound = code_new(c);
    code_load(c, bound, low);
    code_op(c, VMAXPS, to, bound, in_zmm(x));
    code_load(c, bound, high);
    code_op(c, VMINPS, to, bound, in_zmm(to));
    code_release(c, bound);
}

// Between the opfunc's constants.
static void clip_by_constants(unit_code *c, zmm to, zmm x)
{
    const zmm low = code_new(c), high = code_new(c);
    encode_load(&c->b, RAX, CODE_FIELD(constant));
    code_op(c, VBROADCASTSS, low, 0, at_offset(RAX, 0));
    code_op(c, VBROADCASTSS, high, 0, at_offset(RAX, 4));
    clip(c, to, in_zmm(low), in_zmm(high), x);
    code_release(c, low);
    code_release(c, high);
}

static void up_to_six(unit_code *c, zmm to, zmm x)
{
    clip(c, to, code_constant(c, 0), code_number(c, 6.0f), x);
}

static void sixth_gate(unit_code *c, zmm to, const inputs *in)
{
    code_op(c, VADDPS, to, in->a, code_number(c, 3.0f));
    up_to_six(c, to, to);
    if (in->f32) code_op(c, VDIVPS, to, to, code_number(c, 6.0f));
    else code_op(c, VMULPS, to, to, code_number(c, 1.0f / 6.0f));
}

static void hardswish(unit_code *c, zmm to, const inputs *in)
{
    const zmm finite = code_new(c);
    code_op(c, VMOVAPS, finite, 0, code_number(c, -FLT_MAX));
    code_op(c, VMAXPS, finite, finite, in_zmm(in->a));
    sixth_gate(c, to, in);
    code_op(c, VMULPS, to, finite, in_zmm(to));
    code_release(c, finite);
}

static void divide_one(unit_code *c, zmm to, zmm by)
{
    const zmm ones = code_in_register(c, code_constant(c, one));
    code_op(c, VDIVPS, to, ones, in_zmm(by));
    code_release(c, ones);
}

static void positive(unit_code *c, zmm to, zmm a)
{
    const zmm zero = code_new(c);
    code_op(c, VPXORD, zero, zero, in_zmm(zero));
    code_compare(c, CHOSEN, CODE_NOT_LESS_EQUAL, a, in_zmm(zero));
    code_zeroed(c, VMOVAPS, to, CHOSEN, 0, in_zmm(a));
    code_release(c, zero);
}

// Zeros as they are, of a NaN zero.
static void sign_of(unit_code *c, zmm to, zmm a)
{
    const zmm zero = code_new(c);
    code_op(c, VPXORD, zero, zero, in_zmm(zero));
    code_compare(c, IS_NAN, CODE_UNORDERED, a, in_zmm(a));
    code_op(c, VMOVAPS, to, 0, in_zmm(a));
    code_masked(c, VMOVAPS, to, IS_NAN, 0, in_zmm(zero));
    code_compare(c, CHOSEN, CODE_GREATER, a, in_zmm(zero));
    code_masked(c, VMOVAPS, to, CHOSEN, 0, code_constant(c, one));
    code_compare(c, CHOSEN, CODE_LESS, a, in_zmm(zero));
    code_masked(c, VMOVAPS, to, CHOSEN, 0, code_number(c, -1.0f));
    code_release(c, zero);
}

// Whose NaN is already what it should be.
static bool make_with_nan(unit_code *c, zmm to, const inputs *in)
{
    const zmm a = in->a, b = in->b;
    code_comparison how;
    if (code_comparison_of(in->op, &how)) {
        compare(c, to, how.order, how.turned ? b : a, how.turned ? a : b);
        return true;
    }
    switch ((int)in->op) {
    case OPFUNC_MAXIMUM: larger_or_smaller(c, to, VMAXPS, in); return true;
    case OPFUNC_MINIMUM: larger_or_smaller(c, to, VMINPS, in); return true;
    case OPFUNC_WHERE3: choose(c, to, in); return true;
    case OPFUNC_SIGN: sign_of(c, to, a); return true;
    case OPFUNC_IDENTITY:
        code_op(c, VMOVAPS, to, 0, in_zmm(a));
        quieten(c, to);
        return true;
    default: return false;
    }
}

static void round_whole(unit_code *c, zmm to, zmm x, uint8_t how)
{
    code_op_byte(c, VRNDSCALEPS, to, 0, in_zmm(x), how);
}

static void make(unit_code *c, zmm to, const inputs *in)
{
    const zmm a = in->a;
    const operand b = in_zmm(in->b);
    switch ((int)in->op) {
    case OPFUNC_ADD: code_op(c, VADDPS, to, a, b); break;
    case OPFUNC_SUB: code_op(c, VSUBPS, to, a, b); break;
    case OPFUNC_MUL: code_op(c, VMULPS, to, a, b); break;
    case OPFUNC_REALDIV: code_op(c, VDIVPS, to, a, b); break;
    case OPFUNC_ABS: code_op(c, VPANDD, to, a, code_constant(c, ~sign)); break;
    case OPFUNC_NEG: code_op(c, VPXORD, to, a, code_constant(c, sign)); break;
    case OPFUNC_RELUFWD: positive(c, to, a); break;
    case OPFUNC_FLOOR: round_whole(c, to, a, ROUND_DOWN); break;
    case OPFUNC_CEIL: round_whole(c, to, a, ROUND_UP); break;
    case OPFUNC_TRUNC: round_whole(c, to, a, ROUND_TO_ZERO); break;
    case OPFUNC_ROUND: round_whole(c, to, a, ROUND_NEAREST); break;
    case OPFUNC_FRAC:
        round_whole(c, to, a, ROUND_TO_ZERO);
        code_op(c, VSUBPS, to, a, in_zmm(to));
        break;
    case OPFUNC_SQRT: code_op(c, VSQRTPS, to, 0, in_zmm(a)); break;
    case OPFUNC_RECIPROCAL: divide_one(c, to, a); break;
    case OPFUNC_RSQRT:
        code_op(c, VSQRTPS, to, 0, in_zmm(a));
        divide_one(c, to, to);
        break;
    case OPFUNC_CLIP: clip_by_constants(c, to, a); break;
    case OPFUNC_RELU6FWD: up_to_six(c, to, a); break;
    case OPFUNC_HARDSIGMOID: sixth_gate(c, to, in); break;
    case OPFUNC_HARDSWISH: hardswish(c, to, in); break;
    default: c->fails = true; break;
    }
    if (!in->f32) return;
    code_compare(c, IS_NAN, CODE_UNORDERED, to, in_zmm(to));
    code_masked(c, VMOVAPS, to, IS_NAN, 0, code_constant(c, quiet_nan));
}

// Kept values, of this unit alone or of all.
operand code_first_input(unit_code *c, uint32_t part)
{
    const uint32_t slot = c->step->slot;
    if (!c->step->holds) return at_offset(RAX, (int32_t)part * QUARTER_BYTES);
    if (c->now.slot[slot].held) return in_zmm(code_share(c, c->now.slot[slot].at.reg[part]));
    return code_slot_at(slot, part);
}

void code_opfunc(unit_code *c, uint32_t op)
{
    inputs in = {.f32 = op >= VECTOR_APPLY_F32};
    in.op = (opfunc)(op - (in.f32 ? VECTOR_APPLY_F32 : VECTOR_APPLY));
    code_comparison how;
    if (in.op == OPFUNC_IDENTITY && !in.f32) return;
    if (code_comparison_of(in.op, &how) && code_condition(c, how)) return;
    const bool by_value = in.op == OPFUNC_WHERE3 && !code_has_condition(c);
    if (by_value && !c->step->holds) code_values(c, KEPT_BYTES);
    for (uint32_t q = 0; q < code_quarters(c); q++) {
        const zmm to = code_new(c);
        in.a = c->now.x.reg[q];
        in.b = c->now.y.reg[q];
        if (by_value) in.first = code_first_input(c, q);
        else if (in.op == OPFUNC_WHERE3) in.condition = (mask)(CODE_CONDITION + q);
        if (!make_with_nan(c, to, &in)) make(c, to, &in);
        if (by_value && in.first.kind == OPERAND_ZMM) code_release(c, in.first.reg);
        code_set(c, &c->now.x, q, to);
    }
}

// --- exp (exp_dl16_constants.h)

static zmm exp_quarter(unit_code *c, zmm of)
{
    static const float power_of[] = {EXP_COEFFICIENTS};
    const zmm x = code_new(c), turns = code_new(c), f = code_new(c), power = code_new(c);
    const zmm log2e = code_in_register(c, code_number(c, EXP_LOG2E));
    code_op(c, VMINPS, x, of, code_number(c, INFINITY));
    code_op(c, VMOVAPS, turns, 0, in_zmm(x));
    code_op(c, VFMADD213PS, turns, log2e, code_number(c, EXP_ROUNDER));
    code_op(c, VSUBPS, power, turns, code_number(c, EXP_ROUNDER));
    code_op(c, VMOVAPS, f, 0, in_zmm(x));
    code_op(c, VFMSUB213PS, f, log2e, in_zmm(power));
    code_op(c, VFMADD231PS, f, x, code_number(c, EXP_LOG2E_REST));
    code_op(c, VMOVAPS, power, 0, code_number(c, power_of[0]));
    for (uint32_t n = 1; n < sizeof power_of / sizeof *power_of; n++)
        code_op(c, VFMADD213PS, power, f, code_number(c, power_of[n]));
    code_shift(c, SHIFT_DWORDS, CODE_SHIFT_LEFT, turns, turns, 23);
    code_op(c, VPADDD, power, power, in_zmm(turns));
    code_compare(c, 1, CODE_GREATER, x, code_number(c, EXP_LEAST));
    code_compare(c, 2, CODE_GREATER, x, code_number(c, EXP_MOST));
    code_op(c, VPADDD, power, power, code_constant(c, 1u << 13));
    code_zeroed(c, VPANDD, power, 1, power, code_constant(c, ~0u << DL16_FRACTION_SHIFT));
    code_masked(c, VMOVAPS, power, 2, 0, code_number(c, INFINITY));
    code_release(c, x);
    code_release(c, turns);
    code_release(c, f);
    code_release(c, log2e);
    return power;
}

void code_exp(unit_code *c)
{
    quarters *x = &c->now.x;
    for (uint32_t q = 0; q < code_quarters(c); q++) code_set(c, x, q, exp_quarter(c, x->reg[q]));
}

// --- Formulas, which are called

// Registers that a called function may change.
static const gpr changing[] = {RDI, RSI, R8, R9, R10, R11};
enum { CHANGING = sizeof changing / sizeof *changing, PUSHED = 8 * CHANGING, ALIGNED = 64 };

static void call_formula(unit_code *c)
{
    void (*const function)(const vector_step *, float *, const float *) = vector_formula;
    uintptr_t address;
    memcpy(&address, &function, sizeof address);
    for (uint32_t n = 0; n < CHANGING; n++) encode_push(&c->b, changing[n]);
    encode_add_number(&c->b, RSP, PUSHED - ALIGNED);
    encode_load_address(&c->b, RDI, CODE_FIELD(op));
    encode_load_address(&c->b, RSI, at_offset(RSP, ALIGNED + CALL_X));
    encode_load_address(&c->b, RDX, at_offset(RSP, ALIGNED + CALL_Y));
    encode_address(&c->b, RAX, address);
    encode_call(&c->b, RAX);
    encode_add_number(&c->b, RSP, ALIGNED - PUSHED);
    for (uint32_t n = CHANGING; n-- > 0;) encode_pop(&c->b, changing[n]);
}

static operand waiting(zmm reg)
{
    return at_offset(SLOTS, CALL_REGISTERS + reg * QUARTER_BYTES);
}

static operand argument(int32_t offset, uint32_t quarter)
{
    return at_offset(SLOTS, offset + (int32_t)quarter * QUARTER_BYTES);
}

// Of x and y, in `to`.
static void call_with_registers(unit_code *c, const quarters *to)
{
    _Static_assert(offsetof(vector_step, op) == 0, "the step's address");
    for (uint32_t q = 0; q < code_quarters(c); q++) {
        code_store(c, argument(CALL_X, q), c->now.x.reg[q]);
        code_store(c, argument(CALL_Y, q), c->now.y.reg[q]);
    }
    for (zmm reg = 0; reg < CODE_REGISTERS; reg++)
        if (c->users[reg]) code_store(c, waiting(reg), reg);
    call_formula(c);
    for (zmm reg = 0; reg < CODE_REGISTERS; reg++)
        if (c->users[reg]) code_load(c, reg, waiting(reg));
    code_load_constants(c);
    for (uint32_t q = 0; q < code_quarters(c); q++) code_load(c, to->reg[q], argument(CALL_X, q));
}

// k1 &= x - quotient * y is not 0.
static void find_inexact(unit_code *c, zmm quotient, zmm x, zmm y)
{
    const zmm rest = code_new(c);
    code_op(c, VMOVAPS, rest, 0, in_zmm(quotient));
    code_op(c, VFMSUB213PS, rest, y, in_zmm(x));
    encode(&c->b, VCMPPS, 1, rest, code_number(c, 0.0f),
           (encoding){.lanes = 1, .has_byte = true, .byte = CODE_NOT_EQUAL});
    code_release(c, rest);
}

// to = quotients that are rounded down, and then to SEN169_FP16. One that is no whole number has
// not been rounded across one. k2: some other one is not exact, or is larger than 2^13, or none.
static void divide_down(unit_code *c, const quarters *to)
{
    const float limit = 0x1p13f;
    const zmm most = code_new(c), size = code_new(c), down = code_new(c);
    uint32_t bits;
    memcpy(&bits, &limit, sizeof bits);
    for (uint32_t q = 0; q < code_quarters(c); q++) {
        const zmm value = to->reg[q];
        code_op(c, VDIVPS, value, c->now.x.reg[q], in_zmm(c->now.y.reg[q]));
        code_op(c, VPADDD, q ? size : most, value, in_zmm(value));
        if (q) code_op(c, VPMAXUD, most, most, in_zmm(size));
        round_whole(c, down, value, ROUND_DOWN);
        code_compare(c, 1, CODE_EQUAL, down, in_zmm(value));
        find_inexact(c, value, c->now.x.reg[q], c->now.y.reg[q]);
        encode_either(&c->b, 2, q ? 2 : 1, 1);
        code_op(c, VMOVAPS, value, 0, in_zmm(down));
        code_round_bits(c, value);
    }
    code_op_byte(c, VPCMPUD, 1, most, code_constant(c, 2 * bits), 5);
    encode_either(&c->b, 2, 2, 1);
    code_release(c, most);
    code_release(c, size);
    code_release(c, down);
}

void code_formula(unit_code *c)
{
    const bool divides = c->step->op == VECTOR_FORMULA + OPFUNC_FLOORDIV;
    const bool quickly = divides && c->step->rounding == VECTOR_ROUND;
    size_t done = 0;
    quarters to;
    for (uint32_t q = 0; q < code_quarters(c); q++) to.reg[q] = code_new(c);
    if (quickly) {
        divide_down(c, &to);
        encode_test_mask(&c->b, 2);
        done = encode_jump(&c->b, JUMP_IF_ZERO);
    }
    call_with_registers(c, &to);
    if (quickly) set_jump(&c->b, done, c->b.size);
    for (uint32_t q = 0; q < code_quarters(c); q++) code_set(c, &c->now.x, q, to.reg[q]);
}

// --- Sums

// A NaN of the sum wins over one of the value.
static void combine_nan_first(unit_code *c, avx512 op, zmm sum, zmm value)
{
    const zmm result = code_new(c);
    code_op(c, op, result, sum, in_zmm(value));
    code_compare(c, IS_NAN, CODE_UNORDERED, value, in_zmm(value));
    code_masked(c, VMOVAPS, result, IS_NAN, 0, in_zmm(value));
    code_compare(c, IS_NAN, CODE_UNORDERED, sum, in_zmm(sum));
    code_masked(c, VBLENDMPS, sum, IS_NAN, result, in_zmm(sum));
    code_release(c, result);
}

void code_combine(unit_code *c, uint32_t op, zmm sum, zmm value)
{
    static const avx512 of[SIMD_SUMS] = {VADDPS, VADDPS, VMAXPS, VMINPS, VMULPS};
    const simd_sum kind = vector_sum_of(op);
    const bool wide = vector_sums_wide(op);
    if (kind == SIMD_SQUARES && !wide) {
        code_op(c, VFMADD231PS, sum, value, in_zmm(value));
    } else if (kind == SIMD_SQUARES) {
        const zmm square = code_new(c);
        code_op(c, VMULPS, square, value, in_zmm(value));
        code_op(c, VADDPS, sum, sum, in_zmm(square));
        code_release(c, square);
    } else if (wide && (kind == SIMD_MAX || kind == SIMD_MIN)) {
        combine_nan_first(c, of[kind], sum, value);
    } else {
        code_op(c, of[kind], sum, sum, in_zmm(value));
    }
}
