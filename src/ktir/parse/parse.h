// SPDX-License-Identifier: Apache-2.0
//
// What the parts of the parser share. Every function consumes what it names from the lexer; errors
// are the lexer's, with line and column.
#ifndef KTIR_PARSE_H
#define KTIR_PARSE_H

#include "base/map.h"
#include "ktir/ir/ir.h"
#include "mlir/lexer.h"

enum { PARSE_MOST_NESTED = 64 };        // regions, and brackets of an expression

typedef struct {
    uint32_t name, shadowed;
} parse_binding;

typedef enum { PARSE_MAP, PARSE_SET } parse_alias_kind;

typedef struct {
    parse_alias_kind kind;
    const ktir_map *map;
    const ktir_set *set;
} parse_alias;

typedef struct parser {
    lexer l;
    ktir_module *m;
    arena *memory;
    map_bytes names;                    // of values -> entry of `bound`
    VEC(uint32_t) bound;                // its value now, or KTIR_NO_VALUE
    VEC(const char *) spelled;
    VEC(parse_binding) bindings;        // of the open regions
    map_bytes types;
    VEC(const ktir_type *) type_list;
    map_bytes alias_numbers;
    VEC(parse_alias) aliases;
    uint32_t depth;
    spyre_status (*statements)(struct parser *p);   // operations up to a '}'
} parser;

// The operation that is being read: its own lists until parse_finish() adds them to the module.
typedef struct {
    parser *p;
    ktir_op op;
    token at;
    uint32_t number;                    // in module->ops
    VEC(uint32_t) operands;
    VEC(ktir_attribute) attributes;
    VEC(const ktir_type *) results;
    VEC(uint32_t) regions;              // in module->regions
} statement;

#define PARSE_BAD(p, t, ...) lexer_error(&(p)->l, (t), __VA_ARGS__)

// --- Values

// The value of a name, of one that may be written without its "%", and the name's own token.
SPYRE_MUST_CHECK spyre_status parse_value(parser *p, uint32_t *out_value);
SPYRE_MUST_CHECK spyre_status parse_find(parser *p, const token *name, uint32_t *out_value);

// A new value of a new name.
SPYRE_MUST_CHECK spyre_status parse_define(parser *p, const token *name, const ktir_type *type,
                                           uint32_t definition, uint32_t *out_value);

// The same of a name that is `spelled` otherwise than in the text, where `at` is its place.
SPYRE_MUST_CHECK spyre_status parse_define_as(parser *p, const token *at, const token *spelled,
                                              const ktir_type *type, uint32_t definition,
                                              uint32_t *out_value);

// Forgets what was bound since there were `down_to` bindings.
void parse_unbind(parser *p, uint32_t down_to);

// Binds the name of value `from` to value `to`.
SPYRE_MUST_CHECK spyre_status parse_rebind(parser *p, uint32_t from, uint32_t to);

// %a as an operand of the statement; with its type when `out_type` is not null.
SPYRE_MUST_CHECK spyre_status parse_operand(statement *s, const ktir_type **out_type);

// "%a, %b": so many operands of the statement, or as many as there are, or up to a sign, if any;
// flags and ": T, U", their types.
SPYRE_MUST_CHECK spyre_status parse_operands(statement *s, uint32_t count);
SPYRE_MUST_CHECK spyre_status parse_all_operands(statement *s);
SPYRE_MUST_CHECK spyre_status parse_operands_to(statement *s, const char *close);
SPYRE_MUST_CHECK spyre_status parse_operand_types(statement *s, uint32_t first);

// ": T" where T is the type of operand `n`.
SPYRE_MUST_CHECK spyre_status parse_expect_type(statement *s, uint32_t operand);

// The value of operand n of the statement, and its type.
const ktir_type *parse_type_of(const statement *s, uint32_t operand);

// --- Types, numbers, attributes

SPYRE_MUST_CHECK spyre_status parse_type(parser *p, const ktir_type **out_type);
const ktir_type *parse_scalar_type(parser *p, ktir_element element);
SPYRE_MUST_CHECK spyre_status parse_intern_type(parser *p, const ktir_type *type,
                                                const ktir_type **out_type);
