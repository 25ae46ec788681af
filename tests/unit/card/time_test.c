// SPDX-License-Identifier: Apache-2.0
//
// The timing model: small programs against sums made by hand, loops that are skipped against the
// full walk, and programs that cannot end.
#include "program.h"

#include <math.h>

#include "card/time.h"

// Constants of cost.def, written out: a change of one is meant to show here.
#define READ_US_PER_BYTE (1.0 / 150000)
#define SHORT_RUN_US 0.65e-3
#define TURNS (5.74e-6 * 150000)            // share of the rarer direction's time
#define STICK_US (1.0 / 3000)               // one stick through the SFUs of a core

// A run of `bytes`, alone on the card's memory.
static double memory_us(double bytes)
{
    return bytes * READ_US_PER_BYTE + (bytes < 1024 ? SHORT_RUN_US : 0);
}

static card_counters time_it(const isa_program *p)
{
    card_counters kernels[8];
    assert_true(p->kernels.count <= 8);
    assert_ok(isa_verify(p));
    assert_ok(card_time(p, kernels));
    card_counters sum = {0};
    for (uint32_t k = 0; k < p->kernels.count; k++) card_counters_add(&sum, &kernels[k]);
    return sum;
}

static void assert_us(double found, double expected)
{
    if (fabs(found - expected) > 1e-9 * (fabs(expected) + 1))
        fail_msg("%.12g us, expected %.12g", found, expected);
}

static void load(isa_program *p, uint32_t elements)
{
    isa_operand from = in_memory(0, ISA_NO_SLOT, 0, DL16);
    emit_flat(p, ISA_LOAD, elements, 2, (isa_operand[]){in_lx(0, DL16), from});
}

static void store(isa_program *p, uint32_t elements)
{
    isa_operand to = in_memory(1, ISA_NO_SLOT, 0, DL16);
    emit_flat(p, ISA_STORE, elements, 2, (isa_operand[]){to, in_lx(1 << 19, DL16)});
}

static void vector(isa_program *p, uint32_t elements)
{
    isa_operand operands[] = {in_lx(1 << 19, DL16), in_lx(0, DL16)};
    emit_flat(p, ISA_VECTOR, elements, 2, operands)->op = OPFUNC_EXP;
}

static void handover(isa_program *p, isa_queue from, isa_queue to, uint16_t token)
{
    signal_to(p, from, token);
    wait_for(p, to, token);
}

static void finish(isa_program *p)
{
    end_kernel(p);
    emit(p, ISA_HALT);
}

// --- Counters

static void time__loops_and_cores_multiply(void **state)
{
    (void)state;
    isa_program *p = new_program(2);
    emit(p, ISA_LOOP)->count = 3;
    int64_t *parameters = begin_kernel(p, 0xF, 2);
    for (uint32_t core = 0; core < ISA_CORES; core++) parameters[core * 2] = core * 128;
    emit(p, ISA_LOOP)->count = 5;
    isa_operand own = in_memory(0, 0, 0, DL16), shared = in_memory(0, 1, 0, DL16);
    emit_flat(p, ISA_LOAD, 64, 2, (isa_operand[]){in_lx(0, DL16), own});
    emit_flat(p, ISA_LOAD, 64, 2, (isa_operand[]){in_lx(128, DL16), shared});
    emit_flat(p, ISA_VECTOR, 64, 2, (isa_operand[]){in_lx(0, DL16), in_lx(128, DL16)})->op =
        OPFUNC_EXP;
    emit(p, ISA_END_LOOP);
    emit_flat(p, ISA_STORE, 64, 2, (isa_operand[]){in_memory(1, 0, 0, DL16), in_lx(0, DL16)});
    end_kernel(p);
    emit(p, ISA_END_LOOP);
    emit(p, ISA_HALT);
    card_counters c = time_it(p);
    // The shared operand is loaded once for all four cores.
    assert_int_equal(c.memory_read_bytes, 3 * 5 * (4 + 1) * 128);
    assert_int_equal(c.memory_written_bytes, 3 * 4 * 128);
    assert_int_equal(c.vector_element_count, 3 * 5 * 4 * 64);
    assert_int_equal(c.lx_bytes, 3 * 4 * (5 * (128 + 128 + 256) + 128));
    assert_int_equal(c.mac_count, 0);
    assert_int_equal(c.runs, 3);
    assert_us(c.busy_us[CARD_SFP], 3 * 5 * STICK_US);
    free_program(p);
}

