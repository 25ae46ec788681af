// SPDX-License-Identifier: Apache-2.0
//
// Which algorithm reduces a tensor: the one that a small cost model finds the fastest. All of them
// give the same bits (reduction_algorithms.c), so the choice is about time alone; every rank makes
// the same one, because it depends on nothing but what all ranks know alike.
#ifndef COMM_CHOOSE_ALGORITHM_H
#define COMM_CHOOSE_ALGORITHM_H

#include "spyre/comm.h"

typedef enum {
    ALGORITHM_DIRECT,       // every rank combines everything: one meeting, most arithmetic
    ALGORITHM_SLICED,       // every rank combines a slice: two meetings, least arithmetic
    ALGORITHM_CHAIN,        // one rank after the other: least traffic between hosts
    ALGORITHM_COUNT,        // none in particular
} comm_algorithm;

// Where the ranks are.
typedef struct {
    uint32_t size, hosts;
    uint32_t cores;                             // that a rank of the fullest host may use, at least
    uint8_t host_of[SPYRE_COMM_MOST_RANKS];     // 0 .. hosts - 1
    comm_algorithm forced;                      // ALGORITHM_COUNT: the fastest one
} comm_topology;

// Ranks of one host, or the `member`th of them (modulo their number).
uint32_t topology_count(const comm_topology *t, uint32_t host);
uint32_t topology_member(const comm_topology *t, uint32_t host, uint32_t member);

const char *algorithm_name(comm_algorithm algorithm);

// The algorithm of that name; ALGORITHM_COUNT for any other word and for null.
comm_algorithm algorithm_find(const char *name);

// What an all-reduce or reduce of `bytes` a rank takes, in microseconds.
double algorithm_us(const comm_topology *t, comm_algorithm algorithm, spyre_comm_kind kind,
                    spyre_format format, uint64_t bytes);

comm_algorithm algorithm_choose(const comm_topology *t, spyre_comm_kind kind, spyre_format format,
                                uint64_t bytes);

#endif
