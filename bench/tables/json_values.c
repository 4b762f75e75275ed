// json_values.c: C values as JSON values. See json_values.h.
#include "bench/tables/json_values.h"

#include <math.h>
#include <stdarg.h>

static const char replacement[] = "\xEF\xBF\xBD"; // U+FFFD

json_t *sm_json_integer(int64_t value) { return value == SM_ABSENT ? json_null() : json_integer(value); }

json_t *sm_json_real(double value) { return isfinite(value) ? json_real(value) : json_null(); }

json_t *sm_json_integers(const int64_t *values, int64_t n) {
    json_t *array = json_array();
    for (int64_t i = 0; i < n; i++) {
        json_array_append_new(array, sm_json_integer(values[i]));
    }
    return array;
}

json_t *sm_json_reals(const double *values, int64_t n) {
    json_t *array = json_array();
    for (int64_t i = 0; i < n; i++) {
        json_array_append_new(array, sm_json_real(values[i]));
    }
    return array;
}

int sm_control_length(const char *text) {
    const int length = sm_utf8_length(text);
    const unsigned code = sm_utf8_code(text, (size_t)length);
    const bool is_c0_or_c1 = code < 0x20 || (code >= 0x7F && code < 0xA0);
    const bool is_direction =
        (code >= 0x200E && code <= 0x200F) || (code >= 0x202A && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
    return length > 0 && (is_c0_or_c1 || is_direction) ? length : 0;
}

json_t *sm_json_bytes(const char *bytes) {
    SM_FREED char *clean = sm_malloc(strlen(bytes) * (sizeof(replacement) - 1) + 1);
    char *end = clean;
    while (*bytes != '\0') {
        int length = sm_utf8_length(bytes);
        const char *source = length > 0 ? bytes : replacement;
        size_t n_copied = length > 0 ? (size_t)length : sizeof(replacement) - 1;
        memcpy(end, source, n_copied);
        end += n_copied;
        bytes += length > 0 ? length : 1;
    }
    *end = '\0';
    return json_string(clean);
}

json_t *sm_json_text(const char *bytes) {
    return bytes == NULL || bytes[0] == '\0' ? json_null() : sm_json_bytes(bytes);
}

json_t *sm_json_get(const json_t *object, const char *name) {
    const char *dot = strchr(name, '.');
    if (dot == NULL) {
        return json_object_get(object, name);
    }
    json_t *inner = json_object_getn(object, name, (size_t)(dot - name));
    return inner != NULL ? sm_json_get(inner, dot + 1) : NULL;
}

int sm_json_set_new(json_t *object, const char *name, json_t *value) {
    const char *dot = strchr(name, '.');
    if (dot == NULL) {
        return json_object_set_new(object, name, value);
    }
    size_t length = (size_t)(dot - name);
    json_t *inner = json_object_getn(object, name, length);
    if (inner == NULL) {
        inner = json_object();
        json_object_setn_new(object, name, length, inner);
    }
    return sm_json_set_new(inner, dot + 1, value);
}

json_t *sm_json_put_members(json_t *object, const sm_json_member *members, size_t n) {
    for (size_t i = 0; i < n; i++) {
        sm_json_set_new(object, members[i].name, members[i].value);
    }
    return object;
}

void sm_json_note(json_t *array, const char *format, ...) {
    char text[640];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    SM_OWN(json_t) *note = sm_json_bytes(text);
    bool is_there = false;
    SM_EACH(other, array) { is_there = is_there || json_equal(other, note); }
    if (!is_there) {
        json_array_append(array, note);
    }
}

bool sm_next_word(const char **words, char *word, size_t size_bytes) {
    const size_t length = strcspn(*words, " ");
    snprintf(word, size_bytes, "%.*s", (int)length, *words);
    *words += length + strspn(*words + length, " ");
    return length > 0;
}

json_t *sm_json_copy(json_t *object, const json_t *from, const char *words) {
    char name[128];
    while (sm_next_word(&words, name, sizeof(name))) {
        char *source = strchr(name, '=');
        if (source != NULL) {
            *source++ = '\0';
        }
        json_t *value = sm_json_get(from, source != NULL ? source : name);
        sm_json_set_new(object, name, value != NULL ? json_incref(value) : json_null());
    }
    return object;
}

size_t sm_json_place(const json_t *array, const json_t *value) {
    size_t place = json_array_size(array);
    while (place > 0 && json_array_get(array, place - 1) != value) {
        place--;
    }
    return place;
}

char *sm_json_dump(const json_t *value) { return json_dumps(value, SM_JSON_DUMP_FLAGS); }
