// SPDX-License-Identifier: Apache-2.0
#include "front/layout/stick_price.h"

#include <math.h>

#include "base/integer.h"
#include "front/cost/cost.h"
#include "front/front.h"
#include "front/ir/lx_slices.h"
#include "isa/constants.h"

spyre_status stick_pricer_begin(loop_graph *loops, arena *scratch, stick_pricer *out)
{
    *out = (stick_pricer){.loops = loops, .scratch = scratch};
    TRY_NEW(scratch, out->copy_count, loops->buffers.count);
    return NULL;
}

// Multiply-adds of a matmul; its sticks are computed whole.
static double points_of(const loop_graph *loops, const loop_op *op, const stick_mode *mode)
{
    double points = 1;
    for (uint32_t v = 0; v < op->var_count; v++) {
        int64_t extent = op->extent[v], lanes = 1;
        if (v == mode->stick[0]) lanes = loop_lanes(loop_operand_buffer(loops, op, 0));
        if (v == mode->stick[1]) lanes = loop_lanes(loop_operand_buffer(loops, op, 1));
        points *= (double)round_up(extent, lanes);
    }
    return points;
}

// A ranking passes over its candidates, and their positions of 32 bits, once a rank, with the ranks
// that pad a stick.
static double passes_of(const loop_graph *loops, const loop_op *op, const stick_mode *mode)
{
    double passes = 1;
    uint32_t result = op->operand_count - 1;
    if (opfunc_describe(op->op)->kind == OPFUNC_KIND_RANK)
        passes = (double)loop_lanes(loop_operand_buffer(loops, op, 0)) * sizeof(int32_t) /
                 SPYRE_STICK_BYTES;
    for (uint32_t v = 0; v < op->var_count; v++) {
        if (!loop_var_is_rank(op, v)) continue;
        int64_t lanes = 1;
        if (v == mode->stick[result]) lanes = loop_lanes(loop_operand_buffer(loops, op, result));
        passes *= (double)round_up(op->extent[v], lanes);
    }
    return passes;
}

static bool in_lx(const loop_graph *loops, const loop_op *op, uint32_t k, double bytes)
{
    const loop_buffer *buffer = loop_operand_buffer(loops, op, k);
    if (op->op == OPFUNC_RESTICKIFY || !loops->settings.lx_planning) return false;
    if (loop_is_table(op, &op->operand[k])) return false; // an index chooses its rows
    if (buffer->kind != LOOP_LOCAL || buffer->output >= 0) return false;
    return bytes <= (double)lx_limit_bytes(loops) * loops->cores / 4;
}

// Copies that cut sticks are restickify ops.
static bool cuts_sticks(const loop_graph *loops, const loop_op *op, const stick_mode *mode)
{
    for (uint32_t k = 0; loop_is_move(loops, op) && k < 2; k++) {
        loop_stick_walk walk;
        const loop_buffer *buffer = loop_operand_buffer(loops, op, k);
        uint8_t v = mode->stick[k];
        if (v == LOOP_NO_DIM || op->operand[k].stride[v] <= 0) continue;
        uint8_t d = (uint8_t)loop_dim_at(buffer, op->operand[k].stride[v]);
        if (!loop_walk_stick(loops, op, &op->operand[k], d, &walk) && walk.count > 1) return true;
    }
    return false;
}

static double us_of(const loop_graph *loops, const loop_op *op, const stick_mode *mode)
{
    double read = 0, written = 0, largest = 0;
    for (uint32_t k = 0; k < op->operand_count; k++) {
        bool index = op->table && k == 0; // is read as it lies
        uint8_t stick = index ? stick_innermost(op, &op->operand[0], false) : mode->stick[k];
        double bytes = cost_operand_bytes(loops, op, k, stick);
        largest = fmax(largest, bytes);
        if (in_lx(loops, op, k, bytes)) continue;
        if (k + 1 < op->operand_count)
            read += bytes;
        else
            written = bytes;
    }
    bool matmul = loop_is_matmul(op);
    double compute = matmul ? points_of(loops, op, mode) / (loops->cores * MATMUL_RATE)
                            : passes_of(loops, op, mode) * cost_vector_us(largest, loops->cores);
    return fmax(cost_memory_us(op, read, written), compute);
}

static double op_us(const loop_graph *loops, const loop_op *op, const stick_mode *mode)
{
    if (!cuts_sticks(loops, op, mode)) return us_of(loops, op, mode);
    loop_op restickify = *op;
    restickify.op = OPFUNC_RESTICKIFY;
    return us_of(loops, &restickify, mode);
}

double stick_op_us(const loop_graph *loops, const loop_op *op, const stick_mode *mode)
{
    return restickify_is_copy_out(loops, op) ? 0 : op_us(loops, op, mode);
}

// The sticks of an op whose operands all have their layouts.
static stick_mode mode_as_planned(const loop_graph *loops, const loop_op *op)
{
    stick_mode mode = {.dim = STICK_SPARSE};
    for (uint32_t k = 0; k < op->operand_count; k++) {
        loop_location place;
        bool located = !loop_locate(loops, op, &op->operand[k], &place);
        mode.stick[k] = located ? place.stick_var : LOOP_NO_DIM;
    }
    return mode;
}

