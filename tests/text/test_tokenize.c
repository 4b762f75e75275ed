// Text to files of tokens: documents and their order, validation, threads, interruption, what is there already.
#define OWN_MAIN
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>

#include "tests/support/source_text.h"
#include "tests/support/temp_folder.h"
#include "src/io/json_text.h"
#include "src/text/tokenize.h"
#include "src/tokenizer/bpe_train.h"
#include "src/tokenizer/encoder.h"

enum { N_MEGABYTES = 6, WHOLE_BYTES = 1 << 20 };

static char *vocabulary; // folder of one that the group learns

// Documents of different length, some larger than a block, some with separators in them.
static void write_many(const char *name) {
    FILE *file = fopen(temp_path(name), "wb");
    assert_non_null(file);
    for (int i = 0; i < N_MEGABYTES; i++) {
        assert_int_equal(fwrite(source_text(), 1, WHOLE_BYTES, file), WHOLE_BYTES);
        fprintf(file, "%d%s", i, i % 2 == 0 ? SM_END_OF_TEXT : "");
        for (int k = 0; k < 300; k++) {
            fwrite(source_text() + 977 * k, 1, (size_t)(37 * (k % 50)), file);
            fprintf(file, "%s", SM_END_OF_TEXT);
        }
    }
    assert_int_equal(fclose(file), 0);
}

static int set_up(void **state) {
    SM_AT_END(sm_word_counts_free) sm_word_counts words = {0};
    SM_OWN(sm_tokenizer) *tokenizer = NULL;
    const sm_bpe_settings settings = {.vocab_size = 400, .min_frequency = 2};
    assert_int_equal(temp_folder_make(state), 0);
    for (size_t begin = 0; begin + 6 < 60000; begin += 6) { // any words will do
        ok(sm_word_counts_add(&words, source_text() + begin, 6, 1));
    }
    vocabulary = temp_path("vocabulary");
    ok(sm_bpe_train(&words, &settings, &tokenizer));
    ok(sm_tokenizer_write(tokenizer, vocabulary));
    write_many("many.txt");
    return 0;
}

// --- running -------------------------------------------------------------------------------

static sm_status tokenize(const char *output, int n_inputs, char *const *inputs, double val_percent, int n_threads,
                          sm_tokenize_result *result) {
    sm_tokenize_result ignored;
    const char *path = temp_path(output);
    const sm_tokenize_job job = {.tokenizer = vocabulary,
                                 .output = path,
                                 .inputs = inputs,
                                 .n_inputs = n_inputs,
                                 .val_percent = val_percent,
                                 .n_threads = n_threads,
                                 .save_bytes = 1};
    return sm_tokenize(&job, result != NULL ? result : &ignored);
}

static sm_status tokenize_one(const char *output, const char *input, double val_percent, int n_threads,
                              sm_tokenize_result *result) {
    return tokenize(output, 1, (char *[]){temp_path(input)}, val_percent, n_threads, result);
}

// The text of a .bin, decoded: separators stand in it.
static char *text_of(const char *name, size_t *n_bytes) {
    SM_OWN(sm_tokenizer) *tokenizer = NULL;
    SM_OWN(sm_tokens) *tokens = NULL;
    expect_ok("tokenizer", sm_tokenizer_read(vocabulary, &tokenizer));
    expect_ok(name, sm_tokens_open(temp_path(name), SM_TOKENS_LLMC, tokenizer->n_tokens, &tokens));
    const int64_t n = sm_tokens_count(tokens);
    SM_FREED int32_t *ids = sm_calloc((size_t)n, sizeof *ids);
    expect_ok(name, sm_tokens_read(tokens, 0, n, ids));
    char *text = NULL;
    FILE *out = sm_memstream(&text, n_bytes);
    for (int64_t i = 0; i < n; i++) {
        fwrite(sm_token_bytes(tokenizer, ids[i]), 1, tokenizer->tokens[ids[i]].n_bytes, out);
    }
    sm_memstream_close(out);
    return text;
}

static void expect_same_files(const char *a, const char *b) { shell(textf("cd $T && cmp %s %s", a, b)); }

static bool exists(const char *name) { return access(temp_path(name), F_OK) == 0; }

// Nothing is left of work that failed.
static void expect_nothing(const char *name) { assert_false(exists(name) || exists(textf("%s.partial", name))); }

// tokens.json lists what was read, in that order.
static void expect_listed(const char *record, const char *name, int64_t n_bytes) {
    const char *text = file_text(temp_path(record));
    const char *wanted = textf("\"name\": \"%s\",\n      \"bytes\": %lld", temp_path(name), (long long)n_bytes);
    FAIL_IF(strstr(text, wanted) == NULL, "%s does not list %s:\n%s", record, wanted, text);
}

