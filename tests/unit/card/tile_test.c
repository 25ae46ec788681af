// SPDX-License-Identifier: Apache-2.0
//
// Fast against exact: random tiles of every instruction must leave the same bytes in LX, whatever
// the formats, strides, overlaps and shapes.
#include "program.h"
#include "support/rounds.h"

#include <math.h>
#include <stdlib.h>

#include "tensor/numeric.h"

enum { AREA = 96 << 10 };           // bytes of LX that tiles lie in

static card *the_card;
static uint8_t *before, *exact;

static int open_card(void **state)
{
    (void)state;
    assert_ok(card_create(&the_card));
    before = malloc(AREA);
    exact = malloc(AREA);
    return before && exact ? 0 : -1;
}

static int close_card(void **state)
{
    (void)state;
    card_destroy(the_card);
    free(before);
    free(exact);
    return 0;
}

// FLOATS: often small numbers. ONE_NAN: which of two NaNs a sum keeps is the host's choice.
// FACTORS: from 1/2 to 2, so that products are numbers.
typedef enum { BITS, FLOATS, ONE_NAN, FACTORS } content;

static void fill_area(uint64_t *seed, content what)
{
    for (uint32_t n = 0; n < AREA; n += 4) {
        uint32_t bits = next_random(seed);
        float value = float_from_bits(bits);
        if (what != BITS && bits % 16 == 0) value = (float)(int)(bits >> 8 & 31) - 16.0f;
        if (what == ONE_NAN && isnan(value)) value = NAN;
        if (what != BITS) bits = float_bits(value);
        if (what == FACTORS) bits = (bits & 0x80FFFFFF) | 0x3F000000;
        memcpy(before + n, &bits, 4);
    }
}

static void run_once(isa_program *p, card_mode mode)
{
    uint8_t *lx = card_lx(the_card, 0);
    memcpy(lx, before, AREA);
    card_program *loaded;
    assert_ok(card_load(the_card, p, &loaded));
    card_set_mode(the_card, mode);
    assert_ok(card_launch(the_card, loaded, NULL, 0, NULL));
    card_unload(the_card, loaded);
}

static void describe(const isa_program *p, uint32_t byte)
{
    text out = {0};
    isa_print(p, &out);
    fail_msg("byte %u differs\n%s", byte, text_string(&out));
}

static void compare_modes(isa_program *p)
{
    end_kernel(p);
    emit(p, ISA_HALT);
    run_once(p, CARD_EXACT);
    memcpy(exact, card_lx(the_card, 0), AREA);
    run_once(p, CARD_FAST);
    const uint8_t *fast = card_lx(the_card, 0);
    for (uint32_t n = 0; n < AREA; n++)
        if (fast[n] != exact[n]) describe(p, n);
    free_program(p);
}

static void random_shape(isa_instruction *i, uint64_t *seed)
{
    i->dim_count = (uint8_t)(1 + next_random(seed) % 3);
    for (uint32_t d = 0; d < i->dim_count; d++) {
        static const uint32_t extents[] = {1, 2, 3, 5, 8, 64};
        i->extent[d] = extents[next_random(seed) % 6];
    }
    if (next_random(seed) % 8 == 0) i->extent[i->dim_count - 1] = 1100;
    uint32_t elements = 0;
    while (elements == 0 || elements > 3000) {
        if (elements) i->extent[next_random(seed) % i->dim_count] = 2;
        elements = 1;
        for (uint32_t d = 0; d < i->dim_count; d++) elements *= i->extent[d];
    }
}

// Mostly dense, sometimes with gaps, transposed or broadcast.
static isa_operand random_operand(const isa_instruction *i, uint64_t *seed, spyre_format format,
                                  bool may_broadcast)
{
    int64_t element = spyre_format_bytes(format), step = element;
    isa_operand operand = in_lx(0, format);
    uint32_t style = next_random(seed) % 4;
    for (uint32_t n = 0; n < i->dim_count; n++) {
        uint32_t d = style == 1 ? n : i->dim_count - 1 - n;
        operand.stride[d] = step;
        step *= i->extent[d];
        if (style == 2) step += element * (next_random(seed) % 3);
        if (may_broadcast && next_random(seed) % 5 == 0) operand.stride[d] = 0;
    }
    uint32_t room = AREA - (uint32_t)step;
    operand.offset = next_random(seed) % room / 128 * 128;
    return operand;
}

