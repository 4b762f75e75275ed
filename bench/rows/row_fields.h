// row_fields.h: the one list of a result row's fields, in the order in which they are written. From it row.h makes the
// struct, and row_schema.c the columns: names, types, units, meanings, display. Names shared with llama-bench have the
// same meaning. Each includer defines the words:
//
//   INTEGER(member, unit, meaning, ...)    int64_t, SM_ABSENT = null; likewise INTEGERS
//   REAL(member, unit, meaning, ...)       double, NaN = null; likewise REALS
//   BOOLEAN(member, meaning, ...)
//   TEXT(member, size, meaning, ...)       char[size], "" = null
//   JSON(member, meaning, ...)             json_t *, NULL = null
//   ..._IN(group, member, ...)             the same within GROUP(group) ... END_GROUP(group), an object in the row
//
// Attributes follow the meaning:
//   SHOWN(heading, function)               a column of the table for people; the function shows it, NULL: by its type
//   VARIED(heading, function)              likewise where rows differ, else once for all
//   SOME(heading)                          likewise, and a row without it differs from one with it
//   FLAG(heading)                          the flag in run_args, where rows differ
//   FORMAT(format)                         of a REAL
//   BRIEF(heading, function), RANK(n)      on a terminal
//   IS(part)                               part of the row's identity that it belongs to (identity.h)
//   ABSENT(value)                          what rows mean that are older than the column and do not have it
//   MAY_LACK                               a row without it agrees with any other
//   NEVER_UNKNOWN                          in rows of any program without it, it is what ABSENT says
//   SPEED                                  removed by sm_row_clear_speed()
//
// clang-format off
INTEGER(schema_version, "", "version of this table; grows when a field changes its meaning")
TEXT(build_commit, 64, "commit that the program was built from")
TEXT(test_time, 32, "start of the measurement, UTC, ISO 8601")
TEXT(status, 16, "ok, oom, error, timeout or skipped")
TEXT(reason, SM_ROW_REASON_SIZE, "why the status is not ok, with the facts")
TEXT(stop_reason, 32, "why sampling ended: repetitions (all done), noise (as steady as requested), samples or time "
     "(limit reached before that), timeout or interrupted")

TEXT(score, 32, "name of the frozen work that it did, stepmark-124M-v1 (docs/score.md); null: other work")
TEXT(model_arch, 32, "architecture of the model: gpt2, ...", IS(SM_IDENTITY_WORK), VARIED("architecture", NULL))
TEXT(model_type, SM_ROW_TEXT_SIZE, "size of the model by name", VARIED("model", NULL))
INTEGER(model_n_params, "", "parameters of the model, padding excluded", VARIED("parameters", sm_show_count))
TEXT(backends, SM_ROW_TEXT_SIZE, "backends in this build, separated by commas")
TEXT(backend, 32, "requested backend")
TEXT(backend_used, 32, "backend that ran", IS(SM_FACTOR_DEVICE))
TEXT(device, 32, "device that ran, as in --list-devices", IS(SM_FACTOR_DEVICE), SHOWN("device", show_device), RANK(8))
TEXT(cpu_info, SM_ROW_TEXT_SIZE, "processor of the host", IS(SM_FACTOR_MACHINE), VARIED("on", NULL))
TEXT(gpu_info, SM_ROW_TEXT_SIZE, "device other than the host's processor", IS(SM_FACTOR_DEVICE), VARIED("GPU", NULL))
TEXT(isa, 32, "instruction set of the kernels that ran", IS(SM_FACTOR_ISA))
TEXT(tier, 32, "family of the kernels that ran", IS(SM_FACTOR_TIER))
TEXT(mode, 32, "naive, fused or tuned", IS(SM_FACTOR_MODE), VARIED("mode", NULL))
TEXT(recompute, 16, "results that the backward computes again instead of keeping them: none, light (cheap ones) or "
     "block (a whole block except its input); null: the pass has no backward", IS(SM_FACTOR_MODE),
     VARIED("recompute", NULL), ABSENT("none"), MAY_LACK)
