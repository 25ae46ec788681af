// SPDX-License-Identifier: Apache-2.0
//
// Which kernels become row fusions, how their rows are cut into blocks, and which stores they keep.
#include "row_fusion_programs.h"

typedef struct {
    int64_t shift;                          // of what the second kernel reads, in bytes
    uint32_t lanes;                         // of the second kernel's sticks
    bool other_rows;                        // it takes rows and sticks the other way round
    bool mixed;                             // they lie the other way round in what it reads
    bool scaled;                            // it multiplies by one element for all
    bool read_later;                        // a third kernel takes what the first one leaves
    bool replaced;                          // but another has overwritten that before,
    bool elsewhere;                         // on another core
    bool read_elsewhere;                    // the third kernel runs there
    bool lanes_replaced;                    // one element of each stick has been overwritten,
    bool lanes_read;                        // and that is all the third kernel takes,
    bool others_read;                       // or it is the one next to it
    bool in_turns;                          // a loop stores it, after each half is overwritten
    bool loaded;                            // all that the first kernel takes, just before it
    uint32_t fusions, stores;
} expectation;

static uint32_t stores_of(const row_fusion *c)
{
    uint32_t count = 0;
    for (uint32_t n = 0; n < c->steps.count; n++) count += c->steps.items[n].op == VECTOR_STORE;
    return count;
}

// A loop around kernels: half of buffer 1 after the other is overwritten, all of it is stored.
static void replace_in_turns(isa_program *p, uint32_t half)
{
    emit(p, ISA_LOOP)->count = 2;
    copy_kernel(p, ISA_LOAD, BUFFER_BYTES, 0, half);
    p->code.items[p->code.count - 2]->operand[0].loop_stride[0] = half;
    copy_kernel(p, ISA_STORE, BUFFER_BYTES, BUFFER_BYTES, 2 * half);
    p->code.items[p->code.count - 2]->operand[0].loop_stride[0] = 2 * (int64_t)half;
    emit(p, ISA_END_LOOP);
}

// Element `lane` of each stick of buffer 1 comes from memory, or goes there.
static void lane_kernel(isa_program *p, isa_opcode opcode, uint32_t lane, uint32_t sticks)
{
    copy_kernel(p, opcode, BUFFER_BYTES + 2 * lane, BUFFER_BYTES, 2 * sticks);
    p->code.items[p->code.count - 2]->operand[opcode == ISA_STORE].stride[0] = 128;
}

// Makes the instruction before a product with one element of LX, the same for all.
static void scale_by_one_element(isa_program *p)
{
    isa_instruction *i = p->code.items[p->code.count - 1];
    i->op = OPFUNC_MUL;
    i->operand_count = 3;
    i->operand[2] = in_lx(LINES, DL16);
}

// NEG from buffer 0 to 1, ABS from there to 2.
static isa_program *pair_of_kernels(const shape *s, const expectation *e)
{
    const layout whole[2] = {WHOLE, WHOLE};
    isa_program *p = new_program(1);
    shape other = *s;
    other.mixed = e->mixed;
    if (e->other_rows) other.sticks_outside = !s->sticks_outside;
    copy_kernel(p, ISA_LOAD, 0, 0, STAGE);
    if (e->loaded) copy_kernel(p, ISA_LOAD, 0, 128, s->rows * s->sticks * 128);
    begin_kernel(p, 1, 0);
    shape first = *s;
    first.mixed = e->mixed;
    emit_whole(p, &first, OPFUNC_NEG, 2, (isa_operand[]){buffer(1), buffer(0)}, whole, false);
    if (e->scaled) scale_by_one_element(p);
    end_kernel(p);
    begin_kernel(p, 1, 0);
    isa_operand from = buffer(1);
    from.offset += e->shift;
    emit_whole(p, &other, OPFUNC_ABS, 2, (isa_operand[]){buffer(2), from}, whole, false)
        ->extent[3] = e->lanes / 2;
    end_kernel(p);
    if (e->replaced) copy_kernel(p, ISA_LOAD, BUFFER_BYTES, 0, s->rows * s->sticks * 128);
    if (e->elsewhere) p->kernels.items[p->kernels.count - 1].active_cores = 2;
    if (e->in_turns) replace_in_turns(p, s->rows * s->sticks * 64);
    if (e->lanes_replaced) lane_kernel(p, ISA_LOAD, 3, s->rows * s->sticks);
    if (e->lanes_read) lane_kernel(p, ISA_STORE, 3, s->rows * s->sticks);
    if (e->others_read) lane_kernel(p, ISA_STORE, 4, s->rows * s->sticks);
    if (e->read_later) copy_kernel(p, ISA_STORE, BUFFER_BYTES, BUFFER_BYTES, BUFFER_BYTES / 4);
    if (e->read_elsewhere) p->kernels.items[p->kernels.count - 1].active_cores = 2;
    copy_kernel(p, ISA_STORE, 2 * BUFFER_BYTES, 2 * BUFFER_BYTES, BUFFER_BYTES);
    emit(p, ISA_HALT);
    return p;
}

