// SPDX-License-Identifier: Apache-2.0
//
// normalize_loops: makes every access move within one dim of its buffer. Two kinds of cuts spread
// until nothing changes: a variable that runs over several dims of a buffer is split at their
// boundaries (in all operands of its op), and a dim of a local buffer that a variable steps through
// in strides is split at that stride. x(50,10,200).flatten(0,1) + y(500,200) ends as loops of
// (50, 10, 200). Local dims are cut because their layout is still free; dims of inputs are not.
//
// The columns of a matrix product stay whole where a cut would leave parts of sticks: heads of 32
// would make every product over them twice as wide. Their readers change the stick instead
// (restickify.c), which costs a copy of the result. So do factors that a product sums over as a
// whole: halves of 32 that a rotary embedding writes would cut the rows of a KV cache, too.
//
// Cuts that meet in one op may be more than it can have loops for, or parts of dims that do not fit
// together. Then cuts are stopped and all begins anew: results of products keep their dims, and
// where that is not enough, the local buffers of the op. So does a second factor whose cuts would
// leave its product a result in parts of sticks (keys of an image, cut into lines of 28 pixels),
// and factors that others cut into more parts of a sum than a step has loops for, which are copied
// where they are no local buffers. So do operands
// whose cuts an op would carry into a dim that they do not divide: windows of 3 that are written
// into lines of 9 and 2 more.
// The elements that an index chooses are never cut.
// Operands whose dims an op cannot follow even so get the dims of its loops (match_dims.c).
//
// The obvious shortcut, to keep the host's dims and materialise every view, costs a copy per view.
#include "front/front.h"
#include "front/layout/restickify.h"
#include "front/simplify/copy_factors.h"
#include "front/simplify/match_dims.h"

enum { MOST_SWEEPS = 64 };
static const char JOINS_PARTS[] = "a view joins parts of dims that do not fit together";

// What must not be cut, by buffer; and the graph as it was before the first cut.
typedef struct {
    const bool *product; // in its columns, where that would leave parts of sticks
    bool *kept;          // at all
    arena *scratch;
    loop_graph before;   // without ops until then
} restraint;

static spyre_status refuse(const loop_graph *loops, uint32_t op, const char *why)
{
    return status_new(SPYRE_UNSUPPORTED, "%s: %s", loop_op_place(loops, op), why);
}

// Splits variable v into an outer one and an inner one of extent `inner`.
static spyre_status split_variable(loop_graph *loops, uint32_t index, uint32_t v, int64_t inner)
{
    loop_op *op = &loops->ops.items[index];
    if (op->var_count == LOOP_MAX_VARS) return refuse(loops, index, "views need more than 8 loops");
    return loop_split_var(loops, op, v, inner);
}

// Splits dim d of a local buffer into an inner dim of extent `inner` and an outer one.
static spyre_status split_dim(loop_graph *loops, uint32_t index, loop_buffer *buffer, uint32_t d,
                              int64_t inner)
{
    if (buffer->dim_count == LOOP_MAX_DIMS)
        return refuse(loops, index, "views cut a tensor into more than 10 dims");
    for (uint32_t e = buffer->dim_count; e > d; e--) buffer->dim[e] = buffer->dim[e - 1];
    buffer->dim_count++;
    buffer->dim[d + 1].stride = buffer->dim[d].stride * inner;
    buffer->dim[d + 1].extent = buffer->dim[d].extent / inner;
    buffer->dim[d].extent = inner;
    return NULL;
}

// Index of the first element of the access along dim d.
static int64_t first_index(const loop_buffer *buffer, const loop_access *access, uint32_t d)
{
    return access->offset / buffer->dim[d].stride % buffer->dim[d].extent;
}

// True for a dim that ought not be cut at `step`: columns of a product, and parts of sticks.
static bool keeps_columns(const loop_graph *loops, const restraint *held, uint32_t buffer,
                          uint32_t d, int64_t step)
{
    const loop_buffer *b = &loops->buffers.items[buffer];
    return held->product[buffer] && b->dim[d].stride == 1 && step % loop_lanes(b) != 0;
}

