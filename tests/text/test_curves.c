// test_curves.c: `report RUN...`: what a page and a CSV say of trainings.
#include "tests/support/run_program.h"
#include "bench/curves/curves.h"

TEST(a_csv_holds_every_step) {
    expect_exit("report $T/a $T/b -o csv --output $T/both.csv", 0);
    shell(
        "cd $T && test $(wc -l <both.csv) = 7 && grep -q '^\"a\",1,64,0.01,5.5,2,0.001,6400,$' both.csv && grep -q "
        "'^\"a\",2,128,0.03,5,1,0.002,3200,5.25$' both.csv && grep -q '^\"a\",3,192,0.14,4.5,,0.002,6400,' both.csv"); // a skipped step has no norm; pauses count as time
}

TEST(a_page_answers_first) {
    CHECK_ALL(
        {"report $T/a", 0, "b", NULL},
        {"report $T/a -o md", 0,
         "a, complete: the validation loss fell to 5.2500 at step 2, and stands at 5.6000 after 3 of 3 steps.", NULL},
        {"--version; cp -r $T/b \"$T/<b>\" && $P report $T/a \"$T/<b>\" -o md", 0, "\n&lt;b> has the lowest", NULL},
        {"report $T/a -o md", 0, "- a: step 3: the validation loss rises: 5.6000, after 5.2500 at step 2", NULL},
        {"report $T/a $T/b -o md", 0,
         "b has the lowest validation loss: 4.2000 at step 3, 20.0% below that of a (5.2500)", NULL},
        {"report $T/a $T/b -o json --columns run,best_step", 0, "\"best_step\": 2", NULL},
        {"report $T/alone.jsonl -o md", 0, "a log: the loss went from 5.5000 to 4.5000 in 3 steps", NULL},
        {"report $T/a $T/rows.jsonl", 2, NULL, "1 of 2 are trainings, the others result files; give either"},
        {"report $T/torn", 1, NULL, "torn/log.jsonl: line 2: step 3 stands where step 2 belongs"});
    expect_exit("report $T/a --output $T/page.html", 0);
    shell("grep -qF '[2, \"a \\u003cb> text\"]' $T/page.html || grep -qF '[2,\"a \\u003cb> text\"]' $T/page.html");
}

// --- watching ----------------------------------------------------------------------------------------

static void wait_for(const char *condition) {
    shell(textf("cd $T && for i in $(seq 600); do %s && exit 0; sleep 0.1; done; exit 1", condition));
}

// It is written again when a log grows, and loads itself again until the program ends.
TEST(a_page_follows_a_training) {
    shell("cp -r $T/a $T/grows && sed -i '/\"step\": 3,/,$d' $T/grows/log.jsonl");
    const pid_t child = start_program("report $T/grows --watch --output $T/live.html");
    wait_for("grep -q 'lowest so far' live.html && grep -q 'location.reload' live.html");
    shell("cp $T/a/log.jsonl $T/grows/log.jsonl");
    wait_for("grep -q 'stands at 5.6000' live.html");
    assert_int_equal(end_by(child, SIGINT), 0);
    shell("grep -q 'stands at 5.6000' $T/live.html && ! grep -q 'location.reload' $T/live.html");
    expect_run("report $T/a --watch", 2, NULL, "--watch: give --output FILE.html");
}

// --- setup -------------------------------------------------------------------------------------------

static int write_run(const char *name, const char *lr, const char *last_validation) {
    return system(textf("mkdir $T/%s && cd $T/%s && cat >run.json <<'END'\n"
                        "{\"configuration\": {\"steps\": 3, \"optimizer\": {\"lr\": %s}}, \"starts\": [{\"time_utc\": "
                        "\"2026-11-22T10:00:00Z\", \"from_step\": 0, \"end\": {\"reason\": \"complete\"}}]}\nEND\n"
                        "cat >log.jsonl <<'END'\n"
                        "{\"step\": 1, \"loss\": 5.5, \"grad_norm\": 2, \"lr\": 0.001, \"ms\": 10, \"tokens\": 64}\n"
                        "{\"step\": 2, \"loss\": 5, \"grad_norm\": 1, \"lr\": 0.002, \"ms\": 20, \"tokens\": 64}\n"
                        "{\"kind\": \"validation\", \"step\": 2, \"loss\": 5.25, \"tokens\": 64, \"ms\": 90}\n"
                        "{\"kind\": \"checkpoint\", \"step\": 2, \"ms\": 10, \"background_ms\": null}\n"
                        "{\"kind\": \"sample\", \"step\": 2, \"text\": \"a <b> text\"}\n"
                        "{\"step\": 3, \"loss\": 4.5, \"grad_norm\": null, \"skipped\": true, \"lr\": 0.002, \"ms\": "
                        "10, \"tokens\": 64}\n"
                        "{\"kind\": \"validation\", \"step\": 3, \"loss\": %s, \"tokens\": 64, \"ms\": 90}\nEND",
                        name, name, lr, last_validation));
}

static int set_up(void **state) {
    return temp_folder_make(state) == 0 && write_run("a", "0.002", "5.6") == 0 && write_run("b", "0.004", "4.2") == 0
               ? system("cd $T && grep -v kind a/log.jsonl >alone.jsonl && echo '{\"status\": \"ok\"}' >rows.jsonl && "
                        "mkdir torn && sed -n '1p;6p' a/log.jsonl >torn/log.jsonl")
               : -1;
}

AROUND_ALL(set_up, temp_folder_remove)
