// SPDX-License-Identifier: Apache-2.0
#include "front/layout/restickify.h"

#include <string.h>

#include "base/integer.h"
#include "front/layout/stick_refusal.h"

// A whole copy stands for the same host tensor, a piece for what one access reaches.
restickify_key restickify_key_of(const loop_graph *loops, const loop_op *copy)
{
    restickify_key key;
    memset(&key, 0, sizeof key);
    key.source = copy->operand[0].buffer;
    key.whole = loop_operand_buffer(loops, copy, 1)->storage.rank > 0;
    key.stick = copy->stick;
    key.offset = copy->operand[0].offset;
    memcpy(key.extent, copy->extent, sizeof key.extent);
    memcpy(key.stride, copy->operand[0].stride, sizeof key.stride);
    memcpy(key.target_stride, copy->operand[1].stride, sizeof key.target_stride);
    return key;
}

// Appends the copy into the buffer that was added last, unless an equal one exists: then that
// buffer goes, and *out_target is the other copy's.
static spyre_status append(restickifier *r, const loop_op *copy, uint32_t *out_target)
{
    loop_graph *loops = r->loops;
    uint32_t fresh = copy->operand[1].buffer;
    restickify_key key = restickify_key_of(loops, copy);
    *out_target = fresh;
    if (!r->forgets)
        TRY(map_bytes_intern(loops->memory, &r->done, &key, sizeof key, fresh, out_target));
    if (*out_target == fresh) return VEC_PUSH(loops->memory, r->ops, *copy);
    loops->buffers.count--;
    return NULL;
}

// What is copied so that its stick may move: a buffer, or that part of it which an access reaches.
typedef struct {
    loop_buffer part;   // has no layout yet
    loop_access access; // of the part; its buffer is still the whole
    int64_t offset;     // of the part in the whole, in host elements
} region;

// How an access walks one dim of a buffer: from index `base` in `count` strides of `step` (count 1:
// in none), and from each of these over the indices [first, last] behind it.
typedef struct {
    int64_t base, first, last, step, count;
} dim_walk;

// A stride that leaves indices out between those that the access reaches, if there is one. Whole
// strides have to fit the dim, or the part's next dim would begin inside of the last.
static void find_stride(const loop_buffer *buffer, const loop_op *op, const loop_access *access,
                        uint32_t d, dim_walk *w)
{
    for (uint32_t v = 0; v < op->var_count; v++) {
        if (access->stride[v] <= 0 || loop_dim_at(buffer, access->stride[v]) != d) continue;
        int64_t step = access->stride[v] / buffer->dim[d].stride, count = op->extent[v];
        int64_t begin = w->base + w->first, first = begin % step;
        int64_t last = first + w->last - w->first - step * (count - 1);
        if (step == 1 || last >= step) continue;
        if (step * count > buffer->dim[d].extent && d + 1 < buffer->dim_count) continue;
        if (d == buffer->stick && step % loop_lanes(buffer)) continue;
        *w = (dim_walk){begin - first, first, last, step, count};
        return;
    }
}

static bool walk_dims(const loop_buffer *buffer, const loop_op *op, const loop_access *access,
                      dim_walk *walks)
{
    int64_t first[LOOP_MAX_DIMS], last[LOOP_MAX_DIMS];
    if (loop_split_offset(buffer, access->offset, first)) return false;
    if (!loop_find_reach(buffer, op, access, first, last)) return false;
    for (uint32_t d = 0; d < buffer->dim_count; d++)
        walks[d] = (dim_walk){0, first[d], last[d], 1, 1};
    return true;
}

static void add_dim(loop_buffer *part, int64_t extent, int64_t stride)
{
    if (extent > 1) part->dim[part->dim_count++] = (loop_dim){extent, stride};
}

// A copy of the whole serves every reader. So only small parts, of which few readers can be, are
// copied alone: a quarter at most.
enum { PARTS_WORTH_A_WHOLE = 4 };

