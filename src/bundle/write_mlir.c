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
} mlir_writer;

static mlir_value address_of(const bundle_tensor *tensor, uint32_t core)
{
    mlir_value address = {.arg = tensor->arg, .offset = tensor->start[core]};
    memcpy(address.loop_stride, tensor->loop_stride, sizeof address.loop_stride);
    return address;
}

static bool has_strides(const mlir_value *address)
{
    for (uint32_t loop = 0; loop < BUNDLE_MAX_LOOPS; loop++) {
        if (address->loop_stride[loop] != 0) return true;
    }
    return false;
}

// --- Walking all addresses of memory, in the order of execution

typedef spyre_status address_visitor(mlir_writer *m, const mlir_value *address, uint32_t depth);

static spyre_status visit_step(mlir_writer *m, const bundle_step *step, uint32_t depth,
                               address_visitor *visit)
{
    int32_t ids[BUNDLE_MAX_TENSORS][BUNDLE_MAX_CORES], next = 0;
    (void)writer_number_symbols(step, ids);
    for (uint32_t t = 0; t < step->tensor_count; t++) {
        for (uint32_t core = 0; core < step->cores->core_count; core++) {
            if (ids[t][core] != next) continue;
            next++;
            const mlir_value address = address_of(&step->tensors[t], core);
            TRY(visit(m, &address, depth));
        }
    }
    return NULL;
}

static spyre_status visit_addresses(mlir_writer *m, address_visitor *visit)
{
    const bundle *b = m->w->b;
    uint32_t depth = 0;
    for (uint32_t at = 0; at < b->body.count; at++) {
        const bundle_statement *statement = &b->body.items[at];
        if (statement->kind == BUNDLE_LOOP) depth++;
        if (statement->kind == BUNDLE_END) depth--;
        if (statement->kind != BUNDLE_EXECUTE) continue;
        TRY(visit_step(m, &b->steps.items[statement->step], depth, visit));
    }
    return NULL;
}

// --- Affine maps

static uint32_t find_map(const mlir_writer *m, const mlir_value *address, uint32_t depth)
{
    uint32_t i = 0;
    for (; i < m->maps.count; i++) {
        const stride_map *map = &m->maps.items[i];
        if (map->depth == depth &&
            memcmp(map->stride, address->loop_stride, sizeof map->stride) == 0) {
            break;
        }
    }
    return i;
}

static spyre_status collect_map(mlir_writer *m, const mlir_value *address, uint32_t depth)
{
    if (!has_strides(address) || find_map(m, address, depth) < m->maps.count) return NULL;
    stride_map map = {.depth = depth};
    memcpy(map.stride, address->loop_stride, sizeof map.stride);
    text_printf(m->out, "#map_%u = affine_map<(", m->maps.count);
    for (uint32_t loop = 0; loop < depth; loop++) {
        text_printf(m->out, "%sd%u", loop ? ", " : "", loop);
    }
    text_append(m->out, ")[s0] -> (s0");
    for (uint32_t loop = 0; loop < depth; loop++) {
        text_printf(m->out, " + %lld*d%u", (long long)map.stride[loop], loop);
    }
    text_append(m->out, ")>\n");
    return VEC_PUSH(m->memory, &m->maps, map);
}

// --- The function's head and the values of addresses

static spyre_status collect_argument(mlir_writer *m, const mlir_value *address, uint32_t depth)
{
    (void)depth;
    int32_t segment = writer_segment(m->w, address->arg);
    return map_bytes_put(m->memory, &m->emitted, &segment, sizeof segment, 0);
}

static bool uses_argument(const mlir_writer *m, int32_t segment)
{
    uint32_t ignored;
    return map_bytes_get(&m->emitted, &segment, sizeof segment, &ignored);
}

// The name of an argument without '%': "pool", or "arg_0" for the first behind the pool.
static const char *argument_name(const mlir_writer *m, int32_t segment, char buffer[24])
{
    bool has_pool = m->w->pool >= 0;
    if (has_pool && segment == 0) return "pool";
    snprintf(buffer, 24, "arg_%d", segment - (has_pool ? 1 : 0));
    return buffer;
}

