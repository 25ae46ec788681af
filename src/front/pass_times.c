// SPDX-License-Identifier: Apache-2.0
#include "front/pass_times.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

static int64_t thread_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

pass_times_watch pass_times_begin(const arena *memory)
{
    return (pass_times_watch){memory, thread_ns(), arena_used_bytes(memory)};
}

void pass_times_end(const pass_times_watch *watch, const char *name, const loop_graph *loops,
                    bool changed, pass_times *records)
{
    pass_time *r = NULL;
    for (uint32_t i = 0; i < records->count; i++)
        if (strcmp(records->items[i].name, name) == 0) r = &records->items[i];
    if (!r) r = &records->items[records->count++];
    r->name = name;
    r->ns += thread_ns() - watch->began_ns;
    r->bytes += (int64_t)(arena_used_bytes(watch->memory) - watch->used_bytes);
    r->changed |= changed;
    r->ops = loops->ops.count;
    r->buffers = loops->buffers.count;
}

void pass_times_print(const pass_times *records, text *out)
{
    pass_time sum = {0};
    text_append(out, "stage                       us    ops  buffers      bytes\n");
    for (uint32_t i = 0; i < records->count; i++) {
        const pass_time *r = &records->items[i];
        text_printf(out, "%-20s%10.1f%7u%9u%11" PRId64 "%s\n", r->name, (double)r->ns / 1e3,
                    r->ops, r->buffers, r->bytes, r->changed ? "  changed" : "");
        sum.ns += r->ns;
        sum.bytes += r->bytes;
        sum.ops = r->ops;
    }
    text_printf(out, "%-20s%10.1f%7u%9s%11" PRId64 "  %" PRId64 " bytes an op\n", "sum",
                (double)sum.ns / 1e3, sum.ops, "", sum.bytes,
                sum.ops ? sum.bytes / sum.ops : 0);
}
