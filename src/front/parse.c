// SPDX-License-Identifier: Apache-2.0
//
// Reads the text form of the loop IR, docs/loop-text.md: what print.c writes, and with other
// blanks. Comments are names and notes. What the text does not say is left empty: graph, storages,
// live ranges.
#include "front/loop.h"
#include "graph/scan.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

enum { MOST_TILES = 4096 };

typedef struct {
    scanner in;
    loop_graph *loops;
} reader;

// --- Words and numbers

// An int within bounds; errors are at its first character.
static spyre_status read_int(reader *r, const char *what, int64_t low, int64_t high, int64_t *out)
{
    scan_blanks(&r->in);
    const scanner before = r->in;
    TRY(scan_int(&r->in, out));
    if (*out >= low && *out <= high) return NULL;
    if (high == INT64_MAX)
        return scan_error(&before, "%s must be %lld or more", what, (long long)low);
    return scan_error(&before, "%s must be %lld to %lld", what, (long long)low, (long long)high);
}

// A letter and a number: "b7".
static spyre_status read_id(reader *r, char letter, const char *what, uint32_t count,
                            uint32_t *out)
{
    int64_t id;
    scan_blanks(&r->in);
    const scanner before = r->in;
    if (r->in.at[0] != letter || !isdigit((unsigned char)r->in.at[1]))
        return scan_error(&before, "expected %s", what);
    r->in.at++;
    TRY(scan_int(&r->in, &id));
    if (id >= count) return scan_error(&before, "%c%lld is not known here", letter, (long long)id);
    *out = (uint32_t)id;
    return NULL;
}

static spyre_status read_real(reader *r, double *out)
{
    bool is_int;
    int64_t whole;
    bool negative = scan_accept(&r->in, "-");
    if (scan_accept_word(&r->in, "inf")) *out = HUGE_VAL;
    else if (scan_accept_word(&r->in, "nan")) *out = NAN;
    else {
        TRY(scan_number(&r->in, &is_int, &whole, out));
        if (is_int) *out = (double)whole;
    }
    if (negative) *out = -*out;
    return NULL;
}

// The comment that ends the line, cut where `mark` first stands; what is behind it goes to
// *out_rest, null without a mark.
static spyre_status read_comment(reader *r, const char *mark, const char **out,
                                 const char **out_rest)
{
    TRY(scan_expect(&r->in, "//"));
    if (*r->in.at == ' ') r->in.at++;
    size_t length = strcspn(r->in.at, "\r\n"), name = length, rest = strlen(mark);
    for (size_t i = 0; i + rest <= length && name == length; i++)
        if (memcmp(r->in.at + i, mark, rest) == 0) name = i;
    *out = arena_strndup(r->in.memory, r->in.at, name);
    TRY_ALLOC(*out);
    *out_rest = NULL;
    if (name < length) {
        *out_rest = arena_strndup(r->in.memory, r->in.at + name + rest, length - name - rest);
        TRY_ALLOC(*out_rest);
    }
    r->in.at += length;
    return scan_line_end(&r->in);
}

// Skips lines that are empty or a comment; false at the end.
static bool next_line(reader *r)
{
    while (scan_next_line(&r->in)) {
        if (strncmp(r->in.at, "//", 2) != 0) return true;
        r->in.at += strcspn(r->in.at, "\n");
    }
    return false;
}

// --- Buffers

static spyre_status read_dims(reader *r, loop_buffer *buffer)
{
    TRY(scan_expect(&r->in, "dims"));
    TRY(scan_expect(&r->in, "("));
    while (!scan_accept(&r->in, ")")) {
        if (buffer->dim_count == LOOP_MAX_DIMS)
            return scan_error(&r->in, "more than %d dims", LOOP_MAX_DIMS);
        loop_dim *dim = &buffer->dim[buffer->dim_count++];
        TRY(read_int(r, "an extent", 2, INT64_MAX, &dim->extent));
        TRY(scan_expect(&r->in, ":"));
        TRY(read_int(r, "a stride", 1, INT64_MAX, &dim->stride));
    }
    return NULL;
}

