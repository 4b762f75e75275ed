// tokenizer_write.c: the same vocabulary as tokenizer.json and as vocab.json with merges.txt.
#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/io/atomic_file.h"
#include "src/io/json_text.h"
#include "src/tokenizer/tokenizer.h"

// The text of a token in files; the caller frees it. NULL: out of memory.
static char *text_of(const sm_tokenizer *t, int32_t id) {
    const sm_token *token = &t->tokens[id];
    char *text = malloc(SM_ALPHABET_CHAR_BYTES * (size_t)token->n_bytes + 1);
    if (text == NULL) {
        return NULL;
    }
    size_t length = token->n_bytes;
    if (token->is_added) {
        memcpy(text, sm_token_bytes(t, id), length);
    } else {
        length = sm_byte_alphabet_write(sm_token_bytes(t, id), token->n_bytes, text);
    }
    text[length] = '\0';
    return text;
}

static char *merge_text(const sm_tokenizer *t, int32_t rank) {
    char *left = text_of(t, t->merges[rank].left);
    char *right = text_of(t, t->merges[rank].right);
    char *both = NULL;
    if (left != NULL && right != NULL && asprintf(&both, "%s %s", left, right) < 0) {
        both = NULL;
    }
    free(left);
    free(right);
    return both;
}

// NULL: out of memory, as for all functions here that make JSON.
static json_t *vocab_of(const sm_tokenizer *t) {
    json_t *vocab = json_object();
    for (int32_t id = 0; vocab != NULL && id < t->n_tokens; id++) {
        char *text = text_of(t, id);
        if (text == NULL || json_object_set_new(vocab, text, json_integer(id)) != 0) {
            json_decref(vocab);
            vocab = NULL;
        }
        free(text);
    }
    return vocab;
}

static json_t *merges_of(const sm_tokenizer *t) {
    json_t *merges = json_array();
    for (int32_t rank = 0; merges != NULL && rank < t->n_merges; rank++) {
        char *text = merge_text(t, rank);
        if (text == NULL || json_array_append_new(merges, json_string(text)) != 0) {
            json_decref(merges);
            merges = NULL;
        }
        free(text);
    }
    return merges;
}

static json_t *added_of(const sm_tokenizer *t) {
    json_t *added = json_array();
    for (int32_t id = 0; added != NULL && id < t->n_tokens; id++) {
        if (!t->tokens[id].is_added) {
            continue;
        }
        char *text = text_of(t, id);
        json_t *token = text == NULL
                            ? NULL
                            : json_pack("{s:i, s:s, s:b, s:b, s:b, s:b, s:b}", "id", id, "content", text, "single_word",
                                        0, "lstrip", 0, "rstrip", 0, "normalized", (int)t->tokens[id].is_normalized,
                                        "special", (int)t->tokens[id].is_special);
        if (token == NULL || json_array_append_new(added, token) != 0) {
            json_decref(added);
            added = NULL;
        }
        free(text);
    }
    return added;
}

static json_t *byte_level(void) {
    return json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 0, "trim_offsets", 1, "use_regex",
                     1);
}

static json_t *tokenizer_of(const sm_tokenizer *t) {
    json_t *model = json_pack("{s:s, s:n, s:n, s:n, s:n, s:b, s:b, s:b, s:o, s:o}", "type", "BPE", "dropout",
                              "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", 0,
                              "byte_fallback", 0, "ignore_merges", 0, "vocab", vocab_of(t), "merges", merges_of(t));
    return json_pack("{s:s, s:n, s:n, s:o, s:n, s:o, s:o, s:o, s:o}", "version", "1.0", "truncation", "padding",
                     "added_tokens", added_of(t), "normalizer", "pre_tokenizer", byte_level(), "post_processor",
                     byte_level(), "decoder", byte_level(), "model", model);
}

// --- files -----------------------------------------------------------------------------------------

// Frees `root`. NULL: out of memory.
static char *json_text(json_t *root, size_t flags) {
    char *text = json_dumps(root, flags);
    json_decref(root);
    return text;
}

static bool append_merges(const sm_tokenizer *t, FILE *file) {
    bool failed = fputs("#version: 0.2\n", file) == EOF;
    for (int32_t rank = 0; rank < t->n_merges && !failed; rank++) {
        char *text = merge_text(t, rank);
        failed = text == NULL || fprintf(file, "%s\n", text) < 0;
        free(text);
    }
    return !failed;
}

static char *merges_text(const sm_tokenizer *t) {
    char *text = NULL;
    size_t size_bytes = 0;
    FILE *file = open_memstream(&text, &size_bytes);
    bool is_whole = file != NULL && append_merges(t, file);
    if (file != NULL && fclose(file) != 0) {
        is_whole = false;
    }
    if (!is_whole) {
        free(text);
        return NULL;
    }
    return text;
}

// Writes under the temporary name; frees `text`.
static sm_status begin(const char *folder, const char *name, char *text, sm_atomic_file **file) {
    char path[PATH_MAX];
    sm_status status = SM_OK;
    SM_FAIL_IF(text == NULL, SM_ERR_OOM, "%s/%s: no memory to write it", folder, name);
    if (snprintf(path, PATH_MAX, "%s/%s", folder, name) >= PATH_MAX) {
        status = sm_fail(SM_ERR_IO, "%s/%s: too long a path", folder, name);
    }
    status = status == SM_OK ? sm_atomic_open(path, file) : status;
    status = status == SM_OK ? sm_atomic_write(*file, text, strlen(text)) : status;
    free(text);
    return status;
}

// With it AutoTokenizer takes tokenizer.json whatever the model's kind is.
static json_t *config_of(const sm_tokenizer *t) {
    json_t *config =
        json_pack("{s: s, s: b}", "tokenizer_class", "PreTrainedTokenizerFast", "clean_up_tokenization_spaces", 0);
    if (t->end_of_text != SM_NO_ID) {
        json_object_set_new(config, "eos_token", json_string("<|endoftext|>"));
    }
    return config;
}

sm_status sm_tokenizer_write(const sm_tokenizer *t, const char *folder) {
    enum { N_FILES = 4 };
    sm_atomic_file *files[N_FILES] = {NULL};
    sm_status status = SM_OK;
    SM_TRY_GOTO(sm_make_folder(folder));
    SM_TRY_GOTO(begin(folder, "vocab.json", json_text(vocab_of(t), JSON_COMPACT), &files[0]));
    SM_TRY_GOTO(begin(folder, "merges.txt", merges_text(t), &files[1]));
    SM_TRY_GOTO(begin(folder, "tokenizer_config.json", json_text(config_of(t), JSON_INDENT(1)), &files[2]));
    SM_TRY_GOTO(begin(folder, "tokenizer.json", json_text(tokenizer_of(t), JSON_INDENT(1)), &files[3]));
    for (int i = 0; i < N_FILES; i++) { // tokenizer.json last: readers look for it first
        sm_atomic_file *file = files[i];
        files[i] = NULL;
        SM_TRY_GOTO(sm_atomic_commit(file));
    }
cleanup:
    for (int i = 0; i < N_FILES; i++) {
        sm_atomic_abandon(files[i]);
    }
    return status;
}
