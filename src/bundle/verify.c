// SPDX-License-Identifier: Apache-2.0
//
// The rules of a bundle, in the order in which later ones may rely on earlier ones: the iteration
// space, each tensor by itself, what the opfunc wants, the addresses, then the statements.
#include "bundle/verify.h"

#include <string.h>

#include "bundle/step_facts.h"
#include "bundle/interpret.h"
#include "tensor/format.h"

enum { MOST_ITERATIONS = 1 << 24 };

// --- Iteration space and work division

// An uneven division leaves something, but less than the others have, to its last slice.
static spyre_status verify_slices(const bundle_step *step, uint32_t d)
{
    const bundle_division *cores = step->cores;
    int64_t size = step->size[d], length = cores->slice_size[d], slices = cores->slices[d];
    if (length == 0 && (slices < 1 || size % slices != 0)) {
        return RULE("numWkSlicesPerDim_: %lld slices do not divide dim %s of size %lld",
                    (long long)slices, step->dim_name[d], (long long)size);
    }
    bool ends_in_last = length > 0 && length < size && size % length != 0 &&
                        size / length + 1 == slices;
    if (length == 0 || ends_in_last) return NULL;
    return RULE("wkSliceSizePerDim_: %lld slices of %lld do not cover dim %s of size %lld with a "
                "shorter last one",
                (long long)slices, (long long)length, step->dim_name[d], (long long)size);
}

static spyre_status verify_dims(const bundle_step *step)
{
    if (step->dim_count < 1 || step->dim_count > BUNDLE_MAX_DIMS) {
        return RULE("N_: %u dims, 1 to %d are possible", step->dim_count, BUNDLE_MAX_DIMS);
    }
    int64_t elements = 1;
    for (uint32_t d = 0; d < step->dim_count; d++) {
        const char *name = step->dim_name[d];
        if (!name[0] || !memchr(name, 0, sizeof step->dim_name[d])) {
            return RULE("N_: dim %u has no name", d);
        }
        for (uint32_t other = 0; other < d; other++) {
            if (strcmp(name, step->dim_name[other]) == 0) return RULE("N_: two dims %s", name);
        }
        if (step->size[d] < 1) {
            return RULE("N_: dim %s has size %lld, at least 1 is needed", name,
                        (long long)step->size[d]);
        }
        if (__builtin_mul_overflow(elements, step->size[d], &elements) ||
            elements > LARGEST_ELEMENTS) {
            return RULE("N_: the iteration space has more than 2^40 points");
        }
        TRY(verify_slices(step, d));
    }
    return NULL;
}

// The core's slices as one number below core_count, which the slices multiply to.
static uint32_t slices_number(const bundle_step *step, const bundle_division *v, uint32_t core)
{
    uint32_t number = 0;
    for (uint32_t d = 0; d < step->dim_count; d++) {
        number = number * (uint32_t)v->slices[d] + v->core_slice[core][d];
    }
    return number;
}

static spyre_status verify_division(const bundle_step *step, const bundle_division *v)
{
    if (v->core_count < 1 || v->core_count > BUNDLE_MAX_CORES) {
        return RULE("numCoresUsed_: %u cores, 1 to %d are possible", v->core_count,
                    BUNDLE_MAX_CORES);
    }
    int64_t slices = 1;
    for (uint32_t d = 0; d < step->dim_count; d++) {
        if (slices <= BUNDLE_MAX_CORES) slices *= v->slices[d];
    }
    if (slices != v->core_count) {
        return RULE("numWkSlicesPerDim_: the slices multiply to %lld, but %u cores are used",
                    (long long)slices, v->core_count);
    }
    int32_t owner[BUNDLE_MAX_CORES];
    memset(owner, -1, sizeof owner);
    for (int32_t core = 0; core < (int32_t)v->core_count; core++) {
        for (uint32_t d = 0; d < step->dim_count; d++) {
            int32_t slice = v->core_slice[core][d];
            if (slice < 0 || slice >= v->slices[d]) {
                return RULE("coreIdToWkSlice_: core %d has slice %d of dim %s, which has %d", core,
                            slice, step->dim_name[d], v->slices[d]);
            }
        }
        int32_t *owns = &owner[slices_number(step, v, (uint32_t)core)];
        if (*owns >= 0) {
            return RULE("coreIdToWkSlice_: cores %d and %d own the same slices", *owns, core);
        }
        *owns = core;
    }
    return NULL;
}

