// cli_help.c: --help of a subcommand, printed from the table of flags.
#include <string.h>

#include "cli_flag.h"
#include "cli_options.h"

enum { HELP_COLUMN = 34, HELP_WIDTH = 100, MAX_EXAMPLES = 3 };

static const char *const examples[CLI_COMMAND_COUNT][MAX_EXAMPLES] = {
    [CLI_DEVICES] = {"stepmark devices", "stepmark devices -o json"},
    [CLI_RUN] = {"stepmark run", "stepmark run -m small -b 1,2,4 --seq-len 128 --mode naive,fused -o csv",
                 "stepmark run -m tiny --pass-type separate -r 20 -o json"},
    [CLI_PROFILE] = {"stepmark profile", "stepmark profile --by layer -o json",
                     "stepmark profile -m small -b 4 --seq-len 256 --trace step.json"},
    [CLI_ABLATE] = {"stepmark ablate", "stepmark ablate -m small -b 4 --seq-len 256 -r 11"},
    [CLI_PEAKS] = {"stepmark peaks", "stepmark peaks -t 1-16*2 --cpu-mask 0-15 -o csv"},
    [CLI_TRAIN] = {"stepmark train -m tiny --steps 20 --save model",
                   "stepmark train --weights model --steps 20 --data text.txt --log log.jsonl",
                   "stepmark train -m small --lr 6e-4 --warmup-steps 10 --schedule cosine --grad-clip 1"},
    [CLI_VERIFY] = {"stepmark verify", "stepmark verify --backend cpu --mode fused -t 1,2",
                    "stepmark verify --backend opencl --filter '^(bias|matmul)_forward' --max-elems 4096"},
    [CLI_WALK] = {"stepmark walk --values", "stepmark walk --at attention_forward --layer 0 --full",
                  "stepmark walk -m small -b 4 --seq-len 1024 --mode fused --layer 11"},
    [CLI_EXERCISE] = {"stepmark exercise", "stepmark exercise layernorm_backward --init mine",
                      "stepmark exercise layernorm_backward --check mine/layernorm_backward.c"},
    [CLI_ESTIMATE] = {"stepmark estimate", "stepmark estimate -m small -b 1-16*2 --seq-len 512,1024",
                      "stepmark estimate -m xl --mode naive -o json"},
    [CLI_REPORT] = {"stepmark report results.jsonl --output report.html", "stepmark report a.json b.json --format md"},
    [CLI_SCHEMA] = {"stepmark schema"},
    [CLI_COMPARE] = {"stepmark compare before.json after.json", "stepmark compare release-1 after.json --across mode",
                     "stepmark compare --interleaved \"run -m tiny -b 4 --seq-len 64\" \"./other/stepmark run -m tiny "
                     "-b 4 --seq-len 64\""},
    [CLI_AGAIN] = {"stepmark again results.json", "stepmark again rows.jsonl --row 3 -o json"},
    [CLI_SWEEP] = {"stepmark sweep -m small -b 1-16*2 --mode naive,fused --output-file rows.jsonl",
                   "stepmark sweep --preset sizes -b 1 --seq-len 64 --timeout 120 --output-file sizes.jsonl --resume",
                   "stepmark sweep -m small,medium --seq-len 1024 --find-batch --output-file largest.jsonl"},
    [CLI_RECOMMEND] = {"stepmark recommend rows.jsonl"},
    [CLI_INIT] = {"stepmark init -m small --seed 1 --save model"},
};

// Prints `text` from column HELP_COLUMN on, broken between words.
static void print_wrapped(FILE *stream, const char *text) {
    int column = HELP_COLUMN;
    while (*text != '\0') {
        int length = (int)strcspn(text, " ");
        if (column > HELP_COLUMN && column + 1 + length > HELP_WIDTH) {
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
    char right[256];
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
    if (flag->initial != NULL) {
        snprintf(right, sizeof(right), "%s (default %s)", flag->help, flag->initial);
    } else {
        snprintf(right, sizeof(right), "%s", flag->help);
    }
    print_wrapped(stream, right);
}

void cli_options_help(FILE *stream, cli_command command) {
    fprintf(stream, "stepmark %s: %s\n\nusage: stepmark %s [flags]%s\n", cli_command_name(command),
            cli_command_purpose(command), cli_command_name(command), cli_command_operands(command));
    const char *group = "";
    bool has_numbers = false; // in lists
    for (int i = 0; i < cli_flag_count(); i++) {
        const cli_flag *flag = cli_flag_at(i);
        if ((flag->commands & (1u << command)) == 0) {
            continue;
        }
        if (strcmp(group, flag->group) != 0) {
            group = flag->group;
            fprintf(stream, "\n%s\n", group);
        }
        print_flag(stream, command, flag);
        has_numbers = has_numbers || (flag->type == CLI_INTS && cli_takes_list(flag, command));
    }
    fprintf(stream, "\n%sResults go to stdout, the rest to stderr.\n\nExamples\n",
            has_numbers ? "Lists of numbers may hold ranges: 1-4, 0-8+2 (step), 1-64*2 (factor). " : "");
    for (int i = 0; i < MAX_EXAMPLES && examples[command][i] != NULL; i++) {
        fprintf(stream, "  %s\n", examples[command][i]);
    }
    fputs("\nExit codes: 0 ok, 1 error or failed check, 2 usage, 3 slower (compare), 130 interrupted.\n", stream);
}
