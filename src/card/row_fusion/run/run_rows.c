// SPDX-License-Identifier: Apache-2.0
//
// One core through a row fusion: addresses are found once, then moved from block to block of rows.
#include "card/row_fusion/run/run_rows.h"

#include <stdlib.h>
#include <string.h>

#include "card/codegen/vector_code.h"
#include "card/simd/lanes.h"
#include "tensor/numeric.h"

enum { STICK = SIMD_LANES };

typedef struct {
    const row_fusion *c;
    uint8_t *step[ROWS_MOST_STEPS];         // of elements of row 0
    vector_step *bound;                     // what steps are in the block
    vector_loop *code[ROWS_MOST_STEPS];     // of the vector program that begins there
    bool coded[ROWS_MOST_STEPS];            // it is known, and may be NULL
    bool fetched[ROWS_MOST_STEPS];          // of one element a row: those of a block
    bool halves[ROWS_MOST_STEPS];           // they lie with the host
    bool begins;                            // the block: nothing is loaded yet that is once
    bool plain[ROWS_MOST_STEPS];            // of kept values that are loaded once, by area
    float (*kept)[STICK];                   // [area][stick][row of the block]
    float (*sums)[ROWS_MOST_ROWS][STICK];
    float (*rows)[ROWS_MOST_ROWS];          // one element a row, [step]
    int64_t (*row_at)[ROWS_MOST_LISTED];    // where blocks lie differently, [step]
    uint8_t *own;                           // of rows of a block, where places say so
    size_t first, count;                    // rows of the block
    uint32_t iteration[ISA_MAX_LOOPS];      // of the loops around
} progress;

// What a host thread has of the core that it took last through a row fusion. In the next one of the
// same stage steps have other addresses, and nothing else, unless loops change what they read.
struct rows_thread {
    progress g;
    uint64_t stage;                         // card.stages; 0: of no use
    const plan_phase *phase;                // the fusion's first
    vector_step bound[ROWS_MOST_STEPS];
    _Alignas(64) float kept[ROWS_KEPT_FLOATS / STICK][STICK];
    _Alignas(64) float sums[ROWS_MOST_SUMS][ROWS_MOST_ROWS][STICK];
    float rows[ROWS_MOST_STEPS][ROWS_MOST_ROWS];
    int64_t row_at[ROWS_MOST_STEPS][ROWS_MOST_LISTED];
    _Alignas(64) uint8_t own[ROWS_MOST_OWN * ROWS_OWN_BYTES];
};

rows_thread *rows_thread_create(void)
{
    rows_thread *t = aligned_alloc(_Alignof(rows_thread), sizeof *t);
    if (t) t->stage = 0;
    return t;
}

// Whether a place lies with the host (CARD_HALVES).
static bool in_halves(const core_run *run, const rows_place *p)
{
    return !p->own && p->space == ISA_SPACE_MEMORY && run->arguments[p->arg].base >= CARD_HALVES;
}

static uint8_t *address_of(const core_run *run, const progress *g, const rows_place *p,
                           const plan_phase *first)
{
    int64_t offset = p->offset;
    if (p->own) return g->own + offset;
    for (uint32_t n = 0; n < g->c->loops; n++) offset += g->iteration[n] * p->outer[n];
    if (p->space == ISA_SPACE_LX) return run->lx + offset;
    offset += isa_parameter(first[p->kernel].kernel->source, run->core, p->slot);
    uint64_t base = run->arguments[p->arg].base;
    if (base >= CARD_HALVES) return (uint8_t *)(uintptr_t)(base - CARD_HALVES) + offset;
    return run->owner->memory + base + offset;
}

// Bytes from row 0 to the block.
static int64_t before_block(const progress *g, const rows_place *p)
{
    return p->own ? 0 : nested_strides_at(&p->row, g->first);
}

static void load_halves(const uint8_t *at, int64_t stride, size_t count, float *out)
{
    for (size_t row = 0; row < count; row++) {
        uint16_t word;
        memcpy(&word, at + (int64_t)row * stride, sizeof word);
        out[row] = dl16_to_float(dl16_from_host_float(fp16_to_float(word)));
    }
}

