// portable.c: linked into the program of tools/packages/archive.sh alone, before libraries' archives.
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include <stdio.h>

// Archives that say stdin, stdout and stderr get these: their code expects the addresses of the program's own
// variables, which a program linked with an older C library cannot give them.
FILE *portable_stdin;
FILE *portable_stdout;
FILE *portable_stderr;
char *portable_program_name;

extern char *program_invocation_name;

__attribute__((constructor(101))) static void take(void) {
    portable_stdin = stdin;
    portable_stdout = stdout;
    portable_stderr = stderr;
    portable_program_name = program_invocation_name;
}

// hwloc asks udev of disks alone, which nobody asks hwloc of: there is no libudev to need.
void *udev_new(void) { return NULL; }

void *udev_unref(void *udev) { return NULL; }

void *udev_device_new_from_subsystem_sysname(void *udev, const char *subsystem, const char *name) { return NULL; }

const char *udev_device_get_property_value(void *device, const char *key) { return NULL; }

void *udev_device_unref(void *device) { return NULL; }
