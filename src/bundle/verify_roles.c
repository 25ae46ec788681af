// SPDX-License-Identifier: Apache-2.0
//
// What an opfunc wants of its operands: their number, formats and dims, its constants, masks, and
// the two tensors of a gather.
#include "bundle/verify.h"

#include <string.h>

#include "bundle/step_facts.h"
#include "tensor/accumulate.h"
#include "tensor/format.h"
#include "tensor/ranking.h"
#include "tensor/running_value.h"

enum { MOST_RANKS = 1 << 20 };

static bool is_one_of(const uint8_t *numbers, uint32_t count, uint32_t number)
{
    for (uint32_t i = 0; i < count; i++) {
        if (numbers[i] == number) return true;
    }
    return false;
}

spyre_status verify_operands(const bundle_step *step)
{
    const opfunc_info *info = opfunc_describe(step->op);
    if (step->input_count < info->least_inputs || step->input_count > info->most_inputs) {
        return RULE("inputLabeledDs: %u inputs, %s has %u to %u", step->input_count, info->name,
                    info->least_inputs, info->most_inputs);
    }
    if (step->output >= step->tensor_count) {
        return RULE("outputLabeledDs: tensor %u of %u", step->output, step->tensor_count);
    }
    for (uint32_t i = 0; i < step->input_count; i++) {
        if (step->inputs[i] >= step->tensor_count) {
            return RULE("inputLabeledDs: tensor %u of %u", step->inputs[i], step->tensor_count);
        }
        if (step->inputs[i] == step->output) {
            return RULE("inputLabeledDs: %s is the output", step->tensors[step->output].name);
        }
    }
    for (uint32_t t = 0; t < step->tensor_count; t++) {
        bool used = t == step->output || is_one_of(step->inputs, step->input_count, t) ||
                    is_one_of(step->indices, step->index_count, t);
        if (!used) return RULE("computeOp_: %s is neither input nor output", step->tensors[t].name);
    }
    return NULL;
}

static spyre_status verify_constants(const bundle_step *step)
{
    const opfunc_info *info = opfunc_describe(step->op);
    if (step->constant_count > BUNDLE_MAX_CONSTANTS) {
        return RULE("constantInfo_: %u constants", step->constant_count);
    }
    for (uint32_t i = 0; i < step->constant_count; i++) {
        if (!memchr(step->constants[i].name, 0, sizeof step->constants[i].name)) {
            return RULE("constantInfo_: a name is too long");
        }
        if (format_class_of(step->constants[i].format) == FORMAT_NONE ||
            spyre_format_bytes(step->constants[i].format) > sizeof step->constants[i].bits) {
            return status_new(SPYRE_UNSUPPORTED, "constantInfo_: %s has format %s",
                              step->constants[i].name,
                              spyre_format_name(step->constants[i].format));
        }
    }
    for (uint32_t i = 0; i < opfunc_constant_count(step->op, step->input_count); i++) {
        if (bundle_find_constant(step, info->parameter[i]) < 0) {
            return RULE("constantInfo_: %s needs a constant %s", info->name, info->parameter[i]);
        }
    }
    return NULL;
}

static spyre_status verify_masks(const bundle *b, const bundle_step *step)
{
    uint8_t reduced[BUNDLE_MAX_DIMS];
    uint32_t reduced_count = bundle_reduced_dims(b, step, reduced), seen = 0;
    bool elementwise = bundle_fills_masked(step);
    if (step->mask_count > BUNDLE_MAX_DIMS) {
        return RULE("coordinateMasking_: %u masks", step->mask_count);
    }
    for (uint32_t i = 0; i < step->mask_count; i++) {
        const bundle_mask *mask = &step->masks[i];
        if (mask->dim >= step->dim_count || seen & 1u << mask->dim) {
            return RULE("coordinateMasking_: a dim is unknown or masked twice");
        }
        seen |= 1u << mask->dim;
        const char *name = step->dim_name[mask->dim];
        bool counts = step->scanned[mask->dim] ||
                      (opfunc_reduces(step->op) && is_one_of(reduced, reduced_count, mask->dim));
        if (!counts && !elementwise) {
            return RULE("coordinateMasking_: dim %s is not reduced", name);
        }
        if (bundle_window_of(step, step->inputs[0], mask->dim)) {
            return RULE("coordinateMasking_: dim %s is a window's", name);
        }
        int64_t size = step->size[mask->dim];
        if (mask->start < 1 || mask->length < 1 || mask->length != size - mask->start) {
            return RULE("coordinateMasking_: [%lld, %lld] is not the end of dim %s of size %lld",
                        (long long)mask->start, (long long)mask->length, name, (long long)size);
        }
    }
    bool fills = elementwise || (step->mask_count > 0 && opfunc_describe(step->op)->kind ==
                                                             OPFUNC_KIND_REDUCTION);
    if (fills && (step->mask_constant < 0 ||
                  (uint32_t)step->mask_constant >= step->constant_count)) {
        return RULE("maskingConstId_: %d is not a constant of the step", step->mask_constant);
    }
    return NULL;
}

