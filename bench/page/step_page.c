// step_page.c: one training step as a page of HTML.
#include "step_page.h"

#include <stdlib.h>
#include <string.h>

#define PAGE_FILE(kind) extern const char step_page_##kind[], step_page_end_##kind[]
PAGE_FILE(css);
PAGE_FILE(html);
PAGE_FILE(js);

// --- a plan ----------------------------------------------------------------------------------------

static json_t *indices_json(const int *indices, int n) {
    json_t *array = json_array();
    for (int i = 0; i < n; i++) {
        if (indices[i] != SM_NO_TENSOR) {
            json_array_append_new(array, json_integer(indices[i]));
        }
    }
    return array;
}

static json_t *op_json(const sm_op *op) {
    return json_pack("{s:s, s:s, s:i, s:o, s:o}", "kind", sm_op_name(op->kind), "phase", sm_phase_name(op->phase),
                     "layer", op->layer, "in", indices_json(op->in, SM_MAX_IN), "out",
                     indices_json(op->out, SM_MAX_OUT));
}

static json_t *tensor_json(const sm_plan *plan, int tensor, sm_range life) {
    const sm_tensor *t = &plan->tensors[tensor];
    return json_pack("{s:s, s:s, s:I, s:i, s:i, s:I, s:i, s:i}", "name", t->name, "role", sm_role_name(t->role),
                     "bytes", (json_int_t)sm_tensor_bytes(t), "root", sm_plan_root(plan, tensor), "arena", t->arena,
                     "offset", (json_int_t)t->offset_bytes, "first", life.first, "end", life.end);
}

static json_t *arena_json(const sm_arena *arena) {
    return json_pack("{s:s, s:I}", "role", sm_role_name(arena->role), "bytes", (json_int_t)arena->size_bytes);
}

json_t *sm_step_page_plan(const sm_plan *plan) {
    json_t *ops = json_array();
    json_t *tensors = json_array();
    json_t *arenas = json_array();
    sm_range *lives = calloc((size_t)plan->n_tensors + 1, sizeof(*lives));
    int failed = lives == NULL || sm_plan_lifetimes(plan, lives) != SM_OK;
    for (int i = 0; i < plan->n_ops && !failed; i++) {
        failed = json_array_append_new(ops, op_json(&plan->ops[i]));
    }
    for (int i = 0; i < plan->n_tensors && !failed; i++) {
        failed = json_array_append_new(tensors, tensor_json(plan, i, lives[i]));
    }
    for (int i = 0; i < plan->n_arenas && !failed; i++) {
        failed = json_array_append_new(arenas, arena_json(&plan->arenas[i]));
    }
    free(lives);
    json_t *json = json_pack("{s:o, s:o, s:o}", "ops", ops, "tensors", tensors, "arenas", arenas);
    if (failed) {
        json_decref(json);
        return NULL;
    }
    return json;
}

// --- the page --------------------------------------------------------------------------------------

// A script of data ends at the first "</script", and "<!--" changes how it is read: no text in it has a '<' of its own.
static void put_data(const char *text, FILE *out) {
    for (size_t n = strcspn(text, "<");; n = strcspn(text, "<")) {
        fwrite(text, 1, n, out);
        text += n;
        if (*text == '\0') {
            return;
        }
        fputs("\\u003c", out);
        text++;
    }
}

static void put_text(const char *text, FILE *out) {
    for (; *text != '\0'; text++) {
        switch (*text) {
        case '<': fputs("&lt;", out); break;
        case '>': fputs("&gt;", out); break;
        case '&': fputs("&amp;", out); break;
        default: fputc(*text, out);
        }
    }
}

static void put_file(const char *begin, const char *end, FILE *out) { fwrite(begin, 1, (size_t)(end - begin), out); }

sm_status sm_step_page_write(const json_t *data, FILE *out) {
    const char *title = json_string_value(json_object_get(data, "title"));
    char *text = json_dumps(data, JSON_COMPACT | JSON_REAL_PRECISION(12));
    if (text == NULL) {
        return sm_fail(SM_ERR_OOM, "page: no memory for its data");
    }
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>",
          out);
    put_text(title, out);
    fputs("</title>\n<style>\n", out);
    put_file(step_page_css, step_page_end_css, out);
    fputs("</style>\n</head>\n<body>\n", out);
    put_file(step_page_html, step_page_end_html, out);
    fputs("<script type=\"application/json\" id=\"step\">", out);
    put_data(text, out);
    fputs("</script>\n<script>\n", out);
    put_file(step_page_js, step_page_end_js, out);
    fputs("</script>\n</body>\n</html>\n", out);
    free(text);
    return SM_OK;
}
