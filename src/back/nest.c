// SPDX-License-Identifier: Apache-2.0
#include "back/nest.h"

#include <string.h>

#include "base/integer.h"
#include "bundle/step_facts.h"

int64_t nest_offset(const nest_operand *operand, uint32_t dim, int64_t i)
{
    if (operand->stride[dim] == 0) return 0;
    if (operand->tensor->count) return i * operand->stride[dim];
    if (bundle_stick_span(operand->tensor, dim) == 1) return i * operand->stride[dim];
    return bundle_offset_bits(operand->tensor, &operand->geometry, dim, i) / 8;
}

int64_t nest_granule(const nest *n, uint32_t dim)
{
    return n->stick_count[dim] ? n->sticks[dim][0] : 1;
}

int64_t nest_divisor(const nest *n, uint32_t dim, int64_t largest)
{
    int64_t granule = nest_granule(n, dim), unit = n->unit[dim], any = 0, even = 0;
    for (int64_t tile = largest / granule * granule; tile >= granule && !even; tile -= granule) {
        if (unit % tile) continue;
        if (!any) any = tile;
        if (unit / tile % 2 == 0) even = tile;
    }
    if (!any) return granule;
    return 2 * even >= any ? even : any;
}

bool nest_class_empty(const nest *n, const nest_class *c)
{
    for (uint32_t d = 0; d < n->dim_count; d++)
        if (c->size[d] == 0) return true;
    return false;
}

// Where one of two dims has a single index, of a symbolic size at a small one, both may have one
// stride; then it is as at larger sizes.
static bool lies_outside(const nest *n, uint32_t operand, uint32_t d, uint32_t other)
{
    const nest_operand *of = &n->operand[operand];
    bool outside = true; // the last one of both
    for (uint32_t i = 0; i < of->tensor->order_count; i++)
        if (of->tensor->order[i] == d || of->tensor->order[i] == other)
            outside = of->tensor->order[i] == d;
    return of->stride[d] == of->stride[other] ? outside : of->stride[d] > of->stride[other];
}

uint32_t nest_order(const nest *n, uint32_t operand, uint8_t out_dims[BUNDLE_MAX_DIMS])
{
    const int64_t *stride = n->operand[operand].stride;
    uint32_t count = 0;
    for (uint32_t d = 0; d < n->dim_count; d++) {
        if (n->most[d] == 1) continue;
        uint32_t at = count++;
        for (; at > 0; at--) {
            uint32_t before = out_dims[at - 1];
            bool stays = stride[d] != 0 && lies_outside(n, operand, before, d);
            if (stays || stride[before] == 0) break;
            out_dims[at] = out_dims[at - 1];
        }
        out_dims[at] = (uint8_t)d;
    }
    return count;
}

void nest_add_stick(nest *n, uint32_t dim, int64_t stick)
{
    int64_t *sticks = n->sticks[dim];
    uint32_t at = 0;
    while (at < n->stick_count[dim] && sticks[at] > stick) at++;
    if (at < n->stick_count[dim] && sticks[at] == stick) return;
    for (uint32_t later = n->stick_count[dim]++; later > at; later--)
        sticks[later] = sticks[later - 1];
    sticks[at] = stick;
}

// --- Operands

// The moments of exx2 and layernormscale lie in lanes 0 and 1 of a stick that is one place.
static bool has_two_lanes(const bundle_step *step, uint32_t tensor)
{
    if (opfunc_moments(step->op) == 2) return tensor == step->output;
    return step->op == OPFUNC_LAYERNORMSCALE && tensor != step->output;
}

// A dim is cut where its digits in a stick change, and where bytes have two of its elements.
static void add_sticks(nest *n, const bundle_tensor *t, uint32_t d)
{
    int64_t span = 1;
    if (t->format == SPYRE_FORMAT_SENINT4 && d == bundle_pair_dim(t)) nest_add_stick(n, d, 2);
    for (uint32_t i = 0; i < t->digit_count; i++) {
        if (t->digits[i].dim != d || t->digits[i].size == 1) continue;
        span *= t->digits[i].size;
        nest_add_stick(n, d, span);
    }
    if (t->digit_count == 0 && d == t->stick_dim) nest_add_stick(n, d, t->stick_elements);
}