static void fuse_rows__forms_where_rows_agree_and_stores_what_is_read(void **state)
{
    (void)state;
    static const expectation cases[] = {
        {.lanes = 64, .fusions = 1, .stores = 1},
        {.lanes = 64, .read_later = true, .fusions = 1, .stores = 2},
        {.lanes = 64, .read_later = true, .replaced = true, .fusions = 1, .stores = 1},
        {.lanes = 64, .read_later = true, .replaced = true, .elsewhere = true, .fusions = 1,
         .stores = 2},
        {.lanes = 64, .read_later = true, .read_elsewhere = true, .fusions = 1, .stores = 1},
        {.lanes = 64, .lanes_replaced = true, .lanes_read = true, .fusions = 1, .stores = 1},
        {.lanes = 64, .lanes_replaced = true, .others_read = true, .fusions = 1, .stores = 2},
        {.lanes = 64, .lanes_read = true, .fusions = 1, .stores = 2},
        {.lanes = 64, .lanes_replaced = true, .read_later = true, .fusions = 1, .stores = 2},
        {.lanes = 64, .in_turns = true, .fusions = 1, .stores = 2},
        {.lanes = 64, .loaded = true, .fusions = 1, .stores = 1},
        {.lanes = 64, .shift = 128, .fusions = 0},
        {.lanes = 64, .shift = 2, .fusions = 0},
        {.lanes = 36, .fusions = 0},
        // All of the same bytes, in whatever order.
        {.lanes = 64, .other_rows = true, .fusions = 1, .stores = 1},
        {.lanes = 64, .mixed = true, .fusions = 1, .stores = 1},
        {.lanes = 64, .scaled = true, .fusions = 1, .stores = 1},
        {.lanes = 64, .mixed = true, .scaled = true, .fusions = 1, .stores = 1},
    };
    const shape s = {16, 3, true, 2, false, false, 0, 0};
    fill_memory();
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        isa_program *p = pair_of_kernels(&s, &cases[n]);
        card_program *loaded;
        check(p, n);
        assert_ok(card_load(the_card, p, &loaded));
        assert_int_equal(row_fusions_of(loaded), cases[n].fusions);
        const row_fusion *c = loaded->phases.items[1].kernel->rows;
        if (c) assert_int_equal(c->kernels, cases[n].loaded ? 3 : 2);
        if (c) assert_int_equal(stores_of(c), cases[n].stores);
        card_unload(the_card, loaded);
        free_program(p);
    }
}

static uint32_t own_results_of(const row_fusion *c)
{
    uint32_t count = 0;
    for (uint32_t n = 0; n < c->items.count; n++)
        count += c->items.items[n].count == 0 && c->items.items[n].operand[0].place.own;
    return count;
}

