// SPDX-License-Identifier: Apache-2.0
//
// A bundle directory: bundle.mlir says what is executed in which order with which addresses, one
// sdsc_<n>.json says what each step is.
#include "bundle/read.h"

#include "base/file.h"
#include "base/integer.h"
#include "bundle/step_facts.h"
#include "bundle/files.h"

enum { MOST_SPAN_BYTES = 256 << 20, NO_DIM = BUNDLE_MAX_DIMS };

// torch-spyre writes two things into backGapCore_ of ReStickifyOpHBM, in dims off the stick: what
// the tensor lacks of N_, which is rounded up to the stick of the other tensor, or the room that it
// has beyond N_, as a part of a larger one.
static bool may_be_rounded(const bundle_step *step, const bundle_tensor *tensor, uint32_t dim)
{
    for (uint32_t t = 0; t < step->tensor_count; t++) {
        const bundle_tensor *other = &step->tensors[t];
        if (other != tensor && bundle_in_stick(other, dim) && other->scale[dim] > 0 &&
            tensor->gap[dim] < bundle_stick_span(other, dim))
            return true;
    }
    return false;
}

// What no rounding leaves.
static void tell_certain_gaps(bundle *b)
{
    for (uint32_t s = 0; s < b->steps.count; s++) {
        const bundle_step *step = &b->steps.items[s];
        for (uint32_t t = 0; t < step->tensor_count && step->op == OPFUNC_RESTICKIFY; t++) {
            bundle_tensor *tensor = &step->tensors[t];
            for (uint32_t d = 0; d < step->dim_count; d++)
                tensor->gap_is_room[d] = !bundle_in_stick(tensor, d) && tensor->gap[d] > 0 &&
                                         !may_be_rounded(step, tensor, d);
        }
    }
}

static spyre_status starts_agree(const bundle *b, const bundle_step *step, uint32_t tensor,
                                 bool *out_so)
{
    const bundle_tensor *t = &step->tensors[tensor];
    bundle_geometry g;
    TRY(bundle_tensor_geometry(b, step, tensor, &g));
    *out_so = true;
    for (uint32_t core = 1; core < step->cores->core_count; core++)
        if (bundle_start(t, core) - bundle_slice_offset(step, t, &g, core) !=
            t->start - bundle_slice_offset(step, t, &g, 0))
            *out_so = false;
    return NULL;
}

// Whether another opfunc has a part of a tensor in the same argument that is as long in some dim as
// `t` with room in one of its dims: the parts of a cat.
static bool has_sibling(const bundle *b, const bundle_step *step, const bundle_tensor *t)
{
    for (uint32_t s = 0; s < b->steps.count; s++) {
        const bundle_step *other = &b->steps.items[s];
        const bundle_tensor *part = &other->tensors[other->output];
        if (other->op == OPFUNC_RESTICKIFY || part->in_lx || part->arg != t->arg) continue;
        for (uint32_t e = 0; e < other->dim_count; e++)
            for (uint32_t d = 0; d < step->dim_count && part->gap[e] > 0; d++)
                if (t->gap[d] > 0 && other->size[e] + part->gap[e] == step->size[d] + t->gap[d])
                    return true;
    }
    return false;
}

// The dim whose gap is either, or NO_DIM.
static uint32_t uncertain_dim(const bundle_step *step, const bundle_tensor *t)
{
    for (uint32_t d = 0; d < step->dim_count; d++)
        if (!bundle_in_stick(t, d) && t->gap[d] > 0 && !t->gap_is_room[d]) return d;
    return NO_DIM;
}

// The others by where the cores start, or by the other parts of a cat, in a verified bundle.
static spyre_status tell_small_gaps(bundle *b)
{
    for (uint32_t s = 0; s < b->steps.count; s++) {
        const bundle_step *step = &b->steps.items[s];
        for (uint32_t t = 0; t < step->tensor_count && step->op == OPFUNC_RESTICKIFY; t++) {
            bundle_tensor *tensor = &step->tensors[t];
            uint32_t dim = uncertain_dim(step, tensor);
            bool lacks, has;
            if (tensor->in_lx || dim == NO_DIM) continue;
            TRY(starts_agree(b, step, t, &lacks));
            tensor->gap_is_room[dim] = true;
            TRY(starts_agree(b, step, t, &has));
            tensor->gap_is_room[dim] =
                has && (!lacks || (t == step->output && has_sibling(b, step, tensor)));
        }
    }
    return bundle_verify(b);
}

static spyre_status read_program(arena *memory, const char *directory, bool pool_first,
                                 mlir_program *out_program)
{
    char *source;
    size_t length;
    TRY(file_read_member(memory, directory, "bundle.mlir", JSON_LIMIT_BYTES, &source, &length));
    return mlir_read(memory, source, length, pool_first, out_program);
}

