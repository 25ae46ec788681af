// SPDX-License-Identifier: Apache-2.0
//
// Rounds: tensors that are larger than the program was compiled for, in one of the ways that its
// code names (tiled_launch.h). Where the longer dim is not the outermost one, the launches are of
// the program with its accesses further apart (isa/retile.h), which is kept.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compile/program/program_state.h"
#include "isa/retile.h"

typedef struct {
    const spyre_program *program;
    const spyre_layout *const *layouts;
    const int64_t *skipped;             // or null
    uint32_t rounds;
    uint32_t *times;                    // by argument: 1, or rounds
    int64_t *steps;                     // of the way that was taken: tiles, 0 of what is not larger
    spyre_status unfit;                 // what a tile was refused for, or null
} search;

static spyre_status refuse(const search *f, uint32_t argument, const char *why)
{
    return status_new(SPYRE_INVALID_ARGUMENT,
                      "launch argument %u has %lld bytes on the card, the program was compiled for "
                      "%lld%s", argument, (long long)spyre_layout_bytes(f->layouts[argument]),
                      (long long)f->program->argument_bytes[argument], why);
}

// --- How much larger

static bool is_part(const search *f, uint32_t k)
{
    return f->skipped && f->skipped[k] >= 0;
}

static spyre_status count_times(const search *f, uint32_t k, uint32_t *out_times)
{
    int64_t found = spyre_layout_bytes(f->layouts[k]), wanted = f->program->argument_bytes[k];
    *out_times = 1;
    if (!wanted || found == wanted || is_part(f, k)) return NULL;
    if (found < wanted) return refuse(f, k, "");
    if (found % wanted || found / wanted > UINT32_MAX)
        return refuse(f, k, ", which is no divisor of it");
    *out_times = (uint32_t)(found / wanted);
    return NULL;
}

static spyre_status count_rounds(search *f, uint32_t *out_larger)
{
    f->rounds = 1;
    *out_larger = 0;
    for (uint32_t k = 0; k < f->program->argument_count; k++) {
        uint32_t times;
        TRY(count_times(f, k, &times));
        f->times[k] = times;
        if (times > 1 && f->rounds > 1 && times != f->rounds)
            return status_new(SPYRE_INVALID_ARGUMENT,
                              "launch argument %u is %u times as large as the program was compiled "
                              "for, launch argument %u %u times", *out_larger, f->rounds, k, times);
        if (times > 1) f->rounds = times, *out_larger = k;
    }
    return NULL;
}

// --- Shapes

// A tile of an argument, or all of it. Of a part only its walks are known, of bytes nothing.
static spyre_status check_tile(const search *f, uint32_t k, const spyre_layout *layout)
{
    char shown[512], wanted[512];
    spyre_layout compiled = {0};
    TRY(spyre_program_check_argument(f->program, k, layout));
    bool bytes = layout->format == SPYRE_FORMAT_SENINT8 || layout->format == SPYRE_FORMAT_SENUINT32;
    if (!bytes && f->program->operands[k] && !is_part(f, k))
        compiled = f->program->operands[k]->layout;
    compiled.format = layout->format;
    if (compiled.rank == 0 || spyrecode_same_places(&compiled, layout)) return NULL;
    spyre_layout_format(layout, shown, sizeof shown);
    spyre_layout_format(&compiled, wanted, sizeof wanted);
    return status_new(SPYRE_INVALID_ARGUMENT,
                      "launch argument %u lies on the card as %s, the program was compiled for %s",
                      k, shown, wanted);
}

// --- Ways

// The dim along which the argument is larger in a way, or -1.
static int32_t dim_in_way(const search *f, uint32_t k, uint32_t way)
{
    const spyrecode_operand *operand = f->program->operands[k];
    for (uint32_t n = 0; operand && n < operand->tile_count; n++)
        if (operand->tiles[n].way == way) return (int32_t)operand->tiles[n].dim;
    return -1;
}

// Gives the layout the compiled one's dims: those of one index may be missing from either, but the
// one that is longer. False when there are others.
static bool align_dims(const spyre_layout *compiled, uint32_t dim, spyre_layout *layout)
{
    spyre_layout aligned = *compiled;
    uint32_t from = spyrecode_longer_dim(layout, 0);
    aligned.format = layout->format;
    for (uint32_t d = 0; d < compiled->rank; d++) {
        if (compiled->device_size[d] == 1 && d != dim) continue;
        if (from == layout->rank) return false;
        aligned.device_size[d] = layout->device_size[from];
        aligned.stride_map[d] = layout->stride_map[from];
        from = spyrecode_longer_dim(layout, from + 1);
    }
    bool all = from == layout->rank;
    *layout = aligned;
    return all;
}

// Makes the layout that of one tile; false when it is not so many times as long along that dim.
// What lies outside of the dim on the host is nearer together then.
static bool cut_tile(const spyre_layout *compiled, uint32_t dim, uint32_t times,
                     spyre_layout *layout, int64_t *out_bytes)
{
    int64_t end = compiled->stride_map[dim] * compiled->device_size[dim];
    if (!align_dims(compiled, dim, layout) || layout->device_size[dim] % times) return false;
    layout->device_size[dim] /= times;
    for (uint32_t d = 0; d < layout->rank; d++)
        if (d != dim && compiled->stride_map[d] >= end) layout->stride_map[d] /= times;
    *out_bytes = SPYRE_STICK_BYTES;
    for (uint32_t d = dim; d + 1 < layout->rank; d++) *out_bytes *= layout->device_size[d];
    return spyrecode_same_places(layout, compiled);
}

