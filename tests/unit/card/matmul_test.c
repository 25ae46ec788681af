// SPDX-License-Identifier: Apache-2.0
//
// Packing and blocking of matmuls against one chain of fma a result, for cores that share operands
// in every way.
#include "program.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "card/matmul/matmul.h"
#include "support/rounds.h"
#include "tensor/numeric.h"

enum { LANES = 64, STICK = 128, MOST_OPERANDS = 5 };

// Element 0 of operand n of a kind, and what it is made of.
typedef struct {
    uint8_t *a[MOST_OPERANDS], *b[MOST_OPERANDS];
    uint8_t *c[ISA_CORES];
    uint32_t a_of[ISA_CORES], b_of[ISA_CORES];
    uint32_t cores, rows, sticks, depth;
    int64_t a_row, a_stick, b_stick, b_line, c_row, c_stick;
    size_t c_bytes;
} problem;

static uint8_t *random_codes(uint64_t *seed, size_t bytes)
{
    uint8_t *memory = malloc(bytes);
    assert_non_null(memory);
    for (size_t n = 0; n < bytes; n += 2) {
        uint16_t code = dl16_from_float((float)(next_random(seed) % 4001) / 2000.0f - 1.0f);
        memcpy(memory + n, &code, 2);
    }
    return memory;
}

static problem new_problem(uint64_t *seed, uint32_t cores, uint32_t rows, uint32_t sticks,
                           uint32_t depth)
{
    problem p = {.cores = cores, .rows = rows, .sticks = sticks, .depth = depth};
    uint32_t k_sticks = (depth + LANES - 1) / LANES, gap = next_random(seed) % 2 * STICK;
    bool rows_inside = next_random(seed) % 2;
    p.a_row = rows_inside ? STICK * k_sticks : STICK + gap;
    p.a_stick = rows_inside ? STICK : (STICK + gap) * rows;
    p.b_line = STICK + next_random(seed) % 2 * STICK;
    p.b_stick = p.b_line * depth;
    p.c_row = LANES * 4 * (rows_inside ? sticks : 1);
    p.c_stick = LANES * 4 * (rows_inside ? 1 : rows);
    p.c_bytes = (size_t)rows * sticks * LANES * 4;
    for (uint32_t n = 0; n < MOST_OPERANDS; n++) {
        p.a[n] = random_codes(seed, (size_t)rows * k_sticks * 2 * STICK);
        p.b[n] = random_codes(seed, (size_t)(sticks * depth + 1) * 2 * STICK);
    }
    uint32_t a_count = 1 + next_random(seed) % MOST_OPERANDS;
    uint32_t b_count = 1 + next_random(seed) % MOST_OPERANDS;
    for (uint32_t core = 0; core < cores; core++) {
        p.a_of[core] = next_random(seed) % a_count;
        p.b_of[core] = next_random(seed) % b_count;
        p.c[core] = malloc(p.c_bytes);
        assert_non_null(p.c[core]);
        for (size_t n = 0; n < p.c_bytes / 4; n++) ((float *)(void *)p.c[core])[n] = (float)n / 64;
    }
    return p;
}

static void free_problem(problem *p)
{
    for (uint32_t n = 0; n < MOST_OPERANDS; n++) {
        free(p->a[n]);
        free(p->b[n]);
    }
    for (uint32_t core = 0; core < p->cores; core++) free(p->c[core]);
}

static float value_at(const uint8_t *at)
{
    uint16_t code;
    memcpy(&code, at, 2);
    return dl16_to_float(code);
}

static float one_result(const problem *p, uint32_t core, uint32_t row, uint32_t column, float sum)
{
    const uint8_t *a = p->a[p->a_of[core]] + row * p->a_row;
    const uint8_t *b = p->b[p->b_of[core]] + column / LANES * p->b_stick;
    for (uint32_t k = 0; k < p->depth; k++)
        sum = fmaf(value_at(a + k / LANES * p->a_stick + k % LANES * 2),
                   value_at(b + k * p->b_line + column % LANES * 2), sum);
    return sum;
}

