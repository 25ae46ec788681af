// SPDX-License-Identifier: Apache-2.0
//
// The interpreter: golden kernels against plain loops, and kernels that break a rule, which it
// names by operation, line and compute tile.
#include "unit/ktir/golden_kernel.h"

#include <math.h>
#include <stdlib.h>

#include "ktir/interpret/tensor.h"
#include "spyre/ktir.h"
#include "tensor/numeric.h"

enum { MOST = 1 << 16 };

static uint16_t *halves(uint64_t seed, size_t count)
{
    uint16_t *made = malloc(count * sizeof *made);
    for (size_t i = 0; i < count; i++)
        made[i] = fp16_from_float((float)((int)(check_random(&seed) % 2001) - 1000) / 256.0f);
    return made;
}

static spyre_ktir_value array(void *bytes, size_t byte_count)
{
    return (spyre_ktir_value){.bytes = bytes, .byte_count = (int64_t)byte_count};
}

static void assert_near(uint16_t found, float expected)
{
    float value = fp16_to_float(found);
    if (fabsf(value - expected) > 0.01f * (1 + fabsf(expected)))
        fail_msg("%g is not %g", (double)value, (double)expected);
}

static void run__scale(void **state)
{
    (void)state;
    spyre_ktir *kernel = golden_kernel("scale.mlir");
    uint16_t *x = halves(1, 4096), *y = calloc(4096, 2);
    spyre_ktir_value values[] = {array(x, 8192), array(y, 8192), {.integer = 16}, {.real = 1.5}};
    assert_ok(spyre_ktir_interpret(kernel, &(spyre_ktir_options){0}, values));
    for (int i = 0; i < 4096; i++) assert_near(y[i], 1.5f * fp16_to_float(x[i]));
    free(x);
    free(y);
    spyre_ktir_destroy(kernel);
}

static void run__rows(void **state)
{
    (void)state;
    spyre_ktir *kernel = golden_kernel("rows.mlir");
    uint16_t *x = halves(2, 512), *y = calloc(512, 2);
    spyre_ktir_value values[] = {array(x, 1024), array(y, 1024)};
    assert_ok(spyre_ktir_interpret(kernel, &(spyre_ktir_options){0}, values));
    for (int r = 0; r < 4; r++) {
        float sum = 0, top = -INFINITY;
        for (int c = 0; c < 128; c++) {
            sum += fp16_to_float(x[r * 128 + c]);
            top = fmaxf(top, fp16_to_float(x[r * 128 + c]));
        }
        for (int c = 0; c < 128; c++)
            assert_near(y[r * 128 + c], fp16_to_float(x[r * 128 + c]) - sum / 128 - top);
    }
    free(x);
    free(y);
    spyre_ktir_destroy(kernel);
}

static void run__product(void **state)
{
    (void)state;
    spyre_ktir *kernel = golden_kernel("product.mlir");
    uint16_t *a = halves(3, 32 * 128), *b = halves(4, 128 * 192), *c = calloc(32 * 192, 2);
    spyre_ktir_value values[] = {array(a, 32 * 128 * 2), array(b, 128 * 192 * 2),
                                 array(c, 32 * 192 * 2), {.integer = 128}};
    assert_ok(spyre_ktir_interpret(kernel, &(spyre_ktir_options){0}, values));
    for (int r = 0; r < 32; r++)
        for (int n = 0; n < 192; n++) {
            float sum = 0;
            for (int k = 0; k < 128; k++)
                sum += fp16_to_float(a[r * 128 + k]) * fp16_to_float(b[k * 192 + n]);
            if (fabsf(fp16_to_float(c[r * 192 + n]) - sum) > 0.5f)
                fail_msg("%g is not %g", (double)fp16_to_float(c[r * 192 + n]), (double)sum);
        }
    free(a);
    free(b);
    free(c);
    spyre_ktir_destroy(kernel);
}

static void run__gather(void **state)
{
    (void)state;
    spyre_ktir *kernel = golden_kernel("gather.mlir");
    uint16_t *table = halves(5, 32 * 64), *out = calloc(16 * 64, 2);
    int32_t rows[16];
    for (int r = 0; r < 16; r++) rows[r] = (r * 7 + 3) % 32;
    spyre_ktir_value values[] = {array(table, 32 * 64 * 2), array(rows, sizeof rows),
                                 array(out, 16 * 64 * 2)};
    assert_ok(spyre_ktir_interpret(kernel, &(spyre_ktir_options){0}, values));
    for (int i = 0; i < 16 * 64; i++)
        assert_near(out[i], fp16_to_float(table[rows[i / 64] * 64 + i % 64]));
    rows[9] = 32;
    assert_error(spyre_ktir_interpret(kernel, &(spyre_ktir_options){0}, values),
                 SPYRE_DEVICE_FAULT, "gather.mlir:14:10: ktdp.load: compute tile 1: coordinate "
                 "(32, 0) is not in the view of line 9");
    free(table);
    free(out);
    spyre_ktir_destroy(kernel);
}

