// SPDX-License-Identifier: Apache-2.0
//
// Building and running copies between laid-out views. An offset on the host is a number whose
// digits are indices of the device dims, with the dims' strides as places (layout_view.c). A loop
// of a view counts one digit up, in steps; where it would carry into the next digit, on either
// side, it is cut, into what comes before the carry, whole turns of the digit (a loop in a loop),
// and a rest:
//
//     67 columns from lane 61 on -> from lane 0 on:
//     [3] from lane 61 to lane 0, [61] from lane 0 of the next stick to lane 3, [3] to the next one
//
// At last every nest is looked at once more: if no sum of lower digits reaches the place of a
// higher one, every element is where the digits say.
#include "tensor/card_copy.h"

#include <string.h>

#include "base/target_clones.h"

enum { TARGET, SOURCE, SIDES };

typedef struct {
    int64_t size, stride, pitch;                // indices; host elements; bytes on the card
} digit;

typedef struct {
    uint32_t count;
    digit of[SPYRE_MAX_DEVICE_RANK];            // by descending stride
} digits;

typedef struct {
    digits side[SIDES];
    card_copy *out;
    uint32_t element_bytes;
} builder;

// A nest in host elements, on its way to one in bytes.
typedef struct {
    uint32_t loops;
    card_loop loop[CARD_COPY_LOOPS];            // steps in elements
    int64_t offset[SIDES];
} walk;

// --- Digits

static void insert_digit(digits *all, digit own)
{
    uint32_t at = all->count++;
    for (; at > 0 && all->of[at - 1].stride < own.stride; at--) all->of[at] = all->of[at - 1];
    all->of[at] = own;
}

// False for elements that lie in several places.
static bool find_digits(const spyre_layout *layout, digits *out)
{
    int64_t pitch = spyre_format_bytes(layout->format);
    *out = (digits){.count = 0};
    for (uint32_t d = layout->rank; d-- > 0;) {
        int64_t size = layout->device_size[d], stride = layout->stride_map[d];
        if (size > 1 && stride == 0) return false;
        if (size > 1 && stride > 0) insert_digit(out, (digit){size, stride, pitch});
        pitch = d + 1 == layout->rank ? SPYRE_STICK_BYTES : pitch * size;
    }
    for (uint32_t k = 1; k < out->count; k++)
        if (out->of[k].stride == out->of[k - 1].stride) return false;
    return true;
}

// The digit that a step counts up; false when it counts none in whole steps.
static bool digit_of(const digits *all, int64_t step, uint32_t *out)
{
    for (*out = 0; *out < all->count; ++*out)
        if (all->of[*out].stride <= step) return step % all->of[*out].stride == 0;
    return false;
}

static bool split_offset(const digits *all, int64_t offset, int64_t *out)
{
    for (uint32_t k = 0; k < all->count; k++) {
        out[k] = offset / all->of[k].stride;
        offset %= all->of[k].stride;
    }
    return offset == 0;
}

// So many steps turn the digit once.
static int64_t turn_of(const digits *all, uint32_t k)
{
    int64_t size = all->of[k].size;
    if (k == 0 || all->of[k - 1].stride % all->of[k].stride) return size;
    int64_t most = all->of[k - 1].stride / all->of[k].stride;
    return most < size ? most : size;
}

// --- One side of a nest

typedef struct {
    int64_t first[SPYRE_MAX_DEVICE_RANK], last[SPYRE_MAX_DEVICE_RANK];  // digits
    uint32_t digit[CARD_COPY_LOOPS];
} reach;

static bool find_reach(const digits *all, const walk *w, int side, reach *out)
{
    if (!split_offset(all, w->offset[side], out->first)) return false;
    memcpy(out->last, out->first, sizeof out->last);
    for (uint32_t l = 0; l < w->loops; l++) {
        int64_t step = w->loop[l].step[side];
        if (step == 0) continue;
        if (!digit_of(all, step, &out->digit[l])) return false;
        uint32_t k = out->digit[l];
        out->last[k] += (w->loop[l].size - 1) * (step / all->of[k].stride);
    }
    return true;
}

// No sum of lower digits reaches the place of a higher one.
static bool carries_nowhere(const digits *all, const reach *r)
{
    int64_t sum = 0;
    for (uint32_t k = all->count; k-- > 0;) {
        sum += r->last[k] * all->of[k].stride;
        if (r->last[k] >= all->of[k].size || (k > 0 && sum >= all->of[k - 1].stride)) return false;
    }
    return true;
}

// --- Cutting

static bool add_walk(builder *b, walk w, uint32_t depth);