static float *result_at(const problem *p, uint32_t core, uint32_t row, uint32_t column)
{
    int64_t lane = column % LANES * 4;
    return (float *)(void *)(p->c[core] + row * p->c_row + column / LANES * p->c_stick + lane);
}

// Without a host by definition.
static void multiply(const problem *p, const matmul_host *host)
{
    isa_instruction i = {.opcode = ISA_MATMUL, .dim_count = 3, .operand_count = 3,
                         .extent = {p->rows, p->sticks, p->depth}};
    i.operand[0] = in_lx(0, SPYRE_FORMAT_IEEE_FP32);
    i.operand[1] = i.operand[2] = in_lx(0, SPYRE_FORMAT_SEN169_FP16);
    i.operand[0].stride[0] = p->c_row;
    i.operand[0].stride[1] = p->c_stick;
    i.operand[1].stride[0] = p->a_row;
    i.operand[1].stride[2] = p->a_stick;
    i.operand[2].stride[1] = p->b_stick;
    i.operand[2].stride[2] = p->b_line;
    arena *memory = arena_create();
    assert_non_null(memory);
    product *x;
    assert_ok(product_of(memory, &i, &x));
    assert_non_null(x);
    matmul_operands cores[ISA_CORES];
    for (uint32_t core = 0; core < p->cores; core++) {
        cores[core][0] = p->c[core];
        cores[core][1] = p->a[p->a_of[core]];
        cores[core][2] = p->b[p->b_of[core]];
    }
    if (host) assert_true(matmul_fast(x, (const matmul_operands *)cores, p->cores, host));
    for (uint32_t core = 0; core < p->cores && !host; core++) product_compute(x, cores[core]);
    arena_destroy(memory);
}

static bool by_definition;
static uint16_t put_in_a, put_in_b;     // codes for one element each of every operand, unless 0
static pool *shared_by;                 // null: one thread

static void free_scratch(plan_scratch *scratch)
{
    free(scratch->rows);
    free(scratch->columns);
    free(scratch->sums);
    free(scratch->results);
}

static void put_codes(problem *p, uint64_t *seed)
{
    for (uint32_t n = 0; n < MOST_OPERANDS; n++) {
        uint32_t k = next_random(seed) % p->depth, lane = next_random(seed) % LANES;
        uint8_t *a = p->a[n] + next_random(seed) % p->rows * p->a_row + k / LANES * p->a_stick;
        uint8_t *b = p->b[n] + next_random(seed) % p->sticks * p->b_stick + k * p->b_line;
        if (put_in_a) memcpy(a + k % LANES * 2, &put_in_a, 2);
        if (put_in_b) memcpy(b + lane * 2, &put_in_b, 2);
    }
}

// Compares every `step`th result.
static void check(uint64_t *seed, uint32_t cores, uint32_t rows, uint32_t sticks, uint32_t depth,
                  uint32_t step)
{
    problem p = new_problem(seed, cores, rows, sticks, depth);
    put_codes(&p, seed);
    plan_scratch scratch[ISA_CORES] = {0};
    const matmul_host host = {shared_by, scratch, NULL};
    for (uint32_t n = 0; n < ISA_CORES; n++) scratch[n].cache_bytes = next_random(seed) % 2 << 21;
    uint32_t results = cores * rows * sticks * LANES;
    float *expected = malloc(results * sizeof *expected);
    assert_non_null(expected);
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t n = 0; n < results; n += step) {
            uint32_t column = n % (sticks * LANES), row = n / (sticks * LANES);
            float *at = result_at(&p, row / rows, row % rows, column);
            if (pass == 0) expected[n] = one_result(&p, row / rows, row % rows, column, *at);
            else if (expected[n] != *at && !(isnan(expected[n]) && isnan(*at)))
                fail_msg("%u cores x %u rows, %u sticks, k %u: result %u is %a, not %a", cores,
                         rows, sticks, depth, n, (double)*at, (double)expected[n]);
        }
        if (pass == 0) multiply(&p, by_definition ? NULL : &host);
    }
    free(expected);
    for (uint32_t n = 0; n < ISA_CORES; n++) free_scratch(&scratch[n]);
    free_problem(&p);
}

