// SPDX-License-Identifier: Apache-2.0
#include "unit/check.h"

#include <math.h>

#include "compile/explore/lx_stage.h"
#include "compile/explore/lx_map_picture.h"
#include "compile/explore/markup.h"

#define HEAD "lx 1 buffers, at most 1 of 1024 bytes a core, 3 ops\n"
#define OPS "op 0 neg  // a, m.py:1\nop 1 exp  // b, m.py:2\nop 2 add  // c, m.py:3\n"

static void lx_map__prints_what_it_read(void **state)
{
    static const char source[] =
        "lx 3 buffers, at most 640 of 1024 bytes a core, 3 ops\n" OPS
        "buffer b3 lx(0+128) ops(0..1)  // a\n"
        "buffer b4 lx(0+128) ops(1..2) in place of b3  // b\n"
        "buffer b7 lx(512+128) ops(0..2)  // <x>\n";
    (void)state;
    arena *memory = arena_create();
    lx_map map;
    text printed = {0};
    assert_ok(lx_map_parse(memory, "a.lx", source, &map));
    lx_map_print(&map, &printed);
    assert_string_equal(text_string(&printed), source);
    text_free(&printed);
    arena_destroy(memory);
}

static void lx_map__refuses(void **state)
{
    static const struct {
        const char *source, *message;
    } cases[] = {
        {"", "a.lx: line 1: not the head of a map: "
             "'lx N buffers, at most N of N bytes a core, N ops'"},
        {"lx 0 buffers, at most 0 of 0 bytes a core, 0 ops\n",
         "a.lx: line 1: the limit must be above 0 bytes"},
        {HEAD "op 1 neg  // a, m.py:1\n", "a.lx: line 2: ops are numbered from 0 in order"},
        {HEAD "op 0 neg\n", "a.lx: line 2: an op is 'op N OPFUNC  // NAME, LINE'"},
        {HEAD "\n", "a.lx: line 2: neither an op nor a buffer"},
        {HEAD OPS "buffer b0 lx(0+128) ops(0..3)  // a\n",
         "a.lx: line 5: a buffer lives from one op to a later one"},
        {HEAD OPS "buffer b0 lx(0+128) ops(1..1)  // a\n",
         "a.lx: line 5: a buffer lives from one op to a later one"},
        {HEAD OPS "buffer b0 lx(1000+128) ops(0..1)  // a\n",
         "a.lx: line 5: a buffer has bytes, all below the limit"},
        {HEAD OPS "buffer b0 lx(9223372036854775807+9223372036854775807) ops(0..1)  // a\n",
         "a.lx: line 5: a buffer has bytes, all below the limit"},
        {HEAD OPS "buffer b0 lx(0+128) ops(0..2)  // a\nbuffer b1 lx(64+128) ops(1..2)  // b\n",
         "a.lx: line 6: it overlaps an earlier buffer in time and place"},
        {HEAD OPS "buffer 0 lx(0+128) ops(0..2)\n",
         "a.lx: line 5: a buffer is 'buffer bN lx(OFFSET+BYTES) ops(FIRST..LAST)  // NAME'"},
    };
    (void)state;
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        arena *memory = arena_create();
        lx_map map;
        spyre_status status = lx_map_parse(memory, "a.lx", cases[i].source, &map);
        assert_int_equal(spyre_status_code(status), SPYRE_INVALID_FORMAT);
        assert_string_equal(spyre_status_message(status), cases[i].message);
        spyre_status_free(status);
        arena_destroy(memory);
    }
}

static void lx_map__names_stay_text(void **state)
{
    (void)state;
    arena *memory = arena_create();
    lx_map map;
    text printed = {0};
    const char *title = "<script>";
    assert_ok(lx_map_parse(memory, "a.lx", HEAD OPS
                           "buffer b0 lx(0+128) ops(0..1)  // </title><script>alert(1)</script>\n",
                           &map));
    lx_picture_print(&map, &title, 1, &printed);
    assert_null(strstr(text_string(&printed), "<script"));
    assert_non_null(strstr(text_string(&printed), "&lt;script&gt;alert(1)"));
    text_free(&printed);
    arena_destroy(memory);
}

// Three ops of 1024 bytes: op 0 has 0..128 and 512..640, op 1 0..256 (one in place of another) and
// 512..640, op 2 0..256 alone.
static void lx_map__use(void **state)
{
    (void)state;
    arena *memory = arena_create();
    lx_map map;
    spyre_lx_use use;
    assert_ok(lx_map_parse(memory, "a.lx", HEAD OPS
                           "buffer b1 lx(512+128) ops(0..1)  // a\n"
                           "buffer b2 lx(0+128) ops(0..1)  // b\n"
                           "buffer b3 lx(0+256) ops(1..2)  // c\n",
                           &map));
    assert_ok(lx_map_use(memory, &map, &use));
    assert_int_equal(use.ops, 3);
    assert_int_equal(use.buffers, 3);
    assert_int_equal(use.limit_bytes, 1024);
    assert_int_equal(use.peak_bytes, 384);
    assert_true(fabs(use.average_bytes - (256 + 384 + 256) / 3.0) < 1e-9);
    double cut = 384.0 / 768 + 256.0 / 640 + 0;
    assert_true(fabs(use.fragmentation - cut / 3) < 1e-9);
    assert_true(fabs(use.reuse - 512.0 / 384) < 1e-9);

    assert_ok(lx_map_parse(memory, "a.lx", HEAD OPS, &map));
    assert_ok(lx_map_use(memory, &map, &use));
    assert_int_equal(use.peak_bytes, 0);
    assert_true(use.fragmentation == 0 && use.reuse == 0);
    arena_destroy(memory);
}

static void markup__bytes(void **state)
{
    static const struct {
        const char *bytes, *want;
    } cases[] = {
        {"a<b>&\"'", "a&lt;b&gt;&amp;&quot;&#39;"},
        {"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80", "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80"},
        {"\x01\x7F\t", "\xEF\xBF\xBD\xEF\xBF\xBD\t"},
        {"\xC0\xBC", "\xEF\xBF\xBD\xEF\xBF\xBD"},                       // '<' in two bytes
        {"\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},       // half of a pair
        {"\xE2\x82<", "\xEF\xBF\xBD\xEF\xBF\xBD&lt;"},                  // cut short
    };
    (void)state;
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        text out = {0};
        markup_append(&out, cases[i].bytes);
        assert_string_equal(text_string(&out), cases[i].want);
        text_free(&out);
    }
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(lx_map__prints_what_it_read),
        cmocka_unit_test(lx_map__refuses),
        cmocka_unit_test(lx_map__names_stay_text),
        cmocka_unit_test(lx_map__use),
        cmocka_unit_test(markup__bytes),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
