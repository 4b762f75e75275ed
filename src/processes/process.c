#include "src/processes/process.h"

#include <errno.h>
#include <unistd.h>

#include "clock.h"
#include "os/files.h"
#include "os/os.h"

enum { OUT, ERR, MESSAGES, N_STREAMS };

enum { MOST_OUT_BYTES = 256 << 20, MOST_ERR_BYTES = 1 << 20, PART_BYTES = 1 << 16 };

// A terminal and a parent may both send the same signal; after this time it is a new one.
static const int64_t again_ns = 300000000;

static const int64_t hang_ns = 300000000;           // waiting for a killed process that may hang
static const int64_t orphans_ns = 5000000000;       // for its own processes to end after it, and its streams
static const int64_t killed_orphans_ns = 100000000; // likewise after an interruption, or if killed with their session
static const int64_t look_ns = 50000000;            // polling interval
static const int64_t most_sleep_ns = 1000000000;    // another of our threads may have taken a signal

typedef struct {
    int fd; // -1 at its end
    char *text;
    size_t n;
    size_t room;
} stream;

typedef struct {
    const sm_process_job *job;
    sm_process_result *result;
    os_child child;
    int file; // for SM_OUTPUT_FILE
    stream streams[N_STREAMS];
    int64_t begin_ns;
    int64_t asked_ns, killed_ns, ended_ns; // 0: not yet
    int n_signals;                         // ours, handled so far
} process;

// --- starting it ---------------------------------------------------------------------------------

static const char *name_of(const sm_process_job *job) { return job->argv != NULL ? job->argv[0] : "a process"; }

static sm_status start_child(process *p, int ends[N_STREAMS][2]) {
    const sm_process_job *job = p->job;
    const bool in_file = job->output == SM_OUTPUT_FILE;
    const int closed[] = {ends[OUT][0], ends[ERR][0], ends[MESSAGES][0], ends[OUT][1], ends[ERR][1]};
    p->begin_ns = sm_now_ns();
    const int reason = os_child_start(&(os_child_plan){.argv = job->argv,
                                                       .work = job->work,
                                                       .prepare = job->prepare,
                                                       .ctx = job->ctx,
                                                       .told = job->told,
                                                       .shared = {job->shared[0], job->shared[1]},
                                                       .in = job->has_no_input ? OS_CHILD_NOTHING : OS_CHILD_OURS,
                                                       .out = in_file ? p->file : ends[OUT][1],
                                                       .err = in_file ? p->file : ends[ERR][1],
                                                       .kept_at = job->messages,
                                                       .kept = ends[MESSAGES][1],
                                                       .closed = closed,
                                                       .n_closed = SM_COUNT(closed),
                                                       .limits = job->limits,
                                                       .n_limits = job->n_limits,
                                                       .dies_first = job->dies_first,
                                                       .own_session = job->own_session},
                                      &p->child);
    return reason == 0        ? SM_OK
           : reason == ENOMEM ? sm_fail(SM_ERR_OOM, "%s: no memory to start it", name_of(job))
                              : sm_fail(job->argv != NULL ? SM_ERR_UNSUPPORTED : SM_ERR_IO, "%s: cannot be started: %s",
                                        name_of(job), strerror(reason));
}

static sm_status start(process *p) {
    int ends[N_STREAMS][2] = {{-1, -1}, {-1, -1}, {-1, -1}};
    const bool is_kept = p->job->output == SM_OUTPUT_KEPT;
    const bool wanted[N_STREAMS] = {is_kept, is_kept, p->job->messages != NULL};
    for (int i = 0; i < N_STREAMS; i++) {
        SM_FAIL_IF(wanted[i] && !os_open_pipe(ends[i]), SM_ERR_IO, "%s: no pipe to start it: %s", name_of(p->job),
                   strerror(errno));
        p->streams[i].fd = ends[i][0];
    }
    p->file = p->job->output == SM_OUTPUT_FILE ? os_open_nameless() : -1;
    sm_status status = p->file >= 0 || p->job->output != SM_OUTPUT_FILE
                           ? SM_OK
                           : sm_fail(SM_ERR_IO, "%s: cannot keep its output: %s", name_of(p->job), strerror(errno));
    status = status == SM_OK ? start_child(p, ends) : status;
    for (int i = 0; i < N_STREAMS; i++) {
        sm_close_at(&ends[i][1]);
    }
    return status;
}

// --- what it says --------------------------------------------------------------------------------

static sm_status make_room(stream *s, size_t size_bytes) {
    if (s->n + size_bytes < s->room) { // and a zero byte
        return SM_OK;
    }
    const size_t room = 2 * (s->n + size_bytes);
    char *grown = s->n < MOST_OUT_BYTES ? realloc(s->text, room) : NULL;
    SM_FAIL_IF(grown == NULL, SM_ERR_OOM, "no memory for what a process says: %zu bytes so far", s->n);
    s->text = grown;
    s->room = room;
    return SM_OK;
}

