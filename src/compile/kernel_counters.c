// SPDX-License-Identifier: Apache-2.0
#include "compile/kernel_counters.h"

#include "compile/executable.h"

const char *spyre_bound_name(spyre_bound bound)
{
    switch (bound) {
    case SPYRE_BOUND_MEMORY: return "memory";
    case SPYRE_BOUND_PT: return "pt";
    case SPYRE_BOUND_SFP: return "sfp";
    case SPYRE_BOUND_RING: return "ring";
    case SPYRE_BOUND_ORDER: break;
    }
    return "order";
}

static spyre_bound bound_of(card_resource resource)
{
    switch (resource) {
    case CARD_MEMORY: return SPYRE_BOUND_MEMORY;
    case CARD_PT: return SPYRE_BOUND_PT;
    case CARD_SFP: return SPYRE_BOUND_SFP;
    case CARD_RING: return SPYRE_BOUND_RING;
    case CARD_RESOURCES: break;
    }
    return SPYRE_BOUND_ORDER;
}

static spyre_kernel_counters describe(const card_counters *from)
{
    return (spyre_kernel_counters){
        .runs = from->runs,
        .memory_read_bytes = from->memory_read_bytes,
        .memory_written_bytes = from->memory_written_bytes,
        .lx_bytes = from->lx_bytes,
        .ring_bytes = from->ring_bytes,
        .ring_hops = from->ring_hops,
        .mac_count = from->mac_count,
        .vector_element_count = from->vector_element_count,
        .us = from->us,
        .overlap_us = from->overlap_us,
        .memory_busy_us = from->busy_us[CARD_MEMORY],
        .pt_busy_us = from->busy_us[CARD_PT],
        .sfp_busy_us = from->busy_us[CARD_SFP],
        .ring_busy_us = from->busy_us[CARD_RING],
        .stall_us = from->stall_us,
        .bound = bound_of(card_bound(from)),
        .estimated = from->estimated,
    };
}

spyre_status counters_describe(arena *memory, const isa_program *program,
                               const card_counters *kernels,
                               const spyre_kernel_counters **out_kernels)
{
    uint32_t count = program->kernels.count, most_cores = 0;
    spyre_kernel_counters *out = ARENA_NEW(memory, spyre_kernel_counters, count + 1);
    TRY_ALLOC(out);
    card_counters sum = {0};
    for (uint32_t k = 0; k < count; k++) {
        const isa_kernel *kernel = &program->kernels.items[k];
        out[k] = describe(&kernels[k]);
        out[k].name = kernel->name;
        out[k].location = kernel->location;
        out[k].cores = (uint32_t)__builtin_popcount(kernel->active_cores);
        if (out[k].cores > most_cores) most_cores = out[k].cores;
        card_counters_add(&sum, &kernels[k]);
    }
    out[count] = describe(&sum);
    out[count].name = "total";
    out[count].location = "";
    out[count].cores = most_cores;
    *out_kernels = out;
    return NULL;
}

const spyre_kernel_counters *spyre_executable_counters(const spyre_executable *executable,
                                                       uint32_t segment)
{
    return segment < executable->segment_count ? executable->segments[segment].counters : NULL;
}