static bool add_cut(builder *b, const walk *w, uint32_t loop, int64_t from, int64_t count,
                    uint32_t depth)
{
    walk part = *w;
    if (count == 0) return true;
    part.loop[loop].size = count;
    for (int side = 0; side < SIDES; side++) part.offset[side] += from * w->loop[loop].step[side];
    return add_walk(b, part, depth + 1);
}

// Whole turns, a loop around one turn.
static bool add_turns(builder *b, const walk *w, uint32_t loop, int64_t turns, int64_t steps,
                      uint32_t depth)
{
    walk whole = *w;
    if (turns == 0) return true;
    if (turns > 1 && whole.loops == CARD_COPY_LOOPS) return false;
    whole.loop[loop].size = steps;
    if (turns > 1) {
        card_loop *outer = &whole.loop[whole.loops++];
        outer->size = turns;
        for (int side = 0; side < SIDES; side++)
            outer->step[side] = steps * w->loop[loop].step[side];
    }
    return add_walk(b, whole, depth + 1);
}

// Cuts loop `l`, which carries out of its digit, on one side.
static bool cut(builder *b, const walk *w, uint32_t l, int side, const reach *r, uint32_t depth)
{
    const digits *all = &b->side[side];
    uint32_t k = r->digit[l];
    int64_t turn = turn_of(all, k), step = w->loop[l].step[side] / all->of[k].stride;
    int64_t size = w->loop[l].size, steps = turn / step;
    if (turn % step || r->first[k] >= turn) return false;
    int64_t before = (turn - r->first[k] + step - 1) / step;
    if (r->first[k] >= step)
        return add_cut(b, w, l, 0, before, depth) &&
               add_cut(b, w, l, before, size - before, depth);
    int64_t whole = size / steps;
    return add_turns(b, w, l, whole, steps, depth) &&
           add_cut(b, w, l, whole * steps, size - whole * steps, depth);
}

// The loop that counts a digit beyond its turn by itself, or the number of loops; *out_shared when
// several do together, which are not cut.
static uint32_t find_carry(const digits *all, const walk *w, int side, const reach *r,
                           bool *out_shared)
{
    *out_shared = false;
    for (uint32_t l = 0; l < w->loops; l++) {
        int64_t step = w->loop[l].step[side];
        if (step == 0 || w->loop[l].size == 1) continue;
        uint32_t k = r->digit[l];
        if (r->last[k] < turn_of(all, k)) continue;
        int64_t own = (w->loop[l].size - 1) * (step / all->of[k].stride);
        *out_shared = r->first[k] + own != r->last[k];
        return l;
    }
    return w->loops;
}

static void put_nest(builder *b, const walk *w, const reach *reaches)
{
    card_nest *nest = &b->out->nest[b->out->nests++];
    int64_t bytes = b->element_bytes;
    *nest = (card_nest){.loops = 0};
    for (uint32_t l = 0; l < w->loops; l++) {
        if (w->loop[l].size == 1) continue;
        card_loop *own = &nest->loop[nest->loops++];
        own->size = w->loop[l].size;
        bytes *= own->size;
        for (int side = 0; side < SIDES; side++) {
            const digit *d = &b->side[side].of[reaches[side].digit[l]];
            int64_t step = w->loop[l].step[side];
            own->step[side] = step ? step / d->stride * d->pitch : 0;
        }
    }
    for (int side = 0; side < SIDES; side++)
        for (uint32_t k = 0; k < b->side[side].count; k++)
            nest->start[side] += reaches[side].first[k] * b->side[side].of[k].pitch;
    b->out->bytes += bytes;
}

static bool add_walk(builder *b, walk w, uint32_t depth)
{
    enum { DEEPEST = 16 };
    reach reaches[SIDES];
    memset(reaches, 0, sizeof reaches);
    for (int side = 0; side < SIDES; side++) {
        const digits *all = &b->side[side];
        bool shared;
        if (!find_reach(all, &w, side, &reaches[side])) return false;
        uint32_t l = find_carry(all, &w, side, &reaches[side], &shared);
        if (l == w.loops) continue;
        return !shared && depth < DEEPEST && cut(b, &w, l, side, &reaches[side], depth);
    }
    for (int side = 0; side < SIDES; side++)
        if (!carries_nowhere(&b->side[side], &reaches[side])) return false;
    if (b->out->nests == CARD_COPY_NESTS) return false;
    put_nest(b, &w, reaches);
    return true;
}

// --- Loops in the order of the target

static void remove_loop(card_nest *nest, uint32_t at)
{
    nest->loops--;
    for (; at < nest->loops; at++) nest->loop[at] = nest->loop[at + 1];
}