// An index walks the dim: its sticks are no places of the iteration space.
static bool by_index(const bundle_tensor *t, uint32_t d)
{
    return t->index_kind == BUNDLE_INDEX_VALUE && t->max_size[d] == 1;
}

static spyre_status build_operand(const bundle *b, nest *n, uint32_t number)
{
    const bundle_step *step = n->step;
    const bundle_tensor *t = &step->tensors[number];
    nest_operand *operand = &n->operand[number];
    bundle_geometry geometry;
    TRY(bundle_tensor_geometry(b, step, number, &geometry));
    bool halves = t->format == SPYRE_FORMAT_SENINT4;
    *operand = (nest_operand){.tensor = t,
                              .format = halves ? SPYRE_FORMAT_SENINT8 : t->format,
                              .element = halves ? 1 : t->element_bytes,
                              .geometry = geometry,
                              .base = geometry.base,
                              .stick = t->stick_elements,
                              .stick_dim = t->stick_dim,
                              .lanes = 1};
    for (uint32_t d = 0; d < n->dim_count && t->count; d++)
        if (n->most[d] > 1) operand->stride[d] = t->count->step[d];
    for (uint32_t d = 0; d < n->dim_count && !t->count; d++)
        if (geometry.moves[d] && (n->most[d] > 1 || t->owners))
            operand->stride[d] = geometry.stride[d];
    if (has_two_lanes(step, number)) {
        operand->stride[t->stick_dim] = 0;
        operand->lanes = 2;
    }
    for (uint32_t d = 0; d < n->dim_count; d++)
        if (operand->stride[d] && !t->count && !by_index(t, d)) add_sticks(n, t, d);
    operand->slot = t->in_lx ? ISA_NO_SLOT : (uint16_t)n->slot_count++;
    return NULL;
}

// The code of all cores is one, so a place in LX, which is no parameter, is the same on all of
// them.
static spyre_status check_addresses(const nest *n, const bundle_tensor *t)
{
    for (uint32_t core = 1; core < n->step->cores->core_count && t->in_lx; core++)
        if (bundle_start(t, core) != t->start)
            return status_new(SPYRE_UNSUPPORTED,
                              "%s: cores 0 and %u have it at bytes %lld and %lld of LX", t->name,
                              core, (long long)t->start, (long long)bundle_start(t, core));
    return NULL;
}

// Where a core begins: bytes of an argument, or of numbers what its slice is ahead.
static int64_t core_start(const nest *n, const bundle_tensor *t, uint32_t core)
{
    if (!t->count) return bundle_start(t, core);
    int64_t ahead = 0;
    for (uint32_t d = 0; d < n->dim_count; d++)
        ahead += bundle_slice_start(n->step, core, d) * t->count->step[d];
    return ahead;
}

static spyre_status build_parameters(arena *memory, nest *n, uint32_t extra_slots)
{
    uint32_t used = n->slot_count;
    n->slot_count += extra_slots;
    TRY_NEW(memory, n->parameters, (size_t)ISA_CORES * n->slot_count);
    for (uint32_t o = 0; o < n->operand_count; o++) {
        const nest_operand *operand = &n->operand[o];
        TRY(check_addresses(n, operand->tensor));
        if (operand->slot >= used) continue;
        for (uint32_t core = 0; core < n->step->cores->core_count; core++)
            n->parameters[core * n->slot_count + operand->slot] =
                core_start(n, operand->tensor, core);
    }
    return NULL;
}

// --- Classes of cores

// Elements of a dim that really exist, counted over all cores.
static spyre_status whole_size(const bundle *b, const bundle_step *step, uint32_t d,
                               int64_t *out_size)
{
    *out_size = bundle_computed_size(step, d);
    if (step->op != OPFUNC_RESTICKIFY) return NULL;
    for (uint32_t t = 0; t < step->tensor_count; t++) {
        bundle_geometry geometry;
        TRY(bundle_tensor_geometry(b, step, t, &geometry));
        if (geometry.valid[d] < *out_size) *out_size = geometry.valid[d];
    }
    return NULL;
}