static isa_program *matmul_program(uint32_t rows, uint32_t k)
{
    isa_program *p = new_program(0);
    begin_kernel(p, UINT32_MAX, 0);
    isa_instruction *i = emit(p, ISA_MATMUL);
    i->dim_count = 3;
    i->extent[0] = rows;
    i->extent[1] = 1;
    i->extent[2] = k;
    i->operand_count = 3;
    i->operand[0] = in_lx(0, FP32);
    i->operand[0].stride[0] = 256;
    i->operand[1] = in_lx(0x100000, DL16);
    i->operand[1].stride[0] = 128;
    i->operand[1].stride[2] = 128 * rows;
    i->operand[2] = in_lx(0x180000, DL16);
    i->operand[2].stride[2] = 128;
    finish(p);
    return p;
}

// 1140 MAC per nanosecond and core once 64 rows fill the array, (rows / 64)^0.35 of it below.
static void time__matmul_runs_at_the_published_rate(void **state)
{
    (void)state;
    for (uint32_t rows = 8; rows <= 128; rows *= 2) {
        isa_program *p = matmul_program(rows, 512);
        card_counters c = time_it(p);
        double macs = rows * 64.0 * 512, fill = rows < 64 ? pow(rows / 64.0, 0.35) : 1;
        assert_int_equal(c.mac_count, (int64_t)macs * 32);
        assert_us(c.us, macs / (1.14e6 * fill));
        assert_int_equal(card_bound(&c), CARD_PT);
        free_program(p);
    }
}

// --- Memory

// One direction at 150 GB/s; a balanced copy at 105.
static void time__copies_run_at_the_published_bandwidth(void **state)
{
    (void)state;
    for (int both = 0; both < 2; both++) {
        isa_program *p = new_program(2);
        begin_kernel(p, 1, 0);
        load(p, 1 << 18);
        if (both) store(p, 1 << 18);
        finish(p);
        card_counters c = time_it(p);
        double bytes = (double)(c.memory_read_bytes + c.memory_written_bytes);
        assert_true(fabs(bytes / c.us * 1e-3 - (both ? 105.0 : 150.0)) < 1.0);
        assert_us(c.us, memory_us(1 << 19) * (both ? 2 + TURNS : 1));
        assert_us(c.busy_us[CARD_MEMORY], c.us);
        free_program(p);
    }
}

static isa_program *reading_program(uint32_t cores, int64_t distance)
{
    isa_program *p = new_program(1);
    int64_t *parameters = begin_kernel(p, cores == 32 ? UINT32_MAX : (1u << cores) - 1, 1);
    for (uint32_t core = 0; core < cores; core++) parameters[core] = core * distance;
    isa_operand from = in_memory(0, 0, 0, DL16);
    emit_flat(p, ISA_LOAD, 2048, 2, (isa_operand[]){in_lx(0, DL16), from});
    finish(p);
    return p;
}

// The cores share the memory; one place is read once for all of them; cores side by side read one
// long run; cores far apart lose the published share.
static void time__cores_share_the_memory(void **state)
{
    (void)state;
    isa_program *same = reading_program(32, 0), *beside = reading_program(32, 4096);
    isa_program *apart = reading_program(32, 1 << 20);
    double spread = 150 / fmin(150, 114 + 61 * exp(-4096 / 14800.0));
    assert_us(time_it(same).us, memory_us(4096));
    assert_us(time_it(beside).us, memory_us(32 * 4096) * spread);
    assert_us(time_it(apart).us, 32 * memory_us(4096) * 150 / 114);
    free_program(same);
    free_program(beside);
    free_program(apart);
}

