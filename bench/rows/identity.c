#include "bench/rows/identity.h"

#include "bench/rows/read_rows.h"
#include "fnv1a.h"

SM_WORDS(sm_identity_name, sm_identity, SM_IDENTITY_LIST)

bool sm_factor_parse(const char *name, sm_identity *factor) {
    for (int i = SM_FACTOR_MACHINE; i < SM_IDENTITY_COUNT; i++) {
        if (strcmp(name, sm_identity_name((sm_identity)i)) == 0) {
            *factor = (sm_identity)i;
            return true;
        }
    }
    return false;
}

// --- values ------------------------------------------------------------------------------

static void known_value(const json_t *row, const sm_column *column, char text[SM_IDENTITY_VALUE_SIZE]) {
    const json_t *value = sm_json_get(row, column->name);
    text[0] = '\0';
    if (json_is_number(value)) {
        snprintf(text, SM_IDENTITY_VALUE_SIZE, "%.12g", json_number_value(value));
    } else if (json_is_string(value)) {
        snprintf(text, SM_IDENTITY_VALUE_SIZE, "%s", json_string_value(value));
    } else if (json_is_boolean(value)) {
        snprintf(text, SM_IDENTITY_VALUE_SIZE, "%s", json_is_true(value) ? "yes" : "no");
    }
}

void sm_identity_value(const json_t *row, const sm_column *column, char text[SM_IDENTITY_VALUE_SIZE]) {
    known_value(row, column, text);
    const double head_dim = sm_json_number(row, "d_model") / sm_json_number(row, "n_head");
    if (text[0] == '\0' && strcmp(column->name, "head_dim") == 0 && isfinite(head_dim)) {
        snprintf(text, SM_IDENTITY_VALUE_SIZE, "%.12g", head_dim);
    } else if (text[0] == '\0' && column->absent != NULL) {
        snprintf(text, SM_IDENTITY_VALUE_SIZE, "%s", column->absent);
    }
}

// Of a column that a row may leave out: unknown, where other programs' rows leave it out whatever they did.
static void key_value(const json_t *row, const sm_column *column, char text[SM_IDENTITY_VALUE_SIZE]) {
    (column->is_never_unknown ? sm_identity_value : known_value)(row, column, text);
}

// Rows without dimensions have the model's name.
static const char *model_name(const json_t *row) {
    return json_is_number(json_object_get(row, "n_layer")) ? "" : sm_rows_text(row, "model_type");
}

static int value_order(const char *a, const char *b) {
    char *end_a, *end_b;
    const double x = strtod(a, &end_a), y = strtod(b, &end_b);
    const bool numbers = a[0] != '\0' && b[0] != '\0' && *end_a == '\0' && *end_b == '\0';
    return numbers && x != y ? (x > y) - (x < y) : strcmp(a, b);
}

int sm_identity_order(const json_t *a, const json_t *b, unsigned parts) {
    char x[SM_IDENTITY_VALUE_SIZE], y[SM_IDENTITY_VALUE_SIZE];
    for (int i = 0; i < sm_row_table.n_columns; i++) {
        const sm_column *column = &sm_row_table.columns[i];
        if ((parts & SM_PART(column->identity)) == 0) {
            continue;
        }
        sm_identity_value(a, column, x);
        sm_identity_value(b, column, y);
        const int order = value_order(x, y);
        if (order != 0) {
            return order;
        }
    }
    const int by_name = (parts & SM_PART(SM_IDENTITY_WORK)) != 0 ? strcmp(model_name(a), model_name(b)) : 0;
    return by_name == 0 && (parts & SM_OWN_CODE) != 0 ? strcmp(sm_rows_own_code(a), sm_rows_own_code(b)) : by_name;
}

json_t *sm_identity_groups(const json_t *rows, unsigned parts, bool (*counts)(const json_t *row)) {
    json_t *groups = json_array();
    SM_EACH(row, rows) {
        json_t *own = NULL;
        if (!counts(row)) {
            continue;
        }
        SM_EACH(group, groups) {
            own = own == NULL && sm_identity_order(row, json_array_get(group, 0), parts) == 0 ? group : own;
        }
        if (own == NULL) {
            own = json_array();
            json_array_append_new(groups, own);
        }
        json_array_append(own, row);
    }
    return groups;
}

// --- differences ---------------------------------------------------------------------------

