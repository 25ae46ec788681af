// SPDX-License-Identifier: Apache-2.0
//
// Loops that become dims of their tiles leave the bytes that iterations leave, and each lane of a
// sum keeps its order of additions; what an iteration hands to another one stays in its loop.
#include "one_card.h"
#include "fast_against_exact.h"

#include "card/plan.h"
#include "support/rounds.h"

enum {
    CORES = 3,
    ELEMENTS = 4096,
    GIVEN = 0,                              // in LX: SEN169_FP16
    WIDE = 8 << 10,                         // the same in fp32
    SUMS = 32 << 10,
    SUM_COUNT = 1024,
    SHARE = ELEMENTS * 2,                   // of a core, in memory
    RESULTS = SHARE * CORES,
    RESULT_SHARE = ELEMENTS * 4 + SUM_COUNT * 4,
    MEMORY = RESULTS + RESULT_SHARE * CORES,
};

static void begin(isa_program *p, float sums)
{
    int64_t *parameters = begin_kernel(p, (1u << CORES) - 1, 2);
    for (uint32_t core = 0; core < CORES; core++) {
        parameters[core * 2] = core * SHARE;
        parameters[core * 2 + 1] = RESULTS + core * RESULT_SHARE;
    }
    const isa_operand given = in_lx(GIVEN, DL16), wide = in_lx(WIDE, FP32);
    const isa_operand sum = in_lx(SUMS, FP32);
    emit_flat(p, ISA_LOAD, ELEMENTS, 2, (isa_operand[]){given, in_memory(0, 0, 0, DL16)});
    signal_to(p, ISA_QUEUE_LOAD, 0);
    wait_for(p, ISA_QUEUE_SFP, 0);
    emit_flat(p, ISA_VECTOR, ELEMENTS, 2, (isa_operand[]){wide, given})->op = OPFUNC_IDENTITY;
    emit_flat(p, ISA_FILL, SUM_COUNT, 1, &sum)->constant[0] = sums;
}

static void end(isa_program *p)
{
    const isa_operand wide = in_lx(WIDE, FP32), sum = in_lx(SUMS, FP32);
    signal_to(p, ISA_QUEUE_SFP, 1);
    wait_for(p, ISA_QUEUE_STORE, 1);
    emit_flat(p, ISA_STORE, ELEMENTS, 2, (isa_operand[]){in_memory(0, 1, 0, FP32), wide});
    emit_flat(p, ISA_STORE, SUM_COUNT, 2,
              (isa_operand[]){in_memory(0, 1, ELEMENTS * 4, FP32), sum});
    end_kernel(p);
}

static uint32_t one_of(uint64_t *seed, uint32_t count, const uint32_t *choices)
{
    return choices[next_random(seed) % count];
}

// [reduced, kept, lanes] of accumulators that loops may move.
static void random_reduction(isa_program *p, uint64_t *seed, uint32_t loops)
{
    static const uint32_t lanes[] = {8, 20, 24, 32, 64}, steps[] = {0, 8, 32, 64, 224, 512};
    const spyre_format format = next_random(seed) % 2 ? DL16 : FP32;
    const uint32_t bytes = spyre_format_bytes(format), kept = 1 + next_random(seed) % 3;
    isa_instruction *i = emit(p, next_random(seed) % 4 ? ISA_REDUCE : ISA_REDUCESQ);
    i->op = i->opcode == ISA_REDUCESQ ? 0 : next_random(seed) % 3 ? OPFUNC_SUM : OPFUNC_MAX;
    i->dim_count = 3;
    i->operand_count = 2;
    i->extent[0] = 1 + next_random(seed) % 2;
    i->extent[1] = kept;
    i->extent[2] = one_of(seed, 5, lanes);
    i->operand[0] = in_lx(SUMS, FP32);
    i->operand[1] = in_lx(format == DL16 ? GIVEN : WIDE, format);
    i->operand[0].stride[1] = next_random(seed) % 4 ? 256 : 128;
    i->operand[0].stride[2] = 4;
    i->operand[1].stride[0] = bytes * one_of(seed, 6, steps);
    i->operand[1].stride[1] = bytes * one_of(seed, 6, steps);
    i->operand[1].stride[2] = bytes;
    i->operand[1].offset += bytes * (next_random(seed) % 32 * 8);
    for (uint32_t n = 0; n < loops; n++) {
        i->operand[1].loop_stride[n] = bytes * one_of(seed, 6, steps);
        if (next_random(seed) % 8 == 0) i->operand[0].loop_stride[n] = 768;
    }
}

