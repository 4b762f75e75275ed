// outputs.c: checks the files that a command line will write, before any work begins.
#include <errno.h>
#include <libgen.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/flags/flag.h"

static sm_status cannot_write(const cli_flag *flag, const char *path, const char *what) {
    return what == path
               ? sm_fail(SM_ERR_IO, "--%s: %s: cannot be written: %s", flag->name, path, strerror(errno))
               : sm_fail(SM_ERR_IO, "--%s: %s: cannot be written: %s: %s", flag->name, path, what, strerror(errno));
}

// Checks that names can be added to a folder.
static sm_status check_writable(const cli_flag *flag, const char *path, const char *folder) {
    struct stat info;
    if (stat(folder, &info) == 0 && !S_ISDIR(info.st_mode)) {
        errno = ENOTDIR;
        return cannot_write(flag, path, folder);
    }
    return access(folder, W_OK | X_OK) == 0 ? SM_OK : cannot_write(flag, path, folder);
}

static sm_status check_parent(const cli_flag *flag, const char *path) {
    char parent[PATH_MAX];
    snprintf(parent, sizeof(parent), "%s", path);
    return check_writable(flag, path, dirname(parent));
}

static sm_status check_folder(const cli_flag *flag, const char *path) {
    struct stat info;
    const bool exists = stat(path, &info) == 0;
    const bool leads_nowhere = !exists && lstat(path, &info) == 0; // a symbolic link
    SM_FAIL_IF(leads_nowhere || (exists && !S_ISDIR(info.st_mode)), SM_ERR_IO,
               "--%s: %s is not a folder; choose another name", flag->name, path);
    return exists ? check_writable(flag, path, path) : check_parent(flag, path);
}

static sm_status check_file(const cli_flag *flag, const char *path) {
    struct stat info;
    sm_format format;
    SM_FAIL_IF(strcmp(path, "html") == 0 || sm_format_parse(path, &format), SM_ERR_USAGE, // report --output md
               "--%s: %s is a format, and this flag takes a file's name; give a name such as result.%s, or ./%s",
               flag->name, path, path, path);
    if (stat(path, &info) != 0) {
        return check_parent(flag, path);
    }
    SM_FAIL_IF(S_ISDIR(info.st_mode), SM_ERR_IO, "--%s: %s is a folder; give a file's name", flag->name, path);
    if (flag->type == CLI_LOG_FILE) {
        return access(path, W_OK) == 0 ? SM_OK : cannot_write(flag, path, path);
    }
    return S_ISREG(info.st_mode) ? check_parent(flag, path) // a new file replaces it
                                 : sm_fail(SM_ERR_IO, "--%s: %s is not a regular file", flag->name, path);
}

sm_status cli_check_outputs(const cli_options *options) {
    for (int i = 0; i < cli_flag_count(); i++) {
        const cli_flag *flag = cli_flag_at(i);
        bool is_output = flag->type == CLI_NEW_FILE || flag->type == CLI_LOG_FILE || flag->type == CLI_NEW_FOLDER;
        if (!is_output || (flag->commands & (1u << options->command)) == 0) {
            continue;
        }
        const char *path = *(const char *const *)((const char *)options + flag->target);
        if (path != NULL) {
            SM_FAIL_IF(path[0] == '\0', SM_ERR_USAGE, "--%s: empty; give a name", flag->name);
            SM_FAIL_IF(strlen(path) >= PATH_MAX, SM_ERR_USAGE, "--%s: '%.40s...' is too long", flag->name, path);
            SM_TRY(flag->type == CLI_NEW_FOLDER ? check_folder(flag, path) : check_file(flag, path));
        }
    }
    return SM_OK;
}
