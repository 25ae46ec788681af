// SPDX-License-Identifier: Apache-2.0
//
// Row fusions: random kernels over the same rows must leave the bytes that element-by-element
// execution leaves, whatever their tiles look like.
#include "row_fusion_programs.h"
#include "support/rounds.h"
#include "tensor/numeric.h"

// Makes two iterations over halves of the rows of what the loop at `loop` encloses.
static void halve_rows(isa_program *p, uint32_t loop, const shape *s)
{
    p->code.items[loop]->count = 2;
    for (uint32_t at = loop + 1; at < p->code.count; at++) {
        isa_instruction *i = p->code.items[at];
        uint32_t row = i->dim_count >= 4 && i->opcode == ISA_VECTOR ? s->sticks_outside : 0;
        if (i->extent[row] == 1 && i->opcode == ISA_FILL) continue;
        i->extent[row] /= 2;
        for (uint32_t o = 0; o < i->operand_count; o++)
            if (i->operand[o].format == DL16 || i->operand[o].offset < BUFFERS * BUFFER_BYTES)
                i->operand[o].loop_stride[0] = i->operand[o].stride[row] * i->extent[row];
    }
}

// The last iteration of the loop at `loop`, which has just been closed, stands behind it instead.
static void leave_last(isa_program *p, uint32_t loop)
{
    const int64_t before = --p->code.items[loop]->count;
    const uint32_t end = p->code.count - 1;
    for (uint32_t at = loop + 1; at < end; at++) {
        isa_instruction *i = emit(p, p->code.items[at]->opcode);
        *i = *p->code.items[at];
        for (uint32_t o = 0; o < i->operand_count; o++) {
            i->operand[o].offset += i->operand[o].loop_stride[0] * before;
            i->operand[o].loop_stride[0] = 0;
        }
    }
}

// --- Kernels

// So many of 4 tiles have the first runs of sticks alone.
static uint32_t half_sticks;

// A tile of SEN169_FP16 over all elements becomes one over the first run of each stick.
static void halve_sticks(isa_instruction *i, uint64_t *seed)
{
    if (i->dim_count < 4 || next_random(seed) % 4 >= half_sticks) return;
    for (uint32_t o = 0; o < i->operand_count; o++)
        if (i->operand[o].format != DL16) return;
    i->extent[i->dim_count - 2] = 1;
}

static void stream_kernel(isa_program *p, const shape *s, bool loops, uint64_t *seed)
{
    static const opfunc unary[] = {OPFUNC_EXP, OPFUNC_NEG, OPFUNC_RELUFWD, OPFUNC_TANH,
                                   OPFUNC_IDENTITY, OPFUNC_ABS};
    static const opfunc binary[] = {OPFUNC_ADD, OPFUNC_SUB, OPFUNC_MUL, OPFUNC_REALDIV,
                                    OPFUNC_MAXIMUM, OPFUNC_LESSERTHAN};
    isa_operand operand[ISA_MAX_OPERANDS] = {any_buffer(s, seed), any_buffer(s, seed)};
    layout layouts[ISA_MAX_OPERANDS] = {WHOLE, WHOLE};
    uint8_t operands = 2;
    opfunc op = unary[next_random(seed) % 6];
    uint32_t kind = next_random(seed) % 8;
    if (kind < 5) {
        op = binary[next_random(seed) % 6];
        uint32_t second = next_random(seed) % 7;
        layouts[2] = second == 0 ? LINE : second == 1 ? BY_ROW : WHOLE;
        if (second == 2 && !loops && s->rows % s->parts == 0) layouts[2] = AGAIN;
        if (second == 5 && !loops && s->rows % s->parts == 0) layouts[2] = BY_PART;
        if (second == 6) layouts[2] = BY_STICK;
        operand[2] = layouts[2] == LINE     ? in_lx(LINES, DL16)
                     : layouts[2] >= BY_PART ? in_lx(LINES, s->wide ? FP32 : DL16)
                     : layouts[2] == BY_ROW ? row_values(next_random(seed) % 2)
                                            : any_buffer(s, seed);
        if (layouts[2] == BY_ROW && s->wide && next_random(seed) % 2) operand[2].format = FP32;
        operands = 3;
        // One element per row for the first input, too, or a choice between both.
        if (layouts[2] == BY_ROW && next_random(seed) % 4 == 0) {
            isa_operand first = operand[1];
            operand[1] = operand[2], layouts[1] = BY_ROW;
            operand[2] = first, layouts[2] = WHOLE;
        } else if (next_random(seed) % 4 == 0) {
            op = OPFUNC_WHERE3;
            operand[3] = any_buffer(s, seed), layouts[3] = WHOLE;
            operands = 4;
        }
    } else if (kind == 5) {
        op = OPFUNC_LAYERNORMNORM;
        operands = (uint8_t)(4 + next_random(seed) % 3);
        for (uint32_t o = 2; o < 6; o++) {
            layouts[o] = o < 4 ? BY_ROW : LINE;
            operand[o] = o < 4 ? row_values(o - 2) : in_lx(LINES + (o - 4) * LINE_BYTES, DL16);
        }
    }
    // Now and then beside where others read and write.
    if (next_random(seed) % 12 == 0) operand[next_random(seed) % 2].offset += 128;
    const bool filled = operands > 2 && layouts[2] == BY_ROW && next_random(seed) % 3 == 0;
    isa_operand constant = in_lx(CONSTANT, FP32);
    if (filled) {
        isa_instruction *fill = emit_flat(p, ISA_FILL, 1, 1, &constant);
        fill->constant[0] = (float)(next_random(seed) % 64) / 16.0f - 2.0f;
        fill->operand[0].stride[0] = 0;
    }
    isa_instruction *i =
        emit_whole(p, s, op, operands, operand, layouts, !loops && next_random(seed) % 2);
    if (filled) i->operand[2] = constant;
    if (half_sticks) halve_sticks(i, seed);
}

