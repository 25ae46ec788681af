// SPDX-License-Identifier: Apache-2.0
//
// Opfuncs of one SEN169_FP16 element as tables of their 65,536 results.
#include "tensor/opfunc.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/numeric.h"

enum { DL16_CODES = 1 << 16, BLOCK = 256 };

uint16_t *opfunc_dl16_table_build(opfunc op, const float *parameters)
{
    uint16_t *codes = malloc(DL16_CODES * sizeof *codes);
    if (!codes) return NULL;
    for (uint32_t first = 0; first < DL16_CODES; first += BLOCK) {
        double x[BLOCK], result[BLOCK], none[BLOCK] = {0};
        const double *const inputs[] = {x, none, none};
        for (uint32_t n = 0; n < BLOCK; n++) x[n] = (double)dl16_to_float((uint16_t)(first + n));
        opfunc_apply_lanes(op, result, inputs, parameters, BLOCK);
        for (uint32_t n = 0; n < BLOCK; n++)
            element_store(&codes[first + n], SPYRE_FORMAT_SEN169_FP16, result[n]);
    }
    return codes;
}

const uint16_t *opfunc_dl16_table(opfunc op)
{
    static _Atomic(uint16_t *) tables[OPFUNC_COUNT];
    assert(opfunc_describe(op)->kind == OPFUNC_KIND_UNARY);
    uint16_t *present = atomic_load_explicit(&tables[op], memory_order_acquire);
    if (present) return present;
    uint16_t *fresh = opfunc_dl16_table_build(op, NULL);
    if (!fresh) return NULL;
    // Threads may build the same table at once; the first to publish it wins.
    if (atomic_compare_exchange_strong(&tables[op], &present, fresh)) return fresh;
    free(fresh);
    return present;
}

typedef struct {
    opfunc op;
    float parameters[OPFUNC_MAX_PARAMETERS];
    uint16_t *codes;
} parametric_table;

static const uint16_t *parametric_dl16_table(opfunc op, const float *parameters)
{
    static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
    static parametric_table tables[OPFUNC_PARAMETRIC_TABLES];
    static size_t count;
    const uint16_t *found = NULL;
    pthread_mutex_lock(&guard);
    for (size_t n = 0; n < count && !found; n++) {
        const parametric_table *t = &tables[n];
        if (t->op == op && memcmp(t->parameters, parameters, sizeof t->parameters) == 0)
            found = t->codes;
    }
    if (!found && count < OPFUNC_PARAMETRIC_TABLES) {
        parametric_table fresh = {.op = op, .codes = opfunc_dl16_table_build(op, parameters)};
        memcpy(fresh.parameters, parameters, sizeof fresh.parameters);
        if (fresh.codes) tables[count++] = fresh;
        found = fresh.codes;
    }
    pthread_mutex_unlock(&guard);
    return found;
}

const uint16_t *opfunc_dl16_table_of(opfunc op, const float *parameters)
{
    bool is_unary = opfunc_describe(op)->kind == OPFUNC_KIND_UNARY;
    return is_unary ? opfunc_dl16_table(op) : parametric_dl16_table(op, parameters);
}
