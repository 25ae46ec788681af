// SPDX-License-Identifier: Apache-2.0
//
// Operations of the arith and math dialects.
#include <math.h>
#include <string.h>

#include "ktir/parse/parse.h"
#include "tensor/numeric.h"

static int64_t bits_of(double value)
{
    int64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

// A hexadecimal constant of a float type is its bits.
static spyre_status real_from_bits(parser *p, const token *t, ktir_element element, double *out)
{
    uint32_t width = ktir_element_describe(element)->bytes * 8;
    if (t->number < 0 || (uint64_t)t->number >> width)
        return PARSE_BAD(p, t, "%.*s has more than %u bits", token_shown(t), t->start, width);
    *out = element == KTIR_F32    ? (double)float_from_bits((uint32_t)t->number)
           : element == KTIR_BF16 ? (double)bf16_to_float((uint16_t)t->number)
                                  : (double)fp16_to_float((uint16_t)t->number);
    return NULL;
}

static spyre_status check_range(parser *p, const token *t, ktir_element element)
{
    uint32_t width = element == KTIR_I1 ? 1 : ktir_element_describe(element)->bytes * 8;
    if (width == 64) return NULL;
    int64_t least = -((int64_t)1 << (width - 1)), most = (int64_t)1 << width;
    if (t->number >= least && t->number < most) return NULL;
    return PARSE_BAD(p, t, "%.*s does not fit %s", token_shown(t), t->start,
                     ktir_element_describe(element)->name);
}

// The number wrapped to the width of the type.
static int64_t wrapped(int64_t number, ktir_element element)
{
    uint32_t width = element == KTIR_I1 ? 1 : ktir_element_describe(element)->bytes * 8;
    if (width == 64) return number;
    if (width == 1) return number & 1;
    return (int64_t)((uint64_t)number << (64 - width)) >> (64 - width);
}

static spyre_status constant_value(parser *p, const token *t, ktir_element element,
                                   int64_t *out_value)
{
    bool is_float = ktir_element_describe(element)->is_float;
    bool is_true = token_is(t, "true"), word = t->kind == TOKEN_WORD;
    if (word ? !is_true && !token_is(t, "false") : t->kind != TOKEN_NUMBER && t->kind != TOKEN_REAL)
        return PARSE_BAD(p, t, "'%.*s' is no constant", token_shown(t), t->start);
    if (word != (element == KTIR_I1) && (word || t->kind == TOKEN_REAL))
        return PARSE_BAD(p, t, "'%.*s' is no %s", token_shown(t), t->start,
                         ktir_element_describe(element)->name);
    if (word) {
        *out_value = is_true;
        return NULL;
    }
    if (!is_float) {
        if (t->kind == TOKEN_REAL)
            return PARSE_BAD(p, t, "'%.*s' is no %s", token_shown(t), t->start,
                             ktir_element_describe(element)->name);
        *out_value = wrapped(t->number, element);
        return check_range(p, t, element);
    }
    double value = t->kind == TOKEN_REAL ? t->real : (double)t->number;
    bool bits = t->kind == TOKEN_NUMBER && t->length > 2 && t->start[1] == 'x';
    if (bits) TRY(real_from_bits(p, t, element, &value));
    *out_value = bits_of(value);
    return NULL;
}

// 0 : index, 0xFC00 : f16, true, dense<1.0> : tensor<4xf32>
static spyre_status parse_constant(statement *s)
{
    parser *p = s->p;
    bool dense, typed;
    int64_t value = 0;
    const ktir_type *type = parse_scalar_type(p, KTIR_I1);
    TRY(lexer_skip(&p->l, "dense", &dense));
    if (dense) TRY(lexer_expect(&p->l, "<"));
    token t = p->l.now;
    TRY(lexer_next(&p->l));
    if (dense) TRY(lexer_expect(&p->l, ">"));
    token at = p->l.now;
    TRY(lexer_skip(&p->l, ":", &typed));
    if (typed) TRY(parse_type(p, &type));
    else if (t.kind != TOKEN_WORD) return lexer_unexpected(&p->l, "':' and a type");
    if (type->kind != (dense ? KTIR_TENSOR : KTIR_SCALAR))
        return PARSE_BAD(p, &at, dense ? "dense<..> is a tensor" : "a number has a scalar type");
    TRY_ALLOC(type);
    TRY(constant_value(p, &t, type->element, &value));
    TRY(parse_add_number(s, KTIR_KEY_VALUE, value));
    return parse_result(s, type);
}

// : T where all operands are T.
static spyre_status parse_types_of_equal(statement *s, uint32_t count)
{
    parser *p = s->p;
    TRY(parse_flags(p));
    TRY(lexer_expect(&p->l, ":"));
    token at = p->l.now;
    TRY(parse_expect_type(s, 0));
    for (uint32_t n = 1; n < count; n++) {
        if (ktir_type_same(parse_type_of(s, 0), parse_type_of(s, n))) continue;
        text there = {0};
        ktir_type_print(parse_type_of(s, n), &there);
        spyre_status status = PARSE_BAD(p, &at, "%s has type %s",
                                        p->m->values.items[s->operands.items[n]].name,
                                        text_string(&there));
        text_free(&there);
        return status;
    }
    return NULL;
}

// %a, %b : T where all operands and the result are T.
static spyre_status parse_equal(statement *s, uint32_t count)
{
    TRY(parse_operands(s, count));
    return parse_types_of_equal(s, count);
}

static spyre_status booleans_like(statement *s, const ktir_type *like, const ktir_type **out_type)
{
    ktir_type type = *like;
    type.element = KTIR_I1;
    type.layout = NULL;
    return parse_intern_type(s->p, &type, out_type);
}

static spyre_status parse_compare(statement *s)
{
    parser *p = s->p;
    token name;
    bool floats = s->op.opcode == KTIR_OP_CMPF;
    uint32_t row = 0;
    const ktir_type *type;
    TRY(lexer_take(&p->l, TOKEN_WORD, "a predicate", &name));
    while (row < KTIR_PREDICATES && !(ktir_predicates[row].of_floats == floats &&
                                      token_is(&name, ktir_predicates[row].name)))
        row++;
    if (row == KTIR_PREDICATES)
        return PARSE_BAD(p, &name, "there is no predicate '%.*s'", token_shown(&name), name.start);
    TRY(parse_add_number(s, KTIR_KEY_PREDICATE, row));
    TRY(lexer_expect(&p->l, ","));
    TRY(parse_equal(s, 2));
    TRY(booleans_like(s, parse_type_of(s, 0), &type));
    return parse_result(s, type);
}

// %c, %a, %b : T, or : C, T with the type of the condition.
static spyre_status parse_select(statement *s)
{
    parser *p = s->p;
    bool two;
    TRY(parse_operands(s, 3));
    TRY(lexer_expect(&p->l, ":"));
    token at = p->l.now;
    const ktir_type *type;
    TRY(parse_type(p, &type));
    TRY(lexer_skip(&p->l, ",", &two));
    if (two) {
        if (!ktir_type_same(type, parse_type_of(s, 0)))
            return PARSE_BAD(p, &at, "the condition has another type");
        at = p->l.now;
        TRY(parse_type(p, &type));
    }
    for (uint32_t n = 1; n < 3; n++)
        if (!ktir_type_same(type, parse_type_of(s, n)))
            return PARSE_BAD(p, &at, "%s has another type",
                             p->m->values.items[s->operands.items[n]].name);
    return parse_result(s, type);
}

spyre_status parse_cast(statement *s)
{
    const ktir_type *type;
    TRY(parse_operand(s, NULL));
    TRY(parse_operand_types(s, 0));
    TRY(lexer_expect(&s->p->l, "to"));
    TRY(parse_type(s->p, &type));
    return parse_result(s, type);
}

// %a : T, a truth of each element.
static spyre_status parse_class(statement *s)
{
    const ktir_type *type;
    TRY(parse_equal(s, 1));
    TRY(booleans_like(s, parse_type_of(s, 0), &type));
    return parse_result(s, type);
}

// %x to [%low, %high] : T
static spyre_status parse_clamp(statement *s)
{
    static const char *const behind[] = {"to", ",", "]"};
    for (uint32_t n = 0; n < 3; n++) {
        TRY(parse_operand(s, NULL));
        TRY(lexer_expect(&s->p->l, behind[n]));
        if (n == 0) TRY(lexer_expect(&s->p->l, "["));
    }
    return parse_types_of_equal(s, 3);
}

// %x, %n : T, U
static spyre_status parse_power(statement *s)
{
    TRY(parse_operands(s, 2));
    TRY(parse_operand_types(s, 0));
    return parse_result(s, parse_type_of(s, 0));
}

spyre_status parse_arith(statement *s, ktir_form form)
{
    if (form == KTIR_FORM_CONSTANT) return parse_constant(s);
    if (form == KTIR_FORM_COMPARE) return parse_compare(s);
    if (form == KTIR_FORM_CLASS) return parse_class(s);
    if (form == KTIR_FORM_FPOWI) return parse_power(s);
    if (form == KTIR_FORM_SELECT) return parse_select(s);
    if (form == KTIR_FORM_CAST) return parse_cast(s);
    if (s->op.opcode == KTIR_OP_CLAMPF) TRY(parse_clamp(s));
    else TRY(parse_equal(s, form == KTIR_FORM_UNARY ? 1 : form == KTIR_FORM_BINARY ? 2 : 3));
    if (s->op.opcode == KTIR_OP_SINCOS) TRY(parse_result(s, parse_type_of(s, 0)));
    return parse_result(s, parse_type_of(s, 0));
}
