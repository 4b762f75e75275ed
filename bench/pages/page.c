// page.c: see pages/page.h.
#include "bench/pages/page.h"

#include <stdlib.h>
#include <string.h>

#include "embedded.h"
#include "bench/tables/json_values.h"

// --- embedded files --------------------------------------------------------------------------

// Files of pages are next to the code that uses them, and have unique names.
static void put_asset(FILE *out, const char *file_name) {
    const sm_embedded *file = sm_embedded_find_below("", file_name);
    if (file != NULL) {
        fwrite(file->text, 1, file->size_bytes, out);
    }
}

// --- text ------------------------------------------------------------------------------------

static void put_character(FILE *out, char c) {
    switch (c) {
    case '&': fputs("&amp;", out); return;
    case '<': fputs("&lt;", out); return;
    case '>': fputs("&gt;", out); return;
    case '"': fputs("&quot;", out); return;
    case '\'': fputs("&#39;", out); return;
    default: fputc(c, out);
    }
}

void sm_page_text(FILE *out, const char *text) {
    while (*text != '\0') {
        const int length = sm_utf8_length(text);
        const bool is_control = sm_control_length(text) > 0;
        if (length > 1 && !is_control) {
            fwrite(text, 1, (size_t)length, out);
        } else {
            put_character(out, length == 0 ? '?' : is_control ? ' ' : *text);
        }
        text += length > 0 ? length : 1;
    }
}

// --- page ------------------------------------------------------------------------------------

void sm_page_begin(FILE *out, const char *title, const char *const *styles) {
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
          "script-src 'unsafe-inline'; img-src data:\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
          "<link rel=\"icon\" href=\"data:,\">\n<title>",
          out);
    sm_page_text(out, title);
    fputs("</title>\n<style>\n", out);
    put_asset(out, "page.css");
    for (int i = 0; styles != NULL && styles[i] != NULL; i++) {
        put_asset(out, styles[i]);
    }
    fputs("</style>\n</head>\n<body>\n<h1>", out);
    sm_page_text(out, title);
    fputs("</h1>\n", out);
}

void sm_page_end(FILE *out, const char *const *scripts) {
    fputs("<script>\n'use strict';\n", out);
    put_asset(out, "page.js");
    put_asset(out, "chart.js");
    for (int i = 0; scripts != NULL && scripts[i] != NULL; i++) {
        put_asset(out, scripts[i]);
    }
    fputs("</script>\n</body>\n</html>\n", out);
}

sm_status sm_page_json(FILE *out, const char *id, const json_t *value) {
    char *text = json_dumps(value, JSON_COMPACT | JSON_REAL_PRECISION(12) | JSON_ENCODE_ANY);
    if (text == NULL) {
        return sm_fail(SM_ERR_OOM, "no memory for a page's data");
    }
    fprintf(out, "<script type=\"application/json\" id=\"%s\">", id);
    for (const char *at = text; *at != '\0'; at++) {
        if (*at == '<') { // an end of the element, or a comment, could begin with it
            fputs("\\u003c", out);
        } else {
            fputc(*at, out);
        }
    }
    fputs("</script>\n", out);
    free(text);
    return SM_OK;
}
