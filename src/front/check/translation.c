// SPDX-License-Identifier: Apache-2.0
#include "front/check/translation.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/odometer.h"
#include "bundle/interpret.h"
#include "front/check/evaluate.h"
#include "front/check/shrink_sizes.h"
#include "front/check/translation_run.h"
#include "tensor/format.h"
#include "tensor/numeric.h"

enum { PITCH = EVALUATE_ELEMENT_BYTES };

typedef struct {
    const front_pass_row *rows;
    uint32_t count;
    arena *memory;          // lives as long as the validation
    loop_graph *loops;      // after the passes so far
    translation_subject subject;
    uint8_t **values;       // by output: what the IR as built computes
    uint8_t **results;      // by output: what the first bundle gave, or null
    loop_graph first;       // what that bundle was emitted from
} validation;

// --- Inputs

static int64_t fewest_rows(const loop_graph *loops)
{
    int64_t rows = 8;
    for (uint32_t i = 0; i < loops->ops.count; i++)
        if (loops->ops.items[i].table && loops->ops.items[i].row_count < rows)
            rows = loops->ops.items[i].row_count;
    return rows;
}

// Numbers in [-2, 2), whole ones that index every table for integers, 0 and 1 for bools.
static double draw(uint64_t *state, spyre_dtype dtype, int64_t rows)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    uint32_t bits = (uint32_t)(*state >> 40);
    switch (format_class_of(spyre_dtype_host_format(dtype))) {
    case FORMAT_BOOL: return bits & 1;
    case FORMAT_INTEGER: return (double)(bits % (uint64_t)rows);
    case FORMAT_FLOAT:
    case FORMAT_NONE: break;
    }
    return (double)bits / (1 << 22) - 2;
}

