// SPDX-License-Identifier: Apache-2.0
//
// Which kernels become a row fusion: from each kernel on as many as are fusible
// (row_fusion/conditions), at first those of all cores at once, across barriers and messages, then
// those of each core by itself.
#include <string.h>

#include "card/plan/pass.h"
#include "card/row_fusion/conditions/dependences.h"
#include "card/row_fusion/conditions/fusible_tiles.h"
#include "card/row_fusion/conditions/later_readers.h"
#include "card/row_fusion/program/live_out.h"

enum { MOST_FAILURES = 64 };                // that are remembered

typedef struct {
    rows_window *window;
    row_fusion made;                        // the last one that was tried,
    rows_builder builder;                   // by this
    rows_value values[ROWS_MOST_STEPS];
} fusion_search;

static bool is_private(const row_fusion *c, const rows_tile *t)
{
    for (uint32_t n = 0; n < c->items.count; n++)
        if (c->items.items[n].made_of == t) return c->items.items[n].operand[0].place.own;
    return false;
}

// What a later kernel made in the place of the tile's result is not its value.
static bool is_value_of(const rows_builder *b, uint32_t value, const rows_tile *t)
{
    const rows_place *place = &b->values[value].place;
    return place->kernel == t->kernel && rows_same_place(b->first, place, &t->operand[0].place);
}

// True when no result that must stay inside is stored to LX.
static bool keeps_inside(const rows_builder *b, const rows_live *live)
{
    for (uint32_t n = 0; n < b->tiles->count; n++) {
        const rows_tile *t = &b->tiles->items[n];
        if (!t->stays_inside) continue;
        if (t->role == ROWS_BY_ROW && !is_private(b->c, t)) return false;
        for (uint32_t v = 0; v < b->value_count && t->role == ROWS_STREAMS; v++)
            if (live->value[v] && is_value_of(b, v, t)) return false;
    }
    return true;
}

static void begin_rows(fusion_search *s, uint32_t kernels, const rows_tiles *tiles,
                       const rows_shape *shape)
{
    const rows_window *w = s->window;
    row_fusion *c = &s->made;
    *c = (row_fusion){.kernels = kernels, .loops = tiles->items[0].outer, .rows = shape->rows,
                      .sticks = shape->sticks, .half = rows_are_half(w, tiles),
                      .joined = w->joined, .steps = c->steps,
                      .items = c->items};
    memcpy(c->iterations, tiles->items[0].loops.iterations, sizeof c->iterations);
    c->steps.count = c->items.count = 0;
    s->builder = (rows_builder){.memory = w->memory, .scratch = w->scratch, .tiles = tiles,
                                .first = w->phases + w->first, .c = c, .values = s->values};
}

// What was made, with lists of its own.
static spyre_status keep_rows(const fusion_search *s, const row_fusion **out_rows)
{
    arena *memory = s->window->memory;
    row_fusion *c = ARENA_NEW(memory, row_fusion, 1);
    TRY_ALLOC(c);
    *c = s->made;
    TRY(VEC_ROOM(memory, &c->steps, c->steps.count));
    TRY(VEC_ROOM(memory, &c->items, c->items.count));
    memcpy(c->steps.items, s->made.steps.items, c->steps.count * sizeof *c->steps.items);
    memcpy(c->items.items, s->made.items.items, c->items.count * sizeof *c->items.items);
    *out_rows = c;
    return NULL;
}

static spyre_status make_rows(fusion_search *s, uint32_t kernels, const rows_tiles *tiles,
                              const rows_shape *shape, const row_fusion **out_rows)
{
    rows_live live;
    rows_builder *b = &s->builder;
    begin_rows(s, kernels, tiles, shape);
    TRY(rows_compose_program(b));
    if (!b->fits) return NULL;
    rows_find_live_out(s->window, s->window->first + kernels - 1, b, &live);
    rows_merge_programs(b, live.value);
    rows_drop_dead_steps(b, live.value);
    rows_move_to_scratch(b, live.tile);
    TRY(rows_hoist_loads(b));
    b->c->divisible = rows_divides(b->c);
    TRY(rows_make_blocks(b));
    return b->fits && keeps_inside(b, &live) ? keep_rows(s, out_rows) : NULL;
}

