// SPDX-License-Identifier: Apache-2.0
//
// The cost model: meetings, bytes that a core copies and combines, bytes that leave the busiest
// host. Ranks that share a core do their work one after the other.
#include "comm/choose_algorithm.h"

#include <string.h>

#include "comm/combine.h"
#include "comm/shared_memory.h"

enum { NAMES = ALGORITHM_COUNT };

#define COST(name, value, meaning) static const double name = value;
#include "comm/cost.def"
#undef COST

static const char *const names[NAMES] = {"direct", "sliced", "chain"};

const char *algorithm_name(comm_algorithm algorithm)
{
    return (unsigned)algorithm < NAMES ? names[algorithm] : "fastest";
}

comm_algorithm algorithm_find(const char *name)
{
    uint32_t found = 0;
    while (found < NAMES && (!name || strcmp(names[found], name))) found++;
    return (comm_algorithm)found;
}

uint32_t topology_count(const comm_topology *t, uint32_t host)
{
    uint32_t count = 0;
    for (uint32_t r = 0; r < t->size; r++) count += t->host_of[r] == host;
    return count;
}

uint32_t topology_member(const comm_topology *t, uint32_t host, uint32_t member)
{
    uint32_t wanted = member % topology_count(t, host), r = 0;
    for (;; r++)
        if (t->host_of[r] == host && wanted-- == 0) return r;
}

static uint32_t fullest(const comm_topology *t)
{
    uint32_t most = 1;
    for (uint32_t h = 0; h < t->hosts; h++)
        if (topology_count(t, h) > most) most = topology_count(t, h);
    return most;
}

// Tensors' worths of data that leave a host: partial results of a chain count by their width.
static double leaving(const comm_topology *t, comm_algorithm algorithm, spyre_comm_kind kind,
                      uint32_t host, double widening)
{
    double own = topology_count(t, host), others = t->size - own;
    double copies = kind == SPYRE_COMM_REDUCE ? 1 : t->hosts - 1;   // of a result, at most
    double slices = own / t->size;
    if (algorithm == ALGORITHM_DIRECT) return own * copies;
    if (algorithm == ALGORITHM_SLICED) return slices * others + slices * copies;
    double passed = 0;
    for (uint32_t r = 0; r + 1 < t->size; r++)
        passed += t->host_of[r] == host && t->host_of[r + 1] != host;
    return passed * widening + (t->host_of[t->size - 1] == host ? copies : 0);
}

static double network_us(const comm_topology *t, comm_algorithm algorithm, spyre_comm_kind kind,
                         double widening, double bytes)
{
    double most = 0;
    for (uint32_t h = 0; t->hosts > 1 && h < t->hosts; h++) {
        double out = leaving(t, algorithm, kind, h, widening);
        if (out > most) most = out;
    }
    return most * bytes / NETWORK_GB_S / 1e3;
}

static double meeting_us(const comm_topology *t)
{
    double sharing = (double)fullest(t) / t->cores;
    double here = MEETING_US + (sharing > 1 ? (sharing - 1) * SWITCH_US : 0);
    return t->hosts > 1 ? here + NETWORK_US : here;
}

double algorithm_us(const comm_topology *t, comm_algorithm algorithm, spyre_comm_kind kind,
                    spyre_format format, uint64_t bytes)
{
    double n = t->size, size = (double)bytes;
    double widening = (double)spyre_format_bytes(comm_partial_format(format)) /
                      (double)spyre_format_bytes(format);
    double chunks = size / CHUNK_BYTES;
    double meetings, copied, combined;          // the latter two in tensors a rank
    if (algorithm == ALGORITHM_DIRECT) {
        meetings = chunks + 1;
        copied = 1;
        combined = n;
    } else if (algorithm == ALGORITHM_SLICED) {
        meetings = chunks + 2;
        copied = 2;
        combined = 1;
    } else {
        meetings = chunks * widening + n;
        copied = 1 + widening;
        combined = 2;
    }
    double sharing = (double)fullest(t) / t->cores;
    double work_us = size * (copied / COPY_GB_S + combined / COMBINE_GB_S) / 1e3;
    return meetings * meeting_us(t) + work_us * (sharing > 1 ? sharing : 1) +
           network_us(t, algorithm, kind, widening, size);
}

comm_algorithm algorithm_choose(const comm_topology *t, spyre_comm_kind kind, spyre_format format,
                                uint64_t bytes)
{
    if (t->forced < ALGORITHM_COUNT) return t->forced;
    comm_algorithm best = ALGORITHM_SLICED;
    double best_us = algorithm_us(t, best, kind, format, bytes);
    for (comm_algorithm a = 0; a < ALGORITHM_COUNT; a++) {
        double us = algorithm_us(t, a, kind, format, bytes);
        if (us >= best_us) continue;
        best = a;
        best_us = us;
    }
    return best;
}
