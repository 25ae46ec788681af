// SPDX-License-Identifier: Apache-2.0
#include "front/divide/division_text.h"

#include <inttypes.h>

static int64_t coefficient_of(const loop_op *op, uint32_t v)
{
    uint32_t output = op->operand_count - 1;
    int64_t stride = op->operand[output].stride[v];
    for (uint32_t k = 0; k < output && !stride; k++) stride = op->operand[k].stride[v];
    return stride;
}

uint32_t division_splits_of(const loop_op *op, const division *d, division_split out[LOOP_MAX_VARS])
{
    uint32_t count = 0;
    for (int reduced = 0; reduced < 2; reduced++)
        for (uint32_t v = 0; v < op->var_count; v++) {
            if (d->split[v] < 2 || loop_var_is_reduced(op, v) != (reduced == 1)) continue;
            out[count++] = (division_split){reduced == 1, coefficient_of(op, v), d->split[v]};
        }
    return count;
}

static void print_splits(const division_split *splits, uint32_t count, bool reduced, text *out)
{
    const char *between = "";
    text_append(out, "{");
    for (uint32_t i = 0; i < count; i++) {
        if (splits[i].reduced != reduced) continue;
        text_printf(out, "%s%" PRId64 ": %d", between, splits[i].coefficient, splits[i].slices);
        between = ", ";
    }
    text_append(out, "}");
}

void division_splits_print(const loop_graph *loops, text *out)
{
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        const loop_op *op = &loops->ops.items[i];
        division d = division_get(op);
        division_split splits[LOOP_MAX_VARS];
        uint32_t count = division_splits_of(op, &d, splits);
        text_printf(out, "%s (", opfunc_describe(op->op)->name);
        print_splits(splits, count, false, out);
        text_append(out, ", ");
        print_splits(splits, count, true, out);
        text_printf(out, ")  // %s, %s\n", op->name, op->location ? op->location : "unknown");
    }
}
