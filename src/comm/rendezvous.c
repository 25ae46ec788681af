// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE             // accept4
#include "comm/rendezvous.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "base/text.h"
#include "base/thread_pool.h"
#include "base/variable.h"
#include "comm/rank_connections.h"

enum { ASK_MS = 50, ANSWER_MS = 2000, RETRY_NS = 20000000, GRACE_NS = 1000000000 };

// --- The text in the store

void meeting_write(const meeting *m, char out_text[MEETING_TEXT_BYTES])
{
    snprintf(out_text, MEETING_TEXT_BYTES, "openspyre-comm %d %u %s %s %u %s", HELLO_VERSION,
             m->size, m->socket, m->host, m->port, m->addresses);
}

spyre_status meeting_read(const char *value, size_t length, meeting *out)
{
    char own[MEETING_TEXT_BYTES], end;
    unsigned version, size, port;
    memset(out, 0, sizeof *out);
    if (length >= sizeof own) length = sizeof own - 1;
    memcpy(own, value, length);
    own[length] = '\0';
    int found = sscanf(own, "openspyre-comm %9u %9u %39s %79s %9u %255s%c", &version, &size,
                       out->socket, out->host, &port, out->addresses, &end);
    if (found >= 2 && version != HELLO_VERSION)
        return status_new(SPYRE_INVALID_FORMAT, "rank 0 has version %u: expected version %d",
                          version, HELLO_VERSION);
    if (found != 6)
        return status_new(SPYRE_INVALID_FORMAT, "\"%s\" in the store is no meeting of ranks", own);
    if (size < 1 || size > SPYRE_COMM_MOST_RANKS || port > 65535)
        return status_new(SPYRE_INVALID_FORMAT,
                          "rank 0 has %u ranks and port %u: expected 1..%d and at most 65535", size,
                          port, SPYRE_COMM_MOST_RANKS);
    out->size = size;
    out->port = port;
    return NULL;
}

// What a rank says that listens at `port`, to those who know the meeting.
static hello own_hello(const party *p, const meeting *m, uint32_t port)
{
    hello h = {.magic = HELLO_MAGIC, .version = HELLO_VERSION, .rank = p->options->rank,
               .size = p->options->size, .port = port, .cores = thread_cores()};
    memcpy(h.token, m->socket, sizeof h.token);
    socket_name_host(h.host);
    return h;
}

// --- Rank 0

typedef struct {
    const party *p;
    meeting m;
    int here, there;                            // its sockets
    int connections[SPYRE_COMM_MOST_RANKS];     // by rank; -1: has not come
    hello hellos[SPYRE_COMM_MOST_RANKS];
    endpoint endpoints[SPYRE_COMM_MOST_RANKS];
} host;

static void refuse(int connection, spyre_status status)
{
    welcome w = {.magic = HELLO_MAGIC, .refusal = (uint32_t)spyre_status_code(status)};
    snprintf(w.reason, sizeof w.reason, "%s", spyre_status_message(status));
    send_welcome(connection, &w, -1);
}

static spyre_status check_hello(const host *h, const hello *from)
{
    char reason[256] = "";
    uint32_t size = h->p->options->size;
    if (from->version != HELLO_VERSION)
        snprintf(reason, sizeof reason, "version %u of rank %u: rank 0 has version %d",
                 from->version, from->rank, HELLO_VERSION);
    else if (from->size != size)
        snprintf(reason, sizeof reason, "size %u of rank %u: rank 0 has size %u", from->size,
                 from->rank, size);
    else if (from->rank < 1 || from->rank >= size)
        snprintf(reason, sizeof reason, "rank %u: must be 1..%u", from->rank, size - 1);
    else if (h->connections[from->rank] >= 0)
        snprintf(reason, sizeof reason, "rank %u has come twice", from->rank);
    return *reason ? status_new(SPYRE_INVALID_ARGUMENT, "%s", reason) : NULL;
}

