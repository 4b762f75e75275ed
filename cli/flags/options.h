// options.h: the command line. One table (flags/flags.c) lists every flag: its name, argument, help, subcommands, type
// and place in cli_options. Parsing, --help and "did you mean" all come from that table.
#pragma once

#include "backend.h"
#include "cli/flags/commands.h"
#include "src/models/model.h"
#include "src/io/pattern.h"

// Values of a comma list; none if the flag was not given.
enum { CLI_MAX_VALUES = 256, CLI_MAX_TEXTS = 32, CLI_TEXT_SIZE = 64, CLI_MAX_ROWS = 256 };

typedef enum { CLI_ORDER_UNSAID, CLI_ORDER_RANDOM, CLI_ORDER_GIVEN } cli_order; // of configurations

typedef struct {
    int64_t values[CLI_MAX_VALUES]; // the first is 0 if there is none
    int n;
} cli_ints;

typedef struct {
    char texts[CLI_MAX_TEXTS][CLI_TEXT_SIZE];
    int n;
} cli_texts;

// Flags of a configuration that `run` or `advise` was given, each with its list.
enum { CLI_MAX_AXES = 48 };

typedef struct {
    int flag;         // its row in the table of flags
    const char *text; // as given; NULL for a switch
} cli_axis;

typedef struct {
    cli_axis axes[CLI_MAX_AXES];
    int n;
} cli_axes;

// --precision. X(code, word, how data are stored, how products are computed)
#define CLI_PRECISION_LIST(X)                           \
    X(CLI_FP32, "fp32", SM_F32, SM_PRODUCTS_PLAIN)      \
    X(CLI_TF32, "tf32", SM_F32, SM_PRODUCTS_TF32)       \
    X(CLI_TF32X3, "tf32x3", SM_F32, SM_PRODUCTS_TF32X3) \
    X(CLI_BF16X6, "bf16x6", SM_F32, SM_PRODUCTS_BF16X6) \
    X(CLI_BF16, "bf16", SM_BF16, SM_PRODUCTS_PLAIN)     \
    X(CLI_FP16, "fp16", SM_F16, SM_PRODUCTS_PLAIN)      \
    X(CLI_FP8, "fp8", SM_BF16, SM_PRODUCTS_FP8)

typedef enum { CLI_PRECISION_LIST(SM_CODE) } cli_precision;

// `profile --sort`. X(code, word, field of a record)
#define CLI_PROFILE_ORDER_LIST(X)           \
    X(CLI_SORT_SELF, "self", "self_ns")     \
    X(CLI_SORT_ABOVE, "above", "above_ns")  \
    X(CLI_SORT_CALLS, "calls", "calls")     \
    X(CLI_SORT_WORK, "work", "flops")       \
    X(CLI_SORT_TRAFFIC, "traffic", "bytes") \
    X(CLI_SORT_ROOFLINE, "roofline", "roofline_share")

typedef enum { CLI_PROFILE_ORDER_LIST(SM_CODE) } cli_profile_order;