static region region_of(const loop_buffer *buffer, const loop_op *op, const loop_access *access)
{
    region whole = {.part = *buffer, .access = *access}, out = whole;
    dim_walk walks[LOOP_MAX_DIMS];
    double elements = 1, all = 1;
    whole.part.kind = out.part.kind = LOOP_LOCAL;
    if (op->tile_depth || !walk_dims(buffer, op, access, walks)) return whole;
    out.part.dim_count = 0;
    out.part.storage = (spyre_view){.rank = 0};
    for (uint32_t d = 0; d < buffer->dim_count; d++) {
        int64_t stride = buffer->dim[d].stride;
        dim_walk w = walks[d];
        if (out.part.dim_count + buffer->dim_count - d < LOOP_MAX_VARS)
            find_stride(buffer, op, access, d, &w);
        if (d == buffer->stick) w.first -= w.first % loop_lanes(buffer);
        out.offset += (w.base + w.first) * stride;
        add_dim(&out.part, w.last - w.first + 1, stride);
        add_dim(&out.part, w.count, w.step * stride);
        elements *= (double)((w.last - w.first + 1) * w.count);
        all *= (double)buffer->dim[d].extent;
    }
    out.access.offset -= out.offset;
    return elements * PARTS_WORTH_A_WHOLE <= all ? out : whole;
}

// Copies a region of buffer `source` so that its stick runs along dim `stick`.
static spyre_status move_stick(restickifier *r, const loop_op *near, uint32_t source,
                               const region *from, uint8_t stick, uint32_t *out)
{
    const loop_buffer *part = &from->part;
    uint32_t target;
    if (part->dim_count > LOOP_MAX_VARS)
        return status_new(SPYRE_UNSUPPORTED, "%s: a tensor of more than 8 dims changes its stick",
                          near->name);
    TRY(loop_add_local(r->loops, part->name, part->dtype, part->format, &part->storage, &target));
    loop_buffer *to = &r->loops->buffers.items[target];
    to->dim_count = part->dim_count;
    memcpy(to->dim, part->dim, sizeof to->dim);
    loop_set_layout(to, stick);
    loop_op op = loop_over_dims(near, OPFUNC_RESTICKIFY, to);
    op.name = near->name;
    op.operand[0].buffer = source;
    op.operand[0].offset = from->offset;
    op.operand[1].buffer = target;
    return append(r, &op, out);
}

// The dim of a region for the stick under which its access can be expressed: the one that `want`
// walks if possible, else large dims first; LOOP_NO_DIM (sparse) as a last resort, or where that is
// what `want` is. *out_found is false when no layout can express it.
static spyre_status choose_stick(restickifier *r, const loop_op *op, const region *from,
                                 uint8_t want, uint8_t *out_stick, bool *out_found)
{
    loop_graph *loops = r->loops;
    const loop_buffer *part = &from->part;
    uint32_t id = loops->buffers.count;
    TRY(VEC_PUSH(loops->memory, &loops->buffers, *part));
    loop_access moved = from->access;
    moved.buffer = id;
    loop_location place;
    int64_t best = 0;
    *out_found = false;
    for (uint8_t d = 0; d <= part->dim_count; d++) {
        bool sparse = d == part->dim_count;
        loop_set_layout(&loops->buffers.items[id], sparse ? LOOP_NO_DIM : d);
        if (loop_locate(loops, op, &moved, &place)) continue;
        int64_t worth = place.stick_var == want ? INT64_MAX : sparse ? 0 : part->dim[d].extent;
        if (*out_found && worth <= best) continue;
        *out_found = true;
        *out_stick = sparse ? LOOP_NO_DIM : d;
        best = worth;
    }
    loops->buffers.count--;
    return NULL;
}

// Where a view begins and ends inside of the sticks of every long dim, only a copy of the whole
// with its stick along a short one can express it, or with a stick for each element. A denser one
// can whose stick dim begins where the view does; it is cut so while the stick is elsewhere.

