// SPDX-License-Identifier: Apache-2.0
//
// One operand as a bundle tensor. A bundle knows strides only through the order and extents of
// dims, so the byte strides of the access are sorted and each dim's extent is stretched
// (backGapCore_) to where the next dim starts. A first stride above one stick is reached by a dim
// of size 1 whose gap takes the room.
#include "base/integer.h"
#include "bundle/step_facts.h"
#include "front/cost/cost_shuffle.h"
#include "front/emit/emit.h"
#include "front/front.h"

#include <stdio.h>
#include <string.h>

#include "bundle/step_facts.h"

typedef struct {
    uint8_t dim;
    int64_t stride; // bytes
    int64_t extent; // in strides: tiles for the stick dim
} chain_link;

static const loop_buffer *buffer_of(const emitter *e, uint32_t k)
{
    return loop_operand_buffer(e->loops, e->op, k);
}

int64_t emit_row_step(const emitter *e, uint32_t k)
{
    const loop_location *place = &e->place[k];
    bool sticks = place->stick_var == LOOP_ROWS;
    return sticks && loop_row_steps(e->loops, e->op, place) == 1 ? 0 : place->row_stride;
}

static bool is_table(const emitter *e, uint32_t k)
{
    return e->op->table && k == e->op->table;
}

static bool is_matmul(const emitter *e)
{
    return opfunc_describe(e->op->op)->kind == OPFUNC_KIND_MATMUL;
}

static spyre_status refuse(const emitter *e, uint32_t k, const char *why)
{
    return status_new(SPYRE_UNSUPPORTED, "op %s %s (%s), operand %u: %s", e->op->name,
                      opfunc_describe(e->op->op)->name,
                      e->op->location ? e->op->location : "unknown source line", k, why);
}

// A dim of which a core holds one index in LX has the stride of the next dim; it comes first.
static bool precedes(const chain_link *a, const chain_link *b)
{
    return a->stride != b->stride ? a->stride < b->stride : a->extent < b->extent;
}

static void add_link(chain_link *chain, uint32_t *count, chain_link link)
{
    uint32_t at = (*count)++;
    while (at > 0 && precedes(&link, &chain[at - 1])) {
        chain[at] = chain[at - 1];
        at--;
    }
    chain[at] = link;
}

// Indices of step dim d, of windows those that they reach, that operand k has a place for: in LX
// only those of the core's slice.
static int64_t room_of(const emitter *e, uint32_t k, uint8_t d)
{
    const bundle_window *window = bundle_window_of(e->step, k, d);
    if (window) return window->total;
    return buffer_of(e, k)->in_lx ? bundle_held_size(e->step, &e->step->tensors[k], d)
                                  : e->step->size[d];
}

// Whether variable v walks the taps of windows.
static bool is_tap(const emitter *e, uint32_t v)
{
    for (uint32_t u = 0; u < e->op->var_count; u++)
        if (e->tap_of[u] == v) return true;
    return false;
}

// The moving dims of operand k, by ascending stride.
static uint32_t make_chain(const emitter *e, uint32_t k, chain_link *chain)
{
    const loop_location *place = &e->place[k];
    uint32_t count = 0;
    for (uint32_t v = 0; v < e->op->var_count; v++) {
        if (!place->stride[v] || (k == 0 && is_tap(e, v))) continue;
        uint8_t d = e->dim_of_var[v];
        const bundle_window *window = bundle_window_of(e->step, k, d);
        if (window) {
            int64_t index = place->stride[v] / window->stride;
            add_link(chain, &count, (chain_link){d, index, window->total});
            continue;
        }
        int64_t span = place->walk.span[v], extent = divide_up(room_of(e, k, d), span);
        int64_t stride = span > 1 && extent == 1 ? 0 : place->stride[v];
        add_link(chain, &count, (chain_link){d, stride, extent});
    }
    if (place->row_stride) {
        int64_t steps = loop_row_steps(e->loops, e->op, place);
        add_link(chain, &count, (chain_link){e->row_dim, emit_row_step(e, k), steps});
    }
    return count;
}

// True when operand k, whose dims are as long as the longest stick's padding makes them, would be
// read beyond its end.
static bool ends_early(const emitter *e, uint32_t k)
{
    const loop_location *place = &e->place[k];
    int64_t strides[LOOP_MAX_DIMS], bytes, end = place->offset + SPYRE_STICK_BYTES;
    loop_device_strides(buffer_of(e, k), strides, &bytes);
    for (uint32_t v = 0; v < e->op->var_count; v++) {
        int64_t steps = divide_up(room_of(e, k, e->dim_of_var[v]), place->walk.span[v]);
        end += (steps - 1) * place->stride[v];
    }
    return end > bytes;
}

