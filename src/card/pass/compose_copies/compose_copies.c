// SPDX-License-Identifier: Apache-2.0
//
// Copies of copies within LX. What moves along its sticks (a shift, a roll, a window of a long
// line) goes through LX three times and more: to sticks across, to other rows there, and back.
// Where all that happens to an operand since it was loaded or computed are copies, and they compose
// to an affine map, it is read where it came from, and copies that nothing reads any more are left
// out:
//
//     identity lx+0 [64, 64] <- arg0          across
//     identity lx+8192 [63, 64] <- lx+128     from row 1 on
//     identity lx+16384 [64, 63] <- lx+8192   and back
//     add arg1 <- lx+16384, arg0              ->    add arg1 <- arg0+2, arg0
//
// The map need not be that of one copy: contents.h executes them on places, and
// composed_operand.c looks whether these are affine. A tile that is so in parts becomes a kernel
// for each part. Maps of single instructions alone, which could be multiplied without executing
// anything, would not do: the rows of a fold come from two copies and their remainders.
//
// Launches whose arguments overlap take the phases as they were (card_program.uncomposed).
#include "card/pass/compose_copies/compose.h"

#include <string.h>

#include "card/footprint/footprint.h"
#include "card/pass/absorb.h"
#include "card/pass/core_parts.h"
#include "card/plan/pass.h"
#include "isa/dims.h"

enum {
    LEAST_BYTES = 16384,                    // copied within LX, else nothing is worth it
    MOST_ELEMENTS = 1 << 22,                // of all tiles that are followed
    MOST_COPIES = 64,                       // whose places are known
    MOST_TEMPORARY_BYTES = 1 << 25,         // of an argument that is
    MOST_CORE_SETS = 4,
    MOST_SLOTS = 16,                        // of a kernel, added
    MOST_PIECES = 8,                        // of a tile
};

// --- Kernels of tiles

static bool is_plain_kernel(const plan_phase *phase)
{
    const plan_kernel *kernel = phase->kernel;
    return plan_is_plain(phase) && kernel->steps[ISA_QUEUE_SEQ] && !kernel->messages &&
           !kernel->sends_later && kernel->source->active_cores && !kernel->has_matmul;
}

// One of a block's tiles.
static spyre_status add_tile(composer *c, composed_kernel *k, const loop_block *b,
                             const plan_step *of, const plan_step *begin)
{
    const bool shares = b->count > 1;
    composed_tile tile = {.steps = shares ? of : begin, .count = shares ? 1 : b->steps,
                          .shares_loop = shares, .behind = UINT32_MAX};
    isa_instruction i = isa_copy(of->tile->instruction);
    isa_remove_single_dims(&i);
    if (!absorb_block(&i, b)) {
        k->kernel = NULL;
        return NULL;
    }
    TRY(plan_copy_tile(c->memory, &i, &tile.tile));
    tile.ns = compose_ns(tile.tile);
    return VEC_PUSH(c->scratch, &k->tiles, tile);
}

// One tile in its loops, or several whose iterations may as well be those of one after the other.
static bool find_block(const plan_kernel *kernel, const plan_step *s, loop_block *out)
{
    if (!absorb_find_block(s, out) || !out->count) return false;
    if (out->depth == 0) out->count = out->steps = 1;
    const uint32_t cores = kernel->source->active_cores;
    return out->count == 1 || (out->depth == 1 && (cores & (cores - 1)) == 0 &&
                               core_parts_in_any_order(kernel, s));
}

static spyre_status list_tiles(composer *c, plan_kernel *kernel, composed_kernel *k)
{
    const plan_step *s = kernel->steps[ISA_QUEUE_SEQ];
    loop_block b;
    k->kernel = kernel;
    for (; s->kind != STEP_END && k->kernel; s += b.steps) {
        if (!find_block(kernel, s, &b)) {
            k->kernel = NULL;
            return NULL;
        }
        for (uint32_t n = 0; n < b.count && k->kernel; n++)
            TRY(add_tile(c, k, &b, &b.tiles[n], s));
    }
    return NULL;
}

// Where copies have put something in LX so far; of many, those before.
typedef struct {
    uint32_t count;
    byte_range items[MOST_COPIES];
} copied_ranges;

