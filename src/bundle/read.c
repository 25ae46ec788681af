// SPDX-License-Identifier: Apache-2.0
//
// A bundle directory: bundle.mlir says what is executed in which order with which addresses, one
// sdsc_<n>.json says what each step is.
#include "bundle/read.h"

#include "base/file.h"
#include "bundle/files.h"

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

spyre_status bundle_read(arena *memory, const char *directory, bool pool_first,
                         bundle **out_bundle)
{
    mlir_program program;
    bundle *b = bundle_create(memory);
    TRY_ALLOC(b);
    TRY(read_program(memory, directory, pool_first, &program));
    step_source source = {.memory = memory, .arg_count = program.arg_count};
    for (uint32_t i = 0; i < program.body.count; i++) {
        const mlir_statement *statement = &program.body.items[i];
        if (statement->kind == BUNDLE_EXECUTE) {
            bundle_step step = {0};
            source.statement = statement;
            TRY(read_step_file(&source, directory, &step));
            TRY(bundle_add_step(b, &step));
        } else {
            bundle_statement marker = {.kind = statement->kind, .count = statement->count};
            TRY(VEC_PUSH(memory, &b->body, marker));
        }
    }
    TRY(add_arguments(b, source.arg_count, pool_first || program.has_pool));
    TRY(bundle_verify(b));
    *out_bundle = b;
    return NULL;
}
