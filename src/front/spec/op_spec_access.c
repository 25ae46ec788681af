// SPDX-License-Identifier: Apache-2.0
//
// Accesses of OpSpecs. Coordinates are affine in the symbols, so their values at the origin and one
// step along each symbol say all; the value at the far corner tells whether that is true.
#include <inttypes.h>
#include <string.h>

#include "front/spec/op_spec_reader.h"

// The point whose loops stand where the counted loops have advanced them to. A buffer that every
// iteration has for itself does not advance.
static void advance_loops(const loop_buffer *buffer, const symbols *s, const int64_t *point,
                          int64_t *out)
{
    memcpy(out, point, MOST_SYMBOLS * sizeof *out);
    for (uint32_t t = 0; t < LOOP_MAX_TILES && buffer->tile_depth == 0; t++)
        for (uint32_t v = 0; v < s->loops; v++)
            if (s->advance[t][v]) out[v] += point[s->loops + t] * s->advance[t][v];
}

// The coordinates of an argument, in buffer `id`.
typedef struct {
    const spec_reader *r;
    const json_node *argument;
    uint32_t id;
    const symbols *s;
} coordinates;

// The index in every dim of the buffer that the coordinates have at a point.
static spyre_status locate(const coordinates *c, const int64_t *point,
                           int64_t index[LOOP_MAX_DIMS])
{
    const symbols *s = c->s;
    const device_form *form = &c->r->forms.items[c->id];
    const loop_buffer *buffer = &c->r->loops->buffers.items[c->id];
    int64_t lanes = loop_lanes(buffer), at[MOST_SYMBOLS];
    json_node list, item;
    advance_loops(buffer, s, point, at);
    TRY(json_get_array(c->argument, "device_coordinates", &list));
    TRY(json_expect_array_of(&list, form->rank));
    for (uint32_t d = 0; d < LOOP_MAX_DIMS; d++) index[d] = 0;
    for (uint32_t i = 0; i < form->rank; i++) {
        const char *coordinate;
        int64_t value;
        TRY(json_item(&list, i, &item));
        TRY(json_as_string(&item, &coordinate));
        spyre_status status = op_spec_evaluate(coordinate, s->names, at, s->count, &value);
        if (status) return status_at(status, "%s", buffer->name);
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
static spyre_status read_step(const coordinates *c, uint32_t at, const int64_t *origin,
                              int64_t *out)
{
    const loop_buffer *buffer = &c->r->loops->buffers.items[c->id];
    int64_t point[MOST_SYMBOLS] = {0}, index[LOOP_MAX_DIMS], moved = 0;
    point[at] = 1;
    TRY(locate(c, point, index));
    *out = 0;
    for (uint32_t d = 0; d < buffer->dim_count; d++) {
        int64_t step = index[d] - origin[d];
        if (!step) continue;
        *out = step * buffer->dim[d].stride;
        if (moved++ || step < 0 || loop_dim_at(buffer, *out) != d)
            return json_error_at(c->argument, "%s does not move along one device dim of %s",
                                 c->s->names[at], buffer->name);
    }
    return NULL;
}

static void reach_stick(loop_buffer *buffer, const int64_t *index)
{
    if (buffer->stick == LOOP_NO_DIM) return;
    loop_dim *dim = &buffer->dim[buffer->stick];
    if (index[buffer->stick] >= dim->extent) dim->extent = index[buffer->stick] + 1;
}

static spyre_status read_count(loop_graph *loops, const json_node *argument, const loop_op *op,
                               loop_access *out)
{
    loop_count count = {0};
    const int64_t most = LOOP_MOST_COUNT;
    json_node counted, steps, item;
    int64_t number;
    if (!json_find(argument, "counted_from", &counted)) return NULL;
    TRY(json_expect_object(&counted));
    TRY(json_get_int(&counted, "first", -most, most, &number));
    count.first = (int32_t)number;
    TRY(json_get_bool(&counted, "signs", &count.signs));
    TRY(json_get_array(&counted, "steps", &steps));
    TRY(json_expect_array_of(&steps, op->var_count + op->tile_depth));
    for (uint32_t n = 0; n < op->var_count + op->tile_depth; n++) {
        TRY(json_item(&steps, n, &item));
        TRY(json_as_int(&item, -most, most, &number));
        *(n < op->var_count ? &count.step[n] : &count.tile_step[n - op->var_count]) =
            (int32_t)number;
    }
    return loop_set_count(loops, out, count);
}

static spyre_status read_access(spec_reader *r, const json_node *argument, const symbols *s,
                                loop_op *op, uint32_t id)
{
    loop_buffer *buffer = &r->loops->buffers.items[id];
    loop_access access = {.buffer = id};
    const coordinates c = {r, argument, id, s};
    int64_t point[MOST_SYMBOLS] = {0}, origin[LOOP_MAX_DIMS], corner[LOOP_MAX_DIMS], step, last;
    TRY(locate(&c, point, origin));
    last = access.offset = host_offset(buffer, origin);
    if (access.offset < 0) return json_error_at(argument, "starts before %s", buffer->name);
    for (uint32_t at = 0; at < s->count; at++) {
        TRY(read_step(&c, at, origin, &step));
        last += step * (point[at] = s->extent[at] - 1);
        if (at < op->var_count)
            access.stride[at] = step;
        else if (at < op->var_count + op->tile_depth)
            access.tile_stride[at - op->var_count] = step;
        else if (step)
            op->row_stride = step;
    }
    TRY(locate(&c, point, corner));
    if (host_offset(buffer, corner) != last)
        return json_error_at(argument, "device_coordinates are not linear in the symbols");
    reach_stick(buffer, corner);
    TRY(read_count(r->loops, argument, op, &access));
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

spyre_status op_spec_read_argument(spec_reader *r, const json_node *argument, const symbols *s,
                                   bool is_result, loop_op *op)
{
    const char *name;
    bool is_input;
    uint32_t id;
    TRY(json_get_string(argument, "name", &name));
    TRY(json_get_bool(argument, "is_input", &is_input));
    if (is_input == is_result)
        return json_error_at(argument, "the last argument is the result, all others are inputs");
    TRY(op_spec_read_buffer(r, argument, name, &id));
    loop_buffer *buffer = &r->loops->buffers.items[id];
    device_form *form = &r->forms.items[id];
    if (!is_result) form->read = true;
    if (is_result) {
        bool replaced = form->read && buffer->kind == LOOP_INPUT;
        if (replaced)
            buffer->replaced_by = 1;
        else
            buffer->kind = LOOP_LOCAL;
        buffer->exx2 = op->op == OPFUNC_EXX2;
    }
    TRY(read_tile_depth(argument, op, buffer));
    return read_access(r, argument, s, op, id);
}
