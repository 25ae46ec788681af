// SPDX-License-Identifier: Apache-2.0
//
// Reads what isa_encode() wrote and nothing else: sizes must add up, numbers have one spelling,
// unused bits are zero, the checksum and the verifier have the last word. So no byte string makes
// the rest of the stack see a program that isa_encode() could not have written.
#include "isa/binary.h"

typedef struct {
    const uint8_t *bytes;
    size_t at, end;
    const char *broken; // the first rule broken, or null
} reader;

static uint64_t broken(reader *r, const char *rule)
{
    if (!r->broken) r->broken = rule;
    return 0;
}

static uint32_t get_byte(reader *r)
{
    if (r->at >= r->end) return (uint32_t)broken(r, "the code ends inside an instruction");
    return r->bytes[r->at++];
}

static uint64_t fixed_at(const uint8_t *bytes, uint32_t count)
{
    uint64_t value = 0;
    for (uint32_t b = 0; b < count; b++) value |= (uint64_t)bytes[b] << 8 * b;
    return value;
}

static uint64_t get_unsigned(reader *r, uint64_t most)
{
    uint64_t value = 0;
    for (uint32_t n = 0; n < BINARY_LONGEST_VARINT; n++) {
        uint32_t byte = get_byte(r);
        if (n == BINARY_LONGEST_VARINT - 1 && byte > 1) break;
        value |= (uint64_t)(byte & 0x7F) << 7 * n;
        if (byte & 0x80) continue;
        if (n > 0 && byte == 0) return broken(r, "a number has needless bytes");
        if (value > most) return broken(r, "a number is too large for its field");
        return value;
    }
    return broken(r, "a number has more than 64 bits");
}

static int64_t get_signed(reader *r)
{
    uint64_t folded = get_unsigned(r, UINT64_MAX);
    return (int64_t)(folded >> 1 ^ (folded & 1 ? UINT64_MAX : 0));
}

static void get_operand(reader *r, isa_operand *operand, uint32_t dim_count)
{
    uint32_t head = get_byte(r);
    operand->format = (spyre_format)(head & ~(uint32_t)(BINARY_IN_MEMORY | BINARY_NUMBER));
    if (operand->format >= SPYRE_FORMAT_COUNT) broken(r, "an operand has an unknown format");
    operand->space = head & BINARY_IN_MEMORY ? ISA_SPACE_MEMORY
                     : head & BINARY_NUMBER  ? ISA_SPACE_NUMBER
                                             : ISA_SPACE_LX;
    if ((head & BINARY_IN_MEMORY) && (head & BINARY_NUMBER))
        broken(r, "an operand is in memory and a number");
    if (operand->space == ISA_SPACE_MEMORY) operand->arg = (uint16_t)get_unsigned(r, UINT16_MAX);
    if (operand->space != ISA_SPACE_LX) {
        uint64_t slot = get_unsigned(r, ISA_NO_SLOT);
        operand->slot = slot ? (uint16_t)(slot - 1) : ISA_NO_SLOT;
    }
    operand->offset = get_signed(r);
    uint32_t loops = get_byte(r);
    if (loops > ISA_MAX_LOOPS) broken(r, "an operand has too many loop strides");
    for (uint32_t n = 0; n < loops && !r->broken; n++) operand->loop_stride[n] = get_signed(r);
    if (!r->broken && isa_loop_stride_count(operand) != loops)
        broken(r, "an operand's last loop stride is 0");
    for (uint32_t d = 0; d < dim_count && !r->broken; d++) operand->stride[d] = get_signed(r);
}

static void get_tile(reader *r, isa_instruction *i)
{
    uint32_t counts = get_byte(r);
    i->operand_count = (uint8_t)(counts >> 4);
    i->dim_count = (uint8_t)(counts & 0xF);
    if (i->operand_count > ISA_MAX_OPERANDS || i->dim_count > ISA_MAX_DIMS)
        broken(r, "an instruction has too many operands or dims");
    if (r->broken) return;
    for (uint32_t d = 0; d < i->dim_count; d++)
        i->extent[d] = (uint32_t)get_unsigned(r, UINT32_MAX);
    for (uint32_t o = 0; o < i->operand_count && !r->broken; o++)
        get_operand(r, &i->operand[o], i->dim_count);
}

