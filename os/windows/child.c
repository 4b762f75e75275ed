// child.c: see os/child.h and os/os.h: processes. A child belongs to a job that ends with this process, and with it all
// that the child starts. Windows knows no fork: a function cannot run in a child.
#include <windows.h>

#include <process.h>
#include <psapi.h>
#include <shellapi.h>

#include "os/call_filter.h"
#include "os/child.h"
#include "os/file_access.h"
#include "os/os.h"

#undef signal

enum { LINE_UNITS = 32768, LOOK_MS = 5, STATUS_OF_KILL = 0x4B49, MOST_CHILDREN = 64 };

// --- starting a program ----------------------------------------------------------------------------

// Appends a word so that the program's C library finds it again.
static bool append_word(wchar_t *line, const char *word) {
    wchar_t wide[LINE_UNITS / 4];
    size_t at = wcslen(line);
    if (MultiByteToWideChar(CP_UTF8, 0, word, -1, wide, LINE_UNITS / 4) == 0 ||
        at + 2 * wcslen(wide) + 4 > LINE_UNITS) {
        return false;
    }
    if (at > 0) {
        line[at++] = L' ';
    }
    line[at++] = L'"';
    for (const wchar_t *c = wide; *c != L'\0'; c++) {
        size_t n_slashes = 0;
        while (c[n_slashes] == L'\\') {
            n_slashes++;
        }
        const bool is_doubled = c[n_slashes] == L'"' || c[n_slashes] == L'\0';
        for (size_t i = 0; i < (is_doubled ? 2 : 1) * n_slashes; i++) {
            line[at++] = L'\\';
        }
        c += n_slashes;
        if (*c == L'\0') {
            break;
        }
        if (*c == L'"') {
            line[at++] = L'\\';
        }
        line[at++] = *c;
    }
    line[at++] = L'"';
    line[at] = L'\0';
    return true;
}

// A handle that the child inherits: of a descriptor, of ours (-1) or of nothing (-2).
static HANDLE inherited(int file, DWORD standard, DWORD rights) {
    SECURITY_ATTRIBUTES passed = {.nLength = sizeof passed, .bInheritHandle = TRUE};
    HANDLE from = file == -1 ? GetStdHandle(standard) : file >= 0 ? (HANDLE)_get_osfhandle(file) : NULL;
    HANDLE copy = NULL;
    if (from == NULL || from == INVALID_HANDLE_VALUE ||
        !DuplicateHandle(GetCurrentProcess(), from, GetCurrentProcess(), &copy, 0, TRUE, DUPLICATE_SAME_ACCESS)) {
        copy = CreateFileW(L"NUL", rights, FILE_SHARE_READ | FILE_SHARE_WRITE, &passed, OPEN_EXISTING, 0, NULL);
    }
    return copy;
}

static HANDLE make_job(const os_limit *limits, int n_limits) {
    HANDLE job = CreateJobObjectW(NULL, NULL);
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION info = {0};
    info.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE;
    for (int i = 0; i < n_limits; i++) {
        if (limits[i].kind == OS_LIMIT_MEMORY || limits[i].kind == OS_LIMIT_ADDRESSES) {
            info.BasicLimitInformation.LimitFlags |= JOB_OBJECT_LIMIT_PROCESS_MEMORY;
            info.ProcessMemoryLimit = (SIZE_T)limits[i].most;
        } else if (limits[i].kind == OS_LIMIT_CPU_S) {
            info.BasicLimitInformation.LimitFlags |= JOB_OBJECT_LIMIT_PROCESS_TIME;
            info.BasicLimitInformation.PerProcessUserTimeLimit.QuadPart = (int64_t)(limits[i].most * 10000000);
        }
    }
    if (job != NULL) {
        (void)SetInformationJobObject(job, JobObjectExtendedLimitInformation, &info, sizeof info);
    }
    return job;
}

