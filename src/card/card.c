// SPDX-License-Identifier: Apache-2.0
//
// The card as a thing: its address space, its LX and its host threads.
#define _GNU_SOURCE             // memfd_create
#include "card/card.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/environment.h"
#include "card/machine.h"
#include "card/machine/check.h"
#include "card/row_fusion/run/run_rows.h"

#define MEMORY_BYTES (CARD_SEGMENTS * CARD_SEGMENT_BYTES)
#define LX_BYTES ((size_t)ISA_CORES * ISA_LX_BYTES)
#define ALL_LX_BYTES (2 * LX_BYTES)     // of cores, and of host threads

// Lazily backed: a page costs host memory once it is written.
static spyre_status reserve(size_t bytes, uint8_t **out_memory)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        return status_new(SPYRE_OUT_OF_MEMORY,
                          "card: the host refuses %zu bytes of address space (is `ulimit -v` or "
                          "vm.overcommit_memory=2 set?)", bytes);
    }
    // Huge pages make the first touch of large tensors several times cheaper; a refusal is fine.
    madvise(memory, bytes, MADV_HUGEPAGE);
    *out_memory = memory;
    return NULL;
}

// 0 where the C library does not say.
static size_t second_cache_bytes(void)
{
#if defined(_SC_LEVEL2_CACHE_SIZE)
    long bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
    return bytes > 0 ? (size_t)bytes : 0;
#else
    return 0;
#endif
}

static spyre_status build(card *c)
{
    TRY(reserve(MEMORY_BYTES, &c->memory));
    TRY(reserve(ALL_LX_BYTES, &c->lx));
    uint32_t threads;
    TRY(thread_default_count(&threads));
    if (threads > ISA_CORES) threads = ISA_CORES;
    TRY(pool_create(threads, &c->workers));
    threads = pool_threads(c->workers);
    c->scratch = calloc(threads, sizeof *c->scratch);
    TRY_ALLOC(c->scratch);
    size_t cache_bytes = second_cache_bytes();
    for (uint32_t n = 0; n < threads; n++) {
        c->scratch[n].cache_bytes = cache_bytes;
        c->scratch[n].fusion = rows_thread_create();
        TRY_ALLOC(c->scratch[n].fusion);
    }
    c->runs = calloc(ISA_CORES, sizeof *c->runs);
    TRY_ALLOC(c->runs);
    return ring_create(&c->messages);
}

// SPYRE_CARD_MODE, SPYRE_WIPE_LX, SPYRE_CARD_CHECK.
static spyre_status read_environment(card *c)
{
    static const char *const modes[] = {"fast", "exact"}, *const switches[] = {"0", "1"};
    uint32_t mode, wipe, check;
    TRY(environment_choice("SPYRE_CARD_MODE", modes, 2, &mode));
    TRY(environment_choice("SPYRE_WIPE_LX", switches, 2, &wipe));
    TRY(environment_choice("SPYRE_CARD_CHECK", switches, 2, &check));
    c->mode = mode == 1 ? CARD_EXACT : CARD_FAST;
    c->wipe_each_launch = wipe == 1;
    return card_set_check(c, check == 1);
}

spyre_status card_create(card **out_card)
{
    card *c = calloc(1, sizeof *c);
    TRY_ALLOC(c);
    spyre_status status = build(c);
    if (!status) status = read_environment(c);
    if (status) card_destroy(c);
    else *out_card = c;
    return status;
}

void card_destroy(card *c)
{
    if (!c) return;
    if (c->scratch) {
        for (uint32_t i = 0; i < pool_threads(c->workers); i++) {
            free(c->scratch[i].fusion);
            free(c->scratch[i].rows);
            free(c->scratch[i].columns);
            free(c->scratch[i].sums);
            free(c->scratch[i].results);
        }
    }
    free(c->scratch);
    pool_destroy(c->workers);
    ring_destroy(c->messages);
    check_destroy(c->check);
    free(c->runs);
    if (c->memory) munmap(c->memory, MEMORY_BYTES);
    if (c->lx) munmap(c->lx, ALL_LX_BYTES);
    free(c);
}

void card_set_mode(card *c, card_mode mode)
{
    c->mode = mode;
}

void card_set_stop(card *c, bool stop)
{
    atomic_store_explicit(&c->stop, stop, memory_order_relaxed);
}

