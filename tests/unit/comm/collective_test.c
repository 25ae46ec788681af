// SPDX-License-Identifier: Apache-2.0
//
// Collectives of 2 to 8 processes against a serial reference: every rank knows every other one's
// input, so it computes what it must get by itself. Every few rounds the ranks meet anew, in
// another distribution over hosts, with another algorithm and number of threads; ranks differ in
// the instruction sets that they use. None of that may change a bit.
#include "ranks.h"

#include "comm/choose_algorithm.h"
#include "comm/combine.h"
#include "tensor/opfunc.h"

enum { MOST_ELEMENTS = 200000, ROUNDS = 24 };

static const spyre_format FORMATS[] = {SPYRE_FORMAT_SEN169_FP16, SPYRE_FORMAT_IEEE_FP32,
                                       SPYRE_FORMAT_IEEE_INT32,  SPYRE_FORMAT_IEEE_INT64,
                                       SPYRE_FORMAT_SEN143_FP8,  SPYRE_FORMAT_BFLOAT16};

static uint32_t rounds(void)
{
    const char *asked = getenv("SPYRE_TEST_ROUNDS");
    return asked ? (uint32_t)atoi(asked) : ROUNDS;
}

// The input of a rank in a round; the same in every process.
static void fill(uint8_t *target, spyre_format format, uint64_t count, uint32_t rank,
                 uint64_t round)
{
    uint64_t seed = round * 1000003 + rank * 7919 + 12345;
    size_t bytes = spyre_format_bytes(format);
    for (uint64_t i = 0; i < count; i++)
        element_store(target + i * bytes, format,
                      (double)(int64_t)(check_random(&seed) >> 44) / 65536.0 - 8.0);
}

typedef struct {
    spyre_comm_call call;
    uint64_t sends[RANKS_MOST][RANKS_MOST];     // all-to-all: by sender and receiver
    uint8_t *inputs[RANKS_MOST], *expected, *output;
    uint64_t input_elements[RANKS_MOST], output_elements;
    uint32_t rank, size;
} scenario;

static void choose(scenario *s, uint64_t round)
{
    uint64_t seed = round * 2654435761u + s->size + 99;
    s->call = (spyre_comm_call){.kind = (spyre_comm_kind)(check_random(&seed) % SPYRE_COMM_SEND)};
    s->call.reduction = (spyre_reduction)(check_random(&seed) % SPYRE_REDUCE_COUNT);
    s->call.format = FORMATS[check_random(&seed) % (sizeof FORMATS / sizeof FORMATS[0])];
    spyre_status refused = comm_combine_check(s->call.reduction, s->call.format);
    if (refused) s->call.reduction = SPYRE_REDUCE_SUM;
    spyre_status_free(refused);
    s->call.root = (uint32_t)(check_random(&seed) % s->size);
    uint64_t most = check_random(&seed) % 3 ? 2000 : MOST_ELEMENTS;
    s->call.count = check_random(&seed) % most;
    s->call.detail = "random";
    for (uint32_t a = 0; a < s->size; a++)
        for (uint32_t b = 0; b < s->size; b++) s->sends[a][b] = check_random(&seed) % (most / 4);
}

static uint64_t sum(const uint64_t *counts, uint32_t end)
{
    uint64_t total = 0;
    for (uint32_t r = 0; r < end; r++) total += counts[r];
    return total;
}

static void lay_out(scenario *s, uint64_t round)
{
    bool wide_in = s->call.kind == SPYRE_COMM_SCATTER || s->call.kind == SPYRE_COMM_REDUCE_SCATTER;
    bool wide_out = s->call.kind == SPYRE_COMM_GATHER || s->call.kind == SPYRE_COMM_ALL_GATHER;
    s->output_elements = s->call.count * (wide_out ? s->size : 1);
    if (s->call.kind == SPYRE_COMM_ALL_TO_ALL) {
        s->output_elements = 0;
        for (uint32_t r = 0; r < s->size; r++) s->output_elements += s->sends[r][s->rank];
    }
    size_t bytes = spyre_format_bytes(s->call.format);
    for (uint32_t r = 0; r < s->size; r++) {
        s->input_elements[r] = s->call.count * (wide_in ? s->size : 1);
        if (s->call.kind == SPYRE_COMM_ALL_TO_ALL) s->input_elements[r] = sum(s->sends[r], s->size);
        s->inputs[r] = malloc(s->input_elements[r] * bytes + 1);
        RANK_HOLDS(s->inputs[r]);
        fill(s->inputs[r], s->call.format, s->input_elements[r], r, round);
    }
    s->expected = calloc(1, s->output_elements * bytes + 1);
    s->output = calloc(1, s->output_elements * bytes + 1);
    RANK_HOLDS(s->expected && s->output);
}

