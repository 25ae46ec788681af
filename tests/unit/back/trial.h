// SPDX-License-Identifier: Apache-2.0
//
// A trial: one bundle, executed by the reference interpreter and by the card in both modes from the
// same random bytes. All bytes of all arguments, and of LX below the back-end's share, must agree.
#ifndef UNIT_BACK_TRIAL_H
#define UNIT_BACK_TRIAL_H

#include "unit/bundle/golden.h"

#include <math.h>

#include "back/allocate.h"
#include "back/back.h"
#include "card/card.h"
#include "tensor/numeric.h"

enum { TRIAL_ARG_LIMIT = 16 << 20, TRIAL_LX_BYTES = BUNDLE_MAX_CORES * BUNDLE_LX_BYTES,
       TRIAL_LX_STICKS = 16 << 10 };

typedef struct {
    uint64_t seed;
    arena *memory;
    bundle *b;
    back_options options;
    spyre_format fill[BUNDLE_MAX_TENSORS * 4];  // by argument: what its random bytes look like
    int64_t index_limit;                        // for integer arguments
    bool signed_integers;                       // all of int32 instead
    int64_t lx_next;                            // bytes of LX that tensors took
    spyre_format lx_fill[TRIAL_LX_STICKS];     // the same for LX, by stick
    bool infinities;                            // off where they may meet: NaN has no one code
    bool any_nan;                               // of fp32: one NaN is as good as another
    float low, high;                            // range of random values
} trial;

static card *trial_card;
static uint8_t *trial_lx;
static uint32_t trial_count;

static inline uint32_t pick(trial *t, uint32_t count)
{
    return (uint32_t)(check_random(&t->seed) >> 33) % count;
}

// `share`: bytes of LX that are enough for the smallest tiles; the trial has those, some more, or
// the usual 20 %.
static inline trial trial_begin(uint64_t seed, int64_t share)
{
    const int64_t shares[] = {(2 << 20) / 5, share, share * 3 / 2, share * 3};
    trial t = {.seed = seed * 0x9E3779B97F4A7C15ull + 1, .memory = arena_create(), .low = -2,
               .high = 2, .infinities = true};
    assert_non_null(t.memory);
    for (int n = 0; n < 4; n++) check_random(&t.seed);
    t.b = make_bundle(t.memory, 0, 0);
    t.options.lx_reserved_bytes = shares[pick(&t, 4)];
    t.lx_next = pick(&t, 2) * 256;
    return t;
}

// Puts a tensor somewhere: LX one time in `lx_odds` (0: never), else an argument of its own with
// room before and behind.
static inline void trial_place(trial *t, bundle_step *step, bundle_tensor *tensor, uint32_t lx_odds)
{
    bundle_geometry g;
    if (lx_odds && pick(t, lx_odds) == 0) {
        tensor->in_lx = true;
        place_tensor(t->b, step, tensor, -1, t->lx_next);
        assert_ok(bundle_tensor_geometry(t->b, step, (uint32_t)(tensor - step->tensors), &g));
        for (int64_t end = t->lx_next + g.bytes; t->lx_next < end; t->lx_next += 128)
            t->lx_fill[t->lx_next / 128] = tensor->format;
        return;
    }
    int64_t offset = 128 * pick(t, 3);
    bundle_arg arg = {.kind = BUNDLE_ARG_TENSOR, .bytes = TRIAL_ARG_LIMIT};
    uint32_t number = t->b->args.count;
    assert_ok(VEC_PUSH(t->memory, &t->b->args, arg));
    t->fill[number] = tensor->format;
    place_tensor(t->b, step, tensor, (int32_t)number, offset);
    assert_ok(bundle_tensor_geometry(t->b, step, (uint32_t)(tensor - step->tensors), &g));
    int64_t end = 0;
    for (uint32_t core = 0; core < step->cores->core_count; core++)
        if (bundle_start(tensor, core) + g.bytes > end) end = bundle_start(tensor, core) + g.bytes;
    t->b->args.items[number].bytes = end + 128 * pick(t, 2);
    assert_true(end < TRIAL_ARG_LIMIT);
}

