// SPDX-License-Identifier: Apache-2.0
#include "ktir/parameters.h"

enum { MOST_STEPS = 64, MOST_VIEWS = 256 };
#define MOST_VIEW_BYTES ((int64_t)1 << 34)

// Follows additions and subtractions to an argument; a sum of two addresses is none.
static uint32_t argument_within(const ktir_module *m, const ktir_function *f, uint32_t value,
                                uint32_t steps)
{
    const ktir_value *v = &m->values.items[value];
    uint32_t first = f->body.first_argument;
    if (v->definition == UINT32_MAX) {
        bool own = value >= first && value < first + f->body.argument_count;
        bool address = own && v->type->kind == KTIR_SCALAR && v->type->element == KTIR_INDEX;
        return address ? value - first : UINT32_MAX;
    }
    const ktir_op *op = &m->ops.items[v->definition];
    if ((op->opcode != KTIR_OP_ADDI && op->opcode != KTIR_OP_SUBI) || steps == MOST_STEPS)
        return UINT32_MAX;
    uint32_t left = argument_within(m, f, ktir_operand(m, op, 0), steps + 1);
    if (left != UINT32_MAX || op->opcode == KTIR_OP_SUBI) return left;
    return argument_within(m, f, ktir_operand(m, op, 1), steps + 1);
}

static void take_shape(const ktir_type *type, ktir_parameter *p)
{
    p->form.is_memory = true;
    p->element = type->element;
    p->form.dtype = ktir_element_describe(type->element)->dtype;
    p->form.rank = type->rank;
    for (uint32_t d = 0; d < type->rank; d++)
        p->form.size[d] = type->size[d] == KTIR_DYNAMIC ? -1 : type->size[d];
}

static spyre_status use_argument(const ktir_module *m, const ktir_op *view, ktir_parameter *p)
{
    const ktir_type *type = ktir_result_type(m, view);
    uint32_t bytes = ktir_element_describe(type->element)->bytes;
    if (ktir_number(m, view, KTIR_KEY_MEMORY_SPACE, KTIR_HBM) != KTIR_HBM)
        return ktir_error(m, view, SPYRE_UNSUPPORTED, "%s, an address of the caller's, in LX",
                          p->form.name);
    if (!p->form.is_memory) take_shape(type, p);
    if (bytes == ktir_element_describe(p->element)->bytes) return NULL;
    return ktir_error(m, view, SPYRE_UNSUPPORTED,
                      "%s counts elements of %u bytes here and of %u elsewhere", p->form.name,
                      bytes, ktir_element_describe(p->element)->bytes);
}

// The constant that an address is.
static bool constant_of(const ktir_module *m, uint32_t value, int64_t *out_number)
{
    const ktir_value *v = &m->values.items[value];
    if (v->definition == UINT32_MAX) return false;
    const ktir_op *op = &m->ops.items[v->definition];
    *out_number = ktir_number(m, op, KTIR_KEY_VALUE, 0);
    return op->opcode == KTIR_OP_CONSTANT;
}

typedef VEC(ktir_parameter) parameter_list;

// Bytes from the first element of a view to behind its last one; -1 when sizes are values.
static int64_t view_bytes(const ktir_module *m, const ktir_op *view)
{
    const ktir_attribute *sizes = ktir_find(m, view, KTIR_KEY_SIZES);
    const ktir_attribute *strides = ktir_find(m, view, KTIR_KEY_STRIDES);
    const ktir_type *type = ktir_result_type(m, view);
    int64_t reach = 1;
    for (uint32_t d = 0; d < sizes->count; d++) {
        int64_t size = type->size[d], stride = strides->list[d], product;
        if (stride == KTIR_OPERAND) {
            int64_t dense = 1;                      // what a dense tensor has
            for (uint32_t k = d + 1; k < sizes->count; k++)
                if (type->size[k] == KTIR_DYNAMIC ||
                    __builtin_mul_overflow(dense, type->size[k], &dense))
                    return -1;
            stride = dense;
        }
        if (size == KTIR_DYNAMIC) return -1;
        if (size == 0) return 0;
        if (__builtin_mul_overflow(size - 1, stride, &product) ||
            __builtin_add_overflow(reach, product, &reach) || reach >> 44)
            return -1;
    }
    return reach * ktir_element_describe(type->element)->bytes;
}

