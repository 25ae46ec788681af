// SPDX-License-Identifier: Apache-2.0
//
// Control: queues, tokens, loops, kernels, ring, arguments and faults, in both modes.
#include "one_card.h"
#include "program.h"

#include <stdlib.h>

#include "tensor/numeric.h"

enum { COUNT = 64 };

static uint16_t *codes_at(uint64_t address)
{
    return card_memory(the_card, address, 2);
}

static void fill_codes(uint64_t address, uint32_t count, float first, float step)
{
    uint16_t *codes = codes_at(address);
    for (uint32_t n = 0; n < count; n++)
        codes[n] = dl16_from_float(first + step * (float)n);
}

static spyre_status run(isa_program *p, card_mode mode, const card_argument *arguments,
                        card_fault *fault)
{
    card_program *loaded;
    assert_ok(card_load(the_card, p, &loaded));
    card_set_mode(the_card, mode);
    spyre_status status = card_launch(the_card, loaded, arguments, p->arg_count, fault);
    card_unload(the_card, loaded);
    return status;
}

// out = a + b on every core, COUNT elements each, in `steps` double-buffered steps.
static isa_program *pipelined_add(uint32_t cores, uint32_t steps, bool with_waits)
{
    enum { LOADED, COMPUTED, STORED, BYTES = COUNT * 2 };
    isa_program *p = new_program(3);
    int64_t *parameters = begin_kernel(p, cores == 32 ? UINT32_MAX : (1u << cores) - 1, 1);
    for (uint32_t core = 0; core < ISA_CORES; core++)
        parameters[core] = (int64_t)core * steps * BYTES;
    // Two buffers are free at first.
    signal_to(p, ISA_QUEUE_STORE, STORED);
    emit(p, ISA_LOOP)->count = steps;
    isa_operand lx[3] = {in_lx(0, DL16), in_lx(BYTES, DL16), in_lx(2 * BYTES, DL16)};
    if (with_waits) wait_for(p, ISA_QUEUE_LOAD, STORED);
    for (uint16_t k = 0; k < 2; k++) {
        isa_operand memory = in_memory(k, 0, 0, DL16);
        memory.loop_stride[0] = BYTES;
        emit_flat(p, ISA_LOAD, COUNT, 2, (isa_operand[]){lx[k], memory});
    }
    signal_to(p, ISA_QUEUE_LOAD, LOADED);
    if (with_waits) wait_for(p, ISA_QUEUE_SFP, LOADED);
    emit_flat(p, ISA_VECTOR, COUNT, 3, (isa_operand[]){lx[2], lx[0], lx[1]})->op = OPFUNC_ADD;
    signal_to(p, ISA_QUEUE_SFP, COMPUTED);
    if (with_waits) wait_for(p, ISA_QUEUE_STORE, COMPUTED);
    isa_operand memory = in_memory(2, 0, 0, DL16);
    memory.loop_stride[0] = BYTES;
    emit_flat(p, ISA_STORE, COUNT, 2, (isa_operand[]){memory, lx[2]});
    signal_to(p, ISA_QUEUE_STORE, STORED);
    emit(p, ISA_END_LOOP);
    end_kernel(p);
    emit(p, ISA_HALT);
    return p;
}

static bool add_is_right(card_mode mode, uint32_t cores, bool with_waits)
{
    enum { STEPS = 5 };
    uint32_t total = cores * STEPS * COUNT;
    card_argument arguments[3] = {{128, total * 2}, {1 << 20, total * 2}, {2 << 20, total * 2}};
    fill_codes(128, total, 0.0f, 0.25f);
    fill_codes(1 << 20, total, 1.0f, 0.0f);
    memset(codes_at(2 << 20), 0, total * 2);
    card_wipe_lx(the_card);
    isa_program *p = pipelined_add(cores, STEPS, with_waits);
    assert_ok(run(p, mode, arguments, NULL));
    free_program(p);
    bool right = true;
    for (uint32_t n = 0; n < total; n++) {
        float a = dl16_to_float(codes_at(128)[n]);
        right = right && codes_at(2 << 20)[n] == dl16_from_float(a + 1.0f);
    }
    return right;
}

static void launch__pipelined_add_on_all_cores(void **state)
{
    (void)state;
    assert_true(add_is_right(CARD_FAST, 32, true));
    assert_true(add_is_right(CARD_EXACT, 32, true));
    assert_true(add_is_right(CARD_FAST, 3, true));
}

