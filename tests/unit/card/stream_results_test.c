// SPDX-License-Identifier: Apache-2.0
//
// Results that go past the host's caches: which kernels do that; tiles leave the same bytes that
// way as through the caches, whether their runs are whole lines or not.
#include "fast_against_exact.h"

#include <stdlib.h>

#include "base/arena.h"
#include "card/machine.h"

#define INT32 SPYRE_FORMAT_IEEE_INT32
enum { CORES = 32, COUNT = 256 << 10, BYTES = COUNT * 2 };      // of a core

// --- Which

static void copy(isa_program *p, uint32_t count, uint16_t to, uint16_t from, uint16_t slot)
{
    int64_t *parameters = begin_kernel(p, UINT32_MAX, 2);
    for (uint32_t core = 0; core < CORES; core++) {
        parameters[core * 2] = (int64_t)core * BYTES;
        parameters[core * 2 + 1] = (int64_t)((core + 1) % CORES) * BYTES;
    }
    emit_flat(p, ISA_LOAD, count, 2,
              (isa_operand[]){in_lx(0, DL16), in_memory(from, slot, 0, DL16)});
    signal_to(p, ISA_QUEUE_LOAD, 0);
    wait_for(p, ISA_QUEUE_STORE, 0);
    emit_flat(p, ISA_STORE, count, 2, (isa_operand[]){in_memory(to, 0, 0, DL16), in_lx(0, DL16)});
    end_kernel(p);
}

static bool streams(const plan_action *a, const plan_kernel *kernel)
{
    const plan_step *s = a->joined.count ? a->joined.items : kernel->steps[ISA_QUEUE_SEQ];
    while (s->kind == STEP_LOOP) s++;
    return s->tile->streams;
}

// Bit n: kernel n of the program does.
static uint32_t streamed_kernels(isa_program *p)
{
    card *c = card_with_threads(1);
    card_program *loaded;
    emit(p, ISA_HALT);
    assert_ok(card_load(c, p, &loaded));
    uint32_t found = 0;
    for (uint32_t n = 0; n < loaded->phases.count; n++) {
        const plan_phase *first = &loaded->phases.items[n];
        for (uint32_t a = 0; first->stage && a < first->stage->actions.count; a++) {
            const plan_action *action = &first->stage->actions.items[a];
            const uint32_t kernel = n + action->first;
            found |= (uint32_t)streams(action, first[action->first].kernel) << kernel;
        }
    }
    card_unload(c, loaded);
    free_program(p);
    card_destroy(c);
    return found;
}

static void stream_results__needs_much_that_nobody_reads(void **state)
{
    (void)state;
    isa_program *p = new_program(3);
    copy(p, COUNT, 1, 0, 0);
    assert_int_equal(streamed_kernels(p), 1);
    // 8 MB,
    p = new_program(3);
    copy(p, COUNT / 2, 1, 0, 0);
    assert_int_equal(streamed_kernels(p), 0);
    // what the next kernel reads, on the same cores and behind a barrier.
    for (uint16_t slot = 0; slot < 2; slot++) {
        p = new_program(3);
        copy(p, COUNT, 1, 0, 0);
        copy(p, COUNT, 2, 1, slot);
        assert_int_equal(streamed_kernels(p), 2);
    }
}

// --- Same bytes

enum { AREA = 32 << 10, ROWS = 40, TABLE = 64 };

static isa_operand anywhere(spyre_format format, int64_t outer, int64_t middle, int64_t inner)
{
    isa_operand o = in_memory(0, ISA_NO_SLOT, 0, format);
    o.stride[0] = outer, o.stride[1] = middle, o.stride[2] = inner;
    return o;
}

// A copy, one that turns planes, a maximum, or a gather: [2, rows, count].
static isa_instruction random_tile(uint64_t *seed)
{
    static const uint16_t counts[] = {32, 64, 96, 40, 7};
    const uint32_t kind = next_random(seed) % 4;
    isa_instruction i = {.opcode = ISA_LOAD, .dim_count = 3, .operand_count = 2};
    i.extent[0] = 2, i.extent[1] = 1 + next_random(seed) % ROWS;
    i.extent[2] = counts[next_random(seed) % 5];
    const int64_t line = 256, plane = ROWS * line;
    i.operand[0] = anywhere(DL16, plane, line, 2);
    i.operand[1] = anywhere(DL16, plane, kind == 1 ? 2 : line, kind == 1 ? 80 : 2);
    if (kind == 2) {
        i.opcode = ISA_VECTOR, i.op = OPFUNC_MAXIMUM, i.operand_count = 3;
        i.operand[2] = anywhere(DL16, 0, 64, 2);
    } else if (kind == 3) {
        i.opcode = ISA_GATHER, i.operand_count = 3;
        i.operand[1].stride[1] = 0;
        i.operand[2] = anywhere(INT32, 0, 4, 0);
        i.row_stride = line, i.row_count = ROWS;
    }
    return i;
}

static void stream_results__leave_the_same_bytes(void **state)
{
    (void)state;
    uint64_t seed = 11;
    uint8_t *area = aligned_alloc(64, 4 * AREA), *in[2] = {area, area + AREA};
    uint8_t *result = area + 2 * AREA, *wanted = area + 3 * AREA;
    plan_scratch scratch = {0};
    for (uint32_t round = 0; round < 400; round++) {
        arena *memory = arena_create();
        plan_tile *tile;
        const isa_instruction i = random_tile(&seed);
        const uint32_t shift = next_random(&seed) % 4 ? 0 : 2 * (next_random(&seed) % 32);
        assert_non_null(memory);
        assert_ok(plan_make_tile(memory, &i, &tile));
        for (uint32_t n = 0; n < 4 * AREA; n++) area[n] = (uint8_t)next_random(&seed);
        memcpy(wanted, result, AREA);
        for (uint32_t n = 0; n < TABLE; n++) {
            const uint32_t row = next_random(&seed) % ROWS;
            if (i.opcode == ISA_GATHER) memcpy(in[1] + 4 * n, &row, sizeof row);
        }
        exact_run(tile, (uint8_t *[]){wanted + shift, in[0], in[1]}, &scratch);
        tile->streams = true;
        tile->executor = tile_choose(tile);
        tile_run(tile, (uint8_t *[]){result + shift, in[0], in[1]}, &scratch);
        assert_memory_equal(result, wanted, AREA);
        arena_destroy(memory);
    }
    free(area);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stream_results__needs_much_that_nobody_reads),
        cmocka_unit_test(stream_results__leave_the_same_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