double stick_planned_us(const loop_graph *loops)
{
    double us = 0;
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        const stick_mode mode = mode_as_planned(loops, &loops->ops.items[i]);
        us += op_us(loops, &loops->ops.items[i], &mode);
    }
    return us;
}

// The bit of a copy among those of buffer `origin`.
static spyre_status copy_bit(stick_pricer *p, const loop_op *copy, uint32_t origin,
                             uint32_t *out_bit)
{
    const loop_op *first = &p->made.items[0];
    restickify_key key = restickify_key_of(p->loops, copy);
    if (key.source != origin) { // a copy of the first copy
        key.source = origin;
        key.offset += first->operand[0].offset;
        key.spare = 1u + loop_operand_buffer(p->loops, first, 1)->stick;
    }
    uint8_t *count = &p->copy_count[origin];
    if (map_bytes_get(&p->copies, &key, sizeof key, out_bit)) return NULL;
    *out_bit = STICK_UNSHARED;
    if (*count < STICK_UNSHARED) *out_bit = (*count)++;
    return map_bytes_put(p->scratch, &p->copies, &key, sizeof key, *out_bit);
}

static spyre_status price_made(stick_pricer *p, uint32_t origin, stick_restickify_price *out)
{
    for (uint32_t i = 0; i < p->made.count; i++) {
        const loop_op *copy = &p->made.items[i];
        const stick_mode mode = mode_as_planned(p->loops, copy);
        TRY(copy_bit(p, copy, origin, &out->copy[i].bit));
        out->copy[i].us = op_us(p->loops, copy, &mode);
        out->count++;
    }
    return NULL;
}

// A copy out, which reads its operand as it lies when it became a restickify.
static void price_copy_out(const loop_graph *loops, const loop_op *copy, stick_mode mode,
                           stick_restickify_price *out)
{
    if (copy->op == OPFUNC_RESTICKIFY) mode.stick[0] = mode_as_planned(loops, copy).stick[0];
    out->copy[out->count].bit = STICK_UNSHARED;
    out->copy[out->count++].us = op_us(loops, copy, &mode);
}

static bool is_in_place(const loop_graph *loops, const loop_op *op, uint32_t k,
                        const stick_mode *mode)
{
    loop_location place;
    bool follows_rules = op->table || loop_is_matmul(op);
    return !follows_rules && !loop_locate(loops, op, &op->operand[k], &place) &&
           place.stick_var == mode->stick[k];
}

spyre_status stick_price_restickify(stick_pricer *p, const loop_op *op, uint32_t k,
                                    const stick_mode *mode, uint8_t stick,
                                    stick_restickify_price *out)
{
    loop_graph *loops = p->loops;
    uint32_t origin = op->operand[k].buffer, count = loops->buffers.count;
    bool local = loops->buffers.items[origin].kind == LOOP_LOCAL;
    spyre_status status = NULL;
    loop_op moved = *op;
    *out = (stick_restickify_price){0};
    if (local) stick_set(&loops->buffers.items[origin], stick);
    if (!is_in_place(loops, op, k, mode)) {
        restickifier trial = {.loops = loops, .ops = &p->made, .forgets = true};
        p->made.count = 0;
        status = stick_restickify(&trial, &moved, k, mode);
        out->impossible = spyre_status_code(status) == SPYRE_UNSUPPORTED;
        if (!status) status = price_made(p, origin, out);
    }
    if (!status && restickify_is_copy_out(loops, op)) price_copy_out(loops, &moved, *mode, out);
    loops->buffers.count = count;
    if (out->impossible) {
        spyre_status_free(status);
        status = NULL;
    }
    if (local) loops->buffers.items[origin].has_layout = false;
    return status;
}

static bool is_as_host_has_it(const loop_graph *loops, const loop_buffer *buffer, uint8_t stick)
{
    loop_buffer host = *buffer;
    loop_set_dims(&host);
    for (uint32_t d = 0; d < host.dim_count; d++)
        if (host.dim[d].stride == buffer->dim[stick].stride &&
            host.dim[d].extent == buffer->dim[stick].extent)
            return front_may_leave(loops, buffer, host.dim[d].stride);
    return false;
}

double stick_output_us(const loop_graph *loops, const loop_buffer *buffer, uint8_t stick)
{
    if (buffer->output < 0 || stick == STICK_SPARSE) return 0;
    if (is_as_host_has_it(loops, buffer, stick)) return 0;
    // Read where it is, its stick moved, written anew.
    loop_op copy = {.op = OPFUNC_RESTICKIFY, .operand_count = 2};
    double bytes = SPYRE_STICK_BYTES;
    for (uint32_t d = 0; d < buffer->dim_count; d++) {
        int64_t extent = buffer->dim[d].extent, lanes = d == stick ? loop_lanes(buffer) : 1;
        bytes *= (double)divide_up(extent, lanes);
    }
    return 2 * cost_memory_us(&copy, bytes, bytes);
}
