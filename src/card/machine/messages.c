// SPDX-License-Identifier: Apache-2.0
#include "card/machine/messages.h"

#include <string.h>

#include "base/integer.h"
#include "base/odometer.h"

// Where a copy stands in one of its ends: runs of bytes that lie side by side.
typedef struct {
    odometer_place run;                     // offset from element 0
    int64_t bytes, done;                    // of the run
    uint32_t dims;                          // around it
    const int64_t *extent;
    int64_t index[ISA_MAX_DIMS];
} position;

static position begin_of(const plan_tile *tile, size_t bytes)
{
    position p = {.bytes = (int64_t)bytes};
    if (!tile) return p;
    p.bytes = spyre_format_bytes(tile->instruction->operand[0].format);
    p.run.stride = tile->stride[0];
    p.dims = tile->dim_count;
    p.extent = tile->extent;
    while (p.dims > 0 && p.run.stride[p.dims - 1] == p.bytes) p.bytes *= p.extent[--p.dims];
    return p;
}

static int64_t place_of(const position *p)
{
    return p->run.at + p->done;
}

// Bytes that both have left in their runs.
static int64_t common_run(const position *a, const position *b)
{
    int64_t x = a->bytes - a->done, y = b->bytes - b->done;
    return x < y ? x : y;
}

static void move_on(position *p, int64_t bytes)
{
    p->done += bytes;
    if (p->done < p->bytes) return;
    p->done = 0;
    odometer_next(p->dims, p->extent, p->index, &p->run, 1);
}

void message_copy_bytes(const plan_tile *to_tile, uint8_t *to, const plan_tile *from_tile,
                        const uint8_t *from, size_t bytes)
{
    position p = begin_of(to_tile, bytes), q = begin_of(from_tile, bytes);
    while (bytes) {
        int64_t run = common_run(&p, &q);
        memcpy(to + place_of(&p), from + place_of(&q), (size_t)run);
        move_on(&p, run);
        move_on(&q, run);
        bytes -= (size_t)run;
    }
}

size_t message_bytes(const plan_tile *tile)
{
    size_t bytes = spyre_format_bytes(tile->instruction->operand[0].format);
    for (uint32_t d = 0; d < tile->dim_count; d++) bytes *= (size_t)tile->extent[d];
    return bytes;
}

// --- Sources

static bool list_sources(const message_copy *m, int64_t *sources)
{
    const int64_t stick = SPYRE_STICK_BYTES;
    size_t bytes = message_bytes(m->sent);
    position to = begin_of(m->received, bytes), from = begin_of(m->sent, bytes);
    int64_t received = m->received->instruction->operand[0].offset;
    int64_t sent = m->sent->instruction->operand[0].offset + (int64_t)m->sender * ISA_LX_BYTES;
    while (bytes) {
        int64_t run = common_run(&to, &from);
        int64_t at = received + place_of(&to), source = sent + place_of(&from);
        if (run % stick || at % stick || source % stick) return false;
        for (int64_t n = 0; n < run; n += stick) sources[(at + n) / stick] = source + n;
        move_on(&to, run);
        move_on(&from, run);
        bytes -= (size_t)run;
    }
    return true;
}

static byte_range received_by(const message_copies *x, uint32_t core)
{
    byte_range all = RANGE_NONE;
    for (uint32_t n = x->first[core]; n < x->first[core + 1]; n++)
        range_add(&all, plan_range(x->list.items[n].received, 0));
    return all.low <= all.high ? all : (byte_range){0, 0};
}

bool messages_sources(const message_copies *x, uint32_t core, int64_t *out_sources,
                      byte_range *out_received)
{
    *out_received = received_by(x, core);
    const int64_t end = divide_up(out_received->high, SPYRE_STICK_BYTES);
    for (int64_t n = out_received->low / SPYRE_STICK_BYTES; n < end; n++) out_sources[n] = -1;
    for (uint32_t n = x->first[core]; n < x->first[core + 1]; n++)
        if (!list_sources(&x->list.items[n], out_sources)) return false;
    return true;
}

// --- Running

void messages_run(core_run *run, const message_copies *x)
{
    for (uint32_t n = x->first[run->core]; n < x->first[run->core + 1]; n++) {
        const message_copy *m = &x->list.items[n];
        const isa_operand *to = &m->received->instruction->operand[0];
        const isa_operand *from = &m->sent->instruction->operand[0];
        const uint8_t *sender = run->owner->lx + (size_t)m->sender * ISA_LX_BYTES;
        message_copy_bytes(m->received, run->lx + to->offset, m->sent, sender + from->offset,
                           message_bytes(m->sent));
    }
    run->state = ADVANCE_DONE;
}
