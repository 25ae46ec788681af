// SPDX-License-Identifier: Apache-2.0
//
// What a rank reads of others: the text of the meeting in the store, headers of operations in
// shared memory, the slot of a message, and frames from the network. The input changes good ones:
// three bytes a change, place (modulo the whole) and value. What is accepted can be compared,
// printed, received and written again.
#include "comm/comm.h"
#include "comm/network.h"
#include "comm/rendezvous.h"
#include "fuzz/fuzz.h"

enum { SIZE = 3 };

static void try_meeting(const char *value, size_t length)
{
    meeting m, again;
    char text[MEETING_TEXT_BYTES];
    if (!fuzz_ok(meeting_read(value, length, &m))) return;
    FUZZ_HOLDS(m.size >= 1 && m.size <= SPYRE_COMM_MOST_RANKS);
    meeting_write(&m, text);
    fuzz_must(meeting_read(text, strlen(text), &again));
    FUZZ_HOLDS(memcmp(&m, &again, sizeof m) == 0);
}

// Three bytes a change.
static void change(void *target, size_t room, const uint8_t *bytes, size_t count)
{
    for (size_t at = 0; at + 3 <= count; at += 3)
        ((uint8_t *)target)[((size_t)bytes[at] + (size_t)bytes[at + 1] * 256) % room] =
            bytes[at + 2];
}

static comm_header good_header(spyre_comm_kind kind, comm_lists *lists)
{
    static const uint64_t counts[SIZE] = {2, 3, 5};
    spyre_comm_call call = {.kind = kind, .format = SPYRE_FORMAT_IEEE_FP32, .count = 7,
                            .root = 1, .detail = "float32[7]"};
    if (kind == SPYRE_COMM_ALL_TO_ALL) call.send_counts = call.receive_counts = counts;
    comm_header h;
    header_of_call(&call, SIZE, &h, lists);
    h.number = 1;
    return h;
}

static void try_headers(const uint8_t *bytes, size_t count)
{
    struct {
        comm_header headers[SIZE];
        comm_lists lists[SIZE];
    } all = {0};
    char text[HEADER_TEXT_BYTES];
    spyre_comm_kind kind = (spyre_comm_kind)(count % SPYRE_COMM_KIND_COUNT);
    for (uint32_t r = 0; r < SIZE; r++) all.headers[r] = good_header(kind, &all.lists[r]);
    change(&all, sizeof all, bytes, count);
    for (uint32_t r = 0; r < SIZE; r++) {
        if (!fuzz_ok(header_check(&all.headers[r], &all.lists[r], r, SIZE))) return;
        header_write(&all.headers[r], text);
        FUZZ_HOLDS(memchr(text, 0, sizeof text));
    }
    fuzz_ok(header_compare(all.headers, all.lists, SIZE));
}

// A receive of 7 elements from a slot that another rank may have filled with anything.
static void try_slot(const uint8_t *bytes, size_t count)
{
    static spyre_comm c;
    static bool made;
    float values[7];
    comm_lists lists;
    if (!made) {
        fuzz_must(shared_memory_create(1, SIZE, &c.shared));
        pthread_mutex_init(&c.lock, NULL);
        c.messages_end = &c.messages;
        c.timeout_ms = 1000000;
        made = true;
    }
    shared_memory_slot *slot = shared_memory_slot_of(&c.shared, 0, 1, 0);
    memset(slot, 0, sizeof *slot);
    slot->header = good_header(SPYRE_COMM_SEND, &lists);
    slot->state = SLOT_POSTED;
    slot->written = sizeof values;
    change(slot, sizeof *slot, bytes, count);
    spyre_request r = {.comm = &c, .call = {.kind = SPYRE_COMM_RECEIVE, .root = 0, .count = 7,
                                            .format = SPYRE_FORMAT_IEEE_FP32, .output = values}};
    header_of_call(&r.call, SIZE, &r.header, &r.lists);
    r.header.signature = slot->header.signature;
    send_receive_add(&c, &r);
    spyre_request *ended;
    send_receive_drive(&c, &ended);
    if (ended) fuzz_ok(r.error);
    else FUZZ_HOLDS(c.messages == &r);
    c.messages = NULL;
    c.messages_end = &c.messages;
}

// A frame from the network: what is accepted lies in the shared memory, outside of what this rank
// writes.
static void try_frame(const uint8_t *bytes, size_t count)
{
    static shared_memory s;
    if (!s.base) fuzz_must(shared_memory_create(1, SIZE, &s));
    uint64_t state = 2 * sizeof(shared_memory_rank) + offsetof(shared_memory_rank, state);
    network_frame frame = {state, 8, (uint32_t)(count % FRAME_KINDS)};
    change(&frame, sizeof frame, bytes, count);
    if (!fuzz_ok(network_check_frame(&s, 2, &frame)) || frame.kind >= FRAME_RING) return;
    FUZZ_HOLDS(frame.bytes && frame.at < s.bytes && frame.bytes <= s.bytes - frame.at);
    uint64_t own = sizeof(shared_memory_rank);
    FUZZ_HOLDS(frame.at >= own + sizeof(shared_memory_rank) || frame.at + frame.bytes <= own);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    char good[MEETING_TEXT_BYTES];
    meeting m = {.size = SIZE, .socket = "spyre0123456789abcdef", .host = "boot/net:[4026531840]",
                 .port = 40000, .addresses = "192.0.2.1,10.0.0.7"};
    try_meeting((const char *)bytes, count);
    meeting_write(&m, good);
    size_t length = strlen(good);
    change(good, length, bytes, count);
    try_meeting(good, length);
    try_headers(bytes, count);
    try_slot(bytes, count);
    try_frame(bytes, count);
    return 0;
}
