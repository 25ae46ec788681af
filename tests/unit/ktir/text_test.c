// SPDX-License-Identifier: Apache-2.0
//
// The text form: golden modules print as the .printed file beside them says, which prints as itself
// (SPYRE_BLESS=1 rewrites it); invalid modules of tests/invalid/ktir give the error beside them.
#include "unit/ktir/golden_kernel.h"

#include "ktir/ir/ir.h"

#define INVALID SPYRE_TESTS_DIR "/invalid/ktir"

static void print(arena *memory, const char *source, const char *name, text *out)
{
    ktir_module *m;
    assert_ok(ktir_parse(memory, source, strlen(source), name, &m));
    assert_ok(ktir_verify(m));
    ktir_print(m, out);
    assert_ok(text_status(out));
}

static void text__golden_modules(void **state)
{
    (void)state;
    arena *memory = arena_create();
    file_names names = {0};
    assert_ok(file_list(memory, GOLDEN, ".mlir", &names));
    assert_true(names.count >= 7);
    for (uint32_t i = 0; i < names.count; i++) {
        text once = {0}, twice = {0};
        size_t length;
        const char *path = file_join(memory, GOLDEN, names.items[i]);
        const char *stem = arena_strndup(memory, path, strlen(path) - strlen(".mlir"));
        print(memory, read_file(memory, path, &length), names.items[i], &once);
        check_text(arena_printf(memory, "%s.printed", stem), text_string(&once), names.items[i]);
        print(memory, text_string(&once), "printed", &twice);
        assert_string_equal(text_string(&twice), text_string(&once));
        text_free(&once);
        text_free(&twice);
    }
    arena_destroy(memory);
}

static void text__invalid_modules(void **state)
{
    (void)state;
    arena *memory = arena_create();
    file_names names = {0};
    uint32_t count = 0;
    assert_ok(file_list(memory, INVALID, "", &names));
    for (uint32_t i = 0; i < names.count; i++) {
        const char *directory = file_join(memory, INVALID, names.items[i]);
        size_t length;
        const char *source = read_file(memory, file_join(memory, directory, "input.mlir"), &length);
        ktir_module *m;
        spyre_status status = ktir_parse(memory, source, length, "input.mlir", &m);
        if (!status) status = ktir_verify(m);
        char *error = arena_printf(memory, "%s\n", spyre_status_message(status));
        spyre_status_free(status);
        check_text(file_join(memory, directory, "error"), error, names.items[i]);
        count++;
    }
    assert_true(count >= 50);
    arena_destroy(memory);
}

// What RFC 0682 writes and its successors do not: HBM and LX by name, expressions as subscripts,
// index views without ind(), "/" and "%", operations that change their outs.
static void text__spellings_of_the_rfc(void **state)
{
    (void)state;
    static const char source[] =
        "module { func.func @f(%n: index) {\n"
        "  %c = arith.constant 0 : index\n"
        "  %x = ktdp.construct_memory_view %n, sizes: [8, 64], strides: [64, 1] {\n"
        "    memory_space = #ktdp.spyre_memory_space<HBM> } : memref<8x64xfp16>\n"
        "  %i = ktdp.construct_memory_view %n, sizes: [4], strides: [1] {\n"
        "    memory_space = #ktdp.spyre_memory_space<LX, core = 3> } : memref<4xsi32>\n"
        "  %t = ktdp.construct_access_tile %x[%n + %c, 2 * %n - 4] :\n"
        "    memref<8x64xf16> -> !ktdp.access_tile< 1 x 64 x index>\n"
        "  %g = ktdp.construct_indirect_access_tile intermediate_variables (%a, %b)\n"
        "    %x[i[%a / 2], %b % 64] {\n"
        "    variables_space_set = affine_set<(d0, d1) : (d0 >= 0, d0 <= 3, 63 >= d1, d1 >= 0)>\n"
        "    } : memref<8x64xf16>, memref<4xi32> -> <4x64xindex>\n"
        "  %v = ktdp.load %t : <1x64xindex> -> tensor<1x64xf16>\n"
        "  %e = tensor.empty() : tensor<1x64xf16>\n"
        "  linalg.add ins(%v, %v : tensor<1x64xf16>, tensor<1x64xf16>)\n"
        "    outs(%e: tensor<1x64xf16>) -> tensor<1x64xf16>\n"
        "  ktdp.store %e, %t : tensor<1x64xf16>, <1x64xindex>\n"
        "  return\n"
        "} }\n";
    arena *memory = arena_create();
    text once = {0}, twice = {0};
    print(memory, source, "rfc", &once);
    assert_non_null(strstr(once.bytes, "%x[%n + %c, 2 * %n - 4]"));
    assert_non_null(strstr(once.bytes, "%x[ind(%i[%a floordiv 2]), (%b mod 64)]"));
    assert_non_null(strstr(once.bytes, "ct_local, ct_id = 3"));
    assert_non_null(strstr(once.bytes, "(d0 >= 0, 3 - d0 >= 0, 63 - d1 >= 0, d1 >= 0)"));
    print(memory, once.bytes, "printed", &twice);
    assert_string_equal(twice.bytes, once.bytes);
    text_free(&once);
    text_free(&twice);
    arena_destroy(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text__golden_modules),
        cmocka_unit_test(text__invalid_modules),
        cmocka_unit_test(text__spellings_of_the_rfc),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
