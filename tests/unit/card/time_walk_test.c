// SPDX-License-Identifier: Apache-2.0
//
// The walk of the timing model through a program: loops that are skipped against the full walk, and
// programs that cannot end.
#include "time_case.h"

// --- Programs without an end

static void expect_fault(isa_program *p, const char *part)
{
    card_counters kernels[8];
    finish(p);
    assert_ok(isa_verify(p));
    spyre_status status = card_time(p, kernels);
    assert_int_equal(spyre_status_code(status), SPYRE_DEVICE_FAULT);
    assert_non_null(strstr(spyre_status_message(status), part));
    spyre_status_free(status);
    free_program(p);
}

static void time_walk__deadlocks_are_errors(void **state)
{
    (void)state;
    isa_program *p = new_program(2);
    begin_kernel(p, 1, 0);
    load(p, 64);
    wait_for(p, ISA_QUEUE_SFP, 5);
    expect_fault(p, "kernel 0_test, core 0, instruction 2: deadlock: queue sfp waits for token 5");

    p = new_program(2);
    begin_kernel(p, 1, 0);
    wait_for(p, ISA_QUEUE_SFP, 0);
    signal_to(p, ISA_QUEUE_LOAD, 1);
    wait_for(p, ISA_QUEUE_LOAD, 0);
    signal_to(p, ISA_QUEUE_SFP, 0);
    expect_fault(p, "deadlock");

    p = new_program(0);
    begin_kernel(p, 2, 1)[1] = 7;
    isa_operand message = in_lx(0, DL16);
    emit_flat(p, ISA_RECEIVE, 64, 1, &message);
    expect_fault(p, "core 1, instruction 1: deadlock: nothing arrives from core 7");
}

// Four billion turns that never come to a steady state: an estimate, not a hang.
static void time_walk__tokens_that_pile_up_are_estimated(void **state)
{
    (void)state;
    isa_program *p = new_program(2);
    begin_kernel(p, 1, 0);
    emit(p, ISA_LOOP)->count = UINT32_MAX;
    load(p, 64);
    signal_to(p, ISA_QUEUE_LOAD, 0);
    wait_for(p, ISA_QUEUE_SFP, 0);
    vector(p, 4096);
    emit(p, ISA_END_LOOP);
    finish(p);
    card_counters c = time_it(p);
    assert_true(c.estimated);
    assert_us(c.us, UINT32_MAX * (64 * STICK_US));
    free_program(p);
}

// --- Large programs

// A tensor of 2^50 bytes: as many turns as a program can say, timed without them.
static void time_walk__does_not_depend_on_sizes(void **state)
{
    (void)state;
    isa_program *p = new_program(2);
    begin_kernel(p, 1, 0);
    signal_to(p, ISA_QUEUE_SFP, 1);
    for (int n = 0; n < 3; n++) emit(p, ISA_LOOP)->count = 1 << 12;
    load(p, 4096);
    handover(p, ISA_QUEUE_LOAD, ISA_QUEUE_SFP, 0);
    vector(p, 4096);
    handover(p, ISA_QUEUE_SFP, ISA_QUEUE_LOAD, 1);
    for (int n = 0; n < 3; n++) emit(p, ISA_END_LOOP);
    wait_for(p, ISA_QUEUE_LOAD, 1);
    finish(p);
    card_counters c = time_it(p);
    double turns = 68719476736.0;
    assert_false(c.estimated);
    assert_true(fabs(c.us / (turns * memory_us(8192)) - 1) < 1e-6);
    assert_int_equal(c.memory_read_bytes, 8192 * (int64_t)turns);
    free_program(p);
}

// Six loops of 2^32 - 1 around and inside a kernel: counts end, nothing overflows.
static void time_walk__absurd_counts_saturate(void **state)
{
    (void)state;
    isa_program *p = new_program(1);
    for (int n = 0; n < 4; n++) emit(p, ISA_LOOP)->count = UINT32_MAX;
    begin_kernel(p, 1, 0);
    for (int n = 0; n < 2; n++) emit(p, ISA_LOOP)->count = UINT32_MAX;
    load(p, 4096);
    for (int n = 0; n < 2; n++) emit(p, ISA_END_LOOP);
    end_kernel(p);
    for (int n = 0; n < 4; n++) emit(p, ISA_END_LOOP);
    emit(p, ISA_HALT);
    card_counters c = time_it(p);
    assert_int_equal(c.memory_read_bytes, (int64_t)1e18);
    assert_true(fabs(c.us / (pow(UINT32_MAX, 6) * memory_us(8192)) - 1) < 1e-6);
    free_program(p);
}

