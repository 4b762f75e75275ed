// fuzz_tuning.c: a file of choices of mode tuned. KEY in the input stands for the key, which changes.
#include <dirent.h>
#include <jansson.h>
#include <limits.h>

#include "harness_support.h"
#include "backends/host/tuning.h"

static char path[PATH_MAX];
static char key[512];

// Has a file made, to find its name and its key.
static void learn_name(void) {
    setenv("XDG_CACHE_HOME", fuzz_folder(), 1);
    host_tuning *tuning = host_tuning_open("fuzz");
    host_tuning_put(tuning, "a", "b");
    host_tuning_save(tuning);
    host_tuning_free(tuning);
    const char *folder = fuzz_path("stepmark/tuning");
    DIR *dir = opendir(folder);
    fuzz_expect(dir != NULL, "a folder of choices");
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        if (entry->d_name[0] != '.') {
            snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        }
    }
    closedir(dir);
    json_auto_t *document = json_load_file(path, 0, NULL);
    snprintf(key, sizeof key, "%s", json_string_value(json_object_get(document, "key")));
}

// The input with the first KEY replaced; the caller's to free.
static char *expand(const uint8_t *data, size_t size_bytes, size_t *expanded_bytes) {
    const uint8_t *mark = memmem(data, size_bytes, "KEY", 3);
    const size_t before = mark == NULL ? size_bytes : (size_t)(mark - data);
    const size_t after = mark == NULL ? 0 : size_bytes - before - 3;
    char *text = malloc(size_bytes + strlen(key) + 1);
    fuzz_expect(text != NULL, "memory for an input");
    memcpy(text, data, before);
    *expanded_bytes = before;
    if (mark != NULL) {
        memcpy(text + before, key, strlen(key));
        memcpy(text + before + strlen(key), mark + 3, after);
        *expanded_bytes += strlen(key) + after;
    }
    return text;
}

void fuzz_one(const uint8_t *data, size_t size_bytes) {
    size_t expanded_bytes;
    if (path[0] == '\0') {
        learn_name();
    }
    SM_FREED char *text = expand(data, size_bytes, &expanded_bytes);
    fuzz_write(path, text, expanded_bytes);
    host_tuning *tuning = host_tuning_open("fuzz"); // a broken file counts as empty
    host_tuning_get(tuning, "a");
    host_tuning_warning(tuning);
    host_tuning_free(tuning);
}