// The last instruction again: of a run that is often shorter, from somewhere else.
static void continue_reduction(isa_program *p, uint64_t *seed)
{
    static const uint32_t lanes[] = {4, 8, 20, 24, 32};
    isa_instruction *i = emit(p, ISA_REDUCE);
    *i = isa_copy(p->code.items[p->code.count - 2]);
    uint32_t fewer = one_of(seed, 5, lanes);
    if (fewer < i->extent[2]) i->extent[2] = fewer;
    i->operand[1].offset += spyre_format_bytes(i->operand[1].format) *
                            (next_random(seed) % 16 * 8);
    if (next_random(seed) % 8 == 0) i->operand[0].offset += 4;
}

// Over what it reads, in place or a little behind.
static void random_vector(isa_program *p, uint64_t *seed, uint32_t loops)
{
    const isa_operand to = in_lx(WIDE + next_random(seed) % 3 * 256, FP32);
    isa_operand from = next_random(seed) % 2 ? to : in_lx(WIDE + 128, FP32);
    isa_instruction *i = emit_flat(p, ISA_VECTOR, 64, 2, (isa_operand[]){to, from});
    i->op = OPFUNC_NEG;
    for (uint32_t n = 0; n < loops; n++)
        i->operand[0].loop_stride[n] = i->operand[1].loop_stride[n] = next_random(seed) % 3 * 256;
    if (next_random(seed) % 4 == 0) i->operand[1].loop_stride[0] = 512;
}

static void random_kernel(isa_program *p, uint64_t *seed)
{
    uint32_t loops = 1 + next_random(seed) % 3;
    begin(p, next_random(seed) % 2 ? 0.0f : 1.5f);
    for (uint32_t n = 0; n < loops; n++) emit(p, ISA_LOOP)->count = 1 + next_random(seed) % 4;
    if (next_random(seed) % 4 == 0) random_vector(p, seed, loops);
    else random_reduction(p, seed, loops);
    if (p->code.items[p->code.count - 1]->opcode != ISA_VECTOR && next_random(seed) % 4)
        continue_reduction(p, seed);
    for (uint32_t n = 0; n < loops; n++) {
        emit(p, ISA_END_LOOP);
        if (n + 1 < loops && next_random(seed) % 4 == 0) random_reduction(p, seed, loops - 1 - n);
    }
    end(p);
}

static void absorb_loops__random(void **state)
{
    (void)state;
    const random_programs all = {.add_kernels = random_kernel,
                                 .seed = 41,
                                 .memory_bytes = MEMORY,
                                 .most_threads = 2,
                                 .programs = test_rounds(300)};
    check_random_programs(&all);
}

// --- How many steps are left

// Rows of 56 elements in two tiles, each moved by so many bytes from iteration to iteration.
static uint32_t steps_of_rows(uint32_t second, int64_t moved)
{
    isa_program *p = new_program(1);
    card_program *loaded;
    begin(p, 0);
    emit(p, ISA_LOOP)->count = 4;
    emit(p, ISA_LOOP)->count = 4;
    for (uint32_t part = 0; part < 2; part++) {
        isa_operand sums = in_lx(SUMS, FP32), x = in_lx(WIDE + part * 128, FP32);
        sums.loop_stride[0] = moved;
        x.loop_stride[0] = 1024;
        x.loop_stride[1] = 256;
        isa_instruction *i = emit_flat(p, ISA_REDUCE, part ? second : 32, 2,
                                       (isa_operand[]){sums, x});
        i->op = OPFUNC_SUM;
    }
    emit(p, ISA_END_LOOP);
    emit(p, ISA_END_LOOP);
    end(p);
    emit(p, ISA_HALT);
    assert_ok(card_load(the_card, p, &loaded));
    uint32_t steps = loaded->phases.items[0].kernel->step_count[ISA_QUEUE_SEQ];
    card_unload(the_card, loaded);
    free_program(p);
    return steps;
}

static void absorb_loops__reductions_by_lanes(void **state)
{
    (void)state;
    const uint32_t others = steps_of_rows(32, 0) - 1;
    assert_int_equal(steps_of_rows(24, 0), others + 2);
    assert_int_equal(steps_of_rows(24, 128), others + 2);
    // Accumulators that overlap from iteration to iteration: that loop stays.
    assert_int_equal(steps_of_rows(24, 64), others + 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(absorb_loops__random),
        cmocka_unit_test(absorb_loops__reductions_by_lanes),
    };
    return cmocka_run_group_tests(tests, open_card, close_card);
}