// Four elements of each row: 16 runs, each a whole stick of memory.
static void time__short_runs_cost(void **state)
{
    (void)state;
    isa_program *p = new_program(1);
    begin_kernel(p, 1, 0);
    isa_instruction *i = emit(p, ISA_LOAD);
    i->dim_count = 2;
    i->extent[0] = 16;
    i->extent[1] = 4;
    i->operand_count = 2;
    i->operand[0] = in_lx(0, DL16);
    i->operand[0].stride[0] = 8;
    i->operand[0].stride[1] = 2;
    i->operand[1] = in_memory(0, ISA_NO_SLOT, 0, DL16);
    i->operand[1].stride[0] = 1024;
    i->operand[1].stride[1] = 2;
    finish(p);
    assert_us(time_it(p).us, 16 * memory_us(128));
    free_program(p);
}

// The locality rule of a gather: every row is a run of its own.
static void time__gathered_rows_are_runs(void **state)
{
    (void)state;
    isa_program *p = new_program(1);
    begin_kernel(p, 1, 0);
    isa_instruction *i = emit(p, ISA_GATHER);
    i->dim_count = 2;
    i->extent[0] = 10;
    i->extent[1] = 64;
    i->operand_count = 3;
    i->operand[0] = in_lx(0, DL16);
    i->operand[0].stride[0] = 128;
    i->operand[0].stride[1] = 2;
    i->operand[1] = in_memory(0, ISA_NO_SLOT, 0, DL16);
    i->operand[1].stride[1] = 2;
    i->operand[2] = in_lx(8192, SPYRE_FORMAT_IEEE_INT32);
    i->operand[2].stride[0] = 4;
    i->row_stride = 128;
    i->row_count = 100;
    finish(p);
    card_counters c = time_it(p);
    assert_int_equal(c.memory_read_bytes, 10 * 128);
    assert_us(c.us, 10 * memory_us(128));
    free_program(p);
}

// --- Queues

static void time__tokens_put_units_in_a_row(void **state)
{
    (void)state;
    isa_program *p = new_program(2);
    begin_kernel(p, 1, 0);
    load(p, 4096);
    handover(p, ISA_QUEUE_LOAD, ISA_QUEUE_SFP, 0);
    vector(p, 4096);
    handover(p, ISA_QUEUE_SFP, ISA_QUEUE_STORE, 1);
    store(p, 4096);
    finish(p);
    assert_us(time_it(p).us, (2 + TURNS) * memory_us(8192) + 64 * STICK_US);
    free_program(p);
}

static void time__independent_units_overlap(void **state)
{
    (void)state;
    isa_program *p = new_program(2);
    begin_kernel(p, 1, 0);
    load(p, 4096);
    vector(p, 1 << 16);
    finish(p);
    assert_us(time_it(p).us, 1024 * STICK_US);
    free_program(p);
}

// As the back-end writes it: FREE for the second buffer, then FULL and FREE a tile.
static isa_program *streaming_program(uint32_t tiles, uint32_t load_elements,
                                      uint32_t vector_elements, bool doubled)
{
    isa_program *p = new_program(2);
    begin_kernel(p, 1, 0);
    if (doubled) signal_to(p, ISA_QUEUE_SFP, 1);
    emit(p, ISA_LOOP)->count = tiles;
    load(p, load_elements);
    handover(p, ISA_QUEUE_LOAD, ISA_QUEUE_SFP, 0);
    vector(p, vector_elements);
    handover(p, ISA_QUEUE_SFP, ISA_QUEUE_LOAD, 1);
    emit(p, ISA_END_LOOP);
    if (doubled) wait_for(p, ISA_QUEUE_LOAD, 1);
    finish(p);
    return p;
}

static void time__double_buffers_overlap(void **state)
{
    (void)state;
    enum { TILES = 1000 };
    double transfer = memory_us(8192), compute = 64 * STICK_US;
    isa_program *single = streaming_program(TILES, 4096, 4096, false);
    isa_program *doubled = streaming_program(TILES, 4096, 4096, true);
    isa_program *slow = streaming_program(TILES, 4096, 1 << 15, true);
    assert_us(time_it(single).us, TILES * (transfer + compute));
    assert_us(time_it(doubled).us, TILES * transfer + compute);     // transfers take longer
    card_counters c = time_it(slow);
    assert_us(c.us, transfer + TILES * 512 * STICK_US);             // computing does
    assert_int_equal(card_bound(&c), CARD_SFP);
    free_program(single);
    free_program(doubled);
    free_program(slow);
}