// --- One tensor

static spyre_status verify_order(const bundle_step *step, const uint8_t *order, uint32_t count,
                                 const char *field)
{
    uint32_t seen = 0;
    if (count < 1 || count > step->dim_count) {
        return RULE("%s: %u dims, 1 to %u are possible", field, count, step->dim_count);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (order[i] >= step->dim_count) return RULE("%s: dim %u is not in N_", field, order[i]);
        if (seen & 1u << order[i]) {
            return RULE("%s: dim %s occurs twice", field, step->dim_name[order[i]]);
        }
        seen |= 1u << order[i];
    }
    return NULL;
}

static bool in_order(const bundle_tensor *t, uint32_t dim)
{
    for (uint32_t i = 0; i < t->order_count; i++) {
        if (t->order[i] == dim) return true;
    }
    return false;
}

static spyre_status verify_layout(const bundle_step *step, const bundle_tensor *t)
{
    TRY(verify_order(step, t->order, t->order_count, "layoutDimOrder_"));
    TRY(verify_order(step, t->label_order, t->label_order_count, "primaryDsInfo_"));
    for (uint32_t i = 0; i < t->label_order_count; i++) {
        if (t->label_order_count == t->order_count && in_order(t, t->label_order[i])) continue;
        return RULE("layoutDimOrder_: not the dims of the shared layout %s", t->label);
    }
    if (t->stick_dim >= step->dim_count || !in_order(t, t->stick_dim)) {
        return RULE("stickDimOrder_: the stick dim is not in the layout");
    }
    for (uint32_t d = 0; d < step->dim_count; d++) {
        const char *name = step->dim_name[d];
        int scale = t->scale[d];
        if (!in_order(t, d)) {
            if (scale == 0 && t->gap[d] == 0) continue;
            return RULE("scale_: dim %s is not in the layout", name);
        }
        if (scale != 1 && scale != -1 && scale != -2) {
            return RULE("scale_: %d for dim %s, 1, -1 and -2 are possible", scale, name);
        }
        if (scale == -2 && d != t->stick_dim) {
            return RULE("scale_: -2 for dim %s, which is not the stick dim", name);
        }
    }
    return NULL;
}

// What has two elements a byte.
static bool takes_half_bytes(opfunc op)
{
    return opfunc_makes_pairs(op) || op == OPFUNC_BATCHMATMULINT4 || op == OPFUNC_CONV2DINT4;
}

static spyre_status verify_format(const bundle_step *step, const bundle_tensor *t)
{
    bool halves = t->format == SPYRE_FORMAT_SENINT4 && takes_half_bytes(step->op);
    uint32_t lanes = spyre_format_elements_per_stick(t->format);
    if (format_class_of(t->format) == FORMAT_NONE && !halves) {
        return status_new(SPYRE_UNSUPPORTED, "dataFormat_: %s of %s is not supported",
                          opfunc_describe(step->op)->name, spyre_format_name(t->format));
    }
    if (t->element_bytes != spyre_format_bytes(t->format)) {
        return RULE("wordLength: %u, but %s has %u bytes", t->element_bytes,
                    spyre_format_name(t->format), spyre_format_bytes(t->format));
    }
    if (t->stick_elements != lanes) {
        return RULE("stickSize_: %u elements of %u bytes are not a stick of %d bytes",
                    t->stick_elements, t->element_bytes, SPYRE_STICK_BYTES);
    }
    return NULL;
}

