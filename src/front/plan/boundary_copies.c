// SPDX-License-Identifier: Apache-2.0
//
// What enters or leaves the graph lives in memory, so every reader of it goes there. An input that
// several accesses read alike is copied once into LX; a result that leaves the graph and is read in
// it too is made in LX, and a copy of it leaves. That waits for LX_BOUNDARY_CLONES, but for inputs
// that torch-spyre's form reads once: those of layer norms, and those that go to float32 and that
// forward_casts makes all ops read.
#include "front/plan/boundary_copies.h"

#include "front/cost/cost.h"
#include "front/ir/def_use.h"
#include "front/ir/lx_slices.h"
#include "isa/constants.h"

// True for an input with a mean and its distances from it: the front of a layer norm, whose
// published opfuncs would read it once.
static bool has_distances(const loop_graph *loops, const def_use *f, uint32_t id)
{
    for (uint32_t u = f->first_use[id]; u < f->first_use[id + 1]; u++) {
        const loop_op *op = &loops->ops.items[f->uses[u].op];
        if (op->op != OPFUNC_SUB || f->uses[u].operand != 0 || op->operand_count != 3) continue;
        if (!def_use_is_written_once(f, op->operand[1].buffer)) continue;
        const loop_op *mean = &loops->ops.items[f->writer[op->operand[1].buffer]];
        if (mean->op == OPFUNC_MEAN && mean->operand[0].buffer == id) return true;
    }
    return false;
}

// True where an op that computes in float32 reads 16 bits as a cast would.
static bool widens(const loop_graph *loops, const loop_op *op, uint32_t operand)
{
    const loop_buffer *result = &loops->buffers.items[loop_result(op)->buffer];
    bool computes = result->format == SPYRE_FORMAT_IEEE_FP32 || op->op == OPFUNC_LAYERNORMNORM;
    return computes && opfunc_describe(op->op)->kind != OPFUNC_KIND_COPY &&
           loop_operand_buffer(loops, op, operand)->format == SPYRE_FORMAT_SEN169_FP16;
}

// By several ops: one that reads it twice has it once.
static bool is_widened_often(const loop_graph *loops, const def_use *f, uint32_t id)
{
    uint32_t often = 0, last = LOOP_UNUSED;
    for (uint32_t u = f->first_use[id]; u < f->first_use[id + 1]; u++) {
        const def_use_use *use = &f->uses[u];
        if (use->op == last || !widens(loops, &loops->ops.items[use->op], use->operand)) continue;
        last = use->op;
        often++;
    }
    return often >= 2;
}

// All boundaries where the user asks for it, else where this compiler reads more than it has to.
static bool is_wanted(const loop_graph *loops, const def_use *f, uint32_t id)
{
    return loops->settings.lx_boundary_clones ||
           (loops->buffers.items[id].kind == LOOP_INPUT &&
            (has_distances(loops, f, id) || is_widened_often(loops, f, id)));
}

// Whether the op may read an input that wants a copy.
static bool may_want(const loop_graph *loops, const loop_op *op)
{
    bool wants = false;
    for (uint32_t o = 0; o + 1 < op->operand_count && !wants; o++)
        wants = loop_operand_buffer(loops, op, o)->kind == LOOP_INPUT &&
                (op->op == OPFUNC_MEAN || widens(loops, op, o));
    return wants;
}

static bool may_copy(const loop_graph *loops)
{
    const spyre_settings *settings = &loops->settings;
    if (!settings->lx_planning) return false;
    for (uint32_t i = 0; i < loops->ops.count && !settings->lx_boundary_clones; i++)
        if (may_want(loops, &loops->ops.items[i])) return true;
    return settings->lx_boundary_clones;
}

