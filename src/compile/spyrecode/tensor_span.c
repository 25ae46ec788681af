// SPDX-License-Identifier: Apache-2.0
#include "compile/spyrecode/tensor_span.h"

tensor_span tensor_span_of(const bundle_step *step, uint32_t number,
                           const bundle_geometry *geometry)
{
    const bundle_tensor *tensor = &step->tensors[number];
    int64_t lowest = tensor->start, highest = tensor->start;
    for (uint32_t core = 1; core < step->cores->core_count; core++) {
        if (bundle_start(tensor, core) < lowest) lowest = bundle_start(tensor, core);
        if (bundle_start(tensor, core) > highest) highest = bundle_start(tensor, core);
    }
    // In LX the geometry is that of a core's slice, elsewhere of the whole.
    int64_t last = tensor->in_lx ? highest : lowest;
    return (tensor_span){tensor->in_lx ? -1 : tensor->arg, lowest, last + geometry->bytes};
}

bool tensor_span_overlaps(const tensor_span *range, const bundle_step *step, uint32_t tensor,
                          const bundle_geometry *geometry)
{
    tensor_span other = tensor_span_of(step, tensor, geometry);
    return other.argument == range->argument && other.start < range->end &&
           range->start < other.end;
}

static bool is_straight(const bundle *b)
{
    bool straight = b->body.count == b->steps.count;
    for (uint32_t n = 0; straight && n < b->body.count; n++)
        straight = b->body.items[n].kind == BUNDLE_EXECUTE && b->body.items[n].step == n;
    return straight;
}

spyre_status tensor_span_geometry(arena *memory, const bundle *b,
                                  const bundle_geometry *const **out_geometry, bool *out_straight)
{
    const bundle_geometry **of_steps = ARENA_NEW(memory, const bundle_geometry *, b->steps.count);
    TRY_ALLOC(of_steps);
    for (uint32_t s = 0; s < b->steps.count; s++) {
        const bundle_step *step = &b->steps.items[s];
        bundle_geometry *own = ARENA_NEW(memory, bundle_geometry, step->tensor_count);
        TRY_ALLOC(own);
        for (uint32_t t = 0; t < step->tensor_count; t++)
            TRY(bundle_tensor_geometry(b, step, t, &own[t]));
        of_steps[s] = own;
    }
    *out_geometry = of_steps;
    *out_straight = is_straight(b);
    return NULL;
}
