// cli_walk.c: the step op by op, for a reader. The plan is the text; this file chooses the ops,
// sets headings and adds up.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli_commands.h"
#include "cli_measure.h"
#include "cli_model.h"
#include "cli_precision.h"
#include "cli_settings.h"
#include "cli_walk_print.h"
#include "show.h"

typedef struct {
    const cli_options *options;
    sm_model_config config;
    sm_mode mode;
    const sm_plan *plan;      // owned, or by `values`
    int32_t *batch;           // B*T tokens, then as many targets
    cli_walk_values *values;  // NULL without --values
    sm_record_writer *writer; // NULL for text
} walk;

// A reader gets one block, like which the others are; a program gets every op, unless --layer chooses.
static bool is_shown(const walk *w, int op) {
    const cli_options *o = w->options;
    int64_t wanted = o->layer < 0 ? 0 : o->layer;
    int layer = w->plan->ops[op].layer;
    bool every = o->all || (!sm_format_is_read((sm_format)o->output) && o->layer < 0);
    return every || layer < 0 || layer == wanted;
}

static int count_shown(const walk *w) {
    int n = 0;
    for (int i = 0; i < w->plan->n_ops; i++) {
        n += is_shown(w, i);
    }
    return n;
}

static void print_title(const walk *w) {
    const sm_model_config *c = &w->config;
    const sm_plan *plan = w->plan;
    char n_params[32];
    char shared[64] = "";
    if (sm_model_n_kv_head(c) != c->n_head) {
        snprintf(shared, sizeof(shared), " that share NKV=%lld of keys and values", (long long)c->n_kv_head);
    }
    sm_text_count((double)plan->n_params, n_params, sizeof(n_params));
    printf("%s %s: L=%lld blocks, NH=%lld heads%s, C=%lld, F=%lld, V=%lld (Vp=%lld with padding), %s parameters\n",
           c->model->title, w->options->models.texts[0], (long long)c->n_layer, (long long)c->n_head, shared,
           (long long)c->d_model, (long long)c->d_ff, (long long)c->vocab, (long long)sm_model_padded_vocab(c),
           n_params);
    printf("One training step of B=%lld sequences of T=%lld tokens, mode %s, recompute %s, precision %s: %d ops\n",
           (long long)plan->B, (long long)plan->T, sm_mode_name(w->mode), sm_recompute_name(plan->recompute),
           cli_precision_name((cli_precision)w->options->precisions.values[0]), plan->n_ops);
    int n_shown = count_shown(w);
    if (n_shown < plan->n_ops) {
        printf("Shown: %d ops, outside of blocks and of block %lld; the other %d are left out (--all shows them)\n",
               n_shown, w->options->layer < 0 ? 0LL : (long long)w->options->layer, plan->n_ops - n_shown);
    }
}

static void print_ids(const char *name, const int32_t *ids, int64_t n) {
    const int64_t most = 16;
    printf("%-8s", name);
    for (int64_t i = 0; i < n && i < most; i++) {
        printf(" %d", ids[i]);
    }
    printf("%s\n", n > most ? " ..." : "");
}

static void print_settings(const sm_plan *plan) {
    sm_step_settings settings = sm_plan_settings(plan);
    printf("%-8s step %d", "hyper", CLI_WALK_STEP);
    for (int i = 0; i < sm_setting_count(); i++) {
        char words[CLI_TEXT_SIZE];
        const double value = *sm_setting_of(&settings, sm_setting_at(i));
        cli_setting_words(sm_setting_at(i), words);
        if (!isnan(value)) {
            printf(", %s %g", words, value);
        }
    }
    putchar('\n');
}

static void print_batch(const walk *w) {
    if (w->values != NULL) {
        int64_t n = w->plan->B * w->plan->T;
        print_ids("tokens", w->batch, n);
        print_ids("targets", w->batch + n, n);
        print_settings(w->plan);
    }
}

// A heading where a range or a block begins, and a line for a run of blocks left out.
static void print_headings(const walk *w, int index) {
    const sm_op *op = &w->plan->ops[index];
    const sm_op *before = index > 0 ? op - 1 : NULL;
    bool new_range = before == NULL || before->range != op->range;
    if (new_range) {
        printf("\n=== %s ===\n\n", sm_phase_name(op->range));
    }
    if (!is_shown(w, index) && (new_range || is_shown(w, index - 1))) {
        int end = index;
        while (end < w->plan->n_ops && w->plan->ops[end].range == op->range && !is_shown(w, end)) {
            end++;
        }
        printf("       ... ops %d to %d: blocks %d to %d, like the block shown\n\n", index, end - 1, op->layer,
               w->plan->ops[end - 1].layer);
    } else if (is_shown(w, index) && op->layer >= 0 && (new_range || before->layer != op->layer)) {
        printf("--- block %d ---\n\n", op->layer);
    }
}