static sm_status read_stream(process *p, int which) {
    stream *s = &p->streams[which];
    SM_TRY(make_room(s, PART_BYTES));
    const ssize_t n = read(s->fd, s->text + s->n, PART_BYTES);
    if (n < 0 && errno == EINTR) {
        return SM_OK;
    }
    if (n <= 0) {
        sm_close_at(&s->fd);
        return SM_OK;
    }
    s->n += (size_t)n;
    if (which == MESSAGES) {
        char *line = s->text;
        char *newline;
        sm_status status = SM_OK;
        while (status == SM_OK && (newline = memchr(line, '\n', (size_t)(s->text + s->n - line))) != NULL) {
            status = p->job->receive(p->job->ctx, line, (size_t)(newline - line));
            line = newline + 1;
        }
        s->n -= (size_t)(line - s->text);
        memmove(s->text, line, s->n);
        return status;
    }
    if (p->job->most_bytes > 0 && s->n > p->job->most_bytes) {
        s->n = p->job->most_bytes;
    } else if (which == ERR && p->job->most_bytes == 0 && s->n > MOST_ERR_BYTES) {
        memmove(s->text, s->text + s->n - MOST_ERR_BYTES / 2, MOST_ERR_BYTES / 2);
        s->n = MOST_ERR_BYTES / 2;
    }
    return SM_OK;
}

static sm_status read_file(process *p) {
    stream *s = &p->streams[OUT];
    const off_t end = lseek(p->file, 0, SEEK_END);
    const size_t n = end > 0 ? (size_t)end : 0;
    SM_TRY(make_room(s, n + 1));
    SM_FAIL_IF(pread(p->file, s->text, n, 0) != (ssize_t)n, SM_ERR_IO, "cannot read a process's output: %s",
               strerror(errno));
    s->n = n;
    return SM_OK;
}

// --- watching it ---------------------------------------------------------------------------------

static int interruptions(const process *p) { return p->job->interrupted != NULL ? (int)*p->job->interrupted : 0; }

static void end_at_once(process *p) {
    p->killed_ns = sm_now_ns();
    p->result->killed = true;
    os_child_kill(&p->child, p->job->own_session);
}

static void ask_to_end(process *p, double grace_s) {
    p->asked_ns = sm_now_ns();
    if (grace_s > 0) {
        os_child_ask(&p->child);
    } else {
        end_at_once(p);
    }
}

// The time to end it, or to ask it to end; INT64_MAX: no limit.
static int64_t end_ns(const process *p) {
    const sm_process_job *job = p->job;
    if (job->end_ns != NULL) {
        return job->end_ns(job->ctx, p->asked_ns);
    }
    if (p->asked_ns > 0) {
        return p->asked_ns + (int64_t)((p->result->late ? job->late_grace_s : job->interrupted_grace_s) * 1e9);
    }
    return job->timeout_s > 0 ? p->begin_ns + (int64_t)(job->timeout_s * 1e9) : INT64_MAX;
}

static void heed_signals(process *p) {
    const int n = interruptions(p);
    if (n == p->n_signals) {
        return;
    }
    p->n_signals = n;
    p->result->interrupted = true;
    if (p->ended_ns == 0 && p->asked_ns == 0) {
        ask_to_end(p, p->job->interrupted_grace_s);
    } else if (p->ended_ns == 0 && p->killed_ns == 0 && sm_now_ns() - p->asked_ns > again_ns) {
        end_at_once(p);
    }
}

static void heed_clock(process *p) {
    if (p->ended_ns > 0 || p->killed_ns > 0 || sm_now_ns() < end_ns(p)) {
        return;
    }
    if (p->asked_ns > 0) {
        end_at_once(p);
    } else {
        p->result->late = true;
        ask_to_end(p, p->job->late_grace_s);
    }
}

// It stays a zombie until it is waited for, so nobody else gets its number or its session's.
static void note_end(process *p) {
    if (p->ended_ns == 0 && os_child_has_ended(&p->child)) {
        p->ended_ns = sm_now_ns();
        if (p->job->own_session) {
            os_child_kill(&p->child, true);
        }
    }
}

// The time until which its end, or that of its streams, is awaited.
static int64_t leave_ns(const process *p) {
    if (p->ended_ns > 0) {
        return p->ended_ns + (p->result->interrupted || p->job->own_session ? killed_orphans_ns : orphans_ns);
    }
    return p->killed_ns > 0 && p->job->may_hang ? p->killed_ns + hang_ns : INT64_MAX;
}

// Not while there is something to read, however late.
static bool is_over(const process *p, bool is_quiet) {
    bool is_heard = true;
    for (int i = 0; i < N_STREAMS; i++) {
        is_heard &= p->streams[i].fd < 0;
    }
    return (p->ended_ns > 0 && is_heard) || (is_quiet && sm_now_ns() >= leave_ns(p));
}

