// SPDX-License-Identifier: Apache-2.0
//
// FILL, MATMUL and rounding with loops around them as one product: the bytes that the exact
// executor leaves, for tiles of every shape; and when they must stay what they are.
#include "program.h"

#include <stdlib.h>

#include "card/plan.h"
#include "card/machine.h"
#include "support/rounds.h"
#include "tensor/numeric.h"

enum { CORES = 3, LANES = 64, STICK = 128, A_AT = 0, B_AT = 256 << 10, SUMS_AT = 768 << 10,
       C_AT = 1024 << 10, MEMORY = 4 << 20 };
enum { A_FULL, B_FULL, READY, DONE, C_FULL, A_FREE, B_FREE, C_FREE };

static card *the_card;

static int open_card(void **state)
{
    (void)state;
    assert_ok(card_create(&the_card));
    uint64_t seed = 77;
    for (uint64_t at = 0; at < 2; at++) {
        uint16_t *codes = card_memory(the_card, 128 + at * MEMORY, MEMORY);
        for (uint32_t n = 0; n < MEMORY / 2; n++)
            codes[n] = dl16_from_float((float)(next_random(&seed) % 4001) / 2000.0f - 1.0f);
    }
    return 0;
}

static int close_card(void **state)
{
    (void)state;
    card_destroy(the_card);
    return 0;
}

// C[batch][row][column] += A[batch][row][k] B[batch][k][column], counted in tiles and what a tile
// has. Loops with one iteration are left out.
typedef struct {
    uint32_t batches, row_tiles, rows, column_tiles, sticks, depth_tiles, depth;
    uint32_t peeled;                        // depth tiles behind their loop
    uint32_t kept;                          // lanes of a column tile of one stick
    bool halved;                            // rows of A are two groups, far apart in memory
    bool a_in_lx, c_in_lx;                  // whole, without loads and stores
    bool fp32;                              // results are not rounded
    float start;                            // of the sums
    bool reads_sums_twice, overlaps;
} shape;

typedef struct {
    const shape *s;
    isa_program *p;
    uint32_t loops;
    int batch, rows, columns, depth;        // loop number, or -1
} builder;

static int open_loop(builder *b, uint32_t count)
{
    if (count == 1) return -1;
    emit(b->p, ISA_LOOP)->count = count;
    return (int)b->loops++;
}

static void close_loop(builder *b, int loop)
{
    if (loop < 0) return;
    emit(b->p, ISA_END_LOOP);
    b->loops--;
}

static void step(isa_operand *o, int loop, int64_t bytes)
{
    if (loop >= 0) o->loop_stride[loop] = bytes;
}

static uint32_t k_sticks(const shape *s)
{
    return (s->depth + LANES - 1) / LANES;
}

static uint32_t all_depth_tiles(const shape *s)
{
    return s->depth_tiles + s->peeled;
}

static bool comes_in_halves(const shape *s)
{
    return s->halved && s->rows % 2 == 0 && !s->a_in_lx;
}

static int64_t a_tile(const shape *s)
{
    return (int64_t)k_sticks(s) * s->rows * STICK;
}

static int64_t a_tile_in_memory(const shape *s)
{
    return a_tile(s) * (comes_in_halves(s) ? 2 : 1);
}

static int64_t b_tile(const shape *s)
{
    return (int64_t)s->depth * s->sticks * STICK;
}

static int64_t c_line(const shape *s)
{
    return (int64_t)s->column_tiles * s->sticks * s->kept * (s->fp32 ? 4 : 2);
}

// Where A lies, in memory or in LX: [batch][row tile][depth tile][k stick][row][lane].
static void step_a(const builder *b, isa_operand *a)
{
    int64_t tile = a_tile_in_memory(b->s), row_tile = tile * all_depth_tiles(b->s);
    step(a, b->depth, tile);
    step(a, b->rows, row_tile);
    step(a, b->batch, row_tile * b->s->row_tiles);
}

