// SPDX-License-Identifier: Apache-2.0
#include "front/plan/division_price.h"

#include <math.h>
#include <string.h>

#include "front/plan/lx_shuffles.h"
#include "isa/constants.h"

enum { MEMO_SIZE = 16, MOST_COMPARED = 8, MOVES_SIZE = 2048 };

struct division_memo {
    struct {
        uint64_t splits; // a byte a loop; 0: empty
        uint32_t resident;
        cost c;
    } entry[MEMO_SIZE];
};

static const loop_op *op_at(const division_prices *p, uint32_t index)
{
    return &p->loops->ops.items[index];
}

static uint32_t output_of(const division_prices *p, uint32_t index)
{
    return op_at(p, index)->operand_count - 1;
}

bool division_is_use(const division_prices *p, uint32_t index, uint32_t k)
{
    return k < output_of(p, index) || p->f.writer[op_at(p, index)->operand[k].buffer] != index;
}

// --- Prices of an op

static bool is_copier(const division_prices *p, uint32_t index)
{
    const loop_op *op = op_at(p, index);
    return p->copier[op->operand[0].buffer] == index ||
           p->copier[op->operand[output_of(p, index)].buffer] == index;
}

cost division_cost(const division_prices *p, uint32_t index, const division *d, uint32_t resident)
{
    const loop_op *op = op_at(p, index);
    if (!resident && is_copier(p, index)) return (cost){0};
    uint64_t splits = 1;
    for (uint32_t v = 0; v < op->var_count; v++) splits = splits << 8 | (uint64_t)d->split[v];
    uint64_t hash = (splits + resident) * 0x9E3779B97F4A7C15u;
    division_memo *memo = p->memo[p->kinds->alike[index]];
    uint32_t at = (uint32_t)(hash >> 60) % MEMO_SIZE;
    if (memo->entry[at].splits == splits && memo->entry[at].resident == resident)
        return memo->entry[at].c;
    memo->entry[at].splits = splits;
    memo->entry[at].resident = resident;
    return memo->entry[at].c = cost_of(op, p->basis[index], d, resident);
}

// Time in memory that writing or reading all of the buffer costs.
static double access_us(const division_prices *p, uint32_t buffer)
{
    uint32_t writer = p->f.writer[buffer];
    return p->basis[writer]->bytes[output_of(p, writer)] *
           loop_executions(p->loops, op_at(p, writer)) / MEMORY_BANDWIDTH;
}

double division_saved_us(const division_prices *p, uint32_t buffer, uint32_t index, uint32_t own)
{
    double times = 1 + def_use_use_count(&p->f, buffer) - own;
    if (p->copier[buffer] != SPYRE_NO_ID && p->copier[buffer] != index) times -= 2;
    return times * access_us(p, buffer);
}

// --- Over the ring

// The cost of one byte; remembered as long as there is memory for it.
static shuffle_cost cost_of_shuffle(division_prices *p, const lx_slices *from, const lx_slices *to)
{
    enum { SIZE = sizeof from->slices };
    uint8_t key[2 + 4 * SIZE] = {from->cores, to->cores};
    uint32_t id = p->shuffle_costs.count;
    memcpy(key + 2, from->slices, SIZE);
    memcpy(key + 2 + SIZE, from->core_stride, SIZE);
    memcpy(key + 2 + 2 * SIZE, to->slices, SIZE);
    memcpy(key + 2 + 3 * SIZE, to->core_stride, SIZE);
    if (map_bytes_get(&p->shuffle_ids, key, sizeof key, &id)) return p->shuffle_costs.items[id];
    shuffle_cost c = shuffle_cost_between(from, to, 1);
    spyre_status status = VEC_PUSH(p->memory, &p->shuffle_costs, c);
    if (!status) status = map_bytes_put(p->memory, &p->shuffle_ids, key, sizeof key, id);
    spyre_status_free(status);
    return c;
}

// A read of op `reader` and its writer's choice; views are of choices, which are unique.
struct division_move {
    const lx_slices *read;
    const division_choice *writer;
    uint32_t reader;
    bool shuffles;
    double us;
};

static struct division_move *move_of(const division_prices *p, const struct division_move *key)
{
    uint64_t hash = ((uintptr_t)key->read ^ (uintptr_t)key->writer << 16 ^ key->reader) *
                    0x9E3779B97F4A7C15u;
    return &p->moves[(hash >> 40) % MOVES_SIZE];
}

static bool may_shuffle(const loop_buffer *b, const lx_slices *written, const lx_slices *read)
{
    return !written->why && !read->why && lx_slices_are_whole(b, written, false) &&
           lx_slices_are_whole(b, read, false);
}

