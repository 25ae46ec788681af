// SPDX-License-Identifier: Apache-2.0
//
// What occurs in more than one line of the text form: numbers, views, names, comments.
#include "front/text/parse.h"

#include <ctype.h>
#include <string.h>

spyre_status parse_int_in_parens(parse_reader *r, const char *what, int64_t low, int64_t high,
                                 int64_t *out)
{
    TRY(scan_expect(&r->in, "("));
    TRY(scan_int_within(&r->in, what, low, high, out));
    return scan_expect(&r->in, ")");
}

spyre_status parse_reach(const parse_reader *r, int64_t steps, int64_t stride, int64_t *reach)
{
    int64_t more;
    bool beyond = __builtin_mul_overflow(steps, stride, &more) ||
                  __builtin_add_overflow(*reach, more, reach) || *reach >= PARSE_MOST_ELEMENTS;
    return beyond ? scan_error(&r->in, "it reaches beyond 2^40 elements") : NULL;
}

spyre_status parse_id(parse_reader *r, char letter, const char *what, uint32_t count,
                      uint32_t *out)
{
    int64_t id;
    scan_blanks(&r->in);
    const scanner before = r->in;
    if (r->in.at[0] != letter || !isdigit((unsigned char)r->in.at[1]))
        return scan_error(&before, "expected %s", what);
    r->in.at++;
    TRY(scan_int(&r->in, &id));
    if (id >= count) return scan_error(&before, "%c%lld is not known here", letter, (long long)id);
    *out = (uint32_t)id;
    return NULL;
}

spyre_status parse_comment(parse_reader *r, const char *mark, const char **out,
                           const char **out_rest)
{
    TRY(scan_expect(&r->in, "//"));
    if (*r->in.at == ' ') r->in.at++;
    size_t length = strcspn(r->in.at, "\r\n"), name = length, rest = strlen(mark);
    for (size_t i = 0; i + rest <= length && name == length; i++)
        if (memcmp(r->in.at + i, mark, rest) == 0) name = i;
    *out = arena_strndup(r->in.memory, r->in.at, name);
    TRY_ALLOC(*out);
    *out_rest = NULL;
    if (name < length) {
        *out_rest = arena_strndup(r->in.memory, r->in.at + name + rest, length - name - rest);
        TRY_ALLOC(*out_rest);
    }
    r->in.at += length;
    return scan_line_end(&r->in);
}

bool parse_next_line(parse_reader *r)
{
    while (scan_next_line(&r->in)) {
        if (strncmp(r->in.at, "//", 2) != 0) return true;
        r->in.at += strcspn(r->in.at, "\n");
    }
    return false;
}

spyre_status parse_view(parse_reader *r, spyre_view *out)
{
    *out = (spyre_view){0};
    while (!scan_line_ends(&r->in) && *r->in.at != ')') {
        uint32_t d = out->rank;
        if (d == SPYRE_MAX_RANK) return scan_error(&r->in, "more than %d dims", SPYRE_MAX_RANK);
        TRY(scan_int_within(&r->in, "a size", 0, PARSE_MOST_ELEMENTS, &out->size[d]));
        TRY(scan_expect(&r->in, ":"));
        TRY(scan_int_within(&r->in, "a stride", 0, PARSE_MOST_ELEMENTS, &out->stride[d]));
        out->rank++;
    }
    return NULL;
}

spyre_status parse_dim_names(parse_reader *r, parse_names *out)
{
    TRY(scan_expect(&r->in, "("));
    TRY(scan_string(&r->in, &out->text));
    TRY(parse_view(r, &out->view));
    for (uint32_t d = 0; d < out->view.rank; d++)
        if (out->view.size[d] == 0)
            return scan_error(&r->in, "dim %u of a tensor with names has no elements", d);
    return scan_expect(&r->in, ")");
}
