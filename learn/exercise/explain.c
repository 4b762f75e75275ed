// explain.c: compares output by output and case by case, and searches for a known mistake with the same results.
#include "learn/exercise/judge.h"

#include <unistd.h>

#include "os/confinement.h"
#include "src/processes/process.h"

#define APPEND(text, ...) sm_append(text, sizeof(text), __VA_ARGS__)
#define SAY(text, ...)    snprintf(text, sizeof(text), __VA_ARGS__)

// --- numbers ---------------------------------------------------------------------------------------

static const sm_case_operand *output(const sm_exercise_case *c, int k) {
    const sm_case_operand *o = &c->operands[SM_MAX_IN + k];
    return o->info != NULL ? o : NULL;
}

static const float *expected(const sm_case_operand *o) { return o->expected; }
static const float *before(const sm_case_operand *o) { return o->before; }

static double largest(const float *values, int64_t n) {
    double most = 0;
    for (int64_t i = 0; i < n; i++) {
        most = isfinite(values[i]) ? fmax(most, fabs((double)values[i])) : most;
    }
    return most;
}

// Largest difference between numbers that count as equal: verify's tolerance, relative to the largest number.
static double allowed(const sm_case_operand *o) { return o->tolerance * largest(o->expected, o->n_elems); }

static bool is_close(double a, double b, double difference) {
    return (isnan(a) && isnan(b)) || a == b || fabs(a - b) <= difference;
}

// The most inexact element, if all together are too inexact; -1: they are not.
static int64_t most_inexact(const sm_case_operand *o) {
    double errors = 0, squares = 0, most = 0;
    int64_t index = -1;
    for (int64_t i = 0; i < o->n_elems; i++) {
        const double error = fabs((double)o->got[i] - expected(o)[i]);
        if (isfinite(error)) {
            errors += error * error;
            squares += (double)expected(o)[i] * expected(o)[i];
            index = error > most ? i : index;
            most = fmax(error, most);
        }
    }
    return errors > o->mean_tolerance * squares ? index : -1;
}

// The first wrong element; -1: none.
static int64_t first_wrong(const sm_case_operand *o) {
    const double difference = allowed(o);
    for (int64_t i = 0; i < o->n_elems; i++) {
        if (!(fabs((double)o->got[i] - expected(o)[i]) <= difference)) {
            return i;
        }
    }
    return o->mean_tolerance > 0 ? most_inexact(o) : -1;
}

bool sm_case_compare(sm_exercise_case *c) {
    c->is_right = true;
    for (sm_case_operand *o = &c->operands[SM_MAX_IN]; o < &c->operands[SM_CASE_OPERANDS]; o++) {
        o->wrong = o->info != NULL ? first_wrong(o) : -1;
        c->is_right &= o->wrong < 0;
    }
    return c->is_right;
}

// Whether these are the kernel's results.
static bool explains(const sm_case_operand *o, const float *values) {
    const double difference = 2 * fmax(allowed(o), o->tolerance * largest(values, o->n_elems));
    for (int64_t i = 0; i < o->n_elems; i++) {
        if (!is_close(o->got[i], values[i], difference)) {
            return false;
        }
    }
    return true;
}

// --- texts -----------------------------------------------------------------------------------------

// "dx[2,5]": indices in the order of the shape's letters.
static void index_text(const sm_case_operand *o, int64_t i, char text[96]) {
    const sm_tensor *t = o->tensor;
    int n = 1; // letters, then sides: of two letters the first counts all rows
    for (const char *p = o->info->shape; *p != '\0'; p++) {
        n += *p == ',';
    }
    n = n > 2 ? t->n_dims : n;
    snprintf(text, 96, "%s[", o->info->name);
    for (int64_t side = n, n_below; side > 0; side--, i %= n_below) {
        n_below = 1;
        for (int64_t d = side; d-- > 1;) {
            n_below *= t->dims[t->n_dims - d];
        }
        sm_append(text, 96, "%lld%s", (long long)(i / n_below), side > 1 ? "," : "]");
    }
}

// --- what a case is for ----------------------------------------------------------------------------

