// SPDX-License-Identifier: Apache-2.0
//
// Small frames are gathered until a bell rings, so that a collective's header, data and phase leave
// as one packet; large ones leave at once. Senders may be any thread, one at a time for each peer.
#define _GNU_SOURCE
#include "comm/network.h"

#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"

enum { GATHERED_BYTES = 16 << 10, FLUSH_MS = 1000 };

typedef struct {
    int socket;                         // -1: this rank itself
    _Atomic bool cut, left;
    pthread_mutex_t lock;               // of what goes out
    size_t gathered;
    uint8_t out[GATHERED_BYTES];
    // What comes in.
    network_frame frame;
    size_t received;                    // of the frame, then of its bytes
    uint64_t value;                     // of a whole one
} peer;

struct network {
    const shared_memory *shared;
    peer *peers;
    uint32_t size;
    int wake;                           // an eventfd that ends the thread
    pthread_t receiver;
    bool runs;
    pid_t process;
};

static void cut_off(peer *p)
{
    if (!atomic_exchange(&p->cut, true)) shutdown(p->socket, SHUT_RDWR);
}

// --- Out

static void send_all(peer *p, struct iovec *parts, int count)
{
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)count};
    while (message.msg_iovlen && !atomic_load(&p->cut)) {
        ssize_t sent = sendmsg(p->socket, &message, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0) {
            cut_off(p);
            return;
        }
        while (message.msg_iovlen && (size_t)sent >= message.msg_iov->iov_len) {
            sent -= (ssize_t)message.msg_iov->iov_len;
            message.msg_iov++;
            message.msg_iovlen--;
        }
        if (!message.msg_iovlen) return;
        message.msg_iov->iov_base = (uint8_t *)message.msg_iov->iov_base + sent;
        message.msg_iov->iov_len -= (size_t)sent;
    }
}

static void flush(peer *p)
{
    struct iovec part = {p->out, p->gathered};
    if (p->gathered) send_all(p, &part, 1);
    p->gathered = 0;
}

static void gather(peer *p, const void *bytes, size_t count)
{
    memcpy(p->out + p->gathered, bytes, count);
    p->gathered += count;
}

static void send_frame(peer *p, const network_frame *frame, const void *bytes)
{
    size_t all = sizeof *frame + frame->bytes;
    if (p->gathered + all > GATHERED_BYTES) flush(p);
    if (all <= GATHERED_BYTES) {
        gather(p, frame, sizeof *frame);
        gather(p, bytes, frame->bytes);
        return;
    }
    struct iovec parts[2] = {{(void *)(uintptr_t)frame, sizeof *frame},
                             {(void *)(uintptr_t)bytes, frame->bytes}};
    send_all(p, parts, 2);
}

static void send_to_peer(peer *p, const network_frame *frame, const void *bytes)
{
    pthread_mutex_lock(&p->lock);
    send_frame(p, frame, bytes);
    if (frame->kind == FRAME_RING || frame->kind == FRAME_END) flush(p);
    pthread_mutex_unlock(&p->lock);
}

// To the gateway of the rank's host, or to those of all other hosts.
static void send_by_gateway(const shared_memory *s, uint32_t to, const network_frame *frame,
                            const void *bytes)
{
    const comm_topology *t = &s->topology;
    uint32_t first = to == SHARED_MEMORY_ALL ? 0 : t->host_of[to];
    uint32_t end = to == SHARED_MEMORY_ALL ? t->hosts : first + 1;
    for (uint32_t host = first; host < end; host++)
        if (host != t->host_of[s->rank])
            send_to_peer(&s->network->peers[shared_memory_gateway(s, s->rank, host)], frame, bytes);
}

static network_frame frame_of(const shared_memory *s, const void *at, uint64_t bytes, bool whole)
{
    return (network_frame){(uint64_t)((const uint8_t *)at - s->base), (uint32_t)bytes,
                           whole ? FRAME_WHOLE : FRAME_BYTES};
}

static void push(const shared_memory *s, uint32_t to, const void *at, uint64_t bytes, bool whole)
{
    network_frame frame = frame_of(s, at, bytes, whole);
    if (!shared_memory_is_of_message(s, at)) send_by_gateway(s, to, &frame, at);
    else if (!shared_memory_is_here(s, to)) send_to_peer(&s->network->peers[to], &frame, at);
}

static void ring(const shared_memory *s, uint32_t to, uint32_t bell)
{
    network_frame frame = {network_bell(to, bell), 0, FRAME_RING};
    if (to == SHARED_MEMORY_ALL || shared_memory_is_here(s, to)) transport_shared.ring(s, to, bell);
    if (to == SHARED_MEMORY_ALL || bell == COMM_BELL_COLLECTIVES)
        send_by_gateway(s, to, &frame, "");
    else if (!shared_memory_is_here(s, to)) send_to_peer(&s->network->peers[to], &frame, "");
}

