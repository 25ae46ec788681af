// SPDX-License-Identifier: Apache-2.0
//
// How the files number launch arguments and the addresses in them.
#include "bundle/write.h"

int32_t writer_segment(const bundle_writer *w, int32_t arg)
{
    if (w->pool < 0 || arg > w->pool) return arg;
    return arg == w->pool ? 0 : arg + 1;
}

uint32_t writer_number_addresses(const bundle_step *step,
                                 int32_t ids[BUNDLE_MAX_TENSORS][BUNDLE_MAX_CORES])
{
    uint32_t count = 0;
    for (uint32_t t = 0; t < step->tensor_count; t++) {
        const bundle_tensor *tensor = &step->tensors[t];
        for (uint32_t core = 0; core < step->cores->core_count; core++) {
            ids[t][core] = -1;
            if (tensor->in_lx) continue;
            uint32_t same = 0;
            while (bundle_start(tensor, same) != bundle_start(tensor, core)) same++;
            ids[t][core] = same < core ? ids[t][same] : (int32_t)count++;
        }
    }
    return count;
}

uint32_t writer_count_symbols(const bundle_writer *w, const bundle_step *step,
                              uint32_t *out_sizes)
{
    int32_t ids[BUNDLE_MAX_TENSORS][BUNDLE_MAX_CORES];
    *out_sizes = w->form == BUNDLE_FORM_SYMBOLIC ? writer_number_addresses(step, ids) : 0;
    uint32_t count = *out_sizes;
    for (uint32_t d = 0; d < step->dim_count; d++) count += step->symbol[d] != 0;
    return count;
}
