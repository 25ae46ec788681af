// SPDX-License-Identifier: Apache-2.0
//
// Counted work against hand-made sums.
#include "program.h"

#include <math.h>

#define DL16 SPYRE_FORMAT_SEN169_FP16
#define FP32 SPYRE_FORMAT_IEEE_FP32

static void work__loops_and_cores_multiply(void **state)
{
    (void)state;
    isa_program *p = new_program(2);
    emit(p, ISA_LOOP)->count = 3;
    int64_t *parameters = begin_kernel(p, 0xF, 2);
    for (uint32_t core = 0; core < ISA_CORES; core++) parameters[core * 2] = core * 128;
    emit(p, ISA_LOOP)->count = 5;
    isa_operand own = in_memory(0, 0, 0, DL16), shared = in_memory(0, 1, 0, DL16);
    emit_flat(p, ISA_LOAD, 64, 2, (isa_operand[]){in_lx(0, DL16), own});
    emit_flat(p, ISA_LOAD, 64, 2, (isa_operand[]){in_lx(128, DL16), shared});
    emit_flat(p, ISA_VECTOR, 64, 2, (isa_operand[]){in_lx(0, DL16), in_lx(128, DL16)})->op =
        OPFUNC_EXP;
    emit(p, ISA_END_LOOP);
    emit_flat(p, ISA_STORE, 64, 2, (isa_operand[]){in_memory(1, 0, 0, DL16), in_lx(0, DL16)});
    end_kernel(p);
    emit(p, ISA_END_LOOP);
    emit(p, ISA_HALT);
    assert_ok(isa_verify(p));
    card_work work;
    card_count_work(p, &work);
    // The shared operand is loaded once for all four cores.
    assert_int_equal(work.memory_read_bytes, 3 * 5 * (4 + 1) * 128);
    assert_int_equal(work.memory_written_bytes, 3 * 4 * 128);
    assert_int_equal(work.vector_element_count, 3 * 5 * 4 * 64);
    assert_int_equal(work.mac_count, 0);
    assert_true(work.modelled_us > 0);
    free_program(p);
}

static isa_program *matmul_program(uint32_t cores, uint32_t rows, uint32_t k)
{
    isa_program *p = new_program(0);
    begin_kernel(p, cores == 32 ? UINT32_MAX : (1u << cores) - 1, 0);
    isa_instruction *i = emit(p, ISA_MATMUL);
    i->dim_count = 3;
    i->extent[0] = rows;
    i->extent[1] = 1;
    i->extent[2] = k;
    i->operand_count = 3;
    i->operand[0] = in_lx(0, FP32);
    i->operand[0].stride[0] = 256;
    i->operand[1] = in_lx(0x100000, DL16);
    i->operand[1].stride[0] = 128;
    i->operand[1].stride[2] = 128 * rows;
    i->operand[2] = in_lx(0x180000, DL16);
    i->operand[2].stride[2] = 128;
    end_kernel(p);
    emit(p, ISA_HALT);
    assert_ok(isa_verify(p));
    return p;
}

// 1140 MAC per nanosecond and core: torch-spyre's cost model, see cost.def.
static void work__matmul_runs_at_the_published_rate(void **state)
{
    (void)state;
    isa_program *p = matmul_program(32, 64, 512);
    card_work work;
    card_count_work(p, &work);
    int64_t macs = 32LL * 64 * 64 * 512;
    assert_int_equal(work.mac_count, macs);
    assert_true(fabs(work.modelled_us - (double)macs / 32 / 1.14e6) < 1e-9);
    free_program(p);
}

// "A balanced copy runs at 105 GB/s", one direction at 150 GB/s.
static void work__copies_run_at_the_published_bandwidth(void **state)
{
    (void)state;
    for (int store = 0; store < 2; store++) {
        isa_program *p = new_program(2);
        begin_kernel(p, 1, 0);
        isa_operand lx = in_lx(0, DL16);
        isa_operand from = in_memory(0, ISA_NO_SLOT, 0, DL16);
        isa_operand to = in_memory(1, ISA_NO_SLOT, 0, DL16);
        emit_flat(p, ISA_LOAD, 1 << 19, 2, (isa_operand[]){lx, from});
        if (store) emit_flat(p, ISA_STORE, 1 << 19, 2, (isa_operand[]){to, lx});
        end_kernel(p);
        emit(p, ISA_HALT);
        card_work work;
        card_count_work(p, &work);
        double bytes = (double)(work.memory_read_bytes + work.memory_written_bytes);
        double gigabytes_per_second = bytes / work.modelled_us * 1e-3;
        assert_true(fabs(gigabytes_per_second - (store ? 105.0 : 150.0)) < 1.0);
        free_program(p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work__loops_and_cores_multiply),
        cmocka_unit_test(work__matmul_runs_at_the_published_rate),
        cmocka_unit_test(work__copies_run_at_the_published_bandwidth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
