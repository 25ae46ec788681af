// SPDX-License-Identifier: Apache-2.0
//
// What the reader makes of right files, the exact message for every broken one in
// tests/invalid/bundle (SPYRE_BLESS=1 rewrites the messages), and mutated golden files.
#include "unit/bundle/golden.h"

#include "base/file.h"
#include "base/json.h"
#include "bundle/files.h"
#include "bundle/mlir.h"
#include "bundle/read.h"

#define GOLDEN SPYRE_TESTS_DIR "/golden/bundle"
#define INVALID SPYRE_TESTS_DIR "/invalid/bundle"

// --- Right files

static void read__absolute_addresses(void **state)
{
    (void)state;
    arena *memory = arena_create();
    bundle *b;
    assert_ok(bundle_read(memory, GOLDEN "/add_scalar", false, &b));
    assert_int_equal(b->args.count, 3);
    assert_int_equal(b->args.items[0].kind, BUNDLE_ARG_TENSOR);
    assert_int_equal(b->args.items[0].bytes, 0);
    const bundle_step *s = &b->steps.items[0];
    assert_string_equal(s->name, "0_add");
    assert_int_equal(s->op, OPFUNC_ADD);
    assert_int_equal(s->cores->core_count, 2);
    assert_string_equal(s->dim_name[1], "out");
    assert_int_equal(s->size[1], 128);
    assert_int_equal(s->cores->slices[0], 2);
    assert_int_equal(s->cores->core_slice[1][0], 1);
    assert_int_equal(s->tensors[1].scale[0], -1);
    assert_int_equal(s->tensors[1].scale[1], -2);
    assert_int_equal(s->tensors[2].arg, 2);
    assert_int_equal(bundle_start(&s->tensors[2], 1), 256);
    assert_int_equal(s->input_count, 2);
    assert_int_equal(s->output, 2);
    assert_int_equal(s->compute_format, SPYRE_FORMAT_SEN169_FP16);
    arena_destroy(memory);
}

static void read__pool_comes_first(void **state)
{
    (void)state;
    arena *memory = arena_create();
    bundle *b;
    assert_ok(bundle_read(memory, GOLDEN "/layernorm", true, &b));
    assert_int_equal(b->args.count, 5);
    assert_int_equal(b->args.items[0].kind, BUNDLE_ARG_POOL);
    assert_int_equal(b->args.items[1].kind, BUNDLE_ARG_TENSOR);
    assert_int_equal(b->steps.count, 3);
    assert_int_equal(b->steps.items[0].input_count, 1);     // the output's second mention is gone
    assert_true(bundle_constant_value(&b->steps.items[0], 0) == 1.0f / 128.0f);
    arena_destroy(memory);
}

static void read__symbols_and_loops(void **state)
{
    (void)state;
    arena *memory = arena_create();
    bundle *b;
    assert_ok(bundle_read(memory, GOLDEN "/loops", false, &b));
    assert_int_equal(b->body.count, 6);
    assert_int_equal(b->body.items[0].kind, BUNDLE_LOOP);
    assert_int_equal(b->body.items[0].count, 3);
    assert_int_equal(b->body.items[1].count, 2);
    assert_int_equal(b->body.items[4].kind, BUNDLE_END);
    const bundle_tensor *tensor = &b->steps.items[0].tensors[0];
    assert_int_equal(tensor->arg, 0);
    assert_int_equal(bundle_start(tensor, 1), 128);
    assert_int_equal(tensor->loop_stride[0], 512);
    assert_int_equal(tensor->loop_stride[1], 256);
    assert_int_equal(tensor->loop_stride[2], 0);
    assert_ok(bundle_read(memory, GOLDEN "/many_arguments", false, &b));
    assert_int_equal(b->args.count, 8);
    assert_int_equal(b->args.items[0].kind, BUNDLE_ARG_POOL);
    assert_int_equal(b->steps.items[1].tensors[1].arg, 6);     // %arg_5 behind the pool
    arena_destroy(memory);
}

static void read__masks_gaps_and_gathers(void **state)
{
    (void)state;
    arena *memory = arena_create();
    bundle *b;
    assert_ok(bundle_read(memory, GOLDEN "/matmul", false, &b));
    assert_int_equal(b->steps.items[0].tensors[1].gap[2], -28);
    assert_int_equal(bundle_unmasked_size(&b->steps.items[0], 2), 100);
    assert_int_equal(b->steps.items[0].mask_constant, -1);
    assert_ok(bundle_read(memory, GOLDEN "/gather", false, &b));
    const bundle_step *s = &b->steps.items[0];
    assert_int_equal(s->index_count, 1);
    assert_int_equal(s->inputs[0], 1);
    assert_int_equal(s->tensors[1].indexed_extent, 10);
    assert_int_equal(s->tensors[1].index_peer, 0);
    assert_int_equal(s->tensors[1].max_size[0], 1);
    assert_ok(bundle_read(memory, GOLDEN "/mean_rows", false, &b));
    assert_true(b->steps.items[0].nonstick);
    arena_destroy(memory);
}

