// SPDX-License-Identifier: Apache-2.0
//
// One walk over the ops in order keeps the tenants of LX: results, and the forms in which shuffles
// bring them to readers. Where the live ones need more than LX has, the buffer that saves the
// fewest microseconds a byte leaves. A second walk adds up what every op costs with the tenants
// that stay.
//
//     x 1 MB, saves 4 us; y 1 MB, saves 9 us; LX 1.5 MB     x leaves: its ops are priced in memory
//
// The place that a tenant would get is not looked for: that is LX planning's, once a plan is
// chosen.
#include "front/plan/division_plan.h"

#include <math.h>

// A buffer, or a form of it that goes over the ring, while it lives.
typedef struct {
    uint32_t buffer, use; // of the form: the first use; SPYRE_NO_ID: what the writer made
    uint32_t last;        // op
    double bytes;         // of a core
} tenant;

typedef struct {
    division_prices *p;
    bool *stays; // by buffer
    VEC(tenant) live;
} room;

static const division_choice *choice_of(const room *r, uint32_t op)
{
    return r->p->now[op];
}

static const lx_slices *view_of(const room *r, uint32_t u)
{
    const def_use_use *use = &r->p->f.uses[u];
    return &choice_of(r, use->op)->view[use->operand];
}

// --- Tenants

static void drop_dead(room *r, uint32_t op)
{
    uint32_t kept = 0;
    for (uint32_t n = 0; n < r->live.count; n++)
        if (r->live.items[n].last >= op) r->live.items[kept++] = r->live.items[n];
    r->live.count = kept;
}

// True when use u reads what the writer made: as it is, or to send it over the ring.
static bool reads_original(const room *r, uint32_t buffer, uint32_t u)
{
    const def_use *f = &r->p->f;
    uint32_t writer = f->writer[buffer];
    const loop_op *made_by = &r->p->loops->ops.items[writer];
    const division_choice *made = choice_of(r, writer);
    return lx_slices_serves(&made->view[made_by->operand_count - 1], view_of(r, u)) ||
           division_use_us(r->p, buffer, u, made) > 0;
}

static spyre_status add_result(room *r, uint32_t op, uint32_t buffer)
{
    const def_use *f = &r->p->f;
    tenant t = {buffer, SPYRE_NO_ID, op, choice_of(r, op)->result_bytes};
    if (f->writer[buffer] != op || !r->stays[buffer]) return NULL;
    for (uint32_t u = f->first_use[buffer]; u < f->first_use[buffer + 1]; u++)
        if (reads_original(r, buffer, u)) t.last = f->uses[u].op;
    return VEC_PUSH(r->p->memory, &r->live, t);
}

static double form_bytes(const room *r, uint32_t buffer, const lx_slices *view)
{
    uint32_t writer = r->p->f.writer[buffer];
    double bytes = choice_of(r, writer)->result_bytes;
    const lx_slices *written =
        &choice_of(r, writer)->view[r->p->loops->ops.items[writer].operand_count - 1];
    return bytes * lx_slices_count(written) / lx_slices_count(view);
}

// The form of its own in which use u finds the buffer, unless it is there already.
static spyre_status add_form(room *r, uint32_t buffer, uint32_t u)
{
    const def_use *f = &r->p->f;
    const lx_slices *view = view_of(r, u);
    uint32_t writer = f->writer[buffer];
    const loop_op *made_by = &r->p->loops->ops.items[writer];
    tenant t = {buffer, u, f->uses[u].op, form_bytes(r, buffer, view)};
    if (lx_slices_serves(&choice_of(r, writer)->view[made_by->operand_count - 1], view))
        return NULL;
    for (uint32_t n = 0; n < r->live.count; n++) {
        const tenant *other = &r->live.items[n];
        if (other->buffer != buffer || other->use == SPYRE_NO_ID) continue;
        if (lx_slices_serves(view_of(r, other->use), view)) return NULL;
    }
    for (uint32_t later = u + 1; later < f->first_use[buffer + 1]; later++)
        if (lx_slices_serves(view_of(r, later), view)) t.last = f->uses[later].op;
    return VEC_PUSH(r->p->memory, &r->live, t);
}

