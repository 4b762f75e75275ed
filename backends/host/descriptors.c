#include "backends/host/descriptors.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "clock.h"

static const int64_t limit_ns = 60000000000;

// --- connections ---------------------------------------------------------------------------------

// The address is in Linux's abstract namespace: a name that begins with 0 is no file, and ends with its last socket.
static socklen_t address_of(const char *name, int rank, struct sockaddr_un *address) {
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    const int n = snprintf(address->sun_path + 1, sizeof address->sun_path - 1, "%s-%d", name, rank);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

static void limit_waiting(int s) {
    const struct timeval limit = {.tv_sec = (time_t)(limit_ns / 1000000000)};
    (void)setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
}

static int open_socket(void) {
    const int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (s >= 0) {
        limit_waiting(s);
    }
    return s;
}

static bool is_own_user(int connection) {
    struct ucred other;
    socklen_t size_bytes = sizeof other;
    return getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &other, &size_bytes) == 0 && other.uid == geteuid();
}

// The other one may not listen yet.
static int connect_to(const char *name, int other, int rank) {
    static const struct timespec rest = {.tv_nsec = 1000000};
    struct sockaddr_un address;
    const socklen_t size_bytes = address_of(name, other, &address);
    const int64_t until_ns = sm_now_ns() + limit_ns;
    const int s = open_socket();
    while (s >= 0 && connect(s, (const struct sockaddr *)&address, size_bytes) != 0) {
        if ((errno != ECONNREFUSED && errno != EAGAIN && errno != EINTR) || sm_now_ns() > until_ns) {
            close(s);
            return -1;
        }
        nanosleep(&rest, NULL);
    }
    if (s >= 0 && (!is_own_user(s) || send(s, &rank, sizeof rank, MSG_NOSIGNAL) != (ssize_t)sizeof rank)) {
        close(s);
        return -1;
    }
    return s;
}

// Ranks connect to all lower ones, which accept them.
static int accept_any(int listening, int *rank) {
    for (;;) {
        const int s = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
        if (s < 0 && errno == EINTR) {
            continue;
        }
        if (s < 0) {
            return -1;
        }
        limit_waiting(s);
        if (is_own_user(s) && recv(s, rank, sizeof *rank, MSG_WAITALL) == (ssize_t)sizeof *rank) {
            return s;
        }
        close(s);
    }
}

static bool meet(const char *name, int rank, int n, int listening, int *connections) {
    struct sockaddr_un address;
    const socklen_t size_bytes = address_of(name, rank, &address);
    if (listening < 0 || bind(listening, (const struct sockaddr *)&address, size_bytes) != 0 ||
        listen(listening, n) != 0) {
        return false;
    }
    for (int other = 0; other < rank; other++) {
        connections[other] = connect_to(name, other, rank);
        if (connections[other] < 0) {
            return false;
        }
    }
    for (int k = rank + 1; k < n; k++) {
        int other = -1;
        int s = accept_any(listening, &other);
        if (s < 0 || other <= rank || other >= n || connections[other] >= 0) {
            sm_close_at(&s);
            return false;
        }
        connections[other] = s;
    }
    return true;
}

sm_status host_meet(const char *name, int rank, int n, int *connections) {
    for (int i = 0; i < n; i++) {
        connections[i] = -1;
    }
    errno = 0;
    SM_CLOSED int listening = open_socket();
    const bool met = meet(name, rank, n, listening, connections);
    const int code = errno;
    if (!met) {
        host_part(connections, n);
        return sm_fail(SM_ERR_UNSUPPORTED, "no connection to the other processes of this host: %s", strerror(code));
    }
    return SM_OK;
}

void host_part(int *connections, int n) {
    for (int i = 0; i < n; i++) {
        sm_close_at(&connections[i]);
    }
}

// --- descriptors ---------------------------------------------------------------------------------

typedef union {
    char bytes[CMSG_SPACE(sizeof(int))];
    struct cmsghdr aligned;
} control;

sm_status host_send_descriptor(int connection, int descriptor, uint64_t number) {
    control c = {.bytes = {0}};
    struct iovec data = {&number, sizeof number};
    struct msghdr m = {.msg_iov = &data, .msg_iovlen = 1};
    if (descriptor >= 0) {
        m.msg_control = c.bytes;
        m.msg_controllen = sizeof c.bytes;
        struct cmsghdr *h = CMSG_FIRSTHDR(&m);
        *h = (struct cmsghdr){
            .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof descriptor)};
        memcpy(CMSG_DATA(h), &descriptor, sizeof descriptor);
    }
    return sendmsg(connection, &m, MSG_NOSIGNAL) == (ssize_t)sizeof number
               ? SM_OK
               : sm_fail(SM_ERR_DEVICE, "another process of this host has ended: %s", strerror(errno));
}

sm_status host_receive_descriptor(int connection, int *descriptor, uint64_t *number) {
    control c = {.bytes = {0}};
    struct iovec data = {number, sizeof *number};
    struct msghdr m = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = c.bytes, .msg_controllen = sizeof c.bytes};
    ssize_t n;
    *descriptor = -1;
    do {
        n = recvmsg(connection, &m, MSG_WAITALL | MSG_CMSG_CLOEXEC);
    } while (n < 0 && errno == EINTR);
    SM_FAIL_IF(n != (ssize_t)sizeof *number, SM_ERR_DEVICE, "another process of this host %s",
               n < 0 ? "did not answer for a minute" : "has ended");
    const struct cmsghdr *h = CMSG_FIRSTHDR(&m);
    SM_FAIL_IF(h == NULL || h->cmsg_type != SCM_RIGHTS || h->cmsg_len != CMSG_LEN(sizeof *descriptor), SM_ERR_DEVICE,
               "another process of this host could not share its device's memory");
    memcpy(descriptor, CMSG_DATA(h), sizeof *descriptor);
    return SM_OK;
}
