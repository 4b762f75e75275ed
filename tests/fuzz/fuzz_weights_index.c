// fuzz_weights_index.c: the index of a model in parts, and its parts: the first byte is how many bytes are a part's,
// before those of the index; further parts are the same file.
#include "harness_support.h"
#include "src/io/safetensors.h"

const double fuzz_longest_us_per_byte = 8;

void fuzz_one(const uint8_t *data, size_t size_bytes) {
    const char *path = fuzz_path("index.json");
    SM_OWN(sm_safetensors) *file = NULL;
    int n;
    const size_t n_part = size_bytes > 0 && data[0] < size_bytes ? data[0] : 0;
    if (size_bytes == 0) {
        return;
    }
    fuzz_write(fuzz_path("a"), data + 1, n_part);
    fuzz_write(fuzz_path("b.safetensors"), data + 1, n_part);
    fuzz_write(path, data + 1 + n_part, size_bytes - 1 - n_part);
    if (sm_safetensors_open_index(path, &file) != SM_OK) {
        return;
    }
    char *const *paths = sm_safetensors_paths(file, &n);
    fuzz_expect(n > 0, "parts");
    for (int i = 0; i < n; i++) {
        const char *slash = strrchr(paths[i], '/');
        fuzz_expect(slash != NULL && strncmp(paths[i], path, (size_t)(slash + 1 - paths[i])) == 0 &&
                        strlen(fuzz_folder()) == (size_t)(slash - paths[i]),
                    "files of the folder");
    }
    for (int i = 0; i < sm_safetensors_count(file); i++) {
        const sm_safetensors_entry *entry = sm_safetensors_at(file, i);
        float values[64];
        fuzz_expect(entry->part >= 0 && entry->part < n, "a part");
        if (entry->n_elems <= 64) {
            (void)sm_safetensors_read(file, entry, values);
        }
    }
}
