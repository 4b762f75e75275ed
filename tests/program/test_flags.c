// The command line: what flags are called, what they take, what is said of a wrong one, and --help.
#include "tests/support/run_program.h"

// --- help ------------------------------------------------------------------------------------

TEST(help_and_version) {
    CHECK_ALL({"--version", 0, "stepmark 0.", NULL}, {"--help", 0, "usage: stepmark SUBCOMMAND", NULL},
              {"", 2, NULL, "usage: stepmark SUBCOMMAND"}, {"devices --help", 0, "Exit codes", NULL},
              {"run --help", 0, "-b, --batch-size", NULL}, {"walk -h", 0, "--values", NULL},
              {"compare --without all --help", 0, "--repetitions", NULL}, {"--list-devices", 0, "reference", NULL},
              {"devices --peaks --help", 0, "--min-time", NULL}, {"run --list-devices", 0, "reference", NULL});
}

// The subcommands, from the program's own list.
static int list_commands(char names[32][32]) {
    int n = 0;
    expect_exit("--help", 0);
    for (char *line = strstr(out, "\n  "); line != NULL && line[3] != '-'; line = strstr(line + 1, "\n  ")) {
        assert_true(n < 32);
        assert_int_equal(sscanf(line, " %31s", names[n++]), 1);
    }
    return n;
}

// Is one of the text's lines just that?
static bool has_line(const char *text, const char *line) {
    size_t length = strlen(line);
    for (; text != NULL; text = strchr(text, '\n') != NULL ? strchr(text, '\n') + 1 : NULL) {
        if (strncmp(text, line, length) == 0 && text[length] == '\n') {
            return true;
        }
    }
    return false;
}

