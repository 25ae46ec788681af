// SPDX-License-Identifier: Apache-2.0
//
// Coordinates as SymPy writes them, evaluated at one point in exact fractions, because a sum of
// quotients may be whole where its parts are not.
#include <ctype.h>
#include <string.h>

#include "base/integer.h"
#include "front/spec/op_spec.h"

enum { MOST_DEPTH = 32 };

__extension__ typedef __int128 wide;

typedef struct {
    int64_t above, below; // below > 0
} fraction;

typedef struct {
    const char *start, *at;
    const char *const *names;
    const int64_t *values;
    uint32_t count, depth;
    const char *why; // what is wrong at `at`, or null
} reader;

static fraction fail(reader *r, const char *why)
{
    if (!r->why) r->why = why;
    return (fraction){0, 1};
}

static fraction reduced(reader *r, wide above, wide below)
{
    if (below == 0) return fail(r, "a division by zero");
    if (below < 0) {
        above = -above;
        below = -below;
    }
    if (above > INT64_MAX / 2 || above < -(INT64_MAX / 2) || below > INT64_MAX / 2)
        return fail(r, "a number beyond 62 bits");
    int64_t divisor = common_divisor((int64_t)above, (int64_t)below);
    if (divisor == 0) divisor = 1;
    return (fraction){(int64_t)above / divisor, (int64_t)below / divisor};
}

static fraction floor_of(fraction x)
{
    int64_t quotient = x.above / x.below;
    if (x.above % x.below < 0) quotient--;
    return (fraction){quotient, 1};
}

static void skip_spaces(reader *r)
{
    while (*r->at == ' ') r->at++;
}

static bool take(reader *r, char c)
{
    skip_spaces(r);
    if (*r->at != c) return false;
    r->at++;
    return true;
}

static fraction read_sum(reader *r);

static fraction subtract_floor(reader *r, fraction x, fraction n)
{
    fraction whole = floor_of(reduced(r, (wide)x.above * n.below, (wide)x.below * n.above));
    return reduced(r, (wide)x.above * n.below - (wide)whole.above * n.above * x.below,
                   (wide)x.below * n.below);
}

static fraction find_symbol(reader *r, const char *name, size_t length)
{
    for (uint32_t i = 0; i < r->count; i++)
        if (strlen(r->names[i]) == length && memcmp(r->names[i], name, length) == 0)
            return (fraction){r->values[i], 1};
    return fail(r, "a symbol that is no loop of the op");
}

static fraction read_name(reader *r)
{
    const char *name = r->at;
    while (isalnum((unsigned char)*r->at) || *r->at == '_') r->at++;
    size_t length = (size_t)(r->at - name);
    if (!take(r, '(')) return find_symbol(r, name, length);
    if (length == 14 && memcmp(name, "IndirectAccess", length) == 0) {
        while (*r->at && *r->at != ')') r->at++;
        return take(r, ')') ? find_symbol(r, "row", 3) : fail(r, "expected )");
    }
    fraction x = read_sum(r);
    if (length == 5 && memcmp(name, "floor", length) == 0)
        return take(r, ')') ? floor_of(x) : fail(r, "expected )");
    if (length != 3 || memcmp(name, "Mod", length) != 0) return fail(r, "an unknown function");
    if (!take(r, ',')) return fail(r, "expected ,");
    fraction n = read_sum(r);
    if (!take(r, ')')) return fail(r, "expected )");
    if (n.above <= 0) return fail(r, "a modulus that is not positive");
    return subtract_floor(r, x, n);
}

static fraction read_number(reader *r)
{
    int64_t value = 0;
    for (; isdigit((unsigned char)*r->at); r->at++)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, *r->at - '0', &value))
            return fail(r, "a number beyond 62 bits");
    return reduced(r, value, 1);
}

static fraction read_factor(reader *r)
{
    fraction x;
    if (++r->depth > MOST_DEPTH) return fail(r, "nested too deeply");
    if (take(r, '-')) {
        x = read_factor(r);
        x.above = -x.above;
    } else if (take(r, '(')) {
        x = read_sum(r);
        if (!take(r, ')')) x = fail(r, "expected )");
    } else if (isdigit((unsigned char)*r->at)) {
        x = read_number(r);
    } else if (isalpha((unsigned char)*r->at)) {
        x = read_name(r);
    } else {
        x = fail(r, "expected a number, a symbol or (");
    }
    r->depth--;
    return x;
}

static fraction read_product(reader *r)
{
    fraction x = read_factor(r);
    while (!r->why) {
        bool times = take(r, '*'), over = !times && take(r, '/');
        if (!times && !over) break;
        fraction y = read_factor(r);
        x = times ? reduced(r, (wide)x.above * y.above, (wide)x.below * y.below)
                  : reduced(r, (wide)x.above * y.below, (wide)x.below * y.above);
    }
    return x;
}

static fraction read_sum(reader *r)
{
    fraction x = read_product(r);
    while (!r->why) {
        bool plus = take(r, '+'), minus = !plus && take(r, '-');
        if (!plus && !minus) break;
        fraction y = read_product(r);
        wide left = (wide)x.above * y.below, right = (wide)y.above * x.below;
        x = reduced(r, plus ? left + right : left - right, (wide)x.below * y.below);
    }
    return x;
}

spyre_status op_spec_evaluate(const char *coordinate, const char *const *names,
                              const int64_t *values, uint32_t count, int64_t *out_value)
{
    reader r = {.start = coordinate, .at = coordinate, .names = names, .values = values,
                .count = count};
    fraction x = read_sum(&r);
    skip_spaces(&r);
    if (!r.why && *r.at) r.why = "expected an operator";
    if (!r.why && x.below != 1) r.why = "a value that is no whole number";
    *out_value = x.above;
    if (!r.why) return NULL;
    return status_new(SPYRE_INVALID_FORMAT, "'%.80s', character %d: %s", coordinate,
                      (int)(r.at - r.start) + 1, r.why);
}
