// SPDX-License-Identifier: Apache-2.0
//
// Running the copies of a transfer.
//
// Loops are reordered freely, since a copy writes each element once. The innermost loop is one that
// is contiguous on both sides if there is one (a stick lies along a host row): a run of the
// converter. Runs are written one behind the other, because stores wait longer than loads, in
// blocks that keep few the places that are read from. Otherwise (a transposed or sparse layout) the
// innermost loop is contiguous on the host and strided on the card, in blocks short enough that the
// touched card lines stay in the cache while the loop that is contiguous on the card, placed just
// outside, returns to them.
#include <stdbool.h>
#include <string.h>

#include "tensor/convert.h"
#include "tensor/dci.h"

enum {
    BLOCK = 128,                // elements of a strided run
    CACHED_RUNS = 32,           // written in a row; measured best of 8..64,
    STREAMED_RUNS = 8,          // past the caches of 8 and 32
    LINE_BYTES = 64,
    STREAMED_BYTES = 4 << 20,   // results from here on go past the caches
    LARGEST_ELEMENT_BYTES = 8,
    LOOPS = SPYRE_MAX_DEVICE_RANK + 2,
};

typedef struct {
    int64_t size;
    int64_t target_step;        // bytes
    int64_t source_step;        // bytes
} loop;

typedef struct {
    converter convert;
    loop loops[LOOPS];          // outermost first
    uint32_t count;
    loop run;                   // the innermost loop
    bool streams;               // past the caches
} plan;

// --- The innermost loop

// memcpy of a constant size becomes one move.
#define MOVE_STRIDED(bytes)                                                     \
    case bytes:                                                                 \
        for (int64_t i = 0; i < count; i++)                                     \
            memcpy(target + i * target_step, source + i * source_step, bytes);  \
        return;

static void move_strided(char *target, int64_t target_step, const char *source,
                         int64_t source_step, int64_t count, uint32_t element_bytes)
{
    switch (element_bytes) {
    MOVE_STRIDED(1)
    MOVE_STRIDED(2)
    MOVE_STRIDED(3)
    MOVE_STRIDED(4)
    MOVE_STRIDED(8)
    default: return;
    }
}

static void run_strided(const plan *p, char *target, const char *source)
{
    _Alignas(64) char gathered[BLOCK * LARGEST_ELEMENT_BYTES];
    _Alignas(64) char converted[BLOCK * LARGEST_ELEMENT_BYTES];
    const converter *c = &p->convert;
    bool gather = p->run.source_step != c->source_bytes;
    bool scatter = p->run.target_step != c->target_bytes;
    for (int64_t done = 0; done < p->run.size; done += BLOCK) {
        int64_t now = p->run.size - done < BLOCK ? p->run.size - done : BLOCK;
        const char *from = source + done * p->run.source_step;
        char *to = target + done * p->run.target_step;
        if (gather) {
            move_strided(gathered, c->source_bytes, from, p->run.source_step, now,
                         c->source_bytes);
            from = gathered;
        }
        converter_run(c, scatter ? converted : to, from, (size_t)now);
        if (scatter)
            move_strided(to, p->run.target_step, converted, c->target_bytes, now, c->target_bytes);
    }
}

static bool is_contiguous(const plan *p)
{
    return p->run.source_step == p->convert.source_bytes &&
           p->run.target_step == p->convert.target_bytes;
}

// Runs the loops from `level` on.
static void walk(const plan *p, uint32_t level, char *target, const char *source)
{
    if (level == p->count) {
        if (is_contiguous(p)) converter_run(&p->convert, target, source, (size_t)p->run.size);
        else run_strided(p, target, source);
        return;
    }
    const loop *l = &p->loops[level];
    if (level + 1 == p->count && is_contiguous(p)) {
        (p->streams ? converter_stream_rows : converter_run_rows)(
            &p->convert, target, l->target_step, source, l->source_step, (size_t)l->size,
            (size_t)p->run.size);
        return;
    }
    for (int64_t i = 0; i < l->size; i++)
        walk(p, level + 1, target + i * l->target_step, source + i * l->source_step);
}

// --- The order of loops

static void remove_loop(plan *p, uint32_t at)
{
    p->count--;
    for (; at < p->count; at++) p->loops[at] = p->loops[at + 1];
}

// Joins two loops that step through one run of elements on both sides; false when there are none.
static bool join_once(plan *p)
{
    for (uint32_t a = 0; a < p->count; a++) {
        loop *inner = &p->loops[a];
        for (uint32_t b = 0; b < p->count; b++) {
            const loop *outer = &p->loops[b];
            if (a == b || outer->target_step != inner->size * inner->target_step) continue;
            if (outer->source_step != inner->size * inner->source_step) continue;
            inner->size *= outer->size;
            remove_loop(p, b);
            return true;
        }
    }
    return false;
}

static bool is_tight(const loop *l, bool host, bool to_card, const converter *c)
{
    bool source = host == to_card;
    return source ? l->source_step == c->source_bytes : l->target_step == c->target_bytes;
}

// How good a loop is as the innermost one.
static int rank_as_run(const loop *l, bool to_card, const converter *c)
{
    bool host = is_tight(l, true, to_card, c), card = is_tight(l, false, to_card, c);
    return host && card ? 3 : host ? 2 : card ? 1 : 0;
}

static void take_run(plan *p, bool to_card)
{
    p->run = (loop){.size = 1,
                    .target_step = p->convert.target_bytes,
                    .source_step = p->convert.source_bytes};
    if (p->count == 0) return;
    uint32_t best = 0;
    for (uint32_t i = 1; i < p->count; i++) {
        int better = rank_as_run(&p->loops[i], to_card, &p->convert) -
                     rank_as_run(&p->loops[best], to_card, &p->convert);
        if (better > 0 || (better == 0 && p->loops[i].size > p->loops[best].size)) best = i;
    }
    p->run = p->loops[best];
    remove_loop(p, best);
}

