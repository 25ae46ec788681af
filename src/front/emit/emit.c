// SPDX-License-Identifier: Apache-2.0
//
// From the loop IR to a bundle: one step an op. Dims take torch-spyre's labels (matmul: batch dims,
// mb, out, in; otherwise mb, x, y, .., out last for the stick), stick dims are padded to whole
// sticks, padding of reduced sticks is masked, and every core gets its slice.
#include "front/cost/cost.h"
#include "front/emit/emit.h"
#include "front/front.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "bundle/unroll.h"
#include "front/ir/core_numbers.h"
#include "tensor/numeric.h"
#include "tensor/scalar.h"

static spyre_status refuse(const emitter *e, const char *why)
{
    return status_new(SPYRE_UNSUPPORTED, "op %s %s (%s): %s", e->op->name,
                      opfunc_describe(e->op->op)->name,
                      e->op->location ? e->op->location : "unknown source line", why);
}

static spyre_status add_dim(emitter *e, const char *name, int32_t var, int64_t size, int64_t valid,
                            uint8_t *out)
{
    bundle_step *step = e->step;
    if (step->dim_count == BUNDLE_MAX_DIMS) return refuse(e, "more dims than a step can have");
    *out = (uint8_t)step->dim_count++;
    snprintf(step->dim_name[*out], sizeof step->dim_name[*out], "%s", name);
    step->size[*out] = size;
    step->cores->slices[*out] = var < 0 ? 1 : e->op->split[var];
    step->scanned[*out] = var >= 0 && loop_var_is_scanned(e->op, (uint32_t)var);
    e->var_of_dim[*out] = (int8_t)var;
    e->valid[*out] = valid;
    if (var >= 0) e->dim_of_var[var] = *out;
    return NULL;
}

static spyre_status add_var(emitter *e, const char *name, uint32_t v)
{
    uint8_t dim = 0;
    TRY(add_dim(e, name, (int32_t)v, e->sizes.size[v], e->op->extent[v], &dim));
    if (division_is_uneven(&e->sizes, v, e->op->split[v]))
        e->step->cores->slice_size[dim] = division_slice(&e->sizes, v, e->op->split[v]);
    return NULL;
}

// A synthetic dim of `padded` lanes of which the first counts.
static spyre_status add_lane_dim(emitter *e, const char *name, int64_t padded)
{
    return add_dim(e, name, -1, padded, 1, &e->lane_dim);
}

static bool is_row(const loop_op *op, uint32_t v)
{
    return !loop_var_is_reduced(op, v) && v != op->stick;
}

// torch-spyre takes the last of ki, kj, y, x, mb, out, in, one a loop (torch_spyre/_inductor/
// constants.py at e1abccf); it has one contracted loop. Windows have the names of the
// specification's example of a convolution.
enum { MOST_ROWS = 6 };
typedef struct {
    const char *rows[MOST_ROWS]; // innermost first
    const char *sums[LOOP_MOST_SUMS];
} product_names;

static const product_names *names_of(const loop_op *op)
{
    static const product_names plain = {{"mb", "x", "y", "kj", "ki", "z"}, {"i", "j", "kk", "kl"}};
    static const product_names sliding = {{"j", "i", "mb", "x", "y", "z"},
                                          {"ki", "kj", "kk", "kl"}};
    return opfunc_slides(op->op) ? &sliding : &plain;
}

// Of the columns' sticks, the shorter ones: a result may be of another format than the factor.
static int64_t least_lanes(const loop_graph *loops, const loop_op *op)
{
    int64_t factor = loop_lanes(loop_operand_buffer(loops, op, 1));
    int64_t result = loop_lanes(loop_operand_buffer(loops, op, 2));
    return factor < result ? factor : result;
}