// Random elements; now and then a special one.
static inline void trial_fill(trial *t, uint8_t *bytes, int64_t count, spyre_format format)
{
    if (format == SPYRE_FORMAT_SENINT4) format = SPYRE_FORMAT_SENINT8;  // two elements
    int64_t element = (int64_t)spyre_format_bytes(format);
    for (int64_t at = 0; at + element <= count; at += element) {
        double unit = (double)(check_random(&t->seed) >> 40) / (double)(1 << 24);
        double value = (double)t->low + unit * (double)(t->high - t->low);
        uint32_t special = pick(t, 400);
        if (special == 0) value = 0;
        if (special == 1) value = -0.0;
        if (special == 2 && t->infinities) value = (double)INFINITY;
        if (format == SPYRE_FORMAT_IEEE_INT32 || format == SPYRE_FORMAT_SENUINT32)
            value = (double)pick(t, (uint32_t)t->index_limit);
        if (format == SPYRE_FORMAT_IEEE_INT32 && t->signed_integers)
            value = (double)(int32_t)(uint32_t)(check_random(&t->seed) >> 32);
        element_store(bytes + at, format, value);
    }
}

static inline bool trial_differs_by_nan(const uint8_t *want, const uint8_t *got, int64_t count)
{
    for (int64_t at = 0; at + 4 <= count; at += 4) {
        float a, b;
        memcpy(&a, want + at, 4);
        memcpy(&b, got + at, 4);
        if (memcmp(want + at, got + at, 4) != 0 && !(isnan(a) && isnan(b))) return false;
    }
    return true;
}

static inline void trial_compare(const trial *t, const char *what, const uint8_t *want,
                                 const uint8_t *got, int64_t count, isa_program *program,
                                 uint64_t number)
{
    if (memcmp(want, got, (size_t)count) == 0) return;
    if (t->any_nan && trial_differs_by_nan(want, got, count)) return;
    int64_t at = 0;
    while (want[at] == got[at]) at++;
    text listing = {0};
    isa_print(program, &listing);
    fputs(text_string(&listing), stderr); // longer than what print_error takes
    print_error("%s of step %s, trial %llu: byte %lld is %02x, expected %02x\n", what,
                t->b->steps.items[0].name, (unsigned long long)number, (long long)at, got[at],
                want[at]);
    text_free(&listing);
    fail();
}

// With `forget`, LX is dead after the program and is not compared.
static inline void trial_run(const trial *t, isa_program *program, card_mode mode, bool forget,
                             uint8_t *const *initial, uint8_t *const *expected,
                             const uint8_t *initial_lx, const uint8_t *expected_lx,
                             uint64_t number)
{
    int64_t share = lx_share_start(&t->options);
    card_argument arguments[BUNDLE_MAX_TENSORS * 4];
    card_program *loaded;
    assert_ok(card_load(trial_card, program, &loaded));
    card_set_mode(trial_card, mode);
    if (forget) card_program_forget_lx(loaded);
    for (uint32_t a = 0; a < t->b->args.count; a++) {
        arguments[a] = (card_argument){a * CARD_SEGMENT_BYTES, (uint64_t)t->b->args.items[a].bytes};
        memcpy(card_memory(trial_card, arguments[a].base, arguments[a].limit), initial[a],
               arguments[a].limit);
    }
    uint32_t cores = t->b->steps.items[0].cores->core_count;
    const bundle_division *owners = t->b->steps.items[0].tensors[0].owners;
    if (owners && owners->core_count > cores) cores = owners->core_count;
    for (uint32_t core = 0; core < cores; core++) {
        // What the back-end does not write first must not matter: its share holds NaN.
        memset(card_lx(trial_card, core) + share, 0xFF, (size_t)(ISA_LX_BYTES - share));
        memcpy(card_lx(trial_card, core), initial_lx + core * t->lx_next, (size_t)t->lx_next);
    }
    assert_ok(card_launch(trial_card, loaded, arguments, t->b->args.count, NULL));
    for (uint32_t a = 0; a < t->b->args.count; a++)
        trial_compare(t, arena_printf(t->memory, "mode %d%s, argument %u", mode,
                                      forget ? " fused" : "", a), expected[a],
                      card_memory(trial_card, arguments[a].base, arguments[a].limit),
                      (int64_t)arguments[a].limit, program, number);
    for (uint32_t core = 0; core < cores && !forget; core++)
        trial_compare(t, arena_printf(t->memory, "mode %d, LX of core %u", mode, core),
                      expected_lx + core * BUNDLE_LX_BYTES, card_lx(trial_card, core), t->lx_next,
                      program, number);
    card_unload(trial_card, loaded);
}

