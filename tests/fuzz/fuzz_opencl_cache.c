// fuzz_opencl_cache.c: a built program in the cache. With an even first byte the hash is corrected, as otherwise hardly
// any input would pass it.

#include "harness_support.h"
#include "fnv1a.h"
#include "backends/host/cache.h"
#include "backends/opencl/program/program.h"

static const char key[] = "fuzz";

enum { HASH_AT = 24, ENTRY_AT = 32 };

void fuzz_one(const uint8_t *data, size_t size_bytes) {
    static char path[PATH_MAX];
    size_t binary_bytes = 0;
    if (path[0] == '\0') {
        setenv("XDG_CACHE_HOME", fuzz_folder(), 1);
        fuzz_expect(host_cache_path("opencl", key, path) == SM_OK, "a path");
        opencl_cache_store(key, (const unsigned char *)"binary", 6);
    }
    SM_FREED char *entry = fuzz_text(data, size_bytes);
    if (size_bytes > ENTRY_AT && entry[0] % 2 == 0) {
        uint64_t hash = sm_fnv1a(SM_FNV1A_START, entry + 1 + ENTRY_AT, size_bytes - 1 - ENTRY_AT);
        memcpy(entry + 1 + HASH_AT, &hash, size_bytes - 1 - HASH_AT < 8 ? 0 : sizeof hash);
    }
    fuzz_write(path, entry + (size_bytes > 0), size_bytes - (size_bytes > 0));
    unsigned char *binary = NULL;
    (void)opencl_cache_load(key, &binary, &binary_bytes);
    fuzz_expect(binary == NULL || binary_bytes < size_bytes, "a binary is a part of its file");
    free(binary);
}
