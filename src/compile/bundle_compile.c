// SPDX-License-Identifier: Apache-2.0
//
// Artefacts as directories that appear complete or not at all.
#include "spyre/bundle.h"

#include "back/back.h"
#include "base/file.h"
#include "base/log.h"
#include "base/staging.h"
#include "bundle/files.h"
#include "compile/executable.h"
#include "compile/spyrecode/launch_sizes.h"
#include "compile/spyrecode/spyrecode_of_bundle.h"
#include "compile/sizes/symbolic_program.h"

// --- The back-end on a bundle directory

// *out_code is null for a bundle that sizes of a launch must complete; *out_keeps is set where
// launches may need it.
static spyre_status compile_directory(arena *memory, const char *directory, bool pool_first,
                                      spyrecode **out_code, bool *out_keeps)
{
    *out_code = NULL;
    bundle *b;
    bundle_warnings warnings = {0};
    isa_program *program;
    back_options options = BACK_OPTIONS_INIT;
    if (!file_is_directory(directory))
        return status_new(SPYRE_NOT_FOUND, "no such directory");
    TRY(bundle_read_warned(memory, directory, pool_first, &b, &warnings));
    if (!sizes_missing(b) && b->symbols.count) {
        TRY(symbolic_program_compile(memory, b, &options, out_code));
    } else if (!sizes_missing(b)) {
        TRY(back_compile(b, &options, memory, &program));
        TRY(code_of_bundle(memory, b, program, out_code));
    }
    *out_keeps = !*out_code || (sizes_rounded(b) && !b->symbols.count);
    for (uint32_t w = 0; w < warnings.count; w++) log_warn("%s: %s", directory, warnings.items[w]);
    return NULL;
}

// The code, and the bundle if its directory is given as `kept`, which launches compile.
static spyre_status write_output(arena *memory, const spyrecode *code, const char *kept,
                                 bool pool_first, const char *directory)
{
    staging stage;
    TRY(staging_begin(memory, directory, &stage));
    const char *inner = file_join(memory, stage.path, sizes_folder(pool_first));
    spyre_status status = inner ? NULL : status_no_memory();
    if (!status && code) status = spyrecode_write(code, stage.path);
    if (!status && kept) status = sizes_copy_files(memory, kept, inner);
    if (!status) return staging_commit(&stage);
    staging_abort(&stage);
    return status;
}

static spyre_status write_init_text(arena *memory, const spyrecode *code, const char *directory)
{
    const char *path = spyrecode_text_path(memory, directory);
    TRY_ALLOC(path);
    if (!code)
        return status_new(SPYRE_UNSUPPORTED, "%s: init.txt has a program, and this bundle's waits "
                          "for the sizes of a launch", directory);
    return status_at(spyrecode_write_text(code, path), "%s", path);
}

spyre_status spyre_bundle_compile(const char *directory, const spyre_bundle_options *options)
{
    static const spyre_bundle_options standard = SPYRE_BUNDLE_OPTIONS_INIT;
    if (!options) options = &standard;
    spyrecode *code;
    bool keeps = false;
    arena *memory = arena_create();
    TRY_ALLOC(memory);
    spyre_status status = compile_directory(memory, directory, options->pool_first, &code, &keeps);
    status = status_at_path(status, directory);
    if (!status) {
        const char *output = options->output ? options->output
                                             : file_join(memory, directory, "spyreCodeDir");
        status = output ? write_output(memory, code, keeps ? directory : NULL, options->pool_first,
                                       output)
                        : status_no_memory();
        if (!status && options->init_text) status = write_init_text(memory, code, directory);
    }
    arena_destroy(memory);
    return status;
}

// --- Everything of an executable

static spyre_status check_empty(arena *memory, const char *directory)
{
    file_names names;
    if (!file_exists(directory)) return NULL;
    if (file_is_directory(directory)) {
        TRY(file_list(memory, directory, "", &names));
        if (names.count == 0) return NULL;
    }
    return status_new(SPYRE_INVALID_ARGUMENT, "%s: exists and is not an empty directory",
                      directory);
}

static spyre_status save_segment(const spyre_executable *e, uint32_t segment, arena *memory,
                                 const char *directory)
{
    static const char *const stages[] = {"bundle", "spyrecode"};
    for (uint32_t i = 0; i < sizeof stages / sizeof *stages; i++) {
        const char *path =
            arena_printf(memory, "%s/segment_%u/%s", directory, segment, stages[i]);
        TRY_ALLOC(path);
        TRY(spyre_executable_write(e, segment, stages[i], path));
    }
    return NULL;
}

spyre_status spyre_executable_save(const spyre_executable *executable, const char *directory)
{
    staging stage = {0};
    arena *memory = arena_create();
    TRY_ALLOC(memory);
    spyre_status status = check_empty(memory, directory);
    if (!status) status = staging_begin(memory, directory, &stage);
    if (status) goto done;
    for (uint32_t i = 0; i < executable->segment_count && !status; i++)
        if (executable->segments[i].info.kind == SPYRE_SEGMENT_CARD)
            status = save_segment(executable, i, memory, stage.path);
    if (status) staging_abort(&stage);
    else status = staging_commit(&stage);
done:
    arena_destroy(memory);
    return status;
}
