// SPDX-License-Identifier: Apache-2.0
//
// What the host's registers can do: fp32 multiply-adds on independent accumulators, no memory.
//
//     host_peak [threads..]     one line a thread count: "threads GFLOP/s"; default 1 and all
//
// Time is the thread's own, so that other load on the machine takes little away; the best of many
// short runs counts. A multiply-add is two operations.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { SUMS = 12, STEPS = 100000, RUNS = 60, MOST_THREADS = 256 };

typedef struct {
    pthread_t handle;
    double gflops;
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

static void *run(void *argument)
{
    runner *self = argument;
    for (int n = 0; n < RUNS; n++) {
        double now = peak();
        if (now > self->gflops) self->gflops = now;
    }
    return NULL;
}

static int measure(int threads)
{
    runner runners[MOST_THREADS] = {0};
    double sum = 0;
    for (int n = 0; n < threads; n++)
        if (pthread_create(&runners[n].handle, NULL, run, &runners[n]) != 0) return 1;
    for (int n = 0; n < threads; n++) {
        pthread_join(runners[n].handle, NULL);
        sum += runners[n].gflops;
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
    for (int n = 1; n < count; n++) {
        char *end;
        long threads = strtol(words[n], &end, 10);
        if (*end || threads < 1 || threads > MOST_THREADS) return refuse(words[n]);
        if (measure((int)threads) != 0) return 1;
    }
    if (count > 1) return 0;
    cpu_set_t cores;
    int all = sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
    return measure(1) || (all > 1 && measure(all < MOST_THREADS ? all : MOST_THREADS));
}
