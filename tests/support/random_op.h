// SPDX-License-Identifier: Apache-2.0
//
// Random ops on the values of a random graph: each adds the node and computes its numbers in fp64.
#ifndef TESTS_RANDOM_OP_H
#define TESTS_RANDOM_OP_H

#include "support/random_graph.h"

// The dense view of a result: row-major, at times with its dims in another order.
static inline spyre_view random_result_view(random_graph *g, const spyre_view *sizes)
{
    spyre_view view = dense_view(sizes->rank, sizes->size);
    if (view.rank < 2 || random_chance(g, 85)) return view;
    uint32_t a = random_below(g, view.rank), b = random_below(g, view.rank);
    int64_t stride = 1;
    for (uint32_t i = view.rank; i-- > 0;) {
        uint32_t d = i == a ? b : i == b ? a : i;
        view.stride[d] = stride;
        stride *= view.size[d];
    }
    return view;
}

// A result without its numbers; the node is added by random_finish.
static inline random_value random_result(random_graph *g, spyre_dtype dtype,
                                         const spyre_view *sizes)
{
    random_value out = {.computed = true, .checked = true, .dtype = dtype};
    out.view = random_result_view(g, sizes);
    out.count = view_elements(&out.view);
    out.storage = random_own(g, (size_t)out.count * sizeof(double));
    return out;
}

static inline const random_value *random_finish(random_graph *g, const char *op, spyre_arg *args,
                                                uint32_t arg_count, random_value out)
{
    out.id = front_run_node(&g->run, op, args, arg_count, out.dtype, out.view);
    out.bound = 0;
    for (int64_t i = 0; i < out.count; i++) out.bound = fmax(out.bound, fabs(out.storage[i]));
    out.error += random_rounding(out.dtype) * out.bound;
    if (!(out.error < 0.2 * fmax(out.bound, 0.5)) || out.bound > 1e4) out.checked = false;
    return random_add(g, out);
}

static inline spyre_arg random_arg(const random_value *value)
{
    return (spyre_arg){.kind = SPYRE_ARG_VALUE, .of.value = value->id};
}

static inline const random_value *random_unary(random_graph *g, const random_value *x)
{
    static const char *const ops[] = {"spyre.neg", "spyre.abs", "spyre.relufwd", "spyre.tanh",
                                      "spyre.identity"};
    uint32_t op = x->bound > 50 ? 3 : random_below(g, 5);
    random_value out = random_result(g, x->dtype, &x->view);
    out.checked = x->checked;
    out.error = x->error;
    for (int64_t i = 0; i < out.count; i++) {
        double v = x->storage[random_offset(&x->view, i)];
        double values[] = {-v, fabs(v), fmax(v, 0), tanh(v), v};
        out.storage[random_offset(&out.view, i)] = values[op];
    }
    spyre_arg args[] = {random_arg(x)};
    return random_finish(g, ops[op], args, 1, out);
}

static inline const random_value *random_cast(random_graph *g, const random_value *x)
{
    bool half = x->dtype == SPYRE_DTYPE_F16;
    random_value out = random_result(g, half ? SPYRE_DTYPE_F32 : SPYRE_DTYPE_F16, &x->view);
    out.checked = x->checked;
    out.error = x->error;
    for (int64_t i = 0; i < out.count; i++)
        out.storage[random_offset(&out.view, i)] = x->storage[random_offset(&x->view, i)];
    spyre_arg args[] = {random_arg(x)};
    return random_finish(g, "spyre.cast", args, 1, out);
}

// A second operand that broadcasts to the sizes of x.
static inline random_value random_partner(random_graph *g, const random_value *x)
{
    for (uint32_t i = 0; i < 6 && !random_chance(g, 30); i++) {
        const random_value *y = &g->value[random_below(g, g->count)];
        bool fits = y->dtype == x->dtype && y->view.rank <= x->view.rank;
        for (uint32_t d = 0; fits && d < y->view.rank; d++) {
            int64_t size = y->view.size[d];
            fits = size == 1 || size == x->view.size[d + x->view.rank - y->view.rank];
        }
        if (fits) return *y;
    }
    spyre_view view = {.rank = 0};
    if (random_chance(g, 15)) {
        double *storage = random_own(g, sizeof *storage);
        *storage = 1.5;
        spyre_arg args[] = {{.kind = SPYRE_ARG_FLOAT, .of.real = 1.5},
                            {.kind = SPYRE_ARG_DTYPE, .of.dtype = x->dtype}};
        uint32_t id = front_run_node(&g->run, "spyre.constant", args, 2, x->dtype, view);
        return *random_add(g, (random_value){id, false, true, x->dtype, view, storage, 1, 1.5, 0});
    }
    view.rank = x->view.rank;
    for (uint32_t d = 0; d < view.rank; d++)
        view.size[d] = random_chance(g, 70) ? x->view.size[d] : 1;
    return *random_input(g, x->dtype, dense_view(view.rank, view.size));
}

