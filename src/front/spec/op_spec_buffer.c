// SPDX-License-Identifier: Apache-2.0
//
// Buffers of OpSpecs: layout, place, number of the launch argument. A buffer's host strides are its
// stride_map; how long its stick dim is follows from what the accesses reach.
#include <inttypes.h>
#include <string.h>

#include "front/spec/op_spec_reader.h"

static spyre_status read_integers(const json_node *object, const char *key, uint32_t count,
                                  int64_t least, int64_t *out)
{
    json_node list, item;
    TRY(json_get_array(object, key, &list));
    TRY(json_expect_array_of(&list, count));
    for (uint32_t i = 0; i < count; i++) {
        TRY(json_item(&list, i, &item));
        TRY(json_as_int(&item, least, MOST_EXTENT, &out[i]));
    }
    return NULL;
}

static spyre_status read_format(const json_node *argument, spyre_format *out)
{
    const char *name;
    TRY(json_get_string(argument, "device_dtype", &name));
    *out = spyre_format_named(name);
    if (*out < SPYRE_FORMAT_COUNT && spyre_format_elements_per_stick(*out)) return NULL;
    return json_error_at(argument, "device_dtype '%.40s' is no format of the card", name);
}

// The device dim that counts the sticks; rank - 1 when there is none.
static uint32_t tile_dim(const device_form *form, int64_t lanes)
{
    uint32_t last = form->rank - 1, found = last;
    for (uint32_t i = 0; i < last; i++) {
        if (form->stride_map[last] <= 0 || form->stride_map[i] != form->stride_map[last] * lanes)
            continue;
        if (found == last || form->device_size[i] == 1) found = i;
    }
    return found;
}

static uint8_t add_dim(loop_buffer *buffer, device_form *form, int64_t extent, int64_t stride)
{
    uint8_t at = (uint8_t)buffer->dim_count++;
    while (at > 0 && buffer->dim[at - 1].stride > stride) {
        buffer->dim[at] = buffer->dim[at - 1];
        at--;
    }
    buffer->dim[at] = (loop_dim){extent, stride};
    for (uint32_t i = 0; i < form->rank; i++)
        if (form->dim[i] != LOOP_NO_DIM && form->dim[i] >= at) form->dim[i]++;
    return at;
}

static spyre_status set_dims(arena *memory, const json_node *argument, loop_buffer *buffer,
                             device_form *form)
{
    int64_t *fixed_size;
    int64_t lanes = loop_lanes(buffer);
    uint32_t last = form->rank - 1, tiles = tile_dim(form, lanes);
    bool has_stick = form->stride_map[last] > 0;
    if (form->rank > LOOP_MAX_DIMS) return json_error_at(argument, "too many device dims");
    if (form->device_size[last] != lanes)
        return json_error_at(argument, "the last of device_size must be a stick of %" PRId64,
                             lanes);
    if (form->stride_map[last] > MOST_EXTENT / lanes)
        return json_error_at(argument, "stride_map %u: a stick of %" PRId64 " times %" PRId64
                             " elements is beyond %d", last, lanes, form->stride_map[last],
                             MOST_EXTENT);
    for (uint32_t i = 0; i < form->rank; i++) form->dim[i] = LOOP_NO_DIM;
    for (uint32_t i = 0; i < last; i++) {
        if (i == tiles || form->device_size[i] == 1) continue;
        if (form->stride_map[i] <= 0)
            return json_error_at(argument, "stride_map %u is not positive", i);
        form->dim[i] = add_dim(buffer, form, form->device_size[i], form->stride_map[i]);
    }
    buffer->stick = LOOP_NO_DIM;
    if (has_stick) {
        int64_t count = tiles == last ? 1 : form->device_size[tiles];
        form->dim[last] = add_dim(buffer, form, (count - 1) * lanes + 1, form->stride_map[last]);
        buffer->stick = form->dim[last];
        if (tiles != last) form->dim[tiles] = buffer->stick;
    }
    uint32_t order = 0;
    for (uint32_t i = last; i-- > 0;)
        if (form->dim[i] != LOOP_NO_DIM) buffer->order[order++] = form->dim[i];
    if (has_stick && tiles == last) buffer->order[order++] = buffer->stick;
    TRY(loop_own_sizes(memory, buffer, &fixed_size));
    for (uint32_t i = 0; i < last; i++)
        if (form->dim[i] != LOOP_NO_DIM && i != tiles)
            fixed_size[form->dim[i]] = form->device_size[i];
    return NULL;
}

