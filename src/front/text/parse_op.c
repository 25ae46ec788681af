// SPDX-License-Identifier: Apache-2.0
//
// An op of the text form, docs/loop-text.md.
#include "front/ir/dim_names.h"
#include "front/text/parse.h"
#include "graph/hint.h"

#include <string.h>

// '(c0<4 "M", c1<64 reduced stick)'; *out_reduced is what the text says of each.
static spyre_status read_loops(parse_reader *r, loop_op *op, bool *out_reduced)
{
    uint32_t v;
    int64_t points = 1;
    TRY(scan_expect(&r->in, "("));
    while (!scan_accept(&r->in, ")")) {
        if (op->var_count == LOOP_MAX_VARS)
            return scan_error(&r->in, "more than %d loops", LOOP_MAX_VARS);
        if (op->var_count) TRY(scan_expect(&r->in, ","));
        TRY(parse_id(r, 'c', "a loop", LOOP_MAX_VARS, &v));
        if (v != op->var_count) return scan_error(&r->in, "the next loop is c%u", op->var_count);
        TRY(scan_expect(&r->in, "<"));
        TRY(scan_int_within(&r->in, "an extent", 2, PARSE_MOST_ELEMENTS, &op->extent[v]));
        if (__builtin_mul_overflow(points, op->extent[v], &points) || points > PARSE_MOST_ELEMENTS)
            return scan_error(&r->in, "more than 2^40 points");
        out_reduced[v] = scan_accept_word(&r->in, "reduced");
        if (scan_accept_word(&r->in, "scanned")) op->scanned |= (uint8_t)(1u << v);
        op->split[v] = op->core_stride[v] = 1;
        op->var_count++;
        if (scan_accept_word(&r->in, "stick")) {
            if (op->stick != LOOP_NO_DIM) return scan_error(&r->in, "a second stick");
            op->stick = (uint8_t)v;
        }
        scan_blanks(&r->in);
        if (*r->in.at != '"') continue;
        const char *name;
        TRY(scan_string(&r->in, &name));
        TRY(dim_names_number(r->loops, name, &op->dim_name[v]));
    }
    return NULL;
}

// Whatever the user calls it, up to the parenthesis.
static spyre_status read_dim_name(parse_reader *r, const char **out_name)
{
    scan_blanks(&r->in);
    size_t length = strcspn(r->in.at, ")\n");
    if (length == 0) return scan_error(&r->in, "expected a dim's name");
    *out_name = arena_strndup(r->loops->memory, r->in.at, length);
    TRY_ALLOC(*out_name);
    r->in.at += length;
    return NULL;
}

// "(t0<8 M)", with a star behind the count when the bundle has steps for every iteration.
static spyre_status read_tiles(parse_reader *r, loop_op *op)
{
    loop_tiles tiles = {0};
    uint32_t id;
    if (op->tile_depth == LOOP_MAX_TILES)
        return scan_error(&r->in, "more than %d loops around an op", LOOP_MAX_TILES);
    TRY(scan_expect(&r->in, "("));
    TRY(parse_id(r, 't', "a counted loop", PARSE_MOST_TILES, &id));
    TRY(scan_expect(&r->in, "<"));
    TRY(scan_int_within(&r->in, "a count", 2, PARSE_MOST_ELEMENTS, &tiles.count));
    tiles.unrolled = scan_accept(&r->in, "*");
    TRY(read_dim_name(r, &tiles.name));
    while (r->loops->tiles.count <= id)
        TRY(VEC_PUSH(r->loops->memory, &r->loops->tiles, ((loop_tiles){0})));
    loop_tiles *known = &r->loops->tiles.items[id];
    if (!known->name) *known = tiles;
    if (known->count != tiles.count || known->unrolled != tiles.unrolled ||
        strcmp(known->name, tiles.name) != 0)
        return scan_error(&r->in, "t%u is another loop above", id);
    op->tiles[op->tile_depth++] = id;
    return scan_expect(&r->in, ")");
}

