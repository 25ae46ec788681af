// SPDX-License-Identifier: Apache-2.0
//
// Row fusions of all cores: random kernels over the same elements, each of which divides them among
// cores in its own way, with messages between them, leave the bytes of element-by-element
// execution. Places in LX are few, so that kernels and messages write over what others left there.
#include "one_card.h"
#include "program.h"
#include "support/rounds.h"

#include "card/plan.h"
#include "card/row_fusion/row_fusion.h"

enum {
    DIMS = 4,                               // three of rows, then sticks
    STICKS = 3,
    MOST_ELEMENTS = 1 << 16,
    BYTES = MOST_ELEMENTS * 2,
    PLACES = 5,                             // of all elements, in LX
    VALUES = PLACES * BYTES,                // of one element a row, a stick each
    MOST_ROWS = 256,
    VALUES_BYTES = MOST_ROWS * 128,
    MOST_VALUES = 3,
    SUMS = VALUES + MOST_VALUES * VALUES_BYTES,
    SCALE = SUMS + 2 * VALUES_BYTES,        // one number a kernel
    END = SCALE + 128,
    MEMORY = 4 * BYTES,
};
_Static_assert(END <= (int)ISA_LX_BYTES, "");

static uint8_t initial[MEMORY], exact[MEMORY];

// How dims are divided among cores: core = sum of part[d] * step[d].
typedef struct {
    uint32_t parts[DIMS], step[DIMS];
} division;

// What lies at a place of LX: how cores divide it, and the order of dims, outermost first.
typedef struct {
    bool is;
    division by;
    uint32_t order[DIMS];
    int64_t at;
} held;

typedef struct {
    isa_program *p;
    uint64_t seed;
    uint32_t extent[DIMS];
    held whole[PLACES], values[MOST_VALUES];
} maker;

static uint32_t below(maker *m, uint32_t end)
{
    return next_random(&m->seed) % end;
}

static uint32_t cores_of(const division *by)
{
    uint32_t cores = 1;
    for (uint32_t d = 0; d < DIMS; d++) cores *= by->parts[d];
    return cores;
}

static void shuffle(maker *m, uint32_t *order)
{
    for (uint32_t d = 0; d < DIMS; d++) {
        const uint32_t at = below(m, d + 1);
        order[d] = order[at];
        order[at] = d;
    }
}

static division any_division(maker *m, bool sticks)
{
    division by = {{1, 1, 1, 1}, {0}};
    uint32_t order[DIMS], cores = 1;
    shuffle(m, order);
    for (uint32_t n = 0; n < DIMS; n++) {
        const uint32_t d = order[n], parts = 1u << below(m, 3);
        by.step[d] = cores;
        if ((d == STICKS && !sticks) || m->extent[d] % parts || cores * parts > 8) continue;
        by.parts[d] = parts;
        cores *= parts;
    }
    return by;
}

static uint32_t part_of(const division *by, uint32_t core, uint32_t d)
{
    return core / by->step[d] % by->parts[d];
}

// Bytes from index to index of each dim, of what a core holds.
static void strides_of(const maker *m, const held *h, bool values, int64_t *out)
{
    int64_t stride = 128;
    for (uint32_t n = DIMS; n-- > 0;) {
        const uint32_t d = h->order[n];
        out[d] = values && d == STICKS ? 0 : stride;
        if (!values || d != STICKS) stride *= m->extent[d] / h->by.parts[d];
    }
}

static held any_place(maker *m, const division *by, bool values)
{
    held h = {.is = true, .by = *by};
    shuffle(m, h.order);
    h.at = values ? VALUES + below(m, MOST_VALUES) * VALUES_BYTES : below(m, PLACES) * BYTES;
    return h;
}

// What lay there is gone.
static void keep(maker *m, const held *h)
{
    if (h->at < VALUES) m->whole[h->at / BYTES] = *h;
    else m->values[(h->at - VALUES) / VALUES_BYTES] = *h;
}

static const held *any_held(maker *m, bool values)
{
    const uint32_t most = values ? MOST_VALUES : PLACES, first = below(m, most);
    for (uint32_t n = 0; n < most; n++) {
        const held *h = &(values ? m->values : m->whole)[(first + n) % most];
        if (h->is) return h;
    }
    return NULL;
}

