// SPDX-License-Identifier: Apache-2.0
//
// Ranks as processes: each is a child of the test that runs one function and says by its exit
// status whether all it checked holds. cmocka's assertions are for the parent, RANK_* for children.
#ifndef UNIT_COMM_RANKS_H
#define UNIT_COMM_RANKS_H

#include "unit/check.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "spyre/comm.h"

enum { RANKS_MOST = 16, STORE_KEYS = 1024, STORE_BYTES = 512 };

// A store of all children.
typedef struct {
    pthread_mutex_t lock;
    struct {
        char key[160], value[STORE_BYTES];
        size_t length;
    } entries[STORE_KEYS];
    uint32_t count;
} test_store;

static test_store *the_store;

#define RANK_HOLDS(expression)                                                                  \
    do {                                                                                        \
        if (!(expression)) {                                                                    \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #expression);     \
            _exit(1);                                                                           \
        }                                                                                       \
    } while (0)

#define RANK_OK(expression) rank_ok((expression), __FILE__, __LINE__)

static inline void rank_ok(spyre_status status, const char *file, int line)
{
    if (!status) return;
    fprintf(stderr, "%s:%d: %s\n", file, line, spyre_status_message(status));
    _exit(1);
}

// The status is an error of that code that names all these pieces; frees it.
#define RANK_ERROR(expression, code, ...)                                                       \
    rank_error((expression), (code), (const char *const[]){__VA_ARGS__, NULL}, __FILE__, __LINE__)

static inline void rank_error(spyre_status status, spyre_code code, const char *const *pieces,
                              const char *file, int line)
{
    bool good = spyre_status_code(status) == code;
    for (; *pieces; pieces++) good = good && strstr(spyre_status_message(status), *pieces);
    if (!good) {
        fprintf(stderr, "%s:%d: %s: %s\n", file, line, spyre_code_name(spyre_status_code(status)),
                spyre_status_message(status));
        _exit(1);
    }
    spyre_status_free(status);
}

static inline void pause_ms(int64_t ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

static bool store_set(void *context, const char *key, const void *bytes, size_t count,
                      char out_error[256])
{
    (void)out_error;
    test_store *s = context;
    bool set = false;
    pthread_mutex_lock(&s->lock);
    uint32_t at = 0;
    while (at < s->count && strcmp(s->entries[at].key, key)) at++;
    if (at < STORE_KEYS && count <= STORE_BYTES) {
        snprintf(s->entries[at].key, sizeof s->entries[at].key, "%s", key);
        memcpy(s->entries[at].value, bytes, s->entries[at].length = count);
        if (at == s->count) s->count++;
        set = true;
    }
    pthread_mutex_unlock(&s->lock);
    return set;
}

static bool store_look(test_store *s, const char *key, void *buffer, size_t capacity, size_t *out)
{
    bool found = false;
    pthread_mutex_lock(&s->lock);
    for (uint32_t at = 0; at < s->count && !found; at++) {
        if (strcmp(s->entries[at].key, key) || s->entries[at].length > capacity) continue;
        memcpy(buffer, s->entries[at].value, *out = s->entries[at].length);
        found = true;
    }
    pthread_mutex_unlock(&s->lock);
    return found;
}

static bool store_get(void *context, const char *key, int64_t timeout_ms, void *buffer,
                      size_t capacity, size_t *out_count, char out_error[256])
{
    for (int64_t ms = 0; ms < timeout_ms; ms++) {
        if (store_look(context, key, buffer, capacity, out_count)) return true;
        pause_ms(1);
    }
    snprintf(out_error, 256, "no such key");
    return false;
}

static inline void set_number(const char *name, uint32_t value)
{
    char text[16];
    snprintf(text, sizeof text, "%u", value);
    setenv(name, text, 1);
}

// Says which host this rank is on, as if there were several: all on one, every other one on a
// second, halves, or the last one apart. Before it joins.
enum { HOST_LAYOUTS = 4 };

static inline void live_on_host(uint32_t layout, uint32_t rank, uint32_t size)
{
    const uint32_t hosts[HOST_LAYOUTS] = {0, rank % 2, rank >= size / 2, rank + 1 == size};
    set_number("SPYRE_COMM_HOST", hosts[layout % HOST_LAYOUTS]);
}

static inline spyre_status join_as(uint32_t rank, uint32_t size, const char *name,
                                   int64_t timeout_ms, spyre_comm **out)
{
    spyre_comm_store store = {the_store, store_set, store_get};
    spyre_comm_options options = {rank, size, name, timeout_ms, NULL};
    return spyre_comm_create(&options, &store, out);
}

static inline void *share(size_t bytes)
{
    void *shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    return shared;
}

static inline void make_store(void)
{
    the_store = share(sizeof *the_store);
    pthread_mutexattr_t shared;
    pthread_mutexattr_init(&shared);
    pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&shared, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&the_store->lock, &shared);
}

typedef void rank_body(uint32_t rank, uint32_t size);

static inline pid_t start_rank(rank_body *body, uint32_t rank, uint32_t size)
{
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child) return child;
    body(rank, size);
    _exit(0);
}

// Runs the function as each rank; all must succeed.
static inline void run_ranks(uint32_t size, rank_body *body)
{
    pid_t children[RANKS_MOST];
    make_store();
    for (uint32_t r = 0; r < size; r++) children[r] = start_rank(body, r, size);
    bool good = true;
    for (uint32_t r = 0; r < size; r++) {
        int state;
        assert_int_equal(waitpid(children[r], &state, 0), children[r]);
        if (WIFEXITED(state) && WEXITSTATUS(state) == 0) continue;
        if (WIFSIGNALED(state)) print_error("rank %u: signal %d\n", r, WTERMSIG(state));
        else print_error("rank %u failed\n", r);
        good = false;
    }
    munmap(the_store, sizeof *the_store);
    assert_true(good);
}

#endif
