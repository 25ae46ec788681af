// SPDX-License-Identifier: Apache-2.0
//
// A KTIR module in memory. Operations lie in one array in the order of the text, an operation in
// front of those of its regions; values are numbers. Everything lives in the module's arena.
#ifndef KTIR_IR_H
#define KTIR_IR_H

#include "base/vec.h"
#include "ktir/ir/affine.h"
#include "spyre/dtype.h"
#include "tensor/opfunc.h"

#define KTIR_DYNAMIC INT64_MIN          // a size that the program computes
#define KTIR_OPERAND INT64_MIN          // an entry of a list that is an operand
#define KTIR_NO_VALUE UINT32_MAX

typedef enum {
#define KTIR_ELEMENT(id, name, bytes, format, dtype, kind) KTIR_##id,
#include "ktir/ir/element.def"
#undef KTIR_ELEMENT
    KTIR_ELEMENT_COUNT
} ktir_element;

typedef struct {
    const char *name;
    uint32_t bytes;
    spyre_format format;
    spyre_dtype dtype;
    bool is_float;
} ktir_element_info;
const ktir_element_info *ktir_element_describe(ktir_element element);

typedef enum {
    KTIR_SCALAR,
    KTIR_TENSOR,
    KTIR_MEMREF,
    KTIR_TILE,                          // !ktdp.access_tile
    KTIR_FUTURE,                        // !ktdp.tile_future of a tensor
} ktir_kind;

typedef struct {
    ktir_kind kind;
    ktir_element element;
    uint32_t rank;
    int64_t size[KTIR_MOST_RANK];       // KTIR_DYNAMIC: "?"
    const ktir_set *groups;             // FUTURE
    const int64_t *layout;              // MEMREF with strided<..>: strides, then the offset
} ktir_type;

typedef enum {
    KTIR_FORM_CONSTANT, KTIR_FORM_BINARY, KTIR_FORM_UNARY, KTIR_FORM_TERNARY, KTIR_FORM_FPOWI,
    KTIR_FORM_COMPARE, KTIR_FORM_CLASS, KTIR_FORM_SELECT, KTIR_FORM_CAST,
    KTIR_FORM_LINALG_BINARY, KTIR_FORM_LINALG_UNARY,
    KTIR_FORM_FILL, KTIR_FORM_MATMUL, KTIR_FORM_LINALG_REDUCE, KTIR_FORM_BROADCAST,
    KTIR_FORM_TRANSPOSE, KTIR_FORM_GENERIC, KTIR_FORM_MAP, KTIR_FORM_LINALG_INDEX, KTIR_FORM_END,
    KTIR_FORM_EMPTY, KTIR_FORM_SPLAT, KTIR_FORM_EXTRACT,
    KTIR_FORM_FROM_ELEMENTS, KTIR_FORM_TENSOR_CAST, KTIR_FORM_DIM, KTIR_FORM_AFFINE,
    KTIR_FORM_RESHAPE, KTIR_FORM_SLICE,
    KTIR_FORM_FOR, KTIR_FORM_IF, KTIR_FORM_PARALLEL, KTIR_FORM_FORALL, KTIR_FORM_WHILE,
    KTIR_FORM_SCF_REDUCE,
    KTIR_FORM_TILE_ID, KTIR_FORM_MEMORY_VIEW, KTIR_FORM_DISTRIBUTED_VIEW, KTIR_FORM_ACCESS_TILE,
    KTIR_FORM_INDIRECT_TILE, KTIR_FORM_LOAD, KTIR_FORM_STORE, KTIR_FORM_PRODUCE,
    KTIR_FORM_TILE_REDUCE,
} ktir_form;

typedef enum {
#define KTIR_OP(id, mnemonic, form, op, integer) KTIR_OP_##id,
#include "ktir/ir/op.def"
#undef KTIR_OP
    KTIR_OP_COUNT
} ktir_opcode;

typedef enum {
#define KTIR_INTEGER(id, function, is_unsigned, expression) KTIR_INTEGER_##id,
#include "ktir/ir/integer.def"
#undef KTIR_INTEGER
    KTIR_INTEGER_NONE
} ktir_integer;

typedef struct {
    const char *mnemonic;
    ktir_form form;
    opfunc op;
    ktir_integer integer;
} ktir_op_info;
const ktir_op_info *ktir_op_describe(ktir_opcode opcode);

// The operation of that name; false when there is none.
bool ktir_op_named(const char *name, size_t length, ktir_opcode *out_opcode);

typedef struct {
    const char *name;
    bool of_floats;
    opfunc relation;
    bool is_unsigned;                   // or, of floats, true for an unordered pair, or for all
} ktir_predicate;
enum { KTIR_PREDICATES = 26 };
extern const ktir_predicate ktir_predicates[KTIR_PREDICATES];

typedef enum {
#define KTIR_KEY(id, name, kind) KTIR_KEY_##id,
#include "ktir/ir/attribute.def"
#undef KTIR_KEY
    KTIR_KEY_COUNT
} ktir_key;

typedef enum {
    KTIR_ATTRIBUTE_NUMBER, KTIR_ATTRIBUTE_LIST, KTIR_ATTRIBUTE_LISTS, KTIR_ATTRIBUTE_NAMES,
    KTIR_ATTRIBUTE_MAP, KTIR_ATTRIBUTE_MAPS, KTIR_ATTRIBUTE_SET,
} ktir_attribute_kind;

