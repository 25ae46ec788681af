// SPDX-License-Identifier: Apache-2.0
//
// SCAN in blocks of running values that advance side by side: along a kept dim, whose elements are
// neighbours in the input or else rows that are turned on the way. A block is taken through all
// scanned dims before the next one begins, so its running values stay in registers or the first
// cache.
//
//   x [rows, 256], scanned along 256        x [256, lanes], scanned along 256
//   16 rows, 64 elements of each turned     256 lanes, 16 elements of each, as they lie
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/target_clones.h"
#include "card/tile/runs.h"
#include "tensor/running_value.h"

enum { GROUP = 16 }; // running values that fit registers
enum { WIDTH = 256, BLOCK = 4096 };
enum { TURNED_WIDTH = GROUP, TURNED_BLOCK = 1024 };
enum { TURNED_DEPTH = TURNED_BLOCK / TURNED_WIDTH }; // half of it where steps are no more

typedef union {
    int64_t bits[WIDTH];
    double real[WIDTH];
} running_values;

typedef union {
    float real[BLOCK];
    int32_t integer[BLOCK];
} block_values;

typedef struct {
    const plan_tile *tile;
    const isa_instruction *i;
    opfunc op;
    bool integers, turned;      // elements are int32; the scanned dim is the denser one, rows of
                                // which are turned where there are several
    bool gives_integers;        // results are int32
    bool neighbours;            // sums of int32 along a dim in which they are neighbours
    uint32_t lanes, steps;      // the dim of a block's running values, the innermost scanned one;
                                // dim_count: there is none
    size_t width, depth;        // of a block
    uint32_t first;             // position of the first element
    running_values state;
    block_values values;
} scanning;

enum { OUT, STATE, IN }; // operands

static int64_t extent_of(const scanning *s, uint32_t dim)
{
    return dim < s->tile->dim_count ? s->tile->extent[dim] : 1;
}

static int64_t stride_of(const scanning *s, uint32_t operand, uint32_t dim)
{
    return dim < s->tile->dim_count ? s->tile->stride[operand][dim] : 0;
}

static bool is_turned(const scanning *s)
{
    return s->turned && s->width > 1;
}

// --- Steps: value n of each step follows state n

enum { REALS = GROUP / 2 };
typedef double reals __attribute__((vector_size(8 * REALS)));
typedef float floats __attribute__((vector_size(4 * REALS)));
typedef int32_t float_words __attribute__((vector_size(4 * REALS)));