// Takes a connection in, which stays open; strangers are turned away. *out_rank: who, or 0.
static spyre_status admit(host *h, int connection, bool elsewhere, uint32_t *out_rank)
{
    hello from;
    *out_rank = 0;
    bool known = elsewhere || socket_is_of_same_user(connection);
    if (!known || !receive_hello(connection, elsewhere ? ANSWER_MS : ASK_MS, &from) ||
        strncmp(from.token, h->m.socket, sizeof from.token)) {
        close(connection);
        return NULL;
    }
    spyre_status status = check_hello(h, &from);
    if (status) {
        refuse(connection, status);
        close(connection);
        return status;
    }
    h->connections[from.rank] = connection;
    h->hellos[from.rank] = from;
    *out_rank = from.rank;
    return NULL;
}

static spyre_status missing(const host *h)
{
    text t = {0};
    uint32_t size = h->p->options->size;
    for (uint32_t r = 1; r < size; r++)
        if (h->connections[r] < 0) text_printf(&t, "%s%u", t.length ? ", " : "", r);
    spyre_status status = status_new(SPYRE_IO, "timed out after %lld ms: of %u ranks these have "
                                     "not come: %s", (long long)h->p->options->timeout_ms, size,
                                     text_string(&t));
    text_free(&t);
    return status;
}

// The next connection and how it came; -1 when there was none for a while.
static int next_connection(const host *h, bool *out_elsewhere)
{
    struct pollfd both[2] = {{.fd = h->here, .events = POLLIN}, {.fd = h->there, .events = POLLIN}};
    if (poll(both, 2, ASK_MS) <= 0) return -1;
    *out_elsewhere = !both[0].revents;
    return accept4(*out_elsewhere ? h->there : h->here, NULL, NULL, SOCK_CLOEXEC);
}

static spyre_status gather(host *h)
{
    uint32_t count = 1;
    bool late, elsewhere;
    while (count < h->p->options->size) {
        TRY(party_check(h->p, &late));
        if (late) return missing(h);
        int connection = next_connection(h, &elsewhere);
        if (connection < 0) continue;
        uint32_t rank;
        TRY(admit(h, connection, elsewhere, &rank));
        if (rank) count++;
    }
    return NULL;
}

// The rank comes from another host than rank 0, by TCP.
static bool is_elsewhere(const host *h, uint32_t rank)
{
    return strncmp(h->hellos[rank].host, h->m.host, sizeof h->hellos[rank].host) != 0;
}

// Hosts by their names, in the order of their first ranks.
static void find_hosts(const host *h, comm_topology *t)
{
    const char *asked = variable_text("SPYRE_COMM_TRANSPORT");
    bool apart = asked && !strcmp(asked, "tcp");
    *t = (comm_topology){.size = h->m.size, .cores = h->hellos[0].cores,
                         .forced = algorithm_find(variable_text("SPYRE_COMM_ALGORITHM"))};
    for (uint32_t r = 0; r < t->size; r++) {
        uint32_t like = 0;
        const hello *own = &h->hellos[r];
        while (like < r && (apart || strncmp(own->host, h->hellos[like].host, sizeof own->host)))
            like++;
        t->host_of[r] = like < r ? t->host_of[like] : (uint8_t)t->hosts++;
        if (own->cores < t->cores) t->cores = own->cores;
    }
    if (t->cores == 0) t->cores = 1;
}

// Where the ranks reach each other.
static void find_endpoints(host *h)
{
    char here[SOCKET_ADDRESS_BYTES] = "127.0.0.1";
    for (uint32_t r = 1; r < h->m.size; r++)    // as seen from there
        if (is_elsewhere(h, r)) socket_address(h->connections[r], false, here);
    for (uint32_t r = 0; r < h->m.size; r++) {
        endpoint *e = &h->endpoints[r];
        e->port = h->hellos[r].port;
        if (r && is_elsewhere(h, r)) socket_address(h->connections[r], true, e->address);
        else memcpy(e->address, here, sizeof here);
    }
}

// With rank 0's memory for the ranks of its host.
static void welcome_all(host *h, const comm_topology *t, int file)
{
    welcome w = {.magic = HELLO_MAGIC, .topology = *t};
    find_endpoints(h);
    memcpy(w.endpoints, h->endpoints, sizeof w.endpoints);
    for (uint32_t r = 1; r < t->size; r++) {
        w.shares = t->host_of[r] == t->host_of[0];
        send_welcome(h->connections[r], &w, w.shares ? file : -1);
    }
}

