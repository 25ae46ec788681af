// SPDX-License-Identifier: Apache-2.0
//
// Findings that a step tells by itself.
#include <math.h>
#include <string.h>

#include "bundle/step_facts.h"
#include "compile/inspect/findings.h"
#include "compile/spyrecode/launch_sizes.h"
#include "spyre/opfunc.h"

#define ROUNDED (1.0 / 256)                 // what rounding to SEN169_FP16 may do to a factor

void find(findings *f, const char *format, ...)
{
    if (f->lines++ == 0) text_append(f->out, "\nsuspicious\n");
    if (f->lines > FINDINGS_MOST) return;
    va_list values;
    va_start(values, format);
    if (f->step) text_printf(f->out, "    step %u %s: ", f->number, f->step->name);
    else text_append(f->out, "    ");
    text_vprintf(f->out, format, values);
    text_append(f->out, "\n");
    va_end(values);
}

static void look_at_gather(findings *f, const bundle_tensor *t)
{
    if (t->index_kind != BUNDLE_INDEX_VALUE) return;
    if (sizes_asked(f->b, t) >= 0)
        find(f, "nothing says how many rows the table %s has; launches compile it for the size of "
                "argument %d", t->name, t->arg);
    for (uint32_t core = 1; core < f->step->cores->core_count; core++)
        if (bundle_start(t, core) != t->start) {
            find(f, "the cores' start addresses of the table %s are not used: front-ends compute "
                    "them as if it had a row for each index", t->name);
            return;
        }
}

static void look_at_gaps(findings *f, const bundle_tensor *t)
{
    for (uint32_t d = 0; d < f->step->dim_count; d++)
        if (f->step->op == OPFUNC_RESTICKIFY && t->gap[d] && d != t->stick_dim &&
            !t->gap_is_room[d])
            find(f, "backGapCore_ of %s in dim %s is taken as what the tensor lacks of N_, the "
                    "reverse of all other opfuncs", t->name, f->step->dim_name[d]);
}

// A dim of one index and room for as many as another dim has, along which the tensor does not move.
static void look_at_room(findings *f, const bundle_tensor *t)
{
    const bundle_step *step = f->step;
    const bundle_tensor *out = &step->tensors[step->output];
    for (uint32_t one = 0; one < step->dim_count; one++) {
        int64_t room = step->size[one] + t->gap[one];
        if (step->size[one] != 1 || room < 2 || t->scale[one] <= 0) continue;
        for (uint32_t d = 0; d < step->dim_count; d++)
            if (step->size[d] == room && t->scale[d] <= 0 && out->scale[d] > 0)
                find(f, "%s has room for %lld indices of dim %s, which has one, and does not move "
                     "along %s, which has %lld: the one may have been taken for the other", t->name,
                     (long long)room, step->dim_name[one], step->dim_name[d], (long long)room);
    }
}

static void look_at_ranks(findings *f)
{
    const bundle_tensor *out = &f->step->tensors[f->step->output];
    if (!opfunc_gives_positions(f->step->op) || out->format != SPYRE_FORMAT_SEN169_FP16) return;
    for (uint32_t d = 0; d < f->step->dim_count; d++)
        if (out->scale[d] < 0 && f->step->size[d] > 1024)
            find(f, "positions up to %lld are stored as SEN169_FP16, which is exact to 1024",
                 (long long)f->step->size[d] - 1);
}

static void look_at_mask(findings *f)
{
    const bundle_step *step = f->step;
    if (step->mask_by_name)
        find(f, "maskingConstId_ names another constant than samv-maskvalue, which is taken: "
                "front-ends write 0 even where other constants come first");
}

// A mask covers what fills up the last stick; a whole stick that is masked is more than that.
static void look_at_masked_sticks(findings *f)
{
    for (uint32_t i = 0; i < f->step->mask_count; i++) {
        const bundle_mask *mask = &f->step->masks[i];
        const bundle_tensor *in = &f->step->tensors[f->step->inputs[0]];
        if (in->stick_dim == mask->dim && mask->length >= in->stick_elements)
            find(f, "%lld elements of %s are masked, at least a stick, and padding is less",
                 (long long)mask->length, f->step->dim_name[mask->dim]);
    }
}

// Parameters that leave no number, or one, as the result of all operands.
static void look_at_parameters(findings *f)
{
    const bundle_step *step = f->step;
    float least = -INFINITY, most = INFINITY;
    for (uint32_t i = 0; i < step->constant_count; i++) {
        const char *name = step->constants[i].name;
        float value = bundle_constant_value(step, i);
        bool wrong = isnan(value) || (strcmp(name, "eps") == 0 && value < 0) ||
                     (strcmp(name, "softplusBeta") == 0 && value == 0);
        if (wrong) find(f, "%s is %g", name, (double)value);
        if (strcmp(name, "clipMin") == 0) least = value;
        if (strcmp(name, "clipMax") == 0) most = value;
    }
    if (least > most)
        find(f, "clipMin %g is above clipMax %g", (double)least, (double)most);
}

// Pages of a tensor that no index chooses rows of.
static void look_at_pages(findings *f, const bundle_tensor *t)
{
    for (uint32_t d = 0; d < f->step->dim_count && t->index_kind == BUNDLE_INDEX_NONE; d++)
        if (t->max_size[d] > 0)
            find(f, "maxDimSizes_ of %s is %lld in dim %s, and no index chooses among its rows",
                 t->name, (long long)t->max_size[d], f->step->dim_name[d]);
}

