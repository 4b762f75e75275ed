// ladder.c: `stepmark ladder`: lists ladders, prints the source of a rung, measures all rungs of one in turn.
#include <ctype.h>

#include "cli/setup/setup.h"
#include "learn/ladder/ladder.h"

static const sm_column list_columns[] = {
    SM_TEXT("ladder", "the op by its short name", .heading = "ladder"),
    SM_TEXT("backend", "whose kernels these are", .heading = "backend"),
    SM_TEXT("kind", "kind of op", .heading = "op"),
    SM_TEXT("rungs", "from the bottom up; in brackets: the devices that have it", .heading = "rungs"),
};

static const sm_table list_table = {"ladders", list_columns, (int)(sizeof(list_columns) / sizeof(list_columns[0]))};

static sm_status list_ladders(const cli_options *options) {
    SM_OWN(json_t) *records = json_array();
    for (int i = 0; i < sm_ladder_count(); i++) {
        const sm_ladder *ladder = sm_ladder_at(i);
        char rungs[SM_CELL_SIZE] = "";
        for (const sm_rung *rung = ladder->rungs; rung->name != NULL; rung++) {
            // "local (cards)": a device shows the rungs that are for it.
            static const char *const places[] = {[SM_RUNG_ANYWHERE] = "",
                                                 [SM_RUNG_ON_CARDS] = " (cards)",
                                                 [SM_RUNG_ON_PROCESSORS] = " (processors)",
                                                 [SM_RUNG_BY_OPENBLAS] = ""};
            sm_append_part(rungs, sizeof(rungs), ", ", rung->name);
            sm_append_part(rungs, sizeof(rungs), "", places[rung->place]);
        }
        json_array_append_new(records, json_pack("{s:s, s:s, s:s, s:s}", "ladder", ladder->name, "backend",
                                                 ladder->backend, "kind", sm_op_name(ladder->kind), "rungs", rungs));
    }
    return sm_record_write_all(&list_table, options->out.format, stdout, records);
}

static const double STEP_TOLERANCE = 0.03;

// "0.812 ± 0.4%": the interval's wider half.
static void show_time(const json_t *record, const sm_column *column, char *text, size_t size_bytes) {
    const double ns = sm_json_number(record, column->name);
    const double lo = sm_json_number(record, "ns_ci95_lo"), hi = sm_json_number(record, "ns_ci95_hi");
    sm_text_ms(ns, text, size_bytes);
    if (isfinite(lo) && isfinite(hi)) {
        sm_append_spread(100 * fmax(ns - lo, hi - ns) / ns, text, size_bytes);
    }
}

// Shows the rate in the unit of its ceiling: FLOPs or bytes.
static void show_rate(const json_t *record, const sm_column *column, char *text, size_t size_bytes) {
    const char *bound = json_string_value(sm_json_get(record, "bound"));
    const bool is_bytes = bound != NULL && strcmp(bound, "memory") == 0;
    sm_text_scaled(sm_json_number(record, is_bytes ? "bytes_per_s" : column->name), is_bytes ? "B/s" : "FLOP/s", text,
                   size_bytes);
}

static void show_times(const json_t *record, const sm_column *column, char *text, size_t size_bytes) {
    const double times = sm_json_number(record, column->name);
    if (isfinite(times)) {
        snprintf(text, size_bytes, times < 10 ? "%.2f x" : "%.1f x", times);
    }
}

