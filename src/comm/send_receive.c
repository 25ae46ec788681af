// SPDX-License-Identifier: Apache-2.0
//
// Sends and receives. A sender takes a free slot on its way to the receiver, writes header and as
// much data as the slot's window holds, and goes on as the receiver reads; a small message has
// ended for the sender before the receiver asks. A receiver takes the oldest posted slot of its
// tag. Each message is a state machine, so any number can be under way in any order.
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/status.h"
#include "comm/comm.h"

enum { LOOK_NS = 50000000 };

static bool sends(const spyre_request *r)
{
    return r->call.kind == SPYRE_COMM_SEND;
}

static uint64_t bytes_of(const spyre_request *r)
{
    return r->call.count * spyre_format_bytes(r->call.format);
}

void send_receive_add(spyre_comm *c, spyre_request *r)
{
    int64_t timeout_ms = r->call.timeout_ms ? r->call.timeout_ms : c->timeout_ms;
    r->looked_ns = clock_now_ns();
    r->deadline_ns = r->looked_ns + timeout_ms * 1000000;
    r->header.number = ++c->sent;
    r->peer = r->call.root;
    r->next = NULL;
    *c->messages_end = r;
    c->messages_end = &r->next;
}

static shared_memory_slot *slot_of(const spyre_comm *c, const spyre_request *r)
{
    uint32_t own = c->shared.rank;
    return shared_memory_slot_of(&c->shared, sends(r) ? own : r->peer, sends(r) ? r->peer : own,
                                 r->slot);
}

static uint8_t *window_of(const spyre_comm *c, const spyre_request *r)
{
    uint32_t own = c->shared.rank;
    return shared_memory_window(&c->shared, sends(r) ? own : r->peer, sends(r) ? r->peer : own,
                                r->slot);
}

// --- The sender

// Messages to one rank get their slots in order.
static bool is_next(const spyre_comm *c, const spyre_request *r)
{
    for (const spyre_request *q = c->messages; q != r; q = q->next)
        if (sends(q) && !q->begun && q->peer == r->peer) return false;
    return true;
}

static bool post(spyre_comm *c, spyre_request *r)
{
    if (!is_next(c, r)) return false;
    for (r->slot = 0; r->slot < SHARED_MEMORY_SLOTS; r->slot++) {
        shared_memory_slot *s = slot_of(c, r);
        if (atomic_load(&s->state) != SLOT_FREE) continue;
        s->header = r->header;
        shared_memory_push(&c->shared, r->peer, &s->header, sizeof s->header);
        shared_memory_store64(&c->shared, r->peer, &s->written, 0);
        shared_memory_store64(&c->shared, r->peer, &s->read, 0);
        shared_memory_store32(&c->shared, r->peer, &s->state, SLOT_POSTED);
        shared_memory_ring(&c->shared, r->peer, COMM_BELL_MESSAGES);
        return r->begun = true;
    }
    return false;
}

// The run of the window that begins at byte `at` of the message, of at most `bytes`.
static uint64_t run_of(const spyre_comm *c, uint64_t at, uint64_t bytes)
{
    uint64_t left = c->shared.window_bytes - at % c->shared.window_bytes;
    return bytes < left ? bytes : left;
}

static spyre_status refused(const spyre_comm *c, const spyre_request *r,
                            const shared_memory_slot *s)
{
    char place[COMM_PLACE_BYTES], other[HEADER_TEXT_BYTES];
    comm_header answer = s->answer;
    answer.detail[sizeof answer.detail - 1] = '\0';
    header_write(&answer, other);
    comm_place(c, &r->header, place);
    return status_new(SPYRE_INVALID_ARGUMENT, "%s: rank %u expects %s", place, r->peer, other);
}

static spyre_status step_send(spyre_comm *c, spyre_request *r, bool *out_moved)
{
    if (!r->begun && !post(c, r)) return NULL;
    shared_memory_slot *s = slot_of(c, r);
    uint64_t bytes = bytes_of(r), before = r->moved;
    if (atomic_load(&s->state) == SLOT_REFUSED) return refused(c, r, s);
    uint64_t read = atomic_load(&s->read);
    if (read > r->moved)
        return status_new(SPYRE_INVALID_FORMAT, "rank %u has read more of a message than was sent",
                          r->peer);
    while (r->moved < bytes && r->moved - read < c->shared.window_bytes) {
        uint64_t room = c->shared.window_bytes - (r->moved - read);
        uint64_t part = run_of(c, r->moved, bytes - r->moved < room ? bytes - r->moved : room);
        uint8_t *target = window_of(c, r) + r->moved % c->shared.window_bytes;
        memcpy(target, (const uint8_t *)r->call.input + r->moved, part);
        shared_memory_push(&c->shared, r->peer, target, part);
        r->moved += part;
    }
    if (r->moved != before) {
        shared_memory_store64(&c->shared, r->peer, &s->written, r->moved);
        shared_memory_ring(&c->shared, r->peer, COMM_BELL_MESSAGES);
    }
    r->ended = r->moved == bytes;
    *out_moved = *out_moved || r->moved != before || r->ended;
    return NULL;
}

// --- The receiver

