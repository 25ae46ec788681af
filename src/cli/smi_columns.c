// SPDX-License-Identifier: Apache-2.0
//
// The columns by groups, in torch-spyre's order (RFC 2696 of torch-spyre/RFCs).
#include <math.h>
#include <string.h>
#include <time.h>

#include "smi.h"

enum { STICK_BYTES = 128 };

// --- Values; NAN is printed as "-"

static double none(const smi_interval *i)
{
    (void)i;
    return NAN;
}

static double host_cpu(const smi_interval *i) { return i->host_cpu; }
static double host_memory(const smi_interval *i) { return i->host_memory; }

static double busy_until(const spyre_metrics *m, int64_t now_ns)
{
    double under_way = m->launch_begin_ns ? (double)now_ns - (double)m->launch_begin_ns : 0;
    return ((double)m->busy_ns + under_way) * 1e-3;
}

static double busy(const smi_interval *i)
{
    if (!i->alive || i->wall_us <= 0) return 0;
    int64_t before_ns = i->now_ns - (int64_t)(i->wall_us * 1e3);
    double us = busy_until(i->now, i->now_ns) - busy_until(i->before, before_ns);
    double percent = 100 * us / i->wall_us;
    return percent < 0 ? 0 : percent > 100 ? 100 : percent;
}

// Per second of the card's time.
static double rate(const smi_interval *i, int64_t before, int64_t now)
{
    double us = i->now->clock_us - i->before->clock_us;
    return us > 0 ? ((double)now - (double)before) / us * 1e6 : 0;
}

#define RATE(name, member, scale)                                               \
    static double name(const smi_interval *i)                                   \
    {                                                                           \
        return rate(i, i->before->member, i->now->member) * (scale);            \
    }
RATE(rdmem, memory_read_bytes, 1e-9)
RATE(wrmem, memory_written_bytes, 1e-9)
RATE(rxpci, received_bytes, 1e-9)
RATE(txpci, sent_bytes, 1e-9)
RATE(n_rdmem, memory_read_bytes, 1.0 / STICK_BYTES)
RATE(n_wrmem, memory_written_bytes, 1.0 / STICK_BYTES)
RATE(n_rxpci, receipts, 1)
RATE(n_txpci, sendings, 1)
RATE(rdrdma, rdma_received_bytes, 1e-9)
RATE(wrrdma, rdma_sent_bytes, 1e-9)
RATE(n_rdrdma, rdma_receipts, 1)
RATE(n_wrrdma, rdma_sendings, 1)

static double gib(const smi_interval *i, int64_t bytes)
{
    return i->alive ? (double)bytes / (1 << 30) : 0;
}

static double rsvmem(const smi_interval *i) { return gib(i, i->now->reserved_bytes); }
static double actmem(const smi_interval *i) { return gib(i, i->now->allocated_bytes); }
static double peakmem(const smi_interval *i) { return gib(i, i->now->peak_bytes); }

static double pt_active(const smi_interval *i)
{
    double us = i->now->compute_us - i->before->compute_us;
    return us > 0 ? 100 * (i->now->pt_busy_us - i->before->pt_busy_us) / us : 0;
}

#define SEGMENT(n) \
    static double seg##n(const smi_interval *i) { return gib(i, i->now->segment_bytes[n]); }
SEGMENT(0) SEGMENT(1) SEGMENT(2) SEGMENT(3) SEGMENT(4) SEGMENT(5) SEGMENT(6)

// --- The table

static const struct {
    const char *name;
    char group;                     // of -g; ' ' is always shown
    int width, decimals;
    double (*value)(const smi_interval *i);
} columns[] = {
    {"hostcpu", ' ', 7, 1, host_cpu}, {"hostmem", ' ', 7, 1, host_memory},
    {"pwr", ' ', 6, 1, none},         {"gtemp", ' ', 6, 1, none},
    {"busy", ' ', 6, 0, busy},        {"rdmem", 'D', 8, 3, rdmem},
    {"wrmem", 'D', 8, 3, wrmem},      {"rxpci", 'D', 8, 3, rxpci},
    {"txpci", 'D', 8, 3, txpci},      {"rdrdma", 'D', 8, 3, rdrdma},
    {"wrrdma", 'D', 8, 3, wrrdma},   {"n_rdmem", 'R', 12, 0, n_rdmem},
    {"n_wrmem", 'R', 12, 0, n_wrmem}, {"n_rxpci", 'R', 9, 0, n_rxpci},
    {"n_txpci", 'R', 9, 0, n_txpci},  {"n_rdrdma", 'R', 9, 0, n_rdrdma},
    {"n_wrrdma", 'R', 9, 0, n_wrrdma}, {"rsvmem", 'M', 8, 3, rsvmem},
    {"actmem", 'U', 8, 3, actmem},    {"peakmem", 'U', 8, 3, peakmem},
    {"pt_active", 'P', 9, 1, pt_active},
    {"seg0", 'S', 8, 3, seg0},        {"seg1", 'S', 8, 3, seg1},
    {"seg2", 'S', 8, 3, seg2},        {"seg3", 'S', 8, 3, seg3},
    {"seg4", 'S', 8, 3, seg4},        {"seg5", 'S', 8, 3, seg5},
    {"seg6", 'S', 8, 3, seg6},
};
enum { COLUMNS = sizeof columns / sizeof *columns };

static bool is_shown(char group, const char *groups)
{
    return group == ' ' || strchr(groups, group) || strchr(groups, 'A');
}

bool smi_is_group(char group)
{
    bool found = group == 'A';
    for (int n = 0; n < COLUMNS; n++) found = found || (columns[n].group == group && group != ' ');
    return found;
}

void smi_print_header(FILE *to, const char *groups, bool csv)
{
    fputs(csv ? "#ID,Date,Time" : "#ID Date     Time    ", to);
    for (int n = 0; n < COLUMNS; n++) {
        if (!is_shown(columns[n].group, groups)) continue;
        if (csv) fprintf(to, ",%s", columns[n].name);
        else fprintf(to, " %*s", columns[n].width, columns[n].name);
    }
    fputc('\n', to);
}

void smi_print_row(FILE *to, const char *groups, bool csv, uint32_t id, const smi_interval *i)
{
    char day[16], hour[16];
    time_t now = time(NULL);
    struct tm local;
    localtime_r(&now, &local);
    strftime(day, sizeof day, "%Y%m%d", &local);
    strftime(hour, sizeof hour, "%H:%M:%S", &local);
    fprintf(to, csv ? "%u,%s,%s" : "%3u %s %s", id, day, hour);
    for (int n = 0; n < COLUMNS; n++) {
        if (!is_shown(columns[n].group, groups)) continue;
        double value = columns[n].value(i);
        int width = csv ? 0 : columns[n].width;
        fputc(csv ? ',' : ' ', to);
        if (isnan(value)) fprintf(to, "%*s", width, "-");
        else fprintf(to, "%*.*f", width, columns[n].decimals, value);
    }
    fputc('\n', to);
    fflush(to);
}
