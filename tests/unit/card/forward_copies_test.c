// SPDX-License-Identifier: Apache-2.0
//
// Fused kernels: random programs whose loads, stores and instructions overlap in LX and in memory
// must leave the bytes that element-by-element execution leaves; and what is left out of kernels.
#include "one_card.h"
#include "program.h"

#include <stdlib.h>

#include "card/plan.h"
#include "card/machine.h"
#include "support/rounds.h"

enum { MEMORY = 64 << 10, AREA = 32 << 10, CORES = 3 };

static uint8_t initial[MEMORY], exact_memory[MEMORY], exact_lx[CORES * AREA];

static isa_operand random_lx(uint64_t *seed, uint32_t bytes)
{
    uint32_t step = next_random(seed) % 3 ? 1024 : 64;
    return in_lx(next_random(seed) % (AREA - bytes - 1024) / step * step, DL16);
}

static isa_operand random_memory(uint64_t *seed, uint32_t bytes)
{
    uint32_t step = next_random(seed) % 3 ? 1024 : 128;
    uint32_t room = MEMORY / 2 - bytes - 5120;
    isa_operand o = in_memory((uint16_t)(next_random(seed) % 2), (uint16_t)(next_random(seed) % 2),
                              next_random(seed) % room / step * step, DL16);
    return o;
}

static isa_instruction *random_instruction(isa_program *p, uint64_t *seed)
{
    static const uint32_t counts[] = {64, 512, 1024, 2048};
    uint32_t count = counts[next_random(seed) % 4], bytes = count * 2;
    isa_operand lx = random_lx(seed, bytes), other = random_lx(seed, bytes);
    isa_operand memory = random_memory(seed, bytes);
    switch (next_random(seed) % 8) {
    case 0:
    case 1: return emit_flat(p, ISA_LOAD, count, 2, (isa_operand[]){lx, memory});
    case 2: {
        // Rows of LX from places apart in memory, or the other way round.
        isa_instruction *i = emit_flat(p, ISA_LOAD, count, 2, (isa_operand[]){lx, memory});
        i->dim_count = 2;
        i->extent[0] = 4;
        i->extent[1] = count / 4;
        bool swap = next_random(seed) % 2;
        i->operand[0].stride[0] = swap ? 2 : bytes / 4;
        i->operand[0].stride[1] = swap ? 8 : 2;
        i->operand[1].stride[0] = bytes / 4 + 128;
        i->operand[1].stride[1] = 2;
        return i;
    }
    case 3: return emit_flat(p, ISA_STORE, count, 2, (isa_operand[]){memory, lx});
    case 4: {
        isa_operand sum = random_lx(seed, bytes * 2);
        sum.format = SPYRE_FORMAT_IEEE_FP32;
        sum.offset = sum.offset / 4 * 4;
        isa_instruction *i = emit_flat(p, ISA_REDUCE, count, 2, (isa_operand[]){sum, lx});
        i->op = OPFUNC_MAX;
        return i;
    }
    case 5: return emit_flat(p, ISA_FILL, count, 1, &lx);
    default: {
        bool in_place = next_random(seed) % 3 == 0;
        isa_operand operands[3] = {lx, in_place ? lx : other, lx};
        isa_instruction *i = emit_flat(p, ISA_VECTOR, count, 2 + in_place, operands);
        i->op = in_place ? OPFUNC_ADD : next_random(seed) % 2 ? OPFUNC_NEG : OPFUNC_ABS;
        if (!in_place) return i;
        // One element of what is being overwritten, for all.
        i->operand[2].offset += 40;
        i->operand[2].stride[0] = 0;
        return i;
    }
    }
}

static void add_loop_strides(isa_instruction *i, uint64_t *seed)
{
    for (uint32_t o = 0; o < i->operand_count; o++)
        if (next_random(seed) % 2) i->operand[o].loop_stride[0] = 1024;
}

