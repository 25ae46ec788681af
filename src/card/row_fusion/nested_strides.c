// SPDX-License-Identifier: Apache-2.0
#include "card/row_fusion/nested_strides.h"

#include <string.h>

bool nested_strides_add(nested_strides *n, int64_t extent, int64_t stride)
{
    const uint32_t top = n->levels;
    if (extent == 1) return true;
    if (top && stride == n->stride[top - 1] * n->extent[top - 1]) {
        n->extent[top - 1] *= (uint32_t)extent;
        return true;
    }
    if (top == NESTED_STRIDES_MOST_LEVELS) return false;
    n->extent[top] = (uint32_t)extent;
    n->stride[top] = stride;
    n->levels++;
    return true;
}

nested_strides nested_strides_even(uint32_t count, int64_t stride)
{
    nested_strides nest = {0};
    nested_strides_add(&nest, count, stride);
    return nest;
}

bool nested_strides_stands(const nested_strides *n)
{
    for (uint32_t level = 0; level < n->levels; level++)
        if (n->stride[level] != 0) return false;
    return true;
}

bool nested_strides_equal(const nested_strides *a, const nested_strides *b)
{
    if (nested_strides_stands(a) && nested_strides_stands(b)) return true;
    return a->levels == b->levels &&
           memcmp(a->extent, b->extent, a->levels * sizeof *a->extent) == 0 &&
           memcmp(a->stride, b->stride, a->levels * sizeof *a->stride) == 0;
}

bool nested_strides_repeats(const nested_strides *n)
{
    return nested_strides_is_even(n) || (n->levels == 2 && n->stride[1] == 0);
}

int64_t nested_strides_sum(const nested_strides *n, size_t index)
{
    int64_t at = 0;
    for (uint32_t level = 0; level < n->levels; level++) {
        bool last = level + 1 == n->levels;
        at += (int64_t)(last ? index : index % n->extent[level]) * n->stride[level];
        index /= n->extent[level];
    }
    return at;
}

size_t nested_strides_left(const nested_strides *n, size_t index, size_t count)
{
    const size_t left = n->extent[0] - index % n->extent[0];
    return left < count ? left : count;
}

bool nested_strides_has_blocks(const nested_strides *n, size_t block)
{
    size_t inner = 1;
    for (uint32_t level = 0; level + 1 < n->levels; level++) {
        inner *= n->extent[level];
        if (inner % block == 0) return true;
        if (block % inner != 0) return false;
    }
    return true;
}

void nested_strides_list(const nested_strides *n, size_t first, size_t count, int64_t *out)
{
    const int64_t stride = nested_strides_stride(n), origin = nested_strides_at(n, first);
    for (size_t done = 0, run; done < count; done += run) {
        const int64_t at = nested_strides_at(n, first + done) - origin;
        run = nested_strides_run(n, first + done, count - done);
        for (size_t i = 0; i < run; i++) out[done + i] = at + (int64_t)i * stride;
    }
}

void nested_strides_reach(const nested_strides *n, byte_range *range)
{
    for (uint32_t level = 0; level < n->levels; level++)
        range_repeat(range, n->stride[level], n->extent[level]);
}

uint32_t nested_strides_dims(const nested_strides *n, uint32_t dims, int64_t *extent,
                             int64_t *stride)
{
    for (uint32_t level = 0; level < n->levels; level++, dims++) {
        extent[dims] = n->extent[level];
        stride[dims] = n->stride[level];
    }
    return dims;
}
