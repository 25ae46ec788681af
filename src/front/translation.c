// SPDX-License-Identifier: Apache-2.0
#include "front/translation.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "bundle/interpret.h"
#include "front/evaluate.h"
#include "front/shrink.h"
#include "tensor/numeric.h"

enum { STALE = 0x7f, PITCH = EVALUATE_ELEMENT_BYTES };

typedef struct {
    const front_pass_row *rows;
    uint32_t count;
    arena *memory;          // lives as long as the validation
    loop_graph *loops;      // after the passes so far
    uint8_t **inputs;       // by input: host values
    uint8_t *lx;
    uint8_t **values;       // by output: what the IR as built computes
    uint8_t **results;      // by output: what the first bundle gave, or null
} validation;

// --- Inputs

static int64_t fewest_rows(const loop_graph *loops)
{
    int64_t rows = 8;
    for (uint32_t i = 0; i < loops->ops.count; i++)
        if (loops->ops.items[i].gather && loops->ops.items[i].row_count < rows)
            rows = loops->ops.items[i].row_count;
    return rows;
}

// Numbers in [-2, 2), whole ones that index every table for integers, 0 and 1 for bools.
static double draw(uint64_t *state, spyre_dtype dtype, int64_t rows)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    uint32_t bits = (uint32_t)(*state >> 40);
    switch ((int)dtype) {
    case SPYRE_DTYPE_BOOL: return bits & 1;
    case SPYRE_DTYPE_U8:
    case SPYRE_DTYPE_I8:
    case SPYRE_DTYPE_I16:
    case SPYRE_DTYPE_I32:
    case SPYRE_DTYPE_I64: return (double)(bits % (uint64_t)rows);
    default: return (double)bits / (1 << 22) - 2;
    }
}

static spyre_status draw_inputs(validation *v)
{
    uint64_t state = 1;
    int64_t rows = fewest_rows(v->loops);
    v->inputs = ARENA_NEW(v->memory, uint8_t *, v->loops->graph->inputs.count + 1);
    TRY_ALLOC(v->inputs);
    for (uint32_t b = 0; b < v->loops->buffers.count; b++) {
        const loop_buffer *buffer = &v->loops->buffers.items[b];
        if (buffer->kind != LOOP_INPUT) continue;
        int64_t count = evaluate_elements(buffer);
        uint8_t *values = arena_alloc(v->memory, (size_t)(count * PITCH));
        TRY_ALLOC(values);
        for (int64_t i = 0; i < count; i++)
            element_store(values + i * PITCH, buffer->format, draw(&state, buffer->dtype, rows));
        v->inputs[buffer->index] = values;
    }
    return NULL;
}

// --- Elements of a buffer

// Advances index over the dims; false at the end.
static bool advance(const loop_buffer *buffer, int64_t *index)
{
    for (uint32_t d = 0; d < buffer->dim_count; d++) {
        if (++index[d] < buffer->dim[d].extent) return true;
        index[d] = 0;
    }
    return false;
}

// Between host values and the bytes that the layout gives the buffer on the card.
static void transfer(const loop_buffer *buffer, uint8_t *values, uint8_t *card, bool to_card)
{
    int64_t strides[LOOP_MAX_DIMS], bytes, index[LOOP_MAX_DIMS] = {0}, lanes = loop_lanes(buffer);
    uint32_t element = spyre_format_bytes(buffer->format);
    loop_device_strides(buffer, strides, &bytes);
    do {
        int64_t host = 0, at = 0;
        for (uint32_t d = 0; d < buffer->dim_count; d++) {
            bool stick = d == buffer->stick;
            host += index[d] * buffer->dim[d].stride;
            at += (stick ? index[d] / lanes : index[d]) * strides[d];
            if (stick) at += index[d] % lanes * element;
        }
        if (to_card)
            memcpy(card + at, values + host * PITCH, element);
        else
            memcpy(values + host * PITCH, card + at, element);
    } while (advance(buffer, index));
}

// --- The two executions

