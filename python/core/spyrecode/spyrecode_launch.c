// SPDX-License-Identifier: Apache-2.0
//
// Launches of SpyreCode directories. The tensors are bound by their storages, in the order of the
// launch arguments, and the launch runs in the current stream.
#include "core.h"

#include <stdlib.h>

#include "spyrecode/spyrecode_neighbours.h"

// Whether launches take a view from where it begins. Otherwise a program takes its storage, as
// torch-spyre's runtime hands it over; where a view begins is then none of its addresses or, if
// the program has it in its own, may be another place than that of this launch.
static bool from_views;

// _launch_from_views(wanted)
PyObject *spyrecode_launch_from_views(PyObject *self, PyObject *wanted)
{
    (void)self;
    int given = PyObject_IsTrue(wanted);
    if (given < 0) return NULL;
    from_views = given;
    Py_RETURN_NONE;
}

// *out_bytes: the card's in front of the view, or -1 where the launch takes the storage.
static bool skip_to_view(uint32_t index, const tensor_info *t, int64_t *out_bytes)
{
    const storage *s = t->storage;
    spyre_view view;
    *out_bytes = from_views && !tensor_covers(t) ? 0 : -1;
    if (t->offset == 0) return true;
    if (!from_views)
        return core_fail(SPYRE_INVALID_ARGUMENT,
                         "argument %u of a launch is a view that begins %lld elements behind the "
                         "start of its storage, from where a program takes it: copy it first",
                         index, (long long)t->offset);
    if (dtype_of_torch(t->torch_dtype) != s->dtype)
        return core_fail(SPYRE_UNSUPPORTED,
                         "argument %u of a launch is a view of another dtype that begins inside of "
                         "its storage: copy it first", index);
    if (!tensor_view(t, &view)) return false;
    spyre_status status = spyre_layout_view_begin(&s->layout, &s->dense, &view, out_bytes);
    if (!status) return true;
    core_fail(SPYRE_UNSUPPORTED,
              "argument %u of a launch is a view that begins %lld elements behind the start of its "
              "storage, %s: copy it first", index, (long long)t->offset,
              spyre_status_message(status));
    spyre_status_free(status);
    return false;
}

// The storage of a launch argument, and where in it the argument begins on the card.
static bool bind_tensor(uint32_t index, PyObject *tensor, storage **out, int64_t *out_skipped)
{
    tensor_info t;
    if (!tensor_of_object(tensor, &t)) return false;
    if (!t.storage || !tensor_settle(&t))
        return core_fail(SPYRE_INVALID_ARGUMENT, "argument %u of a launch is not on the card",
                         index);
    *out = t.storage;
    return skip_to_view(index, &t, out_skipped);
}

// The tensors of a launch.
typedef struct {
    uint32_t count, card;
    bool tiled;                         // larger ones may be taken in several launches
    storage **storages;
    const spyre_layout **layouts;
    int64_t *bytes, *skipped;           // skipped: in front of a view, or -1
    int64_t *steps;                     // from one launch to the next
    uint64_t *addresses, *copies;       // copies: of views, or 0
} binding;

static uint64_t view_address(const binding *b, uint32_t i)
{
    return b->storages[i]->address + (uint64_t)(b->skipped[i] > 0 ? b->skipped[i] : 0);
}

static bool take_storages(binding *b, PyObject *tensors)
{
    b->card = (uint32_t)device_current();
    for (uint32_t i = 0; i < b->count; i++) {
        PyObject *tensor = PyTuple_GetItem(tensors, (Py_ssize_t)i);
        if (!bind_tensor(i, tensor, &b->storages[i], &b->skipped[i])) return false;
        storage *s = b->storages[i];
        if (!storage_own(s)) return false;
        b->layouts[i] = &s->layout;
        b->bytes[i] = s->card_bytes;
        b->addresses[i] = view_address(b, i);
        if (i == 0) b->card = s->card;
        if (s->card != b->card)
            return core_fail(SPYRE_INVALID_ARGUMENT,
                             "argument %u of a launch is on spyre:%u, argument 0 on spyre:%u", i,
                             s->card, b->card);
    }
    return true;
}

// One launch reads what another one has written if they share the memory.
static bool check_rounds(const binding *b, uint32_t rounds)
{
    for (uint32_t i = 0; rounds > 1 && i < b->count; i++) {
        if (b->steps[i] && !b->tiled)
            return core_fail(SPYRE_INVALID_ARGUMENT,
                             "argument %u of a launch is %u times as large as the program was "
                             "compiled for, and allow_tiled_launch is False", i, rounds);
        for (uint32_t other = 0; other < i; other++)
            if (storage_is_over(b->storages[i], b->storages[other]) &&
                b->steps[i] != b->steps[other])
                return core_fail(SPYRE_INVALID_ARGUMENT,
                                 "arguments %u and %u of a launch are in one memory, of which "
                                 "one is taken in %u tiles", other, i, rounds);
    }
    return true;
}

// ---- copies of views
//
// Programs touch more than the view that they compute, such as rows of padding, or all of a table.
// Where that would lie behind the end of the storage, a copy has zeros there.

static int64_t bytes_left(const binding *b, uint32_t i)
{
    return b->bytes[i] - b->skipped[i];
}

