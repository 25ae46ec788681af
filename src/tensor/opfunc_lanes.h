// SPDX-License-Identifier: Apache-2.0
//
// Loops over lanes of ELEMENT, float or double, by the formulas of opfunc.def in fp64: APPLY, and
// APPLY_WITHOUT_BRANCHES for it. opfunc_apply.c includes this for each.

// By the rows BRANCHLESS; lanes that these do not hold for are computed one by one.
BASE_CLONES
static bool APPLY_WITHOUT_BRANCHES(opfunc op, ELEMENT *result, const ELEMENT *const *inputs,
                                   size_t count)
{
    const ELEMENT *first = inputs[0], *second = inputs[1];
    uint64_t others = 0;
    switch ((int)op) {
#define OPFUNC_BRANCHLESS(id, holds, formula)                          \
    case OPFUNC_##id:                                                  \
        for (size_t n = 0; n < count; n++) {                           \
            const double x = first[n], y = second[n];                  \
            others += !(holds);                                        \
            result[n] = (ELEMENT)positive_nan((double)(formula));      \
        }                                                              \
        for (size_t n = 0; others > 0 && n < count; n++) {             \
            const double x = first[n], y = second[n];                  \
            if (!(holds)) result[n] = (ELEMENT)opfunc_apply(op, (double[]){x, y}, 2, NULL); \
        }                                                              \
        return true;
#include "tensor/opfunc.def"
    default: return false;
    }
}

// Formulas of roundings, roots and quotients are instructions on later processors only.
BASE_CLONES
static void APPLY(opfunc op, ELEMENT *result, const ELEMENT *const *inputs,
                  const float *parameters, size_t count)
{
    const opfunc_info *info = opfunc_describe(op);
    bool pairs = opfunc_makes_pairs(op);
    const ELEMENT *first = inputs[0], *second = inputs[info->least_inputs > 1 || pairs ? 1 : 0];
    const ELEMENT *third = inputs[info->least_inputs > 2 ? 2 : 0];
    bool parametric = info->kind == OPFUNC_KIND_PARAMETRIC;
    const double p = parametric ? (double)parameters[0] : 0.0;
    const double q = parametric ? (double)parameters[1] : 0.0;
    (void)p, (void)q;
    if (APPLY_WITHOUT_BRANCHES(op, result, inputs, count)) return;
    switch ((int)op) {
#define OPFUNC_FORMULA(id, formula)                                    \
    case OPFUNC_##id:                                                  \
        for (size_t n = 0; n < count; n++) {                           \
            const double x = first[n], y = second[n], z = third[n];    \
            (void)y, (void)z;                                          \
            result[n] = (ELEMENT)positive_nan((double)(formula));      \
        }                                                              \
        return;
#include "tensor/opfunc.def"
    default: break;
    }
    assert(false && "an opfunc with a formula");
}

#undef ELEMENT
#undef APPLY
#undef APPLY_WITHOUT_BRANCHES
