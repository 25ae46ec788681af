// SPDX-License-Identifier: Apache-2.0
//
// batchmatmul on the PT: acc = 0; acc += A x B over the tiles of k, ascending; one rounding. MATMUL
// knows three dims, so the dims of the step get roles: k is the last reduced dim, n the columns
// (the stick dim of B), rows those along which A moves and B does not; everything else is looped
// over. When all of k fits, B stays in LX while the row tiles pass by, or, when all rows fit too,
// the products pass by; otherwise A and B are both loaded for every tile of k, and while the
// results of one tile are stored the next ones are computed.
//
// The tiles in LX have MATMUL's own layout whatever the tensors' is: A as [k sticks][rows][lanes],
// B as [n sticks][k][lanes], the accumulator as [n sticks][rows][lanes], sticks whole.
#include "back/select_emitter.h"

#include "back/matmul_tile.h"
#include "back/ring_reduction.h"
#include "back/tile_loops.h"
#include "back/tile_buffers.h"

typedef struct {
    emitter *e;
    matmul_roles r;
    tile_buffers tiles;
    lx_region accumulator, received, packed[BUNDLE_MAX_TENSORS];
    bool stationary; // B is loaded once for all row tiles
    bool passing;    // one tile of rows and k: the tiles of the outer loops pass by
    bool storing;    // results are stored while the next ones are computed
    tile_loops outer, rows, depth, results; // results: what has its tokens for a whole kernel
    ring_reduction chain;
    const nest_class *present;
} matmul;

// --- Places

typedef enum {
    AXIS_OTHER,
    AXIS_ROW,
    AXIS_N_STICK,
    AXIS_N_LANE,
    AXIS_K_STICK,
    AXIS_K_LANE
} axis_role;

static axis_role role_of(const matmul_roles *r, const place_axis *axis)
{
    if (axis->dim == PLACE_LANES) return AXIS_OTHER;
    if (axis->dim == r->k) return axis->step >= r->lanes ? AXIS_K_STICK : AXIS_K_LANE;
    if ((int32_t)axis->dim == r->n) return axis->step >= r->lanes ? AXIS_N_STICK : AXIS_N_LANE;
    return r->role[axis->dim] == MATMUL_ROW ? AXIS_ROW : AXIS_OTHER;
}

static void append_role(const matmul_roles *r, const place_axes *axes, axis_role role,
                        place_order *order)
{
    for (uint32_t a = 0; a < axes->count; a++)
        if (role_of(r, &axes->axis[a]) == role) order->axis[order->count++] = (uint8_t)a;
}

// Rows in the order in which A has them at home, so that they are one dim in LX tensors too.
static void append_rows(const matmul *m, const box *b, const place_axes *axes, place_order *order)
{
    place home = place_home(&m->r.nest, b, axes, m->r.a);
    place_order sorted = place_sorted(&home, axes);
    for (uint32_t i = 0; i < sorted.count; i++)
        if (role_of(&m->r, &axes->axis[sorted.axis[i]]) == AXIS_ROW)
            order->axis[order->count++] = sorted.axis[i];
}

static void set_lanes(const matmul_roles *r, const place_axes *axes, axis_role role, place *p)
{
    int64_t element = spyre_format_bytes(p->operand.format);
    for (uint32_t a = 0; a < axes->count; a++)
        if (role_of(r, &axes->axis[a]) == role) p->stride[a] = axes->axis[a].step * element;
}

static place a_place(const matmul *m, const box *b, const place_axes *axes)
{
    const matmul_roles *r = &m->r;
    if (!m->tiles.staged[r->a]) return place_home(&r->nest, b, axes, r->a);
    place_order order = {0};
    append_role(r, axes, AXIS_K_STICK, &order);
    append_rows(m, b, axes, &order);
    place p = place_dense(b, axes, &order, r->format, SPYRE_STICK_BYTES, &m->tiles.region[r->a]);
    set_lanes(r, axes, AXIS_K_LANE, &p);
    return p;
}

