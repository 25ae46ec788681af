// SPDX-License-Identifier: Apache-2.0
//
// Ranks on two machines: network namespaces that a pair of virtual Ethernet devices connects. Where
// they may not be made the cases are skipped, and say so.
#define _GNU_SOURCE
#include "ranks.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>

enum { ELEMENTS = 150000, WORDS = 8 * ELEMENTS };

static char machines[2][32];
static float (*results)[WORDS];         // by rank, of all processes

static bool command(const char *format, ...)
{
    char line[256], quiet[300];
    va_list values;
    va_start(values, format);
    vsnprintf(line, sizeof line, format, values);
    va_end(values);
    snprintf(quiet, sizeof quiet, "%s 2>/dev/null", line);
    return system(quiet) == 0;
}

static int make_machines(void **state)
{
    (void)state;
    for (int m = 0; m < 2; m++)
        snprintf(machines[m], sizeof machines[m], "spyre%d.%d", (int)getpid(), m);
    bool made = command("ip netns add %s", machines[0]) &&
                command("ip netns add %s", machines[1]) &&
                command("ip link add name sp%d type veth peer name sq%d", (int)getpid() % 100000,
                        (int)getpid() % 100000) &&
                command("ip link set sp%d netns %s name eth0", (int)getpid() % 100000,
                        machines[0]) &&
                command("ip link set sq%d netns %s name eth0", (int)getpid() % 100000, machines[1]);
    for (int m = 0; made && m < 2; m++)
        made = command("ip -n %s addr add 10.77.0.%d/24 dev eth0", machines[m], m + 1) &&
               command("ip -n %s link set eth0 up", machines[m]) &&
               command("ip -n %s link set lo up", machines[m]);
    if (!made) {
        print_message("SKIPPED: no network namespaces here (ip netns add, as root)\n");
        *machines[0] = '\0';
    }
    results = share(RANKS_MOST * sizeof *results);
    return 0;
}

static int forget_machines(void **state)
{
    (void)state;
    for (int m = 0; m < 2; m++) (void)command("ip netns del spyre%d.%d", (int)getpid(), m);
    return 0;
}

// Every other rank on each machine.
static void move_to_machine(uint32_t rank)
{
    char path[64];
    snprintf(path, sizeof path, "/run/netns/%s", machines[rank % 2]);
    int namespace = open(path, O_RDONLY | O_CLOEXEC);
    RANK_HOLDS(namespace >= 0 && setns(namespace, CLONE_NEWNET) == 0);
    close(namespace);
}

static void pass_round(spyre_comm *c, float *output)
{
    uint32_t rank = spyre_comm_rank(c), size = spyre_comm_size(c);
    spyre_comm_call send = {.kind = SPYRE_COMM_SEND, .format = SPYRE_FORMAT_IEEE_FP32,
                            .root = (rank + 1) % size, .count = ELEMENTS, .input = output};
    spyre_comm_call receive = {.kind = SPYRE_COMM_RECEIVE, .format = SPYRE_FORMAT_IEEE_FP32,
                               .root = SPYRE_COMM_ANY, .count = ELEMENTS,
                               .output = output + ELEMENTS};
    spyre_request *request;
    RANK_OK(spyre_comm_start(c, &send, &request));
    RANK_OK(spyre_comm_run(c, &receive));
    RANK_OK(spyre_request_wait(request, 0));
    spyre_request_free(request);
}

// Some of everything, small and large; what the rank gets goes to its results.
static void exchange_everything(uint32_t rank, uint32_t size)
{
    static float input[WORDS];
    static const uint64_t counts[] = {3, 700, ELEMENTS};
    for (uint32_t i = 0; i < WORDS; i++) input[i] = (float)((i * 7919 + rank * 31) % 1000) / 7;
    spyre_comm *c;
    RANK_OK(join_as(rank, size, "hosts", 60000, &c));
    float *output = results[rank];
    memset(output, 0, sizeof *results);
    for (uint32_t kind = 0; kind < SPYRE_COMM_SEND; kind++)
        for (uint32_t n = 0; n < 3; n++) {
            spyre_comm_call call = {.kind = (spyre_comm_kind)kind, .root = 1, .input = input,
                                    .format = SPYRE_FORMAT_IEEE_FP32, .count = counts[n],
                                    .output = output + n};
            RANK_OK(spyre_comm_run(c, &call));
        }
    pass_round(c, output);
    spyre_comm_destroy(c);
}