// Stretches link i up to the stride of the next one.
static spyre_status set_gap(const emitter *e, uint32_t k, const chain_link *link, int64_t next)
{
    bundle_tensor *tensor = &e->step->tensors[k];
    uint8_t d = link->dim;
    int64_t stride = link->stride ? link->stride : SPYRE_STICK_BYTES, gap, room = room_of(e, k, d);
    int64_t valid = room < e->valid[d] || bundle_window_of(e->step, k, d) ? room : e->valid[d];
    int64_t span = bundle_stick_span(tensor, d);
    int64_t extent = next ? next / stride : link->extent;
    if (next % stride) return refuse(e, k, "its strides are no multiples of each other");
    if (is_table(e, k) && d == e->row_dim)
        return extent == link->extent ? NULL : refuse(e, k, "a table with gaps between its sticks");
    if (span > 1) {
        if (extent < link->extent) return refuse(e, k, "its sticks overlap");
        gap = extent == link->extent ? 0 : extent * span - room;
    } else {
        // Padding of another operand's stick: this one has only the valid indices.
        if (!next && valid < room) extent = valid;
        if (extent < valid) return refuse(e, k, "its dims overlap");
        // A bundle takes what lies between for indices of the dim; the last tile has none there.
        if (valid < room && extent > valid && e->op->tile_depth)
            return refuse(e, k, "a tile of a padded dim with gaps");
        if (valid < room && extent > valid && ends_early(e, k))
            return refuse(e, k, "the padding of a dim with gaps lies beyond the tensor");
        gap = extent - room;
        if (e->step->op == OPFUNC_RESTICKIFY) gap = -gap;
    }
    tensor->gap[d] = gap;
    return NULL;
}

// A stick dim that the operand lacks keeps one element a stick (scale -2). A padded synthetic one
// is walked like a real stick by those operands that own it.
static bool walks_lane_dim(const emitter *e, uint32_t k)
{
    uint8_t stick = e->step->tensors[k].stick_dim;
    if (stick == e->sum_dim && k == 0) return true;
    if (stick != e->lane_dim) return false;
    if (e->op->op == OPFUNC_EXX2) return k == 0 && e->step->size[e->lane_dim] > 1;
    if (e->op->op == OPFUNC_LAYERNORMSCALE) return k == 1;
    return is_matmul(e);
}

static spyre_status set_order(const emitter *e, uint32_t k)
{
    bundle_tensor *tensor = &e->step->tensors[k];
    chain_link chain[LOOP_MAX_VARS + 1];
    uint32_t count = make_chain(e, k, chain);
    bool placed[BUNDLE_MAX_DIMS] = {false};
    uint32_t first = 0; // behind dims of one stick
    while (first < count && chain[first].stride == 0) first++;
    if (first < count && chain[first].stride != SPYRE_STICK_BYTES) {
        if (e->room_dim == LOOP_NO_DIM) return refuse(e, k, "more dims than a step can have");
        tensor->order[tensor->order_count++] = e->room_dim;
        tensor->scale[e->room_dim] = 1;
        int64_t gap = chain[first].stride / SPYRE_STICK_BYTES - 1;
        tensor->gap[e->room_dim] = e->step->op == OPFUNC_RESTICKIFY ? -gap : gap;
        placed[e->room_dim] = true;
    }
    for (uint32_t i = first; i < count + first; i++) { // a single stick is the outermost
        const chain_link *link = &chain[i % count];
        uint8_t d = link->dim;
        int64_t next = i + 1 < count ? chain[i + 1].stride : 0;
        tensor->order[tensor->order_count++] = d;
        tensor->scale[d] = 1;
        placed[d] = true;
        TRY(set_gap(e, k, link, next));
    }
    for (uint8_t d = 0; d < e->step->dim_count; d++) {
        if (placed[d] || (d == e->room_dim && d != tensor->stick_dim)) continue;
        if (d == e->sum_dim && k == 1) { // B's one row of a product of K = 1
            tensor->order[tensor->order_count++] = d;
            tensor->scale[d] = 1;
            tensor->gap[d] = 1 - e->step->size[d];
            continue;
        }
        if (d == e->sum_dim && k == 2) continue;
        if (bundle_window_of(e->step, k, d)) continue; // taps are in no layout
        if (is_matmul(e) && d != tensor->stick_dim) continue; // a product's operands lack dims
        bool walks = d == tensor->stick_dim && walks_lane_dim(e, k);
        tensor->order[tensor->order_count++] = d;
        tensor->scale[d] = d == e->row_of_cast ? 1 : d != tensor->stick_dim ? -1 : walks ? 1 : -2;
    }
    return NULL;
}

