// SPDX-License-Identifier: Apache-2.0
//
// Small programs for tests of the timing model, and what their parts take.
#ifndef TESTS_TIME_CASE_H
#define TESTS_TIME_CASE_H

#include "program.h"

#include <math.h>

#include "card/time/time.h"

// Constants of cost.def, written out: a change of one is meant to show here.
#define READ_US_PER_BYTE (1.0 / 150000)
#define SHORT_RUN_US 0.65e-3
#define TURNS (5.74e-6 * 150000)            // share of the rarer direction's time
#define STICK_US (1.0 / 3000)               // one stick through the SFUs of a core

// A run of `bytes`, alone on the card's memory.
static inline double memory_us(double bytes)
{
    return bytes * READ_US_PER_BYTE + (bytes < 1024 ? SHORT_RUN_US : 0);
}

static inline card_counters time_it(const isa_program *p)
{
    card_counters kernels[8];
    assert_true(p->kernels.count <= 8);
    assert_ok(isa_verify(p));
    assert_ok(card_time(p, kernels));
    card_counters sum = {0};
    for (uint32_t k = 0; k < p->kernels.count; k++) card_counters_add(&sum, &kernels[k]);
    return sum;
}

static inline void assert_us(double found, double expected)
{
    if (fabs(found - expected) > 1e-9 * (fabs(expected) + 1))
        fail_msg("%.12g us, expected %.12g", found, expected);
}

static inline void load(isa_program *p, uint32_t elements)
{
    isa_operand from = in_memory(0, ISA_NO_SLOT, 0, DL16);
    emit_flat(p, ISA_LOAD, elements, 2, (isa_operand[]){in_lx(0, DL16), from});
}

static inline void store(isa_program *p, uint32_t elements)
{
    isa_operand to = in_memory(1, ISA_NO_SLOT, 0, DL16);
    emit_flat(p, ISA_STORE, elements, 2, (isa_operand[]){to, in_lx(1 << 19, DL16)});
}

static inline void vector(isa_program *p, uint32_t elements)
{
    isa_operand operands[] = {in_lx(1 << 19, DL16), in_lx(0, DL16)};
    emit_flat(p, ISA_VECTOR, elements, 2, operands)->op = OPFUNC_EXP;
}

static inline void handover(isa_program *p, isa_queue from, isa_queue to, uint16_t token)
{
    signal_to(p, from, token);
    wait_for(p, to, token);
}

static inline void finish(isa_program *p)
{
    end_kernel(p);
    emit(p, ISA_HALT);
}

#endif
