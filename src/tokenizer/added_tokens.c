// added_tokens.c: see added_tokens.h.
#include "src/tokenizer/added_tokens.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "words.h"
#include "src/io/input_file.h"
#include "src/io/json_text.h"

enum { MAX_FILE_BYTES = 1 << 28 };

// transformers' names of tokens, in its order.
static const char *const named[] = {"bos_token", "eos_token", "unk_token",  "sep_token",
                                    "pad_token", "cls_token", "mask_token", NULL};
// The state of collecting.
typedef struct {
    const char *path; // of the file that is read
    json_t *list;
    json_t *contents; // of the list, as keys
} collection;

static bool is_off(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    return value == NULL || json_is_null(value) || json_is_false(value) ||
           (json_is_string(value) && json_string_length(value) == 0) ||
           (json_is_number(value) && json_number_value(value) == 0);
}

sm_status sm_tokenizer_check_off(const char *path, const json_t *object, const char *what, const char *const *keys) {
    for (; *keys != NULL; keys++) {
        SM_FAIL_IF(!is_off(object, *keys), SM_ERR_UNSUPPORTED,
                   "%s: %s%s is set; only tokenizers like GPT-2's are supported", path, what, *keys);
    }
    return SM_OK;
}

// Adds a token: its content, or an object. `id` may be NULL. `is_special` holds where the object does not say.
static sm_status add(collection *c, const json_t *token, const json_t *id, bool is_special) {
    static const char *const off[] = {"single_word", "lstrip", "rstrip", NULL};
    const json_t *content = json_is_object(token) ? json_object_get(token, "content") : token;
    const json_t *special = json_object_get(token, "special");
    const json_t *normalized = json_object_get(token, "normalized");
    SM_FAIL_IF(!json_is_string(content) || (id != NULL && !json_is_integer(id)), SM_ERR_FORMAT,
               "%s: added token %zu lacks a text 'content', or its id is not a whole number", c->path,
               json_array_size(c->list));
    SM_TRY(sm_tokenizer_check_off(c->path, token, "an added token's ", off));
    if (id == NULL && json_object_get(c->contents, json_string_value(content)) != NULL) {
        return SM_OK;
    }
    is_special = special != NULL ? json_is_true(special) : is_special;
    const bool is_normalized = normalized != NULL ? json_is_true(normalized) : !is_special;
    json_t *added = json_pack("{s:O, s:b, s:b, s:O*}", "content", content, "special", (int)is_special, "normalized",
                              (int)is_normalized, "id", id);
    json_array_append_new(c->list, added);
    json_object_set_new(c->contents, json_string_value(content), json_true());
    return SM_OK;
}

// An id and what to add for it.
typedef struct {
    const json_t *id, *token;
} listed;

static int by_id(const void *left, const void *right) {
    const json_int_t a = json_integer_value(((const listed *)left)->id);
    const json_int_t b = json_integer_value(((const listed *)right)->id);
    return a < b ? -1 : a > b;
}

// The id that a key's text is, a new value.
static json_t *id_of_key(const char *key) {
    char *end;
    errno = 0;
    const long long id = strtoll(key, &end, 10);
    return key[0] >= '0' && key[0] <= '9' && *end == '\0' && errno == 0 ? json_integer(id) : json_null();
}

// Adds those of {"ID": token, ...}, or of {"content": id, ...}, in the order of ids. `special`: contents as keys.
static sm_status add_listed(collection *c, const json_t *object, bool by_content, const json_t *special) {
    const size_t n = json_object_size(object);
    SM_FREED listed *all = sm_calloc(n + 1, sizeof *all);
    json_auto_t *made = json_array(); // keys as contents or ids
    const char *key;
    json_t *value;
    size_t i = 0;
    json_object_foreach((json_t *)object, key, value) {
        json_t *of_key = by_content ? json_string(key) : id_of_key(key);
        json_array_append_new(made, of_key);
        all[i++] = by_content ? (listed){value, of_key} : (listed){of_key, value};
    }
    qsort(all, n, sizeof *all, by_id);
    for (i = 0; i < n; i++) {
        const bool is_special = json_object_get(special, json_string_value(all[i].token)) != NULL;
        SM_TRY(add(c, all[i].token, all[i].id, is_special));
    }
    return SM_OK;
}

// What is there must be what it is read as.
static sm_status check_list(const char *path, const json_t *value, bool is_list, const char *key) {
    SM_FAIL_IF(value != NULL && !json_is_null(value) && !is_list, SM_ERR_FORMAT, "%s: %s is no list of tokens", path,
               key);
    return SM_OK;
}

