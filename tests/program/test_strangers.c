// test_strangers.c: files of strangers: code that they name does not run, and reading them ends.
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
        FAIL_IF(flag->type == CLI_TEXT && speaks_of_code(flag),
                "flags.c: --%s: its help speaks of code: its type is CLI_CODE, or it is one of no_code here",
                flag->name);
    }
    assert_true(n >= 6);
}

// `name`: what it must say; a beginning of a name may be no flag of the subcommand at all.
static void expect_refused(const char *arguments, const char *name, const char *door) {
    const int code = run(arguments);
    const bool ran = access(getenv("RAN"), F_OK) == 0;
    FAIL_IF(code == 0 || ran || strstr(err, name) == NULL, "%s: --%s: exit code %d, code %s\n%s", door, getenv("F"),
            code, ran ? "ran" : "did not run", err);
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
    {"echo \"-r 1 --$F=$V\" >$T/f", "run " WORK "-w 0 --no-peaks --no-phases --file $T/f"},
    {"echo \"-r 1 --$SHORT $V\" >$T/f", "run " WORK "-w 0 --no-peaks --no-phases --file $T/f"},
    {"sed \"s|\\\"run_args\\\": *\\[|&\\\"--$F=$V\\\",|\" $T/row.jsonl >$T/f", "compare $T/f#1"},
    {"sed \"s|\\\"run_args\\\": *\\[|&\\\"--$SHORT=$V\\\",|\" $T/row.jsonl >$T/f", "compare $T/f#1"},
    {"sed \"s|\\\"run_args\\\": *\\[|&\\\"--$F=$V\\\",|\" $T/loop.jsonl >$T/f", "compare $T/f#1"},
    {"sed \"s|\\\"run_args\\\": *\\[|&\\\"--$F=$V\\\",|\" $T/row.jsonl >$T/g && " SM_TEST_BINARY
     " report $T/g --bundle $T/f 2>$T/said",
     "compare $T/f#1"},
};

TEST(files_bring_no_code_and_write_nowhere) {
    for (int i = 0; i < cli_flag_count(); i++) {
        const cli_flag *flag = cli_flag_at(i);
        if (flag->type != CLI_CODE && (flag->type < CLI_NEW_FILE || strcmp(flag->name, "run") == 0)) {
            continue; // it neither runs nor writes a file
        }
        const char *shorter = textf("%.*s", (int)strlen(flag->name) - 1, flag->name);
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
    expect_exit("run -m tiny --backend cpu -b 1 --seq-len 8 -w 0 --no-peaks --no-phases --file $T/f --kernel "
                "gelu_forward=$T/none.c",
                1);
    expect_text("sweep", err, "none.c: cannot open");
    shell("test ! -e $RAN");
}

// What a library or a driver writes to its process's pipe is no message.
TEST(garbage_of_a_worker_is_told) {
    static const char *const written[][2] = {{"garbage", "sent 7 bytes that are no message of stepmark, \"garbage\""},
                                             {"[1]", "sent 3 bytes that are no message"},
                                             {"{\\\"row\\\": 5}", "sent a row that is none"}};
    const char *library = temp_path("garbage.so");
    setenv("ASAN_OPTIONS", "verify_asan_link_order=0:detect_leaks=0", 1);
    for (size_t i = 0; i < sizeof(written) / sizeof(written[0]); i++) {
        setenv("WRITTEN", written[i][0], 1);
        shell("printf '#include <pthread.h>\n#include <stdio.h>\nstatic void garble(void) {for (int fd = 3; fd < 30; "
              "fd++) dprintf(fd, \"%%s\\\\n\", \"%s\");}\n"
              "__attribute__((constructor)) static void go(void) {pthread_atfork(NULL, NULL, garble);}\n' \"$WRITTEN\" "
              ">$T/garbage.c && cc -shared -fPIC -pthread -o $T/garbage.so $T/garbage.c");
        setenv("LD_PRELOAD", library, 1);
        const int code = run("run -m tiny --mode naive --backend cpu -t 1 -b 1 --seq-len 8 --no-peaks");
        unsetenv("LD_PRELOAD");
        assert_int_equal(code, 1);
        expect_text("run", err, written[i][1]);
        assert_null(strstr(err, "no memory"));
    }
    unsetenv("ASAN_OPTIONS");
}

// --- commands to copy ------------------------------------------------------------------------------

// Bash, given the command that is printed with it, passes the path on as it was.
TEST(printed_commands_pass_paths_on) {
    static const char *const names[] = {"plain.jsonl", "a b",           "x; touch $RAN #.jsonl",
                                        "q'uo\"te",    "$(touch $RAN)", "`touch $RAN`",
                                        "-rf",         "--help",        "~",
                                        "=ls",         "new\nline",     "\033[2J'",
                                        "caf\303\251", "\377\\n\t",     "*"};
    shell(SM_TEST_BINARY " run -m tiny --backend cpu -t 1 -b 1,2 --seq-len 8 -w 0 -r 5 --no-peaks --no-phases -o jsonl "
                         ">$T/two.jsonl 2>$T/err");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        setenv("NAME", names[i], 1);
        shell("rm -rf $T/d && mkdir $T/d && cp $T/two.jsonl \"$T/d/$NAME\"");
        expect_exit("--version; P=$PWD/" SM_TEST_BINARY "; cd $T/d; $P report --best -o md -- \"$NAME\"", 0);
        assert_null(strchr(out, '\033'));
        if (strstr(out, "stepmark compare ") ==
            NULL) { // on a busy machine nothing is the best, and no command is printed
            expect_text("report --best", out, "verdict");
            continue;
        }
        shell("echo 'stepmark() { printf \"%s\\n\" \"${2%#*}\" end; }' >$T/script && tail -n 1 $T/out >>$T/script && "
              "cd $T/d && bash $T/script >$T/words && case $NAME in -*) NAME=./$NAME;; esac && printf '%s\\n' "
              "\"$NAME\" end | cmp - $T/words");
    }
    shell("test ! -e $RAN && cp -r $T/run \"$T/a b\"");
    expect_run("train " WORK "--run \"$T/a b\"", 2, NULL, "/a b/model'");
    expect_exit("train " WORK "--steps 1 --run $T/quoted --sample-every 9 --prompt 'it is'", 0);
    shell("grep -q -- \"--prompt 'it is'\" $T/quoted/run.json");
}

