// SPDX-License-Identifier: Apache-2.0
//
// A layer on `tensor` cards: attention's heads and the MLP's columns are divided, so each of the
// two ends with an all-reduce of its result. A stage has as many layers as the others or one more;
// the first has the embedding, the last the head. What cards of one host exchange goes over their
// link, anything else over the host's network (cost.def).
#include "estimate/division.h"

#include <stdio.h>
#include <stdlib.h>

#include "estimate/timeline.h"
#include "isa/constants.h"
#include "runtime/collective_time.h"

enum { ELEMENT_BYTES = 2, DECODE_ROUNDS = 4 };

bool division_is_possible(const estimate_model *m, const spyre_estimate_options *o,
                          uint32_t tensor, uint32_t pipeline, char reason[160])
{
    const char *what = NULL;
    if (m->heads % tensor) what = "attention heads";
    else if (m->intermediate % tensor) what = "columns of the MLP";
    if (what)
        snprintf(reason, 160, "--tp %u: the %s of the model are no multiple", tensor, what);
    else if (m->kv_heads > (int64_t)tensor && m->kv_heads % tensor)
        snprintf(reason, 160, "--tp %u: the %lld heads of keys are no multiple", tensor,
                 (long long)m->kv_heads);
    else if ((int64_t)pipeline > m->layers)
        snprintf(reason, 160, "--pp %u: the model has %lld layers", pipeline, (long long)m->layers);
    else if (o->cards % (tensor * pipeline))
        snprintf(reason, 160, "--tp %u --pp %u: %u cards are no multiple", tensor, pipeline,
                 o->cards);
    else return true;
    return false;
}

typedef struct {
    const estimate_model *m;
    const division *d;
    part_shape shape;
    part_cost embedding, attention, mlp, head;
    double reduce_us;           // an all-reduce of a layer's result
    double gather_us;           // of the logits
} phase;

static const exchange_link INSIDE = {EXCHANGE_BANDWIDTH, EXCHANGE_LATENCY};
static const exchange_link BETWEEN = {NETWORK_BANDWIDTH, NETWORK_LATENCY};

static const exchange_link *link_of(bool one_host)
{
    return one_host ? &INSIDE : &BETWEEN;
}

static int64_t layers_of(const phase *p, uint32_t stage)
{
    int64_t stages = p->d->pipeline;
    return p->m->layers / stages + (stage < p->m->layers % stages);
}

static double activation_bytes(const phase *p)
{
    return (double)p->shape.sequences * p->shape.tokens * (double)p->m->hidden * ELEMENT_BYTES;
}

// To the next stage; from the last to the first, of decoding, go the tokens that were chosen.
static double send_us(const phase *p, uint32_t stage)
{
    uint32_t next = (stage + 1) % p->d->pipeline;
    bool one_host = stage * p->d->tensor / HOST_CARDS == next * p->d->tensor / HOST_CARDS;
    double bytes = next ? activation_bytes(p) : (double)p->shape.sequences * 8;
    return exchange_us_over(link_of(one_host), SPYRE_COMM_SEND, 2, bytes);
}

static spyre_status price_parts(phase *p, price_list *prices)
{
    bool one_host = p->d->tensor <= HOST_CARDS;
    double logits = (double)p->shape.sequences * (double)p->m->vocabulary * ELEMENT_BYTES;
    TRY(price_list_find(prices, PART_EMBEDDING, &p->shape, &p->embedding));
    TRY(price_list_find(prices, PART_ATTENTION, &p->shape, &p->attention));
    TRY(price_list_find(prices, PART_MLP, &p->shape, &p->mlp));
    TRY(price_list_find(prices, PART_HEAD, &p->shape, &p->head));
    p->reduce_us = exchange_us_over(link_of(one_host), SPYRE_COMM_ALL_REDUCE, p->d->tensor,
                                    activation_bytes(p));
    p->gather_us = exchange_us_over(link_of(one_host), SPYRE_COMM_ALL_GATHER, p->d->tensor,
                                    logits / p->d->tensor);
    return NULL;
}

static void add(timeline_step *steps, uint32_t *count, timeline_resource resource, double us)
{
    if (us > 0) steps[(*count)++] = (timeline_step){resource, us};
}

