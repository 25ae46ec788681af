// SPDX-License-Identifier: Apache-2.0
//
// Loads and stores: an instruction a part of memory that the tile lies in.
//
// A tensor that takes more than half of LX is not loaded where all that becomes of it, element by
// element, is one store: then the store makes it slice by slice.
#include <string.h>

#include "ktir/lower/access/lower_access.h"

// Bytes of a slice; slices of a tensor; tensors that one is made of.
enum { SLICE_BYTES = 128 << 10, MOST_SLICES = 1 << 12, MOST_READ = 16 };

// One instruction for the part of the tile that lies in `v`; *out_count elements.
static spyre_status move_part(lowering *w, const ktir_op *op, access *a, const int64_t *base,
                              const lowered_tensor *t, int64_t *out_count)
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
    return v->in_lx ? place_move(w, op, a, &part) : access_move(w, op, a, &part);
}

// A tile over several parts that begins at `base`, the same on all active cores.
static spyre_status move_parts_at(lowering *w, const ktir_op *op, access *a, const views *all,
                                  const int64_t *base, const lowered_tensor *t)
{
    const ktir_set *set = access_set(w, a);
    int64_t wanted = 1, moved = 0;
    for (uint32_t d = 0; d < a->rank; d++) wanted *= t->size[d];
    for (uint32_t p = 0; p < all->count; p++) {
        int64_t count;
        a->v = all->part[p];
        if (set) TRY(access_move_points_in_part(w, op, a, base, t, &count));
        else TRY(move_part(w, op, a, base, t, &count));
        moved += count;
    }
    if (moved == wanted) return NULL;
    return ktir_error(w->m, a->op, SPYRE_DEVICE_FAULT,
                      "%lld of its %lld coordinates are in the parts of the view",
                      (long long)moved, (long long)wanted);
}

// Cores whose tiles begin elsewhere go on their own, those at one place together.
static spyre_status move_parts(lowering *w, const ktir_op *op, access *a, const views *parts,
                               const lowered_tensor *t)
{
    lowered_index x[KTIR_MOST_RANK];
    int64_t base[KTIR_MOST_RANK];
    uint32_t all = w->active;
    for (uint32_t d = 0; d < a->rank; d++) {
        TRY(access_base(w, a, d, &x[d]));
        for (uint32_t l = 0; l < ISA_MAX_LOOPS; l++) {
            if (!x[d].loop[l]) continue;
            w->wants_unroll = true;
            return LOWER_NO(w, a->op, "another place in parts of memory in every iteration");
        }
    }
    for (uint32_t left = all; left;) {
        uint32_t first = (uint32_t)__builtin_ctz(left), cores = 0;
        for (uint32_t d = 0; d < a->rank; d++) base[d] = x[d].at[first];
        for (uint32_t c = first; c < ISA_CORES; c++) {
            bool same = left >> c & 1;
            for (uint32_t d = 0; d < a->rank; d++) same = same && x[d].at[c] == base[d];
            if (same) cores |= 1u << c;
        }
        if (cores != w->active) TRY(lower_meet(w, op, cores));
        TRY(move_parts_at(w, op, a, parts, base, t));
        left &= ~cores;
    }
    return w->active == all ? NULL : lower_meet(w, op, all);
}

static spyre_status move_tile(lowering *w, const ktir_op *op, access *a, const lowered_tensor *t)
{
    views all;
    const ktir_set *set = access_set(w, a);
    TRY(view_find_parts(w, a->op, 0, &all));
    a->v = all.part[0];
    a->distributed = all.distributed;
    if (set) access_order(w, t, a);
    else TRY(access_points(w, t, a));
    if (set && all.count == 1) return access_move_points(w, op, a, t);
    if (all.count > 1) return move_parts(w, op, a, &all, t);
    TRY(access_direct(w, a));
    return a->v.in_lx ? place_move(w, op, a, t) : access_move(w, op, a, t);
}

