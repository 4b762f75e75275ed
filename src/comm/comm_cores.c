// comm_cores.c: the processes of one host divide its cores among them, unless the launcher has bound them.
#include <hwloc.h>
#include <unistd.h>

#include "os/os.h"
#include "src/comm/comm.h"

// A process's answer to whether the launcher has bound it.
typedef struct {
    char host[64];
    os_processors allowed;
} placement;

static sm_status are_alike(sm_comm *comm, bool *alike) {
    const int size = sm_comm_size(comm);
    placement mine = {.host = ""};
    SM_FREED placement *all = sm_calloc((size_t)size, sizeof *all);
    gethostname(mine.host, sizeof mine.host - 1);
    (void)os_processors_allowed(&mine.allowed);
    SM_TRY(sm_comm_gather(comm, &mine, sizeof mine, all));
    *alike = true;
    for (int rank = 0; rank < size; rank++) {
        const bool is_here = strcmp(all[rank].host, mine.host) == 0;
        *alike &= !is_here || memcmp(&all[rank].allowed, &mine.allowed, sizeof mine.allowed) == 0;
    }
    return SM_OK;
}

// Binds to cores first .. end - 1 of those that the process may use, or to processors if there are too few cores.
static int bind_to_share(hwloc_topology_t topology, int part, int n_parts) {
    hwloc_cpuset_t allowed = hwloc_bitmap_alloc();
    hwloc_cpuset_t share = hwloc_bitmap_alloc();
    int n_bound = 0;
    if (allowed != NULL && share != NULL && hwloc_get_cpubind(topology, allowed, HWLOC_CPUBIND_PROCESS) == 0) {
        const int n_cores = hwloc_get_nbobjs_inside_cpuset_by_type(topology, allowed, HWLOC_OBJ_CORE);
        const hwloc_obj_type_t unit = n_cores >= n_parts ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
        const int n = hwloc_get_nbobjs_inside_cpuset_by_type(topology, allowed, unit);
        for (int i = n * part / n_parts; i < n * (part + 1) / n_parts; i++) {
            hwloc_obj_t object = hwloc_get_obj_inside_cpuset_by_type(topology, allowed, unit, (unsigned)i);
            hwloc_bitmap_or(share, share, object->cpuset);
            n_bound++;
        }
        hwloc_bitmap_and(share, share, allowed);
        if (n_bound > 0 && hwloc_set_cpubind(topology, share, HWLOC_CPUBIND_PROCESS) != 0) {
            n_bound = 0;
        }
    }
    hwloc_bitmap_free(allowed);
    hwloc_bitmap_free(share);
    return n_bound;
}

sm_status sm_comm_bind(sm_comm *comm, int *n_cores) {
    bool alike = false;
    hwloc_topology_t topology;
    *n_cores = 0;
    if (sm_comm_size(comm) == 1) {
        return SM_OK;
    }
    SM_TRY(are_alike(comm, &alike));
    if (!alike || sm_comm_local_size(comm) == 1 || hwloc_topology_init(&topology) != 0) {
        return SM_OK; // the kernel places the threads
    }
    if (hwloc_topology_load(topology) == 0 && hwloc_topology_is_thissystem(topology)) {
        *n_cores = bind_to_share(topology, sm_comm_local_rank(comm), sm_comm_local_size(comm));
    }
    hwloc_topology_destroy(topology);
    return SM_OK;
}
