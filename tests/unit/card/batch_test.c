// SPDX-License-Identifier: Apache-2.0
//
// Matmuls of many cores at a time: whatever is shared, every core gets its own product.
#include "one_card.h"
#include "program.h"

#include "card/machine.h"
#include "support/rounds.h"
#include "tensor/numeric.h"

enum { CORES = 12, K = 128, STICKS = 2, STEPS = 3, AREA = 512 << 10 };

// How a tile of [outer][inner][64] elements in LX lies in memory.
typedef enum { FLAT, GAPS, SWAPPED, FORMS } form;
enum { GAP = 256 };

static void load_tile(isa_program *p, form f, isa_operand lx, isa_operand memory, uint32_t outer,
                      uint32_t inner)
{
    isa_instruction *i = emit(p, ISA_LOAD);
    i->operand_count = 2;
    i->operand[0] = lx;
    i->operand[1] = memory;
    i->dim_count = 3;
    const uint32_t extent[3] = {outer, inner, 64};
    const int64_t in_lx_[3] = {128 * inner, 128, 2};
    const int64_t in_memory_[FORMS][3] = {
        {128 * inner, 128, 2}, {128 * inner + GAP, 128, 2}, {128, 128 * outer, 2}};
    for (uint32_t d = 0; d < 3; d++) {
        i->extent[d] = extent[d];
        i->operand[0].stride[d] = in_lx_[d];
        i->operand[1].stride[d] = in_memory_[f][d];
    }
}

// C += A x B in STEPS steps of K; core c takes rows of A by slot 0 and columns B by slot 1.
static isa_program *matmul_program(uint32_t rows, uint32_t groups, form f)
{
    enum { LOADED, DONE, FILLED, FINISHED, B_AT = 64 << 10, C_AT = 160 << 10, K_STICKS = K / 64 };
    uint32_t a_bytes = rows * K * 2 + K_STICKS * GAP, b_bytes = STICKS * (K * 128 + GAP);
    isa_program *p = new_program(3);
    int64_t *parameters = begin_kernel(p, (1u << CORES) - 1, 3);
    for (uint32_t core = 0; core < CORES; core++) {
        parameters[core * 3] = (int64_t)core * STEPS * a_bytes;
        parameters[core * 3 + 1] = (int64_t)(core % groups) * STEPS * b_bytes;
        parameters[core * 3 + 2] = (int64_t)core * rows * STICKS * 256;
    }
    isa_operand c = in_lx(C_AT, FP32), a = in_lx(0, DL16), b = in_lx(B_AT, DL16);
    emit_flat(p, ISA_FILL, rows * STICKS * 64, 1, &c)->constant[0] = 0.5f;
    signal_to(p, ISA_QUEUE_SFP, FILLED);
    wait_for(p, ISA_QUEUE_PT, FILLED);
    signal_to(p, ISA_QUEUE_PT, DONE);
    emit(p, ISA_LOOP)->count = STEPS;
    wait_for(p, ISA_QUEUE_LOAD, DONE);
    isa_operand a_from = in_memory(0, 0, 0, DL16), b_from = in_memory(1, 1, 0, DL16);
    a_from.loop_stride[0] = a_bytes;
    b_from.loop_stride[0] = b_bytes;
    load_tile(p, f, a, a_from, K_STICKS, rows);
    load_tile(p, f, b, b_from, STICKS, K);
    signal_to(p, ISA_QUEUE_LOAD, LOADED);
    wait_for(p, ISA_QUEUE_PT, LOADED);
    isa_instruction *i = emit(p, ISA_MATMUL);
    *i = (isa_instruction){.opcode = ISA_MATMUL, .queue = ISA_QUEUE_PT, .dim_count = 3,
                           .operand_count = 3, .extent = {rows, STICKS, K}, .operand = {c, a, b}};
    i->operand[0].stride[0] = 256;
    i->operand[0].stride[1] = 256 * rows;
    i->operand[1].stride[0] = 128;
    i->operand[1].stride[2] = 128 * rows;
    i->operand[2].stride[1] = 128 * K;
    i->operand[2].stride[2] = 128;
    signal_to(p, ISA_QUEUE_PT, DONE);
    emit(p, ISA_END_LOOP);
    signal_to(p, ISA_QUEUE_PT, FINISHED);
    wait_for(p, ISA_QUEUE_STORE, FINISHED);
    emit_flat(p, ISA_STORE, rows * STICKS * 64, 2,
              (isa_operand[]){in_memory(2, 2, 0, FP32), c});
    end_kernel(p);
    emit(p, ISA_HALT);
    return p;
}

