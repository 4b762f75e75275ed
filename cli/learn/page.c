// page.c: a training step as a page: `walk --full`, the plan of the other mode, the kinds of ops, and the step's times.
#include <unistd.h>

#include "embedded.h"
#include "bench/rows/machine.h"
#include "cli/learn/learn.h"
#include "learn/own_kernels/kernel_library.h"
#include "learn/page/step_page.h"
#include "src/io/input_file.h"
#include "src/io/shell_word.h"
#include "src/plan/own_members.h"

// The page must stay below 11 MB: values take 5.4 bytes each, and the rest of a small model less than 1 MB.
static const double MOST_VALUES = 1700e3;
static const double MOST_EXACT = 9007199254740992; // whole numbers as JavaScript has them
enum { USUAL_LENGTH = 32, LEAST_LENGTH = 8, MOST_TRAINED = 100000, USUAL_STEPS = 300, MOST_WEIGHTS = 1000000 };

// Enough to compare ops; `stepmark profile` measures longer.
enum { N_WARMUP = 2, N_REPETITIONS = 5 };
static const double peak_seconds = 0.1;

// Its first 33 bytes are a sentence: a batch of one, with the flags' defaults.
static const char usual_text[] =
    "The cat sat on the mat and slept. The dog lay by the door and slept, too. Who sat on the mat? The cat; and who "
    "lay by the door? The dog, who barked at the cat until she woke and left the mat.";

typedef struct cli_step_page {
    cli_options options; // in the form that the walk takes
    char weights[PATH_MAX];
    cli_job job;
    json_t *data;
    json_t *ops; // part of data
    sm_film *film;
    const char *kernel; // a student's file; NULL: none
    sm_op_kind kernel_kind;
} step_page;

// --- what is walked --------------------------------------------------------------------------------

// As many tokens as --text has, at most as many as fit on a page.
static int64_t choose_length(const step_page *p) {
    const cli_options *o = &p->options;
    cli_job job = p->job;
    SM_AT_END(sm_ids_free) sm_ids ids = {.ids = NULL};
    job.T = USUAL_LENGTH;
    if (o->walk.text != NULL && cli_model_ids(o, o->walk.text, job.config.vocab, &ids) == SM_OK) {
        job.T = ((int64_t)ids.n - 1) / job.B; // the last one is a target alone
    }
    job.T = job.T < job.config.context ? job.T : job.config.context;
    job.T = job.T > 1 ? job.T : 1;
    for (; job.T > LEAST_LENGTH; job.T -= job.T / 8) { // less than that is shown in slices
        SM_OWN(sm_plan) *plan = NULL;
        if (cli_job_plan(&job, 0, &plan) == SM_OK && sm_film_elems(plan, 0) <= MOST_VALUES) {
            break;
        }
    }
    return job.T;
}