TEXT(without, SM_ROW_TEXT_SIZE, "rewrites of mode fused that were left out; null: none", IS(SM_FACTOR_MODE),
     SOME("without"))
TEXT(attention, 16, "attention weights kept for the backward: naive (the whole square) or flash (none: they are "
     "computed again)", IS(SM_FACTOR_MODE), VARIED("attention", NULL), MAY_LACK)
TEXT(products, SM_ROW_TEXT_SIZE, "what multiplied matrices: own (the backend's kernels), or openblas, its version and "
     "core; in mode tuned either may have", IS(SM_FACTOR_MODE), VARIED("products", NULL), ABSENT("own"), MAY_LACK)
TEXT(precision, 16, "fp32, tf32, tf32x3, bf16x6, bf16, fp16 or fp8", IS(SM_FACTOR_PRECISION),
     VARIED("precision", sm_show_precision))
BOOLEAN(emulated, "the device widened the data and computed in fp32, for lack of instructions of its own; its peak is "
        "fp32's")
TEXT(loss_scale, 32, "factor on the loss, so that small gradients do not vanish: none, dynamic (as GradScaler's) or a "
     "number; null: the pass has no backward", IS(SM_FACTOR_PRECISION), VARIED("loss scale", NULL), ABSENT("none"),
     MAY_LACK)
TEXT(own_kernels, SM_ROW_REASON_SIZE, "the user's own kernels that ran in place of the backend's: op=file (digest), "
     "..., or own backend file (digest); null: none", IS(SM_FACTOR_MODE), SOME("own kernels"))
INTEGER(own_call_ns, "ns", "median time of a call that does nothing into the process that runs own code; each call costs "
        "that, and kernels copies of operands, which is part of all times; null: none runs apart",
        VARIED("own call ms", sm_show_ms))
INTEGER(n_threads, "", "threads used", IS(SM_FACTOR_THREADS), VARIED("threads", NULL))
TEXT(binding, SM_ROW_TEXT_SIZE, "where they run: bound one a core, or free", IS(SM_FACTOR_THREADS), MAY_LACK)
TEXT(op, SM_ROW_TEXT_SIZE, "ops that a sample runs by themselves, in place of a step: a kind, or what the names of a "
     "forward op and its backward have in common; null: a step", IS(SM_IDENTITY_WORK), SOME("op"),
     MAY_LACK)
TEXT(shape, SM_ROW_TEXT_SIZE - 16, "their sizes by the letters of their shapes, \"B=8 T=256 NH=1 HS=16\"",
     IS(SM_IDENTITY_WORK), MAY_LACK)
TEXT(pass_type, 32, "part of the step that a sample times: forward, backward, forward-backward, step or separate",
     IS(SM_IDENTITY_WORK))
TEXT(test, SM_ROW_TEXT_SIZE, "name of the test: part of the step, b = batch, s = sequence length; of ops their sizes",
     SHOWN("test", NULL), RANK(7))
INTEGER(n_batch, "", "B: sequences in a micro-batch", IS(SM_IDENTITY_BATCH))
INTEGER(n_seq, "", "T: tokens in a sequence", IS(SM_IDENTITY_WORK))
INTEGER(n_accum, "", "micro-batches in a step", IS(SM_IDENTITY_WORK), VARIED("accumulation", show_accumulation),
        ABSENT("1"))
#define ROW_SIZE(column, ...)   INTEGER(column, "", __VA_ARGS__)
#define ROW_OPTIONAL            ROW_SIZE
#define ROW_WORD(column, ...)   TEXT(column, SM_FIELD_TEXT_SIZE, __VA_ARGS__, ABSENT("gelu")) // activation alone
#define ROW_SWITCH(column, ...) BOOLEAN(column, __VA_ARGS__, ABSENT("no"))
#define ROW_REAL(column, ...)
#define ROW_SHOWN(title) VARIED(title, NULL)
#define ROW_QUIET(title) FLAG(title)
#define X(type, member, column, view, title, meaning, ...) \
    ROW_##type(column, meaning, IS(SM_IDENTITY_WORK), ROW_##view(title))
