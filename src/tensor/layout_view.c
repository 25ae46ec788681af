// SPDX-License-Identifier: Apache-2.0
//
// Where a view begins on the card, and where its elements are. An offset on the host is a number
// whose digits are indices: of the host's dims, with their strides as places, and again of the
// device dims. The card's offset is a sum over digits, so that views from two places differ by one
// distance on the card if no addition of a place and an offset inside of the view carries from one
// digit into the next.
#include <stdlib.h>

#include "base/odometer.h"
#include "base/status.h"
#include "spyre/layout.h"

typedef struct {
    int64_t size, stride;           // host elements
    int64_t pitch_bytes;            // on the card; 0 for dims of the host
    int64_t digit;                  // where the view begins
} place;

typedef struct {
    uint32_t count;
    place items[SPYRE_MAX_DEVICE_RANK];     // by descending stride
} places;

static int descending(const void *a, const void *b)
{
    int64_t left = ((const place *)a)->stride, right = ((const place *)b)->stride;
    return (left < right) - (left > right);
}

static places places_of_host(const spyre_view *dense)
{
    places p = {0};
    for (uint32_t i = 0; i < dense->rank; i++)
        if (dense->size[i] > 1)
            p.items[p.count++] = (place){dense->size[i], dense->stride[i], 0, 0};
    qsort(p.items, p.count, sizeof *p.items, descending);
    return p;
}

static places places_of_card(const spyre_layout *layout)
{
    places p = {0};
    int64_t pitch_bytes = 0;        // of lanes, where no view may begin
    for (uint32_t d = layout->rank; d-- > 0;) {
        if (layout->device_size[d] > 1 && layout->stride_map[d] > 0)
            p.items[p.count++] =
                (place){layout->device_size[d], layout->stride_map[d], pitch_bytes, 0};
        pitch_bytes = d + 1 == layout->rank ? SPYRE_STICK_BYTES
                                            : pitch_bytes * layout->device_size[d];
    }
    qsort(p.items, p.count, sizeof *p.items, descending);
    return p;
}

// False when the offset is no place of the tensor.
static bool split(places *p, int64_t offset)
{
    for (uint32_t k = 0; k < p->count; k++) {
        place *own = &p->items[k];
        own->digit = offset / own->stride;
        offset %= own->stride;
        if (own->digit >= own->size) return false;
    }
    return offset == 0;
}

// At most, of offsets inside of the view. Steps that are multiples of a higher place's stride leave
// the digit 0.
static int64_t largest_digit(const places *p, uint32_t at, const spyre_view *view)
{
    int64_t reach = 0, step;
    for (uint32_t i = 0; i < view->rank; i++) {
        uint32_t k = 0;
        while (k < at && view->stride[i] % p->items[k].stride) k++;
        if (k < at) continue;
        if (__builtin_mul_overflow(view->size[i] - 1, view->stride[i], &step) ||
            __builtin_add_overflow(reach, step, &reach))
            return p->items[at].size - 1;
    }
    int64_t digit = reach / p->items[at].stride;
    return digit < p->items[at].size ? digit : p->items[at].size - 1;
}

static bool carries(const places *p, const spyre_view *view)
{
    for (uint32_t k = 0; k < p->count; k++)
        if (p->items[k].digit + largest_digit(p, k, view) >= p->items[k].size) return true;
    return false;
}

spyre_status spyre_layout_view_begin(const spyre_layout *layout, const spyre_view *dense,
                                     const spyre_view *view, int64_t *out_bytes)
{
    places host = places_of_host(dense), card = places_of_card(layout);
    *out_bytes = 0;
    if (view->offset == 0) return NULL;
    if (!split(&host, view->offset) || !split(&card, view->offset))
        return status_new(SPYRE_UNSUPPORTED, "which is no place of the tensor");
    for (uint32_t k = 0; k < card.count; k++) {
        const place *own = &card.items[k];
        if (own->digit && !own->pitch_bytes)
            return status_new(SPYRE_UNSUPPORTED, "which is element %lld of a stick",
                              (long long)own->digit);
        *out_bytes += own->digit * own->pitch_bytes;
    }
    if (!carries(&host, view) && !carries(&card, view)) return NULL;
    return status_new(SPYRE_UNSUPPORTED, "and goes on behind the end of a dim of it");
}