// live_lanes count elements of the output's stick dim, from 1 to its size; a step that fills masked
// elements has no unread lanes.
static spyre_status verify_live_lanes(const bundle_step *step)
{
    if (!step->live_lanes) return NULL;
    const bundle_tensor *out = &step->tensors[step->output];
    int64_t size = step->size[out->stick_dim];
    if (out->digit_count || bundle_fills_masked(step)) {
        return RULE("liveLanes_: the output's sticks are of several dims, or masked");
    }
    if (step->live_lanes < 1 || step->live_lanes > size) {
        return RULE("liveLanes_: %lld of dim %s, whose size is %lld",
                    (long long)step->live_lanes, step->dim_name[out->stick_dim], (long long)size);
    }
    return NULL;
}

static bool is_float(spyre_format format)
{
    return format_class_of(format) != FORMAT_INTEGER && format != SPYRE_FORMAT_SENINT4;
}

static bool floats_only(const bundle_step *step)
{
    for (uint32_t i = 0; i < step->input_count; i++)
        if (!is_float(step->tensors[step->inputs[i]].format)) return false;
    return is_float(step->tensors[step->output].format);
}

// The format of both factors that the name of a product says; INVALID: any float.
static spyre_format factor_format(opfunc op)
{
    switch ((int)op) {
    case OPFUNC_BATCHMATMULFP8:
    case OPFUNC_CONV2DFP8: return SPYRE_FORMAT_SEN143_FP8;
    case OPFUNC_BATCHMATMULINT8:
    case OPFUNC_CONV2DINT8: return SPYRE_FORMAT_SENINT8;
    case OPFUNC_BATCHMATMULINT4:
    case OPFUNC_CONV2DINT4: return SPYRE_FORMAT_SENINT4;
    default: return SPYRE_FORMAT_INVALID;
    }
}

// Sums of integers are int32: of products whole or rounded, of elements whole.
static spyre_status verify_factors(const bundle_step *step)
{
    const char *name = opfunc_describe(step->op)->name;
    spyre_format wanted = factor_format(step->op), out = step->tensors[step->output].format;
    bool integers = wanted != SPYRE_FORMAT_INVALID && !is_float(wanted);
    for (uint32_t i = 0; i < step->input_count && wanted != SPYRE_FORMAT_INVALID; i++) {
        const bundle_tensor *factor = &step->tensors[step->inputs[i]];
        if (factor->format == wanted) continue;
        return RULE("dataFormat_: %s of %s", name, spyre_format_name(factor->format));
    }
    bool reduces = accumulate_in_integers(step->op, out, step->tensors[step->inputs[0]].format);
    if (!integers && !reduces && !floats_only(step)) {
        return status_new(SPYRE_UNSUPPORTED, "dataFormat_: %s of integers is not supported", name);
    }
    if (integers && out != SPYRE_FORMAT_SEN169_FP16 && out != SPYRE_FORMAT_IEEE_FP32 &&
        out != SPYRE_FORMAT_IEEE_INT32) {
        return RULE("dataFormat_: %s to %s", name, spyre_format_name(out));
    }
    return NULL;
}

