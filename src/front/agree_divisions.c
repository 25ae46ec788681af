// SPDX-License-Identifier: Apache-2.0
//
// agree_divisions: ops that share a buffer agree on its division, so that every core finds in its
// LX what it needs next, where that saves more time than it costs. Planning op by op takes the
// largest loop of each, and a chain that changes its loops goes through memory at every change.
//
// Several plans are drawn up: the published divisions, and along each of the heaviest axes (axes.h)
// one with the others behind it and one with this axis alone, because a reduced loop keeps no slices
// beside it. In each plan every op in turn takes what is cheapest next to its neighbours: its
// share of the plan, the same with the cores left put to use, its published division, or, a matmul,
// the cheapest one for itself. Each part of the graph gets the cheapest plan. Time is that of
// front/cost.h, with buffers in LX where all ops agree and a core's slice fits.
#include "front/axes.h"
#include "front/front.h"
#include "front/lx_relayout.h"
#include "front/span_reduction.h"

#include "isa/constants.h"

enum { AXES_TRIED = 4, MOST_CANDIDATES = 4 };

typedef struct {
    loop_graph *loops;
    double lx_bytes; // of a core, for buffers
    bool shuffles;   // slices go over the ring to readers that divide otherwise (lx_relayout.c)
    flow f;
    axes a;
    cost_basis *basis;    // by op
    division *published;  // by op: what earlier passes chose
    division *alone;      // by op: the cheapest for a matmul by itself
    division *plan;       // by op: in work
    division *best;       // by op
    double *best_us;      // by part
    uint32_t *apart;      // by buffer: reads that do not agree with the writer, under the plan
} planner;

static const loop_op *op_at(const planner *p, uint32_t index)
{
    return &p->loops->ops.items[index];
}

// What a user or the span limit demands stays.
static bool is_settled(const loop_op *op)
{
    return op->divided_by == LOOP_DIVIDED_BY_HINT || op->divided_by == LOOP_DIVIDED_BY_SPAN;
}

// --- Buffers

// True when the op copies what a loop accumulated, which is worth more in LX than the copies.
static bool copies_sums(const planner *p, const loop_op *op)
{
    for (uint32_t k = 0; k + 1 < op->operand_count; k++)
        if (p->f.writer[op->operand[k].buffer] == FLOW_MANY_WRITERS) return true;
    return false;
}

static bool may_stay(const planner *p, uint32_t buffer)
{
    const loop_buffer *b = &p->loops->buffers.items[buffer];
    if (!flow_is_written_once(&p->f, buffer) || b->output >= 0) return false;
    return !b->walked || !copies_sums(p, op_at(p, p->f.writer[buffer]));
}

static division_view view_of(const planner *p, uint32_t index, const division *d, uint32_t k)
{
    return division_view_of(p->loops, op_at(p, index), &p->basis[index].sizes, d, k);
}

static division_view written_view(const planner *p, uint32_t writer, const division *d)
{
    return view_of(p, writer, d, op_at(p, writer)->operand_count - 1);
}

// True when a core's slice of what `writer` makes fits into LX.
static bool fits(const planner *p, uint32_t writer, const division *d)
{
    const loop_op *op = op_at(p, writer);
    uint32_t output = op->operand_count - 1;
    double bytes = p->basis[writer].bytes[output];
    for (uint32_t t = 0; t < op->tile_depth; t++)
        if (op->operand[output].tile_stride[t])
            bytes *= (double)p->loops->tiles.items[op->tiles[t]].count;
    for (uint32_t v = 0; v < op->var_count; v++)
        if (op->operand[output].stride[v])
            bytes *= division_share(&p->basis[writer].sizes, v, d->split[v]);
    return bytes <= p->lx_bytes;
}

// Time in memory that writing or reading all of the buffer costs.
static double access_us(const planner *p, uint32_t buffer)
{
    const loop_op *writer = op_at(p, p->f.writer[buffer]);
    double bytes = p->basis[p->f.writer[buffer]].bytes[writer->operand_count - 1];
    return bytes * loop_executions(p->loops, writer) / MEMORY_BANDWIDTH;
}

// What a shuffle of the buffer takes on the ring's links, a quarter of the way around on average.
static double shuffle_us(const planner *p, uint32_t buffer)
{
    return access_us(p, buffer) * MEMORY_BANDWIDTH / (8 * GEOMETRY_RING_WIDTH * CLOCK);
}

