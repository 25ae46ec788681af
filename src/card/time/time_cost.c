// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdlib.h>

#include "card/plan.h"
#include "card/time/time.h"
#include "isa/rates.h"

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static double tile_elements(const isa_instruction *i)
{
    double elements = 1;
    for (uint32_t d = 0; d < i->dim_count; d++) elements *= i->extent[d];
    return elements;
}

// --- Memory

// Where the active cores' tiles begin.
typedef struct {
    double cores, distinct;             // distinct: cores that name the same place share a transfer
    double distance;                    // bytes between neighbouring places, on average
} core_places;

static int compare_places(const void *a, const void *b)
{
    const int64_t *left = a, *right = b;
    return (*left > *right) - (*left < *right);
}

static core_places find_places(const isa_kernel *kernel, const isa_operand *operand)
{
    core_places found = {__builtin_popcount(kernel->active_cores), 1, 0};
    if (operand->slot == ISA_NO_SLOT) return found;
    int64_t places[ISA_CORES];
    uint32_t count = 0;
    for (uint32_t core = 0; core < ISA_CORES; core++)
        if (isa_is_active(kernel, core))
            places[count++] = isa_parameter(kernel, core, operand->slot);
    if (count == 0) return found;
    qsort(places, count, sizeof *places, compare_places);
    for (uint32_t n = 1; n < count; n++) found.distinct += places[n] != places[n - 1];
    if (found.distinct > 1)
        found.distance = ((double)places[count - 1] - (double)places[0]) / (found.distinct - 1);
    return found;
}

// Bytes of memory that an operand moves, and how many of them lie side by side. A dim along which
// it does not move is read once. Memory moves whole sticks.
typedef struct {
    double bytes, run_bytes;
} footprint;

static footprint find_footprint(const isa_instruction *i, uint32_t o)
{
    const isa_operand *operand = &i->operand[o];
    double run = spyre_format_bytes(operand->format), runs = 1;
    bool used[ISA_MAX_DIMS] = {false};
    bool grown = true;
    while (grown || run < SPYRE_STICK_BYTES) {
        if (!grown) run = SPYRE_STICK_BYTES;
        grown = false;
        for (uint32_t d = 0; d < i->dim_count; d++) {
            if (used[d] || fabs((double)operand->stride[d]) != run) continue;
            run *= i->extent[d];
            used[d] = grown = true;
        }
    }
    for (uint32_t d = 0; d < i->dim_count; d++)
        if (!used[d] && operand->stride[d]) runs *= i->extent[d];
    return (footprint){runs * run, run};
}

// Rows that are chosen lie anywhere: runs are what one index moves, none is next to another.
static footprint row_footprint(const isa_instruction *i, uint32_t o)
{
    footprint f = find_footprint(i, o);
    for (uint32_t d = 0; d < i->dim_count; d++)
        if (i->operand[2].stride[d] && !i->operand[o].stride[d]) f.bytes *= i->extent[d];
    return f;
}

static void cost_memory(const isa_kernel *kernel, const isa_instruction *i, uint32_t o,
                        time_cost *out)
{
    bool by_row = o == isa_row_operand(i->opcode);
    core_places places = find_places(kernel, &i->operand[o]);
    footprint f = by_row ? row_footprint(i, o) : find_footprint(i, o);
    if (out->kind == TIME_WRITE || by_row) places.distinct = places.cores;
    double bytes = f.bytes * places.distinct, run_bytes = f.run_bytes;
    // Cores side by side make one long run of their short ones.
    if (!by_row && places.distance == run_bytes) run_bytes *= places.distinct;
    double share = places.cores > 0 ? 1 / places.cores : 0;
    out->bytes_us = bytes / MEMORY_BANDWIDTH * share;
    out->us = out->bytes_us + isa_short_runs_us(bytes, run_bytes) * share;
    out->spread = out->kind == TIME_READ && !by_row ? isa_spread(places.distance) : 0;
    *(out->kind == TIME_READ ? &out->read_bytes : &out->written_bytes) = bytes;
}

