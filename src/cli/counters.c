// SPDX-License-Identifier: Apache-2.0
#include "counters.h"

#include <inttypes.h>
#include <stdio.h>

bool counters_option(cli_arguments *in, counters_options *options)
{
    if (cli_flag(in, "--counters")) options->table = true;
    else if (cli_flag(in, "--json")) options->json = true;
    else return false;
    return true;
}

// --- A table

static void print_head(void)
{
    printf("%-28s %5s %6s %12s %-6s %7s %6s %6s %6s %7s", "kernel", "cores", "runs", "us", "bound",
           "mem %", "pt %", "sfp %", "ring %", "stall %");
    printf(" %12s %12s %12s %10s %6s\n", "read", "written", "lx", "ring", "hops");
}

static double percent(const spyre_kernel_counters *k, double busy_us)
{
    double us = k->us + k->overlap_us;
    return us > 0 ? 100 * busy_us / us : 0;
}

static void print_row(const spyre_kernel_counters *k)
{
    printf("%-28.28s %5u %6" PRId64 " %11.2f%c %-6s %7.1f %6.1f %6.1f %6.1f %7.1f", k->name,
           k->cores, k->runs, k->us, k->estimated ? '>' : ' ', spyre_bound_name(k->bound),
           percent(k, k->memory_busy_us), percent(k, k->pt_busy_us), percent(k, k->sfp_busy_us),
           percent(k, k->ring_busy_us), percent(k, k->stall_us));
    printf(" %12" PRId64 " %12" PRId64 " %12" PRId64 " %10" PRId64 " %6" PRId64 "%s%s\n",
           k->memory_read_bytes, k->memory_written_bytes, k->lx_bytes, k->ring_bytes, k->ring_hops,
           *k->location ? "  " : "", k->location);
}

// --- JSON

static void print_string(const char *key, const char *value)
{
    printf("\"%s\": \"", key);
    for (; *value; value++) {
        unsigned char c = (unsigned char)*value;
        if (c == '"' || c == '\\') printf("\\%c", c);
        else if (c < 0x20) printf("\\u%04x", c);
        else putchar(c);
    }
    printf("\"");
}

static void print_object(const spyre_kernel_counters *k)
{
    printf("{");
    print_string("name", k->name);
    printf(", ");
    print_string("location", k->location);
    printf(", \"cores\": %u, \"runs\": %" PRId64 ", \"us\": %.17g, \"bound\": \"%s\", "
           "\"estimated\": %s", k->cores, k->runs, k->us, spyre_bound_name(k->bound),
           k->estimated ? "true" : "false");
    printf(", \"memory_busy_us\": %.17g, \"pt_busy_us\": %.17g, \"sfp_busy_us\": %.17g, "
           "\"ring_busy_us\": %.17g, \"stall_us\": %.17g, \"overlap_us\": %.17g", k->memory_busy_us,
           k->pt_busy_us, k->sfp_busy_us, k->ring_busy_us, k->stall_us, k->overlap_us);
    printf(", \"memory_read_bytes\": %" PRId64 ", \"memory_written_bytes\": %" PRId64
           ", \"lx_bytes\": %" PRId64 ", \"ring_bytes\": %" PRId64 ", \"ring_hops\": %" PRId64
           ", \"macs\": %" PRId64 ", \"vector_elements\": %" PRId64 "}",
           k->memory_read_bytes, k->memory_written_bytes, k->lx_bytes, k->ring_bytes, k->ring_hops,
           k->mac_count, k->vector_element_count);
}

static void print_json(const spyre_kernel_counters *kernels, uint32_t count)
{
    printf("{\"kernels\": [");
    for (uint32_t k = 0; k < count; k++) {
        if (k) printf(", ");
        print_object(&kernels[k]);
    }
    printf("], \"total\": ");
    print_object(&kernels[count]);
    printf("}\n");
}

void counters_print(const counters_options *options, const spyre_kernel_counters *kernels,
                    uint32_t count)
{
    if (options->table) {
        print_head();
        for (uint32_t k = 0; k <= count; k++) print_row(&kernels[k]);
    }
    if (options->json) print_json(kernels, count);
}
