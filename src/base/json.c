// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include <string.h>

#include "base/arena.h"
#include "base/file.h"

static const char *type_name(const json_t *value)
{
    if (!value) return "nothing";
    switch (json_typeof(value)) {
    case JSON_OBJECT: return "an object";
    case JSON_ARRAY: return "an array";
    case JSON_STRING: return "a string";
    case JSON_INTEGER: return "an integer";
    case JSON_REAL: return "a real";
    case JSON_TRUE: return "true";
    case JSON_FALSE: return "false";
    case JSON_NULL: return "null";
    }
    return "?";
}

static spyre_status wrong_type(const json_node *node, const char *expected)
{
    return json_error_at(node, "expected %s, found %s", expected, type_name(node->value));
}

// --- Parsing

// jansson's own limit is 2048 deep and not adjustable. Brackets are counted outside strings only.
static spyre_status check_depth(const char *name, const char *bytes, size_t length)
{
    int depth = 0, line = 1;
    size_t line_start = 0;
    bool in_string = false;
    for (size_t i = 0; i < length; i++) {
        char c = bytes[i];
        if (c == '\n') line++, line_start = i + 1;
        if (in_string) {
            if (c == '\\') i++;
            else if (c == '"') in_string = false;
        } else if (c == '"') {
            in_string = true;
        } else if (c == '{' || c == '[') {
            if (++depth > JSON_DEEPEST) {
                return status_new(SPYRE_INVALID_FORMAT,
                                  "%s: line %d, column %zu: more than %d nested arrays and objects",
                                  name, line, i - line_start + 1, JSON_DEEPEST);
            }
        } else if (c == '}' || c == ']') {
            depth--;
        }
    }
    return NULL;
}

