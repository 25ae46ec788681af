// SPDX-License-Identifier: Apache-2.0
//
// Programs of kernels over the same rows of sticks, which may become row fusions, and what they
// leave in both modes. For groups with open_card and close_card.
#ifndef TESTS_ROW_FUSION_PROGRAMS_H
#define TESTS_ROW_FUSION_PROGRAMS_H

#include "one_card.h"
#include "program.h"

#include "card/row_fusion/row_fusion.h"

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
    uint32_t parts;                         // of AGAIN
    bool mixed;                             // in every other buffer sticks lie the other way round
    bool wide;                              // the last two buffers are fp32, in sticks of 32
    uint32_t padding;                       // lanes at the end of a row that no reduction reads
    uint32_t nested;                        // buffers, a bit each, where parts lie inside of sticks
} shape;

// Strides of an operand's elements: of rows, of sticks, from lane 0 to lane 32, of lanes.
typedef struct {
    int64_t row, stick, upper, lane;
} strides;

static inline strides strides_of(const shape *s, spyre_format format)
{
    const int64_t rows = s->rows, sticks = s->sticks;
    if (format == DL16 && s->sticks_outside) return (strides){128, 128 * rows, 64, 2};
    if (format == DL16) return (strides){128 * sticks, 128, 64, 2};
    if (s->sticks_outside) return (strides){128, 256 * rows, 128 * rows, 4};
    return (strides){256 * sticks, 256, 128, 4};
}

// The shape as it lies where the operand has it.
static inline shape shape_in(const shape *s, const isa_operand *o)
{
    shape own = *s;
    bool odd = o->offset < BUFFERS * BUFFER_BYTES && o->offset / BUFFER_BYTES % 2;
    own.sticks_outside ^= s->mixed && odd && o->space == ISA_SPACE_LX;
    return own;
}

// AGAIN: the same for all parts of the rows; BY_PART: one element for all rows of a part; BY_STICK:
// one for each stick of each row.
typedef enum { WHOLE, LINE, BY_ROW, AGAIN, BY_PART, BY_STICK } layout;

static inline void set_strides(isa_operand *o, const shape *s, layout l, const uint32_t *place)
{
    const shape own = shape_in(s, o);
    strides by = strides_of(&own, o->format);
    if (l == LINE) by = (strides){0, 128, 64, 2};
    if (l == BY_ROW || l == BY_PART) by = (strides){.row = 128};
    const int64_t bytes = o->format == FP32 ? 4 : 2;
    if (l == BY_STICK) by = (strides){.row = bytes * s->sticks, .stick = bytes};
    o->stride[place[0]] = by.row;
    o->stride[place[1]] = by.stick;
    o->stride[2] = by.upper;
    o->stride[3] = by.lane;
}

// Where per-row values lie, and how far apart; a random program may have them in a buffer, or all
// in the same sticks.
static int64_t row_values_at = ROW_VALUES, row_values_step = ROW_BYTES;

// Values, a bit each, that have rows of the same place in their parts side by side.
static uint32_t turned_values;

static inline isa_operand row_values(uint32_t n)
{
    return in_lx(row_values_at + n * row_values_step, DL16);
}

static inline bool is_turned(const isa_operand *o)
{
    for (uint32_t n = 0; n < 3; n++)
        if (o->space == ISA_SPACE_LX && turned_values >> n & 1u &&
            o->offset == row_values(n).offset)
            return true;
    return false;
}

// Cuts the rows of a tile in parts, each of which begins again where layouts say so.
static inline void cut_rows(isa_instruction *i, uint32_t row, uint32_t parts, const layout *layouts)
{
    for (uint32_t d = i->dim_count++; d > row; d--) {
        i->extent[d] = i->extent[d - 1];
        for (uint32_t o = 0; o < i->operand_count; o++)
            i->operand[o].stride[d] = i->operand[o].stride[d - 1];
    }
    i->extent[row] = parts;
    i->extent[row + 1] /= parts;
    for (uint32_t o = 0; o < i->operand_count; o++) {
        isa_operand *operand = &i->operand[o];
        operand->stride[row] = layouts[o] == AGAIN ? 0 : operand->stride[row] * i->extent[row + 1];
        if (layouts[o] == BY_PART) operand->stride[row] = 128, operand->stride[row + 1] = 0;
        if (layouts[o] == BY_ROW && is_turned(operand))
            operand->stride[row] = 128, operand->stride[row + 1] = 128 * (int64_t)parts;
    }
}

