// memory.c: see os/windows/posix.h and os/os.h: memory, threads, the machine.
#include <windows.h>

#include <malloc.h>
#include <psapi.h>

#include "os/library.h"
#include "os/memory.h"
#include "os/threads.h"
#include "status.h"

#undef malloc
#undef calloc
#undef realloc
#undef free

// --- one heap --------------------------------------------------------------------------------------

enum { USUAL_ALIGNMENT = 16 };

void *os_malloc(size_t n_bytes) { return os_aligned_alloc(USUAL_ALIGNMENT, n_bytes); }

void *os_aligned_alloc(size_t alignment, size_t n_bytes) {
    void *memory = _aligned_malloc(n_bytes > 0 ? n_bytes : 1, alignment);
    errno = memory == NULL ? ENOMEM : errno;
    return memory;
}

void *os_calloc(size_t n, size_t n_bytes) {
    if (n_bytes > 0 && n > SIZE_MAX / n_bytes) {
        errno = ENOMEM;
        return NULL;
    }
    void *memory = os_malloc(n * n_bytes);
    return memory != NULL ? memset(memory, 0, n * n_bytes) : NULL;
}

void *os_realloc(void *memory, size_t n_bytes) {
    return memory == NULL ? os_malloc(n_bytes) : _aligned_realloc(memory, n_bytes > 0 ? n_bytes : 1, USUAL_ALIGNMENT);
}

void os_free(void *memory) { _aligned_free(memory); }

char *os_strdup(const char *text) { return os_strndup(text, strlen(text)); }

char *os_strndup(const char *text, size_t most_bytes) {
    const size_t n = strnlen(text, most_bytes);
    char *copy = os_malloc(n + 1);
    if (copy != NULL) {
        memcpy(copy, text, n);
        copy[n] = '\0';
    }
    return copy;
}

int os_vasprintf(char **text, const char *format, va_list arguments) {
    va_list again;
    va_copy(again, arguments);
    const int n = vsnprintf(NULL, 0, format, again);
    va_end(again);
    *text = n >= 0 ? os_malloc((size_t)n + 1) : NULL;
    return *text != NULL ? vsnprintf(*text, (size_t)n + 1, format, arguments) : -1;
}

// --- mappings --------------------------------------------------------------------------------------

size_t os_page_bytes(void) {
    SYSTEM_INFO info;
    GetSystemInfo(&info);
    return info.dwPageSize;
}

// Words of memory that another program was given are awaited by events, which it inherits: by their distance from its
// beginning, and their names lie in the last page.
enum { MOST_SHARED = 64, N_EVENTS = 256, WORD_BYTES = 128, NAMES_BYTES = 4096 };
typedef struct {
    char *memory;
    size_t size_bytes;
    HANDLE whole;   // kept open, for children
    HANDLE *events; // NULL: none
} shared_memory;
static shared_memory shared[MOST_SHARED]; // of os_map_shared, os_map_given and os_map_input

