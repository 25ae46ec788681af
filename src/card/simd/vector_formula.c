// SPDX-License-Identifier: Apache-2.0
//
// Opfuncs of vector programs that have no expression in simd_formulas.h: by their formula in fp64,
// rounded once.
#include <string.h>

#include "card/simd/lanes.h"
#include "card/simd/narrow_formula.h"
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

static void apply_f32(opfunc op, const vector_step *s, float *x, const float *y)
{
    float result[LANES];
    opfunc_apply_f32(op, result, (const float *const[]){x, y, x}, s->constant, LANES);
    memcpy(x, result, sizeof result);
}

// An fp32 between fp64 and SEN169_FP16 would be a second rounding.
static void find_codes(opfunc op, const vector_step *s, const float *x, const float *y,
                       uint16_t *codes)
{
    double first[LANES], second[LANES], result[LANES];
    load(first, x);
    if (opfunc_describe(op)->least_inputs > 1) load(second, y);
    opfunc_apply_lanes(op, result, (const double *const[]){first, second, first}, s->constant,
                       LANES);
    lanes_store_f64((uint8_t *)codes, sizeof *codes, SPYRE_FORMAT_SEN169_FP16, result, LANES);
}

static void apply_dl16(opfunc op, const vector_step *s, float *x, const float *y)
{
    uint16_t codes[LANES];
    if (narrow_has_formula(op)) narrow_formula(op, codes, x, y, LANES);
    else find_codes(op, s, x, y, codes);
    convert_dl16_to_float(x, codes, LANES);
}

void vector_formula(const vector_step *s, float *x, const float *y)
{
    const opfunc op = (opfunc)(s->op - VECTOR_FORMULA);
    if (s->rounding == VECTOR_ROUND) apply_dl16(op, s, x, y);
    else apply_f32(op, s, x, y);
}