static spyre_status run(isa_program *p, card_mode mode, uint64_t b_bytes)
{
    card_argument arguments[3] = {{128, 16 << 20}, {32 << 20, b_bytes}, {64 << 20, 16 << 20}};
    card_program *loaded;
    assert_ok(card_load(the_card, p, &loaded));
    card_set_mode(the_card, mode);
    memset(card_memory(the_card, 64 << 20, 16 << 20), 0, 16 << 20);
    card_wipe_lx(the_card);
    spyre_status status = card_launch(the_card, loaded, arguments, 3, NULL);
    card_unload(the_card, loaded);
    return status;
}

static void fill_inputs(void)
{
    uint64_t seed = 21;
    for (int k = 0; k < 2; k++) {
        uint16_t *codes = card_memory(the_card, k ? 32 << 20 : 128, 8 << 20);
        for (uint32_t n = 0; n < 4 << 20; n++)
            codes[n] = dl16_from_float((float)(next_random(&seed) % 4001) / 2000.0f - 1.0f);
    }
}

static void batch__every_core_gets_its_product(void **state)
{
    (void)state;
    static const uint32_t rows[] = {1, 4, 7, 13};
    const uint32_t stride = test_stride() > 1 ? 5 : 1; // every form, every number of rows
    fill_inputs();
    static uint8_t exact[4 << 20], lx[AREA];
    for (size_t n = 0; n < sizeof rows / sizeof *rows * FORMS; n += stride) {
        for (uint32_t groups = 1; groups <= CORES; groups += 7) {
            uint32_t height = rows[n / FORMS];
            isa_program *p = matmul_program(height, groups, (form)(n % FORMS));
            size_t bytes = CORES * height * STICKS * 256;
            assert_ok(run(p, CARD_EXACT, 16 << 20));
            memcpy(exact, card_memory(the_card, 64 << 20, bytes), bytes);
            memcpy(lx, card_lx(the_card, 5), AREA);
            assert_ok(run(p, CARD_FAST, 16 << 20));
            assert_memory_equal(exact, card_memory(the_card, 64 << 20, bytes), bytes);
            assert_memory_equal(lx, card_lx(the_card, 5), AREA);
            free_program(p);
        }
    }
}

// Cores 0, 3, 6 and 9 read the same columns: three of them have the rows that packing wants.
static void batch__cores_that_share_are_a_gang(void **state)
{
    (void)state;
    isa_program *p = matmul_program(100, 3, FLAT);
    card_program *loaded;
    assert_ok(card_load(the_card, p, &loaded));
    const core_group *group = &loaded->phases.items[0].kernel->group;
    assert_int_equal(group->cores, 3);
    for (uint32_t n = 0; n < CORES; n++) assert_int_equal(group->order[n], n % 4 * 3 + n / 4);
    card_unload(the_card, loaded);
    free_program(p);
}

static void batch__a_fault_of_one_core_ends_the_launch(void **state)
{
    (void)state;
    isa_program *p = matmul_program(4, 3, FLAT);
    uint64_t two_groups = 2ULL * STEPS * STICKS * (K * 128 + GAP);
    assert_error(run(p, CARD_FAST, two_groups), SPYRE_DEVICE_FAULT, "core 2, kernel 0_test");
    assert_error(run(p, CARD_EXACT, two_groups), SPYRE_DEVICE_FAULT, "core 2, kernel 0_test");
    free_program(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batch__every_core_gets_its_product),
        cmocka_unit_test(batch__cores_that_share_are_a_gang),
        cmocka_unit_test(batch__a_fault_of_one_core_ends_the_launch),
    };
    return cmocka_run_group_tests(tests, open_card, close_card);
}
