// What a training reads: text whose tokens are made when they are read, loaders of every kind and number of threads,
// documents in steps; and training from them as a user meets it.

#include "clock.h"
#include "tests/support/run_program.h"
#include "tests/support/whole.h"
#include "src/text/tokenize.h"
#include "src/train/loader.h"

enum { VOCAB = 600, N_READERS = 4 };

static char *text_path, *tokenizer_path, *stored_path;

static void fails(sm_status status, const char *text) {
    expect_failure(text, status, status != SM_OK ? status : SM_ERR_IO, text);
}

// --- text ------------------------------------------------------------------------------------------

static sm_tokens *open_text(void) {
    char digest[SM_TOKENIZER_DIGEST_SIZE];
    sm_tokens *tokens;
    ok(sm_text_tokens_open(text_path, SM_TOKENS_AUTO, tokenizer_path, VOCAB, digest, &tokens));
    return tokens;
}

static sm_tokens *open_stored(void) {
    sm_tokens *tokens;
    ok(sm_tokens_open(stored_path, SM_TOKENS_LLMC, VOCAB, &tokens));
    return tokens;
}

typedef struct {
    const sm_tokens *text;
    const int32_t *wanted;
    uint64_t seed;
    int n_wrong;
} reading;

static void *read_anywhere(void *ctx) {
    reading *r = ctx;
    const int64_t count = sm_tokens_count(r->text);
    for (int i = 0; i < 200; i++) {
        static _Thread_local int32_t ids[700];
        r->seed = r->seed * UINT64_C(6364136223846793005) + 1442695040888963407;
        const int64_t n = (int64_t)(r->seed >> 40) % 700;
        const int64_t first = (int64_t)(r->seed >> 20 & 0xfffff) % (count - n);
        r->n_wrong += sm_tokens_read(r->text, first, n, ids) != SM_OK ||
                      memcmp(ids, r->wanted + first, (size_t)n * sizeof *ids) != 0;
    }
    return NULL;
}

// The stream of `tokenize`, from any place of it, whoever else is reading.
TEST(text_has_the_tokens_that_tokenize_writes) {
    SM_OWN(sm_tokens) *text = open_text();
    SM_OWN(sm_tokens) *stored = open_stored();
    const int64_t count = sm_tokens_count(stored);
    assert_int_equal(sm_tokens_count(text), count);
    SM_FREED int32_t *wanted = sm_malloc((size_t)count * sizeof *wanted);
    SM_FREED int32_t *ids = sm_malloc((size_t)count * sizeof *ids);
    sm_tokens_cost cost = {0};
    ok(sm_tokens_read(stored, 0, count, wanted));
    ok(sm_tokens_read_timed(text, 0, count, ids, &cost));
    assert_memory_equal(ids, wanted, (size_t)count * sizeof *ids);
    assert_true(cost.read_ns > 0 && cost.tokenise_ns > 0);
    reading readings[N_READERS];
    pthread_t threads[N_READERS];
    for (int i = 0; i < N_READERS; i++) {
        readings[i] = (reading){.text = text, .wanted = wanted, .seed = (uint64_t)i};
        assert_int_equal(pthread_create(&threads[i], NULL, read_anywhere, &readings[i]), 0);
    }
    for (int i = 0; i < N_READERS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(readings[i].n_wrong, 0);
    }
    fails(sm_tokens_read(text, count, 1, ids), "tokens from");
}

// Of many files, in the order of their names, one of them empty, whoever else is reading.
TEST(a_folder_has_the_tokens_that_tokenize_writes) {
    char digest[SM_TOKENIZER_DIGEST_SIZE];
    SM_OWN(sm_tokens) *text = NULL;
    SM_OWN(sm_tokens) *stored = NULL;
    shell("cd $T && mkdir -p many/b && head -c 90000 text >many/b/1 && tail -c 60000 text >many/a && : >many/c && cp "
          "val many/d && cd - >/dev/null && " SM_TEST_BINARY
          " tokenize --tokenizer $T/tok --output $T/many_ids $T/many >/dev/null");
    ok(sm_text_tokens_open(temp_path("many"), SM_TOKENS_AUTO, tokenizer_path, VOCAB, digest, &text));
    ok(sm_tokens_open(temp_path("many_ids/train.bin"), SM_TOKENS_LLMC, VOCAB, &stored));
    const int64_t count = sm_tokens_count(stored);
    assert_int_equal(sm_tokens_count(text), count);
    SM_FREED int32_t *wanted = sm_malloc((size_t)count * sizeof *wanted);
    ok(sm_tokens_read(stored, 0, count, wanted));
    reading r = {.text = text, .wanted = wanted, .seed = 7};
    read_anywhere(&r);
    assert_int_equal(r.n_wrong, 0);
}

