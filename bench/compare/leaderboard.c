#include "bench/compare/compare.h"

enum { TEXT_SIZE = 256 };

static const double gib = 1024.0 * 1024.0 * 1024.0;

#define REFERENCE "reference"

// "ref, noisy": the terminal is narrow.
static void show_brief_marks(const json_t *record, const sm_column *column, char *text, size_t size_bytes) {
    const char *marks = sm_rows_text(record, column->name);
    const bool is_reference = strncmp(marks, REFERENCE, strlen(REFERENCE)) == 0;
    snprintf(text, size_bytes, "%s%s", is_reference ? "ref" : "", marks + (is_reference ? strlen(REFERENCE) : 0));
}

static const sm_column columns[] = {
    SM_TEXT("model", "size of the model, with its architecture if it is not gpt2", .heading = "model",
            .view = SM_SHOWN_WHEN_VARIED, .rank = SM_RANK_ALWAYS),
    SM_INTEGER("n_seq", "", "T, tokens a sequence", .heading = "T", .view = SM_SHOWN_WHEN_VARIED,
               .rank = SM_RANK_ALWAYS),
    SM_TEXT("precision", "number format", .heading = "precision", .view = SM_SHOWN_WHEN_VARIED, .rank = SM_RANK_ALWAYS),
    SM_TEXT("pass_type", "what is timed", .heading = "pass", .view = SM_SHOWN_WHEN_VARIED, .rank = SM_RANK_ALWAYS),
    SM_TEXT("optimizer", "the step's optimizer", .heading = "optimizer", .view = SM_SHOWN_WHEN_VARIED,
            .rank = SM_RANK_ALWAYS),
    SM_TEXT("work", "what else tells its work from that of another place 1", .heading = "work",
            .view = SM_SHOWN_WHEN_VARIED, .rank = SM_RANK_ALWAYS),
    SM_TEXT("own_kernels", "kernels or a backend of the user's own that ran: ranked separately", .heading = "own code",
            .view = SM_SHOWN_WHEN_SOME, .rank = SM_RANK_ALWAYS),
    SM_INTEGER("place", "", "among the rows of that work, by tokens/s; shared where intervals overlap", .heading = "#",
               .rank = SM_RANK_ALWAYS),
    SM_TEXT("machine", "processor or card that ran", .heading = "machine", .rank = SM_RANK_ALWAYS),
    SM_TEXT("host", "name of the machine's host"),
    SM_TEXT("device", "device and family of kernels", .heading = "device", .rank = 5),
    SM_TEXT("mode", "naive, fused or tuned", .heading = "mode", .rank = 3),
    SM_INTEGER("n_batch", "", "B, sequences a batch", .heading = "B", .rank = 6),
    SM_REAL("median_ts", "tokens/s", "at the median step", .heading = "tokens/s", .show = sm_show_rate,
            .rank = SM_RANK_ALWAYS),
    SM_BOOLEAN("reference", "came with the program, rather than from a bundle that was given"),
    SM_REAL("lo_ts", "tokens/s", "at the upper end of the step time's 95% interval"),
    SM_REAL("hi_ts", "tokens/s", "at its lower end"),
    SM_REAL("noise_percent", "%", "how far its 95% interval reaches"),
    SM_REAL("tokens_per_joule", "tokens/J", "tokens/s a watt", .heading = "a watt", .show = sm_show_real, .rank = 4),
    SM_REAL("tokens_per_s_gib", "tokens/s/GiB", "of the memory in use", .heading = "a GiB", .show = sm_show_count,
            .rank = 3),
    SM_REAL("mfu", "", "share of the device's own measured peak", .heading = "% of peak", .show = sm_show_percent,
            .rank = 7),
    SM_REAL("memory_bytes", "bytes", "of the card, or resident memory of the process"),
    SM_TEXT("bound", "what the step is nearest to: arithmetic, memory, or neither"),
    SM_TEXT("cost", "by --price and --train-tokens", .heading = "cost", .rank = SM_RANK_ALWAYS),
    SM_TEXT("build_commit", "of the measuring program", .heading = "build", .rank = 1),
    SM_TEXT("marks", "limits of the comparison: reference, own code, emulated, noisy, warned, other data",
            .heading = "marks", .rank = SM_RANK_ALWAYS, .brief = show_brief_marks),
};

const sm_table sm_leaderboard_table = {"leaderboard", columns, SM_COUNT(columns)};

