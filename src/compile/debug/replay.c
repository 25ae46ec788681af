// SPDX-License-Identifier: Apache-2.0
//
// A recorded launch, again. To stop before an instruction, the program is cut there: the loops
// around it run once, what is behind it is gone, so every instruction in front of it has run.
#include "spyre/replay.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "runtime/launch_record_file.h"
#include "tensor/opfunc.h"

enum { SHOWN_ELEMENTS = 8 };
#define MOST_FILE_BYTES ((size_t)1 << 36)

typedef struct {
    launch_record record;
    isa_program *program;
    card *machine;
    const spyre_replay_options *options;
    text out;
    bool equal;
} replay;

static spyre_status launch(replay *r, const isa_program *program, card_fault *fault)
{
    card_program *loaded;
    uint32_t count = r->record.windows.count, temporary = 0;
    card_argument *arguments = ARENA_NEW(r->record.memory, card_argument, count + 1u);
    TRY_ALLOC(arguments);
    for (uint32_t k = 0; k < count; k++) {
        const launch_window *window = &r->record.windows.items[k];
        arguments[k] = (card_argument){window->base, window->bytes};
        if (!window->kept && k < 32) temporary |= UINT32_C(1) << k;
    }
    if (r->options->until) temporary = 0;   // what is stored there is shown
    TRY(card_load_with(r->machine, program, temporary, &loaded));
    if (r->record.forgets_lx && !r->options->until) card_program_forget_lx(loaded);
    spyre_status status = card_launch(r->machine, loaded, arguments, count, fault);
    card_unload(r->machine, loaded);
    return status;
}

// --- To the end

static spyre_status compare(replay *r)
{
    r->equal = true;
    for (uint32_t w = 0; w < r->record.windows.count; w++) {
        const launch_window *window = &r->record.windows.items[w];
        int64_t first;
        TRY(launch_record_compare(&r->record, w, r->machine, &first));
        text_printf(&r->out, "argument %u  %llu bytes, %u KiB changed: ", w,
                    (unsigned long long)window->bytes,
                    window->changed.count * LAUNCH_RECORD_CHUNK_BYTES / 1024);
        if (!window->kept) text_append(&r->out, "scratch\n");
        else if (first < 0) text_append(&r->out, "as recorded\n");
        else text_printf(&r->out, "differs from byte %lld on\n", (long long)first);
        if (window->kept && first >= 0) r->equal = false;
    }
    return NULL;
}

static spyre_status run_to_end(replay *r)
{
    spyre_status status = launch(r, r->program, NULL);
    bool faulted = status_is_fault(status);
    if (status && !(faulted && r->record.faulted)) return status;
    if (faulted) text_printf(&r->out, "fault, as recorded: %s\n", spyre_status_message(status));
    spyre_status_free(status);
    TRY(compare(r));
    if (r->record.faulted && !faulted) text_append(&r->out, "it was recorded with a fault\n");
    r->equal = r->equal && r->record.faulted == faulted;
    return NULL;
}

// --- Up to an instruction

static bool begins_kernel(const replay *r, uint32_t at, const char *name)
{
    const isa_instruction *i = r->program->code.items[at];
    return i->opcode == ISA_KERNEL && strcmp(r->program->kernels.items[i->count].name, name) == 0;
}

static spyre_status find_instruction(const replay *r, uint32_t *out)
{
    char *end;
    const char *wanted = r->options->until;
    errno = 0;
    unsigned long number = strtoul(wanted, &end, 10);
    if (end != wanted && !*end && !errno && number < r->program->code.count) {
        *out = (uint32_t)number;
        return NULL;
    }
    for (*out = 0; *out < r->program->code.count; ++*out)
        if (begins_kernel(r, *out, wanted)) return NULL;
    return status_new(SPYRE_INVALID_ARGUMENT,
                      "'%s' is neither a number below %u nor the name of a kernel", wanted,
                      r->program->code.count);
}

static spyre_status append(isa_program *to, isa_opcode opcode)
{
    return isa_append(to, &(isa_instruction){.opcode = opcode, .queue = ISA_QUEUE_SEQ});
}

// The program in front of instruction `end`; *out_kernel is the number of its kernel, or -1.
static spyre_status cut(const replay *r, uint32_t end, isa_program **out, int *out_kernel)
{
    isa_program *program = isa_program_create(r->record.memory);
    TRY_ALLOC(program);
    *program = (isa_program){.memory = r->record.memory, .arg_count = r->program->arg_count,
                             .arg_bytes = r->program->arg_bytes, .kernels = r->program->kernels};
    uint32_t open[2 * ISA_MAX_LOOPS + 1], depth = 0;
    *out_kernel = -1;
    for (uint32_t n = 0; n < end; n++) {
        const isa_instruction *i = r->program->code.items[n];
        if (i->opcode == ISA_LOOP || i->opcode == ISA_KERNEL) open[depth++] = n;
        if (i->opcode == ISA_KERNEL) *out_kernel = (int)i->count;
        if (i->opcode == ISA_END_LOOP || i->opcode == ISA_END_KERNEL) depth--;
        if (i->opcode == ISA_END_KERNEL) *out_kernel = -1;
        TRY(isa_append(program, i));
    }
    while (depth-- > 0) {
        isa_instruction *i = program->code.items[open[depth]];
        if (i->opcode == ISA_LOOP) i->count = 1;
        TRY(append(program, i->opcode == ISA_LOOP ? ISA_END_LOOP : ISA_END_KERNEL));
    }
    *out = program;
    return append(program, ISA_HALT);
}

