// SPDX-License-Identifier: Apache-2.0
//
// Rounds of random collectives and messages, on one host or as if on two, in which ranks are slow,
// abort, leave or are killed at random. A rank that ends well has seen right numbers only; a rank
// that fails has been told why by an error within the time limit. No rank hangs and no process
// leaves anything behind.
#include "ranks.h"

#include <dirent.h>
#include <signal.h>

#include "base/clock.h"

enum { QUICK_ROUNDS = 80, OPERATIONS = 60, MOST_COUNT = 90000 };
enum { TIMEOUT_MS = 20000, HANG_MS = 40000 };

static uint64_t round_seed;

static uint32_t rounds(void)
{
    const char *asked = getenv("SPYRE_TEST_ROUNDS");
    return asked ? (uint32_t)atoi(asked) : QUICK_ROUNDS;
}

// What goes wrong in a round, and with whom; the parent and all ranks know it alike.
typedef enum { ALL_WELL, KILLED, ABORTS, LEAVES, DIFFERS, MISCHIEF_COUNT } mischief;

typedef struct {
    mischief what;
    uint32_t rank, operation;
} plan;

static plan plan_of(uint32_t size)
{
    uint64_t seed = round_seed * 77 + 5;
    plan p = {.what = (mischief)(check_random(&seed) % MISCHIEF_COUNT)};
    p.rank = (uint32_t)(check_random(&seed) % size);
    p.operation = (uint32_t)(check_random(&seed) % OPERATIONS);
    return p;
}

static int32_t value_of(uint32_t rank, uint32_t operation, uint64_t i)
{
    return (int32_t)(rank * 1000 + operation * 17 + i % 301);
}

// Whether the rank is to go on.
static bool misbehave(spyre_comm *c, const plan *p, uint32_t operation, spyre_comm_call *call)
{
    if (p->what == ALL_WELL || p->rank != spyre_comm_rank(c) || p->operation != operation)
        return true;
    if (p->what == KILLED) kill(getpid(), SIGKILL);
    if (p->what == ABORTS) spyre_comm_abort(c, "chaos");
    if (p->what == DIFFERS) call->count++;
    return p->what != LEAVES;
}

static void check_sum(const int32_t *values, uint32_t size, uint32_t operation, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        int32_t expected = 0;
        for (uint32_t r = 0; r < size; r++) expected += value_of(r, operation, i);
        RANK_HOLDS(values[i] == expected);
    }
}

static void check_reason(spyre_status error, int64_t began_ns, const plan *p)
{
    int64_t took_ms = (clock_now_ns() - began_ns) / 1000000;
    if (took_ms > TIMEOUT_MS + HANG_MS / 2) fprintf(stderr, "an error after %d ms\n", (int)took_ms);
    RANK_HOLDS(took_ms <= TIMEOUT_MS + HANG_MS / 2);
    if (p->what == ALL_WELL) fprintf(stderr, "%s\n", spyre_status_message(error));
    RANK_HOLDS(p->what != ALL_WELL && strstr(spyre_status_message(error), "rank "));
    spyre_status_free(error);
}

static spyre_status pass_on(spyre_comm *c, int32_t *values, int32_t *others, uint64_t count)
{
    uint32_t rank = spyre_comm_rank(c), size = spyre_comm_size(c);
    spyre_comm_call send = {.kind = SPYRE_COMM_SEND, .format = SPYRE_FORMAT_IEEE_INT32,
                            .root = (rank + 1) % size, .count = count, .input = values};
    spyre_comm_call receive = {.kind = SPYRE_COMM_RECEIVE, .format = SPYRE_FORMAT_IEEE_INT32,
                               .root = (rank + size - 1) % size, .count = count, .output = others};
    spyre_request *request;
    spyre_status error = spyre_comm_start(c, &send, &request);
    if (error) return error;
    error = spyre_comm_run(c, &receive);
    spyre_status sent = spyre_request_wait(request, 0);
    spyre_request_free(request);
    if (error) spyre_status_free(sent);
    return error ? error : sent;
}

