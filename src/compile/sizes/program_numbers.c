// SPDX-License-Identifier: Apache-2.0
//
// A number is a sum of products of sizes and their squares. It follows from the programs of three
// values of each size; of two where one of three would be a single granule, whose program may have
// another form. That is a guess about the others, which symbolic_program.c checks at each.
#include "compile/sizes/program_numbers.h"

#include <string.h>

static const int64_t MOST_NUMBER = (int64_t)1 << 34;    // bytes of a segment
_Static_assert((int)NUMBER_POINTS == NUMBER_VALUES * NUMBER_VALUES * NUMBER_VALUES * NUMBER_VALUES,
               "of every size");

uint32_t program_numbers_digit(uint32_t index, uint32_t s)
{
    while (s-- > 0) index /= NUMBER_VALUES;
    return index % NUMBER_VALUES;
}

// Values at n, n - 1 and n - 2 become the factors of 1, n and n * n. False where these are no
// whole numbers.
static bool solve(int64_t n, uint8_t degree, int64_t v[NUMBER_VALUES])
{
    int64_t once = degree ? v[0] - v[1] : 0, twice = 0;
    if (degree == 2) {
        twice = once - (v[1] - v[2]);
        if (twice % 2) return false;
        twice /= 2;
        once -= twice * (2 * n - 1);
    }
    v[0] -= once * n + twice * n * n;
    v[1] = once;
    v[2] = twice;
    return true;
}

// Factors of the products, one size after the other. Below MOST_NUMBER and SYMBOLIC_MOST_SIZES
// nothing overflows.
static bool find_factors(const program_numbers *n, uint32_t number, int64_t factors[NUMBER_POINTS])
{
    for (uint32_t point = 0; point < NUMBER_POINTS; point++) {
        factors[point] = n->points[point] ? n->points[point][number] : 0;
        if (factors[point] > MOST_NUMBER || factors[point] < -MOST_NUMBER) return false;
    }
    for (uint32_t s = 0, step = 1; s < n->symbol_count; s++, step *= NUMBER_VALUES) {
        for (uint32_t point = 0; point < NUMBER_POINTS; point++) {
            if (program_numbers_digit(point, s)) continue;
            int64_t v[NUMBER_VALUES];
            for (uint32_t k = 0; k < NUMBER_VALUES; k++) v[k] = factors[point + k * step];
            if (!solve(n->granules[s], n->degree[s], v)) return false;
            for (uint32_t k = 0; k < NUMBER_VALUES; k++) factors[point + k * step] = v[k];
        }
    }
    return true;
}

static bool same_expression(const spyrecode_expression *a, const spyrecode_term *terms,
                            uint32_t count)
{
    return a->term_count == count && memcmp(a->terms, terms, count * sizeof *terms) == 0;
}

static spyre_status add_rule(arena *memory, program_numbers *n, uint32_t number, bool *out_fits)
{
    int64_t factors[NUMBER_POINTS];
    spyrecode_term terms[NUMBER_POINTS];
    uint32_t count = 0;
    memset(terms, 0, sizeof terms);     // they are compared as bytes
    *out_fits = find_factors(n, number, factors);
    for (uint32_t term = 0; term < NUMBER_POINTS && *out_fits; term++) {
        if (!factors[term]) continue;
        terms[count].factor = factors[term];
        for (uint32_t s = 0; s < SPYRECODE_MOST_SYMBOLS; s++)
            terms[count].power[s] = (uint8_t)program_numbers_digit(term, s);
        count++;
    }
    if (!*out_fits) return NULL;
    for (uint32_t e = 0; e < n->expressions.count; e++) {
        if (!same_expression(&n->expressions.items[e], terms, count)) continue;
        n->rule[number] = 1 + e;
        return NULL;
    }
    spyrecode_term *kept = ARENA_NEW(memory, spyrecode_term, count);
    TRY_ALLOC(kept);
    memcpy(kept, terms, count * sizeof *terms);
    spyrecode_expression expression = {count, kept};
    TRY(VEC_PUSH(memory, &n->expressions, expression));
    n->rule[number] = n->expressions.count;
    return NULL;
}

// The first point has all sizes at their largest.
static bool varies(const program_numbers *n, uint32_t number)
{
    for (uint32_t point = 1; point < NUMBER_POINTS; point++)
        if (n->points[point] && n->points[point][number] != n->points[0][number]) return true;
    return false;
}

spyre_status program_numbers_find(arena *memory, program_numbers *n, bool *out_fits)
{
    TRY_NEW(memory, n->rule, n->count);
    for (uint32_t number = 0; number < n->count && *out_fits; number++) {
        if (varies(n, number)) TRY(add_rule(memory, n, number, out_fits));
        if (number + 1 == n->program_count) n->value_count = n->expressions.count;
    }
    return NULL;
}
