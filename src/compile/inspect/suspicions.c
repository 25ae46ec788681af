// SPDX-License-Identifier: Apache-2.0
//
// Two kinds of findings. Some are told from one step. The others come from following every stick of
// memory and LX through the bundle, loops unrolled: which step wrote it last, on which core, and
// whether anything has read it since. So a tile that is written at another tile's place shows,
// whatever mistake put it there. Example: two steps of a loop over rows that keep the strides of
// the whole tensor, on tiles of two stick columns,
//
//     step 0 writes sticks 0..31, step 1 writes sticks 16..47: 16 sticks of step 0 are lost.
//
// At most MOST_STICKS of an argument are followed.
#include "compile/inspect/suspicions.h"

#include <stdlib.h>
#include <string.h>

#include "back/back.h"
#include "base/integer.h"
#include "base/odometer.h"
#include "bundle/step_facts.h"
#include "bundle/interpret.h"
#include "bundle/unroll.h"
#include "compile/inspect/findings.h"
#include "compile/spyrecode/launch_sizes.h"

#define MOST_STICKS (1LL << 26)             // 8 GiB
enum { LX_STICKS = BUNDLE_LX_BYTES / SPYRE_STICK_BYTES };

// A stick of a space: an argument, or the LX of a core.
typedef struct {
    uint32_t writer;                        // number of the step + 1; 0: none
    uint32_t crossed;                       // the same of one that reads it elsewhere than it
                                            // would write it
    uint8_t core;                           // of the writer
    bool read;                              // since
} stick;

typedef struct {
    stick *sticks;
    int64_t count;
} space;

typedef struct {
    findings f;                             // its bundle is without loops
    space *arguments;                       // an entry an argument
    space lx[BUNDLE_MAX_CORES];
    int64_t *written, *lost;                // by step: sticks it wrote; of these, lost to the step
                                            // that is looked at
    int64_t fresh, made, crossings;         // of an operand: sticks nothing wrote; other ones; of
                                            // a result: sticks that are read elsewhere
    bool in_place;                          // the operand is where the result is
    bool is_short;                          // of host memory, so that sticks were passed over
} look;

// --- Loops, before they are unrolled

// Bytes from the first to behind the last that a round of loop `outer` covers, with the rounds of
// the loops that take smaller steps.
static int64_t covered(const bundle_tensor *t, const bundle_geometry *geometry, uint32_t outer,
                       const int64_t *counts)
{
    int64_t bytes = geometry->bytes;
    for (uint32_t loop = 0; loop < BUNDLE_MAX_LOOPS; loop++)
        if (t->loop_stride[loop] < t->loop_stride[outer])
            bytes += (counts[loop] - 1) * t->loop_stride[loop];
    return bytes;
}

static spyre_status look_at_advances(look *l, const int64_t *counts)
{
    for (uint32_t i = 0; i < l->f.step->tensor_count; i++) {
        const bundle_tensor *t = &l->f.step->tensors[i];
        bundle_geometry geometry;
        if (t->in_lx || t->index_kind == BUNDLE_INDEX_VALUE) continue;
        TRY(bundle_tensor_geometry(l->f.b, l->f.step, i, &geometry));
        for (uint32_t loop = 0; loop < BUNDLE_MAX_LOOPS; loop++) {
            int64_t bytes = covered(t, &geometry, loop, counts);
            if (t->loop_stride[loop] > bytes)
                find(&l->f, "%s advances by %lld bytes a round of loop %u, but a round covers %lld",
                     t->name, (long long)t->loop_stride[loop], loop, (long long)bytes);
        }
    }
    return NULL;
}

static spyre_status look_at_loops(look *l)
{
    bundle_walk walk = bundle_walk_of(l->f.b);
    for (const bundle_step *step; (step = bundle_next_step(&walk));) {
        l->f.number = walk.number;
        l->f.step = step;
        TRY(look_at_advances(l, walk.rounds));
    }
    return NULL;
}

// --- Sticks

// The stick at byte `offset`; null beyond what is followed and, with *out_short, when host memory
// is short.
static stick *stick_at(space *of, int64_t offset, bool *out_short)
{
    int64_t at = offset / SPYRE_STICK_BYTES;
    if (at < 0 || at >= MOST_STICKS) return NULL;
    if (at >= of->count) {
        int64_t count = at + 1 > 2 * of->count ? at + 1 : 2 * of->count;
        stick *grown = realloc(of->sticks, (size_t)count * sizeof *grown);
        *out_short |= !grown;
        if (!grown) return NULL;
        memset(grown + of->count, 0, (size_t)(count - of->count) * sizeof *grown);
        *of = (space){grown, count};
    }
    return &of->sticks[at];
}