// "(1 2 0*)" or "(1 2 sparse)"
static spyre_status read_layout(reader *r, loop_buffer *buffer)
{
    int64_t dim;
    uint32_t ordered = 0, known = 0;
    buffer->has_layout = true;
    TRY(scan_expect(&r->in, "("));
    while (ordered < buffer->dim_count) {
        TRY(read_int(r, "a dim", 0, buffer->dim_count - 1, &dim));
        if (known & 1u << dim) return scan_error(&r->in, "dim %lld twice", (long long)dim);
        known |= 1u << dim;
        buffer->order[ordered++] = (uint8_t)dim;
        if (!scan_accept(&r->in, "*")) continue;
        if (buffer->stick != LOOP_NO_DIM) return scan_error(&r->in, "a second stick");
        buffer->stick = (uint8_t)dim;
    }
    if (buffer->stick == LOOP_NO_DIM && !scan_accept_word(&r->in, "sparse"))
        return scan_error(&r->in, "expected 'sparse', or a dim with '*'");
    return scan_expect(&r->in, ")");
}

static spyre_status read_place(reader *r, loop_buffer *buffer)
{
    TRY(scan_expect(&r->in, "("));
    TRY(read_int(r, "an offset", 0, INT64_MAX, &buffer->memory_offset));
    TRY(scan_expect(&r->in, "+"));
    TRY(read_int(r, "a size", 1, INT64_MAX, &buffer->bytes));
    return scan_expect(&r->in, ")");
}

static spyre_status read_slices(reader *r, loop_buffer *buffer)
{
    int64_t dim, count;
    TRY(scan_expect(&r->in, "("));
    TRY(read_int(r, "a dim", 0, (int64_t)buffer->dim_count - 1, &dim));
    TRY(scan_expect(&r->in, "/"));
    TRY(read_int(r, "a count of slices", 2, INT32_MAX, &count));
    buffer->slices[dim] = (int32_t)count;
    return scan_expect(&r->in, ")");
}

static spyre_status read_kind(reader *r, loop_buffer_kind *out)
{
    if (scan_accept_word(&r->in, "input")) *out = LOOP_INPUT;
    else if (scan_accept_word(&r->in, "constant")) *out = LOOP_CONSTANT;
    else if (scan_accept_word(&r->in, "local")) *out = LOOP_LOCAL;
    else return scan_error(&r->in, "expected input, constant or local");
    return NULL;
}

static spyre_status read_types(reader *r, loop_buffer *buffer)
{
    const char *dtype, *format;
    const scanner before = r->in;
    TRY(scan_name(&r->in, "a dtype", &dtype));
    spyre_status unknown = spyre_dtype_named(dtype, &buffer->dtype);
    if (unknown) {
        spyre_status_free(unknown);
        return scan_error(&before, "no dtype is named '%s'", dtype);
    }
    TRY(scan_name(&r->in, "a format", &format));
    buffer->format = spyre_format_named(format);
    if (buffer->format == SPYRE_FORMAT_INVALID)
        return scan_error(&r->in, "no format is named '%s'", format);
    return NULL;
}

static spyre_status read_traits(reader *r, loop_buffer *buffer)
{
    int64_t output;
    if (scan_accept_word(&r->in, "layout")) TRY(read_layout(r, buffer));
    if (buffer->kind == LOOP_CONSTANT) {
        TRY(scan_expect(&r->in, "value"));
        TRY(scan_expect(&r->in, "("));
        TRY(read_real(r, &buffer->value));
        TRY(scan_expect(&r->in, ")"));
    }
    buffer->exx2 = scan_accept_word(&r->in, "exx2");
    if (scan_accept_word(&r->in, "output")) {
        TRY(scan_expect(&r->in, "("));
        TRY(read_int(r, "an output", 0, INT32_MAX, &output));
        buffer->output = (int32_t)output;
        TRY(scan_expect(&r->in, ")"));
    }
    buffer->in_lx = scan_accept_word(&r->in, "lx");
    if (buffer->in_lx || scan_accept_word(&r->in, "memory")) TRY(read_place(r, buffer));
    while (buffer->in_lx && scan_accept_word(&r->in, "slices")) TRY(read_slices(r, buffer));
    return NULL;
}