static void expect(scenario *s)
{
    uint64_t bytes = s->call.count * spyre_format_bytes(s->call.format), at = 0;
    const void *inputs[RANKS_MOST];
    uint64_t own = s->call.kind == SPYRE_COMM_REDUCE_SCATTER ? s->rank * bytes : 0;
    for (uint32_t r = 0; r < s->size; r++) inputs[r] = s->inputs[r] + own;
    bool here = s->call.root == s->rank;
    switch (s->call.kind) {
    case SPYRE_COMM_BROADCAST: memcpy(s->expected, s->inputs[s->call.root], bytes); break;
    case SPYRE_COMM_SCATTER:
        memcpy(s->expected, s->inputs[s->call.root] + s->rank * bytes, bytes);
        break;
    case SPYRE_COMM_GATHER:
    case SPYRE_COMM_ALL_GATHER:
        for (uint32_t r = 0; r < s->size && (here || s->call.kind == SPYRE_COMM_ALL_GATHER); r++)
            memcpy(s->expected + r * bytes, s->inputs[r], bytes);
        break;
    case SPYRE_COMM_REDUCE:
    case SPYRE_COMM_ALL_REDUCE:
    case SPYRE_COMM_REDUCE_SCATTER:
        if (here || s->call.kind != SPYRE_COMM_REDUCE)
            comm_combine(s->call.reduction, s->call.format, inputs, s->size, s->call.count,
                         s->expected);
        break;
    case SPYRE_COMM_ALL_TO_ALL:
        for (uint32_t r = 0; r < s->size; r++) {
            size_t element = spyre_format_bytes(s->call.format);
            uint64_t part = s->sends[r][s->rank] * element;
            memcpy(s->expected + at, s->inputs[r] + sum(s->sends[r], s->rank) * element, part);
            at += part;
        }
        break;
    case SPYRE_COMM_BARRIER:
    case SPYRE_COMM_SEND:
    case SPYRE_COMM_RECEIVE:
    case SPYRE_COMM_KIND_COUNT: break;
    }
}

static void play(spyre_comm *c, scenario *s, uint64_t round)
{
    choose(s, round);
    lay_out(s, round);
    expect(s);
    uint64_t receives[RANKS_MOST];
    for (uint32_t r = 0; r < s->size; r++) receives[r] = s->sends[r][s->rank];
    s->call.input = s->inputs[s->rank];
    s->call.output = s->output;
    if (s->call.kind == SPYRE_COMM_ALL_TO_ALL) {
        s->call.send_counts = s->sends[s->rank];
        s->call.receive_counts = receives;
    }
    if (round % 3) {
        RANK_OK(spyre_comm_run(c, &s->call));
    } else {
        spyre_request *request;
        RANK_OK(spyre_comm_start(c, &s->call, &request));
        RANK_OK(spyre_request_wait(request, 0));
        RANK_HOLDS(spyre_request_test(request));
        spyre_request_free(request);
    }
    size_t bytes = s->output_elements * spyre_format_bytes(s->call.format);
    if (memcmp(s->output, s->expected, bytes)) {
        fprintf(stderr, "round %llu: wrong bytes of %s\n", (unsigned long long)round,
                spyre_comm_kind_name(s->call.kind));
        _exit(1);
    }
    for (uint32_t r = 0; r < s->size; r++) free(s->inputs[r]);
    free(s->expected);
    free(s->output);
}

static void play_rounds(uint32_t rank, uint32_t size)
{
    enum { ALGORITHMS = ALGORITHM_COUNT + 1, ROUNDS_A_MEETING = 3 };
    static const char *const simd[] = {"portable", "avx2", "avx512"};
    spyre_comm *c = NULL;
    setenv("SPYRE_SIMD", simd[rank % 3], 1);
    for (uint64_t round = 0; round < rounds(); round++) {
        uint32_t meeting = (uint32_t)(round / ROUNDS_A_MEETING) + size;
        if (round % ROUNDS_A_MEETING == 0) {
            char name[32];
            snprintf(name, sizeof name, "random%u", meeting);
            spyre_comm_destroy(c);
            comm_algorithm algorithm = (comm_algorithm)(meeting / HOST_LAYOUTS % ALGORITHMS);
            live_on_host(meeting, rank, size);
            set_number("SPYRE_THREADS", 1 + meeting % 3);
            setenv("SPYRE_COMM_ALGORITHM", algorithm_name(algorithm), 1);
            RANK_OK(join_as(rank, size, name, 60000, &c));
        }
        scenario s = {.rank = rank, .size = size};
        play(c, &s, round);
    }
    spyre_comm_destroy(c);
}

static void collective__random_cases_equal_the_serial_reference(void **state)
{
    (void)state;
    for (uint32_t size = 1; size <= 8; size += size < 5 ? 1 : 3) run_ranks(size, play_rounds);
}

static void reduce_in_place(uint32_t rank, uint32_t size)
{
    spyre_comm *c;
    static float values[300000];
    RANK_OK(join_as(rank, size, "place", 60000, &c));
    for (uint32_t count = 1; count < 300000; count = count * 17 + 3) {
        for (uint32_t i = 0; i < count; i++) values[i] = (float)(rank + i % 5);
        spyre_comm_call call = {.kind = SPYRE_COMM_ALL_REDUCE, .format = SPYRE_FORMAT_IEEE_FP32,
                                .count = count, .input = values, .output = values};
        RANK_OK(spyre_comm_run(c, &call));
        for (uint32_t i = 0; i < count; i++)
            RANK_HOLDS(values[i] == (float)(size * (size - 1) / 2 + size * (i % 5)));
    }
    spyre_comm_destroy(c);
}

