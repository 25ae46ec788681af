// SPDX-License-Identifier: Apache-2.0
//
// Kernels as programs of the card: the same bytes as the interpreter, in fast and exact mode and
// under the checker; what the card has no instruction for is refused by name and place.
#include "unit/ktir/golden_kernel.h"

#include <stdlib.h>

#include "spyre/graph.h"
#include "spyre/ktir.h"
#include "tensor/numeric.h"

enum { MOST_PARAMETERS = 8 };

// A call with arrays of random elements; numbers are given.
typedef struct {
    spyre_ktir_value values[MOST_PARAMETERS];
    void *arrays[MOST_PARAMETERS];
    uint32_t count;
} call;

static void fill(const spyre_ktir_parameter *p, spyre_ktir_value *value, uint64_t seed)
{
    int64_t elements = value->byte_count / spyre_dtype_bytes(p->dtype);
    for (int64_t i = 0; i < elements; i++) {
        int number = (int)(check_random(&seed) % 801) - 400;
        if (p->dtype == SPYRE_DTYPE_F16)
            ((uint16_t *)value->bytes)[i] = fp16_from_float((float)number / 128.0f);
        else if (p->dtype == SPYRE_DTYPE_F32) ((float *)value->bytes)[i] = (float)number / 128.0f;
        else ((int32_t *)value->bytes)[i] = (number + 400) % 32;
    }
}

static call make_call(const spyre_ktir *kernel, const spyre_ktir_value *numbers)
{
    call c = {.count = spyre_ktir_parameter_count(kernel, 0)};
    assert_true(c.count <= MOST_PARAMETERS);
    for (uint32_t n = 0; n < c.count; n++) {
        spyre_ktir_parameter p;
        spyre_ktir_describe_parameter(kernel, 0, n, &p);
        c.values[n] = numbers[n];
        if (!p.is_memory) continue;
        int64_t bytes = spyre_dtype_bytes(p.dtype);
        for (uint32_t d = 0; d < p.rank; d++) bytes *= p.size[d] < 0 ? 16 : p.size[d];
        // Twice the first view: norm.mlir has two side by side.
        if (!p.is_view) bytes *= 2;
        c.arrays[n] = malloc((size_t)bytes);
        c.values[n] = (spyre_ktir_value){.bytes = c.arrays[n], .byte_count = bytes};
        fill(&p, &c.values[n], 1 + n);
    }
    return c;
}

static void free_call(call *c)
{
    for (uint32_t n = 0; n < c->count; n++) free(c->arrays[n]);
}

static void assert_equal_bytes(const char *name, const spyre_ktir_value *numbers,
                               const spyre_ktir_options *options)
{
    spyre_ktir *kernel = golden_kernel(name);
    spyre_ktir_program *program;
    spyre_context *context;
    call by_definition = make_call(kernel, numbers), on_card = make_call(kernel, numbers);
    assert_ok(spyre_ktir_interpret(kernel, options, by_definition.values));
    assert_ok(spyre_ktir_lower(kernel, options, on_card.values, &program));
    assert_ok(spyre_context_create(1, &context));
    assert_ok(spyre_ktir_program_run(context, 0, program, on_card.values));
    for (uint32_t n = 0; n < on_card.count; n++)
        if (on_card.arrays[n])
            assert_memory_equal(on_card.arrays[n], by_definition.arrays[n],
                                (size_t)on_card.values[n].byte_count);
    free_call(&by_definition);
    free_call(&on_card);
    spyre_context_destroy(context);
    spyre_ktir_program_destroy(program);
    spyre_ktir_destroy(kernel);
}

