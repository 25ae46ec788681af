// SPDX-License-Identifier: Apache-2.0
//
// A bundle for people: order of execution, then every step with its dims, division over the cores,
// constants, masks, and each operand with layout and addresses. Addresses of many cores are printed
// as runs of equal steps.
#include <inttypes.h>

#include "base/file.h"
#include "bundle/step_facts.h"
#include "bundle/files.h"
#include "bundle/read.h"
#include "bundle/symbols.h"
#include "compile/inspect/inspect.h"
#include "compile/inspect/suspicions.h"
#include "compile/spyrecode/launch_sizes.h"

static void print_arguments(const bundle *b, text *out)
{
    static const char *const kinds[] = {
        [BUNDLE_ARG_TENSOR] = "tensor", [BUNDLE_ARG_POOL] = "pool",
        [BUNDLE_ARG_CONSTANTS] = "constants"};
    for (uint32_t i = 0; i < b->args.count; i++) {
        const bundle_arg *arg = &b->args.items[i];
        text_printf(out, "argument %u  %s", i, kinds[arg->kind]);
        if (arg->bytes) text_printf(out, " of %" PRId64 " bytes", arg->bytes);
        text_append(out, "\n");
    }
}

static void print_body(const bundle *b, text *out)
{
    uint32_t depth = 1;
    text_append(out, "execute\n");
    for (uint32_t i = 0; i < b->body.count; i++) {
        const bundle_statement *s = &b->body.items[i];
        if (s->kind == BUNDLE_END) depth--;
        text_printf(out, "%*s", (int)(depth * 4), "");
        switch (s->kind) {
        case BUNDLE_EXECUTE:
            text_printf(out, "step %u  %s\n", s->step, b->steps.items[s->step].name);
            break;
        case BUNDLE_LOOP:
            text_printf(out, "%" PRId64 " times\n", s->count);
            depth++;
            break;
        case BUNDLE_END: text_append(out, "end\n"); break;
        }
    }
}

static void print_dims(const bundle_step *step, text *out)
{
    text_append(out, "    dims     ");
    for (uint32_t d = 0; d < step->dim_count; d++) {
        text_printf(out, "%s%s %" PRId64, d ? ", " : "", step->dim_name[d], step->size[d]);
        if (step->cores->slices[d] > 1)
            text_printf(out, " in %d slices of %" PRId64, step->cores->slices[d],
                        bundle_local_size(step, d));
        if (step->cores->slice_size[d])
            text_printf(out, ", the last of %" PRId64, step->size[d] % step->cores->slice_size[d]);
    }
    text_append(out, "\n");
}

static void print_windows(const bundle_step *step, text *out)
{
    for (uint32_t n = 0; n < step->window_count; n++) {
        const bundle_window *w = &step->windows[n];
        text_printf(out, "    window   %s by %s: stride %" PRId64 ", dilation %" PRId64
                    ", padding %" PRId64 " and %" PRId64 " of %" PRId64 "\n",
                    step->dim_name[w->dim], step->dim_name[w->kernel], w->stride, w->dilation,
                    w->front, w->back, w->total);
    }
}

// The slices of the cores, when there is more than one core.
static void print_cores(const bundle_step *step, text *out)
{
    if (step->cores->core_count == 1) return;
    text_append(out, "    slices   ");
    for (uint32_t c = 0; c < step->cores->core_count; c++) {
        text_printf(out, "%s%u:", c ? " " : "", c);
        bool first = true;
        for (uint32_t d = 0; d < step->dim_count; d++) {
            if (step->cores->slices[d] == 1) continue;
            text_printf(out, "%s%d", first ? "" : ",", step->cores->core_slice[c][d]);
            first = false;
        }
    }
    text_append(out, "\n");
}

static void print_constants(const bundle_step *step, text *out)
{
    for (uint32_t i = 0; i < step->constant_count; i++) {
        const bundle_constant *constant = &step->constants[i];
        text_printf(out, "    constant %u %s = %.9g (%s 0x%x)\n", i, constant->name,
                    (double)bundle_constant_value(step, i), spyre_format_name(constant->format),
                    constant->bits);
    }
    for (uint32_t i = 0; i < step->mask_count; i++) {
        const bundle_mask *mask = &step->masks[i];
        text_printf(out, "    mask     %s %" PRId64 "..%" PRId64, step->dim_name[mask->dim],
                    mask->start, mask->start + mask->length - 1);
        if (step->mask_constant < 0) text_append(out, " is left out\n");
        else text_printf(out, " reads constant %d\n", step->mask_constant);
    }
    if (step->live_lanes)
        text_printf(out, "    live     %s 0..%" PRId64 "\n",
                    step->dim_name[step->tensors[step->output].stick_dim], step->live_lanes - 1);
}

