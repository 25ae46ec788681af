// SPDX-License-Identifier: Apache-2.0
//
// `spyre smi`: its columns (smi_columns.c) and what it asks the host (smi_host.c).
#ifndef CLI_SMI_H
#define CLI_SMI_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "spyre/metrics.h"

// Between two samples of a card.
typedef struct {
    const spyre_metrics *before, *now;
    double wall_us;
    double host_cpu, host_memory;   // percent; of one processor, of all memory
    int64_t now_ns;                 // CLOCK_MONOTONIC
    bool alive;                     // the process is still there
} smi_interval;

bool smi_is_group(char group);      // a letter of -g

// `groups` are letters of -g; "A" is all of them.
void smi_print_header(FILE *to, const char *groups, bool csv);
void smi_print_row(FILE *to, const char *groups, bool csv, uint32_t id, const smi_interval *i);

// Totals of the host's processors; what a call adds to the last, as percent of one.
typedef struct {
    double busy, all;
} smi_host;
double smi_host_cpu(smi_host *last);
double smi_host_memory(void);
int64_t smi_now_ns(void);
bool smi_process_lives(int64_t process);

#endif
