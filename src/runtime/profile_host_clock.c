// SPDX-License-Identifier: Apache-2.0
//
// Times of the card on the host's clock. The virtual clock knows no host time, so records of a card
// are shifted, in the order of the virtual clock, by an amount that only grows: whenever work would
// begin before the host handed it over, and by what a record is shorter than traces can show.
#include <math.h>
#include <stdlib.h>

#include "base/status.h"
#include "spyre/profile.h"

static const double LEAST_US = 1e-3;    // traces have nanoseconds

static int by_card_and_begin(const void *a, const void *b)
{
    const spyre_activity *x = *(spyre_activity *const *)a, *y = *(spyre_activity *const *)b;
    if (x->card != y->card) return x->card < y->card ? -1 : 1;
    if (x->card_begin_us != y->card_begin_us) return x->card_begin_us < y->card_begin_us ? -1 : 1;
    if (x->correlation != y->correlation) return x->correlation < y->correlation ? -1 : 1;
    // A launch, and its kernels, of which the first may take no time.
    if (x->kind != y->kind) return x->kind < y->kind ? -1 : 1;
    return x->card_end_us < y->card_end_us ? -1 : x->card_end_us > y->card_end_us;
}

static void shift(spyre_activity **records, uint32_t count)
{
    double shift_us = -INFINITY;
    for (uint32_t n = 0; n < count; n++) {
        spyre_activity *r = records[n];
        if (n > 0 && records[n - 1]->card != r->card) shift_us = -INFINITY;
        double needed_us = r->submitted_us - r->card_begin_us;
        if (needed_us > shift_us) shift_us = needed_us;
        r->placed_begin_us = r->card_begin_us + shift_us;
        r->placed_end_us = r->card_end_us + shift_us;
        double missing_us = LEAST_US - (r->card_end_us - r->card_begin_us);
        if (missing_us <= 0) continue;
        r->placed_end_us += missing_us;
        shift_us += missing_us;
    }
}

spyre_status spyre_profile_place(spyre_activity *records, uint32_t count)
{
    spyre_activity **order = calloc(count ? count : 1, sizeof *order);
    TRY_ALLOC(order);
    uint32_t placed = 0;
    for (uint32_t n = 0; n < count; n++) {
        spyre_activity *r = &records[n];
        if (!r->submission) order[placed++] = r;
        r->placed_begin_us = r->host_begin_us;
        r->placed_end_us = r->host_end_us;
    }
    qsort(order, placed, sizeof *order, by_card_and_begin);
    shift(order, placed);
    free(order);
    return NULL;
}
