// SPDX-License-Identifier: Apache-2.0
//
// Types: f16, tensor<1x64xf16>, memref<64x?xf16, strided<[64, 1], offset: ?>>,
// !ktdp.access_tile<1x64xindex> or <1x64xindex>, !ktdp.tile_future<tensor<1xf16>, groups = #set> or
// <(tensor<1xf16>), groups = #set>. Equal types are one object.
#include <string.h>

#include "ktir/parse/parse.h"

enum { LARGEST_SIZE_BITS = 40 };

static bool element_named(const char *name, size_t length, ktir_element *out_element)
{
    static const struct {
        const char *name;
        ktir_element element;
    } others[] = {{"fp16", KTIR_F16}, {"fp32", KTIR_F32}, {"si32", KTIR_I32}, {"si64", KTIR_I64}};
    for (uint32_t e = 0; e < KTIR_ELEMENT_COUNT; e++) {
        const char *candidate = ktir_element_describe((ktir_element)e)->name;
        if (strlen(candidate) != length || memcmp(candidate, name, length) != 0) continue;
        *out_element = (ktir_element)e;
        return true;
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (strlen(others[i].name) != length || memcmp(others[i].name, name, length) != 0) continue;
        *out_element = others[i].element;
        return true;
    }
    return false;
}

spyre_status parse_intern_type(parser *p, const ktir_type *type, const ktir_type **out_type)
{
    uint32_t number;
    TRY(map_bytes_intern(p->memory, &p->types, type, sizeof *type, p->type_list.count, &number));
    if (number == p->type_list.count) {
        ktir_type *copy = ARENA_NEW(p->memory, ktir_type, 1);
        TRY_ALLOC(copy);
        memcpy(copy, type, sizeof *copy);
        TRY(VEC_PUSH(p->memory, &p->type_list, copy));
    }
    *out_type = p->type_list.items[number];
    return NULL;
}

spyre_status parse_integer(parser *p, int64_t *out_number)
{
    token number;
    TRY(lexer_take(&p->l, TOKEN_NUMBER, "an integer", &number));
    *out_number = number.number;
    if (number.number != KTIR_OPERAND) return NULL;     // it would be taken for an operand
    return PARSE_BAD(p, &number, "a number beyond 63 bits");
}

// The lexer takes "64x2048xf16" apart in its own way, so sizes are read from the characters.
typedef struct {
    const char *at;
} sizes_scan;

static bool blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

// "64x" or "?x"; false when something else stands there.
static bool scan_size(sizes_scan *scan, const char *end, int64_t *out_size, bool *out_large)
{
    const char *at = scan->at;
    *out_large = false;
    if (at < end && *at == '?') {
        *out_size = KTIR_DYNAMIC;
        at++;
    } else {
        int64_t size = 0;
        const char *first = at;
        while (at < end && *at >= '0' && *at <= '9') {
            size = size * 10 + (*at++ - '0');
            if (size >> LARGEST_SIZE_BITS) {
                *out_large = true;
                size = 0;
            }
        }
        if (at == first) return false;
        *out_size = size;
    }
    while (at < end && blank(*at)) at++;
    if (at == end || *at != 'x') return false;
    at++;
    while (at < end && blank(*at)) at++;
    scan->at = at;
    return true;
}

// Sizes and element behind a '<' that is the current token; what follows becomes the current one.
static spyre_status parse_sizes(parser *p, ktir_type *type)
{
    token open = p->l.now;
    if (!lexer_at(&p->l, "<")) return lexer_unexpected(&p->l, "'<'");
    sizes_scan scan = {p->l.at};
    int64_t size;
    bool large;
    double elements = 1;
    while (scan.at < p->l.end && blank(*scan.at)) scan.at++;
    while (scan_size(&scan, p->l.end, &size, &large)) {
        if (large) return PARSE_BAD(p, &open, "a size of 2^%d or more", LARGEST_SIZE_BITS);
        if (type->rank == KTIR_MOST_RANK)
            return PARSE_BAD(p, &open, "a type of more than %d dims", KTIR_MOST_RANK);
        type->size[type->rank++] = size;
        if (size != KTIR_DYNAMIC) elements *= (double)size;
    }
    if (elements >= 0x1p40) return PARSE_BAD(p, &open, "a type of 2^40 elements or more");
    for (; p->l.at < scan.at; p->l.at++) {
        if (*p->l.at != '\n') continue;
        p->l.line++;
        p->l.line_start = p->l.at + 1;
    }
    TRY(lexer_next(&p->l));
    token name = p->l.now;
    if (name.kind != TOKEN_WORD || !element_named(name.start, name.length, &type->element))
        return lexer_unexpected(&p->l, "an element type");
    return lexer_next(&p->l);
}

