#include "bench/rows/read_rows.h"

#include <time.h>

#include "embedded.h"
#include "bench/rows/machine.h"
#include "src/io/input_file.h"

enum { HEADER_SIZE = 128, VERSION = 1 };

static const size_t most_bytes = (size_t)1 << 30;

// The first line of a bundle with this body: there is only one valid form.
static void write_header(const char *body, size_t size_bytes, char header[HEADER_SIZE]) {
    char digest[SM_DIGEST_SIZE];
    sm_digest_bytes(body, size_bytes, digest);
    snprintf(header, HEADER_SIZE, "{\"stepmark_bundle\": %d, \"bytes\": %zu, \"digest\": \"%s\"}\n", VERSION,
             size_bytes, digest);
}

// --- writing -----------------------------------------------------------------------------------------

static void put_line(FILE *out, const json_t *value) {
    SM_FREED char *line = sm_json_dump(value);
    fprintf(out, "%s\n", line);
}

void sm_bundle_make(const json_t *rows, const json_t *machine, char **text, size_t *size_bytes) {
    SM_FREED char *body = NULL;
    size_t body_bytes = 0;
    char header[HEADER_SIZE], created[32];
    const time_t now = time(NULL);
    struct tm utc;
    FILE *out = sm_memstream(&body, &body_bytes);
    strftime(created, sizeof(created), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    SM_OWN(json_t) *facts =
        json_pack("{s:O, s:s, s:s}", "machine", machine, "created", created, "program", sm_build.version);
    put_line(out, facts);
    SM_EACH(row, rows) { put_line(out, row); }
    sm_memstream_close(out);
    write_header(body, body_bytes, header);
    *size_bytes = strlen(header) + body_bytes;
    *text = sm_text_of("%s%s", header, body);
}

// --- reading -----------------------------------------------------------------------------------------

bool sm_bundle_is_one(const char *text, size_t size_bytes) {
    static const char begin[] = "{\"stepmark_bundle\": ";
    return size_bytes >= strlen(begin) && memcmp(text, begin, strlen(begin)) == 0;
}

static const char *next_line(const char *at, const char *end) {
    const char *last = memchr(at, '\n', (size_t)(end - at));
    return last != NULL ? last + 1 : end;
}

sm_status sm_bundle_rows(const char *path, const char *text, size_t size_bytes, const char **rows) {
    char header[HEADER_SIZE];
    SM_FAIL_IF(!sm_bundle_is_one(text, size_bytes), SM_ERR_FORMAT,
               "%s: no bundle; `stepmark report ROWS --bundle FILE` makes one", path);
    const char *body = next_line(text, text + size_bytes);
    write_header(body, size_bytes - (size_t)(body - text), header);
    SM_FAIL_IF(strlen(header) != (size_t)(body - text) || memcmp(text, header, strlen(header)) != 0, SM_ERR_FORMAT,
               "%s: was changed after it was made; ask for the original bundle", path);
    *rows = next_line(body, text + size_bytes);
    return SM_OK;
}

// Appends the rows of a bundle's text.
static sm_status parse(const char *path, const char *text, size_t size_bytes, json_t *rows) {
    const char *line = NULL;
    SM_TRY(sm_bundle_rows(path, text, size_bytes, &line));
    while (*line != '\0') {
        const size_t length = strcspn(line, "\n");
        char contradiction[SM_CONTRADICTION_SIZE];
        json_t *row = json_loadb(line, length, 0, NULL);
        json_array_append_new(rows, row);
        SM_FAIL_IF(!json_is_object(row) || sm_row_recognise(row) != SM_OK, SM_ERR_FORMAT,
                   "%s: row %zu is no result row: %s", path, json_array_size(rows),
                   json_is_object(row) ? sm_error_message() : "no JSON object");
        sm_row_hold_to_itself(row, contradiction); // its reason says where
        line += length + (line[length] == '\n');
    }
    return SM_OK;
}

// The rows of published.bundle in bench/results/, or those of all other files there.
static json_t *read_embedded(bool is_published) {
    static const char folder[] = "bench/results/";
    json_t *rows = json_array();
    for (int i = 0; i < sm_embedded_count(); i++) {
        const sm_embedded *file = sm_embedded_at(i);
        if (strncmp(file->path, folder, strlen(folder)) == 0 &&
            (strcmp(file->path + strlen(folder), "published.bundle") == 0) == is_published) {
            (void)parse(file->path, file->text, file->size_bytes, rows);
        }
    }
    return rows;
}

json_t *sm_bundle_references(void) { return read_embedded(false); }

json_t *sm_bundle_published(void) { return read_embedded(true); }

sm_status sm_bundle_read(const char *path, json_t **rows) {
    SM_FREED char *text = NULL;
    SM_OWN(json_t) *read = json_array();
    size_t size_bytes = 0;
    *rows = NULL;
    SM_TRY(sm_input_text(path, most_bytes, &text, &size_bytes));
    SM_TRY(parse(path, text, size_bytes, read));
    *rows = sm_give(&read);
    return SM_OK;
}
