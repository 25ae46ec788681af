// SPDX-License-Identifier: Apache-2.0
//
// Sizes that a launch chooses, at one of their values. Only sizes, the counts of loops, the factors
// of means and where slices begin change; everything that follows from them is derived anew.
#include "bundle/symbols.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bundle/step_facts.h"
#include "bundle/verify.h"

static spyre_status check_values(const bundle *b, const int64_t *values)
{
    for (uint32_t s = 0; s < b->symbols.count; s++) {
        const bundle_symbol *symbol = &b->symbols.items[s];
        bool good = values[s] >= symbol->granularity && values[s] <= symbol->most &&
                    values[s] % symbol->granularity == 0;
        if (!good)
            return status_new(SPYRE_INVALID_ARGUMENT,
                              "size %s is %lld, possible are multiples of %lld up to %lld",
                              symbol->name, (long long)values[s], (long long)symbol->granularity,
                              (long long)symbol->most);
    }
    return NULL;
}

// Moves the slices of a tensor that lies in memory from where `from` has them to where `to` does.
static spyre_status move_slices(arena *memory, const bundle *b, const bundle_step *from,
                                const bundle_step *to, uint32_t t)
{
    int64_t starts[BUNDLE_MAX_CORES];
    bundle_geometry before, after;
    bundle_tensor *tensor = &to->tensors[t];
    if (tensor->in_lx || tensor->index_kind == BUNDLE_INDEX_VALUE) return NULL;
    TRY(bundle_tensor_geometry(b, from, t, &before));
    TRY(bundle_tensor_geometry(b, to, t, &after));
    for (uint32_t core = 0; core < to->cores->core_count; core++)
        starts[core] = bundle_start(tensor, core) +
                       bundle_slice_offset(to, tensor, &after, core) -
                       bundle_slice_offset(from, tensor, &before, core);
    return bundle_set_starts(memory, to->cores->core_count, starts, tensor);
}

static spyre_status own_tensors(arena *memory, const bundle_step *from, bundle_step *to)
{
    if (to->tensors != from->tensors) return NULL;
    to->tensors = ARENA_NEW(memory, bundle_tensor, to->tensor_count);
    TRY_ALLOC(to->tensors);
    memcpy(to->tensors, from->tensors, to->tensor_count * sizeof *to->tensors);
    return NULL;
}

static spyre_status bind_moves(arena *memory, const bundle *b, const int64_t *values, bundle *out)
{
    for (uint32_t m = 0; m < b->moves.count; m++) {
        const bundle_move *move = &b->moves.items[m];
        bundle_step *to = &out->steps.items[move->step];
        TRY(own_tensors(memory, &b->steps.items[move->step], to));
        int64_t most = 1, now = 1;
        for (uint32_t s = 0; s < b->symbols.count; s++) {
            if (!(move->symbols >> s & 1)) continue;
            most *= b->symbols.items[s].most / b->symbols.items[s].granularity;
            now *= values[s] / b->symbols.items[s].granularity;
        }
        to->tensors[move->tensor].start -= (most - now) * move->bytes;
    }
    return NULL;
}

// How many granules a symbol is below its most.
static int64_t missing(const bundle *b, const int64_t *values, uint32_t symbol)
{
    const bundle_symbol *of = &b->symbols.items[symbol];
    return (of->most - values[symbol]) / of->granularity;
}

static void bind_gaps(const bundle *b, const int64_t *values, bundle_step *step)
{
    for (uint32_t t = 0; t < step->tensor_count; t++)
        for (uint32_t d = 0; d < step->dim_count; d++) {
            bundle_tensor *tensor = &step->tensors[t];
            uint8_t symbol = tensor->gap_symbol[d];
            if (symbol) tensor->gap[d] -= tensor->gap_step[d] * missing(b, values, symbol - 1);
        }
}

static void bind_sizes(const bundle *b, const int64_t *values, bundle_step *step)
{
    for (uint32_t d = 0; d < step->dim_count; d++) {
        if (!step->symbol[d]) continue;
        const bundle_symbol_size *size = &step->symbol_size[d];
        step->size[d] = size->most - size->step * missing(b, values, step->symbol[d] - 1u);
    }
}