static inline const random_value *random_binary(random_graph *g, const random_value *a)
{
    static const char *const ops[] = {"spyre.add", "spyre.sub", "spyre.mul", "spyre.maximum"};
    const random_value x = *a, y = random_partner(g, &x);
    uint32_t op = random_below(g, 4);
    random_value out = random_result(g, x.dtype, &x.view);
    spyre_view other = random_broadcast(&y.view, &x.view);
    out.checked = x.checked && y.checked;
    out.error = x.error + y.error;
    if (op == 2) out.error = x.error * y.bound + y.error * x.bound;
    for (int64_t i = 0; i < out.count; i++) {
        double p = x.storage[random_offset(&x.view, i)], q = y.storage[random_offset(&other, i)];
        double values[] = {p + q, p - q, p * q, fmax(p, q)};
        out.storage[random_offset(&out.view, i)] = values[op];
    }
    spyre_arg args[] = {random_arg(&x), random_arg(&y)};
    return random_finish(g, ops[op], args, 2, out);
}

// where(x < y, x, y), which is the minimum.
static inline const random_value *random_select(random_graph *g, const random_value *a)
{
    const random_value x = *a, y = random_partner(g, &x);
    random_value less = random_result(g, SPYRE_DTYPE_BOOL, &x.view);
    random_value out = random_result(g, x.dtype, &x.view);
    spyre_view other = random_broadcast(&y.view, &x.view);
    less.checked = false;
    out.checked = x.checked && y.checked;
    out.error = x.error + y.error;
    for (int64_t i = 0; i < out.count; i++) {
        double p = x.storage[random_offset(&x.view, i)], q = y.storage[random_offset(&other, i)];
        out.storage[random_offset(&out.view, i)] = fmin(p, q);
    }
    spyre_arg compare[] = {random_arg(&x), random_arg(&y)};
    less.computed = false;
    less.id = front_run_node(&g->run, "spyre.lesserthan", compare, 2, less.dtype, less.view);
    spyre_arg args[] = {random_arg(&less), random_arg(&x), random_arg(&y)};
    return random_finish(g, "spyre.where3", args, 3, out);
}

// Of the mean: beyond the span of a core, partial sums are added up, and each result is rounded.
static inline double random_partial_sums(const random_graph *g, const random_value *x)
{
    double sums = (double)x->count * SPYRE_STICK_BYTES / (double)g->run.settings.max_span_bytes;
    return sums < 1 ? 0 : sums * random_rounding(x->dtype) / 2 * x->bound;
}

