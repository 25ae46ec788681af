// SPDX-License-Identifier: Apache-2.0
//
// Views at constant addresses in LX lie there, byte for byte: those bytes are not for the card's
// tensors. What a core moves within its own LX is a copy. What a distributed view has in the LX of
// another core is a message, in two kernels: the owner sends, those who load it receive; the other
// way round for a store. Arrays of the caller come to LX before the kernel, and go back behind it.
#include <string.h>

#include "ktir/lower/access/lower_access.h"

static int64_t first_byte(const ktir_placed *p)
{
    return p->address * ktir_element_describe(p->element)->bytes;
}

static bool in_lx(const ktir_placed *p)
{
    return p->space != KTIR_HBM;
}

// --- Which bytes

// Keeps [begin, end) for ever; what overlaps it becomes one buffer with it.
static spyre_status reserve(lowering *w, const ktir_op *op, int64_t begin, int64_t end)
{
    lowered_heap *h = &w->heap;
    uint32_t at = 0, kept = 0;
    for (uint32_t n = 0; n < h->count; n++) {
        lowered_buffer b = h->items[n];
        if (b.offset < end && begin < b.offset + b.bytes) {
            if (b.offset < begin) begin = b.offset;
            if (b.offset + b.bytes > end) end = b.offset + b.bytes;
        } else {
            h->items[kept++] = b;
        }
    }
    h->count = kept;
    if (kept == LOWERING_MOST_LIVE)
        return LOWER_NO(w, op, "more than %d views of LX", LOWERING_MOST_LIVE);
    while (at < kept && h->items[at].offset < begin) at++;
    memmove(&h->items[at + 1], &h->items[at], (kept - at) * sizeof *h->items);
    h->items[at] = (lowered_buffer){.offset = begin, .bytes = end - begin, .last = UINT32_MAX};
    h->count++;
    return NULL;
}

// Whole sticks, which the allocator counts in.
static spyre_status reserve_views(lowering *w, const ktir_op *op)
{
    for (uint32_t n = 0; n < w->call->placed_count; n++) {
        const ktir_placed *p = &w->call->placed[n];
        int64_t begin = first_byte(p), end = begin + p->byte_count;
        if (!in_lx(p) || end > ISA_LX_BYTES) continue;      // an error where it is used
        TRY(reserve(w, op, begin & -(int64_t)SPYRE_STICK_BYTES,
                    (end + SPYRE_STICK_BYTES - 1) & -(int64_t)SPYRE_STICK_BYTES));
    }
    return NULL;
}

static bool is_reserved(const lowering *w, int64_t begin, int64_t end)
{
    for (uint32_t n = 0; n < w->call->placed_count; n++) {
        const ktir_placed *p = &w->call->placed[n];
        if (in_lx(p) && begin >= first_byte(p) && end <= first_byte(p) + p->byte_count) return true;
    }
    return false;
}

spyre_status place_of_view(lowering *w, const ktir_op *op, int64_t space, view *v)
{
    const lowered_index *base = lower_operand(w, op, 0)->index;
    int64_t address, reach = v->element;
    v->in_lx = true;
    v->owner = space == KTIR_LX ? OWN_LX : (uint32_t)(space - KTIR_LX_OF_CORE);
    v->argument = UINT16_MAX;
    if (w->tiles > ISA_CORES)
        return LOWER_NO(w, op, "LX of %u compute tiles: the card has %d", w->tiles, ISA_CORES);
    if (v->owner != OWN_LX && v->owner >= w->tiles)
        return ktir_error(w->m, op, SPYRE_DEVICE_FAULT, "core %u: the grid has %u compute tiles",
                          v->owner, w->tiles);
    if (base->memory != LOWERING_NO_MEMORY || !lower_uniform(w, base, &address))
        return LOWER_NO(w, op, "an address in LX that differs between cores or iterations");
    for (uint32_t d = 0; d < v->rank; d++)
        if (v->size[d] > 1) reach += (v->size[d] - 1) * v->stride[d] * v->element;
    if (address < 0 || address > ISA_LX_BYTES || address * v->element + reach > ISA_LX_BYTES)
        return ktir_error(w->m, op, SPYRE_DEVICE_FAULT, "element %lld and %lld bytes from there: "
                          "LX has %d bytes", (long long)address, (long long)reach, ISA_LX_BYTES);
    v->first = (lowered_index){.memory = LOWERING_NO_MEMORY};
    for (uint32_t c = 0; c < ISA_CORES; c++) v->first.at[c] = address * v->element;
    if (is_reserved(w, v->first.at[0], v->first.at[0] + reach)) return NULL;
    return LOWER_NO(w, op, "an address in LX that is no constant");
}

