// SPDX-License-Identifier: Apache-2.0
#include "compile/explore/lx_stage.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "front/ir/lx_slices.h"

// True when two buffers have bytes in common.
static bool share_bytes(const lx_buffer *a, const lx_buffer *b)
{
    return a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

static uint32_t find_parent(const lx_map *map, const lx_buffer *child)
{
    for (uint32_t i = 0; i < map->buffers.count; i++) {
        const lx_buffer *parent = &map->buffers.items[i];
        if (parent != child && parent->last == child->first && share_bytes(parent, child))
            return parent->id;
    }
    return SPYRE_NO_ID;
}

static void finish(lx_map *map)
{
    for (uint32_t i = 0; i < map->buffers.count; i++) {
        lx_buffer *buffer = &map->buffers.items[i];
        int64_t end = buffer->offset + buffer->bytes;
        if (end > map->peak_bytes) map->peak_bytes = end;
        buffer->in_place_of = find_parent(map, buffer);
    }
}

spyre_status lx_map_of(arena *memory, const loop_graph *loops, lx_map *out)
{
    *out = (lx_map){.limit_bytes = lx_limit_bytes(loops)};
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        const loop_op *op = &loops->ops.items[i];
        lx_op one = {opfunc_describe(op->op)->name,
                     arena_printf(memory, "%s, %s", op->name,
                                  op->location ? op->location : "unknown")};
        TRY_ALLOC(one.name);
        TRY(VEC_PUSH(memory, &out->ops, one));
    }
    for (uint32_t b = 0; b < loops->buffers.count; b++) {
        const loop_buffer *from = &loops->buffers.items[b];
        lx_buffer one = {.id = b, .name = from->name, .offset = from->memory_offset,
                         .bytes = from->bytes, .first = from->first_op, .last = from->last_op};
        if (from->in_lx) TRY(VEC_PUSH(memory, &out->buffers, one));
    }
    finish(out);
    return NULL;
}

void lx_map_print(const lx_map *map, text *out)
{
    text_printf(out, "lx %u buffers, at most %" PRId64 " of %" PRId64 " bytes a core, %u ops\n",
                map->buffers.count, map->peak_bytes, map->limit_bytes, map->ops.count);
    for (uint32_t i = 0; i < map->ops.count; i++)
        text_printf(out, "op %u %s  // %s\n", i, map->ops.items[i].opfunc, map->ops.items[i].name);
    for (uint32_t i = 0; i < map->buffers.count; i++) {
        const lx_buffer *b = &map->buffers.items[i];
        text_printf(out, "buffer b%u lx(%" PRId64 "+%" PRId64 ") ops(%u..%u)", b->id, b->offset,
                    b->bytes, b->first, b->last);
        if (b->in_place_of != SPYRE_NO_ID) text_printf(out, " in place of b%u", b->in_place_of);
        text_printf(out, "  // %s\n", b->name);
    }
}

// --- Reading

typedef struct {
    arena *memory;
    const char *name;
    uint32_t line;
    lx_map *map;
} reader;

static spyre_status refuse(const reader *r, const char *what)
{
    return status_new(SPYRE_INVALID_FORMAT, "%s: line %u: %s", r->name, r->line, what);
}

static spyre_status read_head(reader *r, const char *line)
{
    uint32_t buffers, ops;
    if (sscanf(line, "lx %" SCNu32 " buffers, at most %*d of %" SCNd64 " bytes a core, %" SCNu32
               " ops", &buffers, &r->map->limit_bytes, &ops) != 3)
        return refuse(
            r, "not the head of a map: 'lx N buffers, at most N of N bytes a core, N ops'");
    if (r->map->limit_bytes <= 0) return refuse(r, "the limit must be above 0 bytes");
    return NULL;
}

// What stands behind the comment's mark, or null.
static const char *comment_of(const char *line)
{
    const char *mark = strstr(line, "  // ");
    return mark ? mark + 5 : NULL;
}

static spyre_status read_op(const reader *r, const char *line)
{
    uint32_t index;
    char kind[64];
    const char *comment = comment_of(line);
    if (!comment || sscanf(line, "op %" SCNu32 " %63s", &index, kind) != 2)
        return refuse(r, "an op is 'op N OPFUNC  // NAME, LINE'");
    if (index != r->map->ops.count) return refuse(r, "ops are numbered from 0 in order");
    lx_op op = {arena_strdup(r->memory, kind), arena_strdup(r->memory, comment)};
    TRY_ALLOC(op.opfunc);
    TRY_ALLOC(op.name);
    return VEC_PUSH(r->memory, &r->map->ops, op);
}

static spyre_status read_buffer(const reader *r, const char *line)
{
    lx_buffer b = {0};
    const char *comment = comment_of(line);
    if (!comment || sscanf(line, "buffer b%" SCNu32 " lx(%" SCNd64 "+%" SCNd64 ") ops(%" SCNu32
                           "..%" SCNu32 ")", &b.id, &b.offset, &b.bytes, &b.first, &b.last) != 5)
        return refuse(r, "a buffer is 'buffer bN lx(OFFSET+BYTES) ops(FIRST..LAST)  // NAME'");
    if (b.first >= b.last || b.last >= r->map->ops.count)
        return refuse(r, "a buffer lives from one op to a later one");
    if (b.offset < 0 || b.bytes <= 0 || b.offset > r->map->limit_bytes - b.bytes)
        return refuse(r, "a buffer has bytes, all below the limit");
    for (uint32_t i = 0; i < r->map->buffers.count; i++) {
        const lx_buffer *other = &r->map->buffers.items[i];
        if (other->first < b.last && b.first < other->last && share_bytes(other, &b))
            return refuse(r, "it overlaps an earlier buffer in time and place");
    }
    b.name = arena_strdup(r->memory, comment);
    TRY_ALLOC(b.name);
    return VEC_PUSH(r->memory, &r->map->buffers, b);
}

static spyre_status read_line(reader *r, const char *line)
{
    if (r->line == 1) return read_head(r, line);
    if (strncmp(line, "op ", 3) == 0) return read_op(r, line);
    if (strncmp(line, "buffer ", 7) == 0) return read_buffer(r, line);
    return refuse(r, "neither an op nor a buffer");
}

spyre_status lx_map_parse(arena *memory, const char *name, const char *source, lx_map *out)
{
    reader r = {.memory = memory, .name = name, .map = out};
    *out = (lx_map){0};
    while (*source || r.line == 0) {
        size_t length = strcspn(source, "\n");
        const char *line = arena_strndup(memory, source, length);
        TRY_ALLOC(line);
        r.line++;
        TRY(read_line(&r, line));
        source += length + (source[length] == '\n');
    }
    finish(out);
    return NULL;
}