// --- Compute

// Sticks that pass the SFU: 128 bytes of the widest operand, a part of a stick like a whole one.
static double vector_sticks(const isa_instruction *i)
{
    bool accumulates = isa_accumulates(i->opcode);
    double widest = 1;
    for (uint32_t o = accumulates; o < i->operand_count; o++)
        widest = larger(widest, spyre_format_bytes(i->operand[o].format));
    double inner = 1, outer = 1;
    bool contiguous = true;
    for (uint32_t d = i->dim_count; d-- > 0;) {
        double run = inner * spyre_format_bytes(i->operand[accumulates].format);
        contiguous = contiguous && (i->extent[d] == 1 ||
                                    fabs((double)i->operand[accumulates].stride[d]) == run);
        *(contiguous ? &inner : &outer) *= i->extent[d];
    }
    return outer * ceil(inner * widest / SPYRE_STICK_BYTES);
}

// Comparisons of a bitonic network's rounds: log2(n) (log2(n) + 1) / 2 that sort, log2(n) that
// merge (K. E. Batcher, Sorting networks and their applications, 1968).
static double sort_rounds(double count)
{
    double levels = ceil(log2(larger(count, 2)));
    return levels * (levels + 1) / 2;
}

// Sticks of the candidates, beside which positions of 32 bits pass. Rankings are independent, so
// it does not matter which of their dims and those of the candidates are inside.
static double candidate_sticks(const isa_instruction *i)
{
    const isa_operand *candidates = &i->operand[1];
    double size = spyre_format_bytes(candidates->format), run = 1, runs = 1;
    bool used[ISA_MAX_DIMS] = {false};
    for (bool grown = true; grown;) {
        grown = false;
        for (uint32_t d = 1; d < i->dim_count; d++) {
            if (used[d] || fabs((double)candidates->stride[d]) != run * size) continue;
            run *= i->extent[d];
            used[d] = grown = true;
        }
    }
    for (uint32_t d = 1; d < i->dim_count; d++)
        if (!used[d]) runs *= i->extent[d];
    return runs * ceil(run * larger(size, sizeof(int32_t)) / SPYRE_STICK_BYTES);
}

// RANK passes all candidates once for each rank, or sorts them and merges them into the ranks,
// whichever is less.
static double rank_sticks(const isa_instruction *i)
{
    double ranks = i->extent[0], rankings = 1, candidates = 1;
    for (uint32_t d = 1; d < i->dim_count; d++)
        *(i->operand[0].stride[d] ? &rankings : &candidates) *= i->extent[d];
    double lanes = SPYRE_STICK_BYTES / sizeof(int64_t);
    double sorted = ceil(rankings * candidates / lanes) * sort_rounds(candidates);
    double merged = ceil(rankings * (ranks + candidates) / lanes) *
                    ceil(log2(larger(ranks + candidates, 2)));
    return fmin(ranks * candidate_sticks(i), sorted + merged);
}

// SCAN passes its elements once; where neighbours in a stick follow each other, once for each
// doubling of what a prefix network has joined (P. M. Kogge, H. S. Stone, 1973).
static double scan_sticks(const isa_instruction *i)
{
    double lanes = SPYRE_STICK_BYTES / sizeof(int64_t);
    bool within = i->operand[1].stride[i->dim_count - 1] == 0;
    return vector_sticks(i) * (within ? log2(lanes) : 1);
}

static void cost_vector(const isa_instruction *i, double cores, time_cost *out)
{
    out->elements = tile_elements(i) * cores;
    double sticks = i->opcode == ISA_RANK   ? rank_sticks(i)
                    : i->opcode == ISA_SCAN ? scan_sticks(i)
                                            : vector_sticks(i);
    out->us = isa_vector_us(sticks);
}