// "(c0/4)" or "(c0/4:8)"
static spyre_status read_split(parse_reader *r, loop_op *op)
{
    int64_t slices, step = 1;
    uint32_t v;
    TRY(scan_expect(&r->in, "("));
    TRY(parse_id(r, 'c', "a loop", op->var_count, &v));
    TRY(scan_expect(&r->in, "/"));
    TRY(scan_int_within(&r->in, "a count of slices", 2, PARSE_MOST_SLICES, &slices));
    if (scan_accept(&r->in, ":"))
        TRY(scan_int_within(&r->in, "a step of cores", 1, PARSE_MOST_CORE_STRIDE, &step));
    if (loop_core_count(op) * slices > PARSE_MOST_SLICES)
        return scan_error(&r->in, "more slices than a card has cores");
    op->split[v] = (int32_t)slices;
    op->core_stride[v] = (int32_t)step;
    return scan_expect(&r->in, ")");
}

// "wants(c1)", "wants(sparse)": where a user's pass wants the stick of the result.
static spyre_status read_wanted_stick(parse_reader *r, loop_op *op)
{
    uint32_t var;
    if (!scan_accept_word(&r->in, "wants")) return NULL;
    TRY(scan_expect(&r->in, "("));
    if (scan_accept_word(&r->in, "sparse")) {
        op->wanted_stick = LOOP_NO_DIM;
    } else {
        TRY(parse_id(r, 'c', "a variable", op->var_count, &var));
        op->wanted_stick = (uint8_t)(var + 1);
    }
    return scan_expect(&r->in, ")");
}

// "by(hint)": what divided the op.
static spyre_status read_origin(parse_reader *r, loop_op *op)
{
    if (!scan_accept_word(&r->in, "by")) return NULL;
    TRY(scan_expect(&r->in, "("));
    for (int o = LOOP_UNDIVIDED + 1; o <= LOOP_DIVIDED_BY_HINT; o++) {
        if (!scan_accept(&r->in, loop_division_origin_name((loop_division_origin)o))) continue;
        op->divided_by = (loop_division_origin)o;
        return scan_expect(&r->in, ")");
    }
    return scan_error(&r->in, "expected what divided the op");
}

static spyre_status read_hint(parse_reader *r, const char *word,
                              spyre_status (*check)(const char *text), const char **out)
{
    if (!scan_accept_word(&r->in, word)) return NULL;
    TRY(scan_expect(&r->in, "("));
    TRY(scan_string(&r->in, out));
    spyre_status wrong = check(*out), refusal = NULL;
    if (wrong) refusal = scan_error(&r->in, "%s", spyre_status_message(wrong));
    spyre_status_free(wrong);
    TRY(refusal);
    return scan_expect(&r->in, ")");
}

// The graph node and the user's hints, which ops of one node share.
static spyre_status read_node(parse_reader *r, loop_op *op)
{
    int64_t number = 0;
    if (scan_accept_word(&r->in, "node"))
        TRY(parse_int_in_parens(r, "a node", 0, PARSE_MOST_NODES - 1, &number));
    op->node = (uint32_t)number;
    while (r->nodes.count <= op->node)
        TRY(VEC_PUSH(r->loops->memory, &r->nodes, ((parse_node){0})));
    parse_node *node = &r->nodes.items[op->node];
    TRY(read_hint(r, "work_div", hint_check_split, &node->work_div));
    TRY(read_hint(r, "tiles", hint_check_tiles, &node->tiles));
    return scan_accept_word(&r->in, "names") ? parse_dim_names(r, &node->names) : NULL;
}

// None where inputs, which come later, stand for them.
static spyre_status read_parameters(parse_reader *r, loop_op *op, uint32_t *out_count)
{
    const opfunc_info *info = opfunc_describe(op->op);
    double value;
    *out_count = 0;
    for (uint32_t i = 0; i < OPFUNC_MAX_PARAMETERS && info->parameter[i]; i++) {
        if (i == 0 && info->most_inputs > 1 && !scan_accept_word(&r->in, info->parameter[0])) break;
        if (i > 0 || info->most_inputs == 1) TRY(scan_expect(&r->in, info->parameter[i]));
        TRY(scan_expect(&r->in, "("));
        TRY(scan_real(&r->in, &value));
        op->parameter[i] = (float)value;
        TRY(scan_expect(&r->in, ")"));
        ++*out_count;
    }
    if (!op->table) return NULL;
    TRY(scan_expect(&r->in, "rows"));
    TRY(scan_expect(&r->in, "("));
    TRY(scan_int_within(&r->in, "a count of rows", 1, PARSE_MOST_ELEMENTS, &op->row_count));
    TRY(scan_expect(&r->in, ":"));
    TRY(scan_int_within(&r->in, "a stride", 0, PARSE_MOST_ELEMENTS, &op->row_stride));
    return scan_expect(&r->in, ")");
}

