// SPDX-License-Identifier: Apache-2.0
//
// Operations element by element, each as functions on vectors (lower_vector.c); on numbers that are
// known, as numbers.
#include <string.h>

#include "ktir/lower/lowering.h"
#include "ktir/interpret/tensor.h"

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
                 info->form == KTIR_FORM_TERNARY ||
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

spyre_status lower_elements(lowering *w, const ktir_op *op, ktir_opcode opcode,
                            const lowered_tensor *target, const lowered_tensor *const *inputs,
                            uint32_t count)
{
    const ktir_op_info *info = ktir_op_describe(opcode);
    bool real = ktir_element_describe(ktir_operand_type(w->m, op, 0)->element)->is_float;
    switch ((int)info->form) {
    case KTIR_FORM_SELECT: return lower_vector(w, op, OPFUNC_WHERE3, target, inputs, 3);
    case KTIR_FORM_COMPARE: return lower_compare(w, op, target, inputs);
    case KTIR_FORM_CAST: return lower_cast(w, op, target, inputs[0]);
    case KTIR_FORM_CLASS: return lower_class(w, op, target, inputs[0]);
    case KTIR_FORM_FPOWI: return lower_vector(w, op, info->op, target, inputs, 2);
    default: break;
    }
    if (!real && info->integer != KTIR_INTEGER_NONE)
        return lower_integer(w, op, info->integer, target, inputs, count);
    if (opcode == KTIR_OP_ROUND_AWAY) return lower_round_away(w, op, target, inputs[0]);
    if (opcode == KTIR_OP_CLAMPF) return lower_clamp(w, op, target, inputs);
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

spyre_status lower_elementwise(lowering *w, const ktir_op *op)
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
    return lower_elements(w, op, op->opcode, out, inputs, count);
}