// --- documents -----------------------------------------------------------------------------

#define END SM_END_OF_TEXT

TEST(documents_end_with_a_separator) {
    sm_tokenize_result result;
    temp_put_text("texts/c", "third");
    temp_put_text("texts/a", "first" END END "and a half" END);
    temp_put_text("texts/b/x", "second\xff");
    temp_put_text("texts/.hidden", "no");
    temp_put_text("texts/empty", "");
    temp_put_text("texts/separators", END END END);
    expect_ok("folder", tokenize_one("documents", "texts", 0, 2, &result));
    size_t n;
    SM_FREED char *written = text_of("documents/train.bin", &n);
    assert_string_equal(written, "first" END "and a half" END "second\xff" END "third" END);
    assert_int_equal(result.n_documents[0], 4);
    assert_int_equal(result.n_files, 5);
    assert_int_equal(result.text_bytes[0], 5 + 10 + 7 + 5);
    expect_listed("documents/tokens.json", "texts/b/x", 7);
    expect_listed("documents/tokens.json", "texts/empty", 0);
    assert_false(exists("documents/val.bin"));
    assert_false(exists("documents/progress.json"));
    assert_false(exists("documents.partial"));
}

TEST(any_number_of_threads_writes_the_same) {
    size_t n;
    expect_ok("one", tokenize_one("one", "many.txt", 0, 1, NULL));
    expect_ok("five", tokenize_one("five", "many.txt", 0, 5, NULL));
    expect_same_files("one/train.bin", "five/train.bin");
    SM_FREED char *text = text_of("one/train.bin", &n);
    SM_FREED char *read = temp_read(temp_path("many.txt"), &n);
    const char *at = text; // but for empty documents the text is the same
    for (char *document = strtok(read, ""); document != NULL; document = NULL) {
        for (char *end; (end = strstr(document, END)) != NULL; document = end + strlen(END)) {
            const size_t length = (size_t)(end - document);
            if (length > 0) {
                assert_memory_equal(at, document, length + strlen(END));
                at += length + strlen(END);
            }
        }
    }
    assert_int_equal(*at, '\0');
}

TEST(content_alone_decides_what_is_for_validation) {
    sm_tokenize_result result, again;
    char text[40 * 300] = "";
    for (int i = 0, n = 0; i < 300; i++) {
        n += snprintf(text + n, sizeof text - (size_t)n, "document %03d" END, i);
    }
    temp_put_text("even.txt", text);
    expect_ok("whole", tokenize_one("whole", "even.txt", 30, 3, &result));
    assert_true(result.n_documents[1] > result.n_documents[0] / 6 && result.n_documents[1] < result.n_documents[0]);
    char *many = temp_path("even.txt");
    char *few = temp_path("texts/a");
    expect_ok("other order", tokenize("whole2", 3, (char *[]){few, many, few}, 30, 2, &again));
    size_t n, n_again;
    SM_FREED char *val = text_of("whole/val.bin", &n);
    SM_FREED char *val_again = text_of("whole2/val.bin", &n_again);
    assert_true(n_again >= n && strstr(val_again, val) != NULL);
    expect_ok("all", tokenize_one("whole3", "even.txt", 0, 1, &again));
    assert_int_equal(again.n_documents[0], result.n_documents[0] + result.n_documents[1]);
    expect_failure("nothing left", tokenize_one("whole4", "many.txt", 100, 1, NULL), SM_ERR_INVALID, "--val-percent");
    expect_nothing("whole4");
}

// Of few documents, the beginning of each is for training and the end for validation, whatever their sizes are.
// Documents larger than a block are among them.
TEST(few_documents_are_divided_at_their_ends) {
    static const int n_lines[] = {60, 60, 61, 4000, 7, 1, 200000};
    SM_FREED char *text = malloc(1 << 23);
    char *paths[7];
    int64_t n_all = 0;
    assert_non_null(text);
    for (int i = 0; i < 7; i++) {
        int n = 0;
        for (int k = 0; k < n_lines[i]; k++) {
            n += sprintf(text + n, "line %d of text %d\n", k, i);
        }
        paths[i] = temp_put_text(textf("few%d.txt", i), text);
        n_all += n;
        for (int percent = 10; percent <= 60; percent += 50) {
            sm_tokenize_result result;
            const char *name = textf("few%d-%d", i + 1, percent);
            expect_ok(name, tokenize(name, i + 1, paths, percent, 2, &result));
            const double share = (double)result.text_bytes[1] / (double)n_all;
            assert_int_equal(result.text_bytes[0] + result.text_bytes[1], n_all);
            FAIL_IF(!(fabs(100 * share - percent) <= percent / 2.), "%d files: %g%% instead of %d%%", i + 1,
                    100 * share, percent);
        }
    }
    size_t n;
    SM_FREED char *train = text_of("few1-10/train.bin", &n);
    SM_FREED char *val = text_of("few1-10/val.bin", &n);
    char *end = strstr(train, END);
    assert_non_null(end);
    assert_int_equal(end[strlen(END)], '\0');
    *end = '\0';
    SM_FREED char *whole = temp_read(paths[0], &n);
    assert_memory_equal(train, whole, strlen(train));
    assert_memory_equal(val, whole + strlen(train), n - strlen(train));
    assert_string_equal(val + n - strlen(train), END);
    assert_true(val[0] == '\n' || val[0] == ' '); // no piece is cut
}

