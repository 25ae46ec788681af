// SPDX-License-Identifier: Apache-2.0
//
// One function on tensors in LX as vector instructions, with copies and constants.
#include <math.h>
#include <string.h>

#include "ktir/lower/lowering.h"

static isa_operand in_lx(const lowered_tensor *t)
{
    isa_operand o = {.space = ISA_SPACE_LX, .format = t->format, .offset = t->offset};
    memcpy(o.loop_stride, t->loop, sizeof o.loop_stride);
    return o;
}

static spyre_status fill(lowering *w, const ktir_op *op, const lowered_tensor *target,
                         double value);

// An integer that fp32, which FILL has, does not hold: its upper part times 2^16, and its lower.
static spyre_status fill_large(lowering *w, const ktir_op *op, const lowered_tensor *target,
                               double value)
{
    double upper = floor(value / 0x1p16);
    lowered_tensor number = lower_constant(target->format, 0x1p16);
    if (fabs(upper) > 0x1p24) return LOWER_NO(w, op, "an integer of more than 40 bits");
    TRY(fill(w, op, target, upper));
    TRY(LOWER_VECTOR(MUL, target, target, &number));
    number.value = value - upper * 0x1p16;
    return LOWER_VECTOR(ADD, target, target, &number);
}

static spyre_status fill(lowering *w, const ktir_op *op, const lowered_tensor *target, double value)
{
    if (!isnan(value) && (double)(float)value != value) return fill_large(w, op, target, value);
    lowered_tile tile = {.i = {.opcode = ISA_FILL, .operand_count = 1, .constant = {(float)value}},
                         .rank = target->rank};
    tile.i.operand[0] = in_lx(target);
    memcpy(tile.size, target->size, target->rank * sizeof *tile.size);
    memcpy(tile.stride[0], target->stride, target->rank * sizeof *tile.size);
    return lower_tile(w, op, &tile);
}

// A constant as one element that all positions read.
static spyre_status one_element(lowering *w, const ktir_op *op, const lowered_tensor *t,
                                lowered_tensor *out)
{
    TRY(lower_scratch(w, op, t->format, (lowered_sizes){0, NULL}, lower_number(w, op), out));
    out->element = t->element;
    TRY(fill(w, op, out, t->value));
    out->rank = t->rank;
    memcpy(out->size, t->size, sizeof out->size);
    memset(out->stride, 0, sizeof out->stride);
    return NULL;
}

spyre_status lower_vector(lowering *w, const ktir_op *op, opfunc function,
                          const lowered_tensor *target, const lowered_tensor *const *inputs,
                          uint32_t count)
{
    lowered_tile tile = {.i = {.opcode = ISA_VECTOR, .op = function,
                               .operand_count = (uint8_t)(count + 1)},
                         .rank = target->rank};
    tile.i.operand[0] = in_lx(target);
    memcpy(tile.size, target->size, target->rank * sizeof *tile.size);
    memcpy(tile.stride[0], target->stride, target->rank * sizeof *tile.size);
    for (uint32_t n = 0; n < count; n++) {
        lowered_tensor in = *inputs[n];
        if (in.is_constant) TRY(one_element(w, op, inputs[n], &in));
        tile.i.operand[n + 1] = in_lx(&in);
        if (in.rank == target->rank)
            memcpy(tile.stride[n + 1], in.stride, in.rank * sizeof *tile.size);
    }
    return lower_tile(w, op, &tile);
}

spyre_status lower_copy(lowering *w, const ktir_op *op, const lowered_tensor *target,
                        const lowered_tensor *source)
{
    if (source->is_constant) return fill(w, op, target, source->value);
    return LOWER_VECTOR(IDENTITY, target, source);
}

spyre_status lower_in_lx(lowering *w, const ktir_op *op, const lowered_tensor *t,
                         lowered_tensor *out)
{
    if (!t->is_constant) {
        *out = *t;
        return NULL;
    }
    TRY(lower_scratch_like(w, op, t->format, t, out));
    out->element = t->element;
    return fill(w, op, out, t->value);
}
