// SPDX-License-Identifier: Apache-2.0
//
// Programs for sizes that a launch chooses. Either the code has a program whose numbers follow from
// them (symbolic_program.h): what its ComputeOnHost gives for the launch's sizes goes into the
// table of values, as a transfer would take it there, and the corrected program is kept for
// launches of the same sizes. Or it has a bundle, which is compiled for them.
#include <string.h>

#include "back/back.h"
#include "base/file.h"
#include "bundle/files.h"
#include "compile/spyrecode/launch_sizes.h"
#include "compile/program/program_state.h"
#include "compile/spyrecode/spyrecode_of_bundle.h"
#include "compile/sizes/symbolic_program.h"
#include "isa/corrections.h"

// --- Programs that wait for sizes (sizes.h)

spyre_status program_find_bundle(spyre_program *program, const char *directory)
{
    for (int pool_first = 0; pool_first < 2; pool_first++) {
        const char *path = file_join(program->memory, directory, sizes_folder(pool_first));
        TRY_ALLOC(path);
        if (!file_is_directory(path)) continue;
        program->bundle = path;
        program->pool_first = pool_first;
        return NULL;
    }
    return NULL;
}

spyre_status program_open_waiting(spyre_program *program)
{
    bundle *b;
    TRY(bundle_read(program->memory, program->bundle, program->pool_first, &b));
    if (!sizes_missing(b) && b->symbols.count == 0)
        return status_new(SPYRE_INVALID_FORMAT,
                          "a bundle whose sizes are all known: it takes none at launch");
    program->waiting = b;
    program->argument_count = code_launch_count(b);
    program->argument_bytes = ARENA_NEW(program->memory, int64_t, program->argument_count);
    TRY_NEW(program->memory, program->operands, program->argument_count);
    TRY_ALLOC(program->argument_bytes);
    return NULL;
}

static spyre_status compile_sized(const spyre_program *waiting, const int64_t *argument_bytes,
                                  const int64_t *granules, spyre_program *program)
{
    bundle *b;
    isa_program *image;
    spyrecode *code;
    back_options options = BACK_OPTIONS_INIT;
    TRY(bundle_read(program->memory, waiting->bundle, waiting->pool_first, &b));
    TRY(symbolic_program_bind(program->memory, b, granules, &b));
    sizes_set(b, argument_bytes);
    TRY(bundle_verify(b));
    TRY(back_compile(b, &options, program->memory, &image));
    TRY(code_of_bundle(program->memory, b, image, &code));
    return program_take_code(program, code);
}

// --- Corrected programs

static spyre_status correct_image(const spyre_program *program, const int64_t *granules,
                                  arena *memory, isa_program **out_image)
{
    const spyrecode_command *host = program_host_of(program->code);
    uint64_t *nowhere = ARENA_NEW(memory, uint64_t, host->argument_count);
    uint8_t *table = program->host_buffer;
    int64_t *values = ARENA_NEW(memory, int64_t, program->image->value_count);
    TRY_ALLOC(nowhere);
    TRY_ALLOC(values);
    TRY(spyrecode_correct(host, nowhere, host->argument_count, granules, table));
    for (uint32_t v = 0; v < program->image->value_count; v++)
        memcpy(&values[v], table + (program->image->arg_count + v) * sizeof *values,
               sizeof *values);
    return isa_correct(memory, program->image, values, out_image);
}

static spyre_status correct_sized(const spyre_program *family, const int64_t *granules,
                                  spyre_program *program)
{
    const spyrecode_sizes *sizes = program_sizes_of(family);
    uint32_t count = family->image->arg_count;
    spyrecode_argument *arguments = ARENA_NEW(program->memory, spyrecode_argument, count);
    spyrecode_operand *operands = ARENA_NEW(program->memory, spyrecode_operand, count);
    isa_program *image;
    TRY_ALLOC(arguments);
    TRY_ALLOC(operands);
    for (uint32_t k = 0; k < count; k++) {
        arguments[k] = family->arguments[k];
        if (!arguments[k].operand) continue;
        TRY(spyrecode_operand_at(sizes, arguments[k].operand, granules, &operands[k]));
        arguments[k].operand = &operands[k];
    }
    TRY(correct_image(family, granules, program->memory, &image));
    return program_take_image(program, family->code, image, arguments);
}

// --- Sizes from arguments
//
// A launch has the sizes at which every argument that grows with them has the bytes that it is
// given, and no other needs more.