// Bytes that a tile copies within LX of what was copied there.
static double copied_again(const composed_kernel *k, const isa_instruction *i, double elements,
                           copied_ranges *copied)
{
    if (!contents_is_copy(i) || i->operand[0].space != ISA_SPACE_LX) return 0;
    bool again = false;
    for (uint32_t n = 0; n < copied->count && i->operand[1].space == ISA_SPACE_LX; n++)
        again = again || ranges_overlap(copied->items[n], compose_range(k, i, 1));
    if (copied->count < MOST_COPIES) copied->items[copied->count++] = compose_range(k, i, 0);
    return again ? elements * spyre_format_bytes(i->operand[0].format) : 0;
}

// Whether enough is copied within LX, and not too much is to be followed.
static bool is_worth_it(const composer *c)
{
    copied_ranges copied = {0};
    double moved = 0, all = 0;
    for (uint32_t n = 0; n < c->t->loaded->phases.count; n++) {
        const composed_kernel *k = &c->kernels[n];
        for (uint32_t m = 0; k->kernel && m < k->tiles.count; m++) {
            const plan_tile *tile = k->tiles.items[m].tile;
            const double elements = compose_elements(tile);
            moved += copied_again(k, tile->instruction, elements, &copied);
            all += elements;
        }
    }
    return moved >= LEAST_BYTES && all <= MOST_ELEMENTS;
}

static spyre_status list_kernels(composer *c)
{
    TRY_NEW(c->scratch, c->kernels, c->t->loaded->phases.count + 1);
    for (uint32_t n = 0; n < c->t->loaded->phases.count; n++) {
        const plan_phase *phase = &c->t->loaded->phases.items[n];
        if (phase->kind == PHASE_KERNEL && is_plain_kernel(phase))
            TRY(list_tiles(c, phase->kernel, &c->kernels[n]));
    }
    return NULL;
}

// --- What is touched

static spyre_status add_argument(void *context, const isa_instruction *i, uint32_t o,
                                 byte_range bytes)
{
    range_add(&((byte_range *)context)[i->operand[o].arg], bytes);
    return NULL;
}

static spyre_status list_arguments(composer *c)
{
    const uint32_t count = c->t->program->arg_count;
    TRY_NEW(c->scratch, c->arguments, count + 1);
    for (uint32_t a = 0; a < count; a++) c->arguments[a] = RANGE_NONE;
    for (uint32_t n = 0; n < c->t->loaded->phases.count; n++) {
        const plan_kernel *kernel = c->t->loaded->phases.items[n].kernel;
        if (kernel) TRY(compose_each_in_memory(c->t, kernel, add_argument, c->arguments));
    }
    for (uint32_t a = 0; a < count; a++) {
        if (c->arguments[a].low > c->arguments[a].high) c->arguments[a] = (byte_range){0, 0};
        c->arguments[a].low -= c->arguments[a].low % CONTENTS_UNIT_BYTES;
    }
    return NULL;
}

// LX as far as it is used, and temporary arguments that are not too long.
static void choose_followed(composer *c)
{
    for (uint32_t n = 0; n < c->t->lx.count; n++)
        for (uint32_t m = 0; m < c->t->accesses[n].count; m++) {
            const byte_range r = lx_over_loops(&c->t->accesses[n].items[m], 0);
            if (r.high > c->lx_bytes && r.high <= ISA_LX_BYTES) c->lx_bytes = (uint32_t)r.high;
        }
    for (uint16_t a = 0; a < c->t->program->arg_count; a++)
        if (temporary_has(&c->t->temporary, a) &&
            c->arguments[a].high - c->arguments[a].low <= MOST_TEMPORARY_BYTES)
            c->temporary |= 1u << a;
}

static spyre_status note_store(void *context, const isa_instruction *i, uint32_t o,
                               byte_range bytes)
{
    if (!isa_writes(i->opcode, o)) return NULL;
    return contents_replace(context, ISA_SPACE_MEMORY, i->operand[o].arg, bytes);
}

// The same of arguments that are not followed: copies to others are, tile by tile.
static spyre_status note_store_elsewhere(void *context, const isa_instruction *i, uint32_t o,
                                         byte_range bytes)
{
    const contents *held = context;
    const isa_operand *operand = &i->operand[o];
    if (content_map_of(held->map, held->map_count, ISA_SPACE_MEMORY, operand->arg)) return NULL;
    return note_store(context, i, o, bytes);
}

