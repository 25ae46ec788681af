// SPDX-License-Identifier: Apache-2.0
//
// Kernels that do not depend on each other overlap, as operations of a dataflow card start when
// their inputs are there. Neighbours in one loop body form a group as long as each is independent
// of all the others. A group takes as long as its longest kernel or as its busiest resource, and a
// kernel costs what it adds to that:
//
//     A  add, 40 us, memory busy 40          40 us
//     B  matmul, 14 us, memory busy 4        44 us, so B adds 4 and 10 of it overlap A
//
// Two kernels depend on each other when one writes what the other reads or writes. LX that a kernel
// fills before it reads it, and that no kernel reads without filling it, holds tiles: another
// kernel's tiles get another place, as long as LX has room for those of all.
#include <stdlib.h>

#include "card/footprint/footprint.h"
#include "card/plan.h"
#include "card/time/time.h"

enum { MOST_KERNELS = 8, MOST_TOUCHES = 64, SPACE_LX = -1 }; // of a group; of a kernel

// What a kernel touches through an operand, over all cores and iterations.
typedef struct {
    int32_t space; // the argument, or SPACE_LX
    bool writes, reads;
    byte_range bytes;
} touch;

typedef struct {
    VEC(touch) touches;
    bool alone; // it sends or receives, or touches too much
    int64_t tile_bytes;
} kernel_touches;

struct time_overlap {
    arena *memory;
    const isa_program *program;
    kernel_touches *kernels; // in the order of the code
    uint32_t count;
    byte_ranges kept; // LX that some kernel reads without filling it: ascending, apart
    // The group in work.
    uint32_t first, length;
    double longest_us, busy_us[CARD_RESOURCES];
};

// --- What kernels touch

static byte_range bytes_of(const isa_kernel *kernel, const isa_instruction *i, uint32_t o,
                           const loop_nest *place)
{
    if (o == isa_row_operand(i->opcode)) return (byte_range){INT64_MIN, INT64_MAX};
    return footprint_range(kernel, i, o, place);
}

// True when the kernel has written all of the range, which it reads now.
static bool is_filled(const kernel_touches *k, byte_range r)
{
    for (uint32_t n = 0; n < k->touches.count; n++) {
        const touch *t = &k->touches.items[n];
        if (t->space == SPACE_LX && t->writes && range_covers(t->bytes, r)) return true;
    }
    return false;
}

static spyre_status add_touch(arena *memory, kernel_touches *k, touch t)
{
    if (t.space == SPACE_LX && t.reads && is_filled(k, t.bytes)) t.reads = false;
    if (!t.reads && !t.writes) return NULL;
    for (uint32_t n = 0; n < k->touches.count; n++) {
        touch *known = &k->touches.items[n];
        if (known->space != t.space || !range_covers(known->bytes, t.bytes)) continue;
        if ((known->writes || !t.writes) && (known->reads || !t.reads)) return NULL;
    }
    k->alone |= k->touches.count == MOST_TOUCHES;
    return k->alone ? NULL : VEC_PUSH(memory, &k->touches, t);
}

static spyre_status add_instruction(time_overlap *o, kernel_touches *k, const isa_kernel *source,
                                    const isa_instruction *i, const loop_nest *place)
{
    bool moves = i->opcode != ISA_WAIT && i->opcode != ISA_SIGNAL && i->queue != ISA_QUEUE_SEQ;
    k->alone |= i->opcode == ISA_SEND || i->opcode == ISA_RECEIVE;
    for (uint32_t n = i->operand_count; moves && n-- > 0;) { // the one that is written comes last
        const isa_operand *operand = &i->operand[n];
        if (operand->space == ISA_SPACE_NUMBER) continue;
        touch t = {.space = operand->space == ISA_SPACE_LX ? SPACE_LX : operand->arg,
                   .writes = isa_writes(i->opcode, n),
                   .reads = isa_reads(i->opcode, n),
                   .bytes = bytes_of(source, i, n, place)};
        TRY(add_touch(o->memory, k, t));
    }
    return NULL;
}

static spyre_status find_touches(time_overlap *o)
{
    loop_nest place = {0};
    kernel_touches *k = NULL;
    const isa_kernel *source = NULL;
    for (uint32_t at = 0; at < o->program->code.count; at++) {
        const isa_instruction *i = o->program->code.items[at];
        loop_nest_follow(&place, i, at);
        if (i->opcode == ISA_KERNEL) {
            k = &o->kernels[o->count++];
            source = &o->program->kernels.items[i->count];
        } else if (i->opcode == ISA_END_KERNEL) {
            k = NULL;
        } else if (k) {
            TRY(add_instruction(o, k, source, i, &place));
        }
    }
    return NULL;
}

