// excerpt.c: a function from a source file, with the parts of that file that it needs.
//
// A file is divided into its definitions: text from the left margin up to its closing brace or semicolon, with the
// comment above it. A definition needs another if that one's name occurs in it as a word.
#include "learn/page/excerpt.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *begin; // start of the comment above it
    const char *code;  // start of the definition itself
    const char *end;
    sm_source name; // "gelu", "REF(gelu)"; empty: none
    bool is_chosen;
} definition;

typedef struct {
    definition *all;
    size_t n, capacity;
} definitions;

// --- reading C -------------------------------------------------------------------------------------

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

static const char *skip_line(const char *p, const char *end) {
    while (p < end && *p != '\n') {
        p++;
    }
    return p;
}

static const char *skip_quoted(const char *p, const char *end) {
    const char quote = *p;
    for (p++; p < end && *p != quote; p++) {
        p += *p == '\\';
    }
    return p < end ? p + 1 : end;
}

// The end of a comment or literal that begins at p; otherwise p.
static const char *skip_opaque(const char *p, const char *end) {
    if (p + 1 < end && p[0] == '/' && p[1] == '/') {
        return skip_line(p, end);
    }
    return *p == '"' || *p == '\'' ? skip_quoted(p, end) : p;
}

static const char *skip_word(const char *p, const char *end) {
    while (p < end && is_word(*p)) {
        p++;
    }
    return p;
}

// The end of the brackets that open at p.
static const char *skip_brackets(const char *p, const char *end) {
    int depth = 0;
    while (p < end) {
        const char *behind = skip_opaque(p, end);
        if (behind != p) {
            p = behind;
            continue;
        }
        depth += (*p == '{' || *p == '(') - (*p == '}' || *p == ')');
        p++;
        if (depth == 0) {
            return p;
        }
    }
    return end;
}

// --- definitions -----------------------------------------------------------------------------------

// The end of the directive at p, including continued lines.
static const char *end_of_directive(const char *p, const char *end) {
    p = skip_line(p, end);
    while (p < end && p[-1] == '\\') {
        p = skip_line(p + 1, end);
    }
    return p;
}

// The end of the definition at p: a semicolon outside of braces, or the closing brace of a function.
static const char *end_of_code(const char *p, const char *end) {
    bool is_function = false;
    while (p < end) {
        const char *behind = skip_opaque(p, end);
        if (behind != p) {
            p = behind;
        } else if (*p == '(') {
            is_function = true;
            p = skip_brackets(p, end);
        } else if (*p == '{') {
            p = skip_brackets(p, end);
            if (is_function) {
                return p;
            }
        } else if (*p++ == ';') {
            return p;
        }
    }
    return end;
}

static bool is_attribute(sm_source word) {
    return word.n == strlen("__attribute__") && memcmp(word.data, "__attribute__", word.n) == 0;
}

static bool is_macro(sm_source word) {
    for (size_t i = 0; i < word.n; i++) {
        if (islower((unsigned char)word.data[i])) {
            return false;
        }
    }
    return word.n > 0;
}

static bool is_enum(sm_source word) { return word.n == strlen("enum") && memcmp(word.data, "enum", word.n) == 0; }

static sm_source first_word(const char *p, const char *end) {
    while (p < end && !is_word(*p)) {
        p++;
    }
    return (sm_source){p, (size_t)(skip_word(p, end) - p)};
}

// The name that the code at p defines: the word before its first parenthesis, or the last one; for an unnamed enum its
// first constant.
static sm_source find_name(const char *p, const char *end) {
    sm_source word = {p, 0};
    if (*p == '#') {
        const char *name = p + strlen("#define ");
        return strncmp(p, "#define ", strlen("#define ")) == 0
                   ? (sm_source){name, (size_t)(skip_word(name, end) - name)}
                   : word;
    }
    while (p < end && *p != ';' && *p != '=' && *p != '[') {
        if (is_word(*p)) {
            word = (sm_source){p, (size_t)(skip_word(p, end) - p)};
            p += word.n;
        } else if (*p == '(' && is_attribute(word)) {
            p = skip_brackets(p, end);
        } else if (*p == '(') {
            if (is_macro(word)) {
                word.n = (size_t)(skip_brackets(p, end) - word.data);
            }
            return p + 1 < end && p[1] == '*' ? first_word(p, end) : word;
        } else if (*p == '{' && is_enum(word)) {
            return first_word(p, end);
        } else {
            p = *p == '{' ? skip_brackets(p, end) : p + 1;
        }
    }
    return word;
}

static sm_status add(definitions *list, const char *begin, const char *code, const char *end) {
    if (list->n == list->capacity) {
        const size_t capacity = 2 * list->capacity + 64;
        definition *grown = realloc(list->all, capacity * sizeof(*grown));
        if (grown == NULL) {
            return sm_fail(SM_ERR_OOM, "no memory for a file of %zu definitions", capacity);
        }
        list->all = grown;
        list->capacity = capacity;
    }
    list->all[list->n++] = (definition){begin, code, end, find_name(code, end), false};
    return SM_OK;
}