// --- Kernels

static void set_operand(const maker *m, isa_instruction *i, uint32_t o, const held *h, bool values)
{
    int64_t strides[DIMS];
    strides_of(m, h, values, strides);
    i->operand[o] = in_lx(h->at, DL16);
    for (uint32_t d = 0; d < DIMS; d++) i->operand[o].stride[d] = strides[d];
    i->operand[o].stride[DIMS] = values ? 0 : 2;
}

static isa_instruction *emit_elements(maker *m, isa_opcode opcode, const division *by,
                                      uint8_t operands)
{
    isa_instruction *i = emit(m->p, opcode);
    i->dim_count = DIMS + 1;
    for (uint32_t d = 0; d < DIMS; d++) i->extent[d] = m->extent[d] / by->parts[d];
    i->extent[DIMS] = 64;
    i->operand_count = operands;
    return i;
}

// Dims in another order, which reductions and others alike may have.
static void order_dims(isa_instruction *i, const uint32_t *order)
{
    const isa_instruction was = *i;
    for (uint32_t n = 0; n < DIMS; n++) {
        i->extent[n] = was.extent[order[n]];
        for (uint32_t o = 0; o < i->operand_count; o++)
            i->operand[o].stride[n] = was.operand[o].stride[order[n]];
    }
}

static int64_t *begin(maker *m, const division *by)
{
    return begin_kernel(m->p, (uint32_t)((1ull << cores_of(by)) - 1), 32);
}

// An argument: all elements, in the order a, b, c, sticks, or sticks first.
static void set_memory(const maker *m, isa_instruction *i, uint32_t o, uint16_t arg,
                       const division *by, int64_t *parameters, bool sticks_first)
{
    static const uint32_t orders[2][DIMS] = {{0, 1, 2, STICKS}, {STICKS, 0, 1, 2}};
    int64_t stride = 128;
    i->operand[o] = in_memory(arg, 31, 0, DL16);
    i->operand[o].stride[DIMS] = 2;
    for (uint32_t core = 0; core < 32; core++) parameters[core * 32 + 31] = 0;
    for (uint32_t n = DIMS; n-- > 0;) {
        const uint32_t d = orders[sticks_first][n];
        i->operand[o].stride[d] = stride;
        for (uint32_t core = 0; core < cores_of(by); core++)
            parameters[core * 32 + 31] +=
                stride * (m->extent[d] / by->parts[d]) * part_of(by, core, d);
        stride *= m->extent[d];
    }
}

static void load_kernel(maker *m, uint16_t arg, bool sticks_first)
{
    const division by = any_division(m, true);
    const held to = any_place(m, &by, false);
    int64_t *parameters = begin(m, &by);
    isa_instruction *i = emit_elements(m, ISA_LOAD, &by, 2);
    set_operand(m, i, 0, &to, false);
    set_memory(m, i, 1, arg, &by, parameters, sticks_first);
    end_kernel(m->p);
    keep(m, &to);
}

static void store_kernel(maker *m, const held *from, uint16_t arg, bool sticks_first)
{
    int64_t *parameters = begin(m, &from->by);
    isa_instruction *negate = emit_elements(m, ISA_VECTOR, &from->by, 2);
    negate->op = OPFUNC_NEG;
    set_operand(m, negate, 0, from, false);
    negate->operand[0].offset = SUMS - BYTES;
    set_operand(m, negate, 1, from, false);
    signal_to(m->p, ISA_QUEUE_SFP, 0);
    wait_for(m->p, ISA_QUEUE_STORE, 0);
    isa_instruction *i = emit_elements(m, ISA_STORE, &from->by, 2);
    set_operand(m, i, 1, from, false);
    i->operand[1].offset = SUMS - BYTES;
    set_memory(m, i, 0, arg, &from->by, parameters, sticks_first);
    end_kernel(m->p);
}

// --- Messages

// What is held by one division comes to another: pieces that one core of each has.
typedef struct {
    uint32_t most[DIMS];                    // parts of the finer division
    uint32_t sends[DIMS], receives[DIMS];   // pieces of a sender's, of a receiver's dim
    uint32_t copies;                        // of values, for divided sticks
} pieces;

static uint32_t split(uint32_t *index, uint32_t extent)
{
    const uint32_t digit = *index % extent;
    *index /= extent;
    return digit;
}