// Whether the arguments are larger as in that way; which are is looked at alone without `shapes`.
static bool fits(search *f, uint32_t way, bool shapes)
{
    for (uint32_t k = 0; k < f->program->argument_count; k++) {
        int32_t dim = dim_in_way(f, k, way);
        spyre_layout layout = *f->layouts[k];
        f->steps[k] = 0;
        if ((dim >= 0) != (f->times[k] > 1)) return false;
        if (!shapes) continue;
        if (dim >= 0 && !cut_tile(&f->program->operands[k]->layout, (uint32_t)dim, f->rounds,
                                  &layout, &f->steps[k]))
            return false;
        spyre_status status = check_tile(f, k, &layout);
        if (!status) continue;
        spyre_status_free(f->unfit);
        f->unfit = status;
        return false;
    }
    return true;
}

static bool find_way(search *f, bool shapes, uint32_t *out_way)
{
    for (*out_way = 0; *out_way < SPYRECODE_MOST_WAYS; ++*out_way)
        if (fits(f, *out_way, shapes)) return true;
    return false;
}

// No way has these arguments larger, or none of those that have has this one along that dim.
static spyre_status refuse_shapes(search *f, uint32_t larger)
{
    char shown[256], why[512];
    uint32_t way;
    if (!find_way(f, false, &way))
        return refuse(f, larger, ": several launches of it with these arguments larger, and no "
                                 "others, would compute something else");
    spyre_layout compiled = f->program->operands[larger]->layout;
    compiled.format = f->layouts[larger]->format;
    spyre_layout_format(&compiled, shown, sizeof shown);
    snprintf(why, sizeof why, " of %s: it is %u times as large, but not along dim %d, or another "
             "argument is not", shown, f->rounds, dim_in_way(f, larger, way));
    return refuse(f, larger, why);
}

static spyre_status find_tiles(search *f, uint32_t larger)
{
    uint32_t way;
    bool found = find_way(f, true, &way);
    spyre_status unfit = f->unfit;
    if (!found) return unfit ? unfit : refuse_shapes(f, larger);
    spyre_status_free(unfit);
    return NULL;
}

static spyre_status find_rounds(search *f)
{
    uint32_t larger;
    TRY(count_rounds(f, &larger));
    if (f->rounds > 1) return find_tiles(f, larger);
    memset(f->steps, 0, f->program->argument_count * sizeof *f->steps);
    for (uint32_t k = 0; k < f->program->argument_count; k++)
        TRY(check_tile(f, k, f->layouts[k]));
    return NULL;
}

// --- The program whose accesses are further apart

static isa_tiling tiling_of(const search *f, uint32_t k)
{
    int64_t tile = f->steps[k];
    if (!tile || tile == f->program->argument_bytes[k]) return (isa_tiling){0};
    return (isa_tiling){tile, tile * f->rounds};
}

static bool is_apart(const search *f, const spyre_program *tiled)
{
    return tiled->rounds == f->rounds &&
           memcmp(tiled->steps, f->steps, f->program->argument_count * sizeof *f->steps) == 0;
}

static spyre_status make_tiled(const search *f, spyre_program *tiled)
{
    const spyre_program *from = f->program;
    isa_tiling *tilings;
    isa_program *image;
    TRY_NEW(tiled->memory, tilings, from->image->arg_count);
    TRY_NEW(tiled->memory, tiled->steps, from->argument_count);
    memcpy(tiled->steps, f->steps, from->argument_count * sizeof *f->steps);
    tiled->rounds = f->rounds;
    for (uint32_t a = 0; a < from->image->arg_count; a++)
        if (from->arguments[a].kind == SPYRECODE_LAUNCH)
            tilings[a] = tiling_of(f, from->arguments[a].index);
    TRY(isa_retile(tiled->memory, from->image, tilings, &image));
    return program_take_image(tiled, from->code, image, from->arguments);
}

static spyre_status make_apart(const search *f, spyre_program **out)
{
    spyre_program *tiled = program_new();
    TRY_ALLOC(tiled);
    spyre_program_set_name(tiled, f->program->name);
    spyre_status status = make_tiled(f, tiled);
    if (status) spyre_program_close(tiled);
    else *out = tiled;
    return status_at(status, "%u launches of %s", f->rounds, f->program->name);
}

static spyre_status take_tiled(const search *f, spyre_program *program, spyre_program **out)
{
    bool apart = false;
    for (uint32_t k = 0; k < program->argument_count; k++)
        apart = apart || tiling_of(f, k).tile_bytes;
    *out = apart ? program->tiled : program;
    if (!apart) return NULL;
    while (*out && !is_apart(f, *out)) *out = (*out)->next;
    if (!*out) TRY(make_apart(f, out));
    program_keep(&program->tiled, *out);
    return NULL;
}

spyre_status spyre_program_rounds(spyre_program *program, const spyre_layout *const *layouts,
                                  const int64_t *skipped_bytes, uint32_t *out_rounds,
                                  int64_t *out_steps, spyre_program **out_program)
{
    search f = {.program = program, .layouts = layouts, .skipped = skipped_bytes,
                .steps = out_steps,
                .times = calloc((size_t)program->argument_count + 1, sizeof *f.times)};
    TRY_ALLOC(f.times);
    spyre_status status = find_rounds(&f);
    *out_rounds = f.rounds;
    if (!status) status = take_tiled(&f, program, out_program);
    free(f.times);
    return status;
}
