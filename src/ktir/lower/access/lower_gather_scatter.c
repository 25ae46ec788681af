// SPDX-License-Identifier: Apache-2.0
//
// Gathers and scatters: dims of the view that are looked up in views of indices, linear in the
// tile's variables. One dim is rows of the table; several become one number in LX, the element's
// distance from the view's first one:
//
//     sum of clamp(index[d], 0, size[d] - 1) * stride[d], less 2^30 for each that was clamped
//
// so that an index outside of its own dim is no row of the table, and faults.
#include <string.h>

#include "ktir/lower/access/lower_access.h"

#define OUTSIDE ((int64_t)1 << 30)

enum { MOST_BLOCKS = 1 << 12 };

typedef struct {
    const ktir_attribute *views;
    uint32_t own, found;                // variables; dims of the view that are looked up
    uint32_t dim[KTIR_MOST_RANK];
    access index[KTIR_MOST_RANK];       // where the indices are
} indirection;

static spyre_status indirect(lowering *w, const ktir_op *op, access *a, indirection *g)
{
    const ktir_map *map = ktir_find(w->m, a->op, KTIR_KEY_SUBSCRIPTS)->map;
    uint32_t result = 0, first_view;
    g->views = ktir_find(w->m, a->op, KTIR_KEY_VIEWS);
    g->own = ktir_find(w->m, a->op, KTIR_KEY_VARIABLES)->count;
    first_view = 1 + map->dims - g->own;
    a->address = a->v.first;
    memset(a->stride, 0, sizeof a->stride);
    for (uint32_t d = 0; d < g->views->count; d++) {
        bool looked_up = g->views->list[d] >= 0;
        const access *of = a;
        access *index = &g->index[g->found];
        uint32_t dims = 1;
        if (looked_up) {
            g->dim[g->found++] = d;
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
    return g->found ? NULL : LOWER_NO(w, op, "no indices");
}

// The indices of all points as int32 in LX.
static spyre_status load_indices(lowering *w, const ktir_op *op, const access *a, const access *ix,
                                 lowered_tensor *out)
{
    bool wide = ix->v.element == 8;
    spyre_format format = wide ? SPYRE_FORMAT_IEEE_INT64 : SPYRE_FORMAT_IEEE_INT32;
    lowered_tensor loaded;
    access dense = *ix;
    dense.opcode = ISA_LOAD;
    int64_t size[KTIR_MOST_RANK];
    // Variables that the index does not depend on are not loaded.
    for (uint32_t k = 0; k < a->rank; k++) size[k] = ix->stride[k] ? a->extent[k] : 1;
    TRY(lower_scratch(w, op, format, (lowered_sizes){a->rank, size}, lower_number(w, op), &loaded));
    TRY(access_move(w, op, &dense, &loaded));
    *out = loaded;
    if (wide) {
        TRY(lower_scratch(w, op, SPYRE_FORMAT_IEEE_INT32, (lowered_sizes){a->rank, size},
                          lower_number(w, op), out));
        TRY(lower_copy(w, op, out, &loaded));
    }
    for (uint32_t k = 0; k < a->rank; k++)
        if (!ix->stride[k]) out->stride[k] = 0;
    return NULL;
}

// --- Several dims

// target = a function of an int32 tensor and a number.
static spyre_status with_number(lowering *w, const ktir_op *op, opfunc function,
                                const lowered_tensor *target, const lowered_tensor *t,
                                int64_t number)
{
    const lowered_tensor constant = lower_constant(SPYRE_FORMAT_IEEE_INT32, (double)number);
    return lower_vector(w, op, function, target, (const lowered_tensor *[]){t, &constant}, 2);
}

// One number for all points along variables that no index depends on.
static spyre_status int32_tensor(lowering *w, const ktir_op *op, const access *a,
                                 const indirection *g, lowered_tensor *out)
{
    int64_t size[KTIR_MOST_RANK];
    for (uint32_t k = 0; k < a->rank; k++) {
        bool varies = false;
        for (uint32_t n = 0; n < g->found; n++) varies = varies || g->index[n].stride[k];
        size[k] = varies ? a->extent[k] : 1;
    }
    TRY(lower_scratch(w, op, SPYRE_FORMAT_IEEE_INT32, (lowered_sizes){a->rank, size},
                      lower_number(w, op), out));
    out->element = KTIR_I32;
    return NULL;
}

static spyre_status add_to(lowering *w, const ktir_op *op, const lowered_tensor *sum,
                           const lowered_tensor *t)
{
    return lower_vector(w, op, OPFUNC_ADD, sum, (const lowered_tensor *[]){sum, t}, 2);
}

// What the n-th index adds to the distance, and OUTSIDE where it leaves its dim of the view.
static spyre_status add_dim(lowering *w, const ktir_op *op, const access *a, const indirection *g,
                            uint32_t n, const lowered_tensor *sum)
{
    lowered_tensor index, inside, outside;
    uint32_t dim = g->dim[n];
    TRY(load_indices(w, op, a, &g->index[n], &index));
    TRY(int32_tensor(w, op, a, g, &inside));
    TRY(int32_tensor(w, op, a, g, &outside));
    TRY(with_number(w, op, OPFUNC_MAXIMUM, &inside, &index, 0));
    TRY(with_number(w, op, OPFUNC_MINIMUM, &inside, &inside, a->v.size[dim] - 1));
    const lowered_tensor *both[] = {&index, &inside};
    TRY(lower_vector(w, op, OPFUNC_NOTEQUAL, &outside, both, 2));
    TRY(with_number(w, op, OPFUNC_MUL, &outside, &outside, -OUTSIDE));
    TRY(with_number(w, op, OPFUNC_MUL, &inside, &inside, a->v.stride[dim]));
    TRY(add_to(w, op, sum, &inside));
    return add_to(w, op, sum, &outside);
}

// The distances of all points; *out_count is one more than the largest.
static spyre_status combine_indices(lowering *w, const ktir_op *op, const access *a,
                                    const indirection *g, lowered_tensor *out, int64_t *out_count)
{
    const lowered_tensor zero = lower_constant(SPYRE_FORMAT_IEEE_INT32, 0);
    *out_count = 1;
    // So many times -2^30 do not come to 0 in 32 bits.
    if (g->found > 3) return LOWER_NO(w, op, "a look-up in more than 3 dims");
    TRY(int32_tensor(w, op, a, g, out));
    TRY(lower_copy(w, op, out, &zero));
    for (uint32_t n = 0; n < g->found; n++) {
        int64_t stride = a->v.stride[g->dim[n]], size = a->v.size[g->dim[n]];
        if (stride < 0) return LOWER_NO(w, op, "a look-up along a negative stride");
        *out_count += (size - 1) * stride;
        TRY(add_dim(w, op, a, g, n, out));
    }
    for (uint32_t k = 0; k < a->rank; k++)
        if (out->size[k] != a->extent[k]) out->stride[k] = 0;
    if (*out_count < OUTSIDE) return NULL;
    return LOWER_NO(w, op, "a look-up in several dims of 2^30 elements and more");
}

static spyre_status move_rows(lowering *w, const ktir_op *op, access *a, const lowered_tensor *t)
{
    uint32_t table = isa_row_operand(a->opcode);
    indirection g = {0};
    lowered_tensor rows;
    TRY(view_find(w, a->op, 0, &a->v));
    TRY(access_points(w, t, a));
    TRY(indirect(w, op, a, &g));
    int64_t stride = a->v.stride[g.dim[0]], count = a->v.size[g.dim[0]];
    if (g.found > 1) stride = 1;
    TRY(g.found > 1 ? combine_indices(w, op, a, &g, &rows, &count)
                    : load_indices(w, op, a, &g.index[0], &rows));
    lowered_tile tile = {.i = {.opcode = a->opcode, .operand_count = 3,
                               .row_stride = stride * a->v.element, .row_count = count},
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

// --- Blocks

// The divisors of quotients that variables of the tile occur in, by variable.
static void find_divisors(const ktir_expr *e, int64_t divisor, int64_t *of)
{
    if (!e || e->kind == KTIR_EXPR_NUMBER) return;
    if (e->kind == KTIR_EXPR_NAME) {
        if (divisor && (!of[e->number] || divisor < of[e->number])) of[e->number] = divisor;
        return;
    }
    bool divides = e->kind != KTIR_EXPR_ADD && e->kind != KTIR_EXPR_MUL;
    if (divides && e->right->kind == KTIR_EXPR_NUMBER) divisor = e->right->number;
    find_divisors(e->left, divisor, of);
    find_divisors(e->right, divisor, of);
}

// A tile with indices block by block, none of which lies across a multiple of a divisor of dim
// `first` or behind it.
static spyre_status move_blocks(lowering *w, const ktir_op *op, const access *a,
                                const lowered_tensor *t, const int64_t *divisor, uint32_t first)
{
    access whole = *a;
    TRY(access_points(w, t, &whole));
    for (uint32_t k = first; k < t->rank; k++) {
        int64_t by = divisor[whole.permutation[k]], done = 0;
        if (by < 1 || t->size[k] / by > MOST_BLOCKS) continue;
        for (int64_t now; done < t->size[k]; done += now) {
            int64_t at = whole.least[k] + done, over = at % by;
            access part = *a;
            lowered_tensor block = *t;
            if (over < 0) over += by;
            now = by - over < t->size[k] - done ? by - over : t->size[k] - done;
            part.from[k] += done;
            block.size[k] = now;
            block.offset += done * t->stride[k];
            TRY(move_blocks(w, op, &part, &block, divisor, k + 1));
        }
        return NULL;
    }
    return move_rows(w, op, &whole, t);
}

spyre_status access_move_box(lowering *w, const ktir_op *op, const access *a,
                             const lowered_tensor *t)
{
    const ktir_map *map = ktir_find(w->m, a->op, KTIR_KEY_SUBSCRIPTS)->map;
    int64_t divisor[KTIR_MOST_NAMES] = {0};
    for (uint32_t r = 0; r < map->count; r++) find_divisors(map->results[r], 0, divisor);
    return move_blocks(w, op, a, t, divisor, 0);
}
