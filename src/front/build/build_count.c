// SPDX-License-Identifier: Apache-2.0
//
// Values whose elements follow from where they stand are never computed: an arange, what is added
// to it or multiplied, and which of two such values is larger. The ops that read them take the
// numbers in the place of an operand (loop_count):
//     p = arange(64); m = p[:, None] >= p; y = where(m, x, 0)        three ops become one:
//     b1[64*c0 + 1*c1] = where3 b2{1 + 1*c0 + -1*c1 > 0} b0[64*c0 + 1*c1] b3[0]
// An op that does not compute element by element, a view that is no walk through the dims, and what
// the graph returns have them written down first, by an identity.
#include "front/build/build.h"

#include <string.h>

// Of the element at index i of the host tensor first + sum of i[d] * step[d]; of signs whether that
// is above 0.
typedef struct build_count {
    int64_t first, step[SPYRE_MAX_RANK];
    bool signs;
    spyre_view storage; // the host tensor
    uint32_t buffer;    // the constant in whose place they are
    uint32_t node;      // that makes them
} build_count;

static bool is_int(spyre_dtype dtype)
{
    return spyre_dtype_card_format(dtype) == SPYRE_FORMAT_IEEE_INT32;
}

// --- Numbers over the dims of an iteration space

typedef struct {
    int64_t first, step[LOOP_MAX_VARS + 2];
    bool signs;
} numbers;

// The dim of the host tensor in which a step of `stride` moves, or its rank.
static uint32_t dim_at(const spyre_view *storage, int64_t stride)
{
    uint32_t at = storage->rank;
    for (uint32_t d = 0; d < storage->rank; d++) {
        if (storage->size[d] < 2 || storage->stride[d] > stride) continue;
        if (at == storage->rank || storage->stride[d] > storage->stride[at]) at = d;
    }
    return at;
}

// The numbers of a view of the value, right-aligned in the space; false where the view is no walk
// through the dims of the host tensor.
static spyre_status over_space(const builder *b, const build_count *count, const space *dims,
                               uint32_t value, numbers *out, bool *out_walks)
{
    const spyre_view *storage = &count->storage;
    int64_t last[SPYRE_MAX_RANK] = {0};
    spyre_view view;
    TRY(build_view(b, value, &view));
    *out = (numbers){.first = count->first, .signs = count->signs};
    *out_walks = view.rank <= dims->rank;
    int64_t offset = view.offset;
    for (uint32_t d = dim_at(storage, offset); offset > 0 && d < storage->rank;
         d = dim_at(storage, offset)) {
        last[d] = offset / storage->stride[d];
        offset %= storage->stride[d];
        out->first += last[d] * count->step[d];
    }
    for (uint32_t i = 0; i < view.rank && *out_walks; i++) {
        if (view.size[i] == 1 || view.stride[i] == 0) continue;
        uint32_t d = dim_at(storage, view.stride[i]);
        if (d == storage->rank || view.stride[i] % storage->stride[d]) *out_walks = false;
        if (!*out_walks) break;
        int64_t steps = view.stride[i] / storage->stride[d];
        out->step[dims->rank - view.rank + i] = steps * count->step[d];
        last[d] += steps * (view.size[i] - 1);
    }
    for (uint32_t d = 0; d < storage->rank; d++)
        if (last[d] >= storage->size[d]) *out_walks = false;
    return NULL;
}

// True when all of them are small, those of the padding of a stick included.
static bool stays_small(const space *dims, const numbers *n)
{
    int64_t low = n->first, high = n->first;
    for (uint32_t d = 0; d < dims->rank; d++) {
        int64_t reach = 0;
        if (__builtin_mul_overflow(dims->size[d] + SPYRE_STICK_BYTES, n->step[d], &reach) ||
            reach <= -LOOP_MOST_COUNT || reach >= LOOP_MOST_COUNT)
            return false;
        *(reach < 0 ? &low : &high) += reach;
    }
    return low > -LOOP_MOST_COUNT && high < LOOP_MOST_COUNT;
}

// --- Results that are numbers

