#include "bench/score/score.h"

#include "bench/compare/compare.h"

// --- the work ----------------------------------------------------------------------------------------

// The columns of its work in a row. These and the tables below are v1 for good.
static const char work[] =
    "{\"model_arch\": \"gpt2\", \"model_n_params\": 124439808, \"vocab\": 50257, \"n_ctx\": 1024, \"n_layer\": 12, "
    "\"n_head\": 12, \"n_kv_head\": 12, \"d_model\": 768, \"head_dim\": 64, \"d_ff\": 3072, \"activation\": \"gelu\", "
    "\"untied\": false, \"n_seq\": 1024, \"n_accum\": 1, \"pass_type\": \"step\", \"dropout\": 0.0, \"padding\": "
    "\"none\", \"documents\": null, \"optimizer\": \"adamw\"}";

static const double work_flops = 822089202693; // of a sequence

static const sm_score_batch batches[] = {
    {1, "fnv1a64:315f5b57f254a76a", {11.104276, 8.321012, 6.644350, 5.595623, 4.800243}},
    {2, "fnv1a64:951f26c3810fce36", {11.098783, 8.388466, 6.663831, 5.762238, 4.892123}},
    {4, "fnv1a64:4802e1d1357c913a", {11.080404, 8.356159, 6.693528, 5.760012, 4.857926}},
    {8, "fnv1a64:5ff976f9661a9912", {11.085853}},
    {16, "fnv1a64:0b04cd48f020f5a2", {11.089388}},
    {32, "fnv1a64:e271b34bdb95b850", {11.088528, 8.371115, 6.704492, 5.714209, 4.813168}},
};

const sm_score_batch *sm_score_batch_at(int index) { return index < (int)SM_COUNT(batches) ? &batches[index] : NULL; }

static const sm_score_batch *batch_of(const json_t *row) {
    const sm_score_batch *batch = sm_score_batch_at(0);
    for (int i = 0; batch != NULL && (double)batch->B != sm_json_number(row, "n_batch"); i++) {
        batch = sm_score_batch_at(i);
    }
    return batch;
}

bool sm_score_is_work(const json_t *row) {
    static json_t *frozen;
    frozen = frozen != NULL ? frozen : json_loads(work, 0, NULL);
    const unsigned parts = SM_PART(SM_IDENTITY_WORK) | SM_PART(SM_FACTOR_OPTIMIZER);
    return sm_json_number(row, "model_n_params") == sm_json_number(frozen, "model_n_params") &&
           sm_json_number(row, "n_seq") == SM_SCORE_SEQ_LEN && (sm_identity_difference(row, frozen) & parts) == 0 &&
           !sm_rows_has(row, "loop.loader");
}

// --- what it is worth ----------------------------------------------------------------------------------

// The most that rounding moves the first losses: of formats as exact as fp32, and of others.
static const double exact_rounding = 1e-5;
static const double narrow_rounding = 2.5e-3;
static const double most_of_peak = 1.1;       // of its measured ceiling, at the slow end of the interval
static const double most_of_datasheet = 1.3;  // cards have higher clocks than their makers say
static const double least_of_datasheet = 0.2; // of a ceiling that a card with that name measures
static const double most_of_reference = 1.3;  // as fast as the same device

// A row's fault: the function that finds it writes it into `text`, and returns true.
#define LACKS_IF(condition, ...)                             \
    do {                                                     \
        if (condition) {                                     \
            snprintf(text, SM_SCORE_TEXT_SIZE, __VA_ARGS__); \
            return true;                                     \
        }                                                    \
    } while (0)

static bool losses_differ(const json_t *row, char text[SM_SCORE_TEXT_SIZE]) {
    const json_t *losses = sm_json_get(row, "losses");
    const char *digest = sm_rows_text(row, "data_digest");
    const sm_score_batch *batch = batch_of(row);
    const double allowed = sm_rows_is_exact(row) ? exact_rounding : narrow_rounding;
    LACKS_IF(batch == NULL, "its micro-batch of %.0f sequences has no known losses; docs/score.md has those that do",
             sm_json_number(row, "n_batch"));
    LACKS_IF(digest[0] != '\0' && strcmp(digest, batch->data_digest) != 0,
             "its data are others: their digest is %.30s, and that of the work %s", digest, batch->data_digest);
    LACKS_IF(json_array_size(losses) < 2, "it has no losses of its steps");
    for (size_t i = 0; i < json_array_size(losses) && i < SM_SCORE_N_LOSSES; i++) {
        const double loss = json_number_value(json_array_get(losses, i));
        LACKS_IF(batch->losses[i] > 0 && !(fabs(loss - batch->losses[i]) <= allowed * batch->losses[i]),
                 "its losses are those of other weights or another step: step %zu has %.6f, and the work %.6f", i + 1,
                 loss, batch->losses[i]);
    }
    return false;
}

