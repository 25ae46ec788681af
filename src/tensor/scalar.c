// SPDX-License-Identifier: Apache-2.0
#include "tensor/scalar.h"

#include <math.h>
#include <string.h>

#include "tensor/numeric.h"
#include "tensor/opfunc.h"

static const char *const WORDS[] = {
#define SCALAR_FORM(name, word, formula) word,
#include "spyre/scalar_form.def"
};

static double finite_or(double rounded, double value)
{
    return isfinite(rounded) ? rounded : value;
}

// What `bits` bits keep of the whole part; signed ones of 2^(bits - 1) and more are negative.
static double wrapped(double value, int bits, bool is_signed)
{
    double range = ldexp(1, bits), rest = fmod(trunc(value), range);
    if (!isfinite(value)) return value;
    if (rest < 0) rest += range;
    return is_signed && rest >= range / 2 ? rest - range : rest;
}

double scalar_apply(spyre_scalar_form form, double value)
{
    switch (form) {
    case SPYRE_SCALAR_REST: return 1 - value;
    case SPYRE_SCALAR_LOG_F16: return log((double)fp16_to_float(fp16_from_float((float)value)));
    case SPYRE_SCALAR_LOG_BF16: return log((double)bf16_to_float(bf16_from_float((float)value)));
    case SPYRE_SCALAR_AS_F16:
        return finite_or((double)fp16_to_float(fp16_from_float((float)value)), value);
    case SPYRE_SCALAR_AS_BF16:
        return finite_or((double)bf16_to_float(bf16_from_float((float)value)), value);
    case SPYRE_SCALAR_AS_U8: return wrapped(value, 8, false);
    case SPYRE_SCALAR_AS_I8: return wrapped(value, 8, true);
    case SPYRE_SCALAR_AS_I16: return wrapped(value, 16, true);
    case SPYRE_SCALAR_AS_IS:
    case SPYRE_SCALAR_FORM_COUNT: break;
    }
    return value;
}

const char *scalar_form_word(spyre_scalar_form form)
{
    return (uint32_t)form < SPYRE_SCALAR_FORM_COUNT ? WORDS[form] : "?";
}

bool scalar_form_named(const char *word, size_t length, spyre_scalar_form *out_form)
{
    for (uint32_t i = 0; i < SPYRE_SCALAR_FORM_COUNT; i++) {
        if (strlen(WORDS[i]) != length || memcmp(WORDS[i], word, length) != 0) continue;
        *out_form = (spyre_scalar_form)i;
        return true;
    }
    return false;
}

void scalar_fill_stick(void *stick, spyre_format format, double value)
{
    uint64_t element = 0;
    uint32_t size = spyre_format_bytes(format);
    element_store(&element, format, value);
    for (uint32_t at = 0; at < SPYRE_STICK_BYTES; at += size)
        memcpy((char *)stick + at, &element, size);
}
