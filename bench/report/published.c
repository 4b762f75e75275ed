// published.c: published tables of GPT-2 steps, and this report's rows next to them, with a note on the published work,
// since the headings do not name it.
#include "bench/report/report.h"
#include "bench/tables/show.h"

#include <math.h>
#include <string.h>

enum { N_SIZES = 5, TEXT_SIZE = 96, MAX_OF_A_SIZE = 4 };

static const char *const sizes[N_SIZES] = {"small", "medium", "large", "xl", "2.7B"};

// Milliseconds, mean ± standard deviation; NaN: it did not run.
typedef struct {
    double mean, stddev;
    const char *note;
} published;

// RTX 4090 laptop GPU, context 512, batch 4, 5 warm-up steps, 10 measured: forward and backward.
static const published by_size[N_SIZES] = {
    {308.03, 17.85, ""}, {928.49, 9.42, ""}, {17800, 1040, "memory was paging"}, {NAN, NAN, "OOM"}, {NAN, NAN, "OOM"},
};

// Tesla P100, vocabulary 10,000, batch 4, context 128, 5 warm-up (forward only), 10 timed. Its column
// "backward" is forward and backward together.
static const published p100_forward[N_SIZES] = {
    {35, 5, ""}, {70, 10, ""}, {103, 10, ""}, {178, 1, ""}, {NAN, NAN, "OOM"},
};
static const published p100_both[N_SIZES] = {
    {95, 68, ""}, {190, 56, ""}, {360, 52, ""}, {NAN, NAN, "OOM"}, {NAN, NAN, "OOM"},
};

// "308 ± 17.9", "17,800 ± 1,040".
static void spread_text(double mean_ms, double stddev_ms, char text[TEXT_SIZE]) {
    char mean[TEXT_SIZE / 3];
    char stddev[TEXT_SIZE / 3];
    sm_text_count(mean_ms, mean, sizeof(mean));
    sm_text_count(stddev_ms, stddev, sizeof(stddev));
    if (mean_ms < 1000) {
        snprintf(mean, sizeof(mean), "%.4g", mean_ms);
    }
    if (stddev_ms < 1000) {
        snprintf(stddev, sizeof(stddev), "%.3g", stddev_ms);
    }
    snprintf(text, TEXT_SIZE, isfinite(stddev_ms) ? "%s ± %s" : "%s", mean, stddev);
}

static void published_text(const published *p, char text[TEXT_SIZE]) {
    if (isfinite(p->mean)) {
        spread_text(p->mean, p->stddev, text);
        size_t used = strlen(text);
        snprintf(text + used, TEXT_SIZE - used, "%s%s", p->note[0] != '\0' ? ", " : "", p->note);
    } else {
        snprintf(text, TEXT_SIZE, "%s", p->note);
    }
}

static void mean_text(const json_t *row, const char *mean, const char *stddev, char text[TEXT_SIZE]) {
    double mean_ms = sm_json_number(row, mean) * 1e-6;
    double stddev_ms = sm_json_number(row, stddev) * 1e-6;
    text[0] = '\0';
    if (isfinite(mean_ms)) {
        spread_text(mean_ms, stddev_ms, text);
    }
}

// "124M" is small, and so on.
static bool is_size(const json_t *row, int size) {
    static const char *const by_parameters[N_SIZES] = {"124M", "355M", "774M", "1558M", "2.7B"};
    if (sm_rows_other_arch(row)[0] != '\0') {
        return false; // the published figures are GPT-2's
    }
    const char *model = sm_rows_text(row, "model_type");
    size_t length = strlen(sizes[size]);
    bool named = strncmp(model, sizes[size], length) == 0 && (model[length] == '\0' || model[length] == ' ');
    return named || strncmp(model, by_parameters[size], strlen(by_parameters[size])) == 0;
}

