// show.c: values as short texts.
#include "bench/tables/show.h"

#include <math.h>

// Four significant digits without an exponent, for 0.001 <= |ms| < 10000.
const char *sm_text_ms(double ns, char *text, size_t size_bytes) {
    const double size = fabs(ns / 1e6);
    const int decimals = size >= 1000 ? 0 : size >= 100 ? 1 : size >= 10 ? 2 : 3;
    text[0] = '\0';
    if (isfinite(ns)) {
        snprintf(text, size_bytes, "%.*f", decimals, ns / 1e6);
    }
    return text;
}

const char *sm_plural(size_t n) { return n == 1 ? "" : "s"; }

bool sm_is_word_of(const char *word, const char *words) {
    const size_t length = strlen(word);
    const char *at = length > 0 ? strstr(words, word) : NULL;
    while (at != NULL && ((at > words && at[-1] != ' ') || (at[length] != ' ' && at[length] != '\0'))) {
        at = strstr(at + 1, word);
    }
    return at != NULL;
}

const char *sm_text_spread(double percent, char text[32]) {
    text[0] = '\0';
    if (percent > 50) {
        snprintf(text, 32, "over 50%%");
    } else if (isfinite(percent)) {
        snprintf(text, 32, percent < 9.95 ? "%.1f%%" : "%.0f%%", percent);
    }
    return text;
}

void sm_append_spread(double percent, char *text, size_t size_bytes) {
    if (text[0] != '\0') {
        sm_append_part(text, size_bytes, " ± ", SM_TEXT_SPREAD(percent));
    }
}

const char *sm_text_count(double value, char *text, size_t size_bytes) {
    char digits[64];
    text[0] = '\0';
    int n = isfinite(value) ? snprintf(digits, sizeof(digits), "%.0f", value) : 0;
    if (n <= 0 || n >= (int)sizeof(digits)) {
        return text;
    }
    size_t end = 0;
    for (int i = 0; i < n && end + 2 < size_bytes; i++) {
        text[end++] = digits[i];
        int left = n - 1 - i;
        if (left > 0 && left % 3 == 0 && digits[i] != '-') {
            text[end++] = ',';
        }
    }
    text[end] = '\0';
    return text;
}

const char *sm_text_bytes(double bytes, char *text, size_t size_bytes) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    text[0] = '\0';
    if (!isfinite(bytes)) {
        return text;
    }
    size_t unit = 0;
    while (fabs(bytes) >= 1024 && unit + 1 < SM_COUNT(units)) {
        bytes /= 1024;
        unit++;
    }
    snprintf(text, size_bytes, unit == 0 ? "%.0f %s" : "%.2f %s", bytes, units[unit]);
    return text;
}

const char *sm_text_scaled(double value, const char *unit, char *text, size_t size_bytes) {
    static const char *const prefixes[] = {"", "k", "M", "G", "T", "P", "E"};
    text[0] = '\0';
    if (!isfinite(value)) {
        return text;
    }
    size_t prefix = 0;
    while (fabs(value) >= 1000 && prefix + 1 < SM_COUNT(prefixes)) {
        value /= 1000;
        prefix++;
    }
    snprintf(text, size_bytes, "%.3g %s%s", value, prefixes[prefix], unit);
    return text;
}

const char *sm_json_word(const json_t *record, const char *name) {
    const char *text = json_string_value(sm_json_get(record, name));
    return text != NULL ? text : "";
}