static void matmul__small_extents(void **state)
{
    (void)state;
    uint64_t seed = 5;
    for (uint32_t n = 1; n <= 70; n += test_stride()) {
        check(&seed, 1 + n % 3, n, 1, 1 + next_random(&seed) % 70, 1);
        check(&seed, 1 + n % 4, 1 + next_random(&seed) % 9, 1 + n % 3, n, 1);
    }
}

static void matmul__cores_share_operands(void **state)
{
    (void)state;
    uint64_t seed = 6;
    for (uint32_t cores = 1; cores <= ISA_CORES; cores++)
        check(&seed, cores, 1 + next_random(&seed) % 13, 1 + cores % 3,
              1 + next_random(&seed) % 150, 7);
}

static void matmul__by_definition(void **state)
{
    (void)state;
    uint64_t seed = 9;
    by_definition = true;
    check(&seed, 3, 5, 2, 70, 1);
    check(&seed, 1, 1, 1, 1, 1);
    by_definition = false;
}

// More than one group of rows, panel and piece of k.
static void matmul__large_extents(void **state)
{
    (void)state;
    uint64_t seed = 7;
    check(&seed, 1, 600, 1, 1100, 101);
    check(&seed, 5, 130, 2, 513, 101);
    check(&seed, 32, 41, 1, 640, 101);
    check(&seed, 3, 1, 4, 2048, 11);
}

// Fewer, as many and more threads than there are rows, sticks and cores.
static void matmul__threads_share_a_product(void **state)
{
    (void)state;
    uint64_t seed = 14;
    for (uint32_t threads = 2; threads <= ISA_CORES; threads += 5 * test_stride()) {
        assert_ok(pool_create(threads, &shared_by));
        check(&seed, 1, 1, 1, 70, 1);
        check(&seed, 1, 1, 9, 130, 1);
        check(&seed, 1, 40, 1, 130, 1);
        check(&seed, 32, 2, 3, 65, 7);
        check(&seed, 7, 19, 5, 600, 101);
        pool_destroy(shared_by);
    }
    shared_by = NULL;
}

enum { BLOCK_DEPTH = 150, BLOCK_RUNS = 3, BLOCK_LANES = MATMUL_ROWS * MATMUL_RUN };

typedef struct {
    float a[BLOCK_RUNS * BLOCK_LANES], b[BLOCK_DEPTH * MATMUL_RUN];
    size_t rows, lanes;
} block_case;

// Sums and, from the same start, results.
typedef struct {
    float sums[BLOCK_LANES];
    uint16_t codes[BLOCK_LANES];
} block_results;

static void run_block(matmul_block *block, const block_case *x, block_results *out)
{
    float *c[MATMUL_ROWS];
    uint8_t *results[MATMUL_ROWS];
    matmul_panel panel = {.a = x->a, .b = x->b, .a_next = x->rows * MATMUL_RUN,
                          .depth = BLOCK_DEPTH, .wanted = x->lanes, .column = 2 * MATMUL_RUN};
    memset(out, 0, sizeof *out);
    for (size_t n = 0; n < BLOCK_LANES; n++) out->sums[n] = (float)(n % 67);
    for (size_t row = 0; row < x->rows; row++) {
        c[row] = out->sums + row * MATMUL_RUN;
        results[row] = (uint8_t *)(out->codes + row * MATMUL_RUN) - panel.column;
    }
    panel.results = results;
    block(c, x->rows, &panel);
    panel.results = NULL;
    block(c, x->rows, &panel);
}

