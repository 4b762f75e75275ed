// report.c: names rows, says which device is fastest, and gathers what a page of rows, or of a leaderboard, draws.
#include "bench/report/report.h"

#include "bench/loop/loop.h"
#include "bench/pages/page.h"

// The rows of a report: their names for readers, and whether they support a verdict.
//
//   work    what may be compared: the model and the work but for the batch: "small, 64 tokens, step"; of rows that ran
//           code of the user's own, apart: "..., own code"
//   device  which processor or card of which machine
//   doubt   why a row has no rank, reason or cost anywhere; "": it has

enum { NAME_SIZE = 160 };

// NaN if the row has no value.
typedef struct {
    const json_t *json;
    int index;
    const char *host;
    bool is_usable; // has figures
    char work[NAME_SIZE];
    char machine[NAME_SIZE]; // its processor or card; with the host's name if several hosts have it
    char device[NAME_SIZE];
    char doubt[SM_DOUBT_SIZE];
    double tokens_per_s, tokens_lo, tokens_hi; // the interval of the median, or the quartiles
} report_row;

typedef struct {
    report_row *rows;
    size_t n;
} report_rows;

// --- names ---------------------------------------------------------------------------------

static const char *device_of(const json_t *row) {
    const char *device = sm_rows_text(row, "device");
    const char *backend = sm_rows_text(row, "backend_used");
    return device[0] != '\0' ? device : backend[0] != '\0' ? backend : sm_rows_text(row, "backend");
}

// Two hosts with the same chip get their host names.
static void name_machines(report_rows *report) {
    for (size_t i = 0; i < report->n; i++) {
        sm_rows_chip(report->rows[i].json, report->rows[i].device, NAME_SIZE);
    }
    for (size_t i = 0; i < report->n; i++) {
        report_row *r = &report->rows[i];
        bool is_shared = false;
        for (size_t k = 0; k < report->n && !is_shared; k++) {
            is_shared = strcmp(report->rows[k].device, r->device) == 0 && strcmp(report->rows[k].host, r->host) != 0;
        }
        snprintf(r->machine, sizeof(r->machine), "%.90s", r->device);
        sm_append_part(r->machine, sizeof(r->machine), " of ", is_shared ? r->host : "");
    }
}

// The device: its machine, and which of its devices if the rows name several.
static void name_device(const report_rows *report, report_row *r) {
    const char *device = device_of(r->json);
    bool has_several = false;
    for (size_t i = 0; i < report->n && !has_several; i++) {
        has_several =
            strcmp(report->rows[i].machine, r->machine) == 0 && strcmp(device_of(report->rows[i].json), device) != 0;
    }
    snprintf(r->device, sizeof(r->device), "%s", r->machine);
    sm_append_part(r->device, sizeof(r->device), ", ", has_several || r->machine[0] == '\0' ? device : "");
    sm_append_part(r->device, sizeof(r->device), "", r->device[0] == '\0' ? "device not named" : "");
}

// --- works ---------------------------------------------------------------------------------

static void field_text(const json_t *row, int field, char text[SM_IDENTITY_VALUE_SIZE]) {
    const char *column = sm_model_field_get_info((sm_model_field)field)->column;
    text[0] = '\0';
    if (column != NULL) {
        sm_identity_value(row, &sm_row_table.columns[sm_table_find(&sm_row_table, column)], text);
    }
}

// {model's name: the fields of its config (bits) in which rows differ from its first}. The caller owns it.
static json_t *find_varied(const json_t *rows) {
    json_t *varied = json_object();
    SM_OWN(json_t) *first = json_object();
    SM_EACH(row, rows) {
        char other[SM_IDENTITY_VALUE_SIZE], own[SM_IDENTITY_VALUE_SIZE];
        const char *model = SM_ROWS_MODEL(row);
        json_int_t bits = json_integer_value(json_object_get(varied, model));
        if (json_object_get(first, model) == NULL) {
            json_object_set(first, model, row);
        }
        for (int d = 0; d < SM_MODEL_FIELD_COUNT; d++) {
            field_text(json_object_get(first, model), d, other);
            field_text(row, d, own);
            bits |= own[0] != '\0' && other[0] != '\0' && strcmp(own, other) != 0 ? 1 << d : 0;
        }
        json_object_set_new(varied, model, json_integer(bits));
    }
    return varied;
}

