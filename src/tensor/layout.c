// SPDX-License-Identifier: Apache-2.0
//
// Rules: torch-spyre/torch-spyre, torch_spyre/csrc/spyre_tensor_impl.cpp (SpyreTensorLayout::init)
// and docs "Tensor layouts". With the host dims permuted by dim_order to p0..p(r-1), the device
// dims are p1..p(r-1), p0 and the lanes of a stick; the dim that holds the lanes counts tiles.
#include "spyre/layout.h"

#include <stdio.h>

#include "base/status.h"

enum { ABSENT = -1 };

static spyre_status check_host(const int64_t *size, uint32_t rank, spyre_dtype dtype)
{
    if (rank > SPYRE_MAX_RANK) {
        return status_new(SPYRE_UNSUPPORTED, "Unsupported tensor rank %u, at most %d", rank,
                          SPYRE_MAX_RANK);
    }
    if (spyre_dtype_card_format(dtype) == SPYRE_FORMAT_INVALID) {
        return status_new(SPYRE_UNSUPPORTED, "Spyre backend does not support dtype %s",
                          spyre_dtype_name(dtype));
    }
    for (uint32_t i = 0; i < rank; i++) {
        if (size[i] < 0) {
            return status_new(SPYRE_INVALID_ARGUMENT, "size[%u] is %lld, must not be negative", i,
                              (long long)size[i]);
        }
    }
    return NULL;
}

// dim_order must name every dim once; *out_sparse says whether a -1 follows.
static spyre_status check_order(uint32_t rank, const int32_t *dim_order, uint32_t order_count,
                                bool *out_sparse)
{
    *out_sparse = order_count == rank + 1 && dim_order[rank] == ABSENT;
    if (order_count != rank && !*out_sparse) {
        return status_new(SPYRE_INVALID_ARGUMENT,
                          "Incompatible host_size and dim_order: %u dims, %u entries", rank,
                          order_count);
    }
    uint32_t seen = 0;
    for (uint32_t i = 0; i < rank; i++) {
        int32_t dim = dim_order[i];
        if (dim < 0 || (uint32_t)dim >= rank || (seen & 1u << dim)) {
            return status_new(SPYRE_INVALID_ARGUMENT,
                              "dim_order[%u] is %d, must name each of %u dims once", i, dim, rank);
        }
        seen |= 1u << dim;
    }
    return NULL;
}

// Gives one device dim its step. The dims of one host dim are visited from fine to coarse:
// `reached[d]` is how many host elements the finer ones of dim d cover, whether it has them or not:
// a single tile is still a whole tile away from the next, as torch-spyre has it.
static void map_stride(spyre_layout *layout, uint32_t at, int32_t dim, const int64_t *size,
                       const int64_t *stride, int64_t *reached)
{
    if (dim == ABSENT || size[dim] == 1) return;
    int64_t step = reached[dim] == ABSENT ? stride[dim] : reached[dim];
    layout->stride_map[at] = step;
    if (__builtin_mul_overflow(step, layout->device_size[at], &reached[dim]))
        reached[dim] = size[dim] * stride[dim];
}

static void place_dims(spyre_layout *layout, const int64_t *size, const int64_t *stride,
                       uint32_t rank, const int32_t *order, uint32_t order_count, int64_t elements)
{
    int32_t stick_dim = order[order_count - 1];
    uint32_t lanes = order_count;
    for (uint32_t i = 0; i < order_count; i++) {
        int32_t dim = order[i];
        uint32_t at = i == 0 ? order_count - 1 : i - 1;
        int64_t extent = dim == ABSENT ? 1 : size[dim];
        if (dim == stick_dim && dim != ABSENT)
            extent = extent / elements + (extent % elements != 0);
        layout->device_size[at] = extent;
    }
    layout->device_size[lanes] = elements;
    layout->rank = order_count + 1;

    int64_t reached[SPYRE_MAX_RANK];
    for (uint32_t i = 0; i < rank; i++) reached[i] = ABSENT;
    for (uint32_t i = 0; i < layout->rank; i++) layout->stride_map[i] = ABSENT;
    map_stride(layout, lanes, stick_dim, size, stride, reached);
    for (uint32_t i = order_count; i-- > 0;) {
        map_stride(layout, i == 0 ? order_count - 1 : i - 1, order[i], size, stride, reached);
    }
}