static double slow_ns(const json_t *row) {
    const double ci95 = sm_json_number(row, "ci95_hi_ns");
    const double most = sm_json_number(row, "max_ns");
    return ci95 > 0 ? ci95 : most > 0 ? most : sm_json_number(row, "median_ns");
}

static bool is_same_device(const json_t *a, const json_t *b) {
    const bool is_card = sm_rows_has(a, "gpu_info");
    return strcmp(SM_ROWS_CHIP(a), SM_ROWS_CHIP(b)) == 0 &&
           (is_card || sm_json_number(a, "n_threads") == sm_json_number(b, "n_threads"));
}

static bool is_same_program(const json_t *a, const json_t *b) {
    return sm_rows_is(a, "backend_used", sm_rows_text(b, "backend_used"));
}

// Programs whose rows have what stepmark measures.
static bool is_own(const json_t *row) {
    return sm_is_word_of(sm_rows_text(row, "backend_used"), "cpu opencl reference");
}

// Rows of other programs do not say themselves that they are scores.
static bool is_score(const json_t *row) {
    const char *name = sm_rows_text(row, "score");
    const bool is_named =
        strcmp(name, SM_SCORE_NAME) == 0 || (name[0] == '\0' && !is_own(row) && sm_score_is_work(row));
    return strcmp(sm_rows_status(row), "ok") == 0 && sm_json_number(row, "median_ts") > 0 && is_named;
}

// The fields that a figure is based on: without them the others could have any value.
static bool lacks_ground(const json_t *row, char text[SM_SCORE_TEXT_SIZE]) {
    const double n_cpus = sm_json_number(row, "context.cpu.threads");
    // In fp8 gradients cannot be checked, and the line says "losses", not "verified".
    const bool is_fp8 = sm_rows_is(row, "precision", "fp8");
    const bool has_gradients = is_fp8 != (sm_json_number(row, "gradient_error") >= 0);
    const char *lack = json_array_size(sm_json_get(row, "samples_ns")) == 0 ? "no samples"
                       : !sm_rows_has(row, "test_time")                     ? "no date"
                       : !is_own(row)                                       ? ""
                       : !(sm_json_number(row, "peak_flops") > 0)           ? "no measured peak"
                       : !(sm_json_number(row, "flops") > 0)                ? "no count of FLOPs"
                       : !sm_rows_has(row, "loss_check")                    ? "no check of its loss"
                       : !has_gradients && is_fp8                         ? "a check of its gradients, and fp8 has none"
                       : !has_gradients                                   ? "no check of its gradients"
                       : is_fp8 && sm_rows_is(row, "backend_used", "cpu") ? "products in fp8 on a processor"
                       : !sm_rows_has(row, "context.device.driver")       ? "no driver"
                                                                          : "";
    LACKS_IF(lack[0] != '\0', "it has %s", lack);
    LACKS_IF(sm_rows_is(row, "device", "cpu") && sm_json_number(row, "n_threads") > n_cpus,
             "it has %.0f threads on %.0f processors", sm_json_number(row, "n_threads"), n_cpus);
    return false;
}

// FLOP/s of the work at the slow end of its interval, whatever the row's own count says.
static double computed(const json_t *row) { return 1e9 * work_flops * sm_json_number(row, "n_batch") / slow_ns(row); }

static bool is_other_processor(const json_t *row, char text[SM_SCORE_TEXT_SIZE]) {
    const double n_threads = sm_json_number(row, "n_threads");
    return !sm_rows_has(row, "gpu_info") &&
           sm_datasheet_is_other(SM_ROWS_CHIP(row), sm_rows_text(row, "isa"), sm_rows_text(row, "precision"),
                                 n_threads > 0 ? (int)n_threads : 0, sm_json_number(row, "context.cpu.cores"),
                                 fmax(sm_json_number(row, "peak_flops"), computed(row)), text, SM_SCORE_TEXT_SIZE);
}