typedef struct {
    const spyre_program *program;
    const int64_t *bytes;
    const spyre_layout *const *layouts; // or null
    arena *scratch;
    bool *grows;                        // by argument
    const spyrecode_operand **operands; // at the present sizes
    uint32_t matched;                   // bit k: argument k (of the first 32) has its bytes at some
                                        // sizes
    int64_t least[32], most[32];        // bytes of these
} search;

static uint32_t size_count(const spyre_program *program)
{
    const spyrecode_sizes *sizes = program_sizes_of(program);
    if (!sizes) return symbolic_program_count(program->waiting);
    int64_t count = 1;
    for (uint32_t s = 0; s < sizes->symbol_count && count <= SYMBOLIC_MOST_SIZES; s++) {
        int64_t values = sizes->symbols[s].most / sizes->symbols[s].granularity;
        if (values > SYMBOLIC_MOST_SIZES) return SYMBOLIC_MOST_SIZES + 1;
        count *= values;
    }
    return count > SYMBOLIC_MOST_SIZES ? SYMBOLIC_MOST_SIZES + 1 : (uint32_t)count;
}

static void granules_of(const spyre_program *program, uint32_t number, int64_t *out_granules)
{
    const spyrecode_sizes *sizes = program_sizes_of(program);
    if (!sizes) {
        symbolic_program_granules(program->waiting, number, out_granules);
        return;
    }
    for (uint32_t s = sizes->symbol_count; s-- > 0;) {
        uint32_t values = (uint32_t)(sizes->symbols[s].most / sizes->symbols[s].granularity);
        out_granules[s] = values - number % values;
        number /= values;
    }
}

static spyre_status operands_at(search *f, const int64_t *granules)
{
    const spyre_program *program = f->program;
    const spyrecode_sizes *sizes = program_sizes_of(program);
    spyrecode_argument *arguments = NULL;
    if (!sizes) {
        bundle *bound;
        TRY(symbolic_program_bind(f->scratch, program->waiting, granules, &bound));
        TRY(code_bundle_arguments(f->scratch, bound, &arguments));
    }
    for (uint32_t k = 0; k < program->argument_count; k++) {
        f->operands[k] = sizes ? program->operands[k] : arguments[k].operand;
        if (!sizes || !f->operands[k]) continue;
        spyrecode_operand *at = ARENA_NEW(f->scratch, spyrecode_operand, 1);
        TRY_ALLOC(at);
        TRY(spyrecode_operand_at(sizes, f->operands[k], granules, at));
        f->operands[k] = at;
    }
    return NULL;
}

static int64_t least_of(const search *f, uint32_t k)
{
    return f->operands[k] ? f->operands[k]->least_bytes : 0;
}

static spyre_status find_growing(search *f, uint32_t count)
{
    int64_t granules[SPYRECODE_MOST_SYMBOLS];
    uint32_t arguments = f->program->argument_count;
    int64_t *largest = ARENA_NEW(f->scratch, int64_t, arguments);
    TRY_ALLOC(largest);
    granules_of(f->program, 0, granules);
    TRY(operands_at(f, granules));
    for (uint32_t k = 0; k < arguments; k++) largest[k] = least_of(f, k);
    granules_of(f->program, count - 1, granules);
    TRY(operands_at(f, granules));
    for (uint32_t k = 0; k < arguments; k++) {
        f->grows[k] = largest[k] != least_of(f, k);
        if (k >= 32) continue;
        f->least[k] = least_of(f, k);
        f->most[k] = largest[k];
    }
    return NULL;
}

static bool matches(search *f)
{
    bool all = true;
    for (uint32_t k = 0; k < f->program->argument_count; k++) {
        bool one = f->grows[k] ? f->bytes[k] == least_of(f, k) : f->bytes[k] >= least_of(f, k);
        if (one && f->layouts && f->operands[k]) {
            spyre_status status = program_check_walks(f->operands[k], k, f->layouts[k]);
            one = status == NULL;
            spyre_status_free(status);
        }
        if (one && k < 32) f->matched |= 1u << k;
        all = all && one;
    }
    return all;
}

static const char *shown_sizes(const search *f)
{
    const spyrecode_sizes *sizes = program_sizes_of(f->program);
    uint32_t count = sizes ? sizes->symbol_count : f->program->waiting->symbols.count;
    char *shown = arena_strdup(f->scratch, "");
    for (uint32_t s = 0; s < count && shown; s++) {
        spyrecode_symbol symbol;
        if (sizes) {
            symbol = sizes->symbols[s];
        } else {
            const bundle_symbol *from = &f->program->waiting->symbols.items[s];
            symbol = (spyrecode_symbol){from->name, from->granularity, from->most};
        }
        shown = arena_printf(f->scratch, "%s%s%s a multiple of %lld up to %lld", shown,
                             s ? ", " : "", symbol.name, (long long)symbol.granularity,
                             (long long)symbol.most);
    }
    return shown ? shown : "";
}