SM_MODEL_FIELDS(X, X)
#undef X
REAL(dropout, "", "probability of dropout", IS(SM_IDENTITY_WORK), FLAG("dropout"))
TEXT(optimizer, 32, "optimizer of the step: adamw, ...; null: the pass has none", IS(SM_FACTOR_OPTIMIZER),
     VARIED("optimizer", NULL), MAY_LACK)
INTEGER(seed, "", "of weights, data and dropout", FLAG("seed"))
JSON(run_args, "flags of `stepmark run`, or of `stepmark loop` if --loader is among them, that measure exactly this "
     "row, with all values, including defaults; `stepmark compare FILE#N` runs them again")
TEXT(data, SM_ROW_REASON_SIZE, "file that the tokens were read from, or \"embedded text\"", FLAG("data"))
TEXT(data_digest, SM_DIGEST_SIZE, "FNV-1a of the steps' batches: inputs, then targets of each, and the starts of "
     "documents, if any, as 32-bit integers")
TEXT(documents, SM_ROW_TEXT_SIZE, "documents in the rows: least and most of drawn lengths, the id of the data's "
     "separator, or the tokenizer that has it; what is done to long ones; null: rows are cut from the data",
     IS(SM_IDENTITY_WORK), SOME("documents"))
TEXT(padding, 16, "placement of documents in rows: none, batch, max, bucket or packed; none without documents",
     IS(SM_IDENTITY_WORK), VARIED("padding", NULL), ABSENT("none"))
TEXT(weights, SM_ROW_REASON_SIZE, "folder of the weights; null: drawn from the seed", FLAG("weights"))
TEXT(weights_digest, SM_DIGEST_SIZE, "FNV-1a of its model.safetensors, or of its parts")

INTEGER(open_ns, "ns", "opening the device")
INTEGER(build_ns, "ns", "building the plan's executable: compilation, allocation, initial weights")
INTEGER(tune_ns, "ns", "choosing kernel parameters by measurement")
INTEGER(first_step_ns, "ns", "the first step, including everything that happens only once", SPEED)
INTEGER(n_warmup, "", "steps run before the samples, after the first", FLAG("warm-up"))
INTEGER(warmup_ns, "ns", "total time of these steps", SPEED)
INTEGERS(warmup_samples_ns, "ns", "each of these steps", SPEED)
TEXT(warmup_stop, 32, "why warm-up ended: fixed (--warmup), steady, or limit (not steady in time)")

INTEGER(attribution_ns, "ns", "wall-clock time of the attribution step of the phases: the one of median length", SPEED)
INTEGER(n_attribution, "", "attribution steps run", SPEED)
GROUP(phases)
INTEGER_IN(phases, zero_grad_ns, "ns", "ops that zero the gradients", SPEED)
INTEGER_IN(phases, forward_ns, "ns", "ops of the forward phase", SHOWN("forward ms", show_phase), SPEED)
INTEGER_IN(phases, backward_ns, "ns", "ops of the backward phase", SHOWN("backward ms", show_phase), SPEED)
INTEGER_IN(phases, optimizer_ns, "ns", "ops of the optimizer phase", SHOWN("optimizer ms", show_phase), SPEED)
INTEGER_IN(phases, scaler_ns, "ns", "ops that change the loss scale, or those of factors in 8 bits; null: no scales",
           SHOWN("scaler ms", show_phase), SPEED)
INTEGER_IN(phases, communication_ns, "ns", "of several processes: waiting for others; null: a single process", SPEED)
INTEGER_IN(phases, unaccounted_ns, "ns", "attribution_ns less all ops", SHOWN("unaccounted", show_unaccounted), SPEED)
END_GROUP(phases)
INTEGER(n_skipped, "", "steps up to the last sample that were skipped because a gradient was not finite: they changed "
        "no weights; null: no loss scaling", SHOWN("skipped", NULL))
REAL(attribution_percent, "%", "timing overhead: how much longer that step took than the median sample",
     SHOWN("timing overhead", NULL), FORMAT("%+.1f%%"), SPEED)

INTEGER(overhead_ns, "ns", "median_ns less all ops of that step: the time of the host and of gaps between ops. Below 0 "
        "if timing slows the ops, as on the cpu backend", SPEED)

