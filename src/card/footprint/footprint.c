// SPDX-License-Identifier: Apache-2.0
#include "card/footprint/footprint.h"

#include <string.h>

// Beyond this a footprint is taken to overlap everything.
#define FARTHEST (1LL << 56)
enum { MOST_STEPS = 256 };                  // of one comparison

__extension__ typedef __int128 wide;

// --- Footprints

static void set_spans(footprint *f)
{
    const byte_set *l = &f->levels;
    f->span[0] = l->bytes;
    for (uint32_t n = 0; n < l->count; n++)
        f->span[n + 1] = f->span[n] + l->stride[n] * (l->extent[n] - 1);
}

static bool names_rows(const plan_tile *tile, uint32_t operand)
{
    return operand == isa_row_operand(tile->instruction->opcode);
}

// Which rows an index names is not known: any that there are.
static void add_rows(const isa_instruction *i, byte_set *l)
{
    const int64_t rows = i->row_count, lanes = i->row_lanes;
    if (lanes == 0) {
        byte_set_add(l, i->row_stride, rows);
        return;
    }
    byte_set_add(l, isa_row_offset(i, 1), rows < lanes ? rows : lanes);
    byte_set_add(l, i->row_stride, (rows - 1) / lanes + 1);
}

static bool too_far(const isa_operand *o, const plan_tile *tile, uint32_t operand,
                    const loop_nest *place)
{
    wide reach = (wide)tile->span[operand].high - tile->span[operand].low;
    for (uint32_t n = 0; n < place->depth; n++) {
        wide stride = o->loop_stride[n];
        reach += (stride < 0 ? -stride : stride) * place->iterations[n];
    }
    if (names_rows(tile, operand)) {
        wide stride = tile->instruction->row_stride;
        reach += (stride < 0 ? -stride : stride) * tile->instruction->row_count;
    }
    return reach > FARTHEST || o->offset > FARTHEST || o->offset < -FARTHEST;
}

static void set_bases(const isa_kernel *kernel, const isa_operand *o, footprint *f)
{
    for (uint32_t c = 0; c < ISA_CORES; c++) {
        f->base[c] = o->offset + f->levels.low + isa_parameter(kernel, c, o->slot) % FARTHEST;
    }
}

static void set_range(footprint *f)
{
    f->all = RANGE_NONE;
    for (uint32_t c = 0; c < ISA_CORES; c++)
        if (f->cores >> c & 1u)
            range_add(&f->all, (byte_range){f->base[c], f->base[c] + f->span[f->levels.count]});
}

static footprint footprint_of(const plan_tile *tile, uint32_t operand,
                              const isa_kernel *kernel, const loop_nest *place)
{
    const isa_operand *o = &tile->instruction->operand[operand];
    footprint f = {.arg = o->arg, .stores = operand == 0, .cores = kernel->active_cores};
    f.levels.bytes = spyre_format_bytes(o->format);
    if (too_far(o, tile, operand, place)) {
        f.levels.bytes = 2 * FARTHEST;
        for (uint32_t c = 0; c < ISA_CORES; c++) f.base[c] = -FARTHEST;
    } else {
        for (uint32_t d = 0; d < tile->dim_count; d++)
            byte_set_add(&f.levels, tile->stride[operand][d], tile->extent[d]);
        for (uint32_t n = 0; n < place->depth; n++)
            byte_set_add(&f.levels, o->loop_stride[n], place->iterations[n]);
        if (names_rows(tile, operand)) add_rows(tile->instruction, &f.levels);
        set_bases(kernel, o, &f);
        byte_set_merge(&f.levels);
    }
    set_spans(&f);
    set_range(&f);
    return f;
}

spyre_status footprint_collect(arena *memory, const isa_program *program,
                               plan_tile *const *tiles, const plan_kernel *kernel,
                               footprint_list *out)
{
    loop_nest place = {0};
    for (uint32_t at = kernel->begin; at < kernel->end; at++) {
        const isa_instruction *i = program->code.items[at];
        loop_nest_follow(&place, i, at);
        if (!tiles[at]) continue;
        for (uint32_t o = 0; o < i->operand_count; o++) {
            if (i->operand[o].space != ISA_SPACE_MEMORY) continue;
            footprint f = footprint_of(tiles[at], o, kernel->source, &place);
            TRY(VEC_PUSH(memory, out, f));
        }
    }
    return NULL;
}