static spyre_format float_format(uint64_t *seed)
{
    static const spyre_format formats[] = {SPYRE_FORMAT_SEN169_FP16, SPYRE_FORMAT_SEN169_FP16,
                                           SPYRE_FORMAT_SEN169_FP16, SPYRE_FORMAT_IEEE_FP32,
                                           SPYRE_FORMAT_IEEE_FP32,   SPYRE_FORMAT_IEEE_FP16,
                                           SPYRE_FORMAT_SEN143_FP8,  SPYRE_FORMAT_BFLOAT16};
    return formats[next_random(seed) % 8];
}

// Most parameters are one element for the whole tile.
static void stand_still(isa_instruction *i, uint64_t *seed)
{
    if (next_random(seed) % 4 == 0) return;
    for (uint32_t o = 2; o < i->operand_count; o++)
        for (uint32_t d = 0; d < i->dim_count; d++) i->operand[o].stride[d] = 0;
}

static isa_instruction *random_vector(isa_program *p, uint64_t *seed, opfunc op)
{
    const opfunc_info *info = opfunc_describe(op);
    isa_instruction *i = emit(p, ISA_VECTOR);
    i->op = op;
    random_shape(i, seed);
    uint32_t inputs = info->least_inputs;
    bool parametric = info->kind == OPFUNC_KIND_PARAMETRIC;
    if (!parametric) inputs += next_random(seed) % (info->most_inputs - info->least_inputs + 1u);
    else if (next_random(seed) % 2) inputs = info->most_inputs;
    if (op == OPFUNC_LAYERNORMSCALE || opfunc_makes_pairs(op)) inputs = 2;
    i->operand_count = (uint8_t)(inputs + 1);
    bool uniform = next_random(seed) % 2;
    spyre_format format = float_format(seed);
    for (uint32_t o = 0; o <= inputs; o++)
        i->operand[o] = random_operand(i, seed, uniform ? format : float_format(seed), o > 0);
    uint32_t alias = 1 + next_random(seed) % inputs;
    if (next_random(seed) % 3 == 0) {               // in place, or overlapping a little
        i->operand[alias].offset = i->operand[0].offset + (int64_t)(next_random(seed) % 2) * 64;
        if (uniform && next_random(seed) % 2) i->operand[alias] = i->operand[0];
    }
    uint32_t constants = opfunc_constant_count(op, inputs);
    if (opfunc_takes_parameters(op, inputs)) stand_still(i, seed);
    if (constants > 0) i->constant[0] = op == OPFUNC_CLIP ? -2.5f : 0.75f;
    if (constants > 1) i->constant[1] = 4.0f;
    return i;
}

static bool elementwise(opfunc op)
{
    return !opfunc_reduces(op) && op != OPFUNC_RESTICKIFY &&
           opfunc_describe(op)->kind != OPFUNC_KIND_MASK &&
           opfunc_describe(op)->kind != OPFUNC_KIND_SCAN;
}

static void tile__vector(void **state)
{
    (void)state;
    uint64_t seed = 4242;
    for (int op = 0; op < OPFUNC_COUNT; op++) {
        if (!elementwise((opfunc)op)) continue;
        for (uint32_t round = 0; round < test_rounds(60); round++) {
            fill_area(&seed, FLOATS);
            isa_program *p = new_program(0);
            begin_kernel(p, 1, 0);
            random_vector(p, &seed, (opfunc)op);
            compare_modes(p);
        }
    }
}

