// test_trainer.c: the order of data; and `train --run` for a user: the files of a run, how it ends early and resumes,
// what is refused, and damaged checkpoints. A run that was ended and resumed must leave the same weights and the same
// log, except for times, as one that was not.
#include <errno.h>
#include <fcntl.h>

#include "tests/support/run_program.h"
#include "tests/support/whole.h"
#include "src/train/loader.h"

// A step takes a fraction of a millisecond.
#define WORK                                                                                           \
    "-m tiny --n-layer 1 --d-model 16 --n-head 2 --backend reference -b 2 --seq-len 16 --dropout 0.1 " \
    "--data $T/text --data-format bytes --order shuffled "
#define RUN "train " WORK "--global-batch 4 --save-every 10 --val-data $T/val --val-every 15 "

// --- the order ---------------------------------------------------------------------------------------

TEST(an_epoch_reads_every_sequence_once) {
    static const int64_t sizes[] = {1, 2, 3, 4, 5, 17, 64, 1000, 4097};
    static unsigned char seen[4097];
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        const sm_data_order order = {.kind = SM_ORDER_SHUFFLED, .seed = 7, .n_sequences = sizes[i]};
        for (int64_t epoch = 0; epoch < 3; epoch++) {
            memset(seen, 0, sizeof(seen));
            for (int64_t k = 0; k < sizes[i]; k++) {
                const int64_t at = sm_data_order_at(&order, epoch * sizes[i] + k);
                assert_true(at >= 0 && at <= sizes[i] - 1);
                assert_int_equal(seen[at]++, 0);
            }
        }
    }
}

TEST(an_order_follows_from_seed_and_epoch) {
    enum { N = 1000 };
    const sm_data_order plain = {.kind = SM_ORDER_SEQUENTIAL, .n_sequences = N};
    const sm_data_order one = {.kind = SM_ORDER_SHUFFLED, .seed = 1, .n_sequences = N};
    const sm_data_order other = {.kind = SM_ORDER_SHUFFLED, .seed = 2, .n_sequences = N};
    int same_seed = 0, same_epoch = 0, in_place = 0;
    for (int64_t k = 0; k < N; k++) {
        assert_int_equal(sm_data_order_at(&plain, N + k), k);
        const int64_t at = sm_data_order_at(&one, k);
        same_seed += at == sm_data_order_at(&other, k);
        same_epoch += at == sm_data_order_at(&one, N + k);
        in_place += at == k;
    }
    assert_true(same_seed >= 0 && same_seed <= 10); // 1 is expected of each
    assert_true(same_epoch >= 0 && same_epoch <= 10);
    assert_true(in_place >= 0 && in_place <= 10);
}

// Where sequence 0 comes in an epoch, over many epochs: each fourth of it as often as the others.
TEST(places_are_spread_evenly) {
    enum { N = 100, EPOCHS = 4000 };
    const sm_data_order order = {.kind = SM_ORDER_SHUFFLED, .seed = 3, .n_sequences = N};
    int quarters[4] = {0};
    for (int64_t epoch = 0; epoch < EPOCHS; epoch++) {
        quarters[sm_data_order_at(&order, epoch * N) * 4 / N]++;
    }
    for (int i = 0; i < 4; i++) { // standard deviation: 27
        assert_true(quarters[i] >= EPOCHS / 4 - 140 && quarters[i] <= EPOCHS / 4 + 140);
    }
}

// --- helpers -----------------------------------------------------------------------------------------

// Runs until the log has n_lines lines, sends a signal, and returns the exit code; -1: the signal ended it.
static int stop_run(const char *arguments, const char *run_name, int n_lines, int number) {
    const char *log = textf("%s/log.jsonl", run_name);
    const pid_t child = start_program(textf("%s --run $T/%s", arguments, run_name));
    while (count_lines_of(log) < n_lines && !has_ended(child)) {
        usleep(500); // a step takes no longer
    }
    return end_by(child, number);
}

static void expect_stopped(const char *arguments, const char *run_name, int n_lines, int number, int expected) {
    const int code = stop_run(arguments, run_name, n_lines, number);
    FAIL_IF(code != expected, "%s: signal %d: exit code %d, not %d\n%s%s", arguments, number, code, expected, out, err);
}

// Likewise a training that may be over before the signal comes: then another one is stopped.
static void expect_stopped_before_its_end(const char *arguments, const char *run_name, int number, int expected) {
    int code = 0;
    for (int i = 0; i < 20 && code == 0; i++) {
        shell(textf("rm -rf $T/%s", run_name));
        code = stop_run(arguments, run_name, 25, number);
    }
    FAIL_IF(code != expected, "%s: signal %d: exit code %d, not %d\n%s%s", arguments, number, code, expected, out, err);
}