typedef struct {
    shape s;
    bool masked;                            // a mask is added first, one for both halves of rows
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

// max; subtract, exp; sum; divide: one fusion that stores its last value only, whatever lies in
// place of what, keeps maxima and sums to itself, and rounds differences no further than exp needs.
// No block of rows lies across the end of a mask.
static void fuse_rows__softmax_is_one(void **state)
{
    (void)state;
    static const softmax_case cases[] = {{{62, 8, true, 2, false, false, 0, 0}, false, 48},
                                         {{62, 8, true, 2, false, false, 0, 0}, true, 31}};
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
        const row_fusion *c = loaded->phases.items[1].kernel->rows;
        assert_non_null(c);
        assert_int_equal(c->kernels, cases[n].masked ? 6 : 5);
        assert_int_equal(stores_of(c), 1);
        assert_int_equal(own_results_of(c), 2);
        assert_int_equal(c->block, cases[n].block);
        for (uint32_t s = 0; s < c->steps.count; s++)
            if (c->steps.items[s].op == VECTOR_APPLY + OPFUNC_SUB)
                assert_true(c->steps.items[s].rounding <= VECTOR_SIGNIFICAND ||
                            !simd_in_use()->has_exp);
        card_unload(the_card, loaded);
        free_program(p);
    }
}

// Rows under a mask that begins again every 64.
static void fuse_rows__blocks_are_parts_of_masks(void **state)
{
    (void)state;
    const shape s = {192, 1, true, 3, false, false, 0, 0};
    const layout mask[3] = {WHOLE, WHOLE, AGAIN};
    isa_program *p = new_program(1);
    fill_memory();
    copy_kernel(p, ISA_LOAD, 0, 0, STAGE);
    begin_kernel(p, 1, 0);
    emit_whole(p, &s, OPFUNC_ADD, 3, (isa_operand[]){buffer(2), buffer(0), buffer(1)}, mask, false);
    reduce_tiles(p, &s, ISA_REDUCE, OPFUNC_MAX, buffer(2), in_lx(SUMS, FP32), row_values(0));
    end_kernel(p);
    copy_kernel(p, ISA_STORE, 2 * BUFFER_BYTES, 0, s.rows * 128);
    copy_kernel(p, ISA_STORE, ROW_VALUES, BUFFER_BYTES, s.rows * 128);
    emit(p, ISA_HALT);
    card_program *loaded;
    assert_ok(card_load(the_card, p, &loaded));
    const row_fusion *c = loaded->phases.items[1].kernel->rows;
    assert_non_null(c);
    assert_int_equal(c->block, 64);
    card_unload(the_card, loaded);
    check(p, 0);
    free_program(p);
}

// Of two streams the host's first cache has 64 rows and those that follow, of three fewer.
static void fuse_rows__blocks_fit_the_first_cache(void **state)
{
    (void)state;
    static const struct {
        opfunc op;
        uint8_t operands;
        uint32_t block;
    } cases[] = {{OPFUNC_SQRT, 2, 64}, {OPFUNC_ADD, 3, 39}};
    const shape s = {192, 1, true, 3, false, false, 0, 0};
    const layout whole[3] = {WHOLE, WHOLE, WHOLE};
    fill_memory();
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        isa_program *p = new_program(1);
        copy_kernel(p, ISA_LOAD, 0, 0, STAGE);
        begin_kernel(p, 1, 0);
        emit_whole(p, &s, cases[n].op, cases[n].operands,
                   (isa_operand[]){buffer(2), buffer(0), buffer(1)}, whole, false);
        end_kernel(p);
        copy_kernel(p, ISA_STORE, 2 * BUFFER_BYTES, 0, s.rows * 128);
        emit(p, ISA_HALT);
        card_program *loaded;
        assert_ok(card_load(the_card, p, &loaded));
        const row_fusion *c = loaded->phases.items[1].kernel->rows;
        assert_non_null(c);
        assert_int_equal(c->block, cases[n].block);
        card_unload(the_card, loaded);
        check(p, 0);
        free_program(p);
    }
}

// Tiles of less than a stick, by one element that stands still along both dims: no rows to walk.
static void fuse_rows__less_than_a_stick_is_none(void **state)
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

// A step over 128 lanes, one after the other in the result and in x.
static isa_instruction *emit_lanes(isa_program *p, isa_opcode opcode, opfunc op, isa_operand result,
                                   isa_operand x)
{
    isa_instruction *i = emit(p, opcode);
    i->op = op;
    i->dim_count = 1;
    i->extent[0] = 128;
    i->operand_count = 2;
    i->operand[0] = result;
    i->operand[1] = x;
    for (uint32_t o = 0; o < 2; o++)
        i->operand[o].stride[0] = spyre_format_bytes(i->operand[o].format);
    return i;
}

