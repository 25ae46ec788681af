// SPDX-License-Identifier: Apache-2.0
//
// Row fusions over windows that overlap, whose elements are converted once: sums of products and
// largest elements of random windows must leave the bytes that element-by-element execution leaves,
// whatever their values.
#include "row_fusion_programs.h"
#include "support/rounds.h"

enum {
    PLACE = 128,                            // bytes of 64 channels
    WEIGHTS = 256 << 10,                    // LX: behind the image
    RESULTS = 320 << 10,
    WINDOW_SUMS = 512 << 10,
    PRODUCTS = 640 << 10,
    MOST_WINDOWS = 128,
};

typedef struct {
    uint32_t lines, windows;                // windows of each line of them
    uint32_t high, wide;                    // taps
    uint32_t stride, dilation, width;       // places of a line of the image
    opfunc op;
    bool weighed;
} windows_of;

static windows_of random_windows(uint64_t *seed)
{
    static const opfunc ops[] = {OPFUNC_SUM, OPFUNC_SUM, OPFUNC_MAX, OPFUNC_MIN};
    windows_of w = {.lines = 1 + next_random(seed) % 3, .windows = 2 + next_random(seed) % 39,
                    .high = 1 + next_random(seed) % 5, .wide = 2 + next_random(seed) % 5,
                    .stride = 1 + next_random(seed) % 4 / 3,
                    .dilation = 1 + next_random(seed) % 4 / 3};
    w.width = (w.windows - 1) * w.stride + (w.wide - 1) * w.dilation + 1 + next_random(seed) % 3;
    w.op = ops[next_random(seed) % 4];
    w.weighed = w.op == OPFUNC_SUM && next_random(seed) % 4;
    return w;
}

// Codes around 1, one of so many of any kind: zeros and infinities, which make NaN, among them.
static void fill(uint32_t rare, uint64_t *seed)
{
    for (uint32_t n = 0; n < MEMORY; n += 2) {
        const uint32_t bits = next_random(seed);
        uint16_t code = (uint16_t)(0x3800 + (bits >> 8) % 0x1000);
        if (rare && bits % rare == 0) code = (uint16_t)(bits >> 12);
        if (rare && bits % rare == 1) code = bits >> 20 & 1 ? 0x7FFF : 0;
        code |= (uint16_t)(bits >> 31 << 15);
        memcpy(initial + n, &code, sizeof code);
    }
}

// All windows, their taps, 64 channels.
static isa_instruction *emit_windows(isa_program *p, const windows_of *w, isa_opcode opcode,
                                     uint8_t operands, const isa_operand *operand)
{
    const uint32_t extent[] = {w->lines, w->windows, w->high, w->wide, 64};
    const uint32_t taps = w->high * w->wide;
    isa_instruction *i = emit(p, opcode);
    i->dim_count = 5;
    memcpy(i->extent, extent, sizeof extent);
    i->operand_count = operands;
    for (uint8_t o = 0; o < operands; o++) {
        const int64_t step = w->stride * PLACE, tap = w->dilation * PLACE;
        const int64_t image[] = {step * w->width, step, tap * w->width, tap, 2};
        const int64_t factor[] = {0, 0, w->wide * PLACE, PLACE, 2};
        const int64_t sum[] = {256 * (int64_t)w->windows, 256, 0, 0, 4};
        const int64_t dense[] = {256 * (int64_t)(taps * w->windows), 256 * (int64_t)taps,
                                   256 * (int64_t)w->wide, 256, 4};
        const int64_t at = operand[o].offset;
        i->operand[o] = operand[o];
        memcpy(i->operand[o].stride,
               at == WEIGHTS ? factor : at == WINDOW_SUMS ? sum : at == PRODUCTS ? dense : image,
               sizeof image);
    }
    return i;
}

static isa_program *windows_program(const windows_of *w)
{
    const uint32_t elements = w->lines * w->windows * 64;
    const isa_operand image = in_lx(0, DL16), sums = in_lx(WINDOW_SUMS, FP32);
    const isa_operand products = in_lx(PRODUCTS, FP32), weights = in_lx(WEIGHTS, DL16);
    isa_program *p = new_program(1);
    copy_kernel(p, ISA_LOAD, 0, 0, MEMORY);
    begin_kernel(p, 1, 0);
    emit_flat(p, ISA_FILL, elements, 1, &sums)->constant[0] = opfunc_reduction_identity(w->op);
    if (w->weighed)
        emit_windows(p, w, ISA_VECTOR, 3, (isa_operand[]){products, image, weights})->op =
            OPFUNC_MUL;
    emit_windows(p, w, ISA_REDUCE, 2, (isa_operand[]){sums, w->weighed ? products : image})->op =
        w->op;
    emit_flat(p, ISA_VECTOR, elements, 2, (isa_operand[]){in_lx(RESULTS, DL16), sums})->op =
        OPFUNC_IDENTITY;
    end_kernel(p);
    copy_kernel(p, ISA_STORE, RESULTS, 0, elements * 2);
    emit(p, ISA_HALT);
    return p;
}

static bool shares_places(isa_program *p)
{
    card_program *loaded;
    bool shares = false;
    assert_ok(card_load(the_card, p, &loaded));
    card_program_forget_lx(loaded);
    for (uint32_t n = 0; n < loaded->phases.count; n++) {
        const plan_phase *phase = &loaded->phases.items[n];
        if (phase->kind == PHASE_KERNEL && phase->kernel->rows)
            shares = shares || phase->kernel->rows->overlapping;
    }
    card_unload(the_card, loaded);
    return shares;
}

static void overlapping_windows__random_windows_keep_their_bytes(void **state)
{
    (void)state;
    uint64_t seed = 23;
    uint32_t shared = 0, rounds = test_rounds(400);
    for (uint32_t round = 0; round < rounds; round++) {
        if (round % 16 == 0) fill(round % 48 ? 4096u >> round % 32 / 2 : 0, &seed);
        const uint64_t start = seed;
        const windows_of w = random_windows(&seed);
        isa_program *p = windows_program(&w);
        check(p, start);
        shared += shares_places(p);
        free_program(p);
    }
    assert_true(shared > rounds / 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(overlapping_windows__random_windows_keep_their_bytes),
    };
    return cmocka_run_group_tests(tests, open_card, close_card);
}
