// SPDX-License-Identifier: Apache-2.0
//
// Views and addresses. Every access is checked: inside its view, inside its memory, LX of this
// compute tile or of a distributed view (which stands for a message), written before when it is LX,
// and ordered with what others did to the same bytes.
#include "ktir/interpret/access.h"

#include <stdio.h>
#include <string.h>

// --- Views

static int64_t entry(tile *t, const ktir_op *op, const ktir_attribute *list, uint32_t d,
                     uint32_t *next)
{
    if (list->list[d] != KTIR_OPERAND) return list->list[d];
    return machine_operand(t, op, (*next)++)->number.integer;
}

// The memory at a constant address: the one that begins there, else one that reaches over it.
static machine_memory *placed_at(tile *t, int64_t element_bytes, int64_t *address)
{
    const ktir_call *call = t->x->call;
    for (uint32_t inside = 0; inside < 2; inside++)
        for (uint32_t p = 0; p < call->placed_count; p++) {
            int64_t at = *address - call->placed[p].address;
            if (inside ? at < 0 || at >= call->placed[p].byte_count / element_bytes : at != 0)
                continue;
            *address = at;
            return &t->x->placed[p];
        }
    return NULL;
}

static spyre_status find_memory(tile *t, const ktir_op *op, const machine_cell *base,
                                int64_t space, access_view *v)
{
    machine *x = t->x;
    int64_t address = base->number.integer;
    v->owner = UINT32_MAX;
    if (base->memory >= 0) {
        v->memory = &x->arguments[base->memory];
    } else if (space == KTIR_HBM) {
        v->memory = placed_at(t, v->element_bytes, &address);
        if (!v->memory)
            return machine_fault(t, op, "address %lld is in no memory", (long long)address);
    } else {
        v->owner = space == KTIR_LX ? t->number : (uint32_t)(space - KTIR_LX_OF_CORE);
        if (v->owner >= x->tiles)
            return machine_fault(t, op, "core %u: the grid has %u compute tiles", v->owner,
                                 x->tiles);
        v->memory = &x->lx[v->owner];
    }
    if (!__builtin_mul_overflow(address, v->element_bytes, &v->first)) return NULL;
    return machine_fault(t, op, "address %lld", (long long)address);
}

static spyre_status find_origin(tile *t, const ktir_op *op, access_view *v)
{
    int64_t most[KTIR_MOST_RANK];
    if (!v->set || ktir_set_box(v->set, v->symbols, v->origin, most)) return NULL;
    return machine_fault(t, op, "coordinate_set is no box");
}

// That no coordinate of the view is further than 2^56 bytes from its begin.
static spyre_status check_reach(tile *t, const ktir_op *op, const access_view *v)
{
    int64_t reach = 0, bytes;
    for (uint32_t d = 0; d < v->rank; d++)
        if (v->size[d] > 1 &&
            (__builtin_mul_overflow(v->size[d] * v->element_bytes, v->stride[d], &bytes) ||
             __builtin_add_overflow(reach, bytes, &reach) || reach >> 56))
            return machine_fault(t, op, "a view that reaches beyond 2^56 bytes");
    return NULL;
}

static spyre_status memory_view(tile *t, const ktir_op *op, access_view *v)
{
    const ktir_module *m = t->x->m;
    const ktir_attribute *sizes = ktir_find(m, op, KTIR_KEY_SIZES);
    const ktir_attribute *strides = ktir_find(m, op, KTIR_KEY_STRIDES);
    const ktir_attribute *set = ktir_find(m, op, KTIR_KEY_COORDINATE_SET);
    const ktir_type *type = ktir_result_type(m, op);
    const machine_cell *base = machine_operand(t, op, 0);
    int64_t space = ktir_number(m, op, KTIR_KEY_MEMORY_SPACE, KTIR_HBM);
    uint32_t next = 1, symbols = 0;
    *v = (access_view){.rank = type->rank, .op = op, .set = set ? set->set : NULL,
                       .element_bytes = ktir_element_describe(type->element)->bytes};
    TRY(find_memory(t, op, base, space, v));
    for (uint32_t d = 0; d < v->rank; d++) {
        bool dynamic = sizes->list[d] == KTIR_OPERAND;
        v->size[d] = entry(t, op, sizes, d, &next);
        if (v->size[d] < 0 || v->size[d] >> 40 ||
            (type->size[d] != KTIR_DYNAMIC && type->size[d] != v->size[d]))
            return machine_fault(t, op, "size %lld of dim %u", (long long)v->size[d], d);
        if (dynamic) v->symbols[symbols++] = v->size[d];
    }
    for (uint32_t d = 0; d < v->rank; d++) {
        v->stride[d] = entry(t, op, strides, d, &next);
        if (v->stride[d] < 0 || v->stride[d] >> 40)
            return machine_fault(t, op, "stride %lld of dim %u", (long long)v->stride[d], d);
    }
    return check_reach(t, op, v);
}