// True for columns that a copy walks in parts of sticks, as a restickify can.
static bool cuts_sticks(const loop_graph *loops, const loop_op *op, uint32_t operand, uint32_t d)
{
    loop_op copy = *op;
    loop_stick_walk walk;
    const loop_access *access = &copy.operand[operand];
    const loop_buffer *b = &loops->buffers.items[access->buffer];
    if (restickify_is_copy_out(loops, op)) copy.op = OPFUNC_RESTICKIFY;
    return b->dim[d].stride == 1 && !loop_walk_stick(loops, &copy, access, (uint8_t)d, &walk) &&
           walk.count > 1;
}

static bool passes_on(const loop_op *op)
{
    opfunc_kind kind = opfunc_describe(op->op)->kind;
    return kind == OPFUNC_KIND_UNARY || kind == OPFUNC_KIND_BINARY;
}

// True for an operand of which one loop walks all columns, element by element.
static bool walks_columns(const loop_graph *loops, const loop_op *op, uint32_t k)
{
    const loop_access *access = &op->operand[k];
    const loop_buffer *b = &loops->buffers.items[access->buffer];
    bool walks = false;
    for (uint32_t v = 0; v < op->var_count; v++)
        walks |= access->stride[v] == 1 && op->extent[v] == b->dim[0].extent;
    return walks && b->dim_count && b->dim[0].stride == 1;
}

// Marks what products read in whole columns, and that from which it is computed element by element.
static void mark_factors(const loop_graph *loops, bool *product)
{
    bool *factor = ARENA_NEW(loop_scratch(loops), bool, loops->buffers.count);
    for (uint32_t i = loops->ops.count; factor && i-- > 0;) {
        const loop_op *op = &loops->ops.items[i];
        uint32_t result = loop_result(op)->buffer;
        bool wanted = loop_is_matmul(op) || (passes_on(op) && factor[result]);
        for (uint32_t k = 0; wanted && k + 1 < op->operand_count; k++)
            factor[op->operand[k].buffer] |= walks_columns(loops, op, k);
    }
    for (uint32_t b = 0; factor && b < loops->buffers.count; b++) product[b] |= factor[b];
}

// Marks results of products and what is computed from them element by element, and their factors.
static const bool *mark_products(const loop_graph *loops)
{
    bool *product = ARENA_NEW(loop_scratch(loops), bool, loops->buffers.count);
    if (!product) return NULL;
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        const loop_op *op = &loops->ops.items[i];
        bool is = loop_is_matmul(op);
        for (uint32_t k = 0; passes_on(op) && k + 1 < op->operand_count; k++)
            is |= product[op->operand[k].buffer];
        product[loop_result(op)->buffer] |= is;
    }
    mark_factors(loops, product);
    return product;
}

static spyre_status remember(const loop_graph *loops, restraint *held)
{
    return held->before.ops.items ? NULL : loop_copy(loops, held->scratch, &held->before);
}

// Applies the first cut that variable v of this operand needs; *out_cut tells whether there was
// one.
static spyre_status cut(loop_graph *loops, restraint *held, uint32_t index, uint32_t operand,
                        uint32_t v, bool *out_cut)
{
    loop_op *op = &loops->ops.items[index];
    const loop_access *access = &op->operand[operand];
    loop_buffer *buffer = &loops->buffers.items[access->buffer];
    int64_t stride = access->stride[v];
    *out_cut = false;
    if (stride == 0) return NULL;
    if (stride < 0 || buffer->dim_count == 0)
        return refuse(loops, index, "an operand moves outside its storage");
    uint32_t d = loop_dim_at(buffer, stride);
    int64_t step = stride / buffer->dim[d].stride, extent = buffer->dim[d].extent;
    if (stride % buffer->dim[d].stride)
        return refuse(loops, index, "a view steps across the dims of its storage");
    int64_t part = loop_part_within(&buffer->dim[d], first_index(buffer, access, d), step,
                                    op->extent[v]);
    bool inside = part == op->extent[v];
    bool free = buffer->kind == LOOP_LOCAL && !held->kept[access->buffer];
    bool whole = inside && (keeps_columns(loops, held, access->buffer, d, step) ||
                            cuts_sticks(loops, op, operand, d));
    if (step > 1 && free && extent % step == 0 && !whole) {
        *out_cut = true;
        TRY(remember(loops, held));
        return split_dim(loops, index, buffer, d, step);
    }
    if (inside) return NULL;
    if (part < 2) return refuse(loops, index, JOINS_PARTS);
    *out_cut = true;
    TRY(remember(loops, held));
    return split_variable(loops, index, v, part);
}