// Each instruction waits for the one before it, whatever their queues.
static void random_kernel(isa_program *p, uint64_t *seed)
{
    int64_t *parameters = begin_kernel(p, (1u << CORES) - 1, 2);
    for (uint32_t core = 0; core < CORES; core++) {
        parameters[core * 2] = core * 1024;
        parameters[core * 2 + 1] = next_random(seed) % 2 * core * 512;
    }
    bool loops = next_random(seed) % 2;
    if (loops) emit(p, ISA_LOOP)->count = 2;
    isa_queue first = ISA_QUEUE_SEQ, before = ISA_QUEUE_SEQ;
    uint16_t token = 0;
    for (uint32_t n = 4 + next_random(seed) % 8; n > 0; n--) {
        uint32_t at = p->code.count;
        isa_instruction *made = random_instruction(p, seed);
        if (loops) add_loop_strides(made, seed);
        isa_instruction i = isa_copy(made);
        p->code.count = at;
        if (before == ISA_QUEUE_SEQ) first = i.queue;
        if (before != ISA_QUEUE_SEQ && before != i.queue) {
            signal_to(p, before, token);
            wait_for(p, i.queue, token++);
        }
        assert_ok(isa_append(p, &i));
        before = i.queue;
    }
    if (loops && before != first) {
        signal_to(p, before, token);
        wait_for(p, first, token);
    }
    if (loops) emit(p, ISA_END_LOOP);
    end_kernel(p);
}

static isa_program *random_program(uint64_t *seed)
{
    isa_program *p = new_program(2);
    bool outer = next_random(seed) % 4 == 0;
    if (outer) emit(p, ISA_LOOP)->count = 2;
    for (uint32_t n = 1 + next_random(seed) % 3; n > 0; n--) random_kernel(p, seed);
    if (outer) emit(p, ISA_END_LOOP);
    emit(p, ISA_HALT);
    return p;
}

// Cores share memory without order between them, so they run one after another: one core a launch.
static void run(isa_program *p, uint32_t core, card_mode mode, bool forget, uint64_t second)
{
    for (uint32_t k = 0; k < p->kernels.count; k++) p->kernels.items[k].active_cores = 1u << core;
    card_program *loaded;
    assert_ok(card_load(the_card, p, &loaded));
    if (forget) card_program_forget_lx(loaded);
    card_argument arguments[2] = {{128, MEMORY / 2}, {second, MEMORY / 2}};
    card_set_mode(the_card, mode);
    assert_ok(card_launch(the_card, loaded, arguments, 2, NULL));
    card_unload(the_card, loaded);
}

static void reset(void)
{
    memcpy(card_memory(the_card, 128, MEMORY), initial, MEMORY);
    for (uint32_t core = 0; core < CORES; core++)
        memcpy(card_lx(the_card, core), initial + core * 1000, AREA);
}

static void check(isa_program *p, uint64_t seed, uint64_t second)
{
    for (uint32_t core = 0; core < CORES; core++) {
        reset();
        run(p, core, CARD_EXACT, false, second);
        memcpy(exact_memory, card_memory(the_card, 128, MEMORY), MEMORY);
        memcpy(exact_lx, card_lx(the_card, core), AREA);
        for (int forget = 0; forget < 2; forget++) {
            reset();
            run(p, core, CARD_FAST, forget, second);
            bool same = memcmp(exact_memory, card_memory(the_card, 128, MEMORY), MEMORY) == 0;
            if (!forget) same = same && memcmp(exact_lx, card_lx(the_card, core), AREA) == 0;
            if (same) continue;
            text out = {0};
            isa_print(p, &out);
            fail_msg("seed %llu core %u forget %d\n%s", (unsigned long long)seed, core, forget,
                     text_string(&out));
        }
    }
}

static void forward_copies__random_programs_keep_their_bytes(void **state)
{
    (void)state;
    uint64_t seed = 1000;
    for (uint32_t n = 0; n < MEMORY; n++) initial[n] = (uint8_t)next_random(&seed);
    for (uint32_t round = 0; round < test_rounds(1500); round++) {
        uint64_t start = seed;
        isa_program *p = random_program(&seed);
        // Arguments apart, the same, or overlapping.
        static const uint64_t seconds[] = {128 + MEMORY / 2, 128, 128 + 2048};
        check(p, start, seconds[round % 3]);
        free_program(p);
    }
}

// Instructions of an opcode in the fused steps of a kernel.
static uint32_t fused_count(const card_program *loaded, uint32_t kernel, isa_opcode opcode)
{
    const plan_kernel *k = loaded->phases.items[kernel].kernel;
    uint32_t count = 0;
    assert_non_null(k->steps[ISA_QUEUE_SEQ]);
    for (uint32_t s = 0; s < k->step_count[ISA_QUEUE_SEQ]; s++) {
        const plan_step *step = &k->steps[ISA_QUEUE_SEQ][s];
        if (step->tile && step->tile->instruction->opcode == opcode) count++;
    }
    return count;
}

