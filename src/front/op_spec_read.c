// SPDX-License-Identifier: Apache-2.0
//
// From OpSpecs back to the loop IR behind the last pass. Coordinates are affine in the symbols, so
// their values at the origin and one step along each symbol say all; the value at the far corner
// tells whether that is true. A buffer's host strides are its stride_map; how long its stick dim is
// follows from what the accesses reach.
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "front/division.h"
#include "front/invariant.h"
#include "front/op_spec.h"
#include "graph/build.h"

enum { MOST_SYMBOLS = LOOP_MAX_VARS + LOOP_MAX_TILES + 1, MOST_EXTENT = 1 << 30 };

// What the reader knows of a buffer beside the loop IR.
typedef struct {
    uint32_t rank; // device dims
    int64_t device_size[SPYRE_MAX_DEVICE_RANK], stride_map[SPYRE_MAX_DEVICE_RANK];
    uint8_t dim[SPYRE_MAX_DEVICE_RANK]; // of the buffer; LOOP_NO_DIM for a device dim of size 1
    int32_t argument;
} device_form;

typedef struct {
    arena *memory;
    loop_graph *loops;
    VEC(device_form) forms; // by buffer
    map_bytes names;
    uint32_t tiles[LOOP_MAX_TILES], depth; // counted loops that are open
} spec_reader;

// The symbols of one op and what they stand for: loops, counted loops, the row of a gather.
typedef struct {
    uint32_t count;
    const char *names[MOST_SYMBOLS];
    int64_t extent[MOST_SYMBOLS];
} symbols;

// --- Buffers

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