static spyre_status one_view(tile *t, const ktir_op *op, access_view *v);

static spyre_status subview(tile *t, const ktir_op *op, access_view *v)
{
    static const ktir_key keys[] = {KTIR_KEY_OFFSETS, KTIR_KEY_SIZES, KTIR_KEY_STRIDES};
    const ktir_module *m = t->x->m;
    const ktir_value *base = &m->values.items[ktir_operand(m, op, 0)];
    int64_t numbers[3][KTIR_MOST_RANK];
    uint32_t next = 1;
    TRY(one_view(t, &m->ops.items[base->definition], v));
    for (uint32_t k = 0; k < 3; k++)
        for (uint32_t d = 0; d < v->rank; d++)
            numbers[k][d] = entry(t, op, ktir_find(m, op, keys[k]), d, &next);
    for (uint32_t d = 0; d < v->rank; d++) {
        int64_t offset = numbers[0][d], size = numbers[1][d], stride = numbers[2][d];
        if (offset < 0 || size < 0 || stride < 1 || offset > v->size[d] || size > v->size[d] ||
            (size && (offset == v->size[d] || (v->size[d] - 1 - offset) / stride < size - 1)))
            return machine_fault(t, op, "offset %lld, size %lld, stride %lld run off dim %u, which "
                                 "has %lld", (long long)offset, (long long)size,
                                 (long long)stride, d, (long long)v->size[d]);
        v->first += offset * v->stride[d] * v->element_bytes;
        v->size[d] = size;
        v->stride[d] = size > 1 ? v->stride[d] * stride : 0;
    }
    v->op = op;
    v->set = NULL;
    return NULL;
}

static spyre_status one_view(tile *t, const ktir_op *op, access_view *v)
{
    if (op->opcode == KTIR_OP_MEMORY_VIEW) return memory_view(t, op, v);
    if (op->opcode == KTIR_OP_SUBVIEW) return subview(t, op, v);
    return machine_fault(t, op, "its result is no memory view here");
}

spyre_status access_view_of(tile *t, const ktir_op *op, uint32_t n, access_views *out_views)
{
    const ktir_module *m = t->x->m;
    const ktir_op *maker = ktir_maker(m, op, n);
    out_views->distributed = maker->opcode == KTIR_OP_DISTRIBUTED_VIEW;
    out_views->count = 1;
    if (!out_views->distributed) return one_view(t, maker, &out_views->part[0]);
    out_views->count = maker->operand_count;
    if (maker->operand_count > ACCESS_MOST_PARTS)
        return machine_fault(t, maker, "more than %d parts", ACCESS_MOST_PARTS);
    for (uint32_t p = 0; p < maker->operand_count; p++) {
        uint32_t value = ktir_operand(m, maker, p);
        TRY(one_view(t, &m->ops.items[m->values.items[value].definition], &out_views->part[p]));
        TRY(find_origin(t, maker, &out_views->part[p]));
    }
    return NULL;
}

// --- Addresses

static bool has_coordinate(const access_view *v, const int64_t *coordinate)
{
    int64_t names[2 * KTIR_MOST_RANK];
    memcpy(names, coordinate, v->rank * sizeof *names);
    if (!v->set) return true;
    memcpy(names + v->rank, v->symbols, v->set->symbols * sizeof *names);
    return ktir_set_holds(v->set, names);
}

