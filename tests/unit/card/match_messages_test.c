// SPDX-License-Identifier: Apache-2.0
//
// Kernels of messages alone: random ones between kernels that compute, on any number of host
// threads, give the bytes of exact mode; which kernels become exchanges, and what follows them
// without a meeting.
#include "fast_against_exact.h"

#include "card/machine/messages.h"

enum { CORES = 8, ROWS = 4, ROW = 64, BLOCK = ROWS * ROW * 2, PLACES = 4, MEMORY = CORES * BLOCK };

// --- Programs: every core has a block of DL16 at several places in its LX

static isa_operand block_at(uint32_t place)
{
    isa_operand o = in_lx((int64_t)place * 2 * BLOCK, DL16);
    o.stride[0] = ROW * 2;
    o.stride[1] = 2;
    return o;
}

static void emit_block(isa_program *p, isa_opcode opcode, isa_operand to, isa_operand from)
{
    isa_instruction *i = emit(p, opcode);
    i->op = opcode == ISA_VECTOR ? OPFUNC_NEG : OPFUNC_ADD;
    i->dim_count = 2;
    i->extent[0] = ROWS;
    i->extent[1] = ROW;
    i->operand_count = 2;
    i->operand[0] = to;
    i->operand[1] = from;
}

static void move_blocks(isa_program *p, bool store)
{
    int64_t *parameters = begin_kernel(p, (1u << CORES) - 1, 1);
    for (uint32_t core = 0; core < CORES; core++) parameters[core] = core * BLOCK;
    isa_operand memory = in_memory(0, 0, 0, DL16), lx = block_at(0);
    memory.stride[0] = ROW * 2;
    memory.stride[1] = 2;
    if (store) emit_block(p, ISA_STORE, memory, lx);
    else emit_block(p, ISA_LOAD, lx, memory);
    end_kernel(p);
}

static void negate(isa_program *p, uint32_t from, uint32_t to)
{
    begin_kernel(p, (1u << CORES) - 1, 0);
    emit_block(p, ISA_VECTOR, block_at(to), block_at(from));
    end_kernel(p);
}

// One row a message; rows may lie apart, and in halves of columns at one end.
static void emit_message(isa_program *p, isa_opcode opcode, uint32_t place, uint32_t row,
                         uint16_t slot, bool in_halves)
{
    isa_instruction *i = emit(p, opcode);
    i->token = slot;
    i->operand_count = 1;
    i->operand[0] = in_lx((int64_t)place * 2 * BLOCK + row * ROW * 2, DL16);
    i->dim_count = in_halves ? 2 : 1;
    i->extent[0] = in_halves ? 2 : ROW;
    i->operand[0].stride[0] = in_halves ? BLOCK : 2;
    if (!in_halves) return;
    i->extent[1] = ROW / 2;
    i->operand[0].stride[1] = 2;
}

// Row n of every core goes to the core n * step + shift further.
typedef struct {
    uint32_t from, to, shift, step;
    bool two_kernels, send_halves, receive_halves;
} move;

static void exchange_rows(isa_program *p, const move *m)
{
    uint32_t kernels = m->two_kernels ? 2 : 1;
    int64_t *parameters = begin_kernel(p, (1u << CORES) - 1, 2 * ROWS);
    for (uint32_t k = 0; k < kernels; k++) {
        if (k > 0) end_kernel(p);
        if (k > 0) parameters = begin_kernel(p, (1u << CORES) - 1, 2 * ROWS);
        for (uint32_t core = 0; core < CORES; core++) {
            for (uint32_t row = 0; row < ROWS; row++) {
                uint32_t by = (row * m->step + m->shift) % CORES;
                parameters[core * 2 * ROWS + row] = (core + by) % CORES;
                parameters[core * 2 * ROWS + ROWS + row] = (core + CORES - by) % CORES;
            }
        }
        for (uint16_t row = 0; row < ROWS && k == 0; row++)
            emit_message(p, ISA_SEND, m->from, row, row, m->send_halves);
        for (uint16_t row = 0; row < ROWS && k + 1 == kernels; row++)
            emit_message(p, ISA_RECEIVE, m->to, row, (uint16_t)(ROWS + row), m->receive_halves);
    }
    end_kernel(p);
}

// Core 0 and 1 send their block to four cores each.
static void broadcast(isa_program *p, uint32_t from, uint32_t to)
{
    int64_t *peers = begin_kernel(p, 3, 4);
    for (uint32_t n = 0; n < 8; n++) peers[n] = n;
    for (uint16_t n = 0; n < 4; n++) {
        isa_operand lx = in_lx((int64_t)from * 2 * BLOCK, DL16);
        emit_flat(p, ISA_SEND, ROWS * ROW, 1, &lx)->token = n;
    }
    end_kernel(p);
    peers = begin_kernel(p, (1u << CORES) - 1, 1);
    for (uint32_t core = 0; core < CORES; core++) peers[core] = core / 4;
    isa_operand lx = in_lx((int64_t)to * 2 * BLOCK, DL16);
    emit_flat(p, ISA_RECEIVE, ROWS * ROW, 1, &lx);
    end_kernel(p);
}