static void add_to_class(nest *n, uint32_t core, const int64_t *size)
{
    uint32_t c = 0;
    while (c < n->class_count && memcmp(n->classes[c].size, size, sizeof n->classes[c].size) != 0)
        c++;
    if (c == n->class_count)
        memcpy(n->classes[n->class_count++].size, size, sizeof n->classes[c].size);
    n->classes[c].cores |= 1u << core;
}

static spyre_status build_classes(const bundle *b, nest *n)
{
    int64_t whole[BUNDLE_MAX_DIMS];
    for (uint32_t d = 0; d < n->dim_count; d++) TRY(whole_size(b, n->step, d, &whole[d]));
    for (uint32_t core = 0; core < n->step->cores->core_count; core++) {
        int64_t size[BUNDLE_MAX_DIMS] = {0};
        for (uint32_t d = 0; d < n->dim_count; d++) {
            int64_t left = whole[d] - bundle_slice_start(n->step, core, d);
            size[d] = left < 0 ? 0 : left < n->size[d] ? left : n->size[d];
        }
        add_to_class(n, core, size);
        n->all_cores |= 1u << core;
    }
    return NULL;
}

// --- Merging

static bool same_in_all_classes(const nest *n, uint32_t d)
{
    for (uint32_t c = 0; c < n->class_count; c++)
        if (n->classes[c].size[d] != n->size[d]) return false;
    return true;
}

// Dims whose indices count something: ranks, or positions.
static bool counts(const nest *n, uint32_t d)
{
    return bundle_is_rank_dim(n->step, d) || bundle_is_scan_dim(n->step, d);
}

// Reduced dims are combined in the order of N_, and so are dims that count: only neighbours in it
// may merge.
static bool order_allows(const nest *n, uint32_t outer, uint32_t inner)
{
    bool reduced = n->reduced[outer], ranks = counts(n, outer);
    if (reduced != n->reduced[inner] || ranks != counts(n, inner)) return false;
    if (!reduced && !ranks) return true;
    if (outer > inner) return false;
    for (uint32_t d = outer + 1; d < inner; d++) {
        bool between = reduced ? n->reduced[d] : counts(n, d);
        if (between && n->most[d] > 1) return false;
    }
    return true;
}

// True when a dim lies between two others in an operand that may have one index or more.
static bool is_apart(const nest *n, const nest_operand *operand, uint32_t outer, uint32_t inner)
{
    const int64_t *stride = operand->stride;
    for (uint32_t d = 0; d < n->dim_count; d++)
        if (d != outer && d != inner && n->unit[d] && stride[d] && stride[d] >= stride[inner] &&
            stride[d] <= stride[outer])
            return true;
    return false;
}

static bool can_merge(const nest *n, uint32_t outer, uint32_t inner)
{
    if (outer == inner || n->most[outer] == 1 || n->most[inner] == 1) return false;
    if (n->stick_count[outer] || n->stick_count[inner]) return false;
    if (!order_allows(n, outer, inner)) return false;
    if (!same_in_all_classes(n, outer) || !same_in_all_classes(n, inner)) return false;
    for (uint32_t o = 0; o < n->operand_count; o++) {
        const int64_t *stride = n->operand[o].stride;
        if (stride[outer] != stride[inner] * n->size[inner]) return false;
        if (is_apart(n, &n->operand[o], outer, inner)) return false;
    }
    return true;
}

static void merge(nest *n, uint32_t outer, uint32_t inner)
{
    if (n->unit[inner] || n->unit[outer])
        n->unit[inner] = (n->unit[inner] ? n->unit[inner] : n->size[inner]) *
                         (n->unit[outer] ? n->unit[outer] : n->size[outer]);
    n->unit[outer] = 0;
    n->most[inner] *= n->most[outer];
    n->size[inner] *= n->size[outer];
    n->size[outer] = n->most[outer] = 1;
    for (uint32_t o = 0; o < n->operand_count; o++) n->operand[o].stride[outer] = 0;
    for (uint32_t c = 0; c < n->class_count; c++) {
        n->classes[c].size[inner] = n->size[inner];
        n->classes[c].size[outer] = 1;
    }
}