static spyre_status evaluate(const validation *v, arena *scratch, uint8_t **out)
{
    const loop_graph *loops = v->loops;
    uint8_t **values = ARENA_NEW(scratch, uint8_t *, loops->buffers.count);
    TRY_ALLOC(values);
    for (uint32_t b = 0; b < loops->buffers.count; b++)
        if (loops->buffers.items[b].kind == LOOP_INPUT)
            values[b] = v->inputs[loops->buffers.items[b].index];
    TRY(loop_evaluate(loops, scratch, values));
    for (uint32_t i = 0; i < loops->outputs.count; i++)
        out[i] = values[loops->outputs.items[i].buffer];
    return NULL;
}

// Runs the LOWER passes from `first` on.
static spyre_status finish(const validation *v, uint32_t first, loop_graph *loops)
{
    for (uint32_t i = first; i < v->count; i++) {
        bool changed;
        if (v->rows[i].kind == FRONT_LOWER) TRY(v->rows[i].run(loops, &changed));
        loops->stage = i + 1;
    }
    return NULL;
}

static spyre_status bind(const validation *v, const front_result *result, arena *scratch,
                         bundle_buffer *buffers)
{
    const bundle *b = result->bundle;
    for (uint32_t i = 0; i < b->args.count; i++) {
        buffers[i].size_bytes = b->args.items[i].bytes;
        buffers[i].bytes = arena_alloc(scratch, (size_t)buffers[i].size_bytes);
        TRY_ALLOC(buffers[i].bytes);
        memset(buffers[i].bytes, STALE, (size_t)buffers[i].size_bytes);
        if (b->args.items[i].kind == BUNDLE_ARG_CONSTANTS)
            memcpy(buffers[i].bytes, b->constants, (size_t)b->constants_bytes);
    }
    for (uint32_t i = 0; i < result->loops->buffers.count; i++) {
        const loop_buffer *buffer = &result->loops->buffers.items[i];
        if (buffer->kind == LOOP_INPUT)
            transfer(buffer, v->inputs[buffer->index],
                     buffers[(result->has_pool ? 1 : 0) + buffer->index].bytes, true);
    }
    return NULL;
}

static spyre_status collect(const validation *v, const front_result *result, arena *scratch,
                            const bundle_buffer *buffers, uint8_t **out)
{
    const loop_graph *loops = result->loops;
    uint32_t first = (result->has_pool ? 1u : 0u) + result->input_count;
    for (uint32_t i = 0; i < loops->outputs.count; i++) {
        const loop_buffer *buffer = &loops->buffers.items[loops->outputs.items[i].buffer];
        if (buffer->kind == LOOP_INPUT) {
            out[i] = v->inputs[buffer->index];
            continue;
        }
        out[i] = arena_alloc(scratch, (size_t)(evaluate_elements(buffer) * PITCH));
        TRY_ALLOC(out[i]);
        transfer(buffer, out[i], buffers[first + (uint32_t)buffer->output].bytes, false);
    }
    return NULL;
}

// What the bundle gives that the first `stage` passes and the LOWER ones after them lead to.
static spyre_status execute(const validation *v, uint32_t stage, arena *scratch, uint8_t **out)
{
    loop_graph loops;
    front_result result;
    uint32_t node = 0;
    TRY(loop_copy(v->loops, scratch, &loops));
    loops.at_node = &node;
    TRY(finish(v, stage, &loops));
    TRY(front_emit(&loops, &result));
    bundle_buffer *buffers = ARENA_NEW(scratch, bundle_buffer, result.bundle->args.count);
    TRY_ALLOC(buffers);
    TRY(bind(v, &result, scratch, buffers));
    memset(v->lx, STALE, (size_t)BUNDLE_MAX_CORES * BUNDLE_LX_BYTES);
    TRY(bundle_interpret(result.bundle, buffers, v->lx));
    return collect(v, &result, scratch, buffers, out);
}

// --- Comparison

typedef struct {
    int64_t count, differing, first; // elements; host offset of the first that differs
    double is, was;
} difference;

typedef bool differs(double is, double was, double scale);