// Two kernels that load and read the same range need no load, until a third kernel reads the range
// without writing it: what the second one left there.
static void forward_copies__loads_stay_when_a_kernel_reads_what_it_did_not_write(void **state)
{
    (void)state;
    for (uint32_t third = 0; third < 2; third++) {
        isa_program *p = new_program(1);
        isa_operand memory = in_memory(0, ISA_NO_SLOT, 0, DL16);
        for (uint32_t kernel = 0; kernel < 2 + third; kernel++) {
            begin_kernel(p, 1, 0);
            isa_operand lx = in_lx(0, DL16), out = in_lx(8192, DL16);
            if (kernel < 2) emit_flat(p, ISA_LOAD, 1024, 2, (isa_operand[]){lx, memory});
            emit_flat(p, ISA_VECTOR, 512, 2, (isa_operand[]){out, lx})->op = OPFUNC_ABS;
            end_kernel(p);
        }
        emit(p, ISA_HALT);
        card_program *loaded;
        assert_ok(card_load(the_card, p, &loaded));
        assert_int_equal(fused_count(loaded, 0, ISA_LOAD), 0);
        assert_int_equal(fused_count(loaded, 1, ISA_LOAD), third);
        card_unload(the_card, loaded);
        free_program(p);
    }
}

// In its second iteration the read has left what the same loop writes.
static void forward_copies__loads_stay_when_a_loop_reads_past_what_it_writes(void **state)
{
    (void)state;
    isa_program *p = new_program(1);
    isa_operand memory = in_memory(0, ISA_NO_SLOT, 0, DL16), out = in_lx(8192, DL16);
    begin_kernel(p, 1, 0);
    emit_flat(p, ISA_LOAD, 1024, 2, (isa_operand[]){in_lx(2048, DL16), memory});
    end_kernel(p);
    begin_kernel(p, 1, 0);
    emit(p, ISA_LOOP)->count = 2;
    emit_flat(p, ISA_LOAD, 1024, 2, (isa_operand[]){in_lx(0, DL16), memory});
    isa_operand moving = in_lx(0, DL16);
    moving.loop_stride[0] = 2048;
    emit_flat(p, ISA_VECTOR, 512, 2, (isa_operand[]){out, moving})->op = OPFUNC_ABS;
    emit(p, ISA_END_LOOP);
    end_kernel(p);
    emit(p, ISA_HALT);
    card_program *loaded;
    assert_ok(card_load(the_card, p, &loaded));
    assert_int_equal(fused_count(loaded, 0, ISA_LOAD), 1);
    card_unload(the_card, loaded);
    free_program(p);
}

// Tiles of 4 x 256 elements whose rows lie apart in memory become one VECTOR from memory to memory,
// although the instruction sees one run.
static void forward_copies__strided_copies_disappear(void **state)
{
    (void)state;
    isa_program *p = new_program(2);
    begin_kernel(p, 3, 1)[1] = 512;
    emit(p, ISA_LOOP)->count = 2;
    isa_operand lx = in_lx(0, DL16), out = in_lx(8192, DL16);
    for (int n = 0; n < 2; n++) {
        isa_operand memory = in_memory((uint16_t)n, 0, 0, DL16);
        isa_operand pair[2] = {n ? memory : lx, n ? out : memory};
        isa_instruction *copy = emit_flat(p, n ? ISA_STORE : ISA_LOAD, 256, 2, pair);
        copy->dim_count = 2;
        copy->extent[0] = 4;
        copy->extent[1] = 256;
        for (int o = 0; o < 2; o++) {
            copy->operand[o].stride[0] = o != n ? 4096 : 512;
            copy->operand[o].stride[1] = 2;
            copy->operand[o].loop_stride[0] = o != n ? 2048 : 0;
        }
        if (n) break;
        signal_to(p, ISA_QUEUE_LOAD, 0);
        wait_for(p, ISA_QUEUE_SFP, 0);
        emit_flat(p, ISA_VECTOR, 1024, 2, (isa_operand[]){out, lx})->op = OPFUNC_NEG;
        signal_to(p, ISA_QUEUE_SFP, 1);
        wait_for(p, ISA_QUEUE_STORE, 1);
    }
    signal_to(p, ISA_QUEUE_STORE, 2);
    wait_for(p, ISA_QUEUE_LOAD, 2);
    emit(p, ISA_END_LOOP);
    end_kernel(p);
    emit(p, ISA_HALT);
    uint64_t seed = 5;
    for (uint32_t n = 0; n < MEMORY; n++) initial[n] = (uint8_t)next_random(&seed);
    card_program *loaded;
    assert_ok(card_load(the_card, p, &loaded));
    assert_int_equal(fused_count(loaded, 0, ISA_LOAD), 0);
    assert_int_equal(fused_count(loaded, 0, ISA_STORE), 0);
    assert_int_equal(fused_count(loaded, 0, ISA_VECTOR), 1);
    card_unload(the_card, loaded);
    check(p, seed, 128 + MEMORY / 2);
    free_program(p);
}

