// comparison.c: the table of all rows of a report, by work, the fastest first. On the page it
// sorts and filters, omits columns that all rows share (they are listed above it), and a click on a line opens its row.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/compare/noise_verdict.h"
#include "bench/pages/page.h"
#include "bench/report/report.h"
#include "bench/rows/read_rows.h"
#include "bench/tables/layout.h"
#include "bench/tables/show.h"

enum { CELL_SIZE = 256 };

// A cell's text, and the number for sorting (NaN: sorts by the text).
typedef struct {
    char text[CELL_SIZE];
    double key;
} cell;

typedef struct {
    const char *heading;
    void (*fill)(const sm_report_row *row, cell *c);
    unsigned what;
} comparison_column;

enum {
    NUMBER = 1,
    FACET = 2,  // readers can filter by it
    ALWAYS = 4, // shown also if all rows share it
    PAPER = 8,  // printed
};

// --- cells -----------------------------------------------------------------------------------------

static void set_text(cell *c, const char *text) { snprintf(c->text, sizeof(c->text), "%s", text); }

static void set_count(cell *c, double value) {
    c->key = value;
    sm_text_count(value, c->text, sizeof(c->text));
}

static void fill_number(const sm_report_row *row, cell *c) { set_count(c, row->index + 1); }
static void fill_device(const sm_report_row *row, cell *c) { set_text(c, row->device); }
static void fill_kernels(const sm_report_row *row, cell *c) {
    const char *isa = sm_rows_text(row->json, "isa");
    const char *tier = sm_rows_text(row->json, "tier");
    snprintf(c->text, sizeof(c->text), "%.60s%s%.60s", isa, isa[0] != '\0' && tier[0] != '\0' ? " " : "", tier);
}
static void fill_model(const sm_report_row *row, cell *c) { sm_rows_model(row->json, c->text, sizeof(c->text)); }
static void fill_length(const sm_report_row *row, cell *c) { set_count(c, sm_json_number(row->json, "n_seq")); }
static void fill_batch(const sm_report_row *row, cell *c) { set_count(c, row->batch); }
static void fill_accum(const sm_report_row *row, cell *c) { set_count(c, sm_json_number(row->json, "n_accum")); }
static void fill_pass(const sm_report_row *row, cell *c) { set_text(c, sm_rows_text(row->json, "pass_type")); }
static void fill_mode(const sm_report_row *row, cell *c) { sm_text_mode(row->json, c->text, sizeof(c->text)); }
static void fill_precision(const sm_report_row *row, cell *c) {
    sm_text_precision(row->json, c->text, sizeof(c->text));
}
static void fill_attention(const sm_report_row *row, cell *c) { set_text(c, sm_rows_text(row->json, "attention")); }
static void fill_optimizer(const sm_report_row *row, cell *c) { set_text(c, sm_rows_text(row->json, "optimizer")); }
static void fill_threads(const sm_report_row *row, cell *c) { set_count(c, sm_json_number(row->json, "n_threads")); }

static void fill_rate(const sm_report_row *row, cell *c) {
    if (row->usable) {
        set_count(c, row->tokens_per_s);
    }
}

static void set_percent(cell *c, double value) {
    c->key = value;
    if (isfinite(value)) {
        snprintf(c->text, sizeof(c->text), "%.1f%%", value);
    }
}

static void set_spread(cell *c, double percent) {
    c->key = percent;
    sm_text_spread(percent, c->text);
}

static void fill_interval(const sm_report_row *row, cell *c) {
    if (row->usable) {
        set_spread(c, sm_json_number(row->json, "noise_percent"));
    }
}

static void fill_spread(const sm_report_row *row, cell *c) {
    if (row->usable) {
        set_spread(c, 100 * sm_json_number(row->json, "mad_ns") / sm_json_number(row->json, "median_ns"));
    }
}

static void fill_step(const sm_report_row *row, cell *c) {
    if (row->usable) {
        c->key = row->step_s;
        sm_text_ms(row->step_s * 1e9, c->text, sizeof(c->text));
    }
}

static void fill_samples(const sm_report_row *row, cell *c) {
    set_count(c, (double)json_array_size(sm_json_get(row->json, "samples_ns")));
}

static void fill_peak(const sm_report_row *row, cell *c) { set_percent(c, 100 * sm_json_number(row->json, "mfu")); }

static void fill_memory(const sm_report_row *row, cell *c) {
    c->key = row->memory_bytes;
    sm_text_bytes(row->memory_bytes, c->text, sizeof(c->text));
}

static void fill_loss(const sm_report_row *row, cell *c) {
    c->key = sm_json_number(row->json, "loss");
    if (isfinite(c->key)) {
        snprintf(c->text, sizeof(c->text), "%.4f", c->key);
    }
}

static void fill_status(const sm_report_row *row, cell *c) {
    sm_noise noise = row->usable ? sm_judge_row(row->json) : SM_NOISE_STEADY;
    snprintf(c->text, sizeof(c->text), "%.60s%s", row->status,
             noise == SM_NOISE_NOISY     ? ", noisy"
             : noise == SM_NOISE_TOO_FEW ? ", few samples"
                                         : "");
}