static void run__between_compute_tiles(void **state)
{
    (void)state;
    spyre_ktir *kernel = golden_kernel("everybody.mlir");
    float x[256], y[128] = {0};
    for (int i = 0; i < 256; i++) x[i] = (float)(i % 19) / 3.0f;
    spyre_ktir_value values[] = {array(x, sizeof x), array(y, sizeof y)};
    assert_ok(spyre_ktir_interpret(kernel, &(spyre_ktir_options){0}, values));
    for (int g = 0; g < 2; g++)
        for (int i = 0; i < 64; i++)
            assert_true(y[g * 64 + i] == x[g * 128 + i] + x[g * 128 + 64 + i]);
    spyre_ktir_destroy(kernel);
}

static void run__flow(void **state)
{
    (void)state;
    spyre_ktir *kernel = golden_kernel("flow.mlir");
    float x[256], y[512] = {0}, numbered[256], back[256], total = 0;
    for (int i = 0; i < 256; i++) x[i] = (float)(i % 23 - 11) / 2.0f;
    for (int i = 0; i < 256; i++) numbered[i] = (x[i] > 0 ? x[i] : 0) + (float)(i / 64);
    for (int i = 0; i < 256; i++) back[i] = i < 128 ? 2 * numbered[i + 64] : numbered[i];
    for (int p = 0; p < 4; p++)
        for (int q = 0; q < 4; q++) total += back[p * 64 + q];
    for (int sign = 0; sign < 2; sign++) {
        spyre_ktir_value values[] = {array(x, sizeof x), array(y, sizeof y),
                                     {.integer = sign ? -4 : 4}};
        assert_ok(spyre_ktir_interpret(kernel, &(spyre_ktir_options){0}, values));
        for (int i = 0; i < 256; i++) {
            assert_true(y[i] == total);
            assert_true(y[256 + i] == (sign ? back[i] : -back[i]));
        }
    }
    spyre_ktir_destroy(kernel);
}

static void run__parts(void **state)
{
    (void)state;
    spyre_ktir *kernel = golden_kernel("parts.mlir");
    uint16_t *a = halves(6, 128), *b = halves(7, 128), *c = calloc(256, 2);
    spyre_ktir_value values[] = {array(a, 256), array(b, 256), array(c, 512), {.integer = 16}};
    assert_ok(spyre_ktir_interpret(kernel, &(spyre_ktir_options){0}, values));
    for (int r = 0; r < 8; r++)
        for (int n = 0; n < 32; n++)
            assert_near(c[r * 32 + n], fp16_to_float(n < 16 ? a[r * 16 + n] : b[r * 16 + n - 16]));
    // LX of compute tile 1, read by compute tile 0.
    spyre_ktir_value none[1] = {0};
    assert_error(spyre_ktir_interpret(kernel, &(spyre_ktir_options){.function = 1}, none),
                 SPYRE_DEVICE_FAULT, "compute tile 0: it touches LX of compute tile 1 without a "
                 "message (the view of line 23)");
    assert_error(spyre_ktir_interpret(kernel, &(spyre_ktir_options){.function = 1, .grid_rank = 1,
                                                                    .grid = {1}}, none),
                 SPYRE_DEVICE_FAULT, "core 1: the grid has 1 compute tiles");
    free(a);
    free(b);
    free(c);
    spyre_ktir_destroy(kernel);
}

// --- Kernels that break a rule

typedef struct {
    const char *name, *body, *error;
    uint64_t steps;
} broken;

static const char head[] =
    "module { func.func @f(%x: index, %n: index) attributes {grid = [2]} {\n"
    "%pid = ktdp.get_compute_tile_id : index\n"
    "%c0 = arith.constant 0 : index\n"
    "%c1 = arith.constant 1 : index\n"
    "%v = ktdp.construct_memory_view %x, sizes: [4, 64], strides: [64, 1] {\n"
    "  memory_space = #ktdp.memory_space<global>} : memref<4x64xf32>\n"
    "%one = arith.constant dense<1.0> : tensor<1x64xf32>\n";

