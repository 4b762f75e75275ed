// Text to files of tokens: documents and their order, validation, threads, interruption, what is there already.
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tests/support/test.h"
#include "tests/support/source_text.h"
#include "tests/support/temp_folder.h"
#include "src/io/tokens.h"
#include "src/text/tokenize.h"
#include "src/tokenizer/bpe_train.h"
#include "src/tokenizer/encoder.h"
#include "src/tokenizer/text_source.h"

enum { N_MEGABYTES = 6, WHOLE_BYTES = 1 << 20 };

static char *vocabulary; // folder of one that the group learns

// Documents of different length, some larger than a block, some with separators in them.
static void write_many(const char *name) {
    char *path = temp_path(name);
    FILE *file = fopen(path, "wb");
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
    free(path);
}

static int set_up(void **state) {
    sm_word_counts words = {0};
    sm_tokenizer *tokenizer = NULL;
    const sm_bpe_settings settings = {.vocab_size = 400, .min_frequency = 2};
    if (temp_folder_make(state) != 0) {
        return -1;
    }
    for (size_t begin = 0; begin + 6 < 60000; begin += 6) { // any words will do
        if (sm_word_counts_add(&words, source_text() + begin, 6, 1) != SM_OK) {
            return -1;
        }
    }
    vocabulary = temp_path("vocabulary");
    sm_status status = sm_bpe_train(&words, &settings, &tokenizer);
    status = status == SM_OK ? sm_tokenizer_write(tokenizer, vocabulary) : status;
    sm_tokenizer_free(tokenizer);
    sm_word_counts_free(&words);
    write_many("many.txt");
    return status == SM_OK ? 0 : -1;
}

static int tear_down(void **state) {
    free(vocabulary);
    return temp_folder_remove(state);
}

// --- running -------------------------------------------------------------------------------

static sm_status tokenize(const char *output, int n_inputs, char *const *inputs, double val_percent, int n_threads,
                          sm_tokenize_result *result) {
    sm_tokenize_result ignored;
    char *path = temp_path(output);
    const sm_tokenize_job job = {.tokenizer = vocabulary,
                                 .output = path,
                                 .inputs = inputs,
                                 .n_inputs = n_inputs,
                                 .val_percent = val_percent,
                                 .n_threads = n_threads,
                                 .save_bytes = 1};
    sm_status status = sm_tokenize(&job, result != NULL ? result : &ignored);
    free(path);
    return status;
}

static sm_status tokenize_one(const char *output, const char *input, double val_percent, int n_threads,
                              sm_tokenize_result *result) {
    char *path = temp_path(input);
    sm_status status = tokenize(output, 1, (char *[]){path}, val_percent, n_threads, result);
    free(path);
    return status;
}

// The text of a .bin, decoded: separators stand in it.
static char *text_of(const char *name, size_t *n_bytes) {
    char *path = temp_path(name);
    sm_tokenizer *tokenizer;
    sm_tokens *tokens;
    sm_text text = {0};
    expect_ok("tokenizer", sm_tokenizer_read(vocabulary, &tokenizer));
    expect_ok(name, sm_tokens_open(path, SM_TOKENS_LLMC, tokenizer->n_tokens, &tokens));
    const int64_t n = sm_tokens_count(tokens);
    int32_t *ids = calloc((size_t)(2 * n), sizeof(*ids));
    assert_non_null(ids);
    if (n > 1) {
        expect_ok(name, sm_tokens_batch(tokens, 0, 1, n - 1, ids + n, ids)); // the targets: ids 1 to n - 1
        const int32_t first = ids[n];
        memmove(ids + 1, ids, (size_t)(n - 1) * sizeof(*ids));
        ids[0] = first;
    }
    expect_ok(name, sm_decode(tokenizer, ids, (size_t)n, &text));
    expect_ok(name, sm_decode(tokenizer, (int32_t[]){tokenizer->byte_ids[0]}, 1, &text)); // ends the string
    *n_bytes = text.n - 1;
    free(ids);
    free(path);
    sm_tokens_close(tokens);
    sm_tokenizer_free(tokenizer);
    return (char *)text.bytes;
}

static void expect_contents(const char *name, const char *expected) {
    size_t n;
    char *text = text_of(name, &n);
    assert_string_equal(text, expected);
    free(text);
}