// Sums lie in a fusion's own places: what streams all lanes of them reads none of these.
static void fuse_rows__all_lanes_of_sums_are_no_stream(void **state)
{
    (void)state;
    isa_program *p = new_program(1);
    const isa_operand sums = in_lx(SUMS, FP32);
    copy_kernel(p, ISA_LOAD, 0, 0, STAGE);
    begin_kernel(p, 1, 0);
    emit_lanes(p, ISA_FILL, (opfunc)0, sums, sums)->operand_count = 1;
    isa_instruction *constant = emit_lanes(p, ISA_FILL, (opfunc)0, in_lx(LINES, FP32), sums);
    constant->operand_count = 1;
    constant->extent[0] = 1;
    constant->constant[0] = 0.5f;
    emit_lanes(p, ISA_REDUCE, OPFUNC_SUM, sums, buffer(0));
    isa_instruction *scaled = emit_lanes(p, ISA_VECTOR, OPFUNC_MUL, sums, sums);
    scaled->operand_count = 3;
    scaled->operand[2] = in_lx(LINES, FP32);
    emit_lanes(p, ISA_VECTOR, OPFUNC_IDENTITY, buffer(1), sums);
    end_kernel(p);
    copy_kernel(p, ISA_STORE, BUFFER_BYTES, BUFFER_BYTES, BUFFER_BYTES);
    emit(p, ISA_HALT);
    fill_memory();
    check(p, 0);
    free_program(p);
}

// A step over sticks of rows, of memory those of every other group of rows.
static void emit_group(isa_program *p, isa_opcode opcode, opfunc op, isa_operand result,
                       isa_operand x)
{
    enum { ROWS = 64, STICKS = 4 };
    const uint32_t extent[3] = {STICKS, ROWS, 64};
    isa_instruction *i = emit(p, opcode);
    i->op = op;
    i->dim_count = 3;
    i->operand_count = 2;
    i->operand[0] = result;
    i->operand[1] = x;
    for (uint32_t d = 0; d < i->dim_count; d++) i->extent[d] = extent[d];
    for (uint32_t o = 0; o < i->operand_count; o++) {
        const int64_t groups = i->operand[o].space == ISA_SPACE_MEMORY ? 2 : 1;
        const int64_t stride[3] = {ROWS * 128 * groups, 128, 2};
        for (uint32_t d = 0; d < i->dim_count; d++) i->operand[o].stride[d] = stride[d];
    }
}

// Two kernels after the other for each group of rows, whose results lie between each other: the
// first of the second group could be one with those of the first, but its result is the next one's.
static void fuse_rows__ends_where_nothing_is_handed_on(void **state)
{
    (void)state;
    isa_program *p = new_program(1);
    for (uint32_t group = 0; group < 2; group++) {
        const int64_t rows = group * 64 * 128;
        begin_kernel(p, 1, 0);
        emit_group(p, ISA_LOAD, (opfunc)0, buffer(1), in_memory(0, ISA_NO_SLOT, rows, DL16));
        signal_to(p, ISA_QUEUE_LOAD, 0);
        wait_for(p, ISA_QUEUE_SFP, 0);
        emit_group(p, ISA_VECTOR, OPFUNC_NEG, buffer(0), buffer(1));
        end_kernel(p);
        begin_kernel(p, 1, 0);
        emit_group(p, ISA_VECTOR, OPFUNC_ABS, buffer(2), buffer(0));
        signal_to(p, ISA_QUEUE_SFP, 0);
        wait_for(p, ISA_QUEUE_STORE, 0);
        emit_group(p, ISA_STORE, (opfunc)0,
                   in_memory(0, ISA_NO_SLOT, 2 * BUFFER_BYTES + rows, DL16), buffer(2));
        end_kernel(p);
    }
    emit(p, ISA_HALT);
    fill_memory();
    assert_int_equal(check(p, 0), 2);
    card_program *loaded;
    assert_ok(card_load(the_card, p, &loaded));
    for (uint32_t first = 0; first < 4; first += 2) {
        assert_non_null(loaded->phases.items[first].kernel->rows);
        assert_int_equal(loaded->phases.items[first].kernel->rows->kernels, 2);
    }
    card_unload(the_card, loaded);
    free_program(p);
}

