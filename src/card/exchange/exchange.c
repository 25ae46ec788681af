// SPDX-License-Identifier: Apache-2.0
#include "card/exchange/exchange.h"

#include <string.h>

// --- Copying

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

void exchange_copy(const plan_tile *to_tile, uint8_t *to, const plan_tile *from_tile,
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

size_t exchange_bytes(const plan_tile *tile)
{
    size_t bytes = spyre_format_bytes(tile->instruction->operand[0].format);
    for (uint32_t d = 0; d < tile->dim_count; d++) bytes *= (size_t)tile->extent[d];
    return bytes;
}

// --- Finding

static bool inside_lx(const plan_tile *tile)
{
    int64_t offset = tile->instruction->operand[0].offset;
    int64_t low, high;
    return !__builtin_add_overflow(offset, tile->span[0].low, &low) &&
           !__builtin_add_overflow(offset, tile->span[0].high, &high) && low >= 0 &&
           high <= ISA_LX_BYTES;
}

static void widen(lx_range *r, const plan_tile *tile)
{
    int64_t offset = tile->instruction->operand[0].offset;
    lx_range own = {offset + tile->span[0].low, offset + tile->span[0].high};
    if (own.low < r->low) r->low = own.low;
    if (own.high > r->high) r->high = own.high;
}

// Messages only, all inside LX; their ranges, and how many there are.
static bool only_messages(const isa_program *program, plan_tile *const *tiles,
                          const lx_summary *kernel, lx_range *sent, lx_range *received,
                          uint32_t *sends)
{
    for (uint32_t at = kernel->begin; at < kernel->end; at++) {
        isa_opcode opcode = program->code.items[at].opcode;
        bool sending = opcode == ISA_SEND;
        if ((!sending && opcode != ISA_RECEIVE) || !inside_lx(tiles[at])) return false;
        widen(sending ? sent : received, tiles[at]);
        *sends += sending;
    }
    return true;
}

static uint32_t peer(const isa_program *program, const isa_kernel *kernel, uint32_t core,
                     uint32_t at)
{
    size_t row = (size_t)core * kernel->slot_count;
    return (uint32_t)kernel->parameters[row + program->code.items[at].token];
}

typedef struct {
    const isa_program *program;
    plan_tile *const *tiles;
    const lx_summary *sends, *receives;
    const isa_kernel *sender_kernel, *receiver_kernel;
    uint32_t next[ISA_CORES][ISA_CORES];    // [sender][receiver]: where to look for a SEND
} matching;

// The next instruction that sends from one core to the other, or the end of the code.
static uint32_t next_send(matching *m, uint32_t sender, uint32_t receiver)
{
    uint32_t at = m->next[sender][receiver];
    if (!(m->sender_kernel->active_cores >> sender & 1u)) return m->sends->end;
    while (at < m->sends->end && (m->program->code.items[at].opcode != ISA_SEND ||
                                  peer(m->program, m->sender_kernel, sender, at) != receiver))
        at++;
    m->next[sender][receiver] = at + 1;
    return at;
}

static spyre_status match_core(matching *m, arena *memory, uint32_t core, exchange *x,
                               bool *out_good)
{
    for (uint32_t at = m->receives->begin; at < m->receives->end && *out_good; at++) {
        if (m->program->code.items[at].opcode != ISA_RECEIVE) continue;
        uint32_t sender = peer(m->program, m->receiver_kernel, core, at);
        uint32_t sent = next_send(m, sender, core);
        *out_good = sent < m->sends->end &&
                    exchange_bytes(m->tiles[sent]) == exchange_bytes(m->tiles[at]);
        if (!*out_good) break;
        exchange_message message = {sender, m->tiles[sent], m->tiles[at]};
        TRY(VEC_PUSH(memory, &x->messages, message));
    }
    return NULL;
}

static spyre_status match(matching *m, arena *memory, uint32_t sends, exchange *x, bool *out_good)
{
    for (uint32_t core = 0; core < ISA_CORES && *out_good; core++) {
        x->first[core] = x->messages.count;
        for (uint32_t n = 0; n < ISA_CORES; n++) m->next[core][n] = m->sends->begin;
    }
    for (uint32_t core = 0; core < ISA_CORES && *out_good; core++) {
        x->first[core] = x->messages.count;
        if (m->receiver_kernel->active_cores >> core & 1u)
            TRY(match_core(m, memory, core, x, out_good));
        x->first[core + 1] = x->messages.count;
    }
    uint32_t senders = (uint32_t)__builtin_popcount(m->sender_kernel->active_cores);
    *out_good = *out_good && x->messages.count == sends * senders;
    return NULL;
}

static bool find_ranges(const isa_program *program, plan_tile *const *tiles,
                        const lx_summary *sends, const lx_summary *receives, lx_range *out_sent,
                        uint32_t *out_sends)
{
    lx_range sent = {INT64_MAX, INT64_MIN}, received = {INT64_MAX, INT64_MIN};
    uint32_t more = 0;
    *out_sends = 0;
    if (!only_messages(program, tiles, sends, &sent, &received, out_sends)) return false;
    if (sends != receives) {
        bool received_none = received.low > received.high;
        if (!received_none ||
            !only_messages(program, tiles, receives, &sent, &received, &more) || more)
            return false;
    }
    *out_sent = sent;
    return *out_sends > 0 && (received.high <= sent.low || sent.high <= received.low);
}

static const isa_kernel *kernel_of(const isa_program *program, const lx_summary *code)
{
    return &program->kernels.items[program->code.items[code->begin - 1].count];
}

spyre_status exchange_find(arena *memory, const isa_program *program, plan_tile *const *tiles,
                           const lx_summary *sends, const lx_summary *receives,
                           const exchange **out)
{
    matching m = {program, tiles, sends, receives, kernel_of(program, sends),
                  kernel_of(program, receives), {{0}}};
    lx_range sent;
    uint32_t count;
    *out = NULL;
    if (!find_ranges(program, tiles, sends, receives, &sent, &count)) return NULL;
    exchange *x = ARENA_NEW(memory, exchange, 1);
    TRY_ALLOC(x);
    x->sent = sent;
    bool good = true;
    TRY(match(&m, memory, count, x, &good));
    if (good) *out = x;
    return NULL;
}

// --- Sources

static bool list_sources(const exchange_message *m, int64_t *sources)
{
    const int64_t stick = SPYRE_STICK_BYTES;
    size_t bytes = exchange_bytes(m->sent);
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

bool exchange_sources(const exchange *x, uint32_t core, int64_t *out_sources)
{
    for (size_t n = 0; n < ISA_LX_BYTES / SPYRE_STICK_BYTES; n++) out_sources[n] = -1;
    for (uint32_t n = x->first[core]; n < x->first[core + 1]; n++)
        if (!list_sources(&x->messages.items[n], out_sources)) return false;
    return true;
}

// --- Running

void exchange_run(core_run *run, const exchange *x)
{
    for (uint32_t n = x->first[run->core]; n < x->first[run->core + 1]; n++) {
        const exchange_message *m = &x->messages.items[n];
        const isa_operand *to = &m->received->instruction->operand[0];
        const isa_operand *from = &m->sent->instruction->operand[0];
        const uint8_t *sender = run->owner->lx + (size_t)m->sender * ISA_LX_BYTES;
        exchange_copy(m->received, run->lx + to->offset, m->sent, sender + from->offset,
                      exchange_bytes(m->sent));
    }
    run->state = ADVANCE_DONE;
}