typedef void visit(look *l, const bundle_tensor *t, uint32_t core, stick *at);

// Elements, or sticks of the stick dim, that a core has of a dim along which the tensor moves.
static int64_t count_along(const look *l, const bundle_tensor *t, const bundle_geometry *g,
                           uint32_t core, uint32_t d)
{
    int64_t first = bundle_slice_start(l->f.step, core, d);
    int64_t count = bundle_slice_size(l->f.step, core, d);
    if (first + count > g->valid[d]) count = g->valid[d] - first;
    if (count < 0) count = 0;
    uint32_t number = (uint32_t)(t - l->f.step->tensors);
    const bundle_window *window = bundle_window_of(l->f.step, number, d);
    if (window && window->kernel == d) return 1; // the windows' first elements stand for all
    int64_t span = bundle_stick_span(t, d);
    return divide_up(count, span);
}

static void visit_core(look *l, const bundle_tensor *t, const bundle_geometry *g, uint32_t core,
                       visit *each)
{
    space *of = t->in_lx ? &l->lx[core] : &l->arguments[t->arg];
    int64_t count[BUNDLE_MAX_DIMS], index[BUNDLE_MAX_DIMS] = {0};
    odometer_place place = {g->stride, bundle_start(t, core)};
    for (uint32_t d = 0; d < l->f.step->dim_count; d++) {
        count[d] = g->moves[d] ? count_along(l, t, g, core, d) : 1;
        if (count[d] == 0) return;
    }
    do {
        stick *at = stick_at(of, place.at, &l->is_short);
        if (at) each(l, t, core, at);
    } while (odometer_next(l->f.step->dim_count, count, index, &place, 1));
}

static spyre_status visit_sticks(look *l, uint32_t number, visit *each)
{
    const bundle_tensor *t = &l->f.step->tensors[number];
    bundle_geometry geometry;
    if (t->owners || t->index_kind == BUNDLE_INDEX_VALUE) return NULL;
    TRY(bundle_tensor_geometry(l->f.b, l->f.step, number, &geometry));
    for (uint32_t core = 0; core < l->f.step->cores->core_count; core++)
        visit_core(l, t, &geometry, core, each);
    return l->is_short ? status_no_memory() : NULL;
}

static void read_stick(look *l, const bundle_tensor *t, uint32_t core, stick *at)
{
    (void)core, (void)t;
    at->read = true;
    if (!l->in_place) at->crossed = l->f.number + 1;
    if (at->writer) l->made++;
    else l->fresh++;
}

// Whether every element is read at the index at which the result is written, by the same core.
static spyre_status read_in_place(const look *l, uint32_t input, bool *out_so)
{
    const bundle_step *step = l->f.step;
    const bundle_tensor *in = &step->tensors[input], *out = &step->tensors[step->output];
    bundle_geometry a, b;
    *out_so = in->arg == out->arg && in->in_lx == out->in_lx &&
              bundle_same_starts(in, out, step->cores->core_count);
    if (!*out_so || step->op == OPFUNC_LAYERNORMSCALE) return NULL;
    TRY(bundle_tensor_geometry(l->f.b, step, input, &a));
    TRY(bundle_tensor_geometry(l->f.b, step, step->output, &b));
    *out_so = in->format == out->format && in->stick_dim == out->stick_dim;
    for (uint32_t d = 0; d < step->dim_count; d++) {
        bool alike = a.moves[d] == b.moves[d] && (!a.moves[d] || a.stride[d] == b.stride[d]);
        if (!alike && bundle_local_size(step, d) > 1) *out_so = false;
    }
    return NULL;
}

// Whether two cores have different parts of the output; those that differ in reduced dims share it.
static bool differ(const bundle_step *step, uint32_t a, uint32_t b)
{
    const bundle_tensor *out = &step->tensors[step->output];
    for (uint32_t d = 0; d < step->dim_count; d++)
        if (out->scale[d] > 0 && step->cores->core_slice[a][d] != step->cores->core_slice[b][d])
            return true;
    return false;
}

static bool is_fill(const bundle_step *step)
{
    for (uint32_t i = 0; i < step->input_count; i++)
        for (uint32_t d = 0; d < step->dim_count; d++)
            if (step->tensors[step->inputs[i]].scale[d] > 0 && step->size[d] > 1) return false;
    return true;
}

static void write_stick(look *l, const bundle_tensor *t, uint32_t core, stick *at)
{
    (void)t;
    uint32_t before = at->writer;
    if (at->crossed == l->f.number + 1) l->crossings++;
    if (before == l->f.number + 1) {
        if (at->core != core && differ(l->f.step, at->core, core)) l->lost[l->f.number]++;
        return;
    }
    if (before && !at->read && !is_fill(&l->f.b->steps.items[before - 1])) l->lost[before - 1]++;
    *at = (stick){.writer = l->f.number + 1, .crossed = at->crossed, .core = (uint8_t)core};
    l->written[l->f.number]++;
}

