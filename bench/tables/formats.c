// formats.c: a laid-out table as Markdown; for papers: LaTeX with the lines of the package booktabs, or Typst; and rows
// for services that follow a speed over commits: Google Benchmark's JSON, and Bencher's own, with the interval.
#include "bench/tables/layout.h"
#include "bench/tables/record.h"
#include "bench/tables/screen.h"
#include "bench/tables/show.h"

#include <math.h>

// --- Markdown --------------------------------------------------------------------------------------

void sm_put_sentence(const char *before, const char *text, const char *after, sm_format format, FILE *out) {
    SM_FREED char *clean = sm_clean_text(text, format == SM_FORMAT_MARKDOWN);
    fprintf(out, "%s%s%s", before, clean, after);
}

static void write_line(const sm_layout *l, size_t row, FILE *out) {
    for (int j = 0; j < l->n_shown; j++) {
        const char *cell = sm_layout_cell(l, row, j);
        int padding = l->widths[j] - sm_text_width(cell);
        bool right = sm_layout_is_number(l, j);
        bool last = j + 1 == l->n_shown;
        fputs("| ", out);
        sm_put_repeated(out, ' ', right ? padding : 0);
        fputs(cell, out);
        sm_put_repeated(out, ' ', right || last ? 0 : padding);
        fputs(" ", out);
    }
    fputs("|\n", out);
}

void sm_markdown_write(const sm_table *table, const json_t *records, const sm_legend_line *legend, FILE *out) {
    SM_AT_END(sm_layout_free) sm_layout l = {.table = table, .records = records};
    sm_layout_make(&l);
    if (l.n_shown > 0) {
        SM_FREED char *common = sm_layout_common_text(&l);
        fprintf(out, common[0] != '\0' ? "%s\n\n" : "%s", common);
        write_line(&l, 0, out);
        for (int j = 0; j < l.n_shown; j++) {
            const bool right = sm_layout_is_number(&l, j);
            const bool last = j + 1 == l.n_shown;
            const int width = last && !right ? sm_text_width(sm_layout_cell(&l, 0, j)) : l.widths[j];
            fputs("|", out);
            sm_put_repeated(out, '-', right ? width + 1 : width + 2);
            fputs(right ? ":" : "", out);
        }
        fputs("|\n", out);
    }
    for (size_t row = 1; l.n_shown > 0 && row < sm_layout_rows(&l); row++) {
        write_line(&l, row, out);
    }
    for (int i = 0; i < l.n_notes; i++) {
        SM_FREED char *note = sm_layout_note_text(&l, i);
        fprintf(out, "%s- %s\n", i > 0 ? "" : "\n", note);
    }
    sm_layout_explain(&l, legend, out);
}

// --- LaTeX and Typst -------------------------------------------------------------------------------

// Writes what the language would read as markup with a backslash, or, in LaTeX, by its name; what the usual fonts of
// LaTeX show as another character, and "--", which they show as a dash, so, too.
static void put_text(const char *text, bool is_latex, FILE *out) {
    static const char characters[] = "\\~^<>|";
    static const char *const names[] = {"backslash", "asciitilde", "asciicircum", "less", "greater", "bar"};
    const char *special = is_latex ? "&%$#_{}" : "\\#$*_`<>@[]=~-+/\"'";
    for (; *text != '\0'; text++) {
        const char *at = is_latex ? strchr(characters, *text) : NULL;
        if (at != NULL) {
            fprintf(out, "\\text%s{}", names[at - characters]);
        } else if (is_latex && *text == '-') {
            fputs("{-}", out);
        } else {
            fputs(strchr(special, *text) != NULL ? "\\" : "", out);
            fputc(*text, out);
        }
    }
}

static void put_row(const sm_layout *l, size_t row, bool is_latex, FILE *out) {
    for (int j = 0; j < l->n_shown; j++) {
        fputs(!is_latex ? "[" : j > 0 ? " & " : "", out);
        put_text(sm_layout_cell(l, row, j), is_latex, out);
        fputs(is_latex ? "" : "], ", out);
    }
}

static void put_latex(const sm_layout *l, FILE *out) {
    fputs("\\begin{tabular}{", out);
    for (int j = 0; j < l->n_shown; j++) {
        fputc(sm_layout_is_number(l, j) ? 'r' : 'l', out);
    }
    fputs("}\n\\toprule\n", out);
    for (size_t row = 0; row < sm_layout_rows(l); row++) {
        put_row(l, row, true, out);
        fputs(row == 0 ? " \\\\\n\\midrule\n" : " \\\\\n", out);
    }
    fputs("\\bottomrule\n\\end{tabular}\n", out);
}

static void put_typst(const sm_layout *l, FILE *out) {
    fprintf(out, "#table(\n  columns: %d,\n  align: (", l->n_shown);
    for (int j = 0; j < l->n_shown; j++) {
        fputs(sm_layout_is_number(l, j) ? "right, " : "left, ", out);
    }
    fputs("),\n", out);
    for (size_t row = 0; row < sm_layout_rows(l); row++) {
        fputs(row == 0 ? "  table.header(" : "  ", out);
        put_row(l, row, false, out);
        fputs(row == 0 ? "),\n" : "\n", out);
    }
    fputs(")\n", out);
}

