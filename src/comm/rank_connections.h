// SPDX-License-Identifier: Apache-2.0
//
// What ranks say to each other when they meet, and the connections between all of them. Integers
// are the host's: ranks run on machines of one kind.
#ifndef COMM_RANK_CONNECTIONS_H
#define COMM_RANK_CONNECTIONS_H

#include "comm/shared_memory.h"
#include "comm/sockets.h"

enum { HELLO_MAGIC = 0x5350434d, HELLO_VERSION = 4 };

typedef struct {
    uint32_t magic, version, rank, size;
    uint32_t port;                      // where it listens for ranks above it; 0: nowhere
    uint32_t cores;                     // that it may use
    char token[SOCKET_NAME_BYTES];      // what only those know who read the store
    char host[SOCKET_HOST_BYTES];       // ranks of one name share memory
} hello;

typedef struct {
    uint32_t magic;
    uint32_t refusal;                   // the spyre_code of one, or SPYRE_OK
    uint32_t shares;                    // 1: the file of the host's shared memory comes with it
    char reason[256];
    comm_topology topology;
    endpoint endpoints[SPYRE_COMM_MOST_RANKS];
} welcome;

// A rank that is to meet others until then.
typedef struct {
    const spyre_comm_options *options;
    const spyre_comm_store *store;
    int64_t deadline_ns;
} party;

// Fails when the user has interrupted; *out_late: the time is up.
SPYRE_MUST_CHECK spyre_status party_check(const party *p, bool *out_late);

bool send_hello(int connection, const hello *h);
bool receive_hello(int connection, int timeout_ms, hello *out);

// With the file, if it is not -1. A rank that is gone by now is missed later, by name.
void send_welcome(int connection, const welcome *w, int file);
// Fails for a refusal, with its reason. *out_file is the caller's, or -1.
SPYRE_MUST_CHECK spyre_status receive_welcome(int connection, welcome *out, int *out_file);

// The memory of this rank's host, whose first rank makes it and hands its file to the others, who
// find that one by a socket of the host: `listener`, which ranks_listen_here() made.
SPYRE_MUST_CHECK spyre_status ranks_listen_here(const char *token, uint32_t rank, uint32_t size,
                                                int *out_listener);
SPYRE_MUST_CHECK spyre_status ranks_share_memory(const party *p, const comm_topology *t,
                                                 int listener, const char *token,
                                                 shared_memory *out);

// Connects to the ranks below on other hosts, is connected to by those above, on the socket
// `listener`, and gives the connections to the shared memory as its transport.
SPYRE_MUST_CHECK spyre_status ranks_connect(const party *p, shared_memory *s, int listener,
                                            const endpoint *endpoints, const char *token);

#endif