INTEGERS(samples_ns, "ns", "every sample of the headline pass, in order", SPEED)
REALS(samples_ts, "tokens/s", "tokens per second of every sample", SPEED)
INTEGER(median_ns, "ns", "median of the samples", SHOWN("step ms ± spread", show_step), BRIEF("step ms", sm_show_ms),
        RANK(6), SPEED)
INTEGER(mad_ns, "ns", "median absolute deviation from the median, unscaled", SPEED)
INTEGER(q1_ns, "ns", "first quartile, interpolated linearly", SPEED)
INTEGER(q3_ns, "ns", "third quartile", SPEED)
INTEGER(min_ns, "ns", "shortest sample", SPEED)
INTEGER(max_ns, "ns", "longest sample", SPEED)
INTEGER(ci95_lo_ns, "ns", "95% confidence interval of the median, from order statistics; null below 6 samples", SPEED)
INTEGER(ci95_hi_ns, "ns", "its upper end", SPEED)
INTEGER(n_outliers, "", "samples outside of Tukey's fences (1.5 IQR); they are counted, not removed", SPEED)
REAL(noise_percent, "%", "how far the 95% interval reaches from the median, in percent of it", SPEED)
TEXT(noise_verdict, 16, "steady: noise_percent is at most 5 and mad_ns at most 10% of the median; noisy: not so; too "
     "few: below 6 samples", SPEED)
INTEGER(p95_ns, "ns", "95th percentile; null below 20 samples", SPEED)
INTEGER(p99_ns, "ns", "99th percentile; null below 100 samples", SPEED)
REAL(drift_percent, "%", "trend from first to last sample (Theil-Sen), in percent of the median; null below 8", SPEED)
REAL(drift_p, "", "probability of such a trend by chance (Mann-Kendall)", SPEED)
REAL(bimodality, "", "distance of the best division into two groups, in standard deviations (Ashman's D); null below "
     "12", SPEED)
INTEGER(avg_ns, "ns", "mean of the samples", SPEED)
INTEGER(stddev_ns, "ns", "standard deviation of the samples, n-1", SPEED)
INTEGER(harness_ns, "ns", "time of the headline pass outside of its samples (sensors, losses, limits), divided by the "
        "samples", SPEED)
REAL(median_ts, "tokens/s", "tokens per second at the median, without padding", SHOWN("tokens/s", sm_show_count),
     BRIEF("tokens/s (95%)", sm_show_rate), RANK(SM_RANK_ALWAYS), SPEED)
REAL(avg_ts, "tokens/s", "mean of samples_ts", SPEED)
REAL(stddev_ts, "tokens/s", "standard deviation of samples_ts, n-1", SPEED)
REAL(real_tokens, "tokens", "positions of a sample with targets that count: the tokens of tokens/s; with documents the "
     "mean over the steps' batches")
REAL(padded_tokens, "tokens", "positions of a sample that are padding: computed, and not counted")
REAL(real_tokens_per_s, "tokens/s", "median_ts: real tokens per second", SPEED)
REAL(padded_tokens_per_s, "tokens/s", "positions of padding per second at the median", SPEED)
REAL(attended_pairs, "", "mean number, in a micro-batch of documents, of pairs of a position and one that it attends "
     "to, as flops counts them; null: the whole causal half")

INTEGERS(samples_forward_ns, "ns", "pass type separate: the forward part of every sample", SPEED)
INTEGERS(samples_backward_ns, "ns", "pass type separate: the backward part of every sample", SPEED)
INTEGER(forward_avg_ns, "ns", "mean of samples_forward_ns", SPEED)
INTEGER(forward_stddev_ns, "ns", "their standard deviation", SPEED)
INTEGER(backward_avg_ns, "ns", "mean of samples_backward_ns", SPEED)
INTEGER(backward_stddev_ns, "ns", "their standard deviation", SPEED)