static spyre_status announce(const host *h)
{
    const party *p = h->p;
    char key[160], value[MEETING_TEXT_BYTES], why[256] = "";
    snprintf(key, sizeof key, "%s/meeting", p->options->name);
    meeting_write(&h->m, value);
    if (p->store->set(p->store->context, key, value, strlen(value), why)) return NULL;
    return status_new(SPYRE_IO, "the store does not take %s: %s", key, why);
}

static spyre_status hold(host *h, shared_memory *out)
{
    TRY(socket_random_name(h->m.socket));
    TRY(socket_listen_here(h->m.socket, h->m.size, &h->here));
    h->there = socket_listen(h->m.size, &h->m.port);
    socket_name_host(h->m.host);
    socket_list_addresses(h->m.addresses);
    h->hellos[0] = own_hello(h->p, &h->m, h->m.port);
    TRY(announce(h));
    TRY(gather(h));
    find_hosts(h, &out->topology);
    welcome_all(h, &out->topology, out->file);
    if (out->topology.hosts == 1) return NULL;
    return ranks_connect(h->p, out, h->there, h->endpoints, h->m.socket);
}

// What went wrong here is the others' error, too.
static void dismiss(host *h, spyre_status status)
{
    for (uint32_t r = 1; r < h->m.size; r++) {
        if (h->connections[r] < 0) continue;
        if (status) refuse(h->connections[r], status);
        close(h->connections[r]);
    }
    if (h->here >= 0) close(h->here);
    if (h->there >= 0) close(h->there);
}