static spyre_status use_constant(const ktir_module *m, const ktir_op *view, int64_t address,
                                 parameter_list *list)
{
    const ktir_value *value = &m->values.items[view->first_result];
    const ktir_type *type = value->type;
    ktir_parameter p = {.view = view, .byte_count = view_bytes(m, view)};
    p.form.name = value->name + 1;
    p.form.is_view = true;
    p.space = ktir_number(m, view, KTIR_KEY_MEMORY_SPACE, KTIR_HBM);
    take_shape(type, &p);
    if (p.byte_count < 0)
        return ktir_error(m, view, SPYRE_UNSUPPORTED,
                          "a view of unknown size at a constant address");
    if (p.byte_count > MOST_VIEW_BYTES)
        return ktir_error(m, view, SPYRE_UNSUPPORTED, "a view of %lld bytes: a segment of the card "
                          "has %lld", (long long)p.byte_count, (long long)MOST_VIEW_BYTES);
    if (address < 0 || address >> 40)
        return ktir_error(m, view, SPYRE_INVALID_FORMAT, "address %lld", (long long)address);
    p.address = address;
    // Another view of the same memory: the longest one says how much there is.
    for (uint32_t n = 0; n < list->count; n++) {
        ktir_parameter *other = &list->items[n];
        if (!other->form.is_view || other->space != p.space || other->address != address) continue;
        if (p.byte_count > other->byte_count) other->byte_count = p.byte_count;
        return NULL;
    }
    if (list->count == MOST_VIEWS)
        return ktir_error(m, view, SPYRE_UNSUPPORTED, "more than %d views", MOST_VIEWS);
    return VEC_PUSH(m->memory, list, p);
}

// --- What is written

// The memory of a view at an argument's or a constant address in HBM; null: any.
static ktir_parameter *parameter_of(const ktir_module *m, const ktir_function *f,
                                    const ktir_op *view, const parameter_list *list)
{
    int64_t address;
    uint32_t argument = argument_within(m, f, ktir_operand(m, view, 0), 0);
    if (argument != UINT32_MAX) return &list->items[argument];
    if (!constant_of(m, ktir_operand(m, view, 0), &address)) return NULL;
    for (uint32_t n = f->body.argument_count; n < list->count; n++) {
        ktir_parameter *p = &list->items[n];
        if (p->space == KTIR_HBM && p->address == address) return p;
    }
    return NULL;
}

// Follows what is stored to back to views: tiles and subviews of one, distributed views of several.
static void mark_written(const ktir_module *m, const ktir_function *f, uint32_t value,
                         const parameter_list *list)
{
    uint32_t definition = m->values.items[value].definition;
    const ktir_op *op = definition == UINT32_MAX ? NULL : &m->ops.items[definition];
    ktir_opcode opcode = op ? op->opcode : KTIR_OP_STORE;
    ktir_parameter *one = NULL;
    if (opcode == KTIR_OP_ACCESS_TILE || opcode == KTIR_OP_INDIRECT_TILE ||
        opcode == KTIR_OP_SUBVIEW) {
        mark_written(m, f, ktir_operand(m, op, 0), list);
        return;
    }
    for (uint32_t n = 0; opcode == KTIR_OP_DISTRIBUTED_VIEW && n < op->operand_count; n++)
        mark_written(m, f, ktir_operand(m, op, n), list);
    if (opcode == KTIR_OP_DISTRIBUTED_VIEW) return;
    if (opcode == KTIR_OP_MEMORY_VIEW &&
        ktir_number(m, op, KTIR_KEY_MEMORY_SPACE, KTIR_HBM) != KTIR_HBM) {
        // LX is one memory: all that is there.
        for (uint32_t n = 0; n < list->count; n++)
            if (list->items[n].space != KTIR_HBM) list->items[n].form.is_written = true;
        return;
    }
    if (opcode == KTIR_OP_MEMORY_VIEW) one = parameter_of(m, f, op, list);
    if (one) one->form.is_written = true;
    for (uint32_t n = 0; !one && n < list->count; n++)
        list->items[n].form.is_written = list->items[n].form.is_memory;
}

spyre_status ktir_find_parameters(const ktir_module *m, const ktir_function *f,
                                  ktir_parameters *out_parameters)
{
    parameter_list list = {0};
    for (uint32_t a = 0; a < f->body.argument_count; a++) {
        const ktir_value *value = &m->values.items[f->body.first_argument + a];
        ktir_parameter p = {.element = value->type->element};
        p.form.name = value->name + 1;
        p.form.dtype = ktir_element_describe(p.element)->dtype;
        TRY(VEC_PUSH(m->memory, &list, p));
    }
    for (uint32_t n = f->body.begin; n < f->body.end; n++) {
        const ktir_op *op = &m->ops.items[n];
        int64_t address;
        if (op->opcode != KTIR_OP_MEMORY_VIEW) continue;
        uint32_t argument = argument_within(m, f, ktir_operand(m, op, 0), 0);
        if (argument != UINT32_MAX) TRY(use_argument(m, op, &list.items[argument]));
        else if (constant_of(m, ktir_operand(m, op, 0), &address))
            TRY(use_constant(m, op, address, &list));
    }
    for (uint32_t n = f->body.begin; n < f->body.end; n++)
        if (m->ops.items[n].opcode == KTIR_OP_STORE)
            mark_written(m, f, ktir_operand(m, &m->ops.items[n], 1), &list);
    out_parameters->count = list.count;
    out_parameters->items = list.items;
    return NULL;
}
