// SPDX-License-Identifier: Apache-2.0
//
// The rules of a module that do not depend on what its functions are called with.
#include "ktir/verify/verify.h"

static bool ends_region(ktir_opcode parent, ktir_opcode end)
{
    switch (ktir_op_describe(parent)->form) {
    case KTIR_FORM_FOR: case KTIR_FORM_IF: case KTIR_FORM_FORALL: return end == KTIR_OP_SCF_YIELD;
    case KTIR_FORM_WHILE: return end == KTIR_OP_SCF_YIELD || end == KTIR_OP_CONDITION;
    case KTIR_FORM_PARALLEL: return end == KTIR_OP_SCF_YIELD || end == KTIR_OP_SCF_REDUCE;
    case KTIR_FORM_SCF_REDUCE: return end == KTIR_OP_REDUCE_RETURN;
    case KTIR_FORM_PRODUCE: return end == KTIR_OP_YIELD_PARTIAL;
    case KTIR_FORM_TILE_REDUCE: return end == KTIR_OP_YIELD_REDUCED;
    case KTIR_FORM_CONSTANT: case KTIR_FORM_BINARY: case KTIR_FORM_UNARY: case KTIR_FORM_TERNARY:
    case KTIR_FORM_FPOWI: case KTIR_FORM_COMPARE: case KTIR_FORM_CLASS: case KTIR_FORM_SELECT:
    case KTIR_FORM_CAST:
    case KTIR_FORM_LINALG_BINARY: case KTIR_FORM_LINALG_UNARY: case KTIR_FORM_FILL:
    case KTIR_FORM_MATMUL: case KTIR_FORM_LINALG_REDUCE: case KTIR_FORM_BROADCAST:
    case KTIR_FORM_TRANSPOSE: case KTIR_FORM_GENERIC: case KTIR_FORM_MAP:
    case KTIR_FORM_LINALG_INDEX: case KTIR_FORM_END: case KTIR_FORM_EMPTY: case KTIR_FORM_SPLAT:
    case KTIR_FORM_FROM_ELEMENTS: case KTIR_FORM_TENSOR_CAST: case KTIR_FORM_DIM:
    case KTIR_FORM_AFFINE: case KTIR_FORM_EXTRACT: case KTIR_FORM_RESHAPE:
    case KTIR_FORM_SLICE: case KTIR_FORM_TILE_ID:
    case KTIR_FORM_MEMORY_VIEW: case KTIR_FORM_DISTRIBUTED_VIEW: case KTIR_FORM_ACCESS_TILE:
    case KTIR_FORM_INDIRECT_TILE: case KTIR_FORM_LOAD: case KTIR_FORM_STORE: break;
    }
    return end == KTIR_OP_LINALG_YIELD;
}

static bool is_end(const ktir_op *op)
{
    ktir_form form = ktir_op_describe(op->opcode)->form;
    return form == KTIR_FORM_END || form == KTIR_FORM_SCF_REDUCE;
}

// A region of `parent` ends in what its operation asks for and nowhere before. Those of scf
// operations without results may lack it.
static spyre_status verify_region_end(const ktir_module *m, const ktir_op *parent,
                                      const ktir_region *region)
{
    const ktir_op *last = ktir_last_op(m, region);
    ktir_form form = ktir_op_describe(parent->opcode)->form;
    for (uint32_t n = region->begin; n < region->end; n = m->ops.items[n].end) {
        const ktir_op *op = &m->ops.items[n];
        if (is_end(op) && op != last) return VERIFY_BAD(m, op, "it ends a region: more follows");
    }
    bool optional = form >= KTIR_FORM_FOR && form <= KTIR_FORM_FORALL && !parent->result_count;
    if (!last || !is_end(last))
        return optional ? NULL : VERIFY_BAD(m, parent, "its region ends without a yield");
    if (ends_region(parent->opcode, last->opcode)) return NULL;
    return VERIFY_BAD(m, last, "it does not end a region of %s",
                      ktir_op_describe(parent->opcode)->mnemonic);
}

static spyre_status verify_function(const ktir_module *m, const ktir_function *f)
{
    const ktir_op *last = ktir_last_op(m, &f->body);
    for (uint32_t n = f->body.begin; n < f->body.end; n = m->ops.items[n].end) {
        const ktir_op *op = &m->ops.items[n];
        if (is_end(op) && (op != last || op->opcode != KTIR_OP_RETURN))
            return VERIFY_BAD(m, op, "it does not end a function");
    }
    if (!last || last->opcode != KTIR_OP_RETURN || last->operand_count)
        return status_new(SPYRE_INVALID_FORMAT, "%s:%u:%u: @%s does not end in a plain return",
                          m->file, f->line, f->column, f->name);
    for (uint32_t a = 0; a < f->body.argument_count; a++) {
        const ktir_value *value = &m->values.items[f->body.first_argument + a];
        if (value->type->kind != KTIR_SCALAR)
            return status_new(SPYRE_UNSUPPORTED,
                              "%s:%u:%u: @%s: argument %s is no number and no address", m->file,
                              f->line, f->column, f->name, value->name);
    }
    return NULL;
}

static spyre_status verify_op(const ktir_module *m, const ktir_op *op)
{
    ktir_form form = ktir_op_describe(op->opcode)->form;
    for (uint32_t r = 0; r < op->region_count; r++)
        TRY(verify_region_end(m, op, ktir_op_region(m, op, r)));
    if (form <= KTIR_FORM_CAST) return verify_arith(m, op);
    if (form <= KTIR_FORM_LINALG_INDEX) return verify_linalg(m, op);
    if (form == KTIR_FORM_END) return NULL;
    if (form <= KTIR_FORM_SLICE) return verify_tensor(m, op);
    if (form <= KTIR_FORM_SCF_REDUCE) return verify_scf(m, op);
    return verify_ktdp(m, op);
}

spyre_status ktir_verify(const ktir_module *m)
{
    for (uint32_t f = 0; f < m->functions.count; f++)
        TRY(verify_function(m, &m->functions.items[f]));
    for (uint32_t n = 0; n < m->ops.count; n++) TRY(verify_op(m, &m->ops.items[n]));
    return NULL;
}