static void launch__exact_order_shows_missing_waits(void **state)
{
    (void)state;
    assert_false(add_is_right(CARD_EXACT, 5, false));
}

static void launch__outer_loops_count_first(void **state)
{
    (void)state;
    isa_program *p = new_program(1);
    emit(p, ISA_LOOP)->count = 3;
    begin_kernel(p, 1, 0);
    emit(p, ISA_LOOP)->count = 2;
    isa_operand lx = in_lx(0, FP32);
    emit_flat(p, ISA_FILL, 4, 1, &lx)->constant[0] = 2.0f;
    signal_to(p, ISA_QUEUE_SFP, 0);
    wait_for(p, ISA_QUEUE_STORE, 0);
    isa_operand out = in_memory(0, ISA_NO_SLOT, 0, FP32);
    out.loop_stride[0] = 64;
    out.loop_stride[1] = 16;
    emit_flat(p, ISA_STORE, 4, 2, (isa_operand[]){out, lx});
    emit(p, ISA_END_LOOP);
    end_kernel(p);
    emit(p, ISA_END_LOOP);
    emit(p, ISA_HALT);
    card_argument argument = {128, 4096};
    for (int mode = CARD_FAST; mode <= CARD_EXACT; mode++) {
        float *values = card_memory(the_card, 128, 4096);
        memset(values, 0, 4096);
        assert_ok(run(p, (card_mode)mode, &argument, NULL));
        for (uint32_t n = 0; n < 64; n++) {
            bool written = n / 16 < 3 && n % 16 < 8;
            assert_true(values[n] == (written ? 2.0f : 0.0f));
        }
    }
    free_program(p);
}

// Every active core sends its number to the next one, in kernel 0; they receive in kernel 1.
static isa_program *ring_program(bool in_two_kernels)
{
    isa_program *p = new_program(1);
    int64_t *parameters = begin_kernel(p, 0xF, 3);
    for (int round = 0; round < 2; round++) {
        for (uint32_t core = 0; core < 4; core++) {
            parameters[core * 3] = (core + 1) % 4;
            parameters[core * 3 + 1] = (core + 3) % 4;
            parameters[core * 3 + 2] = core * 128;
        }
        if (round == 0) {
            isa_operand own = in_memory(0, 2, 0, FP32);
            emit_flat(p, ISA_LOAD, 32, 2, (isa_operand[]){in_lx(0, FP32), own});
            signal_to(p, ISA_QUEUE_LOAD, 0);
            wait_for(p, ISA_QUEUE_RING, 0);
            isa_operand lx = in_lx(0, FP32);
            emit_flat(p, ISA_SEND, 32, 1, &lx)->token = 0;
            if (!in_two_kernels) continue;
            end_kernel(p);
            parameters = begin_kernel(p, 0xF, 3);
        } else {
            isa_operand lx = in_lx(256, FP32);
            emit_flat(p, ISA_RECEIVE, 32, 1, &lx)->token = 1;
            signal_to(p, ISA_QUEUE_RING, 1);
            wait_for(p, ISA_QUEUE_STORE, 1);
            isa_operand out = in_memory(0, 2, 512, FP32);
            emit_flat(p, ISA_STORE, 32, 2, (isa_operand[]){out, lx});
        }
    }
    end_kernel(p);
    emit(p, ISA_HALT);
    return p;
}

static void launch__ring_moves_tiles(void **state)
{
    (void)state;
    card_argument argument = {128, 4096};
    for (int variant = 0; variant < 4; variant++) {
        isa_program *p = ring_program(variant & 1);
        float *values = card_memory(the_card, 128, 4096);
        for (uint32_t n = 0; n < 128; n++) values[n] = (float)n;
        memset(values + 128, 0, 512);
        assert_ok(run(p, variant & 2 ? CARD_EXACT : CARD_FAST, &argument, NULL));
        for (uint32_t n = 0; n < 128; n++)
            assert_true(values[128 + n] == (float)((n + 96) % 128));
        free_program(p);
    }
}

static void launch__unreceived_message_is_a_fault(void **state)
{
    (void)state;
    isa_program *p = new_program(0);
    begin_kernel(p, 1, 1)[0] = 9;
    isa_operand lx = in_lx(0, FP32);
    emit_flat(p, ISA_SEND, 1, 1, &lx);
    end_kernel(p);
    emit(p, ISA_HALT);
    assert_error(run(p, CARD_FAST, NULL, NULL), SPYRE_DEVICE_FAULT, "core 9 never received");
    free_program(p);
}