// Where neighbours of one dim share a byte no core has half of one.
static spyre_status verify_pairs(const bundle_step *step, const bundle_tensor *t)
{
    if (t->format != SPYRE_FORMAT_SENINT4) return NULL;
    uint32_t d = bundle_pair_dim(t);
    if (step->size[d] % 2 || bundle_local_size(step, d) % 2 || t->scale[d] < 0 ||
        (t->digit_count && t->digits[0].size % 2)) {
        return RULE("stickDimOrder_: dim %s has pairs of %s, a core has %lld of them",
                    step->dim_name[d], spyre_format_name(t->format),
                    (long long)bundle_local_size(step, d));
    }
    return NULL;
}

// Elements of several dims in one stick: element-wise opfuncs and products find them.
static spyre_status verify_digits(const bundle_step *step, const bundle_tensor *t)
{
    opfunc_kind kind = opfunc_describe(step->op)->kind;
    uint64_t elements = 1;
    if (t->digit_count == 0) return NULL;
    if (t->digit_count > BUNDLE_MAX_DIGITS) {
        return RULE("stickDimOrder_: %u dims, at most %d", t->digit_count, BUNDLE_MAX_DIGITS);
    }
    for (uint32_t n = 0; n < t->digit_count; n++) {
        const bundle_digit *digit = &t->digits[n];
        if (digit->dim >= step->dim_count || !in_order(t, digit->dim)) {
            return RULE("stickDimOrder_: dim %u is not in the layout", digit->dim);
        }
        if (digit->size < 1) return RULE("stickSize_: %u of a dim", digit->size);
        if (t->scale[digit->dim] < 0) {
            return status_new(SPYRE_UNSUPPORTED, "stickDimOrder_: %s has a stick of several dims "
                              "and lacks %s", t->name, step->dim_name[digit->dim]);
        }
        elements *= digit->size;
    }
    if (elements != t->stick_elements) {
        return RULE("stickSize_: %llu elements, a stick of %s has %u", (unsigned long long)elements,
                    spyre_format_name(t->format), t->stick_elements);
    }
    bool moves = step->index_count || step->op == OPFUNC_SHUFFLE;
    bool fits = kind == OPFUNC_KIND_MATMUL || kind == OPFUNC_KIND_COPY ||
                kind == OPFUNC_KIND_UNARY || kind == OPFUNC_KIND_BINARY ||
                kind == OPFUNC_KIND_TERNARY || kind == OPFUNC_KIND_PARAMETRIC;
    if (fits && !moves) return NULL;
    return status_new(SPYRE_UNSUPPORTED, "stickDimOrder_: %s of a stick of several dims",
                      opfunc_describe(step->op)->name);
}

// Masked indices need no room; all others do.
static spyre_status verify_gap(const bundle_step *step, const bundle_tensor *t, uint32_t d)
{
    int64_t gap = bundle_effective_gap(step, t, d);
    if (gap > LARGEST_ELEMENTS || gap < -LARGEST_ELEMENTS) {
        return RULE("backGapCore_: %lld for dim %s is out of range", (long long)t->gap[d],
                    step->dim_name[d]);
    }
    if (gap >= 0) return NULL;
    if (-gap >= step->size[d]) {
        return RULE("backGapCore_: %lld for dim %s leaves nothing of %lld indices",
                    (long long)t->gap[d], step->dim_name[d], (long long)step->size[d]);
    }
    if (t->in_lx && step->cores->slices[d] > 1) {
        return RULE("backGapCore_: dim %s is split over cores, its part in LX cannot be shorter",
                    step->dim_name[d]);
    }
    if (step->op == OPFUNC_RESTICKIFY) return NULL;
    if (bundle_unmasked_size(step, d) > step->size[d] + gap) {
        return RULE("backGapCore_: dim %s has %lld indices, but those from %lld on are not masked",
                    step->dim_name[d], (long long)step->size[d],
                    (long long)(step->size[d] + gap));
    }
    return NULL;
}

