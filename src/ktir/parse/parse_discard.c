// SPDX-License-Identifier: Apache-2.0
//
// What MLIR's tools print that no kernel means anything by: locations, attributes of other
// dialects, flags that permit to compute less exactly or promise what this stack does not need.
#include <string.h>

#include "ktir/parse/parse.h"

static int nests(const token *t)
{
    if (t->kind != TOKEN_SIGN || t->length != 1) return 0;
    return strchr("([{<", *t->start) ? 1 : strchr(")]}>", *t->start) ? -1 : 0;
}

// Tokens up to a ',' or closing bracket that no bracket among them has opened.
static spyre_status skip_value(parser *p)
{
    int depth = 0;
    while (depth > 0 || (nests(&p->l.now) >= 0 && !lexer_at(&p->l, ","))) {
        if (p->l.now.kind == TOKEN_END) return lexer_unexpected(&p->l, "the end of an attribute");
        depth += nests(&p->l.now);
        TRY(lexer_next(&p->l));
    }
    return NULL;
}

spyre_status parse_location(parser *p)
{
    bool found;
    TRY(lexer_skip(&p->l, "loc", &found));
    if (!found) return NULL;
    TRY(lexer_expect(&p->l, "("));
    while (!lexer_at(&p->l, ")")) {
        TRY(skip_value(p));
        if (!lexer_at(&p->l, ")")) TRY(lexer_expect(&p->l, ","));
    }
    return lexer_next(&p->l);
}

spyre_status parse_discarded(parser *p)
{
    token name;
    bool value;
    TRY(lexer_take(&p->l, TOKEN_WORD, "an attribute", &name));
    if (!memchr(name.start, '.', name.length))
        return PARSE_BAD(p, &name, "there is no attribute '%.*s'", token_shown(&name), name.start);
    TRY(lexer_skip(&p->l, "=", &value));
    return value ? skip_value(p) : NULL;
}

spyre_status parse_discarded_dictionary(parser *p)
{
    bool found;
    TRY(lexer_skip(&p->l, "{", &found));
    if (!found) return NULL;
    while (!lexer_at(&p->l, "}")) {
        TRY(parse_discarded(p));
        if (!lexer_at(&p->l, "}")) TRY(lexer_expect(&p->l, ","));
    }
    return lexer_next(&p->l);
}

spyre_status parse_flags(parser *p)
{
    static const char *const flags[] = {"fastmath", "overflow", "exact", "nneg"};
    for (size_t n = 0; n < sizeof flags / sizeof *flags; n++) {
        bool found, values;
        TRY(lexer_skip(&p->l, flags[n], &found));
        if (!found || n > 1) continue;
        TRY(lexer_expect(&p->l, "<"));
        do {
            TRY(skip_value(p));
            TRY(lexer_skip(&p->l, ",", &values));
        } while (values);
        TRY(lexer_expect(&p->l, ">"));
    }
    return parse_discarded_dictionary(p);
}
