// SPDX-License-Identifier: Apache-2.0
//
// One executable for several sizes of some dims: its programs with corrections
// (symbolic_program.h), and where tensors lie. Every size in a view, layout or count of bytes is
// the same at the smaller size of a dim, a multiple of the square of the dim, or grows by as much
// for each granule of it; so it follows from two sizes, and from one dim after the other. That the
// square of n - 1, or what is rounded up to sticks, grows otherwise shows at the least sizes, which
// are compared wherever a number is no multiple of the dim: n / 48 sticks of 64 grow by one from
// 192 to 240, but not all the way.
#include "compile/sizes/size_rules.h"

#include <string.h>

#include "compile/cache/cache_table.h"
#include "compile/sizes/size_number.h"
#include "isa/corrections.h"

_Static_assert((int)SPYRE_MOST_SIZES <= (int)BUNDLE_MAX_SYMBOLS, "a symbol a dim");

// --- Views, layouts and counts of bytes

// Numbers that are equal, and no others, are in it.
static const size_proportion EQUAL = {1, 1, 1, true, false};

static void scale_view(size_proportion *p, spyre_view *view, const spyre_view *most,
                       const spyre_view *next)
{
    p->fits = p->fits && most->rank == next->rank;
    for (uint32_t d = 0; p->fits && d < most->rank; d++) {
        size_scale(p, &view->size[d], most->size[d], next->size[d]);
        size_scale(p, &view->stride[d], most->stride[d], next->stride[d]);
    }
    p->fits = p->fits && most->offset == next->offset;
}

// How tensors lie on the card, of `views`. A size of the view that grows and one on the card that
// does not has been rounded up to sticks: the two sizes say nothing about others.
static void scale_layout(size_proportion *p, spyre_layout *layout, const spyre_view *most_view,
                         const spyre_layout *most, const spyre_view *next_view,
                         const spyre_layout *next)
{
    uint32_t grow = 0, follow = 0;
    p->fits = p->fits && most->rank == next->rank && most->format == next->format &&
              most->arrangement == next->arrangement && most_view->rank == next_view->rank;
    for (uint32_t d = 0; p->fits && d < most_view->rank; d++)
        grow += most_view->size[d] != next_view->size[d];
    for (uint32_t d = 0; p->fits && d < most->rank; d++)
        follow += most->device_size[d] != next->device_size[d];
    p->fits = p->fits && grow == follow;
    for (uint32_t d = 0; p->fits && d < most->rank; d++) {
        size_scale(p, &layout->device_size[d], most->device_size[d], next->device_size[d]);
        size_scale(p, &layout->stride_map[d], most->stride_map[d], next->stride_map[d]);
    }
}

// --- Inputs and outputs: those of a segment, which have copies of its own then, from those of the
// largest sizes and of the smaller one

static spyre_status scale_outputs(arena *memory, size_proportion *p, spyre_segment *info,
                                  const spyre_segment *most, const spyre_segment *next)
{
    p->fits = p->fits && most->output_count == next->output_count &&
              most->buffer_count == next->buffer_count;
    if (!p->fits) return NULL;
    spyre_segment_output *outputs = ARENA_NEW(memory, spyre_segment_output, info->output_count);
    TRY_ALLOC(outputs);
    for (uint32_t i = 0; i < info->output_count; i++) {
        const spyre_segment_output *from = &most->outputs[i], *other = &next->outputs[i];
        outputs[i] = info->outputs[i];
        scale_view(p, &outputs[i].type.view, &from->type.view, &other->type.view);
        scale_layout(p, &outputs[i].layout, &from->storage, &from->layout, &other->storage,
                     &other->layout);
        scale_view(p, &outputs[i].storage, &from->storage, &other->storage);
        size_scale(p, &outputs[i].bytes, from->bytes, other->bytes);
        p->fits = p->fits && from->input == other->input && from->value == other->value &&
                  from->buffer == other->buffer;
    }
    info->outputs = outputs;
    return NULL;
}

