// read_rows.c: parses object after object, so that one damaged place costs one row. Between the
// objects, brackets and commas of an array count as space: jsonl, arrays, arrays cut short and
// arrays one after the other are then all the same.
#include "bench/rows/read_rows.h"

#include "bench/stats/stats.h"
#include "src/io/input_file.h"

// MOST_WASTED: limit on parsing the text in vain, in all; after it the damaged part is skipped whole.
enum { WARNING_SIZE = 400, WARNINGS_OF_A_KIND = 20, MOST_WASTED = 2 };

static const size_t largest_file_bytes = (size_t)1 << 30;

sm_rows sm_rows_new(void) { return (sm_rows){.rows = json_array(), .warnings = json_array()}; }

void sm_rows_free(sm_rows *rows) {
    json_decref(rows->rows);
    json_decref(rows->warnings);
    json_decref(rows->rungs);
    *rows = (sm_rows){.rows = NULL};
}

// --- fields ------------------------------------------------------------------------------

const char *sm_rows_text(const json_t *row, const char *name) { return sm_json_word(row, name); }

bool sm_rows_has(const json_t *row, const char *name) { return sm_json_word(row, name)[0] != '\0'; }

bool sm_rows_is(const json_t *row, const char *name, const char *text) {
    return strcmp(sm_json_word(row, name), text) == 0;
}

const char *sm_rows_flag(const json_t *args, const char *name) {
    const size_t length = strlen(name) + 2;
    SM_EACH(value, args) {
        const char *arg = json_is_string(value) ? json_string_value(value) : "";
        if (strncmp(arg, "--", 2) == 0 && strncmp(arg + 2, name, length - 2) == 0 &&
            (arg[length] == '=' || arg[length] == '\0')) {
            return arg + length + (arg[length] == '=');
        }
    }
    return NULL;
}

const char *sm_rows_own_code(const json_t *row) { return sm_rows_has(row, "own_kernels") ? "own code" : ""; }

bool sm_rows_is_exact(const json_t *row) {
    const char *precision = sm_rows_text(row, "precision");
    return strcmp(precision, "fp32") == 0 || strchr(precision, 'x') != NULL; // tf32x3, bf16x6
}

static const char *unless(const char *usual, const char *name) { return strcmp(name, usual) == 0 ? "" : name; }

const char *sm_rows_other_arch(const json_t *row) {
    return unless(sm_model_at(0)->name, sm_rows_text(row, "model_arch"));
}

const char *sm_rows_other_optimizer(const json_t *row) {
    return unless(sm_optimizer_at(0)->name, sm_rows_text(row, "optimizer"));
}

const char *sm_rows_model(const json_t *row, char *text, size_t size_bytes) {
    const char *arch = sm_rows_other_arch(row);
    snprintf(text, size_bytes, "%s%s%s", arch, arch[0] != '\0' ? " " : "", sm_rows_text(row, "model_type"));
    return text;
}

static void drop(char *text, const char *word) {
    for (char *at = strstr(text, word); at != NULL; at = strstr(text, word)) {
        memmove(at, at + strlen(word), strlen(at + strlen(word)) + 1);
    }
}

const char *sm_rows_chip(const json_t *row, char *text, size_t size_bytes) {
    const char *card = sm_rows_text(row, "gpu_info");
    snprintf(text, size_bytes, "%.90s", card[0] != '\0' ? card : sm_rows_text(row, "cpu_info"));
    drop(text, "(R)");
    drop(text, "(TM)");
    drop(text, "(tm)");
    char *clock = strstr(text, " CPU @");
    if (clock != NULL) {
        *clock = '\0';
    }
    return text;
}

// Below this share of both ceilings neither is what limits a step.
static const double least_share = 0.15;

const char *sm_rows_bound(const json_t *row, char *text, size_t size_bytes) {
    const double step_s = sm_json_number(row, "median_ns") * 1e-9;
    const double compute = sm_json_number(row, "flops") / sm_json_number(row, "peak_flops") / step_s;
    const double moved = sm_json_number(row, "bytes") / sm_json_number(row, "peak_bandwidth") / step_s;
    const double memory = moved <= 1 ? moved : 0; // faster than memory: the operands lay in caches
    text[0] = '\0';
    if (compute > 0 && !(compute >= least_share) && !(memory >= least_share)) {
        snprintf(text, size_bytes,
                 "bound by neither arithmetic (%.1f%% of its measured peak) nor memory: by many small operations",
                 100 * compute);
    } else if (compute > 0 && memory > compute) {
        snprintf(text, size_bytes,
                 "bound by memory: %.0f%% of its measured bandwidth (and %.0f%% of its peak arithmetic)", 100 * memory,
                 100 * compute);
    } else if (compute > 0) {
        snprintf(text, size_bytes, "bound by arithmetic: %.0f%% of its measured peak", 100 * compute);
    }
    return text;
}

