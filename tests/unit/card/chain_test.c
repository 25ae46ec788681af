// SPDX-License-Identifier: Apache-2.0
//
// Chains: random kernels over the same rows must leave the bytes that element-by-element execution
// leaves, whatever their tiles look like; which kernels become chains, and which stores they keep.
#include "one_card.h"
#include "program.h"

#include "card/chain/chain.h"

enum {
    MEMORY = 512 << 10,
    OUTSIDE = 448 << 10,                    // in memory: where nothing of LX comes from
    BUFFERS = 4,
    BUFFER_BYTES = 64 << 10,                // of all sticks of all rows, at most
    LINES = BUFFERS * BUFFER_BYTES,         // LX: a line of elements each, the same for all rows
    LINE_BYTES = 4 << 10,
    ROW_VALUES = LINES + 2 * LINE_BYTES,    // one stick a row
    ROW_BYTES = 8 << 10,
    SUMS = ROW_VALUES + 3 * ROW_BYTES,      // fp32, one stick's a row
    SUMS_BYTES = 32 << 10,
    CONSTANT = SUMS + 2 * SUMS_BYTES,
    STAGE = CONSTANT + 128,
    AREA = STAGE + BUFFER_BYTES,
};

static uint8_t initial[MEMORY], exact_memory[MEMORY];

// --- Tiles over rows and sticks

typedef struct {
    uint32_t rows, sticks;
    bool sticks_outside;
} shape;

static int64_t row_step(const shape *s)
{
    return s->sticks_outside ? 128 : 128 * (int64_t)s->sticks;
}

static int64_t stick_step(const shape *s)
{
    return s->sticks_outside ? 128 * (int64_t)s->rows : 128;
}

// AGAIN: the same for both halves of the rows.
typedef enum { WHOLE, LINE, BY_ROW, AGAIN } layout;

static void set_strides(isa_operand *o, const shape *s, layout l, const uint32_t *place)
{
    o->stride[place[0]] = l == LINE ? 0 : l == BY_ROW ? 128 : row_step(s);
    o->stride[place[1]] = l == BY_ROW ? 0 : l == LINE ? 128 : stick_step(s);
    o->stride[2] = l == BY_ROW ? 0 : 2;
}

// Cuts the rows of a tile in two halves, the second of which begins again where layouts say so.
static void cut_rows(isa_instruction *i, uint32_t row, const layout *layouts)
{
    for (uint32_t d = i->dim_count++; d > row; d--) {
        i->extent[d] = i->extent[d - 1];
        for (uint32_t o = 0; o < i->operand_count; o++)
            i->operand[o].stride[d] = i->operand[o].stride[d - 1];
    }
    i->extent[row] = 2;
    i->extent[row + 1] /= 2;
    for (uint32_t o = 0; o < i->operand_count; o++) {
        isa_operand *operand = &i->operand[o];
        operand->stride[row] = layouts[o] == AGAIN ? 0 : operand->stride[row] * i->extent[row + 1];
    }
}

// A VECTOR of all elements: dims in some order, or as one run where that is the same.
static isa_instruction *emit_whole(isa_program *p, const shape *s, opfunc op, uint8_t operands,
                                   const isa_operand *operand, const layout *layouts, bool flat)
{
    static const uint32_t orders[2][2] = {{0, 1}, {1, 0}};
    const uint32_t *place = orders[s->sticks_outside];
    bool again = false;
    for (uint8_t o = 0; o < operands; o++) flat = flat && layouts[o] == WHOLE;
    if (flat) {
        isa_instruction *i = emit_flat(p, ISA_VECTOR, s->rows * s->sticks * 64, operands, operand);
        i->op = op;
        return i;
    }
    isa_instruction *i = emit(p, ISA_VECTOR);
    i->op = op;
    i->dim_count = 3;
    i->extent[place[0]] = s->rows;
    i->extent[place[1]] = s->sticks;
    i->extent[2] = 64;
    i->operand_count = operands;
    for (uint8_t o = 0; o < operands; o++) {
        i->operand[o] = operand[o];
        set_strides(&i->operand[o], s, layouts[o], place);
        again = again || layouts[o] == AGAIN;
    }
    if (again) cut_rows(i, place[0], layouts);
    return i;
}

static isa_operand buffer(uint32_t n)
{
    return in_lx((int64_t)n * BUFFER_BYTES, DL16);
}

static isa_operand row_values(uint32_t n)
{
    return in_lx(ROW_VALUES + (int64_t)n * ROW_BYTES, DL16);
}

