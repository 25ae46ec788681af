// SPDX-License-Identifier: Apache-2.0
#include "isa/binary.h"

// Errors are sticky: a writer without memory does nothing, and encode() reports it once.
typedef struct {
    arena *memory;
    VEC(uint8_t) bytes;
    bool failed;
} writer;

static void put_byte(writer *w, uint32_t value)
{
    if (w->failed) return;
    spyre_status status = VEC_PUSH(w->memory, &w->bytes, (uint8_t)value);
    if (!status) return;
    spyre_status_free(status);
    w->failed = true;
}

static void put_fixed(writer *w, uint64_t value, uint32_t bytes)
{
    for (uint32_t b = 0; b < bytes; b++) put_byte(w, (uint32_t)(value >> 8 * b & 0xFF));
}

static void put_unsigned(writer *w, uint64_t value)
{
    for (; value >= 0x80; value >>= 7) put_byte(w, (uint32_t)(value & 0x7F) | 0x80);
    put_byte(w, (uint32_t)value);
}

// Small magnitudes of either sign get small numbers: 0, -1, 1, -2, ...
static void put_signed(writer *w, int64_t value)
{
    put_unsigned(w, (uint64_t)value << 1 ^ (value < 0 ? UINT64_MAX : 0));
}

static void put_operand(writer *w, const isa_operand *operand, uint32_t dim_count)
{
    static const uint8_t marks[] = {0, BINARY_IN_MEMORY, BINARY_NUMBER};
    put_byte(w, (uint32_t)operand->format | marks[operand->space]);
    if (operand->space == ISA_SPACE_MEMORY) put_unsigned(w, operand->arg);
    if (operand->space != ISA_SPACE_LX)
        put_unsigned(w, operand->slot == ISA_NO_SLOT ? 0 : operand->slot + 1u);
    put_signed(w, operand->offset);
    uint32_t loops = isa_loop_stride_count(operand);
    put_byte(w, loops);
    for (uint32_t n = 0; n < loops; n++) put_signed(w, operand->loop_stride[n]);
    for (uint32_t d = 0; d < dim_count; d++) put_signed(w, operand->stride[d]);
}

static void put_instruction(writer *w, const isa_instruction *i)
{
    const isa_info *info = isa_describe(i->opcode);
    isa_use uses = isa_describe(i->opcode)->uses;
    put_byte(w, i->opcode);
    if (info->queue == ISA_QUEUE_ANY) put_byte(w, i->queue);
    if (uses == ISA_USES_TOKEN || uses == ISA_USES_SLOT) put_unsigned(w, i->token);
    if (uses == ISA_USES_COUNT) put_unsigned(w, i->count);
    if (isa_uses_op(i->opcode)) put_byte(w, i->op);
    for (uint32_t c = 0; c < isa_constant_count(i); c++) {
        uint32_t bits;
        memcpy(&bits, &i->constant[c], sizeof bits);
        put_fixed(w, bits, sizeof bits);
    }
    if (isa_uses_rows(i->opcode)) {
        put_signed(w, i->row_stride);
        put_signed(w, i->row_count);
        put_unsigned(w, i->row_lanes);
    }
    if (!*info->roles) return;
    put_byte(w, (uint32_t)i->operand_count << 4 | i->dim_count);
    for (uint32_t d = 0; d < i->dim_count; d++) put_unsigned(w, i->extent[d]);
    for (uint32_t o = 0; o < i->operand_count; o++) put_operand(w, &i->operand[o], i->dim_count);
}

static void patch(writer *w, uint32_t at, uint64_t value, uint32_t bytes)
{
    if (w->failed) return;
    for (uint32_t b = 0; b < bytes; b++) w->bytes.items[at + b] = (uint8_t)(value >> 8 * b & 0xFF);
}

// Kernels of one step share their parameter rows; equal rows are stored once.
static uint32_t find_rows(const isa_program *program, const uint32_t *first, uint32_t kernel)
{
    const isa_kernel *k = &program->kernels.items[kernel];
    size_t bytes = (size_t)k->slot_count * ISA_CORES * sizeof *k->parameters;
    for (uint32_t other = kernel; other-- > 0 && kernel - other <= 8;) {
        const isa_kernel *o = &program->kernels.items[other];
        if (o->slot_count == k->slot_count &&
            (bytes == 0 || memcmp(o->parameters, k->parameters, bytes) == 0))
            return first[other];
    }
    return UINT32_MAX;
}

// The kernel table; the first parameter of every kernel to `first`.
static void put_kernel_table(writer *w, const isa_program *program, uint32_t *first)
{
    uint32_t parameters = 0;
    size_t string_bytes = 0;
    for (uint32_t k = 0; k < program->kernels.count; k++) {
        const isa_kernel *kernel = &program->kernels.items[k];
        first[k] = find_rows(program, first, k);
        if (first[k] == UINT32_MAX) {
            first[k] = parameters;
            parameters += kernel->slot_count * ISA_CORES;
        }
        put_fixed(w, kernel->active_cores, 4);
        put_fixed(w, kernel->slot_count, 4);
        put_fixed(w, first[k], 4);
        put_fixed(w, string_bytes, 4);
        string_bytes += strlen(kernel->name) + 1;
        put_fixed(w, string_bytes, 4);
        string_bytes += strlen(kernel->location) + 1;
        put_fixed(w, 0, 4);
    }
    patch(w, BINARY_AT_PARAMETERS, parameters, 4);
    patch(w, BINARY_AT_STRING_BYTES, string_bytes, 4);
}

