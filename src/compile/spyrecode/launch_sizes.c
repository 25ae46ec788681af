// SPDX-License-Identifier: Apache-2.0
#include "compile/spyrecode/launch_sizes.h"

#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "bundle/step_facts.h"
#include "bundle/verify.h"
#include "compile/spyrecode/tensor_span.h"

int32_t sizes_asked(const bundle *b, const bundle_tensor *t)
{
    bool asks = t->index_kind == BUNDLE_INDEX_VALUE && t->indexed_extent == 0 && t->arg >= 0;
    return asks && b->args.items[t->arg].bytes == 0 ? t->arg : -1;
}

bool sizes_missing(const bundle *b)
{
    for (uint32_t s = 0; s < b->steps.count; s++)
        for (uint32_t t = 0; t < b->steps.items[s].tensor_count; t++)
            if (sizes_asked(b, &b->steps.items[s].tensors[t]) >= 0) return true;
    return false;
}

// --- Conversions whose N_ is rounded up to the longer of two sticks

static int64_t elements_of(const bundle_step *step, bool longer)
{
    int64_t in = step->tensors[step->inputs[0]].stick_elements;
    int64_t out = step->tensors[step->output].stick_elements;
    return (in > out) == longer ? in : out;
}

// The dim that may be rounded up, or -1.
static int32_t rounded_dim(const bundle_step *step)
{
    const bundle_tensor *in = &step->tensors[step->inputs[0]], *out = &step->tensors[step->output];
    bool converts = opfunc_describe(step->op)->kind == OPFUNC_KIND_COPY && step->input_count == 1 &&
                    step->index_count == 0 && in->stick_elements != out->stick_elements &&
                    !in->digit_count && !out->digit_count;
    uint32_t d = in->stick_dim;
    return converts && d == out->stick_dim && step->cores->slices[d] == 1 &&
                   step->size[d] % elements_of(step, true) == 0
               ? (int32_t)d
               : -1;
}

// Whether the tensor may lack sticks for that reason.
static bool may_lack(const bundle *b, const bundle_step *step, uint32_t tensor)
{
    const bundle_tensor *t = &step->tensors[tensor];
    return rounded_dim(step) >= 0 && t->stick_elements == elements_of(step, false) && t->arg >= 0 &&
           b->args.items[t->arg].bytes == 0;
}

bool sizes_rounded(const bundle *b)
{
    for (uint32_t s = 0; s < b->steps.count; s++)
        for (uint32_t t = 0; t < b->steps.items[s].tensor_count; t++)
            if (may_lack(b, &b->steps.items[s], t)) return true;
    return false;
}

static spyre_status fits(const bundle *b, const bundle_step *step, const int64_t *loop_counts)
{
    for (uint32_t t = 0; t < step->tensor_count; t++)
        TRY(bundle_verify_span(b, step, t, loop_counts));
    return NULL;
}

static bool is_read(const bundle *b, int32_t argument)
{
    for (uint32_t s = 0; s < b->steps.count; s++)
        for (uint32_t i = 0; i < b->steps.items[s].input_count; i++) {
            const bundle_step *step = &b->steps.items[s];
            if (step->tensors[step->inputs[i]].arg == argument) return true;
        }
    return false;
}

bool sizes_mistake_stick(const bundle *b, const bundle_step *step)
{
    const bundle_tensor *out = &step->tensors[step->output];
    for (uint32_t d = 0; d < step->dim_count && rounded_dim(step) >= 0; d++)
        if (step->size[d] == 1 && out->gap[d] > 0) return out->arg >= 0 && !is_read(b, out->arg);
    return false;
}

// A step that fits with none of the sizes stays as it is, for the verifier to name.
static void trim(const bundle *b, bundle_step *step, const int64_t *loop_counts)
{
    int32_t d = rounded_dim(step);
    if (d < 0 || sizes_mistake_stick(b, step)) return;
    int64_t whole = step->size[d], least = whole - elements_of(step, true);
    for (int64_t size = whole; size > least; size -= elements_of(step, false)) {
        step->size[d] = size;
        spyre_status status = fits(b, step, loop_counts);
        if (!status) return;
        spyre_status_free(status);
    }
    step->size[d] = whole;
}

void sizes_trim(bundle *b)
{
    bundle_walk walk = bundle_walk_of(b);
    for (bundle_step *step; (step = bundle_next_step(&walk));) trim(b, step, walk.rounds);
}

// --- What steps touch

static spyre_status touch(const bundle *b, const bundle_step *step, uint32_t tensor,
                          const int64_t *rounds, int64_t *bytes)
{
    const bundle_tensor *t = &step->tensors[tensor];
    bundle_geometry geometry;
    bundle_bytes cores[BUNDLE_MAX_CORES];
    TRY(bundle_tensor_geometry(b, step, tensor, &geometry));
    int64_t end = 0, added = 0;
    for (uint32_t loop = 0; loop < BUNDLE_MAX_LOOPS; loop++)
        if (t->loop_stride[loop] > 0) added += t->loop_stride[loop] * (rounds[loop] - 1);
    bundle_reach(step, tensor, &geometry, cores);
    for (uint32_t core = 0; core < step->cores->core_count; core++)
        if (cores[core].end > end) end = cores[core].end;
    // A table's rows lie behind where its first core begins.
    if (t->index_kind == BUNDLE_INDEX_VALUE) end = tensor_span_of(step, tensor, &geometry).end;
    if (end + added > bytes[t->arg]) bytes[t->arg] = end + added;
    return NULL;
}

spyre_status sizes_touched(const bundle *b, int64_t *bytes)
{
    bundle_walk walk = bundle_walk_of(b);
    for (const bundle_step *step; (step = bundle_next_step(&walk));)
        for (uint32_t t = 0; t < step->tensor_count; t++)
            if (!step->tensors[t].in_lx) TRY(touch(b, step, t, walk.rounds, bytes));
    return NULL;
}

// --- Sizes of a launch

void sizes_set(bundle *b, const int64_t *bytes)
{
    for (uint32_t s = 0; s < b->steps.count; s++) {
        const bundle_step *step = &b->steps.items[s];
        for (uint32_t t = 0; t < step->tensor_count; t++)
            if (sizes_asked(b, &step->tensors[t]) >= 0 || may_lack(b, step, t))
                b->args.items[step->tensors[t].arg].bytes = bytes[step->tensors[t].arg];
    }
    sizes_trim(b);
}

const char *sizes_folder(bool pool_first)
{
    return pool_first ? "bundle_with_pool" : "bundle";
}

spyre_status sizes_copy_files(arena *memory, const char *from, const char *to)
{
    file_names names;
    TRY(file_list(memory, from, "", &names));
    TRY(file_make_directories(to));
    for (uint32_t i = 0; i < names.count; i++) {
        const char *name = names.items[i], *end = strrchr(name, '.');
        char *bytes;
        size_t length;
        if (!end || (strcmp(end, ".json") != 0 && strcmp(end, ".mlir") != 0)) continue;
        TRY(file_read_member(memory, from, name, JSON_LIMIT_BYTES, &bytes, &length));
        const char *path = file_join(memory, to, name);
        TRY_ALLOC(path);
        TRY(file_write(path, bytes, length));
    }
    return NULL;
}
