// report_tables.c: what a report says in words and tables.
#include "recommend.h"
#include "report.h"
#include "show.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_SIZE = 96, DOUBT_SIZE = 1024, FOLD_FROM = 40, MAX_MACHINES = 16, MAX_WARNINGS = 200 };

// --- in short ------------------------------------------------------------------------------------

static double spread_percent(const json_t *row) {
    return 100 * sm_json_number(row, "mad_ns") / sm_json_number(row, "median_ns");
}

static void write_best(sm_doc *doc, const sm_report_row *row) {
    char how[SM_SERIES_NAME_SIZE];
    char text[TEXT_SIZE];
    sm_report_how(row->json, how, sizeof(how));
    sm_report_batch(row, text, sizeof(text));
    sm_doc_cell(doc, "%s, %s", how, text);
    sm_text_count(row->tokens_per_s, text, sizeof(text));
    sm_doc_cell(doc, "%s", text);
    sm_text_ms(row->step_s * 1e9, text, sizeof(text));
    sm_doc_cell(doc, "%s", text);
    sm_doc_cell(doc, "%.1f%%", spread_percent(row->json));
    sm_text_bytes(row->memory_bytes, text, sizeof(text));
    sm_doc_cell(doc, "%s", text);
}

static void write_doubt(sm_doc *doc, const sm_contest *contest, const sm_outcome *o) {
    char text[DOUBT_SIZE];
    sm_recommend_doubt(contest, o, text, sizeof(text));
    sm_doc_cell(doc, "none: %s", text);
    for (int i = 0; i < 4; i++) {
        sm_doc_cell(doc, "-");
    }
}

// The panel's rows that have figures.
static size_t rows_of_panel(const sm_report_rows *report, const char *panel, const json_t **rows) {
    size_t n = 0;
    for (size_t i = 0; i < report->n; i++) {
        if (report->rows[i].usable && strcmp(report->rows[i].panel, panel) == 0) {
            rows[n++] = report->rows[i].json;
        }
    }
    return n;
}

static const sm_report_row *find_row(const sm_report_rows *report, const json_t *json) {
    size_t i = 0;
    while (report->rows[i].json != json) {
        i++;
    }
    return &report->rows[i];
}

static sm_status write_contests(sm_doc *doc, const sm_report_rows *report, const char *panel) {
    static const char *const names[] = {"throughput", "throughput per GiB", "steadiest"};
    sm_status status = SM_OK;
    sm_outcome o;
    const json_t **rows = calloc(report->n + 1, sizeof(*rows));
    if (rows == NULL) {
        return sm_fail(SM_ERR_OOM, "no memory for a report");
    }
    size_t n = rows_of_panel(report, panel, rows);
    for (int c = 0; c < SM_CONTEST_COUNT; c++) {
        SM_TRY_GOTO(sm_judge_contest(&sm_contests[c], rows, n, &o));
        if (o.first == NULL) {
            continue; // of one there is no best
        }
        sm_doc_row_begin(doc);
        sm_doc_cell(doc, "%s", panel);
        sm_doc_cell(doc, "%s", names[c]);
        if (sm_is_won(&o)) {
            write_best(doc, find_row(report, o.first));
        } else {
            write_doubt(doc, &sm_contests[c], &o);
        }
        sm_doc_row_end(doc);
    }
cleanup:
    free(rows);
    return status;
}

sm_status sm_report_shortly(sm_doc *doc, const sm_report_rows *report) {
    sm_names panels;
    size_t n_usable = 0;
    const char *first = "";
    const char *last = "";
    for (size_t i = 0; i < report->n; i++) {
        const char *when = sm_rows_text(report->rows[i].json, "test_time");
        n_usable += report->rows[i].usable;
        first = first[0] == '\0' || (when[0] != '\0' && strcmp(when, first) < 0) ? when : first;
        last = strcmp(when, last) > 0 ? when : last;
    }
    sm_doc_text(doc, "%zu rows, %zu of them with figures, %zu without. Measured from %s to %s.", report->n, n_usable,
                report->n - n_usable, first[0] != '\0' ? first : "-", last[0] != '\0' ? last : "-");
    sm_report_panels(report, &panels);
    if (panels.n == 0) {
        return SM_OK;
    }
    sm_doc_table_begin(doc, "work|best|configuration|#tokens/s|#step ms|#spread|#memory", NULL);
    for (int p = 0; p < panels.n; p++) {
        SM_TRY(write_contests(doc, report, panels.names[p]));
    }
    sm_doc_table_end(doc, false);
    return SM_OK;
}

