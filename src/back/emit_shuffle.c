// SPDX-License-Identifier: Apache-2.0
//
// A shuffle: slices in LX go over the ring to the cores that own them under another division. Every
// dim is cut into so many units that slices of both divisions are whole units; a unit has one
// sender and the same extent on all cores. A core sends the units of its old slice in ascending
// order, each to everybody who shall own it, and receives those of its new one in ascending order:
// between two cores both orders are the same. Peers are parameters, places are the same on all
// cores, so one code serves all of them. What stays on its core takes the same way.
#include "back/select_emitter.h"

#include "base/integer.h"
#include "base/odometer.h"
#include "bundle/step_facts.h"

enum { MOST_MESSAGES = 4096 }; // of one core

// Who owns what before, or afterwards.
typedef struct {
    const bundle_division *of;
    uint8_t tensor;
    int64_t units[BUNDLE_MAX_DIMS]; // of a slice; 1 where the tensor does not move
} side;

typedef struct {
    emitter *e;
    const bundle_step *step;
    nest n;
    side before, after;
    int64_t units[BUNDLE_MAX_DIMS];  // of the whole dim
    int64_t extent[BUNDLE_MAX_DIMS]; // elements of a unit
    uint32_t replicas;               // cores that own a unit in the end
    uint32_t messages;               // written so far
} shuffle;

static bool moves(const shuffle *s, uint32_t d)
{
    return s->step->tensors[s->after.tensor].scale[d] > 0;
}

// --- Units

// Cuts the dims; counts the messages that a core sends and receives.
static spyre_status cut(shuffle *s, uint32_t *out_messages)
{
    int64_t sent = 1, received = 1;
    s->replicas = 1;
    for (uint32_t d = 0; d < s->step->dim_count && sent + received <= MOST_MESSAGES; d++) {
        if (moves(s, d)) {
            s->units[d] = common_multiple(s->before.of->slices[d], s->after.of->slices[d]);
            s->extent[d] = s->step->size[d] / s->units[d];
            sent *= s->before.units[d] = s->units[d] / s->before.of->slices[d];
            received *= s->after.units[d] = s->units[d] / s->after.of->slices[d];
        } else {
            s->before.units[d] = s->after.units[d] = 1;
            s->replicas *= (uint32_t)s->after.of->slices[d];
            sent *= s->after.of->slices[d];
        }
    }
    *out_messages = (uint32_t)(sent + received);
    return *out_messages <= MOST_MESSAGES
               ? NULL
               : status_new(SPYRE_UNSUPPORTED, "a core has more than %d messages", MOST_MESSAGES);
}

// The n-th core that has, under their division, a unit of the core's slice under mine.
static uint32_t peer(const shuffle *s, const side *mine, const side *theirs, uint32_t core,
                     const int64_t *local, uint32_t n)
{
    uint32_t dim[BUNDLE_MAX_DIMS], dims = 0;
    int64_t slice[BUNDLE_MAX_DIMS];
    for (uint32_t d = 0; d < s->step->dim_count; d++) {
        if (!moves(s, d) || theirs->of->slices[d] == 1) continue;
        int64_t unit = mine->of->core_slice[core][d] * mine->units[d] + local[d];
        slice[dims] = unit / theirs->units[d];
        dim[dims++] = d;
    }
    for (uint32_t other = 0; other < theirs->of->core_count; other++) {
        bool owns = true;
        for (uint32_t k = 0; k < dims && owns; k++)
            owns = slice[k] == theirs->of->core_slice[other][dim[k]];
        if (owns && n-- == 0) return other;
    }
    return 0; // verified: every unit has its owners
}

// --- Messages

// A unit of every core's slice to, or from, the n-th core that has it under the other division.
static spyre_status message(shuffle *s, const side *mine, const side *theirs,
                            const int64_t *local, uint32_t n)
{
    uint32_t slot = s->messages++;
    box b = {.buffer_loop = -1};
    for (uint32_t l = 0; l < ISA_MAX_LOOPS; l++) b.loop[l].dim = -1;
    for (uint32_t d = 0; d < s->step->dim_count; d++) {
        b.start[d] = moves(s, d) ? local[d] * s->extent[d] : 0;
        b.extent[d] = moves(s, d) ? s->extent[d] : 1;
    }
    for (uint32_t core = 0; core < mine->of->core_count; core++)
        s->n.parameters[core * s->n.slot_count + slot] = peer(s, mine, theirs, core, local, n);
    isa_instruction i = {.opcode = mine == &s->before ? ISA_SEND : ISA_RECEIVE,
                         .token = (uint16_t)slot};
    place_axes axes = place_find_axes(&s->n, &b, 1);
    place part = place_home(&s->n, &b, &axes, mine->tensor);
    place target = place_home(&s->n, &b, &axes, s->after.tensor);
    place_order order = place_sorted(&target, &axes); // for both ends
    return emit_tile(s->e, &i, &axes, &order, (const place *const[]){&part}, 1);
}

static spyre_status send_all(shuffle *s)
{
    int64_t local[BUNDLE_MAX_DIMS] = {0};
    do {
        for (uint32_t n = 0; n < s->replicas; n++)
            TRY(message(s, &s->before, &s->after, local, n));
    } while (odometer_next(s->step->dim_count, s->before.units, local, NULL, 0));
    return NULL;
}

static spyre_status receive_all(shuffle *s)
{
    int64_t local[BUNDLE_MAX_DIMS] = {0};
    do {
        TRY(message(s, &s->after, &s->before, local, 0));
    } while (odometer_next(s->step->dim_count, s->after.units, local, NULL, 0));
    return NULL;
}

// --- The step

static uint32_t first_cores(uint32_t count)
{
    return count == BUNDLE_MAX_CORES ? UINT32_MAX : (1u << count) - 1u;
}

spyre_status emit_shuffle(emitter *e, const bundle_step *step)
{
    shuffle s = {.e = e,
                 .step = step,
                 .before = {step->tensors[step->inputs[0]].owners, step->inputs[0], {0}},
                 .after = {step->cores, step->output, {0}}};
    uint32_t messages = 0;
    TRY(cut(&s, &messages));
    TRY(nest_build(e->memory, e->b, step, e->zone, e->depth, messages, &s.n));
    TRY(emit_kernel(e, &s.n, first_cores(s.before.of->core_count)));
    TRY(send_all(&s));
    if (s.before.of->core_count != s.after.of->core_count) {
        TRY(emit_end_kernel(e));
        TRY(emit_kernel(e, &s.n, first_cores(s.after.of->core_count)));
    }
    TRY(receive_all(&s));
    return emit_end_kernel(e);
}
