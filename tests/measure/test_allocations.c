// test_allocations.c: every failed allocation is reported or harmless: if the n-th allocation of a command fails, it
// ends with exit code 1 and a message, or as without a failure; an existing file is unchanged or complete. Small memory
// ends the program with one line (sm_malloc); large memory is told by the function that needs it. ALLOCATION_STEP=1
// tries every n (tools/torture.sh allocations).
#include "tests/support/temp_folder.h"

static const char shim[] = SM_TEST_SHIMS "/allocation_faults.so";

typedef struct {
    const char *arguments;
    const char *file; // that it replaces; NULL
    int quick_share;  // of the usual number of tries, in percent
} command;

#define WORK "-m tiny -b 1 --seq-len 8"
static const command commands[] = {
    {"report rows.jsonl -o md", NULL, 100},
    {"report rows.jsonl --output page.html", "page.html", 20},
    {"report --best rows.jsonl", NULL, 100},
    {"compare rows.jsonl rows.jsonl", NULL, 100},
    {"estimate -m tiny", NULL, 100},
    {"walk -m tiny", NULL, 100},
    {"devices", NULL, 20},
    {"run " WORK " --mode naive,fused --dry-run", NULL, 100},
    {"train --init -m tiny --save model", "model/model.safetensors", 100},
    {"train " WORK " --steps 1 --backend cpu -t 1 --save model", "model/model.safetensors", 50},
    {"run " WORK " -r 2 -w 0 --no-peaks --backend cpu -t 1 -o jsonl", NULL, 50},
    {"loop " WORK " -r 2 -w 0 --no-peaks -t 1 -o jsonl", NULL, 50},
    {"advise " WORK " --dry-run", NULL, 50},
    {"report --rank a.bundle", NULL, 50},
    {"report rows.jsonl --bundle made.bundle", "made.bundle", 50},
    {"page " WORK " --backend none --output step.html", "step.html", 20},
    {"exercise", NULL, 50},
    {"ladder matmul --source blocked", NULL, 20},
    {"run --schema", NULL, 50},
    {"tokenize --vocab-size 300 --output model -t 1 text", "model/tokenizer.json", 50},
    {"generate --weights given --prompt a --tokens 2 -t 1", NULL, 50},
};
enum { N_COMMANDS = sizeof(commands) / sizeof(commands[0]), QUICK_TRIES = 12 };

// A row that is whole, without its samples' statistics: they are filled in.
static const char rows[] =
    "{\"schema_version\": 1, \"status\": \"ok\", \"test_time\": \"2026-01-02T03:04:05Z\", \"model_type\": \"tiny\", "
    "\"device\": \"cpu\", \"mode\": \"naive\", \"precision\": \"fp32\", \"pass_type\": \"step\", \"test\": \"step "
    "b1s8\", \"n_batch\": 1, \"n_seq\": 8, \"samples_ns\": [5, 6, 7, 8, 9, 10, 11], \"open_ns\": 7, \"build_ns\": 9, "
    "\"first_step_ns\": 9, \"peak_rss_bytes\": 9000, \"flops\": 1e4, \"bytes\": 1e3, \"peak_flops\": 1e9, "
    "\"peak_bandwidth\": 1e8, \"context\": {\"host\": \"here\", \"cpu\": {\"name\": \"a processor\"}}}\n"
    "{\"schema_version\": 1, \"status\": \"ok\", \"model_type\": \"tiny\", \"device\": \"cpu\", \"mode\": \"fused\", "
    "\"precision\": \"fp32\", \"pass_type\": \"step\", \"test\": \"step b1s8\", \"n_batch\": 1, \"n_seq\": 8, "
    "\"samples_ns\": [25, 26, 27, 28, 29, 30, 31], \"peak_rss_bytes\": 9000, \"warnings\": [\"a | warning\"]}\n"
    "{\"schema_version\": 1, \"status\": \"oom\", \"reason\": \"too large\", \"model_type\": \"tiny\", \"device\": "
    "\"cpu\"}\n";

// --- runs ----------------------------------------------------------------------------------------

typedef struct {
    int code;
    char *out, *err;
    char *file; // NULL: there is none
    size_t file_bytes;
} result;

static void free_result(result *r) {
    free(r->out);
    free(r->err);
    free(r->file);
}

static char *read_named(const char *name, size_t *size_bytes) {
    const char *path = temp_path(name);
    char *text = access(path, R_OK) == 0 ? temp_read(path, size_bytes) : NULL;
    return text;
}

