// board.c: see score.h.
#include "bench/score/score.h"

#include "bench/compare/compare.h"
#include "bench/rows/read_rows.h"
#include "bench/tables/show.h"

#include <stdlib.h>
#include <string.h>

enum { MACHINE_WIDTH = 40 };

static const sm_column columns[] = {
    SM_TEXT("class", "fp32, or any: all other formats", .heading = "class", .rank = SM_RANK_ALWAYS),
    SM_INTEGER("place", "", "in that class, by tokens/s; null: does not count", .heading = "#", .rank = SM_RANK_ALWAYS),
    SM_TEXT("machine", "processor or card that ran, with its cores, or the program", .heading = "machine",
            .rank = SM_RANK_ALWAYS),
    SM_TEXT("whose", "yours: of a result file; else of a block", .heading = "whose", .rank = SM_RANK_ALWAYS),
    SM_INTEGER("n_threads", "", "threads, of a processor", .heading = "threads", .rank = 6),
    SM_REAL("median_ts", "tokens/s", "at the median step", .heading = "tokens/s", .show = sm_show_rate,
            .rank = SM_RANK_ALWAYS),
    SM_REAL("noise_percent", "%", "how far its 95% interval reaches"),
    SM_TEXT("precision", "number format", .heading = "format", .rank = 8),
    SM_REAL("mfu", "", "share of the peak that was measured", .heading = "% of peak", .show = sm_show_percent,
            .rank = 7),
    SM_REAL("datasheet_mfu", "", "share of the maker's figure", .heading = "% of datasheet", .show = sm_show_percent,
            .rank = 4),
    SM_INTEGER("n_batch", "", "B, sequences a step", .heading = "B", .rank = 3),
    SM_TEXT("program", "backend, or program, that ran", .heading = "by", .rank = 5),
    SM_TEXT("system", "operating system", .heading = "system", .rank = 1),
    SM_TEXT("date", "start, UTC", .heading = "date", .rank = 2),
    SM_INTEGER("block", "", "line of its block in its file; null: a result file"),
    SM_TEXT("reason", "why it does not count", .heading = "does not count", .rank = SM_RANK_ALWAYS),
};

const sm_table sm_score_table = {"scores", columns, SM_COUNT(columns)};

bool sm_score_has_blocks(const json_t *rows) {
    bool found = false;
    SM_EACH(row, rows) { found = found || sm_json_get(row, "block") != NULL; }
    return found;
}

static json_t *make_record(const json_t *row, const json_t *references) {
    char machine[SM_SCORE_TEXT_SIZE];
    char text[SM_SCORE_TEXT_SIZE];
    char doubt[SM_DOUBT_SIZE];
    sm_block_machine(row, MACHINE_WIDTH, machine, sizeof(machine));
    json_t *record =
        sm_json_copy(json_object(), row, "n_threads median_ts noise_percent precision mfu datasheet_mfu n_batch block");
    sm_json_put(record, {"program", sm_json_text(sm_rows_text(row, "backend_used"))},
                {"system", sm_json_text(sm_rows_text(row, "context.os"))},
                {"class", json_string(strcmp(sm_rows_text(row, "precision"), "fp32") == 0 ? "fp32" : "any")},
                {"machine", sm_json_bytes(machine)},
                {"date", sm_json_text(SM_TEXT_IN(16, "%.10s", sm_rows_text(row, "test_time")))},
                {"whose", json_string(sm_json_get(row, "block") != NULL ? "a block" : "yours")});
    if (sm_score_lacks(row, references, text)) {
        sm_json_set_new(record, "median_ts", json_null());
        sm_json_set_new(record, "reason", sm_json_text(text));
    } else if (sm_doubt_row(row, doubt)) {
        doubt[strcspn(doubt, ";")] = '\0'; // without what to do
        sm_json_set_new(record, "reason", sm_json_text(doubt));
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

json_t *sm_score_board(const json_t *rows, const json_t *references) {
    size_t n = 0;
    json_t **records = sm_malloc((json_array_size(rows) + 1) * sizeof(*records));
    json_t *board = json_array();
    SM_OWN(json_t) *seen = json_object();
    int place = 0;
    for (int pass = 0; pass < 2; pass++) { // the user's own first
        SM_EACH(row, rows) {
            json_t *record = (sm_json_get(row, "block") != NULL) == (pass == 1) ? make_record(row, references) : NULL;
            if (record == NULL) {
                continue;
            }
            // A block is quoted, or is of a row that is there, too.
            const char *key = SM_TEXT_IN(1024, "%s|%s|%s|%s|%.0f|%.6g|%s", sm_rows_text(row, "test_time"),
                                         sm_rows_text(row, "device"), sm_rows_text(record, "machine"),
                                         sm_rows_text(row, "precision"), sm_json_number(row, "median_ns"),
                                         sm_json_number(row, "median_ts"), sm_rows_text(record, "reason"));
            if (json_object_get(seen, key) == NULL) {
                records[n++] = json_incref(record);
            }
            json_object_set_new(seen, key, record); // its name has dots
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

void sm_score_yours(const json_t *rows, const json_t *references, char text[SM_SCORE_TEXT_SIZE]) {
    SM_OWN(json_t) *own = json_array();
    SM_OWN(json_t) *others = json_array();
    SM_EACH(row, rows) {
        if (!sm_score_lacks(row, references, text) && !SM_IS_DOUBTED(row)) {
            json_array_append(sm_json_get(row, "block") != NULL ? others : own, row);
        }
    }
    sm_score_standing(own, others, text);
}
