// row_schema.c: the table of the result row's fields, and their display in the Markdown table. Names shared with
// llama-bench have the same meaning.
#include "bench/rows/identity.h"
#include "bench/rows/row.h"

#include "bench/tables/show.h"

#include <math.h>
#include <string.h>

static const char *text_of(const json_t *record, const char *name) {
    const char *text = json_string_value(sm_json_get(record, name));
    return text != NULL ? text : "";
}

// "cpu avx512"
static void show_device(const json_t *record, const sm_column *column, char *text, size_t size_bytes) {
    const char *device = text_of(record, column->name);
    const char *isa = text_of(record, "isa");
    const char *tier = text_of(record, "tier");
    device = device[0] != '\0' ? device : text_of(record, "backend");
    snprintf(text, size_bytes, "%s%s%s%s%s", device, isa[0] != '\0' ? " " : "", isa, tier[0] != '\0' ? " " : "", tier);
}

// "812.3 ± 0.4%"
static void show_step(const json_t *record, const sm_column *column, char *text, size_t size_bytes) {
    double median_ns = sm_json_number(record, column->name);
    double mad_ns = sm_json_number(record, "mad_ns");
    sm_text_ms(median_ns, text, size_bytes);
    sm_append_spread(median_ns > 0 ? 100 * mad_ns / median_ns : NAN, text, size_bytes);
}

static void show_median(const json_t *record, const sm_column *column, char *text, size_t size_bytes) {
    sm_text_ms(sm_json_number(record, column->name), text, size_bytes);
}

// "349 ± 0.6%": with its 95% interval.
static void show_rate(const json_t *record, const sm_column *column, char *text, size_t size_bytes) {
    sm_text_count(sm_json_number(record, column->name), text, size_bytes);
    sm_append_spread(sm_json_number(record, "noise_percent"), text, size_bytes);
}

// Phases that a pass type does not run have no time to show.
static void show_phase(const json_t *record, const sm_column *column, char *text, size_t size_bytes) {
    double phase_ns = sm_json_number(record, column->name);
    sm_text_ms(phase_ns != 0 ? phase_ns : NAN, text, size_bytes);
}

static void show_accumulation(const json_t *record, const sm_column *column, char *text, size_t size_bytes) {
    double n_accum = sm_json_number(record, column->name);
    sm_text_count(n_accum != 1 ? n_accum : NAN, text, size_bytes);
}

static void show_unaccounted(const json_t *record, const sm_column *column, char *text, size_t size_bytes) {
    double part_ns = sm_json_number(record, column->name);
    double whole_ns = sm_json_number(record, "attribution_ns");
    text[0] = '\0';
    if (isfinite(part_ns) && whole_ns > 0) {
        snprintf(text, size_bytes, "%.1f%%", 100 * part_ns / whole_ns);
    }
}

// "+0.4%"
static void show_apart(const json_t *record, const sm_column *column, char *text, size_t size_bytes) {
    double percent = sm_json_number(record, column->name);
    text[0] = '\0';
    if (isfinite(percent)) {
        snprintf(text, size_bytes, "%+.1f%%", percent);
    }
}

// The memory allocated on a device with its own memory; otherwise the process's peak.
static void show_memory(const json_t *record, const sm_column *column, char *text, size_t size_bytes) {
    bool own_memory = text_of(record, "gpu_info")[0] != '\0';
    sm_text_bytes(sm_json_number(record, own_memory ? "device_peak_bytes" : column->name), text, size_bytes);
}

static void show_loss(const json_t *record, const sm_column *column, char *text, size_t size_bytes) {
    double loss = sm_json_number(record, column->name);
    text[0] = '\0';
    if (isfinite(loss)) {
        snprintf(text, size_bytes, "%.4f", loss);
    }
}

// "ok: reference, 1 of 4 sequences", "ok, noisy: ..." or "oom: 9.1 GiB needed, 6.0 GiB free"
static void show_status(const json_t *record, const sm_column *column, char *text, size_t size_bytes) {
    const char *status = text_of(record, "status");
    const char *reason = text_of(record, "reason");
    const char *check = text_of(record, column->name);
    bool ok = strcmp(status, "ok") == 0;
    const char *noise = text_of(record, "noise_verdict");
    const char *judged = !ok                             ? ""
                         : strcmp(noise, "noisy") == 0   ? ", noisy"
                         : strcmp(noise, "too few") == 0 ? ", few samples"
                                                         : "";
    const char *more = reason[0] != '\0' ? reason : ok ? check : "";
    more = ok && more[0] == '\0' ? "loss not checked" : more;
    snprintf(text, size_bytes, "%s%s%s%s", status, judged, more[0] != '\0' ? ": " : "", more);
}

