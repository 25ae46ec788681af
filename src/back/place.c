// SPDX-License-Identifier: Apache-2.0
#include "back/place.h"

#include <assert.h>
#include <stdlib.h>

#include "base/odometer.h"
#include "bundle/step_facts.h"

box box_kept(const nest *n, const box *b)
{
    box kept = *b;
    for (uint32_t d = 0; d < n->dim_count; d++) {
        if (!n->reduced[d]) continue;
        kept.start[d] = 0;
        kept.extent[d] = 1;
        kept.open &= ~(1u << d);
    }
    return kept;
}

box box_reduced(const nest *n, const box *kept, const nest_class *present)
{
    box b = *kept;
    for (uint32_t d = 0; d < n->dim_count; d++)
        if (n->reduced[d]) box_span(n, &b, d, present->size[d]);
    return b;
}

void box_span(const nest *n, box *b, uint32_t dim, int64_t size)
{
    b->extent[dim] = size;
    if (n->unit[dim]) b->open |= 1u << dim;
}

box box_of_class(const nest *n, const nest_class *c)
{
    box b = {.buffer_loop = -1};
    for (uint32_t l = 0; l < ISA_MAX_LOOPS; l++) b.loop[l].dim = -1;
    for (uint32_t d = 0; d < n->dim_count; d++) box_span(n, &b, d, c->size[d]);
    return b;
}

// --- Pieces

// A class without reduced elements still has results to fill.
static bool has_work(const nest *n, const nest_class *c)
{
    for (uint32_t d = 0; d < n->dim_count; d++)
        if (c->size[d] == 0 && !n->reduced[d]) return false;
    return true;
}

// The different extents of a dim, ascending; false when a box cannot end at one of them.
static bool find_ends(const nest *n, uint32_t d, int64_t ends[BUNDLE_MAX_CORES],
                      int64_t *out_count)
{
    uint32_t count = 0;
    for (uint32_t c = 0; c < n->class_count; c++) {
        int64_t size = n->classes[c].size[d];
        uint32_t at = 0;
        if (!has_work(n, &n->classes[c])) continue;
        while (at < count && ends[at] < size) at++;
        if (at < count && ends[at] == size) continue;
        for (uint32_t later = count++; later > at; later--) ends[later] = ends[later - 1];
        ends[at] = size;
    }
    *out_count = count;
    for (uint32_t e = 0; e + 1 < count; e++)
        if (n->reduced[d] || ends[e] % nest_granule(n, d)) return false;
    return true;
}

static void add_piece(const nest *n, const box *whole, piece *out, uint32_t *count)
{
    piece p = {.whole = *whole};
    for (uint32_t c = 0; c < n->class_count; c++) {
        const nest_class *one = &n->classes[c];
        bool has = true;
        for (uint32_t d = 0; d < n->dim_count; d++)
            has = has && one->size[d] >= whole->start[d] + whole->extent[d];
        if (!has) continue;
        p.cores |= one->cores;
        p.present = one;
    }
    if (p.cores) out[(*count)++] = p;
}

static uint32_t classes_as_pieces(const nest *n, piece *out)
{
    uint32_t count = 0;
    for (uint32_t c = 0; c < n->class_count; c++) {
        const nest_class *one = &n->classes[c];
        if (has_work(n, one)) out[count++] = (piece){box_of_class(n, one), one->cores, one};
    }
    return count;
}

uint32_t pieces_of(const nest *n, piece out[BUNDLE_MAX_CORES])
{
    int64_t ends[BUNDLE_MAX_DIMS][BUNDLE_MAX_CORES];
    int64_t ends_count[BUNDLE_MAX_DIMS], at[BUNDLE_MAX_DIMS] = {0}, cells = 1;
    uint32_t count = 0;
    for (uint32_t d = 0; d < n->dim_count; d++) {
        if (!find_ends(n, d, ends[d], &ends_count[d]) || ends_count[d] == 0)
            return classes_as_pieces(n, out);
        cells *= ends_count[d];
        if (cells > BUNDLE_MAX_CORES) return classes_as_pieces(n, out);
    }
    do {
        box b = box_of_class(n, &n->classes[0]);
        for (uint32_t d = 0; d < n->dim_count; d++) {
            b.start[d] = at[d] ? ends[d][at[d] - 1] : 0;
            b.extent[d] = ends[d][at[d]] - b.start[d];
        }
        add_piece(n, &b, out, &count);
    } while (odometer_next(n->dim_count, ends_count, at, NULL, 0));
    return count;
}

// --- Axes

static void add_axis(place_axes *axes, uint32_t dim, int64_t extent, int64_t step, int64_t most)
{
    if (most == 1) return;
    axes->axis[axes->count++] = (place_axis){(uint8_t)dim, extent, step};
}

