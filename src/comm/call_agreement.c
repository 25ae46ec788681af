// SPDX-License-Identifier: Apache-2.0
#include "comm/call_agreement.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "comm/combine.h"

// Above it a product with ranks or bytes of an element could wrap around.
#define MOST_ELEMENTS (UINT64_C(1) << 52)

const char *spyre_comm_kind_name(spyre_comm_kind kind)
{
    switch (kind) {
    case SPYRE_COMM_BARRIER: return "barrier";
    case SPYRE_COMM_BROADCAST: return "broadcast";
    case SPYRE_COMM_GATHER: return "gather";
    case SPYRE_COMM_SCATTER: return "scatter";
    case SPYRE_COMM_ALL_GATHER: return "all_gather";
    case SPYRE_COMM_REDUCE: return "reduce";
    case SPYRE_COMM_ALL_REDUCE: return "all_reduce";
    case SPYRE_COMM_REDUCE_SCATTER: return "reduce_scatter";
    case SPYRE_COMM_ALL_TO_ALL: return "all_to_all";
    case SPYRE_COMM_SEND: return "send";
    case SPYRE_COMM_RECEIVE: return "receive";
    case SPYRE_COMM_KIND_COUNT: break;
    }
    return "?";
}

static bool reduces(uint32_t kind)
{
    return kind == SPYRE_COMM_REDUCE || kind == SPYRE_COMM_ALL_REDUCE ||
           kind == SPYRE_COMM_REDUCE_SCATTER;
}

static bool rooted(uint32_t kind)
{
    return kind == SPYRE_COMM_BROADCAST || kind == SPYRE_COMM_GATHER ||
           kind == SPYRE_COMM_SCATTER || kind == SPYRE_COMM_REDUCE;
}

static bool between_two(uint32_t kind)
{
    return kind == SPYRE_COMM_SEND || kind == SPYRE_COMM_RECEIVE;
}

void header_of_call(const spyre_comm_call *call, uint32_t size, comm_header *h, comm_lists *lists)
{
    memset(h, 0, sizeof *h);
    h->kind = (uint32_t)call->kind;
    if (call->kind == SPYRE_COMM_BARRIER) return;
    h->format = (uint32_t)call->format;
    h->reduction = reduces(h->kind) ? (uint32_t)call->reduction : 0;
    h->root = rooted(h->kind) || between_two(h->kind) ? call->root : 0;
    h->tag = between_two(h->kind) ? call->tag : 0;
    h->count = call->count;
    h->signature = call->signature;
    if (call->detail) snprintf(h->detail, sizeof h->detail, "%s", call->detail);
    if (call->kind != SPYRE_COMM_ALL_TO_ALL) return;
    h->listed = call->send_counts != NULL;
    for (uint32_t r = 0; r < size; r++) {
        lists->send[r] = h->listed ? call->send_counts[r] : call->count;
        lists->receive[r] = h->listed ? call->receive_counts[r] : call->count;
    }
}

static spyre_status check_lists(const comm_lists *lists, uint32_t size)
{
    uint64_t sent = 0, received = 0;
    for (uint32_t r = 0; r < size; r++) {
        if (lists->send[r] > MOST_ELEMENTS || lists->receive[r] > MOST_ELEMENTS)
            return status_new(SPYRE_INVALID_ARGUMENT,
                              "all_to_all: %" PRIu64 " and %" PRIu64 " elements for rank %u: at "
                              "most 2^52", lists->send[r], lists->receive[r], r);
        sent += lists->send[r];
        received += lists->receive[r];
    }
    if (sent > MOST_ELEMENTS || received > MOST_ELEMENTS)
        return status_new(SPYRE_INVALID_ARGUMENT, "all_to_all: more than 2^52 elements in all");
    return NULL;
}

static spyre_status check_clock(double us)
{
    if (isfinite(us) && us >= 0) return NULL;
    return status_new(SPYRE_INVALID_ARGUMENT, "a clock at %g us: must be 0 or more", us);
}

spyre_status header_set_clock(comm_header *h, double us)
{
    TRY(check_clock(us));
    h->clock_us = us;
    return NULL;
}

