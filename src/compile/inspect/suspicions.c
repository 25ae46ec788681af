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

#include "bundle/derived.h"
#include "bundle/interpret.h"
#include "bundle/unroll.h"
#include "compile/sizes.h"
#include "spyre/opfunc.h"

#define MOST_STICKS (1LL << 26)             // 8 GiB
enum { LX_STICKS = BUNDLE_LX_BYTES / SPYRE_STICK_BYTES, MOST_LINES = 40 };

// A stick of a space: an argument, or the LX of a core.
typedef struct {
    uint32_t writer, reader;                // number of the step + 1; 0: none
    uint8_t core;                           // of the writer
    bool read;                              // since
} stick;

typedef struct {
    stick *sticks;
    int64_t count;
} space;

typedef struct {
    const bundle *b;                        // without loops
    space *arguments;                       // an entry an argument
    space lx[BUNDLE_MAX_CORES];
    int64_t *written, *lost;                // by step: sticks it wrote; of these, lost to the step
                                            // that is looked at
    const bundle_step *step;
    uint32_t number;
    text *out;
    uint32_t lines;
} look;

SPYRE_PRINTF(2, 3) static void find(look *l, const char *format, ...)
{
    if (l->lines++ == 0) text_append(l->out, "\nsuspicious\n");
    if (l->lines > MOST_LINES) return;
    va_list values;
    va_start(values, format);
    text_printf(l->out, "    step %u %s: ", l->number, l->step->name);
    text_vprintf(l->out, format, values);
    text_append(l->out, "\n");
    va_end(values);
}

// --- One step by itself

static void look_at_gather(look *l, const bundle_tensor *t)
{
    if (t->index_kind != BUNDLE_INDEX_VALUE) return;
    if (sizes_asked(l->b, t) >= 0)
        find(l, "nothing says how many rows the table %s has; launches compile it for the size of "
                "argument %d", t->name, t->arg);
    for (uint32_t core = 1; core < l->step->core_count; core++)
        if (t->start[core] != t->start[0]) {
            find(l, "the cores' start addresses of the table %s are not used: front-ends compute "
                    "them as if it had a row for each index", t->name);
            return;
        }
}

static void look_at_gaps(look *l, const bundle_tensor *t)
{
    for (uint32_t d = 0; d < l->step->dim_count; d++)
        if (l->step->op == OPFUNC_RESTICKIFY && t->gap[d] && d != t->stick_dim)
            find(l, "backGapCore_ of %s in dim %s is taken as what the tensor lacks of N_, the "
                    "reverse of all other opfuncs", t->name, l->step->dim_name[d]);
}

static void look_at_ranks(look *l)
{
    const bundle_tensor *out = &l->step->tensors[l->step->output];
    if (l->step->op != OPFUNC_TOPKINDEX || out->format != SPYRE_FORMAT_SEN169_FP16) return;
    for (uint32_t d = 0; d < l->step->dim_count; d++)
        if (out->scale[d] < 0 && l->step->size[d] > 1024)
            find(l, "positions up to %lld are stored as SEN169_FP16, which is exact to 1024",
                 (long long)l->step->size[d] - 1);
}

static void look_at_mask(look *l)
{
    const bundle_step *step = l->step;
    if (step->mask_by_name)
        find(l, "maskingConstId_ names another constant than samv-maskvalue, which is taken: "
                "front-ends write 0 even where other constants come first");
}

static bool reads(const bundle_step *step, spyre_format format)
{
    for (uint32_t i = 0; i < step->input_count; i++)
        if (step->tensors[step->inputs[i]].format == format) return true;
    return false;
}

static void look_at_conversion(look *l)
{
    if (sizes_mistake_stick(l->b, l->step))
        find(l, "%s has a dim of one index and a gap, where its layout has a second stick of each "
                "row: the host finds other rows", l->step->tensors[l->step->output].name);
}

// How far from the tensor's first element the slice of `core` begins.
static int64_t slice_offset(const look *l, const bundle_tensor *t, const bundle_geometry *g,
                            uint32_t core)
{
    int64_t offset = 0;
    for (uint32_t d = 0; d < l->step->dim_count; d++) {
        if (!g->moves[d]) continue;
        int64_t first = bundle_slice_start(l->step, core, d);
        offset += d == t->stick_dim ? first / t->stick_elements * g->stride[d] +
                                          first % t->stick_elements * t->element_bytes
                                    : first * g->stride[d];
    }
    return offset;
}