// A speed that a device with this name does not have.
static bool is_too_fast(const json_t *row, const json_t *references, char text[SM_SCORE_TEXT_SIZE]) {
    const double share = sm_json_number(row, "flops") / sm_json_number(row, "peak_flops") * 1e9 / slow_ns(row);
    char source[SM_DATASHEET_SOURCE_SIZE];
    const double datasheet = sm_datasheet_card(sm_rows_text(row, "gpu_info"), sm_rows_text(row, "precision"), source);
    const double peak = sm_json_number(row, "peak_flops");
    const double ceiling = datasheet > 0 && peak > 0 ? peak / datasheet : 1;
    LACKS_IF(share > most_of_peak, "its rate is %.0f%% of the peak that it measured", 100 * share);
    LACKS_IF(ceiling > most_of_datasheet || ceiling < least_of_datasheet ||
                 (datasheet > 0 && computed(row) > most_of_datasheet * datasheet),
             "its measured peak is %.3g of the datasheet of %s: it ran on another device",
             fmax(ceiling, datasheet > 0 ? computed(row) / datasheet : 0), SM_ROWS_CHIP(row));
    // A processor by its share of the peak, too, since those that share a name have other clocks.
    const bool is_card = sm_rows_has(row, "gpu_info");
    SM_EACH(reference, references) {
        const double rate = sm_json_number(row, "median_ts") / sm_json_number(reference, "median_ts");
        const double of_peak = sm_json_number(row, "mfu") / sm_json_number(reference, "mfu");
        const double factor = is_card || rate < of_peak ? rate : of_peak;
        LACKS_IF(is_same_device(row, reference) && is_same_program(row, reference) && is_score(reference) &&
                     sm_rows_is(row, "precision", sm_rows_text(reference, "precision")) && factor > most_of_reference,
                 "its rate is %.3g times the reference score of the same device, %s", factor, SM_ROWS_CHIP(row));
    }
    return false;
}

bool sm_score_lacks(const json_t *row, const json_t *references, char text[SM_SCORE_TEXT_SIZE]) {
    char contradiction[SM_CONTRADICTION_SIZE];
    text[0] = '\0';
    LACKS_IF(strcmp(sm_rows_status(row), "ok") != 0, "%.300s", sm_rows_text(row, "reason"));
    LACKS_IF(!sm_score_is_work(row), "its work is not that of %s", SM_SCORE_NAME);
    LACKS_IF(sm_row_contradicts(row, contradiction), "contradicts itself: %s", contradiction);
    LACKS_IF(sm_rows_own_code(row)[0] != '\0', "it ran code of its own, %.100s", sm_rows_text(row, "own_kernels"));
    return lacks_ground(row, text) || losses_differ(row, text) || is_other_processor(row, text) ||
           is_too_fast(row, references, text);
}

void sm_score_hold(json_t *rows, const json_t *references) {
    SM_EACH(row, rows) {
        char why[SM_SCORE_TEXT_SIZE];
        const bool is_meant = sm_rows_has(row, "score") || sm_json_get(row, "block") != NULL;
        if (is_meant && strcmp(sm_rows_status(row), "ok") == 0 && sm_score_lacks(row, references, why)) {
            sm_row_withdraw(row, "error", why);
        }
    }
}

// --- where it stands -----------------------------------------------------------------------------------

static const json_t *fastest(const json_t *rows) {
    const json_t *best = NULL;
    SM_EACH(row, rows) {
        const bool is_faster = best == NULL || sm_json_number(row, "median_ts") > sm_json_number(best, "median_ts");
        best = is_score(row) && is_faster ? row : best;
    }
    return best;
}

// Whether a reference is the fastest of its device, by stepmark or by another program.
static bool is_best_of_device(const json_t *row, const json_t *references) {
    SM_EACH(other, references) {
        const bool is_rival = is_same_program(other, row) || (is_own(other) && is_own(row));
        if (is_score(other) && is_same_device(other, row) && is_rival &&
            sm_json_number(other, "median_ts") > sm_json_number(row, "median_ts")) {
            return false;
        }
    }
    return true;
}

