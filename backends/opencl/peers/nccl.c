#include "backends/opencl/peers/nccl.h"

#include "os/files.h"
#include "os/library.h"

nccl_functions nccl;

// --- where it is ---------------------------------------------------------------------------------

// Opens the first library among the pattern's files that can be loaded.
static void *open_matching(const char *pattern) {
    os_names found;
    void *library = NULL;
    (void)os_match_paths(pattern, &found);
    for (int i = 0; i < found.n && library == NULL; i++) {
        library = os_library_open(found.list[i]);
    }
    os_free_names(&found);
    return library;
}

// Opens the library of the active Python environment, or of the first interpreter in PATH.
static void *open_of_python(void) {
    static const char place[] = "lib/python3*/site-packages/nvidia/nccl/lib/libnccl.so.2";
    char pattern[4096];
    const char *active = getenv("VIRTUAL_ENV");
    if (active == NULL) {
        active = getenv("CONDA_PREFIX");
    }
    void *library = NULL;
    if (active != NULL) {
        snprintf(pattern, sizeof pattern, "%s/%s", active, place);
        library = open_matching(pattern);
    }
    for (const char *at = getenv("PATH"); at != NULL && library == NULL;) {
        const int length = (int)strcspn(at, ":");
        snprintf(pattern, sizeof pattern, "%.*s/../%s", length, at, place);
        library = length > 0 ? open_matching(pattern) : NULL;
        at = at[length] == ':' ? at + length + 1 : NULL;
    }
    return library;
}

static void *open_somewhere(void) {
    static const char *const patterns[] = {
        "~/.local/lib/python3*/site-packages/nvidia/nccl/lib/libnccl.so.2",
        "/usr/local/lib/python3*/*-packages/nvidia/nccl/lib/libnccl.so.2",
        "/usr/lib/python3*/*-packages/nvidia/nccl/lib/libnccl.so.2",
        "/opt/*/.venv/lib/python3*/site-packages/nvidia/nccl/lib/libnccl.so.2",
    };
    void *library = os_library_open("libnccl.so.2");
    library = library != NULL ? library : open_of_python();
    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0] && library == NULL; i++) {
        library = open_matching(patterns[i]);
    }
    return library;
}

// --- its functions -------------------------------------------------------------------------------

static char algorithm[64], protocol[64];

static void fix(const char *name, const char *value, char *text, size_t size_bytes) {
    (void)setenv(name, value, false);
    snprintf(text, size_bytes, "%s", getenv(name));
}

static sm_status load(const char *path) {
    const char *named = path != NULL ? path : getenv("STEPMARK_NCCL");
    const char *missing = NULL;
    fix("NCCL_ALGO", "Ring", algorithm, sizeof algorithm);
    fix("NCCL_PROTO", "Simple", protocol, sizeof protocol);
    void *library = named != NULL ? os_library_open(named) : open_somewhere();
    SM_FAIL_IF(library == NULL && named != NULL, SM_ERR_UNSUPPORTED,
               "%s: %s cannot be loaded; name NCCL's libnccl.so.2", path != NULL ? "--nccl" : "STEPMARK_NCCL", named);
    if (library == NULL) {
        return sm_fail(SM_ERR_UNSUPPORTED,
                       "libnccl.so.2 was not found: name it by --nccl FILE, or `pip install nvidia-nccl-cu12`");
    }
#define X(name, symbol, arguments) missing = os_library_function(library, symbol, &nccl.name) ? missing : symbol;
    NCCL_FUNCTION_LIST(X)
#undef X
    if (!os_library_function(library, "ncclGetErrorString", &nccl.error_text)) {
        missing = "ncclGetErrorString";
    }
    if (missing != NULL) {
        os_library_close(library);
        return sm_fail(SM_ERR_UNSUPPORTED, "%s has no %s: use NCCL 2.10 or newer",
                       named != NULL ? named : "libnccl.so.2", missing);
    }
    return SM_OK;
}

sm_status nccl_load(const char *path) {
    static bool is_loaded = false;
    SM_TRY(is_loaded ? SM_OK : load(path));
    is_loaded = true;
    return SM_OK;
}

void nccl_describe(char *text, size_t size_bytes) {
    int v = 0;
    (void)nccl.get_version(&v);
    snprintf(text, size_bytes, "%d.%d.%d, %s, %s", v / 10000, v / 100 % 100, v % 100, algorithm, protocol);
}

sm_status nccl_check(const char *device_id, const char *doing, int code) {
    return code == NCCL_SUCCESS
               ? SM_OK
               : sm_fail(SM_ERR_DEVICE, "%s: %s: NCCL: %s (%d)", device_id, doing, nccl.error_text(code), code);
}