static place b_place(const matmul *m, const box *b, const place_axes *axes)
{
    const matmul_roles *r = &m->r;
    if (!m->tiles.staged[r->b]) return place_home(&r->nest, b, axes, r->b);
    place_order order = {0};
    append_role(r, axes, AXIS_N_STICK, &order);
    append_role(r, axes, AXIS_K_STICK, &order);
    append_role(r, axes, AXIS_K_LANE, &order);
    place p = place_dense(b, axes, &order, r->format, SPYRE_STICK_BYTES, &m->tiles.region[r->b]);
    set_lanes(r, axes, AXIS_N_LANE, &p);
    return p;
}

static place accumulator_place(const matmul *m, const box *b, const place_axes *axes,
                               const lx_region *region)
{
    const matmul_roles *r = &m->r;
    place_order order = {0};
    append_role(r, axes, AXIS_N_STICK, &order);
    append_rows(m, b, axes, &order);
    place p = place_dense(b, axes, &order, r->sum, 4 * r->lanes, region);
    set_lanes(r, axes, AXIS_N_LANE, &p);
    return p;
}

// --- MATMUL

// The axes of a role as one dim of the instruction: extent and stride in operand `p`. False when
// the operand does not walk them as one.
static bool join(const place_axes *axes, const place_order *order, const place *p, uint32_t *extent,
                 int64_t *stride)
{
    int64_t count = 1;
    *stride = 0;
    for (uint32_t i = order->count; i-- > 0;) {
        uint32_t a = order->axis[i];
        if (count == 1)
            *stride = p->stride[a];
        else if (p->stride[a] != *stride * count)
            return false;
        count *= axes->axis[a].extent;
    }
    *extent = (uint32_t)count;
    return true;
}

// Lanes lie side by side: stride = step * element.
static bool has_lanes(const matmul_roles *r, const place_axes *axes, axis_role role, const place *p)
{
    int64_t element = spyre_format_bytes(p->operand.format);
    for (uint32_t a = 0; a < axes->count; a++)
        if (role_of(r, &axes->axis[a]) == role && p->stride[a] != axes->axis[a].step * element)
            return false;
    return true;
}

static spyre_status not_in_place(const matmul *m, uint32_t operand)
{
    return status_new(SPYRE_UNSUPPORTED,
                      "%s is in LX in a layout that a matmul cannot use in place",
                      m->r.nest.operand[operand].tensor->name);
}

static spyre_status multiply(const matmul *m, const place_axes *axes, const box *b)
{
    const matmul_roles *r = &m->r;
    place a = a_place(m, b, axes), right = b_place(m, b, axes);
    place sum = accumulator_place(m, b, axes, &m->accumulator);
    place_order rows = {0}, columns = {0}, k_sticks = {0}, k_all = {0};
    append_rows(m, b, axes, &rows);
    append_role(r, axes, AXIS_N_STICK, &columns);
    append_role(r, axes, AXIS_K_STICK, &k_sticks);
    append_role(r, axes, AXIS_K_STICK, &k_all);
    append_role(r, axes, AXIS_K_LANE, &k_all);
    isa_instruction i = {
        .opcode = ISA_MATMUL, .queue = ISA_QUEUE_PT, .operand_count = 3, .dim_count = 3};
    i.operand[0] = sum.operand;
    i.operand[1] = a.operand;
    i.operand[2] = right.operand;
    uint32_t sticks;
    bool a_fits = join(axes, &rows, &a, &i.extent[0], &i.operand[1].stride[0]) &&
                  join(axes, &k_sticks, &a, &sticks, &i.operand[1].stride[2]) &&
                  has_lanes(r, axes, AXIS_K_LANE, &a);
    if (!a_fits) return not_in_place(m, r->a);
    bool b_fits = join(axes, &columns, &right, &i.extent[1], &i.operand[2].stride[1]) &&
                  join(axes, &k_all, &right, &i.extent[2], &i.operand[2].stride[2]) &&
                  has_lanes(r, axes, AXIS_N_LANE, &right);
    if (!b_fits) return not_in_place(m, r->b);
    if (!join(axes, &rows, &sum, &i.extent[0], &i.operand[0].stride[0]) ||
        !join(axes, &columns, &sum, &i.extent[1], &i.operand[0].stride[1]))
        return status_new(SPYRE_INTERNAL, "the accumulator of a matmul is not dense");
    return isa_append(m->e->program, &i);
}

// --- Loops

