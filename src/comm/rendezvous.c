// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE             // struct ucred
#include "comm/rendezvous.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "base/text.h"

enum { HELLO_MAGIC = 0x5350434d, HELLO_VERSION = 2, ASK_MS = 50, RETRY_NS = 20000000 };

typedef struct {
    uint32_t magic, version, rank, size;
} hello;

typedef struct {
    uint32_t magic, refused;
    char reason[256];
} welcome;

typedef struct {
    const spyre_comm_options *options;
    const spyre_comm_store *store;
    int64_t deadline_ns;
} party;

// --- The text in the store

void meeting_write(const meeting *m, char out_text[MEETING_TEXT_BYTES])
{
    snprintf(out_text, MEETING_TEXT_BYTES, "openspyre-comm %d %u %s %s", HELLO_VERSION, m->size,
             m->socket, m->host);
}

spyre_status meeting_read(const char *value, size_t length, meeting *out)
{
    char own[MEETING_TEXT_BYTES], end;
    unsigned version, size;
    memset(out, 0, sizeof *out);
    if (length >= sizeof own) length = sizeof own - 1;
    memcpy(own, value, length);
    own[length] = '\0';
    int found = sscanf(own, "openspyre-comm %9u %9u %39s %79s%c", &version, &size, out->socket,
                       out->host, &end);
    if (found != 4)
        return status_new(SPYRE_INVALID_FORMAT, "\"%s\" in the store is no meeting of ranks", own);
    if (version != HELLO_VERSION || size < 1 || size > SPYRE_COMM_MOST_RANKS)
        return status_new(SPYRE_INVALID_FORMAT,
                          "rank 0 has version %u and %u ranks: expected version %d and 1..%d",
                          version, size, HELLO_VERSION, SPYRE_COMM_MOST_RANKS);
    out->size = size;
    return NULL;
}

// The machine as far as sockets go: its boot and the namespace of its network.
static void name_host(char out_name[MEETING_HOST_BYTES])
{
    char boot[48] = "?", network[24] = "?";
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file) {
        if (fscanf(file, "%47s", boot) != 1) boot[0] = '?';
        fclose(file);
    }
    ssize_t length = readlink("/proc/self/ns/net", network, sizeof network - 1);
    network[length > 0 ? length : 1] = '\0';
    snprintf(out_name, MEETING_HOST_BYTES, "%s/%s", boot, network);
}

static spyre_status name_socket(char out_name[MEETING_NAME_BYTES])
{
    uint64_t random[2];
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return status_new(SPYRE_IO, "no random numbers: %s", strerror(errno));
    snprintf(out_name, MEETING_NAME_BYTES, "spyre%016llx%016llx", (unsigned long long)random[0],
             (unsigned long long)random[1]);
    return NULL;
}

static socklen_t address_of(const char *name, struct sockaddr_un *out)
{
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(out->sun_path + 1, name, strlen(name));      // byte 0 is 0: the abstract namespace
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
}

// --- Sockets

static bool same_user(int connection)
{
    struct ucred other;
    socklen_t length = sizeof other;
    return !getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &other, &length) &&
           other.uid == geteuid();
}

// Waits until the socket can be read; false after some time.
static bool readable(int connection)
{
    struct pollfd p = {.fd = connection, .events = POLLIN};
    return poll(&p, 1, ASK_MS) > 0;
}

static spyre_status check_time(const party *p, bool *out_late)
{
    *out_late = clock_now_ns() >= p->deadline_ns;
    if (p->options->interrupted && p->options->interrupted())
        return status_new(SPYRE_CANCELLED, "interrupted");
    return NULL;
}

typedef union {
    char bytes[CMSG_SPACE(sizeof(int))];
    struct cmsghdr aligned;
} file_message;

static void send_welcome(int connection, const welcome *w, int file)
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
    // A rank that is gone by now is missed later, by name.
    (void)!sendmsg(connection, &message, MSG_NOSIGNAL);
}

