// SPDX-License-Identifier: Apache-2.0
#include "graph/lexer.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/build.h"

enum { LONGEST_NUMBER = 64, LONGEST_MESSAGE = 256 };

spyre_status scan_error(const scanner *s, const char *format, ...)
{
    char message[LONGEST_MESSAGE];
    va_list values;
    va_start(values, format);
    vsnprintf(message, sizeof message, format, values);
    va_end(values);
    return status_new(SPYRE_INVALID_FORMAT, "%s:%u:%ld: %s", s->file_name, s->line,
                      (long)(s->at - s->line_start) + 1, message);
}

void scan_blanks(scanner *s)
{
    while (*s->at == ' ' || *s->at == '\t' || *s->at == '\r') s->at++;
    if (*s->at != '#') return;
    while (*s->at && *s->at != '\n') s->at++;
}

bool scan_next_line(scanner *s)
{
    for (;;) {
        scan_blanks(s);
        if (*s->at != '\n') return *s->at != '\0';
        s->at++;
        s->line++;
        s->line_start = s->at;
    }
}

bool scan_accept(scanner *s, const char *token)
{
    scan_blanks(s);
    size_t length = strlen(token);
    if (strncmp(s->at, token, length) != 0) return false;
    s->at += length;
    return true;
}

spyre_status scan_expect(scanner *s, const char *token)
{
    if (scan_accept(s, token)) return NULL;
    return scan_error(s, "expected '%s'", token);
}

const char *scan_peek_word(scanner *s, size_t *out_length)
{
    scan_blanks(s);
    size_t length = 0;
    while (graph_is_name_character(s->at[length])) length++;
    *out_length = length;
    return s->at;
}

bool scan_accept_word(scanner *s, const char *word)
{
    size_t length;
    const char *found = scan_peek_word(s, &length);
    if (length != strlen(word) || memcmp(found, word, length) != 0) return false;
    s->at += length;
    return true;
}

spyre_status scan_name(scanner *s, const char *what, const char **out_name)
{
    size_t length;
    const char *word = scan_peek_word(s, &length);
    if (length == 0) return scan_error(s, "expected %s", what);
    *out_name = arena_strndup(s->memory, word, length);
    TRY_ALLOC(*out_name);
    s->at += length;
    return NULL;
}

// Copies the number that comes next, sign, point and exponent included; its length, 0 when there is
// none or it is too long. A ".." ends a number: it is the range sign.
static size_t copy_number(scanner *s, char *digits)
{
    size_t length = 0;
    const char *c = s->at;
    for (; length + 1 < LONGEST_NUMBER; c++) {
        bool sign = (*c == '-' || *c == '+') && (length == 0 || c[-1] == 'e');
        bool exponent = *c == 'e' && length > 0;
        bool point = *c == '.' && c[1] != '.';
        if (!isdigit((unsigned char)*c) && !sign && !exponent && !point) break;
        digits[length++] = *c;
    }
    digits[length] = '\0';
    return length;
}

spyre_status scan_number(scanner *s, bool *out_is_int, int64_t *out_int, double *out_real)
{
    char digits[LONGEST_NUMBER], *end = NULL;
    scan_blanks(s);
    size_t length = copy_number(s, digits);
    *out_is_int = !strpbrk(digits, ".e");
    errno = 0;
    if (*out_is_int) {
        *out_int = strtoll(digits, &end, 10);
        if (errno == ERANGE) return scan_error(s, "%s is beyond 64 bits", digits);
    } else {
        *out_real = strtod(digits, &end);
    }
    if (length == 0 || end != digits + length) return scan_error(s, "expected a number");
    s->at += length;
    return NULL;
}

spyre_status scan_int(scanner *s, int64_t *out_value)
{
    bool is_int = false;
    double real;
    const scanner before = *s;
    TRY(scan_number(s, &is_int, out_value, &real));
    return is_int ? NULL : scan_error(&before, "expected an int");
}

// One character of a string at *at, escapes undone; false for a bad escape.
static bool unescape(const char **at, char *out)
{
    *out = *(*at)++;
    if (*out != '\\') return true;
    *out = *(*at)++;
    if (*out == '"' || *out == '\\') return true;
    if (*out != 'x' || !isxdigit((unsigned char)(*at)[0]) || !isxdigit((unsigned char)(*at)[1])) {
        return false;
    }
    char code[3] = {(*at)[0], (*at)[1], '\0'};
    *at += 2;
    *out = (char)strtol(code, NULL, 16);
    return *out != '\0';
}

spyre_status scan_string(scanner *s, const char **out_string)
{
    scan_blanks(s);
    if (*s->at != '"') return scan_error(s, "expected a string");
    const char *end = s->at + 1;
    while (*end && *end != '"' && *end != '\n') end += *end == '\\' && end[1] ? 2 : 1;
    if (*end != '"') return scan_error(s, "the string does not end on its line");
    char *string = arena_alloc(s->memory, (size_t)(end - s->at));
    TRY_ALLOC(string);
    size_t length = 0;
    for (const char *c = s->at + 1; c < end;) {
        if (unescape(&c, &string[length++])) continue;
        return scan_error(s, "escapes in a string are \\\" \\\\ and \\xHH");
    }
    s->at = end + 1;
    *out_string = string;
    return NULL;
}

bool scan_line_ends(scanner *s)
{
    scan_blanks(s);
    return *s->at == '\n' || *s->at == '\0';
}

spyre_status scan_line_end(scanner *s)
{
    return scan_line_ends(s) ? NULL : scan_error(s, "expected the end of the line");
}
