// SPDX-License-Identifier: Apache-2.0
#include "runtime/launch_record_file.h"

#include <string.h>

#include <xxhash.h>

#include "base/file.h"

static const char MAGIC[8] = {'S', 'P', 'Y', 'R', 'L', 'N', 'C', 'H'};
enum { VERSION = 1, HEADER_BYTES = 24, MOST_WINDOWS = 1024 };
enum { FORGETS_LX = 1, FAULTED = 2 };

// --- Writing

static void put(text *to, uint64_t value)
{
    char bytes[8];
    for (int i = 0; i < 8; i++) bytes[i] = (char)(value >> 8 * i);
    text_append_bytes(to, bytes, sizeof bytes);
}

static void put_bytes(text *to, const void *bytes, size_t count)
{
    put(to, count);
    text_append_bytes(to, bytes, count);
}

static void put_chunks(text *to, const launch_chunks *chunks, uint64_t bytes)
{
    put(to, chunks->count);
    for (uint32_t i = 0; i < chunks->count; i++) {
        const launch_chunk *chunk = &chunks->items[i];
        put(to, chunk->number);
        text_append_bytes(to, (const char *)chunk->bytes, launch_chunk_bytes(bytes, chunk->number));
    }
}

static void put_body(text *to, const launch_record *record)
{
    put_bytes(to, record->name, strlen(record->name));
    put_bytes(to, record->image, record->image_bytes);
    put(to, (record->forgets_lx ? FORGETS_LX : 0) | (record->faulted ? FAULTED : 0));
    put(to, record->windows.count);
    for (uint32_t w = 0; w < record->windows.count; w++) {
        const launch_window *window = &record->windows.items[w];
        put(to, window->base);
        put(to, window->bytes);
        put(to, window->kept);
        put_chunks(to, &window->before, window->bytes);
        put_chunks(to, &window->changed, window->bytes);
    }
    for (uint32_t core = 0; core < ISA_CORES; core++)
        put_chunks(to, &record->lx[core], ISA_LX_BYTES);
}

void launch_record_file_seal(text *file, const void *body, size_t count)
{
    text_append_bytes(file, MAGIC, sizeof MAGIC);
    put(file, VERSION);
    put(file, XXH3_64bits(body, count));
    text_append_bytes(file, body, count);
}

spyre_status launch_record_file_write(const launch_record *record, const char *path)
{
    text body = {0}, file = {0};
    put_body(&body, record);
    launch_record_file_seal(&file, text_string(&body), body.length);
    spyre_status status = text_status(&body);
    if (!status) status = text_status(&file);
    if (!status) status = file_write(path, text_string(&file), file.length);
    text_free(&file);
    text_free(&body);
    return status;
}

// --- Reading

typedef struct {
    arena *memory;
    const uint8_t *bytes;
    size_t count, at;
} reader;

static spyre_status take(reader *r, uint64_t count, const uint8_t **out)
{
    if (count > r->count - r->at)
        return status_new(SPYRE_INVALID_FORMAT, "byte %zu: %llu bytes are wanted, %zu are left",
                          r->at, (unsigned long long)count, r->count - r->at);
    *out = r->bytes + r->at;
    r->at += (size_t)count;
    return NULL;
}

static spyre_status take_number(reader *r, const char *what, uint64_t most, uint64_t *out)
{
    const uint8_t *bytes = NULL;
    size_t place = r->at;
    TRY(status_at(take(r, 8, &bytes), "%s", what));
    *out = 0;
    for (int i = 0; i < 8; i++) *out |= (uint64_t)bytes[i] << 8 * i;
    if (*out <= most) return NULL;
    return status_new(SPYRE_INVALID_FORMAT, "byte %zu: %s is %llu, at most %llu is allowed", place,
                      what, (unsigned long long)*out, (unsigned long long)most);
}

static spyre_status take_chunk(reader *r, uint64_t bytes, launch_chunks *out)
{
    launch_chunk chunk;
    TRY(take_number(r, "the number of a chunk", launch_chunk_count(bytes) - 1, &chunk.number));
    if (out->count && out->items[out->count - 1].number >= chunk.number)
        return status_new(SPYRE_INVALID_FORMAT, "byte %zu: chunk %llu behind chunk %llu", r->at - 8,
                          (unsigned long long)chunk.number,
                          (unsigned long long)out->items[out->count - 1].number);
    TRY(take(r, launch_chunk_bytes(bytes, chunk.number), &chunk.bytes));
    return VEC_PUSH(r->memory, out, chunk);
}

