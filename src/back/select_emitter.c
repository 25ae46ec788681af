// SPDX-License-Identifier: Apache-2.0
#include "back/select_emitter.h"

// A copy that changes neither format nor stick dim and repeats nothing moves whole sticks; the
// others compute element by element.
static bool moves_sticks(const bundle_step *step)
{
    const bundle_tensor *in = &step->tensors[step->inputs[0]];
    const bundle_tensor *out = &step->tensors[step->output];
    if (in->format != out->format || in->stick_dim != out->stick_dim) return false;
    if (in->count || in->digit_count || out->digit_count) return false;
    for (uint32_t d = 0; d < step->dim_count; d++)
        if (out->scale[d] > 0 && in->scale[d] <= 0) return false;
    return !(in->in_lx && out->in_lx);
}

emit_step *select_emitter(const bundle_step *step)
{
    if (step->index_count) return emit_rows;
    if (step->tensors[step->inputs[0]].owners) return emit_shuffle;
    switch (opfunc_describe(step->op)->kind) {
    case OPFUNC_KIND_COPY: return moves_sticks(step) ? emit_stick_copy : emit_pointwise;
    case OPFUNC_KIND_UNARY:
    case OPFUNC_KIND_BINARY:
    case OPFUNC_KIND_TERNARY:
    case OPFUNC_KIND_PARAMETRIC:
    case OPFUNC_KIND_NORM: return emit_pointwise;
    case OPFUNC_KIND_REDUCTION: return emit_reduction;
    case OPFUNC_KIND_MATMUL: return emit_matmul;
    case OPFUNC_KIND_RANK: return emit_rank;
    case OPFUNC_KIND_POOL: return emit_reduction;
    case OPFUNC_KIND_MASK: return emit_mask;
    case OPFUNC_KIND_SCAN: return emit_scan;
    }
    return emit_pointwise;
}