TEST(text_that_does_not_fit_is_refused) {
    const struct {
        const char *path, *tokenizer;
        int64_t vocab;
        const char *message;
    } cases[] = {{text_path, tokenizer_path, VOCAB - 1, "the tokenizer has 600 tokens"},
                 {temp_path("empty"), tokenizer_path, VOCAB, "empty: has no text"},
                 {temp_path("separators"), tokenizer_path, VOCAB, "separators: has no text"},
                 {"-", tokenizer_path, VOCAB, "-: training reads text repeatedly"},
                 {temp_path("nowhere"), tokenizer_path, VOCAB, "nowhere: cannot open"},
                 {text_path, text_path, VOCAB, "text"}};
    for (size_t i = 0; i < SM_COUNT(cases); i++) {
        char digest[SM_TOKENIZER_DIGEST_SIZE];
        sm_tokens *tokens;
        fails(sm_text_tokens_open(cases[i].path, SM_TOKENS_AUTO, cases[i].tokenizer, cases[i].vocab, digest, &tokens),
              cases[i].message);
        assert_null(tokens);
    }
}

TEST(text_that_changes_is_noticed) {
    char digest[SM_TOKENIZER_DIGEST_SIZE];
    int32_t ids[64];
    SM_OWN(sm_tokens) *tokens = NULL;
    const char *path = temp_path("changing");
    shell("head -c 30000 $T/text >$T/changing");
    ok(sm_text_tokens_open(path, SM_TOKENS_AUTO, tokenizer_path, VOCAB, digest, &tokens));
    const int64_t count = sm_tokens_count(tokens);
    ok(sm_tokens_read(tokens, count - 64, 64, ids));
    shell("head -c 10000 /dev/zero | dd of=$T/changing conv=notrunc 2>/dev/null");
    fails(sm_tokens_read(tokens, 0, 64, ids), "has changed since it was opened");
    shell("truncate -s 20000 $T/changing");
    fails(sm_tokens_read(tokens, count / 2 + count / 4, 64, ids), "changing");
}

// --- loaders ---------------------------------------------------------------------------------------

enum { B = 2, T = 24, N_MICRO = 3, N_STEPS = 40 };

static sm_load_share rows_of(const sm_tokens *tokens) {
    return (sm_load_share){
        .tokens = tokens,
        .order = {.kind = SM_ORDER_SHUFFLED, .seed = 5, .n_sequences = (sm_tokens_count(tokens) - 1) / T},
        .B = B,
        .T = T,
        .stride = 2 * N_MICRO * B,
        .first = N_MICRO * B,
        .n = N_MICRO * B};
}

static sm_load_share documents_of(const sm_tokens *tokens, const sm_collation *collation) {
    return (sm_load_share){.tokens = tokens,
                           .collation = collation,
                           .order = {.kind = SM_ORDER_SHUFFLED, .seed = 5, .n_sequences = collation->n_batches},
                           .B = B,
                           .T = T,
                           .stride = 2 * N_MICRO,
                           .first = N_MICRO,
                           .n = N_MICRO};
}

static void expect_same_loads(const sm_load *a, const sm_load *b) {
    const size_t size_bytes = sizeof(int32_t) * N_MICRO * B * T;
    assert_memory_equal(a->inputs, b->inputs, size_bytes);
    assert_memory_equal(a->targets, b->targets, size_bytes);
    assert_int_equal(a->starts != NULL, b->starts != NULL);
    if (a->starts != NULL) {
        assert_memory_equal(a->starts, b->starts, size_bytes);
    }
    assert_memory_equal(a->n_real, b->n_real, N_MICRO * sizeof(*a->n_real));
    assert_int_equal(a->n_real_of_all, b->n_real_of_all);
}