static const comparison_column columns[] = {
    {"#", fill_number, NUMBER | ALWAYS | PAPER},
    {"device", fill_device, FACET | ALWAYS | PAPER},
    {"model", fill_model, FACET | PAPER},
    {"T", fill_length, NUMBER | FACET | PAPER},
    {"B", fill_batch, NUMBER | FACET | PAPER},
    {"mode", fill_mode, FACET | PAPER},
    {"precision", fill_precision, FACET | PAPER},
    {"tokens/s", fill_rate, NUMBER | ALWAYS | PAPER},
    {"95% ±", fill_interval, NUMBER | ALWAYS | PAPER},
    {"step ms", fill_step, NUMBER | ALWAYS | PAPER},
    {"% of peak", fill_peak, NUMBER | ALWAYS | PAPER},
    {"memory", fill_memory, NUMBER | ALWAYS | PAPER},
    {"status", fill_status, FACET | ALWAYS | PAPER},
    {"pass", fill_pass, FACET | PAPER},
    {"threads", fill_threads, NUMBER | FACET},
    {"kernels", fill_kernels, FACET},
    {"attention", fill_attention, FACET},
    {"optimizer", fill_optimizer, FACET},
    {"micro-batches", fill_accum, NUMBER | FACET},
    {"spread", fill_spread, NUMBER | ALWAYS},
    {"samples", fill_samples, NUMBER},
    {"loss", fill_loss, NUMBER},
};
enum { N_COLUMNS = sizeof(columns) / sizeof(columns[0]) };

static bool is(int column, unsigned what) { return (columns[column].what & what) != 0; }

static void fill(const sm_report_row *row, int column, cell *c) {
    *c = (cell){.key = NAN};
    columns[column].fill(row, c);
}

// Chooses the columns in which rows differ; those that all share go to `common`.
static void choose_columns(const sm_report_rows *report, bool shown[N_COLUMNS], char *common, size_t size_bytes) {
    size_t used = 0;
    common[0] = '\0';
    for (int k = 0; k < N_COLUMNS; k++) {
        cell first = {.key = NAN};
        cell other;
        bool varied = false;
        for (size_t i = 0; i < report->n && !varied; i++) {
            fill(&report->rows[i], k, i == 0 ? &first : &other);
            varied = i > 0 && strcmp(first.text, other.text) != 0;
        }
        shown[k] = is(k, ALWAYS) || varied;
        if (!shown[k] && first.text[0] != '\0' && is(k, FACET) && used < size_bytes) {
            used += (size_t)snprintf(common + used, size_bytes - used, "%s%s %s", used > 0 ? ", " : "",
                                     columns[k].heading, first.text);
        }
    }
}

// --- the page's ------------------------------------------------------------------------------------

static const char *tone(const sm_report_row *row, const char *text) {
    return strcmp(row->status, "ok") != 0 ? "bad" : strcmp(text, "ok") != 0 ? "warn" : "good";
}

static void put_marks(FILE *out, const sm_warning_groups *warnings, const json_t *row) {
    int numbers[SM_MOST_WARNINGS];
    int n = sm_warnings_of(warnings, row, numbers);
    for (int k = 0; k < n; k++) {
        fprintf(out, " <a href=\"#warnings\">[%d]</a>", numbers[k]);
    }
}

// Tokens/s of the fastest row of the same work.
static double most_of_work(const sm_report_rows *report, const sm_report_row *row) {
    for (int p = 0; p < report->n_panels; p++) {
        if (report->panels[p].id == row->panel_id) {
            return report->panels[p].most_tokens_per_s;
        }
    }
    return NAN;
}

static void put_cell(FILE *out, const sm_report_rows *report, const sm_report_row *row, int k,
                     const sm_warning_groups *warnings) {
    cell c;
    fill(row, k, &c);
    bool is_status = columns[k].fill == fill_status;
    bool is_rate = columns[k].fill == fill_rate && isfinite(c.key);
    fputs(is_rate                          ? "<td class=\"n bar\""
          : is(k, NUMBER)                  ? "<td class=n"
          : columns[k].fill == fill_device ? "<td class=name"
                                           : "<td",
          out);
    if (isfinite(c.key) && c.text[0] != '\0' && !is(k, FACET)) {
        fprintf(out, " data-v=%.6g", c.key);
    }
    if (is_status) {
        fputs(" data-v=\"", out);
        sm_page_text(out, c.text);
        fputc('"', out);
    }
    if (is_rate) {
        fprintf(out, " style=--w:%.1f%%", 100 * c.key / most_of_work(report, row));
    }
    fputc('>', out);
    if (columns[k].fill == fill_device) {
        fprintf(out, "<i class=dot style=color:var(--s%d)></i>", (row->colour - 1) % 12 + 1);
    }
    if (is_status) {
        fprintf(out, "<span class=%s>", tone(row, c.text));
    }
    sm_page_text(out, c.text[0] != '\0' ? c.text : "-");
    if (is_status) {
        fputs("</span>", out);
        put_marks(out, warnings, row->json);
    }
}

