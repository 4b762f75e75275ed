// unix.c: see os/files.h, os/memory.h, os/library.h and os/os.h.
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "os/files.h"
#include "os/library.h"
#include "os/memory.h"
#include "os/os.h"
#include "status.h"

bool os_user_folder(const char *variable, const char *within, char *path, size_t size_bytes) {
    const char *named = getenv(variable);
    const char *home = getenv("HOME");
    const bool is_named = named != NULL && named[0] == '/';
    const int n = is_named                         ? snprintf(path, size_bytes, "%s", named)
                  : home != NULL && home[0] == '/' ? snprintf(path, size_bytes, "%s/%s", home, within)
                                                   : -1;
    return n >= 0 && (size_t)n < size_bytes;
}

void os_temporary_folder(char *path, size_t size_bytes) {
    const char *named = getenv("TMPDIR");
    snprintf(path, size_bytes, "%s", named != NULL && named[0] != '\0' ? named : "/tmp");
}

// --- streams ---------------------------------------------------------------------------------------

void os_hold_streams(void) {
    for (int file = STDIN_FILENO; file <= STDERR_FILENO; file++) {
        (void)(fcntl(file, F_GETFD) < 0 && open("/dev/null", file == STDOUT_FILENO ? O_RDONLY : O_RDWR) < 0);
    }
}

#ifdef __APPLE__
typedef struct {
    os_write *write;
    void *ctx;
} writer;

static int take(void *of, const char *text, int n_bytes) {
    const writer *w = of;
    return (int)w->write(w->ctx, text, (size_t)n_bytes);
}

FILE *os_open_writer(os_write *write, void *ctx) {
    static writer only;
    only = (writer){write, ctx};
    return funopen(&only, NULL, take, NULL, NULL);
}
#else
FILE *os_open_writer(os_write *write, void *ctx) {
    return fopencookie(ctx, "w", (cookie_io_functions_t){.write = write});
}
#endif

bool os_screen_size(int file, int *n_columns, int *n_lines) {
    struct winsize size = {0};
    const bool is_told = ioctl(file, TIOCGWINSZ, &size) == 0;
    *n_columns = size.ws_col;
    *n_lines = size.ws_row;
    return is_told;
}

// --- names -----------------------------------------------------------------------------------------

bool os_list_folder(const char *path, os_names *names) {
    DIR *folder = opendir(path);
    bool is_whole = folder != NULL;
    *names = (os_names){0};
    for (struct dirent *entry; is_whole && (entry = readdir(folder)) != NULL;) {
        is_whole = os_add_name(names, entry->d_name);
    }
    const int error = errno;
    if (folder != NULL) {
        closedir(folder);
    }
    errno = error;
    os_sort_names(names);
    return is_whole;
}

bool os_match_paths(const char *pattern, os_names *paths) {
    glob_t found = {.gl_pathc = 0};
    const int result = glob(pattern, GLOB_NOSORT | GLOB_TILDE, NULL, &found);
    bool is_whole = result == 0;
    *paths = (os_names){0};
    for (size_t i = 0; i < found.gl_pathc && is_whole; i++) {
        is_whole = os_add_name(paths, found.gl_pathv[i]);
    }
    globfree(&found);
    errno = result == 0 ? errno : result == GLOB_NOMATCH ? ENOENT : EIO;
    os_sort_names(paths);
    return is_whole;
}

// --- memory ----------------------------------------------------------------------------------------

size_t os_page_bytes(void) { return (size_t)sysconf(_SC_PAGESIZE); }

static void *map(size_t size_bytes, int flags, int file) {
    void *memory = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, flags, file, 0);
    return memory != MAP_FAILED ? memory : NULL;
}