static spyre_status open_meeting(const party *p, shared_memory *out)
{
    host h = {.p = p, .m.size = p->options->size, .here = -1, .there = -1};
    for (uint32_t r = 0; r < SPYRE_COMM_MOST_RANKS; r++) h.connections[r] = -1;
    TRY(shared_memory_create(0, p->options->size, out));
    if (p->options->size == 1) return NULL;
    spyre_status status = hold(&h, out);
    dismiss(&h, status);
    if (status) {
        shared_memory_fail(out, status);
        shared_memory_detach(out);
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
    return status_at(meeting_read(value, length, out), "%s", key);
}

static int connect_elsewhere(const meeting *m)
{
    char addresses[SOCKET_ADDRESSES_BYTES], *rest = addresses;
    memcpy(addresses, m->addresses, sizeof addresses);
    for (char *one; (one = strtok_r(rest, ",", &rest));) {
        endpoint to = {.port = m->port};
        snprintf(to.address, sizeof to.address, "%.63s", one);
        int connection = socket_connect(&to, ANSWER_MS);
        if (connection >= 0) return connection;
    }
    return -1;
}

// The connection to rank 0, or -1 while rank 0 does not listen.
static spyre_status visit(const meeting *m, int *out_connection)
{
    char own[SOCKET_HOST_BYTES];
    socket_name_host(own);
    if (!strcmp(own, m->host)) {
        TRY(socket_connect_here(m->socket, out_connection));
        if (*out_connection < 0 || socket_is_of_same_user(*out_connection)) return NULL;
        close(*out_connection);
        return status_new(SPYRE_IO, "rank 0 belongs to another user");
    }
    *out_connection = connect_elsewhere(m);
    return NULL;
}

// Tells rank 0 who has come, and waits for its answer.
static spyre_status ask(const party *p, const hello *own, int connection, welcome *out,
                        int *out_file)
{
    if (!send_hello(connection, own)) return status_new(SPYRE_IO, "rank 0 does not answer");
    bool late = false;
    // Rank 0, which knows who has not come, gets the time to say so.
    party patient = {p->options, p->store, p->deadline_ns + GRACE_NS};
    while (!late && !socket_is_readable(connection, ASK_MS)) TRY(party_check(&patient, &late));
    if (late) return status_new(SPYRE_IO, "rank 0 does not answer");
    return receive_welcome(connection, out, out_file);
}

static spyre_status find_rank_0(const party *p, meeting *m, int *out_connection)
{
    for (;;) {
        bool late;
        TRY(read_meeting(p, m));
        TRY(visit(m, out_connection));
        if (*out_connection >= 0) return NULL;
        // A store may still have the meeting of an earlier group of that name.
        TRY(party_check(p, &late));
        if (late)
            return status_new(SPYRE_IO, "timed out after %lld ms: rank 0 does not listen at %s, "
                              "port %u of %s", (long long)p->options->timeout_ms, m->host, m->port,
                              m->addresses);
        nanosleep(&(struct timespec){.tv_nsec = RETRY_NS}, NULL);
    }
}

// What a rank listens on: for ranks of its host, for those of others. -1: nowhere.
typedef struct {
    int here, there;
    uint32_t port;
} listeners;

static spyre_status check_topology(const party *p, const comm_topology *t)
{
    bool good = t->size == p->options->size && t->hosts >= 1 && t->hosts <= t->size && t->cores;
    for (uint32_t r = 0; good && r < t->size; r++) good = t->host_of[r] < t->hosts;
    for (uint32_t h = 0; good && h < t->hosts; h++) good = topology_count(t, h) > 0;
    return good ? NULL : status_new(SPYRE_INVALID_FORMAT, "rank 0 does not say where ranks are");
}

static spyre_status join_as_told(const party *p, const meeting *m, const welcome *w, int file,
                                 const listeners *l, shared_memory *out)
{
    const comm_topology *t = &w->topology;
    spyre_status status = check_topology(p, t);
    if (status && file >= 0) close(file);
    if (status) return status;
    if (w->shares) TRY(shared_memory_attach(file, p->options->rank, p->options->size, out));
    else TRY(ranks_share_memory(p, t, l->here, m->socket, out));
    out->topology = *t;
    if (t->hosts == 1) return NULL;
    status = ranks_connect(p, out, l->there, w->endpoints, m->socket);
    if (status) shared_memory_detach(out);
    return status;
}

static spyre_status join_with(const party *p, const meeting *m, int connection, listeners *l,
                              shared_memory *out)
{
    welcome w = {0};
    int file = -1;
    TRY(ranks_listen_here(m->socket, p->options->rank, p->options->size, &l->here));
    l->there = socket_listen(p->options->size, &l->port);
    hello own = own_hello(p, m, l->port);
    TRY(ask(p, &own, connection, &w, &file));
    return join_as_told(p, m, &w, file, l, out);
}

static spyre_status join_meeting(const party *p, shared_memory *out)
{
    meeting m;
    int connection;
    listeners l = {-1, -1, 0};
    TRY(find_rank_0(p, &m, &connection));
    spyre_status status = join_with(p, &m, connection, &l, out);
    close(connection);
    if (l.here >= 0) close(l.here);
    if (l.there >= 0) close(l.there);
    return status;
}

static spyre_status wrong_word(const char *name, const char *expected)
{
    return status_new(SPYRE_INVALID_ARGUMENT, "%s=%.80s: expected %s", name, variable_text(name),
                      expected);
}

static spyre_status check_environment(void)
{
    const char *algorithm = variable_text("SPYRE_COMM_ALGORITHM");
    const char *transport = variable_text("SPYRE_COMM_TRANSPORT");
    const char *name = variable_text("SPYRE_COMM_HOST");
    if (algorithm && algorithm_find(algorithm) == ALGORITHM_COUNT &&
        strcmp(algorithm, algorithm_name(ALGORITHM_COUNT)))
        return wrong_word("SPYRE_COMM_ALGORITHM", "direct, sliced, chain or fastest");
    if (transport && strcmp(transport, "tcp") && strcmp(transport, "shared"))
        return wrong_word("SPYRE_COMM_TRANSPORT", "tcp or shared");
    if (name && (strlen(name) >= SOCKET_HOST_BYTES || strpbrk(name, " \t\n")))
        return wrong_word("SPYRE_COMM_HOST", "a word of less than 80 bytes");
    return NULL;
}

spyre_status rendezvous(const spyre_comm_options *options, const spyre_comm_store *store,
                        shared_memory *out_shared)
{
    TRY(check_environment());
    party p = {options, store, clock_now_ns() + options->timeout_ms * 1000000};
    return options->rank == 0 ? open_meeting(&p, out_shared) : join_meeting(&p, out_shared);
}
