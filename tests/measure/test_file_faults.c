// Model folders when the program is killed, or a file call fails, anywhere in `train` and `init`: what loads afterwards
// is the old state or the new one, the exit code and the message are true, the user's own files are as before, and the
// next save leaves no temporaries. And data files, logs and readers that go away while training runs.
//
// STEPMARK_FAULT_STRIDE: every how many-th call is hit; 1: all (tools/torture/program.py).
#include <errno.h>
#include <signal.h>

#include "tests/support/plans.h"
#include "philox.h"
#include "tests/support/temp_folder.h"
#include "src/io/atomic_file.h"
#include "src/weights/weights.h"

enum { KILL = 0, QUICK_STRIDE = 41, SLOWEST_S = 60 };

#define SHAPE_A    "--n-layer 1 --n-head 2 --d-model 8 --vocab 256 --context 16 --seed 3"
#define SHAPE_B    "--n-layer 2 --n-head 2 --d-model 8 --vocab 256 --context 8 --seed 4"
#define TRAIN_FAST "train --backend reference -b 1 --seq-len 8 "

static sm_device *device;
static const char *root; // what is under attack
static const char *kept; // models to begin with
static const char *hit_file;

static int set_up(void **state) {
    const sm_open_options options = {.n_threads = 1};
    if (temp_folder_make(state) != 0 || sm_backend_find("reference")->open(0, &options, &device) != SM_OK) {
        return -1;
    }
    root = temp_path("root");
    kept = temp_path("kept");
    hit_file = temp_path("hit");
    return mkdir(root, 0777) == 0 && mkdir(kept, 0777) == 0 ? 0 : -1;
}

static int tear_down(void **state) {
    device->backend->close(device);
    return temp_folder_remove(state);
}

// ---- running commands ----

// A shell command in which $R is the folder under attack, $K the one with models to begin with.
static void in_folders(const char *command) { shell(textf("R=%s K=%s; %s", root, kept, command)); }

// Starts the program; call 0: without faults.
static pid_t start(const char *command, int call, int error) {
    const char *asan_options = getenv("ASAN_OPTIONS");
    const char *fault = error != KILL ? textf("FILE_FAULTS_ERROR=%d", error) : "";
    const char *faults = textf("ASAN_OPTIONS='%s:verify_asan_link_order=0' LD_PRELOAD=" SM_TEST_SHIMS
                               "/file_faults.so FILE_FAULTS_UNDER=%s FILE_FAULTS_HIT=%s FILE_FAULTS_AT=%d %s",
                               asan_options != NULL ? asan_options : "", root, hit_file, call, fault);
    return start_shell(textf("R=%s K=%s; exec env %s " SM_TEST_BINARY " %s >$T/out 2>$T/err", root, kept,
                             call > 0 ? faults : "", command));
}