// Adds the tokens that `config` names: transformers' names, other names, a list. `is_all` false: without those that
// added_tokens.json may list as not special.
static sm_status add_named(collection *c, const json_t *config, bool is_all) {
    const char *key;
    json_t *value;
    size_t k;
    json_t *extra = json_object_get(config, "extra_special_tokens");
    const json_t *older = json_object_get(config, "additional_special_tokens");
    SM_TRY(check_list(c->path, extra, json_is_array(extra) || json_is_object(extra), "extra_special_tokens"));
    SM_TRY(check_list(c->path, older, json_is_array(older), "additional_special_tokens"));
    for (int i = 0; named[i] != NULL; i++) {
        value = json_object_get(config, named[i]);
        SM_TRY(value == NULL || json_is_null(value) ? SM_OK : add(c, value, NULL, true));
    }
    json_object_foreach((json_t *)config, key, value) {
        const bool is_token = json_is_string(value) || json_is_object(value);
        SM_TRY(is_all && strlen(key) > 6 && sm_ends_with(key, "_token") && is_token ? add(c, value, NULL, true)
                                                                                    : SM_OK);
    }
    if (is_all) {
        json_object_foreach(extra, key, value) { SM_TRY(add(c, value, NULL, true)); }
        extra = extra != NULL ? extra : json_object_get(config, "additional_special_tokens"); // its older name
    }
    json_array_foreach(extra, k, value) { SM_TRY(add(c, value, NULL, true)); }
    return SM_OK;
}

// The root of a file of the folder; NULL if there is none.
static sm_status read_other(const char *folder, const char *name, char path[PATH_MAX], json_t **root) {
    *root = NULL;
    return folder != NULL && snprintf(path, PATH_MAX, "%s/%s", folder, name) < PATH_MAX && access(path, F_OK) == 0
               ? sm_json_read(path, MAX_FILE_BYTES, root)
               : SM_OK;
}

// vocab.json and merges.txt do not say how text is cut into pieces; the class does.
static sm_status check_class(const char *path, const json_t *config) {
    static const char *const known[] = {"GPT2Tokenizer",     "GPT2TokenizerFast",       "CodeGenTokenizer",
                                        "TokenizersBackend", "PreTrainedTokenizerFast", NULL};
    const char *class = json_string_value(json_object_get(config, "tokenizer_class"));
    for (int i = 0; class != NULL && known[i] != NULL; i++) {
        class = strcmp(class, known[i]) == 0 ? NULL : class;
    }
    SM_FAIL_IF(class != NULL, SM_ERR_UNSUPPORTED,
               "%s: tokenizer_class is '%.64s'; only GPT2Tokenizer is supported, or a tokenizer.json", path,
               sm_is_printable(class) ? class : "?");
    return SM_OK;
}

static void free_collection(collection *c) {
    json_decref(c->contents);
    json_decref(c->list);
}

static sm_status collect(collection *c, const char *folder, const json_t *tokenizer) {
    static const char *const off[] = {"add_prefix_space", "add_bos_token", "add_eos_token", "split_special_tokens",
                                      NULL};
    char config_path[PATH_MAX];
    char map_path[PATH_MAX];
    char added_path[PATH_MAX];
    json_auto_t *config = NULL;
    json_auto_t *map = NULL;
    json_auto_t *added = NULL;
    json_t *token;
    size_t i;
    SM_AT_END(free_collection) collection names = {config_path, json_array(), json_object()};
    const json_t *own = json_object_get(tokenizer, "added_tokens");
    SM_TRY(check_list(c->path, own, json_is_array(own), "added_tokens"));
    json_array_foreach(own, i, token) {
        json_t *id = json_object_get(token, "id");
        SM_TRY(add(c, token, id != NULL ? id : json_null(), false));
    }
    SM_TRY(read_other(folder, "tokenizer_config.json", config_path, &config));
    c->path = config_path;
    SM_TRY(sm_tokenizer_check_off(config_path, config, "", off));
    SM_TRY(tokenizer == NULL ? check_class(config_path, config) : SM_OK);
    const json_t *decoder = json_object_get(config, "added_tokens_decoder");
    SM_TRY(check_list(config_path, decoder, json_is_object(decoder), "added_tokens_decoder"));
    if (decoder == NULL) {
        SM_TRY(read_other(folder, "special_tokens_map.json", map_path, &map));
        SM_TRY(read_other(folder, "added_tokens.json", added_path, &added));
    }
    config = config != NULL ? config : json_object();
    if (map != NULL) {
        json_object_update(config, map); // its names win
    }
    SM_TRY(add_named(&names, config, false));
    SM_TRY(add_listed(c, decoder, false, NULL));
    c->path = added != NULL ? added_path : config_path;
    SM_TRY(add_listed(c, added, true, names.contents));
    c->path = config_path;
    return add_named(c, config, true);
}

sm_status sm_added_tokens_list(const char *folder, const char *path, const json_t *tokenizer, json_t **list) {
    SM_AT_END(free_collection) collection c = {path, json_array(), json_object()};
    *list = NULL;
    SM_TRY(collect(&c, folder, tokenizer));
    *list = json_incref(c.list);
    return SM_OK;
}
