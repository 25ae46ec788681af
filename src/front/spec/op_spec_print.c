// SPDX-License-Identifier: Apache-2.0
//
// From the loop IR to OpSpecs. A device coordinate is the index in that device dim as a sum over
// loop symbols: c0, c1, .. of the op, i_0, i_1, .. of the counted loops around it.
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "front/ir/division.h"
#include "front/ir/core_numbers.h"
#include "front/spec/op_spec.h"
#include "front/spec/op_spec_parts.h"

typedef struct {
    const loop_graph *loops;
    loop_buffer *buffers; // those of `loops`, in parts
    arena *scratch;
    bool failed; // memory was short
} printer;

static void put(printer *p, json_t *object, const char *key, json_t *value)
{
    if (json_object_set_new(object, key, value) != 0) p->failed = true;
}

static void add(printer *p, json_t *array, json_t *value)
{
    if (json_array_append_new(array, value) != 0) p->failed = true;
}

static json_t *number(int64_t value)
{
    return json_integer((json_int_t)value);
}

// Text in scratch memory; "" and `failed` when it is short.
#define TEXT(p, ...) text_or_fail(p, arena_printf((p)->scratch, __VA_ARGS__))
static const char *text_or_fail(printer *p, const char *made)
{
    if (!made) p->failed = true;
    return made ? made : "";
}

