// SPDX-License-Identifier: Apache-2.0
//
// What the host's registers can do: fp32 multiply-adds on independent accumulators, no memory. With
// --read, what comes from memory: each thread reads a buffer of its own, larger than caches are.
//
//     host_peak [--read] [threads..]
//
// One line a thread count, "threads GFLOP/s" or "threads GB/s"; default 1 and all.
//
// Time is the thread's own, so that other load on the machine takes little away; the best of many
// short runs counts. A multiply-add is two operations.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SUMS = 12, STEPS = 100000, RUNS = 60, MOST_THREADS = 256 };
enum { READ_BYTES = 256 << 20, READ_RUNS = 12 };

typedef struct {
    pthread_t handle;
    double best;                    // GFLOP/s or GB/s
    bool reads;
} runner;

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

// The sums pass through an empty statement, so that the compiler keeps every step.
#define PEAK(name, features, width, constraint)                                              \
    features static double name(void)                                                        \
    {                                                                                        \
        typedef float vector __attribute__((vector_size(4 * (width))));                      \
        vector sum[SUMS] = {0}, x = {0}, y = {0};                                             \
        double begin = seconds();                                                            \
        for (int step = 0; step < STEPS; step++) {                                           \
            _Pragma("GCC unroll 12")                                                         \
            for (int n = 0; n < SUMS; n++) {                                                 \
                sum[n] = sum[n] + x * y;                                                     \
                __asm__ volatile("" : "+" constraint(sum[n]), "+" constraint(x));            \
            }                                                                                \
        }                                                                                    \
        return 2.0 * SUMS * STEPS * (width) / (seconds() - begin) / 1e9;                     \
    }

#if defined(__x86_64__)
PEAK(peak_avx512, __attribute__((target("avx512f,fma"), optimize("fp-contract=fast"))), 16, "v")
PEAK(peak_avx2, __attribute__((target("avx2,fma"), optimize("fp-contract=fast"))), 8, "x")
PEAK(peak_portable, , 4, "x")
#else
PEAK(peak_portable, , 4, "w")
#endif

static double peak(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) return peak_avx512();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return peak_avx2();
#endif
    return peak_portable();
}

// Lines of a cache by their first words: what is read from memory does not depend on the rest.
static double read_rate(const uint64_t *words)
{
    enum { LINE = 8, LINES = 8, COUNT = READ_BYTES / 8 };
    uint64_t sum[LINES] = {0};
    double begin = seconds();
    for (size_t at = 0; at < COUNT; at += (size_t)LINE * LINES)
        for (size_t n = 0; n < LINES; n++) sum[n] += words[at + n * LINE];
    for (int n = 0; n < LINES; n++) __asm__ volatile("" : : "r"(sum[n]));
    return READ_BYTES / (seconds() - begin) / 1e9;
}

static void *run(void *argument)
{
    runner *self = argument;
    uint64_t *words = self->reads ? malloc(READ_BYTES) : NULL;
    if (self->reads && !words) return NULL;
    if (words) memset(words, 1, READ_BYTES);
    for (int n = 0; n < (words ? READ_RUNS : RUNS); n++) {
        double now = words ? read_rate(words) : peak();
        if (now > self->best) self->best = now;
    }
    free(words);
    return NULL;
}

static int measure(int threads, bool reads)
{
    runner runners[MOST_THREADS] = {0};
    double sum = 0;
    for (int n = 0; n < threads; n++) {
        runners[n].reads = reads;
        if (pthread_create(&runners[n].handle, NULL, run, &runners[n]) != 0) return 1;
    }
    for (int n = 0; n < threads; n++) {
        pthread_join(runners[n].handle, NULL);
        sum += runners[n].best;
    }
    printf("%d %.1f\n", threads, sum);
    return 0;
}

static int refuse(const char *text)
{
    fprintf(stderr, "threads '%s': expected 1..%d\n", text, MOST_THREADS);
    return 2;
}

int main(int count, char **words)
{
    bool reads = count > 1 && strcmp(words[1], "--read") == 0;
    int first = reads ? 2 : 1;
    for (int n = first; n < count; n++) {
        char *end;
        long threads = strtol(words[n], &end, 10);
        if (*end || threads < 1 || threads > MOST_THREADS) return refuse(words[n]);
        if (measure((int)threads, reads) != 0) return 1;
    }
    if (count > first) return 0;
    cpu_set_t cores;
    int all = sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
    if (measure(1, reads) != 0) return 1;
    return all > 1 ? measure(all < MOST_THREADS ? all : MOST_THREADS, reads) : 0;
}