const char *sm_rows_status(const json_t *row) {
    const char *status = sm_rows_text(row, "status");
    return status[0] != '\0' ? status : sm_json_number(row, "median_ns") > 0 ? "ok" : "error";
}

double *sm_rows_samples(const json_t *row, const char *name, size_t *n) {
    const json_t *array = sm_json_get(row, name);
    double *values = sm_malloc((json_array_size(array) + 1) * sizeof(*values));
    *n = 0;
    SM_EACH(sample, array) {
        const double value = json_number_value(sample);
        if (isfinite(value) && value > 0) {
            values[(*n)++] = value;
        }
    }
    return values;
}

// --- figures that older rows and other programs leave out ------------------------------------

// Times are whole nanoseconds.
static void fill_in(json_t *row, const char *name, double value) {
    size_t length = strlen(name);
    bool is_time = length > 3 && strcmp(name + length - 3, "_ns") == 0;
    const json_t *there = json_object_get(row, name);
    if ((there == NULL || json_is_null(there)) && isfinite(value)) {
        json_object_set_new(row, name, is_time ? sm_json_integer(llround(value)) : json_real(value));
    }
}

// Computes statistics from the samples if there are any; else the mean stands for the median.
static void complete(json_t *row) {
    size_t n;
    SM_FREED double *values = sm_rows_samples(row, "samples_ns", &n);
    const sm_stats s = sm_stats_of_reals(values, (int64_t)n);
    const double noise = sm_steady_noise_percent(&s);
#define X(field, member) fill_in(row, #field, s.member);
    SM_STATS_FIELDS(X)
#undef X
    fill_in(row, "noise_percent", noise);
    if (n > 0 && !sm_rows_has(row, "noise_verdict")) {
        json_object_set_new(row, "noise_verdict",
                            json_string(sm_noise_name(sm_judge_noise(noise, 100 * s.mad / s.median))));
    }
    fill_in(row, "median_ns", sm_json_number(row, "avg_ns"));
    const double n_accum = sm_json_number(row, "n_accum");
    const double n_tokens = sm_json_number(row, "n_batch") * sm_json_number(row, "n_seq") * (n_accum > 0 ? n_accum : 1);
    fill_in(row, "median_ts", n_tokens / (sm_json_number(row, "median_ns") * 1e-9));
    fill_in(row, "median_ts", sm_json_number(row, "avg_ts"));
}

// --- text --------------------------------------------------------------------------------

typedef struct {
    const char *name, *text;
    size_t size_bytes, at;
    size_t line;     // of `line_end`, from 1
    size_t line_end; // up to where lines were counted
    sm_rows found;
    size_t n_skipped;       // objects that are no rows
    size_t n_damaged;       // places
    size_t n_contradictory; // rows
    size_t wasted_bytes;    // parsed, and found damaged
    bool in_damage;         // since the last object that could be read
    bool warned_of_version;
    json_t *first_foreign; // the first object that is no row
} reader;

static size_t line_of(reader *r, size_t at) {
    for (; r->line_end < at; r->line_end++) {
        r->line += r->text[r->line_end] == '\n';
    }
    return r->line;
}

static void skip_between(reader *r) {
    size_t n_bytes = 1;
    for (; r->at < r->size_bytes && n_bytes > 0; r->at += n_bytes) {
        const bool is_between = r->text[r->at] != '\0' && strchr(" \t\r\n,[]", r->text[r->at]) != NULL;
        n_bytes = is_between ? 1 : sm_mark_bytes(r->text + r->at, r->size_bytes - r->at);
    }
}

// Moves to the next line, and on to the next that can begin a row.
static void skip_line(reader *r) {
    do {
        const char *end = memchr(r->text + r->at, '\n', r->size_bytes - r->at);
        r->at = end != NULL ? (size_t)(end - r->text) + 1 : r->size_bytes;
        skip_between(r);
    } while (r->at < r->size_bytes && r->text[r->at] != '{');
}

