// SPDX-License-Identifier: Apache-2.0
//
// What a choice of sticks costs, predicted with the terms of cost.h before ops are divided over the
// cores and placed:
//
//     op       = max(memory, compute) on all cores, with the padding of its sticks
//     operand  = the copies that bring its stick where the op wants it, each one once a graph; a
//                copy reads and writes memory at the published rate of a restickify
//     output   = a copy when the stick runs along a part of a host dim (output_layouts)
//
// An intermediate is expected to be in LX, where it costs no time, when it takes a quarter of all
// cores' or less and lx_planning is on.
//
// Copies are not priced by rules of their own: restickify.c makes them, and they are taken back.
#ifndef FRONT_STICK_PRICE_H
#define FRONT_STICK_PRICE_H

#include "front/layout/stick_modes.h"

enum { STICK_MOST_COPIES = 3, STICK_UNSHARED = 32 };

typedef struct {
    uint32_t count;
    struct {
        uint32_t bit; // among the copies of the operand's buffer; STICK_UNSHARED: no other op's
        double us;
    } copy[STICK_MOST_COPIES];
    bool impossible;
} stick_restickify_price;

typedef struct {
    loop_graph *loops;
    arena *scratch;
    loop_op_list made;    // of the copies that are being priced
    map_bytes copies;     // restickify_key -> bit
    uint8_t *copy_count;  // by buffer
} stick_pricer;

SPYRE_MUST_CHECK spyre_status stick_pricer_begin(loop_graph *loops, arena *scratch,
                                                 stick_pricer *out);

// The op itself when its operands are as the mode wants them; 0 for a copy out (restickify.h),
// which comes with the copies for its operand.
double stick_op_us(const loop_graph *loops, const loop_op *op, const stick_mode *mode);

// The copies for operand k while its buffer's stick runs along `stick` (a dim or STICK_SPARSE; an
// input keeps its own layout). A local buffer is left without a layout.
SPYRE_MUST_CHECK spyre_status stick_price_restickify(stick_pricer *p, const loop_op *op, uint32_t k,
                                                     const stick_mode *mode, uint8_t stick,
                                                     stick_restickify_price *out);

// What an output buffer costs behind its writers.
double stick_output_us(const loop_graph *loops, const loop_buffer *buffer, uint8_t stick);

// All ops of a loop IR that has its layouts, by the same terms; outputs are not counted.
double stick_planned_us(const loop_graph *loops);

#endif