static spyre_status check_reach(const parse_reader *r, const loop_op *op, const loop_access *access)
{
    int64_t reach = access->offset;
    if (op->table) TRY(parse_reach(r, op->row_count - 1, op->row_stride, &reach));
    for (uint32_t v = 0; v < op->var_count; v++)
        TRY(parse_reach(r, op->extent[v] - 1, access->stride[v], &reach));
    for (uint32_t t = 0; t < op->tile_depth; t++)
        TRY(parse_reach(r, r->loops->tiles.items[op->tiles[t]].count - 1, access->tile_stride[t],
                        &reach));
    return NULL;
}

static spyre_status read_tile_depth(parse_reader *r, const loop_op *op, uint32_t *depth)
{
    uint32_t t;
    const scanner before = r->in;
    TRY(parse_id(r, 't', "a counted loop", r->loops->tiles.count, &t));
    while (*depth < op->tile_depth && op->tiles[*depth] != t) (*depth)++;
    if (*depth < op->tile_depth) return NULL;
    return scan_error(&before, "t%u is no loop around the op, or out of order", t);
}

// The numbers between the first and the last one.
static spyre_status check_count(parse_reader *r, const loop_op *op, const loop_count *count)
{
    int64_t low = count->first, high = low;
    for (uint32_t v = 0; v < op->var_count; v++) {
        int64_t reach = (op->extent[v] - 1) * count->step[v];
        *(reach < 0 ? &low : &high) += reach;
    }
    for (uint32_t t = 0; t < op->tile_depth; t++) {
        int64_t reach = (r->loops->tiles.items[op->tiles[t]].count - 1) * count->tile_step[t];
        *(reach < 0 ? &low : &high) += reach;
    }
    bool small = low > -LOOP_MOST_COUNT && high < LOOP_MOST_COUNT;
    return small ? NULL : scan_error(&r->in, "numbers of 2^30 and more");
}

// "{5 + 1*c0 + -1*c1 + 64*t0}", of signs with "> 0" before the end.
static spyre_status read_count(parse_reader *r, const loop_op *op, loop_access *out)
{
    loop_count count = {0};
    const int64_t most = LOOP_MOST_COUNT;
    int64_t number;
    uint32_t v, depth = 0;
    TRY(scan_int_within(&r->in, "a number", -most, most, &number));
    count.first = (int32_t)number;
    while (scan_accept(&r->in, "+")) {
        TRY(scan_int_within(&r->in, "a step", -most, most, &number));
        TRY(scan_expect(&r->in, "*"));
        if (*r->in.at != 't') {
            TRY(parse_id(r, 'c', "a loop", op->var_count, &v));
            count.step[v] = (int32_t)number;
            continue;
        }
        TRY(read_tile_depth(r, op, &depth));
        count.tile_step[depth] = (int32_t)number;
    }
    count.signs = scan_accept(&r->in, "> 0");
    TRY(scan_expect(&r->in, "}"));
    TRY(check_count(r, op, &count));
    return loop_set_count(r->loops, out, count);
}

// "b0[100 + 96*c0 + 4096*t0]"
static spyre_status read_access(parse_reader *r, const loop_op *op, loop_access *out)
{
    int64_t stride;
    uint32_t v, depth = 0;
    TRY(parse_id(r, 'b', "a buffer", r->loops->buffers.count, &out->buffer));
    bool constant = r->loops->buffers.items[out->buffer].kind == LOOP_CONSTANT;
    if (constant && scan_accept(&r->in, "{")) return read_count(r, op, out);
    TRY(scan_expect(&r->in, "["));
    TRY(scan_int_within(&r->in, "an offset", 0, PARSE_MOST_ELEMENTS, &out->offset));
    while (scan_accept(&r->in, "+")) {
        TRY(scan_int_within(&r->in, "a stride", 1, PARSE_MOST_ELEMENTS, &stride));
        TRY(scan_expect(&r->in, "*"));
        if (*r->in.at != 't') {
            TRY(parse_id(r, 'c', "a loop", op->var_count, &v));
            out->stride[v] = stride;
            continue;
        }
        TRY(read_tile_depth(r, op, &depth));
        out->tile_stride[depth] = stride;
    }
    TRY(scan_expect(&r->in, "]"));
    return check_reach(r, op, out);
}