// The kernel of the first reduction, which says what shapes there are; UINT32_MAX without one.
static uint32_t find_reduction(const rows_tiles *tiles)
{
    for (uint32_t n = 0; n < tiles->count; n++) {
        const isa_opcode opcode = tiles->items[n].tile->instruction->opcode;
        if (isa_reduces(opcode)) return tiles->items[n].kernel;
    }
    return UINT32_MAX;
}

// Shapes that a tile did not have, and of which kernel it is. As long as the first kernel is the
// same they need not be tried with it again.
typedef struct {
    uint32_t count;
    struct {
        rows_shape shape;
        uint32_t kernel;
    } items[MOST_FAILURES];
} failures;

// The kernel at which the shape failed; UINT32_MAX for one that is to be tried.
static uint32_t failed_at(const failures *f, const rows_shape *shape, uint32_t kernels)
{
    for (uint32_t n = 0; n < f->count; n++)
        if (f->items[n].kernel < kernels &&
            memcmp(&f->items[n].shape, shape, sizeof *shape) == 0) return f->items[n].kernel;
    return UINT32_MAX;
}

// One that fewer kernels may not have is remembered.
static void note_failure(failures *f, const rows_shape *shape, const rows_failure *why)
{
    if (why->fewer > why->kernel || why->kernel == UINT32_MAX || f->count == MOST_FAILURES) return;
    f->items[f->count].shape = *shape;
    f->items[f->count++].kernel = why->kernel;
}

// The kernels that `tiles` are of; *out_fewer is how many of them may still be fusible.
static spyre_status try_rows(fusion_search *s, uint32_t kernels, rows_tiles *tiles,
                             failures *failed, const row_fusion **out_rows, uint32_t *out_fewer)
{
    const rows_window *w = s->window;
    rows_shapes shapes;
    const uint32_t reduction = find_reduction(tiles);
    rows_list_candidates(tiles, &shapes);
    uint32_t fewer = reduction;
    for (uint32_t n = 0; n < shapes.count * ROWS_EVENNESSES && !*out_rows; n++) {
        rows_shape shape = shapes.items[n % shapes.count];
        shape.evenness = (rows_evenness)(n / shapes.count);
        const uint32_t at = failed_at(failed, &shape, kernels);
        rows_failure why = {at, at};
        if (at == UINT32_MAX) {
            if (!rows_are_fusible(w, &shape, tiles, &why)) note_failure(failed, &shape, &why);
            else if (rows_sums_die(w, w->first + kernels - 1, tiles))
                TRY(make_rows(s, kernels, tiles, &shape, out_rows));
            if (why.kernel == UINT32_MAX) why.fewer = kernels;
        }
        if (why.fewer > fewer) fewer = why.fewer;
    }
    *out_fewer = fewer < kernels ? fewer : kernels - 1;
    return NULL;
}

static bool has_tiles(const plan_kernel *kernel)
{
    return kernel->steps[ISA_QUEUE_SEQ] && !kernel->messages && !kernel->sends_later;
}

// Kernels that end with tiles, behind which nothing reads what messages between them brought.
static bool may_join(const rows_window *w, uint32_t kernels)
{
    const uint32_t last = w->first + kernels - 1;
    const rows_sources *sources = &w->sources;
    if (!has_tiles(w->phases[last].kernel)) return false;
    for (uint32_t n = 0; n < sources->count; n++)
        if (sources->maps[n]->kernel < kernels && rows_is_live(w, last, sources->maps[n]->received))
            return false;
    return true;
}

// As many kernels as are fusible, at most all that there are tiles of.
static spyre_status try_fewer(fusion_search *s, uint32_t kernels, uint32_t least,
                              const rows_tiles *all, const row_fusion **out_rows)
{
    const rows_window *w = s->window;
    rows_tiles tiles = *all;
    failures failed;
    failed.count = 0;
    for (uint32_t n = kernels, fewer; n >= least && !*out_rows; n = fewer) {
        fewer = n - 1;
        if (w->joined && !may_join(w, n)) continue;
        while (tiles.count && tiles.items[tiles.count - 1].kernel >= n) tiles.count--;
        TRY(try_rows(s, n, &tiles, &failed, out_rows, &fewer));
    }
    return NULL;
}

