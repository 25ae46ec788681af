// SPDX-License-Identifier: Apache-2.0
//
// Reductions between compute tiles: the partial tensors travel from one producer of a group to the
// next, each combines what it receives with its own, and the last one sends the result to all
// others. A group's k-th producers work in the k-th kernel.
#include <string.h>

#include "ktir/ir/groups.h"
#include "ktir/lower/lowering.h"

typedef struct {
    const ktir_op *op, *produce;
    uint32_t most;                      // producers of the largest group
    uint32_t place[ISA_CORES];          // of a core among the producers of its group, or UINT32_MAX
    uint32_t group[ISA_CORES];
    uint32_t count[ISA_CORES];          // producers of the core's group
    uint32_t member[ISA_CORES][ISA_CORES];      // [core][place]
    lowered_tensor sum, partial;
} plan;

static spyre_status make_plan(lowering *w, plan *p)
{
    const ktir_type *future = ktir_operand_type(w->m, p->op, 0);
    const ktir_set *producers = ktir_find(w->m, p->produce, KTIR_KEY_PRODUCERS)->set;
    const ktir_set *consumers = ktir_find(w->m, p->op, KTIR_KEY_CONSUMERS)->set;
    if (w->tiles > ISA_CORES)
        return LOWER_NO(w, p->op, "a grid of %u compute tiles: only %d meet", w->tiles, ISA_CORES);
    for (uint32_t c = 0; c < ISA_CORES; c++) {
        p->place[c] = p->group[c] = UINT32_MAX;
        if (!(w->active >> c & 1)) continue;
        uint32_t g = p->group[c] = groups_of(future, producers, c, w->tiles);
        if (g == GROUPS_NONE || groups_of(future, consumers, c, w->tiles) != g)
            return LOWER_NO(w, p->op, "compute tile %u does not both produce and consume", c);
        for (uint32_t n = 0; n < w->tiles; n++) {
            if (!groups_has(producers, g, n)) continue;
            if (!(w->active >> n & 1))
                return LOWER_NO(w, p->op, "compute tile %u waits for %u, which does not come", c,
                                n);
            if (n == c) p->place[c] = p->count[c];
            p->member[c][p->count[c]++] = n;
        }
        if (p->count[c] > p->most) p->most = p->count[c];
    }
    return NULL;
}

spyre_status lower_message(lowering *w, const ktir_op *op, isa_opcode opcode,
                           const lowered_tensor *t, const int64_t *peers)
{
    uint16_t slot;
    lowered_tile tile = {.i = {.opcode = opcode, .operand_count = 1}, .rank = t->rank};
    TRY(lower_slot(w, op, peers, &slot));
    tile.i.token = slot;
    tile.i.operand[0] = (isa_operand){.format = t->format, .offset = t->offset};
    memcpy(tile.i.operand[0].loop_stride, t->loop, sizeof t->loop);
    memcpy(tile.size, t->size, sizeof t->size);
    memcpy(tile.stride[0], t->stride, sizeof t->stride);
    return lower_tile(w, op, &tile);
}

// The member at `place` of every core's own group.
static void peers_at(const plan *p, uint32_t cores, uint32_t place, bool last, int64_t *peers)
{
    memset(peers, 0, ISA_CORES * sizeof *peers);
    for (uint32_t c = 0; c < ISA_CORES; c++)
        if (cores >> c & 1) peers[c] = p->member[c][last ? p->count[c] - 1 : place];
}

static spyre_status combine(lowering *w, const plan *p, const lowered_tensor *received)
{
    const ktir_region *region = ktir_op_region(w->m, p->op, 0);
    lowered_tensor *left = ARENA_NEW(w->memory, lowered_tensor, 1);
    lowered_tensor *right = ARENA_NEW(w->memory, lowered_tensor, 1);
    TRY_ALLOC(left);
    TRY_ALLOC(right);
    *left = *received;
    *right = p->partial;
    w->cells[region->first_argument].tensor = left;
    w->cells[region->first_argument + 1].tensor = right;
    for (uint32_t n = region->begin; n < region->end; n = w->m->ops.items[n].end) {
        const ktir_op *op = &w->m->ops.items[n];
        if (op->opcode == KTIR_OP_YIELD_REDUCED)
            TRY(lower_copy(w, p->op, &p->sum, lower_operand(w, op, 0)->tensor));
        else TRY(w->op(w, n));
    }
    return NULL;
}