// The line of the accesses: the result, then what is read.
static spyre_status read_operands(parse_reader *r, loop_op *op)
{
    const opfunc_info *info = opfunc_describe(op->op);
    loop_access result = {0};
    if (!parse_next_line(r)) return scan_error(&r->in, "expected what the op writes and reads");
    TRY(read_access(r, op, &result));
    TRY(scan_expect(&r->in, "="));
    scan_blanks(&r->in);
    while (*r->in.at == 'b') {
        if (op->operand_count + 1 == LOOP_MAX_OPERANDS)
            return scan_error(&r->in, "more than %d inputs", LOOP_MAX_OPERANDS - 1);
        TRY(read_access(r, op, &op->operand[op->operand_count++]));
        scan_blanks(&r->in);
    }
    uint32_t least = op->table ? 2 : info->least_inputs, most = op->table ? 2 : info->most_inputs;
    if (op->operand_count < least || op->operand_count > most)
        return scan_error(&r->in, "%s%s does not take %u inputs", info->name,
                          loop_table_word(op), op->operand_count);
    op->operand[op->operand_count++] = result;
    return scan_line_end(&r->in);
}

static spyre_status check_reduced(parse_reader *r, const loop_op *op, const bool *reduced)
{
    for (uint32_t v = 0; v < op->var_count; v++)
        if (loop_var_is_reduced(op, v) != reduced[v])
            return scan_error(&r->in, "by its accesses c%u is %sreduced", v,
                              reduced[v] ? "not " : "");
    return NULL;
}

static spyre_status read_accumulator(parse_reader *r, loop_op *op)
{
    const char *name;
    TRY(scan_name(&r->in, "an accumulator", &name));
    op->table = 2;
    op->accumulator = opfunc_named(name);
    if (opfunc_accumulates(op->accumulator)) return NULL;
    return scan_error(&r->in, "'%s' does not accumulate", name);
}

spyre_status parse_op(parse_reader *r)
{
    loop_op op = {.stick = LOOP_NO_DIM};
    bool reduced[LOOP_MAX_VARS] = {false};
    const char *name, *location, *behind;
    int64_t id;
    uint32_t count = r->loops->ops.count, parameters;
    TRY(scan_int(&r->in, &id));
    if (id != count) return scan_error(&r->in, "the next op is op %u", count);
    TRY(scan_name(&r->in, "an opfunc", &name));
    op.op = opfunc_named(name);
    if (op.op == OPFUNC_NONE) return scan_error(&r->in, "no opfunc is named '%s'", name);
    if (!loop_has_opfunc(op.op))
        return scan_error(&r->in, "'%s' is for bundles only", name);
    if (scan_accept_word(&r->in, "gather")) op.table = 1;
    else if (scan_accept_word(&r->in, "scatter")) op.table = 2;
    else if (scan_accept_word(&r->in, "accumulate")) TRY(read_accumulator(r, &op));
    TRY(scan_expect(&r->in, "for"));
    TRY(read_loops(r, &op, reduced));
    while (scan_accept_word(&r->in, "in")) TRY(read_tiles(r, &op));
    while (scan_accept_word(&r->in, "split")) TRY(read_split(r, &op));
    TRY(read_wanted_stick(r, &op));
    TRY(read_origin(r, &op));
    TRY(read_parameters(r, &op, &parameters));
    TRY(read_node(r, &op));
    TRY(parse_comment(r, ", ", &op.name, &behind));
    if (!behind) return scan_error(&r->in, "expected a value's name, a comma and a source line");
    const char *note = strstr(behind, "; ");
    location = note ? arena_strndup(r->in.memory, behind, (size_t)(note - behind)) : behind;
    TRY_ALLOC(location);
    op.location = strcmp(location, "unknown") == 0 ? NULL : location;
    op.note = note ? note + 2 : NULL;
    TRY(read_operands(r, &op));
    if (parameters != opfunc_constant_count(op.op, op.operand_count - 1u))
        return scan_error(&r->in, "%s has %u parameters beside %u inputs", name, parameters,
                          op.operand_count - 1u);
    TRY(check_reduced(r, &op, reduced));
    if (op.scanned && opfunc_describe(op.op)->kind != OPFUNC_KIND_SCAN)
        return scan_error(&r->in, "%s does not scan", name);
    return VEC_PUSH(r->loops->memory, &r->loops->ops, op);
}

