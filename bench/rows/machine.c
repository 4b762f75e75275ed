// machine.c: facts of the machine, from hwloc, /proc, /sys and the C library.
#include "bench/rows/machine.h"

#include "bench/tables/show.h"
#include "os/os.h"
#include "os/processor.h"

#include <hwloc.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#ifdef __clang__
#define COMPILER __VERSION__ // "Debian Clang 14.0.6"
#else
#define COMPILER "gcc " __VERSION__
#endif

enum { LINE_SIZE = 8192 };

const sm_build_facts sm_build = {
    .version = SM_BUILD_VERSION,
    .commit = SM_BUILD_COMMIT,
    .date = SM_BUILD_DATE,
    .flags = SM_COMPILER_FLAGS,
    .isas = SM_BUILD_ISAS,
    .compiler = COMPILER,
    .is_dirty = SM_BUILD_DIRTY,
#ifdef SM_OPENCL
    .has_opencl = true,
#endif
#ifdef SM_MPI
    .has_mpi = true,
#endif
};

// --- processor -----------------------------------------------------------------------------

// A figure in kB of /proc/self/status, in bytes.
static int64_t read_kilobytes(const char *path, const char *key) {
    char value[64];
    return os_read_fact("", path, key, value, sizeof(value)) ? (int64_t)strtoll(value, NULL, 10) * 1024 : SM_ABSENT;
}

// The extensions that decide which kernels can run; of RISC-V all that there are.
static const char *const isa_names[] = {
    "sse4_2",   "avx",         "avx2",     "fma",      "f16c",     "avx512f", "avx512bw", "avx512_vnni", "avx512_bf16",
    "avx_vnni", "avx512_fp16", "amx_tile", "amx_bf16", "amx_int8", "asimd",   "asimdhp",  "asimddp",     "bf16",
    "i8mm",     "sve",         "sve2",     "svebf16",  "svei8mm",  "sme",     "sme2",
};

static json_t *isa_list(void) {
    char words[LINE_SIZE], *rest = NULL;
    if (!os_processor_features("", words, sizeof(words))) {
        return json_null();
    }
    json_t *list = json_array();
    for (size_t i = 0; i < SM_COUNT(isa_names); i++) {
        if (sm_is_word_of(isa_names[i], words)) {
            json_array_append_new(list, json_string(isa_names[i]));
        }
    }
    for (char *word = strtok_r(words, " ", &rest); strncmp(words, "rv", 2) == 0 && word != NULL;
         word = strtok_r(NULL, " ", &rest)) {
        json_array_append_new(list, json_string(word));
    }
    return list;
}

static json_t *count_of(hwloc_topology_t topology, hwloc_obj_type_t type) {
    int n = topology != NULL ? hwloc_get_nbobjs_by_type(topology, type) : 0;
    return n > 0 ? json_integer(n) : json_null();
}

static json_t *cache_list(hwloc_topology_t topology) {
    static const struct {
        hwloc_obj_type_t type;
        int level;
        const char *name;
    } kinds[] = {
        {HWLOC_OBJ_L1CACHE, 1, "data"},    {HWLOC_OBJ_L1ICACHE, 1, "instruction"}, {HWLOC_OBJ_L2CACHE, 2, "unified"},
        {HWLOC_OBJ_L3CACHE, 3, "unified"}, {HWLOC_OBJ_L4CACHE, 4, "unified"},
    };
    json_t *list = json_array();
    for (size_t i = 0; topology != NULL && i < SM_COUNT(kinds); i++) {
        hwloc_obj_t cache = hwloc_get_obj_by_type(topology, kinds[i].type, 0);
        if (cache != NULL) {
            json_array_append_new(list, json_pack("{s:i, s:s, s:I, s:i}", "level", kinds[i].level, "type",
                                                  kinds[i].name, "size_bytes", (json_int_t)cache->attr->cache.size,
                                                  "count", hwloc_get_nbobjs_by_type(topology, kinds[i].type)));
        }
    }
    return list;
}

