// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE             // struct ucred
#include "comm/sockets.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

void socket_name_host(char out_name[SOCKET_HOST_BYTES])
{
    char boot[48] = "?", network[24] = "?";
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file) {
        if (fscanf(file, "%47s", boot) != 1) boot[0] = '?';
        fclose(file);
    }
    ssize_t length = readlink("/proc/self/ns/net", network, sizeof network - 1);
    network[length > 0 ? length : 1] = '\0';
    snprintf(out_name, SOCKET_HOST_BYTES, "%s/%s", boot, network);
}

spyre_status socket_random_name(char out_name[SOCKET_NAME_BYTES])
{
    uint64_t random[2];
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return status_new(SPYRE_IO, "no random numbers: %s", strerror(errno));
    snprintf(out_name, SOCKET_NAME_BYTES, "spyre%016llx%016llx", (unsigned long long)random[0],
             (unsigned long long)random[1]);
    return NULL;
}

// --- Within the host

static socklen_t address_of(const char *name, struct sockaddr_un *out)
{
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(out->sun_path + 1, name, strlen(name));      // byte 0 is 0: the abstract namespace
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
}

spyre_status socket_listen_here(const char *name, uint32_t backlog, int *out_socket)
{
    struct sockaddr_un address;
    socklen_t length = address_of(name, &address);
    int made = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (made < 0 || bind(made, (struct sockaddr *)&address, length) ||
        listen(made, (int)backlog)) {
        spyre_status status = status_new(SPYRE_IO, "no socket for a meeting: %s", strerror(errno));
        if (made >= 0) close(made);
        return status;
    }
    *out_socket = made;
    return NULL;
}

spyre_status socket_connect_here(const char *name, int *out_socket)
{
    struct sockaddr_un address;
    socklen_t length = address_of(name, &address);
    *out_socket = -1;
    int made = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (made < 0) return status_new(SPYRE_IO, "no socket: %s", strerror(errno));
    if (connect(made, (struct sockaddr *)&address, length)) close(made);
    else *out_socket = made;
    return NULL;
}

bool socket_is_of_same_user(int connection)
{
    struct ucred other;
    socklen_t length = sizeof other;
    return !getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &other, &length) &&
           other.uid == geteuid();
}

// --- Between hosts

int socket_listen(uint32_t backlog, uint32_t *out_port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
    socklen_t length = sizeof address;
    *out_port = 0;
    int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (made < 0) return -1;
    if (bind(made, (struct sockaddr *)&address, length) || listen(made, (int)backlog) ||
        getsockname(made, (struct sockaddr *)&address, &length)) {
        close(made);
        return -1;
    }
    *out_port = ntohs(address.sin_port);
    return made;
}

// Whether a connection that is under way comes about in time.
static bool is_made(int connection, int timeout_ms)
{
    struct pollfd p = {.fd = connection, .events = POLLOUT};
    int error = 0;
    socklen_t length = sizeof error;
    return poll(&p, 1, timeout_ms) > 0 &&
           !getsockopt(connection, SOL_SOCKET, SO_ERROR, &error, &length) && !error;
}

int socket_connect(const endpoint *to, int timeout_ms)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)to->port)};
    if (inet_pton(AF_INET, to->address, &address.sin_addr) != 1) return -1;
    int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (made < 0) return -1;
    bool good = !connect(made, (struct sockaddr *)&address, sizeof address) ||
                (errno == EINPROGRESS && is_made(made, timeout_ms));
    if (good && !fcntl(made, F_SETFL, fcntl(made, F_GETFL) & ~O_NONBLOCK)) return made;
    close(made);
    return -1;
}

void socket_address(int connection, bool other, char out_address[44])
{
    struct sockaddr_in address = {0};
    socklen_t length = sizeof address;
    int failed = other ? getpeername(connection, (struct sockaddr *)&address, &length)
                       : getsockname(connection, (struct sockaddr *)&address, &length);
    if (failed || !inet_ntop(AF_INET, &address.sin_addr, out_address, 44)) *out_address = '\0';
}

void socket_list_addresses(char out_addresses[SOCKET_ADDRESSES_BYTES])
{
    const char *wanted = getenv("SPYRE_COMM_INTERFACE");
    struct ifaddrs *all = NULL;
    *out_addresses = '\0';
    if (getifaddrs(&all)) all = NULL;
    for (struct ifaddrs *one = all; one; one = one->ifa_next) {
        char text[INET_ADDRSTRLEN];
        size_t used = strlen(out_addresses);
        if (!one->ifa_addr || one->ifa_addr->sa_family != AF_INET || !(one->ifa_flags & IFF_UP))
            continue;
        bool is_wanted = wanted ? !strcmp(wanted, one->ifa_name) : !(one->ifa_flags & IFF_LOOPBACK);
        const struct sockaddr_in *address = (const struct sockaddr_in *)(const void *)one->ifa_addr;
        if (!is_wanted || !inet_ntop(AF_INET, &address->sin_addr, text, sizeof text)) continue;
        if (used + strlen(text) + 2 > SOCKET_ADDRESSES_BYTES) break;
        snprintf(out_addresses + used, SOCKET_ADDRESSES_BYTES - used, "%s%s", used ? "," : "",
                 text);
    }
    freeifaddrs(all);
    if (!*out_addresses) snprintf(out_addresses, SOCKET_ADDRESSES_BYTES, "127.0.0.1");
}

bool socket_is_readable(int connection, int ms)
{
    struct pollfd p = {.fd = connection, .events = POLLIN};
    return poll(&p, 1, ms) > 0;
}