static spyre_status add_matmul_dims(emitter *e)
{
    const loop_op *op = e->op;
    const product_names *names = names_of(op);
    uint32_t row = 0, sum = 0;
    uint8_t k = e->place[0].stick_var;
    for (uint32_t v = 0; v < op->var_count; v++) row += is_row(op, v);
    if (row > MOST_ROWS) return refuse(e, "too many batch dims");
    for (uint32_t v = 0; v < op->var_count; v++)
        if (is_row(op, v)) TRY(add_var(e, names->rows[--row], v));
    if (op->stick != LOOP_NO_DIM)
        TRY(add_var(e, "out", op->stick));
    else
        TRY(add_lane_dim(e, "out", least_lanes(e->loops, op)));
    for (uint32_t v = 0; v < op->var_count; v++)
        if (loop_var_is_reduced(op, v) && v != k) {
            if (sum == LOOP_MOST_SUMS) return refuse(e, "too many contracted dims");
            TRY(add_var(e, names->sums[sum++], v));
        }
    if (k != LOOP_NO_DIM) return add_var(e, "in", k);
    int64_t lanes = loop_lanes(loop_operand_buffer(e->loops, op, 0));
    return add_dim(e, "in", -1, lanes, 1, &e->sum_dim);
}

// As torch-spyre emits them (torch_spyre/_inductor/codegen/superdsc.py): a cast between float16 and
// float32 has a row of its own.
static bool is_cast_of_vector(const loop_op *op)
{
    return op->var_count == 1 && (op->op == OPFUNC_DL16TOFP32 || op->op == OPFUNC_FP32TODL16);
}

static spyre_status add_plain_dims(emitter *e)
{
    static const char *const names[] = {"mb", "x", "y", "i", "j", "z", "ki", "kj"};
    const loop_op *op = e->op;
    uint32_t used = 0;
    uint8_t last = e->last_var;
    for (uint32_t v = 0; v < op->var_count; v++)
        if (v != last) TRY(add_var(e, names[used++], v));
    if (last != LOOP_NO_DIM) {
        if (is_cast_of_vector(op)) TRY(add_dim(e, "mb", -1, 1, 1, &e->row_of_cast));
        TRY(add_var(e, "out", last));
    }
    bool sparse = false;
    for (uint32_t k = 0; k < op->operand_count; k++) sparse |= e->place[k].stick_var == LOOP_NO_DIM;
    bool lanes = op->op == OPFUNC_LAYERNORMSCALE || (op->op == OPFUNC_EXX2 && last == LOOP_NO_DIM);
    int64_t size = lanes ? loop_lanes(loop_operand_buffer(e->loops, op, 0)) : 1;
    bool synthetic = last == LOOP_NO_DIM || (sparse && op->op == OPFUNC_RESTICKIFY) ||
                     (op->table && e->place[0].stick_var == LOOP_NO_DIM);
    if (synthetic) TRY(add_lane_dim(e, last == LOOP_NO_DIM ? "out" : "lane", size));
    if (!op->table) return NULL;
    e->row_dim = e->lane_dim;
    bool moves = false;
    for (uint32_t v = op->var_count; v-- > 0;) {
        if (!op->operand[0].stride[v]) continue;
        moves = true;
        if (!op->operand[op->table].stride[v]) e->row_dim = e->dim_of_var[v];
    }
    // One index for each of the table's other places, or the one row of a table with an element a
    // stick, whose stick the lanes are.
    uint8_t stick = e->place[op->table].stick_var;
    bool is_lanes = e->row_dim == e->lane_dim;
    if (is_lanes && (moves || stick == LOOP_NO_DIM || stick == LOOP_ROWS))
        return add_dim(e, "row", -1, 1, 1, &e->row_dim);
    return NULL;
}

// True when an operand has only one stick of loop v, which walks lanes of it: in LX, of the core's
// slice.
static bool is_one_stick(const emitter *e, uint32_t k, uint32_t v)
{
    int64_t held = e->op->extent[v], span = e->place[k].walk.span[v];
    bool in_lx = loop_operand_buffer(e->loops, e->op, k)->in_lx;
    if (in_lx) held = division_slice(&e->sizes, v, e->op->split[v]);
    return span > 1 && held <= span;
}

