// words.c: the possible words of a flag's argument.
#include <string.h>

#include "backend.h"
#include "bench/tables/record.h"
#include "cli/flags/flag.h"
#include "src/models/model.h"
#include "src/rewrites/rewrite.h"

typedef struct {
    const char **words;
    int n;
} word_list;

static void add(word_list *list, const char *word) {
    for (int i = 0; i < list->n; i++) {
        if (strcmp(list->words[i], word) == 0) {
            return;
        }
    }
    if (list->n < CLI_MAX_WORDS) {
        list->words[list->n++] = word;
    }
}

static void add_sizes(word_list *list) {
    for (int m = 0; m < sm_model_count(); m++) {
        for (int i = 0; i < sm_model_at(m)->n_sizes; i++) {
            add(list, sm_model_at(m)->sizes[i].name);
        }
    }
}

static void add_backends(word_list *list) {
    for (int i = 0; i < sm_backend_count(); i++) {
        add(list, sm_backend_at(i)->name);
    }
}

static void add_rewrites(word_list *list) {
    for (int i = 0; i < sm_rewrite_count(); i++) {
        add(list, sm_rewrite_at(i)->name);
    }
}

static void add_presets(word_list *list) {
    for (int i = 0; cli_preset_at(i) != NULL; i++) {
        add(list, cli_preset_at(i));
    }
}

static void add_formats(word_list *list) {
    for (int i = 0; i < SM_FORMAT_COUNT; i++) {
        add(list, sm_format_name((sm_format)i));
    }
}

// Texts that must be one of a few names.
static const struct {
    const char *flag;
    void (*add)(word_list *list);
} named[] = {{"model-size", add_sizes}, {"backend", add_backends}, {"without", add_rewrites}, {"preset", add_presets}};

int cli_flag_words(const cli_flag *flag, const char *words[CLI_MAX_WORDS]) {
    word_list list = {.words = words};
    for (const cli_choice *c = flag->choices; c != NULL && c->word != NULL; c++) {
        add(&list, c->word);
    }
    if (flag->type == CLI_FORMAT) {
        add_formats(&list);
    }
    for (size_t i = 0; i < sizeof(named) / sizeof(named[0]); i++) {
        if (strcmp(flag->name, named[i].flag) == 0) {
            named[i].add(&list);
        }
    }
    return list.n;
}