static bool has_same_dims(const bundle_tensor *a, const bundle_tensor *b)
{
    for (uint32_t d = 0; d < BUNDLE_MAX_DIMS; d++)
        if ((a->scale[d] != 0) != (b->scale[d] != 0)) return false;
    return a->stick_dim == b->stick_dim && a->stick_elements == b->stick_elements &&
           a->digit_count == b->digit_count &&
           memcmp(a->digits, b->digits, a->digit_count * sizeof *a->digits) == 0;
}

// Tensors of the same dims and stick share a label, and in what follows it the order that the first
// of them has. Names are torch-spyre's (torch_spyre/_inductor/constants.py at e1abccf).
static void set_label(const emitter *e, uint32_t k)
{
    static const char *const plain[] = {"OUTPUT", "KERNEL", "INPUT"};
    static const char *const product[] = {"INPUT", "KERNEL", "OUTPUT"};
    const char *const *names = is_matmul(e) ? product : plain;
    bundle_tensor *tensor = &e->step->tensors[k];
    tensor->label_order_count = tensor->order_count;
    memcpy(tensor->label_order, tensor->order, sizeof tensor->label_order);
    if (tensor->index_kind == BUNDLE_INDEX_INDEX) {
        snprintf(tensor->label, sizeof tensor->label, "KERNEL_IDX");
        return;
    }
    uint32_t distinct = 0;
    for (uint32_t i = 0; i < k; i++) {
        const bundle_tensor *other = &e->step->tensors[i];
        if (has_same_dims(other, tensor) && other->index_kind != BUNDLE_INDEX_INDEX) {
            memcpy(tensor->label, other->label, sizeof tensor->label);
            memcpy(tensor->label_order, other->label_order, sizeof tensor->label_order);
            return;
        }
        bool fresh = other->index_kind != BUNDLE_INDEX_INDEX;
        for (uint32_t j = 0; j < i; j++)
            if (strcmp(e->step->tensors[j].label, other->label) == 0) fresh = false;
        distinct += fresh;
    }
    if (distinct < sizeof plain / sizeof plain[0])
        snprintf(tensor->label, sizeof tensor->label, "%s", names[distinct]);
    else
        snprintf(tensor->label, sizeof tensor->label, "LAYOUT%u", distinct % 10);
}

// The shared list of these distances from core 0's start, or null when they are all 0.
static spyre_status share_offsets(const emitter *e, const int64_t *offsets,
                                  const int64_t **out_list)
{
    arena *memory = e->loops->memory;
    emit_shared *shared = e->shared;
    const uint32_t cores = e->step->cores->core_count;
    uint32_t number, alike = 0;
    *out_list = NULL;
    while (alike < cores && offsets[alike] == 0) alike++;
    if (alike == cores) return NULL;
    TRY(map_bytes_intern(memory, &shared->offsets, offsets, cores * sizeof *offsets,
                         shared->offset_lists.count, &number));
    if (number == shared->offset_lists.count) {
        int64_t *list;
        TRY_NEW(memory, list, cores);
        memcpy(list, offsets, cores * sizeof *list);
        TRY(VEC_PUSH(memory, &shared->offset_lists, list));
    }
    *out_list = shared->offset_lists.items[number];
    return NULL;
}

// Where a core's slice begins, in bytes from the first element.
static int64_t slice_offset(const emitter *e, const loop_location *place, uint32_t core)
{
    int64_t offset = 0;
    for (uint32_t v = 0; v < e->op->var_count; v++) {
        int64_t first = bundle_slice_start(e->step, core, e->dim_of_var[v]);
        offset += first / place->walk.span[v] * place->stride[v];
    }
    return offset;
}

static spyre_status set_starts(const emitter *e, uint32_t k)
{
    bundle_tensor *tensor = &e->step->tensors[k];
    const loop_location *place = &e->place[k];
    const loop_buffer *buffer = buffer_of(e, k);
    int64_t offsets[BUNDLE_MAX_CORES] = {0};
    for (uint32_t t = 0; t < e->op->tile_depth; t++) tensor->loop_stride[t] = place->tile_stride[t];
    tensor->start = buffer->memory_offset + place->offset;
    if (buffer->in_lx) return NULL;
    const int64_t first = slice_offset(e, place, 0);
    tensor->start += first;
    for (uint32_t core = 1; core < e->step->cores->core_count; core++)
        offsets[core] = slice_offset(e, place, core) - first;
    return share_offsets(e, offsets, &tensor->core_offset);
}

