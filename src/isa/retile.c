// SPDX-License-Identifier: Apache-2.0
//
// An access is a sum of steps. A step by whole tiles becomes one by as many pitches; the others
// stay, as long as together they do not leave the tile that the base is in. A dim of a tile of LX
// that goes through several tiles of the argument becomes two:
//
//   load [512]                        load [4, 128]                tiles of 256 bytes,
//       lx+0      [2]                     lx+0      [256, 2]       1024 apart
//       arg0+0    [2]                     arg0+0    [1024, 2]
#include "isa/retile.h"

#include "isa/dims.h"
#include "isa/corrections.h"

typedef struct {
    const isa_program *program;
    const isa_tiling *tilings;
    isa_program *out;
    int64_t **parameters;               // of out, by kernel
    uint32_t kernel, depth;
    uint32_t loop_count[ISA_MAX_LOOPS];
    const isa_tiling **of_slot;         // of the kernel, or null
} retiling;

static int64_t tile_of(const isa_tiling *t, int64_t byte)
{
    return byte / t->tile_bytes - (byte % t->tile_bytes < 0);
}

static int64_t place_in_tile(const isa_tiling *t, int64_t byte)
{
    return byte - tile_of(t, byte) * t->tile_bytes;
}

static int64_t moved(const isa_tiling *t, int64_t byte)
{
    return tile_of(t, byte) * t->pitch_bytes + place_in_tile(t, byte);
}

// --- Dims that go through several tiles

static bool leaves_tile(const isa_tiling *t, int64_t stride, uint32_t extent)
{
    return extent > 1 && stride > 0 && stride < t->tile_bytes &&
           extent > t->tile_bytes / stride;
}

static void split_dims(isa_instruction *i, uint32_t o, const isa_tiling *t)
{
    for (uint32_t d = 0; d < i->dim_count && i->dim_count < ISA_MAX_DIMS; d++) {
        int64_t stride = i->operand[o].stride[d];
        if (!leaves_tile(t, stride, i->extent[d]) || t->tile_bytes % stride) continue;
        int64_t inner = t->tile_bytes / stride;
        if (i->extent[d] % inner == 0) isa_split_dim(i, d, (uint32_t)inner);
    }
}

// --- Steps

typedef struct {
    int64_t low, high;                  // of the steps inside of tiles, from the base
} span_in_tile;

static void retile_step(const isa_tiling *t, uint32_t count, int64_t *stride, span_in_tile *span)
{
    if (count <= 1) return;
    if (*stride % t->tile_bytes == 0) {
        *stride = *stride / t->tile_bytes * t->pitch_bytes;
        return;
    }
    int64_t reach = *stride * (count - 1);
    if (reach < 0) span->low += reach;
    else span->high += reach;
}

static span_in_tile retile_steps(const retiling *r, const isa_tiling *t, const isa_instruction *i,
                                 isa_operand *operand)
{
    span_in_tile span = {0, spyre_format_bytes(operand->format)};
    for (uint32_t n = 0; n < r->depth; n++)
        retile_step(t, r->loop_count[n], &operand->loop_stride[n], &span);
    for (uint32_t d = 0; d < i->dim_count; d++)
        retile_step(t, i->extent[d], &operand->stride[d], &span);
    return span;
}

// --- Bases

static spyre_status refuse(const retiling *r, uint32_t at, uint32_t o, const char *why)
{
    const isa_instruction *i = r->program->code.items[at];
    return status_new(SPYRE_UNSUPPORTED, "kernel %s: instruction %u (%s), operand %u, argument %u: "
                      "%s", r->program->kernels.items[r->kernel].name, at,
                      isa_describe(i->opcode)->mnemonic, o, i->operand[o].arg, why);
}

static bool same_tiling(const isa_tiling *a, const isa_tiling *b)
{
    return a->tile_bytes == b->tile_bytes && a->pitch_bytes == b->pitch_bytes;
}