static void reduce_kernel(isa_program *p, const shape *s, bool loops, uint64_t *seed)
{
    static const opfunc ops[] = {OPFUNC_MAX, OPFUNC_MIN, OPFUNC_SUM, OPFUNC_PROD};
    isa_operand from = any_buffer(s, seed);
    isa_operand sums = in_lx(SUMS, FP32);
    isa_operand to = row_values(next_random(seed) % 2);
    bool squares = next_random(seed) % 4 == 0;
    if (squares && next_random(seed) % 2) {
        const isa_instruction like = {.op = OPFUNC_SUM, .operand_count = 2,
                                      .operand = {sums, from}};
        reduce_in_turns(p, s, (isa_opcode[]){ISA_REDUCE, ISA_REDUCESQ}, 2, &like,
                        (isa_operand[]){row_values(0), row_values(1)});
        return;
    }
    opfunc op = squares ? OPFUNC_SUM : ops[next_random(seed) % 4];
    if (!squares && next_random(seed) % 3 == 0) {
        reduce_lanes(p, s, op, from, sums, to);
        return;
    }
    if (!squares && !loops && !s->nested && next_random(seed) % 3 == 0) {
        const bool half = half_sticks && from.format == DL16;
        const uint32_t lanes = (half ? 1 : 33) + next_random(seed) % 31;
        reduce_first_lanes(p, s, op, lanes, (isa_operand[]){to, sums, from});
        return;
    }
    reduce_tiles(p, s, squares ? ISA_REDUCESQ : ISA_REDUCE, op, from, sums, to);
}

// Mean and more: what there is one of a row, in SEN169_FP16 and in fp32.
static void row_kernel(isa_program *p, const shape *s, uint64_t *seed)
{
    isa_operand constant = in_lx(CONSTANT, FP32), sums = in_lx(SUMS + SUMS_BYTES, FP32);
    isa_operand a = row_values(next_random(seed) % 2), b = row_values(next_random(seed) % 2);
    isa_operand to = row_values(next_random(seed) % 2);
    const uint32_t kind = next_random(seed) % 5;
    if (kind < 2) {
        emit_by_row(p, s, OPFUNC_ADD, 3, (isa_operand[]){to, a, b});
        return;
    }
    if (kind == 2) {
        emit_spread(p, s, to, a);
        return;
    }
    reduce_tiles(p, s, ISA_REDUCE, OPFUNC_SUM, buffer(next_random(seed) % BUFFERS), sums, a);
    isa_instruction *fill = emit_flat(p, ISA_FILL, 1, 1, &constant);
    fill->constant[0] = 0.125f;
    fill->operand[0].stride[0] = 0;
    emit_by_row(p, s, OPFUNC_MUL, 3, (isa_operand[]){sums, sums, constant});
    emit_by_row(p, s, OPFUNC_IDENTITY, 2, (isa_operand[]){to, sums});
}

