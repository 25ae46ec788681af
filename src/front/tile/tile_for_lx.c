// SPDX-License-Identifier: Apache-2.0
//
// Tiles without a hint, for LX: ops that pass more on to each other than the LX of all cores holds
// work in tiles, so that what passes is a tile. A stretch begins with an op on a large buffer, of
// which a dim is cut. Ops that walk what the stretch writes as it was written join it, values of a
// row among them, and so do sums along the dim in fp32, which are combined tile by tile; 16 bits
// would round each part. A dim along which sums go back into the stretch would end the loop there,
// and what passes would be whole again. What several ops of the stretch read passes, too, as a copy
// (tile_copies.c). Of the dims, the one with which most passes inside of the loop, on most cores.
#include "front/tile/tiling.h"

#include <string.h>

#include "base/log.h"
#include "front/ir/lx_slices.h"

enum {
    LEAST_UNITS = 16,                       // of sticks along the tiled dim
    MOST_OPS = 64,                          // of a stretch, those between them among them
    MOST_TILES = 4096,                      // each is a step of every op
};

// A buffer that the stretch writes, or reads.
typedef struct {
    int64_t stride;                         // of its tiled dim; 0: the stretch does not write it
    uint32_t written, read;                 // first and last op of the stretch
    bool leaves;                            // another op reads it: it stays whole
    uint32_t readers;                       // ops that walk it tile by tile as the first one, which
    uint32_t copied_at, operand;            // is this op with this operand
} passed;

typedef struct {
    const tiling *t;
    passed *buffers;                        // by buffer, of all stretches
    const uint32_t *last;                   // by buffer: the last op that touches it
    const uint32_t *writers;                // by buffer: how many ops write it
    int64_t stride, extent;                 // of the tiled dim in the first op's large operand
    uint32_t first, end, limit, ops;        // limit: behind the last op that may join
    uint8_t var[MOST_OPS];                  // from the first op on: the loop to be cut, or
                                            // LOOP_NO_DIM
} stretch;

static int64_t room_of(const loop_graph *loops)
{
    return lx_limit_bytes(loops) * loops->cores;
}

static bool is_large(const loop_graph *loops, const loop_buffer *b)
{
    return b->kind != LOOP_CONSTANT && b->has_layout && b->dim_count > 0 &&
           loop_device_bytes(b) * 4 > room_of(loops);
}

// Scales and shifts elements, by values that are not two in a stick.
static bool is_plain_norm(const loop_graph *loops, const loop_op *op)
{
    if (op->op != OPFUNC_LAYERNORMNORM) return false;
    for (uint32_t k = 0; k < op->operand_count; k++)
        if (loop_operand_buffer(loops, op, k)->exx2) return false;
    return true;
}

static bool may_tile(const loop_graph *loops, const loop_op *op)
{
    const opfunc_kind kind = opfunc_describe(op->op)->kind;
    return op->table != 2 && !op->scanned && !op->tile_depth &&
           (loop_is_element_wise(op) || kind == OPFUNC_KIND_COPY || is_plain_norm(loops, op) ||
            (kind == OPFUNC_KIND_REDUCTION && op->op != OPFUNC_EXX2));
}

static uint8_t find_var(const loop_op *op, const loop_access *access, int64_t stride,
                        int64_t extent)
{
    for (uint8_t v = 0; v < op->var_count; v++)
        if (access->stride[v] == stride && op->extent[v] == extent) return v;
    return LOOP_NO_DIM;
}

// The loop of the op that walks such a dim of a large operand.
static uint8_t walking_var(const loop_graph *loops, const loop_op *op, int64_t stride,
                           int64_t extent)
{
    for (uint32_t k = op->operand_count; k-- > 0;) {
        const loop_access *access = &op->operand[k];
        if (!is_large(loops, &loops->buffers.items[access->buffer]) || access->offset) continue;
        const uint8_t v = find_var(op, access, stride, extent);
        if (v != LOOP_NO_DIM) return v;
    }
    return LOOP_NO_DIM;
}

