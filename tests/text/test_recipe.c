// test_recipe.c: what `train --run` does unasked, its flags from files, what it leaves next to weights, warnings.
#include "tests/support/run_program.h"
#include "bench/curves/curves.h"

#define WORK "-m tiny --backend reference -b 2 --seq-len 16 "
#define TEXT WORK "--data $T/text --data-format bytes "

TEST(a_run_has_a_recipe) {
    expect_exit("train " TEXT "--steps 20 --run $T/usual", 0);
    expect_text("the head", err,
                "order shuffled; learning rate 0.006: warm-up until step 6, then cosine to 0.0006; adamw");
    expect_text("the head", err, "beta2 0.95");
    expect_text("the head", err, "grad clip 1");
    expect_text("the end", err, "next: stepmark generate --weights ");
    shell("grep -q '\"order\": \"shuffled\"' $T/usual/run.json && grep -q '\"kind\": \"cosine\"' $T/usual/run.json");
    expect_exit("train " TEXT "--steps 20 --run $T/plain --order sequential --schedule constant --warmup-steps 0 "
                "--grad-clip 0 --beta2 0.999 --lr 1e-3",
                0);
    expect_exit("train " TEXT "--steps 20 --log $T/bare.jsonl", 0); // without a run nothing is assumed
    shell("sed 's/,.*epoch.*//; s/\"ms\".*//' $T/bare.jsonl >$T/a && grep -v kind $T/plain/log.jsonl | sed "
          "'s/,.*epoch.*//; s/\"ms\".*//' >$T/b && cmp $T/a $T/b");
}

// In the folder $T/own, where what is chosen goes.
#define OWN "--version; P=$PWD/" SM_TEST_BINARY "; cd $T/own; $P "

TEST(a_text_alone_is_enough) {
    static const expectation cases[] = {
        {OWN "train --data my.txt --steps 2", 0, "validation after step 2 | loss ",
         "GPT-2 of 0.5 M parameters (layers 2, width 128), vocabulary 512, context 128, batch 4"},
        {OWN "train --data my.tokens --steps 2 --run again", 0, "validation after step 2 | loss ", "vocabulary 512"},
        {OWN "train --data my.tokens/train.bin --steps 1 --run ids", 0, "step 1/1 | ", "vocabulary 512"},
        {OWN "train --data texts/ --tokenizer my.tokens --steps 1 --arch llama --n-layer 1", 0, "validation after",
         "Llama of 0.4 M parameters (layers 1, width 128), vocabulary 512"},
        {OWN "train --data my.txt --data-format bytes --steps 1 --save bytes", 0, "step 1/1 | ", "vocabulary 256"},
        {OWN "train --data my.txt --vocab 300 --steps 1 --run other", 1, NULL, "my.tokens: "},
        {OWN "train --data my.txt", 2, NULL, "my.run: holds a run that is complete"},
        {OWN "train --data bare.bin", 2, NULL, "no tokens.json or tokenizer next to it"},
        {OWN "train --data bare.bin --vocab 512 --steps 1 -b 2", 0, "step 1/1 | ", "batch 2; "},
        {OWN "train --data short.txt", 1, NULL, "give more text"},
        {OWN "train --steps 1", 0, "step 1/1 | ", "vocabulary 256"},
    };
    shell("mkdir $T/own $T/own/texts && head -c 30000 src/io/text.txt >$T/own/my.txt && cp $T/own/my.txt $T/own/texts "
          "&& head -c 80 src/io/text.txt >$T/own/short.txt");
    check_all(cases, 1);
    shell("cp $T/own/my.tokens/train.bin $T/own/bare.bin");
    check_all(cases + 1, sizeof(cases) / sizeof(cases[0]) - 1);
    shell("cd $T/own && cmp again/model/model.safetensors my.run/model/model.safetensors && test -e my.run/best && "
          "test -e texts.run/model/tokenizer.json && test ! -e bytes.run");
}

// A run that was chosen and stopped resumes with what was chosen, by either command line.
TEST(a_choice_is_kept) {
    shell("mkdir $T/kept && head -c 9000 src/io/text.txt >$T/kept/a.txt");
// A signal before the program can take it is lost, as a shell lets what runs next to it ignore interrupts: the line
// that is waited for must be of this run.
#define KEPT "--version; P=$PWD/" SM_TEST_BINARY "; cd $T/kept; rm -f a.out; $P train "
#define STOPPED                                                                                                        \
    " >a.out & p=$!; until grep -qs '^validation' a.out; do kill -0 $p || break; sleep 0.1; done; kill -INT $p; wait " \
    "$p"
    expect_exit(KEPT "--data a.txt --val-every 1" STOPPED, 130);
    expect_exit(KEPT "--data a.txt --val-every 1 --resume auto" STOPPED, 130);
    expect_run(KEPT "--run a.run --resume auto --log-every 1000", 0, NULL, "next: stepmark generate --weights a.run");
}

