// SPDX-License-Identifier: Apache-2.0
//
// Four processes that exchange numbers by the public C interface alone: spyre/comm.h, the shared
// library, and a store that is a page of memory here.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "spyre/comm.h"
#include "spyre/status.h"

enum { RANKS = 4, COUNT = 5000, KEYS = 2, VALUE_BYTES = 1024 };

typedef struct {
    _Atomic size_t length;
    char key[64], value[VALUE_BYTES];
} entry;

static entry *entries;          // each written once, by one process

static void expect(int holds, const char *what)
{
    if (holds) return;
    fprintf(stderr, "FAILED: %s\n", what);
    _exit(1);
}

static void must(spyre_status status, const char *what)
{
    if (!status) return;
    fprintf(stderr, "%s: %s\n", what, spyre_status_message(status));
    _exit(1);
}

static bool set_key(void *context, const char *key, const void *bytes, size_t count,
                    char out_error[256])
{
    (void)out_error;
    // Each communicator has one key: that of the world "world/..", of its part "world/../..".
    entry *e = (entry *)context + (strchr(key, '/') != strrchr(key, '/'));
    if (count > VALUE_BYTES || strlen(key) >= sizeof e->key) return false;
    strcpy(e->key, key);
    memcpy(e->value, bytes, count);
    e->length = count;
    return true;
}

static bool get_key(void *context, const char *key, int64_t timeout_ms, void *buffer,
                    size_t capacity, size_t *out_count, char out_error[256])
{
    for (int64_t ms = 0; ms < timeout_ms; ms++, usleep(1000))
        for (int i = 0; i < KEYS; i++) {
            entry *e = (entry *)context + i;
            if (!e->length || strcmp(e->key, key) || e->length > capacity) continue;
            memcpy(buffer, e->value, *out_count = e->length);
            return true;
        }
    snprintf(out_error, 256, "no such key");
    return false;
}

static void reduce(spyre_comm *comm, uint32_t rank)
{
    static float values[COUNT];
    for (int i = 0; i < COUNT; i++) values[i] = (float)(rank + 1) * (float)(i % 9);
    spyre_comm_call call = {.kind = SPYRE_COMM_ALL_REDUCE, .format = SPYRE_FORMAT_IEEE_FP32,
                            .count = COUNT, .input = values, .output = values};
    must(spyre_comm_run(comm, &call), "all-reduce");
    for (int i = 0; i < COUNT; i++) expect(values[i] == 10 * (float)(i % 9), "a sum");
}

static void gather_meanwhile(spyre_comm *comm, uint32_t rank)
{
    int32_t own = (int32_t)(rank * rank), all[RANKS];
    spyre_request *request;
    spyre_comm_call call = {.kind = SPYRE_COMM_ALL_GATHER, .format = SPYRE_FORMAT_IEEE_INT32,
                            .count = 1, .input = &own, .output = all};
    must(spyre_comm_start(comm, &call, &request), "start");
    must(spyre_request_wait(request, 0), "wait");
    expect(spyre_request_test(request), "a request that has ended");
    spyre_request_free(request);
    for (int r = 0; r < RANKS; r++) expect(all[r] == r * r, "a gathered number");
}

static void pass_around(spyre_comm *comm, uint32_t rank)
{
    int32_t own = 100 + (int32_t)rank, other = 0;
    spyre_request *request;
    spyre_comm_call call = {.kind = SPYRE_COMM_SEND, .format = SPYRE_FORMAT_IEEE_INT32, .count = 1,
                            .root = (rank + 1) % RANKS, .input = &own, .output = &other};
    must(spyre_comm_start(comm, &call, &request), "send");
    call.kind = SPYRE_COMM_RECEIVE;
    call.root = (rank + RANKS - 1) % RANKS;
    must(spyre_comm_run(comm, &call), "receive");
    must(spyre_request_wait(request, 0), "wait");
    spyre_request_free(request);
    expect(other == 100 + (int32_t)call.root, "a message");
}

static void be_rank(uint32_t rank)
{
    spyre_comm_store store = {entries, set_key, get_key};
    spyre_comm_options options = {rank, RANKS, "world", 30000, NULL};
    spyre_comm *comm, *pair;
    must(spyre_comm_create(&options, &store, &comm), "create");
    expect(spyre_comm_rank(comm) == rank && spyre_comm_size(comm) == RANKS, "rank and size");
    reduce(comm, rank);
    gather_meanwhile(comm, rank);
    pass_around(comm, rank);
    spyre_comm_call wrong = {.kind = SPYRE_COMM_BROADCAST, .root = RANKS, .count = 1,
                             .format = SPYRE_FORMAT_IEEE_INT32, .input = &rank, .output = &rank};
    spyre_status refused = spyre_comm_run(comm, &wrong);
    expect(spyre_status_code(refused) == SPYRE_INVALID_ARGUMENT, "a root beyond the ranks");
    spyre_status_free(refused);
    must(spyre_comm_split(comm, rank == 0 ? UINT32_MAX : 0, 0, &pair), "split");
    expect(!pair == (rank == 0) && (!pair || spyre_comm_size(pair) == RANKS - 1), "a part");
    spyre_comm_destroy(pair);
    spyre_comm_destroy(comm);
    _exit(0);
}

int main(void)
{
    entries = mmap(NULL, KEYS * sizeof *entries, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (entries == MAP_FAILED) return 1;
    for (uint32_t rank = 0; rank < RANKS; rank++)
        if (fork() == 0) be_rank(rank);
    int failed = 0;
    for (int state; wait(&state) > 0;) failed |= state != 0;
    return failed;
}
