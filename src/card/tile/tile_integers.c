// SPDX-License-Identifier: Apache-2.0
//
// VECTOR of integers: what wraps; bits, extremes, quotients and rests of 32 bits; joined indices;
// casts between integers, and to SEN169_FP16.
#include <math.h>
#include <string.h>

#include "base/target_clones.h"
#include "card/machine/exec_integers.h"
#include "card/tile/runs.h"
#include "tensor/convert.h"
#include "tensor/joined_index.h"
#include "tensor/numeric.h"

// --- Lines of IEEE_INT32, of which each operand has neighbours or one element

enum { CHUNK = 512, MOST_INPUTS = 3 };

static inline uint32_t element(const uint8_t *line, size_t n)
{
    uint32_t value;
    memcpy(&value, line + n * sizeof value, sizeof value);
    return value;
}

// As exec_integer_apply() with the low 32 bits, or as the opfunc's formula, whose results 32 bits
// have. The right shift is arithmetic; beyond 31 bits it leaves the sign.
#define INT32_OPS(ROW)                                                                       \
    ROW(ADD, x + y)                                                                          \
    ROW(SUB, x - y)                                                                          \
    ROW(MUL, x * y)                                                                          \
    ROW(NEG, 0 - x)                                                                          \
    ROW(ABS, (int32_t)x < 0 ? 0 - x : x)                                                     \
    ROW(MAXIMUM, (int32_t)x < (int32_t)y ? y : x)                                            \
    ROW(MINIMUM, (int32_t)y < (int32_t)x ? y : x)                                            \
    ROW(BITAND, x & y)                                                                       \
    ROW(BITOR, x | y)                                                                        \
    ROW(BITXOR, x ^ y)                                                                       \
    ROW(SHIFTLEFT, y < 32 ? x << (y & 31) : 0)                                               \
    ROW(SHIFTRIGHT, (uint32_t)((int32_t)x >> (y < 32 ? y : 31)))

#define CASE(name, result) case OPFUNC_##name:
static bool in_32_bits(opfunc op)
{
    switch ((int)op) {
        INT32_OPS(CASE)
        return true;
    default: return false;
    }
}
#undef CASE

// An input may be where the result is. Operations of one input read it twice.
BASE_CLONES
static void apply_int32(opfunc op, uint8_t *to, const uint8_t *const *in, size_t count)
{
    const uint8_t *a = in[0], *b = in[1];
#define APPLY(name, result)                                                                  \
    case OPFUNC_##name:                                                                      \
        BASE_INDEPENDENT for (size_t n = 0; n < count; n++) {                                     \
            const uint32_t x = element(a, n), y = element(b, n), z = (result);               \
            memcpy(to + n * sizeof z, &z, sizeof z);                                         \
            (void)y;                                                                         \
        }                                                                                    \
        break;
    switch ((int)op) {
        INT32_OPS(APPLY)
    default: break;
    }
#undef APPLY
}

// fp64 has every quotient of two integers of 32 bits on the right side of the whole numbers, and
// their products. Quotients by 0 end where 32 bits do, rests are no number, which is the least.
BASE_CLONES
static void divide_int32(opfunc op, uint8_t *to, const uint8_t *const *in, size_t count)
{
    const uint8_t *a = in[0], *b = in[1];
#define DIVIDE(result)                                                                       \
    BASE_INDEPENDENT for (size_t n = 0; n < count; n++) {                                         \
        const double x = (int32_t)element(a, n), y = (int32_t)element(b, n), q = x / y;      \
        const double z = (result), raised = z >= (double)INT32_MIN ? z : (double)INT32_MIN;  \
        const double lowered = raised <= (double)INT32_MAX ? raised : (double)INT32_MAX;     \
        const int32_t whole = (int32_t)lowered;                                              \
        memcpy(to + n * sizeof whole, &whole, sizeof whole);                                 \
    }
    if (op == OPFUNC_FLOORDIV) DIVIDE(floor(q))
    else if (op == OPFUNC_TRUNCDIV) DIVIDE(trunc(q))
    else if (op == OPFUNC_REMAINDER) DIVIDE(x - floor(q) * y)
    else DIVIDE(x - trunc(q) * y)
#undef DIVIDE
}