// Short form: "ok", "ok, noisy"; otherwise with the reason.
static void show_brief_status(const json_t *record, const sm_column *column, char *text, size_t size_bytes) {
    show_status(record, column, text, size_bytes);
    if (strncmp(text, "ok", 2) == 0 && text_of(record, column->name)[0] != '\0') {
        text[strcspn(text, ":")] = '\0';
    }
}

// The value of the field's flag in the row's command line; "" if it was not given.
static void show_flag(const json_t *record, const sm_column *column, char *text, size_t size_bytes) {
    static const char *const unlike[][2] = {{"n_warmup", "warmup"}, {"n_ctx", "context"}};
    const json_t *args = sm_json_get(record, "run_args");
    char flag[64];
    snprintf(flag, sizeof(flag), "--%s=", column->name);
    for (size_t i = 0; i < sizeof(unlike) / sizeof(unlike[0]); i++) {
        if (strcmp(unlike[i][0], column->name) == 0) {
            snprintf(flag, sizeof(flag), "--%s=", unlike[i][1]);
        }
    }
    for (char *c = strchr(flag, '_'); c != NULL; c = strchr(c, '_')) {
        *c = '-';
    }
    text[0] = '\0';
    for (size_t i = 0; i < json_array_size(args); i++) {
        const char *arg = json_string_value(json_array_get(args, i));
        if (arg != NULL && strncmp(arg, flag, strlen(flag)) == 0) {
            snprintf(text, size_bytes, "%s", arg + strlen(flag));
        }
    }
}

#define FIELD(member, column_type, its_unit, its_description)                                     \
    .name = #member, .type = (column_type), .unit = (its_unit), .description = (its_description), \
    .offset = offsetof(sm_row, member), .size_bytes = sizeof(((sm_row *)0)->member)

#define INTEGER(member, unit_, description_)  FIELD(member, SM_COLUMN_INTEGER, unit_, description_)
#define REAL(member, unit_, description_)     FIELD(member, SM_COLUMN_REAL, unit_, description_)
#define TEXT(member, description_)            FIELD(member, SM_COLUMN_TEXT, "", description_)
#define INTEGERS(member, unit_, description_) FIELD(member, SM_COLUMN_INTEGERS, unit_, description_)
#define REALS(member, unit_, description_)    FIELD(member, SM_COLUMN_REALS, unit_, description_)
#define JSON(member, description_)            FIELD(member, SM_COLUMN_JSON, "", description_)

// Removed by sm_row_clear_speed().
#define SPEED .is_speed = true

#define SHOWN(title, function)             .heading = (title), .show = (function)
#define SHOWN_WHEN_VARIED(title, function) .heading = (title), .view = SM_SHOWN_WHEN_VARIED, .show = (function)
#define FLAG(title)                        .heading = (title), .view = SM_SHOWN_IF_VARIED, .show = show_flag
#define RANK(which)                        .rank = (which)
#define BRIEF(title, function)             .brief_heading = (title), .brief = (function)
// Part of the identity of a row that the column belongs to.
#define IS(part) .identity = (part)

#define SHOWN_AS_NOTES(title) .heading = (title), .view = SM_SHOWN_AS_NOTES