// Cores that part inside of a hardware loop ask for the loop to stand around kernels.
spyre_status lower_meet(lowering *w, const ktir_op *op, uint32_t cores)
{
    if (w->in_kernel && w->depth > w->kernel_depth) {
        w->wants_break = true;
        return LOWER_NO(w, op, "cores meet inside of a loop");
    }
    TRY(lower_end_kernel(w));
    w->active = cores;
    return NULL;
}

static uint32_t cores_at(const plan *p, uint32_t place)
{
    uint32_t cores = 0;
    for (uint32_t c = 0; c < ISA_CORES; c++)
        if (p->place[c] == place) cores |= 1u << c;
    return cores;
}

static spyre_status travel(lowering *w, const plan *p)
{
    lowered_tensor received;
    int64_t peers[ISA_CORES];
    TRY(lower_scratch(w, p->op, p->sum.format, lower_sizes(&p->sum), lower_number(w, p->op),
                      &received));
    received.element = p->sum.element;
    for (uint32_t place = 0; place < p->most; place++) {
        uint32_t cores = cores_at(p, place), onwards = 0;
        TRY(lower_meet(w, p->op, cores));
        if (place) {
            peers_at(p, cores, place - 1, false, peers);
            TRY(lower_message(w, p->op, ISA_RECEIVE, &received, peers));
            TRY(combine(w, p, &received));
        } else {
            TRY(lower_copy(w, p->op, &p->sum, &p->partial));
        }
        for (uint32_t c = 0; c < ISA_CORES; c++)
            if ((cores >> c & 1) && place + 1 < p->count[c]) onwards |= 1u << c;
        if (!onwards) continue;
        if (onwards != cores) return LOWER_NO(w, p->op, "groups of different sizes");
        peers_at(p, cores, place + 1, false, peers);
        TRY(lower_message(w, p->op, ISA_SEND, &p->sum, peers));
    }
    return NULL;
}

// From the last one to all others.
static spyre_status return_result(lowering *w, const plan *p)
{
    int64_t peers[ISA_CORES];
    uint32_t last = cores_at(p, p->most - 1), others = 0;
    if (p->most < 2) return NULL;
    TRY(lower_meet(w, p->op, last));
    for (uint32_t place = 0; place + 1 < p->most; place++) {
        peers_at(p, last, place, false, peers);
        TRY(lower_message(w, p->op, ISA_SEND, &p->sum, peers));
        others |= cores_at(p, place);
    }
    TRY(lower_meet(w, p->op, others));
    peers_at(p, others, 0, true, peers);
    return lower_message(w, p->op, ISA_RECEIVE, &p->sum, peers);
}

spyre_status lower_tile_reduce(lowering *w, const ktir_op *op)
{
    const ktir_module *m = w->m;
    plan p = {.op = op};
    uint32_t all = w->active;
    p.produce = ktir_maker(m, op, 0);
    const ktir_region *region = ktir_op_region(m, p.produce, 0);
    const ktir_op *yield = &m->ops.items[region->end - 1];
    if (region->end - region->begin > 1)
        return LOWER_NO(w, p.produce, "a region that computes: yield a value from outside");
    TRY(lower_in_lx(w, op, lower_operand(w, yield, 0)->tensor, &p.partial));
    TRY(make_plan(w, &p));
    lowered_tensor *sum, *result = ARENA_NEW(w->memory, lowered_tensor, 1);
    TRY_ALLOC(result);
    TRY(lower_new(w, op, op->first_result, p.partial.element, lower_sizes(&p.partial), &sum));
    p.sum = *sum;
    TRY(travel(w, &p));
    TRY(return_result(w, &p));
    TRY(lower_meet(w, op, all));
    const ktir_type *type = ktir_result_type(m, op);
    int64_t stride = spyre_format_bytes(sum->format);
    *result = *sum;
    result->rank = type->rank;
    for (uint32_t d = type->rank; d-- > 0; stride *= type->size[d]) {
        result->size[d] = type->size[d];
        result->stride[d] = stride;
    }
    lower_set_tensor(w, op->first_result, result);
    return NULL;
}