// True when op `reader` finds in LX what op `writer` left there, as it is or after a shuffle.
static bool serves(const planner *p, uint32_t writer, const division_view *written, uint32_t reader,
                   const division_view *read)
{
    if (division_views_agree(written, read)) return true;
    const loop_op *made_by = op_at(p, writer);
    return p->shuffles && written->apart && read->apart && !op_at(p, reader)->tile_depth &&
           lx_relayout_may_move(p->loops, &p->f, made_by->operand[made_by->operand_count - 1].buffer);
}

static uint32_t count_apart(const planner *p, uint32_t buffer, const division *d)
{
    uint32_t count = 0, writer = p->f.writer[buffer];
    division_view written = written_view(p, writer, d);
    for (uint32_t u = p->f.first_use[buffer]; u < p->f.first_use[buffer + 1]; u++) {
        const flow_use *use = &p->f.uses[u];
        division_view read = view_of(p, use->op, &p->plan[use->op], use->operand);
        count += !serves(p, writer, &written, use->op, &read);
    }
    return count;
}

static void count_all_apart(planner *p)
{
    for (uint32_t b = 0; b < p->loops->buffers.count; b++)
        if (may_stay(p, b)) p->apart[b] = count_apart(p, b, &p->plan[p->f.writer[b]]);
}

// --- One op next to its neighbours

// True when operand k is not what the op makes: it reads it, or adds to what others have written.
static bool is_use(const planner *p, uint32_t index, uint32_t k)
{
    const loop_op *op = op_at(p, index);
    return k + 1 < op->operand_count || p->f.writer[op->operand[k].buffer] != index;
}

// How reads of operand k's buffer by op `index` agree with the writer when the op is divided by d.
static void own_reads(const planner *p, uint32_t index, const division *d, uint32_t k,
                      uint32_t *out_reads, uint32_t *out_apart)
{
    const loop_op *op = op_at(p, index);
    uint32_t buffer = op->operand[k].buffer, writer = p->f.writer[buffer];
    division_view written = written_view(p, writer, &p->plan[writer]);
    *out_reads = *out_apart = 0;
    for (uint32_t other = 0; other < op->operand_count; other++) {
        if (!is_use(p, index, other) || op->operand[other].buffer != buffer) continue;
        division_view read = view_of(p, index, d, other);
        (*out_reads)++;
        *out_apart += !serves(p, writer, &written, index, &read);
    }
}

// Shuffles of what operand k reads, or of what it leaves for readers, under d.
static double shuffles_us(const planner *p, uint32_t index, const division *d, uint32_t k)
{
    uint32_t buffer = op_at(p, index)->operand[k].buffer, writer = p->f.writer[buffer];
    double us = 0;
    if (!p->shuffles) return 0;
    division_view own = view_of(p, index, d, k);
    if (is_use(p, index, k)) {
        division_view written = written_view(p, writer, &p->plan[writer]);
        return division_views_agree(&written, &own) ? 0 : shuffle_us(p, buffer);
    }
    for (uint32_t u = p->f.first_use[buffer]; u < p->f.first_use[buffer + 1]; u++) {
        const flow_use *use = &p->f.uses[u];
        division_view read = view_of(p, use->op, &p->plan[use->op], use->operand);
        if (!division_views_agree(&own, &read)) us += shuffle_us(p, buffer);
    }
    return us;
}

// The time of op `index` under d, less what other ops save by buffers that it lets stay in LX.
static cost price(const planner *p, uint32_t index, const division *d)
{
    const loop_op *op = op_at(p, index);
    uint32_t output = op->operand_count - 1, result = op->operand[output].buffer, resident = 0;
    double saved = 0;
    for (uint32_t k = 0; k <= output; k++) {
        uint32_t buffer = op->operand[k].buffer, reads, apart, apart_now;
        if (!is_use(p, index, k) || !may_stay(p, buffer)) continue;
        own_reads(p, index, d, k, &reads, &apart);
        if (apart) continue;
        own_reads(p, index, &p->plan[index], k, &reads, &apart_now);
        if (p->apart[buffer] != apart_now) continue; // somebody else stands apart
        if (!fits(p, p->f.writer[buffer], &p->plan[p->f.writer[buffer]])) continue;
        resident |= 1u << k;
        uint32_t others = 1 + flow_use_count(&p->f, buffer) - reads;
        saved += others * access_us(p, buffer) / reads - shuffles_us(p, index, d, k);
    }
    bool makes = !is_use(p, index, output) && may_stay(p, result);
    if (makes && fits(p, index, d) && count_apart(p, result, d) == 0) {
        resident |= 1u << output;
        saved += flow_use_count(&p->f, result) * access_us(p, result) -
                 shuffles_us(p, index, d, output);
    }
    cost c = cost_of(op, &p->basis[index], d, resident);
    c.us = c.us * loop_executions(p->loops, op) - saved;
    return c;
}