static isa_instruction *emit_by_row(isa_program *p, const shape *s, opfunc op, uint8_t operands,
                                    const isa_operand *operand)
{
    isa_instruction *i = emit(p, ISA_VECTOR);
    i->op = op;
    i->dim_count = 1;
    i->extent[0] = s->rows;
    i->operand_count = operands;
    for (uint8_t o = 0; o < operands; o++) {
        i->operand[o] = operand[o];
        if (operand[o].offset == CONSTANT) continue;
        i->operand[o].stride[0] = operand[o].format == FP32 ? 256 : 128;
    }
    return i;
}

// Makes two iterations over halves of the rows of what the loop at `loop` encloses.
static void halve_rows(isa_program *p, uint32_t loop, const shape *s)
{
    p->code.items[loop].count = 2;
    for (uint32_t at = loop + 1; at < p->code.count; at++) {
        isa_instruction *i = &p->code.items[at];
        uint32_t row = i->dim_count == 3 && i->opcode == ISA_VECTOR ? s->sticks_outside : 0;
        if (i->extent[row] == 1 && i->opcode == ISA_FILL) continue;
        i->extent[row] /= 2;
        for (uint32_t o = 0; o < i->operand_count; o++)
            if (i->operand[o].format == DL16)
                i->operand[o].loop_stride[0] = i->operand[o].stride[row] * i->extent[row];
    }
}

// --- Kernels

