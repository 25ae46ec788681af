// SPDX-License-Identifier: Apache-2.0
#include "front/layout/stick_modes.h"

void stick_set(loop_buffer *buffer, uint8_t stick)
{
    loop_set_layout(buffer, stick == STICK_SPARSE ? LOOP_NO_DIM : stick);
}

// Whether the rows of a table are neighbours in the host tensor: then they may share sticks, and
// each index is one of an element.
static bool has_neighbours(const loop_graph *loops, const loop_op *op)
{
    const loop_buffer *table = loop_operand_buffer(loops, op, op->table);
    return op->row_count > 1 && table->dim_count && table->dim[0].stride == op->row_stride;
}

// A buffer may be written in pieces, so all its writers are asked. A piece that does not move along
// the stick would write whole sticks with one element each.
static void restrict_sticks(loop_graph *loops, const loop_op *op, uint16_t *sticks)
{
    const loop_access *access = loop_result(op);
    loop_buffer *buffer = &loops->buffers.items[access->buffer];
    for (uint8_t d = 0; d <= STICK_SPARSE; d++) {
        if (!(*sticks & 1u << d)) continue;
        loop_location place;
        stick_set(buffer, d);
        bool fits = !loop_locate(loops, op, access, &place);
        if (fits && d != STICK_SPARSE) fits = place.stick_var != LOOP_NO_DIM;
        if (fits && place.stick_var == LOOP_ROWS) fits = has_neighbours(loops, op);
        if (!fits) *sticks &= (uint16_t) ~(1u << d);
    }
    buffer->has_layout = false;
}

// Of a buffer that several ops write in pieces, leaves the sticks that this writer has a way for.
static void keep_ways(const loop_graph *loops, const loop_op *op, uint16_t *sticks)
{
    stick_mode_list modes;
    uint16_t ways = 0;
    stick_modes_of(loops, op, *sticks, &modes);
    for (uint32_t m = 0; m < modes.count; m++) ways |= (uint16_t)(1u << modes.items[m].dim);
    if (*sticks & ways) *sticks &= ways;
}

// The stick dim of an input, as a dim of the buffer that replaces it; LOOP_NO_DIM: none there.
static uint8_t replaced_stick(const loop_buffer *input, const loop_buffer *buffer)
{
    if (input->stick == LOOP_NO_DIM) return STICK_SPARSE;
    for (uint8_t d = 0; d < buffer->dim_count; d++)
        if (buffer->dim[d].stride == input->dim[input->stick].stride) return d;
    return LOOP_NO_DIM;
}

// What replaces an input has the stick of that one, where every writer has a way to write it so:
// with another one it could not be written where the input is.
static void keep_replaced_stick(const loop_graph *loops, const loop_buffer *input, uint16_t *sticks)
{
    uint32_t id = loops->outputs.items[input->replaced_by - 1].buffer;
    const loop_buffer *buffer = &loops->buffers.items[id];
    uint8_t dim = buffer->kind == LOOP_LOCAL ? replaced_stick(input, buffer) : LOOP_NO_DIM;
    if (dim == LOOP_NO_DIM || !(sticks[id] & 1u << dim)) return;
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        const loop_op *op = &loops->ops.items[i];
        stick_mode_list modes;
        if (loop_result(op)->buffer != id) continue;
        stick_modes_of(loops, op, (uint16_t)(1u << dim), &modes);
        if (!modes.count) return;
    }
    sticks[id] = (uint16_t)(1u << dim);
}

spyre_status stick_writable(loop_graph *loops, const uint16_t **out_sticks)
{
    uint16_t *sticks = ARENA_NEW(loop_scratch(loops), uint16_t, loops->buffers.count);
    TRY_ALLOC(sticks);
    uint32_t *writers;
    TRY_NEW(loop_scratch(loops), writers, loops->buffers.count);
    for (uint32_t b = 0; b < loops->buffers.count; b++)
        sticks[b] = (uint16_t)((1u << loops->buffers.items[b].dim_count) - 1) | 1u << STICK_SPARSE;
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        const loop_op *op = &loops->ops.items[i];
        uint32_t b = loop_result(op)->buffer;
        restrict_sticks(loops, op, &sticks[b]);
        writers[b]++;
    }
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        const loop_op *op = &loops->ops.items[i];
        uint32_t b = loop_result(op)->buffer;
        if (op->table && writers[b] > 1) keep_ways(loops, op, &sticks[b]);
    }
    for (uint32_t b = 0; b < loops->buffers.count; b++) {
        const loop_buffer *buffer = &loops->buffers.items[b];
        if (buffer->replaced_by) keep_replaced_stick(loops, buffer, sticks);
    }
    *out_sticks = sticks;
    return NULL;
}