// Positions go into floats, too, where they are exact as far as the format is.
static spyre_status verify_rank(const bundle_step *step, const uint8_t *reduced,
                                uint32_t reduced_count)
{
    const char *name = opfunc_describe(step->op)->name;
    spyre_format input = step->tensors[step->inputs[0]].format;
    spyre_format output = step->tensors[step->output].format;
    bool integer = input == SPYRE_FORMAT_IEEE_INT32;
    bool keeps =
        opfunc_gives_positions(step->op) || integer == (output == SPYRE_FORMAT_IEEE_INT32);
    if (!ranking_takes(input) || !ranking_takes(output) || !keeps) {
        return RULE("dataFormat_: %s from %s to %s", name, spyre_format_name(input),
                    spyre_format_name(output));
    }
    int64_t ranks = 1, candidates = 1;
    for (uint32_t i = 0; i < reduced_count; i++) candidates *= step->size[reduced[i]];
    for (uint32_t d = 0; d < step->dim_count; d++) {
        bool is_rank = bundle_is_rank_dim(step, d);
        if (is_rank) ranks *= step->size[d];
        bool may_split = !is_rank && !is_one_of(reduced, reduced_count, (uint8_t)d);
        if (step->cores->slices[d] == 1 || may_split) continue;
        return RULE("numWkSlicesPerDim_: dim %s of %s cannot be split", step->dim_name[d], name);
    }
    if (reduced_count == 0) return RULE("scale_: %s reduces no dim", name);
    if (ranks > MOST_RANKS || candidates > INT32_MAX) {
        return status_new(SPYRE_UNSUPPORTED, "N_: %s of %lld of %lld, at most %d of 2^31", name,
                          (long long)ranks, (long long)candidates, MOST_RANKS);
    }
    return NULL;
}

// Nothing in a stick is summed up, and of a pool's dims no others than those of its windows; a dim
// of one place, which stands for room in an operand's memory, is no sum.
static spyre_status verify_pool(const bundle_step *step, const uint8_t *reduced,
                                uint32_t reduced_count)
{
    const char *name = opfunc_describe(step->op)->name;
    for (uint32_t i = 0; i < reduced_count; i++) {
        uint32_t d = reduced[i];
        if (!bundle_window_of(step, step->inputs[0], d)) {
            if (step->size[d] == 1) continue;
            return RULE("scale_: %s reduces dim %s, which is not a window's", name,
                        step->dim_name[d]);
        }
        bool factor_moves = step->input_count > 1 && step->tensors[step->inputs[1]].scale[d] > 0;
        if (factor_moves == (step->op == OPFUNC_DEPTHWISECONV2D)) continue;
        if (step->input_count == 1) continue;
        return RULE("scale_: %s %s the window's dim %s", step->tensors[step->inputs[1]].name,
                    factor_moves ? "has" : "lacks", step->dim_name[d]);
    }
    return NULL;
}

static spyre_status verify_mask_dims(const bundle_step *step)
{
    const bundle_tensor *x = &step->tensors[step->inputs[0]];
    const bundle_tensor *index = &step->tensors[step->inputs[1]];
    const bundle_tensor *out = &step->tensors[step->output];
    bool counts = index->format == SPYRE_FORMAT_SEN169_FP16 ||
                  index->format == SPYRE_FORMAT_IEEE_FP32 ||
                  index->format == SPYRE_FORMAT_IEEE_INT32;
    if (!counts || x->format != out->format || !is_float(x->format)) {
        return RULE("dataFormat_: maskbyindex of %s by %s to %s", spyre_format_name(x->format),
                    spyre_format_name(index->format), spyre_format_name(out->format));
    }
    int64_t positions = 1;
    for (uint32_t d = 0; d < step->dim_count; d++) {
        bool scanned = bundle_is_scan_dim(step, d);
        if (scanned) positions *= step->size[d];
        if ((x->scale[d] > 0) != (out->scale[d] > 0)) {
            return RULE("scale_: maskbyindex keeps dim %s", step->dim_name[d]);
        }
        if (step->cores->slices[d] == 1 || (!scanned && out->scale[d] > 0)) continue;
        return RULE("numWkSlicesPerDim_: dim %s of maskbyindex cannot be split", step->dim_name[d]);
    }
    if (positions <= 1 << 24) return NULL;
    return status_new(SPYRE_UNSUPPORTED, "N_: maskbyindex of %lld, at most 2^24",
                      (long long)positions);
}