static void check_load(const sm_load *load, const sm_loader_settings *s) {
    assert_int_equal(load->n_micro, N_MICRO);
    assert_int_equal(load->cost.read_ns + load->cost.tokenise_ns + load->cost.collate_ns,
                     load->end_ns - load->begin_ns);
    assert_true(load->cost.read_ns >= 0 && load->cost.tokenise_ns >= 0 && load->cost.collate_ns >= 0);
    if (s->kind == SM_LOADER_INLINE) {
        assert_int_equal(load->thread, -1);
        assert_int_equal(load->waited_ns, 0);
        assert_int_equal(sm_load_main_ns(load), load->end_ns - load->begin_ns);
    } else {
        assert_true(load->thread >= 0 && load->thread <= s->n_threads - 1);
        assert_true(load->n_ready >= 0 && load->n_ready <= (s->queue_depth > 0 ? s->queue_depth : 2 * s->n_threads));
        assert_int_equal(sm_load_main_ns(load), load->waited_ns);
    }
    for (int64_t i = 0; i < N_MICRO; i++) {
        int64_t n_real = 0;
        for (int64_t k = 0; k < B * T; k++) {
            n_real += load->targets[i * B * T + k] >= 0;
        }
        assert_int_equal(n_real, load->n_real[i]);
    }
}

// All kinds give what the plainest gives, from step 1 and from the step at which a training resumes.
static void expect_same_everywhere(const sm_load_share *share) {
    static const sm_loader_settings kinds[] = {
        {.kind = SM_LOADER_INLINE},
        {.kind = SM_LOADER_THREADS, .n_threads = 1, .queue_depth = 1},
        {.kind = SM_LOADER_THREADS, .n_threads = 1},
        {.kind = SM_LOADER_THREADS, .n_threads = 3, .queue_depth = 2},
        {.kind = SM_LOADER_THREADS, .n_threads = 4, .queue_depth = 9},
        {.kind = SM_LOADER_THREADS, .n_threads = 2, .delay = {.read_ns = 30000}},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        SM_OWN(sm_loader) *plain = NULL;
        SM_OWN(sm_loader) *other = NULL;
        const int64_t first = i % 2 == 0 ? 1 : 17;
        ok(sm_loader_open(&kinds[0], share, first, &plain));
        ok(sm_loader_open(&kinds[i], share, first, &other));
        for (int64_t step = first; step < first + N_STEPS; step++) {
            sm_load wanted, found;
            ok(sm_loader_next(plain, &wanted));
            ok(sm_loader_next(other, &found));
            expect_same_loads(&found, &wanted);
            check_load(&found, &kinds[i]);
        }
    }
}

TEST(every_loader_makes_the_same_batches) {
    sm_tokens *const sources[] = {open_stored(), open_text()};
    for (size_t i = 0; i < 2; i++) {
        const sm_load_share rows = rows_of(sources[i]);
        expect_same_everywhere(&rows);
        SM_AT_END(sm_documents_free) sm_documents documents;
        SM_AT_END(sm_collation_free) sm_collation collation;
        ok(sm_documents_draw(sources[i], 2, T, 3, 20000, &documents));
        ok(sm_collate(&documents, B, T, SM_PADDING_BUCKET, documents.n, &collation));
        const sm_load_share placed = documents_of(sources[i], &collation);
        expect_same_everywhere(&placed);
        sm_tokens_close(sources[i]);
    }
}

// Steps of two processes take what one alone takes, and each says how many tokens the whole step has.
TEST(processes_share_a_step) {
    SM_OWN(sm_tokens) *tokens = open_stored();
    SM_AT_END(sm_documents_free) sm_documents documents;
    SM_AT_END(sm_collation_free) sm_collation collation;
    ok(sm_documents_draw(tokens, 2, T, 3, 20000, &documents));
    ok(sm_collate(&documents, B, T, SM_PADDING_BATCH, documents.n, &collation));
    sm_load_share second = documents_of(tokens, &collation);
    sm_load_share first = second, whole = second;
    first.first = 0;
    whole.first = 0;
    whole.n = 2 * N_MICRO;
    sm_loader *loaders[3];
    const sm_load_share *shares[] = {&first, &second, &whole};
    for (int i = 0; i < 3; i++) {
        ok(sm_loader_open(&(sm_loader_settings){.kind = SM_LOADER_THREADS, .n_threads = 2}, shares[i], 1, &loaders[i]));
    }
    for (int step = 0; step < 20; step++) {
        sm_load loads[3];
        int64_t n_real = 0;
        for (int i = 0; i < 3; i++) {
            ok(sm_loader_next(loaders[i], &loads[i]));
            assert_int_equal(loads[i].n_real_of_all, loads[0].n_real_of_all);
        }
        const size_t size_bytes = sizeof(int32_t) * N_MICRO * B * T;
        assert_memory_equal(loads[0].inputs, loads[2].inputs, size_bytes);
        assert_memory_equal(loads[1].inputs, loads[2].inputs + N_MICRO * B * T, size_bytes);
        for (int64_t i = 0; i < 2 * N_MICRO; i++) {
            n_real += loads[2].n_real[i];
        }
        assert_int_equal(n_real, loads[2].n_real_of_all);
    }
    for (int i = 0; i < 3; i++) {
        sm_loader_close(loaders[i]);
    }
}