// Units that wait for each other all the time: nothing is busy half of it.
static void time__bound_by_order(void **state)
{
    (void)state;
    isa_program *p = new_program(0);
    begin_kernel(p, 1, 0);
    vector(p, 4096);
    finish(p);
    card_counters c = time_it(p);
    assert_int_equal(card_bound(&c), CARD_SFP);
    c.us *= 3;
    assert_int_equal(card_bound(&c), CARD_RESOURCES);
    free_program(p);
}

// --- The ring

// Core n receives from n - 1, adds, sends to n + 1: the middle of a chain of four, between a first
// core that sent before and a last one that receives later.
static void time__chain_goes_from_core_to_core(void **state)
{
    (void)state;
    isa_program *p = new_program(0);
    int64_t *parameters = begin_kernel(p, 1, 1);
    parameters[0] = 1;
    isa_operand message = in_lx(0, DL16);
    emit_flat(p, ISA_SEND, 6144, 1, &message);
    end_kernel(p);
    parameters = begin_kernel(p, 0x6, 2);
    for (int64_t core = 1; core < 3; core++) {
        parameters[core * 2] = core - 1;
        parameters[core * 2 + 1] = core + 1;
    }
    emit_flat(p, ISA_RECEIVE, 6144, 1, &message)->token = 0;
    handover(p, ISA_QUEUE_RING, ISA_QUEUE_SFP, 0);
    vector(p, 6144);
    handover(p, ISA_QUEUE_SFP, ISA_QUEUE_RING, 1);
    emit_flat(p, ISA_SEND, 6144, 1, &message)->token = 1;
    end_kernel(p);
    parameters = begin_kernel(p, 0x8, 1);
    parameters[3] = 2;
    emit_flat(p, ISA_RECEIVE, 6144, 1, &message);
    finish(p);
    card_counters kernels[3];
    assert_ok(isa_verify(p));
    assert_ok(card_time(p, kernels));
    double send = 12288.0 / 192000, add = 96 * STICK_US, hop = 1.0 / 1500;
    assert_us(kernels[0].us, send);
    // Core 1 copies a message that waits; core 2's arrives while it is sent.
    assert_us(kernels[1].us, (send + add + send) + (hop + add + send));
    assert_us(kernels[2].us, send);
    assert_int_equal(kernels[0].ring_bytes, 12288);
    assert_int_equal(kernels[1].ring_bytes, 2 * 12288);
    assert_int_equal(kernels[1].ring_hops, 2);
    free_program(p);
}

// Every core sends to the one opposite, 16 hops away: the links, not the cores, take the time.
static void time__links_carry_what_passes(void **state)
{
    (void)state;
    isa_program *p = new_program(0);
    int64_t *parameters = begin_kernel(p, UINT32_MAX, 1);
    for (int64_t core = 0; core < 32; core++) parameters[core] = (core + 16) % 32;
    isa_operand message = in_lx(0, DL16), room = in_lx(1 << 19, DL16);
    emit_flat(p, ISA_SEND, 6144, 1, &message);
    emit_flat(p, ISA_RECEIVE, 6144, 1, &room);
    finish(p);
    card_counters sum = time_it(p);
    assert_us(sum.us, 32 * 16 * 12288.0 / 64 / 192000);
    assert_us(sum.busy_us[CARD_RING], sum.us);
    assert_int_equal(sum.ring_hops, 32 * 16);
    free_program(p);
}

// --- Programs without an end

static void expect_fault(isa_program *p, const char *part)
{
    card_counters kernels[8];
    finish(p);
    assert_ok(isa_verify(p));
    spyre_status status = card_time(p, kernels);
    assert_int_equal(spyre_status_code(status), SPYRE_DEVICE_FAULT);
    assert_non_null(strstr(spyre_status_message(status), part));
    spyre_status_free(status);
    free_program(p);
}