static double find_move_us(division_prices *p, uint32_t buffer, const division_choice *writer,
                           uint32_t reader, const lx_slices *read)
{
    uint32_t made_by = p->f.writer[buffer];
    const lx_slices *written = &writer->view[output_of(p, made_by)];
    if (lx_slices_serves(written, read)) return 0;
    if (!p->shuffles || !p->may_move[buffer] || op_at(p, reader)->tile_depth) return INFINITY;
    if (!may_shuffle(&p->loops->buffers.items[buffer], written, read)) return INFINITY;
    double bytes = p->basis[made_by]->bytes[output_of(p, made_by)];
    if (bytes / lx_slices_count(read) + writer->result_bytes > p->lx_bytes) return INFINITY;
    shuffle_cost c = cost_of_shuffle(p, written, read);
    return c.messages > SHUFFLE_MOST_MESSAGES ? INFINITY : c.us * bytes;
}

// Time until op `reader` finds in LX what the buffer's writer left there: 0 as it is, that of a
// shuffle, or INFINITY when it has to go through memory.
static double move_us(division_prices *p, uint32_t buffer, const division_choice *writer,
                      uint32_t reader, const lx_slices *read)
{
    struct division_move key = {read, writer, reader, p->shuffles, 0}, *known = move_of(p, &key);
    if (known->read == read && known->writer == writer && known->reader == reader &&
        known->shuffles == p->shuffles)
        return known->us;
    key.us = find_move_us(p, buffer, writer, reader, read);
    *known = key;
    return key.us;
}

static const lx_slices *view_at(const division_prices *p, uint32_t u)
{
    return &p->now[p->f.uses[u].op]->view[p->f.uses[u].operand];
}

double division_use_us(division_prices *p, uint32_t buffer, uint32_t u,
                       const division_choice *writer)
{
    uint32_t first = p->f.first_use[buffer];
    if (u - first > MOST_COMPARED) first = u - MOST_COMPARED;
    for (uint32_t earlier = first; earlier < u; earlier++)
        if (lx_slices_serves(view_at(p, earlier), view_at(p, u))) return 0;
    return move_us(p, buffer, writer, p->f.uses[u].op, view_at(p, u));
}

// --- One op next to its neighbours

static uint32_t count_apart(division_prices *p, uint32_t buffer, const division_choice *writer)
{
    uint32_t count = 0;
    for (uint32_t u = p->f.first_use[buffer]; u < p->f.first_use[buffer + 1]; u++) {
        const def_use_use *use = &p->f.uses[u];
        bool apart = isinf(move_us(p, buffer, writer, use->op, view_at(p, u))) != 0;
        p->apart_at[use->op * LOOP_MAX_OPERANDS + use->operand] = apart;
        count += apart;
    }
    return count;
}

void division_count_apart(division_prices *p)
{
    for (uint32_t b = 0; b < p->loops->buffers.count; b++)
        if (p->may_stay[b]) p->apart[b] = count_apart(p, b, p->now[p->f.writer[b]]);
}

typedef struct {
    uint32_t count, apart, apart_now;
    double us;
} own_reads;

// The accesses of the op to operand k's buffer, under a choice.
static own_reads find_own_reads(division_prices *p, uint32_t index, const division_choice *c,
                                uint32_t k)
{
    const loop_op *op = op_at(p, index);
    uint32_t buffer = op->operand[k].buffer;
    own_reads own = {0};
    for (uint32_t n = 0; n < op->operand_count; n++) {
        if (op->operand[n].buffer != buffer || !division_is_use(p, index, n)) continue;
        double us = move_us(p, buffer, p->now[p->f.writer[buffer]], index, &c->view[n]);
        own.count++;
        own.apart += isinf(us) != 0;
        own.apart_now += p->apart_at[index * LOOP_MAX_OPERANDS + n];
        if (n == k) own.us = us;
    }
    return own;
}

// True when a use beside u, of another op, gets the buffer in the same form.
static bool shares_shuffle(const division_prices *p, uint32_t buffer, uint32_t u,
                           const lx_slices *read)
{
    uint32_t first = p->f.first_use[buffer], end = p->f.first_use[buffer + 1];
    if (u - first > MOST_COMPARED) first = u - MOST_COMPARED;
    if (end - u > MOST_COMPARED) end = u + MOST_COMPARED;
    for (uint32_t other = first; other < end; other++)
        if (p->f.uses[other].op != p->f.uses[u].op && lx_slices_serves(view_at(p, other), read))
            return true;
    return false;
}

// Shuffles of the op's result for its readers, under a choice; INFINITY when one is apart.
static double result_us(division_prices *p, uint32_t buffer, const division_choice *c)
{
    double sum = 0;
    for (uint32_t u = p->f.first_use[buffer]; u < p->f.first_use[buffer + 1] && !isinf(sum); u++)
        sum += division_use_us(p, buffer, u, c);
    return sum;
}