// Moves the parameters of a slot, once.
static bool retile_slot(retiling *r, uint16_t slot, const isa_tiling *t)
{
    const isa_kernel *kernel = &r->program->kernels.items[r->kernel];
    const isa_tiling **known = &r->of_slot[slot];
    if (*known) return same_tiling(*known, t);
    *known = t;
    for (uint32_t core = 0; t->tile_bytes && core < ISA_CORES; core++) {
        uint32_t number = core * kernel->slot_count + slot;
        r->parameters[r->kernel][number] = moved(t, kernel->parameters[number]);
    }
    return true;
}

static spyre_status retile_base(const retiling *r, uint32_t at, uint32_t o, const isa_tiling *t,
                                const span_in_tile *span, isa_operand *operand)
{
    const isa_kernel *kernel = &r->program->kernels.items[r->kernel];
    int64_t offset = operand->offset;
    bool first = true;
    for (uint32_t core = 0; core < ISA_CORES; core++) {
        if (!isa_is_active(kernel, core)) continue;
        int64_t parameter = isa_parameter(kernel, core, operand->slot);
        int64_t inside = place_in_tile(t, parameter + offset);
        int64_t own = moved(t, parameter + offset) - moved(t, parameter);
        if (inside + span->low < 0 || inside + span->high > t->tile_bytes)
            return refuse(r, at, o, "it goes from one tile into the next");
        if (!first && own != operand->offset)
            return refuse(r, at, o, "cores begin at other places of their tiles");
        operand->offset = own;
        first = false;
    }
    return NULL;
}

static spyre_status retile_operand(retiling *r, uint32_t at, uint32_t o, isa_instruction *i)
{
    const isa_tiling *t = &r->tilings[i->operand[o].arg];
    uint16_t slot = i->operand[o].slot;
    if (slot != ISA_NO_SLOT && !retile_slot(r, slot, t))
        return refuse(r, at, o, "its slot is another argument's, too");
    if (!t->tile_bytes) return NULL;
    if (isa_row_operand(i->opcode) == o) return refuse(r, at, o, "its rows are chosen by data");
    split_dims(i, o, t);
    span_in_tile span = retile_steps(r, t, i, &i->operand[o]);
    return retile_base(r, at, o, t, &span, &i->operand[o]);
}

static spyre_status enter_kernel(retiling *r, uint32_t kernel)
{
    r->kernel = kernel;
    TRY_NEW(r->out->memory, r->of_slot, r->out->kernels.items[kernel].slot_count);
    return NULL;
}

static spyre_status retile_instruction(retiling *r, uint32_t at)
{
    isa_instruction i = isa_copy(r->program->code.items[at]);
    if (i.opcode == ISA_LOOP) r->loop_count[r->depth++] = i.count;
    if (i.opcode == ISA_END_LOOP) r->depth--;
    if (i.opcode == ISA_KERNEL) TRY(enter_kernel(r, i.count));
    for (uint32_t o = 0; o < i.operand_count; o++)
        if (i.operand[o].space == ISA_SPACE_MEMORY) TRY(retile_operand(r, at, o, &i));
    return isa_append(r->out, &i);
}

static spyre_status retile_sizes(const retiling *r)
{
    int64_t *sizes = ARENA_NEW(r->out->memory, int64_t, r->program->arg_count);
    TRY_ALLOC(sizes);
    for (uint32_t a = 0; a < r->program->arg_count; a++) {
        const isa_tiling *t = &r->tilings[a];
        sizes[a] = r->program->arg_bytes ? r->program->arg_bytes[a] : 0;
        if (sizes[a] && t->tile_bytes) sizes[a] = moved(t, sizes[a] - 1) + 1;
    }
    r->out->arg_count = r->program->arg_count;
    r->out->arg_bytes = sizes;
    return NULL;
}

spyre_status isa_retile(arena *memory, const isa_program *program, const isa_tiling *tilings,
                        isa_program **out_program)
{
    assert(program->corrections.count == 0);
    retiling r = {.program = program, .tilings = tilings, .out = isa_program_create(memory)};
    TRY_ALLOC(r.out);
    TRY(isa_copy_kernels(program, r.out, &r.parameters));
    TRY(retile_sizes(&r));
    TRY(VEC_ROOM(memory, &r.out->code, program->code.count ? program->code.count : 1));
    for (uint32_t n = 0; n < program->code.count; n++) TRY(retile_instruction(&r, n));
    *out_program = r.out;
    return isa_verify(r.out);
}
