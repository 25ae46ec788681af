// SPDX-License-Identifier: Apache-2.0
#include "ktir/ir/combiner.h"

// `op` combines the two arguments of the region, in either order.
static bool takes_both(const ktir_module *m, const ktir_region *region, const ktir_op *op,
                       uint32_t first)
{
    uint32_t a = ktir_operand(m, op, first), b = ktir_operand(m, op, first + 1);
    uint32_t x = region->first_argument, y = x + 1;
    return (a == x && b == y) || (a == y && b == x);
}

// Greater, or less, of two arguments by cmpf and select.
static ktir_opcode selected(const ktir_module *m, const ktir_region *region, const ktir_op *first,
                            const ktir_op *second)
{
    if (first->opcode != KTIR_OP_CMPF || second->opcode != KTIR_OP_SELECT ||
        !takes_both(m, region, first, 0) || !takes_both(m, region, second, 1) ||
        ktir_operand(m, second, 0) != first->first_result)
        return KTIR_OP_COUNT;
    opfunc relation = ktir_predicates[ktir_number(m, first, KTIR_KEY_PREDICATE, 0)].relation;
    bool same = ktir_operand(m, first, 0) == ktir_operand(m, second, 1);
    bool greater = relation == OPFUNC_GREATERTHAN || relation == OPFUNC_GREATEREQUAL;
    bool less = relation == OPFUNC_LESSERTHAN || relation == OPFUNC_LESSEREQUAL;
    if (!greater && !less) return KTIR_OP_COUNT;
    return greater == same ? KTIR_OP_MAXIMUMF : KTIR_OP_MINIMUMF;
}

ktir_opcode combiner_opcode(const ktir_module *m, const ktir_op *op)
{
    const ktir_attribute *brief = ktir_find(m, op, KTIR_KEY_COMBINER);
    if (brief) return (ktir_opcode)brief->number;
    const ktir_region *region = ktir_op_region(m, op, 0);
    const ktir_op *ops = &m->ops.items[region->begin];
    uint32_t count = region->end - region->begin;
    if (count < 2 || ops[count - 1].operand_count != 1 ||
        ktir_operand(m, &ops[count - 1], 0) != ops[count - 2].first_result)
        return KTIR_OP_COUNT;
    if (count == 3) return selected(m, region, &ops[0], &ops[1]);
    ktir_form form = ktir_op_describe(ops->opcode)->form;
    bool combines = count == 2 && (form == KTIR_FORM_BINARY || form == KTIR_FORM_LINALG_BINARY);
    return combines && takes_both(m, region, &ops[0], 0) ? ops->opcode : KTIR_OP_COUNT;
}

opfunc combiner_reduction(const ktir_module *m, const ktir_op *op)
{
    ktir_opcode opcode = combiner_opcode(m, op);
    if (opcode == KTIR_OP_COUNT) return OPFUNC_NONE;
    opfunc pairwise = ktir_op_describe(opcode)->op;
    // The card's maximum of a NaN is a NaN in a reduction, whichever way the combiner has it.
    if (pairwise == OPFUNC_FMAX) pairwise = OPFUNC_MAXIMUM;
    if (pairwise == OPFUNC_FMIN) pairwise = OPFUNC_MINIMUM;
    return opfunc_accumulator_of(pairwise);
}