// --- What has been written

static spyre_status now_known(lowering *w, uint32_t cores, int64_t begin, int64_t end)
{
    const lowered_bytes bytes = {cores, begin, end};
    return VEC_PUSH(w->memory, &w->known, bytes);
}

// What a store writes in all iterations of the open loops.
static spyre_status now_stored(lowering *w, uint32_t cores, const lowered_tensor *place)
{
    int64_t begin = place->offset, end = begin + spyre_format_bytes(place->format);
    for (uint32_t d = 0; d < place->rank; d++) end += (place->size[d] - 1) * place->stride[d];
    for (uint32_t n = 0; n < w->depth; n++) {
        int64_t further = place->loop[n] * (w->trips[n] - 1);
        if (further < 0) begin += further;
        else end += further;
    }
    return now_known(w, cores, begin, end);
}

static spyre_status check_known(const lowering *w, const ktir_op *op, uint32_t cores, int64_t at)
{
    for (uint32_t n = 0; n < w->known.count; n++)
        if (at >= w->known.items[n].begin && at < w->known.items[n].end)
            cores &= ~w->known.items[n].cores;
    if (!cores) return NULL;
    return ktir_error(w->m, op, SPYRE_DEVICE_FAULT,
                      "byte %lld of LX of compute tile %d has never been written", (long long)at,
                      __builtin_ctz(cores));
}

// --- Loads and stores

static void same_peer(uint32_t peer, int64_t *peers)
{
    for (uint32_t c = 0; c < ISA_CORES; c++) peers[c] = peer;
}

// From the owner to all active cores.
static spyre_status bring(lowering *w, const ktir_op *op, uint32_t owner,
                          const lowered_tensor *t, const lowered_tensor *place)
{
    uint32_t all = w->active, mine = 1u << owner, others = all & ~mine;
    int64_t peers[ISA_CORES];
    TRY(lower_meet(w, op, mine));
    if (all & mine) TRY(lower_copy(w, op, t, place));
    for (uint32_t c = 0; c < ISA_CORES; c++) {
        if (!(others >> c & 1)) continue;
        same_peer(c, peers);
        TRY(lower_message(w, op, ISA_SEND, place, peers));
    }
    TRY(lower_meet(w, op, others));
    same_peer(owner, peers);
    TRY(lower_message(w, op, ISA_RECEIVE, t, peers));
    return lower_meet(w, op, all);
}

// From the one active core to the owner.
static spyre_status take(lowering *w, const ktir_op *op, uint32_t owner, const lowered_tensor *t,
                         const lowered_tensor *place)
{
    uint32_t all = w->active;
    int64_t peers[ISA_CORES];
    if (all & (all - 1))
        return LOWER_NO(w, op, "several compute tiles store to one place in LX of compute tile %u",
                        owner);
    TRY(lower_meet(w, op, all));
    same_peer(owner, peers);
    TRY(lower_message(w, op, ISA_SEND, t, peers));
    TRY(lower_meet(w, op, 1u << owner));
    same_peer((uint32_t)__builtin_ctz(all), peers);
    TRY(lower_message(w, op, ISA_RECEIVE, place, peers));
    return lower_meet(w, op, all);
}

