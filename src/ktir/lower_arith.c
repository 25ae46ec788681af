// SPDX-License-Identifier: Apache-2.0
//
// Operations on elements as vector instructions; on numbers that are known, as numbers.
#include <string.h>

#include "ktir/lowering.h"
#include "ktir/tensor.h"

static lowered_tensor *constant_tensor(lowering *w, const ktir_type *type, double value)
{
    lowered_tensor *t = ARENA_NEW(w->memory, lowered_tensor, 1);
    if (!t) return NULL;
    *t = (lowered_tensor){.is_constant = true, .value = value, .element = type->element,
                          .format = ktir_element_describe(type->element)->format,
                          .rank = type->rank};
    memcpy(t->size, type->size, sizeof t->size);
    return t;
}

static spyre_status give_constant(lowering *w, const ktir_op *op, double value)
{
    lowered_tensor *t = constant_tensor(w, ktir_result_type(w->m, op), value);
    TRY_ALLOC(t);
    lower_set_tensor(w, op->first_result, t);
    return NULL;
}

static spyre_status constant(lowering *w, const ktir_op *op)
{
    const ktir_type *type = ktir_result_type(w->m, op);
    ktir_number_value value = {.integer = ktir_number(w->m, op, KTIR_KEY_VALUE, 0)};
    bool real = ktir_element_describe(type->element)->is_float;
    return give_constant(w, op, real ? ktir_round(type->element, value.real)
                                     : (double)value.integer);
}

// A float from a number of the cores.
static spyre_status from_index(lowering *w, const ktir_op *op)
{
    int64_t number;
    if (op->opcode != KTIR_OP_SITOFP && op->opcode != KTIR_OP_UITOFP &&
        op->opcode != KTIR_OP_BITCAST)
        return LOWER_NO(w, op, "a number of every core becomes an element");
    ktir_element to = ktir_result_type(w->m, op)->element;
    const lowered_index *x = lower_operand(w, op, 0)->index;
    if (!lower_uniform(w, x, &number)) {
        lowered_tensor *out = ARENA_NEW(w->memory, lowered_tensor, 1);
        TRY_ALLOC(out);
        if (op->opcode == KTIR_OP_BITCAST)
            return LOWER_NO(w, op, "the bits of a number that differs between cores");
        TRY(lower_number_of(w, op, x, to, out));
        if (op->opcode == KTIR_OP_UITOFP && !out->is_natural)
            return LOWER_NO(w, op, "an unsigned number that may be negative");
        lower_set_tensor(w, op->first_result, out);
        return NULL;
    }
    if (op->opcode != KTIR_OP_BITCAST) return give_constant(w, op, ktir_round(to, (double)number));
    uint8_t bits[8];
    ktir_element_store(ktir_operand_type(w->m, op, 0)->element, bits,
                       (ktir_number_value){.integer = number});
    return give_constant(w, op, ktir_element_load(to, bits).real);
}

// Constants combine here; the same opfunc and rounding as on the card.
static bool fold_constants(const lowering *w, const ktir_op *op, uint32_t count, double *out)
{
    const ktir_op_info *info = ktir_op_describe(op->opcode);
    double values[3];
    bool plain = info->form == KTIR_FORM_UNARY || info->form == KTIR_FORM_BINARY ||
                 info->form == KTIR_FORM_LINALG_UNARY || info->form == KTIR_FORM_LINALG_BINARY;
    bool casts = op->opcode == KTIR_OP_EXTF || op->opcode == KTIR_OP_TRUNCF;
    ktir_element element = ktir_result_type(w->m, op)->element;
    if ((!plain || info->op == OPFUNC_NONE) && !casts) return false;
    for (uint32_t n = 0; n < count; n++) {
        const lowered_tensor *t = lower_operand(w, op, n)->tensor;
        if (!t || !t->is_constant || !ktir_element_describe(t->element)->is_float) return false;
        values[n] = t->value;
    }
    *out = ktir_round(element, casts ? values[0] : opfunc_apply(info->op, values, count, NULL));
    return true;
}

// Products of two 16-bit floats are exact in fp32, so that the sum is rounded once, as it must be.
static spyre_status fma_of(lowering *w, const ktir_op *op, const lowered_tensor *out,
                           const lowered_tensor *const *inputs)
{
    lowered_tensor product;
    if (spyre_format_bytes(out->format) != 2)
        return LOWER_NO(w, op, "the card has no opfunc for it, but of 16-bit floats");
    TRY(lower_scratch(w, op, SPYRE_FORMAT_IEEE_FP32, out->rank, out->size, lower_number(w, op),
                      &product));
    TRY(lower_vector(w, op, OPFUNC_MUL, &product, inputs, 2));
    return lower_vector(w, op, OPFUNC_ADD, out,
                        (const lowered_tensor *const[]){&product, inputs[2]}, 2);
}

