// op.c: `run --op`: the ops of a name and their sizes, from flags.
#include "cli/measure/measure.h"

// The letters of shapes in the order of --shape.
enum { B_, T_, N_, R_, C_, F_, V_, P_, NH_, HS_, n_, G_, N_LETTERS };

static const char *const letters[N_LETTERS] = {"B", "T", "N", "R", "C", "F", "V", "P", "NH", "HS", "n", "G"};

static int64_t given_or(int64_t given, int64_t usual) { return given > 0 ? given : usual; }

static bool has_attr(const sm_op_set *ops, sm_attr attr) {
    bool has = false;
    for (int i = 0; i < ops->n; i++) {
        has |= sm_op_has_attr(ops->kinds[i], attr);
    }
    return has;
}

// Whether --shape has a number for the letter.
static bool has_letter(const sm_op_set *ops, int letter) {
    const bool has_heads = has_attr(ops, SM_ATTR_n_head);
    switch (letter) {
    case C_: return !has_heads && sm_op_set_has(ops, "C");
    case NH_:
    case HS_: return has_heads;
    case V_: return sm_op_set_has(ops, "V") || sm_op_set_has(ops, "Vp");
    default: return sm_op_set_has(ops, letters[letter]);
    }
}

// The usual number of elements: of an activation (as wide as the MLP), of ops on all parameters, or of others.
static int64_t usual_elems(const sm_op_set *ops, const sm_model_config *config, const int64_t sizes[N_LETTERS]) {
    for (sm_activation a = 0; a < SM_ACTIVATION_COUNT; a++) {
        const sm_activation_info *info = sm_activation_get_info(a);
        if (ops->kinds[0] == info->forward || ops->kinds[0] == info->backward) {
            return sizes[N_] * sizes[F_];
        }
    }
    const sm_op_info *info = sm_op_get_info(ops->kinds[0]);
    const bool is_of_all =
        info->out[0].mode == SM_UPDATES || strcmp(info->out[0].shape, "(n)") != 0 || ops->kinds[0] == SM_OP_ZERO;
    return is_of_all ? sm_model_n_params(config) : sizes[N_] * sizes[C_];
}

// Sizes of the model and of flags that name them.
static void set_usual(const cli_options *o, const cli_job *job, int64_t sizes[N_LETTERS]) {
    const sm_model_config *config = &job->config;
    const int64_t NH = given_or(o->model.n_head, config->n_head);
    const int64_t C = given_or(o->model.d_model, config->d_model);
    const int64_t HS = o->model.d_model > 0 ? C / NH : sm_model_head_dim(config);
    const bool is_matrix = sm_op_set_has(&job->ops, "R");
    const int64_t F = given_or(o->model.d_ff, o->model.d_model > 0 ? 4 * C : config->d_ff);
    sizes[B_] = job->B;
    sizes[T_] = job->T;
    sizes[N_] = job->B * job->T;
    sizes[R_] = C;
    sizes[C_] = is_matrix ? F : C;
    sizes[F_] = F;
    sizes[V_] = given_or(o->model.vocab, config->vocab);
    sizes[P_] = config->context > job->T ? config->context : job->T;
    sizes[NH_] = NH;
    sizes[HS_] = given_or(o->work.head_dim, HS);
    sizes[G_] = 100;
    sizes[n_] = usual_elems(&job->ops, config, sizes);
}

// "4096x4096x4096": a number for each letter that the ops have.
static sm_status read_shape(const char *op, const char *shape, const sm_op_set *ops, int64_t sizes[N_LETTERS]) {
    static const double most = 1e12;
    char form[64] = "";
    const char *at = shape;
    bool is_whole = true;
    for (int i = 0; i < N_LETTERS; i++) {
        if (has_letter(ops, i)) {
            char *end;
            sizes[i] = strtoll(at, &end, 10);
            is_whole =
                is_whole && end != at && sizes[i] > 0 && (double)sizes[i] < most && (*end == 'x' || *end == '\0');
            at = *end == 'x' ? end + 1 : end;
            sm_append_part(form, sizeof form, "x", letters[i]);
        }
    }
    return is_whole && *at == '\0' ? SM_OK : sm_fail(SM_ERR_USAGE, "--shape: %s takes %s, not '%s'", op, form, shape);
}

static void put(char text[SM_CASE_TEXT_SIZE], const char *letter, double value) {
    sm_append_part(text, SM_CASE_TEXT_SIZE, " ", SM_TEXT_IN(32, "%s=%.15g", letter, value));
}