// Forms of bundle.mlir that torch-spyre does not write but MLIR has.
static void read__inline_maps_and_comments(void **state)
{
    (void)state;
    static const char source[] =
        "// a comment\n"
        "module { func.func @f(%pool_base_addr : !sdscbundle.input_arg<index>,"
        " %arg_3_base_addr: !sdscbundle.input_arg<index>) {\n"
        "%p = sdscbundle.input_arg_extract value from %pool_base_addr\n"
        "%a = sdscbundle.input_arg_extract value from %arg_3_base_addr :"
        " !sdscbundle.input_arg<index> -> index\n"
        "%c2 = arith.constant 2 %c9 = arith.constant 9\n"
        "scf.for %i = %c2 to %c9 step %c2 {\n"
        "%x = affine.apply affine_map<(d0)[s0] -> (d0*-128 + s0 - 3 - 4*d0 -5)>(%i)[%a]\n"
        "sdscbundle.sdsc_execute (%x, %p) {\"symbol_ids\"=[-4, -9], sdsc_filename=\"s.json\"} }\n"
        "return } }\n";
    arena *memory = arena_create();
    mlir_program program;
    assert_ok(mlir_read(memory, source, sizeof source - 1, false, &program));
    assert_true(program.has_pool);
    assert_int_equal(program.arg_count, 2);             // numbers may be left out
    assert_int_equal(program.body.count, 3);
    assert_int_equal(program.body.items[0].count, 4);           // 2, 4, 6, 8
    const mlir_statement *execute = &program.body.items[1];
    assert_string_equal(execute->file, "s.json");
    assert_int_equal(execute->symbol_count, 2);
    assert_int_equal(execute->ids[1], -9);
    assert_int_equal(execute->values[0].arg, 1);
    assert_int_equal(execute->values[0].offset, -8 - 132 * 2);
    assert_int_equal(execute->values[0].loop_stride[0], -132 * 2);
    assert_int_equal(execute->values[1].arg, 0);
    arena_destroy(memory);
}

// --- Broken files

static void expect_message(arena *memory, const char *folder)
{
    bundle *b;
    char *expected;
    size_t length;
    const char *path = file_join(memory, folder, "error");
    spyre_status status = bundle_read(memory, file_join(memory, folder, "files"), false, &b);
    if (!status) fail_msg("%s was read", folder);
    const char *message = arena_printf(memory, "%s\n", spyre_status_message(status));
    spyre_status_free(status);
    if (getenv("SPYRE_BLESS")) assert_ok(file_write(path, message, strlen(message)));
    assert_ok(file_read(memory, path, 4096, &expected, &length));
    assert_string_equal(message, expected);
}

static void read__broken_files_are_refused(void **state)
{
    (void)state;
    arena *memory = arena_create();
    file_names names = {0};
    uint32_t cases = 0;
    assert_ok(file_list(memory, INVALID, "", &names));
    for (uint32_t i = 0; i < names.count; i++) {
        const char *folder = file_join(memory, INVALID, names.items[i]);
        if (!file_is_directory(file_join(memory, folder, "files"))) continue;
        expect_message(memory, folder);
        cases++;
    }
    assert_true(cases >= 25);
    arena_destroy(memory);
}

static void read__missing_files_are_named(void **state)
{
    (void)state;
    arena *memory = arena_create();
    bundle *b;
    assert_error(bundle_read(memory, GOLDEN "/no_such_case", false, &b), SPYRE_NOT_FOUND,
                 "no_such_case/bundle.mlir");
    assert_error(bundle_read(memory, INVALID "/mlir_file_missing/files", false, &b),
                 SPYRE_INVALID_FORMAT, "bundle.mlir:3:");
    arena_destroy(memory);
}

// --- Mutated files

// Overwrites, deletes, doubles or swaps a few bytes.
static size_t mutate(uint64_t *random, char *bytes, size_t length)
{
    static const char favourites[] = "0123456789-,:{}[]()<>\"%#.*+= \nadnsx_";
    uint64_t changes = 1 + check_random(random) % 3;
    for (uint64_t i = 0; i < changes && length > 8; i++) {
        size_t place = check_random(random) % (length - 4), count = 1 + check_random(random) % 4;
        switch (check_random(random) % 4) {
        case 0: bytes[place] = (char)check_random(random); break;
        case 1: bytes[place] = favourites[check_random(random) % (sizeof favourites - 1)]; break;
        case 2:
            memmove(bytes + place, bytes + place + count, length - place - count);
            length -= count;
            break;
        default: memmove(bytes + place, bytes + check_random(random) % (length - 4), count); break;
        }
    }
    bytes[length] = '\0';
    return length;
}

typedef struct {
    uint32_t read, refused;
} fuzz_count;

static void count_status(fuzz_count *count, spyre_status status)
{
    if (status) count->refused++;
    else count->read++;
    spyre_status_free(status);
}