static spyre_status read_buffer(reader *r)
{
    uint32_t id, count = r->loops->buffers.count;
    loop_buffer buffer = {.stick = LOOP_NO_DIM, .output = -1};
    for (uint32_t d = 0; d < LOOP_MAX_DIMS; d++) buffer.slices[d] = 1;
    TRY(read_id(r, 'b', "a buffer", UINT32_MAX, &id));
    if (id != count) return scan_error(&r->in, "the next buffer is b%u", count);
    TRY(read_kind(r, &buffer.kind));
    TRY(read_types(r, &buffer));
    TRY(read_dims(r, &buffer));
    TRY(read_traits(r, &buffer));
    TRY(read_comment(r, "; in memory: ", &buffer.name, &buffer.why_in_memory));
    return VEC_PUSH(r->loops->memory, &r->loops->buffers, buffer);
}

// --- Ops

// "(c0<4, c1<64 reduced stick)"; *out_reduced is what the text says of each.
static spyre_status read_loops(reader *r, loop_op *op, bool *out_reduced)
{
    uint32_t v;
    TRY(scan_expect(&r->in, "("));
    while (!scan_accept(&r->in, ")")) {
        if (op->var_count == LOOP_MAX_VARS)
            return scan_error(&r->in, "more than %d loops", LOOP_MAX_VARS);
        if (op->var_count) TRY(scan_expect(&r->in, ","));
        TRY(read_id(r, 'c', "a loop", LOOP_MAX_VARS, &v));
        if (v != op->var_count) return scan_error(&r->in, "the next loop is c%u", op->var_count);
        TRY(scan_expect(&r->in, "<"));
        TRY(read_int(r, "an extent", 2, INT64_MAX, &op->extent[v]));
        out_reduced[v] = scan_accept_word(&r->in, "reduced");
        op->split[v] = op->core_stride[v] = 1;
        op->var_count++;
        if (!scan_accept_word(&r->in, "stick")) continue;
        if (op->stick != LOOP_NO_DIM) return scan_error(&r->in, "a second stick");
        op->stick = (uint8_t)v;
    }
    return NULL;
}

// Whatever the user calls it, up to the parenthesis.
static spyre_status read_dim_name(reader *r, const char **out_name)
{
    scan_blanks(&r->in);
    size_t length = strcspn(r->in.at, ")\n");
    if (length == 0) return scan_error(&r->in, "expected a dim's name");
    *out_name = arena_strndup(r->loops->memory, r->in.at, length);
    TRY_ALLOC(*out_name);
    r->in.at += length;
    return NULL;
}

// "(t0<8 M)"
static spyre_status read_tiles(reader *r, loop_op *op)
{
    loop_tiles tiles;
    uint32_t id;
    if (op->tile_depth == LOOP_MAX_TILES)
        return scan_error(&r->in, "more than %d loops around an op", LOOP_MAX_TILES);
    TRY(scan_expect(&r->in, "("));
    TRY(read_id(r, 't', "a counted loop", MOST_TILES, &id));
    TRY(scan_expect(&r->in, "<"));
    TRY(read_int(r, "a count", 2, INT64_MAX, &tiles.count));
    TRY(read_dim_name(r, &tiles.name));
    while (r->loops->tiles.count <= id)
        TRY(VEC_PUSH(r->loops->memory, &r->loops->tiles, ((loop_tiles){0})));
    loop_tiles *known = &r->loops->tiles.items[id];
    if (!known->name) *known = (loop_tiles){.count = tiles.count, .name = tiles.name};
    if (known->count != tiles.count || strcmp(known->name, tiles.name) != 0)
        return scan_error(&r->in, "t%u is another loop above", id);
    op->tiles[op->tile_depth++] = id;
    return scan_expect(&r->in, ")");
}

