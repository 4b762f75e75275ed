// board.c: see board.h.
#include "bench/score/board.h"

#include "bench/compare/noise_verdict.h"
#include "bench/rows/read_rows.h"
#include "bench/score/score.h"
#include "bench/tables/show.h"

#include <stdlib.h>
#include <string.h>

#define TEXT(field, text, head, its_rank) \
    { SM_COLUMN(field, SM_COLUMN_TEXT, "", text), .heading = head, .rank = its_rank }

static void show_rate(const json_t *record, const sm_column *column, char *text, size_t size_bytes) {
    sm_text_count(sm_json_number(record, column->name), text, size_bytes);
    if (text[0] != '\0') {
        sm_append_spread(sm_json_number(record, "noise_percent"), text, size_bytes);
    }
}

static const sm_column columns[] = {
    TEXT("class", "fp32, or any: all other formats", "class", SM_RANK_ALWAYS),
    {SM_COLUMN("place", SM_COLUMN_INTEGER, "", "in that class, by tokens/s; null: does not count"), .heading = "#",
     .rank = SM_RANK_ALWAYS},
    TEXT("machine", "processor or card that ran", "machine", SM_RANK_ALWAYS),
    {SM_COLUMN("n_threads", SM_COLUMN_INTEGER, "", "threads, of a processor"), .heading = "threads", .rank = 6},
    {SM_COLUMN("median_ts", SM_COLUMN_REAL, "tokens/s", "at the median step"), .heading = "tokens/s", .show = show_rate,
     .rank = SM_RANK_ALWAYS},
    {SM_COLUMN("noise_percent", SM_COLUMN_REAL, "%", "how far its 95% interval reaches")},
    TEXT("precision", "number format", "format", 8),
    {SM_COLUMN("mfu", SM_COLUMN_REAL, "", "share of the peak that was measured"), .heading = "% of peak",
     .show = sm_show_percent, .rank = 7},
    {SM_COLUMN("datasheet_mfu", SM_COLUMN_REAL, "", "share of the maker's figure"), .heading = "% of datasheet",
     .show = sm_show_percent, .rank = 4},
    {SM_COLUMN("n_batch", SM_COLUMN_INTEGER, "", "B, sequences a step"), .heading = "B", .rank = 3},
    TEXT("program", "backend, or program, that ran", "by", 5),
    TEXT("system", "operating system", "system", 1),
    TEXT("date", "start, UTC", "date", 2),
    {SM_COLUMN("block", SM_COLUMN_INTEGER, "", "line of its block in its file; null: a result file")},
    TEXT("reason", "why it does not count", "does not count", SM_RANK_ALWAYS),
};

const sm_table sm_score_table = {"scores", columns, sizeof(columns) / sizeof(columns[0])};

bool sm_score_has_blocks(const json_t *rows) {
    bool found = false;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        found = found || sm_json_get(json_array_get(rows, i), "block") != NULL;
    }
    return found;
}

static json_t *make_record(const json_t *row, const json_t *references) {
    static const char *const copied[] = {"n_threads", "median_ts",     "noise_percent", "precision",
                                         "mfu",       "datasheet_mfu", "n_batch",       "block"};
    char text[SM_SCORE_TEXT_SIZE];
    char doubt[SM_DOUBT_SIZE];
    json_t *record = json_object();
    const char *precision = sm_rows_text(row, "precision");
    for (size_t i = 0; i < sizeof(copied) / sizeof(copied[0]); i++) {
        json_t *value = sm_json_get(row, copied[i]);
        sm_json_set_new(record, copied[i], value != NULL ? json_incref(value) : json_null());
    }
    sm_json_set_new(record, "class", json_string(strcmp(precision, "fp32") == 0 ? "fp32" : "any"));
    sm_rows_chip(row, text, sizeof(text));
    sm_json_set_new(record, "machine", sm_json_text(text));
    sm_json_set_new(record, "program", sm_json_text(sm_rows_text(row, "backend_used")));
    sm_json_set_new(record, "system", sm_json_text(sm_rows_text(row, "context.os")));
    snprintf(text, sizeof(text), "%.10s", sm_rows_text(row, "test_time"));
    sm_json_set_new(record, "date", sm_json_text(text));
    if (sm_score_lacks(row, references, text)) {
        sm_json_set_new(record, "median_ts", json_null());
        sm_json_set_new(record, "reason", sm_json_text(text));
    } else if (sm_doubt_row(row, doubt)) {
        snprintf(text, sizeof(text), "%.250s", doubt);
        sm_json_set_new(record, "reason", sm_json_text(text));
    }
    return record;
}

static bool counts(const json_t *record) { return sm_rows_text(record, "reason")[0] == '\0'; }

static int by_place(const void *a, const void *b) {
    const json_t *x = *(const json_t *const *)a;
    const json_t *y = *(const json_t *const *)b;
    const double x_ts = sm_json_number(x, "median_ts");
    const double y_ts = sm_json_number(y, "median_ts");
    const int by_class = strcmp(sm_rows_text(y, "class"), sm_rows_text(x, "class"));
    return counts(x) != counts(y) ? counts(y) - counts(x) : by_class != 0 ? by_class : (x_ts < y_ts) - (x_ts > y_ts);
}

// A block that was quoted: the same row, in another line.
static bool is_repeated(const json_t *rows, size_t i) {
    json_t *row = json_copy(json_array_get(rows, i));
    bool found = false;
    json_object_del(row, "block");
    for (size_t k = 0; k < i && !found; k++) {
        json_t *other = json_copy(json_array_get(rows, k));
        json_object_del(other, "block");
        found = json_equal(row, other);
        json_decref(other);
    }
    json_decref(row);
    return found;
}

json_t *sm_score_board(const json_t *rows, const json_t *references) {
    size_t n = 0;
    json_t **records = sm_malloc((json_array_size(rows) + 1) * sizeof(*records));
    json_t *board = json_array();
    int place = 0;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        if (!is_repeated(rows, i)) {
            records[n++] = make_record(json_array_get(rows, i), references);
        }
    }
    qsort(records, n, sizeof(json_t *), by_place);
    for (size_t i = 0; i < n; i++) {
        const bool is_next =
            i > 0 && strcmp(sm_rows_text(records[i], "class"), sm_rows_text(records[i - 1], "class")) == 0;
        place = is_next ? place + 1 : 1;
        sm_json_set_new(records[i], "place", counts(records[i]) ? sm_json_integer(place) : json_null());
        json_array_append_new(board, records[i]);
    }
    free(records);
    return board;
}
