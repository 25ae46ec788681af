// SPDX-License-Identifier: Apache-2.0
//
// A kernel of SENDs and RECEIVEs alone, or one of SENDs and the next of RECEIVEs, becomes copies
// between the LX of cores: who sends what to whom is known from the parameters of each core. The
// n-th SEND from one core to another meets the n-th RECEIVE, as on the ring.
#include "card/machine/messages.h"
#include "card/plan/pass.h"

// Messages only; their ranges, and how many there are.
static bool only_messages(const isa_program *program, plan_tile *const *tiles,
                          const plan_kernel *kernel, byte_range *sent, byte_range *received,
                          uint32_t *sends)
{
    for (uint32_t at = kernel->begin; at < kernel->end; at++) {
        isa_opcode opcode = program->code.items[at]->opcode;
        bool sending = opcode == ISA_SEND;
        if (!sending && opcode != ISA_RECEIVE) return false;
        range_add(sending ? sent : received, plan_range(tiles[at], 0));
        *sends += sending;
    }
    return true;
}

typedef struct {
    const isa_program *program;
    plan_tile *const *tiles;
    const plan_kernel *sends, *receives;
    const isa_kernel *sender_kernel, *receiver_kernel;
    uint32_t next[ISA_CORES][ISA_CORES];    // [sender][receiver]: the first SEND without a
                                            // RECEIVE, or the end of the code
    uint32_t (*following)[ISA_CORES];       // [SEND][sender]: the next one to the same receiver
} matching;

static spyre_status list_sends(matching *m, arena *scratch)
{
    const uint32_t begin = m->sends->begin, end = m->sends->end;
    TRY_NEW(scratch, m->following, end - begin);
    for (uint32_t core = 0; core < ISA_CORES; core++)
        for (uint32_t n = 0; n < ISA_CORES; n++) m->next[core][n] = end;
    for (uint32_t at = end; at-- > begin;) {
        const isa_instruction *send = m->program->code.items[at];
        if (send->opcode != ISA_SEND) continue;
        for (uint32_t sender = 0; sender < ISA_CORES; sender++) {
            if (!isa_is_active(m->sender_kernel, sender)) continue;
            uint32_t receiver = isa_peer(m->sender_kernel, sender, send->token);
            m->following[at - begin][sender] = m->next[sender][receiver];
            m->next[sender][receiver] = at;
        }
    }
    return NULL;
}

// The next instruction that sends from one core to the other, or the end of the code.
static uint32_t next_send(matching *m, uint32_t sender, uint32_t receiver)
{
    uint32_t at = m->next[sender][receiver];
    if (at < m->sends->end) m->next[sender][receiver] = m->following[at - m->sends->begin][sender];
    return at;
}

static spyre_status match_core(matching *m, arena *memory, uint32_t core, message_copies *x,
                               bool *out_good)
{
    for (uint32_t at = m->receives->begin; at < m->receives->end && *out_good; at++) {
        if (m->program->code.items[at]->opcode != ISA_RECEIVE) continue;
        uint32_t sender = isa_peer(m->receiver_kernel, core, m->program->code.items[at]->token);
        uint32_t sent = next_send(m, sender, core);
        *out_good = sent < m->sends->end &&
                    message_bytes(m->tiles[sent]) == message_bytes(m->tiles[at]);
        if (!*out_good) break;
        message_copy message = {sender, m->tiles[sent], m->tiles[at]};
        TRY(VEC_PUSH(memory, &x->list, message));
    }
    return NULL;
}

static spyre_status match(matching *m, arena *memory, uint32_t sends, message_copies *x,
                          bool *out_good)
{
    const uint32_t all = sends * (uint32_t)__builtin_popcount(m->sender_kernel->active_cores);
    TRY(VEC_ROOM(memory, &x->list, all));
    for (uint32_t core = 0; core < ISA_CORES && *out_good; core++) {
        x->first[core] = x->list.count;
        if (isa_is_active(m->receiver_kernel, core))
            TRY(match_core(m, memory, core, x, out_good));
        x->first[core + 1] = x->list.count;
    }
    *out_good = *out_good && x->list.count == all;
    return NULL;
}

static bool find_ranges(const isa_program *program, plan_tile *const *tiles,
                        const plan_kernel *sends, const plan_kernel *receives, byte_range *out_sent,
                        uint32_t *out_sends)
{
    byte_range sent = RANGE_NONE, received = RANGE_NONE;
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
    return *out_sends > 0 && received.low < received.high && !ranges_overlap(sent, received);
}

static spyre_status find(const translation *t, const plan_kernel *sends,
                         const plan_kernel *receives, const message_copies **out)
{
    matching m = {.program = t->program, .tiles = t->tiles, .sends = sends, .receives = receives,
                  .sender_kernel = sends->source, .receiver_kernel = receives->source};
    byte_range sent;
    uint32_t count;
    *out = NULL;
    if (!find_ranges(t->program, t->tiles, sends, receives, &sent, &count)) return NULL;
    message_copies *x = ARENA_NEW(t->memory, message_copies, 1);
    TRY_ALLOC(x);
    x->sent = sent;
    bool good = true;
    TRY(list_sends(&m, t->scratch));
    TRY(match(&m, t->memory, count, x, &good));
    if (good) *out = x;
    return NULL;
}

// What one kernel has sent that the next one does not receive stays on the ring, which only the
// ring itself can then follow.
typedef struct {
    const translation *t;
    plan_kernel *sender;                    // the kernel before, when its messages wait
    bool ring_used;                         // by kernels whose messages are not copies
} state;

static spyre_status look_at(state *s, plan_kernel *kernel)
{
    const translation *t = s->t;
    plan_kernel *sender = s->sender;
    bool uses_ring = kernel->step_count[ISA_QUEUE_RING] > 1;
    s->sender = NULL;
    s->ring_used = s->ring_used || (uses_ring && kernel->around.depth > 0);
    if (uses_ring && !s->ring_used)
        TRY(find(t, sender ? sender : kernel, kernel, &kernel->messages));
    if (kernel->messages && sender) sender->sends_later = true;
    s->ring_used = s->ring_used || (sender && !kernel->messages);
    if (uses_ring && !kernel->messages && !s->ring_used) s->sender = kernel;
    return NULL;
}

spyre_status card_pass_match_messages(translation *t)
{
    state s = {.t = t};
    for (uint32_t n = 0; n < t->loaded->phases.count; n++) {
        plan_kernel *kernel = t->loaded->phases.items[n].kernel;
        if (kernel) TRY(look_at(&s, kernel));
    }
    return NULL;
}
