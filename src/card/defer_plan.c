// SPDX-License-Identifier: Apache-2.0
//
// Which loads may be put off, and which are live when their kernel ends.
//
// Liveness: a read of LX is exposed when no write earlier in its kernel's code surely fills it;
// what it reads comes from before the kernel. A load is live at the end of its kernel when an
// exposed read of any kernel meets it (ignoring the order of kernels errs on the safe side).
#include "card/defer.h"

// An access to LX of an instruction over the loops around it.
typedef struct {
    const isa_instruction *i;
    uint32_t operand, depth;
    uint32_t loop_id[ISA_MAX_LOOPS];        // which loops: the instruction that opens them
    uint32_t iterations[ISA_MAX_LOOPS];
    int64_t low, high;                      // in the first iteration
    bool reads, writes, dense;
} access;

typedef struct {
    int64_t low, high;
} range;
typedef VEC(range) range_list;
typedef VEC(access) access_list;

static bool updates(isa_opcode opcode)
{
    return opcode == ISA_REDUCE || opcode == ISA_REDUCESQ || opcode == ISA_FOLD ||
           opcode == ISA_MATMUL;
}

static bool writes_operand(isa_opcode opcode, uint32_t operand)
{
    return operand == 0 && opcode != ISA_SEND;
}

static bool tile_dense(const plan_tile *tile)
{
    if (tile->instruction->opcode == ISA_MATMUL) return false;
    int64_t bytes = spyre_format_bytes(tile->instruction->operand[0].format);
    for (uint32_t d = 0; d < tile->dim_count; d++) bytes *= tile->extent[d];
    return tile->span[0].high - tile->span[0].low == bytes && plan_injective(tile, 0);
}

// The range over all iterations of the loops from `first` on.
static range over_loops(const access *a, uint32_t first)
{
    range r = {a->low, a->high};
    for (uint32_t n = first; n < a->depth; n++) {
        int64_t reach = a->i->operand[a->operand].loop_stride[n] * ((int64_t)a->iterations[n] - 1);
        if (reach < 0) r.low += reach;
        else r.high += reach;
    }
    return r;
}

// Every iteration of the read finds the bytes that the write left in the same iteration of the
// loops they share; of its own loops the write counts with the first iteration only.
static bool covers(const access *write, const access *read)
{
    uint32_t shared = 0;
    while (shared < write->depth && shared < read->depth &&
           write->loop_id[shared] == read->loop_id[shared])
        shared++;
    for (uint32_t n = 0; n < shared; n++) {
        int64_t moved = write->i->operand[write->operand].loop_stride[n];
        if (moved != read->i->operand[read->operand].loop_stride[n]) return false;
    }
    range wanted = over_loops(read, shared);
    return write->low <= wanted.low && wanted.high <= write->high;
}

static spyre_status add_exposed(arena *memory, const access_list *accesses, uint32_t at,
                                range_list *exposed)
{
    const access *read = &accesses->items[at];
    for (uint32_t n = 0; n < at; n++) {
        const access *write = &accesses->items[n];
        // An instruction's own write comes too late for its reads.
        if (write->writes && write->dense && write->i != read->i && covers(write, read))
            return NULL;
    }
    range r = over_loops(read, 0);
    return VEC_PUSH(memory, exposed, r);
}

static spyre_status add_accesses(arena *memory, const plan_tile *tile, const access *place,
                                 access_list *accesses)
{
    const isa_instruction *i = tile->instruction;
    for (uint32_t o = 0; o < i->operand_count; o++) {
        if (i->operand[o].space != ISA_SPACE_LX) continue;
        access a = *place;
        a.i = i;
        a.operand = o;
        a.low = i->operand[o].offset + tile->span[o].low;
        a.high = i->operand[o].offset + tile->span[o].high;
        a.writes = writes_operand(i->opcode, o);
        a.reads = !a.writes || updates(i->opcode);
        a.dense = a.writes && tile->dense;
        TRY(VEC_PUSH(memory, accesses, a));
    }
    return NULL;
}

// All accesses of the code from `begin` to `end`, in its order.
static spyre_status collect(arena *memory, const isa_program *program,
                            plan_tile *const *tiles, uint32_t begin, uint32_t end,
                            access *place, access_list *accesses)
{
    for (uint32_t at = begin; at < end; at++) {
        const isa_instruction *i = &program->code.items[at];
        if (i->opcode == ISA_LOOP) {
            place->loop_id[place->depth] = at;
            place->iterations[place->depth++] = i->count;
        } else if (i->opcode == ISA_END_LOOP) {
            place->depth--;
        } else if (tiles[at]) {
            TRY(add_accesses(memory, tiles[at], place, accesses));
        }
    }
    return NULL;
}

static spyre_status find_exposed(arena *memory, const isa_program *program,
                                 plan_tile *const *tiles, range_list *exposed)
{
    access place = {0};
    for (uint32_t at = 0; at < program->code.count; at++) {
        const isa_instruction *i = &program->code.items[at];
        if (i->opcode == ISA_LOOP) {
            place.loop_id[place.depth] = at;
            place.iterations[place.depth++] = i->count;
        }
        if (i->opcode == ISA_END_LOOP) place.depth--;
        if (i->opcode != ISA_KERNEL) continue;
        uint32_t end = at;
        while (program->code.items[end].opcode != ISA_END_KERNEL) end++;
        access_list accesses = {0};
        TRY(collect(memory, program, tiles, at + 1, end, &place, &accesses));
        for (uint32_t n = 0; n < accesses.count; n++)
            if (accesses.items[n].reads) TRY(add_exposed(memory, &accesses, n, exposed));
        at = end;
    }
    return NULL;
}

