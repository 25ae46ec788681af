// SPDX-License-Identifier: Apache-2.0
//
// Of two buffers of a copy the one with the higher number is its twin: it was added for the copy.
#include "front/plan/plan_text.h"

#include <stdlib.h>

#include "front/ir/lx_slices.h"
#include "front/plan/lx_copies.h"

// --- Writing

// By buffer: what it is the twin of, or SPYRE_NO_ID.
static spyre_status find_twins(const loop_graph *loops, uint32_t **out, uint32_t *out_twins)
{
    uint32_t *original = ARENA_NEW(loop_scratch(loops), uint32_t, loops->buffers.count);
    TRY_ALLOC(original);
    *out = original;
    *out_twins = 0;
    for (uint32_t b = 0; b < loops->buffers.count; b++) original[b] = SPYRE_NO_ID;
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        const loop_op *op = &loops->ops.items[i];
        uint32_t from = op->operand[0].buffer, to = op->operand[1].buffer;
        uint32_t twin = from > to ? from : to;
        if (!op->inserted) continue;
        *out_twins += original[twin] == SPYRE_NO_ID;
        original[twin] = from > to ? to : from;
    }
    return NULL;
}

static void print_op(const loop_op *op, text *out)
{
    text_printf(out, "%s %s %u %u", op->inserted ? "copy" : "op", opfunc_describe(op->op)->name,
                op->var_count, op->operand_count);
    for (uint32_t v = 0; v < op->var_count; v++)
        text_printf(out, " %d/%d", op->split[v], op->core_stride[v]);
    for (uint32_t k = 0; k < op->operand_count; k++) text_printf(out, " %u", op->operand[k].buffer);
    text_append(out, "\n");
}

static void print_place(const loop_graph *loops, uint32_t b, text *out)
{
    const loop_buffer *buffer = &loops->buffers.items[b];
    if (!buffer->in_lx) return;
    text_printf(out, "lx %u %lld", b, (long long)buffer->memory_offset);
    for (uint32_t d = 0; d < buffer->dim_count; d++) text_printf(out, " %d", buffer->slices[d]);
    text_append(out, "\n");
}

static void print(const loop_graph *loops, const uint32_t *original, uint32_t twins, text *out)
{
    uint32_t copies = 0;
    for (uint32_t i = 0; i < loops->ops.count; i++) copies += loops->ops.items[i].inserted;
    text_printf(out, "plan %u %u\n", loops->ops.count - copies, loops->buffers.count - twins);
    for (uint32_t b = loops->buffers.count - twins; b < loops->buffers.count; b++)
        text_printf(out, "twin %u\n", original[b]);
    for (uint32_t i = 0; i < loops->ops.count; i++) print_op(&loops->ops.items[i], out);
    for (uint32_t b = 0; b < loops->buffers.count; b++) print_place(loops, b, out);
}

spyre_status plan_text_print(loop_graph *loops)
{
    uint32_t *original = NULL, twins = 0;
    text out = {0};
    if (loops->ops.count == 0) return NULL;
    TRY(find_twins(loops, &original, &twins));
    for (uint32_t b = 0; b < loops->buffers.count; b++) // else one twin is original of two copies
        if ((b >= loops->buffers.count - twins) != (original[b] != SPYRE_NO_ID)) return NULL;
    print(loops, original, twins, &out);
    spyre_status status = text_status(&out);
    if (!status) loops->plan = arena_strdup(loops->memory, text_string(&out));
    if (!status && !loops->plan) status = status_no_memory();
    text_free(&out);
    return status;
}

// --- Reading

typedef struct {
    const char *at;
    bool fits;          // false for good once something does not
} reader;

static bool takes_word(reader *r, const char *word)
{
    size_t length = strlen(word);
    if (!r->fits || strncmp(r->at, word, length) != 0) return false;
    bool whole = r->at[length] == ' ' || r->at[length] == '\n';
    if (whole) r->at += length + 1;
    return whole;
}

static int64_t take(reader *r, int64_t low, int64_t high)
{
    char *end;
    long long value = strtoll(r->at, &end, 10);
    r->fits = r->fits && end != r->at && value >= low && value <= high;
    if (!r->fits) return low;
    r->at = *end ? end + 1 : end;
    return value;
}

static void expect(reader *r, const char *word)
{
    r->fits = takes_word(r, word);
}

// True for the buffer or the twin of a twin .. of it.
static bool stands_for(const uint32_t *original, uint32_t buffer, uint32_t wanted)
{
    while (buffer != wanted && original[buffer] != SPYRE_NO_ID) buffer = original[buffer];
    return buffer == wanted;
}

static void take_division(reader *r, loop_op *op)
{
    for (uint32_t v = 0; v < op->var_count; v++) {
        op->split[v] = (int32_t)take(r, 1, BUNDLE_MAX_CORES);
        op->core_stride[v] = (int32_t)take(r, 0, BUNDLE_MAX_CORES);
        if (op->split[v] > 1) op->divided_by = LOOP_DIVIDED_BY_AGREEMENT;
    }
}