// The dims in any order, on each side dense or with gaps: transposed, or run by run.
static void tile__copies_in_any_order(void **state)
{
    (void)state;
    static const uint32_t extents[] = {1, 2, 3, 7, 8, 9, 32, 33, 64};
    static const uint8_t orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                         {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    uint64_t seed = 4;
    for (uint32_t round = 0; round < test_rounds(300); round++) {
        fill_area(&seed, BITS);
        isa_program *p = new_program(0);
        begin_kernel(p, 1, 0);
        isa_instruction *i = emit(p, ISA_VECTOR);
        i->op = OPFUNC_IDENTITY;
        i->dim_count = 3;
        i->operand_count = 2;
        for (uint32_t d = 0; d < 3; d++) i->extent[d] = extents[next_random(&seed) % 9];
        if (i->extent[0] * i->extent[1] * i->extent[2] > 5000) i->extent[0] = 1;
        for (uint32_t o = 0; o < 2; o++) {
            int64_t step = 2, gap = next_random(&seed) % 2 * 2;
            i->operand[o] = in_lx(o * (AREA / 2), round % 5 ? DL16 : SPYRE_FORMAT_IEEE_FP16);
            for (uint32_t n = 0; n < 3; n++) {
                uint32_t d = orders[round / (o ? 6 : 1) % 6][n];
                i->operand[o].stride[d] = step;
                step = step * i->extent[d] + gap;
            }
        }
        compare_modes(p);
    }
}

static void tile__vector_of_integers(void **state)
{
    (void)state;
    static const spyre_format formats[] = {SPYRE_FORMAT_BOOL,      SPYRE_FORMAT_SEN169_FP16,
                                           SPYRE_FORMAT_IEEE_INT32, SPYRE_FORMAT_SENINT8,
                                           SPYRE_FORMAT_SENUINT32,  SPYRE_FORMAT_IEEE_INT64};
    static const opfunc ops[] = {OPFUNC_ADD, OPFUNC_EQUAL,   OPFUNC_WHERE3, OPFUNC_IDENTITY,
                                 OPFUNC_MUL, OPFUNC_MAXIMUM, OPFUNC_SUB,    OPFUNC_NEG,
                                 OPFUNC_ABS, OPFUNC_JOININDEX, OPFUNC_IDENTITY, OPFUNC_MINIMUM,
                                 OPFUNC_BITAND, OPFUNC_BITOR, OPFUNC_BITXOR, OPFUNC_SHIFTLEFT,
                                 OPFUNC_SHIFTRIGHT};
    enum { OPS = sizeof ops / sizeof *ops };
    uint64_t seed = 31;
    for (uint32_t round = 0; round < test_rounds(900); round++) {
        uint32_t first = round % 2 ? 0 : 2;     // integers only, every second time
        fill_area(&seed, BITS);
        const opfunc op = ops[round % OPS];
        const bool shifts = op == OPFUNC_SHIFTLEFT || op == OPFUNC_SHIFTRIGHT;
        for (uint32_t n = 4; shifts && n < AREA; n += 12) memset(before + n + 1, 0, 3);
        isa_program *p = new_program(0);
        begin_kernel(p, 1, 0);
        isa_instruction *i = random_vector(p, &seed, op);
        const bool casts = i->op == OPFUNC_IDENTITY && round % 2;
        for (uint32_t o = 0; o < i->operand_count; o++) {
            spyre_format format = formats[first + next_random(&seed) % (6 - first)];
            if (round % 3 == 0) format = o == 0 && casts ? DL16 : SPYRE_FORMAT_IEEE_INT32;
            i->operand[o] = random_operand(i, &seed, format, o > 0);
        }
        compare_modes(p);
    }
}

// Comparisons of one format, whose result is SEN169_FP16.
static void tile__comparisons(void **state)
{
    (void)state;
    static const opfunc ops[] = {OPFUNC_EQUAL,      OPFUNC_NOTEQUAL,    OPFUNC_LESSERTHAN,
                                 OPFUNC_LESSEREQUAL, OPFUNC_GREATERTHAN, OPFUNC_GREATEREQUAL};
    uint64_t seed = 32;
    for (uint32_t round = 0; round < test_rounds(180); round++) {
        const spyre_format format = round % 3 ? SPYRE_FORMAT_IEEE_INT32 : DL16;
        fill_area(&seed, BITS);
        for (uint32_t n = 0; n < AREA; n += 4)
            if (before[n] % 2) memcpy(before + n, before + n / 8 * 4, 4);   // some are equal
        isa_program *p = new_program(0);
        begin_kernel(p, 1, 0);
        isa_instruction *i = random_vector(p, &seed, ops[round % 6]);
        i->operand[0] = random_operand(i, &seed, DL16, false);
        for (uint32_t o = 1; o < 3; o++) i->operand[o] = random_operand(i, &seed, format, true);
        compare_modes(p);
    }
}

// Bounds between two codes, beyond all of them, crossed, or no number; over all codes.
static void tile__clip(void **state)
{
    (void)state;
    static const float bounds[] = {0.0f,  -0.0f,   1.0f,      1.0009f,    -1.0009f, 1.0011f,
                                   1e-12f, -1e-12f, INFINITY, -INFINITY, NAN,      3e38f};
    enum { BOUNDS = sizeof bounds / sizeof *bounds, CODES = 1 << 14 };
    for (uint32_t round = 0; round < BOUNDS * BOUNDS; round++) {
        for (uint32_t n = 0; n < CODES; n++) {
            uint16_t code = (uint16_t)(n << 2 | round % 4);
            memcpy(before + 2 * n, &code, sizeof code);
        }
        isa_program *p = new_program(0);
        begin_kernel(p, 1, 0);
        isa_instruction *i = emit(p, ISA_VECTOR);
        i->op = OPFUNC_CLIP;
        i->dim_count = 1;
        i->extent[0] = CODES;
        i->operand_count = 2;
        i->constant[0] = bounds[round % BOUNDS];
        i->constant[1] = bounds[round / BOUNDS];
        for (uint32_t o = 0; o < 2; o++) {
            i->operand[o] = in_lx(o ? 0 : AREA / 2, DL16);
            i->operand[o].stride[0] = 2;
        }
        compare_modes(p);
    }
}

static void tile__fill(void **state)
{
    (void)state;
    uint64_t seed = 7;
    for (uint32_t round = 0; round < test_rounds(100); round++) {
        fill_area(&seed, ONE_NAN);
        isa_program *p = new_program(0);
        begin_kernel(p, 1, 0);
        isa_instruction *i = emit(p, ISA_FILL);
        random_shape(i, &seed);
        i->operand_count = 1;
        i->operand[0] = random_operand(i, &seed, float_format(&seed), false);
        i->constant[0] = -1.5f;
        compare_modes(p);
    }
}

// Numbers of either sign, up to and beyond what float32 and int32 have; of signs, and clipped.
static void tile__count(void **state)
{
    (void)state;
    static const spyre_format formats[] = {DL16, FP32, SPYRE_FORMAT_IEEE_INT32,
                                           SPYRE_FORMAT_SENINT16};
    static const int64_t firsts[] = {0, -7, 1000, (1 << 24) - 40, -(1 << 25), INT32_MAX - 9,
                                     INT32_MIN + 3, -((int64_t)1 << 40)};
    uint64_t seed = 9;
    for (uint32_t round = 0; round < test_rounds(400); round++) {
        fill_area(&seed, ONE_NAN);
        isa_program *p = new_program(0);
        begin_kernel(p, 1, 1)[0] = (int64_t)(next_random(&seed) % 50) - 25;
        isa_instruction *i = emit(p, ISA_COUNT);
        random_shape(i, &seed);
        i->op = round % 3 ? OPFUNC_IDENTITY : OPFUNC_CLIP;
        if (!(round % 3)) i->constant[1] = round % 2 ? 1 : 5;
        i->operand_count = 2;
        i->operand[0] = random_operand(i, &seed, formats[next_random(&seed) % 4], false);
        i->operand[1] = (isa_operand){.space = ISA_SPACE_NUMBER,
                                      .format = SPYRE_FORMAT_IEEE_INT32,
                                      .slot = round % 2 ? 0 : ISA_NO_SLOT,
                                      .offset = firsts[next_random(&seed) % 8]};
        for (uint32_t d = 0; d < i->dim_count; d++)
            i->operand[1].stride[d] = (int64_t)(next_random(&seed) % 7) - 3;
        compare_modes(p);
    }
}

static void tile__reduce(void **state)
{
    (void)state;
    static const opfunc ops[] = {OPFUNC_SUM, OPFUNC_MAX, OPFUNC_MIN, OPFUNC_PROD};
    uint64_t seed = 77;
    for (uint32_t round = 0; round < test_rounds(400); round++) {
        const bool square = round % 4 == 3, integers = !square && round % 5 < 2;
        const opfunc op = square ? (opfunc)0 : ops[integers ? round / 5 % 4 : round / 4 % 4];
        fill_area(&seed, op == OPFUNC_PROD ? FACTORS : ONE_NAN);
        isa_program *p = new_program(0);
        begin_kernel(p, 1, 0);
        isa_instruction *i = emit(p, square ? ISA_REDUCESQ : ISA_REDUCE);
        i->op = op;
        random_shape(i, &seed);
        i->operand_count = 2;
        spyre_format sum = integers ? SPYRE_FORMAT_IEEE_INT32 : FP32;
        i->operand[0] = random_operand(i, &seed, sum, true);
        i->operand[1] = random_operand(i, &seed, round % 5 > 2 ? DL16 : sum, true);
        compare_modes(p);
    }
}

static void tile__fold(void **state)
{
    (void)state;
    static const opfunc ops[] = {OPFUNC_SUM, OPFUNC_MAX, OPFUNC_MIN, OPFUNC_PROD};
    uint64_t seed = 78;
    for (uint32_t round = 0; round < test_rounds(100); round++) {
        const opfunc op = ops[round % 4];
        fill_area(&seed, op == OPFUNC_PROD ? FACTORS : ONE_NAN);
        isa_program *p = new_program(0);
        begin_kernel(p, 1, 0);
        isa_instruction *i = emit(p, ISA_FOLD);
        i->op = op;
        random_shape(i, &seed);
        for (uint32_t d = 0; d < i->dim_count; d++) i->extent[d] = 1 + next_random(&seed) % 7;
        i->extent[i->dim_count - 1] = 1u << next_random(&seed) % 8;
        i->operand_count = 1;
        spyre_format format = round % 5 < 2 ? SPYRE_FORMAT_IEEE_INT32 : FP32;
        i->operand[0] = random_operand(i, &seed, format, false);
        compare_modes(p);
    }
}

// Ranks along dim 0, candidates along some of the other dims; entries of what was there before,
// too.
static void tile__rank(void **state)
{
    (void)state;
    static const spyre_format formats[] = {DL16, FP32, SPYRE_FORMAT_IEEE_INT32, DL16,
                                           SPYRE_FORMAT_SEN143_FP8};
    static const opfunc ops[] = {OPFUNC_TOPKVALUE, OPFUNC_TOPKINDEX, OPFUNC_BOTTOMKVALUE,
                                 OPFUNC_BOTTOMKINDEX};
    uint64_t seed = 81;
    for (uint32_t round = 0; round < test_rounds(400); round++) {
        fill_area(&seed, FLOATS);
        isa_program *p = new_program(0);
        begin_kernel(p, 1, 0);
        isa_operand entries = in_lx(48 << 10, SPYRE_FORMAT_IEEE_INT64);
        isa_operand position = in_lx(90 << 10, SPYRE_FORMAT_IEEE_INT32);
        isa_instruction *i = emit(p, ISA_RANK);
        random_shape(i, &seed);
        i->op = ops[next_random(&seed) % 4];
        i->extent[0] = 1 + next_random(&seed) % (round % 3 ? 5 : 60);
        uint32_t long_dim = round % 4 ? 0 : 1 + next_random(&seed) % i->dim_count;
        for (uint32_t d = 1; d < i->dim_count; d++)
            i->extent[d] = 1 + next_random(&seed) % (d == long_dim ? 300 : long_dim ? 5 : 20);
        i->operand_count = 3 + next_random(&seed) % 2;
        i->operand[1] = random_operand(i, &seed, formats[round % 5], true);
        i->operand[1].offset %= 32 << 10;
        i->operand[1].stride[0] = 0;
        i->operand[2] = position;
        isa_operand behind = in_lx(91 << 10, SPYRE_FORMAT_IEEE_INT64);
        int64_t step = sizeof(int64_t);
        for (uint32_t d = i->dim_count; d-- > 0;) {
            bool candidates = d > 0 && next_random(&seed) % 2;
            entries.stride[d] = candidates ? 0 : step;
            if (d > 0 && !candidates) behind.stride[d] = next_random(&seed) % 2 ? 8 : 16;
            if (!candidates) step *= i->extent[d];
        }
        i->operand[0] = entries;
        if (i->operand_count == 4) i->operand[3] = behind;
        if (step > 32 << 10) {
            free_program(p);
            continue;
        }
        isa_instruction *out = emit(p, ISA_RANKED);
        out->op = ops[next_random(&seed) % 4];
        out->operand_count = 2;
        out->dim_count = 1;
        out->extent[0] = i->extent[0];
        out->operand[0] = in_lx(92 << 10, formats[round % 5]);
        out->operand[0].stride[0] = 8;
        out->operand[1] = in_lx(48 << 10, SPYRE_FORMAT_IEEE_INT64);
        out->operand[1].stride[0] = entries.stride[0];
        compare_modes(p);
    }
}

// Along some of the dims, of running values that were there before.
static void tile__scan(void **state)
{
    (void)state;
    static const spyre_format floats[] = {DL16, FP32, SPYRE_FORMAT_SEN143_FP8};
    static const opfunc ops[] = {OPFUNC_CUMSUM,      OPFUNC_CUMPROD,     OPFUNC_CUMMAXVALUE,
                                 OPFUNC_CUMMAXINDEX, OPFUNC_CUMMINVALUE, OPFUNC_CUMMININDEX,
                                 OPFUNC_LOGCUMSUMEXP};
    uint64_t seed = 82;
    for (uint32_t round = 0; round < test_rounds(600); round++) {
        fill_area(&seed, FLOATS);
        isa_program *p = new_program(0);
        begin_kernel(p, 1, 0);
        isa_operand running = in_lx(48 << 10, SPYRE_FORMAT_IEEE_INT64);
        isa_instruction *i = emit(p, ISA_SCAN);
        random_shape(i, &seed);
        i->op = ops[next_random(&seed) % 7];
        bool integers = next_random(&seed) % 4 == 0 && i->op != OPFUNC_LOGCUMSUMEXP;
        bool places = opfunc_gives_positions(i->op);
        spyre_format from = integers ? SPYRE_FORMAT_IEEE_INT32 : floats[next_random(&seed) % 3];
        spyre_format to = integers ? from : floats[next_random(&seed) % 3];
        if (places && next_random(&seed) % 4) to = SPYRE_FORMAT_IEEE_INT32;
        uint32_t most = round % 3 ? 20 : 90;
        int64_t elements = 1, step = sizeof(int64_t);
        for (uint32_t d = 0; d < i->dim_count; d++) {
            i->extent[d] = 1 + next_random(&seed) % most;
            if (elements * i->extent[d] > 2500) i->extent[d] = 1;
            elements *= i->extent[d];
        }
        for (uint32_t d = i->dim_count; d-- > 0;) {
            bool scanned = next_random(&seed) % 2;
            running.stride[d] = scanned ? 0 : step;
            if (!scanned) step *= i->extent[d];
        }
        bool in_place = next_random(&seed) % 4 == 0;
        if (in_place && !places) to = from;
        i->operand_count = places ? 4 : 3;
        i->operand[0] = random_operand(i, &seed, to, false);
        i->operand[1] = running;
        i->operand[2] = random_operand(i, &seed, from, true);
        if (round % 8) { // else they may overlap
            i->operand[0].offset %= 4 << 10;
            i->operand[2].offset = (24 << 10) + i->operand[2].offset % (4 << 10);
        }
        if (in_place && to == from) i->operand[2] = i->operand[0];
        i->operand[3] = in_lx(47 << 10, SPYRE_FORMAT_IEEE_INT32);
        compare_modes(p);
    }
}

static void random_matmul(isa_program *p, uint64_t *seed, spyre_format format)
{
    isa_instruction *i = emit(p, ISA_MATMUL);
    uint32_t lanes = spyre_format_elements_per_stick(format);
    int64_t element = spyre_format_bytes(format);
    i->dim_count = 3;
    i->operand_count = 3;
    i->extent[0] = 1 + next_random(seed) % 15;
    i->extent[1] = 1 + next_random(seed) % 3;
    i->extent[2] = 1 + next_random(seed) % 150;
    if (next_random(seed) % 4 == 0) i->extent[2] = 300;
    uint32_t sticks = (i->extent[2] + lanes - 1) / lanes;
    bool rows_inside = next_random(seed) % 2;
    i->operand[0] = in_lx(80 << 10, FP32);
    i->operand[0].stride[0] = rows_inside ? (int64_t)lanes * 4 * i->extent[1] : lanes * 4;
    i->operand[0].stride[1] = rows_inside ? lanes * 4 : (int64_t)lanes * 4 * i->extent[0];
    if (lanes == 128) i->operand[0].offset = 60 << 10;
    i->operand[1] = in_lx(256, format);
    i->operand[1].stride[0] = rows_inside ? 128 * sticks : 128;
    i->operand[1].stride[2] = rows_inside ? 128 : 128 * i->extent[0];
    i->operand[2] = in_lx(12 << 10, format);
    i->operand[2].stride[1] = 128;
    i->operand[2].stride[2] = element * lanes * i->extent[1];
    if (i->extent[1] == 1 && next_random(seed) % 2) i->operand[2].stride[2] += 128;
    if (i->extent[2] * (uint64_t)i->operand[2].stride[2] > 48 << 10) i->extent[2] = 40;
    while (i->extent[0] * i->extent[1] * lanes * 4 > 16 << 10) i->extent[0]--;
}

static void tile__matmul(void **state)
{
    (void)state;
    static const spyre_format formats[] = {SPYRE_FORMAT_SEN169_FP16, SPYRE_FORMAT_IEEE_FP32,
                                           SPYRE_FORMAT_SEN143_FP8, SPYRE_FORMAT_IEEE_FP16};
    uint64_t seed = 79;
    for (uint32_t round = 0; round < test_rounds(200); round++) {
        fill_area(&seed, ONE_NAN);
        // Only SEN169_FP16 has no NaN among its inputs.
        for (uint32_t n = 0; round % 4 && n < AREA; n++) before[n] &= 0xBF;
        isa_program *p = new_program(0);
        begin_kernel(p, 1, 0);
        random_matmul(p, &seed, formats[round % 4]);
        compare_modes(p);
    }
}

// Random instructions one after another in one queue, so that results feed later ones.
static void tile__random_programs(void **state)
{
    (void)state;
    uint64_t seed = 80;
    for (uint32_t round = 0; round < test_rounds(60); round++) {
        fill_area(&seed, ONE_NAN);
        isa_program *p = new_program(0);
        begin_kernel(p, 1, 0);
        for (int n = 0; n < 12; n++) {
            opfunc op;
            do op = (opfunc)(next_random(&seed) % OPFUNC_COUNT);
            while (!elementwise(op));
            isa_instruction *i = random_vector(p, &seed, op);
            // One format, so that no NaN of unknown payload is made from other bits.
            for (uint32_t o = 0; o < i->operand_count; o++)
                i->operand[o] = random_operand(i, &seed, DL16, o > 0);
        }
        compare_modes(p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tile__vector),         cmocka_unit_test(tile__vector_of_integers),
        cmocka_unit_test(tile__comparisons),    cmocka_unit_test(tile__clip),
        cmocka_unit_test(tile__copies_in_any_order), cmocka_unit_test(tile__fill),
        cmocka_unit_test(tile__count),
        cmocka_unit_test(tile__reduce),         cmocka_unit_test(tile__fold),
        cmocka_unit_test(tile__matmul),         cmocka_unit_test(tile__random_programs),
        cmocka_unit_test(tile__rank),
        cmocka_unit_test(tile__scan),
    };
    return cmocka_run_group_tests(tests, open_card, close_card);
}