static spyre_status refuse(spyre_comm *c, spyre_request *r, shared_memory_slot *s,
                           const comm_header *h)
{
    char place[COMM_PLACE_BYTES], other[HEADER_TEXT_BYTES];
    header_write(h, other);
    comm_place(c, &r->header, place);
    s->answer = r->header;
    shared_memory_push(&c->shared, r->peer, &s->answer, sizeof s->answer);
    shared_memory_store32(&c->shared, r->peer, &s->state, SLOT_REFUSED);
    shared_memory_ring(&c->shared, r->peer, COMM_BELL_MESSAGES);
    return status_new(SPYRE_INVALID_ARGUMENT, "%s: rank %u sends %s", place, r->peer, other);
}

// The oldest message of a rank that this receive is for: its slot, or SHARED_MEMORY_SLOTS.
static spyre_status find(spyre_comm *c, const spyre_request *r, uint32_t from, comm_header *out)
{
    out->number = UINT64_MAX;
    out->tag = SHARED_MEMORY_SLOTS;
    for (uint32_t slot = 0; slot < SHARED_MEMORY_SLOTS; slot++) {
        shared_memory_slot *s = shared_memory_slot_of(&c->shared, from, c->shared.rank, slot);
        if (atomic_load(&s->state) != SLOT_POSTED) continue;
        comm_header h = s->header;
        TRY(header_check(&h, NULL, from, c->shared.size));
        if (h.tag != r->call.tag || h.number >= out->number) continue;
        *out = h;
        out->tag = slot;
    }
    return NULL;
}

static spyre_status take(spyre_comm *c, spyre_request *r)
{
    bool any = r->call.root == SPYRE_COMM_ANY;
    for (uint32_t from = any ? 0 : r->call.root; from < c->shared.size; from++) {
        comm_header h;
        if (from == c->shared.rank) continue;
        TRY(find(c, r, from, &h));
        if (h.number != UINT64_MAX) {
            r->peer = from;
            r->slot = h.tag;
            h.tag = r->call.tag;
            shared_memory_slot *s = slot_of(c, r);
            if (h.format != r->header.format || h.count != r->header.count ||
                h.signature != r->header.signature)
                return refuse(c, r, s, &h);
            if (r->call.clock_us && h.clock_us > *r->call.clock_us) *r->call.clock_us = h.clock_us;
            shared_memory_store32(&c->shared, r->peer, &s->state, SLOT_TAKEN);
            r->begun = true;
            return NULL;
        }
        if (!any) return NULL;
    }
    return NULL;
}

static spyre_status step_receive(spyre_comm *c, spyre_request *r, bool *out_moved)
{
    if (!r->begun) TRY(take(c, r));
    if (!r->begun) return NULL;
    shared_memory_slot *s = slot_of(c, r);
    uint64_t bytes = bytes_of(r), written = atomic_load(&s->written), before = r->moved;
    if (written < r->moved || written > bytes || written - r->moved > c->shared.window_bytes)
        return status_new(SPYRE_INVALID_FORMAT, "rank %u has sent %" PRIu64 " of %" PRIu64
                          " bytes, of which %" PRIu64 " were read", r->peer, written, bytes,
                          r->moved);
    while (r->moved < written) {
        uint64_t part = run_of(c, r->moved, written - r->moved);
        memcpy((uint8_t *)r->call.output + r->moved,
               window_of(c, r) + r->moved % c->shared.window_bytes, part);
        r->moved += part;
    }
    r->ended = r->moved == bytes;
    if (r->moved != before) shared_memory_store64(&c->shared, r->peer, &s->read, r->moved);
    if (r->ended) shared_memory_store32(&c->shared, r->peer, &s->state, SLOT_FREE);
    if (r->moved != before || r->ended) shared_memory_ring(&c->shared, r->peer, COMM_BELL_MESSAGES);
    *out_moved = *out_moved || r->moved != before || r->ended;
    return NULL;
}

// --- Both

static spyre_status too_late(const spyre_comm *c, const spyre_request *r)
{
    char place[COMM_PLACE_BYTES];
    comm_place(c, &r->header, place);
    return status_new(SPYRE_IO, "%s: timed out with %" PRIu64 " of %" PRIu64 " bytes moved: %s",
                      place, r->moved, bytes_of(r),
                      sends(r) ? "the other rank has not received"
                      : r->begun ? "the other rank has not sent more" : "nothing was sent");
}

// Whether the other rank still can do its part.
static spyre_status look(spyre_comm *c, spyre_request *r, int64_t now)
{
    if (c->broken) return comm_copy_error(c->broken);
    if (now > r->deadline_ns) return too_late(c, r);
    if (now - r->looked_ns < LOOK_NS) return NULL;
    r->looked_ns = now;
    for (uint32_t rank = 0; rank < c->shared.size; rank++)
        if (rank == r->peer || (r->peer == SPYRE_COMM_ANY && rank != c->shared.rank))
            TRY(comm_check_rank(c, rank, &r->header, true));
    return NULL;
}

bool send_receive_drive(spyre_comm *c, spyre_request **out_ended)
{
    bool moved = false;
    int64_t now = clock_now_ns();
    spyre_request **ended = out_ended;
    *out_ended = NULL;
    c->messages_end = &c->messages;
    for (spyre_request **at = &c->messages; *at;) {
        spyre_request *r = *at;
        r->error = sends(r) ? step_send(c, r, &moved) : step_receive(c, r, &moved);
        if (!r->error && !r->ended) r->error = look(c, r, now);
        if (!r->error && !r->ended) {
            at = c->messages_end = &r->next;
            continue;
        }
        r->ended = false;           // for those who wait: not before its `done` was called
        *at = r->next;
        r->next = NULL;
        *ended = r;
        ended = &r->next;
    }
    return moved;
}