static sm_status make_job(const cli_options *given, step_page *p) {
    cli_options *o = &p->options;
    const char *folder = given->train.run != NULL ? given->train.run : given->model.weights;
    *o = *given;
    o->walk.full = true;
    o->walk.all = true;
    SM_FAIL_IF(given->train.run != NULL && given->model.weights != NULL, SM_ERR_USAGE,
               "--run: --weights has the model; leave one of them out");
    if (folder != NULL) {
        SM_TRY(cli_find_weights(folder, p->weights));
        o->model.weights = p->weights;
    }
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

static sm_status make_plan(const step_page *p, sm_mode mode, sm_plan **plan) {
    cli_job job = p->job;
    job.mode = mode;
    return cli_job_plan(&job, 0, plan);
}

// Of a large step, slices as large as the page has room for; refuses one that does not fit into memory.
static sm_status choose_slices(step_page *p, const sm_plan *plan) {
    static const int64_t sizes[] = {0, 65536, 16384, 4096, 1024, 256};
    uint64_t total_bytes, available_bytes;
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

static void set(step_page *p, const char *key, json_t *value) { json_object_set_new(p->data, key, value); }

// --- the walk, as data -----------------------------------------------------------------------------

// A walk gives the page's data "walk" (`walk -o json` without values), "film" (sm_film), "plan" (sm_step_page_plan).

static sm_status see(sm_film *film, int moment, int tensor, const cli_walk_data *data) {
    return data->full != NULL ? sm_film_see(film, moment, tensor, data->full) : SM_OK;
}

static sm_status begin(cli_walk_writer *writer, const cli_walk_state *w) {
    step_page *page = writer->page;
    const int64_t slice_elems = w->options->walk.slice_elems;
    page->film = sm_film_new(w->plan, slice_elems);
    json_t *walk = cli_walk_head_json(w, false);
    set(page, "walk", walk);
    for (int i = 0; i < w->plan->n_tensors; i++) {
        int64_t dims[SM_MAX_DIMS];
        SM_TRY(see(page->film, 0, i, &w->initial[i]));
        if (sm_page_slice(w->plan, i, slice_elems, dims)) { // a tensor that is shown apart says which part
            json_object_set_new(json_array_get(json_object_get(walk, "tensors"), (size_t)i), "slice",
                                sm_json_integers(dims, w->plan->tensors[i].n_dims));
        }
    }
    page->ops = json_array();
    json_object_set_new(walk, "ops", page->ops);
    set(page, "plan", sm_step_page_plan(w->plan));
    return SM_OK;
}

// Values go into the film; only their summaries stay.
static sm_status take_op(cli_walk_writer *writer, const cli_walk_op *event) {
    step_page *page = writer->page;
    for (int k = 0; k < event->n_operands; k++) {
        const cli_walk_operand *o = &event->operands[k];
        SM_TRY(see(page->film, 2 * event->index, o->tensor, k < event->n_inputs ? &o->data : &o->before));
    }
    for (int k = event->n_inputs; k < event->n_operands; k++) {
        SM_TRY(see(page->film, 2 * event->index + 1, event->operands[k].tensor, &event->operands[k].data));
    }
    json_array_append_new(page->ops, cli_walk_op_json(event, false));
    return SM_OK;
}

static sm_status end(cli_walk_writer *writer, SM_UNUSED const sm_plan *plan) {
    set(writer->page, "film", sm_film_json(writer->page->film));
    return SM_OK;
}

// --- the step, to be computed again ----------------------------------------------------------------

// Whether a page computes a step that it shows in slices: its weights, which it then holds apart, are not too many.
static bool has_weights(const step_page *p, const sm_plan *plan) {
    return p->options.walk.slice_elems > 0 && cli_walk_step(&p->options) == 1 && plan->dtype == SM_F32 &&
           plan->n_params <= MOST_WEIGHTS;
}

// The parameters by their names in the plan, one after another.
static sm_status read_weights(const step_page *p, const double *numbers, json_t **json) {
    sm_plan *plan = NULL; // the live step owns it, even after a failure
    SM_OWN(sm_live) *live = NULL;
    SM_FREED float *all = NULL;
    int64_t n = 0;
    SM_TRY(sm_live_plan(numbers, &plan));
    SM_TRY(sm_live_open(plan, &live));
    SM_TRY(cli_load_weights(live->session, &p->job.config, (uint64_t)p->options.work.seed, p->options.model.weights));
    for (int i = 0; i < live->session->plan->n_tensors; i++) {
        const sm_tensor *t = &live->session->plan->tensors[i];
        if (t->role == SM_ROLE_PARAMETER && t->view_of != SM_NO_TENSOR) {
            all = sm_realloc(all, (size_t)(n + sm_tensor_elems(t)) * sizeof(*all));
            SM_TRY(sm_session_read(live->session, i, sm_tensor_elems(t), all + n));
            n += sm_tensor_elems(t);
        }
    }
    *json = sm_base64_json((const char *)all, (size_t)n * sizeof(*all));
    return SM_OK;
}

// The page computes its step again with {"module" (base64), "numbers" (live.h), "dtype_at" and "optimizer_at" (of
// these, what a training in the page may change), "bf16" (a data type), "optimizers" (their names), "losses", "weights"
// (base64 of floats: all of the parameters of a step that is shown in slices)}; {"lacks"}: why it cannot.
static sm_status make_live(const step_page *p, const sm_plan *plan, json_t *losses, json_t **json) {
    const sm_plan_options plan_options = cli_plan_options(&p->job, 0);
    double numbers[SM_LIVE_COUNT];
    const sm_embedded *module = sm_embedded_find_below("", "live.wasm");
    json_t *weights = json_null();
    const char *why = p->options.walk.slice_elems > 0 && !has_weights(p, plan)
                          ? "it is too large: this page has slices of its tensors"
                      : plan_options.processes.n > 1   ? "it is that of several processes"
                      : !plan_options.one_micro_batch  ? "it has several micro-batches"
                      : plan_options.seed > MOST_EXACT ? "its seed is larger than a page's numbers"
                      : plan_options.dropout_p > 0     ? "it has dropout, whose masks differ from step to step"
                      : module == NULL || module->size_bytes == 0
                          ? "this program was built without clang for wasm32 (make wasm)"
                          : NULL;
    if (why != NULL) {
        *json = json_pack("{s:s}", "lacks", why);
        return SM_OK;
    }
    sm_live_numbers(&p->job.config, &plan_options, p->job.mode, p->job.without, numbers);
    SM_TRY(has_weights(p, plan) ? read_weights(p, numbers, &weights) : SM_OK);
    json_t *optimizers = json_array();
    for (int i = 0; i < sm_optimizer_count(); i++) {
        json_array_append_new(optimizers, json_string(sm_optimizer_at(i)->name));
    }
    *json = json_pack("{s:o, s:i, s:i, s:i, s:o, s:O, s:o, s:o}", "numbers", sm_json_reals(numbers, SM_LIVE_COUNT),
                      "dtype_at", SM_LIVE_dtype, "bf16", SM_BF16, "optimizer_at", SM_LIVE_optimizer, "optimizers",
                      optimizers, "losses", losses, "weights", weights, "module",
                      sm_base64_json(module->text, module->size_bytes));
    return SM_OK;
}

// --- its time on devices, as `profile` measures it, but briefly ------------------------------------

static sm_status time_device(cli_bench *bench, const cli_job *job, json_t *times) {
    SM_ROW(row);
    const sm_status status = cli_measure(bench, job, &row);
    if (status == SM_ERR_INTERRUPTED || status == SM_ERR_OOM) {
        return status;
    }
    SM_OWN(json_t) *record = sm_row_to_json(&row);
    json_t *entry = sm_json_copy(json_object(), record,
                                 "device isa threads=n_threads status reason peak_flops peak_bandwidth peak_source "
                                 "loss_check gradient_check median_ns wall_ns=attribution_ns");
    sm_json_copy(entry, record, row.gpu_info[0] != '\0' ? "name=gpu_info" : "name=cpu_info");
    json_array_append_new(times, entry);
    if (status != SM_OK) {
        return SM_OK; // the entry has the failure
    }
    SM_OWN(sm_plan) *plan = NULL;
    SM_AT_END(sm_profile_free) sm_profile profile = {.lines = NULL};
    sm_profile_input input;
    SM_TRY(cli_row_profile_input(job, &row, &plan, &input));
    SM_TRY(sm_profile_make(&input, SM_PROFILE_BY_OP, &profile));
    json_t *ops = json_array();
    for (int i = 0; i < profile.n_lines; i++) {
        const sm_profile_line *line = &profile.lines[i];
        json_array_append_new(ops, json_pack("{s:I, s:o, s:s}", "self_ns", (json_int_t)line->self_ns, "roofline_ns",
                                             sm_json_real(line->roofline_ns), "bound", sm_bound_name(line->bound)));
    }
    sm_json_put(entry, {"ops", ops}, {"unaccounted_ns", json_integer(profile.unaccounted_ns)},
                {"verdict", json_string(profile.verdict)});
    return SM_OK;
}

// The step on each device of --backend: [{"device", "name", ..., "status", "ops": [{"self_ns", "roofline_ns",
// "bound"}]}]; a device that could not be timed has a status and a reason. *tier is that of the first OpenCL device, or
// of a processor. Ceilings are for operands as large as all tensors of `plan`.
static sm_status time_devices(const cli_options *options, const sm_plan *plan, json_t **times, const char **tier) {
    static char found[sizeof(((sm_device_info *)NULL)->tier)];
    static cli_bench bench;
    static cli_device_list devices;
    SM_OWN(json_t) *made = json_array();
    bench = (cli_bench){.options = options, .peak_seconds = peak_seconds, .peak_bytes = sm_plan_memory(plan, NULL)};
    *tier = "registers"; // the family of OpenCL kernels of a processor
    devices.n = 0;
    SM_TRY(strcmp(options->device.backends.texts[0], "none") != 0
               ? cli_select_devices(&options->device.backends, &devices)
               : SM_OK);
    SM_OWN(json_t) *machine = bench.machine = sm_machine_facts(options->argc, options->argv);
    for (int i = 0; i < devices.n; i++) {
        cli_job job;
        sm_device_info info;
        SM_TRY(cli_job_of(options, NULL, &job));
        job.device = devices.devices[i];
        job.protocol.n_warmup = N_WARMUP;
        job.protocol.n_repetitions = N_REPETITIONS;
        job.protocol.n_accum = 1;
        job.plan.one_micro_batch = true;
        if (strcmp(job.device.backend->name, "opencl") == 0 &&
            job.device.backend->describe(job.device.index, &info) == SM_OK && info.tier[0] != '\0') {
            snprintf(found, sizeof(found), "%s", info.tier);
            *tier = found;
        }
        SM_TRY(time_device(&bench, &job, made));
    }
    *times = sm_give(&made);
    return SM_OK;
}

// --- kinds of ops ------------------------------------------------------------------------------

enum { NAME_SIZE = 96 };

// Files of a folder compute a kind if its name, without `only`, which begins a rule's kinds, is between these texts.
typedef struct {
    const char *backend, *folder, *only, *before;
    const char *after; // NULL: `before` alone
} source_rule;

static const source_rule rules[] = {{"reference", "backends/reference/", "", "void REF(", ")("},
                                    {"cpu", "backends/cpu/kernels/", "", "\nCPU_KERNEL(", ") {"},
                                    {"cpu", "backends/cpu/kernels/", "", "\nvoid ISA(cpu_", ")("},
                                    {"cpu", "backends/cpu/kernels/", "matmul_", "\nCPU_MATMUL(", ") {"},
                                    {"cpu", "backends/cpu/kernels/", "matmul_", "\nvoid ISA(cpu_multiply)(", NULL},
                                    {"opencl", "cl/", "", " void ", "("},
                                    {"opencl", "cl/", "", " void ", "_"},
#define X(CODE, name, f, slope)                                                 \
    {"reference", "backends/reference/", #name "_", "void REF(name##_", ")("},  \
        {"cpu", "backends/cpu/kernels/", #name "_", "CPU_KERNEL(name##_", ")"}, \
        {"opencl", "cl/", #name "_", " void name##_", "("},
                                    SM_ACTIVATION_PAIRS(X)
#undef X
};

// Kinds computed by functions with another name: fused kinds, or the same function with other operands.
static const char *named_as(const char *backend, const char *kind) {
    const bool is_opencl = strcmp(backend, "opencl") == 0;
    if (is_opencl && strncmp(kind, "matmul_", strlen("matmul_")) == 0) {
        return "matmul";
    }
    if (is_opencl && (strncmp(kind, "layernorm_", strlen("layernorm_")) == 0 ||
                      strncmp(kind, "rmsnorm_", strlen("rmsnorm_")) == 0)) {
        return strstr(kind, "norm_"); // cl/norm.cl
    }
    return is_opencl && strncmp(kind, "flash_", strlen("flash_")) == 0 ? kind + strlen("flash_") : kind;
}

static bool is_of_family(const char *path, const char *tier) {
    return sm_ends_with(path, SM_TEXT_IN(NAME_SIZE, "_%s.cl", tier));
}

// Whether a file is of one family of kernels: its name ends with the family's, or with "units" (of other vendors).
static bool is_of_tier(const char *path, const char *tier) {
    static const char *const tiers[] = {"registers", "local", "tensor", "wgmma"};
    bool is_level = true;
    for (size_t i = 0; i < sizeof(tiers) / sizeof(tiers[0]); i++) {
        if (is_of_family(path, tiers[i])) {
            return strcmp(tiers[i], tier) == 0;
        }
        is_level = is_level && strcmp(tiers[i], tier) != 0;
    }
    return is_level || !is_of_family(path, "units");
}

static bool has_kind(const sm_embedded *file, const source_rule *rule, const char *kind) {
    char text[NAME_SIZE];
    const size_t n_only = strlen(rule->only);
    if (strncmp(file->path, rule->folder, strlen(rule->folder)) != 0 || strncmp(kind, rule->only, n_only) != 0) {
        return false;
    }
    snprintf(text, sizeof(text), "%s%s%s", rule->before,
             rule->after != NULL ? named_as(rule->backend, kind) + n_only : "", rule->after != NULL ? rule->after : "");
    return memmem(file->text, file->size_bytes, text, strlen(text)) != NULL;
}

// The files that compute a kind, and the text of each in `files`.
static json_t *sources_of(const char *kind, const char *tier, json_t *files) {
    json_t *sources = json_array();
    for (int i = 0; i < sm_embedded_count(); i++) {
        const sm_embedded *file = sm_embedded_at(i);
        size_t r = 0;
        while (r < sizeof(rules) / sizeof(rules[0]) && !has_kind(file, &rules[r], kind)) {
            r++;
        }
        if (r < sizeof(rules) / sizeof(rules[0]) && is_of_tier(file->path, tier)) {
            json_array_append_new(sources, json_pack("{s:s, s:s}", "backend", rules[r].backend, "file", file->path));
            json_object_set_new(files, file->path, json_stringn(file->text, file->size_bytes));
        }
    }
    return sources;
}

// The section of docs/equations.md with the heading "## KIND"; empty if there is none.
static json_t *equations_of(const char *kind) {
    const sm_embedded *file = sm_embedded_find("docs/equations.md");
    char heading[NAME_SIZE];
    const size_t n_heading = (size_t)snprintf(heading, sizeof(heading), "\n## %s\n", kind);
    const char *text = file != NULL ? file->text : "";
    const char *end = text + (file != NULL ? file->size_bytes : 0);
    const char *begin = memmem(text, (size_t)(end - text), heading, n_heading);
    if (begin == NULL) {
        return json_string("");
    }
    begin += n_heading;
    const char *next = memmem(begin, (size_t)(end - begin), "\n## ", strlen("\n## "));
    return json_stringn(begin, (size_t)((next != NULL ? next : end) - begin));
}

// For each kind of op in the plans (ending with NULL): {"text", "sources": [{"backend", "file"}]}: its section of
// docs/equations.md, and the files that compute it, whose texts it adds to `files`. `tier`: the OpenCL family.
static json_t *make_kinds(const sm_plan *const *plans, const char *tier, json_t *files) {
    json_t *kinds = json_object();
    for (int i = 0; i < sm_embedded_count(); i++) {
        const sm_embedded *file = sm_embedded_at(i);
        if (strncmp(file->path, "docs/course/", strlen("docs/course/")) == 0) {
            json_object_set_new(files, file->path, json_stringn(file->text, file->size_bytes));
        }
    }
    for (int p = 0; plans[p] != NULL; p++) {
        for (int i = 0; i < plans[p]->n_ops; i++) {
            const char *name = sm_op_name(plans[p]->ops[i].kind);
            const sm_exercise *exercise = sm_exercise_find(name); // in a lesson of the course
            if (json_object_get(kinds, name) == NULL) {
                json_object_set_new(kinds, name,
                                    json_pack("{s:o, s:o, s:o}", "text", equations_of(name), "sources",
                                              sources_of(name, tier, files), "lesson",
                                              exercise != NULL ? json_string(exercise->lesson) : json_null()));
            }
        }
    }
    return kinds;
}

// --- a student's kernel: compiled for browsers, with the arguments of each op that it computes --------

enum { MOST_MODULE_BYTES = 1 << 22, MOST_SAID_BYTES = 1 << 14, MOST_SECONDS = 60 };

// The functions that the page calls: memory, dropout's factor (a page has none), the kernel and its signature.
static sm_status write_frame(const char *path, const char *name) {
    FILE *out = fopen(path, "w");
    SM_FAIL_IF(out == NULL, SM_ERR_IO, "%s: cannot be written", path);
    fputs("#include <stdint.h>\n#include <stdlib.h>\n#define EXPORT(name) __attribute__((export_name(#name)))\n"
          "static float keep(const void *rng, int64_t i) { (void)rng; (void)i; return 1; }\n"
          "EXPORT(own_room) void *own_room(int n) { return calloc(1, n); }\n"
          "EXPORT(own_free) void own_free(void *room) { free(room); }\n"
          "EXPORT(own_keep) void *own_keep(void) { return (void *)keep; }\n",
          out);
    fprintf(out, "void %s(const void *args);\nextern const char %s_signature[];\n", name, name);
    fprintf(out, "EXPORT(own_signature) const char *own_signature(void) { return %s_signature; }\n", name);
    fprintf(out, "EXPORT(own_run) void own_run(const void *args) { %s(args); }\n", name);
    return fclose(out) == 0 ? SM_OK : sm_fail(SM_ERR_IO, "%s: cannot be written", path);
}

// Of a member: its name, "integer" or "real" with the value, "in" or "out" with the tensor (-1: none), "keep", "rng".
static json_t *arguments_json(const sm_plan *plan, const sm_op *op) {
    static const char *const types[] = {[OWN_INPUT] = "in",  [OWN_OUTPUT] = "out", [OWN_REAL] = "real",
                                        [OWN_KEEP] = "keep", [OWN_RNG] = "rng",    [OWN_THREAD] = NULL};
    const own_members m = own_members_of(op->kind);
    json_t *list = json_array();
    sm_own_args args;
    sm_own_args_fill(plan, op, (void *[SM_MAX_IN]){NULL}, (void *[SM_MAX_OUT]){NULL}, &args);
    for (int i = 0; i < m.n; i++) {
        const own_member *from = &m.list[i];
        const char *type = types[from->type] != NULL ? types[from->type] : "integer";
        json_t *value = from->type == OWN_INPUT                           ? json_integer(op->in[from->index])
                        : from->type == OWN_OUTPUT                        ? json_integer(op->out[from->index])
                        : from->type == OWN_REAL                          ? json_real(args.members[i].real)
                        : from->type == OWN_KEEP || from->type == OWN_RNG ? json_null()
                                                                          : json_integer(args.members[i].integer);
        json_array_append_new(list, json_pack("[s, s, o]", from->name, type, value));
    }
    return list;
}

static void remove_folder(char **folder) { (void)sm_remove_tree(*folder); }

// A student's kernel for a page: {"kind", "file", "signature", "module" (base64), "ops": {"7": its arguments there}}.
// SM_ERR_UNSUPPORTED: clang is missing, or cannot compile it for wasm32.
static sm_status make_kernel(const char *file, sm_op_kind kind, const sm_plan *plan, json_t **json) {
    char folder[PATH_MAX], frame[PATH_MAX + 16], module[PATH_MAX + 16], signature[SM_OWN_SIGNATURE_SIZE];
    SM_FREED char *bytes = NULL;
    size_t size_bytes;
    SM_OWN(json_t) *ops = json_object();
    for (int i = 0; i < plan->n_ops; i++) {
        if (plan->ops[i].kind == kind) {
            json_object_set_new(ops, SM_TEXT_IN(16, "%d", i), arguments_json(plan, &plan->ops[i]));
        }
    }
    SM_TRY(sm_kernel_folder_make("page", folder));
    SM_AT_END(remove_folder) char *made = folder;
    snprintf(frame, sizeof(frame), "%s/frame.c", folder);
    snprintf(module, sizeof(module), "%s/kernel.wasm", folder);
    SM_TRY(write_frame(frame, sm_op_name(kind)));
    char *const argv[] = {
        "clang", "--target=wasm32-wasi", "-mexec-model=reactor", "-std=gnu11", "-O2", "-w", "-Wl,--allow-undefined",
        "-o",    (char *)module,         (char *)frame,          (char *)file, NULL};
    SM_AT_END(sm_process_free) sm_process_result process = {.out = NULL};
    const sm_process_job job = {.argv = argv,
                                .has_no_input = true,
                                .output = SM_OUTPUT_KEPT,
                                .most_bytes = MOST_SAID_BYTES,
                                .own_session = true,
                                .timeout_s = MOST_SECONDS};
    const sm_status started = sm_process_run(&job, &process);
    SM_FAIL_IF(started == SM_ERR_UNSUPPORTED, started,
               "--page: clang makes a page's kernel, and is not installed (make wasm)");
    SM_TRY(started);
    SM_FAIL_IF(process.exit_code != 0, SM_ERR_UNSUPPORTED, "--page: clang cannot compile %s for wasm32 (make wasm): %s",
               file, sm_process_last_line(&process));
    SM_TRY(sm_input_whole(module, MOST_MODULE_BYTES, &bytes, &size_bytes));
    sm_own_kernel_signature(kind, signature);
    *json = json_pack("{s:s, s:o, s:s, s:O, s:o}", "kind", sm_op_name(kind), "file", sm_json_bytes(file), "signature",
                      signature, "ops", ops, "module", sm_base64_json(bytes, size_bytes));
    return SM_OK;
}

// --- all data and the page -------------------------------------------------------------------------

// The texts of the ids, unless ids are bytes.
static void set_vocabulary(step_page *p) {
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
        // By which the page's module reads a text.
        SM_FREED char *bytes = NULL;
        size_t size_bytes;
        FILE *out = sm_memstream(&bytes, &size_bytes);
        sm_live_write_tokenizer(tokenizer, out);
        sm_memstream_close(out);
        set(p, "tokenizer", sm_base64_json(bytes, size_bytes));
    }
    set(p, "has_bytes", json_boolean(found == SM_OK && tokenizer == NULL));
    set(p, "vocabulary", pieces);
}

static void put_words(FILE *out, const char *flag, const char *word) {
    if (word != NULL) {
        fputs(flag, out);
        sm_put_shell_word(out, word);
    }
}

// The `walk` command that prints the same numbers; of slices, norms and the first values.
static void set_command(step_page *p) {
    const cli_options *o = &p->options;
    SM_FREED char *text = NULL;
    size_t size = 0;
    FILE *out = sm_memstream(&text, &size);
    fprintf(out, "stepmark walk %s -o json --seq-len %lld", o->walk.slice_elems > 0 ? "--values --all" : "--full",
            (long long)p->job.T);
    for (int i = 2; i < o->argc; i++) {
        char name[32];
        snprintf(name, sizeof(name), "%.*s", (int)strcspn(o->argv[i], "="), o->argv[i]);
        // Words that `walk` does not take, or that are rewritten, are left out.
        if (!sm_is_word_of(name, "--output -o --backend --run --text --seq-len --train-steps")) {
            put_words(out, " ", o->argv[i]);
        } else if (strchr(o->argv[i], '=') == NULL) {
            i++; // skips its value
        }
    }
    if (o->walk.train_steps > 0) {
        fprintf(out, " --train-steps %lld", (long long)o->walk.train_steps);
    }
    put_words(out, " --weights ", o->train.run != NULL ? o->model.weights : NULL);
    put_words(out, " --text ", o->walk.text);
    sm_memstream_close(out);
    set(p, "command", sm_json_bytes(text));
}

static sm_status gather(step_page *p, const sm_plan *plan) {
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
    // The losses of a few steps, too, which those of the page must equal; of slices it may compute none.
    cli_walk_writer writer = {.begin = begin, .op = take_op, .end = end, .ends_only_whole = true, .page = p};
    writer.losses = p->options.walk.slice_elems == 0 || has_weights(p, plan) ? losses : NULL;
    SM_TRY(cli_walk_with(&p->options, &writer));
    set_vocabulary(p);
    SM_TRY(make_plan(p, other_mode, &other));
    SM_TRY(sm_plan_assign_memory(other, 0));
    set(p, "other", sm_step_page_plan(other));
    set(p, "other_mode", json_string(sm_mode_name(other_mode)));
    SM_TRY(make_live(p, plan, losses, &made));
    set(p, "live", made);
    if (p->kernel != NULL) {
        SM_TRY(make_kernel(p->kernel, p->kernel_kind, plan, &made));
        set(p, "kernel", made);
    }
    SM_TRY(time_devices(&p->options, plan, &made, &tier));
    set(p, "times", made);
    set(p, "kinds", make_kinds((const sm_plan *const[]){plan, other, NULL}, tier, files));
    set(p, "files", json_incref(files));
    return SM_OK;
}

static sm_status make_page(const cli_options *options, const char *kernel, sm_op_kind kernel_kind) {
    static step_page p;
    SM_OWN(sm_plan) *plan = NULL;
    SM_FAIL_IF(options->out.report_file == NULL && isatty(STDOUT_FILENO), SM_ERR_USAGE,
               "page: is HTML, for a browser; give a file: --output step.html");
    SM_OWN(json_t) *data = json_object();
    p = (step_page){.data = data, .kernel = kernel, .kernel_kind = kernel_kind};
    SM_TRY(make_job(options, &p));
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
    const sm_status gathered = gather(&p, plan);
    sm_film_free(p.film);
    SM_TRY(gathered);
    return cli_write_page(p.options.out.report_file, sm_step_page_write, data, "");
}

sm_status cli_page(const cli_options *options) { return make_page(options, NULL, SM_OP_KIND_COUNT); }

sm_status cli_page_of_kernel(const char *path, const char *file, sm_op_kind kind) {
    static cli_options options;
    const bool is_flash = strncmp(sm_op_name(kind), "flash_", strlen("flash_")) == 0;
    char *argv[] = {"stepmark", "page",       "--backend", "none", "--attention", is_flash ? "flash" : "naive",
                    "--output", (char *)path, NULL};
    enum { N = sizeof(argv) / sizeof(argv[0]) - 1 };
    SM_TRY(cli_options_parse(CLI_PAGE, false, N - 1, argv + 1, &options));
    options.argc = N;
    options.argv = argv;
    return make_page(&options, file, kind);
}
