// SPDX-License-Identifier: Apache-2.0
//
// Which kernels become a row fusion: from each kernel on as many as agree, with at least two
// instructions over all elements between them, before which loads may stand. A reduction of one
// core alone may be a row fusion by itself, so that threads can share its rows.
//
// The loops of one kernel are rows, or stay around the row fusion: what is in LX then may be handed
// from iteration to iteration, and is stored as long as something may read it before it is written
// again.
#include <string.h>

#include "card/plan/pass.h"
#include "card/rows/rows_window.h"

enum { MOST_FAILURES = 64 };       // that are remembered

typedef struct {
    const translation *of;
    rows_window *window;
    const plan_phase *phases;
    uint32_t count;
    bool joined;                            // all cores at once, across barriers and messages
} search;

// --- What is read afterwards

// All that is written from the place on.
static byte_range range_of(const rows_tiles *tiles, const rows_place *place)
{
    byte_range range = RANGE_NONE;
    for (uint32_t n = 0; n < tiles->count; n++) {
        const rows_access *a = &tiles->items[n].operand[0];
        if (a->place.space == place->space && a->place.offset == place->offset &&
            a->place.kernel == place->kernel && a->sums == ROWS_NONE)
            range_add(&range, tiles->items[n].reach[0]);
    }
    return range.low <= range.high ? range : (byte_range){0, ISA_LX_BYTES};
}

static bool is_live(const search *s, uint32_t last, byte_range range)
{
    const plan_kernel *kernel = s->phases[last].kernel;
    uint32_t cores = kernel->source->active_cores;
    for (uint32_t n = 0; n < last && s->joined; n++)
        cores |= s->phases[n].kernel->source->active_cores;
    return lx_read_after(&s->of->lx, kernel->order, cores, range);
}

// In front of instruction `at` of the same iteration something has written what it reads there.
static bool written_before(const search *s, const rows_tiles *tiles, uint32_t at,
                           const rows_place *place)
{
    for (uint32_t n = 0; n < at; n++)
        if (rows_same_place(s->phases, &tiles->items[n].operand[0].place, place)) return true;
    return false;
}

// With loops around the row fusion: the bytes may be read in a later iteration, by a tile in front
// of which nothing has written them anew.
static bool is_handed_on(const search *s, uint32_t first, const rows_tiles *tiles, byte_range range)
{
    search of = *s;
    of.phases += first;
    for (uint32_t n = 0; n < tiles->count && tiles->items[0].outer; n++) {
        const rows_tile *t = &tiles->items[n];
        for (uint32_t o = 1; o < t->tile->instruction->operand_count; o++) {
            const rows_access *a = &t->operand[o];
            if (a->place.space != ISA_SPACE_LX || a->sums != ROWS_NONE || a->constant) continue;
            if (ranges_overlap(a->range, range) && !written_before(&of, tiles, n, &a->place))
                return true;
        }
    }
    return false;
}

// Sums of a row fusion never reach LX.
static bool sums_die(const search *s, uint32_t last, const rows_tiles *tiles)
{
    for (uint32_t n = 0; n < tiles->count; n++) {
        const rows_access *a = &tiles->items[n].operand[0];
        if (a->sums != ROWS_NONE && is_live(s, last, tiles->items[n].reach[0])) return false;
    }
    return true;
}

// What may be read in LX or memory after the row fusion: of each value, of each tile's result.
typedef struct {
    bool value[ROWS_MOST_STEPS], tile[ROWS_MOST_STEPS];
} rows_live;

static void find_live(const search *s, uint32_t first, uint32_t last, const rows_builder *b,
                      rows_live *live)
{
    for (uint32_t v = 0; v < b->value_count; v++) {
        const rows_value *value = &b->values[v];
        byte_range range = range_of(b->tiles, &value->place);
        live->value[v] = value->stored && !value->overwritten;
        if (live->value[v] && value->place.space == ISA_SPACE_LX)
            live->value[v] = is_live(s, last, range) || is_handed_on(s, first, b->tiles, range);
    }
    for (uint32_t n = 0; n < b->tiles->count; n++) {
        const rows_access *a = &b->tiles->items[n].operand[0];
        live->tile[n] = a->place.space != ISA_SPACE_LX ||
                        is_live(s, last, b->tiles->items[n].reach[0]) ||
                        is_handed_on(s, first, b->tiles, a->range);
    }
}

// --- Whether tiles agree