static spyre_status parse_layout_number(parser *p, int64_t *out_number)
{
    *out_number = KTIR_DYNAMIC;
    if (lexer_at(&p->l, "?")) return lexer_next(&p->l);
    return parse_integer(p, out_number);
}

// strided<[64, 1], offset: 5>
static spyre_status parse_layout(parser *p, ktir_type *type)
{
    int64_t *layout = ARENA_NEW(p->memory, int64_t, type->rank + 1);
    bool more = type->rank > 0;
    TRY_ALLOC(layout);
    TRY(lexer_expect(&p->l, "<"));
    TRY(lexer_expect(&p->l, "["));
    for (uint32_t d = 0; d < type->rank; d++) {
        if (d) TRY(lexer_expect(&p->l, ","));
        TRY(parse_layout_number(p, &layout[d]));
    }
    TRY(lexer_expect(&p->l, "]"));
    TRY(lexer_skip(&p->l, ",", &more));
    if (more) {
        TRY(lexer_expect(&p->l, "offset"));
        TRY(lexer_expect(&p->l, ":"));
        TRY(parse_layout_number(p, &layout[type->rank]));
    }
    type->layout = layout;
    return lexer_expect(&p->l, ">");
}

static spyre_status parse_memref(parser *p, ktir_type *type)
{
    bool more, strided;
    type->kind = KTIR_MEMREF;
    TRY(parse_sizes(p, type));
    TRY(lexer_skip(&p->l, ",", &more));
    if (more) {
        TRY(lexer_skip(&p->l, "strided", &strided));
        if (!strided) return lexer_unexpected(&p->l, "'strided'");
        TRY(parse_layout(p, type));
    }
    return lexer_expect(&p->l, ">");
}

static spyre_status parse_tile(parser *p, ktir_type *type)
{
    token open = p->l.now;
    type->kind = KTIR_TILE;
    TRY(parse_sizes(p, type));
    if (type->element != KTIR_INDEX)
        return PARSE_BAD(p, &open, "an access tile has index elements");
    return lexer_expect(&p->l, ">");
}

static spyre_status parse_tensor_into(parser *p, ktir_type *type)
{
    type->kind = KTIR_TENSOR;
    TRY(parse_sizes(p, type));
    return lexer_expect(&p->l, ">");
}

// Behind its '<'.
static spyre_status parse_future(parser *p, ktir_type *type)
{
    bool brackets;
    TRY(lexer_skip(&p->l, "(", &brackets));
    TRY(lexer_expect(&p->l, "tensor"));
    TRY(parse_tensor_into(p, type));
    if (brackets) TRY(lexer_expect(&p->l, ")"));
    TRY(lexer_expect(&p->l, ","));
    TRY(lexer_expect(&p->l, "groups"));
    TRY(lexer_expect(&p->l, "="));
    TRY(parse_set(p, &type->groups));
    type->kind = KTIR_FUTURE;
    return lexer_expect(&p->l, ">");
}

// A type without its name: <1x64xindex> is an access tile, <(tensor<..>), ..> a future.
static spyre_status parse_bare(parser *p, ktir_type *type)
{
    const char *at = p->l.at;
    while (at < p->l.end && blank(*at)) at++;
    if (at == p->l.end || (*at != '(' && *at != 't')) return parse_tile(p, type);
    TRY(lexer_next(&p->l));
    return parse_future(p, type);
}

spyre_status parse_type(parser *p, const ktir_type **out_type)
{
    ktir_type type;
    memset(&type, 0, sizeof type);      // its bytes are a key
    token name = p->l.now;
    if (lexer_at(&p->l, "<")) {
        TRY(parse_bare(p, &type));
        return parse_intern_type(p, &type, out_type);
    }
    if (name.kind != TOKEN_WORD) return lexer_unexpected(&p->l, "a type");
    bool scalar = element_named(name.start, name.length, &type.element);
    TRY(lexer_next(&p->l));
    if (scalar) type.kind = KTIR_SCALAR;
    else if (token_is(&name, "tensor")) TRY(parse_tensor_into(p, &type));
    else if (token_is(&name, "memref")) TRY(parse_memref(p, &type));
    else if (token_is(&name, "!ktdp.access_tile")) TRY(parse_tile(p, &type));
    else if (token_is(&name, "!ktdp.tile_future")) {
        TRY(lexer_expect(&p->l, "<"));
        TRY(parse_future(p, &type));
    } else {
        return PARSE_BAD(p, &name, "there is no type '%.*s'", token_shown(&name), name.start);
    }
    return parse_intern_type(p, &type, out_type);
}

const ktir_type *parse_scalar_type(parser *p, ktir_element element)
{
    ktir_type type;
    const ktir_type *interned = NULL;
    memset(&type, 0, sizeof type);
    type.element = element;
    spyre_status status = parse_intern_type(p, &type, &interned);
    spyre_status_free(status);
    return interned;
}
