#include "src/text/questions.h"

#include "src/io/input_file.h"
#include "src/io/json_text.h"

struct sm_questions {
    FILE *file;
    char *path;
    char *text; // of a line
    size_t capacity;
    json_t *root; // owner of the question's texts
    sm_question question;
};

sm_status sm_questions_open(const char *path, sm_questions **questions) {
    SM_OWN(sm_questions) *q = sm_calloc(1, sizeof *q);
    *questions = NULL;
    q->path = sm_strdup(path);
    SM_TRY(sm_input_stream(path, &q->file));
    *questions = sm_give(&q);
    return SM_OK;
}

void sm_questions_close(sm_questions *q) {
    if (q != NULL) {
        release_FILE(&q->file);
        json_decref(q->root);
        free(q->text);
        free(q->path);
        free(q);
    }
}

// A whole number below `n`, or its decimal digits as a text.
static bool read_label(const json_t *value, size_t n, size_t *label) {
    const char *digits = json_string_value(value);
    const bool is_text =
        digits != NULL && digits[0] != '\0' && strlen(digits) < 4 && strspn(digits, "0123456789") == strlen(digits);
    const json_int_t number = is_text ? atoll(digits) : json_is_integer(value) ? json_integer_value(value) : -1;
    *label = (size_t)number;
    return number >= 0 && *label < n;
}

// NULL: it is no text, or has a zero byte.
static const char *text_of(const json_t *value) {
    const char *text = json_string_value(value);
    return text != NULL && strlen(text) == json_string_length(value) ? text : NULL;
}

static sm_status read_question(const sm_questions *q, sm_question *question) {
    const json_t *endings = json_object_get(q->root, "endings");
    const json_t *label = json_object_get(q->root, "label");
    bool is_complete = label != NULL;
    question->ctx = text_of(json_object_get(q->root, "ctx"));
    question->n_endings = json_array_size(endings);
    is_complete &= question->ctx != NULL && question->n_endings >= 2 && question->n_endings <= SM_MOST_ENDINGS;
    for (size_t i = 0; is_complete && i < question->n_endings; i++) {
        question->endings[i] = text_of(json_array_get(endings, i));
        is_complete = question->endings[i] != NULL;
    }
    SM_FAIL_IF(!is_complete, SM_ERR_FORMAT,
               "%s: line %zu: no {\"ctx\": text, \"endings\": [2 to %d texts], \"label\": number}%s", q->path,
               question->line, SM_MOST_ENDINGS, question->line == 1 ? ", nor a text's {\"text\": ...}" : "");
    SM_FAIL_IF(!read_label(label, question->n_endings, &question->label), SM_ERR_FORMAT,
               "%s: line %zu: its label is no whole number from 0 to %zu", q->path, question->line,
               question->n_endings - 1);
    return SM_OK;
}

sm_status sm_questions_next(sm_questions *q, const sm_question **question) {
    *question = NULL;
    for (ssize_t n; (n = getline(&q->text, &q->capacity, q->file)) >= 0;) {
        const char *line = q->text;
        line += q->question.line++ == 0 ? sm_mark_bytes(line, (size_t)n) : 0;
        if (line[strspn(line, " \t\r\n")] == '\0') {
            continue;
        }
        json_decref(q->root);
        q->root = sm_json_line(line, (size_t)(q->text + n - line), NULL);
        SM_TRY(read_question(q, &q->question));
        *question = &q->question;
        return SM_OK;
    }
    return ferror(q->file) ? sm_fail(SM_ERR_IO, "%s: cannot be read", q->path) : SM_OK;
}