// 0 or a reason. `line` is freed. `also`: further handles that it inherits.
static int start(wchar_t *line, const int files[3], const HANDLE also[2], const os_limit *limits, int n_limits,
                 os_child *child) {
    static const DWORD standard[] = {STD_INPUT_HANDLE, STD_OUTPUT_HANDLE, STD_ERROR_HANDLE};
    HANDLE handles[5];
    STARTUPINFOEXW how = {.StartupInfo = {.cb = sizeof how, .dwFlags = STARTF_USESTDHANDLES}};
    PROCESS_INFORMATION made;
    SIZE_T n_bytes = 0;
    SIZE_T n = 3;
    *child = (os_child){.watched = -1};
    if (line == NULL) {
        return ENOMEM;
    }
    for (int i = 0; i < 3; i++) {
        handles[i] = inherited(files[i], standard[i], i == 0 ? GENERIC_READ : GENERIC_WRITE);
    }
    for (int i = 0; i < 2; i++) {
        if (also[i] != NULL) {
            handles[n++] = also[i];
        }
    }
    how.StartupInfo.hStdInput = handles[0];
    how.StartupInfo.hStdOutput = handles[1];
    how.StartupInfo.hStdError = handles[2];
    // Only these are inherited.
    (void)InitializeProcThreadAttributeList(NULL, 1, 0, &n_bytes);
    how.lpAttributeList = malloc(n_bytes);
    const bool is_listed = how.lpAttributeList != NULL &&
                           InitializeProcThreadAttributeList(how.lpAttributeList, 1, 0, &n_bytes) &&
                           UpdateProcThreadAttribute(how.lpAttributeList, 0, PROC_THREAD_ATTRIBUTE_HANDLE_LIST, handles,
                                                     n * sizeof handles[0], NULL, NULL);
    const DWORD flags = CREATE_SUSPENDED | CREATE_NEW_PROCESS_GROUP | (is_listed ? EXTENDED_STARTUPINFO_PRESENT : 0);
    const bool is_made = CreateProcessW(NULL, line, NULL, NULL, TRUE, flags, NULL, NULL, &how.StartupInfo, &made);
    const DWORD code = GetLastError();
    for (int i = 0; i < 3; i++) {
        CloseHandle(handles[i]);
    }
    if (is_listed) {
        DeleteProcThreadAttributeList(how.lpAttributeList);
    }
    free(how.lpAttributeList);
    free(line);
    if (!is_made) {
        return code == ERROR_NOT_ENOUGH_MEMORY ? ENOMEM : code == ERROR_ACCESS_DENIED ? EACCES : ENOENT;
    }
    child->handle = made.hProcess;
    child->number = (int)made.dwProcessId;
    child->job = make_job(limits, n_limits);
    if (child->job != NULL) {
        (void)AssignProcessToJobObject(child->job, made.hProcess);
    }
    ResumeThread(made.hThread);
    CloseHandle(made.hThread);
    return 0;
}

// NULL: they do not fit.
static wchar_t *line_of(char *const *argv) {
    wchar_t *line = calloc(LINE_UNITS, sizeof *line);
    for (int i = 0; line != NULL && argv[i] != NULL; i++) {
        if (!append_word(line, argv[i])) {
            free(line);
            return NULL;
        }
    }
    return line;
}

// --- this program, started again -------------------------------------------------------------------

static const wchar_t child_variable[] = L"STEPMARK_CHILD"; // the numbers of its pipe and of its memory

bool os_child_takes_functions(bool is_first) { return is_first; }

static HANDLE to_inherit(HANDLE of) {
    HANDLE copy = NULL;
    return of != NULL &&
                   DuplicateHandle(GetCurrentProcess(), of, GetCurrentProcess(), &copy, 0, TRUE, DUPLICATE_SAME_ACCESS)
               ? copy
               : NULL;
}