// [k stick][half][row][lane]
static void load_halves(isa_instruction *i, const shape *s)
{
    const int64_t half = (int64_t)s->rows / 2 * STICK;
    const uint32_t extent[] = {k_sticks(s), 2, s->rows / 2, LANES};
    const int64_t lx[] = {2 * half, half, STICK, 2}, memory[] = {4 * half, 2 * half, STICK, 2};
    i->dim_count = 4;
    memcpy(i->extent, extent, sizeof extent);
    memcpy(i->operand[0].stride, lx, sizeof lx);
    memcpy(i->operand[1].stride, memory, sizeof memory);
}

static void load_a(const builder *b, uint32_t tile)
{
    isa_operand from = in_memory(0, 0, tile * a_tile_in_memory(b->s), DL16);
    step_a(b, &from);
    isa_instruction *i = emit_flat(b->p, ISA_LOAD, (uint32_t)(a_tile(b->s) / 2), 2,
                                   (isa_operand[]){in_lx(A_AT, DL16), from});
    if (comes_in_halves(b->s)) load_halves(i, b->s);
    signal_to(b->p, ISA_QUEUE_LOAD, A_FULL);
    wait_for(b->p, ISA_QUEUE_PT, A_FULL);
}

// [batch][column tile][depth tile][stick][k][lane].
static void load_b(const builder *b, uint32_t depth_tile)
{
    isa_operand from = in_memory(1, 1, depth_tile * b_tile(b->s), DL16);
    int64_t tile = b_tile(b->s), column_tile = tile * all_depth_tiles(b->s);
    step(&from, b->depth, tile);
    step(&from, b->columns, column_tile);
    step(&from, b->batch, column_tile * b->s->column_tiles);
    emit_flat(b->p, ISA_LOAD, (uint32_t)(tile / 2), 2, (isa_operand[]){in_lx(B_AT, DL16), from});
    signal_to(b->p, ISA_QUEUE_LOAD, B_FULL);
    wait_for(b->p, ISA_QUEUE_PT, B_FULL);
}

static void multiply(const builder *b, uint32_t depth_tile)
{
    const shape *s = b->s;
    isa_instruction *i = emit(b->p, ISA_MATMUL);
    i->dim_count = i->operand_count = 3;
    i->extent[0] = s->rows;
    i->extent[1] = s->sticks;
    i->extent[2] = s->depth;
    i->operand[0] = in_lx(SUMS_AT, FP32);
    i->operand[1] = in_lx(A_AT + (s->a_in_lx ? depth_tile * a_tile(s) : 0), DL16);
    i->operand[2] = in_lx(B_AT, DL16);
    if (s->a_in_lx) step_a(b, &i->operand[1]);
    i->operand[0].stride[0] = LANES * 4;
    i->operand[0].stride[1] = (int64_t)LANES * 4 * s->rows;
    i->operand[1].stride[0] = STICK;
    i->operand[1].stride[2] = (int64_t)STICK * s->rows;
    i->operand[2].stride[1] = (int64_t)STICK * s->depth;
    i->operand[2].stride[2] = STICK;
}

// [batch][row][column] in memory or, when it stays there, in LX.
static void step_c(const builder *b, isa_operand *c)
{
    const shape *s = b->s;
    int64_t line = c_line(s), rows = line * s->rows;
    step(c, b->columns, line / s->column_tiles);
    step(c, b->rows, rows);
    step(c, b->batch, rows * s->row_tiles);
}

// As tile of its own, rows `lanes` elements apart; or, with 0, where it lies among all results.
static void shape_result(const shape *s, isa_instruction *i, uint32_t o, uint32_t lanes)
{
    int64_t element = spyre_format_bytes(i->operand[o].format), line = c_line(s);
    i->dim_count = 3;
    i->extent[0] = s->sticks;
    i->extent[1] = s->rows;
    i->extent[2] = s->kept;
    i->operand[o].stride[0] = lanes ? s->rows * lanes * element : s->kept * element;
    i->operand[o].stride[1] = lanes ? lanes * element : line;
    i->operand[o].stride[2] = element;
}