// True when an operand begins with a stride beyond that of one stick, so that room must be taken.
static bool needs_room(const emitter *e)
{
    for (uint32_t k = 0; k < e->op->operand_count; k++) {
        int64_t least = emit_row_step(e, k);
        for (uint32_t v = 0; v < e->op->var_count; v++) {
            int64_t stride = e->place[k].stride[v];
            if (stride && !is_one_stick(e, k, v) && (!least || stride < least)) least = stride;
        }
        if (least > SPYRE_STICK_BYTES) return true;
    }
    return false;
}

static void find_windows(emitter *e)
{
    const loop_buffer *buffer = loop_operand_buffer(e->loops, e->op, 0);
    for (uint32_t v = 0; v < e->op->var_count; v++) e->tap_of[v] = loop_tap_of(e->op, buffer, v);
}

// Windows lie inside of what they are of: what a convolution pads was written around its input.
static spyre_status add_windows(emitter *e)
{
    const loop_access *access = &e->op->operand[0];
    const loop_buffer *buffer = &e->loops->buffers.items[access->buffer];
    for (uint32_t v = 0; v < e->op->var_count; v++) {
        uint8_t tap = e->tap_of[v];
        if (tap == LOOP_NO_DIM) continue;
        if (e->step->window_count == BUNDLE_MAX_WINDOWS) return refuse(e, "too many windows");
        int64_t index = buffer->dim[loop_dim_at(buffer, access->stride[v])].stride;
        bundle_window *w = &e->step->windows[e->step->window_count++];
        *w = (bundle_window){.dim = e->dim_of_var[v],
                             .kernel = e->dim_of_var[tap],
                             .stride = access->stride[v] / index,
                             .dilation = access->stride[tap] / index};
        w->total = (e->op->extent[v] - 1) * w->stride + (e->op->extent[tap] - 1) * w->dilation + 1;
    }
    return NULL;
}

static void divide_cores(const emitter *e)
{
    bundle_division *cores = e->step->cores;
    cores->core_count = loop_core_count(e->op);
    for (uint32_t core = 0; core < cores->core_count; core++)
        for (uint32_t v = 0; v < e->op->var_count; v++)
            cores->core_slice[core][e->dim_of_var[v]] =
                (uint8_t)loop_core_slice(e->op, v, core);
}

static spyre_status add_step(const front_result *result, arena *memory, emit_shared *shared,
                             bundle_step *step)
{
    uint32_t number = result->bundle->steps.count, first;
    TRY(map_bytes_intern(memory, &shared->divisions, step->cores, sizeof *step->cores, number,
                         &first));
    if (first < number) {
        step->cores = result->bundle->steps.items[first].cores;
    } else {
        bundle_division *own = ARENA_NEW(memory, bundle_division, 1);
        TRY_ALLOC(own);
        *own = *step->cores;
        step->cores = own;
    }
    return bundle_add_step(result->bundle, step);
}

static void add_step_constant(bundle_step *step, const char *name, spyre_format format, float value)
{
    bundle_constant *constant = &step->constants[step->constant_count++];
    snprintf(constant->name, sizeof constant->name, "%s", name);
    constant->format = format;
    constant->bits = 0;
    element_store(&constant->bits, format, (double)value);
}

// Constants are kept as fp32: 1/384 in 16 bits would be off by 0.04 %, an eps of 1e-12 would be 0.
static void add_constants(emitter *e)
{
    bundle_step *step = e->step;
    const opfunc_info *info = opfunc_describe(step->op);
    for (uint32_t i = 0; i < opfunc_constant_count(e->op->op, e->op->operand_count - 1u); i++)
        add_step_constant(step, info->parameter[i], SPYRE_FORMAT_IEEE_FP32, e->op->parameter[i]);
    step->mask_constant = -1;
    bool counts = opfunc_reduces(step->op) || info->kind == OPFUNC_KIND_SCAN;
    for (uint8_t d = 0; counts && d < step->dim_count; d++) {
        bool kept = e->var_of_dim[d] >= 0 && !step->scanned[d] &&
                    !loop_var_is_reduced(e->op, (uint32_t)e->var_of_dim[d]);
        bool columns = d == e->lane_dim && (info->kind == OPFUNC_KIND_MATMUL ||
                                            info->kind == OPFUNC_KIND_SCAN);
        if (kept || columns || e->valid[d] == step->size[d]) continue;
        step->masks[step->mask_count++] =
            (bundle_mask){d, e->valid[d], step->size[d] - e->valid[d]};
    }
    if (!step->mask_count || info->kind != OPFUNC_KIND_REDUCTION) return;
    step->mask_constant = (int32_t)step->constant_count;
    add_step_constant(step, "samv-maskvalue", step->compute_format,
                      opfunc_reduction_identity(step->op));
}