// --- Zones

// Leaves the zone's part of the dims that it cuts.
static void keep_zone(nest *n, const nest_zone *zone)
{
    uint32_t kept = 0;
    for (uint32_t d = 0; d < n->dim_count; d++) {
        if (!(zone->cuts >> d & 1)) continue;
        n->size[d] = n->most[d] = zone->size[d];
        for (uint32_t o = 0; o < n->operand_count; o++)
            n->operand[o].base += nest_offset(&n->operand[o], d, zone->start[d]);
    }
    nest whole = *n;
    n->class_count = n->all_cores = 0;
    memset(n->classes, 0, sizeof n->classes);
    for (uint32_t c = 0; c < whole.class_count; c++) {
        nest_class class = whole.classes[c];
        class.cores &= zone->cores;
        for (uint32_t d = 0; d < n->dim_count; d++)
            if (zone->cuts >> d & 1) class.size[d] = zone->size[d];
        for (uint32_t core = 0; core < ISA_CORES; core++)
            if (class.cores >> core & 1) add_to_class(n, core, class.size);
        kept |= class.cores;
    }
    n->all_cores = kept;
}

// What one window's dim gives of a core: runs of indices whose windows are inside in one way.
static spyre_status split_zones(arena *memory, const bundle_step *step, const bundle_window *w,
                                uint32_t core, const nest_zone *zone, nest_zones *out_zones)
{
    int64_t start = bundle_slice_start(step, core, w->dim);
    int64_t end = start + bundle_slice_size(step, core, w->dim);
    for (int64_t i = start; i < end;) {
        int64_t first, last, next = bundle_window_same(step, w, i);
        nest_zone part = *zone;
        if (next > end) next = end;
        bundle_window_inside(step, w, i, &first, &last);
        part.cuts |= 1u << w->dim | 1u << w->kernel;
        part.start[w->dim] = i - start;
        part.size[w->dim] = next - i;
        part.start[w->kernel] = first;
        part.size[w->kernel] = last - first;
        TRY(VEC_PUSH(memory, out_zones, part));
        i = next;
    }
    return NULL;
}

static spyre_status zones_of_core(arena *memory, const bundle_step *step, uint32_t core,
                                  nest_zones *out_zones)
{
    nest_zone whole = {.cores = 1u << core};
    *out_zones = (nest_zones){0};
    TRY(VEC_PUSH(memory, out_zones, whole));
    for (uint32_t w = 0; w < step->window_count; w++) {
        nest_zones parts = {0};
        for (uint32_t z = 0; z < out_zones->count; z++)
            TRY(split_zones(memory, step, &step->windows[w], core, &out_zones->items[z], &parts));
        *out_zones = parts;
    }
    return NULL;
}

// The masked end of a core's slice, cut where a stick ends.
static spyre_status masked_zones_of_core(arena *memory, const bundle_step *step, uint32_t core,
                                         nest_zones *out_zones)
{
    uint32_t d = step->masks[0].dim;
    int64_t span = bundle_stick_span(&step->tensors[step->output], d);
    int64_t size = bundle_slice_size(step, core, d);
    int64_t at = step->masks[0].start - bundle_slice_start(step, core, d);
    *out_zones = (nest_zones){0};
    for (int64_t next; (at = at < 0 ? 0 : at) < size; at = next) {
        nest_zone part = {.cores = 1u << core, .cuts = 1u << d};
        next = at % span && at - at % span + span < size ? at - at % span + span : size;
        part.start[d] = at;
        part.size[d] = next - at;
        TRY(VEC_PUSH(memory, out_zones, part));
    }
    return NULL;
}