// A stretch of damage is one place, however many lines it has.
static void note_damage(reader *r, const char *what) {
    const char *end = memchr(r->text + r->at, '\n', r->size_bytes - r->at);
    const bool is_last = end == NULL || end + 1 == r->text + r->size_bytes;
    if (!r->in_damage && ++r->n_damaged <= WARNINGS_OF_A_KIND) {
        sm_json_note(r->found.warnings, "%s: line %zu%s is damaged and was set aside: %s", r->name, line_of(r, r->at),
                     is_last ? ", the last," : "", what);
    }
    r->in_damage = true;
}

static void take_row(reader *r, json_t *row, size_t line) {
    char contradiction[SM_CONTRADICTION_SIZE];
    const double version = sm_json_number(row, "schema_version");
    if (!r->warned_of_version && version > SM_ROW_SCHEMA_VERSION) {
        r->warned_of_version = true;
        sm_json_note(r->found.warnings,
                     "%s: written by a newer stepmark (schema version %.0f, this one knows %d); fields may mean more",
                     r->name, version, SM_ROW_SCHEMA_VERSION);
    }
    sm_row_hold_to_itself(row, contradiction);
    if (contradiction[0] != '\0' && r->n_contradictory++ < WARNINGS_OF_A_KIND) {
        sm_json_note(r->found.warnings, "%s: line %zu contradicts itself, and its figures do not count: %s", r->name,
                     line, contradiction);
    }
    complete(row);
    json_array_append(r->found.rows, row);
}

// A rung has a device and a time, as `stepmark ladder` writes it. One that is wrong has no time.
static bool is_rung(const json_t *object) {
    static const char *const texts[] = {"ladder", "shape", "device", "name", "rung"};
    bool all = json_is_number(sm_json_get(object, "ns"));
    for (size_t i = 0; i < SM_COUNT(texts); i++) {
        all = all && sm_rows_has(object, texts[i]);
    }
    return all;
}

static void take_object(reader *r, json_t *object, size_t line) {
    if (r->found.rungs != NULL && is_rung(object)) {
        json_array_append(r->found.rungs, object);
    } else if (sm_row_recognise(object) == SM_OK) {
        take_row(r, object, line);
    } else {
        r->first_foreign = r->first_foreign != NULL ? r->first_foreign : json_incref(object);
        if (r->n_skipped++ < WARNINGS_OF_A_KIND) {
            sm_json_note(r->found.warnings, "%s: line %zu is no result row and was skipped: %s", r->name, line,
                         sm_error_message());
        }
    }
}

// Each line after damage may begin a row, even one that the parser took for a part of what is damaged. Going back for
// it is paid from an allowance, so that a file is read in a time that grows with its size alone.
static void read_object(reader *r) {
    json_error_t error;
    const size_t begin = r->at;
    SM_OWN(json_t) *object = json_loadb(r->text + begin, r->size_bytes - begin, JSON_DISABLE_EOF_CHECK, &error);
    const size_t n_parsed = (size_t)(error.position > 0 ? error.position : 0);
    if (object != NULL) {
        r->in_damage = false;
        r->at += n_parsed;
        take_object(r, object, line_of(r, begin));
        return;
    }
    note_damage(r, error.text);
    const bool may_go_back = r->wasted_bytes <= MOST_WASTED * r->size_bytes;
    r->wasted_bytes += n_parsed;
    r->at = may_go_back || n_parsed == 0 ? begin : begin + n_parsed - 1;
    skip_line(r);
}

// "; its first object has step, loss": names that are plain words, as the text goes to a terminal. "" without an object.
static void foreign_text(const json_t *first_object, char *text, size_t size_bytes) {
    enum { MOST_FIELDS = 4 };
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
    const char *key;
    json_t *value;
    int n = 0;
    text[0] = '\0';
    json_object_foreach((json_t *)first_object, key, value) {
        const bool is_plain = key[0] != '\0' && key[strspn(key, letters)] == '\0' && strlen(key) < 32;
        if (is_plain && n < MOST_FIELDS) {
            sm_append(text, size_bytes, "%s%s", n++ == 0 ? "; its first object has " : ", ", key);
        }
    }
}

// --- all of a text -------------------------------------------------------------------------

