// SPDX-License-Identifier: Apache-2.0
//
// Partial sticks. A reduction of rows that end in part of a stick is two tiles, one of whole sticks
// and one of the rest; here they are one, which knows how many lanes of the last stick enter. So is
// a reduction of the first lanes of every stick, as feature maps have them that are narrower than a
// stick; in fp32 it is two tiles, of the first run and of part of the second:
//
//     sum [8, 2, 64]; sum [8, 24]                      ->  sum [8, 3, 64] to lane 24
//     sum [8, 2, 64]; squares [8, 2, 64]; sum [8, 24]; squares [8, 24]    ->  one of each
//
// Vectors over the first run of every stick take all of it, of which the row fusion computes half:
//
//     add [8, 32], rows 128 bytes apart                ->  add [8, 64], half
//
// The other lanes are masked where vector programs run: gather_rest of card/simd/program_body.h,
// mask_padding of card/codegen/sum_code.c.
#include <string.h>

#include "card/row_fusion/tiles/collect_tiles.h"
#include "isa/dims.h"

// --- The last stick

static bool same_dims(const isa_operand *a, const isa_operand *b, uint32_t dims)
{
    return isa_same_memory(a, b) && memcmp(a->stride, b->stride, dims * sizeof *a->stride) == 0;
}

// The operand without dim `at`, and without lanes.
static bool same_without(const isa_operand *whole, const isa_operand *part, uint32_t dims,
                         uint32_t at)
{
    for (uint32_t d = 0, of = 0; d < dims; d++, of++) {
        if (d == at) of++;
        if (whole->stride[of] != part->stride[d]) return false;
    }
    return isa_same_memory(whole, part);
}

// The dim of sticks that `part` lacks; dim_count when there is none such. No other dim is summed.
static uint32_t find_sticks(const isa_instruction *whole, const isa_instruction *part)
{
    const uint32_t none = whole->dim_count, lanes = none - 1;
    uint32_t at = none;
    for (uint32_t d = 0; d < lanes; d++) {
        if (whole->operand[0].stride[d] != 0) continue;
        if (at != none) return none;
        at = d;
    }
    if (at == none || part->dim_count + 1u != none) return none;
    for (uint32_t d = 0, of = 0; d + 1u < part->dim_count; d++, of++) {
        if (d == at) of++;
        if (whole->extent[of] != part->extent[d]) return none;
    }
    return at;
}

static bool same_elements(const plan_tile *a, const plan_tile *b)
{
    bool same = a->dim_count == b->dim_count &&
                memcmp(a->extent, b->extent, a->dim_count * sizeof *a->extent) == 0;
    for (uint32_t o = 0; o < a->instruction->operand_count && same; o++)
        same = isa_same_memory(&a->instruction->operand[o], &b->instruction->operand[o]) &&
               memcmp(a->stride[o], b->stride[o], a->dim_count * sizeof *a->stride[o]) == 0;
    return same;
}

// Rows that lie side by side may be one dim with their lanes: the same in the dims of `part`, whose
// rows are `lanes` elements of each. False when they are other elements.
static spyre_status in_dims_of(arena *scratch, const plan_tile *rows, const isa_instruction *part,
                               uint32_t lanes, isa_instruction *out_rows, bool *out_same)
{
    plan_tile *alike;
    *out_rows = isa_copy(part);
    out_rows->extent[part->dim_count - 1u] = lanes;
    TRY(plan_make_tile(scratch, out_rows, &alike));
    *out_same = same_elements(rows, alike);
    for (uint32_t o = 0; o < part->operand_count; o++)
        out_rows->operand[o].offset = rows->instruction->operand[o].offset;
    return NULL;
}

// Rows of one stick have no dim of sticks: such ones, of which `part` is the last stick, with its
// dims and one of sticks. Others, as they are.
static spyre_status with_sticks(arena *scratch, const plan_tile *rows, const isa_instruction *part,
                                isa_instruction *out_rows)
{
    const isa_instruction *i = rows->instruction;
    const uint32_t lanes = part->dim_count - 1u;
    isa_instruction dims;
    bool same;
    *out_rows = isa_copy(i);
    if (part->operand[1].format != SPYRE_FORMAT_SEN169_FP16 || lanes == 0 ||
        part->dim_count == ISA_MAX_DIMS || part->extent[lanes] >= SIMD_LANES)
        return NULL;
    TRY(in_dims_of(scratch, rows, part, SIMD_LANES, &dims, &same));
    if (!same) return NULL;
    isa_insert_dim(&dims, lanes, 1);
    dims.operand[1].stride[lanes] = part->operand[1].offset - i->operand[1].offset;
    *out_rows = dims;
    return NULL;
}