static spyre_status add_forms(room *r, uint32_t op)
{
    const loop_op *o = &r->p->loops->ops.items[op];
    for (uint32_t k = 0; k < o->operand_count; k++) {
        uint32_t buffer = o->operand[k].buffer;
        if (!r->stays[buffer] || !division_is_use(r->p, op, k)) continue;
        TRY(add_form(r, buffer, r->p->use_at[op * LOOP_MAX_OPERANDS + k]));
    }
    return NULL;
}

// --- Room

// Bytes of what lives during the op; its result may take the place of what dies in it.
static double live_bytes(const room *r, uint32_t op)
{
    const loop_op *o = &r->p->loops->ops.items[op];
    double bytes = 0, made = 0, freed = 0;
    for (uint32_t n = 0; n < r->live.count; n++) {
        const tenant *t = &r->live.items[n];
        bytes += t->bytes;
        if (t->buffer == loop_result(o)->buffer)
            made = t->bytes;
        else if (t->last == op)
            freed = fmax(freed, t->bytes);
    }
    return freed >= made && loop_is_element_wise(o) ? bytes - made : bytes;
}

static void evict(room *r, uint32_t buffer)
{
    uint32_t kept = 0;
    r->stays[buffer] = false;
    for (uint32_t n = 0; n < r->live.count; n++)
        if (r->live.items[n].buffer != buffer) r->live.items[kept++] = r->live.items[n];
    r->live.count = kept;
}

// us that LX saves for each byte of it that the buffer takes.
static double worth_of(const room *r, uint32_t buffer)
{
    double bytes = 0;
    for (uint32_t n = 0; n < r->live.count; n++)
        if (r->live.items[n].buffer == buffer) bytes += r->live.items[n].bytes;
    return division_saved_us(r->p, buffer, SPYRE_NO_ID, 0) / bytes;
}

static void make_room(room *r, uint32_t op)
{
    while (r->live.count && live_bytes(r, op) > r->p->lx_bytes) {
        uint32_t least = r->live.items[0].buffer;
        double least_worth = worth_of(r, least);
        for (uint32_t n = 1; n < r->live.count; n++) {
            double worth = worth_of(r, r->live.items[n].buffer);
            if (worth >= least_worth) continue;
            least = r->live.items[n].buffer;
            least_worth = worth;
        }
        evict(r, least);
    }
}

static spyre_status find_room(room *r)
{
    const loop_graph *loops = r->p->loops;
    for (uint32_t b = 0; b < loops->buffers.count; b++)
        r->stays[b] = r->p->may_stay[b] && !r->p->apart[b] &&
                      choice_of(r, r->p->f.writer[b])->result_bytes <= r->p->lx_bytes;
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        const loop_op *op = &loops->ops.items[i];
        drop_dead(r, i);
        TRY(add_forms(r, i));
        TRY(add_result(r, i, loop_result(op)->buffer));
        make_room(r, i);
    }
    return NULL;
}

// --- The price

static double shuffles_us(const room *r, uint32_t op)
{
    const loop_op *o = &r->p->loops->ops.items[op];
    double us = 0;
    for (uint32_t k = 0; k < o->operand_count; k++) {
        uint32_t buffer = o->operand[k].buffer;
        if (!r->stays[buffer] || !division_is_use(r->p, op, k)) continue;
        us += division_use_us(r->p, buffer, r->p->use_at[op * LOOP_MAX_OPERANDS + k],
                              choice_of(r, r->p->f.writer[buffer]));
    }
    return us;
}

spyre_status division_plan_price(division_prices *p, const uint32_t *part, uint32_t count,
                                 plan_price *out)
{
    const loop_graph *loops = p->loops;
    room r = {.p = p, .stays = ARENA_NEW(p->memory, bool, loops->buffers.count)};
    TRY_ALLOC(r.stays);
    TRY(find_room(&r));
    for (uint32_t n = 0; n < count; n++) out[n] = (plan_price){0};
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        const loop_op *op = &loops->ops.items[i];
        uint32_t resident = 0;
        for (uint32_t k = 0; k < op->operand_count; k++)
            if (r.stays[op->operand[k].buffer]) resident |= 1u << k;
        double ring = shuffles_us(&r, i);
        double once = division_cost(p, i, &choice_of(&r, i)->d, resident).us + ring;
        out[part[i]].us += once * loop_executions(loops, op);
        out[part[i]].messages |= ring > 0;
    }
    return NULL;
}
