// compare_match.c: configurations as lists of field values.
#include "bench/compare/compare_match.h"

#include "bench/rows/read_rows.h"
#include "bench/tables/record.h"
#include "bench/tables/show.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { VALUE_SIZE = 160, WORK_SIZE = 512 };

static const char *const work_fields[] = {"pass_type", "n_batch",   "n_seq",   "n_accum",  "vocab",   "n_ctx",
                                          "n_layer",   "n_head",    "d_model", "d_ff",     "dropout", "model_arch",
                                          "optimizer", "n_kv_head", "padding", "documents"};
enum { N_WORK_FIELDS = sizeof(work_fields) / sizeof(work_fields[0]), MAX_FACTOR_FIELDS = 4 };

static const struct {
    const char *name;
    const char *fields[MAX_FACTOR_FIELDS];
} factors[SM_FACTOR_COUNT] = {
    [SM_FACTOR_MACHINE] = {"machine", {"cpu_info"}},
    [SM_FACTOR_DEVICE] = {"device", {"backend_used", "device", "gpu_info"}},
    [SM_FACTOR_ISA] = {"isa", {"isa"}},
    [SM_FACTOR_TIER] = {"tier", {"tier"}},
    [SM_FACTOR_MODE] = {"mode", {"mode", "recompute", "attention", "own_kernels"}},
    [SM_FACTOR_PRECISION] = {"precision", {"precision", "loss_scale"}},
    [SM_FACTOR_THREADS] = {"threads", {"n_threads"}},
    [SM_FACTOR_LOADER] = {"loader", {"loop.loader"}},
};

const char *sm_factor_name(sm_factor factor) { return factors[factor].name; }

bool sm_factor_parse(const char *name, sm_factor *factor) {
    for (int i = 0; i < SM_FACTOR_COUNT; i++) {
        if (strcmp(name, factors[i].name) == 0) {
            *factor = (sm_factor)i;
            return true;
        }
    }
    return false;
}

// --- values ------------------------------------------------------------------------------

// A field as text; "" if the row does not have it. Equal numbers give equal texts, however they were written.
static void value_of(const json_t *row, const char *name, char text[VALUE_SIZE]) {
    const json_t *value = sm_json_get(row, name);
    text[0] = '\0';
    if (json_is_number(value)) {
        snprintf(text, VALUE_SIZE, "%.12g", json_number_value(value));
    } else if (json_is_string(value)) {
        snprintf(text, VALUE_SIZE, "%s", json_string_value(value));
    }
}

static void append(char *text, size_t size_bytes, const char *what, const char *a, const char *b) {
    size_t used = strlen(text);
    snprintf(text + used, size_bytes - used, "%s%s %s / %s", used > 0 ? ", " : "", what, a[0] != '\0' ? a : "-",
             b[0] != '\0' ? b : "-");
}

void sm_work_difference(const json_t *a, const json_t *b, char *text, size_t size_bytes) {
    char value_a[VALUE_SIZE];
    char value_b[VALUE_SIZE];
    bool knows_model = false;
    text[0] = '\0';
    for (int i = 0; i < N_WORK_FIELDS; i++) {
        value_of(a, work_fields[i], value_a);
        value_of(b, work_fields[i], value_b);
        bool both = value_a[0] != '\0' && value_b[0] != '\0';
        knows_model |= both && strcmp(work_fields[i], "n_layer") == 0;
        if (both && strcmp(value_a, value_b) != 0) {
            append(text, size_bytes, work_fields[i], value_a, value_b);
        }
    }
    // Rows without dimensions are compared by the model's name.
    value_of(a, "model_type", value_a);
    value_of(b, "model_type", value_b);
    if (!knows_model && strcmp(value_a, value_b) != 0) {
        append(text, size_bytes, "model_type", value_a, value_b);
    }
}

static bool is_known(const json_t *value) {
    return json_is_number(value) || (json_is_string(value) && json_string_length(value) > 0);
}

// Equal numbers are equal, however they were written.
static bool differs(const json_t *a, const json_t *b) {
    if (json_is_number(a) && json_is_number(b)) {
        return json_number_value(a) != json_number_value(b);
    }
    return !json_is_string(a) || !json_is_string(b) || strcmp(json_string_value(a), json_string_value(b)) != 0;
}

