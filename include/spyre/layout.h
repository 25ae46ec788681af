// SPDX-License-Identifier: Apache-2.0
//
// How a tensor lies in the card's memory: torch_spyre's SpyreTensorLayout.
//
// device_size[0..rank) are the device dims, outermost first; the last is the stick dim and counts
// the elements of one stick (or fewer, where a layout shows only part of each; a stick still takes
// 128 bytes). Device strides are implicit row-major. stride_map[i] is the step in
// host elements of device dim i; -1 marks a device dim that the host tensor lacks (of which only
// index 0 has an image). Host offset of a device coordinate = sum(coordinate[i] * stride_map[i]).
// Rules and examples: torch-spyre/torch-spyre, docs "Tensor layouts".
#ifndef SPYRE_LAYOUT_H
#define SPYRE_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "spyre/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPYRE_MAX_RANK = 8, SPYRE_MAX_DEVICE_RANK = 16 };

typedef enum {
    SPYRE_ARRANGEMENT_STANDARD = 0,
    SPYRE_ARRANGEMENT_DL16_TO_FP32 = 1,
    SPYRE_ARRANGEMENT_QFP8CH = 2,
    SPYRE_ARRANGEMENT_EXX2 = 3,
    SPYRE_ARRANGEMENT_FP32_TO_DL16 = 4,
    SPYRE_ARRANGEMENT_QFP8WT = 5,
    SPYRE_ARRANGEMENT_COUNT
} spyre_arrangement;

// "STANDARD" and so on, the names of torch-spyre's ElementArrangement; "?" beyond them.
SPYRE_API const char *spyre_arrangement_name(spyre_arrangement arrangement);

typedef struct {
    uint32_t rank;                                  // device dims, 1..SPYRE_MAX_DEVICE_RANK
    int64_t device_size[SPYRE_MAX_DEVICE_RANK];     // elements
    int64_t stride_map[SPYRE_MAX_DEVICE_RANK];      // host elements
    spyre_format format;
    spyre_arrangement arrangement;
} spyre_layout;

// A host view: sizes, strides and offset in elements. rank <= SPYRE_MAX_RANK.
typedef struct {
    uint32_t rank;
    int64_t size[SPYRE_MAX_RANK];
    int64_t stride[SPYRE_MAX_RANK];
    int64_t offset;
} spyre_view;

// The default layout of a contiguous host tensor of `size[0..rank)` in the default format of
// `dtype`: rank r becomes device dims [d1 .. d(r-1) tiles, d0, stick], rank 1 [tiles, stick],
// rank 0 [1, stick]. Fails with SPYRE_UNSUPPORTED "Unsupported tensor rank" above rank 6 and for
// dtypes that have no card format.
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_layout_default(const int64_t *size, uint32_t rank,
                                                             spyre_dtype dtype,
                                                             spyre_layout *out_layout);

// The layout of a host tensor with `stride` (elements) whose dims are first permuted by
// `dim_order`. order_count is rank, or rank + 1 with a last entry of -1: one element per stick.
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_layout_ordered(
    const int64_t *size, const int64_t *stride, uint32_t rank, spyre_dtype dtype,
    const int32_t *dim_order, uint32_t order_count, spyre_layout *out_layout);

// The layout that a dense host tensor gets when none is chosen: the default layout when it is
// contiguous, else the ordered one with its dims by descending stride.
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_layout_dense(const spyre_view *dense,
                                                           spyre_dtype dtype,
                                                           spyre_layout *out_layout);

// Checks rank, sizes, stick length and format; the message names the field.
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_layout_check(const spyre_layout *layout);

// Bytes on the card: 128 * product(device_size[:-1]).
SPYRE_API int64_t spyre_layout_bytes(const spyre_layout *layout);

// Card bytes between the start of a tensor that lies as `layout` says and that of a `view` of it.
// `dense` is the host tensor, of which offset 0 is the first element; strides are not negative.
// Every element of the view then lies as many bytes behind where it would lie if the view began
// with the tensor, so that a program for the one takes the other. SPYRE_UNSUPPORTED, saying why,
// for a view that begins inside of a stick or for which there is no such distance.
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_layout_view_begin(const spyre_layout *layout,
                                                                const spyre_view *dense,
                                                                const spyre_view *view,
                                                                int64_t *out_bytes);

// The bytes of a view on the card as runs, each inside of a stick. Padding behind a run belongs to
// it where the view has the last element of the dim along the stick.
typedef struct {
    int64_t start, bytes;       // from the start of the tensor
} spyre_layout_run;
typedef struct {
    int64_t count, bytes;
    bool whole;                 // they are whole sticks: nothing else is in one of them
} spyre_layout_runs;

// Describes the runs of a `view` of a tensor, given as for spyre_layout_view_begin(), and unless
// `runs` is null writes them there, which the caller has counted by an earlier call. An element
// that the view has twice may be in two of them. SPYRE_UNSUPPORTED for a view of what the layout
// has no single place for.
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_layout_view_runs(const spyre_layout *layout,
                                                               const spyre_view *dense,
                                                               const spyre_view *view,
                                                               spyre_layout_run *runs,
                                                               spyre_layout_runs *out);

// Whether the layouts are equal in every field.
SPYRE_API bool spyre_layout_equal(const spyre_layout *a, const spyre_layout *b);

// Writes "SpyreTensorLayout(device_size=[...], stride_map =[...], device_dtype=DataFormats.X)" to
// `buffer` as snprintf does; returns the length it needs.
SPYRE_API size_t spyre_layout_format(const spyre_layout *layout, char *buffer, size_t capacity);

#ifdef __cplusplus
}
#endif
#endif
