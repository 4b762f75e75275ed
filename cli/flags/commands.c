// commands.c: the table of subcommands, and their forms; the possible words of a flag, and what a wrong one meant.
#include <ctype.h>

#include "bench/tables/show.h"
#include "cli/flags/flag.h"
#include "src/rewrites/rewrite.h"

const sm_table cli_no_table = {"", NULL, 0};

const cli_subcommand cli_commands[CLI_COMMAND_COUNT] = {
#define X(code, name, function, table, ...) {name, function, &table, __VA_ARGS__},
    CLI_COMMAND_LIST(X)
#undef X
};

static char fold(char c) { return c == '_' ? '-' : (char)tolower((unsigned char)c); }

cli_command cli_command_find(const char *name) {
    static const char *const codes[CLI_COMMAND_COUNT] = {
#define X(code, ...) #code,
        CLI_COMMAND_LIST(X)
#undef X
    };
    char formers[CLI_COMMAND_COUNT][CLI_TEXT_SIZE], form[2 * CLI_TEXT_SIZE];
    const char *names[CLI_COMMAND_COUNT];
    for (int i = 0; i < CLI_COMMAND_COUNT; i++) {
        if (strcmp(name, cli_commands[i].name) == 0) {
            return (cli_command)i;
        }
        for (size_t k = 0; k == 0 || codes[i][k - 1] != '\0'; k++) {
            formers[i][k] = fold(codes[i][k]);
        }
        // In earlier versions many forms were subcommands, called as their codes are: leaderboard, check-run.
        names[i] = cli_command_is_form((cli_command)i) ? formers[i] : cli_commands[i].name;
    }
    const char *nearest = cli_nearest(name, names, CLI_COMMAND_COUNT);
    for (int i = 0; i < CLI_COMMAND_COUNT; i++) {
        if (nearest == formers[i]) {
            snprintf(form, sizeof(form), "%s %s", cli_commands[i].name, cli_commands[i].with);
            nearest = form;
        }
    }
    nearest = strcmp(name, "schema") == 0 ? "run --schema" : nearest;
#define X(flag, argument, help) nearest = strcmp(name, &(flag)[2]) == 0 ? flag : nearest; // "--help" for "help"
    CLI_FRONT_LIST(X)
#undef X
    (void)(nearest != NULL  ? sm_fail(SM_ERR_USAGE, "unknown subcommand '%s'; did you mean '%s'?", name, nearest)
           : name[0] == '-' ? sm_fail(SM_ERR_USAGE, "%s: a subcommand comes first, then its flags", name)
                            : sm_fail(SM_ERR_USAGE, "unknown subcommand '%s'", name));
    return CLI_COMMAND_COUNT;
}

// --- forms ---------------------------------------------------------------------------------------

bool cli_command_is_form_of(cli_command form, cli_command command) {
    return strcmp(cli_commands[form].name, cli_commands[command].name) == 0;
}

bool cli_command_is_form(cli_command command) {
    bool found = false;
    for (int i = 0; i < (int)command; i++) {
        found = found || cli_command_is_form_of((cli_command)i, command);
    }
    return found;
}

// Whether an operand ends like "rows.jsonl#3".
static bool is_numbered(const char *word) {
    const char *number = strrchr(word, '#');
    return number != NULL && number[1] != '\0' && number[1 + strspn(number + 1, "0123456789")] == '\0';
}

// The number of flags that a form takes; *all: it takes every one, and the operands.
static int count_taken(cli_command form, bool has_numbered_form, int argc, char **argv, bool *all) {
    cli_words w;
    bool numbered = false;
    int n = 0;
    *all = true;
    cli_words_begin(form, false, argc, argv, &w);
    while (cli_words_next(&w)) {
        numbered = numbered || (w.is_operand && is_numbered(w.word));
        const bool is_list = !w.is_operand && w.flag != NULL && w.flag->type != CLI_TEXT && w.flag->type != CLI_CODE &&
                             w.value != NULL && strchr(w.value, ',') != NULL; // of which it may take only an entry
        const bool fits = w.is_operand || (w.flag != NULL && (!is_list || cli_takes_list(w.flag, form)));
        n += fits && !w.is_operand;
        *all = *all && fits;
    }
    numbered = numbered || w.n_operands == 1; // a file of one row, such as a block
    *all = *all && (!has_numbered_form || numbered == cli_commands[form].is_numbered);
    return n;
}

