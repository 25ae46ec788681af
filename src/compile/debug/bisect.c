// SPDX-License-Identifier: Apache-2.0
//
// Two memories side by side: the interpreter's, and that of a card of its own, where argument k
// lies behind argument k - 1. Before a step is judged by itself, the card gets the interpreter's
// memory and LX, so that an earlier fault does not show again.
#include "spyre/bisect.h"

#include <stdlib.h>
#include <string.h>

#include "back/back.h"
#include "bundle/files.h"
#include "bundle/symbols.h"
#include "bundle/unroll.h"
#include "card/card.h"
#include "compile/debug/bisect_compare.h"
#include "compile/spyrecode/launch_sizes.h"

enum { MOST_STEPS_TOLD = 8, MOST_BYTES_UNASKED = 1 << 30 };

typedef struct {
    arena *memory;
    bundle *b;                              // without loops
    card *machine;
    card_argument *windows;
    bundle_buffer *defined, *computed;      // the interpreter's arguments; the card's
    const spyre_program_buffer *given;
    uint32_t given_count;
    uint8_t *lx;                            // the interpreter's
    text *out;
    uint32_t wrong;
    uint32_t temporary;                     // arguments whose contents end with the launch
} bisection;

// --- Memory

static void reset(bisection *x)
{
    for (uint32_t k = 0; k < x->b->args.count; k++) {
        bundle_buffer *to = &x->defined[k];
        const uint8_t *from = k < x->given_count ? x->given[k].bytes : NULL;
        if (from) memcpy(to->bytes, from, (size_t)to->size_bytes);
        else memset(to->bytes, 0, (size_t)to->size_bytes);
    }
    memset(x->lx, 0, (size_t)BUNDLE_MAX_CORES * BUNDLE_LX_BYTES);
}

// The card gets what the interpreter has.
static void follow(bisection *x)
{
    for (uint32_t k = 0; k < x->b->args.count; k++)
        memcpy(x->computed[k].bytes, x->defined[k].bytes, (size_t)x->defined[k].size_bytes);
    for (uint32_t core = 0; core < BUNDLE_MAX_CORES; core++)
        memcpy(card_lx(x->machine, core), x->lx + (size_t)core * BUNDLE_LX_BYTES, BUNDLE_LX_BYTES);
}

static spyre_status place_argument(bisection *x, uint32_t k, uint64_t *next)
{
    uint64_t bytes = (uint64_t)x->b->args.items[k].bytes;
    uint64_t room = CARD_SEGMENT_BYTES - *next % CARD_SEGMENT_BYTES;
    if (bytes > room) *next += room;
    uint8_t *on_card = card_memory(x->machine, *next, bytes);
    if (!on_card)
        return status_new(SPYRE_OUT_OF_MEMORY, "launch argument %u: its %llu bytes do not fit", k,
                          (unsigned long long)bytes);
    x->windows[k] = (card_argument){*next, bytes};
    x->computed[k] = (bundle_buffer){on_card, (int64_t)bytes};
    x->defined[k] = (bundle_buffer){calloc(1, bytes), (int64_t)bytes};
    *next += (bytes + SPYRE_STICK_BYTES - 1) / SPYRE_STICK_BYTES * SPYRE_STICK_BYTES;
    return x->defined[k].bytes ? NULL : status_no_memory();
}

static spyre_status make_memory(bisection *x)
{
    uint32_t count = x->b->args.count;
    uint64_t next = 0;
    x->windows = ARENA_NEW(x->memory, card_argument, count + 1u);
    x->defined = ARENA_NEW(x->memory, bundle_buffer, count + 1u);
    x->computed = ARENA_NEW(x->memory, bundle_buffer, count + 1u);
    x->lx = calloc(BUNDLE_MAX_CORES, BUNDLE_LX_BYTES);
    TRY_ALLOC(x->windows);
    TRY_ALLOC(x->defined);
    TRY_ALLOC(x->computed);
    TRY_ALLOC(x->lx);
    TRY(card_create(&x->machine));
    for (uint32_t k = 0; k < count; k++) TRY(place_argument(x, k, &next));
    return NULL;
}

static bool is_temporary(const bisection *x, uint32_t k)
{
    return k < 32 && x->temporary >> k & 1u;
}

