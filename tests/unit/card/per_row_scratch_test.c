// SPDX-License-Identifier: Apache-2.0
//
// Values of rows that a row fusion keeps for itself, where they lie in one stick.
#include "row_fusion_programs.h"

enum { BEHIND = 2 * 2 };                    // bytes: lane 2 of a row's stick

static const shape whole = {19, 3, false, 2, false, false, 0, 0};

// All lanes of each row's stick from one element of it.
static void fill_sticks(isa_program *p, opfunc op, int64_t from)
{
    isa_operand operand[] = {row_values(0), row_values(0)};
    operand[1].offset += from;
    begin_kernel(p, 1, 0);
    isa_instruction *i = emit_flat(p, ISA_VECTOR, 64, 2, operand);
    i->op = op;
    i->dim_count = 2;
    i->extent[0] = whole.rows;
    i->extent[1] = 64;
    for (uint32_t o = 0; o < 2; o++) {
        i->operand[o].stride[0] = 128;
        i->operand[o].stride[1] = o == 0 ? 2 : 0;
    }
    end_kernel(p);
}

static void reduce(isa_program *p, int64_t to)
{
    isa_operand value = row_values(0);
    value.offset += to;
    begin_kernel(p, 1, 0);
    reduce_tiles(p, &whole, ISA_REDUCE, OPFUNC_MAX, buffer(0), in_lx(SUMS, FP32), value);
    end_kernel(p);
}

static void subtract(isa_program *p, int64_t from)
{
    static const layout layouts[] = {WHOLE, WHOLE, BY_ROW};
    isa_operand value = row_values(0);
    value.offset += from;
    begin_kernel(p, 1, 0);
    emit_whole(p, &whole, OPFUNC_SUB, 3, (isa_operand[]){buffer(1), buffer(0), value}, layouts,
               false);
    end_kernel(p);
}

// A maximum of each row, at its stick's lane 0 or 2, and a stick full of what is made of it, of
// which a lane is taken: then lanes behind that element have been made of what lies over it.
static isa_program *program(int64_t made, int64_t taken, bool stays)
{
    isa_program *p = new_program(1);
    copy_kernel(p, ISA_LOAD, 0, 0, STAGE);
    reduce(p, made);
    fill_sticks(p, OPFUNC_NEG, made);
    subtract(p, taken);
    copy_kernel(p, ISA_STORE, 0, 0, BUFFERS * BUFFER_BYTES);
    if (stays) copy_kernel(p, ISA_STORE, ROW_VALUES, ROW_VALUES, ROW_BYTES);
    emit(p, ISA_HALT);
    return p;
}

static void per_row_scratch__a_stick_may_lie_over_what_it_is_made_of(void **state)
{
    (void)state;
    row_values_at = ROW_VALUES, row_values_step = ROW_BYTES;
    fill_memory();
    for (int64_t made = 0; made <= 2 * BEHIND; made += BEHIND)
        for (int64_t taken = 0; taken <= 2 * BEHIND; taken += BEHIND)
            for (uint32_t stays = 0; stays < 2; stays++) {
                isa_program *p = program(made, taken, stays);
                check(p, (uint64_t)(made * 100 + taken * 10 + stays));
                free_program(p);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(per_row_scratch__a_stick_may_lie_over_what_it_is_made_of),
    };
    return cmocka_run_group_tests(tests, open_card, close_card);
}