static void add_kernel(isa_program *p, uint64_t *seed)
{
    uint32_t from = next_random(seed) % PLACES, to = next_random(seed) % PLACES;
    switch (next_random(seed) % 4) {
    case 0: negate(p, from, to); break;
    case 1: broadcast(p, from, to); break;
    default:
        exchange_rows(p, &(move){from, to, next_random(seed) % CORES, next_random(seed) % 3,
                                 next_random(seed) % 2, next_random(seed) % 2,
                                 next_random(seed) % 2});
    }
}

static void add_kernels(isa_program *p, uint64_t *seed)
{
    move_blocks(p, false);
    for (uint32_t k = 1 + next_random(seed) % 8; k > 0; k--) add_kernel(p, seed);
    move_blocks(p, true);
}

// --- Tests

static void match_messages__random_programs_keep_their_bytes(void **state)
{
    (void)state;
    check_random_programs(&(random_programs){.add_kernels = add_kernels, .seed = 7,
                                             .memory_bytes = MEMORY, .most_threads = 4,
                                             .programs = 60});
}

static const plan_kernel *kernel_of(const card_program *loaded, uint32_t n)
{
    return loaded->phases.items[n].kernel;
}

static card_program *load(card *c, isa_program *p)
{
    card_program *loaded;
    emit(p, ISA_HALT);
    assert_ok(card_load(c, p, &loaded));
    return loaded;
}

static void match_messages__matches_messages(void **state)
{
    (void)state;
    card *c;
    assert_ok(card_create(&c));
    isa_program *p = new_program(1);
    exchange_rows(p, &(move){.from = 0, .to = 1, .shift = 3});
    negate(p, 1, 2);
    negate(p, 2, 0);
    exchange_rows(p, &(move){.from = 1, .to = 2, .shift = 3, .two_kernels = true});
    broadcast(p, 2, 3);
    card_program *loaded = load(c, p);
    const message_copies *x = kernel_of(loaded, 0)->messages;
    assert_non_null(x);
    assert_int_equal(x->list.count, CORES * ROWS);
    assert_int_equal(x->list.items[x->first[1]].sender, 1 + CORES - 3);
    assert_true(kernel_of(loaded, 1)->no_barrier);
    assert_false(kernel_of(loaded, 2)->no_barrier);      // overwrites what others may still want
    assert_true(kernel_of(loaded, 3)->sends_later);
    assert_non_null(kernel_of(loaded, 4)->messages);
    assert_true(kernel_of(loaded, 5)->sends_later);
    assert_int_equal(kernel_of(loaded, 6)->messages->list.items[7].sender, 1);
    card_unload(c, loaded);
    free_program(p);
    card_destroy(c);
}

static void match_messages__leaves_the_ring_what_it_cannot_follow(void **state)
{
    (void)state;
    card *c;
    assert_ok(card_create(&c));
    for (int variant = 0; variant < 3; variant++) {
        isa_program *p = new_program(1);
        // Messages over their own source; to receive in a third kernel; in a loop.
        if (variant == 0) exchange_rows(p, &(move){.from = 1, .to = 1, .shift = 1});
        if (variant == 1) {
            begin_kernel(p, 1, 1)[0] = 1;
            emit_message(p, ISA_SEND, 0, 0, 0, false);
            end_kernel(p);
            negate(p, 1, 2);
            begin_kernel(p, 2, 1)[1] = 0;
            emit_message(p, ISA_RECEIVE, 1, 0, 0, false);
            end_kernel(p);
        }
        if (variant == 2) {
            emit(p, ISA_LOOP)->count = 2;
            exchange_rows(p, &(move){.from = 0, .to = 1, .shift = 1});
            emit(p, ISA_END_LOOP);
        }
        broadcast(p, 2, 3);     // what comes behind may meet messages that wait
        card_program *loaded = load(c, p);
        for (uint32_t n = 0; n < loaded->phases.count; n++) {
            const plan_kernel *kernel = kernel_of(loaded, n);
            assert_true(!kernel || (!kernel->messages && !kernel->sends_later));
        }
        card_unload(c, loaded);
        free_program(p);
    }
    card_destroy(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(match_messages__random_programs_keep_their_bytes),
        cmocka_unit_test(match_messages__matches_messages),
        cmocka_unit_test(match_messages__leaves_the_ring_what_it_cannot_follow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