static bool is_deferrable(const plan_tile *tile)
{
    return tile->instruction->opcode == ISA_LOAD && tile->dense &&
           tile->span[0].high >= DEFER_LEAST_BYTES;
}

static bool is_flat(const plan_tile *tile)
{
    int64_t bytes = spyre_format_bytes(tile->instruction->operand[0].format);
    return tile->dim_count == 1 && tile->stride[0][0] == bytes && tile->stride[1][0] == bytes;
}

// Judged over all iterations at once: `outer` are the loops open at the instruction.
static bool is_live(const isa_instruction *i, const plan_tile *tile, const access *outer,
                    const range_list *exposed)
{
    access a = *outer;
    a.i = i;
    a.operand = 0;
    a.low = i->operand[0].offset + tile->span[0].low;
    a.high = i->operand[0].offset + tile->span[0].high;
    range r = over_loops(&a, 0);
    for (uint32_t n = 0; n < exposed->count; n++)
        if (exposed->items[n].low < r.high && r.low < exposed->items[n].high) return true;
    return false;
}

spyre_status defer_plan(arena *scratch, const isa_program *program, plan_tile *const *tiles)
{
    range_list exposed = {0};
    for (uint32_t at = 0; at < program->code.count; at++)
        if (tiles[at]) tiles[at]->dense = tile_dense(tiles[at]);
    TRY(find_exposed(scratch, program, tiles, &exposed));
    access outer = {0};
    for (uint32_t at = 0; at < program->code.count; at++) {
        const isa_instruction *i = &program->code.items[at];
        if (i->opcode == ISA_LOOP) outer.iterations[outer.depth++] = i->count;
        if (i->opcode == ISA_END_LOOP) outer.depth--;
        if (!tiles[at] || !is_deferrable(tiles[at])) continue;
        tiles[at]->deferrable = true;
        tiles[at]->flat = is_flat(tiles[at]);
        tiles[at]->live = is_live(i, tiles[at], &outer, &exposed);
    }
    return NULL;
}

// --- Memory

// Ranges are judged in wide arithmetic and cut to a width whose sums fit: an access that far away
// is a fault when it happens.
__extension__ typedef __int128 wide;
#define FARTHEST ((wide)1 << 60)

static int64_t cut(wide value)
{
    if (value < -FARTHEST) return (int64_t)-FARTHEST;
    return (int64_t)(value > FARTHEST ? FARTHEST : value);
}

static void parameter_range(const isa_kernel *kernel, uint16_t slot, int64_t *least, int64_t *most)
{
    bool first = true;
    *least = *most = 0;
    for (uint32_t core = 0; core < ISA_CORES && slot != ISA_NO_SLOT; core++) {
        if (!(kernel->active_cores >> core & 1u)) continue;
        int64_t value = kernel->parameters[core * kernel->slot_count + slot];
        if (first || value < *least) *least = value;
        if (first || value > *most) *most = value;
        first = false;
    }
}

static spyre_status add_memory(arena *memory, const plan_tile *tile, const access *outer,
                               uint32_t operand, plan_kernel *kernel)
{
    const isa_operand *o = &tile->instruction->operand[operand];
    int64_t least, most;
    parameter_range(kernel->source, o->slot, &least, &most);
    wide low = (wide)o->offset + tile->span[operand].low + least;
    wide high = (wide)o->offset + tile->span[operand].high + most;
    for (uint32_t n = 0; n < outer->depth; n++) {
        wide reach = (wide)o->loop_stride[n] * ((wide)outer->iterations[n] - 1);
        if (reach < 0) low += reach;
        else high += reach;
    }
    plan_memory place = {o->arg, operand == 0, cut(low), cut(high)};
    return VEC_PUSH(memory, &kernel->memory, place);
}

spyre_status defer_plan_kernel(arena *memory, const isa_program *program,
                               plan_tile *const *tiles, uint32_t begin, uint32_t end,
                               const uint32_t *outer_iterations, plan_kernel *kernel)
{
    access outer = {.depth = kernel->outer_depth};
    for (uint32_t n = 0; n < outer.depth; n++) outer.iterations[n] = outer_iterations[n];
    for (uint32_t at = begin; at < end; at++) {
        const isa_instruction *i = &program->code.items[at];
        if (i->opcode == ISA_LOOP) outer.iterations[outer.depth++] = i->count;
        if (i->opcode == ISA_END_LOOP) outer.depth--;
        if (i->opcode == ISA_STORE)
            TRY(add_memory(memory, tiles[at], &outer, 0, kernel));
        else if (tiles[at] && tiles[at]->deferrable)
            TRY(add_memory(memory, tiles[at], &outer, 1, kernel));
    }
    return NULL;
}

bool defer_allowed(const plan_kernel *kernel, const card_argument *arguments)
{
    for (uint32_t s = 0; s < kernel->memory.count; s++) {
        const plan_memory *store = &kernel->memory.items[s];
        if (!store->stores) continue;
        int64_t store_base = (int64_t)arguments[store->arg].base;
        for (uint32_t l = 0; l < kernel->memory.count; l++) {
            const plan_memory *load = &kernel->memory.items[l];
            if (load->stores) continue;
            int64_t apart = (int64_t)arguments[load->arg].base - store_base;
            if (load->low + apart < store->high && store->low < load->high + apart) return false;
        }
    }
    return true;
}