spyre_status card_set_check(card *c, bool on)
{
    if (on == (c->check != NULL)) return NULL;
    if (on) return check_create(&c->check);
    check_destroy(c->check);
    c->check = NULL;
    return NULL;
}

void *card_memory(card *c, uint64_t address, uint64_t bytes)
{
    if (address >= MEMORY_BYTES) return NULL;
    uint64_t left = CARD_SEGMENT_BYTES - address % CARD_SEGMENT_BYTES;
    return bytes <= left ? c->memory + address : NULL;
}

uint64_t card_page_bytes(void)
{
    return (uint64_t)sysconf(_SC_PAGESIZE);
}

void card_memory_discard(card *c, uint64_t address, uint64_t bytes)
{
    uint8_t *begin = card_memory(c, address, bytes);
    if (!begin || bytes == 0) return;
    uint64_t page = card_page_bytes();
    uint64_t skip = (page - address % page) % page;
    if (bytes < skip + page) {
        memset(begin, 0, bytes);
        return;
    }
    uint64_t whole = (bytes - skip) / page * page;
    memset(begin, 0, skip);
    // Of memory in pieces MADV_DONTNEED would only forget where it is.
    bool shared = c->composed && madvise(begin + skip, whole, MADV_REMOVE) == 0;
    if (!shared && madvise(begin + skip, whole, MADV_DONTNEED) != 0)
        memset(begin + skip, 0, whole);
    memset(begin + skip + whole, 0, bytes - skip - whole);
}

// --- Memory in pieces: one file of the host's memory, mapped in both places

static bool map_at(card *c, uint64_t address, uint64_t bytes, int file, uint64_t offset)
{
    int flags = MAP_FIXED | (file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE : MAP_SHARED);
    void *place = card_memory(c, address, bytes);
    return place && mmap(place, bytes, PROT_READ | PROT_WRITE, flags, file, (off_t)offset) == place;
}

static uint64_t total_bytes(const card_piece *pieces, uint32_t count)
{
    uint64_t bytes = 0;
    for (uint32_t n = 0; n < count; n++) bytes += pieces[n].bytes;
    return bytes;
}

static bool map_pieces(card *c, uint64_t address, const card_piece *pieces, uint32_t count,
                       int file)
{
    uint64_t at = 0, bytes = total_bytes(pieces, count);
    if (ftruncate(file, (off_t)bytes) != 0 || !map_at(c, address, bytes, file, 0)) return false;
    for (uint32_t n = 0; n < count; at += pieces[n++].bytes)
        if (!map_at(c, pieces[n].address, pieces[n].bytes, file, at)) return false;
    return true;
}

spyre_status card_memory_compose(card *c, uint64_t address, const card_piece *pieces,
                                 uint32_t count)
{
    int file = memfd_create("spyre-card", MFD_CLOEXEC);
    bool mapped = file >= 0 && map_pieces(c, address, pieces, count, file);
    int reason = errno;
    if (file >= 0) close(file);
    c->composed++;
    if (mapped) return NULL;
    card_memory_separate(c, address, pieces, count);
    return status_new(SPYRE_OUT_OF_MEMORY, "card: the host maps no memory in %u pieces: %s", count,
                      strerror(reason));
}

static void map_plain(card *c, uint64_t address, uint64_t bytes)
{
    if (map_at(c, address, bytes, -1, 0)) {
        madvise(card_memory(c, address, bytes), bytes, MADV_HUGEPAGE);
        return;
    }
    memset(card_memory(c, address, bytes), 0, bytes);   // the old mapping still serves
}

void card_memory_separate(card *c, uint64_t address, const card_piece *pieces, uint32_t count)
{
    map_plain(c, address, total_bytes(pieces, count));
    for (uint32_t n = 0; n < count; n++) map_plain(c, pieces[n].address, pieces[n].bytes);
    c->composed--;
}

void card_wipe_lx(card *c)
{
    if (madvise(c->lx, LX_BYTES, MADV_DONTNEED) != 0) memset(c->lx, 0, LX_BYTES);
    if (c->check) check_wipe_lx(c->check);
}

uint8_t *card_lx(card *c, uint32_t core)
{
    if (core >= ISA_CORES) return NULL;
    if (c->check) check_know_lx(c->check, core);
    return c->lx + (size_t)core * ISA_LX_BYTES;
}