// Operands of one function in two formats, as neither front-end writes them.
static void look_at_formats(findings *f)
{
    const bundle_step *step = f->step;
    if (step->input_count && step->compute_format != step->tensors[step->inputs[0]].format)
        find(f, "attributes_.dataFormat_ is %s, its first operand %s",
             spyre_format_name(step->compute_format),
             spyre_format_name(step->tensors[step->inputs[0]].format));
    if (!opfunc_has_formula(step->op) || step->input_count != 2) return;
    spyre_format a = step->tensors[step->inputs[0]].format;
    spyre_format b = step->tensors[step->inputs[1]].format;
    if (a != b)
        find(f, "its operands are %s and %s", spyre_format_name(a), spyre_format_name(b));
}

static bool reads(const bundle_step *step, spyre_format format)
{
    for (uint32_t i = 0; i < step->input_count; i++)
        if (step->tensors[step->inputs[i]].format == format) return true;
    return false;
}

static void look_at_conversion(findings *f)
{
    if (sizes_mistake_stick(f->b, f->step))
        find(f, "%s has a dim of one index and a gap, where its layout has a second stick of each "
                "row: the host finds other rows", f->step->tensors[f->step->output].name);
}

// Where the tensor's first element is by the start and the slices of `core`.
static int64_t base_of(const findings *f, const bundle_tensor *t, const bundle_geometry *g,
                       uint32_t core)
{
    return bundle_start(t, core) - bundle_slice_offset(f->step, t, g, core);
}

// The same by more than half of the cores, or by core 0.
static int64_t agreed_base(const findings *f, const bundle_tensor *t, const bundle_geometry *g)
{
    uint32_t cores = f->step->cores->core_count, alike = 0;
    int64_t base = 0, votes = 0;
    for (uint32_t core = 0; core < cores; core++) {
        int64_t said = base_of(f, t, g, core);
        if (votes == 0) base = said;
        votes += said == base ? 1 : -1;
    }
    for (uint32_t core = 0; core < cores; core++) alike += base_of(f, t, g, core) == base;
    return 2 * alike > cores ? base : base_of(f, t, g, 0);
}

static spyre_status look_at_starts(findings *f, uint32_t number)
{
    const bundle_tensor *t = &f->step->tensors[number];
    bundle_geometry g;
    if (t->in_lx || t->owners || t->index_kind == BUNDLE_INDEX_VALUE) return NULL;
    TRY(bundle_tensor_geometry(f->b, f->step, number, &g));
    int64_t base = agreed_base(f, t, &g);
    for (uint32_t core = 0; core < f->step->cores->core_count; core++) {
        int64_t there = base + bundle_slice_offset(f->step, t, &g, core);
        if (bundle_start(t, core) == there) continue;
        find(f, "core %u starts at byte %lld of %s, but its slices begin at byte %lld", core,
             (long long)bundle_start(t, core), t->name, (long long)there);
        return NULL;
    }
    return NULL;
}

// What no real card is known to compute.
static void look_at_opfunc(findings *f)
{
    const opfunc_info *info = opfunc_describe(f->step->op);
    if (!opfunc_is_published(f->step->op))
        find(f, "%s is an opfunc of this project alone", info->name);
    else if ((opfunc_has_formula(f->step->op) || info->kind == OPFUNC_KIND_MATMUL) &&
             reads(f->step, SPYRE_FORMAT_IEEE_FP32) &&
             !spyre_opfunc_takes(f->step->op, SPYRE_DTYPE_F32, false))
        find(f, "%s of IEEE_FP32 needs the profile `extended`", info->name);
    for (uint32_t t = 0; t < f->step->tensor_count && f->step->op == OPFUNC_RESTICKIFY; t++)
        if (f->step->tensors[t].digit_count)
            find(f, "%s of a stick of several dims is a form of this project alone (%s)",
                 info->name, f->step->tensors[t].name);
}

// The constant by which a mean is scaled, against how many elements it is of.
static void look_at_scale(findings *f)
{
    const bundle_step *step = f->step;
    const char *name = opfunc_describe(step->op)->parameter[0];
    int32_t constant = name ? bundle_find_constant(step, name) : -1;
    if ((step->op != OPFUNC_MEAN && step->op != OPFUNC_EXX2) || constant < 0) return;
    double elements = (double)bundle_reduced_count(f->b, step);
    double scale = (double)bundle_constant_value(step, (uint32_t)constant);
    if (fabs(scale * elements - 1) > ROUNDED)
        find(f, "%s is %g, not one part of the %g elements that are reduced", name, scale,
             elements);
}

spyre_status inspect_one_step(findings *f)
{
    look_at_opfunc(f);
    for (uint32_t t = 0; t < f->step->tensor_count; t++) {
        look_at_gather(f, &f->step->tensors[t]);
        look_at_gaps(f, &f->step->tensors[t]);
        look_at_room(f, &f->step->tensors[t]);
        look_at_pages(f, &f->step->tensors[t]);
        TRY(look_at_starts(f, t));
    }
    look_at_ranks(f);
    look_at_mask(f);
    look_at_masked_sticks(f);
    look_at_parameters(f);
    look_at_formats(f);
    look_at_scale(f);
    look_at_conversion(f);
    return NULL;
}