// --- bounds --------------------------------------------------------------------------------------

// What stands for a file of a run: endless, blocking, too large, or a link to a file of the user's.
TEST(reading_a_run_ends) {
    static const char *const files[] = {"run.json", "log.jsonl", "training_metrics.json", "RUN_COMPLETE.txt"};
    static const struct {
        const char *make, *says;
    } others[] = {
        {"ln -s /dev/zero $T/r/$F", "/r/%s: not a regular file"},
        {"mkfifo $T/r/$F", "/r/%s: not a regular file"},
        {"mkdir $T/r/$F", "/r/%s: a folder; give a file"},
        {"truncate -s 200G $T/r/$F", "/r/%s: "},
        {"head -c 3000000 /dev/zero | tr '\\0' ' ' >$T/r/$F", "/r/%s: "},
    };
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        for (size_t k = 0; k < sizeof(others) / sizeof(others[0]); k++) {
            char says[COMMAND_SIZE];
            setenv("F", files[i], 1);
            snprintf(says, sizeof(says), others[k].says, files[i]);
            shell("rm -rf $T/r && cp -r $T/run $T/r && rm $T/r/$F");
            shell(others[k].make);
            if (i < 2) {
                expect_exit("report $T/r --output $T/page.html", 1);
                expect_text(others[k].make, err, says);
            }
            if (i != 3 || k < 3) { // of that file a digest's place is read, and no more
                expect_exit("report --check $T/r", 1);
                expect_text(others[k].make, out, says);
            }
            expect_exit("report --scaling $T/r", 1);
        }
    }
}

// A run that resumes appends to its log, and removes checkpoints; a stranger's must not be links.
TEST(a_log_is_no_link) {
    shell("rm -rf $T/r && " SM_TEST_BINARY " train " WORK
          "--steps 400000 --save-every 20 --run $T/r -q >$T/out 2>$T/err & p=$!; while ! ls $T/r/checkpoints/* "
          ">/dev/null 2>&1; do sleep 0.1; done; kill -INT $p; wait $p; mv $T/r/log.jsonl $T/victim && cp $T/victim "
          "$T/before && ln -s $T/victim $T/r/log.jsonl");
    expect_run("train --run $T/r --resume auto", 1, NULL, "/r/log.jsonl: cannot be written: a link");
    shell("cmp $T/victim $T/before; mv $T/victim $T/r/log.jsonl; ln -s $T/r $T/r/best");
    expect_run("train --run $T/r --resume auto", 1, NULL, "/r/best: cannot be written: a link");
}

TEST(rows_are_files_or_pipes) {
    CHECK_ALL({"report --best /dev/zero", 1, NULL, "/dev/zero: a device; give a file or a pipe"},
              {"report --rank /dev/zero", 1, NULL, "/dev/zero: a device"},
              {"compare $T/row.jsonl /dev/zero", 1, NULL, "/dev/zero: a device"},
              {"compare /dev/zero#1", 1, NULL, "/dev/zero: a device"},
              {"report /dev/zero --bundle $T/b", 1, NULL, "/dev/zero: a device"},
              {"report /dev/random --output $T/page.html", 1, NULL, "/dev/random: a device"},
              {"run --file /dev/zero", 1, NULL, "/dev/zero: a device"},
              {"--version >$T/out; truncate -s 200G $T/large; " SM_TEST_BINARY " report --best $T/large", 1, NULL,
               "/large: larger than 1024 MiB"},
              {"report --rank $T/large", 1, NULL, "/large: larger than 1024 MiB"},
              {"run --file $T/large", 1, NULL, "/large: larger than 64 MiB"});
}

static int set_up(void **state) {
    assert_int_equal(temp_folder_make(state), 0);
    setenv("RAN", temp_path("ran"), 1);
    setenv("EVIL", temp_path("evil.so"), 1);
    setenv("KERNEL", textf("gelu_forward=%s/evil.so", temp_folder), 1);
    return system("printf '#include <stdio.h>\\n#include <stdlib.h>\\n__attribute__((constructor)) static void "
                  "go(void) {FILE *f = fopen(getenv(\"RAN\"), \"w\"); if (f != NULL) fclose(f);}' >$T/evil.c && cc "
                  "-shared -fPIC -o $EVIL $T/evil.c && exec 2>$T/err && " SM_TEST_BINARY " run " WORK
                  "-w 0 -r 1 --no-peaks --no-phases -o jsonl >$T/row.jsonl && " SM_TEST_BINARY " loop " WORK
                  "-w 0 -r 1 --no-peaks --no-phases -o jsonl >$T/loop.jsonl && " SM_TEST_BINARY " train " WORK
                  "--steps 2 --run $T/run >$T/out && cp $T/run/run.json $T");
}

AROUND_ALL(set_up, temp_folder_remove)
