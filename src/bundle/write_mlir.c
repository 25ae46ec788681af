// SPDX-License-Identifier: Apache-2.0
//
// bundle.mlir: the order of execution, and in the symbolic form the arithmetic of every address.
#include <stdio.h>
#include <string.h>

#include "base/map.h"
#include "bundle/mlir.h"
#include "bundle/write.h"

// One loop level's strides, as an affine_map.
typedef struct {
    uint32_t depth;
    int64_t stride[BUNDLE_MAX_LOOPS];
} stride_map;

typedef struct {
    const bundle_writer *w;
    text *out;
    arena *memory;
    map_bytes emitted;              // addresses that have a value, by segment and offset
    VEC(stride_map) maps;
    uint32_t addresses;             // %addr_<n> so far
    uint32_t depth;                 // loops around
    int64_t per[BUNDLE_MAX_LOOPS];  // what each of them counts by
    bool between;                   // an address advances by no multiple of that
} mlir_writer;

// Of an address, loop_stride says what a step of the loop's variable adds, which is one a round
// unless a size of the launch ends the loop.
static mlir_value address_of(mlir_writer *m, const bundle_tensor *tensor, uint32_t core)
{
    mlir_value address = {.arg = tensor->arg, .offset = bundle_start(tensor, core)};
    for (uint32_t loop = 0; loop < m->depth; loop++) {
        address.loop_stride[loop] = tensor->loop_stride[loop] / m->per[loop];
        if (tensor->loop_stride[loop] % m->per[loop]) m->between = true;
    }
    return address;
}

static void enter_loop(mlir_writer *m, const bundle_statement *loop)
{
    m->per[m->depth++] = loop->symbol ? loop->per : 1;
}

static bool has_strides(const mlir_value *address)
{
    for (uint32_t loop = 0; loop < BUNDLE_MAX_LOOPS; loop++) {
        if (address->loop_stride[loop] != 0) return true;
    }
    return false;
}

// --- Walking all addresses of memory, in the order of execution

typedef spyre_status address_visitor(mlir_writer *m, const mlir_value *address);

static spyre_status visit_step(mlir_writer *m, const bundle_step *step, address_visitor *visit)
{
    int32_t ids[BUNDLE_MAX_TENSORS][BUNDLE_MAX_CORES], next = 0;
    (void)writer_number_addresses(step, ids);
    for (uint32_t t = 0; t < step->tensor_count; t++) {
        for (uint32_t core = 0; core < step->cores->core_count; core++) {
            if (ids[t][core] != next) continue;
            next++;
            const mlir_value address = address_of(m, &step->tensors[t], core);
            TRY(visit(m, &address));
        }
    }
    return NULL;
}

static spyre_status visit_addresses(mlir_writer *m, address_visitor *visit)
{
    const bundle *b = m->w->b;
    for (uint32_t at = 0; at < b->body.count; at++) {
        const bundle_statement *statement = &b->body.items[at];
        if (statement->kind == BUNDLE_LOOP) enter_loop(m, statement);
        if (statement->kind == BUNDLE_END) m->depth--;
        if (statement->kind != BUNDLE_EXECUTE) continue;
        TRY(visit_step(m, &b->steps.items[statement->step], visit));
    }
    return NULL;
}

// --- Affine maps

static uint32_t find_map(const mlir_writer *m, const mlir_value *address)
{
    uint32_t i = 0;
    for (; i < m->maps.count; i++) {
        const stride_map *map = &m->maps.items[i];
        if (map->depth == m->depth &&
            memcmp(map->stride, address->loop_stride, sizeof map->stride) == 0) {
            break;
        }
    }
    return i;
}

static spyre_status collect_map(mlir_writer *m, const mlir_value *address)
{
    if (!has_strides(address) || find_map(m, address) < m->maps.count) return NULL;
    stride_map map = {.depth = m->depth};
    memcpy(map.stride, address->loop_stride, sizeof map.stride);
    text_printf(m->out, "#map_%u = affine_map<(", m->maps.count);
    for (uint32_t loop = 0; loop < m->depth; loop++) {
        text_printf(m->out, "%sd%u", loop ? ", " : "", loop);
    }
    text_append(m->out, ")[s0] -> (s0");
    for (uint32_t loop = 0; loop < m->depth; loop++) {
        text_printf(m->out, " + %lld*d%u", (long long)map.stride[loop], loop);
    }
    text_append(m->out, ")>\n");
    return VEC_PUSH(m->memory, &m->maps, map);
}

// --- The function's head and the values of addresses

// The name of an argument without '%': "pool", or "arg_0" for the first behind the pool.
static const char *argument_name(const mlir_writer *m, int32_t segment, char buffer[24])
{
    bool has_pool = m->w->pool >= 0;
    if (has_pool && segment == 0) return "pool";
    snprintf(buffer, 24, "arg_%d", segment - (has_pool ? 1 : 0));
    return buffer;
}

