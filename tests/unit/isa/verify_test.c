// SPDX-License-Identifier: Apache-2.0
#include "unit/isa/sample.h"

#include <math.h>

static isa_program *program;

static int setup(void **state)
{
    arena *memory = arena_create();
    *state = memory;
    program = sample_program(memory);
    return 0;
}

static int teardown(void **state)
{
    arena_destroy(*state);
    return 0;
}

static void refused(const char *message)
{
    assert_error(isa_verify(program), SPYRE_INVALID_ARGUMENT, message);
}

static isa_instruction *find(isa_opcode opcode)
{
    return sample_find(program, opcode);
}

static void verify__sample_is_right(void **state)
{
    (void)state;
    assert_ok(isa_verify(program));
}

static void verify__lx_bounds_over_all_iterations(void **state)
{
    (void)state;
    // 2 iterations of 1024 bytes, 8 rows of 128 bytes, inside 2 MiB.
    find(ISA_LOAD)->operand[0].offset = (2 << 20) - 2048;
    assert_ok(isa_verify(program));
    find(ISA_LOAD)->operand[0].offset += 128;
    refused("instruction 5 load: operand 0: bytes [2095232, 2097280) leave the 2097152 bytes");
    find(ISA_LOAD)->operand[0].offset = 512;
    find(ISA_LOAD)->operand[0].stride[0] = -128;
    refused("bytes [-384, ");
}

static void verify__matmul_bounds(void **state)
{
    (void)state;
    isa_operand *b = &find(ISA_MATMUL)->operand[2];
    b->offset = (2 << 20) - 64 * 128;
    assert_ok(isa_verify(program));
    b->offset += 2;
    refused("matmul: operand 2: bytes");
    b->offset = 0;
    b->stride[0] = 128;
    refused("matmul: operand 2: stride 0 is 128; a matmul does not move it there");
}

static void verify__overflow(void **state)
{
    (void)state;
    isa_operand *source = &find(ISA_LOAD)->operand[1];
    source->stride[0] = (int64_t)1 << 55;
    refused("strides reach beyond 2^56 bytes");
    source->stride[0] = INT64_MAX;
    refused("stride 0 is beyond 2^56 bytes");
    source->stride[0] = 128;
    source->loop_stride[0] = INT64_MIN;
    refused("loop stride 0 is beyond 2^56 bytes");
}

// Sums of what a program holds are taken all over the card without a look at overflow.
static void verify__extreme_numbers(void **state)
{
    (void)state;
    isa_operand *source = &find(ISA_LOAD)->operand[1];
    source->offset = INT64_MAX;
    refused("load: operand 1: offset 9223372036854775807 is beyond 2^56 bytes");
    source->offset = 0;
    isa_kernel *kernel = &program->kernels.items[0];
    const int64_t *before = kernel->parameters;
    int64_t extreme[ISA_CORES * 4] = {[5] = INT64_MIN};
    assert_int_equal(kernel->slot_count, 4);
    kernel->parameters = extreme;
    refused("kernel 0: parameter -9223372036854775808 of core 1 is beyond 2^56 bytes");
    kernel->parameters = before;
    find(ISA_SCATTER)->operand[0].stride[1] = 0;
    refused("scatter: operand 0: stride 1 is 0: the operand is written");
    find(ISA_SCATTER)->operand[0].stride[1] = 2;
    find(ISA_SCATTER)->operand[2].format = SPYRE_FORMAT_SEN169_FP16;
    refused("scatter: operand 2: row numbers have four bytes");
    find(ISA_GATHER)->row_stride = (int64_t)1 << 50;
    find(ISA_GATHER)->row_count = 1 << 10;
    refused("gather: rows reach beyond 2^56 bytes");
}

static void verify__spaces_and_slots(void **state)
{
    (void)state;
    isa_operand *source = &find(ISA_LOAD)->operand[1];
    source->slot = 4;
    refused("load: operand 1: parameter slot 4 of 4");
    source->slot = 0;
    source->arg = 2;
    refused("load: operand 1: argument 2 of 2");
    source->arg = 0;
    source->space = ISA_SPACE_LX;
    refused("load: operand 1: must be in memory");
}

static void verify__formats(void **state)
{
    (void)state;
    find(ISA_LOAD)->operand[0].format = SPYRE_FORMAT_IEEE_FP32;
    refused("load: operand 1: format SEN169_FP16 differs from operand 0's IEEE_FP32");
    find(ISA_LOAD)->operand[0].format = SPYRE_FORMAT_SENINT4;
    refused("has no whole bytes an element");
    find(ISA_LOAD)->operand[0].format = SPYRE_FORMAT_SEN169_FP16;
    find(ISA_REDUCE)->operand[0].format = SPYRE_FORMAT_SEN169_FP16;
    refused("reduce: operand 0: an accumulator is IEEE_FP32, not SEN169_FP16");
    find(ISA_REDUCE)->operand[0].format = SPYRE_FORMAT_IEEE_FP32;
    find(ISA_VECTOR)->operand[1].format = SPYRE_FORMAT_SENINT24;
    refused("vector: operand 1: elements of SENINT24 can be moved only");
}