TEST(a_lowest_rate_must_be_low) {
    CHECK_ALL(
        {"train -m tiny --min-lr 1e-5", 2, NULL, "--min-lr: a constant learning rate has none; give --schedule"},
        {"train -m tiny --schedule linear --min-lr 1", 2, NULL, "--min-lr: 1 is above the learning rate of 0.001"},
        {"train -m tiny --steps 2 --schedule wsd --min-lr 0", 0, "lr 0.0e+00", NULL},
        {"train -m tiny --keep-best", 2, NULL, "--keep-best: needs --run DIR"},
        {"train -m tiny --run $T/never --sample-every 3", 2, NULL, "--sample-every: give --prompt"});
}

TEST(flags_come_from_a_file) {
    CHECK_ALL({"train --config $T/flags.json", 0, "step 3/3 | ", NULL},
              {"train --config $T/flags.json --steps 2", 0, "step 2/2 | ", NULL},
              {"train --config $T/on.json", 0, "step 3/3 | ", "--profile: a training of fewer than 6 steps"},
              {"train --config $T/usual/run.json --run $T/copy --steps 4", 0, "step 4/4 | ", NULL},
              {"train --config $T/wrong.json", 2, NULL, "wrong.json: unknown flag --stepz; did you mean --steps?"},
              {"train --config $T/list.json", 2, NULL, "list.json: \"steps\": give a text, a number, true or false"},
              {"train --config $T/code.json", 2, NULL, "runs code of its own"},
              {"train --config $T/none.json", 2, NULL, "none.json"});
    shell("test $(grep -vc kind $T/copy/log.jsonl) = 4");
}

TEST(a_run_leaves_what_its_user_needs) {
    expect_exit("tokenize --vocab-size 300 --output $T/voc $T/words", 0);
    expect_exit("tokenize --tokenizer $T/voc --val-percent 50 --output $T/ids $T/words $T/many", 0);
    expect_exit("train " WORK "--vocab 300 --data $T/ids --steps 20 --val-every 5 --save-every 5 --keep-best --run "
                "$T/run --sample-every 10 --prompt 'a b' --log-every 7",
                0);
    expect_text("validation", out, "validation after step 5 | loss ");
    expect_text("a sample", out, "sample | \"a b");
    shell("test $(grep -c '^step ' $T/out) = 4"); // 1, 7, 14, 20
    shell("cd $T/run && test -s best/model.safetensors && test -s model/tokenizer.json && test -s "
          "model/tokenizer_config.json && test $(grep -c '\"sample\"' log.jsonl) = 2");
    expect_exit("generate --weights $T/run --prompt 'a b' --tokens 2", 0);
    expect_exit("generate --weights $T/run/best --prompt 'a b' --tokens 2", 0);
    shell("rm -r $T/run/model"); // as if it had not ended
    expect_run("generate --weights $T/run --prompt 'a b' --tokens 2", 0, NULL,
               "has not ended; its last checkpoint, of step 20, is used");
    shell("rm -r $T/run/checkpoints/*");
    expect_run("generate --weights $T/run --prompt 'a b' --tokens 2", 1, NULL, "has no checkpoint yet");
    expect_exit("train -m tiny --precision fp16 --lr 1e6 --schedule constant --warmup-steps 0 --val-data $T/some "
                "--val-every 1 --keep-best --run $T/far",
                1);
    shell("test ! -e $T/far/best"); // a loss that is no number is not the lowest
}

TEST(a_model_is_evaluated) {
    // The trainer's own validation, of the same rows, is the reference.
    expect_exit(
        "train " WORK
        "-b 1 --data $T/text --data-format bytes --val-data $T/some --val-batches 0 --lr 0 --steps 1 --run $T/fixed",
        0);
    expect_exit("eval --weights $T/fixed --data $T/some --data-format bytes --seq-len 16 --backend reference -o json",
                0);
    shell("cd $T && grep -q '\"n_tokens\": 320,' out && grep -oh '\"loss\": [0-9.]*' out >l && grep validation "
          "fixed/log.jsonl | grep -oh '\"loss\": [0-9.]*' >>l && awk '{v[NR]=$2} END {d = v[1]-v[2]; exit !(NR == 2 && "
          "d < 1e-6 && d > -1e-6)}' l && awk -F'[:,]' '/\"loss\"/ {loss = $2} /bits_per_byte/ {bits = $2} END {d = "
          "bits * log(2) - loss; exit !(loss > 0 && d < 1e-6 && d > -1e-6)}' out"); // a token is a byte
    CHECK_ALL({"eval --weights $T/fixed --data $T/q.jsonl --seq-len 32 -o csv", 0, "2,", NULL},
              {"eval --weights $T/fixed --data $T/q.jsonl --seq-len 3", 1, NULL, "does not fit 3"},
              {"eval --weights $T/fixed --data $T/flags.jsonl", 1, NULL, "flags.jsonl: line 1: no {\"ctx\": text, "},
              {"eval --weights $T/fixed", 2, NULL, "--data: missing"},
              {"eval --data $T/text", 2, NULL, "--weights: missing"},
              {"eval --weights $T/fixed --data $T/none", 1, NULL, "none"},
              {"eval --weights $T/fixed --data $T/fixed", 1, NULL, "log.jsonl: JSON with \"step\", and no \"text\""});
}

