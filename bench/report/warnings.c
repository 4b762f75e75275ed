// warnings.c: see report/warnings.h.
#include "bench/report/warnings.h"

#include <stdio.h>
#include <string.h>

#include "bench/tables/layout.h"

enum { MOST_NAMED = 12, NAMES_SIZE = 160 }; // rows listed for a warning

static int find(const sm_warning_groups *groups, const char *text) {
    int i = 0;
    while (i < groups->n && !sm_same_but_figures(groups->groups[i].text, text)) {
        i++;
    }
    return i;
}

int sm_warnings_of(const sm_warning_groups *groups, const json_t *row, int numbers[SM_MOST_WARNINGS]) {
    const json_t *warnings = sm_json_get(row, "warnings");
    int n = 0;
    for (size_t k = 0; k < json_array_size(warnings); k++) {
        const char *text = json_string_value(json_array_get(warnings, k));
        int i = text != NULL ? find(groups, text) : groups->n;
        bool is_new = i < groups->n;
        for (int j = 0; j < n && is_new; j++) {
            is_new = numbers[j] != i + 1;
        }
        if (is_new) {
            numbers[n++] = i + 1;
        }
    }
    return n;
}

static void add(sm_warning_groups *groups, const char *text) {
    int i = find(groups, text);
    if (i < groups->n) {
        groups->groups[i].has_variants |= strcmp(groups->groups[i].text, text) != 0;
    } else if (groups->n < SM_MOST_WARNINGS) {
        groups->groups[groups->n++] = (sm_warning_group){.text = text};
    }
}

void sm_warnings_group(const sm_report_rows *report, sm_warning_groups *groups) {
    groups->n = 0;
    for (size_t i = 0; i < report->n; i++) {
        int numbers[SM_MOST_WARNINGS];
        const json_t *warnings = sm_json_get(report->rows[i].json, "warnings");
        for (size_t k = 0; k < json_array_size(warnings); k++) {
            const char *text = json_string_value(json_array_get(warnings, k));
            if (text != NULL) {
                add(groups, text);
            }
        }
        int n = sm_warnings_of(groups, report->rows[i].json, numbers);
        for (int k = 0; k < n; k++) {
            groups->groups[numbers[k] - 1].n_rows++;
        }
    }
}

// "rows 3, 7 and 12 more"
static void name_rows(const sm_report_rows *report, const sm_warning_groups *groups, int number, char *names) {
    size_t n_named = 0;
    size_t used = 0;
    const size_t n_rows = groups->groups[number - 1].n_rows;
    for (size_t i = 0; i < report->n && n_named < MOST_NAMED; i++) {
        int numbers[SM_MOST_WARNINGS];
        int n = sm_warnings_of(groups, report->rows[i].json, numbers);
        for (int k = 0; k < n; k++) {
            if (numbers[k] == number) {
                used += (size_t)snprintf(names + used, NAMES_SIZE - used, "%s%zu", n_named > 0 ? ", " : "", i + 1);
                n_named++;
            }
        }
    }
    if (n_rows > n_named) {
        snprintf(names + used, NAMES_SIZE - used, " and %zu more", n_rows - n_named);
    }
}

void sm_warnings_write(sm_doc *doc, const sm_report_rows *report, const sm_warning_groups *groups,
                       const json_t *of_files) {
    if (groups->n == 0 && json_array_size(of_files) == 0) {
        sm_doc_text(doc, "None.");
        return;
    }
    sm_doc_items_begin(doc);
    for (size_t i = 0; i < json_array_size(of_files); i++) {
        sm_doc_item(doc, "%s", json_string_value(json_array_get(of_files, i)));
    }
    for (int i = 0; i < groups->n; i++) {
        const sm_warning_group *g = &groups->groups[i];
        char names[NAMES_SIZE] = "";
        name_rows(report, groups, i + 1, names);
        sm_doc_item(doc, "[%d] %s %s: %s%s", i + 1, g->n_rows == 1 ? "row" : "rows", names, g->text,
                    g->has_variants ? " (figures of the first)" : "");
    }
    sm_doc_items_end(doc);
}
