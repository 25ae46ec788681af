// SPDX-License-Identifier: Apache-2.0
//
// One lane, in plain C. Also the choice among the variants.
#include <string.h>

#include "card/simd/lanes.h"
#include "card/simd/simd.h"
#include "card/simd/simd_layer.h"
#include "card/simd/simd_scalar.h"
#include "tensor/convert.h"

typedef struct {
    V a, b;
} pair;
enum { LANES = 1, BLOCK_ROWS = 1, STEP_ROWS = 1, FEW_ROWS = 1, HAS_EXP = 0 };

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

static inline void pair_store_dl16(uint8_t *to, pair x)
{
    uint16_t codes[2] = {dl16_from_float(x.a), dl16_from_float(x.b)};
    memcpy(to, codes, sizeof codes);
}

static inline V v_round_bits(V x)
{
    return float_from_bits((float_bits(x) + (1u << 13)) & ~0u << DL16_FRACTION_SHIFT);
}

static inline V v_round_dl16(V x)
{
    return dl16_to_float(dl16_from_float(x));
}

ALWAYS_INLINE void round_pairs(pair *x, size_t count)
{
    for (size_t n = 0; n < count; n++) x[n] = (pair){v_round_dl16(x[n].a), v_round_dl16(x[n].b)};
}

static inline pair pair_load_f16(const uint8_t *at)
{
    uint16_t words[2];
    memcpy(words, at, sizeof words);
    return (pair){v_round_dl16(fp16_to_float(words[0])), v_round_dl16(fp16_to_float(words[1]))};
}

static inline void pair_store_f16(uint8_t *to, pair x)
{
    uint16_t words[2] = {dl16_to_host_fp16(dl16_from_float(x.a)),
                         dl16_to_host_fp16(dl16_from_float(x.b))};
    memcpy(to, words, sizeof words);
}

// Never asked for: HAS_EXP.
static inline V v_exp_dl16(V x)
{
    return x;
}

// Never asked for: there are no other lanes.
static inline V v_lanes_behind(V x, int lanes)
{
    (void)lanes;
    return x;
}

static inline V v_load(const uint8_t *at)
{
    V x;
    memcpy(&x, at, sizeof x);
    return x;
}

static inline void v_store(uint8_t *to, V x)
{
    memcpy(to, &x, sizeof x);
}

static inline pair pair_load_f32(const uint8_t *at)
{
    pair x;
    memcpy(&x, at, sizeof x);
    return x;
}

// For products that fp32 holds exactly.
#define v_fma(a, b, sum) ((sum) + (a) * (b))

static inline void pair_store_f32(uint8_t *to, pair x)
{
    memcpy(to, &x, sizeof x);
}

#define pair_load_turns  pair_load_f32
#define pair_store_turns pair_store_f32

static inline pair pair_load_scaled(const uint8_t *at)
{
    pair x = pair_load_dl16(at);
    return (pair){x.a / SIMD_SCALE, x.b / SIMD_SCALE};
}

typedef struct {
    bool others;
} code_bounds;

static inline code_bounds no_codes(void)
{
    return (code_bounds){false};
}

static inline void see_codes(code_bounds *seen, const uint8_t *at)
{
    uint16_t codes[2];
    memcpy(codes, at, sizeof codes);
    for (size_t n = 0; n < 2; n++) {
        uint16_t magnitude = codes[n] & DL16_MERGED;
        if (magnitude == DL16_MERGED || (magnitude && magnitude < SCALED_LEAST))
            seen->others = true;
    }
}

static inline bool all_scaled(const code_bounds *seen)
{
    return !seen->others;
}

#include "card/simd/simd_body.h"

const simd_table simd_portable = SIMD_ENTRIES;

const simd_table *simd_in_use(void)
{
#if defined(__x86_64__)
    const char *variant = convert_variant();
    if (strcmp(variant, "avx512") == 0) return &simd_avx512;
    if (strcmp(variant, "avx2") == 0) return &simd_avx2;
#endif
    return &simd_portable;
}

bool vector_applies(opfunc op, uint32_t inputs)
{
#define ARITY(name, arity, worth, expression) [OPFUNC_##name] = (arity),
    static const uint8_t arities[OPFUNC_COUNT] = {COMMON_ROWS(ARITY)};
#undef ARITY
    return inputs > 0 && arities[op] == inputs;
}

simd_sum simd_sum_of(opfunc op)
{
    return op == OPFUNC_SUM    ? SIMD_SUM
           : op == OPFUNC_MAX  ? SIMD_MAX
           : op == OPFUNC_MIN  ? SIMD_MIN
           : op == OPFUNC_PROD ? SIMD_PRODUCT
                               : SIMD_SUMS;
}

bool simd_reads(spyre_format format, simd_format *out_format)
{
    *out_format = format == SPYRE_FORMAT_SEN169_FP16 ? SIMD_DL16 : SIMD_F32;
    return format == SPYRE_FORMAT_SEN169_FP16 || format == SPYRE_FORMAT_IEEE_FP32;
}

simd_function *simd_find(opfunc op, spyre_format result, const spyre_format *inputs,
                         uint32_t count)
{
    simd_format format;
    if (!simd_reads(result, &format)) return NULL;
    for (uint32_t n = 0; n < count; n++)
        if (!simd_reads(inputs[n], &format)) return NULL;
    if (opfunc_describe(op)->kind == OPFUNC_KIND_COPY) op = OPFUNC_IDENTITY;
    const simd_table *table = simd_in_use();
    return lanes_f32_suffices(op, result, inputs, count) ? table->f32[op] : table->f64[op];
}
