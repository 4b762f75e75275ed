// write_page.c: see output/write_page.h.
#include "cli/output/write_page.h"

#include <stdbool.h>
#include <stdlib.h>

#include "cli/flags/options.h"
#include "cli/output/notes.h"
#include "src/io/atomic_file.h"

sm_status cli_write_page(const char *path, cli_page_function write, void *what, const char *before) {
    char *text = NULL;
    size_t size_bytes = 0;
    FILE *out = open_memstream(&text, &size_bytes);
    if (out == NULL) {
        return sm_fail(SM_ERR_OOM, "no memory for a page");
    }
    sm_status status = write(what, out);
    bool failed = ferror(out) != 0; // a stream into memory is short of it only while it is written to
    if ((fclose(out) != 0 || failed) && status == SM_OK) {
        status = sm_fail(SM_ERR_OOM, "no memory for a page");
    }
    if (status == SM_OK && path == NULL) {
        fwrite(text, 1, size_bytes, stdout);
    } else if (status == SM_OK) {
        status = sm_atomic_write_all(path, text, size_bytes);
    }
    if (status == SM_OK && path != NULL) {
        cli_note("%s: %s%zu kB; open it in a browser", path, before, size_bytes / 1000);
    }
    free(text);
    return status;
}