spyre_status footprint_collect_steps(arena *memory, const plan_kernel *kernel,
                                     footprint_list *out)
{
    loop_nest place = {0};
    for (const plan_step *s = kernel->steps[ISA_QUEUE_SEQ]; s->kind != STEP_END; s++) {
        loop_nest_step(&place, s);
        for (uint32_t o = 0; s->tile && o < s->tile->instruction->operand_count; o++) {
            if (s->tile->instruction->operand[o].space != ISA_SPACE_MEMORY) continue;
            footprint f = footprint_of(s->tile, o, kernel->source, &place);
            TRY(VEC_PUSH(memory, out, f));
        }
    }
    return NULL;
}

// --- Ranges

static int64_t cut(wide value)
{
    const wide farthest = (wide)1 << 60;
    if (value < -farthest) return (int64_t)-farthest;
    return (int64_t)(value > farthest ? farthest : value);
}

static void widen(wide *low, wide *high, wide reach)
{
    if (reach < 0) *low += reach;
    else *high += reach;
}

// What parameters add, over the cores that run the kernel.
static byte_range parameter_range(const isa_kernel *kernel, uint16_t slot)
{
    byte_range r = RANGE_NONE;
    for (uint32_t core = 0; core < ISA_CORES && slot != ISA_NO_SLOT; core++) {
        if (!isa_is_active(kernel, core)) continue;
        int64_t value = isa_parameter(kernel, core, slot);
        range_add(&r, (byte_range){value, value});
    }
    return r.low <= r.high ? r : (byte_range){0, 0};
}

byte_range footprint_range(const isa_kernel *kernel, const isa_instruction *i, uint32_t operand,
                           const loop_nest *place)
{
    const isa_operand *o = &i->operand[operand];
    const byte_range span = plan_span(i, operand), added = parameter_range(kernel, o->slot);
    wide low = (wide)o->offset + span.low + added.low;
    wide high = (wide)o->offset + span.high + added.high;
    for (uint32_t n = 0; n < place->depth; n++)
        widen(&low, &high, (wide)o->loop_stride[n] * ((wide)place->iterations[n] - 1));
    if (operand == isa_row_operand(i->opcode))
        widen(&low, &high, isa_row_offset(i, i->row_count - 1));
    return (byte_range){cut(low), cut(high)};
}

// --- Comparing

typedef struct {
    const footprint *a, *b;
    uint32_t steps;
} comparison;

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

// True when the lower la levels of a overlap the lower lb of b, which begin `apart` bytes behind.
static bool overlap(comparison *c, uint32_t la, uint32_t lb, int64_t apart)
{
    int64_t span_a = c->a->span[la], span_b = c->b->span[lb];
    if (apart >= span_a || -apart >= span_b) return false;
    if ((la == 0 && lb == 0) || ++c->steps > MOST_STEPS) return true;
    const byte_set *a = &c->a->levels, *b = &c->b->levels;
    int64_t stride_a = la ? a->stride[la - 1] : 0, stride_b = lb ? b->stride[lb - 1] : 0;
    int64_t stride = stride_a > stride_b ? stride_a : stride_b;
    int64_t least = 0, most = 0;
    if (stride_a == stride) least = -(a->extent[--la] - 1);
    if (stride_b == stride) most = b->extent[--lb] - 1;
    // Only these differences of indices bring the lower levels near each other.
    int64_t first = floor_div(-c->b->span[lb] - apart, stride) + 1;
    int64_t last = floor_div(c->a->span[la] - 1 - apart, stride);
    if (first < least) first = least;
    if (last > most) last = most;
    for (int64_t n = first; n <= last; n++)
        if (overlap(c, la, lb, apart + n * stride)) return true;
    return false;
}

bool footprint_conflict(const footprint *a, const footprint *b)
{
    if (a->arg != b->arg || !(a->stores || b->stores)) return false;
    if (!ranges_overlap(a->all, b->all)) return false;
    for (uint32_t x = 0; x < ISA_CORES; x++) {
        if (!(a->cores >> x & 1u)) continue;
        for (uint32_t y = 0; y < ISA_CORES; y++) {
            if (x == y || !(b->cores >> y & 1u)) continue;
            comparison c = {.a = a, .b = b};
            if (overlap(&c, a->levels.count, b->levels.count, b->base[y] - a->base[x])) return true;
        }
    }
    return false;
}

bool footprint_arguments_apart(const card_program *program, const card_argument *arguments)
{
    uint32_t count = program->program->arg_count;
    for (uint32_t s = 0; s < program->stored.count; s++) {
        const card_argument *a = &arguments[program->stored.items[s]];
        for (uint32_t k = 0; k < count; k++) {
            const card_argument *b = &arguments[k];
            if (a != b && a->base < b->base + b->limit && b->base < a->base + a->limit)
                return false;
        }
    }
    return true;
}