// The exit code, or 128 and the signal.
static int wait_for(pid_t pid) {
    int status;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// ---- what a folder holds ----

typedef struct {
    bool is_there;
    bool loads; // or is not there
    int64_t step;
    uint64_t hash; // of parameters and optimizer state
    char message[512];
} model_state;

static sm_status hash_session(sm_session *session, uint64_t *hash) {
    for (int t = 0; t < session->plan->n_tensors; t++) {
        const sm_tensor *tensor = &session->plan->tensors[t];
        bool is_moment = strncmp(tensor->name, "m.", 2) == 0 || strncmp(tensor->name, "v.", 2) == 0;
        if (!is_moment && !sm_plan_is_param(session->plan, t)) {
            continue;
        }
        const int64_t n_elems = sm_tensor_elems(tensor);
        SM_FREED float *values = malloc((size_t)n_elems * sizeof *values);
        assert_non_null(values);
        sm_status status = sm_session_read(session, t, n_elems, values);
        for (int64_t i = 0; i < n_elems; i++) {
            uint32_t bits;
            memcpy(&bits, &values[i], sizeof bits);
            *hash = (*hash ^ bits) * 0x100000001b3u;
        }
        SM_TRY(status);
    }
    return SM_OK;
}

static sm_status load_state(const char *dir, model_state *state) {
    const sm_plan_options options = {
        .B = 1, .T = 1, .dtype = SM_F32, .backward = true, .optimizer = &sm_optimizer_adamw};
    sm_model_config config;
    sm_plan *plan;
    SM_OWN(sm_session) *session = NULL;
    SM_TRY(sm_weights_read_config(dir, &config));
    SM_TRY(sm_model_build(&config, &options, &plan));
    SM_TRY(sm_session_open(device, plan, &session));
    state->hash = 0xcbf29ce484222325u ^ (uint64_t)config.context;
    sm_status status = sm_weights_load(dir, &config, session, &state->step);
    if (status == SM_OK) {
        status = hash_session(session, &state->hash);
    }
    return status;
}

static model_state state_of(const char *dir) {
    model_state state = {.is_there = access(dir, F_OK) == 0, .loads = true};
    if (state.is_there && load_state(dir, &state) != SM_OK) {
        state.loads = false;
        snprintf(state.message, sizeof state.message, "%.500s", sm_error_message());
    }
    return state;
}

static bool same_state(const model_state *a, const model_state *b) {
    return a->is_there == b->is_there && a->loads && b->loads && a->step == b->step && a->hash == b->hash;
}

// ---- one fault ----

typedef struct {
    const char *name;
    const char *prepare; // in the shell: makes what $R holds
    const char *command;
    const char *dir; // in $R: the folder that is saved to
    bool keeps_files;
    // Found by runs without a fault:
    model_state old_state;
    model_state new_state;
} scenario;

static const char user_file[] = "the user's own\n";

static const char *prepare(const scenario *s) {
    in_folders("rm -rf $R && mkdir $R");
    in_folders(s->prepare);
    return textf("%s/%s", root, s->dir);
}

static bool has_user_file(const char *dir, const char *name) {
    const char *path = textf("%s/%s", dir, name);
    return access(path, F_OK) == 0 && strcmp(file_text(path), user_file) == 0;
}

// Every line of $R/log.jsonl is whole.
static bool log_is_whole(void) {
    bool whole = true;
    bool exists = access(temp_path("root/log.jsonl"), F_OK) == 0;
    SM_FREED char *text = exists ? temp_text("root/log.jsonl") : strdup("");
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        json_auto_t *row = json_loads(line, 0, NULL);
        whole = whole && json_is_integer(json_object_get(row, "step"));
    }
    return whole;
}

// The fault of a run that ended with `code`; NULL: none.
static const char *judge(const scenario *s, const char *dir, int code, int error, const char *err) {
    model_state state = state_of(dir);
    bool is_new = same_state(&state, &s->new_state);
    if (!is_new && !same_state(&state, &s->old_state)) {
        return state.loads ? "neither the old state nor the new one" : "does not load";
    }
    if (error == KILL ? code == 0 : code != 0 && code != 1) {
        return "a wrong exit code";
    }
    if (!is_new && (code == 0 || strstr(err, "saved after step") != NULL)) {
        return "says that it is saved, and is not";
    }
    if (error != KILL && code == 1 && (strncmp(err, "stepmark: ", 10) != 0 || strstr(err, root) == NULL)) {
        return "no line that names the file";
    }
    if (s->keeps_files && (!has_user_file(dir, "README.md") || !has_user_file(dir, "sub/tokenizer.json"))) {
        return "a file of the user's is lost";
    }
    return log_is_whole() || error == KILL ? NULL : "the log holds half a line";
}

// The files that the next save leaves; NULL: none.
static const char *judge_next_save(const scenario *s, const char *dir) {
    static const sm_model_config config = {MODEL(gpt2, 1, 1, 4, 16, 9, 4)};
    unlink(temp_path("root/log.jsonl"));
    if (sm_weights_init(dir, &config, 1) != SM_OK) {
        return sm_error_message();
    }
    if (state_of(dir).step != 0 || !state_of(dir).loads) {
        return "the next save does not load";
    }
    return temp_count(root) == 1 && temp_count(dir) == (s->keeps_files ? 4 : 2) ? NULL : "temporaries pile up";
}

// Runs with one fault; *hit says whether the program made so many calls. NULL: all is well.
static const char *run_fault(const scenario *s, int call, int error, bool *hit) {
    const char *dir = prepare(s);
    unlink(hit_file);
    int code = wait_for(start(s->command, call, error));
    *hit = access(hit_file, F_OK) == 0;
    if (!*hit) {
        return code == 0 ? NULL : "fails without a fault";
    }
    SM_FREED char *err = temp_text("err");
    const char *wrong = judge(s, dir, code, error, err);
    return wrong != NULL ? wrong : judge_next_save(s, dir);
}

// ---- all of them ----

typedef struct {
    int n_runs, n_good;
} tally;

static int stride(void) {
    const char *text = getenv("STEPMARK_FAULT_STRIDE");
    return text != NULL ? atoi(text) : QUICK_STRIDE;
}