static spyre_status normalize_op(loop_graph *loops, restraint *held, uint32_t index,
                                 bool *changed)
{
    const loop_op *op = &loops->ops.items[index];
    *loops->at_node = op->node;
    for (uint32_t k = 0; k < op->operand_count; k++) {
        for (uint32_t v = 0; v < op->var_count; v++) {
            bool did_cut = true;
            while (did_cut) {
                TRY(cut(loops, held, index, k, v, &did_cut));
                *changed |= did_cut;
            }
        }
    }
    return NULL;
}

static spyre_status check_accesses(const loop_graph *loops, uint32_t index)
{
    const loop_op *op = &loops->ops.items[index];
    *loops->at_node = op->node;
    for (uint32_t k = 0; k < op->operand_count; k++) {
        const loop_access *access = &op->operand[k];
        if (!loop_stays_in_dims(&loops->buffers.items[access->buffer], op, access))
            return refuse(loops, index, JOINS_PARTS);
    }
    return NULL;
}

// *out_op is the op in work when it fails.
static spyre_status cut_all(loop_graph *loops, restraint *held, bool *out_changed,
                            uint32_t *out_op)
{
    bool changed = true;
    for (uint32_t sweep = 0; changed; sweep++) {
        if (sweep == MOST_SWEEPS)
            return status_new(SPYRE_UNSUPPORTED, "views did not settle after %d sweeps",
                              MOST_SWEEPS);
        changed = false;
        for (uint32_t i = 0; i < loops->ops.count; i++) {
            // Cuts travel with the data and against it: sweep in both directions in turn.
            *out_op = sweep % 2 ? loops->ops.count - 1 - i : i;
            TRY(normalize_op(loops, held, *out_op, &changed));
        }
        *out_changed |= changed;
    }
    for (*out_op = 0; *out_op < loops->ops.count; ++*out_op)
        TRY(check_accesses(loops, *out_op));
    return NULL;
}

// Keeps what the op reads whole, or else its result, whose columns a product may have to cut; false
// when all is kept.
static bool keep_buffers(const loop_graph *loops, const loop_op *op, bool *kept)
{
    bool more = false;
    for (uint32_t k = 0; k < op->operand_count; k++) {
        uint32_t b = op->operand[k].buffer;
        bool is_result = k + 1 == op->operand_count;
        if (loops->buffers.items[b].kind != LOOP_LOCAL || kept[b] || (is_result && more)) continue;
        more = kept[b] = true;
    }
    return more;
}

// Keeps the results of all products whole; false when there is none that was not.
static bool keep_products(const loop_graph *loops, bool *kept)
{
    bool more = false;
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        const loop_op *op = &loops->ops.items[i];
        if (!loop_is_matmul(op)) continue;
        uint32_t b = loop_result(op)->buffer;
        more |= !kept[b];
        kept[b] = true;
    }
    return more;
}