REAL(flops, "FLOP", "work of one sample: the sum over its ops, recomputation excluded")
REAL(bytes, "bytes", "traffic of one sample if each op reads and writes its operands once")
REAL(flops_per_s, "FLOP/s", "of ops: flops / median_ns", SHOWN("FLOP/s", sm_show_scaled), RANK(SM_RANK_ALWAYS), SPEED)
REAL(bytes_per_s, "B/s", "of ops: bytes / median_ns", SHOWN("bytes/s", sm_show_scaled), RANK(5), SPEED)
REAL(algorithm_bandwidth, "B/s", "of an exchange among processes: operand_bytes / median_ns, as nccl-tests' algbw",
     SHOWN("algorithm B/s", sm_show_scaled), RANK(5), SPEED)
REAL(bus_bandwidth, "B/s", "likewise, times 2 (N-1)/N of all_reduce of N processes, (N-1)/N of reduce_scatter and "
     "all_gather, 1 of broadcast: nccl-tests' busbw", SHOWN("bus B/s", sm_show_scaled), RANK(SM_RANK_ALWAYS), SPEED)
INTEGER(cold_ns, "ns", "of ops: median of cold_samples_ns", SHOWN("cold ms", sm_show_ms), RANK(7), SPEED)
INTEGERS(cold_samples_ns, "ns", "of ops: runs like the samples, before each of which, and before its backward, "
         "cold_bytes of other data were read, so that caches hold nothing of the operands", SPEED)
INTEGER(cold_bytes, "bytes", "read before each of them", SPEED)
INTEGER(operand_bytes, "bytes", "of ops: all operands", SHOWN("operands", sm_show_bytes))
INTEGER(kept_bytes, "bytes", "of a forward op and its backward: results of the forward that the backward reads",
        SHOWN("kept", sm_show_bytes))
REAL(peak_flops, "FLOP/s", "the device's peak")
REAL(peak_bandwidth, "bytes/s", "its memory's peak bandwidth")
TEXT(peak_source, SM_ROW_TEXT_SIZE, "how the peaks were measured")
INTEGER(ideal_ns, "ns", "flops/peak_flops, plus the traffic of the update's ops / peak_bandwidth; AdamW: 28 bytes for "
        "each parameter, and 2 more if matmuls read it in bf16 or fp16")
REAL(mfu, "", "flops / (median_ns x peak_flops)", SHOWN("% of peak", sm_show_percent), RANK(5), SPEED)
REAL(step_efficiency, "", "ideal_ns / median_ns", SHOWN("efficiency", sm_show_percent), SPEED)
REAL(datasheet_flops, "FLOP/s", "the device's peak as its maker gives it, dense, in this number format "
     "(bench/score/datasheet.c); null: not known")
TEXT(datasheet_source, SM_ROW_TEXT_SIZE, "where that figure is from")
REAL(datasheet_mfu, "", "flops / (median_ns x datasheet_flops)", SHOWN("% of datasheet", sm_show_percent), SPEED)
REAL(energy_j, "J", "energy of one sample", SPEED)
REAL(energy_per_token_j, "J", "energy_j over the tokens of a sample", SPEED)
TEXT(energy_source, SM_ROW_TEXT_SIZE, "how the energy was measured")

GROUP(sensors)
REAL_IN(sensors, own_cpus, "", "processors that this process kept busy in the headline pass, on average")
REAL_IN(sensors, other_cpus, "", "processors that others kept busy")
REAL_IN(sensors, steal_share, "", "share of processor time that the hypervisor gave to others")
INTEGER_IN(sensors, minor_faults, "", "page faults of the process without disk access")
INTEGER_IN(sensors, major_faults, "", "page faults with disk access")
INTEGER_IN(sensors, swap_in_bytes, "bytes", "read from swap by the whole machine")
INTEGER_IN(sensors, swap_out_bytes, "bytes", "written to swap by the whole machine")
INTEGER_IN(sensors, voluntary_switches, "", "voluntary context switches: a thread waited")
INTEGER_IN(sensors, involuntary_switches, "", "involuntary context switches: a thread was preempted")
TEXT_IN(sensors, governor, 32, "governor of the processor's clock")
REAL_IN(sensors, frequency_before_mhz, "MHz", "clock of the processors before the headline pass, mean")
REAL_IN(sensors, frequency_after_mhz, "MHz", "and after it")
REAL_IN(sensors, temperature_before_c, "C", "temperature of the processor before")
REAL_IN(sensors, temperature_after_c, "C", "and after")
INTEGER_IN(sensors, throttle_count, "", "times that the processor throttled because of heat")
INTEGER_IN(sensors, quota_throttled_ns, "ns", "time stopped by the cgroup's processor limit")
REAL_IN(sensors, gpu_frequency_mhz, "MHz", "clock of the measured device, after")
REAL_IN(sensors, gpu_temperature_c, "C", "its temperature, after")
TEXT_IN(sensors, gpu_throttle, SM_ROW_TEXT_SIZE, "why it throttled")

