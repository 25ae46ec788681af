// SPDX-License-Identifier: Apache-2.0
#include "front/ir/lx_slices.h"

#include <string.h>

#include "base/integer.h"
#include "bundle/interpret.h"

int64_t lx_limit_bytes(const loop_graph *loops)
{
    int64_t bytes = (int64_t)(BUNDLE_LX_BYTES * (1 - loops->settings.dxp_lx_frac_avail));
    return bytes / SPYRE_STICK_BYTES * SPYRE_STICK_BYTES;
}

// --- Any division

// What loops of the op, and counted loops, walk of a buffer's dims.
typedef struct {
    int64_t reach[LOOP_MAX_DIMS]; // the last index in each dim, of all tiles
    int64_t last[LOOP_MAX_DIMS];  // of one tile
    bool tiled[LOOP_MAX_DIMS];
} dim_walk;

static const char *find_walk(const loop_graph *loops, const loop_op *op, const loop_access *access,
                             dim_walk *out)
{
    static const char *const leaves = "an op walks from one dim of it into the next";
    const loop_buffer *b = &loops->buffers.items[access->buffer];
    if (!loop_find_reach(b, op, access, out->reach, out->last)) return leaves;
    memcpy(out->reach, out->last, sizeof out->reach);
    for (uint32_t t = 0; t < op->tile_depth; t++) {
        const loop_tiles *tiles = &loops->tiles.items[op->tiles[t]];
        if (!access->tile_stride[t]) continue;
        if (!tiles->unrolled) return "a loop of the bundle walks it";
        uint32_t d = loop_dim_at(b, access->tile_stride[t]);
        out->reach[d] += access->tile_stride[t] / b->dim[d].stride * (tiles->count - 1);
        out->tiled[d] = true;
    }
    for (uint32_t d = 0; d < b->dim_count; d++)
        if (out->reach[d] >= b->dim[d].extent) return leaves;
    return NULL;
}

// Why slices of loop v are not slices of the dim that it walks.
static const char *why_not_cut(const loop_op *op, const loop_access *access, const loop_buffer *b,
                               const division_sizes *sizes, const dim_walk *walk, uint32_t v)
{
    uint32_t d = loop_dim_at(b, access->stride[v]);
    int64_t step = access->stride[v] / b->dim[d].stride;
    if (sizes->size[v] > op->extent[v] && d != b->stick) return "its slices are of unequal length";
    if (walk->tiled[d]) return "tiles and cores cut the same dim of it";
    if (access == op->operand && loop_tap_of(op, b, v) != LOOP_NO_DIM)
        return "windows walk a divided dim of it";
    if (walk->last[d] - step * (op->extent[v] - 1) >= step)
        return "a core reaches into its neighbour's slice";
    return NULL;
}

lx_walk lx_walk_of(const loop_graph *loops, const loop_op *op, const division_sizes *sizes,
                   uint32_t k)
{
    const loop_access *access = &op->operand[k];
    const loop_buffer *b = &loops->buffers.items[access->buffer];
    dim_walk walk = {{0}, {0}, {false}};
    lx_walk out = {.why = find_walk(loops, op, access, &walk)};
    if (op->table && k == 0) out.why = "an index is read from memory";
    if (loop_is_table(op, access)) out.why = "an index chooses its rows";
    for (uint32_t v = 0; v < op->var_count; v++) {
        out.dim[v] = LOOP_NO_DIM;
        if (access->stride[v] && b->dim_count) {
            out.dim[v] = (uint8_t)loop_dim_at(b, access->stride[v]);
            out.why_uncut[v] = why_not_cut(op, access, b, sizes, &walk, v);
        } else if (k + 1 == op->operand_count && op->op != OPFUNC_SHUFFLE) {
            out.why_uncut[v] = "its cores share every result";
        }
    }
    return out;
}

// --- A division

lx_slices lx_slices_undivided(void)
{
    lx_slices out = {.cores = 1};
    memset(out.slices, 1, sizeof out.slices);
    memset(out.core_stride, 1, sizeof out.core_stride);
    return out;
}

