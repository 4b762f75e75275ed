// tokenizer_read.c: Hugging Face's tokenizer.json, and GPT-2's own vocab.json with merges.txt. In both, the vocabulary
// is an object from text (sm_byte_alphabet_write) to id, and merges are pairs of such texts.
#include <errno.h>
#include <limits.h>
#include <sys/stat.h>

#include "src/io/input_file.h"
#include "src/io/json_text.h"
#include "src/tokenizer/tokenizer.h"

enum { MAX_FILE_BYTES = 1 << 28, MAX_SHOWN = 40 };

// The state of reading.
typedef struct {
    const char *path;
    const json_t *vocab;
    sm_tokenizer *tokenizer;
} reading;

// The part of a text from a file that may be shown in a message.
static const char *shown(const char *text) { return sm_is_printable(text) ? text : "(control characters)"; }

// Prepends the path to the last message.
static sm_status in_file(const reading *r, sm_status status) {
    return status == SM_OK ? SM_OK : sm_fail(status, "%s: %s", r->path, sm_error_message());
}

// --- added tokens --------------------------------------------------------------------------
//
// The files of a folder list them in five ways:
//
//     tokenizer.json            "added_tokens": [{"id": ..., "content": ..., "special": ..., "normalized": ...}, ...]
//     tokenizer_config.json     "added_tokens_decoder": {"ID": {"content": ...}, ...}; and names: "pad_token": "<pad>"
//     added_tokens.json         {"CONTENT": ID, ...}      } read only if tokenizer_config.json has no
//     special_tokens_map.json   {"pad_token": "<pad>"}    } added_tokens_decoder
//     vocab.json                any text of the vocabulary
//
// As in transformers, the first place that lists a content describes it, and one without an id gets the next id.

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

// Refuses keys that are not absent, null, false, zero or empty; `what` precedes a key in the message. NULL ends them.
static sm_status check_off(const char *path, const json_t *object, const char *what, const char *const *keys) {
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
    SM_FAIL_IF((special != NULL && !json_is_boolean(special)) || (normalized != NULL && !json_is_boolean(normalized)),
               SM_ERR_FORMAT, "%s: added token %zu: its 'special' or 'normalized' is neither true nor false", c->path,
               json_array_size(c->list));
    SM_TRY(check_off(c->path, token, "an added token's ", off));
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
} listed_token;

static int by_id(const void *left, const void *right) {
    const json_int_t a = json_integer_value(((const listed_token *)left)->id);
    const json_int_t b = json_integer_value(((const listed_token *)right)->id);
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
    SM_FREED listed_token *all = sm_calloc(n + 1, sizeof *all);
    json_auto_t *made = json_array(); // keys as contents or ids
    const char *key;
    json_t *value;
    size_t i = 0;
    json_object_foreach((json_t *)object, key, value) {
        json_t *of_key = by_content ? json_string(key) : id_of_key(key);
        json_array_append_new(made, of_key);
        all[i++] = by_content ? (listed_token){value, of_key} : (listed_token){of_key, value};
    }
    qsort(all, n, sizeof *all, by_id);
    for (i = 0; i < n; i++) {
        const bool is_special = json_object_get(special, json_string_value(all[i].token)) != NULL;
        SM_TRY(add(c, all[i].token, all[i].id, is_special));
    }
    return SM_OK;
}

// A value that is there must have the type that it is read as.
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
    return folder != NULL && sm_file_is_in(folder, name, path) ? sm_json_read(path, MAX_FILE_BYTES, root) : SM_OK;
}

