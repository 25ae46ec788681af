// SPDX-License-Identifier: Apache-2.0
//
// Tables of opfuncs whose parameters are operands, and may be others at the next launch. A table
// costs as much as its 65,536 results, so one is made once as many elements have asked for it; few
// are kept, and the least recently used one that no launch reads gives way.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/opfunc.h"

enum { TABLES = 8, ELEMENTS_OF_A_TABLE = 1 << 16 };

typedef struct {
    opfunc op;
    float parameters[OPFUNC_MAX_PARAMETERS];
    uint16_t *codes;    // null: not made yet
    uint64_t elements;  // that have asked for it
    uint64_t last_used;
    uint32_t readers;
} table;

static struct {
    pthread_mutex_t guard;
    table tables[TABLES];
    uint64_t clock;
} kept = {.guard = PTHREAD_MUTEX_INITIALIZER};

static table *find(opfunc op, const float *parameters)
{
    for (uint32_t n = 0; n < TABLES; n++) {
        table *t = &kept.tables[n];
        bool same = memcmp(t->parameters, parameters, sizeof t->parameters) == 0;
        if (t->elements > 0 && t->op == op && same) return t;
    }
    return NULL;
}

// The one that has not been asked for the longest, emptied; null when all are read.
static table *make_room(opfunc op, const float *parameters)
{
    table *oldest = NULL;
    for (uint32_t n = 0; n < TABLES; n++) {
        table *t = &kept.tables[n];
        if (t->readers == 0 && (!oldest || t->last_used < oldest->last_used)) oldest = t;
    }
    if (!oldest) return NULL;
    free(oldest->codes);
    *oldest = (table){.op = op};
    memcpy(oldest->parameters, parameters, sizeof oldest->parameters);
    return oldest;
}

const uint16_t *opfunc_dl16_table_take(opfunc op, const float *parameters, uint64_t elements)
{
    const uint16_t *codes = NULL;
    pthread_mutex_lock(&kept.guard);
    table *t = find(op, parameters);
    if (!t) t = make_room(op, parameters);
    if (t) {
        t->elements += elements;
        t->last_used = ++kept.clock;
        if (!t->codes && t->elements >= ELEMENTS_OF_A_TABLE)
            t->codes = opfunc_dl16_table_build(op, parameters);
        codes = t->codes;
        t->readers += codes != NULL;
    }
    pthread_mutex_unlock(&kept.guard);
    return codes;
}

void opfunc_dl16_table_give(const uint16_t *codes)
{
    pthread_mutex_lock(&kept.guard);
    for (uint32_t n = 0; n < TABLES; n++)
        if (kept.tables[n].codes == codes) kept.tables[n].readers--;
    pthread_mutex_unlock(&kept.guard);
}
