// test_packaging.c: what packaging/ names is there: versions, commands, flags, and the figure that the Phoronix profile
// reads. Its tools themselves need networks, and are not run. And scripts that judge a change fail when they must.
#include "tests/support/run_program.h"

TEST(versions_are_the_programs) {
    expect_exit("--version", 0);
    shell("V=$(sed -n '1s/stepmark //p' $T/out) && cd packaging && grep -qF \"version: \\\"$V\\\"\" conda/meta.yaml && "
          "grep -qF \"<AppVersion>$V<\" phoronix/test-definition.xml && "
          "grep -qF \"stepmark-$V-linux-\" phoronix/downloads.xml");
}

// The lines of a recipe that call the program, as they are.
TEST(commands_of_the_recipe_run) {
    shell("sed -n 's|^    - stepmark |" SM_TEST_BINARY " |p' packaging/conda/meta.yaml >$T/recipe && "
          "test $(wc -l <$T/recipe) = 2 && sh -e $T/recipe >/dev/null 2>&1");
}

// This program stands for both sides; two pairs in place of twenty.
TEST(the_workflow_compares_and_writes) {
    shell("sed -n 's|^ *- run: build/release/stepmark \\(run .* -o gbench\\) > speed.json|" SM_TEST_BINARY
          " \\1|p' packaging/workflow/speed.yml >$T/gbench && sh -e $T/gbench 2>/dev/null | grep -q real_time");
    shell("sed -n '/compare --interleaved/,/cpu\"$/p' packaging/workflow/speed.yml | "
          "sed 's|base/build/release/stepmark|" SM_TEST_BINARY "|; s|build/release/stepmark compare|" SM_TEST_BINARY
          " compare --pairs 2|' >$T/compare && { sh $T/compare >$T/out 2>$T/err; code=$?; "
          "test $code = 0 -o $code = 3; } && grep -q 'pair 2 of 2' $T/err");
}

// In place of a score of two minutes, its row is copied.
TEST(the_profile_reads_the_figure) {
    temp_put_text("row.jsonl", "{\"status\": \"ok\", \"median_ts\": 538.25, \"median_ns\": 1902463000}\n");
    temp_put_text("stub", "#!/bin/sh\n[ $1 = score ] || exec $REAL \"$@\"\nfor file; do :; done\n"
                          "case \"$*\" in *\"--precision bf16\"*) cp $T/row.jsonl $file ;; *) exit 1 ;; esac\n");
    shell("export HOME=$T REAL=$PWD/" SM_TEST_BINARY " LOG_FILE=$T/log P=$PWD/packaging && cd $T && "
          "mkdir -p stepmark-0.1.0-linux-x86_64/bin && cp stub stepmark-0.1.0-linux-x86_64/bin/stepmark && "
          "chmod +x stepmark-*/bin/stepmark && tar -czf stepmark-0.1.0-linux-x86_64.tar.gz stepmark-*-x86_64 && "
          "sh $P/phoronix/install.sh && ./stepmark --precision bf16 && grep -qx 0 test-exit-status && "
          "grep -qx 'rate: 538.2[0-9]*' log");
}

TEST(a_failed_test_is_a_failure) {
    shell("tools/run_tests.sh true >/dev/null && { tools/run_tests.sh true false >$T/said 2>&1; test $? = 1; } && "
          "grep -q '^false failed: exit code 1' $T/said");
}

TEST(what_includes_upwards_is_refused) {
    shell("git --version >/dev/null 2>&1 || exit 0; mkdir -p $T/tree/tools $T/tree/os $T/tree/src/plan && "
          "cp tools/check_deps.sh $T/tree/tools && cd $T/tree && git init -q && "
          "echo '#include \"src/plan/plan.h\"' >os/os.h && : >src/plan/plan.h && "
          "{ tools/check_deps.sh 2>said; test $? = 1; } && grep -q 'os.h includes .*, which is above it' said && "
          "echo '#include \"os/os.h\"' >src/plan/plan.h && : >os/os.h && tools/check_deps.sh >said 2>&1");
}