// `part` goes on where the sticks of `whole` end, with the first lanes of one more; false where it
// does not.
static spyre_status join_part(arena *scratch, rows_tile *whole, const rows_tile *part,
                              bool *out_joined)
{
    const isa_instruction *i = whole->tile->instruction, *b = part->tile->instruction;
    isa_instruction joined, *const a = &joined;
    *out_joined = false;
    if (!isa_reduces(i->opcode) || whole->rest || !isa_same_work(i, b) ||
        whole->loops.depth != part->loops.depth ||
        !loop_nest_same(&whole->loops, &part->loops, part->loops.depth))
        return NULL;
    TRY(with_sticks(scratch, whole->tile, b, a));
    if (a->dim_count < 2) return NULL;
    const uint32_t at = find_sticks(a, b), left = b->extent[b->dim_count - 1];
    const uint32_t lanes = rows_sums_of(a->operand[1].format);
    if (at == a->dim_count || a->extent[a->dim_count - 1] != lanes || left >= lanes) return NULL;
    const uint32_t sticks = a->extent[at] + 1;
    const int64_t behind = a->operand[1].stride[at] * a->extent[at];
    if (sticks * lanes % SIMD_LANES || b->operand[0].offset != a->operand[0].offset ||
        b->operand[1].offset - a->operand[1].offset != behind ||
        !same_without(&a->operand[0], &b->operand[0], b->dim_count, at) ||
        !same_without(&a->operand[1], &b->operand[1], b->dim_count, at))
        return NULL;
    joined.extent[at] = sticks;
    whole->rest = SIMD_LANES - lanes + left;
    whole->rest_sticks = sticks * lanes / SIMD_LANES;
    *out_joined = true;
    return rows_set_tile(scratch, &joined, whole);
}

// --- Part of every stick

// The operand's first elements, of all cores and iterations, begin sticks.
static bool begins_sticks(const isa_kernel *kernel, const isa_instruction *i, uint32_t o)
{
    const isa_operand *operand = &i->operand[o];
    uint64_t bytes = (uint64_t)operand->offset;
    for (uint32_t d = 0; d + 1u < i->dim_count; d++)
        if (i->extent[d] > 1) bytes |= (uint64_t)operand->stride[d];
    for (uint32_t n = 0; n < ISA_MAX_LOOPS; n++) bytes |= (uint64_t)operand->loop_stride[n];
    if (operand->space == ISA_SPACE_MEMORY && operand->slot != ISA_NO_SLOT)
        for (uint32_t core = 0; core < ISA_CORES; core++)
            bytes |= (uint64_t)kernel->parameters[(size_t)core * kernel->slot_count +
                                                  operand->slot];
    return bytes % SPYRE_STICK_BYTES == 0;
}

// All operands have sticks of which the elements are the first run, or one element for all lanes.
static bool has_first_runs(const isa_kernel *kernel, const isa_instruction *i)
{
    const uint32_t lanes = i->dim_count - 1u;
    if (i->opcode != ISA_VECTOR || i->extent[lanes] != ROWS_RUN) return false;
    for (uint32_t o = 0; o < i->operand_count; o++) {
        const isa_operand *operand = &i->operand[o];
        const bool spreads = o > 0 && operand->stride[lanes] == 0;
        if (operand->format != SPYRE_FORMAT_SEN169_FP16) return false;
        if (!spreads && (operand->stride[lanes] != 2 || !begins_sticks(kernel, i, o))) return false;
    }
    return true;
}

static bool has_first_lanes(const isa_kernel *kernel, const isa_instruction *i)
{
    const uint32_t lanes = i->dim_count - 1u;
    return isa_reduces(i->opcode) && i->extent[lanes] < SIMD_LANES &&
           i->operand[1].format == SPYRE_FORMAT_SEN169_FP16 && i->operand[1].stride[lanes] == 2 &&
           i->operand[0].stride[lanes] == 4 && begins_sticks(kernel, i, 1);
}

