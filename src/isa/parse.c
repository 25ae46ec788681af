// SPDX-License-Identifier: Apache-2.0
//
// The assembler. A recursive-descent reader over the characters; indentation and line ends mean
// nothing, since every field says by its first character what it is: mnemonics are in lower case,
// formats in upper case, extents and strides stand in brackets. '#' begins a comment.
#include <ctype.h>
#include <string.h>

#include "base/scanner.h"
#include "isa/field_counts.h"

typedef struct {
    scanner in;
    isa_program *program;
    VEC(int64_t) argument_bytes;
} parser;

static spyre_status get_list(parser *p, uint32_t capacity, int64_t *out_values,
                             uint32_t *out_count)
{
    TRY(scan_expect(&p->in, "["));
    *out_count = 0;
    if (scan_accept(&p->in, "]")) return NULL;
    do {
        if (*out_count == capacity) return scan_error(&p->in, "more than %u numbers", capacity);
        TRY(scan_int(&p->in, &out_values[(*out_count)++]));
    } while (scan_accept(&p->in, ","));
    return scan_expect(&p->in, "]");
}

static spyre_status expect_word(parser *p, const char *word)
{
    if (scan_accept_word(&p->in, word)) return NULL;
    return scan_error(&p->in, "expected %s", word);
}

// "slot3", "arg0": the number behind the prefix.
static spyre_status get_numbered(parser *p, const char *prefix, int64_t most, uint16_t *out_number)
{
    size_t length, prefix_length = strlen(prefix);
    const char *word = scan_peek_word(&p->in, &length);
    if (length <= prefix_length || strncmp(word, prefix, prefix_length) != 0)
        return scan_error(&p->in, "expected %s<number>", prefix);
    p->in.at += prefix_length;
    int64_t number;
    TRY(scan_int_within(&p->in, prefix, 0, most, &number));
    *out_number = (uint16_t)number;
    return NULL;
}

static spyre_status get_operand(parser *p, isa_instruction *i)
{
    if (i->operand_count == ISA_MAX_OPERANDS)
        return scan_error(&p->in, "more than %d operands", ISA_MAX_OPERANDS);
    isa_operand *operand = &i->operand[i->operand_count++];
    const char *word;
    const scanner before = p->in;
    TRY(scan_name(&p->in, "a format", &word));
    operand->format = spyre_format_named(word);
    if (operand->format == SPYRE_FORMAT_INVALID)
        return scan_error(&before, "%s is no format", word);
    operand->space = ISA_SPACE_LX;
    if (!scan_accept_word(&p->in, "lx")) {
        bool number = scan_accept_word(&p->in, "number");
        operand->space = number ? ISA_SPACE_NUMBER : ISA_SPACE_MEMORY;
        operand->slot = ISA_NO_SLOT;
        if (!number) TRY(get_numbered(p, "arg", UINT16_MAX, &operand->arg));
        if (p->in.at[0] == '+' && p->in.at[1] == 's') {
            p->in.at++;
            TRY(get_numbered(p, "slot", ISA_NO_SLOT - 1, &operand->slot));
        }
    }
    TRY(scan_int(&p->in, &operand->offset));
    uint32_t count;
    TRY(get_list(p, ISA_MAX_DIMS, operand->stride, &count));
    if (count != i->dim_count)
        return scan_error(&p->in, "%u strides for %u extents", count, i->dim_count);
    if (!scan_accept_word(&p->in, "loops")) return NULL;
    return get_list(p, ISA_MAX_LOOPS, operand->loop_stride, &count);
}

static spyre_status get_constants(parser *p, isa_instruction *i)
{
    uint32_t count = isa_constant_count(i);
    if (count == 0) return NULL;
    TRY(scan_expect(&p->in, "("));
    for (uint32_t c = 0; c < count; c++) {
        double value;
        if (c) TRY(scan_expect(&p->in, ","));
        TRY(scan_real(&p->in, &value));
        i->constant[c] = (float)value;
    }
    return scan_expect(&p->in, ")");
}

static spyre_status get_opcode(parser *p, isa_instruction *i)
{
    const char *word;
    const scanner before = p->in;
    TRY(scan_name(&p->in, "an instruction", &word));
    for (int opcode = 0; opcode < ISA_OPCODE_COUNT; opcode++) {
        if (strcmp(isa_describe((isa_opcode)opcode)->mnemonic, word) != 0) continue;
        i->opcode = (isa_opcode)opcode;
        i->queue = isa_describe(i->opcode)->queue;
        return NULL;
    }
    return scan_error(&before, "%s is no instruction", word);
}

static spyre_status get_queue(parser *p, isa_instruction *i)
{
    for (int queue = 0; queue < ISA_QUEUE_COUNT; queue++) {
        i->queue = (isa_queue)queue;
        if (scan_accept_word(&p->in, isa_queue_name(i->queue))) return NULL;
    }
    return scan_error(&p->in, "expected a queue");
}

static spyre_status get_op(parser *p, isa_instruction *i)
{
    const char *word;
    TRY(scan_name(&p->in, "an opfunc", &word));
    i->op = opfunc_named(word);
    if (i->op == OPFUNC_NONE || strcmp(opfunc_describe(i->op)->name, word) != 0)
        return scan_error(&p->in, "%s is no opfunc", word);
    return NULL;
}

static spyre_status get_tile(parser *p, isa_instruction *i)
{
    int64_t extent[ISA_MAX_DIMS];
    uint32_t count;
    TRY(get_list(p, ISA_MAX_DIMS, extent, &count));
    i->dim_count = (uint8_t)count;
    for (uint32_t d = 0; d < count; d++) {
        if (extent[d] < 1 || extent[d] > UINT32_MAX)
            return scan_error(&p->in, "an extent is %lld", (long long)extent[d]);
        i->extent[d] = (uint32_t)extent[d];
    }
    size_t length;
    while (isupper((unsigned char)*scan_peek_word(&p->in, &length))) TRY(get_operand(p, i));
    return NULL;
}