double sm_json_number(const json_t *record, const char *name) {
    const json_t *value = sm_json_get(record, name);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

const char *sm_text_value(const json_t *record, const char *name, char *text, size_t size_bytes) {
    const json_t *value = sm_json_get(record, name);
    SM_FREED char *dumped = value == NULL || json_is_null(value) ? NULL : sm_json_dump(value);
    snprintf(text, size_bytes, "%s", json_is_string(value) ? json_string_value(value) : dumped != NULL ? dumped : "");
    return text;
}

void sm_show_plain(const json_t *record, const sm_column *column, char *text, size_t size_bytes) {
    sm_text_value(record, column->name, text, size_bytes);
}

void sm_show_real(const json_t *record, const sm_column *column, char *text, size_t size_bytes) {
    const double scale = column->scale != 0 ? column->scale : 1;
    const double value = scale * sm_json_number(record, column->name);
    const double lo = column->beside != NULL ? scale * sm_json_number(record, column->lo) : NAN;
    const double hi = column->beside != NULL ? scale * sm_json_number(record, column->hi) : NAN;
    if (isfinite(value)) {
        snprintf(text, size_bytes, column->format != NULL ? column->format : "%.4g", value);
    }
    if (isfinite(value) && isfinite(lo) && isfinite(hi)) {
        sm_append(text, size_bytes, column->beside, lo, hi);
    }
}

void sm_show_ms(const json_t *record, const sm_column *column, char *text, size_t size_bytes) {
    sm_text_ms(sm_json_number(record, column->name), text, size_bytes);
}

// Shows avg_ns, forward_avg_ns, ... with its stddev_ns, forward_stddev_ns, ...
void sm_show_mean(const json_t *record, const sm_column *column, char *text, size_t size_bytes) {
    char name[64];
    snprintf(name, sizeof(name), "%.*sstddev_ns", (int)(strstr(column->name, "avg_ns") - column->name), column->name);
    sm_text_ms(sm_json_number(record, column->name), text, size_bytes);
    const char *point = strchr(text, '.');
    const double deviation = sm_json_number(record, name) / 1e6;
    if (text[0] != '\0' && isfinite(deviation)) { // with as many decimals
        sm_append(text, size_bytes, " ± %.*f", point != NULL ? (int)strlen(point + 1) : 0, deviation);
    }
}

void sm_show_count(const json_t *record, const sm_column *column, char *text, size_t size_bytes) {
    sm_text_count(sm_json_number(record, column->name), text, size_bytes);
}

void sm_show_rate(const json_t *record, const sm_column *column, char *text, size_t size_bytes) {
    sm_text_count(sm_json_number(record, column->name), text, size_bytes);
    sm_append_spread(sm_json_number(record, "noise_percent"), text, size_bytes);
}

void sm_show_bytes(const json_t *record, const sm_column *column, char *text, size_t size_bytes) {
    sm_text_bytes(sm_json_number(record, column->name), text, size_bytes);
}

void sm_show_scaled(const json_t *record, const sm_column *column, char *text, size_t size_bytes) {
    sm_text_scaled(sm_json_number(record, column->name), column->unit, text, size_bytes);
}

void sm_show_percent(const json_t *record, const sm_column *column, char *text, size_t size_bytes) {
    const double value = sm_json_number(record, column->name);
    if (isfinite(value)) {
        snprintf(text, size_bytes, "%.1f%%", 100 * value);
    }
}

// Appends " name=word" if the record has an unusual word.
static void tell_unusual(const json_t *record, const char *name, const char *usual, char *text, size_t size_bytes) {
    const char *word = sm_json_word(record, name);
    const char *dot = strrchr(name, '.'); // of a nested object's field
    if (word[0] != '\0' && strcmp(word, usual) != 0) {
        sm_append(text, size_bytes, " %s=%s", dot != NULL ? dot + 1 : name, word);
    }
}

// The mode, and of the other settings those that are not the usual ones, with those of a training loop.
const char *sm_text_mode(const json_t *record, char *text, size_t size_bytes) {
    const char *mode = sm_json_word(record, "mode");
    const char *own = sm_json_word(record, "own_kernels");
    const bool naive = strcmp(mode, "naive") == 0;
    snprintf(text, size_bytes, "%s", mode);
    const char *const usual[][2] = {
        {"recompute", "none"}, {"without", ""},      {"attention", naive ? "naive" : "flash"},
        {"products", "own"},   {"padding", "none"},  {"loop.loader", ""},
        {"loop.shard", ""},    {"loop.buckets", ""}, {"loop.gradients", ""}};
    for (size_t i = 0; i < SM_COUNT(usual); i++) {
        tell_unusual(record, usual[i][0], usual[i][1], text, size_bytes);
    }
    sm_append(text, size_bytes, "%s%s", own[0] != '\0' ? " with " : "", own);
    return text;
}

const char *sm_text_precision(const json_t *record, char *text, size_t size_bytes) {
    snprintf(text, size_bytes, "%s%s", sm_json_word(record, "precision"),
             json_is_true(sm_json_get(record, "emulated")) ? " (emulated)" : "");
    return text;
}

void sm_show_precision(const json_t *record, SM_UNUSED const sm_column *column, char *text, size_t size_bytes) {
    sm_text_precision(record, text, size_bytes);
}

void sm_show_yes_no(const json_t *record, const sm_column *column, char *text, size_t size_bytes) {
    const json_t *value = sm_json_get(record, column->name);
    snprintf(text, size_bytes, "%s", json_is_true(value) ? "yes" : json_is_false(value) ? "no" : "");
}

sm_show sm_show_by_type(sm_column_type type) {
    return type == SM_COLUMN_REAL ? sm_show_real : type == SM_COLUMN_BOOLEAN ? sm_show_yes_no : sm_show_plain;
}
