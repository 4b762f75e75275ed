// files.c: see os/windows/posix.h and os/os.h: files, folders, locks. Files are opened so that others may rename and
// remove them meanwhile, as everywhere else.
#include <windows.h>

#include <winioctl.h>

#include "os/files.h"
#include "os/os.h"
#include "status.h"

#undef open
#undef fopen
#undef close
#undef mkdir
#undef rename
#undef write

enum { PATH_UNITS = 4096 };

// --- names and errors ------------------------------------------------------------------------------

static int fail(DWORD code) {
    static const struct {
        DWORD code;
        int reason;
    } reasons[] = {
        {ERROR_FILE_NOT_FOUND, ENOENT},      {ERROR_PATH_NOT_FOUND, ENOENT},
        {ERROR_INVALID_NAME, ENOENT},        {ERROR_BAD_NETPATH, ENOENT},
        {ERROR_ACCESS_DENIED, EACCES},       {ERROR_SHARING_VIOLATION, EACCES},
        {ERROR_LOCK_VIOLATION, EWOULDBLOCK}, {ERROR_FILE_EXISTS, EEXIST},
        {ERROR_ALREADY_EXISTS, EEXIST},      {ERROR_DIR_NOT_EMPTY, ENOTEMPTY},
        {ERROR_DISK_FULL, ENOSPC},           {ERROR_HANDLE_DISK_FULL, ENOSPC},
        {ERROR_NOT_ENOUGH_MEMORY, ENOMEM},   {ERROR_OUTOFMEMORY, ENOMEM},
        {ERROR_INVALID_HANDLE, EBADF},       {ERROR_DIRECTORY, ENOTDIR},
        {ERROR_BROKEN_PIPE, EPIPE},          {ERROR_NO_DATA, EPIPE},
        {ERROR_NOT_SAME_DEVICE, EXDEV},      {ERROR_FILENAME_EXCED_RANGE, ENAMETOOLONG},
    };
    errno = EIO;
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++) {
        if (reasons[i].code == code) {
            errno = reasons[i].reason;
        }
    }
    return -1;
}

static int fail_last(void) { return fail(GetLastError()); }

static int refuse(int reason) {
    errno = reason;
    return -1;
}

static bool is_folder_by(DWORD attributes) {
    return attributes != INVALID_FILE_ATTRIBUTES && (attributes & FILE_ATTRIBUTE_DIRECTORY) != 0;
}

// A path for Windows' calls: UTF-16, and with its prefix for long ones where it is long. False with errno.
static bool widen(const char *path, wchar_t wide[PATH_UNITS]) {
    path = strcmp(path, "/dev/null") == 0 ? "NUL" : path;
    if (path[0] == '\0' || MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, wide, PATH_UNITS) == 0) {
        errno = strlen(path) >= PATH_UNITS ? ENAMETOOLONG : ENOENT;
        return false;
    }
    for (wchar_t *at = wide; *at != L'\0'; at++) {
        *at = *at == L'/' ? L'\\' : *at;
    }
    wchar_t whole[PATH_UNITS];
    const DWORD n = GetFullPathNameW(wide, PATH_UNITS - 4, whole, NULL);
    if (n >= MAX_PATH - 12 && n < PATH_UNITS - 4 && wcsncmp(whole, L"\\\\", 2) != 0) {
        wcscpy(wide, L"\\\\?\\");
        wcscat(wide, whole);
    }
    return true;
}

static void narrow(const wchar_t *wide, char *path, int n_bytes) {
    if (WideCharToMultiByte(CP_UTF8, 0, wide, -1, path, n_bytes, NULL, NULL) == 0) {
        path[0] = '\0';
    }
    for (; *path != '\0'; path++) {
        *path = *path == '\\' ? '/' : *path;
    }
}

// A virus scanner may hold a file for a moment.
enum { HELD_TRIES = 40, HELD_MS = 50 };

static bool is_held(int try) {
    const DWORD code = GetLastError();
    if ((code != ERROR_SHARING_VIOLATION && code != ERROR_ACCESS_DENIED && code != ERROR_LOCK_VIOLATION) ||
        try == HELD_TRIES) {
        SetLastError(code);
        return false;
    }
    Sleep(HELD_MS);
    return true;
}

// --- opening ---------------------------------------------------------------------------------------

