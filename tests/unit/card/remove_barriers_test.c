// SPDX-License-Identifier: Apache-2.0
//
// Kernels without meetings: random programs whose cores read and write, kernel after kernel, their
// own and each other's places, on any number of host threads; which kernels join; whose fault it
// is.
#include "fast_against_exact.h"

#include "card/machine.h"

#define INT32 SPYRE_FORMAT_IEEE_INT32
enum { CORES = 8, REGIONS = 4, BLOCK = 2048, REGION = CORES * BLOCK, MEMORY = REGIONS * REGION };

// How the cores share out a region: the block that core c takes.
typedef enum { OWN, NEXT, REVERSED, INTERLEAVED, WRITABLE, SAME = WRITABLE, PATTERNS } pattern;

// Element 0 of a core's part: four rows of 512 bytes, one behind the other or a block apart.
static int64_t start_of(pattern how, uint32_t core)
{
    switch (how) {
    case OWN: return core * BLOCK;
    case NEXT: return (core + 1) % CORES * BLOCK;
    case REVERSED: return (CORES - 1 - core) * BLOCK;
    case INTERLEAVED: return core * 512;
    case SAME:
    case PATTERNS: break;
    }
    return 3 * BLOCK;
}

static isa_operand place_of(pattern how, uint32_t region, uint16_t slot)
{
    isa_operand o = in_memory(0, slot, (int64_t)region * REGION, DL16);
    o.stride[0] = how == INTERLEAVED ? 512 * CORES : 512;
    o.stride[1] = 2;
    return o;
}

static isa_operand tile_at(int64_t offset)
{
    isa_operand o = in_lx(offset, DL16);
    o.stride[0] = 512;
    o.stride[1] = 2;
    return o;
}

static void emit_tile(isa_program *p, isa_opcode opcode, isa_operand to, isa_operand from)
{
    isa_instruction *i = emit(p, opcode);
    i->op = opcode == ISA_VECTOR ? OPFUNC_NEG : OPFUNC_ADD;
    i->dim_count = 2;
    i->extent[0] = 4;
    i->extent[1] = 256;
    i->operand_count = 2;
    i->operand[0] = to;
    i->operand[1] = from;
}

// to = -from, of another region.
static void negate(isa_program *p, pattern read, uint32_t from, pattern write, uint32_t to)
{
    int64_t *parameters = begin_kernel(p, (1u << CORES) - 1, 2);
    for (uint32_t core = 0; core < CORES; core++) {
        parameters[core * 2] = start_of(read, core);
        parameters[core * 2 + 1] = start_of(write, core);
    }
    emit_tile(p, ISA_LOAD, tile_at(0), place_of(read, from, 0));
    signal_to(p, ISA_QUEUE_LOAD, 0);
    wait_for(p, ISA_QUEUE_SFP, 0);
    emit_tile(p, ISA_VECTOR, tile_at(4096), tile_at(0));
    signal_to(p, ISA_QUEUE_SFP, 1);
    wait_for(p, ISA_QUEUE_STORE, 1);
    emit_tile(p, ISA_STORE, place_of(write, to, 1), tile_at(4096));
    end_kernel(p);
}

static void add_kernels(isa_program *p, uint64_t *seed)
{
    for (uint32_t kernels = 2 + next_random(seed) % 6; kernels > 0; kernels--) {
        bool tame = next_random(seed) % 2;
        pattern read = tame ? OWN : (pattern)(next_random(seed) % PATTERNS);
        pattern write = tame ? OWN : (pattern)(next_random(seed) % WRITABLE);
        uint32_t from = next_random(seed) % REGIONS;
        uint32_t to = (from + 1 + next_random(seed) % (REGIONS - 1)) % REGIONS;
        negate(p, read, from, write, to);
    }
}

static void remove_barriers__random_programs_keep_their_bytes(void **state)
{
    (void)state;
    check_random_programs(&(random_programs){.add_kernels = add_kernels, .seed = 99,
                                             .memory_bytes = MEMORY, .most_threads = 8,
                                             .programs = 40});
}

// The second of two kernels, where the first is to = -from with OWN places on both sides.
static bool second_joins(pattern read, uint32_t from, pattern write, uint32_t to)
{
    card *c;
    assert_ok(card_create(&c));
    isa_program *p = new_program(1);
    negate(p, OWN, 0, OWN, 1);
    negate(p, read, from, write, to);
    emit(p, ISA_HALT);
    card_program *loaded;
    assert_ok(card_load(c, p, &loaded));
    bool no_barrier = loaded->phases.items[1].kernel->no_barrier;
    assert_false(loaded->phases.items[0].kernel->no_barrier);
    card_unload(c, loaded);
    free_program(p);
    card_destroy(c);
    return no_barrier;
}

