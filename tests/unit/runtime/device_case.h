// SPDX-License-Identifier: Apache-2.0
//
// Two cards for all tests of a group, and a job that adds numbers on one of them.
#ifndef TESTS_DEVICE_CASE_H
#define TESTS_DEVICE_CASE_H

#include "unit/card/program.h"

#include <stdlib.h>

#include "runtime/job.h"

enum { COUNT = 4096 };

static spyre_context *the_context;

static inline int open_context(void **state)
{
    (void)state;
    setenv("SPYRE_MEMORY_LIMIT_GB", "1", 1);
    assert_ok(spyre_context_create(2, &the_context));
    return 0;
}

static inline int close_context(void **state)
{
    (void)state;
    spyre_context_destroy(the_context);
    return 0;
}

static inline uint64_t allocate(uint32_t card_id, int64_t bytes)
{
    uint64_t address;
    assert_ok(spyre_memory_allocate(the_context, card_id, 0, bytes, &address));
    return address;
}

static const int64_t sizes[1] = {COUNT};
static const spyre_view dense = {.rank = 1, .size = {COUNT}, .stride = {1}};

static inline spyre_layout flat_layout(void)
{
    spyre_layout layout;
    assert_ok(spyre_layout_default(sizes, 1, SPYRE_DTYPE_F32, &layout));
    return layout;
}

static inline void put(uint32_t card_id, uint32_t stream_id, uint64_t address, const float *values)
{
    spyre_layout layout = flat_layout();
    const spyre_transfer transfer = {.card = card_id, .stream = stream_id, .address = address,
                                     .layout = &layout, .storage = &dense,
                                     .dtype = SPYRE_DTYPE_F32};
    assert_ok(spyre_copy_to_card(the_context, &transfer, values));
}

static inline spyre_status get(uint32_t card_id, uint32_t stream_id, uint64_t address,
                               float *values)
{
    spyre_layout layout = flat_layout();
    const spyre_transfer transfer = {.card = card_id, .stream = stream_id, .address = address,
                                     .layout = &layout, .storage = &dense,
                                     .dtype = SPYRE_DTYPE_F32};
    return spyre_copy_to_host(the_context, &transfer, values);
}

// buffer 0 = input 0 + constants, through the pool, `repeats` times; `past` bytes beyond the end.
static inline isa_program *add_program(uint32_t repeats, int64_t past)
{
    isa_program *p = new_program(4);
    begin_kernel(p, 1, 0);
    emit(p, ISA_LOOP)->count = repeats;
    isa_operand a = in_lx(0, SPYRE_FORMAT_IEEE_FP32), b = in_lx(COUNT * 4, SPYRE_FORMAT_IEEE_FP32);
    for (uint16_t step = 0; step < 2; step++) {
        uint16_t first = step == 0 ? 0 : 2, last = step == 0 ? 2 : 3;
        if (step == 1) wait_for(p, ISA_QUEUE_LOAD, 2);
        isa_operand from = in_memory(first, ISA_NO_SLOT, 0, SPYRE_FORMAT_IEEE_FP32);
        isa_operand constant = in_memory(1, ISA_NO_SLOT, 0, SPYRE_FORMAT_IEEE_FP32);
        isa_operand to = in_memory(last, ISA_NO_SLOT, step ? past : 0, SPYRE_FORMAT_IEEE_FP32);
        emit_flat(p, ISA_LOAD, COUNT, 2, (isa_operand[]){a, from});
        emit_flat(p, ISA_LOAD, COUNT, 2, (isa_operand[]){b, constant});
        signal_to(p, ISA_QUEUE_LOAD, 0);
        wait_for(p, ISA_QUEUE_SFP, 0);
        emit_flat(p, ISA_VECTOR, COUNT, 3, (isa_operand[]){a, a, b})->op = OPFUNC_ADD;
        signal_to(p, ISA_QUEUE_SFP, 1);
        wait_for(p, ISA_QUEUE_STORE, 1);
        emit_flat(p, ISA_STORE, COUNT, 2, (isa_operand[]){to, a});
        signal_to(p, ISA_QUEUE_STORE, step ? 3 : 2);
    }
    wait_for(p, ISA_QUEUE_LOAD, 3);
    emit(p, ISA_END_LOOP);
    end_kernel(p);
    emit(p, ISA_HALT);
    return p;
}

// A job that adds 2 * 1.0, its program and constants.
typedef struct {
    job *j;
    isa_program *program;
    float ones[COUNT];
} adder;

static inline adder *make_adder(uint32_t repeats, int64_t past)
{
    adder *a = calloc(1, sizeof *a);
    assert_non_null(a);
    for (int n = 0; n < COUNT; n++) a->ones[n] = 1.0f;
    a->program = add_program(repeats, past);
    const job_argument arguments[4] = {{.kind = JOB_INPUT, .bytes = COUNT * 4},
                                       {.kind = JOB_CONSTANTS, .bytes = COUNT * 4, .data = a->ones},
                                       {.kind = JOB_POOL, .bytes = COUNT * 4},
                                       {.kind = JOB_BUFFER, .bytes = COUNT * 4}};
    const job_plan plan = {.program = a->program,
                           .argument_count = 4,
                           .arguments = arguments,
                           .name = "adder",
                           .forgets_lx = true};
    assert_ok(job_create(&plan, &a->j));
    return a;
}

static inline void free_adder(adder *a)
{
    job_destroy(a->j);
    free_program(a->program);
    free(a);
}

static inline spyre_status launch(adder *a, uint32_t card_id, uint32_t stream_id, uint64_t input,
                           uint64_t buffer)
{
    return job_launch(the_context, card_id, stream_id, a->j, &input, &buffer, NULL);
}

#endif