// To each rank itself, whose gateway may have ended.
static void end(const shared_memory *s)
{
    shared_memory_rank *own = shared_memory_rank_of(s, s->rank);
    uint32_t value = atomic_load(&own->state);
    network_frame reason = frame_of(s, &own->reason, sizeof own->reason, false);
    network_frame state = frame_of(s, &own->state, sizeof own->state, true);
    network_frame last = {.kind = FRAME_END};
    for (uint32_t r = 0; r < s->size; r++) {
        peer *p = &s->network->peers[r];
        if (shared_memory_is_here(s, r)) continue;
        if (value == SHARED_MEMORY_FAILED) {
            send_to_peer(p, &reason, &own->reason);
            send_to_peer(p, &state, &value);
        }
        send_to_peer(p, &last, "");
    }
}

// --- In

spyre_status network_check_frame(const shared_memory *s, uint32_t from, const network_frame *f)
{
    bool good = f->kind < FRAME_KINDS;
    uint32_t to = network_bell_rank(f->at);
    if (f->kind == FRAME_RING)
        good = f->bytes == 0 && f->at < network_bell(SHARED_MEMORY_ALL, SHARED_MEMORY_BELLS) &&
               (to == SHARED_MEMORY_ALL || (to < s->size && shared_memory_is_here(s, to)));
    if (f->kind == FRAME_END) good = f->bytes == 0;
    if (f->kind == FRAME_WHOLE) good = (f->bytes == 4 || f->bytes == 8) && f->at % f->bytes == 0;
    if (good && f->kind < FRAME_RING)
        good = f->bytes && shared_memory_is_written_by(s, from, f->at, f->bytes);
    if (good) return NULL;
    return status_new(SPYRE_INVALID_FORMAT, "rank %u sent a frame of kind %u for bytes %llu + %u, "
                      "which are not its own", from, f->kind, (unsigned long long)f->at, f->bytes);
}

static void store_whole(const shared_memory *s, const peer *p)
{
    void *target = s->base + p->frame.at;
    uint32_t half;
    memcpy(&half, &p->value, sizeof half);
    if (p->frame.bytes == 4) atomic_store((_Atomic uint32_t *)target, half);
    else atomic_store((_Atomic uint64_t *)target, p->value);
}

// Where the next bytes go, and how many are missing.
static uint8_t *next_place(const shared_memory *s, peer *p, size_t *out_missing)
{
    if (p->received < sizeof p->frame) {
        *out_missing = sizeof p->frame - p->received;
        return (uint8_t *)&p->frame + p->received;
    }
    size_t have = p->received - sizeof p->frame;
    *out_missing = p->frame.bytes - have;
    if (p->frame.kind == FRAME_WHOLE) return (uint8_t *)&p->value + have;
    return s->base + p->frame.at + have;
}

static void wake(const shared_memory *s)
{
    for (uint32_t bell = 0; bell < SHARED_MEMORY_BELLS; bell++)
        transport_shared.ring(s, s->rank, bell);
}

static void pass_ring(const shared_memory *s, uint64_t at)
{
    uint32_t to = network_bell_rank(at), bell = (uint32_t)(at % SHARED_MEMORY_BELLS);
    transport_shared.ring(s, to, bell);
    if (to == SHARED_MEMORY_ALL) transport_shared.ring(s, s->rank, bell);
}

// After more bytes; false for a frame that breaks a rule.
static bool take(const shared_memory *s, uint32_t from, peer *p)
{
    if (p->received == sizeof p->frame) {
        spyre_status wrong = network_check_frame(s, from, &p->frame);
        spyre_status_free(wrong);
        if (wrong) return false;
    }
    if (p->received < sizeof p->frame || p->received < sizeof p->frame + p->frame.bytes)
        return true;
    if (p->frame.kind == FRAME_WHOLE) store_whole(s, p);
    if (p->frame.kind == FRAME_RING) pass_ring(s, p->frame.at);
    if (p->frame.kind == FRAME_END) {
        atomic_store(&p->left, true);
        wake(s);
    }
    p->received = 0;
    return true;
}

// Everything that has come; false at the end of the connection.
static bool drain(const shared_memory *s, uint32_t from, peer *p)
{
    for (;;) {
        size_t missing;
        uint8_t *place = next_place(s, p, &missing);
        ssize_t count = recv(p->socket, place, missing, MSG_DONTWAIT);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
        if (count == 0) return false;
        p->received += (size_t)count;
        if (!take(s, from, p)) return false;
    }
}