static bool are_equal(const char *a, const char *b) {
    size_t n_a;
    size_t n_b;
    char *path_a = temp_path(a);
    char *path_b = temp_path(b);
    char *text_a = temp_read(path_a, &n_a);
    char *text_b = temp_read(path_b, &n_b);
    const bool equal = n_a == n_b && memcmp(text_a, text_b, n_a) == 0;
    free(path_a);
    free(path_b);
    free(text_a);
    free(text_b);
    return equal;
}

static bool exists(const char *name) {
    char *path = temp_path(name);
    const bool found = access(path, F_OK) == 0;
    free(path);
    return found;
}

// tokens.json lists what was read, in that order.
static void expect_listed(const char *record, const char *name, int64_t n_bytes) {
    size_t n;
    char wanted[PATH_MAX + 64];
    char *file = temp_path(name);
    char *path = temp_path(record);
    char *text = temp_read(path, &n);
    snprintf(wanted, sizeof(wanted), "\"name\": \"%s\",\n      \"bytes\": %lld", file, (long long)n_bytes);
    if (strstr(text, wanted) == NULL) {
        fail_msg("%s does not list %s:\n%s", record, wanted, text);
    }
    free(file);
    free(path);
    free(text);
}

// --- documents -----------------------------------------------------------------------------

#define END SM_END_OF_TEXT

TEST(documents_end_with_a_separator) {
    sm_tokenize_result result;
    char *folder = temp_path("texts");
    char *inner = temp_path("texts/b");
    assert_int_equal(mkdir(folder, 0777), 0);
    assert_int_equal(mkdir(inner, 0777), 0);
    temp_put_text("texts/c", "third");
    temp_put_text("texts/a", "first" END END "and a half" END);
    temp_put_text("texts/b/x", "second\xff");
    temp_put_text("texts/.hidden", "no");
    temp_put_text("texts/empty", "");
    temp_put_text("texts/separators", END END END);
    expect_ok("folder", tokenize_one("documents", "texts", 0, 2, &result));
    expect_contents("documents/train.bin", "first" END "and a half" END "second\xff" END "third" END);
    assert_int_equal(result.n_documents[0], 4);
    assert_int_equal(result.n_files, 5);
    assert_int_equal(result.text_bytes[0], 5 + 10 + 7 + 5);
    expect_listed("documents/tokens.json", "texts/b/x", 7);
    expect_listed("documents/tokens.json", "texts/empty", 0);
    assert_false(exists("documents/val.bin"));
    assert_false(exists("documents/progress.json"));
    assert_false(exists("documents.partial"));
    free(folder);
    free(inner);
}

TEST(any_number_of_threads_writes_the_same) {
    size_t n;
    expect_ok("one", tokenize_one("one", "many.txt", 0, 1, NULL));
    expect_ok("five", tokenize_one("five", "many.txt", 0, 5, NULL));
    assert_true(are_equal("one/train.bin", "five/train.bin"));
    char *text = text_of("one/train.bin", &n);
    char *path = temp_path("many.txt");
    char *read = temp_read(path, &n);
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
    free(text);
    free(read);
    free(path);
}

TEST(content_alone_decides_what_is_for_validation) {
    sm_tokenize_result result;
    sm_tokenize_result again;
    expect_ok("split", tokenize_one("split", "many.txt", 30, 3, &result));
    assert_true(result.n_documents[1] > result.n_documents[0] / 6 && result.n_documents[1] < result.n_documents[0]);
    char *many = temp_path("many.txt");
    char *few = temp_path("texts/a");
    expect_ok("other order", tokenize("split2", 3, (char *[]){few, many, few}, 30, 2, &again));
    size_t n;
    size_t n_again;
    char *val = text_of("split/val.bin", &n);
    char *val_again = text_of("split2/val.bin", &n_again);
    assert_true(n_again >= n && strstr(val_again, val) != NULL);
    expect_ok("all", tokenize_one("split3", "many.txt", 0, 1, &again));
    assert_int_equal(again.n_documents[0], result.n_documents[0] + result.n_documents[1]);
    free(val);
    free(val_again);
    free(many);
    free(few);
    expect_failure("nothing left", tokenize_one("split4", "many.txt", 100, 1, NULL), SM_ERR_INVALID, "--val-percent");
    assert_false(exists("split4"));
    assert_false(exists("split4.partial"));
}