static spyre_status verify_scan(const bundle_step *step)
{
    const bundle_tensor *x = &step->tensors[step->inputs[0]];
    const bundle_tensor *out = &step->tensors[step->output];
    const char *name = opfunc_describe(step->op)->name;
    int64_t positions = 1;
    if (!running_takes(step->op, x->format, out->format)) {
        return RULE("dataFormat_: %s from %s to %s", name, spyre_format_name(x->format),
                    spyre_format_name(out->format));
    }
    for (uint32_t d = 0; d < step->dim_count; d++) {
        if (step->scanned[d]) positions *= step->size[d];
        if (x->scale[d] > 0 && out->scale[d] <= 0 && step->size[d] > 1) {
            return RULE("scale_: %s keeps dim %s", name, step->dim_name[d]);
        }
        if (step->scanned[d] && out->scale[d] <= 0 && step->size[d] > 1) {
            return RULE("scannedDims_: the output lacks dim %s", step->dim_name[d]);
        }
        if (step->cores->slices[d] == 1 || (!step->scanned[d] && out->scale[d] > 0)) continue;
        return RULE("numWkSlicesPerDim_: dim %s of %s cannot be split", step->dim_name[d], name);
    }
    if (positions <= INT32_MAX) return NULL;
    return status_new(SPYRE_UNSUPPORTED, "N_: %s of %lld, at most 2^31", name,
                      (long long)positions);
}

static spyre_status verify_reduction(const bundle_step *step, const uint8_t *reduced,
                                     uint32_t reduced_count)
{
    const char *name = opfunc_describe(step->op)->name;
    if (opfunc_describe(step->op)->kind == OPFUNC_KIND_RANK) {
        return verify_rank(step, reduced, reduced_count);
    }
    TRY(verify_factors(step));
    if (reduced_count == 0) return RULE("scale_: %s reduces no dim", name);
    if (opfunc_describe(step->op)->kind == OPFUNC_KIND_MATMUL) return NULL;
    if (opfunc_describe(step->op)->kind == OPFUNC_KIND_POOL) {
        return verify_pool(step, reduced, reduced_count);
    }
    for (uint32_t i = 0; step->input_count > 1 && i < reduced_count; i++)
        if (step->tensors[step->inputs[1]].scale[reduced[i]] > 0)
            return RULE("scale_: %s has dim %s, which %s reduces",
                        step->tensors[step->inputs[1]].name, step->dim_name[reduced[i]], name);
    const bundle_tensor *input = &step->tensors[step->inputs[0]];
    bundle_finish finish = bundle_finish_of(step);
    if (finish.clips && !(finish.least <= finish.most)) {
        return RULE("constantInfo_: %s clips to [%g, %g]", name, (double)finish.least,
                    (double)finish.most);
    }
    bool stick = is_one_of(reduced, reduced_count, input->stick_dim);
    if (stick == step->nonstick) {
        return RULE("opFuncName: %s%s, but the stick dim %s is %s", name,
                    step->nonstick ? "nonstick" : "", step->dim_name[input->stick_dim],
                    stick ? "reduced" : "kept");
    }
    return NULL;
}

// What an opfunc converts from and to; INVALID: any format.
typedef struct {
    opfunc op;
    spyre_format from, to;
} conversion;

static const conversion conversions[] = {
    {OPFUNC_DL16TOFP32, SPYRE_FORMAT_SEN169_FP16, SPYRE_FORMAT_IEEE_FP32},
    {OPFUNC_FP32TODL16, SPYRE_FORMAT_IEEE_FP32, SPYRE_FORMAT_SEN169_FP16},
    {OPFUNC_FP8TODL16, SPYRE_FORMAT_SEN143_FP8, SPYRE_FORMAT_SEN169_FP16},
    {OPFUNC_QFP8CH, SPYRE_FORMAT_INVALID, SPYRE_FORMAT_SEN143_FP8},
    {OPFUNC_QFP8MB, SPYRE_FORMAT_INVALID, SPYRE_FORMAT_SEN143_FP8},
    {OPFUNC_QFP8WT, SPYRE_FORMAT_INVALID, SPYRE_FORMAT_SEN143_FP8},
    {OPFUNC_CSQINT8CH, SPYRE_FORMAT_SEN169_FP16, SPYRE_FORMAT_SENINT8},
    {OPFUNC_CSQINT8MB, SPYRE_FORMAT_SEN169_FP16, SPYRE_FORMAT_SENINT8},
    {OPFUNC_CSQINT8WT, SPYRE_FORMAT_SEN169_FP16, SPYRE_FORMAT_SENINT8},
    {OPFUNC_CSQINT4, SPYRE_FORMAT_SEN169_FP16, SPYRE_FORMAT_SENINT4},
    {OPFUNC_CSQINT4WT, SPYRE_FORMAT_SEN169_FP16, SPYRE_FORMAT_SENINT4},
};

