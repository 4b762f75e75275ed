// gcc.c: gcc.exe for own_kernels.sh: hands its words to gcc-linux next to it, a program of Linux, of which wine
// has no handle, so that it is over when the file gcc-linux.status is there.
#include <stdio.h>
#include <string.h>
#include <windows.h>

int main(void) {
    char path[MAX_PATH], line[32768];
    int code = 1;
    FILE *status;
    STARTUPINFOA how = {.cb = sizeof how};
    PROCESS_INFORMATION made;
    GetModuleFileNameA(NULL, path, MAX_PATH);
    strcpy(strrchr(path, '\\'), "\\gcc-linux");
    snprintf(line, sizeof line, "gcc-linux %s", strstr(GetCommandLineA(), " \"-"));
    CreateProcessA(path, line, NULL, NULL, TRUE, 0, NULL, NULL, &how, &made);
    strcat(path, ".status");
    while ((status = fopen(path, "r")) == NULL) {
        Sleep(20);
    }
    fscanf(status, "%d", &code);
    fclose(status);
    remove(path);
    return code;
}