// A property of some cases, by a key of their texts.
static const struct {
    const char *key;
    const char *text;
    bool is_extra; // a plain case has it not
} features[] = {
    {"w_transposed=1", "the matrix is stored transposed", true},
    {"inplace=1", "the output lies where an input lies: read an element before it is written", true},
    {"NKV=", "heads of queries share a head of keys and values (NKV < NH)", true},
    {" p=", "there is dropout: multiply by keep(rng, element)", true},
    {"ignored=1", "all targets are -1", true},
    {"scaled=1", "there is a loss scaler", true},
    {"mean=1000", "rows have mean 1,000: in float the mean of x^2 less the square of the mean has no digit left", true},
    {"mean=20", "numbers are near 20: exp of their cubes is infinite, and infinity / infinity is no number", true},
    {"wide=8", "numbers are from -8 to 8: a function's tails count", true},
    {"mean=-1000", "all logits are near -1,000: exp of them is 0, and the largest of them is below 0", true},
    {"far=12", "scores reach 150: exp of them is infinite, unless the largest is subtracted", true},
    {"far=200", "logits are from -200 to 200, and one is -1e30: exp is infinite, unless the largest is subtracted",
     true},
    {"flat=1", "all numbers of a row are the same: its variance is 0, and eps alone keeps rstd finite", true},
    {"small=1", "numbers are so small that eps counts", true},
    {"N=3 C=1", "rows have one number: its variance is 0", true},
    {"tiny=1", "every second number is denormal, below 1e-38", true},
    {"same=1", "all tokens are the same: their gradients add up in one row", true},
    {"decay=1", "weights decay", false},
    {"decay=0", "weights do not decay", false},
    {"P=", "there are positions", false},
};
enum { N_FEATURES = sizeof features / sizeof features[0] };

static bool has_feature(const sm_exercise_case *c, int i) {
    const size_t length = strlen(features[i].key);
    const char *at = strstr(c->text, features[i].key);
    return at != NULL && (at[length - 1] == '=' || at[length] == '\0' || at[length] == ' ');
}

// --- what is wrong first ---------------------------------------------------------------------------

static void tell_first(const sm_exercise_cases *cases, sm_exercise_report *report) {
    const sm_exercise_case *c = cases->list;
    while (c->is_right) {
        c++;
    }
    const sm_case_operand *o = &c->operands[SM_MAX_IN];
    while (o->wrong < 0) {
        o++;
    }
    char where[96];
    index_text(o, o->wrong, where);
    SAY(report->wrong, "case %s: %s is %.6g and should be %.6g", c->text, where, (double)o->got[o->wrong],
        (double)expected(o)[o->wrong]);
    if (o->got[o->wrong] == SM_EXERCISE_POISON && o->info->mode == SM_WRITES) {
        APPEND(report->wrong, " (%g is what it held before: it was not written)", (double)SM_EXERCISE_POISON);
    }
    for (int f = 0; f < N_FEATURES; f++) {
        if (features[f].is_extra && has_feature(c, f)) {
            APPEND(report->wrong, "; here %s", features[f].text);
        }
    }
}

// The number of cases with an output, and of those where it is wrong.
static int count(const sm_exercise_cases *cases, int k, int *n_wrong) {
    int n = 0;
    *n_wrong = 0;
    for (int i = 0; i < cases->n; i++) {
        n += output(&cases->list[i], k) != NULL;
        *n_wrong += cases->list[i].operands[SM_MAX_IN + k].wrong >= 0;
    }
    return n;
}

// "dx is right in 7 of 7 cases; dw is wrong in 7 of 7 cases".
static void tell_outputs(const sm_exercise_cases *cases, sm_exercise_report *report) {
    const sm_op_info *info = sm_op_get_info(cases->list[0].kind);
    for (int k = 0; k < SM_MAX_OUT; k++) {
        int n_wrong;
        const int n = count(cases, k, &n_wrong);
        if (n > 0) {
            APPEND(report->where, "%s%s is %s in %d of %d cases", report->where[0] != '\0' ? "; " : "",
                   info->out[k].name, n_wrong > 0 ? "wrong" : "right", n_wrong > 0 ? n_wrong : n, n);
        }
    }
}

// --- known mistakes --------------------------------------------------------------------------------