// The last core of the run that begins at `first` and goes on in steps of *out_step.
static uint32_t run_end(const bundle_tensor *t, uint32_t first, uint32_t count, int64_t *out_step)
{
    uint32_t last = first;
    *out_step = 0;
    if (first + 1 < count) *out_step = bundle_start(t, first + 1) - bundle_start(t, first);
    while (last + 1 < count && bundle_start(t, last + 1) - bundle_start(t, last) == *out_step)
        last++;
    return last;
}

static void print_address(const bundle_tensor *t, uint32_t core, text *out)
{
    if (t->arg < 0) text_append(out, "lx");
    else text_printf(out, "argument %d", t->arg);
    text_printf(out, " + 0x%" PRIx64, (uint64_t)bundle_start(t, core));
    for (uint32_t i = 0; i < BUNDLE_MAX_LOOPS; i++)
        if (t->loop_stride[i]) text_printf(out, " + %" PRId64 "*loop%u", t->loop_stride[i], i);
}

// "held by 8 cores in slices: mb/8"
static void print_owners(const bundle_step *step, const bundle_tensor *t, text *out)
{
    if (!t->owners) return;
    text_printf(out, "        held by %u cores in slices", t->owners->core_count);
    for (uint32_t d = 0; d < step->dim_count; d++)
        if (t->owners->slices[d] > 1)
            text_printf(out, " %s/%d", step->dim_name[d], t->owners->slices[d]);
    text_append(out, "\n");
}

// "numbers 5 + 1*mb - 1*out", of signs "> 0".
static void print_count(const bundle_step *step, const bundle_count *count, text *out)
{
    text_printf(out, "        numbers %" PRId64, count->first);
    for (uint32_t d = 0; d < step->dim_count; d++)
        if (count->step[d])
            text_printf(out, " + %" PRId64 "*%s", count->step[d], step->dim_name[d]);
    for (uint32_t l = 0; l < BUNDLE_MAX_LOOPS; l++)
        if (count->loop_step[l])
            text_printf(out, " + %" PRId64 "*loop%u", count->loop_step[l], l);
    text_append(out, count->signs ? ", 1 where above 0\n" : "\n");
}

static void print_starts(const bundle_step *step, const bundle_tensor *t, text *out)
{
    int64_t step_bytes;
    for (uint32_t core = 0, last; core < step->cores->core_count; core = last + 1) {
        last = run_end(t, core, step->cores->core_count, &step_bytes);
        if (last > core) text_printf(out, "        cores %u..%u  ", core, last);
        else text_printf(out, "        core %u  ", core);
        print_address(t, core, out);
        if (last > core && step_bytes) text_printf(out, ", %+" PRId64 " a core", step_bytes);
        text_append(out, "\n");
    }
}

static void print_layout(const bundle_step *step, const bundle_tensor *t,
                         const bundle_geometry *geometry, text *out)
{
    text_printf(out, "        stick of %u along ", t->stick_elements);
    for (uint32_t n = 0; n < t->digit_count; n++)
        text_printf(out, "%s%s %u", n ? ", " : "", step->dim_name[t->digits[n].dim],
                    t->digits[n].size);
    text_printf(out, "%s; bytes a step:", t->digit_count ? "" : step->dim_name[t->stick_dim]);
    for (uint32_t i = 0; i < t->order_count; i++) {
        uint8_t d = t->order[i];
        text_printf(out, "%s %s", i ? "," : "", step->dim_name[d]);
        if (!geometry->moves[d]) {
            text_append(out, t->scale[d] == -2 ? " none (lane 0)" : " none");
            continue;
        }
        text_printf(out, " %" PRId64 "%s", geometry->stride[d],
                    bundle_stick_span(t, d) > 1 ? " a stick" : "");
        if (t->gap[d]) text_printf(out, " (gap %" PRId64 ")", t->gap[d]);
    }
    text_append(out, "\n");
}