static const sm_column columns[] = {
    {INTEGER(schema_version, "", "version of this table; grows when a field changes its meaning")},
    {TEXT(build_commit, "commit that the program was built from")},
    {TEXT(test_time, "start of the measurement, UTC, ISO 8601")},
    {TEXT(status, "ok, oom, error, timeout or skipped")},
    {TEXT(reason, "why the status is not ok, with the facts")},
    {TEXT(stop_reason,
          "why sampling ended: repetitions (all done), noise (as steady as requested), samples or time (limit "
          "reached before that), timeout or interrupted")},

    {TEXT(model_arch, "architecture of the model: gpt2, ..."), IS(SM_IDENTITY_WORK),
     SHOWN_WHEN_VARIED("architecture", NULL)},
    {TEXT(model_type, "size of the model by name"), SHOWN_WHEN_VARIED("model", NULL)},
    {INTEGER(model_n_params, "", "parameters of the model, padding excluded"),
     SHOWN_WHEN_VARIED("parameters", sm_show_count)},
    {TEXT(backends, "backends in this build, separated by commas")},
    {TEXT(backend, "requested backend")},
    {TEXT(backend_used, "backend that ran"), IS(SM_FACTOR_DEVICE)},
    {TEXT(device, "device that ran, as in --list-devices"), IS(SM_FACTOR_DEVICE), SHOWN("device", show_device),
     RANK(8)},
    {TEXT(cpu_info, "processor of the host"), IS(SM_FACTOR_MACHINE), SHOWN_WHEN_VARIED("on", NULL)},
    {TEXT(gpu_info, "device other than the host's processor"), IS(SM_FACTOR_DEVICE), SHOWN_WHEN_VARIED("GPU", NULL)},
    {TEXT(isa, "instruction set of the kernels that ran"), IS(SM_FACTOR_ISA)},
    {TEXT(tier, "family of the kernels that ran"), IS(SM_FACTOR_TIER)},
    {TEXT(mode, "naive, fused or tuned"), IS(SM_FACTOR_MODE), SHOWN_WHEN_VARIED("mode", NULL)},
    {TEXT(recompute, "results that the backward computes again instead of keeping them: none, light (cheap ones) or "
                     "block (a whole block except its input); null: the pass has no backward"),
     IS(SM_FACTOR_MODE), SHOWN_WHEN_VARIED("recompute", NULL)},
    {TEXT(attention, "attention weights kept for the backward: naive (the whole square) or flash "
                     "(none: they are computed again)"),
     IS(SM_FACTOR_MODE), SHOWN_WHEN_VARIED("attention", NULL)},
    {TEXT(products, "what multiplied matrices: own (the backend's kernels), or openblas, its version and core; in mode "
                    "tuned either may have"),
     IS(SM_FACTOR_MODE), SHOWN_WHEN_VARIED("products", NULL)},
    {TEXT(precision, "fp32, tf32, tf32x3, bf16x6, bf16 or fp16"), IS(SM_FACTOR_PRECISION),
     SHOWN_WHEN_VARIED("precision", sm_show_precision)},
    {FIELD(
        emulated, SM_COLUMN_BOOLEAN, "",
        "the device widened the data and computed in fp32, for lack of instructions of its own; its peak is fp32's")},
    {TEXT(loss_scale, "factor on the loss, so that small gradients do not vanish: none, dynamic (as GradScaler's) or a "
                      "number; null: the pass has no backward"),
     IS(SM_FACTOR_PRECISION), SHOWN_WHEN_VARIED("loss scale", NULL)},
    {TEXT(own_kernels, "the user's own kernels that ran in place of the backend's: op=file (digest), ...; null: none"),
     IS(SM_FACTOR_MODE), .heading = "own kernels", .view = SM_SHOWN_WHEN_SOME},
    {INTEGER(own_call_ns, "ns",
             "median time of a call that does nothing into the process that runs own kernels in C; each of their calls "
             "costs that and copies of its operands, which is part of all times; null: none runs apart"),
     SHOWN_WHEN_VARIED("own call ms", sm_show_ms)},
    {INTEGER(n_threads, "", "threads used"), IS(SM_FACTOR_THREADS), SHOWN_WHEN_VARIED("threads", NULL)},
    {TEXT(binding, "where they run: bound one a core, or free"), IS(SM_FACTOR_THREADS)},
    {TEXT(pass_type, "part of the step that a sample times: forward, backward, forward-backward, step or separate"),
     IS(SM_IDENTITY_WORK)},
    {TEXT(test, "name of the test: part of the step, b = batch, s = sequence length"), SHOWN("test", NULL), RANK(7)},
    {INTEGER(n_batch, "", "B: sequences in a micro-batch"), IS(SM_IDENTITY_BATCH)},
    {INTEGER(n_seq, "", "T: tokens in a sequence"), IS(SM_IDENTITY_WORK)},
    {INTEGER(n_accum, "", "micro-batches in a step"), IS(SM_IDENTITY_WORK),
     SHOWN_WHEN_VARIED("accumulation", show_accumulation)},
#define COLUMN_SIZE(column, meaning, shown) {INTEGER(column, "", meaning), IS(SM_IDENTITY_WORK), shown},
#define COLUMN_OPTIONAL                     COLUMN_SIZE
#define COLUMN_WORD(column, meaning, shown) {TEXT(column, meaning), IS(SM_IDENTITY_WORK), shown},
#define COLUMN_SWITCH(column, meaning, shown) \
    {FIELD(column, SM_COLUMN_BOOLEAN, "", meaning), IS(SM_IDENTITY_WORK), shown},
#define COLUMN_REAL(column, meaning, shown)
#define VIEW_SHOWN(title)                                  SHOWN_WHEN_VARIED(title, NULL)
#define VIEW_QUIET(title)                                  FLAG(title)
#define X(type, member, column, view, title, meaning, ...) COLUMN_##type(column, meaning, VIEW_##view(title))
    SM_MODEL_FIELDS(X, X)
#undef X
        {REAL(dropout, "", "probability of dropout"), IS(SM_IDENTITY_WORK), FLAG("dropout")},
    {TEXT(optimizer, "optimizer of the step: adamw, ...; null: the pass has none"), IS(SM_FACTOR_OPTIMIZER),
     SHOWN_WHEN_VARIED("optimizer", NULL)},
    {INTEGER(seed, "", "of weights, data and dropout"), FLAG("seed")},
    {JSON(run_args,
          "flags of `stepmark run`, or of `stepmark loop` if --loader is among them, that measure exactly this "
          "row, with all values, including defaults; `stepmark compare FILE#N` runs them again")},
    {TEXT(data, "file that the tokens were read from, or \"embedded text\""), FLAG("data")},
    {TEXT(data_digest, "FNV-1a of the steps' batches: inputs, then targets of each, and the starts of documents, "
                       "if any, as 32-bit integers")},
    {TEXT(documents, "documents in the rows: least and most of drawn lengths, the id of the data's separator, or "
                     "the tokenizer that has it; null: rows are cut from the data"),
     IS(SM_IDENTITY_WORK), SHOWN_WHEN_VARIED("documents", NULL)},
    {TEXT(padding, "placement of documents in rows: none, batch, max, bucket or packed; none without documents"),
     IS(SM_IDENTITY_WORK), SHOWN_WHEN_VARIED("padding", NULL)},
    {TEXT(weights, "folder of the weights; null: drawn from the seed"), FLAG("weights")},
    {TEXT(weights_digest, "FNV-1a of its model.safetensors, or of its parts")},

    {INTEGER(open_ns, "ns", "opening the device")},
    {INTEGER(build_ns, "ns", "building the plan's executable: compilation, allocation, initial weights")},
    {INTEGER(tune_ns, "ns", "choosing kernel parameters by measurement")},
    {INTEGER(first_step_ns, "ns", "the first step, including everything that happens only once"), SPEED},
    {INTEGER(n_warmup, "", "steps run before the samples, after the first"), FLAG("warm-up")},
    {INTEGER(warmup_ns, "ns", "total time of these steps"), SPEED},
    {INTEGERS(warmup_samples_ns, "ns", "each of these steps"), SPEED},
    {TEXT(warmup_stop, "why warm-up ended: fixed (--warmup), steady, or limit (not steady in time)")},

    {INTEGER(attribution_ns, "ns", "wall-clock time of the attribution step of the phases: the one of median length"),
     SPEED},
    {INTEGER(n_attribution, "", "attribution steps run"), SPEED},
    {INTEGER(phases.zero_grad_ns, "ns", "ops that zero the gradients"), SPEED},
    {INTEGER(phases.forward_ns, "ns", "ops of the forward phase"), SHOWN("forward ms", show_phase), SPEED},
    {INTEGER(phases.backward_ns, "ns", "ops of the backward phase"), SHOWN("backward ms", show_phase), SPEED},
    {INTEGER(phases.optimizer_ns, "ns", "ops of the optimizer phase"), SHOWN("optimizer ms", show_phase), SPEED},
    {INTEGER(phases.scaler_ns, "ns", "ops that change the loss scale; null: no loss scaling"),
     SHOWN("scaler ms", show_phase), SPEED},
    {INTEGER(phases.unaccounted_ns, "ns", "attribution_ns less all ops"), SHOWN("unaccounted", show_unaccounted),
     SPEED},
    {INTEGER(n_skipped, "",
             "steps up to the last sample that were skipped because a gradient was not finite: they changed no "
             "weights; null: no loss scaling"),
     SHOWN("skipped", NULL)},
    {REAL(attribution_percent, "%", "timing overhead: how much longer that step took than the median sample"),
     SHOWN("timing overhead", show_apart), SPEED},

    {INTEGER(overhead_ns, "ns",
             "median_ns less all ops of that step: the time of the host and of gaps between ops. Below 0 if timing "
             "slows the ops, as on the cpu backend"),
     SPEED},

    {INTEGERS(samples_ns, "ns", "every sample of the headline pass, in order"), SPEED},
    {REALS(samples_ts, "tokens/s", "tokens per second of every sample"), SPEED},
    {INTEGER(median_ns, "ns", "median of the samples"), SHOWN("step ms ± spread", show_step),
     BRIEF("step ms", show_median), RANK(6), SPEED},
    {INTEGER(mad_ns, "ns", "median absolute deviation from the median, unscaled"), SPEED},
    {INTEGER(q1_ns, "ns", "first quartile, interpolated linearly"), SPEED},
    {INTEGER(q3_ns, "ns", "third quartile"), SPEED},
    {INTEGER(min_ns, "ns", "shortest sample"), SPEED},
    {INTEGER(max_ns, "ns", "longest sample"), SPEED},
    {INTEGER(ci95_lo_ns, "ns", "95% confidence interval of the median, from order statistics; null below 6 samples"),
     SPEED},
    {INTEGER(ci95_hi_ns, "ns", "its upper end"), SPEED},
    {INTEGER(n_outliers, "", "samples outside of Tukey's fences (1.5 IQR); they are counted, not removed"), SPEED},
    {REAL(noise_percent, "%", "how far the 95% interval reaches from the median, in percent of it"), SPEED},
    {TEXT(noise_verdict,
          "steady: noise_percent is at most 5 and mad_ns at most 10% of the median; noisy: not so; too few: "
          "below 6 samples"),
     SPEED},
    {INTEGER(p95_ns, "ns", "95th percentile; null below 20 samples"), SPEED},
    {INTEGER(p99_ns, "ns", "99th percentile; null below 100 samples"), SPEED},
    {REAL(drift_percent, "%", "trend from first to last sample (Theil-Sen), in percent of the median; null below 8"),
     SPEED},
    {REAL(drift_p, "", "probability of such a trend by chance (Mann-Kendall)"), SPEED},
    {REAL(bimodality, "",
          "distance of the best division into two groups, in standard deviations (Ashman's D); null below 12"),
     SPEED},
    {INTEGER(avg_ns, "ns", "mean of the samples"), SPEED},
    {INTEGER(stddev_ns, "ns", "standard deviation of the samples, n-1"), SPEED},
    {INTEGER(harness_ns, "ns",
             "time of the headline pass outside of its samples (sensors, losses, limits), divided by the samples"),
     SPEED},
    {REAL(median_ts, "tokens/s", "tokens per second at the median, without padding"), SHOWN("tokens/s", sm_show_count),
     BRIEF("tokens/s (95%)", show_rate), RANK(SM_RANK_ALWAYS), SPEED},
    {REAL(avg_ts, "tokens/s", "mean of samples_ts"), SPEED},
    {REAL(stddev_ts, "tokens/s", "standard deviation of samples_ts, n-1"), SPEED},
    {REAL(real_tokens, "tokens",
          "positions of a sample with targets that count: the tokens of tokens/s; with documents the mean over the "
          "steps' batches")},
    {REAL(padded_tokens, "tokens", "positions of a sample that are padding: computed, and not counted")},
    {REAL(real_tokens_per_s, "tokens/s", "median_ts: real tokens per second"), SPEED},
    {REAL(padded_tokens_per_s, "tokens/s", "positions of padding per second at the median"), SPEED},
    {REAL(attended_pairs, "",
          "mean number, in a micro-batch of documents, of pairs of a position and one that it attends to, as flops "
          "counts them; null: the whole causal half")},

    {INTEGERS(samples_forward_ns, "ns", "pass type separate: the forward part of every sample"), SPEED},
    {INTEGERS(samples_backward_ns, "ns", "pass type separate: the backward part of every sample"), SPEED},
    {INTEGER(forward_avg_ns, "ns", "mean of samples_forward_ns"), SPEED},
    {INTEGER(forward_stddev_ns, "ns", "their standard deviation"), SPEED},
    {INTEGER(backward_avg_ns, "ns", "mean of samples_backward_ns"), SPEED},
    {INTEGER(backward_stddev_ns, "ns", "their standard deviation"), SPEED},

    {REAL(flops, "FLOP", "work of one sample: the sum over its ops, recomputation excluded")},
    {REAL(bytes, "bytes", "traffic of one sample if each op reads and writes its operands once")},
    {REAL(peak_flops, "FLOP/s", "the device's peak")},
    {REAL(peak_bandwidth, "bytes/s", "its memory's peak bandwidth")},
    {TEXT(peak_source, "how the peaks were measured")},
    {INTEGER(ideal_ns, "ns",
             "flops/peak_flops, plus the traffic of the update's ops / peak_bandwidth; AdamW: 28 bytes for each "
             "parameter, and 2 more if matmuls read it in bf16 or fp16")},
    {REAL(mfu, "", "flops / (median_ns x peak_flops)"), SHOWN("% of peak", sm_show_percent), RANK(5), SPEED},
    {REAL(step_efficiency, "", "ideal_ns / median_ns"), SHOWN("efficiency", sm_show_percent), SPEED},
    {REAL(energy_j, "J", "energy of one sample"), SPEED},
    {REAL(energy_per_token_j, "J", "energy_j over the tokens of a sample"), SPEED},
    {TEXT(energy_source, "how the energy was measured")},

    {REAL(sensors.own_cpus, "", "processors that this process kept busy in the headline pass, on average")},
    {REAL(sensors.other_cpus, "", "processors that others kept busy")},
    {REAL(sensors.steal_share, "", "share of processor time that the hypervisor gave to others")},
    {INTEGER(sensors.minor_faults, "", "page faults of the process without disk access")},
    {INTEGER(sensors.major_faults, "", "page faults with disk access")},
    {INTEGER(sensors.swap_in_bytes, "bytes", "read from swap by the whole machine")},
    {INTEGER(sensors.swap_out_bytes, "bytes", "written to swap by the whole machine")},
    {INTEGER(sensors.voluntary_switches, "", "voluntary context switches: a thread waited")},
    {INTEGER(sensors.involuntary_switches, "", "involuntary context switches: a thread was preempted")},
    {TEXT(sensors.governor, "governor of the processor's clock")},
    {REAL(sensors.frequency_before_mhz, "MHz", "clock of the processors before the headline pass, mean")},
    {REAL(sensors.frequency_after_mhz, "MHz", "and after it")},
    {REAL(sensors.temperature_before_c, "C", "temperature of the processor before")},
    {REAL(sensors.temperature_after_c, "C", "and after")},
    {INTEGER(sensors.throttle_count, "", "times that the processor throttled because of heat")},
    {INTEGER(sensors.quota_throttled_ns, "ns", "time stopped by the cgroup's processor limit")},
    {REAL(sensors.gpu_frequency_mhz, "MHz", "clock of the measured device, after")},
    {REAL(sensors.gpu_temperature_c, "C", "its temperature, after")},
    {TEXT(sensors.gpu_throttle, "why it throttled")},

    {TEXT(
         loop.loader,
         "of a training loop: its loader, inline or threads:N; null: no loop was measured (also for the fields below)"),
     IS(SM_FACTOR_LOADER), SHOWN_WHEN_VARIED("loader", NULL)},
    {INTEGER(loop.n_steps, "",
             "attribution steps in the means below: those whose time without data is in the middle half"),
     SPEED},
    {INTEGER(loop.wall_ns, "ns", "all of such a step; the phases below add up to it"), SPEED},
#define X(code, member, name, text) {INTEGER(loop.member##_ns, "ns", text), SPEED},
    SM_STEP_PHASE_LIST(X)
#undef X
        {INTEGER(loop.headline_wait_ns, "ns", "in a headline step: waiting for data, or making them inline"), SPEED},
    {INTEGER(loop.headline_comm_ns, "ns", "in a headline step: waiting for other processes"), SPEED},
    {INTEGER(loop.headline_hidden_ns, "ns",
             "in a headline step: communication that overlapped with computation; "
             "null: a single process"),
     SPEED},
    {INTEGER(loop.comm_bytes, "bytes",
             "in a step: bytes sent to and received from other processes; null: a single "
             "process"),
     SPEED},
    {TEXT(loop.transport, "how what they exchange travels; null: a single process")},
    {INTEGER(loop.busy_ns, "ns", "loader threads' time for a step's data, divided by their number; null: inline"),
     SPEED},
    {REAL(loop.n_ready, "", "mean number of steps whose batches were ready at a request"), SPEED},
    {JSON(loop.samples, "wall and each phase that took time: an array, by attribution step, in ns"), SPEED},
    {JSON(loop.memory, "over the ops of a step, by the planner: end_ns, when each ends, laid end to end, and "
                       "alive_bytes, activations and scratch that hold data meanwhile (among very many ops neighbours "
                       "are joined); held_bytes, tensors that outlive a step; backward_ns, where the backward begins"),
     SPEED},
    {TEXT(loop.bound, "the cause whose removal alone would make the loop fastest: compute, memory, launches, input or "
                      "communication; null: not known"),
     SPEED},
    {REAL(loop.bound_share, "", "its share of a headline step"), SPEED},
    {REAL(loop.ceiling_ts, "tokens/s", "throughput if it were removed"), SPEED},
    {JSON(loop.ceilings, "likewise, for each of the five, in tokens/s"), SPEED},
    {TEXT(loop.verdict, "the same as a sentence"), SPEED},
    {JSON(utilisation, "of a training loop, at even intervals: interval_ms, n_warmup and n_headline samples in turn; "
                       "cpu: busy share of all processors; processors: of each, in the headline; rss_bytes; of a GPU "
                       "gpu: busy share, gpu_memory_bytes, power_w")},

    {INTEGER(peak_rss_bytes, "bytes", "largest resident memory of the process while it measured"),
     SHOWN("memory", show_memory), RANK(4)},
    {INTEGER(device_peak_bytes, "bytes", "allocated on the device")},
    {INTEGER(estimated_bytes, "bytes",
             "forecast of the planner and the kernels for the device: parameters, gradients, optimizer, activations, "
             "scratch")},
    {INTEGER(estimated_rss_bytes, "bytes",
             "on a device that uses host memory: estimated_bytes plus the memory that the process had before")},
    {TEXT(sweep_key, "in a sweep: the flags of this configuration; unique in a file")},
    {TEXT(sweep_note, "in a sweep: why this configuration was added to the requested ones")},
    {INTEGER(process_ns, "ns", "in a sweep: lifetime of the configuration's process")},
    {INTEGER(process_peak_rss_bytes, "bytes", "in a sweep: its largest resident memory, including the loss check")},
    {INTEGER(memory_limit_bytes, "bytes", "in a sweep: the limit of its allocations")},

    {INTEGER(check_seed, "", "seed of the checks' draws: --check-seed draws the same")},
    {FIELD(check_seed_chosen, SM_COLUMN_BOOLEAN, "",
           "it was given, so that own code could know where checks come: such a row of own code is not ranked")},
    {REAL(loss, "", "loss of the first step, at the initial weights"), SHOWN("loss", show_loss)},
    {REAL(loss_checked, "", "mean loss of the tokens that were last compared with the reference's")},
    {REAL(loss_reference, "", "the reference's mean loss of these tokens")},
    {TEXT(loss_check, "how they were compared"), SHOWN("status", show_status), BRIEF(NULL, show_brief_status),
     RANK(SM_RANK_ALWAYS)},
    {TEXT(gradient_check, "how the gradients of the first step were compared with differences of the loss")},
    {REAL(gradient_error, "", "their difference, relative to the change that the gradients predict")},
    {REAL(gradient_tolerance, "", "allowed difference")},
    {INTEGER(gradient_check_ns, "ns", "time of this check; not part of any other time")},
    {TEXT(update_check, "how the updates of checked steps were compared with the reference's rule")},
    {REAL(update_error, "", "largest difference of a sampled number, relative to its allowed rounding; at most 1")},
    {TEXT(spot_check,
          "how many ops of checked steps were computed again from their operands, in part or by Freivalds' test")},
    {REAL(spot_error, "", "largest difference of one of their numbers, relative to its allowed rounding; at most 1")},
    {TEXT(repeat_check, "measured steps that were repeated, in pieces, with identical bits; or why none was")},
    {INTEGER(checks_ns, "ns",
             "time of all checks, including repeated steps, and checked steps that serve no other purpose; not part "
             "of any sample")},
    {REALS(losses, "",
           "loss of every step: first, warm-up, samples, attribution, the last check; of its last micro-batch")},

    {JSON(warnings, "disturbances of the figures"), SHOWN_AS_NOTES("warning")},
    {JSON(context, "facts of the machine and the build")},
};

const sm_table sm_row_table = {
    .name = "results",
    .columns = columns,
    .n_columns = sizeof(columns) / sizeof(columns[0]),
};
