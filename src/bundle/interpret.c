// SPDX-License-Identifier: Apache-2.0
//
// Walks the statements of a bundle and prepares one step at a time: the byte offset of every
// core-local index of every operand, then the family of the opfunc does the rest.
#include "bundle/interpret.h"

#include "bundle/step_facts.h"
#include "bundle/execution.h"

// Fills the table of offsets by core-local index, for a dim along which the operand moves.
static spyre_status tabulate_offsets(execution *x, operand *o, uint32_t dim)
{
    int64_t count = x->local[dim];
    int64_t *offsets = ARENA_NEW(x->scratch, int64_t, (size_t)count);
    TRY_ALLOC(offsets);
    for (int64_t i = 0; i < count; i++)
        offsets[i] = bundle_offset_bits(o->tensor, &o->geometry, dim, i);
    o->offset[dim] = offsets;
    return NULL;
}

static spyre_status prepare_operands(execution *x)
{
    const bundle_step *step = x->step;
    for (uint32_t t = 0; t < step->tensor_count; t++) {
        operand *o = &x->operands[t];
        *o = (operand){.tensor = &step->tensors[t]};
        TRY(bundle_tensor_geometry(x->b, step, t, &o->geometry));
        if (o->tensor->count) TRY_NEW(x->scratch, o->number, sizeof(int64_t));
        for (uint32_t d = 0; d < step->dim_count; d++) {
            if (o->geometry.moves[d]) TRY(tabulate_offsets(x, o, d));
        }
    }
    return NULL;
}

static void prepare_dims(execution *x)
{
    const bundle_step *step = x->step;
    x->reduced_count = bundle_reduced_dims(x->b, step, x->reduced);
    x->kept_count = 0;
    for (uint32_t d = 0; d < step->dim_count; d++) {
        x->local[d] = bundle_local_size(step, d);
        if (bundle_walks_dim(step, d)) x->kept[x->kept_count++] = (uint8_t)d;
    }
}

static spyre_status dispatch(execution *x)
{
    if (x->step->index_count > 0) return interpret_rows(x);
    if (x->step->tensors[x->step->inputs[0]].owners) return interpret_shuffle(x);
    switch (opfunc_describe(x->step->op)->kind) {
    case OPFUNC_KIND_UNARY:
    case OPFUNC_KIND_BINARY:
    case OPFUNC_KIND_TERNARY:
    case OPFUNC_KIND_PARAMETRIC:
    case OPFUNC_KIND_COPY: return interpret_pointwise(x);
    case OPFUNC_KIND_NORM:
        return x->step->op == OPFUNC_LAYERNORMSCALE ? interpret_layernormscale(x)
                                                    : interpret_pointwise(x);
    case OPFUNC_KIND_REDUCTION: return interpret_reduction(x);
    case OPFUNC_KIND_MATMUL: return interpret_matmul(x);
    case OPFUNC_KIND_RANK: return interpret_rank(x);
    case OPFUNC_KIND_POOL: return interpret_reduction(x);
    case OPFUNC_KIND_MASK: return interpret_mask(x);
    case OPFUNC_KIND_SCAN: return interpret_scan(x);
    }
    return status_new(SPYRE_INTERNAL, "an opfunc of no kind");
}

static spyre_status execute_step(execution *x, uint32_t number)
{
    x->step = &x->b->steps.items[number];
    x->scratch = arena_create();
    TRY_ALLOC(x->scratch);
    prepare_dims(x);
    spyre_status status = prepare_operands(x);
    if (!status) status = dispatch(x);
    arena_destroy(x->scratch);
    return bundle_at_step(status, number, x->step);
}

// Executes statements [first, last) at loop depth `depth`.
static spyre_status execute_statements(execution *x, uint32_t first, uint32_t last, uint32_t depth)
{
    for (uint32_t at = first; at < last; at++) {
        const bundle_statement *statement = &x->b->body.items[at];
        if (statement->kind == BUNDLE_EXECUTE) TRY(execute_step(x, statement->step));
        if (statement->kind != BUNDLE_LOOP) continue;
        if (depth == BUNDLE_MAX_LOOPS) return status_new(SPYRE_INTERNAL, "a loop too deep");
        uint32_t end = bundle_behind_loop(x->b, at);
        for (int64_t i = 0; i < statement->count; i++) {
            x->loop_index[depth] = i;
            TRY(execute_statements(x, at + 1, end - 1, depth + 1));
        }
        x->loop_index[depth] = 0;
        at = end - 1;
    }
    return NULL;
}

spyre_status bundle_interpret(const bundle *b, const bundle_buffer *buffers, uint8_t *lx)
{
    TRY(bundle_verify(b));
    // Gathers may need sizes that only the launch knows.
    arena *memory = arena_create();
    TRY_ALLOC(memory);
    bundle sized = *b;
    sized.args.items = ARENA_NEW(memory, bundle_arg, b->args.count);
    spyre_status status = sized.args.items ? NULL : status_no_memory();
    for (uint32_t i = 0; !status && i < b->args.count; i++) {
        sized.args.items[i] = b->args.items[i];
        if (sized.args.items[i].bytes == 0) sized.args.items[i].bytes = buffers[i].size_bytes;
    }
    execution x = {.b = &sized, .buffers = buffers, .lx = lx};
    if (!status) status = execute_statements(&x, 0, sized.body.count, 0);
    arena_destroy(memory);
    return status;
}
