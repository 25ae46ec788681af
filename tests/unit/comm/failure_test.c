// SPDX-License-Identifier: Apache-2.0
//
// What the other ranks are told when one dies, leaves, does not come or calls something else.
#define _GNU_SOURCE
#include "ranks.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>

static float values[1000];

static spyre_comm_call all_reduce(uint64_t count)
{
    return (spyre_comm_call){.kind = SPYRE_COMM_ALL_REDUCE, .format = SPYRE_FORMAT_IEEE_FP32,
                             .count = count, .input = values, .output = values,
                             .detail = "float32[n]"};
}

static void call_other_things(uint32_t rank, uint32_t size)
{
    spyre_comm *c;
    RANK_OK(join_as(rank, size, "other", 60000, &c));
    spyre_comm_call call = all_reduce(10);
    RANK_OK(spyre_comm_run(c, &call));
    if (rank == 2) call.count = 11;
    RANK_ERROR(spyre_comm_run(c, &call), SPYRE_INVALID_ARGUMENT, "different operations",
               "rank 0 has all_reduce(float32[n], 10 IEEE_FP32, sum) as operation 2",
               "rank 2 has all_reduce(float32[n], 11 IEEE_FP32, sum) as operation 2");
    RANK_ERROR(spyre_comm_run(c, &call), SPYRE_IO, "operation 3",
               "the communicator is broken", "different operations");
    spyre_comm_destroy(c);
}

static void failure__different_counts_are_named_everywhere(void **state)
{
    (void)state;
    run_ranks(4, call_other_things);
}

static void call_by_difference(uint32_t rank, const char *name, const spyre_comm_call *odd,
                               const char *piece)
{
    spyre_comm *c;
    RANK_OK(join_as(rank, 2, name, 60000, &c));
    spyre_comm_call call = all_reduce(4);
    RANK_ERROR(spyre_comm_run(c, rank ? odd : &call), SPYRE_INVALID_ARGUMENT,
               "rank 0 has all_reduce(float32[n], 4 IEEE_FP32, sum)", piece);
    spyre_comm_destroy(c);
}

static void differ_in_each_argument(uint32_t rank, uint32_t size)
{
    (void)size;
    spyre_comm_call odd = all_reduce(4);
    odd.reduction = SPYRE_REDUCE_MAX;
    call_by_difference(rank, "reduction", &odd, "IEEE_FP32, max)");
    odd = all_reduce(4);
    odd.format = SPYRE_FORMAT_IEEE_INT32;
    call_by_difference(rank, "format", &odd, "4 IEEE_INT32, sum)");
    odd = all_reduce(4);
    odd.signature = 17;
    odd.detail = "float32[2, 2]";
    call_by_difference(rank, "signature", &odd, "float32[2, 2]");
    odd = (spyre_comm_call){.kind = SPYRE_COMM_BARRIER};
    call_by_difference(rank, "kind", &odd, "rank 1 has barrier()");
}

static void failure__every_argument_is_compared(void **state)
{
    (void)state;
    run_ranks(2, differ_in_each_argument);
}

static void send_too_much(uint32_t rank, uint32_t size)
{
    spyre_comm *c;
    RANK_OK(join_as(rank, size, "lists", 60000, &c));
    uint64_t send[3] = {1, 2, 3}, receive[3] = {rank + 1, rank + 1, rank + 1};
    if (rank == 2) receive[1] = 9;
    spyre_comm_call call = {.kind = SPYRE_COMM_ALL_TO_ALL, .format = SPYRE_FORMAT_IEEE_FP32,
                            .input = values, .output = values + 500, .send_counts = send,
                            .receive_counts = receive};
    RANK_ERROR(spyre_comm_run(c, &call), SPYRE_INVALID_ARGUMENT,
               "operation 1 all_to_all: rank 1 sends 3 elements to rank 2, which expects 9");
    spyre_comm_destroy(c);
}

static void failure__lists_of_counts_are_compared(void **state)
{
    (void)state;
    run_ranks(3, send_too_much);
}

static void come_not(uint32_t rank, uint32_t size)
{
    spyre_comm *c;
    RANK_OK(join_as(rank, size, "late", 60000, &c));
    spyre_comm_call call = all_reduce(1);
    RANK_OK(spyre_comm_run(c, &call));
    call.timeout_ms = 200;
    if (rank == 1) pause_ms(2500);
    else
        RANK_ERROR(spyre_comm_run(c, &call), SPYRE_IO, "operation 2 all_reduce(float32[n], 1 ",
                   rank ? "rank 2 (of 3)" : "rank 0 (of 3)", "rank 1 ", "timed out after");
    spyre_comm_destroy(c);
}

static void failure__a_rank_that_does_not_come_is_named(void **state)
{
    (void)state;
    run_ranks(3, come_not);
}

