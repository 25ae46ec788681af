// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE             // accept4
#include "comm/rank_connections.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "comm/network.h"

enum { ASK_MS = 50, ANSWER_MS = 2000, RETRY_NS = 20000000 };

spyre_status party_check(const party *p, bool *out_late)
{
    *out_late = clock_now_ns() >= p->deadline_ns;
    if (p->options->interrupted && p->options->interrupted())
        return status_new(SPYRE_CANCELLED, "interrupted");
    return NULL;
}

// --- What is said

bool send_hello(int connection, const hello *h)
{
    return send(connection, h, sizeof *h, MSG_NOSIGNAL) == (ssize_t)sizeof *h;
}

bool receive_hello(int connection, int timeout_ms, hello *out)
{
    struct timeval most = {.tv_sec = timeout_ms / 1000, .tv_usec = timeout_ms % 1000 * 1000};
    setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
    ssize_t length = recv(connection, out, sizeof *out, MSG_WAITALL);
    setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){0}, sizeof most);
    return length == (ssize_t)sizeof *out && out->magic == HELLO_MAGIC;
}

typedef union {
    char bytes[CMSG_SPACE(sizeof(int))];
    struct cmsghdr aligned;
} file_message;

void send_welcome(int connection, const welcome *w, int file)
{
    struct iovec data = {(void *)(uintptr_t)w, sizeof *w};
    file_message control = {0};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1};
    if (file >= 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof control.bytes;
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(sizeof file);
        memcpy(CMSG_DATA(head), &file, sizeof file);
    }
    (void)!sendmsg(connection, &message, MSG_NOSIGNAL);
}

spyre_status receive_welcome(int connection, welcome *out, int *out_file)
{
    struct iovec data = {out, sizeof *out};
    file_message control = {0};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    memset(out, 0, sizeof *out);
    *out_file = -1;
    ssize_t length = recvmsg(connection, &message, MSG_CMSG_CLOEXEC | MSG_WAITALL);
    struct cmsghdr *head = length > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    if (head && head->cmsg_type == SCM_RIGHTS && head->cmsg_len == CMSG_LEN(sizeof *out_file))
        memcpy(out_file, CMSG_DATA(head), sizeof *out_file);
    bool whole = length == (ssize_t)sizeof *out && out->magic == HELLO_MAGIC;
    if (whole && !out->refusal && (!out->shares || *out_file >= 0)) return NULL;
    if (*out_file >= 0) close(*out_file);
    out->reason[sizeof out->reason - 1] = '\0';
    if (whole && out->refusal == SPYRE_INVALID_ARGUMENT)
        return status_new(SPYRE_INVALID_ARGUMENT, "rank 0 refuses: %s", out->reason);
    if (whole && out->refusal)
        return status_new(SPYRE_IO, "rank 0 gave up: %s", out->reason);
    return status_new(SPYRE_IO, "rank 0 has ended the connection");
}

// --- The memory of a host

// The name of a rank's socket on its host.
enum { NAME_BYTES = SOCKET_NAME_BYTES + 12 };

static void name_socket(const char *token, uint32_t rank, char out_name[NAME_BYTES])
{
    snprintf(out_name, NAME_BYTES, "%.*s.%u", SOCKET_NAME_BYTES - 1, token, rank);
}

spyre_status ranks_listen_here(const char *token, uint32_t rank, uint32_t size, int *out_listener)
{
    char name[NAME_BYTES];
    name_socket(token, rank, name);
    return socket_listen_here(name, size, out_listener);
}

static bool is_of_own_host(const party *p, const comm_topology *t, uint32_t rank)
{
    return t->host_of[rank] == t->host_of[p->options->rank];
}

// Gives the file to the others of the host as they come.
static spyre_status hand_over(const party *p, const comm_topology *t, int listener, int file)
{
    bool has[SPYRE_COMM_MOST_RANKS] = {false}, late;
    uint32_t missing = topology_count(t, t->host_of[p->options->rank]) - 1;
    while (missing) {
        hello h;
        TRY(party_check(p, &late));
        for (uint32_t r = 0; late && r < t->size; r++)
            if (r != p->options->rank && is_of_own_host(p, t, r) && !has[r])
                return status_new(SPYRE_IO, "timed out after %lld ms: rank %u has not come for "
                                  "the memory of its host", (long long)p->options->timeout_ms, r);
        if (!socket_is_readable(listener, ASK_MS)) continue;
        int connection = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (connection < 0) continue;
        bool good = socket_is_of_same_user(connection) &&
                    receive_hello(connection, ANSWER_MS, &h) && h.rank < t->size &&
                    is_of_own_host(p, t, h.rank) && !has[h.rank];
        welcome w = {.magic = HELLO_MAGIC, .shares = 1};
        if (good) send_welcome(connection, &w, file);
        if (good) has[h.rank] = true;
        if (good) missing--;
        close(connection);
    }
    return NULL;
}