// Of active cores that have the place alike.
static spyre_status move_alike(lowering *w, const ktir_op *op, bool loads, const access *a,
                               const lowered_tensor *t, const lowered_tensor *place)
{
    const view *v = &a->v;
    uint32_t owners = v->owner == OWN_LX ? w->active : 1u << v->owner;
    uint32_t others = w->active & ~owners;
    if (others && !a->distributed)
        return ktir_error(w->m, op, SPYRE_DEVICE_FAULT, "compute tile %d: it touches LX of compute "
                          "tile %u without a message (the view of line %u)",
                          __builtin_ctz(others), v->owner, v->op->line);
    if (loads) TRY(check_known(w, op, owners, place->offset));
    else TRY(now_stored(w, owners, place));
    if (!others) return lower_copy(w, op, loads ? t : place, loads ? place : t);
    return loads ? bring(w, op, v->owner, t, place) : take(w, op, v->owner, t, place);
}

spyre_status place_move(lowering *w, const ktir_op *op, const access *a, const lowered_tensor *t)
{
    const lowered_index *address = &a->address;
    uint32_t all = w->active, alike;
    for (uint32_t left = all; left; left &= ~alike) {
        lowered_tensor place = *t;
        place.offset = address->at[__builtin_ctz(left)];
        memcpy(place.stride, a->stride, sizeof place.stride);
        memcpy(place.loop, address->loop, sizeof place.loop);
        alike = left;
        for (uint32_t c = 0; c < ISA_CORES; c++)
            if (address->at[c] != place.offset) alike &= ~(1u << c);
        if (alike != w->active) TRY(lower_meet(w, op, alike));
        TRY(move_alike(w, op, access_loads(a), a, t, &place));
    }
    return w->active == all ? NULL : lower_meet(w, op, all);
}

// --- Arrays of the caller

// Of LX that every core has of its own, the first core's goes back.
static spyre_status move_array(lowering *w, const ktir_op *op, uint32_t number, bool loads)
{
    const ktir_placed *p = &w->call->placed[number];
    const ktir_element_info *element = ktir_element_describe(p->element);
    uint32_t memory = loads ? 1 : 0, all = w->active;
    bool own = p->space == KTIR_LX;
    uint32_t owner = own ? 0 : (uint32_t)(p->space - KTIR_LX_OF_CORE);
    if (owner >= w->tiles || w->tiles > ISA_CORES) return NULL;     // an error where it is used
    lowered_tile tile = {.i = {.opcode = loads ? ISA_LOAD : ISA_STORE, .operand_count = 2},
                         .rank = 1, .size = {p->byte_count / element->bytes}};
    tile.stride[0][0] = tile.stride[1][0] = element->bytes;
    tile.i.operand[memory] = (isa_operand){.space = ISA_SPACE_MEMORY, .format = element->format,
                                           .arg = (uint16_t)(w->first_placed + number),
                                           .slot = ISA_NO_SLOT};
    tile.i.operand[1 - memory] = (isa_operand){.format = element->format,
                                               .offset = first_byte(p)};
    TRY(lower_meet(w, op, own && loads ? w->present : 1u << owner));
    if (loads)
        TRY(now_known(w, w->active, first_byte(p), first_byte(p) + p->byte_count));
    TRY(lower_tile(w, op, &tile));
    return lower_meet(w, op, all);
}

static spyre_status move_arrays(lowering *w, bool loads)
{
    const ktir_op *op = &w->m->ops.items[w->call->function->body.begin];
    for (uint32_t n = 0; n < w->call->placed_count; n++) {
        const ktir_placed *p = &w->call->placed[n];
        bool fits = first_byte(p) + p->byte_count <= ISA_LX_BYTES && p->byte_count;
        if (in_lx(p) && p->is_argument && fits && (loads || p->is_written))
            TRY(move_array(w, op, n, loads));
    }
    return NULL;
}

spyre_status lower_begin_lx(lowering *w)
{
    w->known.count = 0;
    TRY(reserve_views(w, &w->m->ops.items[w->call->function->body.begin]));
    return move_arrays(w, true);
}

spyre_status lower_end_lx(lowering *w)
{
    return move_arrays(w, false);
}