static spyre_status verify_formats(const bundle_step *step)
{
    spyre_format input = step->tensors[step->inputs[0]].format;
    spyre_format output = step->tensors[step->output].format;
    spyre_format in = input, out = output;
    for (size_t i = 0; i < sizeof conversions / sizeof *conversions; i++) {
        if (conversions[i].op != step->op) continue;
        if (conversions[i].from != SPYRE_FORMAT_INVALID) in = conversions[i].from;
        out = conversions[i].to;
    }
    if (step->op == OPFUNC_RESTICKIFY || step->op == OPFUNC_SHUFFLE) out = in;
    if (in == input && out == output) return NULL;
    return RULE("dataFormat_: %s from %s to %s", opfunc_describe(step->op)->name,
                spyre_format_name(input), spyre_format_name(output));
}

static spyre_status verify_dims_of_role(const bundle *b, const bundle_step *step)
{
    uint8_t reduced[BUNDLE_MAX_DIMS];
    uint32_t reduced_count = bundle_reduced_dims(b, step, reduced);
    if (opfunc_reduces(step->op)) {
        return verify_reduction(step, reduced, reduced_count);
    }
    if (opfunc_describe(step->op)->kind == OPFUNC_KIND_MASK) return verify_mask_dims(step);
    if (opfunc_describe(step->op)->kind == OPFUNC_KIND_SCAN) return verify_scan(step);
    for (uint32_t d = 0; d < step->dim_count; d++)
        if (step->scanned[d])
            return RULE("scannedDims_: %s does not scan", opfunc_describe(step->op)->name);
    for (uint32_t i = 0; i < reduced_count; i++) {
        uint32_t d = reduced[i];
        if (step->op == OPFUNC_LAYERNORMSCALE || step->size[d] == 1) continue;
        return RULE("scale_: the output lacks dim %s, but %s does not reduce", step->dim_name[d],
                    opfunc_describe(step->op)->name);
    }
    for (uint32_t d = 0; d < step->dim_count; d++) {
        if (step->tensors[step->output].scale[d] > 0 || step->cores->slices[d] == 1) continue;
        if (step->op == OPFUNC_SHUFFLE) continue; // each of them gets one of its own
        return RULE("numWkSlicesPerDim_: cores that split dim %s would all write one output",
                    step->dim_name[d]);
    }
    return verify_formats(step);
}

// A shuffle gives sticks in LX other owners.
static spyre_status verify_shuffle(const bundle_step *step)
{
    if (step->op != OPFUNC_SHUFFLE) return NULL;
    const bundle_tensor *in = &step->tensors[step->inputs[0]];
    const bundle_tensor *out = &step->tensors[step->output];
    if (!in->in_lx || !out->in_lx) return RULE("component_: a shuffle is from LX to LX");
    if (out->owners) {
        return RULE("coordinates_: the owners of a shuffle's output are not those of the step");
    }
    if (in->stick_dim != out->stick_dim) return RULE("stickDimOrder_: a shuffle keeps its sticks");
    for (uint32_t d = 0; d < step->dim_count; d++) {
        if (step->cores->slice_size[d]) {
            return RULE("wkSliceSizePerDim_: a shuffle has equal slices of dim %s",
                        step->dim_name[d]);
        }
        if ((in->scale[d] > 0) != (out->scale[d] > 0) || in->gap[d] || out->gap[d]) {
            return RULE("scale_: a shuffle moves all of dim %s", step->dim_name[d]);
        }
    }
    const bundle_tensor *both[] = {in, out};
    for (uint32_t t = 0; t < 2; t++)
        for (uint32_t core = 1; core < step->cores->core_count; core++)
            if (bundle_start(both[t], core) != both[t]->start)
                return RULE("startAddressCoreCorelet_: a shuffle's tensors lie at one place on "
                            "all cores");
    return NULL;
}