static void write_size_type(mlir_writer *m, const bundle_symbol *symbol)
{
    text_printf(m->out, "!sdscbundle.input_arg<index, granularity=%lld, max_value=%lld>",
                (long long)symbol->granularity, (long long)symbol->most);
}

// A size is %size_<k> in the body: its name is the user's, and may be that of another value.
static void write_size_values(mlir_writer *m)
{
    for (uint32_t k = 0; k < m->w->b->symbols.count; k++) {
        const bundle_symbol *symbol = &m->w->b->symbols.items[k];
        text_printf(m->out, "\t\t%%size_%u = sdscbundle.input_arg_extract value from %%%s_base : ",
                    k, symbol->name);
        write_size_type(m, symbol);
        text_append(m->out, " -> index\n");
    }
}

// All arguments, used or not: launches bind them in this order.
static void write_head(mlir_writer *m)
{
    char buffer[24];
    const char *comma = "";
    text_append(m->out, "\tfunc.func @sdsc_bundle(");
    bool symbolic = m->w->form == BUNDLE_FORM_SYMBOLIC;
    int32_t count = symbolic ? (int32_t)m->w->b->args.count : 0;
    for (int32_t i = 0; i < count; i++) {
        text_printf(m->out, "%s%%%s_base_addr: !sdscbundle.input_arg<index>", comma,
                    argument_name(m, i, buffer));
        comma = ", ";
    }
    for (uint32_t k = 0; k < m->w->b->symbols.count; k++) {
        const bundle_symbol *symbol = &m->w->b->symbols.items[k];
        text_printf(m->out, "%s%%%s_base: ", comma, symbol->name);
        write_size_type(m, symbol);
        comma = ", ";
    }
    text_append(m->out, ") {\n");
    for (int32_t i = 0; i < count; i++) {
        const char *name = argument_name(m, i, buffer);
        text_printf(m->out,
                    "\t\t%%%s = sdscbundle.input_arg_extract value from %%%s_base_addr : "
                    "!sdscbundle.input_arg<index> -> index\n",
                    name, name);
    }
    write_size_values(m);
}

static void write_loop_bounds(mlir_writer *m)
{
    const bundle *b = m->w->b;
    uint32_t loops = 0;
    for (uint32_t at = 0; at < b->body.count; at++) {
        if (b->body.items[at].kind != BUNDLE_LOOP) continue;
        if (loops == 0) {
            text_append(m->out, "\t\t%c0 = arith.constant 0 : index\n"
                                "\t\t%c1 = arith.constant 1 : index\n");
        }
        const bundle_statement *loop = &b->body.items[at];
        text_printf(m->out, "\t\t%%loop_%s_%u = arith.constant %lld : index\n",
                    loop->symbol ? "step" : "bound", loops++,
                    (long long)(loop->symbol ? loop->per : loop->count));
    }
}

// The value of an address without its loops: the argument itself or its sum with a constant.
static void write_base(const mlir_writer *m, const mlir_value *address)
{
    char buffer[24];
    int32_t segment = writer_segment(m->w, address->arg);
    const char *name = argument_name(m, segment, buffer);
    bool pool = name != buffer;
    if (pool) text_printf(m->out, "%%pool_addr_%lld", (long long)address->offset);
    else if (address->offset == 0) text_printf(m->out, "%%%s", name);
    else text_printf(m->out, "%%%s_core_%lld", name, (long long)address->offset);
}

static spyre_status write_sum(mlir_writer *m, const mlir_value *address)
{
    char buffer[24];
    int64_t key[2] = {writer_segment(m->w, address->arg), address->offset};
    const char *name = argument_name(m, (int32_t)key[0], buffer);
    bool pool = name != buffer;
    uint32_t before = m->emitted.count, number;
    if (!pool && address->offset == 0) return NULL;
    TRY(map_bytes_intern(m->memory, &m->emitted, key, sizeof key, before, &number));
    if (m->emitted.count == before) return NULL;
    long long offset = (long long)address->offset;
    const char *constant = pool ? "offset" : "core_offset", *sum = pool ? "addr" : "core";
    text_printf(m->out, "\t\t%%%s_%s_%lld = arith.constant %lld : index\n", name, constant, offset,
                offset);
    text_printf(m->out, "\t\t%%%s_%s_%lld = arith.addi %%%s, %%%s_%s_%lld : index\n", name, sum,
                offset, name, name, constant, offset);
    return NULL;
}

// --- The body

static void indent(mlir_writer *m)
{
    for (uint32_t i = 0; i < m->depth + 2; i++) text_append(m->out, "\t");
}