// Keeps the numbers, over the dims of the node's result, in the place of its elements.
static spyre_status keep(builder *b, const space *dims, const numbers *n)
{
    uint32_t value = build_node_of(b)->results[0], buffer;
    const graph_value *result = &b->graph->values.items[value];
    build_count *count = ARENA_NEW(b->loops->memory, build_count, 1);
    spyre_view view;
    TRY_ALLOC(count);
    TRY(build_view(b, value, &view));
    TRY(build_add_constant(b, 0, result->dtype, &buffer));
    view.offset = 0;
    *count = (build_count){n->first, {0}, n->signs, view, buffer, b->node};
    memcpy(count->step, n->step, dims->rank * sizeof count->step[0]);
    b->counts[value] = count;
    b->buffer_of[value] = buffer;
    return NULL;
}

spyre_status build_counts(builder *b)
{
    numbers n = {0};
    space dims = {0};
    TRY(build_space(b, build_node_of(b)->results[0], &dims));
    TRY(graph_arg_int(b->graph, b->node, 0, 0, &n.first));
    TRY(graph_arg_int(b->graph, b->node, 1, 0, &n.step[0]));
    if (!stays_small(&dims, &n)) return build_refuse(b, "numbers of 2^30 and more");
    return keep(b, &dims, &n);
}

// An operand as numbers; of a whole number that all launches have, one without steps.
static spyre_status load(const builder *b, const space *dims, uint32_t arg, numbers *out,
                         bool *out_known)
{
    uint32_t value;
    *out_known = false;
    TRY(build_tensor_arg(b, arg, &value));
    if (b->counts[value]) return over_space(b, b->counts[value], dims, value, out, out_known);
    if (b->buffer_of[value] == SPYRE_NO_ID) return NULL;
    const loop_buffer *buffer = &b->loops->buffers.items[b->buffer_of[value]];
    *out = (numbers){.first = (int64_t)buffer->value};
    *out_known = buffer->kind == LOOP_CONSTANT && !buffer->scalar && is_int(buffer->dtype);
    return NULL;
}

static bool is_still(const space *dims, const numbers *n)
{
    for (uint32_t d = 0; d < dims->rank; d++)
        if (n->step[d]) return false;
    return true;
}

// x + factor * y
static void add(const space *dims, numbers *x, const numbers *y, int64_t factor)
{
    x->first += factor * y->first;
    for (uint32_t d = 0; d < dims->rank; d++) x->step[d] += factor * y->step[d];
}

static void scale(const space *dims, numbers *x, int64_t factor)
{
    x->first *= factor;
    for (uint32_t d = 0; d < dims->rank; d++) x->step[d] *= factor;
}

// What is above 0 where x is greater than y (or equal).
static void compare(const space *dims, numbers *x, const numbers *y, bool or_equal)
{
    add(dims, x, y, -1);
    x->first += or_equal;
    x->signs = true;
}

// False where the function of numbers is none.
static bool apply(opfunc func, const space *dims, numbers *x, numbers *y)
{
    numbers swapped = *x;
    switch ((int)func) {
    case OPFUNC_ADD: add(dims, x, y, 1); return true;
    case OPFUNC_SUB: add(dims, x, y, -1); return true;
    case OPFUNC_MUL:
        if (is_still(dims, y)) scale(dims, x, y->first);
        else if (is_still(dims, x)) scale(dims, y, x->first), *x = *y;
        else return false;
        return true;
    case OPFUNC_GREATERTHAN:
    case OPFUNC_GREATEREQUAL: compare(dims, x, y, func == OPFUNC_GREATEREQUAL); return true;
    case OPFUNC_LESSERTHAN:
    case OPFUNC_LESSEREQUAL:
        *x = *y;
        compare(dims, x, &swapped, func == OPFUNC_LESSEREQUAL);
        return true;
    default: return false;
    }
}

// Whether a copy or cast of the numbers has them all: floats are rounded once, from integers.
static bool is_copy(const builder *b, opfunc func, uint32_t source)
{
    spyre_dtype from = b->graph->values.items[source].dtype;
    spyre_dtype to = b->graph->values.items[build_node_of(b)->results[0]].dtype;
    bool casts = func == OPFUNC_IDENTITY || func == OPFUNC_DL16TOFP32 || func == OPFUNC_FP32TODL16;
    bool known = to == SPYRE_DTYPE_F16 || to == SPYRE_DTYPE_BF16 || to == SPYRE_DTYPE_F32 ||
                 is_int(to);
    bool signs = b->counts[source] && b->counts[source]->signs;
    return casts && ((signs && known) || (is_int(from) && known) || (from == to && known));
}