// The result may be float32 of 16 bits.
static inline const random_value *random_reduction_to(random_graph *g, const random_value *x,
                                                      spyre_dtype dtype)
{
    static const char *const ops[] = {"spyre.sum", "spyre.mean", "spyre.max", "spyre.min"};
    if (x->view.rank == 0) return x;
    uint32_t op = random_below(g, 4), chosen = 0;
    bool keep = random_chance(g, 50);
    spyre_view kept = {.rank = 0}, walk = {.rank = 0};
    spyre_arg dims[SPYRE_MAX_RANK];
    int64_t folded = 1;
    for (uint32_t d = 0; d < x->view.rank; d++) {
        bool reduced = random_chance(g, 40) || (d + 1 == x->view.rank && chosen == 0);
        if (reduced) {
            dims[chosen++] = (spyre_arg){.kind = SPYRE_ARG_INT, .of.integer = d};
            folded *= x->view.size[d];
        }
        if (!reduced || keep) kept.size[kept.rank++] = reduced ? 1 : x->view.size[d];
    }
    random_value out = random_result(g, dtype, &kept);
    for (uint32_t d = 0, k = 0; d < x->view.rank; d++) {
        bool reduced = false;
        for (uint32_t i = 0; i < chosen; i++) reduced |= dims[i].of.integer == d;
        walk.stride[d] = reduced ? 0 : out.view.stride[k];
        k += !reduced || keep;
    }
    walk.rank = x->view.rank;
    memcpy(walk.size, x->view.size, sizeof walk.size);
    double identities[] = {0, 0, -INFINITY, INFINITY};
    for (int64_t i = 0; i < out.count; i++) out.storage[i] = identities[op];
    for (int64_t i = 0; i < view_elements(&walk); i++) {
        double v = x->storage[random_offset(&x->view, i)],
               *to = &out.storage[random_offset(&walk, i)];
        *to = op == 2   ? fmax(*to, v)
              : op == 3 ? fmin(*to, v)
                        : *to + v / (op == 1 ? (double)folded : 1);
    }
    out.checked = x->checked;
    out.error = x->error * (op == 0 ? (double)folded : 1) + 0.002 * (op < 2 ? x->bound : 0);
    if (op < 2) out.error += random_partial_sums(g, x) * (op == 0 ? (double)folded : 1);
    spyre_arg args[] = {random_arg(x),
                        {.kind = SPYRE_ARG_LIST, .of.list = {dims, chosen}},
                        {.kind = SPYRE_ARG_BOOL, .of.boolean = keep}};
    return random_finish(g, ops[op], args, 3, out);
}

static inline const random_value *random_reduction(random_graph *g, const random_value *x)
{
    return random_reduction_to(g, x, x->dtype);
}

static inline int random_descending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

// The k largest; nothing repeats along the dims of x.
static inline const random_value *random_topk(random_graph *g, const random_value *a)
{
    const random_value x = *a;
    if (x.view.rank == 0) return a;
    for (uint32_t d = 0; d < x.view.rank; d++)
        if (x.view.stride[d] == 0 && x.view.size[d] > 1) return a;
    uint32_t dim = random_below(g, x.view.rank);
    int64_t n = x.view.size[dim], k = 1 + random_below(g, (uint32_t)(n < 9 ? n : 9));
    if (n == 1) return a;
    spyre_view sizes = x.view;
    sizes.size[dim] = k;
    random_value out = random_result(g, x.dtype, &sizes);
    spyre_view rows = x.view, to = out.view;
    rows.size[dim] = to.size[dim] = 1;
    double *row = random_own(g, (size_t)n * sizeof *row);
    for (int64_t i = 0; i < view_elements(&rows); i++) {
        const double *from = &x.storage[random_offset(&rows, i)];
        for (int64_t j = 0; j < n; j++) row[j] = from[j * x.view.stride[dim]];
        qsort(row, (size_t)n, sizeof *row, random_descending);
        double *first = &out.storage[random_offset(&to, i)];
        for (int64_t j = 0; j < k; j++) first[j * out.view.stride[dim]] = row[j];
    }
    out.checked = x.checked;
    out.error = x.error;
    spyre_arg args[] = {random_arg(&x),
                        {.kind = SPYRE_ARG_INT, .of.integer = k},
                        {.kind = SPYRE_ARG_INT, .of.integer = dim}};
    return random_finish(g, "spyre.topkvalue", args, 3, out);
}