static spyre_status get_instruction(parser *p)
{
    isa_instruction i = {0};
    int64_t value;
    TRY(get_opcode(p, &i));
    isa_use uses = isa_describe(i.opcode)->uses;
    if (i.queue == ISA_QUEUE_ANY) TRY(get_queue(p, &i));
    if (uses == ISA_USES_TOKEN) {
        TRY(scan_int_within(&p->in, "a token", 0, ISA_MAX_TOKENS - 1, &value));
        i.token = (uint16_t)value;
    }
    if (uses == ISA_USES_SLOT) TRY(get_numbered(p, "slot", UINT16_MAX, &i.token));
    if (uses == ISA_USES_COUNT) {
        TRY(scan_int_within(&p->in, "a number", 0, UINT32_MAX, &value));
        i.count = (uint32_t)value;
    }
    if (isa_uses_op(i.opcode)) TRY(get_op(p, &i));
    TRY(get_constants(p, &i));
    if (isa_uses_rows(i.opcode)) {
        TRY(expect_word(p, "rows"));
        TRY(scan_int_within(&p->in, "rows", 1, INT64_MAX, &i.row_count));
        TRY(expect_word(p, "stride"));
        TRY(scan_int(&p->in, &i.row_stride));
        if (scan_accept_word(&p->in, "lanes")) {
            TRY(scan_int_within(&p->in, "lanes", 1, SPYRE_STICK_BYTES, &value));
            i.row_lanes = (uint32_t)value;
        }
    }
    if (*isa_describe(i.opcode)->roles) TRY(get_tile(p, &i));
    return isa_append(p->program, &i);
}

static spyre_status get_correction(parser *p)
{
    int64_t number, value;
    TRY(scan_int_within(&p->in, "a number", 0, UINT32_MAX, &number));
    TRY(expect_word(p, "value"));
    TRY(scan_int_within(&p->in, "a number", 0, UINT32_MAX, &value));
    isa_correction correction = {(uint32_t)number, (uint32_t)value};
    return VEC_PUSH(p->in.memory, &p->program->corrections, correction);
}

static spyre_status get_corrections(parser *p)
{
    int64_t count;
    if (!scan_accept_word(&p->in, "values")) return NULL;
    TRY(scan_int_within(&p->in, "values", 1, UINT16_MAX, &count));
    p->program->value_count = (uint32_t)count;
    while (scan_accept_word(&p->in, "correct")) TRY(get_correction(p));
    return NULL;
}

static spyre_status get_argument(parser *p)
{
    int64_t index, size;
    TRY(scan_int_within(&p->in, "a number", 0, UINT16_MAX, &index));
    if (index != p->argument_bytes.count)
        return scan_error(&p->in, "expected argument %u", p->argument_bytes.count);
    TRY(expect_word(p, "bytes"));
    TRY(scan_int_within(&p->in, "bytes", 0, INT64_MAX, &size));
    return VEC_PUSH(p->in.memory, &p->argument_bytes, size);
}

static spyre_status get_kernel(parser *p)
{
    isa_kernel kernel = {.location = ""};
    int64_t value, core;
    TRY(scan_int_within(&p->in, "a number", 0, UINT32_MAX, &value));
    if (value != p->program->kernels.count)
        return scan_error(&p->in, "expected kernel %u", p->program->kernels.count);
    TRY(scan_string(&p->in, &kernel.name));
    if (scan_accept_word(&p->in, "at")) TRY(scan_string(&p->in, &kernel.location));
    TRY(expect_word(p, "cores"));
    TRY(scan_int_within(&p->in, "a number", 0, UINT32_MAX, &value));
    kernel.active_cores = (uint32_t)value;
    TRY(expect_word(p, "slots"));
    TRY(scan_int_within(&p->in, "slots", 0, ISA_NO_SLOT - 1, &value));
    kernel.slot_count = (uint32_t)value;
    int64_t *parameters = ARENA_NEW(p->in.memory, int64_t, ISA_CORES * (size_t)kernel.slot_count);
    TRY_ALLOC(parameters);
    while (scan_accept_word(&p->in, "core")) {
        TRY(scan_int_within(&p->in, "a core", 0, ISA_CORES - 1, &core));
        TRY(scan_expect(&p->in, ":"));
        for (uint32_t s = 0; s < kernel.slot_count; s++)
            TRY(scan_int(&p->in, &parameters[(size_t)core * kernel.slot_count + s]));
    }
    kernel.parameters = parameters;
    return VEC_PUSH(p->in.memory, &p->program->kernels, kernel);
}

spyre_status isa_parse(arena *memory, const char *source, const char *file_name,
                       isa_program **out_program)
{
    parser p = {.in = scan_start(memory, source, file_name),
                .program = isa_program_create(memory)};
    p.in.free_lines = true;
    TRY_ALLOC(p.program);
    TRY(expect_word(&p, "program"));
    while (scan_accept_word(&p.in, "argument")) TRY(get_argument(&p));
    p.program->arg_bytes = p.argument_bytes.items;
    p.program->arg_count = p.argument_bytes.count;
    TRY(get_corrections(&p));
    while (scan_accept_word(&p.in, "kernel")) TRY(get_kernel(&p));
    if (!scan_accept_word(&p.in, "code"))
        return scan_error(&p.in, "expected argument, kernel or code");
    while (scan_next_line(&p.in)) TRY(get_instruction(&p));
    TRY(status_at(isa_verify(p.program), "%s", file_name));
    *out_program = p.program;
    return NULL;
}
