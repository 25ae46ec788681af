// SPDX-License-Identifier: Apache-2.0
//
// VECTOR without a conversion. Where a result is one of the inputs, or says how they compare,
// the bits in memory are enough: SEN169_FP16 has a sign and a magnitude, no NaN, so its codes
// compare as integers once a negative one is the negative of its magnitude (rank_of); IEEE_INT32
// compares as it is. Whatever is not dense passes through a buffer, so that the loops know
// dense operands alone.
//
//     maximum   codes 0x3E00 (1), 0xC000 (-2)    ranks 0x3E00, -0x4000    the first
#include <string.h>

#include "base/target_clones.h"
#include "card/tile/runs.h"
#include "tensor/convert.h"
#include "tensor/numeric.h"

enum { CHUNK = 512, MOST_INPUTS = 3, MAGNITUDE = 0x7FFF, ONE = 31 << 9 };

// Ranks, conditions and choices are of 16 bits as the codes are: GCC would widen what ?: chooses.
static inline int16_t rank_of(int16_t code)
{
    const int16_t sign = (int16_t)(code >> 15);
    return (int16_t)(((code & MAGNITUDE) ^ sign) - sign);
}

static inline int16_t choose(bool condition, int16_t x, int16_t y)
{
    const int16_t mask = (int16_t)-condition;
    return (int16_t)(y ^ ((x ^ y) & mask));
}

// clip: codes of rank below `raised` become `least`, those of rank above `lowered` become `most`.
typedef struct {
    int16_t least, most, one;
    int32_t raised, lowered;
} code_limits;

typedef void code_loop(void *to, const void *const *in, const code_limits *l, size_t count);

// An input may be where the result is, element for element.
#define CODE_LOOP(name, type, result)                                                         \
    BASE_CLONES                                                                               \
    static void name(void *to, const void *const *in, const code_limits *l, size_t count)     \
    {                                                                                         \
        const type *x = in[0], *y = in[1], *z = in[2];                                        \
        const int16_t one = l->one, least = l->least, most = l->most;                         \
        const int16_t raised = (int16_t)l->raised, lowered = (int16_t)l->lowered;             \
        int16_t *out = to;                                                                    \
        (void)y, (void)z, (void)one, (void)least, (void)most, (void)raised, (void)lowered;    \
        BASE_INDEPENDENT for (size_t n = 0; n < count; n++) out[n] = (int16_t)(result);   \
    }

#define X x[n]
#define Y y[n]
#define CODES(name, result) CODE_LOOP(codes_##name, int16_t, result)
CODES(relu, X > 0 ? X : 0)
CODES(abs, X & MAGNITUDE)
CODES(neg, X ^ ~MAGNITUDE)
CODES(copysign, (X & MAGNITUDE) | (Y & ~MAGNITUDE))
CODES(maximum, choose(rank_of(X) > rank_of(Y), X, Y))
CODES(minimum, choose(rank_of(X) < rank_of(Y), X, Y))
CODES(clip, choose(rank_of(X) < raised, least, choose(rank_of(X) > lowered, most, X)))
CODES(where3, choose((X & MAGNITUDE) != 0, Y, z[n]))
#define COMPARISONS(COMPARE)                                                                  \
    COMPARE(EQUAL, ==)                                                                        \
    COMPARE(NOTEQUAL, !=)                                                                     \
    COMPARE(LESSERTHAN, <)                                                                    \
    COMPARE(LESSEREQUAL, <=)                                                                  \
    COMPARE(GREATERTHAN, >)                                                                   \
    COMPARE(GREATEREQUAL, >=)
#define COMPARE_CODES(name, is) CODES(name, choose(rank_of(X) is rank_of(Y), one, 0))
#define COMPARE_INT32(name, is) CODE_LOOP(int32_##name, int32_t, X is Y ? one : 0)
COMPARISONS(COMPARE_CODES)
COMPARISONS(COMPARE_INT32)

// The same with one y for all.
#define ONE_LOOP(name, type, result)                                                          \
    BASE_CLONES                                                                               \
    static void name(void *to, const void *const *in, const code_limits *l, size_t count)     \
    {                                                                                         \
        const type *x = in[0], y = *(const type *)in[1];                                      \
        const int16_t one = l->one;                                                           \
        int16_t *out = to;                                                                    \
        BASE_INDEPENDENT for (size_t n = 0; n < count; n++) out[n] = (int16_t)(result);   \
    }
#define ONE_CODES(name, is) ONE_LOOP(one_##name, int16_t, choose(rank_of(X) is rank_of(y), one, 0))
#define ONE_INT32(name, is) ONE_LOOP(one32_##name, int32_t, X is y ? one : 0)
COMPARISONS(ONE_CODES)
COMPARISONS(ONE_INT32)

