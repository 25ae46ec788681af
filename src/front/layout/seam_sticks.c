// SPDX-License-Identifier: Apache-2.0
//
// seam_sticks: a long line that is put together of pieces which end inside of sticks
// (concatenation, padding, a roll) would be one element a stick, since no op writes a part of one:
//     b2[c0] = b0[c0]              c0 < 100000
//     b2[100000 + c0] = b1[c0]     c0 < 50000
// Here each stick with parts of several pieces, a seam, is a line of its own, and what lies between
// seams are whole sticks:
//     b2[c0] = b0[c0]              c0 < 99968
//     b3[c0] = b0[99968 + c0]      c0 < 32
//     b3[32 + c0] = b1[c0]         c0 < 32
//     b2[100032 + c0] = b1[32 + c0]   c0 < 49968
//     b2[99968 + c0] = b3[c0]      c0 < 64
// fold_lines helps what then begins inside of sticks of what it reads.
#include "base/integer.h"
#include "front/front.h"
#include "front/ir/def_use.h"
#include "front/layout/long_lines.h"

enum { MOST_SEAMS = 16 };

// Those of a line.
typedef struct {
    loop_graph *loops;
    uint32_t buffer, count;
    uint32_t last;               // op that writes the line
    int64_t lanes;
    int64_t stick[MOST_SEAMS];   // ascending
    uint32_t line[MOST_SEAMS];   // the seam's buffer
    loop_op_list *ops;           // the new order
} seams;

static const loop_buffer *line_of(const seams *s)
{
    return &s->loops->buffers.items[s->buffer];
}

// Whether the access walks all of every dim but the innermost.
static bool walks_other_dims(const loop_buffer *buffer, const loop_op *op,
                             const loop_access *access)
{
    int64_t walked = 1, all = 1;
    for (uint32_t v = 0; v < op->var_count; v++)
        if (access->stride[v] && loop_dim_at(buffer, access->stride[v])) walked *= op->extent[v];
    for (uint32_t d = 1; d < buffer->dim_count; d++) all *= buffer->dim[d].extent;
    return walked == all && access->offset < buffer->dim[0].extent;
}

// A part of each line that the op writes and can write in parts.
static bool find_piece(const seams *s, const loop_op *op, line_part *out)
{
    const loop_access *access = loop_result(op);
    return loop_is_element_wise(op) && long_lines_find_part(s->loops, op, access, out) &&
           out->step == 1 && out->size == 1 && walks_other_dims(line_of(s), op, access);
}

// Adds the stick in which the line is cut, unless that is between two; false when there are too
// many.
static bool add_cut(seams *s, int64_t cut)
{
    uint32_t at = s->count;
    const int64_t stick = cut / s->lanes;
    if (cut % s->lanes == 0 || cut == line_of(s)->dim[0].extent) return true;
    for (uint32_t n = 0; n < s->count; n++)
        if (s->stick[n] == stick) return true;
    if (s->count == MOST_SEAMS) return false;
    for (; at > 0 && s->stick[at - 1] > stick; at--) s->stick[at] = s->stick[at - 1];
    s->stick[at] = stick;
    s->count++;
    return true;
}

static int64_t longest_other(const loop_buffer *buffer)
{
    int64_t longest = 1;
    for (uint32_t d = 1; d < buffer->dim_count; d++)
        if (buffer->dim[d].extent > longest) longest = buffer->dim[d].extent;
    return longest;
}

// Whether several ops write the buffer, and its innermost dim is a long line.
static bool may_have_seams(const seams *s, const def_use *f)
{
    const loop_buffer *buffer = line_of(s);
    return buffer->kind == LOOP_LOCAL && buffer->dim_count &&
           f->writer[s->buffer] == DEF_USE_MANY_WRITERS &&
           long_lines_pay(buffer->dim[0].extent / s->lanes, longest_other(buffer), s->lanes);
}

// Adds the ends of what the op writes; false when it could not write around seams.
static bool add_cuts(seams *s, const loop_op *op)
{
    line_part part;
    return find_piece(s, op, &part) && add_cut(s, part.first) &&
           add_cut(s, part.first + part.count);
}

// An op reads the line before it is complete.
static bool is_read_early(const seams *s, const def_use *f)
{
    return def_use_use_count(f, s->buffer) && f->uses[f->first_use[s->buffer]].op <= s->last;
}

// The seams of each buffer, null for those that have none.
static spyre_status find_seams(loop_graph *loops, seams **of)
{
    arena *scratch = loop_scratch(loops);
    def_use f;
    TRY(def_use_build(loops, &f));
    for (uint32_t b = 0; b < loops->buffers.count; b++) {
        const seams fresh = {.loops = loops, .buffer = b,
                             .lanes = loop_lanes(&loops->buffers.items[b])};
        if (!may_have_seams(&fresh, &f)) continue;
        TRY_NEW(scratch, of[b], 1);
        *of[b] = fresh;
    }
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        seams **s = &of[loop_result(&loops->ops.items[i])->buffer];
        if (!*s) continue;
        (*s)->last = i;
        if (!add_cuts(*s, &loops->ops.items[i])) *s = NULL;
    }
    for (uint32_t b = 0; b < loops->buffers.count; b++)
        if (of[b] && (!of[b]->count || is_read_early(of[b], &f))) of[b] = NULL;
    return NULL;
}

