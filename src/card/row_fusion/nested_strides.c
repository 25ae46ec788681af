// SPDX-License-Identifier: Apache-2.0
#include "card/row_fusion/nested_strides.h"

#include <string.h>

bool rows_nest_add(rows_nest *n, int64_t extent, int64_t stride)
{
    const uint32_t top = n->levels;
    if (extent == 1) return true;
    if (top && stride == n->stride[top - 1] * n->extent[top - 1]) {
        n->extent[top - 1] *= (uint32_t)extent;
        return true;
    }
    if (top == ROWS_MOST_LEVELS) return false;
    n->extent[top] = (uint32_t)extent;
    n->stride[top] = stride;
    n->levels++;
    return true;
}

rows_nest rows_evenly(uint32_t count, int64_t stride)
{
    rows_nest nest = {0};
    rows_nest_add(&nest, count, stride);
    return nest;
}

bool rows_nest_stands(const rows_nest *n)
{
    for (uint32_t level = 0; level < n->levels; level++)
        if (n->stride[level] != 0) return false;
    return true;
}

bool rows_nests_equal(const rows_nest *a, const rows_nest *b)
{
    if (rows_nest_stands(a) && rows_nest_stands(b)) return true;
    return a->levels == b->levels &&
           memcmp(a->extent, b->extent, a->levels * sizeof *a->extent) == 0 &&
           memcmp(a->stride, b->stride, a->levels * sizeof *a->stride) == 0;
}

bool rows_nest_repeats(const rows_nest *n)
{
    return rows_nest_is_even(n) || (n->levels == 2 && n->stride[1] == 0);
}

int64_t rows_nest_sum(const rows_nest *n, size_t index)
{
    int64_t at = 0;
    for (uint32_t level = 0; level < n->levels; level++) {
        bool last = level + 1 == n->levels;
        at += (int64_t)(last ? index : index % n->extent[level]) * n->stride[level];
        index /= n->extent[level];
    }
    return at;
}

size_t rows_nest_left(const rows_nest *n, size_t index, size_t count)
{
    const size_t left = n->extent[0] - index % n->extent[0];
    return left < count ? left : count;
}

bool rows_nest_has_blocks(const rows_nest *n, size_t block)
{
    size_t inner = 1;
    for (uint32_t level = 0; level + 1 < n->levels; level++) {
        inner *= n->extent[level];
        if (inner % block == 0) return true;
        if (block % inner != 0) return false;
    }
    return true;
}

void rows_nest_list(const rows_nest *n, size_t first, size_t count, int64_t *out)
{
    const int64_t stride = rows_nest_stride(n), origin = rows_nest_at(n, first);
    for (size_t done = 0, run; done < count; done += run) {
        const int64_t at = rows_nest_at(n, first + done) - origin;
        run = rows_nest_run(n, first + done, count - done);
        for (size_t i = 0; i < run; i++) out[done + i] = at + (int64_t)i * stride;
    }
}

void rows_nest_reach(const rows_nest *n, byte_range *range)
{
    for (uint32_t level = 0; level < n->levels; level++)
        range_repeat(range, n->stride[level], n->extent[level]);
}

uint32_t rows_nest_dims(const rows_nest *n, uint32_t dims, int64_t *extent, int64_t *stride)
{
    for (uint32_t level = 0; level < n->levels; level++, dims++) {
        extent[dims] = n->extent[level];
        stride[dims] = n->stride[level];
    }
    return dims;
}