// The only tile of its kernel: loops around it are dims of it.
static bool is_alone(const rows_tiles *tiles, const rows_tile *t)
{
    uint32_t own = 0;
    for (uint32_t n = 0; n < tiles->count; n++) own += tiles->items[n].kernel == t->kernel;
    return own == 1 && !t->outer;
}

// Loops that several tiles share go over rows alone.
static bool loops_are_rows(const rows_tiles *tiles, const rows_tile *t)
{
    return t->outer || is_alone(tiles, t) || t->role > ROWS_REDUCES || t->loops_are_rows;
}

// The tile's result is a per-row value or a stream in LX, and no instruction behind the row fusion,
// or of a later iteration, reads it.
static bool may_stay_inside(const search *s, uint32_t last, const rows_tiles *tiles,
                            const rows_tile *t)
{
    const rows_access *result = &t->operand[0];
    const bool own_loops = t->loops.depth > t->cores;
    bool inside = t->role == ROWS_STREAMS ? !own_loops || is_alone(tiles, t)
                                          : t->role == ROWS_BY_ROW && t->lanes == 1 && !own_loops;
    return inside && result->place.space == ISA_SPACE_LX &&
           result->sums == ROWS_NONE && !result->constant && !is_live(s, last, t->reach[0]);
}

// The tile is in order behind all tiles before it. Where only its result conflicts with them, the
// result is marked to stay inside of the row fusion.
static bool is_in_order(const search *s, uint32_t first, uint32_t last, const rows_tiles *tiles,
                        rows_tile *t)
{
    const plan_phase *phases = s->phases + first;
    t->stays_inside = false;
    for (const rows_tile *other = tiles->items; other <= t; other++) {
        if (rows_in_order(phases, other, t)) continue;
        if (t->stays_inside || !may_stay_inside(s, last, tiles, t)) return false;
        t->stays_inside = true;
        if (!rows_in_order(phases, other, t)) return false;
    }
    return true;
}

// Finds a way in which the tile, number `at`, has the shape and is in order; rather one in which
// its result may reach LX.
static bool find_way(const search *s, uint32_t first, const rows_shape *shape, rows_tiles *tiles,
                     uint32_t at)
{
    const uint32_t last = first + tiles->items[tiles->count - 1].kernel;
    rows_tile *t = &tiles->items[at], inside;
    rows_tiles earlier = *tiles;
    earlier.count = at;
    bool found = false;
    for (uint32_t way = rows_first_way(shape, t); way < ROWS_WAYS; way++) {
        if (!rows_place_tile(shape, &earlier, way, t) || !loops_are_rows(tiles, t) ||
            !is_in_order(s, first, last, tiles, t))
            continue;
        if (!t->stays_inside) return true;
        if (!found) inside = *t;
        found = true;
    }
    if (found) *t = inside;
    return found;
}

// *out_failed is the kernel whose tile does not have the shape; of none beyond the last.
static bool agree(const search *s, uint32_t first, const rows_shape *shape, rows_tiles *tiles,
                  uint32_t *out_failed)
{
    uint32_t wide = 0, streams = 0, kernels = 0;
    bool reduces = false;
    *out_failed = UINT32_MAX;
    if (shape->rows < (tiles->items[0].outer ? 1 : 2) || shape->sticks == 0) return false;
    for (uint32_t n = 0; n < tiles->count; n++) {
        rows_tile *t = &tiles->items[n];
        *out_failed = t->kernel;
        if (!find_way(s, first, shape, tiles, n)) return false;
        *out_failed = UINT32_MAX;
        bool loads = t->tile->instruction->opcode == ISA_LOAD;
        if (loads && n + 1 == tiles->count) return false;
        wide += t->role <= ROWS_REDUCES && !loads;
        streams += t->role == ROWS_STREAMS && !loads;
        kernels = t->kernel + 1;
        reduces = reduces || t->role == ROWS_REDUCES;
    }
    uint32_t active = s->phases[first].kernel->source->active_cores;
    bool shared = (active & (active - 1)) == 0 && reduces && !tiles->items[0].outer;
    return kernels > 1 ? wide >= 2 : streams >= 2 || shared;
}

// --- Trying

static bool is_private(const row_fusion *c, const rows_tile *t)
{
    for (uint32_t n = 0; n < c->items.count; n++)
        if (c->items.items[n].made_of == t) return c->items.items[n].operand[0].place.own;
    return false;
}