static spyre_status take_listed(reader *r, uint64_t bytes, launch_chunks *out)
{
    uint64_t count;
    TRY(take_number(r, "the number of chunks", launch_chunk_count(bytes), &count));
    for (uint64_t i = 0; i < count; i++) TRY(take_chunk(r, bytes, out));
    return NULL;
}

static spyre_status take_window(reader *r, uint64_t left, launch_window *out)
{
    uint64_t kept;
    TRY(take_number(r, "an address", ISA_SEGMENTS * ISA_SEGMENT_BYTES - 1, &out->base));
    TRY(take_number(r, "the bytes of a window",
                    left < ISA_SEGMENT_BYTES ? left : ISA_SEGMENT_BYTES, &out->bytes));
    TRY(take_number(r, "a flag", 1, &kept));
    out->kept = kept != 0;
    TRY(take_listed(r, out->bytes, &out->before));
    return take_listed(r, out->bytes, &out->changed);
}

static spyre_status take_body(reader *r, launch_record *out)
{
    uint64_t length = 0, flags = 0, windows = 0;
    const uint8_t *name = NULL;
    TRY(take_number(r, "the length of the name", 4096, &length));
    TRY(take(r, length, &name));
    if (length && memchr(name, 0, length))
        return status_new(SPYRE_INVALID_FORMAT, "byte %zu: the name has a zero byte",
                          r->at - (size_t)length);
    out->name = arena_printf(r->memory, "%.*s", (int)length, (const char *)name);
    TRY_ALLOC(out->name);
    TRY(take_number(r, "the length of the program", r->count, &length));
    TRY(take(r, length, &out->image));
    out->image_bytes = (size_t)length;
    TRY(take_number(r, "the flags", FORGETS_LX | FAULTED, &flags));
    out->forgets_lx = (flags & FORGETS_LX) != 0;
    out->faulted = (flags & FAULTED) != 0;
    TRY(take_number(r, "the number of windows", MOST_WINDOWS, &windows));
    uint64_t left = ISA_SEGMENTS * ISA_SEGMENT_BYTES;   // of all windows together
    for (uint32_t w = 0; w < windows; w++) {
        launch_window window = {0};
        TRY(status_at(take_window(r, left, &window), "window %u", w));
        left -= window.bytes;
        TRY(VEC_PUSH(r->memory, &out->windows, window));
    }
    for (uint32_t core = 0; core < ISA_CORES; core++)
        TRY(status_at(take_listed(r, ISA_LX_BYTES, &out->lx[core]), "LX of core %u", core));
    if (r->at == r->count) return NULL;
    return status_new(SPYRE_INVALID_FORMAT, "%zu bytes behind the end", r->count - r->at);
}

spyre_status launch_record_file_parse(arena *memory, const uint8_t *bytes, size_t count,
                                      launch_record *out)
{
    reader r = {.memory = memory, .bytes = bytes, .count = count};
    const uint8_t *magic = NULL;
    uint64_t version = 0, sum = 0;
    *out = (launch_record){.memory = memory};
    TRY(take(&r, sizeof MAGIC, &magic));
    if (memcmp(magic, MAGIC, sizeof MAGIC) != 0)
        return status_new(SPYRE_INVALID_FORMAT, "no recorded launch: it does not begin with %.8s",
                          MAGIC);
    TRY(take_number(&r, "the version", VERSION, &version));
    if (version != VERSION)
        return status_new(SPYRE_INVALID_FORMAT, "version %llu, expected %d",
                          (unsigned long long)version, VERSION);
    TRY(take_number(&r, "the checksum", UINT64_MAX, &sum));
    if (sum != XXH3_64bits(bytes + HEADER_BYTES, count - HEADER_BYTES))
        return status_new(SPYRE_INVALID_FORMAT, "the checksum is wrong: the file was changed");
    return take_body(&r, out);
}