// One element for all rows, which nothing writes meanwhile.
static bool is_same_for_all(const rows_step *s)
{
    const bool in_memory = !s->place.own && s->place.space == ISA_SPACE_MEMORY;
    return s->filled || (in_memory && nested_strides_stands(&s->place.row));
}

static void copy_elements(uint8_t *to, const uint8_t *from, int64_t stride, size_t count,
                          size_t bytes)
{
    if (bytes == 2) {
        for (size_t n = 0; n < count; n++) memcpy(to + 2 * n, from + (int64_t)n * stride, 2);
        return;
    }
    for (size_t n = 0; n < count; n++) memcpy(to + bytes * n, from + (int64_t)n * stride, bytes);
}

// Elements of rows in several runs become neighbours, to be converted at once.
static void gather_rows(const nested_strides *nest, size_t first, const uint8_t *at, size_t bytes,
                        size_t count, uint8_t *out)
{
    for (size_t done = 0, run; done < count; done += run) {
        run = nested_strides_run(nest, first + done, count - done);
        copy_elements(out + done * bytes, at + nested_strides_at(nest, first + done),
                      nested_strides_stride(nest), run, bytes);
    }
}

// From row 0, or from the block where the place is the row fusion's own. What is the same for all
// rows is there for a whole block: one of fewer rows may come first.
static void fetch_rows(const progress *g, uint32_t n, const uint8_t *at, float *out)
{
    const rows_step *s = &g->c->steps.items[n];
    const nested_strides *nest = &s->place.row;
    const size_t first = s->place.own ? 0 : g->first;
    const size_t count = is_same_for_all(s) ? g->c->block : g->count;
    const size_t bytes = g->halves[n] ? 2 : (size_t)spyre_format_bytes(s->place.format);
    const uint8_t *from = at + nested_strides_at(nest, first);
    int64_t stride = nested_strides_stride(nest);
    uint8_t gathered[ROWS_MOST_ROWS * 4];
    for (size_t row = 0; s->filled && row < count; row++) out[row] = s->begin;
    if (!s->filled && nested_strides_run(nest, first, count) < count) {
        gather_rows(nest, first, at, bytes, count, gathered);
        from = gathered;
        stride = (int64_t)bytes;
    }
    if (g->halves[n]) load_halves(from, stride, count, out);
    else if (!s->filled) lanes_load_f32(out, from, stride, s->place.format, count);
    for (size_t row = 0; s->inverse && row < count; row++) out[row] = 1.0f / out[row];
}

// Between multiples of 4, so that few programs differ by it.
static void find_range(const rows_step *s, vector_step *w)
{
    const float value = w->values[0];
    const uint32_t size = float_bits(value) & 0x7FFFFFFF;
    const int32_t exponent = (int32_t)(size >> 23) - 127;
    w->ranged = is_same_for_all(s) && size != 0 && exponent < 32 &&
                dl16_to_float(dl16_from_float(value)) == value;
    if (!w->ranged) return;
    w->least = (int8_t)(exponent & ~3);
    w->most = (int8_t)(w->least + 4);
}

// A sum of x and y, where y is one element a row and the step before has fetched it, may need no
// look at its range.
static bool sums_stay_within(const progress *g, const vector_step *w)
{
    const rows_step *y = &g->c->steps.items[w - g->bound - 1];
    const bool adds = w->op == VECTOR_APPLY + OPFUNC_ADD || w->op == VECTOR_APPLY + OPFUNC_SUB;
    if (!adds || y->op != VECTOR_ROWS_Y) return false;
    const size_t rows = is_same_for_all(y) ? 1 : g->count;
    uint32_t within = true;
    for (size_t row = 0; row < rows; row++) within &= dl16_sums_stay_within((w - 1)->values[row]);
    return within;
}

static float *line_of(const progress *g, const rows_step *s)
{
    size_t areas = (size_t)g->c->kept * g->c->block + s->area;
    return g->kept[areas * g->c->sticks];
}

static float *overlap_of(const progress *g, const rows_overlap *o)
{
    return g->kept[rows_kept_sticks(g->c) + o->area];
}

