// SPDX-License-Identifier: Apache-2.0
//
// The text form of the loop IR: golden files and every stage of a compilation read back as
// themselves; broken texts of tests/invalid/loop give the error beside them (SPYRE_BLESS=1 rewrites
// it).
#include "unit/check.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "front/ir/dim_names.h"
#include "support/front_case.h"

#define GOLDEN  SPYRE_TESTS_DIR "/golden/graph"
#define INVALID SPYRE_TESTS_DIR "/invalid/loop"

enum { LIMIT_BYTES = 1 << 20 };

static char *read(arena *memory, const char *path)
{
    char *content;
    size_t length;
    assert_ok(file_read(memory, path, LIMIT_BYTES, &content, &length));
    return content;
}

static void assert_prints(const char *source, const char *name, const char *expected)
{
    arena *memory = arena_create();
    loop_graph *loops;
    text printed = {0};
    assert_ok(loop_parse(source, name, NULL, memory, &loops));
    loop_print(loops, &printed);
    assert_string_equal(text_string(&printed), expected);
    assert_ok(loop_check_text(loops));
    text_free(&printed);
    arena_destroy(memory);
}

static void parse__golden_files(void **state)
{
    (void)state;
    arena *memory = arena_create();
    file_names names = {0};
    uint32_t count = 0;
    assert_ok(file_list(memory, GOLDEN, ".loop", &names));
    for (uint32_t i = 0; i < names.count; i++) {
        const char *source = read(memory, file_join(memory, GOLDEN, names.items[i]));
        if (strstr(source, "// segment")) continue;         // several in one file
        assert_prints(source, names.items[i], source);
        count++;
    }
    assert_true(count >= 10);
    arena_destroy(memory);
}

static void parse__blanks_and_comments(void **state)
{
    (void)state;
    assert_prints("// of a test\n\n  after  build\r\n"
                  "pool  512\n"
                  "set  sencores =4\n"
                  "buffer b0  input float16 SEN169_FP16 dims( 128:1 )layout( 0 * )//x\r\n"
                  "  // in between\n"
                  "buffer b1 constant float16 SEN169_FP16 dims() layout(sparse) value(-inf)  // c\n"
                  "buffer b2 local float16 SEN169_FP16 dims(128:1)  // y; in memory: it leaves\n"
                  "op 0 maximum for(c0 < 128)// y, a, b.py:3; why; not\n"
                  "b2[0+1*c0]=b0[0+1*c0]b1[0]\n"
                  "return b2[0]\n",
                  "blanks",
                  "after build\n"
                  "set sencores=4\n"
                  "pool 512\n"
                  "buffer b0 input float16 SEN169_FP16 dims(128:1) layout(0*)  // x\n"
                  "buffer b1 constant float16 SEN169_FP16 dims() layout(sparse) value(-inf)  // c\n"
                  "buffer b2 local float16 SEN169_FP16 dims(128:1)  // y; in memory: it leaves\n"
                  "op 0 maximum for(c0<128) node(0)  // y, a, b.py:3; why; not\n"
                  "    b2[0 + 1*c0] = b0[0 + 1*c0] b1[0]\n"
                  "return b2[0]\n");
}