static void random_kernel(isa_program *p, const shape *of, uint64_t *seed)
{
    uint32_t kind = next_random(seed) % 8, loop = p->code.count + 1;
    bool halves = of->rows % 2 == 0 && next_random(seed) % 3 == 0;
    shape plain = *of;
    const shape *s = halves ? &plain : of;
    if (of->parts != 2) plain.nested = 0;
    bool loops = halves || next_random(seed) % 4 == 0;
    turned_values = !halves && s->rows % s->parts == 0 ? next_random(seed) % 8 : 0;
    begin_kernel(p, 1, 0);
    if (loops) emit(p, ISA_LOOP)->count = 1;
    // Now and then several that share a loop.
    do {
        if (kind < 5) stream_kernel(p, s, halves, seed);
        else if (kind < 7) reduce_kernel(p, s, loops, seed);
        else row_kernel(p, s, seed);
        kind = next_random(seed) % 8;
    } while (halves && next_random(seed) % 3 == 0);
    if (halves) halve_rows(p, loop, s);
    if (loops) emit(p, ISA_END_LOOP);
    if (halves && next_random(seed) % 2) leave_last(p, loop);
    turned_values = 0;
    end_kernel(p);
}

// Moves the buffers of what stands in a loop: by nothing, by a stick, by all that a tile covers.
// Now and then one operand moves otherwise than the rest of its buffer.
static void move_buffers(isa_program *p, uint32_t begin, uint32_t loop, const shape *s,
                         uint64_t *seed)
{
    const int64_t steps[] = {0, 0, 128, 128 * (int64_t)(s->rows * s->sticks)};
    int64_t step[BUFFERS];
    for (uint32_t n = 0; n < BUFFERS; n++) step[n] = steps[next_random(seed) % 4];
    for (uint32_t at = begin; at < p->code.count; at++) {
        isa_instruction *i = p->code.items[at];
        for (uint32_t o = 0; o < i->operand_count; o++) {
            uint32_t n = (uint32_t)(i->operand[o].offset / BUFFER_BYTES);
            if (n < BUFFERS)
                i->operand[o].loop_stride[loop] =
                    next_random(seed) % 24 ? step[n] : steps[next_random(seed) % 4];
        }
    }
}

// Several tiles of one kernel inside of one or two loops, which are no rows: values in LX go from
// tile to tile, and from iteration to iteration.
static void looped_kernel(isa_program *p, const shape *s, uint64_t *seed)
{
    uint32_t loops = 1 + next_random(seed) % 2, begin;
    begin_kernel(p, 1, 0);
    for (uint32_t n = 0; n < loops; n++) emit(p, ISA_LOOP)->count = 2;
    begin = p->code.count;
    for (uint32_t n = 2 + next_random(seed) % 4; n > 0; n--) {
        uint32_t kind = next_random(seed) % 8;
        if (kind < 6) stream_kernel(p, s, true, seed);
        else if (kind < 7) reduce_kernel(p, s, true, seed);
        else row_kernel(p, s, seed);
    }
    for (uint32_t n = 0; n < loops; n++) move_buffers(p, begin, n, s, seed);
    for (uint32_t n = 0; n < loops; n++) emit(p, ISA_END_LOOP);
    end_kernel(p);
}

// All elements from memory through one VECTOR, or through one to memory.
static void memory_kernel(isa_program *p, const shape *s, bool stores, uint64_t *seed)
{
    uint32_t count = s->rows * s->sticks * 64;
    isa_operand memory = in_memory(0, ISA_NO_SLOT, stores ? OUTSIDE : 0, DL16);
    isa_operand staged = in_lx(STAGE, DL16), mine = buffer(next_random(seed) % BUFFERS);
    begin_kernel(p, 1, 0);
    if (!stores) {
        emit_flat(p, ISA_LOAD, count, 2, (isa_operand[]){staged, memory});
        signal_to(p, ISA_QUEUE_LOAD, 0);
        wait_for(p, ISA_QUEUE_SFP, 0);
    }
    isa_operand operand[2] = {stores ? staged : mine, stores ? mine : staged};
    emit_flat(p, ISA_VECTOR, count, 2, operand)->op = OPFUNC_NEG;
    if (stores) {
        signal_to(p, ISA_QUEUE_SFP, 0);
        wait_for(p, ISA_QUEUE_STORE, 0);
        emit_flat(p, ISA_STORE, count, 2, (isa_operand[]){memory, staged});
    }
    end_kernel(p);
}