// Lines are the same for all blocks.
static void fetch_line(const progress *g, uint32_t n)
{
    const rows_step *s = &g->c->steps.items[n];
    const int64_t only_row = 0;
    const vector_step steps[] = {
        {.op = s->place.format == SPYRE_FORMAT_IEEE_FP32 ? VECTOR_WIDE_X : VECTOR_LOAD_X,
         .at = g->step[n], .row_at = &only_row, .stick_at = s->stick_at,
         .upper = s->place.upper, .halves = g->halves[n]},
        {.op = VECTOR_KEEP, .values = line_of(g, s)},
    };
    const vector_program w = {.steps = steps, .count = 2, .rows = 1, .sticks = g->c->sticks};
    simd_in_use()->run_program(&w, vector_code_of(&w));
}

static const int64_t *list_rows(const progress *g, uint32_t n)
{
    nested_strides_list(&g->c->steps.items[n].place.row, g->first, g->count + g->c->rows_ahead,
                        g->row_at[n]);
    return g->row_at[n];
}

static uint32_t op_in_slot(uint32_t op, uint32_t slot)
{
    switch (op) {
    case VECTOR_KEEP: return VECTOR_HOLD_X(slot);
    case VECTOR_KEEP_Y: return VECTOR_HOLD_Y(slot);
    case VECTOR_KEPT_X: return VECTOR_HELD_X(slot);
    case VECTOR_KEPT_Y: return VECTOR_HELD_Y(slot);
    default: return op;
    }
}

// What stays from block to block.
static void bind(progress *g, uint32_t n)
{
    const rows_step *s = &g->c->steps.items[n];
    vector_step *w = &g->bound[n];
    *w = (vector_step){.op = s->passes ? op_in_slot(s->op, s->area) : s->op,
                       .rounding = s->rounding,
                       .row_at = s->row_at,
                       .stick_at = s->stick_at,
                       .upper = s->place.upper,
                       .table = s->table,
                       .constant = s->constant,
                       .halves = g->halves[n],
                       .holds = s->passes,
                       .slot = s->area,
                       .begins = s->begins,
                       .folds = s->folds,
                       .wide = s->place.format == SPYRE_FORMAT_IEEE_FP32,
                       .rest = s->rest,
                       .rest_of_each = s->rest_of_each,
                       .same = vector_takes_rows(s->op) && is_same_for_all(s),
                       .begin = s->begin};
    if (vector_takes_rows(s->op)) w->values = g->rows[n];
    if (rows_takes_kept(s->op) && !s->passes)
        w->values = g->kept[(size_t)s->area * g->c->sticks * g->c->block];
    if (s->op == VECTOR_LINE_Y) w->values = line_of(g, s);
    if (vector_sums(s->op)) w->values = g->sums[s->area][0];
    if (!s->overlap) return;
    w->op = VECTOR_READY_X;
    w->halves = false;
    w->at = (uint8_t *)overlap_of(g, s->overlap);
    w->row_at = s->overlap->row_at;
    w->stick_at = s->overlap->stick_at;
}

// All elements of a block's windows, of the step and where it begins.
static void make_ready(const progress *g, uint32_t n, uint8_t *at)
{
    static const int64_t only_stick = 0;
    const rows_overlap *o = g->c->steps.items[n].overlap;
    const bool rest = g->count != g->c->block;
    for (uint32_t r = 0; r < o->runs[rest].count; r++) {
        const rows_run_of_sticks *run = &o->runs[rest].items[r];
        const vector_step steps[] = {
            {.op = VECTOR_LOAD_X, .at = at, .row_at = o->at + run->first,
             .stick_at = &only_stick, .halves = g->halves[n]},
            {.op = VECTOR_KEEP, .values = overlap_of(g, o) + (size_t)run->first * STICK},
        };
        const vector_program w = {.steps = steps, .count = 2, .rows = run->count, .sticks = 1};
        simd_in_use()->run_program(&w, vector_code_of(&w));
    }
}

// Where the block has its elements of a step. True when they go past the caches.
static bool move_elements(const progress *g, uint32_t n, vector_step *w)
{
    const rows_step *s = &g->c->steps.items[n];
    const size_t next = g->first + g->count;
    const int64_t before = before_block(g, &s->place);
    if (s->overlap) {
        make_ready(g, n, g->step[n] + before);
        return false;
    }
    w->at = g->step[n] + before;
    if (!s->row_at) w->row_at = list_rows(g, n);
    w->ahead = next < g->c->rows ? nested_strides_at(&s->place.row, next) - before : 0;
    return s->streams && (uintptr_t)w->at % ROWS_LINE_BYTES == 0;
}