// What a stick dim is padded with has no reader. Published bundles do not say so.
static void add_live_lanes(emitter *e)
{
    bundle_step *step = e->step;
    const bundle_tensor *out = &step->tensors[step->output];
    uint8_t d = out->stick_dim;
    if (e->loops->settings.published_opfuncs || out->digit_count || d >= step->dim_count ||
        e->var_of_dim[d] < 0)
        return;
    if (e->valid[d] < step->size[d]) step->live_lanes = e->valid[d];
}

// The bundle argument of a buffer: pool, inputs, output buffers, constants; -1 in LX.
static int32_t arg_of(const front_result *result, const loop_buffer *buffer)
{
    int32_t first_input = result->has_pool ? 1 : 0;
    int32_t first_output = first_input + (int32_t)result->input_count;
    switch (buffer->kind) {
    case LOOP_INPUT: return first_input + (int32_t)buffer->index;
    case LOOP_CONSTANT: return first_output + (int32_t)result->output_buffer_count;
    case LOOP_LOCAL: break;
    }
    if (buffer->in_lx) return -1;
    return buffer->output >= 0 ? first_output + buffer->output : 0;
}

// A shuffle whose tensors are not both in LX is a copy in memory: what it would give several cores
// each, one of them writes.
static bool becomes_copy(const loop_graph *loops, const loop_op *shuffle, loop_op *out)
{
    if (shuffle->op != OPFUNC_SHUFFLE || cost_resident(loops, shuffle) == 3) return false;
    *out = *shuffle;
    out->op = OPFUNC_IDENTITY;
    division d = division_get(out);
    for (uint32_t v = 0; v < out->var_count; v++)
        if (!loop_output_of(out)->stride[v]) d.split[v] = 1;
    core_numbers_as_published(out, &d);
    division_set(out, &d, out->divided_by);
    return true;
}

static spyre_status emit_step(const loop_graph *loops, const front_result *result,
                              emit_shared *shared, uint32_t index)
{
    loop_op copy;
    const loop_op *op = &loops->ops.items[index];
    if (becomes_copy(loops, op, &copy)) op = &copy;
    *loops->at_node = op->node;
    bundle_division cores;
    memset(&cores, 0, sizeof cores); // a key of the shared ones, its padding too
    bundle_step_room room = {0};
    bundle_step built = bundle_begin_step(&room), *step = &built;
    emitter e = {.loops = loops,
                 .op = op,
                 .shared = shared,
                 .step = step,
                 .sizes = division_sizes_of(loops, op),
                 .lane_dim = LOOP_NO_DIM,
                 .sum_dim = LOOP_NO_DIM,
                 .room_dim = LOOP_NO_DIM,
                 .row_of_cast = LOOP_NO_DIM,
                 .row_dim = LOOP_NO_DIM};
    step->cores = &cores;
    step->op = op->op;
    step->accumulator = op->accumulator;
    step->location = op->location;
    TRY_NEW(loops->memory, step->tensors, op->operand_count);
    for (uint32_t k = 0; k < op->operand_count; k++) {
        const char *why = loop_locate(loops, op, &op->operand[k], &e.place[k]);
        if (why) return status_new(SPYRE_INTERNAL, "%s, operand %u: %s", op->name, k, why);
    }
    opfunc_kind kind = opfunc_describe(op->op)->kind;
    e.last_var = opfunc_reduces(op->op) ? e.place[0].stick_var : op->stick;
    TRY(kind == OPFUNC_KIND_MATMUL ? add_matmul_dims(&e) : add_plain_dims(&e));
    find_windows(&e);
    TRY(add_windows(&e));
    if (needs_room(&e)) TRY(add_dim(&e, "room", -1, 1, 1, &e.room_dim));
    divide_cores(&e);
    step->tensor_count = op->operand_count;
    step->output = (uint8_t)(op->operand_count - 1);
    step->compute_format = loop_operand_buffer(loops, op, op->table ? 1 : 0)->format;
    for (uint8_t k = 0; k < op->operand_count; k++) {
        step->tensors[k].arg =
            arg_of(result, loop_operand_buffer(loops, op, k));
        TRY(emit_tensor(&e, k));
        if (k == step->output) continue;
        if (op->table && k == 0)
            step->indices[step->index_count++] = k;
        else
            step->inputs[step->input_count++] = k;
    }
    bool reduces = kind == OPFUNC_KIND_REDUCTION;
    uint8_t stick = e.place[0].stick_var;
    step->nonstick = reduces && op->op != OPFUNC_EXX2 &&
                     (stick == LOOP_NO_DIM || !loop_var_is_reduced(op, stick));
    step->name = arena_printf(loops->memory, "%u_%s%s", index, opfunc_describe(op->op)->name,
                              step->nonstick ? "nonstick" : "");
    TRY_ALLOC(step->name);
    add_constants(&e);
    add_live_lanes(&e);
    return status_at(add_step(result, loops->memory, shared, step), "step %s", step->name);
}