static void collective__all_reduce_in_place(void **state)
{
    (void)state;
    run_ranks(2, reduce_in_place);
    run_ranks(4, reduce_in_place);
}

static void queue_many(uint32_t rank, uint32_t size)
{
    enum { MANY = 40 };
    spyre_comm *c;
    static int32_t values[MANY][500];
    spyre_request *requests[MANY];
    RANK_OK(join_as(rank, size, "queue", 60000, &c));
    for (int32_t n = 0; n < MANY; n++) {
        for (int32_t i = 0; i < 500; i++) values[n][i] = n * i + (int32_t)rank;
        spyre_comm_call call = {.kind = SPYRE_COMM_ALL_REDUCE, .format = SPYRE_FORMAT_IEEE_INT32,
                                .count = 500, .input = values[n], .output = values[n]};
        if (n % 4 == 3) RANK_OK(spyre_comm_run(c, &call));
        else RANK_OK(spyre_comm_start(c, &call, &requests[n]));
    }
    for (int32_t n = MANY - 1; n >= 0; n--) {
        if (n % 4 != 3) {
            RANK_OK(spyre_request_wait(requests[n], 0));
            spyre_request_free(requests[n]);
        }
        for (int32_t i = 0; i < 500; i++)
            RANK_HOLDS(values[n][i] ==
                       n * i * (int32_t)size + (int32_t)(size * (size - 1) / 2));
    }
    spyre_comm_destroy(c);
}

static void collective__many_are_under_way(void **state)
{
    (void)state;
    run_ranks(3, queue_many);
}

static void split_in_two(uint32_t rank, uint32_t size)
{
    spyre_comm *c, *part;
    RANK_OK(join_as(rank, size, "split", 60000, &c));
    uint32_t color = rank == 4 ? UINT32_MAX : rank % 2;
    RANK_OK(spyre_comm_split(c, color, size - rank, &part));
    RANK_HOLDS(!part == (rank == 4));
    spyre_comm_destroy(c);
    if (!part) return;
    uint32_t ranks[2] = {rank, 77};
    spyre_comm_call call = {.kind = SPYRE_COMM_ALL_GATHER, .format = SPYRE_FORMAT_IEEE_INT32,
                            .count = 1, .input = &rank, .output = ranks};
    RANK_HOLDS(spyre_comm_size(part) == 2);
    RANK_OK(spyre_comm_run(part, &call));
    RANK_HOLDS(ranks[0] == color + 2 && ranks[1] == color);
    RANK_HOLDS(ranks[spyre_comm_rank(part)] == rank);
    spyre_comm_destroy(part);
}

static void meet_clocks(uint32_t rank, uint32_t size)
{
    spyre_comm *comm = NULL;
    RANK_OK(join_as(rank, size, "clocks", 20000, &comm));
    double clock_us = 1000.0 + 10 * rank;
    spyre_comm_call call = {.kind = SPYRE_COMM_BARRIER, .clock_us = &clock_us};
    RANK_OK(spyre_comm_run(comm, &call));
    RANK_HOLDS(clock_us == 1000.0 + 10 * (size - 1));
    clock_us = rank;
    int32_t word = 7;
    spyre_comm_call message = {.kind = rank ? SPYRE_COMM_RECEIVE : SPYRE_COMM_SEND,
                               .format = SPYRE_FORMAT_IEEE_INT32, .count = 1, .root = !rank,
                               .input = &word, .output = &word, .clock_us = &clock_us};
    if (rank < 2) RANK_OK(spyre_comm_run(comm, &message));
    RANK_HOLDS(clock_us == rank);               // the receiver came later
    for (uint32_t other = 1; other < size; other++) {   // rank 0 fails behind all waits
        message.kind = rank ? SPYRE_COMM_SEND : SPYRE_COMM_RECEIVE;
        message.root = rank ? 0 : other;
        if (rank == 0 || rank == other) RANK_OK(spyre_comm_run(comm, &message));
    }
    clock_us = -1;
    if (rank == 0)
        RANK_ERROR(spyre_comm_run(comm, &call), SPYRE_INVALID_ARGUMENT, "clock at -1 us");
    spyre_comm_destroy(comm);
}

static void collective__finds_when_the_last_rank_comes(void **state)
{
    (void)state;
    run_ranks(3, meet_clocks);
}

static void collective__split_orders_by_key(void **state)
{
    (void)state;
    run_ranks(5, split_in_two);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(collective__random_cases_equal_the_serial_reference),
        cmocka_unit_test(collective__all_reduce_in_place),
        cmocka_unit_test(collective__many_are_under_way),
        cmocka_unit_test(collective__finds_when_the_last_rank_comes),
        cmocka_unit_test(collective__split_orders_by_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