static bool has_counts(const builder *b, uint32_t inputs)
{
    const graph_node *node = build_node_of(b);
    for (uint32_t i = 0; i < inputs && i < node->arg_count; i++)
        if (node->args[i].kind == SPYRE_ARG_VALUE && b->counts[node->args[i].of.value]) return true;
    return false;
}

spyre_status build_count_result(builder *b, opfunc func, bool *out_is_count)
{
    uint32_t inputs = opfunc_describe(func)->least_inputs, source;
    numbers x, y = {0};
    space dims = {0};
    bool known;
    *out_is_count = false;
    if (inputs > 2 || !has_counts(b, inputs)) return NULL;
    TRY(build_space(b, build_node_of(b)->results[0], &dims));
    TRY(build_tensor_arg(b, 0, &source));
    TRY(load(b, &dims, 0, &x, &known));
    if (inputs == 2 && known) TRY(load(b, &dims, 1, &y, &known));
    if (!known) return NULL;
    if (inputs == 1 ? !is_copy(b, func, source)
                    : x.signs || y.signs || !is_int(b->graph->values.items[source].dtype) ||
                          !apply(func, &dims, &x, &y))
        return NULL;
    if (!stays_small(&dims, &x)) return NULL;
    *out_is_count = true;
    return keep(b, &dims, &x);
}

// --- Operands

static bool takes_counts(const loop_op *op)
{
    opfunc_kind kind = opfunc_describe(op->op)->kind;
    return !op->table && (kind == OPFUNC_KIND_COPY || kind == OPFUNC_KIND_UNARY ||
                          kind == OPFUNC_KIND_BINARY || kind == OPFUNC_KIND_TERNARY ||
                          kind == OPFUNC_KIND_PARAMETRIC);
}

spyre_status build_take_count(const builder *b, const loop_op *op, const space *dims,
                              uint32_t value, loop_access *access, bool *out_taken)
{
    numbers n;
    *out_taken = false;
    if (!b->counts[value] || !takes_counts(op)) return NULL;
    TRY(over_space(b, b->counts[value], dims, value, &n, out_taken));
    *out_taken = *out_taken && stays_small(dims, &n);
    if (!*out_taken) return NULL;
    *access = (loop_access){.buffer = b->counts[value]->buffer};
    loop_count count = {.signs = n.signs, .first = (int32_t)n.first};
    for (uint32_t d = 0, v = 0; d < dims->rank; d++)
        if (dims->size[d] > 1) count.step[v++] = (int32_t)n.step[d];
    return loop_set_count(b->loops, access, count);
}

spyre_status build_settle_count(builder *b, uint32_t value)
{
    const build_count *count = b->counts[value];
    uint32_t written, node = b->node;
    if (!count) return NULL;
    const loop_buffer from = b->loops->buffers.items[count->buffer];
    space dims = {.rank = count->storage.rank};
    memcpy(dims.size, count->storage.size, sizeof count->storage.size);
    loop_op op;
    b->node = count->node;
    TRY(build_begin_op(b, OPFUNC_IDENTITY, &dims, &op));
    b->node = node;
    TRY(loop_add_local(b->loops, op.name, from.dtype, from.format, &count->storage, &written));
    loop_access *access = &op.operand[op.operand_count++];
    *access = (loop_access){.buffer = count->buffer};
    loop_count own = {.signs = count->signs, .first = (int32_t)count->first};
    for (uint32_t d = 0, v = 0; d < dims.rank; d++)
        if (dims.size[d] > 1) own.step[v++] = (int32_t)count->step[d];
    TRY(loop_set_count(b->loops, access, own));
    build_add_access(&op, &dims, written, 0, count->storage.stride);
    TRY(build_finish_op(b, &op));
    for (uint32_t v = 0; v < b->graph->values.count; v++) {
        if (b->counts[v] != count) continue;
        b->counts[v] = NULL;
        b->buffer_of[v] = written;
    }
    return NULL;
}