static spyre_status draw_inputs(validation *v)
{
    uint64_t state = 1;
    int64_t rows = fewest_rows(v->loops);
    TRY_NEW(v->memory, v->subject.inputs, v->loops->graph->inputs.count + 1);
    TRY_NEW(v->memory, v->subject.given, v->loops->graph->inputs.count + 1);
    for (uint32_t b = 0; b < v->loops->buffers.count; b++) {
        const loop_buffer *buffer = &v->loops->buffers.items[b];
        if (buffer->kind != LOOP_INPUT) continue;
        int64_t count = evaluate_elements(buffer);
        uint8_t *values = arena_alloc(v->memory, (size_t)(count * PITCH));
        TRY_ALLOC(values);
        for (int64_t i = 0; i < count; i++)
            element_store(values + i * PITCH, buffer->format, draw(&state, buffer->dtype, rows));
        v->subject.inputs[buffer->index] = values;
        v->subject.given[buffer->index] = *buffer;
    }
    return NULL;
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
    odometer_place element = {view->stride, view->offset};
    do {
        double x = element_load(is + element.at * PITCH, buffer->format);
        double y = element_load(was + element.at * PITCH, buffer->format);
        out.count++;
        if (apart(x, y, scale) && out.differing++ == 0) {
            out.first = element.at;
            out.is = x;
            out.was = y;
        }
    } while (odometer_next(view->rank, view->size, index, &element, 1));
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

// Where values need only be close, a few comparisons may turn over where two sums lie close.
static spyre_status same_values(const validation *v, bool close, const char *who, uint8_t **is,
                                uint8_t **was)
{
    for (uint32_t i = 0; i < v->loops->outputs.count; i++) {
        difference d = compare(v->loops, i, is[i], was[i], close ? much : any_bit);
        if (d.differing > (close ? d.count / 64 : 0)) return blame(v, who, i, &d);
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

// True when an iteration reads what the one before it wrote, as where tiles are combined.
static bool combines_tiles(const loop_graph *loops)
{
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        const loop_op *op = &loops->ops.items[i];
        for (uint32_t at = i; op->tile_depth && at < loops->ops.count; at++) {
            const loop_op *later = &loops->ops.items[at];
            uint32_t result = loop_result(later)->buffer;
            for (uint32_t k = 0; k + 1 < op->operand_count; k++)
                if (op->operand[k].buffer == result) return true;
        }
    }
    return false;
}

// --- The chain

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

// What the bundle gives that the first `stage` passes and the LOWER ones after them lead to.
static spyre_status execute(const validation *v, uint32_t stage, arena *scratch, loop_graph *loops,
                            uint8_t **out)
{
    static uint32_t nowhere;
    TRY(loop_copy(v->loops, scratch, loops));
    loops->at_node = &nowhere;
    TRY(finish(v, stage, loops));
    return translation_execute(&v->subject, loops, scratch, out);
}

// Runs the bundle of a stage. The first one that can be made (dead ops may stand in the way before
// deadcode) is what later ones are held against.
static spyre_status check_bundle(validation *v, uint32_t stage, const char *who, arena *scratch)
{
    uint8_t **now = ARENA_NEW(scratch, uint8_t *, v->loops->outputs.count + 1);
    TRY_ALLOC(now);
    if (v->results) {
        loop_graph loops;
        TRY(execute(v, stage, scratch, &loops, now));
        bool sums = divides_sums(v->loops) || combines_tiles(v->loops);
        return same_values(v, sums, who, now, v->results);
    }
    TRY_NEW(v->memory, now, v->loops->outputs.count + 1);
    spyre_status status = execute(v, stage, v->memory, &v->first, now);
    if (!status) v->results = now;
    if (spyre_status_code(status) != SPYRE_UNSUPPORTED) return status;
    spyre_status_free(status);
    return NULL;
}

static spyre_status check_values(const validation *v, const char *who, arena *scratch)
{
    uint8_t **now = ARENA_NEW(scratch, uint8_t *, v->loops->outputs.count + 1);
    TRY_ALLOC(now);
    TRY(translation_evaluate(&v->subject, v->loops, scratch, now));
    return same_values(v, combines_tiles(v->loops), who, now, v->values);
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

// --- What all bundles share

// A place of its own for every local buffer, all of them in memory.
static void part_places(loop_graph *loops)
{
    loops->pool_bytes = 0;
    for (uint32_t b = 0; b < loops->buffers.count; b++) {
        loop_buffer *buffer = &loops->buffers.items[b];
        if (buffer->kind != LOOP_LOCAL) continue;
        buffer->in_lx = false;
        buffer->bytes = loop_device_bytes(buffer);
        if (buffer->output >= 0) continue;
        buffer->memory_offset = loops->pool_bytes;
        loops->pool_bytes += buffer->bytes;
    }
}

typedef spyre_status (*common_run)(const translation_subject *v, loop_graph *loops, arena *scratch,
                                   uint8_t **out);

// Whether a run of the IR behind the first bundle gives the values; one that fails does not.
static spyre_status agrees(const validation *v, common_run run, loop_graph *loops, bool *out)
{
    arena *scratch = arena_create();
    TRY_ALLOC(scratch);
    uint8_t **now = ARENA_NEW(scratch, uint8_t *, loops->outputs.count + 1);
    spyre_status status = now ? run(&v->subject, loops, scratch, now) : status_no_memory();
    if (!status) status = same_values(v, true, "", now, v->values);
    *out = !status;
    arena_destroy(scratch);
    if (spyre_status_code(status) == SPYRE_OUT_OF_MEMORY) return status;
    spyre_status_free(status);
    return NULL;
}

// Holds the first bundle against the values. Where they differ, places are at fault when buffers
// apart from each other make them equal, layouts when those alone give other values, else emission.
static spyre_status check_common(const validation *v)
{
    const char *who = "emission";
    loop_graph loops;
    bool same = false;
    spyre_status status = same_values(v, true, "", v->results, v->values);
    if (!status) return NULL;
    spyre_status_free(status);
    TRY(loop_copy(&v->first, v->memory, &loops));
    part_places(&loops);
    TRY(agrees(v, translation_execute, &loops, &same));
    if (same) {
        who = "places in memory";
    } else {
        TRY(agrees(v, translation_lay_out, &loops, &same));
        if (!same) who = "layouts";
    }
    who = arena_printf(v->memory, "%s (all passes agree)", who);
    return same_values(v, true, who ? who : "", v->results, v->values);
}

static spyre_status run_chain(validation *v, const spyre_settings *settings)
{
    TRY(draw_inputs(v));
    TRY_NEW(v->memory, v->values, v->loops->outputs.count + 1);
    TRY(translation_evaluate(&v->subject, v->loops, v->memory, v->values));
    TRY(check_bundle(v, 0, "build", v->memory));
    for (uint32_t i = 0; i < v->count; i++) {
        bool changed = false;
        v->loops->stage = i + 1;
        if (front_skips(settings, v->rows[i].name)) continue;
        TRY(v->rows[i].run(v->loops, &changed));
        if (changed) TRY(check_stage(v, i + 1));
    }
    if (!v->results) return status_new(SPYRE_UNSUPPORTED, "no stage gave a bundle");
    return check_common(v);
}

static spyre_status validate(validation *v, const spyre_graph *graph,
                             const spyre_settings *settings)
{
    uint32_t node;
    int64_t steps;
    TRY(front_build(graph, v->memory, &node, &v->loops));
    v->loops->settings = *settings;
    v->loops->cores = settings->sencores;
    TRY(loop_shrink_sizes(v->loops, TRANSLATION_MOST_STEPS, &steps));
    if (steps > TRANSLATION_MOST_STEPS)
        return status_new(SPYRE_UNSUPPORTED, "%" PRId64 " iterations after shrinking", steps);
    TRY(loop_verify(v->loops));
    return run_chain(v, settings);
}

spyre_status translation_validate(const spyre_graph *graph, const spyre_settings *settings,
                                  const front_pass_row *rows, uint32_t count, front_emitter emit)
{
    validation v = {.rows = rows, .count = count, .memory = arena_create(), .subject.emit = emit};
    v.subject.lx = malloc((size_t)BUNDLE_MAX_CORES * BUNDLE_LX_BYTES);
    spyre_status status = v.memory && v.subject.lx ? NULL : status_no_memory();
    if (!status) status = validate(&v, graph, settings);
    spyre_code code = spyre_status_code(status);
    if (code == SPYRE_UNSUPPORTED || code == SPYRE_DEVICE_FAULT) {
        log_error("translation not validated: %s", spyre_status_message(status));
        spyre_status_free(status);
        status = NULL;
    }
    arena_destroy(v.memory);
    free(v.subject.lx);
    return status;
}