// One output, in all cases, and the kind's mistakes, which are run as far as they are asked for.
typedef struct {
    const sm_exercise_cases *cases;
    const sm_exercise_options *how;
    sm_known_mistakes *known;
    int n_run;
    bool (*matches)[SM_MOST_MISTAKES][SM_MAX_OUT]; // of each case of the kind: whether an output is the mistake's
    sm_status status;
    float *values; // room for an output of any case
    int k;
    const sm_operand_info *info;
} suspect;

// A mistake that makes another result of the right one and of the output's old contents: it leaves the latter, or takes
// their difference, their sum, or the transpose of the right result.
typedef enum { LEFT_ALONE, NOT_ADDED, ADDED, EXCHANGED } slip;

// Whether the kernel's results are these in all cases.
static bool is_slip(const suspect *s, slip made) {
    for (int i = 0; i < s->cases->n; i++) {
        const sm_case_operand *o = output(&s->cases->list[i], s->k);
        const int64_t cols = o == NULL ? 1 : sm_tensor_cols(o->tensor);
        if (o == NULL) {
            continue;
        }
        for (int64_t e = 0; e < o->n_elems; e++) {
            s->values[e] = made == LEFT_ALONE  ? before(o)[e]
                           : made == NOT_ADDED ? expected(o)[e] - before(o)[e]
                           : made == ADDED     ? expected(o)[e] + before(o)[e]
                                               : expected(o)[e % (o->n_elems / cols) * cols + e / (o->n_elems / cols)];
        }
        if ((made == EXCHANGED && o->tensor->n_dims < 2) || !explains(o, s->values)) {
            return false;
        }
    }
    return true;
}

// --- known mistakes: a factor ----------------------------------------------------------------------

// The right change of an output, or for a sum its increment.
static double part(const sm_case_operand *o, const float *values, int64_t i) {
    return (double)values[i] - (o->info->mode == SM_ADDS ? (double)before(o)[i] : 0);
}

// Whether in all cases the results are `factor` times a power of the letter's value (NULL: none) what they should be.
static bool has_factor(const suspect *s, double factor, const char *letter, double power) {
    bool tells = false; // in all cases a factor of 1 would explain right results
    for (int i = 0; i < s->cases->n; i++) {
        const sm_exercise_case *c = &s->cases->list[i];
        const sm_case_operand *o = output(c, s->k);
        const int index = letter == NULL ? -1 : sm_own_member_index(c->kind, letter);
        const double f = index < 0 ? factor : factor * pow((double)c->args.members[index].integer, power);
        const double difference =
            o == NULL ? 0 : 8 * fmax(1, fabs(f)) * (allowed(o) + 1e-7 * largest(before(o), o->n_elems));
        for (int64_t e = 0; o != NULL && e < o->n_elems; e++) {
            if (!is_close(part(o, o->got, e), f * part(o, expected(o), e), difference)) {
                return false;
            }
        }
        tells |= o != NULL && f != 1 && largest(expected(o), o->n_elems) > 0;
    }
    return tells;
}

// True, with the text, if all elements are wrong by the same factor.
static bool find_factor(const suspect *s, char text[SM_EXERCISE_TEXT]) {
    static const char *const letters[] = {"N", "C", "F", "T", "B", "V", "Vp", "HS", "NH", "n"};
    static const struct {
        double factor, power; // of a letter; 0: a number alone
        const char *says;
    } factors[] = {{-1, 0, "has the wrong sign"},
                   {2, 0, "is twice what it should be"},
                   {0.5, 0, "is half of what it should be"},
                   {1, 1, "is %s times what it should be: divide it by %s"},
                   {1, -1, "is 1/%s times what it should be: multiply it by %s"},
                   {1, 0.5, "is sqrt(%s) times what it should be: divide it by sqrt(%s)"},
                   {1, -0.5, "is 1/sqrt(%s) times what it should be: multiply it by sqrt(%s)"}};
    enum { N_FACTORS = SM_COUNT(factors), N_PLAIN = 3, N_POWERS = N_FACTORS - N_PLAIN };
    for (int i = 0; i < N_PLAIN + (int)SM_COUNT(letters) * N_POWERS; i++) {
        const char *letter = i < N_PLAIN ? NULL : letters[(i - N_PLAIN) / N_POWERS];
        const int k = i < N_PLAIN ? i : N_PLAIN + (i - N_PLAIN) % N_POWERS;
        if ((letter == NULL || sm_own_member_index(s->cases->list[0].kind, letter) >= 0) &&
            has_factor(s, factors[k].factor, letter, factors[k].power)) {
            snprintf(text, SM_EXERCISE_TEXT, "%s ", s->info->name);
            sm_append(text, SM_EXERCISE_TEXT, factors[k].says, letter, letter);
            return true;
        }
    }
    return false;
}