static wchar_t *copy_line(void) {
    const wchar_t *line = GetCommandLineW();
    wchar_t *copy = malloc((wcslen(line) + 1) * sizeof *copy);
    return copy != NULL ? wcscpy(copy, line) : NULL;
}

static int start_again(const os_child_plan *plan, const int files[3], os_child *child) {
    wchar_t numbers[64];
    const HANDLE also[2] = {
        to_inherit(plan->kept_at != NULL ? (HANDLE)_get_osfhandle(plan->kept) : NULL),
        to_inherit(plan->shared_at != NULL ? os_shared_name(*plan->shared_at) : NULL),
    };
    (void)swprintf(numbers, sizeof numbers / sizeof numbers[0], L"%llx %llx", (unsigned long long)(uintptr_t)also[0],
                   (unsigned long long)(uintptr_t)also[1]);
    SetEnvironmentVariableW(child_variable, numbers);
    const int reason = start(copy_line(), files, also, plan->limits, plan->n_limits, child);
    SetEnvironmentVariableW(child_variable, NULL);
    for (int i = 0; i < 2; i++) {
        if (also[i] != NULL) {
            CloseHandle(also[i]);
        }
    }
    return reason;
}

// In a child: has come to the function.
static void become(const os_child_plan *plan) {
    wchar_t numbers[64];
    unsigned long long kept = 0, memory = 0;
    const DWORD n = GetEnvironmentVariableW(child_variable, numbers, sizeof numbers / sizeof numbers[0]);
    if (n == 0 || swscanf(numbers, L"%llx %llx", &kept, &memory) != 2) {
        return;
    }
    SetEnvironmentVariableW(child_variable, NULL);
    if (plan->kept_at != NULL) {
        *plan->kept_at = _open_osfhandle((intptr_t)kept, _O_BINARY | _O_NOINHERIT);
    }
    if (plan->shared_at != NULL && memory != 0) {
        void *shared = MapViewOfFile((HANDLE)(uintptr_t)memory, FILE_MAP_WRITE, 0, 0, plan->shared_bytes);
        *plan->shared_at = shared != NULL ? shared : *plan->shared_at;
    }
    exit(plan->work(plan->ctx));
}

int os_child_start(const os_child_plan *plan, os_child *child) {
    const int files[] = {plan->has_no_input ? -2 : -1, plan->out, plan->err};
    *child = (os_child){.watched = -1};
    if (plan->argv == NULL && plan->is_first) {
        become(plan);
    }
    fflush(NULL);
    if (plan->argv == NULL) {
        return plan->is_first ? start_again(plan, files, child) : ENOSYS;
    }
    return start(line_of(plan->argv), files, (HANDLE[2]){NULL, NULL}, plan->limits, plan->n_limits, child);
}

void os_limit_this(const os_limit *limit) { (void)limit; }

int64_t os_n_killed_for_memory(void) { return -1; }

// --- its end ---------------------------------------------------------------------------------------

void os_child_ask(const os_child *child) {
    if (!GenerateConsoleCtrlEvent(CTRL_BREAK_EVENT, (DWORD)child->number)) {
        os_child_kill(child, true);
    }
}

void os_child_kill(const os_child *child, bool with_session) {
    if (with_session && child->job != NULL) {
        TerminateJobObject(child->job, STATUS_OF_KILL);
    }
    TerminateProcess(child->handle, STATUS_OF_KILL);
}

bool os_child_has_ended(const os_child *child) { return WaitForSingleObject(child->handle, 0) == WAIT_OBJECT_0; }

bool os_child_has_session(const os_child *child) {
    JOBOBJECT_BASIC_ACCOUNTING_INFORMATION info;
    return child->job != NULL &&
           QueryInformationJobObject(child->job, JobObjectBasicAccountingInformation, &info, sizeof info, NULL) &&
           info.ActiveProcesses > 0;
}