static spyre_status refuse(const search *f)
{
    for (uint32_t k = 0; k < f->program->argument_count && k < 32; k++) {
        if (f->matched >> k & 1) continue;
        return status_new(SPYRE_INVALID_ARGUMENT,
                          "launch argument %u has %lld bytes on the card, of %lld to %lld that it "
                          "has with %s", k, (long long)f->bytes[k], (long long)f->least[k],
                          (long long)f->most[k], shown_sizes(f));
    }
    return status_new(SPYRE_INVALID_ARGUMENT,
                      "the launch arguments do not agree about sizes: there are none with %s at "
                      "which they all are as large as they are", shown_sizes(f));
}

static spyre_status find_sizes(search *f, int64_t *out_granules)
{
    uint32_t count = size_count(f->program);
    if (count > SYMBOLIC_MOST_SIZES)
        return status_new(SPYRE_UNSUPPORTED, "more than %d sizes that a launch may choose from",
                          SYMBOLIC_MOST_SIZES);
    TRY_NEW(f->scratch, f->grows, f->program->argument_count);
    TRY_NEW(f->scratch, f->operands, f->program->argument_count);
    TRY(find_growing(f, count));
    for (uint32_t number = 0; number < count; number++) {
        granules_of(f->program, number, out_granules);
        TRY(operands_at(f, out_granules));
        if (matches(f)) return NULL;
    }
    return refuse(f);
}

static spyre_status make_sized(const spyre_program *program, const int64_t *bytes,
                               const spyre_layout *const *layouts, spyre_program *sized)
{
    int64_t granules[SPYRECODE_MOST_SYMBOLS] = {0};
    const bundle *waiting = program->waiting;
    if (program_sizes_of(program) || (waiting && waiting->symbols.count)) {
        search f = {.program = program, .bytes = bytes, .layouts = layouts,
                    .scratch = arena_create()};
        TRY_ALLOC(f.scratch);
        spyre_status status = find_sizes(&f, granules);
        arena_destroy(f.scratch);
        TRY(status);
    }
    TRY_NEW(sized->memory, sized->sized_bytes, program->argument_count);
    memcpy(sized->sized_bytes, bytes, program->argument_count * sizeof *bytes);
    return program_sizes_of(program) ? correct_sized(program, granules, sized)
                             : compile_sized(program, bytes, granules, sized);
}

// Whether the program touches more than the arguments have.
static bool falls_short(const spyre_program *program, const int64_t *bytes)
{
    for (uint32_t k = 0; k < program->argument_count; k++)
        if (program->operands[k] && bytes[k] < program->operands[k]->least_bytes) return true;
    return false;
}

static bool has_sizes(const spyre_program *sized, const int64_t *bytes,
                      const spyre_layout *const *layouts)
{
    for (uint32_t k = 0; k < sized->argument_count; k++) {
        if (bytes[k] != sized->sized_bytes[k]) return false;
        if (!layouts || !sized->operands[k]) continue;
        spyre_status status = program_check_walks(sized->operands[k], k, layouts[k]);
        bool same = status == NULL;
        spyre_status_free(status);
        if (!same) return false;
    }
    return true;
}

spyre_status spyre_program_sized(spyre_program *program, const int64_t *argument_bytes,
                                 const spyre_layout *const *layouts,
                                 spyre_program **out_program)
{
    *out_program = program;
    if (program->foreign)
        return status_new(SPYRE_UNSUPPORTED, "%s: %s", program->name, program->foreign);
    if (program->job && !(program->bundle && falls_short(program, argument_bytes))) return NULL;
    spyre_program *sized = program->compiled;
    while (sized && !has_sizes(sized, argument_bytes, layouts)) sized = sized->next;
    if (!sized) {
        sized = program_new();
        TRY_ALLOC(sized);
        spyre_program_set_name(sized, program->name);
        spyre_status status = make_sized(program, argument_bytes, layouts, sized);
        if (status) {
            spyre_program_close(sized);
            return program->bundle ? status_at(status, "%s", program->bundle) : status;
        }
    }
    program_keep(&program->compiled, sized);
    *out_program = sized;
    return NULL;
}
