// SPDX-License-Identifier: Apache-2.0
//
// The tables of KTIR as C arrays, and small questions to a module.
#include "ktir/ir/ir.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static const ktir_element_info elements[KTIR_ELEMENT_COUNT] = {
#define KTIR_ELEMENT(id, name_, bytes_, format_, dtype_, kind)                                  \
    [KTIR_##id] = {(name_), (bytes_), SPYRE_FORMAT_##format_, SPYRE_DTYPE_##dtype_,             \
                   KTIR_CLASS_##kind},
#define KTIR_CLASS_INTEGER false
#define KTIR_CLASS_FLOAT true
#include "ktir/ir/element.def"
#undef KTIR_ELEMENT
};

const ktir_element_info *ktir_element_describe(ktir_element element)
{
    return &elements[element];
}

#define OPFUNC_NONE_ROW OPFUNC_NONE
static const ktir_op_info ops[KTIR_OP_COUNT] = {
#define KTIR_OP(id, mnemonic_, form_, op_, integer_)                                            \
    [KTIR_OP_##id] = {(mnemonic_), KTIR_FORM_##form_, OPFUNC_##op_, KTIR_INTEGER_##integer_},
#include "ktir/ir/op.def"
#undef KTIR_OP
};

const ktir_op_info *ktir_op_describe(ktir_opcode opcode)
{
    return &ops[opcode];
}

const ktir_predicate ktir_predicates[KTIR_PREDICATES] = {
#define KTIR_PREDICATE(name, of_floats, relation, is_unsigned)                                  \
    {(name), (of_floats), OPFUNC_##relation, (is_unsigned)},
#include "ktir/ir/predicate.def"
#undef KTIR_PREDICATE
};

static const ktir_key_info keys[KTIR_KEY_COUNT] = {
#define KTIR_KEY(id, name_, kind_) [KTIR_KEY_##id] = {(name_), KTIR_ATTRIBUTE_##kind_},
#include "ktir/ir/attribute.def"
#undef KTIR_KEY
};

const ktir_key_info *ktir_key_describe(ktir_key key)
{
    return &keys[key];
}

// --- Names of operations, hashed once

enum { HASH_SLOTS = 1024 };
static uint8_t slots[HASH_SLOTS];       // opcode + 1
static pthread_once_t slots_once = PTHREAD_ONCE_INIT;

static uint32_t hash_of(const char *name, size_t length)
{
    uint32_t hash = 2166136261u;        // FNV-1a
    for (size_t i = 0; i < length; i++) hash = (hash ^ (uint8_t)name[i]) * 16777619u;
    return hash ^ hash >> 15;
}

static void fill_slots(void)
{
    for (uint32_t op = 0; op < KTIR_OP_COUNT; op++) {
        uint32_t slot = hash_of(ops[op].mnemonic, strlen(ops[op].mnemonic)) % HASH_SLOTS;
        while (slots[slot]) slot = (slot + 1) % HASH_SLOTS;
        slots[slot] = (uint8_t)(op + 1);
    }
}
_Static_assert(KTIR_OP_COUNT < UINT8_MAX, "an opcode and its successor fit a byte");

bool ktir_op_named(const char *name, size_t length, ktir_opcode *out_opcode)
{
    pthread_once(&slots_once, fill_slots);
    for (uint32_t slot = hash_of(name, length) % HASH_SLOTS; slots[slot];
         slot = (slot + 1) % HASH_SLOTS) {
        const char *candidate = ops[slots[slot] - 1].mnemonic;
        if (strlen(candidate) != length || memcmp(candidate, name, length) != 0) continue;
        *out_opcode = (ktir_opcode)(slots[slot] - 1);
        return true;
    }
    return false;
}

// --- Questions

const ktir_attribute *ktir_find(const ktir_module *m, const ktir_op *op, ktir_key key)
{
    const ktir_attribute *all = &m->attributes.items[op->first_attribute];
    for (uint32_t a = 0; a < op->attribute_count; a++)
        if (all[a].key == key) return &all[a];
    return NULL;
}

const ktir_set *ktir_tile_set(const ktir_module *m, const ktir_op *op)
{
    const ktir_attribute *set = ktir_find(m, op, KTIR_KEY_TILE_SET);
    if (!set) set = ktir_find(m, op, KTIR_KEY_SPACE_SET);
    return set ? set->set : NULL;
}

const ktir_map *ktir_tile_order(const ktir_module *m, const ktir_op *op)
{
    const ktir_attribute *order = ktir_find(m, op, KTIR_KEY_TILE_ORDER);
    if (!order) order = ktir_find(m, op, KTIR_KEY_SPACE_ORDER);
    return order ? order->map : NULL;
}

const ktir_op *ktir_last_op(const ktir_module *m, const ktir_region *region)
{
    const ktir_op *last = NULL;
    for (uint32_t n = region->begin; n < region->end; n = m->ops.items[n].end)
        last = &m->ops.items[n];
    return last;
}

bool ktir_same_sizes(const ktir_type *a, const ktir_type *b)
{
    bool same = a->rank == b->rank;
    for (uint32_t d = 0; same && d < a->rank; d++) same = ktir_same_size(a->size[d], b->size[d]);
    return same;
}

int64_t ktir_number(const ktir_module *m, const ktir_op *op, ktir_key key, int64_t otherwise)
{
    const ktir_attribute *found = ktir_find(m, op, key);
    return found ? found->number : otherwise;
}

bool ktir_type_same(const ktir_type *a, const ktir_type *b)
{
    return a == b || (a->kind == b->kind && a->element == b->element && a->rank == b->rank &&
                      memcmp(a->size, b->size, a->rank * sizeof *a->size) == 0);
}

bool ktir_slice_dims(const ktir_module *m, const ktir_op *op, uint32_t *out_dims)
{
    const ktir_attribute *sizes = ktir_find(m, op, KTIR_KEY_SIZES);
    bool inserts = op->opcode == KTIR_OP_INSERT_SLICE;
    const ktir_type *part = inserts ? ktir_operand_type(m, op, 0) : ktir_result_type(m, op);
    uint32_t next = 0;
    for (uint32_t d = 0; d < sizes->count; d++) {
        bool more = next < part->rank, spare = sizes->count - d > part->rank - next;
        int64_t wanted = more ? part->size[next] : 0;
        bool fits = more && (sizes->list[d] == wanted || sizes->list[d] == KTIR_OPERAND ||
                             wanted == KTIR_DYNAMIC);
        bool unit = sizes->list[d] == 1;
        if (fits && !(unit && spare && wanted != 1)) out_dims[next++] = d;
        else if (!unit || !spare) return false;
    }
    return next == part->rank;
}

int64_t ktir_type_elements(const ktir_type *type)
{
    int64_t count = 1;
    for (uint32_t d = 0; d < type->rank; d++)
        if (type->size[d] == KTIR_DYNAMIC || __builtin_mul_overflow(count, type->size[d], &count))
            return KTIR_DYNAMIC;
    return count;
}

spyre_status ktir_error(const ktir_module *m, const ktir_op *op, spyre_code code,
                        const char *format, ...)
{
    va_list values;
    va_start(values, format);
    spyre_status status = status_vnew(code, format, values);
    va_end(values);
    return status_at(status, "%s:%u:%u: %s", m->file, op->line, op->column,
                     ktir_op_describe(op->opcode)->mnemonic);
}
