// warnings.h: the warnings of many rows, joined where only their figures differ, with a mark by which the rows name
// them.
#ifndef STEPMARK_BENCH_REPORT_WARNINGS_H
#define STEPMARK_BENCH_REPORT_WARNINGS_H

#include "bench/pages/doc.h"
#include "bench/report/rows.h"

enum { SM_MOST_WARNINGS = 99, SM_MARKS_SIZE = 128 };

typedef struct {
    const char *text; // of the first row that has it; the row's
    size_t n_rows;
    bool has_variants;
} sm_warning_group;

typedef struct {
    sm_warning_group groups[SM_MOST_WARNINGS];
    int n;
} sm_warning_groups;

void sm_warnings_group(const sm_report_rows *report, sm_warning_groups *groups);

// Numbers from 1 of the groups that a row's warnings are of; how many there are is returned.
int sm_warnings_of(const sm_warning_groups *groups, const json_t *row, int numbers[SM_MOST_WARNINGS]);

// The list: those of the files first, then each group with its mark and the rows that have it.
void sm_warnings_write(sm_doc *doc, const sm_report_rows *report, const sm_warning_groups *groups,
                       const json_t *of_files);

#endif
