// SPDX-License-Identifier: Apache-2.0
//
// The table of storages behind the pointers that PyTorch holds.
//
// A pointer is 0x7 | card (4 bits) | slot + 1 (32 bits) | 24 zero bits: bits 60..62 set make it
// non-canonical on x86-64 and arm64, so a stray host access faults at once. Records live in chunks
// that never move; a record is only read while a tensor keeps its storage alive, so reading takes
// no lock.
#include "core.h"

#include <stdatomic.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define POINTER_TAG (UINT64_C(7) << 60)
enum { CARD_SHIFT = 56, SLOT_SHIFT = 24, CHUNK_SLOTS = 4096, MAX_CHUNKS = 16384 };

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static storage *chunks[MAX_CHUNKS];
static uint32_t *free_slots;
static size_t free_count, free_capacity;
static _Atomic uint32_t slots_made;      // readers take no lock

static storage *slot_record(uint32_t slot)
{
    return &chunks[slot / CHUNK_SLOTS][slot % CHUNK_SLOTS];
}

// A slot that no storage uses; false when memory is exhausted. Under the lock.
static bool take_slot(uint32_t *out_slot)
{
    if (free_count > 0) {
        *out_slot = free_slots[--free_count];
        return true;
    }
    uint32_t chunk = slots_made / CHUNK_SLOTS;
    if (chunk >= MAX_CHUNKS) return false;
    if (!chunks[chunk]) chunks[chunk] = calloc(CHUNK_SLOTS, sizeof(storage));
    if (!chunks[chunk]) return false;
    if (free_capacity <= slots_made) {
        // Room to give back every slot ever made, so that a release cannot fail.
        size_t capacity = free_capacity ? free_capacity * 2 : CHUNK_SLOTS;
        uint32_t *grown = realloc(free_slots, capacity * sizeof *grown);
        if (!grown) return false;
        free_slots = grown;
        free_capacity = capacity;
    }
    *out_slot = slots_made++;
    return true;
}

static storage *new_record(uint32_t card, void **out_pointer)
{
    uint32_t slot = 0;
    pthread_mutex_lock(&table_lock);
    bool ok = take_slot(&slot);
    pthread_mutex_unlock(&table_lock);
    if (!ok) {
        core_fail(SPYRE_OUT_OF_MEMORY, "no room for another storage (%u exist)", slots_made);
        return NULL;
    }
    storage *s = slot_record(slot);
    memset(s, 0, sizeof *s);
    s->card = card;
    *out_pointer = s->pointer = (void *)(uintptr_t)(POINTER_TAG | (uint64_t)card << CARD_SHIFT |
                                       ((uint64_t)slot + 1) << SLOT_SHIFT);
    return s;
}

uint32_t storage_card(const void *pointer)
{
    return (uint32_t)((uint64_t)(uintptr_t)pointer >> CARD_SHIFT) & 0xf;
}

static bool pointer_slot(const void *pointer, uint32_t *out_slot)
{
    uint64_t value = (uint64_t)(uintptr_t)pointer;
    uint64_t number = value >> SLOT_SHIFT & UINT32_MAX;
    if (value >> 60 != POINTER_TAG >> 60 || number == 0 || number > slots_made) return false;
    *out_slot = (uint32_t)number - 1;
    return true;
}

storage *storage_of(const void *base)
{
    uint32_t slot;
    return pointer_slot(base, &slot) ? slot_record(slot) : NULL;
}

// Bytes from the first to behind the last element of a view; 0 when it has no elements.
static int64_t extent_bytes(const spyre_view *view, spyre_dtype dtype)
{
    int64_t elements = 1;
    for (uint32_t i = 0; i < view->rank; i++) {
        if (view->size[i] == 0) return 0;
        elements += (view->size[i] - 1) * view->stride[i];
    }
    return elements * spyre_dtype_bytes(dtype);
}