static void put_parameters(writer *w, const isa_program *program, const uint32_t *first)
{
    uint32_t next = 0;
    for (uint32_t k = 0; k < program->kernels.count; k++) {
        const isa_kernel *kernel = &program->kernels.items[k];
        if (first[k] != next) continue;
        for (uint32_t p = 0; p < kernel->slot_count * ISA_CORES; p++)
            put_fixed(w, (uint64_t)kernel->parameters[p], 8);
        next += kernel->slot_count * ISA_CORES;
    }
}

static void put_string(writer *w, const char *string)
{
    for (; *string; string++) put_byte(w, (uint8_t)*string);
    put_byte(w, 0);
}

static spyre_status encode(arena *memory, const isa_program *program, uint8_t **out_bytes,
                           size_t *out_count)
{
    if (program->code.count > BINARY_MOST_INSTRUCTIONS)
        return status_new(SPYRE_UNSUPPORTED, "%u instructions; a program holds %d",
                          program->code.count, BINARY_MOST_INSTRUCTIONS);
    uint32_t *first = ARENA_NEW(memory, uint32_t, program->kernels.count);
    TRY_ALLOC(first);
    writer w = {.memory = memory};
    for (const char *m = BINARY_MAGIC; *m; m++) put_byte(&w, (uint8_t)*m);
    put_fixed(&w, BINARY_VERSION, 4);
    while (!w.failed && w.bytes.count < BINARY_HEADER_BYTES) put_byte(&w, 0);
    patch(&w, BINARY_AT_ARGS, program->arg_count, 4);
    patch(&w, BINARY_AT_KERNELS, program->kernels.count, 4);
    patch(&w, BINARY_AT_INSTRUCTIONS, program->code.count, 4);
    patch(&w, BINARY_AT_VALUES, program->value_count, 4);
    patch(&w, BINARY_AT_CORRECTIONS, program->corrections.count, 4);

    uint32_t patched = program->arg_count + program->value_count;
    for (uint32_t n = 0; n < patched; n++) put_fixed(&w, 0, 8);
    for (uint32_t a = 0; a < program->arg_count; a++)
        put_fixed(&w, program->arg_bytes ? (uint64_t)program->arg_bytes[a] : 0, 8);
    for (uint32_t c = 0; c < program->corrections.count; c++) {
        put_fixed(&w, program->corrections.items[c].number, 4);
        put_fixed(&w, program->corrections.items[c].value, 4);
    }
    put_kernel_table(&w, program, first);
    put_parameters(&w, program, first);
    uint32_t code_start = w.bytes.count;
    for (uint32_t n = 0; n < program->code.count; n++) put_instruction(&w, program->code.items[n]);
    patch(&w, BINARY_AT_CODE_BYTES, w.bytes.count - code_start, 4);
    for (uint32_t k = 0; k < program->kernels.count; k++) {
        put_string(&w, program->kernels.items[k].name);
        put_string(&w, program->kernels.items[k].location);
    }
    patch(&w, BINARY_AT_BYTES, w.bytes.count, 8);
    if (w.failed) return status_no_memory();
    patch(&w, BINARY_AT_CHECKSUM,
          binary_checksum(w.bytes.items, w.bytes.count, (size_t)patched * 8), 8);
    *out_bytes = w.bytes.items;
    *out_count = w.bytes.count;
    return NULL;
}

spyre_status isa_encode(arena *memory, const isa_program *program, uint8_t **out_bytes,
                        size_t *out_count)
{
    TRY(isa_verify(program));
    return encode(memory, program, out_bytes, out_count);
}

static spyre_status without_locations(arena *memory, const isa_program *program, isa_program *out)
{
    uint32_t count = program->kernels.count;
    *out = *program;
    TRY_NEW(memory, out->kernels.items, count);
    for (uint32_t k = 0; k < count; k++) {
        out->kernels.items[k] = program->kernels.items[k];
        out->kernels.items[k].location = "";
    }
    return NULL;
}

static spyre_status digest(arena *scratch, const isa_program *program, uint32_t *out_digest)
{
    isa_program bare;
    uint8_t *bytes;
    size_t count;
    TRY(without_locations(scratch, program, &bare));
    TRY(encode(scratch, &bare, &bytes, &count));
    *out_digest = (uint32_t)binary_checksum(bytes, count, 0);
    return NULL;
}

spyre_status isa_digest(const isa_program *program, uint32_t *out_digest)
{
    arena *scratch = arena_create();
    TRY_ALLOC(scratch);
    spyre_status status = digest(scratch, program, out_digest);
    arena_destroy(scratch);
    return status;
}
