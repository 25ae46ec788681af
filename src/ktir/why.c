// SPDX-License-Identifier: Apache-2.0
//
// Where a kernel's time goes: the modelled time by kernel of the program, and the roofline, the
// time that memory, matrix units or vector units alone would need. Constants: isa/cost.def.
#include "base/text.h"
#include "isa/constants.h"
#include "isa/isa.h"
#include "spyre/device.h"
#include "spyre/ktir.h"

static double constant(const char *name)
{
    const spyre_card_constant *found = spyre_card_constant_named(name);
    return found ? found->value : 1;
}

typedef struct {
    const char *what;
    double us;
} roof;

static void print_kernels(const spyre_kernel_counters *kernels, uint32_t count, text *out)
{
    const spyre_kernel_counters *total = &kernels[count];
    text_printf(out, "%12s %7s  %-7s %5s %6s  %s\n", "us", "%", "bound", "cores", "runs", "kernel");
    for (uint32_t k = 0; k < count; k++)
        text_printf(out, "%12.3f %7.1f  %-7s %5u %6lld  %s  %s\n", kernels[k].us,
                    total->us > 0 ? 100 * kernels[k].us / total->us : 0,
                    spyre_bound_name(kernels[k].bound), kernels[k].cores,
                    (long long)kernels[k].runs, kernels[k].name, kernels[k].location);
    text_printf(out, "%12.3f   100.0  %-7s %5u %6s  total\n", total->us,
                spyre_bound_name(total->bound), total->cores, "");
}

// The least time by each unit when all cores of the card share the work evenly.
static void print_roofline(const spyre_kernel_counters *total, text *out)
{
    double bytes = (double)(total->memory_read_bytes + total->memory_written_bytes);
    double flop = 2 * (double)total->mac_count + (double)total->vector_element_count;
    double lanes = SPYRE_STICK_BYTES / 2;
    roof roofs[] = {
        {"memory", bytes / constant("MEMORY_BANDWIDTH")},
        {"products", (double)total->mac_count / constant("MATMUL_RATE") / ISA_CORES},
        {"vectors", (double)total->vector_element_count /
                        (constant("CLOCK") * constant("VECTOR_STICKS") * lanes) / ISA_CORES},
    };
    const roof *most = &roofs[0];
    for (uint32_t r = 1; r < 3; r++)
        if (roofs[r].us > most->us) most = &roofs[r];
    text_printf(out, "\n%12lld bytes of memory read, %lld written; %lld multiply-accumulates; %lld "
                "vector elements; %lld bytes on the ring\n", (long long)total->memory_read_bytes,
                (long long)total->memory_written_bytes, (long long)total->mac_count,
                (long long)total->vector_element_count, (long long)total->ring_bytes);
    if (bytes > 0)
        text_printf(out, "%12.2f operations a byte; the ridge of memory and products is at %.1f\n",
                    flop / bytes, 2 * constant("MATMUL_RATE") * ISA_CORES /
                                      constant("MEMORY_BANDWIDTH"));
    text_printf(out, "%12.3f us roofline, of %s (", most->us, most->what);
    for (uint32_t r = 0; r < 3; r++)
        text_printf(out, "%s%s %.3f us", r ? ", " : "", roofs[r].what, roofs[r].us);
    text_printf(out, "): %.1f %% of it attained\n",
                total->us > 0 ? 100 * most->us / total->us : 0);
}

static void print_advice(const spyre_kernel_counters *total, text *out)
{
    uint32_t cores = total->cores;
    if (cores < ISA_CORES)
        text_printf(out, "%12u of %d cores have a compute tile: a larger grid would use the "
                    "others\n", cores, ISA_CORES);
    if (total->bound == SPYRE_BOUND_ORDER)
        text_append(out, "       order: no unit is busy half of the time; loads, computation and "
                         "stores of a compute tile take turns, so larger tiles, of which there are "
                         "fewer, wait less\n");
    else if (total->bound == SPYRE_BOUND_MEMORY)
        text_append(out, "      memory: what is loaded again in a loop could stay in a tensor "
                         "outside of it\n");
}

spyre_status spyre_ktir_why(const spyre_ktir_program *program, char **out_text)
{
    text out = {0};
    uint32_t count;
    const spyre_kernel_counters *kernels = spyre_ktir_program_counters(program, &count);
    print_kernels(kernels, count, &out);
    print_roofline(&kernels[count], &out);
    print_advice(&kernels[count], &out);
    return text_give(&out, NULL, out_text);
}