// Maps an aligned part of the place where a larger one was.
void *os_map(size_t size_bytes, size_t alignment) {
    enum { TRIES = 16 };
    void *memory = alignment == 0 ? VirtualAlloc(NULL, size_bytes, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE) : NULL;
    for (int i = 0; i < TRIES && alignment > 0 && memory == NULL && size_bytes <= SIZE_MAX - alignment; i++) {
        char *larger = VirtualAlloc(NULL, size_bytes + alignment, MEM_RESERVE, PAGE_NOACCESS);
        if (larger == NULL) {
            return NULL;
        }
        VirtualFree(larger, 0, MEM_RELEASE);
        char *aligned = larger + (alignment - (uintptr_t)larger % alignment) % alignment;
        memory = VirtualAlloc(aligned, size_bytes, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
    }
    return memory;
}

// *whole: what it is a view of; NULL after a failure.
static void *map_whole(HANDLE file, size_t size_bytes, HANDLE *whole) {
    *whole =
        CreateFileMappingW(file, NULL, PAGE_READWRITE, (DWORD)((uint64_t)size_bytes >> 32), (DWORD)size_bytes, NULL);
    return *whole != NULL ? MapViewOfFile(*whole, FILE_MAP_WRITE, 0, 0, size_bytes) : NULL;
}

void *os_map_shared(size_t size_bytes) {
    HANDLE whole;
    void *memory = map_whole(INVALID_HANDLE_VALUE, size_bytes, &whole);
    for (int i = 0; i < MOST_SHARED && memory != NULL; i++) {
        if (shared[i].memory == NULL) {
            shared[i] = (shared_memory){memory, size_bytes, whole, NULL};
            return memory;
        }
    }
    UnmapViewOfFile(memory);
    CloseHandle(whole);
    return NULL;
}

// Its index, by an address in it; -1: none.
static int find_shared(const void *address) {
    for (int i = 0; i < MOST_SHARED; i++) {
        const char *memory = shared[i].memory;
        if (memory != NULL && (const char *)address >= memory &&
            (const char *)address < memory + shared[i].size_bytes) {
            return i;
        }
    }
    return -1;
}

void *os_shared_name(const void *memory) {
    const int i = find_shared(memory);
    return i >= 0 ? shared[i].whole : NULL;
}

void **os_shared_events(const void *memory, int *n) {
    const int i = find_shared(memory);
    *n = i >= 0 && shared[i].events != NULL ? N_EVENTS : 0;
    return i >= 0 ? shared[i].events : NULL;
}

static HANDLE event_of(const void *word) {
    const int i = find_shared(word);
    return i >= 0 && shared[i].events != NULL
               ? shared[i].events[(size_t)((const char *)word - shared[i].memory) / WORD_BYTES % N_EVENTS]
               : NULL;
}

void *os_map_file(int file, size_t size_bytes) {
    HANDLE whole;
    void *memory = map_whole((HANDLE)_get_osfhandle(file), size_bytes, &whole);
    CloseHandle(whole);
    return memory;
}

// Windows counts it as used at once, so that at most half of what is free may be asked for.
void *os_map_given(size_t size_bytes, int *file) {
    SECURITY_ATTRIBUTES passed = {.nLength = sizeof passed, .bInheritHandle = TRUE};
    uint64_t total_bytes, available_bytes;
    os_memory("", &total_bytes, &available_bytes);
    *file = -1;
    char *memory = size_bytes <= available_bytes / 2 ? os_map_shared(size_bytes + NAMES_BYTES) : NULL;
    HANDLE *events = memory != NULL ? os_calloc(N_EVENTS, sizeof *events) : NULL;
    for (int i = 0; events != NULL && i < N_EVENTS; i++) {
        events[i] = CreateEventW(&passed, FALSE, FALSE, NULL);
    }
    if (events != NULL) {
        shared[find_shared(memory)].events = events;
        memcpy(memory + size_bytes, events, N_EVENTS * sizeof *events);
    }
    return memory;
}

void *os_map_input(size_t *size_bytes) {
    static HANDLE events[N_EVENTS];
    MEMORY_BASIC_INFORMATION info = {0};
    char *memory = MapViewOfFile(GetStdHandle(STD_INPUT_HANDLE), FILE_MAP_WRITE, 0, 0, 0);
    (void)VirtualQuery(memory, &info, sizeof info);
    if (memory == NULL || info.RegionSize <= NAMES_BYTES) {
        return NULL;
    }
    *size_bytes = info.RegionSize - NAMES_BYTES;
    memcpy(events, memory + *size_bytes, sizeof events);
    shared[0] = (shared_memory){memory, *size_bytes, NULL, events};
    return memory;
}

void os_unmap(void *memory, SM_UNUSED size_t size_bytes) {
    const int of = find_shared(memory);
    if (of >= 0) {
        CloseHandle(shared[of].whole);
        for (int i = 0; shared[of].events != NULL && i < N_EVENTS; i++) {
            CloseHandle(shared[of].events[i]);
        }
        os_free(shared[of].events);
        shared[of].memory = NULL;
    }
    if (memory != NULL && !UnmapViewOfFile(memory)) {
        VirtualFree(memory, 0, MEM_RELEASE);
    }
}

bool os_protect(void *memory, size_t size_bytes, os_page_right right) {
    static const DWORD rights[] = {
        [OS_MAY_NOTHING] = PAGE_NOACCESS, [OS_MAY_ONLY_READ] = PAGE_READONLY, [OS_MAY_CHANGE] = PAGE_READWRITE};
    DWORD before;
    return VirtualProtect(memory, size_bytes, rights[right], &before);
}

// --- processors and memory -------------------------------------------------------------------------

bool os_processors_allowed(os_processors *allowed) {
    memset(allowed, 0, sizeof *allowed);
    DWORD_PTR ours = 0, all = 0;
    // A process of several groups of 64 is told of none.
    if (!GetProcessAffinityMask(GetCurrentProcess(), &ours, &all) || ours == 0) {
        return false;
    }
    allowed->bits[0] = ours;
    return true;
}

int os_n_processors(void) {
    os_processors allowed;
    const int n = (int)GetActiveProcessorCount(ALL_PROCESSOR_GROUPS);
    const bool is_one_group = GetActiveProcessorGroupCount() <= 1;
    return is_one_group && os_processors_allowed(&allowed) ? __builtin_popcountll(allowed.bits[0]) : n > 0 ? n : 1;
}

const bool os_threads_inherit_places = false;

void os_memory(SM_UNUSED const char *root, uint64_t *total_bytes, uint64_t *available_bytes) {
    MEMORYSTATUSEX status = {.dwLength = sizeof status};
    const bool is_told = GlobalMemoryStatusEx(&status);
    *total_bytes = is_told ? status.ullTotalPhys : 0;
    *available_bytes = is_told ? status.ullAvailPhys : 0;
}

// Other words that processes share are looked at: WaitOnAddress knows this process alone.
bool os_sleep_while(_Atomic uint32_t *word, uint32_t value, const struct timespec *most, bool is_shared) {
    const int64_t most_ms = most != NULL ? (int64_t)most->tv_sec * 1000 + (most->tv_nsec + 999999) / 1000000 : INFINITE;
    HANDLE event = is_shared ? event_of(word) : NULL;
    if (!is_shared) {
        const DWORD ms = most_ms < INFINITE ? (DWORD)most_ms : INFINITE;
        return WaitOnAddress((volatile void *)word, &value, sizeof value, ms) || GetLastError() != ERROR_TIMEOUT;
    }
    return event != NULL ? WaitForSingleObject(event, most_ms < 1000 ? (DWORD)most_ms : 1000) == WAIT_OBJECT_0
                         : os_look_while(word, value, most);
}

void os_wake(_Atomic uint32_t *word, bool is_shared) {
    HANDLE event = is_shared ? event_of(word) : NULL;
    if (!is_shared) {
        WakeByAddressAll((void *)word);
    } else if (event != NULL) {
        SetEvent(event);
    }
}

bool os_may_use_tiles(void) {
    uint32_t low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low >> 17 & 3) == 3; // the states of tiles and of their configuration
}

