// commands.h: the subcommands. A row of this table has all facts of one: parsing, --help, manual pages, completions and
// --schema read it. They are in the order of --help. A row with the name of an earlier one is another form of that
// subcommand, chosen by its flags or operands, with a function and defaults of its own. The table names the
// subcommands' functions, and these look up its rows: the only circle.
#pragma once

#include "bench/tables/record.h"

// X(code, name, function, table of its records, purpose, further members of cli_subcommand)
#define CLI_COMMAND_LIST(X)                                                                                           \
    X(DEVICES, "devices", cli_devices, cli_devices_table,                                                             \
      "list the devices that can run here, and those that cannot, with the reason; measure their ceilings",           \
      .heading = "Measure a step",                                                                                    \
      .examples = {"stepmark devices", "stepmark devices -o json",                                                    \
                   "stepmark devices --peaks -t 1-16*2 --cpu-mask 0-15 -o csv"})                                      \
    X(PEAKS, "devices", cli_peaks, cli_peaks_table,                                                                   \
      "measure the ceilings of devices: arithmetic, and bandwidth of each cache and of memory", .with = "--peaks",    \
      .is_alone = true)                                                                                               \
    X(RUN, "run", cli_run, sm_row_table,                                                                              \
      "measure the training step, each combination of the flags' lists: warm up, measure, check, print rows",         \
      .sweeps = true,                                                                                                 \
      .examples = {"stepmark run", "stepmark run -m small -b 1-16*2 --mode naive,fused --output-file rows.jsonl",     \
                   "stepmark run --op attention --attention naive,flash -b 8 --seq-len 256-4096*2 --n-head 1",        \
                   "stepmark run --preset sizes -b 1 --seq-len 64 --timeout 120 --output-file sizes.jsonl --resume",  \
                   "stepmark run -m small,medium --seq-len 1024 --find-batch --output-file largest.jsonl"})           \
    X(SCORE, "score", cli_score, sm_row_table,                                                                        \
      "measure one frozen work on every device, and say where this machine stands; print the score as text to send",  \
      .is_alone = true, .sweeps = true,                                                                               \
      .examples = {"stepmark score", "stepmark score --backend opencl -b 32", "stepmark score --share"})              \
    X(PROFILE, "profile", cli_profile, sm_profile_table,                                                              \
      "show where the step's time goes, operation (op) by operation, relative to the device's ceilings",              \
      .examples = {"stepmark profile", "stepmark profile --by layer -o json",                                         \
                   "stepmark profile -m small -b 4 --seq-len 256 --trace step.json"})                                 \
    X(LOOP, "loop", cli_loop, sm_row_table,                                                                           \
      "measure the training loop around the step, from file to weights, and find its bottleneck",                     \
      .examples = {"stepmark loop", "stepmark loop -m small -b 4 --seq-len 256 --data tokens.bin --trace loop.json",  \
                   "stepmark loop -b 8 --baseline before.jsonl --output-file after.jsonl"})                           \
    X(VERIFY, "verify", cli_verify, cli_verify_table,                                                                 \
      "compare every op, then the whole step, with the reference (serial code that defines the results)",             \
      .examples = {"stepmark verify", "stepmark verify --backend cpu --mode fused -t 1,2",                            \
                   "stepmark verify --backend opencl --filter '^(bias|matmul)_forward' --max-elems 4096"})            \
    X(ESTIMATE, "estimate", cli_estimate, cli_estimate_table,                                                         \
      "count parameters, FLOPs and memory without running anything",                                                  \
      .examples = {"stepmark estimate", "stepmark estimate -m small -b 1-16*2 --seq-len 512,1024",                    \
                   "stepmark estimate -m xl --mode naive -o json"})                                                   \
    X(ADVISE, "advise", cli_advise, sm_advice_table,                                                                  \
      "find the fastest configuration that fits in memory, by measuring a few of many",                               \
      .heading = "Measure many, and compare", .is_alone = true, .sweeps = true,                                       \
      .examples = {"stepmark advise -m small --seq-len 128 --max-memory 8 --output-file rows.jsonl",                  \
                   "stepmark advise --backend opencl:0.0 -b 8,16,32,64 --precision bf16 --output-file rows.jsonl "    \
                   "--resume",                                                                                        \
                   "stepmark advise -m small -b 8 --accum 1 --optimizer adamw,lion,adamw8bit"})                       \
    X(COMPARE, "compare", cli_compare, sm_compare_table,                                                              \
      "compare two result files, two command lines run in turn, a row with its repetition (FILE#N), or a step with "  \
      "and without rewrites",                                                                                         \
      .operands = "A B|FILE#N",                                                                                       \
      .examples = {"stepmark compare before.json after.json", "stepmark compare rows.jsonl#3",                        \
                   "stepmark compare --interleaved \"run -m tiny -b 4 --seq-len 64\" \"./other/stepmark run -m tiny " \
                   "-b 4 --seq-len 64\"",                                                                             \
                   "stepmark compare --without all -m small -b 4 --seq-len 256"})                                     \
    X(AGAIN, "compare", cli_again, sm_again_table,                                                                    \
      "run a row again, and say whether its losses and speed are reproduced", .with = "FILE#N", .is_numbered = true,  \
      .operands = "FILE#N")                                                                                           \
    X(ABLATE, "compare", cli_ablate, cli_ablate_table,                                                                \
      "measure the gain of rewrites of mode fused, in time and memory", .with = "--without", .is_alone = true)        \
    X(REPORT, "report", cli_report, cli_no_table,                                                                     \
      "show rows or trainings: a table, an answer, a page of charts; name the best, rank machines, check trainings",  \
      .operands = "FILE...|RUN...",                                                                                   \
      .examples = {"stepmark report results.jsonl --output report.html",                                              \
                   "stepmark report rows.jsonl -o latex --columns device,test,avg_ns,stddev_ns",                      \
                   "stepmark report --rank *.bundle", "stepmark report --check runs/n1 runs/n2 runs/n4"})             \
    X(RECOMMEND, "report", cli_recommend, sm_recommend_table,                                                         \
      "name the best of measured rows: the fastest, the steadiest, the next to try", .with = "--best",                \
      .operands = "FILE...")                                                                                          \
    X(LEADERBOARD, "report", cli_leaderboard, sm_leaderboard_table,                                                   \
      "rank many machines by their bundles, and those that stepmark was measured on, best first", .with = "--rank",   \
      .operands = "[FILE...]")                                                                                        \
    X(BUNDLE, "report", cli_bundle, cli_no_table,                                                                     \
      "put this machine's rows into one file, for comparison with other machines", .with = "--bundle",                \
      .operands = "ROWS...")                                                                                          \
    X(CHECK_RUN, "report", cli_check_run, sm_run_check_table,                                                         \
      "check that trainings agree with their logs, and that they can be compared", .with = "--check",                 \
      .operands = "RUN...")                                                                                           \
    X(SCALING, "report", cli_scaling, sm_scaling_table,                                                               \
      "show how trainings scale with the number of processes, and predict larger numbers", .with = "--scaling",       \
      .operands = "RUN...")                                                                                           \
    X(WALK, "walk", cli_walk, cli_walk_table, "show the step op by op: equation, operands, FLOPs, bytes, numbers",    \
      .heading = "Learn",                                                                                             \
      .examples = {"stepmark walk --values", "stepmark walk --at attention_forward --layer 0 --full",                 \
                   "stepmark walk -m small -b 4 --seq-len 1024 --mode fused --layer 11"})                             \
    X(PAGE, "page", cli_page, cli_no_table,                                                                           \
      "make a page of a training step: every op with its numbers, times and sources",                                 \
      .examples = {"stepmark page --output step.html", "stepmark page --arch llama --mode fused --output fused.html", \
                   "stepmark page --run run --text \"int main(void) { return 0; }\" --output trained.html"})          \
    X(EXERCISE, "exercise", cli_exercise, cli_judge_table,                                                            \
      "write a kernel (the function that computes an op) yourself: get a first file, and check it",                   \
      .operands = "[NAME]",                                                                                           \
      .examples = {"stepmark exercise layernorm_backward --init mine",                                                \
                   "stepmark exercise layernorm_backward --check mine/layernorm_backward.c",                          \
                   "stepmark exercise --progress mine"})                                                              \
    X(JUDGE, "judge", cli_judge, cli_judge_table,                                                                     \
      "check and time kernels that others wrote, of one person or of a class: each in a process of its own",          \
      .operands = "FILE|DIR...",                                                                                      \
      .examples = {"stepmark judge gelu_forward.c -o jsonl",                                                          \
                   "stepmark judge submissions --kind gelu_forward --against best.c -o csv", "stepmark judge class"}) \
    X(LADDER, "ladder", cli_ladder, cli_ladder_table,                                                                 \
      "measure an op from three loops to the shipped kernel, and the gain of each change", .operands = "[NAME]",      \
      .examples = {"stepmark ladder", "stepmark ladder matmul", "stepmark ladder matmul --source blocked"})           \
    X(TOKENIZE, "tokenize", cli_tokenize, cli_no_table,                                                               \
      "turn text into token ids for training; learn, show or convert a vocabulary", .heading = "Train",               \
      .operands = "FILE...",                                                                                          \
      .examples = {"stepmark tokenize --vocab-size 8192 --output tokenizer texts/ more.txt",                          \
                   "stepmark tokenize --tokenizer tokenizer --val-percent 5 --output data texts/",                    \
                   "zcat texts.gz | stepmark tokenize --tokenizer gpt2 --output data -",                              \
                   "stepmark tokenize --show --tokenizer tokenizer \"How is this text cut?\""})                       \
    X(TOKENIZER, "tokenize", cli_tokenizer, cli_no_table, "learn a vocabulary from text, show one, or convert one",   \
      .with = "--vocab-size, --show or --convert", .operands = "FILE...|TEXT...")                                     \
    X(TRAIN, "train", cli_train, cli_no_table, "train a model on a data file; prints one line a step",                \
      .examples = {"stepmark train --data my.txt",                                                                    \
                   "stepmark train --data tokens --global-batch 16 --epochs 1 --save-every 500 --run run --resume "   \
                   "auto",                                                                                            \
                   "stepmark train -m small --lr 6e-4 --warmup-steps 10 --schedule cosine --grad-clip 1"})            \
    X(INIT, "train", cli_init, cli_no_table, "write a freshly initialised model folder, and train nothing",           \
      .with = "--init")                                                                                               \
    X(GENERATE, "generate", cli_generate, cli_no_table, "continue a text with a trained model",                       \
      .examples = {"stepmark generate --weights model --tokenizer tokenizer --prompt \"The cat\"",                    \
                   "stepmark generate --weights run --prompt \"int main\" --temperature 0.8 --top-k 40 --seed 7"})    \
    X(EVAL, "eval", cli_eval, cli_eval_table,                                                                         \
      "measure a trained model: loss, perplexity, bits per byte, or questions",                                       \
      .examples = {"stepmark eval --weights run --data data", "stepmark eval --weights model --data text.txt",        \
                   "stepmark eval --weights gpt2 --tokenizer gpt2 --data hellaswag_val.jsonl"})