static spyre_status check_rules(const comm_header *h, const comm_lists *lists, uint32_t rank,
                                uint32_t size)
{
    if (h->kind >= SPYRE_COMM_KIND_COUNT)
        return status_new(SPYRE_INVALID_ARGUMENT, "operation %u: must be below %u", h->kind,
                          (unsigned)SPYRE_COMM_KIND_COUNT);
    const char *name = spyre_comm_kind_name((spyre_comm_kind)h->kind);
    TRY(status_at(check_clock(h->clock_us), "%s", name));
    if (h->kind == SPYRE_COMM_BARRIER) return NULL;
    if (spyre_format_bytes((spyre_format)h->format) == 0)
        return status_new(SPYRE_INVALID_ARGUMENT, "%s: format %s has no whole bytes an element",
                          name, spyre_format_name((spyre_format)h->format));
    if (h->count > MOST_ELEMENTS)
        return status_new(SPYRE_INVALID_ARGUMENT, "%s: %" PRIu64 " elements: at most 2^52", name,
                          h->count);
    bool any = h->kind == SPYRE_COMM_RECEIVE && h->root == SPYRE_COMM_ANY;
    if (h->root >= size && !any)
        return status_new(SPYRE_INVALID_ARGUMENT, "%s: rank %u: must be below the size, %u", name,
                          h->root, size);
    if (between_two(h->kind) && h->root == rank)
        return status_new(SPYRE_INVALID_ARGUMENT, "%s: rank %u is this rank itself", name, rank);
    if (reduces(h->kind))
        TRY(comm_combine_check((spyre_reduction)h->reduction, (spyre_format)h->format));
    return h->kind == SPYRE_COMM_ALL_TO_ALL && lists ? check_lists(lists, size) : NULL;
}

static spyre_status need(bool there, const char *name, const char *argument)
{
    if (there) return NULL;
    return status_new(SPYRE_INVALID_ARGUMENT, "%s: the %s is null", name, argument);
}

static spyre_status check_buffers(const spyre_comm_call *call, const comm_lists *lists,
                                  uint32_t rank, uint32_t size)
{
    const char *name = spyre_comm_kind_name(call->kind);
    uint64_t sent = call->count, received = call->count;
    if (call->kind == SPYRE_COMM_ALL_TO_ALL) {
        sent = received = 0;
        for (uint32_t r = 0; r < size; r++) sent += lists->send[r];
        for (uint32_t r = 0; r < size; r++) received += lists->receive[r];
    }
    bool root = call->root == rank;
    bool reads = sent && call->kind != SPYRE_COMM_BARRIER && call->kind != SPYRE_COMM_RECEIVE;
    bool writes = received && call->kind != SPYRE_COMM_BARRIER && call->kind != SPYRE_COMM_SEND;
    if (call->kind == SPYRE_COMM_BROADCAST || call->kind == SPYRE_COMM_SCATTER)
        reads = reads && root;
    if (call->kind == SPYRE_COMM_GATHER || call->kind == SPYRE_COMM_REDUCE)
        writes = writes && root;
    if (call->kind == SPYRE_COMM_BROADCAST) writes = writes && !root;
    TRY(need(!reads || call->input || call->inputs, name, "input"));
    return need(!writes || call->output || call->outputs, name, "output");
}

// Blocks of `count` elements in the input and in the output of a call without lists of blocks, and
// where in the longer one of them the shorter one may lie.
typedef struct {
    uint64_t input, output, place;
} blocks;

static blocks blocks_of(const spyre_comm_call *call, uint32_t rank, uint32_t size)
{
    spyre_comm_kind kind = call->kind;
    if (kind == SPYRE_COMM_GATHER || kind == SPYRE_COMM_ALL_GATHER) return (blocks){1, size, rank};
    if (kind == SPYRE_COMM_SCATTER || kind == SPYRE_COMM_REDUCE_SCATTER)
        return (blocks){size, 1, rank};
    return (blocks){1, 1, 0};
}

static spyre_status overlapping(const char *name, const char *rule)
{
    return status_new(SPYRE_INVALID_ARGUMENT, "%s: input and output overlap: %s", name, rule);
}

static spyre_status check_overlap(const spyre_comm_call *call, const comm_lists *lists,
                                  uint32_t rank, uint32_t size)
{
    const char *name = spyre_comm_kind_name(call->kind);
    uint64_t bytes = call->count * spyre_format_bytes(call->format);
    blocks b = blocks_of(call, rank, size);
    uint64_t in = b.input * bytes, out = b.output * bytes;
    bool divides = call->kind == SPYRE_COMM_ALL_TO_ALL;
    for (uint32_t r = 0, element = spyre_format_bytes(call->format); divides && r < size; r++) {
        in = (r ? in : 0) + lists->send[r] * element;
        out = (r ? out : 0) + lists->receive[r] * element;
    }
    uintptr_t input = (uintptr_t)call->input, output = (uintptr_t)call->output;
    if (!input || !output || call->inputs || call->outputs) return NULL;
    if (input + in <= output || output + out <= input) return NULL;
    if (divides) return overlapping(name, "they must be apart");
    uint64_t place = b.place * bytes;
    bool good = b.output > 1 ? input == output + place : output == input + place;
    return good ? NULL : overlapping(name, "they must be apart, or this rank's block at its place");
}