// vocab.json and merges.txt do not say how text is cut into pieces; the class does. Since transformers 5.0 some classes
// cut in another way than the tokenizer.json next to them says.
static sm_status check_class(const char *path, const json_t *config, bool is_pair) {
    static const char as_gpt2[] = " GPT2 CodeGen PreTrained  "; // classes up to "Tokenizer"; TokenizersBackend
    static const char otherwise[] = " Bart Blenderbot CLIP Cohere Deberta LED Luke Mvp Qwen2 Qwen3_5 Roberta Whisper ";
    const char *class = json_string_value(json_object_get(config, "tokenizer_class"));
    const char *end = class != NULL ? strstr(class, "Tokenizer") : NULL;
    SM_FREED char *word = end != NULL ? sm_text_of(" %.*s ", (int)(end - class), class) : sm_strdup("?");
    const bool is_listed = strstr(is_pair ? as_gpt2 : otherwise, word) != NULL;
    SM_FAIL_IF(class != NULL && is_listed != is_pair, SM_ERR_UNSUPPORTED,
               "%s: tokenizer_class is '%.64s'; only GPT2Tokenizer is supported%s", path,
               sm_is_printable(class) ? class : "?", is_pair ? ", or a tokenizer.json" : "");
    return SM_OK;
}

static void free_collection(collection *c) {
    json_decref(c->contents);
    json_decref(c->list);
}

// Collects {"content", "id" (if listed), "special", "normalized"} in the order of transformers.
// `folder` may be NULL (no other files), and so may `tokenizer`, the root of tokenizer.json at c->path. Refuses
// settings that would change the ids.
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
    SM_TRY(check_off(config_path, config, "", off));
    SM_TRY(check_class(config_path, config, tokenizer == NULL));
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

// --- vocabulary ----------------------------------------------------------------------------

static bool is_added_as(const sm_tokenizer *t, json_int_t id, const char *text) {
    return id >= 0 && id < t->n_tokens && t->tokens[id].is_added && t->tokens[id].n_bytes == strlen(text) &&
           memcmp(sm_token_bytes(t, (int32_t)id), text, strlen(text)) == 0;
}

static sm_status read_token(const reading *r, const char *text, const json_t *value) {
    const size_t length = strlen(text);
    const json_int_t id = json_is_integer(value) ? json_integer_value(value) : -1;
    const bool is_added = is_added_as(r->tokenizer, id, text);
    size_t n_bytes;
    SM_FREED uint8_t *bytes = sm_malloc(length + 1);
    const bool is_bytes = sm_byte_alphabet_read(text, length, bytes, &n_bytes);
    SM_FAIL_IF(!json_is_integer(value), SM_ERR_FORMAT, "%s: token '%.*s': its id is not a whole number", r->path,
               MAX_SHOWN, shown(text));
    SM_FAIL_IF(!is_bytes && !is_added, SM_ERR_UNSUPPORTED,
               "%s: token '%.*s' is not of GPT-2's alphabet of bytes: not a byte-level vocabulary", r->path, MAX_SHOWN,
               shown(text));
    SM_FAIL_IF(is_bytes && is_added && (n_bytes != length || memcmp(bytes, text, length) != 0), SM_ERR_UNSUPPORTED,
               "%s: token '%.*s' is an added token as text, and stands for other bytes in the vocabulary", r->path,
               MAX_SHOWN, shown(text));
    return is_bytes ? in_file(r, sm_tokenizer_set(r->tokenizer, id, bytes, n_bytes)) : SM_OK;
}

// The id of a text in the vocabulary, or SM_NO_ID.
static int32_t find(const reading *r, const char *text, size_t length) {
    const json_t *value = json_object_getn(r->vocab, text, length);
    return value != NULL ? (int32_t)json_integer_value(value) : SM_NO_ID;
}

// --- merges --------------------------------------------------------------------------------

// "left right", or `left` and `right` separately; number and unit ("merge", "line") are for messages.
typedef struct {
    const char *left, *right;
    size_t left_length, right_length;
    const char *unit;
    long long number;
} merge_text;

static sm_status unknown(const reading *r, const merge_text *m, const char *text, size_t length) {
    return sm_fail(SM_ERR_FORMAT, "%s: %s %lld names '%s', which is not in the vocabulary", r->path, m->unit, m->number,
                   shown(SM_TEXT_IN(MAX_SHOWN + 1, "%.*s", (int)(length < MAX_SHOWN ? length : MAX_SHOWN), text)));
}

