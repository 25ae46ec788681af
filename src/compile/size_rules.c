// SPDX-License-Identifier: Apache-2.0
//
// One executable for several sizes of a dim: its programs with corrections (symbolic_program.h),
// and where tensors lie. Every size in a view, layout or count of bytes is either the same at both
// sizes or a multiple of the dim's or of its square, so it follows by proportion; a size that is
// rounded up to sticks is neither and found out.
#include "compile/size_rules.h"

#include <string.h>

#include "compile/cache/cache_table.h"
#include "isa/numbers.h"

// --- Numbers by proportion

typedef struct {
    int64_t largest, next, granules;    // granules of the two sizes, and of the one that is made
    bool fits;
} proportion;

static proportion proportion_of(const size_rules *rules, int64_t size)
{
    return (proportion){rules->most / rules->granule, rules->size / rules->granule,
                        size / rules->granule, true};
}

// `*number` is that of the largest size, `next` that of the smaller one.
static void scale(proportion *p, int64_t *number, int64_t next)
{
    const int64_t n = p->largest, m = p->next, each = *number / n, area = each / n;
    if (*number == next) return;
    if (*number % n == 0 && next == each * m)
        *number = each * p->granules;
    else if (*number % n == 0 && each % n == 0 && next == area * m * m)
        *number = area * p->granules * p->granules;
    else
        p->fits = false;
}

static void scale_view(proportion *p, spyre_view *view, const spyre_view *next)
{
    p->fits = p->fits && view->rank == next->rank;
    for (uint32_t d = 0; p->fits && d < view->rank; d++) {
        scale(p, &view->size[d], next->size[d]);
        scale(p, &view->stride[d], next->stride[d]);
    }
    p->fits = p->fits && view->offset == next->offset;
}

// How `view` lies on the card. A size of the view that grows and one on the card that does not has
// been rounded up to sticks: the two sizes say nothing about others.
static void scale_layout(proportion *p, const spyre_view *view, const spyre_view *next_view,
                         spyre_layout *layout, const spyre_layout *next)
{
    uint32_t grow = 0, follow = 0;
    p->fits = p->fits && layout->rank == next->rank && layout->format == next->format &&
              layout->arrangement == next->arrangement && view->rank == next_view->rank;
    for (uint32_t d = 0; p->fits && d < view->rank; d++)
        grow += view->size[d] != next_view->size[d];
    for (uint32_t d = 0; p->fits && d < layout->rank; d++)
        follow += layout->device_size[d] != next->device_size[d];
    p->fits = p->fits && grow == follow;
    for (uint32_t d = 0; p->fits && d < layout->rank; d++) {
        scale(p, &layout->device_size[d], next->device_size[d]);
        scale(p, &layout->stride_map[d], next->stride_map[d]);
    }
}

// --- Inputs and outputs

static spyre_status scale_outputs(arena *memory, proportion *p, spyre_segment *info,
                                  const spyre_segment *next)
{
    p->fits = p->fits && info->output_count == next->output_count &&
              info->buffer_count == next->buffer_count;
    if (!p->fits) return NULL;
    spyre_segment_output *outputs = ARENA_NEW(memory, spyre_segment_output, info->output_count);
    TRY_ALLOC(outputs);
    for (uint32_t i = 0; i < info->output_count; i++) {
        const spyre_segment_output *other = &next->outputs[i];
        outputs[i] = info->outputs[i];
        scale_view(p, &outputs[i].type.view, &other->type.view);
        scale_layout(p, &info->outputs[i].storage, &other->storage, &outputs[i].layout,
                     &other->layout);
        scale_view(p, &outputs[i].storage, &other->storage);
        scale(p, &outputs[i].bytes, other->bytes);
        p->fits = p->fits && outputs[i].input == other->input && outputs[i].value == other->value &&
                  outputs[i].buffer == other->buffer;
    }
    info->outputs = outputs;
    return NULL;
}

