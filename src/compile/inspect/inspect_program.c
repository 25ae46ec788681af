// SPDX-License-Identifier: Apache-2.0
//
// A program image for people: sizes, the table of kernels with what each does, modelled work, and
// the listing.
#include <inttypes.h>

#include "card/card.h"
#include "compile/inspect/inspect.h"

// Instructions of a kernel by the queue that executes them.
typedef struct {
    uint32_t total;
    uint32_t of_queue[ISA_QUEUE_COUNT];
} instruction_count;

// Of every kernel, in the order of the table; `counts` are zero.
static void count_instructions(const isa_program *program, instruction_count *counts)
{
    instruction_count *inside = NULL;
    for (uint32_t n = 0; n < program->code.count; n++) {
        const isa_instruction *i = program->code.items[n];
        if (i->opcode == ISA_KERNEL) inside = &counts[i->count];
        if (!inside) continue;
        inside->total++;
        inside->of_queue[i->queue]++;
        if (i->opcode == ISA_END_KERNEL) inside = NULL;
    }
}

static void print_kernel(const isa_kernel *kernel, const instruction_count *count, text *out)
{
    text_printf(out, "%-24s %2u cores, %u instructions (", kernel->name,
                (uint32_t)__builtin_popcount(kernel->active_cores), count->total);
    const char *separator = "";
    for (uint32_t q = 0; q < ISA_QUEUE_COUNT; q++) {
        if (!count->of_queue[q]) continue;
        text_printf(out, "%s%s %u", separator, isa_queue_name((isa_queue)q), count->of_queue[q]);
        separator = ", ";
    }
}

static void print_work(const card_counters *all, text *out)
{
    text_printf(out,
                "one run: %" PRId64 " bytes read, %" PRId64 " written, %" PRId64
                " multiply-adds, %" PRId64 " vector elements, %" PRId64
                " bytes on the ring; modelled %.2f us\n",
                all->memory_read_bytes, all->memory_written_bytes, all->mac_count,
                all->vector_element_count, all->ring_bytes, all->us);
}

// A program that would never end is shown all the same, with the reason instead of its time.
static spyre_status time_kernels(arena *memory, const isa_program *program, text *out,
                                 card_counters **out_kernels)
{
    card_counters all = {0}, *kernels = ARENA_NEW(memory, card_counters, program->kernels.count);
    TRY_ALLOC(kernels);
    spyre_status status = card_time(program, kernels);
    if (status && spyre_status_code(status) != SPYRE_DEVICE_FAULT) return status;
    if (status) text_printf(out, "one run: never ends: %s\n", spyre_status_message(status));
    for (uint32_t k = 0; k < program->kernels.count; k++) card_counters_add(&all, &kernels[k]);
    if (!status) print_work(&all, out);
    spyre_status_free(status);
    *out_kernels = kernels;
    return NULL;
}

spyre_status inspect_program_summary(arena *memory, const isa_program *program, text *out)
{
    card_counters *kernels = NULL;
    instruction_count *counts = ARENA_NEW(memory, instruction_count, program->kernels.count);
    TRY_ALLOC(counts);
    count_instructions(program, counts);
    text_printf(out, "program: %u kernels, %u instructions, %u arguments\n",
                program->kernels.count, program->code.count, program->arg_count);
    TRY(time_kernels(memory, program, out, &kernels));
    for (uint32_t k = 0; k < program->kernels.count; k++) {
        const isa_kernel *kernel = &program->kernels.items[k];
        text_printf(out, "    %3u  ", k);
        print_kernel(kernel, &counts[k], out);
        text_printf(out, "), %.2f us%s%s\n", kernels[k].us, *kernel->location ? "  " : "",
                    kernel->location);
    }
    return NULL;
}

spyre_status inspect_program(arena *memory, const char *path, const uint8_t *bytes, size_t length,
                             text *out)
{
    isa_program *program;
    size_t used = isa_image_bytes(bytes, length);
    TRY(status_at(isa_decode(memory, bytes, used, &program), "%s", path));
    text_printf(out, "image %s: %zu bytes", path, length);
    if (used < length) text_printf(out, ", %zu of them behind the program", length - used);
    text_append(out, "\n");
    TRY(inspect_program_summary(memory, program, out));
    text_append(out, "\n");
    isa_print(program, out);
    return NULL;
}
