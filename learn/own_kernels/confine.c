// confine.c: limits the process's system calls and its access to files (os/confinement.h).
#include "learn/own_kernels/kernel_library.h"

#include <libgen.h>

#include "os/confinement.h"
#include "os/files.h"

// Allows reading files, and writing to stdout and stderr. False: this system has no such filter.
bool sm_confine_kernel(char *const *libraries, int n) {
    char folder[PATH_MAX];
    const int rules = os_file_access_open(true);
    os_file_access_allow_system(rules);
    for (int i = 0; i < n; i++) { // loading a library needs its folder
        snprintf(folder, sizeof folder, "%s", libraries[i]);
        os_file_access_allow(rules, dirname(folder), OS_MAY_READ);
    }
    os_file_access_limit(rules);
    return os_filter_to_compute();
}

// --- a driver's process ----------------------------------------------------------------------------

// Computing devices, by how names begin, and files that all may write to. No disks: the superuser could write to them.
static void allow_devices(int rules) {
    static const char *const names[] = {"null", "zero",  "full",   "random", "urandom", "kfd",    "dxg",
                                        "dri",  "accel", "nvidia", "mali",   "kgsl",    "davinci"};
    char path[PATH_MAX];
    os_names devices;
    (void)os_list_folder("/dev", &devices);
    for (int d = 0; d < devices.n; d++) {
        struct stat info;
        snprintf(path, sizeof path, "/dev/%s", devices.list[d]);
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
            if (strncmp(devices.list[d], names[i], strlen(names[i])) == 0 && lstat(path, &info) == 0 &&
                (S_ISCHR(info.st_mode) || S_ISDIR(info.st_mode))) {
                os_file_access_allow(rules, path, OS_MAY_READ | OS_MAY_WRITE);
                break;
            }
        }
    }
    os_free_names(&devices);
}

bool sm_confine_driver(const char *folder) {
    // Variables with folders for the caches and temporary files of drivers and of this program.
    static const char *const variables[] = {"POCL_CACHE_DIR", "CUDA_CACHE_PATH", "XDG_CACHE_HOME", "TMPDIR"};
    const int rules = os_file_access_open(false);
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%s/%s", folder, variables[i]);
        mkdir(path, 0700);
        setenv(variables[i], path, 1);
    }
    allow_devices(rules);
    os_file_access_allow(rules, folder, OS_MAY_READ | OS_MAY_WRITE);
    os_file_access_limit(rules);
    return os_filter_to_drive();
}
