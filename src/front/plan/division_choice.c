// SPDX-License-Identifier: Apache-2.0
//
// Kinds of ops and choices are interned by the bytes of a key: an op by all that its cost depends
// on, a choice by the kind of its op and the division. A model of 32 equal layers has the choices
// of one.
#include "front/plan/division_choice.h"

#include <string.h>

static const loop_op *op_at(const division_kinds *kinds, uint32_t index)
{
    return &kinds->loops->ops.items[index];
}

// --- Kinds

// Elements of the result for each that an execution writes.
static double tiles_of_result(const loop_graph *loops, const loop_op *op)
{
    double tiles = 1;
    for (uint32_t t = 0; t < op->tile_depth; t++)
        if (loop_result(op)->tile_stride[t])
            tiles *= (double)loops->tiles.items[op->tiles[t]].count;
    return tiles;
}

// All that cost_of reads of an op, and what its views depend on.
static spyre_status find_alike(division_kinds *kinds, map_bytes *ids, uint32_t index,
                               const cost_basis *basis)
{
    const loop_op *op = op_at(kinds, index);
    struct {
        cost_basis basis;
        int64_t stride[LOOP_MAX_OPERANDS][LOOP_MAX_VARS];
        double tiles;
        int32_t op, var_count, operand_count, stick, table, scanned;
        uint32_t repeats;
        lx_walk walk[LOOP_MAX_OPERANDS];
    } key;
    memset(&key, 0, sizeof key);
    memcpy(&key.basis, basis, sizeof key.basis);
    for (uint32_t k = 0; k < op->operand_count; k++) {
        memcpy(key.stride[k], op->operand[k].stride, sizeof key.stride[k]);
        key.walk[k] = lx_walk_of(kinds->loops, op, &basis->sizes, k);
        key.repeats |= (uint32_t)loop_repeats_input(op, k) << k;
    }
    key.tiles = tiles_of_result(kinds->loops, op);
    key.op = (int32_t)op->op;
    key.var_count = (int32_t)op->var_count;
    key.operand_count = (int32_t)op->operand_count;
    key.stick = op->stick;
    key.table = op->table;
    key.scanned = op->scanned;
    return map_bytes_intern(kinds->memory, ids, &key, sizeof key, index, &kinds->alike[index]);
}

spyre_status division_kinds_create(const loop_graph *loops, arena *memory, division_kinds *out)
{
    map_bytes ids = {0};
    uint32_t ops = loops->ops.count;
    *out = (division_kinds){.loops = loops,
                            .memory = memory,
                            .alike = ARENA_NEW(memory, uint32_t, ops),
                            .basis = ARENA_NEW(memory, const cost_basis *, ops)};
    TRY_ALLOC(out->alike);
    TRY_ALLOC(out->basis);
    for (uint32_t i = 0; i < ops; i++) {
        cost_basis basis = cost_basis_of(loops, op_at(out, i));
        TRY(find_alike(out, &ids, i, &basis));
        if (out->alike[i] == i) {
            cost_basis *own = ARENA_NEW(memory, cost_basis, 1);
            TRY_ALLOC(own);
            *own = basis;
            out->basis[i] = own;
        }
        out->basis[i] = out->basis[out->alike[i]];
    }
    return NULL;
}

// --- Choices

static double result_bytes_of(const division_kinds *kinds, uint32_t index, const division *d)
{
    const loop_op *op = op_at(kinds, index);
    const cost_basis *basis = kinds->basis[index];
    uint32_t output = op->operand_count - 1;
    double bytes = basis->bytes[output] * tiles_of_result(kinds->loops, op);
    for (uint32_t v = 0; v < op->var_count; v++)
        if (op->operand[output].stride[v]) bytes *= division_share(&basis->sizes, v, d->split[v]);
    return bytes;
}

static void fill(const division_kinds *kinds, uint32_t index, const division *d,
                 division_choice *out)
{
    const loop_op *op = op_at(kinds, index);
    out->d = *d;
    out->result_bytes = result_bytes_of(kinds, index, d);
    for (uint32_t k = 0; k < op->operand_count; k++) {
        const division_sizes *sizes = &kinds->basis[index]->sizes;
        lx_walk walk = lx_walk_of(kinds->loops, op, sizes, k);
        out->view[k] = lx_slices_under(kinds->loops, op, &walk, sizes, d, k);
    }
}

// Equal for divisions that division_equals.
static void make_key(const division_kinds *kinds, uint32_t index, const division *d,
                     uint8_t key[sizeof(uint32_t) + 2 * LOOP_MAX_VARS])
{
    uint8_t *at = key + sizeof(uint32_t);
    memcpy(key, &kinds->alike[index], sizeof(uint32_t));
    memset(at, 0, 2 * LOOP_MAX_VARS);
    for (uint32_t v = 0; v < op_at(kinds, index)->var_count; v++) {
        if (d->split[v] == 1) continue;
        at[2 * v] = (uint8_t)d->split[v];
        at[2 * v + 1] = (uint8_t)d->core_stride[v];
    }
}

const division_choice *division_choice_of(division_kinds *kinds, uint32_t index, const division *d)
{
    uint8_t key[sizeof(uint32_t) + 2 * LOOP_MAX_VARS];
    uint32_t id = kinds->choices.count;
    make_key(kinds, index, d, key);
    if (map_bytes_get(&kinds->ids, key, sizeof key, &id)) return kinds->choices.items[id];
    division_choice *made = ARENA_NEW(kinds->memory, division_choice, 1);
    spyre_status status = made ? NULL : status_no_memory();
    if (!status) status = VEC_PUSH(kinds->memory, &kinds->choices, made);
    if (!status) status = map_bytes_put(kinds->memory, &kinds->ids, key, sizeof key, id);
    kinds->no_memory |= status != NULL;
    spyre_status_free(status);
    if (!made) made = &kinds->spare;
    fill(kinds, index, d, made);
    return made;
}