static uint32_t write_steps(const phase *p, uint32_t stage, bool repeats, timeline_step *steps)
{
    uint32_t count = 0;
    bool last = stage + 1 == p->d->pipeline;
    if (stage == 0) add(steps, &count, TIMELINE_CARD, p->embedding.us);
    for (int64_t l = 0; l < layers_of(p, stage); l++) {
        add(steps, &count, TIMELINE_CARD, p->attention.us);
        add(steps, &count, TIMELINE_LINK, p->reduce_us);
        add(steps, &count, TIMELINE_CARD, p->mlp.us);
        add(steps, &count, TIMELINE_LINK, p->reduce_us);
    }
    if (last) add(steps, &count, TIMELINE_CARD, p->head.us);
    if (last) add(steps, &count, TIMELINE_LINK, p->gather_us);
    if (p->d->pipeline > 1 && (!last || repeats))
        add(steps, &count, TIMELINE_LINK, send_us(p, stage));
    return count;
}

static double memory_us(const phase *p, uint32_t stage)
{
    double us = (double)layers_of(p, stage) * (p->attention.memory_us + p->mlp.memory_us);
    if (stage == 0) us += p->embedding.memory_us;
    if (stage + 1 == p->d->pipeline) us += p->head.memory_us;
    return us;
}

static spyre_status simulate(const phase *p, uint32_t rounds, phase_cost *out)
{
    uint32_t most = 4 * (uint32_t)layers_of(p, 0) + 4, stages = p->d->pipeline;
    timeline_step *steps = calloc((size_t)most * stages, sizeof *steps);
    timeline_stage *all = calloc(stages, sizeof *all);
    timeline_result found, other;
    spyre_status status = NULL;
    TRY_DONE(steps && all ? NULL : status_new(SPYRE_OUT_OF_MEMORY, "out of host memory"));
    for (uint32_t s = 0; s < stages; s++) {
        timeline_step *first = steps + (size_t)most * s;
        all[s] = (timeline_stage){first, write_steps(p, s, rounds > 1, first)};
    }
    TRY_DONE(timeline_simulate(all, stages, out->micro_batches, rounds, false, &found));
    TRY_DONE(timeline_simulate(all, stages, out->micro_batches, rounds, true, &other));
    if (other.us < found.us) found = other;
    out->us = found.us;
    out->memory_us = out->micro_batches * memory_us(p, found.stage);
    out->compute_us = found.card_us - out->memory_us;
    out->exchange_us = found.link_us;
    out->hidden_us = found.hidden_us;
done:
    free(steps);
    free(all);
    return status;
}

// The largest number of equal micro-batches up to `most`.
static uint32_t micro_batches(uint32_t batch, uint32_t most)
{
    uint32_t count = most < batch ? most : batch;
    while (batch % count) count--;
    return count;
}

static spyre_status price_phase(const estimate_model *m, const spyre_estimate_options *o,
                                price_list *prices, const division *d, bool decode,
                                phase_cost *out)
{
    // A prompt at a time keeps the units busy; a step of decoding reads all weights whatever the
    // number of sequences, so there are only as many micro-batches as stages.
    out->micro_batches = micro_batches(o->batch, decode ? d->pipeline : o->batch);
    phase p = {.m = m, .d = d,
               .shape = {d->tensor, o->batch / out->micro_batches, decode ? 1 : o->prompt,
                         decode ? o->context : o->prompt}};
    TRY(price_parts(&p, prices));
    return simulate(&p, decode ? DECODE_ROUNDS : 1, out);
}

static double bytes_on_a_card(const estimate_model *m, const spyre_estimate_options *o,
                              const division *d)
{
    double layers = (double)((m->layers + d->pipeline - 1) / d->pipeline);
    double width = (double)(model_kv_heads(m, d->tensor) * m->head_dim);
    double cache = 2.0 * o->batch * o->context * width;
    double vocabulary = model_vocabulary_weights(m);   // the first stage has all of the embedding
    if (d->pipeline == 1) vocabulary += vocabulary / d->tensor;
    return ELEMENT_BYTES * (layers * (model_layer_weights(m) / d->tensor + cache) + vocabulary);
}

spyre_status division_price(const estimate_model *m, const spyre_estimate_options *o,
                            price_list *prices, division *d)
{
    d->bytes = bytes_on_a_card(m, o, d);
    d->fits = d->bytes <= (double)GEOMETRY_MEMORY_BYTES;
    if (!d->fits) return NULL;
    TRY(price_phase(m, o, prices, d, false, &d->prefill));
    return price_phase(m, o, prices, d, true, &d->decode);
}