static spyre_status look_at_starts(look *l, uint32_t number)
{
    const bundle_tensor *t = &l->step->tensors[number];
    bundle_geometry g;
    if (t->in_lx || t->owners || t->index_kind == BUNDLE_INDEX_VALUE) return NULL;
    TRY(bundle_tensor_geometry(l->b, l->step, number, &g));
    int64_t base = t->start[0] - slice_offset(l, t, &g, 0);
    for (uint32_t core = 1; core < l->step->core_count; core++) {
        int64_t there = base + slice_offset(l, t, &g, core);
        if (t->start[core] == there) continue;
        find(l, "core %u starts at byte %lld of %s, but its slices begin at byte %lld", core,
             (long long)t->start[core], t->name, (long long)there);
        return NULL;
    }
    return NULL;
}

// What no real card is known to compute.
static void look_at_opfunc(look *l)
{
    const opfunc_info *info = opfunc_describe(l->step->op);
    if (!opfunc_is_published(l->step->op))
        find(l, "%s is an opfunc of this project alone", info->name);
    else if ((opfunc_has_formula(l->step->op) || info->kind == OPFUNC_KIND_MATMUL) &&
             reads(l->step, SPYRE_FORMAT_IEEE_FP32) &&
             !spyre_opfunc_takes(l->step->op, SPYRE_DTYPE_F32, false))
        find(l, "%s of IEEE_FP32 needs the profile `extended`", info->name);
}

static spyre_status look_at_step(look *l)
{
    look_at_opfunc(l);
    for (uint32_t t = 0; t < l->step->tensor_count; t++) {
        look_at_gather(l, &l->step->tensors[t]);
        look_at_gaps(l, &l->step->tensors[t]);
        TRY(look_at_starts(l, t));
    }
    look_at_ranks(l);
    look_at_mask(l);
    look_at_conversion(l);
    return NULL;
}

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
    for (uint32_t i = 0; i < l->step->tensor_count; i++) {
        const bundle_tensor *t = &l->step->tensors[i];
        bundle_geometry geometry;
        if (t->in_lx || t->index_kind == BUNDLE_INDEX_VALUE) continue;
        TRY(bundle_tensor_geometry(l->b, l->step, i, &geometry));
        for (uint32_t loop = 0; loop < BUNDLE_MAX_LOOPS; loop++) {
            int64_t bytes = covered(t, &geometry, loop, counts);
            if (t->loop_stride[loop] > bytes)
                find(l, "%s advances by %lld bytes a round of loop %u, but a round covers %lld",
                     t->name, (long long)t->loop_stride[loop], loop, (long long)bytes);
        }
    }
    return NULL;
}

static spyre_status look_at_loops(look *l)
{
    int64_t counts[BUNDLE_MAX_LOOPS + 1] = {1, 1, 1, 1, 1};
    uint32_t depth = 0;
    for (uint32_t i = 0; i < l->b->body.count; i++) {
        const bundle_statement *statement = &l->b->body.items[i];
        if (statement->kind == BUNDLE_LOOP) counts[depth++] = statement->count;
        if (statement->kind == BUNDLE_END) counts[--depth] = 1;
        if (statement->kind != BUNDLE_EXECUTE) continue;
        l->number = statement->step;
        l->step = &l->b->steps.items[l->number];
        TRY(look_at_advances(l, counts));
    }
    return NULL;
}

// --- Sticks