static spyre_status scale_inputs(arena *memory, proportion *p, spyre_segment *info,
                                 const spyre_segment *next)
{
    p->fits = p->fits && info->input_count == next->input_count;
    if (!p->fits) return NULL;
    spyre_view *storages = ARENA_NEW(memory, spyre_view, info->input_count);
    spyre_layout *layouts = ARENA_NEW(memory, spyre_layout, info->input_count);
    TRY_ALLOC(storages);
    spyre_layout *preferred = ARENA_NEW(memory, spyre_layout, info->input_count);
    TRY_ALLOC(layouts);
    TRY_ALLOC(preferred);
    for (uint32_t i = 0; i < info->input_count; i++) {
        storages[i] = info->input_storages[i];
        layouts[i] = info->input_layouts[i];
        preferred[i] = info->preferred_layouts[i];
        scale_view(p, &storages[i], &next->input_storages[i]);
        const spyre_view *storage = &info->input_storages[i];
        scale_layout(p, storage, &next->input_storages[i], &layouts[i], &next->input_layouts[i]);
        if (preferred[i].rank)
            scale_layout(p, storage, &next->input_storages[i], &preferred[i],
                         &next->preferred_layouts[i]);
    }
    info->input_storages = storages;
    info->input_layouts = layouts;
    info->preferred_layouts = preferred;
    return NULL;
}

static spyre_status scale_arguments(arena *memory, proportion *p, executable_segment *segment,
                                    const executable_segment *next)
{
    job_argument *arguments = ARENA_NEW(memory, job_argument, segment->argument_count);
    TRY_ALLOC(arguments);
    for (uint32_t k = 0; k < segment->argument_count; k++) {
        arguments[k] = segment->arguments[k];
        if (arguments[k].kind == JOB_INPUT || arguments[k].kind == JOB_BUFFER)
            scale(p, &arguments[k].bytes, next->arguments[k].bytes);
    }
    segment->arguments = arguments;
    return NULL;
}

// A copy of a segment of the largest size at another one, without its program.
static spyre_status scale_segment(arena *memory, proportion *p, executable_segment *segment,
                                  const executable_segment *next)
{
    TRY(scale_outputs(memory, p, &segment->info, &next->info));
    if (segment->info.kind != SPYRE_SEGMENT_CARD) return NULL;
    TRY(scale_inputs(memory, p, &segment->info, &next->info));
    return p->fits ? scale_arguments(memory, p, segment, next) : NULL;
}

// --- Finding the rules

static spyre_status find_program(arena *memory, const executable_segment *segment,
                                 size_segment *out, const char **out_why)
{
    back_options options = BACK_OPTIONS_INIT;
    options.lx_reserved_bytes =
        (int64_t)(ISA_LX_BYTES * segment->front.loops->settings.dxp_lx_frac_avail);
    spyre_status status =
        symbolic_program_of(memory, out->symbolic, &options, &out->sizes, &out->program);
    if (spyre_status_code(status) != SPYRE_UNSUPPORTED) {
        TRY(status);
        if (!out->program) *out_why = "programs of some sizes differ in more than numbers";
        return NULL;
    }
    spyre_status_free(status);
    *out_why = "some size does not fit the plan of the largest";
    return NULL;
}

static spyre_status find_segment(size_rules *rules, const executable_segment *segment,
                                 const executable_segment *next, size_segment *out,
                                 const char **out_why)
{
    proportion p = proportion_of(rules, rules->granule);
    executable_segment scaled = *segment;
    if (segment->info.kind == SPYRE_SEGMENT_CARD) *out_why = size_compare_plans(segment, next);
    if (*out_why) return NULL;
    TRY(scale_segment(rules->memory, &p, &scaled, next));
    if (!p.fits)
        *out_why = "a size is rounded up, or proportional neither to the dim nor to its square";
    if (*out_why || segment->info.kind != SPYRE_SEGMENT_CARD) return NULL;
    TRY(size_symbolic_bundle(rules->memory, segment, next, rules->granule, rules->size,
                             rules->most, &out->symbolic, out_why));
    return *out_why ? NULL : find_program(rules->memory, segment, out, out_why);
}