static spyre_status visit_first(const party *p, uint32_t first, const char *token,
                                int *out_connection)
{
    char name[NAME_BYTES];
    bool late = false;
    name_socket(token, first, name);
    for (;;) {
        TRY(socket_connect_here(name, out_connection));
        if (*out_connection >= 0) break;
        TRY(party_check(p, &late));
        if (late) return status_new(SPYRE_IO, "rank %u does not listen on this host", first);
        nanosleep(&(struct timespec){.tv_nsec = RETRY_NS}, NULL);
    }
    if (socket_is_of_same_user(*out_connection)) return NULL;
    close(*out_connection);
    return status_new(SPYRE_IO, "rank %u belongs to another user", first);
}

static spyre_status fetch(const party *p, uint32_t first, const char *token, int *out_file)
{
    int connection;
    welcome w;
    bool late = false;
    hello h = {.magic = HELLO_MAGIC, .version = HELLO_VERSION, .rank = p->options->rank,
               .size = p->options->size};
    TRY(visit_first(p, first, token, &connection));
    spyre_status status = NULL;
    if (!send_hello(connection, &h)) status = status_new(SPYRE_IO, "the connection has ended");
    while (!status && !late && !socket_is_readable(connection, ASK_MS))
        status = party_check(p, &late);
    if (!status && late) status = status_new(SPYRE_IO, "it does not answer in time");
    if (!status) status = receive_welcome(connection, &w, out_file);
    close(connection);
    return status_at(status, "the memory of rank %u", first);
}

spyre_status ranks_share_memory(const party *p, const comm_topology *t, int listener,
                                const char *token, shared_memory *out)
{
    uint32_t rank = p->options->rank, size = p->options->size;
    uint32_t first = topology_member(t, t->host_of[rank], 0);
    if (first != rank) {
        int file;
        TRY(fetch(p, first, token, &file));
        return shared_memory_attach(file, rank, size, out);
    }
    TRY(shared_memory_create(rank, size, out));
    spyre_status status = hand_over(p, t, listener, out->file);
    if (status) shared_memory_detach(out);
    return status;
}

// --- The connections

static spyre_status reach(const party *p, const endpoint *to, uint32_t rank, int *out_socket)
{
    for (;;) {
        bool late;
        *out_socket = to->port ? socket_connect(to, ANSWER_MS) : -1;
        if (*out_socket >= 0) return NULL;
        TRY(party_check(p, &late));
        if (late || !to->port)
            return status_new(SPYRE_IO, "rank %u cannot be reached at %.63s, port %u", rank,
                              to->address, to->port);
        nanosleep(&(struct timespec){.tv_nsec = RETRY_NS}, NULL);
    }
}

static spyre_status connect_below(const party *p, const comm_topology *t,
                                  const endpoint *endpoints, const char *token, int *sockets)
{
    hello h = {.magic = HELLO_MAGIC, .version = HELLO_VERSION, .rank = p->options->rank,
               .size = p->options->size};
    memcpy(h.token, token, sizeof h.token);
    for (uint32_t r = 0; r < p->options->rank; r++) {
        if (is_of_own_host(p, t, r)) continue;
        TRY(reach(p, &endpoints[r], r, &sockets[r]));
        if (!send_hello(sockets[r], &h))
            return status_new(SPYRE_IO, "rank %u has ended the connection", r);
    }
    return NULL;
}

// Strangers are turned away.
static bool admit(const party *p, const comm_topology *t, int connection, const char *token,
                  int *sockets)
{
    hello h;
    bool good = receive_hello(connection, ANSWER_MS, &h) && h.version == HELLO_VERSION &&
                !strncmp(h.token, token, sizeof h.token) && h.rank > p->options->rank &&
                h.rank < p->options->size && !is_of_own_host(p, t, h.rank) &&
                sockets[h.rank] < 0;
    if (good) sockets[h.rank] = connection;
    else close(connection);
    return good;
}

static spyre_status accept_above(const party *p, const comm_topology *t, int listener,
                                 const char *token, int *sockets)
{
    uint32_t wanted = 0;
    for (uint32_t r = p->options->rank + 1; r < t->size; r++) wanted += !is_of_own_host(p, t, r);
    while (wanted) {
        bool late;
        TRY(party_check(p, &late));
        for (uint32_t r = p->options->rank + 1; late && r < p->options->size; r++)
            if (sockets[r] < 0 && !is_of_own_host(p, t, r))
                return status_new(SPYRE_IO, "timed out after %lld ms: rank %u has not connected",
                                  (long long)p->options->timeout_ms, r);
        if (!socket_is_readable(listener, ASK_MS)) continue;
        int connection = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (connection >= 0 && admit(p, t, connection, token, sockets)) wanted--;
    }
    return NULL;
}

spyre_status ranks_connect(const party *p, shared_memory *s, int listener,
                           const endpoint *endpoints, const char *token)
{
    int sockets[SPYRE_COMM_MOST_RANKS];
    for (uint32_t r = 0; r < SPYRE_COMM_MOST_RANKS; r++) sockets[r] = -1;
    const comm_topology *t = &s->topology;
    spyre_status status = connect_below(p, t, endpoints, token, sockets);
    if (!status) status = accept_above(p, t, listener, token, sockets);
    if (!status) return network_open(s, sockets, p->options->timeout_ms);
    for (uint32_t r = 0; r < p->options->size; r++)
        if (sockets[r] >= 0) close(sockets[r]);
    return status;
}