// --- the machine -----------------------------------------------------------------------------------

// The facts that Linux gives of the processor, by the registry.
FILE *os_open_facts(const char *root, const char *path) {
    char name[256] = "";
    DWORD n = sizeof name;
    const int file = root[0] == '\0' && strcmp(path, "/proc/cpuinfo") == 0 &&
                             RegGetValueA(HKEY_LOCAL_MACHINE, "HARDWARE\\DESCRIPTION\\System\\CentralProcessor\\0",
                                          "ProcessorNameString", RRF_RT_REG_SZ, NULL, name, &n) == ERROR_SUCCESS
                         ? os_open_nameless()
                         : -1;
    FILE *facts = file >= 0 ? fdopen(file, "w+b") : NULL;
    if (root[0] != '\0') {
        char whole[4 * MAX_PATH];
        return (size_t)snprintf(whole, sizeof whole, "%s%s", root, path) < sizeof whole ? fopen(whole, "r") : NULL;
    }
    if (facts != NULL) {
        fprintf(facts, "model name\t: %s\n", name);
        rewind(facts);
    }
    errno = ENOENT; // others are unknown here
    return facts;
}

long sysconf(int name) { return name == _SC_CLK_TCK ? 100 : (long)GetActiveProcessorCount(ALL_PROCESSOR_GROUPS); }