uint32_t front_op_of_step(const char *name)
{
    return (uint32_t)strtoul(name, NULL, 10);
}

// A launch argument lies in one segment. Blames no node: the host would need as much.
static spyre_status check_arg(const loop_graph *loops, const char *name, int64_t bytes)
{
    if (bytes <= (int64_t)BUNDLE_SEGMENT_BYTES) return NULL;
    *loops->at_node = SPYRE_NO_ID;
    return status_new(SPYRE_OUT_OF_MEMORY,
                      "%s takes %lld bytes of card memory, a segment has %lld", name,
                      (long long)bytes, (long long)BUNDLE_SEGMENT_BYTES);
}

static spyre_status add_args(const loop_graph *loops, front_result *result)
{
    bundle *b = result->bundle;
    arena *memory = loops->memory;
    bundle_arg *inputs = ARENA_NEW(memory, bundle_arg, result->input_count);
    bundle_arg *outputs = ARENA_NEW(memory, bundle_arg, result->output_buffer_count);
    TRY_ALLOC(inputs);
    TRY_ALLOC(outputs);
    int64_t constants = 0;
    for (uint32_t i = 0; i < loops->buffers.count; i++) {
        const loop_buffer *buffer = &loops->buffers.items[i];
        int64_t strides[LOOP_MAX_DIMS], bytes = buffer->bytes;
        if (buffer->kind == LOOP_INPUT) {
            loop_device_strides(buffer, strides, &bytes);
            inputs[buffer->index].bytes = bytes;
            TRY(check_arg(loops, buffer->name, bytes));
        } else if (buffer->kind == LOOP_CONSTANT) {
            int64_t end = buffer->first_op == LOOP_UNUSED ? 0 : buffer->memory_offset + bytes;
            if (end > constants) constants = end;
        } else if (buffer->kind == LOOP_LOCAL && buffer->output >= 0) {
            outputs[buffer->output].bytes = bytes;
            TRY(check_arg(loops, buffer->name, bytes));
        }
    }
    TRY(check_arg(loops, "the pool of intermediates", loops->pool_bytes));
    bool used = result->has_constants = constants > 0;
    if (result->has_pool)
        TRY(VEC_PUSH(memory, &b->args, ((bundle_arg){BUNDLE_ARG_POOL, loops->pool_bytes})));
    for (uint32_t i = 0; i < result->input_count; i++) TRY(VEC_PUSH(memory, &b->args, inputs[i]));
    for (uint32_t i = 0; i < result->output_buffer_count; i++)
        TRY(VEC_PUSH(memory, &b->args, outputs[i]));
    if (used) TRY(VEC_PUSH(memory, &b->args, ((bundle_arg){BUNDLE_ARG_CONSTANTS, constants})));
    b->constants_bytes = used ? constants : 0;
    return NULL;
}