static void write_text(const cli_options *o, cli_job *job, const int64_t sizes[N_LETTERS]) {
    const sm_op_set *ops = &job->ops;
    const double theta = job->config.rope_theta;
    const double dropout_p = o->work.dropout > 0 ? o->work.dropout : ops->kinds[0] == SM_OP_DROPOUT ? 0.1 : 0;
    job->shape[0] = '\0';
    for (int i = 0; i < N_LETTERS; i++) {
        const bool is_padded = i == V_ && sm_op_set_has(ops, "Vp");
        if (has_letter(ops, i)) {
            put(job->shape, is_padded ? "vocab" : letters[i], (double)sizes[i]);
        }
        if (is_padded) {
            put(job->shape, "Vp", (double)((sizes[i] + 63) / 64 * 64));
        }
    }
    if (has_attr(ops, SM_ATTR_n_head)) {
        const int64_t NKV = given_or(o->model.n_kv_head, sizes[NH_]);
        put(job->shape, "C", (double)(sizes[NH_] * sizes[HS_]));
        NKV != sizes[NH_] ? put(job->shape, "NKV", (double)NKV) : (void)0;
    }
    has_attr(ops, SM_ATTR_rope_theta) ? put(job->shape, "theta", theta > 0 ? theta : 10000) : (void)0;
    has_attr(ops, SM_ATTR_dropout_p) && dropout_p > 0 ? put(job->shape, "p", dropout_p) : (void)0;
    has_attr(ops, SM_ATTR_fp8) && job->precision == CLI_FP8 ? put(job->shape, "fp8", 1) : (void)0;
    has_attr(ops, SM_ATTR_decay) ? put(job->shape, "decay", 1) : (void)0;
}

sm_status cli_op_job(const cli_options *o, cli_job *job) {
    const char *size_name = o->model.models.n > 0 ? o->model.models.texts[0] : "small";
    const sm_model_size *size = sm_model_size_find(sm_model_at(o->model.arch > 0 ? o->model.arch - 1 : 0), size_name);
    const bool is_attention = strcmp(o->work.op, "attention") == 0 || strcmp(o->work.op, "flash_attention") == 0;
    int64_t sizes[N_LETTERS];
    if (size == NULL) {
        return cli_model_config(o, size_name, &job->config);
    }
    job->config = size->config;
    if (sm_collective_op_find(o->work.op) != SM_ALONE_COUNT) {
        SM_ROW_TEXT(job->op, o->work.op);
        job->exchanged_bytes = o->work.size_bytes;
        job->is_apart = o->work.place != 0;
        snprintf(job->shape, sizeof job->shape, "bytes=%lld N=%d%s%s", (long long)o->work.size_bytes,
                 job->plan.processes.n, job->plan.processes.is_bf16 ? " bf16" : "", job->is_apart ? " out" : "");
        job->pass = SM_PASS_FORWARD;
        job->B = job->T = 1; // for --fit: there is nothing to choose
        job->protocol.n_attribution = 0;
        return SM_OK;
    }
    SM_FAIL_IF(o->model.weights != NULL || o->work.accum > 1 || o->work.recompute > 0 || o->work.documents != NULL,
               SM_ERR_USAGE, "--op: an op by itself has no --weights, --accum, --recompute or --documents");
    const sm_attention attention = (sm_attention)o->work.attention;
    SM_ROW_TEXT(job->op, is_attention && attention == SM_ATTENTION_FLASH   ? "flash_attention"
                         : is_attention && attention == SM_ATTENTION_NAIVE ? "attention"
                                                                           : o->work.op);
    if (sm_op_set_find(job->op, &job->ops) != SM_OK) {
        const char *names[SM_OP_KIND_COUNT];
        for (sm_op_kind kind = 0; kind < SM_OP_KIND_COUNT; kind++) {
            names[kind] = sm_op_name(kind);
        }
        return cli_no_such_name("--op", "op", job->op, names, SM_OP_KIND_COUNT);
    }
    job->B = given_or(job->B, CLI_DEFAULT_BATCH);
    job->T = given_or(job->T, job->config.context);
    const sm_op_set *ops = &job->ops;
    const bool has_both = ops->has_forward && ops->has_backward;
    if (job->pass == SM_PASS_STEP) { // not given
        job->pass = has_both ? SM_PASS_SEPARATE : ops->has_forward ? SM_PASS_FORWARD : SM_PASS_BACKWARD;
    }
    SM_FAIL_IF(!(job->pass == SM_PASS_FORWARD    ? ops->has_forward
                 : job->pass == SM_PASS_BACKWARD ? ops->has_backward
                                                 : has_both),
               SM_ERR_USAGE, "--pass-type: %s by itself has no %s", job->op, sm_pass_name(job->pass));
    set_usual(o, job, sizes);
    SM_TRY(o->learn.shape != NULL ? read_shape(job->op, o->learn.shape, &job->ops, sizes) : SM_OK);
    job->B = has_letter(ops, B_) ? sizes[B_] : job->B;
    job->T = has_letter(ops, T_) ? sizes[T_] : job->T;
    write_text(o, job, sizes);
    return SM_OK;
}

sm_status cli_op_plan(const cli_job *job, sm_plan **plan) {
    if (job->exchanged_bytes > 0) {
        return sm_collective_plan(sm_collective_op_find(job->op), job->exchanged_bytes, job->is_apart,
                                  job->plan.processes, plan);
    }
    const bool backward = (sm_pass_phases(job->pass) & SM_RUN_BACKWARD) != 0;
    SM_TRY(sm_op_set_plan(&job->ops, job->shape, backward, cli_plan_precision(job->precision), plan));
    (*plan)->tuned = job->mode == SM_MODE_TUNED;
    return SM_OK;
}