#define SHARED(head) .heading = head, .view = SM_SHOWN_WHEN_VARIED
#define COLUMN_LIST(X)                                                                                                 \
    X("ladder", TEXT, "", "the op by its short name", ladder->name, SHARED("ladder"))                                  \
    X("kind", TEXT, "", "kind of op", sm_op_name(ladder->kind), SHARED("op"))                                          \
    X("shape", TEXT, "", "its dimensions", r->shape, SHARED("shape"))                                                  \
    X("device", TEXT, "", "device that ran", r->info.id, SHARED("device"))                                             \
    X("name", TEXT, "", "of the processor or card", r->info.name, SHARED("on"))                                        \
    X("isa", TEXT, "", "instruction set of the kernels", r->info.isa[0] != '\0' ? r->info.isa : r->info.tier,          \
      SHARED("isa"))                                                                                                   \
    X("n_threads", INTEGER, "", "threads of the device", r->info.n_threads > 0 ? r->info.n_threads : SM_ABSENT,        \
      SHARED("threads"))                                                                                               \
    X("ceiling", TEXT, "", "the bound of the op here, and the least time that it allows", ceiling, SHARED("ceiling"))  \
    X("rung", TEXT, "", "name of the step", rung->rung->name, .heading = "rung", .rank = SM_RANK_ALWAYS)               \
    X("ns", REAL, "ns", "median of one call; ± the 95% interval of the median", ns, .heading = "ms",                   \
      .show = show_time, .rank = SM_RANK_ALWAYS)                                                                       \
    X("flops_per_s", REAL, "FLOP/s", "its work, or where memory bounds it its bytes, by that time",                    \
      r->flops / ns * 1e9, .heading = "rate", .show = show_rate, .rank = SM_RANK_ALWAYS)                               \
    X("ceiling_share", REAL, "", "part of the ceiling that it reaches", r->ceiling.ns / ns, .heading = "of ceiling",   \
      .show = sm_show_percent, .rank = 8)                                                                              \
    X("times_before", REAL, "", "times as fast as the rung before; null where one of the two is too noisy to use",     \
      is_told ? rung->times_before : NAN, .heading = "step", .show = show_times, .rank = SM_RANK_ALWAYS)               \
    X("what", TEXT, "", "what changed", rung->rung->what, .heading = "what changed", .rank = 7)                        \
    X("wrong", TEXT, "", "where it differs from the reference: then it has no speed", rung->wrong, .heading = "wrong", \
      .rank = SM_RANK_ALWAYS)                                                                                          \
    X("file", TEXT, "", "source of the rung; null: the backend's own kernel", rung->rung->file, .heading = NULL)       \
    X("n_cases", INTEGER, "", "cases of verify that it was compared in", rung->n_cases, .heading = NULL)               \
    X("n_samples", INTEGER, "", "timed calls", rung->ns.n, .heading = NULL)                                            \
    X("ns_ci95_lo", REAL, "ns", "95% interval of the median", rung->ns.n > 0 ? rung->ns.ci95_lo : NAN,                 \
      .heading = NULL)                                                                                                 \
    X("ns_ci95_hi", REAL, "ns", "", rung->ns.n > 0 ? rung->ns.ci95_hi : NAN, .heading = NULL)                          \
    X("ns_min", REAL, "ns", "the fastest call", rung->ns.n > 0 ? rung->ns.min : NAN, .heading = NULL)                  \
    X("bytes_per_s", REAL, "bytes/s", "its traffic by that time", r->bytes / ns * 1e9, .heading = NULL)                \
    X("flops", REAL, "FLOP", "work of one call", r->flops, .heading = NULL)                                            \
    X("bytes", REAL, "bytes", "traffic of one call: each operand once", r->bytes, .heading = NULL)                     \
    X("ceiling_ns", REAL, "ns", "the least time that measured ceilings allow", r->ceiling.ns, .heading = NULL)         \
    X("bound", TEXT, "", "which of them that is: compute or memory", bound, .heading = NULL)

const sm_table cli_ladder_table = SM_LISTED_TABLE("ladder", COLUMN_LIST);

// `before`: NULL for the first.
static json_t *make_record(const sm_ladder *ladder, const sm_ladder_result *r, const sm_rung_result *rung,
                           const sm_rung_result *before) {
    const bool is_told = before != NULL && sm_rung_is_usable(rung) && sm_rung_is_usable(before);
    char ceiling[SM_CELL_SIZE] = "";
    const double ns = rung->ns.n > 0 ? rung->ns.median : NAN;
    const char *bound = !isfinite(r->ceiling.ns) ? "" : r->ceiling.is_memory_bound ? "memory" : "compute";
    json_t *record = json_object();
    if (isfinite(r->ceiling.ns)) {
        const bool is_memory = r->ceiling.is_memory_bound;
        const double peak = is_memory ? r->ceiling.peaks.bandwidth_bytes_per_s : r->ceiling.peaks.flops;
        snprintf(ceiling, sizeof(ceiling), "%s of %s, %s ms (%s)", SM_TEXT_SCALED(peak, is_memory ? "B/s" : "FLOP/s"),
                 is_memory ? "memory" : "arithmetic", SM_TEXT_MS(r->ceiling.ns), r->ceiling.peaks.source);
    }
    COLUMN_LIST(SM_LISTED_VALUE)
    return record;
}