// The buffer with dim `d` cut to what the access reaches of it; false where the buffer's own stick
// does not let it be cut there.
static bool cut_dim(const loop_buffer *buffer, const loop_op *op, const loop_access *access,
                    uint8_t d, region *out)
{
    dim_walk walks[LOOP_MAX_DIMS];
    if (op->tile_depth || !walk_dims(buffer, op, access, walks)) return false;
    const dim_walk *w = &walks[d];
    bool begins_inside = d == buffer->stick && w->first % loop_lanes(buffer);
    if (begins_inside || w->first == w->last) return false;
    *out = (region){.part = *buffer, .access = *access};
    out->part.kind = LOOP_LOCAL;
    out->part.storage = (spyre_view){.rank = 0};
    out->part.dim[d].extent = w->last - w->first + 1;
    out->offset = w->first * buffer->dim[d].stride;
    out->access.offset -= out->offset;
    return true;
}

// Whether sticks along the dim, or of one element each, are mostly empty.
static bool wastes_sticks(const loop_buffer *part, uint8_t stick)
{
    return stick == LOOP_NO_DIM || part->dim[stick].extent * RESTICKIFY_EMPTY <= loop_lanes(part);
}

// The cut that fills sticks best, if a dense copy of one can express the view.
static spyre_status choose_cut(restickifier *r, const loop_op *op, const loop_access *access,
                               uint8_t want, region *out, uint8_t *out_stick)
{
    const loop_buffer buffer = r->loops->buffers.items[access->buffer];
    int64_t most = 0;
    *out_stick = LOOP_NO_DIM;
    for (uint8_t d = 0; d < buffer.dim_count; d++) {
        region cut;
        uint8_t stick;
        bool found;
        if (!cut_dim(&buffer, op, access, d, &cut) || wastes_sticks(&cut.part, d)) continue;
        TRY(choose_stick(r, op, &cut, want, &stick, &found));
        if (!found || stick != d || cut.part.dim[d].extent <= most) continue;
        most = cut.part.dim[d].extent;
        *out = cut;
        *out_stick = d;
    }
    return NULL;
}

static uint8_t largest_dim_but(const loop_buffer *buffer, uint8_t stick)
{
    uint8_t best = LOOP_NO_DIM;
    for (uint8_t d = 0; d < buffer->dim_count; d++)
        if (d != stick && (best == LOOP_NO_DIM ||
                           buffer->dim[d].extent > buffer->dim[best].extent))
            best = d;
    return best;
}

// What to copy, and where its stick goes; a copy of the whole comes first where the view begins
// inside of a stick of the dim that has to be cut. LOOP_NO_DIM when there is no such way.
static spyre_status find_cut(restickifier *r, const loop_op *op, loop_access *access, uint8_t want,
                             region *out, uint8_t *out_stick)
{
    TRY(choose_cut(r, op, access, want, out, out_stick));
    loop_graph *loops = r->loops;
    const region whole = {.part = loops->buffers.items[access->buffer]};
    uint8_t aside = largest_dim_but(&whole.part, whole.part.stick);
    if (*out_stick != LOOP_NO_DIM || op->tile_depth || aside == LOOP_NO_DIM) return NULL;
    // As if the copy of the whole were there already.
    loop_access moved = *access;
    moved.buffer = loops->buffers.count;
    TRY(VEC_PUSH(loops->memory, &loops->buffers, whole.part));
    loop_set_layout(&loops->buffers.items[moved.buffer], aside);
    TRY(choose_cut(r, op, &moved, want, out, out_stick));
    loops->buffers.count--;
    if (*out_stick == LOOP_NO_DIM) return NULL;
    return move_stick(r, op, access->buffer, &whole, aside, &access->buffer);
}

