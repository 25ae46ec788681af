// SPDX-License-Identifier: Apache-2.0
#include "front/ir/lx_slices.h"

#include "bundle/interpret.h"
#include "front/ir/division.h"

int64_t lx_limit_bytes(const loop_graph *loops)
{
    int64_t bytes = (int64_t)(BUNDLE_LX_BYTES * (1 - loops->settings.dxp_lx_frac_avail));
    return bytes / SPYRE_STICK_BYTES * SPYRE_STICK_BYTES;
}

// Where a variable walks a dim: what it adds to the view.
static const char *add_variable(const loop_graph *loops, const loop_op *op,
                                const loop_access *access, uint32_t v, lx_slices *out)
{
    const loop_buffer *b = &loops->buffers.items[access->buffer];
    uint32_t d = loop_dim_at(b, access->stride[v]);
    int64_t step = access->stride[v] / b->dim[d].stride;
    if (op->split[v] == 1) {
        out->last[d] += step * (op->extent[v] - 1);
        return NULL;
    }
    if (out->slices[d] > 1) return "two divided loops walk one dim of it";
    division_sizes sizes = division_sizes_of(loops, op);
    int64_t padded = sizes.size[v], slice = division_slice(&sizes, v, op->split[v]);
    if (padded > op->extent[v] && d != b->stick) return "its slices are of unequal length";
    out->slices[d] = op->split[v];
    out->core_stride[d] = op->core_stride[v];
    out->length[d] = step * slice;
    out->last[d] += step * (slice - 1);
    return NULL;
}

// Where a counted loop walks a dim, every core has all of it. `reach` counts whole tiles.
static const char *add_tiles(const loop_graph *loops, const loop_op *op, const loop_access *access,
                             uint32_t t, const lx_slices *out, int64_t reach[LOOP_MAX_DIMS])
{
    const loop_buffer *b = &loops->buffers.items[access->buffer];
    const loop_tiles *tiles = &loops->tiles.items[op->tiles[t]];
    if (!access->tile_stride[t]) return NULL;
    if (!tiles->unrolled) return "a loop of the bundle walks it";
    uint32_t d = loop_dim_at(b, access->tile_stride[t]);
    if (out->slices[d] > 1) return "tiles and cores cut the same dim of it";
    reach[d] += access->tile_stride[t] / b->dim[d].stride * (tiles->count - 1);
    return NULL;
}

lx_slices lx_slices_of(const loop_graph *loops, const loop_op *op, const loop_access *access)
{
    const loop_buffer *b = &loops->buffers.items[access->buffer];
    lx_slices out = {.cores = loop_core_count(op)};
    int64_t offset = access->offset, reach[LOOP_MAX_DIMS];
    for (uint32_t d = b->dim_count; d-- > 0;) {
        out.slices[d] = 1;
        out.last[d] = reach[d] = offset / b->dim[d].stride;
        offset %= b->dim[d].stride;
    }
    for (uint32_t v = 0; v < op->var_count && !out.why; v++) {
        if (!access->stride[v]) continue;
        out.why = add_variable(loops, op, access, v, &out);
        uint32_t d = loop_dim_at(b, access->stride[v]);
        reach[d] += access->stride[v] / b->dim[d].stride * (op->extent[v] - 1);
    }
    for (uint32_t t = 0; t < op->tile_depth && !out.why; t++)
        out.why = add_tiles(loops, op, access, t, &out, reach);
    for (uint32_t d = 0; d < b->dim_count && !out.why; d++) {
        if (reach[d] >= b->dim[d].extent) out.why = "an op walks from one dim of it into the next";
        if (out.slices[d] > 1 && out.last[d] >= out.length[d])
            out.why = "a core reaches into its neighbour's slice";
    }
    return out;
}

bool lx_slices_serves(const loop_buffer *b, const lx_slices *x, const lx_slices *y)
{
    if (y->cores > x->cores) return false;
    for (uint32_t d = 0; d < b->dim_count; d++) {
        if (x->slices[d] != y->slices[d]) return false;
        if (x->slices[d] == 1) continue;
        if (x->core_stride[d] != y->core_stride[d] || x->length[d] != y->length[d]) return false;
    }
    return true;
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
        int64_t units = (b->dim[d].extent + unit - 1) / unit;
        int32_t slices = view->slices[d];
        if (slices == 1) continue;
        if (!division_cuts(units, slices, shorter)) return false;
        if (view->length[d] != (units + slices - 1) / slices * unit) return false;
    }
    return true;
}

static const char *why_not_writer(const loop_graph *loops, const loop_op *op, const loop_buffer *b,
                                  const lx_slices *written)
{
    if (written->why) return written->why;
    if (op->table + 1u == op->operand_count) return "an index chooses its rows";
    for (uint32_t v = 0; v < op->var_count; v++)
        if (op->split[v] > 1 && loop_var_is_reduced(op, v)) return "its cores share every result";
    if (!lx_slices_are_whole(b, written, loops->settings.uneven_splits))
        return "its slices are of unequal length";
    bool any = loops->settings.allow_all_ops_in_lx_planning;
    if (!any && !is_published(op->op)) return "its opfunc is not listed";
    return NULL;
}

lx_slices lx_slices_written(const loop_graph *loops, const loop_op *op)
{
    const loop_access *access = &op->operand[op->operand_count - 1];
    lx_slices written = lx_slices_of(loops, op, access);
    written.why = why_not_writer(loops, op, &loops->buffers.items[access->buffer], &written);
    return written;
}

typedef struct {
    const loop_graph *loops;
    lx_fit *found;
    lx_slices *written; // by buffer: of its first writer
} finder;

static void add_writer(const finder *f, const loop_op *op)
{
    const loop_access *access = &op->operand[op->operand_count - 1];
    const loop_buffer *b = &f->loops->buffers.items[access->buffer];
    lx_fit *r = &f->found[access->buffer];
    lx_slices *first = &f->written[access->buffer], now = lx_slices_written(f->loops, op);
    if (r->why) return;
    r->why = now.why;
    if (first->cores && !r->why && (first->cores != now.cores || !lx_slices_serves(b, first, &now)))
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
    lx_slices now = lx_slices_of(f->loops, op, access);
    if (loop_is_table(op, access))
        r->why = "an index chooses its rows";
    else if (op->table && k == 0)
        r->why = "an index is read from memory";
    else if (now.why)
        r->why = now.why;
    else if (op->op != OPFUNC_SHUFFLE && !lx_slices_serves(b, written, &now))
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
    const loop_access *to = &op->operand[op->operand_count - 1], *from = &op->operand[k];
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
