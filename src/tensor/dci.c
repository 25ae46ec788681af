// SPDX-License-Identifier: Apache-2.0
//
// Building the copies of a transfer.
//
// A dense tensor of N elements is the interval 0..N-1 of host offsets, whatever its dims are.
// The device dims, ordered by stride, are digits of a mixed radix number: digit k of size n_k and
// weight s_k. Where n_k * s_k = s_(k+1) the next digit continues exactly. Where n_k * s_k exceeds
// s_(k+1), a host dim ends inside a tile: the digits up to k form a group, and only the coordinates
// whose weighted sum stays below the limit s_(k+1) have an image, the rest is padding. Where it is
// smaller, host elements would be missed. Only the strides count, so host dims that a layout
// flattens or tiles more than once need no cases of their own.
//
// The coordinates below a limit are a union of boxes: those whose top digit is below limit / s_top,
// then with the top digit fixed there those whose next digit is below the remainder's share, and so
// on. A copy is one choice of box in every group. A device dim of stride 0 repeats the host's
// elements: there is a copy for each of its indices.
#include "tensor/dci.h"

#include <stdbool.h>

#include "tensor/convert.h"

typedef struct {
    uint32_t dim;           // device dim
    int64_t size;
    int64_t weight;         // host elements
} digit;

typedef struct {
    uint32_t first;         // digits first..last share a limit
    uint32_t last;
    int64_t limit;
} digit_group;

typedef struct {
    digit digits[SPYRE_MAX_DEVICE_RANK];
    uint32_t digit_count;
    digit_group groups[SPYRE_MAX_DEVICE_RANK];
    uint32_t group_count;
    uint32_t repeated[SPYRE_MAX_DEVICE_RANK];   // device dims of stride 0
    uint32_t repeated_count;
    uint32_t repeats;       // the product of their sizes
} cover;

enum { MOST_REPEATS = 4096 };

#define INVALID_COVER "Invalid device sizes and stride map for host sizes and strides: "

// --- The host tensor

uint32_t dci_sort_dims(const spyre_view *view, uint32_t *dims)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < view->rank; i++) {
        if (view->size[i] == 1) continue;
        uint32_t at = count++;
        for (; at > 0 && view->stride[dims[at - 1]] < view->stride[i]; at--)
            dims[at] = dims[at - 1];
        dims[at] = i;
    }
    return count;
}

static spyre_status count_dense(const spyre_view *storage, int64_t *out_elements)
{
    uint32_t dims[SPYRE_MAX_RANK];
    if (storage->rank > SPYRE_MAX_RANK) {
        return status_new(SPYRE_UNSUPPORTED, "Unsupported tensor rank %u", storage->rank);
    }
    bool empty = false;
    for (uint32_t i = 0; i < storage->rank; i++) {
        if (storage->size[i] < 0) {
            return status_new(SPYRE_INVALID_ARGUMENT, "host size[%u] is %lld", i,
                              (long long)storage->size[i]);
        }
        empty = empty || storage->size[i] == 0;
    }
    *out_elements = 0;
    if (empty) return NULL;
    int64_t elements = 1;
    for (uint32_t k = dci_sort_dims(storage, dims); k-- > 0;) {
        uint32_t i = dims[k];
        if (storage->stride[i] != elements) {
            return status_new(SPYRE_INVALID_ARGUMENT,
                              INVALID_COVER "stride[%u] of the host tensor is %lld, dense is %lld",
                              i, (long long)storage->stride[i], (long long)elements);
        }
        if (__builtin_mul_overflow(elements, storage->size[i], &elements))
            return status_new(SPYRE_INVALID_ARGUMENT, "host tensor has more than 2^63 elements");
    }
    *out_elements = elements;
    return NULL;
}

// --- Digits and groups