static int64_t seam_length(const seams *s, uint32_t n)
{
    const int64_t rest = line_of(s)->dim[0].extent - s->stick[n] * s->lanes;
    return rest < s->lanes ? rest : s->lanes;
}

static spyre_status add_seam_lines(seams *s)
{
    for (uint32_t n = 0; n < s->count; n++) {
        loop_dim dims[LOOP_MAX_DIMS];
        const uint32_t count = line_of(s)->dim_count;
        int64_t dense = seam_length(s, n);
        dims[0] = (loop_dim){dense, 1};
        for (uint32_t d = 1; d < count; d++) {
            dims[d] = (loop_dim){line_of(s)->dim[d].extent, dense};
            dense *= dims[d].extent;
        }
        TRY(loop_add_in_dims(s->loops, s->buffer, dims, count, &s->line[n]));
    }
    return NULL;
}

// Lets an op that writes within a seam write the seam's line.
static void write_seam(const seams *s, uint32_t n, loop_op *op)
{
    const loop_buffer *whole = line_of(s), *seam = &s->loops->buffers.items[s->line[n]];
    loop_access *access = loop_output_of(op);
    for (uint32_t v = 0; v < op->var_count; v++) {
        if (!access->stride[v]) continue;
        const uint32_t d = loop_dim_at(whole, access->stride[v]);
        access->stride[v] = access->stride[v] / whole->dim[d].stride * seam->dim[d].stride;
    }
    access->offset -= s->stick[n] * s->lanes;
    access->buffer = s->line[n];
}

// The elements first .. first + count - 1 of the op's piece, in seam n, or between seams.
static spyre_status write_part(seams *s, const loop_op *op, const line_part *piece, int64_t first,
                               int64_t count, uint32_t n)
{
    loop_op part = *op;
    if (piece->var < op->var_count)
        TRY(loop_take_part(s->loops, &part, piece->var, first, count));
    if (n < s->count) write_seam(s, n, &part);
    return VEC_PUSH(loop_scratch(s->loops), s->ops, part);
}

static spyre_status write_parts(seams *s, const loop_op *op)
{
    line_part piece;
    uint32_t n = 0;
    if (!find_piece(s, op, &piece)) return NULL; // find_seams() has found it
    const int64_t end = piece.first + piece.count;
    for (int64_t at = piece.first; at < end;) {
        while (n < s->count && (s->stick[n] + 1) * s->lanes <= at) n++;
        const int64_t seam = n < s->count ? s->stick[n] * s->lanes : end;
        int64_t stop = at < seam ? seam : seam + s->lanes;
        if (stop > end) stop = end;
        TRY(write_part(s, op, &piece, at - piece.first, stop - at, at < seam ? s->count : n));
        at = stop;
    }
    return NULL;
}

static spyre_status copy_seams(seams *s, const loop_op *near)
{
    for (uint32_t n = 0; n < s->count; n++) {
        const loop_buffer *whole = line_of(s), *seam = &s->loops->buffers.items[s->line[n]];
        loop_op copy = loop_over_dims(near, OPFUNC_IDENTITY, seam);
        uint32_t v = 0;
        for (uint32_t d = seam->dim_count; d-- > 0; v++)
            copy.operand[1].stride[v] = whole->dim[d].stride;
        copy.stick = LOOP_NO_DIM;
        copy.name = whole->name;
        copy.operand[0].buffer = s->line[n];
        copy.operand[1].buffer = s->buffer;
        copy.operand[1].offset = s->stick[n] * s->lanes;
        TRY(VEC_PUSH(loop_scratch(s->loops), s->ops, copy));
    }
    return NULL;
}

spyre_status pass_seam_sticks(loop_graph *loops, bool *out_changed)
{
    const uint32_t buffers = loops->buffers.count;
    loop_op_list ops = {0};
    seams **of;
    TRY_NEW(loop_scratch(loops), of, buffers);
    TRY(find_seams(loops, of));
    for (uint32_t b = 0; b < buffers; b++) {
        if (!of[b]) continue;
        of[b]->ops = &ops;
        TRY(add_seam_lines(of[b]));
        *out_changed = true;
    }
    for (uint32_t i = 0; i < loops->ops.count && *out_changed; i++) {
        const loop_op op = loops->ops.items[i];
        seams *s = of[loop_result(&op)->buffer];
        if (s) TRY(write_parts(s, &op));
        else TRY(VEC_PUSH(loop_scratch(loops), &ops, op));
        if (s && i == s->last) TRY(copy_seams(s, &op));
    }
    return *out_changed ? loop_take_ops(loops, &ops) : NULL;
}