// --- known mistakes: what is not written -------------------------------------------------------------

// Finds elements that did not change but should have, if all others are right. False: none, or something else is wrong.
static bool find_unwritten(const suspect *s, char text[SM_EXERCISE_TEXT]) {
    bool last_col = true, last_row = true, zeros = true, any = false;
    for (int i = 0; i < s->cases->n; i++) {
        const sm_case_operand *o = output(&s->cases->list[i], s->k);
        const int64_t cols = o == NULL ? 1 : sm_tensor_cols(o->tensor);
        const double difference = o == NULL ? 0 : allowed(o);
        for (int64_t e = 0; o != NULL && e < o->n_elems; e++) {
            if (fabs((double)o->got[e] - expected(o)[e]) <= difference) {
                continue;
            }
            if (o->got[e] != before(o)[e]) {
                return false;
            }
            any = true;
            last_col &= e % cols == cols - 1;
            last_row &= e >= o->n_elems - cols;
            zeros &= expected(o)[e] == 0;
        }
    }
    if (any) {
        snprintf(text, SM_EXERCISE_TEXT, "%s of %s %s not written%s",
                 zeros      ? "the elements that are 0"
                 : last_col ? "the last column"
                 : last_row ? "the last row"
                            : "a part",
                 s->info->name, zeros ? "are" : "is",
                 zeros                  ? ": write the zeros, too"
                 : last_col || last_row ? ": a loop ends one too early"
                                        : ": loops must reach every element");
    }
    return any;
}

// --- known mistakes: the kind's own ------------------------------------------------------------------

void sm_known_mistakes_close(sm_known_mistakes *known) {
    sm_kernel_file_close(&known->file);
    if (known->folder[0] != '\0') {
        sm_remove_tree(known->folder);
    }
}

static sm_status open_known(sm_op_kind kind, const sm_exercise_options *how, sm_known_mistakes *known) {
    const sm_kernel_limits limits = {.timeout_s = how->timeout_s, .interrupted = how->interrupted};
    sm_known_mistakes_close(known); // of a try that failed
    *known = (sm_known_mistakes){.is_there = false};
    SM_TRY(sm_kernel_folder_make("mistakes", known->folder));
    snprintf(known->path, sizeof known->path, "%.*s/mistakes.c", PATH_MAX - 16, known->folder);
    SM_TRY(sm_mistakes_write(kind, known->path));
    SM_TRY(sm_kernel_file_open(known->path, &limits, &known->file));
    known->is_there = true;
    return SM_OK;
}

// Runs a mistake on all cases, as a student's kernel runs, and notes which of the kernel's outputs are the same.
static sm_status run_mistake(suspect *m, int index) {
    sm_child_result result;
    sm_exercise_options how = *m->how;
    how.without_times = true;
    for (int i = 0; i < m->cases->n; i++) {
        sm_exercise_case *c = &m->cases->list[i];
        sm_own_args_set_thread(&c->args, index, 1);
        for (int k = 0; k < SM_CASE_OPERANDS; k++) {
            if (c->operands[k].info != NULL) {
                memcpy(c->operands[k].data, c->operands[k].before, c->operands[k].size_bytes);
            }
        }
    }
    const sm_status status = sm_exercise_child_run(m->known->path, &m->known->file, m->cases, &how, &result);
    free(result.printed);
    for (int i = 0; i < m->cases->n; i++) {
        const sm_exercise_case *c = &m->cases->list[i];
        bool *matches = m->matches[c->index][index];
        for (int k = 0; k < SM_MAX_OUT && status == SM_OK && result.end == SM_CHILD_DONE; k++) {
            matches[k] = output(c, k) == NULL || explains(output(c, k), (const float *)output(c, k)->data);
        }
    }
    return status;
}