// What a step is in another block. True when that takes other code.
static bool move(progress *g, uint32_t n, bool first)
{
    const rows_step *s = &g->c->steps.items[n];
    vector_step *w = &g->bound[n];
    vector_rounding rounding = s->rounding;
    bool streams = false, plain = false;
    if (vector_takes_rows(s->op)) {
        if (!g->fetched[n] || !is_same_for_all(s)) fetch_rows(g, n, g->step[n], w->values);
        if (!g->fetched[n]) find_range(s, w);
        g->fetched[n] = true;
    } else if (vector_takes_elements(s->op)) {
        streams = move_elements(g, n, w);
    } else if (rows_takes_kept(s->op)) {
        plain = !s->passes && g->plain[s->area];
    } else if (!first && rounding == VECTOR_ROUND && sums_stay_within(g, w)) {
        rounding = VECTOR_SIGNIFICAND;
    }
    if (w->rounding == rounding && w->streams == streams && w->plain == plain) return false;
    w->rounding = rounding;
    w->streams = streams;
    w->plain = plain;
    return true;
}

// All iterations of the innermost loop, the last of which looks ahead to the next block's first.
static void run_innermost(const progress *g, const rows_item *item, vector_step *steps,
                          const vector_program *w)
{
    const uint32_t last = g->c->loops - 1;
    uint32_t moving[ROWS_MOST_STEPS], count = 0;
    int64_t further[ROWS_MOST_STEPS], ahead[ROWS_MOST_STEPS];
    for (uint32_t n = 0; n < item->count; n++) {
        const rows_step *s = &g->c->steps.items[item->first + n];
        if (!vector_takes_elements(s->op)) continue;
        further[count] = s->place.outer[last];
        ahead[count] = steps[n].ahead - further[count] * (g->c->iterations[last] - 1);
        steps[n].ahead = further[count];
        moving[count++] = n;
    }
    for (uint32_t i = 0; i < g->c->iterations[last]; i++) {
        if (i + 1 == g->c->iterations[last])
            for (uint32_t n = 0; n < count; n++) steps[moving[n]].ahead = ahead[n];
        simd_in_use()->run_program(w, g->code[item->first]);
        for (uint32_t n = 0; n < count; n++) steps[moving[n]].at += further[n];
    }
}

static void look_at_kept(progress *g, const rows_item *item)
{
    const size_t count = g->c->sticks * g->count * STICK;
    for (uint32_t n = 0; n < item->count; n++) {
        const rows_step *s = &g->c->steps.items[item->first + n];
        if (s->op != VECTOR_KEEP) continue;
        g->plain[s->area] =
            simd_in_use()->are_plain(g->kept[(size_t)s->area * g->c->sticks * g->c->block], count);
    }
}

static void run_vector_program(progress *g, const rows_item *item)
{
    const uint32_t at = item->first;
    vector_step *steps = &g->bound[at];
    vector_program w = {.steps = steps, .count = item->count, .rows = g->count,
                        .sticks = g->c->sticks, .half = g->c->half,
                        .rows_ahead = g->c->rows_ahead};
    for (uint32_t n = 0; n < item->count; n++)
        if (move(g, at + n, n == 0)) g->coded[at] = false;
    if (!g->coded[at]) g->code[at] = vector_code_of(&w);
    g->coded[at] = true;
    if (g->c->inner && !item->once) run_innermost(g, item, steps, &w);
    else simd_in_use()->run_program(&w, g->code[at]);
}

static void run_tile(const progress *g, const rows_item *item, uint8_t *const *base,
                     plan_scratch *scratch)
{
    const plan_tile *tile = item->tile[g->count != g->c->block];
    uint8_t *address[ISA_MAX_OPERANDS];
    float constant[ISA_MAX_OPERANDS];
    for (uint32_t o = 0; o < item->operands; o++) {
        const rows_operand *operand = &item->operand[o];
        constant[o] = operand->value;
        if (operand->constant) address[o] = (uint8_t *)&constant[o];
        else if (operand->sums != ROWS_NONE) address[o] = (uint8_t *)g->sums[operand->sums];
        else address[o] = base[o] + before_block(g, &operand->place);
    }
    tile_run(tile, address, scratch);
}

