// SPDX-License-Identifier: Apache-2.0
#include "bundle/model.h"

#include <string.h>

#include "base/integer.h"
#include "bundle/step_facts.h"

bundle *bundle_create(arena *memory)
{
    bundle *b = ARENA_NEW(memory, bundle, 1);
    if (b) b->memory = memory;
    return b;
}

static bool follows_symbols(const bundle_step *step)
{
    bool any = false;
    for (uint32_t d = 0; d < step->dim_count; d++) any |= step->symbol[d] != 0;
    return any;
}

// Sets `to` to a copy of `count` items, or to null.
#define COPY_ITEMS(memory, to, from, count)                       \
    do {                                                          \
        (to) = NULL;                                              \
        if ((count) == 0) break;                                  \
        TRY_NEW(memory, to, count);                               \
        memcpy(to, from, (count) * sizeof *(to));                 \
    } while (0)

spyre_status bundle_add_step(bundle *b, const bundle_step *step)
{
    bundle_statement execute = {.kind = BUNDLE_EXECUTE, .step = b->steps.count};
    bundle_step own = *step;
    const uint32_t sizes = follows_symbols(step) ? BUNDLE_MAX_DIMS : 0;
    COPY_ITEMS(b->memory, own.symbol_size, step->symbol_size, sizes);
    COPY_ITEMS(b->memory, own.masks, step->masks, step->mask_count);
    COPY_ITEMS(b->memory, own.windows, step->windows, step->window_count);
    COPY_ITEMS(b->memory, own.constants, step->constants, step->constant_count);
    TRY(VEC_PUSH(b->memory, &b->steps, own));
    return VEC_PUSH(b->memory, &b->body, execute);
}

spyre_status bundle_set_starts(arena *memory, uint32_t core_count, const int64_t *starts,
                               bundle_tensor *tensor)
{
    int64_t *offset;
    uint32_t alike = 1;
    tensor->start = starts[0];
    tensor->core_offset = NULL;
    while (alike < core_count && starts[alike] == starts[0]) alike++;
    if (alike >= core_count) return NULL;
    TRY_NEW(memory, offset, core_count);
    for (uint32_t core = alike; core < core_count; core++) offset[core] = starts[core] - starts[0];
    tensor->core_offset = offset;
    return NULL;
}

bool bundle_same_starts(const bundle_tensor *a, const bundle_tensor *b, uint32_t core_count)
{
    bool same = a->start == b->start;
    for (uint32_t core = 1; core < core_count && same && a->core_offset != b->core_offset; core++)
        same = bundle_start(a, core) == bundle_start(b, core);
    return same;
}

// --- Facts of a step

static bool moves_along(const bundle_tensor *tensor, uint32_t dim)
{
    return tensor->scale[dim] > 0;
}

bool bundle_walks_dim(const bundle_step *step, uint32_t dim)
{
    bool walks = moves_along(&step->tensors[step->output], dim);
    for (uint32_t i = 0; i < step->index_count; i++)
        walks |= moves_along(&step->tensors[step->indices[i]], dim);
    return walks;
}

uint32_t bundle_reduced_dims(const bundle *b, const bundle_step *step,
                             uint8_t out_dims[BUNDLE_MAX_DIMS])
{
    (void)b;
    uint32_t count = 0;
    for (uint32_t d = 0; d < step->dim_count; d++) {
        bool input_moves = false;
        for (uint32_t i = 0; i < step->input_count; i++) {
            input_moves |= moves_along(&step->tensors[step->inputs[i]], d);
            input_moves |= bundle_window_of(step, step->inputs[i], d) != NULL;
        }
        if (input_moves && !bundle_walks_dim(step, d)) out_dims[count++] = (uint8_t)d;
    }
    return count;
}

int64_t bundle_unmasked_size(const bundle_step *step, uint32_t dim)
{
    for (uint32_t i = 0; i < step->mask_count; i++) {
        if (step->masks[i].dim == dim) return step->masks[i].start;
    }
    return step->size[dim];
}

static bool is_elementwise(opfunc op)
{
    opfunc_kind kind = opfunc_describe(op)->kind;
    return kind == OPFUNC_KIND_UNARY || kind == OPFUNC_KIND_BINARY ||
           kind == OPFUNC_KIND_TERNARY || kind == OPFUNC_KIND_PARAMETRIC ||
           op == OPFUNC_LAYERNORMNORM;
}

static bool is_product(opfunc op)
{
    return opfunc_describe(op)->kind == OPFUNC_KIND_MATMUL;
}

// Half a stick of every tensor that has sticks along it.
static bool is_half_live(const bundle_step *step, uint32_t dim)
{
    const bundle_tensor *out = &step->tensors[step->output];
    if (!step->live_lanes || dim != out->stick_dim || step->symbol[dim]) return false;
    if (step->index_count || !(is_elementwise(step->op) || is_product(step->op))) return false;
    for (uint32_t t = 0; t < step->tensor_count; t++) {
        const bundle_tensor *tensor = &step->tensors[t];
        if (tensor->digit_count || tensor->owners || tensor->count) return false;
        if (tensor->stick_dim == dim && tensor->stick_elements != step->size[dim]) return false;
    }
    return out->element_bytes == 2 && step->live_lanes <= step->size[dim] / 2;
}

int64_t bundle_stored_size(const bundle_step *step, uint32_t dim)
{
    return is_half_live(step, dim) ? step->size[dim] / 2 : step->size[dim];
}

int64_t bundle_computed_size(const bundle_step *step, uint32_t dim)
{
    const int64_t unmasked = bundle_unmasked_size(step, dim);
    const int64_t stored = is_elementwise(step->op) ? bundle_stored_size(step, dim) : unmasked;
    return stored < unmasked ? stored : unmasked;
}

bool bundle_fills_masked(const bundle_step *step)
{
    return step->mask_count > 0 && opfunc_describe(step->op)->kind == OPFUNC_KIND_UNARY;
}

bundle_walk bundle_walk_of(const bundle *b)
{
    bundle_walk walk = {.of = b};
    for (uint32_t l = 0; l < BUNDLE_MAX_LOOPS; l++) walk.rounds[l] = 1;
    return walk;
}

bundle_step *bundle_next_step(bundle_walk *walk)
{
    while (walk->at < walk->of->body.count) {
        const bundle_statement *statement = &walk->of->body.items[walk->at++];
        if (statement->kind == BUNDLE_LOOP) walk->rounds[walk->depth++] = statement->count;
        if (statement->kind == BUNDLE_END) walk->rounds[--walk->depth] = 1;
        if (statement->kind != BUNDLE_EXECUTE) continue;
        walk->number = statement->step;
        return &walk->of->steps.items[statement->step];
    }
    return NULL;
}

uint32_t bundle_behind_loop(const bundle *b, uint32_t at)
{
    uint32_t open = 0;
    do {
        if (b->body.items[at].kind == BUNDLE_LOOP) open++;
        if (b->body.items[at].kind == BUNDLE_END) open--;
        at++;
    } while (open);
    return at;
}