static const struct {
    const char *name;
    spyre_ktir_value numbers[MOST_PARAMETERS];
} golden[] = {
    {"scale.mlir", {{0}, {0}, {.integer = 16}, {.real = 1.25}}},
    {"rows.mlir", {{0}}},
    {"product.mlir", {{0}, {0}, {0}, {.integer = 128}}},
    {"gather.mlir", {{0}}},
    {"scatter.mlir", {{0}}},
    {"band.mlir", {{0}}},
    {"everybody.mlir", {{0}}},
    {"norm.mlir", {{0}, {0}, {.real = 0.001}}},
    {"heads.mlir", {{0}}},
    {"causal.mlir", {{0}, {0}, {.integer = 4}}},
    {"parts.mlir", {{0}, {0}, {0}, {.integer = 16}}},
    {"slices.mlir", {{0}}},
    {"waves.mlir", {{0}, {0}, {.integer = 3}}},
    {"flow.mlir", {{0}, {0}, {.integer = 17}}},
    {"flow.mlir", {{0}, {0}, {.integer = -5}}},
    {"nests.mlir", {{0}}},
    {"lookup.mlir", {{0}}},
    {"unequal.mlir", {{0}}},
    {"spellings.mlir", {{0}}},
    {"numbers.mlir", {{0}}},
    {"places.mlir", {{0}}},
    {"lowered.mlir", {{0}, {0}, {.integer = 2}}},
    {"lowered.mlir", {{0}, {0}, {.integer = -1}}},
};

static void run_golden(void)
{
    for (size_t i = 0; i < sizeof golden / sizeof *golden; i++)
        assert_equal_bytes(golden[i].name, golden[i].numbers, &(spyre_ktir_options){0});
}

static void lower__gives_the_interpreters_bytes(void **state)
{
    (void)state;
    run_golden();
}

static void lower__in_exact_mode(void **state)
{
    (void)state;
    setenv("SPYRE_CARD_MODE", "exact", 1);
    run_golden();
    unsetenv("SPYRE_CARD_MODE");
}

static void lower__under_the_checker(void **state)
{
    (void)state;
    setenv("SPYRE_CARD_CHECK", "1", 1);
    run_golden();
    unsetenv("SPYRE_CARD_CHECK");
}

// Cores run the loop 5 or 4 times, or not at all; compute tiles beyond 32 come in a second wave.
static void lower__grids(void **state)
{
    (void)state;
    static const spyre_ktir_value numbers[MOST_PARAMETERS] = {
        {0}, {0}, {.integer = 15}, {.real = -2.5}};
    for (int64_t tiles = 3; tiles <= 48; tiles += 9)
        assert_equal_bytes("scale.mlir", numbers,
                           &(spyre_ktir_options){.grid_rank = 1, .grid = {tiles}});
}

// Waves that are a loop, with some left, and those whose coordinates do not advance alike.
static void lower__waves(void **state)
{
    (void)state;
    static const spyre_ktir_value numbers[MOST_PARAMETERS] = {{0}, {0}, {.integer = 2}};
    static const int64_t grids[][2] = {{8, 24}, {7, 20}, {1, 26}, {8, 8}, {3, 25}};
    for (size_t n = 0; n < sizeof grids / sizeof *grids; n++) {
        const spyre_ktir_options options = {.grid_rank = 2, .grid = {grids[n][0], grids[n][1]}};
        assert_equal_bytes("waves.mlir", numbers, &options);
    }
}

static void assert_refused(const char *name, const spyre_ktir_value *numbers,
                           const spyre_ktir_options *options, spyre_code code, const char *error)
{
    spyre_ktir *kernel = golden_kernel(name);
    spyre_ktir_program *program;
    assert_error(spyre_ktir_lower(kernel, options, numbers, &program), code, error);
    assert_null(program);
    spyre_ktir_destroy(kernel);
}

