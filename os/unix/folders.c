// folders.c: see os/os.h.
#include <stdio.h>
#include <stdlib.h>

#include "os/os.h"

bool os_user_folder(const char *variable, const char *within, char *path, size_t size_bytes) {
    const char *named = getenv(variable);
    const char *home = getenv("HOME");
    const bool is_named = named != NULL && named[0] == '/';
    const int n = is_named                            ? snprintf(path, size_bytes, "%s", named)
                  : home != NULL && home[0] == '/' ? snprintf(path, size_bytes, "%s/%s", home, within)
                                                      : -1;
    return n >= 0 && (size_t)n < size_bytes;
}
