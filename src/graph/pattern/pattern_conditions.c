// SPDX-License-Identifier: Apache-2.0
//
// What a row may ask of the tensors that it found; pattern.def says what each condition means.
#include "graph/pattern/pattern.h"

#include <string.h>

enum { MOST_OPERANDS = 4 };

// A tensor that a condition names.
typedef struct {
    spyre_dtype dtype;
    spyre_view view;
} operand;

static int64_t last_size(const operand *x)
{
    return x->view.rank ? x->view.size[x->view.rank - 1] : 1;
}

static bool same(const operand *o)
{
    return o[0].dtype == o[1].dtype && o[0].view.rank == o[1].view.rank &&
           memcmp(o[0].view.size, o[1].view.size, o[0].view.rank * sizeof o[0].view.size[0]) == 0;
}

static bool along(const operand *o)
{
    return o[0].dtype == o[1].dtype && last_size(&o[0]) == last_size(&o[1]);
}

static bool row(const operand *o)
{
    return o[0].view.rank == 1 && o[1].view.rank > 0 && along(o);
}

static bool heads(const operand *o)
{
    const spyre_view *q = &o[0].view, *k = &o[1].view, *v = &o[2].view, *y = &o[3].view;
    return q->rank == 4 && k->rank == 4 && v->rank == 4 && y->rank == 4 &&
           memcmp(q->size, k->size, 2 * sizeof q->size[0]) == 0 &&
           memcmp(q->size, v->size, 2 * sizeof q->size[0]) == 0 &&
           memcmp(q->size, y->size, 3 * sizeof q->size[0]) == 0 && q->size[3] == k->size[3] &&
           k->size[2] == v->size[2] && y->size[3] == v->size[3];
}

// By strides: equal sizes tell nothing.
static bool turned(const operand *o)
{
    const spyre_view *t = &o[0].view, *x = &o[1].view;
    uint32_t rank = x->rank;
    return rank >= 2 && t->rank == rank && t->stride[rank - 1] == x->stride[rank - 2] &&
           t->stride[rank - 2] == x->stride[rank - 1] && t->size[rank - 1] == x->size[rank - 2] &&
           t->size[rank - 2] == x->size[rank - 1];
}

static bool flat(const operand *o)
{
    const spyre_view *f = &o[0].view, *x = &o[1].view;
    return f->rank == 3 && x->rank >= 3 &&
           memcmp(&f->size[1], &x->size[x->rank - 2], 2 * sizeof f->size[0]) == 0;
}

// Whether `part` is every `step`-th element of the last dim of x, from `first` on, half of them.
static bool is_half(const spyre_view *part, const spyre_view *x, int64_t first, int64_t step)
{
    spyre_view half = *x;
    if (x->rank == 0 || part->rank != x->rank || x->size[x->rank - 1] % 2) return false;
    uint32_t last = x->rank - 1;
    half.size[last] /= 2;
    half.stride[last] *= step;
    half.offset += first * x->stride[last];
    return memcmp(part->size, half.size, x->rank * sizeof half.size[0]) == 0 &&
           memcmp(part->stride, half.stride, x->rank * sizeof half.stride[0]) == 0 &&
           part->offset == half.offset;
}

static bool halves(const operand *o)
{
    return is_half(&o[0].view, &o[2].view, 0, 1) &&
           is_half(&o[1].view, &o[2].view, last_size(&o[2]) / 2, 1);
}

static bool pairs(const operand *o)
{
    return is_half(&o[0].view, &o[2].view, 0, 2) && is_half(&o[1].view, &o[2].view, 1, 2);
}

static bool rotations(const operand *o)
{
    const spyre_view *f = &o[0].view, *q = &o[1].view;
    return f->rank == 6 && q->rank == 6 && along(o) && f->size[2] == 1 && f->size[3] == 2 &&
           f->size[4] == 2 && q->size[3] == 1 && q->size[4] == 2;
}

typedef struct {
    const char *name;
    uint32_t operands;
    bool (*holds)(const operand *operands);
} condition_row;

static const condition_row rows[] = {
    {"same", 2, same},     {"along", 2, along},         {"row", 2, row},
    {"heads", 4, heads},   {"turned", 2, turned},       {"flat", 2, flat},
    {"halves", 3, halves}, {"pairs", 3, pairs},         {"rotations", 2, rotations},
};

static const condition_row *row_of(const pattern_call *condition)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(condition->op, rows[i].name) == 0 && condition->arg_count == rows[i].operands)
            return &rows[i];
    return NULL;
}

// False when a size is symbolic.
static bool load(const spyre_graph *graph, const pattern_call *condition, const uint32_t *values,
                 operand *out)
{
    for (uint32_t i = 0; i < condition->arg_count; i++) {
        const graph_value *value = &graph->values.items[values[condition->args[i].name]];
        spyre_status status = graph_view_constant(graph, &value->view, &out[i].view);
        bool constant = !status;
        spyre_status_free(status);
        if (!constant) return false;
        out[i].dtype = value->dtype;
    }
    return true;
}

bool pattern_knows(const pattern_call *condition)
{
    for (uint32_t i = 0; i < condition->arg_count; i++)
        if (condition->args[i].kind != PATTERN_TENSOR) return false;
    return row_of(condition) != NULL;
}

bool pattern_holds(const spyre_graph *graph, const pattern_call *condition, const uint32_t *values)
{
    operand operands[MOST_OPERANDS];
    return load(graph, condition, values, operands) && row_of(condition)->holds(operands);
}
