// SPDX-License-Identifier: Apache-2.0
#include "graph/promote.h"

#include "tensor/format.h"

enum { BOOLS, INTS, FLOATS };           // categories, ascending
enum { NUMBER, SCALAR, TENSOR, RANKS }; // priorities within a category, ascending

// What has no format of numbers (float64) is a float, too.
static int category(spyre_dtype dtype)
{
    switch (format_class_of(spyre_dtype_host_format(dtype))) {
    case FORMAT_BOOL: return BOOLS;
    case FORMAT_INTEGER: return INTS;
    case FORMAT_FLOAT:
    case FORMAT_NONE: break;
    }
    return FLOATS;
}

// The smallest dtype that both go into.
static spyre_dtype common(spyre_dtype a, spyre_dtype b)
{
    if (a == b) return a;
    if (category(a) != category(b)) return category(a) > category(b) ? a : b;
    if (spyre_dtype_bytes(a) != spyre_dtype_bytes(b))
        return spyre_dtype_bytes(a) > spyre_dtype_bytes(b) ? a : b;
    // Neither of two unlike dtypes of one width holds the other: u8 and i8, f16 and bf16.
    return category(a) == INTS ? SPYRE_DTYPE_I16 : SPYRE_DTYPE_F32;
}

// `known[p]`: some argument has priority p, and dtype[p] is its dtype.
typedef struct {
    bool known[RANKS];
    spyre_dtype dtype[RANKS];
} arguments;

static void add(arguments *all, int priority, spyre_dtype dtype)
{
    all->dtype[priority] =
        all->known[priority] ? common(all->dtype[priority], dtype) : dtype;
    all->known[priority] = true;
}

// Whether the argument is a tensor or a number.
static bool add_arg(const rewriter *r, uint32_t index, arguments *all)
{
    const spyre_arg *arg = index < r->from->arg_count ? &r->from->args[index] : NULL;
    spyre_arg_kind kind = arg ? arg->kind : SPYRE_ARG_NONE;
    if (kind == SPYRE_ARG_VALUE) {
        const graph_value *value = &r->target->values.items[arg->of.value];
        add(all, value->view.rank ? TENSOR : SCALAR, value->dtype);
    } else if (kind == SPYRE_ARG_SCALAR) {
        add(all, NUMBER, arg->of.scalar.is_int ? SPYRE_DTYPE_I64 : SPYRE_DTYPE_F32);
    } else if (kind == SPYRE_ARG_FLOAT) {
        add(all, NUMBER, SPYRE_DTYPE_F32);
    } else if (kind == SPYRE_ARG_INT) {
        add(all, NUMBER, SPYRE_DTYPE_I64);
    } else if (kind == SPYRE_ARG_BOOL) {
        add(all, NUMBER, SPYRE_DTYPE_BOOL);
    } else {
        return false;
    }
    return true;
}

static spyre_dtype promoted(const arguments *all)
{
    spyre_dtype dtype = SPYRE_DTYPE_BOOL;
    bool found = false;
    for (int priority = TENSOR; priority >= NUMBER; priority--) {
        if (!all->known[priority]) continue;
        spyre_dtype lower = all->dtype[priority];
        if (!found)
            dtype = lower;
        else if (category(lower) > category(dtype))
            dtype = common(dtype, lower);
        found = true;
    }
    return dtype;
}

spyre_status promote_args(const rewriter *r, uint32_t first, uint32_t second,
                          spyre_dtype *out_dtype)
{
    arguments all = {0};
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t index = i ? second : first;
        if (add_arg(r, index, &all)) continue;
        return status_new(SPYRE_INVALID_ARGUMENT, "argument %u: expected a tensor or a number",
                          index);
    }
    *out_dtype = rewrite_computed(r, promoted(&all));
    return NULL;
}

spyre_dtype promote_all(const rewriter *r)
{
    arguments all = {0};
    for (uint32_t i = 0; i < r->from->arg_count; i++)
        add_arg(r, i, &all);
    return promoted(&all);
}
