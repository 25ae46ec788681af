// SPDX-License-Identifier: Apache-2.0
//
// VECTOR of integers: sums, differences, products and shifts, which wrap; quotients and rests of 32
// bits; casts between integers.
#include <math.h>
#include <string.h>

#include "base/clones.h"
#include "card/machine/integer.h"
#include "card/tile/runs.h"
#include "tensor/convert.h"

// --- Lines of IEEE_INT32, of which each operand has neighbours or one element

typedef struct {
    const uint8_t *at;
    size_t stride;                          // bytes: 0 or 4
} int32_line;

static inline uint32_t element(const int32_line *line, size_t n)
{
    uint32_t value;
    memcpy(&value, line->at + n * line->stride, sizeof value);
    return value;
}

// As integer_apply() with the low 32 bits.
BASE_CLONES
static void apply_int32(opfunc op, uint8_t *to, int32_line a, int32_line b, size_t count)
{
#define APPLY(result)                                                                        \
    for (size_t n = 0; n < count; n++) {                                                     \
        const uint32_t x = element(&a, n), y = element(&b, n), z = (result);                 \
        memcpy(to + n * sizeof z, &z, sizeof z);                                             \
    }
    if (op == OPFUNC_ADD) APPLY(x + y)
    else if (op == OPFUNC_SUB) APPLY(x - y)
    else if (op == OPFUNC_MUL) APPLY(x * y)
    else if (op == OPFUNC_SHIFTLEFT) APPLY(y < 32 ? x << (y & 31) : 0)
#undef APPLY
}

// fp64 has every quotient of two integers of 32 bits on the right side of the whole numbers, and
// their products. Quotients by 0 end where 32 bits do, rests are no number, which is the least.
BASE_CLONES
static void divide_int32(opfunc op, uint8_t *to, int32_line a, int32_line b, size_t count)
{
#define DIVIDE(result)                                                                       \
    for (size_t n = 0; n < count; n++) {                                                     \
        const double x = (int32_t)element(&a, n), y = (int32_t)element(&b, n), q = x / y;    \
        const double z = (result), raised = z >= (double)INT32_MIN ? z : (double)INT32_MIN;  \
        const int32_t whole = (int32_t)(raised <= (double)INT32_MAX ? raised : INT32_MAX);   \
        memcpy(to + n * sizeof whole, &whole, sizeof whole);                                 \
    }
    if (op == OPFUNC_FLOORDIV) DIVIDE(floor(q))
    else if (op == OPFUNC_TRUNCDIV) DIVIDE(trunc(q))
    else if (op == OPFUNC_REMAINDER) DIVIDE(x - floor(q) * y)
    else DIVIDE(x - trunc(q) * y)
#undef DIVIDE
}

static bool divides(opfunc op)
{
    return op == OPFUNC_FLOORDIV || op == OPFUNC_TRUNCDIV || op == OPFUNC_REMAINDER ||
           op == OPFUNC_FMOD;
}

static bool has_int32_lines(const plan_tile *tile)
{
    const isa_instruction *i = tile->instruction;
    bool fits = i->operand_count == 3 && run_stride(tile, 0) == sizeof(int32_t);
    for (uint32_t o = 0; o < 3 && fits; o++) {
        int64_t stride = run_stride(tile, o);
        fits = i->operand[o].format == SPYRE_FORMAT_IEEE_INT32 &&
               (stride == 0 || stride == sizeof(int32_t));
    }
    return fits;
}

static void run_int32_lines(const plan_tile *tile, uint8_t *const *address, plan_scratch *scratch)
{
    const opfunc op = tile->instruction->op;
    if (!runs_independent(tile, address)) {
        exact_run(tile, address, scratch);
        return;
    }
    runs r;
    first_run(&r, tile, address, 1);
    do {
        int32_line a = {r.at[1], (size_t)run_stride(tile, 1)};
        int32_line b = {r.at[2], (size_t)run_stride(tile, 2)};
        (divides(op) ? divide_int32 : apply_int32)(op, r.at[0], a, b, (size_t)run_length(tile));
    } while (next_run(&r));
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
    if (!runs_independent(tile, address)) {
        exact_run(tile, address, scratch);
        return;
    }
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
            uint64_t a = integer_load(r.at[1] + n * run_stride(tile, 1), i->operand[1].format);
            uint64_t b = integer_load(r.at[second] + n * run_stride(tile, second),
                                      i->operand[second].format);
            integer_store(r.at[0] + n * run_stride(tile, 0), i->operand[0].format,
                          integer_apply(i->op, a, b));
        }
    } while (next_run(&r));
}

plan_run *tile_integers(const plan_tile *tile)
{
    const isa_instruction *i = tile->instruction;
    const opfunc op = i->op;
    bool in_32_bits = op == OPFUNC_ADD || op == OPFUNC_SUB || op == OPFUNC_MUL ||
                      op == OPFUNC_SHIFTLEFT || divides(op);
    if (in_32_bits && has_int32_lines(tile)) return run_int32_lines;
    return integer_wraps(i) ? run_integers : NULL;
}