static spyre_status move_any(lowering *w, const ktir_op *op, bool loads, access *a,
                             const lowered_tensor *t)
{
    const bool indirect = a->op->opcode == KTIR_OP_INDIRECT_TILE;
    if (indirect) a->opcode = loads ? ISA_GATHER : ISA_SCATTER;
    else a->opcode = loads ? ISA_LOAD : ISA_STORE;
    if (!indirect) return move_tile(w, op, a, t);
    TRY(view_find(w, a->op, 0, &a->v));
    access_order(w, t, a);
    return access_set(w, a) ? access_move_points(w, op, a, t) : access_move_box(w, op, a, t);
}

// --- Slices

static bool is_by_element(const ktir_op *op)
{
    ktir_form form = ktir_op_describe(op->opcode)->form;
    return op->opcode != KTIR_OP_BITCAST &&
           form > KTIR_FORM_CONSTANT && form <= KTIR_FORM_CAST;
}

// Operations that may stand between a load and the store that does it: none that touches memory.
static bool may_pass(const ktir_op *op)
{
    ktir_form form = ktir_op_describe(op->opcode)->form;
    return op->region_count == 0 && form != KTIR_FORM_STORE && form != KTIR_FORM_TILE_REDUCE &&
           form != KTIR_FORM_END;
}

// True when all that becomes of `value` is elements of the next store of its region.
static bool ends_in_store(const lowering *w, uint32_t value)
{
    const ktir_module *m = w->m;
    uint32_t made = m->values.items[value].definition, parent = w->parent[made];
    uint32_t store = m->ops.items[made].end;
    while (store < m->ops.count && w->parent[store] == parent && may_pass(&m->ops.items[store]))
        store++;
    if (store == m->ops.count || w->parent[store] != parent ||
        ktir_op_describe(m->ops.items[store].opcode)->form != KTIR_FORM_STORE)
        return false;
    bool used = false;
    for (uint32_t n = made + 1; n < m->ops.count; n++)
        for (uint32_t o = 0; o < m->ops.items[n].operand_count; o++) {
            const ktir_op *op = &m->ops.items[n];
            if (ktir_operand(m, op, o) != value) continue;
            bool stored = n == store && o == 0;
            if (!stored && (n > store || !is_by_element(op) ||
                            !ends_in_store(w, op->first_result)))
                return false;
            used = true;
        }
    return used;
}

static bool is_large(const int64_t *size, uint32_t rank, ktir_element element)
{
    double bytes = ktir_element_describe(element)->bytes;
    for (uint32_t d = 0; d < rank; d++) bytes *= (double)size[d];
    return bytes > ISA_LX_BYTES / 2;
}

typedef struct {
    const ktir_op *store;
    uint32_t rank;
    int64_t from[KTIR_MOST_RANK], size[KTIR_MOST_RANK];
    uint32_t read_count;
    uint16_t read[MOST_READ];           // arguments that it was loaded from, by other tiles
} slice;

static spyre_status make_slice(lowering *w, slice *s, uint32_t value, lowered_tensor *out)
{
    const lowered_cell *cell = &w->cells[value];
    const ktir_value *made = &w->m->values.items[value];
    ktir_element element = made->type->element;
    if (!cell->sliced) {
        *out = *cell->tensor;
        memcpy(out->size, s->size, sizeof out->size);
        return NULL;
    }
    const ktir_op *op = &w->m->ops.items[made->definition];
    lowered_tensor inputs[3];
    const lowered_tensor *in[3] = {&inputs[0], &inputs[1], &inputs[2]};
    bool loads = op->opcode == KTIR_OP_LOAD;
    for (uint32_t n = 0; !loads && n < op->operand_count; n++)
        TRY(make_slice(w, s, ktir_operand(w->m, op, n), &inputs[n]));
    TRY(lower_scratch(w, s->store, ktir_element_describe(element)->format,
                      (lowered_sizes){s->rank, s->size}, lower_number(w, s->store), out));
    out->element = element;
    if (!loads) return lower_elements(w, op, op->opcode, out, in, op->operand_count);
    access a = {.op = ktir_maker(w->m, op, 0)};
    memcpy(a.from, s->from, sizeof a.from);
    TRY(move_any(w, op, true, &a, out));
    if (a.op == ktir_maker(w->m, s->store, 1)) return NULL;
    if (s->read_count == MOST_READ) return LOWER_NO(w, op, "more than %d tensors", MOST_READ);
    s->read[s->read_count++] = a.v.argument;
    return NULL;
}

