// SPDX-License-Identifier: Apache-2.0
#include "compile/explore/markup.h"

#include <stdint.h>
#include <string.h>

static const char *entity(unsigned char c)
{
    switch (c) {
    case '&': return "&amp;";
    case '<': return "&lt;";
    case '>': return "&gt;";
    case '"': return "&quot;";
    case '\'': return "&#39;";
    default: return NULL;
    }
}

static bool is_character(uint32_t c)
{
    if (c < 0x20) return c == '\t' || c == '\n' || c == '\r';
    return c != 0x7F && !(c >= 0xD800 && c <= 0xDFFF) && c != 0xFFFE && c != 0xFFFF &&
           c <= 0x10FFFF;
}

// Bytes of the character at `at`; 0 when there is none that is allowed.
static size_t character_bytes(const unsigned char *at, size_t left)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t count = at[0] < 0x80 ? 1 : at[0] >> 5 == 6 ? 2 : at[0] >> 4 == 14 ? 3
                 : at[0] >> 3 == 30 ? 4 : 0;
    if (count == 0 || count > left) return 0;
    uint32_t c = count == 1 ? at[0] : at[0] & (0x7Fu >> count);
    for (size_t i = 1; i < count; i++) {
        if (at[i] >> 6 != 2) return 0;
        c = c << 6 | (at[i] & 0x3Fu);
    }
    return c >= least[count] && is_character(c) ? count : 0;
}

void markup_append(text *out, const char *string)
{
    size_t length = strlen(string);
    for (size_t at = 0; at < length;) {
        size_t count = character_bytes((const unsigned char *)string + at, length - at);
        const char *named = entity((unsigned char)string[at]);
        if (named) text_append(out, named);
        else if (count) text_append_bytes(out, string + at, count);
        else text_append(out, "\xEF\xBF\xBD");
        at += count ? count : 1;
    }
}