static void print_total(const char *name, int n_ops, double flops, double bytes) {
    char flops_text[32];
    char bytes_text[32];
    sm_text_scaled(flops, "FLOP", flops_text, sizeof(flops_text));
    sm_text_bytes(bytes, bytes_text, sizeof(bytes_text));
    printf("%-10s %5d %12s %12s %12.2f\n", name, n_ops, flops_text, bytes_text, bytes > 0 ? flops / bytes : 0);
}

static void print_totals(const sm_plan *plan) {
    double flops[SM_PHASE_COUNT] = {0};
    double bytes[SM_PHASE_COUNT] = {0};
    int n_ops[SM_PHASE_COUNT] = {0};
    double all_flops = 0;
    double all_bytes = 0;
    for (int i = 0; i < plan->n_ops; i++) {
        sm_phase phase = plan->ops[i].phase;
        flops[phase] += sm_op_flops(plan, &plan->ops[i]);
        bytes[phase] += sm_op_bytes(plan, &plan->ops[i]);
        n_ops[phase]++;
    }
    printf("=== totals ===\n\n%-10s %5s %12s %12s %12s\n", "phase", "ops", "work", "bytes", "FLOPs/byte");
    for (int phase = 0; phase < SM_PHASE_COUNT; phase++) {
        if (phase != SM_PHASE_SCALER || n_ops[phase] > 0) {
            print_total(sm_phase_name((sm_phase)phase), n_ops[phase], flops[phase], bytes[phase]);
        }
        all_flops += flops[phase];
        all_bytes += bytes[phase];
    }
    print_total("step", plan->n_ops, all_flops, all_bytes);
}

static sm_status summarise_outputs(const walk *w, const sm_op *op, cli_walk_op_values *values) {
    values->has = w->values != NULL;
    for (int i = 0; i < SM_MAX_OUT && values->has; i++) {
        if (op->out[i] != SM_NO_TENSOR) {
            SM_TRY(cli_walk_values_summarise(w->values, op->out[i], &values->outputs[i]));
        }
    }
    return SM_OK;
}

static sm_status show_op(const walk *w, int index) {
    cli_walk_op_values values;
    SM_TRY(summarise_outputs(w, &w->plan->ops[index], &values));
    if (w->writer == NULL) {
        cli_walk_print_op(w->plan, index, &values);
        return SM_OK;
    }
    return sm_record_write(w->writer, cli_walk_op_record(w->plan, index, &values));
}

static sm_status walk_ops(const walk *w) {
    for (int i = 0; i < w->plan->n_ops; i++) {
        if (cli_interrupted) {
            return SM_ERR_INTERRUPTED;
        }
        if (w->values != NULL) {
            SM_TRY(cli_walk_values_execute(w->values, i));
        }
        if (w->writer == NULL) {
            print_headings(w, i);
        }
        if (is_shown(w, i)) {
            SM_TRY(show_op(w, i));
        }
    }
    return SM_OK;
}

// --- records -------------------------------------------------------------------------------------

static json_t *ids_json(const int32_t *ids, int64_t n) {
    json_t *array = json_array();
    for (int64_t i = 0; i < n; i++) {
        json_array_append_new(array, json_integer(ids[i]));
    }
    return array;
}

// NULL: out of memory.
static json_t *settings_json(const sm_plan *plan) {
    sm_step_settings settings = sm_plan_settings(plan);
    json_t *hyper = json_object();
    bool complete = hyper != NULL;
    for (int i = 0; i < sm_setting_count(); i++) {
        const double value = *sm_setting_of(&settings, sm_setting_at(i));
        if (!isnan(value)) {
            complete = json_object_set_new(hyper, sm_setting_at(i)->name, json_real(value)) == 0 && complete;
        }
    }
    complete = json_object_set_new(hyper, "step", json_integer(CLI_WALK_STEP)) == 0 && complete;
    complete = json_object_set_new(hyper, "n_accum", json_integer(1)) == 0 && complete;
    if (!complete) {
        json_decref(hyper);
        return NULL;
    }
    return hyper;
}