// Addresses that a loop advances get a value each, in front of the execution that uses them.
static void write_applications(mlir_writer *m, const bundle_step *step,
                               const uint32_t *loop_numbers,
                               int32_t ids[BUNDLE_MAX_TENSORS][BUNDLE_MAX_CORES])
{
    int32_t next = 0;
    for (uint32_t t = 0; t < step->tensor_count; t++) {
        for (uint32_t core = 0; core < step->cores->core_count; core++) {
            const mlir_value address = address_of(m, &step->tensors[t], core);
            if (ids[t][core] != next) continue;
            next++;
            if (!has_strides(&address)) continue;
            indent(m);
            text_printf(m->out, "%%addr_%u = affine.apply #map_%u(", m->addresses++,
                        find_map(m, &address));
            for (uint32_t loop = 0; loop < m->depth; loop++) {
                text_printf(m->out, "%s%%i_%u", loop ? ", " : "", loop_numbers[loop]);
            }
            text_append(m->out, ")[");
            write_base(m, &address);
            text_append(m->out, "]\n");
        }
    }
}

static void write_operands(mlir_writer *m, const bundle_step *step, uint32_t first_application,
                           int32_t ids[BUNDLE_MAX_TENSORS][BUNDLE_MAX_CORES])
{
    int32_t next = 0;
    for (uint32_t t = 0; t < step->tensor_count; t++) {
        for (uint32_t core = 0; core < step->cores->core_count; core++) {
            const mlir_value address = address_of(m, &step->tensors[t], core);
            if (ids[t][core] != next) continue;
            if (next++ > 0) text_append(m->out, ", ");
            if (has_strides(&address)) text_printf(m->out, "%%addr_%u", first_application++);
            else write_base(m, &address);
        }
    }
}

static void write_size_operands(mlir_writer *m, const bundle_step *step, const char *comma)
{
    for (uint32_t d = 0; d < step->dim_count; d++) {
        if (!step->symbol[d]) continue;
        text_printf(m->out, "%s%%size_%u", comma, step->symbol[d] - 1u);
        comma = ", ";
    }
}

static void write_execute(mlir_writer *m, uint32_t at, uint32_t number,
                          const uint32_t *loop_numbers)
{
    const bundle_step *step = &m->w->b->steps.items[m->w->b->body.items[at].step];
    int32_t ids[BUNDLE_MAX_TENSORS][BUNDLE_MAX_CORES];
    uint32_t sizes, count = writer_count_symbols(m->w, step, &sizes), first = m->addresses;
    (void)writer_number_addresses(step, ids);
    if (sizes > 0) write_applications(m, step, loop_numbers, ids);
    indent(m);
    text_append(m->out, "sdscbundle.sdsc_execute (");
    if (sizes > 0) write_operands(m, step, first, ids);
    write_size_operands(m, step, sizes ? ", " : "");
    text_printf(m->out, ") {sdsc_filename=\"sdsc_%u.json\"", number);
    bool has_ids = count || m->w->form == BUNDLE_FORM_SYMBOLIC;
    if (has_ids) text_append(m->out, ", \"symbol_ids\"=[");
    for (uint32_t i = 0; i < count; i++) {
        text_printf(m->out, "%s%lld", i ? ", " : "",
                    (long long)-(m->w->first_symbol.items[at] + i));
    }
    text_append(m->out, has_ids ? "]}\n" : "}\n");
}

static void write_loop(mlir_writer *m, const bundle_statement *loop, uint32_t number)
{
    indent(m);
    text_printf(m->out, "scf.for %%i_%u = %%c0 to ", number);
    if (loop->symbol)
        text_printf(m->out, "%%size_%u step %%loop_step_%u {\n", loop->symbol - 1, number);
    else
        text_printf(m->out, "%%loop_bound_%u step %%c1 {\n", number);
}

static void write_body(mlir_writer *m)
{
    const bundle *b = m->w->b;
    uint32_t loops = 0, number = 0, loop_numbers[BUNDLE_MAX_LOOPS];
    for (uint32_t at = 0; at < b->body.count; at++) {
        const bundle_statement *statement = &b->body.items[at];
        switch (statement->kind) {
        case BUNDLE_EXECUTE: write_execute(m, at, number++, loop_numbers); break;
        case BUNDLE_LOOP:
            write_loop(m, statement, loops);
            loop_numbers[m->depth] = loops++;
            enter_loop(m, statement);
            break;
        case BUNDLE_END:
            m->depth--;
            indent(m);
            text_append(m->out, "}\n");
            break;
        }
    }
}

static spyre_status write_module(mlir_writer *m)
{
    if (m->w->form == BUNDLE_FORM_SYMBOLIC) TRY(visit_addresses(m, collect_map));
    if (m->between)
        return status_new(SPYRE_UNSUPPORTED, "a loop whose count a launch chooses advances an "
                          "address by no multiple of its step");
    text_append(m->out, "module {\n");
    write_head(m);
    write_loop_bounds(m);
    if (m->w->form == BUNDLE_FORM_SYMBOLIC) TRY(visit_addresses(m, write_sum));
    write_body(m);
    text_append(m->out, "\t\treturn\n\t}\n}\n");
    return NULL;
}

spyre_status writer_mlir(const bundle_writer *w, text *out)
{
    mlir_writer m = {.w = w, .out = out, .memory = arena_create()};
    TRY_ALLOC(m.memory);
    spyre_status status = write_module(&m);
    arena_destroy(m.memory);
    return status;
}
