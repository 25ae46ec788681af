// SPDX-License-Identifier: Apache-2.0
//
// repeat_factors: of a factor that a copy repeats for a product's batches there is one. Whoever
// multiplies [4, 28, 32, ..] by [32, ..] expands the latter, and a view that joins the three dims
// needs a copy of all that. Behind normalize_loops the product walks them one by one:
//     b1[4608*c1 + 144*c2 + c3] = b0[144*c2 + c3]                    28 times the same
//     b3[..] = sum over c3 of b1[4608*c1 + 144*c2 + c3] * b2[..]     becomes
//     b1[144*c2 + c3] = b0[144*c2 + c3]
//     b3[..] = sum over c3 of b1[144*c2 + c3] * b2[..]
// The copy stays: its result may have other sticks than what it reads, and propagate_layouts makes
// of it what it is then worth. A loop along which neither factor moves would be none of a product,
// so the other factor has to.
#include "front/front.h"
#include "front/ir/def_use.h"

enum { FACTORS = 2 };

// How many dims of the copy's result, from the innermost on, are not repeated as a whole: every
// loop along one behind them leaves what the copy reads.
static uint32_t count_own_dims(const loop_op *copy, const loop_buffer *b)
{
    const loop_access *from = &copy->operand[0], *to = &copy->operand[1];
    int64_t own = 0;
    for (uint32_t v = 0; v < copy->var_count; v++)
        if (from->stride[v] && to->stride[v] > own) own = to->stride[v];
    uint32_t count = b->dim_count;
    while (count > 0 && b->dim[count - 1].stride > own) count--;
    return count;
}

static bool may_change(const loop_graph *loops, const def_use *f, const loop_op *op)
{
    if (!loop_is_copy(op) || op->tile_depth || op->operand[1].offset) return false;
    const loop_buffer *to = loop_operand_buffer(loops, op, 1);
    return to->kind == LOOP_LOCAL && to->output < 0 && loop_is_dense(to) &&
           def_use_is_written_once(f, op->operand[1].buffer);
}

// Whether the product may read operand k where no loop moves by `most` or more.
static bool takes(const loop_op *reader, uint32_t k, int64_t most)
{
    if (reader->op != OPFUNC_BATCHMATMUL || reader->tile_depth || k >= FACTORS) return false;
    const loop_access *read = &reader->operand[k], *other = &reader->operand[1 - k];
    if (other->buffer == read->buffer) return false;
    for (uint32_t v = 0; v < reader->var_count; v++) {
        if (read->stride[v] < 0) return false;
        if (read->stride[v] >= most && (!other->stride[v] || !loop_result(reader)->stride[v]))
            return false;
    }
    return true;
}

static bool all_take(const loop_graph *loops, const def_use *f, uint32_t buffer, int64_t most)
{
    for (uint32_t n = f->first_use[buffer]; n < f->first_use[buffer + 1]; n++)
        if (!takes(&loops->ops.items[f->uses[n].op], f->uses[n].operand, most)) return false;
    return def_use_use_count(f, buffer) > 0;
}

// Leaves out the copy's loops that repeat.
static void make_once(loop_op *copy, int64_t most)
{
    uint32_t count = 0;
    for (uint32_t v = 0; v < copy->var_count; v++) {
        if (copy->operand[1].stride[v] >= most) continue;
        copy->extent[count] = copy->extent[v];
        copy->split[count] = copy->split[v];
        copy->dim_name[count] = copy->dim_name[v];
        for (uint32_t k = 0; k < copy->operand_count; k++)
            copy->operand[k].stride[count] = copy->operand[k].stride[v];
        count++;
    }
    for (uint32_t v = count; v < copy->var_count; v++)
        for (uint32_t k = 0; k < copy->operand_count; k++) copy->operand[k].stride[v] = 0;
    copy->var_count = count;
}

static void read_once(loop_access *read, uint32_t buffer, int64_t most)
{
    read->buffer = buffer;
    read->offset %= most;
    for (uint32_t v = 0; v < LOOP_MAX_VARS; v++)
        if (read->stride[v] >= most) read->stride[v] = 0;
}

static spyre_status share_factor(loop_graph *loops, const def_use *f, loop_op *copy,
                                 bool *out_changed)
{
    if (!may_change(loops, f, copy)) return NULL;
    uint32_t buffer = copy->operand[1].buffer, own;
    const loop_buffer *b = &loops->buffers.items[buffer];
    uint32_t dims = count_own_dims(copy, b);
    if (dims == 0 || dims == b->dim_count || dims > SPYRE_MAX_RANK) return NULL;
    const int64_t most = b->dim[dims].stride;
    if (!all_take(loops, f, buffer, most)) return NULL;
    TRY(loop_add_in_dims(loops, buffer, b->dim, dims, &own));
    make_once(copy, most);
    copy->operand[1].buffer = own;
    for (uint32_t n = f->first_use[buffer]; n < f->first_use[buffer + 1]; n++) {
        loop_op *reader = &loops->ops.items[f->uses[n].op];
        read_once(&reader->operand[f->uses[n].operand], own, most);
    }
    *out_changed = true;
    return NULL;
}

spyre_status pass_repeat_factors(loop_graph *loops, bool *out_changed)
{
    def_use f;
    TRY(def_use_build(loops, &f));
    for (uint32_t i = 0; i < loops->ops.count; i++)
        TRY(share_factor(loops, &f, &loops->ops.items[i], out_changed));
    return NULL;
}