// The ladder's own shape with the values of "N=128,F=3072".
static sm_status make_shape(const char *given, const char *own, char shape[SM_CASE_TEXT_SIZE]) {
    for (const char *entry = given; *entry != '\0'; entry += strcspn(entry, ","), entry += *entry == ',') {
        const size_t length = strcspn(entry, "=");
        const char *at = own; // the word of this letter
        while (*at != '\0' && (strncmp(at, entry, length) != 0 || at[length] != '=')) {
            at += strcspn(at, " ");
            at += strspn(at, " ");
        }
        SM_FAIL_IF(*at == '\0' || !isdigit((unsigned char)entry[length + 1]) || entry[length + 1] == '0' ||
                       strspn(entry + length + 1, "0123456789") != strcspn(entry + length + 1, ",") ||
                       strcspn(entry + length + 1, ",") > 7,
                   SM_ERR_USAGE, "--shape: '%.*s': give sizes, as those of %s", (int)strcspn(entry, ","), entry, own);
    }
    for (const char *word = own; *word != '\0'; word += strcspn(word, " "), word += strspn(word, " ")) {
        const size_t length = strcspn(word, "=");
        const char *value = word + length + 1;
        for (const char *entry = given; *entry != '\0'; entry += strcspn(entry, ","), entry += *entry == ',') {
            value = strncmp(entry, word, length + 1) == 0 ? entry + length + 1 : value;
        }
        sm_append(shape, SM_CASE_TEXT_SIZE, "%s%.*s%.*s", shape[0] != '\0' ? " " : "", (int)length + 1, word,
                  (int)strspn(value, "0123456789"), value);
    }
    return SM_OK;
}

static void say(const char *text) { cli_say("%s", text); }