static void launch__deadlock_names_the_token(void **state)
{
    (void)state;
    for (int mode = CARD_FAST; mode <= CARD_EXACT; mode++) {
        isa_program *p = new_program(0);
        begin_kernel(p, 4, 0);
        wait_for(p, ISA_QUEUE_SFP, 11);
        end_kernel(p);
        emit(p, ISA_HALT);
        card_fault fault;
        assert_error(run(p, (card_mode)mode, NULL, &fault), SPYRE_DEVICE_FAULT,
                     "core 2, kernel 0_test (model.py:7), instruction 1");
        assert_non_null(strstr(fault.text, "token 11"));
        free_program(p);
    }
}

static void launch__deadlock_names_the_sender(void **state)
{
    (void)state;
    isa_program *p = new_program(0);
    begin_kernel(p, 1, 1)[0] = 5;
    isa_operand lx = in_lx(0, FP32);
    emit_flat(p, ISA_RECEIVE, 1, 1, &lx);
    end_kernel(p);
    emit(p, ISA_HALT);
    assert_error(run(p, CARD_EXACT, NULL, NULL), SPYRE_DEVICE_FAULT,
                 "nothing arrives from core 5");
    free_program(p);
}

static isa_program *load_of(int64_t parameter, uint32_t count)
{
    isa_program *p = new_program(1);
    begin_kernel(p, 2, 1)[1] = parameter;
    isa_operand memory = in_memory(0, 0, 0, DL16);
    emit_flat(p, ISA_LOAD, count, 2, (isa_operand[]){in_lx(0, DL16), memory});
    end_kernel(p);
    emit(p, ISA_HALT);
    return p;
}

static void launch__access_stays_in_its_argument(void **state)
{
    (void)state;
    static const struct {
        int64_t parameter;
        uint32_t count;
        bool good;
    } cases[] = {{0, 64, true},   {128, 64, true},         {130, 64, false},
                 {-2, 64, false}, {0, 129, false},         {ISA_MOST_REACH, 64, false},
                 {256, 1, false}, {-ISA_MOST_REACH, 64, false}};
    card_argument argument = {CARD_SEGMENT_BYTES + 1024, 256};
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        for (int mode = CARD_FAST; mode <= CARD_EXACT; mode++) {
            isa_program *p = load_of(cases[n].parameter, cases[n].count);
            card_fault fault = {0};
            spyre_status status = run(p, (card_mode)mode, &argument, &fault);
            assert_int_equal(status == NULL, cases[n].good);
            if (status) {
                assert_int_equal(fault.core, 1);
                assert_int_equal(fault.instruction, 1);
                assert_non_null(strstr(fault.text, "argument 0, which has 256"));
            }
            spyre_status_free(status);
            free_program(p);
        }
    }
}

static void launch__arguments_are_checked(void **state)
{
    (void)state;
    isa_program *p = load_of(0, 64);
    card_program *loaded;
    assert_ok(card_load(the_card, p, &loaded));
    card_argument argument = {CARD_SEGMENT_BYTES - 128, 256};
    assert_error(card_launch(the_card, loaded, &argument, 1, NULL), SPYRE_INVALID_ARGUMENT,
                 "argument 0, 0x3ffffff80 + 256 bytes, leaves its segment");
    assert_error(card_launch(the_card, loaded, &argument, 0, NULL), SPYRE_INVALID_ARGUMENT,
                 "0 arguments, the program has 1");
    card_unload(the_card, loaded);
    free_program(p);
}

static void launch__card_works_after_a_fault(void **state)
{
    (void)state;
    card_argument argument = {128, 64};
    isa_program *p = load_of(0, 64);
    assert_error(run(p, CARD_FAST, &argument, NULL), SPYRE_DEVICE_FAULT, "argument 0");
    free_program(p);
    assert_true(add_is_right(CARD_FAST, 4, true));
}