spyre_status json_read_buffer(const char *name, const char *bytes, size_t length,
                              json_node *out_root)
{
    *out_root = (json_node){0};
    TRY(check_depth(name, bytes, length));
    json_error_t error;
    json_t *value = json_loadb(bytes, length, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    if (!value) {
        // Without a line the parser did not get as far as the text.
        bool no_memory = json_error_code(&error) == json_error_out_of_memory || error.line < 0;
        if (no_memory) return status_no_memory();
        return status_new(SPYRE_INVALID_FORMAT, "%s: line %d, column %d: %s", name, error.line,
                          error.column, error.text);
    }
    *out_root = (json_node){.value = value, .key = name};
    return NULL;
}

spyre_status json_read_file(const char *path, size_t limit_bytes, json_node *out_root)
{
    *out_root = (json_node){0};
    arena *memory = arena_create();
    TRY_ALLOC(memory);
    char *bytes;
    size_t length;
    spyre_status status = file_read(memory, path, limit_bytes, &bytes, &length);
    if (!status) status = json_read_buffer(path, bytes, length, out_root);
    arena_destroy(memory);
    return status;
}

void json_close(json_node *root)
{
    json_decref(root->value);
    *root = (json_node){0};
}

// --- Walking

size_t json_count(const json_node *node)
{
    if (json_is_array(node->value)) return json_array_size(node->value);
    return json_is_object(node->value) ? json_object_size(node->value) : 0;
}

bool json_find(const json_node *object, const char *key, json_node *out_member)
{
    json_t *value = json_object_get(object->value, key);
    if (!value || json_is_null(value)) return false;
    *out_member = (json_node){.value = value, .parent = object, .key = key};
    return true;
}

spyre_status json_member(const json_node *object, const char *key, json_node *out_member)
{
    *out_member = (json_node){0};
    TRY(json_expect_object(object));
    json_t *value = json_object_get(object->value, key);
    if (!value) return json_error_at(object, "member \"%s\" is missing", key);
    *out_member = (json_node){.value = value, .parent = object, .key = key};
    return NULL;
}

spyre_status json_item(const json_node *array, size_t index, json_node *out_item)
{
    *out_item = (json_node){0};
    TRY(json_expect_array(array));
    json_t *value = json_array_get(array->value, index);
    if (!value) {
        return json_error_at(array, "item %zu is missing, the array has %zu", index,
                             json_array_size(array->value));
    }
    *out_item = (json_node){.value = value, .parent = array, .index = index};
    return NULL;
}

bool json_next_member(const json_node *object, void **cursor, json_node *out_member)
{
    if (!json_is_object(object->value)) return false;
    *cursor = *cursor ? json_object_iter_next(object->value, *cursor)
                      : json_object_iter(object->value);
    if (!*cursor) return false;
    *out_member = (json_node){.value = json_object_iter_value(*cursor),
                              .parent = object,
                              .key = json_object_iter_key(*cursor)};
    return true;
}

// --- Values

bool json_parse_decimal(const char *characters, size_t length, int64_t *out_value)
{
    bool negative = length > 0 && characters[0] == '-';
    size_t at = negative ? 1 : 0;
    if (at == length) return false;
    // Sums negated digits, because the least 64-bit number has no positive counterpart.
    int64_t value = 0;
    for (; at < length; at++) {
        char c = characters[at];
        if (c < '0' || c > '9') return false;
        if (__builtin_mul_overflow(value, 10, &value)) return false;
        if (__builtin_sub_overflow(value, c - '0', &value)) return false;
    }
    if (!negative && value == INT64_MIN) return false;
    *out_value = negative ? value : -value;
    return true;
}

static spyre_status in_range(const json_node *node, int64_t value, int64_t least, int64_t most,
                             int64_t *out_value)
{
    if (value < least || value > most) {
        return json_error_at(node, "%lld is outside %lld..%lld", (long long)value,
                             (long long)least, (long long)most);
    }
    *out_value = value;
    return NULL;
}

spyre_status json_as_int(const json_node *node, int64_t least, int64_t most, int64_t *out_value)
{
    if (!json_is_integer(node->value)) return wrong_type(node, "an integer");
    return in_range(node, json_integer_value(node->value), least, most, out_value);
}

spyre_status json_as_decimal(const json_node *node, int64_t least, int64_t most,
                             int64_t *out_value)
{
    if (!json_is_string(node->value)) return wrong_type(node, "a decimal string");
    const char *characters = json_string_value(node->value);
    int64_t value;
    if (!json_parse_decimal(characters, json_string_length(node->value), &value)) {
        return json_error_at(node, "expected a decimal string, found \"%.40s\"", characters);
    }
    return in_range(node, value, least, most, out_value);
}

spyre_status json_as_number(const json_node *node, int64_t least, int64_t most, int64_t *out_value)
{
    if (json_is_integer(node->value)) return json_as_int(node, least, most, out_value);
    if (json_is_string(node->value)) return json_as_decimal(node, least, most, out_value);
    return wrong_type(node, "an integer or a decimal string");
}

spyre_status json_as_real(const json_node *node, double *out_value)
{
    if (!json_is_number(node->value)) return wrong_type(node, "a number");
    *out_value = json_number_value(node->value);
    return NULL;
}

spyre_status json_as_bool(const json_node *node, bool *out_value)
{
    if (!json_is_boolean(node->value)) return wrong_type(node, "true or false");
    *out_value = json_is_true(node->value);
    return NULL;
}

spyre_status json_as_string(const json_node *node, const char **out_value)
{
    if (!json_is_string(node->value)) return wrong_type(node, "a string");
    *out_value = json_string_value(node->value);
    return NULL;
}

spyre_status json_expect_array(const json_node *node)
{
    return json_is_array(node->value) ? NULL : wrong_type(node, "an array");
}

spyre_status json_expect_array_of(const json_node *node, size_t count)
{
    TRY(json_expect_array(node));
    if (json_array_size(node->value) == count) return NULL;
    return json_error_at(node, "expected %zu items, found %zu", count,
                         json_array_size(node->value));
}

spyre_status json_expect_object(const json_node *node)
{
    return json_is_object(node->value) ? NULL : wrong_type(node, "an object");
}

spyre_status json_get_int(const json_node *object, const char *key, int64_t least, int64_t most,
                          int64_t *out_value)
{
    json_node member;
    TRY(json_member(object, key, &member));
    return json_as_int(&member, least, most, out_value);
}

spyre_status json_get_number(const json_node *object, const char *key, int64_t least, int64_t most,
                             int64_t *out_value)
{
    json_node member;
    TRY(json_member(object, key, &member));
    return json_as_number(&member, least, most, out_value);
}

spyre_status json_get_bool(const json_node *object, const char *key, bool *out_value)
{
    json_node member;
    TRY(json_member(object, key, &member));
    return json_as_bool(&member, out_value);
}

spyre_status json_get_string(const json_node *object, const char *key, const char **out_value)
{
    json_node member;
    TRY(json_member(object, key, &member));
    return json_as_string(&member, out_value);
}

spyre_status json_get_array(const json_node *object, const char *key, json_node *out_array)
{
    TRY(json_member(object, key, out_array));
    return json_expect_array(out_array);
}

spyre_status json_get_object(const json_node *object, const char *key, json_node *out_object)
{
    TRY(json_member(object, key, out_object));
    return json_expect_object(out_object);
}

// --- Keys as data

spyre_status json_key_decimal(const json_node *member, int64_t least, int64_t most,
                              int64_t *out_value)
{
    int64_t value;
    if (!json_parse_decimal(member->key, strlen(member->key), &value)) {
        return json_error_at(member, "expected a decimal as key");
    }
    return in_range(member, value, least, most, out_value);
}

spyre_status json_key_coordinates(const json_node *member, uint32_t count, int64_t *out_values)
{
    const char *at = member->key;
    bool good = *at++ == '[';
    for (uint32_t i = 0; good && i < count; i++) {
        at += strspn(at, " ");
        size_t digits = strspn(at, "-0123456789");
        good = json_parse_decimal(at, digits, &out_values[i]);
        at += digits;
        if (i + 1 < count) good = good && *at++ == ',';
    }
    if (good && strcmp(at, "]") == 0) return NULL;
    return json_error_at(member, "expected %u coordinates \"[a, b, ..]\" as key", count);
}

// --- Writing

static int append_piece(const char *bytes, size_t length, void *context)
{
    text *out = context;
    text_append_bytes(out, bytes, length);
    return out->failed ? -1 : 0;
}

spyre_status json_print(const json_t *value, unsigned indent, text *out)
{
    size_t flags = JSON_ENCODE_ANY | JSON_INDENT(indent);
    if (json_dump_callback(value, append_piece, out, flags) == 0) return NULL;
    // jansson's values are always such as can be written, and it gives no other reason.
    return status_no_memory();
}
