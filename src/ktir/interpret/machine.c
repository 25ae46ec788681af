// SPDX-License-Identifier: Apache-2.0
#include "ktir/interpret/machine.h"

spyre_status machine_fault(const tile *t, const ktir_op *op, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    spyre_status status = status_vnew(SPYRE_DEVICE_FAULT, format, values);
    va_end(values);
    return status_at(status, "%s:%u:%u: %s: compute tile %u", t->x->m->file, op->line, op->column,
                     ktir_op_describe(op->opcode)->mnemonic, t->number);
}

spyre_status machine_give(tile *t, const ktir_op *op, uint32_t value, ktir_tensor *tensor)
{
    machine_cell *cell = &t->cells[value];
    if (!tensor)
        return machine_fault(t, op, "a tensor of more than %d elements, or no memory for it",
                             KTIR_MOST_ELEMENTS);
    ktir_tensor_drop(cell->tensor);
    *cell = (machine_cell){.tensor = tensor, .memory = MACHINE_NO_MEMORY};
    return NULL;
}

void machine_set(tile *t, uint32_t value, ktir_number_value number)
{
    machine_cell *cell = &t->cells[value];
    ktir_tensor_drop(cell->tensor);
    *cell = (machine_cell){.number = number, .memory = MACHINE_NO_MEMORY};
}

void machine_copy(tile *t, uint32_t to, const machine_cell *from)
{
    machine_cell copy = *from;
    ktir_tensor_keep(copy.tensor);
    ktir_tensor_drop(t->cells[to].tensor);
    t->cells[to] = copy;
}

spyre_status machine_sizes(tile *t, const ktir_op *op, const ktir_type *type, uint32_t next,
                           int64_t *out_sizes)
{
    for (uint32_t d = 0; d < type->rank; d++) {
        out_sizes[d] = type->size[d];
        if (type->size[d] != KTIR_DYNAMIC) continue;
        if (next < op->operand_count)
            out_sizes[d] = machine_operand(t, op, next++)->number.integer;
        if (out_sizes[d] < 0)
            return machine_fault(t, op, "size %lld of dim %u", (long long)out_sizes[d], d);
    }
    return NULL;
}

spyre_status machine_region(tile *t, const ktir_op *op, uint32_t region, const machine_cell **out)
{
    const ktir_module *m = t->x->m;
    const ktir_region *r = ktir_op_region(m, op, region);
    for (uint32_t n = r->begin; n < r->end; n = m->ops.items[n].end) {
        const ktir_op *inner = &m->ops.items[n];
        t->steps++;
        if (ktir_op_describe(inner->opcode)->form == KTIR_FORM_END) {
            *out = machine_operand(t, inner, 0);
            return NULL;
        }
        TRY(t->x->compute(t, inner));
    }
    return machine_fault(t, op, "its region yields nothing");
}