static void count(tally *t, const scenario *s, int call, const char *fault, const char *wrong) {
    t->n_runs++;
    t->n_good += wrong == NULL;
    if (wrong != NULL) {
        SM_FREED char *err = temp_text("err");
        print_error("%s, call %d, %s: %s\n%s", s->name, call, fault, wrong, err);
    }
}

// Kills until the program ends before its turn; then failures at as many calls.
static void attack(const scenario *s, tally *t) {
    static const struct {
        int error;
        const char *name;
    } errors[] = {{EIO, "EIO"}, {ENOSPC, "ENOSPC"}};
    bool hit = true;
    int n_calls = 0;
    for (int call = 1; hit; call += stride()) {
        const char *wrong = run_fault(s, call, KILL, &hit);
        if (hit || wrong != NULL) {
            count(t, s, call, "kill", wrong);
            n_calls = call;
        }
    }
    for (size_t e = 0; e < sizeof errors / sizeof errors[0]; e++) {
        for (int call = 1 + (int)e % stride(); call <= n_calls; call += stride()) {
            const char *wrong = run_fault(s, call, errors[e].error, &hit);
            wrong = hit ? wrong : "the call was not made";
            count(t, s, call, errors[e].name, wrong);
        }
    }
}

// The states before and after, from a run without a fault.
static void find_states(scenario *s) {
    const char *dir = prepare(s);
    s->old_state = state_of(dir);
    assert_int_equal(wait_for(start(s->command, 0, KILL)), 0);
    s->new_state = state_of(dir);
    FAIL_IF(!s->old_state.loads || !s->new_state.loads || same_state(&s->old_state, &s->new_state),
            "%s: the states are no good: %s %s", s->name, s->old_state.message, s->new_state.message);
}

#define WITH_FILES " && mkdir $R/m/sub && echo \"the user's own\" | tee $R/m/README.md >$R/m/sub/tokenizer.json"

TEST(every_fault_leaves_the_old_or_the_new_state) {
    static scenario scenarios[] = {
        {"train over its own folder",
         "cp -r $K/a1 $R/m" WITH_FILES,
         TRAIN_FAST "--weights $R/m --save $R/m --steps 1 --log $R/log.jsonl",
         "m",
         true,
         {0},
         {0}},
        {"train into a new folder", ":", TRAIN_FAST "--weights $K/a1 --save $R/m --steps 1", "m", false, {0}, {0}},
        {"train over another model",
         "cp -r $K/a1 $R/m" WITH_FILES,
         TRAIN_FAST "--weights $K/b1 --save $R/m --steps 1",
         "m",
         true,
         {0},
         {0}},
        {"train after an interrupted save",
         "cp -r $K/a1 $R/m && cp -r $K/b1 $R/m/.stepmark-saved && rm $R/m/.stepmark-saved/model.safetensors && "
         "cp $K/b1/model.safetensors $R/m" WITH_FILES,
         TRAIN_FAST "--weights $R/m --save $R/m --steps 1",
         "m",
         true,
         {0},
         {0}},
        {"init into a new folder", ":", "train --init " SHAPE_A " --save $R/m", "m", false, {0}, {0}},
        {"init over a trained model",
         "cp -r $K/a1 $R/m" WITH_FILES,
         "train --init " SHAPE_B " --save $R/m",
         "m",
         true,
         {0},
         {0}},
    };
    tally t = {0};
    for (size_t i = 0; i < sizeof scenarios / sizeof scenarios[0]; i++) {
        find_states(&scenarios[i]);
        attack(&scenarios[i], &t);
    }
    print_message("%d of %d kills and faults left the old or the new state\n", t.n_good, t.n_runs);
    assert_int_equal(t.n_good, t.n_runs);
}

// ---- files that change or fail while training runs ----

static void wait_for_steps(void) {
    struct stat info;
    for (int i = 0; i < 100 * SLOWEST_S && (stat(temp_path("root/log.jsonl"), &info) != 0 || info.st_size < 1000);
         i++) {
        usleep(10000);
    }
}

// Trains on $R/data, does `harm` to it after some steps, and expects the end, a line and the steps saved.
static void expect_saved_after(const char *harm, const char *line) {
    const char *dir = textf("%s/m", root);
    in_folders("rm -rf $R && mkdir $R && head -c 40000 /dev/zero >$R/data");
    pid_t pid = start(TRAIN_FAST "--weights $K/a1 --steps 1000000000 --data $R/data --data-format uint16 "
                                 "--log $R/log.jsonl --save $R/m",
                      0, KILL);
    wait_for_steps();
    in_folders(harm);
    int code = wait_for(pid);
    SM_FREED char *err = temp_text("err");
    FAIL_IF(code != 1 || strstr(err, line) == NULL || strstr(err, "saved after step") == NULL, "%s: exit code %d\n%s",
            harm, code, err);
    model_state saved = state_of(dir);
    assert_true(saved.loads && saved.step > 1);
}