static sm_status read_merge(const reading *r, const merge_text *m) {
    const size_t length = m->left_length + m->right_length;
    const int32_t left = find(r, m->left, m->left_length);
    const int32_t right = find(r, m->right, m->right_length);
    if (left == SM_NO_ID || right == SM_NO_ID) {
        return left == SM_NO_ID ? unknown(r, m, m->left, m->left_length) : unknown(r, m, m->right, m->right_length);
    }
    SM_FREED char *both = sm_malloc(length + 1);
    memcpy(both, m->left, m->left_length);
    memcpy(both + m->left_length, m->right, m->right_length);
    const int32_t result = find(r, both, length);
    return result == SM_NO_ID ? unknown(r, m, both, length)
                              : in_file(r, sm_tokenizer_add_merge(r->tokenizer, left, right, result));
}

static sm_status split_merge(const reading *r, const char *text, size_t length, merge_text *m) {
    const char *space = memchr(text, ' ', length);
    const size_t left_length = space != NULL ? (size_t)(space - text) : 0;
    const size_t right_length = space != NULL ? length - left_length - 1 : 0;
    SM_FAIL_IF(left_length == 0 || right_length == 0 || memchr(space + 1, ' ', right_length) != NULL, SM_ERR_FORMAT,
               "%s: %s %lld is not two tokens with a space between them", r->path, m->unit, m->number);
    m->left = text;
    m->left_length = left_length;
    m->right = space + 1;
    m->right_length = right_length;
    return SM_OK;
}

// Merges in tokenizer.json: "left right" or, since 2024, ["left", "right"].
static sm_status read_json_merges(const reading *r, const json_t *merges) {
    size_t i;
    json_t *value;
    SM_FAIL_IF(!json_is_array(merges), SM_ERR_FORMAT, "%s: model.merges is not an array", r->path);
    json_array_foreach(merges, i, value) {
        merge_text m = {.unit = "merge", .number = (long long)i};
        const json_t *left = json_array_get(value, 0);
        const json_t *right = json_array_get(value, 1);
        if (json_is_string(value)) {
            SM_TRY(split_merge(r, json_string_value(value), json_string_length(value), &m));
        } else if (json_array_size(value) == 2 && json_is_string(left) && json_is_string(right)) {
            m.left = json_string_value(left);
            m.left_length = json_string_length(left);
            m.right = json_string_value(right);
            m.right_length = json_string_length(right);
        } else {
            return sm_fail(SM_ERR_FORMAT, "%s: merge %zu is neither a text nor two", r->path, i);
        }
        SM_TRY(read_merge(r, &m));
    }
    return SM_OK;
}

static sm_status read_merge_lines(reading *r, const char *path) {
    SM_FREED char *text = NULL;
    size_t n;
    long long number = 0;
    r->path = path;
    SM_TRY(sm_input_whole(path, MAX_FILE_BYTES, &text, &n));
    for (const char *line = text, *end = text + n; line < end;) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        size_t length = (size_t)((newline != NULL ? newline : end) - line);
        merge_text m = {.unit = "line", .number = ++number};
        const char *next = newline != NULL ? newline + 1 : end;
        if (length > 0 && line[length - 1] == '\r') {
            length--;
        }
        const bool is_version = length >= 8 && memcmp(line, "#version", 8) == 0;
        if (length > 0 && !is_version) {
            SM_TRY(split_merge(r, line, length, &m));
            SM_TRY(read_merge(r, &m));
        }
        line = next;
    }
    return SM_OK;
}

// --- tokenizer.json ------------------------------------------------------------------------