// Gives an untyped record its type and card memory.
static bool give_type(storage *s, spyre_dtype dtype, const spyre_view *dense,
                      const spyre_layout *layout, int64_t room)
{
    spyre_context *context = device_context();
    if (!context) return false;
    int64_t bytes = spyre_layout_bytes(layout) + room;
    if (!core_check(spyre_memory_place(context, s->card, stream_current(s->card), bytes,
                                       memory_placement(), &s->address)))
        return false;
    s->typed = true;
    s->dtype = dtype;
    s->dense = *dense;
    s->layout = *layout;
    s->card_bytes = bytes - room;
    s->host_bytes = extent_bytes(dense, dtype);
    profiler_report_memory(s->pointer, bytes, s->card);
    return true;
}

static void free_card_memory(const storage *s, uint64_t address, int64_t bytes)
{
    if (!device_started()) return;
    spyre_memory_free(device_context(), s->card, address);
    profiler_report_memory(s->pointer, -bytes, s->card);
}

storage *storage_create(uint32_t card, spyre_dtype dtype, const spyre_view *dense,
                        const spyre_layout *layout, void **out_pointer)
{
    storage *s = new_record(card, out_pointer);
    if (!s) return NULL;
    if (give_type(s, dtype, dense, layout, 0)) return s;
    storage_release(*out_pointer, NULL);
    return NULL;
}

// ---- card memory of several storages
//
// Views lie over the same bytes. A storage that extends another one begins with its bytes and goes
// on behind them, in the room that the memory was made with: what a cache gets is then written, and
// what it had stays where it is. To the program these two are different tensors, so whoever writes
// what both have takes a copy first.

struct storage_memory {
    _Atomic uint32_t storages;
    bool extends;                       // they extend one another; else they are views
    int64_t used;                       // extends: bytes of the longest one, under the lock; zeros
                                        // behind them
    uint64_t address;
    int64_t bytes;
    void *pointer;                      // what profilers know it by
};

static pthread_mutex_t used_lock = PTHREAD_MUTEX_INITIALIZER;

static bool make_shared(storage *s, bool extends, int64_t room_bytes)
{
    storage_memory *shared = malloc(sizeof *shared);
    if (!shared) return core_fail(SPYRE_OUT_OF_MEMORY, "no memory for a view of a storage");
    *shared = (storage_memory){.storages = 1, .extends = extends, .used = s->card_bytes,
                               .address = s->address, .bytes = s->card_bytes + room_bytes,
                               .pointer = s->pointer};
    s->shared = shared;
    return true;
}

bool storage_has_views(const storage *s)
{
    return s->shared && !s->shared->extends;
}

bool storage_is_over(const storage *a, const storage *b)
{
    return a == b || (a && b && a->shared == b->shared && a->shared && !a->shared->extends);
}

// Gives up the storage's card memory, which others may have yet.
static void leave_memory(storage *s)
{
    storage_memory *shared = s->shared;
    s->shared = NULL;
    if (!shared) {
        free_card_memory(s, s->address, s->card_bytes);
    } else if (atomic_fetch_sub(&shared->storages, 1) == 1) {
        s->pointer = shared->pointer;
        free_card_memory(s, shared->address, shared->bytes);
        free(shared);
    }
}

// A storage in the memory of another one.
static storage *join(storage *of, const spyre_view *dense, const spyre_layout *layout,
                     void **out_pointer)
{
    storage *s = new_record(of->card, out_pointer);
    if (!s) return NULL;
    atomic_fetch_add(&of->shared->storages, 1);
    s->shared = of->shared;
    s->typed = s->settled = true;
    s->dtype = of->dtype;
    s->dense = *dense;
    s->layout = *layout;
    s->address = of->address;
    s->card_bytes = spyre_layout_bytes(layout);
    s->host_bytes = extent_bytes(dense, of->dtype);
    return s;
}

storage *storage_share(storage *of, spyre_dtype dtype, const spyre_view *dense,
                       const spyre_layout *layout, void **out_pointer)
{
    int64_t bytes = spyre_layout_bytes(layout);
    if (!core_check(spyre_layout_check(layout))) return NULL;
    if (dtype != of->dtype || layout->format != of->layout.format || bytes > of->card_bytes) {
        core_fail(SPYRE_UNSUPPORTED,
                  "a view of %lld bytes of %s over a storage of %lld bytes of %s: the format must "
                  "be the same, and the bytes not more", (long long)bytes,
                  spyre_format_name(layout->format), (long long)of->card_bytes,
                  spyre_format_name(of->layout.format));
        return NULL;
    }
    if (!storage_own(of) || (!of->shared && !make_shared(of, false, 0))) return NULL;
    of->shared->extends = false;
    of->settled = true;
    return join(of, dense, layout, out_pointer);
}