static void round_sums(const builder *b)
{
    spyre_format format = b->s->fp32 ? FP32 : DL16;
    isa_operand c = in_lx(b->s->overlaps ? A_AT : C_AT, format);
    if (b->s->c_in_lx) step_c(b, &c);
    isa_operand operands[2] = {c, in_lx(SUMS_AT, FP32)};
    isa_instruction *i = emit_flat(b->p, ISA_VECTOR, 1, 2, operands);
    i->op = OPFUNC_IDENTITY;
    shape_result(b->s, i, 0, b->s->c_in_lx ? 0 : b->s->kept);
    shape_result(b->s, i, 1, LANES);
    if (b->s->reads_sums_twice)
        emit_flat(b->p, ISA_VECTOR, 8, 2, (isa_operand[]){in_lx(C_AT - 128, FP32), operands[1]})
            ->op = OPFUNC_ABS;
}

static void store_result(const builder *b)
{
    spyre_format format = b->s->fp32 ? FP32 : DL16;
    isa_operand to = in_memory(2, 2, 0, format), from = in_lx(C_AT, format);
    step_c(b, &to);
    signal_to(b->p, ISA_QUEUE_SFP, C_FULL);
    wait_for(b->p, ISA_QUEUE_STORE, C_FULL);
    isa_instruction *i = emit_flat(b->p, ISA_STORE, 1, 2, (isa_operand[]){to, from});
    shape_result(b->s, i, 0, 0);
    shape_result(b->s, i, 1, b->s->kept);
    signal_to(b->p, ISA_QUEUE_STORE, C_FREE);
    wait_for(b->p, ISA_QUEUE_SFP, C_FREE);
}

static void add_term(const builder *b, uint32_t depth_tile)
{
    if (!b->s->a_in_lx) load_a(b, depth_tile);
    load_b(b, depth_tile);
    multiply(b, depth_tile);
    signal_to(b->p, ISA_QUEUE_PT, A_FREE);
    wait_for(b->p, ISA_QUEUE_LOAD, A_FREE);
}

static void body(builder *b)
{
    const shape *s = b->s;
    uint32_t sums = s->rows * s->sticks * LANES;
    emit_flat(b->p, ISA_FILL, sums, 1, (isa_operand[]){in_lx(SUMS_AT, FP32)})->constant[0] =
        s->start;
    signal_to(b->p, ISA_QUEUE_SFP, READY);
    wait_for(b->p, ISA_QUEUE_PT, READY);
    b->depth = open_loop(b, s->depth_tiles);
    add_term(b, 0);
    close_loop(b, b->depth);
    b->depth = -1;
    for (uint32_t n = 0; n < s->peeled; n++) add_term(b, s->depth_tiles + n);
    signal_to(b->p, ISA_QUEUE_PT, DONE);
    wait_for(b->p, ISA_QUEUE_SFP, DONE);
    round_sums(b);
    if (!s->c_in_lx) store_result(b);
}

static int64_t a_bytes(const shape *s)
{
    return a_tile_in_memory(s) * all_depth_tiles(s) * s->row_tiles * s->batches;
}

static int64_t c_bytes(const shape *s)
{
    return c_line(s) * s->rows * s->row_tiles * s->batches;
}

// What lies in LX is loaded in front and stored behind, by kernels of their own.
static void copy_kernel(isa_program *p, const shape *s, bool load)
{
    int64_t *parameters = begin_kernel(p, (1u << CORES) - 1, 1);
    int64_t bytes = load ? a_bytes(s) : c_bytes(s);
    spyre_format format = load || !s->fp32 ? DL16 : FP32;
    for (int64_t core = 0; core < CORES; core++) parameters[core] = core * bytes;
    isa_operand memory = in_memory(load ? 0 : 2, 0, 0, format);
    isa_operand lx = in_lx(load ? A_AT : C_AT, format);
    emit_flat(p, load ? ISA_LOAD : ISA_STORE, (uint32_t)(bytes / spyre_format_bytes(format)), 2,
              load ? (isa_operand[]){lx, memory} : (isa_operand[]){memory, lx});
    end_kernel(p);
}