// The signal that another system would have ended it by; 0: it ended by itself.
static int signal_of(DWORD status) {
    switch (status) {
    case STATUS_OF_KILL: return SIGKILL;
    case EXCEPTION_ACCESS_VIOLATION:
    case EXCEPTION_STACK_OVERFLOW:
    case EXCEPTION_IN_PAGE_ERROR: return SIGSEGV;
    case EXCEPTION_ILLEGAL_INSTRUCTION:
    case EXCEPTION_PRIV_INSTRUCTION: return SIGILL;
    case EXCEPTION_INT_DIVIDE_BY_ZERO:
    case EXCEPTION_FLT_DIVIDE_BY_ZERO: return SIGFPE;
    case CONTROL_C_EXIT: return SIGINT;
    default: return status >= 0xC0000000U ? SIGABRT : 0;
    }
}

int os_child_take(os_child *child, bool at_once, os_child_end *end) {
    PROCESS_MEMORY_COUNTERS memory = {.cb = sizeof memory};
    DWORD status = STATUS_OF_KILL;
    const bool has_ended = WaitForSingleObject(child->handle, at_once ? 0 : INFINITE) == WAIT_OBJECT_0;
    if (has_ended && !GetExitCodeProcess(child->handle, &status)) {
        return ECHILD;
    }
    (void)GetProcessMemoryInfo(child->handle, &memory, sizeof memory);
    const int number = signal_of(status);
    *end = (os_child_end){.exit_code = number == 0 ? (int)status : -1,
                          .signal = number,
                          .peak_rss_bytes = (int64_t)memory.PeakWorkingSetSize};
    CloseHandle(child->handle);
    if (child->job != NULL) {
        CloseHandle(child->job);
    }
    child->handle = NULL;
    child->job = NULL;
    return 0;
}

// Pipes cannot be waited for: they are looked at.
bool os_await(const os_child *child, const int *files, bool *has_news, int n, int64_t most_ns,
              const volatile sig_atomic_t *counted, int n_seen) {
    const ULONGLONG end_ms = GetTickCount64() + (ULONGLONG)(most_ns / 1000000);
    memset(has_news, 0, (size_t)n * sizeof *has_news);
    for (;;) {
        bool is_there = child != NULL && os_child_has_ended(child);
        for (int i = 0; i < n; i++) {
            DWORD n_bytes = 0;
            has_news[i] =
                files[i] >= 0 &&
                (!PeekNamedPipe((HANDLE)_get_osfhandle(files[i]), NULL, 0, NULL, &n_bytes, NULL) || n_bytes > 0);
            is_there |= has_news[i];
        }
        if (is_there || (counted != NULL && *counted != n_seen)) {
            return true;
        }
        if (GetTickCount64() >= end_ms) {
            return false;
        }
        Sleep(LOOK_MS);
    }
}

// --- processes by POSIX's names --------------------------------------------------------------------

static os_child children[MOST_CHILDREN];

static os_child *find_child(pid_t number) {
    for (int i = 0; i < MOST_CHILDREN; i++) {
        if (children[i].number == (int)number) {
            return &children[i];
        }
    }
    errno = ECHILD;
    return NULL;
}

int posix_spawn_file_actions_init(posix_spawn_file_actions_t *actions) {
    *actions = (posix_spawn_file_actions_t){{-1, -1, -1}};
    return 0;
}

int posix_spawn_file_actions_adddup2(posix_spawn_file_actions_t *actions, int from, int to) {
    actions->from[to] = from;
    return 0;
}

int posix_spawn_file_actions_addopen(posix_spawn_file_actions_t *actions, int to, const char *path, int flags,
                                     int mode) {
    (void)path; // /dev/null
    (void)flags;
    (void)mode;
    actions->from[to] = -2;
    return 0;
}

int posix_spawn(pid_t *number, const char *path, const posix_spawn_file_actions_t *actions, const void *attributes,
                char *const argv[], char **environment) {
    os_child *child = find_child(0);
    (void)path;
    (void)attributes;
    (void)environment;
    const int reason =
        child == NULL ? EAGAIN : start(line_of(argv), actions->from, (HANDLE[2]){NULL, NULL}, NULL, 0, child);
    *number = reason == 0 ? child->number : -1;
    return reason;
}

