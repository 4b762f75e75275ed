// tuning.c: saves choices in one JSON file for each key:
//
//     {"stepmark_tuning": 1, "key": "...", "choices": {"NAME": "VALUE", ...}}
#include <jansson.h>

#include "backends/host/cache.h"
#include "backends/host/tuning.h"

enum { FORMAT = 1 };

static const char build[] = "; build " SM_BUILD_COMMIT;

struct host_tuning {
    char *key;
    char path[PATH_MAX]; // "" if there is no cache folder
    json_t *choices;     // name -> value
    bool changed;
    char warning[256];
};

#define WARN(tuning, ...) \
    (void)((tuning)->warning[0] == '\0' ? snprintf((tuning)->warning, sizeof(tuning)->warning, __VA_ARGS__) : 0)

// The choices in a file's document, or NULL with its error.
static json_t *check_document(const host_tuning *tuning, json_t *document, const char **wrong) {
    const char *key = json_string_value(json_object_get(document, "key"));
    json_t *choices = json_object_get(document, "choices");
    const char *name;
    json_t *value;
    *wrong = "is not a file of choices";
    if (json_integer_value(json_object_get(document, "stepmark_tuning")) != FORMAT || key == NULL ||
        !json_is_object(choices)) {
        return NULL;
    }
    json_object_foreach(choices, name, value) {
        if (!json_is_string(value)) {
            return NULL;
        }
    }
    *wrong = "is of another device or build";
    return strcmp(key, tuning->key) == 0 ? choices : NULL;
}

// Adds the file's choices to the existing ones, which take precedence.
static void read_choices(host_tuning *tuning) {
    SM_FREED char *text = NULL;
    size_t size_bytes = 0;
    if (tuning->path[0] == '\0') {
        return;
    }
    if (host_cache_read(tuning->path, &text, &size_bytes) != SM_OK) {
        WARN(tuning, "%.200s: choices are measured again", sm_error_message());
        return;
    }
    if (text == NULL) {
        return;
    }
    json_auto_t *document = json_loadb(text, size_bytes, JSON_REJECT_DUPLICATES, NULL);
    const char *wrong = NULL;
    json_t *choices = check_document(tuning, document, &wrong);
    if (choices != NULL) {
        json_object_update_missing(tuning->choices, choices);
    } else {
        WARN(tuning, "%.150s: ignored, it %s: choices are measured again", tuning->path, wrong);
    }
}

host_tuning *host_tuning_open(const char *key) {
    host_tuning *t = sm_calloc(1, sizeof *t);
    t->choices = json_object();
    t->key = sm_text_of("%s%s", key, build);
    if (host_cache_path("tuning", t->key, t->path) != SM_OK) {
        t->path[0] = '\0';
        WARN(t, "choices are not remembered: %s", sm_error_message());
    }
    read_choices(t);
    return t;
}

void host_tuning_free(host_tuning *tuning) {
    if (tuning != NULL) {
        json_decref(tuning->choices);
        free(tuning->key);
        free(tuning);
    }
}

const char *host_tuning_get(const host_tuning *tuning, const char *name) {
    return json_string_value(json_object_get(tuning->choices, name));
}

void host_tuning_put(host_tuning *tuning, const char *name, const char *value) {
    json_object_set_new(tuning->choices, name, json_string(value));
    tuning->changed = true;
}

void host_tuning_save(host_tuning *tuning) {
    if (!tuning->changed || tuning->path[0] == '\0') {
        return;
    }
    read_choices(tuning);
    json_auto_t *document =
        json_pack("{s:i, s:s, s:O}", "stepmark_tuning", FORMAT, "key", tuning->key, "choices", tuning->choices);
    SM_FREED char *text = document == NULL ? NULL : json_dumps(document, JSON_INDENT(2) | JSON_SORT_KEYS);
    if (text == NULL) {
        WARN(tuning, "choices are not remembered: they cannot be written as JSON");
    } else if (host_cache_write(tuning->path, text, strlen(text)) != SM_OK) {
        WARN(tuning, "choices are not remembered: %.200s", sm_error_message());
    } else {
        tuning->changed = false;
    }
}

const char *host_tuning_warning(const host_tuning *tuning) { return tuning->warning; }