static bool is_pass(const json_t *row, const char *const *passes) {
    for (int i = 0; passes[i] != NULL; i++) {
        if (strcmp(sm_rows_text(row, "pass_type"), passes[i]) == 0) {
            return true;
        }
    }
    return false;
}

// The difference between a row's work and the published one; "same" if there is none.
static void work_text(const json_t *row, double batch, double seq, double vocab, char text[TEXT_SIZE]) {
    char sequences[TEXT_SIZE / 3];
    char length[TEXT_SIZE / 3];
    snprintf(text, TEXT_SIZE, "same");
    if (sm_json_number(row, "n_batch") != batch || sm_json_number(row, "n_seq") != seq) {
        sm_text_count(sm_json_number(row, "n_batch"), sequences, sizeof(sequences));
        sm_text_count(sm_json_number(row, "n_seq"), length, sizeof(length));
        snprintf(text, TEXT_SIZE, "other: batch %s, length %s", sequences[0] != '\0' ? sequences : "not named",
                 length[0] != '\0' ? length : "not named");
    } else if (vocab > 0 && sm_json_number(row, "vocab") != vocab) {
        sm_text_count(sm_json_number(row, "vocab"), length, sizeof(length));
        snprintf(text, TEXT_SIZE, "other: vocabulary %s", length[0] != '\0' ? length : "not named");
    }
}

static const char *steadiness(double cv_percent) {
    return !isfinite(cv_percent) ? ""
           : cv_percent < 2      ? "excellent"
           : cv_percent < 5      ? "good"
           : cv_percent < 10     ? "moderate"
                                 : "unsteady";
}

// --- by size -------------------------------------------------------------------------------------

static void size_cells(sm_doc *doc, const sm_report_row *row) {
    char how[SM_SERIES_NAME_SIZE];
    char text[TEXT_SIZE];
    double cv = 100 * sm_json_number(row->json, "stddev_ns") / sm_json_number(row->json, "avg_ns");
    sm_report_how(row->json, how, sizeof(how));
    sm_doc_cell(doc, "%s", how);
    sm_doc_cell(doc, "%s", sm_rows_text(row->json, "pass_type"));
    mean_text(row->json, "avg_ns", "stddev_ns", text);
    sm_doc_cell(doc, "%s", row->usable ? text : row->status);
    snprintf(text, sizeof(text), "%.1f%% %s", cv, steadiness(cv));
    sm_doc_cell(doc, "%s", row->usable && isfinite(cv) ? text : "");
    sm_text_ms(row->step_s * 1e9, text, sizeof(text));
    sm_doc_cell(doc, "%s", row->usable ? text : "");
    work_text(row->json, 4, 512, 0, text);
    sm_doc_cell(doc, "%s", text);
}

// The data of a published table for comparison.
typedef struct {
    const char *const *passes;
    double batch, seq, vocab;
    void (*first_cells)(sm_doc *doc, int size);
    void (*cells)(sm_doc *doc, const sm_report_row *row);
} beside;

// Rows of the same work first; then as many others as fit.
static void write_rows_of(sm_doc *doc, const sm_report_rows *report, int size, const beside *b) {
    int n = 0;
    for (int other_work = 0; other_work < 2; other_work++) {
        for (size_t i = 0; i < report->n && n < MAX_OF_A_SIZE; i++) {
            const json_t *row = report->rows[i].json;
            char work[TEXT_SIZE];
            work_text(row, b->batch, b->seq, b->vocab, work);
            if (is_size(row, size) && is_pass(row, b->passes) && (strcmp(work, "same") != 0) == other_work) {
                sm_doc_row_begin(doc);
                b->first_cells(doc, size);
                b->cells(doc, &report->rows[i]);
                sm_doc_row_end(doc);
                n++;
            }
        }
    }
    if (n == 0) {
        sm_doc_row_begin(doc);
        b->first_cells(doc, size);
        for (int i = 0; i < 6; i++) {
            sm_doc_cell(doc, "%s", i == 0 ? "not measured" : "");
        }
        sm_doc_row_end(doc);
    }
}

