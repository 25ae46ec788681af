// SPDX-License-Identifier: Apache-2.0
#include "card/footprint/byte_set.h"

void byte_set_add(byte_set *l, int64_t stride, int64_t extent)
{
    if (extent == 1 || stride == 0) return;
    if (stride < 0) {
        l->low += stride * (extent - 1);
        stride = -stride;
    }
    uint32_t at = l->count++;
    for (; at > 0 && l->stride[at - 1] > stride; at--) {
        l->stride[at] = l->stride[at - 1];
        l->extent[at] = l->extent[at - 1];
    }
    l->stride[at] = stride;
    l->extent[at] = extent;
}

void byte_set_merge(byte_set *l)
{
    uint32_t kept = 0;
    for (uint32_t n = 0; n < l->count; n++) {
        int64_t stride = l->stride[n], extent = l->extent[n];
        if (kept == 0 && stride <= l->bytes) {
            l->bytes += stride * (extent - 1);
        } else if (kept > 0 && stride == l->stride[kept - 1] * l->extent[kept - 1]) {
            l->extent[kept - 1] *= extent;
        } else {
            l->stride[kept] = stride;
            l->extent[kept++] = extent;
        }
    }
    l->count = kept;
}

bool byte_runs_lie_apart(uint32_t dims, const int64_t *extent, const int64_t *stride, int64_t bytes)
{
    byte_set l = {.bytes = bytes};
    for (uint32_t d = 0; d < dims; d++) {
        if (stride[d] <= 0 && extent[d] > 1) return false;
        byte_set_add(&l, stride[d], extent[d]);
    }
    for (uint32_t n = 0; n < l.count; n++) {
        if (l.stride[n] < bytes) return false;
        bytes += l.stride[n] * (l.extent[n] - 1);
    }
    return true;
}

// Point `at` lies from the one a block before it as the second block does from the first.
static bool follows(uint32_t width, const int64_t *of, uint32_t block, uint32_t at)
{
    const int64_t *first = of, *second = of + (size_t)block * width;
    const int64_t *point = of + (size_t)at * width, *before = point - (size_t)block * width;
    for (uint32_t n = 0; n < width; n++)
        if (point[n] - before[n] != second[n] - first[n]) return false;
    return true;
}

uint32_t points_count_blocks(uint32_t points, uint32_t width, const int64_t *of, uint32_t block)
{
    uint32_t end = block, blocks;
    while (end < points && follows(width, of, block, end)) end++;
    for (blocks = end / block; points % (block * blocks); blocks--) continue;
    return blocks;
}