// Of comparisons.
static code_loop *one_loop_of(opfunc op, spyre_format input)
{
#define ONE_ENTRY(name, is) [OPFUNC_##name] = one_##name,
#define ONE32_ENTRY(name, is) [OPFUNC_##name] = one32_##name,
    static code_loop *const of_codes[OPFUNC_COUNT] = {COMPARISONS(ONE_ENTRY)};
    static code_loop *const of_int32[OPFUNC_COUNT] = {COMPARISONS(ONE32_ENTRY)};
    return input == SPYRE_FORMAT_SEN169_FP16 ? of_codes[op] : of_int32[op];
}

// The comparison of y with x.
static opfunc turned(opfunc op)
{
    switch ((int)op) {
    case OPFUNC_LESSERTHAN: return OPFUNC_GREATERTHAN;
    case OPFUNC_LESSEREQUAL: return OPFUNC_GREATEREQUAL;
    case OPFUNC_GREATERTHAN: return OPFUNC_LESSERTHAN;
    case OPFUNC_GREATEREQUAL: return OPFUNC_LESSEREQUAL;
    default: return op;
    }
}

static code_loop *loop_of(opfunc op, spyre_format input)
{
#define CODES_ENTRY(name, is) [OPFUNC_##name] = codes_##name,
#define INT32_ENTRY(name, is) [OPFUNC_##name] = int32_##name,
    static code_loop *const of_codes[OPFUNC_COUNT] = {
        COMPARISONS(CODES_ENTRY)[OPFUNC_RELUFWD] = codes_relu,
        [OPFUNC_ABS] = codes_abs,
        [OPFUNC_NEG] = codes_neg,
        [OPFUNC_COPYSIGN] = codes_copysign,
        [OPFUNC_MAXIMUM] = codes_maximum,
        [OPFUNC_MINIMUM] = codes_minimum,
        [OPFUNC_CLIP] = codes_clip,
        [OPFUNC_WHERE3] = codes_where3,
    };
    static code_loop *const of_int32[OPFUNC_COUNT] = {COMPARISONS(INT32_ENTRY)};
    if (input == SPYRE_FORMAT_SEN169_FP16) return of_codes[op];
    return input == SPYRE_FORMAT_IEEE_INT32 ? of_int32[op] : NULL;
}

// --- Clip

// The bounds are fp32, so the nearest code may be on either side. An upper bound below the lower
// one wins everywhere; what is no number bounds nothing.
static code_limits limits_of(const isa_instruction *i)
{
    const float p = i->constant[0], q = i->constant[1];
    code_limits l = {.one = ONE, .raised = INT16_MIN, .lowered = INT16_MAX};
    if (i->op != OPFUNC_CLIP) return l;
    l.most = (int16_t)dl16_from_float(q);
    l.least = q < p ? l.most : (int16_t)dl16_from_float(p);
    if (p == p)
        l.raised = rank_of((int16_t)dl16_from_float(p)) +
                   (dl16_to_float(dl16_from_float(p)) < p ? 1 : 0);
    if (q == q) l.lowered = rank_of(l.most) - (dl16_to_float((uint16_t)l.most) > q ? 1 : 0);
    return l;
}

// --- Runs

// `count` elements of an input from `at` on, dense; `held` is how many of the buffer repeat the
// element at `of` already.
typedef struct {
    _Alignas(64) uint8_t elements[CHUNK * 4];
    const uint8_t *of;
    size_t held;
} dense_buffer;

static void repeat(void *to, const uint8_t *element, uint32_t bytes, size_t count)
{
    uint16_t *codes = to, code;
    uint32_t *wide = to, value;
    if (bytes == 2) {
        memcpy(&code, element, sizeof code);
        for (size_t n = 0; n < count; n++) codes[n] = code;
    } else {
        memcpy(&value, element, sizeof value);
        for (size_t n = 0; n < count; n++) wide[n] = value;
    }
}

static const void *dense(dense_buffer *b, const uint8_t *at, int64_t stride, uint32_t bytes,
                         size_t count)
{
    if (stride == bytes) return at;
    if (stride == 0 && b->of == at && b->held >= count) return b->elements;
    if (stride == 0) repeat(b->elements, at, bytes, count);
    else copy_elements(b->elements, bytes, at, stride, (int64_t)count, bytes);
    b->of = at;
    b->held = stride == 0 ? count : 0;
    return b->elements;
}

// What has codes has no other format.
static inline int64_t bytes_of(const isa_operand *operand)
{
    return operand->format == SPYRE_FORMAT_SEN169_FP16 ? 2 : 4;
}

static bool is_dense(const plan_tile *tile)
{
    const isa_instruction *i = tile->instruction;
    for (uint32_t o = 0; o < i->operand_count; o++)
        if (run_stride(tile, o) != bytes_of(&i->operand[o])) return false;
    return true;
}

static bool has_aligned_strides(const plan_tile *tile)
{
    const isa_instruction *i = tile->instruction;
    for (uint32_t o = 0; o < i->operand_count; o++)
        for (uint32_t d = 0; d < tile->dim_count; d++)
            if (tile->stride[o][d] % bytes_of(&i->operand[o])) return false;
    return true;
}