static void name_work(const json_t *varied, report_row *r) {
    char part[NAME_SIZE];
    const double n_accum = sm_json_number(r->json, "n_accum");
    const double n_seq = sm_json_number(r->json, "n_seq");
    const char *model = SM_ROWS_MODEL(r->json);
    const json_int_t bits = json_integer_value(json_object_get(varied, model));
    snprintf(r->work, sizeof(r->work), "%.60s", model[0] != '\0' ? model : "model not named");
    for (int d = 0; d < SM_MODEL_FIELD_COUNT; d++) {
        field_text(r->json, d, part);
        if ((bits & (1 << d)) != 0 && part[0] != '\0') {
            sm_append_part(r->work, sizeof(r->work), ", ", sm_model_field_get_info((sm_model_field)d)->heading);
            sm_append_part(r->work, sizeof(r->work), " ", part);
        }
    }
    const char *parts[][2] = {
        {", ", isfinite(n_seq) ? SM_TEXT_IN(32, "%.0f tokens", n_seq) : ""},
        {", ", sm_rows_text(r->json, "pass_type")},
        {", documents ", sm_rows_text(r->json, "documents")},
        {", ", sm_rows_own_code(r->json)},
        {", ", n_accum > 1 ? SM_TEXT_IN(32, "accumulation %.0f", n_accum) : ""},
    };
    for (size_t i = 0; i < SM_COUNT(parts); i++) {
        sm_append_part(r->work, sizeof(r->work), parts[i][0], parts[i][1]);
    }
}

// --- rows ----------------------------------------------------------------------------------

// A damaged or hostile row may hold values that no machine measures; a chart cannot scale to them.
static double plausible(double value) { return value >= 0 && value < 1e30 ? value : NAN; }

static double number(const json_t *row, const char *name) { return plausible(sm_json_number(row, name)); }

static void fill(const json_t *row, report_row *r) {
    const double tokens = number(row, "median_ts") * number(row, "median_ns");
    const double lo_ns = number(row, "ci95_lo_ns");
    const double hi_ns = number(row, "ci95_hi_ns");
    const bool has_interval = isfinite(lo_ns) && isfinite(hi_ns);
    r->json = row;
    r->host = sm_rows_text(row, "context.host");
    r->is_usable = sm_row_is_usable(row);
    r->tokens_per_s = number(row, "median_ts");
    r->tokens_lo = plausible(tokens / (has_interval ? hi_ns : number(row, "q3_ns")));
    r->tokens_hi = plausible(tokens / (has_interval ? lo_ns : number(row, "q1_ns")));
    if (!r->is_usable || !(r->tokens_per_s > 0)) {
        snprintf(r->doubt, sizeof(r->doubt), "no figures");
    } else if (sm_rows_own_code(row)[0] != '\0') {
        snprintf(r->doubt, sizeof(r->doubt), "own code: kernels or a backend of the user's own ran");
    } else if (!sm_doubt_row(row, r->doubt)) {
        r->doubt[0] = '\0';
    }
}

static void make_rows(const json_t *rows, report_rows *report) {
    SM_OWN(json_t) *varied = find_varied(rows);
    const size_t n = json_array_size(rows);
    *report = (report_rows){.rows = sm_calloc(n + 1, sizeof(*report->rows)), .n = n};
    for (size_t i = 0; i < n; i++) {
        fill(json_array_get(rows, i), &report->rows[i]);
        report->rows[i].index = (int)i;
        name_work(varied, &report->rows[i]);
    }
    name_machines(report);
    for (size_t i = 0; i < n; i++) {
        name_device(report, &report->rows[i]);
    }
}

static void free_rows(report_rows *report) { free(report->rows); }

enum { SETTING_SIZE = NAME_SIZE + 160 };

// --- the fastest of each device ----------------------------------------------------------------

static bool is_ranked(const report_row *row) { return row->doubt[0] == '\0'; }

static bool comes_before(const report_row *a, const report_row *b) {
    return is_ranked(a) != is_ranked(b) ? is_ranked(a) : a->tokens_per_s > b->tokens_per_s;
}

static bool has_figure(const report_row *row) { return row->is_usable && row->tokens_per_s > 0; }