// The mistake with the kernel's results in all cases; NULL: none.
static const sm_mistake *find_mistake(suspect *s) {
    const sm_op_kind kind = s->cases->list[0].kind;
    for (int index = 0; index < SM_MOST_MISTAKES && sm_mistake_at(kind, index) != NULL; index++) {
        if (!s->known->is_there && s->status == SM_OK) {
            s->status = open_known(kind, s->how, s->known);
        }
        if (s->status == SM_OK && index == s->n_run) {
            s->status = run_mistake(s, s->n_run++);
        }
        bool fits = s->status == SM_OK;
        for (int i = 0; fits && i < s->cases->n; i++) {
            fits = s->matches[s->cases->list[i].index][index][s->k];
        }
        if (fits) {
            return sm_mistake_at(kind, index);
        }
    }
    return NULL;
}

// --- known mistakes: all of them ---------------------------------------------------------------------

static bool only_wrong_have(const sm_exercise_cases *cases, int feature) {
    bool any = false;
    for (int k = 0; k < cases->n; k++) {
        if (has_feature(&cases->list[k], feature) && cases->list[k].is_right) {
            return false;
        }
        any |= has_feature(&cases->list[k], feature);
    }
    return any;
}

// The features that no right case has, if each wrong case has one of them: the first that they all have, or several.
static bool find_features(const sm_exercise_cases *cases, char text[SM_EXERCISE_TEXT]) {
    bool fits = false;
    for (int first = 0; first <= N_FEATURES && !fits; first++) { // each alone, then all
        const int from = first % N_FEATURES, end = first < N_FEATURES ? first + 1 : N_FEATURES;
        text[0] = '\0';
        for (int i = from; i < end; i++) {
            if (only_wrong_have(cases, i)) {
                sm_append(text, SM_EXERCISE_TEXT, "%s where %s", text[0] == '\0' ? "only the cases are wrong" : ", or",
                          features[i].text);
            }
        }
        fits = text[0] != '\0';
        for (int k = 0; k < cases->n && fits; k++) {
            fits = cases->list[k].is_right;
            for (int i = from; i < end; i++) {
                fits |= has_feature(&cases->list[k], i) && only_wrong_have(cases, i);
            }
        }
    }
    return fits;
}

// The text for one output; "": no known mistake.
static void explain_output(suspect *s, char text[SM_EXERCISE_TEXT]) {
    text[0] = '\0';
    if (is_slip(s, LEFT_ALONE)) {
        snprintf(text, SM_EXERCISE_TEXT, "%s is not written at all", s->info->name);
    } else if (s->info->mode == SM_ADDS && is_slip(s, NOT_ADDED)) {
        snprintf(text, SM_EXERCISE_TEXT, "%s is overwritten: it holds a sum already; add to it, +=", s->info->name);
    } else if (s->info->mode == SM_WRITES && is_slip(s, ADDED)) {
        snprintf(text, SM_EXERCISE_TEXT,
                 "%s is added to: its old contents do not count; write it with =", s->info->name);
    } else {
        const sm_mistake *mistake = find_mistake(s);
        if (mistake != NULL) {
            snprintf(text, SM_EXERCISE_TEXT, "%s", mistake->says);
        } else if (!find_unwritten(s, text) && !find_factor(s, text) && is_slip(s, EXCHANGED)) {
            snprintf(text, SM_EXERCISE_TEXT, "rows and columns of %s are exchanged", s->info->name);
        }
    }
}

// Keeps the first.
static void suspect_operand(sm_exercise_report *report, const char *name, bool is_written) {
    if (report->suspect[0] == '\0') {
        SAY(report->suspect, "%s", name);
        report->is_written = is_written;
    }
}