static spyre_status fill_constants(const loop_graph *loops, bundle *b)
{
    uint8_t *bytes = arena_alloc(loops->memory, (size_t)b->constants_bytes);
    TRY_ALLOC(bytes);
    for (uint32_t i = 0; i < loops->buffers.count; i++) {
        const loop_buffer *buffer = &loops->buffers.items[i];
        if (buffer->kind != LOOP_CONSTANT || buffer->first_op == LOOP_UNUSED) continue;
        scalar_fill_stick(bytes + buffer->memory_offset, buffer->format, buffer->value);
    }
    b->constants = bytes;
    return NULL;
}

static spyre_status list_scalars(const loop_graph *loops, front_result *result)
{
    VEC(front_scalar) scalars = {0};
    for (uint32_t i = 0; i < loops->buffers.count; i++) {
        const loop_buffer *buffer = &loops->buffers.items[i];
        if (buffer->kind != LOOP_CONSTANT || buffer->first_op == LOOP_UNUSED || !buffer->scalar)
            continue;
        front_scalar one = {buffer->scalar - 1, buffer->form, buffer->format,
                            buffer->memory_offset};
        TRY(VEC_PUSH(loops->memory, &scalars, one));
    }
    result->scalars = scalars.items;
    result->scalar_count = scalars.count;
    return NULL;
}

static spyre_status emit_statement(const loop_graph *loops, bundle *b, bundle_statement_kind kind,
                                   int64_t count)
{
    return VEC_PUSH(loops->memory, &b->body, ((bundle_statement){.kind = kind, .count = count}));
}

static spyre_status emit_body(const loop_graph *loops, const front_result *result)
{
    const loop_op none = {0}, *before = &none;
    emit_shared shared = {0};
    for (uint32_t i = 0; i <= loops->ops.count; i++) {
        const loop_op *op = i < loops->ops.count ? &loops->ops.items[i] : &none;
        uint32_t common = loop_shared_tiles(before, op);
        for (uint32_t t = before->tile_depth; t > common; t--)
            TRY(emit_statement(loops, result->bundle, BUNDLE_END, 0));
        for (uint32_t t = common; t < op->tile_depth; t++)
            TRY(emit_statement(loops, result->bundle, BUNDLE_LOOP,
                               loops->tiles.items[op->tiles[t]].count));
        if (i < loops->ops.count) TRY(emit_step(loops, result, &shared, i));
        before = op;
    }
    return NULL;
}

static spyre_status unroll(bundle *b)
{
    uint32_t kept;
    TRY(bundle_unroll(b, &kept));
    if (kept)
        log_info("%u loops of tiles have more than %d steps and are not unrolled", kept,
                 BUNDLE_MOST_UNROLLED);
    return NULL;
}

// What a bundle cannot say is unsupported; what is wrong with a bundle of ours is our fault.
static spyre_status internal(spyre_status broken)
{
    if (spyre_status_code(broken) != SPYRE_INVALID_ARGUMENT) return broken;
    spyre_status status =
        status_new(SPYRE_INTERNAL, "emitted bundle: %s", spyre_status_message(broken));
    spyre_status_free(broken);
    return status;
}

spyre_status front_emit(loop_graph *loops, front_result *out_result)
{
    front_result result = {.loops = loops, .has_pool = loops->pool_bytes > 0};
    result.input_count = loops->graph->inputs.count;
    result.output_buffer_count = loops->output_buffer_count;
    result.bundle = bundle_create(loops->memory);
    TRY_ALLOC(result.bundle);
    TRY(VEC_ROOM(loops->memory, &result.bundle->steps, loops->ops.count));
    TRY(VEC_ROOM(loops->memory, &result.bundle->body, loops->ops.count + 2 * loops->tiles.count));
    TRY(add_args(loops, &result));
    if (result.has_constants) TRY(fill_constants(loops, result.bundle));
    TRY(list_scalars(loops, &result));
    TRY(emit_body(loops, &result));
    *out_result = result;
    TRY(internal(bundle_verify(result.bundle)));
    return loops->tiles.count && loops->settings.unroll_loops ? unroll(result.bundle) : NULL;
}