lx_slices lx_slices_under(const loop_graph *loops, const loop_op *op, const lx_walk *walk,
                          const division_sizes *sizes, const division *d, uint32_t k)
{
    const loop_access *access = &op->operand[k];
    const loop_buffer *b = &loops->buffers.items[access->buffer];
    lx_slices out = lx_slices_undivided();
    out.cores = (uint8_t)division_cores(op, d);
    out.why = walk->why;
    for (uint32_t v = 0; v < op->var_count && !out.why; v++) {
        uint8_t dim = walk->dim[v];
        if (d->split[v] == 1) continue;
        out.why = walk->why_uncut[v];
        if (dim == LOOP_NO_DIM) continue;
        if (out.slices[dim] > 1) out.why = "two divided loops walk one dim of it";
        out.slices[dim] = (uint8_t)d->split[v];
        out.core_stride[dim] = (uint8_t)d->core_stride[v];
        out.length[dim] =
            access->stride[v] / b->dim[dim].stride * division_slice(sizes, v, d->split[v]);
    }
    return out;
}

lx_slices lx_slices_of(const loop_graph *loops, const loop_op *op, uint32_t k)
{
    division_sizes sizes = division_sizes_of(loops, op);
    division d = division_get(op);
    lx_walk walk = lx_walk_of(loops, op, &sizes, k);
    return lx_slices_under(loops, op, &walk, &sizes, &d, k);
}

bool lx_slices_serves(const lx_slices *written, const lx_slices *read)
{
    return !written->why && !read->why && read->cores <= written->cores &&
           memcmp(written->slices, read->slices, sizeof read->slices) == 0 &&
           memcmp(written->core_stride, read->core_stride, sizeof read->core_stride) == 0 &&
           memcmp(written->length, read->length, sizeof read->length) == 0;
}

uint32_t lx_slices_count(const lx_slices *view)
{
    uint32_t count = 1;
    for (uint32_t d = 0; d < LOOP_MAX_DIMS; d++) count *= view->slices[d];
    return count;
}

// --- Writers

// The opfuncs whose results torch-spyre's planner puts in LX: torch_spyre/_inductor/scratchpad and
// its docs/source/compiler/scratchpad_planning.md.
static bool is_published(opfunc op)
{
    switch ((int)op) {
    case OPFUNC_MAX:
    case OPFUNC_SUM:
    case OPFUNC_MEAN:
    case OPFUNC_EXP:
    case OPFUNC_SUB:
    case OPFUNC_MUL:
    case OPFUNC_ADD:
    case OPFUNC_RSQRT:
    case OPFUNC_SHUFFLE: return true; // which has no other place to read or write
    default: return false;
    }
}

bool lx_slices_are_whole(const loop_buffer *b, const lx_slices *view, bool shorter)
{
    for (uint32_t d = 0; d < b->dim_count; d++) {
        int64_t unit = d == b->stick ? loop_lanes(b) : 1;
        int64_t units = divide_up(b->dim[d].extent, unit);
        int32_t slices = view->slices[d];
        if (slices == 1) continue;
        if (!division_cuts(units, slices, shorter)) return false;
        if (view->length[d] != divide_up(units, slices) * unit) return false;
    }
    return true;
}

static const char *why_not_writer(const loop_graph *loops, const loop_op *op, const loop_buffer *b,
                                  const lx_slices *written)
{
    if (written->why) return written->why;
    if (!lx_slices_are_whole(b, written, loops->settings.uneven_splits))
        return "its slices are of unequal length";
    bool any = loops->settings.allow_all_ops_in_lx_planning;
    if (!any && !is_published(op->op)) return "its opfunc is not listed";
    return NULL;
}

lx_slices lx_slices_written(const loop_graph *loops, const loop_op *op)
{
    uint32_t k = op->operand_count - 1;
    lx_slices written = lx_slices_of(loops, op, k);
    written.why =
        why_not_writer(loops, op, loop_operand_buffer(loops, op, k), &written);
    return written;
}

typedef struct {
    const loop_graph *loops;
    lx_fit *found;
    lx_slices *written; // by buffer: of its first writer
} finder;

