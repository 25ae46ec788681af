// SPDX-License-Identifier: Apache-2.0
//
// Values of storages, between the card's bytes in their own layout and dense host tensors, and the
// forms that they lie in there.
#include "tensor/storage.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t range_lock = PTHREAD_MUTEX_INITIALIZER;

static spyre_transfer whole(const storage *s)
{
    return (spyre_transfer){.card = s->card, .stream = stream_current(s->card),
                            .address = s->address, .layout = &s->layout, .storage = &s->dense,
                            .dtype = s->dtype};
}

// Whether the card's integers hold them.
static bool integers_fit(const int64_t *values, int64_t count)
{
    uint64_t beyond = 0;
    for (int64_t i = 0; i < count; i++)
        beyond |= ((uint64_t)values[i] + (UINT64_C(1) << 31)) >> 32;
    return beyond == 0;
}

static bool read_card(const spyre_transfer *transfer, void *host)
{
    spyre_context *context = device_context();
    return context && core_check(spyre_copy_to_host(context, transfer, host));
}

static bool write_card(const spyre_transfer *transfer, const void *host)
{
    spyre_context *context = device_context();
    return context && core_check(spyre_copy_to_card(context, transfer, host));
}

static bool write_held(spyre_transfer *transfer, const void *host, bool *out_held)
{
    bool wrapped = false;
    if (transfer->dtype == SPYRE_DTYPE_I64) transfer->out_wrapped = &wrapped;
    bool ok = write_card(transfer, host);
    *out_held = !wrapped;
    return ok;
}

bool storage_read(const storage *s, void *host)
{
    if (!s->typed) {
        memcpy(host, s->raw, (size_t)s->host_bytes);
        return true;
    }
    spyre_transfer transfer = whole(s);
    return read_card(&transfer, host);
}

static bool write_whole(storage *s, const void *host)
{
    spyre_transfer transfer = whole(s);
    return write_card(&transfer, host);
}

// Gives the storage another form, with the contents of `host`; it is unchanged when that fails.
static bool change_form(storage *s, spyre_dtype dtype, const spyre_view *dense,
                        const spyre_layout *layout, const void *host)
{
    if (storage_has_views(s))
        return core_fail(SPYRE_UNSUPPORTED,
                         "a storage that a view of another layout shares stays as it lies");
    s->range_known = false;
    storage before = *s;
    s->shared = NULL;
    bool ok = storage_give_memory(s, dtype, dense, layout, 0);
    if (ok && !write_whole(s, host)) {
        storage_free_memory(s, s->address, s->card_bytes);
        ok = false;
    }
    if (!ok) *s = before;
    else if (before.typed) storage_leave_memory(&before);
    return ok;
}

static bool change_to_bytes(storage *s, const void *host)
{
    spyre_view dense;
    spyre_layout layout;
    return storage_form_of_bytes(s->host_bytes, &dense, &layout) &&
           change_form(s, SPYRE_DTYPE_I8, &dense, &layout, host);
}

// Readers are about what they read.
static void forget_readers(storage *s)
{
    s->read_as_is = s->read_otherwise = false;
}

static bool begin_write(storage *s)
{
    forget_readers(s);
    return storage_own(s);
}

bool storage_write(storage *s, const void *host)
{
    if (!begin_write(s)) return false;
    if (!s->typed) {
        memcpy(s->raw, host, (size_t)s->host_bytes);
        return true;
    }
    bool held;
    spyre_transfer transfer = whole(s);
    return write_held(&transfer, host, &held) && (held || change_to_bytes(s, host));
}

bool storage_read_range(const storage *s, spyre_integer_range *out)
{
    spyre_context *context = device_context();
    spyre_transfer transfer = whole(s);
    return context && core_check(spyre_read_integer_range(context, &transfer, out));
}

bool storage_kept_range(storage *s, spyre_integer_range *out)
{
    if (!s->range_known) return false;
    pthread_mutex_lock(&range_lock);
    *out = s->range;
    pthread_mutex_unlock(&range_lock);
    return true;
}

void storage_keep_range(storage *s, const spyre_integer_range *range)
{
    if (s->shared && !s->shared->extends) return;
    pthread_mutex_lock(&range_lock);
    s->range = *range;
    pthread_mutex_unlock(&range_lock);
    s->range_known = true;
}