static spyre_status read_mutated_step(arena *memory, const mlir_program *program,
                                      const mlir_statement *statement, const char *bytes,
                                      size_t length)
{
    json_node root;
    bundle_step_room room = {0};
    bundle_step step = bundle_begin_step(&room);
    step_source source = {.memory = memory, .program = program, .statement = statement};
    TRY(json_read_buffer("mutated", bytes, length, &root));
    spyre_status status = read_step(&source, &root, &step);
    json_close(&root);
    if (status) return status;
    bundle *b = make_bundle(memory, source.arg_count, 0);
    TRY(bundle_add_step(b, &step));
    return bundle_verify(b);
}

// torch-spyre's debug_handle_ tells the user's line; what a step was made of is not needed.
static void read__lines_of_the_user(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"{}", NULL},
        {"{\"source\": null}", NULL},
        {"{\"source\": {\"file\": \"net.py\", \"start_line\": 7, \"end_line\": null}}", "net.py:7"},
        {"{\"source\": {\"file\": 3, \"start_line\": 7}}", "source.file: expected a string"},
    };
    arena *memory = arena_create();
    char *bytes;
    size_t length;
    const mlir_statement statement = {0};
    assert_ok(file_read(memory, GOLDEN "/add_scalar/sdsc_0.json", 1 << 20, &bytes, &length));
    const char *place = strchr(strchr(bytes, '{') + 1, '{') + 1;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *json =
            arena_printf(memory, "%.*s\"debug_handle_\": %s,%s", (int)(place - bytes), bytes,
                         cases[i][0], place);
        json_node root;
        bundle_step_room room = {0};
    bundle_step step = bundle_begin_step(&room);
        bundle_warnings warnings = {0};
        step_source source = {
            .memory = memory, .statement = &statement, .warnings = &warnings};
        assert_ok(json_read_buffer("sdsc_0.json", json, strlen(json), &root));
        spyre_status status = read_step(&source, &root, &step);
        if (i == 3) assert_error(status, SPYRE_INVALID_FORMAT, cases[i][1]);
        else assert_ok(status);
        if (i == 2) assert_string_equal(step.location, cases[i][1]);
        else assert_null(step.location);
        assert_int_equal(warnings.count, 0);
        json_close(&root);
    }
    arena_destroy(memory);
}

// Mutations of bundle.mlir, or of the file of one statement of it.
static void fuzz_file(const char *original, size_t length, const mlir_program *of,
                      const mlir_statement *statement, uint64_t *random, fuzz_count *count)
{
    uint32_t rounds = statement ? 60 : 400;
    for (uint32_t i = 0; i < rounds; i++) {
        arena *memory = arena_create();
        char *bytes = arena_alloc(memory, length + 1);
        memcpy(bytes, original, length);
        size_t mutated = mutate(random, bytes, length);
        mlir_program program;
        if (statement)
            count_status(count, read_mutated_step(memory, of, statement, bytes, mutated));
        else
            count_status(count, mlir_read(memory, bytes, mutated, false, &program));
        arena_destroy(memory);
    }
}

static void read__mutated_files_do_no_harm(void **state)
{
    (void)state;
    uint64_t random = 20240601;
    fuzz_count mlir = {0}, steps = {0};
    for (uint32_t i = 0; i < GOLDEN_CASES; i++) {
        arena *memory = arena_create();
        const char *folder = file_join(memory, GOLDEN, golden_cases[i].name);
        char *source, *bytes;
        size_t length;
        mlir_program program;
        assert_ok(file_read(memory, file_join(memory, folder, "bundle.mlir"), 1 << 20, &source,
                            &length));
        assert_ok(mlir_read(memory, source, length, false, &program));
        fuzz_file(source, length, NULL, NULL, &random, &mlir);
        for (uint32_t at = 0; at < program.body.count; at++) {
            const mlir_statement *statement = &program.body.items[at];
            if (statement->kind != BUNDLE_EXECUTE) continue;
            assert_ok(file_read(memory, file_join(memory, folder, statement->file), 1 << 20, &bytes,
                                &length));
            fuzz_file(bytes, length, &program, statement, &random, &steps);
        }
        arena_destroy(memory);
    }
    // Most mutations break something, some only touch what is not read.
    assert_true(mlir.refused > mlir.read / 4 && mlir.read > 0);
    assert_true(steps.refused > 100 && steps.read > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(read__absolute_addresses),
        cmocka_unit_test(read__pool_comes_first),
        cmocka_unit_test(read__symbols_and_loops),
        cmocka_unit_test(read__masks_gaps_and_gathers),
        cmocka_unit_test(read__inline_maps_and_comments),
        cmocka_unit_test(read__broken_files_are_refused),
        cmocka_unit_test(read__missing_files_are_named),
        cmocka_unit_test(read__lines_of_the_user),
        cmocka_unit_test(read__mutated_files_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