// --- Runs

// The dims of host and card that move along a stick.
typedef struct {
    places host, card;
    int64_t step, lanes, element_bytes;     // step: 0 where a stick has a single element
    spyre_layout_run *runs;                 // or null
    spyre_layout_runs all;
} run_search;

// The digit of a host offset along the step of the lanes, or 0 where the host has no such dim, and
// how many elements of the dim are left from there.
static int64_t left_of_dim(const run_search *s)
{
    for (uint32_t k = 0; k < s->host.count; k++)
        if (s->host.items[k].stride == s->step)
            return s->host.items[k].size - s->host.items[k].digit;
    return s->step ? INT64_MAX : 1;
}

static int64_t place_on_card(const run_search *s, int64_t *out_lane)
{
    int64_t start = 0;
    *out_lane = 0;
    for (uint32_t k = 0; k < s->card.count; k++) {
        const place *own = &s->card.items[k];
        start += own->digit * own->pitch_bytes;
        if (!own->pitch_bytes) *out_lane = own->digit;
    }
    return start;
}

// The run that begins at a host offset, of at most `most` elements, how many it has, or 0.
static int64_t add_run(run_search *s, int64_t offset, int64_t most)
{
    int64_t lane;
    if (!split(&s->host, offset) || !split(&s->card, offset)) return 0;
    int64_t start = place_on_card(s, &lane), left = left_of_dim(s), count = most;
    if (count > s->lanes - lane) count = s->lanes - lane;
    if (count > left) count = left;
    int64_t first = lane * s->element_bytes;
    int64_t bytes = count == left ? SPYRE_STICK_BYTES - first : count * s->element_bytes;
    if (s->runs) s->runs[s->all.count] = (spyre_layout_run){start + first, bytes};
    s->all.count++;
    s->all.bytes += bytes;
    s->all.whole = s->all.whole && bytes == SPYRE_STICK_BYTES;
    return count;
}

static spyre_status add_runs(run_search *s, const spyre_view *view)
{
    int64_t index[SPYRE_MAX_RANK] = {0}, extent[SPYRE_MAX_RANK], size = 1, count;
    bool found = false;
    for (uint32_t d = 0; d < view->rank; d++) {
        if (view->size[d] < 1) return NULL;
        bool along = !found && s->step && view->stride[d] == s->step;
        found = found || along;
        size = along ? view->size[d] : size;
        extent[d] = along ? 1 : view->size[d];
    }
    odometer_place run = {view->stride, view->offset};
    do {
        for (int64_t at = 0; at < size; at += count) {
            count = add_run(s, run.at + at * s->step, size - at);
            if (!count)
                return status_new(SPYRE_UNSUPPORTED, "element %lld is no place of the tensor",
                                  (long long)(run.at + at * s->step));
        }
    } while (odometer_next(view->rank, extent, index, &run, 1));
    return NULL;
}

spyre_status spyre_layout_view_runs(const spyre_layout *layout, const spyre_view *dense,
                                    const spyre_view *view, spyre_layout_run *runs,
                                    spyre_layout_runs *out)
{
    uint32_t last = layout->rank - 1;
    int64_t step = layout->stride_map[last];
    run_search s = {.host = places_of_host(dense), .card = places_of_card(layout),
                    .step = step > 0 && layout->device_size[last] > 1 ? step : 0,
                    .lanes = layout->device_size[last],
                    .element_bytes = spyre_format_bytes(layout->format), .runs = runs,
                    .all.whole = true};
    for (uint32_t d = 0; d < layout->rank; d++)
        if (layout->stride_map[d] == 0 && layout->device_size[d] > 1)
            return status_new(SPYRE_UNSUPPORTED, "its elements are on the card several times");
    if (!s.element_bytes)
        return status_new(SPYRE_UNSUPPORTED, "its elements are parts of bytes");
    TRY(add_runs(&s, view));
    *out = s.all;
    return NULL;
}