// --- a run -------------------------------------------------------------------------------------------

TEST(a_run_leaves_its_folder) {
    expect_run(RUN "--steps 40 --run $T/whole", 0, "step 40/40 | loss ", NULL);
    shell("cd $T/whole && test -s RUN_COMPLETE.txt && test -s training_metrics.json && test -s run.json && test -s "
          "model/config.json && ! test -e model/optimizer.safetensors && test \"$(ls checkpoints | tr '\\n' ' ')\" = "
          "'step-30 step-40 '");
    shell("cd $T/whole && test $(grep -vc kind log.jsonl) = 40 && test $(grep -c '\"validation\"' log.jsonl) = 3 && "
          "test $(grep -c '\"checkpoint\"' log.jsonl) = 4 && ! grep -q null log.jsonl");
    expect_run("train --weights $T/whole/checkpoints/step-40 --backend reference -b 2 --seq-len 16 --steps 1", 0, NULL,
               "resumes after step 40");
}

TEST(a_run_is_not_run_over) {
    CHECK_ALL({RUN "--steps 40 --run $T/whole", 2, NULL, "holds a run that is complete; choose another folder"},
              {RUN "--steps 40 --run $T/whole --resume auto", 2, NULL, "holds a run that is complete"},
              {RUN "--steps 40 --run $T/foreign", 2, NULL, "has log.jsonl and no run.json"},
              {"train --backend opencl:9.9 -m tiny --run $T/whole", 2, NULL,
               "holds a run that is complete"}, // before all else
              {"train -m tiny --save-every 5", 2, NULL, "--save-every: needs --run DIR"},
              {"train -m tiny --val-every 5", 2, NULL, "--val-every: nothing to validate on"},
              {"train -m tiny --run $T/never --log $T/log", 2, NULL, "--log: with --run the log is log.jsonl"},
              {"train -m tiny --run $T/never --save $T/model", 2, NULL, "--save: with --run the weights are in model/"},
              {"train -m tiny -b 4 --global-batch 6", 2, NULL, "--global-batch: 6 is not a multiple of 4"},
              {"train -m tiny -b 4 --accum 3 --global-batch 8", 2, NULL, "--global-batch: 8 is not --accum times 4"},
              {"train -m tiny --tokens 5 --run $T/never", 2, NULL, "--tokens: 5 are fewer than one step's 256"},
              {"train -m tiny --val-data $T/short", 1, NULL, "--val-data: its 5 tokens are too few"},
              {"train -m tiny --data $T/folder", 1, NULL, "train.bin"});
    shell("test ! -e $T/never/run.json");
}

TEST(limits_end_a_run) {
    // 3,200 tokens and one: 200 sequences of 16, 50 steps of 4.
    CHECK_ALL({"train " WORK "--accum 2 --epochs 2", 0, "step 100/100 | ", NULL},
              {"train " WORK "--accum 2 --epochs 2 --steps 70", 0, "step 70/70 | ", NULL},
              {"train " WORK "--accum 2 --epochs 1 --tokens 1000", 0, "step 15/15 | ", NULL},
              {"train " WORK "-b 3 --epochs 1", 0, "step 66/66 | ", NULL}, {"train " WORK, 0, "step 10/10 | ", NULL});
}

TEST(a_global_batch_is_as_many_micro_batches) {
    expect_exit("train " WORK "--steps 5 --accum 3 --save $T/accum --log $T/accum.jsonl", 0);
    expect_exit("train " WORK "--steps 5 --global-batch 6 --save $T/global --log $T/global.jsonl", 0);
    shell("cmp $T/accum/model.safetensors $T/global/model.safetensors");
    shell("grep -q '\"tokens\": 96, \"epoch\": 1, \"data_ms\": ' $T/global.jsonl");
}

TEST(a_folder_of_data_brings_validation) {
    expect_exit("train -m tiny --backend reference -b 2 --seq-len 16 --data $T/both --data-format bytes --steps 3 "
                "--run $T/by_folder",
                0);
    shell("grep -q '\"kind\": \"validation\", \"step\": 3' $T/by_folder/log.jsonl");
    shell("grep -q 'both/val.bin' $T/by_folder/run.json");
}

// --- ended early ---------------------------------------------------------------------------------------