pid_t waitpid(pid_t number, int *state, int flags) {
    os_child *child = number > 0 ? find_child(number) : NULL;
    os_child_end end;
    if (child == NULL) {
        return -1;
    }
    if ((flags & WNOHANG) != 0 && !os_child_has_ended(child)) {
        return 0;
    }
    if (os_child_take(child, false, &end) != 0) {
        return -1;
    }
    child->number = 0;
    *state = end.signal != 0 ? 0x10000 | end.signal : end.exit_code & 0xffff;
    return number;
}

int waitid(int kind, id_t number, siginfo_t *info, int flags) {
    const os_child *child = find_child(number);
    DWORD status = 0;
    (void)kind;
    (void)flags;
    *info = (siginfo_t){0};
    if (child == NULL) {
        return -1;
    }
    if (os_child_has_ended(child) && GetExitCodeProcess(child->handle, &status)) {
        const int by = signal_of(status);
        *info =
            (siginfo_t){.si_pid = number, .si_code = by == 0 ? CLD_EXITED : 2, .si_status = by != 0 ? by : (int)status};
    }
    return 0;
}

int kill(pid_t number, int with) {
    if (number == getpid()) {
        raise(with == SIGKILL ? SIGTERM : with);
        return 0;
    }
    HANDLE process = OpenProcess(with == 0 ? PROCESS_QUERY_LIMITED_INFORMATION | SYNCHRONIZE : PROCESS_TERMINATE, FALSE,
                                 (DWORD)number);
    if (process == NULL) {
        errno = ESRCH;
        return -1;
    }
    const bool is_done =
        with == 0 ? WaitForSingleObject(process, 0) == WAIT_TIMEOUT : TerminateProcess(process, STATUS_OF_KILL);
    CloseHandle(process);
    errno = is_done ? errno : ESRCH;
    return is_done ? 0 : -1;
}

int clock_getcpuclockid(pid_t process, clockid_t *clock) {
    (void)process;
    (void)clock;
    return ENOSYS;
}

int poll(struct pollfd *files, unsigned long n, int timeout_ms) {
    int ready = 0;
    for (ULONGLONG end_ms = GetTickCount64() + (ULONGLONG)timeout_ms;; Sleep(LOOK_MS)) {
        for (unsigned long i = 0; i < n; i++) {
            DWORD n_bytes = 0;
            HANDLE handle = (HANDLE)_get_osfhandle(files[i].fd);
            const bool is_open = PeekNamedPipe(handle, NULL, 0, NULL, &n_bytes, NULL);
            files[i].revents = (short)((is_open && n_bytes > 0 ? POLLIN : 0) |
                                       (!is_open && GetLastError() == ERROR_BROKEN_PIPE ? POLLHUP : 0));
            files[i].revents &= (short)(files[i].events | POLLHUP);
            ready += files[i].revents != 0;
        }
        if (ready > 0 || GetTickCount64() >= end_ms) {
            return ready;
        }
    }
}

unsigned geteuid(void) { return 0; }

// --- signals ---------------------------------------------------------------------------------------

static void (*handlers[2])(int); // of SIGINT and SIGTERM

// In a thread of its own. Windows ends the program soon after the window is closed.
static BOOL WINAPI on_event(DWORD event) {
    const int number = event == CTRL_C_EVENT ? SIGINT : SIGTERM;
    void (*handler)(int) = handlers[number == SIGTERM];
    if (handler == NULL || handler == SIG_DFL) {
        return FALSE;
    }
    if (handler != SIG_IGN) {
        handler(number);
    }
    if (event != CTRL_C_EVENT && event != CTRL_BREAK_EVENT) {
        Sleep(INFINITE);
    }
    return TRUE;
}

