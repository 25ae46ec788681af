// SPDX-License-Identifier: Apache-2.0
//
// Host arrays through the interpreter: copies in the card's formats before, back after.
#include <stdlib.h>
#include <string.h>

#include "ktir/kernel.h"
#include "ktir/interpret/interpreter.h"

typedef struct {
    const ktir_parameters *parameters;
    const spyre_ktir_value *values;
    uint32_t arguments, tiles;
    ktir_argument *argument;
    ktir_placed *placed;                // [parameters]
    uint32_t placed_count;
    ktir_space *lx;
} call_memory;

static spyre_status begin_argument(call_memory *c, uint32_t n)
{
    const ktir_parameter *p = &c->parameters->items[n];
    const spyre_ktir_value *value = &c->values[n];
    ktir_argument *a = &c->argument[n];
    *a = (ktir_argument){.is_memory = p->form.is_memory, .element = p->element,
                         .integer = value->integer, .real = value->real};
    if (!a->is_memory) return NULL;
    if (!value->bytes)
        return status_new(SPYRE_INVALID_ARGUMENT, "%s: an array is wanted", p->form.name);
    TRY(kernel_card_bytes(p, value, &a->byte_count));
    a->bytes = malloc((size_t)a->byte_count + 1);
    TRY_ALLOC(a->bytes);
    return kernel_to_card(p, value, a->bytes);
}

// Where a view in LX lies.
static spyre_status place_of(const call_memory *c, const ktir_parameter *p, uint8_t **out_bytes)
{
    uint32_t tile = p->space == KTIR_LX ? 0 : (uint32_t)(p->space - KTIR_LX_OF_CORE);
    int64_t offset = p->address * ktir_element_describe(p->element)->bytes;
    if (tile >= c->tiles)
        return status_new(SPYRE_INVALID_ARGUMENT, "%s: core %u, the grid has %u compute tiles",
                          p->form.name, tile, c->tiles);
    if (offset > KTIR_LX_BYTES - p->byte_count)
        return status_new(SPYRE_INVALID_ARGUMENT, "%s: byte %lld of the %d of LX", p->form.name,
                          (long long)(offset + p->byte_count), KTIR_LX_BYTES);
    *out_bytes = c->lx[tile].bytes + offset;
    return NULL;
}

static spyre_status begin_lx(call_memory *c)
{
    c->lx = calloc(c->tiles, sizeof *c->lx);
    TRY_ALLOC(c->lx);
    for (uint32_t n = c->arguments; n < c->parameters->count; n++) {
        const ktir_parameter *p = &c->parameters->items[n];
        if (p->space == KTIR_HBM || !c->values[n].bytes) continue;
        uint32_t first = p->space == KTIR_LX ? 0 : (uint32_t)(p->space - KTIR_LX_OF_CORE);
        uint32_t last = p->space == KTIR_LX ? c->tiles - 1 : first;
        for (uint32_t tile = first; tile <= last && tile < c->tiles; tile++) {
            if (c->lx[tile].bytes) continue;
            c->lx[tile] = (ktir_space){calloc(1, KTIR_LX_BYTES), KTIR_LX_BYTES};
            TRY_ALLOC(c->lx[tile].bytes);
        }
    }
    return NULL;
}

static spyre_status begin_placed(call_memory *c)
{
    c->placed = calloc(c->parameters->count + 1u, sizeof *c->placed);
    TRY_ALLOC(c->placed);
    for (uint32_t n = c->arguments; n < c->parameters->count; n++) {
        const ktir_parameter *p = &c->parameters->items[n];
        if (p->space != KTIR_HBM) continue;
        ktir_placed *placed = &c->placed[c->placed_count];
        *placed = (ktir_placed){.address = p->address, .byte_count = p->byte_count,
                                .bytes = calloc(1, (size_t)p->byte_count + 1)};
        TRY_ALLOC(placed->bytes);
        c->placed_count++;
    }
    return NULL;
}

// LX that every compute tile has of its own is given to all of them, and read back from the first.
static spyre_status begin_views(call_memory *c)
{
    uint32_t placed = 0;
    for (uint32_t n = c->arguments; n < c->parameters->count; n++) {
        const ktir_parameter *p = &c->parameters->items[n];
        uint8_t *bytes = NULL;
        int64_t count;
        if (p->space == KTIR_HBM) bytes = c->placed[placed++].bytes;
        if (!c->values[n].bytes) continue;
        TRY(kernel_card_bytes(p, &c->values[n], &count));
        if (p->space != KTIR_HBM) TRY(place_of(c, p, &bytes));
        TRY(kernel_to_card(p, &c->values[n], bytes));
        for (uint32_t tile = 1; p->space == KTIR_LX && tile < c->tiles; tile++)
            memcpy(c->lx[tile].bytes + (bytes - c->lx[0].bytes), bytes, (size_t)count);
    }
    return NULL;
}

static spyre_status give_back(const call_memory *c)
{
    uint32_t placed = 0;
    for (uint32_t n = 0; n < c->parameters->count; n++) {
        const ktir_parameter *p = &c->parameters->items[n];
        uint8_t *bytes = n < c->arguments ? c->argument[n].bytes : NULL;
        if (p->form.is_view && p->space == KTIR_HBM) bytes = c->placed[placed++].bytes;
        if (!p->form.is_written || !c->values[n].bytes) continue;
        if (p->form.is_view && p->space != KTIR_HBM) TRY(place_of(c, p, &bytes));
        TRY(kernel_to_host(p, &c->values[n], bytes));
    }
    return NULL;
}

static spyre_status begin(call_memory *c)
{
    c->argument = calloc(c->arguments + 1, sizeof *c->argument);
    TRY_ALLOC(c->argument);
    for (uint32_t n = 0; n < c->arguments; n++) TRY(begin_argument(c, n));
    TRY(begin_lx(c));
    TRY(begin_placed(c));
    return begin_views(c);
}

static void end(call_memory *c)
{
    for (uint32_t n = 0; c->argument && n < c->arguments; n++) free(c->argument[n].bytes);
    for (uint32_t n = 0; c->lx && n < c->tiles; n++) free(c->lx[n].bytes);
    for (uint32_t n = 0; c->placed && n < c->placed_count; n++) free(c->placed[n].bytes);
    free(c->placed);
    free(c->argument);
    free(c->lx);
}

spyre_status spyre_ktir_interpret(const spyre_ktir *kernel, const spyre_ktir_options *options,
                                  const spyre_ktir_value *values)
{
    ktir_call call = {.most_steps = options->most_steps};
    TRY(kernel_function(kernel, options, &call.function, call.grid, &call.grid_rank));
    call_memory c = {.parameters = &kernel->parameters[options->function], .values = values,
                     .arguments = call.function->body.argument_count, .tiles = 1};
    for (uint32_t d = 0; d < call.grid_rank; d++) c.tiles *= (uint32_t)call.grid[d];
    spyre_status status = begin(&c);
    call.arguments = c.argument;
    call.placed = c.placed;
    call.placed_count = c.placed_count;
    call.lx = c.lx;
    if (!status) status = ktir_run(kernel->m, &call);
    if (!status) status = give_back(&c);
    end(&c);
    return status;
}