// --- Reading elsewhere

static bool may_compose(const isa_instruction *i, uint32_t o)
{
    const isa_operand *operand = &i->operand[o];
    if ((i->opcode != ISA_VECTOR && i->opcode != ISA_STORE && i->opcode != ISA_LOAD) || o == 0 ||
        operand->space == ISA_SPACE_NUMBER ||
        spyre_format_bytes(operand->format) % CONTENTS_UNIT_BYTES)
        return false;
    for (uint32_t d = 0; d < i->dim_count; d++)
        if (operand->stride[d] % CONTENTS_UNIT_BYTES) return false;
    return true;
}

static bool is_apart(const composed_kernel *k, const isa_instruction *i, uint32_t o)
{
    const isa_operand *result = &i->operand[0], *input = &i->operand[o];
    if (result->space != input->space) return true;
    if (result->space == ISA_SPACE_MEMORY && result->arg != input->arg) return true;
    return !ranges_overlap(compose_range(k, i, 0), compose_range(k, i, o));
}

// The kernel's slot of what a source adds for each core; false where there are too many.
static spyre_status find_slot(composer *c, composed_kernel *k, const content_source *s,
                              uint16_t *out, bool *out_found)
{
    static const int64_t none[ISA_CORES];
    *out_found = true;
    *out = ISA_NO_SLOT;
    if (s->space == ISA_SPACE_LX || memcmp(s->shift, none, sizeof none) == 0) return NULL;
    uint32_t n = 0;
    while (n < k->slots.count && memcmp(k->slots.items[n], s->shift, sizeof s->shift) != 0) n++;
    *out = (uint16_t)(k->kernel->source->slot_count + n);
    *out_found = n < MOST_SLOTS;
    if (n < k->slots.count || !*out_found) return NULL;
    int64_t *row;
    TRY_NEW(c->memory, row, ISA_CORES);
    memcpy(row, s->shift, sizeof s->shift);
    return VEC_PUSH(c->memory, &k->slots, row);
}

static spyre_status read_elsewhere(composer *c, composed_kernel *k, uint32_t o,
                                   composed_piece *p, bool *out_done)
{
    isa_operand *operand = &p->piece.operand[o];
    uint16_t slot;
    TRY(find_slot(c, k, p->source, &slot, out_done));
    if (!*out_done) return NULL;
    operand->space = p->source->space;
    operand->arg = p->source->arg;
    operand->slot = slot;
    operand->offset = p->low;
    memcpy(operand->stride, p->stride, sizeof operand->stride);
    *out_done = is_apart(k, &p->piece, o);
    return NULL;
}

// Pieces of an instruction, whose operands before `o` are done, in order.
static spyre_status compose_from(composer *c, const contents *held, composed_kernel *k,
                                 composed_tile *tile, isa_instruction rest, uint32_t o,
                                 bool *out_composed)
{
    plan_tile *made;
    if (o == rest.operand_count) {
        TRY(plan_copy_tile(c->memory, &rest, &made));
        return VEC_PUSH(c->scratch, &tile->instead, made);
    }
    const bool may = may_compose(&rest, o) && is_apart(k, &rest, o);
    while (may && tile->instead.count < MOST_PIECES) {
        composed_piece p;
        bool done = compose_operand(held, k->kernel->source, &rest, o, &p);
        if (done) TRY(read_elsewhere(c, k, o, &p, &done));
        if (!done) break;
        if (p.source->space == ISA_SPACE_LX && p.source->behind < tile->behind)
            tile->behind = p.source->behind;
        *out_composed = true;
        TRY(compose_from(c, held, k, tile, p.piece, o + 1, out_composed));
        if (!p.has_rest) return NULL;
        rest = p.rest;
    }
    return compose_from(c, held, k, tile, rest, o + 1, out_composed);
}

static spyre_status compose_tile(composer *c, const contents *held, composed_kernel *k,
                                 composed_tile *tile)
{
    bool composed = false;
    if (held->full) return NULL;
    TRY(compose_from(c, held, k, tile, compose_merge_dims(tile->tile), 1, &composed));
    if (!composed) tile->instead.count = 0;
    for (uint32_t n = 0; n < tile->instead.count; n++)
        tile->instead_ns += compose_ns(tile->instead.items[n]);
    return NULL;
}