// NULL where hwloc cannot tell; the other facts do without it.
static hwloc_topology_t load_topology(void) {
    hwloc_topology_t topology = NULL;
    if (hwloc_topology_init(&topology) != 0) {
        return NULL;
    }
    // The machine as it is; what this process may use of it is told apart.
    hwloc_topology_set_flags(topology, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
    hwloc_topology_set_icache_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_ALL);
    if (hwloc_topology_load(topology) != 0 || !hwloc_topology_is_thissystem(topology)) {
        hwloc_topology_destroy(topology);
        return NULL;
    }
    return topology;
}

static json_t *cpu_facts(void) {
    hwloc_topology_t topology = load_topology();
    char name[SM_TEXT_SIZE], governor[LINE_SIZE], flags[LINE_SIZE];
    double quota_cpus;
    int64_t throttled_ns;
    os_processor_name("", name, sizeof(name));
    os_cpu_allowed("", &quota_cpus, &throttled_ns);
    os_read_line("", "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", governor, sizeof(governor));
    const bool has_flags = os_read_fact("", "/proc/cpuinfo", "flags", flags, sizeof(flags)); // of x86 alone
    json_t *cpu =
        sm_json_put(json_object(), {"name", sm_json_text(name)}, {"sockets", count_of(topology, HWLOC_OBJ_PACKAGE)},
                    {"cores", count_of(topology, HWLOC_OBJ_CORE)}, {"threads", count_of(topology, HWLOC_OBJ_PU)},
                    {"threads_allowed", json_integer(os_n_processors())},
                    {"quota", quota_cpus > 0 ? sm_json_real(quota_cpus) : json_null()},
                    {"numa_nodes", count_of(topology, HWLOC_OBJ_NUMANODE)}, {"isa", isa_list()},
                    {"governor", sm_json_text(governor)},
                    {"hypervisor", has_flags ? json_boolean(sm_is_word_of("hypervisor", flags)) : json_null()},
                    {"caches", cache_list(topology)});
    if (topology != NULL) {
        hwloc_topology_destroy(topology);
    }
    return cpu;
}

// --- system and build -----------------------------------------------------------------------

// The choice in brackets of "always [madvise] never".
static json_t *transparent_huge_pages(void) {
    char line[LINE_SIZE];
    if (!os_read_line("", "/sys/kernel/mm/transparent_hugepage/enabled", line, sizeof(line))) {
        return json_null();
    }
    const char *open = strchr(line, '[');
    const char *end = open != NULL ? strchr(open, ']') : NULL;
    return end != NULL ? json_stringn(open + 1, (size_t)(end - open - 1)) : json_null();
}

static json_t *operating_system(void) {
    char name[LINE_SIZE];
    SM_OWN(FILE) *file = fopen("/etc/os-release", "re");
    json_t *os = NULL;
    while (file != NULL && os == NULL && fgets(name, sizeof(name), file) != NULL) {
        static const char key[] = "PRETTY_NAME=";
        if (strncmp(name, key, sizeof(key) - 1) == 0) {
            char *value = name + sizeof(key) - 1;
            value += value[0] == '"';
            value[strcspn(value, "\"\n")] = '\0';
            os = sm_json_text(value);
        }
    }
    return os != NULL ? os : json_null();
}

// Variables that change how fast the libraries underneath run, or which code runs.
static json_t *environment(void) {
    extern char **environ;
    json_t *found = json_object();
    for (char **entry = environ; entry != NULL && *entry != NULL; entry++) {
        const char *equals = strchr(*entry, '=');
        const char *beginnings = "OMP_ GOMP_ KMP_ OPENBLAS_ GOTO_ POCL_ OCL_ICD_ OPENCL_ LD_PRELOAD LD_AUDIT "
                                 "LD_LIBRARY_PATH GLIBC_TUNABLES MALLOC_ HWLOC_SYNTHETIC HWLOC_XMLFILE HWLOC_FSROOT "
                                 "HWLOC_COMPONENTS HWLOC_PLUGINS HWLOC_THISSYSTEM CUDA_VISIBLE NCCL_ STEPMARK_ CC=";
        for (char begin[32]; equals != NULL && sm_next_word(&beginnings, begin, sizeof(begin));) {
            if (strncmp(*entry, begin, strlen(begin)) == 0) {
                json_object_setn_new(found, *entry, (size_t)(equals - *entry), sm_json_bytes(equals + 1));
            }
        }
    }
    return found;
}

