// SPDX-License-Identifier: Apache-2.0
#include "compile/sizes/size_number.h"

#include <math.h>
#include <string.h>

#include "tensor/scalar.h"

size_proportion size_proportion_of(const spyre_size_span *span, int64_t size)
{
    return (size_proportion){span->most / span->granule, span->size / span->granule,
                             size / span->granule, true, false};
}

void size_scale(size_proportion *p, int64_t *number, int64_t most, int64_t next)
{
    const int64_t n = p->largest, m = p->next, square = most / (n * n);
    if (most == next) return;
    if (!most) p->fits = false;
    if (!p->fits) return;
    bool squares = most == square * n * n && next == square * m * m;
    int64_t each = n > m && (most - next) % (n - m) == 0 ? (most - next) / (n - m) : 0;
    int64_t now = squares ? square * p->granules * p->granules : most - each * (n - p->granules);
    p->fits = (squares || each) && !__builtin_mul_overflow(*number, now, &now) && now % most == 0;
    p->sums = p->sums || (!squares && each * n != most);
    if (p->fits) *number = now / most;
}

// --- Constants

static double value_of(size_constant_form form, int64_t count)
{
    switch (form) {
    case SIZE_COUNT: return (double)count;
    case SIZE_PART: return 1 / (double)count;
    case SIZE_RATIO: return (double)count / ((double)count - 1);
    }
    return NAN;
}

// False where the value is not of the form, to the last bit.
static bool count_in(size_constant_form form, double value, int64_t *out_count)
{
    double count = form == SIZE_COUNT ? value : form == SIZE_PART ? 1 / value : value / (value - 1);
    if (!(count >= 1 && count <= 0x1p40)) return false;
    *out_count = llround(count);
    return value_of(form, *out_count) == value;
}

typedef struct {
    const size_rules *rules;
    const loop_graph *largest;
    const executable_segment *const *smaller;
} constant_search;

static double value_at(const constant_search *f, uint32_t number, uint32_t buffer)
{
    return f->smaller[number]->front.loops->buffers.items[buffer].value;
}

static int64_t scaled(const size_rules *rules, const size_constant *constant, const int64_t *sizes,
                      bool *out_fits)
{
    int64_t count = constant->most;
    for (uint32_t k = 0; k < rules->count; k++) {
        size_proportion p = size_proportion_of(&rules->spans[k], sizes[k]);
        size_scale(&p, &count, constant->most, constant->next[k]);
        *out_fits = *out_fits && p.fits && (!p.sums || rules->has_least) && count > 0;
    }
    return count;
}

static bool has_form(const constant_search *f, uint32_t buffer, size_constant_form form,
                     size_constant *out)
{
    const loop_buffer *of = &f->largest->buffers.items[buffer];
    *out = (size_constant){.offset = of->memory_offset, .format = of->format, .form = form};
    bool fits = count_in(form, of->value, &out->most);
    for (uint32_t k = 0; k < f->rules->count; k++)
        fits = fits && count_in(form, value_at(f, k, buffer), &out->next[k]);
    for (uint32_t n = 0; n < size_smaller_count(f->rules) && fits; n++) {
        int64_t sizes[SPYRE_MOST_SIZES];
        size_smaller_sizes(f->rules, n, sizes);
        int64_t count = scaled(f->rules, out, sizes, &fits);
        fits = fits && value_of(form, count) == value_at(f, n, buffer);
    }
    return fits;
}

static bool varies(const constant_search *f, uint32_t buffer)
{
    const loop_buffer *of = &f->largest->buffers.items[buffer];
    bool other = false;
    if (of->kind != LOOP_CONSTANT || of->first_op == LOOP_UNUSED) return false;
    for (uint32_t n = 0; n < size_smaller_count(f->rules); n++) {
        double value = value_at(f, n, buffer);
        other = other || memcmp(&value, &of->value, sizeof value) != 0;
    }
    return other;
}

static bool find_form(const constant_search *f, uint32_t buffer, size_constant *out)
{
    for (size_constant_form form = SIZE_COUNT; form <= SIZE_RATIO; form++)
        if (has_form(f, buffer, form, out)) return true;
    return false;
}

spyre_status size_constants_find(const size_rules *rules, const executable_segment *largest,
                                 const executable_segment *const *smaller, size_segment *out,
                                 const char **out_why)
{
    const constant_search f = {rules, largest->front.loops, smaller};
    for (uint32_t n = 0; n < f.largest->buffers.count && !*out_why; n++) {
        size_constant constant;
        if (!varies(&f, n)) continue;
        if (!find_form(&f, n, &constant))
            *out_why = rules->has_least ? "a constant follows no size" : size_no_third;
        else
            TRY(VEC_PUSH(rules->memory, &out->constants, constant));
    }
    return NULL;
}

spyre_status size_constants_at(arena *memory, const size_rules *rules, const size_segment *segment,
                               const int64_t *sizes, const uint8_t *bytes, int64_t length,
                               const uint8_t **out_bytes)
{
    *out_bytes = bytes;
    if (segment->constants.count == 0) return NULL;
    uint8_t *own = arena_alloc(memory, (size_t)length);
    TRY_ALLOC(own);
    memcpy(own, bytes, (size_t)length);
    for (uint32_t n = 0; n < segment->constants.count; n++) {
        const size_constant *constant = &segment->constants.items[n];
        bool fits = true;               // as size_constants_find() has found
        int64_t count = scaled(rules, constant, sizes, &fits);
        scalar_fill_stick(own + constant->offset, constant->format,
                          value_of(constant->form, count));
    }
    *out_bytes = own;
    return NULL;
}
