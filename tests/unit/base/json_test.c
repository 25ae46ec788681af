// SPDX-License-Identifier: Apache-2.0
#include "unit/check.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "support/scratch.h"

static spyre_status read_text(const char *source, json_node *out_root)
{
    return json_read_buffer("in.json", source, strlen(source), out_root);
}

static const char sample[] = "{\"n\": 3, \"s\": \"12\", \"r\": 0.5, \"b\": true, \"none\": null,\n"
                             " \"dscs_\": [{\"N_\": {\"mb_\": 64}}, {}],\n"
                             " \"data_\": {\"[31, 0, 0]\": \"-4096\", \"7\": \"x\"}}";

static void json__getters_read_values(void **state)
{
    (void)state;
    json_node root, list, item, inner;
    int64_t number;
    double real;
    bool flag;
    const char *string;
    assert_ok(read_text(sample, &root));
    assert_ok(json_get_int(&root, "n", 0, 3, &number));
    assert_int_equal(number, 3);
    assert_ok(json_member(&root, "s", &item));
    assert_ok(json_as_decimal(&item, 0, 100, &number));
    assert_int_equal(number, 12);
    assert_ok(json_get_number(&root, "s", 0, 100, &number));
    assert_ok(json_get_number(&root, "n", 0, 100, &number));
    assert_int_equal(number, 3);
    assert_ok(json_member(&root, "r", &item));
    assert_ok(json_as_real(&item, &real));
    assert_true(real == 0.5);
    assert_ok(json_member(&root, "n", &item));
    assert_ok(json_as_real(&item, &real));
    assert_true(real == 3.0);
    assert_ok(json_get_bool(&root, "b", &flag));
    assert_true(flag);
    assert_ok(json_get_string(&root, "s", &string));
    assert_string_equal(string, "12");
    assert_ok(json_get_array(&root, "dscs_", &list));
    assert_int_equal(json_count(&list), 2);
    assert_ok(json_item(&list, 0, &item));
    assert_ok(json_get_object(&item, "N_", &inner));
    assert_ok(json_get_int(&inner, "mb_", 1, 64, &number));
    assert_int_equal(number, 64);
    json_close(&root);
}

static void json__errors_name_the_place(void **state)
{
    (void)state;
    const spyre_code invalid = SPYRE_INVALID_FORMAT;
    json_node root, list, item, inner;
    int64_t number;
    const char *string;
    assert_ok(read_text(sample, &root));
    assert_ok(json_get_array(&root, "dscs_", &list));
    assert_ok(json_item(&list, 0, &item));
    assert_error(json_get_int(&item, "N_", 0, 9, &number), invalid,
                 "in.json: $.dscs_[0].N_: expected an integer, found an object");
    assert_ok(json_get_object(&item, "N_", &inner));
    assert_error(json_get_int(&inner, "mb_", 0, 63, &number), invalid,
                 "in.json: $.dscs_[0].N_.mb_: 64 is outside 0..63");
    assert_error(json_get_string(&inner, "x", &string), invalid,
                 "in.json: $.dscs_[0].N_: member \"x\" is missing");
    assert_error(json_item(&list, 2, &item), invalid,
                 "in.json: $.dscs_: item 2 is missing, the array has 2");
    assert_error(json_expect_array_of(&list, 3), invalid, "$.dscs_: expected 3 items, found 2");
    assert_error(json_get_array(&root, "s", &list), invalid,
                 "$.s: expected an array, found a string");
    assert_ok(json_member(&root, "n", &item));
    assert_error(json_as_decimal(&item, 0, 9, &number), invalid,
                 "$.n: expected a decimal string, found an integer");
    assert_error(json_item(&root, 0, &item), invalid, "in.json: $: expected an array");
    json_close(&root);
}

// However long: a name of the file may stand in it.
static void json__errors_are_whole(void **state)
{
    (void)state;
    json_node root = {.key = "a"};
    spyre_status status = json_error_at(&root, "%01000d is too much", 7);
    assert_int_equal(strlen(spyre_status_message(status)), strlen("a: $: ") + 1000 + 12);
    spyre_status_free(status);
}

static void json__find_treats_null_as_absent(void **state)
{
    (void)state;
    json_node root, member;
    assert_ok(read_text(sample, &root));
    assert_true(json_find(&root, "n", &member));
    assert_false(json_find(&root, "none", &member));
    assert_false(json_find(&root, "missing", &member));
    json_close(&root);
}

static void json__members_come_in_order(void **state)
{
    (void)state;
    json_node root, member;
    char seen[8] = "";
    assert_ok(read_text("{\"z\":1,\"a\":2,\"m\":3}", &root));
    void *cursor = NULL;
    while (json_next_member(&root, &cursor, &member)) strcat(seen, member.key);
    assert_string_equal(seen, "zam");
    json_close(&root);
}

