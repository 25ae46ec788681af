// SPDX-License-Identifier: Apache-2.0
//
// Opfuncs whose result at an index needs the inputs at that index only: arithmetic in fp64 with one
// rounding at the store, native integers, copies, relayouts, and rows that an index chooses.
#include <string.h>

#include "bundle/step_facts.h"
#include "bundle/execution.h"
#include "tensor/accumulate.h"
#include "tensor/format.h"

// --- Integers

static uint64_t load_integer(const uint8_t *element, spyre_format format)
{
    uint64_t wide;
    if (format != SPYRE_FORMAT_IEEE_INT64) return (uint64_t)(int64_t)element_load(element, format);
    memcpy(&wide, element, sizeof wide);
    return wide;
}

// Keeps the low bits.
static void store_wrapped(uint8_t *element, uint32_t bytes, uint64_t value)
{
    for (uint32_t i = 0; i < bytes; i++) element[i] = (uint8_t)(value >> 8 * i);
}

static bool wraps(opfunc op)
{
    return op == OPFUNC_ADD || op == OPFUNC_SUB || op == OPFUNC_MUL || op == OPFUNC_NEG ||
           op == OPFUNC_ABS || op == OPFUNC_IDENTITY;
}

static uint64_t integer_result(opfunc op, uint64_t a, uint64_t b)
{
    if (op == OPFUNC_ADD) return a + b;
    if (op == OPFUNC_SUB) return a - b;
    if (op == OPFUNC_MUL) return a * b;
    if (op == OPFUNC_NEG) return 0 - a;
    if (op == OPFUNC_ABS) return (int64_t)a < 0 ? 0 - a : a;
    return a;
}

static bool is_native_integer(const bundle_step *step)
{
    spyre_format output = step->tensors[step->output].format;
    if (!wraps(step->op) || format_class_of(output) != FORMAT_INTEGER) return false;
    for (uint32_t i = 0; i < step->input_count; i++) {
        spyre_format input = step->tensors[step->inputs[i]].format;
        if (format_class_of(input) != FORMAT_INTEGER) return false;
    }
    return true;
}

static spyre_status integer_element(const execution *x, uint32_t core, const int64_t *index)
{
    const bundle_step *step = x->step;
    uint64_t inputs[OPFUNC_MAX_INPUTS] = {0};
    uint8_t *element;
    for (uint32_t i = 0; i < step->input_count; i++) {
        TRY(execution_place(x, step->inputs[i], core, index, 0, &element));
        inputs[i] = load_integer(element, step->tensors[step->inputs[i]].format);
    }
    TRY(execution_place(x, step->output, core, index, 0, &element));
    store_wrapped(element, step->tensors[step->output].element_bytes,
                  integer_result(step->op, inputs[0], inputs[1]));
    return NULL;
}

// --- Floats and copies

static spyre_status float_element(const execution *x, uint32_t core, const int64_t *index,
                                  const float *parameters)
{
    const bundle_step *step = x->step;
    double inputs[OPFUNC_MAX_INPUTS];
    for (uint32_t i = 0; i < step->input_count; i++) {
        TRY(execution_load(x, step->inputs[i], core, index, &inputs[i]));
    }
    if (execution_masked(x, core, index))
        inputs[0] = bundle_constant_value(step, (uint32_t)step->mask_constant);
    double result = opfunc_apply(step->op, inputs, step->input_count, parameters);
    return execution_store(x, core, index, 0, result);
}

// Two neighbours make a byte; the second of them is done with the first.
static spyre_status pair_element(const execution *x, uint32_t core, const int64_t *index,
                                 const float *parameters)
{
    const bundle_step *step = x->step;
    const bundle_tensor *out = &step->tensors[step->output];
    uint32_t d = bundle_pair_dim(out);
    int64_t second[BUNDLE_MAX_DIMS];
    uint8_t *element;
    double inputs[2];
    if (index[d] % 2) return NULL;
    memcpy(second, index, sizeof second);
    second[d]++;
    TRY(execution_load(x, step->inputs[0], core, index, &inputs[0]));
    TRY(execution_load(x, step->inputs[0], core, second, &inputs[1]));
    TRY(execution_place(x, step->output, core, index, 0, &element));
    element_store(element, SPYRE_FORMAT_SENINT8, opfunc_apply(step->op, inputs, 2, parameters));
    return NULL;
}

// Data of one format may travel under the name of another, so equal formats copy bits.
static bool is_bit_copy(const bundle_step *step)
{
    if (opfunc_describe(step->op)->kind != OPFUNC_KIND_COPY) return false;
    return step->tensors[step->inputs[0]].format == step->tensors[step->output].format;
}

static spyre_status copy_element(const execution *x, uint32_t core, const int64_t *index)
{
    uint8_t *source, *target;
    TRY(execution_place(x, x->step->inputs[0], core, index, 0, &source));
    TRY(execution_place(x, x->step->output, core, index, 0, &target));
    memmove(target, source, x->step->tensors[x->step->output].element_bytes);
    return NULL;
}

// What lies beyond the real extent of any tensor of a relayout is neither read nor written.
static bool is_valid(const execution *x, uint32_t core, const int64_t *index)
{
    for (uint32_t t = 0; t < x->step->tensor_count; t++) {
        for (uint32_t d = 0; d < x->step->dim_count; d++) {
            int64_t whole = bundle_slice_start(x->step, core, d) + index[d];
            if (whole >= x->operands[t].geometry.valid[d]) return false;
        }
    }
    return true;
}

