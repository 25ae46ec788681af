// SPDX-License-Identifier: Apache-2.0
//
// Copies of copies within LX: random chains of them, transposed, shifted, in loops and through a
// temporary argument, with what is computed in between, keep the bytes of exact mode on any number
// of host threads. A shift that goes across sticks and back is one read; where arguments overlap,
// it is what it was.
#include "program.h"

#include <string.h>

#include "card/plan.h"

enum {
    INPUT, OUTPUT, POOL, ARGUMENTS,
    LINES = 64, STICK = 128, SLACK = 8,     // of a buffer: sticks, and as many more behind them
    BUFFER = (LINES + SLACK) * STICK, BUFFERS = 5, CORES = 4,
    BYTES = CORES * BUFFERS * BUFFER,       // of an argument
};

// Where a tile begins, and how its two dims move.
typedef struct {
    isa_operand first;
    int64_t stride[2];
} side;

// What a core of the kernel has of an argument; slots 0 and 1, the latter of its neighbour.
static void begin(isa_program *p, uint32_t cores)
{
    int64_t *parameters = begin_kernel(p, (1u << cores) - 1, 2);
    for (uint32_t core = 0; core < cores; core++) {
        parameters[core * 2] = core * (int64_t)BUFFERS * BUFFER;
        parameters[core * 2 + 1] = (core + 1) % CORES * (int64_t)BUFFERS * BUFFER;
    }
}

static isa_operand buffer_of(isa_space space, uint16_t arg, uint16_t slot, uint32_t number)
{
    const int64_t offset = (int64_t)number * BUFFER;
    return space == ISA_SPACE_LX ? in_lx(offset, DL16) : in_memory(arg, slot, offset, DL16);
}

// Lines along sticks, across them, or in reverse, from some lane or stick on.
static side random_side(uint64_t *seed, isa_operand buffer, bool shifts)
{
    const uint32_t way = next_random(seed) % 8;
    side s = {buffer, {STICK, 2}};
    if (way < 3) s = (side){buffer, {2, STICK}};
    if (shifts && way % 2) s.first.offset += next_random(seed) % SLACK * STICK;
    if (shifts && way > 4) s.first.offset += next_random(seed) % SLACK * 2;
    return s;
}

static isa_instruction *emit_copy(isa_program *p, isa_opcode opcode, const side *to,
                                  const side *from, uint32_t lines, uint32_t lanes)
{
    isa_instruction *i = emit(p, opcode);
    i->op = opcode == ISA_VECTOR ? OPFUNC_IDENTITY : (opfunc)0;
    i->dim_count = 2;
    i->extent[0] = lines;
    i->extent[1] = lanes;
    i->operand_count = 2;
    i->operand[0] = to->first;
    i->operand[1] = from->first;
    for (uint32_t d = 0; d < 2; d++) {
        i->operand[0].stride[d] = to->stride[d];
        i->operand[1].stride[d] = from->stride[d];
    }
    return i;
}

static void random_kernel(isa_program *p, uint64_t *seed, uint32_t cores, isa_opcode opcode,
                          isa_operand to, isa_operand from)
{
    const bool part = next_random(seed) % 8 == 0;
    const uint32_t lanes = part ? 1 + next_random(seed) % 64 : 64;
    const side a = random_side(seed, to, part), b = random_side(seed, from, true);
    begin(p, cores);
    if (next_random(seed) % 3) {
        emit_copy(p, opcode, &a, &b, LINES, lanes);
    } else {
        emit(p, ISA_LOOP)->count = 8;
        isa_instruction *i = emit_copy(p, opcode, &a, &b, LINES / 8, lanes);
        i->operand[0].loop_stride[0] = a.stride[0] * LINES / 8;
        i->operand[1].loop_stride[0] = b.stride[0] * LINES / 8;
        emit(p, ISA_END_LOOP);
    }
    end_kernel(p);
}

static void random_compute(isa_program *p, uint64_t *seed, uint32_t cores, isa_operand to,
                           isa_operand from)
{
    begin(p, cores);
    from.offset += next_random(seed) % SLACK * 2;
    emit_flat(p, ISA_VECTOR, LINES * 64, 2, (isa_operand[]){to, from})->op = OPFUNC_NEG;
    end_kernel(p);
}

