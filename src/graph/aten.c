// SPDX-License-Identifier: Apache-2.0
#include "graph/aten.h"

#include <string.h>

static const aten_row ROWS[ATEN_COUNT] = {
#define ATEN_NATIVE(id, name_, kind_, opfunc_, dtypes_, result_, doc_)                             \
    [ATEN_##id] = {.name = name_,                                                                  \
                   .layer = GRAPH_LAYER_NATIVE,                                                    \
                   .doc = doc_,                                                                    \
                   .kind = ATEN_KIND_##kind_,                                                      \
                   .dtypes = (dtypes_),                                                            \
                   .result = ATEN_RESULT_##result_,                                                \
                   .opfunc = OPFUNC_##opfunc_},
#define ATEN_VIEW(id, name_, doc_)                                                                 \
    [ATEN_##id] = {.name = name_, .layer = GRAPH_LAYER_VIEW, .doc = doc_, .opfunc = OPFUNC_NONE},
#define ATEN_REWRITE(id, name_, handler_, opfunc_, doc_)                                           \
    [ATEN_##id] = {.name = name_,                                                                  \
                   .layer = GRAPH_LAYER_DECOMPOSITION,                                             \
                   .doc = doc_,                                                                    \
                   .opfunc = OPFUNC_##opfunc_},
#define ATEN_HOST(id, name_, doc_)                                                                 \
    [ATEN_##id] = {.name = name_, .layer = GRAPH_LAYER_HOST, .doc = doc_, .opfunc = OPFUNC_NONE},
#include "graph/aten.def"
};

const aten_row *aten_describe(aten_op op)
{
    return &ROWS[op];
}

bool aten_named(const char *name, aten_op *out_op)
{
    for (uint32_t i = 0; i < ATEN_COUNT; i++) {
        if (strcmp(ROWS[i].name, name) != 0) continue;
        *out_op = (aten_op)i;
        return true;
    }
    return false;
}

const char *spyre_op_name(uint32_t index)
{
    uint32_t row = index + (uint32_t)ATEN_NATIVE_COUNT;
    if (index >= (uint32_t)ATEN_COUNT - (uint32_t)ATEN_NATIVE_COUNT) return NULL;
    return aten_describe((aten_op)row)->name;
}