// Every second core reads the same B.
static isa_program *product_program(const shape *s)
{
    builder b = {.s = s, .p = new_program(3)};
    if (s->a_in_lx) copy_kernel(b.p, s, true);
    int64_t *parameters = begin_kernel(b.p, (1u << CORES) - 1, 3);
    for (int64_t core = 0; core < CORES; core++) {
        parameters[core * 3] = core * a_bytes(s);
        parameters[core * 3 + 1] = core % 2 * b_tile(s) * all_depth_tiles(s) *
                                   s->column_tiles * s->batches;
        parameters[core * 3 + 2] = core * c_bytes(s);
    }
    b.batch = open_loop(&b, s->batches);
    b.columns = open_loop(&b, s->column_tiles);
    b.rows = open_loop(&b, s->row_tiles);
    body(&b);
    close_loop(&b, b.rows);
    close_loop(&b, b.columns);
    close_loop(&b, b.batch);
    end_kernel(b.p);
    if (s->c_in_lx) copy_kernel(b.p, s, false);
    emit(b.p, ISA_HALT);
    return b.p;
}

static const uint8_t *run(card_program *loaded, card_mode mode)
{
    const card_argument arguments[3] = {
        {128, MEMORY}, {128 + MEMORY, MEMORY}, {128 + 2 * MEMORY, MEMORY}};
    uint8_t *results = card_memory(the_card, 128 + 2 * MEMORY, MEMORY);
    memset(results, 0, MEMORY);
    card_set_mode(the_card, mode);
    assert_ok(card_launch(the_card, loaded, arguments, 3, NULL));
    return results;
}

// Products that round among the fused steps, and all steps.
static void count_steps(const card_program *loaded, uint32_t kernel, uint32_t *products,
                        uint32_t *steps)
{
    const plan_kernel *k = loaded->phases.items[kernel].kernel;
    *products = *steps = 0;
    assert_non_null(k->steps[ISA_QUEUE_SEQ]);
    for (uint32_t n = 0; n < k->step_count[ISA_QUEUE_SEQ]; n++) {
        const plan_step *at = &k->steps[ISA_QUEUE_SEQ][n];
        *steps += at->kind != STEP_END;
        *products += at->tile && at->tile->product && !at->tile->product->adds;
    }
}

// A shape that may become one product must leave nothing else of its kernel.
static void check(const shape *s, bool becomes_product)
{
    static uint8_t exact[MEMORY];
    isa_program *p = product_program(s);
    card_program *loaded;
    uint32_t products, steps;
    assert_ok(card_load(the_card, p, &loaded));
    card_program_forget_lx(loaded);
    count_steps(loaded, s->a_in_lx, &products, &steps);
    memcpy(exact, run(loaded, CARD_EXACT), MEMORY);
    bool same = memcmp(exact, run(loaded, CARD_FAST), MEMORY) == 0;
    bool as_expected = becomes_product ? products == 1 && steps == 1 : products == 0;
    if (!same || !as_expected) {
        text out = {0};
        isa_print(p, &out);
        fail_msg("%s, %u products in %u steps\n%s", same ? "equal" : "different", products, steps,
                 text_string(&out));
    }
    card_unload(the_card, loaded);
    free_program(p);
}

