// SPDX-License-Identifier: Apache-2.0
//
// For each rule of the checker a program that breaks it and one that differs by what mends it. In
// both modes; without the checker all of them run.
#include "unit/card/one_card.h"
#include "unit/card/program.h"

static isa_program *program;

enum { ARGUMENT_BYTES = 1 << 14 };
#define NO_SLOT ISA_NO_SLOT

// --- Pieces of programs: 64 elements each

static void load(int64_t lx, int64_t memory)
{
    const isa_operand o[] = {in_lx(lx, DL16), in_memory(0, NO_SLOT, memory, DL16)};
    emit_flat(program, ISA_LOAD, 64, 2, o);
}

static void store(int64_t memory, int64_t lx)
{
    const isa_operand o[] = {in_memory(1, NO_SLOT, memory, DL16), in_lx(lx, DL16)};
    emit_flat(program, ISA_STORE, 64, 2, o);
}

static void fill(int64_t lx)
{
    const isa_operand o[] = {in_lx(lx, DL16)};
    emit_flat(program, ISA_FILL, 64, 1, o);
}

static void order(isa_queue from, isa_queue to, uint16_t token)
{
    signal_to(program, from, token);
    wait_for(program, to, token);
}

// --- Running

static void begin(void)
{
    program = new_program(2);
}

static spyre_status launch(bool check, card_mode mode)
{
    card_program *loaded;
    const card_argument arguments[] = {{0, ARGUMENT_BYTES}, {CARD_SEGMENT_BYTES, ARGUMENT_BYTES}};
    assert_ok(card_set_check(the_card, check));
    card_wipe_lx(the_card);
    card_set_mode(the_card, mode);
    assert_ok(card_load(the_card, program, &loaded));
    spyre_status status = card_launch(the_card, loaded, arguments, 2, NULL);
    card_unload(the_card, loaded);
    return status;
}

static void finds(const char *piece)
{
    emit(program, ISA_HALT);
    for (card_mode mode = CARD_FAST; mode <= CARD_EXACT; mode++) {
        assert_ok(launch(false, mode));
        assert_error(launch(true, mode), SPYRE_DEVICE_FAULT, piece);
        // The next launch starts afresh.
        assert_error(launch(true, mode), SPYRE_DEVICE_FAULT, piece);
    }
    free_program(program);
}

static void is_clean(void)
{
    emit(program, ISA_HALT);
    for (card_mode mode = CARD_FAST; mode <= CARD_EXACT; mode++) {
        assert_ok(launch(true, mode));
        assert_ok(launch(true, mode));
    }
    free_program(program);
}

// --- Tokens

static void load_and_store(bool ordered)
{
    begin();
    begin_kernel(program, 1, 0);
    fill(0);
    order(ISA_QUEUE_SFP, ISA_QUEUE_STORE, 3);
    order(ISA_QUEUE_SFP, ISA_QUEUE_LOAD, 4);
    load(0, 0);
    if (ordered) order(ISA_QUEUE_LOAD, ISA_QUEUE_STORE, 0);
    store(0, 0);
    end_kernel(program);
}

static void check__token_missing(void **state)
{
    (void)state;
    load_and_store(false);
    finds("core 0, kernel 0_test (model.py:7), instruction ");
    load_and_store(false);
    finds("race: operand ");
    load_and_store(true);
    is_clean();
}

// LOAD, then FILL into the half of the stick that LOAD does not touch.
static void halves(int64_t second)
{
    begin();
    begin_kernel(program, 1, 0);
    const isa_operand o[] = {in_lx(0, DL16), in_memory(0, NO_SLOT, 0, DL16)};
    emit_flat(program, ISA_LOAD, 32, 2, o);
    const isa_operand filled = in_lx(second, DL16);
    emit_flat(program, ISA_FILL, 32, 1, &filled);
    end_kernel(program);
}

static void check__bytes_of_a_stick_are_told_apart(void **state)
{
    (void)state;
    halves(64);
    is_clean();
    halves(62);
    finds("race: ");
}

// Order by way of a third queue.
static void check__order_is_transitive(void **state)
{
    (void)state;
    begin();
    begin_kernel(program, 1, 0);
    load(0, 0);
    order(ISA_QUEUE_LOAD, ISA_QUEUE_SFP, 0);
    fill(1024);
    order(ISA_QUEUE_SFP, ISA_QUEUE_STORE, 1);
    store(0, 0);
    end_kernel(program);
    is_clean();
}

// Double buffering in a loop; `credits` free buffers are given to LOAD at the start.
static void ring_of_buffers(uint32_t credits)
{
    begin();
    begin_kernel(program, 1, 0);
    for (uint32_t n = 0; n < credits; n++) signal_to(program, ISA_QUEUE_STORE, 1);
    emit(program, ISA_LOOP)->count = 6;
    for (int64_t half = 0; half < 2; half++) {
        wait_for(program, ISA_QUEUE_LOAD, 1);
        load(half * 128, 0);
        order(ISA_QUEUE_LOAD, ISA_QUEUE_STORE, 0);
        store(half * 128, half * 128);
        signal_to(program, ISA_QUEUE_STORE, 1);
    }
    emit(program, ISA_END_LOOP);
    end_kernel(program);
}

static void check__one_credit_too_many(void **state)
{
    (void)state;
    ring_of_buffers(2);
    is_clean();
    ring_of_buffers(3);
    finds("race: ");
}