// The loop that walks what the stretch has written, as it was written; LOOP_NO_DIM where operands
// disagree. Of an op that reads nothing of it, the one that walks the dim of a large operand.
static uint8_t joining_var(const stretch *s, const loop_op *op)
{
    uint8_t var = LOOP_NO_DIM;
    for (uint32_t k = 0; k < op->operand_count; k++) {
        const loop_access *access = &op->operand[k];
        const int64_t stride = s->buffers[access->buffer].stride;
        if (!stride) continue;
        const uint8_t v = find_var(op, access, stride, s->extent);
        if (v == LOOP_NO_DIM || access->offset || (var != LOOP_NO_DIM && v != var))
            return LOOP_NO_DIM;
        var = v;
    }
    return var == LOOP_NO_DIM ? walking_var(s->t->loops, op, s->stride, s->extent) : var;
}

static bool is_fp32(const loop_graph *loops, const loop_op *op)
{
    return loops->buffers.items[loop_result(op)->buffer].format == SPYRE_FORMAT_IEEE_FP32;
}

// What is written twice, or replaces an input, has to be in order with others that touch it.
static bool has_order(const stretch *s, const loop_op *op)
{
    for (uint32_t k = 0; k < op->operand_count; k++) {
        const uint32_t buffer = op->operand[k].buffer;
        const bool local = s->t->loops->buffers.items[buffer].kind == LOOP_LOCAL;
        if (s->writers[buffer] > (local ? 1 : 0)) return true;
    }
    return false;
}

static bool joins(const stretch *s, uint32_t index, uint8_t *out_var)
{
    const loop_graph *loops = s->t->loops;
    const loop_op *op = &loops->ops.items[index];
    if (s->t->paths.items[index].depth || !may_tile(loops, op) || has_order(s, op)) return false;
    // Any iteration may want any row of a table.
    if (op->table && s->buffers[op->operand[op->table].buffer].stride) return false;
    *out_var = joining_var(s, op);
    if (*out_var == LOOP_NO_DIM) return false;
    // One with its stick there would leave but few tiles.
    const int64_t unit = tile_unit(loops, op, *out_var);
    if (unit > 1 && unit * LEAST_UNITS > s->extent) return false;
    if (!loop_var_is_reduced(op, *out_var)) return true;
    return op->op == OPFUNC_SUM && is_fp32(loops, op);
}

static void note_read(const stretch *s, uint32_t index, uint32_t k, uint8_t var)
{
    const loop_op *ops = s->t->loops->ops.items;
    passed *p = &s->buffers[ops[index].operand[k].buffer];
    const bool again = p->readers && p->read == index;
    p->read = index;
    if (!p->readers) p->copied_at = index, p->operand = k;
    if (tile_reads_alike(&ops[p->copied_at], p->operand, s->var[p->copied_at - s->first],
                         &ops[index], k, var))
        p->readers += !again;
}

static void join(stretch *s, uint32_t index, uint8_t var)
{
    const loop_op *op = &s->t->loops->ops.items[index];
    const loop_access *result = loop_result(op);
    s->var[index - s->first] = var;
    s->end = index + 1;
    s->ops++;
    for (uint32_t k = 0; k + 1 < op->operand_count; k++) note_read(s, index, k, var);
    if (!result->stride[var]) return;
    passed *p = &s->buffers[result->buffer];
    if (!p->stride) *p = (passed){.stride = result->stride[var], .written = index, .read = index};
}

static void leave_out(stretch *s, uint32_t index)
{
    const loop_op *op = &s->t->loops->ops.items[index];
    for (uint32_t k = 0; k < op->operand_count; k++)
        s->buffers[op->operand[k].buffer].leaves = true;
}

static bool stays_inside(const stretch *s, uint32_t buffer)
{
    const loop_buffer *b = &s->t->loops->buffers.items[buffer];
    const passed *p = &s->buffers[buffer];
    return p->stride && !p->leaves && s->last[buffer] < s->limit && b->kind == LOOP_LOCAL &&
           b->output < 0;
}