// One run: nothing to walk, nothing to buffer.
static void run_dense_codes(const plan_tile *tile, uint8_t *const *address, plan_scratch *scratch)
{
    (void)scratch;
    const isa_instruction *i = tile->instruction;
    const void *const in[MOST_INPUTS] = {address[1], address[i->operand_count > 2 ? 2 : 1],
                                         address[i->operand_count > 3 ? 3 : 1]};
    const code_limits limits = limits_of(i);
    loop_of(i->op, i->operand[1].format)(address[0], in, &limits, (size_t)run_length(tile));
}

// One element of a run is compared with those of the other input.
static bool compares_with_one(const plan_tile *tile)
{
    const isa_instruction *i = tile->instruction;
    if (i->operand_count != 3 || !one_loop_of(i->op, i->operand[1].format)) return false;
    return (run_stride(tile, 1) == 0) != (run_stride(tile, 2) == 0);
}

static void run_comparisons(const plan_tile *tile, uint8_t *const *address, plan_scratch *scratch)
{
    (void)scratch;
    const isa_instruction *i = tile->instruction;
    const uint32_t one = run_stride(tile, 1) == 0 ? 1 : 2, many = 3 - one;
    const uint32_t bytes = (uint32_t)bytes_of(&i->operand[1]);
    code_loop *loop = one_loop_of(one == 1 ? turned(i->op) : i->op, i->operand[1].format);
    const code_limits limits = {.one = ONE};
    const int64_t length = run_length(tile), stride = run_stride(tile, many);
    dense_buffer buffer;
    runs r;
    first_run(&r, tile, address, 1);
    do {
        for (int64_t done = 0; done < length; done += CHUNK) {
            const size_t count = (size_t)(length - done < CHUNK ? length - done : CHUNK);
            const void *const in[] = {
                dense(&buffer, r.at[many] + done * stride, stride, bytes, count), r.at[one]};
            loop(r.at[0] + 2 * done, in, &limits, count);
        }
    } while (next_run(&r));
}

// An element that repeats for many runs is read once, so the result may not lie upon it.
static void run_codes(const plan_tile *tile, uint8_t *const *address, plan_scratch *scratch)
{
    (void)scratch;
    const isa_instruction *i = tile->instruction;
    const uint32_t inputs = i->operand_count - 1u, bytes = (uint32_t)bytes_of(&i->operand[1]);
    code_loop *loop = loop_of(i->op, i->operand[1].format);
    const code_limits limits = limits_of(i);
    const int64_t to = run_stride(tile, 0), length = run_length(tile);
    const bool streams = to == 2 && runs_stream(tile, address[0]), direct = to == 2 && !streams;
    const int64_t chunk = is_dense(tile) && direct ? length : CHUNK;
    dense_buffer buffer[MOST_INPUTS];
    _Alignas(64) int16_t result[CHUNK];
    for (uint32_t n = 0; n < inputs; n++) buffer[n].held = 0, buffer[n].of = NULL;
    runs r;
    first_run(&r, tile, address, 1);
    do {
        for (int64_t done = 0; done < length; done += chunk) {
            size_t count = (size_t)(length - done < chunk ? length - done : chunk);
            const void *in[MOST_INPUTS] = {NULL};
            for (uint32_t n = 0; n < inputs; n++) {
                int64_t stride = run_stride(tile, n + 1);
                in[n] = dense(&buffer[n], r.at[n + 1] + done * stride, stride, bytes, count);
            }
            uint8_t *at = r.at[0] + done * to;
            loop(direct ? at : (void *)result, in, &limits, count);
            if (streams) convert_stream_lines(at, 0, result, 0, 1, 2 * count);
            else if (!direct)
                copy_elements(at, to, (const uint8_t *)result, 2, (int64_t)count, 2);
        }
    } while (next_run(&r));
    if (streams) convert_stream_end();
}

plan_executor tile_codes(const plan_tile *tile)
{
    const isa_instruction *i = tile->instruction;
    const bool one_run = tile->dim_count == 1 && is_dense(tile) && !tile->streams;
    bool has_loop = i->operand[0].format == SPYRE_FORMAT_SEN169_FP16 &&
                    loop_of(i->op, i->operand[1].format) && has_aligned_strides(tile);
    for (uint32_t o = 2; o < i->operand_count; o++)
        has_loop = has_loop && i->operand[o].format == i->operand[1].format;
    if (!has_loop) return (plan_executor){NULL, NEEDS_INDEPENDENT | NEEDS_ALIGNED};
    const bool with_one = compares_with_one(tile) && run_stride(tile, 0) == 2 && !tile->streams;
    return (plan_executor){one_run ? run_dense_codes : with_one ? run_comparisons : run_codes,
                           NEEDS_INDEPENDENT | NEEDS_ALIGNED};
}