static void be_killed(uint32_t rank, uint32_t size)
{
    spyre_comm *c;
    RANK_OK(join_as(rank, size, "killed", 60000, &c));
    spyre_comm_call call = all_reduce(1000);
    RANK_OK(spyre_comm_run(c, &call));
    if (rank == 1) {
        pid_t child = fork();           // a child that outlives the rank does not stand for it
        RANK_HOLDS(child >= 0);
        if (child == 0) {
            pause_ms(1500);
            _exit(0);
        }
        kill(getpid(), SIGKILL);
    }
    RANK_ERROR(spyre_comm_run(c, &call), SPYRE_IO, "operation 2 all_reduce", "rank 1 has died");
    spyre_comm_destroy(c);
}

static void failure__a_killed_rank_is_noticed(void **state)
{
    (void)state;
    pid_t children[3];
    make_store();
    for (uint32_t r = 0; r < 3; r++) children[r] = start_rank(be_killed, r, 3);
    for (uint32_t r = 0; r < 3; r++) {
        int status;
        assert_int_equal(waitpid(children[r], &status, 0), children[r]);
        if (r == 1) assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        else assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

static void leave_early(uint32_t rank, uint32_t size)
{
    spyre_comm *c;
    RANK_OK(join_as(rank, size, "left", 60000, &c));
    spyre_comm_call call = all_reduce(3);
    if (rank == 0)
        RANK_ERROR(spyre_comm_run(c, &call), SPYRE_IO, "rank 1 has left the communicator");
    spyre_comm_destroy(c);
}

static void failure__a_rank_that_left_is_named(void **state)
{
    (void)state;
    run_ranks(2, leave_early);
}

static void abort_and_begin_again(uint32_t rank, uint32_t size)
{
    spyre_comm *c;
    RANK_OK(join_as(rank, size, "again", 60000, &c));
    spyre_comm_call call = all_reduce(3);
    if (rank == 1) {
        pause_ms(50);
        spyre_comm_abort(c, "had enough");
        RANK_ERROR(spyre_comm_run(c, &call), SPYRE_CANCELLED, "had enough");
    } else {
        RANK_ERROR(spyre_comm_run(c, &call), SPYRE_IO, "rank 1 gave up", "had enough");
    }
    spyre_comm_destroy(c);
    RANK_OK(join_as(rank, size, "again", 60000, &c));       // the store has the old meeting yet
    RANK_OK(spyre_comm_run(c, &call));
    spyre_comm_destroy(c);
}

static void failure__abort_and_join_again_in_one_process(void **state)
{
    (void)state;
    run_ranks(3, abort_and_begin_again);
}

static void miss_a_rank(uint32_t rank, uint32_t size)
{
    spyre_comm *c;
    if (rank == 2) return;
    spyre_status status = join_as(rank, size, "missing", 200, &c);
    if (rank == 0)
        RANK_ERROR(status, SPYRE_IO, "communicator missing, rank 0 (of 3)", "timed out",
                   "have not come: 2");
    else
        RANK_ERROR(status, SPYRE_IO, "communicator missing, rank 1 (of 3)", "rank 0 gave up",
                   "have not come: 2");
}

static void failure__a_rank_that_never_joins_is_named(void **state)
{
    (void)state;
    run_ranks(3, miss_a_rank);
}

static void disagree(uint32_t rank, uint32_t size)
{
    spyre_comm *c;
    RANK_ERROR(join_as(rank, size + rank, "size", 3000, &c), SPYRE_INVALID_ARGUMENT,
               "size 3 of rank 1: rank 0 has size 2");
    RANK_ERROR(join_as(0, 0, "x", 1, &c), SPYRE_INVALID_ARGUMENT, "size 0");
    RANK_ERROR(join_as(2, 2, "x", 1, &c), SPYRE_INVALID_ARGUMENT, "rank 2: must be below the size");
    RANK_ERROR(join_as(0, 65, "x", 1, &c), SPYRE_INVALID_ARGUMENT, "must be 1..64");
    RANK_ERROR(join_as(0, 1, "x", 0, &c), SPYRE_INVALID_ARGUMENT, "timeout of 0 ms");
}

// What the environment says is checked as arguments are.
static void set_wrong_words(uint32_t rank, uint32_t size)
{
    static const char *const words[][3] = {
        {"SPYRE_COMM_ALGORITHM", "ring", "SPYRE_COMM_ALGORITHM=ring: expected direct, sliced"},
        {"SPYRE_COMM_TRANSPORT", "udp", "SPYRE_COMM_TRANSPORT=udp: expected tcp or shared"},
        {"SPYRE_COMM_HOST", "my host", "SPYRE_COMM_HOST=my host: expected a word"},
    };
    spyre_comm *c;
    for (size_t n = 0; n < sizeof words / sizeof words[0]; n++) {
        const char *before = getenv(words[n][0]);
        setenv(words[n][0], words[n][1], 1);
        RANK_ERROR(join_as(rank, size, "words", 2000, &c), SPYRE_INVALID_ARGUMENT, words[n][2]);
        if (before) setenv(words[n][0], before, 1);
        else unsetenv(words[n][0]);
    }
}

static void failure__wrong_words_of_the_environment_are_named(void **state)
{
    (void)state;
    run_ranks(2, set_wrong_words);
}

static void failure__sizes_that_disagree_are_refused(void **state)
{
    (void)state;
    run_ranks(2, disagree);
}

static void refuse_arguments(uint32_t rank, uint32_t size)
{
    spyre_comm *c;
    RANK_OK(join_as(rank, size, "arguments", 60000, &c));
    spyre_comm_call call = all_reduce(3), good = call;
    call.input = NULL;
    RANK_ERROR(spyre_comm_run(c, &call), SPYRE_INVALID_ARGUMENT, "all_reduce: the input is null");
    call = good;
    call.format = SPYRE_FORMAT_SENINT4;
    RANK_ERROR(spyre_comm_run(c, &call), SPYRE_INVALID_ARGUMENT, "SENINT4 has no whole bytes");
    call = good;
    call.format = SPYRE_FORMAT_IEEE_INT32;
    call.reduction = SPYRE_REDUCE_AVG;
    RANK_ERROR(spyre_comm_run(c, &call), SPYRE_UNSUPPORTED, "avg of format IEEE_INT32");
    call = good;
    call.kind = SPYRE_COMM_BROADCAST;
    call.root = 2;
    RANK_ERROR(spyre_comm_run(c, &call), SPYRE_INVALID_ARGUMENT, "rank 2: must be below the size");
    call.kind = SPYRE_COMM_SEND;
    call.root = rank;
    RANK_ERROR(spyre_comm_run(c, &call), SPYRE_INVALID_ARGUMENT, "is this rank itself");
    float eight[8] = {0};
    call = (spyre_comm_call){.kind = SPYRE_COMM_ALL_REDUCE, .format = SPYRE_FORMAT_IEEE_FP32,
                             .count = 4, .input = eight, .output = eight + 2};
    RANK_ERROR(spyre_comm_run(c, &call), SPYRE_INVALID_ARGUMENT, "input and output overlap");
    call.kind = SPYRE_COMM_ALL_GATHER;
    call.count = 2;
    call.input = eight + 3;
    call.output = eight;
    RANK_ERROR(spyre_comm_run(c, &call), SPYRE_INVALID_ARGUMENT, "this rank's block at its place");
    call.kind = SPYRE_COMM_ALL_TO_ALL;
    call.input = call.output = eight;
    RANK_ERROR(spyre_comm_run(c, &call), SPYRE_INVALID_ARGUMENT, "they must be apart");
    call.kind = SPYRE_COMM_ALL_GATHER;
    call.input = eight + 2 * rank;             // in place
    RANK_OK(spyre_comm_run(c, &call));
    RANK_OK(spyre_comm_run(c, &good));          // and nothing is broken by them
    spyre_comm_destroy(c);
}

static void failure__arguments_are_refused_before_anything_moves(void **state)
{
    (void)state;
    run_ranks(2, refuse_arguments);
}

static void have_no_memory(uint32_t rank, uint32_t size)
{
    spyre_comm *c;
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit little = {1 << 20, 1 << 20};
    RANK_HOLDS(setrlimit(RLIMIT_FSIZE, &little) == 0);
    RANK_ERROR(join_as(rank, size, "memory", 1000, &c), SPYRE_OUT_OF_MEMORY,
               "bytes of shared memory for 1 ranks");
}

static void failure__full_shared_memory_is_an_error(void **state)
{
    (void)state;
    run_ranks(1, have_no_memory);
}

static void be_elsewhere(uint32_t rank, uint32_t size)
{
    spyre_comm *c;
    if (rank == 1 && unshare(CLONE_NEWUSER | CLONE_NEWNET)) {
        fprintf(stderr, "no network namespaces here: %s\n", strerror(errno));
        return;
    }
    spyre_status status = join_as(rank, size, "elsewhere", 300, &c);
    if (rank) RANK_ERROR(status, SPYRE_IO, "rank 0 does not listen", "port ");
    else RANK_ERROR(status, SPYRE_IO, "have not come: 1");
}

static void failure__a_machine_out_of_reach_is_said(void **state)
{
    (void)state;
    run_ranks(2, be_elsewhere);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(failure__different_counts_are_named_everywhere),
        cmocka_unit_test(failure__every_argument_is_compared),
        cmocka_unit_test(failure__lists_of_counts_are_compared),
        cmocka_unit_test(failure__a_rank_that_does_not_come_is_named),
        cmocka_unit_test(failure__a_killed_rank_is_noticed),
        cmocka_unit_test(failure__a_rank_that_left_is_named),
        cmocka_unit_test(failure__abort_and_join_again_in_one_process),
        cmocka_unit_test(failure__a_rank_that_never_joins_is_named),
        cmocka_unit_test(failure__sizes_that_disagree_are_refused),
        cmocka_unit_test(failure__wrong_words_of_the_environment_are_named),
        cmocka_unit_test(failure__arguments_are_refused_before_anything_moves),
        cmocka_unit_test(failure__full_shared_memory_is_an_error),
        cmocka_unit_test(failure__a_machine_out_of_reach_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
