// SPDX-License-Identifier: Apache-2.0
//
// The places in the pipeline where the caller's passes run, and what they see and may change:
// spyre/loops.h. An edit is checked whole before anything is changed, so that a refused one leaves
// the IR as it was; the invariants are checked behind it like behind any pass.
#include <string.h>

#include "front/divide/span_reduction.h"
#include "front/front.h"
#include "front/ir/core_numbers.h"
#include "front/ir/dim_names.h"
#include "front/ir/division.h"
#include "front/layout/stick_modes.h"
#include "front/tile/tiling.h"
#include "spyre/loops.h"

static spyre_status run(loop_graph *loops, spyre_loops_point point, bool *out_changed)
{
    *out_changed = false;
    if (!loops->user.run) return NULL;
    *loops->at_node = SPYRE_NO_ID; // no node is to blame: the host would not run the pass either
    loops->user.point = (int)point;
    loops->user.edited = out_changed;
    bool good = loops->user.run(loops->user.context, point, loops);
    loops->user.edited = NULL;
    return good ? NULL : status_new(SPYRE_INVALID_ARGUMENT, "a pass of the caller failed");
}

spyre_status pass_pre_layout(loop_graph *loops, bool *out_changed)
{
    return run(loops, SPYRE_LOOPS_PRE_LAYOUT, out_changed);
}

spyre_status pass_pre_scheduling(loop_graph *loops, bool *out_changed)
{
    return run(loops, SPYRE_LOOPS_PRE_SCHEDULING, out_changed);
}

spyre_status pass_pre_fusion(loop_graph *loops, bool *out_changed)
{
    return run(loops, SPYRE_LOOPS_PRE_FUSION, out_changed);
}

spyre_status pass_post_fusion(loop_graph *loops, bool *out_changed)
{
    return run(loops, SPYRE_LOOPS_POST_FUSION, out_changed);
}

// --- Reading

uint32_t spyre_loops_op_count(const spyre_loops *loops)
{
    return loops->ops.count;
}

uint32_t spyre_loops_buffer_count(const spyre_loops *loops)
{
    return loops->buffers.count;
}

// Bits of the op's loops of which counted loop t walks tiles: those over the dim that it is named
// for, which all that an op reads and writes may be tiles of, and those by whose tiles an operand
// moves.
static uint32_t cut_loops(const loop_graph *loops, const loop_op *op, uint32_t t)
{
    uint32_t cut = 0;
    const char *dim = loops->tiles.items[op->tiles[t]].name;
    for (uint32_t v = 0; v < op->var_count; v++) {
        int64_t extent = op->extent[v];
        const char *name = dim_names_of(loops, op, v);
        if (dim && name && strcmp(dim, name) == 0) cut |= 1u << v;
        for (uint32_t inner = t + 1; inner < op->tile_depth; inner++)
            if (cut_loops(loops, op, inner) >> v & 1u)
                extent *= loops->tiles.items[op->tiles[inner]].count;
        for (uint32_t k = 0; k < op->operand_count; k++) {
            const loop_access *access = &op->operand[k];
            if (access->stride[v] && access->tile_stride[t] == access->stride[v] * extent)
                cut |= 1u << v;
        }
    }
    return cut;
}