// --- machines ------------------------------------------------------------------------------------

static void fact(sm_doc *doc, const char *name, const json_t *context, const char *field) {
    const json_t *value = sm_json_get(context, field);
    sm_doc_row_begin(doc);
    sm_doc_cell(doc, "%s", name);
    if (json_is_string(value)) {
        sm_doc_cell(doc, "%s", json_string_value(value));
    } else if (value == NULL || json_is_null(value)) {
        sm_doc_cell(doc, "not known");
    } else {
        char *text = sm_record_dump(value);
        sm_doc_cell(doc, "%s", text != NULL ? text : "");
        free(text);
    }
    sm_doc_row_end(doc);
}

static void write_machine(sm_doc *doc, const json_t *context) {
    static const char *const facts[][2] = {
        {"system", "os"},
        {"kernel", "kernel"},
        {"processor", "cpu.name"},
        {"sockets", "cpu.sockets"},
        {"cores", "cpu.cores"},
        {"threads allowed", "cpu.threads_allowed"},
        {"quota", "cpu.quota"},
        {"instruction sets", "cpu.isa"},
        {"governor", "cpu.governor"},
        {"virtual machine", "cpu.hypervisor"},
        {"caches", "cpu.caches"},
        {"load at the start", "load"},
        {"memory, bytes", "memory_bytes"},
        {"device", "device"},
        {"compiler", "compiler"},
        {"compiler flags", "compiler_flags"},
        {"build", "build_commit"},
        {"uncommitted changes", "build_dirty"},
        {"environment", "environment"},
        {"command line", "argv"},
    };
    const char *host = sm_rows_text(context, "host");
    sm_doc_subheading(doc, host[0] != '\0' ? host : "unnamed machine");
    sm_doc_table_begin(doc, "fact|value", NULL);
    for (size_t i = 0; i < sizeof(facts) / sizeof(facts[0]); i++) {
        fact(doc, facts[i][0], context, facts[i][1]);
    }
    sm_doc_table_end(doc, false);
}

// Two contexts are of one machine when these agree; load and command line may not.
static bool same_machine(const json_t *a, const json_t *b) {
    static const char *const fields[] = {"host", "kernel", "cpu.name", "device.id", "device.name", "build_commit"};
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        if (strcmp(sm_rows_text(a, fields[i]), sm_rows_text(b, fields[i])) != 0) {
            return false;
        }
    }
    return true;
}

void sm_report_machines(sm_doc *doc, const sm_report_rows *report) {
    const json_t *known[MAX_MACHINES];
    int n = 0;
    for (size_t i = 0; i < report->n && n < MAX_MACHINES; i++) {
        const json_t *context = sm_json_get(report->rows[i].json, "context");
        bool is_new = json_is_object(context);
        for (int k = 0; k < n && is_new; k++) {
            is_new = !same_machine(known[k], context);
        }
        if (is_new) {
            known[n++] = context;
            write_machine(doc, context);
        }
    }
    if (n == 0) {
        sm_doc_text(doc, "The rows hold no facts of a machine.");
    }
}

// --- rows ----------------------------------------------------------------------------------------

static void write_row(sm_doc *doc, const sm_report_row *row) {
    char text[SM_SERIES_NAME_SIZE];
    sm_doc_row_begin(doc);
    sm_rows_model(row->json, text, sizeof(text));
    sm_doc_cell(doc, "%s", text);
    sm_doc_cell(doc, "%s", sm_rows_text(row->json, "test"));
    sm_report_how(row->json, text, sizeof(text));
    sm_doc_cell(doc, "%s", text);
    sm_text_ms(row->step_s * 1e9, text, sizeof(text));
    sm_doc_cell(doc, "%s", row->usable ? text : "");
    sm_doc_number(doc, row->usable ? spread_percent(row->json) : NAN, 1, "%");
    sm_text_ms(sm_json_number(row->json, "ci95_lo_ns"), text, sizeof(text));
    sm_doc_cell(doc, "%s", text);
    sm_text_ms(sm_json_number(row->json, "ci95_hi_ns"), text, sizeof(text));
    sm_doc_cell(doc, "%s", text);
    sm_doc_cell(doc, "%zu", json_array_size(sm_json_get(row->json, "samples_ns")));
    sm_text_count(row->tokens_per_s, text, sizeof(text));
    sm_doc_cell(doc, "%s", row->usable ? text : "");
    double mfu = 100 * sm_json_number(row->json, "mfu");
    sm_doc_number(doc, mfu, 1, "%");
    sm_text_bytes(row->memory_bytes, text, sizeof(text));
    sm_doc_cell(doc, "%s", text);
    double loss = sm_json_number(row->json, "loss");
    sm_doc_number(doc, loss, 4, "");
    sm_noise noise = row->usable ? sm_judge_row(row->json) : SM_NOISE_STEADY;
    sm_doc_cell(doc, "%s%s", row->status,
                noise == SM_NOISE_NOISY     ? ", noisy"
                : noise == SM_NOISE_TOO_FEW ? ", few samples"
                                            : "");
    sm_doc_row_end(doc);
}