static isa_instruction *emit_message(maker *m, isa_opcode opcode, const held *h, const pieces *s,
                                     const uint32_t *of, uint32_t piece, bool values)
{
    int64_t strides[DIMS];
    isa_instruction *i = emit(m->p, opcode);
    strides_of(m, h, values, strides);
    i->dim_count = values ? STICKS : DIMS + 1;
    i->operand_count = 1;
    i->operand[0] = in_lx(h->at, DL16);
    for (uint32_t d = 0; d < (values ? STICKS : DIMS); d++) {
        i->extent[d] = m->extent[d] / s->most[d];
        i->operand[0].offset += strides[d] * i->extent[d] * split(&piece, of[d]);
        i->operand[0].stride[d] = strides[d];
    }
    if (!values) {
        i->extent[DIMS] = 64;
        i->operand[0].stride[DIMS] = 2;
    }
    return i;
}

// The core of `to` that has, or gets, a piece of a core of `from`.
static uint32_t peer_of(const division *from, uint32_t core, const division *to, const pieces *s,
                        const uint32_t *of, uint32_t piece, uint32_t copy, bool values)
{
    uint32_t peer = 0;
    for (uint32_t d = 0; d < (values ? STICKS : DIMS); d++) {
        const uint32_t finest = part_of(from, core, d) * of[d] + split(&piece, of[d]);
        peer += finest * to->parts[d] / s->most[d] * to->step[d];
    }
    return peer + (values ? copy * to->step[STICKS] : 0);
}

static uint32_t count_pieces(const uint32_t *of, bool values)
{
    uint32_t count = 1;
    for (uint32_t d = 0; d < (values ? STICKS : DIMS); d++) count *= of[d];
    return count;
}

static void message_kernel(maker *m, bool values)
{
    const held *from = any_held(m, values);
    pieces s = {.copies = 1};
    if (!from) return;
    const division by = any_division(m, true);
    held to = any_place(m, &by, values);
    if (to.at == from->at) return;
    for (uint32_t d = 0; d < DIMS; d++) {
        const uint32_t a = from->by.parts[d], b = by.parts[d];
        s.most[d] = a > b ? a : b;
        s.sends[d] = s.most[d] / a;
        s.receives[d] = s.most[d] / b;
    }
    if (values) s.copies = by.parts[STICKS];
    // Of values each core of a row's sticks has its own already.
    if (values && from->by.parts[STICKS] > 1) return;
    const uint32_t sends = count_pieces(s.sends, values) * s.copies;
    const uint32_t receives = count_pieces(s.receives, values);
    if (sends + receives > 31) return;
    const uint32_t cores = cores_of(&from->by) > cores_of(&by) ? cores_of(&from->by)
                                                               : cores_of(&by);
    if (cores_of(&from->by) != cores_of(&by)) return;
    int64_t *parameters = begin_kernel(m->p, (uint32_t)((1ull << cores) - 1), 32);
    for (uint32_t n = 0; n < sends; n++) {
        const uint32_t piece = n / s.copies;
        emit_message(m, ISA_SEND, from, &s, s.sends, piece, values)->token = (uint16_t)n;
        for (uint32_t core = 0; core < cores; core++)
            parameters[core * 32 + n] =
                peer_of(&from->by, core, &by, &s, s.sends, piece, n % s.copies, values);
    }
    for (uint32_t n = 0; n < receives; n++) {
        emit_message(m, ISA_RECEIVE, &to, &s, s.receives, n, values)->token =
            (uint16_t)(sends + n);
        for (uint32_t core = 0; core < cores; core++)
            parameters[core * 32 + sends + n] =
                peer_of(&by, core, &from->by, &s, s.receives, n, 0, values);
    }
    end_kernel(m->p);
    keep(m, &to);
}

// --- Streams and reductions

static bool same_division(const division *a, const division *b)
{
    for (uint32_t d = 0; d < DIMS; d++)
        if (a->parts[d] != b->parts[d] || (a->parts[d] > 1 && a->step[d] != b->step[d]))
            return false;
    return true;
}