static bool is_alone(const binding *b, uint32_t i)
{
    for (uint32_t other = 0; other < b->count; other++)
        if (other != i && storage_is_over(b->storages[i], b->storages[other]))
            return core_fail(SPYRE_UNSUPPORTED,
                             "argument %u of a launch is a view with less behind it than the "
                             "program touches, and argument %u is in its memory, too: copy it "
                             "first", i, other);
    return true;
}

static bool copy_view(spyre_context *context, binding *b, uint32_t i, int64_t bytes)
{
    uint32_t stream = stream_current(b->card);
    if (!is_alone(b, i) ||
        !core_check(spyre_memory_allocate(context, b->card, stream, bytes, &b->copies[i])))
        return false;
    b->addresses[i] = b->copies[i];
    return core_check(spyre_copy_raw(context, b->card, stream, b->copies[i], 0, bytes)) &&
           core_check(spyre_copy_raw(context, b->card, stream, b->copies[i], view_address(b, i),
                                     bytes_left(b, i)));
}

static bool copy_views(spyre_context *context, binding *b, const spyre_program *program)
{
    for (uint32_t i = 0; i < b->count; i++) {
        int64_t bytes = spyre_program_argument_reach(program, i);
        if (b->skipped[i] > 0 && bytes > bytes_left(b, i) && !copy_view(context, b, i, bytes))
            return false;
    }
    return true;
}

// What the program has written goes back, if it ran.
static bool return_views(spyre_context *context, const binding *b, bool ran)
{
    uint32_t stream = stream_current(b->card);
    for (uint32_t i = 0; i < b->count; i++) {
        if (!b->copies[i]) continue;
        ran = ran && core_check(spyre_copy_raw(context, b->card, stream, view_address(b, i),
                                               b->copies[i], bytes_left(b, i)));
        spyre_memory_free(context, b->card, b->copies[i]);
    }
    return ran;
}

// Runs the sized program, `rounds` times.
static bool run_rounds(spyre_context *context, const spyre_program *program, binding *b,
                       uint32_t rounds)
{
    bool ok = copy_views(context, b, program);
    for (uint32_t r = 0; ok && r < rounds; r++) {
        ok = core_check(spyre_program_launch(context, b->card, stream_current(b->card), program,
                                             b->addresses));
        for (uint32_t i = 0; i < b->count; i++) b->addresses[i] += (uint64_t)b->steps[i];
    }
    return return_views(context, b, ok);
}

static bool run_bound(spyre_program *program, PyObject *tensors, binding *b)
{
    spyre_program *sized, *tiled;
    uint32_t rounds;
    neighbours kept = {0};
    if (!take_storages(b, tensors)) return false;
    if (!core_check(spyre_program_sized(program, b->bytes, b->layouts, &sized))) return false;
    if (!core_check(spyre_program_rounds(sized, b->layouts, b->skipped, &rounds, b->steps, &tiled)))
        return false;
    if (!check_rounds(b, rounds)) return false;
    for (uint32_t i = 0; i < b->count; i++) b->storages[i]->settled = true;  // where files say
    spyre_context *context = device_context();
    if (!context) return false;
    const launch_tensors launch = {b->count, tensors, b->storages, b->skipped};
    bool ok = neighbours_save(context, sized, &launch, &kept) &&
              run_rounds(context, tiled, b, rounds);
    return neighbours_return(context, &kept, ok);
}

// `tensors` is a tuple, which keeps them. A program may use fewer than it is given: torch-spyre
// hands the pool of a graph to every kernel.
static bool run(spyre_program *program, PyObject *tensors, bool tiled)
{
    binding b = {.count = spyre_program_argument_count(program), .tiled = tiled};
    if (PyTuple_Size(tensors) < (Py_ssize_t)b.count)
        return core_fail(SPYRE_INVALID_ARGUMENT, "the program takes %u tensors, %zd were given",
                         b.count, PyTuple_Size(tensors));
    b.storages = calloc((size_t)b.count + 1, sizeof *b.storages);
    b.layouts = calloc((size_t)b.count + 1, sizeof *b.layouts);
    b.bytes = calloc((size_t)b.count + 1, sizeof *b.bytes);
    b.skipped = calloc((size_t)b.count + 1, sizeof *b.skipped);
    b.steps = calloc((size_t)b.count + 1, sizeof *b.steps);
    b.addresses = calloc((size_t)b.count + 1, sizeof *b.addresses);
    b.copies = calloc((size_t)b.count + 1, sizeof *b.copies);
    bool ok = b.storages && b.layouts && b.bytes && b.skipped && b.steps && b.addresses && b.copies
                  ? run_bound(program, tensors, &b)
                  : core_fail(SPYRE_OUT_OF_MEMORY, "no memory for a launch");
    free(b.copies);
    free(b.addresses);
    free(b.steps);
    free(b.skipped);
    free(b.bytes);
    free(b.layouts);
    free(b.storages);
    return ok;
}

bool spyrecode_launch(spyre_program *program, PyObject *sequence, bool tiled)
{
    PyObject *tensors = PySequence_Tuple(sequence);
    bool ok = tensors && run(program, tensors, tiled);
    Py_XDECREF(tensors);
    return ok;
}