static void explain_all(const sm_exercise_cases *cases, suspect *s, sm_exercise_report *report) {
    const sm_op_info *info = sm_op_get_info(cases->list[0].kind);
    char text[SM_EXERCISE_TEXT];
    int n_wrong;
    s->cases = cases;
    for (s->k = 0; s->k < SM_MAX_OUT && info->out[s->k].name != NULL; s->k++) {
        s->info = &info->out[s->k];
        if (count(cases, s->k, &n_wrong) > 0 && n_wrong > 0) {
            explain_output(s, text);
            suspect_operand(report, s->info->name, true);
            if (text[0] != '\0' && strstr(report->why, text) == NULL) {
                APPEND(report->why, "%s%s", report->why[0] != '\0' ? "; " : "", text);
            }
        }
    }
    if (report->why[0] == '\0' && find_features(cases, text)) {
        APPEND(report->why, "%s", text);
    }
}

// A kernel with two mistakes, such as a wrong sum and a layout that it ignores, is explained by its plain cases. Where
// these are right, says so: they are most of the way.
static void explain_plain(const sm_exercise_cases *cases, suspect *s, sm_exercise_report *report) {
    SM_FREED sm_exercise_case *list = sm_malloc((size_t)cases->n * sizeof *list);
    int n_right = 0;
    sm_exercise_cases plain = {.list = list};
    for (int i = 0; i < cases->n; i++) {
        bool is_plain = true;
        for (int f = 0; f < N_FEATURES; f++) {
            is_plain &= !features[f].is_extra || !has_feature(&cases->list[i], f);
        }
        if (is_plain) {
            n_right += cases->list[i].is_right;
            list[plain.n++] = cases->list[i];
        }
    }
    if (plain.n > 0 && plain.n < cases->n && n_right == plain.n) {
        APPEND(report->where, "; the %d plain cases are right, the others are left", plain.n);
    } else if (plain.n > 0 && plain.n < cases->n && report->why[0] == '\0') {
        explain_all(&plain, s, report);
    }
}

// --- what was touched that must not be -------------------------------------------------------------

// Reports writes after or before an output. (Inputs are write-protected.)
static bool tell_damage(const sm_exercise_cases *cases, sm_exercise_report *report) {
    for (int i = 0; i < cases->n; i++) {
        for (int k = 0; k < SM_CASE_OPERANDS; k++) {
            const sm_case_operand *o = &cases->list[i].operands[k];
            if (o->info != NULL && !sm_case_is_intact(o)) {
                SAY(report->wrong, "case %s: it writes outside of %s, which has %lld elements", cases->list[i].text,
                    o->info->name, (long long)o->n_elems);
                suspect_operand(report, o->info->name, true);
                SAY(report->why, "a loop goes one too far: indices of %s run from 0 to %lld", o->info->name,
                    (long long)o->n_elems - 1);
                return true;
            }
        }
    }
    return false;
}

void sm_exercise_judge_call(const sm_exercise_case *c, sm_exercise_report *report) {
    const sm_case_operand *o = &c->operands[SM_MAX_IN];
    while (o->wrong < 0) {
        o++;
    }
    char where[96];
    index_text(o, o->wrong, where);
    report->right = false;
    SAY(report->wrong,
        "case %s: right when it is checked and wrong when it is timed: in a timed call, with other inputs, %s is %.6g "
        "and should be %.6g",
        c->text, where, (double)o->got[o->wrong], (double)expected(o)[o->wrong]);
    SAY(report->why, "each call must compute everything again: results of earlier calls do not count");
}

sm_status sm_exercise_judge(const sm_exercise_cases *cases, const sm_exercise_options *how, sm_known_mistakes *known,
                            sm_exercise_report *report) {
    int64_t most_elems = 1;
    report->n_cases = cases->n;
    for (int i = 0; i < cases->n; i++) {
        for (int k = 0; k < SM_MAX_OUT; k++) {
            const sm_case_operand *o = output(&cases->list[i], k);
            report->n_values += o != NULL ? o->n_elems : 0;
            most_elems = o != NULL && o->n_elems > most_elems ? o->n_elems : most_elems;
        }
        report->n_right += sm_case_compare(&cases->list[i]);
    }
    if (tell_damage(cases, report)) {
        return SM_OK;
    }
    report->right = report->n_right == report->n_cases;
    if (report->right) {
        return SM_OK;
    }
    SM_FREED float *values = sm_malloc((size_t)most_elems * sizeof *values);
    suspect s = {.how = how, .known = known, .values = values};
    s.matches = sm_calloc((size_t)sm_op_case_count(cases->list[0].kind), sizeof *s.matches);
    tell_first(cases, report);
    tell_outputs(cases, report);
    explain_all(cases, &s, report);
    explain_plain(cases, &s, report);
    if (s.status != SM_OK && report->why[0] == '\0') {
        APPEND(report->why, "known mistakes cannot be compared: %s", sm_error_message());
    }
    free(s.matches);
    return s.status == SM_ERR_INTERRUPTED ? s.status : SM_OK;
}