// As joinindex of opfunc.def.
BASE_CLONES
static void join_int32(uint8_t *to, const uint8_t *const *in, size_t count)
{
    const int64_t most = JOINED_MOST_ROWS;
    const uint8_t *a = in[0], *b = in[1], *c = in[2];
    BASE_INDEPENDENT for (size_t n = 0; n < count; n++) {
        const int64_t x = (int32_t)element(a, n), y = (int32_t)element(b, n);
        const int64_t z = (int32_t)element(c, n), row = y < 0 ? y + z : y;
        const int64_t beyond = (y < most ? y : most - 1) - JOINED_OUTSIDE;
        const int64_t outside = y < -most ? y : beyond, inside = x * z + row;
        const int64_t joined = (row >= 0) & (row < z) ? inside : outside;
        const int64_t result = x < 0 ? x : joined;
        const int32_t whole = (int32_t)(result <= INT32_MAX ? result : INT32_MAX);
        memcpy(to + n * sizeof whole, &whole, sizeof whole);
    }
}

static bool divides(opfunc op)
{
    return op == OPFUNC_FLOORDIV || op == OPFUNC_TRUNCDIV || op == OPFUNC_REMAINDER ||
           op == OPFUNC_FMOD;
}

static bool has_int32_lines(const plan_tile *tile)
{
    const isa_instruction *i = tile->instruction;
    bool fits = run_stride(tile, 0) == sizeof(int32_t);
    for (uint32_t o = 0; o < i->operand_count && fits; o++) {
        int64_t stride = run_stride(tile, o);
        fits = i->operand[o].format == SPYRE_FORMAT_IEEE_INT32 &&
               (stride == 0 || stride == sizeof(int32_t));
    }
    return fits;
}

// Inputs of one element, as often as a chunk has any.
typedef struct {
    int32_t elements[MOST_INPUTS][CHUNK];
} repeated_inputs;

static const uint8_t *repeat(int32_t *elements, const uint8_t *at, int64_t count)
{
    int32_t value;
    memcpy(&value, at, sizeof value);
    for (int64_t n = 0; n < count; n++) elements[n] = value;
    return (const uint8_t *)elements;
}

static void run_line(const plan_tile *tile, const runs *r, repeated_inputs *repeated)
{
    const opfunc op = tile->instruction->op;
    const uint32_t inputs = tile->instruction->operand_count - 1u;
    const int64_t length = run_length(tile);
    const uint8_t *in[MOST_INPUTS];
    for (uint32_t o = 0; o < inputs; o++)
        in[o] = run_stride(tile, o + 1) ? r->at[o + 1]
                                        : repeat(repeated->elements[o], r->at[o + 1],
                                                 length < CHUNK ? length : CHUNK);
    if (inputs == 1) in[1] = in[0];
    for (int64_t done = 0; done < length; done += CHUNK) {
        const size_t count = (size_t)(length - done < CHUNK ? length - done : CHUNK);
        uint8_t *to = r->at[0] + done * (int64_t)sizeof(int32_t);
        if (op == OPFUNC_JOININDEX) join_int32(to, in, count);
        else if (divides(op)) divide_int32(op, to, in, count);
        else apply_int32(op, to, in, count);
        for (uint32_t o = 0; o < inputs; o++) in[o] += CHUNK * run_stride(tile, o + 1);
    }
}

static void run_int32_lines(const plan_tile *tile, uint8_t *const *address, plan_scratch *scratch)
{
    (void)scratch;
    repeated_inputs repeated;
    runs r;
    first_run(&r, tile, address, 1);
    do run_line(tile, &r, &repeated);
    while (next_run(&r));
}

// --- Lines of IEEE_INT32 that become SEN169_FP16

