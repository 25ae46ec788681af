// SPDX-License-Identifier: Apache-2.0
//
// A program image for people: sizes, the table of kernels with what each does, modelled work, and
// the listing.
#include <inttypes.h>
#include <string.h>

#include "base/file.h"
#include "card/card.h"
#include "compile/inspect.h"
#include "isa/binary.h"

enum { IMAGE_LIMIT_BYTES = 1 << 30 };

// Instructions of a kernel by the queue that executes them.
typedef struct {
    uint32_t total;
    uint32_t of_queue[ISA_QUEUE_COUNT];
} instruction_count;

static uint32_t kernel_cores(const isa_kernel *kernel)
{
    return (uint32_t)__builtin_popcount(kernel->active_cores);
}

// Counts every kernel's instructions, kernels in the order of the table.
static void count_kernel(const isa_program *program, uint32_t kernel, instruction_count *out)
{
    bool inside = false;
    *out = (instruction_count){0};
    for (uint32_t n = 0; n < program->code.count; n++) {
        const isa_instruction *i = &program->code.items[n];
        if (i->opcode == ISA_KERNEL) inside = i->count == kernel;
        if (!inside) continue;
        out->total++;
        if (i->queue < ISA_QUEUE_COUNT) out->of_queue[i->queue]++;
        if (i->opcode == ISA_END_KERNEL) inside = false;
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
    text_printf(out, "program: %u kernels, %u instructions, %u arguments\n",
                program->kernels.count, program->code.count, program->arg_count);
    TRY(time_kernels(memory, program, out, &kernels));
    for (uint32_t k = 0; k < program->kernels.count; k++) {
        const isa_kernel *kernel = &program->kernels.items[k];
        instruction_count count;
        count_kernel(program, k, &count);
        text_printf(out, "    %3u  %-24s %2u cores, %u instructions (", k, kernel->name,
                    kernel_cores(kernel), count.total);
        bool first = true;
        for (uint32_t q = 0; q < ISA_QUEUE_COUNT; q++) {
            if (!count.of_queue[q]) continue;
            text_printf(out, "%s%s %u", first ? "" : ", ", isa_queue_name((isa_queue)q),
                        count.of_queue[q]);
            first = false;
        }
        text_printf(out, "), %.2f us%s%s\n", kernels[k].us, *kernel->location ? "  " : "",
                    kernel->location);
    }
    return NULL;
}

// The program ends before the file does where constants follow it. A wrong length in the header is
// the decoder's to complain about.
static size_t program_length(const char *bytes, size_t length)
{
    uint64_t stated = 0;
    if (length < BINARY_HEADER_USED) return length;
    for (uint32_t i = 8; i-- > 0;) stated = stated << 8 | (uint8_t)bytes[BINARY_AT_BYTES + i];
    return stated >= BINARY_HEADER_BYTES && stated < length ? (size_t)stated : length;
}

spyre_status inspect_program(arena *memory, const char *path, text *out)
{
    char *bytes;
    size_t length;
    isa_program *program;
    TRY(file_read(memory, path, IMAGE_LIMIT_BYTES, &bytes, &length));
    size_t used = program_length(bytes, length);
    TRY(status_at(isa_decode(memory, (const uint8_t *)bytes, used, &program), "%s", path));
    TRY(status_at(isa_verify(program), "%s", path));
    text_printf(out, "image %s: %zu bytes", path, length);
    if (used < length) text_printf(out, ", %zu of them behind the program", length - used);
    text_append(out, "\n");
    TRY(inspect_program_summary(memory, program, out));
    text_append(out, "\n");
    isa_print(program, out);
    return NULL;
}
