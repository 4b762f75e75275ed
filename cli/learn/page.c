// page.c: a training step as a page: the walk of `walk --full`, the plan of the other mode, the kinds of ops, and the
// step's time on devices.
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/tables/show.h"
#include "cli/learn/learn.h"
#include "cli/measure/measure.h"
#include "learn/live/tokens.h"
#include "learn/page/memory_changes.h"
#include "learn/page/step_page.h"
#include "os/os.h"
#include "src/io/shell_word.h"

// The page must stay below 11 MB: values take 5.4 bytes each, and the rest of a small model less than 1 MB.
static const double MOST_VALUES = 1700e3;
enum { USUAL_LENGTH = 32, LEAST_LENGTH = 8, MOST_TRAINED = 100000, USUAL_STEPS = 300 };

// Its first 33 bytes are a sentence: a batch of one, with the flags' defaults.
static const char usual_text[] =
    "The cat sat on the mat and slept. The dog lay by the door and slept, too. Who sat on the mat? The cat; and who "
    "lay by the door? The dog, who barked at the cat until she woke and left the mat.";

typedef struct {
    cli_options options; // in the form that the walk takes
    char weights[PATH_MAX];
    cli_job job;
    json_t *data;
    const char *kernel; // a student's file; NULL: none
    sm_op_kind kernel_kind;
} page;

// --- what is walked --------------------------------------------------------------------------------

static sm_status resolve_weights(const cli_options *given, page *p) {
    p->options = *given;
    p->options.walk.full = true;
    p->options.walk.all = true;
    SM_FAIL_IF(given->train.run != NULL && given->model.weights != NULL, SM_ERR_USAGE,
               "--run: --weights has the model; leave one of them out");
    const char *folder = given->train.run != NULL ? given->train.run : given->model.weights;
    if (folder != NULL) {
        SM_TRY(cli_find_weights(folder, p->weights));
        p->options.model.weights = p->weights;
    }
    return SM_OK;
}

static double job_elems(const cli_job *job) {
    SM_OWN(sm_plan) *plan = NULL;
    return cli_job_plan(job, 0, &plan) == SM_OK ? sm_film_elems(plan, 0) : INFINITY;
}

// As many tokens as --text has, at most as many as fit on a page.
static int64_t choose_length(const page *p) {
    const cli_options *o = &p->options;
    cli_job job = p->job;
    SM_AT_END(sm_ids_free) sm_ids ids = {.ids = NULL};
    job.T = USUAL_LENGTH;
    if (o->walk.text != NULL && cli_model_ids(o, o->walk.text, job.config.vocab, &ids) == SM_OK) {
        job.T = ((int64_t)ids.n - 1) / job.B; // the last one is a target alone
    }
    job.T = job.T < job.config.context ? job.T : job.config.context;
    job.T = job.T > 1 ? job.T : 1;
    while (job.T > LEAST_LENGTH && job_elems(&job) > MOST_VALUES) { // less than that is shown in slices
        job.T -= job.T / 8;
    }
    return job.T;
}

static sm_status make_job(page *p) {
    cli_options *o = &p->options;
    for (int i = 0; i < o->device.backends.n && o->device.backends.n > 1; i++) {
        SM_FAIL_IF(strcmp(o->device.backends.texts[i], "none") == 0, SM_ERR_USAGE,
                   "--backend: none stands alone; leave it, or the others, out");
    }
    SM_TRY(cli_job_of(o, NULL, &p->job));
    if (o->work.seq_lens.n == 0) {
        p->job.T = choose_length(p);
        o->work.seq_lens = (cli_ints){.values = {p->job.T}, .n = 1};
    }
    return SM_OK;
}

static sm_status make_plan(const page *p, sm_mode mode, sm_plan **plan) {
    cli_job job = p->job;
    job.mode = mode;
    return cli_job_plan(&job, 0, plan);
}

