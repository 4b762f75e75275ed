// descriptors_none.c: see host/descriptors.h, for systems where descriptors cannot be handed on.
#include "backends/host/descriptors.h"

sm_status host_meet(const char *name, int rank, int n, int *connections) {
    (void)name, (void)rank;
    host_part(connections, n);
    return sm_fail(SM_ERR_UNSUPPORTED, "processes of this system do not share devices' memory");
}

void host_part(int *connections, int n) {
    for (int i = 0; i < n; i++) {
        connections[i] = -1;
    }
}

sm_status host_send_descriptor(int connection, int descriptor, uint64_t number) {
    (void)connection, (void)descriptor, (void)number;
    return SM_ERR_UNSUPPORTED;
}

sm_status host_receive_descriptor(int connection, int *descriptor, uint64_t *number) {
    (void)connection, (void)number;
    *descriptor = -1;
    return SM_ERR_UNSUPPORTED;
}
