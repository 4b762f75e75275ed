// help.c: --help of a subcommand, printed from the table of flags.
#include "cli/front/help.h"

#include <string.h>

#include "bench/tables/screen.h"
#include "cli/flags/overview.h"

enum { HELP_COLUMN = 34, WIDTH_ELSEWHERE = 100 };

static const char *const examples[CLI_COMMAND_COUNT][CLI_MAX_EXAMPLES] = {
    [CLI_DEVICES] = {"stepmark devices", "stepmark devices -o json"},
    [CLI_RUN] = {"stepmark run", "stepmark run -m small -b 1,2,4 --seq-len 128 --mode naive,fused -o csv",
                 "stepmark run -m tiny --pass-type separate -r 20 -o json"},
    [CLI_PROFILE] = {"stepmark profile", "stepmark profile --by layer -o json",
                     "stepmark profile -m small -b 4 --seq-len 256 --trace step.json"},
    [CLI_LOOP] = {"stepmark loop", "stepmark loop -m small -b 4 --seq-len 256 --data tokens.bin --trace loop.json",
                  "stepmark loop -b 8 --baseline before.jsonl --output-file after.jsonl"},
    [CLI_ABLATE] = {"stepmark ablate", "stepmark ablate -m small -b 4 --seq-len 256 -r 11"},
    [CLI_PEAKS] = {"stepmark peaks", "stepmark peaks -t 1-16*2 --cpu-mask 0-15 -o csv"},
    [CLI_TRAIN] = {"stepmark train -m tiny --steps 20 --save model",
                   "stepmark train --data tokens --global-batch 16 --epochs 1 --save-every 500 --run run --resume auto",
                   "stepmark train -m small --lr 6e-4 --warmup-steps 10 --schedule cosine --grad-clip 1"},
    [CLI_VERIFY] = {"stepmark verify", "stepmark verify --backend cpu --mode fused -t 1,2",
                    "stepmark verify --backend opencl --filter '^(bias|matmul)_forward' --max-elems 4096"},
    [CLI_WALK] = {"stepmark walk --values", "stepmark walk --at attention_forward --layer 0 --full",
                  "stepmark walk -m small -b 4 --seq-len 1024 --mode fused --layer 11"},
    [CLI_PAGE] = {"stepmark page --output step.html", "stepmark page --arch llama --mode fused --output fused.html",
                  "stepmark page --run run --text \"int main(void) { return 0; }\" --output trained.html"},
    [CLI_EXERCISE] = {"stepmark exercise", "stepmark exercise layernorm_backward --init mine",
                      "stepmark exercise layernorm_backward --check mine/layernorm_backward.c"},
    [CLI_LADDER] = {"stepmark ladder", "stepmark ladder matmul", "stepmark ladder matmul --source blocked"},
    [CLI_ESTIMATE] = {"stepmark estimate", "stepmark estimate -m small -b 1-16*2 --seq-len 512,1024",
                      "stepmark estimate -m xl --mode naive -o json"},
    [CLI_REPORT] = {"stepmark report results.jsonl --output report.html", "stepmark report a.json b.json --format md"},
    [CLI_CHECK_RUN] = {"stepmark check-run runs/n1 runs/n2 runs/n4",
                       "stepmark check-run training_metrics.json -o json"},
    [CLI_SCALING] = {"stepmark scaling runs/n1 runs/n2 runs/n4",
                     "stepmark scaling runs/* --page scaling.html --predict 8-256*2"},
    [CLI_BUNDLE] = {"stepmark bundle rows.jsonl --output this-machine.bundle"},
    [CLI_LEADERBOARD] = {"stepmark leaderboard *.bundle", "stepmark leaderboard a.bundle b.bundle -o json"},
    [CLI_SCHEMA] = {"stepmark schema", "stepmark schema profile"},
    [CLI_COMPARE] = {"stepmark compare before.json after.json", "stepmark compare release-1 after.json --across mode",
                     "stepmark compare --interleaved \"run -m tiny -b 4 --seq-len 64\" \"./other/stepmark run -m tiny "
                     "-b 4 --seq-len 64\""},
    [CLI_AGAIN] = {"stepmark again results.json", "stepmark again rows.jsonl --row 3 -o json"},
    [CLI_SWEEP] = {"stepmark sweep -m small -b 1-16*2 --mode naive,fused --output-file rows.jsonl",
                   "stepmark sweep --preset sizes -b 1 --seq-len 64 --timeout 120 --output-file sizes.jsonl --resume",
                   "stepmark sweep -m small,medium --seq-len 1024 --find-batch --output-file largest.jsonl"},
    [CLI_ADVISE] =
        {"stepmark advise -m small --seq-len 128 --max-memory 8 --output-file rows.jsonl",
         "stepmark advise --backend opencl:0.0 -b 8,16,32,64 --precision bf16 --output-file rows.jsonl --resume",
         "stepmark advise -m small -b 8 --accum 1 --optimizer adamw,lion,adamw8bit"},
    [CLI_RECOMMEND] = {"stepmark recommend rows.jsonl"},
    [CLI_TOKENIZER] = {"stepmark tokenizer train --vocab-size 8192 --output tokenizer texts/ more.txt",
                       "stepmark tokenizer show --tokenizer tokenizer \"How is this text cut?\"",
                       "stepmark tokenizer convert --tokenizer gpt2 --output gpt2-json"},
    [CLI_TOKENIZE] = {"stepmark tokenize --tokenizer tokenizer --val-percent 5 --output data texts/",
                      "zcat texts.gz | stepmark tokenize --tokenizer gpt2 --output data -"},
    [CLI_GENERATE] = {"stepmark generate --weights model --tokenizer tokenizer --prompt \"The cat\"",
                      "stepmark generate --weights run --prompt \"int main\" --temperature 0.8 --top-k 40 --seed 7"},
    [CLI_INIT] = {"stepmark init -m small --seed 1 --save model"},
};