// A post-processor may add tokens around a text; only those that add none are as GPT-2's.
static sm_status check_post_processor(const reading *r, const json_t *post) {
    const char *type = json_string_value(json_object_get(post, "type"));
    const json_t *steps = json_object_get(post, "processors");
    const json_t *single = json_object_get(post, "single");
    const json_t *sequence = json_object_get(json_array_get(single, 0), "Sequence");
    const char *id = json_string_value(json_object_get(sequence, "id"));
    const bool is_plain_template = type != NULL && strcmp(type, "TemplateProcessing") == 0 &&
                                   json_array_size(single) == 1 && id != NULL && strcmp(id, "A") == 0;
    if (post == NULL || json_is_null(post) || (type != NULL && strcmp(type, "ByteLevel") == 0) || is_plain_template) {
        return SM_OK;
    }
    SM_FAIL_IF(type == NULL || strcmp(type, "Sequence") != 0 || !json_is_array(steps), SM_ERR_UNSUPPORTED,
               "%s: post_processor is %.*s, which adds tokens; only tokenizers like GPT-2's are supported", r->path,
               MAX_SHOWN, type != NULL ? shown(type) : "of no type");
    size_t i;
    json_t *step;
    json_array_foreach(steps, i, step) { SM_TRY(check_post_processor(r, step)); }
    return SM_OK;
}

// Checks that it treats text as GPT-2's tokenizer does.
static sm_status check_kind(const reading *r, const json_t *root) {
    static const char *const of_root[] = {"normalizer", NULL};
    static const char *const of_cuts[] = {"add_prefix_space", NULL};
    static const char *const of_model[] = {"dropout", "continuing_subword_prefix", "end_of_word_suffix",
                                           "ignore_merges", NULL};
    const json_t *cuts = json_object_get(root, "pre_tokenizer");
    const json_t *model = json_object_get(root, "model");
    const char *cut_type = json_string_value(json_object_get(cuts, "type"));
    const char *model_type = json_string_value(json_object_get(model, "type"));
    const char *version = json_string_value(json_object_get(root, "version"));
    const json_t *regex = json_object_get(cuts, "use_regex");
    SM_FAIL_IF(version != NULL && strcmp(version, "1.0") != 0, SM_ERR_UNSUPPORTED,
               "%s: version %.*s of tokenizer.json; only 1.0 is supported", r->path, MAX_SHOWN, shown(version));
    SM_FAIL_IF(!json_is_object(model), SM_ERR_FORMAT, "%s: has no object 'model'", r->path);
    SM_FAIL_IF(model_type != NULL && strcmp(model_type, "BPE") != 0, SM_ERR_UNSUPPORTED,
               "%s: a model of type '%.*s'; only BPE is supported", r->path, MAX_SHOWN, shown(model_type));
    SM_FAIL_IF(cut_type == NULL || strcmp(cut_type, "ByteLevel") != 0 || (regex != NULL && !json_is_true(regex)),
               SM_ERR_UNSUPPORTED, "%s: pre_tokenizer is not ByteLevel; only GPT-2's is supported", r->path);
    SM_TRY(check_off(r->path, root, "", of_root));
    SM_TRY(check_off(r->path, cuts, "pre_tokenizer.", of_cuts));
    SM_TRY(check_post_processor(r, json_object_get(root, "post_processor")));
    return check_off(r->path, model, "model.", of_model);
}

// The ids of added tokens that the vocabulary does not have, by their contents: the next ones, in the list's order.
static json_t *number_beyond(const json_t *vocab, const json_t *added) {
    json_t *beyond = json_object();
    size_t i;
    json_t *token;
    json_array_foreach(added, i, token) {
        const char *content = json_string_value(json_object_get(token, "content"));
        if (json_object_get(vocab, content) == NULL && json_object_get(beyond, content) == NULL) {
            const size_t id = json_object_size(vocab) + json_object_size(beyond);
            json_object_set_new(beyond, content, json_integer((json_int_t)id));
        }
    }
    return beyond;
}

static sm_status read_added_token(const reading *r, const json_t *token, const json_t *beyond) {
    const char *content = json_string_value(json_object_get(token, "content"));
    const json_t *of_vocab = json_object_get(r->vocab, content);
    const json_int_t id = json_integer_value(of_vocab != NULL ? of_vocab : json_object_get(beyond, content));
    const json_t *listed = json_object_get(token, "id");
    SM_FAIL_IF(listed != NULL && json_integer_value(listed) != id, SM_ERR_FORMAT,
               "%s: added token '%.*s' is listed with the id %lld, and would get %lld", r->path, MAX_SHOWN,
               shown(content), (long long)json_integer_value(listed), (long long)id);
    if (is_added_as(r->tokenizer, id, content)) {
        return SM_OK;
    }
    return in_file(r, sm_tokenizer_set_added(r->tokenizer, id, (const uint8_t *)content, strlen(content),
                                             json_is_true(json_object_get(token, "special")),
                                             json_is_true(json_object_get(token, "normalized"))));
}