// Tile loops cut a dim into boxes that are a multiple of a stick length or shorter than it.
place_axes place_find_axes(const nest *n, const box *b, uint32_t lanes)
{
    place_axes axes = {0};
    for (uint32_t d = 0; d < n->dim_count; d++) {
        int64_t left = b->extent[d], most = b->open >> d & 1 ? n->most[d] : left;
        for (uint32_t s = 0; s < n->stick_count[d]; s++) {
            int64_t stick = n->sticks[d][s];
            if (left < stick) continue;
            add_axis(&axes, d, left / stick, stick, most / stick);
            left = most = stick;
        }
        add_axis(&axes, d, left, 1, most);
    }
    if (lanes > 1) add_axis(&axes, PLACE_LANES, lanes, 1, lanes);
    return axes;
}

static isa_operand home_of(const nest_operand *o)
{
    const bundle_tensor *t = o->tensor;
    if (t->count)
        return (isa_operand){.space = ISA_SPACE_NUMBER,
                             .format = SPYRE_FORMAT_IEEE_INT32,
                             .slot = o->slot,
                             .offset = o->base + t->count->first};
    if (t->in_lx)
        return (isa_operand){.space = ISA_SPACE_LX,
                             .format = o->format,
                             .offset = o->base + t->start};
    return (isa_operand){.space = ISA_SPACE_MEMORY,
                         .format = o->format,
                         .arg = (uint16_t)t->arg,
                         .slot = o->slot,
                         .offset = o->base};
}

place place_cell(const lx_region *region, spyre_format format)
{
    return (place){.operand = {.space = ISA_SPACE_LX, .format = format, .offset = region->offset}};
}

place place_home(const nest *n, const box *b, const place_axes *axes, uint32_t operand)
{
    const nest_operand *o = &n->operand[operand];
    const bundle_tensor *t = o->tensor;
    const int64_t *loop_stride = t->count ? t->count->loop_step : t->loop_stride;
    place p = {.operand = home_of(o)};
    for (uint32_t l = 0; l < n->loops; l++) p.operand.loop_stride[l] = loop_stride[l];
    for (uint32_t d = 0; d < n->dim_count; d++) p.operand.offset += nest_offset(o, d, b->start[d]);
    for (uint32_t l = n->loops; l < ISA_MAX_LOOPS; l++)
        if (b->loop[l].dim >= 0)
            p.operand.loop_stride[l] = nest_offset(o, (uint32_t)b->loop[l].dim, b->loop[l].step);
    for (uint32_t a = 0; a < axes->count; a++) {
        const place_axis *axis = &axes->axis[a];
        if (axis->dim == PLACE_LANES)
            p.stride[a] = o->lanes > 1 ? o->element : 0;
        else
            p.stride[a] = nest_offset(o, axis->dim, axis->step);
    }
    return p;
}

// Of axes with one stride the one of a single index is the inner one: its stride is the other's at
// larger sizes, divided by its extent.
static bool is_inner(const place *p, const place_axes *axes, uint32_t before, uint32_t a)
{
    int64_t one = llabs(p->stride[before]), other = llabs(p->stride[a]);
    return one < other ||
           (one == other && axes->axis[before].extent == 1 && axes->axis[a].extent > 1);
}

uint32_t place_pair_axis(const nest *n, const place_axes *axes, uint32_t operand)
{
    uint32_t dim = bundle_pair_dim(n->operand[operand].tensor), a = 0;
    while (a < axes->count && (axes->axis[a].dim != dim || axes->axis[a].step != 1)) a++;
    assert(a < axes->count);
    return a;
}

place_order place_sorted(const place *p, const place_axes *axes)
{
    place_order order = {0};
    for (uint32_t a = 0; a < axes->count; a++) {
        if (p->stride[a] == 0) continue;
        uint32_t at = order.count++;
        for (; at > 0 && is_inner(p, axes, order.axis[at - 1], a); at--)
            order.axis[at] = order.axis[at - 1];
        order.axis[at] = (uint8_t)a;
    }
    return order;
}

place place_dense(const box *b, const place_axes *axes, const place_order *order,
                  spyre_format format, int64_t element_bytes, const lx_region *region)
{
    place p = {.operand = {.space = ISA_SPACE_LX, .format = format, .offset = region->offset}};
    if (region->doubled && b->buffer_loop >= 0)
        p.operand.loop_stride[b->buffer_loop] = region->bytes;
    int64_t stride = element_bytes;
    for (uint32_t i = order->count; i-- > 0;) {
        uint32_t a = order->axis[i];
        p.stride[a] = stride;
        stride *= axes->axis[a].extent;
    }
    return p;
}

place place_project(const place *p, const place_axes *from, const place_axes *to)
{
    place projected = {.operand = p->operand};
    for (uint32_t t = 0; t < to->count; t++)
        for (uint32_t f = 0; f < from->count; f++)
            if (from->axis[f].dim == to->axis[t].dim && from->axis[f].step == to->axis[t].step)
                projected.stride[t] = p->stride[f];
    return projected;
}