static void run_block(const core_run *run, progress *g, const plan_phase *first)
{
    for (uint32_t n = 0; n < g->c->items.count; n++) {
        const rows_item *item = &g->c->items.items[n];
        uint8_t *base[ISA_MAX_OPERANDS] = {NULL};
        if (item->once && !g->begins) continue;
        if (item->count) {
            run_vector_program(g, item);
            if (item->once) look_at_kept(g, item);
            continue;
        }
        for (uint32_t o = 0; o < item->operands; o++)
            if (item->operand[o].sums == ROWS_NONE && !item->operand[o].constant)
                base[o] = address_of(run, g, &item->operand[o].place, first);
        run_tile(g, item, base, run->scratch);
    }
}

static void place_steps(const core_run *run, progress *g, const plan_phase *first)
{
    for (uint32_t n = 0; n < g->c->steps.count; n++) {
        const rows_step *s = &g->c->steps.items[n];
        g->halves[n] = vector_takes_elements(s->op) && in_halves(run, &s->place);
        if (vector_takes_elements(s->op)) g->step[n] = address_of(run, g, &s->place, first);
        if (s->op == VECTOR_LINE_Y) fetch_line(g, n);
        bind(g, n);
        g->coded[n] = g->fetched[n] = false;
    }
}

// Of another core. True where one element for all rows lies elsewhere, on whose range the code
// depends.
static bool replace_steps(const core_run *run, progress *g, const plan_phase *first)
{
    bool otherwise = false;
    for (uint32_t n = 0; n < g->c->steps.count; n++) {
        const rows_step *s = &g->c->steps.items[n];
        if (!vector_takes_elements(s->op)) continue;
        uint8_t *const at = address_of(run, g, &s->place, first);
        otherwise |= at != g->step[n] && vector_takes_rows(s->op) && !s->filled &&
                     is_same_for_all(s);
        g->step[n] = at;
        if (s->op == VECTOR_LINE_Y) fetch_line(g, n);
    }
    return otherwise;
}

// The next iteration of the loops from `from` to `to`; false behind the last one.
static bool next_iteration(progress *g, uint32_t from, uint32_t to)
{
    for (uint32_t n = to; n-- > from;) {
        if (++g->iteration[n] < g->c->iterations[n]) return true;
        g->iteration[n] = 0;
    }
    return false;
}

// One block in all iterations that it goes through.
static void run_iterations(const core_run *run, progress *g, const plan_phase *first)
{
    const row_fusion *c = g->c;
    g->begins = true;
    do {
        if (c->inner) place_steps(run, g, first);
        run_block(run, g, first);
        g->begins = false;
    } while (c->inner > 1 && next_iteration(g, c->loops - c->inner, c->loops - 1));
}

// All blocks of rows, in one iteration of the other loops. `bound`: of another core, steps are.
static void run_rows(const core_run *run, progress *g, const plan_phase *first, row_range rows,
                     bool bound)
{
    const row_fusion *c = g->c;
    if (!bound || replace_steps(run, g, first)) place_steps(run, g, first);
    for (g->first = rows.begin; g->first < rows.end; g->first += g->count) {
        if (card_stops(run->owner)) break;
        const size_t group = g->first - g->first % c->group + c->group;
        const size_t left = (group < rows.end ? group : rows.end) - g->first;
        g->count = left < c->block ? left : c->block;
        run_iterations(run, g, first);
    }
}

void rows_run(core_run *run, const row_fusion *c, const plan_phase *first, row_range rows)
{
    rows_thread *t = run->scratch->fusion;
    progress *g = &t->g;
    const uint64_t stage = run->owner->stages;
    const bool bound = t->stage == stage && t->phase == first && g->c == c && !c->loops;
    t->stage = stage;
    t->phase = first;
    if (!bound)
        *g = (progress){.c = c, .bound = t->bound, .kept = t->kept, .sums = t->sums,
                        .rows = t->rows, .row_at = t->row_at, .own = t->own};
    do run_rows(run, g, first, rows, bound);
    while (next_iteration(g, 0, c->loops - c->inner));
    run->state = ADVANCE_DONE;
}