static bool clear(const storage *s, int64_t from, int64_t to)
{
    return core_check(spyre_copy_raw(device_context(), s->card, stream_current(s->card),
                                     s->address + (uint64_t)from, 0, to - from));
}

storage *storage_create_with_room(uint32_t card, spyre_dtype dtype, const spyre_view *dense,
                                  const spyre_layout *layout, int64_t room_bytes,
                                  void **out_pointer)
{
    storage *s = new_record(card, out_pointer);
    if (!s) return NULL;
    if (give_type(s, dtype, dense, layout, room_bytes)) {
        s->settled = true;
        if (clear(s, s->card_bytes, s->card_bytes + room_bytes) && make_shared(s, true, room_bytes))
            return s;
        free_card_memory(s, s->address, s->card_bytes + room_bytes);
        s->typed = false;
    }
    storage_release(*out_pointer, NULL);
    return NULL;
}

// Takes the room behind the longest storage of a memory, and clears what a freed one has left
// there. *out_taken is false where `of` is not the longest, or there is no such room; false with an
// error where clearing fails.
static bool take_room(const storage *of, int64_t bytes, int64_t reach_bytes, bool *out_taken)
{
    storage_memory *shared = of->shared;
    *out_taken = false;
    if (!shared || !shared->extends || reach_bytes > shared->bytes || bytes > shared->bytes)
        return true;
    pthread_mutex_lock(&used_lock);
    int64_t left = atomic_load(&shared->storages) == 1 ? shared->used : of->card_bytes;
    if (left == shared->used) {
        *out_taken = true;
        shared->used = bytes;
    }
    pthread_mutex_unlock(&used_lock);
    return !*out_taken || left <= bytes || clear(of, bytes, left);
}

bool storage_extend(storage *of, const spyre_view *dense, const spyre_layout *layout,
                    int64_t reach_bytes, storage **out, void **out_pointer)
{
    bool taken;
    *out = NULL;
    if (!take_room(of, spyre_layout_bytes(layout), reach_bytes, &taken)) return false;
    if (!taken) return true;
    *out = join(of, dense, layout, out_pointer);
    if (*out) (*out)->extended = true;
    return *out;
}

storage *storage_with_zeros(storage *of, const spyre_view *dense, const spyre_layout *layout,
                            void **out_pointer)
{
    storage *s = join(of, dense, layout, out_pointer);
    if (s) s->window = true, of->extended = of->range_known = false;
    return s;
}

bool storage_own(storage *s)
{
    bool alone = !s->shared || !s->shared->extends || s->extended || s->window ||
                 atomic_load(&s->shared->storages) == 1;
    s->extended = s->range_known = false;
    s->widened_from = 0;
    if (alone) return true;
    storage before = *s;
    s->shared = NULL;
    bool ok = give_type(s, s->dtype, &before.dense, &before.layout, 0) &&
              core_check(spyre_copy_raw(device_context(), s->card, stream_current(s->card),
                                        s->address, before.address, s->card_bytes));
    if (ok) leave_memory(&before);
    else *s = before;
    return ok;
}

// The form of elements that the card has no format for: their bytes, as the host has them.
static bool describe_bytes(int64_t bytes, spyre_view *dense, spyre_layout *layout)
{
    *dense = (spyre_view){.rank = 1, .size = {bytes}, .stride = {1}};
    return core_check(spyre_layout_dense(dense, SPYRE_DTYPE_I8, layout));
}

storage *storage_create_bytes(uint32_t card, int64_t bytes, void **out_pointer)
{
    spyre_view dense;
    spyre_layout layout;
    if (!describe_bytes(bytes, &dense, &layout)) return NULL;
    return storage_create(card, SPYRE_DTYPE_I8, &dense, &layout, out_pointer);
}

