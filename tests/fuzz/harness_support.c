// harness_support.c: files for readers that take a path, and the entry point for libFuzzer and corpus_replay.c. With
// SM_FUZZ_TIMES=1, one input in 16384, and each new longest one, is also repeated many times, to find inputs whose time
// is too long, or grows faster than their length.
#include "harness_support.h"

#include <ftw.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

__attribute__((weak)) const double fuzz_longest_us_per_byte = 5;

void fuzz_expect(int holds, const char *what) {
    if (!holds) {
        fprintf(stderr, "fuzz: does not hold: %s\n", what);
        abort();
    }
}

char *fuzz_text(const void *data, size_t size_bytes) {
    char *text = malloc(size_bytes + 1);
    fuzz_expect(text != NULL, "memory for an input");
    memcpy(text, data, size_bytes);
    text[size_bytes] = '\0';
    return text;
}

// --- files -------------------------------------------------------------------------------------------------

const char *fuzz_file(const void *data, size_t size_bytes) {
    static int fd = -1;
    static char path[64];
    if (fd < 0) {
        fd = memfd_create("fuzz", MFD_CLOEXEC);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    fuzz_expect(ftruncate(fd, 0) == 0 && pwrite(fd, data, size_bytes, 0) == (ssize_t)size_bytes, "room for a file");
    return path;
}

static char folder[64];

static int remove_entry(const char *path, SM_UNUSED const struct stat *info, SM_UNUSED int type,
                        SM_UNUSED struct FTW *where) {
    return remove(path);
}

static void remove_folder(void) { nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS); }

// In memory, where there is such a folder: the disk has no part in what is tested.
const char *fuzz_folder(void) {
    if (folder[0] == '\0') {
        snprintf(folder, sizeof folder, "%s/stepmark-fuzz-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
        fuzz_expect(mkdtemp(folder) != NULL, "a temporary folder");
        atexit(remove_folder);
    }
    return folder;
}

const char *fuzz_path(const char *name) {
    static char paths[4][128];
    static size_t next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", fuzz_folder(), name);
    return path;
}

void fuzz_write(const char *path, const void *data, size_t size_bytes) {
    FILE *file = fopen(path, "wb");
    fuzz_expect(file != NULL && fwrite(data, 1, size_bytes, file) == size_bytes && fclose(file) == 0, "a file");
}

// --- time against bytes ------------------------------------------------------------------------------------

enum { ONE_IN = 16384, LONG_BYTES = 32 * 1024, N_TRIES = 3 };

static const double shortest_s = 0.1;    // less than this says nothing
static const double largest_ratio = 3.0; // of twice the bytes to once; 2 is linear, 4 is quadratic

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

// The shortest of some runs over an input that is the given one, over and over.
static double time_repeated(const uint8_t *data, size_t size_bytes, size_t long_bytes, int n_tries) {
    SM_FREED uint8_t *repeated = malloc(long_bytes);
    double shortest = -1;
    fuzz_expect(repeated != NULL, "memory for a long input");
    for (size_t i = 0; i < long_bytes; i++) {
        repeated[i] = data[i % size_bytes];
    }
    for (int i = 0; i < n_tries; i++) {
        double begin = seconds();
        fuzz_one(repeated, long_bytes);
        double elapsed = seconds() - begin;
        shortest = shortest < 0 || elapsed < shortest ? elapsed : shortest;
    }
    return shortest;
}

static void check_times(const uint8_t *data, size_t size_bytes) {
    if (time_repeated(data, size_bytes, 2 * LONG_BYTES, 1) < shortest_s) {
        return;
    }
    double once = time_repeated(data, size_bytes, LONG_BYTES, N_TRIES);
    double twice = time_repeated(data, size_bytes, 2 * LONG_BYTES, N_TRIES);
    if (twice > largest_ratio * once || twice > 1e-6 * fuzz_longest_us_per_byte * 2 * LONG_BYTES) {
        fprintf(stderr, "fuzz: %d bytes take %.3f s, twice as many %.3f s\n", LONG_BYTES, once, twice);
        fuzz_expect(twice <= shortest_s, "time grows as the input does");
    }
}

static bool is_timed(size_t size_bytes) {
    static int wanted = -1;
    static int64_t n_inputs;
    static size_t longest_bytes;
    if (wanted < 0) {
        const char *value = getenv("SM_FUZZ_TIMES");
        wanted = value != NULL && value[0] == '1';
    }
    if (!wanted || size_bytes == 0 || fuzz_longest_us_per_byte <= 0) {
        return false;
    }
    bool is_longest = size_bytes > longest_bytes;
    longest_bytes = is_longest ? size_bytes : longest_bytes;
    return is_longest || n_inputs++ % ONE_IN == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes) {
    fuzz_one(data, size_bytes);
    if (is_timed(size_bytes)) {
        check_times(data, size_bytes);
    }
    return 0;
}