static const uint8_t *operand_bytes(const replay *r, const isa_kernel *kernel, uint32_t core,
                                    const isa_operand *operand, uint64_t bytes)
{
    int64_t at = operand->offset;
    if (operand->space != ISA_SPACE_LX) at += isa_parameter(kernel, core, operand->slot);
    if (operand->space == ISA_SPACE_LX) {
        bool inside = at >= 0 && at <= ISA_LX_BYTES - (int64_t)bytes;
        return inside ? card_lx(r->machine, core) + at : NULL;
    }
    const launch_window *window = &r->record.windows.items[operand->arg];
    bool inside = at >= 0 && bytes <= window->bytes && (uint64_t)at <= window->bytes - bytes;
    return inside ? card_memory(r->machine, window->base + (uint64_t)at, bytes) : NULL;
}

// The first elements along the innermost dim, where they lie now.
static void show_operand(replay *r, const isa_instruction *i, uint32_t number,
                         const isa_kernel *kernel, uint32_t core)
{
    const isa_operand *operand = &i->operand[number];
    uint32_t inner = i->dim_count ? i->dim_count - 1u : 0;
    uint64_t width = spyre_format_bytes(operand->format);
    int64_t stride = i->dim_count ? operand->stride[inner] : 0;
    uint32_t count = i->dim_count && stride ? i->extent[inner] : 1;
    if (count > SHOWN_ELEMENTS) count = SHOWN_ELEMENTS;
    text_printf(&r->out, "    operand %u  %s in %s:", number, spyre_format_name(operand->format),
                operand->space == ISA_SPACE_LX ? "LX" : "memory");
    for (uint32_t n = 0; n < count; n++) {
        isa_operand element = *operand;
        element.offset += (int64_t)n * stride;
        const uint8_t *bytes = operand_bytes(r, kernel, core, &element, width);
        if (bytes) text_printf(&r->out, " %.6g", element_load(bytes, operand->format));
        else text_append(&r->out, " outside");
    }
    text_append(&r->out, "\n");
}

static spyre_status choose_core(const replay *r, const isa_kernel *kernel, uint32_t *out)
{
    int wanted = r->options->core;
    if (wanted < 0) *out = (uint32_t)__builtin_ctz(kernel->active_cores | 1u << 31);
    else *out = (uint32_t)wanted;
    if (*out < ISA_CORES && isa_is_active(kernel, *out)) return NULL;
    return status_new(SPYRE_INVALID_ARGUMENT, "core %d takes no part in kernel %s", wanted,
                      kernel->name);
}

static spyre_status show_instruction(replay *r, uint32_t at, int number)
{
    const isa_instruction *i = r->program->code.items[at];
    text_printf(&r->out, "in front of instruction %u, %s", at, isa_describe(i->opcode)->mnemonic);
    if (number < 0) {
        text_append(&r->out, ", between kernels\n");
        return NULL;
    }
    const isa_kernel *kernel = &r->program->kernels.items[number];
    uint32_t core;
    TRY(choose_core(r, kernel, &core));
    text_printf(&r->out, ", of kernel %s", kernel->name);
    if (*kernel->location) text_printf(&r->out, " (%s)", kernel->location);
    text_printf(&r->out, ", on core %u\n", core);
    for (uint32_t n = 0; n < i->operand_count; n++) show_operand(r, i, n, kernel, core);
    return NULL;
}

static spyre_status run_until(replay *r)
{
    uint32_t at = 0;
    int kernel = -1;
    isa_program *program = NULL;
    card_fault fault = {0};
    r->equal = true;
    TRY(find_instruction(r, &at));
    TRY(cut(r, at, &program, &kernel));
    if (kernel >= 0 && r->options->core >= 0) {
        uint32_t core;
        TRY(choose_core(r, &r->program->kernels.items[kernel], &core));
    }
    spyre_status status = launch(r, program, &fault);
    // A message whose receiver was cut off is no fault of the program.
    if (status_is_fault(status) && !fault.text[0]) {
        spyre_status_free(status);
        status = NULL;
    }
    TRY(status);
    return show_instruction(r, at, kernel);
}

// --- The file

static spyre_status check_program(const replay *r)
{
    if (r->program->arg_count == r->record.windows.count) return NULL;
    return status_new(SPYRE_INVALID_FORMAT, "%u windows, the program has %u arguments",
                      r->record.windows.count, r->program->arg_count);
}

static spyre_status prepare(replay *r, const char *path)
{
    char *bytes;
    size_t count;
    arena *memory = r->record.memory;
    TRY(file_read(memory, path, MOST_FILE_BYTES, &bytes, &count));
    TRY(launch_record_file_parse(memory, (const uint8_t *)bytes, count, &r->record));
    TRY(isa_decode(memory, r->record.image, r->record.image_bytes, &r->program));
    TRY(isa_verify(r->program));
    TRY(check_program(r));
    TRY(card_create(&r->machine));
    bool exact = r->options->exact || r->options->until;
    card_set_mode(r->machine, exact ? CARD_EXACT : CARD_FAST);
    text_printf(&r->out, "launch of %s: %u kernels, %u instructions\n", r->record.name,
                r->program->kernels.count, r->program->code.count);
    return launch_record_restore(&r->record, r->machine);
}

spyre_status spyre_replay(const char *path, const spyre_replay_options *options, bool *out_equal,
                          char **out_text)
{
    static const spyre_replay_options standard = SPYRE_REPLAY_OPTIONS_INIT;
    replay r = {.options = options ? options : &standard};
    arena *memory = arena_create();
    TRY_ALLOC(memory);
    r.record.memory = memory;
    spyre_status status = prepare(&r, path);
    if (!status) status = r.options->until ? run_until(&r) : run_to_end(&r);
    *out_equal = r.equal;
    card_destroy(r.machine);
    arena_destroy(memory);
    return text_give(&r.out, status_at_path(status, path), out_text);
}