static inline const random_value *random_matmul(random_graph *g, const random_value *a)
{
    const random_value x = *a;
    uint32_t rank = x.view.rank;
    if (rank < 2 || x.dtype != SPYRE_DTYPE_F16) return a;
    int64_t k = x.view.size[rank - 1];
    random_value y;
    if (random_chance(g, 40)) { // by itself, turned
        y = x;
        y.view.size[rank - 2] = k, y.view.size[rank - 1] = x.view.size[rank - 2];
        y.view.stride[rank - 2] = x.view.stride[rank - 1];
        y.view.stride[rank - 1] = x.view.stride[rank - 2];
        y.id = front_run_view(&g->run, x.id, x.dtype, y.view);
        random_add(g, y);
    } else {
        spyre_view sizes = x.view;
        bool shared = random_chance(g, 50);
        if (shared) sizes.rank = 2;
        sizes.size[sizes.rank - 2] = k;
        sizes.size[sizes.rank - 1] = random_extent(g);
        if (view_elements(&sizes) > RANDOM_MOST_ELEMENTS) sizes.size[sizes.rank - 1] = 3;
        if (view_elements(&sizes) > 2 * RANDOM_MOST_ELEMENTS) return a;
        y = *random_input(g, x.dtype, dense_view(sizes.rank, sizes.size));
    }
    spyre_view sizes = x.view;
    int64_t n = sizes.size[rank - 1] = y.view.size[y.view.rank - 1];
    if (view_elements(&sizes) > RANDOM_MOST_ELEMENTS) return a;
    random_value out = random_result(g, x.dtype, &sizes);
    int64_t m = x.view.size[rank - 2], matrices = out.count / (m * n), shares = y.view.rank == 2;
    for (int64_t i = 0; i < out.count; i++) {
        int64_t b = i / (m * n), row = i / n % m, column = i % n;
        double sum = 0;
        for (int64_t l = 0; l < k; l++)
            sum += x.storage[random_offset(&x.view, (b * m + row) * k + l)] *
                   y.storage[random_offset(&y.view,
                                           ((shares && matrices ? 0 : b) * k + l) * n + column)];
        out.storage[random_offset(&out.view, i)] = sum;
    }
    out.checked = x.checked && y.checked;
    out.error = (double)k * (x.error * y.bound + y.error * x.bound + 1e-3 * x.bound * y.bound);
    spyre_arg args[] = {random_arg(&x), random_arg(&y)};
    return random_finish(g, "spyre.batchmatmul", args, 2, out);
}

static inline const random_value *random_cat(random_graph *g, const random_value *a)
{
    const random_value x = *a;
    if (x.view.rank == 0) return a;
    uint32_t dim = random_below(g, x.view.rank), pieces = 2 + random_below(g, 2);
    random_value piece[3];
    spyre_arg items[3];
    spyre_view sizes = x.view;
    sizes.size[dim] = 0;
    for (uint32_t i = 0; i < pieces; i++) {
        piece[i] = x;
        if (random_chance(g, 40)) {
            spyre_view other = x.view;
            other.size[dim] = 1 + random_below(g, 70);
            if (view_elements(&other) < RANDOM_MOST_ELEMENTS)
                piece[i] = *random_input(g, x.dtype, dense_view(other.rank, other.size));
        } else if (random_chance(g, 40) && random_slice(g, &piece[i].view, dim)) {
            piece[i].id = front_run_view(&g->run, x.id, x.dtype, piece[i].view);
            random_add(g, piece[i]);
        }
        sizes.size[dim] += piece[i].view.size[dim];
        items[i] = random_arg(&piece[i]);
    }
    if (view_elements(&sizes) > 2 * RANDOM_MOST_ELEMENTS) return a;
    random_value out = random_result(g, x.dtype, &sizes);
    spyre_view part = out.view;
    for (uint32_t i = 0; i < pieces; i++) {
        part.size[dim] = piece[i].view.size[dim];
        for (int64_t e = 0; e < view_elements(&part); e++)
            out.storage[random_offset(&part, e)] =
                piece[i].storage[random_offset(&piece[i].view, e)];
        part.offset += part.size[dim] * part.stride[dim];
        out.checked &= piece[i].checked;
        out.error = fmax(out.error, piece[i].error);
    }
    spyre_arg args[] = {{.kind = SPYRE_ARG_LIST, .of.list = {items, pieces}},
                        {.kind = SPYRE_ARG_INT, .of.integer = dim}};
    return random_finish(g, "spyre.cat", args, 2, out);
}

static inline const random_value *random_gather(random_graph *g, const random_value *a)
{
    const random_value x = *a;
    if (x.view.rank != 2 || x.view.size[1] < 2) return a;
    int64_t size[2] = {1 + random_below(g, 6), 1 + random_below(g, 8)};
    uint32_t rank = 1 + random_below(g, 2);
    spyre_view view = dense_view(rank, size), sizes = view;
    int64_t count = view_elements(&view), *index = random_own(g, (size_t)count * sizeof *index);
    sizes.size[sizes.rank++] = x.view.size[1];
    if (view_elements(&sizes) > RANDOM_MOST_ELEMENTS) return a;
    for (int64_t i = 0; i < count; i++) index[i] = random_below(g, (uint32_t)x.view.size[0]);
    uint32_t id = front_run_input(&g->run, SPYRE_DTYPE_I64, rank, size, index);
    random_value out = random_result(g, x.dtype, &sizes);
    for (int64_t i = 0; i < out.count; i++) {
        int64_t from = index[i / x.view.size[1]] * x.view.size[1] + i % x.view.size[1];
        out.storage[random_offset(&out.view, i)] = x.storage[random_offset(&x.view, from)];
    }
    out.checked = x.checked;
    out.error = x.error;
    spyre_arg args[] = {random_arg(&x), {.kind = SPYRE_ARG_VALUE, .of.value = id}};
    return random_finish(g, "spyre.gather", args, 2, out);
}

