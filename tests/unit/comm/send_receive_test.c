// SPDX-License-Identifier: Apache-2.0
#include "ranks.h"

enum { LARGE = 300000 };

static spyre_comm_call message(bool sends, uint32_t other, uint32_t tag, int32_t *values,
                               uint64_t count)
{
    return (spyre_comm_call){.kind = sends ? SPYRE_COMM_SEND : SPYRE_COMM_RECEIVE,
                             .format = SPYRE_FORMAT_IEEE_INT32, .root = other, .tag = tag,
                             .count = count, .input = sends ? values : NULL,
                             .output = sends ? NULL : values};
}

static void pass_around(uint32_t rank, uint32_t size)
{
    spyre_comm *c;
    static int32_t out[LARGE], in[LARGE];
    RANK_OK(join_as(rank, size, "ring", 60000, &c));
    uint32_t next = (rank + 1) % size, previous = (rank + size - 1) % size;
    for (uint32_t count = 0; count <= LARGE; count = count * 12 + 1) {
        for (uint32_t i = 0; i < count; i++) out[i] = (int32_t)(rank * 1000003 + i);
        spyre_comm_call send = message(true, next, 5, out, count);
        spyre_comm_call receive = message(false, previous, 5, in, count);
        spyre_request *request;
        RANK_OK(spyre_comm_start(c, &send, &request));
        RANK_OK(spyre_comm_run(c, &receive));
        RANK_OK(spyre_request_wait(request, 0));
        spyre_request_free(request);
        for (uint32_t i = 0; i < count; i++)
            RANK_HOLDS(in[i] == (int32_t)(previous * 1000003 + i));
    }
    spyre_comm_destroy(c);
}

static void send_receive__any_size_goes_around_a_ring(void **state)
{
    (void)state;
    run_ranks(2, pass_around);
    run_ranks(4, pass_around);
}

// More messages than slots, received in another order.
static void cross_tags(uint32_t rank, uint32_t size)
{
    enum { MANY = 20, COUNT = 40000 };
    (void)size;
    spyre_comm *c;
    static int32_t values[MANY][COUNT];
    spyre_request *requests[MANY];
    RANK_OK(join_as(rank, size, "tags", 60000, &c));
    for (uint32_t n = 0; n < MANY; n++) {
        uint32_t tag = rank ? n ^ 1 : n;
        for (uint32_t i = 0; i < COUNT; i++) values[n][i] = rank ? -1 : (int32_t)(n * COUNT + i);
        spyre_comm_call call = message(rank == 0, 1 - rank, tag, values[n], COUNT);
        RANK_OK(spyre_comm_start(c, &call, &requests[n]));
    }
    for (uint32_t n = 0; n < MANY; n++) {
        RANK_OK(spyre_request_wait(requests[n], 0));
        spyre_request_free(requests[n]);
        for (uint32_t i = 0; rank && i < COUNT; i++)
            RANK_HOLDS(values[n][i] == (int32_t)((n ^ 1) * COUNT + i));
    }
    spyre_comm_destroy(c);
}

static void send_receive__tags_match_in_any_order(void **state)
{
    (void)state;
    run_ranks(2, cross_tags);
}

static void gather_any(uint32_t rank, uint32_t size)
{
    spyre_comm *c;
    int32_t value = (int32_t)rank;
    RANK_OK(join_as(rank, size, "any", 60000, &c));
    uint32_t seen = 0;
    for (uint32_t n = 1; rank == 0 && n < size; n++) {
        spyre_comm_call call = message(false, SPYRE_COMM_ANY, 0, &value, 1);
        spyre_request *request;
        RANK_OK(spyre_comm_start(c, &call, &request));
        RANK_OK(spyre_request_wait(request, 0));
        RANK_HOLDS(spyre_request_source(request) == (uint32_t)value);
        spyre_request_free(request);
        seen |= 1u << value;
    }
    spyre_comm_call send = message(true, 0, 0, &value, 1);
    if (rank) RANK_OK(spyre_comm_run(c, &send));
    else RANK_HOLDS(seen == (1u << size) - 2);
    spyre_comm_destroy(c);
}

static void send_receive__any_rank_says_which(void **state)
{
    (void)state;
    run_ranks(5, gather_any);
}

static void differ(uint32_t rank, uint32_t size)
{
    spyre_comm *c;
    static int32_t values[LARGE];
    RANK_OK(join_as(rank, size, "differ", 60000, &c));
    spyre_comm_call call = message(rank == 0, 1 - rank, 3, values, rank ? 7 : LARGE);
    spyre_status status = spyre_comm_run(c, &call);
    if (rank)
        RANK_ERROR(status, SPYRE_INVALID_ARGUMENT, "rank 1 (of 2), operation 1 receive(7 ",
                   "rank 0 sends send(300000 IEEE_INT32, to rank 1, tag 3)");
    else
        RANK_ERROR(status, SPYRE_INVALID_ARGUMENT, "rank 0 (of 2), operation 1 send(300000",
                   "rank 1 expects receive(7 IEEE_INT32, from rank 0, tag 3)");
    RANK_ERROR(spyre_comm_run(c, &call), SPYRE_IO, "the communicator is broken");
    spyre_comm_destroy(c);
}

static void send_receive__other_counts_are_errors_on_both_sides(void **state)
{
    (void)state;
    run_ranks(2, differ);
}

static void wait_for_nothing(uint32_t rank, uint32_t size)
{
    spyre_comm *c;
    int32_t value = 0;
    RANK_OK(join_as(rank, size, "nothing", 60000, &c));
    spyre_comm_call call = message(false, 1 - rank, 3, &value, 1);
    call.timeout_ms = 150;
    if (rank == 0)
        RANK_ERROR(spyre_comm_run(c, &call), SPYRE_IO, "receive(1 IEEE_INT32, from rank 1, tag 3)",
                   "timed out", "nothing was sent");
    else pause_ms(2000);
    spyre_comm_destroy(c);
}

static void send_receive__a_receive_times_out(void **state)
{
    (void)state;
    run_ranks(2, wait_for_nothing);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(send_receive__any_size_goes_around_a_ring),
        cmocka_unit_test(send_receive__tags_match_in_any_order),
        cmocka_unit_test(send_receive__any_rank_says_which),
        cmocka_unit_test(send_receive__other_counts_are_errors_on_both_sides),
        cmocka_unit_test(send_receive__a_receive_times_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
