// SPDX-License-Identifier: Apache-2.0
//
// Operations on integers as vector instructions. The card adds, subtracts and multiplies in 64 bits
// of which the low ones are kept; all else it computes in fp64, exactly so for numbers of up to 32
// bits. Unsigned numbers of 32 bits have a format of their own over the same bytes.
#include "ktir/lower/lowering.h"

static const struct {
    opfunc function;
    bool is_unsigned;
} integers[] = {
#define KTIR_INTEGER(id, function, is_unsigned, expression) \
    [KTIR_INTEGER_##id] = {OPFUNC_##function, is_unsigned},
#include "ktir/ir/integer.def"
#undef KTIR_INTEGER
};

static bool keeps_low_bits(opfunc function)
{
    return function == OPFUNC_ADD || function == OPFUNC_SUB || function == OPFUNC_MUL ||
           function == OPFUNC_ABS || function == OPFUNC_IDENTITY;
}

static spyre_status lower_unsigned(lowering *w, const ktir_op *op, lowered_tensor *t)
{
    if (t->format == SPYRE_FORMAT_BOOL || t->is_natural) return NULL;
    if (t->format != SPYRE_FORMAT_IEEE_INT32)
        return LOWER_NO(w, op, "unsigned integers of %u bits: the card has those of 32",
                        spyre_format_bytes(t->format) * 8);
    t->format = SPYRE_FORMAT_SENUINT32;
    if (t->is_constant && t->value < 0) t->value += 0x1p32;
    return NULL;
}

// target = function(a, 2^b)
static spyre_status shift(lowering *w, const ktir_op *op, opfunc function,
                          const lowered_tensor *target, const lowered_tensor *a,
                          const lowered_tensor *b)
{
    lowered_tensor power;
    TRY(lower_scratch_like(w, op, SPYRE_FORMAT_SENUINT32, target, &power));
    TRY(LOWER_VECTOR(EXP2, &power, b));
    return lower_vector(w, op, function, target, (const lowered_tensor *[]){a, &power}, 2);
}

// The quotient, and one more where something is left.
static spyre_status ceiling(lowering *w, const ktir_op *op, const lowered_tensor *target,
                            const lowered_tensor *const *inputs)
{
    lowered_tensor rest, zero = lower_constant(target->format, 0);
    TRY(lower_scratch_like(w, op, target->format, target, &rest));
    TRY(LOWER_VECTOR(REMAINDER, &rest, inputs[0], inputs[1]));
    TRY(LOWER_VECTOR(NOTEQUAL, &rest, &rest, &zero));
    TRY(LOWER_VECTOR(FLOORDIV, target, inputs[0], inputs[1]));
    return LOWER_VECTOR(ADD, target, target, &rest);
}

spyre_status lower_integer(lowering *w, const ktir_op *op, ktir_integer integer,
                           const lowered_tensor *target, const lowered_tensor *const *inputs,
                           uint32_t count)
{
    lowered_tensor result = *target, in[2];
    const lowered_tensor *taken[2] = {&in[0], &in[1]};
    opfunc function = integers[integer].function;
    bool shifts = integer == KTIR_INTEGER_SHL || integer == KTIR_INTEGER_SHR ||
                  integer == KTIR_INTEGER_USHR;
    for (uint32_t n = 0; n < count; n++) {
        in[n] = *inputs[n];
        if (!keeps_low_bits(function) && spyre_format_bytes(in[n].format) > 4)
            return LOWER_NO(w, op, "of 64-bit integers the card has sums, differences, products");
        if (integers[integer].is_unsigned && function != OPFUNC_NONE)
            TRY(lower_unsigned(w, op, &in[n]));
    }
    if (function == OPFUNC_NONE) return lower_bits(w, op, integer, target, inputs);
    if (integers[integer].is_unsigned) TRY(lower_unsigned(w, op, &result));
    if (shifts) return shift(w, op, function, &result, &in[0], &in[1]);
    if (integer == KTIR_INTEGER_CEILDIV || integer == KTIR_INTEGER_UCEILDIV)
        return ceiling(w, op, &result, taken);
    return lower_vector(w, op, function, &result, taken, count);
}

// --- Conversions

static bool from_unsigned(ktir_opcode opcode)
{
    return opcode == KTIR_OP_UITOFP || opcode == KTIR_OP_EXTUI || opcode == KTIR_OP_INDEX_CASTUI;
}

spyre_status lower_cast(lowering *w, const ktir_op *op, const lowered_tensor *target,
                        const lowered_tensor *from)
{
    lowered_tensor in = *from, result = *target;
    const lowered_tensor *input = &in;
    bool is_true = from->format == SPYRE_FORMAT_BOOL;
    if (op->opcode == KTIR_OP_BITCAST) return LOWER_NO(w, op, "the card has no opfunc for it");
    if (op->opcode == KTIR_OP_TRUNCI && target->format == SPYRE_FORMAT_BOOL) {
        const lowered_tensor one = lower_constant(from->format, 1);
        return LOWER_VECTOR(BITAND, target, from, &one);
    }
    if (from_unsigned(op->opcode)) TRY(lower_unsigned(w, op, &in));
    if (op->opcode == KTIR_OP_FPTOUI) TRY(lower_unsigned(w, op, &result));
    // A true of one bit is -1 where it has a sign.
    bool negative = is_true && (op->opcode == KTIR_OP_EXTSI || op->opcode == KTIR_OP_SITOFP);
    return lower_vector(w, op, negative ? OPFUNC_NEG : OPFUNC_IDENTITY, &result, &input, 1);
}

// Of two truths.
static spyre_status either(lowering *w, const ktir_op *op, opfunc relation,
                           const lowered_tensor *target, const lowered_tensor *const *first,
                           const lowered_tensor *const *second)
{
    lowered_tensor other;
    TRY(lower_scratch_like(w, op, target->format, target, &other));
    TRY(lower_vector(w, op, relation, &other, second, 2));
    TRY(lower_vector(w, op, relation, target, first, 2));
    return LOWER_VECTOR(MAXIMUM, target, target, &other);
}

static spyre_status negate(lowering *w, const ktir_op *op, const lowered_tensor *target)
{
    const lowered_tensor zero = lower_constant(target->format, 0);
    return LOWER_VECTOR(EQUAL, target, target, &zero);
}

// Of floats that may be no number. The card's relations are false of those, but NOTEQUAL is true.
static spyre_status compare_floats(lowering *w, const ktir_op *op, const ktir_predicate *p,
                                   const lowered_tensor *target,
                                   const lowered_tensor *const *in)
{
    static const opfunc opposite[][2] = {
        {OPFUNC_LESSERTHAN, OPFUNC_GREATEREQUAL}, {OPFUNC_LESSEREQUAL, OPFUNC_GREATERTHAN},
        {OPFUNC_GREATERTHAN, OPFUNC_LESSEREQUAL}, {OPFUNC_GREATEREQUAL, OPFUNC_LESSERTHAN}};
    const lowered_tensor *first[] = {in[0], in[0]}, *second[] = {in[1], in[1]};
    const lowered_tensor *turned[] = {in[1], in[0]};
    bool equal = p->relation == OPFUNC_EQUAL, differs = p->relation == OPFUNC_NOTEQUAL;
    opfunc relation = p->relation;
    if (relation == OPFUNC_IDENTITY) {
        const lowered_tensor all = lower_constant(target->format, p->is_unsigned);
        return lower_copy(w, op, target, &all);
    }
    if (relation == OPFUNC_NONE) {
        TRY(either(w, op, OPFUNC_NOTEQUAL, target, first, second));
        return p->is_unsigned ? NULL : negate(w, op, target);
    }
    if ((equal && p->is_unsigned) || (differs && !p->is_unsigned)) {
        TRY(either(w, op, OPFUNC_LESSERTHAN, target, in, turned));
        return equal ? negate(w, op, target) : NULL;
    }
    bool inverts = p->is_unsigned && !differs;
    for (size_t n = 0; inverts && n < sizeof opposite / sizeof *opposite; n++)
        if (opposite[n][0] == p->relation) relation = opposite[n][1];
    TRY(lower_vector(w, op, relation, target, in, 2));
    return inverts ? negate(w, op, target) : NULL;
}

// The relation, its inputs unsigned where it is.
spyre_status lower_compare(lowering *w, const ktir_op *op, const lowered_tensor *target,
                           const lowered_tensor *const *inputs)
{
    const ktir_predicate *p = &ktir_predicates[ktir_number(w->m, op, KTIR_KEY_PREDICATE, 0)];
    lowered_tensor in[2] = {*inputs[0], *inputs[1]};
    bool has_nan = inputs[0]->format != SPYRE_FORMAT_SEN169_FP16;
    if (p->of_floats && (has_nan || p->relation == OPFUNC_NONE || p->relation == OPFUNC_IDENTITY))
        return compare_floats(w, op, p, target, inputs);
    for (uint32_t n = 0; n < 2 && !p->of_floats; n++) {
        if (p->is_unsigned) TRY(lower_unsigned(w, op, &in[n]));
        if (spyre_format_bytes(in[n].format) > 4)
            return LOWER_NO(w, op, "the card compares integers of up to 32 bits");
    }
    return lower_vector(w, op, p->relation, target, (const lowered_tensor *[]){&in[0], &in[1]}, 2);
}
