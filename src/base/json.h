// SPDX-License-Identifier: Apache-2.0
//
// Reading JSON of others (bundles, SpyreCode) with diagnostics that name the place. A json_node is
// a jansson value together with the way to it, so that every getter can say
//     sdsc_0.json: $.dscs_[0].N_: expected an integer, found a string
// Nodes live on the stack; a child points at its parent, which must outlive it:
//
//     json_node root, dscs, dsc;
//     TRY(json_read_file("sdsc_0.json", JSON_LIMIT_BYTES, &root));    // json_close(&root) later
//     TRY_DONE(json_get_array(&root, "dscs_", &dscs));
//     for (size_t i = 0; i < json_count(&dscs); i++) {
//         TRY_DONE(json_item(&dscs, i, &dsc));
//         TRY_DONE(json_get_int(&dsc, "numCoresUsed_", 1, 32, &cores));
//     }
//
// Building and changing values is jansson's own interface. Errors of this header have the code
// SPYRE_INVALID_FORMAT; a file that cannot be read has SPYRE_NOT_FOUND or SPYRE_IO.
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/status.h"
#include "base/text.h"

enum {
    JSON_LIMIT_BYTES = 256 << 20,       // the usual limit for a file
    JSON_DEEPEST = 64,                  // arrays and objects inside one another
};

typedef struct json_node {
    json_t *value;                      // borrowed from the root, which owns the tree
    const struct json_node *parent;     // null at the root
    const char *key;                    // of a member; null of an array item; at the root the name
    size_t index;                       // of an array item
} json_node;

// Parses a whole file or buffer. `name` (the path, for a file) appears in messages and must outlive
// the root; set out_root->key for another one. Rejects duplicate keys, nesting beyond JSON_DEEPEST,
// text after the value and invalid UTF-8: "<name>: line 3, column 7: <reason>". On success close
// the root once.
SPYRE_MUST_CHECK spyre_status json_read_file(const char *path, size_t limit_bytes,
                                             json_node *out_root);
SPYRE_MUST_CHECK spyre_status json_read_buffer(const char *name, const char *bytes, size_t length,
                                               json_node *out_root);

// Frees the tree of a root; every node and string from it ends here. Safe on a zeroed node.
void json_close(json_node *root);

// A new error at a node, with the path in front of the message.
SPYRE_MUST_CHECK spyre_status json_error_at(const json_node *node, const char *format, ...)
    SPYRE_PRINTF(2, 3);

// Entries of an array or object; 0 for any other value.
size_t json_count(const json_node *node);

// Optional member: false when `object` has no such member or is not an object. A member that is
// null counts as absent.
bool json_find(const json_node *object, const char *key, json_node *out_member);

// Required member and array item of any type.
SPYRE_MUST_CHECK spyre_status json_member(const json_node *object, const char *key,
                                          json_node *out_member);
SPYRE_MUST_CHECK spyre_status json_item(const json_node *array, size_t index, json_node *out_item);

// Walks the members in the order of the text: start with `void *cursor = NULL;`, stop at false.
// The name of a member is out_member->key. False at once when `object` is not an object.
bool json_next_member(const json_node *object, void **cursor, json_node *out_member);

// The value of a node. Integers lie in [least, most]. A decimal is a string of an optional '-' and
// digits, nothing else ("1024"); json_as_number takes an integer or a decimal, for files of both
// kinds. Reals accept integers. Strings belong to the tree.
SPYRE_MUST_CHECK spyre_status json_as_int(const json_node *node, int64_t least, int64_t most,
                                          int64_t *out_value);
SPYRE_MUST_CHECK spyre_status json_as_decimal(const json_node *node, int64_t least, int64_t most,
                                              int64_t *out_value);
SPYRE_MUST_CHECK spyre_status json_as_number(const json_node *node, int64_t least, int64_t most,
                                             int64_t *out_value);
SPYRE_MUST_CHECK spyre_status json_as_real(const json_node *node, double *out_value);
SPYRE_MUST_CHECK spyre_status json_as_bool(const json_node *node, bool *out_value);
SPYRE_MUST_CHECK spyre_status json_as_string(const json_node *node, const char **out_value);

// Fails unless the node is an array (of `count` items) or an object.
SPYRE_MUST_CHECK spyre_status json_expect_array(const json_node *node);
SPYRE_MUST_CHECK spyre_status json_expect_array_of(const json_node *node, size_t count);
SPYRE_MUST_CHECK spyre_status json_expect_object(const json_node *node);

// The required member `key` and its value in one step.
SPYRE_MUST_CHECK spyre_status json_get_int(const json_node *object, const char *key, int64_t least,
                                           int64_t most, int64_t *out_value);
SPYRE_MUST_CHECK spyre_status json_get_number(const json_node *object, const char *key,
                                              int64_t least, int64_t most, int64_t *out_value);
SPYRE_MUST_CHECK spyre_status json_get_bool(const json_node *object, const char *key,
                                            bool *out_value);
SPYRE_MUST_CHECK spyre_status json_get_string(const json_node *object, const char *key,
                                              const char **out_value);
SPYRE_MUST_CHECK spyre_status json_get_array(const json_node *object, const char *key,
                                             json_node *out_array);
SPYRE_MUST_CHECK spyre_status json_get_object(const json_node *object, const char *key,
                                              json_node *out_object);

// A member's key as data: a decimal ("31") or a coordinate list of `count` decimals ("[31, 0, 0]").
SPYRE_MUST_CHECK spyre_status json_key_decimal(const json_node *member, int64_t least,
                                               int64_t most, int64_t *out_value);
SPYRE_MUST_CHECK spyre_status json_key_coordinates(const json_node *member, uint32_t count,
                                                   int64_t *out_values);

// True and the value when the text is a decimal as above that fits 64 bits.
bool json_parse_decimal(const char *characters, size_t length, int64_t *out_value);

// Appends the value with members in order of insertion, `indent` spaces a level, no newline at
// the end; indent 0 gives one line. The same tree gives the same bytes.
SPYRE_MUST_CHECK spyre_status json_print(const json_t *value, unsigned indent, text *out);

#endif