static void remove_barriers__joins_where_cores_keep_to_themselves(void **state)
{
    (void)state;
    assert_true(second_joins(OWN, 1, OWN, 2));
    assert_true(second_joins(OWN, 1, OWN, 0));              // writes what only it has read
    assert_true(second_joins(SAME, 0, INTERLEAVED, 2));     // all may read one place
    assert_false(second_joins(NEXT, 1, OWN, 2));            // read after write
    assert_false(second_joins(INTERLEAVED, 1, OWN, 2));
    assert_false(second_joins(SAME, 1, OWN, 2));
    assert_false(second_joins(OWN, 2, REVERSED, 0));        // write after read
    assert_false(second_joins(OWN, 2, NEXT, 1));            // write after write
}

// Arguments that lie on each other: what the program's offsets say about overlap is void.
static void remove_barriers__arguments_that_overlap_make_cores_meet(void **state)
{
    (void)state;
    card *c = card_with_threads(4);
    isa_program *p = new_program(3);
    negate(p, OWN, 0, OWN, 0);
    negate(p, OWN, 0, OWN, 0);
    uint16_t args[4] = {0, 1, 2, 0};        // 1 = -0; 0 = -2, where 2 is 1 moved by a block
    for (uint32_t at = 0, n = 0; at < p->code.count; at++) {
        isa_instruction *i = p->code.items[at];
        if (i->opcode == ISA_LOAD) i->operand[1].arg = args[n++];
        if (i->opcode == ISA_STORE) i->operand[0].arg = args[n++];
    }
    emit(p, ISA_HALT);
    card_program *loaded;
    assert_ok(card_load(c, p, &loaded));
    assert_true(loaded->phases.items[1].kernel->no_barrier);
    card_program_forget_lx(loaded);
    static uint8_t initial[MEMORY], exact[MEMORY];
    uint64_t seed = 4;
    for (uint32_t n = 0; n < MEMORY; n++) initial[n] = (uint8_t)next_random(&seed);
    const card_argument arguments[3] = {
        {0, REGION}, {REGION, REGION}, {REGION + BLOCK, REGION}};
    for (int mode = 0; mode < 2; mode++) {
        memcpy(card_memory(c, 0, MEMORY), initial, MEMORY);
        card_set_mode(c, mode ? CARD_FAST : CARD_EXACT);
        assert_ok(card_launch(c, loaded, arguments, 3, NULL));
        if (mode == 0) memcpy(exact, card_memory(c, 0, MEMORY), MEMORY);
    }
    assert_memory_equal(exact, card_memory(c, 0, MEMORY), MEMORY);
    card_unload(c, loaded);
    free_program(p);
    card_destroy(c);
}

// Core 3 reads a row that does not exist in the first kernel, core 0 in the second one.
static void remove_barriers__the_earliest_kernel_reports_its_fault(void **state)
{
    (void)state;
    card *c;
    assert_ok(card_create(&c));
    isa_program *p = new_program(1);
    for (uint32_t kernel = 0; kernel < 2; kernel++) {
        int64_t *parameters = begin_kernel(p, (1u << CORES) - 1, 1);
        for (uint32_t core = 0; core < CORES; core++) parameters[core] = core * 8 + kernel * 4;
        emit_flat(p, ISA_LOAD, 1, 2,
                  (isa_operand[]){in_lx(0, INT32), in_memory(0, 0, 0, INT32)});
        isa_instruction *i = emit_flat(
            p, ISA_GATHER, 64, 3,
            (isa_operand[]){in_lx(128, DL16), in_memory(0, ISA_NO_SLOT, 4096, DL16),
                            in_lx(0, INT32)});
        i->operand[2].stride[0] = 0;
        i->row_count = 4;
        i->row_stride = 128;
        end_kernel(p);
    }
    emit(p, ISA_HALT);
    card_program *loaded;
    assert_ok(card_load(c, p, &loaded));
    assert_true(loaded->phases.items[1].kernel->no_barrier);
    card_program_forget_lx(loaded);
    for (int mode = 0; mode < 2; mode++) {
        int32_t *rows = card_memory(c, 0, CORES * 8);
        memset(rows, 0, CORES * 8);
        rows[3 * 2] = 9;
        rows[0 * 2 + 1] = 7;
        card_argument argument = {0, 8192};
        card_fault fault;
        card_set_mode(c, mode ? CARD_FAST : CARD_EXACT);
        spyre_status status = card_launch(c, loaded, &argument, 1, &fault);
        assert_int_equal(spyre_status_code(status), SPYRE_INDEX_FAULT);
        spyre_status_free(status);
        assert_int_equal(fault.core, 3);
        assert_int_equal(fault.instruction, 2);
    }
    card_unload(c, loaded);
    free_program(p);
    card_destroy(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(remove_barriers__random_programs_keep_their_bytes),
        cmocka_unit_test(remove_barriers__joins_where_cores_keep_to_themselves),
        cmocka_unit_test(remove_barriers__arguments_that_overlap_make_cores_meet),
        cmocka_unit_test(remove_barriers__the_earliest_kernel_reports_its_fault),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