// Now and then the step runs inside a loop of the bundle that moves every tensor in memory.
static inline void trial_wrap(trial *t)
{
    if (pick(t, 4)) return;
    const bundle_step *step = &t->b->steps.items[0];
    int64_t count = 1 + pick(t, 3);
    for (uint32_t n = 0; n < step->tensor_count; n++) {
        bundle_tensor *tensor = &step->tensors[n];
        int64_t stride = 128 * pick(t, 5);
        if (tensor->in_lx) continue;
        tensor->loop_stride[0] = stride;
        t->b->args.items[tensor->arg].bytes += stride * (count - 1);
    }
    bundle_statement end = {.kind = BUNDLE_END};
    assert_ok(VEC_PUSH(t->memory, &t->b->body, end));
    assert_ok(VEC_PUSH(t->memory, &t->b->body, end));
    t->b->body.items[1] = t->b->body.items[0];
    t->b->body.items[0] = (bundle_statement){.kind = BUNDLE_LOOP, .count = count};
}

// Interprets into `expected`, which are copies of `initial`, and compares the card with it.
static inline void trial_check(trial *t, isa_program *program, uint8_t *const *initial,
                               uint8_t *const *expected, uint64_t number)
{
    bundle_buffer buffers[BUNDLE_MAX_TENSORS * 4];
    for (uint32_t a = 0; a < t->b->args.count; a++)
        buffers[a] = (bundle_buffer){expected[a], t->b->args.items[a].bytes};
    uint8_t *initial_lx = arena_alloc(t->memory, (size_t)(ISA_CORES * t->lx_next));
    assert_non_null(initial_lx);
    for (uint32_t core = 0; core < ISA_CORES; core++) {
        uint8_t *bytes = initial_lx + core * t->lx_next;
        for (int64_t at = 0; at < t->lx_next; at += 128)
            trial_fill(t, bytes + at, 128, t->lx_fill[at / 128]);
        if (t->lx_next) memcpy(trial_lx + core * BUNDLE_LX_BYTES, bytes, (size_t)t->lx_next);
    }
    assert_ok(bundle_interpret(t->b, buffers, trial_lx));
    trial_run(t, program, CARD_EXACT, false, initial, expected, initial_lx, trial_lx, number);
    trial_run(t, program, CARD_FAST, false, initial, expected, initial_lx, trial_lx, number);
    trial_run(t, program, CARD_FAST, true, initial, expected, initial_lx, trial_lx, number);
    trial_count++;
}

static inline void trial_end(trial *t, uint64_t number)
{
    trial_wrap(t);
    isa_program *program;
    assert_ok(back_compile(t->b, &t->options, t->memory, &program));
    uint8_t *initial[BUNDLE_MAX_TENSORS * 4], *expected[BUNDLE_MAX_TENSORS * 4];
    for (uint32_t a = 0; a < t->b->args.count; a++) {
        int64_t bytes = t->b->args.items[a].bytes;
        initial[a] = arena_alloc(t->memory, (size_t)bytes);
        expected[a] = arena_alloc(t->memory, (size_t)bytes);
        trial_fill(t, initial[a], bytes, t->fill[a]);
        memcpy(expected[a], initial[a], (size_t)bytes);
    }
    trial_check(t, program, initial, expected, number);
    arena_destroy(t->memory);
}

static inline int trial_setup(void **state)
{
    (void)state;
    trial_lx = calloc(1, TRIAL_LX_BYTES);
    spyre_status status = card_create(&trial_card);
    return !trial_lx || status ? -1 : 0;
}

static inline int trial_teardown(void **state)
{
    (void)state;
    card_destroy(trial_card);
    free(trial_lx);
    return 0;
}

#endif
