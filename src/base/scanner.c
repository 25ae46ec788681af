// SPDX-License-Identifier: Apache-2.0
#include "base/scanner.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST_NUMBER = 64, LONGEST_MESSAGE = 256 };
#define LARGE_BOUND ((int64_t)1 << 40) // of a range that is told by one end

scanner scan_start(arena *memory, const char *source, const char *file_name)
{
    return (scanner){.file_name = file_name, .at = source, .line_start = source, .line = 1,
                     .memory = memory};
}

spyre_status scan_error(const scanner *s, const char *format, ...)
{
    char message[LONGEST_MESSAGE];
    va_list values;
    va_start(values, format);
    vsnprintf(message, sizeof message, format, values);
    va_end(values);
    return status_new(SPYRE_INVALID_FORMAT, "%s:%u:%u: %s", s->file_name, s->line,
                      scan_column(s->line_start, s->at), message);
}

static void skip_within_line(scanner *s)
{
    while (*s->at == ' ' || *s->at == '\t' || *s->at == '\r') s->at++;
    if (*s->at == '#') s->at += strcspn(s->at, "\n");
}

bool scan_next_line(scanner *s)
{
    for (;;) {
        skip_within_line(s);
        if (*s->at != '\n') return *s->at != '\0';
        s->at++;
        s->line++;
        s->line_start = s->at;
    }
}

void scan_blanks(scanner *s)
{
    if (s->free_lines) scan_next_line(s);
    else skip_within_line(s);
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

bool scan_is_name_character(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '.' || c == '$';
}

const char *scan_peek_word(scanner *s, size_t *out_length)
{
    scan_blanks(s);
    size_t length = 0;
    while (scan_is_name_character(s->at[length])) length++;
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
static size_t copy_number(const scanner *s, char *digits, bool *out_is_hexadecimal)
{
    size_t length = 0;
    const char *c = s->at, *first = c + (*c == '-' || *c == '+');
    *out_is_hexadecimal = first[0] == '0' && first[1] == 'x';
    for (; length + 1 < LONGEST_NUMBER; c++) {
        bool sign = (*c == '-' || *c == '+') && (length == 0 || c[-1] == 'e');
        bool exponent = *c == 'e' && length > 0;
        bool point = *c == '.' && c[1] != '.';
        bool hexadecimal = *out_is_hexadecimal && (c == first + 1 || isxdigit((unsigned char)*c));
        if (!isdigit((unsigned char)*c) && !sign && !exponent && !point && !hexadecimal) break;
        digits[length++] = *c;
    }
    digits[length] = '\0';
    return length;
}

spyre_status scan_number(scanner *s, bool *out_is_int, int64_t *out_int, double *out_real)
{
    char digits[LONGEST_NUMBER], *end = NULL;
    bool hexadecimal;
    scan_blanks(s);
    size_t length = copy_number(s, digits, &hexadecimal);
    *out_is_int = hexadecimal || !strpbrk(digits, ".e");
    errno = 0;
    if (*out_is_int) {
        *out_int = strtoll(digits, &end, hexadecimal ? 16 : 10);
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
    if (is_int) return NULL;
    *s = before;
    return scan_error(s, "expected an int");
}

spyre_status scan_int_within(scanner *s, const char *what, int64_t low, int64_t high,
                             int64_t *out_value)
{
    scan_blanks(s);
    const scanner before = *s;
    TRY(scan_int(s, out_value));
    if (*out_value >= low && *out_value <= high) return NULL;
    if (high < LARGE_BOUND)
        return scan_error(&before, "%s must be %lld to %lld", what, (long long)low,
                          (long long)high);
    bool small = *out_value < low;
    return scan_error(&before, "%s must be %lld or %s", what, (long long)(small ? low : high),
                      small ? "more" : "less");
}

spyre_status scan_real(scanner *s, double *out_value)
{
    bool is_int;
    int64_t whole;
    bool negative = scan_accept(s, "-");
    if (scan_accept_word(s, "inf")) *out_value = HUGE_VAL;
    else if (scan_accept_word(s, "nan")) *out_value = NAN;
    else {
        TRY(scan_number(s, &is_int, &whole, out_value));
        if (is_int) *out_value = (double)whole;
    }
    if (negative) *out_value = -*out_value;
    return NULL;
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