static spyre_status verify_sticks(const bundle_step *step, const bundle_tensor *t)
{
    for (uint32_t d = 0; d < step->dim_count; d++) {
        int64_t held = bundle_held_size(step, t, d), span = bundle_stick_span(t, d);
        if (t->scale[d] < 0 || held == step->size[d] || held % span == 0) continue;
        bool by_index = t->index_kind == BUNDLE_INDEX_VALUE && t->max_size[d] == 1;
        if (by_index) continue; // a core's slice of the index, which reaches all of the dim
        return RULE("numWkSlicesPerDim_: a slice of dim %s has %lld elements, not whole sticks of "
                    "%lld", step->dim_name[d], (long long)held, (long long)span);
    }
    return NULL;
}

// Numbers are operands of what computes element by element, of 32 bits, in the place of one
// element.
static spyre_status verify_count(const bundle_step *step, uint32_t number,
                                 const int64_t *loop_counts)
{
    const bundle_tensor *t = &step->tensors[number];
    opfunc_kind kind = opfunc_describe(step->op)->kind;
    bool fits = kind == OPFUNC_KIND_COPY || kind == OPFUNC_KIND_UNARY ||
                kind == OPFUNC_KIND_BINARY || kind == OPFUNC_KIND_TERNARY ||
                kind == OPFUNC_KIND_PARAMETRIC || step->op == OPFUNC_LAYERNORMNORM;
    if (!t->count) return NULL;
    if (!fits || step->index_count || step->op == OPFUNC_RESTICKIFY ||
        step->op == OPFUNC_SHUFFLE || opfunc_makes_pairs(step->op) || number == step->output)
        return RULE("countedFrom_: %s of numbers", opfunc_describe(step->op)->name);
    int64_t low = t->count->first, high = low;
    for (uint32_t d = 0; d < step->dim_count; d++) {
        if (t->scale[d] > 0) return RULE("countedFrom_: the tensor moves along a dim");
        int64_t reach = 0, size = step->symbol[d] ? step->symbol_size[d].most : step->size[d];
        bool beyond = __builtin_mul_overflow(t->count->step[d], size - 1, &reach);
        *(reach < 0 ? &low : &high) += beyond ? LARGEST_ELEMENTS : reach;
    }
    for (uint32_t loop = 0; loop < BUNDLE_MAX_LOOPS; loop++) {
        int64_t reach = t->count->loop_step[loop] * (loop_counts[loop] - 1);
        *(reach < 0 ? &low : &high) += reach;
    }
    if (low >= INT32_MIN && high <= INT32_MAX) return NULL;
    return RULE("countedFrom_: numbers from %lld to %lld have more than 32 bits", (long long)low,
                (long long)high);
}

// Owners of their own have the slices of the tensor's dims, each once.
static spyre_status verify_owners(const bundle_step *step, const bundle_tensor *t)
{
    const bundle_division *o = t->owners;
    if (!o) return NULL;
    if (step->op != OPFUNC_SHUFFLE) {
        return RULE("coordinates_: %s has owners of its own", opfunc_describe(step->op)->name);
    }
    for (uint32_t d = 0; d < step->dim_count; d++) {
        bool divides = o->slices[d] >= 1 && step->size[d] % o->slices[d] == 0;
        if (divides && (o->slices[d] == 1 || t->scale[d] > 0)) continue;
        return RULE("coordinates_: %d slices of dim %s of size %lld", o->slices[d],
                    step->dim_name[d], (long long)step->size[d]);
    }
    return status_at(verify_division(step, o), "coordinates_");
}