// Of the magnitude fp32 gets 24 bits: a rounding half up does not see those below the 11th, which
// fp32 could have rounded up to half.
BASE_CLONES
static void cast_int32(uint8_t *to, const uint8_t *from, size_t count)
{
    const uint32_t offset = DL16_EXPONENT_OFFSET - (1u << (DL16_FRACTION_SHIFT - 1));
    BASE_INDEPENDENT for (size_t n = 0; n < count; n++) {
        const uint32_t x = element(from, n), sign = 0U - (x >> 31);
        const uint32_t magnitude = (x ^ sign) - sign;
        const uint32_t kept = magnitude & ~(0xFFU & (0U - (magnitude >> 24 != 0)));
        const float value = (float)(int32_t)((kept ^ sign) - sign);
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        const uint32_t code = ((bits & 0x7FFFFFFFU) - offset) >> DL16_FRACTION_SHIFT;
        const uint16_t word = (uint16_t)((code & (0U - (x != 0))) | (sign & DL16_SIGN));
        memcpy(to + n * sizeof word, &word, sizeof word);
    }
}

static bool casts_int32_lines(const plan_tile *tile)
{
    const isa_instruction *i = tile->instruction;
    return opfunc_describe(i->op)->kind == OPFUNC_KIND_COPY && i->operand_count == 2 &&
           i->operand[0].format == SPYRE_FORMAT_SEN169_FP16 &&
           i->operand[1].format == SPYRE_FORMAT_IEEE_INT32 && run_stride(tile, 0) == 2 &&
           run_stride(tile, 1) == 4;
}

static void run_int32_casts(const plan_tile *tile, uint8_t *const *address, plan_scratch *scratch)
{
    (void)scratch;
    runs r;
    first_run(&r, tile, address, 1);
    do cast_int32(r.at[0], r.at[1], (size_t)run_length(tile));
    while (next_run(&r));
}

// --- Any others

// The converter of a cast, whose dense lines it takes as they lie.
static bool find_cast(const isa_instruction *i, converter *out)
{
    if (opfunc_describe(i->op)->kind != OPFUNC_KIND_COPY || i->operand_count != 2) return false;
    spyre_format to = i->operand[0].format, from = i->operand[1].format;
    // Transfers take these for the two formats of uint8.
    if (to == SPYRE_FORMAT_SENUINT32 && from == SPYRE_FORMAT_SENINT8) return false;
    spyre_status status = converter_find(to, from, out);
    bool found = !status;
    spyre_status_free(status);
    return found;
}

static bool is_dense_line(const plan_tile *tile, const runs *r)
{
    for (uint32_t o = 0; o < 2; o++) {
        uint32_t bytes = spyre_format_bytes(tile->instruction->operand[o].format);
        if (run_stride(tile, o) != bytes || (uintptr_t)r->at[o] % bytes != 0) return false;
    }
    return true;
}

static void run_integers(const plan_tile *tile, uint8_t *const *address, plan_scratch *scratch)
{
    (void)scratch;
    const isa_instruction *i = tile->instruction;
    uint32_t second = i->operand_count > 2 ? 2 : 1;
    runs r;
    first_run(&r, tile, address, 1);
    converter cast;
    bool casts = find_cast(i, &cast);
    do {
        if (casts && is_dense_line(tile, &r)) {
            converter_run(&cast, r.at[0], r.at[1], (size_t)run_length(tile));
            continue;
        }
        for (int64_t n = 0; n < run_length(tile); n++) {
            uint64_t a = exec_integer_load(r.at[1] + n * run_stride(tile, 1), i->operand[1].format);
            uint64_t b = exec_integer_load(r.at[second] + n * run_stride(tile, second),
                                           i->operand[second].format);
            exec_integer_store(r.at[0] + n * run_stride(tile, 0), i->operand[0].format,
                               exec_integer_apply(i->op, a, b));
        }
    } while (next_run(&r));
}

plan_executor tile_integers(const plan_tile *tile)
{
    const isa_instruction *i = tile->instruction;
    const opfunc op = i->op;
    bool has_lines = in_32_bits(op) || op == OPFUNC_JOININDEX || divides(op);
    if (has_lines && has_int32_lines(tile))
        return (plan_executor){run_int32_lines, NEEDS_INDEPENDENT};
    if (casts_int32_lines(tile)) return (plan_executor){run_int32_casts, NEEDS_APART};
    return (plan_executor){exec_integer_wraps(i) ? run_integers : NULL, NEEDS_INDEPENDENT};
}
