// SPDX-License-Identifier: Apache-2.0
//
// LX of host threads: which stages take it; random programs whose kernels hand LX on to the next
// one, or to one behind a barrier, keep their bytes.
#include "fast_against_exact.h"

#include "card/machine.h"

enum { CORES = 8, TILE = 256, BLOCK = TILE * 2, REGION = CORES * BLOCK, REGIONS = 3,
       MEMORY = REGIONS * REGION, SLOTS = 3 };

// Slot 0: the core's own block; slot 1: that of the next core.
static void begin(isa_program *p)
{
    int64_t *parameters = begin_kernel(p, (1u << CORES) - 1, 2);
    for (uint32_t core = 0; core < CORES; core++) {
        parameters[core * 2] = core * BLOCK;
        parameters[core * 2 + 1] = (core + 1) % CORES * BLOCK;
    }
}

static isa_operand tile_at(uint32_t slot)
{
    return in_lx(slot * BLOCK, DL16);
}

static isa_operand region_at(uint32_t region, uint16_t slot)
{
    return in_memory(0, slot, region * REGION, DL16);
}

// A kernel that leaves -x of its LX tile `from` in `to`; both may be the same.
static void negate_lx(isa_program *p, uint32_t to, uint32_t from)
{
    begin(p);
    emit_flat(p, ISA_VECTOR, TILE, 2, (isa_operand[]){tile_at(to), tile_at(from)})->op = OPFUNC_NEG;
    end_kernel(p);
}

static void load_lx(isa_program *p, uint32_t to, uint32_t region, uint16_t slot)
{
    begin(p);
    emit_flat(p, ISA_LOAD, TILE, 2, (isa_operand[]){tile_at(to), region_at(region, slot)});
    end_kernel(p);
}

static void store_lx(isa_program *p, uint32_t region, uint32_t from)
{
    begin(p);
    emit_flat(p, ISA_STORE, TILE, 2, (isa_operand[]){region_at(region, 0), tile_at(from)});
    end_kernel(p);
}

static void add_kernels(isa_program *p, uint64_t *seed)
{
    for (uint32_t slot = 0; slot < SLOTS; slot++) load_lx(p, slot, 0, 0);
    for (uint32_t kernels = 4 + next_random(seed) % 8; kernels > 0; kernels--) {
        uint32_t a = next_random(seed) % SLOTS, b = next_random(seed) % SLOTS;
        uint32_t region = next_random(seed) % REGIONS;
        switch (next_random(seed) % 4) {
        case 0: load_lx(p, a, region, next_random(seed) % 3 == 0); break;   // often a barrier
        case 1: store_lx(p, region, a); break;
        default: negate_lx(p, a, b); break;
        }
    }
    for (uint32_t slot = 0; slot < SLOTS; slot++) store_lx(p, slot, slot);
}

static void private_lx__random_programs_keep_their_bytes(void **state)
{
    (void)state;
    check_random_programs(&(random_programs){.add_kernels = add_kernels, .seed = 5,
                                             .memory_bytes = MEMORY, .most_threads = 8,
                                             .programs = 40});
}

// Bit n: stage n of the program takes the LX of host threads.
static uint32_t private_stages(isa_program *p)
{
    card *c = card_with_threads(2);
    card_program *loaded;
    emit(p, ISA_HALT);
    assert_ok(card_load(c, p, &loaded));
    uint32_t found = 0, stages = 0;
    for (uint32_t n = 0; n < loaded->phases.count; n++) {
        const plan_stage *stage = loaded->phases.items[n].stage;
        if (stage) found |= (uint32_t)stage->private_lx << stages++;
    }
    card_unload(c, loaded);
    free_program(p);
    card_destroy(c);
    return found;
}

static void private_lx__needs_all_readers_in_the_stage(void **state)
{
    (void)state;
    isa_program *p = new_program(1);
    load_lx(p, 0, 0, 0);
    negate_lx(p, 1, 0);
    store_lx(p, 1, 1);
    assert_int_equal(private_stages(p), 1);
    // Behind a barrier a second stage that has LX of its own,
    p = new_program(1);
    load_lx(p, 0, 0, 0);
    store_lx(p, 1, 0);
    load_lx(p, 0, 1, 1);
    negate_lx(p, 1, 0);
    store_lx(p, 2, 1);
    assert_int_equal(private_stages(p), 3);
    // one that reads what the first one left, by which neither has,
    p = new_program(1);
    load_lx(p, 0, 0, 0);
    store_lx(p, 1, 0);
    load_lx(p, 1, 1, 1);
    negate_lx(p, 1, 0);
    store_lx(p, 2, 1);
    assert_int_equal(private_stages(p), 0);
    // and one that reads what nothing has written.
    p = new_program(1);
    negate_lx(p, 1, 0);
    store_lx(p, 1, 1);
    assert_int_equal(private_stages(p), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(private_lx__random_programs_keep_their_bytes),
        cmocka_unit_test(private_lx__needs_all_readers_in_the_stage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