// Rows go from memory to where they are stored, without LX.
static void forward_copies__gathered_rows_are_stored_at_once(void **state)
{
    (void)state;
    enum { ROWS = 8, TABLE = 4096 };
    isa_program *p = new_program(2);
    begin_kernel(p, 1, 0);
    isa_operand index = in_lx(0, SPYRE_FORMAT_SENUINT32), rows = in_lx(1024, DL16);
    isa_operand named = in_memory(0, ISA_NO_SLOT, 0, SPYRE_FORMAT_SENUINT32);
    emit_flat(p, ISA_LOAD, ROWS, 2, (isa_operand[]){index, named});
    signal_to(p, ISA_QUEUE_LOAD, 0);
    wait_for(p, ISA_QUEUE_LOAD, 0);
    isa_operand table = in_memory(0, ISA_NO_SLOT, TABLE, DL16);
    isa_operand out = in_memory(1, ISA_NO_SLOT, 0, DL16);
    isa_instruction *i = emit_flat(p, ISA_GATHER, 64, 3, (isa_operand[]){rows, table, index});
    i->row_stride = 128;
    i->row_count = 16;
    i->dim_count = 2;
    i->extent[0] = ROWS;
    i->extent[1] = 64;
    for (uint32_t o = 0; o < 3; o++) i->operand[o].stride[1] = o < 2 ? 2 : 0;
    i->operand[0].stride[0] = 128;
    i->operand[1].stride[0] = 0;
    i->operand[2].stride[0] = 4;
    signal_to(p, ISA_QUEUE_LOAD, 1);
    wait_for(p, ISA_QUEUE_STORE, 1);
    isa_instruction *store = emit_flat(p, ISA_STORE, 64, 2, (isa_operand[]){out, rows});
    store->dim_count = 2;
    store->extent[0] = ROWS;
    store->extent[1] = 64;
    for (uint32_t o = 0; o < 2; o++) {
        store->operand[o].stride[0] = o ? 128 : 256;
        store->operand[o].stride[1] = 2;
    }
    end_kernel(p);
    emit(p, ISA_HALT);
    uint64_t seed = 7;
    for (uint32_t n = 0; n < MEMORY; n++) initial[n] = (uint8_t)next_random(&seed);
    for (uint32_t n = 0; n < ROWS * 4; n++)
        initial[n] = n % 4 ? 0 : (uint8_t)(next_random(&seed) % 16);
    card_program *loaded;
    assert_ok(card_load(the_card, p, &loaded));
    assert_int_equal(fused_count(loaded, 0, ISA_GATHER), 1);
    assert_int_equal(fused_count(loaded, 0, ISA_STORE), 0);
    card_unload(the_card, loaded);
    reset();
    run(p, 0, CARD_EXACT, false, 128 + MEMORY / 2);
    memcpy(exact_memory, card_memory(the_card, 128, MEMORY), MEMORY);
    reset();
    run(p, 0, CARD_FAST, true, 128 + MEMORY / 2);
    assert_memory_equal(exact_memory, card_memory(the_card, 128, MEMORY), MEMORY);
    free_program(p);
}

static void forward_copies__not_beside_stores_to_the_same_memory(void **state)
{
    (void)state;
    isa_program *p = new_program(2);
    begin_kernel(p, 3, 1)[1] = 4096;
    isa_operand lx = in_lx(0, DL16);
    emit_flat(p, ISA_LOAD, 1024, 2, (isa_operand[]){lx, in_memory(0, 0, 0, DL16)});
    emit_flat(p, ISA_STORE, 1024, 2, (isa_operand[]){in_memory(1, ISA_NO_SLOT, 0, DL16), lx});
    end_kernel(p);
    emit(p, ISA_HALT);
    card_program *loaded;
    assert_ok(card_load(the_card, p, &loaded));
    const plan_kernel *kernel = loaded->phases.items[0].kernel;
    // Loads read bytes 0..2048 and 4096..6144 of argument 0, taken as one range.
    static const struct {
        uint64_t second, limit;
        bool allowed;
    } cases[] = {{65536, 8192, true},      {128, 8192, false},   {128 + 6143, 8192, false},
                 {128 + 6144, 8192, true}, {65536, 6143, false}, {65536, 6144, true}};
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        card_argument arguments[2] = {{128, cases[n].limit}, {cases[n].second, 8192}};
        assert_int_equal(tiles_allowed(kernel, arguments), cases[n].allowed);
    }
    card_unload(the_card, loaded);
    free_program(p);
}