static void accumulate_matmuls__shapes_become_one_product(void **state)
{
    (void)state;
    uint64_t seed = 11;
    for (uint32_t round = 0; round < test_rounds(60); round++) {
        static const uint32_t depths[] = {1, 32, 64, 100, 192};
        shape s = {.batches = 1 + next_random(&seed) % 3,
                   .row_tiles = 1 + next_random(&seed) % 3,
                   .rows = 1 + next_random(&seed) % 9,
                   .column_tiles = 1 + next_random(&seed) % 3,
                   .sticks = 1 + next_random(&seed) % 2,
                   .depth_tiles = 1 + next_random(&seed) % 3,
                   .depth = depths[next_random(&seed) % 5],
                   .peeled = next_random(&seed) % 2,
                   .halved = next_random(&seed) % 2,
                   .a_in_lx = next_random(&seed) % 2,
                   .c_in_lx = next_random(&seed) % 2,
                   .fp32 = next_random(&seed) % 4 == 0};
        s.kept = s.sticks == 1 && next_random(&seed) % 3 == 0 ? 1 + next_random(&seed) % LANES
                                                              : LANES;
        check(&s, true);
    }
}

// Of cores 0 and 2 that read the same columns a thread takes only one along.
static void accumulate_matmuls__threads_share_products(void **state)
{
    static const shape shapes[] = {
        {.batches = 3, .row_tiles = 2, .rows = 9, .column_tiles = 3, .sticks = 2,
         .depth_tiles = 3, .depth = 192, .kept = LANES},
        {.batches = 1, .row_tiles = 5, .rows = 40, .column_tiles = 1, .sticks = 1,
         .depth_tiles = 6, .depth = 100, .kept = 3},
        {.batches = 1, .row_tiles = 1, .rows = 9, .column_tiles = 4, .sticks = 1,
         .depth_tiles = 3, .depth = 448, .kept = LANES, .fp32 = true},
        {.batches = 2, .row_tiles = 1, .rows = 1, .column_tiles = 3, .sticks = 2,
         .depth_tiles = 2, .depth = 320, .kept = LANES},
    };
    for (int threads = 2; threads <= 7; threads += 5) {
        close_card(state);
        setenv("SPYRE_THREADS", threads == 2 ? "2" : "7", 1);
        open_card(state);
        for (size_t n = 0; n < sizeof shapes / sizeof *shapes; n += test_stride())
            check(&shapes[n], true);
    }
    unsetenv("SPYRE_THREADS");
}

// More than one chunk of k and group of rows, sums that wait between them.
static void accumulate_matmuls__long_chains(void **state)
{
    (void)state;
    const shape deep = {.batches = 1, .row_tiles = 1, .rows = 9, .column_tiles = 2, .sticks = 1,
                        .depth_tiles = 3, .depth = 448, .kept = LANES};
    const shape few = {.batches = 2, .row_tiles = 1, .rows = 1, .column_tiles = 1, .sticks = 2,
                       .depth_tiles = 2, .depth = 320, .kept = LANES};
    const shape high = {.batches = 1, .row_tiles = 5, .rows = 40, .column_tiles = 1, .sticks = 1,
                        .depth_tiles = 6, .depth = 100, .kept = LANES};
    check(&deep, true);
    check(&few, true);
    check(&high, true);
}

static void accumulate_matmuls__what_others_need_stays(void **state)
{
    (void)state;
    const shape plain = {.batches = 1, .row_tiles = 2, .rows = 5, .column_tiles = 2, .sticks = 1,
                         .depth_tiles = 2, .depth = 64, .kept = LANES};
    shape s = plain;
    check(&s, true);
    s.start = 0.5f;
    check(&s, false);
    s.start = -0.0f;
    check(&s, false);
    s = plain;
    s.reads_sums_twice = true;
    check(&s, false);
    s = plain;
    s.a_in_lx = s.c_in_lx = s.overlaps = true;
    check(&s, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accumulate_matmuls__shapes_become_one_product),
        cmocka_unit_test(accumulate_matmuls__threads_share_products),
        cmocka_unit_test(accumulate_matmuls__long_chains),
        cmocka_unit_test(accumulate_matmuls__what_others_need_stays),
    };
    return cmocka_run_group_tests(tests, open_card, close_card);
}
