// SPDX-License-Identifier: Apache-2.0
//
// Peeled iterations. The last iteration of a loop may stand behind it, as one does that has nothing
// more to load; here it is an iteration like the others:
//
//     loop 2 { relu arg1+0 }; relu arg1+8192    ->    loop 3 { relu arg1+0 }
//     loop 3 { loop 2 { relu } }; relu          ->    loop 7 { relu }
//
// So is the rest of a dim:
//
//     sub [2, 196, 64]; sub [196, 64]    ->    sub [3, 196, 64]
#include <string.h>

#include "card/row_fusion/tiles/collect_tiles.h"
#include "isa/dims.h"

// --- The rest of a dim

// Both compute the same of operands in the same memory, in the same loops.
static bool are_alike(const rows_tile *whole, const rows_tile *rest)
{
    const isa_instruction *a = whole->tile->instruction, *b = rest->tile->instruction;
    bool same = (a->opcode == ISA_VECTOR || a->opcode == ISA_LOAD) && isa_same_work(a, b) &&
                !whole->rest && whole->loops.depth == rest->loops.depth &&
                loop_nest_same(&whole->loops, &rest->loops, rest->loops.depth);
    for (uint32_t o = 0; o < a->operand_count && same; o++)
        same = isa_same_memory(&a->operand[o], &b->operand[o]);
    return same;
}

// Rest begins where dim `at` of the whole ends, and has its other dims.
static bool goes_on(const isa_instruction *whole, const isa_instruction *rest, uint32_t at)
{
    for (uint32_t d = 0; d < whole->dim_count; d++)
        if (d != at && whole->extent[d] != rest->extent[d]) return false;
    for (uint32_t o = 0; o < whole->operand_count; o++) {
        const isa_operand *a = &whole->operand[o], *b = &rest->operand[o];
        if (b->offset - a->offset != a->stride[at] * whole->extent[at]) return false;
        for (uint32_t d = 0; d < whole->dim_count; d++)
            if (a->stride[d] != b->stride[d] && (d != at || rest->extent[d] > 1)) return false;
    }
    return true;
}

// What the rest has of dim `at` of the whole; 0 where it is no rest of that. A dim of one index is
// none.
static uint32_t left_of_dim(const isa_instruction *whole, const isa_instruction *rest, uint32_t at)
{
    isa_instruction b = isa_copy(rest);
    if (b.dim_count + 1u == whole->dim_count) isa_insert_dim(&b, at, 1);
    return b.dim_count == whole->dim_count && goes_on(whole, &b, at) ? b.extent[at] : 0;
}

// One tile may do the elements of both in another order.
static bool may_mix(const rows_tile *whole, const rows_tile *rest)
{
    rows_tile a = *whole, b = *rest;
    rows_find_reach(&a);
    rows_find_reach(&b);
    bool apart = !rows_writes_into(&a, &b, 0);
    for (uint32_t o = 1; o < a.tile->instruction->operand_count && apart; o++)
        apart = !rows_writes_into(&a, &b, o) && !rows_writes_into(&b, &a, o);
    return apart;
}

spyre_status rows_join_rest_of_dim(arena *scratch, rows_tiles *tiles, uint32_t own,
                                   const rows_tile *t, bool *out_joined)
{
    *out_joined = false;
    if (tiles->count == own) return NULL;
    rows_tile *whole = &tiles->items[tiles->count - 1];
    if (!are_alike(whole, t) || !may_mix(whole, t)) return NULL;
    const isa_instruction *i = whole->tile->instruction;
    for (uint32_t at = 0; at < i->dim_count; at++) {
        const uint32_t left = left_of_dim(i, t->tile->instruction, at);
        if (!left) continue;
        isa_instruction joined = isa_copy(i);
        *out_joined = true;
        joined.extent[at] += left;
        return rows_set_tile(scratch, &joined, whole);
    }
    return NULL;
}

// --- The last iteration

// Operand `rest` is where the next iteration of the innermost of `loops` would have `looped`.
static bool continues_operand(const isa_operand *looped, const isa_operand *rest,
                              const loop_nest *loops)
{
    const uint32_t inmost = loops->depth - 1;
    return looped->space == rest->space && looped->format == rest->format &&
           looped->arg == rest->arg && looped->slot == rest->slot &&
           rest->offset - looped->offset ==
               looped->loop_stride[inmost] * loops->iterations[inmost] &&
           memcmp(looped->stride, rest->stride, sizeof rest->stride) == 0 &&
           memcmp(looped->loop_stride, rest->loop_stride, inmost * sizeof *rest->loop_stride) == 0;
}

static bool continues(const rows_tile *looped, const rows_tile *rest)
{
    const isa_instruction *a = looped->tile->instruction, *b = rest->tile->instruction;
    bool same = looped->loops.depth == rest->loops.depth + 1 &&
                loop_nest_same(&looped->loops, &rest->loops, rest->loops.depth) &&
                isa_same_work(a, b) && a->dim_count == b->dim_count &&
                memcmp(a->extent, b->extent, a->dim_count * sizeof *a->extent) == 0;
    for (uint32_t o = 0; o < a->operand_count && same; o++)
        same = continues_operand(&a->operand[o], &b->operand[o], &looped->loops);
    return same;
}

// The loops of the tile from `depth` on go on from iteration to iteration as one would.
static bool are_one_loop(const rows_tile *t, uint32_t depth)
{
    const isa_instruction *i = t->tile->instruction;
    for (uint32_t n = depth; n + 1 < t->loops.depth; n++)
        for (uint32_t o = 0; o < i->operand_count; o++)
            if (i->operand[o].loop_stride[n] !=
                i->operand[o].loop_stride[n + 1] * t->loops.iterations[n + 1])
                return false;
    return true;
}

static spyre_status make_one_loop(arena *scratch, uint32_t depth, rows_tile *t)
{
    isa_instruction one = isa_copy(t->tile->instruction);
    for (; t->loops.depth > depth + 1; t->loops.depth--) {
        const uint32_t inmost = t->loops.depth - 1;
        t->loops.iterations[inmost - 1] *= t->loops.iterations[inmost];
        for (uint32_t o = 0; o < one.operand_count; o++) {
            int64_t *stride = &one.operand[o].loop_stride[inmost];
            stride[-1] = stride[0];
            stride[0] = 0;
        }
    }
    return rows_set_tile(scratch, &one, t);
}

spyre_status rows_join_last_iteration(arena *scratch, rows_tiles *tiles, uint32_t first)
{
    const uint32_t half = (tiles->count - first) / 2;
    rows_tile *looped = tiles->items + first;
    if ((tiles->count - first) % 2) return NULL;
    for (uint32_t n = 0; n < half; n++) {
        const uint32_t depth = looped[half + n].loops.depth;
        if (looped[n].loops.depth > depth + 1 && are_one_loop(&looped[n], depth))
            TRY(make_one_loop(scratch, depth, &looped[n]));
        if (!continues(&looped[n], &looped[half + n])) return NULL;
    }
    for (uint32_t n = 0; n < half; n++)
        looped[n].loops.iterations[looped[n].loops.depth - 1]++;
    tiles->count -= half;
    return NULL;
}