int os_signal(int number, void (*handler)(int)) {
    if (number == SIGINT || number == SIGTERM) {
        handlers[number == SIGTERM] = handler;
        return SetConsoleCtrlHandler(on_event, TRUE) ? 0 : -1;
    }
    if (number == SIGSEGV || number == SIGABRT || number == SIGFPE || number == SIGILL) {
        (void)signal(number, handler);
    }
    return 0;
}

int sigaction(int number, const struct sigaction *wanted, struct sigaction *before) {
    (void)before;
    return os_signal(number, wanted->sa_handler);
}

int os_signals_held(const os_sigset *set, os_sigset *before) {
    (void)set;
    if (before != NULL) {
        *before = 0;
    }
    return 0;
}

// --- this program ----------------------------------------------------------------------------------

static char program[4 * MAX_PATH];

__attribute__((constructor)) static void prepare(void) {
    wchar_t wide[MAX_PATH];
    os_stdout = __acrt_iob_func(1);
    _fmode = _O_BINARY;
    for (int i = 0; i < 3; i++) {
        (void)_setmode(i, _O_BINARY);
    }
    setvbuf(__acrt_iob_func(2), NULL, _IONBF, 0);
    (void)SetConsoleOutputCP(CP_UTF8);
    SetErrorMode(SEM_FAILCRITICALERRORS | SEM_NOGPFAULTERRORBOX); // no windows that wait for somebody
    DWORD mode;
    HANDLE out = GetStdHandle(STD_OUTPUT_HANDLE);
    if (GetConsoleMode(out, &mode)) {
        (void)SetConsoleMode(out, mode | ENABLE_VIRTUAL_TERMINAL_PROCESSING);
    }
    const DWORD n = GetModuleFileNameW(NULL, wide, MAX_PATH);
    if (n > 0 && n < MAX_PATH) {
        WideCharToMultiByte(CP_UTF8, 0, wide, -1, program, sizeof program, NULL, NULL);
    }
}

// The C library of Windows gives words in the user's code page.
void os_begin(char ***argv) {
    int n = 0;
    wchar_t **wide = CommandLineToArgvW(GetCommandLineW(), &n);
    char **made = wide != NULL ? calloc((size_t)n + 1, sizeof *made) : NULL;
    for (int i = 0; made != NULL && i < n; i++) {
        const int n_bytes = WideCharToMultiByte(CP_UTF8, 0, wide[i], -1, NULL, 0, NULL, NULL);
        made[i] = malloc((size_t)n_bytes);
        WideCharToMultiByte(CP_UTF8, 0, wide[i], -1, made[i], n_bytes, NULL, NULL);
    }
    *argv = made != NULL ? made : *argv;
    LocalFree(wide);
}

const char *os_program(void) { return program; }

int os_watch(pid_t child) {
    (void)child;
    return -1;
}

void os_end_with_parent(void) {} // a job does

void os_die_first(void) {}

void os_leave_no_core(void) {}

void os_close_from(int first) { (void)first; }

void os_exit_now(int code) { TerminateProcess(GetCurrentProcess(), (UINT)code); }

bool os_draw(void *bytes, size_t n_bytes) {
    for (size_t i = 0; i < n_bytes; i++) {
        unsigned drawn;
        if (rand_s(&drawn) != 0) {
            return false;
        }
        ((unsigned char *)bytes)[i] = (unsigned char)drawn;
    }
    return true;
}

int ioctl(int file, int request, struct winsize *size) {
    CONSOLE_SCREEN_BUFFER_INFO info;
    (void)request;
    if (!GetConsoleScreenBufferInfo((HANDLE)_get_osfhandle(file), &info)) {
        errno = ENOTTY;
        return -1;
    }
    size->ws_col = (unsigned short)(info.srWindow.Right - info.srWindow.Left + 1);
    size->ws_row = (unsigned short)(info.srWindow.Bottom - info.srWindow.Top + 1);
    return 0;
}
