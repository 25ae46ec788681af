// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE             // accept4
#include "comm/mesh.h"

#include <errno.h>
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
    if (whole && !out->refusal && (out->network || *out_file >= 0)) return NULL;
    if (*out_file >= 0) close(*out_file);
    out->reason[sizeof out->reason - 1] = '\0';
    if (whole && out->refusal == SPYRE_INVALID_ARGUMENT)
        return status_new(SPYRE_INVALID_ARGUMENT, "rank 0 refuses: %s", out->reason);
    if (whole && out->refusal)
        return status_new(SPYRE_IO, "rank 0 gave up: %s", out->reason);
    return status_new(SPYRE_IO, "rank 0 has ended the connection");
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
            return status_new(SPYRE_IO, "rank %u cannot be reached at %.43s, port %u", rank,
                              to->address, to->port);
        nanosleep(&(struct timespec){.tv_nsec = RETRY_NS}, NULL);
    }
}

static spyre_status connect_below(const party *p, const endpoint *endpoints, const char *token,
                                  int *sockets)
{
    hello h = {HELLO_MAGIC, HELLO_VERSION, p->options->rank, p->options->size, 0, ""};
    memcpy(h.token, token, sizeof h.token);
    for (uint32_t r = 0; r < p->options->rank; r++) {
        TRY(reach(p, &endpoints[r], r, &sockets[r]));
        if (!send_hello(sockets[r], &h))
            return status_new(SPYRE_IO, "rank %u has ended the connection", r);
    }
    return NULL;
}

// Strangers are turned away.
static bool admit(const party *p, int connection, const char *token, int *sockets)
{
    hello h;
    bool good = receive_hello(connection, ANSWER_MS, &h) && h.version == HELLO_VERSION &&
                !strncmp(h.token, token, sizeof h.token) && h.rank > p->options->rank &&
                h.rank < p->options->size && sockets[h.rank] < 0;
    if (good) sockets[h.rank] = connection;
    else close(connection);
    return good;
}

static spyre_status accept_above(const party *p, int listener, const char *token, int *sockets)
{
    uint32_t wanted = p->options->size - 1 - p->options->rank;
    while (wanted) {
        bool late;
        TRY(party_check(p, &late));
        for (uint32_t r = p->options->rank + 1; late && r < p->options->size; r++)
            if (sockets[r] < 0)
                return status_new(SPYRE_IO, "timed out after %lld ms: rank %u has not connected",
                                  (long long)p->options->timeout_ms, r);
        if (!socket_is_readable(listener, ASK_MS)) continue;
        int connection = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (connection >= 0 && admit(p, connection, token, sockets)) wanted--;
    }
    return NULL;
}

spyre_status mesh_join(const party *p, segment *s, int listener, const endpoint *endpoints,
                       const char *token)
{
    int sockets[SPYRE_COMM_MOST_RANKS];
    for (uint32_t r = 0; r < SPYRE_COMM_MOST_RANKS; r++) sockets[r] = -1;
    spyre_status status = connect_below(p, endpoints, token, sockets);
    if (!status) status = accept_above(p, listener, token, sockets);
    if (!status) return network_open(s, sockets, p->options->timeout_ms);
    for (uint32_t r = 0; r < p->options->size; r++)
        if (sockets[r] >= 0) close(sockets[r]);
    return status;
}