static const broken faults[] = {
    {"race of writers",
     "%p = arith.addi %pid, %c0 : index\n"
     "%i = arith.index_cast %p : index to i32\n"
     "%r = arith.sitofp %i : i32 to f32\n"
     "%s = tensor.splat %r : tensor<1x64xf32>\n"
     "%t = ktdp.construct_access_tile %v[%c1, %c0] : memref<4x64xf32> -> <1x64xindex>\n"
     "ktdp.store %s, %t : tensor<1x64xf32>, <1x64xindex>\n",
     "f.mlir:13:1: ktdp.store: compute tile 1: race: it writes byte 256, which compute tile 0 "
     "writes, and nothing orders the two", 0},
    {"race of a reader",
     "%t = ktdp.construct_access_tile %v[%pid, %c0] : memref<4x64xf32> -> <1x64xindex>\n"
     "%u = ktdp.construct_access_tile %v[%c0, %c0] : memref<4x64xf32> -> <1x64xindex>\n"
     "ktdp.store %one, %t : tensor<1x64xf32>, <1x64xindex>\n"
     "%l = ktdp.load %u : <1x64xindex> -> tensor<1x64xf32>\n",
     "f.mlir:11:6: ktdp.load: compute tile 1: race: it reads byte 0, which compute tile 0 writes",
     0},
    {"off the view",
     "%t = ktdp.construct_access_tile %v[%n, %c1] : memref<4x64xf32> -> <1x64xindex>\n"
     "%l = ktdp.load %t : <1x64xindex> -> tensor<1x64xf32>\n",
     "f.mlir:9:6: ktdp.load: compute tile 0: coordinate (3, 64) is not in the view of line 5", 0},
    {"off the memory",
     "%w = ktdp.construct_memory_view %x, sizes: [5, 64], strides: [64, 1] {\n"
     "  memory_space = #ktdp.memory_space<global>} : memref<5x64xf32>\n"
     "%c4 = arith.constant 4 : index\n"
     "%t = ktdp.construct_access_tile %w[%c4, %c0] : memref<5x64xf32> -> <1x64xindex>\n"
     "%l = ktdp.load %t : <1x64xindex> -> tensor<1x64xf32>\n",
     "byte 1024 of a memory of 1024 bytes (the view of line 8)", 0},
    {"step of zero",
     "scf.for %i = %c0 to %n step %c0 {\n}\n",
     "f.mlir:8:1: scf.for: compute tile 0: step 0: the loop never ends", 0},
    {"steps",
     "%much = arith.constant 1000000000000 : index\n"
     "scf.for %i = %c0 to %much step %c1 {\n%k = arith.addi %i, %i : index\n}\n",
     "f.mlir:9:1: scf.for: compute tile 0: more than 1000 operations: it does not end", 1000},
    {"iterations of nothing",
     "%much = arith.constant 1000000000000 : index\n"
     "scf.for %i = %c0 to %much step %c1 {\n}\n",
     "f.mlir:9:1: scf.for: compute tile 0: more than 1000 operations: it does not end", 1000},
    {"division by zero",
     "%q = arith.divsi %n, %c0 : index\n",
     "f.mlir:8:6: arith.divsi: compute tile 0: arith.divsi of 3 and 0 has no result", 0},
    {"product of an address",
     "%q = arith.muli %x, %n : index\n",
     "arith.muli: compute tile 0: %x is an address", 0},
    {"index beyond a tensor",
     "%e = tensor.extract %one[%c1, %c0] : tensor<1x64xf32>\n",
     "tensor.extract: compute tile 0: index 1 of dim 0, which has 1", 0},
    {"LX that nobody has written",
     "%w = ktdp.construct_memory_view %c0, sizes: [64], strides: [1] {\n"
     "  memory_space = #ktdp.memory_space<ct_local>} : memref<64xf32>\n"
     "%t = ktdp.construct_access_tile %w[%c0] : memref<64xf32> -> <64xindex>\n"
     "%l = ktdp.load %t : <64xindex> -> tensor<64xf32>\n",
     "byte 0 of LX of compute tile 0 has never been written", 0},
    {"a compute tile that never comes",
     "%first = arith.cmpi eq, %pid, %c0 : index\n"
     "scf.if %first {\n"
     "%t = ktdp.construct_access_tile %v[%c0, %c0] : memref<4x64xf32> -> <1x64xindex>\n"
     "%f = ktdp.inter_tile_produce producer_tiles_per_group = affine_set<(i) : (i >= 0, i <= 1)>\n"
     "  -> <(tensor<1x64xf32>), groups = affine_set<(g) : (g == 0)>> {\n"
     "ktdp.yield_partial %one : tensor<1x64xf32>\n}\n"
     "%s = ktdp.inter_tile_reduce(%f) consumer_tiles_per_group = affine_set<(i) : (i == 0)>\n"
     "  : <(tensor<1x64xf32>), groups = affine_set<(g) : (g == 0)>> -> tensor<1x64xf32> {\n"
     "^bb0(%a: tensor<1x64xf32>, %b: tensor<1x64xf32>):\n"
     "%q = arith.addf %a, %b : tensor<1x64xf32>\n"
     "ktdp.yield_reduced %q : tensor<1x64xf32>\n}\n}\n",
     "f.mlir:15:6: ktdp.inter_tile_reduce: compute tile 0: it waits for compute tile 1, which has "
     "ended", 0},
};

