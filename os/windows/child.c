// child.c: see os/child.h and os/os.h: processes. A child belongs to a job that ends with this process, and with it all
// that the child starts. Windows knows no fork: a function cannot run in a child.
#include <windows.h>

#include <process.h>
#include <psapi.h>
#include <shellapi.h>

#include "os/confinement.h"
#include "os/child.h"
#include "os/os.h"
#include "status.h"

#undef signal

enum { LINE_UNITS = 32768, LOOK_MS = 5, STATUS_OF_KILL = 0x4B49, N_PASSED = 4, MOST_EVENTS = 256 };

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
    size_t n_slashes = 0; // before this character; those before a quote are doubled
    for (const wchar_t *c = wide;; c++) {
        for (; (*c == L'"' || *c == L'\0') && n_slashes > 0; n_slashes--) {
            line[at++] = L'\\';
        }
        if (*c == L'\0') {
            break;
        }
        if (*c == L'"') {
            line[at++] = L'\\';
        }
        n_slashes = *c == L'\\' ? n_slashes + 1 : 0;
        line[at++] = *c;
    }
    line[at++] = L'"';
    line[at] = L'\0';
    return true;
}

// A copy that a child inherits; NULL: none.
static HANDLE to_inherit(HANDLE of) {
    HANDLE copy = NULL;
    return of != NULL && of != INVALID_HANDLE_VALUE &&
                   DuplicateHandle(GetCurrentProcess(), of, GetCurrentProcess(), &copy, 0, TRUE, DUPLICATE_SAME_ACCESS)
               ? copy
               : NULL;
}

static HANDLE stream_to_inherit(int file, DWORD standard) {
    SECURITY_ATTRIBUTES passed = {.nLength = sizeof passed, .bInheritHandle = TRUE};
    HANDLE copy = to_inherit(file == OS_CHILD_OURS ? GetStdHandle(standard)
                             : file >= 0           ? (HANDLE)_get_osfhandle(file)
                                                   : NULL);
    return copy != NULL ? copy
                        : CreateFileW(L"NUL", GENERIC_READ | GENERIC_WRITE, FILE_SHARE_READ | FILE_SHARE_WRITE, &passed,
                                      OPEN_EXISTING, 0, NULL);
}

