// test_strangers.c: files of strangers: code that they name does not run, and reading them ends.
#include <unistd.h>

#include "tests/support/test.h"
#include "tests/support/run_program.h"
#include "cli/flags/flag.h"

#define WORK "-m tiny --backend reference -b 1 --seq-len 8 "

// --- code ----------------------------------------------------------------------------------------

// Flags whose help speaks of code, and that name none.
static const char *const no_code[] = {"isa", "without", "config"};

static bool speaks_of_code(const cli_flag *flag) {
    static const char *const words[] = {"kernel",   "librar", "backend",  "compil",
                                        "exercise", ".so",    "launcher", "program"};
    bool speaks = false;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        speaks = speaks || strstr(flag->help, words[i]) != NULL;
    }
    for (size_t i = 0; i < sizeof(no_code) / sizeof(no_code[0]); i++) {
        speaks = speaks && strcmp(flag->name, no_code[i]) != 0;
    }
    return speaks;
}

TEST(flags_that_name_code_are_of_its_type) {
    int n = 0;
    for (int i = 0; i < cli_flag_count(); i++) {
        const cli_flag *flag = cli_flag_at(i);
        n += flag->type == CLI_CODE;
        if (flag->type == CLI_TEXT && speaks_of_code(flag)) {
            fail_msg("flags.c: --%s: its help speaks of code: its type is CLI_CODE, or it is one of no_code here",
                     flag->name);
        }
    }
    assert_true(n >= 6);
}

// `name`: what it must say; a beginning of a name may be no flag of the subcommand at all.
static void expect_refused(const char *arguments, const char *name, const char *door) {
    const int code = run(arguments);
    const bool ran = access(getenv("RAN"), F_OK) == 0;
    if (code == 0 || ran || strstr(err, name) == NULL) {
        fail_msg("%s: --%s: exit code %d, code %s\n%s", door, getenv("F"), code, ran ? "ran" : "did not run", err);
    }
}

// A file of one line, made by a shell that has the flag in $F, the beginning of its name in $SHORT, its value in $V.
typedef struct {
    const char *make, *arguments;
} door;

static const door doors[] = {
    {"printf '{\"%s\": \"%s\"}' $F $V >$T/f", "train " WORK "--steps 1 --config $T/f"},
    {"printf '{\"%s\": \"%s\"}' $SHORT $V >$T/f", "train " WORK "--steps 1 --config $T/f"},
    {"printf '{\"starts\": [{\"argv\": [\"stepmark\", \"train\", \"--%s\", \"%s\"]}]}' $F $V >$T/f",
     "train " WORK "--steps 1 --config $T/f"},
    {"printf '{\"starts\": [{\"argv\": [\"stepmark\", \"train\", \"--%s=%s\"]}]}' $SHORT $V >$T/f",
     "train " WORK "--steps 1 --config $T/f"},
    {"sed \"s|^ *\\\"train\\\",|&\\\"--$F=$V\\\",|\" $T/run.json >$T/run/run.json", "train --run $T/run --resume auto"},
    {"sed \"s|^ *\\\"train\\\",|&\\\"--$SHORT\\\",\\\"$V\\\",|\" $T/run.json >$T/run/run.json",
     "train --run $T/run --resume auto"},
    {"echo \"-r 1 --$F=$V\" >$T/f", "sweep " WORK "-w 0 --no-peaks --no-phases --file $T/f"},
    {"echo \"-r 1 --$SHORT $V\" >$T/f", "sweep " WORK "-w 0 --no-peaks --no-phases --file $T/f"},
    {"sed \"s|\\\"run_args\\\": *\\[|&\\\"--$F=$V\\\",|\" $T/row.jsonl >$T/f", "again $T/f"},
    {"sed \"s|\\\"run_args\\\": *\\[|&\\\"--$SHORT=$V\\\",|\" $T/row.jsonl >$T/f", "again $T/f"},
    {"sed \"s|\\\"run_args\\\": *\\[|&\\\"--$F=$V\\\",|\" $T/loop.jsonl >$T/f", "again $T/f"},
    {"sed \"s|\\\"run_args\\\": *\\[|&\\\"--$F=$V\\\",|\" $T/row.jsonl >$T/g && " SM_TEST_BINARY
     " bundle $T/g --output $T/f 2>$T/said",
     "again $T/f"},
};

TEST(files_bring_no_code) {
    for (int i = 0; i < cli_flag_count(); i++) {
        const cli_flag *flag = cli_flag_at(i);
        char shorter[CLI_TEXT_SIZE];
        if (flag->type != CLI_CODE) {
            continue;
        }
        snprintf(shorter, sizeof(shorter), "%.*s", (int)strlen(flag->name) - 1, flag->name);
        setenv("F", flag->name, 1);
        setenv("SHORT", shorter, 1);
        setenv("V", strcmp(flag->name, "kernel") == 0 ? getenv("KERNEL") : getenv("EVIL"), 1);
        for (size_t d = 0; d < sizeof(doors) / sizeof(doors[0]); d++) {
            shell(doors[d].make);
            const bool is_whole = strstr(doors[d].make, "$SHORT") == NULL;
            expect_refused(doors[d].arguments, is_whole ? flag->name : "", doors[d].make);
        }
    }
}

// The command line's own code is taken in place of the file's.
TEST(the_command_line_names_code_for_a_file) {
    shell("printf '{\"nccl\": \"%s\"}' $EVIL >$T/f");
    expect_exit("train " WORK "--steps 1 --config $T/f --nccl $T/mine.so", 0);
    shell("echo \"-r 1 --mode naive --kernel $KERNEL\" >$T/f");
    expect_exit("sweep -m tiny --backend cpu -b 1 --seq-len 8 -w 0 --no-peaks --no-phases --file $T/f --kernel "
                "gelu_forward=$T/none.c",
                1);
    expect_text("sweep", err, "none.c: cannot open");
    shell("test ! -e $RAN");
}

static int set_up(void **state) {
    char text[COMMAND_SIZE];
    if (make_folder(state) != 0) {
        return -1;
    }
    snprintf(text, sizeof(text), "%s/ran", folder);
    setenv("RAN", text, 1);
    snprintf(text, sizeof(text), "%s/evil.so", folder);
    setenv("EVIL", text, 1);
    snprintf(text, sizeof(text), "gelu_forward=%s/evil.so", folder);
    setenv("KERNEL", text, 1);
    return system(
        "printf '#include <stdio.h>\\n#include <stdlib.h>\\n__attribute__((constructor)) static void go(void) {"
        "FILE *f = fopen(getenv(\"RAN\"), \"w\"); if (f != NULL) fclose(f);}' >$T/evil.c && "
        "cc -shared -fPIC -o $EVIL $T/evil.c && exec 2>$T/err && " SM_TEST_BINARY " run " WORK
        "-w 0 -r 1 --no-peaks --no-phases -o jsonl >$T/row.jsonl && " SM_TEST_BINARY " loop " WORK
        "-w 0 -r 1 --no-peaks --no-phases -o jsonl >$T/loop.jsonl && " SM_TEST_BINARY " train " WORK
        "--steps 2 --run $T/run >$T/out && cp $T/run/run.json $T");
}

int main(void) { return cmocka_run_group_tests(tests, set_up, remove_folder); }