static void stream_kernel(maker *m)
{
    static const opfunc unary[] = {OPFUNC_EXP, OPFUNC_NEG, OPFUNC_RELUFWD, OPFUNC_CLIP};
    static const opfunc binary[] = {OPFUNC_ADD, OPFUNC_SUB, OPFUNC_MUL, OPFUNC_REALDIV};
    const held *from = any_held(m, false), *other = any_held(m, below(m, 3) > 0);
    uint32_t order[DIMS];
    if (!from) return;
    const bool two = other && same_division(&from->by, &other->by);
    const held one = *from;
    const bool values = two && other->at >= VALUES;
    const held second = two ? *other : one;
    held to = below(m, 4) ? any_place(m, &one.by, false) : one;
    begin(m, &one.by);
    isa_instruction *i = emit_elements(m, ISA_VECTOR, &one.by, two ? 3 : 2);
    i->op = two ? binary[below(m, 4)] : unary[below(m, 4)];
    if (i->op == OPFUNC_CLIP) i->constant[0] = -1.5F, i->constant[1] = 0.25F;
    set_operand(m, i, 0, &to, false);
    set_operand(m, i, 1, &one, false);
    if (two) set_operand(m, i, 2, &second, values);
    shuffle(m, order);
    order_dims(i, order);
    end_kernel(m->p);
    keep(m, &to);
}

// One element a row of fp32, in the order of the sums.
static void set_sums(const maker *m, isa_instruction *i, uint32_t o, const held *sums)
{
    set_operand(m, i, o, sums, true);
    i->operand[o].format = FP32;
    for (uint32_t d = 0; d < STICKS; d++) i->operand[o].stride[d] *= 2;
}

// What is summed times a number that each core fills in for itself.
static void scale_sums(maker *m, const held *sums)
{
    const isa_operand number = in_lx(SCALE, FP32);
    uint32_t order[DIMS];
    emit_flat(m->p, ISA_FILL, 1, 1, &number)->constant[0] = 0.25F + (float)below(m, 4);
    isa_instruction *i = emit_elements(m, ISA_VECTOR, &sums->by, 3);
    i->op = OPFUNC_MUL;
    set_sums(m, i, 0, sums);
    set_sums(m, i, 1, sums);
    i->operand[2] = number;
    i->extent[STICKS] = i->extent[DIMS] = 1;
    shuffle(m, order);
    order_dims(i, order);
}

static void reduce_kernel(maker *m)
{
    static const opfunc ops[] = {OPFUNC_MAX, OPFUNC_SUM, OPFUNC_MIN, OPFUNC_PROD};
    const opfunc op = ops[below(m, 4)];
    const held *from = any_held(m, false);
    uint32_t order[DIMS], rows = 1;
    if (!from || from->by.parts[STICKS] > 1) return;
    const held one = *from, to = any_place(m, &one.by, true);
    held sums = one;
    for (uint32_t d = 0; d < STICKS; d++) rows *= m->extent[d] / one.by.parts[d];
    if (below(m, 2)) shuffle(m, sums.order);
    sums.at = SUMS;
    begin(m, &one.by);
    isa_operand flat = in_lx(SUMS, FP32);
    emit_flat(m->p, ISA_FILL, rows * 64, 1, &flat)->constant[0] = opfunc_reduction_identity(op);
    isa_instruction *i = emit_elements(m, ISA_REDUCE, &one.by, 2);
    i->op = op;
    set_sums(m, i, 0, &sums);
    set_operand(m, i, 1, &one, false);
    i->operand[0].stride[DIMS] = 4;
    shuffle(m, order);
    order_dims(i, order);
    isa_instruction *fold = emit_flat(m->p, ISA_FOLD, rows, 1, &flat);
    fold->op = op;
    fold->dim_count = 2;
    fold->extent[1] = 64;
    fold->operand[0].stride[0] = 256;
    fold->operand[0].stride[1] = 4;
    if (below(m, 2)) scale_sums(m, &sums);
    isa_instruction *round = emit_elements(m, ISA_VECTOR, &one.by, 2);
    round->op = OPFUNC_IDENTITY;
    set_operand(m, round, 0, &to, true);
    set_sums(m, round, 1, &sums);
    round->extent[STICKS] = round->extent[DIMS] = 1;
    shuffle(m, order);
    order_dims(round, order);
    end_kernel(m->p);
    keep(m, &to);
}