static void size_first(sm_doc *doc, int size) {
    char text[TEXT_SIZE];
    published_text(&by_size[size], text);
    sm_doc_cell(doc, "%s", sizes[size]);
    sm_doc_cell(doc, "%s", text);
}

// --- forward and backward ------------------------------------------------------------------------

static void p100_first(sm_doc *doc, int size) {
    char text[TEXT_SIZE];
    sm_doc_cell(doc, "%s", sizes[size]);
    published_text(&p100_forward[size], text);
    sm_doc_cell(doc, "%s", text);
    published_text(&p100_both[size], text);
    sm_doc_cell(doc, "%s", text);
}

static void p100_cells(sm_doc *doc, const sm_report_row *row) {
    char how[SM_SERIES_NAME_SIZE];
    char forward[TEXT_SIZE];
    char backward[TEXT_SIZE];
    char both[TEXT_SIZE];
    char work[TEXT_SIZE];
    const char *pass = sm_rows_text(row->json, "pass_type");
    bool separate = strcmp(pass, "separate") == 0;
    sm_report_how(row->json, how, sizeof(how));
    mean_text(row->json, strcmp(pass, "forward") == 0 ? "avg_ns" : "forward_avg_ns",
              strcmp(pass, "forward") == 0 ? "stddev_ns" : "forward_stddev_ns", forward);
    mean_text(row->json, strcmp(pass, "backward") == 0 ? "avg_ns" : "backward_avg_ns",
              strcmp(pass, "backward") == 0 ? "stddev_ns" : "backward_stddev_ns", backward);
    mean_text(row->json, "avg_ns", "stddev_ns", both);
    work_text(row->json, 4, 128, 10000, work);
    sm_doc_cell(doc, "%s", how);
    sm_doc_cell(doc, "%s", row->usable ? forward : row->status);
    sm_doc_cell(doc, "%s", row->usable ? backward : "");
    sm_doc_cell(doc, "%s", row->usable && (separate || strcmp(pass, "forward-backward") == 0) ? both : "");
    double ratio = sm_json_number(row->json, "backward_avg_ns") / sm_json_number(row->json, "forward_avg_ns");
    sm_doc_number(doc, row->usable ? ratio : NAN, 2, "");
    sm_doc_cell(doc, "%s", work);
}

// --- parts of a step -------------------------------------------------------------------------------

static double optimizer_share(const json_t *row) {
    const double loop = sm_json_number(row, "loop.unscale_ns") + sm_json_number(row, "loop.update_ns");
    return isfinite(loop) ? loop / sm_json_number(row, "loop.wall_ns")
                          : sm_json_number(row, "phases.optimizer_ns") / sm_json_number(row, "attribution_ns");
}

static double collate_share(const json_t *row) {
    return sm_json_number(row, "loop.collate_ns") / sm_json_number(row, "loop.wall_ns");
}

static double wait_share(const json_t *row) {
    return sm_json_number(row, "loop.wait_ns") / sm_json_number(row, "loop.wall_ns");
}

// Building and tuning, in units of a step.
static double start_steps(const json_t *row) {
    const double tune_ns = sm_json_number(row, "tune_ns");
    return (sm_json_number(row, "build_ns") + (isfinite(tune_ns) ? tune_ns : 0)) / sm_json_number(row, "median_ns");
}

// A published claim on a part of a step, its error, and the corresponding figure of rows here.
static const struct {
    const char *what;
    const char *said;
    const char *wrong;
    double (*here)(const json_t *row);
    double scale;
    const char *unit;
} parts[] = {
    {"optimizer's share of a step", "66%",
     "nothing was waited for between phases, so forward and backward ended within it: about 10%", optimizer_share, 100,
     "%"},
    {"the collator's share", "a phase of its own", "it is within the wait for the loader, too: counted twice",
     collate_share, 100, "%"},
    {"the wait for the loader", "with the collator in it",
     "as above; here the rest of the step outside of the other phases", wait_share, 100, "%"},
    {"tokens/s, with a faster loader", "+20%", "tokens of a step, not of a second: by the second -5%", NULL, 0, ""},
    {"compilation", "0.7 s, whatever was compiled",
     "the call that was timed is lazy: it compiled in the first step that was timed", start_steps, 1, " steps' time"},
};