static void verify__rankings(void **state)
{
    (void)state;
    isa_instruction *rank = find(ISA_RANK), *ranked = find(ISA_RANKED);
    rank->operand[0].format = SPYRE_FORMAT_IEEE_FP32;
    refused("rank: operand 0: entries of a ranking are IEEE_INT64, not IEEE_FP32");
    rank->operand[0].format = SPYRE_FORMAT_IEEE_INT64;
    rank->operand[1].format = SPYRE_FORMAT_SENINT16;
    refused("rank: operand 1: SENINT16 cannot be ranked");
    rank->operand[1].format = SPYRE_FORMAT_SEN169_FP16;
    rank->operand[1].stride[0] = 2;
    refused("rank: operand 1: stride 0 is 2, must be 0");
    rank->operand[1].stride[0] = 0;
    rank->operand[2].stride[1] = 4;
    refused("rank: operand 2: stride 1 is 4, must be 0");
    rank->operand[2].stride[1] = 0;
    rank->operand[0].stride[0] = 0;
    refused("rank: operand 0: stride 0 is 0: ranks are apart");
    rank->operand[0].stride[0] = 64;
    ranked->op = OPFUNC_MAX;
    refused("ranked: max does not rank");
    ranked->op = OPFUNC_TOPKVALUE;
    ranked->operand[1].format = SPYRE_FORMAT_IEEE_FP32;
    refused("ranked: operand 1: entries of a ranking are IEEE_INT64, not IEEE_FP32");
}

static void verify__running_values(void **state)
{
    (void)state;
    isa_instruction *scan = find(ISA_SCAN);
    scan->operand[1].format = SPYRE_FORMAT_IEEE_FP32;
    refused("scan: operand 1: running values are IEEE_INT64, not IEEE_FP32");
    scan->operand[1].format = SPYRE_FORMAT_IEEE_INT64;
    scan->operand[0].stride[1] = 0;
    refused("scan: operand 0: stride 1 is 0: the operand is written");
    scan->operand[0].stride[1] = 4;
    scan->operand[3].stride[0] = 4;
    refused("scan: operand 3: stride 0 is 4, must be 0");
    scan->operand[3].stride[0] = 0;
    scan->op = OPFUNC_CUMSUM;
    refused("scan: 4 operands, expected 3 to 3");
    scan->op = OPFUNC_ADD;
    refused("scan: add does not scan");
    scan->op = OPFUNC_CUMMAXINDEX;
    scan->operand[2].format = SPYRE_FORMAT_SENINT16;
    refused("scan: operand 2: cummaxindex from SENINT16 to IEEE_INT32");
}

static void verify__numbers(void **state)
{
    (void)state;
    isa_instruction *count = find(ISA_COUNT);
    count->operand[1].format = SPYRE_FORMAT_IEEE_FP32;
    refused("count: operand 1: numbers are IEEE_INT32, not IEEE_FP32");
    count->operand[1].format = SPYRE_FORMAT_IEEE_INT32;
    count->operand[1].space = ISA_SPACE_LX;
    refused("count: operand 1: must be a number");
    count->operand[1].space = ISA_SPACE_NUMBER;
    count->operand[1].arg = 1;
    refused("count: operand 1: arg is for memory operands");
    count->operand[1].arg = 0;
    count->operand[1].slot = 4;
    refused("count: operand 1: parameter slot 4 of 4");
    count->operand[1].slot = ISA_NO_SLOT;
    assert_ok(isa_verify(program));
    count->operand[0].stride[1] = 0;
    refused("count: operand 0: stride 1 is 0: the operand is written");
    count->operand[0].stride[1] = 2;
    count->op = OPFUNC_EXP;
    refused("count: exp of a number; identity and clip are possible");
    count->op = OPFUNC_IDENTITY;
    refused("count: constant 1 is not used");
    count->constant[1] = 0;
    assert_ok(isa_verify(program));
    find(ISA_LOAD)->operand[1].space = ISA_SPACE_NUMBER;
    refused("load: operand 1: must be in memory");
}

