// SPDX-License-Identifier: Apache-2.0
#include "back/emit.h"

#include <math.h>

static spyre_status push(emitter *e, isa_instruction i)
{
    if (isa_describe(i.opcode)->queue != ISA_QUEUE_ANY) i.queue = isa_describe(i.opcode)->queue;
    return isa_append(e->program, &i);
}

spyre_status emit_loop(emitter *e, int64_t count)
{
    if (e->depth == ISA_MAX_LOOPS)
        return status_new(SPYRE_UNSUPPORTED, "more than %d nested loops", ISA_MAX_LOOPS);
    if (count > UINT32_MAX)
        return status_new(SPYRE_UNSUPPORTED, "a loop of %lld iterations", (long long)count);
    e->depth++;
    return push(e, (isa_instruction){.opcode = ISA_LOOP, .count = (uint32_t)count});
}

spyre_status emit_end_loop(emitter *e)
{
    e->depth--;
    return push(e, (isa_instruction){.opcode = ISA_END_LOOP});
}

spyre_status emit_kernel(emitter *e, const nest *n, uint32_t cores)
{
    isa_kernel kernel = {
        .active_cores = cores,
        .slot_count = n->slot_count,
        .parameters = n->parameters,
        .name = arena_strdup(e->memory, n->step->name ? n->step->name : ""),
        .location = arena_strdup(e->memory, n->step->location ? n->step->location : ""),
    };
    TRY_ALLOC(kernel.name);
    TRY_ALLOC(kernel.location);
    isa_instruction i = {.opcode = ISA_KERNEL, .count = e->program->kernels.count};
    TRY(VEC_PUSH(e->memory, &e->program->kernels, kernel));
    return push(e, i);
}

spyre_status emit_end_kernel(emitter *e)
{
    return push(e, (isa_instruction){.opcode = ISA_END_KERNEL});
}

spyre_status emit_signal(emitter *e, isa_queue queue, uint32_t token)
{
    return push(e,
                (isa_instruction){.opcode = ISA_SIGNAL, .queue = queue, .token = (uint16_t)token});
}

spyre_status emit_wait(emitter *e, isa_queue queue, uint32_t token)
{
    return push(e, (isa_instruction){.opcode = ISA_WAIT, .queue = queue, .token = (uint16_t)token});
}

spyre_status emit_handover(emitter *e, isa_queue from, isa_queue to, uint32_t token)
{
    TRY(emit_signal(e, from, token));
    return emit_wait(e, to, token);
}

// --- Tiles

typedef struct {
    uint32_t count;
    int64_t extent[PLACE_MOST_AXES];
    int64_t stride[PLACE_MOST_AXES][ISA_MAX_OPERANDS];
} dims;

static bool can_merge(const dims *d, uint32_t outer, uint32_t operands)
{
    for (uint32_t o = 0; o < operands; o++)
        if (d->stride[outer][o] != d->stride[outer + 1][o] * d->extent[outer + 1]) return false;
    return true;
}

// FOLD's last dim is the one it folds and stays by itself.
static void merge_dims(dims *d, uint32_t operands, bool keep_last)
{
    for (uint32_t n = d->count - (keep_last && d->count); n-- > 1;) {
        uint32_t outer = n - 1;
        if (!can_merge(d, outer, operands)) continue;
        d->extent[n] *= d->extent[outer];
        for (uint32_t later = outer; later + 1 < d->count; later++) {
            d->extent[later] = d->extent[later + 1];
            for (uint32_t o = 0; o < operands; o++) d->stride[later][o] = d->stride[later + 1][o];
        }
        d->count--;
    }
}

spyre_status emit_tile(emitter *e, const isa_instruction *prototype, const place_axes *axes,
                       const place_order *order, const place *const *places, uint32_t place_count)
{
    dims d = {.count = order->count};
    for (uint32_t n = 0; n < order->count; n++) {
        uint32_t a = order->axis[n];
        d.extent[n] = axes->axis[a].extent;
        for (uint32_t o = 0; o < place_count; o++) d.stride[n][o] = places[o]->stride[a];
    }
    merge_dims(&d, place_count, prototype->opcode == ISA_FOLD);
    if (d.count == 0) d.extent[d.count++] = 1;
    if (d.count > ISA_MAX_DIMS)
        return status_new(SPYRE_UNSUPPORTED, "a tile of %u dims, an instruction has %d", d.count,
                          ISA_MAX_DIMS);
    isa_instruction i = *prototype;
    i.operand_count = (uint8_t)place_count;
    i.dim_count = (uint8_t)d.count;
    for (uint32_t n = 0; n < d.count; n++) i.extent[n] = (uint32_t)d.extent[n];
    for (uint32_t o = 0; o < place_count; o++) {
        i.operand[o] = places[o]->operand;
        for (uint32_t n = 0; n < d.count; n++) i.operand[o].stride[n] = d.stride[n][o];
    }
    return push(e, i);
}

spyre_status emit_load(emitter *e, const place_axes *axes, const place *target, const place *source)
{
    place_order order = place_sorted(source, axes);
    isa_instruction i = {.opcode = ISA_LOAD};
    return emit_tile(e, &i, axes, &order, (const place *const[]){target, source}, 2);
}

spyre_status emit_store(emitter *e, const place_axes *axes, const place *target,
                        const place *source)
{
    place_order order = place_sorted(target, axes);
    isa_instruction i = {.opcode = ISA_STORE};
    return emit_tile(e, &i, axes, &order, (const place *const[]){target, source}, 2);
}

// Programs are compared byte by byte, so all NaN are one.
static float constant_of(float value)
{
    return isnan(value) ? NAN : value;
}

spyre_status emit_vector(emitter *e, opfunc op, const float *constants, const place_axes *axes,
                         const place *const *places, uint32_t place_count)
{
    place_order order = place_sorted(places[0], axes);
    isa_instruction i = {.opcode = ISA_VECTOR, .op = op};
    for (uint32_t c = 0; constants && c < OPFUNC_MAX_PARAMETERS; c++)
        i.constant[c] = constant_of(constants[c]);
    return emit_tile(e, &i, axes, &order, places, place_count);
}

spyre_status emit_identity(emitter *e, const place_axes *axes, const place *target,
                           const place *source)
{
    return emit_vector(e, OPFUNC_IDENTITY, NULL, axes, (const place *const[]){target, source}, 2);
}

spyre_status emit_count(emitter *e, const place_axes *axes, const place *target,
                        const place *source, bool signs)
{
    place_order order = place_sorted(target, axes);
    isa_instruction i = {.opcode = ISA_COUNT, .op = signs ? OPFUNC_CLIP : OPFUNC_IDENTITY};
    if (signs) i.constant[1] = 1;
    return emit_tile(e, &i, axes, &order, (const place *const[]){target, source}, 2);
}

spyre_status emit_fill(emitter *e, const place_axes *axes, const place *target, float value)
{
    place_order order = place_sorted(target, axes);
    isa_instruction i = {.opcode = ISA_FILL, .constant = {constant_of(value)}};
    return emit_tile(e, &i, axes, &order, &target, 1);
}
