// SPDX-License-Identifier: Apache-2.0
//
// fold_lines: a part of a long line that begins inside of a stick, or takes every second element,
//     b2[c0] = b1[5 + c0]                                  c0 < 300000, b1: one line, or a few
// has no other dim to carry the stick meanwhile; one element a stick would be 64 times the bytes.
// So the line is folded: b3 has a row for each lane, with its stick across the line, and the first
// rows once more, of the sticks one further on:
//     b3[4687*c1 + c0] = b1[64*c0 + c1]                    c0 < 4687, c1 < 64
//     b3[4687*(64 + c1) + c0] = b1[64*(c0 + 1) + c1]       c1 < 5
// The part begins at a row, and goes back to sticks along the line:
//     b4[64*c0 + c1] = b3[4687*(5 + c1) + c0]
// What is left behind the last whole stick is copied as before, from the sticks that it lies in.
// Parts that begin in one stick, such as the taps of a filter, share what is folded.
// So it is with windows whose steps leave sticks (rows of ten elements, frames of 160), where a row
// has as many of them as fill sticks.
#include <string.h>

#include "base/integer.h"
#include "front/front.h"
#include "front/layout/long_lines.h"

// Of a row: elements from one single element to the next, sticks of windows.
enum { MOST_STEPS = 8, MOST_STICKS = 64 };

// What several parts have in common: the stick, or row of sticks, in which they begin, the whole
// sticks that they have, and the other dims that they walk.
typedef struct {
    uint32_t buffer, others;
    int64_t base, period, rows, extent[LOOP_MAX_VARS], stride[LOOP_MAX_VARS];
} fold_key;

typedef struct {
    int64_t more, behind;     // elements of the next row that its parts reach; behind the last row
    uint32_t across, rest;    // buffers, LOOP_UNUSED before they are made
} line_fold;

typedef struct {
    loop_graph *loops;
    loop_op_list ops;      // the new order
    VEC(line_fold) folds;
    map_bytes fold_of;     // fold_key -> number in folds
    map_bytes line_of;     // part_key -> buffer
} folder;

// A part that is read by way of a fold.
typedef struct {
    const loop_op *op;
    const loop_access *access;
    line_part at;
    int64_t period, t;     // elements of a row of the fold; those in front of the part in its first
    int64_t per_row;       // windows of a row
    fold_key key;
} folded_part;

typedef struct {
    uint32_t fold;
    int64_t t, step, count, size;
} part_key;

// A further loop of a copy; LOOP_MAX_VARS for one of a single iteration.
static uint32_t add_var(loop_op *op, int64_t extent)
{
    if (extent < 2) return LOOP_MAX_VARS;
    op->extent[op->var_count] = extent;
    op->split[op->var_count] = 1;
    return op->var_count++;
}

static void set_strides(loop_op *op, uint32_t v, int64_t from, int64_t to)
{
    if (v == LOOP_MAX_VARS) return;
    op->operand[0].stride[v] = from;
    op->operand[1].stride[v] = to;
}

// The other dims that an access walks become dims of `shape` behind those it has, dense.
static void add_other_dims(const fold_key *key, loop_buffer *shape)
{
    int64_t dense = 1;
    for (uint32_t d = 0; d < shape->dim_count; d++) dense *= shape->dim[d].extent;
    for (uint32_t n = key->others; n-- > 0; dense *= key->extent[n])
        shape->dim[shape->dim_count++] = (loop_dim){key->extent[n], dense};
}

// Loops of a copy over the other dims, with the strides of `from`, null for those of the parts, and
// of `to`.
static loop_op begin_copy(const folded_part *p, const loop_buffer *from, const loop_buffer *to)
{
    const loop_buffer no_dims = {.name = p->op->name};
    const uint32_t others = p->key.others;
    loop_op copy = loop_over_dims(p->op, OPFUNC_IDENTITY, &no_dims);
    for (uint32_t n = 0; n < others; n++) {
        const uint32_t v = add_var(&copy, p->key.extent[n]);
        set_strides(&copy, v, from ? from->dim[from->dim_count - 1 - n].stride : p->key.stride[n],
                    to->dim[to->dim_count - 1 - n].stride);
    }
    return copy;
}

static spyre_status add_copy(folder *f, loop_op *copy, uint32_t from, int64_t from_offset,
                             uint32_t to, int64_t to_offset)
{
    copy->operand[0].buffer = from;
    copy->operand[0].offset = from_offset;
    copy->operand[1].buffer = to;
    copy->operand[1].offset = to_offset;
    return VEC_PUSH(loop_scratch(f->loops), &f->ops, *copy);
}