// --- kernels that did not end ------------------------------------------------------------------------

// The operands that the case leaves out: "b or act".
static void list_left_out(const sm_exercise_case *c, char *text, size_t size, sm_exercise_report *report) {
    const sm_op_info *info = sm_op_get_info(c->kind);
    text[0] = '\0';
    for (int k = 0; k < SM_CASE_OPERANDS; k++) {
        const char *name = k < SM_MAX_IN ? info->in[k].name : info->out[k - SM_MAX_IN].name;
        if (name != NULL && c->operands[k].info == NULL) {
            suspect_operand(report, name, false);
            sm_append(text, size, "%s%s", text[0] != '\0' ? " or " : "", name);
        }
    }
}

static void tell_access(const sm_exercise_case *c, const sm_child_result *result, sm_exercise_report *report) {
    const char *address = result->address;
    const sm_case_operand *o = NULL; // in its pages or guards
    for (const sm_case_operand *k = c->operands; k < c->operands + SM_CASE_OPERANDS && o == NULL; k++) {
        o = k->info != NULL && address >= k->map && address < k->map + k->map_bytes ? k : NULL;
    }
    const bool is_null = result->has_address && (size_t)address < 65536;
    char left_out[SM_NAME_SIZE] = "";
    if (is_null) {
        list_left_out(c, left_out, sizeof left_out, report);
    } else if (o != NULL) {
        suspect_operand(report, o->info->name, o->is_output);
    }
    if (is_null && left_out[0] != '\0') {
        SAY(report->why, "a pointer is NULL: %s, which may be left out and is so in this case, or one of your own",
            left_out);
    } else if (is_null) {
        SAY(report->why, "a pointer is NULL");
    } else if (o == NULL) {
        SAY(report->why, "an index is far out of range, or the stack is full");
    } else if (address >= o->data && address < o->data + o->size_bytes) {
        SAY(report->why, "it writes to %s, which is an input", o->info->name);
    } else {
        SAY(report->why, "it goes %s of %s %s: indices run from 0 to %lld",
            address < o->data ? "before the beginning" : "past the end", o->info->name, o->info->shape,
            (long long)o->n_elems - 1);
    }
}

void sm_exercise_tell_end(const sm_exercise_cases *cases, const sm_child_result *result, double timeout_s,
                          sm_exercise_report *report) {
    const int index = result->case_index >= 0 && result->case_index < cases->n ? result->case_index : 0;
    const sm_exercise_case *c = &cases->list[index];
    char call[32];
    report->n_cases = cases->n;
    switch (result->end) {
    case SM_CHILD_REFUSED: SAY(report->wrong, "%s", result->message); break;
    case SM_CHILD_TIMEOUT:
        SAY(report->wrong, "case %s: it did not end within %g s", c->text, timeout_s);
        SAY(report->why, "a loop that does not end, or far too much work");
        break;
    case SM_CHILD_SYSCALL:
        SAY(report->wrong, "case %s: it asked the operating system for %s", c->text,
            os_call_name(result->syscall_number, call));
        SAY(report->why, "a kernel computes: no files, processes, network or signals");
        break;
    case SM_CHILD_EXIT: SAY(report->wrong, "case %s: it ended the process", c->text); break;
    case SM_CHILD_SIGNAL:
        SAY(report->wrong, "case %s: it crashed (%s)", c->text, strsignal(result->signal_number));
        if (result->signal_number == SIGSEGV || result->signal_number == SIGBUS) {
            tell_access(c, result, report);
        } else if (result->signal_number == SIGFPE) {
            SAY(report->why, "a whole number is divided by 0");
        } else if (result->signal_number == SIGXFSZ) {
            SAY(report->why, "it printed more than 64 KiB");
        }
        break;
    case SM_CHILD_DONE: break;
    }
}