// Of a large step, slices as large as the page has room for; refuses one that does not fit into memory.
static sm_status choose_slices(page *p, const sm_plan *plan) {
    static const int64_t sizes[] = {0, 65536, 16384, 4096, 1024, 256};
    uint64_t total_bytes;
    uint64_t available_bytes;
    double needed_bytes = 0;
    size_t i = 0;
    while (i + 1 < sizeof(sizes) / sizeof(sizes[0]) && sm_film_elems(plan, sizes[i]) > MOST_VALUES) {
        i++;
    }
    p->options.walk.slice_elems = sizes[i];
    SM_FAIL_IF(sm_film_elems(plan, sizes[i]) > MOST_VALUES, SM_ERR_USAGE,
               "page: even in slices of %lld values this step of %d ops is too large for a page; give less of "
               "--n-layer, or an optimizer with fewer ops",
               (long long)sizes[i], plan->n_ops);
    for (int k = 0; k < plan->n_arenas; k++) {
        needed_bytes += (double)plan->arenas[k].size_bytes;
    }
    os_memory_allowed("", &total_bytes, &available_bytes);
    SM_FAIL_IF(
        available_bytes > 0 && needed_bytes > (double)available_bytes, SM_ERR_USAGE,
        "page: this step needs %.1f GiB of memory, and %.1f are available; give a smaller -m, --n-layer or --vocab",
        needed_bytes / (1 << 30), (double)available_bytes / (1 << 30));
    return SM_OK;
}

// --- data ------------------------------------------------------------------------------------------

static void set(page *p, const char *key, json_t *value) { json_object_set_new(p->data, key, value); }

// The losses of a few steps, too, which those of the page must equal; of slices it may compute none.
static sm_status walk(page *p, const sm_plan *plan, json_t *losses) {
    SM_OWN(cli_page_step) *step = cli_page_step_new(p->data);
    cli_walk_writer writer = cli_page_writer(step);
    writer.losses = p->options.walk.slice_elems == 0 || cli_page_has_weights(&p->options, plan) ? losses : NULL;
    return cli_walk_with(&p->options, &writer);
}

// A tokenizer, by which the page's module reads a text.
static void set_tokenizer(page *p, const sm_tokenizer *tokenizer) {
    SM_FREED char *bytes = NULL;
    size_t size_bytes;
    FILE *out = sm_memstream(&bytes, &size_bytes);
    sm_live_write_tokenizer(tokenizer, out);
    sm_memstream_close(out);
    set(p, "tokenizer", sm_base64_json(bytes, size_bytes));
}

// The texts of the ids, unless ids are bytes.
static void set_vocabulary(page *p) {
    const int64_t vocab = p->job.config.vocab;
    SM_OWN(sm_tokenizer) *tokenizer = NULL;
    json_t *pieces = json_null();
    const sm_status found = cli_find_tokenizer(p->options.work.tokenizer, p->options.train.run,
                                               p->options.model.weights, vocab, &tokenizer);
    if (found == SM_OK && tokenizer != NULL) {
        pieces = json_array();
        for (int32_t id = 0; id < tokenizer->n_tokens; id++) {
            char text[CLI_TEXT_SIZE];
            snprintf(text, sizeof(text), "%.*s", (int)tokenizer->tokens[id].n_bytes,
                     (const char *)sm_token_bytes(tokenizer, id));
            json_array_append_new(pieces, sm_json_bytes(text));
        }
        set_tokenizer(p, tokenizer);
    }
    set(p, "has_bytes", json_boolean(found == SM_OK && tokenizer == NULL));
    set(p, "vocabulary", pieces);
}

// Words of the command line that `walk` does not take, or that are rewritten.
static bool is_own(const char *word) {
    char name[32];
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(word, "="), word);
    return sm_is_word_of(name, "--output -o --backend --run --text --seq-len --train-steps");
}

static void put_word(FILE *out, const char *word) {
    fputc(' ', out);
    sm_put_shell_word(out, word);
}

// The `walk` command that prints the same numbers; of slices, norms and the first values.
static void set_command(page *p) {
    const cli_options *o = &p->options;
    SM_FREED char *text = NULL;
    size_t size = 0;
    FILE *out = sm_memstream(&text, &size);
    fprintf(out, "stepmark walk %s -o json --seq-len %lld", o->walk.slice_elems > 0 ? "--values --all" : "--full",
            (long long)p->job.T);
    for (int i = 2; i < o->argc; i++) {
        if (!is_own(o->argv[i])) {
            put_word(out, o->argv[i]);
        } else if (strchr(o->argv[i], '=') == NULL) {
            i++; // skips its value
        }
    }
    if (o->walk.train_steps > 0) {
        fprintf(out, " --train-steps %lld", (long long)o->walk.train_steps);
    }
    if (o->train.run != NULL) {
        fputs(" --weights", out);
        put_word(out, o->model.weights);
    }
    if (o->walk.text != NULL) {
        fputs(" --text", out);
        put_word(out, o->walk.text);
    }
    sm_memstream_close(out);
    set(p, "command", sm_json_bytes(text));
}