spyre_status spyre_layout_ordered(const int64_t *size, const int64_t *stride, uint32_t rank,
                                  spyre_dtype dtype, const int32_t *dim_order,
                                  uint32_t order_count, spyre_layout *out_layout)
{
    bool sparse;
    TRY(check_host(size, rank, dtype));
    TRY(check_order(rank, dim_order, order_count, &sparse));
    for (uint32_t i = 0; i < rank; i++) {
        int64_t extent;
        if (stride[i] < 0 || __builtin_mul_overflow(stride[i], size[i], &extent)) {
            return status_new(SPYRE_INVALID_ARGUMENT, "stride[%u] is %lld for size %lld", i,
                              (long long)stride[i], (long long)size[i]);
        }
    }
    *out_layout = (spyre_layout){.format = spyre_dtype_card_format(dtype)};
    int64_t elements = spyre_format_elements_per_stick(out_layout->format);
    if (rank == 0) {
        out_layout->rank = 2;
        out_layout->device_size[0] = 1;
        out_layout->device_size[1] = elements;
        out_layout->stride_map[0] = out_layout->stride_map[1] = ABSENT;
        return NULL;
    }
    place_dims(out_layout, size, stride, rank, dim_order, order_count, elements);
    return spyre_layout_check(out_layout);
}

spyre_status spyre_layout_default(const int64_t *size, uint32_t rank, spyre_dtype dtype,
                                  spyre_layout *out_layout)
{
    int64_t stride[SPYRE_MAX_RANK];
    int32_t order[SPYRE_MAX_RANK];
    TRY(check_host(size, rank, dtype));
    int64_t step = 1;
    for (uint32_t i = rank; i-- > 0;) {
        stride[i] = step;
        order[i] = (int32_t)i;
        if (__builtin_mul_overflow(step, size[i] ? size[i] : 1, &step)) {
            return status_new(SPYRE_INVALID_ARGUMENT, "tensor has more than 2^63 elements");
        }
    }
    return spyre_layout_ordered(size, stride, rank, dtype, order, rank, out_layout);
}

spyre_status spyre_layout_check(const spyre_layout *layout)
{
    if (layout->rank < 1 || layout->rank > SPYRE_MAX_DEVICE_RANK) {
        return status_new(SPYRE_INVALID_ARGUMENT, "layout has %u device dims, must be 1..%d",
                          layout->rank, SPYRE_MAX_DEVICE_RANK);
    }
    int64_t elements = spyre_format_elements_per_stick(layout->format);
    if (!elements) {
        return status_new(SPYRE_INVALID_ARGUMENT, "device_dtype %s has no elements",
                          spyre_format_name(layout->format));
    }
    if ((unsigned)layout->arrangement >= SPYRE_ARRANGEMENT_COUNT) {
        return status_new(SPYRE_INVALID_ARGUMENT, "element_arrangement %d is not known",
                          (int)layout->arrangement);
    }
    int64_t bytes = SPYRE_STICK_BYTES;
    for (uint32_t i = 0; i < layout->rank; i++) {
        int64_t size = layout->device_size[i];
        bool lanes = i + 1 == layout->rank;
        if (size < 0 || (lanes && (size < 1 || size > elements))) {
            return status_new(SPYRE_INVALID_ARGUMENT, "device_size[%u] is %lld, must be %s%lld", i,
                              (long long)size, lanes ? "1.." : "at least ",
                              lanes ? (long long)elements : 0LL);
        }
        if (layout->stride_map[i] < ABSENT) {
            return status_new(SPYRE_INVALID_ARGUMENT, "stride_map[%u] is %lld, must be -1 or more",
                              i, (long long)layout->stride_map[i]);
        }
        if (!lanes && __builtin_mul_overflow(bytes, size, &bytes)) {
            return status_new(SPYRE_INVALID_ARGUMENT, "device_size needs more than 2^63 bytes");
        }
    }
    return NULL;
}

