// SPDX-License-Identifier: Apache-2.0
//
// Writes the directory of a bundle in the form of torch-spyre's front-end: one sdsc_<n>.json an
// executed step, numbered in the order of execution, and bundle.mlir.
#include "bundle/write.h"

#include "base/file.h"
#include "base/json.h"
#include "bundle/files.h"

static spyre_status find_pool(bundle_writer *w)
{
    w->pool = -1;
    for (uint32_t i = 0; i < w->b->args.count; i++) {
        if (w->b->args.items[i].kind != BUNDLE_ARG_POOL) continue;
        if (w->pool >= 0) {
            return status_new(SPYRE_UNSUPPORTED, "launch arguments %d and %u are both the pool",
                              w->pool, i);
        }
        w->pool = (int32_t)i;
    }
    return NULL;
}

// Symbol ids are unique over the bundle.
static spyre_status number_symbols(arena *memory, bundle_writer *w)
{
    int64_t next = 1;
    for (uint32_t at = 0; at < w->b->body.count; at++) {
        const bundle_statement *statement = &w->b->body.items[at];
        TRY(VEC_PUSH(memory, &w->first_symbol, next));
        if (statement->kind != BUNDLE_EXECUTE) continue;
        uint32_t sizes;
        next += writer_count_symbols(w, &w->b->steps.items[statement->step], &sizes);
    }
    return NULL;
}

static bool advances(const bundle_tensor *tensor)
{
    for (uint32_t loop = 0; loop < BUNDLE_MAX_LOOPS; loop++) {
        if (tensor->loop_stride[loop] != 0) return true;
    }
    return false;
}

// Whether a loop advances any address. In LX that has no form: only memory has symbols.
static spyre_status find_advances(const bundle *b, bool *out_any)
{
    *out_any = false;
    for (uint32_t s = 0; s < b->steps.count; s++) {
        const bundle_step *step = &b->steps.items[s];
        for (uint32_t t = 0; t < step->tensor_count; t++) {
            if (!advances(&step->tensors[t])) continue;
            *out_any = true;
            if (!step->tensors[t].in_lx) continue;
            return status_new(SPYRE_UNSUPPORTED, "step %u %s: %s: a loop advances it in LX", s,
                              step->name, step->tensors[t].name);
        }
    }
    return NULL;
}

// --- Files

static spyre_status write_text(const char *path, text *content)
{
    spyre_status status = text_status(content);
    if (!status) status = file_write(path, content->bytes, content->length);
    text_free(content);
    return status;
}

static spyre_status write_step(arena *memory, const bundle_writer *w, const char *directory,
                               uint32_t at, uint32_t number)
{
    const char *name = arena_printf(memory, "sdsc_%u.json", number);
    TRY_ALLOC(name);
    const char *path = file_join(memory, directory, name);
    TRY_ALLOC(path);
    const bundle_step *step = &w->b->steps.items[w->b->body.items[at].step];
    json_t *json = writer_step_json(w, step, number, w->first_symbol.items[at]);
    TRY_ALLOC(json);
    text content = {0};
    spyre_status status = json_print(json, 2, &content);
    json_decref(json);
    if (!status) return write_text(path, &content);
    text_free(&content);
    return status;
}

static spyre_status write_program(arena *memory, const bundle_writer *w, const char *directory)
{
    const char *path = file_join(memory, directory, "bundle.mlir");
    TRY_ALLOC(path);
    text content = {0};
    spyre_status status = writer_mlir(w, &content);
    if (!status) return write_text(path, &content);
    text_free(&content);
    return status;
}

static spyre_status write_all(arena *memory, bundle_writer *w, const char *directory)
{
    uint32_t number = 0;
    TRY(find_pool(w));
    TRY(number_symbols(memory, w));
    TRY(file_make_directories(directory));
    for (uint32_t at = 0; at < w->b->body.count; at++) {
        if (w->b->body.items[at].kind != BUNDLE_EXECUTE) continue;
        TRY(write_step(memory, w, directory, at, number++));
    }
    return write_program(memory, w, directory);
}

spyre_status bundle_write_form(const bundle *b, const char *directory, bundle_form form)
{
    bool any_advances;
    TRY(bundle_verify(b));
    TRY(find_advances(b, &any_advances));
    if (form == BUNDLE_FORM_ABSOLUTE && any_advances) {
        return status_new(SPYRE_INVALID_ARGUMENT,
                          "addresses that loops advance have no absolute form");
    }
    if (form == BUNDLE_FORM_ABSOLUTE && b->args.count > BUNDLE_MOST_ABSOLUTE_ARGS) {
        return status_new(SPYRE_INVALID_ARGUMENT, "%u launch arguments have no absolute addresses",
                          b->args.count);
    }
    arena *memory = arena_create();
    TRY_ALLOC(memory);
    bundle_writer w = {.b = b, .form = form};
    spyre_status status = write_all(memory, &w, directory);
    arena_destroy(memory);
    return status;
}

spyre_status bundle_write(const bundle *b, const char *directory)
{
    bool any_advances;
    TRY(bundle_verify(b));
    TRY(find_advances(b, &any_advances));
    bool symbolic = b->args.count > BUNDLE_MOST_ABSOLUTE_ARGS || any_advances;
    return bundle_write_form(b, directory,
                             symbolic ? BUNDLE_FORM_SYMBOLIC : BUNDLE_FORM_ABSOLUTE);
}
