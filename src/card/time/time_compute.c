// SPDX-License-Identifier: Apache-2.0
//
// The vector unit (SFP) and the matrix unit (PT): what an instruction takes by its sticks or MACs.
#include <math.h>

#include "card/plan.h"
#include "card/time/time.h"
#include "isa/time_formulas.h"

static double larger(double a, double b)
{
    return a > b ? a : b;
}

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

void time_cost_vector(const isa_instruction *i, double cores, time_cost *out)
{
    out->elements = time_elements(i) * cores;
    double sticks = i->opcode == ISA_RANK   ? rank_sticks(i)
                    : i->opcode == ISA_SCAN ? scan_sticks(i)
                                            : vector_sticks(i);
    out->us = isa_vector_us(sticks);
}

void time_cost_matmul(const isa_instruction *i, double cores, time_cost *out)
{
    double macs = time_elements(i) * matmul_lanes(i);
    out->macs = macs * cores;
    out->us = macs / isa_matmul_rate(i->extent[0]);
}