// Whether several loops walk the columns of a product's result, one of them not in whole sticks.
static bool has_parted_columns(const loop_graph *loops, const loop_op *op)
{
    const loop_access *result = loop_result(op);
    const loop_buffer *b = &loops->buffers.items[result->buffer];
    uint32_t walking = 0;
    bool parted = false;
    for (uint32_t v = 0; v < op->var_count; v++) {
        if (!result->stride[v] || loop_dim_at(b, result->stride[v]) != 0) continue;
        walking++;
        parted |= result->stride[v] > 1 && result->stride[v] % loop_lanes(b) != 0;
    }
    return walking > 1 && parted && b->dim[0].stride == 1;
}

// Keeps the second factors of products that have parted columns; false when all are kept.
static bool keep_column_factors(const loop_graph *loops, bool *kept)
{
    bool more = false;
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        const loop_op *op = &loops->ops.items[i];
        uint32_t factor = op->operand[1].buffer;
        if (!loop_is_matmul(op) || !has_parted_columns(loops, op)) continue;
        if (loops->buffers.items[factor].kind != LOOP_LOCAL || kept[factor]) continue;
        more = kept[factor] = true;
    }
    return more;
}

static uint32_t count_sums(const loop_op *op)
{
    uint32_t sums = 0;
    for (uint32_t v = 0; v < op->var_count; v++) sums += loop_var_is_reduced(op, v);
    return loop_is_matmul(op) && !opfunc_slides(op->op) ? sums : 0;
}

// Keeps the factors of products that would sum over more loops than a step has names for, so that
// their sums are cut no further than the graph does; false when all are kept.
static bool keep_summed_factors(const loop_graph *loops, bool *kept)
{
    bool more = false;
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        const loop_op *op = &loops->ops.items[i];
        if (count_sums(op) <= LOOP_MOST_SUMS) continue;
        for (uint32_t k = 0; k < 2; k++) {
            uint32_t b = op->operand[k].buffer;
            if (loops->buffers.items[b].kind != LOOP_LOCAL || kept[b]) continue;
            more = kept[b] = true;
        }
    }
    return more;
}

// Windows, whose loops walk one dim together, may do so in any steps.
static bool walks_evenly(const loop_graph *loops, const loop_op *op)
{
    for (uint32_t k = opfunc_slides(op->op); k < op->operand_count; k++) {
        const loop_access *access = &op->operand[k];
        if (!loop_walks_evenly(&loops->buffers.items[access->buffer], op, access)) return false;
    }
    return true;
}

// What windows walk has both their loops in one dim, and their result a dim for each of the loops
// that step from window to window. Neither can follow loops over parts of the sum that their taps'
// weights would be cut into.
static void keep_windows(const loop_graph *loops, bool *kept)
{
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        const loop_op *op = &loops->ops.items[i];
        if (!opfunc_slides(op->op)) continue;
        for (uint32_t k = 0; k < op->operand_count; k++) kept[op->operand[k].buffer] = true;
    }
}

// Elements that an index chooses one by one lie side by side in whole sticks, which is less than a
// stick for each: their line stays one dim.
static void keep_chosen_elements(const loop_graph *loops, bool *kept)
{
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        const loop_op *op = &loops->ops.items[i];
        if (op->table && op->row_stride == 1 && op->row_count > 1)
            kept[op->operand[op->table].buffer] = true;
    }
}

// Marks for the buffers of the graph; those beyond the `count` that had marks are kept whole.
static spyre_status mark_buffers(const loop_graph *loops, restraint *held, uint32_t count)
{
    const bool *old = held->kept;
    held->product = mark_products(loops);
    TRY_NEW(held->scratch, held->kept, loops->buffers.count);
    TRY_ALLOC(held->product);
    for (uint32_t b = 0; old && b < loops->buffers.count; b++) held->kept[b] = b >= count || old[b];
    keep_windows(loops, held->kept);
    keep_chosen_elements(loops, held->kept);
    return NULL;
}