// Several ops read it tile by tile, and it comes from outside of the stretch.
static bool is_copied(const stretch *s, uint32_t buffer)
{
    const loop_graph *loops = s->t->loops;
    const passed *p = &s->buffers[buffer];
    loop_buffer shape;
    if (p->readers < 2 || !is_large(loops, &loops->buffers.items[buffer])) return false;
    if (loop_count_writers(loops, buffer, s->first, s->end)) return false;
    return tile_shape_copy(loops, &loops->ops.items[p->copied_at], p->operand, &shape);
}

// The op is the first to read a copy, of operand k.
static bool is_copied_at(const stretch *s, uint32_t index, uint32_t k)
{
    const uint32_t buffer = s->t->loops->ops.items[index].operand[k].buffer;
    const passed *p = &s->buffers[buffer];
    return p->copied_at == index && p->operand == k && is_copied(s, buffer);
}

// The bytes of copies in front of the op, which are not wanted behind their last readers.
static int64_t copied_bytes(const stretch *s, uint32_t index, int64_t *behind)
{
    const loop_op *op = &s->t->loops->ops.items[index];
    int64_t total = 0;
    for (uint32_t k = 0; k + 1 < op->operand_count; k++) {
        if (!is_copied_at(s, index, k)) continue;
        const int64_t bytes = loop_device_bytes(loop_operand_buffer(s->t->loops, op, k));
        behind[s->buffers[op->operand[k].buffer].read + 1 - s->first] += bytes;
        total += bytes;
    }
    return total;
}

// The most bytes that pass at once, copies among them, and all that do in *out_all. An element-wise
// result may lie where an operand does that it is the last to read.
static int64_t peak_bytes(const stretch *s, int64_t *out_all)
{
    const loop_graph *loops = s->t->loops;
    int64_t behind[MOST_OPS + 1] = {0}, most = 0, now = 0;
    *out_all = 0;
    for (uint32_t i = s->first; i < s->end; i++) {
        const uint32_t result = loop_result(&loops->ops.items[i])->buffer;
        now -= behind[i - s->first];
        if (s->var[i - s->first] != LOOP_NO_DIM) {
            const int64_t copied = copied_bytes(s, i, behind);
            now += copied;
            *out_all += copied;
        }
        if (now > most) most = now;
        if (s->var[i - s->first] == LOOP_NO_DIM || !stays_inside(s, result) ||
            s->buffers[result].written != i)
            continue;
        const int64_t bytes = loop_device_bytes(&loops->buffers.items[result]);
        int64_t *over = &behind[i + 1 - s->first];
        if (loop_is_element_wise(&loops->ops.items[i])) now -= *over, *over = 0;
        now += bytes;
        *out_all += bytes;
        behind[s->buffers[result].read + 1 - s->first] += bytes;
        if (now > most) most = now;
    }
    return most;
}

// The fewest tiles, at least so many, that cut the dim in whole sticks of all ops; 0: none.
static int64_t count_tiles(const stretch *s, int64_t least)
{
    const loop_graph *loops = s->t->loops;
    for (int64_t count = least; count <= s->extent && count <= MOST_TILES; count++) {
        bool fits = s->extent % count == 0;
        for (uint32_t i = s->first; i < s->end && fits; i++)
            if (s->var[i - s->first] != LOOP_NO_DIM)
                fits = s->extent / count % tile_unit(loops, &loops->ops.items[i],
                                                     s->var[i - s->first]) == 0;
        if (fits) return count;
    }
    return 0;
}

static spyre_status note_copies(const stretch *s, tiling *t, uint32_t index, int64_t scope)
{
    const loop_op *op = &t->loops->ops.items[index];
    for (uint32_t k = 0; k + 1 < op->operand_count; k++) {
        const tile_copy copy = {scope, index, k, s->end};
        if (is_copied_at(s, index, k)) TRY(VEC_PUSH(loop_scratch(t->loops), &t->copies, copy));
    }
    return NULL;
}

static spyre_status set_paths(const stretch *s, tiling *t, int64_t count)
{
    const int64_t scope = -(int64_t)(s->first * LOOP_MAX_TILES + 1);
    for (uint32_t i = s->first; i < s->end; i++) {
        if (s->var[i - s->first] == LOOP_NO_DIM) continue;
        t->paths.items[i] = (tile_path){
            .depth = 1, .level = {{scope, "what LX holds", count, s->var[i - s->first]}}};
        TRY(note_copies(s, t, i, scope));
    }
    log_info("%s: %lld tiles of %u ops, what passes between them fits LX",
             loop_op_place(t->loops, s->first), (long long)count, s->ops);
    return NULL;
}

