// SPDX-License-Identifier: Apache-2.0
//
// A kernel's tiles for all its cores at once: the core is a loop around them like any other, whose
// iterations lie ISA_LX_BYTES apart in LX and as parameters say in memory. Cores that divide
// several dims make several loops:
//
//     cores 0..31: exp [768, 64]: lx+0 <- arg0+slot0+0     slot0: 8 batches of 4 quarters
//     joined: loop 8, loop 4: exp [768, 64]: lx+0 <- arg0+0
//
// So kernels that divide the same elements differently are rows of the same places, between which
// messages are a map (message_map.c) and barriers nothing.
#include "card/row_fusion/cores/joined_cores.h"

#include <string.h>

enum { MOST_SLOTS = 15, WIDTH = 1 + MOST_SLOTS, MOST_LEVELS = 5 };
_Static_assert(ISA_CORES <= 1 << MOST_LEVELS, "loops over two cores at least");

// Where cores have LX, and then what lies at a parameter.
typedef struct {
    uint32_t cores, slots;
    uint16_t slot[MOST_SLOTS];
    int64_t of[ISA_CORES][WIDTH];
    uint32_t levels;
    uint32_t iterations[MOST_LEVELS];       // of the loops that cores are, innermost first
} core_places;

// Where a slot is among those of the places; beyond them all when there is no room.
static uint32_t find_slot(core_places *p, uint16_t slot)
{
    uint32_t n = 0;
    while (n < p->slots && p->slot[n] != slot) n++;
    if (n == p->slots && n < MOST_SLOTS) p->slot[p->slots++] = slot;
    return n;
}

static bool list_slots(const rows_tiles *tiles, uint32_t first, core_places *p)
{
    for (uint32_t n = first; n < tiles->count; n++) {
        const isa_instruction *i = tiles->items[n].tile->instruction;
        for (uint32_t o = 0; o < i->operand_count; o++) {
            const isa_operand *operand = &i->operand[o];
            if (operand->space == ISA_SPACE_LX || operand->slot == ISA_NO_SLOT) continue;
            if (find_slot(p, operand->slot) == MOST_SLOTS) return false;
        }
    }
    return true;
}

static void find_places(const isa_kernel *kernel, core_places *p)
{
    for (uint32_t left = kernel->active_cores; left; left &= left - 1) {
        const uint32_t core = (uint32_t)__builtin_ctz(left);
        int64_t *of = p->of[p->cores++];
        of[0] = (int64_t)core * ISA_LX_BYTES;
        for (uint32_t n = 0; n < p->slots; n++)
            of[1 + n] = isa_parameter(kernel, core, p->slot[n]);
    }
}

// Cores as loops; false where they do not lie at equal distances.
static bool find_levels(core_places *p)
{
    for (uint32_t block = 1, blocks; block < p->cores; block *= blocks) {
        blocks = points_count_blocks(p->cores, WIDTH, p->of[0], block);
        if (blocks < 2) return false;
        p->iterations[p->levels++] = blocks;
    }
    return true;
}

// Which number of the places an operand moves with; WIDTH: with none.
static uint32_t moves_with(core_places *p, const isa_operand *operand)
{
    if (operand->space == ISA_SPACE_LX) return 0;
    return operand->slot == ISA_NO_SLOT ? WIDTH : 1 + find_slot(p, operand->slot);
}

static void add_loop(core_places *p, uint32_t block, uint32_t blocks, isa_instruction *i,
                     rows_tile *t)
{
    const size_t depth = t->loops.depth++;
    memmove(t->loops.loop_id + 1, t->loops.loop_id, depth * sizeof *t->loops.loop_id);
    memmove(t->loops.iterations + 1, t->loops.iterations, depth * sizeof *t->loops.iterations);
    t->loops.loop_id[0] = UINT32_MAX - t->cores++;
    t->loops.iterations[0] = blocks;
    for (uint32_t o = 0; o < i->operand_count; o++) {
        isa_operand *operand = &i->operand[o];
        const uint32_t with = moves_with(p, operand);
        memmove(operand->loop_stride + 1, operand->loop_stride,
                depth * sizeof *operand->loop_stride);
        operand->loop_stride[0] = with == WIDTH ? 0 : p->of[block][with] - p->of[0][with];
    }
}

static void move_to_first_core(core_places *p, isa_instruction *i)
{
    for (uint32_t o = 0; o < i->operand_count; o++) {
        isa_operand *operand = &i->operand[o];
        const uint32_t with = moves_with(p, operand);
        if (with != WIDTH) operand->offset += p->of[0][with];
        if (operand->space == ISA_SPACE_MEMORY) operand->slot = ISA_NO_SLOT;
    }
}

static spyre_status join_tile(core_places *p, arena *scratch, rows_tile *t)
{
    isa_instruction i = isa_copy(t->tile->instruction);
    t->joined = true;
    for (uint32_t n = 0, block = 1; n < p->levels; block *= p->iterations[n++])
        add_loop(p, block, p->iterations[n], &i, t);
    move_to_first_core(p, &i);
    return rows_set_tile(scratch, &i, t);
}

spyre_status rows_join_cores(const isa_kernel *kernel, arena *scratch, uint32_t first,
                             rows_tiles *tiles, bool *out_good)
{
    core_places p = {0};
    *out_good = list_slots(tiles, first, &p);
    find_places(kernel, &p);
    *out_good = *out_good && find_levels(&p);
    for (uint32_t n = first; n < tiles->count && *out_good; n++) {
        *out_good = tiles->items[n].loops.depth + p.levels <= ISA_MAX_LOOPS;
        if (*out_good) TRY(join_tile(&p, scratch, &tiles->items[n]));
    }
    return NULL;
}
