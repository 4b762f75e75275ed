// topology.c: cores, caches and binding, by hwloc.
//
// The machine is examined once, before any thread is bound: the process may use processors of its first affinity mask.
#include <errno.h>
#include <hwloc.h>
#include <omp.h>
#include <pthread.h>

#include "backends/cpu/threads/topology.h"
#include "os/os.h"

typedef enum { PLACED_FREELY, PLACED_IN_MASK, PLACED_ONE_A_CORE } placement;

struct cpu_binding {
    unsigned serial; // distinguishes bindings, from 1
    placement placement;
    hwloc_bitmap_t allowed; // processors of the mask, or all that the process may use
    hwloc_bitmap_t *places; // PLACED_ONE_A_CORE: a set for each thread
    int n_threads;
    char text[128];
};

static pthread_once_t loaded = PTHREAD_ONCE_INIT;
static hwloc_topology_t topology; // NULL: unknown
static hwloc_bitmap_t process_set;

// OMP_PROC_BIND is set: OpenMP has bound this thread, and has places for others.
static bool openmp_binds(void) { return omp_get_proc_bind() != omp_proc_bind_false && omp_get_num_places() > 0; }

// Adds the processors of one of OpenMP's places.
static void add_place(int place, hwloc_bitmap_t set) {
    const int n = omp_get_place_num_procs(place);
    SM_FREED int *processors = sm_calloc((size_t)n + 1, sizeof *processors);
    omp_get_place_proc_ids(place, processors);
    for (int i = 0; i < n; i++) {
        hwloc_bitmap_set(set, (unsigned)processors[i]);
    }
}

// The processors of the process: the mask of its first thread, unless OpenMP has reduced that.
static bool find_process_set(hwloc_topology_t of) {
    if (!openmp_binds()) {
        return hwloc_get_cpubind(of, process_set, HWLOC_CPUBIND_THREAD) == 0;
    }
    for (int place = 0; place < omp_get_num_places(); place++) {
        add_place(place, process_set);
    }
    return true;
}

static void load(void) {
    hwloc_topology_t found = NULL;
    setenv("HWLOC_HIDE_ERRORS", "2", 0); // cpu_topology_lack says it
    process_set = hwloc_bitmap_alloc();
    if (process_set == NULL || hwloc_topology_init(&found) != 0) {
        return;
    }
    // HWLOC_SYNTHETIC or HWLOC_XMLFILE may tell of another machine.
    if (hwloc_topology_load(found) != 0 || !hwloc_topology_is_thissystem(found) || !find_process_set(found)) {
        hwloc_topology_destroy(found);
        return;
    }
    hwloc_bitmap_and(process_set, process_set, hwloc_topology_get_allowed_cpuset(found));
    topology = found;
}

static bool is_known(void) {
    pthread_once(&loaded, load);
    return topology != NULL && !hwloc_bitmap_iszero(process_set);
}

static int count_cores(hwloc_const_bitmap_t set) {
    int n_cores = 0;
    hwloc_obj_t core = NULL;
    while ((core = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_CORE, core)) != NULL) {
        n_cores += hwloc_bitmap_intersects(core->cpuset, set) != 0;
    }
    // If cores are unknown, each processor counts as one.
    return n_cores > 0 ? n_cores : hwloc_bitmap_weight(set);
}

const char *cpu_topology_lack(void) {
    if (!is_known() || hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE) <= 0) {
        return "cores and caches are unknown, as in an empty /sys: each processor counts as a core";
    }
    const char *source = hwloc_obj_get_info_by_name(hwloc_get_root_obj(topology), "Backend");
    return source != NULL && strcmp(source, "x86") == 0 ? "the system does not tell cores and caches, as in an empty "
                                                          "/sys: they are asked of the processor itself"
                                                        : NULL;
}

int cpu_topology_n_cores(void) { return is_known() ? count_cores(process_set) : os_n_processors(); }

cpu_cache cpu_topology_cache(int level) {
    static const hwloc_obj_type_t types[CPU_CACHE_LEVELS] = {HWLOC_OBJ_L1CACHE, HWLOC_OBJ_L2CACHE, HWLOC_OBJ_L3CACHE};
    if (level < 1 || level > CPU_CACHE_LEVELS || !is_known()) {
        return (cpu_cache){0};
    }
    hwloc_obj_t cache = NULL;
    cpu_cache found = {0};
    while ((cache = hwloc_get_next_obj_by_type(topology, types[level - 1], cache)) != NULL) {
        if (hwloc_bitmap_intersects(cache->cpuset, process_set)) {
            hwloc_bitmap_t set = hwloc_bitmap_dup(cache->cpuset);
            if (set == NULL) {
                break;
            }
            hwloc_bitmap_and(set, set, process_set);
            found.size_bytes = (size_t)cache->attr->cache.size;
            found.n_caches++;
            found.n_cores = count_cores(set);
            hwloc_bitmap_free(set);
        }
    }
    return found.size_bytes > 0 ? found : (cpu_cache){0};
}