END_GROUP(sensors)
GROUP(loop)
TEXT_IN(loop, loader, 32, "of a training loop: its loader, inline or threads:N; null: no loop was measured (also for "
        "the fields below)", IS(SM_FACTOR_LOADER), SOME("loader"))
INTEGER_IN(loop, n_steps, "", "attribution steps in the means below: those whose time without data is in the middle "
           "half", SPEED)
INTEGER_IN(loop, wall_ns, "ns", "all of such a step; the phases below add up to it", SPEED)
#define X(code, member, name, text) INTEGER_IN(loop, member##_ns, "ns", text, SPEED)
SM_STEP_PHASE_LIST(X)
#undef X
INTEGER_IN(loop, headline_wait_ns, "ns", "in a headline step: waiting for data, or making them inline", SPEED)
INTEGER_IN(loop, headline_comm_ns, "ns", "in a headline step: waiting for other processes, which is exposed",
           SHOWN("exposed ms", sm_show_ms), SPEED)
INTEGER_IN(loop, headline_hidden_ns, "ns", "in a headline step: communication that overlapped with computation; null: "
           "a single process", SHOWN("hidden ms", sm_show_ms), SPEED)
INTEGER_IN(loop, comm_bytes, "bytes", "in a step: bytes sent to and received from other processes; null: a single "
           "process", SPEED)
INTEGER_IN(loop, n_processes, "", "processes that share the step", IS(SM_IDENTITY_WORK), SOME("processes"), ABSENT("1"),
           NEVER_UNKNOWN)
TEXT_IN(loop, gradients, 8, "format of the gradients that they exchange; null: fp32", IS(SM_FACTOR_PRECISION),
        SOME("gradients"))
TEXT_IN(loop, transport, SM_TEXT_SIZE * 2, "how what they exchange travels; null: a single process", IS(SM_FACTOR_MODE),
        SOME("transport"))
TEXT_IN(loop, devices, SM_ROW_REASON_SIZE, "device of each process, where they differ in kind or share a card; null: "
        "each has its own, all alike", IS(SM_FACTOR_DEVICE), SOME("devices"))
TEXT_IN(loop, buckets, 32, "gradients that they exchange together: 0 (each by itself, after the backward), all (all at "
        "once, after it) or a size; null: as usual", IS(SM_FACTOR_MODE), SOME("buckets"))
TEXT_IN(loop, shard, 32, "optimizer: they share its state; null: not so", IS(SM_FACTOR_MODE), SOME("shard"))
INTEGER_IN(loop, busy_ns, "ns", "loader threads' time for a step's data, divided by their number; null: inline", SPEED)
REAL_IN(loop, n_ready, "", "mean number of steps whose batches were ready at a request", SPEED)
JSON_IN(loop, samples, "wall and each phase that took time: an array, by attribution step, in ns", SPEED)
JSON_IN(loop, memory, "over the ops of a step, by the planner: end_ns, when each ends, laid end to end, and "
        "alive_bytes, activations and scratch that hold data meanwhile (among very many ops neighbours are joined); "
        "held_bytes, tensors that outlive a step; backward_ns, where the backward begins", SPEED)
TEXT_IN(loop, bound, 16, "the cause whose removal alone would make the loop fastest: compute, memory, launches, input "
        "or communication; null: not known", SPEED)