static const sm_column refused_columns[] = {
    SM_TEXT("machine", "processor or card that ran", .heading = "machine", .rank = SM_RANK_ALWAYS),
    SM_TEXT("host", "name of the machine's host"),
    SM_TEXT("device", "device and family of kernels", .heading = "device", .rank = 5),
    SM_TEXT("model", "size of the model", .heading = "model", .rank = 4),
    SM_INTEGER("n_seq", "", "T, tokens a sequence", .heading = "T", .rank = 4),
    SM_INTEGER("n_batch", "", "B, sequences a batch", .heading = "B", .rank = 4),
    SM_TEXT("precision", "number format", .heading = "precision", .rank = 4),
    SM_TEXT("pass_type", "what is timed", .heading = "pass", .rank = 3),
    SM_TEXT("mode", "naive, fused or tuned", .heading = "mode", .rank = 3),
    SM_TEXT("status", "of the row", .heading = "status", .rank = SM_RANK_ALWAYS),
    SM_TEXT("reason", "why it is not ranked", .heading = "reason", .rank = SM_RANK_ALWAYS),
};

const sm_table sm_leaderboard_refused_table = {"refused", refused_columns, SM_COUNT(refused_columns)};

// --- which rows ----------------------------------------------------------------------------------------

// Rows compete in the same work, format and optimizer, with any batch, with or without own code.
static const unsigned competition =
    SM_PART(SM_IDENTITY_WORK) | SM_PART(SM_FACTOR_PRECISION) | SM_PART(SM_FACTOR_OPTIMIZER) | SM_OWN_CODE;

static bool agree(const json_t *a, const json_t *b, const char *field) {
    const json_t *x = json_object_get(a, field), *y = json_object_get(b, field);
    return x == y || json_equal(x, y);
}

// "" for a measured, checked and usable row; otherwise what it lacks.
static const char *lack_of(const json_t *row, char doubt[SM_DOUBT_SIZE]) {
    const char *reason = sm_rows_text(row, "reason");
    const bool is_ok = sm_rows_is(row, "status", "ok");
    return !is_ok && reason[0] != '\0'               ? reason
           : !is_ok                                  ? "it failed, and gives no reason"
           : !sm_rows_has(row, "loss_check")         ? "its loss was not checked"
           : !(sm_json_number(row, "median_ts") > 0) ? "it has no figure"
           : sm_doubt_row(row, doubt)                ? doubt
                                                     : "";
}

// Orders rows by work, then the fastest first.
static int by_work_and_speed(const void *a, const void *b) {
    const json_t *x = *(const json_t *const *)a, *y = *(const json_t *const *)b;
    const int work = sm_identity_order(x, y, competition);
    const double x_ts = sm_json_number(x, "median_ts");
    const double y_ts = sm_json_number(y, "median_ts");
    return work != 0 ? work : (x_ts < y_ts) - (x_ts > y_ts);
}

// --- a record --------------------------------------------------------------------------------------------

static void set_marks(const json_t *row, const json_t *best, bool is_reference, char marks[TEXT_SIZE]) {
    const char *noise = sm_rows_text(row, "noise_verdict");
    const char *all[] = {
        is_reference ? REFERENCE : "",
        sm_rows_own_code(row),
        json_is_true(json_object_get(row, "emulated")) ? "emulated" : "",
        strcmp(noise, "steady") != 0 ? noise : "",
        json_array_size(json_object_get(row, "warnings")) > 0 ? "warned" : "",
        agree(row, best, "data") ? "" : "other data",
    };
    marks[0] = '\0';
    for (size_t i = 0; i < SM_COUNT(all); i++) {
        sm_append_part(marks, TEXT_SIZE, ", ", all[i]);
    }
}

static bool holds(const json_t *rows, const json_t *row) { return sm_json_place(rows, row) > 0; }

// Fields that records and refused rows share.
static json_t *make_name(const json_t *row) {
    const char *device = SM_TEXT_IN(TEXT_SIZE, "%s %s%s", sm_rows_text(row, "device"), sm_rows_text(row, "isa"),
                                    sm_rows_text(row, "tier"));
    json_t *name =
        sm_json_copy(json_object(), row, "n_seq precision pass_type optimizer mode n_batch build_commit own_kernels");
    return sm_json_put(name, {"model", sm_json_text(SM_ROWS_MODEL(row))}, {"machine", sm_json_text(SM_ROWS_CHIP(row))},
                       {"host", sm_json_text(sm_rows_text(row, "context.host"))}, {"device", sm_json_text(device)});
}

// How the work of a row differs from that of an earlier one which the shown columns do not tell from it.
static void other_work(const json_t *const *sorted, size_t n_before, const json_t *row, char text[TEXT_SIZE]) {
    static const char *const shown[] = {"model_arch", "model_type", "n_seq", "pass_type", "precision", "optimizer"};
    bool alike = false;
    text[0] = '\0';
    for (size_t i = 0; i < n_before && !alike; i++) {
        alike = true;
        for (size_t k = 0; k < SM_COUNT(shown) && alike; k++) {
            alike = agree(sorted[i], row, shown[k]);
        }
        if (alike) {
            sm_identity_text(row, sorted[i], SM_PART(SM_IDENTITY_WORK), false, text, TEXT_SIZE);
        }
    }
}

