// SPDX-License-Identifier: Apache-2.0
//
// Machine code of all vector programs of a process, by their ops. Readers take no lock: an entry is
// complete when the table has it, and stays. Each lies in pages of its own, which are written
// before they may be executed, never both.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <xxhash.h>

#include "card/codegen/unit_code.h"
#include "card/codegen/vector_code.h"
#include "card/simd/simd.h"

enum { TABLE_SLOTS = 2 * CODE_MOST_PROGRAMS, CODE_BYTES = 256 << 10 };

// What the code of a program depends on.
typedef struct {
    uint32_t count;                         // words of it
    uint32_t word[2 * CODE_MOST_STEPS];
} program_key;

typedef struct {
    vector_loop *loop;                      // NULL: op by op
    program_key key;                        // as long as it is
} code_entry;

static _Atomic(const code_entry *) table[TABLE_SLOTS];
static pthread_mutex_t writing = PTHREAD_MUTEX_INITIALIZER;
static uint32_t entries;

static void describe(const vector_program *w, program_key *out)
{
    const vector_step *leading = code_leading_step(w);
    out->count = 2 * w->count;
    for (uint32_t n = 0; n < w->count; n++) {
        const vector_step *s = &w->steps[n];
        out->word[2 * n] = s->op | (uint32_t)s->rounding << 16 | (uint32_t)s->halves << 18 |
                           (uint32_t)s->wide << 19 | (uint32_t)s->holds << 20 |
                           (uint32_t)s->rest_of_each << 21 | (uint32_t)s->plain << 22 |
                           (uint32_t)s->streams << 23 |
                           (uint32_t)(leading && code_follows(s, leading)) << 24 |
                           (uint32_t)s->ranged << 25 | (uint32_t)s->begins << 26 |
                           (uint32_t)s->same << 27 | (uint32_t)w->half << 28;
        out->word[2 * n + 1] = s->ranged ? (uint8_t)s->least | (uint32_t)(uint8_t)s->most << 8
                                         : s->rest | s->slot << 16;
    }
}

static size_t key_bytes(const program_key *key)
{
    return offsetof(program_key, word) + key->count * sizeof *key->word;
}

static bool same_key(const program_key *a, const program_key *b)
{
    return a->count == b->count && !memcmp(a->word, b->word, a->count * sizeof *a->word);
}

// The slot that has the key's entry, or where it belongs.
static uint32_t find(const program_key *key, const code_entry **out)
{
    uint32_t slot = (uint32_t)XXH3_64bits(key, key_bytes(key)) % TABLE_SLOTS;
    for (;; slot = (slot + 1) % TABLE_SLOTS) {
        *out = atomic_load_explicit(&table[slot], memory_order_acquire);
        if (!*out || same_key(&(*out)->key, key)) return slot;
    }
}

// Pages with the code; NULL where the system gives none.
static void *in_pages(const code_buffer *b)
{
    void *pages = mmap(NULL, b->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) return NULL;
    memcpy(pages, b->bytes, b->size);
    if (!mprotect(pages, b->size, PROT_READ | PROT_EXEC)) return pages;
    munmap(pages, b->size);
    return NULL;
}

static vector_loop *write_loop(const vector_program *w)
{
    code_buffer *b = calloc(1, sizeof *b);
    uint8_t *bytes = malloc(CODE_BYTES);
    void *code = NULL;
    if (b && bytes) {
        b->bytes = bytes;
        b->capacity = CODE_BYTES;
        if (write_vector_code(b, w)) code = in_pages(b);
    }
    free(bytes);
    free(b);
    vector_loop *loop;
    memcpy(&loop, &code, sizeof loop);
    return loop;
}

static const code_entry *add(const vector_program *w, const program_key *key)
{
    const code_entry *found;
    pthread_mutex_lock(&writing);
    const uint32_t slot = find(key, &found);
    code_entry *made = found || entries == CODE_MOST_PROGRAMS
                           ? NULL
                           : malloc(offsetof(code_entry, key) + key_bytes(key));
    if (made) {
        made->loop = write_loop(w);
        memcpy(&made->key, key, key_bytes(key));
        entries++;
        atomic_store_explicit(&table[slot], made, memory_order_release);
        found = made;
    }
    pthread_mutex_unlock(&writing);
    return found;
}

static bool has_avx512(void)
{
#if defined(__x86_64__)
    return simd_in_use() == &simd_avx512;
#else
    return false;
#endif
}

vector_loop *vector_code_of(const vector_program *w)
{
    program_key key;
    const code_entry *entry;
    if (!has_avx512() || w->count > CODE_MOST_STEPS) return NULL;
    describe(w, &key);
    find(&key, &entry);
    if (!entry) entry = add(w, &key);
    return entry ? entry->loop : NULL;
}