static spyre_status find_rules(size_rules *rules, const spyre_executable *largest,
                               const spyre_executable *next, const char **out_why)
{
    bool same = largest->segment_count == next->segment_count;
    for (uint32_t s = 0; same && s < largest->segment_count; s++) {
        const spyre_segment *a = &largest->segments[s].info, *b = &next->segments[s].info;
        same = a->kind == b->kind && a->node_count == b->node_count &&
               memcmp(a->nodes, b->nodes, a->node_count * sizeof *a->nodes) == 0;
    }
    if (!same) *out_why = "other parts of the graph are the host's at another size";
    TRY_NEW(rules->memory, rules->segments, largest->segment_count);
    for (uint32_t s = 0; s < largest->segment_count && !*out_why; s++)
        TRY(status_at(find_segment(rules, &largest->segments[s], &next->segments[s],
                                   &rules->segments[s], out_why), "segment %u", s));
    return NULL;
}

static spyre_status find_in_stages(size_rules *rules, const spyre_executable *largest,
                                   const spyre_executable *next, const char **out_why)
{
    bool known;
    TRY(size_rules_recall(rules, largest, next, &known, out_why));
    if (known) return NULL;
    const spyre_executable *staged, *staged_next;
    TRY(executable_with_stages(largest, &staged));
    TRY(executable_with_stages(next, &staged_next));
    TRY(find_rules(rules, staged, staged_next, out_why));
    return size_rules_keep(rules, largest, next, *out_why);
}

// Rules, or the reason why there are none.
static spyre_status make_rules(spyre_executable *largest, spyre_executable *next, int64_t granule,
                               int64_t size, int64_t most, size_rules **out_rules,
                               spyre_sizes_verdict *out_verdict, text *reason)
{
    const char *why = NULL;
    arena *memory = arena_create();
    size_rules *rules = memory ? ARENA_NEW(memory, size_rules, 1) : NULL;
    if (!rules) arena_destroy(memory);
    TRY_ALLOC(rules);
    *rules = (size_rules){.memory = memory, .granule = granule, .size = size, .most = most};
    spyre_status status = find_in_stages(rules, largest, next, &why);
    if (why) {
        text_append(reason, why);
        *out_verdict = strcmp(why, size_other_plan) ? SPYRE_SIZES_REFUSED : SPYRE_SIZES_OTHER_PLAN;
    }
    if (status || why) {
        arena_destroy(memory);
        return status;
    }
    rules->next = cache_table_hold(next);
    *out_rules = rules;
    return NULL;
}

spyre_status spyre_executable_serve_sizes(spyre_executable *largest, spyre_executable *smaller,
                                          int64_t granule, int64_t size, int64_t most,
                                          spyre_sizes_verdict *out_verdict, char **out_reason)
{
    text reason = {0};
    *out_verdict = SPYRE_SIZES_SERVED;
    *out_reason = NULL;
    if (granule < 1 || most % granule || size % granule || size < granule || size >= most ||
        largest == smaller)
        return status_new(SPYRE_INVALID_ARGUMENT,
                          "sizes %lld and %lld: expected two multiples of %lld, the larger last",
                          (long long)size, (long long)most, (long long)granule);
    pthread_mutex_lock(&largest->lock);
    bool known = largest->sizes && largest->sizes->most == most &&
                 largest->sizes->granule == granule;
    pthread_mutex_unlock(&largest->lock);
    if (known) return NULL;
    size_rules *rules = NULL;
    spyre_status status = make_rules(largest, smaller, granule, size, most, &rules, out_verdict,
                                     &reason);
    pthread_mutex_lock(&largest->lock);
    if (rules && !largest->sizes) largest->sizes = rules;
    else size_rules_destroy(rules);
    pthread_mutex_unlock(&largest->lock);
    return reason.length ? text_give(&reason, status, out_reason) : status;
}

// --- An executable at a size

static spyre_status correct_program(spyre_executable *e, executable_segment *segment,
                                    const size_segment *rule, const size_rules *rules, int64_t size)
{
    const isa_program *family = rule->program;
    const int64_t granules = size / rules->granule;
    int64_t *values = ARENA_NEW(e->memory, int64_t, family->value_count);
    int64_t *bytes = ARENA_NEW(e->memory, int64_t, family->arg_count);
    TRY_ALLOC(values);
    TRY_ALLOC(bytes);
    for (uint32_t v = 0; v < family->value_count; v++)
        TRY(spyrecode_evaluate(&rule->sizes, v, &granules, &values[v]));
    TRY(isa_correct(e->memory, family, values, &segment->program));
    for (uint32_t k = 0; k < family->arg_count; k++) bytes[k] = segment->arguments[k].bytes;
    segment->program->arg_bytes = bytes;
    return rule->symbolic
               ? bundle_bind(e->memory, rule->symbolic, &size, &segment->front.bundle)
               : NULL;
}