static spyre_status set_dims(const json_node *argument, loop_buffer *buffer, device_form *form)
{
    int64_t lanes = loop_lanes(buffer);
    uint32_t last = form->rank - 1, tiles = tile_dim(form, lanes);
    bool has_stick = form->stride_map[last] > 0;
    if (form->rank > LOOP_MAX_DIMS) return json_error_at(argument, "too many device dims");
    if (form->device_size[last] != lanes)
        return json_error_at(argument, "the last of device_size must be a stick of %" PRId64, lanes);
    for (uint32_t i = 0; i < form->rank; i++) form->dim[i] = LOOP_NO_DIM;
    for (uint32_t i = 0; i < last; i++) {
        if (i == tiles || form->device_size[i] == 1) continue;
        if (form->stride_map[i] <= 0) return json_error_at(argument, "stride_map %u is not positive", i);
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
    for (uint32_t i = 0; i < last; i++)
        if (form->dim[i] != LOOP_NO_DIM && i != tiles)
            buffer->fixed_size[form->dim[i]] = form->device_size[i];
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
    TRY(set_dims(argument, &buffer, &form));
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
    return same ? NULL : json_error_at(argument, "%s is described differently before", buffer->name);
}

// --- Accesses

// The index in every dim of the buffer that the coordinates have at a point.
static spyre_status locate(const spec_reader *r, const json_node *argument, uint32_t id,
                           const symbols *s, const int64_t *point, int64_t index[LOOP_MAX_DIMS])
{
    const device_form *form = &r->forms.items[id];
    const loop_buffer *buffer = &r->loops->buffers.items[id];
    int64_t lanes = loop_lanes(buffer);
    json_node list, item;
    TRY(json_get_array(argument, "device_coordinates", &list));
    TRY(json_expect_array_of(&list, form->rank));
    for (uint32_t d = 0; d < LOOP_MAX_DIMS; d++) index[d] = 0;
    for (uint32_t i = 0; i < form->rank; i++) {
        const char *coordinate;
        int64_t value;
        TRY(json_item(&list, i, &item));
        TRY(json_as_string(&item, &coordinate));
        spyre_status status = op_spec_evaluate(coordinate, s->names, point, s->count, &value);
        if (status) return status_at(status, "%s", r->loops->buffers.items[id].name);
        uint8_t d = form->dim[i];
        if (d == LOOP_NO_DIM && value)
            return json_error_at(&item, "reaches %" PRId64 " in a device dim of size 1", value);
        if (d != LOOP_NO_DIM)
            index[d] += d == buffer->stick && i + 1 < form->rank ? value * lanes : value;
    }
    return NULL;
}

static int64_t host_offset(const loop_buffer *buffer, const int64_t *index)
{
    int64_t offset = 0;
    for (uint32_t d = 0; d < buffer->dim_count; d++) offset += index[d] * buffer->dim[d].stride;
    return offset;
}

// The host stride of one step along symbol `at`.
static spyre_status read_step(const spec_reader *r, const json_node *argument, uint32_t id,
                              const symbols *s, uint32_t at, const int64_t *origin, int64_t *out)
{
    const loop_buffer *buffer = &r->loops->buffers.items[id];
    int64_t point[MOST_SYMBOLS] = {0}, index[LOOP_MAX_DIMS], moved = 0;
    point[at] = 1;
    TRY(locate(r, argument, id, s, point, index));
    *out = 0;
    for (uint32_t d = 0; d < buffer->dim_count; d++) {
        int64_t step = index[d] - origin[d];
        if (!step) continue;
        *out = step * buffer->dim[d].stride;
        if (moved++ || step < 0 || loop_dim_at(buffer, *out) != d)
            return json_error_at(argument, "%s does not move along one device dim of %s",
                                 s->names[at], buffer->name);
    }
    return NULL;
}

static void reach_stick(loop_buffer *buffer, const int64_t *index)
{
    if (buffer->stick == LOOP_NO_DIM) return;
    loop_dim *dim = &buffer->dim[buffer->stick];
    if (index[buffer->stick] >= dim->extent) dim->extent = index[buffer->stick] + 1;
}

static spyre_status read_access(spec_reader *r, const json_node *argument, const symbols *s,
                                loop_op *op, uint32_t id)
{
    loop_buffer *buffer = &r->loops->buffers.items[id];
    loop_access access = {.buffer = id};
    int64_t point[MOST_SYMBOLS] = {0}, origin[LOOP_MAX_DIMS], corner[LOOP_MAX_DIMS], step, last;
    TRY(locate(r, argument, id, s, point, origin));
    last = access.offset = host_offset(buffer, origin);
    if (access.offset < 0) return json_error_at(argument, "starts before %s", buffer->name);
    for (uint32_t at = 0; at < s->count; at++) {
        TRY(read_step(r, argument, id, s, at, origin, &step));
        last += step * (point[at] = s->extent[at] - 1);
        if (at < op->var_count)
            access.stride[at] = step;
        else if (at < op->var_count + op->tile_depth)
            access.tile_stride[at - op->var_count] = step;
        else if (step)
            op->row_stride = step;
    }
    TRY(locate(r, argument, id, s, point, corner));
    if (host_offset(buffer, corner) != last)
        return json_error_at(argument, "device_coordinates are not linear in the symbols");
    reach_stick(buffer, corner);
    bool shuffled = op->op == OPFUNC_SHUFFLE && op->operand_count == 0;
    for (uint32_t v = 0; v < op->var_count; v++)
        if (buffer->in_lx && op->split[v] > 1 && access.stride[v] && !shuffled)
            buffer->slices[loop_dim_at(buffer, access.stride[v])] = op->split[v];
    op->operand[op->operand_count++] = access;
    return NULL;
}

// A buffer that every iteration of all loops around the op has for itself, or of the outer ones.
static spyre_status read_tile_depth(const json_node *argument, const loop_op *op,
                                    loop_buffer *buffer)
{
    bool fixed;
    int64_t depth = op->tile_depth;
    json_node info, depths, given;
    TRY(json_get_bool(argument, "per_tile_fixed", &fixed));
    TRY(json_get_object(argument->parent->parent, "op_info", &info)); // of args, of the spec
    if (json_find(&info, "tile_depths", &depths) && json_find(&depths, buffer->name, &given))
        TRY(json_as_int(&given, 0, op->tile_depth, &depth));
    buffer->tile_depth = fixed ? (uint32_t)depth : 0;
    return NULL;
}

static spyre_status read_argument(spec_reader *r, const json_node *argument, const symbols *s,
                                  bool is_result, loop_op *op)
{
    const char *name;
    bool is_input;
    uint32_t id;
    TRY(json_get_string(argument, "name", &name));
    TRY(json_get_bool(argument, "is_input", &is_input));
    if (is_input == is_result)
        return json_error_at(argument, "the last argument is the result, all others are inputs");
    bool known = map_string_get(&r->names, name, &id);
    TRY(known ? check_same(r, argument, id) : add_buffer(r, argument, name, &id));
    loop_buffer *buffer = &r->loops->buffers.items[id];
    if (is_result) {
        buffer->kind = LOOP_LOCAL;
        buffer->exx2 = op->op == OPFUNC_EXX2;
    }
    TRY(read_tile_depth(argument, op, buffer));
    return read_access(r, argument, s, op, id);
}

// --- Ops

static spyre_status add_symbol(const json_node *at, symbols *s, const char *name, int64_t extent)
{
    for (uint32_t i = 0; i < s->count; i++)
        if (strcmp(s->names[i], name) == 0) return json_error_at(at, "%.20s occurs twice", name);
    s->names[s->count] = name;
    s->extent[s->count++] = extent;
    return NULL;
}

static spyre_status read_space(spec_reader *r, const json_node *spec, symbols *s, loop_op *op)
{
    static const char *const loops[] = {"i_0", "i_1", "i_2", "i_3"};
    json_node space, member, item;
    void *cursor = NULL;
    TRY(json_get_object(spec, "iteration_space", &space));
    while (json_next_member(&space, &cursor, &member)) {
        int64_t extent, split;
        if (op->var_count == LOOP_MAX_VARS) return json_error_at(&space, "more than 8 loops");
        TRY(json_expect_array_of(&member, 2));
        TRY(json_item(&member, 0, &item));
        TRY(json_as_int(&item, 2, MOST_EXTENT, &extent));
        TRY(json_item(&member, 1, &item));
        TRY(json_as_int(&item, 1, r->loops->cores, &split));
        op->extent[op->var_count] = extent;
        op->split[op->var_count++] = (int32_t)split;
        TRY(add_symbol(&space, s, member.key, extent));
    }
    op->tile_depth = r->depth;
    for (uint32_t t = 0; t < r->depth; t++) {
        op->tiles[t] = r->tiles[t];
        TRY(add_symbol(&space, s, loops[t], r->loops->tiles.items[r->tiles[t]].count));
    }
    return NULL;
}

static spyre_status read_parameters(const json_node *info, loop_op *op)
{
    const opfunc_info *about = opfunc_describe(op->op);
    json_node constants = {0};
    if (!about->parameter[0]) return NULL;
    TRY(json_get_object(info, "constants", &constants));
    for (uint32_t i = 0; i < OPFUNC_MAX_PARAMETERS && about->parameter[i]; i++) {
        json_node member;
        double value;
        TRY(json_member(&constants, about->parameter[i], &member));
        if (json_is_string(member.value)) {
            const char *word = json_string_value(member.value);
            value = word[0] == '-' ? -INFINITY : word[0] == 'i' ? INFINITY : NAN;
        } else {
            TRY(json_as_real(&member, &value));
        }
        op->parameter[i] = (float)value;
    }
    return NULL;
}

static spyre_status read_info(spec_reader *r, const json_node *spec, symbols *s, loop_op *op)
{
    json_node info, member, strides;
    const char *location;
    TRY(json_get_object(spec, "op_info", &info));
    TRY(read_parameters(&info, op));
    if (json_find(&info, "location", &member)) {
        TRY(json_as_string(&member, &location));
        op->location = arena_strdup(r->memory, location);
        TRY_ALLOC(op->location);
    }
    op->gather = json_find(&info, "rows", &member);
    if (op->gather) {
        TRY(json_as_int(&member, 1, MOST_EXTENT, &op->row_count));
        TRY(add_symbol(&info, s, "row", op->row_count));
    }
    if (!json_find(&info, "core_strides", &strides)) return NULL;
    for (uint32_t v = 0; v < op->var_count; v++) {
        int64_t stride = 0;
        if (op->split[v] > 1) TRY(json_get_int(&strides, s->names[v], 1, 1024, &stride));
        op->core_stride[v] = (int32_t)stride;
    }
    return NULL;
}

static spyre_status read_op(spec_reader *r, const json_node *spec)
{
    const char *name;
    json_node arguments, argument;
    symbols s = {0};
    loop_op op = {.stick = LOOP_NO_DIM};
    TRY(json_get_string(spec, "op", &name));
    op.op = opfunc_named(name);
    if (op.op == OPFUNC_NONE) return json_error_at(spec, "no opfunc is named '%.40s'", name);
    TRY(read_space(r, spec, &s, &op));
    TRY(read_info(r, spec, &s, &op));
    TRY(json_get_array(spec, "args", &arguments));
    size_t count = json_count(&arguments);
    if (count < 2 || count > LOOP_MAX_OPERANDS)
        return json_error_at(&arguments, "2 to %d arguments are possible", LOOP_MAX_OPERANDS);
    for (size_t i = 0; i < count; i++) {
        TRY(json_item(&arguments, i, &argument));
        TRY(read_argument(r, &argument, &s, i + 1 == count, &op));
    }
    op.name = r->loops->buffers.items[loop_output_of(&op)->buffer].name;
    if (!json_object_get(json_object_get(spec->value, "op_info"), "core_strides")) {
        division d = division_get(&op);
        division_number_cores(&op, &d);
        for (uint32_t v = 0; v < op.var_count; v++) op.core_stride[v] = d.core_stride[v];
    }
    return VEC_PUSH(r->memory, &r->loops->ops, op);
}

static spyre_status read_list(spec_reader *r, const json_node *array);

static spyre_status read_loop(spec_reader *r, const json_node *spec)
{
    json_node body;
    int64_t count;
    TRY(json_get_int(spec, "count", 2, MOST_EXTENT, &count));
    TRY(json_get_array(spec, "body", &body));
    if (r->depth == LOOP_MAX_TILES)
        return json_error_at(spec, "more than %d counted loops", LOOP_MAX_TILES);
    r->tiles[r->depth++] = r->loops->tiles.count;
    TRY(VEC_PUSH(r->memory, &r->loops->tiles, ((loop_tiles){.count = count, .name = "i"})));
    TRY(read_list(r, &body));
    r->depth--;
    return NULL;
}

static spyre_status read_list(spec_reader *r, const json_node *array)
{
    json_node spec, member;
    TRY(json_expect_array(array));
    for (size_t i = 0; i < json_count(array); i++) {
        TRY(json_item(array, i, &spec));
        TRY(json_expect_object(&spec));
        TRY(json_find(&spec, "body", &member) ? read_loop(r, &spec) : read_op(r, &spec));
    }
    return NULL;
}

// --- The whole

static spyre_status begin(const spyre_settings *settings, arena *memory, spec_reader *r)
{
    spyre_graph *graph = graph_create(memory);
    loop_graph *loops = ARENA_NEW(memory, loop_graph, 1);
    TRY_ALLOC(graph);
    TRY_ALLOC(loops);
    *r = (spec_reader){.memory = memory, .loops = loops};
    TRY(VEC_PUSH(memory, &graph->nodes, (graph_node){0}));
    loops->memory = memory;
    loops->graph = graph;
    loops->settings = *settings;
    loops->cores = settings->sencores;
    loops->at_node = ARENA_NEW(memory, uint32_t, 1);
    TRY_ALLOC(loops->at_node);
    return NULL;
}

static spyre_layout layout_of(const device_form *form, spyre_format format)
{
    spyre_layout layout = {.rank = form->rank, .format = format};
    memcpy(layout.device_size, form->device_size, sizeof layout.device_size);
    memcpy(layout.stride_map, form->stride_map, sizeof layout.stride_map);
    return layout;
}

// Inputs and output buffers keep their order among the launch arguments. One that no op names is an
// input that nothing reads.
static spyre_status number_arguments(spec_reader *r, op_spec_list *out)
{
    loop_graph *loops = r->loops;
    spyre_graph *graph = (spyre_graph *)(uintptr_t)loops->graph; // made by begin()
    uint32_t count = loops->buffers.count;
    for (uint32_t b = 0; b < count; b++)
        if (r->forms.items[b].argument >= (int32_t)out->argument_count)
            out->argument_count = (uint32_t)r->forms.items[b].argument + 1;
    out->arguments = ARENA_NEW(r->memory, op_spec_argument_use, out->argument_count);
    TRY_ALLOC(out->arguments);
    for (uint32_t k = 0; k < out->argument_count; k++) out->arguments[k].buffer = LOOP_UNUSED;
    for (uint32_t b = 0; b < count; b++) {
        const device_form *form = &r->forms.items[b];
        if (form->argument < 0) continue;
        op_spec_argument_use *use = &out->arguments[form->argument];
        if (use->buffer != LOOP_UNUSED)
            return status_new(SPYRE_INVALID_FORMAT, "%s and %s are both argument %d",
                              loops->buffers.items[use->buffer].name, loops->buffers.items[b].name,
                              form->argument);
        *use = (op_spec_argument_use){.written = loops->buffers.items[b].kind == LOOP_LOCAL,
                                      .buffer = b,
                                      .layout = layout_of(form, loops->buffers.items[b].format)};
    }
    for (uint32_t k = 0; k < out->argument_count; k++) {
        op_spec_argument_use *use = &out->arguments[k];
        use->place = use->written ? loops->output_buffer_count++ : graph->inputs.count;
        if (!use->written) TRY(VEC_PUSH(r->memory, &graph->inputs, (graph_input){0}));
        if (use->buffer == LOOP_UNUSED) continue;
        loop_buffer *buffer = &loops->buffers.items[use->buffer];
        buffer->index = use->place;
        if (!use->written) continue;
        buffer->output = (int32_t)use->place;
        TRY(VEC_PUSH(r->memory, &loops->outputs, ((loop_output){.buffer = use->buffer})));
    }
    return NULL;
}

static void finish_buffer(loop_graph *loops, loop_buffer *buffer)
{
    int64_t strides[LOOP_MAX_DIMS];
    if (buffer->stick != LOOP_NO_DIM && buffer->dim[buffer->stick].extent < 2)
        buffer->dim[buffer->stick].extent = 2;
    if (buffer->dim_count <= SPYRE_MAX_RANK) {
        buffer->storage.rank = buffer->dim_count;
        for (uint32_t d = 0; d < buffer->dim_count; d++) {
            buffer->storage.size[buffer->dim_count - 1 - d] = buffer->dim[d].extent;
            buffer->storage.stride[buffer->dim_count - 1 - d] = buffer->dim[d].stride;
        }
    }
    loop_device_strides(buffer, strides, &buffer->bytes);
    int64_t end = buffer->memory_offset + buffer->bytes;
    bool pooled = buffer->kind == LOOP_LOCAL && buffer->output < 0 && !buffer->in_lx;
    if (pooled && end > loops->pool_bytes) loops->pool_bytes = end;
}

static spyre_status finish(spec_reader *r, op_spec_list *out)
{
    loop_graph *loops = r->loops;
    TRY(number_arguments(r, out));
    for (uint32_t b = 0; b < loops->buffers.count; b++)
        finish_buffer(loops, &loops->buffers.items[b]);
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        loop_op *op = &loops->ops.items[i];
        loop_location place;
        if (!loop_locate(loops, op, loop_output_of(op), &place)) op->stick = place.stick_var;
    }
    loop_find_live_ranges(loops);
    loops->stage = FRONT_PASS_COUNT;
    spyre_status broken = loop_verify(loops);
    if (spyre_status_code(broken) != SPYRE_INTERNAL) return broken;
    spyre_status status = status_new(SPYRE_INVALID_FORMAT, "%s", spyre_status_message(broken));
    spyre_status_free(broken);
    return status;
}

spyre_status op_spec_read(const json_node *array, const spyre_settings *settings, arena *memory,
                          op_spec_list *out)
{
    spec_reader r;
    *out = (op_spec_list){0};
    TRY(begin(settings, memory, &r));
    TRY(read_list(&r, array));
    TRY(finish(&r, out));
    out->loops = r.loops;
    return NULL;
}