void sm_typeset_write(const sm_table *table, const json_t *records, sm_format format, FILE *out) {
    SM_AT_END(sm_layout_free) sm_layout layout = {.table = table, .records = records, .is_text = true, .is_page = true};
    sm_layout_make(&layout);
    if (layout.n_shown > 0) {
        // As comments: what all rows share, and the notes.
        const bool is_latex = format == SM_FORMAT_LATEX;
        const char *comment = is_latex ? "%" : "//";
        for (int i = -1; i < layout.n_notes; i++) {
            SM_FREED char *text = i < 0 ? sm_layout_common_text(&layout) : sm_layout_note_text(&layout, i);
            if (text[0] != '\0') {
                fprintf(out, "%s %s\n", comment, text);
            }
        }
        (is_latex ? put_latex : put_typst)(&layout, out);
    }
}

// --- for services ----------------------------------------------------------------------------------

enum { NAME_SIZE = 256 };

// "gpt2 small step b1s1024 cpu fused fp32": what tells a row from others of its file.
static void name_of(const json_t *record, char name[NAME_SIZE]) {
    static const char *const fields[] = {"model_arch", "model_type", "test", "device", "mode", "precision"};
    name[0] = '\0';
    for (size_t i = 0; i < SM_COUNT(fields); i++) {
        sm_append_part(name, NAME_SIZE, " ", sm_json_word(record, fields[i]));
    }
}

static json_t *google_record(const json_t *record, int64_t index, const char *name) {
    const double ns = sm_json_number(record, "median_ns");
    const double n_threads = sm_json_number(record, "n_threads");
    return sm_json_put(json_object(), {"name", json_string(name)}, {"family_index", json_integer(index)},
                       {"per_family_instance_index", json_integer(0)}, {"run_name", json_string(name)},
                       {"run_type", json_string("iteration")}, {"repetitions", json_integer(1)},
                       {"repetition_index", json_integer(0)},
                       {"threads", json_integer(n_threads > 0 ? (json_int_t)n_threads : 1)},
                       {"iterations", json_integer((json_int_t)json_array_size(sm_json_get(record, "samples_ns")))},
                       {"real_time", json_real(ns)}, {"cpu_time", json_real(ns)}, {"time_unit", json_string("ns")},
                       {"items_per_second", json_real(sm_json_number(record, "median_ts"))});
}

// A value; its bounds where there is an interval.
static json_t *measure(double value, double lower, double upper) {
    json_t *all = json_pack("{s:f}", "value", value);
    if (isfinite(lower) && isfinite(upper)) {
        json_object_set_new(all, "lower_value", json_real(lower));
        json_object_set_new(all, "upper_value", json_real(upper));
    }
    return all;
}

static json_t *bencher_record(const json_t *record) {
    const double ns = sm_json_number(record, "median_ns");
    const double lo = sm_json_number(record, "ci95_lo_ns"), hi = sm_json_number(record, "ci95_hi_ns");
    const double rate = sm_json_number(record, "median_ts");
    return json_pack("{s:o, s:o}", "latency", measure(ns, lo, hi), "throughput",
                     measure(rate, rate * ns / hi, rate * ns / lo));
}

void sm_ci_write(const json_t *records, sm_format format, FILE *out) {
    const bool is_google = format == SM_FORMAT_GBENCH;
    json_t *list = json_array();
    SM_OWN(json_t) *by_name = json_object();
    SM_EACH(record, records) {
        char name[NAME_SIZE];
        const double ns = sm_json_number(record, "median_ns");
        const double rate = sm_json_number(record, "median_ts");
        if (ns > 0 && rate > 0) { // what failed has no figure, and no place
            name_of(record, name);
            json_array_append_new(list, google_record(record, (int64_t)record_at, name));
            json_object_set_new(by_name, name, bencher_record(record));
        }
    }
    const json_t *first = json_array_get(records, 0);
    json_t *context =
        sm_json_put(json_object(), {"date", json_string(sm_json_word(first, "test_time"))},
                    {"host_name", json_string("")}, {"executable", json_string("stepmark")},
                    {"num_cpus", json_integer(json_integer_value(sm_json_get(first, "context.cpu.threads")))},
                    {"mhz_per_cpu", json_integer(0)}, {"cpu_scaling_enabled", json_false()}, {"caches", json_array()},
                    {"load_avg", json_array()}, {"library_version", json_string(sm_json_word(first, "build_commit"))},
                    {"library_build_type", json_string("release")}, {"json_schema_version", json_integer(1)});
    SM_OWN(json_t) *google = sm_json_put(json_object(), {"context", context}, {"benchmarks", list});
    json_dumpf(is_google ? google : by_name, out, SM_JSON_DUMP_FLAGS | JSON_INDENT(2));
    fputc('\n', out);
}
