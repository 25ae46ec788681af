// SPDX-License-Identifier: Apache-2.0
//
// The timing model: small programs against sums made by hand.
#include "time_case.h"

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

// The locality rule of rows that an index chooses: each is a run of its own.
static card_counters time_of_rows(isa_opcode opcode)
{
    isa_program *p = new_program(1);
    uint32_t table = isa_row_operand(opcode);
    begin_kernel(p, 1, 0);
    isa_instruction *i = emit(p, opcode);
    i->dim_count = 2;
    i->extent[0] = 10;
    i->extent[1] = 64;
    i->operand_count = 3;
    i->operand[1 - table] = in_lx(0, DL16);
    i->operand[1 - table].stride[0] = 128;
    i->operand[1 - table].stride[1] = 2;
    i->operand[table] = in_memory(0, ISA_NO_SLOT, 0, DL16);
    i->operand[table].stride[1] = 2;
    i->operand[2] = in_lx(8192, SPYRE_FORMAT_IEEE_INT32);
    i->operand[2].stride[0] = 4;
    i->row_stride = 128;
    i->row_count = 100;
    finish(p);
    card_counters c = time_it(p);
    free_program(p);
    return c;
}

static void time__chosen_rows_are_runs(void **state)
{
    (void)state;
    card_counters gathered = time_of_rows(ISA_GATHER), scattered = time_of_rows(ISA_SCATTER);
    assert_int_equal(gathered.memory_read_bytes, 10 * 128);
    assert_int_equal(scattered.memory_written_bytes, 10 * 128);
    assert_us(gathered.us, 10 * memory_us(128));
    assert_us(scattered.us, 10 * memory_us(128));
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

// --- Kernels that overlap

enum { ELEMENTS = 1 << 14, IN = 0, OUT = 1 << 19, APART = 1 << 20 };

static void exp_kernel(isa_program *p, int64_t to, int64_t from)
{
    isa_operand operands[] = {in_lx(to, DL16), in_lx(from, DL16)};
    begin_kernel(p, 1, 0);
    emit_flat(p, ISA_VECTOR, ELEMENTS, 2, operands)->op = OPFUNC_EXP;
    end_kernel(p);
}

static void load_kernel(isa_program *p, uint16_t arg, int64_t to)
{
    isa_operand operands[] = {in_lx(to, DL16), in_memory(arg, ISA_NO_SLOT, 0, DL16)};
    begin_kernel(p, 1, 0);
    emit_flat(p, ISA_LOAD, ELEMENTS, 2, operands);
    end_kernel(p);
}

static void store_kernel(isa_program *p, uint16_t arg, int64_t from)
{
    isa_operand operands[] = {in_memory(arg, ISA_NO_SLOT, 0, DL16), in_lx(from, DL16)};
    begin_kernel(p, 1, 0);
    emit_flat(p, ISA_STORE, ELEMENTS, 2, operands);
    end_kernel(p);
}

// A kernel that computes, one that loads; then perhaps one that reads what they wrote.
static void time__independent_kernels_overlap(void **state)
{
    (void)state;
    enum { SAME_LOOP, OWN_LOOPS };
    static const struct {
        int64_t to, read; // read: by a third kernel; below 0: there is none
        int loops;
        bool overlap;
    } cases[] = {
        {APART, -1, SAME_LOOP, true},
        {OUT, -1, SAME_LOOP, true},    // tiles of both, which nobody reads
        {APART, OUT, SAME_LOOP, true}, // the first one's result stays where it is
        {IN, -1, SAME_LOOP, false},    // what the first one reads
        {OUT, OUT, SAME_LOOP, false},  // what it writes for the third
        {APART, -1, OWN_LOOPS, false},
    };
    double compute = ELEMENTS / 64 * STICK_US, transfer = memory_us(2 * ELEMENTS);
    for (uint32_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        isa_program *p = new_program(2);
        emit(p, ISA_LOOP)->count = 3;
        exp_kernel(p, OUT, IN);
        if (cases[n].loops == OWN_LOOPS) {
            emit(p, ISA_END_LOOP);
            emit(p, ISA_LOOP)->count = 3;
        }
        load_kernel(p, 0, cases[n].to);
        emit(p, ISA_END_LOOP);
        if (cases[n].read >= 0) store_kernel(p, 1, cases[n].read);
        emit(p, ISA_HALT);
        card_counters kernels[3];
        assert_ok(isa_verify(p));
        assert_ok(card_time(p, kernels));
        double hidden = cases[n].overlap ? fmin(compute, transfer) : 0;
        assert_us(kernels[0].us, 3 * compute);
        assert_us(kernels[1].us, 3 * (transfer - hidden));
        assert_us(kernels[1].overlap_us, 3 * hidden);
        assert_us(kernels[0].stall_us, 0);
        assert_us(kernels[1].stall_us, 3 * transfer);
        free_program(p);
    }
}

// Of four kernels that could all overlap each adds what the busiest resource then takes longer.
static void time__a_group_takes_as_long_as_its_busiest_resource(void **state)
{
    (void)state;
    double compute = ELEMENTS / 64 * STICK_US, transfer = memory_us(2 * ELEMENTS);
    isa_program *p = new_program(4);
    for (uint16_t n = 0; n < 2; n++) {
        load_kernel(p, n, APART + n * (1 << 18));
        exp_kernel(p, OUT + n * (1 << 18), IN);
    }
    store_kernel(p, 0, APART); // an argument that was read
    emit(p, ISA_HALT);
    assert_us(time_it(p).us, fmax(2 * compute, 2 * transfer) + transfer);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(time__loops_and_cores_multiply),
        cmocka_unit_test(time__matmul_runs_at_the_published_rate),
        cmocka_unit_test(time__copies_run_at_the_published_bandwidth),
        cmocka_unit_test(time__cores_share_the_memory),
        cmocka_unit_test(time__short_runs_cost),
        cmocka_unit_test(time__chosen_rows_are_runs),
        cmocka_unit_test(time__tokens_put_units_in_a_row),
        cmocka_unit_test(time__independent_units_overlap),
        cmocka_unit_test(time__double_buffers_overlap),
        cmocka_unit_test(time__independent_kernels_overlap),
        cmocka_unit_test(time__a_group_takes_as_long_as_its_busiest_resource),
        cmocka_unit_test(time__bound_by_order),
        cmocka_unit_test(time__chain_goes_from_core_to_core),
        cmocka_unit_test(time__links_carry_what_passes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