static sm_status take_apart(sm_source file, definitions *list) {
    const char *end = file.data + file.n;
    const char *comment = NULL; // a comment that may belong to the next definition
    for (const char *p = file.data; p < end; p++) {
        if (*p == '\n') {
            comment = NULL;
        } else if (p + 1 < end && p[0] == '/' && p[1] == '/') {
            comment = comment == NULL ? p : comment;
            p = skip_line(p, end);
        } else {
            const char *code_end = *p == '#' ? end_of_directive(p, end) : end_of_code(p, end);
            code_end = skip_line(code_end, end);
            SM_TRY(add(list, comment == NULL ? p : comment, p, code_end));
            comment = NULL;
            p = code_end;
        }
    }
    return SM_OK;
}

// --- choosing --------------------------------------------------------------------------------------

static bool is_named(const definition *d, const char *name) {
    const size_t n = strlen(name);
    const bool is_beginning = n > 0 && name[n - 1] == '*';
    return is_beginning ? d->name.n >= n - 1 && memcmp(d->name.data, name, n - 1) == 0
                        : d->name.n == n && memcmp(d->name.data, name, n) == 0;
}

// The word by which others use it: for "REF(gelu)" the word in parentheses.
static sm_source used_as(const definition *d) {
    const char *open = d->name.n > 0 ? memchr(d->name.data, '(', d->name.n) : NULL;
    if (open == NULL) {
        return d->name;
    }
    return strncmp(d->name.data, "CPU_", 4) == 0 ? (sm_source){open, 0}
                                                 : (sm_source){open + 1, d->name.n - (size_t)(open - d->name.data) - 2};
}

static bool has_word(const char *p, const char *end, sm_source word) {
    while (word.n > 0 && p < end) {
        if (!is_word(*p)) {
            const char *behind = skip_opaque(p, end);
            p = behind != p ? behind : p + 1;
            continue;
        }
        const size_t n = (size_t)(skip_word(p, end) - p);
        if (n == word.n && memcmp(p, word.data, n) == 0) {
            return true;
        }
        p += n;
    }
    return false;
}

// Adds definitions that the chosen ones need, while there is room; returns whether it added any.
static bool choose_needed(definitions *list, size_t most_bytes, size_t *n_bytes) {
    bool any = false;
    for (size_t i = 0; i < list->n; i++) {
        const definition *user = &list->all[i];
        for (size_t k = 0; user->is_chosen && k < list->n; k++) {
            definition *d = &list->all[k];
            const size_t size = (size_t)(d->end - d->begin);
            if (!d->is_chosen && *n_bytes + size <= most_bytes && has_word(user->code, user->end, used_as(d))) {
                d->is_chosen = true;
                *n_bytes += size;
                any = true;
            }
        }
    }
    return any;
}

static size_t choose(definitions *list, const char *const *names, size_t most_bytes) {
    size_t n_bytes = 0;
    for (size_t i = 0; i < list->n; i++) {
        for (int k = 0; names[k] != NULL; k++) {
            list->all[i].is_chosen |= is_named(&list->all[i], names[k]);
        }
        n_bytes += list->all[i].is_chosen ? (size_t)(list->all[i].end - list->all[i].begin) : 0;
    }
    while (n_bytes > 0 && choose_needed(list, most_bytes, &n_bytes)) {
    }
    return n_bytes;
}

// A quick test: most files contain none of the names.
static bool may_have(sm_source file, const char *const *names) {
    for (int k = 0; names[k] != NULL; k++) {
        const size_t n = strlen(names[k]);
        if (memmem(file.data, file.n, names[k], n - (names[k][n - 1] == '*')) != NULL) {
            return true;
        }
    }
    return false;
}

sm_status sm_excerpt(sm_source file, const char *const *names, size_t most_bytes, char **text) {
    definitions list = {.n = 0};
    size_t size = 0;
    FILE *out = NULL;
    *text = NULL;
    if (!may_have(file, names)) {
        return SM_OK;
    }
    sm_status status = take_apart(file, &list);
    if (status != SM_OK || choose(&list, names, most_bytes) == 0) {
        goto cleanup;
    }
    out = open_memstream(text, &size);
    const char *last = NULL;
    for (size_t i = 0; out != NULL && i < list.n; i++) {
        if (list.all[i].is_chosen) {
            const char *gap = last == NULL || last + 1 == list.all[i].begin ? "" : "\n";
            fprintf(out, "%s%.*s\n", gap, (int)(list.all[i].end - list.all[i].begin), list.all[i].begin);
            last = list.all[i].end;
        }
    }
    const bool failed = out == NULL || ferror(out) != 0; // a memory stream runs out of memory only during writes
    if ((out != NULL && fclose(out) != 0) || failed) {
        free(*text);
        *text = NULL;
        status = sm_fail(SM_ERR_OOM, "no memory for an excerpt");
    }
cleanup:
    free(list.all);
    return status;
}