spyre_status rows_widen_sticks(arena *scratch, const isa_kernel *kernel, rows_tile *t)
{
    const isa_instruction *i = t->tile->instruction;
    const uint32_t lanes = i->dim_count - 1u;
    if (i->dim_count < 2) return NULL;
    if (has_first_lanes(kernel, i)) {
        t->rest = i->extent[lanes];
        t->rest_of_each = true;
    } else if (has_first_runs(kernel, i)) {
        t->half = true;
    } else {
        return NULL;
    }
    isa_instruction whole = isa_copy(i);
    whole.extent[lanes] = SIMD_LANES;
    return rows_set_tile(scratch, &whole, t);
}

// --- Part of the second run

// Two reductions of the same rows, over all lanes of a run of IEEE_FP32 and over the first ones of
// another; what is summed but lanes is summed by the loops around both.
static bool are_runs(const isa_kernel *kernel, const isa_instruction *a, const isa_instruction *b)
{
    const uint32_t lanes = a->dim_count - 1u, run = rows_sums_of(SPYRE_FORMAT_IEEE_FP32);
    if (a->dim_count != b->dim_count || a->dim_count == ISA_MAX_DIMS) return false;
    for (uint32_t d = 0; d < lanes; d++)
        if (a->extent[d] != b->extent[d] || a->operand[0].stride[d] == 0) return false;
    return a->extent[lanes] == run && b->extent[lanes] < run && a->operand[0].stride[lanes] == 4 &&
           a->operand[1].stride[lanes] == 4 && a->operand[0].offset == b->operand[0].offset &&
           same_dims(&a->operand[0], &b->operand[0], a->dim_count) &&
           same_dims(&a->operand[1], &b->operand[1], a->dim_count) &&
           begins_sticks(kernel, a, 1) && begins_sticks(kernel, b, 1);
}

static spyre_status join_runs(arena *scratch, const isa_kernel *kernel, rows_tile *low,
                              const rows_tile *high, bool *out_joined)
{
    const isa_instruction *i = low->tile->instruction, *b = high->tile->instruction;
    isa_instruction a = isa_copy(i);
    bool same = true;
    *out_joined = false;
    if (!isa_reduces(i->opcode) || !isa_same_work(i, b) || low->rest ||
        low->loops.depth != high->loops.depth ||
        !loop_nest_same(&low->loops, &high->loops, high->loops.depth) ||
        i->operand[1].format != SPYRE_FORMAT_IEEE_FP32)
        return NULL;
    if (i->dim_count != b->dim_count)
        TRY(in_dims_of(scratch, low->tile, b, rows_sums_of(SPYRE_FORMAT_IEEE_FP32), &a, &same));
    *out_joined = same && are_runs(kernel, &a, b);
    if (!*out_joined) return NULL;
    const uint32_t lanes = a.dim_count - 1u;
    low->rest = a.extent[lanes] + b->extent[lanes];
    low->rest_of_each = true;
    const int64_t apart = b->operand[1].offset - a.operand[1].offset;
    isa_insert_dim(&a, lanes, 2);
    a.operand[1].stride[lanes] = apart;
    return rows_set_tile(scratch, &a, low);
}

enum { MOST_TURNS = 4 };                    // reductions of the same rows that take turns

// Neither reduction reads or writes what the other writes.
static bool may_pass(const rows_tile *earlier, const rows_tile *t)
{
    rows_tile a = *earlier, b = *t;
    rows_find_reach(&a);
    rows_find_reach(&b);
    return !rows_writes_into(&a, &b, 0) && !rows_writes_into(&a, &b, 1) &&
           !rows_writes_into(&b, &a, 1);
}

spyre_status rows_join_reduction(arena *scratch, const isa_kernel *kernel, rows_tiles *tiles,
                                 uint32_t own, const rows_tile *t, bool *out_joined)
{
    const uint32_t first = tiles->count - own > MOST_TURNS ? tiles->count - MOST_TURNS : own;
    *out_joined = false;
    for (uint32_t n = tiles->count; n-- > first && isa_reduces(t->tile->instruction->opcode);) {
        rows_tile *earlier = &tiles->items[n];
        if (!isa_reduces(earlier->tile->instruction->opcode)) return NULL;
        TRY(join_part(scratch, earlier, t, out_joined));
        if (!*out_joined) TRY(join_runs(scratch, kernel, earlier, t, out_joined));
        if (*out_joined || !may_pass(earlier, t)) return NULL;
    }
    return NULL;
}