// A sum along the dim is read by an op of the stretch.
static bool comes_back(const stretch *s)
{
    const loop_graph *loops = s->t->loops;
    for (uint32_t i = s->first; i < s->end; i++) {
        const loop_op *op = &loops->ops.items[i];
        const uint8_t var = s->var[i - s->first];
        if (var == LOOP_NO_DIM || !loop_var_is_reduced(op, var)) continue;
        if (s->buffers[loop_result(op)->buffer].read > i) return true;
    }
    return false;
}

// Ops that may be tiled from the first one on, whose loop `var` walks the dim.
static void find_stretch(stretch *s, uint8_t var)
{
    const loop_graph *loops = s->t->loops;
    const loop_op *op = &loops->ops.items[s->first];
    for (uint32_t i = s->first; i < s->limit; i++)
        for (uint32_t k = 0; k < loops->ops.items[i].operand_count; k++)
            s->buffers[loops->ops.items[i].operand[k].buffer] = (passed){0};
    memset(s->var, LOOP_NO_DIM, sizeof s->var);
    s->ops = 0;
    s->stride = 0;
    for (uint32_t k = op->operand_count; k-- > 0 && !s->stride;)
        if (is_large(loops, loop_operand_buffer(loops, op, k)))
            s->stride = op->operand[k].stride[var];
    s->extent = op->extent[var];
    join(s, s->first, var);
    for (uint32_t i = s->first + 1; i < s->limit; i++)
        if (joins(s, i, &var)) join(s, i, var);
        else leave_out(s, i);
}

// True when some op of the stretch reduces along the loop that moves what it reads so far and is so
// long.
static bool is_reduced(const stretch *s, int64_t stride, int64_t extent)
{
    const loop_graph *loops = s->t->loops;
    for (uint32_t i = s->first; i < s->end; i++) {
        const loop_op *op = &loops->ops.items[i];
        if (s->var[i - s->first] == LOOP_NO_DIM) continue;
        for (uint32_t k = 0; k + 1 < op->operand_count; k++) {
            const uint8_t v = find_var(op, &op->operand[k], stride, extent);
            if (v != LOOP_NO_DIM && loop_var_is_reduced(op, v)) return true;
        }
    }
    return false;
}

// Cores that can have the same part of every tile in all ops: slices of what none reduces along.
static int64_t cores_left(const stretch *s, int64_t count)
{
    const loop_graph *loops = s->t->loops;
    const loop_op *op = &loops->ops.items[s->first];
    const uint8_t var = s->var[0];
    int64_t left = 1;
    uint32_t large = op->operand_count - 1;
    while (large > 0 && !is_large(loops, loop_operand_buffer(loops, op, large))) large--;
    for (uint8_t v = 0; v < op->var_count && left < loops->cores; v++) {
        const int64_t stride = op->operand[large].stride[v];
        if (stride && !is_reduced(s, stride, op->extent[v]))
            left *= v == var ? op->extent[v] / count : op->extent[v];
    }
    return left < loops->cores ? left : loops->cores;
}

// The best stretch that begins with the first op, by what passes inside of it and the cores that
// can work on it; in *out_tiles how many tiles it needs, 0: none.
static stretch best_stretch(stretch s, int64_t *out_tiles)
{
    const loop_graph *loops = s.t->loops;
    const loop_op *op = &loops->ops.items[s.first];
    const int64_t room = room_of(loops);
    stretch best = s;
    int64_t most = 0;
    *out_tiles = 0;
    for (uint8_t var = 0; var < op->var_count; var++) {
        int64_t all;
        if (loop_var_is_reduced(op, var)) continue;
        find_stretch(&s, var);
        const int64_t peak = peak_bytes(&s, &all);
        if (!s.stride || peak <= room || comes_back(&s)) continue;
        const int64_t count = count_tiles(&s, 2 * peak / room + 1);
        const int64_t now = count ? all * cores_left(&s, count) : 0;
        if (now <= most) continue;
        best = s;
        most = now;
        *out_tiles = count;
    }
    return best;
}