// True when no result that must stay inside is stored to LX.
static bool keeps_inside(const rows_builder *b, const rows_live *live)
{
    for (uint32_t n = 0; n < b->tiles->count; n++) {
        const rows_tile *t = &b->tiles->items[n];
        if (!t->stays_inside) continue;
        if (t->role == ROWS_BY_ROW && !is_private(b->c, t)) return false;
        for (uint32_t v = 0; v < b->value_count && t->role == ROWS_STREAMS; v++)
            if (live->value[v] &&
                rows_same_place(b->first, &b->values[v].place, &t->operand[0].place))
                return false;
    }
    return true;
}

static spyre_status make_rows(const search *s, uint32_t first, uint32_t kernels,
                              const rows_tiles *tiles, const rows_shape *shape,
                              const row_fusion **out_rows)
{
    rows_live live;
    rows_builder *b = ARENA_NEW(s->of->scratch, rows_builder, 1);
    TRY_ALLOC(b);
    *b = (rows_builder){.memory = s->of->memory, .tiles = tiles, .first = s->phases + first};
    b->c = ARENA_NEW(s->of->memory, row_fusion, 1);
    TRY_ALLOC(b->c);
    b->c->kernels = kernels;
    b->c->rows = shape->rows;
    b->c->sticks = shape->sticks;
    b->c->joined = s->joined;
    b->c->loops = tiles->items[0].outer;
    memcpy(b->c->iterations, tiles->items[0].loops.iterations, sizeof b->c->iterations);
    TRY(rows_compose(b));
    if (!b->fits) return NULL;
    find_live(s, first, first + kernels - 1, b, &live);
    rows_prune(b, live.value);
    rows_make_private(b, live.tile);
    b->c->divisible = rows_divides(b->c);
    TRY(rows_make_blocks(b));
    if (b->fits && keeps_inside(b, &live)) *out_rows = b->c;
    return NULL;
}