// The first byte of an argument that differs, as "argument 2, byte 128"; false when none does.
static bool tell_difference(const bisection *x)
{
    for (uint32_t k = 0; k < x->b->args.count; k++) {
        if (is_temporary(x, k)) continue;
        const bundle_buffer *a = &x->defined[k], *b = &x->computed[k];
        int64_t at = 0;
        while (at < a->size_bytes && a->bytes[at] == b->bytes[at]) at++;
        if (at == a->size_bytes) continue;
        text_printf(x->out, "argument %u from byte %lld on", k, (long long)at);
        return true;
    }
    return false;
}

static bool differs(const bisection *x)
{
    for (uint32_t k = 0; k < x->b->args.count; k++)
        if (!is_temporary(x, k) && memcmp(x->defined[k].bytes, x->computed[k].bytes,
                                          (size_t)x->defined[k].size_bytes) != 0)
            return true;
    return false;
}

// --- Runs

static spyre_status run_card(bisection *x, const bundle *b)
{
    isa_program *program;
    card_program *loaded;
    back_options options = BACK_OPTIONS_INIT;
    arena *memory = arena_create();
    TRY_ALLOC(memory);
    spyre_status status = back_compile(b, &options, memory, &program);
    if (!status) status = card_load_with(x->machine, program, x->temporary, &loaded);
    if (!status) {
        status = card_launch(x->machine, loaded, x->windows, b->args.count, NULL);
        card_unload(x->machine, loaded);
    }
    arena_destroy(memory);
    return status;
}

// Both, from what the interpreter has now; a fault is one of both or an error.
static spyre_status run_both(bisection *x, const bundle *b)
{
    follow(x);
    TRY(status_at(bundle_interpret(b, x->defined, x->lx), "interpreter"));
    return status_at(run_card(x, b), "card");
}

// Steps [first, last) of the body, in a bundle of their own that shares them.
static bundle part_of(bisection *x, uint32_t first, uint32_t last)
{
    bundle part = *x->b;
    part.body.items = x->b->body.items + first;
    part.body.count = last - first;
    return part;
}

// The step of one statement alone, as the only one of a bundle.
static spyre_status single(bisection *x, uint32_t statement, bundle *out)
{
    *out = *x->b;
    out->steps.items = &x->b->steps.items[x->b->body.items[statement].step];
    out->steps.count = 1;
    TRY_NEW(x->memory, out->body.items, 1);
    out->body.count = 1;
    out->body.items[0] = (bundle_statement){.kind = BUNDLE_EXECUTE};
    return NULL;
}

// --- Judging

// As programs are launched: nothing reads the pool afterwards. Parts leave there what others read.
static spyre_status judge_whole(bisection *x, bool *out_differs)
{
    reset(x);
    x->temporary = bundle_pools(x->b);
    TRY(run_both(x, x->b));
    *out_differs = differs(x);
    text_append(x->out, "all steps together: ");
    if (!tell_difference(x)) text_append(x->out, "equal");
    else text_append(x->out, " differs");
    text_append(x->out, "\n");
    x->temporary = 0;
    return NULL;
}

static spyre_status judge_step(bisection *x, uint32_t statement)
{
    bundle alone;
    uint32_t number = x->b->body.items[statement].step;
    const bundle_step *step = &x->b->steps.items[number];
    core_differences found = {0};
    TRY(single(x, statement, &alone));
    TRY(status_at(run_both(x, &alone), "step %u %s", number, step->name));
    uint8_t *lx = card_lx(x->machine, 0);   // of all cores, one behind the other
    bundle_memory wanted = {x->defined, x->lx}, computed = {x->computed, lx};
    TRY(bisect_compare(x->memory, &alone, step, &wanted, &computed, &found));
    if (!found.count) return NULL;
    if (x->wrong++ < MOST_STEPS_TOLD) {
        text_printf(x->out, "step %u %s, by itself: differs\n", number, step->name);
        bisect_print(step, &found, x->out);
    }
    return NULL;
}

static spyre_status judge_steps(bisection *x)
{
    reset(x);
    for (uint32_t i = 0; i < x->b->body.count; i++)
        if (x->b->body.items[i].kind == BUNDLE_EXECUTE) TRY(judge_step(x, i));
    text_printf(x->out, "each step by itself: %u of %u differ\n", x->wrong, x->b->steps.count);
    return NULL;
}