bool storage_read_view(const storage *s, const spyre_view *view, void *host)
{
    spyre_transfer transfer = whole(s);
    transfer.view = view;
    return read_card(&transfer, host);
}

bool storage_write_view(storage *s, const spyre_view *view, const void *host, bool *out_held)
{
    if (!begin_write(s)) return false;
    spyre_transfer transfer = whole(s);
    transfer.view = view;
    return write_held(&transfer, host, out_held);
}

bool storage_pack(const storage *s, const spyre_view *part, spyre_view *out_part,
                  int64_t *out_elements)
{
    spyre_context *context = device_context();
    spyre_transfer transfer = whole(s);
    transfer.part = part;
    return context &&
           core_check(spyre_transfer_pack(context, &transfer, out_part, out_elements));
}

bool storage_read_part(const storage *s, const spyre_view *part, bool packed, void *host)
{
    spyre_transfer transfer = whole(s);
    transfer.part = part;
    transfer.packed = packed;
    return read_card(&transfer, host);
}

bool storage_write_part(storage *s, const spyre_view *part, bool packed, const void *host,
                        bool *out_held)
{
    if (!storage_own(s)) return false;
    spyre_transfer transfer = whole(s);
    transfer.part = part;
    transfer.packed = packed;
    return write_held(&transfer, host, out_held);
}

// The bytes as they lie on the card, unchanged: 8-bit integers have one form on host and card.
static bool raw(const storage *s, spyre_view *view, spyre_layout *layout, spyre_transfer *out)
{
    *view = (spyre_view){.rank = 1, .size = {s->card_bytes}, .stride = {1}};
    *out = whole(s);
    out->layout = layout;
    out->storage = view;
    out->dtype = SPYRE_DTYPE_I8;
    return core_check(spyre_layout_dense(view, SPYRE_DTYPE_I8, layout));
}

bool storage_read_raw(const storage *s, void *bytes)
{
    spyre_view view;
    spyre_layout layout;
    spyre_transfer transfer;
    return raw(s, &view, &layout, &transfer) && read_card(&transfer, bytes);
}

// The form of a storage that PyTorch made by bytes alone and reads as `dtype`. int64 that does not
// fit the card's integers, and bytes that are no whole elements, stay bytes.
static bool describe_flat(const storage *s, spyre_dtype dtype, spyre_view *dense,
                          spyre_layout *layout, spyre_dtype *out_dtype)
{
    int64_t element = spyre_dtype_bytes(dtype);
    bool held = spyre_dtype_card_format(dtype) != SPYRE_FORMAT_INVALID &&
                s->host_bytes % element == 0 &&
                (dtype != SPYRE_DTYPE_I64 || integers_fit(s->raw, s->host_bytes / element));
    *out_dtype = held ? dtype : SPYRE_DTYPE_I8;
    if (!held) return storage_form_of_bytes(s->host_bytes, dense, layout);
    *dense = (spyre_view){.rank = 1, .size = {s->host_bytes / element}, .stride = {1}};
    return core_check(spyre_layout_default(dense->size, 1, dtype, layout));
}

bool storage_type(storage *s, spyre_dtype dtype)
{
    if (s->typed || s->host_bytes == 0) return true;
    spyre_view dense;
    spyre_layout layout;
    void *raw = s->raw;
    if (!describe_flat(s, dtype, &dense, &layout, &dtype) ||
        !change_form(s, dtype, &dense, &layout, raw))
        return false;
    s->raw = NULL;
    free(raw);
    return true;
}

bool storage_renew(storage *s, spyre_dtype dtype, const spyre_view *dense,
                   const spyre_layout *layout)
{
    if (storage_has_views(s)) return true;
    storage before = *s;
    s->shared = NULL;
    s->range_known = false;
    if (!storage_give_memory(s, dtype, dense, layout, 0)) {
        *s = before;
        return false;
    }
    storage_leave_memory(&before);
    return true;
}