// The access that a copy of the buffer lies beside; false when it can have none.
static bool find_neighbour(const loop_graph *loops, const def_use *f, uint32_t id, def_use_use *out)
{
    const loop_buffer *b = &loops->buffers.items[id];
    uint32_t uses = def_use_use_count(f, id);
    if (!b->has_layout || b->exx2 || b->walked || b->dim_count == 0 || b->dim_count > LOOP_MAX_VARS)
        return false;
    if (b->kind == LOOP_INPUT && uses >= 2)
        *out = f->uses[f->first_use[id]];
    else if (b->kind == LOOP_LOCAL && b->output >= 0 && uses >= 1 && def_use_is_written_once(f, id))
        *out = (def_use_use){f->writer[id], loops->ops.items[f->writer[id]].operand_count - 1};
    else
        return false;
    if (loops->ops.items[out->op].tile_depth) return false; // a copy breaks the loop
    for (uint32_t u = f->first_use[id]; u < f->first_use[id + 1]; u++) {
        const loop_op *op = &loops->ops.items[f->uses[u].op];
        if (op->tile_depth || loop_is_table(op, &op->operand[f->uses[u].operand])) return false;
    }
    return true;
}

// True when all reads of the buffer see the slices that the access sees.
static bool reads_agree(const loop_graph *loops, const def_use *f, uint32_t id,
                        const def_use_use *access)
{
    lx_slices first = lx_slices_of(loops, &loops->ops.items[access->op], access->operand);
    bool agree = !first.why && lx_slices_count(&first) == first.cores;
    for (uint32_t u = f->first_use[id]; u < f->first_use[id + 1] && agree; u++) {
        lx_slices read =
            lx_slices_of(loops, &loops->ops.items[f->uses[u].op], f->uses[u].operand);
        agree = lx_slices_serves(&first, &read);
    }
    return agree;
}

static bool describe_copy(const loop_graph *loops, boundary_kind kind, const def_use_use *beside,
                          loop_op *out)
{
    loop_op near = loops->ops.items[beside->op];
    if (lx_copy_describe(loops, OPFUNC_IDENTITY, &near, beside->operand, out)) return true;
    if (kind == BOUNDARY_AGREED) return false;
    for (uint32_t v = 0; v < near.var_count; v++) near.split[v] = 1;
    return lx_copy_describe(loops, OPFUNC_IDENTITY, &near, beside->operand, out);
}

// Traffic that all readers but the copy save.
static double gain_of(const loop_graph *loops, const def_use *f, const lx_copy *copy)
{
    double bytes = cost_basis_of(loops, &copy->op).bytes[0];
    uint32_t uses = def_use_use_count(f, copy->original);
    return (copy->leaves ? uses : uses - 1) * bytes / MEMORY_BANDWIDTH;
}

static spyre_status add(const loop_graph *loops, const def_use *f, lx_copy copy,
                        const def_use_use *beside, lx_copies *out)
{
    uint32_t n = out->items.count, id = copy.original;
    copy.kept = true;
    copy.leaves = loops->buffers.items[id].output >= 0;
    copy.gain_us = gain_of(loops, f, &copy);
    for (uint32_t u = f->first_use[id]; u < f->first_use[id + 1]; u++)
        out->copy_of[f->uses[u].op * LOOP_MAX_OPERANDS + f->uses[u].operand] = n;
    if (copy.leaves) out->copy_of[beside->op * LOOP_MAX_OPERANDS + beside->operand] = n;
    return VEC_PUSH(loop_scratch(loops), &out->items, copy);
}

spyre_status boundary_copies_find(const loop_graph *loops, boundary_kind kind, lx_copies *out)
{
    def_use f;
    *out = (lx_copies){0};
    if (!may_copy(loops)) return NULL;
    TRY(def_use_build(loops, &f));
    TRY(lx_copies_create(loops, out));
    for (uint32_t b = 0; b < loops->buffers.count; b++) {
        def_use_use beside;
        lx_copy copy = {.original = b};
        if (!find_neighbour(loops, &f, b, &beside) || !is_wanted(loops, &f, b)) continue;
        if (kind == BOUNDARY_AGREED && !reads_agree(loops, &f, b, &beside)) continue;
        if (!describe_copy(loops, kind, &beside, &copy.op)) continue;
        TRY(add(loops, &f, copy, &beside, out));
    }
    return NULL;
}
