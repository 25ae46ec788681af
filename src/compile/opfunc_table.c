// SPDX-License-Identifier: Apache-2.0
//
// The rows of opfunc.def behind the public interface.
#include "graph/aten.h"
#include "spyre/opfunc.h"
#include "tensor/opfunc.h"

static const char *kind_name(opfunc_kind kind)
{
    static const char *const names[] = {
        [OPFUNC_KIND_UNARY] = "unary",         [OPFUNC_KIND_BINARY] = "binary",
        [OPFUNC_KIND_TERNARY] = "ternary",     [OPFUNC_KIND_PARAMETRIC] = "parametric",
        [OPFUNC_KIND_NORM] = "norm",           [OPFUNC_KIND_COPY] = "copy",
        [OPFUNC_KIND_REDUCTION] = "reduction", [OPFUNC_KIND_MATMUL] = "matmul",
        [OPFUNC_KIND_RANK] = "rank",           [OPFUNC_KIND_POOL] = "pool",
        [OPFUNC_KIND_MASK] = "mask",           [OPFUNC_KIND_SCAN] = "scan",
    };
    return names[kind];
}

bool spyre_opfunc_at(uint32_t index, spyre_opfunc_info *out)
{
    if (index >= OPFUNC_COUNT) return false;
    const opfunc_info *row = opfunc_describe((opfunc)index);
    bool is_published = opfunc_is_published((opfunc)index);
    *out = (spyre_opfunc_info){.name = row->name,
                               .class_of = is_published ? SPYRE_OPFUNC_PUBLISHED
                                                        : SPYRE_OPFUNC_OWN,
                               .kind = kind_name(row->kind),
                               .least_inputs = row->least_inputs,
                               .most_inputs = row->most_inputs,
                               .meaning = opfunc_meaning((opfunc)index)};
    for (uint32_t p = 0; p < SPYRE_OPFUNC_PARAMETERS; p++) out->parameters[p] = row->parameter[p];
    return true;
}

bool spyre_opfunc_takes(uint32_t index, spyre_dtype dtype, bool extended)
{
    if (index >= OPFUNC_COUNT) return false;
    for (int op = 0; op < ATEN_NATIVE_COUNT; op++) {
        bool is_row = aten_describe((aten_op)op)->opfunc == (opfunc)index;
        if (is_row && aten_takes((aten_op)op, dtype, extended)) return true;
    }
    return false;
}

const char *spyre_opfunc_class_name(spyre_opfunc_class class_of)
{
    static const char *const names[] = {"published", "own"};
    return names[class_of];
}