spyre_status spyre_loops_op(const spyre_loops *loops, uint32_t index, spyre_loop_op *out_op)
{
    if (index >= loops->ops.count)
        return status_new(SPYRE_INVALID_ARGUMENT, "op %u of %u", index, loops->ops.count);
    const loop_op *op = &loops->ops.items[index];
    *out_op = (spyre_loop_op){.name = op->name,
                              .opfunc = opfunc_describe(op->op)->name,
                              .location = op->location,
                              .note = op->note,
                              .hints = tile_scopes_of(loops, op),
                              .tile_count = op->tile_depth,
                              .loop_count = op->var_count,
                              .operand_count = op->operand_count};
    for (uint32_t t = 0; t < op->tile_depth; t++)
        out_op->tiles[t] = (spyre_loop_tiles){.group = op->tiles[t],
                                              .count = loops->tiles.items[op->tiles[t]].count,
                                              .cut = cut_loops(loops, op, t)};
    for (uint32_t v = 0; v < op->var_count; v++)
        out_op->loops[v] = (spyre_loop){.extent = op->extent[v],
                                        .slices = op->split[v],
                                        .reduced = loop_var_is_reduced(op, v),
                                        .stick = op->stick == v,
                                        .dim = dim_names_of(loops, op, v)};
    for (uint32_t k = 0; k < op->operand_count; k++) {
        spyre_loop_access *access = &out_op->operands[k];
        access->buffer = op->operand[k].buffer;
        access->offset = op->operand[k].offset;
        for (uint32_t v = 0; v < op->var_count; v++) access->stride[v] = op->operand[k].stride[v];
    }
    return NULL;
}

spyre_status spyre_loops_buffer(const spyre_loops *loops, uint32_t index,
                                spyre_loop_buffer *out_buffer)
{
    static const char *const kinds[] = {"input", "constant", "local"};
    if (index >= loops->buffers.count)
        return status_new(SPYRE_INVALID_ARGUMENT, "buffer %u of %u", index, loops->buffers.count);
    const loop_buffer *buffer = &loops->buffers.items[index];
    *out_buffer = (spyre_loop_buffer){.name = buffer->name,
                                      .kind = kinds[buffer->kind],
                                      .dtype = buffer->dtype,
                                      .leaves = buffer->output >= 0,
                                      .in_lx = buffer->in_lx,
                                      .dim_count = buffer->dim_count,
                                      .stick = SPYRE_LOOPS_NO_STICK};
    for (uint32_t d = 0; d < buffer->dim_count; d++) {
        out_buffer->extent[d] = buffer->dim[d].extent;
        out_buffer->stride[d] = buffer->dim[d].stride;
        out_buffer->order[d] = buffer->has_layout ? buffer->order[d] : (uint8_t)d;
    }
    if (buffer->has_layout)
        out_buffer->stick = buffer->stick == LOOP_NO_DIM ? SPYRE_LOOPS_SPARSE : buffer->stick;
    return NULL;
}

// --- Editing

typedef struct {
    loop_graph *loops;
    const char *pass;
    const spyre_loop_edit *edits;
    uint32_t count;
    uint32_t *place;  // by op: its new place plus one; 0: it goes
    uint32_t *writes; // by buffer: writes in the order so far
    bool *needed;     // by buffer: read or returned behind the edit
} edit;

static spyre_status refuse(const edit *e, uint32_t op, const char *why)
{
    return status_new(SPYRE_INVALID_ARGUMENT, "pass %s, %s: %s", e->pass,
                      loop_op_place(e->loops, op), why);
}

static spyre_status find_places(edit *e)
{
    for (uint32_t i = 0; i < e->count; i++) {
        uint32_t op = e->edits[i].op;
        if (op >= e->loops->ops.count)
            return status_new(SPYRE_INVALID_ARGUMENT, "pass %s: op %u of %u", e->pass, op,
                              e->loops->ops.count);
        if (e->place[op]) return refuse(e, op, "is in the list twice");
        e->place[op] = i + 1;
        if (e->loops->user.point == SPYRE_LOOPS_POST_FUSION && op != i)
            return refuse(e, op, "moves, but buffers have their places already");
        if (e->loops->tiles.count && op != i)
            return refuse(e, op, "moves, but there are counted loops around ops");
        const loop_op *kept = &e->loops->ops.items[op];
        for (uint32_t k = 0; k + 1 < kept->operand_count; k++)
            e->needed[kept->operand[k].buffer] = true;
    }
    for (uint32_t i = 0; i < e->loops->outputs.count; i++)
        e->needed[e->loops->outputs.items[i].buffer] = true;
    return NULL;
}