static bool may_begin(const stretch *s, uint32_t index)
{
    const tiling *t = s->t;
    const loop_op *op = &t->loops->ops.items[index];
    bool large = false;
    for (uint32_t k = 0; k < op->operand_count; k++)
        large = large || (is_large(t->loops, loop_operand_buffer(t->loops, op, k)) &&
                          !op->operand[k].offset);
    return large && !t->paths.items[index].depth && may_tile(t->loops, op) && !has_order(s, op);
}

// Bytes of a large buffer pass from one op to another.
static void add_passing(const loop_graph *loops, const loop_buffer *b, uint32_t from, uint32_t to,
                        int64_t *passing)
{
    if (!is_large(loops, b)) return;
    passing[from] += loop_device_bytes(b);
    passing[to + 1] -= loop_device_bytes(b);
}

// Results from their writers on, inputs from the first one on of several readers.
static spyre_status find_passing(const loop_graph *loops, const stretch *s, int64_t **out)
{
    uint32_t *first;                        // op that reads an input, plus one
    TRY_NEW(loop_scratch(loops), first, loops->buffers.count);
    TRY_NEW(loop_scratch(loops), *out, loops->ops.count + 1);
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        const loop_op *op = &loops->ops.items[i];
        const uint32_t result = loop_result(op)->buffer;
        const loop_buffer *b = &loops->buffers.items[result];
        if (b->kind == LOOP_LOCAL) add_passing(loops, b, i, s->last[result], *out);
        for (uint32_t k = 0; k + 1 < op->operand_count; k++)
            if (!first[op->operand[k].buffer]) first[op->operand[k].buffer] = i + 1;
    }
    for (uint32_t n = 0; n < loops->buffers.count; n++) {
        const loop_buffer *b = &loops->buffers.items[n];
        if (b->kind == LOOP_INPUT && first[n] && s->last[n] >= first[n])
            add_passing(loops, b, first[n] - 1, s->last[n], *out);
    }
    for (uint32_t i = 1; i < loops->ops.count; i++) (*out)[i] += (*out)[i - 1];
    return NULL;
}

// The stretch's lists of uses. By op: the bytes of large buffers that pass it.
static spyre_status find_uses(const loop_graph *loops, stretch *s, int64_t **out_passing)
{
    uint32_t *last, *writers;
    TRY_NEW(loop_scratch(loops), last, loops->buffers.count);
    TRY_NEW(loop_scratch(loops), writers, loops->buffers.count);
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        writers[loop_result(&loops->ops.items[i])->buffer]++;
        for (uint32_t k = 0; k < loops->ops.items[i].operand_count; k++)
            last[loops->ops.items[i].operand[k].buffer] = i;
    }
    s->last = last;
    s->writers = writers;
    return find_passing(loops, s, out_passing);
}

spyre_status tile_for_lx(tiling *t, bool *out_any)
{
    const loop_graph *loops = t->loops;
    stretch s = {.t = t};
    uint32_t crowded = 0;                   // the next op that more passes than LX holds
    int64_t *passing, tiles = 0;
    *out_any = false;
    TRY(find_uses(loops, &s, &passing));
    TRY_NEW(loop_scratch(loops), s.buffers, loops->buffers.count);
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        while (crowded < loops->ops.count && (crowded < i || passing[crowded] <= room_of(loops)))
            crowded++;
        if (crowded == loops->ops.count) return NULL;
        if (crowded - i >= MOST_OPS || !may_begin(&s, i)) continue;
        s.first = i;
        s.limit = i + MOST_OPS < loops->ops.count ? i + MOST_OPS : loops->ops.count;
        stretch best = best_stretch(s, &tiles);
        if (!tiles) continue;
        find_stretch(&best, best.var[0]);
        TRY(set_paths(&best, t, tiles));
        *out_any = true;
        i = best.end - 1;
    }
    return NULL;
}