TEST(an_ended_run_goes_on_as_if_it_had_not_been) {
    static const struct {
        const char *name;
        int number, code;
    } ends[] = {{"terminated", SIGTERM, 143}, {"interrupted", SIGINT, 130}, {"killed", SIGKILL, -1}};
    expect_exit(RUN "--steps 120 --schedule cosine --run $T/undisturbed", 0);
    for (size_t i = 0; i < (repeats_paths() ? sizeof(ends) / sizeof(ends[0]) : 1); i++) {
        expect_stopped_before_its_end(RUN "--steps 120 --schedule cosine", ends[i].name, ends[i].number, ends[i].code);
        if (ends[i].code > 0) {
            expect_text("a signal", err, "checkpoint after step ");
        }
        const char *command = textf(RUN "--steps 120 --schedule cosine --run $T/%s", ends[i].name);
        expect_exit(command, 2);
        expect_text(command, err, "resume it with --resume auto");
        command = textf("train --resume auto --run $T/%s", ends[i].name); // run.json has the rest
        expect_exit(command, 0);
        expect_same_runs("undisturbed", ends[i].name);
        shell(textf("test $(grep -c from_step $T/%s/run.json) = 2", ends[i].name));
    }
}

// By whoever it was: only what the kernel says of itself is told as want of memory.
TEST(a_killed_training_says_what_it_did) {
    shell("timeout 60 " SM_TEST_BINARY " " RUN
          "--steps 100000000 --run $T/k >/dev/null 2>$T/err & timeout 60 sh -c 'until test -s $T/k/log.jsonl; do sleep "
          "0.02; done'; program=$(cat /proc/$!/task/*/children); kill -9 $(cat /proc/${program% }/task/${program% "
          "}/children); wait $!; test $? = 1");
    read_file("err", err);
    expect_text("train", err, "the process was killed (SIGKILL) during: training");
}

TEST(what_differs_is_named) {
    expect_stopped(RUN "--steps 100000", "half", 25, SIGTERM, 143);
    CHECK_ALL({RUN "--steps 100000 --resume auto --run $T/half --seed 7", 2, NULL,
               "seed was 42 when the run began and is 7 now"},
              {RUN "--steps 100000 --resume auto --run $T/half --d-model 64", 2, NULL, "model.d_model was 16"},
              {RUN "--steps 100000 --resume auto --run $T/half --lr 0.5", 2, NULL, "optimizer.lr was 0.006"},
              {RUN "--steps 7 --resume auto --run $T/half", 2, NULL, "steps was 100000"},
              {RUN "--steps 100000 --resume auto --run $T/half --val-data $T/text", 2, NULL, "val_data.bytes was "},
              {RUN "--steps 100000 --resume auto --run $T/half --data $T/changed", 2, NULL, "data.digest was \"xxh3:"});
    shell("cp -r $T/text $T/moved");
    expect_stopped(RUN "--steps 100000 --resume auto --data $T/moved", "half", 60, SIGTERM, 143); // the same bytes
}

// --- damage --------------------------------------------------------------------------------------------

#define DAMAGED "--steps 100 --run $T/damaged --resume auto"

static void damage(const char *command) {
    shell("rm -rf $T/damaged && cp -r $T/to_damage $T/damaged");
    shell(command);
}

TEST(a_damaged_checkpoint_is_passed_over) {
    static const struct {
        const char *damage, *said;
    } cases[] = {
        {"truncate -s 5000 $N/model.safetensors",
         "model.safetensors: has 5000 bytes; the checkpoint was written with "},
        {"cp $O/optimizer.safetensors $N", "optimizer.safetensors: is damaged, or belongs to another checkpoint"},
        {"printf x | dd of=$N/model.safetensors bs=1 seek=9000 conv=notrunc 2>/dev/null",
         "is damaged, or belongs to another"},
        {"rm $N/config.json", "config.json: cannot open"},
        {"sed -i 's/\"log_bytes\": /&1/' $N/checkpoint.json", "its digest is that of another text"},
        {"rm -r $N && cp -r $O $N", "holds the state after step "},
        {"rm -r $N && cp -r $T/whole/checkpoints/step-40 $N", "is a checkpoint of another run"},
        {"rm $N/checkpoint.json", "checkpoint.json: cannot open"},
    };
    expect_exit(RUN "--steps 100 --run $T/good", 0);
    shell("rm -rf $T/to_damage && cp -r $T/good $T/to_damage && cd $T/to_damage && rm -r RUN_COMPLETE.txt "
          "training_metrics.json model");
    setenv("N", "checkpoints/step-100", 1);
    setenv("O", "checkpoints/step-90", 1);
    for (size_t i = 0; i < (repeats_paths() ? sizeof(cases) / sizeof(cases[0]) : 3); i++) {
        damage(textf("cd $T/damaged && %s", cases[i].damage));
        expect_exit(RUN DAMAGED, 0);
        expect_text(cases[i].damage, err, cases[i].said);
        expect_text(cases[i].damage, err, "; trying the checkpoint before it, of step 90");
        assert_null(strstr(err, "is not written"));
        expect_same_runs("good", "damaged");
    }
    damage("truncate -s 5000 $T/damaged/$N/model.safetensors");
    expect_exit("generate --weights $T/damaged --prompt a --tokens 1", 0);
    expect_text("a reader", err, "has 5000 bytes; the checkpoint was written with ");
    expect_text("a reader", err, "its last checkpoint, of step 90, is used");
}