static loop_buffer shape_of(const folded_part *p, loop_dim inner, loop_dim outer)
{
    loop_buffer shape = {.dim = {inner, outer}, .dim_count = outer.extent ? 2 : 1};
    add_other_dims(&p->key, &shape);
    return shape;
}

static loop_buffer shape_across(const folded_part *p, const line_fold *fold)
{
    return shape_of(p, (loop_dim){p->key.rows, 1},
                    (loop_dim){p->period + fold->more, p->key.rows});
}

static loop_buffer shape_behind(const folded_part *p, const line_fold *fold)
{
    return shape_of(p, (loop_dim){fold->behind, 1}, (loop_dim){0, 0});
}

// Folds the line: rows of the first `period` elements, and of `more` of the next row.
static spyre_status fold_line(folder *f, const folded_part *p, line_fold *fold)
{
    const int64_t rows = p->key.rows;
    const loop_buffer across = shape_across(p, fold);
    TRY(loop_add_in_dims(f->loops, p->key.buffer, across.dim, across.dim_count, &fold->across));
    const loop_op bare = begin_copy(p, NULL, &across);
    const int64_t lengths[] = {p->period, fold->more};
    for (uint32_t n = 0; n < 2 && lengths[n]; n++) {
        loop_op copy = bare;
        set_strides(&copy, add_var(&copy, lengths[n]), 1, rows);
        set_strides(&copy, add_var(&copy, rows), p->period, 1);
        TRY(add_copy(f, &copy, p->key.buffer, p->key.base + n * p->period, fold->across,
                     n * rows * p->period));
    }
    return NULL;
}

// Copies the sticks behind the rows, so that nothing else is moved for what parts have of them.
static spyre_status copy_behind(folder *f, const folded_part *p, line_fold *fold)
{
    const loop_buffer behind = shape_behind(p, fold);
    TRY(loop_add_in_dims(f->loops, p->key.buffer, behind.dim, behind.dim_count, &fold->rest));
    loop_op copy = begin_copy(p, NULL, &behind);
    set_strides(&copy, add_var(&copy, fold->behind), 1, 1);
    return add_copy(f, &copy, p->key.buffer, p->key.base + p->key.rows * p->period, fold->rest, 0);
}

static loop_buffer shape_of_line(const folded_part *p)
{
    const loop_dim windows = {p->at.count, p->at.size};
    if (p->at.size == 1) return shape_of(p, windows, (loop_dim){0, 0});
    return shape_of(p, (loop_dim){p->at.size, 1}, windows);
}

// Makes a line of its own of the part, its windows one behind the other.
static spyre_status unfold_part(folder *f, const folded_part *p, line_fold *fold,
                                uint32_t *out_line)
{
    const int64_t rows = p->key.rows, size = p->at.size, done = rows * p->per_row;
    const loop_buffer line = shape_of_line(p);
    TRY(loop_add_in_dims(f->loops, p->key.buffer, line.dim, line.dim_count, out_line));
    if (fold->across == LOOP_UNUSED) TRY(fold_line(f, p, fold));
    const loop_buffer across = shape_across(p, fold), behind = shape_behind(p, fold);
    loop_op copy = begin_copy(p, &across, &line);
    set_strides(&copy, add_var(&copy, rows), 1, p->per_row * size);
    set_strides(&copy, add_var(&copy, p->per_row), p->at.step * rows, size);
    set_strides(&copy, add_var(&copy, size), rows, 1);
    TRY(add_copy(f, &copy, fold->across, p->t * rows, *out_line, 0));
    if (done == p->at.count) return NULL;
    if (fold->rest == LOOP_UNUSED) TRY(copy_behind(f, p, fold));
    copy = begin_copy(p, &behind, &line);
    set_strides(&copy, add_var(&copy, p->at.count - done), p->at.step, size);
    set_strides(&copy, add_var(&copy, size), 1, 1);
    return add_copy(f, &copy, fold->rest, p->t, *out_line, done * size);
}

// --- Parts

// The other dims; false when there are too many, or one is so long that it carries sticks. Rows of
// several sticks would not divide what a dim outside of the line's sticks walks.
static bool find_others(folded_part *p)
{
    int64_t longest = 1;
    for (uint32_t v = 0; v < p->op->var_count; v++) {
        if (v == p->at.var || v == p->at.within || !p->access->stride[v]) continue;
        if (p->key.others + 3 == LOOP_MAX_VARS) return false;
        if (p->key.others && p->period > p->at.lanes) return false;
        if (p->op->extent[v] > longest) longest = p->op->extent[v];
        p->key.extent[p->key.others] = p->op->extent[v];
        p->key.stride[p->key.others++] = p->access->stride[v];
    }
    return long_lines_pay(p->key.rows, longest, p->at.lanes);
}