cli_command cli_command_form(cli_command command, int argc, char **argv) {
    cli_command best = command;
    int most = -1;
    bool has_numbered_form = false;
    for (int i = 0; i < CLI_COMMAND_COUNT; i++) {
        has_numbered_form =
            has_numbered_form || (cli_command_is_form_of((cli_command)i, command) && cli_commands[i].is_numbered);
    }
    for (int i = (int)command; i < CLI_COMMAND_COUNT; i++) {
        if (cli_command_is_form_of((cli_command)i, command)) {
            bool all;
            const int n = count_taken((cli_command)i, has_numbered_form, argc, argv, &all);
            if (all) {
                return (cli_command)i;
            }
            best = n > most ? (cli_command)i : best;
            most = n > most ? n : most;
        }
    }
    return best;
}

// --- what a misspelt name probably meant ---------------------------------------------------------

// In each entry a subcommand, flag or value of ours, and then what others call it (llama.cpp, nanoGPT, PyTorch,
// transformers). Of the entries that have a word, the first is the answer whose name this subcommand or flag knows;
// tokens+temperature: and that knows --temperature, too.
static const char also_called[] =
    "devices list info, run sweep stat, score bench benchmark, verify test, train fit pretrain finetune torchrun "
    "accelerate, tokenize encode, report plot show, eval perplexity ppl, generate sample infer inference chat "
    "complete, format json csv, output json csv, backend device gpu gpus cuda ngl n-gpu-layers, opencl gpu cuda "
    "cuda:0 rocm hip metal mps vulkan, precision dtype torch-dtype amp bf16 fp16, fp32 float32 float f32, fp16 "
    "float16 half f16, bf16 bfloat16 amp, fp8 float8 e4m3 e5m2, mode compile, fused compile compiled, naive eager, "
    "attention flash flash-attn flash-attention sdpa, flash sdpa, seq-len block-size sequence-length max-seq-length "
    "max-length n-ctx ctx ctx-size, batch-size bs micro-batch-size per-device-train-batch-size, threads num-threads "
    "n-threads, accum gradient-accumulation-steps grad-accum grad-accum-steps, vocab vocab-size, n-layer "
    "num-hidden-layers, n-head num-attention-heads, n-kv-head num-key-value-heads, d-model n-embd hidden-size "
    "embed-dim, d-ff intermediate-size, small gpt2 gpt-2, medium gpt2-medium 345m, large gpt2-large, xl gpt2-xl 1.5b, "
    "lr learning-rate, steps max-iters max-steps iters iterations, repetitions iters iterations num-iterations runs "
    "repeat, epochs num-train-epochs, warmup-steps warmup-iters, grad-clip max-grad-norm clip-grad, val-every "
    "eval-interval eval-steps, log-every log-interval, run out-dir output-dir, save-every checkpoint checkpoint-every "
    "save-steps, weights init-from checkpoint model-path model-name-or-path, tokens+temperature max-new-tokens "
    "n-predict, recompute gradient-checkpointing activation-checkpointing, block full, shard zero fsdp, progress "
    "verbose, processes nproc-per-node world-size num-processes, mpirun nproc-per-node nnodes node-rank local-rank "
    "world-size num-processes ddp distributed deepspeed";

static int min_int(int a, int b) { return a < b ? a : b; }

static const char *find(const char *name, const char *const *names, int n) {
    int i = 0;
    while (i < n && strcmp(names[i], name) != 0) {
        i++;
    }
    return i < n ? names[i] : NULL;
}