int os_open(const char *path, int flags, ...) {
    wchar_t wide[PATH_UNITS];
    const int way = flags & (O_RDONLY | O_WRONLY | O_RDWR);
    const DWORD rights = (way != O_WRONLY ? GENERIC_READ : 0) |
                         (way == O_RDONLY           ? 0
                          : (flags & O_APPEND) != 0 ? FILE_APPEND_DATA | FILE_READ_ATTRIBUTES | SYNCHRONIZE
                                                    : GENERIC_WRITE | DELETE);
    const DWORD how = (flags & O_CREAT) == 0   ? ((flags & O_TRUNC) != 0 ? TRUNCATE_EXISTING : OPEN_EXISTING)
                      : (flags & O_EXCL) != 0  ? CREATE_NEW
                      : (flags & O_TRUNC) != 0 ? CREATE_ALWAYS
                                               : OPEN_ALWAYS;
    if (!widen(path, wide)) {
        return -1;
    }
    const DWORD attributes = GetFileAttributesW(wide);
    const bool is_folder = is_folder_by(attributes);
    if (is_folder != ((flags & O_DIRECTORY) != 0) && attributes != INVALID_FILE_ATTRIBUTES &&
        (!is_folder || way != O_RDONLY)) {
        return refuse(is_folder ? EISDIR : ENOTDIR);
    }
    // The rights to cut a file that is appended to, and to give a folder back.
    const DWORD more = (flags & O_APPEND) != 0 && way != O_RDONLY ? FILE_WRITE_DATA : 0;
    const DWORD shared = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;
    HANDLE handle = INVALID_HANDLE_VALUE;
    for (int try = 0; handle == INVALID_HANDLE_VALUE && (try == 0 || is_held(try)); try++) {
        handle = CreateFileW(wide, rights | more, shared, NULL, how,
                             is_folder ? FILE_FLAG_BACKUP_SEMANTICS : FILE_ATTRIBUTE_NORMAL, NULL);
        if (handle == INVALID_HANDLE_VALUE && GetLastError() != ERROR_SHARING_VIOLATION) {
            break;
        }
    }
    if (handle == INVALID_HANDLE_VALUE && (rights & DELETE) != 0) { // pipes and devices have no such right
        handle = CreateFileW(wide, rights & ~(DWORD)DELETE, shared, NULL, how, FILE_ATTRIBUTE_NORMAL, NULL);
    }
    if (handle == INVALID_HANDLE_VALUE) {
        return fail_last();
    }
    const int file = _open_osfhandle((intptr_t)handle, _O_BINARY | _O_NOINHERIT | (flags & O_APPEND) | way);
    if (file < 0) {
        CloseHandle(handle);
    }
    return file;
}

FILE *os_fopen(const char *path, const char *mode) {
    const bool both = strchr(mode, '+') != NULL;
    const int way = both ? O_RDWR : mode[0] == 'r' ? O_RDONLY : O_WRONLY;
    const int file = os_open(path, way | (mode[0] == 'w'   ? O_CREAT | O_TRUNC
                                          : mode[0] == 'a' ? O_CREAT | O_APPEND
                                                           : 0));
    const char plain[] = {mode[0], 'b', both ? '+' : '\0', '\0'};
    return file >= 0 ? fdopen(file, plain) : NULL;
}

// Its path and that of a file in it.
static bool path_within(int folder, const char *name, char path[4 * PATH_UNITS]) {
    wchar_t wide[PATH_UNITS];
    const DWORD n = GetFinalPathNameByHandleW((HANDLE)_get_osfhandle(folder), wide, PATH_UNITS, 0);
    if (n == 0 || n >= PATH_UNITS) {
        return fail_last() == 0;
    }
    const bool is_long = wcsncmp(wide, L"\\\\?\\", 4) == 0 && wcsncmp(wide, L"\\\\?\\UNC", 7) != 0;
    narrow(wide + (is_long ? 4 : 0), path, 3 * PATH_UNITS);
    strcat(path, "/");
    strcat(path, name);
    return true;
}

int openat(int folder, const char *name, int flags, ...) {
    char path[4 * PATH_UNITS];
    return path_within(folder, name, path) ? os_open(path, flags, 0666) : -1;
}

static bool make_name(char *path) {
    uint64_t drawn = 0;
    char *marks = strstr(path, "XXXXXX");
    if (marks == NULL || !os_draw(&drawn, sizeof drawn)) {
        errno = EINVAL;
        return false;
    }
    for (int i = 0; i < 6; i++, drawn /= 36) {
        marks[i] = "abcdefghijklmnopqrstuvwxyz0123456789"[drawn % 36];
    }
    return true;
}

int os_mkstemp(char *path) { return make_name(path) ? os_open(path, O_RDWR | O_CREAT | O_EXCL, 0600) : -1; }

char *mkdtemp(char *path) { return make_name(path) && os_mkdir(path, 0700) == 0 ? path : NULL; }