static void run__faults(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        text source = {0};
        spyre_ktir *kernel;
        float x[256] = {0};
        spyre_ktir_value values[8] = {array(x, sizeof x), {.integer = 3}};   // then views
        text_printf(&source, "%s%sreturn\n} }\n", head, faults[i].body);
        assert_ok(spyre_ktir_parse(source.bytes, "f.mlir", &kernel));
        assert_error(spyre_ktir_interpret(kernel,
                                          &(spyre_ktir_options){.most_steps = faults[i].steps},
                                          values),
                     SPYRE_DEVICE_FAULT, faults[i].error);
        spyre_ktir_destroy(kernel);
        text_free(&source);
    }
}

// A store of the bits that are there is no race, nor is what a reduction orders.
static void run__what_is_no_race(void **state)
{
    (void)state;
    text source = {0};
    spyre_ktir *kernel;
    float x[256] = {0};
    spyre_ktir_value values[] = {array(x, sizeof x), {.integer = 3}};
    text_printf(&source, "%s%sreturn\n} }\n", head,
                "%t = ktdp.construct_access_tile %v[%c0, %c0] : memref<4x64xf32> -> <1x64xindex>\n"
                "ktdp.store %one, %t : tensor<1x64xf32>, <1x64xindex>\n");
    assert_ok(spyre_ktir_parse(source.bytes, "f.mlir", &kernel));
    assert_ok(spyre_ktir_interpret(kernel, &(spyre_ktir_options){0}, values));
    for (int i = 0; i < 256; i++) assert_true(x[i] == (i < 64 ? 1.0f : 0.0f));
    spyre_ktir_destroy(kernel);
    text_free(&source);
}

// --- Elements

static void run__integers(void **state)
{
    (void)state;
    static const struct {
        ktir_integer op;
        ktir_element element;
        int64_t x, y, expected;
    } cases[] = {
        {KTIR_INTEGER_ADD, KTIR_I32, INT32_MAX, 1, INT32_MIN},
        {KTIR_INTEGER_DIV, KTIR_I64, INT64_MIN, -1, INT64_MIN},
        {KTIR_INTEGER_UDIV, KTIR_I32, -1, 2, INT32_MAX},
        {KTIR_INTEGER_REM, KTIR_I32, -7, 3, -1},
        {KTIR_INTEGER_FLOORDIV, KTIR_I32, -7, 3, -3},
        {KTIR_INTEGER_CEILDIV, KTIR_I32, 7, 3, 3},
        {KTIR_INTEGER_CEILDIV, KTIR_I32, -7, 3, -2},
        {KTIR_INTEGER_SHR, KTIR_I8, -128, 3, -16},
        {KTIR_INTEGER_USHR, KTIR_I8, -128, 3, 16},
        {KTIR_INTEGER_UMAX, KTIR_I16, -1, 1, -1},
        {KTIR_INTEGER_SHL, KTIR_I32, 1, 31, INT32_MIN},
    };
    int64_t found;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_true(ktir_integer_apply(cases[i].op, cases[i].element, cases[i].x, cases[i].y,
                                       &found));
        assert_true(found == cases[i].expected);
    }
    assert_false(ktir_integer_apply(KTIR_INTEGER_UREM, KTIR_I32, 1, 0, &found));
    assert_false(ktir_integer_apply(KTIR_INTEGER_SHL, KTIR_I32, 1, 32, &found));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(run__scale),
        cmocka_unit_test(run__rows),
        cmocka_unit_test(run__product),
        cmocka_unit_test(run__gather),
        cmocka_unit_test(run__between_compute_tiles),
        cmocka_unit_test(run__flow),
        cmocka_unit_test(run__parts),
        cmocka_unit_test(run__faults),
        cmocka_unit_test(run__what_is_no_race),
        cmocka_unit_test(run__integers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
