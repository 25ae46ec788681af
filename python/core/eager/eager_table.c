// SPDX-License-Identifier: Apache-2.0
#include "eager/eager_table.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

// Open addressing, half full at most. A program that leaves the table while a thread is at it waits
// in a list; whoever comes next with Python's lock frees it.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static eager_program **slots;
static size_t slot_count, program_count;
static eager_program *forgotten;

// FNV-1a over words; keys differ in few of them.
uint64_t eager_hash(const glue_call *call, uint32_t length)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325), word;
    uint32_t at = 0;
    for (; at + sizeof word <= length; at += (uint32_t)sizeof word) {
        memcpy(&word, call->key + at, sizeof word);
        hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
    }
    for (; at < length; at++) hash = (hash ^ call->key[at]) * UINT64_C(0x100000001b3);
    return hash ^ hash >> 32;
}

// The slot of the call's program, or the empty one for it. Under the lock, with a table.
static eager_program **slot_of(uint64_t hash, const uint8_t *key, uint32_t length)
{
    for (size_t at = hash & (slot_count - 1);; at = (at + 1) & (slot_count - 1)) {
        eager_program *p = slots[at];
        bool same = p && p->hash == hash && p->key_length == length;
        if (!p || (same && memcmp(p->key, key, length) == 0)) return &slots[at];
    }
}

static bool grow(void)
{
    size_t old_count = slot_count;
    eager_program **old = slots, **grown = calloc(old_count ? old_count * 2 : 256, sizeof *grown);
    if (!grown) return false;
    slots = grown;
    slot_count = old_count ? old_count * 2 : 256;
    for (size_t i = 0; i < old_count; i++)
        if (old[i]) *slot_of(old[i]->hash, old[i]->key, old[i]->key_length) = old[i];
    free(old);
    return true;
}

// The caller lets go of it.
static eager_program *find_by(const glue_call *call, uint32_t length)
{
    uint64_t hash = eager_hash(call, length);
    pthread_mutex_lock(&lock);
    eager_program *found = slot_count ? *slot_of(hash, call->key, length) : NULL;
    if (found) atomic_fetch_add_explicit(&found->users, 1, memory_order_relaxed);
    pthread_mutex_unlock(&lock);
    return found;
}

void eager_let_go(eager_program *p)
{
    atomic_store_explicit(&p->used, true, memory_order_relaxed);
    atomic_fetch_sub_explicit(&p->users, 1, memory_order_release);
}

eager_program *eager_find(glue_call *call)
{
    eager_program *found = find_by(call, call->length);
    if (!found || !found->by_value) return found;
    eager_let_go(found);
    return find_by(call, eager_length_with_values(call));
}

// Under the lock: empties a slot, and moves what would not be found any more.
static void take_out(eager_program **slot)
{
    eager_program *p = *slot;
    *slot = NULL;
    program_count--;
    p->next_forgotten = forgotten;
    forgotten = p;
    size_t mask = slot_count - 1;
    for (size_t at = (size_t)(slot - slots + 1) & mask; slots[at]; at = (at + 1) & mask) {
        eager_program *moved = slots[at];
        slots[at] = NULL;
        *slot_of(moved->hash, moved->key, moved->key_length) = moved;
    }
}

void eager_free(eager_program *p)
{
    for (uint32_t i = 0; p->fitting && i < EAGER_MOST_INPUTS; i++)
        Py_XDECREF(p->fitting->constants[i]);
    free(p->fitting);
    free(p->nothing);
    Py_DECREF(p->object);
    free(p);
}

void eager_free_forgotten(void)
{
    eager_program *idle = NULL;
    pthread_mutex_lock(&lock);
    for (eager_program **at = &forgotten; *at;) {
        eager_program *p = *at;
        if (atomic_load_explicit(&p->users, memory_order_acquire)) {
            at = &p->next_forgotten;
            continue;
        }
        *at = p->next_forgotten;
        p->next_forgotten = idle;
        idle = p;
    }
    pthread_mutex_unlock(&lock);
    while (idle) {
        eager_program *p = idle;
        idle = p->next_forgotten;
        eager_free(p);
    }
}

// Whether a program takes the place of an equal call's: with other bounds, or for all numbers.
static bool replaces(const eager_program *p, const eager_program *known)
{
    return known->bound_count > 0 || (known->by_value && !p->by_value);
}

bool eager_add(eager_program *p)
{
    pthread_mutex_lock(&lock);
    bool room = 2 * (program_count + 1) <= slot_count || grow();
    eager_program **slot = room ? slot_of(p->hash, p->key, p->key_length) : NULL;
    if (slot && *slot && replaces(p, *slot)) {
        take_out(slot);
        slot = slot_of(p->hash, p->key, p->key_length);
    }
    bool fresh = slot && !*slot;
    if (fresh) {
        *slot = p;
        program_count++;
    }
    pthread_mutex_unlock(&lock);
    return fresh;
}

bool eager_forget(PyObject *object, bool always)
{
    bool used = false;
    pthread_mutex_lock(&lock);
    for (size_t at = 0; at < slot_count && !always; at++)
        if (slots[at] && slots[at]->object == object)
            used = atomic_exchange(&slots[at]->used, false) || used;
    for (size_t at = 0; at < slot_count && !used;)
        if (slots[at] && slots[at]->object == object) take_out(&slots[at]);
        else at++;
    pthread_mutex_unlock(&lock);
    eager_free_forgotten();
    return !used;
}

void eager_forget_all(void)
{
    pthread_mutex_lock(&lock);
    for (size_t at = 0; at < slot_count; at++) {
        if (!slots[at]) continue;
        slots[at]->next_forgotten = forgotten;
        forgotten = slots[at];
        slots[at] = NULL;
    }
    program_count = 0;
    pthread_mutex_unlock(&lock);
    eager_free_forgotten();
}