static spyre_status verify_place(const bundle *b, const bundle_step *step, const bundle_tensor *t)
{
    if (t->in_lx != (t->arg < 0)) {
        return RULE("startAddressCoreCorelet_: it is in %s, but component_ is %s",
                    t->arg < 0 ? "LX" : "memory", t->in_lx ? "lx" : "hbm");
    }
    if (!t->in_lx && (uint32_t)t->arg >= b->args.count) {
        return RULE("startAddressCoreCorelet_: launch argument %d of %u", t->arg, b->args.count);
    }
    for (uint32_t loop = 0; loop < BUNDLE_MAX_LOOPS; loop++) {
        int64_t stride = t->loop_stride[loop];
        if (stride > (int64_t)BUNDLE_SEGMENT_BYTES || stride < -(int64_t)BUNDLE_SEGMENT_BYTES) {
            return RULE("startAddressCoreCorelet_: a loop adds %lld bytes", (long long)stride);
        }
        if (stride % SPYRE_STICK_BYTES != 0) {
            return RULE("startAddressCoreCorelet_: a loop adds %lld bytes, not a multiple of %d",
                        (long long)stride, SPYRE_STICK_BYTES);
        }
    }
    for (uint32_t core = 0; core < step->cores->core_count; core++) {
        int64_t offset = bundle_start(t, core);
        int64_t unit = t->in_lx ? SPYRE_STICK_BYTES : t->element_bytes;
        if (unit == 0) unit = 1;
        if (offset < 0 || offset >= (int64_t)BUNDLE_SEGMENT_BYTES || offset % unit != 0) {
            return RULE("startAddressCoreCorelet_: core %u: %lld is not a multiple of %lld below "
                        "16 GiB",
                        core, (long long)offset, (long long)unit);
        }
    }
    return NULL;
}

static spyre_status verify_tensor(const bundle *b, const bundle_step *step, const bundle_tensor *t)
{
    if (!memchr(t->name, 0, sizeof t->name) || !memchr(t->label, 0, sizeof t->label)) {
        return RULE("a name is too long");
    }
    TRY(verify_layout(step, t));
    TRY(verify_format(step, t));
    TRY(verify_digits(step, t));
    TRY(verify_pairs(step, t));
    for (uint32_t i = 0; i < t->order_count; i++) TRY(verify_gap(step, t, t->order[i]));
    TRY(verify_owners(step, t));
    TRY(verify_sticks(step, t));
    return verify_place(b, step, t);
}

// Tensors have names of their own, by which nodes refer to them; those of one label share its
// layout.
static spyre_status verify_labels(const bundle_step *step)
{
    for (uint32_t i = 0; i < step->tensor_count; i++) {
        const bundle_tensor *a = &step->tensors[i];
        for (uint32_t j = 0; j < i; j++) {
            const bundle_tensor *b = &step->tensors[j];
            if (strcmp(a->name, b->name) == 0) {
                return RULE("dsName_: tensors %u and %u are both named %s", j, i, a->name);
            }
            if (strcmp(a->label, b->label) != 0) continue;
            bool same = a->stick_dim == b->stick_dim && a->stick_elements == b->stick_elements &&
                        a->digit_count == b->digit_count &&
                        memcmp(a->digits, b->digits, a->digit_count * sizeof *a->digits) == 0 &&
                        a->label_order_count == b->label_order_count &&
                        memcmp(a->label_order, b->label_order, a->label_order_count) == 0;
            if (!same) {
                return RULE("primaryDsInfo_: %s and %s differ in the layout %s", b->name, a->name,
                            a->label);
            }
        }
    }
    return NULL;
}

// --- Addresses