typedef enum {
#define X(code, ...) CLI_##code,
    CLI_COMMAND_LIST(X)
#undef X
        CLI_COMMAND_COUNT
} cli_command;

struct cli_options;

// Each returns SM_OK, or a failure whose message main.c prints.
#define X(code, name, function, table, ...)                \
    sm_status function(const struct cli_options *options); \
    extern const sm_table table;
CLI_COMMAND_LIST(X)
#undef X

typedef struct {
    const char *name;
    sm_status (*run)(const struct cli_options *options);
    const sm_table *table; // without columns: prints no records
    const char *purpose;
    const char *heading;     // in --help, above this subcommand and those after it; NULL: none
    const char *operands;    // after the flags in --help; NULL: none
    const char *with;        // of a form: what chooses it, in --help
    bool is_numbered;        // of a form: an operand FILE#N chooses it
    bool is_alone;           // no other process should run while it measures
    bool sweeps;             // measures products of lists, each configuration in its own process (cli_axes)
    const char *examples[6]; // command lines, NULL at the end
} cli_subcommand;

extern const cli_subcommand cli_commands[CLI_COMMAND_COUNT];

// Words in place of a subcommand. X(name, argument, what it does)
#define CLI_FRONT_LIST(X)                                                                       \
    X("--help", "", "print this text; `stepmark SUBCOMMAND --help` lists a subcommand's flags") \
    X("--version", "", "print the version, its commit, compiler and instruction sets")          \
    X("--list-devices", "", "same as `stepmark devices`")                                       \
    X("--manual", "[SUBCOMMAND]", "print the manual page, as man reads it")                     \
    X("--completion", "bash|zsh|fish", "print the completions of command lines for a shell")

// The subcommand of that name, or CLI_COMMAND_COUNT with the error message set.
cli_command cli_command_find(const char *name);

// The form of a subcommand that takes these arguments, the first its name; the subcommand, or the form that takes the most.
cli_command cli_command_form(cli_command command, int argc, char **argv);

// Whether the row is that subcommand or a form of it; and whether it is a form of an earlier one.
bool cli_command_is_form_of(cli_command form, cli_command command);
bool cli_command_is_form(cli_command command);