json_t *op_spec_real(double value)
{
    return isfinite(value) ? json_real(value)
                           : json_string(isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
}

int32_t op_spec_argument(const loop_graph *loops, uint32_t buffer)
{
    const loop_buffer *of = &loops->buffers.items[buffer];
    int32_t inputs = (int32_t)loops->graph->inputs.count;
    if (of->kind == LOOP_INPUT) return (int32_t)of->index;
    if (of->kind == LOOP_LOCAL) return of->output < 0 ? -1 : inputs + of->output;
    int32_t at = inputs + (int32_t)loops->output_buffer_count;
    for (uint32_t b = 0; b < buffer; b++)
        at += loops->buffers.items[b].kind == LOOP_CONSTANT &&
              loops->buffers.items[b].first_op != LOOP_UNUSED;
    return at;
}

// --- Coordinates

static const char *plus(printer *p, const char *sum, int64_t factor, const char *symbol)
{
    const char *term = factor == 1 ? symbol : TEXT(p, "%" PRId64 "*%s", factor, symbol);
    return *sum ? TEXT(p, "%s + %s", sum, term) : term;
}

// The factor of a step of `stride` host elements in dim d; 0 when it moves elsewhere.
static int64_t factor_in(const loop_buffer *buffer, uint32_t d, int64_t stride)
{
    return stride > 0 && loop_dim_at(buffer, stride) == d ? stride / buffer->dim[d].stride : 0;
}

static int64_t first_index(const loop_buffer *buffer, uint32_t d, int64_t offset)
{
    int64_t index = offset / buffer->dim[d].stride;
    return d + 1 == buffer->dim_count ? index : index % (buffer->dim[d + 1].stride /
                                                         buffer->dim[d].stride);
}

// The index in dim d: "c0 + 2*c1 + 5".
static const char *index_of(printer *p, const loop_op *op, const loop_access *access, uint32_t d)
{
    const loop_buffer *buffer = &p->buffers[access->buffer];
    const char *sum = "";
    int64_t factor, first = first_index(buffer, d, access->offset);
    for (uint32_t t = 0; t < op->tile_depth; t++)
        if ((factor = factor_in(buffer, d, access->tile_stride[t])))
            sum = plus(p, sum, factor, TEXT(p, "i_%u", t));
    for (uint32_t v = 0; v < op->var_count; v++)
        if ((factor = factor_in(buffer, d, access->stride[v])))
            sum = plus(p, sum, factor, TEXT(p, "c%u", v));
    if (loop_is_table(op, access) && (factor = factor_in(buffer, d, op->row_stride)))
        sum = plus(p, sum, factor, TEXT(p, "IndirectAccess(b%u)", op->operand[0].buffer));
    if (!*sum) return TEXT(p, "%" PRId64, first);
    return first ? TEXT(p, "%s + %" PRId64, sum, first) : sum;
}

static json_t *coordinates_of(printer *p, const loop_op *op, const loop_access *access)
{
    const loop_buffer *buffer = &p->buffers[access->buffer];
    int64_t lanes = loop_lanes(buffer);
    json_t *list = json_array();
    for (uint32_t i = buffer->dim_count; i-- > 0;) {
        const char *index = index_of(p, op, access, buffer->order[i]);
        if (buffer->order[i] == buffer->stick && strcmp(index, "0") != 0)
            index = strchr(index, ' ') || strchr(index, '*')
                        ? TEXT(p, "floor((%s)/%" PRId64 ")", index, lanes)
                        : TEXT(p, "floor(%s/%" PRId64 ")", index, lanes);
        add(p, list, json_string(index));
    }
    const char *lane = buffer->stick == LOOP_NO_DIM ? "0" : index_of(p, op, access, buffer->stick);
    if (strcmp(lane, "0") != 0) lane = TEXT(p, "Mod(%s, %" PRId64 ")", lane, lanes);
    add(p, list, json_string(lane));
    return list;
}

// --- Arguments

// Of the whole buffer, also where cores have slices of it.
static void put_layout(printer *p, json_t *out, const loop_buffer *buffer)
{
    json_t *sizes = json_array(), *strides = json_array();
    loop_buffer whole = *buffer;
    whole.in_lx = false;
    const spyre_layout layout = front_device_dims(&whole);
    for (uint32_t i = 0; i < layout.rank; i++) {
        add(p, sizes, number(layout.device_size[i]));
        add(p, strides, number(layout.stride_map[i]));
    }
    put(p, out, "device_size", sizes);
    put(p, out, "stride_map", strides);
}

static json_t *allocation_of(printer *p, const loop_buffer *buffer, int32_t argument)
{
    const char *where = buffer->in_lx ? "lx" : argument < 0 ? "pool" : "hbm";
    json_t *out = json_object();
    put(p, out, where, number(argument < 0 ? buffer->memory_offset : 0));
    return out;
}

// In the order of the op's loops, then of the counted loops around it.
static void put_count(printer *p, json_t *out, const loop_op *op, const loop_count *count)
{
    if (!count) return;
    json_t *of = json_object(), *steps = json_array();
    for (uint32_t v = 0; v < op->var_count; v++) add(p, steps, number(count->step[v]));
    for (uint32_t t = 0; t < op->tile_depth; t++) add(p, steps, number(count->tile_step[t]));
    put(p, of, "first", number(count->first));
    put(p, of, "steps", steps);
    put(p, of, "signs", json_boolean(count->signs));
    put(p, out, "counted_from", of);
}

static json_t *argument_of(printer *p, const loop_op *op, uint32_t k)
{
    const loop_access *access = &op->operand[k];
    const loop_buffer *buffer = &p->buffers[access->buffer];
    int32_t argument = op_spec_argument(p->loops, access->buffer);
    json_t *out = json_object();
    put(p, out, "is_input", json_boolean(k + 1 < op->operand_count));
    put(p, out, "arg_index", number(argument));
    put(p, out, "device_dtype", json_string(spyre_format_name(buffer->format)));
    put_layout(p, out, buffer);
    put(p, out, "device_coordinates", coordinates_of(p, op, access));
    put_count(p, out, op, loop_count_of(p->loops, access));
    put(p, out, "allocation", allocation_of(p, buffer, argument));
    put(p, out, "per_tile_fixed",
        json_boolean(op->tile_depth > 0 && buffer->tile_depth > 0));
    put(p, out, "name", json_string(TEXT(p, "b%u", access->buffer)));
    return out;
}

// --- Ops

static bool numbers_cores_as_usual(const loop_op *op)
{
    division usual = division_get(op);
    core_numbers_as_published(op, &usual);
    for (uint32_t v = 0; v < op->var_count; v++)
        if (op->split[v] > 1 && usual.core_stride[v] != op->core_stride[v]) return false;
    return true;
}

static json_t *scanned_of(printer *p, const loop_op *op)
{
    json_t *symbols = json_array();
    for (uint32_t v = 0; v < op->var_count; v++)
        if (loop_var_is_scanned(op, v))
            add(p, symbols, json_string(TEXT(p, "c%u", v)));
    return symbols;
}

static json_t *info_of(printer *p, const loop_op *op)
{
    const opfunc_info *about = opfunc_describe(op->op);
    json_t *out = json_object(), *constants = json_object(), *strides = json_object();
    json_t *depths = json_object();
    for (uint32_t i = 0; i < opfunc_constant_count(op->op, op->operand_count - 1u); i++)
        put(p, constants, about->parameter[i], op_spec_real((double)op->parameter[i]));
    for (uint32_t v = 0; v < op->var_count; v++)
        if (op->split[v] > 1) put(p, strides, TEXT(p, "c%u", v), number(op->core_stride[v]));
    for (uint32_t k = 0; k < op->operand_count; k++) {
        uint32_t b = op->operand[k].buffer, depth = p->loops->buffers.items[b].tile_depth;
        if (depth > 0 && depth < op->tile_depth) put(p, depths, TEXT(p, "b%u", b), number(depth));
    }
    if (json_object_size(constants) > 0) put(p, out, "constants", json_incref(constants));
    if (!numbers_cores_as_usual(op)) put(p, out, "core_strides", json_incref(strides));
    if (op->table) put(p, out, "rows", number(op->row_count));
    if (op->table > 1) put(p, out, "rows_of", number(op->table));
    if (opfunc_accumulates(op->accumulator))
        put(p, out, "row_accumulator", json_string(opfunc_describe(op->accumulator)->name));
    if (op->scanned) put(p, out, "scanned", scanned_of(p, op));
    if (op->location) put(p, out, "location", json_string(op->location));
    if (json_object_size(depths) > 0) put(p, out, "tile_depths", json_incref(depths));
    json_decref(constants);
    json_decref(strides);
    json_decref(depths);
    return out;
}

// The symbol that counted loop t cuts into tiles, or null.
static const char *tiled_symbol(printer *p, const loop_op *op, uint32_t t)
{
    for (uint32_t k = 0; k < op->operand_count; k++)
        for (uint32_t v = 0; v < op->var_count; v++) {
            int64_t whole = op->operand[k].stride[v] * op->extent[v];
            if (whole && whole == op->operand[k].tile_stride[t]) return TEXT(p, "c%u", v);
        }
    return NULL;
}

static json_t *tiled_symbols_of(printer *p, const loop_op *op)
{
    json_t *out = json_array();
    for (uint32_t t = 0; t < op->tile_depth; t++) {
        const char *symbol = tiled_symbol(p, op, t);
        if (symbol) add(p, out, json_string(symbol));
    }
    return out;
}

static json_t *spec_of(printer *p, const loop_op *op)
{
    json_t *out = json_object(), *space = json_object(), *arguments = json_array();
    for (uint32_t v = 0; v < op->var_count; v++)
        put(p, space, TEXT(p, "c%u", v),
            json_pack("[I, i]", (json_int_t)op->extent[v], (int)op->split[v]));
    for (uint32_t k = 0; k < op->operand_count; k++) add(p, arguments, argument_of(p, op, k));
    put(p, out, "op", json_string(opfunc_describe(op->op)->name));
    put(p, out, "is_reduction", json_boolean(opfunc_reduces(op->op)));
    put(p, out, "iteration_space", space);
    put(p, out, "args", arguments);
    put(p, out, "op_info", info_of(p, op));
    put(p, out, "tiled_symbols", tiled_symbols_of(p, op));
    return out;
}

// Ops [first, last), which all stand inside of `depth` counted loops.
static json_t *specs_of(printer *p, uint32_t first, uint32_t last, uint32_t depth)
{
    json_t *out = json_array();
    for (uint32_t i = first, end; i < last; i = end) {
        const loop_op *op = &p->loops->ops.items[i];
        end = i + 1;
        if (op->tile_depth == depth) {
            add(p, out, spec_of(p, op));
            continue;
        }
        while (end < last && loop_shared_tiles(op, &p->loops->ops.items[end]) > depth) end++;
        json_t *loop = json_object(), *symbols = json_array();
        const char *symbol = tiled_symbol(p, op, depth);
        if (symbol) add(p, symbols, json_string(symbol));
        put(p, loop, "count", number(p->loops->tiles.items[op->tiles[depth]].count));
        put(p, loop, "body", specs_of(p, i, end, depth + 1));
        put(p, loop, "tiled_symbols", symbols);
        add(p, out, loop);
    }
    return out;
}

static spyre_status take_buffers_apart(printer *p)
{
    TRY_NEW(p->scratch, p->buffers, p->loops->buffers.count);
    for (uint32_t b = 0; b < p->loops->buffers.count; b++)
        TRY(op_spec_in_parts(p->scratch, p->loops, b, &p->buffers[b]));
    return NULL;
}

spyre_status op_spec_print(const loop_graph *loops, json_t **out)
{
    printer p = {.loops = loops, .scratch = arena_create()};
    TRY_ALLOC(p.scratch);
    spyre_status status = take_buffers_apart(&p);
    *out = status ? NULL : specs_of(&p, 0, loops->ops.count, 0);
    spyre_status_free(status);
    arena_destroy(p.scratch);
    if (*out && !p.failed) return NULL;
    json_decref(*out);
    *out = NULL;
    return status_no_memory();
}