// Copies what the access reaches into a dense buffer whose stick runs along `want`.
static spyre_status copy_piece(restickifier *r, loop_op *op, uint32_t operand, uint8_t want)
{
    loop_graph *loops = r->loops;
    loop_access *access = &op->operand[operand];
    const loop_buffer from = loops->buffers.items[access->buffer];
    uint32_t moving[LOOP_MAX_VARS], count = 0, target; // by ascending stride: the host's order
    for (uint32_t v = 0; v < op->var_count; v++) {
        if (!access->stride[v]) continue;
        uint32_t at = count++;
        for (; at > 0 && access->stride[moving[at - 1]] >= access->stride[v]; at--)
            moving[at] = moving[at - 1];
        moving[at] = v;
    }
    TRY(loop_add_local(loops, from.name, from.dtype, from.format, &(spyre_view){.rank = 0},
                       &target));
    loop_buffer *to = &loops->buffers.items[target];
    uint8_t stick = LOOP_NO_DIM;
    int64_t dense = 1;
    for (uint32_t d = 0; d < count; d++) {
        to->dim[to->dim_count++] = (loop_dim){op->extent[moving[d]], dense};
        dense *= op->extent[moving[d]];
        if (moving[d] == want) stick = (uint8_t)d;
    }
    loop_set_layout(to, stick);
    loop_op copy = loop_over_dims(op, OPFUNC_RESTICKIFY, to);
    copy.name = op->name;
    copy.operand[0] = (loop_access){.buffer = access->buffer, .offset = access->offset};
    copy.operand[1].buffer = target;
    for (uint32_t d = 0; d < count; d++)
        copy.operand[0].stride[count - 1 - d] = access->stride[moving[d]];
    TRY(append(r, &copy, &target));
    *access = (loop_access){.buffer = target};
    for (uint32_t d = 0; d < count; d++)
        access->stride[moving[d]] = copy.operand[1].stride[count - 1 - d];
    return NULL;
}

bool restickify_is_copy_out(const loop_graph *loops, const loop_op *op)
{
    const loop_access *from = &op->operand[0], *to = &op->operand[1];
    if (!loop_is_move(loops, op)) return false;
    const loop_buffer *target = &loops->buffers.items[to->buffer];
    int64_t elements = 1, storage = 1;
    for (uint32_t v = 0; v < op->var_count; v++) {
        if (!from->stride[v] || !to->stride[v]) return false;
        elements *= op->extent[v];
    }
    for (uint32_t d = 0; d < target->dim_count; d++) storage *= target->dim[d].extent;
    return target->output >= 0 && elements == storage;
}

// Whether windows share elements: a copy of what they reach would walk one dim twice, which no
// bundle can say.
static bool windows_overlap(const loop_op *op, const loop_access *access)
{
    for (uint32_t v = 0; v < op->var_count; v++) {
        int64_t stride = access->stride[v], reach = 0;
        for (uint32_t u = 0; u < op->var_count; u++) {
            bool inner = access->stride[u] < stride || (access->stride[u] == stride && u > v);
            if (inner) reach += access->stride[u] * (op->extent[u] - 1);
        }
        if (stride > 0 && reach >= stride) return true;
    }
    return false;
}

// Whether a restickify can read what the op itself cannot: one that cuts sticks.
static bool restickify_can_read(const loop_graph *loops, const loop_op *op, uint32_t operand)
{
    loop_location place;
    loop_op copy = *op;
    copy.op = OPFUNC_RESTICKIFY;
    return !op->table && !loop_locate(loops, &copy, &copy.operand[operand], &place);
}