static void place_row_values(uint64_t *seed)
{
    bool crowded = next_random(seed) % 3 == 0, together = next_random(seed) % 2;
    row_values_at = crowded ? BUFFER_BYTES + next_random(seed) % 3 * 128 : ROW_VALUES;
    row_values_step = together ? 4 : ROW_BYTES;
}

// LX comes from memory and part of it goes back, so that some of what kernels leave is read.
static isa_program *random_program(uint64_t *seed)
{
    static const uint32_t sticks[] = {1, 1, 2, 3, 6};
    shape s = {2 + next_random(seed) % 30, sticks[next_random(seed) % 5],
               next_random(seed) % 2, 2 + next_random(seed) % 2, next_random(seed) % 4 == 0,
               next_random(seed) % 2, next_random(seed) % 2 * next_random(seed) % 64, 0};
    half_sticks = next_random(seed) % 3 == 0 ? 2 + next_random(seed) % 3 : 0;
    if (s.rows % s.parts == 0 && next_random(seed) % 2) s.nested = next_random(seed) % 16;
    isa_program *p = new_program(1);
    place_row_values(seed);
    copy_kernel(p, ISA_LOAD, 0, 0, STAGE);
    if (next_random(seed) % 2) memory_kernel(p, &s, false, seed);
    for (uint32_t n = 2 + next_random(seed) % 6; n > 0; n--) random_kernel(p, &s, seed);
    if (next_random(seed) % 2) memory_kernel(p, &s, true, seed);
    if (next_random(seed) % 2)
        copy_kernel(p, ISA_STORE, ROW_VALUES, ROW_VALUES, 2 * ROW_BYTES);
    uint32_t out = next_random(seed) % BUFFERS;
    copy_kernel(p, ISA_STORE, out * BUFFER_BYTES, out * BUFFER_BYTES, BUFFER_BYTES);
    emit(p, ISA_HALT);
    return p;
}

static void row_fusion__random_programs_keep_their_bytes(void **state)
{
    (void)state;
    uint64_t seed = 42;
    uint32_t fusions = 0, rounds = test_rounds(1200);
    fill_memory();
    for (uint32_t round = 0; round < rounds; round++) {
        uint64_t start = seed;
        isa_program *p = random_program(&seed);
        fusions += check(p, start);
        free_program(p);
    }
    assert_true(fusions > rounds / 3);
    assert_true(half_fusions > rounds / 20);
}

static isa_program *looped_program(uint64_t *seed)
{
    static const uint32_t sticks[] = {1, 1, 2, 3};
    shape s = {1 + next_random(seed) % 20, sticks[next_random(seed) % 4], next_random(seed) % 2, 1,
               next_random(seed) % 4 == 0, next_random(seed) % 2, next_random(seed) % 3 * 5,
               0};
    half_sticks = 0;
    isa_program *p = new_program(1);
    place_row_values(seed);
    copy_kernel(p, ISA_LOAD, 0, 0, STAGE);
    looped_kernel(p, &s, seed);
    if (next_random(seed) % 2) looped_kernel(p, &s, seed);
    if (next_random(seed) % 2)
        copy_kernel(p, ISA_STORE, ROW_VALUES, ROW_VALUES, 2 * ROW_BYTES);
    uint32_t out = next_random(seed) % BUFFERS;
    copy_kernel(p, ISA_STORE, out * BUFFER_BYTES, out * BUFFER_BYTES, BUFFER_BYTES);
    emit(p, ISA_HALT);
    return p;
}

static void row_fusion__loops_stay_outside(void **state)
{
    (void)state;
    uint64_t seed = 9;
    uint32_t fusions = 0, rounds = test_rounds(600);
    fill_memory();
    for (uint32_t round = 0; round < rounds; round++) {
        uint64_t start = seed;
        isa_program *p = looped_program(&seed);
        fusions += check(p, start);
        free_program(p);
    }
    assert_true(fusions > rounds / 6);
}

static void add_stream(isa_program *p, const shape *s, opfunc op, uint8_t operands,
                       const isa_operand *operand)
{
    const layout layouts[ISA_MAX_OPERANDS] = {WHOLE, WHOLE, operands == 3 ? BY_ROW : WHOLE, WHOLE};
    begin_kernel(p, 1, 0);
    emit_whole(p, s, op, operands, operand, layouts, false);
    end_kernel(p);
}