// One kernel, whose loops stay around.
static spyre_status try_inside_loops(fusion_search *s, const rows_tiles *all,
                                     const row_fusion **out_rows)
{
    rows_tiles tiles = *all;
    failures failed;
    failed.count = 0;
    while (tiles.items[tiles.count - 1].kernel > 0) tiles.count--;
    for (uint32_t n = 0; n < tiles.count; n++) tiles.items[n].outer = tiles.items[n].loops.depth;
    uint32_t fewer;
    return try_rows(s, 1, &tiles, &failed, out_rows, &fewer);
}

// The row fusion of `*out_rows` hands on values in LX: one of so few of its kernels that none does
// leaves those that come to want them to the next one.
static spyre_status try_part(fusion_search *s, const rows_tiles *all, const row_fusion **out_rows)
{
    const uint32_t kernels = (*out_rows)->kernels;
    const row_fusion *part = NULL;
    rows_tiles tiles = *all;
    while (tiles.items[tiles.count - 1].kernel >= kernels) tiles.count--;
    uint32_t n = kernels;
    while (n > 1 && !rows_part_at(s->window, &tiles, n)) n--;
    if (n == kernels || n < 2) return NULL;
    TRY(try_fewer(s, n, n, &tiles, &part));
    if (part) *out_rows = part;
    return NULL;
}

// Gives the first kernel of each row fusion between two barriers what it stands for.
static spyre_status fuse_between(fusion_search *s)
{
    rows_window *w = s->window;
    for (uint32_t first = 0; first < w->count; first++) {
        rows_tiles tiles;
        uint32_t kernels;
        const row_fusion *found = NULL;
        TRY(rows_window_move(w, first, &tiles, &kernels));
        if (kernels == 0) continue;
        TRY(try_fewer(s, kernels, 1, &tiles, &found));
        if (!found && tiles.items[0].loops.depth)
            TRY(try_inside_loops(s, &tiles, &found));
        if (!found) continue;
        TRY(try_part(s, &tiles, &found));
        w->phases[first].kernel->rows = found;
        first += found->kernels - 1;
    }
    return NULL;
}

// --- All cores at once

// The fewest kernels from `first` on with a barrier between them; without one, more than there are.
static uint32_t find_barrier(const rows_window *w, uint32_t first)
{
    uint32_t k = first + 1;
    while (k < w->count && k - first < ROWS_MOST_KERNELS && w->phases[k].kernel->no_barrier) k++;
    return k < w->count ? k - first + 1 : UINT32_MAX;
}

// In LX, for later kernels. Threads have shares of all cores' rows, and then cores: what they read
// would be each other's.
static bool leaves_streams(const row_fusion *c)
{
    for (uint32_t n = 0; n < c->steps.count; n++)
        if (vector_stores(c->steps.items[n].op) && rows_step_in_lx(&c->steps.items[n])) return true;
    return false;
}

// Between phases that row fusions do not know.
static spyre_status fuse_joined(fusion_search *s)
{
    rows_window *w = s->window;
    for (uint32_t first = 0; first < w->count; first++) {
        rows_tiles tiles;
        uint32_t kernels;
        const uint32_t least = find_barrier(w, first);
        const row_fusion *found = NULL;
        if (!has_tiles(w->phases[first].kernel) || least > ROWS_MOST_KERNELS) continue;
        TRY(rows_window_move(w, first, &tiles, &kernels));
        TRY(try_fewer(s, kernels, least, &tiles, &found));
        if (!found || leaves_streams(found)) continue;
        w->phases[first].kernel->rows = found;
        first += found->kernels - 1;
    }
    return NULL;
}

// --- Few rows of each core

// Units, sticks of a row, up to which a core's rows cost less than to begin with them: all cores'
// rows are taken together, as many at a time as a block holds.
enum { FEW_UNITS = 64 };

static bool is_brief(const plan_kernel *kernel, const row_fusion *c)
{
    const size_t cores = (size_t)__builtin_popcount(kernel->source->active_cores);
    const size_t units = (size_t)c->rows * c->sticks;
    return cores > 1 && !c->loops && units <= FEW_UNITS * (c->joined ? cores : 1);
}

