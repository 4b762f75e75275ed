// warnings.h: the warnings of many rows, joined if only their figures differ, each with a mark that its rows show.
#ifndef STEPMARK_BENCH_REPORT_WARNINGS_H
#define STEPMARK_BENCH_REPORT_WARNINGS_H

#include "bench/pages/doc.h"
#include "bench/report/rows.h"

enum { SM_MOST_WARNINGS = 99, SM_MARKS_SIZE = 128 };

typedef struct {
    const char *text; // of the first row that has it; owned by the row
    size_t n_rows;
    bool has_variants;
} sm_warning_group;

typedef struct {
    sm_warning_group groups[SM_MOST_WARNINGS];
    int n;
} sm_warning_groups;

void sm_warnings_group(const sm_report_rows *report, sm_warning_groups *groups);

// The numbers, from 1, of the groups of a row's warnings; returns how many.
int sm_warnings_of(const sm_warning_groups *groups, const json_t *row, int numbers[SM_MOST_WARNINGS]);

// The list: warnings of files first, then each group with its mark and rows.
void sm_warnings_write(sm_doc *doc, const sm_report_rows *report, const sm_warning_groups *groups,
                       const json_t *of_files);

#endif