static inline bool is_nested(const shape *s, const isa_operand *o)
{
    return o->space == ISA_SPACE_LX && o->offset < BUFFERS * BUFFER_BYTES &&
           s->nested >> o->offset / BUFFER_BYTES & 1u;
}

// Rows are cut in parts, which lie inside of sticks where the buffer has them so. `stick`: the dim
// of sticks, or where there is none of them.
static inline void nest_rows(isa_instruction *i, const shape *s, uint32_t row, uint32_t stick,
                             const layout *layouts)
{
    const int64_t parts = s->parts;
    cut_rows(i, row, s->parts, layouts);
    if (stick > row) stick++;
    for (uint32_t o = 0; o < i->operand_count; o++) {
        isa_operand *operand = &i->operand[o];
        if (layouts[o] != WHOLE || !is_nested(s, operand)) continue;
        const int64_t bytes = operand->format == FP32 ? 256 : 128;
        operand->stride[row] = bytes;
        operand->stride[row + 1] = bytes * parts * s->sticks;
        if (stick < i->dim_count) operand->stride[stick] = bytes * parts;
    }
}

// A VECTOR of all elements: dims in some order, or as one run where that is the same.
static inline isa_instruction *emit_whole(isa_program *p, const shape *s, opfunc op,
                                          uint8_t operands, const isa_operand *operand,
                                          const layout *layouts, bool flat)
{
    static const uint32_t orders[2][2] = {{0, 1}, {1, 0}};
    const uint32_t *place = orders[s->sticks_outside];
    bool again = false;
    flat = flat && !s->mixed && !s->nested;
    for (uint8_t o = 0; o < operands; o++)
        flat = flat && layouts[o] == WHOLE && operand[o].format == operand[0].format;
    if (flat) {
        isa_instruction *i = emit_flat(p, ISA_VECTOR, s->rows * s->sticks * 64, operands, operand);
        i->op = op;
        return i;
    }
    isa_instruction *i = emit(p, ISA_VECTOR);
    i->op = op;
    i->dim_count = 4;
    i->extent[place[0]] = s->rows;
    i->extent[place[1]] = s->sticks;
    i->extent[2] = 2;
    i->extent[3] = 32;
    i->operand_count = operands;
    for (uint8_t o = 0; o < operands; o++) {
        i->operand[o] = operand[o];
        set_strides(&i->operand[o], s, layouts[o], place);
        again = again || layouts[o] == AGAIN || layouts[o] == BY_PART;
        again = again || (layouts[o] == BY_ROW && is_turned(&operand[o]));
    }
    if (s->nested) {
        for (uint8_t o = 0; o < operands; o++)
            if (is_nested(s, &operand[o]) && operand[o].format == FP32 && layouts[o] == WHOLE)
                i->operand[o].stride[2] = 128;
        nest_rows(i, s, place[0], place[1], layouts);
    } else if (again) {
        cut_rows(i, place[0], s->parts, layouts);
    }
    return i;
}

static inline isa_operand buffer(uint32_t n)
{
    return in_lx((int64_t)n * BUFFER_BYTES, DL16);
}

static inline isa_operand any_buffer(const shape *s, uint64_t *seed)
{
    uint32_t n = next_random(seed) % BUFFERS;
    return in_lx((int64_t)n * BUFFER_BYTES, s->wide && n >= BUFFERS / 2 ? FP32 : DL16);
}

// Rows of operand o lie so far apart; in parts where some values are turned.
static inline void lay_rows(isa_instruction *i, const shape *s, uint32_t o, int64_t bytes)
{
    isa_operand *operand = &i->operand[o];
    const int64_t inner = turned_values ? s->rows / s->parts : 1;
    operand->stride[0] = bytes * inner;
    if (turned_values) operand->stride[1] = bytes;
    if (is_turned(operand)) operand->stride[0] = bytes, operand->stride[1] = bytes * s->parts;
}