static inline const random_value *random_layer_norm(random_graph *g, const random_value *a)
{
    const random_value x = *a;
    if (x.view.rank == 0 || x.dtype != SPYRE_DTYPE_F16) return a;
    const double eps = 0.125;
    int64_t n = x.view.size[x.view.rank - 1], row[] = {n};
    bool affine = random_chance(g, 60), biased = random_chance(g, 50);
    random_value w = {.bound = 1}, b = {.bound = 0};
    if (affine) w = *random_input(g, x.dtype, dense_view(1, row));
    if (biased) b = *random_input(g, x.dtype, dense_view(1, row));
    random_value out = random_result(g, x.dtype, &x.view);
    double most = 0;
    for (int64_t r = 0; r < out.count; r += n) {
        double mean = 0, square = 0;
        for (int64_t i = 0; i < n; i++) {
            double v = x.storage[random_offset(&x.view, r + i)];
            mean += v / (double)n, square += v * v / (double)n;
        }
        double scale = 1 / sqrt(fmax(square - mean * mean, 0) + eps);
        for (int64_t i = 0; i < n; i++) {
            double v = (x.storage[random_offset(&x.view, r + i)] - mean) * scale;
            most = fmax(most, fabs(v));
            out.storage[random_offset(&out.view, r + i)] =
                v * (affine ? w.storage[i] : 1) + (biased ? b.storage[i] : 0);
        }
    }
    out.checked = x.checked;
    out.error = w.bound * (most + 1) * (x.error + 0.004 * x.bound) * (2 * x.bound + 1) * 8;
    spyre_arg args[] = {
        random_arg(&x), random_arg(&w), random_arg(&b), {.kind = SPYRE_ARG_FLOAT, .of.real = eps}};
    if (!affine) args[1].kind = SPYRE_ARG_NONE;
    if (!biased) args[2].kind = SPYRE_ARG_NONE;
    return random_finish(g, "spyre.layer_norm", args, 4, out);
}

// Integers that grow along one dim of x, or two, as a node that broadcasts to it: of the element at
// index i first + i[one] * step[one] + i[other] * step[other].
static inline uint32_t random_numbers(random_graph *g, const spyre_view *sizes, int64_t *out_first,
                                      int64_t out_step[SPYRE_MAX_RANK], spyre_view *out_view)
{
    uint32_t sum = 0, count = 1 + random_below(g, 2);
    spyre_view known = {.rank = sizes->rank};
    for (uint32_t d = 0; d < known.rank; d++) known.size[d] = 1;
    *out_first = 0;
    for (uint32_t n = 0; n < count; n++) {
        uint32_t d = random_below(g, sizes->rank);
        int64_t first = (int64_t)random_below(g, 90) - 45, step = (int64_t)random_below(g, 7) - 3;
        spyre_arg args[] = {{.kind = SPYRE_ARG_INT, .of.integer = first},
                            {.kind = SPYRE_ARG_INT, .of.integer = step}};
        spyre_view column = {.rank = sizes->rank}, vector = dense_view(1, &sizes->size[d]);
        uint32_t id = front_run_node(&g->run, "spyre.counts", args, 2, SPYRE_DTYPE_I64, vector);
        for (uint32_t e = 0; e < column.rank; e++) {
            column.size[e] = e == d ? sizes->size[d] : 1;
            column.stride[e] = 1;
        }
        id = front_run_view(&g->run, id, SPYRE_DTYPE_I64, column);
        bool minus = n && random_chance(g, 50);
        if (n) {
            spyre_arg both[] = {{.kind = SPYRE_ARG_VALUE, .of.value = sum},
                                {.kind = SPYRE_ARG_VALUE, .of.value = id}};
            known.size[d] = sizes->size[d];
            spyre_view dense = dense_view(known.rank, known.size);
            id = front_run_node(&g->run, minus ? "spyre.sub" : "spyre.add", both, 2,
                                SPYRE_DTYPE_I64, dense);
        }
        known.size[d] = sizes->size[d];
        *out_first += minus ? -first : first;
        out_step[d] += minus ? -step : step;
        sum = id;
    }
    *out_view = dense_view(known.rank, known.size);
    return sum;
}