// Where nothing is slower than the loader, one waits as long as a load takes; where it is ahead, not at all.
TEST(a_slow_loader_is_waited_for) {
    enum { DELAY_NS = 4000000, N = 6 };
    static const sm_load_cost parts[] = {{.read_ns = DELAY_NS}, {.tokenise_ns = DELAY_NS}, {.collate_ns = DELAY_NS}};
    SM_OWN(sm_tokens) *tokens = open_stored();
    const sm_load_share share = rows_of(tokens);
    for (size_t k = 0; k < 3; k++) {
        SM_OWN(sm_loader) *loader = NULL;
        int64_t waited_ns = 0, called_ns = 0;
        const int64_t open_ns = sm_now_ns();
        ok(sm_loader_open(&(sm_loader_settings){.kind = SM_LOADER_THREADS, .n_threads = 1, .delay = parts[k]}, &share,
                          1, &loader));
        for (int step = 0; step < N; step++) {
            sm_load load;
            const int64_t call_ns = sm_now_ns();
            ok(sm_loader_next(loader, &load));
            called_ns += sm_now_ns() - call_ns;
            const int64_t cost[] = {load.cost.read_ns, load.cost.tokenise_ns, load.cost.collate_ns};
            assert_true(cost[k] >= DELAY_NS);
            waited_ns += load.waited_ns;
        }
        const int64_t elsewhere_ns = sm_now_ns() - open_ns - called_ns;
        assert_true(waited_ns <= called_ns && waited_ns + elsewhere_ns >= N * (int64_t)DELAY_NS * 9 / 10);
        sm_load load = {.n_ready = 0};
        for (int i = 0; i < 20 && load.n_ready < 2; i++) { // both loads of the queue can be made meanwhile
            usleep(20 * DELAY_NS / 1000);
            ok(sm_loader_next(loader, &load));
        }
        assert_int_equal(load.n_ready, 2);
    }
}

// A load that fails is told when it is asked for, not before.
TEST(a_load_that_fails_is_told_in_its_turn) {
    static const sm_loader_settings kinds[] = {{.kind = SM_LOADER_INLINE},
                                               {.kind = SM_LOADER_THREADS, .n_threads = 3, .queue_depth = 8}};
    const char *path = temp_path("shrinking");
    for (size_t i = 0; i < 2; i++) {
        SM_OWN(sm_tokens) *tokens = NULL;
        SM_OWN(sm_loader) *loader = NULL;
        sm_load load;
        shell("cp $T/ids/train.bin $T/shrinking");
        ok(sm_tokens_open(path, SM_TOKENS_LLMC, VOCAB, &tokens));
        shell("truncate -s 4000 $T/shrinking"); // 1,488 tokens
        sm_load_share share = rows_of(tokens);
        share.order.kind = SM_ORDER_SEQUENTIAL;
        ok(sm_loader_open(&kinds[i], &share, 1, &loader));
        for (int step = 1; step <= 5; step++) { // of 288 tokens
            ok(sm_loader_next(loader, &load));
        }
        fails(sm_loader_next(loader, &load), "shrinking");
    }
}

// --- training --------------------------------------------------------------------------------------

#define MODEL \
    "-m tiny --n-layer 1 --d-model 16 --n-head 2 --vocab 600 -b 2 --seq-len 16 --order shuffled --backend reference "