static void launch__gather_reads_rows(void **state)
{
    (void)state;
    isa_program *p = new_program(2);
    begin_kernel(p, 1, 0);
    isa_operand index = in_memory(1, ISA_NO_SLOT, 0, SPYRE_FORMAT_IEEE_INT32);
    isa_operand rows = in_lx(4096, SPYRE_FORMAT_IEEE_INT32);
    emit_flat(p, ISA_LOAD, 4, 2, (isa_operand[]){rows, index});
    isa_instruction *i = emit(p, ISA_GATHER);
    i->dim_count = 2;
    i->extent[0] = 4;
    i->extent[1] = 64;
    i->operand_count = 3;
    i->row_stride = 128;
    i->row_count = 10;
    i->operand[0] = in_lx(0, DL16);
    i->operand[0].stride[0] = 128;
    i->operand[0].stride[1] = 2;
    i->operand[1] = in_memory(0, ISA_NO_SLOT, 0, DL16);
    i->operand[1].stride[1] = 2;
    i->operand[2] = rows;
    i->operand[2].stride[0] = 4;
    end_kernel(p);
    emit(p, ISA_HALT);
    card_argument arguments[2] = {{128, 1280}, {65536, 16}};
    fill_codes(128, 640, 0.0f, 0.5f);
    int32_t *wanted = card_memory(the_card, 65536, 16);
    for (int mode = CARD_FAST; mode <= CARD_EXACT; mode++) {
        memcpy(wanted, (int32_t[4]){9, 0, 3, 9}, 16);
        assert_ok(run(p, (card_mode)mode, arguments, NULL));
        for (int n = 0; n < 4; n++)
            assert_memory_equal(card_lx(the_card, 0) + n * 128, codes_at(128) + wanted[n] * 64,
                                128);
        wanted[2] = 10;
        assert_error(run(p, (card_mode)mode, arguments, NULL), SPYRE_INDEX_FAULT,
                     "gather of row 10, outside 0..9");
        arguments[0].limit = 1200;
        wanted[2] = 3;
        assert_error(run(p, (card_mode)mode, arguments, NULL), SPYRE_DEVICE_FAULT,
                     "argument 0, which has 1200");
        arguments[0].limit = 1280;
    }
    free_program(p);
}

static void launch__memory_is_zero_and_discardable(void **state)
{
    (void)state;
    uint8_t *bytes = card_memory(the_card, 3 * CARD_SEGMENT_BYTES + 100, 20000);
    assert_int_equal(bytes[0], 0);
    memset(bytes, 7, 20000);
    card_memory_discard(the_card, 3 * CARD_SEGMENT_BYTES + 110, 19980);
    assert_int_equal(bytes[9], 7);
    for (int n = 10; n < 19990; n++) assert_int_equal(bytes[n], 0);
    assert_int_equal(bytes[19990], 7);
    assert_null(card_memory(the_card, 8 * CARD_SEGMENT_BYTES, 1));
    assert_null(card_memory(the_card, CARD_SEGMENT_BYTES - 1, 2));
    assert_null(card_lx(the_card, ISA_CORES));
}

static void launch__wrong_words_in_the_environment_are_errors(void **state)
{
    (void)state;
    static const char *const wrong[][3] = {
        {"SPYRE_CARD_MODE", "Exact", "SPYRE_CARD_MODE=Exact: expected fast or exact"},
        {"SPYRE_CARD_CHECK", "yes", "SPYRE_CARD_CHECK=yes: expected 0 or 1"},
        {"SPYRE_WIPE_LX", "2", "SPYRE_WIPE_LX=2: expected 0 or 1"},
    };
    for (size_t n = 0; n < sizeof wrong / sizeof *wrong; n++) {
        const char *value = getenv(wrong[n][0]);
        char *before = value ? strdup(value) : NULL;
        card *none = NULL;
        setenv(wrong[n][0], wrong[n][1], 1);
        assert_error(card_create(&none), SPYRE_INVALID_ARGUMENT, wrong[n][2]);
        assert_null(none);
        if (before) setenv(wrong[n][0], before, 1);
        else unsetenv(wrong[n][0]);
        free(before);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(launch__pipelined_add_on_all_cores),
        cmocka_unit_test(launch__exact_order_shows_missing_waits),
        cmocka_unit_test(launch__outer_loops_count_first),
        cmocka_unit_test(launch__ring_moves_tiles),
        cmocka_unit_test(launch__unreceived_message_is_a_fault),
        cmocka_unit_test(launch__deadlock_names_the_token),
        cmocka_unit_test(launch__deadlock_names_the_sender),
        cmocka_unit_test(launch__access_stays_in_its_argument),
        cmocka_unit_test(launch__arguments_are_checked),
        cmocka_unit_test(launch__card_works_after_a_fault),
        cmocka_unit_test(launch__gather_reads_rows),
        cmocka_unit_test(launch__memory_is_zero_and_discardable),
        cmocka_unit_test(launch__wrong_words_in_the_environment_are_errors),
    };
    return cmocka_run_group_tests(tests, open_card, close_card);
}