static void take(planner *p, uint32_t index, const division *d)
{
    const loop_op *op = op_at(p, index);
    uint32_t output = op->operand_count - 1, result = op->operand[output].buffer;
    for (uint32_t k = 0; k <= output; k++) {
        uint32_t buffer = op->operand[k].buffer;
        if (!is_use(p, index, k) || !may_stay(p, buffer)) continue;
        uint32_t writer = p->f.writer[buffer];
        division_view written = written_view(p, writer, &p->plan[writer]);
        division_view before = view_of(p, index, &p->plan[index], k);
        division_view after = view_of(p, index, d, k);
        p->apart[buffer] -= !serves(p, writer, &written, index, &before);
        p->apart[buffer] += !serves(p, writer, &written, index, &after);
    }
    p->plan[index] = *d;
    if (!is_use(p, index, output) && may_stay(p, result))
        p->apart[result] = count_apart(p, result, d);
}

// Times that differ by rounding only are equal; then the one with less compute.
static bool is_cheaper(const cost *a, const cost *b)
{
    double margin = 1e-9 * (a->memory_us + b->memory_us + a->compute_us + b->compute_us);
    if (a->us < b->us - margin) return true;
    return a->us <= b->us + margin && a->compute_us + a->ring_us < b->compute_us + b->ring_us;
}

static bool equal(const loop_op *op, const division *a, const division *b)
{
    for (uint32_t v = 0; v < op->var_count; v++) {
        if (a->split[v] != b->split[v]) return false;
        if (a->split[v] > 1 && a->core_stride[v] != b->core_stride[v]) return false;
    }
    return true;
}

static void settle_op(planner *p, uint32_t index, const division *share)
{
    const loop_op *op = op_at(p, index);
    division rest = division_distribute(p->loops, op, &p->basis[index].sizes, share);
    const division *candidates[MOST_CANDIDATES] = {share, &rest, &p->published[index],
                                                   &p->alone[index]};
    const division *best = NULL;
    cost best_cost = {0};
    if (is_settled(op)) return;
    for (uint32_t i = 0; i < MOST_CANDIDATES; i++) {
        bool known = false;
        for (uint32_t j = 0; j < i && !known; j++) known = equal(op, candidates[i], candidates[j]);
        if (known || !span_fits(p->loops, op, candidates[i])) continue;
        cost now = price(p, index, candidates[i]);
        if (best && !is_cheaper(&now, &best_cost)) continue;
        best = candidates[i];
        best_cost = now;
    }
    if (!best) best = &p->published[index];
    if (!equal(op, best, &p->plan[index])) take(p, index, best);
}

// --- Plans

// Two sweeps: ops may change their minds once their consumers have chosen.
static void settle(planner *p, const division *shares)
{
    uint32_t ops = p->loops->ops.count;
    count_all_apart(p);
    for (uint32_t i = 0; i < ops; i++) settle_op(p, i, &shares[i]);
    for (uint32_t i = ops; i-- > 0;) settle_op(p, i, &shares[i]);
}

static uint32_t resident_operands(const planner *p, uint32_t index)
{
    const loop_op *op = op_at(p, index);
    uint32_t resident = 0;
    for (uint32_t k = 0; k < op->operand_count; k++) {
        uint32_t buffer = op->operand[k].buffer;
        if (!may_stay(p, buffer) || p->apart[buffer]) continue;
        if (fits(p, p->f.writer[buffer], &p->plan[p->f.writer[buffer]])) resident |= 1u << k;
    }
    return resident;
}

// Keeps the plan for the parts where it is cheaper than the best so far.
static void compare_plan(planner *p, double *us, bool first)
{
    uint32_t ops = p->loops->ops.count;
    for (uint32_t n = 0; n < p->a.part_count; n++) us[n] = 0;
    for (uint32_t i = 0; i < ops; i++) {
        uint32_t resident = resident_operands(p, i), inputs = op_at(p, i)->operand_count - 1;
        cost c = cost_of(op_at(p, i), &p->basis[i], &p->plan[i], resident);
        for (uint32_t k = 0; k < inputs; k++)
            if (resident >> k & 1u) c.us += shuffles_us(p, i, &p->plan[i], k);
        us[p->a.part[i]] += c.us * loop_executions(p->loops, op_at(p, i));
    }
    for (uint32_t i = 0; i < ops; i++) {
        uint32_t n = p->a.part[i];
        if (first || us[n] < p->best_us[n] * (1 - 1e-9)) p->best[i] = p->plan[i];
    }
    for (uint32_t n = 0; n < p->a.part_count; n++)
        if (first || us[n] < p->best_us[n] * (1 - 1e-9)) p->best_us[n] = us[n];
}

