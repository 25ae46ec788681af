// SPDX-License-Identifier: Apache-2.0
//
// Sockets of a meeting: those of this host, whose names are in the abstract namespace, and TCP.
#ifndef COMM_SOCKETS_H
#define COMM_SOCKETS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

enum {
    SOCKET_NAME_BYTES = 40,
    SOCKET_HOST_BYTES = 80,
    SOCKET_ADDRESS_BYTES = 64,          // of one, with the interface of a link-local one
    SOCKET_ADDRESSES_BYTES = 256,
};

// Where a rank listens: an IPv4 or IPv6 address, and a port; 0: nowhere.
typedef struct {
    char address[SOCKET_ADDRESS_BYTES];
    uint32_t port;
} endpoint;

// The machine as far as sockets go: its boot and the namespace of its network. SPYRE_COMM_HOST, a
// word of less than SOCKET_HOST_BYTES, takes its place.
void socket_name_host(char out_name[SOCKET_HOST_BYTES]);

// An unguessable name.
SPYRE_MUST_CHECK spyre_status socket_random_name(char out_name[SOCKET_NAME_BYTES]);

SPYRE_MUST_CHECK spyre_status socket_listen_here(const char *name, uint32_t backlog,
                                                 int *out_socket);
// The connection to that name, or -1 without a listener.
SPYRE_MUST_CHECK spyre_status socket_connect_here(const char *name, int *out_socket);
bool socket_is_of_same_user(int connection);

// On all addresses, at a port that the kernel chooses; -1 and port 0 without a network.
int socket_listen(uint32_t backlog, uint32_t *out_port);
// The connection, or -1 when there is none after `timeout_ms`.
int socket_connect(const endpoint *to, int timeout_ms);
// The address of this side, or of the other.
void socket_address(int connection, bool other, char out_address[SOCKET_ADDRESS_BYTES]);

// This host's addresses that others may reach, separated by commas: those of the interface
// SPYRE_COMM_INTERFACE, else of all that are up, without link-local ones; IPv4
// before IPv6, "127.0.0.1" when there are none.
void socket_list_addresses(char out_addresses[SOCKET_ADDRESSES_BYTES]);

// Waits for something to read; false after `ms`.
bool socket_is_readable(int connection, int ms);

#endif