static void be_in_chaos(uint32_t rank, uint32_t size)
{
    static int32_t values[MOST_COUNT + 1], others[MOST_COUNT + 1];
    uint64_t seed = round_seed + 1, own = round_seed * 31 + rank;
    plan p = plan_of(size);
    spyre_comm *c;
    live_on_host((uint32_t)round_seed / 4, rank, size);
    int64_t began = clock_now_ns();
    spyre_status error = join_as(rank, size, "chaos", TIMEOUT_MS, &c);
    if (error) {  // of a rank that was done with joining first
        check_reason(error, began, &p);
        return;
    }
    for (uint32_t n = 0; n < OPERATIONS && !error; n++) {
        uint64_t count = 1 + check_random(&seed) % (check_random(&seed) % 4 ? 700 : MOST_COUNT);
        bool reduces = check_random(&seed) % 3;
        for (uint64_t i = 0; i < count; i++) values[i] = value_of(rank, n, i);
        spyre_comm_call call = {.kind = SPYRE_COMM_ALL_REDUCE, .format = SPYRE_FORMAT_IEEE_INT32,
                                .count = count, .input = values, .output = values};
        if (check_random(&own) % 40 == 0) pause_ms((int64_t)(check_random(&own) % 20));
        if (!misbehave(c, &p, n, &call)) break;
        began = clock_now_ns();
        error = reduces ? spyre_comm_run(c, &call) : pass_on(c, values, others, call.count);
        if (error) break;
        if (reduces) check_sum(values, size, n, count);
        for (uint64_t i = 0; !reduces && i < count; i++)
            RANK_HOLDS(others[i] == value_of((rank + size - 1) % size, n, i));
    }
    if (error) check_reason(error, began, &p);
    spyre_comm_destroy(c);
}

// The rank has ended by itself, or by the signal that it sent itself.
static bool ended_well(pid_t child, bool is_killed)
{
    int state;
    for (int64_t ms = 0; ms < HANG_MS + TIMEOUT_MS; ms += 5) {
        if (waitpid(child, &state, WNOHANG) == child) {
            if (WIFSIGNALED(state)) return is_killed && WTERMSIG(state) == SIGKILL;
            return WEXITSTATUS(state) == 0;
        }
        pause_ms(5);
    }
    kill(child, SIGKILL);
    waitpid(child, &state, 0);
    print_error("a rank hangs\n");
    return false;
}

static size_t count_files(const char *folder, const char *piece)
{
    DIR *d = opendir(folder);
    size_t count = 0;
    for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d))
        count += strstr(e->d_name, piece) != NULL;
    if (d) closedir(d);
    return count;
}

static void play_round(uint32_t size)
{
    pid_t children[RANKS_MOST];
    bool good = true;
    make_store();
    plan p = plan_of(size);
    for (uint32_t r = 0; r < size; r++) children[r] = start_rank(be_in_chaos, r, size);
    for (uint32_t r = 0; r < size; r++)
        good = ended_well(children[r], p.what == KILLED && p.rank == r) && good;
    munmap(the_store, sizeof *the_store);
    if (!good) print_error("round %d, %u ranks, mischief %d of rank %u in operation %u\n",
                           (int)round_seed, size, (int)p.what, p.rank, p.operation);
    assert_true(good);
}

static void chaos__no_hang_no_wrong_number_nothing_left(void **state)
{
    (void)state;
    static const char name[] = "openspyre-comm";
    size_t before = count_files("/dev/shm", name) + count_files("/tmp", name);
    for (round_seed = 1; round_seed <= rounds(); round_seed++) play_round(2 + round_seed % 4);
    assert_true(count_files("/dev/shm", name) + count_files("/tmp", name) <= before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chaos__no_hang_no_wrong_number_nothing_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