static void add_kernels(isa_program *p, uint64_t *seed)
{
    for (uint32_t kernels = 8 + next_random(seed) % 14; kernels > 0; kernels--) {
        const uint32_t a = next_random(seed) % BUFFERS, b = next_random(seed) % BUFFERS;
        const uint32_t cores = next_random(seed) % 3 ? 1 : CORES;
        const uint16_t slot = next_random(seed) % 4 == 0;
        const isa_operand lx = buffer_of(ISA_SPACE_LX, 0, 0, a);
        const isa_operand other = buffer_of(ISA_SPACE_LX, 0, 0, b);
        switch (next_random(seed) % 12) {
        case 0:
        case 1:
            random_kernel(p, seed, cores, ISA_LOAD, lx,
                          buffer_of(ISA_SPACE_MEMORY, INPUT, slot, b));
            break;
        case 2:
            random_kernel(p, seed, cores, ISA_STORE, buffer_of(ISA_SPACE_MEMORY, OUTPUT, 0, b), lx);
            break;
        case 3:
            random_kernel(p, seed, cores, ISA_STORE,
                          buffer_of(ISA_SPACE_MEMORY, POOL, next_random(seed) % 4 == 0, b), lx);
            if (next_random(seed) % 3 == 0)
                random_kernel(p, seed, CORES, ISA_STORE, buffer_of(ISA_SPACE_MEMORY, POOL, 0, b),
                              other);
            random_kernel(p, seed, cores, ISA_LOAD, other,
                          buffer_of(ISA_SPACE_MEMORY, POOL, slot, b));
            break;
        case 4:
            if (a != b) random_compute(p, seed, cores, lx, other);
            break;
        default:
            random_kernel(p, seed, cores, ISA_VECTOR, lx, other);
            break;
        }
    }
    for (uint32_t n = 0; n < BUFFERS; n++)
        random_kernel(p, seed, CORES, ISA_STORE, buffer_of(ISA_SPACE_MEMORY, OUTPUT, 0, n),
                      buffer_of(ISA_SPACE_LX, 0, 0, n));
}

// --- Running

// Begins with numbers of its own in all arguments and LX of zeros.
static void run(card *c, card_program *loaded, card_mode mode, const card_argument *arguments)
{
    uint64_t seed = 77;
    uint8_t *bytes = card_memory(c, 0, ARGUMENTS * BYTES);
    for (uint32_t n = 0; n < ARGUMENTS * BYTES; n++) bytes[n] = (uint8_t)next_random(&seed);
    card_program_forget_lx(loaded);
    card_wipe_lx(c);
    card_set_mode(c, mode);
    assert_ok(card_launch(c, loaded, arguments, ARGUMENTS, NULL));
}

static const card_argument apart[] = {{0, BYTES}, {BYTES, BYTES}, {2 * BYTES, BYTES}};

// Both modes leave the same output. The program is halted and freed.
static void check(card *c, isa_program *p, const card_argument *arguments, bool *out_composed)
{
    static uint8_t exact[BYTES];
    card_program *loaded;
    emit(p, ISA_HALT);
    assert_ok(card_load_with(c, p, 1u << POOL, &loaded));
    run(c, loaded, CARD_EXACT, arguments);
    memcpy(exact, card_memory(c, arguments[OUTPUT].base, BYTES), BYTES);
    run(c, loaded, CARD_FAST, arguments);
    assert_memory_equal(exact, card_memory(c, arguments[OUTPUT].base, BYTES), BYTES);
    *out_composed = loaded->uncomposed.count > 0;
    card_unload(c, loaded);
    free_program(p);
}

static void compose_copies__random_programs_keep_their_bytes(void **state)
{
    (void)state;
    uint64_t seed = 3;
    uint32_t composed = 0;
    for (uint32_t threads = 1; threads <= 4; threads++) {
        card *c = card_with_threads(threads);
        for (uint32_t n = 0; n < 100; n++) {
            bool one;
            isa_program *p = new_program(ARGUMENTS);
            add_kernels(p, &seed);
            check(c, p, apart, &one);
            composed += one;
        }
        card_destroy(c);
    }
    assert_in_range(composed, 25, 400);
}