// The work that most rows with figures did; NULL: no row has figures.
static const char *find_work(const report_rows *report) {
    const char *work = NULL;
    int most = 0;
    for (size_t i = 0; i < report->n; i++) {
        int n = 0;
        for (size_t k = 0; k < report->n; k++) {
            n += has_figure(&report->rows[k]) && strcmp(report->rows[k].work, report->rows[i].work) == 0;
        }
        work = n > most ? report->rows[i].work : work;
        most = n > most ? n : most;
    }
    return work;
}

// The fastest row of that work, a ranked one if there is any, on another device than `except`; NULL: none.
static const report_row *find_fastest(const report_rows *report, const char *work, const report_row *except) {
    const report_row *best = NULL;
    for (size_t i = 0; i < report->n; i++) {
        const report_row *row = &report->rows[i];
        const bool may_be = except == NULL || strcmp(row->device, except->device) != 0;
        best = may_be && has_figure(row) && strcmp(row->work, work) == 0 && (best == NULL || comes_before(row, best))
                   ? row
                   : best;
    }
    return best;
}

// --- the sentence ------------------------------------------------------------------------------

// "fused fp32, batch 4, 2 threads": without the device.
static void text_setting(const report_row *row, char *text, size_t size_bytes) {
    const double n_threads = sm_json_number(row->json, "n_threads");
    const double n_batch = sm_json_number(row->json, "n_batch");
    snprintf(text, size_bytes, "%s %s, batch ", SM_TEXT_MODE(row->json), SM_TEXT_PRECISION(row->json));
    sm_append(text, size_bytes, isfinite(n_batch) ? "%.0f" : "not named", n_batch);
    if (n_threads > 0 && !sm_rows_has(row->json, "gpu_info")) {
        sm_append(text, size_bytes, ", %.0f thread%s", n_threads, sm_plural((size_t)n_threads));
    }
}

// `b`: the fastest of another device, or NULL.
static void text_sentence(const char *work, const report_row *a, const report_row *b, char *text, size_t size_bytes) {
    char setting[SETTING_SIZE];
    const char *rate = SM_TEXT_COUNT(a->tokens_per_s);
    text_setting(a, setting, sizeof(setting));
    if (!is_ranked(a)) {
        snprintf(text, size_bytes, "No verdict for %s: %s.", work, a->doubt);
    } else if (b == NULL || !is_ranked(b)) {
        snprintf(text, size_bytes, "For %s, %s reaches %s tokens/s with %s%s.", work, a->device, rate, setting,
                 b != NULL ? "; the figures of the others support no verdict" : "");
    } else if (a->tokens_lo > b->tokens_hi) {
        snprintf(text, size_bytes, "For %s, %s is the fastest: %s tokens/s with %s, %.2f (%.2f to %.2f) times %s.",
                 work, a->device, rate, setting, a->tokens_per_s / b->tokens_per_s, a->tokens_lo / b->tokens_hi,
                 a->tokens_hi / b->tokens_lo, b->device);
    } else {
        snprintf(text, size_bytes, "For %s, no device is the fastest: %s (%s tokens/s, %s) is not told apart from %s.",
                 work, a->device, rate, setting, b->device);
    }
}

static const report_row *find_answer(const report_rows *report, const sm_costs *costs, char text[SM_ANSWER_SIZE],
                                     char reason[SM_ANSWER_SIZE]) {
    const char *work = find_work(report);
    const report_row *a = work != NULL ? find_fastest(report, work, NULL) : NULL;
    snprintf(text, SM_ANSWER_SIZE, "%s", report->n > 0 ? "No row has figures." : "");
    reason[0] = '\0';
    if (a != NULL) {
        text_sentence(work, a, find_fastest(report, work, a), text, SM_ANSWER_SIZE);
    }
    if (a == NULL || !is_ranked(a)) {
        return NULL;
    }
    const char *why = SM_ROWS_BOUND(a->json);
    const char *cost = SM_COSTS_TEXT(costs, a->json, a->tokens_per_s);
    snprintf(reason, SM_ANSWER_SIZE, why[0] != '\0' ? "It is %s." : "%s", why);
    sm_append_part(reason, SM_ANSWER_SIZE, " ", cost);
    sm_append(reason, SM_ANSWER_SIZE, "%s", cost[0] != '\0' ? "." : "");
    return a;
}

