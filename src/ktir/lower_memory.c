// SPDX-License-Identifier: Apache-2.0
//
// Loads and stores: an instruction a part of memory that the tile lies in.
#include "ktir/lower_access.h"

// One instruction for the part of the tile that lies in `v`; *out_count elements.
static spyre_status move_part(lowering *w, const ktir_op *op, isa_opcode opcode, access *a,
                              const int64_t *base, const lowered_tensor *t, int64_t *out_count)
{
    const view *v = &a->v;
    lowered_tensor part = *t;
    a->address = v->first;
    *out_count = 1;
    for (uint32_t k = 0; k < a->rank; k++) {
        uint32_t d = a->permutation[k];
        int64_t low = base[d] + a->least[k], from = low, to = low + a->extent[k] - 1;
        if (from < v->origin[d]) from = v->origin[d];
        if (to >= v->origin[d] + v->size[d]) to = v->origin[d] + v->size[d] - 1;
        if (from > to) {
            *out_count = 0;
            return NULL;
        }
        part.size[k] = to - from + 1;
        part.offset += (from - low) * t->stride[k];
        a->stride[k] = v->stride[d] * v->element;
        for (uint32_t c = 0; c < ISA_CORES; c++)
            a->address.at[c] += (from - v->origin[d]) * a->stride[k];
        *out_count *= part.size[k];
    }
    return access_move(w, op, opcode, a, &part);
}

// A tile over several parts: where it begins is known and the same on all cores.
static spyre_status move_parts(lowering *w, const ktir_op *op, isa_opcode opcode, access *a,
                               const views *all, const lowered_tensor *t)
{
    int64_t base[KTIR_MOST_RANK], wanted = 1, moved = 0;
    for (uint32_t d = 0; d < a->rank; d++) {
        lowered_index x;
        TRY(access_base(w, a, d, &x));
        wanted *= t->size[d];
        if (lower_uniform(w, &x, &base[d])) continue;
        w->wants_unroll = true;
        return LOWER_NO(w, a->op, "another place in parts of memory for every core");
    }
    for (uint32_t p = 0; p < all->count; p++) {
        int64_t count;
        a->v = all->part[p];
        TRY(move_part(w, op, opcode, a, base, t, &count));
        moved += count;
    }
    if (moved == wanted) return NULL;
    return ktir_error(w->m, a->op, SPYRE_DEVICE_FAULT,
                      "%lld of its %lld coordinates are in the parts of the view",
                      (long long)moved, (long long)wanted);
}

static spyre_status move_tile(lowering *w, const ktir_op *op, isa_opcode opcode, access *a,
                              const lowered_tensor *t)
{
    views all;
    TRY(view_find_parts(w, a->op, 0, &all));
    TRY(access_points(w, t, a));
    a->v = all.part[0];
    if (all.count > 1) return move_parts(w, op, opcode, a, &all, t);
    TRY(access_direct(w, a));
    return access_move(w, op, opcode, a, t);
}

spyre_status lower_load(lowering *w, const ktir_op *op)
{
    const ktir_type *type = ktir_result_type(w->m, op);
    access a = {.op = view_maker(w, op, 0)};
    int64_t size[KTIR_MOST_RANK];
    lowered_tensor *t;
    for (uint32_t d = 0; d < type->rank; d++) {
        size[d] = type->size[d];
        if (size[d] == KTIR_DYNAMIC) size[d] = ktir_operand_type(w->m, op, 0)->size[d];
        if (size[d] == KTIR_DYNAMIC) return LOWER_NO(w, op, "a tile of unknown size");
    }
    TRY(lower_new(w, op, op->first_result, type->element, type->rank, size, &t));
    if (a.op->opcode != KTIR_OP_INDIRECT_TILE) return move_tile(w, op, ISA_LOAD, &a, t);
    return access_move_rows(w, op, ISA_GATHER, &a, t);
}

spyre_status lower_store(lowering *w, const ktir_op *op)
{
    access a = {.op = view_maker(w, op, 1)};
    lowered_tensor t;
    TRY(lower_in_lx(w, op, lower_operand(w, op, 0)->tensor, &t));
    if (a.op->opcode == KTIR_OP_INDIRECT_TILE)
        return access_move_rows(w, op, ISA_SCATTER, &a, &t);
    return move_tile(w, op, ISA_STORE, &a, &t);
}