static void order_loops(card_nest *nest)
{
    for (uint32_t l = 1; l < nest->loops; l++) {
        card_loop own = nest->loop[l];
        uint32_t at = l;
        for (; at > 0 && nest->loop[at - 1].step[TARGET] < own.step[TARGET]; at--)
            nest->loop[at] = nest->loop[at - 1];
        nest->loop[at] = own;
    }
    for (uint32_t l = nest->loops; l-- > 1;) {
        card_loop *outer = &nest->loop[l - 1], *inner = &nest->loop[l];
        if (outer->step[TARGET] != inner->size * inner->step[TARGET] ||
            outer->step[SOURCE] != inner->size * inner->step[SOURCE])
            continue;
        inner->size *= outer->size;
        remove_loop(nest, l - 1);
    }
}

static bool same_sizes(const spyre_view *a, const spyre_view *b)
{
    bool same = a->rank == b->rank;
    for (uint32_t i = 0; same && i < a->rank; i++) same = a->size[i] == b->size[i];
    return same;
}

static bool is_plain(const laid_view *v)
{
    bool plain = v->layout->arrangement == SPYRE_ARRANGEMENT_STANDARD && v->view->offset >= 0 &&
                 v->dense->offset == 0;
    for (uint32_t i = 0; plain && i < v->view->rank; i++)
        plain = v->view->stride[i] >= 0 && v->view->size[i] > 0;
    return plain;
}

bool card_copy_build(const laid_view *target, const laid_view *source, card_copy *out)
{
    const spyre_view *to = target->view, *from = source->view;
    builder b = {.out = out, .element_bytes = spyre_format_bytes(target->layout->format)};
    if (target->layout->format != source->layout->format || !same_sizes(to, from) ||
        !is_plain(target) || !is_plain(source) || !find_digits(target->layout, &b.side[TARGET]) ||
        !find_digits(source->layout, &b.side[SOURCE]))
        return false;
    walk w = {.loops = to->rank, .offset = {to->offset, from->offset}};
    for (uint32_t i = 0; i < to->rank; i++) {
        bool moves = to->size[i] > 1;
        w.loop[i] = (card_loop){to->size[i], {moves ? to->stride[i] : 0,
                                              moves ? from->stride[i] : 0}};
        if (moves && to->stride[i] == 0) return false;
    }
    out->nests = 0;
    out->bytes = 0;
    out->element_bytes = b.element_bytes;
    if (!add_walk(&b, w, 0)) return false;
    for (uint32_t n = 0; n < out->nests; n++) order_loops(&out->nest[n]);
    return true;
}

// --- Running

#define MOVE_ELEMENTS(bytes)                                                  \
    case bytes:                                                               \
        for (int64_t n = 0; n < run->size; n++)                               \
            memcpy(target + n * run->step[TARGET], source + n * run->step[SOURCE], bytes); \
        return;

BASE_CLONES
static void move_run(char *target, const char *source, const card_loop *run, uint32_t bytes)
{
    if (run->step[TARGET] == bytes && run->step[SOURCE] == bytes) {
        memcpy(target, source, (size_t)(run->size * bytes));
        return;
    }
    switch (bytes) {
    MOVE_ELEMENTS(1)
    MOVE_ELEMENTS(2)
    MOVE_ELEMENTS(4)
    MOVE_ELEMENTS(8)
    default: return;
    }
}

static void run_loops(const card_nest *nest, uint32_t level, char *target, const char *source,
                      uint32_t bytes)
{
    const card_loop *own = &nest->loop[level];
    if (level + 1 == nest->loops) {
        move_run(target, source, own, bytes);
        return;
    }
    for (int64_t n = 0; n < own->size; n++)
        run_loops(nest, level + 1, target + n * own->step[TARGET], source + n * own->step[SOURCE],
                  bytes);
}

void card_copy_run(const card_copy *copy, char *target, const char *source, uint32_t index,
                   uint32_t parts)
{
    for (uint32_t n = 0; n < copy->nests; n++) {
        card_nest nest = copy->nest[n];
        char *to = target + nest.start[TARGET];
        const char *from = source + nest.start[SOURCE];
        if (nest.loops == 0) nest.loop[nest.loops++] = (card_loop){.size = 1};
        card_loop *outer = &nest.loop[0];
        int64_t first = outer->size * index / parts, end = outer->size * (index + 1) / parts;
        outer->size = end - first;
        if (outer->size == 0) continue;
        run_loops(&nest, 0, to + first * outer->step[TARGET], from + first * outer->step[SOURCE],
                  copy->element_bytes);
    }
}
