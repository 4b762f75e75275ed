// unix.h: what os/unix/ asks of a Unix, of linux/ or posix.c.
#ifndef STEPMARK_OS_UNIX_UNIX_H
#define STEPMARK_OS_UNIX_UNIX_H

#include <poll.h>
#include <signal.h>
#include <time.h>

// As ppoll.
int os_poll(struct pollfd *files, int n, const struct timespec *most, const sigset_t *signals);

#endif