static bool any_bit(double is, double was, double scale)
{
    (void)scale;
    return memcmp(&is, &was, sizeof is) != 0;
}

// Sums in another order round differently; what lies elsewhere is another number.
static bool much(double is, double was, double scale)
{
    if (isnan(is) || isnan(was)) return isnan(is) != isnan(was);
    if (isinf(is) || isinf(was)) return is != was;
    return fabs(is - was) > scale / 16 + fabs(was) / 16;
}

static double typical_size(const loop_buffer *buffer, const uint8_t *values)
{
    double sum = 0;
    int64_t count = evaluate_elements(buffer), finite = 1;
    for (int64_t i = 0; i < count; i++) {
        double value = element_load(values + i * PITCH, buffer->format);
        if (!isfinite(value)) continue;
        sum += value * value;
        finite++;
    }
    return sqrt(sum / (double)finite);
}

// Compares the elements of the output's view.
static difference compare(const loop_graph *loops, uint32_t output, const uint8_t *is,
                          const uint8_t *was, differs *apart)
{
    const spyre_view *view = &loops->outputs.items[output].view;
    const loop_buffer *buffer = &loops->buffers.items[loops->outputs.items[output].buffer];
    double scale = apart == much ? typical_size(buffer, was) : 0;
    int64_t index[SPYRE_MAX_RANK] = {0};
    difference out = {0};
    for (bool more = true; more;) {
        int64_t at = view->offset;
        for (uint32_t d = 0; d < view->rank; d++) at += index[d] * view->stride[d];
        double x = element_load(is + at * PITCH, buffer->format);
        double y = element_load(was + at * PITCH, buffer->format);
        out.count++;
        if (apart(x, y, scale) && out.differing++ == 0) {
            out.first = at;
            out.is = x;
            out.was = y;
        }
        uint32_t d = view->rank;
        while (d-- > 0 && ++index[d] == view->size[d]) index[d] = 0;
        more = d != UINT32_MAX;
    }
    return out;
}

static spyre_status blame(const validation *v, const char *who, uint32_t output,
                          const difference *d)
{
    const loop_output *of = &v->loops->outputs.items[output];
    return status_new(SPYRE_INTERNAL,
                      "translation: %s changed output %u (%%%s), %" PRId64 " of %" PRId64
                      " elements, first at host element %" PRId64 ": %g, %g before it",
                      who, output, v->loops->buffers.items[of->buffer].name, d->differing, d->count,
                      d->first, d->is, d->was);
}

static spyre_status same_bits(const validation *v, const char *who, uint8_t **is, uint8_t **was)
{
    for (uint32_t i = 0; i < v->loops->outputs.count; i++) {
        difference d = compare(v->loops, i, is[i], was[i], any_bit);
        if (d.differing) return blame(v, who, i, &d);
    }
    return NULL;
}

// A few comparisons may turn over where two sums lie close.
static spyre_status close_values(const validation *v, const char *who, uint8_t **is, uint8_t **was)
{
    for (uint32_t i = 0; i < v->loops->outputs.count; i++) {
        difference d = compare(v->loops, i, is[i], was[i], much);
        if (d.differing > d.count / 64) return blame(v, who, i, &d);
    }
    return NULL;
}

// True when cores add up parts of one sum.
static bool divides_sums(const loop_graph *loops)
{
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        const loop_op *op = &loops->ops.items[i];
        for (uint32_t v = 0; v < op->var_count; v++)
            if (op->split[v] > 1 && loop_var_is_reduced(op, v)) return true;
    }
    return false;
}

// True when partial results of tiles are combined.
static bool combines_tiles(const loop_graph *loops)
{
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        const loop_op *op = &loops->ops.items[i];
        for (uint32_t k = 0; op->tile_depth && k + 1 < op->operand_count; k++)
            if (op->operand[k].buffer == op->operand[op->operand_count - 1].buffer) return true;
    }
    return false;
}

// --- The chain