TEST(training_is_the_same_from_text) {
    expect_exit("train " MODEL "--steps 6 --accum 2 --data $T/ids --save $T/one", 0);
    static const char *const loaders[] = {"inline", "threads", "threads:3 --queue-depth 5"};
    for (size_t i = 0; i < sizeof(loaders) / sizeof(loaders[0]); i++) {
        expect_exit(textf("train " MODEL
                          "--steps 6 --accum 2 --data $T/text --tokenizer $T/tok --save $T/other --loader %s",
                          loaders[i]),
                    0);
        shell("cmp $T/one/model.safetensors $T/other/model.safetensors && rm -r $T/other");
    }
}

// Rows that are documents are the same rows in one batch and in several, so a step's mean is that of the whole.
TEST(micro_batches_count_by_their_tokens) {
    SKIP_IF(!repeats_paths());
    static const char *const cuts[] = {"-b 4", "-b 2 --accum 2", "-b 1 --accum 4"};
    for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++) {
        expect_exit(textf("train -m tiny --vocab 600 --seq-len 32 --backend reference --data $T/ids --documents 1-32 "
                          "--padding max --steps 8 --optimizer sgd --lr 0.1 %s --log $T/cut%d",
                          cuts[i], (int)i),
                    0);
    }
    shell("cd $T && for i in 0 1 2; do sed 's/.*\"loss\": \\([^,]*\\), \"grad_norm\": \\([^,]*\\),.*\"tokens\": "
          "\\([0-9]*\\).*/\\1 \\2 \\3/' cut$i >numbers$i; test $(wc -l <numbers$i) = 8; done && for i in 1 2; do paste "
          "numbers0 numbers$i | awk '{ for (k = 1; k < 4; k++) { d = $k / $(k + 3) - 1; if (!(d * d < 1e-10)) { print; "
          "exit 1 } } }' || exit 1; done");
}

#define RUN                                                                                          \
    "train " MODEL "--dropout 0.1 --data $T/text --tokenizer $T/tok --val-data $T/val --padding %s " \
    "--long-documents split --accum 2 --steps 60 --save-every 7 --val-every 20 --loader %s --run $T/%s"

// Documents of text, whose tokens are made on the fly: a run killed and resumed with another loader is one never killed.
TEST(documents_go_on_where_a_run_ended) {
    static const char *const paddings[] = {"packed", "bucket"};
    for (size_t i = 0; i < 2; i++) {
        expect_exit(textf(RUN, paddings[i], "inline", paddings[i]), 0);
        const char *name = textf("ended_%s", paddings[i]);
        shell(textf("exec timeout -s KILL 60 " SM_TEST_BINARY " " RUN
                    " >$T/out 2>&1 & for i in $(seq 2000); do [ $(cat $T/%s/log.jsonl 2>/dev/null | wc -l) -ge 25 ] && "
                    "break; sleep 0.01; done; kill -TERM $!; wait $!; test $? = 143 -o $? = 0",
                    paddings[i], "threads:2", name, name));
        const int code = run(textf(RUN " --resume auto", paddings[i], "threads:3", name));
        assert_true(code == 0 || (code == 2 && strstr(err, "holds a run that is complete") != NULL));
        expect_same_runs(paddings[i], name);
    }
    shell("cd $T && grep -q '\"padding\": \"packed\"' packed/run.json && grep -q '\"tokenizer\": \"fnv1a64:' "
          "packed/run.json && grep -q '\"padded_tokens\": [1-9]' bucket/log.jsonl");
    expect_run("report --check $T/packed $T/bucket --output jsonl", 1, "training_config.padding", NULL);
    shell("! cmp -s $T/packed/model/model.safetensors $T/bucket/model/model.safetensors");
    expect_exit("report --check $T/packed", 0);
}

