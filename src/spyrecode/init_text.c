// SPDX-License-Identifier: Apache-2.0
//
// init.txt, the form that torch-spyre's runtime loads when it is not asked for SpyreCode
// (torch_spyre/csrc/spyre_kernel.cpp): lines of 256 hex digits, 128 bytes with the last one first;
// lines that begin with '#' are comments. One comment of ours has what spyrecode.json says, so that
// the file alone can be launched:
//
//     # spyrecode {"JobPreparationPlan": .., "JobExecPlan": ..}
//     00000000..4f44
#include <string.h>

#include "base/file.h"
#include "spyrecode/model.h"

enum { LINE_BYTES = 128, LINE_DIGITS = 2 * LINE_BYTES };
#define MARK "# spyrecode "
#define LIMIT_BYTES ((size_t)1 << 31)

const char *spyrecode_text_path(arena *memory, const char *directory)
{
    size_t end = strlen(directory);
    while (end > 1 && directory[end - 1] == '/') end--;
    size_t begin = end;
    while (begin > 0 && directory[begin - 1] != '/') begin--;
    return arena_printf(memory, "%.*s/loadprogram_to_device/%.*s-SenProgSend/init.txt", (int)end,
                        directory, (int)(end - begin), directory + begin);
}

// --- Writing

static void append_line(const uint8_t *bytes, size_t count, text *out)
{
    static const char digits[] = "0123456789abcdef";
    char line[LINE_DIGITS + 1];
    for (size_t n = 0; n < LINE_BYTES; n++) {
        uint8_t byte = n < count ? bytes[n] : 0;
        char *at = line + LINE_DIGITS - 2 * (n + 1);
        at[0] = digits[byte >> 4];
        at[1] = digits[byte & 15];
    }
    line[LINE_DIGITS] = '\n';
    text_append_bytes(out, line, sizeof line);
}

spyre_status spyrecode_print_text(const spyrecode *code, text *out)
{
    TRY(spyrecode_verify(code));
    if (code->transfers.count != 1)
        return status_new(SPYRE_UNSUPPORTED, "init.txt has one transfer, the code %u",
                          code->transfers.count);
    const spyrecode_transfer *transfer = &code->transfers.items[0];
    text_append(out, MARK);
    TRY(spyrecode_print(code, 0, out));
    text_append(out, "\n");
    for (uint64_t at = 0; at < transfer->byte_count; at += LINE_BYTES)
        append_line(transfer->bytes + at, (size_t)(transfer->byte_count - at), out);
    return text_status(out);
}

spyre_status spyrecode_write_text(const spyrecode *code, const char *path)
{
    text out = {0};
    spyre_status status = spyrecode_print_text(code, &out);
    if (!status) status = file_make_directories_above(path);
    if (!status) status = file_write(path, text_string(&out), out.length);
    text_free(&out);
    return status;
}

// --- Reading

typedef struct {
    arena *memory;
    const char *name;
    uint32_t line;
    uint8_t *bytes;                     // decoded so far
    size_t count;
    spyrecode *code;                    // of the comment that has it, or null
} reader;

static int digit_of(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static spyre_status take_digits(reader *r, const char *line, size_t length)
{
    if (length != LINE_DIGITS)
        return status_new(SPYRE_INVALID_FORMAT, "%s:%u: %zu characters, a line of bytes has %d",
                          r->name, r->line, length, LINE_DIGITS);
    for (size_t n = 0; n < LINE_BYTES; n++) {
        const char *at = line + LINE_DIGITS - 2 * (n + 1);
        int high = digit_of(at[0]), low = digit_of(at[1]);
        if (high < 0 || low < 0)
            return status_new(SPYRE_INVALID_FORMAT, "%s:%u:%zu: '%.2s' is no hexadecimal number",
                              r->name, r->line, (size_t)(at - line) + 1, at);
        r->bytes[r->count++] = (uint8_t)(high << 4 | low);
    }
    return NULL;
}

static spyre_status take_line(reader *r, const char *line, size_t length)
{
    const size_t mark = sizeof MARK - 1;
    r->line++;
    if (length && line[length - 1] == '\r') length--;
    if (!length) return NULL;
    if (line[0] != '#') return take_digits(r, line, length);
    if (length < mark || memcmp(line, MARK, mark) != 0) return NULL;
    if (r->code)
        return status_new(SPYRE_INVALID_FORMAT, "%s:%u: a second plan", r->name, r->line);
    const char *place = arena_printf(r->memory, "%s:%u", r->name, r->line);
    TRY_ALLOC(place);
    return spyrecode_parse(r->memory, place, line + mark, length - mark, &r->code);
}

static spyre_status take_bytes(reader *r)
{
    if (!r->count) return status_new(SPYRE_INVALID_FORMAT, "%s: no line of bytes", r->name);
    if (!r->code)
        return status_new(SPYRE_UNSUPPORTED, "%s: code of another back-end: no line begins with "
                          "'%s'", r->name, MARK);
    if (r->code->transfers.count != 1)
        return status_new(SPYRE_INVALID_FORMAT, "%s: %u transfers, the file has one", r->name,
                          r->code->transfers.count);
    spyrecode_transfer *transfer = &r->code->transfers.items[0];
    uint64_t lines = (transfer->byte_count + LINE_BYTES - 1) / LINE_BYTES;
    if (r->count != lines * LINE_BYTES)
        return status_new(SPYRE_INVALID_FORMAT, "%s: %zu bytes, its plan says %llu", r->name,
                          r->count, (unsigned long long)transfer->byte_count);
    transfer->bytes = r->bytes;
    return NULL;
}

spyre_status spyrecode_parse_text(arena *memory, const char *name, const char *source,
                                  size_t length, spyrecode **out_code)
{
    reader r = {.memory = memory, .name = name};
    r.bytes = arena_alloc(memory, length / 2 + LINE_BYTES);
    TRY_ALLOC(r.bytes);
    for (size_t at = 0; at < length;) {
        const char *end = memchr(source + at, '\n', length - at);
        size_t line = end ? (size_t)(end - source) - at : length - at;
        TRY(take_line(&r, source + at, line));
        at += line + 1;
    }
    TRY(take_bytes(&r));
    *out_code = r.code;
    return NULL;
}

spyre_status spyrecode_read_text(arena *memory, const char *path, spyrecode **out_code)
{
    char *source;
    size_t length;
    arena *file = arena_create();               // not needed beyond the parsing
    TRY_ALLOC(file);
    spyre_status status = file_read(file, path, LIMIT_BYTES, &source, &length);
    if (!status) status = spyrecode_parse_text(memory, path, source, length, out_code);
    arena_destroy(file);
    return status;
}