static sm_status watch(process *p) {
    for (bool is_quiet = false; !is_over(p, is_quiet);) {
        const bool is_ending = p->ended_ns > 0 || p->killed_ns > 0;
        const int64_t most_ns = p->child.watched < 0 || p->asked_ns > 0 ? look_ns : most_sleep_ns;
        const int64_t left_ns = (is_ending ? leave_ns(p) : end_ns(p)) - sm_now_ns();
        int files[N_STREAMS];
        bool has_news[N_STREAMS];
        for (int i = 0; i < N_STREAMS; i++) {
            files[i] = p->streams[i].fd;
        }
        is_quiet = !os_await(p->ended_ns > 0 ? NULL : &p->child, files, has_news, N_STREAMS,
                             left_ns < 0         ? 0
                             : left_ns > most_ns ? most_ns
                                                 : left_ns,
                             p->job->interrupted, p->n_signals);
        for (int i = 0; i < N_STREAMS; i++) {
            SM_TRY(has_news[i] ? read_stream(p, i) : SM_OK);
        }
        note_end(p);
        heed_signals(p);
        heed_clock(p);
    }
    return SM_OK;
}

// --- its end -------------------------------------------------------------------------------------

static sm_status wait_for(process *p) {
    sm_process_result *r = p->result;
    os_child_end end;
    const bool hangs = p->ended_ns == 0 && p->killed_ns > 0 && p->job->may_hang;
    const int reason = os_child_take(&p->child, hangs, &end);
    SM_FAIL_IF(reason != 0, SM_ERR_IO, "waiting for a process: %s", strerror(reason));
    if (p->job->in_files) {
        // Processes that it started, and that end with it, may still use its files.
        enum { LOOKS = 200, LOOK_NS = 5000000 };
        for (int i = 0; i < LOOKS && os_child_has_session(&p->child); i++) {
            nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
        }
    }
    r->exit_code = end.exit_code;
    r->signal = end.signal;
    r->wall_ns = sm_now_ns() - p->begin_ns;
    r->peak_rss_bytes = end.peak_rss_bytes;
    r->interrupted |= interruptions(p) > 0;
    return SM_OK;
}

static sm_status keep(process *p) {
    SM_TRY(p->job->output == SM_OUTPUT_FILE ? read_file(p) : SM_OK);
    for (int i = OUT; i <= ERR; i++) {
        stream *s = &p->streams[i];
        SM_TRY(make_room(s, 1));
        s->text[s->n] = '\0';
        *(i == OUT ? &p->result->out : &p->result->err) = s->text;
        s->text = NULL;
    }
    p->result->out_bytes = p->streams[OUT].n;
    return SM_OK;
}

static void free_process(process *p) {
    for (int i = 0; i < N_STREAMS; i++) {
        sm_close_at(&p->streams[i].fd);
        free(p->streams[i].text);
    }
    sm_close_at(&p->child.watched);
    sm_close_at(&p->file);
}

sm_status sm_process_run(const sm_process_job *job, sm_process_result *result) {
    SM_AT_END(free_process) process p = {.job = job, .result = result, .child = {.watched = -1}, .file = -1};
    const int64_t n_oom_kills = os_n_killed_for_memory();
    for (int i = 0; i < N_STREAMS; i++) {
        p.streams[i].fd = -1;
    }
    memset(result, 0, sizeof(*result));
    sm_status status = start(&p);
    status = status == SM_OK ? watch(&p) : status;
    if (p.child.number > 0) {
        if (status != SM_OK) {
            end_at_once(&p);
            for (int i = 0; i < N_STREAMS; i++) {
                sm_close_at(&p.streams[i].fd);
            }
            (void)watch(&p);
        }
        const sm_status waited = wait_for(&p);
        status = status != SM_OK ? status : waited;
    }
    result->no_memory = result->signal == SIGKILL && !result->killed && os_n_killed_for_memory() > n_oom_kills;
    status = status == SM_OK && job->output != SM_OUTPUT_OURS ? keep(&p) : status;
    if (status != SM_OK) {
        sm_process_free(result);
    }
    return status;
}

void sm_process_free(sm_process_result *result) {
    free(result->out);
    free(result->err);
    result->out = NULL;
    result->err = NULL;
}

const char *sm_process_last_line(sm_process_result *result) {
    char *text = result->err;
    size_t n = text != NULL ? strlen(text) : 0;
    while (n > 0 && strchr(" \t\r\n", text[n - 1]) != NULL) {
        text[--n] = '\0';
    }
    if (n == 0) {
        return "";
    }
    char *line = strrchr(text, '\n');
    return line != NULL ? line + 1 : text;
}

void sm_remove_tree(const char *path) {
    struct stat info;
    SM_AT_END(os_free_names) os_names names = {0};
    if (lstat(path, &info) == 0 && S_ISDIR(info.st_mode) && os_list_folder(path, &names)) {
        for (int i = 0; i < names.n; i++) {
            SM_FREED char *inner = sm_text_of("%s/%s", path, names.list[i]);
            sm_remove_tree(inner);
        }
    }
    (void)remove(path);
}