// Masked elements get zeros: that is what the mask constant is for.
static spyre_status check_masked(const bundle_step *step)
{
    if (!bundle_fills_masked(step)) return NULL;
    const bundle_tensor *in = &step->tensors[step->inputs[0]], *out = &step->tensors[step->output];
    double constant = bundle_constant_value(step, (uint32_t)step->mask_constant);
    uint32_t d = step->masks[0].dim;
    if (step->mask_count == 1 && bundle_stick_span(in, d) == bundle_stick_span(out, d) &&
        opfunc_apply(step->op, &constant, 1, NULL) == 0.0)
        return NULL;
    return status_new(SPYRE_UNSUPPORTED, "coordinateMasking_: %s of masked elements is supported "
                      "where one dim is masked, sticks have one length and %s of %g is 0",
                      opfunc_describe(step->op)->name, opfunc_describe(step->op)->name, constant);
}

static bool same_place(const nest_zone *a, const nest_zone *b)
{
    return memcmp(a->start, b->start, sizeof a->start) == 0 &&
           memcmp(a->size, b->size, sizeof a->size) == 0;
}

spyre_status nest_find_zones(arena *memory, const bundle_step *step, nest_zones *out_zones)
{
    enum { MOST_ZONES = 1024 };
    *out_zones = (nest_zones){0};
    TRY(check_masked(step));
    for (uint32_t core = 0; core < step->cores->core_count; core++) {
        nest_zones own;
        TRY(bundle_fills_masked(step) ? masked_zones_of_core(memory, step, core, &own)
                                      : zones_of_core(memory, step, core, &own));
        for (uint32_t z = 0; z < own.count; z++) {
            uint32_t at = 0;
            while (at < out_zones->count && !same_place(&out_zones->items[at], &own.items[z])) at++;
            if (at == out_zones->count) TRY(VEC_PUSH(memory, out_zones, own.items[z]));
            out_zones->items[at].cores |= 1u << core;
        }
        if (out_zones->count > MOST_ZONES)
            return status_new(SPYRE_UNSUPPORTED, "paddingSizes_: padding cuts the windows into "
                              "more than %d parts", MOST_ZONES);
    }
    return NULL;
}

// --- All

static void merge_all(nest *n)
{
    // An index replaces the offset along the indexed dim, which therefore stays by itself, and a
    // shuffle cuts dims where slices of the one and the other division meet.
    if (n->step->index_count || n->step->op == OPFUNC_SHUFFLE) return;
    for (bool merged = true; merged;) {
        merged = false;
        for (uint32_t outer = 0; outer < n->dim_count; outer++) {
            for (uint32_t inner = 0; inner < n->dim_count; inner++) {
                if (!can_merge(n, outer, inner)) continue;
                merge(n, outer, inner);
                merged = true;
            }
        }
    }
}

spyre_status nest_build(arena *memory, const bundle *b, const bundle_step *step,
                        const nest_zone *zone, uint32_t loops, uint32_t extra_slots,
                        nest *out_nest)
{
    nest *n = out_nest;
    *n = (nest){.step = step,
                .loops = loops,
                .dim_count = step->dim_count,
                .operand_count = step->tensor_count};
    uint8_t reduced[BUNDLE_MAX_DIMS];
    uint32_t reduced_count = bundle_reduced_dims(b, step, reduced);
    for (uint32_t r = 0; r < reduced_count && opfunc_reduces(step->op); r++)
        n->reduced[reduced[r]] = true;
    bool masks = opfunc_describe(step->op)->kind == OPFUNC_KIND_MASK;
    for (uint32_t d = 0; d < n->dim_count; d++) {
        bool walked = n->reduced[d] || masks || bundle_walks_dim(step, d);
        n->size[d] = n->most[d] = walked ? bundle_local_size(step, d) : 1;
        if (!walked || !step->symbol[d]) continue;
        n->most[d] = step->symbol_size[d].most / step->cores->slices[d];
        n->unit[d] = common_divisor(n->most[d], step->symbol_size[d].step / step->cores->slices[d]);
    }
    for (uint32_t o = 0; o < n->operand_count; o++) TRY(build_operand(b, n, o));
    TRY(build_parameters(memory, n, extra_slots));
    TRY(build_classes(b, n));
    if (zone) keep_zone(n, zone);
    merge_all(n);
    return NULL;
}