// The shortest beginning that leaves other memory; the steps by themselves are right.
static spyre_status judge_beginnings(bisection *x)
{
    for (uint32_t last = 1; last <= x->b->body.count; last++) {
        bundle beginning = part_of(x, 0, last);
        reset(x);
        TRY(run_both(x, &beginning));
        if (!differs(x)) continue;
        uint32_t number = x->b->body.items[last - 1].step;
        text_printf(x->out, "together: wrong from step %u %s on, in ", number,
                    x->b->steps.items[number].name);
        tell_difference(x);
        text_append(x->out, "\n");
        return NULL;
    }
    text_append(x->out, "together: right where the pool's contents are kept\n");
    return NULL;
}

static bool has_loops(const bundle *b)
{
    for (uint32_t i = 0; i < b->body.count; i++)
        if (b->body.items[i].kind != BUNDLE_EXECUTE) return true;
    return false;
}

static spyre_status judge(bisection *x, bool *out_equal)
{
    bool together = false;
    TRY(judge_whole(x, &together));
    if (has_loops(x->b)) {
        text_append(x->out, "its loops are too long to look at each step\n");
    } else {
        TRY(judge_steps(x));
        if (together && !x->wrong) TRY(judge_beginnings(x));
    }
    *out_equal = !together && !x->wrong;
    return NULL;
}

// The sizes of arguments that the caller does not know: as far as the steps go.
static spyre_status choose_sizes(bisection *x)
{
    for (uint32_t s = 0; s < x->b->steps.count; s++)
        for (uint32_t t = 0; t < x->b->steps.items[s].tensor_count; t++) {
            int32_t table = sizes_asked(x->b, &x->b->steps.items[s].tensors[t]);
            if (table >= 0)
                return status_new(SPYRE_INVALID_ARGUMENT, "launch argument %d of %u: its size, "
                                  "which says how many rows the table has, is not given",
                                  table, x->b->args.count);
        }
    int64_t *bytes = ARENA_NEW(x->memory, int64_t, x->b->args.count + 1u);
    TRY_ALLOC(bytes);
    TRY(sizes_touched(x->b, bytes));
    for (uint32_t k = 0; k < x->b->args.count; k++) {
        bundle_arg *argument = &x->b->args.items[k];
        if (argument->bytes) continue;
        if (bytes[k] > MOST_BYTES_UNASKED)
            return status_new(SPYRE_INVALID_ARGUMENT, "launch argument %u of %u: its size is not "
                              "given, and the steps reach byte %lld", k, x->b->args.count,
                              (long long)bytes[k]);
        argument->bytes = bytes[k] ? bytes[k] : SPYRE_STICK_BYTES;
    }
    return bundle_verify(x->b);
}

static spyre_status prepare(bisection *x, const bundle *read, const char *const *sizes,
                            uint32_t size_count)
{
    uint32_t kept;
    TRY(bundle_bind_named(x->memory, read, sizes, size_count, &x->b));
    if (x->given_count > x->b->args.count)
        return status_new(SPYRE_INVALID_ARGUMENT, "there is no launch argument %u, only %u of them",
                          x->given_count - 1, x->b->args.count);
    for (uint32_t k = 0; k < x->given_count; k++)
        if (x->given[k].byte_count > 0) x->b->args.items[k].bytes = x->given[k].byte_count;
    sizes_trim(x->b);
    TRY(bundle_verify(x->b));
    TRY(choose_sizes(x));
    TRY(bundle_unroll(x->b, &kept));
    return make_memory(x);
}

spyre_status spyre_bundle_bisect(const char *directory, bool pool_first,
                                 const spyre_program_buffer *arguments, uint32_t argument_count,
                                 const char *const *sizes, uint32_t size_count, bool *out_equal,
                                 char **out_text)
{
    bundle *b;
    text out = {0};
    arena *memory = arena_create();
    TRY_ALLOC(memory);
    bisection x = {.memory = memory, .out = &out, .given = arguments,
                   .given_count = argument_count};
    *out_equal = false;
    spyre_status status = bundle_read(memory, directory, pool_first, &b);
    if (!status) status = prepare(&x, b, sizes, size_count);
    if (!status) status = judge(&x, out_equal);
    for (uint32_t k = 0; x.defined && k < x.b->args.count; k++) free(x.defined[k].bytes);
    free(x.lx);
    card_destroy(x.machine);
    arena_destroy(memory);
    return text_give(&out, status_at_path(status, directory), out_text);
}