static void verify__what_is_accumulated(void **state)
{
    (void)state;
    isa_instruction *joins = find(ISA_ACCUMULATE);
    spyre_format before = joins->operand[1].format;
    joins->operand[1].format = SPYRE_FORMAT_IEEE_INT32;
    refused("accumulate: operand 1: sum of IEEE_INT32 into IEEE_FP32");
    joins->operand[1].format = before;
    joins->op = OPFUNC_ADD;
    refused("accumulate: add does not accumulate");
    joins->op = OPFUNC_PROD;
    joins->row_count = 0;
    refused("accumulate: row count 0");
}

static void verify__written_operands_move(void **state)
{
    (void)state;
    find(ISA_STORE)->operand[0].stride[0] = 0;
    refused("store: operand 0: stride 0 is 0: the operand is written");
}

static void verify__opfuncs(void **state)
{
    (void)state;
    find(ISA_REDUCE)->op = OPFUNC_ADD;
    refused("reduce: add does not accumulate");
    find(ISA_REDUCE)->op = OPFUNC_SUM;
    find(ISA_VECTOR)->op = OPFUNC_SUM;
    refused("vector: sum does not work element by element");
    find(ISA_VECTOR)->op = OPFUNC_ADD;
    refused("vector: 2 operands, expected 3 to 3");
    find(ISA_VECTOR)->op = OPFUNC_EXP;
    refused("vector: constant 0 is not used");
}

// Programs are compared byte by byte, so there is one NaN.
static void verify__one_nan(void **state)
{
    (void)state;
    find(ISA_FILL)->constant[0] = NAN;
    assert_ok(isa_verify(program));
    find(ISA_FILL)->constant[0] = -NAN;
    refused("constant 0 is a NaN other than the positive quiet one");
}

static void verify__unused_fields_are_zero(void **state)
{
    (void)state;
    isa_instruction *load = find(ISA_LOAD);
    load->token = 3;
    refused("load: token is not used");
    load->token = 0;
    load->extent[5] = 1;
    refused("load: extent 5 beyond the 2 dims");
    load->extent[5] = 0;
    load->operand[0].loop_stride[2] = 8;
    refused("load: operand 0: loop stride 2 inside 2 loops");
    load->operand[0].loop_stride[2] = 0;
}

static void verify__structure(void **state)
{
    (void)state;
    isa_instruction *kernel = find(ISA_KERNEL);
    kernel->count = 2;
    refused("kernel: kernel 2 of 2");
    kernel->count = 0;
    find(ISA_LOOP)->count = 0;
    refused("loop: no iterations");
    find(ISA_LOOP)->count = 3;
    kernel->opcode = ISA_LOOP;
    kernel->count = 1;
    refused("fill: outside a kernel");
}

static void verify__nesting(void **state)
{
    static const struct {
        const char *source, *message;
    } cases[] = {
        {"halt halt", "instruction 1: behind halt"},
        {"endloop halt", "endloop: without loop"},
        {"endkernel halt", "endkernel: without kernel"},
        {"kernel 0 kernel 0 halt", "kernel: inside another kernel"},
        {"kernel 0 loop 1 endkernel halt", "endkernel: a loop of the kernel is open"},
        {"loop 1 kernel 0 endloop halt", "endloop: without loop"},
        {"loop 1 halt", "halt: inside a kernel or loop"},
        {"loop 1 loop 1 loop 1 loop 1 loop 1 loop 1 loop 1 loop 1 loop 1 halt",
         "more than 8 loops deep"},
        {"kernel 0 signal seq 1 endkernel halt", "queue 0 cannot take tokens"},
        {"kernel 0 fold sum [3] IEEE_FP32 lx+0 [4] endkernel halt", "3 lanes to fold"},
        {"kernel 0 send slot0 [3] IEEE_FP32 lx+0 [4] endkernel halt", "core 0 has peer 99"},
        {"kernel 0 send slot1 [3] IEEE_FP32 lx+0 [4] endkernel halt", "parameter slot 1 of 1"},
    };
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        char *source =
            arena_printf(*state, "program\nkernel 0 \"k\" cores 1 slots 1\ncore 0: 99\ncode\n%s",
                         cases[n].source);
        assert_error(isa_parse(*state, source, "t", &program), SPYRE_INVALID_ARGUMENT,
                     cases[n].message);
    }
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(verify__##name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(sample_is_right),
        CASE(lx_bounds_over_all_iterations),
        CASE(matmul_bounds),
        CASE(overflow),
        CASE(extreme_numbers),
        CASE(spaces_and_slots),
        CASE(formats),
        CASE(rankings),
        CASE(running_values),
        CASE(numbers),
        CASE(what_is_accumulated),
        CASE(written_operands_move),
        CASE(opfuncs),
        CASE(one_nan),
        CASE(unused_fields_are_zero),
        CASE(structure),
        CASE(nesting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