// The log-probability of an ending is what a text of context and ending has beyond one of the context alone.
TEST(each_ending_has_its_score) {
    shell("cd $T && printf 'one two' >short && printf 'one two three' >long && echo '{\"ctx\": \"one two\", "
          "\"endings\": [\"3\", \"three\"], \"label\": \"1\"}' >pair.jsonl");
    for (int i = 0; i < 2; i++) {
        expect_exit(i == 0 ? "eval --weights $T/fixed --data $T/short --data-format bytes --seq-len 16 -o json"
                           : "eval --weights $T/fixed --data $T/long --data-format bytes --seq-len 16 -o json",
                    0);
        shell("cat $T/out >>$T/both");
    }
    expect_exit("eval --weights $T/fixed --data $T/pair.jsonl --seq-len 16 --output-file $T/scores.jsonl", 0);
    shell("cd $T && test $(grep -c '\"line\":1,\"label\":1,.*\"n_tokens\":\\[2,6\\]' scores.jsonl) = 1 && grep -oh "
          "'\"loss\": [0-9.]*' both | cut -d' ' -f2 >l && sed 's/.*,-\\([0-9.]*\\)\\].*/\\1/' scores.jsonl >>l && awk "
          "'{v[NR]=$1} END {d = 12*v[2]-6*v[1]-v[3]; exit !(NR == 3 && v[3] > 1 && d < 1e-4 && d > -1e-4)}' l");
    CHECK_ALL(
        {"eval --weights $T/fixed --data $T/long --output-file $T/none.jsonl; ls $T/none.jsonl", 2, NULL,
         "No such file"},
        {"eval --weights $T/fixed --data $T/long --output-file $T/none.jsonl", 2, NULL, "is no .jsonl of questions"});
}

TEST(what_goes_wrong_is_told) {
    sm_run_watch w = {.n_steps = 0};
    char text[SM_WATCH_TEXT_SIZE] = "";
    int n_told = 0;
    for (int step = 1; step <= 120; step++) {
        n_told += sm_run_watch_step(&w, step, 5, step == 50 || step == 60 ? 30 : 0.7, text);
    }
    assert_int_equal(n_told, 2); // one jump of two, and the flat loss
    expect_text("flat", text, "the loss is flat: 5.0000");
    w = (sm_run_watch){.n_steps = 0};
    for (int step = 1; step <= 120; step++) {
        assert_false(sm_run_watch_step(&w, step, 5 - 0.01 * step, 0.7, text));
    }
    assert_false(sm_run_watch_validation(&w, 10, 6.5, text));
    assert_false(sm_run_watch_validation(&w, 20, 6.4, text));
    assert_false(sm_run_watch_validation(&w, 30, 6.41, text)); // as good as the same
    assert_true(sm_run_watch_validation(&w, 40, 6.6, text));
    expect_text("a rise", text, "step 40: the validation loss rises: 6.6000, after 6.4000 at step 20");
    assert_false(sm_run_watch_validation(&w, 50, 6.7, text)); // told once
}

static int set_up(void **state) {
    assert_int_equal(temp_folder_make(state), 0);
    return system("cd $T && seq 100000 | head -c 3201 >text && head -c 321 text >some && cp text flags.jsonl && echo "
                  "'{\"ctx\": \"1 2 3\", \"endings\": [\"4 5\", \"x y\"], \"label\": 0}' >q.jsonl && echo '{\"ctx\": "
                  "\"7 8\", \"endings\": [\"z\", \"9\"], \"label\": \"1\"}' >>q.jsonl && yes 'a bee can see' | head -c "
                  "4000 >words && mkdir many && yes 'an ant cannot' | head -c 3000 | split -b 300 - many/ && echo "
                  "'{\"model_size\": \"tiny\", \"steps\": 3, \"lr\": 1e-3, \"seq-len\": 16, \"profile\": false}' "
                  ">flags.json && sed s/false/true/ flags.json >on.json && echo '{\"stepz\": 3}' >wrong.json && echo "
                  "'{\"steps\": NaN}' >list.json && echo '{\"kernel\": \"gelu_forward=x.c\"}' >code.json");
}

AROUND_ALL(set_up, temp_folder_remove)