spyre_status restickify_operand(restickifier *r, loop_op *op, uint32_t operand, uint8_t want)
{
    loop_access *access = &op->operand[operand];
    loop_location place;
    const char *why = loop_locate(r->loops, op, access, &place);
    if (!why && place.stick_var == want) return NULL;
    bool overlaps = windows_overlap(op, access);
    if (overlaps || (why && !restickify_can_read(r->loops, op, operand))) {
        uint8_t stick = LOOP_NO_DIM, cut_stick = LOOP_NO_DIM;
        bool found;
        region from = region_of(&r->loops->buffers.items[access->buffer], op, access), cut;
        TRY(choose_stick(r, op, &from, want, &stick, &found));
        if (found && want != LOOP_NO_DIM && wastes_sticks(&from.part, stick)) {
            TRY(find_cut(r, op, access, want, &cut, &cut_stick));
            if (cut_stick != LOOP_NO_DIM) from = cut, stick = cut_stick;
        }
        if (!found) return stick_refusal(r->loops, op, "no layout fits the view of an operand");
        uint32_t moved;
        TRY(move_stick(r, op, access->buffer, &from, stick, &moved));
        *access = from.access;
        access->buffer = moved;
        why = loop_locate(r->loops, op, access, &place);
        if (!why && place.stick_var == want) return NULL;
    }
    if (!restickify_is_copy_out(r->loops, op)) return copy_piece(r, op, operand, want);
    op->op = OPFUNC_RESTICKIFY;
    return NULL;
}

void restickify_name_copies(loop_graph *loops)
{
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        loop_op *op = &loops->ops.items[i];
        if (loop_is_move(loops, op) && loop_cuts_sticks(loops, op)) op->op = OPFUNC_RESTICKIFY;
    }
}

// The smallest byte stride above `stride`, of variables that do move; 0 when there is none.
static int64_t next_stride(const loop_op *op, const loop_location *place, int64_t stride,
                           int64_t lanes)
{
    int64_t next = 0;
    for (uint32_t u = 0; u < op->var_count; u++) {
        bool single = u == place->stick_var && op->extent[u] <= lanes;
        if (single || place->stride[u] <= stride) continue;
        if (!next || place->stride[u] < next) next = place->stride[u];
    }
    return next;
}

spyre_status restickify_padded(restickifier *r, loop_op *op, uint32_t operand, uint8_t padded,
                               int64_t lanes)
{
    loop_location place;
    const loop_access *access = &op->operand[operand];
    const loop_buffer *buffer = &r->loops->buffers.items[access->buffer];
    if (loop_locate(r->loops, op, access, &place) || place.stick_var == padded) return NULL;
    int64_t own = loop_lanes(buffer), next = next_stride(op, &place, place.stride[padded], own);
    if (!next || !place.stride[padded]) return NULL;
    // Padding is cut off where the next dim starts right behind (emit_tensor.c).
    if (next == place.stride[padded] * op->extent[padded]) return NULL;
    int64_t steps = round_up(op->extent[padded], lanes);
    int64_t end = place.offset + SPYRE_STICK_BYTES;
    for (uint32_t v = 0; v < op->var_count; v++) {
        int64_t count = v == padded ? steps : op->extent[v];
        if (v == place.stick_var) count = divide_up(count, own);
        end += (count - 1) * place.stride[v];
    }
    return end > loop_device_bytes(buffer) ? copy_piece(r, op, operand, place.stick_var) : NULL;
}

// An op that reads the table row by row: its variables are the gather's that move in the table, and
// the rows.
typedef struct {
    loop_op op;
    uint8_t var[LOOP_MAX_VARS]; // of the gather
    uint32_t row;               // the variable of the rows; var_count when there is one row only
} table_reader;

