// SPDX-License-Identifier: Apache-2.0
#include "front/memory/clones.h"

#include "front/ir/division.h"
#include "front/ir/flow.h"
#include "front/memory/whole_copy.h"

// --- Candidates

// True for an input with a mean and its distances from it: the front of a layer norm, whose
// published opfuncs would read it once.
static bool has_distances(const loop_graph *loops, const flow *f, uint32_t id)
{
    for (uint32_t u = f->first_use[id]; u < f->first_use[id + 1]; u++) {
        const loop_op *op = &loops->ops.items[f->uses[u].op];
        if (op->op != OPFUNC_SUB || f->uses[u].operand != 0 || op->operand_count != 3) continue;
        uint32_t writer = f->writer[op->operand[1].buffer];
        if (writer == SPYRE_NO_ID) continue;
        const loop_op *mean = &loops->ops.items[writer];
        if (mean->op == OPFUNC_MEAN && mean->operand[0].buffer == id) return true;
    }
    return false;
}

// All boundaries where the user asks for it, else where this compiler reads more than it has to.
static bool is_wanted(const loop_graph *loops, const flow *f, uint32_t id)
{
    return loops->settings.lx_boundary_clones ||
           (loops->buffers.items[id].kind == LOOP_INPUT && has_distances(loops, f, id));
}

bool clones_possible(const loop_graph *loops)
{
    const spyre_settings *settings = &loops->settings;
    if (!settings->lx_planning) return false;
    for (uint32_t i = 0; i < loops->ops.count && !settings->lx_boundary_clones; i++) {
        const loop_op *op = &loops->ops.items[i];
        bool of_input = loops->buffers.items[op->operand[0].buffer].kind == LOOP_INPUT;
        if (op->op == OPFUNC_MEAN && of_input) return true;
    }
    return settings->lx_boundary_clones;
}

// The access that a copy of the buffer lies beside; false when it can have no clone.
static bool find_neighbour(const loop_graph *loops, const flow *f, uint32_t id, flow_use *out)
{
    const loop_buffer *b = &loops->buffers.items[id];
    uint32_t uses = flow_use_count(f, id);
    if (!b->has_layout || b->exx2 || b->walked || b->dim_count == 0 ||
        b->dim_count > LOOP_MAX_VARS)
        return false;
    if (b->kind == LOOP_INPUT && uses >= 2)
        *out = f->uses[f->first_use[id]];
    else if (b->kind == LOOP_LOCAL && b->output >= 0 && uses >= 1 && flow_is_written_once(f, id))
        *out = (flow_use){f->writer[id], loops->ops.items[f->writer[id]].operand_count - 1};
    else
        return false;
    if (loops->ops.items[out->op].tile_depth) return false; // a copy breaks the loop
    for (uint32_t u = f->first_use[id]; u < f->first_use[id + 1]; u++) {
        const loop_op *op = &loops->ops.items[f->uses[u].op];
        if (op->tile_depth || loop_is_table(op, &op->operand[f->uses[u].operand])) return false;
    }
    return true;
}

static division_view view_of(const loop_graph *loops, const flow_use *use)
{
    const loop_op *op = &loops->ops.items[use->op];
    division_sizes sizes = division_sizes_of(loops, op);
    division d = division_get(op);
    return division_view_of(loops, op, &sizes, &d, use->operand);
}

// True when all reads of the buffer see the slices that the access sees.
static bool reads_agree(const loop_graph *loops, const flow *f, uint32_t id, const flow_use *access)
{
    division_view first = view_of(loops, access);
    if (!first.apart) return false;
    for (uint32_t u = f->first_use[id]; u < f->first_use[id + 1]; u++) {
        division_view read = view_of(loops, &f->uses[u]);
        if (!division_views_agree(&first, &read)) return false;
    }
    return true;
}

static bool describe_copy(const loop_graph *loops, clones_kind kind, const flow_use *beside,
                          uint32_t source, uint32_t target, loop_op *out)
{
    loop_op near = loops->ops.items[beside->op];
    const loop_access *access = &near.operand[beside->operand];
    if (whole_copy_describe(loops, OPFUNC_IDENTITY, &near, access, source, target, out))
        return true;
    if (kind == CLONES_AGREED) return false;
    for (uint32_t v = 0; v < near.var_count; v++) near.split[v] = 1;
    return whole_copy_describe(loops, OPFUNC_IDENTITY, &near, access, source, target, out);
}