uint8_t stick_innermost(const loop_op *op, const loop_access *access, bool reduced)
{
    uint8_t best = LOOP_NO_DIM;
    for (uint8_t v = 0; v < op->var_count; v++) {
        if (!access->stride[v] || loop_var_is_reduced(op, v) != reduced) continue;
        if (best == LOOP_NO_DIM || access->stride[v] < access->stride[best]) best = v;
    }
    return best;
}

// The dim of the result's buffer that variable v walks, or LOOP_NO_DIM when the result cannot carry
// its stick there.
static uint8_t result_dim(const loop_graph *loops, const loop_op *op, uint16_t writable, uint8_t v)
{
    const loop_access *access = loop_result(op);
    const loop_buffer *buffer = &loops->buffers.items[access->buffer];
    uint8_t dim = v == LOOP_NO_DIM ? STICK_SPARSE : LOOP_NO_DIM;
    for (uint8_t d = 0; v != LOOP_NO_DIM && d < buffer->dim_count; d++)
        if (buffer->dim[d].stride == access->stride[v]) dim = d;
    return dim != LOOP_NO_DIM && writable & 1u << dim ? dim : LOOP_NO_DIM;
}

static bool moves_moments(const loop_graph *loops, const loop_op *op, uint8_t v)
{
    for (uint32_t k = 0; v != LOOP_NO_DIM && k + 1 < op->operand_count; k++)
        if (loop_operand_buffer(loops, op, k)->exx2 && op->operand[k].stride[v])
            return true;
    return false;
}

// Adds a mode whose result sticks on v, when there is such a dim. By ascending host stride.
static stick_mode *add(const loop_graph *loops, const loop_op *op, uint16_t writable, uint8_t v,
                       stick_mode_list *list)
{
    uint8_t dim = result_dim(loops, op, writable, v);
    if (dim == LOOP_NO_DIM || list->count == STICK_MOST_MODES) return NULL;
    uint32_t at = list->count++; // dims are numbered by ascending stride, STICK_SPARSE is last
    while (at > 0 && list->items[at - 1].dim > dim) {
        list->items[at] = list->items[at - 1];
        at--;
    }
    stick_mode *mode = &list->items[at];
    *mode = (stick_mode){.dim = dim};
    for (uint32_t k = 0; k < op->operand_count; k++)
        mode->stick[k] = v != LOOP_NO_DIM && op->operand[k].stride[v] ? v : LOOP_NO_DIM;
    return mode;
}

static uint8_t last_reduced(const loop_op *op)
{
    uint8_t last = LOOP_NO_DIM;
    for (uint8_t v = 0; v < op->var_count; v++)
        if (loop_var_is_reduced(op, v)) last = v;
    return last;
}

// The variable that is the rank; none where several are: padding one would change what the others
// count.
static uint8_t only_rank(const loop_op *op)
{
    uint8_t rank = LOOP_NO_DIM;
    for (uint8_t v = 0; v < op->var_count; v++) {
        if (!loop_var_is_rank(op, v)) continue;
        if (rank != LOOP_NO_DIM) return LOOP_NO_DIM;
        rank = v;
    }
    return rank;
}

static void reduction_modes(const loop_graph *loops, const loop_op *op, uint16_t writable,
                            stick_mode_list *out)
{
    bool ranks = opfunc_describe(op->op)->kind == OPFUNC_KIND_RANK;
    for (uint8_t i = 0; i <= op->var_count; i++) {
        uint8_t v = i < op->var_count ? i : LOOP_NO_DIM;
        bool reduced = v != LOOP_NO_DIM && loop_var_is_reduced(op, v);
        if (op->op == OPFUNC_EXX2 && !reduced) continue;
        if (reduced && ranks && v != last_reduced(op)) continue;
        bool is_rank = ranks && v != LOOP_NO_DIM && v == only_rank(op);
        if (v != LOOP_NO_DIM && !op->operand[0].stride[v] && !is_rank) continue;
        stick_mode *mode = add(loops, op, writable, reduced ? LOOP_NO_DIM : v, out);
        if (mode) mode->stick[0] = is_rank ? last_reduced(op) : v;
    }
}