// Buffer 0 chooses twice, while another value passes that the first choice makes; behind a
// reduction it is loaded again.
static void row_fusion__what_is_loaded_again_passes_until_its_last_step(void **state)
{
    (void)state;
    const shape s = {16, 3, false, 2, false, false, 0, 0};
    isa_program *p = new_program(1);
    row_values_at = ROW_VALUES, row_values_step = ROW_BYTES;
    fill_memory();
    copy_kernel(p, ISA_LOAD, 0, 0, STAGE);
    add_stream(p, &s, OPFUNC_RELUFWD, 2, (isa_operand[]){buffer(1), buffer(0)});
    add_stream(p, &s, OPFUNC_WHERE3, 4,
               (isa_operand[]){buffer(3), buffer(0), buffer(1), buffer(2)});
    add_stream(p, &s, OPFUNC_ABS, 2, (isa_operand[]){buffer(1), buffer(3)});
    add_stream(p, &s, OPFUNC_WHERE3, 4,
               (isa_operand[]){buffer(2), buffer(0), buffer(3), buffer(2)});
    begin_kernel(p, 1, 0);
    reduce_tiles(p, &s, ISA_REDUCE, OPFUNC_MAX, buffer(2), in_lx(SUMS, FP32), row_values(0));
    end_kernel(p);
    add_stream(p, &s, OPFUNC_SUB, 3, (isa_operand[]){buffer(3), buffer(0), row_values(0)});
    copy_kernel(p, ISA_STORE, 0, 0, BUFFERS * BUFFER_BYTES);
    emit(p, ISA_HALT);
    assert_int_equal(check(p, 0), 1);
    free_program(p);
}

// The larger of an element and its product with its row's value, as leaky_relu has it, with ends of
// the range on both sides: what is rounded at the end keeps the bytes of two roundings.
static void row_fusion__products_beside_their_factor_round_once(void **state)
{
    (void)state;
    static const uint16_t codes[] = {0x0000, 0x8000, 0x0001, 0x8001, 0x0200, 0x8200,
                                     0x7FFF, 0xFFFF, 0x7FFE, 0xFFFE, 0x3E00, 0xBE00,
                                     0x3147, 0xB147, 0x4001, 0x1E03};
    enum { CODES = sizeof codes / sizeof *codes };
    const shape s = {CODES, 3, false, 2, false, false, 0, 0};
    isa_program *p = new_program(1);
    row_values_at = ROW_VALUES, row_values_step = ROW_BYTES;
    fill_memory();
    for (uint32_t row = 0; row < CODES; row++) {
        memcpy(initial + ROW_VALUES + row * 128, &codes[row], sizeof codes[row]);
        memcpy(initial + row * 3 * 128, codes, sizeof codes);
    }
    copy_kernel(p, ISA_LOAD, 0, 0, STAGE);
    add_stream(p, &s, OPFUNC_MUL, 3, (isa_operand[]){buffer(1), buffer(0), row_values(0)});
    const layout whole[] = {WHOLE, WHOLE, WHOLE};
    begin_kernel(p, 1, 0);
    emit_whole(p, &s, OPFUNC_MAXIMUM, 3, (isa_operand[]){buffer(1), buffer(0), buffer(1)}, whole,
               false);
    end_kernel(p);
    copy_kernel(p, ISA_STORE, 0, 0, BUFFERS * BUFFER_BYTES);
    emit(p, ISA_HALT);
    assert_int_equal(check(p, 0), 1);
    free_program(p);
}

// A VECTOR over one lane per row reads the sums of its own kernel.
static void row_fusion__streams_may_read_sums(void **state)
{
    (void)state;
    const shape s = {16, 3, false, 2, false, false, 0, 0};
    const isa_operand sums = in_lx(SUMS, FP32);
    const layout layouts[] = {WHOLE, WHOLE, BY_ROW};
    isa_program *p = new_program(1);
    row_values_at = ROW_VALUES, row_values_step = ROW_BYTES;
    fill_memory();
    copy_kernel(p, ISA_LOAD, 0, 0, STAGE);
    begin_kernel(p, 1, 0);
    reduce_tiles(p, &s, ISA_REDUCE, OPFUNC_MAX, buffer(0), sums, row_values(0));
    emit_whole(p, &s, OPFUNC_SUB, 3, (isa_operand[]){buffer(1), buffer(0), sums}, layouts, false)
        ->operand[2].stride[0] = 4 * 64;
    end_kernel(p);
    copy_kernel(p, ISA_STORE, 0, 0, BUFFERS * BUFFER_BYTES);
    emit(p, ISA_HALT);
    check(p, 0);
    free_program(p);
}

// --- Halves of the host

