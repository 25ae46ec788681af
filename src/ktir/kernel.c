// SPDX-License-Identifier: Apache-2.0
//
// The public interface to modules.
#include "ktir/kernel.h"

#include <string.h>

#include "base/thread_pool.h"
#include "tensor/convert.h"

static spyre_status open_kernel(spyre_ktir *kernel, const char *source, const char *file)
{
    TRY(ktir_parse(kernel->memory, source, strlen(source), file, &kernel->m));
    TRY(ktir_verify(kernel->m));
    kernel->parameters = ARENA_NEW(kernel->memory, ktir_parameters, kernel->m->functions.count);
    TRY_ALLOC(kernel->parameters);
    for (uint32_t f = 0; f < kernel->m->functions.count; f++)
        TRY(ktir_find_parameters(kernel->m, &kernel->m->functions.items[f],
                                 &kernel->parameters[f]));
    return NULL;
}

spyre_status spyre_ktir_parse(const char *source, const char *file, spyre_ktir **out_kernel)
{
    *out_kernel = NULL;
    arena *memory = arena_create();
    TRY_ALLOC(memory);
    spyre_ktir *kernel = ARENA_NEW(memory, spyre_ktir, 1);
    if (!kernel) {
        arena_destroy(memory);
        return status_no_memory();
    }
    kernel->memory = memory;
    spyre_status status = open_kernel(kernel, source, file);
    if (status) arena_destroy(memory);
    else *out_kernel = kernel;
    return status;
}

void spyre_ktir_destroy(spyre_ktir *kernel)
{
    if (kernel) arena_destroy(kernel->memory);
}

spyre_status spyre_ktir_print(const spyre_ktir *kernel, char **out_text)
{
    text out = {0};
    ktir_print(kernel->m, &out);
    return text_give(&out, NULL, out_text);
}

uint32_t spyre_ktir_function_count(const spyre_ktir *kernel)
{
    return kernel->m->functions.count;
}

const char *spyre_ktir_function_name(const spyre_ktir *kernel, uint32_t function)
{
    return kernel->m->functions.items[function].name;
}

uint32_t spyre_ktir_function_grid(const spyre_ktir *kernel, uint32_t function,
                                  int64_t out_grid[SPYRE_KTIR_MOST_GRID])
{
    const ktir_function *f = &kernel->m->functions.items[function];
    memcpy(out_grid, f->grid, sizeof f->grid);
    return f->grid_rank;
}

uint32_t spyre_ktir_parameter_count(const spyre_ktir *kernel, uint32_t function)
{
    return kernel->parameters[function].count;
}

void spyre_ktir_describe_parameter(const spyre_ktir *kernel, uint32_t function, uint32_t index,
                                   spyre_ktir_parameter *out_parameter)
{
    *out_parameter = kernel->parameters[function].items[index].form;
}

spyre_status kernel_function(const spyre_ktir *kernel, const spyre_ktir_options *options,
                             const ktir_function **out_function, int64_t *out_grid,
                             uint32_t *out_grid_rank)
{
    double tiles = 1;
    if (options->function >= kernel->m->functions.count)
        return status_new(SPYRE_INVALID_ARGUMENT, "function %u of %u", options->function,
                          kernel->m->functions.count);
    const ktir_function *f = *out_function = &kernel->m->functions.items[options->function];
    bool given = options->grid_rank;
    if (options->grid_rank > SPYRE_KTIR_MOST_GRID)
        return status_new(SPYRE_INVALID_ARGUMENT, "a grid of %u dims: it has at most %d",
                          options->grid_rank, SPYRE_KTIR_MOST_GRID);
    *out_grid_rank = given ? options->grid_rank : f->grid_rank;
    for (uint32_t d = 0; d < *out_grid_rank; d++) {
        out_grid[d] = given ? options->grid[d] : f->grid[d];
        if (out_grid[d] < 1)
            return status_new(SPYRE_INVALID_ARGUMENT, "a grid of %lld", (long long)out_grid[d]);
        tiles *= (double)out_grid[d];
    }
    if (tiles <= 4096) return NULL;
    return status_new(SPYRE_INVALID_ARGUMENT, "a grid of %.0f compute tiles: at most 4096", tiles);
}

// --- Host arrays

spyre_status kernel_card_bytes(const ktir_parameter *p, const spyre_ktir_value *value,
                               int64_t *out_bytes)
{
    const ktir_element_info *info = ktir_element_describe(p->element);
    uint32_t host = spyre_dtype_bytes(info->dtype);
    if (value->byte_count < 0 || value->byte_count % host)
        return status_new(SPYRE_INVALID_ARGUMENT, "%s: %lld bytes are no whole number of %s",
                          p->form.name, (long long)value->byte_count,
                          spyre_dtype_name(info->dtype));
    *out_bytes = value->byte_count / host * info->bytes;
    if (!p->form.is_view || !value->bytes || *out_bytes == p->byte_count) return NULL;
    return status_new(SPYRE_INVALID_ARGUMENT, "%s: %lld bytes, the view has %lld", p->form.name,
                      (long long)*out_bytes, (long long)p->byte_count);
}

enum { PIECE_ELEMENTS = 1 << 17 };

typedef struct {
    converter c;
    char *to;
    const char *from;
    size_t elements;
} conversion;

static void convert_piece(void *context, size_t index, uint32_t worker)
{
    const conversion *x = context;
    size_t at = index * PIECE_ELEMENTS, left = x->elements - at;
    (void)worker;
    converter_run(&x->c, x->to + at * x->c.target_bytes, x->from + at * x->c.source_bytes,
                  left < PIECE_ELEMENTS ? left : PIECE_ELEMENTS);
}

static spyre_status convert(conversion *x)
{
    uint32_t threads;
    pool *workers;
    size_t pieces = (x->elements + PIECE_ELEMENTS - 1) / PIECE_ELEMENTS;
    TRY(thread_default_count(&threads));
    if (threads > pieces) threads = pieces ? (uint32_t)pieces : 1;
    TRY(pool_create(threads, &workers));
    pool_run(workers, pieces, convert_piece, x);
    pool_destroy(workers);
    return NULL;
}

spyre_status kernel_to_card(const ktir_parameter *p, const spyre_ktir_value *value, void *card)
{
    const ktir_element_info *info = ktir_element_describe(p->element);
    conversion x = {.to = card, .from = value->bytes,
                    .elements = (size_t)value->byte_count / spyre_dtype_bytes(info->dtype)};
    TRY(converter_find(info->format, spyre_dtype_host_format(info->dtype), &x.c));
    return convert(&x);
}

spyre_status kernel_to_host(const ktir_parameter *p, const spyre_ktir_value *value,
                            const void *card)
{
    const ktir_element_info *info = ktir_element_describe(p->element);
    conversion x = {.to = value->bytes, .from = card,
                    .elements = (size_t)value->byte_count / spyre_dtype_bytes(info->dtype)};
    TRY(converter_find(spyre_dtype_host_format(info->dtype), info->format, &x.c));
    return convert(&x);
}