// Reads `root`: tokenizer.json, or a vocabulary whose merges are in another file.
static sm_status read_root(reading *r, const json_t *root, const char *folder, const char *merges_path) {
    const bool is_pair = merges_path[0] != '\0';
    const json_t *model = json_object_get(root, "model");
    SM_AT_END(free_collection) collection collected = {r->path, json_array(), json_object()};
    json_t *added = collected.list;
    r->vocab = is_pair ? root : json_object_get(model, "vocab");
    SM_TRY(is_pair ? SM_OK : check_kind(r, root));
    SM_FAIL_IF(!json_is_object(r->vocab), SM_ERR_FORMAT, "%s: model.vocab is not an object", r->path);
    SM_TRY(collect(&collected, folder, is_pair ? NULL : root));
    if (json_object_get(r->vocab, SM_END_OF_TEXT) != NULL) { // GPT2Tokenizer's own
        json_array_append_new(added,
                              json_pack("{s:s, s:b, s:b}", "content", SM_END_OF_TEXT, "special", 1, "normalized", 0));
    }
    json_auto_t *beyond = number_beyond(r->vocab, added);
    const int64_t n_tokens = (int64_t)(json_object_size(r->vocab) + json_object_size(beyond));
    size_t i;
    const char *text;
    json_t *token;
    SM_TRY(in_file(r, sm_tokenizer_new(n_tokens, &r->tokenizer)));
    json_array_foreach(added, i, token) { SM_TRY(read_added_token(r, token, beyond)); }
    json_object_foreach((json_t *)r->vocab, text, token) { SM_TRY(read_token(r, text, token)); }
    return is_pair ? read_merge_lines(r, merges_path) : read_json_merges(r, json_object_get(model, "merges"));
}

// --- which files ---------------------------------------------------------------------------

// The first pair of files that a folder has.
static bool find_files(const char *folder, char first[PATH_MAX], char second[PATH_MAX]) {
    static const char *const file_pairs[][2] = {
        {"tokenizer.json", NULL}, {"vocab.json", "merges.txt"}, {"encoder.json", "vocab.bpe"}};
    for (size_t i = 0; i < SM_COUNT(file_pairs); i++) {
        second[0] = '\0';
        if (sm_file_is_in(folder, file_pairs[i][0], first) &&
            (file_pairs[i][1] == NULL || sm_file_is_in(folder, file_pairs[i][1], second))) {
            return true;
        }
    }
    return false;
}

bool sm_tokenizer_is_in(const char *folder) {
    char first[PATH_MAX];
    char second[PATH_MAX];
    return find_files(folder, first, second);
}

static sm_status read_files(const char *folder, const char *first, const char *second, sm_tokenizer **tokenizer) {
    json_auto_t *root = NULL;
    reading r = {.path = first};
    SM_TRY(sm_json_read(first, MAX_FILE_BYTES, &root));
    sm_status status = read_root(&r, root, folder, second);
    SM_OWN(sm_tokenizer) *made = r.tokenizer;
    r.path = first;
    SM_TRY(status);
    SM_TRY(in_file(&r, sm_tokenizer_finish(made)));
    *tokenizer = sm_give(&made);
    return SM_OK;
}

sm_status sm_tokenizer_read(const char *path, sm_tokenizer **tokenizer) {
    char first[PATH_MAX];
    char second[PATH_MAX];
    struct stat info;
    *tokenizer = NULL;
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode)) {
        SM_FAIL_IF(!find_files(path, first, second), SM_ERR_IO,
                   "%s: holds no tokenizer.json, and no vocab.json with merges.txt", path);
        return read_files(path, first, second, tokenizer);
    }
    return read_files(NULL, path, "", tokenizer);
}