static spyre_status read_step_file(step_source *source, const char *directory,
                                   bundle_step *out_step)
{
    json_node root = {0};
    arena *memory = arena_create();             // the text is not needed beyond the parsing
    TRY_ALLOC(memory);
    char *bytes;
    size_t length;
    spyre_status status = file_read_member(memory, directory, source->statement->file,
                                           JSON_LIMIT_BYTES, &bytes, &length);
    if (!status) status = json_read_buffer(source->statement->file, bytes, length, &root);
    if (!status) status = read_step(source, &root, out_step);
    json_close(&root);
    arena_destroy(memory);
    return status;
}

static spyre_status add_arguments(bundle *b, uint32_t count, bool has_pool)
{
    for (uint32_t i = 0; i < count; i++) {
        bundle_arg arg = {.kind = i == 0 && has_pool ? BUNDLE_ARG_POOL : BUNDLE_ARG_TENSOR};
        TRY(VEC_PUSH(b->memory, &b->args, arg));
    }
    return NULL;
}

// How far a core reaches over a tensor: the dim that it moves along farthest out, as the limit is
// defined (docs/front.md). A core's slices are equal but for the last.
static int64_t span_of(const bundle_step *step, const bundle_tensor *tensor,
                       const bundle_geometry *geometry)
{
    int64_t farthest = 0, span = SPYRE_STICK_BYTES;
    for (uint32_t d = 0; d < step->dim_count; d++) {
        int64_t slice = bundle_local_size(step, d);
        int64_t unit = bundle_stick_span(tensor, d);
        int64_t steps = divide_up(slice, unit);
        if (!geometry->moves[d] || steps <= 1 || geometry->stride[d] <= farthest) continue;
        farthest = geometry->stride[d];
        span = farthest * steps;
    }
    return span;
}

// The card's rule for bundles, published as 256 MB a core; nothing here depends on it.
static spyre_status check_spans(const bundle *b)
{
    for (uint32_t s = 0; s < b->steps.count; s++) {
        const bundle_step *step = &b->steps.items[s];
        for (uint32_t t = 0; t < step->tensor_count; t++) {
            const bundle_tensor *tensor = &step->tensors[t];
            bundle_geometry geometry;
            if (tensor->in_lx || tensor->index_kind == BUNDLE_INDEX_VALUE) continue;
            TRY(bundle_tensor_geometry(b, step, t, &geometry));
            int64_t span = span_of(step, tensor, &geometry);
            if (span > MOST_SPAN_BYTES)
                return status_new(SPYRE_INVALID_FORMAT,
                                  "step %u (%s), tensor %u: a core reaches over %lld bytes, at "
                                  "most %d are possible", s, step->name, t, (long long)span,
                                  MOST_SPAN_BYTES);
        }
    }
    return NULL;
}

// What device_mem_allocate gives is one argument behind those of a launch.
static spyre_status add_own_memory(bundle *b, int64_t bytes)
{
    bundle_arg own = {.kind = BUNDLE_ARG_POOL, .bytes = bytes};
    if (bytes == 0) return NULL;
    for (uint32_t s = 0; s < b->steps.count; s++)
        for (uint32_t t = 0; t < b->steps.items[s].tensor_count; t++)
            if (b->steps.items[s].tensors[t].arg == MLIR_OWN_MEMORY)
                b->steps.items[s].tensors[t].arg = (int32_t)b->args.count;
    return VEC_PUSH(b->memory, &b->args, own);
}

spyre_status bundle_read(arena *memory, const char *directory, bool pool_first,
                         bundle **out_bundle)
{
    return bundle_read_warned(memory, directory, pool_first, out_bundle, NULL);
}

spyre_status bundle_read_warned(arena *memory, const char *directory, bool pool_first,
                                bundle **out_bundle, bundle_warnings *out_warnings)
{
    mlir_program program;
    bundle *b = bundle_create(memory);
    TRY_ALLOC(b);
    TRY(read_program(memory, directory, pool_first, &program));
    step_source source = {.memory = memory, .program = &program, .warnings = out_warnings,
                          .arg_count = program.arg_count};
    for (uint32_t i = 0; i < program.body.count; i++) {
        const mlir_statement *statement = &program.body.items[i];
        if (statement->kind == BUNDLE_EXECUTE) {
            bundle_step_room room = {0};
            bundle_step step = bundle_begin_step(&room);
            source.statement = statement;
            TRY(read_step_file(&source, directory, &step));
            TRY(bundle_add_step(b, &step));
        } else {
            bundle_statement marker = {.kind = statement->kind, .count = statement->count,
                                       .symbol = statement->loop_symbol, .per = statement->per};
            TRY(VEC_PUSH(memory, &b->body, marker));
        }
    }
    for (uint32_t s = 0; s < program.symbols.count; s++)
        TRY(VEC_PUSH(memory, &b->symbols, program.symbols.items[s]));
    TRY(add_arguments(b, source.arg_count, pool_first || program.has_pool));
    TRY(add_own_memory(b, program.own_bytes));
    tell_certain_gaps(b);
    read_trim_conversions(b);
    TRY(bundle_verify(b));
    TRY(tell_small_gaps(b));
    TRY(check_spans(b));
    *out_bundle = b;
    return NULL;
}