int os_open_nameless(void) {
    wchar_t folder[MAX_PATH + 1], path[MAX_PATH + 1];
    if (GetTempPathW(MAX_PATH, folder) == 0 || GetTempFileNameW(folder, L"sm", 0, path) == 0) {
        return fail_last();
    }
    HANDLE handle = CreateFileW(path, GENERIC_READ | GENERIC_WRITE | DELETE, FILE_SHARE_READ | FILE_SHARE_WRITE, NULL,
                                CREATE_ALWAYS, FILE_ATTRIBUTE_TEMPORARY | FILE_FLAG_DELETE_ON_CLOSE, NULL);
    return handle != INVALID_HANDLE_VALUE ? _open_osfhandle((intptr_t)handle, _O_BINARY | _O_NOINHERIT) : fail_last();
}

void os_temporary_folder(char *path, size_t size_bytes) {
    wchar_t wide[MAX_PATH + 1] = L".";
    (void)GetTempPathW(MAX_PATH, wide);
    narrow(wide, path, (int)size_bytes);
}

bool os_open_pipe(int ends[2]) { return _pipe(ends, 1 << 16, _O_BINARY | _O_NOINHERIT) == 0; }

bool os_user_folder(const char *variable, SM_UNUSED const char *within, char *path, size_t size_bytes) {
    const wchar_t *local = _wgetenv(L"LOCALAPPDATA");
    const char *named = getenv(variable);
    char folder[PATH_UNITS] = "";
    if (named != NULL && named[0] != '\0' && named[1] == ':') {
        snprintf(folder, sizeof folder, "%s", named);
    } else if (local != NULL) {
        narrow(local, folder, sizeof folder);
    }
    return folder[0] != '\0' && (size_t)snprintf(path, size_bytes, "%s", folder) < size_bytes;
}

static int duplicate(int file) {
    HANDLE handle;
    return DuplicateHandle(GetCurrentProcess(), (HANDLE)_get_osfhandle(file), GetCurrentProcess(), &handle, 0, FALSE,
                           DUPLICATE_SAME_ACCESS)
               ? _open_osfhandle((intptr_t)handle, _O_BINARY | _O_NOINHERIT)
               : fail_last();
}

int fcntl(int file, int command, ...) { return command == F_DUPFD_CLOEXEC ? duplicate(file) : 0; }

// --- reading, writing, locking ---------------------------------------------------------------------

// Reads or writes at a place and leaves the file's own position where it was, though Windows moves it.
static ssize_t transfer(int file, void *data, size_t n_bytes, off_t at, bool writes) {
    OVERLAPPED place = {.Offset = (DWORD)at, .OffsetHigh = (DWORD)((uint64_t)at >> 32)};
    const HANDLE handle = (HANDLE)_get_osfhandle(file);
    DWORD n = 0;
    const DWORD most = n_bytes < 1U << 30 ? (DWORD)n_bytes : 1U << 30;
    const int64_t before = _lseeki64(file, 0, SEEK_CUR);
    const bool is_done = writes ? WriteFile(handle, data, most, &n, &place) : ReadFile(handle, data, most, &n, &place);
    const DWORD code = GetLastError();
    _lseeki64(file, before, SEEK_SET);
    return is_done || (!writes && code == ERROR_HANDLE_EOF) ? (ssize_t)n : fail(code);
}

ssize_t pread(int file, void *data, size_t n_bytes, off_t at) { return transfer(file, data, n_bytes, at, false); }

ssize_t pwrite(int file, const void *data, size_t n_bytes, off_t at) {
    return transfer(file, (void *)data, n_bytes, at, true);
}

// As the C library does, whose word for a full disk is another.
int os_put_bytes(int file, const void *data, unsigned n_bytes) {
    SetLastError(ERROR_DISK_FULL); // it stays where a disk takes a part, and no call fails
    const int n = write(file, data, n_bytes);
    errno = n < 0 && _doserrno == ERROR_DISK_FULL ? ENOSPC : errno;
    return n;
}

// Names of files are as durable as Windows makes them: a folder is not flushed.
int fsync(int file) {
    HANDLE handle = (HANDLE)_get_osfhandle(file);
    BY_HANDLE_FILE_INFORMATION info;
    const bool is_folder =
        GetFileInformationByHandle(handle, &info) && (info.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) != 0;
    return is_folder || FlushFileBuffers(handle) ? 0 : fail_last();
}

int os_ftruncate(int file, int64_t n_bytes) {
    FILE_END_OF_FILE_INFO end = {.EndOfFile.QuadPart = n_bytes};
    return SetFileInformationByHandle((HANDLE)_get_osfhandle(file), FileEndOfFileInfo, &end, sizeof end) ? 0
                                                                                                         : fail_last();
}