TEST(data_that_changes_ends_a_training_in_order) {
    expect_saved_after("truncate -s 100 $R/data", "root/data: ends at byte ");
    expect_saved_after("head -c 40000 /dev/zero | tr '\\0' '\\377' >$R/other && dd if=$R/other of=$R/data conv=notrunc "
                       "2>$R/dd",
                       "is 65535, outside the vocabulary of 256");
}

static void expect_saved(const char *command, const char *line) {
    const char *dir = textf("%s/m", root);
    in_folders("rm -rf $R && mkdir $R");
    const char *whole = textf("R=%s K=%s; (" SM_TEST_BINARY " %s; echo exit $? >&2) 2>%s/err %s", root, kept,
                              TRAIN_FAST "--weights $K/a1 --save $R/m --steps 1000000000", temp_folder, command);
    shell(whole);
    SM_FREED char *err = temp_text("err");
    FAIL_IF(strstr(err, line) == NULL || strstr(err, "exit 1") == NULL || strstr(err, "saved after step") == NULL,
            "%s\n%s", whole, err);
    assert_true(state_of(dir).loads);
}

TEST(a_reader_that_goes_away_throws_nothing_away) {
    expect_saved("| head -1 >$R/head", "stdout: cannot be written: Broken pipe");
    expect_saved(">/dev/full", "stdout: cannot be written: No space left");
}

// Nor does a log whose last line was cut off by a crash take the next one's with it.
TEST(a_log_that_cannot_be_written_throws_nothing_away) {
    const char *dir = textf("%s/m", root);
    in_folders("rm -rf $R && mkdir $R && printf '{\"step\": 1}\\n{\"ste' >$R/log.jsonl");
    pid_t pid = start(TRAIN_FAST "--weights $K/a1 --save $R/m --steps 50 --log /dev/full", 0, KILL);
    assert_int_equal(wait_for(pid), 1);
    SM_FREED char *err = temp_text("err");
    assert_non_null(strstr(err, "--log: /dev/full: cannot be written: No space left"));
    assert_non_null(strstr(err, "saved after step"));
    assert_true(state_of(dir).loads && state_of(dir).step == 2);
    pid = start(TRAIN_FAST "--weights $K/a1 --steps 1 --log $R/log.jsonl", 0, KILL);
    assert_int_equal(wait_for(pid), 0);
    SM_FREED char *log = temp_text("root/log.jsonl");
    assert_non_null(strstr(log, "{\"ste\n{\"step\": 2, "));
}

// As a batch system sets it: what would be larger is a failed write (SIGXFSZ), and nothing half-written stays.
TEST(a_limit_of_file_size_leaves_nothing_half_written) {
    static const struct {
        const char *limit, *command, *line;
    } cases[] = {
        {"2", "run -m tiny -b 1 --seq-len 8 --backend reference --no-peaks -r 2 -w 0 -q --output-file $R/row.json",
         "row.json: cannot write: File too large"},
        {"100", "train -m tiny --backend reference -b 1 --seq-len 8 --steps 3 --save-every 1 --run $R/r",
         "model.safetensors: cannot write: File too large"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        in_folders("rm -rf $R && mkdir $R");
        const char *whole = textf("R=%s; (ulimit -f %s; " SM_TEST_BINARY " %s) >/dev/null 2>%s/err; test $? = 1", root,
                                  cases[i].limit, cases[i].command, temp_folder);
        const bool ended_in_order = system(whole) == 0;
        SM_FREED char *err = temp_text("err");
        FAIL_IF(!ended_in_order || strstr(err, cases[i].line) == NULL, "%s\n%s", whole, err);
        in_folders("test -z \"$(find $R -name '*tmp*')\"");
    }
}

static int make_models(void **state) {
    if (set_up(state) != 0) {
        return -1;
    }
    static const char *const commands[] = {
        "train --init " SHAPE_A " --save $K/a1",
        TRAIN_FAST "--weights $K/a1 --save $K/a1 --steps 1",
        "train --init " SHAPE_B " --save $K/b1",
        TRAIN_FAST "--weights $K/b1 --save $K/b1 --steps 2",
    };
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        if (wait_for(start(commands[i], 0, KILL)) != 0) {
            return -1;
        }
    }
    return 0;
}

AROUND_ALL(make_models, tear_down)
