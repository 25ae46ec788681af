// SPDX-License-Identifier: Apache-2.0
//
// fuse_norms: 16-bit elements that are scaled and shifted in float32 and go back to 16 bits are one
// layernormnorm, whatever wrote them so: batch, group and instance norm, an affine layer.
//     w = dl16tofp32(x); d = sub(w, mean); s = mul(d, scale); t = add(s, bias); y = fp32todl16(t)
// becomes
//     y = layernormnorm(x, mean, scale, 1, bias)              ((x - mean) * scale) * 1 + bias
// That opfunc computes in float32 and rounds once, so no bit changes; what is missing is 0, 1 and
// -0, which leave all numbers as they are. Steps that have other readers are done again rather than
// read in float32: it is memory that takes time. Only of operands that stand still along the
// result's innermost loop: the others lie in sticks of half as many elements, but for weights and
// biases that a cast made of 16 bits, which are read there. Ops that nothing reads any more are
// left to deadcode.
#include "front/front.h"
#include "front/ir/def_use.h"

// Inputs of layernormnorm.
enum { NORMED, MEAN, SCALE, WEIGHT, BIAS, NORM_INPUTS };

typedef struct {
    loop_graph *loops;
    const def_use *f;
    const loop_op *last; // the cast back to 16 bits
    uint32_t inner;      // its innermost loop
    loop_access input[NORM_INPUTS];
    bool has[NORM_INPUTS];
} norm;

static uint32_t innermost_loop(const loop_op *op)
{
    uint32_t inner = 0;
    for (uint32_t v = 1; v < op->var_count; v++)
        if (loop_result(op)->stride[v] < loop_result(op)->stride[inner]) inner = v;
    return inner;
}

// Gives an input of the norm operand k of a step; false where it does not go with the others.
static bool take_input(norm *n, uint32_t input, const loop_op *step, uint32_t k)
{
    const loop_access *read = &step->operand[k];
    n->input[input] = *read;
    n->has[input] = true;
    if (read->stride[n->inner])
        return (input == WEIGHT || input == BIAS) &&
               def_use_through_cast(n->f, n->loops, step, read, &n->input[input]);
    return loop_operand_buffer(n->loops, step, k)->format == SPYRE_FORMAT_IEEE_FP32;
}

static bool take_steps(norm *n, const loop_access *read);

// What the step has as operand k is an input, the other operand the rest of the chain.
static bool take_step(norm *n, uint32_t input, const loop_op *step, uint32_t k)
{
    norm before = *n;
    if (take_input(n, input, step, k) && take_steps(n, &step->operand[1 - k])) return true;
    *n = before;
    return false;
}

static bool take_either(norm *n, uint32_t input, const loop_op *step)
{
    return take_step(n, input, step, 1) || take_step(n, input, step, 0);
}

// The steps behind the cast to float32, from the last one backwards.
static bool take_steps(norm *n, const loop_access *read)
{
    const loop_op *step = def_use_writer_in_loops(n->f, n->loops, n->last, read);
    if (!step) return false;
    if (step->op == OPFUNC_DL16TOFP32) {
        n->input[NORMED] = step->operand[0];
        return true;
    }
    if (n->has[MEAN]) return false;
    switch ((int)step->op) {
    case OPFUNC_SUB: return take_step(n, MEAN, step, 1);
    case OPFUNC_MUL:
        if (n->has[SCALE]) return false;
        return take_either(n, n->has[WEIGHT] ? SCALE : WEIGHT, step);
    case OPFUNC_ADD:
        if (n->has[WEIGHT] || n->has[BIAS]) return false;
        return take_either(n, BIAS, step);
    default: return false;
    }
}

// Less than two steps are worth no constants.
static bool find_norm(norm *n)
{
    uint32_t steps = 0;
    if (n->last->op != OPFUNC_FP32TODL16 || !n->last->var_count) return false;
    n->inner = innermost_loop(n->last);
    if (!take_steps(n, &n->last->operand[0])) return false;
    for (uint32_t i = MEAN; i < NORM_INPUTS; i++) steps += n->has[i];
    return steps >= 2;
}

static spyre_status add_neutral(norm *n, uint32_t input)
{
    static const double neutral[NORM_INPUTS] = {[SCALE] = 1, [WEIGHT] = 1, [BIAS] = -0.0};
    n->input[input] = (loop_access){0};
    return loop_add_constant(n->loops, &(graph_number){.value = neutral[input]}, SPYRE_DTYPE_F32,
                             &n->input[input].buffer);
}

static spyre_status replace(norm *n, loop_op *op)
{
    for (uint32_t i = MEAN; i < NORM_INPUTS; i++)
        if (!n->has[i]) TRY(add_neutral(n, i));
    op->op = OPFUNC_LAYERNORMNORM;
    op->operand[NORM_INPUTS] = *loop_result(op);
    op->operand_count = NORM_INPUTS + 1;
    memcpy(op->operand, n->input, sizeof n->input);
    return NULL;
}

spyre_status pass_fuse_norms(loop_graph *loops, bool *out_changed)
{
    def_use f;
    TRY(def_use_build(loops, &f));
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        loop_op *op = &loops->ops.items[i];
        norm n = {.loops = loops, .f = &f, .last = op};
        if (!find_norm(&n)) continue;
        TRY(replace(&n, op));
        *out_changed = true;
    }
    return NULL;
}
