// SPDX-License-Identifier: Apache-2.0
//
// One lane, in plain C. Also the choice among the variants.
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "card/lanes.h"
#include "card/strip.h"
#include "card/strip_layer.h"
#include "tensor/convert.h"
#include "tensor/numeric.h"

typedef float V;
typedef double D;
typedef struct {
    V a, b;
} pair;
enum { LANES = 1 };

#define FUNCTIONS(prefix, type, root, floor_of, absolute)          \
    UNARY(type, prefix##_set, type, x)                             \
    BINARY(type, prefix##_max, type, a > b ? a : b)                \
    BINARY(type, prefix##_min, type, a < b ? a : b)                \
    UNARY(type, prefix##_sqrt, type, root(x))                      \
    UNARY(type, prefix##_floor, type, floor_of(x))                 \
    UNARY(type, prefix##_magnitude, type, absolute(x))             \
    BINARY(bool, prefix##_less, type, a < b)                       \
    BINARY(bool, prefix##_less_equal, type, a <= b)                \
    BINARY(bool, prefix##_equal, type, a == b)                     \
    BINARY(bool, prefix##_unordered, type, a != a || b != b)       \
    PICKER(prefix##_pick, bool, type, m ? x : y)
FUNCTIONS(v, float, sqrtf, floorf, fabsf)
FUNCTIONS(d, double, sqrt, floor, fabs)

UNARY(D, v_low, V, (D)x)
UNARY(D, v_high, V, (D)x)
BINARY(V, v_join, D, ((void)b, (V)a))

// One step back where rounding went away from zero.
static inline V v_join_cut(D x, D same)
{
    V rounded = (V)x;
    (void)same;
    return fabs((D)rounded) > fabs(x) ? float_from_bits(float_bits(rounded) - 1) : rounded;
}

static inline pair pair_load_dl16(const uint8_t *at)
{
    uint16_t codes[2];
    memcpy(codes, at, sizeof codes);
    return (pair){dl16_to_float(codes[0]), dl16_to_float(codes[1])};
}

static inline V v_repeat_dl16(const uint8_t *at)
{
    uint16_t code;
    memcpy(&code, at, sizeof code);
    return dl16_to_float(code);
}

static inline void pair_store_dl16(uint8_t *to, pair x)
{
    uint16_t codes[2] = {dl16_from_float(x.a), dl16_from_float(x.b)};
    memcpy(to, codes, sizeof codes);
}

static inline V v_quieten(V x)
{
    uint32_t bits = float_bits(x);
    return (bits & 0x7FFFFFFFu) > 0x7F800000u ? float_from_bits(bits | 0x00400000u) : x;
}

static inline pair pair_load_f32(const uint8_t *at)
{
    pair x;
    memcpy(&x, at, sizeof x);
    return x;
}

static inline void pair_store_f32(uint8_t *to, pair x)
{
    memcpy(to, &x, sizeof x);
}

static inline size_t table_pairs(uint8_t *to, const uint8_t *from, const uint16_t *table,
                                 size_t count)
{
    (void)to, (void)from, (void)table, (void)count;
    return 0;
}

#include "card/strip_body.h"

const strip_table strip_portable = STRIP_ENTRIES;

const strip_table *strip_in_use(void)
{
#if defined(__x86_64__)
    const char *variant = convert_variant();
    if (strcmp(variant, "avx512") == 0) return &strip_avx512;
    if (strcmp(variant, "avx2") == 0) return &strip_avx2;
#endif
    return &strip_portable;
}

bool strip_reads(spyre_format format, strip_format *out_format)
{
    *out_format = format == SPYRE_FORMAT_SEN169_FP16 ? STRIP_DL16 : STRIP_F32;
    return format == SPYRE_FORMAT_SEN169_FP16 || format == SPYRE_FORMAT_IEEE_FP32;
}

strip_function *strip_find(opfunc op, spyre_format result, const spyre_format *inputs,
                           uint32_t count)
{
    strip_format format;
    if (!strip_reads(result, &format)) return NULL;
    for (uint32_t n = 0; n < count; n++)
        if (!strip_reads(inputs[n], &format)) return NULL;
    if (opfunc_describe(op)->kind == OPFUNC_KIND_COPY) op = OPFUNC_IDENTITY;
    const strip_table *table = strip_in_use();
    if (!lanes_f32_suffices(op, result, inputs, count)) return table->f64[op];
    bool dl16 = result == SPYRE_FORMAT_SEN169_FP16;
    return op == OPFUNC_REALDIV && dl16 ? table->quotient : table->f32[op];
}