static spyre_status scale_inputs(arena *memory, size_proportion *p, spyre_segment *info,
                                 const spyre_segment *most, const spyre_segment *next)
{
    p->fits = p->fits && most->input_count == next->input_count;
    if (!p->fits) return NULL;
    spyre_view *storages = ARENA_NEW(memory, spyre_view, info->input_count);
    spyre_layout *layouts = ARENA_NEW(memory, spyre_layout, info->input_count);
    TRY_ALLOC(storages);
    spyre_layout *preferred = ARENA_NEW(memory, spyre_layout, info->input_count);
    TRY_ALLOC(layouts);
    TRY_ALLOC(preferred);
    for (uint32_t i = 0; i < info->input_count; i++) {
        const spyre_view *from = &most->input_storages[i], *other = &next->input_storages[i];
        storages[i] = info->input_storages[i];
        layouts[i] = info->input_layouts[i];
        preferred[i] = info->preferred_layouts[i];
        scale_view(p, &storages[i], from, other);
        scale_layout(p, &layouts[i], from, &most->input_layouts[i], other,
                     &next->input_layouts[i]);
        if (preferred[i].rank)
            scale_layout(p, &preferred[i], from, &most->preferred_layouts[i], other,
                         &next->preferred_layouts[i]);
    }
    info->input_storages = storages;
    info->input_layouts = layouts;
    info->preferred_layouts = preferred;
    return NULL;
}

static spyre_status scale_arguments(arena *memory, size_proportion *p, executable_segment *segment,
                                    const executable_segment *most, const executable_segment *next)
{
    job_argument *arguments = ARENA_NEW(memory, job_argument, segment->argument_count);
    TRY_ALLOC(arguments);
    for (uint32_t k = 0; k < segment->argument_count; k++) {
        arguments[k] = segment->arguments[k];
        if (arguments[k].kind == JOB_INPUT || arguments[k].kind == JOB_BUFFER)
            size_scale(p, &arguments[k].bytes, most->arguments[k].bytes, next->arguments[k].bytes);
    }
    segment->arguments = arguments;
    return NULL;
}

// Without the program.
static spyre_status scale_along(arena *memory, size_proportion *p, executable_segment *segment,
                                const executable_segment *most, const executable_segment *next)
{
    TRY(scale_outputs(memory, p, &segment->info, &most->info, &next->info));
    if (segment->info.kind != SPYRE_SEGMENT_CARD) return NULL;
    TRY(scale_inputs(memory, p, &segment->info, &most->info, &next->info));
    return p->fits ? scale_arguments(memory, p, segment, most, next) : NULL;
}

// Makes `segment`, a copy of `most`, one of these sizes, from those at the smaller ones. Where
// *out_fits becomes false it is none of them.
static spyre_status scale_segment(arena *memory, const size_rules *rules, const int64_t *sizes,
                                  const executable_segment *most,
                                  const executable_segment *const *smaller,
                                  executable_segment *segment, bool *out_fits)
{
    *out_fits = true;
    for (uint32_t k = 0; k < rules->count && *out_fits; k++) {
        size_proportion p = size_proportion_of(&rules->spans[k], sizes[k]);
        TRY(scale_along(memory, &p, segment, most, smaller[k]));
        *out_fits = p.fits && (!p.sums || rules->has_least);
    }
    return NULL;
}

// --- Finding the rules

