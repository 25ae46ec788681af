// SPDX-License-Identifier: Apache-2.0
//
// From proc(5): /proc/stat has jiffies by state (user, nice, system, idle, iowait, irq, softirq,
// steal), /proc/meminfo kilobytes.
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "smi.h"

double smi_host_cpu(smi_host *last)
{
    double v[8] = {0}, all = 0;
    FILE *file = fopen("/proc/stat", "r");
    if (!file) return NAN;
    int count = fscanf(file, "cpu %lf %lf %lf %lf %lf %lf %lf %lf", &v[0], &v[1], &v[2], &v[3],
                       &v[4], &v[5], &v[6], &v[7]);
    fclose(file);
    if (count < 4) return NAN;
    for (int n = 0; n < count; n++) all += v[n];
    double busy = all - v[3] - v[4];
    double part = all > last->all ? (busy - last->busy) / (all - last->all) : 0;
    last->busy = busy;
    last->all = all;
    // iowait may go backwards (proc(5)), which makes the part of the others too large.
    return 100 * (part < 1 ? part : 1) * (double)sysconf(_SC_NPROCESSORS_ONLN);
}

double smi_host_memory(void)
{
    double total = 0, available = -1, value;
    char line[128];
    FILE *file = fopen("/proc/meminfo", "r");
    if (!file) return NAN;
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "MemTotal: %lf", &value) == 1) total = value;
        if (sscanf(line, "MemAvailable: %lf", &value) == 1) available = value;
    }
    fclose(file);
    return total > 0 && available >= 0 ? 100 * (1 - available / total) : NAN;
}

int64_t smi_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

bool smi_process_lives(int64_t process)
{
    return process > 0 && process <= INT32_MAX && (kill((pid_t)process, 0) == 0 || errno == EPERM);
}