// A folder is locked by an event that has its number for a name, until its descriptor is closed or its process ends.
enum { MOST_LOCKED = 2048 };
static HANDLE locked_folders[MOST_LOCKED];

static int lock_folder(int file, const BY_HANDLE_FILE_INFORMATION *info) {
    wchar_t name[64];
    (void)swprintf(name, sizeof name / sizeof name[0], L"stepmark-%lx-%lx-%lx", info->dwVolumeSerialNumber,
                   info->nFileIndexHigh, info->nFileIndexLow);
    HANDLE event = CreateEventW(NULL, TRUE, FALSE, name);
    if (event == NULL || file >= MOST_LOCKED) {
        return refuse(EINVAL);
    }
    if (GetLastError() == ERROR_ALREADY_EXISTS) {
        CloseHandle(event);
        return refuse(EWOULDBLOCK);
    }
    locked_folders[file] = event;
    return 0;
}

int os_close(int file) {
    if (file >= 0 && file < MOST_LOCKED && locked_folders[file] != NULL) {
        CloseHandle(locked_folders[file]);
        locked_folders[file] = NULL;
    }
    return _close(file);
}

// Locks a byte past the end of any file, so that its contents can be read. Windows releases it with the descriptor.
int flock(int file, int operation) {
    OVERLAPPED place = {.Offset = 0xFFFFFFFE, .OffsetHigh = 0x7FFFFFFF};
    HANDLE handle = (HANDLE)_get_osfhandle(file);
    BY_HANDLE_FILE_INFORMATION info;
    if (GetFileInformationByHandle(handle, &info) && (info.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) != 0) {
        return (operation & LOCK_EX) != 0 ? lock_folder(file, &info) : 0;
    }
    const DWORD flags = ((operation & LOCK_EX) != 0 ? LOCKFILE_EXCLUSIVE_LOCK : 0) |
                        ((operation & LOCK_NB) != 0 ? LOCKFILE_FAIL_IMMEDIATELY : 0);
    if (LockFileEx(handle, flags, 0, 1, 0, &place)) {
        return 0;
    }
    const DWORD code = GetLastError();
    return refuse(code == ERROR_LOCK_VIOLATION || code == ERROR_IO_PENDING ? EWOULDBLOCK : EINVAL);
}

// --- facts -----------------------------------------------------------------------------------------

static int take_facts(HANDLE handle, struct os_stat *info) {
    BY_HANDLE_FILE_INFORMATION found;
    *info = (struct os_stat){.st_nlink = 1};
    const DWORD type = GetFileType(handle);
    if (type == FILE_TYPE_PIPE || type == FILE_TYPE_CHAR) {
        info->st_mode = (mode_t)((type == FILE_TYPE_PIPE ? _S_IFIFO : _S_IFCHR) | 0600);
        return 0;
    }
    if (!GetFileInformationByHandle(handle, &found)) {
        return fail_last();
    }
    const bool is_folder = (found.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) != 0;
    const uint64_t time = (uint64_t)found.ftLastWriteTime.dwHighDateTime << 32 | found.ftLastWriteTime.dwLowDateTime;
    info->st_dev = found.dwVolumeSerialNumber;
    info->st_ino = (uint64_t)found.nFileIndexHigh << 32 | found.nFileIndexLow;
    info->st_nlink = found.nNumberOfLinks;
    info->st_mode = (mode_t)(is_folder ? _S_IFDIR | 0700 : _S_IFREG | 0600);
    info->st_size = (int64_t)((uint64_t)found.nFileSizeHigh << 32 | found.nFileSizeLow);
    info->st_mtim.tv_sec = (time_t)(time / 10000000 - 11644473600);
    info->st_mtim.tv_nsec = (long)(time % 10000000 * 100);
    return 0;
}

int os_fstat(int file, struct os_stat *info) { return take_facts((HANDLE)_get_osfhandle(file), info); }

int os_stat(const char *path, struct os_stat *info) {
    wchar_t wide[PATH_UNITS];
    if (!widen(path, wide)) {
        return -1;
    }
    HANDLE handle = CreateFileW(wide, FILE_READ_ATTRIBUTES, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE,
                                NULL, OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, NULL);
    if (handle == INVALID_HANDLE_VALUE) {
        return fail_last();
    }
    const int result = take_facts(handle, info);
    CloseHandle(handle);
    return result;
}