int sm_work_distance(const json_t *a, const json_t *b) {
    int n = 0;
    bool knows_model = false;
    for (int i = 0; i < N_WORK_FIELDS; i++) {
        const json_t *value_a = sm_json_get(a, work_fields[i]);
        const json_t *value_b = sm_json_get(b, work_fields[i]);
        bool both = is_known(value_a) && is_known(value_b);
        knows_model |= both && strcmp(work_fields[i], "n_layer") == 0;
        n += both && differs(value_a, value_b);
    }
    // Rows without dimensions are compared by the model's name.
    return n + (!knows_model && strcmp(sm_rows_text(a, "model_type"), sm_rows_text(b, "model_type")) != 0);
}

static bool factor_differs(const json_t *a, const json_t *b, sm_factor factor) {
    for (int i = 0; i < MAX_FACTOR_FIELDS && factors[factor].fields[i] != NULL; i++) {
        const char *field = factors[factor].fields[i];
        const json_t *value_a = sm_json_get(a, field);
        const json_t *value_b = sm_json_get(b, field);
        bool known_a = is_known(value_a);
        bool known_b = is_known(value_b);
        // Rows of older versions, and of other programs, may lack these.
        bool may_be_left_out =
            strcmp(field, "recompute") == 0 || strcmp(field, "loss_scale") == 0 || strcmp(field, "attention") == 0;
        if ((known_a != known_b && !may_be_left_out) || (known_a && known_b && differs(value_a, value_b))) {
            return true;
        }
    }
    return false;
}

unsigned sm_factor_difference(const json_t *a, const json_t *b) {
    const unsigned of_device = 1u << SM_FACTOR_ISA | 1u << SM_FACTOR_TIER | 1u << SM_FACTOR_THREADS;
    unsigned bits = 0;
    for (int i = 0; i < SM_FACTOR_COUNT; i++) {
        bits |= factor_differs(a, b, (sm_factor)i) ? 1u << i : 0;
    }
    bits &= bits & 1u << SM_FACTOR_MACHINE ? ~(of_device | 1u << SM_FACTOR_DEVICE) : ~0u;
    bits &= bits & 1u << SM_FACTOR_DEVICE ? ~of_device : ~0u;
    return bits;
}

void sm_factor_text(const json_t *a, const json_t *b, char *text, size_t size_bytes) {
    char value_a[VALUE_SIZE];
    char value_b[VALUE_SIZE];
    unsigned bits = sm_factor_difference(a, b);
    text[0] = '\0';
    for (int i = 0; i < SM_FACTOR_COUNT; i++) {
        for (int k = 0; bits & 1u << i && k < MAX_FACTOR_FIELDS && factors[i].fields[k] != NULL; k++) {
            value_of(a, factors[i].fields[k], value_a);
            value_of(b, factors[i].fields[k], value_b);
            if (strcmp(value_a, value_b) != 0) {
                append(text, size_bytes, factors[i].name, value_a, value_b);
                break;
            }
        }
    }
}

// --- groups ------------------------------------------------------------------------------

bool sm_row_is_usable(const json_t *row) {
    const char *status = sm_rows_status(row);
    bool ran = strcmp(status, "ok") == 0 || strcmp(status, "timeout") == 0;
    return ran && sm_json_number(row, "median_ns") > 0;
}

static bool same_configuration(const json_t *a, const json_t *b) {
    return sm_work_distance(a, b) == 0 && sm_factor_difference(a, b) == 0;
}

static sm_status add_row(sm_run_groups *groups, size_t capacity, const json_t *row) {
    size_t g = 0;
    while (g < groups->n && !same_configuration(groups->groups[g].rows[0], row)) {
        g++;
    }
    sm_run_group *group = &groups->groups[g];
    if (g == groups->n) {
        group->rows = calloc(capacity - g, sizeof(*group->rows)); // at most as many as remain
        if (group->rows == NULL) {
            return sm_fail(SM_ERR_OOM, "no memory to group %zu rows", capacity);
        }
        groups->n++;
    }
    size_t at = group->n_rows++;
    if (sm_row_is_usable(row)) {
        memmove(group->rows + group->n_usable + 1, group->rows + group->n_usable,
                (at - group->n_usable) * sizeof(*group->rows));
        at = group->n_usable++;
    }
    group->rows[at] = row;
    return SM_OK;
}

sm_status sm_group_rows(const json_t *rows, sm_run_groups *groups) {
    size_t n = json_array_size(rows);
    *groups = (sm_run_groups){calloc(n + 1, sizeof(sm_run_group)), 0};
    if (groups->groups == NULL) {
        return sm_fail(SM_ERR_OOM, "no memory to group %zu rows", n);
    }
    for (size_t i = 0; i < n; i++) {
        SM_TRY(add_row(groups, n, json_array_get(rows, i)));
    }
    return SM_OK;
}