static void stream_kernel(isa_program *p, const shape *s, bool loops, uint64_t *seed)
{
    static const opfunc unary[] = {OPFUNC_EXP, OPFUNC_NEG, OPFUNC_RELUFWD, OPFUNC_TANH,
                                   OPFUNC_IDENTITY, OPFUNC_ABS};
    static const opfunc binary[] = {OPFUNC_ADD, OPFUNC_SUB, OPFUNC_MUL, OPFUNC_REALDIV,
                                    OPFUNC_MAXIMUM, OPFUNC_LESSERTHAN};
    isa_operand operand[ISA_MAX_OPERANDS] = {buffer(next_random(seed) % BUFFERS),
                                             buffer(next_random(seed) % BUFFERS)};
    layout layouts[ISA_MAX_OPERANDS] = {WHOLE, WHOLE};
    uint8_t operands = 2;
    opfunc op = unary[next_random(seed) % 6];
    uint32_t kind = next_random(seed) % 8;
    if (kind < 5) {
        op = binary[next_random(seed) % 6];
        uint32_t second = next_random(seed) % 5;
        layouts[2] = second == 0 ? LINE : second == 1 ? BY_ROW : WHOLE;
        if (second == 2 && !loops && s->rows % 2 == 0) layouts[2] = AGAIN;
        operand[2] = layouts[2] == LINE     ? in_lx(LINES, DL16)
                     : layouts[2] == BY_ROW ? row_values(next_random(seed) % 2)
                                            : buffer(next_random(seed) % BUFFERS);
        operands = 3;
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
    emit_whole(p, s, op, operands, operand, layouts, !loops && next_random(seed) % 2);
}

static void reduce_tiles(isa_program *p, const shape *s, isa_opcode opcode, opfunc op,
                         isa_operand from, isa_operand sums, isa_operand to)
{
    isa_instruction *fill = emit_flat(p, ISA_FILL, s->rows * 64, 1, &sums);
    fill->constant[0] = opfunc_reduction_identity(op);
    isa_instruction *i = emit(p, opcode);
    if (opcode == ISA_REDUCE) i->op = op;
    i->dim_count = 3;
    i->operand_count = 2;
    i->operand[0] = sums;
    i->operand[1] = from;
    const uint32_t extents[3] = {s->rows, s->sticks, 64};
    const int64_t in[3] = {row_step(s), stick_step(s), 2}, out[3] = {256, 0, 4};
    for (uint32_t d = 0; d < 3; d++) {
        i->extent[d] = extents[d];
        i->operand[0].stride[d] = out[d];
        i->operand[1].stride[d] = in[d];
    }
    i = emit(p, ISA_FOLD);
    i->op = op;
    i->dim_count = 2;
    i->extent[0] = s->rows;
    i->extent[1] = 64;
    i->operand_count = 1;
    i->operand[0] = sums;
    i->operand[0].stride[0] = 256;
    i->operand[0].stride[1] = 4;
    emit_by_row(p, s, OPFUNC_IDENTITY, 2, (isa_operand[]){to, sums});
}

static void reduce_kernel(isa_program *p, const shape *s, uint64_t *seed)
{
    static const opfunc ops[] = {OPFUNC_MAX, OPFUNC_MIN, OPFUNC_SUM};
    isa_operand from = buffer(next_random(seed) % BUFFERS), sums = in_lx(SUMS, FP32);
    isa_operand to = row_values(next_random(seed) % 2);
    bool squares = next_random(seed) % 4 == 0;
    opfunc op = squares ? OPFUNC_SUM : ops[next_random(seed) % 3];
    reduce_tiles(p, s, squares ? ISA_REDUCESQ : ISA_REDUCE, op, from, sums, to);
}

// Mean and more: what there is one of a row, in SEN169_FP16 and in fp32.
static void row_kernel(isa_program *p, const shape *s, uint64_t *seed)
{
    isa_operand constant = in_lx(CONSTANT, FP32), sums = in_lx(SUMS + SUMS_BYTES, FP32);
    isa_operand a = row_values(next_random(seed) % 2), b = row_values(next_random(seed) % 2);
    isa_operand to = row_values(next_random(seed) % 2);
    if (next_random(seed) % 2) {
        emit_by_row(p, s, OPFUNC_ADD, 3, (isa_operand[]){to, a, b});
        return;
    }
    reduce_tiles(p, s, ISA_REDUCE, OPFUNC_SUM, buffer(next_random(seed) % BUFFERS), sums, a);
    isa_instruction *fill = emit_flat(p, ISA_FILL, 1, 1, &constant);
    fill->constant[0] = 0.125f;
    fill->operand[0].stride[0] = 0;
    emit_by_row(p, s, OPFUNC_MUL, 3, (isa_operand[]){sums, sums, constant});
    emit_by_row(p, s, OPFUNC_IDENTITY, 2, (isa_operand[]){to, sums});
}

static void copy_kernel(isa_program *p, isa_opcode opcode, int64_t lx, int64_t memory,
                        uint32_t bytes)
{
    isa_operand here = in_lx(lx, DL16), there = in_memory(0, ISA_NO_SLOT, memory, DL16);
    bool loads = opcode == ISA_LOAD;
    begin_kernel(p, 1, 0);
    emit_flat(p, opcode, bytes / 2, 2,
              (isa_operand[]){loads ? here : there, loads ? there : here});
    end_kernel(p);
}

static void random_kernel(isa_program *p, const shape *s, uint64_t *seed)
{
    uint32_t kind = next_random(seed) % 8, loop = p->code.count + 1;
    bool halves = s->rows % 2 == 0 && next_random(seed) % 2;
    begin_kernel(p, 1, 0);
    emit(p, ISA_LOOP)->count = 1;
    if (kind < 5) stream_kernel(p, s, halves, seed);
    else if (kind < 7) reduce_kernel(p, s, seed);
    else row_kernel(p, s, seed);
    if (halves) halve_rows(p, loop, s);
    emit(p, ISA_END_LOOP);
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

// LX comes from memory and part of it goes back, so that some of what kernels leave is read.
static isa_program *random_program(uint64_t *seed)
{
    static const uint32_t sticks[] = {1, 1, 2, 3, 6};
    shape s = {2 + next_random(seed) % 30, sticks[next_random(seed) % 5],
               next_random(seed) % 2};
    isa_program *p = new_program(1);
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

static uint32_t chains_of(const card_program *loaded)
{
    uint32_t count = 0;
    for (uint32_t n = 0; n < loaded->phases.count; n++)
        count += loaded->phases.items[n].kernel->chain != NULL;
    return count;
}

// Returns the chains that the program had.
static uint32_t run(isa_program *p, card_mode mode)
{
    card_program *loaded;
    memcpy(card_memory(the_card, 128, MEMORY), initial, MEMORY);
    memset(card_lx(the_card, 0), 0, AREA);
    assert_ok(card_load(the_card, p, &loaded));
    card_program_forget_lx(loaded);
    card_argument argument = {128, MEMORY};
    card_set_mode(the_card, mode);
    assert_ok(card_launch(the_card, loaded, &argument, 1, NULL));
    uint32_t chains = chains_of(loaded);
    card_unload(the_card, loaded);
    return chains;
}

static uint32_t check(isa_program *p, uint64_t seed)
{
    run(p, CARD_EXACT);
    memcpy(exact_memory, card_memory(the_card, 128, MEMORY), MEMORY);
    uint32_t chains = run(p, CARD_FAST);
    if (memcmp(exact_memory, card_memory(the_card, 128, MEMORY), MEMORY) != 0) {
        text out = {0};
        isa_print(p, &out);
        fputs(text_string(&out), stderr);
        fail_msg("seed %llu", (unsigned long long)seed);
    }
    return chains;
}

static void fill_memory(void)
{
    uint64_t seed = 77;
    for (uint32_t n = 0; n < MEMORY; n += 2) {
        uint32_t bits = next_random(&seed);
        uint16_t code = (uint16_t)(bits % 64 ? 0x3800 + (bits >> 8) % 0x1000 : bits >> 8);
        code |= (uint16_t)(bits >> 31 << 15);
        memcpy(initial + n, &code, sizeof code);
    }
}

static void chain__random_programs_keep_their_bytes(void **state)
{
    (void)state;
    uint64_t seed = 42;
    uint32_t chains = 0;
    enum { ROUNDS = 1200 };
    fill_memory();
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint64_t start = seed;
        isa_program *p = random_program(&seed);
        chains += check(p, start);
        free_program(p);
    }
    assert_true(chains > ROUNDS / 3);
}

// --- What becomes a chain

typedef struct {
    int64_t shift;                          // of what the second kernel reads, in bytes
    uint32_t lanes;                         // of the second kernel's sticks
    bool other_rows;                        // it takes rows and sticks the other way round
    bool read_later;                        // a third kernel takes what the first one leaves
    bool replaced;                          // but another has overwritten that before,
    bool elsewhere;                         // on another core
    uint32_t chains, stores;
} expectation;

static uint32_t stores_of(const chain *c)
{
    uint32_t count = 0;
    for (uint32_t n = 0; n < c->steps.count; n++) count += c->steps.items[n].verb == WALK_STORE;
    return count;
}

// NEG from buffer 0 to 1, EXP from there to 2.
static isa_program *pair_of_kernels(const shape *s, const expectation *e)
{
    const layout whole[2] = {WHOLE, WHOLE};
    isa_program *p = new_program(1);
    shape other = *s;
    if (e->other_rows) other = (shape){s->rows, s->sticks, !s->sticks_outside};
    copy_kernel(p, ISA_LOAD, 0, 0, STAGE);
    begin_kernel(p, 1, 0);
    emit_whole(p, s, OPFUNC_NEG, 2, (isa_operand[]){buffer(1), buffer(0)}, whole, false);
    end_kernel(p);
    begin_kernel(p, 1, 0);
    isa_operand from = buffer(1);
    from.offset += e->shift;
    emit_whole(p, &other, OPFUNC_EXP, 2, (isa_operand[]){buffer(2), from}, whole, false)
        ->extent[2] = e->lanes;
    end_kernel(p);
    if (e->replaced) copy_kernel(p, ISA_LOAD, BUFFER_BYTES, 0, s->rows * s->sticks * 128);
    if (e->elsewhere) p->kernels.items[p->kernels.count - 1].active_cores = 2;
    if (e->read_later) copy_kernel(p, ISA_STORE, BUFFER_BYTES, BUFFER_BYTES, BUFFER_BYTES / 4);
    copy_kernel(p, ISA_STORE, 2 * BUFFER_BYTES, 2 * BUFFER_BYTES, BUFFER_BYTES);
    emit(p, ISA_HALT);
    return p;
}

static void chain__forms_where_rows_agree_and_stores_what_is_read(void **state)
{
    (void)state;
    static const expectation cases[] = {
        {.lanes = 64, .chains = 1, .stores = 1},
        {.lanes = 64, .read_later = true, .chains = 1, .stores = 2},
        {.lanes = 64, .read_later = true, .replaced = true, .chains = 1, .stores = 1},
        {.lanes = 64, .read_later = true, .replaced = true, .elsewhere = true, .chains = 1,
         .stores = 2},
        {.lanes = 64, .shift = 128, .chains = 0},
        {.lanes = 64, .shift = 2, .chains = 0},
        {.lanes = 36, .chains = 0},
        // All of the same bytes, in whatever order.
        {.lanes = 64, .other_rows = true, .chains = 1, .stores = 1},
    };
    const shape s = {16, 3, true};
    fill_memory();
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        isa_program *p = pair_of_kernels(&s, &cases[n]);
        card_program *loaded;
        check(p, n);
        assert_ok(card_load(the_card, p, &loaded));
        assert_int_equal(chains_of(loaded), cases[n].chains);
        const chain *c = loaded->phases.items[1].kernel->chain;
        if (c) assert_int_equal(stores_of(c), cases[n].stores);
        card_unload(the_card, loaded);
        free_program(p);
    }
}

static uint32_t own_results_of(const chain *c)
{
    uint32_t count = 0;
    for (uint32_t n = 0; n < c->items.count; n++)
        count += c->items.items[n].count == 0 && c->items.items[n].operand[0].place.own;
    return count;
}

typedef struct {
    shape s;
    bool masked;                            // a mask is added first, one for both halves of the rows
    uint32_t block;
} softmax_case;

static void softmax_kernel(isa_program *p, const softmax_case *x, uint32_t part)
{
    const layout rows[3] = {WHOLE, WHOLE, BY_ROW}, mask[3] = {WHOLE, WHOLE, AGAIN};
    const isa_operand b = buffer(0), sums = in_lx(SUMS, FP32), value = row_values(0);
    const isa_operand two[3] = {b, b, value}, masked[3] = {b, b, buffer(1)};
    begin_kernel(p, 1, 0);
    if (part == 0) emit_whole(p, &x->s, OPFUNC_ADD, 3, masked, mask, false);
    if (part == 1) reduce_tiles(p, &x->s, ISA_REDUCE, OPFUNC_MAX, b, sums, value);
    if (part == 2) emit_whole(p, &x->s, OPFUNC_SUB, 3, two, rows, false);
    if (part == 3) emit_whole(p, &x->s, OPFUNC_EXP, 2, two, rows, true);
    if (part == 4) reduce_tiles(p, &x->s, ISA_REDUCE, OPFUNC_SUM, b, sums, value);
    if (part == 5) emit_whole(p, &x->s, OPFUNC_REALDIV, 3, two, rows, false);
    end_kernel(p);
}

// max; subtract, exp; sum; divide: one chain that stores its last value only, whatever lies in
// place of what, keeps maxima and sums to itself, and rounds differences no further than exp needs.
// No block of rows lies across the end of a mask.
static void chain__softmax_is_one(void **state)
{
    (void)state;
    static const softmax_case cases[] = {{{30, 5, true}, false, 24}, {{30, 5, true}, true, 15}};
    fill_memory();
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        isa_program *p = new_program(1);
        copy_kernel(p, ISA_LOAD, 0, 0, STAGE);
        for (uint32_t part = !cases[n].masked; part < 6; part++) softmax_kernel(p, &cases[n], part);
        copy_kernel(p, ISA_STORE, 0, 0, BUFFER_BYTES);
        emit(p, ISA_HALT);
        check(p, 0);
        card_program *loaded;
        assert_ok(card_load(the_card, p, &loaded));
        const chain *c = loaded->phases.items[1].kernel->chain;
        assert_non_null(c);
        assert_int_equal(c->kernels, cases[n].masked ? 6 : 5);
        assert_int_equal(stores_of(c), 1);
        assert_int_equal(own_results_of(c), 2);
        assert_int_equal(c->block, cases[n].block);
        for (uint32_t s = 0; s < c->steps.count; s++)
            if (c->steps.items[s].verb == WALK_APPLY + OPFUNC_SUB)
                assert_true(c->steps.items[s].rounding <= WALK_SIGNIFICAND ||
                            !strip_in_use()->has_exp);
        card_unload(the_card, loaded);
        free_program(p);
    }
}