// Keeps what op number `index` reads and writes, or gives what it reads other dims. *out_again is
// false when there is nothing left to do.
static spyre_status restrain(loop_graph *before, uint32_t index, restraint *held, bool *out_again)
{
    uint32_t count = before->buffers.count;
    *out_again = keep_buffers(before, &before->ops.items[index], held->kept);
    if (*out_again) return NULL;
    TRY(match_dims(before, index, out_again));
    return *out_again ? mark_buffers(before, held, count) : NULL;
}

// The same for all ops that walk a dim unevenly, and products that sum over more loops than a step
// has names for, one of them that of its sticks; at once: every time all begins anew.
static spyre_status even_out(const loop_graph *loops, loop_graph *before, restraint *held,
                             bool *out_again)
{
    const uint32_t ops = loops->ops.count, buffers = before->buffers.count;
    bool *uneven;
    TRY_NEW(held->scratch, uneven, ops);
    for (uint32_t i = 0; i < ops; i++) {
        const loop_op *op = &loops->ops.items[i];
        uneven[i] = !walks_evenly(loops, op) || count_sums(op) > LOOP_MOST_SUMS + 1;
        if (uneven[i]) *out_again |= keep_buffers(before, &before->ops.items[i], held->kept);
    }
    bool all_kept = !*out_again;
    for (uint32_t i = 0; i < ops && all_kept; i++) {
        bool matched = false;
        // Copies go in front.
        if (uneven[i]) TRY(match_dims(before, i + before->ops.count - ops, &matched));
        *out_again |= matched;
    }
    return all_kept && *out_again ? mark_buffers(before, held, buffers) : NULL;
}

static spyre_status normalize(loop_graph *loops, arena *scratch, bool *out_changed)
{
    restraint held = {.scratch = scratch};
    TRY(mark_buffers(loops, &held, 0));
    for (;;) {
        uint32_t op = 0;
        bool again = false;
        *out_changed = false;
        spyre_status status = cut_all(loops, &held, out_changed, &op), failed = NULL;
        if (status && spyre_status_code(status) != SPYRE_UNSUPPORTED) return status;
        loop_graph *before = held.before.ops.items ? &held.before : loops;
        if (status) again = keep_products(before, held.kept);
        if (status && !again) failed = restrain(before, op, &held, &again);
        if (!status) again = keep_column_factors(loops, held.kept);
        if (!status) again |= keep_summed_factors(loops, held.kept);
        if (!status && !again) failed = even_out(loops, before, &held, &again);
        if (!again && !failed) return status;
        spyre_status_free(status);
        TRY(failed);
        if (before != loops) TRY(loop_copy(before, loops->memory, loops));
    }
}

static bool is_read(const loop_graph *loops, uint32_t buffer)
{
    for (uint32_t i = 0; i < loops->ops.count; i++)
        if (loop_reads(&loops->ops.items[i], buffer)) return true;
    return false;
}

// A copy that leaves in another shape, of wider columns, has that shape from the start: they may be
// whole sticks, of which the copy's loops walk parts.
static bool shape_copies_out(loop_graph *loops)
{
    bool changed = false;
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        spyre_view view;
        const loop_op *op = &loops->ops.items[i];
        uint32_t id = loop_result(op)->buffer;
        if (!restickify_is_copy_out(loops, op) || !front_leaves_as(loops, id, &view)) continue;
        loop_buffer *buffer = &loops->buffers.items[id], shaped = *buffer;
        shaped.storage = view;
        loop_set_dims(&shaped);
        bool wider = shaped.dim_count && shaped.dim[0].extent > buffer->dim[0].extent;
        if (!wider || is_read(loops, id)) continue;
        if (!loop_stays_in_dims(&shaped, op, loop_result(op))) continue;
        changed = true;
        *buffer = shaped;
    }
    return changed;
}

spyre_status pass_normalize_loops(loop_graph *loops, bool *out_changed)
{
    TRY(copy_factors(loops));
    bool shaped = !loops->settings.published_opfuncs && shape_copies_out(loops);
    TRY(normalize(loops, loop_scratch(loops), out_changed));
    *out_changed |= shaped;
    return NULL;
}
