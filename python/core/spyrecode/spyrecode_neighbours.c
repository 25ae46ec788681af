// SPDX-License-Identifier: Apache-2.0
//
// Keeping what lies beside the views that a launch writes: the storage is copied before; after the
// launch the views' elements are put into the copy, and the copy back. The program works on the
// storage itself, so that it does not matter which other arguments are in it.
//
// x[:, :32].mul_(2) of rows of 64 elements: the program stores 128 bytes a row, of which 64 are the
// view's; the others of each row come from the copy.
#include "spyrecode/spyrecode_neighbours.h"

#include <stdlib.h>

static bool is_written(const spyre_program *program, uint32_t i)
{
    return spyre_program_argument_stored(program, i) > 0;
}

static bool cannot_keep(uint32_t i, const char *why)
{
    return core_fail(SPYRE_UNSUPPORTED,
                     "argument %u of a launch is written and a view of a part of its storage, %s: "
                     "copy it first", i, why);
}

// The view's runs in its storage; `runs` null: they are counted.
static bool find_runs(const launch_tensors *launch, uint32_t i, spyre_layout_run *runs,
                      spyre_layout_runs *out)
{
    tensor_info t;
    spyre_view view;
    const storage *s = launch->storages[i];
    if (!tensor_of_object(PyTuple_GetItem(launch->tensors, (Py_ssize_t)i), &t)) return false;
    if (dtype_of_torch(t.torch_dtype) != s->dtype) return cannot_keep(i, "of another dtype");
    if (!tensor_view(&t, &view)) return false;
    spyre_status status = spyre_layout_view_runs(&s->layout, &s->dense, &view, runs, out);
    if (!status) return out->count <= INT32_MAX || cannot_keep(i, "of 2^31 runs of bytes");
    cannot_keep(i, spyre_status_message(status));
    spyre_status_free(status);
    return false;
}

// Whether the launch changes elements of the argument's storage that are none of a written view.
static bool has_neighbours(const spyre_program *program, const launch_tensors *launch, uint32_t i,
                           bool *out)
{
    spyre_layout_runs runs;
    *out = false;
    for (uint32_t other = 0; other < launch->count; other++)
        if (launch->storages[other] == launch->storages[i] && launch->skipped[other] < 0 &&
            is_written(program, other))
            return true;
    if (!is_written(program, i) || launch->skipped[i] < 0) return true;
    if (!find_runs(launch, i, NULL, &runs)) return false;
    *out = !runs.whole || spyre_program_argument_stored(program, i) > runs.bytes;
    return true;
}

// What is written of a storage is known if no other one is over its memory.
static bool is_single(const spyre_program *program, const launch_tensors *launch, uint32_t i)
{
    for (uint32_t other = 0; other < launch->count; other++)
        if (launch->storages[other] != launch->storages[i] && is_written(program, other) &&
            storage_is_over(launch->storages[i], launch->storages[other]))
            return cannot_keep(i, "which another written argument has in another form");
    return true;
}

static bool add_pieces(const launch_tensors *launch, uint32_t i, neighbour *kept)
{
    spyre_layout_runs all;
    if (!find_runs(launch, i, NULL, &all)) return false;
    spyre_layout_run *runs = calloc((size_t)all.count + 1, sizeof *runs);
    size_t count = (size_t)kept->piece_count + (size_t)all.count + 1;
    spyre_piece *pieces = realloc(kept->pieces, count * sizeof *pieces);
    if (pieces) kept->pieces = pieces;
    bool ok = runs && pieces ? find_runs(launch, i, runs, &all)
                             : core_fail(SPYRE_OUT_OF_MEMORY, "no memory for a launch");
    for (int64_t r = 0; ok && r < all.count; r++)
        pieces[kept->piece_count++] = (spyre_piece){runs[r].start, runs[r].start, runs[r].bytes};
    free(runs);
    return ok;
}

static bool save(spyre_context *context, const spyre_program *program, const launch_tensors *launch,
                 uint32_t i, neighbours *out)
{
    storage *s = launch->storages[i];
    uint32_t stream = stream_current(s->card);
    if (!is_single(program, launch, i)) return false;
    neighbour *kept = &out->items[out->count++];
    *kept = (neighbour){.storage = s};
    for (uint32_t other = 0; other < launch->count; other++)
        if (launch->storages[other] == s && is_written(program, other) &&
            !add_pieces(launch, other, kept))
            return false;
    return core_check(spyre_memory_allocate(context, s->card, stream, s->card_bytes,
                                            &kept->copy)) &&
           core_check(spyre_copy_raw(context, s->card, stream, kept->copy, s->address,
                                     s->card_bytes));
}

static bool is_saved(const neighbours *saved, const storage *s)
{
    for (uint32_t k = 0; k < saved->count; k++)
        if (saved->items[k].storage == s) return true;
    return false;
}

bool neighbours_save(spyre_context *context, const spyre_program *program,
                     const launch_tensors *launch, neighbours *out)
{
    *out = (neighbours){0};
    for (uint32_t i = 0; i < launch->count; i++) {
        bool has;
        if (is_saved(out, launch->storages[i])) continue;
        if (!has_neighbours(program, launch, i, &has)) return false;
        if (!has) continue;
        if (!out->items) out->items = calloc(launch->count, sizeof *out->items);
        if (!out->items) return core_fail(SPYRE_OUT_OF_MEMORY, "no memory for a launch");
        if (!save(context, program, launch, i, out)) return false;
    }
    return true;
}

bool neighbours_return(spyre_context *context, neighbours *saved, bool ran)
{
    for (uint32_t k = 0; k < saved->count; k++) {
        neighbour *kept = &saved->items[k];
        const storage *s = kept->storage;
        uint32_t stream = stream_current(s->card);
        ran = ran &&
              core_check(spyre_copy_pieces(context, s->card, stream, kept->copy, s->address,
                                           kept->pieces, kept->piece_count)) &&
              core_check(spyre_copy_raw(context, s->card, stream, s->address, kept->copy,
                                        s->card_bytes));
        if (kept->copy) spyre_memory_free(context, s->card, kept->copy);
        free(kept->pieces);
    }
    free(saved->items);
    return ran;
}