static bool has_symbols(const bundle_step *step)
{
    bool any = false;
    for (uint32_t d = 0; d < step->dim_count; d++) {
        any = any || step->symbol[d];
        for (uint32_t t = 0; t < step->tensor_count; t++)
            any = any || step->tensors[t].gap_symbol[d];
    }
    return any;
}

static spyre_status bind_step(arena *memory, const bundle *b, const int64_t *values,
                              const bundle_step *from, bundle_step *to)
{
    *to = *from;
    if (!has_symbols(from)) return NULL;
    bind_sizes(b, values, to);
    TRY(own_tensors(memory, from, to));
    bind_gaps(b, values, to);
    uint32_t factor;
    if (bundle_is_mean(b, from, &factor)) {
        TRY_NEW(memory, to->constants, to->constant_count);
        memcpy(to->constants, from->constants, to->constant_count * sizeof *to->constants);
        bundle_set_mean(b, to, factor);
    }
    for (uint32_t t = 0; t < to->tensor_count; t++) TRY(move_slices(memory, b, from, to, t));
    return NULL;
}

spyre_status bundle_bind(arena *memory, const bundle *b, const int64_t *values,
                         bundle **out_bundle)
{
    TRY(check_values(b, values));
    bundle *out = ARENA_NEW(memory, bundle, 1);
    TRY_ALLOC(out);
    *out = *b;
    out->memory = memory;
    out->steps.items = ARENA_NEW(memory, bundle_step, b->steps.count);
    out->body.items = ARENA_NEW(memory, bundle_statement, b->body.count);
    TRY_ALLOC(out->steps.items);
    TRY_ALLOC(out->body.items);
    out->steps.capacity = b->steps.count;
    out->body.capacity = b->body.count;
    for (uint32_t s = 0; s < b->steps.count; s++) {
        const bundle_step *from = &b->steps.items[s];
        TRY(bundle_at_step(bind_step(memory, b, values, from, &out->steps.items[s]), s, from));
    }
    TRY(bind_moves(memory, b, values, out));
    for (uint32_t at = 0; at < b->body.count; at++) {
        bundle_statement *statement = &out->body.items[at];
        *statement = b->body.items[at];
        if (statement->symbol) statement->count = values[statement->symbol - 1] / statement->per;
    }
    TRY(bundle_verify(out));
    *out_bundle = out;
    return NULL;
}

// --- Sizes by name

static spyre_status read_size(const bundle *b, const char *size, int64_t *values)
{
    const char *equals = strchr(size, '=');
    size_t length = equals ? (size_t)(equals - size) : strlen(size);
    char *end = NULL;
    errno = 0;
    long long value = equals ? strtoll(equals + 1, &end, 10) : 0;
    if (!equals || end == equals + 1 || *end || errno)
        return status_new(SPYRE_INVALID_ARGUMENT, "size '%s': expected NAME=SIZE", size);
    for (uint32_t s = 0; s < b->symbols.count; s++) {
        const char *name = b->symbols.items[s].name;
        if (strlen(name) != length || memcmp(name, size, length) != 0) continue;
        values[s] = value;
        return NULL;
    }
    return status_new(SPYRE_INVALID_ARGUMENT, "size '%s': the bundle has %u sizes that a launch "
                      "chooses%s%s", size, b->symbols.count, b->symbols.count ? ", the first " : "",
                      b->symbols.count ? b->symbols.items[0].name : "");
}

spyre_status bundle_bind_named(arena *memory, const bundle *b, const char *const *sizes,
                               uint32_t count, bundle **out_bundle)
{
    int64_t values[BUNDLE_MAX_SYMBOLS];
    for (uint32_t s = 0; s < b->symbols.count; s++) values[s] = b->symbols.items[s].most;
    for (uint32_t n = 0; n < count; n++) TRY(read_size(b, sizes[n], values));
    return bundle_bind(memory, b, values, out_bundle);
}