static void take_whole_argument(look *l, const bundle_tensor *t)
{
    space *of = &l->arguments[t->arg];
    for (int64_t i = 0; i < of->count; i++) of->sticks[i].read = true;
}

// What a shuffle takes from LX, which other slices own: all that lies there.
static spyre_status take_all_slices(look *l, uint32_t number)
{
    const bundle_tensor *t = &l->f.step->tensors[number];
    bundle_geometry g;
    TRY(bundle_tensor_geometry(l->f.b, l->f.step, number, &g));
    for (uint32_t core = 0; core < t->owners->core_count; core++)
        for (int64_t at = 0; at < g.bytes; at += SPYRE_STICK_BYTES) {
            stick *there = stick_at(&l->lx[core], bundle_start(t, core) + at, &l->is_short);
            if (there) there->read = true;
        }
    return l->is_short ? status_no_memory() : NULL;
}

static spyre_status look_at_reads(look *l)
{
    const bundle_step *step = l->f.step;
    for (uint32_t i = 0; i < step->input_count + step->index_count; i++) {
        uint32_t number = i < step->input_count ? step->inputs[i]
                                                : step->indices[i - step->input_count];
        const bundle_tensor *t = &step->tensors[number];
        if (t->index_kind == BUNDLE_INDEX_VALUE && t->arg >= 0) take_whole_argument(l, t);
        if (t->owners) TRY(take_all_slices(l, number));
        l->fresh = l->made = 0;
        TRY(read_in_place(l, number, &l->in_place));
        TRY(visit_sticks(l, number, read_stick));
        if (l->fresh && t->in_lx)
            find(&l->f, "%s reads %lld sticks of LX that no step has written: what an earlier "
                 "launch left there, or nothing", t->name, (long long)l->fresh);
        else if (l->fresh && l->made)
            find(&l->f, "%s reads %lld sticks that no step has written, beside %lld that steps "
                 "have", t->name, (long long)l->fresh, (long long)l->made);
    }
    return NULL;
}

static spyre_status look_at_writes(look *l)
{
    memset(l->lost, 0, l->f.b->steps.count * sizeof *l->lost);
    l->crossings = 0;
    TRY(visit_sticks(l, l->f.step->output, write_stick));
    if (l->crossings)
        find(&l->f, "%s takes the place of %lld sticks that the step reads for other elements: "
             "which of them it finds is not defined", l->f.step->tensors[l->f.step->output].name,
             (long long)l->crossings);
    if (l->lost[l->f.number])
        find(&l->f, "cores with different slices write the same %lld sticks of %s",
             (long long)l->lost[l->f.number], l->f.step->tensors[l->f.step->output].name);
    for (uint32_t before = 0; before < l->f.number; before++)
        if (l->lost[before])
            find(&l->f,
                 "writes over %lld of the %lld sticks that step %u %s wrote and nothing has read",
                 (long long)l->lost[before], (long long)l->written[before], before,
                 l->f.b->steps.items[before].name);
    return NULL;
}

// What steps have left in LX at the end.
static void look_at_leftovers(look *l)
{
    memset(l->lost, 0, l->f.b->steps.count * sizeof *l->lost);
    for (uint32_t core = 0; core < BUNDLE_MAX_CORES; core++)
        for (int64_t i = 0; i < l->lx[core].count; i++) {
            const stick *at = &l->lx[core].sticks[i];
            if (at->writer && !at->read) l->lost[at->writer - 1]++;
        }
    for (l->f.number = 0; l->f.number < l->f.b->steps.count; l->f.number++) {
        if (!l->lost[l->f.number]) continue;
        l->f.step = &l->f.b->steps.items[l->f.number];
        find(&l->f, "no step reads %lld of the %lld sticks of LX that it wrote: they are for a "
             "later launch, or for nothing", (long long)l->lost[l->f.number],
             (long long)l->written[l->f.number]);
    }
}

// Results that do not begin where their argument does: a tensor of a launch begins there, and so
// does all that a step makes of it.
static void look_at_beginnings(look *l)
{
    l->f.step = NULL;
    for (uint32_t k = 0; k < l->f.b->args.count; k++) {
        const space *of = &l->arguments[k];
        int64_t first = 0;
        bool reads = false;
        while (first < of->count && !of->sticks[first].writer) first++;
        for (int64_t i = 0; i < of->count && !reads; i++) reads = of->sticks[i].read;
        if (first && first < of->count && !reads)
            find(&l->f, "no step writes the first %lld sticks of argument %u, of which none is "
                 "read: right only for a part of it that is changed in place", (long long)first, k);
    }
}

