// SPDX-License-Identifier: Apache-2.0
//
// Row fusions that keep what stands still while loops go on: random kernels in loops, of operands
// that stand in some loops and move in others, must leave the bytes that element-by-element
// execution leaves, whatever their values.
#include "row_fusion_programs.h"
#include "support/rounds.h"

enum {
    INPUTS = 4,                             // the first buffers of LX hold elements, the last
    RESULTS = 2,                            // take results
    CELLS = 6 * BUFFER_BYTES,               // behind them all: values that pass from op to op
    MOST_LOOPS = 3,
};

typedef struct {
    shape of;
    uint32_t loops, counts[MOST_LOOPS];
    int64_t steps[MOST_LOOPS];              // of what moves in every loop
} nest;

// Codes of all sizes, one of so many of any kind.
static void fill(uint32_t rare, uint64_t *seed)
{
    for (uint32_t n = 0; n < MEMORY; n += 2) {
        uint32_t bits = next_random(seed);
        uint16_t code = (uint16_t)(0x2200 + (bits >> 8) % 0x3C00);
        if (bits % rare == 0) code = (uint16_t)(bits >> 12);
        if (bits % (4 * rare) == 1) code = (uint16_t)(bits >> 20 & 1 ? 0x7FFF : 0);
        code |= (uint16_t)(bits >> 31 << 15);
        memcpy(initial + n, &code, sizeof code);
    }
}

static nest random_nest(uint64_t *seed)
{
    static const uint32_t sticks[] = {1, 1, 2, 3};
    nest n = {.of = {1 + next_random(seed) % 40, sticks[next_random(seed) % 4],
                     next_random(seed) % 2, 1, false, false, 0, 0}};
    n.loops = 1 + next_random(seed) % MOST_LOOPS;
    int64_t step = 128 * (int64_t)(n.of.rows * n.of.sticks);
    for (uint32_t l = n.loops; l-- > 0;) {
        n.counts[l] = step > BUFFER_BYTES / 3 ? 1 : 1 + next_random(seed) % 3;
        n.steps[l] = step;
        step *= n.counts[l];
    }
    return n;
}

// Stands in loops that `standing` has a bit for.
static isa_operand moving(const nest *n, int64_t at, uint32_t standing)
{
    isa_operand o = in_lx(at, DL16);
    for (uint32_t l = 0; l < n->loops; l++)
        if (!(standing >> l & 1u)) o.loop_stride[l] = n->steps[l];
    return o;
}

static isa_operand any_cell(uint64_t *seed)
{
    return in_lx(CELLS + next_random(seed) % 2 * BUFFER_BYTES, DL16);
}

static isa_operand any_input(const nest *n, uint64_t *seed)
{
    const uint32_t buffer = next_random(seed) % INPUTS, all = (1u << n->loops) - 1;
    const uint32_t inner = all & ~(all >> next_random(seed) % (n->loops + 1));
    // Now and then what an earlier op left, in this iteration or in another one.
    if (next_random(seed) % 4 == 0) return any_cell(seed);
    if (next_random(seed) % 16 == 0)
        return moving(n, (int64_t)(INPUTS + next_random(seed) % RESULTS) * BUFFER_BYTES, inner);
    return moving(n, (int64_t)buffer * BUFFER_BYTES,
                  next_random(seed) % 6 ? inner : next_random(seed) % (all + 1));
}

static isa_operand any_result(const nest *n, uint64_t *seed)
{
    if (next_random(seed) % 2) return any_cell(seed);
    const uint32_t standing = next_random(seed) % 12 ? 0 : next_random(seed) % (1u << n->loops);
    return moving(n, (int64_t)(INPUTS + next_random(seed) % RESULTS) * BUFFER_BYTES, standing);
}