static inline isa_instruction *emit_by_row(isa_program *p, const shape *s, opfunc op,
                                           uint8_t operands, const isa_operand *operand)
{
    isa_instruction *i = emit(p, ISA_VECTOR);
    i->op = op;
    i->dim_count = turned_values ? 2 : 1;
    i->extent[0] = turned_values ? s->parts : s->rows;
    if (turned_values) i->extent[1] = s->rows / s->parts;
    i->operand_count = operands;
    for (uint8_t o = 0; o < operands; o++) {
        i->operand[o] = operand[o];
        if (operand[o].offset != CONSTANT) lay_rows(i, s, o, operand[o].format == FP32 ? 256 : 128);
    }
    return i;
}

// A stick of every row gets one element a row.
static inline void emit_spread(isa_program *p, const shape *s, isa_operand to, isa_operand from)
{
    isa_instruction *i = emit_by_row(p, s, OPFUNC_NEG, 2, (isa_operand[]){to, from});
    i->extent[i->dim_count] = 64;
    i->operand[0].stride[i->dim_count++] = 2;
}

// Rows of one stick as the compiler has them: side by side they are one dim with their lanes.
static inline void drop_stick(isa_instruction *i)
{
    const bool dense = i->operand[1].stride[0] == 64 * i->operand[1].stride[2] &&
                       i->extent[2] == 64 && i->operand[1].format == DL16;
    i->extent[1] = i->extent[2];
    for (uint32_t o = 0; o < 2; o++) i->operand[o].stride[1] = i->operand[o].stride[2];
    i->dim_count = 2;
    if (!dense) return;
    i->extent[0] *= i->extent[1];
    for (uint32_t o = 0; o < 2; o++) i->operand[o].stride[0] = i->operand[o].stride[1];
    i->dim_count = 1;
}

// REDUCE of `sticks` of every row from one on, of so many lanes each; of none: of that one alone.
static inline void reduce_sticks(isa_program *p, const shape *s, const isa_instruction *like,
                                 uint32_t first, uint32_t sticks, uint32_t lanes)
{
    static const layout layouts[2] = {BY_ROW, WHOLE};
    const isa_operand *from = &like->operand[1];
    const shape own = shape_in(s, from);
    const strides by = strides_of(&own, from->format);
    const uint32_t halves = from->format == FP32 ? 2 : 1;
    isa_instruction *i = emit(p, like->opcode);
    *i = *like;
    // Sticks of fp32 lie side by side, or all of the rows between them.
    const int64_t stick = halves == 2 ? by.upper : by.stick;
    i->extent[0] = s->rows;
    i->operand[0].stride[0] = 4 * (64 / halves);
    i->operand[1].stride[0] = by.row;
    i->operand[1].offset += first * stick;
    i->dim_count = sticks ? 3 : 2;
    if (sticks) i->extent[1] = sticks, i->operand[1].stride[1] = stick;
    i->extent[i->dim_count - 1] = lanes;
    i->operand[0].stride[i->dim_count - 1] = 4;
    i->operand[1].stride[i->dim_count - 1] = by.lane;
    if (s->nested) nest_rows(i, s, 0, sticks ? 1 : ISA_MAX_DIMS, layouts);
    else if (sticks == 1) drop_stick(i);
}

// Of fp32, a row has half as many sums, and twice as many sticks. One reduction, or as many as
// there are `ways`, in turns: all of whole sticks, then all of what is left.
static inline void reduce_in_turns(isa_program *p, const shape *s, const isa_opcode *ways,
                                   uint32_t count, const isa_instruction *like,
                                   const isa_operand *to)
{
    const isa_operand *from = &like->operand[1];
    const bool wide = from->format == FP32;
    const uint32_t lanes = wide ? 32 : 64, sticks = wide ? 2 * s->sticks : s->sticks;
    const uint32_t padding = s->padding % lanes;
    const bool rest = padding && sticks > 1 && !s->nested;
    isa_instruction each[2] = {*like, *like};
    for (uint32_t n = 0; n < count; n++) {
        each[n].opcode = ways[n];
        each[n].queue = isa_describe(ways[n])->queue;
        if (ways[n] != ISA_REDUCE) each[n].op = (opfunc)0;
        each[n].operand[0].offset += n * SUMS_BYTES;
        isa_instruction *fill = emit_flat(p, ISA_FILL, s->rows * lanes, 1, each[n].operand);
        fill->constant[0] = opfunc_reduction_identity(like->op);
    }
    for (uint32_t n = 0; n < count; n++)
        reduce_sticks(p, s, &each[n], 0, rest ? sticks - 1 : sticks, lanes);
    for (uint32_t n = 0; rest && n < count; n++)
        reduce_sticks(p, s, &each[n], sticks - 1, 0, lanes - padding);
    for (uint32_t n = 0; n < count; n++) {
        isa_instruction *i = emit(p, ISA_FOLD);
        i->op = like->op;
        i->dim_count = 2;
        i->extent[0] = s->rows;
        i->extent[1] = lanes;
        i->operand_count = 1;
        i->operand[0] = each[n].operand[0];
        i->operand[0].stride[0] = 4 * lanes;
        i->operand[0].stride[1] = 4;
        i = emit_by_row(p, s, OPFUNC_IDENTITY, 2, (isa_operand[]){to[n], each[n].operand[0]});
        lay_rows(i, s, 1, 4 * lanes);
    }
}

