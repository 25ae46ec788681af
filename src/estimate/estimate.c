// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "estimate/division.h"
#include "estimate/picture.h"

enum { MOST_BATCH = 4096, MOST_TOKENS = 1 << 20, CONFIG_LIMIT_BYTES = 1 << 20 };

spyre_estimate_options spyre_estimate_options_default(void)
{
    return (spyre_estimate_options){.cards = 8, .batch = 16, .prompt = 2048, .context = 4096};
}

static spyre_status check_range(const char *name, uint32_t value, uint32_t least, uint32_t most)
{
    if (value >= least && value <= most) return NULL;
    return status_new(SPYRE_INVALID_ARGUMENT, "%s %u: must be %u..%u", name, value, least, most);
}

static spyre_status check_options(const spyre_estimate_options *o)
{
    TRY(check_range("--cards", o->cards, 1, SPYRE_ESTIMATE_MOST_CARDS));
    TRY(check_range("--tp", o->tensor, 0, o->cards));
    TRY(check_range("--pp", o->pipeline, 0, o->cards));
    TRY(check_range("--batch", o->batch, 1, MOST_BATCH));
    TRY(check_range("--prompt", o->prompt, 1, MOST_TOKENS));
    return check_range("--context", o->context, o->prompt, MOST_TOKENS);
}

typedef struct {
    division *items;
    uint32_t count;
} divisions;

// Those that were asked for, in ascending order of tensor and pipeline.
static spyre_status list_divisions(const estimate_model *m, const spyre_estimate_options *o,
                                   divisions *out)
{
    char reason[160] = "";
    out->items = calloc(32 * 32, sizeof *out->items);
    TRY_ALLOC(out->items);
    for (uint32_t t = o->tensor ? o->tensor : 1; t <= o->cards; t *= 2) {
        for (uint32_t p = o->pipeline ? o->pipeline : 1; p <= o->cards; p *= 2) {
            if (division_is_possible(m, o, t, p, reason))
                out->items[out->count++] = (division){.tensor = t, .pipeline = p,
                                                      .copies = o->cards / (t * p)};
            if (o->pipeline) break;
        }
        if (o->tensor) break;
    }
    return out->count ? NULL : status_new(SPYRE_INVALID_ARGUMENT, "%s", reason);
}

static double percent(double part, double whole)
{
    return whole > 0 ? 100 * part / whole : 0;
}

static void print_phase(const phase_cost *c, double us_of_unit, text *out)
{
    double idle = c->us - c->compute_us - c->memory_us - (c->exchange_us - c->hidden_us);
    text_printf(out, " %10.1f %4.0f %4.0f %4.0f %4.0f %4.0f", c->us / us_of_unit,
                percent(c->compute_us, c->us), percent(c->memory_us, c->us),
                percent(c->exchange_us, c->us), percent(c->hidden_us, c->us),
                percent(idle > 0 ? idle : 0, c->us));
}

static void print_division(const division *d, const spyre_estimate_options *o, text *out)
{
    text_printf(out, "%3u %4u %5u %8.1f", d->tensor, d->pipeline, d->copies, d->bytes / (1 << 30));
    if (!d->fits) {
        text_append(out, "  does not fit\n");
        return;
    }
    double sequences = (double)d->copies * o->batch;
    print_phase(&d->prefill, 1000, out);
    text_printf(out, " %9.0f |", sequences * o->prompt / d->prefill.us * 1e6);
    print_phase(&d->decode, 1000, out);
    text_printf(out, " %9.0f\n", sequences / d->decode.us * 1e6);
}

static void print_table(const estimate_model *m, const spyre_estimate_options *o,
                        const divisions *all, text *out)
{
    text_printf(out, "%s of %lld layers on %u cards; a copy has %u sequences, prompts of "
                "%u tokens, contexts of %u\n", m->kind, (long long)m->layers, o->cards, o->batch,
                o->prompt, o->context);
    text_append(out, "                       prefill of the batch                               | "
                "step of decoding\n"
                " tp   pp  dp      GiB         ms comp  mem exch  hid idle  tokens/s |         ms "
                "comp  mem exch  hid idle  tokens/s\n");
    for (uint32_t i = 0; i < all->count; i++) print_division(&all->items[i], o, out);
    text_append(out, "GiB: weights and cache of the fullest card. Shares in % of the time, of the "
                "busiest stage: kernels that units hold up\n(comp) or the memory (mem); exchanges "
                "(exch), of these behind kernels (hid); idle.\n");
}

static spyre_status price_all(const estimate_model *m, const spyre_estimate_options *o,
                              divisions *all)
{
    price_list *prices = price_list_create(m);
    TRY_ALLOC(prices);
    spyre_status status = NULL;
    for (uint32_t i = 0; i < all->count && !status; i++)
        status = division_price(m, o, prices, &all->items[i]);
    price_list_destroy(prices);
    return status;
}

static spyre_status read_model(const char *path, estimate_model *m)
{
    json_node config;
    TRY(json_read_file(path, CONFIG_LIMIT_BYTES, &config));
    spyre_status status = model_read(&config, m);
    json_close(&config);
    return status;
}

spyre_status spyre_estimate(const char *config_path, const spyre_estimate_options *options,
                            char **out_table, char **out_picture)
{
    estimate_model m;
    divisions all = {0};
    text table = {0}, picture = {0};
    spyre_status status = NULL;
    *out_table = *out_picture = NULL;
    TRY(check_options(options));
    TRY(read_model(config_path, &m));
    TRY_DONE(list_divisions(&m, options, &all));
    TRY_DONE(price_all(&m, options, &all));
    print_table(&m, options, &all, &table);
    picture_draw(&m, options, all.items, all.count, &picture);
    TRY_DONE(text_give(&table, NULL, out_table));
    status = text_give(&picture, NULL, out_picture);
done:
    free(all.items);
    return status;
}