static spyre_status load(const matmul *m, const box *b, const place_axes *axes, uint32_t operand)
{
    if (!m->tiles.staged[operand]) return NULL;
    place home = place_home(&m->r.nest, b, axes, operand);
    place tile = operand == m->r.a ? a_place(m, b, axes) : b_place(m, b, axes);
    if (m->r.unpacks) tile = place_tile(&m->r.nest, b, axes, operand, &m->packed[operand]);
    return emit_load(m->e, axes, &tile, &home);
}

// From bytes of two elements, the first ones of all, then the others.
static spyre_status unpack(const matmul *m, const box *b, const place_axes *axes, uint32_t operand)
{
    place packed = place_tile(&m->r.nest, b, axes, operand, &m->packed[operand]);
    place tile = operand == m->r.a ? a_place(m, b, axes) : b_place(m, b, axes);
    uint32_t pair = place_pair_axis(&m->r.nest, axes, operand);
    int64_t neighbour = tile.stride[pair];
    tile.stride[pair] = 0;
    TRY(emit_vector(m->e, OPFUNC_INT4LOW, NULL, axes, (const place *const[]){&tile, &packed}, 2));
    tile.operand.offset += neighbour;
    return emit_vector(m->e, OPFUNC_INT4HIGH, NULL, axes, (const place *const[]){&tile, &packed},
                       2);
}

// Hands what was loaded, of A and B or of B alone, over to PT.
static spyre_status give(const matmul *m, const box *b, const place_axes *axes, bool of_a,
                         bool of_b, uint32_t token)
{
    emitter *e = m->e;
    if (!m->r.unpacks) return emit_handover(e, ISA_QUEUE_LOAD, ISA_QUEUE_PT, token);
    TRY(emit_handover(e, ISA_QUEUE_LOAD, ISA_QUEUE_SFP, token));
    if (of_a) TRY(unpack(m, b, axes, m->r.a));
    if (of_b) TRY(unpack(m, b, axes, m->r.b));
    return emit_handover(e, ISA_QUEUE_SFP, ISA_QUEUE_PT, TOKEN_UNPACKED);
}

static bool loads_tiles(const matmul *m)
{
    return m->tiles.staged[m->r.a] || (m->tiles.staged[m->r.b] && !m->stationary);
}

static spyre_status depth_body(void *context, const box *b)
{
    const matmul *m = context;
    emitter *e = m->e;
    place_axes axes = place_find_axes(&m->r.nest, b, 1);
    TRY(load(m, b, &axes, m->r.a));
    if (!m->stationary) TRY(load(m, b, &axes, m->r.b));
    if (loads_tiles(m)) TRY(give(m, b, &axes, true, !m->stationary, TOKEN_INPUT_FULL));
    TRY(multiply(m, &axes, b));
    if (!loads_tiles(m)) return NULL;
    return emit_handover(e, ISA_QUEUE_PT, ISA_QUEUE_LOAD, TOKEN_INPUT_FREE);
}

static box kept_box(const matmul *m, const box *b)
{
    box kept = *b;
    for (uint32_t d = 0; d < m->r.nest.dim_count; d++)
        if (m->r.nest.reduced[d]) {
            kept.extent[d] = 1;
            kept.open &= ~(1u << d);
        }
    return kept;
}

// Leaves the product of the core's own k in the accumulator. All lanes of it are filled, because
// MATMUL works on whole sticks.
static spyre_status accumulate(const matmul *m, const box *b)
{
    emitter *e = m->e;
    box kept = kept_box(m, b);
    if (m->r.n >= 0 && kept.extent[m->r.n] < m->r.lanes) kept.extent[m->r.n] = m->r.lanes;
    place_axes axes = place_find_axes(&m->r.nest, &kept, m->r.n < 0 ? (uint32_t)m->r.lanes : 1);
    place sum = accumulator_place(m, &kept, &axes, &m->accumulator);
    if (m->r.n < 0) sum.stride[axes.count - 1] = 4;
    TRY(emit_fill(e, &axes, &sum, 0));
    if (nest_class_empty(&m->r.nest, m->present)) return NULL;
    TRY(emit_handover(e, ISA_QUEUE_SFP, ISA_QUEUE_PT, TOKEN_ACCUMULATOR_READY));
    return tile_loops_run(&m->depth, b);
}

