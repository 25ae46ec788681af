// SPDX-License-Identifier: Apache-2.0
//
// What the parts of the printer share.
#ifndef KTIR_PRINT_H
#define KTIR_PRINT_H

#include "ktir/ir/ir.h"

typedef struct printer {
    const ktir_module *m;
    text *out;
    uint32_t indent;
    void (*op)(const struct printer *p, const ktir_op *op);     // prints a line
} printer;

// "%a"
void print_operand(const printer *p, const ktir_op *op, uint32_t n);

// "%a, %b" of operands first..end
void print_operands(const printer *p, const ktir_op *op, uint32_t first, uint32_t end);

// "T, T" of operands first..end
void print_types(const printer *p, const ktir_op *op, uint32_t first, uint32_t end);

void print_type(const printer *p, const ktir_type *type);

// `form`, in which $0 is operand 0, $1+ are those from the second one on, @0 and @1+ their types,
// @r the result's: " $0, $1 : @0 -> @r"
void print_as(const printer *p, const ktir_op *op, const char *form);

// "[64, %n]": entries that are operands take them from *next on.
void print_mixed_list(const printer *p, const ktir_op *op, ktir_key key, uint32_t *next);

// "[1, 2]" of an attribute that is a list
void print_list(const printer *p, const int64_t *list, uint64_t count);

// " {name = value, ..}" of the attributes that have a name; nothing when there are none.
void print_dictionary(const printer *p, const ktir_op *op);

// "name = value"
void print_attribute(const printer *p, const ktir_attribute *attribute);

void print_indent(const printer *p);

// "%a: T, %b: T" of a region's arguments.
void print_arguments(const printer *p, const ktir_region *region);

// The operations of a region on lines of their own, and its "}".
void print_body(const printer *p, const ktir_region *region);

// " {", the operations, "}" on lines of their own; a ^bb0 with the arguments when `labelled`.
void print_region(const printer *p, const ktir_op *op, uint32_t number, bool labelled);

// What stands behind the mnemonic and its space, by form.
void print_operation(const printer *p, const ktir_op *op);
void print_scf(const printer *p, const ktir_op *op, ktir_form form);

#endif
