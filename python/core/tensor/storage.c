// SPDX-License-Identifier: Apache-2.0
//
// The table of storages behind the pointers that PyTorch holds.
//
// A pointer is 0x7 | card (4 bits) | slot + 1 (27 bits) | 29 zero bits: bits 60..62 set make it
// non-canonical on x86-64 and arm64, so a stray host access faults at once. PyTorch adds the start
// of a part of a storage (UntypedStorage[a:b]) to it, of up to 512 MB. Records live in chunks
// that never move; a record is only read while a tensor keeps its storage alive, so reading takes
// no lock.
#include "tensor/storage.h"

#include <stdatomic.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define POINTER_TAG (UINT64_C(7) << 60)
enum { CARD_SHIFT = 56, SLOT_SHIFT = 29, CHUNK_SLOTS = 4096, MAX_CHUNKS = 16384 };

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
    uint64_t number = value >> SLOT_SHIFT & ((UINT64_C(1) << (CARD_SHIFT - SLOT_SHIFT)) - 1);
    if (value >> 60 != POINTER_TAG >> 60 || number == 0 || number > slots_made) return false;
    *out_slot = (uint32_t)number - 1;
    return true;
}

storage *storage_of(const void *base)
{
    uint32_t slot;
    return pointer_slot(base, &slot) ? slot_record(slot) : NULL;
}

int64_t storage_start_bytes(const void *base)
{
    return (int64_t)((uint64_t)(uintptr_t)base & ((UINT64_C(1) << SLOT_SHIFT) - 1));
}

int64_t storage_extent_bytes(const spyre_view *view, spyre_dtype dtype)
{
    int64_t elements = 1;
    for (uint32_t i = 0; i < view->rank; i++) {
        if (view->size[i] == 0) return 0;
        elements += (view->size[i] - 1) * view->stride[i];
    }
    return elements * spyre_dtype_bytes(dtype);
}

bool storage_give_memory(storage *s, spyre_dtype dtype, const spyre_view *dense,
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
    s->host_bytes = storage_extent_bytes(dense, dtype);
    profiler_report_memory(s->pointer, bytes, s->card);
    return true;
}

void storage_free_memory(const storage *s, uint64_t address, int64_t bytes)
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
    if (storage_give_memory(s, dtype, dense, layout, 0)) return s;
    storage_release(*out_pointer, NULL);
    return NULL;
}

// ---- card memory of several storages
//
// Views lie over the same bytes. A storage that extends another one begins with its bytes and goes
// on behind them, in the room that the memory was made with: what a cache gets is then written, and
// what it had stays where it is. To the program these two are different tensors, so whoever writes
// what both have takes a copy first.

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

void storage_leave_memory(storage *s)
{
    storage_memory *shared = s->shared;
    s->shared = NULL;
    if (!shared) {
        storage_free_memory(s, s->address, s->card_bytes);
    } else if (atomic_fetch_sub(&shared->storages, 1) == 1) {
        s->pointer = shared->pointer;
        storage_free_memory(s, shared->address, shared->bytes);
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
    s->host_bytes = storage_extent_bytes(dense, of->dtype);
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
    if (storage_give_memory(s, dtype, dense, layout, room_bytes)) {
        s->settled = true;
        if (clear(s, s->card_bytes, s->card_bytes + room_bytes) && make_shared(s, true, room_bytes))
            return s;
        storage_free_memory(s, s->address, s->card_bytes + room_bytes);
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
    bool ok = storage_give_memory(s, s->dtype, &before.dense, &before.layout, 0) &&
              core_check(spyre_copy_raw(device_context(), s->card, stream_current(s->card),
                                        s->address, before.address, s->card_bytes));
    if (ok) storage_leave_memory(&before);
    else *s = before;
    return ok;
}

bool storage_form_of_bytes(int64_t bytes, spyre_view *dense, spyre_layout *layout)
{
    *dense = (spyre_view){.rank = 1, .size = {bytes}, .stride = {1}};
    return core_check(spyre_layout_dense(dense, SPYRE_DTYPE_I8, layout));
}

storage *storage_create_bytes(uint32_t card, int64_t bytes, void **out_pointer)
{
    spyre_view dense;
    spyre_layout layout;
    if (!storage_form_of_bytes(bytes, &dense, &layout)) return NULL;
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
    if (s->typed) storage_leave_memory(s);
    free(s->raw);
    s->raw = NULL;
    s->typed = false;
    pthread_mutex_lock(&table_lock);
    free_slots[free_count++] = slot;
    pthread_mutex_unlock(&table_lock);
}