cost division_price_of(division_prices *p, uint32_t index, const division_choice *c)
{
    const loop_op *op = op_at(p, index);
    uint32_t output = op->operand_count - 1, result = op->operand[output].buffer, resident = 0;
    double saved = 0;
    for (uint32_t k = 0; k <= output; k++) {
        uint32_t buffer = op->operand[k].buffer;
        if (!p->may_stay[buffer] || !division_is_use(p, index, k)) continue;
        own_reads own = find_own_reads(p, index, c, k);
        if (own.apart || p->apart[buffer] != own.apart_now) continue; // or another op is
        if (p->now[p->f.writer[buffer]]->result_bytes > p->lx_bytes) continue;
        resident |= 1u << k;
        saved += division_saved_us(p, buffer, index, own.count) / own.count;
        uint32_t u = p->use_at[index * LOOP_MAX_OPERANDS + k];
        if (own.us > 0 && !shares_shuffle(p, buffer, u, &c->view[k])) saved -= own.us;
    }
    bool makes = !division_is_use(p, index, output) && p->may_stay[result];
    double shuffles = makes && c->result_bytes <= p->lx_bytes ? result_us(p, result, c) : INFINITY;
    if (!isinf(shuffles)) {
        resident |= 1u << output;
        saved += division_saved_us(p, result, index, 1) - shuffles;
    }
    cost out = division_cost(p, index, &c->d, resident);
    out.us = out.us * loop_executions(p->loops, op) - saved;
    return out;
}

void division_take(division_prices *p, uint32_t index, const division_choice *c)
{
    const loop_op *op = op_at(p, index);
    uint32_t output = op->operand_count - 1, result = op->operand[output].buffer;
    p->now[index] = c;
    p->turn++;
    for (uint32_t k = 0; k <= output; k++) {
        uint32_t buffer = op->operand[k].buffer;
        p->changed[buffer] = p->turn;
        bool *apart = &p->apart_at[index * LOOP_MAX_OPERANDS + k];
        if (!division_is_use(p, index, k) || !p->may_stay[buffer]) continue;
        p->apart[buffer] -= *apart;
        const division_choice *writer = p->now[p->f.writer[buffer]];
        *apart = isinf(move_us(p, buffer, writer, index, &c->view[k])) != 0;
        p->apart[buffer] += *apart;
    }
    if (!division_is_use(p, index, output) && p->may_stay[result])
        p->apart[result] = count_apart(p, result, c);
}

// --- Beginning

static spyre_status allocate(division_prices *p)
{
    uint32_t ops = p->loops->ops.count, buffers = p->loops->buffers.count;
    TRY_NEW(p->memory, p->kinds, 1);
    TRY_NEW(p->memory, p->now, ops);
    TRY_NEW(p->memory, p->apart_at, ops * LOOP_MAX_OPERANDS);
    TRY_NEW(p->memory, p->use_at, ops * LOOP_MAX_OPERANDS);
    TRY_NEW(p->memory, p->apart, buffers);
    TRY_NEW(p->memory, p->may_stay, buffers);
    TRY_NEW(p->memory, p->may_move, buffers);
    TRY_NEW(p->memory, p->changed, buffers);
    TRY_NEW(p->memory, p->copier, buffers);
    TRY_NEW(p->memory, p->memo, ops);
    TRY_NEW(p->memory, p->moves, MOVES_SIZE);
    return NULL;
}

static void note_copies(const lx_copies *copies, division_prices *p)
{
    for (uint32_t b = 0; b < p->loops->buffers.count; b++) p->copier[b] = SPYRE_NO_ID;
    for (uint32_t n = 0; copies && n < copies->items.count; n++) {
        const lx_copy *copy = &copies->items.items[n];
        p->copier[copy->buffer] = copy->at;
        p->may_move[copy->buffer] = false; // all readers of a boundary copy are divided alike
    }
}

spyre_status division_prices_create(const loop_graph *loops, const lx_copies *copies, arena *memory,
                                    division_prices *out)
{
    *out = (division_prices){.loops = loops, .memory = memory};
    TRY(allocate(out));
    TRY(division_kinds_create(loops, memory, out->kinds));
    out->basis = out->kinds->basis;
    if (loops->settings.lx_planning)
        out->lx_bytes = GEOMETRY_LX_BYTES * (1 - loops->settings.dxp_lx_frac_avail);
    TRY(def_use_build(loops, &out->f));
    for (uint32_t b = 0; b < loops->buffers.count; b++)
        out->may_move[b] = lx_shuffles_may_move(loops, &out->f, b);
    note_copies(copies, out);
    TRY(def_use_join_writers(loops, &out->f));
    for (uint32_t u = 0; u < out->f.first_use[loops->buffers.count]; u++)
        out->use_at[out->f.uses[u].op * LOOP_MAX_OPERANDS + out->f.uses[u].operand] = u;
    for (uint32_t b = 0; b < loops->buffers.count; b++) {
        const loop_buffer *buffer = &loops->buffers.items[b];
        out->may_stay[b] =
            buffer->kind == LOOP_LOCAL && buffer->output < 0 && def_use_is_written_once(&out->f, b);
    }
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        if (out->kinds->alike[i] != i) continue;
        TRY_NEW(memory, out->memo[i], 1);
    }
    return NULL;
}