static void take_op(reader *r, const uint32_t *original, uint32_t buffers, loop_op *op)
{
    expect(r, "op");
    expect(r, opfunc_describe(op->op)->name);
    take(r, op->var_count, op->var_count);
    take(r, op->operand_count, op->operand_count);
    take_division(r, op);
    for (uint32_t k = 0; k < op->operand_count; k++) {
        uint32_t buffer = (uint32_t)take(r, 0, buffers - 1);
        r->fits = r->fits && stands_for(original, buffer, op->operand[k].buffer);
        op->operand[k].buffer = buffer;
    }
}

// Loops over the dims, then over cores that get the same.
static void take_copy(reader *r, const loop_graph *loops, const loop_op *near, loop_op *out)
{
    opfunc func = takes_word(r, "shuffle") ? OPFUNC_SHUFFLE : OPFUNC_IDENTITY;
    if (func == OPFUNC_IDENTITY) expect(r, "identity");
    loop_op read = {.var_count = (uint32_t)take(r, 0, LOOP_MAX_VARS)};
    take(r, 2, 2);
    take_division(r, &read);
    uint32_t from = (uint32_t)take(r, 0, loops->buffers.count - 1);
    uint32_t to = (uint32_t)take(r, 0, loops->buffers.count - 1);
    *out = loop_over_dims(near, func, &loops->buffers.items[from]);
    r->fits = r->fits && out->var_count <= read.var_count;
    out->inserted = true;
    out->divided_by = read.divided_by;
    out->operand[0].buffer = from;
    out->operand[1].buffer = to;
    for (uint32_t v = 0; r->fits && v < read.var_count; v++) {
        if (v >= out->var_count) out->extent[v] = read.split[v];
        out->split[v] = read.split[v];
        out->core_stride[v] = read.core_stride[v];
    }
    out->var_count = read.var_count;
}

static void take_place(reader *r, loop_graph *loops)
{
    loop_buffer *buffer = &loops->buffers.items[take(r, 0, loops->buffers.count - 1)];
    buffer->in_lx = true;
    buffer->why_in_memory = NULL;
    buffer->memory_offset = take(r, 0, lx_limit_bytes(loops));
    for (uint32_t d = 0; d < buffer->dim_count; d++)
        buffer->slices[d] = (int32_t)take(r, 1, BUNDLE_MAX_CORES);
    buffer->bytes = loop_device_bytes(buffer);
}

static spyre_status take_ops(reader *r, loop_graph *loops, const uint32_t *original)
{
    loop_op_list ops = {0};
    uint32_t next = 0;
    while (r->fits && (next < loops->ops.count || strncmp(r->at, "copy ", 5) == 0)) {
        loop_op op = loops->ops.items[next < loops->ops.count ? next : next - 1];
        if (takes_word(r, "copy")) {
            const loop_op near = op;
            take_copy(r, loops, &near, &op);
        } else {
            take_op(r, original, loops->buffers.count, &op);
            next++;
        }
        TRY(VEC_PUSH(loops->memory, &ops, op));
    }
    loops->ops = ops;
    return NULL;
}

static uint32_t count_twins(const char *at)
{
    uint32_t twins = 0;
    while (at && strncmp(at, "twin ", 5) == 0) {
        twins++;
        at = strchr(at, '\n');
        if (at) at++;
    }
    return twins;
}

static spyre_status take_twins(reader *r, loop_graph *loops, uint32_t **out_original)
{
    uint32_t buffers = loops->buffers.count + count_twins(r->at);
    uint32_t *original = ARENA_NEW(loop_scratch(loops), uint32_t, buffers);
    TRY_ALLOC(original);
    for (uint32_t b = 0; b < loops->buffers.count; b++) original[b] = SPYRE_NO_ID;
    while (takes_word(r, "twin")) {
        uint32_t added, of = (uint32_t)take(r, 0, loops->buffers.count - 1);
        if (!r->fits) break;
        TRY(lx_copies_add_buffer(loops, of, &added));
        original[added] = of;
    }
    *out_original = original;
    return NULL;
}

spyre_status plan_text_read(loop_graph *loops, bool *out_fits)
{
    reader r = {loops->handed_plan, true};
    uint32_t *original = NULL;
    *out_fits = false;
    expect(&r, "plan");
    take(&r, loops->ops.count, loops->ops.count);
    take(&r, loops->buffers.count, loops->buffers.count);
    if (!r.fits || loops->ops.count == 0) return NULL;
    TRY(take_twins(&r, loops, &original));
    TRY(take_ops(&r, loops, original));
    while (takes_word(&r, "lx")) take_place(&r, loops);
    loop_find_live_ranges(loops);
    *out_fits = r.fits;
    return NULL;
}