static void get_instruction(reader *r, isa_instruction *i)
{
    uint32_t opcode = get_byte(r);
    if (opcode >= ISA_OPCODE_COUNT) broken(r, "an opcode is unknown");
    if (r->broken) return;
    i->opcode = (isa_opcode)opcode;
    const isa_info *info = isa_describe(i->opcode);
    isa_use uses = isa_describe(i->opcode)->uses;
    i->queue = info->queue;
    if (info->queue == ISA_QUEUE_ANY) {
        uint32_t queue = get_byte(r);
        if (queue >= ISA_QUEUE_COUNT) broken(r, "a queue is unknown");
        i->queue = (isa_queue)queue;
    }
    if (uses == ISA_USES_TOKEN || uses == ISA_USES_SLOT)
        i->token = (uint16_t)get_unsigned(r, UINT16_MAX);
    if (uses == ISA_USES_COUNT) i->count = (uint32_t)get_unsigned(r, UINT32_MAX);
    if (isa_uses_op(i->opcode)) {
        uint32_t op = get_byte(r);
        if (op >= OPFUNC_COUNT) broken(r, "an opfunc is unknown");
        if (r->broken) return;
        i->op = (opfunc)op;
    }
    for (uint32_t c = 0; c < isa_constant_count(i); c++) {
        uint32_t bits = get_byte(r);
        for (uint32_t b = 1; b < 4; b++) bits |= get_byte(r) << 8 * b;
        memcpy(&i->constant[c], &bits, sizeof bits);
    }
    if (isa_uses_rows(i->opcode)) {
        i->row_stride = get_signed(r);
        i->row_count = get_signed(r);
        i->row_lanes = (uint32_t)get_unsigned(r, UINT32_MAX);
    }
    if (*info->roles) get_tile(r, i);
}

#define MALFORMED(...) return status_new(SPYRE_INVALID_FORMAT, __VA_ARGS__)

typedef struct {
    const uint8_t *bytes;
    size_t count;
    uint32_t args, kernels, parameters, instructions, code_bytes, string_bytes;
    uint32_t values, corrections;
    const uint8_t *sizes, *correction_table, *kernel_table, *rows, *code;
    const char *strings;
} sections;

size_t isa_image_bytes(const uint8_t *bytes, size_t count)
{
    static const char magic[] = BINARY_MAGIC;
    if (count < sizeof magic - 1 || memcmp(bytes + BINARY_AT_MAGIC, magic, sizeof magic - 1) != 0)
        return 0;
    uint64_t stated = count < BINARY_HEADER_BYTES ? 0 : fixed_at(bytes + BINARY_AT_BYTES, 8);
    return stated >= BINARY_HEADER_BYTES && stated < count ? (size_t)stated : count;
}

static spyre_status find_sections(sections *s)
{
    if (s->count < BINARY_HEADER_BYTES)
        MALFORMED("program: %zu bytes, shorter than its header", s->count);
    if (!isa_image_bytes(s->bytes, s->count))
        MALFORMED("program: does not begin with " BINARY_MAGIC);
    uint64_t version = fixed_at(s->bytes + BINARY_AT_VERSION, 8);
    if (version != BINARY_VERSION)
        MALFORMED("program: version %llu, expected %d", (unsigned long long)version,
                  BINARY_VERSION);
    uint64_t bytes = fixed_at(s->bytes + BINARY_AT_BYTES, 8);
    if (bytes != s->count)
        MALFORMED("program: %zu bytes, the header says %llu", s->count, (unsigned long long)bytes);
    for (size_t n = BINARY_HEADER_USED; n < BINARY_HEADER_BYTES; n++)
        if (s->bytes[n]) MALFORMED("program: header byte %zu is not zero", n);
    s->args = (uint32_t)fixed_at(s->bytes + BINARY_AT_ARGS, 4);
    s->kernels = (uint32_t)fixed_at(s->bytes + BINARY_AT_KERNELS, 4);
    s->parameters = (uint32_t)fixed_at(s->bytes + BINARY_AT_PARAMETERS, 4);
    s->instructions = (uint32_t)fixed_at(s->bytes + BINARY_AT_INSTRUCTIONS, 4);
    s->code_bytes = (uint32_t)fixed_at(s->bytes + BINARY_AT_CODE_BYTES, 4);
    s->string_bytes = (uint32_t)fixed_at(s->bytes + BINARY_AT_STRING_BYTES, 4);
    s->values = (uint32_t)fixed_at(s->bytes + BINARY_AT_VALUES, 4);
    s->corrections = (uint32_t)fixed_at(s->bytes + BINARY_AT_CORRECTIONS, 4);
    uint64_t total = BINARY_HEADER_BYTES + (uint64_t)s->args * 16 +
                     ((uint64_t)s->values + s->corrections) * 8 +
                     (uint64_t)s->kernels * BINARY_KERNEL_BYTES + (uint64_t)s->parameters * 8 +
                     s->code_bytes + s->string_bytes;
    if (total != s->count)
        MALFORMED("program: the sections have %llu bytes, the file %zu", (unsigned long long)total,
                  s->count);
    if (s->instructions > BINARY_MOST_INSTRUCTIONS || s->instructions > s->code_bytes)
        MALFORMED("program: %u instructions in %u bytes", s->instructions, s->code_bytes);
    size_t patched = ((size_t)s->args + s->values) * 8;
    uint64_t checksum = binary_checksum(s->bytes, s->count, patched);
    if (checksum != fixed_at(s->bytes + BINARY_AT_CHECKSUM, 8))
        MALFORMED("program: wrong checksum");
    s->sizes = s->bytes + BINARY_HEADER_BYTES + patched;
    s->correction_table = s->sizes + (size_t)s->args * 8;
    s->kernel_table = s->correction_table + (size_t)s->corrections * 8;
    s->rows = s->kernel_table + (size_t)s->kernels * BINARY_KERNEL_BYTES;
    s->code = s->rows + (size_t)s->parameters * 8;
    s->strings = (const char *)s->code + s->code_bytes;
    if (s->string_bytes && s->strings[s->string_bytes - 1])
        MALFORMED("program: the last string has no end");
    return NULL;
}

