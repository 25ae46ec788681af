// SPDX-License-Identifier: Apache-2.0
//
// Gathers and scatters: one dim of the view by a view of indices, linear in the tile's variables.
#include <string.h>

#include "ktir/lower_access.h"

typedef struct {
    const ktir_attribute *views;
    uint32_t own, dim;                  // variables; the dim of the view that is looked up
    int64_t factor[KTIR_MOST_NAMES];    // of the index along variables
} indirection;

static spyre_status indirect(lowering *w, const ktir_op *op, access *a, indirection *g,
                             access *index)
{
    const ktir_map *map = ktir_find(w->m, a->op, KTIR_KEY_SUBSCRIPTS)->map;
    uint32_t result = 0, found = 0, first_view;
    g->views = ktir_find(w->m, a->op, KTIR_KEY_VIEWS);
    g->own = ktir_find(w->m, a->op, KTIR_KEY_VARIABLES)->count;
    first_view = 1 + map->dims - g->own;
    a->address = a->v.first;
    memset(a->stride, 0, sizeof a->stride);
    for (uint32_t d = 0; d < g->views->count; d++) {
        bool looked_up = g->views->list[d] >= 0;
        const access *of = a;
        uint32_t dims = 1;
        if (looked_up) {
            if (found++) return LOWER_NO(w, a->op, "indices in more than one dim");
            g->dim = d;
            *index = (access){.op = a->op, .rank = a->rank};
            TRY(view_find(w, a->op, first_view + (uint32_t)g->views->list[d], &index->v));
            index->address = index->v.first;
            dims = index->v.rank;
            of = index;
        }
        for (uint32_t n = 0; n < dims; n++, result++) {
            int64_t factor[KTIR_MOST_NAMES] = {0}, low = 0, high = 0;
            uint32_t at = looked_up ? n : d;
            access *to = looked_up ? index : a;
            lowered_index x;
            TRY(access_subscript(w, a, map->results[result], g->own, &x, factor));
            int64_t bytes = of->v.stride[at] * of->v.element;
            for (uint32_t k = 0; k < a->rank; k++) {
                int64_t f = factor[a->permutation[k]], first = f * a->least[k];
                int64_t last = f * (a->least[k] + a->extent[k] - 1);
                low += first < last ? first : last;
                high += first < last ? last : first;
                to->stride[k] += f * bytes;
                for (uint32_t c = 0; c < ISA_CORES; c++) to->address.at[c] += first * bytes;
            }
            TRY(access_check_bounds(w, of, &x, at, low, high));
            access_advance(to, &x, bytes, -of->v.origin[at]);
        }
    }
    return found == 1 ? NULL : LOWER_NO(w, op, "no indices");
}

// The indices of all points as int32 in LX.
static spyre_status load_indices(lowering *w, const ktir_op *op, const access *a, const access *ix,
                                 lowered_tensor *out)
{
    bool wide = ix->v.element == 8;
    spyre_format format = wide ? SPYRE_FORMAT_IEEE_INT64 : SPYRE_FORMAT_IEEE_INT32;
    lowered_tensor loaded;
    access dense = *ix;
    int64_t size[KTIR_MOST_RANK];
    // Variables that the index does not depend on are not loaded.
    for (uint32_t k = 0; k < a->rank; k++) size[k] = ix->stride[k] ? a->extent[k] : 1;
    TRY(lower_scratch(w, op, format, a->rank, size, lower_number(w, op), &loaded));
    TRY(access_move(w, op, ISA_LOAD, &dense, &loaded));
    *out = loaded;
    if (wide) {
        TRY(lower_scratch(w, op, SPYRE_FORMAT_IEEE_INT32, a->rank, size, lower_number(w, op),
                          out));
        TRY(lower_copy(w, op, out, &loaded));
    }
    for (uint32_t k = 0; k < a->rank; k++)
        if (!ix->stride[k]) out->stride[k] = 0;
    return NULL;
}

spyre_status access_move_rows(lowering *w, const ktir_op *op, isa_opcode opcode, access *a,
                              const lowered_tensor *t)
{
    uint32_t table = isa_row_operand(opcode);
    indirection g = {0};
    access index;
    lowered_tensor rows;
    TRY(view_find(w, a->op, 0, &a->v));
    TRY(access_points(w, t, a));
    TRY(indirect(w, op, a, &g, &index));
    TRY(load_indices(w, op, a, &index, &rows));
    lowered_tile tile = {.i = {.opcode = opcode, .operand_count = 3,
                               .row_stride = a->v.stride[g.dim] * a->v.element,
                               .row_count = a->v.size[g.dim]},
                         .rank = t->rank};
    TRY(access_operand(w, op, a, t->format, &tile.i.operand[table]));
    tile.i.operand[1 - table] = (isa_operand){.format = t->format, .offset = t->offset};
    tile.i.operand[2] = (isa_operand){.format = rows.format, .offset = rows.offset};
    for (uint32_t k = 0; k < t->rank; k++) {
        tile.size[k] = t->size[k];
        tile.stride[1 - table][k] = t->stride[k];
        tile.stride[table][k] = a->stride[k];
        tile.stride[2][k] = rows.stride[k];
    }
    return lower_tile(w, op, &tile);
}
