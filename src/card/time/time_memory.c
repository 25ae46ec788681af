// SPDX-License-Identifier: Apache-2.0
//
// Memory: what the transfers of all cores take together, by bytes, runs and the distance of the
// cores, and the turnaround between reads and writes.
#include <math.h>
#include <stdlib.h>

#include "card/time/time.h"
#include "isa/time_formulas.h"

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

void time_cost_transfer(const isa_kernel *kernel, const isa_instruction *i, uint32_t o,
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
