// SPDX-License-Identifier: Apache-2.0
#include "card/machine/messages.h"

#include <string.h>

// Where a copy stands in one of its ends: runs of bytes that lie side by side.
typedef struct {
    const plan_tile *tile;
    size_t at, left;                        // offset from element 0; bytes of the run
    size_t run;
    uint32_t dims;                          // around the run
    int64_t index[ISA_MAX_DIMS];
} position;

static position begin_of(const plan_tile *tile, size_t bytes)
{
    position p = {.tile = tile, .run = bytes};
    if (tile) {
        p.run = spyre_format_bytes(tile->instruction->operand[0].format);
        p.dims = tile->dim_count;
        while (p.dims > 0 && tile->stride[0][p.dims - 1] == (int64_t)p.run)
            p.run *= (size_t)tile->extent[--p.dims];
    }
    p.left = p.run;
    return p;
}

// In wrapping arithmetic: offsets may be negative.
static void move_on(position *p, size_t bytes)
{
    p->at += bytes;
    p->left -= bytes;
    if (p->left) return;
    p->at -= p->run;
    p->left = p->run;
    for (uint32_t d = p->dims; d-- > 0;) {
        int64_t stride = p->tile->stride[0][d];
        p->at += (size_t)stride;
        if (++p->index[d] < p->tile->extent[d]) return;
        p->at -= (size_t)(stride * p->tile->extent[d]);
        p->index[d] = 0;
    }
}

void message_copy_bytes(const plan_tile *to_tile, uint8_t *to, const plan_tile *from_tile,
                        const uint8_t *from, size_t bytes)
{
    position p = begin_of(to_tile, bytes), q = begin_of(from_tile, bytes);
    while (bytes) {
        size_t run = p.left < q.left ? p.left : q.left;
        memcpy(to + (ptrdiff_t)p.at, from + (ptrdiff_t)q.at, run);
        move_on(&p, run);
        move_on(&q, run);
        bytes -= run;
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
        int64_t run = (int64_t)(to.left < from.left ? to.left : from.left);
        int64_t at = received + (int64_t)to.at, source = sent + (int64_t)from.at;
        if (run % stick || at % stick || source % stick) return false;
        for (int64_t n = 0; n < run; n += stick) sources[(at + n) / stick] = source + n;
        move_on(&to, (size_t)run);
        move_on(&from, (size_t)run);
        bytes -= (size_t)run;
    }
    return true;
}

bool messages_sources(const message_copies *x, uint32_t core, int64_t *out_sources)
{
    for (size_t n = 0; n < ISA_LX_BYTES / SPYRE_STICK_BYTES; n++) out_sources[n] = -1;
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