static void check__kernels_order_everything(void **state)
{
    (void)state;
    begin();
    begin_kernel(program, 1, 0);
    load(0, 0);
    end_kernel(program);
    begin_kernel(program, 1, 0);
    store(0, 0);
    end_kernel(program);
    is_clean();
}

// --- Memory

// Two cores store a stick each, `apart` bytes from each other.
static void stores_of_two_cores(int64_t apart)
{
    begin();
    int64_t *parameters = begin_kernel(program, 3, 1);
    parameters[1] = apart;
    fill(0);
    order(ISA_QUEUE_SFP, ISA_QUEUE_STORE, 0);
    const isa_operand o[] = {in_memory(1, 0, 0, DL16), in_lx(0, DL16)};
    emit_flat(program, ISA_STORE, 64, 2, o);
    end_kernel(program);
}

static void check__cores_store_to_one_place(void **state)
{
    (void)state;
    stores_of_two_cores(126);
    finds("bytes of memory that core 0 writes in queue store");
    stores_of_two_cores(128);
    is_clean();
}

// Each of two cores stores its stick and loads both; messages may tell them when.
static void share_in_memory(bool told)
{
    begin();
    int64_t *parameters = begin_kernel(program, 3, 2);
    parameters[0] = 1, parameters[1] = 0;           // core 0: its neighbour, its stick
    parameters[2] = 0, parameters[3] = 128;
    fill(0);
    order(ISA_QUEUE_SFP, ISA_QUEUE_STORE, 0);
    const isa_operand stored[] = {in_memory(1, 1, 0, DL16), in_lx(0, DL16)};
    emit_flat(program, ISA_STORE, 64, 2, stored);
    order(ISA_QUEUE_STORE, told ? ISA_QUEUE_RING : ISA_QUEUE_LOAD, 1);
    if (told) {
        const isa_operand sent = in_lx(0, DL16), received = in_lx(256, DL16);
        emit_flat(program, ISA_SEND, 64, 1, &sent);
        emit_flat(program, ISA_RECEIVE, 64, 1, &received);
        order(ISA_QUEUE_RING, ISA_QUEUE_LOAD, 2);
    }
    const isa_operand loaded[] = {in_lx(512, DL16), in_memory(1, NO_SLOT, 0, DL16)};
    emit_flat(program, ISA_LOAD, 128, 2, loaded);
    end_kernel(program);
}

static void check__messages_order_cores(void **state)
{
    (void)state;
    share_in_memory(false);
    finds("race: ");
    share_in_memory(true);
    is_clean();
}

// --- LX

static void check__never_written(void **state)
{
    (void)state;
    begin();
    begin_kernel(program, 1, 0);
    load(0, 0);
    order(ISA_QUEUE_LOAD, ISA_QUEUE_STORE, 0);
    store(0, 2);
    end_kernel(program);
    finds("address 0x80: never written: operand 1 reads byte 128 of LX");
    begin();
    begin_kernel(program, 1, 0);
    load(0, 0);
    load(128, 0);
    order(ISA_QUEUE_LOAD, ISA_QUEUE_STORE, 0);
    store(0, 2);
    end_kernel(program);
    is_clean();
}

static void fill_some(int64_t lx, uint32_t elements)
{
    const isa_operand o[] = {in_lx(lx, DL16)};
    emit_flat(program, ISA_FILL, elements, 1, o);
}

// Writes elements [first, first + count) of stick 0, then reads all of it.
static void read_stick_with(uint32_t first, uint32_t count)
{
    begin();
    begin_kernel(program, 1, 0);
    fill_some(first * 2, count);
    order(ISA_QUEUE_SFP, ISA_QUEUE_STORE, 0);
    store(0, 0);
    end_kernel(program);
}

static void check__never_written_is_told_by_byte(void **state)
{
    (void)state;
    read_stick_with(0, 64);
    is_clean();
    read_stick_with(0, 1);
    is_clean();                         // the rest is padding
    read_stick_with(1, 63);
    finds("address 0x0: never written: operand 1 reads byte 0 of LX, which nothing has written, "
          "before bytes that are");
    read_stick_with(40, 3);
    finds("address 0x0: never written: operand 1 reads byte 0 of LX");
    begin();                            // a gap
    begin_kernel(program, 1, 0);
    fill_some(0, 32);
    fill_some(66, 31);
    order(ISA_QUEUE_SFP, ISA_QUEUE_STORE, 0);
    store(0, 0);
    end_kernel(program);
    finds("address 0x40: never written: operand 1 reads byte 64 of LX");
}

static void check__misaligned(void **state)
{
    (void)state;
    begin();
    begin_kernel(program, 1, 0);
    load(1, 0);
    end_kernel(program);
    finds("misaligned: elements of operand 0 have 2 bytes");
    begin();
    begin_kernel(program, 1, 0);
    load(2, 0);
    end_kernel(program);
    is_clean();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check__token_missing),
        cmocka_unit_test(check__bytes_of_a_stick_are_told_apart),
        cmocka_unit_test(check__order_is_transitive),
        cmocka_unit_test(check__one_credit_too_many),
        cmocka_unit_test(check__kernels_order_everything),
        cmocka_unit_test(check__cores_store_to_one_place),
        cmocka_unit_test(check__messages_order_cores),
        cmocka_unit_test(check__never_written),
        cmocka_unit_test(check__never_written_is_told_by_byte),
        cmocka_unit_test(check__misaligned),
    };
    return cmocka_run_group_tests(tests, open_card, close_card);
}