static void append_share(const json_t *row, const json_t *reference, char *text) {
    const double factor = sm_json_number(row, "median_ts") / sm_json_number(reference, "median_ts");
    const double n_threads = sm_json_number(reference, "n_threads");
    const bool is_card = sm_rows_has(reference, "gpu_info");
    const double shown = factor < 0.9 ? 1 / factor : factor;
    sm_append(text, SM_SCORE_TEXT_SIZE, "%s", text[0] != '\0' ? ", " : "");
    sm_append(text, SM_SCORE_TEXT_SIZE, factor < 0.9 ? "1/%.*f of " : "%.*f times ", shown < 3 ? 1 : 0, shown);
    if (!is_own(reference)) {
        sm_append(text, SM_SCORE_TEXT_SIZE, "%s on ", sm_rows_text(reference, "backend_used"));
    }
    if (!is_card && n_threads > 0) {
        sm_append(text, SM_SCORE_TEXT_SIZE, "%.0f cores of ", n_threads);
    }
    sm_append(text, SM_SCORE_TEXT_SIZE, "%s (%s)", SM_ROWS_CHIP(reference), sm_rows_text(reference, "precision"));
}

// Names the slowest machine, the fastest, and one between. Other programs appear next to ours on the same device.
void sm_score_standing(const json_t *rows, const json_t *references, char text[SM_SCORE_TEXT_SIZE]) {
    enum { MOST_SHARES = 3 };
    const json_t *best = fastest(rows);
    SM_FREED const json_t **sorted = sm_malloc((json_array_size(references) + 1) * sizeof(*sorted));
    const double training_tokens = 1e10;
    size_t n = 0;
    text[0] = '\0';
    for (size_t i = 0; best != NULL && i < json_array_size(references); i++) {
        const json_t *reference = json_array_get(references, i);
        const bool is_asked = is_own(reference) || is_same_device(reference, best);
        if (is_asked && is_score(reference) && is_best_of_device(reference, references)) {
            size_t at = n++;
            for (; at > 0 && sm_json_number(reference, "median_ts") < sm_json_number(sorted[at - 1], "median_ts");
                 at--) {
                sorted[at] = sorted[at - 1];
            }
            sorted[at] = reference;
        }
    }
    for (size_t i = 0; i < n && i < MOST_SHARES; i++) {
        append_share(best, sorted[n > MOST_SHARES ? i * (n - 1) / (MOST_SHARES - 1) : i], text);
    }
    if (best != NULL) {
        const double days = training_tokens / sm_json_number(best, "median_ts") / 86400;
        sm_append(text, SM_SCORE_TEXT_SIZE, "%sten billion tokens take %.*f %s", n > 0 ? "; " : "", days < 10 ? 1 : 0,
                  days < 2 ? 24 * days : days, days < 2 ? "hours" : "days");
    }
}

// --- a table of scores ---------------------------------------------------------------------------

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
    char machine[SM_SCORE_TEXT_SIZE], text[SM_SCORE_TEXT_SIZE], doubt[SM_DOUBT_SIZE];
    sm_block_machine(row, MACHINE_WIDTH, machine, sizeof(machine));
    json_t *record =
        sm_json_copy(json_object(), row, "n_threads median_ts noise_percent precision mfu datasheet_mfu n_batch block");
    sm_json_put(record, {"program", sm_json_text(sm_rows_text(row, "backend_used"))},
                {"system", sm_json_text(sm_rows_text(row, "context.os"))},
                {"class", json_string(sm_rows_is(row, "precision", "fp32") ? "fp32" : "any")},
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

static bool counts(const json_t *record) { return !sm_rows_has(record, "reason"); }

static int by_place(const void *a, const void *b) {
    const json_t *x = *(const json_t *const *)a, *y = *(const json_t *const *)b;
    const double x_ts = sm_json_number(x, "median_ts");
    const double y_ts = sm_json_number(y, "median_ts");
    const int by_class = strcmp(sm_rows_text(y, "class"), sm_rows_text(x, "class"));
    return counts(x) != counts(y) ? counts(y) - counts(x) : by_class != 0 ? by_class : (x_ts < y_ts) - (x_ts > y_ts);
}

json_t *sm_score_board(const json_t *rows, const json_t *references) {
    size_t n = 0;
    SM_FREED json_t **records = sm_malloc((json_array_size(rows) + 1) * sizeof(*records));
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
        const bool is_next = i > 0 && sm_rows_is(records[i], "class", sm_rows_text(records[i - 1], "class"));
        place = is_next ? place + 1 : 1;
        sm_json_set_new(records[i], "place", counts(records[i]) ? sm_json_integer(place) : json_null());
        json_array_append_new(board, records[i]);
    }
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