REAL_IN(loop, bound_share, "", "its share of a headline step", SPEED)
REAL_IN(loop, ceiling_ts, "tokens/s", "throughput if it were removed", SPEED)
JSON_IN(loop, ceilings, "likewise, for each of the five, in tokens/s", SPEED)
TEXT_IN(loop, verdict, SM_ROW_REASON_SIZE, "the same as a sentence", SPEED)
END_GROUP(loop)
JSON(utilisation, "of a training loop, at even intervals: interval_ms, n_warmup and n_headline samples in turn; cpu: "
     "busy share of all processors; processors: of each, in the headline; rss_bytes; of a GPU gpu: busy share, "
     "gpu_memory_bytes, power_w")

INTEGER(peak_rss_bytes, "bytes", "largest resident memory of the process while it measured",
        SHOWN("memory", show_memory), RANK(4))
INTEGER(device_peak_bytes, "bytes", "allocated on the device")
INTEGER(estimated_bytes, "bytes", "forecast of the planner and the kernels for the device: parameters, gradients, "
        "optimizer, activations, scratch")
INTEGER(estimated_rss_bytes, "bytes", "on a device that uses host memory: estimated_bytes plus the memory that the "
        "process had before")
TEXT(sweep_key, SM_ROW_REASON_SIZE, "in a sweep: the flags of this configuration; unique in a file")
TEXT(sweep_note, SM_ROW_REASON_SIZE, "in a sweep: why this configuration was added to the requested ones")
INTEGER(process_ns, "ns", "in a sweep: lifetime of the configuration's process")
INTEGER(process_peak_rss_bytes, "bytes", "in a sweep: its largest resident memory, including the loss check")
INTEGER(memory_limit_bytes, "bytes", "in a sweep: the limit of its allocations")

INTEGER(check_seed, "", "seed of the checks' draws: --check-seed draws the same")
BOOLEAN(check_seed_chosen, "it was given, so that own code could know where checks come: such a row of own code is not "
        "ranked")
REAL(loss, "", "loss of the first step, at the initial weights", SHOWN("loss", NULL), FORMAT("%.4f"))
REAL(loss_checked, "", "mean loss of the tokens that were last compared with the reference's")
REAL(loss_reference, "", "the reference's mean loss of these tokens")
TEXT(loss_check, SM_ROW_TEXT_SIZE, "how they were compared", SHOWN("status", show_status),
     RANK(SM_RANK_ALWAYS))
TEXT(gradient_check, SM_ROW_TEXT_SIZE, "how the gradients of the first step were compared with differences of the loss")
REAL(gradient_error, "", "their difference, relative to the change that the gradients predict")
REAL(gradient_tolerance, "", "allowed difference")
INTEGER(gradient_check_ns, "ns", "time of this check; not part of any other time")
TEXT(update_check, SM_ROW_TEXT_SIZE, "how the updates of checked steps were compared with the reference's rule")
REAL(update_error, "", "largest difference of a sampled number, relative to its allowed rounding; at most 1")
TEXT(spot_check, 2 * SM_ROW_TEXT_SIZE, "how many ops of checked steps were computed again from their operands, in part "
     "or by Freivalds' test", VARIED("checked", show_check), BRIEF(NULL, show_nothing))
REAL(spot_error, "", "largest difference of one of their numbers, relative to its allowed rounding; at most 1")
TEXT(repeat_check, SM_ROW_TEXT_SIZE, "measured steps that were repeated, in pieces, with identical bits; or why none "
     "was")
INTEGER(checks_ns, "ns", "time of all checks, including repeated steps, and checked steps that serve no other purpose; "
        "not part of any sample")
REALS(losses, "", "loss of every step: first, warm-up, samples, attribution, the last check; of its last micro-batch")

JSON(warnings, "disturbances of the figures", SHOWN_AS_NOTES("warning"))
JSON(context, "facts of the machine and the build")

#undef INTEGER
#undef INTEGERS
#undef REAL
#undef REALS
#undef BOOLEAN
#undef TEXT
#undef JSON
#undef INTEGER_IN
#undef REAL_IN
#undef TEXT_IN
#undef JSON_IN
#undef GROUP
#undef END_GROUP