typedef struct {
    const char *name;                   // in the dictionary, or ""
    ktir_attribute_kind kind;
} ktir_key_info;
const ktir_key_info *ktir_key_describe(ktir_key key);

enum { KTIR_HBM, KTIR_LX, KTIR_LX_OF_CORE }; // MEMORY_SPACE: LX_OF_CORE + n is the LX of core n

typedef struct {
    ktir_key key;
    uint32_t count;                     // LIST, MAPS, NAMES; LISTS: of the lists
    int64_t number;
    const int64_t *list;                // LIST; LISTS: all entries, one list behind the other
    const int64_t *ends;                // LISTS: where each list ends
    const char *const *names;
    const ktir_map *map;
    const ktir_map *const *maps;
    const ktir_set *set;
} ktir_attribute;

typedef struct {
    ktir_opcode opcode;
    uint32_t line, column;
    uint32_t first_operand, operand_count;      // in module->operands
    uint32_t first_result, result_count;        // values
    uint32_t first_attribute, attribute_count;
    uint32_t first_region, region_count;
    uint32_t end;                       // the operation behind this one and its regions
    bool in_place;                      // a linalg operation without results: its outs get another
                                        // value from here on, as in the examples of RFC 0682
} ktir_op;

typedef struct {
    uint32_t first_argument, argument_count;    // values
    uint32_t begin, end;                // operations
} ktir_region;

typedef struct {
    const char *name;                   // "%row", or "%pid#1"
    const ktir_type *type;
    uint32_t definition;                // operation, or UINT32_MAX for an argument
} ktir_value;

enum { KTIR_MOST_GRID = 4 };

typedef struct {
    const char *name;                   // without '@'
    uint32_t line, column;
    uint32_t grid_rank;                 // 0: the function says nothing
    int64_t grid[KTIR_MOST_GRID];
    ktir_region body;
} ktir_function;

typedef struct {
    arena *memory;
    const char *file;
    VEC(ktir_function) functions;
    VEC(ktir_op) ops;
    VEC(ktir_value) values;
    VEC(uint32_t) operands;
    VEC(ktir_region) regions;
    VEC(ktir_attribute) attributes;
    VEC(const ktir_map *) maps;         // those with an alias, in the order of the text
    VEC(const ktir_set *) sets;
    VEC(const char *) aliases;          // names of both, in that order
} ktir_module;

static inline uint32_t ktir_operand(const ktir_module *m, const ktir_op *op, uint32_t n)
{
    return m->operands.items[op->first_operand + n];
}

static inline const ktir_type *ktir_operand_type(const ktir_module *m, const ktir_op *op,
                                                 uint32_t n)
{
    return m->values.items[ktir_operand(m, op, n)].type;
}

static inline const ktir_type *ktir_result_type(const ktir_module *m, const ktir_op *op)
{
    return m->values.items[op->first_result].type;
}

static inline const ktir_region *ktir_op_region(const ktir_module *m, const ktir_op *op, uint32_t n)
{
    return &m->regions.items[op->first_region + n];
}

// The operation that makes operand n, which is no argument.
static inline const ktir_op *ktir_maker(const ktir_module *m, const ktir_op *op, uint32_t n)
{
    return &m->ops.items[m->values.items[ktir_operand(m, op, n)].definition];
}

// The last operation of a region, or null.
const ktir_op *ktir_last_op(const ktir_module *m, const ktir_region *region);

// The attribute, or null.
const ktir_attribute *ktir_find(const ktir_module *m, const ktir_op *op, ktir_key key);

// The set of a tile's points and their order, or null.
const ktir_set *ktir_tile_set(const ktir_module *m, const ktir_op *op);
const ktir_map *ktir_tile_order(const ktir_module *m, const ktir_op *op);

// Its number; `otherwise` when it is not there.
int64_t ktir_number(const ktir_module *m, const ktir_op *op, ktir_key key, int64_t otherwise);

bool ktir_type_same(const ktir_type *a, const ktir_type *b);

// Equal sizes, where an unknown one equals any; of all dims of two types.
static inline bool ktir_same_size(int64_t a, int64_t b)
{
    return a == b || a == KTIR_DYNAMIC || b == KTIR_DYNAMIC;
}
bool ktir_same_sizes(const ktir_type *a, const ktir_type *b);

// The dims of the whole that a slice's part has, rising: those of size 1 may be left out. False
// when the part is no such slice.
bool ktir_slice_dims(const ktir_module *m, const ktir_op *op, uint32_t *out_dims);

// Elements of a type; KTIR_DYNAMIC where a size is unknown or 64 bits do not hold them.
int64_t ktir_type_elements(const ktir_type *type);

// An error at an operation: "<file>:<line>:<column>: <mnemonic>: ".
SPYRE_MUST_CHECK spyre_status ktir_error(const ktir_module *m, const ktir_op *op, spyre_code code,
                                         const char *format, ...) SPYRE_PRINTF(4, 5);

// Parses the null-terminated `source`; `file` names it in errors, whose places are line:column.
// What is parsed has the operands, types and regions that the syntax asks for; ktir_verify() has
// the rest.
SPYRE_MUST_CHECK spyre_status ktir_parse(arena *memory, const char *source, size_t length,
                                         const char *file, ktir_module **out_module);

// Checks every rule that does not depend on what the function is called with.
SPYRE_MUST_CHECK spyre_status ktir_verify(const ktir_module *m);

// parse(print(m)) is m again, but for comments and places.
void ktir_print(const ktir_module *m, text *out);
void ktir_type_print(const ktir_type *type, text *out);

#endif