// --- A shift

// -x[1:] of a line: across sticks, from the second row on, and back; of each stick but its last
// element, which lies in the next one.
static isa_program *shift(void)
{
    const isa_operand input = buffer_of(ISA_SPACE_MEMORY, INPUT, 0, 0);
    const isa_operand across = buffer_of(ISA_SPACE_LX, 0, 0, 0);
    const isa_operand moved = buffer_of(ISA_SPACE_LX, 0, 0, 1);
    const isa_operand back = buffer_of(ISA_SPACE_LX, 0, 0, 2);
    isa_operand second = across, next = input;
    second.offset += STICK;
    next.offset += STICK;
    isa_program *p = new_program(ARGUMENTS);
    begin(p, 1);
    emit_copy(p, ISA_LOAD, &(side){across, {2, STICK}}, &(side){input, {STICK, 2}}, LINES, 64);
    end_kernel(p);
    isa_operand last = across;
    last.offset += LINES * STICK;
    begin(p, 1);
    emit_copy(p, ISA_LOAD, &(side){last, {2, STICK}}, &(side){next, {STICK, 2}}, LINES, 1);
    end_kernel(p);
    begin(p, 1);
    emit_copy(p, ISA_VECTOR, &(side){moved, {STICK, 2}}, &(side){second, {STICK, 2}}, LINES, 64);
    end_kernel(p);
    begin(p, 1);
    emit_copy(p, ISA_VECTOR, &(side){back, {2, STICK}}, &(side){moved, {STICK, 2}}, LINES, 64);
    end_kernel(p);
    begin(p, 1);
    emit_flat(p, ISA_VECTOR, LINES * 64, 2, (isa_operand[]){across, back})->op = OPFUNC_NEG;
    end_kernel(p);
    begin(p, 1);
    emit_flat(p, ISA_STORE, LINES * 64, 2,
              (isa_operand[]){buffer_of(ISA_SPACE_MEMORY, OUTPUT, 0, 0), across});
    end_kernel(p);
    return p;
}

static void compose_copies__a_shift_is_one_read(void **state)
{
    (void)state;
    card *c = card_with_threads(2);
    isa_program *p = shift();
    card_program *loaded;
    bool composed;
    emit(p, ISA_HALT);
    assert_ok(card_load(c, p, &loaded));
    // The kernel that negates, and the store.
    assert_int_equal(loaded->phases.count, 2);
    const isa_operand *read =
        &loaded->phases.items[0].kernel->steps[ISA_QUEUE_SEQ]->tile->instruction->operand[1];
    assert_int_equal(read->space, ISA_SPACE_MEMORY);
    assert_int_equal(read->offset, 2);
    card_unload(c, loaded);
    free_program(p);
    check(c, shift(), apart, &composed);
    assert_true(composed);
    card_destroy(c);
}

static void compose_copies__arguments_may_overlap(void **state)
{
    (void)state;
    const card_argument overlapping[] = {{0, BYTES}, {STICK, BYTES}, {2 * BYTES, BYTES}};
    card *c = card_with_threads(2);
    bool composed;
    check(c, shift(), overlapping, &composed);
    assert_true(composed);
    card_destroy(c);
}

static void add_copy(isa_program *p, uint32_t cores, isa_opcode opcode, isa_operand to,
                     isa_operand from)
{
    begin(p, cores);
    isa_instruction *i = emit_flat(p, opcode, LINES * 64, 2, (isa_operand[]){to, from});
    if (opcode == ISA_VECTOR) i->op = OPFUNC_IDENTITY;
    end_kernel(p);
}

