// descriptors.h: processes of one host that hand file descriptors to one another: a connection between each two.
//
// A name is not a secret (/proc/net/unix lists it), so a process of another user is turned away.
#pragma once

#include "status.h"

// Connects rank `rank` of n with all others, which call it with the same name: connections[r] is the one to rank r, and
// -1 for the own rank. Waits for them, for a minute at most. On failure nothing stays open.
sm_status host_meet(const char *name, int rank, int n, int *connections);
void host_part(int *connections, int n);

// Sends a descriptor, which stays open here, with a number; -1: none, as it could not be made.
sm_status host_send_descriptor(int connection, int descriptor, uint64_t number);
// The caller closes it. SM_ERR_DEVICE: the other process has ended, or hangs, or had none to send.
sm_status host_receive_descriptor(int connection, int *descriptor, uint64_t *number);