size_t cpu_topology_level2_bytes(void) {
    static size_t known_bytes;
    size_t size_bytes = __atomic_load_n(&known_bytes, __ATOMIC_RELAXED);
    if (size_bytes == 0) {
        const size_t smallest_bytes = (size_t)256 << 10;
        const cpu_cache level2 = cpu_topology_cache(2);
        const size_t share_bytes = level2.size_bytes / (size_t)(level2.n_cores > 1 ? level2.n_cores : 1);
        size_bytes = share_bytes > smallest_bytes ? share_bytes : smallest_bytes;
        __atomic_store_n(&known_bytes, size_bytes, __ATOMIC_RELAXED);
    }
    return size_bytes;
}

// --- masks --------------------------------------------------------------------------------

enum { MAX_PROCESSOR = 65535 };

#define BAD_MASK "cpu mask '%.60s': give a list of processors, 0-3,8, or hexadecimal bits, 0x10f"

// "0-3,8"
static sm_status parse_list(const char *mask, hwloc_bitmap_t set) {
    const char *rest = mask;
    for (;;) {
        char *end;
        long first = strtol(rest, &end, 10);
        SM_FAIL_IF(*rest < '0' || *rest > '9' || first > MAX_PROCESSOR, SM_ERR_USAGE, BAD_MASK, mask);
        long last = first;
        if (*end == '-') {
            rest = end + 1;
            last = strtol(rest, &end, 10);
            SM_FAIL_IF(*rest < '0' || *rest > '9' || last > MAX_PROCESSOR || last < first, SM_ERR_USAGE, BAD_MASK,
                       mask);
        }
        hwloc_bitmap_set_range(set, (unsigned)first, (int)last);
        if (*end == '\0') {
            return SM_OK;
        }
        SM_FAIL_IF(*end != ',', SM_ERR_USAGE, BAD_MASK, mask);
        rest = end + 1;
    }
}

static sm_status parse_mask(const char *mask, hwloc_bitmap_t set) {
    hwloc_bitmap_zero(set);
    if (strncmp(mask, "0x", 2) == 0) {
        const size_t n = strspn(mask + 2, "0123456789abcdefABCDEF");
        SM_FAIL_IF(n == 0 || mask[2 + n] != '\0' || n > (MAX_PROCESSOR + 1) / 4 ||
                       hwloc_bitmap_taskset_sscanf(set, mask) != 0,
                   SM_ERR_USAGE, BAD_MASK, mask);
    } else {
        SM_TRY(parse_list(mask, set));
    }
    if (hwloc_bitmap_iszero(set) || !hwloc_bitmap_isincluded(set, process_set)) {
        char usable[64];
        hwloc_bitmap_list_snprintf(usable, sizeof usable, process_set);
        return sm_fail(SM_ERR_USAGE, "cpu mask '%.60s': this process may use the processors %s", mask, usable);
    }
    return SM_OK;
}

// --- binding ------------------------------------------------------------------------------

// The place where OpenMP would put thread i of n.
static int openmp_place(int thread, int n_threads) {
    enum { PRIMARY = 2 }; // headers differ in the constant's name
    const int n_places = omp_get_num_places();
    switch ((int)omp_get_proc_bind()) {
    case PRIMARY: return 0;
    case omp_proc_bind_close: return n_threads <= n_places ? thread : thread * n_places / n_threads;
    default: return thread * n_places / n_threads;
    }
}

static sm_status choose_openmp_places(cpu_binding *b) {
    b->placement = PLACED_ONE_A_CORE;
    b->places = sm_calloc((size_t)b->n_threads, sizeof *b->places);
    for (int i = 0; i < b->n_threads; i++) {
        b->places[i] = hwloc_bitmap_alloc();
        SM_FAIL_IF(b->places[i] == NULL, SM_ERR_OOM, "cpu: no memory to bind %d threads", b->n_threads);
        add_place(openmp_place(i, b->n_threads), b->places[i]);
    }
    return SM_OK;
}

// The first n_threads cores of the allowed set; a thread may use all processors of its core.
static sm_status choose_places(cpu_binding *b) {
    hwloc_obj_t core = NULL;
    b->places = sm_calloc((size_t)b->n_threads, sizeof *b->places);
    for (int i = 0; i < b->n_threads;) {
        core = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_CORE, core);
        if (core == NULL) { // cores are unknown: threads stay within the set
            b->placement = PLACED_IN_MASK;
            return SM_OK;
        }
        if (hwloc_bitmap_intersects(core->cpuset, b->allowed)) {
            b->places[i] = hwloc_bitmap_dup(core->cpuset);
            SM_FAIL_IF(b->places[i] == NULL || hwloc_bitmap_and(b->places[i], b->places[i], b->allowed) != 0,
                       SM_ERR_OOM, "cpu: no memory to bind %d threads", b->n_threads);
            i++;
        }
    }
    return SM_OK;
}