static json_t *unless_zero(int64_t value) { return sm_json_integer(value != 0 ? value : SM_ABSENT); }

json_t *sm_machine_facts(int argc, char *const argv[]) {
    struct utsname system;
    const bool named = uname(&system) == 0;
    double load[3];
    const bool has_load = getloadavg(load, 3) == 3;
    json_t *arguments = json_array();
    uint64_t total_bytes, available_bytes;
    os_memory("", &total_bytes, &available_bytes);
    for (int i = 0; i < argc; i++) {
        json_array_append_new(arguments, sm_json_bytes(argv[i]));
    }
    return sm_json_put(
        json_object(), {"host", sm_json_text(named ? system.nodename : NULL)}, {"os", operating_system()},
        {"kernel", named ? json_sprintf("%s %s %s", system.sysname, system.release, system.machine) : json_null()},
        {"cpu", cpu_facts()}, {"load", has_load ? json_pack("[f, f, f]", load[0], load[1], load[2]) : json_null()},
        {"memory_bytes", unless_zero((int64_t)total_bytes)},
        {"memory_available_bytes", unless_zero((int64_t)available_bytes)},
        {"transparent_huge_pages", transparent_huge_pages()}, {"compiler", sm_json_text(sm_build.compiler)},
        {"compiler_flags", sm_json_text(sm_build.flags)}, {"build_commit", sm_json_text(sm_build.commit)},
        {"build_dirty", json_boolean(sm_build.is_dirty)}, {"environment", environment()}, {"argv", arguments});
}

json_t *sm_machine_device(const sm_device_info *info) {
    return sm_json_put(json_object(), {"id", sm_json_text(info->id)}, {"name", sm_json_text(info->name)},
                       {"driver", sm_json_text(info->driver)}, {"isa", sm_json_text(info->isa)},
                       {"blas_core", sm_json_text(info->blas_core)}, {"tier", sm_json_text(info->tier)},
                       {"n_units", unless_zero(info->n_units)}, {"n_threads", unless_zero(info->n_threads)},
                       {"binding", sm_json_text(info->binding)},
                       {"memory_bytes", unless_zero((int64_t)info->memory_bytes)},
                       {"max_alloc_bytes", unless_zero((int64_t)info->max_alloc_bytes)});
}

// --- memory of this process -------------------------------------------------------------------

int64_t sm_machine_rss_bytes(void) { return read_kilobytes("/proc/self/status", "VmRSS"); }

// VmHWM rather than getrusage: the latter survives exec and so starts at the parent's peak.
int64_t sm_machine_peak_rss_bytes(void) {
    const char *path = SM_TEXT_IN(64, "/proc/%d/status", sm_own_process_id());
    const int64_t apart_bytes = sm_own_process_id() > 0 ? read_kilobytes(path, "VmHWM") : 0;
    const int64_t peak_bytes = read_kilobytes("/proc/self/status", "VmHWM");
    if (peak_bytes != SM_ABSENT) {
        return peak_bytes + (apart_bytes > 0 ? apart_bytes : 0);
    }
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? os_rss_bytes(usage.ru_maxrss) : SM_ABSENT;
}

void sm_machine_reset_peak_rss(void) {
    FILE *file = fopen("/proc/self/clear_refs", "we");
    if (file != NULL) {
        fputs("5", file); // proc(5): sets the peak resident size to the current one
        fclose(file);
    }
}