// Tiles of less than a stick, by one element that stands still along both dims: no rows to walk.
static void chain__less_than_a_stick_is_none(void **state)
{
    (void)state;
    isa_program *p = new_program(1);
    copy_kernel(p, ISA_LOAD, 0, 0, STAGE);
    for (int part = 0; part < 2; part++) {
        begin_kernel(p, 1, 0);
        isa_instruction *i = emit(p, ISA_VECTOR);
        i->op = OPFUNC_MUL;
        i->dim_count = 2;
        i->extent[0] = 3;
        i->extent[1] = 8;
        i->operand_count = 3;
        for (uint32_t o = 0; o < 3; o++) i->operand[o] = o == 2 ? in_lx(CONSTANT, DL16) : buffer(0);
        for (uint32_t o = 0; o < 2; o++) {
            i->operand[o].stride[0] = 128;
            i->operand[o].stride[1] = 2;
        }
        end_kernel(p);
    }
    copy_kernel(p, ISA_STORE, 0, 0, BUFFER_BYTES);
    emit(p, ISA_HALT);
    fill_memory();
    assert_int_equal(check(p, 0), 0);
    free_program(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chain__random_programs_keep_their_bytes),
        cmocka_unit_test(chain__forms_where_rows_agree_and_stores_what_is_read),
        cmocka_unit_test(chain__softmax_is_one),
        cmocka_unit_test(chain__less_than_a_stick_is_none),
    };
    return cmocka_run_group_tests(tests, open_card, close_card);
}
