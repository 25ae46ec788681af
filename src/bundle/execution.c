// SPDX-License-Identifier: Apache-2.0
#include "bundle/execution.h"

#include <string.h>

#include "bundle/step_facts.h"

// "core 3, index [mb 5, out 0]"
static const char *describe_index(const execution *x, uint32_t core, const int64_t *index)
{
    const bundle_step *step = x->step;
    const char *list = "";
    for (uint32_t d = 0; list && d < step->dim_count; d++) {
        list = arena_printf(x->scratch, "%s%s%s %lld", list, d ? ", " : "", step->dim_name[d],
                            (long long)index[d]);
    }
    const char *whole = list ? arena_printf(x->scratch, "core %u, index [%s]", core, list) : NULL;
    return whole ? whole : "an index";
}

static spyre_status fault(const execution *x, uint32_t tensor, uint32_t core, const int64_t *index,
                          int64_t offset, int64_t limit)
{
    const bundle_tensor *t = &x->step->tensors[tensor];
    const char *where = describe_index(x, core, index);
    if (t->in_lx) {
        return status_new(SPYRE_DEVICE_FAULT, "%s, %s: byte %lld is outside of LX (%lld bytes)",
                          t->name, where, (long long)offset, (long long)limit);
    }
    return status_new(SPYRE_DEVICE_FAULT,
                      "%s, %s: byte %lld is outside of launch argument %d (%lld bytes)", t->name,
                      where, (long long)offset, t->arg, (long long)limit);
}

spyre_status execution_place_offset(const execution *x, uint32_t tensor, uint32_t core,
                                    const int64_t *index, int64_t offset, uint8_t **out_element)
{
    const bundle_tensor *t = &x->step->tensors[tensor];
    uint8_t *base = x->lx + (size_t)core * BUNDLE_LX_BYTES;
    int64_t limit = BUNDLE_LX_BYTES;
    if (!t->in_lx) {
        const bundle_buffer *buffer = &x->buffers[t->arg];
        base = buffer->bytes;
        limit = buffer->size_bytes;
    }
    if (offset < 0 || offset > limit - (int64_t)t->element_bytes) {
        return fault(x, tensor, core, index, offset, limit);
    }
    *out_element = base + offset;
    return NULL;
}

int64_t execution_start(const execution *x, const bundle_tensor *tensor, uint32_t core)
{
    int64_t offset = bundle_start(tensor, core);
    for (uint32_t loop = 0; loop < BUNDLE_MAX_LOOPS; loop++) {
        offset += tensor->loop_stride[loop] * x->loop_index[loop];
    }
    return offset;
}

// From the start of a tensor's memory or of LX, in bits.
static int64_t place_bits(const execution *x, uint32_t tensor, uint32_t core, const int64_t *index)
{
    const operand *o = &x->operands[tensor];
    int64_t bits = 8 * (execution_start(x, o->tensor, core) + o->geometry.base);
    for (uint32_t d = 0; d < x->step->dim_count; d++) {
        if (o->offset[d]) bits += o->offset[d][index[d]];
    }
    return bits;
}

static uint8_t *place_number(const execution *x, uint32_t tensor, uint32_t core,
                             const int64_t *index)
{
    const bundle_count *count = x->step->tensors[tensor].count;
    int64_t number = count->first;
    for (uint32_t loop = 0; loop < BUNDLE_MAX_LOOPS; loop++)
        number += count->loop_step[loop] * x->loop_index[loop];
    for (uint32_t d = 0; d < x->step->dim_count; d++)
        number += (bundle_slice_start(x->step, core, d) + index[d]) * count->step[d];
    element_store(x->operands[tensor].number, x->step->tensors[tensor].format,
                  count->signs ? number > 0 : (double)number);
    return x->operands[tensor].number;
}

spyre_status execution_place(const execution *x, uint32_t tensor, uint32_t core,
                             const int64_t *index, uint32_t lane, uint8_t **out_element)
{
    if (x->operands[tensor].number) {
        *out_element = place_number(x, tensor, core, index);
        return NULL;
    }
    int64_t offset = place_bits(x, tensor, core, index) / 8;
    offset += (int64_t)lane * x->operands[tensor].tensor->element_bytes;
    return execution_place_offset(x, tensor, core, index, offset, out_element);
}

