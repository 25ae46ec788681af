// SPDX-License-Identifier: Apache-2.0
//
// Writing instructions: loops, kernels, tokens, tiles. Internal.
#ifndef BACK_EMIT_H
#define BACK_EMIT_H

#include "back/back.h"
#include "back/place.h"

// Tokens of a kernel. FULL goes from the producer of a buffer to its consumer, FREE back.
enum {
    TOKEN_INPUT_FULL,
    TOKEN_INPUT_FREE,
    TOKEN_OUTPUT_FULL,
    TOKEN_OUTPUT_FREE,
    TOKEN_KEPT_FULL, // an operand that stays in LX over a loop
    TOKEN_KEPT_FREE,
    TOKEN_ACCUMULATOR_READY,
    TOKEN_ACCUMULATOR_DONE,
    TOKEN_RING_FULL,
    TOKEN_UNPACKED, // pairs have become elements
};

typedef struct {
    arena *memory;
    const bundle *b;
    const back_options *options;
    isa_program *program;
    uint32_t depth; // open loops
    const nest_zone *zone; // of the step in work; null: all of it
} emitter;

SPYRE_MUST_CHECK spyre_status emit_loop(emitter *e, int64_t count);
SPYRE_MUST_CHECK spyre_status emit_end_loop(emitter *e);

// A kernel in which `cores` take part.
SPYRE_MUST_CHECK spyre_status emit_kernel(emitter *e, const nest *n, uint32_t cores);
SPYRE_MUST_CHECK spyre_status emit_end_kernel(emitter *e);

SPYRE_MUST_CHECK spyre_status emit_signal(emitter *e, isa_queue queue, uint32_t token);
SPYRE_MUST_CHECK spyre_status emit_wait(emitter *e, isa_queue queue, uint32_t token);

// `from` says that a buffer is full (or free), `to` waits for it.
SPYRE_MUST_CHECK spyre_status emit_handover(emitter *e, isa_queue from, isa_queue to,
                                            uint32_t token);

// An instruction over the axes of `order`; `places` become its operands. Axes that all operands
// walk as one are merged. The prototype says everything else.
SPYRE_MUST_CHECK spyre_status emit_tile(emitter *e, const isa_instruction *prototype,
                                        const place_axes *axes, const place_order *order,
                                        const place *const *places, uint32_t place_count);

// The common cases. LOAD and STORE walk in the order of memory; VECTOR and FILL in that of the
// target.
SPYRE_MUST_CHECK spyre_status emit_load(emitter *e, const place_axes *axes, const place *target,
                                        const place *source);
SPYRE_MUST_CHECK spyre_status emit_store(emitter *e, const place_axes *axes, const place *target,
                                         const place *source);
SPYRE_MUST_CHECK spyre_status emit_vector(emitter *e, opfunc op, const float *constants,
                                          const place_axes *axes, const place *const *places,
                                          uint32_t place_count);
SPYRE_MUST_CHECK spyre_status emit_identity(emitter *e, const place_axes *axes, const place *target,
                                            const place *source);
// Numbers at `source`, or 1 where they are above 0 and else 0, in LX.
SPYRE_MUST_CHECK spyre_status emit_count(emitter *e, const place_axes *axes, const place *target,
                                         const place *source, bool signs);
SPYRE_MUST_CHECK spyre_status emit_fill(emitter *e, const place_axes *axes, const place *target,
                                        float value);

#endif