// --- Rows that an index chooses: of the input (a gather) or of the result (a scatter)

static spyre_status verify_rows(const bundle_step *step)
{
    if (step->op != OPFUNC_IDENTITY || step->index_count != 1) {
        return status_new(SPYRE_UNSUPPORTED,
                          "indirectAccessIndexLabeledDs: %u index tensors of %s are not supported",
                          step->index_count, opfunc_describe(step->op)->name);
    }
    uint32_t index = step->indices[0], value = bundle_value_tensor(step);
    if (index >= step->tensor_count || index == step->output || index == step->inputs[0]) {
        return RULE("indirectAccessIndexLabeledDs: tensor %u of %u", index, step->tensor_count);
    }
    const bundle_tensor *i = &step->tensors[index], *v = &step->tensors[value];
    if (i->index_kind != BUNDLE_INDEX_INDEX || v->index_kind != BUNDLE_INDEX_VALUE) {
        return RULE("indirectAllocType_: %s must be the index tensor and %s the value tensor",
                    i->name, v->name);
    }
    if (i->index_peer != (int32_t)value || v->index_peer != (int32_t)index) {
        return RULE("relatedIndirectAccessAlloc_: %s and %s do not name each other", i->name,
                    v->name);
    }
    if (i->format != SPYRE_FORMAT_SENUINT32 && i->format != SPYRE_FORMAT_IEEE_INT32) {
        return RULE("dataFormat_: an index of %s", spyre_format_name(i->format));
    }
    spyre_format from = step->tensors[step->inputs[0]].format;
    bool joins = opfunc_accumulates(step->accumulator);
    if (joins && (value != step->output || !accumulate_takes(step->accumulator, v->format, from))) {
        return RULE("rowAccumulator_: %s of %s into %s", opfunc_describe(step->accumulator)->name,
                    spyre_format_name(from), spyre_format_name(v->format));
    }
    if (!joins &&
        step->tensors[step->inputs[0]].format != step->tensors[step->output].format) {
        return RULE("dataFormat_: %s does not convert %s to %s",
                    value == step->output ? "a scatter" : "a gather",
                    spyre_format_name(step->tensors[step->inputs[0]].format),
                    spyre_format_name(step->tensors[step->output].format));
    }
    if (v->in_lx) {
        return status_new(SPYRE_UNSUPPORTED, "component_: a value tensor in LX is not supported");
    }
    int32_t indexed = bundle_indexed_dim(step, value);
    if (indexed < 0 || v->scale[indexed] < 0) {
        return status_new(SPYRE_UNSUPPORTED,
                          "maxDimSizes_: %s needs exactly one indexed dim (size 1)",
                          v->name);
    }
    if (v->indexed_extent < 0 || v->indexed_extent > LARGEST_ELEMENTS) {
        return RULE("indexedDimSize_: %lld", (long long)v->indexed_extent);
    }
    return NULL;
}

static spyre_status verify_indirect(const bundle_step *step)
{
    if (step->index_count > 0) return verify_rows(step);
    if (opfunc_accumulates(step->accumulator))
        return RULE("rowAccumulator_: the step has no index tensor");
    for (uint32_t t = 0; t < step->tensor_count; t++) {
        if (step->tensors[t].index_kind == BUNDLE_INDEX_NONE) continue;
        return RULE("indirectAllocType_: %s is indirect, but the step has no index tensor",
                    step->tensors[t].name);
    }
    return NULL;
}

spyre_status verify_roles(const bundle *b, const bundle_step *step)
{
    TRY(verify_constants(step));
    TRY(verify_dims_of_role(b, step));
    TRY(verify_masks(b, step));
    TRY(verify_live_lanes(step));
    TRY(verify_shuffle(step));
    return verify_indirect(step);
}