int sm_report_answer(const json_t *rows, const sm_costs *costs, char text[SM_ANSWER_SIZE],
                     char reason[SM_ANSWER_SIZE]) {
    SM_AT_END(free_rows) report_rows report = {0};
    make_rows(rows, &report);
    const report_row *row = find_answer(&report, costs, text, reason);
    return row != NULL ? row->index : -1;
}

enum { MOST_LOOPS = 24 };

// --- the rows, for the page's script to show and export -------------------------------------------

// Limit over all rows. If there are more, rows with many samples keep every second, third, ... of them.
enum { MOST_SAMPLES = 150000, FEWEST_OF_A_ROW = 50, MOST_CONTEXTS = 64, NO_CONTEXT = -1 };

// Fields that follow from others, or matter only on the measured machine.
static const char left_out[] = "samples_ts losses warmup_samples_ns context backends";
static const char *const left_out_of_context[] = {"load", "argv", "memory_available_bytes", "sensors_absent", "device"};

// Every n-th value, so that at most `most` remain.
static json_t *thinned(const json_t *samples, size_t most) {
    json_t *kept = json_array();
    const size_t step = (json_array_size(samples) + most - 1) / most;
    for (size_t i = 0; i < json_array_size(samples); i += step) {
        json_array_append(kept, json_array_get(samples, i));
    }
    return kept;
}

// A copy without nulls, also in nested objects.
static json_t *without_nulls(const json_t *object, size_t most_samples) {
    json_t *copy = json_object();
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)object, name, value) {
        if (json_is_null(value) || sm_is_word_of(name, left_out)) {
            continue;
        }
        const bool is_long = json_array_size(value) > most_samples && strncmp(name, "samples", 7) == 0;
        json_object_set_new(copy, name,
                            json_is_object(value) ? without_nulls(value, most_samples)
                            : is_long             ? thinned(value, most_samples)
                                                  : json_incref(value));
    }
    return copy;
}

// The index of a machine's facts among those kept; NO_CONTEXT: none, or no room.
static int context_index(const json_t *row, json_t *contexts) {
    SM_OWN(json_t) *context = json_copy(json_object_get(row, "context"));
    int index = NO_CONTEXT;
    for (size_t i = 0; i < SM_COUNT(left_out_of_context); i++) {
        json_object_del(context, left_out_of_context[i]);
    }
    int n = (int)json_array_size(contexts);
    for (int i = 0; i < n && index == NO_CONTEXT; i++) {
        index = json_equal(context, json_array_get(contexts, (size_t)i)) ? i : NO_CONTEXT;
    }
    if (json_is_object(context) && index == NO_CONTEXT && n < MOST_CONTEXTS &&
        json_array_append(contexts, context) == 0) {
        index = n;
    }
    return index;
}

// Sets the text, unless it is "".
static void set(json_t *entry, const char *name, const char *text) {
    if (text[0] != '\0') {
        json_object_set_new(entry, name, sm_json_bytes(text));
    }
}

// Only a row that supports a verdict has a reason and a cost.
static json_t *entry_of(const report_row *row, const sm_costs *costs, size_t most_samples, json_t *contexts) {
    json_t *copy = without_nulls(row->json, most_samples);
    const int context = context_index(row->json, contexts);
    if (context != NO_CONTEXT) {
        json_object_set_new(copy, "context", json_integer(context));
    }
    json_t *entry = json_pack("{s:o, s:o, s:o, s:b}", "row", copy, "device", sm_json_bytes(row->device), "work",
                              sm_json_bytes(row->work), "is_usable", row->is_usable);
    set(entry, "mode", SM_TEXT_MODE(row->json));
    set(entry, "precision", SM_TEXT_PRECISION(row->json));
    set(entry, "doubt", row->doubt);
    if (row->doubt[0] == '\0') {
        set(entry, "why", SM_ROWS_BOUND(row->json));
        set(entry, "cost", SM_COSTS_TEXT(costs, row->json, row->tokens_per_s));
    }
    return entry;
}