static spyre_status print_tensor(const bundle *b, const bundle_step *step, uint32_t number,
                                 const char *role, text *out)
{
    const bundle_tensor *t = &step->tensors[number];
    bundle_geometry geometry;
    if (sizes_asked(b, t) >= 0) {
        text_printf(out, "    %-8s %s %s in argument %d, of as many rows as that has\n", role,
                    t->name, spyre_format_name(t->format), t->arg);
        return NULL;
    }
    if (t->count) {
        text_printf(out, "    %-8s %s %s\n", role, t->name, spyre_format_name(t->format));
        print_count(step, t->count, out);
        return NULL;
    }
    TRY(bundle_tensor_geometry(b, step, number, &geometry));
    text_printf(out, "    %-8s %s %s in %s, %" PRId64 " bytes\n", role, t->name,
                spyre_format_name(t->format), t->in_lx ? "LX" : "memory", geometry.bytes);
    print_layout(step, t, &geometry, out);
    if (t->index_kind == BUNDLE_INDEX_VALUE)
        text_printf(out, "        rows chosen by %s\n", step->tensors[t->index_peer].name);
    print_owners(step, t, out);
    print_starts(step, t, out);
    return NULL;
}

static spyre_status print_step(const bundle *b, uint32_t number, text *out)
{
    const bundle_step *step = &b->steps.items[number];
    text_printf(out, "\nstep %u  %s: %s%s on %u core%s in %s\n", number, step->name,
                opfunc_describe(step->op)->name,
                step->nonstick                          ? " off the stick"
                : opfunc_accumulates(step->accumulator) ? " joined to rows"
                                                        : "",
                step->cores->core_count, step->cores->core_count == 1 ? "" : "s",
                spyre_format_name(step->compute_format));
    print_dims(step, out);
    print_windows(step, out);
    print_cores(step, out);
    print_constants(step, out);
    for (uint32_t i = 0; i < step->input_count; i++)
        TRY(print_tensor(b, step, step->inputs[i], "input", out));
    for (uint32_t i = 0; i < step->index_count; i++)
        TRY(print_tensor(b, step, step->indices[i], "index", out));
    return print_tensor(b, step, step->output, "output", out);
}

static spyre_status print_steps(const bundle *b, text *out)
{
    for (uint32_t i = 0; i < b->steps.count; i++) TRY(print_step(b, i, out));
    return NULL;
}

spyre_status inspect_bundle(arena *memory, const char *directory, const char *const *sizes,
                            uint32_t size_count, text *out)
{
    bundle *b;
    bundle_warnings warnings = {0}, restated = {0};
    TRY(status_at(bundle_read_warned(memory, directory, false, &b, &warnings), "%s", directory));
    TRY(status_at(bundle_read_restated(memory, directory, b, &restated), "%s", directory));
    TRY(status_at(bundle_bind_named(memory, b, sizes, size_count, &b), "%s", directory));
    TRY(inspect_print_bundle(b, directory, out));
    if (warnings.count) text_append(out, "\n");
    for (uint32_t i = 0; i < warnings.count; i++)
        text_printf(out, "not understood: %s\n", warnings.items[i]);
    return inspect_suspicions(b, &restated, out);
}

spyre_status inspect_print_bundle(const bundle *b, const char *name, text *out)
{
    text_printf(out, "bundle %s: %u steps, %u launch arguments\n", name, b->steps.count,
                b->args.count);
    print_arguments(b, out);
    print_body(b, out);
    return print_steps(b, out);
}

spyre_status inspect_bundle_step(arena *memory, const char *path, text *out)
{
    static const mlir_statement no_symbols = {0};
    step_source source = {.memory = memory, .statement = &no_symbols};
    bundle_step_room room = {0};
    bundle_step step = bundle_begin_step(&room);
    json_node root;
    bundle *b = bundle_create(memory);
    TRY_ALLOC(b);
    TRY(json_read_file(path, JSON_LIMIT_BYTES, &root));
    spyre_status status = read_step(&source, &root, &step);
    json_close(&root);
    TRY(status);
    TRY(bundle_add_step(b, &step));
    for (uint32_t i = 0; i < source.arg_count; i++)
        TRY(VEC_PUSH(memory, &b->args, ((bundle_arg){.kind = BUNDLE_ARG_TENSOR})));
    TRY(status_at(bundle_verify(b), "%s", path));
    return print_steps(b, out);
}
