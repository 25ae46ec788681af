// SPDX-License-Identifier: Apache-2.0
//
// What a call of an operator is known by (eager.c), as bytes: the operator, and of every argument
// its number or its type, view and layout. The values of numbers that are parameters of programs
// stand behind them.
#include <float.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "eager/eager.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

// ---- numbers that are parameters

// The rules of operators by the operator's address, added as Python gets to know operators. Entries
// stay, so that readers need no lock.
enum { MOST_OPERATORS = 1 << 12 };

typedef struct {
    const void *op;
    uint8_t rules[GLUE_MOST_ARGUMENTS];
} operator_rules;

static _Atomic(operator_rules *) operators[MOST_OPERATORS];
static uint32_t operator_count;             // under the lock

static size_t place_of(const void *op)
{
    return (size_t)((uintptr_t)op * UINT64_C(0x9e3779b97f4a7c15) >> 52);
}

const uint8_t *eager_rules_of(const void *op)
{
    for (size_t at = place_of(op);; at = (at + 1) % MOST_OPERATORS) {
        operator_rules *known = atomic_load_explicit(&operators[at], memory_order_acquire);
        if (!known) return NULL;
        if (known->op == op) return known->rules;
    }
}

bool eager_add_rules(const void *op, const char *rules, size_t count)
{
    pthread_mutex_lock(&lock);
    operator_rules *made = NULL;
    bool room = operator_count < MOST_OPERATORS / 2 && count <= GLUE_MOST_ARGUMENTS;
    if (room && !eager_rules_of(op)) made = calloc(1, sizeof *made);
    if (made) {
        size_t at = place_of(op);
        made->op = op;
        memcpy(made->rules, rules, count);
        while (atomic_load(&operators[at])) at = (at + 1) % MOST_OPERATORS;
        atomic_store_explicit(&operators[at], made, memory_order_release);
        operator_count++;
    }
    pthread_mutex_unlock(&lock);
    return !room || made || eager_rules_of(op);
}

// ---- the key

void eager_begin(glue_call *call, const void *op)
{
    call->known = true;
    call->length = 0;
    call->tensor_count = 0;
    call->op = op;
    call->rules = eager_rules_of(op);
    call->range = (spyre_number_range){-(double)FLT_MAX, (double)FLT_MAX};
    call->number_count = call->scalar_count = 0;
    // Integers give floats of the default dtype.
    eager_value(call, (char)glue_default_dtype(), (uint64_t)(uintptr_t)op);
}

static void put(glue_call *call, const void *bytes, size_t count)
{
    if (call->length + count > sizeof call->key) {
        call->known = false;
        return;
    }
    memcpy(call->key + call->length, bytes, count);
    call->length += (uint32_t)count;
}

void eager_value(glue_call *call, char kind, uint64_t bits)
{
    put(call, &kind, sizeof kind);
    put(call, &bits, sizeof bits);
}

void eager_text(glue_call *call, const char *text, size_t bytes)
{
    eager_value(call, 'c', bytes);
    put(call, text, bytes);
}

static void add_number(glue_call *call, size_t index, char kind, uint64_t bits, double value)
{
    if (index < GLUE_MOST_ARGUMENTS && call->number_count < GLUE_MOST_SCALARS)
        call->numbers[call->number_count++] =
            (glue_number){value, call->length, (uint8_t)index, kind == 'i'};
    eager_value(call, kind, bits);
}

void eager_number(glue_call *call, size_t index, char kind, uint64_t bits)
{
    double value;
    if (kind == 'i') value = (double)(int64_t)bits;
    else memcpy(&value, &bits, sizeof value);
    add_number(call, index, kind, bits, value);
}

// A tensor of the host without dimensions: a number to the card.
static void add_number_of_tensor(glue_call *call, size_t index, const tensor_info *t)
{
    uint64_t bits = 0;
    float narrow;
    double value;
    memcpy(&bits, t->base + t->offset * (int64_t)t->element_bytes, t->element_bytes);
    eager_value(call, 's', (uint64_t)t->torch_dtype);
    memcpy(&narrow, &bits, sizeof narrow);
    memcpy(&value, &bits, sizeof value);
    if (t->torch_dtype == aoti_torch_dtype_float64()) add_number(call, index, 'd', bits, value);
    else if (t->torch_dtype == aoti_torch_dtype_float32())
        add_number(call, index, 'd', bits, (double)narrow);
    else if (t->torch_dtype == aoti_torch_dtype_int64())
        add_number(call, index, 'i', bits, (double)(int64_t)bits);
    else eager_value(call, 's', bits);
}

void eager_settle_scalars(glue_call *call)
{
    double like;
    for (uint32_t i = 0; i < call->number_count && call->known; i++) {
        const glue_number *n = &call->numbers[i];
        spyre_scalar_rule rule = (spyre_scalar_rule)call->rules[n->argument];
        if (!rule || !spyre_scalar_like(rule, n->value, n->is_int, call->range, &like)) continue;
        uint8_t *place = call->key + n->at;
        call->scalars[call->scalar_count++] = n->value;
        *place = n->is_int ? 'I' : 'D';
        memcpy(place + 1, &like, sizeof like);
    }
    size_t bytes = call->scalar_count * sizeof *call->scalars;
    call->known = call->known && call->length + bytes <= sizeof call->key;
    if (call->known) memcpy(call->key + call->length, call->scalars, bytes);
}

uint32_t eager_length_with_values(const glue_call *call)
{
    return call->length + call->scalar_count * (uint32_t)sizeof *call->scalars;
}

void eager_tensor(glue_call *call, size_t index, const void *tensor)
{
    const void *identity = glue_identity(tensor);
    for (uint32_t i = 0; i < call->tensor_count; i++) {
        if (call->identities[i] != identity) continue;
        eager_value(call, '=', i);
        return;
    }
    tensor_info t;
    if (!tensor_describe(tensor_handle(tensor), &t) || call->tensor_count == GLUE_MOST_TENSORS) {
        call->known = false;
        return;
    }
    bool number = t.device_type == aoti_torch_device_type_cpu() && t.rank == 0 && t.base &&
                  t.element_bytes <= sizeof(uint64_t);
    if (number) {
        add_number_of_tensor(call, index, &t);
        return;
    }
    dtype_narrow_range(t.torch_dtype, &call->range);
    const bool on_card = t.device_type == aoti_torch_device_type_privateuse1();
    call->known = call->known && (t.storage ? t.storage->typed : on_card && t.numel == 0);
    if (!call->known) return;
    if (call->tensor_count == 0)
        call->card = t.storage ? t.storage->card : (uint32_t)t.device_index;
    eager_value(call, 't', 0);
    call->length += (uint32_t)tensor_write_key(&t, call->key + call->length,
                                               sizeof call->key - call->length);
    call->known = call->length < sizeof call->key;
    call->storages[call->tensor_count] = t.storage;
    call->identities[call->tensor_count] = identity;
    call->tensors[call->tensor_count++] = tensor;
}