// Number of typing errors (a letter too many, missing, wrong, or two swapped) between a folded text of less than
// CLI_TEXT_SIZE characters and a name: distance[i][j] is that of the first i and the first j letters.
static int edit_distance(const char *a, const char *b) {
    int distance[CLI_TEXT_SIZE][CLI_TEXT_SIZE];
    const int n_a = (int)strlen(a), n_b = min_int((int)strlen(b), CLI_TEXT_SIZE - 1);
    for (int i = 0; i <= n_a; i++) {
        for (int j = 0; j <= n_b; j++) {
            if (i == 0 || j == 0) {
                distance[i][j] = i + j;
                continue;
            }
            int best = distance[i - 1][j - 1] + (a[i - 1] != fold(b[j - 1]));
            best = min_int(best, min_int(distance[i - 1][j], distance[i][j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == fold(b[j - 2]) && a[i - 2] == fold(b[j - 1])) {
                best = min_int(best, distance[i - 2][j - 2] + 1);
            }
            distance[i][j] = best;
        }
    }
    return distance[n_a][n_b];
}

const char *cli_nearest(const char *text, const char *const *names, int n) {
    char word[CLI_TEXT_SIZE] = "";
    for (size_t i = 0; text[i] != '\0' && i + 1 < sizeof word; i++) {
        word[i] = fold(text[i]);
    }
    const size_t length = strlen(word);
    for (const char *next = also_called; *next != '\0'; next += strspn(next, ", ")) {
        char entry[2 * CLI_TEXT_SIZE], *other = NULL;
        snprintf(entry, sizeof entry, "%.*s", (int)strcspn(next, ","), next);
        next += strcspn(next, ",");
        char *theirs = NULL, *name = strtok_r(strtok_r(entry, " ", &theirs), "+", &other);
        const char *found = sm_is_word_of(word, theirs) ? find(name, names, n) : NULL;
        if (found != NULL && (other == NULL || other[0] == '\0' || find(other, names, n) != NULL)) {
            return found;
        }
    }
    int best_distance = 2 + (int)length / 4; // more errors make another word
    const char *best = NULL;
    for (int i = 0; i < n; i++) {
        const size_t n_name = strlen(names[i]), n_both = n_name < length ? n_name : length;
        const bool is_begun = n_both >= 4 && strncmp(word, names[i], n_both) == 0 && n_name != length;
        const int distance = is_begun ? 1 : edit_distance(word, names[i]); // "matmul" for "matmul_forward", and reverse
        // Errors seldom hit the first letter, and short words that differ in it are often different words: gpu, cpu.
        const bool begins_alike =
            word[0] == fold(names[i][0]) || (word[0] != '\0' && word[0] == names[i][1] && word[1] == names[i][0]);
        if (begins_alike && distance < best_distance && distance < (int)length) {
            best_distance = distance;
            best = names[i];
        }
    }
    return best;
}

sm_status cli_no_such_name(const char *flag, const char *noun, const char *text, const char *const *names, int n) {
    char list[512] = "";
    const char *nearest = cli_nearest(text, names, n);
    SM_FAIL_IF(nearest != NULL, SM_ERR_USAGE, "%s: no %s '%s'; did you mean %s?", flag, noun, text, nearest);
    for (int i = 0; i < n; i++) {
        sm_append_part(list, sizeof(list), ", ", names[i]);
    }
    return sm_fail(SM_ERR_USAGE, "%s: no %s '%s'; there are %s", flag, noun, text, list);
}

// Adds a word unless it is there; returns the number of words.
static int add(const char *words[CLI_MAX_WORDS], int n, const char *word) {
    for (int i = 0; i < n; i++) {
        if (strcmp(words[i], word) == 0) {
            return n;
        }
    }
    words[n] = word;
    return n + (n < CLI_MAX_WORDS - 1);
}

int cli_flag_words(const cli_flag *flag, const char *words[CLI_MAX_WORDS]) {
    int n = 0;
    const bool is_sizes = strcmp(flag->name, "model-size") == 0;
    for (const cli_choice *c = flag->choices; c != NULL && c->word != NULL; c++) {
        n = add(words, n, c->word);
    }
    for (int i = 0; i < SM_FORMAT_COUNT && flag->type == CLI_FORMAT; i++) {
        n = add(words, n, sm_format_name((sm_format)i));
    }
    for (int m = 0; m < sm_model_count() && is_sizes; m++) {
        for (int i = 0; i < sm_model_at(m)->n_sizes; i++) {
            n = add(words, n, sm_model_at(m)->sizes[i].name);
        }
    }
    for (int i = 0; i < sm_backend_count() && strcmp(flag->name, "backend") == 0; i++) {
        n = add(words, n, sm_backend_at(i)->name);
    }
    for (int i = 0; i < sm_rewrite_count() && strcmp(flag->name, "without") == 0; i++) {
        n = add(words, n, sm_rewrite_at(i)->name);
    }
    for (int i = 0; cli_preset_at(i) != NULL && strcmp(flag->name, "preset") == 0; i++) {
        n = add(words, n, cli_preset_at(i));
    }
    return n;
}
