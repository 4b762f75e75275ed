// compare_match.c: configurations as lists of field values.
#include "bench/compare/compare.h"

#include "bench/rows/read_rows.h"
#include "bench/tables/record.h"
#include "bench/tables/show.h"

#include <stdlib.h>
#include <string.h>

enum { WORK_SIZE = 512 };

// --- groups ------------------------------------------------------------------------------

bool sm_row_is_usable(const json_t *row) {
    const char *status = sm_rows_status(row);
    bool ran = strcmp(status, "ok") == 0 || strcmp(status, "timeout") == 0;
    return ran && sm_json_number(row, "median_ns") > 0;
}

static void add_row(sm_run_groups *groups, const json_t *row) {
    sm_identity_key key;
    size_t g = 0;
    sm_identity_key_of(row, &key);
    while (g < groups->n && sm_identity_key_difference(&groups->groups[g].key, &key, ~0u, NULL) != 0) {
        g++;
    }
    sm_run_group *group = &groups->groups[g];
    if ((group->n_rows & (group->n_rows - 1)) == 0) { // at 0 and each power of two
        group->rows = sm_realloc(group->rows, (2 * group->n_rows + 1) * sizeof(*group->rows));
    }
    if (g == groups->n) {
        group->key = key;
        groups->n++;
    }
    size_t at = group->n_rows++;
    if (sm_row_is_usable(row)) {
        memmove(group->rows + group->n_usable + 1, group->rows + group->n_usable,
                (at - group->n_usable) * sizeof(*group->rows));
        at = group->n_usable++;
    }
    group->rows[at] = row;
}

void sm_group_rows(const json_t *rows, sm_run_groups *groups) {
    size_t n = json_array_size(rows);
    *groups = (sm_run_groups){sm_calloc(n + 1, sizeof(sm_run_group)), 0};
    for (size_t i = 0; i < n; i++) {
        add_row(groups, json_array_get(rows, i));
    }
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

// Matches every two groups of the same work; with `only_equal` no others are of use once two are equal.
static void pair_same_work(sm_run_groups *a, sm_run_groups *b, bool only_equal, sm_matches *m) {
    bool needs_equal = false;
    size_t capacity = 0;
    *m = (sm_matches){NULL, 0};
    for (size_t i = 0; i < a->n; i++) {
        const size_t first = m->n;
        int n_fewest = SM_IDENTITY_COUNT;
        for (size_t j = 0; j < b->n; j++) {
            const unsigned differs =
                sm_identity_key_difference(&a->groups[i].key, &b->groups[j].key, SM_SAME_WORK, NULL);
            if ((differs & SM_SAME_WORK) != 0 || (needs_equal && differs != 0)) {
                continue;
            }
            needs_equal = needs_equal || (only_equal && differs == 0);
            n_fewest = count_bits(differs) < n_fewest ? count_bits(differs) : n_fewest;
            SM_GROW(m->matches, m->n, capacity);
            m->matches[m->n++] = (sm_match){&a->groups[i], &b->groups[j], differs, 0};
        }
        for (size_t k = first; k < m->n; k++) {
            m->matches[k].n_fewest = n_fewest;
        }
    }
}

static bool is_equal(const sm_match *m, unsigned differs) { return m->differs == differs; }

static bool is_across(const sm_match *m, unsigned across) { return m->differs != 0 && (m->differs & ~across) == 0; }

static bool is_nearest(const sm_match *m, SM_UNUSED unsigned unused) {
    return count_bits(m->differs) == m->n_fewest;
}

static bool any(const sm_matches *m, bool (*is_kept)(const sm_match *m, unsigned bits), unsigned bits) {
    bool found = false;
    for (size_t i = 0; i < m->n && !found; i++) {
        found = is_kept(&m->matches[i], bits);
    }
    return found;
}

static void keep(sm_matches *m, bool (*is_kept)(const sm_match *m, unsigned bits), unsigned bits) {
    size_t n = 0;
    for (size_t i = 0; i < m->n; i++) {
        if (is_kept(&m->matches[i], bits)) {
            m->matches[n++] = m->matches[i];
        }
    }
    m->n = n;
}

// Keeps those that differ in one factor, the same for all.
static sm_status keep_single(sm_matches *m) {
    unsigned single = 0;
    char names[WORK_SIZE] = "";
    for (size_t i = 0; i < m->n; i++) {
        single |= count_bits(m->matches[i].differs) == 1 ? m->matches[i].differs : 0;
    }
    if (count_bits(single) == 1) {
        keep(m, is_equal, single);
        return SM_OK;
    }
    m->n = 0;
    for (int i = SM_FACTOR_MACHINE; i < SM_IDENTITY_COUNT; i++) {
        if (single & 1u << i) {
            sm_append(names, sizeof(names), "%s%s", names[0] != '\0' ? " and " : "", sm_identity_name((sm_identity)i));
        }
    }
    return single == 0
               ? SM_OK
               : sm_fail(SM_ERR_USAGE,
                         "rows of A and B differ in %s; name the properties that may differ with --across", names);
}

sm_status sm_find_matches(sm_run_groups *a, sm_run_groups *b, unsigned across, bool any_factor, sm_matches *m) {
    pair_same_work(a, b, !any_factor && across == 0, m);
    if (any_factor) {
        keep(m, is_nearest, 0);
    } else if (across != 0 && any(m, is_across, across)) {
        keep(m, is_across, across);
    } else if (across != 0 || any(m, is_equal, 0)) {
        keep(m, is_equal, 0);
    } else {
        return keep_single(m);
    }
    return SM_OK;
}