// Bits of the variables over windows and over their taps, which walk dims of operand 0 together.
static uint32_t window_vars(const loop_graph *loops, const loop_op *op)
{
    const loop_buffer *of = loop_operand_buffer(loops, op, 0);
    uint32_t vars = 0;
    for (uint32_t v = 0; v < op->var_count; v++) {
        uint8_t tap = loop_tap_of(op, of, v);
        if (tap != LOOP_NO_DIM) vars |= 1u << tap | 1u << v;
    }
    return vars;
}

// Bits of the variables that operand k may stick on, in a role that only it has.
static uint32_t role_vars(const loop_op *op, uint32_t k, bool reduced)
{
    uint32_t vars = 0;
    for (uint32_t v = 0; v < op->var_count; v++) {
        bool batch = !reduced && op->operand[1 - k].stride[v];
        if (op->operand[k].stride[v] && loop_var_is_reduced(op, v) == reduced && !batch)
            vars |= 1u << v;
    }
    return vars;
}

static void matmul_modes(const loop_graph *loops, const loop_op *op, uint16_t writable,
                         stick_mode_list *out)
{
    uint32_t contracted = role_vars(op, 0, true) & ~window_vars(loops, op);
    uint32_t columns = role_vars(op, 1, false);
    for (uint32_t n = 0; n <= LOOP_MAX_VARS; n++) {
        if (columns ? !(columns >> n & 1u) : n < LOOP_MAX_VARS) continue;
        for (uint32_t k = 0; k <= LOOP_MAX_VARS; k++) {
            if (contracted ? !(contracted >> k & 1u) : k < LOOP_MAX_VARS) continue;
            uint8_t column = columns ? (uint8_t)n : LOOP_NO_DIM;
            stick_mode *mode = add(loops, op, writable, column, out);
            if (mode) mode->stick[0] = contracted ? (uint8_t)k : LOOP_NO_DIM;
        }
    }
}

// The result's stick is along any variable, or in a scatter along the rows.
static void element_modes(const loop_graph *loops, const loop_op *op, uint16_t writable,
                          stick_mode_list *out)
{
    bool scatters = op->table == 2;
    for (uint8_t i = 0; i <= op->var_count && !scatters; i++) {
        uint8_t v = i < op->var_count ? i : LOOP_NO_DIM;
        if (v == LOOP_NO_DIM && op->var_count) continue;
        stick_mode *mode = add(loops, op, writable, v, out);
        if (mode) mode->stick[1] = LOOP_ROWS;
    }
    if (!scatters || !(writable & 1u) || out->count == STICK_MOST_MODES) return;
    stick_mode *mode = &out->items[out->count++];
    *mode = (stick_mode){.dim = 0, .stick = {LOOP_NO_DIM, LOOP_NO_DIM, LOOP_ROWS}};
    for (uint8_t v = 0; v < op->var_count; v++) {
        const int64_t *stride = op->operand[1].stride, at = mode->stick[1];
        if (stride[v] && (at == LOOP_NO_DIM || stride[v] < stride[at])) mode->stick[1] = v;
    }
}

static void table_modes(const loop_graph *loops, const loop_op *op, uint16_t writable,
                         stick_mode_list *out)
{
    bool moves = false;
    for (uint8_t v = 0; v < op->var_count; v++) {
        if (!op->operand[op->table].stride[v]) continue;
        moves = true;
        add(loops, op, writable, v, out);
    }
    if (!moves) add(loops, op, writable, LOOP_NO_DIM, out);
    if (has_neighbours(loops, op)) element_modes(loops, op, writable, out);
}

// The loop of the result's stick is the innermost one of a step: among scanned loops it must be so.
static bool cuts_scan(const loop_op *op, uint8_t v)
{
    return loop_var_is_scanned(op, v) && op->scanned >> (v + 1) != 0;
}

// Leaves the ways that a user's pass wants.
static void keep_wanted(const loop_op *op, stick_mode_list *list)
{
    uint32_t kept = 0;
    uint8_t wanted = op->wanted_stick == LOOP_NO_DIM ? LOOP_NO_DIM : op->wanted_stick - 1;
    for (uint32_t m = 0; m < list->count; m++)
        if (list->items[m].stick[op->operand_count - 1] == wanted)
            list->items[kept++] = list->items[m];
    list->count = kept;
}