static void lower__what_the_card_has_not(void **state)
{
    (void)state;
    static const spyre_ktir_value some[MOST_PARAMETERS] = {
        {0}, {0}, {.integer = 17}, {.integer = 16}};
    const spyre_ktir_options plain = {0};
    assert_refused("parts.mlir", some, &(spyre_ktir_options){.function = 1}, SPYRE_DEVICE_FAULT,
                   "parts.mlir:25:10: ktdp.load: compute tile 0: it touches LX of compute tile 1 "
                   "without a message (the view of line 23)");
    assert_refused("scale.mlir", some, &plain, SPYRE_DEVICE_FAULT,
                   "scale.mlir:11:13: ktdp.construct_access_tile: compute tile 0: coordinates 16 "
                   "to 16 of dim 0, the view of line 8 has 0 to 15");
    assert_refused("waves.mlir", some, &(spyre_ktir_options){.grid_rank = 2, .grid = {8, 12}},
                   SPYRE_DEVICE_FAULT,
                   "waves.mlir:21:15: ktdp.construct_access_tile: compute tile 88: coordinates 11 "
                   "to 27 of dim 0, the view of line 9 has 0 to 26");
}

// A coordinate_set narrower than the sizes.
static void lower__keeps_to_the_coordinate_set(void **state)
{
    (void)state;
    static const char source[] =
        "module { func.func @f(%x: index, %n: index) {\n"
        "%c = arith.constant 0 : index\n"
        "%v = ktdp.construct_memory_view %x, sizes: [8, 64], strides: [64, 1] {\n"
        "  coordinate_set = affine_set<(d0, d1) : (d0 >= 1, d0 <= 4, d1 >= 0, d1 <= 63)>,\n"
        "  memory_space = #ktdp.memory_space<global>} : memref<8x64xf16>\n"
        "%t = ktdp.construct_access_tile %v[%n, %c] : memref<8x64xf16> -> <2x64xindex>\n"
        "%l = ktdp.load %t : <2x64xindex> -> tensor<2x64xf16>\n"
        "ktdp.store %l, %t : tensor<2x64xf16>, <2x64xindex>\n"
        "return\n} }\n";
    spyre_ktir *kernel;
    assert_ok(spyre_ktir_parse(source, "f.mlir", &kernel));
    for (int64_t n = 0; n < 6; n++) {
        const spyre_ktir_value values[] = {{0}, {.integer = n}};
        spyre_ktir_program *program;
        spyre_status status = spyre_ktir_lower(kernel, &(spyre_ktir_options){0}, values, &program);
        if (n >= 1 && n <= 3) assert_ok(status);
        else assert_error(status, SPYRE_DEVICE_FAULT, "of dim 0, the view of line 3 has 1 to 4");
        spyre_ktir_program_destroy(program);
    }
    spyre_ktir_destroy(kernel);
}

static void lower__tells_where_time_goes(void **state)
{
    (void)state;
    static const spyre_ktir_value numbers[MOST_PARAMETERS] = {
        {0}, {0}, {0}, {.integer = 128}};
    spyre_ktir *kernel = golden_kernel("product.mlir");
    spyre_ktir_program *program;
    uint32_t count;
    char *told;
    assert_ok(spyre_ktir_lower(kernel, &(spyre_ktir_options){0}, numbers, &program));
    const spyre_kernel_counters *kernels = spyre_ktir_program_counters(program, &count);
    assert_int_equal(count, 1);
    assert_int_equal(kernels[count].mac_count, 32 * 128 * 192);
    assert_true(kernels[count].us > 0);
    assert_ok(spyre_ktir_why(program, &told));
    assert_non_null(strstr(told, "786432 multiply-accumulates"));
    assert_non_null(strstr(told, "us roofline, of"));
    spyre_string_free(told);
    assert_ok(spyre_ktir_program_listing(program, &told));
    assert_non_null(strstr(told, "matmul [8, 3, 64]"));
    spyre_string_free(told);
    spyre_ktir_program_destroy(program);
    spyre_ktir_destroy(kernel);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lower__gives_the_interpreters_bytes),
        cmocka_unit_test(lower__in_exact_mode),
        cmocka_unit_test(lower__under_the_checker),
        cmocka_unit_test(lower__grids),
        cmocka_unit_test(lower__waves),
        cmocka_unit_test(lower__what_the_card_has_not),
        cmocka_unit_test(lower__keeps_to_the_coordinate_set),
        cmocka_unit_test(lower__tells_where_time_goes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
