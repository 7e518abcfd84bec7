/* Faults of the host for one process, into which this is preloaded: a wall clock that jumps, and errors of calls that move UDP
   datagrams. A file that is mapped by both says what happens at the moment; its fields are those of `faults.rs`. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

struct faults {
    int64_t clock;        /* seconds that the wall clock is ahead */
    int64_t send;         /* the error of every attempt to send */
    int64_t receive;      /* the error of every attempt to receive */
    int64_t segmentation; /* the error of attempts to send with segmentation */
};

static struct faults none;
static volatile struct faults *faults = &none;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("CLEARWAY_STORM_FAULTS");
    int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *mapped = mmap(NULL, sizeof none, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (mapped != MAP_FAILED)
        faults = mapped;
    close(file);
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    int result = syscall(SYS_clock_gettime, clock, time);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        time->tv_sec += faults->clock;
    return result;
}

int gettimeofday(struct timeval *time, void *zone) {
    int result = syscall(SYS_gettimeofday, time, zone);
    if (result == 0)
        time->tv_sec += faults->clock;
    return result;
}

time_t time(time_t *time) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (time)
        *time = now.tv_sec;
    return now.tv_sec;
}

/* The error of sending this message now, or 0. Sockets other than UDP's are left alone. */
static int64_t error_of(const struct msghdr *message) {
    const struct sockaddr *address = message->msg_name;
    if (!address || (address->sa_family != AF_INET && address->sa_family != AF_INET6))
        return 0;
    if (faults->send)
        return faults->send;
    struct cmsghdr *control = CMSG_FIRSTHDR(message);
    for (; control; control = CMSG_NXTHDR((struct msghdr *)message, control))
        if (control->cmsg_level == IPPROTO_UDP && control->cmsg_type == UDP_SEGMENT)
            return faults->segmentation;
    return 0;
}

ssize_t sendmsg(int socket, const struct msghdr *message, int flags) {
    int64_t error = error_of(message);
    if (error) {
        errno = error;
        return -1;
    }
    return syscall(SYS_sendmsg, socket, message, flags);
}

int sendmmsg(int socket, struct mmsghdr *messages, unsigned count, int flags) {
    unsigned good = 0;
    int64_t error = 0;
    while (good < count && !(error = error_of(&messages[good].msg_hdr)))
        good++;
    if (good == 0 && error) {
        errno = error;
        return -1;
    }
    return syscall(SYS_sendmmsg, socket, messages, good, flags);
}

int recvmmsg(int socket, struct mmsghdr *messages, unsigned count, int flags, struct timespec *timeout) {
    if (faults->receive) {
        errno = faults->receive;
        return -1;
    }
    return syscall(SYS_recvmmsg, socket, messages, count, flags, timeout);
}
