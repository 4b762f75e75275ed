// tokenizer_write.c: the same vocabulary as tokenizer.json and as vocab.json with merges.txt.
#include <limits.h>

#include "src/io/atomic_file.h"
#include "src/io/json_text.h"
#include "src/tokenizer/tokenizer.h"

// The text of a token in files; the caller frees it.
static char *text_of(const sm_tokenizer *t, int32_t id) {
    const sm_token *token = &t->tokens[id];
    if (token->is_added) {
        return sm_text_of("%.*s", (int)token->n_bytes, (const char *)sm_token_bytes(t, id));
    }
    char *text = sm_malloc(SM_ALPHABET_CHAR_BYTES * (size_t)token->n_bytes + 1);
    text[sm_byte_alphabet_write(sm_token_bytes(t, id), token->n_bytes, text)] = '\0';
    return text;
}

static char *merge_text(const sm_tokenizer *t, int32_t rank) {
    SM_FREED char *left = text_of(t, t->merges[rank].left);
    SM_FREED char *right = text_of(t, t->merges[rank].right);
    return sm_text_of("%s %s", left, right);
}

static json_t *vocab_of(const sm_tokenizer *t) {
    json_t *vocab = json_object();
    for (int32_t id = 0; id < t->n_tokens; id++) {
        SM_FREED char *text = text_of(t, id);
        json_object_set_new(vocab, text, json_integer(id));
    }
    return vocab;
}

static json_t *added_of(const sm_tokenizer *t) {
    json_t *added = json_array();
    for (int32_t id = 0; id < t->n_tokens; id++) {
        if (t->tokens[id].is_added) {
            SM_FREED char *text = text_of(t, id);
            json_array_append_new(added, json_pack("{s:i, s:s, s:b, s:b, s:b, s:b, s:b}", "id", id, "content", text,
                                                   "single_word", 0, "lstrip", 0, "rstrip", 0, "normalized",
                                                   (int)t->tokens[id].is_normalized, "special",
                                                   (int)t->tokens[id].is_special));
        }
    }
    return added;
}

static json_t *byte_level(void) {
    return json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 0, "trim_offsets", 1, "use_regex",
                     1);
}

static json_t *tokenizer_of(const sm_tokenizer *t) {
    json_t *merges = json_array();
    for (int32_t rank = 0; rank < t->n_merges; rank++) {
        SM_FREED char *text = merge_text(t, rank);
        json_array_append_new(merges, json_string(text));
    }
    json_t *model = json_pack("{s:s, s:n, s:n, s:n, s:n, s:b, s:b, s:b, s:o, s:o}", "type", "BPE", "dropout",
                              "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", 0,
                              "byte_fallback", 0, "ignore_merges", 0, "vocab", vocab_of(t), "merges", merges);
    return json_pack("{s:s, s:n, s:n, s:o, s:n, s:o, s:o, s:o, s:o}", "version", "1.0", "truncation", "padding",
                     "added_tokens", added_of(t), "normalizer", "pre_tokenizer", byte_level(), "post_processor",
                     byte_level(), "decoder", byte_level(), "model", model);
}

static char *merges_text(const sm_tokenizer *t) {
    char *all = NULL;
    size_t size_bytes;
    FILE *file = sm_memstream(&all, &size_bytes);
    fputs("#version: 0.2\n", file);
    for (int32_t rank = 0; rank < t->n_merges; rank++) {
        SM_FREED char *text = merge_text(t, rank);
        fprintf(file, "%s\n", text);
    }
    sm_memstream_close(file);
    return all;
}

// Writes under the temporary name; frees `text`.
static sm_status begin(const char *folder, const char *name, char *text, sm_atomic_file **file) {
    SM_FREED char *owned = text;
    char path[PATH_MAX];
    SM_TRY(sm_make_path(path, "%s/%s", folder, name));
    SM_TRY(sm_atomic_open(path, file));
    return sm_atomic_write(*file, owned, strlen(owned));
}

static sm_status begin_json(const char *folder, const char *name, json_t *root, size_t flags, sm_atomic_file **file) {
    char *text = json_dumps(root, flags);
    json_decref(root);
    return begin(folder, name, text, file);
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
    SM_OWN(sm_atomic_file) *vocab = NULL;
    SM_OWN(sm_atomic_file) *merges = NULL;
    SM_OWN(sm_atomic_file) *config = NULL;
    SM_OWN(sm_atomic_file) *tokenizer = NULL;
    SM_TRY(sm_make_folder(folder));
    SM_TRY(begin_json(folder, "vocab.json", vocab_of(t), JSON_COMPACT, &vocab));
    SM_TRY(begin(folder, "merges.txt", merges_text(t), &merges));
    SM_TRY(begin_json(folder, "tokenizer_config.json", config_of(t), JSON_INDENT(1), &config));
    SM_TRY(begin_json(folder, "tokenizer.json", tokenizer_of(t), JSON_INDENT(1), &tokenizer));
    SM_TRY(sm_atomic_commit(vocab));
    SM_TRY(sm_atomic_commit(merges));
    SM_TRY(sm_atomic_commit(config));
    return sm_atomic_commit(tokenizer); // last: readers look for it first
}