spyre_status header_check_call(const spyre_comm_call *call, uint32_t rank, uint32_t size)
{
    if (!call->send_counts != !call->receive_counts)
        return status_new(SPYRE_INVALID_ARGUMENT,
                          "all_to_all: one list of counts without the other");
    comm_header h;
    comm_lists lists;
    header_of_call(call, size, &h, &lists);
    TRY(check_rules(&h, &lists, rank, size));
    if (call->timeout_ms < 0)
        return status_new(SPYRE_INVALID_ARGUMENT, "timeout of %" PRId64 " ms: must not be negative",
                          call->timeout_ms);
    TRY(check_buffers(call, &lists, rank, size));
    return check_overlap(call, &lists, rank, size);
}

spyre_status header_check(const comm_header *h, const comm_lists *lists, uint32_t rank,
                          uint32_t size)
{
    spyre_status wrong = NULL;
    if (!memchr(h->detail, 0, sizeof h->detail))
        wrong = status_new(SPYRE_INVALID_FORMAT, "words without end");
    if (!wrong) wrong = check_rules(h, lists, rank, size);
    if (!wrong) return NULL;
    spyre_status status = status_new(SPYRE_INVALID_FORMAT, "rank %u published a damaged header: %s",
                                     rank, spyre_status_message(wrong));
    spyre_status_free(wrong);
    return status;
}

static void add(char *out, const char *format, ...) SPYRE_PRINTF(2, 3);
static void add(char *out, const char *format, ...)
{
    size_t length = strlen(out);
    va_list values;
    va_start(values, format);
    vsnprintf(out + length, HEADER_TEXT_BYTES - length, format, values);
    va_end(values);
}

void header_write(const comm_header *h, char out_text[HEADER_TEXT_BYTES])
{
    out_text[0] = '\0';
    add(out_text, "%s(", spyre_comm_kind_name((spyre_comm_kind)h->kind));
    if (h->kind != SPYRE_COMM_BARRIER) {
        if (*h->detail) add(out_text, "%.*s, ", (int)sizeof h->detail, h->detail);
        if (!h->listed) add(out_text, "%" PRIu64 " ", h->count);
        add(out_text, "%s", spyre_format_name((spyre_format)h->format));
        if (reduces(h->kind))
            add(out_text, ", %s", spyre_reduction_name((spyre_reduction)h->reduction));
        if (rooted(h->kind)) add(out_text, ", root %u", h->root);
        if (h->kind == SPYRE_COMM_SEND) add(out_text, ", to rank %u", h->root);
        if (h->kind == SPYRE_COMM_RECEIVE && h->root == SPYRE_COMM_ANY)
            add(out_text, ", from any rank");
        else if (h->kind == SPYRE_COMM_RECEIVE)
            add(out_text, ", from rank %u", h->root);
        if (between_two(h->kind)) add(out_text, ", tag %u", h->tag);
    }
    add(out_text, ")");
}

static bool same(const comm_header *a, const comm_header *b)
{
    return a->number == b->number && a->kind == b->kind && a->format == b->format &&
           a->reduction == b->reduction && a->root == b->root && a->signature == b->signature &&
           (a->kind == SPYRE_COMM_ALL_TO_ALL || a->count == b->count);
}

static spyre_status compare_lists(const comm_header *headers, const comm_lists *lists,
                                  uint32_t size)
{
    for (uint32_t from = 0; from < size; from++)
        for (uint32_t to = 0; to < size; to++) {
            uint64_t sent = lists[from].send[to];
            uint64_t expected = lists[to].receive[from];
            if (sent != expected)
                return status_new(SPYRE_INVALID_ARGUMENT,
                                  "operation %" PRIu64 " all_to_all: rank %u sends %" PRIu64
                                  " elements to rank %u, which expects %" PRIu64,
                                  headers[0].number, from, sent, to, expected);
        }
    return NULL;
}

spyre_status header_compare(const comm_header *headers, const comm_lists *lists, uint32_t size)
{
    for (uint32_t r = 1; r < size; r++) {
        if (same(&headers[0], &headers[r])) continue;
        char first[HEADER_TEXT_BYTES], other[HEADER_TEXT_BYTES];
        header_write(&headers[0], first);
        header_write(&headers[r], other);
        return status_new(SPYRE_INVALID_ARGUMENT,
                          "ranks call different operations: rank 0 has %s as operation %" PRIu64
                          ", rank %u has %s as operation %" PRIu64,
                          first, headers[0].number, r, other, headers[r].number);
    }
    return headers[0].kind == SPYRE_COMM_ALL_TO_ALL ? compare_lists(headers, lists, size) : NULL;
}