static spyre_status check_missing(const edit *e)
{
    const loop_graph *loops = e->loops;
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        const loop_op *op = &loops->ops.items[i];
        if (e->place[i]) continue;
        if (e->needed[loop_result(op)->buffer])
            return refuse(e, i, "goes, but its result is needed");
        if (loops->tiles.count || loops->user.point == SPYRE_LOOPS_POST_FUSION)
            return refuse(e, i, "goes, but buffers have their places already or loops around them");
    }
    return NULL;
}

// A buffer is read when everything that was written into it before is in it.
static spyre_status check_order(edit *e)
{
    const loop_graph *loops = e->loops;
    uint32_t *before = ARENA_NEW(loops->memory, uint32_t, loops->buffers.count);
    uint32_t *wanted = ARENA_NEW(loops->memory, uint32_t, loops->ops.count * LOOP_MAX_OPERANDS);
    TRY_ALLOC(before);
    TRY_ALLOC(wanted);
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        const loop_op *op = &loops->ops.items[i];
        for (uint32_t k = 0; k + 1 < op->operand_count; k++)
            wanted[i * LOOP_MAX_OPERANDS + k] = before[op->operand[k].buffer];
        if (e->place[i]) before[loop_result(op)->buffer]++;
    }
    for (uint32_t i = 0; i < e->count; i++) {
        const loop_op *op = &loops->ops.items[e->edits[i].op];
        for (uint32_t k = 0; k + 1 < op->operand_count; k++)
            if (e->writes[op->operand[k].buffer] < wanted[e->edits[i].op * LOOP_MAX_OPERANDS + k])
                return refuse(e, e->edits[i].op, "would read an operand before it is written");
        e->writes[loop_result(op)->buffer]++;
    }
    return NULL;
}

static spyre_status check_slices(const edit *e, const spyre_loop_edit *wanted, division *out)
{
    const loop_op *op = &e->loops->ops.items[wanted->op];
    division_sizes sizes = division_sizes_of(e->loops, op);
    uint32_t reduced = 0;
    *out = division_whole();
    for (uint32_t v = 0; v < op->var_count; v++) {
        if (wanted->slices[v] < 1)
            return refuse(e, wanted->op, "slices are whole numbers from 1 on");
        if (!division_cuts(sizes.units[v], wanted->slices[v], sizes.uneven[v]))
            return refuse(e, wanted->op, "its slices do not divide a loop");
        reduced += wanted->slices[v] > 1 && loop_var_is_reduced(op, v);
        out->split[v] = wanted->slices[v];
        if (division_cores(op, out) > e->loops->cores)
            return refuse(e, wanted->op, "has more slices than cores");
    }
    if (reduced > 1) return refuse(e, wanted->op, "has slices of two reduced loops");
    if (division_shares_uneven(op, &sizes, out))
        return refuse(e, wanted->op, "has slices of a reduced loop and uneven ones of another");
    if (!span_fits(e->loops, op, out))
        return refuse(e, wanted->op, "a core would reach over too much of a tensor");
    core_numbers_choose(e->loops, op, out);
    return NULL;
}

