// SPDX-License-Identifier: Apache-2.0
//
// Opfuncs of vector programs that have no expression in simd_formulas.h: by their formula in fp64,
// rounded once.
#include "card/simd/lanes.h"
#include "card/simd/vector_program.h"
#include "tensor/convert.h"

enum { LANES = 64 };

bool vector_has_formula(opfunc op, uint32_t inputs)
{
    const opfunc_info *info = opfunc_describe(op);
    return opfunc_has_formula(op) && info->kind != OPFUNC_KIND_TERNARY && !opfunc_makes_pairs(op) &&
           inputs == info->least_inputs;
}

static void load(double *to, const float *from)
{
    lanes_load_f64(to, (const uint8_t *)from, sizeof *from, SPYRE_FORMAT_IEEE_FP32, LANES);
}

void vector_formula(const vector_step *s, float *x, const float *y)
{
    const opfunc op = (opfunc)(s->op - VECTOR_FORMULA);
    double first[LANES], second[LANES], result[LANES];
    const double *const in[] = {first, second, first};
    load(first, x);
    if (opfunc_describe(op)->least_inputs > 1) load(second, y);
    opfunc_apply_lanes(op, result, in, s->constant, LANES);
    if (s->rounding == VECTOR_ROUND) {
        uint16_t codes[LANES];
        lanes_store_f64((uint8_t *)codes, sizeof *codes, SPYRE_FORMAT_SEN169_FP16, result, LANES);
        convert_dl16_to_float(x, codes, LANES);
    } else {
        lanes_store_f64((uint8_t *)x, sizeof *x, SPYRE_FORMAT_IEEE_FP32, result, LANES);
    }
}