static spyre_status begin_table_reader(const loop_op *gather, table_reader *out)
{
    const loop_access *table = &gather->operand[1];
    const loop_buffer no_dims = {.name = gather->name};
    *out = (table_reader){.op = loop_over_dims(gather, OPFUNC_RESTICKIFY, &no_dims)};
    loop_op *op = &out->op;
    op->operand[0] = (loop_access){.buffer = table->buffer, .offset = table->offset};
    for (uint8_t v = 0; v < gather->var_count; v++) {
        if (!table->stride[v]) continue;
        out->var[op->var_count] = v;
        op->extent[op->var_count] = gather->extent[v];
        op->operand[0].stride[op->var_count++] = table->stride[v];
    }
    out->row = op->var_count;
    if (gather->row_count < 2) return NULL;
    if (op->var_count == LOOP_MAX_VARS)
        return status_new(SPYRE_UNSUPPORTED, "%s: the rows of a table have more than 7 dims",
                          gather->name);
    op->extent[op->var_count] = gather->row_count;
    op->operand[0].stride[op->var_count++] = gather->row_stride;
    return NULL;
}

static void end_table_reader(const table_reader *reader, loop_op *gather)
{
    const loop_access *from = &reader->op.operand[0];
    loop_access *table = &gather->operand[1];
    *table = (loop_access){.buffer = from->buffer, .offset = from->offset};
    for (uint32_t v = 0; v < reader->row; v++) table->stride[reader->var[v]] = from->stride[v];
    if (reader->row < reader->op.var_count) gather->row_stride = from->stride[reader->row];
}

// True when what lies behind the rows starts right after the last: an index can check nothing else.
static bool rows_are_dense(const restickifier *r, const loop_op *op)
{
    loop_location place;
    const loop_access *table = &op->operand[1];
    int64_t lanes = loop_lanes(&r->loops->buffers.items[table->buffer]);
    if (loop_locate(r->loops, op, table, &place)) return false;
    int64_t next = next_stride(op, &place, place.row_stride, lanes);
    int64_t end = place.row_stride * loop_row_steps(r->loops, op, &place);
    return !next || !place.row_stride || next == end;
}

// Whether the rows are all elements of a buffer of several dims, one after the other in whole
// sticks of them.
static bool rows_are_all_elements(const loop_graph *loops, const loop_op *gather)
{
    const loop_access *table = &gather->operand[1];
    const loop_buffer *buffer = &loops->buffers.items[table->buffer];
    int64_t elements = 1;
    for (uint32_t d = 0; d < buffer->dim_count; d++) {
        if (buffer->dim[d].stride != elements) return false;
        elements *= buffer->dim[d].extent;
    }
    return buffer->dim_count > 1 && buffer->dim_count <= LOOP_MAX_VARS && !table->offset &&
           gather->row_stride == 1 && gather->row_count == elements &&
           buffer->dim[0].extent % loop_lanes(buffer) == 0;
}

// Copies such a table into a buffer whose sticks lie in the order of the rows.
static spyre_status line_up_sticks(restickifier *r, loop_op *gather)
{
    loop_access *table = &gather->operand[1];
    const region whole = {.part = r->loops->buffers.items[table->buffer]};
    const uint32_t id = r->loops->buffers.count;
    uint32_t copied;
    TRY(move_stick(r, gather, table->buffer, &whole, 0, &copied));
    table->buffer = copied;
    if (copied == id) loop_line_up(&r->loops->buffers.items[id]);
    return NULL;
}

spyre_status restickify_table(restickifier *r, loop_op *op, uint8_t want)
{
    table_reader reader;
    loop_location place;
    if (want == LOOP_ROWS && rows_are_all_elements(r->loops, op)) {
        if (loop_locate(r->loops, op, &op->operand[1], &place)) return line_up_sticks(r, op);
        if (place.stick_var == want) return NULL;
    }
    TRY(begin_table_reader(op, &reader));
    uint8_t stick = LOOP_NO_DIM;
    for (uint8_t v = 0; v < reader.row; v++)
        if (reader.var[v] == want) stick = v;
    if (want == LOOP_ROWS) stick = (uint8_t)reader.row;
    TRY(restickify_operand(r, &reader.op, 0, stick));
    end_table_reader(&reader, op);
    if (rows_are_dense(r, op)) return NULL;
    TRY(copy_piece(r, &reader.op, 0, stick));
    end_table_reader(&reader, op);
    return NULL;
}