// By the last byte that each core can touch, over all iterations of the loops. Without an overflow:
// every term is below 2^40.
spyre_status bundle_verify_span(const bundle *b, const bundle_step *step, uint32_t tensor,
                                const int64_t *loop_counts)
{
    const bundle_tensor *t = &step->tensors[tensor];
    bool unknown = t->index_kind == BUNDLE_INDEX_VALUE && t->indexed_extent == 0 &&
                   b->args.items[t->arg].bytes == 0;
    if (unknown) return NULL;
    bundle_geometry g;
    TRY(bundle_tensor_geometry(b, step, tensor, &g));
    int64_t limit = t->in_lx ? BUNDLE_LX_BYTES : b->args.items[t->arg].bytes;
    if (limit == 0 || t->index_kind == BUNDLE_INDEX_VALUE) return NULL;
    bundle_bytes reach_of[BUNDLE_MAX_CORES];
    bundle_reach(step, tensor, &g, reach_of);
    bundle_bytes more = {0, 0};
    for (uint32_t loop = 0; loop < BUNDLE_MAX_LOOPS; loop++) {
        int64_t reach = t->loop_stride[loop] * (loop_counts[loop] - 1);
        if (reach < 0) more.first += reach;
        else more.end += reach;
    }
    for (uint32_t core = 0; core < step->cores->core_count; core++) {
        int64_t lowest = reach_of[core].first + more.first, end = reach_of[core].end + more.end;
        if (lowest >= 0 && end <= limit) continue;
        return RULE("%s: startAddressCoreCorelet_: core %u reaches bytes %lld to %lld of the %lld "
                    "bytes of %s",
                    t->name, core, (long long)lowest, (long long)end, (long long)limit,
                    t->in_lx ? "LX" : "its launch argument");
    }
    return NULL;
}

// --- A step and the body

static spyre_status verify_step(const bundle *b, const bundle_step *step,
                                const int64_t *loop_counts)
{
    if (step->op >= OPFUNC_COUNT) return RULE("opFuncName: unknown opfunc");
    TRY(verify_dims(step));
    TRY(verify_division(step, step->cores));
    if (step->tensor_count < 1 || step->tensor_count > BUNDLE_MAX_TENSORS) {
        return RULE("labeledDs_: %u tensors, 1 to %d are possible", step->tensor_count,
                    BUNDLE_MAX_TENSORS);
    }
    if (step->index_count > sizeof step->indices) {
        return RULE("indirectAccessIndexLabeledDs: %u index tensors", step->index_count);
    }
    TRY(verify_operands(step));
    for (uint32_t t = 0; t < step->tensor_count; t++) {
        TRY(status_at(verify_tensor(b, step, &step->tensors[t]), "%.15s", step->tensors[t].name));
        TRY(status_at(verify_count(step, t, loop_counts), "%.15s", step->tensors[t].name));
    }
    TRY(verify_windows(step));
    TRY(verify_open(step));
    TRY(verify_labels(step));
    TRY(verify_roles(b, step));
    for (uint32_t t = 0; t < step->tensor_count; t++)
        TRY(bundle_verify_span(b, step, t, loop_counts));
    return NULL;
}

static spyre_status verify_statement(const bundle *b, uint32_t at, uint32_t *depth,
                                     int64_t loop_counts[BUNDLE_MAX_LOOPS])
{
    const bundle_statement *statement = &b->body.items[at];
    switch (statement->kind) {
    case BUNDLE_LOOP:
        if (*depth == BUNDLE_MAX_LOOPS) {
            return RULE("statement %u: more than %d nested loops", at, BUNDLE_MAX_LOOPS);
        }
        if (statement->count < 1 || statement->count > MOST_ITERATIONS) {
            return RULE("statement %u: a loop of %lld iterations", at,
                        (long long)statement->count);
        }
        loop_counts[(*depth)++] = statement->count;
        return NULL;
    case BUNDLE_END:
        if (*depth == 0) return RULE("statement %u: an end without a loop", at);
        loop_counts[--*depth] = 1;
        return NULL;
    case BUNDLE_EXECUTE: break;
    }
    if (statement->step >= b->steps.count) {
        return RULE("statement %u: step %u of %u", at, statement->step, b->steps.count);
    }
    const bundle_step *step = &b->steps.items[statement->step];
    return bundle_at_step(verify_step(b, step, loop_counts), statement->step, step);
}

spyre_status bundle_verify(const bundle *b)
{
    int64_t loop_counts[BUNDLE_MAX_LOOPS] = {1, 1, 1, 1};
    uint32_t depth = 0;
    for (uint32_t at = 0; at < b->body.count; at++) {
        TRY(verify_statement(b, at, &depth, loop_counts));
    }
    if (depth > 0) return RULE("the body ends inside a loop");
    return NULL;
}