// On whichever side its hash puts it: the beginning is for training, the end for validation.
TEST(a_single_document_is_divided) {
    for (int i = 0; i < 4; i++) {
        sm_tokenize_result result;
        char input[32];
        char name[32];
        char text[2048] = "";
        size_t n;
        for (int k = 0; k < 60; k++) {
            snprintf(text + strlen(text), sizeof(text) - strlen(text), "line %d of text %d\n", k, i);
        }
        snprintf(input, sizeof(input), "lone%d.txt", i);
        snprintf(name, sizeof(name), "lone%d", i);
        temp_put_text(input, text);
        expect_ok(name, tokenize_one(name, input, 60, 2, &result));
        assert_true(result.n_documents[0] == 1 && result.n_documents[1] == 1);
        assert_int_equal(result.text_bytes[0] + result.text_bytes[1], strlen(text));
        const double share = (double)result.n_tokens[1] / (double)(result.n_tokens[0] + result.n_tokens[1]);
        assert_true(share > 0.59 && share <= 0.6);
        char path[2][48];
        snprintf(path[0], sizeof(path[0]), "%s/train.bin", name);
        snprintf(path[1], sizeof(path[1]), "%s/val.bin", name);
        char *train = text_of(path[0], &n);
        char *val = text_of(path[1], &n);
        assert_memory_equal(train, text, strlen(train));
        assert_int_equal(strlen(train), result.text_bytes[0]);
        assert_memory_equal(val, text + strlen(train), strlen(text) - strlen(train));
        assert_string_equal(val + strlen(text) - strlen(train), END);
        free(train);
        free(val);
    }
}

// --- interruption --------------------------------------------------------------------------

static bool stop_now(void *ctx) { return --*(int *)ctx < 0; }

// Stopped after a block, again and again, until it is done.
TEST(interrupted_work_goes_on) {
    char *input = temp_path("many.txt");
    char *output = temp_path("stopped");
    int n_stops = 0;
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
    assert_true(are_equal("stopped/train.bin", "split/train.bin"));
    assert_true(are_equal("stopped/val.bin", "split/val.bin"));
    free(input);
    free(output);
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
    assert_true(are_equal("killed/train.bin", "split/train.bin"));
    assert_true(are_equal("killed/val.bin", "split/val.bin"));
}

TEST(other_work_begins_anew) {
    char *partial = temp_path("anew.partial");
    char *progress = temp_path("anew.partial/progress.json");
    assert_int_equal(mkdir(partial, 0777), 0);
    static const char *const records[] = {"", "{", "[]", "{\"schema_version\": 1}",
                                          "{\"position\": {\"file\": -5, \"offset\": 1e300}}"};
    for (size_t i = 0; i < sizeof records / sizeof records[0]; i++) {
        char *folder = temp_path("anew");
        temp_write(progress, records[i], strlen(records[i]));
        expect_ok(records[i], tokenize_one("anew", "texts", 0, 1, NULL));
        assert_true(are_equal("anew/train.bin", "documents/train.bin"));
        assert_int_equal(rename(folder, partial), 0);
        free(folder);
    }
    free(partial);
    free(progress);
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
    char *partial = temp_path("locked.partial");
    assert_int_equal(mkdir(partial, 0777), 0);
    const int lock = open(partial, O_RDONLY | O_DIRECTORY);
    assert_int_equal(flock(lock, LOCK_EX), 0);
    expect_failure("locked", tokenize_one("locked", "texts", 0, 1, NULL), SM_ERR_IO, "another process");
    close(lock);
    free(partial);
}

TEST(unreadable_input_is_told) {
    char *pipe = temp_path("pipe");
    assert_int_equal(mkfifo(pipe, 0600), 0);
    expect_failure("pipe", tokenize_one("none", "pipe", 0, 1, NULL), SM_ERR_IO, "pipe|regular");
    expect_failure("missing", tokenize_one("none", "missing", 0, 1, NULL), SM_ERR_IO, "missing|No such file");
    expect_failure("empty", tokenize_one("none", "texts/empty", 0, 1, NULL), SM_ERR_INVALID, "no text");
    expect_failure("stdin twice", tokenize("none", 2, (char *[]){"-", "-"}, 0, 1, NULL), SM_ERR_USAGE, "twice");
    assert_false(exists("none"));
    assert_false(exists("none.partial"));
    free(pipe);
}

// As `test_tokenize FOLDER VOCABULARY` it is the work that is killed.
int main(int argc, char **argv) {
    if (argc == 3) {
        snprintf(temp_folder, sizeof temp_folder, "%s", argv[1]);
        vocabulary = argv[2];
        return tokenize_one("killed", "many.txt", 30, 2, NULL) == SM_OK ? 0 : 1;
    }
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