static result run(const command *c, long fault_at) {
    char line[2048];
    result r = {0};
    size_t size_bytes;
    mkdir(temp_path("model"), 0700);
    temp_put_text("count", "0");
    if (c->file != NULL) {
        temp_put_text(c->file, "old");
    }
    const char *built = SM_TEST_BINARY;
    SM_FREED char *here = getcwd(NULL, 0);
    snprintf(line, sizeof(line),
             "cd %s && exec timeout 60 env -u OPENBLAS_CORETYPE FAULT_AT=%ld FAULT_COUNT=count LD_PRELOAD=%s/%s %s/%s "
             "%s >out 2>err </dev/null",
             temp_folder, fault_at, here, shim, here, built, c->arguments);
    int status = system(line);
    r.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    r.out = read_named("out", &size_bytes);
    r.err = read_named("err", &size_bytes);
    r.file = c->file != NULL ? read_named(c->file, &r.file_bytes) : NULL;
    return r;
}

static long count_of_last_run(void) {
    size_t size_bytes;
    SM_FREED char *text = read_named("count", &size_bytes);
    assert_non_null(text);
    long n = strtol(text, NULL, 10);
    return n;
}

// --- the oracle ------------------------------------------------------------------------------------

// The old file, or one that ends as a whole one does.
static bool file_is_whole(const result *r, const result *undisturbed) {
    enum { END_BYTES = 7 };
    if (undisturbed->file == NULL || r->file == NULL) {
        return r->file == undisturbed->file;
    }
    return strcmp(r->file, "old") == 0 ||
           (r->file_bytes >= END_BYTES &&
            memcmp(r->file + r->file_bytes - END_BYTES, undisturbed->file + undisturbed->file_bytes - END_BYTES,
                   END_BYTES) == 0);
}

// NULL, or what is wrong.
static const char *judge(const result *r, const result *undisturbed) {
    bool told = r->code == 1 && (strstr(r->err, "memory") != NULL || strstr(r->err, "Cannot allocate") != NULL);
    // A configuration that failed has its row, or its line in a plan, that says so.
    bool row_tells = r->code == 0 && strstr(r->out, "oom") != NULL && strstr(r->out, "memory") != NULL;
    if (!file_is_whole(r, undisturbed)) {
        return "a file is neither old nor new";
    }
    if (told || row_tells) {
        return NULL;
    }
    if (r->code != undisturbed->code) {
        return r->code == 1 ? "another reason is given" : r->code == 124 ? "it hangs" : "another exit code";
    }
    return undisturbed->file != NULL && strcmp(r->file, "old") == 0 ? "the file was not written" : NULL;
}

// --- all -------------------------------------------------------------------------------------------

static long try_command(const command *c, long step_given, long *n_tries) {
    result undisturbed = run(c, 0);
    long n = count_of_last_run();
    long quick = n * 100 / (QUICK_TRIES * c->quick_share);
    long step = step_given > 0 ? step_given : quick > 0 ? quick : 1;
    long n_bad = 0;
    FAIL_IF(undisturbed.code != 0 || n == 0, "%s: exit %d, %ld allocations: %s", c->arguments, undisturbed.code, n,
            undisturbed.err);
    for (long at = 1; at <= n; at += step) {
        result r = run(c, at);
        const char *wrong = judge(&r, &undisturbed);
        if (wrong != NULL) {
            print_message("%s: allocation %ld of %ld: exit %d, %s: %s\n", c->arguments, at, n, r.code, wrong, r.err);
            n_bad++;
        }
        (*n_tries)++;
        free_result(&r);
    }
    free_result(&undisturbed);
    return n_bad;
}

// The files that the commands read, made by the program itself.
static void make_inputs(void) {
    static const char *const lines[] = {"train --init -m tiny --save given",
                                        "run " WORK " -r 6 -w 0 -q --backend cpu --no-peaks --output-file rows.json",
                                        "report rows.json --bundle a.bundle"};
    SM_FREED char *here = getcwd(NULL, 0);
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        assert_int_equal(system(textf("cd %s && %s/%s %s >>made 2>&1", temp_folder, here, SM_TEST_BINARY, lines[i])),
                         0);
    }
}

TEST(every_failure_is_told) {
    const char *step = getenv("ALLOCATION_STEP");
    const char *only = getenv("ALLOCATION_COMMAND");
    long n_bad = 0;
    long n_tries = 0;
#ifdef __SANITIZE_ADDRESS__
    print_message("left out: the sanitizer has allocations of its own\n");
    skip();
#endif
    temp_put_text("rows.jsonl", rows);
    temp_put_text("text", "a text, a text, and one more text");
    make_inputs();
    for (size_t i = 0; i < N_COMMANDS; i++) {
        if (only == NULL || strncmp(only, commands[i].arguments, strlen(only)) == 0) {
            long tries_before = n_tries;
            long bad = try_command(&commands[i], step != NULL ? strtol(step, NULL, 10) : 0, &n_tries);
            if (step != NULL) {
                print_message("%ld of %ld allocation failures end badly: %s\n", bad, n_tries - tries_before,
                              commands[i].arguments);
            }
            n_bad += bad;
        }
    }
    print_message("%ld of %ld allocation failures end badly\n", n_bad, n_tries);
    assert_int_equal(n_bad, 0);
}
