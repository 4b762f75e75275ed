// data.c: the rows in a page, for its script to show and export.
#include <string.h>

#include "bench/report/report.h"
#include "bench/tables/show.h"

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
    for (size_t i = 0; i < sizeof(left_out_of_context) / sizeof(left_out_of_context[0]); i++) {
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

// What is not "" is set.
static void set(json_t *entry, const char *name, const char *text) {
    if (text[0] != '\0') {
        json_object_set_new(entry, name, sm_json_bytes(text));
    }
}

// Only a row that supports a verdict has a reason and a cost.
static json_t *entry_of(const sm_report_row *row, const sm_costs *costs, size_t most_samples, json_t *contexts) {
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

json_t *sm_report_data(const sm_report_rows *report, const sm_costs *costs, json_t *contexts) {
    const size_t share = report->n > 0 ? MOST_SAMPLES / report->n : 0;
    json_t *rows = json_array();
    for (size_t i = 0; i < report->n; i++) {
        json_array_append_new(
            rows, entry_of(&report->rows[i], costs, share > FEWEST_OF_A_ROW ? share : FEWEST_OF_A_ROW, contexts));
    }
    return rows;
}