static sm_status write_text(cpu_binding *b, int n_cores) {
    char list[64] = "";
    hwloc_bitmap_t used = b->placement == PLACED_ONE_A_CORE ? hwloc_bitmap_alloc() : hwloc_bitmap_dup(b->allowed);
    bool done = used != NULL;
    for (int i = 0; done && b->placement == PLACED_ONE_A_CORE && i < b->n_threads; i++) {
        done = hwloc_bitmap_or(used, used, b->places[i]) == 0;
    }
    if (!done) {
        hwloc_bitmap_free(used);
        return sm_fail(SM_ERR_OOM, "cpu: no memory to bind %d threads", b->n_threads);
    }
    hwloc_bitmap_list_snprintf(list, sizeof list, used);
    hwloc_bitmap_free(used);
    switch (b->placement) {
    case PLACED_ONE_A_CORE: snprintf(b->text, sizeof b->text, "one a core: processors %s", list); break;
    case PLACED_IN_MASK:
        snprintf(b->text, sizeof b->text, "%d threads on processors %s, %d cores", b->n_threads, list, n_cores);
        break;
    case PLACED_FREELY: snprintf(b->text, sizeof b->text, "free: %d of %d cores", b->n_threads, n_cores); break;
    }
    return SM_OK;
}

static sm_status place(cpu_binding *b, const char *mask) {
    b->allowed = hwloc_bitmap_dup(process_set);
    SM_FAIL_IF(b->allowed == NULL, SM_ERR_OOM, "cpu: no memory to bind threads");
    SM_TRY(mask != NULL ? parse_mask(mask, b->allowed) : SM_OK);
    int n_cores = count_cores(b->allowed);
    b->n_threads = b->n_threads > 0 ? b->n_threads : n_cores;
    if (mask != NULL ? b->n_threads <= n_cores : b->n_threads == n_cores) {
        b->placement = PLACED_ONE_A_CORE;
        SM_TRY(choose_places(b));
    } else {
        b->placement = mask != NULL ? PLACED_IN_MASK : PLACED_FREELY;
    }
    return write_text(b, n_cores);
}

sm_status cpu_binding_make(const char *mask, int *n_threads, cpu_binding **binding) {
    static atomic_uint n_made;
    *binding = NULL;
    SM_OWN(cpu_binding) *b = sm_calloc(1, sizeof *b);
    b->serial = atomic_fetch_add(&n_made, 1) + 1;
    b->n_threads = *n_threads;
    SM_FAIL_IF(mask != NULL && !is_known(), SM_ERR_UNSUPPORTED,
               "cpu mask '%.60s': the processors of this machine are not known", mask);
    if (mask == NULL && (openmp_binds() || !is_known())) {
        b->n_threads = *n_threads > 0 ? *n_threads : cpu_topology_n_cores();
        snprintf(b->text, sizeof b->text, "%s", is_known() ? "as OpenMP would: OMP_PROC_BIND" : "free");
        SM_TRY(is_known() ? choose_openmp_places(b) : SM_OK);
    } else {
        SM_TRY(place(b, mask));
    }
    *n_threads = b->n_threads;
    *binding = sm_give(&b);
    return SM_OK;
}

void cpu_binding_free(cpu_binding *binding) {
    if (binding != NULL) {
        for (int i = 0; binding->places != NULL && i < binding->n_threads; i++) {
            hwloc_bitmap_free(binding->places[i]);
        }
        free(binding->places);
        hwloc_bitmap_free(binding->allowed);
        free(binding);
    }
}

const char *cpu_binding_text(const cpu_binding *binding) { return binding->text; }

int cpu_binding_n_processors(const cpu_binding *binding) {
    return binding->places != NULL    ? binding->n_threads
           : binding->allowed != NULL ? hwloc_bitmap_weight(binding->allowed)
                                      : os_n_processors();
}

// This thread's last place: the serial of a binding and its number there. 0: none.
static _Thread_local unsigned bound_serial;
static _Thread_local int bound_thread;

// The system's reason for refusing to bind a thread; 0: it never did.
static atomic_int refusal;

// Binding is optional: a refusal is ignored here, and reported by cpu_binding_check.
void cpu_bind_thread(const cpu_binding *binding, int thread) {
    if (binding->placement == PLACED_FREELY) {
        cpu_unbind_thread();
        return;
    }
    if (bound_serial == binding->serial && bound_thread == thread) {
        return;
    }
    bool own = binding->placement == PLACED_ONE_A_CORE && thread < binding->n_threads;
    if (hwloc_set_cpubind(topology, own ? binding->places[thread] : binding->allowed, HWLOC_CPUBIND_THREAD) != 0) {
        atomic_store(&refusal, errno != 0 ? errno : ENOSYS);
    }
    bound_serial = binding->serial;
    bound_thread = thread;
}

void cpu_binding_check(const cpu_binding *binding, char *text, size_t size_bytes) {
    const int reason = atomic_load(&refusal);
    if (binding->placement != PLACED_FREELY && reason != 0) {
        snprintf(text, size_bytes, "free: the system refused to bind %d threads: %s", binding->n_threads,
                 strerror(reason));
    }
}

void cpu_unbind_thread(void) {
    if (bound_serial != 0) {
        hwloc_set_cpubind(topology, process_set, HWLOC_CPUBIND_THREAD);
        bound_serial = 0;
    }
}