// A heading stands alone in its line, and once in a text. Ranges are told where lists of numbers are taken.
TEST(help_says_a_thing_once) {
    char names[32][32];
    int n = list_commands(names);
    assert_true(n >= 15);
    for (int i = 0; i < n; i++) {
        const char *arguments = textf("%.31s --help", names[i]);
        expect_exit(arguments, 0);
        bool lists = strstr(out, "B[,B]") != NULL || strstr(out, "N[,N]") != NULL;
        FAIL_IF(lists != (strstr(out, "may hold ranges") != NULL), "%s: ranges\n%s", arguments, out);
        for (char *line = strtok(out, "\n"); line != NULL; line = strtok(NULL, "\n")) {
            const char *rest = line + strlen(line) + 1;
            FAIL_IF(line[strspn(line, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")] == '\0' &&
                        has_line(rest, line),
                    "%s: %s twice", arguments, line);
        }
    }
}

TEST(help_shows_which_flags_take_lists) {
    CHECK_ALL({"run --help", 0, "--mode naive|fused|tuned[,...]", NULL},
              {"verify --help", 0, "--precision fp32|tf32|tf32x3|bf16x6|bf16|fp16|fp8[,...]", NULL},
              {"profile --help", 0, "--mode naive|fused|tuned ", NULL}, {"run --help", 0, "--accum N[,...]", NULL},
              {"run --help", 0, "--cpu-mask MASK|LIST ", NULL});
}

// --- bad input -------------------------------------------------------------------------------

TEST(bad_flags) {
    CHECK_ALL(
        {"rnu", 2, NULL, "did you mean 'run'?"}, {"help", 2, NULL, "did you mean '--help'?"},
        {"$(printf 'a\\033[31m')", 2, NULL, "unknown subcommand 'a\\u001b[31m'"},
        {"zzzzzz", 2, NULL, "unknown subcommand 'zzzzzz'\nstepmark: `stepmark --help` lists"},
        {"run --bakend cpu", 2, NULL, "unknown flag --bakend; did you mean --backend?"},
        {"run --zzzzzz", 2, NULL, "unknown flag --zzzzzz"},
        {"devices --backend zzz", 2, NULL, "no backend or device 'zzz'"}, // not --backend-library
        {"leaderboard --page x", 2, NULL, "did you mean 'report --rank'?"},
        {"check-run x", 2, NULL, "'report --check'?"}, {"schema", 2, NULL, "'run --schema'?"},
        {"train --max-new-tokens 5", 2, NULL, "unknown flag --max-new-tokens\n"},
        {"generate --max-new-tokens 5", 2, NULL, "did you mean --tokens?"},
        {"train --checkpoint 100", 2, NULL, "did you mean --save-every?"},
        {"eval --checkpoint x", 2, NULL, "did you mean --weights?"},
        {"--model-size tiny run", 2, NULL, "--model-size: a subcommand comes first"},
        {"run -Q", 2, NULL, "unknown flag -Q"}, {"page -o step.html", 2, NULL, "-o is no flag of page; write --output"},
        {"report -b 4 rows.jsonl", 2, NULL, "-b (--batch-size) is a flag of run"},
        {"run extra", 2, NULL, "unexpected argument 'extra'"},
        {"run --progress=1", 2, NULL, "--progress takes no argument"},
        {"run -b", 2, NULL, "--batch-size: needs an argument"},
        {"estimate --steps 3", 2, NULL, "--steps is a flag of train"},
        {"run -b -3", 2, NULL, "--batch-size: -3 is out of range"},
        {"run --timeout 5m", 2, NULL, "; give SECONDS without"}, {"run -o rows.csv", 2, NULL, "`> FILE`"},
        {"run -o html", 2, NULL, "`stepmark report"}, {"eval --precision fp8", 2, NULL, "only training"},
        {"train --data $T", 1, NULL, "no text in"}, {"tokenize --tokenizer gpt2 x", 1, NULL, "is downloaded"},
        {"run -b 1,,2", 2, NULL, "--batch-size: empty entry"}, {"run -b 4x", 2, NULL, "not a whole number (64, or 4K"},
        {"run -b 4-1", 2, NULL, "never reaches its end"}, {"run -b 1-1000000", 2, NULL, "more than 256 values"},
        {"run -b 99999999999999999999999", 2, NULL, "out of range"}, {"run -o yaml", 2, NULL, "md|csv|json|jsonl"},
        {"run --mode fast", 2, NULL, "naive, fused, tuned"}, {"run -m smal", 2, NULL, "did you mean small?"},
        {"run -m tiny --backend cpu --isa mmx", 2, NULL, "mmx"},
        {"run --without loss_haed", 2, NULL, "did you mean loss_head?"}, {"run --place out", 2, NULL, "needs --op OP;"},
        {"run --op gelu --weights x", 2, NULL, "--op: an op by itself has no --weights"},
        {"run -m tiny --weights x", 2, NULL, "-m: the model of --weights has its own sizes"},
        {"generate --weights x --prompt y --top-k 3", 2, NULL, "--top-k: needs --temperature X"},
        {"train --lr nan", 2, NULL, "--lr: nan is out of range"},
        {"train --lr fast", 2, NULL, "--lr: 'fast' is not a number"},
        {"train --lr $(seq -s, 999)", 2, NULL, "997,998,999' is not a number"}, // the end of what is too long stays
        {"train -b 1,2", 2, NULL, "--batch-size: takes one value"},
        {"walk --layer 2", 2, NULL, "the blocks are 0 to 1"}, {"train --init", 2, NULL, "--save"});
}

// The beginning of a flag's name will do, unless it is the whole name of another subcommand's flag, or of two.
TEST(abbreviations_mean_one_flag) {
    CHECK_ALL({"estimate --model tiny --batch 1 --seq 8", 0, "model_n_params", NULL},
              {"compare --without all --mode naive", 2, NULL, "--mode is a flag of run, "},
              {"compare --without all --mode=naive", 2, NULL, "not of compare"},
              {"train --warmup 3", 2, NULL, "--warmup is a flag of run, "},
              {"run --out x", 2, NULL, "--out is the beginning of --output, --output-file;"},
              {"compare --across --mode x y", 2, NULL, "no factor '--mode'"});
}

// Only what is near is suggested, or what other programs call it; else what there is.
TEST(suggestions_are_near) {
    CHECK_ALL({"run --backend npu", 2, NULL, "no backend or device 'npu'; there are all, cpu,"},
              {"profile --by mean", 2, NULL, "there are op, layer, kind"}, {"benchmark", 2, NULL, "mean 'score'?"},
              {"train --nproc_per_node=2", 2, NULL, "a training: mpirun -n N stepmark train"},
              {"help walk", 0, "stepmark walk: ", NULL}, {"help nothing", 2, NULL, "subcommand 'nothing'"},
              {"estimate --nproc-per-node 2", 2, NULL, "did you mean --processes?"},
              {"run --device cuda", 2, NULL, "mean --backend?"}, {"run --backend cuda:0", 2, NULL, "mean opencl?"},
              {"run --precision bfloat16", 2, NULL, "mean bf16?"}, {"run --precision FP16", 2, NULL, "mean fp16?"},
              {"run --iters 8", 2, NULL, "mean --repetitions?"}, {"train --max_iters 8", 2, NULL, "mean --steps?"},
              {"run -m gpt2-medium", 2, NULL, "mean medium?"}, {"walk --at matmul", 2, NULL, "mean matmul_forward?"});
}

// Of the exit codes --help lists those that the subcommand may end with.
TEST(exit_codes_are_the_subcommands_own) {
    CHECK_ALL({"--help", 0, "3 slower (compare), 130 interrupted, 143 ended by SIGTERM (train --run).", NULL},
              {"compare --help", 0, "3 slower (compare), 130 interrupted.\n", NULL},
              {"train --help", 0, "2 usage, 130 interrupted, 143 ended by SIGTERM (train --run).\n", NULL},
              {"run --help", 0, "2 usage, 130 interrupted.\n", NULL});
}

// Whatever is written is looked at first: nothing else has been said or made by then.
TEST(outputs_are_checked_first) {
    static const expectation cases[] = {
        {"profile --trace $T/none/x", 1, NULL, "--trace: "},
        {"run --output-file $T/none/x", 1, NULL, "--output-file: "},
        {"run --output-file $T", 1, NULL, "is a folder"},
        {"report $T/rows --output $T/none/x", 1, NULL, "--output: "},
        {"report $T/rows --output /dev/null", 1, NULL, "not a regular file"},
        {"report $T/rows --output md", 2, NULL, "md is a format"},
        {"report $T/rows --output=", 2, NULL, "--output: empty"},
        {"report $T/rows --output $T/a.pdf", 2, NULL, "there is no .pdf"},
        {"report $T/rows --bundle $T/a.html", 2, NULL, "/a.html: it is written as JSON;"},
        {"score --share --output-file $T/none.jsonl", 1, NULL, "; `stepmark score` measures one"},
        {"report $T/texts/sub -o text", 1, NULL, "/sub: a folder; give a file"},
        {"compare 'run -m tiny' 'run -m tiny'", 1, NULL, "--interleaved compares command lines"},
        {"page --output $T/a.pdf", 2, NULL, "/a.pdf: a page ends in .html; there is no .pdf"},
        {"report --rank $T/rows --page $T/a.json", 2, NULL, "there is no .json"},
        {"profile --timeline $T/a.csv", 2, NULL, "its numbers in .json; there is no .csv"},
        {"report $T/rows --output $T/a.HTML", 1, NULL, "/rows: "}, // a page: only the rows are missing
        {"report $T/rows --output $T/v1.2", 1, NULL, "/rows: "},
        {"report $T/rows -o csv --output $T/a.pdf", 1, NULL, "/rows: "},
        {"run --output-file $T/a.HTML", 2, NULL, "is written as"},
        {"run --output-file $T/a.htm", 2, NULL, "is written as"},
        {"eval --weights x --data y --output-file $T/a.Pdf", 2, NULL, "is written as"},
        {"report $T/file --output $T/file", 2, NULL, "is read or written by another flag or operand, too"},
        {"train --data $T/file --log $T/file", 2, NULL, "/file is read or written"},
        {"train --data $T/texts --log $T/texts/a.txt", 2, NULL, "/a.txt is read or written"},
        {"train --data $T/texts/'*'.txt --log $T/texts/a.txt", 2, NULL, "/a.txt is read or written"},
        {"train --weights $T/texts --log $T/texts/model.safetensors", 2, NULL, "/model.safetensors is read or"},
        {"train --save $T/texts --log $T/texts/config.json", 2, NULL, "/config.json is read or written"},
        {"run --data $T/no,$T/texts/a.md --output-file $T/texts/a.md", 2, NULL, "/a.md is read or written"},
        {"run --kernel gelu_forward=$T/texts/a.md --output-file $T/texts/a.md", 2, NULL, "/a.md is read or written"},
        {"report --collect $T/texts --output $T/texts/a.txt", 2, NULL, "/a.txt is read or written"},
        {"loop --log $T/new --output-file $T/new", 2, NULL, "/new is read or written"},
        {"profile --trace $T/new --timeline $T/new", 2, NULL, "/new is read or written"},
        {"train --save $T/texts", 2, NULL, "/texts is of a run"},
        {"train --log $T/texts/log.jsonl", 2, NULL, "/log.jsonl is of a run"},
        {"report $T/file -o json --output $T/texts/run.json", 2, NULL, "/run.json is of a run"},
        {"train --save $T/texts/model", 2, NULL, "/model is of a run"},
        {"train --save $T/texts/sub/../checkpoints/step-9/", 2, NULL, "/step-9/ is of a run"}, // not there yet
        {"train --save $T/texts/sub --data $T/none.txt", 1, NULL, "/none.txt"},                // its own folder
        {"train --log $T/none/x", 1, NULL, "--log: "},
        {"train --log $T/file/x", 1, NULL, "Not a directory"},
        {"train --save $T/file", 1, NULL, "is not a folder"},
        {"train --save $T/none/x", 1, NULL, "--save: "},
        {"train --init --save $T/file/x", 1, NULL, "Not a directory"},
    };
    expect_exit("run --schema", 0);
    shell("mkdir $T/texts; cd $T/texts; mkdir sub checkpoints; touch run.json ../file a.txt a.md model.safetensors "
          "config.json");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        check_all(&cases[i], 1);
        assert_string_equal(out, "");
        const char *end = strchr(err, '\n');
        FAIL_IF(end == NULL || (cases[i].code == 1 && end[1] != '\0'), "%s: more than a line\n%s", cases[i].arguments,
                err);
    }
    assert_int_not_equal(system("ls $T | grep -qv '^\\(file\\|texts\\|out\\|err\\)$'"), 0);
}
