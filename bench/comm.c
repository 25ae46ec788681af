// SPDX-License-Identifier: Apache-2.0
//
// All-reduces of float16 by include/spyre/comm.h alone, beside a copy in each process of the bytes
// that an ideal one moves: 2 (n - 1) / n of the tensor a rank. `bench_comm [RANKS [TURNS [HOSTS]]]`
// starts the ranks as processes of this host, as if they were on several ones, and prints for each
// size the least mean of the turns; a turn takes until the last rank has ended.
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "spyre/comm.h"
#include "spyre/status.h"

enum { LARGEST = 64 << 20, MEETING_BYTES = 1024 };

// The only key of the store is rank 0's.
typedef struct {
    _Atomic size_t length;
    char value[MEETING_BYTES];
} meeting_place;

static const struct {
    const char *name;
    size_t bytes;
    int calls;
} CASES[] = {{"8 B", 8, 2000}, {"4 KiB", 4 << 10, 1000}, {"16 KiB", 16 << 10, 500},
             {"64 KiB", 64 << 10, 300}, {"1 MiB", 1 << 20, 40}, {"64 MiB", LARGEST, 1}};

static bool set_key(void *context, const char *key, const void *bytes, size_t count,
                    char out_error[256])
{
    meeting_place *m = context;
    (void)key, (void)out_error;
    if (count > MEETING_BYTES) return false;
    memcpy(m->value, bytes, count);
    m->length = count;
    return true;
}

static bool get_key(void *context, const char *key, int64_t timeout_ms, void *buffer,
                    size_t capacity, size_t *out_count, char out_error[256])
{
    meeting_place *m = context;
    (void)key, (void)out_error;
    for (int64_t ms = 0; !m->length && ms < timeout_ms; ms++) usleep(1000);
    if (!m->length || m->length > capacity) return false;
    memcpy(buffer, m->value, *out_count = m->length);
    return true;
}

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void demand(spyre_status error)
{
    if (!error) return;
    fprintf(stderr, "%s\n", spyre_status_message(error));
    exit(1);
}

static void meet(spyre_comm *c)
{
    spyre_comm_call barrier = {.kind = SPYRE_COMM_BARRIER};
    demand(spyre_comm_run(c, &barrier));
}

// The longest of all ranks.
static double of_last(spyre_comm *c, double us)
{
    float longest = (float)us;
    spyre_comm_call call = {.kind = SPYRE_COMM_ALL_REDUCE, .format = SPYRE_FORMAT_IEEE_FP32,
                            .reduction = SPYRE_REDUCE_MAX, .count = 1, .input = &longest,
                            .output = &longest};
    demand(spyre_comm_run(c, &call));
    return (double)longest;
}

// Microseconds a call, the mean of `calls`.
static double reduce_us(spyre_comm *c, void *tensor, size_t bytes, int calls)
{
    spyre_comm_call call = {.kind = SPYRE_COMM_ALL_REDUCE, .format = SPYRE_FORMAT_SEN169_FP16,
                            .count = bytes / 2, .input = tensor, .output = tensor};
    meet(c);
    double began = now_us();
    for (int i = 0; i < calls; i++) demand(spyre_comm_run(c, &call));
    return of_last(c, (now_us() - began) / calls);
}

static double copy_us(spyre_comm *c, void *target, const void *source, size_t bytes, int calls)
{
    meet(c);
    double began = now_us();
    for (int i = 0; i < calls; i++) {
        memcpy(target, source, bytes);
        __asm__ volatile("" ::: "memory");      // every copy is made
    }
    return of_last(c, (now_us() - began) / calls);
}

static void measure(spyre_comm *c, uint32_t size, int turns, uint8_t *tensor, uint8_t *other)
{
    for (size_t n = 0; n < sizeof CASES / sizeof CASES[0]; n++) {
        size_t moved = CASES[n].bytes * 2 * (size - 1) / size;
        double reduce = 1e30, copy = 1e30;
        for (int turn = 0; turn < turns; turn++) {
            double us = reduce_us(c, tensor, CASES[n].bytes, CASES[n].calls);
            if (us < reduce) reduce = us;
            us = copy_us(c, other, tensor, moved, CASES[n].calls);
            if (us < copy) copy = us;
        }
        if (spyre_comm_rank(c) == 0)
            printf("%7s %6u %14.1f %10.1f %12.2f\n", CASES[n].name, size, reduce, copy,
                   copy / reduce);
    }
}

static void be_rank(uint32_t rank, uint32_t size, int turns, uint32_t hosts, meeting_place *m)
{
    char host[16];
    snprintf(host, sizeof host, "%u", rank * hosts / size);
    if (hosts > 1) setenv("SPYRE_COMM_HOST", host, 1);
    spyre_comm_store store = {m, set_key, get_key};
    spyre_comm_options options = {rank, size, "bench", 60000, NULL};
    spyre_comm *c = NULL;
    uint8_t *tensor = calloc(2, LARGEST), *other = calloc(2, LARGEST);
    if (!tensor || !other) exit(1);
    memset(tensor, 0, 2 * (size_t)LARGEST);
    memset(other, 0, 2 * (size_t)LARGEST);
    demand(spyre_comm_create(&options, &store, &c));
    measure(c, size, turns, tensor, other);
    spyre_comm_destroy(c);
    free(tensor);
    free(other);
    fflush(stdout);
    _exit(0);
}

int main(int count, char **arguments)
{
    int size = count > 1 ? atoi(arguments[1]) : 2, turns = count > 2 ? atoi(arguments[2]) : 5;
    int hosts = count > 3 ? atoi(arguments[3]) : 1;
    if (size < 2 || size > SPYRE_COMM_MOST_RANKS || turns < 1 || hosts < 1 || hosts > size) {
        fprintf(stderr, "bench_comm [RANKS [TURNS [HOSTS]]]: 2 to %d ranks\n",
                SPYRE_COMM_MOST_RANKS);
        return 2;
    }
    meeting_place *m = mmap(NULL, sizeof *m, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                            -1, 0);
    if (m == MAP_FAILED) return 1;
    printf("float16  ranks  all-reduce us    copy us  copy/reduce\n");
    fflush(stdout);
    int failed = 0;
    for (int r = 0; r < size; r++)
        if (fork() == 0) be_rank((uint32_t)r, (uint32_t)size, turns, (uint32_t)hosts, m);
    for (int state; wait(&state) > 0;) failed |= state != 0;
    return failed;
}
