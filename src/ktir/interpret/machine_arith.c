// SPDX-License-Identifier: Apache-2.0
//
// Operations on elements: of numbers, and of tensors element by element.
#include <math.h>
#include <string.h>

#include "ktir/interpret/machine.h"

// One element of an operation: what it reads, what its result's type is.
typedef struct {
    const ktir_op_info *info;
    ktir_opcode opcode;
    const ktir_predicate *predicate;
    ktir_element from, to;
} element_op;

static bool is_float(ktir_element element)
{
    return ktir_element_describe(element)->is_float;
}

static ktir_number_value real(ktir_element element, double value)
{
    return (ktir_number_value){.real = ktir_round(element, value)};
}

static double as_unsigned(ktir_element element, int64_t value)
{
    uint32_t width = element == KTIR_I1 ? 1 : ktir_element_describe(element)->bytes * 8;
    if (width == 64) return (double)(uint64_t)value;
    return (double)((uint64_t)value & (((uint64_t)1 << width) - 1));
}

static int64_t integer_from(double value)
{
    if (!(value > -0x1p63)) return INT64_MIN;
    return value >= 0x1p63 ? INT64_MAX : (int64_t)value;
}

static bool cast(const element_op *e, ktir_number_value x, ktir_number_value *out)
{
    uint8_t bits[8] = {0};
    bool sign = e->opcode != KTIR_OP_UITOFP && e->opcode != KTIR_OP_EXTUI &&
                e->opcode != KTIR_OP_INDEX_CASTUI;
    if (e->opcode == KTIR_OP_BITCAST) {
        if (e->from == KTIR_F32 || e->to == KTIR_F32 || !is_float(e->from) || !is_float(e->to)) {
            ktir_element_store(e->from, bits, x);
            *out = ktir_element_load(e->to, bits);
            return true;
        }
        *out = x;
    } else if (is_float(e->from) && is_float(e->to)) {
        *out = real(e->to, x.real);
    } else if (is_float(e->to)) {
        bool boolean = e->from == KTIR_I1 && sign;
        double value = sign ? (double)x.integer : as_unsigned(e->from, x.integer);
        *out = real(e->to, boolean ? -value : value);
    } else if (is_float(e->from)) {
        out->integer = ktir_wrap(e->to, integer_from(x.real));
    } else {
        int64_t value = sign ? x.integer : (int64_t)as_unsigned(e->from, x.integer);
        if (sign && e->from == KTIR_I1 && e->opcode == KTIR_OP_EXTSI) value = -value;
        out->integer = ktir_wrap(e->to, value);
    }
    return true;
}

static bool is_of_class(const element_op *e, double x)
{
    switch ((int)e->opcode) {
    case KTIR_OP_ISNAN: return isnan(x);
    case KTIR_OP_ISINF: return isinf(x);
    case KTIR_OP_ISFINITE: return isfinite(x);
    default: return isfinite(x) && fabs(x) >= ktir_least_normal(e->from);
    }
}

static bool apply(const element_op *e, const ktir_number_value *in, uint32_t count,
                  ktir_number_value *out)
{
    double reals[3];
    switch ((int)e->info->form) {
    case KTIR_FORM_CAST: return cast(e, in[0], out);
    case KTIR_FORM_COMPARE:
        out->integer = ktir_compare(e->predicate, e->from, in[0], in[1]);
        return true;
    case KTIR_FORM_SELECT:
        *out = in[0].integer ? in[1] : in[2];
        return true;
    case KTIR_FORM_CLASS:
        out->integer = is_of_class(e, in[0].real);
        return true;
    case KTIR_FORM_FPOWI:
        *out = real(e->to, pow(in[0].real, (double)in[1].integer));
        return true;
    default: break;
    }
    if (!is_float(e->from))
        return ktir_integer_apply(e->info->integer, e->from, in[0].integer,
                                  count > 1 ? in[1].integer : 0, &out->integer);
    if (e->opcode == KTIR_OP_ROUND_AWAY) {
        *out = real(e->to, round(in[0].real));
        return true;
    }
    if (e->opcode == KTIR_OP_CLAMPF) {
        reals[0] = in[0].real, reals[1] = in[2].real;
        reals[0] = opfunc_apply(OPFUNC_MINIMUM, reals, 2, NULL), reals[1] = in[1].real;
        *out = real(e->to, opfunc_apply(OPFUNC_MAXIMUM, reals, 2, NULL));
        return true;
    }
    for (uint32_t n = 0; n < count; n++) reals[n] = in[n].real;
    *out = real(e->to, opfunc_apply(e->info->op, reals, count, NULL));
    return true;
}