// "(c0/4)" or "(c0/4:8)"
static spyre_status read_split(reader *r, loop_op *op)
{
    int64_t slices, step = 1;
    uint32_t v;
    TRY(scan_expect(&r->in, "("));
    TRY(read_id(r, 'c', "a loop", op->var_count, &v));
    TRY(scan_expect(&r->in, "/"));
    TRY(read_int(r, "a count of slices", 2, INT32_MAX, &slices));
    if (scan_accept(&r->in, ":")) TRY(read_int(r, "a step of cores", 1, INT32_MAX, &step));
    op->split[v] = (int32_t)slices;
    op->core_stride[v] = (int32_t)step;
    return scan_expect(&r->in, ")");
}

static spyre_status read_parameters(reader *r, loop_op *op)
{
    const opfunc_info *info = opfunc_describe(op->op);
    double value;
    for (uint32_t i = 0; i < OPFUNC_MAX_PARAMETERS; i++) {
        if (!info->parameter[i]) continue;
        TRY(scan_expect(&r->in, info->parameter[i]));
        TRY(scan_expect(&r->in, "("));
        TRY(read_real(r, &value));
        op->parameter[i] = (float)value;
        TRY(scan_expect(&r->in, ")"));
    }
    if (!op->gather) return NULL;
    TRY(scan_expect(&r->in, "rows"));
    TRY(scan_expect(&r->in, "("));
    TRY(read_int(r, "a count of rows", 1, INT64_MAX, &op->row_count));
    TRY(scan_expect(&r->in, ":"));
    TRY(read_int(r, "a stride", 0, INT64_MAX, &op->row_stride));
    return scan_expect(&r->in, ")");
}

// "b0[100 + 96*c0 + 4096*t0]"
static spyre_status read_access(reader *r, const loop_op *op, loop_access *out)
{
    int64_t stride;
    uint32_t v, depth = 0;
    TRY(read_id(r, 'b', "a buffer", r->loops->buffers.count, &out->buffer));
    TRY(scan_expect(&r->in, "["));
    TRY(read_int(r, "an offset", 0, INT64_MAX, &out->offset));
    while (scan_accept(&r->in, "+")) {
        TRY(read_int(r, "a stride", 1, INT64_MAX, &stride));
        TRY(scan_expect(&r->in, "*"));
        if (*r->in.at != 't') {
            TRY(read_id(r, 'c', "a loop", op->var_count, &v));
            out->stride[v] = stride;
            continue;
        }
        const scanner before = r->in;
        TRY(read_id(r, 't', "a counted loop", r->loops->tiles.count, &v));
        while (depth < op->tile_depth && op->tiles[depth] != v) depth++;
        if (depth == op->tile_depth)
            return scan_error(&before, "t%u is no loop around the op, or out of order", v);
        out->tile_stride[depth] = stride;
    }
    return scan_expect(&r->in, "]");
}

// The line of the accesses: the result, then what is read.
static spyre_status read_operands(reader *r, loop_op *op)
{
    const opfunc_info *info = opfunc_describe(op->op);
    loop_access result = {0};
    if (!next_line(r)) return scan_error(&r->in, "expected what the op writes and reads");
    TRY(read_access(r, op, &result));
    TRY(scan_expect(&r->in, "="));
    scan_blanks(&r->in);
    while (*r->in.at == 'b') {
        if (op->operand_count + 1 == LOOP_MAX_OPERANDS)
            return scan_error(&r->in, "more than %d inputs", LOOP_MAX_OPERANDS - 1);
        TRY(read_access(r, op, &op->operand[op->operand_count++]));
        scan_blanks(&r->in);
    }
    uint32_t least = op->gather ? 2 : info->least_inputs, most = op->gather ? 2 : info->most_inputs;
    if (op->operand_count < least || op->operand_count > most)
        return scan_error(&r->in, "%s%s does not take %u inputs", info->name,
                          op->gather ? " gather" : "", op->operand_count);
    op->operand[op->operand_count++] = result;
    return scan_line_end(&r->in);
}