// --- The matmul by itself

static void try_alone(const planner *p, uint32_t index, uint32_t v, division *trial, cost *best)
{
    const loop_op *op = op_at(p, index);
    if (v == op->var_count) {
        cost now = cost_of(op, &p->basis[index], trial, 0);
        if (!is_cheaper(&now, best)) return;
        *best = now;
        p->alone[index] = *trial;
        return;
    }
    int64_t left = p->loops->cores / division_cores(op, trial), units = 1;
    if (op->operand[op->operand_count - 1].stride[v]) units = p->basis[index].sizes.units[v];
    for (int32_t slices = 1; slices <= left && slices <= units; slices++) {
        if (!division_cuts(units, slices, p->basis[index].sizes.uneven[v])) continue;
        trial->split[v] = slices;
        try_alone(p, index, v + 1, trial, best);
    }
    trial->split[v] = 1;
}

static void find_alone(const planner *p, uint32_t index)
{
    const loop_op *op = op_at(p, index);
    p->alone[index] = p->published[index];
    if (opfunc_describe(op->op)->kind != OPFUNC_KIND_MATMUL || is_settled(op)) return;
    division trial = division_whole();
    cost best = cost_of(op, &p->basis[index], &p->published[index], 0);
    try_alone(p, index, 0, &trial, &best);
    division_number(p->loops, op, &p->alone[index]);
}

// --- The pass

static spyre_status create(loop_graph *loops, planner *p)
{
    uint32_t ops = loops->ops.count;
    arena *memory = loops->memory;
    *p = (planner){.loops = loops};
    if (loops->settings.lx_planning)
        p->lx_bytes = GEOMETRY_LX_BYTES * (1 - loops->settings.dxp_lx_frac_avail);
    p->shuffles = loops->settings.lx_planning && loops->settings.lx_planner_relayout &&
                  !loops->settings.uneven_splits;
    p->basis = ARENA_NEW(memory, cost_basis, ops);
    p->published = ARENA_NEW(memory, division, ops);
    p->alone = ARENA_NEW(memory, division, ops);
    p->plan = ARENA_NEW(memory, division, ops);
    p->best = ARENA_NEW(memory, division, ops);
    p->apart = ARENA_NEW(memory, uint32_t, loops->buffers.count);
    TRY_ALLOC(p->basis);
    TRY_ALLOC(p->published);
    TRY_ALLOC(p->alone);
    TRY_ALLOC(p->plan);
    TRY_ALLOC(p->best);
    TRY_ALLOC(p->apart);
    for (uint32_t i = 0; i < ops; i++) {
        p->basis[i] = cost_basis_of(loops, op_at(p, i));
        p->published[i] = division_get(op_at(p, i));
        find_alone(p, i);
    }
    TRY(flow_build(loops, &p->f));
    TRY(flow_join_writers(loops, &p->f));
    TRY(axes_build(loops, &p->f, p->basis, &p->a));
    p->best_us = ARENA_NEW(memory, double, p->a.part_count);
    TRY_ALLOC(p->best_us);
    return NULL;
}

static void write_back(planner *p, bool *out_changed)
{
    for (uint32_t i = 0; i < p->loops->ops.count; i++) {
        loop_op *op = &p->loops->ops.items[i];
        if (equal(op, &p->best[i], &p->published[i])) continue;
        division_set(op, &p->best[i], LOOP_DIVIDED_BY_AGREEMENT);
        *out_changed = true;
    }
}

spyre_status pass_agree_divisions(loop_graph *loops, bool *out_changed)
{
    planner p;
    uint32_t ops = loops->ops.count;
    *out_changed = false;
    if (division_is_published(loops) || loops->cores == 1 || ops == 0) return NULL;
    TRY(create(loops, &p));
    double *us = ARENA_NEW(loops->memory, double, p.a.part_count);
    division *shares = ARENA_NEW(loops->memory, division, ops);
    TRY_ALLOC(us);
    TRY_ALLOC(shares);
    for (uint32_t trial = 0; trial <= 2 * AXES_TRIED; trial++) {
        axes_plan plan = {(trial - 1) % AXES_TRIED, trial > AXES_TRIED, loops->cores};
        if (trial > 0) axes_divide(loops, &p.a, p.basis, &plan, shares);
        for (uint32_t i = 0; i < ops; i++) {
            if (trial == 0 || is_settled(op_at(&p, i))) shares[i] = p.published[i];
            p.plan[i] = shares[i];
        }
        settle(&p, shares);
        compare_plan(&p, us, trial == 0);
    }
    write_back(&p, out_changed);
    return NULL;
}