enum {
    LONG_STICKS = ROWS_KEPT_FLOATS / 64 + 64,   // of a row: more than a row fusion keeps
    LONG = 2 * LONG_STICKS * 64,
    LONG_BYTES = 2 * LONG,
};

static isa_operand long_rows(uint32_t n)
{
    return in_lx(n * LONG_BYTES, DL16);
}

static void load_long(isa_program *p, uint16_t argument, uint32_t n)
{
    isa_operand memory = in_memory(argument, ISA_NO_SLOT, 0, DL16);
    begin_kernel(p, 1, 0);
    emit_flat(p, ISA_LOAD, LONG, 2, (isa_operand[]){long_rows(n), memory});
    signal_to(p, ISA_QUEUE_LOAD, 0);
    wait_for(p, ISA_QUEUE_SFP, 0);
}

static void store_long(isa_program *p, uint16_t argument, uint32_t n)
{
    isa_operand memory = in_memory(argument, ISA_NO_SLOT, 0, DL16);
    signal_to(p, ISA_QUEUE_SFP, 1);
    wait_for(p, ISA_QUEUE_STORE, 1);
    emit_flat(p, ISA_STORE, LONG, 2, (isa_operand[]){memory, long_rows(n)});
    end_kernel(p);
}

// arg1 = arg0 + arg0; arg2 = arg1 - the largest of its row.
static isa_program *sums_without_largest(void)
{
    const shape s = {2, LONG_STICKS, false, 2, false, false, 0, 0};
    const layout layouts[] = {WHOLE, WHOLE, BY_ROW};
    const isa_operand largest = in_lx(5 * LONG_BYTES, DL16);
    const isa_operand sums = in_lx(5 * LONG_BYTES + 2 * 128, FP32);
    isa_program *p = new_program(3);
    int64_t *bytes = ARENA_NEW(p->memory, int64_t, 3);
    assert_non_null(bytes);
    for (uint32_t n = 0; n < 3; n++) bytes[n] = LONG_BYTES;
    p->arg_bytes = bytes;
    load_long(p, 0, 0);
    isa_operand sum[] = {long_rows(1), long_rows(0), long_rows(0)};
    emit_flat(p, ISA_VECTOR, LONG, 3, sum)->op = OPFUNC_ADD;
    store_long(p, 1, 1);
    load_long(p, 1, 2);
    reduce_tiles(p, &s, ISA_REDUCE, OPFUNC_MAX, long_rows(2), sums, largest);
    end_kernel(p);
    load_long(p, 1, 3);
    emit_whole(p, &s, OPFUNC_SUB, 3, (isa_operand[]){long_rows(4), long_rows(3), largest}, layouts,
               false);
    store_long(p, 2, 4);
    emit(p, ISA_HALT);
    return p;
}

// Numbers beyond IEEE_FP16 that the program itself loads again do not lie with the host.
static void row_fusion__what_is_loaded_again_lies_on_the_card(void **state)
{
    (void)state;
    static uint16_t x[LONG], rest[LONG];
    card_argument arguments[] = {{CARD_HALVES + (uint64_t)(uintptr_t)x, LONG_BYTES},
                                 {128, LONG_BYTES},
                                 {CARD_HALVES + (uint64_t)(uintptr_t)rest, LONG_BYTES}};
    isa_program *p = sums_without_largest();
    card_program *loaded;
    for (uint32_t n = 0; n < LONG; n++) x[n] = fp16_from_float(40000.0f);
    memset(rest, 0xFF, sizeof rest);
    assert_ok(card_load(the_card, p, &loaded));
    card_program_forget_lx(loaded);
    card_set_mode(the_card, CARD_FAST);
    assert_true(card_takes_halves(loaded, 0) && card_takes_halves(loaded, 2));
    assert_false(card_takes_halves(loaded, 1));
    assert_ok(card_launch(the_card, loaded, arguments, 3, NULL));
    for (uint32_t n = 0; n < LONG; n++) assert_int_equal(rest[n], 0);
    card_unload(the_card, loaded);
    free_program(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(row_fusion__random_programs_keep_their_bytes),
        cmocka_unit_test(row_fusion__loops_stay_outside),
        cmocka_unit_test(row_fusion__what_is_loaded_again_passes_until_its_last_step),
        cmocka_unit_test(row_fusion__products_beside_their_factor_round_once),
        cmocka_unit_test(row_fusion__streams_may_read_sums),
        cmocka_unit_test(row_fusion__what_is_loaded_again_lies_on_the_card),
    };
    return cmocka_run_group_tests(tests, open_card, close_card);
}
