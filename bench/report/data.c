// data.c: the rows in a page, for its script to show and export.
#include <stdlib.h>
#include <string.h>

#include "bench/pages/page.h"
#include "bench/report/report.h"

// Limit over all rows. If there are more, rows with many samples keep every second, third, ... of them.
enum { MOST_SAMPLES = 150000, FEWEST_OF_A_ROW = 50, MOST_CONTEXTS = 64 };

// Fields that follow from others, or matter only on the measured machine.
static const char *const left_out[] = {"samples_ts", "losses", "warmup_samples_ns", "context", "backends"};
static const char *const left_out_of_context[] = {"load", "argv", "memory_available_bytes", "sensors_absent", "device"};

static bool is_listed(const char *const *list, size_t n, const char *name) {
    for (size_t i = 0; i < n; i++) {
        if (strcmp(list[i], name) == 0) {
            return true;
        }
    }
    return false;
}
#define IS_LISTED(list, name) is_listed(list, sizeof(list) / sizeof((list)[0]), name)

// Every n-th value, so that at most `most` remain.
static json_t *thinned(const json_t *samples, size_t most) {
    json_t *kept = json_array();
    size_t step = (json_array_size(samples) + most - 1) / most;
    for (size_t i = 0; i < json_array_size(samples); i += step) {
        if (json_array_append(kept, json_array_get(samples, i)) != 0) {
            json_decref(kept);
            return NULL;
        }
    }
    return kept;
}

// A copy without nulls, also in nested objects.
static json_t *without_nulls(const json_t *object, size_t most_samples) {
    json_t *copy = json_object();
    const char *name;
    json_t *value;
    int failed = copy == NULL;
    json_object_foreach((json_t *)object, name, value) {
        if (json_is_null(value) || IS_LISTED(left_out, name)) {
            continue;
        }
        bool is_long = json_array_size(value) > most_samples && strncmp(name, "samples", 7) == 0;
        json_t *kept = json_is_object(value) ? without_nulls(value, most_samples)
                       : is_long             ? thinned(value, most_samples)
                                             : json_incref(value);
        failed |= json_object_set_new(copy, name, kept) != 0;
    }
    if (failed) {
        json_decref(copy);
        return NULL;
    }
    return copy;
}

// The index of a machine's facts among those kept; SM_NO_ROW: none, or no room.
static int context_index(const json_t *row, json_t *contexts) {
    json_t *context = json_copy(json_object_get(row, "context"));
    int index = SM_NO_ROW;
    for (size_t i = 0; i < sizeof(left_out_of_context) / sizeof(left_out_of_context[0]) && context != NULL; i++) {
        json_object_del(context, left_out_of_context[i]);
    }
    int n = (int)json_array_size(contexts);
    for (int i = 0; i < n && index == SM_NO_ROW; i++) {
        index = json_equal(context, json_array_get(contexts, (size_t)i)) ? i : SM_NO_ROW;
    }
    if (json_is_object(context) && index == SM_NO_ROW && n < MOST_CONTEXTS &&
        json_array_append(contexts, context) == 0) {
        index = n;
    }
    json_decref(context);
    return index;
}

static int add_row(const sm_report_row *row, size_t most_samples, json_t *rows, json_t *contexts) {
    json_t *copy = without_nulls(row->json, most_samples);
    int context = context_index(row->json, contexts);
    if (copy == NULL || (context != SM_NO_ROW && json_object_set_new(copy, "context", json_integer(context)) != 0)) {
        json_decref(copy);
        return -1;
    }
    return json_array_append_new(rows, json_pack("{s:o, s:o, s:i, s:o}", "device", sm_json_bytes(row->device), "panel",
                                                 sm_json_bytes(row->panel), "colour", row->colour, "row", copy));
}

sm_status sm_report_data(const sm_report_rows *report, FILE *out) {
    size_t most = report->n > 0 ? MOST_SAMPLES / report->n : 0;
    most = most > FEWEST_OF_A_ROW ? most : FEWEST_OF_A_ROW;
    json_t *rows = json_array();
    json_t *contexts = json_array();
    int failed = rows == NULL || contexts == NULL;
    for (size_t i = 0; i < report->n && !failed; i++) {
        failed = add_row(&report->rows[i], most, rows, contexts);
    }
    json_t *data = failed ? NULL : json_pack("{s:O, s:O}", "rows", rows, "contexts", contexts);
    sm_status status =
        data != NULL ? sm_page_json(out, "row-data", data) : sm_fail(SM_ERR_OOM, "no memory for a page's rows");
    json_decref(data);
    json_decref(rows);
    json_decref(contexts);
    return status;
}