static int64_t step(const loop *l, bool of_target)
{
    return of_target ? l->target_step : l->source_step;
}

// Large steps outermost: on the side that is written, or on the card's for runs along the host
// only.
static void sort_loops(plan *p, bool to_card)
{
    bool by_target = to_card || is_contiguous(p);
    for (uint32_t i = 1; i < p->count; i++) {
        loop moved = p->loops[i];
        uint32_t at = i;
        for (; at > 0 && step(&p->loops[at - 1], by_target) < step(&moved, by_target); at--)
            p->loops[at] = p->loops[at - 1];
        p->loops[at] = moved;
    }
}

// Walks `divided` in blocks: the loop over blocks is loops[at], the loop inside a block goes to
// *slot, and what does not fill a block is a second walk.
static void walk_blocks(plan *p, uint32_t at, loop *slot, loop divided, int64_t block,
                        char *target, const char *source)
{
    int64_t whole = divided.size / block;
    p->loops[at] = (loop){.size = whole,
                          .target_step = divided.target_step * block,
                          .source_step = divided.source_step * block};
    *slot = divided;
    slot->size = block;
    walk(p, 0, target, source);
    slot->size = divided.size % block;
    if (!slot->size) return;
    target += whole * p->loops[at].target_step;
    source += whole * p->loops[at].source_step;
    p->loops[at].size = 1;
    walk(p, 0, target, source);
}

// Runs along both sides. The loop with the smallest target step is divided, so that a block of runs
// is written in its order, and blocks follow one another along the source's (`along`).
static void walk_runs(plan *p, char *target, const char *source)
{
    uint32_t last = p->count - 1, along = 0;
    for (uint32_t i = 1; i <= last; i++) {
        if (p->loops[i].source_step < p->loops[along].source_step) along = i;
    }
    if (along == last) {
        walk(p, 0, target, source);
        return;
    }
    loop divided = p->loops[last], outer = p->loops[along];
    remove_loop(p, last);
    remove_loop(p, along);
    uint32_t blocks = p->count;
    p->count += 3;
    p->loops[blocks + 1] = outer;
    walk_blocks(p, blocks, &p->loops[blocks + 2], divided, p->streams ? STREAMED_RUNS : CACHED_RUNS,
                target, source);
}

// Runs along the host only; the last loop steps through the lanes of a stick.
static void walk_lanes(plan *p, char *target, const char *source)
{
    loop lanes = p->loops[p->count - 1];
    uint32_t blocks = p->count - 1;
    p->count++;
    p->loops[blocks + 1] = lanes;
    walk_blocks(p, blocks, &p->run, p->run, BLOCK, target, source);
}

// Whole lines, and more of them than the caches of a core hold.
static bool may_stream(const plan *p, const char *target)
{
    int64_t bytes = p->run.size * p->convert.target_bytes;
    int64_t places = (int64_t)(uintptr_t)target | bytes;
    for (uint32_t i = 0; i < p->count; i++) {
        places |= p->loops[i].target_step;
        bytes *= p->loops[i].size;
    }
    return is_contiguous(p) && places % LINE_BYTES == 0 && bytes >= STREAMED_BYTES;
}

static void run_plan(plan *p, bool to_card, char *target, const char *source)
{
    while (join_once(p)) continue;
    take_run(p, to_card);
    sort_loops(p, to_card);
    p->streams = may_stream(p, target);
    const loop *last = p->count ? &p->loops[p->count - 1] : NULL;
    if (is_contiguous(p) && p->count >= 2)
        walk_runs(p, target, source);
    else if (!is_contiguous(p) && last && is_tight(last, false, to_card, &p->convert))
        walk_lanes(p, target, source);
    else
        walk(p, 0, target, source);
    if (p->streams) convert_stream_end();
}

static void run_copy(const dci_copy *copy, const converter *convert, bool to_card, char *target,
                     const char *source)
{
    plan p = {.convert = *convert};
    for (uint32_t i = copy->rank; i-- > 0;) {
        if (copy->size[i] == 0) return;
        if (copy->size[i] == 1) continue;
        int64_t to = to_card ? copy->card_stride[i] : copy->host_stride[i];
        int64_t from = to_card ? copy->host_stride[i] : copy->card_stride[i];
        p.loops[p.count++] = (loop){.size = copy->size[i],
                                    .target_step = to * convert->target_bytes,
                                    .source_step = from * convert->source_bytes};
    }
    int64_t to = to_card ? copy->card_offset : copy->host_offset;
    int64_t from = to_card ? copy->host_offset : copy->card_offset;
    run_plan(&p, to_card, target + to * convert->target_bytes,
             source + from * convert->source_bytes);
}

spyre_status dci_to_card(const dci *transfer, void *card, const void *host)
{
    return dci_to_card_watched(transfer, card, host, NULL);
}

spyre_status dci_to_card_watched(const dci *transfer, void *card, const void *host,
                                 bool *out_wrapped)
{
    converter convert;
    TRY(converter_find(transfer->card_format, transfer->host_format, &convert));
    if (out_wrapped) converter_watch(&convert, out_wrapped);
    for (uint32_t i = 0; i < transfer->copy_count; i++)
        run_copy(&transfer->copies[i], &convert, true, card, host);
    return NULL;
}

spyre_status dci_to_host(const dci *transfer, void *host, const void *card)
{
    converter convert;
    TRY(converter_find(transfer->host_format, transfer->card_format, &convert));
    for (uint32_t i = 0; i < transfer->copy_count; i++)
        run_copy(&transfer->copies[i], &convert, false, host, card);
    return NULL;
}