static void value_kernel(maker *m)
{
    static const opfunc ops[] = {OPFUNC_NEG, OPFUNC_ABS, OPFUNC_IDENTITY};
    const held *from = any_held(m, true);
    uint32_t order[DIMS];
    if (!from) return;
    const held one = *from, to = below(m, 3) ? any_place(m, &one.by, true) : one;
    begin(m, &one.by);
    isa_instruction *i = emit_elements(m, ISA_VECTOR, &one.by, 2);
    i->op = ops[below(m, 3)];
    set_operand(m, i, 0, &to, true);
    set_operand(m, i, 1, &one, true);
    i->extent[STICKS] = i->extent[DIMS] = 1;
    shuffle(m, order);
    order_dims(i, order);
    end_kernel(m->p);
    keep(m, &to);
}

// --- Programs

static isa_program *random_program(uint64_t *seed)
{
    static const uint32_t extents[] = {1, 2, 3, 4, 6, 8};
    maker m = {.p = new_program(2), .seed = *seed};
    do
        for (uint32_t d = 0; d < DIMS; d++) m.extent[d] = extents[below(&m, d == STICKS ? 4 : 6)];
    while (m.extent[0] * m.extent[1] * m.extent[2] > MOST_ROWS ||
           m.extent[0] * m.extent[1] * m.extent[2] * m.extent[STICKS] * 64 > MOST_ELEMENTS);
    load_kernel(&m, 0, below(&m, 2));
    if (below(&m, 3) == 0) load_kernel(&m, 0, below(&m, 2));
    for (uint32_t n = 4 + below(&m, 10); n > 0; n--) {
        const uint32_t kind = below(&m, 8);
        if (kind < 3) message_kernel(&m, below(&m, 2));
        else if (kind < 5) reduce_kernel(&m);
        else if (kind < 6) value_kernel(&m);
        else stream_kernel(&m);
    }
    store_kernel(&m, any_held(&m, false), 1, below(&m, 2));
    emit(m.p, ISA_HALT);
    *seed = m.seed;
    return m.p;
}

static const card_argument arguments[2] = {{0, BYTES}, {BYTES, BYTES}};

static const uint8_t *run(card_program *loaded, card_mode mode)
{
    memcpy(card_memory(the_card, 0, MEMORY), initial, MEMORY);
    card_wipe_lx(the_card);
    card_set_mode(the_card, mode);
    assert_ok(card_launch(the_card, loaded, arguments, 2, NULL));
    return card_memory(the_card, 0, MEMORY);
}

// What threads would leave each other in LX is no part of one.
static void assert_leaves_no_streams(const row_fusion *c)
{
    for (uint32_t n = 0; n < c->steps.count; n++)
        assert_false(vector_stores(c->steps.items[n].op) && rows_step_in_lx(&c->steps.items[n]));
}

// How many row fusions of all cores a plan has.
static uint32_t count_joined(const card_program *loaded)
{
    uint32_t count = 0;
    for (uint32_t n = 0; n < loaded->phases.count; n++) {
        const plan_kernel *kernel = loaded->phases.items[n].kernel;
        if (!kernel || !kernel->rows || !kernel->rows->joined) continue;
        assert_leaves_no_streams(kernel->rows);
        count++;
    }
    return count;
}

static void joined_cores__random_divisions_keep_their_bytes(void **state)
{
    (void)state;
    uint64_t seed = 7, fill = 3;
    uint32_t joined = 0, rounds = test_rounds(800);
    for (uint32_t n = 0; n < MEMORY; n++) initial[n] = (uint8_t)next_random(&fill);
    for (uint32_t round = 0; round < rounds; round++) {
        const uint64_t start = seed;
        isa_program *p = random_program(&seed);
        card_program *loaded;
        assert_ok(card_load(the_card, p, &loaded));
        card_program_forget_lx(loaded);
        memcpy(exact, run(loaded, CARD_EXACT), MEMORY);
        if (memcmp(exact, run(loaded, CARD_FAST), MEMORY))
            fail_msg("program of seed %llu", (unsigned long long)start);
        joined += count_joined(loaded) > 0;
        card_unload(the_card, loaded);
        free_program(p);
    }
    assert_true(joined > rounds / 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(joined_cores__random_divisions_keep_their_bytes),
    };
    return cmocka_run_group_tests(tests, open_card, close_card);
}