// What core 0 has stored is overwritten by core 1, in a kernel of all cores.
static void compose_copies__another_core_overwrites_what_one_has_stored(void **state)
{
    (void)state;
    isa_operand lx[5];
    for (uint32_t n = 0; n < 5; n++) lx[n] = buffer_of(ISA_SPACE_LX, 0, 0, n);
    const isa_operand of_core_1 = buffer_of(ISA_SPACE_MEMORY, POOL, 1, 0);
    isa_program *p = new_program(ARGUMENTS);
    bool composed;
    add_copy(p, 1, ISA_LOAD, lx[0], buffer_of(ISA_SPACE_MEMORY, INPUT, 0, 0));
    add_copy(p, 1, ISA_STORE, of_core_1, lx[0]);
    add_copy(p, CORES, ISA_LOAD, lx[1], buffer_of(ISA_SPACE_MEMORY, INPUT, 0, 1));
    add_copy(p, CORES, ISA_STORE, buffer_of(ISA_SPACE_MEMORY, POOL, 0, 0), lx[1]);
    add_copy(p, 1, ISA_LOAD, lx[2], of_core_1);
    add_copy(p, 1, ISA_VECTOR, lx[3], lx[2]);
    add_copy(p, 1, ISA_VECTOR, lx[4], lx[3]);
    add_copy(p, 1, ISA_STORE, buffer_of(ISA_SPACE_MEMORY, OUTPUT, 0, 0), lx[4]);
    card *c = card_with_threads(2);
    check(c, p, apart, &composed);
    assert_true(composed);
    card_destroy(c);
}

// A sum in LX, copied twice and read where it was computed, behind a kernel whose LOAD to the same
// bytes is left out: the sum is kept.
static void compose_copies__what_is_read_where_it_was_computed_is_kept(void **state)
{
    (void)state;
    enum { ELEMENTS = LINES * 64 };
    const isa_operand sum = in_lx(0, FP32), copy = in_lx(2 * BUFFER, FP32);
    const isa_operand again = in_lx(6 * BUFFER, FP32);
    const isa_operand input = in_memory(INPUT, 0, 0, FP32), loaded = in_lx(0, FP32);
    isa_program *p = new_program(ARGUMENTS);
    bool composed;
    begin(p, 1);
    emit_flat(p, ISA_FILL, ELEMENTS, 1, &sum);
    isa_instruction *i = emit(p, ISA_REDUCE);
    i->op = OPFUNC_SUM;
    i->dim_count = 3;
    i->operand_count = 2;
    i->operand[0] = sum;
    i->operand[1] = input;
    const uint32_t extent[] = {2, LINES, 64};
    const int64_t stride[][3] = {{0, 256, 4}, {256 * LINES, 256, 4}};
    memcpy(i->extent, extent, sizeof extent);
    for (uint32_t o = 0; o < 2; o++)
        memcpy(i->operand[o].stride, stride[o], sizeof stride[o]);
    emit_flat(p, ISA_VECTOR, ELEMENTS, 2, (isa_operand[]){copy, sum})->op = OPFUNC_IDENTITY;
    end_kernel(p);
    begin(p, 1);
    emit_flat(p, ISA_LOAD, ELEMENTS, 2, (isa_operand[]){loaded, input});
    signal_to(p, ISA_QUEUE_LOAD, 0);
    wait_for(p, ISA_QUEUE_SFP, 0);
    emit_flat(p, ISA_VECTOR, ELEMENTS, 2, (isa_operand[]){in_lx(4 * BUFFER, FP32), loaded})->op =
        OPFUNC_NEG;
    end_kernel(p);
    begin(p, 1);
    emit_flat(p, ISA_STORE, ELEMENTS, 2,
              (isa_operand[]){in_memory(OUTPUT, 0, 0, FP32), in_lx(4 * BUFFER, FP32)});
    end_kernel(p);
    begin(p, 1);
    emit_flat(p, ISA_VECTOR, ELEMENTS, 2, (isa_operand[]){again, copy})->op = OPFUNC_IDENTITY;
    end_kernel(p);
    begin(p, 1);
    emit_flat(p, ISA_STORE, ELEMENTS, 2,
              (isa_operand[]){in_memory(OUTPUT, 0, 4 * BUFFER, FP32), again});
    end_kernel(p);
    card *c = card_with_threads(2);
    check(c, p, apart, &composed);
    assert_true(composed);
    card_destroy(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(compose_copies__random_programs_keep_their_bytes),
        cmocka_unit_test(compose_copies__a_shift_is_one_read),
        cmocka_unit_test(compose_copies__arguments_may_overlap),
        cmocka_unit_test(compose_copies__another_core_overwrites_what_one_has_stored),
        cmocka_unit_test(compose_copies__what_is_read_where_it_was_computed_is_kept)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