static inline void reduce_tiles(isa_program *p, const shape *s, isa_opcode opcode, opfunc op,
                                isa_operand from, isa_operand sums, isa_operand to)
{
    const isa_instruction like = {.op = op, .operand_count = 2, .operand = {sums, from}};
    reduce_in_turns(p, s, &opcode, 1, &like, &to);
}

// Of the first lanes of every stick, more than a run has; in fp32 two tiles in a loop
// over sticks, the only one of the kernel.
static inline void reduce_first_lanes(isa_program *p, const shape *s, opfunc op, uint32_t lanes,
                                      const isa_operand *operand)
{
    const isa_operand to = operand[0], sums = operand[1], from = operand[2];
    const bool wide = from.format == FP32;
    const uint32_t summed = wide ? 32 : 64;
    const shape own = shape_in(s, &from);
    const strides by = strides_of(&own, from.format);
    emit_flat(p, ISA_FILL, s->rows * summed, 1, &sums)->constant[0] = opfunc_reduction_identity(op);
    if (wide) emit(p, ISA_LOOP)->count = s->sticks;
    for (uint32_t run = 0; run < (wide ? 2 : 1); run++) {
        isa_instruction *i = emit(p, ISA_REDUCE);
        i->op = op;
        i->operand_count = 2;
        i->operand[0] = sums;
        i->operand[1] = from;
        i->operand[1].offset += run * by.upper;
        if (wide) i->operand[1].loop_stride[0] = by.stick;
        const uint32_t extent[] = {s->rows, wide ? 1 : s->sticks,
                                   !wide ? lanes : run ? lanes - 32 : 32};
        const int64_t stride[2][3] = {{4 * (int64_t)summed, 0, 4},
                                      {by.row, by.stick, by.lane}};
        for (uint32_t d = 0; d < 3; d++) {
            if (wide && d == 1) continue;
            const uint32_t at = i->dim_count++;
            i->extent[at] = extent[d];
            for (uint32_t o = 0; o < 2; o++) i->operand[o].stride[at] = stride[o][d];
        }
        if (!wide || run || by.row != 128 || s->rows % 2 == 0) continue;
        i->dim_count = 1; // rows side by side, as one dim with their lanes
        i->extent[0] = s->rows * 32;
        for (uint32_t o = 0; o < 2; o++) i->operand[o].stride[0] = 4, i->operand[o].stride[1] = 0;
    }
    if (wide) emit(p, ISA_END_LOOP);
    isa_instruction *fold = emit(p, ISA_FOLD);
    fold->op = op;
    fold->dim_count = 2;
    fold->extent[0] = s->rows;
    fold->extent[1] = summed;
    fold->operand_count = 1;
    fold->operand[0] = sums;
    fold->operand[0].stride[0] = 4 * (int64_t)summed;
    fold->operand[0].stride[1] = 4;
    lay_rows(emit_by_row(p, s, OPFUNC_IDENTITY, 2, (isa_operand[]){to, sums}), s, 1,
             4 * (int64_t)summed);
}