static bool has_reduction(const rows_tiles *tiles)
{
    for (uint32_t n = 0; n < tiles->count; n++) {
        const isa_opcode opcode = tiles->items[n].tile->instruction->opcode;
        if (opcode == ISA_REDUCE || opcode == ISA_REDUCESQ) return true;
    }
    return false;
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

static bool has_failed(const failures *f, const rows_shape *shape, uint32_t kernels)
{
    for (uint32_t n = 0; n < f->count; n++)
        if (f->items[n].kernel < kernels &&
            memcmp(&f->items[n].shape, shape, sizeof *shape) == 0) return true;
    return false;
}

static void note_failure(failures *f, const rows_shape *shape, uint32_t kernel)
{
    if (kernel == UINT32_MAX || f->count == MOST_FAILURES) return;
    f->items[f->count].shape = *shape;
    f->items[f->count++].kernel = kernel;
}

// Kernels from `first` on, all that `tiles` are of.
static spyre_status try_rows(const search *s, uint32_t first, uint32_t kernels, rows_tiles *tiles,
                             failures *failed, const row_fusion **out_rows)
{
    rows_shapes shapes;
    rows_guess_shapes(tiles, &shapes);
    // Streams alone go through a tile each at one stride, which is faster than to look up each row.
    const uint32_t evennesses = has_reduction(tiles) || s->joined ? ROWS_EVENNESSES : 1;
    for (uint32_t n = 0; n < shapes.count * evennesses && !*out_rows; n++) {
        rows_shape shape = shapes.items[n % shapes.count];
        uint32_t kernel;
        shape.evenness = (rows_evenness)(n / shapes.count);
        if (has_failed(failed, &shape, kernels)) continue;
        if (!agree(s, first, &shape, tiles, &kernel)) note_failure(failed, &shape, kernel);
        else if (sums_die(s, first + kernels - 1, tiles))
            TRY(make_rows(s, first, kernels, tiles, &shape, out_rows));
    }
    return NULL;
}

static bool has_tiles(const plan_kernel *kernel)
{
    return kernel->steps[ISA_QUEUE_SEQ] && !kernel->messages && !kernel->sends_later;
}

// Kernels that end with tiles, behind which nothing reads what messages between them brought.
static bool may_join(const search *s, uint32_t first, uint32_t kernels)
{
    const uint32_t last = first + kernels - 1;
    const rows_sources *sources = &s->window->sources;
    if (!has_tiles(s->phases[last].kernel)) return false;
    for (uint32_t n = 0; n < sources->count; n++)
        if (sources->maps[n]->kernel < kernels && is_live(s, last, sources->maps[n]->received))
            return false;
    return true;
}

// As many kernels as agree, at most all that there are tiles of.
static spyre_status try_fewer(const search *s, uint32_t first, uint32_t kernels, uint32_t least,
                              const rows_tiles *all, const row_fusion **out_rows)
{
    rows_tiles tiles = *all;
    failures failed;
    failed.count = 0;
    for (uint32_t n = kernels; n >= least && !*out_rows; n--) {
        if (s->joined && !may_join(s, first, n)) continue;
        while (tiles.count && tiles.items[tiles.count - 1].kernel >= n) tiles.count--;
        TRY(try_rows(s, first, n, &tiles, &failed, out_rows));
    }
    return NULL;
}

// One kernel, whose loops stay around.
static spyre_status try_inside_loops(const search *s, uint32_t first, const rows_tiles *all,
                                     const row_fusion **out_rows)
{
    rows_tiles tiles = *all;
    failures failed;
    failed.count = 0;
    while (tiles.items[tiles.count - 1].kernel > 0) tiles.count--;
    for (uint32_t n = 0; n < tiles.count; n++) tiles.items[n].outer = tiles.items[n].loops.depth;
    return try_rows(s, first, 1, &tiles, &failed, out_rows);
}

// Gives the first kernel of each row fusion between two barriers what it stands for.
static spyre_status fuse_between(const search *s)
{
    rows_window_begin(s->window, s->phases, s->count, false);
    for (uint32_t first = 0; first < s->count; first++) {
        rows_tiles tiles;
        uint32_t kernels;
        const row_fusion *found = NULL;
        TRY(rows_window_move(s->window, first, &tiles, &kernels));
        if (kernels == 0) continue;
        TRY(try_fewer(s, first, kernels, 1, &tiles, &found));
        if (!found && tiles.items[0].loops.depth)
            TRY(try_inside_loops(s, first, &tiles, &found));
        if (!found) continue;
        s->phases[first].kernel->rows = found;
        first += found->kernels - 1;
    }
    return NULL;
}

// --- All cores at once

// The fewest kernels from `first` on with a barrier between them; without one, more than there are.
static uint32_t find_barrier(const search *s, uint32_t first)
{
    uint32_t k = first + 1;
    while (k < s->count && k - first < ROWS_MOST_KERNELS && s->phases[k].kernel->no_barrier) k++;
    return k < s->count ? k - first + 1 : UINT32_MAX;
}

// Between phases that row fusions do not know.
static spyre_status fuse_joined(const search *s)
{
    rows_window_begin(s->window, s->phases, s->count, true);
    for (uint32_t first = 0; first < s->count; first++) {
        rows_tiles tiles;
        uint32_t kernels;
        const uint32_t least = find_barrier(s, first);
        const row_fusion *found = NULL;
        if (!has_tiles(s->phases[first].kernel) || least > ROWS_MOST_KERNELS) continue;
        TRY(rows_window_move(s->window, first, &tiles, &kernels));
        TRY(try_fewer(s, first, kernels, least, &tiles, &found));
        if (!found) continue;
        s->phases[first].kernel->rows = found;
        first += found->kernels - 1;
    }
    return NULL;
}

// --- The pass

static bool may_be_joined(const plan_phase *phase)
{
    return plan_is_plain(phase) && (has_tiles(phase->kernel) || phase->kernel->messages ||
                                    phase->kernel->sends_later);
}

static spyre_status fuse_across_barriers(const translation *t, rows_window *window)
{
    const plan_phase *phases = t->loaded->phases.items;
    const uint32_t count = t->loaded->phases.count;
    for (uint32_t first = 0, end; first < count; first = end + 1) {
        for (end = first; end < count && may_be_joined(&phases[end]);) end++;
        search s = {t, window, phases + first, end - first, true};
        TRY(fuse_joined(&s));
    }
    return NULL;
}

static spyre_status fuse_without_barriers(const translation *t, rows_window *window)
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
        search s = {t, window, phases + first, end - first, false};
        TRY(fuse_between(&s));
    }
    return NULL;
}

spyre_status card_pass_fuse_rows(translation *t)
{
    rows_window *window = ARENA_NEW(t->scratch, rows_window, 1);
    TRY_ALLOC(window);
    window->scratch = t->scratch;
    window->program = t->program;
    window->forwarded = t->forwarded;
    window->lx = &t->lx;
    TRY(fuse_across_barriers(t, window));
    return fuse_without_barriers(t, window);
}