static spyre_status segment_program(arena *memory, const executable_segment *segment,
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

// Whether what the numbers are by their rules at the sizes of smaller executable `number` is what
// they are there.
static spyre_status check_smaller(const size_rules *rules, const executable_segment *segment,
                                  const executable_segment *const *smaller, uint32_t number,
                                  bool *out_fit)
{
    int64_t sizes[SPYRE_MOST_SIZES];
    size_proportion equal = EQUAL;
    executable_segment scaled = *segment;
    size_smaller_sizes(rules, number, sizes);
    TRY(scale_segment(rules->memory, rules, sizes, segment, smaller, &scaled, out_fit));
    if (!*out_fit) return NULL;
    executable_segment same = scaled;
    TRY(scale_along(rules->memory, &equal, &same, &scaled, smaller[number]));
    *out_fit = equal.fits;
    return NULL;
}

// Whether numbers follow from sizes: at one granule of each they are whole ones, and where all dims
// are smaller they are what they are there.
static spyre_status check_scales(const size_rules *rules, const executable_segment *segment,
                                 const executable_segment *const *smaller, bool *out_fit)
{
    int64_t granules[SPYRE_MOST_SIZES];
    executable_segment scaled = *segment;
    for (uint32_t k = 0; k < rules->count; k++) granules[k] = rules->spans[k].granule;
    TRY(scale_segment(rules->memory, rules, granules, segment, smaller, &scaled, out_fit));
    for (uint32_t n = rules->count; n < size_smaller_count(rules) && *out_fit; n++)
        TRY(check_smaller(rules, segment, smaller, n, out_fit));
    return NULL;
}

static spyre_status find_segment(size_rules *rules, const executable_segment *segment,
                                 const executable_segment *const *smaller, size_segment *out,
                                 const char **out_why)
{
    bool is_card = segment->info.kind == SPYRE_SEGMENT_CARD, fit;
    for (uint32_t n = 0; n < size_smaller_count(rules) && is_card && !*out_why; n++)
        *out_why = size_compare_plans(segment, smaller[n]);
    if (*out_why) return NULL;
    TRY(check_scales(rules, segment, smaller, &fit));
    if (!fit)
        *out_why = rules->has_least ? "a size is rounded up, or no sum of the dim and a number"
                                    : size_no_third;
    if (*out_why || !is_card) return NULL;
    TRY(size_constants_find(rules, segment, smaller, out, out_why));
    if (*out_why) return NULL;
    TRY(size_symbolic_bundle(rules, segment, smaller, &out->symbolic, out_why));
    return *out_why ? NULL : segment_program(rules->memory, segment, out, out_why);
}

static bool same_segments(const spyre_executable *a, const spyre_executable *b)
{
    bool same = a->segment_count == b->segment_count;
    for (uint32_t s = 0; same && s < a->segment_count; s++) {
        const spyre_segment *mine = &a->segments[s].info, *its = &b->segments[s].info;
        same = mine->kind == its->kind && mine->node_count == its->node_count &&
               memcmp(mine->nodes, its->nodes, mine->node_count * sizeof *mine->nodes) == 0;
    }
    return same;
}

// Segment `s` of executables at smaller sizes.
typedef struct {
    const executable_segment *at[SIZE_MOST_SMALLER];
} smaller_segments;

static smaller_segments segments_of(const size_rules *rules,
                                    const spyre_executable *const *smaller, uint32_t s)
{
    smaller_segments found = {0};
    for (uint32_t n = 0; n < size_smaller_count(rules); n++)
        found.at[n] = &smaller[n]->segments[s];
    return found;
}

static spyre_status rules_of_segments(size_rules *rules, const spyre_executable *largest,
                                      const spyre_executable *const *smaller, const char **out_why)
{
    for (uint32_t n = 0; n < size_smaller_count(rules); n++)
        if (!same_segments(largest, smaller[n]))
            *out_why = "other parts of the graph are the host's at another size";
    TRY_NEW(rules->memory, rules->segments, largest->segment_count);
    for (uint32_t s = 0; s < largest->segment_count && !*out_why; s++) {
        const smaller_segments other = segments_of(rules, smaller, s);
        TRY(status_at(find_segment(rules, &largest->segments[s], other.at, &rules->segments[s],
                                   out_why), "segment %u", s));
    }
    return NULL;
}

static spyre_status smaller_with_stages(const size_rules *rules, const spyre_executable **out)
{
    for (uint32_t n = 0; n < size_smaller_count(rules); n++)
        TRY(executable_with_stages(rules->smaller[n], &out[n]));
    return NULL;
}

static spyre_status find_in_stages(size_rules *rules, const spyre_executable *largest,
                                   const char **out_why)
{
    bool known;
    const spyre_executable *staged, *smaller[SIZE_MOST_SMALLER];
    TRY(size_rules_recall(rules, largest, &known, out_why));
    if (known) return NULL;
    TRY(executable_with_stages(largest, &staged));
    TRY(smaller_with_stages(rules, smaller));
    TRY(rules_of_segments(rules, staged, smaller, out_why));
    return size_rules_keep(rules, largest, *out_why);
}

static bool may_be_otherwise(const char *why)
{
    return strcmp(why, size_other_plan) == 0 || strcmp(why, size_no_slices) == 0 ||
           strcmp(why, size_part_of_stick) == 0;
}

// Rules, or the reason why there are none.
static spyre_status make_rules(spyre_executable *largest, spyre_executable *const *smaller,
                               uint32_t smaller_count, const spyre_size_span *spans,
                               uint32_t count, size_rules **out_rules,
                               spyre_sizes_verdict *out_verdict, text *reason)
{
    const char *why = NULL;
    arena *memory = arena_create();
    size_rules *rules = memory ? ARENA_NEW(memory, size_rules, 1) : NULL;
    if (!rules) arena_destroy(memory);
    TRY_ALLOC(rules);
    *rules = (size_rules){.memory = memory, .count = count};
    rules->has_least = smaller_count > size_corner_count(rules);
    rules->place = ARENA_NEW(memory, char, SIZE_PLACE_BYTES);
    if (!rules->place) arena_destroy(memory);
    TRY_ALLOC(rules->place);
    rules->place[0] = 0;
    memcpy(rules->spans, spans, count * sizeof *spans);
    memcpy(rules->smaller, smaller, size_smaller_count(rules) * sizeof *smaller);
    spyre_status status = find_in_stages(rules, largest, &why);
    if (why) {
        text_append(reason, rules->place);
        text_append(reason, why);
        *out_verdict = strcmp(why, size_no_third) == 0 ? SPYRE_SIZES_NEED_LEAST
                       : may_be_otherwise(why) ? SPYRE_SIZES_OTHER_PLAN : SPYRE_SIZES_REFUSED;
    }
    if (status || why) {
        arena_destroy(memory);
        return status;
    }
    for (uint32_t n = 0; n < size_smaller_count(rules); n++)
        cache_table_hold(rules->smaller[n]);
    *out_rules = rules;
    return NULL;
}

static spyre_status check_spans(const spyre_executable *largest, spyre_executable *const *smaller,
                                uint32_t smaller_count, const spyre_size_span *spans,
                                uint32_t count)
{
    if (count < 1 || count > SPYRE_MOST_SIZES)
        return status_new(SPYRE_INVALID_ARGUMENT, "%u dims have sizes: expected 1 to %d", count,
                          SPYRE_MOST_SIZES);
    for (uint32_t k = 0; k < count; k++) {
        const spyre_size_span *span = &spans[k];
        if (span->granule < 1 || span->most % span->granule || span->size % span->granule ||
            span->size < span->granule || span->size >= span->most)
            return status_new(SPYRE_INVALID_ARGUMENT,
                              "sizes %lld and %lld: expected two multiples of %lld, the larger "
                              "last", (long long)span->size, (long long)span->most,
                              (long long)span->granule);
    }
    uint32_t corners = count + (count > 1);
    if (smaller_count != corners && smaller_count != corners + 1)
        return status_new(SPYRE_INVALID_ARGUMENT, "%u executables of smaller sizes: %u dims have "
                          "%u or %u", smaller_count, count, corners, corners + 1);
    for (uint32_t n = 0; n < smaller_count; n++)
        if (smaller[n] == largest)
            return status_new(SPYRE_INVALID_ARGUMENT, "executable %u of smaller sizes is that of "
                              "the largest", n);
    return NULL;
}

static bool serves(const spyre_executable *largest, const spyre_size_span *spans, uint32_t count)
{
    const size_rules *rules = largest->sizes;
    bool same = rules && rules->count == count;
    for (uint32_t k = 0; same && k < count; k++)
        same = rules->spans[k].most == spans[k].most && rules->spans[k].granule == spans[k].granule;
    return same;
}

spyre_status spyre_executable_serve_sizes(spyre_executable *largest,
                                          spyre_executable *const *smaller,
                                          uint32_t smaller_count, const spyre_size_span *spans,
                                          uint32_t count, spyre_sizes_verdict *out_verdict,
                                          char **out_reason)
{
    text reason = {0};
    *out_verdict = SPYRE_SIZES_SERVED;
    *out_reason = NULL;
    TRY(check_spans(largest, smaller, smaller_count, spans, count));
    pthread_mutex_lock(&largest->lock);
    bool known = serves(largest, spans, count);
    pthread_mutex_unlock(&largest->lock);
    if (known) return NULL;
    size_rules *rules = NULL;
    spyre_status status = make_rules(largest, smaller, smaller_count, spans, count, &rules,
                                     out_verdict, &reason);
    pthread_mutex_lock(&largest->lock);
    if (rules && !largest->sizes) largest->sizes = rules;
    else size_rules_destroy(rules);
    pthread_mutex_unlock(&largest->lock);
    return reason.length ? text_give(&reason, status, out_reason) : status;
}

// --- An executable at some sizes

static spyre_status correct_constants(arena *memory, executable_segment *segment,
                                      const size_segment *rule, const size_rules *rules,
                                      const int64_t *sizes)
{
    job_argument *arguments = ARENA_NEW(memory, job_argument, segment->argument_count);
    TRY_ALLOC(arguments);
    for (uint32_t k = 0; k < segment->argument_count; k++) {
        job_argument *argument = &arguments[k];
        const uint8_t *bytes;
        *argument = segment->arguments[k];
        if (argument->kind != JOB_CONSTANTS) continue;
        TRY(size_constants_at(memory, rules, rule, sizes, argument->data, argument->bytes, &bytes));
        argument->data = bytes;
        if (rule->symbolic) segment->front.bundle->constants = bytes;
    }
    segment->arguments = arguments;
    return NULL;
}

static spyre_status program_at_sizes(spyre_executable *e, executable_segment *segment,
                                     const size_segment *rule, const size_rules *rules,
                                     const int64_t *sizes)
{
    const isa_program *family = rule->program;
    int64_t granules[SPYRE_MOST_SIZES];
    for (uint32_t k = 0; k < rules->count; k++) granules[k] = sizes[k] / rules->spans[k].granule;
    int64_t *values = ARENA_NEW(e->memory, int64_t, family->value_count);
    int64_t *bytes = ARENA_NEW(e->memory, int64_t, family->arg_count);
    TRY_ALLOC(values);
    TRY_ALLOC(bytes);
    for (uint32_t v = 0; v < family->value_count; v++)
        TRY(spyrecode_evaluate(&rule->sizes, v, granules, &values[v]));
    TRY(isa_correct(e->memory, family, values, &segment->program));
    for (uint32_t k = 0; k < family->arg_count; k++) bytes[k] = segment->arguments[k].bytes;
    segment->program->arg_bytes = bytes;
    if (rule->symbolic)
        TRY(bundle_bind(e->memory, rule->symbolic, sizes, &segment->front.bundle));
    return correct_constants(e->memory, segment, rule, rules, sizes);
}

static spyre_status fill(spyre_executable *e, const spyre_executable *largest,
                         const size_rules *rules, const int64_t *sizes)
{
    const spyre_executable *smaller[SIZE_MOST_SMALLER];
    for (uint32_t n = 0; n < size_smaller_count(rules); n++) smaller[n] = rules->smaller[n];
    e->segment_count = largest->segment_count;
    TRY_NEW(e->memory, e->segments, e->segment_count);
    for (uint32_t s = 0; s < e->segment_count; s++) {
        bool fits;      // as check_scales() has found
        const smaller_segments other = segments_of(rules, smaller, s);
        executable_segment *segment = &e->segments[s];
        *segment = largest->segments[s];
        segment->job = NULL;
        segment->loop_dump = (text){0};
        if (!e->prepared) {             // no stages, or those of another size
            segment->graph = NULL;
            segment->front = (front_result){0};
        }
        TRY(scale_segment(e->memory, rules, sizes, &largest->segments[s], other.at, segment,
                          &fits));
        if (segment->info.kind != SPYRE_SEGMENT_CARD) continue;
        TRY(program_at_sizes(e, segment, &rules->segments[s], rules, sizes));
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
                                 const size_rules *rules, const int64_t *sizes,
                                 spyre_executable **out)
{
    spyre_executable *e = executable_create();
    TRY_ALLOC(e);
    e->base = cache_table_hold(largest);
    e->prepared = has_bundles(rules, from) ? from->prepared : NULL;
    e->fates = executable_fates(from, &e->fate_count);
    e->options = largest->options;
    memcpy(e->at_sizes, sizes, rules->count * sizeof *sizes);
    e->make_stages = stages_at_size;
    spyre_status status = fill(e, from, rules, sizes);
    if (status) spyre_executable_destroy(e);
    else *out = e;
    return status;
}

// The symbolic bundles of rules that were read, as they were when the rules were found.
static spyre_status complete(spyre_executable *largest, const spyre_executable *staged)
{
    const spyre_executable *smaller[SIZE_MOST_SMALLER];
    spyre_status status = NULL;
    TRY(smaller_with_stages(largest->sizes, smaller));
    pthread_mutex_lock(&largest->lock);
    size_rules *rules = largest->sizes;
    for (uint32_t s = 0; s < staged->segment_count && !status; s++) {
        const char *why = NULL;
        if (staged->segments[s].info.kind != SPYRE_SEGMENT_CARD || rules->segments[s].symbolic)
            continue;
        const smaller_segments other = segments_of(rules, smaller, s);
        status = size_symbolic_bundle(rules, &staged->segments[s], other.at,
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
    return make_at_size(sized->base, staged, sized->base->sizes, sized->at_sizes, out_stages);
}

static spyre_status check_sizes(const size_rules *rules, const int64_t *sizes, uint32_t count)
{
    if (!rules || count != rules->count)
        return status_new(SPYRE_INVALID_ARGUMENT, "%u sizes are given, the program serves %u",
                          count, rules ? rules->count : 0);
    for (uint32_t k = 0; k < count; k++) {
        const spyre_size_span *span = &rules->spans[k];
        if (sizes[k] < span->granule || sizes[k] > span->most || sizes[k] % span->granule)
            return status_new(SPYRE_INVALID_ARGUMENT,
                              "size %lld: the program serves multiples of %lld up to %lld",
                              (long long)sizes[k], (long long)span->granule,
                              (long long)span->most);
    }
    return NULL;
}

spyre_status spyre_executable_at_sizes(spyre_executable *largest, const int64_t *sizes,
                                       uint32_t count, spyre_executable **out_executable)
{
    pthread_mutex_lock(&largest->lock);
    const size_rules *rules = largest->sizes;
    pthread_mutex_unlock(&largest->lock);
    TRY(check_sizes(rules, sizes, count));
    return make_at_size(largest, largest, rules, sizes, out_executable);
}