// [{row: {...}, device, work, mode, precision, doubt, why, cost}, ...]. row.context: an index into `contexts`, filled.
static json_t *make_data(const report_rows *report, const sm_costs *costs, json_t *contexts) {
    const size_t share = report->n > 0 ? MOST_SAMPLES / report->n : 0;
    json_t *rows = json_array();
    for (size_t i = 0; i < report->n; i++) {
        json_array_append_new(
            rows, entry_of(&report->rows[i], costs, share > FEWEST_OF_A_ROW ? share : FEWEST_OF_A_ROW, contexts));
    }
    return rows;
}

// --- the pages --------------------------------------------------------------------------------------

static bool is_loop(const report_row *row) { return row->is_usable && sm_json_number(row->json, "loop.wall_ns") > 0; }

// The first loop of the same work, which others are compared with; NULL: this is the first.
static const report_row *baseline_of(const report_rows *report, const report_row *row) {
    for (int i = 0; i < row->index; i++) {
        const report_row *other = &report->rows[i];
        if (is_loop(other) && strcmp(other->work, row->work) == 0 &&
            (sm_identity_difference(other->json, row->json) & SM_SAME_WORK) == 0) {
            return other;
        }
    }
    return NULL;
}

// [{row, baseline, phases: a table}, ...]
static json_t *make_loops(const report_rows *report) {
    json_t *loops = json_array();
    for (size_t i = 0; i < report->n && json_array_size(loops) < MOST_LOOPS; i++) {
        const report_row *row = &report->rows[i];
        if (is_loop(row)) {
            const report_row *baseline = baseline_of(report, row);
            SM_OWN(json_t) *records = sm_loop_records(row->json, baseline != NULL ? baseline->json : NULL);
            json_array_append_new(loops, json_pack("{s:i, s:o, s:o}", "row", row->index, "baseline",
                                                   baseline != NULL ? json_integer(baseline->index) : json_null(),
                                                   "phases", sm_page_table(&sm_loop_table, records)));
        }
    }
    return loops;
}

// The recommendations that have a winner, and the reason if nothing is the fastest; `report --best` prints all.
static json_t *best_of(const json_t *records) {
    json_t *best = json_array();
    SM_EACH(record, records) {
        const char *topic = sm_rows_text(record, "topic");
        if (strcmp(topic, "break-even") != 0 &&
            (strcmp(topic, "fastest") == 0 || sm_rows_has(record, "configuration"))) {
            json_array_append(best, record);
        }
    }
    return best;
}

sm_status sm_report_write(const sm_rows *rows, const sm_costs *costs, unsigned how, FILE *out) {
    char text[SM_ANSWER_SIZE], reason[SM_ANSWER_SIZE];
    SM_AT_END(free_rows) report_rows report = {0};
    make_rows(rows->rows, &report);
    (void)find_answer(&report, costs, text, reason);
    SM_OWN(json_t) *recommended = sm_recommend(rows->rows);
    SM_OWN(json_t) *best = best_of(recommended);
    SM_OWN(json_t) *loops = make_loops(&report);
    SM_OWN(json_t) *contexts = json_array();
    json_t *page = json_pack("{s:[o, o], s:o, s:o, s:o, s:O, s:O, s:o, s:O, s:O*}", "answer", sm_json_bytes(text),
                             sm_json_bytes(reason), "best", sm_page_table(&sm_recommend_table, best), "table",
                             sm_page_table(&sm_row_table, rows->rows), "rows", make_data(&report, costs, contexts),
                             "contexts", contexts, "loops", loops, "published", sm_bundle_published(), "warnings",
                             rows->warnings, "rungs", rows->rungs);
    sm_page_write(out, "stepmark: GPT-2 training steps", (const char *const[2]){"group.js", "report.js"}, how, page);
    return SM_OK;
}

sm_status sm_leaderboard_page(void *board, FILE *out) {
    json_t *records = json_array_get(board, 0), *refused = json_array_get(board, 1);
    json_t *page =
        json_pack("{s:O, s:o, s:o}", "records", records, "table", sm_page_table(&sm_leaderboard_table, records),
                  "refused", sm_page_table(&sm_leaderboard_refused_table, refused));
    sm_page_write(out, "stepmark: leaderboard of GPT-2 training steps", (const char *const[2]){"board.js"}, 0, page);
    return SM_OK;
}
