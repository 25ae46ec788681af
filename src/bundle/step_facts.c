// SPDX-License-Identifier: Apache-2.0
#include "bundle/step_facts.h"

#include <string.h>

bool bundle_is_rank_dim(const bundle_step *step, uint32_t dim)
{
    return opfunc_describe(step->op)->kind == OPFUNC_KIND_RANK &&
           step->tensors[step->output].scale[dim] > 0 &&
           step->tensors[step->inputs[0]].scale[dim] <= 0;
}

bool bundle_is_scan_dim(const bundle_step *step, uint32_t dim)
{
    return step->scanned[dim] ||
           (opfunc_describe(step->op)->kind == OPFUNC_KIND_MASK &&
            step->tensors[step->output].scale[dim] > 0 &&
            step->tensors[step->inputs[1]].scale[dim] <= 0);
}

uint32_t bundle_value_tensor(const bundle_step *step)
{
    bool scatters = step->tensors[step->output].index_kind == BUNDLE_INDEX_VALUE;
    return scatters ? step->output : step->inputs[0];
}

int32_t bundle_find_constant(const bundle_step *step, const char *name)
{
    for (uint32_t i = 0; i < step->constant_count; i++) {
        if (strcmp(step->constants[i].name, name) == 0) return (int32_t)i;
    }
    return -1;
}

float bundle_constant_value(const bundle_step *step, uint32_t number)
{
    const bundle_constant *constant = &step->constants[number];
    return (float)element_load(&constant->bits, constant->format);
}

static float constant_named(const bundle_step *step, const char *name)
{
    return bundle_constant_value(step, (uint32_t)bundle_find_constant(step, name));
}

bundle_finish bundle_finish_of(const bundle_step *step)
{
    const char *const *parameter = opfunc_describe(step->op)->parameter;
    bundle_finish f = {.factor = 1.0f};
    if (step->op == OPFUNC_QUANTSCALEPERTOKEN) {
        f.scales = true;
        f.factor = 1.0f / INT8_MAX;
    }
    if (parameter[0]) {
        f.scales = true;
        f.factor = constant_named(step, parameter[0]);
    }
    if (step->op == OPFUNC_QUANTSCALEPERTOKENFP8) {
        f.clips = true;
        f.least = constant_named(step, parameter[1]);
        f.most = constant_named(step, parameter[2]);
    }
    return f;
}

bool bundle_takes_zero_mean(const bundle_step *step)
{
    if (step->op == OPFUNC_EXX2_ZEROMEAN) return true;
    return step->op == OPFUNC_EXX2 && constant_named(step, "useZeroMean") != 0.0f;
}

spyre_status bundle_at_step(spyre_status status, uint32_t number, const bundle_step *step)
{
    return status_at(status, "step %u %s", number, step->name ? step->name : "?");
}

int64_t bundle_reduced_count(const bundle *b, const bundle_step *step)
{
    uint8_t reduced[BUNDLE_MAX_DIMS];
    int64_t elements = 1;
    uint32_t count = bundle_reduced_dims(b, step, reduced);
    for (uint32_t i = 0; i < count; i++) elements *= bundle_unmasked_size(step, reduced[i]);
    return elements;
}

static uint32_t bits_of_mean(const bundle *b, const bundle_step *step, spyre_format format)
{
    uint32_t bits = 0;
    element_store(&bits, format, (float)(1 / (double)bundle_reduced_count(b, step)));
    return bits;
}

bool bundle_is_mean(const bundle *b, const bundle_step *step, uint32_t *out_constant)
{
    const char *name = opfunc_describe(step->op)->parameter[0];
    bool scales = step->op == OPFUNC_MEAN || step->op == OPFUNC_EXX2 ||
                  step->op == OPFUNC_EXX2_ZEROMEAN;
    int32_t constant = scales ? bundle_find_constant(step, name) : -1;
    if (constant < 0) return false;
    *out_constant = (uint32_t)constant;
    const bundle_constant *c = &step->constants[constant];
    return c->bits == bits_of_mean(b, step, c->format);
}

void bundle_set_mean(const bundle *b, bundle_step *step, uint32_t constant)
{
    bundle_constant *c = &step->constants[constant];
    c->bits = bits_of_mean(b, step, c->format);
}