static spyre_status store_slice(lowering *w, slice *s)
{
    lowered_tensor t;
    lowered_heap before = w->heap;
    access a = {.op = ktir_maker(w->m, s->store, 1)};
    memcpy(a.from, s->from, sizeof a.from);
    s->read_count = 0;
    TRY(make_slice(w, s, ktir_operand(w->m, s->store, 0), &t));
    TRY(move_any(w, s->store, false, &a, &t));
    w->heap = before;
    for (uint32_t n = 0; n < s->read_count; n++)
        if (s->read[n] == a.v.argument)
            return LOWER_NO(w, s->store, "a tensor larger than LX goes where others of its "
                            "elements come from");
    return NULL;
}

// Slices are whole in their last dims; along one dim they are so many as fit, along those before 1.
static spyre_status store_slices(lowering *w, const ktir_op *op)
{
    const int64_t *size = lower_operand(w, op, 0)->sliced;
    slice s = {.store = op, .rank = ktir_operand_type(w->m, op, 0)->rank};
    int64_t bytes = 8, count = 1;
    uint32_t cut = s.rank - 1;
    while (cut > 0 && bytes * size[cut] <= SLICE_BYTES) bytes *= size[cut--];
    memcpy(s.size, size, s.rank * sizeof *size);
    for (uint32_t d = 0; d < cut; d++) s.size[d] = 1;
    if (s.size[cut] > SLICE_BYTES / bytes) s.size[cut] = SLICE_BYTES / bytes;
    int64_t step = s.size[cut];
    for (uint32_t d = 0; d <= cut; d++)
        count *= (size[d] + s.size[d] - 1) / s.size[d];
    if (count > MOST_SLICES)
        return LOWER_NO(w, op, "a tensor of %lld slices that fit LX", (long long)count);
    for (int64_t n = 0; n < count; n++) {
        int64_t left = size[cut] - s.from[cut];
        s.size[cut] = left < step ? left : step;
        TRY(store_slice(w, &s));
        s.from[cut] += step;
        for (uint32_t d = cut; d > 0 && s.from[d] >= size[d]; d--) {
            s.from[d] = 0;
            s.from[d - 1]++;
        }
    }
    return NULL;
}

spyre_status lower_load(lowering *w, const ktir_op *op)
{
    const ktir_type *type = ktir_result_type(w->m, op);
    access a = {.op = ktir_maker(w->m, op, 0)};
    int64_t size[KTIR_MOST_RANK];
    lowered_tensor *t;
    for (uint32_t d = 0; d < type->rank; d++) {
        size[d] = type->size[d];
        if (size[d] == KTIR_DYNAMIC) size[d] = ktir_operand_type(w->m, op, 0)->size[d];
        if (size[d] == KTIR_DYNAMIC) return LOWER_NO(w, op, "a tile of unknown size");
    }
    if (is_large(size, type->rank, type->element) && ends_in_store(w, op->first_result)) {
        int64_t *sliced = ARENA_NEW(w->memory, int64_t, KTIR_MOST_RANK);
        TRY_ALLOC(sliced);
        memcpy(sliced, size, type->rank * sizeof *size);
        w->cells[op->first_result] = (lowered_cell){.sliced = sliced};
        return NULL;
    }
    TRY(lower_new(w, op, op->first_result, type->element, (lowered_sizes){type->rank, size}, &t));
    return move_any(w, op, true, &a, t);
}

spyre_status lower_store(lowering *w, const ktir_op *op)
{
    access a = {.op = ktir_maker(w->m, op, 1)};
    lowered_tensor t;
    if (lower_operand(w, op, 0)->sliced) return store_slices(w, op);
    TRY(lower_in_lx(w, op, lower_operand(w, op, 0)->tensor, &t));
    return move_any(w, op, false, &a, &t);
}