static spyre_status check_reduced(reader *r, const loop_op *op, const bool *reduced)
{
    for (uint32_t v = 0; v < op->var_count; v++)
        if (loop_var_is_reduced(op, v) != reduced[v])
            return scan_error(&r->in, "by its accesses c%u is %sreduced", v,
                              reduced[v] ? "not " : "");
    return NULL;
}

static spyre_status read_op(reader *r)
{
    loop_op op = {.stick = LOOP_NO_DIM};
    bool reduced[LOOP_MAX_VARS] = {false};
    const char *name, *location, *behind;
    int64_t id;
    uint32_t count = r->loops->ops.count;
    TRY(scan_int(&r->in, &id));
    if (id != count) return scan_error(&r->in, "the next op is op %u", count);
    TRY(scan_name(&r->in, "an opfunc", &name));
    op.op = opfunc_named(name);
    if (op.op == OPFUNC_NONE) return scan_error(&r->in, "no opfunc is named '%s'", name);
    op.gather = scan_accept_word(&r->in, "gather");
    TRY(scan_expect(&r->in, "for"));
    TRY(read_loops(r, &op, reduced));
    while (scan_accept_word(&r->in, "in")) TRY(read_tiles(r, &op));
    while (scan_accept_word(&r->in, "split")) TRY(read_split(r, &op));
    TRY(read_parameters(r, &op));
    TRY(read_comment(r, ", ", &op.name, &behind));
    if (!behind) return scan_error(&r->in, "expected a value's name, a comma and a source line");
    const char *note = strstr(behind, "; ");
    location = note ? arena_strndup(r->in.memory, behind, (size_t)(note - behind)) : behind;
    TRY_ALLOC(location);
    op.location = strcmp(location, "unknown") == 0 ? NULL : location;
    op.note = note ? note + 2 : NULL;
    TRY(read_operands(r, &op));
    TRY(check_reduced(r, &op, reduced));
    return VEC_PUSH(r->loops->memory, &r->loops->ops, op);
}

// "return b2[0] 4:100 100:1"
static spyre_status read_return(reader *r)
{
    loop_output output = {0};
    TRY(read_id(r, 'b', "a buffer", r->loops->buffers.count, &output.buffer));
    TRY(scan_expect(&r->in, "["));
    TRY(read_int(r, "an offset", 0, INT64_MAX, &output.view.offset));
    TRY(scan_expect(&r->in, "]"));
    while (!scan_line_ends(&r->in)) {
        uint32_t d = output.view.rank;
        if (d == SPYRE_MAX_RANK) return scan_error(&r->in, "more than %d dims", SPYRE_MAX_RANK);
        TRY(read_int(r, "a size", 0, INT64_MAX, &output.view.size[d]));
        TRY(scan_expect(&r->in, ":"));
        TRY(read_int(r, "a stride", 0, INT64_MAX, &output.view.stride[d]));
        output.view.rank++;
    }
    return VEC_PUSH(r->loops->memory, &r->loops->outputs, output);
}

spyre_status loop_parse(const char *source, const char *file_name, arena *memory,
                        loop_graph **out_loops)
{
    reader r = {{.file_name = file_name, .at = source, .line_start = source, .line = 1,
                 .memory = memory}, ARENA_NEW(memory, loop_graph, 1)};
    TRY_ALLOC(r.loops);
    r.loops->memory = memory;
    r.loops->settings = spyre_settings_default();
    r.loops->cores = r.loops->settings.sencores;
    while (next_line(&r)) {
        bool returns = r.loops->outputs.count > 0, computes = returns || r.loops->ops.count > 0;
        if (!computes && scan_accept_word(&r.in, "buffer")) TRY(read_buffer(&r));
        else if (!returns && scan_accept_word(&r.in, "op")) TRY(read_op(&r));
        else if (scan_accept_word(&r.in, "return")) TRY(read_return(&r));
        else
            return scan_error(&r.in, "expected %s", returns ? "return"
                                                    : computes ? "op or return"
                                                               : "buffer, op or return");
    }
    *out_loops = r.loops;
    return NULL;
}