int os_gethostname(char *name, size_t n_bytes) {
    DWORD n = (DWORD)n_bytes;
    return GetComputerNameExA(ComputerNameDnsHostname, name, &n) ? 0 : -1;
}

int getloadavg(SM_UNUSED double *loads, SM_UNUSED int n) { return -1; }

int uname(struct utsname *names) {
    OSVERSIONINFOW version = {.dwOSVersionInfoSize = sizeof version};
    GetVersionExW(&version);
    *names = (struct utsname){.sysname = "Windows", .machine = "x86_64"};
    snprintf(names->release, sizeof names->release, "%lu.%lu.%lu", version.dwMajorVersion, version.dwMinorVersion,
             version.dwBuildNumber);
    return 0;
}

int getrusage(int whose, struct rusage *usage) {
    PROCESS_MEMORY_COUNTERS memory = {.cb = sizeof memory};
    FILETIME begin, end, kernel, user;
    *usage = (struct rusage){0};
    if (whose == RUSAGE_THREAD || !GetProcessMemoryInfo(GetCurrentProcess(), &memory, sizeof memory) ||
        !GetProcessTimes(GetCurrentProcess(), &begin, &end, &kernel, &user)) {
        return -1;
    }
    const uint64_t user_us = ((uint64_t)user.dwHighDateTime << 32 | user.dwLowDateTime) / 10;
    const uint64_t kernel_us = ((uint64_t)kernel.dwHighDateTime << 32 | kernel.dwLowDateTime) / 10;
    usage->ru_maxrss = (long)(memory.PeakWorkingSetSize / 1024);
    usage->ru_utime = (struct timeval){(long)(user_us / 1000000), (long)(user_us % 1000000)};
    usage->ru_stime = (struct timeval){(long)(kernel_us / 1000000), (long)(kernel_us % 1000000)};
    return 0;
}

// --- libraries -------------------------------------------------------------------------------------

// libNAME.so.1 is libNAME.dll or NAME.dll here: next to the program, Windows' own, or in PATH; not in the current
// folder, where strangers' files may lie.
void *os_library_open(const char *name) {
    wchar_t wide[2][MAX_PATH];
    char plain[MAX_PATH];
    const char *end = strstr(name, ".so");
    const bool is_named = strncmp(name, "lib", 3) == 0 && end != NULL;
    snprintf(plain, sizeof plain, "%.*s%s", is_named ? (int)(end - name) : MAX_PATH, name, is_named ? ".dll" : "");
    for (char *at = plain; *at != '\0'; at++) {
        *at = *at == '/' ? '\\' : *at;
    }
    if (strcmp(plain, "libcuda.dll") == 0) {
        strcpy(plain, "libnvcuda.dll");
    }
    SetDllDirectoryW(L"");
    for (int i = 0; i < (is_named ? 2 : 1); i++) {
        void *library = MultiByteToWideChar(CP_UTF8, 0, plain + (i == 1 ? 3 : 0), -1, wide[i], MAX_PATH) > 0
                            ? (void *)LoadLibraryW(wide[i])
                            : NULL;
        if (library != NULL) {
            return library;
        }
    }
    return NULL;
}

void *os_library_find(void *library, const char *name) { return (void *)(uintptr_t)GetProcAddress(library, name); }

void os_library_close(void *library) { FreeLibrary(library); }

const char *os_library_error(void) {
    static _Thread_local char text[64];
    snprintf(text, sizeof text, "Windows' error %lu", GetLastError());
    return text;
}

const char *const os_compilers[] = {"gcc", "clang", "x86_64-w64-mingw32-gcc", NULL};
const char os_library_end[] = ".dll";
const bool os_removes_loaded = false, os_lends_functions = false;

// gcc keeps the stack of 64-bit Windows aligned to 16 bytes alone, so moves of longer vectors may not assume more.
const char *os_library_flag(const char *compiler) {
    return strstr(compiler, "clang") != NULL ? "-shared" : "-Wa,-muse-unaligned-vector-move";
}

const char os_no_openblas[] = "libopenblas.dll is neither next to the program nor in PATH";
const char os_no_opencl[] = "no OpenCL loader (OpenCL.dll); install the driver of a graphics card";