static void time__deadlocks_are_errors(void **state)
{
    (void)state;
    isa_program *p = new_program(2);
    begin_kernel(p, 1, 0);
    load(p, 64);
    wait_for(p, ISA_QUEUE_SFP, 5);
    expect_fault(p, "kernel 0_test, core 0, instruction 2: deadlock: queue sfp waits for token 5");

    p = new_program(2);
    begin_kernel(p, 1, 0);
    wait_for(p, ISA_QUEUE_SFP, 0);
    signal_to(p, ISA_QUEUE_LOAD, 1);
    wait_for(p, ISA_QUEUE_LOAD, 0);
    signal_to(p, ISA_QUEUE_SFP, 0);
    expect_fault(p, "deadlock");

    p = new_program(0);
    begin_kernel(p, 2, 1)[1] = 7;
    isa_operand message = in_lx(0, DL16);
    emit_flat(p, ISA_RECEIVE, 64, 1, &message);
    expect_fault(p, "core 1, instruction 1: deadlock: nothing arrives from core 7");
}

// Four billion turns that never come to a steady state: an estimate, not a hang.
static void time__tokens_that_pile_up_are_estimated(void **state)
{
    (void)state;
    isa_program *p = new_program(2);
    begin_kernel(p, 1, 0);
    emit(p, ISA_LOOP)->count = UINT32_MAX;
    load(p, 64);
    signal_to(p, ISA_QUEUE_LOAD, 0);
    wait_for(p, ISA_QUEUE_SFP, 0);
    vector(p, 4096);
    emit(p, ISA_END_LOOP);
    finish(p);
    card_counters c = time_it(p);
    assert_true(c.estimated);
    assert_us(c.us, UINT32_MAX * (64 * STICK_US));
    free_program(p);
}

// --- Large programs

// A tensor of 2^50 bytes: as many turns as a program can say, timed without them.
static void time__does_not_depend_on_sizes(void **state)
{
    (void)state;
    isa_program *p = new_program(2);
    begin_kernel(p, 1, 0);
    signal_to(p, ISA_QUEUE_SFP, 1);
    for (int n = 0; n < 3; n++) emit(p, ISA_LOOP)->count = 1 << 12;
    load(p, 4096);
    handover(p, ISA_QUEUE_LOAD, ISA_QUEUE_SFP, 0);
    vector(p, 4096);
    handover(p, ISA_QUEUE_SFP, ISA_QUEUE_LOAD, 1);
    for (int n = 0; n < 3; n++) emit(p, ISA_END_LOOP);
    wait_for(p, ISA_QUEUE_LOAD, 1);
    finish(p);
    card_counters c = time_it(p);
    double turns = 68719476736.0;
    assert_false(c.estimated);
    assert_true(fabs(c.us / (turns * memory_us(8192)) - 1) < 1e-6);
    assert_int_equal(c.memory_read_bytes, 8192 * (int64_t)turns);
    free_program(p);
}

// Six loops of 2^32 - 1 around and inside a kernel: counts end, nothing overflows.
static void time__absurd_counts_saturate(void **state)
{
    (void)state;
    isa_program *p = new_program(1);
    for (int n = 0; n < 4; n++) emit(p, ISA_LOOP)->count = UINT32_MAX;
    begin_kernel(p, 1, 0);
    for (int n = 0; n < 2; n++) emit(p, ISA_LOOP)->count = UINT32_MAX;
    load(p, 4096);
    for (int n = 0; n < 2; n++) emit(p, ISA_END_LOOP);
    end_kernel(p);
    for (int n = 0; n < 4; n++) emit(p, ISA_END_LOOP);
    emit(p, ISA_HALT);
    card_counters c = time_it(p);
    assert_int_equal(c.memory_read_bytes, (int64_t)1e18);
    assert_true(fabs(c.us / (pow(UINT32_MAX, 6) * memory_us(8192)) - 1) < 1e-6);
    free_program(p);
}

// --- Random programs

static const isa_queue unit_queues[] = {ISA_QUEUE_LOAD, ISA_QUEUE_SFP, ISA_QUEUE_STORE};

static void emit_work(isa_program *p, isa_queue queue, uint32_t elements)
{
    if (queue == ISA_QUEUE_LOAD) load(p, elements);
    else if (queue == ISA_QUEUE_STORE) store(p, elements);
    else if (queue == ISA_QUEUE_SFP) vector(p, elements);
}

