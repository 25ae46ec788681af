// SPDX-License-Identifier: Apache-2.0
#include "ktir/interpret/tensor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

ktir_tensor *ktir_tensor_new(ktir_element element, uint32_t rank, const int64_t *size)
{
    int64_t count = 1;
    for (uint32_t d = 0; d < rank; d++) {
        if (size[d] < 0 || (size[d] && count > KTIR_MOST_ELEMENTS / size[d])) return NULL;
        count *= size[d];
    }
    ktir_tensor *t = calloc(1, sizeof *t + (size_t)count * sizeof *t->at);
    if (!t) return NULL;
    t->owners = 1;
    t->element = element;
    t->rank = rank;
    t->count = count;
    for (uint32_t d = 0; d < rank; d++) t->size[d] = size[d];
    return t;
}

ktir_tensor *ktir_tensor_like(const ktir_tensor *t)
{
    return ktir_tensor_new(t->element, t->rank, t->size);
}

ktir_tensor *ktir_tensor_keep(ktir_tensor *t)
{
    if (t) t->owners++;
    return t;
}

void ktir_tensor_drop(ktir_tensor *t)
{
    if (t && --t->owners == 0) free(t);
}

double ktir_round(ktir_element element, double value)
{
    if (element == KTIR_F32) return (double)(float)value;
    uint16_t code;
    element_store(&code, SPYRE_FORMAT_SEN169_FP16, value);
    return element_load(&code, SPYRE_FORMAT_SEN169_FP16);
}

double ktir_least_normal(ktir_element element)
{
    return element == KTIR_F32 ? 0x1p-126 : 0x1.008p-31;
}

static uint32_t width_of(ktir_element element)
{
    return element == KTIR_I1 ? 1 : ktir_element_describe(element)->bytes * 8;
}

int64_t ktir_wrap(ktir_element element, int64_t value)
{
    uint32_t width = width_of(element);
    if (width == 64) return value;
    if (width == 1) return value & 1;
    return (int64_t)((uint64_t)value << (64 - width)) >> (64 - width);
}

ktir_number_value ktir_element_load(ktir_element element, const uint8_t *bytes)
{
    const ktir_element_info *info = ktir_element_describe(element);
    ktir_number_value value = {.integer = 0};
    if (info->is_float) {
        value.real = element_load(bytes, info->format);
    } else {
        memcpy(&value.integer, bytes, info->bytes);
        value.integer = ktir_wrap(element, value.integer);
    }
    return value;
}

void ktir_element_store(ktir_element element, uint8_t *bytes, ktir_number_value value)
{
    const ktir_element_info *info = ktir_element_describe(element);
    if (info->is_float) element_store(bytes, info->format, value.real);
    else memcpy(bytes, &value.integer, info->bytes);
}

// --- Integers

static int64_t floor_quotient(int64_t x, int64_t y)
{
    if (y == -1) return (int64_t)(0 - (uint64_t)x);
    return x / y - (x % y != 0 && (x < 0) != (y < 0));
}

static int64_t ceil_quotient(int64_t x, int64_t y)
{
    if (y == -1) return (int64_t)(0 - (uint64_t)x);
    return x / y + (x % y != 0 && (x < 0) == (y < 0));
}

static int64_t power_of(int64_t x, int64_t y)
{
    uint64_t power = 1, square = (uint64_t)x, rest = (uint64_t)(y < 0 ? -(y % 2) : y);
    if (y < 0 && x != 1 && x != -1) return 0;
    for (; rest; rest >>= 1, square *= square)
        if (rest & 1) power *= square;
    return (int64_t)power;
}

static bool divides(ktir_integer op)
{
    return op == KTIR_INTEGER_DIV || op == KTIR_INTEGER_UDIV || op == KTIR_INTEGER_REM ||
           op == KTIR_INTEGER_UREM || op == KTIR_INTEGER_CEILDIV || op == KTIR_INTEGER_UCEILDIV ||
           op == KTIR_INTEGER_FLOORDIV;
}

static bool shifts(ktir_integer op)
{
    return op == KTIR_INTEGER_SHL || op == KTIR_INTEGER_SHR || op == KTIR_INTEGER_USHR;
}

static bool takes_unsigned(ktir_integer op)
{
    return op == KTIR_INTEGER_UDIV || op == KTIR_INTEGER_UREM || op == KTIR_INTEGER_UCEILDIV ||
           op == KTIR_INTEGER_USHR || op == KTIR_INTEGER_UMAX || op == KTIR_INTEGER_UMIN ||
           op == KTIR_INTEGER_CTPOP || op == KTIR_INTEGER_CTLZ || op == KTIR_INTEGER_CTTZ;
}

static int64_t without_sign(ktir_element element, int64_t value)
{
    uint32_t width = width_of(element);
    return width == 64 ? value : (int64_t)((uint64_t)value & (((uint64_t)1 << width) - 1));
}

bool ktir_integer_apply(ktir_integer op, ktir_element element, int64_t x, int64_t y,
                        int64_t *out_value)
{
    int64_t result = 0, width = width_of(element);
    if (divides(op) && y == 0) return false;
    if (shifts(op) && (y < 0 || y >= width)) return false;
    if (op == KTIR_INTEGER_POW && x == 0 && y < 0) return false;
    if (takes_unsigned(op)) {
        x = without_sign(element, x);
        y = without_sign(element, y);
    }
    switch (op) {
#define KTIR_INTEGER(id, function, is_unsigned, expression) \
    case KTIR_INTEGER_##id: result = (expression); break;
#include "ktir/ir/integer.def"
#undef KTIR_INTEGER
    case KTIR_INTEGER_NONE: break;
    }
    *out_value = ktir_wrap(element, result);
    return true;
}

// --- Comparisons

static bool relates(opfunc relation, int order)
{
    switch ((int)relation) {
    case OPFUNC_EQUAL: return order == 0;
    case OPFUNC_NOTEQUAL: return order != 0;
    case OPFUNC_LESSERTHAN: return order < 0;
    case OPFUNC_LESSEREQUAL: return order <= 0;
    case OPFUNC_GREATERTHAN: return order > 0;
    default: return order >= 0;
    }
}

bool ktir_compare(const ktir_predicate *predicate, ktir_element element, ktir_number_value x,
                  ktir_number_value y)
{
    if (predicate->of_floats) {
        if (predicate->relation == OPFUNC_IDENTITY) return predicate->is_unsigned;
        if (isnan(x.real) || isnan(y.real)) return predicate->is_unsigned;
        if (predicate->relation == OPFUNC_NONE) return !predicate->is_unsigned;
        return relates(predicate->relation, (x.real > y.real) - (x.real < y.real));
    }
    if (!predicate->is_unsigned)
        return relates(predicate->relation, (x.integer > y.integer) - (x.integer < y.integer));
    uint64_t a = (uint64_t)without_sign(element, x.integer);
    uint64_t b = (uint64_t)without_sign(element, y.integer);
    return relates(predicate->relation, (a > b) - (a < b));
}