static spyre_status receive_welcome(int connection, int *out_file)
{
    welcome w = {0};
    struct iovec data = {&w, sizeof w};
    file_message control = {0};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    ssize_t length = recvmsg(connection, &message, MSG_CMSG_CLOEXEC);
    struct cmsghdr *head = length > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    bool has_file = head && head->cmsg_type == SCM_RIGHTS &&
                    head->cmsg_len == CMSG_LEN(sizeof *out_file);
    if (has_file) memcpy(out_file, CMSG_DATA(head), sizeof *out_file);
    if (length == (ssize_t)sizeof w && w.magic == HELLO_MAGIC && !w.refused && has_file)
        return NULL;
    if (has_file) close(*out_file);
    w.reason[sizeof w.reason - 1] = '\0';
    if (length == (ssize_t)sizeof w && w.magic == HELLO_MAGIC && w.refused)
        return status_new(SPYRE_INVALID_ARGUMENT, "rank 0 refuses: %s", w.reason);
    return status_new(SPYRE_IO, "rank 0 has ended the connection");
}

// --- Rank 0

static spyre_status listen_as(const char *name, uint32_t size, int *out_socket)
{
    struct sockaddr_un address;
    socklen_t length = address_of(name, &address);
    int socket_file = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (socket_file < 0 || bind(socket_file, (struct sockaddr *)&address, length) ||
        listen(socket_file, (int)size)) {
        spyre_status status = status_new(SPYRE_IO, "no socket for a meeting: %s", strerror(errno));
        if (socket_file >= 0) close(socket_file);
        return status;
    }
    *out_socket = socket_file;
    return NULL;
}

// Answers a connection; *out_rank is the rank that came, or 0.
static spyre_status answer(int connection, uint32_t size, const bool *here, int file,
                           uint32_t *out_rank)
{
    hello h;
    welcome w = {.magic = HELLO_MAGIC};
    *out_rank = 0;
    if (!same_user(connection) || !readable(connection)) return NULL;
    ssize_t length = recv(connection, &h, sizeof h, 0);
    if (length != (ssize_t)sizeof h || h.magic != HELLO_MAGIC) return NULL;
    if (h.version != HELLO_VERSION)
        snprintf(w.reason, sizeof w.reason, "version %u of rank %u: rank 0 has version %d",
                 h.version, h.rank, HELLO_VERSION);
    else if (h.size != size)
        snprintf(w.reason, sizeof w.reason, "size %u of rank %u: rank 0 has size %u", h.size,
                 h.rank, size);
    else if (h.rank < 1 || h.rank >= size)
        snprintf(w.reason, sizeof w.reason, "rank %u: must be 1..%u", h.rank, size - 1);
    else if (here[h.rank])
        snprintf(w.reason, sizeof w.reason, "rank %u has come twice", h.rank);
    w.refused = *w.reason != '\0';
    send_welcome(connection, &w, w.refused ? -1 : file);
    if (w.refused) return status_new(SPYRE_INVALID_ARGUMENT, "%s", w.reason);
    *out_rank = h.rank;
    return NULL;
}

static spyre_status missing(const party *p, const bool *here)
{
    text t = {0};
    for (uint32_t r = 1; r < p->options->size; r++)
        if (!here[r]) text_printf(&t, "%s%u", t.length ? ", " : "", r);
    spyre_status status = status_new(SPYRE_IO, "timed out after %lld ms: of %u ranks these have "
                                     "not come: %s", (long long)p->options->timeout_ms,
                                     p->options->size, text_string(&t));
    text_free(&t);
    return status;
}

static spyre_status serve(const party *p, int socket_file, int file)
{
    bool here[SPYRE_COMM_MOST_RANKS] = {true}, late = false;
    uint32_t count = 1;
    while (count < p->options->size) {
        TRY(check_time(p, &late));
        if (late) return missing(p, here);
        if (!readable(socket_file)) continue;
        int connection = accept4(socket_file, NULL, NULL, SOCK_CLOEXEC);
        if (connection < 0) continue;
        uint32_t rank;
        spyre_status status = answer(connection, p->options->size, here, file, &rank);
        close(connection);
        if (status) return status;
        if (rank) {
            here[rank] = true;
            count++;
        }
    }
    return NULL;
}