// The ways to carry sticks that are left when the result's is where the edit wants it.
static spyre_status check_stick(const edit *e, const spyre_loop_edit *wanted)
{
    loop_graph *loops = e->loops;
    const uint16_t *writable;
    stick_mode_list modes;
    loop_op op = loops->ops.items[wanted->op];
    if (!wanted->stick) return NULL;
    if (loops->user.point != SPYRE_LOOPS_PRE_LAYOUT)
        return refuse(e, wanted->op, "wants another stick, but sticks are chosen already");
    if (wanted->stick < SPYRE_LOOPS_SPARSE || wanted->stick > (int32_t)op.var_count)
        return refuse(e, wanted->op, "wants its stick along a loop that it has not");
    op.wanted_stick = wanted->stick < 0 ? LOOP_NO_DIM : (uint8_t)wanted->stick;
    TRY(stick_writable(loops, &writable));
    uint16_t own = writable[loop_result(&op)->buffer];
    stick_modes_of(loops, &op, own, &modes);
    if (modes.count) return NULL;
    op.wanted_stick = 0;
    stick_modes_of(loops, &op, own, &modes);
    const char *ways = "";
    for (uint32_t m = 0; m < modes.count; m++) {
        uint8_t v = modes.items[m].stick[op.operand_count - 1];
        if (v == LOOP_ROWS) continue;
        ways = v == LOOP_NO_DIM ? arena_printf(loops->memory, "%s none", ways)
                                : arena_printf(loops->memory, "%s c%u", ways, v);
        TRY_ALLOC(ways);
    }
    const char *why = arena_printf(loops->memory, "cannot have its stick there; it can along:%s",
                                   *ways ? ways : " nothing");
    TRY_ALLOC(why);
    return refuse(e, wanted->op, why);
}

static bool divides_anew(const loop_op *op, const spyre_loop_edit *wanted)
{
    for (uint32_t v = 0; wanted->slices && v < op->var_count; v++)
        if (wanted->slices[v] != op->split[v]) return true;
    return false;
}

static spyre_status check(edit *e, division *out_divisions)
{
    TRY(find_places(e));
    TRY(check_missing(e));
    TRY(check_order(e));
    for (uint32_t i = 0; i < e->count; i++) {
        const loop_op *op = &e->loops->ops.items[e->edits[i].op];
        TRY(check_stick(e, &e->edits[i]));
        if (!divides_anew(op, &e->edits[i])) continue;
        if (e->loops->user.point == SPYRE_LOOPS_POST_FUSION)
            return refuse(e, e->edits[i].op, "is divided, but buffers have their places already");
        if (e->loops->user.point == SPYRE_LOOPS_PRE_LAYOUT)
            return refuse(e, e->edits[i].op, "is divided, but there are no layouts yet");
        TRY(check_slices(e, &e->edits[i], &out_divisions[i]));
    }
    return NULL;
}

static spyre_status apply(const edit *e, const division *divisions)
{
    loop_graph *loops = e->loops;
    loop_op *items = ARENA_NEW(loops->memory, loop_op, e->count);
    TRY_ALLOC(items);
    for (uint32_t i = 0; i < e->count; i++) {
        const spyre_loop_edit *wanted = &e->edits[i];
        items[i] = loops->ops.items[wanted->op];
        if (wanted->stick)
            items[i].wanted_stick = wanted->stick < 0 ? LOOP_NO_DIM : (uint8_t)wanted->stick;
        if (divides_anew(&items[i], wanted))
            division_set(&items[i], &divisions[i], LOOP_DIVIDED_BY_HINT);
        if (!wanted->note) continue;
        items[i].note = arena_strdup(loops->memory, wanted->note);
        TRY_ALLOC(items[i].note);
    }
    loops->ops.items = items;
    loops->ops.count = loops->ops.capacity = e->count;
    return NULL;
}

spyre_status spyre_loops_edit(spyre_loops *loops, const char *pass, const spyre_loop_edit *ops,
                              uint32_t count)
{
    if (!loops->user.edited)
        return status_new(SPYRE_INVALID_ARGUMENT, "pass %s: edits the graph after it has returned",
                          pass);
    edit e = {.loops = loops, .pass = pass, .edits = ops, .count = count};
    TRY_NEW(loops->memory, e.place, loops->ops.count);
    TRY_NEW(loops->memory, e.writes, loops->buffers.count);
    TRY_NEW(loops->memory, e.needed, loops->buffers.count);
    division *divisions = ARENA_NEW(loops->memory, division, count);
    TRY_ALLOC(divisions);
    TRY(check(&e, divisions));
    TRY(apply(&e, divisions));
    *loops->user.edited = true;
    return NULL;
}