static spyre_status set_allocation(const json_node *argument, loop_buffer *buffer, int32_t index)
{
    json_node allocation;
    void *cursor = NULL;
    TRY(json_get_object(argument, "allocation", &allocation));
    json_node where;
    if (json_count(&allocation) != 1 || !json_next_member(&allocation, &cursor, &where))
        return json_error_at(&allocation, "expected one of hbm, lx and pool");
    TRY(json_as_int(&where, 0, (int64_t)BUNDLE_SEGMENT_BYTES, &buffer->memory_offset));
    buffer->in_lx = strcmp(where.key, "lx") == 0;
    const char *wanted = index >= 0 ? "hbm" : buffer->in_lx ? "lx" : "pool";
    if (strcmp(where.key, wanted) == 0) return NULL;
    return json_error_at(&allocation, "arg_index %d does not lie in '%.20s'", index, where.key);
}

static spyre_status add_buffer(spec_reader *r, const json_node *argument, const char *name,
                               uint32_t *out)
{
    json_node sizes;
    int64_t index;
    device_form form = {0};
    loop_buffer buffer = {.kind = LOOP_INPUT, .output = -1, .has_layout = true};
    buffer.name = arena_strdup(r->memory, name);
    TRY_ALLOC(buffer.name);
    TRY(read_format(argument, &buffer.format));
    TRY(json_get_int(argument, "arg_index", -1, 4095, &index));
    TRY(json_get_array(argument, "device_size", &sizes));
    form.rank = (uint32_t)json_count(&sizes);
    form.argument = (int32_t)index;
    if (form.rank < 1 || form.rank > SPYRE_MAX_DEVICE_RANK)
        return json_error_at(&sizes, "1 to %d device dims are possible", SPYRE_MAX_DEVICE_RANK);
    TRY(read_integers(argument, "device_size", form.rank, 1, form.device_size));
    TRY(read_integers(argument, "stride_map", form.rank, -1, form.stride_map));
    TRY(set_allocation(argument, &buffer, form.argument));
    TRY(set_dims(r->memory, argument, &buffer, &form));
    if (index < 0) buffer.kind = LOOP_LOCAL;
    for (uint32_t d = 0; d < LOOP_MAX_DIMS; d++) buffer.slices[d] = 1;
    *out = r->loops->buffers.count;
    TRY(map_string_put(r->memory, &r->names, buffer.name, *out));
    TRY(VEC_PUSH(r->memory, &r->forms, form));
    return VEC_PUSH(r->memory, &r->loops->buffers, buffer);
}

// A buffer that another op named says the same of itself here.
static spyre_status check_same(const spec_reader *r, const json_node *argument, uint32_t id)
{
    const device_form *form = &r->forms.items[id];
    const loop_buffer *buffer = &r->loops->buffers.items[id];
    int64_t list[SPYRE_MAX_DEVICE_RANK], index;
    spyre_format format;
    loop_buffer again = *buffer;
    TRY(read_format(argument, &format));
    TRY(json_get_int(argument, "arg_index", -1, 4095, &index));
    TRY(read_integers(argument, "device_size", form->rank, 1, list));
    bool same = format == buffer->format && index == form->argument &&
                memcmp(list, form->device_size, form->rank * sizeof *list) == 0;
    TRY(read_integers(argument, "stride_map", form->rank, -1, list));
    same &= memcmp(list, form->stride_map, form->rank * sizeof *list) == 0;
    TRY(set_allocation(argument, &again, form->argument));
    same &= again.in_lx == buffer->in_lx && again.memory_offset == buffer->memory_offset;
    return same ? NULL
                : json_error_at(argument, "%s is described differently before", buffer->name);
}

spyre_status op_spec_read_buffer(spec_reader *r, const json_node *argument, const char *name,
                                 uint32_t *out_id)
{
    bool known = map_string_get(&r->names, name, out_id);
    return known ? check_same(r, argument, *out_id) : add_buffer(r, argument, name, out_id);
}
