// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE             // struct ucred
#include "comm/sockets.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/variable.h"


void socket_name_host(char out_name[SOCKET_HOST_BYTES])
{
    char boot[48] = "?", network[24] = "?";
    const char *given = variable_text("SPYRE_COMM_HOST");
    if (given) {
        snprintf(out_name, SOCKET_HOST_BYTES, "%s", given);
        return;
    }
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

// A listener of both families, or of IPv4 where the host has no IPv6.
static int bind_any(uint32_t backlog, struct sockaddr_storage *out_address)
{
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_addr = in6addr_any};
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
    const struct sockaddr *wanted[2] = {(struct sockaddr *)&six, (struct sockaddr *)&four};
    socklen_t sizes[2] = {sizeof six, sizeof four};
    for (int n = 0; n < 2; n++) {
        socklen_t length = sizeof *out_address;
        int off = 0, made = socket(wanted[n]->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (made < 0) continue;
        if (n == 0) setsockopt(made, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
        if (!bind(made, wanted[n], sizes[n]) && !listen(made, (int)backlog) &&
            !getsockname(made, (struct sockaddr *)out_address, &length))
            return made;
        close(made);
    }
    return -1;
}

int socket_listen(uint32_t backlog, uint32_t *out_port)
{
    struct sockaddr_storage address = {0};
    int made = bind_any(backlog, &address);
    // Both families have the port at one place.
    *out_port = made < 0 ? 0 : ntohs(((struct sockaddr_in *)(void *)&address)->sin_port);
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

static int connect_to(const struct addrinfo *to, int timeout_ms)
{
    int made = socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (made < 0) return -1;
    bool good = !connect(made, to->ai_addr, to->ai_addrlen) ||
                (errno == EINPROGRESS && is_made(made, timeout_ms));
    if (good && !fcntl(made, F_SETFL, fcntl(made, F_GETFL) & ~O_NONBLOCK)) return made;
    close(made);
    return -1;
}

int socket_connect(const endpoint *to, int timeout_ms)
{
    struct addrinfo wanted = {.ai_socktype = SOCK_STREAM,
                              .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV}, *found = NULL;
    char address[SOCKET_ADDRESS_BYTES], port[16];
    snprintf(address, sizeof address, "%.*s", SOCKET_ADDRESS_BYTES - 1, to->address);
    snprintf(port, sizeof port, "%u", to->port);
    if (getaddrinfo(address, port, &wanted, &found)) return -1;
    int made = connect_to(found, timeout_ms);
    freeaddrinfo(found);
    return made;
}

// As text; IPv4 also where a socket of both families maps it into IPv6.
static bool write_address(const struct sockaddr *address, socklen_t length,
                          char out_text[SOCKET_ADDRESS_BYTES])
{
    static const char mapped[] = "::ffff:";
    *out_text = '\0';
    if (getnameinfo(address, length, out_text, SOCKET_ADDRESS_BYTES, NULL, 0, NI_NUMERICHOST))
        return false;
    size_t prefix = sizeof mapped - 1;
    if (!strncmp(out_text, mapped, prefix) && strchr(out_text, '.'))
        memmove(out_text, out_text + prefix, strlen(out_text + prefix) + 1);
    return true;
}

void socket_address(int connection, bool other, char out_address[SOCKET_ADDRESS_BYTES])
{
    struct sockaddr_storage address = {0};
    struct sockaddr *found = (struct sockaddr *)&address;
    socklen_t length = sizeof address;
    int failed = other ? getpeername(connection, found, &length)
                       : getsockname(connection, found, &length);
    if (failed || !write_address(found, length, out_address)) *out_address = '\0';
}

// Whether others may reach the interface by this address, which is of the family.
static bool is_reachable(const struct ifaddrs *one, sa_family_t family, const char *interface)
{
    if (!one->ifa_addr || one->ifa_addr->sa_family != family || !(one->ifa_flags & IFF_UP))
        return false;
    if (family == AF_INET6) {
        const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)(const void *)one->ifa_addr;
        if (IN6_IS_ADDR_LINKLOCAL(&six->sin6_addr)) return false;
    }
    return interface ? !strcmp(interface, one->ifa_name) : !(one->ifa_flags & IFF_LOOPBACK);
}

static void append_address(const struct ifaddrs *one, char out_addresses[SOCKET_ADDRESSES_BYTES])
{
    char text[SOCKET_ADDRESS_BYTES];
    bool six = one->ifa_addr->sa_family == AF_INET6;
    socklen_t length = six ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    size_t used = strlen(out_addresses);
    if (!write_address(one->ifa_addr, length, text)) return;
    if (used + strlen(text) + 2 > SOCKET_ADDRESSES_BYTES) return;
    snprintf(out_addresses + used, SOCKET_ADDRESSES_BYTES - used, "%s%s", used ? "," : "", text);
}

void socket_list_addresses(char out_addresses[SOCKET_ADDRESSES_BYTES])
{
    const char *interface = variable_text("SPYRE_COMM_INTERFACE");
    const sa_family_t families[2] = {AF_INET, AF_INET6};
    struct ifaddrs *all = NULL;
    *out_addresses = '\0';
    if (getifaddrs(&all)) all = NULL;
    for (int f = 0; f < 2; f++)
        for (struct ifaddrs *one = all; one; one = one->ifa_next)
            if (is_reachable(one, families[f], interface)) append_address(one, out_addresses);
    freeifaddrs(all);
    if (!*out_addresses) snprintf(out_addresses, SOCKET_ADDRESSES_BYTES, "127.0.0.1");
}

bool socket_is_readable(int connection, int ms)
{
    struct pollfd p = {.fd = connection, .events = POLLIN};
    return poll(&p, 1, ms) > 0;
}