bool storage_set_form(storage *s, spyre_dtype dtype, const spyre_view *dense,
                      const spyre_layout *layout)
{
    if (!core_check(spyre_layout_check(layout))) return false;
    if (storage_extent_bytes(dense, dtype) != s->host_bytes)
        return core_fail(SPYRE_INVALID_ARGUMENT,
                         "a layout of %lld bytes for a storage of %lld: they must agree",
                         (long long)storage_extent_bytes(dense, dtype), (long long)s->host_bytes);
    void *host = malloc((size_t)s->host_bytes + 1);
    if (!host) return core_fail(SPYRE_OUT_OF_MEMORY, "no host memory to change a layout");
    bool ok = storage_read(s, host);
    if (ok && (dtype != SPYRE_DTYPE_I64 || integers_fit(host, s->host_bytes / 8))) {
        ok = change_form(s, dtype, dense, layout, host);
        if (ok) free(s->raw);
        if (ok) s->raw = NULL;
    }
    free(host);
    return ok;
}

bool storage_set_layout(storage *s, const spyre_layout *layout)
{
    if (!s->typed)
        return core_fail(SPYRE_INVALID_ARGUMENT, "a storage without element type has no layout");
    if (spyre_layout_equal(&s->layout, layout)) return true;
    spyre_view dense = s->dense;
    return storage_set_form(s, s->dtype, &dense, layout);
}

bool storage_prefer_layout(storage *s, const spyre_layout *layout, bool at_once, bool *out_moved)
{
    *out_moved = false;
    bool due = at_once || s->read_otherwise;
    if (!due || !s->typed || s->settled || s->read_as_is || spyre_layout_equal(&s->layout, layout))
        return true;
    if (!storage_set_layout(s, layout)) return false;
    s->settled = *out_moved = true;
    return true;
}

bool storage_take_after(storage *s, const storage *from)
{
    if (!storage_give_memory(s, from->dtype, &from->dense, &from->layout, 0)) return false;
    free(s->raw);
    s->raw = NULL;
    return core_check(spyre_copy_raw(device_context(), s->card, stream_current(s->card), s->address,
                                     from->address, s->card_bytes));
}

bool storage_exchange(storage *a, storage *b)
{
    bool alike = a->card == b->card && a->typed && b->typed && a->dtype == b->dtype &&
                 a->card_bytes == b->card_bytes && spyre_layout_equal(&a->layout, &b->layout);
    if (!alike || storage_has_views(a) || storage_has_views(b)) return false;
    uint64_t address = a->address;
    storage_memory *shared = a->shared;
    a->address = b->address;
    a->widened_from = 0;
    a->range_known = b->range_known = false;
    a->shared = b->shared;
    b->address = address;
    b->shared = shared;
    forget_readers(a);
    return true;
}

// Host bytes behind `pointer`: the memory itself, or a copy of the storage's dense tensor.
static bool stage(const void *pointer, int64_t bytes, void *host)
{
    const storage *s = storage_of(pointer);
    if (!s) {
        memcpy(host, pointer, (size_t)bytes);
        return true;
    }
    const int64_t start = storage_start_bytes(pointer), behind = s->host_bytes - start;
    if (s->host_bytes == bytes && start == 0) return storage_read(s, host);
    char *whole = malloc((size_t)s->host_bytes + 1);
    if (!whole) return core_fail(SPYRE_OUT_OF_MEMORY, "no host memory to copy a storage");
    bool ok = storage_read(s, whole);
    if (ok && behind > 0) memcpy(host, whole + start, (size_t)(bytes < behind ? bytes : behind));
    free(whole);
    return ok;
}

bool storage_copy_bytes(void *target, const void *source, int64_t bytes)
{
    if (bytes == 0) return true;
    storage *to = storage_of(target);
    if (!to) return stage(source, bytes, target);
    int64_t room = to->host_bytes, start = storage_start_bytes(target);
    if (bytes > room - start)
        return core_fail(SPYRE_INVALID_ARGUMENT, "copy of %lld bytes into a storage of %lld",
                         (long long)bytes, (long long)(room - start));
    char *host = malloc((size_t)room);
    if (!host) return core_fail(SPYRE_OUT_OF_MEMORY, "no host memory to copy a storage");
    bool ok = (bytes == room || storage_read(to, host)) && stage(source, bytes, host + start) &&
              storage_write(to, host);
    free(host);
    return ok;
}
