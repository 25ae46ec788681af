// SPDX-License-Identifier: Apache-2.0
//
// RANK in runs along the last dim, whose candidates' values are ordered as integers first. A run
// either enters one ranking, or each of its elements one of its own.
#include "card/tile/runs.h"
#include "tensor/rank.h"

typedef struct {
    const isa_instruction *i;
    uint32_t ranks, last; // entries of a ranking; the dim of the runs
    int64_t apart;        // bytes from an entry to the next
} ranking;

static void load_values(const ranking *r, const uint8_t *from, size_t count, int32_t *out)
{
    const isa_operand *operand = &r->i->operand[1];
    int64_t stride = operand->stride[r->last];
    if (operand->format == SPYRE_FORMAT_IEEE_INT32) {
        for (size_t n = 0; n < count; n++) memcpy(&out[n], from + (int64_t)n * stride, sizeof *out);
        return;
    }
    float values[LANES_CHUNK];
    lanes_load_f32(values, from, stride, operand->format, count);
    for (size_t n = 0; n < count; n++) out[n] = rank_of_float(values[n]);
}

// What is not above the last entry's value is behind it, for it comes later.
static void enter_one(const ranking *r, uint8_t *entries, const int32_t *values, size_t count,
                      uint32_t position)
{
    const uint8_t *last = entries + (int64_t)(r->ranks - 1) * r->apart;
    int64_t least = rank_at(last);
    for (size_t n = 0; n < count; n++) {
        if (values[n] < rank_value(least)) continue;
        int64_t entry = rank_entry(values[n], position + (uint32_t)n);
        if (entry <= least) continue;
        rank_insert(entries, r->apart, r->ranks, entry);
        least = rank_at(last);
    }
}

static void enter_each(const ranking *r, uint8_t *entries, const int32_t *values, size_t count,
                       uint32_t position)
{
    int64_t stride = r->i->operand[0].stride[r->last], tail = (int64_t)(r->ranks - 1) * r->apart;
    for (size_t n = 0; n < count; n++) {
        uint8_t *first = entries + (int64_t)n * stride;
        int64_t entry = rank_entry(values[n], position);
        if (entry > rank_at(first + tail)) rank_insert(first, r->apart, r->ranks, entry);
    }
}

static void enter_run(const ranking *r, uint8_t *entries, const uint8_t *from, uint32_t position)
{
    bool one = r->i->operand[0].stride[r->last] == 0;
    int64_t length = r->i->extent[r->last];
    for (int64_t done = 0; done < length; done += LANES_CHUNK) {
        int32_t values[LANES_CHUNK];
        size_t count = chunk_length(length - done);
        load_values(r, from + done * r->i->operand[1].stride[r->last], count, values);
        uint8_t *to = entries + done * r->i->operand[0].stride[r->last];
        if (one) enter_one(r, to, values, count, position + (uint32_t)done);
        else enter_each(r, to, values, count, position);
    }
}

void tile_rank(const plan_tile *tile, uint8_t *const *address, plan_scratch *scratch)
{
    const isa_instruction *i = tile->instruction;
    ranking r = {i, i->extent[0], i->dim_count - 1u, i->operand[0].stride[0]};
    bool floats = i->operand[1].format != SPYRE_FORMAT_IEEE_INT32;
    if (r.last == 0 || (floats && !lanes_fits_f32(i->operand[1].format)) ||
        !runs_disjoint(tile, address, 0, 1) || !runs_disjoint(tile, address, 0, 2)) {
        exact_run(tile, address, scratch);
        return;
    }
    uint32_t first, index[ISA_MAX_DIMS] = {0};
    memcpy(&first, address[2], sizeof first);
    for (;;) {
        uint32_t number = 0;
        uint8_t *entries = address[0], *from = address[1];
        for (uint32_t d = 1; d <= r.last; d++) {
            entries += index[d] * i->operand[0].stride[d];
            from += index[d] * i->operand[1].stride[d];
            if (i->operand[0].stride[d] == 0) number = number * i->extent[d] + index[d];
        }
        enter_run(&r, entries, from, first + number);
        uint32_t d = r.last - 1;
        while (d > 0 && ++index[d] == i->extent[d]) index[d--] = 0;
        if (d == 0) return;
    }
}