void sm_run_groups_free(sm_run_groups *groups) {
    for (size_t g = 0; g < groups->n; g++) {
        free(groups->groups[g].rows);
    }
    free(groups->groups);
    *groups = (sm_run_groups){NULL, 0};
}

// --- what is compared ----------------------------------------------------------------------

static int count_bits(unsigned bits) { return __builtin_popcount(bits); }

// Matches every two groups of the same work.
static sm_status pair_same_work(sm_run_groups *a, sm_run_groups *b, sm_matches *m) {
    size_t capacity = 0;
    *m = (sm_matches){NULL, 0};
    for (size_t i = 0; i < a->n; i++) {
        for (size_t j = 0; j < b->n; j++) {
            if (sm_work_distance(a->groups[i].rows[0], b->groups[j].rows[0]) != 0) {
                continue;
            }
            if (m->n == capacity) {
                capacity = 2 * capacity + 16;
                sm_match *more = realloc(m->matches, capacity * sizeof(*more));
                if (more == NULL) {
                    return sm_fail(SM_ERR_OOM, "no memory to match rows");
                }
                m->matches = more;
            }
            unsigned differs = sm_factor_difference(a->groups[i].rows[0], b->groups[j].rows[0]);
            m->matches[m->n++] = (sm_match){&a->groups[i], &b->groups[j], differs, 0};
        }
    }
    return SM_OK;
}

static void keep_equal(sm_matches *m, unsigned differs) {
    size_t n = 0;
    for (size_t i = 0; i < m->n; i++) {
        if (m->matches[i].differs == differs) {
            m->matches[n++] = m->matches[i];
        }
    }
    m->n = n;
}

// Keeps matches that differ in some of `across` and nothing else; if there are none, those that do not differ.
static void keep_across(sm_matches *m, unsigned across) {
    bool any = false;
    size_t n = 0;
    for (size_t i = 0; i < m->n; i++) {
        any |= m->matches[i].differs != 0 && (m->matches[i].differs & ~across) == 0;
    }
    if (!any) {
        keep_equal(m, 0);
        return;
    }
    for (size_t i = 0; i < m->n; i++) {
        unsigned differs = m->matches[i].differs;
        if (differs != 0 && (differs & ~across) == 0) {
            m->matches[n++] = m->matches[i];
        }
    }
    m->n = n;
}

// For each configuration of A, keeps those of B that differ in the fewest factors.
static void keep_nearest(sm_matches *m) {
    size_t n = 0;
    for (size_t i = 0; i < m->n; i++) {
        sm_match *match = &m->matches[i];
        match->n_fewest = SM_FACTOR_COUNT;
        for (size_t k = 0; k < m->n; k++) {
            int n_factors = count_bits(m->matches[k].differs);
            if (m->matches[k].a == match->a && n_factors < match->n_fewest) {
                match->n_fewest = n_factors;
            }
        }
    }
    for (size_t i = 0; i < m->n; i++) {
        if (count_bits(m->matches[i].differs) == m->matches[i].n_fewest) {
            m->matches[n++] = m->matches[i];
        }
    }
    m->n = n;
}

static sm_status keep_alike(sm_matches *m) {
    unsigned single = 0;
    bool any_equal = false;
    for (size_t i = 0; i < m->n; i++) {
        unsigned differs = m->matches[i].differs;
        any_equal |= differs == 0;
        single |= count_bits(differs) == 1 ? differs : 0;
    }
    if (any_equal) {
        keep_equal(m, 0);
        return SM_OK;
    }
    if (count_bits(single) > 1) {
        char names[WORK_SIZE] = "";
        for (int i = 0; i < SM_FACTOR_COUNT; i++) {
            size_t used = strlen(names);
            if (single & 1u << i) {
                snprintf(names + used, sizeof(names) - used, "%s%s", used > 0 ? " and " : "",
                         sm_factor_name((sm_factor)i));
            }
        }
        return sm_fail(SM_ERR_USAGE, "rows of A and B differ in %s; name the properties that may differ with --across",
                       names);
    }
    if (single != 0) {
        keep_equal(m, single);
    } else {
        m->n = 0;
    }
    return SM_OK;
}

sm_status sm_find_matches(sm_run_groups *a, sm_run_groups *b, unsigned across, bool any_factor, sm_matches *m) {
    SM_TRY(pair_same_work(a, b, m));
    if (any_factor) {
        keep_nearest(m);
    } else if (across != 0) {
        keep_across(m, across);
    } else {
        return keep_alike(m);
    }
    return SM_OK;
}