SPYRE_MUST_CHECK spyre_status parse_integer(parser *p, int64_t *out_number);

typedef VEC(int64_t) parse_numbers;

// [1, 2]
SPYRE_MUST_CHECK spyre_status parse_list(parser *p, parse_numbers *out_numbers);

// [64, %s0]: %s0 becomes an operand, its entry KTIR_OPERAND.
SPYRE_MUST_CHECK spyre_status parse_mixed_list(statement *s, ktir_key key);

SPYRE_MUST_CHECK spyre_status parse_add(statement *s, ktir_attribute attribute);
SPYRE_MUST_CHECK spyre_status parse_add_number(statement *s, ktir_key key, int64_t number);
SPYRE_MUST_CHECK spyre_status parse_add_list(statement *s, ktir_key key,
                                             const parse_numbers *numbers);

// affine_map<..>, affine_set<..> or #alias.
SPYRE_MUST_CHECK spyre_status parse_map(parser *p, const ktir_map **out_map);
SPYRE_MUST_CHECK spyre_status parse_set(parser *p, const ktir_set **out_set);

// An expression over names: `find` gives the number of a name token.
typedef spyre_status (*parse_find_name)(void *context, const token *name, int64_t *out_number);
SPYRE_MUST_CHECK spyre_status parse_expression(parser *p, parse_find_name find, void *context,
                                               const ktir_expr **out_expression);

// {name = value, ..}; nothing when there is no '{'. What it has no row for is an error.
SPYRE_MUST_CHECK spyre_status parse_dictionary(statement *s);

// name = value of a row of attribute.def.
SPYRE_MUST_CHECK spyre_status parse_named(statement *s);

// --- What is read and forgotten (parse_discard.c)

// loc(..), when it stands here.
SPYRE_MUST_CHECK spyre_status parse_location(parser *p);

// name, or name = value, of another dialect: with a dot. Any other name is an error.
SPYRE_MUST_CHECK spyre_status parse_discarded(parser *p);

// {..} of those, when it stands here.
SPYRE_MUST_CHECK spyre_status parse_discarded_dictionary(parser *p);

// fastmath<..>, overflow<..>, exact, nneg, and such a dictionary.
SPYRE_MUST_CHECK spyre_status parse_flags(parser *p);

// --- Statements

// Adds a result.
SPYRE_MUST_CHECK spyre_status parse_result(statement *s, const ktir_type *type);

// Reserves the operation's place in front of its regions' operations; its results are not visible
// there.
SPYRE_MUST_CHECK spyre_status parse_begin(statement *s);

// %in: f16, %out: f16
enum { PARSE_MOST_ARGUMENTS = 64 };
typedef struct {
    uint32_t count;
    token names[PARSE_MOST_ARGUMENTS];
    const ktir_type *types[PARSE_MOST_ARGUMENTS];
} parse_arguments;
SPYRE_MUST_CHECK spyre_status parse_typed_names(parser *p, const char *close,
                                                parse_arguments *out_arguments);

// A region with these arguments: operations up to a '}', which is consumed with the '{' in front of
// it.
SPYRE_MUST_CHECK spyre_status parse_region(statement *s, const parse_arguments *arguments);

// The same where the arguments may stand behind a ^bb0 inside.
SPYRE_MUST_CHECK spyre_status parse_block_region(statement *s);

// %a : T to U
SPYRE_MUST_CHECK spyre_status parse_cast(statement *s);

// What stands behind the mnemonic, by form.
SPYRE_MUST_CHECK spyre_status parse_arith(statement *s, ktir_form form);
SPYRE_MUST_CHECK spyre_status parse_linalg(statement *s, ktir_form form);
SPYRE_MUST_CHECK spyre_status parse_tensor(statement *s, ktir_form form);
SPYRE_MUST_CHECK spyre_status parse_scf(statement *s, ktir_form form);
SPYRE_MUST_CHECK spyre_status parse_ktdp(statement *s, ktir_form form);

#endif