TEST(what_does_not_go_together_is_refused) {
    CHECK_ALL(
        {"train " MODEL "--data $T/ids --loader thread", 2, NULL, "give inline, threads or"},
        {"train " MODEL "--data $T/ids --loader threads:0", 2, NULL, "0 threads are out of range"},
        {"train " MODEL "--data $T/ids --loader threads:2x", 2, NULL, "unknown value 'threads:2x'"},
        {"train " MODEL "--data $T/ids --loader inline --queue-depth 3", 2, NULL, "makes nothing ahead"},
        {"train " MODEL "--tokenizer $T/tok", 2, NULL, "--tokenizer: makes tokens of text"},
        {"train " MODEL "--data $T/ids --tokenizer $T/tok", 2, NULL, "ids: holds token ids (train.bin) already"},
        {"train " MODEL "--data $T/many --tokenizer $T/tok --steps 2 --run $T/many_run", 0, "2/2", NULL},
        {"train " MODEL "--data $T/text --tokenizer $T/tok --data-format bytes --steps 2", 0, "2/2", NULL},
        {"train " MODEL "--data $T/text --tokenizer $T/tok --data-format uint16", 2, NULL,
         "text: holds token ids (uint16)"},
        {"train " MODEL "--data $T/ids --accum 1000000 --epochs 1", 2, NULL,
         "sequences, and a step takes 2000000 (by -b, --accum and --global-batch)"},
        {"train " MODEL "--data $T/text --tokenizer $T/none", 1, NULL, "none"},
        {"train -m tiny --seq-len 16 --data $T/text --tokenizer $T/tok", 1, NULL, "the model's vocabulary has 256"},
        {"train " MODEL "--data $T/empty --tokenizer $T/tok", 1, NULL, "has no text"},
        {"train " MODEL "--data $T/text --tokenizer $T/tok --padding packed", 1, NULL, "--long-documents cut or split"},
        {"train " MODEL "--data $T/ids --padding packed", 2, NULL, "give --documents"},
        {"train " MODEL "--data $T/ids --documents 2-16 --padding max --tokens 3", 2, NULL, "fewer than one step's"},
        {"train " MODEL "--data $T/ids --documents 2-16 --padding max --epochs 1 --run $T/big --global-batch 4000000",
         1, NULL, "rows are too few for a step of 4000000 x 16"},
        {"train " MODEL "--data $T/text --tokenizer $T/tok --padding none --long-documents cut --steps 2", 0, "2/2",
         NULL});
}

// A configuration with a loader is a loop's.
TEST(sweeps_measure_loops) {
    expect_exit(
        "run -m tiny --vocab 600 -b 2 --seq-len 16 -t 1 --data $T/text --tokenizer $T/tok --documents 2-16 --loader "
        "inline,threads:2 --mode naive,fused --backend cpu --no-peaks -w 1 -r 3 --output-file $T/loops.jsonl",
        0);
    shell("cd $T && test $(grep -c '\"loader\": *\"inline\"' loops.jsonl) = 2 && test $(grep -c '\"loader\": "
          "*\"threads:2\"' loops.jsonl) = 2");
    expect_exit("report $T/loops.jsonl -o md --output $T/loops.md", 0);
    shell("cd $T && test $(grep -cE '^\\| cpu .*\\| (inline|threads:2) *\\|' loops.md) = 4");
    CHECK_ALL({"run -m tiny -b 1 --queue-depth 2 --loader inline --backend cpu --dry-run", 0, NULL, NULL},
              {"run -m tiny -b 1 --loader fast --backend cpu --no-peaks -w 0 -r 1", 2, NULL,
               "--loader: unknown value 'fast'"});
}

static int set_up(void **state) {
    assert_int_equal(temp_folder_make(state), 0);
    text_path = temp_path("text");
    tokenizer_path = temp_path("tok");
    stored_path = temp_path("ids/train.bin");
    // Words, numbers, bytes that are no UTF-8, 20 KB without a place to cut, documents long and short, and empty ones.
    return system("cd $T && { awk 'BEGIN { for (d = 0; d < 4000; d++) { for (i = d % 29 == 0 ? -400 : d % 5; i < 5; "
                  "i++) printf \"the %d th word of it, \", 7 * d + i; printf \"<|endoftext|>\" } }'; printf "
                  "'a\\377\\300b \\342\\202 c<|endoftext|><|endoftext|>'; head -c 20000 /dev/zero | tr '\\0' x; printf "
                  "'<|endoftext|> \\303\\251t\\303\\251 \\n\\n end'; } >text && seq -f 'word %g' 900 >val && : >empty "
                  "&& printf '<|endoftext|><|endoftext|>' >separators && cd - >/dev/null && { " SM_TEST_BINARY
                  " tokenize --vocab-size 600 --output $T/tok $T/text && " SM_TEST_BINARY
                  " tokenize --tokenizer $T/tok --output $T/ids $T/text; } >/dev/null 2>&1");
}

AROUND_ALL(set_up, temp_folder_remove)
