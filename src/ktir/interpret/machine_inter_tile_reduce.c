// SPDX-License-Identifier: Apache-2.0
//
// Reductions between compute tiles: a group's partial tensors are combined in ascending order of
// its producers, for every consumer, when all of them have come to the same delivery.
#include <string.h>

#include "ktir/ir/groups.h"
#include "ktir/interpret/machine.h"

spyre_status machine_produce(tile *t, const ktir_op *op)
{
    const ktir_module *m = t->x->m;
    const ktir_region *region = ktir_op_region(m, op, 0);
    const ktir_set *producers = ktir_find(m, op, KTIR_KEY_PRODUCERS)->set;
    uint32_t group = groups_of(ktir_result_type(m, op), producers, t->number, t->x->tiles);
    const machine_cell *yielded;
    if (group == GROUPS_NONE) {
        machine_set(t, op->first_result, (ktir_number_value){.integer = -1});
        return NULL;
    }
    if (region->argument_count)
        machine_set(t, region->first_argument, (ktir_number_value){.integer = group});
    TRY(machine_region(t, op, 0, &yielded));
    machine_copy(t, op->first_result, yielded);
    return NULL;
}

typedef struct {
    const ktir_op *op;
    const ktir_set *producers, *consumers;
    uint32_t group;
    uint32_t first;                     // of whom the group is looked for
} delivery;

static bool is_member(const delivery *d, uint32_t number)
{
    return groups_has(d->producers, d->group, number) || groups_has(d->consumers, d->group, number);
}

static uint32_t deliveries(const tile *t, const ktir_op *op)
{
    return t->deliveries[op - t->x->m->ops.items];
}

static bool is_there(const tile *t, const tile *first, const ktir_op *op)
{
    return t->state == MACHINE_WAITS && t->waiting == op &&
           deliveries(t, op) == deliveries(first, op);
}

static bool is_complete(const machine *x, const delivery *d)
{
    for (uint32_t n = 0; n < x->tiles; n++)
        if (is_member(d, n) && !is_there(&x->tile[n], &x->tile[d->first], d->op)) return false;
    return true;
}

// The combination of all partial tensors, computed by compute tile t.
static spyre_status combine(tile *t, const delivery *d)
{
    const machine *x = t->x;
    const ktir_region *region = ktir_op_region(x->m, d->op, 0);
    uint32_t future = ktir_operand(x->m, d->op, 0), result = d->op->first_result;
    const ktir_type *type = ktir_result_type(x->m, d->op);
    bool begun = false;
    for (uint32_t n = 0; n < x->tiles; n++) {
        if (!groups_has(d->producers, d->group, n)) continue;
        const machine_cell *partial = &x->tile[n].cells[future], *sum = partial;
        if (begun) {
            machine_copy(t, region->first_argument, &t->cells[result]);
            machine_copy(t, region->first_argument + 1, partial);
            TRY(machine_region(t, d->op, 0, &sum));
        }
        machine_copy(t, result, sum);
        begun = true;
    }
    if (!begun) {
        if (d->op->operand_count < 2)
            return machine_fault(t, d->op, "no producer, and no identity");
        machine_copy(t, result, machine_operand(t, d->op, 1));
    }
    // Another shape of the same elements.
    const ktir_tensor *flat = t->cells[result].tensor;
    ktir_tensor *shaped = ktir_tensor_new(type->element, type->rank, type->size);
    if (shaped) memcpy(shaped->at, flat->at, (size_t)flat->count * sizeof *flat->at);
    return machine_give(t, d->op, result, shaped);
}

// Everybody of the group has seen what the others had done; then their clocks go on.
static void join_clocks(machine *x, const delivery *d)
{
    uint32_t *first = x->clocks + (size_t)d->first * x->tiles;
    for (uint32_t n = 0; n < x->tiles; n++) {
        if (!is_member(d, n)) continue;
        const uint32_t *clock = x->clocks + (size_t)n * x->tiles;
        for (uint32_t k = 0; k < x->tiles; k++)
            if (clock[k] > first[k]) first[k] = clock[k];
    }
    for (uint32_t n = 0; n < x->tiles; n++)
        if (is_member(d, n) && n != d->first)
            memcpy(x->clocks + (size_t)n * x->tiles, first, x->tiles * sizeof *first);
    for (uint32_t n = 0; n < x->tiles; n++)
        if (is_member(d, n)) x->clocks[(size_t)n * x->tiles + n]++;
}

static spyre_status deliver(machine *x, const delivery *d)
{
    join_clocks(x, d);
    for (uint32_t n = 0; n < x->tiles; n++)
        if (groups_has(d->consumers, d->group, n)) TRY(combine(&x->tile[n], d));
    for (uint32_t n = 0; n < x->tiles; n++) {
        tile *t = &x->tile[n];
        if (!is_member(d, n)) continue;
        t->deliveries[d->op - x->m->ops.items]++;
        t->state = MACHINE_RUNS;
        t->pc = d->op->end;
    }
    return NULL;
}

static spyre_status delivery_of(const tile *t, delivery *d)
{
    const ktir_module *m = t->x->m;
    const ktir_type *future = ktir_operand_type(m, t->waiting, 0);
    const ktir_value *value = &m->values.items[ktir_operand(m, t->waiting, 0)];
    *d = (delivery){.op = t->waiting, .first = t->number};
    d->producers = ktir_find(m, &m->ops.items[value->definition], KTIR_KEY_PRODUCERS)->set;
    d->consumers = ktir_find(m, t->waiting, KTIR_KEY_CONSUMERS)->set;
    d->group = groups_of(future, d->producers, t->number, t->x->tiles);
    if (d->group == GROUPS_NONE)
        d->group = groups_of(future, d->consumers, t->number, t->x->tiles);
    if (d->group != GROUPS_NONE) return NULL;
    return machine_fault(t, t->waiting, "it is in no group");
}

spyre_status machine_deliver(machine *x, bool *out_moved)
{
    *out_moved = false;
    for (uint32_t n = 0; n < x->tiles; n++) {
        delivery d;
        if (x->tile[n].state != MACHINE_WAITS) continue;
        TRY(delivery_of(&x->tile[n], &d));
        if (!is_complete(x, &d)) continue;
        TRY(deliver(x, &d));
        *out_moved = true;
    }
    return NULL;
}

spyre_status machine_deadlock(const tile *t)
{
    delivery d;
    TRY(delivery_of(t, &d));
    for (uint32_t n = 0; n < t->x->tiles; n++) {
        const tile *other = &t->x->tile[n];
        if (!is_member(&d, n) || is_there(other, t, d.op)) continue;
        if (other->state == MACHINE_ENDED)
            return machine_fault(t, d.op, "it waits for compute tile %u, which has ended", n);
        return machine_fault(t, d.op, "it waits for compute tile %u, which waits at line %u", n,
                             other->waiting->line);
    }
    return machine_fault(t, d.op, "it waits for ever");
}