// --- All of it

// Argument 0 may be the pool of a graph, which launches hand to every kernel.
static void look_at_arguments(look *l)
{
    for (uint32_t k = 1; k < l->f.b->args.count; k++) {
        bool used = false;
        for (uint32_t s = 0; s < l->f.b->steps.count; s++)
            for (uint32_t t = 0; t < l->f.b->steps.items[s].tensor_count; t++)
                used = used || l->f.b->steps.items[s].tensors[t].arg == (int32_t)k;
        if (!used) find(&l->f, "no step uses argument %u", k);
    }
}

// What is a bundle and still compiles to no program.
static spyre_status look_at_program(look *l, arena *memory)
{
    const back_options options = BACK_OPTIONS_INIT;
    isa_program *program;
    if (sizes_missing(l->f.b)) return NULL;
    spyre_status status = back_compile(l->f.b, &options, memory, &program);
    if (!status || spyre_status_code(status) == SPYRE_OUT_OF_MEMORY) return status;
    find(&l->f, "the back-end refuses it: %s", spyre_status_message(status));
    spyre_status_free(status);
    return NULL;
}

// The step once more, with nothing between the two.
static void look_at_repetition(look *l, const bundle_step *before)
{
    const bundle_step *step = l->f.step;
    if (!before || before->op != step->op || before->tensor_count != step->tensor_count ||
        before->cores->core_count != step->cores->core_count)
        return;
    for (uint32_t t = 0; t < step->tensor_count; t++) {
        const bundle_tensor *a = &before->tensors[t], *b = &step->tensors[t];
        if (a->arg != b->arg || a->in_lx != b->in_lx ||
            !bundle_same_starts(a, b, step->cores->core_count))
            return;
    }
    find(&l->f, "it does what the step before it has done, in the same places");
}

static spyre_status follow(look *l)
{
    const bundle_step *before = NULL;
    bundle_walk walk = bundle_walk_of(l->f.b);
    for (const bundle_step *step; (step = bundle_next_step(&walk));) {
        l->f.number = walk.number;
        l->f.step = step;
        TRY(inspect_one_step(&l->f));
        look_at_repetition(l, before);
        before = l->f.step;
        TRY(look_at_reads(l));
        TRY(look_at_writes(l));
    }
    look_at_leftovers(l);
    look_at_beginnings(l);
    return NULL;
}

static spyre_status copy_bundle(arena *memory, const bundle *b, bundle **out)
{
    bundle *copy = bundle_create(memory);
    TRY_ALLOC(copy);
    for (uint32_t i = 0; i < b->args.count; i++)
        TRY(VEC_PUSH(memory, &copy->args, b->args.items[i]));
    for (uint32_t i = 0; i < b->steps.count; i++)
        TRY(VEC_PUSH(memory, &copy->steps, b->steps.items[i]));
    for (uint32_t i = 0; i < b->body.count; i++)
        TRY(VEC_PUSH(memory, &copy->body, b->body.items[i]));
    *out = copy;
    return NULL;
}

static spyre_status look_unrolled(look *l, arena *memory, bundle *copy)
{
    uint32_t kept;
    TRY(bundle_unroll(copy, &kept));
    l->f.b = copy;
    TRY_NEW(memory, l->arguments, copy->args.count);
    TRY_NEW(memory, l->written, copy->steps.count);
    TRY_NEW(memory, l->lost, copy->steps.count);
    spyre_status status = follow(l);
    for (uint32_t i = 0; i < copy->args.count; i++) free(l->arguments[i].sticks);
    for (uint32_t i = 0; i < BUNDLE_MAX_CORES; i++) free(l->lx[i].sticks);
    return status;
}

spyre_status inspect_suspicions(const bundle *b, const bundle_warnings *known, text *out)
{
    arena *memory = arena_create();
    TRY_ALLOC(memory);
    look l = {.f = {.b = b, .out = out}};
    bundle *copy = NULL;
    for (uint32_t i = 0; i < known->count; i++) find(&l.f, "%s", known->items[i]);
    spyre_status status = copy_bundle(memory, b, &copy);
    if (!status) status = look_at_loops(&l);
    if (!status) status = look_unrolled(&l, memory, copy);
    l.f.b = b;
    l.f.step = NULL;
    if (!status) status = look_at_program(&l, memory);
    look_at_arguments(&l);
    if (l.f.lines > FINDINGS_MOST) text_printf(out, "    and %u more\n", l.f.lines - FINDINGS_MOST);
    arena_destroy(memory);
    return status;
}