// One of three stores lies upon what the kernel loads, whichever: no list of steps.
static void forward_copies__not_beside_any_store_upon_the_load(void **state)
{
    (void)state;
    for (uint32_t upon = 0; upon < 4; upon++) {
        isa_program *p = new_program(2);
        begin_kernel(p, 1, 0);
        isa_operand lx = in_lx(0, DL16);
        emit_flat(p, ISA_LOAD, 64, 2, (isa_operand[]){lx, in_memory(1, ISA_NO_SLOT, 0, DL16)});
        for (uint32_t n = 0; n < 3; n++) {
            int64_t offset = n == upon ? 64 : 4096 * (n + 1);
            isa_operand to = in_memory(1, ISA_NO_SLOT, offset, DL16);
            emit_flat(p, ISA_STORE, 64, 2, (isa_operand[]){to, in_lx(8192, DL16)});
        }
        end_kernel(p);
        emit(p, ISA_HALT);
        card_program *loaded;
        assert_ok(card_load(the_card, p, &loaded));
        bool listed = loaded->phases.items[0].kernel->steps[ISA_QUEUE_SEQ] != NULL;
        assert_int_equal(listed, upon == 3);
        card_unload(the_card, loaded);
        free_program(p);
    }
}

// In place: the load and the store name the same elements, so the result may go where they are.
static void forward_copies__in_place(void **state)
{
    (void)state;
    for (int64_t shift = 0; shift < 2048; shift += 1024) {
        isa_program *p = new_program(1);
        begin_kernel(p, 1, 0);
        isa_operand lx = in_lx(0, DL16), out = in_lx(8192, DL16);
        isa_operand from = in_memory(0, ISA_NO_SLOT, 0, DL16);
        isa_operand to = in_memory(0, ISA_NO_SLOT, shift, DL16);
        emit_flat(p, ISA_LOAD, 1024, 2, (isa_operand[]){lx, from});
        emit_flat(p, ISA_VECTOR, 1024, 2, (isa_operand[]){out, lx})->op = OPFUNC_NEG;
        emit_flat(p, ISA_STORE, 1024, 2, (isa_operand[]){to, out});
        end_kernel(p);
        emit(p, ISA_HALT);
        card_program *loaded;
        assert_ok(card_load(the_card, p, &loaded));
        card_argument argument = {128, 8192};
        assert_int_equal(tiles_allowed(loaded->phases.items[0].kernel, &argument), shift == 0);
        card_unload(the_card, loaded);
        free_program(p);
    }
}

// One element for all is read where it lies in memory, although the VECTOR writes what it reads
// through its other operand, in place and with holes.
static void forward_copies__a_constant_beside_a_result_in_place(void **state)
{
    (void)state;
    isa_program *p = new_program(1);
    isa_operand constant = in_lx(8192, DL16), values = in_lx(0, DL16);
    begin_kernel(p, 1, 0);
    emit_flat(p, ISA_LOAD, 1, 2, (isa_operand[]){constant, in_memory(0, ISA_NO_SLOT, 64, DL16)});
    isa_instruction *i =
        emit_flat(p, ISA_VECTOR, 16, 3, (isa_operand[]){values, values, constant});
    i->op = OPFUNC_MAXIMUM;
    for (uint32_t o = 0; o < 3; o++) i->operand[o].stride[0] = o < 2 ? 128 : 0;
    end_kernel(p);
    emit(p, ISA_HALT);
    card_program *loaded;
    assert_ok(card_load(the_card, p, &loaded));
    assert_int_equal(fused_count(loaded, 0, ISA_LOAD), 0);
    card_unload(the_card, loaded);
    free_program(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forward_copies__random_programs_keep_their_bytes),
        cmocka_unit_test(forward_copies__loads_stay_when_a_kernel_reads_what_it_did_not_write),
        cmocka_unit_test(forward_copies__loads_stay_when_a_loop_reads_past_what_it_writes),
        cmocka_unit_test(forward_copies__strided_copies_disappear),
        cmocka_unit_test(forward_copies__gathered_rows_are_stored_at_once),
        cmocka_unit_test(forward_copies__not_beside_stores_to_the_same_memory),
        cmocka_unit_test(forward_copies__not_beside_any_store_upon_the_load),
        cmocka_unit_test(forward_copies__in_place),
        cmocka_unit_test(forward_copies__a_constant_beside_a_result_in_place),
    };
    return cmocka_run_group_tests(tests, open_card, close_card);
}
