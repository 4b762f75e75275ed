// tables.c: the files of a course's preset, next to its rows: the page of `report`, and its tables in one LaTeX file.
#include "bench/report/report.h"
#include "cli/flags/flag.h"
#include "cli/sweep/sweep.h"

// A table: of rows that meet all conditions, FIELD=TEXT|TEXT; an empty text is a row without it, * one with any.
#define STEPS "op= loop.loader= "
static const struct {
    const char *title, *conditions, *columns;
} tables[] = {
    {"Forward and backward by size", STEPS "pass_type=separate n_warmup=5",
     "device,model_type,n_seq,forward_avg_ns,backward_avg_ns,status"},
    {"Warm-up, and the cold step", STEPS "pass_type=separate",
     "device,model_type,n_warmup,first_step_ns,forward_avg_ns,backward_avg_ns"},
    {"Modes and precision", STEPS "pass_type=step optimizer=adamw recompute=none",
     "device,model_type,n_seq,mode,precision,avg_ns,mfu"},
    {"Memory by context", STEPS "pass_type=forward|step mode=fused precision=fp32 optimizer=|adamw recompute=|none",
     "device,model_type,n_seq,pass_type,device_peak_bytes,status"},
    {"The optimizer's share", STEPS "pass_type=step mode=fused precision=fp32 recompute=none",
     "device,model_type,n_seq,optimizer,phases.forward_ns,phases.backward_ns,phases.optimizer_ns,avg_ns"},
    {"Recomputation", STEPS "pass_type=step mode=fused precision=fp32 optimizer=adamw",
     "device,model_type,n_seq,recompute,device_peak_bytes,avg_ns"},
    {"Attention by itself", "op=attention|flash_attention",
     "device,op,shape,forward_avg_ns,backward_avg_ns,kept_bytes,status"},
    {"Exchanges by themselves", "op=all_reduce|reduce_scatter|all_gather|broadcast",
     "op,shape,loop.transport,avg_ns,algorithm_bandwidth,bus_bandwidth"},
    {"Exchanges of a step", "op= loop.transport=*",
     "model_type,n_seq,loop.buckets,loop.shard,avg_ns,loop.headline_comm_ns,loop.headline_hidden_ns"},
};

static bool is_one_of(const json_t *row, const char *field, const char *texts) {
    char number[32];
    const json_t *value = sm_json_get(row, field);
    snprintf(number, sizeof(number), "%.15g", json_number_value(value));
    const char *own = json_is_number(value) ? number : json_is_string(value) ? json_string_value(value) : "";
    size_t length = strcspn(texts, "|");
    while (texts[length] == '|' && (strlen(own) != length || strncmp(own, texts, length) != 0)) {
        texts += length + 1;
        length = strcspn(texts, "|");
    }
    return texts[0] == '*' ? own[0] != '\0' : strlen(own) == length && strncmp(own, texts, length) == 0;
}

static sm_status write_table(const json_t *rows, size_t i, FILE *out) {
    char text[256];
    const char *names[16];
    char *rest = NULL;
    int n = 0;
    sm_table chosen;
    SM_OWN(json_t) *own = json_array();
    SM_EACH(row, rows) {
        bool is_met = true;
        snprintf(text, sizeof(text), "%s", tables[i].conditions);
        for (char *word = strtok_r(text, " ", &rest); word != NULL && is_met; word = strtok_r(NULL, " ", &rest)) {
            char *value = strchr(word, '=');
            *value++ = '\0';
            is_met = is_one_of(row, word, value);
        }
        if (is_met) {
            json_array_append(own, (json_t *)row);
        }
    }
    if (json_array_size(own) == 0) {
        return SM_OK;
    }
    snprintf(text, sizeof(text), "%s", tables[i].columns);
    for (char *word = strtok_r(text, ",", &rest); word != NULL; word = strtok_r(NULL, ",", &rest)) {
        names[n++] = word;
    }
    SM_TRY(sm_table_choose(&sm_row_table, names, n, &chosen));
    SM_FREED const sm_column *columns = chosen.columns;
    fprintf(out, "\n\\section*{%s}\n", tables[i].title);
    return sm_record_write_all(&chosen, SM_FORMAT_LATEX, out, own);
}

static sm_status write_tables(void *what, FILE *out) {
    const sm_rows *rows = what;
    fputs("\\documentclass{article}\n\\usepackage{booktabs}\n\\usepackage[margin=1cm,landscape]{geometry}\n"
          "\\begin{document}\n\\footnotesize\n",
          out);
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
        SM_TRY(write_table(rows->rows, i, out));
    }
    fputs("\\end{document}\n", out);
    return SM_OK;
}

static sm_status write_page(void *what, FILE *out) { return sm_report_write(what, NULL, 0, out); }

sm_status cli_sweep_tables(const cli_options *options) {
    static const struct {
        const char *ending;
        cli_page_function write;
    } files[] = {{"html", write_page}, {"tex", write_tables}};
    const char *path = options->out.output_file;
    if (path == NULL || options->sweep.preset == NULL || !cli_preset_is_ordered(options->sweep.preset)) {
        return SM_OK;
    }
    SM_AT_END(sm_rows_free) sm_rows rows = sm_rows_new();
    SM_TRY(sm_rows_read(path, &rows));
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        char to[PATH_MAX];
        const char *dot = strrchr(path, '.');
        snprintf(to, sizeof(to), "%.*s.%s", (int)(dot != NULL ? (size_t)(dot - path) : strlen(path)), path,
                 files[i].ending);
        SM_TRY(cli_write_page(to, files[i].write, &rows, ""));
    }
    return SM_OK;
}