static spyre_status off_the_view(tile *t, const ktir_op *op, const access_views *views,
                                 const int64_t *coordinate)
{
    char shown[KTIR_MOST_RANK * 24];
    size_t length = 0;
    for (uint32_t d = 0; d < views->part[0].rank; d++)
        length += (size_t)snprintf(shown + length, sizeof shown - length, "%s%lld", d ? ", " : "",
                                   (long long)coordinate[d]);
    return machine_fault(t, op, "coordinate (%s) is not in the view of line %u", shown,
                         views->part[0].op->line);
}

static spyre_status race(tile *t, const ktir_op *op, bool writes, uint32_t other, bool wrote,
                         int64_t at)
{
    return machine_fault(t, op, "race: it %s byte %lld, which compute tile %u %s, and nothing "
                         "orders the two", writes ? "writes" : "reads", (long long)at, other,
                         wrote ? "writes" : "reads");
}

// `same` says that a write leaves the bits as they are.
static spyre_status check_order(tile *t, const ktir_op *op, const access_view *v, int64_t at,
                                bool writes, bool same)
{
    machine *x = t->x;
    uint32_t me = t->number + 1;
    const uint32_t *clock = x->clocks + (size_t)t->number * x->tiles;
    for (int64_t g = at / x->unit; g <= (at + v->element_bytes - 1) / x->unit; g++) {
        machine_access *a = &v->memory->accesses[g];
        bool behind_writer = a->writer && a->writer != me && clock[a->writer - 1] < a->written;
        uint32_t reader = writes ? readers_ahead(&x->readers, a->readers, t->number, clock)
                                 : UINT32_MAX;
        if (same && (behind_writer || reader != UINT32_MAX)) continue;
        if (behind_writer) return race(t, op, writes, a->writer - 1u, true, at);
        if (reader != UINT32_MAX) return race(t, op, writes, reader, false, at);
        if (writes) {
            a->writer = me;
            a->written = clock[t->number];
            a->readers = 0;
        } else {
            TRY(readers_add(&x->readers, a->readers, t->number, clock[t->number], &a->readers));
        }
    }
    return NULL;
}

static spyre_status check_known(tile *t, const ktir_op *op, const access_view *v, int64_t at,
                                bool writes)
{
    for (int64_t b = at; v->memory->known && b < at + v->element_bytes; b++) {
        uint8_t *bits = &v->memory->known[b / 8], bit = (uint8_t)(1u << b % 8);
        if (writes) *bits |= bit;
        else if (!(*bits & bit))
            return machine_fault(t, op, "byte %lld of LX of compute tile %u has never been written",
                                 (long long)b, v->owner);
    }
    return NULL;
}

spyre_status access_address(tile *t, const ktir_op *op, const access_views *views,
                            const int64_t *coordinate, const uint8_t *value, uint8_t **out_bytes)
{
    bool writes = value;
    const access_view *v = views->part, *end = views->part + views->count;
    while (v < end && !has_coordinate(v, coordinate)) v++;
    if (v == end) return off_the_view(t, op, views, coordinate);
    int64_t at = v->first;
    for (uint32_t d = 0; d < v->rank; d++) {
        int64_t index;
        if (__builtin_sub_overflow(coordinate[d], v->origin[d], &index) || index < 0 ||
            index >= v->size[d])
            return off_the_view(t, op, views, coordinate);
        if (__builtin_add_overflow(at, index * v->stride[d] * v->element_bytes, &at))
            return off_the_view(t, op, views, coordinate);
    }
    if (at < 0 || at > v->memory->byte_count - v->element_bytes)
        return machine_fault(t, op, "byte %lld of a memory of %lld bytes (the view of line %u)",
                             (long long)at, (long long)v->memory->byte_count, v->op->line);
    if (v->owner != UINT32_MAX && v->owner != t->number && !views->distributed)
        return machine_fault(t, op, "it touches LX of compute tile %u without a message (the view "
                             "of line %u)", v->owner, v->op->line);
    if (v->owner != UINT32_MAX) TRY(check_known(t, op, v, at, writes));
    *out_bytes = v->memory->bytes + at;
    if (!v->memory->accesses) return NULL;
    bool same = writes && memcmp(value, *out_bytes, (size_t)v->element_bytes) == 0;
    return check_order(t, op, v, at, writes, same);
}
