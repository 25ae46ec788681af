// SPDX-License-Identifier: Apache-2.0
//
// Footprints of random accesses, with dims, a loop, rows that an index names and parameters of
// cores, against the bytes that they touch one by one.
#include "program.h"

#include "card/footprint/footprint.h"
#include "support/rounds.h"

enum { CORES = 3, BYTES = 4096, DIMS = 2 };

typedef struct {
    isa_program *program;
    footprint found;
    bool touches[CORES][BYTES];
} access;

// -32 .. 32 elements, often one, often a power of two.
static int64_t random_stride(uint64_t *seed)
{
    uint32_t kind = next_random(seed) % 4;
    if (kind == 0) return 2;
    if (kind == 1) return 2 << next_random(seed) % 6;
    return 2 * ((int64_t)(next_random(seed) % 65) - 32);
}

static isa_operand random_operand(uint64_t *seed, uint32_t loops)
{
    isa_operand o = in_memory(0, 0, 1800 + 2 * (int64_t)(next_random(seed) % 100), DL16);
    for (uint32_t d = 0; d < DIMS; d++) o.stride[d] = random_stride(seed);
    if (loops) o.loop_stride[0] = random_stride(seed);
    return o;
}

static void touch_from(access *a, const isa_instruction *i, const isa_operand *o, uint32_t core,
                       int64_t base)
{
    for (uint32_t x = 0; x < i->extent[0]; x++) {
        for (uint32_t y = 0; y < i->extent[1]; y++) {
            int64_t at = base + o->stride[0] * x + o->stride[1] * y;
            assert_true(at >= 0 && at + 2 <= BYTES);
            a->touches[core][at] = a->touches[core][at + 1] = true;
        }
    }
}

static void touch(access *a, const isa_instruction *i, const isa_operand *o, uint32_t core,
                  int64_t base)
{
    const bool by_row = isa_row_operand(i->opcode) != ISA_NO_OPERAND;
    for (int64_t row = 0; row < (by_row ? i->row_count : 1); row++)
        touch_from(a, i, o, core, base + (by_row ? isa_row_offset(i, row) : 0));
}

// Rows of an index, in whole sticks where several share one.
static void choose_rows(isa_instruction *i, uint64_t *seed)
{
    i->row_lanes = next_random(seed) % 3;
    i->row_count = (1 + next_random(seed) % 3) * (i->row_lanes ? i->row_lanes : 1);
    const int64_t stride = random_stride(seed);
    i->row_stride = i->row_lanes ? 2 * i->row_lanes + (stride < 0 ? -stride : stride) : stride;
}

static void emit_access(isa_program *p, uint64_t *seed, isa_operand memory)
{
    const isa_operand lx = in_lx(8192, DL16), index = in_lx(16384, SPYRE_FORMAT_IEEE_INT32);
    const bool by_row = next_random(seed) % 3 == 0, stores = next_random(seed) % 2;
    const isa_opcode opcode = by_row ? (stores ? ISA_SCATTER : ISA_GATHER)
                                     : (stores ? ISA_STORE : ISA_LOAD);
    isa_operand operands[] = {lx, lx, index};
    operands[!stores] = memory;
    isa_instruction *i = emit_flat(p, opcode, 1, by_row ? 3 : 2, operands);
    i->dim_count = DIMS;
    for (uint32_t d = 0; d < DIMS; d++) i->extent[d] = 1 + next_random(seed) % 6;
    i->operand[!stores] = memory;
    if (by_row) choose_rows(i, seed);
}

static void make_access(access *a, uint64_t *seed)
{
    isa_program *p = a->program = new_program(1);
    uint32_t loops = next_random(seed) % 2, iterations = loops ? 1 + next_random(seed) % 4 : 1;
    int64_t *parameters = begin_kernel(p, next_random(seed) % 2 ? 7 : 5, 1);
    for (uint32_t core = 0; core < CORES; core++)
        parameters[core] = 2 * (int64_t)(core * (next_random(seed) % 64));
    if (loops) emit(p, ISA_LOOP)->count = iterations;
    const isa_operand memory = random_operand(seed, loops);
    uint32_t at = p->code.count;
    emit_access(p, seed, memory);
    if (loops) emit(p, ISA_END_LOOP);
    end_kernel(p);
    const isa_instruction *i = p->code.items[at];
    plan_tile *tiles[8] = {NULL};
    footprint_list list = {0};
    const plan_kernel kernel = {.source = &p->kernels.items[0], .begin = 1,
                                .end = p->code.count - 1};
    assert_ok(plan_make_tile(p->memory, i, &tiles[at]));
    assert_ok(footprint_collect(p->memory, p, tiles, &kernel, &list));
    assert_int_equal(list.count, 1);
    a->found = list.items[0];
    for (uint32_t core = 0; core < CORES; core++)
        for (uint32_t n = 0; n < iterations && kernel.source->active_cores >> core & 1u; n++)
            touch(a, i, &memory, core,
                  memory.offset + parameters[core] + memory.loop_stride[0] * n);
}

static bool conflict(const access *a, const access *b)
{
    if (!a->found.stores && !b->found.stores) return false;
    for (uint32_t x = 0; x < CORES; x++)
        for (uint32_t y = 0; y < CORES; y++)
            for (uint32_t at = 0; x != y && at < BYTES; at++)
                if (a->touches[x][at] && b->touches[y][at]) return true;
    return false;
}

static void footprint__conflicts_are_those_of_single_bytes(void **state)
{
    (void)state;
    static access a, b;
    uint64_t seed = 5;
    uint32_t conflicts = 0, apart = 0, rounds = test_rounds(3000);
    for (uint32_t n = 0; n < rounds; n++) {
        a = b = (access){0};
        make_access(&a, &seed);
        make_access(&b, &seed);
        bool expected = conflict(&a, &b);
        assert_int_equal(footprint_conflict(&a.found, &b.found), expected);
        assert_int_equal(footprint_conflict(&b.found, &a.found), expected);
        conflicts += expected;
        apart += !expected;
        free_program(a.program);
        free_program(b.program);
    }
    assert_true(conflicts > rounds / 10 && apart > rounds / 10);
}

static void footprint__the_range_is_the_least(void **state)
{
    (void)state;
    static access a;
    uint64_t seed = 11;
    for (uint32_t n = 0; n < test_rounds(500); n++) {
        byte_range expected = RANGE_NONE;
        a = (access){0};
        make_access(&a, &seed);
        for (uint32_t core = 0; core < CORES; core++)
            for (int64_t at = 0; at < BYTES; at++)
                if (a.touches[core][at]) range_add(&expected, (byte_range){at, at + 1});
        assert_int_equal(a.found.all.low, expected.low);
        assert_int_equal(a.found.all.high, expected.high);
        free_program(a.program);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(footprint__conflicts_are_those_of_single_bytes),
        cmocka_unit_test(footprint__the_range_is_the_least),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