static spyre_status write_head(mlir_writer *m)
{
    char buffer[24];
    const char *comma = "";
    text_append(m->out, "\tfunc.func @sdsc_bundle(");
    if (m->w->form == BUNDLE_FORM_SYMBOLIC) TRY(visit_addresses(m, collect_argument));
    int32_t count = (int32_t)m->w->b->args.count;
    for (int32_t i = 0; i < count; i++) {
        if (!uses_argument(m, i)) continue;
        text_printf(m->out, "%s%%%s_base_addr: !sdscbundle.input_arg<index>", comma,
                    argument_name(m, i, buffer));
        comma = ", ";
    }
    text_append(m->out, ") {\n");
    for (int32_t i = 0; i < count; i++) {
        if (!uses_argument(m, i)) continue;
        const char *name = argument_name(m, i, buffer);
        text_printf(m->out,
                    "\t\t%%%s = sdscbundle.input_arg_extract value from %%%s_base_addr : "
                    "!sdscbundle.input_arg<index> -> index\n",
                    name, name);
    }
    return NULL;
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
        text_printf(m->out, "\t\t%%loop_bound_%u = arith.constant %lld : index\n", loops++,
                    (long long)b->body.items[at].count);
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

static spyre_status write_sum(mlir_writer *m, const mlir_value *address, uint32_t depth)
{
    (void)depth;
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

static void write_tabs(mlir_writer *m, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) text_append(m->out, "\t");
}

// Addresses that a loop advances get a value each, in front of the execution that uses them.
static void write_applications(mlir_writer *m, const bundle_step *step, uint32_t depth,
                               const uint32_t *loop_numbers,
                               int32_t ids[BUNDLE_MAX_TENSORS][BUNDLE_MAX_CORES])
{
    int32_t next = 0;
    for (uint32_t t = 0; t < step->tensor_count; t++) {
        for (uint32_t core = 0; core < step->cores->core_count; core++) {
            const mlir_value address = address_of(&step->tensors[t], core);
            if (ids[t][core] != next) continue;
            next++;
            if (!has_strides(&address)) continue;
            write_tabs(m, depth + 2);
            text_printf(m->out, "%%addr_%u = affine.apply #map_%u(", m->addresses++,
                        find_map(m, &address, depth));
            for (uint32_t loop = 0; loop < depth; loop++) {
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
            const mlir_value address = address_of(&step->tensors[t], core);
            if (ids[t][core] != next) continue;
            if (next++ > 0) text_append(m->out, ", ");
            if (has_strides(&address)) text_printf(m->out, "%%addr_%u", first_application++);
            else write_base(m, &address);
        }
    }
}

static void write_execute(mlir_writer *m, uint32_t at, uint32_t number, uint32_t depth,
                          const uint32_t *loop_numbers)
{
    const bundle_step *step = &m->w->b->steps.items[m->w->b->body.items[at].step];
    if (m->w->form == BUNDLE_FORM_ABSOLUTE) {
        write_tabs(m, depth + 2);
        text_printf(m->out, "sdscbundle.sdsc_execute () {sdsc_filename=\"sdsc_%u.json\"}\n",
                    number);
        return;
    }
    int32_t ids[BUNDLE_MAX_TENSORS][BUNDLE_MAX_CORES];
    uint32_t count = writer_number_symbols(step, ids), first = m->addresses;
    write_applications(m, step, depth, loop_numbers, ids);
    write_tabs(m, depth + 2);
    text_append(m->out, "sdscbundle.sdsc_execute (");
    write_operands(m, step, first, ids);
    text_printf(m->out, ") {sdsc_filename=\"sdsc_%u.json\", \"symbol_ids\"=[", number);
    for (uint32_t i = 0; i < count; i++) {
        text_printf(m->out, "%s%lld", i ? ", " : "",
                    (long long)-(m->w->first_symbol.items[at] + i));
    }
    text_append(m->out, "]}\n");
}

static void write_body(mlir_writer *m)
{
    const bundle *b = m->w->b;
    uint32_t depth = 0, loops = 0, number = 0, loop_numbers[BUNDLE_MAX_LOOPS];
    for (uint32_t at = 0; at < b->body.count; at++) {
        const bundle_statement *statement = &b->body.items[at];
        switch (statement->kind) {
        case BUNDLE_EXECUTE: write_execute(m, at, number++, depth, loop_numbers); break;
        case BUNDLE_LOOP:
            write_tabs(m, depth + 2);
            text_printf(m->out, "scf.for %%i_%u = %%c0 to %%loop_bound_%u step %%c1 {\n", loops,
                        loops);
            loop_numbers[depth++] = loops++;
            break;
        case BUNDLE_END:
            write_tabs(m, --depth + 2);
            text_append(m->out, "}\n");
            break;
        }
    }
}

static spyre_status write_module(mlir_writer *m)
{
    if (m->w->form == BUNDLE_FORM_SYMBOLIC) TRY(visit_addresses(m, collect_map));
    text_append(m->out, "module {\n");
    TRY(write_head(m));
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