static spyre_status impossible(const tile *t, const ktir_op *op, const element_op *e,
                               const ktir_number_value *in)
{
    return machine_fault(t, op, "%s of %lld and %lld has no result", e->info->mnemonic,
                         (long long)in[0].integer, (long long)in[1].integer);
}

static spyre_status apply_numbers(tile *t, const ktir_op *op, const element_op *e, uint32_t count)
{
    ktir_number_value in[3] = {{0}}, out = {0};
    int32_t memory = MACHINE_NO_MEMORY;
    for (uint32_t n = 0; n < count; n++) {
        const machine_cell *cell = machine_operand(t, op, n);
        in[n] = cell->number;
        if (cell->memory == MACHINE_NO_MEMORY) continue;
        bool moves = op->opcode == KTIR_OP_ADDI || (op->opcode == KTIR_OP_SUBI && n == 0) ||
                     op->opcode == KTIR_OP_SELECT;
        if (!moves || (memory != MACHINE_NO_MEMORY && op->opcode != KTIR_OP_SELECT))
            return machine_fault(t, op, "%s is an address: a number may be added to it, no more",
                                 t->x->m->values.items[ktir_operand(t->x->m, op, n)].name);
        if (op->opcode == KTIR_OP_SELECT && (n == 1) != (in[0].integer != 0)) continue;
        memory = cell->memory;
    }
    if (!apply(e, in, count, &out)) return impossible(t, op, e, in);
    machine_set(t, op->first_result, out);
    t->cells[op->first_result].memory = memory;
    return NULL;
}

static spyre_status apply_tensors(tile *t, const ktir_op *op, const element_op *e, uint32_t count)
{
    const machine_cell *cells[3];
    const ktir_tensor *shape = NULL;
    for (uint32_t n = 0; n < count; n++) {
        cells[n] = machine_operand(t, op, n);
        if (cells[n]->tensor) shape = cells[n]->tensor;
    }
    for (uint32_t n = 0; n < count; n++)
        if (cells[n]->tensor && cells[n]->tensor->count != shape->count)
            return machine_fault(t, op, "tensors of %lld and %lld elements",
                                 (long long)cells[n]->tensor->count, (long long)shape->count);
    ktir_tensor *out = ktir_tensor_new(e->to, shape->rank, shape->size);
    for (int64_t i = 0; out && i < shape->count; i++) {
        ktir_number_value in[3] = {{0}};
        for (uint32_t n = 0; n < count; n++)
            in[n] = cells[n]->tensor ? cells[n]->tensor->at[i] : cells[n]->number;
        if (apply(e, in, count, &out->at[i])) continue;
        ktir_tensor_drop(out);
        return impossible(t, op, e, in);
    }
    return machine_give(t, op, op->first_result, out);
}

static spyre_status constant(tile *t, const ktir_op *op)
{
    const ktir_type *type = ktir_result_type(t->x->m, op);
    ktir_number_value value = {.integer = ktir_number(t->x->m, op, KTIR_KEY_VALUE, 0)};
    if (is_float(type->element)) value.real = ktir_round(type->element, value.real);
    if (type->kind == KTIR_SCALAR) {
        machine_set(t, op->first_result, value);
        return NULL;
    }
    ktir_tensor *out = ktir_tensor_new(type->element, type->rank, type->size);
    for (int64_t i = 0; out && i < out->count; i++) out->at[i] = value;
    return machine_give(t, op, op->first_result, out);
}

spyre_status machine_arith(tile *t, const ktir_op *op, ktir_form form)
{
    const ktir_module *m = t->x->m;
    if (form == KTIR_FORM_CONSTANT) return constant(t, op);
    const ktir_type *from = ktir_operand_type(m, op, op->opcode == KTIR_OP_SELECT ? 1 : 0);
    const ktir_type *to = ktir_result_type(m, op);
    bool outs = form == KTIR_FORM_LINALG_BINARY || form == KTIR_FORM_LINALG_UNARY;
    element_op e = {.info = ktir_op_describe(op->opcode), .opcode = op->opcode,
                    .from = from->element, .to = to->element};
    if (form == KTIR_FORM_COMPARE)
        e.predicate = &ktir_predicates[ktir_number(m, op, KTIR_KEY_PREDICATE, 0)];
    uint32_t count = op->operand_count - (outs ? 1 : 0);
    return to->kind == KTIR_TENSOR ? apply_tensors(t, op, &e, count)
                                   : apply_numbers(t, op, &e, count);
}