static sm_status gather(page *p, const sm_plan *plan) {
    const sm_mode other_mode = p->job.mode == SM_MODE_NAIVE ? SM_MODE_FUSED : SM_MODE_NAIVE;
    SM_OWN(sm_plan) *other = NULL;
    SM_OWN(json_t) *losses = json_array();
    SM_OWN(json_t) *files = json_object();
    json_t *made;
    const char *tier;
    char title[256];
    const sm_model_config *c = &p->job.config;
    snprintf(title, sizeof(title), "One training step of %s %s, op by op", c->model->name,
             p->options.model.weights != NULL ? p->options.model.weights : p->options.model.models.texts[0]);
    set(p, "title", sm_json_bytes(title));
    set_command(p);
    SM_TRY(walk(p, plan, losses));
    set_vocabulary(p);
    SM_TRY(make_plan(p, other_mode, &other));
    SM_TRY(sm_plan_assign_memory(other, 0));
    set(p, "other", sm_step_page_plan(other));
    set(p, "other_mode", json_string(sm_mode_name(other_mode)));
    SM_TRY(cli_page_live(&p->options, &p->job, plan, losses, &made));
    set(p, "live", made);
    if (p->kernel != NULL) {
        SM_TRY(cli_page_kernel(p->kernel, p->kernel_kind, plan, &made));
        set(p, "kernel", made);
    }
    SM_TRY(cli_page_times(&p->options, plan, &made, &tier));
    set(p, "times", made);
    set(p, "kinds", cli_page_kinds((const sm_plan *const[]){plan, other, NULL}, tier, files));
    set(p, "files", json_incref(files));
    return SM_OK;
}

// --- the page --------------------------------------------------------------------------------------

static sm_status write_page(void *data, FILE *out) {
    sm_step_page_write(data, out);
    return SM_OK;
}

static sm_status make_page(const cli_options *options, const char *kernel, sm_op_kind kernel_kind) {
    static page p;
    SM_OWN(sm_plan) *plan = NULL;
    SM_FAIL_IF(options->out.report_file == NULL && isatty(STDOUT_FILENO), SM_ERR_USAGE,
               "page: is HTML, for a browser; give a file: --output step.html");
    SM_OWN(json_t) *data = json_object();
    p = (page){.data = data, .kernel = kernel, .kernel_kind = kernel_kind};
    SM_TRY(resolve_weights(options, &p));
    SM_TRY(make_job(&p));
    SM_TRY(make_plan(&p, p.job.mode, &plan));
    SM_TRY(sm_plan_assign_memory(plan, 0));
    SM_TRY(choose_slices(&p, plan));
    // Chooses a text if none is given and the model has words for one that is long enough.
    cli_options *o = &p.options;
    SM_AT_END(sm_ids_free) sm_ids ids = {.ids = NULL};
    if (o->walk.text == NULL && o->work.data == NULL &&
        cli_model_ids(o, usual_text, p.job.config.vocab, &ids) == SM_OK && (int64_t)ids.n > p.job.B * p.job.T) {
        o->walk.text = usual_text;
    }
    if (o->walk.train_steps < 0) {
        const bool learns = o->walk.text == usual_text && o->model.weights == NULL && plan->n_params <= MOST_TRAINED;
        o->walk.train_steps = learns && o->walk.slice_elems == 0 ? USUAL_STEPS : 0;
    }
    SM_TRY(gather(&p, plan));
    return cli_write_page(p.options.out.report_file, write_page, data, "");
}

sm_status cli_page(const cli_options *options) { return make_page(options, NULL, SM_OP_KIND_COUNT); }

sm_status cli_page_of_kernel(const char *path, const char *file, sm_op_kind kind) {
    static cli_options options;
    const bool is_flash = strncmp(sm_op_name(kind), "flash_", strlen("flash_")) == 0;
    char *argv[] = {"stepmark", "page",       "--backend", "none", "--attention", is_flash ? "flash" : "naive",
                    "--output", (char *)path, NULL};
    enum { N = sizeof(argv) / sizeof(argv[0]) - 1 };
    SM_TRY(cli_options_parse(CLI_PAGE, N - 1, argv + 1, &options));
    options.argc = N;
    options.argv = argv;
    return make_page(&options, file, kind);
}