spyre_status interpret_pointwise(execution *x)
{
    const opfunc_info *info = opfunc_describe(x->step->op);
    float parameters[OPFUNC_MAX_PARAMETERS] = {0.0f};
    for (uint32_t i = 0; i < opfunc_constant_count(x->step->op, x->step->input_count); i++) {
        int32_t number = bundle_find_constant(x->step, info->parameter[i]);
        parameters[i] = bundle_constant_value(x->step, (uint32_t)number);
    }
    bool copies = is_bit_copy(x->step), integer = is_native_integer(x->step);
    bool step_is_ragged = x->step->op == OPFUNC_RESTICKIFY;
    for (uint32_t core = 0; core < x->step->cores->core_count; core++) {
        execution_begin_core(x, core);
        int64_t index[BUNDLE_MAX_DIMS] = {0};
        do {
            if (step_is_ragged && !is_valid(x, core, index)) continue;
            if (copies) TRY(copy_element(x, core, index));
            else if (integer) TRY(integer_element(x, core, index));
            else if (opfunc_makes_pairs(x->step->op))
                TRY(pair_element(x, core, index, parameters));
            else TRY(float_element(x, core, index, parameters));
        } while (odometer_next_of(x->kept, x->kept_count, x->local, index));
    }
    return NULL;
}

// --- layernormscale

// The moments are in lanes 0 and 1 of their stick. They are read once before any lane is written,
// because the result may take their place.
spyre_status interpret_layernormscale(execution *x)
{
    const bundle_step *step = x->step;
    uint8_t source = step->inputs[0];
    uint8_t lane_dim = step->tensors[source].stick_dim, rows[BUNDLE_MAX_DIMS];
    spyre_format format = step->tensors[source].format;
    float eps = bundle_constant_value(step, (uint32_t)bundle_find_constant(step, "eps"));
    uint32_t row_count = 0;
    bool all_lanes = false;
    for (uint32_t i = 0; i < x->kept_count; i++) {
        if (x->kept[i] == lane_dim) all_lanes = true;
        else rows[row_count++] = x->kept[i];
    }
    for (uint32_t core = 0; core < step->cores->core_count; core++) {
        execution_begin_core(x, core);
        int64_t index[BUNDLE_MAX_DIMS] = {0};
        do {
            uint8_t *mean, *mean_square;
            TRY(execution_place(x, source, core, index, 0, &mean));
            TRY(execution_place(x, source, core, index, 1, &mean_square));
            double scale = opfunc_layernormscale(element_load(mean, format),
                                                 element_load(mean_square, format), eps);
            do {
                TRY(execution_store(x, core, index, 0, scale));
            } while (odometer_next_of(&lane_dim, all_lanes, x->local, index));
        } while (odometer_next_of(rows, row_count, x->local, index));
    }
    return NULL;
}

// --- Rows that an index chooses

// Byte offset of an index of the whole tensor, the indexed dim replaced.
static int64_t value_offset(const execution *x, uint32_t core, uint32_t value, int32_t indexed,
                            int64_t position, const int64_t *index)
{
    const operand *o = &x->operands[value];
    int64_t bits = 0;
    for (uint32_t d = 0; d < x->step->dim_count; d++) {
        if (!o->geometry.moves[d]) continue;
        int64_t i = bundle_slice_start(x->step, core, d) + index[d];
        if ((int32_t)d == indexed) i = position;
        bits += bundle_offset_bits(o->tensor, &o->geometry, d, i);
    }
    return bits / 8;
}

// Front-ends compute the per-core start addresses of a value tensor as if its indexed dim were as
// long as the index. Only the lowest of them means something: the start of the whole tensor.
static int64_t lowest_start(const execution *x, const bundle_tensor *value)
{
    int64_t lowest = execution_start(x, value, 0);
    for (uint32_t core = 1; core < x->step->cores->core_count; core++) {
        int64_t start = execution_start(x, value, core);
        if (start < lowest) lowest = start;
    }
    return lowest;
}

spyre_status interpret_rows(execution *x)
{
    const bundle_step *step = x->step;
    uint32_t value = bundle_value_tensor(step), index_tensor = step->indices[0];
    bool scatters = value == step->output;
    uint32_t rows = scatters ? step->inputs[0] : step->output;
    int32_t indexed = bundle_indexed_dim(step, value);
    int64_t base = lowest_start(x, &step->tensors[value]);
    int64_t extent = x->operands[value].geometry.valid[indexed];
    for (uint32_t core = 0; core < step->cores->core_count; core++) {
        execution_begin_core(x, core);
        int64_t index[BUNDLE_MAX_DIMS] = {0};
        do {
            uint8_t *element, *row, *other;
            TRY(execution_place(x, index_tensor, core, index, 0, &element));
            int64_t position =
                (int64_t)load_integer(element, step->tensors[index_tensor].format);
            if (position < 0 || position >= extent) {
                return status_new(SPYRE_DEVICE_FAULT,
                                  "%s, core %u: index %lld is outside of dim %s of %s (extent "
                                  "%lld)",
                                  step->tensors[index_tensor].name, core, (long long)position,
                                  step->dim_name[indexed], step->tensors[value].name,
                                  (long long)extent);
            }
            int64_t offset = base + value_offset(x, core, value, indexed, position, index);
            TRY(execution_place_offset(x, value, core, index, offset, &row));
            TRY(execution_place(x, rows, core, index, 0, &other));
            if (opfunc_accumulates(step->accumulator))
                accumulate_element(step->accumulator, row, step->tensors[value].format, other,
                                   step->tensors[rows].format);
            else memmove(scatters ? row : other, scatters ? other : row,
                         step->tensors[value].element_bytes);
        } while (odometer_next_of(x->kept, x->kept_count, x->local, index));
    }
    return NULL;
}
