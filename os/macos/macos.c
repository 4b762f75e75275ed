// macos.c: facts that macOS tells by sysctl, in the form of Linux's files: see os/os.h. posix.c has the rest.
#include <errno.h>
#include <mach/mach.h>
#include <sys/sysctl.h>
#include <unistd.h>

#include "os/threads.h"
#include "words.h"

static int64_t number_of(const char *name) {
    int64_t value = 0; // little-endian: of 4 bytes, too
    size_t n_bytes = sizeof value;
    return sysctlbyname(name, &value, &n_bytes, NULL, 0) == 0 ? value : 0;
}

static bool text_of(const char *name, char text[128]) {
    size_t n_bytes = 127;
    memset(text, 0, 128);
    return sysctlbyname(name, text, &n_bytes, NULL, 0) == 0 && text[0] != '\0';
}

static const struct {
    const char *macos, *linux_name;
    unsigned long bit; // of AT_HWCAP2
} features[] = {
    {"hw.optional.arm.FEAT_FP16", "asimdhp", 0},    {"hw.optional.arm.FEAT_DotProd", "asimddp", 0},
    {"hw.optional.arm.FEAT_BF16", "bf16", 1 << 14}, {"hw.optional.arm.FEAT_I8MM", "i8mm", 0},
    {"hw.optional.arm.FEAT_SME", "sme", 1 << 23},   {"hw.optional.arm.FEAT_SME2", "sme2", 0},
};
enum { N_FEATURES = SM_COUNT(features) };

unsigned long os_arm_features(void) {
    unsigned long bits = 0;
    for (int i = 0; i < N_FEATURES; i++) {
        bits |= number_of(features[i].macos) != 0 ? features[i].bit : 0;
    }
    return bits;
}

// "Apple M2, 4 performance and 4 efficiency cores": macOS numbers the levels from the fastest.
static void write_processor(FILE *file) {
    char text[128];
    fprintf(file, "processor\t: 0\nmodel name\t: %s", text_of("machdep.cpu.brand_string", text) ? text : "");
    const int64_t n_levels = number_of("hw.nperflevels");
    for (int64_t i = 0; i < n_levels && n_levels > 1; i++) {
        char name[64];
        snprintf(name, sizeof name, "hw.perflevel%d.physicalcpu", (int)i);
        fprintf(file, "%s%lld ", i == 0 ? ", " : " and ", (long long)number_of(name));
        snprintf(name, sizeof name, "hw.perflevel%d.name", (int)i);
        if (!text_of(name, text)) {
            snprintf(text, sizeof text, "of level %d", (int)i);
        }
        fprintf(file, "%s", text);
    }
    fprintf(file, "%s\n", n_levels > 1 ? " cores" : "");
#if defined(__aarch64__)
    fprintf(file, "Features\t: asimd");
    for (int i = 0; i < N_FEATURES; i++) {
        fprintf(file, "%s%s", number_of(features[i].macos) != 0 ? " " : "",
                number_of(features[i].macos) != 0 ? features[i].linux_name : "");
    }
    fprintf(file, "\n");
#endif
}

FILE *os_open_facts(const char *root, const char *path) {
    char text[4096];
    if (root[0] != '\0') {
        return (size_t)snprintf(text, sizeof text, "%s%s", root, path) < sizeof text ? fopen(text, "r") : NULL;
    }
    const bool is_processor = strcmp(path, "/proc/cpuinfo") == 0;
    const bool is_board = strcmp(path, "/proc/device-tree/model") == 0 && text_of("hw.model", text);
    const int file = is_processor || is_board ? os_open_nameless() : -1;
    FILE *facts = file >= 0 ? fdopen(file, "w+") : NULL;
    if (facts == NULL) {
        errno = ENOENT; // others are unknown here
        return NULL;
    }
    if (is_processor) {
        write_processor(facts);
    } else {
        fputs(text, facts);
    }
    rewind(facts);
    return facts;
}

// Pages that are free, or that hold what is on disk, too.
void os_memory(const char *root, uint64_t *total_bytes, uint64_t *available_bytes) {
    vm_statistics64_data_t pages = {0};
    mach_msg_type_number_t n = HOST_VM_INFO64_COUNT;
    (void)root;
    *total_bytes = (uint64_t)number_of("hw.memsize");
    *available_bytes = *total_bytes;
    if (host_statistics64(mach_host_self(), HOST_VM_INFO64, (host_info64_t)&pages, &n) == KERN_SUCCESS) {
        *available_bytes = ((uint64_t)pages.free_count + pages.inactive_count) * (uint64_t)sysconf(_SC_PAGESIZE);
    }
}
