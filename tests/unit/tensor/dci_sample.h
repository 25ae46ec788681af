// SPDX-License-Identifier: Apache-2.0
//
// Random tensors in random layouts, for tests of transfers.
#ifndef TESTS_DCI_SAMPLE_H
#define TESTS_DCI_SAMPLE_H

#include "unit/check.h"

#include "tensor/dci.h"
#include "tensor/numeric.h"

enum { GUARD = 0xA5, LARGEST_SAMPLE = 8000 };

static inline spyre_view dense_view(const int64_t *size, uint32_t rank)
{
    spyre_view view = {.rank = rank};
    int64_t step = 1;
    for (uint32_t i = rank; i-- > 0;) {
        view.size[i] = size[i];
        view.stride[i] = step;
        step *= size[i];
    }
    return view;
}

static inline int64_t count_elements(const spyre_view *view)
{
    int64_t count = 1;
    for (uint32_t i = 0; i < view->rank; i++) count *= view->size[i];
    return count;
}

typedef struct {
    spyre_view host;            // the dense storage
    spyre_layout layout;
    spyre_dtype dtype;
} sample;

static inline bool next_index(const spyre_view *view, int64_t *index)
{
    for (uint32_t i = view->rank; i-- > 0;) {
        if (++index[i] < view->size[i]) return true;
        index[i] = 0;
    }
    return false;
}

static inline int64_t host_position(const spyre_view *view, const int64_t *index)
{
    int64_t at = view->offset;
    for (uint32_t i = 0; i < view->rank; i++) at += index[i] * view->stride[i];
    return at;
}

// Where the transfer takes each element of the host tensor, in elements of the card.
static inline int64_t *card_places(arena *memory, const sample *s)
{
    dci transfer;
    int64_t *places = ARENA_NEW(memory, int64_t, (size_t)count_elements(&s->host) + 1);
    assert_ok(dci_build(memory, &s->host, &s->layout, s->dtype, &transfer));
    for (uint32_t n = 0; n < transfer.copy_count; n++) {
        const dci_copy *copy = &transfer.copies[n];
        int64_t index[SPYRE_MAX_DEVICE_RANK] = {0};
        for (uint32_t at = 0; at < copy->rank;) {
            int64_t host = copy->host_offset, card = copy->card_offset;
            for (uint32_t i = 0; i < copy->rank; i++) {
                host += index[i] * copy->host_stride[i];
                card += index[i] * copy->card_stride[i];
            }
            places[host] = card;
            for (at = 0; at < copy->rank && ++index[at] == copy->size[at]; at++) index[at] = 0;
        }
    }
    return places;
}

// Host bytes such that the card gives them back unchanged: fp16 and bf16 of few bits, 0 and 1 for
// truth values, integers that fit 32 bits, fp32 as it is.
static inline void fill_host(spyre_dtype dtype, void *bytes, int64_t count, uint64_t *seed)
{
    uint32_t size = spyre_dtype_bytes(dtype);
    for (int64_t i = 0; i < count; i++) {
        uint64_t value = check_random(seed);
        if (dtype == SPYRE_DTYPE_F16) value = fp16_from_float((float)(value % 1024));
        if (dtype == SPYRE_DTYPE_BF16) value = bf16_from_float((float)(value % 128));
        if (dtype == SPYRE_DTYPE_BOOL) value &= 1;
        if (dtype == SPYRE_DTYPE_I64) value = (uint64_t)(int64_t)(int32_t)value;
        memcpy((char *)bytes + i * size, &value, size);
    }
}

static inline int64_t random_size(uint64_t *seed, uint32_t rank)
{
    static const int64_t likely[] = {1, 2, 3, 5, 31, 32, 33, 63, 64, 65, 128, 150, 200};
    uint64_t choice = check_random(seed);
    return likely[choice % (rank > 4 ? 4 : rank > 2 ? 9 : 13)];
}

static inline void shuffle(int32_t *order, uint32_t count, uint64_t *seed)
{
    for (uint32_t i = count; i > 1; i--) {
        uint32_t j = (uint32_t)(check_random(seed) % i);
        int32_t moved = order[i - 1];
        order[i - 1] = order[j];
        order[j] = moved;
    }
}

// A random dense tensor (its strides in any order) in a random layout; returns the order's length.
static inline uint32_t make_sample(sample *s, int32_t *order, uint64_t *seed)
{
    uint32_t rank = 1 + (uint32_t)(check_random(seed) % 5);
    int32_t memory_order[SPYRE_MAX_RANK];
    *s = (sample){.host.rank = rank};
    do {
        for (uint32_t i = 0; i < rank; i++) {
            s->host.size[i] = random_size(seed, rank);
            order[i] = memory_order[i] = (int32_t)i;
        }
    } while (count_elements(&s->host) > LARGEST_SAMPLE);
    shuffle(order, rank, seed);
    if (check_random(seed) % 3 == 0) shuffle(memory_order, rank, seed);
    int64_t step = 1;
    for (uint32_t i = rank; i-- > 0;) {
        s->host.stride[memory_order[i]] = step;
        step *= s->host.size[memory_order[i]];
    }
    do {
        s->dtype = (spyre_dtype)(check_random(seed) % SPYRE_DTYPE_COUNT);
    } while (s->dtype == SPYRE_DTYPE_F64);
    uint32_t order_count = rank;
    if (check_random(seed) % 4 == 0) order[order_count++] = -1;
    assert_ok(spyre_layout_ordered(s->host.size, s->host.stride, rank, s->dtype, order,
                                   order_count, &s->layout));
    return order_count;
}

#endif