// Leaves the ways whose sticks are whole in the tiles that a user asks for, if there are any.
static void keep_whole_sticks(const loop_op *op, stick_mode_list *list)
{
    uint32_t kept = 0;
    stick_mode_list whole;
    for (uint32_t m = 0; m < list->count; m++) {
        bool cut = false;
        for (uint32_t k = 0; k < op->operand_count; k++) {
            uint8_t v = list->items[m].stick[k];
            cut |= v < LOOP_MAX_VARS && (op->cut_sticks >> v & 1u);
        }
        if (!cut) whole.items[kept++] = list->items[m];
    }
    whole.count = kept;
    if (kept && kept < list->count) *list = whole;
}

// Whether the innermost dim is so short that most of a stick along it stays empty, where another
// one fills more (colours of a pixel).
static bool has_short_inside(const loop_buffer *buffer)
{
    int64_t longest = 0;
    for (uint32_t d = 1; d < buffer->dim_count; d++)
        if (buffer->dim[d].extent > longest) longest = buffer->dim[d].extent;
    int64_t lanes = loop_lanes(buffer), least = longest < lanes ? longest : lanes;
    return buffer->dim_count && buffer->dim[0].extent * RESTICKIFY_EMPTY <= least;
}

// Whether the copy makes the tensor's innermost dim of several, of which the last is no whole
// sticks: one along it is not that of the tensor.
static bool joins_innermost(const loop_buffer *buffer)
{
    const spyre_view *host = &buffer->storage;
    return buffer->dim_count && host->rank && buffer->dim[0].extent % loop_lanes(buffer) &&
           buffer->dim[0].extent < host->size[host->rank - 1];
}

// A copy that the graph returns has its stick along the innermost dim, where it can: what was made
// contiguous is laid out as a tensor of its sizes is by default.
static void keep_default_stick(const loop_graph *loops, const loop_op *op, stick_mode_list *list)
{
    if (!restickify_is_copy_out(loops, op)) return;
    const loop_buffer *result = &loops->buffers.items[loop_result(op)->buffer];
    if (has_short_inside(result) || joins_innermost(result)) return;
    if (list->count && list->items[0].dim == 0) list->count = 1;
}

void stick_modes_of(const loop_graph *loops, const loop_op *op, uint16_t writable,
                    stick_mode_list *out)
{
    opfunc_kind kind = opfunc_describe(op->op)->kind;
    out->count = 0;
    if (op->table) {
        table_modes(loops, op, writable, out);
    } else if (kind == OPFUNC_KIND_REDUCTION || kind == OPFUNC_KIND_RANK) {
        reduction_modes(loops, op, writable, out);
    } else if (kind == OPFUNC_KIND_MATMUL) {
        matmul_modes(loops, op, writable, out);
    } else {
        uint32_t windows = window_vars(loops, op);
        for (uint8_t v = 0; v < op->var_count; v++)
            if (!moves_moments(loops, op, v) && !(windows >> v & 1u) && !cuts_scan(op, v))
                add(loops, op, writable, v, out);
        add(loops, op, writable, LOOP_NO_DIM, out);
    }
    if (op->cut_sticks) keep_whole_sticks(op, out);
    if (op->wanted_stick)
        keep_wanted(op, out);
    else
        keep_default_stick(loops, op, out);
}

spyre_status stick_restickify(restickifier *r, loop_op *op, uint32_t k, const stick_mode *mode)
{
    loop_location place;
    if (op->table == 1 && k == 1) return restickify_table(r, op, mode->stick[1]);
    if (op->table && k == 0) {
        if (!loop_locate(r->loops, op, &op->operand[0], &place)) return NULL;
        return restickify_operand(r, op, 0, stick_innermost(op, &op->operand[0], false));
    }
    TRY(restickify_operand(r, op, k, mode->stick[k]));
    if (!loop_is_matmul(op) || k != 1) return NULL;
    if (mode->stick[0] == LOOP_NO_DIM) return NULL;
    int64_t lanes = loop_lanes(loop_operand_buffer(r->loops, op, 0));
    return restickify_padded(r, op, 1, mode->stick[0], lanes);
}