// Hides columns in print, by their index.
static void put_paper_style(FILE *out, const bool shown[N_COLUMNS]) {
    int place = 0;
    fputs("<style>@media print{", out);
    for (int k = 0; k < N_COLUMNS; k++) {
        place += shown[k];
        if (shown[k] && !is(k, PAPER)) {
            fprintf(out, "#comparison :is(th,td):nth-child(%d){display:none}", place);
        }
    }
    fputs("}</style>\n", out);
}

static void put_head(FILE *out, const bool shown[N_COLUMNS]) {
    put_paper_style(out, shown);
    fputs("<div class=\"wide tall\" id=\"comparison\"><table class=\"sorts-by\"><thead><tr>", out);
    for (int k = 0; k < N_COLUMNS; k++) {
        if (shown[k]) {
            fprintf(out, "<th%s%s%s>", is(k, NUMBER) ? " class=n" : "", is(k, FACET) ? " data-facet" : "",
                    columns[k].heading[0] == '#'
                        ? " title=\"number in the order measured: stepmark compare FILE#N\""
                        : "");
            sm_page_text(out, columns[k].heading);
            fputs("</th>", out);
        }
    }
    fputs("</tr></thead>\n<tbody>\n", out);
}

static void write_html(sm_doc *doc, const sm_report_rows *report, const sm_report_row **rows,
                       const bool shown[N_COLUMNS], const sm_warning_groups *warnings) {
    put_head(doc->out, shown);
    for (size_t i = 0; i < report->n; i++) {
        const sm_report_row *row = rows[i];
        fprintf(doc->out, "<tr data-row=%d>", row->index);
        for (int k = 0; k < N_COLUMNS; k++) {
            if (shown[k]) {
                put_cell(doc->out, report, row, k, warnings);
            }
        }
        fputc('\n', doc->out);
    }
    fputs("</tbody></table></div>\n", doc->out);
}

// --- Markdown's --------------------------------------------------------------------------------------

static void write_markdown(sm_doc *doc, const sm_report_rows *report, const sm_report_row **rows,
                           const bool shown[N_COLUMNS], const sm_warning_groups *warnings) {
    char headings[CELL_SIZE * 2] = "";
    size_t used = 0;
    for (int k = 0; k < N_COLUMNS; k++) {
        if (shown[k]) {
            used += (size_t)snprintf(headings + used, sizeof(headings) - used, "%s%s%s", used > 0 ? "|" : "",
                                     is(k, NUMBER) ? "#" : "", columns[k].heading);
        }
    }
    sm_doc_table_begin(doc, headings);
    for (size_t i = 0; i < report->n; i++) {
        int numbers[SM_MOST_WARNINGS];
        int n = sm_warnings_of(warnings, rows[i]->json, numbers);
        sm_doc_row_begin(doc);
        for (int k = 0; k < N_COLUMNS; k++) {
            cell c;
            fill(rows[i], k, &c);
            size_t length = strlen(c.text);
            for (int w = 0; w < n && columns[k].fill == fill_status; w++) {
                length += (size_t)snprintf(c.text + length, sizeof(c.text) - length, " [%d]", numbers[w]);
            }
            if (shown[k]) {
                sm_doc_cell(doc, "%s", c.text);
            }
        }
        sm_doc_row_end(doc);
    }
    sm_doc_table_end(doc);
}

// By work, the fastest first, rows without figures last.
static int by_speed(const void *a, const void *b) {
    const sm_report_row *x = *(const sm_report_row *const *)a;
    const sm_report_row *y = *(const sm_report_row *const *)b;
    if (x->usable != y->usable) {
        return x->usable ? -1 : 1;
    }
    if (x->panel_id != y->panel_id) {
        return x->panel_id - y->panel_id;
    }
    if (x->usable && x->tokens_per_s != y->tokens_per_s) {
        return x->tokens_per_s > y->tokens_per_s ? -1 : 1;
    }
    return x->index - y->index;
}

sm_status sm_report_comparison(sm_doc *doc, const sm_report_rows *report, const sm_warning_groups *warnings) {
    bool shown[N_COLUMNS];
    char common[4 * CELL_SIZE];
    choose_columns(report, shown, common, sizeof(common));
    if (common[0] != '\0' && report->n > 1) {
        sm_doc_text(doc, "All rows: %s.", common);
    } else if (common[0] != '\0') {
        sm_doc_text(doc, "%s.", common);
    }
    const sm_report_row **rows = malloc((report->n + 1) * sizeof(const sm_report_row *));
    if (rows == NULL) {
        return sm_fail(SM_ERR_OOM, "no memory for a report");
    }
    for (size_t i = 0; i < report->n; i++) {
        rows[i] = &report->rows[i];
    }
    qsort(rows, report->n, sizeof(const sm_report_row *), by_speed);
    (doc->html ? write_html : write_markdown)(doc, report, rows, shown, warnings);
    free(rows);
    return SM_OK;
}