// --- Forwards: what LX holds

// Copies to memory are followed where one core makes them; of several, each writes other bytes.
static spyre_status follow_tile(const composed_kernel *k, const plan_tile *tile, contents *held)
{
    const isa_instruction *i = tile->instruction;
    const bool alone = __builtin_popcount(k->kernel->source->active_cores) == 1;
    if (contents_is_copy(i) && (i->operand[0].space == ISA_SPACE_LX || alone))
        return contents_copy(held, k->kernel->source, tile);
    for (uint32_t o = 0; o < i->operand_count; o++)
        if (isa_writes(i->opcode, o))
            TRY(contents_replace(held, i->operand[o].space, i->operand[o].arg,
                                 compose_range(k, i, o)));
    return NULL;
}

static spyre_status follow_code(const translation *t, const plan_kernel *kernel, contents *held)
{
    const lx_access_list *accesses = &t->accesses[kernel->order];
    TRY(compose_each_in_memory(t, kernel, note_store, held));
    for (uint32_t n = 0; n < accesses->count && (kernel->source->active_cores & held->cores); n++)
        if (accesses->items[n].writes)
            TRY(contents_replace(held, ISA_SPACE_LX, 0,
                                 lx_over_loops(&accesses->items[n], 0)));
    return NULL;
}

static spyre_status follow_kernel(composer *c, const plan_phase *phase, composed_kernel *k,
                                  contents *held)
{
    const plan_kernel *kernel = phase->kernel;
    held->behind = kernel->order + 1;
    if (!plan_is_plain(phase)) return contents_forget(held);
    const uint32_t cores = kernel->source->active_cores;
    if (!k->kernel || held->cores & ~cores) return follow_code(c->t, kernel, held);
    TRY(compose_each_in_memory(c->t, kernel, note_store_elsewhere, held));
    for (uint32_t n = 0; n < k->tiles.count; n++) {
        if (cores == held->cores) TRY(compose_tile(c, held, k, &k->tiles.items[n]));
        TRY(follow_tile(k, k->tiles.items[n].tile, held));
    }
    return NULL;
}

// What one core writes to memory another may read: memory is followed where there is one core.
static spyre_status follow(composer *c, uint32_t cores)
{
    contents held;
    const bool one = (cores & (cores - 1)) == 0;
    TRY(contents_begin(c->scratch, cores, c->lx_bytes, c->arguments, one ? c->temporary : 0,
                       &held));
    for (uint32_t n = 0; n < c->t->loaded->phases.count; n++)
        TRY(follow_kernel(c, &c->t->loaded->phases.items[n], &c->kernels[n], &held));
    return NULL;
}

// For each set of cores that runs a kernel of tiles.
static spyre_status follow_all(composer *c)
{
    uint32_t sets[MOST_CORE_SETS], count = 0;
    for (uint32_t n = 0; n < c->t->loaded->phases.count; n++) {
        uint32_t known = 0;
        if (!c->kernels[n].kernel) continue;
        const uint32_t cores = c->kernels[n].kernel->source->active_cores;
        while (known < count && sets[known] != cores) known++;
        if (known < count || count == MOST_CORE_SETS) continue;
        sets[count++] = cores;
        TRY(follow(c, cores));
    }
    return NULL;
}

static bool has_loops(const card_program *p)
{
    for (uint32_t n = 0; n < p->phases.count; n++)
        if (p->phases.items[n].kind != PHASE_KERNEL) return true;
    return false;
}

spyre_status card_pass_compose_copies(translation *t)
{
    composer c = {.t = t, .memory = t->memory, .scratch = t->scratch};
    bool any;
    // Loops name their first phase by number.
    if (has_loops(t->loaded)) return NULL;
    TRY(list_kernels(&c));
    if (!is_worth_it(&c)) return NULL;
    TRY(list_arguments(&c));
    choose_followed(&c);
    TRY(follow_all(&c));
    TRY(compose_choose(&c, &any));
    return any ? compose_write_phases(&c, t) : NULL;
}