// Of the columns those that are stored.
static box stored_box(const matmul *m, const box *b)
{
    box stored = kept_box(m, b);
    const bundle_step *step = m->r.nest.step;
    for (uint32_t d = 0; d < m->r.nest.dim_count; d++) {
        const int64_t size = bundle_stored_size(step, d);
        if (size < step->size[d] && size < stored.extent[d]) stored.extent[d] = size;
    }
    return stored;
}

static spyre_status finish(void *context, const box *b)
{
    const matmul *m = context;
    emitter *e = m->e;
    uint32_t c = m->r.c;
    box kept = stored_box(m, b);
    place_axes axes = place_find_axes(&m->r.nest, &kept, 1);
    place sum = accumulator_place(m, &kept, &axes, &m->accumulator);
    place target = buffers_place(&m->tiles, &kept, &axes, c);
    if (m->storing) TRY(emit_wait(e, ISA_QUEUE_SFP, TOKEN_OUTPUT_FREE));
    TRY(emit_identity(e, &axes, &target, &sum));
    if (!m->tiles.staged[c]) return NULL;
    TRY(emit_handover(e, ISA_QUEUE_SFP, ISA_QUEUE_STORE, TOKEN_OUTPUT_FULL));
    place home = place_home(&m->r.nest, &kept, &axes, c);
    TRY(emit_store(e, &axes, &home, &target));
    if (m->storing) return emit_signal(e, ISA_QUEUE_STORE, TOKEN_OUTPUT_FREE);
    return emit_handover(e, ISA_QUEUE_STORE, ISA_QUEUE_SFP, TOKEN_OUTPUT_FREE);
}

static box with_class(const matmul *m, const box *b)
{
    box present = *b;
    for (uint32_t d = 0; d < m->r.nest.dim_count; d++)
        if (m->r.nest.reduced[d]) box_span(&m->r.nest, &present, d, m->present->size[d]);
    return present;
}

static spyre_status chained(matmul *m, const box *b)
{
    for (uint32_t c = 0; c < m->r.nest.class_count; c++) {
        m->present = &m->r.nest.classes[c];
        box present = with_class(m, b);
        TRY(emit_kernel(m->e, &m->r.nest, m->present->cores));
        TRY(accumulate(m, &present));
        TRY(emit_end_kernel(m->e));
    }
    box kept = kept_box(m, b);
    place_axes axes = place_find_axes(&m->r.nest, &kept, 1);
    place sum = accumulator_place(m, &kept, &axes, &m->accumulator);
    place received = accumulator_place(m, &kept, &axes, &m->received);
    ring_reduction_plan plan = {.e = m->e,
                                .n = &m->r.nest,
                                .chain = m->chain,
                                .combine = OPFUNC_ADD,
                                .everyone = !m->tiles.staged[m->r.c],
                                .finish = finish,
                                .context = m};
    return ring_reduction_emit(&plan, b, &axes, &sum, &received, 1);
}

static spyre_status rows_body(void *context, const box *b)
{
    matmul *m = context;
    if (m->chain.needed) return chained(m, b);
    TRY(accumulate(m, b));
    if (!nest_class_empty(&m->r.nest, m->present))
        TRY(emit_handover(m->e, ISA_QUEUE_PT, ISA_QUEUE_SFP, TOKEN_ACCUMULATOR_DONE));
    return finish(m, b);
}

static spyre_status outer_body(void *context, const box *b)
{
    matmul *m = context;
    emitter *e = m->e;
    bool keeps = m->stationary && m->tiles.staged[m->r.b];
    if (keeps) {
        place_axes axes = place_find_axes(&m->r.nest, b, 1);
        TRY(load(m, b, &axes, m->r.b));
        TRY(give(m, b, &axes, false, true, TOKEN_KEPT_FULL));
    }
    TRY(tile_loops_run(&m->rows, b));
    return keeps ? emit_handover(e, ISA_QUEUE_PT, ISA_QUEUE_LOAD, TOKEN_KEPT_FREE) : NULL;
}

// --- The step