// What holds for all ops; docs/walk.md describes it.
static json_t *make_head(const walk *w) {
    const sm_model_config *c = &w->config;
    const int64_t n = w->plan->B * w->plan->T;
    json_t *config =
        json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "vocab", (json_int_t)c->vocab, "padded_vocab",
                  (json_int_t)sm_model_padded_vocab(c), "n_ctx", (json_int_t)c->context, "n_layer",
                  (json_int_t)c->n_layer, "n_head", (json_int_t)c->n_head, "n_kv_head",
                  (json_int_t)sm_model_n_kv_head(c), "d_model", (json_int_t)c->d_model, "d_ff", (json_int_t)c->d_ff);
    return json_pack("{s:s, s:s, s:s, s:o, s:I, s:s, s:s, s:s, s:I, s:I, s:I, s:f, s:o, s:o, s:o, s:i, s:i}",
                     "model_arch", c->model->name, "optimizer", w->plan->optimizer->name, "model",
                     w->options->models.texts[0], "config", config, "model_n_params", (json_int_t)w->plan->n_params,
                     "mode", sm_mode_name(w->mode), "recompute", sm_recompute_name(w->plan->recompute), "precision",
                     cli_precision_name((cli_precision)w->options->precisions.values[0]), "n_batch",
                     (json_int_t)w->plan->B, "n_seq", (json_int_t)w->plan->T, "seed", (json_int_t)w->options->seed,
                     "dropout", w->options->dropout, "tokens", ids_json(w->batch, n), "targets",
                     ids_json(w->batch + n, n), "hyper", settings_json(w->plan), "n_ops", w->plan->n_ops, "n_ops_shown",
                     count_shown(w));
}

// "{ ..., "ops": ", to be followed by their array and by "}".
static sm_status print_head(const walk *w) {
    const char *key;
    json_t *value;
    json_t *head = make_head(w);
    if (head == NULL) {
        return sm_fail(SM_ERR_OOM, "walk: no memory for its description");
    }
    putchar('{');
    json_object_foreach(head, key, value) {
        printf("\n\"%s\": ", key);
        json_dumpf(value, stdout, JSON_ENCODE_ANY | JSON_REAL_PRECISION(12));
        putchar(',');
    }
    printf("\n\"ops\": ");
    json_decref(head);
    return SM_OK;
}

// Every op. JSON is one object with what they have in common; other formats hold ops alone.
static sm_status write_records(walk *w) {
    bool is_json = w->options->output == SM_FORMAT_JSON;
    if (is_json) {
        SM_TRY(print_head(w));
    }
    SM_TRY(sm_record_writer_open(&cli_walk_table, (sm_format)w->options->output, stdout, &w->writer));
    sm_status status = walk_ops(w);
    sm_status closed = sm_record_writer_close(w->writer); // also ends what was cut short
    if (is_json) {
        puts("}");
    }
    return status != SM_OK ? status : closed;
}

static sm_status check_options(walk *w) {
    const cli_options *options = w->options;
    SM_TRY(cli_check_single("--model-size", options->models.n));
    SM_TRY(cli_check_single("--batch-size", options->batch_sizes.n));
    SM_TRY(cli_check_single("--seq-len", options->seq_lens.n));
    SM_TRY(cli_check_single("--mode", options->modes.n));
    SM_TRY(cli_model_config(options, options->models.texts[0], &w->config));
    SM_TRY(cli_check_seq_len(&w->config, options->seq_lens.values[0]));
    if (options->layer >= w->config.n_layer) {
        return sm_fail(SM_ERR_USAGE, "--layer: %lld; the blocks are 0 to %lld", (long long)options->layer,
                       (long long)w->config.n_layer - 1);
    }
    w->mode = (sm_mode)options->modes.values[0];
    return cli_check_single("--precision", options->precisions.n);
}

sm_status cli_walk(const cli_options *options) {
    sm_status status = SM_OK;
    walk w = {.options = options};
    sm_plan *plan = NULL;
    SM_TRY(check_options(&w));
    const cli_job job = {
        .config = w.config,
        .precision = (cli_precision)options->precisions.values[0],
        .mode = w.mode,
        .pass = SM_PASS_STEP,
        .B = options->batch_sizes.values[0],
        .T = options->seq_lens.values[0],
    };
    SM_TRY(cli_job_plan(options, &job, 0, &plan));
    w.plan = plan;
    SM_TRY_GOTO(cli_walk_draw_batch(plan, (uint64_t)options->seed, &w.batch));
    if (options->values) {
        status = cli_walk_values_open(plan, &w.config, (uint64_t)options->seed, w.batch, &w.values);
        plan = NULL; // taken over
        if (status != SM_OK) {
            goto cleanup;
        }
    }
    if (sm_format_is_read((sm_format)options->output)) {
        print_title(&w);
        print_batch(&w);
        SM_TRY_GOTO(walk_ops(&w));
        print_totals(w.plan);
    } else {
        status = write_records(&w);
    }
cleanup:
    free(w.batch);
    cli_walk_values_free(w.values);
    sm_plan_free(plan);
    return status;
}