static void end_peer(const shared_memory *s, peer *p)
{
    cut_off(p);
    wake(s);
}

static void *receive(void *context)
{
    struct network *n = context;
    struct pollfd polled[SPYRE_COMM_MOST_RANKS + 1];
    bool ended[SPYRE_COMM_MOST_RANKS] = {false};
    for (;;) {
        for (uint32_t r = 0; r < n->size; r++)
            polled[r] = (struct pollfd){.fd = ended[r] ? -1 : n->peers[r].socket, .events = POLLIN};
        polled[n->size] = (struct pollfd){.fd = n->wake, .events = POLLIN};
        if (poll(polled, n->size + 1, -1) < 0) continue;
        for (uint32_t r = 0; r < n->size; r++) {
            if (!polled[r].revents || polled[r].fd < 0) continue;
            if (drain(n->shared, r, &n->peers[r])) continue;
            ended[r] = true;
            end_peer(n->shared, &n->peers[r]);
        }
        if (polled[n->size].revents) return NULL;
    }
}

// --- The whole

static bool is_alive(const shared_memory *s, uint32_t rank)
{
    if (shared_memory_is_here(s, rank)) return transport_shared.is_alive(s, rank);
    return !atomic_load(&s->network->peers[rank].cut);
}

static bool has_left(const shared_memory *s, uint32_t rank)
{
    if (shared_memory_is_here(s, rank)) return transport_shared.has_left(s, rank);
    return atomic_load(&s->network->peers[rank].left);
}

static const char *death(const shared_memory *s, uint32_t rank)
{
    return shared_memory_is_here(s, rank) ? transport_shared.death(s, rank)
                                          : "the connection to it is cut";
}

// Waits until the peers' kernels have what was sent.
static void await_delivery(const struct network *n)
{
    int64_t end_ns = clock_now_ns() + FLUSH_MS * INT64_C(1000000);
    for (uint32_t r = 0; r < n->size; r++) {
        int waiting = 0;
        while (n->peers[r].socket >= 0 && !atomic_load(&n->peers[r].cut) &&
               !ioctl(n->peers[r].socket, SIOCOUTQ, &waiting) && waiting > 0 &&
               clock_now_ns() < end_ns)
            nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    }
}

static void free_network(struct network *n)
{
    for (uint32_t r = 0; n->peers && r < n->size; r++) {
        if (n->peers[r].socket >= 0) close(n->peers[r].socket);
        pthread_mutex_destroy(&n->peers[r].lock);
    }
    if (n->wake >= 0) close(n->wake);
    free(n->peers);
    free(n);
}

// A forked child has no thread, and leaves the connections to its parent.
static void close_network(shared_memory *s)
{
    struct network *n = s->network;
    uint64_t one = 1;
    if (n->runs && n->process == getpid()) {
        await_delivery(n);
        if (write(n->wake, &one, sizeof one) == sizeof one) pthread_join(n->receiver, NULL);
    }
    free_network(n);
    s->network = NULL;
}

static void prepare(int socket, int64_t timeout_ms)
{
    int on = 1, idle_s = 5, ms = timeout_ms > 3600000 ? 3600000 : (int)timeout_ms;
    struct timeval most = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &idle_s, sizeof idle_s);
    setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof ms);
    setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof most);
}

static const comm_transport transport_network = {"TCP", push, ring, end, is_alive,
                                                 has_left, death, close_network};

spyre_status network_open(shared_memory *s, const int *sockets, int64_t timeout_ms)
{
    struct network *n = calloc(1, sizeof *n);
    if (n)
        *n = (struct network){
            .shared = s, .size = s->size, .wake = eventfd(0, EFD_CLOEXEC), .process = getpid()};
    if (n) n->peers = calloc(s->size, sizeof *n->peers);
    if (!n || !n->peers) {
        for (uint32_t r = 0; r < s->size; r++)
            if (sockets[r] >= 0) close(sockets[r]);
        if (n) free_network(n);
        return status_new(SPYRE_OUT_OF_MEMORY, "out of host memory");
    }
    for (uint32_t r = 0; r < s->size; r++) {
        n->peers[r].socket = sockets[r];
        pthread_mutex_init(&n->peers[r].lock, NULL);
        if (sockets[r] >= 0) prepare(sockets[r], timeout_ms);
    }
    s->network = n;
    s->transport = &transport_network;
    if (n->wake < 0 || pthread_create(&n->receiver, NULL, receive, n))
        return status_new(SPYRE_OUT_OF_MEMORY, "no thread for the network");
    n->runs = true;
    return NULL;
}