// Maps more than needed, and unmaps the parts outside of the aligned one.
void *os_map(size_t size_bytes, size_t alignment) {
    if (size_bytes > SIZE_MAX - alignment) {
        return NULL;
    }
    char *mapped = map(size_bytes + alignment, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    if (mapped == NULL || alignment == 0) {
        return mapped;
    }
    const size_t head_bytes = (alignment - (uintptr_t)mapped % alignment) % alignment;
    char *aligned = mapped + head_bytes;
    if (head_bytes > 0) {
        munmap(mapped, head_bytes);
    }
    munmap(aligned + size_bytes, alignment - head_bytes);
    return aligned;
}

void *os_map_shared(size_t size_bytes) { return map(size_bytes, MAP_SHARED | MAP_ANONYMOUS, -1); }

void *os_map_file(int file, size_t size_bytes) { return map(size_bytes, MAP_SHARED | MAP_NORESERVE, file); }

void *os_map_given(size_t size_bytes, int *file) {
    *file = os_open_nameless();
    void *memory = *file >= 0 && ftruncate(*file, (off_t)size_bytes) == 0 ? os_map_file(*file, size_bytes) : NULL;
    if (memory == NULL && *file >= 0) {
        close(*file);
        *file = -1;
    }
    return memory;
}

void *os_map_input(size_t *size_bytes) {
    struct stat info;
    const bool is_there = fstat(STDIN_FILENO, &info) == 0 && info.st_size > 0;
    *size_bytes = is_there ? (size_t)info.st_size : 0;
    return is_there ? os_map_file(STDIN_FILENO, *size_bytes) : NULL;
}

void os_unmap(void *memory, size_t size_bytes) {
    if (memory != NULL) {
        munmap(memory, size_bytes);
    }
}

bool os_protect(void *memory, size_t size_bytes, os_page_right right) {
    static const int protections[] = {
        [OS_MAY_NOTHING] = PROT_NONE, [OS_MAY_ONLY_READ] = PROT_READ, [OS_MAY_CHANGE] = PROT_READ | PROT_WRITE};
    return mprotect(memory, size_bytes, protections[right]) == 0;
}

// --- libraries -------------------------------------------------------------------------------------

#ifdef __APPLE__
// libNAME.so.1 is libNAME.dylib here, also where Homebrew keeps what macOS has in its own way; OpenCL is a framework.
void *os_library_open(const char *name) {
    static const char *const places[] = {"%s", "/opt/homebrew/opt/openblas/lib/%s", "/usr/local/opt/openblas/lib/%s"};
    const char *end = strstr(name, ".so");
    void *library = NULL;
    char file[256], path[512];
    if (strchr(name, '/') != NULL || end == NULL) {
        return dlopen(name, RTLD_NOW | RTLD_LOCAL);
    }
    snprintf(file, sizeof file, "%.*s.dylib", (int)(end - name), name);
    for (size_t i = 0; i < sizeof places / sizeof places[0] && library == NULL; i++) {
        snprintf(path, sizeof path, places[i], file);
        library =
            dlopen(strncmp(name, "libOpenCL", 9) != 0 ? path : "/System/Library/Frameworks/OpenCL.framework/OpenCL",
                   RTLD_NOW | RTLD_LOCAL);
    }
    return library;
}
#else
void *os_library_open(const char *name) { return dlopen(name, RTLD_NOW | RTLD_LOCAL); }
#endif

void os_library_close(void *library) { dlclose(library); }

void *os_library_find(void *library, const char *name) { return dlsym(library, name); }

const char *os_library_error(void) { return dlerror(); }

const char *const os_compilers[] = {"cc", NULL};
const char os_library_end[] = ".so";
const bool os_removes_loaded = true, os_lends_functions = true;

const char *os_library_flag(SM_UNUSED const char *compiler) { return "-fPIC"; }

#ifdef __APPLE__
const char os_no_openblas[] = "libopenblas.dylib is not installed (brew install openblas)";
const char os_no_opencl[] = "no OpenCL.framework";
#else
const char os_no_openblas[] = "libopenblas.so.0 is not installed (Debian: libopenblas0-openmp)";
const char os_no_opencl[] = "no OpenCL loader (libOpenCL.so.1); install ocl-icd-libopencl1 and a driver, such as "
                            "pocl-opencl-icd for processors";
#endif