static spyre_status set_count(const emitter *e, const loop_count *of, bundle_tensor *tensor)
{
    if (!of) return NULL;
    bundle_count *count = ARENA_NEW(e->loops->memory, bundle_count, 1);
    TRY_ALLOC(count);
    count->first = of->first;
    count->signs = of->signs;
    for (uint32_t v = 0; v < e->op->var_count; v++) count->step[e->dim_of_var[v]] = of->step[v];
    for (uint32_t t = 0; t < e->op->tile_depth; t++) count->loop_step[t] = of->tile_step[t];
    tensor->count = count;
    return NULL;
}

// The cores that hold what a shuffle reads.
static spyre_status set_owners(const emitter *e, bundle_tensor *tensor)
{
    lx_slices source = shuffle_source(e->loops, e->op);
    const loop_access *from = &e->op->operand[0];
    bundle_division *owners = ARENA_NEW(e->loops->memory, bundle_division, 1);
    TRY_ALLOC(owners);
    owners->core_count = source.cores;
    for (uint32_t d = 0; d < BUNDLE_MAX_DIMS; d++) owners->slices[d] = 1;
    for (uint32_t v = 0; v < e->op->var_count; v++) {
        uint8_t d = e->dim_of_var[v];
        uint32_t cut = from->stride[v] ? loop_dim_at(buffer_of(e, 0), from->stride[v]) : 0;
        if (!from->stride[v] || source.slices[cut] == 1) continue;
        owners->slices[d] = source.slices[cut];
        for (uint32_t core = 0; core < source.cores; core++)
            owners->core_slice[core][d] =
                (uint8_t)((int32_t)core / source.core_stride[cut] % source.slices[cut]);
    }
    tensor->owners = owners;
    return NULL;
}

// The dim that carries operand k's stick (with scale -2 when the operand does not move along it).
static uint8_t stick_dim(const emitter *e, uint32_t k)
{
    uint8_t v = e->place[k].stick_var;
    if (v == LOOP_ROWS) return e->row_dim;
    if (v != LOOP_NO_DIM) return e->dim_of_var[v];
    if (k == 0 && e->sum_dim != LOOP_NO_DIM) return e->sum_dim;
    if (e->lane_dim != LOOP_NO_DIM) return e->lane_dim;
    return e->dim_of_var[e->last_var];
}

// The stick of a copy that a view cuts is of several dims.
static void set_digits(const emitter *e, bundle_tensor *tensor, const loop_stick_walk *walk)
{
    int64_t most = 0;
    if (walk->count < 2) return;
    for (uint32_t i = 0; i < walk->count; i++) {
        int64_t span = walk->span[walk->var[i]];
        uint8_t d = e->dim_of_var[walk->var[i]];
        tensor->digits[tensor->digit_count++] = (bundle_digit){d, (uint16_t)span};
        if (span > most) tensor->stick_dim = d, most = span;
    }
}

spyre_status emit_tensor(emitter *e, uint32_t k)
{
    const loop_buffer *buffer = buffer_of(e, k);
    bundle_tensor *tensor = &e->step->tensors[k];
    snprintf(tensor->name, sizeof tensor->name, "Tensor%u", k);
    bool is_index = e->op->table && k == 0;
    // An index within its table has the same bits without a sign, which is the format of indices.
    tensor->format = is_index ? SPYRE_FORMAT_SENUINT32 : buffer->format;
    tensor->element_bytes = spyre_format_bytes(buffer->format);
    tensor->stick_elements = spyre_format_elements_per_stick(buffer->format);
    tensor->stick_dim = stick_dim(e, k);
    set_digits(e, tensor, &e->place[k].walk);
    tensor->in_lx = buffer->in_lx;
    tensor->index_peer = -1;
    for (uint32_t d = 0; d < BUNDLE_MAX_DIMS; d++) tensor->max_size[d] = -1;
    if (is_index) {
        tensor->index_kind = BUNDLE_INDEX_INDEX;
        tensor->index_peer = e->op->table;
    } else if (is_table(e, k)) {
        tensor->index_kind = BUNDLE_INDEX_VALUE;
        tensor->index_peer = 0;
        tensor->max_size[e->row_dim] = 1;
        tensor->indexed_extent = e->op->row_count;
    }
    if (e->step->op == OPFUNC_SHUFFLE && k == 0) TRY(set_owners(e, tensor));
    TRY(set_count(e, loop_count_of(e->loops, &e->op->operand[k]), tensor));
    TRY(set_order(e, k));
    if (is_table(e, k)) tensor->scale[e->row_dim] = 1;
    set_label(e, k);
    return set_starts(e, k);
}