spyre_status execution_load(const execution *x, uint32_t tensor, uint32_t core,
                            const int64_t *index, double *out_value)
{
    uint8_t *element;
    spyre_format format = x->step->tensors[tensor].format;
    TRY(execution_place(x, tensor, core, index, 0, &element));
    if (format != SPYRE_FORMAT_SENINT4) {
        *out_value = element_load(element, format);
        return NULL;
    }
    double pair = element_load(element, SPYRE_FORMAT_SENINT8);
    bool high = place_bits(x, tensor, core, index) % 8 != 0;
    *out_value = opfunc_apply(high ? OPFUNC_INT4HIGH : OPFUNC_INT4LOW, &pair, 1, NULL);
    return NULL;
}

static bool is_stored(const bundle_step *step, uint32_t core, const int64_t *index)
{
    const uint32_t d = step->tensors[step->output].stick_dim;
    return !step->live_lanes ||
           bundle_slice_start(step, core, d) + index[d] < bundle_stored_size(step, d);
}

spyre_status execution_store(const execution *x, uint32_t core, const int64_t *index, uint32_t lane,
                             double value)
{
    const bundle_tensor *out = &x->step->tensors[x->step->output];
    uint8_t *element;
    if (!is_stored(x->step, core, index)) return NULL;
    TRY(execution_place(x, x->step->output, core, index, lane, &element));
    element_store(element, out->format, value);
    return NULL;
}

void execution_begin_core(execution *x, uint32_t core)
{
    for (uint32_t d = 0; d < x->step->dim_count; d++)
        x->local[d] = bundle_slice_size(x->step, core, d);
}

int64_t execution_kept_elements(const execution *x)
{
    int64_t elements = 1;
    for (uint32_t i = 0; i < x->kept_count; i++) elements *= x->local[x->kept[i]];
    return elements;
}

bool execution_masked(const execution *x, uint32_t core, const int64_t *index)
{
    for (uint32_t i = 0; i < x->step->mask_count; i++) {
        const bundle_mask *mask = &x->step->masks[i];
        int64_t whole = bundle_slice_start(x->step, core, mask->dim) + index[mask->dim];
        if (whole >= mask->start && whole < mask->start + mask->length) return true;
    }
    for (uint32_t i = 0; i < x->step->window_count; i++) {
        const bundle_window *window = &x->step->windows[i];
        int64_t whole = bundle_slice_start(x->step, core, window->dim) + index[window->dim];
        int64_t first, end, tap = index[window->kernel];
        bundle_window_inside(x->step, window, whole, &first, &end);
        if (tap < first || tap >= end) return true;
    }
    return false;
}

// --- Results of several cores

static bool is_reduced(const execution *x, uint32_t dim)
{
    for (uint32_t i = 0; i < x->reduced_count; i++) {
        if (x->reduced[i] == dim) return true;
    }
    return false;
}

static bool share_output(const execution *x, uint32_t a, uint32_t b)
{
    const bundle_step *step = x->step;
    for (uint32_t d = 0; d < step->dim_count; d++) {
        bool same = step->cores->core_slice[a][d] == step->cores->core_slice[b][d];
        if (!same && !is_reduced(x, d)) return false;
    }
    return true;
}

static bool earlier(const execution *x, uint32_t a, uint32_t b)
{
    for (uint32_t i = 0; i < x->reduced_count; i++) {
        int32_t slice_a = x->step->cores->core_slice[a][x->reduced[i]];
        int32_t slice_b = x->step->cores->core_slice[b][x->reduced[i]];
        if (slice_a != slice_b) return slice_a < slice_b;
    }
    return false;
}

// The cores that share the output of `core`, in ascending order of their reduced slices.
static uint32_t group_of(const execution *x, uint32_t core, uint32_t members[BUNDLE_MAX_CORES])
{
    uint32_t count = 0;
    for (uint32_t other = 0; other < x->step->cores->core_count; other++) {
        if (!share_output(x, core, other)) continue;
        uint32_t at = count++;
        for (; at > 0 && earlier(x, other, members[at - 1]); at--) members[at] = members[at - 1];
        members[at] = other;
    }
    return count;
}

void execution_combine_cores(const execution *x, opfunc op, bool integers,
                             accumulator_cell *partial, int64_t count)
{
    bool done[BUNDLE_MAX_CORES] = {false};
    for (uint32_t core = 0; core < x->step->cores->core_count; core++) {
        uint32_t members[BUNDLE_MAX_CORES];
        if (done[core]) continue;
        uint32_t member_count = group_of(x, core, members);
        for (int64_t i = 0; i < count; i++) {
            accumulator_cell total = partial[members[0] * count + i];
            for (uint32_t m = 1; m < member_count; m++)
                total = accumulator_join(op, integers, total, partial[members[m] * count + i]);
            for (uint32_t m = 0; m < member_count; m++) partial[members[m] * count + i] = total;
        }
        for (uint32_t m = 0; m < member_count; m++) done[members[m]] = true;
    }
}