static spyre_status get_kernel(const sections *s, const int64_t *parameters, uint32_t index,
                               isa_program *program)
{
    const uint8_t *entry = s->kernel_table + (size_t)index * BINARY_KERNEL_BYTES;
    uint32_t slots = (uint32_t)fixed_at(entry + 4, 4), first = (uint32_t)fixed_at(entry + 8, 4);
    uint32_t name = (uint32_t)fixed_at(entry + 12, 4), place = (uint32_t)fixed_at(entry + 16, 4);
    if (first > s->parameters || (uint64_t)slots * ISA_CORES > s->parameters - first)
        MALFORMED("program: kernel %u: parameters beyond the %u of the file", index, s->parameters);
    if (name >= s->string_bytes || place >= s->string_bytes || fixed_at(entry + 20, 4))
        MALFORMED("program: kernel %u: strings beyond the %u bytes of the file", index,
                  s->string_bytes);
    isa_kernel kernel = {
        .active_cores = (uint32_t)fixed_at(entry, 4),
        .slot_count = slots,
        .parameters = parameters + first,
        .name = arena_strdup(program->memory, s->strings + name),
        .location = arena_strdup(program->memory, s->strings + place),
    };
    TRY_ALLOC(kernel.name);
    TRY_ALLOC(kernel.location);
    return VEC_PUSH(program->memory, &program->kernels, kernel);
}

static spyre_status get_tables(const sections *s, isa_program *program)
{
    int64_t *sizes = ARENA_NEW(program->memory, int64_t, s->args);
    TRY_ALLOC(sizes);
    for (uint32_t a = 0; a < s->args; a++)
        sizes[a] = (int64_t)fixed_at(s->sizes + (size_t)a * 8, 8);
    program->arg_count = s->args;
    program->arg_bytes = sizes;
    program->value_count = s->values;
    for (uint32_t c = 0; c < s->corrections; c++) {
        const uint8_t *entry = s->correction_table + (size_t)c * 8;
        isa_correction correction = {(uint32_t)fixed_at(entry, 4),
                                     (uint32_t)fixed_at(entry + 4, 4)};
        TRY(VEC_PUSH(program->memory, &program->corrections, correction));
    }
    int64_t *parameters = ARENA_NEW(program->memory, int64_t, s->parameters);
    TRY_ALLOC(parameters);
    for (uint32_t p = 0; p < s->parameters; p++)
        parameters[p] = (int64_t)fixed_at(s->rows + (size_t)p * 8, 8);
    for (uint32_t k = 0; k < s->kernels; k++) TRY(get_kernel(s, parameters, k, program));
    return NULL;
}

spyre_status isa_decode(arena *memory, const uint8_t *bytes, size_t count,
                        isa_program **out_program)
{
    sections s = {.bytes = bytes, .count = count};
    TRY(find_sections(&s));
    isa_program *program = isa_program_create(memory);
    TRY_ALLOC(program);
    TRY(get_tables(&s, program));
    reader r = {.bytes = s.code, .end = s.code_bytes};
    for (uint32_t n = 0; n < s.instructions; n++) {
        isa_instruction i = {0};
        get_instruction(&r, &i);
        if (r.broken) MALFORMED("program: instruction %u: %s", n, r.broken);
        TRY(isa_append(program, &i));
    }
    if (r.at != r.end) MALFORMED("program: %zu bytes behind the last instruction", r.end - r.at);
    TRY(status_at(isa_verify(program), "program"));
    *out_program = program;
    return NULL;
}