static void random_op(isa_program *p, const nest *n, bool last, uint64_t *seed)
{
    static const opfunc ops[] = {OPFUNC_MUL, OPFUNC_MUL, OPFUNC_ADD, OPFUNC_SUB, OPFUNC_MAXIMUM,
                                 OPFUNC_REALDIV, OPFUNC_NEG, OPFUNC_EXP};
    const opfunc op = ops[next_random(seed) % 8];
    layout layouts[ISA_MAX_OPERANDS] = {WHOLE, WHOLE, WHOLE};
    isa_operand operand[ISA_MAX_OPERANDS] = {any_result(n, seed), any_input(n, seed),
                                             any_input(n, seed)};
    if (last) operand[0] = moving(n, INPUTS * BUFFER_BYTES, 0);
    const uint32_t kind = next_random(seed) % 12;
    if (kind < 3) layouts[2] = kind == 0 ? LINE : kind == 1 ? BY_ROW : BY_STICK;
    // Rows of an iteration's own.
    if (kind < 3 && next_random(seed) % 2)
        for (uint32_t l = 0; l < n->loops; l++) operand[2].loop_stride[l] = 128 * (l + 1);
    emit_whole(p, &n->of, op, op == OPFUNC_NEG || op == OPFUNC_EXP ? 2 : 3, operand, layouts,
               false);
}

// (a * c - b * d, a * d + b * c), where c and d stand in the last loop.
static void rotation(isa_program *p, const nest *n)
{
    const layout layouts[ISA_MAX_OPERANDS] = {WHOLE, WHOLE, WHOLE};
    const uint32_t last = 1u << (n->loops - 1);
    isa_operand a = moving(n, 0, 0), b = moving(n, BUFFER_BYTES, 0);
    isa_operand c = moving(n, 2 * BUFFER_BYTES, last), d = moving(n, 3 * BUFFER_BYTES, last);
    isa_operand x = in_lx(CELLS, DL16), y = in_lx(CELLS + BUFFER_BYTES, DL16);
    for (uint32_t part = 0; part < 2; part++) {
        isa_operand to = moving(n, (INPUTS + part) * BUFFER_BYTES, 0);
        emit_whole(p, &n->of, OPFUNC_MUL, 3, (isa_operand[]){x, a, part ? d : c}, layouts, false);
        emit_whole(p, &n->of, OPFUNC_MUL, 3, (isa_operand[]){y, b, part ? c : d}, layouts, false);
        emit_whole(p, &n->of, part ? OPFUNC_ADD : OPFUNC_SUB, 3, (isa_operand[]){to, x, y}, layouts,
                   false);
    }
}

static isa_program *random_program(uint64_t *seed)
{
    const nest n = random_nest(seed);
    isa_program *p = new_program(1);
    copy_kernel(p, ISA_LOAD, 0, 0, MEMORY);
    begin_kernel(p, 1, 0);
    for (uint32_t l = 0; l < n.loops; l++) emit(p, ISA_LOOP)->count = n.counts[l];
    if (next_random(seed) % 4 == 0) rotation(p, &n);
    else
        for (uint32_t ops = 1 + next_random(seed) % 6; ops > 0; ops--)
            random_op(p, &n, ops == 1, seed);
    for (uint32_t l = 0; l < n.loops; l++) emit(p, ISA_END_LOOP);
    end_kernel(p);
    copy_kernel(p, ISA_STORE, INPUTS * BUFFER_BYTES, 0, RESULTS * BUFFER_BYTES);
    emit(p, ISA_HALT);
    return p;
}

static bool keeps_loads(isa_program *p)
{
    card_program *loaded;
    bool keeps = false;
    assert_ok(card_load(the_card, p, &loaded));
    card_program_forget_lx(loaded);
    for (uint32_t n = 0; n < loaded->phases.count; n++) {
        const plan_phase *phase = &loaded->phases.items[n];
        if (phase->kind == PHASE_KERNEL && phase->kernel->rows)
            keeps = keeps || phase->kernel->rows->inner;
    }
    card_unload(the_card, loaded);
    return keeps;
}

static void loop_invariant_loads__random_loops_keep_their_bytes(void **state)
{
    (void)state;
    uint64_t seed = 17;
    uint32_t kept = 0, rounds = test_rounds(1500);
    for (uint32_t round = 0; round < rounds; round++) {
        if (round % 16 == 0) fill(round % 32 ? 64 : 1 << 14, &seed);
        uint64_t start = seed;
        isa_program *p = random_program(&seed);
        check(p, start);
        kept += keeps_loads(p);
        free_program(p);
    }
    assert_true(kept > rounds / 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loop_invariant_loads__random_loops_keep_their_bytes),
    };
    return cmocka_run_group_tests(tests, open_card, close_card);
}