static void exchange_elsewhere(uint32_t rank, uint32_t size)
{
    move_to_machine(rank);
    exchange_everything(rank, size);
}

static void hosts__results_are_those_of_one_host(void **state)
{
    (void)state;
    if (!*machines[0]) skip();
    float (*here)[WORDS] = share(4 * sizeof *here);
    run_ranks(4, exchange_everything);
    memcpy(here, results, 4 * sizeof *here);
    run_ranks(4, exchange_elsewhere);
    assert_memory_equal(here, results, 4 * sizeof *here);
    munmap(here, 4 * sizeof *here);
}

// The machines have nothing but IPv6.
static void hosts__results_are_those_of_ipv4(void **state)
{
    (void)state;
    if (!*machines[0]) skip();
    float (*before)[WORDS] = share(2 * sizeof *before);
    run_ranks(2, exchange_elsewhere);
    memcpy(before, results, 2 * sizeof *before);
    for (int m = 0; m < 2; m++)
        if (!command("ip -n %s addr flush dev eth0 scope global", machines[m]) ||
            !command("ip -n %s addr add fd77::%d/64 dev eth0 nodad", machines[m], m + 1)) {
            print_message("SKIPPED: no IPv6 here\n");
            skip();
        }
    run_ranks(2, exchange_elsewhere);
    assert_memory_equal(before, results, 2 * sizeof *before);
    munmap(before, 2 * sizeof *before);
}

static void lose_the_link(uint32_t rank, uint32_t size)
{
    static float values[ELEMENTS];
    move_to_machine(rank);
    spyre_comm *c;
    RANK_OK(join_as(rank, size, "cut", 1500, &c));
    spyre_comm_call call = {.kind = SPYRE_COMM_ALL_REDUCE, .format = SPYRE_FORMAT_IEEE_FP32,
                            .count = ELEMENTS, .input = values, .output = values};
    RANK_OK(spyre_comm_run(c, &call));
    if (rank == 0) RANK_HOLDS(command("ip -n %s link set eth0 down", machines[0]));
    RANK_ERROR(spyre_comm_run(c, &call), SPYRE_IO, "operation 2 all_reduce(150000 IEEE_FP32, sum)",
               rank ? "rank 1 (of 2)" : "rank 0 (of 2)", rank ? "rank 0 " : "rank 1 ");
    spyre_comm_destroy(c);
}

static void hosts__a_cut_connection_names_rank_and_operation(void **state)
{
    (void)state;
    if (!*machines[0]) skip();
    run_ranks(2, lose_the_link);
    assert_true(command("ip -n %s link set eth0 up", machines[0]));
}

static void be_killed(uint32_t rank, uint32_t size)
{
    move_to_machine(rank);
    spyre_comm *c;
    RANK_OK(join_as(rank, size, "killed", 30000, &c));
    spyre_comm_call call = {.kind = SPYRE_COMM_BARRIER};
    RANK_OK(spyre_comm_run(c, &call));
    if (rank == 2) kill(getpid(), SIGKILL);
    RANK_ERROR(spyre_comm_run(c, &call), SPYRE_IO, "operation 2 barrier()", "rank 2 has died");
    spyre_comm_destroy(c);
}

// Rank 0 shares the host of rank 2, rank 1 does not; who notices tells the other.
static void hosts__a_rank_killed_elsewhere_is_noticed(void **state)
{
    (void)state;
    if (!*machines[0]) skip();
    pid_t children[3];
    make_store();
    for (uint32_t r = 0; r < 3; r++) children[r] = start_rank(be_killed, r, 3);
    for (uint32_t r = 0; r < 3; r++) {
        int status;
        assert_int_equal(waitpid(children[r], &status, 0), children[r]);
        assert_true(r == 2 ? WIFSIGNALED(status) : WIFEXITED(status) && !WEXITSTATUS(status));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hosts__results_are_those_of_one_host),
        cmocka_unit_test(hosts__a_rank_killed_elsewhere_is_noticed),
        cmocka_unit_test(hosts__a_cut_connection_names_rank_and_operation),
        cmocka_unit_test(hosts__results_are_those_of_ipv4),
    };
    return cmocka_run_group_tests(tests, make_machines, forget_machines);
}