static void parse__what_the_text_says(void **state)
{
    (void)state;
    arena *memory = arena_create();
    loop_graph *loops;
    assert_ok(loop_parse("after lx_planning\n"
                         "buffer b0 input int64 IEEE_INT32 dims(8:1) layout(0*)  // i\n"
                         "buffer b1 input float16 SEN169_FP16 dims(96:1 10:96) "
                         "tensor(10:96 1:96 96:1) layout(0* 1) room(1:12) "
                         "names(\"R,,C\" 10:96 1:1 96:1)  // t\n"
                         "buffer b2 local float16 SEN169_FP16 dims(96:1 8:96) layout(0* 1) "
                         "output(0) per_tile(1) walked lx(256+1024) slices(1/4)  // y\n"
                         "op 0 identity gather for(c0<4 \"M\", c1<96 stick) in(t2<2* M) "
                         "split(c0/4:8) by(hint) rows(10:96) node(3) work_div(\"M=4\")  "
                         "// y, m.py:1\n"
                         "    b2[0 + 96*c0 + 1*c1 + 384*t2] = b0[0 + 1*c0 + 4*t2] b1[0 + 1*c1]\n",
                         "t", NULL, memory, &loops));
    const loop_op *op = &loops->ops.items[0];
    const loop_buffer *y = &loops->buffers.items[2];
    assert_true(op->table == 1 && op->row_count == 10 && op->row_stride == 96);
    assert_int_equal(op->stick, 1);
    assert_int_equal(op->split[0], 4);
    assert_int_equal(op->core_stride[0], 8);
    assert_int_equal(op->operand_count, 3);
    assert_int_equal(op->operand[2].tile_stride[0], 384);
    assert_int_equal(loops->tiles.items[2].count, 2);
    assert_true(y->in_lx && y->bytes == 1024 && y->memory_offset == 256);
    assert_int_equal(y->slices[1], 4);
    assert_true(loops->tiles.items[2].unrolled && y->tile_depth == 1 && y->walked);
    assert_int_equal(front_passes[loops->stage - 1].run == pass_lx_planning, 1);
    assert_int_equal(op->divided_by, LOOP_DIVIDED_BY_HINT);
    assert_string_equal(dim_names_of(loops, op, 0), "M");
    const spyre_graph *graph = loops->graph;
    assert_int_equal(graph->inputs.count, 2);
    assert_string_equal(graph->locations.items[graph->inputs.items[1].dims], "R,,C");
    assert_int_equal(graph->inputs.items[1].layout.device_size[0], 12);
    assert_int_equal(loops->buffers.items[1].storage.rank, 3);
    assert_string_equal(graph->locations.items[graph->nodes.items[op->node].hint.work_div], "M=4");
    assert_string_equal(op->location, "m.py:1");
    assert_null(op->note);
    arena_destroy(memory);
}

static void parse__broken_texts_are_refused(void **state)
{
    (void)state;
    arena *memory = arena_create();
    file_names names = {0};
    assert_ok(file_list(memory, INVALID, "", &names));
    for (uint32_t i = 0; i < names.count; i++) {
        const char *folder = file_join(memory, INVALID, names.items[i]);
        const char *path = file_join(memory, folder, "error");
        loop_graph *loops;
        spyre_status status =
            loop_parse(read(memory, file_join(memory, folder, "input")), "input", NULL, memory,
                       &loops);
        if (!status) fail_msg("%s was read", folder);
        assert_int_equal(spyre_status_code(status), SPYRE_INVALID_FORMAT);
        const char *message = arena_printf(memory, "%s\n", spyre_status_message(status));
        spyre_status_free(status);
        if (getenv("SPYRE_BLESS")) assert_ok(file_write(path, message, strlen(message)));
        assert_string_equal(message, read(memory, path));
    }
    assert_true(names.count >= 30);
    arena_destroy(memory);
}

static void parse__every_stage_reads_back(void **state)
{
    (void)state;
    static const char *const stages[] = {
#define PASS_ROW(name, kind, summary) #name,
#include "front/pass.def"
#undef PASS_ROW
    };
    for (size_t i = 0; i < sizeof stages / sizeof stages[0]; i++) {
        front_run run = front_run_begin();
        spyre_view view = sizes_view(2, 48, 200, 0);
        uint32_t x = front_case_input(&run, view);
        uint32_t e = front_case_unary(&run, "spyre.exp", x, view);
        front_case_output(&run, front_case_binary(&run, "spyre.mul", e,
                                                  front_case_constant(&run, 1e30), view));
        assert_ok(loop_check_text(front_case_before(&run, 8, stages[i])));
        front_run_end(&run);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parse__golden_files),
        cmocka_unit_test(parse__blanks_and_comments),
        cmocka_unit_test(parse__what_the_text_says),
        cmocka_unit_test(parse__broken_texts_are_refused),
        cmocka_unit_test(parse__every_stage_reads_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