static spyre_status sort_digits(const spyre_layout *layout, cover *c)
{
    for (uint32_t dim = 0; dim < layout->rank; dim++) {
        int64_t size = layout->device_size[dim], weight = layout->stride_map[dim];
        if (size == 1 || (weight == -1 && size)) continue;
        if (size == 0) {
            return status_new(SPYRE_INVALID_ARGUMENT,
                              INVALID_COVER "device dim %u has size 0 and stride %lld", dim,
                              (long long)weight);
        }
        if (weight == 0) {
            if (size > MOST_REPEATS / c->repeats)
                return status_new(SPYRE_UNSUPPORTED,
                                  "device dim %u of %lld has stride 0: elements are repeated at "
                                  "most %d times", dim, (long long)size, MOST_REPEATS);
            c->repeats *= (uint32_t)size;
            c->repeated[c->repeated_count++] = dim;
            continue;
        }
        uint32_t at = c->digit_count++;
        for (; at > 0 && c->digits[at - 1].weight > weight; at--) c->digits[at] = c->digits[at - 1];
        c->digits[at] = (digit){.dim = dim, .size = size, .weight = weight};
    }
    return NULL;
}

static spyre_status group_digits(cover *c, int64_t elements)
{
    int64_t covered = 1;
    if (c->digit_count && c->digits[0].weight != 1) covered = 0;
    uint32_t first = 0;
    for (uint32_t k = 0; k < c->digit_count && covered; k++) {
        bool top = k + 1 == c->digit_count;
        const digit *d = &c->digits[k];
        int64_t limit = top ? elements : c->digits[k + 1].weight;
        if (__builtin_mul_overflow(d->size, d->weight, &covered)) covered = INT64_MAX;
        if (covered < limit || limit % c->digits[first].weight != 0) covered = 0;
        if (covered == limit && !top) continue;
        if (!covered) break;
        c->groups[c->group_count++] = (digit_group){.first = first, .last = k, .limit = limit};
        covered = limit;
        first = k + 1;
    }
    if (covered == elements) return NULL;
    return status_new(SPYRE_INVALID_ARGUMENT,
                      INVALID_COVER "they do not cover %lld host elements once each",
                      (long long)elements);
}

// --- Copies

// Box number `which` of a group into the copy; false when there are fewer. Digits of a copy start
// at full size.
static bool apply_box(const cover *c, const digit_group *group, uint32_t which, uint32_t rank,
                      dci_copy *copy)
{
    int64_t rest = group->limit;
    for (uint32_t k = group->last + 1; k-- > group->first && rest;) {
        const digit *d = &c->digits[k];
        uint32_t loop = rank - 1 - d->dim;
        int64_t whole = rest / d->weight;
        rest %= d->weight;
        if (whole && which-- == 0) {
            copy->size[loop] = whole;
            return true;
        }
        copy->size[loop] = 1;
        copy->card_offset += whole * copy->card_stride[loop];
        copy->host_offset += whole * d->weight;
    }
    return false;
}

static dci_copy whole_copy(const spyre_layout *layout, const cover *c, int64_t host_offset)
{
    dci_copy copy = {.rank = layout->rank, .host_offset = host_offset};
    int64_t card_stride = 1;
    for (uint32_t loop = 0; loop < layout->rank; loop++) {
        uint32_t dim = layout->rank - 1 - loop;
        copy.size[loop] = 1;
        copy.host_stride[loop] = layout->stride_map[dim] > 0 ? layout->stride_map[dim] : 1;
        copy.card_stride[loop] = card_stride;
        // A stick is whole even where a layout shows fewer of its elements.
        card_stride *= loop ? layout->device_size[dim]
                            : (int64_t)spyre_format_elements_per_stick(layout->format);
    }
    for (uint32_t k = 0; k < c->digit_count; k++)
        copy.size[layout->rank - 1 - c->digits[k].dim] = c->digits[k].size;
    return copy;
}

// Takes the copy to one of the indices of the repeated dims.
static void repeat(const spyre_layout *layout, const cover *c, uint32_t which, dci_copy *copy)
{
    for (uint32_t r = 0; r < c->repeated_count; r++) {
        uint32_t dim = c->repeated[r], size = (uint32_t)layout->device_size[dim];
        copy->card_offset += which % size * copy->card_stride[layout->rank - 1 - dim];
        which /= size;
    }
}