// Each line of JSONL is a document, from any place of the text, and lines end where blocks end, too.
TEST(lines_of_json_are_documents) {
    sm_tokenize_result result, plain_result;
    const char *plain_path = temp_path("plain.txt");
    const char *lines_path = temp_path("lines.jsonl");
    FILE *plain = fopen(plain_path, "w");
    FILE *lines = fopen(lines_path, "w");
    assert_true(plain != NULL && lines != NULL);
    fputs("\xef\xbb\xbf", lines);
    for (int i = 0; i < 60000; i++) {
        fprintf(plain, "text %d \xc3\xa9 \xf0\x9f\x98\x80 \"%.*s\"" END, i, i % 60, source_text());
        json_auto_t *words = json_stringn((const char *)source_text(), (size_t)(i % 60));
        SM_FREED char *escaped = json_dumps(words, JSON_ENCODE_ANY);
        fprintf(lines, "{\"id\": 123456789012345678901234567890, \"text\": \"text %d \\u00e9 \\ud83d\\ude00 ", i);
        fprintf(lines, "\\\"%.*s\\\"\"}%s", (int)strlen(escaped) - 2, escaped + 1, i % 3 == 0 ? "\r\n\n" : "\n");
    }
    assert_true(fclose(plain) == 0 && fclose(lines) == 0);
    expect_ok("plain", tokenize_one("plain", "plain.txt", 0, 2, &plain_result));
    expect_ok("lines", tokenize_one("lines", "lines.jsonl", 0, 2, &result));
    assert_int_equal(result.n_documents[0], 60000);
    assert_int_equal(plain_result.n_documents[0], 60000);
    expect_same_files("lines/train.bin", "plain/train.bin");
    SM_OWN(sm_tokens) *of_plain = NULL;
    SM_OWN(sm_tokens) *of_lines = NULL;
    static int32_t ids[2][5000];
    char digest[SM_TOKENIZER_DIGEST_SIZE];
    expect_ok("plain", sm_text_tokens_open(plain_path, SM_TOKENS_AUTO, vocabulary, 400, digest, &of_plain));
    expect_ok("lines", sm_text_tokens_open(lines_path, SM_TOKENS_AUTO, vocabulary, 400, digest, &of_lines));
    const int64_t count = sm_tokens_count(of_plain);
    assert_int_equal(sm_tokens_count(of_lines), count);
    for (int64_t at = 0; at + 5000 <= count; at += count / 7) {
        expect_ok("plain", sm_tokens_read(of_plain, at, 5000, ids[0]));
        expect_ok("lines", sm_tokens_read(of_lines, at, 5000, ids[1]));
        assert_memory_equal(ids[0], ids[1], sizeof ids[0]);
    }
    static const struct {
        const char *line, *message;
    } bad[] = {
        {"{\"text\": 5}", "line 2: no object {\"text\": ...}"},
        {"{\"text\": NaN}", "line 2: no object {\"text\": ...}"},
        {"{\"text\": \"a\"", "line 2: no object"},
        {"{\"text\": \"\\ud83d b\"}", "line 2: no object"},
        {"words", "line 2: no object"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        temp_put_text("bad.jsonl", textf("{\"text\": \"a\"}\n%s\n", bad[i].line));
        expect_failure(bad[i].line, tokenize_one("bad", "bad.jsonl", 0, 1, NULL), SM_ERR_INVALID, bad[i].message);
        expect_nothing("bad");
    }
}

// --- interruption --------------------------------------------------------------------------

static bool stop_now(void *ctx) { return --*(int *)ctx < 0; }

// Stopped after a block, again and again, until it is done.
TEST(interrupted_work_goes_on) {
    char *input = temp_path("many.txt");
    const char *output = temp_path("stopped");
    int n_stops = 0;
    expect_ok("split", tokenize_one("split", "many.txt", 30, 3, NULL));
    sm_status status = SM_ERR_INTERRUPTED;
    while (status == SM_ERR_INTERRUPTED) {
        sm_tokenize_result result;
        int blocks = 1 + n_stops % 2;
        const sm_tokenize_job job = {.tokenizer = vocabulary,
                                     .output = output,
                                     .inputs = (char *[]){input},
                                     .n_inputs = 1,
                                     .val_percent = 30,
                                     .n_threads = 1 + n_stops % 3,
                                     .stop = stop_now,
                                     .ctx = &blocks};
        status = sm_tokenize(&job, &result);
        n_stops += status == SM_ERR_INTERRUPTED;
        assert_true(n_stops < 100);
    }
    expect_ok("last", status);
    assert_true(n_stops >= 3);
    expect_same_files("stopped/train.bin", "split/train.bin");
    expect_same_files("stopped/val.bin", "split/val.bin");
}

TEST(killed_work_goes_on) {
    for (int round = 0; round < 12 && !exists("killed"); round++) {
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) { // as a program of its own: OpenMP's threads do not survive a fork
            execl("/proc/self/exe", "test_tokenize", temp_folder, vocabulary, (char *)NULL);
            _exit(1);
        }
        usleep((useconds_t)(3000 + 9000 * round));
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, NULL, 0), child);
    }
    expect_ok("to its end", tokenize_one("killed", "many.txt", 30, 2, NULL));
    expect_same_files("killed/train.bin", "split/train.bin");
    expect_same_files("killed/val.bin", "split/val.bin");
}