// Elements of a row of the fold: of single elements as many steps as a stick has lanes, of windows
// the fewest steps that are whole sticks; 0 where the part needs no fold, or none helps.
static int64_t find_period(const line_part *at)
{
    if (at->count < 2) return 0;
    if (at->size == 1) {
        const bool begins_stick = at->first % at->lanes == 0 && at->step == 1;
        return begins_stick || at->step > MOST_STEPS ? 0 : at->step * at->lanes;
    }
    const int64_t period = common_multiple(at->step, at->lanes);
    return at->step % at->lanes == 0 || period > MOST_STICKS * at->lanes ? 0 : period;
}

static bool find_folded(const loop_graph *loops, const loop_op *op, uint32_t k, folded_part *out)
{
    memset(out, 0, sizeof *out); // the key is one of bytes
    out->op = op;
    out->access = &op->operand[k];
    line_part *at = &out->at;
    if (!long_lines_find_part(loops, op, out->access, at)) return false;
    out->period = find_period(at);
    if (!out->period) return false;
    out->per_row = out->period / at->step;
    out->t = at->first % (at->size == 1 ? out->period : at->lanes);
    const int64_t left = loop_operand_buffer(loops, op, k)->dim[0].extent - at->first + out->t;
    const int64_t rows = at->count / out->per_row, most = left / out->period;
    out->key.buffer = out->access->buffer;
    out->key.base = out->access->offset - out->t;
    out->key.period = out->period;
    out->key.rows = rows < most ? rows : most;
    return find_others(out);
}

static int64_t at_least(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

// Notes what the part needs of its fold.
static spyre_status note_part(folder *f, const folded_part *p)
{
    uint32_t n;
    arena *scratch = loop_scratch(f->loops);
    TRY(map_bytes_intern(scratch, &f->fold_of, &p->key, sizeof p->key, f->folds.count, &n));
    if (n == f->folds.count)
        TRY(VEC_PUSH(scratch, &f->folds, ((line_fold){0, 0, LOOP_UNUSED, LOOP_UNUSED})));
    line_fold *fold = &f->folds.items[n];
    const int64_t end = p->t + p->at.step * (p->at.count - 1) + p->at.size;
    fold->more = at_least(fold->more, p->t - p->at.step + p->at.size);
    fold->behind = at_least(fold->behind, end - p->key.rows * p->period);
    return NULL;
}

// Lets the access read a line of its own, dense.
static void read_line(const folded_part *p, loop_access *access, uint32_t line)
{
    const loop_access before = *access;
    int64_t dense = p->at.count * p->at.size;
    *access = (loop_access){.buffer = line};
    access->stride[p->at.var] = p->at.size;
    if (p->at.size > 1) access->stride[p->at.within] = 1;
    for (uint32_t v = p->op->var_count; v-- > 0;) {
        if (v == p->at.var || v == p->at.within || !before.stride[v]) continue;
        access->stride[v] = dense;
        dense *= p->op->extent[v];
    }
}

static spyre_status fold_operand(folder *f, loop_op *op, uint32_t k)
{
    folded_part p;
    part_key key;
    uint32_t line;
    if (!find_folded(f->loops, op, k, &p)) return NULL;
    memset(&key, 0, sizeof key);
    key.t = p.t;
    key.step = p.at.step;
    key.count = p.at.count;
    key.size = p.at.size;
    if (!map_bytes_get(&f->fold_of, &p.key, sizeof p.key, &key.fold)) return NULL;
    if (!map_bytes_get(&f->line_of, &key, sizeof key, &line)) {
        TRY(unfold_part(f, &p, &f->folds.items[key.fold], &line));
        TRY(map_bytes_put(loop_scratch(f->loops), &f->line_of, &key, sizeof key, line));
    }
    read_line(&p, &op->operand[k], line);
    return NULL;
}

spyre_status pass_fold_lines(loop_graph *loops, bool *out_changed)
{
    folder f = {.loops = loops};
    folded_part p;
    for (uint32_t i = 0; i < loops->ops.count; i++)
        for (uint32_t k = 0; k + 1 < loops->ops.items[i].operand_count; k++)
            if (find_folded(loops, &loops->ops.items[i], k, &p)) TRY(note_part(&f, &p));
    if (!f.folds.count) return NULL;
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        loop_op op = loops->ops.items[i];
        for (uint32_t k = 0; k + 1 < op.operand_count; k++) TRY(fold_operand(&f, &op, k));
        TRY(VEC_PUSH(loop_scratch(loops), &f.ops, op));
    }
    *out_changed = true;
    return loop_take_ops(loops, &f.ops);
}
