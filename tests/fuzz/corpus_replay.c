// corpus_replay.c: a fuzzer without libFuzzer: gives it its saved corpus and the empty input, or the files named.
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "harness_support.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

static void replay(const char *path) {
    FILE *file = fopen(path, "rb");
    fuzz_expect(file != NULL && fseek(file, 0, SEEK_END) == 0, path);
    size_t size_bytes = (size_t)ftell(file);
    SM_FREED uint8_t *data =
        malloc(size_bytes > 0 ? size_bytes : 1); // no longer than the input, for AddressSanitizer's sake
    rewind(file);
    fuzz_expect(data != NULL && fread(data, 1, size_bytes, file) == size_bytes, path);
    fclose(file);
    LLVMFuzzerTestOneInput(data, size_bytes);
}

static int replay_folder(const char *folder) {
    int n = 0;
    DIR *dir = opendir(folder);
    fuzz_expect(dir != NULL, folder);
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (entry->d_name[0] != '.') {
            replay(path);
            n++;
        }
    }
    closedir(dir);
    return n;
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        replay(argv[i]);
    }
    if (argc == 1) {
        LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
        int n = replay_folder(SM_FUZZ_CORPUS_DIR);
        fuzz_expect(n > 0, "a corpus: " SM_FUZZ_CORPUS_DIR);
        printf("%s: %d inputs and the empty one read\n", SM_FUZZ_CORPUS_DIR, n);
    }
    return 0;
}