static void add_writer(const finder *f, const loop_op *op)
{
    const loop_access *access = loop_result(op);
    const loop_buffer *b = &f->loops->buffers.items[access->buffer];
    lx_fit *r = &f->found[access->buffer];
    lx_slices *first = &f->written[access->buffer], now = lx_slices_written(f->loops, op);
    if (r->why) return;
    r->why = now.why;
    if (first->cores && !r->why && (first->cores != now.cores || !lx_slices_serves(first, &now)))
        r->why = "its writers divide it differently";
    if (first->cores) return;
    *first = now;
    for (uint32_t d = 0; d < b->dim_count; d++) r->slices[d] = now.slices[d];
}

// --- Readers

static void add_reader(const finder *f, const loop_op *op, uint32_t k)
{
    const loop_access *access = &op->operand[k];
    const loop_buffer *b = &f->loops->buffers.items[access->buffer];
    const lx_slices *written = &f->written[access->buffer];
    lx_fit *r = &f->found[access->buffer];
    r->reads++;
    if (r->why || b->kind != LOOP_LOCAL) return;
    lx_slices now = lx_slices_of(f->loops, op, k);
    r->why = now.why;
    if (!r->why && op->op != OPFUNC_SHUFFLE && !lx_slices_serves(written, &now))
        r->why = "a reader divides it differently";
}

spyre_status lx_fits_find(const loop_graph *loops, lx_fit **out)
{
    uint32_t count = loops->buffers.count;
    finder f = {.loops = loops,
                .found = ARENA_NEW(loop_scratch(loops), lx_fit, count),
                .written = ARENA_NEW(loop_scratch(loops), lx_slices, count)};
    TRY_ALLOC(f.found);
    TRY_ALLOC(f.written);
    for (uint32_t b = 0; b < count; b++)
        if (loops->buffers.items[b].output >= 0) f.found[b].why = "it leaves the graph";
    for (uint32_t i = 0; i < loops->ops.count; i++) add_writer(&f, &loops->ops.items[i]);
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        const loop_op *op = &loops->ops.items[i];
        for (uint32_t k = 0; k + 1 < op->operand_count; k++) add_reader(&f, op, k);
    }
    *out = f.found;
    return NULL;
}

// --- In place

static bool same_place(const loop_graph *loops, const loop_op *op, uint32_t k)
{
    const loop_access *to = loop_result(op), *from = &op->operand[k];
    const loop_buffer *result = &loops->buffers.items[to->buffer];
    const loop_buffer *operand = &loops->buffers.items[from->buffer];
    loop_location x, y;
    if (spyre_format_bytes(result->format) != spyre_format_bytes(operand->format)) return false;
    if (result->exx2 || operand->exx2) return false;
    if (loop_locate(loops, op, to, &x) || loop_locate(loops, op, from, &y)) return false;
    if (x.offset != y.offset || x.stick_var != y.stick_var) return false;
    for (uint32_t v = 0; v < op->var_count; v++)
        if (x.stride[v] != y.stride[v]) return false;
    for (uint32_t t = 0; t < op->tile_depth; t++)
        if (x.tile_stride[t] != y.tile_stride[t]) return false;
    return true;
}

bool lx_in_place(const loop_graph *loops, const loop_op *op, uint32_t k)
{
    switch (opfunc_describe(op->op)->kind) {
    case OPFUNC_KIND_REDUCTION:
    case OPFUNC_KIND_RANK:
    case OPFUNC_KIND_POOL:
    case OPFUNC_KIND_MASK:
    case OPFUNC_KIND_SCAN:
    case OPFUNC_KIND_MATMUL: return false;
    case OPFUNC_KIND_UNARY:
    case OPFUNC_KIND_BINARY:
    case OPFUNC_KIND_TERNARY:
    case OPFUNC_KIND_PARAMETRIC:
    case OPFUNC_KIND_NORM:
    case OPFUNC_KIND_COPY: break;
    }
    if (op->table || op->op == OPFUNC_SHUFFLE) return false;
    for (uint32_t other = 0; other + 1 < op->operand_count; other++)
        if (op->operand[other].buffer == op->operand[k].buffer && !same_place(loops, op, other))
            return false;
    return true;
}