// The columns of a row's identity, and the model's name, in the order of the table.
static const sm_column *keyed[SM_IDENTITY_COLUMNS];
static int n_keyed;

void sm_identity_key_of(const json_t *row, sm_identity_key *key) {
    char text[SM_IDENTITY_VALUE_SIZE];
    if (n_keyed == 0) {
        for (int i = 0; i < sm_row_table.n_columns; i++) {
            const sm_column *column = &sm_row_table.columns[i];
            if ((column->identity != SM_IDENTITY_NONE || strcmp(column->name, "model_type") == 0) &&
                n_keyed < SM_IDENTITY_COLUMNS) {
                keyed[n_keyed++] = column;
            }
        }
    }
    key->is_named = model_name(row)[0] != '\0';
    for (int i = 0; i < n_keyed; i++) {
        key_value(row, keyed[i], text);
        key->values[i] = text[0] != '\0' ? sm_fnv1a(SM_FNV1A_START, text, strlen(text)) | 1 : 0;
    }
}

static int part_of(int i) {
    return keyed[i]->identity != SM_IDENTITY_NONE ? keyed[i]->identity : SM_IDENTITY_WORK; // the model's name
}

// A row may lack a column of the work or the batch, and others marked so, and still agree with one that has it.
static bool differs(const sm_identity_key *a, const sm_identity_key *b, int i) {
    const bool may_lack = part_of(i) <= SM_IDENTITY_BATCH || keyed[i]->may_lack;
    return a->values[i] == b->values[i]             ? false
           : keyed[i]->identity == SM_IDENTITY_NONE ? a->is_named || b->is_named
                                                    : (a->values[i] != 0 && b->values[i] != 0) || !may_lack;
}

unsigned sm_identity_key_difference(const sm_identity_key *a, const sm_identity_key *b, unsigned ends, int *n_columns) {
    const unsigned of_device = SM_PART(SM_FACTOR_ISA) | SM_PART(SM_FACTOR_TIER) | SM_PART(SM_FACTOR_THREADS);
    int n_work = 0;
    unsigned bits = 0;
    for (int i = 0; i < n_keyed && (bits & ends) == 0; i++) {
        const bool is_other = differs(a, b, i);
        bits |= is_other ? SM_PART(part_of(i)) : 0;
        n_work += is_other && part_of(i) <= SM_IDENTITY_BATCH;
    }
    if (n_columns != NULL) {
        *n_columns = n_work;
    }
    bits &= bits & SM_PART(SM_FACTOR_MACHINE) ? ~(of_device | SM_PART(SM_FACTOR_DEVICE)) : ~0u;
    bits &= bits & SM_PART(SM_FACTOR_DEVICE) ? ~of_device : ~0u;
    return bits;
}

unsigned sm_identity_difference(const json_t *a, const json_t *b) {
    sm_identity_key x, y;
    sm_identity_key_of(a, &x);
    sm_identity_key_of(b, &y);
    return sm_identity_key_difference(&x, &y, 0, NULL);
}

int sm_identity_text(const json_t *a, const json_t *b, unsigned parts, bool with_b, char *text, size_t size_bytes) {
    sm_identity_key x, y;
    sm_identity_key_of(a, &x);
    sm_identity_key_of(b, &y);
    const unsigned bits = sm_identity_key_difference(&x, &y, 0, NULL) & parts;
    unsigned named = 0; // factors: one column stands for all
    int n = 0;
    text[0] = '\0';
    for (int i = 0; i < n_keyed; i++) {
        const int part = part_of(i);
        char own[SM_IDENTITY_VALUE_SIZE], other[SM_IDENTITY_VALUE_SIZE];
        if ((bits & ~named & SM_PART(part)) == 0 || !differs(&x, &y, i)) {
            continue;
        }
        key_value(a, keyed[i], own);
        key_value(b, keyed[i], other);
        const bool is_factor = part >= SM_FACTOR_MACHINE;
        named |= is_factor ? SM_PART(part) : 0;
        n++;
        sm_append_part(text, size_bytes, ", ", is_factor ? sm_identity_name((sm_identity)part) : keyed[i]->name);
        sm_append(text, size_bytes, " %s", own[0] != '\0' ? own : "-");
        sm_append(text, size_bytes, "%s%s", with_b ? " / " : "", !with_b ? "" : other[0] != '\0' ? other : "-");
    }
    return n;
}