// Halves away from zero: what truncation cuts off, 1 where it is a half or more, with x's sign;
// each step is exact.
static spyre_status round_away(lowering *w, const ktir_op *op, const lowered_tensor *out,
                               const lowered_tensor *x)
{
    lowered_tensor whole, rest, half = {.is_constant = true, .value = 0.5, .rank = out->rank,
                                        .format = out->format};
    memcpy(half.size, out->size, sizeof half.size);
    TRY(lower_scratch(w, op, out->format, out->rank, out->size, lower_number(w, op), &whole));
    TRY(lower_scratch(w, op, out->format, out->rank, out->size, lower_number(w, op), &rest));
#define STEP(function, target, ...)                                                           \
    TRY(lower_vector(w, op, OPFUNC_##function, target, (const lowered_tensor *[]){__VA_ARGS__}, \
                     sizeof((const lowered_tensor *[]){__VA_ARGS__}) / sizeof(void *)))
    STEP(TRUNC, &whole, x);
    STEP(SUB, &rest, x, &whole);
    STEP(ABS, &rest, &rest);
    STEP(GREATEREQUAL, &rest, &rest, &half);
    STEP(COPYSIGN, &rest, &rest, x);
    STEP(ADD, out, &whole, &rest);
#undef STEP
    return NULL;
}

spyre_status lower_elements(lowering *w, const ktir_op *op, const lowered_tensor *target,
                            const lowered_tensor *const *inputs, uint32_t count)
{
    const ktir_op_info *info = ktir_op_describe(op->opcode);
    bool real = ktir_element_describe(ktir_operand_type(w->m, op, 0)->element)->is_float;
    switch ((int)info->form) {
    case KTIR_FORM_SELECT: return lower_vector(w, op, OPFUNC_WHERE3, target, inputs, 3);
    case KTIR_FORM_COMPARE: return lower_compare(w, op, target, inputs);
    case KTIR_FORM_CAST: return lower_cast(w, op, target, inputs[0]);
    case KTIR_FORM_TERNARY: return fma_of(w, op, target, inputs);
    default: break;
    }
    if (!real && info->integer != KTIR_INTEGER_NONE)
        return lower_integer(w, op, info->integer, target, inputs, count);
    if (op->opcode == KTIR_OP_ROUND_AWAY) return round_away(w, op, target, inputs[0]);
    if (!real || info->op == OPFUNC_NONE) return LOWER_NO(w, op, "the card has no opfunc for it");
    return lower_vector(w, op, info->op, target, inputs, count);
}

// The same bytes as another type; 16-bit floats have other ones on the card.
static spyre_status bitcast(lowering *w, const ktir_op *op)
{
    lowered_tensor *t = ARENA_NEW(w->memory, lowered_tensor, 1);
    ktir_element to = ktir_result_type(w->m, op)->element;
    TRY_ALLOC(t);
    TRY(lower_in_lx(w, op, lower_operand(w, op, 0)->tensor, t));
    spyre_format format = ktir_element_describe(to)->format;
    if (t->format != format &&
        (t->format == SPYRE_FORMAT_SEN169_FP16 || format == SPYRE_FORMAT_SEN169_FP16))
        return LOWER_NO(w, op, "a float16 has other bits on the card");
    t->format = format;
    t->element = to;
    lower_set_tensor(w, op->first_result, t);
    return NULL;
}

spyre_status lower_arith(lowering *w, const ktir_op *op)
{
    const ktir_op_info *info = ktir_op_describe(op->opcode);
    const ktir_type *type = ktir_result_type(w->m, op);
    bool outs = info->form == KTIR_FORM_LINALG_BINARY || info->form == KTIR_FORM_LINALG_UNARY;
    uint32_t count = op->operand_count - outs;
    const lowered_tensor *inputs[3];
    double value;
    if (info->form == KTIR_FORM_CONSTANT) return constant(w, op);
    if (info->form == KTIR_FORM_CAST && lower_operand(w, op, 0)->index) return from_index(w, op);
    bool sliced;
    TRY(lower_slice_elements(w, op, &sliced));
    if (sliced) return NULL;
    if (op->opcode == KTIR_OP_BITCAST) return bitcast(w, op);
    if (fold_constants(w, op, count, &value)) return give_constant(w, op, value);
    const lowered_tensor *shape = NULL;
    for (uint32_t n = 0; n < count; n++) {
        inputs[n] = lower_operand(w, op, n)->tensor;
        if (!inputs[n])
            return LOWER_NO(w, op, "%s is a number of the cores, not of a tensor",
                            w->m->values.items[ktir_operand(w->m, op, n)].name);
        if (!shape || inputs[n]->rank == type->rank) shape = inputs[n];
    }
    for (uint32_t n = 0; n < count; n++)
        if (inputs[n]->rank == type->rank && shape->rank == type->rank && !inputs[n]->is_constant &&
            !shape->is_constant)
            TRY(lower_agree(w, op, inputs[n]->size, shape->size));
    lowered_tensor *out;
    TRY(lower_result(w, op, type->element, shape->rank, shape->size, &out));
    return lower_elements(w, op, out, inputs, count);
}