int64_t spyre_layout_bytes(const spyre_layout *layout)
{
    int64_t bytes = SPYRE_STICK_BYTES;
    for (uint32_t i = 0; i + 1 < layout->rank; i++) bytes *= layout->device_size[i];
    return bytes;
}

bool spyre_layout_equal(const spyre_layout *a, const spyre_layout *b)
{
    if (a->rank != b->rank || a->format != b->format || a->arrangement != b->arrangement)
        return false;
    for (uint32_t i = 0; i < a->rank; i++) {
        if (a->device_size[i] != b->device_size[i]) return false;
        if (a->stride_map[i] != b->stride_map[i]) return false;
    }
    return true;
}

const char *spyre_arrangement_name(spyre_arrangement arrangement)
{
    switch (arrangement) {
    case SPYRE_ARRANGEMENT_STANDARD: return "STANDARD";
    case SPYRE_ARRANGEMENT_DL16_TO_FP32: return "DL16_TO_FP32";
    case SPYRE_ARRANGEMENT_QFP8CH: return "QFP8CH";
    case SPYRE_ARRANGEMENT_EXX2: return "EXX2";
    case SPYRE_ARRANGEMENT_FP32_TO_DL16: return "FP32_TO_DL16";
    case SPYRE_ARRANGEMENT_QFP8WT: return "QFP8WT";
    case SPYRE_ARRANGEMENT_COUNT: break;
    }
    return "?";
}

// snprintf at position `at` of the caller's buffer; returns the position behind the piece, which
// may lie beyond the buffer.
#define APPEND(at, ...)                                                                         \
    ((at) + (size_t)snprintf((at) < capacity ? buffer + (at) : NULL,                            \
                             (at) < capacity ? capacity - (at) : 0, __VA_ARGS__))

static size_t append_list(char *buffer, size_t capacity, size_t at, const int64_t *values,
                          uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        at = APPEND(at, "%s%lld", i ? ", " : "", (long long)values[i]);
    return at;
}

size_t spyre_layout_format(const spyre_layout *layout, char *buffer, size_t capacity)
{
    uint32_t rank = layout->rank < SPYRE_MAX_DEVICE_RANK ? layout->rank : SPYRE_MAX_DEVICE_RANK;
    size_t at = 0;
    at = APPEND(at, "SpyreTensorLayout(device_size=[");
    at = append_list(buffer, capacity, at, layout->device_size, rank);
    at = APPEND(at, "], stride_map =[");
    at = append_list(buffer, capacity, at, layout->stride_map, rank);
    at = APPEND(at, "], device_dtype=DataFormats.%s", spyre_format_name(layout->format));
    if (layout->arrangement != SPYRE_ARRANGEMENT_STANDARD) {
        at = APPEND(at, ", element_arrangement=ElementArrangement.%s",
                    spyre_arrangement_name(layout->arrangement));
    }
    return APPEND(at, ")");
}

spyre_status spyre_layout_dense(const spyre_view *dense, spyre_dtype dtype,
                                spyre_layout *out_layout)
{
    int32_t order[SPYRE_MAX_RANK];
    int64_t stride = 1;
    bool contiguous = true, small = dense->rank <= SPYRE_MAX_RANK;
    for (uint32_t d = small ? dense->rank : 0; d-- > 0;) {
        contiguous &= dense->size[d] == 1 || dense->stride[d] == stride;
        small &= !__builtin_mul_overflow(stride, dense->size[d], &stride);
    }
    // Of what is too large the default layout says why.
    if (contiguous || !small)
        return spyre_layout_default(dense->size, dense->rank, dtype, out_layout);
    for (uint32_t d = 0; d < dense->rank; d++) {
        uint32_t at = d;
        while (at > 0 && dense->stride[order[at - 1]] < dense->stride[d]) {
            order[at] = order[at - 1];
            at--;
        }
        order[at] = (int32_t)d;
    }
    return spyre_layout_ordered(dense->size, dense->stride, dense->rank, dtype, order, dense->rank,
                                out_layout);
}