// The stick at byte `offset`; null beyond what is followed or when memory is short.
static stick *stick_at(space *of, int64_t offset)
{
    int64_t at = offset / SPYRE_STICK_BYTES;
    if (at < 0 || at >= MOST_STICKS) return NULL;
    if (at >= of->count) {
        int64_t count = at + 1 > 2 * of->count ? at + 1 : 2 * of->count;
        stick *grown = realloc(of->sticks, (size_t)count * sizeof *grown);
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
    int64_t first = bundle_slice_start(l->step, core, d);
    int64_t count = bundle_slice_size(l->step, core, d);
    if (first + count > g->valid[d]) count = g->valid[d] - first;
    if (count < 0) count = 0;
    return d == t->stick_dim ? (count + t->stick_elements - 1) / t->stick_elements : count;
}

static void visit_core(look *l, const bundle_tensor *t, const bundle_geometry *g, uint32_t core,
                       visit *each)
{
    space *of = t->in_lx ? &l->lx[core] : &l->arguments[t->arg];
    int64_t count[BUNDLE_MAX_DIMS], index[BUNDLE_MAX_DIMS] = {0}, offset = t->start[core];
    for (uint32_t d = 0; d < l->step->dim_count; d++) {
        count[d] = g->moves[d] ? count_along(l, t, g, core, d) : 1;
        if (count[d] == 0) return;
    }
    for (uint32_t d = 0; d < l->step->dim_count;) {
        if (d == 0) {
            stick *at = stick_at(of, offset);
            if (at) each(l, t, core, at);
        }
        offset += g->stride[d];
        if (++index[d] < count[d]) {
            d = 0;
            continue;
        }
        offset -= count[d] * g->stride[d];
        index[d++] = 0;
    }
}

static spyre_status visit_sticks(look *l, uint32_t number, visit *each)
{
    const bundle_tensor *t = &l->step->tensors[number];
    bundle_geometry geometry;
    if (t->owners || t->index_kind == BUNDLE_INDEX_VALUE) return NULL;
    TRY(bundle_tensor_geometry(l->b, l->step, number, &geometry));
    for (uint32_t core = 0; core < l->step->core_count; core++)
        visit_core(l, t, &geometry, core, each);
    return NULL;
}

static void read_stick(look *l, const bundle_tensor *t, uint32_t core, stick *at)
{
    (void)core;
    at->read = true;
    at->reader = l->number + 1;
    if (t->in_lx && !at->writer) l->lost[l->number]++;
}

// Whether two cores have different parts of the output; those that differ in reduced dims share it.
static bool differ(const bundle_step *step, uint32_t a, uint32_t b)
{
    const bundle_tensor *out = &step->tensors[step->output];
    for (uint32_t d = 0; d < step->dim_count; d++)
        if (out->scale[d] > 0 && step->core_slice[a][d] != step->core_slice[b][d]) return true;
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
    if (before == l->number + 1) {
        if (at->core != core && differ(l->step, at->core, core)) l->lost[l->number]++;
        return;
    }
    if (before && !at->read && !is_fill(&l->b->steps.items[before - 1])) l->lost[before - 1]++;
    *at = (stick){.writer = l->number + 1, .reader = at->reader, .core = (uint8_t)core};
    l->written[l->number]++;
}

static void take_whole_argument(look *l, const bundle_tensor *t)
{
    space *of = &l->arguments[t->arg];
    for (int64_t i = 0; i < of->count; i++) of->sticks[i].read = true;
}

static spyre_status look_at_reads(look *l)
{
    const bundle_step *step = l->step;
    for (uint32_t i = 0; i < step->input_count + step->index_count; i++) {
        uint32_t number = i < step->input_count ? step->inputs[i]
                                                : step->indices[i - step->input_count];
        const bundle_tensor *t = &step->tensors[number];
        if (t->index_kind == BUNDLE_INDEX_VALUE && t->arg >= 0) take_whole_argument(l, t);
        l->lost[l->number] = 0;
        TRY(visit_sticks(l, number, read_stick));
        if (l->lost[l->number])
            find(l, "%s reads %lld sticks of LX that no step has written: what an earlier launch "
                    "left there, or nothing", t->name, (long long)l->lost[l->number]);
    }
    return NULL;
}

static spyre_status look_at_writes(look *l)
{
    memset(l->lost, 0, l->b->steps.count * sizeof *l->lost);
    TRY(visit_sticks(l, l->step->output, write_stick));
    if (l->lost[l->number])
        find(l, "cores with different slices write the same %lld sticks of %s",
             (long long)l->lost[l->number], l->step->tensors[l->step->output].name);
    for (uint32_t before = 0; before < l->number; before++)
        if (l->lost[before])
            find(l,
                 "writes over %lld of the %lld sticks that step %u %s wrote and nothing has read",
                 (long long)l->lost[before], (long long)l->written[before], before,
                 l->b->steps.items[before].name);
    return NULL;
}

// --- All of it

static spyre_status follow(look *l)
{
    for (uint32_t i = 0; i < l->b->body.count; i++) {
        if (l->b->body.items[i].kind != BUNDLE_EXECUTE) continue;
        l->number = l->b->body.items[i].step;
        l->step = &l->b->steps.items[l->number];
        TRY(look_at_step(l));
        TRY(look_at_reads(l));
        TRY(look_at_writes(l));
    }
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
    l->b = copy;
    l->arguments = ARENA_NEW(memory, space, copy->args.count);
    l->written = ARENA_NEW(memory, int64_t, copy->steps.count);
    l->lost = ARENA_NEW(memory, int64_t, copy->steps.count);
    TRY_ALLOC(l->arguments);
    TRY_ALLOC(l->written);
    TRY_ALLOC(l->lost);
    spyre_status status = follow(l);
    for (uint32_t i = 0; i < copy->args.count; i++) free(l->arguments[i].sticks);
    for (uint32_t i = 0; i < BUNDLE_MAX_CORES; i++) free(l->lx[i].sticks);
    return status;
}

spyre_status inspect_suspicions(const bundle *b, text *out)
{
    arena *memory = arena_create();
    TRY_ALLOC(memory);
    look l = {.b = b, .out = out};
    bundle *copy = NULL;
    spyre_status status = copy_bundle(memory, b, &copy);
    if (!status) status = look_at_loops(&l);
    if (!status) status = look_unrolled(&l, memory, copy);
    if (l.lines > MOST_LINES) text_printf(out, "    and %u more\n", l.lines - MOST_LINES);
    arena_destroy(memory);
    return status;
}
