// SPDX-License-Identifier: Apache-2.0
//
// Conversions to a format of fewer elements a stick whose N_ is rounded up to the longer stick.
// torch-spyre takes a second stick of each row of the result for a dim of one index and a gap, and
// then N_ says that this stick lies behind all rows: outside of the result, whose place it is not,
// in memory that may be another tensor's. Where the steps behind read fewer sticks of it, those are
// the result. (Arguments of a launch are left alone: the host reads them, too.)
#include "base/integer.h"
#include "bundle/read.h"
#include "tensor/opfunc.h"

static bool mistakes_stick(const bundle *b, const bundle_step *step)
{
    if (opfunc_describe(step->op)->kind != OPFUNC_KIND_COPY || step->input_count != 1 ||
        step->index_count)
        return false;
    const bundle_tensor *in = &step->tensors[step->inputs[0]], *out = &step->tensors[step->output];
    uint32_t d = out->stick_dim;
    bool rounded = in->stick_dim == d && in->stick_elements > out->stick_elements &&
                   !in->digit_count && !out->digit_count && !step->symbol[d] &&
                   step->cores->slices[d] == 1 && step->size[d] % in->stick_elements == 0;
    bool own = out->arg >= 0 && b->args.items[out->arg].kind == BUNDLE_ARG_POOL &&
               b->args.items[out->arg].bytes > 0;
    for (uint32_t k = 0; k < step->dim_count && rounded && own; k++)
        if (step->size[k] == 1 && out->gap[k] > 0) return true;
    return false;
}

// The elements of the stick dim that other steps read of the step's result, or 0 where one reads it
// in another form, or none does.
static int64_t elements_read(const bundle *b, const bundle_step *step)
{
    const bundle_tensor *out = &step->tensors[step->output];
    int64_t most = 0;
    for (uint32_t s = 0; s < b->steps.count; s++) {
        const bundle_step *reader = &b->steps.items[s];
        for (uint32_t i = 0; i < reader->input_count; i++) {
            const bundle_tensor *t = &reader->tensors[reader->inputs[i]];
            if (t->arg != out->arg || t->start != out->start || t->format != out->format)
                continue;
            if (t->digit_count || t->scale[t->stick_dim] != 1) return 0;
            int64_t size = reader->size[t->stick_dim];
            if (size > most) most = size;
        }
    }
    return most;
}

void read_trim_conversions(bundle *b)
{
    for (uint32_t s = 0; s < b->steps.count; s++) {
        bundle_step *step = &b->steps.items[s];
        if (!mistakes_stick(b, step)) continue;
        const bundle_tensor *out = &step->tensors[step->output];
        int64_t read = elements_read(b, step), stick = out->stick_elements;
        read = round_up(read, stick);
        if (read > 0 && read < step->size[out->stick_dim]) step->size[out->stick_dim] = read;
    }
}