static spyre_status fill(spyre_executable *e, const spyre_executable *largest,
                         const size_rules *rules, int64_t size)
{
    e->segment_count = largest->segment_count;
    TRY_NEW(e->memory, e->segments, e->segment_count);
    for (uint32_t s = 0; s < e->segment_count; s++) {
        proportion p = proportion_of(rules, size);
        executable_segment *segment = &e->segments[s];
        *segment = largest->segments[s];
        segment->job = NULL;
        segment->loop_dump = (text){0};
        if (!e->prepared) {             // no stages, or those of another size
            segment->graph = NULL;
            segment->front = (front_result){0};
        }
        TRY(scale_segment(e->memory, &p, segment, &rules->next->segments[s]));
        if (segment->info.kind != SPYRE_SEGMENT_CARD) continue;
        TRY(correct_program(e, segment, &rules->segments[s], rules, size));
        TRY(executable_make_job(e, s));
    }
    return NULL;
}

static bool has_bundles(const size_rules *rules, const spyre_executable *largest)
{
    for (uint32_t s = 0; s < largest->segment_count; s++)
        if (rules->segments[s].program && !rules->segments[s].symbolic) return false;
    return true;
}

static spyre_status stages_at_size(const spyre_executable *sized, spyre_executable **out_stages);

// Of the programs of `from`, which is `largest` or has its stages.
static spyre_status make_at_size(spyre_executable *largest, const spyre_executable *from,
                                 const size_rules *rules, int64_t size, spyre_executable **out)
{
    spyre_executable *e = executable_create();
    TRY_ALLOC(e);
    e->base = cache_table_hold(largest);
    e->prepared = has_bundles(rules, from) ? from->prepared : NULL;
    e->fates = executable_fates(from, &e->fate_count);
    e->options = largest->options;
    e->size = size;
    e->make_stages = stages_at_size;
    spyre_status status = fill(e, from, rules, size);
    if (status) spyre_executable_destroy(e);
    else *out = e;
    return status;
}

// The symbolic bundles of rules that were read, as they were when the rules were found.
static spyre_status complete(spyre_executable *largest, const spyre_executable *staged)
{
    const spyre_executable *next;
    spyre_status status = NULL;
    TRY(executable_with_stages(largest->sizes->next, &next));
    pthread_mutex_lock(&largest->lock);
    size_rules *rules = largest->sizes;
    for (uint32_t s = 0; s < staged->segment_count && !status; s++) {
        const char *why = NULL;
        if (staged->segments[s].info.kind != SPYRE_SEGMENT_CARD || rules->segments[s].symbolic)
            continue;
        status = size_symbolic_bundle(rules->memory, &staged->segments[s], &next->segments[s],
                                      rules->granule, rules->size, rules->most,
                                      &rules->segments[s].symbolic, &why);
        if (why && !status) status = status_new(SPYRE_INTERNAL, "segment %u: %s", s, why);
    }
    pthread_mutex_unlock(&largest->lock);
    return status;
}

static spyre_status stages_at_size(const spyre_executable *sized, spyre_executable **out_stages)
{
    const spyre_executable *staged;
    TRY(executable_with_stages(sized->base, &staged));
    TRY(complete(sized->base, staged));
    return make_at_size(sized->base, staged, sized->base->sizes, sized->size, out_stages);
}

spyre_status spyre_executable_at_size(spyre_executable *largest, int64_t size,
                                      spyre_executable **out_executable)
{
    pthread_mutex_lock(&largest->lock);
    const size_rules *rules = largest->sizes;
    pthread_mutex_unlock(&largest->lock);
    if (!rules || size < rules->granule || size > rules->most || size % rules->granule)
        return status_new(SPYRE_INVALID_ARGUMENT,
                          "size %lld: the program serves multiples of %lld up to %lld",
                          (long long)size, rules ? (long long)rules->granule : 0,
                          rules ? (long long)rules->most : 0);
    return make_at_size(largest, largest, rules, size, out_executable);
}