const char *cli_command_example(cli_command command, int index) {
    return index < CLI_MAX_EXAMPLES ? examples[command][index] : NULL;
}

int cli_flags_of(cli_command command, const cli_flag *flags[CLI_MAX_FLAGS]) {
    bool listed[CLI_MAX_ROWS] = {false};
    int n = 0;
    for (int i = 0; i < cli_flag_count(); i++) { // the first of a group brings the others along
        for (int k = i; k < cli_flag_count() && k < CLI_MAX_ROWS && n < CLI_MAX_FLAGS; k++) {
            const cli_flag *flag = cli_flag_at(k);
            if (!listed[k] && (flag->commands & (1u << command)) != 0 &&
                strcmp(flag->group, cli_flag_at(i)->group) == 0) {
                listed[k] = true;
                flags[n++] = flag;
            }
        }
    }
    return n;
}

bool cli_takes_ranges(cli_command command) {
    const cli_flag *flags[CLI_MAX_FLAGS];
    for (int i = cli_flags_of(command, flags) - 1; i >= 0; i--) {
        if (flags[i]->type == CLI_INTS && cli_takes_list(flags[i], command)) {
            return true;
        }
    }
    return false;
}

void cli_flag_text(const cli_flag *flag, char text[CLI_HELP_SIZE]) {
    snprintf(text, CLI_HELP_SIZE, flag->initial != NULL ? "%s (default %s)" : "%s", flag->help, flag->initial);
}

// Prints `text` from column HELP_COLUMN on, broken between words.
static void print_wrapped(FILE *stream, const char *text) {
    const int screen = sm_screen_width(stream);
    const int width = screen > 0 && screen < WIDTH_ELSEWHERE ? screen : WIDTH_ELSEWHERE;
    int column = HELP_COLUMN;
    while (*text != '\0') {
        int length = (int)strcspn(text, " ");
        if (column > HELP_COLUMN && column + 1 + length > width) {
            fprintf(stream, "\n%*s", HELP_COLUMN, "");
            column = HELP_COLUMN;
        } else if (column > HELP_COLUMN) {
            fputc(' ', stream);
            column++;
        }
        fprintf(stream, "%.*s", length, text);
        column += length;
        text += length;
        text += strspn(text, " ");
    }
    fputc('\n', stream);
}

static void print_flag(FILE *stream, cli_command command, const cli_flag *flag) {
    char left[256];
    char argument[CLI_ARGUMENT_SIZE];
    char right[CLI_HELP_SIZE];
    int used = flag->letter != 0 ? snprintf(left, sizeof(left), "  -%c, --%s", flag->letter, flag->name)
                                 : snprintf(left, sizeof(left), "      --%s", flag->name);
    cli_flag_argument(flag, command, argument);
    if (argument[0] != '\0') {
        used += snprintf(left + used, sizeof(left) - (size_t)used, " %s", argument);
    }
    if (used > HELP_COLUMN - 2) {
        fprintf(stream, "%s\n%*s", left, HELP_COLUMN, "");
    } else {
        fprintf(stream, "%-*s", HELP_COLUMN, left);
    }
    cli_flag_text(flag, right);
    print_wrapped(stream, right);
}

void cli_exit_text(cli_command command, char text[CLI_HELP_SIZE]) {
    const bool is_all = command == CLI_COMMAND_COUNT;
    snprintf(text, CLI_HELP_SIZE, "0 ok, 1 error or failed check, 2 usage%s, 130 interrupted%s.",
             is_all || command == CLI_COMPARE ? ", 3 slower (compare)" : "",
             is_all || command == CLI_TRAIN ? ", 143 ended by SIGTERM (train --run)" : "");
}

void cli_options_help(FILE *stream, cli_command command) {
    const cli_flag *flags[CLI_MAX_FLAGS];
    const int n = cli_flags_of(command, flags);
    fprintf(stream, "stepmark %s: %s\n\nusage: stepmark %s [flags]%s\n", cli_command_name(command),
            cli_command_purpose(command), cli_command_name(command), cli_command_operands(command));
    const char *group = "";
    for (int i = 0; i < n; i++) {
        if (strcmp(group, flags[i]->group) != 0) {
            group = flags[i]->group;
            fprintf(stream, "\n%s\n", group);
        }
        print_flag(stream, command, flags[i]);
    }
    fprintf(stream, "\n%s%sResults go to stdout, the rest to stderr.\n\nExamples\n",
            cli_takes_ranges(command) ? CLI_RANGES_TEXT : "", cli_takes_ranges(command) ? " " : "");
    for (int i = 0; cli_command_example(command, i) != NULL; i++) {
        fprintf(stream, "  %s\n", cli_command_example(command, i));
    }
    char codes[CLI_HELP_SIZE];
    cli_exit_text(command, codes);
    fprintf(stream, "\nExit codes: %s\n", codes);
}