// Runs the bundle of a stage. The first one that can be made (dead ops may stand in the way before
// deadcode) is what later ones are held against.
static spyre_status check_bundle(validation *v, uint32_t stage, const char *who, arena *scratch)
{
    uint8_t **now = ARENA_NEW(scratch, uint8_t *, v->loops->outputs.count + 1);
    TRY_ALLOC(now);
    if (v->results) {
        TRY(execute(v, stage, scratch, now));
        bool sums = divides_sums(v->loops) || combines_tiles(v->loops);
        return (sums ? close_values : same_bits)(v, who, now, v->results);
    }
    now = ARENA_NEW(v->memory, uint8_t *, v->loops->outputs.count + 1);
    TRY_ALLOC(now);
    spyre_status status = execute(v, stage, v->memory, now);
    if (!status) v->results = now;
    if (spyre_status_code(status) != SPYRE_UNSUPPORTED) return status;
    spyre_status_free(status);
    return NULL;
}

static spyre_status check_values(const validation *v, const char *who, arena *scratch)
{
    uint8_t **now = ARENA_NEW(scratch, uint8_t *, v->loops->outputs.count + 1);
    TRY_ALLOC(now);
    TRY(evaluate(v, scratch, now));
    return (combines_tiles(v->loops) ? close_values : same_bits)(v, who, now, v->values);
}

static spyre_status check_stage(validation *v, uint32_t stage)
{
    arena *scratch = arena_create();
    TRY_ALLOC(scratch);
    const char *who = arena_printf(scratch, "pass %s", v->rows[stage - 1].name);
    spyre_status status = who ? NULL : status_no_memory();
    if (!status) status = check_values(v, who, scratch);
    if (!status) status = check_bundle(v, stage, who, scratch);
    arena_destroy(scratch);
    return status;
}

static spyre_status run_chain(validation *v, const spyre_settings *settings)
{
    TRY(draw_inputs(v));
    v->values = ARENA_NEW(v->memory, uint8_t *, v->loops->outputs.count + 1);
    TRY_ALLOC(v->values);
    TRY(evaluate(v, v->memory, v->values));
    TRY(check_bundle(v, 0, "build", v->memory));
    for (uint32_t i = 0; i < v->count; i++) {
        bool changed = false;
        v->loops->stage = i + 1;
        if (front_skips(settings, v->rows[i].name)) continue;
        TRY(v->rows[i].run(v->loops, &changed));
        if (changed) TRY(check_stage(v, i + 1));
    }
    if (!v->results) return status_new(SPYRE_UNSUPPORTED, "no stage gave a bundle");
    return close_values(v, "layouts, places or emission (all passes agree)", v->results, v->values);
}

static spyre_status validate(validation *v, const spyre_graph *graph,
                             const spyre_settings *settings)
{
    uint32_t node;
    int64_t steps;
    TRY(front_build(graph, v->memory, &node, &v->loops));
    v->loops->settings = *settings;
    v->loops->cores = settings->sencores;
    TRY(loop_shrink(v->loops, TRANSLATION_MOST_STEPS, &steps));
    if (steps > TRANSLATION_MOST_STEPS)
        return status_new(SPYRE_UNSUPPORTED, "%" PRId64 " iterations after shrinking", steps);
    TRY(loop_verify(v->loops));
    return run_chain(v, settings);
}

spyre_status translation_validate(const spyre_graph *graph, const spyre_settings *settings,
                                  const front_pass_row *rows, uint32_t count)
{
    validation v = {.rows = rows, .count = count, .memory = arena_create()};
    v.lx = malloc((size_t)BUNDLE_MAX_CORES * BUNDLE_LX_BYTES);
    spyre_status status = v.memory && v.lx ? NULL : status_no_memory();
    if (!status) status = validate(&v, graph, settings);
    spyre_code code = spyre_status_code(status);
    if (code == SPYRE_UNSUPPORTED || code == SPYRE_DEVICE_FAULT) {
        log_error("translation not validated: %s", spyre_status_message(status));
        spyre_status_free(status);
        status = NULL;
    }
    arena_destroy(v.memory);
    free(v.lx);
    return status;
}