// The sticks of every row become one, lane by lane, in a stick of the row's own.
static inline void reduce_lanes(isa_program *p, const shape *s, opfunc op, isa_operand from,
                                isa_operand sums, isa_operand to)
{
    static const layout layouts[2] = {BY_ROW, WHOLE};
    const shape own = shape_in(s, &from);
    const strides by = strides_of(&own, from.format);
    emit_flat(p, ISA_FILL, s->rows * 64, 1, &sums)->constant[0] = opfunc_reduction_identity(op);
    isa_instruction *i = emit(p, ISA_REDUCE);
    i->op = op;
    i->dim_count = 4;
    i->operand_count = 2;
    i->operand[0] = sums;
    i->operand[1] = from;
    const int64_t extent[] = {s->rows, s->sticks, 2, 32};
    const int64_t stride[2][4] = {{256, 0, 128, 4}, {by.row, by.stick, by.upper, by.lane}};
    for (uint32_t d = 0; d < 4; d++) {
        i->extent[d] = (uint32_t)extent[d];
        for (uint32_t o = 0; o < 2; o++) i->operand[o].stride[d] = stride[o][d];
    }
    if (s->nested) nest_rows(i, s, 0, 1, layouts);
    i = emit(p, ISA_VECTOR);
    i->op = OPFUNC_IDENTITY;
    i->dim_count = 2;
    i->extent[0] = s->rows;
    i->extent[1] = 64;
    i->operand_count = 2;
    i->operand[0] = to;
    i->operand[1] = sums;
    for (uint32_t o = 0; o < 2; o++) {
        i->operand[o].stride[0] = o ? 256 : 128;
        i->operand[o].stride[1] = o ? 4 : 2;
    }
}

static inline void copy_kernel(isa_program *p, isa_opcode opcode, int64_t lx, int64_t memory,
                               uint32_t bytes)
{
    isa_operand here = in_lx(lx, DL16), there = in_memory(0, ISA_NO_SLOT, memory, DL16);
    bool loads = opcode == ISA_LOAD;
    begin_kernel(p, 1, 0);
    emit_flat(p, opcode, bytes / 2, 2,
              (isa_operand[]){loads ? here : there, loads ? there : here});
    end_kernel(p);
}

static inline uint32_t row_fusions_of(const card_program *loaded)
{
    uint32_t count = 0;
    for (uint32_t n = 0; n < loaded->phases.count; n++) {
        const plan_phase *phase = &loaded->phases.items[n];
        count += phase->kind == PHASE_KERNEL && phase->kernel->rows;
    }
    return count;
}

// Fusions of the first runs of sticks alone, in all programs so far.
static uint32_t half_fusions;

static inline void count_half_fusions(const card_program *loaded)
{
    for (uint32_t n = 0; n < loaded->phases.count; n++) {
        const plan_phase *phase = &loaded->phases.items[n];
        half_fusions += phase->kind == PHASE_KERNEL && phase->kernel->rows &&
                        phase->kernel->rows->half;
    }
}

// Returns the fusions that the program had.
static inline uint32_t run(isa_program *p, card_mode mode)
{
    card_program *loaded;
    memcpy(card_memory(the_card, 128, MEMORY), initial, MEMORY);
    memset(card_lx(the_card, 0), 0, AREA);
    assert_ok(card_load(the_card, p, &loaded));
    card_program_forget_lx(loaded);
    card_argument argument = {128, MEMORY};
    card_set_mode(the_card, mode);
    assert_ok(card_launch(the_card, loaded, &argument, 1, NULL));
    uint32_t fusions = row_fusions_of(loaded);
    count_half_fusions(loaded);
    card_unload(the_card, loaded);
    return fusions;
}

static inline uint32_t check(isa_program *p, uint64_t seed)
{
    run(p, CARD_EXACT);
    memcpy(exact_memory, card_memory(the_card, 128, MEMORY), MEMORY);
    uint32_t fusions = run(p, CARD_FAST);
    if (memcmp(exact_memory, card_memory(the_card, 128, MEMORY), MEMORY) != 0) {
        text out = {0};
        isa_print(p, &out);
        fputs(text_string(&out), stderr);
        fail_msg("seed %llu", (unsigned long long)seed);
    }
    return fusions;
}

// As the upper half of IEEE_FP32: NaN that arithmetic makes quiet, and copies leave.
enum { SIGNALS = 0x7F90 };

static inline void fill_memory(void)
{
    uint64_t seed = 77;
    for (uint32_t n = 0; n < MEMORY; n += 2) {
        uint32_t bits = next_random(&seed);
        uint16_t code = (uint16_t)(bits % 64 ? 0x3800 + (bits >> 8) % 0x1000 : bits >> 8);
        if (bits % 256 == 64) code = SIGNALS;
        code |= (uint16_t)(bits >> 31 << 15);
        memcpy(initial + n, &code, sizeof code);
    }
}

#endif
