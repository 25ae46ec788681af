// SPDX-License-Identifier: Apache-2.0
//
// Rules of scf.
#include "ktir/verify/verify.h"

// What the region's yield hands on has the types of the results.
static spyre_status verify_yield(const ktir_module *m, const ktir_op *op, uint32_t r)
{
    const ktir_op *last = ktir_last_op(m, ktir_op_region(m, op, r));
    uint32_t yielded = last && last->opcode == KTIR_OP_SCF_YIELD ? last->operand_count : 0;
    if (yielded != op->result_count)
        return VERIFY_BAD(m, op, "%u results, its region yields %u values", op->result_count,
                          yielded);
    for (uint32_t n = 0; n < yielded; n++)
        if (!ktir_type_same(ktir_operand_type(m, last, n),
                            m->values.items[op->first_result + n].type))
            return verify_bad_operand(m, last, n, "the result has another type");
    return NULL;
}

static spyre_status verify_for(const ktir_module *m, const ktir_op *op)
{
    const ktir_type *type = ktir_operand_type(m, op, 0);
    for (uint32_t n = 0; n < 3; n++) {
        const ktir_type *bound = ktir_operand_type(m, op, n);
        if (bound->kind != KTIR_SCALAR || ktir_element_describe(bound->element)->is_float ||
            bound->element == KTIR_I1 || bound->element != type->element)
            return verify_bad_operand(m, op, n, "bounds and step are integers of one type");
    }
    return verify_yield(m, op, 0);
}

static spyre_status verify_scf_reduce(const ktir_module *m, const ktir_op *op)
{
    if (!op->operand_count) return NULL;
    const ktir_type *type = ktir_operand_type(m, op, 0);
    return verify_combiner(m, op, type, 2, type);
}

static spyre_status verify_parallel(const ktir_module *m, const ktir_op *op)
{
    const ktir_region *region = ktir_op_region(m, op, 0);
    uint32_t dims = region->argument_count, reduced = 0;
    TRY(verify_indices(m, op, 0, 3 * dims));
    if (!dims) return VERIFY_BAD(m, op, "no induction variable");
    for (uint32_t n = region->begin; n < region->end; n = m->ops.items[n].end)
        if (m->ops.items[n].opcode == KTIR_OP_SCF_REDUCE) {
            const ktir_op *reduce = &m->ops.items[n];
            reduced = reduce->operand_count;
            if (reduced && op->result_count &&
                !ktir_type_same(ktir_operand_type(m, reduce, 0), ktir_result_type(m, op)))
                return verify_bad_operand(m, reduce, 0, "the result has another type");
        }
    if (reduced != op->result_count || op->operand_count - 3 * dims != op->result_count)
        return VERIFY_BAD(m, op, "%u results, %u initial and %u reduced values", op->result_count,
                          op->operand_count - 3 * dims, reduced);
    if (op->result_count &&
        !ktir_type_same(ktir_operand_type(m, op, 3 * dims), ktir_result_type(m, op)))
        return verify_bad_operand(m, op, 3 * dims, "the result has another type");
    return NULL;
}

// What `end` hands on from operand `first` are the values of these types.
static spyre_status verify_handed(const ktir_module *m, const ktir_op *end, uint32_t first,
                                  uint32_t values, uint32_t count)
{
    if (end->operand_count - first != count)
        return VERIFY_BAD(m, end, "%u values: %u are wanted", end->operand_count - first, count);
    for (uint32_t n = 0; n < count; n++)
        if (!ktir_type_same(ktir_operand_type(m, end, first + n), m->values.items[values + n].type))
            return verify_bad_operand(m, end, first + n, "what it is handed to has another type");
    return NULL;
}

static spyre_status verify_while(const ktir_module *m, const ktir_op *op)
{
    const ktir_region *before = ktir_op_region(m, op, 0), *after = ktir_op_region(m, op, 1);
    const ktir_op *condition = ktir_last_op(m, before), *yield = ktir_last_op(m, after);
    if (condition->opcode != KTIR_OP_CONDITION)
        return VERIFY_BAD(m, condition, "the first region of scf.while ends in scf.condition");
    if (yield->opcode != KTIR_OP_SCF_YIELD)
        return VERIFY_BAD(m, yield, "the second region of scf.while ends in scf.yield");
    const ktir_type *type = ktir_operand_type(m, condition, 0);
    if (type->kind != KTIR_SCALAR || type->element != KTIR_I1)
        return verify_bad_operand(m, condition, 0, "the condition is an i1");
    TRY(verify_handed(m, condition, 1, op->first_result, op->result_count));
    TRY(verify_handed(m, condition, 1, after->first_argument, after->argument_count));
    return verify_handed(m, yield, 0, before->first_argument, before->argument_count);
}

spyre_status verify_scf(const ktir_module *m, const ktir_op *op)
{
    ktir_form form = ktir_op_describe(op->opcode)->form;
    if (form == KTIR_FORM_FOR) return verify_for(m, op);
    if (form == KTIR_FORM_WHILE) return verify_while(m, op);
    if (form == KTIR_FORM_PARALLEL) return verify_parallel(m, op);
    if (form == KTIR_FORM_FORALL) return verify_indices(m, op, 0, op->operand_count);
    if (form == KTIR_FORM_SCF_REDUCE) return verify_scf_reduce(m, op);
    const ktir_type *condition = ktir_operand_type(m, op, 0);
    if (condition->kind != KTIR_SCALAR || condition->element != KTIR_I1)
        return verify_bad_operand(m, op, 0, "the condition is an i1");
    TRY(verify_yield(m, op, 0));
    if (op->region_count > 1) return verify_yield(m, op, 1);
    return op->result_count ? VERIFY_BAD(m, op, "results without an else") : NULL;
}
