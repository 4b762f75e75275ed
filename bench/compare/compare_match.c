// compare_match.c: configurations as lists of field values.
#include "bench/compare/compare_match.h"

#include "bench/rows/read_rows.h"
#include "bench/tables/record.h"
#include "bench/tables/show.h"

#include <math.h>
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
        for (size_t j = 0; j < b->n; j++) {
            const unsigned differs =
                sm_identity_key_difference(&a->groups[i].key, &b->groups[j].key, SM_SAME_WORK, NULL);
            if ((differs & SM_SAME_WORK) != 0 || (needs_equal && differs != 0)) {
                continue;
            }
            needs_equal = needs_equal || (only_equal && differs == 0);
            if (m->n == capacity) {
                capacity = 2 * capacity + 16;
                m->matches = sm_realloc(m->matches, capacity * sizeof(*m->matches));
            }
            m->matches[m->n++] = (sm_match){&a->groups[i], &b->groups[j], differs, 0};
        }
    }
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
    for (size_t first = 0, end = 0; first < m->n; first = end) { // matches of a group of A are neighbours
        int n_fewest = SM_IDENTITY_COUNT;
        for (; end < m->n && m->matches[end].a == m->matches[first].a; end++) {
            const int n_factors = count_bits(m->matches[end].differs);
            n_fewest = n_factors < n_fewest ? n_factors : n_fewest;
        }
        for (size_t i = first; i < end; i++) {
            m->matches[i].n_fewest = n_fewest;
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
        for (int i = SM_FACTOR_MACHINE; i < SM_IDENTITY_COUNT; i++) {
            size_t used = strlen(names);
            if (single & 1u << i) {
                snprintf(names + used, sizeof(names) - used, "%s%s", used > 0 ? " and " : "",
                         sm_identity_name((sm_identity)i));
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
    pair_same_work(a, b, !any_factor && across == 0, m);
    if (any_factor) {
        keep_nearest(m);
    } else if (across != 0) {
        keep_across(m, across);
    } else {
        return keep_alike(m);
    }
    return SM_OK;
}