// How many more there were than have a warning each.
static void count_rest(reader *r, size_t n, const char *what) {
    if (n > WARNINGS_OF_A_KIND) {
        sm_json_note(r->found.warnings, "%s: %zu %s in all", r->name, n, what);
    }
}

// A block that cannot be read, or says two things, becomes a row without figures.
static void take_block_rows(reader *r, json_t *rows, const char *why, size_t line) {
    char reason[SM_BLOCK_WHY_SIZE + 64];
    snprintf(reason, sizeof(reason), "the block of line %zu is %s%s", line, rows != NULL ? "contradicted: " : "", why);
    if (r->n_contradictory++ < WARNINGS_OF_A_KIND) {
        sm_json_note(r->found.warnings, "%s: %s", r->name, reason);
    }
    if (rows == NULL) {
        json_array_append_new(r->found.rows, json_pack("{s:s, s:s, s:I}", "status", "error", "reason", reason, "block",
                                                       (json_int_t)line));
    }
    SM_EACH(row, rows) { sm_row_withdraw(row, "error", reason); }
}

// Blocks within any text: what stands between them is not read.
static bool read_blocks(reader *r) {
    char why[SM_BLOCK_WHY_SIZE];
    json_t *rows;
    size_t begin;
    bool has_any = false;
    while (sm_block_next(r->text, r->size_bytes, &r->at, &begin, &rows, why)) {
        const size_t line = line_of(r, begin);
        has_any = true;
        if (why[0] != '\0') {
            take_block_rows(r, rows, why, line);
        }
        SM_EACH(row, rows) {
            sm_json_set_new(row, "block", sm_json_integer((int64_t)line));
            take_object(r, row, line);
        }
        json_decref(rows);
    }
    return has_any;
}

static sm_status read_all(reader *r) {
    const size_t first = r->at;
    r->at = read_blocks(r) ? r->size_bytes : first;
    for (skip_between(r); r->at < r->size_bytes; skip_between(r)) {
        SM_FAIL_IF(r->found.interrupted != NULL && *r->found.interrupted, SM_ERR_INTERRUPTED,
                   "%s: interrupted at line %zu", r->name, line_of(r, r->at));
        if (r->text[r->at] == '{') {
            read_object(r);
        } else {
            note_damage(r, "no JSON object");
            skip_line(r);
        }
    }
    if (json_array_size(r->found.rows) + json_array_size(r->found.rungs) == 0) {
        char what[WARNING_SIZE];
        foreign_text(r->first_foreign, what, sizeof(what));
        return sm_fail(SM_ERR_FORMAT,
                       "%s: holds no result row%s; give a file made by `stepmark run -o json` or -o jsonl", r->name,
                       what);
    }
    count_rest(r, r->n_damaged, "damaged places were set aside");
    count_rest(r, r->n_contradictory, "rows contradict themselves");
    count_rest(r, r->n_skipped, "objects that are no result rows were skipped");
    return SM_OK;
}

sm_status sm_rows_parse(const char *name, const char *text, size_t size_bytes, sm_rows *rows) {
    reader r = {.name = name, .text = text, .size_bytes = size_bytes, .line = 1};
    const char *first = text;
    if (sm_bundle_is_one(text, size_bytes)) {
        SM_TRY(sm_bundle_rows(name, text, size_bytes, &first));
        r.at = (size_t)(first - text);
    }
    r.found = sm_rows_new();
    r.found.rungs = rows->rungs != NULL ? json_array() : NULL;
    r.found.interrupted = rows->interrupted;
    const sm_status status = read_all(&r);
    if (status == SM_OK) {
        json_array_extend(rows->rows, r.found.rows);
        json_array_extend(rows->warnings, r.found.warnings);
        json_array_extend(rows->rungs, r.found.rungs);
    }
    sm_rows_free(&r.found);
    json_decref(r.first_foreign);
    return status;
}

sm_status sm_rows_read(const char *path, sm_rows *rows) {
    SM_FREED char *text = NULL;
    size_t size_bytes;
    sm_status status = sm_input_text(path, largest_file_bytes, &text, &size_bytes);
    SM_FAIL_IF(status == SM_ERR_IO && rows->interrupted != NULL && *rows->interrupted, SM_ERR_INTERRUPTED,
               "%s: interrupted while it was read", path);
    return status == SM_OK ? sm_rows_parse(path, text, size_bytes, rows) : status;
}