TEST(other_work_begins_anew) {
    const char *partial = temp_path("anew.partial");
    static const char *const records[] = {"", "{", "[]", "{\"schema_version\": 1}",
                                          "{\"position\": {\"file\": -5, \"offset\": 1e300}}"};
    for (size_t i = 0; i < sizeof records / sizeof records[0]; i++) {
        temp_put_text("anew.partial/progress.json", records[i]);
        expect_ok(records[i], tokenize_one("anew", "texts", 0, 1, NULL));
        expect_same_files("anew/train.bin", "documents/train.bin");
        assert_int_equal(rename(temp_path("anew"), partial), 0);
    }
}

// --- what is there -------------------------------------------------------------------------

TEST(nothing_is_overwritten) {
    sm_tokenize_result result;
    expect_ok("the same again", tokenize_one("documents", "texts", 0, 1, &result));
    assert_true(result.was_complete);
    assert_int_equal(result.n_documents[0], 4);
    expect_failure("other percent", tokenize_one("documents", "texts", 50, 1, NULL), SM_ERR_IO,
                   "documents|exists and is not from this work");
    expect_failure("a file", tokenize_one("many.txt", "texts", 0, 1, NULL), SM_ERR_IO,
                   "many.txt|exists and is not from this work");
    expect_failure("a folder", tokenize_one("texts", "texts", 0, 1, NULL), SM_ERR_IO,
                   "texts|exists and is not from this work");
    const char *partial = temp_path("locked.partial");
    assert_int_equal(mkdir(partial, 0777), 0);
    const int lock = open(partial, O_RDONLY | O_DIRECTORY);
    assert_int_equal(flock(lock, LOCK_EX), 0);
    expect_failure("locked", tokenize_one("locked", "texts", 0, 1, NULL), SM_ERR_IO, "another process");
    close(lock);
}

TEST(unreadable_input_is_told) {
    const char *pipe = temp_path("pipe");
    assert_int_equal(mkfifo(pipe, 0600), 0);
    expect_failure("pipe", tokenize_one("none", "pipe", 0, 1, NULL), SM_ERR_IO, "pipe|regular");
    expect_failure("missing", tokenize_one("none", "missing", 0, 1, NULL), SM_ERR_IO, "missing|No such file");
    expect_failure("empty", tokenize_one("none", "texts/empty", 0, 1, NULL), SM_ERR_INVALID, "no text");
    expect_failure("stdin twice", tokenize("none", 2, (char *[]){"-", "-"}, 0, 1, NULL), SM_ERR_USAGE, "twice");
    expect_nothing("none");
}

// As `test_tokenize FOLDER VOCABULARY` it is the work that is killed.
int main(int argc, char **argv) {
    if (argc == 3) {
        snprintf(temp_folder, sizeof temp_folder, "%s", argv[1]);
        vocabulary = argv[2];
        return tokenize_one("killed", "many.txt", 30, 2, NULL) == SM_OK ? 0 : 1;
    }
    return cmocka_run_group_tests(tests, set_up, temp_folder_remove);
}
