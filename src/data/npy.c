// npy.c: "\x93NUMPY", a version, the header's length, and a dict such as
//     {'descr': '<u2', 'fortran_order': False, 'shape': (4000,), }
#include "src/data/data_format.h"

typedef struct {
    const char *path;
    const char *at, *end;
} reader;

enum { MAGIC_BYTES = 6, TYPE_BYTES = 32 };

typedef struct {
    char type[TYPE_BYTES]; // "<u2"
    bool is_fortran;
    int n_dims; // -1: not given
    int64_t count;
} array;

bool sm_npy_begins(const uint8_t *head, size_t n) { return n >= MAGIC_BYTES && memcmp(head, "\x93NUMPY", 6) == 0; }

static sm_status malformed(const reader *r) {
    return sm_fail(SM_ERR_FORMAT, "%s: NumPy .npy with a malformed header; save it again: np.save", r->path);
}

static void skip_space(reader *r) {
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' || *r->at == '\t')) {
        r->at++;
    }
}

// Whether the next characters are these; they are then read.
static bool take(reader *r, const char *text) {
    const size_t n = strlen(text);
    skip_space(r);
    if ((size_t)(r->end - r->at) < n || memcmp(r->at, text, n) != 0) {
        return false;
    }
    r->at += n;
    return true;
}

static sm_status read_string(reader *r, char text[TYPE_BYTES]) {
    const char *quote = take(r, "'") ? "'" : take(r, "\"") ? "\"" : NULL;
    int n = 0;
    while (quote != NULL && r->at < r->end && *r->at != *quote && n < TYPE_BYTES - 1) {
        text[n++] = *r->at++;
    }
    text[n] = '\0';
    return quote != NULL && take(r, quote) ? SM_OK : malformed(r);
}

static sm_status read_shape(reader *r, array *a) {
    bool more = take(r, "(");
    a->n_dims = 0;
    a->count = 1;
    SM_TRY(more ? SM_OK : malformed(r));
    for (; !take(r, ")"); more = take(r, ",")) {
        int64_t size = 0;
        skip_space(r);
        const char *begin = r->at;
        for (; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++) {
            if (__builtin_mul_overflow(size, 10, &size) || __builtin_add_overflow(size, *r->at - '0', &size)) {
                return malformed(r);
            }
        }
        if (!more || r->at == begin || __builtin_mul_overflow(a->count, size, &a->count)) {
            return malformed(r);
        }
        a->n_dims++;
        (void)take(r, "L"); // Python 2
    }
    return SM_OK;
}

static sm_status read_entry(reader *r, array *a) {
    char key[TYPE_BYTES];
    SM_TRY(read_string(r, key));
    SM_TRY(take(r, ":") ? SM_OK : malformed(r));
    if (strcmp(key, "descr") == 0) {
        skip_space(r);
        return r->at < r->end && *r->at == '['
                   ? sm_fail(SM_ERR_UNSUPPORTED, "%s: a NumPy array of records: save the column of ids alone", r->path)
                   : read_string(r, a->type);
    }
    if (strcmp(key, "fortran_order") == 0) {
        a->is_fortran = take(r, "True");
        return a->is_fortran || take(r, "False") ? SM_OK : malformed(r);
    }
    return strcmp(key, "shape") == 0 ? read_shape(r, a) : malformed(r);
}

static sm_status read_header(reader *r, array *a) {
    SM_TRY(take(r, "{") ? SM_OK : malformed(r));
    while (!take(r, "}")) {
        SM_TRY(read_entry(r, a));
        if (!take(r, ",")) {
            SM_TRY(take(r, "}") ? SM_OK : malformed(r));
            break;
        }
    }
    skip_space(r);
    return r->at == r->end && a->n_dims >= 0 && a->type[0] != '\0' ? SM_OK : malformed(r);
}

// "<u2": little-endian, unsigned, two bytes.
static sm_status read_type(const reader *r, const char *type, sm_id_layout *layout) {
    static const struct {
        char letter;
        const char *name;
    } others[] = {{'f', "floats"},  {'c', "complex numbers"}, {'b', "truth values"}, {'O', "Python objects"},
                  {'U', "strings"}, {'S', "strings"},         {'M', "dates"},        {'m', "spans of time"}};
    int width = 0;
    char rest;
    if (strchr("<>|=", type[0]) == NULL || type[1] == '\0') {
        return malformed(r);
    }
    if ((type[1] == 'u' || type[1] == 'i') && sscanf(type + 2, "%1d%c", &width, &rest) == 1 &&
        (width == 1 || width == 2 || width == 4 || width == 8)) {
        layout->id_bytes = width;
        layout->is_signed = type[1] == 'i';
        layout->is_big_endian = type[0] == '>';
        return SM_OK;
    }
    for (size_t i = 0; i < SM_COUNT(others); i++) {
        SM_FAIL_IF(type[1] == others[i].letter, SM_ERR_UNSUPPORTED,
                   "%s: a NumPy array of %s, not of token ids; save whole numbers: np.save(FILE, ids.astype('uint16'))",
                   r->path, others[i].name);
    }
    return sm_fail(SM_ERR_UNSUPPORTED, "%s: a NumPy array of another type than whole numbers of 8 to 64 bits", r->path);
}

sm_status sm_npy_parse(const char *path, const uint8_t *head, size_t n, int64_t size_bytes, sm_id_layout *layout) {
    array a = {.n_dims = -1};
    reader r = {.path = path};
    SM_FAIL_IF(!sm_npy_begins(head, n), SM_ERR_FORMAT, "%s: no NumPy .npy: it does not begin with \\x93NUMPY", path);
    const size_t before = n > MAGIC_BYTES && head[MAGIC_BYTES] == 1 ? 10 : 12;
    if (n < before || head[MAGIC_BYTES] < 1 || head[MAGIC_BYTES] > 3) {
        return malformed(&r);
    }
    size_t n_header = (size_t)(head[8] | head[9] << 8);
    n_header |= before == 12 ? (size_t)head[10] << 16 | (size_t)head[11] << 24 : 0;
    if (n_header > n - before) {
        return malformed(&r);
    }
    r.at = (const char *)head + before;
    r.end = r.at + n_header;
    SM_TRY(read_header(&r, &a));
    *layout = (sm_id_layout){.offset_bytes = (int64_t)(before + n_header), .count = a.count};
    SM_TRY(read_type(&r, a.type, layout));
    SM_FAIL_IF(a.is_fortran && a.n_dims > 1, SM_ERR_UNSUPPORTED,
               "%s: a NumPy array of %d dimensions in Fortran's order; save it in C's: np.save(FILE, "
               "np.ascontiguousarray(ids))",
               path, a.n_dims);
    const int64_t found_bytes = size_bytes - layout->offset_bytes;
    return a.count == found_bytes / layout->id_bytes && found_bytes % layout->id_bytes == 0
               ? SM_OK
               : sm_fail(SM_ERR_FORMAT, "%s: its header tells of %lld ids of %lld bytes, but %lld bytes follow it",
                         path, (long long)a.count, (long long)layout->id_bytes, (long long)found_bytes);
}
