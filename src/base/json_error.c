// SPDX-License-Identifier: Apache-2.0
//
// Errors that name the place in a JSON text, by the way from the root to the node:
//
//     sdsc_0.json: $.dscs_[0]["N, 0"]: expected an integer, found a string
#include "base/json.h"

static bool is_plain_key(const char *key)
{
    for (const char *c = key; *c; c++) {
        bool plain = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || *c == '_' ||
                     (*c >= '0' && *c <= '9');
        if (!plain) return false;
    }
    return *key != '\0';
}

static void append_key(text *out, const char *key)
{
    if (is_plain_key(key)) {
        text_printf(out, ".%s", key);
        return;
    }
    text_append(out, "[\"");
    for (const char *c = key; *c; c++) {
        unsigned char byte = (unsigned char)*c;
        if (byte < 0x20) text_printf(out, "\\u%04x", (unsigned)byte);
        else if (byte == '"' || byte == '\\') text_printf(out, "\\%c", *c);
        else text_append_bytes(out, c, 1);
    }
    text_append(out, "\"]");
}

static void append_path(text *out, const json_node *node)
{
    if (!node->parent) {
        text_printf(out, "%s: $", node->key ? node->key : "json");
        return;
    }
    append_path(out, node->parent);
    if (node->key) append_key(out, node->key);
    else text_printf(out, "[%zu]", node->index);
}

spyre_status json_error_at(const json_node *node, const char *format, ...)
{
    text path = {0};
    append_path(&path, node);
    va_list values;
    va_start(values, format);
    spyre_status status = status_vnew(SPYRE_INVALID_FORMAT, format, values);
    va_end(values);
    status = status_at(status, "%s", text_string(&path));
    text_free(&path);
    return status;
}
