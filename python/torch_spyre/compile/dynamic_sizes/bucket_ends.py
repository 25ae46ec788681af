# SPDX-License-Identifier: Apache-2.0
"""Where buckets end: the sizes that count as the same program.

| sizes | a bucket ends at a multiple of |
| --- | --- |
| bounded by mark_dynamic(min=, max=) | granularity(min, max) |
| unbounded | STEP, and an eighth of the power of two below the size; up to STEP at a power of two |
| lengths of what grows, such as a cache | the same, STEP at least |
"""

from __future__ import annotations

import math

from ... import config

STEP = 64  # rows; a stick of 16 bits


def granularity(least: int, most: int) -> int:
    """Of the buckets of sizes up to `most`; `least` is what was asked for, or below 3: `least` when
    it is above 2, else the smallest divisor of `most` that is not below
    config.min_default_granularity, and never so small that more than config.max_buckets reach
    `most`."""
    if least > 2:
        return least * math.ceil(most / least / config.max_buckets)
    floor = max(config.min_default_granularity, math.ceil(most / config.max_buckets))
    return next(g for g in range(min(floor, most), most + 1) if most % g == 0)


def end_of_bounded(size: int, granule: int) -> int:
    """Where the bucket of a size ends whose buckets are a granule each."""
    return -(-size // granule) * granule


def end_of_unbounded(size: int) -> int:
    """Where the bucket of a size ends that nothing bounds."""
    return end_of_length(size) if size > STEP else 1 << (size - 1).bit_length()


def end_of_length(length: int) -> int:
    """Where the bucket of a length ends."""
    return end_of_bounded(length, max(STEP, 1 << max(length.bit_length() - 4, 0)))
