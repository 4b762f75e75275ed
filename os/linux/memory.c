// memory.c: the machine's memory, by /proc/meminfo, and what control groups (cgroups) leave of it to this process.
#include "os/os.h"
#include "status.h"

// --- the machine's ---------------------------------------------------------------------------------

static uint64_t read_bytes(const char *root, const char *key) {
    uint64_t n_kib = 0;
    return os_read_count(root, "/proc/meminfo", key, &n_kib) ? n_kib * 1024 : 0;
}

void os_memory(const char *root, uint64_t *total_bytes, uint64_t *available_bytes) {
    *total_bytes = read_bytes(root, "MemTotal:");
    *available_bytes = read_bytes(root, "MemAvailable:");
    *available_bytes = *available_bytes > 0 ? *available_bytes : *total_bytes;
}

// --- this process's control groups -----------------------------------------------------------------

enum { CGROUP_PATH_SIZE = 1024, FILE_PATH_SIZE = 1280 };

// Looks at a group, whose folder it is given.
typedef struct cgroup_visitor {
    const char *controller; // of version 1
    void (*visit)(const struct cgroup_visitor *of, const char *root, const char *folder, bool is_v1);
    uint64_t *total_bytes, *available_bytes;
    double *quota_cpus;
    int64_t *throttled_ns;
} cgroup_visitor;

static bool has_word(const char *words, const char *word) {
    const size_t length = strlen(word);
    for (const char *at = words; at != NULL; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, word, length) == 0 && (at[length] == ',' || at[length] == '\0')) {
            return true;
        }
    }
    return false;
}

// A limit applies to a group and all groups below it: walks from this process's group to the root. In a container the
// path may name invisible groups; then the root is ours.
static void visit_all_groups(const cgroup_visitor *visitor, const char *root) {
    SM_OWN(FILE) *file = os_open_facts(root, "/proc/self/cgroup");
    char line[CGROUP_PATH_SIZE]; // "4:memory:/group", "3:cpu,cpuacct:/group" (version 1) or "0::/group" (version 2)
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':');
        char *group = controllers == NULL ? NULL : strchr(++controllers, ':');
        if (group == NULL) {
            continue;
        }
        *group++ = '\0';
        const bool is_v1 = controllers[0] != '\0';
        char *slash = !is_v1 || has_word(controllers, visitor->controller) ? group : NULL;
        while (slash != NULL) {
            char folder[CGROUP_PATH_SIZE + 64];
            snprintf(folder, sizeof folder, "/sys/fs/cgroup%s%s%s", is_v1 ? "/" : "", controllers, group);
            visitor->visit(visitor, root, folder, is_v1);
            slash = strrchr(group, '/');
            group[slash != NULL ? slash - group : 0] = '\0';
        }
    }
}

// Lowers both figures to the limit of a group and to what is left of it.
static void visit_memory(const cgroup_visitor *of, const char *root, const char *folder, bool is_v1) {
    char path[FILE_PATH_SIZE];
    uint64_t limit = 0, usage = 0;
    uint64_t inactive = 0; // the file cache that the kernel reclaims first
    snprintf(path, sizeof path, "%s/%s", folder, is_v1 ? "memory.limit_in_bytes" : "memory.max");
    if (!os_read_count(root, path, "", &limit)) { // absent, or "max": no limit
        return;
    }
    snprintf(path, sizeof path, "%s/%s", folder, is_v1 ? "memory.usage_in_bytes" : "memory.current");
    os_read_count(root, path, "", &usage);
    snprintf(path, sizeof path, "%s/memory.stat", folder);
    os_read_count(root, path, is_v1 ? "total_inactive_file " : "inactive_file ", &inactive);
    usage -= inactive < usage ? inactive : usage;
    uint64_t left = usage < limit ? limit - usage : 0;
    *of->total_bytes = limit < *of->total_bytes ? limit : *of->total_bytes;
    *of->available_bytes = left < *of->available_bytes ? left : *of->available_bytes;
}

void os_memory_allowed(const char *root, uint64_t *total_bytes, uint64_t *available_bytes) {
    os_memory(root, total_bytes, available_bytes);
    visit_all_groups(&(cgroup_visitor){.controller = "memory",
                                       .visit = visit_memory,
                                       .total_bytes = total_bytes,
                                       .available_bytes = available_bytes},
                     root);
}

// "50000 100000" of cpu.max, or the same in two files; "max" or -1: no limit.
static double read_quota(const char *root, const char *folder, bool is_v1) {
    double numbers[2] = {-1, -1};
    for (int i = 0; i < (is_v1 ? 2 : 1); i++) {
        char path[FILE_PATH_SIZE];
        snprintf(path, sizeof path, "%s/%s", folder,
                 !is_v1   ? "cpu.max"
                 : i == 0 ? "cpu.cfs_quota_us"
                          : "cpu.cfs_period_us");
        SM_OWN(FILE) *file = os_open_facts(root, path);
        if (file != NULL) {
            (void)!(is_v1 ? fscanf(file, "%lf", &numbers[i]) : fscanf(file, "%lf %lf", &numbers[0], &numbers[1]));
        }
    }
    return numbers[0] > 0 && numbers[1] > 0 ? numbers[0] / numbers[1] : 0;
}

static void visit_cpu(const cgroup_visitor *of, const char *root, const char *folder, bool is_v1) {
    char path[FILE_PATH_SIZE];
    uint64_t throttled = 0;
    const double quota = read_quota(root, folder, is_v1);
    snprintf(path, sizeof path, "%s/cpu.stat", folder);
    if (quota > 0 && (*of->quota_cpus == 0 || quota < *of->quota_cpus)) {
        *of->quota_cpus = quota;
    }
    if (os_read_count(root, path, is_v1 ? "throttled_time " : "throttled_usec ", &throttled)) {
        const int64_t ns = (int64_t)(is_v1 ? throttled : throttled * 1000);
        *of->throttled_ns = ns > *of->throttled_ns ? ns : *of->throttled_ns;
    }
}

void os_cpu_allowed(const char *root, double *quota_cpus, int64_t *throttled_ns) {
    *quota_cpus = 0;
    *throttled_ns = -1;
    visit_all_groups(
        &(cgroup_visitor){
            .controller = "cpu", .visit = visit_cpu, .quota_cpus = quota_cpus, .throttled_ns = throttled_ns},
        root);
}