// Every choice of one box a group, the first group varying fastest, and of one repeat.
static spyre_status make_copies(arena *memory, const spyre_layout *layout, const cover *c,
                                int64_t host_offset, dci *out_dci)
{
    uint32_t boxes[SPYRE_MAX_DEVICE_RANK], total = c->repeats;
    dci_copy whole = whole_copy(layout, c, host_offset);
    for (uint32_t g = 0; g < c->group_count; g++) {
        dci_copy scratch = whole;
        boxes[g] = 0;
        while (apply_box(c, &c->groups[g], boxes[g], layout->rank, &scratch)) {
            boxes[g]++;
            scratch = whole;
        }
        total *= boxes[g];
    }
    out_dci->copies = ARENA_NEW(memory, dci_copy, total);
    TRY_ALLOC(out_dci->copies);
    out_dci->copy_count = total;
    for (uint32_t i = 0; i < total; i++) {
        dci_copy *copy = &out_dci->copies[i];
        *copy = whole;
        uint32_t choice = i;
        for (uint32_t g = 0; g < c->group_count; g++) {
            apply_box(c, &c->groups[g], choice % boxes[g], layout->rank, copy);
            choice /= boxes[g];
        }
        repeat(layout, c, choice, copy);
    }
    return NULL;
}

static spyre_status check_formats(spyre_dtype host_dtype, spyre_format card, spyre_format host)
{
    converter there, back;
    TRY(converter_find(card, host, &there));
    TRY(converter_find(host, card, &back));
    if (host_dtype == SPYRE_DTYPE_U8 && card != SPYRE_FORMAT_SENUINT32 &&
        card != SPYRE_FORMAT_SENINT8) {
        return status_new(SPYRE_UNSUPPORTED, "no conversion from uint8 to %s",
                          spyre_format_name(card));
    }
    return NULL;
}

spyre_status dci_build(arena *memory, const spyre_view *storage, const spyre_layout *layout,
                       spyre_dtype host_dtype, dci *out_dci)
{
    *out_dci = (dci){.card_format = layout->format,
                     .host_format = spyre_dtype_host_format(host_dtype)};
    TRY(spyre_layout_check(layout));
    TRY(check_formats(host_dtype, out_dci->card_format, out_dci->host_format));
    int64_t elements = 0;
    TRY(count_dense(storage, &elements));
    if (elements == 0) return NULL;
    cover c = {.repeats = 1};
    TRY(sort_digits(layout, &c));
    TRY(group_digits(&c, elements));
    return make_copies(memory, layout, &c, storage->offset, out_dci);
}

// --- Parts for threads

// A range of the loop over distances on the host, in whole sticks where elements follow one
// another.
static dci_copy part_of(const dci_copy *copy, uint32_t part, uint32_t parts)
{
    uint32_t longest = 0;
    for (uint32_t i = 1; i < copy->rank; i++) {
        bool enough = copy->size[i] >= parts || copy->size[i] > copy->size[longest];
        bool longer = copy->host_stride[i] > copy->host_stride[longest];
        if (enough && (longer || copy->size[longest] < parts)) longest = i;
    }
    int64_t granule = copy->host_stride[longest] == 1 ? SPYRE_STICK_BYTES : 1;
    int64_t granules = (copy->size[longest] + granule - 1) / granule;
    int64_t begin = granules * part / parts * granule;
    int64_t end = granules * (part + 1) / parts * granule;
    if (end > copy->size[longest]) end = copy->size[longest];
    dci_copy piece = *copy;
    piece.size[longest] = end - begin;
    piece.card_offset += begin * copy->card_stride[longest];
    piece.host_offset += begin * copy->host_stride[longest];
    return piece;
}

spyre_status dci_divide(arena *memory, const dci *transfer, uint32_t parts, dci *out_parts)
{
    for (uint32_t p = 0; p < parts; p++) {
        out_parts[p] = *transfer;
        out_parts[p].copies = ARENA_NEW(memory, dci_copy, transfer->copy_count);
        TRY_ALLOC(out_parts[p].copies);
        for (uint32_t i = 0; i < transfer->copy_count; i++)
            out_parts[p].copies[i] = part_of(&transfer->copies[i], p, parts);
    }
    return NULL;
}