// A NaN is the positive quiet one in results at once, among running values at the end.
#define CHAIN(name, next)                                                                       \
    __attribute__((always_inline)) static inline void name##_some(                              \
        double *state, float *values, size_t some, size_t width, size_t depth)                  \
    {                                                                                           \
        double running[GROUP];                                                                  \
        for (size_t n = 0; n < some; n++) running[n] = state[n];                                \
        for (size_t k = 0; k < depth; k++, values += width)                                     \
            for (size_t n = 0; n < some; n++) {                                                 \
                const double x = running[n], y = (double)values[n];                             \
                running[n] = (next);                                                            \
                const float result = (float)running[n];                                         \
                values[n] = result == result ? result : (float)NAN;                             \
            }                                                                                   \
        for (size_t n = 0; n < some; n++)                                                       \
            state[n] = running[n] == running[n] ? running[n] : (double)NAN;                     \
    }                                                                                           \
    __attribute__((always_inline)) static inline void name##_group(                             \
        double *state, float *values, size_t width, size_t depth)                               \
    {                                                                                           \
        reals running[GROUP / REALS];                                                           \
        memcpy(running, state, sizeof running);                                                 \
        for (size_t k = 0; k < depth; k++, values += width)                                     \
            for (size_t n = 0; n < GROUP / REALS; n++) {                                        \
                floats value;                                                                   \
                memcpy(&value, values + n * REALS, sizeof value);                               \
                const reals x = running[n], y = __builtin_convertvector(value, reals);          \
                running[n] = (next);                                                            \
                value = __builtin_convertvector(running[n], floats);                            \
                const float_words numbers = value == value;                                     \
                value = (floats)(((float_words)value & numbers) | (RANKING_NAN & ~numbers));       \
                memcpy(values + n * REALS, &value, sizeof value);                               \
            }                                                                                   \
        memcpy(state, running, sizeof running);                                                 \
        for (size_t n = 0; n < GROUP; n++)                                                      \
            state[n] = state[n] == state[n] ? state[n] : (double)NAN;                           \
    }                                                                                           \
    BASE_CLONES                                                                                 \
    static void name##_line(double *state, float *values, size_t width, size_t depth)           \
    {                                                                                           \
        (void)width;                                                                            \
        name##_some(state, values, 1, 1, depth);                                                \
    }                                                                                           \
    BASE_CLONES                                                                                 \
    static void name##_lines(double *state, float *values, size_t width, size_t depth)          \
    {                                                                                           \
        size_t n = 0;                                                                           \
        for (; n + GROUP <= width; n += GROUP)                                                  \
            name##_group(state + n, values + n, width, depth);                                  \
        if (n < width) name##_some(state + n, values + n, width - n, width, depth);             \
    }                                                                                           \
    static void name(double *state, float *values, size_t width, size_t depth)                  \
    {                                                                                           \
        (width == 1 ? name##_line : name##_lines)(state, values, width, depth);                 \
    }

CHAIN(add_reals, x + y)
CHAIN(multiply_reals, x * y)

static void join_reals(opfunc joins, double *state, float *values, size_t width, size_t depth)
{
    double next[WIDTH], joined[WIDTH];
    for (size_t k = 0; k < depth; k++, values += width) {
        for (size_t n = 0; n < width; n++) next[n] = (double)values[n];
        opfunc_apply_lanes(joins, joined, (const double *const[]){state, next}, NULL, width);
        memcpy(state, joined, width * sizeof *state);
        for (size_t n = 0; n < width; n++) values[n] = (float)joined[n];
    }
}

// Integers of 32 bits, which wrap.
#define CHAIN_INTEGERS(name, next)                                                              \
    __attribute__((always_inline)) static inline void name##_some(                              \
        int64_t *state, int32_t *values, size_t some, size_t width, size_t depth)               \
    {                                                                                           \
        uint32_t running[GROUP];                                                                \
        for (size_t n = 0; n < some; n++) running[n] = (uint32_t)state[n];                      \
        for (size_t k = 0; k < depth; k++, values += width)                                     \
            for (size_t n = 0; n < some; n++) {                                                 \
                const uint32_t x = running[n], y = (uint32_t)values[n];                         \
                running[n] = (next);                                                            \
                values[n] = (int32_t)running[n];                                                \
            }                                                                                   \
        for (size_t n = 0; n < some; n++) state[n] = (int32_t)running[n];                       \
    }                                                                                           \
    BASE_CLONES                                                                                 \
    static void name##_line(int64_t *state, int32_t *values, size_t width, size_t depth)        \
    {                                                                                           \
        (void)width;                                                                            \
        name##_some(state, values, 1, 1, depth);                                                \
    }                                                                                           \
    BASE_CLONES                                                                                 \
    static void name##_lines(int64_t *state, int32_t *values, size_t width, size_t depth)       \
    {                                                                                           \
        size_t n = 0;                                                                           \
        for (; n + GROUP <= width; n += GROUP)                                                  \
            name##_some(state + n, values + n, GROUP, width, depth);                            \
        if (n < width) name##_some(state + n, values + n, width - n, width, depth);             \
    }                                                                                           \
    static void name(int64_t *state, int32_t *values, size_t width, size_t depth)               \
    {                                                                                           \
        (width == 1 ? name##_line : name##_lines)(state, values, width, depth);                 \
    }

CHAIN_INTEGERS(add_integers, x + y)
CHAIN_INTEGERS(multiply_integers, x * y)

// Floats become value halves in their place, and back.
BASE_CLONES
static void to_halves(opfunc op, block_values *values, size_t count)
{
    int32_t turn = ranking_turned(op, 0);
    for (size_t n = 0; n < count; n++) {
        uint32_t bits = (uint32_t)values->integer[n], magnitude = bits & RANKING_MAGNITUDE;
        int32_t ordered = (int32_t)(bits >> 31 ? 0U - magnitude : magnitude);
        values->integer[n] = magnitude > 0x7F800000U ? RANKING_NAN : ordered ^ turn;
    }
}

BASE_CLONES
static void to_floats(opfunc op, block_values *values, size_t count)
{
    int32_t turn = ranking_turned(op, 0);
    for (size_t n = 0; n < count; n++) {
        int32_t ordered = values->integer[n] ^ turn;
        uint32_t bits = (uint32_t)ordered, magnitude = ordered < 0 ? 0U - bits : bits;
        uint32_t sign = ordered < 0 ? 0x80000000U : 0;
        values->integer[n] = magnitude > 0x7F800000U ? RANKING_NAN : (int32_t)(magnitude | sign);
    }
}

static void turn_integers(opfunc op, block_values *values, size_t count)
{
    for (size_t n = 0; n < count; n++)
        values->integer[n] = ranking_turned(op, values->integer[n]);
}

// What stays of a running entry in its place: the half of the extreme, or its position.
#define EXTREME(name, stays)                                                                    \
    __attribute__((always_inline)) static inline void name##_some(                              \
        int64_t *state, int32_t *values, size_t some, size_t width, size_t depth,               \
        uint32_t position)                                                                      \
    {                                                                                           \
        int64_t running[GROUP];                                                                 \
        for (size_t n = 0; n < some; n++) running[n] = state[n];                                \
        for (size_t k = 0; k < depth; k++, values += width, position++)                         \
            for (size_t n = 0; n < some; n++) {                                                 \
                const int64_t next = (int64_t)values[n] * ((int64_t)1 << 32) + position;        \
                running[n] = next > running[n] ? next : running[n];                             \
                values[n] = (int32_t)(uint32_t)(stays);                                         \
            }                                                                                   \
        for (size_t n = 0; n < some; n++) state[n] = running[n];                                \
    }                                                                                           \
    BASE_CLONES                                                                                 \
    static void name##_line(int64_t *state, int32_t *values, size_t width, size_t depth,        \
                            uint32_t position)                                                  \
    {                                                                                           \
        (void)width;                                                                            \
        name##_some(state, values, 1, 1, depth, position);                                      \
    }                                                                                           \
    BASE_CLONES                                                                                 \
    static void name##_lines(int64_t *state, int32_t *values, size_t width, size_t depth,       \
                             uint32_t position)                                                 \
    {                                                                                           \
        size_t n = 0;                                                                           \
        for (; n + GROUP <= width; n += GROUP)                                                  \
            name##_some(state + n, values + n, GROUP, width, depth, position);                  \
        if (n < width) name##_some(state + n, values + n, width - n, width, depth, position);   \
    }                                                                                           \
    static void name(int64_t *state, int32_t *values, size_t width, size_t depth,               \
                     uint32_t position)                                                         \
    {                                                                                           \
        (width == 1 ? name##_line : name##_lines)(state, values, width, depth, position);       \
    }

EXTREME(join_extremes, running[n] >> 32)
EXTREME(join_positions, running[n])

static void join_ranked(scanning *s, size_t width, size_t depth, uint32_t position)
{
    size_t count = width * depth;
    bool places = opfunc_gives_positions(s->op);
    (s->integers ? turn_integers : to_halves)(s->op, &s->values, count);
    (places ? join_positions : join_extremes)(s->state.bits, s->values.integer, width, depth,
                                              position);
    if (!places) (s->integers ? turn_integers : to_floats)(s->op, &s->values, count);
}

static void join(scanning *s, size_t width, size_t depth, uint32_t position)
{
    opfunc joins = running_joins(s->op);
    double *real = s->state.real;
    float *values = s->values.real;
    if (running_ranks(s->op)) join_ranked(s, width, depth, position);
    else if (s->integers)
        (joins == OPFUNC_ADD ? add_integers : multiply_integers)(s->state.bits, s->values.integer,
                                                                 width, depth);
    else if (joins == OPFUNC_ADD) add_reals(real, values, width, depth);
    else if (joins == OPFUNC_MUL) multiply_reals(real, values, width, depth);
    else join_reals(joins, real, values, width, depth);
}

// --- Elements of a block, value n of step k at k * width + n

// Words as they lie: of IEEE_FP32, too, where steps take any NaN for one and leave one only.
static bool as_they_lie(const scanning *s, uint32_t operand, bool integers)
{
    const opfunc joins = running_joins(s->op);
    const bool knows_nan =
        running_ranks(s->op) || joins == OPFUNC_ADD || joins == OPFUNC_MUL;
    return integers || (knows_nan && s->i->operand[operand].format == SPYRE_FORMAT_IEEE_FP32);
}

static void load_run(const scanning *s, float *to, const uint8_t *from, int64_t stride,
                     size_t count)
{
    if (as_they_lie(s, IN, s->integers))
        copy_elements((uint8_t *)to, sizeof *to, from, stride, (int64_t)count, sizeof *to);
    else
        lanes_load_f32(to, from, stride, s->i->operand[IN].format, count);
}

static void store_run(const scanning *s, uint8_t *to, int64_t stride, const float *from,
                      size_t count)
{
    if (as_they_lie(s, OUT, s->gives_integers))
        copy_elements(to, stride, (const uint8_t *)from, sizeof *from, (int64_t)count,
                      sizeof *from);
    else
        lanes_store_f32(to, stride, s->i->operand[OUT].format, from, count);
}

// Interleaving the quarters of a block, of so many values each, turns the digits of a place by two:
// done twice, row n, element k has become row k, element n of TURNED_WIDTH. Parting does the
// reverse.
BASE_CLONES
static void interleave(float *restrict to, const float *restrict from, size_t quarter)
{
    for (size_t n = 0; n < quarter; n++) {
        to[4 * n] = from[n];
        to[4 * n + 1] = from[quarter + n];
        to[4 * n + 2] = from[2 * quarter + n];
        to[4 * n + 3] = from[3 * quarter + n];
    }
}

BASE_CLONES
static void part(float *restrict to, const float *restrict from, size_t quarter)
{
    for (size_t n = 0; n < quarter; n++) {
        to[n] = from[4 * n];
        to[quarter + n] = from[4 * n + 1];
        to[2 * quarter + n] = from[4 * n + 2];
        to[3 * quarter + n] = from[4 * n + 3];
    }
}

typedef void turning(float *restrict to, const float *restrict from, size_t quarter);

static void turn(scanning *s, turning *once)
{
    float other[TURNED_BLOCK];
    const size_t quarter = s->depth * TURNED_WIDTH / 4;
    once(other, s->values.real, quarter);
    once(s->values.real, other, quarter);
}

static void load_block(scanning *s, const uint8_t *at, size_t width, size_t depth)
{
    int64_t lane = stride_of(s, IN, s->lanes), step = stride_of(s, IN, s->steps);
    float *values = s->values.real;
    for (size_t k = 0; k < depth && !s->turned; k++)
        load_run(s, values + k * width, at + (int64_t)k * step, lane, width);
    for (size_t n = 0; n < width && s->turned; n++)
        load_run(s, values + n * s->depth, at + (int64_t)n * lane, step, depth);
    if (is_turned(s)) turn(s, interleave);
}

static void store_block(scanning *s, uint8_t *at, size_t width, size_t depth)
{
    int64_t lane = stride_of(s, OUT, s->lanes), step = stride_of(s, OUT, s->steps);
    float *values = s->values.real;
    if (is_turned(s)) turn(s, part);
    for (size_t k = 0; k < depth && !s->turned; k++)
        store_run(s, at + (int64_t)k * step, lane, values + k * width, width);
    for (size_t n = 0; n < width && s->turned; n++)
        store_run(s, at + (int64_t)n * lane, step, values + n * s->depth, depth);
}

// --- Sums of neighbouring integers, which wrap: in any order, so a row as it lies

typedef uint32_t group_words __attribute__((vector_size(4 * GROUP)));

// Each word plus those before it: of twice as many with every step.
#define AFTER_ZEROS(x, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p)                          \
    __builtin_shufflevector(zeros, x, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p)
#define ADD_BEFORE(x)                                                                           \
    x += AFTER_ZEROS(x, 0, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30);         \
    x += AFTER_ZEROS(x, 0, 0, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29);          \
    x += AFTER_ZEROS(x, 0, 0, 0, 0, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27);            \
    x += AFTER_ZEROS(x, 0, 0, 0, 0, 0, 0, 0, 0, 16, 17, 18, 19, 20, 21, 22, 23)

BASE_CLONES
static void add_neighbours(uint8_t *to, const uint8_t *from, int64_t *state, size_t count)
{
    const group_words zeros = {0};
    uint32_t sum = (uint32_t)*state;
    size_t n = 0;
    for (; n + GROUP <= count; n += GROUP) {
        group_words x;
        memcpy(&x, from + n * sizeof sum, sizeof x);
        ADD_BEFORE(x);
        x += sum;
        sum = x[GROUP - 1];
        memcpy(to + n * sizeof sum, &x, sizeof x);
    }
    for (; n < count; n++) {
        uint32_t value;
        memcpy(&value, from + n * sizeof value, sizeof value);
        sum += value;
        memcpy(to + n * sizeof sum, &sum, sizeof sum);
    }
    *state = (int32_t)sum;
}

static bool adds_neighbours(const scanning *s)
{
    return s->integers && s->turned && running_joins(s->op) == OPFUNC_ADD &&
           stride_of(s, IN, s->steps) == sizeof(int32_t) &&
           stride_of(s, OUT, s->steps) == sizeof(int32_t);
}

// --- Walks

// Advances index and the bytes of all operands over the dims of one kind, but for one of them.
static bool advance(const scanning *s, bool scanned, uint32_t except, int64_t *index,
                    uint8_t **at)
{
    const plan_tile *tile = s->tile;
    for (uint32_t d = tile->dim_count; d-- > 0;) {
        if (d == except || (tile->stride[STATE][d] == 0) != scanned) continue;
        bool more = ++index[d] < tile->extent[d];
        int64_t steps = more ? 1 : 1 - tile->extent[d];
        for (uint32_t o = OUT; o <= IN; o++) at[o] += steps * tile->stride[o][d];
        if (more) return true;
        index[d] = 0;
    }
    return false;
}

static void scan_steps(scanning *s, uint8_t *const *address, size_t width, uint32_t *position)
{
    int64_t length = extent_of(s, s->steps);
    for (size_t n = 0; s->neighbours && n < width; n++) {
        const int64_t row = (int64_t)n;
        add_neighbours(address[OUT] + row * stride_of(s, OUT, s->lanes),
                       address[IN] + row * stride_of(s, IN, s->lanes), &s->state.bits[n],
                       (size_t)length);
    }
    for (int64_t done = 0; !s->neighbours && done < length;) {
        size_t depth = (size_t)(length - done) < s->depth ? (size_t)(length - done) : s->depth;
        load_block(s, address[IN] + done * stride_of(s, IN, s->steps), width, depth);
        join(s, is_turned(s) ? TURNED_WIDTH : width, depth, *position);
        store_block(s, address[OUT] + done * stride_of(s, OUT, s->steps), width, depth);
        *position += (uint32_t)depth;
        done += (int64_t)depth;
    }
}

static void scan_block(scanning *s, uint8_t *const *address, size_t width)
{
    int64_t index[ISA_MAX_DIMS] = {0}, apart = stride_of(s, STATE, s->lanes);
    uint8_t *at[] = {address[OUT], address[STATE], address[IN]};
    uint32_t position = s->first;
    for (size_t n = 0; n < width; n++)
        s->state.bits[n] = ranking_at(address[STATE] + (int64_t)n * apart);
    do scan_steps(s, at, width, &position);
    while (advance(s, true, s->steps, index, at));
    for (size_t n = 0; n < width; n++)
        memcpy(address[STATE] + (int64_t)n * apart, &s->state.bits[n], sizeof(int64_t));
}

static void scan_all(scanning *s, uint8_t *const *address)
{
    int64_t index[ISA_MAX_DIMS] = {0}, length = extent_of(s, s->lanes);
    uint8_t *at[] = {address[OUT], address[STATE], address[IN]};
    do
        for (int64_t done = 0; done < length; done += (int64_t)s->width) {
            size_t left = (size_t)(length - done);
            uint8_t *block[] = {at[OUT], at[STATE], at[IN]};
            for (uint32_t o = OUT; o <= IN; o++) block[o] += done * stride_of(s, o, s->lanes);
            scan_block(s, block, left < s->width ? left : s->width);
        }
    while (advance(s, false, s->lanes, index, at));
}

// --- The form of a tile

// The dim of one kind in which the input's elements are nearest to each other; of scanned ones the
// innermost.
static uint32_t find_dim(const plan_tile *tile, bool scanned)
{
    uint32_t found = tile->dim_count;
    for (uint32_t d = 0; d < tile->dim_count; d++) {
        if ((tile->stride[STATE][d] == 0) != scanned) continue;
        bool nearer = found == tile->dim_count ||
                      llabs(tile->stride[IN][d]) <= llabs(tile->stride[IN][found]);
        if (scanned || nearer) found = d;
    }
    return found;
}

static void describe(scanning *s, const plan_tile *tile)
{
    s->tile = tile;
    s->i = tile->instruction;
    s->op = s->i->op;
    s->integers = s->i->operand[IN].format == SPYRE_FORMAT_IEEE_INT32;
    s->gives_integers = s->i->operand[OUT].format == SPYRE_FORMAT_IEEE_INT32;
    s->lanes = find_dim(tile, false);
    s->steps = find_dim(tile, true);
    int64_t lane = llabs(stride_of(s, IN, s->lanes)), step = llabs(stride_of(s, IN, s->steps));
    s->turned = s->lanes == tile->dim_count || (s->steps < tile->dim_count && step < lane);
    int64_t length = extent_of(s, s->lanes), most = s->turned ? TURNED_WIDTH : WIDTH;
    s->width = (size_t)(length < most ? length : most);
    s->neighbours = adds_neighbours(s);
    const bool few = extent_of(s, s->steps) <= TURNED_DEPTH / 2;
    s->depth = !is_turned(s) ? BLOCK / s->width : few ? TURNED_DEPTH / 2 : TURNED_DEPTH;
}

static bool is_apart(const plan_tile *tile, uint8_t *const *address)
{
    bool apart = runs_disjoint(tile, address, OUT, STATE) &&
                 runs_disjoint(tile, address, STATE, IN) &&
                 plan_independent(tile, address, IN);
    if (tile->instruction->operand_count == 3) return apart;
    return apart && runs_disjoint(tile, address, OUT, 3) && runs_disjoint(tile, address, STATE, 3);
}

void tile_scan(const plan_tile *tile, uint8_t *const *address, plan_scratch *scratch)
{
    scanning s;
    describe(&s, tile);
    memset(&s.values, 0, TURNED_BLOCK * sizeof s.values.real[0]);
    memset(&s.state, 0, TURNED_WIDTH * sizeof s.state.bits[0]);
    bool places = opfunc_gives_positions(s.op);
    bool apart = plan_injective(tile, OUT) && runs_accumulators_apart(tile, STATE) &&
                 is_apart(tile, address);
    bool fits = s.gives_integers == (s.integers || places) &&
                (s.integers || lanes_fits_f32(s.i->operand[IN].format));
    if (!fits || !apart) {
        exact_run(tile, address, scratch);
        return;
    }
    s.first = 0;
    if (places) memcpy(&s.first, address[3], sizeof s.first);
    scan_all(&s, address);
}