static void copy_in_loop(isa_program *p, bool in_loop, isa_opcode opcode, int64_t lx,
                         uint32_t bytes)
{
    if (in_loop) emit(p, ISA_LOOP)->count = 1;
    copy_kernel(p, opcode, lx, 0, bytes);
    if (in_loop) emit(p, ISA_END_LOOP);
}

// A cast to fp32, or from it, by itself: where loops around the other kernels are barriers it is a
// tile, which all cores may share.
static void fuse_rows__casts_among_kernels_are_streams(void **state)
{
    (void)state;
    const shape s = {64, 2, true, 1, false, true, 0, 0};
    const layout whole[2] = {WHOLE, WHOLE};
    for (uint32_t n = 0; n < 4; n++) {
        const bool widens = n & 1u, in_loop = n & 2u;
        const isa_operand narrow = buffer(0), wide = in_lx(2 * BUFFER_BYTES, FP32);
        isa_program *p = new_program(1);
        copy_in_loop(p, in_loop, ISA_LOAD, 0, STAGE);
        begin_kernel(p, 1, 0);
        emit_whole(p, &s, OPFUNC_IDENTITY, 2,
                   (isa_operand[]){widens ? wide : narrow, widens ? narrow : wide}, whole, false);
        end_kernel(p);
        copy_in_loop(p, in_loop, ISA_STORE, widens ? 2 * BUFFER_BYTES : 0, BUFFER_BYTES / 2);
        emit(p, ISA_HALT);
        fill_memory();
        assert_int_equal(check(p, 0), in_loop ? 0 : 1);
        free_program(p);
    }
}

// A norm by itself: tiles keep a line of weights or biases in registers, and have no loop for a
// bias of every element.
static void fuse_rows__norms_whose_bias_is_a_stream(void **state)
{
    (void)state;
    const shape s = {64, 2, true, 1, false, false, 0, 0};
    for (uint32_t n = 0; n < 2; n++) {
        const layout bias = n ? WHOLE : LINE;
        const layout layouts[] = {WHOLE, WHOLE, BY_ROW, BY_ROW, LINE, bias};
        const isa_operand operands[] = {buffer(1), buffer(0), row_values(0), row_values(1),
                                        in_lx(LINES, DL16),
                                        n ? buffer(2) : in_lx(LINES + LINE_BYTES, DL16)};
        isa_program *p = new_program(1);
        copy_in_loop(p, true, ISA_LOAD, 0, STAGE);
        begin_kernel(p, 1, 0);
        emit_whole(p, &s, OPFUNC_LAYERNORMNORM, 6, operands, layouts, false);
        end_kernel(p);
        copy_in_loop(p, true, ISA_STORE, BUFFER_BYTES, BUFFER_BYTES);
        emit(p, ISA_HALT);
        fill_memory();
        assert_int_equal(check(p, 0), n);
        free_program(p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fuse_rows__forms_where_rows_agree_and_stores_what_is_read),
        cmocka_unit_test(fuse_rows__softmax_is_one),
        cmocka_unit_test(fuse_rows__blocks_are_parts_of_masks),
        cmocka_unit_test(fuse_rows__blocks_fit_the_first_cache),
        cmocka_unit_test(fuse_rows__less_than_a_stick_is_none),
        cmocka_unit_test(fuse_rows__all_lanes_of_sums_are_no_stream),
        cmocka_unit_test(fuse_rows__ends_where_nothing_is_handed_on),
        cmocka_unit_test(fuse_rows__casts_among_kernels_are_streams),
        cmocka_unit_test(fuse_rows__norms_whose_bias_is_a_stream),
    };
    return cmocka_run_group_tests(tests, open_card, close_card);
}