int os_access(const char *path, int mode) {
    wchar_t wide[PATH_UNITS];
    if (!widen(path, wide)) {
        return -1;
    }
    const DWORD attributes = GetFileAttributesW(wide);
    if (attributes == INVALID_FILE_ATTRIBUTES) {
        return fail_last();
    }
    return (mode & W_OK) != 0 && (attributes & FILE_ATTRIBUTE_READONLY) != 0 && !is_folder_by(attributes)
               ? refuse(EACCES)
               : 0;
}

int statvfs(const char *path, struct statvfs *facts) {
    wchar_t wide[PATH_UNITS];
    ULARGE_INTEGER left;
    if (!widen(path, wide) || !GetDiskFreeSpaceExW(wide, &left, NULL, NULL)) {
        return fail_last();
    }
    *facts = (struct statvfs){.f_bsize = 1, .f_frsize = 1, .f_bavail = left.QuadPart};
    return 0;
}

char *realpath(const char *path, char *found) {
    wchar_t wide[PATH_UNITS], whole[PATH_UNITS];
    if (!widen(path, wide) || GetFileAttributesW(wide) == INVALID_FILE_ATTRIBUTES ||
        GetFullPathNameW(wide, PATH_UNITS, whole, NULL) == 0) {
        (void)fail_last();
        return NULL;
    }
    found = found != NULL ? found : malloc(PATH_UNITS);
    if (found != NULL) {
        narrow(whole, found, PATH_MAX);
    }
    return found;
}

// --- names -----------------------------------------------------------------------------------------

int os_mkdir(const char *path, SM_UNUSED mode_t mode) {
    wchar_t wide[PATH_UNITS] = L"";
    if (!widen(path, wide) || CreateDirectoryW(wide, NULL)) {
        return wide[0] != L'\0' ? 0 : -1;
    }
    const DWORD code = GetLastError();
    const DWORD there = GetFileAttributesW(wide); // of a drive it says that access is denied
    return fail(there != INVALID_FILE_ATTRIBUTES ? ERROR_ALREADY_EXISTS : code);
}

int os_unlink(const char *path) {
    wchar_t wide[PATH_UNITS];
    if (!widen(path, wide)) {
        return -1;
    }
    if (is_folder_by(GetFileAttributesW(wide))) {
        return refuse(EISDIR);
    }
    for (int try = 0; !DeleteFileW(wide); try++) {
        if (!is_held(try)) {
            return fail_last();
        }
    }
    return 0;
}

int os_rmdir(const char *path) {
    wchar_t wide[PATH_UNITS];
    return widen(path, wide) ? (RemoveDirectoryW(wide) ? 0 : fail_last()) : -1;
}

int os_remove(const char *path) {
    const int result = os_unlink(path);
    return result != 0 && errno == EISDIR ? os_rmdir(path) : result;
}

int os_rename(const char *from, const char *to) {
    wchar_t wide_from[PATH_UNITS], wide_to[PATH_UNITS];
    if (!widen(from, wide_from) || !widen(to, wide_to)) {
        return -1;
    }
    if (is_folder_by(GetFileAttributesW(wide_to))) {
        (void)RemoveDirectoryW(wide_to); // an empty folder is replaced
    }
    for (int try = 0; !MoveFileExW(wide_from, wide_to, MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH); try++) {
        if (!is_held(try)) {
            return fail_last();
        }
    }
    return 0;
}

// --- folders ---------------------------------------------------------------------------------------

// Matches a path's last part alone; `inner`: gives names without the path before it.
static bool match(const char *pattern, bool inner, os_names *names) {
    wchar_t wide[PATH_UNITS];
    WIN32_FIND_DATAW found;
    const char *slash = strrchr(pattern, '/');
    const int n_folder = slash != NULL && !inner ? (int)(slash + 1 - pattern) : 0;
    *names = (os_names){0};
    HANDLE search = widen(pattern, wide) ? FindFirstFileW(wide, &found) : INVALID_HANDLE_VALUE;
    if (search == INVALID_HANDLE_VALUE) {
        return fail_last() == 0;
    }
    bool is_whole = true;
    do {
        char name[4 * MAX_PATH], path[4 * PATH_UNITS];
        narrow(found.cFileName, name, sizeof name);
        snprintf(path, sizeof path, "%.*s%s", n_folder, pattern, name);
        is_whole = os_add_name(names, path);
    } while (is_whole && FindNextFileW(search, &found));
    FindClose(search);
    os_sort_names(names);
    return is_whole;
}

bool os_list_folder(const char *path, os_names *names) {
    char pattern[4 * PATH_UNITS];
    snprintf(pattern, sizeof pattern, "%s/*", path);
    return match(pattern, true, names);
}

bool os_match_paths(const char *pattern, os_names *paths) { return match(pattern, false, paths); }