static sm_status measure(const cli_options *options, cli_device device, const sm_ladder *ladder) {
    char shape[SM_CASE_TEXT_SIZE] = "";
    sm_ladder_result result;
    sm_device_info info;
    const sm_open_options how = cli_open_options(options, options->device.threads.values[0]);
    sm_ladder_options ladder_options = {.backend = device.backend,
                                        .index = device.index,
                                        .how = &how,
                                        .shape = shape,
                                        .seconds = options->measure.min_time_s,
                                        .max_elems = options->learn.max_elems,
                                        .without_peaks = options->measure.no_peaks,
                                        .interrupted = &cli_interrupted,
                                        .say = say};
    SM_TRY(device.backend->describe(device.index, &info));
    ladder_options.on_card = info.n_threads == 0 && ladder->card_shape != NULL;
    SM_TRY(make_shape(options->learn.shape != NULL ? options->learn.shape : "",
                      ladder_options.on_card ? ladder->card_shape : ladder->shape, shape));
    // Conditions between several letters.
    const int64_t NH = sm_op_text_size(shape, "NH");
    SM_FAIL_IF(NH > 0 && sm_op_text_size(shape, "C") % NH != 0, SM_ERR_USAGE, "--shape: %s: NH must divide C", shape);
    SM_FAIL_IF(sm_op_text_size(shape, "vocab") > 0 && sm_op_text_size(shape, "vocab") > sm_op_text_size(shape, "Vp"),
               SM_ERR_USAGE, "--shape: %s: vocab must not be above Vp", shape);
    SM_TRY(sm_ladder_measure(ladder, &ladder_options, &result));
    const sm_rung_result *last = &result.rungs[result.n_rungs - 1];
    const sm_rung_result *step = &result.step;
    SM_OWN(json_t) *records = json_array();
    for (int i = 0; i < result.n_rungs; i++) {
        json_array_append_new(records,
                              make_record(ladder, &result, &result.rungs[i], i > 0 ? &result.rungs[i - 1] : NULL));
    }
    if (step->ns.n > 0) {
        json_array_append_new(records, make_record(ladder, &result, step, last));
    }
    SM_TRY(sm_record_write_all(&cli_ladder_table, options->out.format, stdout, records));
    char noise[SM_CELL_SIZE];
    if (sm_ladder_noise(&result, noise, sizeof(noise))) {
        cli_note("warning: %s; give more time (--min-time), or look for other load", noise);
    }
    // Says if a rung is slower on this machine than the one below it.
    for (int i = 1; i < result.n_rungs; i++) {
        const sm_rung_result *rung = &result.rungs[i];
        if (sm_rung_is_usable(rung) && sm_rung_is_usable(&result.rungs[i - 1]) && rung->times_before < 1 &&
            rung->ns.ci95_lo > result.rungs[i - 1].ns.ci95_hi) {
            cli_note("%s is slower than %s here", rung->rung->name, result.rungs[i - 1].rung->name);
        }
    }
    // In a step the kernel is the same; only the caches' contents at its start differ.
    if (sm_rung_is_usable(step) && sm_rung_is_usable(last) &&
        (step->ns.ci95_lo > (1 + STEP_TOLERANCE) * last->ns.ci95_hi ||
         step->ns.ci95_hi < (1 - STEP_TOLERANCE) * last->ns.ci95_lo)) {
        cli_note("in a step %s takes %.2f times as long as in turn with the rungs: other ops use the caches, too",
                 last->rung->name, 1 / step->times_before);
    }
    for (int i = 0; i < result.n_rungs; i++) {
        SM_FAIL_IF(result.rungs[i].wrong[0] != '\0', SM_ERR_MISMATCH, "%s differs from the reference",
                   result.rungs[i].rung->name);
    }
    return SM_OK;
}

sm_status cli_ladder(const cli_options *options) {
    static cli_device_list devices;
    const sm_ladder *ladder = NULL;
    if (options->n_operands == 0) {
        return list_ladders(options);
    }
    SM_FAIL_IF(options->n_operands > 1, SM_ERR_USAGE, "ladder: give the name of one; `stepmark ladder` lists them");
    SM_TRY(cli_select_devices(&options->device.backends, &devices));
    SM_FAIL_IF(devices.n != 1, SM_ERR_USAGE, "--backend: give one device (see `stepmark devices`)");
    const char *names[SM_OP_KIND_COUNT];
    int n = 0;
    ladder = sm_ladder_find(options->operands[0], devices.devices[0].backend->name);
    for (int i = 0; i < sm_ladder_count(); i++) {
        if (strcmp(sm_ladder_at(i)->backend, devices.devices[0].backend->name) == 0) {
            names[n++] = sm_ladder_at(i)->name;
        }
    }
    SM_FAIL_IF(n == 0, SM_ERR_USAGE, "ladder: there are none for --backend %s; give cpu or opencl",
               devices.devices[0].backend->name);
    SM_TRY(ladder != NULL ? SM_OK : cli_no_such_name("ladder", "ladder", options->operands[0], names, n));
    if (options->learn.source == NULL) {
        return measure(options, devices.devices[0], ladder);
    }
    n = 0;
    for (const sm_rung *rung = ladder->rungs; rung->name != NULL; rung++) {
        const bool is_it = strcmp(rung->name, options->learn.source) == 0;
        SM_FAIL_IF(is_it && rung->file == NULL, SM_ERR_USAGE,
                   "--source: %s is a library's kernel, or the backend's own kernel: see backends/%s", rung->name,
                   ladder->backend);
        if (is_it) {
            return sm_ladder_print_text(rung->file, stdout);
        }
        names[n] = rung->name;
        n += rung->file != NULL;
    }
    return cli_no_such_name("--source", "rung", options->learn.source, names, n);
}
