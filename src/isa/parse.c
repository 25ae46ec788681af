// SPDX-License-Identifier: Apache-2.0
//
// The assembler. A recursive-descent reader over the characters; indentation and line ends mean
// nothing, since every field says by its first character what it is: mnemonics are in lower case,
// formats in upper case, extents and strides stand in brackets. '#' begins a comment.
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "isa/fields.h"

typedef struct {
    arena *memory;
    const char *file_name;
    const char *at;
    uint32_t line;
    isa_program *program;
    VEC(int64_t) argument_bytes;
} parser;

enum { LONGEST_WORD = 31 };

SPYRE_MUST_CHECK static spyre_status refuse(const parser *p, const char *format, ...)
    SPYRE_PRINTF(2, 3);

static spyre_status refuse(const parser *p, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    spyre_status status = status_vnew(SPYRE_INVALID_FORMAT, format, values);
    va_end(values);
    return status_at(status, "%s:%u", p->file_name, p->line);
}

static void skip_blanks(parser *p)
{
    for (;; p->at++) {
        if (*p->at == '#')
            while (p->at[1] && p->at[1] != '\n') p->at++;
        else if (*p->at == '\n')
            p->line++;
        else if (*p->at != ' ' && *p->at != '\t' && *p->at != '\r')
            return;
    }
}