static void write_range(sm_doc *doc, const sm_report_rows *report, double (*here)(const json_t *row), double scale,
                        const char *unit) {
    double lo = INFINITY;
    double hi = -INFINITY;
    for (size_t i = 0; i < report->n && here != NULL; i++) {
        const double value = report->rows[i].usable ? here(report->rows[i].json) * scale : NAN;
        lo = isfinite(value) ? fmin(lo, value) : lo;
        hi = isfinite(value) ? fmax(hi, value) : hi;
    }
    if (here == NULL) {
        sm_doc_cell(doc, "tokens/s are of seconds throughout");
    } else if (lo <= hi) {
        sm_doc_cell(doc, "%.3g to %.3g%s", lo, hi, unit);
    } else {
        sm_doc_cell(doc, "not measured here");
    }
}

static void write_parts(sm_doc *doc, const sm_report_rows *report) {
    sm_doc_subheading(doc, "Parts of a step");
    sm_doc_text(doc, "Published of training loops and sweeps by others, and what was wrong with each figure.");
    sm_doc_table_begin(doc, "part|published|its error|here, least to most");
    for (size_t k = 0; k < sizeof(parts) / sizeof(parts[0]); k++) {
        sm_doc_row_begin(doc);
        sm_doc_cell(doc, "%s", parts[k].what);
        sm_doc_cell(doc, "%s", parts[k].said);
        sm_doc_cell(doc, "%s", parts[k].wrong);
        write_range(doc, report, parts[k].here, parts[k].scale, parts[k].unit);
        sm_doc_row_end(doc);
    }
    sm_doc_table_end(doc);
}

void sm_report_published(sm_doc *doc, const sm_report_rows *report) {
    static const char *const passes_of_sizes[] = {"forward-backward", "separate", "step", "forward", NULL};
    static const char *const passes_of_p100[] = {"separate", "forward", "backward", "forward-backward", NULL};
    static const beside of_sizes = {passes_of_sizes, 4, 512, 0, size_first, size_cells};
    static const beside of_p100 = {passes_of_p100, 4, 128, 10000, p100_first, p100_cells};
    sm_doc_subheading(doc, "By size of the model");
    sm_doc_text(doc,
                "Published: RTX 4090 laptop GPU, context 512, batch 4, 10 steps after 5; forward and backward of the "
                "logits, without loss and optimizer. Times in ms, mean ± standard deviation. Other machines and "
                "other work are no race: \"work\" says what a row here has in common with the published one.");
    sm_doc_table_begin(doc, "size|#published|here|pass|#mean ± sd, ms|#CV|#median, ms|work");
    for (int size = 0; size < N_SIZES; size++) {
        write_rows_of(doc, report, size, &of_sizes);
    }
    sm_doc_table_end(doc);
    sm_doc_subheading(doc, "Forward and backward");
    sm_doc_text(
        doc, "Published: Tesla P100, vocabulary 10,000, batch 4, context 128, 10 steps after 5 that ran forward only. "
             "Its column named backward is forward and backward together, and is compared here with that sum.");
    sm_doc_table_begin(doc, "size|#published forward, ms|#published both, ms|here|#forward, ms|#backward, ms|#both, ms|"
                            "#backward / forward|work");
    for (int size = 0; size < N_SIZES; size++) {
        write_rows_of(doc, report, size, &of_p100);
    }
    sm_doc_table_end(doc);
    write_parts(doc, report);
}