static void define_block(const block_case *x, block_results *out)
{
    memset(out, 0, sizeof *out);
    for (size_t n = 0; n < BLOCK_LANES; n++) {
        size_t row = n / MATMUL_RUN, lane = n % MATMUL_RUN;
        out->sums[n] = (float)(n % 67);
        if (row >= x->rows || lane >= x->lanes) continue;
        for (size_t k = 0; k < BLOCK_DEPTH; k++) {
            size_t run = k / MATMUL_RUN * x->rows + row;
            out->sums[n] = fmaf(x->a[run * MATMUL_RUN + k % MATMUL_RUN],
                                x->b[k * MATMUL_RUN + lane], out->sums[n]);
        }
        out->codes[n] = dl16_from_float(out->sums[n]);
    }
}

// Of two sizes, so that sums differ in what is lost.
static float block_value(uint64_t *seed)
{
    uint32_t exponent = next_random(seed) % 4 ? 31 : 14;
    uint16_t code = (uint16_t)(exponent << 9 | next_random(seed) % 512 |
                               (next_random(seed) % 2 ? 0x8000u : 0));
    return dl16_to_float(code);
}

static void matmul__every_instruction_set_gives_the_same(void **state)
{
    (void)state;
    static block_case x;
    static block_results expected, found;
    matmul_block *blocks[3] = {matmul_block_portable};
    size_t count = 1;
    uint64_t seed = 8;
#if defined(__x86_64__)
    bool fma = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (fma) blocks[count++] = matmul_block_avx2;
    if (fma && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw"))
        blocks[count++] = matmul_block_avx512;
#endif
    for (size_t n = 0; n < sizeof x.a / sizeof *x.a; n++) x.a[n] = block_value(&seed);
    for (size_t n = 0; n < sizeof x.b / sizeof *x.b; n++) x.b[n] = block_value(&seed);
    for (size_t k = 0; k < BLOCK_DEPTH; k++) x.b[k * MATMUL_RUN + 5] = 0x1p31f;
    for (x.lanes = 32; x.lanes <= MATMUL_RUN; x.lanes += 32) {
        for (x.rows = 1; x.rows <= MATMUL_ROWS; x.rows++) {
            define_block(&x, &expected);
            for (size_t n = 0; n < count; n++) {
                run_block(blocks[n], &x, &found);
                assert_memory_equal(&expected, &found, sizeof expected);
            }
        }
    }
}

static void matmul__few_rows(void **state)
{
    (void)state;
    uint64_t seed = 12;
    for (uint32_t n = 0; n < test_rounds(24); n++)
        check(&seed, 1, 1 + n % 5, 1 + n % 2, 1 + next_random(&seed) % 300, 1);
}

// Few rows have another way (matmul_few_rows.c), which some rows and some columns do not suit.
static void matmul__rows_and_codes_that_do_not_scale(void **state)
{
    (void)state;
    uint64_t seed = 13;
    const uint16_t codes[][2] = {{0x7E00, 0},           {DL16_MERGED, 0}, {0, 0x0001}, {0, 0x81FF},
                                 {0, DL16_MERGED},      {0x0001, 0},      {0, 0xFFFF},
                                 {0xFE00, DL16_MERGED}, {0, DL16_SIGN}};
    for (uint32_t n = 0; n < 2 * sizeof codes / sizeof *codes; n++) {
        put_in_a = codes[n / 2][0];
        put_in_b = codes[n / 2][1];
        check(&seed, 1 + n % 3, 1 + next_random(&seed) % 9, 1 + n % 4,
              1 + next_random(&seed) % 200, 1);
    }
    put_in_a = put_in_b = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matmul__small_extents),
        cmocka_unit_test(matmul__cores_share_operands),
        cmocka_unit_test(matmul__by_definition),
        cmocka_unit_test(matmul__large_extents),
        cmocka_unit_test(matmul__threads_share_a_product),
        cmocka_unit_test(matmul__few_rows),
        cmocka_unit_test(matmul__rows_and_codes_that_do_not_scale),
        cmocka_unit_test(matmul__every_instruction_set_gives_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
