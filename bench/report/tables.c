// tables.c: the text and tables of a report.
#include "bench/compare/best_rows.h"
#include "bench/report/report.h"
#include "bench/tables/layout.h"
#include "bench/tables/show.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_SIZE = 96, ROWS_SIZE = 96, DEVICES_SIZE = 768, DOUBT_SIZE = 1024, MAX_MACHINES = 32, MAX_FAILURES = 64 };

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
    sm_text_spread(spread_percent(row->json), text);
    sm_doc_cell(doc, "%s", text);
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

// The panel's rows with figures.
static size_t rows_of_panel(const sm_report_rows *report, int panel_id, const json_t **rows) {
    size_t n = 0;
    for (size_t i = 0; i < report->n; i++) {
        if (report->rows[i].usable && report->rows[i].panel_id == panel_id) {
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

static sm_status write_contests(sm_doc *doc, const sm_report_rows *report, const sm_report_panel *panel) {
    static const char *const names[] = {"throughput", "throughput per GiB", "steadiest"};
    sm_status status = SM_OK;
    sm_outcome o;
    const json_t **rows = calloc(report->n + 1, sizeof(*rows));
    if (rows == NULL) {
        return sm_fail(SM_ERR_OOM, "no memory for a report");
    }
    size_t n = rows_of_panel(report, panel->id, rows);
    for (int c = 0; c < SM_CONTEST_COUNT; c++) {
        SM_TRY_GOTO(sm_judge_contest(&sm_contests[c], rows, n, &o));
        if (o.first == NULL && !(sm_is_all_doubt(&o) && c == 0)) {
            continue; // a single one is not the best; and a missing verdict is reported once
        }
        sm_doc_row_begin(doc);
        sm_doc_cell(doc, "%s", panel->name);
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

void sm_report_begin(sm_doc *doc, const sm_report_rows *report) {
    size_t n_usable = 0;
    const char *first = "";
    const char *last = "";
    for (size_t i = 0; i < report->n; i++) {
        const char *when = sm_rows_text(report->rows[i].json, "test_time");
        n_usable += report->rows[i].usable;
        first = first[0] == '\0' || (when[0] != '\0' && strcmp(when, first) < 0) ? when : first;
        last = strcmp(when, last) > 0 ? when : last;
    }
    sm_doc_text(doc, "%zu row%s, %zu with figures, %zu without; %d device%s. Measured from %s to %s.", report->n,
                sm_plural(report->n), n_usable, report->n - n_usable, report->n_devices,
                sm_plural((size_t)report->n_devices), first[0] != '\0' ? first : "-", last[0] != '\0' ? last : "-");
}

sm_status sm_report_shortly(sm_doc *doc, const sm_report_rows *report) {
    int n = report->n_panels < SM_MAX_PANELS ? report->n_panels : SM_MAX_PANELS;
    if (n == 0) {
        sm_doc_text(doc, "No row has figures.");
        return SM_OK;
    }
    if (n < report->n_panels) {
        sm_doc_text(doc, "Of the %d combinations of model, length and pass type that have most rows:", n);
    }
    sm_doc_table_begin(doc, "work|best|configuration|#tokens/s|#step ms|#spread|#memory");
    for (int p = 0; p < n; p++) {
        SM_TRY(write_contests(doc, report, &report->panels[p]));
    }
    sm_doc_table_end(doc);
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
        char *text = sm_json_dump(value);
        sm_doc_cell(doc, "%s", text != NULL ? text : "");
        free(text);
    }
    sm_doc_row_end(doc);
}

static void write_facts(sm_doc *doc, const json_t *context, const char *title) {
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
    sm_doc_folded_begin(doc, title);
    sm_doc_table_begin(doc, "fact|value");
    for (size_t i = 0; i < sizeof(facts) / sizeof(facts[0]); i++) {
        fact(doc, facts[i][0], context, facts[i][1]);
    }
    sm_doc_table_end(doc);
    sm_doc_folded_end(doc);
}

static bool agree(const json_t *a, const json_t *b, const char *const *fields, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (strcmp(sm_rows_text(a, fields[i]), sm_rows_text(b, fields[i])) != 0) {
            return false;
        }
    }
    return true;
}

// A machine: facts from its first row, devices and builds from all its rows.
typedef struct {
    const json_t *context;
    size_t n_rows;
    char devices[DEVICES_SIZE];
    char builds[DEVICES_SIZE];
} machine;

static void note(char list[DEVICES_SIZE], const char *text) {
    size_t used = strlen(list);
    if (text[0] != '\0' && strstr(list, text) == NULL && used + strlen(text) + 3 < DEVICES_SIZE) {
        snprintf(list + used, DEVICES_SIZE - used, "%s%s", used > 0 ? "; " : "", text);
    }
}

static void note_device(machine *m, const json_t *context) {
    char text[DEVICES_SIZE / 4];
    const char *driver = sm_rows_text(context, "device.driver");
    snprintf(text, sizeof(text), "%.40s: %.70s%s%.60s", sm_rows_text(context, "device.id"),
             sm_rows_text(context, "device.name"), driver[0] != '\0' ? ", " : "", driver);
    note(m->devices, strlen(text) > 2 ? text : "");
    note(m->builds, sm_rows_text(context, "build_commit"));
}

// Returns the number of machines; there is room for MAX_MACHINES.
static int find_machines(const sm_report_rows *report, machine machines[MAX_MACHINES]) {
    static const char *const fields[] = {"host", "kernel", "cpu.name"};
    int n = 0;
    for (size_t i = 0; i < report->n; i++) {
        const json_t *context = sm_json_get(report->rows[i].json, "context");
        int k = 0;
        while (k < n && !agree(machines[k].context, context, fields, sizeof(fields) / sizeof(fields[0]))) {
            k++;
        }
        if (!json_is_object(context) || k == MAX_MACHINES) {
            continue;
        }
        if (k == n) {
            machines[n++] = (machine){.context = context};
        }
        machines[k].n_rows++;
        note_device(&machines[k], context);
    }
    return n;
}

static void write_machine(sm_doc *doc, const machine *m) {
    char memory[TEXT_SIZE];
    const char *host = sm_rows_text(m->context, "host");
    sm_text_bytes(sm_json_number(m->context, "memory_bytes"), memory, sizeof(memory));
    sm_doc_row_begin(doc);
    sm_doc_cell(doc, "%s", host[0] != '\0' ? host : "unnamed machine");
    sm_doc_cell(doc, "%s", sm_rows_text(m->context, "cpu.name"));
    sm_doc_number(doc, sm_json_number(m->context, "cpu.cores"), 0, "");
    sm_doc_cell(doc, "%s", memory);
    sm_doc_cell(doc, "%s", m->devices);
    sm_doc_cell(doc, "%s", sm_rows_text(m->context, "os"));
    sm_doc_cell(doc, "%s", m->builds);
    sm_doc_cell(doc, "%zu", m->n_rows);
    sm_doc_row_end(doc);
}

void sm_report_machines(sm_doc *doc, const sm_report_rows *report) {
    machine machines[MAX_MACHINES];
    int n = find_machines(report, machines);
    if (n == 0) {
        sm_doc_text(doc, "The rows hold no facts of a machine.");
        return;
    }
    sm_doc_table_begin(doc, "machine|processor|#cores|#memory|devices|system|build|#rows");
    for (int i = 0; i < n; i++) {
        write_machine(doc, &machines[i]);
    }
    sm_doc_table_end(doc);
    for (int i = 0; i < n; i++) {
        char title[DEVICES_SIZE];
        const char *host = sm_rows_text(machines[i].context, "host");
        snprintf(title, sizeof(title), "All facts of %.200s, as of its first row",
                 host[0] != '\0' ? host : "the unnamed machine");
        write_facts(doc, machines[i].context, title);
    }
}

// --- failures -----------------------------------------------------------------------------------

// Rows that failed alike: the same status, and reasons that differ only in figures.
typedef struct {
    const sm_report_row *first;
    const char *reason;
    size_t n_rows;
    char rows[ROWS_SIZE]; // their numbers, as far as there is room
} failure;

static void add_failure(failure failures[MAX_FAILURES], int *n, const sm_report_row *row) {
    const char *reason = sm_rows_text(row->json, "reason");
    int k = 0;
    while (k < *n &&
           (strcmp(failures[k].first->status, row->status) != 0 || !sm_same_but_figures(failures[k].reason, reason))) {
        k++;
    }
    if (k == MAX_FAILURES) {
        return;
    }
    if (k == *n) {
        failures[(*n)++] = (failure){.first = row, .reason = reason};
    }
    failure *f = &failures[k];
    size_t used = strlen(f->rows);
    f->n_rows++;
    if (used + 12 < sizeof(f->rows)) {
        snprintf(f->rows + used, sizeof(f->rows) - used, "%s%d", used > 0 ? ", " : "", row->index + 1);
    } else if (f->rows[used - 1] != '.') {
        snprintf(f->rows + used, sizeof(f->rows) - used, " ...");
    }
}

static void write_failure(sm_doc *doc, const failure *f) {
    char how[SM_SERIES_NAME_SIZE];
    const json_t *row = f->first->json;
    sm_doc_row_begin(doc);
    sm_doc_cell(doc, "%s", f->first->status);
    sm_doc_cell(doc, "%s", f->reason[0] != '\0' ? f->reason : "no reason given");
    sm_doc_cell(doc, "%zu", f->n_rows);
    sm_doc_cell(doc, "%s", f->rows);
    sm_rows_model(row, how, sizeof(how));
    sm_doc_cell(doc, "%s", how);
    sm_report_how(row, how, sizeof(how));
    sm_doc_cell(doc, "%s", sm_rows_text(row, "test"));
    sm_doc_cell(doc, "%s", how);
    sm_doc_row_end(doc);
}

sm_status sm_report_failures(sm_doc *doc, const sm_report_rows *report) {
    int n = 0;
    failure *failures = calloc(MAX_FAILURES, sizeof(*failures));
    if (failures == NULL) {
        return sm_fail(SM_ERR_OOM, "no memory for a report");
    }
    for (size_t i = 0; i < report->n; i++) {
        if (strcmp(report->rows[i].status, "ok") != 0) {
            add_failure(failures, &n, &report->rows[i]);
        }
    }
    if (n == 0) {
        sm_doc_text(doc, "Nothing: every row is ok.");
    } else {
        sm_doc_table_begin(doc, "status|reason of the first|#rows|which|model|test|configuration");
        for (int k = 0; k < n; k++) {
            write_failure(doc, &failures[k]);
        }
        sm_doc_table_end(doc);
    }
    free(failures);
    return SM_OK;
}
