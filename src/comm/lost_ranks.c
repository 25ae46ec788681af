// SPDX-License-Identifier: Apache-2.0
//
// Ranks that failed, left, died or are late, and the errors that say so: the rank, its last
// operation, and what this one was doing. An error of one rank breaks the communicator for all.
#include <inttypes.h>
#include <stdio.h>

#include "base/status.h"
#include "base/text.h"
#include "comm/comm.h"

spyre_status comm_copy_error(spyre_status error)
{
    return error ? status_new(spyre_status_code(error), "%s", spyre_status_message(error)) : NULL;
}

void comm_place(const spyre_comm *c, const comm_header *h, char out_text[COMM_PLACE_BYTES])
{
    char what[HEADER_TEXT_BYTES] = "the meeting of the ranks";
    if (h) header_write(h, what);
    if (h && h->number)
        snprintf(out_text, COMM_PLACE_BYTES, "rank %u (of %u), operation %" PRIu64 " %s",
                 c->shared.rank, c->shared.size, h->number, what);
    else
        snprintf(out_text, COMM_PLACE_BYTES, "rank %u (of %u), %s", c->shared.rank, c->shared.size,
                 what);
}

static spyre_status lost(const spyre_comm *c, const comm_header *h, spyre_code code,
                         const char *what, uint32_t rank, const char *reason)
{
    char place[COMM_PLACE_BYTES];
    comm_place(c, h, place);
    return status_new(code, "%s: rank %u %s%s", place, rank, what, reason);
}

static bool is_message(const comm_header *h)
{
    return h && (h->kind == SPYRE_COMM_SEND || h->kind == SPYRE_COMM_RECEIVE);
}

// Collectives see the state behind all that the rank did in them; messages have a way of their own.
static bool has_left(const spyre_comm *c, uint32_t rank, uint32_t state, const comm_header *header)
{
    return is_message(header) ? shared_memory_has_left(&c->shared, rank)
                              : state == SHARED_MEMORY_LEFT;
}

static bool has_died(const spyre_comm *c, uint32_t rank)
{
    shared_memory_rank *r = shared_memory_rank_of(&c->shared, rank);
    return rank != c->shared.rank && atomic_load(&r->state) == SHARED_MEMORY_JOINED &&
           !shared_memory_is_alive(&c->shared, rank) &&
           atomic_load(&r->state) == SHARED_MEMORY_JOINED &&
           !shared_memory_has_left(&c->shared, rank);
}

// Of a collective with a rank of another host also the gateways on the way there and back.
static spyre_status check_life(const spyre_comm *c, uint32_t rank, const comm_header *header)
{
    const shared_memory *s = &c->shared;
    const uint8_t *host_of = s->topology.host_of;
    uint32_t on_the_way[3] = {rank, rank, rank};
    if (!is_message(header) && !shared_memory_is_here(s, rank)) {
        on_the_way[1] = shared_memory_gateway(s, s->rank, host_of[rank]);
        on_the_way[2] = shared_memory_gateway(s, rank, host_of[s->rank]);
    }
    for (int n = 0; n < 3; n++)
        if (has_died(c, on_the_way[n]))
            return lost(c, header, SPYRE_IO, "has died: ", on_the_way[n],
                        s->transport->death(s, on_the_way[n]));
    return NULL;
}

spyre_status comm_check_rank(const spyre_comm *c, uint32_t rank, const comm_header *header,
                             bool look)
{
    shared_memory_rank *other = shared_memory_rank_of(&c->shared, rank);
    uint32_t state = atomic_load(&other->state);
    if (state == SHARED_MEMORY_FAILED) {
        shared_memory_reason reason = other->reason;
        reason.text[sizeof reason.text - 1] = '\0';
        bool refused = reason.code == SPYRE_INVALID_ARGUMENT;  // wrong for all ranks
        return lost(c, header, refused ? SPYRE_INVALID_ARGUMENT : SPYRE_IO, "gave up: ", rank,
                    reason.text);
    }
    if (has_left(c, rank, state, header))
        return lost(c, header, SPYRE_IO, "has left the communicator", rank, "");
    return state == SHARED_MEMORY_JOINED && look ? check_life(c, rank, header) : NULL;
}

bool comm_has_come(const spyre_comm *c, uint32_t rank)
{
    return atomic_load_explicit(&shared_memory_rank_of(&c->shared, rank)->phase,
                                memory_order_acquire) >= c->phase;
}

// Of a rank that has not come: what it published last.
static void write_last(const spyre_comm *c, uint32_t rank, text *t)
{
    shared_memory_rank *other = shared_memory_rank_of(&c->shared, rank);
    comm_header last = {0};
    for (uint32_t turn = 0; turn < 2; turn++)
        if (other->headers[turn].number > last.number) last = other->headers[turn];
    last.detail[sizeof last.detail - 1] = '\0';
    char what[HEADER_TEXT_BYTES];
    header_write(&last, what);
    if (atomic_load(&other->state) == SHARED_MEMORY_ABSENT) text_append(t, "it never joined");
    else if (last.number == 0) text_append(t, "it has called nothing");
    else text_printf(t, "its last is operation %" PRIu64 " %s", last.number, what);
}

spyre_status comm_late_ranks(const spyre_comm *c, const comm_header *h, int64_t waited_ms)
{
    char place[COMM_PLACE_BYTES];
    comm_place(c, h, place);
    text t = {0};
    for (uint32_t r = 0; r < c->shared.size; r++) {
        if (comm_has_come(c, r)) continue;
        text_printf(&t, "%srank %u has not come (", t.length ? ", " : "", r);
        write_last(c, r, &t);
        text_append(&t, ")");
    }
    spyre_status status = status_new(SPYRE_IO, "%s: timed out after %" PRId64 " ms: %s", place,
                                     waited_ms, text_string(&t));
    text_free(&t);
    return status;
}

// Arguments that broke a rule were those of the call that failed, not theirs.
static spyre_status as_later_calls_see_it(spyre_status reason)
{
    spyre_code code = spyre_status_code(reason);
    if (code == SPYRE_INVALID_ARGUMENT || code == SPYRE_UNSUPPORTED) code = SPYRE_IO;
    return status_new(code, "%s", spyre_status_message(reason));
}

void comm_break(spyre_comm *c, spyre_status reason)
{
    pthread_mutex_lock(&c->lock);
    if (!c->broken) c->broken = as_later_calls_see_it(reason);
    pthread_mutex_unlock(&c->lock);
    shared_memory_fail(&c->shared, reason);
    shared_memory_ring(&c->shared, c->shared.rank, COMM_BELL_COLLECTIVES);
    shared_memory_ring(&c->shared, c->shared.rank, COMM_BELL_MESSAGES);
}

void spyre_comm_abort(spyre_comm *c, const char *reason)
{
    spyre_status status = status_new(SPYRE_CANCELLED, "rank %u (of %u) aborted: %s", c->shared.rank,
                                     c->shared.size, reason);
    comm_break(c, status);
    spyre_status_free(status);
}