static bool word_character(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

// The word at the reading point into `out`, without taking it; "" when there is none.
static size_t peek_word(parser *p, char out[LONGEST_WORD + 1])
{
    skip_blanks(p);
    size_t length = 0;
    if (!isdigit((unsigned char)*p->at))
        while (word_character(p->at[length])) length++;
    if (length > LONGEST_WORD) length = 0;
    memcpy(out, p->at, length);
    out[length] = '\0';
    return length;
}

static bool take_word(parser *p, const char *word)
{
    char found[LONGEST_WORD + 1];
    size_t length = peek_word(p, found);
    if (length == 0 || strcmp(found, word) != 0) return false;
    p->at += length;
    return true;
}

static spyre_status get_word(parser *p, char out[LONGEST_WORD + 1], const char *what)
{
    size_t length = peek_word(p, out);
    if (length == 0) return refuse(p, "expected %s", what);
    p->at += length;
    return NULL;
}

static bool take(parser *p, char c)
{
    skip_blanks(p);
    if (*p->at != c || c == '\0') return false;
    p->at++;
    return true;
}

static spyre_status expect(parser *p, char c)
{
    if (!take(p, c)) return refuse(p, "expected '%c'", c);
    return NULL;
}

// Decimal or, after 0x, hexadecimal, with an optional sign.
static spyre_status get_integer(parser *p, int64_t least, int64_t most, int64_t *out_value)
{
    skip_blanks(p);
    const char *start = p->at;
    bool negative = *start == '-';
    if (*start == '-' || *start == '+') start++;
    bool hexadecimal = start[0] == '0' && start[1] == 'x';
    if (hexadecimal) start += 2;
    uint64_t magnitude = 0, base = hexadecimal ? 16 : 10;
    const char *end = start;
    for (; isalnum((unsigned char)*end); end++) {
        uint64_t digit = isdigit((unsigned char)*end) ? (uint64_t)(*end - '0')
                                                      : (uint64_t)(tolower(*end) - 'a' + 10);
        if (digit >= base) return refuse(p, "'%c' is no digit", *end);
        if (__builtin_mul_overflow(magnitude, base, &magnitude) ||
            __builtin_add_overflow(magnitude, digit, &magnitude))
            return refuse(p, "the number has more than 64 bits");
    }
    if (end == start) return refuse(p, "expected a number");
    if (magnitude > (uint64_t)INT64_MAX + negative)
        return refuse(p, "the number has more than 64 bits");
    int64_t value = negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
    if (value < least || value > most)
        return refuse(p, "%lld is not in [%lld, %lld]", (long long)value, (long long)least,
               (long long)most);
    p->at = end;
    *out_value = value;
    return NULL;
}

static spyre_status get_list(parser *p, int64_t least, int64_t most, uint32_t capacity,
                             int64_t *out_values, uint32_t *out_count)
{
    TRY(expect(p, '['));
    *out_count = 0;
    if (take(p, ']')) return NULL;
    do {
        if (*out_count == capacity) return refuse(p, "more than %u numbers in the list", capacity);
        TRY(get_integer(p, least, most, &out_values[(*out_count)++]));
    } while (take(p, ','));
    return expect(p, ']');
}

// A character of a string; \", \\ and \xHH stand for others.
static spyre_status get_character(parser *p, char *out)
{
    const char *at = p->at;
    if (*at == '\0' || *at == '\n') return refuse(p, "the string has no end");
    p->at++;
    *out = *at;
    if (*at != '\\') return NULL;
    p->at++;
    *out = at[1];
    if (at[1] == '"' || at[1] == '\\') return NULL;
    bool coded = at[1] == 'x' && isxdigit((unsigned char)at[2]) && isxdigit((unsigned char)at[3]);
    if (!coded) return refuse(p, "unknown escape in a string");
    const char digits[3] = {at[2], at[3], '\0'};
    p->at = at + 4;
    *out = (char)strtoul(digits, NULL, 16);
    return *out ? NULL : refuse(p, "\\x00 in a string");
}

static spyre_status get_string(parser *p, const char **out_string)
{
    text string = {0};
    spyre_status status = NULL;
    TRY(expect(p, '"'));
    while (*p->at != '"') {
        char c;
        TRY_DONE(get_character(p, &c));
        text_append_bytes(&string, &c, 1);
    }
    p->at++;
    *out_string = string.failed ? NULL : arena_strdup(p->memory, text_string(&string));
    if (!*out_string) status = status_no_memory();
done:
    text_free(&string);
    return status;
}

// "slot3", "arg0": the number behind the prefix.
static spyre_status get_numbered(parser *p, const char *prefix, int64_t most, uint16_t *out_number)
{
    char word[LONGEST_WORD + 1];
    size_t length = peek_word(p, word), prefix_length = strlen(prefix);
    if (length <= prefix_length || strncmp(word, prefix, prefix_length) != 0)
        return refuse(p, "expected %s<number>", prefix);
    p->at += prefix_length;
    int64_t number;
    TRY(get_integer(p, 0, most, &number));
    *out_number = (uint16_t)number;
    return NULL;
}

static spyre_status get_operand(parser *p, isa_instruction *i)
{
    if (i->operand_count == ISA_MAX_OPERANDS)
        return refuse(p, "more than %d operands", ISA_MAX_OPERANDS);
    isa_operand *operand = &i->operand[i->operand_count++];
    char word[LONGEST_WORD + 1];
    TRY(get_word(p, word, "a format"));
    operand->format = spyre_format_named(word);
    if (operand->format == SPYRE_FORMAT_INVALID) return refuse(p, "%s is no format", word);
    operand->space = ISA_SPACE_LX;
    if (!take_word(p, "lx")) {
        operand->space = ISA_SPACE_MEMORY;
        operand->slot = ISA_NO_SLOT;
        TRY(get_numbered(p, "arg", UINT16_MAX, &operand->arg));
        skip_blanks(p);
        if (p->at[0] == '+' && p->at[1] == 's') {
            p->at++;
            TRY(get_numbered(p, "slot", ISA_NO_SLOT - 1, &operand->slot));
        }
    }
    TRY(get_integer(p, INT64_MIN, INT64_MAX, &operand->offset));
    uint32_t count;
    TRY(get_list(p, INT64_MIN, INT64_MAX, ISA_MAX_DIMS, operand->stride, &count));
    if (count != i->dim_count) return refuse(p, "%u strides for %u extents", count, i->dim_count);
    if (!take_word(p, "loops")) return NULL;
    return get_list(p, INT64_MIN, INT64_MAX, ISA_MAX_LOOPS, operand->loop_stride, &count);
}

static spyre_status get_constants(parser *p, isa_instruction *i)
{
    uint32_t count = isa_constant_count(i);
    if (count == 0) return NULL;
    TRY(expect(p, '('));
    for (uint32_t c = 0; c < count; c++) {
        if (c) TRY(expect(p, ','));
        skip_blanks(p);
        char *end;
        i->constant[c] = strtof(p->at, &end);
        if (end == p->at) return refuse(p, "expected a number");
        p->at = end;
    }
    return expect(p, ')');
}

static spyre_status get_opcode(parser *p, isa_instruction *i)
{
    char word[LONGEST_WORD + 1];
    TRY(get_word(p, word, "an instruction"));
    for (int opcode = 0; opcode < ISA_OPCODE_COUNT; opcode++) {
        if (strcmp(isa_describe((isa_opcode)opcode)->mnemonic, word) != 0) continue;
        i->opcode = (isa_opcode)opcode;
        i->queue = isa_describe(i->opcode)->queue;
        return NULL;
    }
    return refuse(p, "%s is no instruction", word);
}

static spyre_status get_queue(parser *p, isa_instruction *i)
{
    char word[LONGEST_WORD + 1];
    TRY(get_word(p, word, "a queue"));
    for (int queue = 0; queue < ISA_QUEUE_COUNT; queue++) {
        if (strcmp(isa_queue_name((isa_queue)queue), word) != 0) continue;
        i->queue = (isa_queue)queue;
        return NULL;
    }
    return refuse(p, "%s is no queue", word);
}

static spyre_status get_op(parser *p, isa_instruction *i)
{
    char word[LONGEST_WORD + 1];
    TRY(get_word(p, word, "an opfunc"));
    i->op = opfunc_named(word);
    if (i->op == OPFUNC_NONE || strcmp(opfunc_describe(i->op)->name, word) != 0)
        return refuse(p, "%s is no opfunc", word);
    return NULL;
}

static spyre_status get_tile(parser *p, isa_instruction *i)
{
    int64_t extent[ISA_MAX_DIMS];
    uint32_t count;
    TRY(get_list(p, 1, UINT32_MAX, ISA_MAX_DIMS, extent, &count));
    i->dim_count = (uint8_t)count;
    for (uint32_t d = 0; d < count; d++) i->extent[d] = (uint32_t)extent[d];
    for (;;) {
        char word[LONGEST_WORD + 1];
        if (peek_word(p, word) == 0 || !isupper((unsigned char)word[0])) return NULL;
        TRY(get_operand(p, i));
    }
}

static spyre_status get_instruction(parser *p)
{
    isa_instruction i = {0};
    int64_t value;
    TRY(get_opcode(p, &i));
    isa_use uses = isa_describe(i.opcode)->uses;
    if (i.queue == ISA_QUEUE_ANY) TRY(get_queue(p, &i));
    if (uses == ISA_USES_TOKEN) {
        TRY(get_integer(p, 0, ISA_MAX_TOKENS - 1, &value));
        i.token = (uint16_t)value;
    }
    if (uses == ISA_USES_SLOT) TRY(get_numbered(p, "slot", UINT16_MAX, &i.token));
    if (uses == ISA_USES_COUNT) {
        TRY(get_integer(p, 0, UINT32_MAX, &value));
        i.count = (uint32_t)value;
    }
    if (uses == ISA_USES_OP) TRY(get_op(p, &i));
    TRY(get_constants(p, &i));
    if (uses == ISA_USES_ROWS) {
        if (!take_word(p, "rows")) return refuse(p, "expected rows");
        TRY(get_integer(p, 1, INT64_MAX, &i.row_count));
        if (!take_word(p, "stride")) return refuse(p, "expected stride");
        TRY(get_integer(p, INT64_MIN, INT64_MAX, &i.row_stride));
        if (take_word(p, "lanes")) {
            TRY(get_integer(p, 1, SPYRE_STICK_BYTES, &value));
            i.row_lanes = (uint32_t)value;
        }
    }
    if (*isa_describe(i.opcode)->roles) TRY(get_tile(p, &i));
    return isa_append(p->program, &i);
}

static spyre_status get_correction(parser *p)
{
    int64_t number, value;
    TRY(get_integer(p, 0, UINT32_MAX, &number));
    if (!take_word(p, "value")) return refuse(p, "expected value");
    TRY(get_integer(p, 0, UINT32_MAX, &value));
    isa_correction correction = {(uint32_t)number, (uint32_t)value};
    return VEC_PUSH(p->memory, &p->program->corrections, correction);
}

static spyre_status get_corrections(parser *p)
{
    int64_t count;
    if (!take_word(p, "values")) return NULL;
    TRY(get_integer(p, 1, UINT16_MAX, &count));
    p->program->value_count = (uint32_t)count;
    while (take_word(p, "correct")) TRY(get_correction(p));
    return NULL;
}

static spyre_status get_argument(parser *p)
{
    int64_t index, size;
    TRY(get_integer(p, 0, UINT16_MAX, &index));
    if (index != p->argument_bytes.count)
        return refuse(p, "expected argument %u", p->argument_bytes.count);
    if (!take_word(p, "bytes")) return refuse(p, "expected bytes");
    TRY(get_integer(p, 0, INT64_MAX, &size));
    return VEC_PUSH(p->memory, &p->argument_bytes, size);
}

static spyre_status get_kernel(parser *p)
{
    isa_kernel kernel = {.location = ""};
    int64_t value, core;
    TRY(get_integer(p, 0, UINT32_MAX, &value));
    if (value != p->program->kernels.count)
        return refuse(p, "expected kernel %u", p->program->kernels.count);
    TRY(get_string(p, &kernel.name));
    if (take_word(p, "at")) TRY(get_string(p, &kernel.location));
    if (!take_word(p, "cores")) return refuse(p, "expected cores");
    TRY(get_integer(p, 0, UINT32_MAX, &value));
    kernel.active_cores = (uint32_t)value;
    if (!take_word(p, "slots")) return refuse(p, "expected slots");
    TRY(get_integer(p, 0, ISA_NO_SLOT - 1, &value));
    kernel.slot_count = (uint32_t)value;
    int64_t *parameters = ARENA_NEW(p->memory, int64_t, ISA_CORES * (size_t)kernel.slot_count);
    TRY_ALLOC(parameters);
    while (take_word(p, "core")) {
        TRY(get_integer(p, 0, ISA_CORES - 1, &core));
        TRY(expect(p, ':'));
        for (uint32_t s = 0; s < kernel.slot_count; s++)
            TRY(get_integer(p, INT64_MIN, INT64_MAX,
                            &parameters[(size_t)core * kernel.slot_count + s]));
    }
    kernel.parameters = parameters;
    return VEC_PUSH(p->memory, &p->program->kernels, kernel);
}

spyre_status isa_parse(arena *memory, const char *source, const char *file_name,
                       isa_program **out_program)
{
    parser p = {.memory = memory, .file_name = file_name, .at = source, .line = 1};
    p.program = isa_program_create(memory);
    TRY_ALLOC(p.program);
    if (!take_word(&p, "program")) return refuse(&p, "expected program");
    while (take_word(&p, "argument")) TRY(get_argument(&p));
    p.program->arg_bytes = p.argument_bytes.items;
    p.program->arg_count = p.argument_bytes.count;
    TRY(get_corrections(&p));
    while (take_word(&p, "kernel")) TRY(get_kernel(&p));
    if (!take_word(&p, "code")) return refuse(&p, "expected argument, kernel or code");
    for (skip_blanks(&p); *p.at; skip_blanks(&p)) TRY(get_instruction(&p));
    TRY(status_at(isa_verify(p.program), "%s", file_name));
    *out_program = p.program;
    return NULL;
}