void sm_report_all_rows(sm_doc *doc, const sm_report_rows *report) {
    char title[TEXT_SIZE];
    bool folded = report->n > FOLD_FROM;
    snprintf(title, sizeof(title), "%zu rows", report->n);
    sm_doc_table_begin(doc,
                       "model|test|configuration|#step ms|#spread|#95% from|#to|#samples|#tokens/s|#% of "
                       "peak|#memory|#loss|status",
                       folded ? title : NULL);
    for (size_t i = 0; i < report->n; i++) {
        write_row(doc, &report->rows[i]);
    }
    sm_doc_table_end(doc, folded);
}

// --- failures, warnings --------------------------------------------------------------------------

void sm_report_failures(sm_doc *doc, const sm_report_rows *report) {
    size_t n = 0;
    char how[SM_SERIES_NAME_SIZE];
    for (size_t i = 0; i < report->n; i++) {
        n += strcmp(report->rows[i].status, "ok") != 0;
    }
    if (n == 0) {
        sm_doc_text(doc, "Nothing: every row is ok.");
        return;
    }
    sm_doc_table_begin(doc, "status|model|test|configuration|reason", NULL);
    for (size_t i = 0; i < report->n; i++) {
        const sm_report_row *row = &report->rows[i];
        if (strcmp(row->status, "ok") == 0) {
            continue;
        }
        const char *reason = sm_rows_text(row->json, "reason");
        sm_doc_row_begin(doc);
        sm_doc_cell(doc, "%s", row->status);
        sm_rows_model(row->json, how, sizeof(how));
        sm_doc_cell(doc, "%s", how);
        sm_report_how(row->json, how, sizeof(how));
        sm_doc_cell(doc, "%s", sm_rows_text(row->json, "test"));
        sm_doc_cell(doc, "%s", how);
        sm_doc_cell(doc, "%s", reason[0] != '\0' ? reason : "no reason given");
        sm_doc_row_end(doc);
    }
    sm_doc_table_end(doc, false);
}

// Counts each text: an object of text -> number of rows.
static sm_status count_warnings(const sm_report_rows *report, json_t *counts) {
    for (size_t i = 0; i < report->n; i++) {
        const json_t *warnings = sm_json_get(report->rows[i].json, "warnings");
        for (size_t k = 0; k < json_array_size(warnings); k++) {
            const char *text = json_string_value(json_array_get(warnings, k));
            json_int_t n = text != NULL ? json_integer_value(json_object_get(counts, text)) + 1 : 0;
            bool fits = n > 1 || json_object_size(counts) < MAX_WARNINGS;
            if (n > 0 && fits && json_object_set_new(counts, text, json_integer(n)) != 0) {
                return sm_fail(SM_ERR_OOM, "no memory to count warnings");
            }
        }
    }
    return SM_OK;
}

sm_status sm_report_warnings(sm_doc *doc, const sm_report_rows *report, const json_t *of_files) {
    json_t *counts = json_object();
    const char *text = NULL;
    json_t *count = NULL;
    sm_status status = SM_OK;
    SM_TRY_GOTO(counts != NULL ? count_warnings(report, counts) : sm_fail(SM_ERR_OOM, "no memory to count warnings"));
    if (json_object_size(counts) == 0 && json_array_size(of_files) == 0) {
        sm_doc_text(doc, "None.");
        goto cleanup;
    }
    sm_doc_items_begin(doc);
    for (size_t i = 0; i < json_array_size(of_files); i++) {
        sm_doc_item(doc, "%s", json_string_value(json_array_get(of_files, i)));
    }
    json_object_foreach(counts, text, count) {
        long long n = (long long)json_integer_value(count);
        sm_doc_item(doc, "%lld %s: %s", n, n == 1 ? "row" : "rows", text);
    }
    sm_doc_items_end(doc);
cleanup:
    json_decref(counts);
    return status;
}