static void json__keys_are_coordinates(void **state)
{
    (void)state;
    json_node root, data, member;
    int64_t at[3], number;
    void *cursor = NULL;
    assert_ok(read_text(sample, &root));
    assert_ok(json_get_object(&root, "data_", &data));
    assert_true(json_next_member(&data, &cursor, &member));
    assert_ok(json_key_coordinates(&member, 3, at));
    assert_int_equal(at[0], 31);
    assert_int_equal(at[2], 0);
    assert_ok(json_as_decimal(&member, -10000, 0, &number));
    assert_int_equal(number, -4096);
    assert_error(json_key_coordinates(&member, 2, at), SPYRE_INVALID_FORMAT,
                 "$.data_[\"[31, 0, 0]\"]: expected 2 coordinates");
    assert_error(json_key_coordinates(&member, 4, at), SPYRE_INVALID_FORMAT, "expected 4");
    assert_true(json_next_member(&data, &cursor, &member));
    assert_ok(json_key_decimal(&member, 0, 31, &number));
    assert_int_equal(number, 7);
    assert_error(json_key_decimal(&member, 0, 6, &number), SPYRE_INVALID_FORMAT,
                 "7 is outside 0..6");
    assert_error(json_as_decimal(&member, 0, 9, &number), SPYRE_INVALID_FORMAT, "found \"x\"");
    assert_false(json_next_member(&data, &cursor, &member));
    json_close(&root);
}

static void json__decimals_are_strict(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",     "-",    "+1",  " 1", "1 ", "0x1", "1.0", "1e3",
                                        "--1", "9223372036854775808", "-9223372036854775809"};
    int64_t value;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(json_parse_decimal(wrong[i], strlen(wrong[i]), &value));
    assert_true(json_parse_decimal("-9223372036854775808", 20, &value));
    assert_true(value == INT64_MIN);
    assert_true(json_parse_decimal("9223372036854775807", 19, &value));
    assert_true(value == INT64_MAX);
    assert_true(json_parse_decimal("007", 3, &value));
    assert_int_equal(value, 7);
}

static void json__syntax_errors_have_line_and_column(void **state)
{
    (void)state;
    const spyre_code invalid = SPYRE_INVALID_FORMAT;
    json_node root;
    assert_error(read_text("{\n  \"a\": ,\n}", &root), invalid, "in.json: line 2, column 8: ");
    assert_error(read_text("", &root), invalid, "in.json: line ");
    assert_error(read_text("{\"a\":1,\"a\":2}", &root), invalid, "duplicate");
    assert_error(read_text("[1] 2", &root), invalid, "end of file expected");
    assert_error(read_text("[\"\xff\"]", &root), invalid, "in.json: line 1");
    assert_error(read_text("[123456789012345678901234567890]", &root), invalid, "too big integer");
    assert_null(root.value);
    spyre_status status = read_text("[\"a\nb\"]", &root);
    assert_null(strchr(spyre_status_message(status), '\n'));
    assert_int_equal(spyre_status_code(status), SPYRE_INVALID_FORMAT);
    spyre_status_free(status);
}

static void json__nesting_is_limited(void **state)
{
    (void)state;
    json_node root;
    char deep[2 * JSON_DEEPEST + 4];
    memset(deep, '[', JSON_DEEPEST);
    memset(deep + JSON_DEEPEST, ']', JSON_DEEPEST);
    assert_ok(json_read_buffer("d", deep, 2 * JSON_DEEPEST, &root));
    json_close(&root);
    memset(deep, '[', JSON_DEEPEST + 1);
    assert_error(json_read_buffer("d", deep, 2 * JSON_DEEPEST, &root), SPYRE_INVALID_FORMAT,
                 "d: line 1, column 65: more than 64 nested");
    char quoted[2 * JSON_DEEPEST];
    memset(quoted, '[', sizeof quoted);
    memcpy(quoted, "[\"\\\"", 4);
    memcpy(quoted + sizeof quoted - 2, "\"]", 2);
    assert_ok(json_read_buffer("q", quoted, sizeof quoted, &root));
    json_close(&root);
}

static void json__files_are_read_by_name(void **state)
{
    (void)state;
    json_node root;
    char directory[SCRATCH_BYTES], path[SCRATCH_BYTES + 16];
    assert_non_null(scratch_make(directory));
    snprintf(path, sizeof path, "%s/sample.json", directory);
    assert_ok(file_write(path, sample, strlen(sample)));
    assert_ok(json_read_file(path, JSON_LIMIT_BYTES, &root));
    assert_int_equal(json_count(&root), 7);
    json_close(&root);
    assert_error(json_read_file(path, 10, &root), SPYRE_INVALID_FORMAT, path);
    assert_ok(file_remove(path));
    assert_error(json_read_file(path, 10, &root), SPYRE_NOT_FOUND, path);
    json_close(&root);
    assert_int_equal(rmdir(directory), 0);
}

static void json__print_is_stable(void **state)
{
    (void)state;
    json_node root;
    text once = {0}, lines = {0};
    assert_ok(read_text("{\"b\":[1,{}],\"a\":\"x\"}", &root));
    assert_ok(json_print(root.value, 0, &once));
    assert_string_equal(text_string(&once), "{\"b\": [1, {}], \"a\": \"x\"}");
    assert_ok(json_print(root.value, 2, &lines));
    assert_string_equal(text_string(&lines),
                        "{\n  \"b\": [\n    1,\n    {}\n  ],\n  \"a\": \"x\"\n}");
    text_free(&once);
    text_free(&lines);
    json_close(&root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json__getters_read_values),
        cmocka_unit_test(json__errors_name_the_place),
        cmocka_unit_test(json__errors_are_whole),
        cmocka_unit_test(json__find_treats_null_as_absent),
        cmocka_unit_test(json__members_come_in_order),
        cmocka_unit_test(json__keys_are_coordinates),
        cmocka_unit_test(json__decimals_are_strict),
        cmocka_unit_test(json__syntax_errors_have_line_and_column),
        cmocka_unit_test(json__nesting_is_limited),
        cmocka_unit_test(json__files_are_read_by_name),
        cmocka_unit_test(json__print_is_stable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