bool storage_is_bytes(const storage *s)
{
    return s->typed && s->dtype == SPYRE_DTYPE_I8 && s->dense.rank == 1;
}

storage *storage_create_raw(uint32_t card, int64_t bytes, void **out_pointer)
{
    if (!device_context()) return NULL;
    storage *s = new_record(card, out_pointer);
    if (!s) return NULL;
    s->host_bytes = bytes;
    s->raw = calloc(1, bytes > 0 ? (size_t)bytes : 1);
    if (s->raw) return s;
    core_fail(SPYRE_OUT_OF_MEMORY, "no host memory for a storage of %lld bytes", (long long)bytes);
    storage_release(*out_pointer, NULL);
    *out_pointer = NULL;
    return NULL;
}

void storage_release(void *pointer, void *unused)
{
    (void)unused;
    uint32_t slot;
    if (!pointer_slot(pointer, &slot)) return;
    storage *s = slot_record(slot);
    if (s->typed) leave_memory(s);
    free(s->raw);
    s->raw = NULL;
    s->typed = false;
    pthread_mutex_lock(&table_lock);
    free_slots[free_count++] = slot;
    pthread_mutex_unlock(&table_lock);
}

// Between the card's bytes in their own layout and a dense host tensor.
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
    bool ok = give_type(s, dtype, dense, layout, 0);
    if (ok && !write_whole(s, host)) {
        free_card_memory(s, s->address, s->card_bytes);
        ok = false;
    }
    if (!ok) *s = before;
    else if (before.typed) leave_memory(&before);
    return ok;
}

static bool change_to_bytes(storage *s, const void *host)
{
    spyre_view dense;
    spyre_layout layout;
    return describe_bytes(s->host_bytes, &dense, &layout) &&
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
    pthread_mutex_lock(&used_lock);
    *out = s->range;
    pthread_mutex_unlock(&used_lock);
    return true;
}

void storage_keep_range(storage *s, const spyre_integer_range *range)
{
    if (s->shared && !s->shared->extends) return;
    pthread_mutex_lock(&used_lock);
    s->range = *range;
    pthread_mutex_unlock(&used_lock);
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
    if (!held) return describe_bytes(s->host_bytes, dense, layout);
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

bool storage_set_form(storage *s, spyre_dtype dtype, const spyre_view *dense,
                      const spyre_layout *layout)
{
    if (!core_check(spyre_layout_check(layout))) return false;
    if (extent_bytes(dense, dtype) != s->host_bytes)
        return core_fail(SPYRE_INVALID_ARGUMENT,
                         "a layout of %lld bytes for a storage of %lld: they must agree",
                         (long long)extent_bytes(dense, dtype), (long long)s->host_bytes);
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
    if (!give_type(s, from->dtype, &from->dense, &from->layout, 0)) return false;
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
    if (s->host_bytes == bytes) return storage_read(s, host);
    void *whole = malloc((size_t)s->host_bytes + 1);
    if (!whole) return core_fail(SPYRE_OUT_OF_MEMORY, "no host memory to copy a storage");
    bool ok = storage_read(s, whole);
    if (ok) memcpy(host, whole, (size_t)(bytes < s->host_bytes ? bytes : s->host_bytes));
    free(whole);
    return ok;
}

bool storage_copy_bytes(void *target, const void *source, int64_t bytes)
{
    if (bytes == 0) return true;
    storage *to = storage_of(target);
    if (!to) return stage(source, bytes, target);
    int64_t room = to->host_bytes;
    if (bytes > room)
        return core_fail(SPYRE_INVALID_ARGUMENT, "copy of %lld bytes into a storage of %lld",
                         (long long)bytes, (long long)room);
    void *host = malloc((size_t)room);
    if (!host) return core_fail(SPYRE_OUT_OF_MEMORY, "no host memory to copy a storage");
    bool ok = (bytes == room || storage_read(to, host)) && stage(source, bytes, host) &&
              storage_write(to, host);
    free(host);
    return ok;
}
