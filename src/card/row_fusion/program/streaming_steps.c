// SPDX-License-Identifier: Apache-2.0
//
// Streaming steps: large results that go past the host's caches, and loads from far apart that come
// stick by stick.
#include "card/row_fusion/program/program_builder.h"

#include <stdlib.h>

// What a row fusion stores in memory, from which on it would displace all else in the host's last
// cache, and be gone itself before it is read.
enum { STREAMED_BYTES = 32 << 20 };

// What one loads, from which on sticks that lie pages apart come one after the other, as far as
// many rows of each are neighbours: their sets of the host's caches do not hold a row of them until
// the next one.
enum { DISTANT_BYTES = 16 << 20, DISTANT_ROWS = 32, PAGE_BYTES = 4096 };

static bool is_in_lines(const nested_strides *n)
{
    for (uint32_t level = 0; level < n->levels; level++)
        if (n->stride[level] % ROWS_LINE_BYTES != 0) return false;
    return true;
}

// Bytes of memory that a step of one core stores, in whole lines.
static uint64_t stored_bytes(const row_fusion *c, const rows_step *s)
{
    const rows_place *p = &s->place;
    uint64_t bytes = (uint64_t)c->rows * c->sticks * SPYRE_STICK_BYTES;
    if (s->op != VECTOR_STORE || p->space != ISA_SPACE_MEMORY || p->own) return 0;
    if (!is_in_lines(&p->row) || !is_in_lines(&p->stick)) return 0;
    for (uint32_t l = 0; l < c->loops; l++) {
        if (p->outer[l] % ROWS_LINE_BYTES != 0) return 0;
        if (p->outer[l] != 0) bytes *= c->iterations[l];
    }
    return bytes;
}

// Bytes that a step of one core loads, each stick of a row from another page.
static uint64_t distant_bytes(const row_fusion *c, const rows_step *s)
{
    const rows_place *p = &s->place;
    uint64_t bytes = (uint64_t)c->rows * c->sticks * SPYRE_STICK_BYTES;
    const bool loads = s->op == VECTOR_LOAD_X || s->op == VECTOR_WIDE_X;
    if (!loads || p->space != ISA_SPACE_MEMORY || p->own) return 0;
    if (c->block < DISTANT_ROWS || c->sticks == 1) return 0;
    if (llabs(nested_strides_at(&p->stick, 1)) < PAGE_BYTES) return 0;
    for (uint32_t l = 0; l < c->loops; l++)
        if (p->outer[l] != 0) bytes *= c->iterations[l];
    return bytes;
}

void rows_choose_streaming(const rows_builder *b)
{
    const row_fusion *c = b->c;
    const uint32_t each = (uint32_t)__builtin_popcount(b->first->kernel->source->active_cores);
    const uint32_t cores = c->joined ? 1 : each;
    uint64_t all = 0;
    for (uint32_t n = 0; n < c->steps.count; n++) {
        rows_step *s = &c->steps.items[n];
        s->streams = distant_bytes(c, s) * cores >= DISTANT_BYTES;
        all += stored_bytes(c, s);
    }
    if (all * cores < STREAMED_BYTES) return;
    for (uint32_t n = 0; n < c->steps.count; n++)
        c->steps.items[n].streams |= stored_bytes(c, &c->steps.items[n]) > 0;
}