static void make_loops(matmul *m, const matmul_tiles *t)
{
    nest *n = &m->r.nest;
    m->outer = (tile_loops){.e = m->e, .n = n, .body = outer_body, .context = m};
    m->results = (tile_loops){.e = m->e, .n = n};
    m->rows = (tile_loops){.e = m->e, .n = n, .body = rows_body, .context = m};
    m->depth = (tile_loops){.e = m->e, .n = n, .body = depth_body, .context = m};
    uint8_t dims[BUNDLE_MAX_DIMS];
    uint32_t count = nest_order(n, m->r.a, dims);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t d = dims[i];
        if (n->reduced[d]) continue;
        tile_loops_add(m->r.role[d] == MATMUL_ROW ? &m->rows : &m->outer, d, t->tile[d]);
    }
    for (uint32_t d = 0; d < n->dim_count; d++)
        if (n->reduced[d]) tile_loops_add(&m->depth, d, t->tile[d]);
    bool whole_depth = m->depth.levels.count == 0 && !m->chain.needed;
    m->passing = whole_depth && t->passing && m->rows.levels.count == 0;
    m->stationary = whole_depth && !m->passing;
    bool deep = m->depth.levels.count;
    if (!deep && m->chain.needed) return;
    tile_loops *innermost = deep ? &m->depth : m->passing ? &m->outer : &m->rows;
    tile_loops_add_buffer(innermost, loads_tiles(m), ISA_QUEUE_LOAD, ISA_QUEUE_PT,
                          TOKEN_INPUT_FREE);
    tile_loops_add_buffer(innermost, !deep && m->tiles.staged[m->r.c], ISA_QUEUE_SFP,
                          ISA_QUEUE_STORE, TOKEN_OUTPUT_FREE);
    if (!deep || m->chain.needed) return;
    // One buffer of results has one token.
    m->storing = m->tiles.staged[m->r.c];
    tile_loops_add_buffer(&m->results, m->storing, ISA_QUEUE_SFP, ISA_QUEUE_STORE,
                          TOKEN_OUTPUT_FREE);
    uint32_t around = m->e->depth + m->outer.levels.count + m->rows.levels.count;
    m->depth.stays_open = tile_loops_may_stay_open(&m->depth, around);
    if (m->depth.stays_open)
        tile_loops_add_buffer(&m->results, true, ISA_QUEUE_LOAD, ISA_QUEUE_PT, TOKEN_INPUT_FREE);
    m->outer.inner = &m->results;
}

static spyre_status allocate(matmul *m, const matmul_tiles *t)
{
    lx_share share = lx_share_whole(m->e->options);
    lx_region *region = m->tiles.region;
    if (m->tiles.staged[m->r.a]) TRY(lx_take(&share, t->a_bytes, true, &region[m->r.a]));
    if (m->tiles.staged[m->r.b]) TRY(lx_take(&share, t->b_bytes, !m->stationary, &region[m->r.b]));
    bool doubled = m->stationary || m->passing;
    if (m->r.unpacks) {
        TRY(lx_take(&share, t->a_bytes / 2, true, &m->packed[m->r.a]));
        TRY(lx_take(&share, t->b_bytes / 2, !m->stationary, &m->packed[m->r.b]));
    }
    if (m->tiles.staged[m->r.c]) TRY(lx_take(&share, t->c_bytes, doubled, &region[m->r.c]));
    TRY(lx_take(&share, t->accumulator_bytes, false, &m->accumulator));
    if (!m->chain.needed) return NULL;
    return lx_take(&share, t->accumulator_bytes, false, &m->received);
}

spyre_status emit_matmul(emitter *e, const bundle_step *step)
{
    matmul m = {.e = e};
    TRY(nest_build(e->memory, e->b, step, e->zone, e->depth, RING_SLOTS, &m.r.nest));
    TRY(matmul_find_roles(&m.r));
    TRY(ring_reduction_build(&m.r.nest, &m.chain));
    m.tiles = buffers_of(&m.r.nest);
    matmul_tiles t;
    TRY(matmul_choose_tiles(&m.r, lx_share_bytes(e->options), m.chain.needed, &t));
    make_loops(&m, &t);
    TRY(allocate(&m, &t));
    if (m.chain.needed) {
        box whole = box_of_class(&m.r.nest, &m.r.nest.classes[0]);
        return tile_loops_run(&m.outer, &whole);
    }
    m.outer.present = &m.present;
    return tile_loops_kernels(&m.outer);
}