// Kernels that may be of a row fusion of all cores without messages, whether or not they are of one
// of a core's own.
static uint32_t count_kernels(const plan_phase *phases, uint32_t count)
{
    uint32_t n = 0;
    while (n < count && plan_is_plain(&phases[n]) && has_tiles(phases[n].kernel)) n++;
    return n;
}

// It takes kernels that come after it from row fusions of a core's own, if all of each.
static bool replaces_whole(const plan_phase *phases, uint32_t kernels)
{
    for (uint32_t k = 0; k < kernels; k++)
        if (phases[k].kernel->rows && k + phases[k].kernel->rows->kernels > kernels) return false;
    return true;
}

// The first kernels, two or those of a row fusion, become one of all cores, if there is one.
static spyre_status join_brief(fusion_search *s, const plan_phase *phases, uint32_t count)
{
    rows_tiles tiles;
    uint32_t kernels;
    const row_fusion *found = NULL, *own = phases->kernel->rows;
    const uint32_t least = own ? own->kernels : 2;
    rows_window_begin(s->window, phases, count_kernels(phases, count), true);
    TRY(rows_window_move(s->window, 0, &tiles, &kernels));
    if (kernels < least) return NULL;
    TRY(try_fewer(s, kernels, least, &tiles, &found));
    if (!found || !is_brief(phases->kernel, found) || leaves_streams(found) ||
        !replaces_whole(phases, found->kernels))
        return NULL;
    for (uint32_t k = 0; k < found->kernels; k++) phases[k].kernel->rows = NULL;
    phases->kernel->rows = found;
    return NULL;
}

static spyre_status join_all_brief(fusion_search *s, const plan_phase *phases, uint32_t count)
{
    for (uint32_t k = 0; k < count; k++) {
        const row_fusion *own = phases[k].kernel->rows;
        if (!own || is_brief(phases[k].kernel, own)) TRY(join_brief(s, phases + k, count - k));
        if (phases[k].kernel->rows) k += phases[k].kernel->rows->kernels - 1;
    }
    return NULL;
}

// --- The pass

static bool may_be_joined(const plan_phase *phase)
{
    return plan_is_plain(phase) && (has_tiles(phase->kernel) || phase->kernel->messages ||
                                    phase->kernel->sends_later);
}

static spyre_status fuse_across_barriers(const translation *t, fusion_search *search)
{
    const plan_phase *phases = t->loaded->phases.items;
    const uint32_t count = t->loaded->phases.count;
    for (uint32_t first = 0, end; first < count; first = end + 1) {
        for (end = first; end < count && may_be_joined(&phases[end]);) end++;
        rows_window_begin(search->window, phases + first, end - first, true);
        TRY(fuse_joined(search));
    }
    return NULL;
}

static spyre_status fuse_without_barriers(const translation *t, fusion_search *search)
{
    const plan_phase *phases = t->loaded->phases.items;
    const uint32_t count = t->loaded->phases.count;
    for (uint32_t first = 0, end; first < count; first = end) {
        end = first + 1;
        if (!plan_is_plain(&phases[first]) || !phases[first].kernel->steps[ISA_QUEUE_SEQ])
            continue;
        if (phases[first].kernel->rows) {
            end = first + phases[first].kernel->rows->kernels;
            continue;
        }
        while (end < count && phases[end].kind == PHASE_KERNEL &&
               phases[end].kernel->no_barrier && !phases[end].kernel->rows)
            end++;
        rows_window_begin(search->window, phases + first, end - first, false);
        TRY(fuse_between(search));
        TRY(join_all_brief(search, phases + first, end - first));
    }
    return NULL;
}

spyre_status card_pass_fuse_rows(translation *t)
{
    rows_window *window = ARENA_NEW(t->scratch, rows_window, 1);
    fusion_search *search = ARENA_NEW(t->scratch, fusion_search, 1);
    TRY_ALLOC(window);
    TRY_ALLOC(search);
    search->window = window;
    window->memory = t->memory;
    window->scratch = t->scratch;
    window->lx = &t->lx;
    window->temporary = &t->temporary;
    TRY(fuse_across_barriers(t, search));
    return fuse_without_barriers(t, search);
}