static spyre_status announce(const party *p, const meeting *m)
{
    char key[160], value[MEETING_TEXT_BYTES], why[256] = "";
    snprintf(key, sizeof key, "%s/meeting", p->options->name);
    meeting_write(m, value);
    if (p->store->set(p->store->context, key, value, strlen(value), why)) return NULL;
    return status_new(SPYRE_IO, "the store does not take %s: %s", key, why);
}

static spyre_status open_meeting(const party *p, segment *out)
{
    spyre_status status = NULL;
    int socket_file = -1;
    meeting m = {.size = p->options->size};
    TRY(segment_create(0, p->options->size, out));
    if (p->options->size == 1) return NULL;
    name_host(m.host);
    TRY_DONE(name_socket(m.socket));
    TRY_DONE(listen_as(m.socket, m.size, &socket_file));
    TRY_DONE(announce(p, &m));
    TRY_DONE(serve(p, socket_file, out->file));
done:
    if (socket_file >= 0) close(socket_file);
    if (status) {
        segment_fail(out, spyre_status_message(status));
        segment_detach(out);
    }
    return status;
}

// --- The others

static spyre_status read_meeting(const party *p, meeting *out)
{
    char key[160], value[MEETING_TEXT_BYTES] = "", why[256] = "";
    size_t length = 0;
    int64_t left_ms = (p->deadline_ns - clock_now_ns()) / 1000000;
    snprintf(key, sizeof key, "%s/meeting", p->options->name);
    if (!p->store->get(p->store->context, key, left_ms > 1 ? left_ms : 1, value, sizeof value,
                       &length, why))
        return status_new(SPYRE_IO, "rank 0 has not come: no %s in the store: %s", key, why);
    TRY(status_at(meeting_read(value, length, out), "%s", key));
    if (out->size != p->options->size)
        return status_new(SPYRE_INVALID_ARGUMENT, "size %u: rank 0 has size %u", p->options->size,
                          out->size);
    char host[MEETING_HOST_BYTES];
    name_host(host);
    if (strcmp(host, out->host))
        return status_new(SPYRE_IO, "rank 0 is on another machine or in another network namespace "
                          "(%s, here %s): ranks must share a host", out->host, host);
    return NULL;
}

// The file of rank 0's memory, or -1 when nobody listens under that name.
static spyre_status visit(const party *p, const meeting *m, int *out_file)
{
    struct sockaddr_un address;
    socklen_t length = address_of(m->socket, &address);
    *out_file = -1;
    int connection = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (connection < 0) return status_new(SPYRE_IO, "no socket: %s", strerror(errno));
    if (connect(connection, (struct sockaddr *)&address, length)) {
        close(connection);
        return NULL;
    }
    hello h = {HELLO_MAGIC, HELLO_VERSION, p->options->rank, p->options->size};
    bool late = false, sent = same_user(connection) &&
                              send(connection, &h, sizeof h, MSG_NOSIGNAL) == (ssize_t)sizeof h;
    spyre_status status = NULL;
    while (sent && !status && !late && !readable(connection)) status = check_time(p, &late);
    if (!status && (!sent || late))
        status = status_new(SPYRE_IO, "rank 0 does not answer");
    if (!status) status = receive_welcome(connection, out_file);
    close(connection);
    return status;
}

// A store may still have the meeting of an earlier group of that name, so nobody listens there.
static spyre_status join_meeting(const party *p, segment *out)
{
    for (;;) {
        meeting m;
        int file;
        bool late;
        TRY(read_meeting(p, &m));
        TRY(visit(p, &m, &file));
        if (file >= 0) return segment_attach(file, p->options->rank, p->options->size, out);
        TRY(check_time(p, &late));
        if (late)
            return status_new(SPYRE_IO, "timed out after %lld ms: rank 0 does not listen",
                              (long long)p->options->timeout_ms);
        nanosleep(&(struct timespec){.tv_nsec = RETRY_NS}, NULL);
    }
}

spyre_status rendezvous(const spyre_comm_options *options, const spyre_comm_store *store,
                        segment *out_segment)
{
    party p = {options, store, clock_now_ns() + options->timeout_ms * 1000000};
    return options->rank == 0 ? open_meeting(&p, out_segment) : join_meeting(&p, out_segment);
}