static json_t *make_record(const json_t *row, const json_t *best, const char *work, int place, bool is_reference,
                           const sm_costs *costs) {
    char marks[TEXT_SIZE];
    const bool has_card = sm_rows_has(row, "gpu_info");
    const double memory_bytes = sm_json_number(row, has_card ? "device_peak_bytes" : "peak_rss_bytes");
    const sm_estimate rate = sm_row_rate(row);
    set_marks(row, best, is_reference, marks);
    return sm_json_put(make_name(row), {"reference", json_boolean(is_reference)}, {"place", sm_json_integer(place)},
                       {"work", sm_json_text(work)}, {"median_ts", sm_json_real(rate.value)},
                       {"lo_ts", sm_json_real(rate.lo)}, {"hi_ts", sm_json_real(rate.hi)},
                       {"noise_percent", sm_json_real(sm_json_number(row, "noise_percent"))},
                       {"mfu", sm_json_real(sm_json_number(row, "mfu"))},
                       {"tokens_per_joule", sm_json_real(1 / sm_json_number(row, "energy_per_token_j"))},
                       {"memory_bytes", sm_json_real(memory_bytes)}, {"bound", sm_json_text(SM_ROWS_BOUND(row))},
                       {"tokens_per_s_gib", sm_json_real(rate.value / (memory_bytes / gib))},
                       {"cost", sm_json_text(SM_COSTS_TEXT(costs, row, rate.value))}, {"marks", sm_json_text(marks)});
}

// Whether the same device of the same machine has a faster row for that work; a reference is nobody's machine.
static bool is_beaten(const json_t *const *sorted, const json_t *references, size_t first, size_t i) {
    static const char *const place[] = {"gpu_info", "cpu_info", "device", "context.host"};
    bool is_same = false;
    for (size_t k = first; k < i && !is_same; k++) {
        const bool has_card = sm_rows_has(sorted[i], "gpu_info");
        is_same = holds(references, sorted[k]) == holds(references, sorted[i]);
        for (size_t f = 0; f < SM_COUNT(place) && is_same; f++) {
            is_same = (has_card && f == 1) || // a card's host may have others
                      sm_rows_is(sorted[k], place[f], sm_rows_text(sorted[i], place[f]));
        }
    }
    return is_same;
}

static void write_places(const json_t *const *sorted, size_t n, const json_t *references, const sm_costs *costs,
                         json_t *records) {
    size_t first = 0;  // first row of the work
    size_t leader = 0; // first row of the place
    int n_before = 0, place = 0;
    char work[TEXT_SIZE] = "";
    for (size_t i = 0; i < n; i++) {
        if (sm_identity_order(sorted[first], sorted[i], competition) != 0) {
            first = i;
            n_before = 0;
            other_work(sorted, first, sorted[i], work);
        }
        if (is_beaten(sorted, references, first, i)) {
            continue;
        }
        if (n_before == 0 || !(sm_row_rate(sorted[i]).hi >= sm_row_rate(sorted[leader]).lo)) {
            place = n_before + 1;
            leader = i;
        }
        n_before++;
        const bool is_reference = holds(references, sorted[i]);
        json_array_append_new(records, make_record(sorted[i], sorted[first], work, place, is_reference, costs));
    }
}

// Divides rows into those that count, which are appended, and those that are refused. With `only_of_counted`, rows of
// work that no row before has are left out.
static void divide(const json_t *rows, bool only_of_counted, const json_t **counted, size_t *n, json_t *refused) {
    const size_t n_before = *n;
    SM_EACH(row, rows) {
        char doubt[SM_DOUBT_SIZE];
        const char *lack = lack_of(row, doubt);
        bool is_asked = !only_of_counted;
        for (size_t k = 0; k < n_before && !is_asked; k++) {
            is_asked = sm_identity_order(counted[k], row, competition) == 0;
        }
        if (is_asked && lack[0] == '\0') {
            counted[(*n)++] = row;
        } else if (is_asked) {
            json_array_append_new(refused, sm_json_put(make_name(row), {"status", sm_json_text(sm_rows_status(row))},
                                                       {"reason", sm_json_text(lack)}));
        }
    }
}

void sm_leaderboard_make(const json_t *rows, const json_t *references, const sm_costs *costs, json_t **records,
                         json_t **refused) {
    SM_FREED const json_t **counted =
        sm_malloc((json_array_size(rows) + json_array_size(references) + 1) * sizeof(*counted));
    size_t n = 0;
    *records = json_array();
    *refused = json_array();
    divide(rows, false, counted, &n, *refused);
    divide(references, json_array_size(rows) > 0, counted, &n, *refused);
    qsort(counted, n, sizeof(*counted), by_work_and_speed);
    write_places(counted, n, references, costs, *records);
}