// --- LX that is kept from kernel to kernel, and tiles

static int compare_ranges(const void *a, const void *b)
{
    const byte_range *x = a, *y = b;
    return (x->low > y->low) - (x->low < y->low);
}

static spyre_status find_kept(time_overlap *o)
{
    uint32_t joined = 0;
    for (uint32_t n = 0; n < o->count; n++)
        for (uint32_t t = 0; t < o->kernels[n].touches.count; t++) {
            const touch *of = &o->kernels[n].touches.items[t];
            if (of->space == SPACE_LX && of->reads) TRY(VEC_PUSH(o->memory, &o->kept, of->bytes));
        }
    byte_range *r = o->kept.items;
    if (o->kept.count) qsort(r, o->kept.count, sizeof *r, compare_ranges);
    for (uint32_t n = 1; n < o->kept.count; n++) {
        if (r[n].low <= r[joined].high) range_add(&r[joined], r[n]);
        else r[++joined] = r[n];
    }
    if (o->kept.count) o->kept.count = joined + 1;
    return NULL;
}

static bool is_tile(const time_overlap *o, const touch *t)
{
    uint32_t low = 0, high = o->kept.count; // the first one that ends behind the beginning
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (o->kept.items[middle].high <= t->bytes.low) low = middle + 1;
        else high = middle;
    }
    return t->space == SPACE_LX &&
           (low == o->kept.count || o->kept.items[low].low >= t->bytes.high);
}

static void find_tiles(const time_overlap *o, kernel_touches *k)
{
    byte_range all = RANGE_NONE;
    for (uint32_t n = 0; n < k->touches.count; n++)
        if (is_tile(o, &k->touches.items[n])) range_add(&all, k->touches.items[n].bytes);
    k->tile_bytes = all.low < all.high ? all.high - all.low : 0;
}

spyre_status time_overlap_create(arena *memory, const isa_program *program, time_overlap **out)
{
    time_overlap *o = *out = ARENA_NEW(memory, time_overlap, 1);
    TRY_ALLOC(o);
    *o = (time_overlap){.memory = memory, .program = program};
    o->kernels = ARENA_NEW(memory, kernel_touches, program->code.count);
    TRY_ALLOC(o->kernels);
    TRY(find_touches(o));
    TRY(find_kept(o));
    for (uint32_t n = 0; n < o->count; n++) find_tiles(o, &o->kernels[n]);
    return NULL;
}

// --- Groups

static bool depend(const time_overlap *o, const kernel_touches *a, const kernel_touches *b)
{
    for (uint32_t n = 0; n < a->touches.count; n++)
        for (uint32_t m = 0; m < b->touches.count; m++) {
            const touch *x = &a->touches.items[n], *y = &b->touches.items[m];
            if (x->space != y->space || !(x->writes || y->writes)) continue;
            if (!ranges_overlap(x->bytes, y->bytes)) continue;
            if (!is_tile(o, x) || !is_tile(o, y)) return true;
        }
    return false;
}

static bool may_join(const time_overlap *o, const kernel_touches *k)
{
    int64_t kept_end = o->kept.count ? o->kept.items[o->kept.count - 1].high : 0;
    int64_t bytes = kept_end + k->tile_bytes;
    if (o->length == 0 || o->length == MOST_KERNELS || k->alone) return false;
    for (uint32_t n = o->first; n < o->first + o->length; n++) {
        if (o->kernels[n].alone || depend(o, &o->kernels[n], k)) return false;
        bytes += o->kernels[n].tile_bytes;
    }
    return bytes <= ISA_LX_BYTES;
}

static double group_us(const time_overlap *o)
{
    double us = o->longest_us;
    for (uint32_t r = 0; r < CARD_RESOURCES; r++)
        if (o->busy_us[r] > us) us = o->busy_us[r];
    return us;
}

void time_overlap_end(time_overlap *o)
{
    o->first += o->length;
    o->length = 0;
}

double time_overlap_add(time_overlap *o, double us, const double busy_us[CARD_RESOURCES])
{
    if (!may_join(o, &o->kernels[o->first + o->length])) {
        time_overlap_end(o);
        o->longest_us = 0;
        for (uint32_t r = 0; r < CARD_RESOURCES; r++) o->busy_us[r] = 0;
    }
    double before = o->length ? group_us(o) : 0;
    o->length++;
    if (us > o->longest_us) o->longest_us = us;
    for (uint32_t r = 0; r < CARD_RESOURCES; r++) o->busy_us[r] += busy_us[r];
    return group_us(o) - before;
}