// x where numbers are above a bound, else a number; or x plus the numbers.
static inline const random_value *random_counted(random_graph *g, const random_value *a)
{
    static const char *const ops[] = {"spyre.greaterthan", "spyre.lesserthan",
                                      "spyre.greaterequal", "spyre.lesserequal", "spyre.equal"};
    const random_value x = *a;
    int64_t first, step[SPYRE_MAX_RANK] = {0};
    if (x.view.rank == 0) return a;
    const spyre_view sizes = x.view, scalar = {.rank = 0};
    spyre_view dense;
    uint32_t numbers = random_numbers(g, &sizes, &first, step, &dense), op = random_below(g, 5);
    double bound = (double)random_below(g, 60) - 30;
    bool adds = random_chance(g, 40);
    random_value out = random_result(g, x.dtype, &x.view);
    out.checked = x.checked;
    out.error = x.error;
    for (int64_t i = 0; i < out.count; i++) {
        int64_t rest = i, number = first;
        for (uint32_t d = sizes.rank; d-- > 0; rest /= sizes.size[d])
            number += rest % sizes.size[d] * step[d];
        double v = x.storage[random_offset(&x.view, i)], n = (double)number;
        bool kept[] = {n > bound, n < bound, n >= bound, n <= bound, n == bound};
        out.storage[random_offset(&out.view, i)] = adds ? v + n : kept[op] ? v : -1;
    }
    spyre_arg of[] = {{.kind = SPYRE_ARG_VALUE, .of.value = numbers}, {0}, {0}};
    if (adds) {
        uint32_t id = front_run_node(&g->run, "spyre.cast", of, 1, x.dtype, dense);
        spyre_arg args[] = {random_arg(&x), {.kind = SPYRE_ARG_VALUE, .of.value = id}};
        return random_finish(g, "spyre.add", args, 2, out);
    }
    spyre_arg limit[] = {{.kind = SPYRE_ARG_FLOAT, .of.real = bound},
                         {.kind = SPYRE_ARG_DTYPE, .of.dtype = SPYRE_DTYPE_I64}};
    spyre_arg other[] = {{.kind = SPYRE_ARG_FLOAT, .of.real = -1},
                         {.kind = SPYRE_ARG_DTYPE, .of.dtype = x.dtype}};
    of[1] = (spyre_arg){.kind = SPYRE_ARG_VALUE,
                        .of.value = front_run_node(&g->run, "spyre.constant", limit, 2,
                                                   SPYRE_DTYPE_I64, scalar)};
    uint32_t mask = front_run_node(&g->run, ops[op], of, 2, SPYRE_DTYPE_BOOL, dense);
    uint32_t rest = front_run_node(&g->run, "spyre.constant", other, 2, x.dtype, scalar);
    spyre_arg args[] = {{.kind = SPYRE_ARG_VALUE, .of.value = mask}, random_arg(&x),
                        {.kind = SPYRE_ARG_VALUE, .of.value = rest}};
    return random_finish(g, "spyre.where3", args, 3, out);
}

// Adds one op on a random earlier value, or on a view of it.
static inline void random_step(random_graph *g)
{
    typedef const random_value *(*maker)(random_graph *, const random_value *);
    static const maker makers[] = {
        random_unary,     random_cast,      random_binary,     random_binary, random_select,
        random_reduction, random_reduction, random_matmul,     random_cat,    random_cat,
        random_gather,    random_gather,    random_layer_norm, random_topk,   random_counted,
    };
    uint32_t latest = g->count > 4 && random_chance(g, 70) ? g->count - 4 : 0;
    const random_value *x = &g->value[latest + random_below(g, g->count - latest)];
    while (random_room(g) && random_chance(g, 60)) x = random_view(g, x);
    if (!random_room(g)) return;
    makers[random_below(g, sizeof makers / sizeof makers[0])](g, x);
}

#endif