static void cost_matmul(const isa_instruction *i, double cores, time_cost *out)
{
    double macs = tile_elements(i) * matmul_lanes(i);
    out->macs = macs * cores;
    out->us = macs / isa_matmul_rate(i->extent[0]);
}

static void cost_message(const isa_instruction *i, time_cost *out)
{
    out->message_bytes = tile_elements(i) * spyre_format_bytes(i->operand[0].format);
    out->us = out->message_bytes / RING_BANDWIDTH;
}

// Every core has a link to each side; messages take the shorter way and load all of them alike.
double time_ring_links_us(double carried_bytes)
{
    return carried_bytes / (2 * ISA_CORES * RING_BANDWIDTH);
}

// What the operands in LX move, once each.
static double lx_bytes(const isa_instruction *i, double cores)
{
    double bytes = 0;
    for (uint32_t o = 0; o < i->operand_count; o++) {
        if (i->operand[o].space != ISA_SPACE_LX) continue;
        double size = spyre_format_bytes(i->operand[o].format);
        for (uint32_t d = 0; d < i->dim_count; d++)
            if (i->operand[o].stride[d]) size *= i->extent[d];
        if (i->opcode == ISA_MATMUL && o != 1) size *= matmul_lanes(i);
        bytes += size;
    }
    return bytes * cores;
}

void time_cost_of(const isa_kernel *kernel, const isa_instruction *i, time_cost *out)
{
    double cores = __builtin_popcount(kernel->active_cores);
    *out = (time_cost){.kind = TIME_COMPUTE, .lx_bytes = lx_bytes(i, cores)};
    switch (isa_describe(i->opcode)->queue) {
    case ISA_QUEUE_LOAD:
        out->kind = TIME_READ;
        cost_memory(kernel, i, 1, out);
        return;
    case ISA_QUEUE_STORE:
        out->kind = TIME_WRITE;
        cost_memory(kernel, i, 0, out);
        return;
    case ISA_QUEUE_SFP: cost_vector(i, cores, out); return;
    case ISA_QUEUE_PT: cost_matmul(i, cores, out); return;
    case ISA_QUEUE_RING:
        out->kind = isa_writes(i->opcode, 0) ? TIME_RECEIVE : TIME_SEND;
        cost_message(i, out);
        return;
    case ISA_QUEUE_SEQ:
    case ISA_QUEUE_ANY: return;
    }
}

// --- Turnaround

// The neighbours of a lane of the result are not neighbours in the operand.
static bool swaps_sticks(const isa_instruction *i)
{
    if (i->opcode != ISA_VECTOR || i->op != OPFUNC_IDENTITY) return false;
    int64_t element = spyre_format_bytes(i->operand[0].format);
    for (uint32_t d = 0; d < i->dim_count; d++) {
        if (i->extent[d] == 1 || i->operand[0].stride[d] != element) continue;
        return i->operand[1].stride[d] != spyre_format_bytes(i->operand[1].format) &&
               i->operand[1].stride[d] != 0;
    }
    return false;
}

// One input stands still while another moves.
static bool broadcasts(const isa_instruction *i)
{
    if (i->opcode != ISA_VECTOR || i->operand_count < 3) return false;
    for (uint32_t d = 0; d < i->dim_count; d++) {
        bool still = false, moves = false;
        for (uint32_t o = 1; o < i->operand_count; o++)
            *(i->operand[o].stride[d] ? &moves : &still) = true;
        if (i->extent[d] > 1 && still && moves) return true;
    }
    return false;
}

double time_turnaround(const isa_program *program, uint32_t begin, uint32_t end)
{
    double us = MEMORY_TURNAROUND;
    for (uint32_t at = begin; at < end; at++) {
        const isa_instruction *i = program->code.items[at];
        if (isa_accumulates(i->opcode)) return MEMORY_TURNAROUND * MEMORY_BANDWIDTH;
        if (swaps_sticks(i)) us = RESTICKIFY_TURN;
        if (broadcasts(i)) us = BROADCAST_TURN;
    }
    return us * MEMORY_BANDWIDTH;
}
