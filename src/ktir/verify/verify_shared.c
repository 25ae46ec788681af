// SPDX-License-Identifier: Apache-2.0
//
// Questions and errors that the rules of several dialects share.
#include "ktir/verify/verify.h"

spyre_status verify_bad_operand(const ktir_module *m, const ktir_op *op, uint32_t operand,
                                const char *rule)
{
    const ktir_value *value = &m->values.items[ktir_operand(m, op, operand)];
    text shown = {0};
    ktir_type_print(value->type, &shown);
    spyre_status status = VERIFY_BAD(m, op, "%s has type %s: %s", value->name, text_string(&shown),
                                     rule);
    text_free(&shown);
    return status;
}

spyre_status verify_bad_result(const ktir_module *m, const ktir_op *op, const char *rule)
{
    text shown = {0};
    ktir_type_print(ktir_result_type(m, op), &shown);
    spyre_status status = VERIFY_BAD(m, op, "the result has type %s: %s", text_string(&shown),
                                     rule);
    text_free(&shown);
    return status;
}

spyre_status verify_indices(const ktir_module *m, const ktir_op *op, uint32_t first, uint32_t end)
{
    for (uint32_t n = first; n < end; n++) {
        const ktir_type *type = ktir_operand_type(m, op, n);
        if (type->kind != KTIR_SCALAR || type->element != KTIR_INDEX)
            return verify_bad_operand(m, op, n, "an index is wanted");
    }
    return NULL;
}

spyre_status verify_combiner(const ktir_module *m, const ktir_op *op, const ktir_type *argument,
                             uint32_t arguments, const ktir_type *yielded)
{
    const ktir_region *region = ktir_op_region(m, op, 0);
    if (region->argument_count != arguments)
        return VERIFY_BAD(m, op, "the region has %u arguments: there are %u", arguments,
                          region->argument_count);
    for (uint32_t a = 0; argument && a < arguments; a++)
        if (!ktir_type_same(m->values.items[region->first_argument + a].type, argument))
            return VERIFY_BAD(m, op, "%s has not the type of the elements that are combined",
                              m->values.items[region->first_argument + a].name);
    const ktir_op *end = ktir_last_op(m, region);
    if (!end || end->operand_count != 1) return VERIFY_BAD(m, op, "the region yields one value");
    if (!ktir_type_same(ktir_operand_type(m, end, 0), yielded))
        return verify_bad_operand(m, end, 0, "the region yields a value of another type");
    return NULL;
}

spyre_status verify_maker(const ktir_module *m, const ktir_op *op, uint32_t n,
                          const ktir_op **out_maker)
{
    const ktir_value *value = &m->values.items[ktir_operand(m, op, n)];
    *out_maker = NULL;
    if (value->definition != UINT32_MAX) {
        *out_maker = &m->ops.items[value->definition];
        ktir_form form = ktir_op_describe((*out_maker)->opcode)->form;
        if (form != KTIR_FORM_FOR && form != KTIR_FORM_IF && form != KTIR_FORM_WHILE) return NULL;
    }
    return ktir_error(m, op, SPYRE_UNSUPPORTED,
                      "%s is handed through a region: construct it where it is used", value->name);
}