// Work of random units. Every handover stands in one place and has a token of its two units, so
// read from top to bottom the program is a sequential one and cannot stop; tokens given before a
// loop let a unit run ahead in it.
static void random_body(isa_program *p, uint64_t *seed, uint32_t depth, uint32_t loops,
                        uint32_t scale)
{
    uint32_t parts = 1 + next_random(seed) % 4;
    for (uint32_t n = 0; n < parts; n++) {
        uint32_t a = next_random(seed) % 3, b = next_random(seed) % 3, pair = 3 * a + b;
        isa_queue from = unit_queues[a], to = unit_queues[b];
        emit_work(p, from, 64 * (1 + next_random(seed) % 40) * scale);
        if (next_random(seed) % 4) handover(p, from, to, (uint16_t)pair);
        if (depth + 1 < loops && next_random(seed) % 3 == 0) {
            uint16_t ahead = (uint16_t)(9 * (depth + 1) + pair);
            uint32_t given = next_random(seed) % 3;
            for (uint32_t g = 0; g < given; g++) signal_to(p, from, ahead);
            emit(p, ISA_LOOP)->count = 1 + next_random(seed) % 30;
            random_body(p, seed, depth + 1, loops, scale);
            handover(p, from, to, ahead);
            emit(p, ISA_END_LOOP);
            for (uint32_t g = 0; g < given; g++) wait_for(p, to, ahead);
        }
    }
}

static isa_program *random_program(uint64_t seed, uint32_t scale)
{
    isa_program *p = new_program(2);
    begin_kernel(p, 1, 0);
    emit(p, ISA_LOOP)->count = 1 + next_random(&seed) % 50;
    random_body(p, &seed, 0, 3, scale);
    emit(p, ISA_END_LOOP);
    finish(p);
    return p;
}

static void time__skipped_loops_take_as_long(void **state)
{
    (void)state;
    for (uint64_t n = 0; n < 300; n++) {
        isa_program *p = random_program(1000 + n, 1);
        card_counters skipped, walked;
        time_options every = {.every_iteration = true};
        assert_ok(isa_verify(p));
        assert_ok(card_time(p, &skipped));
        assert_ok(time_program(p, &every, &walked));
        if (fabs(skipped.us - walked.us) > 1e-5 * walked.us)
            fail_msg("program %d: %.9g us, walked %.9g", (int)n, skipped.us, walked.us);
        assert_true(fabs(skipped.busy_us[CARD_MEMORY] - walked.busy_us[CARD_MEMORY]) <=
                    1e-5 * walked.us);
        assert_true(skipped.busy_us[CARD_SFP] <= skipped.us * (1 + 1e-9));
        free_program(p);
    }
}

static void time__more_bytes_are_never_faster(void **state)
{
    (void)state;
    for (uint64_t n = 0; n < 100; n++) {
        double before = 0;
        for (uint32_t scale = 1; scale <= 8; scale *= 2) {
            isa_program *p = random_program(5000 + n, scale);
            card_counters c = time_it(p);
            assert_true(c.us > before);
            before = c.us;
            free_program(p);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(time__loops_and_cores_multiply),
        cmocka_unit_test(time__matmul_runs_at_the_published_rate),
        cmocka_unit_test(time__copies_run_at_the_published_bandwidth),
        cmocka_unit_test(time__cores_share_the_memory),
        cmocka_unit_test(time__short_runs_cost),
        cmocka_unit_test(time__gathered_rows_are_runs),
        cmocka_unit_test(time__tokens_put_units_in_a_row),
        cmocka_unit_test(time__independent_units_overlap),
        cmocka_unit_test(time__double_buffers_overlap),
        cmocka_unit_test(time__bound_by_order),
        cmocka_unit_test(time__chain_goes_from_core_to_core),
        cmocka_unit_test(time__links_carry_what_passes),
        cmocka_unit_test(time__deadlocks_are_errors),
        cmocka_unit_test(time__tokens_that_pile_up_are_estimated),
        cmocka_unit_test(time__does_not_depend_on_sizes),
        cmocka_unit_test(time__absurd_counts_saturate),
        cmocka_unit_test(time__skipped_loops_take_as_long),
        cmocka_unit_test(time__more_bytes_are_never_faster),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