TEST(a_run_without_a_whole_checkpoint_is_refused) {
    damage("truncate -s 7 $T/damaged/checkpoints/*/optimizer.safetensors");
    expect_run(RUN DAMAGED, 1, NULL, "no checkpoint of the run is whole");
    damage("truncate -s 100 $T/damaged/log.jsonl");
    expect_run(RUN DAMAGED, 1, NULL, "log.jsonl: has 100 bytes, but had ");
    damage("sed -i 's/{\"step\": 100,/{\"step\": 101,/' $T/damaged/log.jsonl");
    expect_run(RUN DAMAGED, 1, NULL, "up to there it ends with step 101, not 100");
    damage("sed -i 's/\"argv\"/\"args\"/' $T/damaged/run.json");
    expect_run(RUN DAMAGED, 2, NULL, "its starts hold no command line of train");
    damage("echo {} >$T/damaged/run.json");
    expect_run(RUN DAMAGED, 1, NULL, "run.json: is damaged");
    damage("rm -r $T/damaged/checkpoints"); // killed before the first: from the beginning
    expect_exit(RUN DAMAGED, 0);
    expect_same_runs("good", "damaged");
}

TEST(what_killed_processes_leave_is_removed) {
    damage("cp -r $T/damaged/checkpoints/step-90 $T/damaged/checkpoints/step-95.tmp-1-0");
    expect_exit(RUN DAMAGED, 0);
    shell("test \"$(ls $T/damaged/checkpoints | tr '\\n' ' ')\" = 'step-100 step-90 '");
}

// --- what ends a run -----------------------------------------------------------------------------------

TEST(numbers_that_are_not_finite_end_it) {
    expect_exit(RUN "--steps 100 --optimizer sgd --lr 1e6 --warmup-steps 90 --run $T/wild", 1);
    expect_text("a wild rate", err, "; its data begin at token ");
    expect_text("a wild rate", err, "/text; ");
    shell("grep -q '\"reason\": \"failed\"' $T/wild/run.json && test ! -e $T/wild/model");
}

// Every checkpoint fails: training continues to its end, and says so each time.
TEST(a_checkpoint_that_fails_ends_nothing) {
    setenv("LD_PRELOAD", SM_TEST_SHIMS "/file_faults.so", 1);
    setenv("FILE_FAULTS_UNDER", temp_path("full/checkpoints/step-20"), 1);
    setenv("FILE_FAULTS_HIT", "/dev/null", 1);
    setenv("FILE_FAULTS_AT", "5", 1);
    setenv("FILE_FAULTS_ERROR", "28", 1); // ENOSPC
    // A sanitizer wants to be the first library that is loaded.
    const char *kept = set_variable("ASAN_OPTIONS", NULL);
    set_variable("ASAN_OPTIONS", textf("%s:verify_asan_link_order=0", kept != NULL ? kept : ""));
    const int code = run(RUN "--steps 35 --keep 0 --run $T/full");
    set_variable("ASAN_OPTIONS", kept);
    unsetenv("LD_PRELOAD");
    assert_int_equal(code, 0);
    expect_text("a full disk", err, "No space left on device; the checkpoint of step 20 is not written");
    shell("test \"$(ls $T/full/checkpoints | tr '\\n' ' ')\" = 'step-10 step-30 step-35 '");
}

TEST(two_processes_do_not_share_a_run) {
    shell("mkdir $T/owned && exec 7<$T/owned && flock -x 7 && (" SM_TEST_BINARY " " RUN
          "--run $T/owned 2>$T/err; test $? = 2) && grep -q 'another process trains there' $T/err");
}

static int set_up(void **state) {
    assert_int_equal(temp_folder_make(state), 0);
    return system("cd $T && mkdir foreign folder both && touch foreign/log.jsonl && seq 100000 | head -c 3201 >text && "
                  "seq 5000 9999 | head -c 900 >val && seq 2 100000 | head -c 3201 >changed && printf short >short && "
                  "cp text both/train.bin && cp val both/val.bin");
}

AROUND_ALL(set_up, temp_folder_remove)