spyre_status clones_find(const loop_graph *loops, clones_kind kind, clone_list *out)
{
    flow f;
    TRY(flow_build(loops, &f));
    for (uint32_t b = 0; b < loops->buffers.count; b++) {
        flow_use beside;
        loop_op copy;
        if (!find_neighbour(loops, &f, b, &beside) || !is_wanted(loops, &f, b)) continue;
        if (kind == CLONES_AGREED && !reads_agree(loops, &f, b, &beside)) continue;
        if (!describe_copy(loops, kind, &beside, b, b, &copy)) continue;
        clone c = {.original = b, .op = beside.op};
        TRY(VEC_PUSH(loops->memory, out, c));
    }
    return NULL;
}

// --- Insertion

static bool leaves(const loop_graph *loops, const clone *c)
{
    return loops->buffers.items[c->original].output >= 0;
}

static spyre_status make_copies(loop_graph *loops, clones_kind kind, clone_list *clones,
                                loop_op *copies)
{
    flow f;
    TRY(flow_build(loops, &f));
    for (uint32_t n = 0; n < clones->count; n++) {
        clone *c = &clones->items[n];
        flow_use beside;
        TRY(whole_copy_target(loops, c->original, &c->buffer));
        uint32_t source = leaves(loops, c) ? c->buffer : c->original;
        uint32_t target = leaves(loops, c) ? c->original : c->buffer;
        if (!find_neighbour(loops, &f, c->original, &beside) ||
            !describe_copy(loops, kind, &beside, source, target, &copies[n]))
            return status_new(SPYRE_INTERNAL, "b%u cannot be cloned any more", c->original);
    }
    return NULL;
}

static spyre_status add_copy(const loop_graph *loops, clone *c, const loop_op *copy,
                             loop_op_list *out)
{
    c->copy = out->count;
    return VEC_PUSH(loops->memory, out, *copy);
}

// The op with clones for originals, and the copies that belong beside it.
static spyre_status append(loop_graph *loops, uint32_t index, clone_list *clones,
                           const uint32_t *clone_of, const loop_op *copies, loop_op_list *out)
{
    loop_op op = loops->ops.items[index];
    uint32_t behind = SPYRE_NO_ID;
    for (uint32_t k = 0; k < op.operand_count; k++) {
        uint32_t n = clone_of[op.operand[k].buffer];
        if (n == SPYRE_NO_ID) continue;
        clone *c = &clones->items[n];
        bool known = false;
        for (uint32_t j = 0; j < k; j++) known |= op.operand[j].buffer == c->buffer;
        op.operand[k].buffer = c->buffer;
        if (c->op != index || known) continue;
        if (leaves(loops, c))
            behind = n;
        else
            TRY(add_copy(loops, c, &copies[n], out));
    }
    TRY(VEC_PUSH(loops->memory, out, op));
    if (behind == SPYRE_NO_ID) return NULL;
    return add_copy(loops, &clones->items[behind], &copies[behind], out);
}

spyre_status clones_insert(loop_graph *loops, clones_kind kind, clone_list *clones)
{
    uint32_t buffers = loops->buffers.count;
    uint32_t *clone_of = ARENA_NEW(loop_scratch(loops), uint32_t, buffers);
    loop_op *copies = ARENA_NEW(loop_scratch(loops), loop_op, clones->count);
    loop_op_list ops = {0};
    TRY_ALLOC(copies);
    TRY_ALLOC(clone_of);
    for (uint32_t b = 0; b < buffers; b++) clone_of[b] = SPYRE_NO_ID;
    for (uint32_t n = 0; n < clones->count; n++) clone_of[clones->items[n].original] = n;
    TRY(make_copies(loops, kind, clones, copies));
    for (uint32_t i = 0; i < loops->ops.count; i++)
        TRY(append(loops, i, clones, clone_of, copies, &ops));
    loops->ops = ops;
    return NULL;
}
