// SPDX-License-Identifier: Apache-2.0
//
// The bounds of a storage's integers, smallest and largest, read in the card's memory: a copy to
// the host would move twice the bytes and widen them. A storage is blocks of sticks; the last
// sticks of each are those of the end of the dim that lies along sticks, and only their first
// elements count:
//
//     [33 elements, 2 rows]: layout [2 chunks, 2 rows, 32]
//     sticks  0..31 of row 0 | 0..31 of row 1 | 32 of row 0 | 32 of row 1       tail 2, rest 1
#include "base/target_clones.h"
#include "runtime/device.h"

enum { LANES = SPYRE_STICK_BYTES / 4 };

typedef struct {
    int64_t count, block, tail, rest;   // sticks, of a block, at its end; elements of those
} stick_run;

// As unsigned, too: the least of those is 0 when one element is.
typedef struct {
    int32_t least, most;
    uint32_t least_unsigned;
} found_range;

typedef struct {
    task base;
    uint64_t address;
    const int32_t *elements;
    stick_run sticks;
    pool *workers;
    found_range found[THREAD_LARGEST_COUNT]; // by part
} range_task;

static const found_range NOTHING = {INT32_MAX, INT32_MIN, UINT32_MAX};

BASE_CLONES static found_range range_of_run(const int32_t *e, int64_t count)
{
    int32_t least = INT32_MAX, most = INT32_MIN;
    uint32_t least_unsigned = UINT32_MAX;
    for (int64_t i = 0; i < count; i++) {
        least = e[i] < least ? e[i] : least;
        most = e[i] > most ? e[i] : most;
        least_unsigned = (uint32_t)e[i] < least_unsigned ? (uint32_t)e[i] : least_unsigned;
    }
    return (found_range){least, most, least_unsigned};
}

static void include(found_range *all, found_range more)
{
    if (more.least < all->least) all->least = more.least;
    if (more.most > all->most) all->most = more.most;
    if (more.least_unsigned < all->least_unsigned) all->least_unsigned = more.least_unsigned;
}

static found_range range_of_sticks(const range_task *self, int64_t from, int64_t to)
{
    const stick_run *sticks = &self->sticks;
    found_range all = NOTHING;
    for (int64_t s = from; s < to;) {
        int64_t whole = sticks->block - sticks->tail - s % sticks->block;
        int64_t run = whole <= 0 ? 1 : whole < to - s ? whole : to - s;
        include(&all, range_of_run(self->elements + s * LANES,
                                   whole > 0 ? run * LANES : sticks->rest));
        s += run;
    }
    return all;
}

static void find_part(void *context, size_t index, uint32_t worker)
{
    (void)worker;
    range_task *self = context;
    int64_t parts = self->workers ? pool_threads(self->workers) : 1, part = (int64_t)index;
    self->found[index] = range_of_sticks(self, self->sticks.count * part / parts,
                                         self->sticks.count * (part + 1) / parts);
}

static spyre_status prepare_range(device *d, task *t)
{
    return memory_claim(d, t, ((const range_task *)(const void *)t)->address, t->bytes, true);
}

static spyre_status run_range(device *d, task *t)
{
    (void)d;
    range_task *self = (range_task *)(void *)t;
    uint32_t parts = self->workers ? pool_threads(self->workers) : 1;
    if (self->workers) pool_run(self->workers, parts, find_part, self);
    else find_part(self, 0, 0);
    for (uint32_t i = 1; i < parts; i++) include(&self->found[0], self->found[i]);
    return NULL;
}

// The elements of the host's dim of a stride.
static int64_t size_of_stride(const spyre_view *dense, int64_t stride)
{
    for (uint32_t d = 0; d < dense->rank; d++)
        if (dense->stride[d] == stride && dense->size[d] > 1) return dense->size[d];
    return 1;
}

// False for layouts with other gaps, and of other formats.
static bool find_sticks(const spyre_layout *l, const spyre_view *dense, stick_run *out)
{
    uint32_t last = l->rank - 1;
    int64_t along = l->stride_map[last], size = size_of_stride(dense, along);
    int64_t chunks = (size + LANES - 1) / LANES, inner = 1, numel = 1;
    if (l->format != SPYRE_FORMAT_IEEE_INT32 || l->device_size[last] != LANES) return false;
    *out = (stick_run){.count = 1, .block = 0, .rest = size % LANES};
    for (uint32_t i = last; i-- > 0;) {
        bool holds = l->device_size[i] == chunks &&
                     (chunks == 1 || l->stride_map[i] == along * LANES);
        if (!out->block && holds) out->block = chunks * inner, out->tail = out->rest ? inner : 0;
        inner *= l->device_size[i];
    }
    out->count = inner;
    for (uint32_t d = 0; d < dense->rank; d++) numel *= dense->size[d];
    return out->block && out->count / chunks * size == numel;
}

spyre_status spyre_read_integer_range(spyre_context *context, const spyre_transfer *storage,
                                      spyre_integer_range *out_range)
{
    device *d;
    range_task self = {.address = storage->address};
    TRY(spyre_layout_check(storage->layout));
    if (!find_sticks(storage->layout, storage->storage, &self.sticks))
        return status_new(SPYRE_UNSUPPORTED, "integer range: %s, or a layout with gaps",
                          spyre_format_name(storage->layout->format));
    TRY(device_of(context, storage->card, storage->stream, &d));
    int64_t bytes = spyre_layout_bytes(storage->layout);
    TRY(copy_threads_for(&context->copy_threads, bytes, &self.workers));
    self.elements = card_memory(d->machine, self.address, (uint64_t)bytes);
    self.base.prepare = prepare_range;
    self.base.run = run_range;
    self.base.waits = true;
    self.base.recorded = true;
    self.base.kind = SPYRE_ACTIVITY_COPY_TO_HOST;
    self.base.resource = CLOCK_TO_HOST;
    self.base.bytes = bytes;
    self.base.card_us = transfer_us(bytes);
    TRY(status_at(device_submit(d, storage->stream, &self.base, true), "integer range"));
    const found_range *found = &self.found[0];
    *out_range = (spyre_integer_range){found->least, found->most, found->least_unsigned == 0};
    return NULL;
}