// --- Random programs

static const isa_queue unit_queues[] = {ISA_QUEUE_LOAD, ISA_QUEUE_SFP, ISA_QUEUE_STORE};

static void emit_work(isa_program *p, isa_queue queue, uint32_t elements)
{
    if (queue == ISA_QUEUE_LOAD) load(p, elements);
    else if (queue == ISA_QUEUE_STORE) store(p, elements);
    else if (queue == ISA_QUEUE_SFP) vector(p, elements);
}

// Work of random units. Every handover stands in one place and has a token of its two units, so
// read from top to bottom the program is a sequential one and cannot stop; tokens given before a
// loop let a unit run ahead in it.
static void random_body(isa_program *p, uint64_t *seed, uint32_t depth, uint32_t loops,
                        uint32_t scale)
{
    uint32_t parts = 1 + next_random(seed) % 4;
    for (uint32_t n = 0; n < parts; n++) {
        uint32_t a = next_random(seed) % 3, b = next_random(seed) % 3, pair = 3 * a + b;
        isa_queue from = unit_queues[a], to = unit_queues[b];
        emit_work(p, from, 64 * (1 + next_random(seed) % 40) * scale);
        if (next_random(seed) % 4) handover(p, from, to, (uint16_t)pair);
        if (depth + 1 < loops && next_random(seed) % 3 == 0) {
            uint16_t ahead = (uint16_t)(9 * (depth + 1) + pair);
            uint32_t given = next_random(seed) % 3;
            for (uint32_t g = 0; g < given; g++) signal_to(p, from, ahead);
            emit(p, ISA_LOOP)->count = 1 + next_random(seed) % 30;
            random_body(p, seed, depth + 1, loops, scale);
            handover(p, from, to, ahead);
            emit(p, ISA_END_LOOP);
            for (uint32_t g = 0; g < given; g++) wait_for(p, to, ahead);
        }
    }
}

static isa_program *random_program(uint64_t seed, uint32_t scale)
{
    isa_program *p = new_program(2);
    begin_kernel(p, 1, 0);
    emit(p, ISA_LOOP)->count = 1 + next_random(&seed) % 50;
    random_body(p, &seed, 0, 3, scale);
    emit(p, ISA_END_LOOP);
    finish(p);
    return p;
}

static void time_walk__skipped_loops_take_as_long(void **state)
{
    (void)state;
    for (uint64_t n = 0; n < 300; n++) {
        isa_program *p = random_program(1000 + n, 1);
        card_counters skipped, walked;
        time_options every = {.every_iteration = true};
        assert_ok(isa_verify(p));
        assert_ok(card_time(p, &skipped));
        assert_ok(time_program(p, &every, &walked));
        if (fabs(skipped.us - walked.us) > 1e-5 * walked.us)
            fail_msg("program %d: %.9g us, walked %.9g", (int)n, skipped.us, walked.us);
        assert_true(fabs(skipped.busy_us[CARD_MEMORY] - walked.busy_us[CARD_MEMORY]) <=
                    1e-5 * walked.us);
        assert_true(skipped.busy_us[CARD_SFP] <= skipped.us * (1 + 1e-9));
        free_program(p);
    }
}

static void time_walk__more_bytes_are_never_faster(void **state)
{
    (void)state;
    for (uint64_t n = 0; n < 100; n++) {
        double before = 0;
        for (uint32_t scale = 1; scale <= 8; scale *= 2) {
            isa_program *p = random_program(5000 + n, scale);
            card_counters c = time_it(p);
            assert_true(c.us > before);
            before = c.us;
            free_program(p);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(time_walk__deadlocks_are_errors),
        cmocka_unit_test(time_walk__tokens_that_pile_up_are_estimated),
        cmocka_unit_test(time_walk__does_not_depend_on_sizes),
        cmocka_unit_test(time_walk__absurd_counts_saturate),
        cmocka_unit_test(time_walk__skipped_loops_take_as_long),
        cmocka_unit_test(time_walk__more_bytes_are_never_faster),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