// Limits of the job's windows would forbid a job within another, so there are none: a low integrity has them.
static HANDLE make_job(const os_limit *limits, int n_limits, bool is_alone) {
    HANDLE job = CreateJobObjectW(NULL, NULL);
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION info = {.BasicLimitInformation.ActiveProcessLimit = 1};
    info.BasicLimitInformation.LimitFlags =
        JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE | (is_alone ? JOB_OBJECT_LIMIT_ACTIVE_PROCESS : 0);
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

// --- a stranger's code -----------------------------------------------------------------------------

// This process's rights without privileges or an administrator's, at low integrity: files, processes and windows of the
// user cannot be changed. NULL: none.
static HANDLE make_token(void) {
    SID low = {SID_REVISION, 1, {SECURITY_MANDATORY_LABEL_AUTHORITY}, {SECURITY_MANDATORY_LOW_RID}};
    TOKEN_MANDATORY_LABEL label = {{&low, SE_GROUP_INTEGRITY}};
    HANDLE ours = NULL, less = NULL;
    (void)OpenProcessToken(GetCurrentProcess(), TOKEN_ALL_ACCESS, &ours);
    (void)CreateRestrictedToken(ours, DISABLE_MAX_PRIVILEGE | LUA_TOKEN, 0, NULL, 0, NULL, 0, NULL, &less);
    (void)SetTokenInformation(less, TokenIntegrityLevel, &label, sizeof label + GetLengthSid(&low));
    CloseHandle(ours);
    return less;
}

// Whether this process has them, and can start no other, by what the system says of it.
bool os_filter_to_compute(void) {
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION job = {0};
    struct {
        TOKEN_MANDATORY_LABEL label;
        char sid[SECURITY_MAX_SID_SIZE];
    } of = {0};
    HANDLE token = NULL;
    DWORD n;
    const bool is_low = OpenProcessToken(GetCurrentProcess(), TOKEN_QUERY, &token) &&
                        GetTokenInformation(token, TokenIntegrityLevel, &of, sizeof of, &n) &&
                        *GetSidSubAuthority(of.label.Label.Sid, 0) <= SECURITY_MANDATORY_LOW_RID;
    CloseHandle(token);
    return is_low && QueryInformationJobObject(NULL, JobObjectExtendedLimitInformation, &job, sizeof job, NULL) &&
           (job.BasicLimitInformation.LimitFlags & JOB_OBJECT_LIMIT_ACTIVE_PROCESS) != 0;
}

const char os_says_unconfined[] =
    "own code ran in a process apart, which this system did not confine: it has neither a low integrity nor a job of "
    "its own, so that it could write files and start processes, too";
const char os_says_unlimited[] = "own code ran in a job, at low integrity; it could read files and use the network and "
                                 "more threads, as Windows has no filter of system calls";

// --- its start -------------------------------------------------------------------------------------

// 0 or a reason. `line` is freed. `also`: further handles that it inherits, or NULL.
static int start(wchar_t *line, const os_child_plan *plan, const HANDLE also[N_PASSED], os_child *child) {
    int n_events;
    HANDLE *events = os_shared_events(plan->given, &n_events);
    HANDLE handles[3 + N_PASSED + MOST_EVENTS] = {
        plan->given != NULL ? to_inherit(os_shared_name(plan->given)) : stream_to_inherit(plan->in, STD_INPUT_HANDLE),
        stream_to_inherit(plan->out, STD_OUTPUT_HANDLE), stream_to_inherit(plan->err, STD_ERROR_HANDLE)};
    STARTUPINFOEXW how = {.StartupInfo = {.cb = sizeof how,
                                          .dwFlags = STARTF_USESTDHANDLES,
                                          .hStdInput = handles[0],
                                          .hStdOutput = handles[1],
                                          .hStdError = handles[2]}};
    PROCESS_INFORMATION made;
    SIZE_T n_bytes = 0;
    SIZE_T n = 3;
    for (int i = 0; i < N_PASSED; i++) {
        if (also[i] != NULL) {
            handles[n++] = also[i];
        }
    }
    for (int i = 0; i < n_events && i < MOST_EVENTS; i++) {
        handles[n++] = events[i];
    }
    // Only these are inherited.
    (void)InitializeProcThreadAttributeList(NULL, 1, 0, &n_bytes);
    how.lpAttributeList = malloc(n_bytes);
    const bool is_listed = how.lpAttributeList != NULL &&
                           InitializeProcThreadAttributeList(how.lpAttributeList, 1, 0, &n_bytes) &&
                           UpdateProcThreadAttribute(how.lpAttributeList, 0, PROC_THREAD_ATTRIBUTE_HANDLE_LIST, handles,
                                                     n * sizeof handles[0], NULL, NULL);
    const DWORD flags = CREATE_SUSPENDED | CREATE_NEW_PROCESS_GROUP | (is_listed ? EXTENDED_STARTUPINFO_PRESENT : 0);
    HANDLE token = plan->is_strange ? make_token() : NULL;
    bool is_made =
        line != NULL && token != NULL &&
        CreateProcessAsUserW(token, NULL, line, NULL, NULL, TRUE, flags, NULL, NULL, &how.StartupInfo, &made);
    is_made = is_made || (line != NULL && CreateProcessW(NULL, line, NULL, NULL, TRUE, flags, NULL, NULL,
                                                         &how.StartupInfo, &made)); // the row tells the difference
    const DWORD code = GetLastError();
    CloseHandle(token);
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
    child->job = make_job(plan->limits, plan->n_limits, plan->is_strange);
    (void)AssignProcessToJobObject(child->job, made.hProcess);
    ResumeThread(made.hThread);
    CloseHandle(made.hThread);
    return 0;
}

// A program's name is looked for in PATH alone: not in the current folder, where strangers' files may lie. NULL: it is
// not there, or they do not fit.
static wchar_t *line_of(char *const *argv) {
    wchar_t name[MAX_PATH], path[MAX_PATH + 1];
    wchar_t *line = calloc(LINE_UNITS, sizeof *line);
    const bool is_path = strpbrk(argv[0], "/\\") != NULL;
    const DWORD n = !is_path && MultiByteToWideChar(CP_UTF8, 0, argv[0], -1, name, MAX_PATH) > 0
                        ? SearchPathW(_wgetenv(L"PATH"), name, L".exe", MAX_PATH, path, NULL)
                        : 0;
    if (!is_path && (line == NULL || n == 0 || n >= MAX_PATH)) {
        free(line);
        return NULL;
    }
    if (!is_path) {
        (void)swprintf(line, LINE_UNITS, L"\"%ls\"", path);
    }
    for (int i = !is_path; line != NULL && argv[i] != NULL; i++) {
        if (!append_word(line, argv[i])) {
            free(line);
            return NULL;
        }
    }
    return line;
}

// --- this program, started again -------------------------------------------------------------------

// Handles in hexadecimal, then what it is told: of its pipe, its memory, and the event by which it is asked to end.
static const wchar_t child_variable[] = L"STEPMARK_CHILD";
enum { KEPT, SHARED, ASKED = N_PASSED - 1 };
static struct {
    char *text; // NULL: nothing
    unsigned long long handles[N_PASSED];
} told;

const bool os_child_forks = false;

const char *os_told(void) { return told.text; }

static int start_again(const os_child_plan *plan, os_child *child) {
    const wchar_t *words = GetCommandLineW();
    wchar_t *line = calloc(wcslen(words) + 1, sizeof *line);
    wchar_t *text = calloc(LINE_UNITS, sizeof *text);
    child->asked = CreateEventW(NULL, TRUE, FALSE, NULL);
    const HANDLE also[N_PASSED] = {
        [KEPT] = to_inherit(plan->kept_at != NULL ? (HANDLE)_get_osfhandle(plan->kept) : NULL),
        [SHARED] = to_inherit(plan->shared[0].at != NULL ? os_shared_name(*plan->shared[0].at) : NULL),
        [SHARED + 1] = to_inherit(plan->shared[1].at != NULL ? os_shared_name(*plan->shared[1].at) : NULL),
        [ASKED] = to_inherit(child->asked),
    };
    int reason = ENOMEM;
    if (line != NULL && text != NULL) {
        int n = 0;
        for (int i = 0; i < N_PASSED; i++) {
            n += swprintf(text + n, LINE_UNITS - (size_t)n, L"%llx ", (unsigned long long)(uintptr_t)also[i]);
        }
        if (MultiByteToWideChar(CP_UTF8, 0, plan->told, -1, text + n, LINE_UNITS - n - 1) > 0) {
            SetEnvironmentVariableW(child_variable, text);
            reason = start(wcscpy(line, words), plan, also, child);
            line = NULL;
            SetEnvironmentVariableW(child_variable, NULL);
        } else {
            reason = E2BIG;
        }
    }
    for (int i = 0; i < N_PASSED; i++) {
        CloseHandle(also[i]);
    }
    free(text);
    free(line);
    return reason;
}

static bool handle(int number);

static DWORD WINAPI await_question(SM_UNUSED void *unused) {
    if (WaitForSingleObject((HANDLE)(uintptr_t)told.handles[ASKED], INFINITE) != WAIT_OBJECT_0 || !handle(SIGTERM)) {
        TerminateProcess(GetCurrentProcess(), STATUS_OF_KILL);
    }
    return 0;
}

// Takes the words that this process was told, if it is such a child.
static void take_words(void) {
    wchar_t *text = calloc(LINE_UNITS, sizeof *text);
    const DWORD n = text != NULL ? GetEnvironmentVariableW(child_variable, text, LINE_UNITS) : 0;
    char *at = n > 0 ? malloc(3 * (size_t)n + 1) : NULL;
    if (at != NULL) {
        WideCharToMultiByte(CP_UTF8, 0, text, -1, at, 3 * (int)n + 1, NULL, NULL);
        for (int i = 0; i < N_PASSED; i++) {
            told.handles[i] = strtoull(at, &at, 16);
        }
        told.text = at + strspn(at, " ");
        SetEnvironmentVariableW(child_variable, NULL);
        CloseHandle(CreateThread(NULL, 0, await_question, NULL, 0, NULL));
    }
    free(text);
}

// In such a child: has come to the function.
static _Noreturn void become(const os_child_plan *plan) {
    if (plan->kept_at != NULL) {
        *plan->kept_at = _open_osfhandle((intptr_t)told.handles[KEPT], _O_BINARY | _O_NOINHERIT);
    }
    for (int i = 0; i < 2; i++) {
        HANDLE memory = (HANDLE)(uintptr_t)told.handles[SHARED + i];
        void *found = memory != NULL ? MapViewOfFile(memory, FILE_MAP_WRITE, 0, 0, plan->shared[i].size_bytes) : NULL;
        if (plan->shared[i].at != NULL && found != NULL) {
            *plan->shared[i].at = found;
        }
    }
    told.text = NULL;
    exit(plan->work(plan->ctx));
}

int os_child_start(const os_child_plan *plan, os_child *child) {
    *child = (os_child){.watched = -1};
    if (plan->argv == NULL && told.text != NULL) {
        become(plan);
    }
    fflush(NULL);
    return plan->argv != NULL   ? start(line_of(plan->argv), plan, (HANDLE[N_PASSED]){NULL}, child)
           : plan->told != NULL ? start_again(plan, child)
                                : ENOSYS;
}

void os_limit_this(SM_UNUSED const os_limit *limit) {}

int64_t os_n_killed_for_memory(void) { return -1; }

// --- its end ---------------------------------------------------------------------------------------

void os_child_ask(const os_child *child) {
    if (child->asked == NULL || !SetEvent(child->asked)) {
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

bool os_process_is_there(int number) {
    HANDLE process = OpenProcess(SYNCHRONIZE, FALSE, (DWORD)number);
    const bool is_there = process != NULL && WaitForSingleObject(process, 0) == WAIT_TIMEOUT;
    CloseHandle(process);
    return is_there;
}

int64_t os_child_busy_ns(const os_child *child) {
    FILETIME begin, end, kernel, user;
    return GetProcessTimes(child->handle, &begin, &end, &kernel, &user)
               ? (int64_t)(((uint64_t)(kernel.dwHighDateTime + user.dwHighDateTime) << 32) + kernel.dwLowDateTime +
                           user.dwLowDateTime) *
                     100
               : 0;
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
    CloseHandle(child->job);
    CloseHandle(child->asked);
    *child = (os_child){.number = child->number, .watched = -1};
    return 0;
}

// Pipes cannot be waited for: they are looked at.
bool os_await(const os_child *child, const int *files, bool *has_news, int n, int64_t most_ns,
              const volatile sig_atomic_t *counted, int n_seen) {
    const ULONGLONG end_ms = GetTickCount64() + (ULONGLONG)(most_ns / 1000000);
    for (;;) {
        bool is_there = child != NULL && os_child_has_ended(child);
        for (int i = 0; i < n; i++) {
            DWORD n_bytes = 0;
            has_news[i] =
                files[i] >= 0 && (PeekNamedPipe((HANDLE)_get_osfhandle(files[i]), NULL, 0, NULL, &n_bytes, NULL)
                                      ? n_bytes > 0
                                      : GetLastError() == ERROR_BROKEN_PIPE);
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

unsigned geteuid(void) { return 0; }

// --- signals ---------------------------------------------------------------------------------------

static void (*handlers[2])(int); // of SIGINT and SIGTERM

// In a thread of its own. False: there is no handler.
static bool handle(int number) {
    void (*handler)(int) = handlers[number == SIGTERM];
    if (handler != NULL && handler != SIG_DFL && handler != SIG_IGN) {
        handler(number);
    }
    return handler != NULL && handler != SIG_DFL;
}

// Ctrl-Break is another Ctrl-C. Windows ends the program soon after the window is closed.
static BOOL WINAPI on_event(DWORD event) {
    const bool is_key = event == CTRL_C_EVENT || event == CTRL_BREAK_EVENT;
    const bool is_handled = handle(is_key ? SIGINT : SIGTERM);
    if (is_handled && !is_key) {
        Sleep(INFINITE);
    }
    return is_handled;
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

int sigaction(int number, const struct sigaction *wanted, SM_UNUSED struct sigaction *before) {
    return os_signal(number, wanted->sa_handler);
}

int os_signals_held(SM_UNUSED const os_sigset *set, os_sigset *before) {
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
    take_words();
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

bool os_screen_size(int file, int *n_columns, int *n_lines) {
    CONSOLE_SCREEN_BUFFER_INFO info;
    const bool is_told = GetConsoleScreenBufferInfo((HANDLE)_get_osfhandle(file), &info);
    *n_columns = is_told ? info.srWindow.Right - info.srWindow.Left + 1 : 0;
    *n_lines = is_told ? info.srWindow.Bottom - info.srWindow.Top + 1 : 0;
    return is_told;
}