// Every flag's value, as its row in the table of flags says. Paths point into argv. NULL, 0 and empty mean: not given.
typedef struct cli_options {
    cli_command command;
    const char *given[CLI_MAX_ROWS]; // what each row of the table was stored from, or its default; NULL: nothing

    struct {
        int arch; // index into the architectures, from 1; 0 = not given
        cli_texts models;
#define X(type, member, ...) SM_FIELD_##type member; // 0 = the size's own; a word's place in its list, from 1
#define KEPT(...)
        SM_MODEL_FIELDS(X, KEPT)
#undef X
#undef KEPT
        const char *weights;
    } model;

    struct {
        const char *op, *documents, *loader, *tokenizer, *data;
        cli_ints batch_sizes, seq_lens;
        cli_ints passes; // sm_pass_type
        int optimizer;   // index into the optimizers
        int padding;     // sm_padding, from 1
        int recompute, attention, long_documents, data_format;
        int place; // 1: out of place
        int64_t head_dim, size_bytes, queue_depth, accum, seed;
        double fit_s, dropout;
    } work;

    struct {
        cli_texts backends, without;
        unsigned without_bits; // --without in the form of sm_plan_rewrite
        cli_ints threads;
        cli_ints precisions; // cli_precision
        cli_ints modes;      // sm_mode
        const char *isa, *cpu_mask, *backend_library, *kernel, *loss_scale;
        int64_t loss_scale_interval;
        int openblas; // --products: 1
        bool keep_env;
    } device;

    struct {
        int64_t warmup; // -1: until steady
        int64_t repetitions, min_samples, max_samples, check_seed;
        double max_noise, min_time_s, max_time_s, delay_s, timeout_s, max_memory_gib;
        bool no_peaks, no_reference, no_phases;
    } measure;

    struct {
        int64_t steps, epochs, tokens, global_batch, val_every, val_batches, save_every, keep, log_every, sample_every;
        sm_step_settings settings; // NaN = the optimizer's default
        double min_lr;             // NaN = not given
        int64_t warmup_steps;      // -1 = not given, here and in the next two
        int schedule, data_order;
        int resume_run; // sm_resume
        const char *val_data, *run, *config, *log, *save;
        bool keep_best, no_checks, profile, init;
    } train;

    struct {
        int64_t n_processes;
        int shard;           // 1: the optimizer
        int gradient_format; // 1: bf16
        int transport;       // sm_transport
        const char *nccl, *buckets;
        double comm_timeout_s;
    } processes;

    struct {
        const char *output_folder;
        bool show, convert;
        int64_t vocab_size, min_frequency;
        double val_percent;
    } tokens;

    struct {
        const char *prompt;
        int64_t n_tokens, top_k;
        double temperature;
        bool ids, raw;
    } generate;

    struct {
        cli_axes axes;
        const char *of_sweep; // a flag that holds for all configurations and was given; NULL: none
        const char *preset, *sweep_file;
        bool resume, dry_run, find_batch;
        int order; // cli_order
        int64_t order_seed, rounds;
    } sweep;

    struct {
        const char *text, *at, *held;
        int64_t layer, train_steps; // -1: not given
        int64_t slice_elems;        // page: of tensors in memory with more, slices are read; 0: no limit
        bool all, values, full;
    } walk;

    struct {
        const char *init, *check, *solutions, *kind, *against, *source, *shape, *filter;
        int64_t hint, max_elems;
        int language; // sm_own_language
    } learn;

    struct {
        bool interleaved, allow_own_code, weak;
        int64_t pairs;
        double threshold_percent;
        cli_texts across;
        const char *save_baseline, *baseline;
        cli_ints predict;
    } compare;

    struct {
        sm_format format; // SM_FORMAT_COUNT: not given
        int by;           // sm_profile_by
        int sort;         // cli_profile_order
        int64_t top;      // 0: all
        bool chosen;      // the switch of a form was given
        bool wide, quiet, progress, watch;
        const char *trace, *timeline, *output_file, *report_file, *collect, *page;
        cli_texts columns, prices;
        double train_tokens;
    } out;

    bool list_devices, probe, peaks, schema, help;

    char **operands; // arguments that are not flags, in argv; only if the subcommand has `operands`
    int n_operands;
    int argc; // the program's whole command line, for the record
    char **argv;
} cli_options;

// Reads argv[1..] (argv[0] is the subcommand) over the command's defaults; is_row: the flags of one row, of each list
// one entry, stored as the value of a flag. SM_ERR_USAGE names the flag, the error and the flag probably meant.
sm_status cli_options_parse(cli_command command, bool is_row, int argc, char **argv, cli_options *options);

// "1,2,4", "1-4", "0-8+2", "1-64*2" or a mix of them, within min..max. `what`: the flag, for messages. And texts.
sm_status cli_parse_ints(const char *what, const char *text, int64_t min, int64_t max, cli_ints *list);
sm_status cli_parse_texts(const char *what, const char *text, cli_texts *list);

// The entry of `names` (n of them) that `text` probably meant; NULL if none is near enough.
const char *cli_nearest(const char *text, const char *const *names, int n);

// SM_ERR_USAGE: `flag` has no `noun` named `text`; suggests one of `names`, or lists them.
sm_status cli_no_such_name(const char *flag, const char *noun, const char *text, const char *const *names, int n);

// The pattern of --filter, which the caller frees; NULL without a text. SM_ERR_USAGE has the error.
sm_status cli_filter_compile(const char *text, sm_pattern **pattern);

// The config of a size of --arch, with the dimensions that the command line sets. SM_ERR_USAGE names what is wrong.
sm_status cli_model_config(const cli_options *options, const char *size_name, sm_model_config *config);

// SM_ERR_USAGE if sequences of T tokens are longer than the model's context.
sm_status cli_check_seq_len(const sm_model_config *config, int64_t T);

const char *cli_precision_name(cli_precision precision);
sm_precision cli_plan_precision(cli_precision precision); // the data type and products of its plans

// Whether the device lacks instructions for that precision and widens its data.
bool cli_is_emulated(const sm_device *device, cli_precision precision);

// The loss scale's text in a row: "dynamic".
const char *cli_loss_scale(const cli_options *options, cli_precision precision);

// The loss scaling of --loss-scale, or the precision's default. SM_ERR_USAGE if it is not a scale.
sm_status cli_loss_scaling(const cli_options *options, cli_precision precision, sm_loss_scaling *scaling);

// sm_backend.measure_peaks for the arithmetic of that precision (fp32's if it is emulated), with operands of
// working_set_bytes, which may fit in a cache; 0: operands in memory.
sm_status cli_measure_peaks(sm_device *device, cli_precision precision, size_t working_set_bytes, double seconds,
                            sm_peaks *peaks);

// The defaults of --optimizer, overridden by flags. SM_ERR_USAGE names a flag that the optimizer does not have.
sm_status cli_settings(const cli_options *options, sm_step_settings *settings);

// The setting's name with `mark` for its underscores: "weight decay".
void cli_setting_text(const sm_setting *setting, char mark, char text[CLI_TEXT_SIZE]);
