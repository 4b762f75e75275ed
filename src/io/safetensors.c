// safetensors.c: jansson parses the header, and everything in it is then checked. pread reads data in pieces, which
// become f32: a file that is larger than memory, or that shrinks meanwhile, is an error and not a crash.
#include <limits.h>

#include "f16.h"
#include "src/io/atomic_file.h"
#include "src/io/input_file.h"
#include "src/io/json_text.h"
#include "src/io/safetensors.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the data is little-endian, and so must the machine be");
_Static_assert(sizeof(float) == 4 && sizeof(double) == 8, "F32 and F64 are IEEE binary32 and binary64");

#define METADATA_KEY "__metadata__"

static const int64_t LENGTH_BYTES = 8;
static const int64_t MAX_HEADER_BYTES = 100 * 1000 * 1000; // the limit of the original implementation

static const struct {
    const char *name;
    int64_t bits;
} dtypes[SM_ST_DTYPE_COUNT] = {
#define X(code, name, bits) [code] = {name, bits},
    SM_SAFETENSORS_DTYPE_LIST(X)
#undef X
};

const char *sm_safetensors_dtype_name(sm_safetensors_dtype dtype) { return dtypes[dtype].name; }

bool sm_safetensors_is_float(sm_safetensors_dtype dtype) {
    return dtype == SM_ST_F16 || dtype == SM_ST_BF16 || dtype == SM_ST_F32 || dtype == SM_ST_F64;
}

// ---- reading ----

struct sm_safetensors {
    int fd;
    char *path;
    json_t *header; // owner of the entries' names
    sm_safetensors_entry *entries;
    int n_entries;
    int64_t data_bytes;     // size of the data
    int64_t data_offset;    // its offset in the file
    sm_safetensors **parts; // of an index: the files with the data
    char **part_paths;
    int n_parts;
};

static sm_status parse_dtype(const char *path, const json_t *info, sm_safetensors_entry *entry) {
    const char *name = json_string_value(json_object_get(info, "dtype"));
    SM_FAIL_IF(name == NULL, SM_ERR_FORMAT, "%s: tensor '%s' has no dtype, a string", path, entry->name);
    for (int i = 0; i < SM_ST_DTYPE_COUNT; i++) {
        if (strcmp(name, dtypes[i].name) == 0) {
            entry->dtype = (sm_safetensors_dtype)i;
            return SM_OK;
        }
    }
    return sm_fail(SM_ERR_FORMAT, "%s: tensor '%s' has an unknown dtype '%.16s'", path, entry->name,
                   sm_is_printable(name) ? name : "?");
}

static sm_status parse_shape(const char *path, const json_t *info, sm_safetensors_entry *entry) {
    const json_t *shape = json_object_get(info, "shape");
    SM_FAIL_IF(!json_is_array(shape), SM_ERR_FORMAT, "%s: tensor '%s' has no shape, a list of whole numbers", path,
               entry->name);
    SM_FAIL_IF(json_array_size(shape) > SM_SAFETENSORS_MAX_DIMS, SM_ERR_FORMAT,
               "%s: tensor '%s' has %zu dims, more than the %d that are handled", path, entry->name,
               json_array_size(shape), SM_SAFETENSORS_MAX_DIMS);
    entry->n_dims = (int)json_array_size(shape);
    entry->n_elems = 1;
    for (int i = 0; i < entry->n_dims; i++) {
        const json_t *dim = json_array_get(shape, (size_t)i);
        SM_FAIL_IF(!json_is_integer(dim) || json_integer_value(dim) < 0, SM_ERR_FORMAT,
                   "%s: tensor '%s': dim %d of its shape is not a whole number >= 0", path, entry->name, i);
        entry->dims[i] = json_integer_value(dim);
        SM_FAIL_IF(__builtin_mul_overflow(entry->n_elems, entry->dims[i], &entry->n_elems), SM_ERR_FORMAT,
                   "%s: tensor '%s': the size of its shape overflows", path, entry->name);
    }
    return SM_OK;
}

static sm_status parse_offsets(const sm_safetensors *file, const json_t *info, sm_safetensors_entry *entry) {
    const char *path = file->path;
    const json_t *offsets = json_object_get(info, "data_offsets");
    const json_t *begin = json_array_get(offsets, 0);
    const json_t *end = json_array_get(offsets, 1);
    SM_FAIL_IF(json_array_size(offsets) != 2 || !json_is_integer(begin) || !json_is_integer(end), SM_ERR_FORMAT,
               "%s: tensor '%s' has no data_offsets, two whole numbers", path, entry->name);
    entry->begin_bytes = json_integer_value(begin);
    entry->end_bytes = json_integer_value(end);
    SM_FAIL_IF(entry->begin_bytes < 0 || entry->end_bytes < entry->begin_bytes || entry->end_bytes > file->data_bytes,
               SM_ERR_FORMAT, "%s: tensor '%s': data_offsets [%lld, %lld] are not within %lld bytes of data", path,
               entry->name, (long long)entry->begin_bytes, (long long)entry->end_bytes, (long long)file->data_bytes);
    int64_t size_bits;
    SM_FAIL_IF(__builtin_mul_overflow(entry->n_elems, dtypes[entry->dtype].bits, &size_bits), SM_ERR_FORMAT,
               "%s: tensor '%s': the size of its shape overflows", path, entry->name);
    const int64_t size_bytes = size_bits / 8;
    SM_FAIL_IF(size_bits % 8 != 0 || size_bytes != entry->end_bytes - entry->begin_bytes, SM_ERR_FORMAT,
               "%s: tensor '%s': its shape needs %lld bytes, its data_offsets hold %lld", path, entry->name,
               (long long)size_bytes, (long long)(entry->end_bytes - entry->begin_bytes));
    return SM_OK;
}

static sm_status parse_entry(const sm_safetensors *file, const char *name, const json_t *info,
                             sm_safetensors_entry *entry) {
    SM_FAIL_IF(name[0] == '\0' || strlen(name) > SM_SAFETENSORS_MAX_NAME || !sm_is_printable(name), SM_ERR_FORMAT,
               "%s: a tensor's name is empty, unprintable or longer than %d bytes", file->path,
               SM_SAFETENSORS_MAX_NAME);
    SM_FAIL_IF(!json_is_object(info), SM_ERR_FORMAT, "%s: tensor '%s' is not described by an object", file->path, name);
    entry->name = name;
    SM_TRY(parse_dtype(file->path, info, entry));
    SM_TRY(parse_shape(file->path, info, entry));
    return parse_offsets(file, info, entry);
}

static sm_status parse_entries(sm_safetensors *file) {
    file->entries = sm_calloc(json_object_size(file->header) + 1, sizeof *file->entries);
    const char *name;
    json_t *info;
    json_object_foreach(file->header, name, info) {
        if (strcmp(name, METADATA_KEY) == 0) {
            bool well_formed = json_is_object(info) || json_is_null(info);
            const char *key;
            json_t *value;
            json_object_foreach(info, key, value) { well_formed = well_formed && json_is_string(value); }
            SM_FAIL_IF(!well_formed, SM_ERR_FORMAT, "%s: %s is not an object of strings", file->path, METADATA_KEY);
        } else {
            SM_TRY(parse_entry(file, name, info, &file->entries[file->n_entries]));
            file->n_entries++;
        }
    }
    return SM_OK;
}

// Orders entries by their beginning; empty tensors before others with the same beginning.
static int compare_extents(const void *left, const void *right) {
    const sm_safetensors_entry *a = *(const sm_safetensors_entry *const *)left;
    const sm_safetensors_entry *b = *(const sm_safetensors_entry *const *)right;
    if (a->begin_bytes != b->begin_bytes) {
        return a->begin_bytes < b->begin_bytes ? -1 : 1;
    }
    return a->end_bytes < b->end_bytes ? -1 : a->end_bytes > b->end_bytes;
}

static sm_status check_cover(const sm_safetensors *file) {
    SM_FREED const sm_safetensors_entry **sorted = sm_malloc(((size_t)file->n_entries + 1) * sizeof(*sorted));
    for (int i = 0; i < file->n_entries; i++) {
        sorted[i] = &file->entries[i];
    }
    qsort(sorted, (size_t)file->n_entries, sizeof(*sorted), compare_extents);
    int64_t covered_bytes = 0;
    for (int i = 0; i < file->n_entries; i++) { // each must begin where the one before it ends
        const sm_safetensors_entry *entry = sorted[i];
        SM_FAIL_IF(entry->begin_bytes < covered_bytes, SM_ERR_FORMAT, "%s: the data of tensors '%s' and '%s' overlap",
                   file->path, sorted[i - 1]->name, entry->name);
        SM_FAIL_IF(entry->begin_bytes > covered_bytes, SM_ERR_FORMAT,
                   "%s: a hole of %lld bytes in the data before tensor '%s'", file->path,
                   (long long)(entry->begin_bytes - covered_bytes), entry->name);
        covered_bytes = entry->end_bytes;
    }
    SM_FAIL_IF(covered_bytes != file->data_bytes, SM_ERR_FORMAT, "%s: the tensors cover %lld of %lld bytes of data",
               file->path, (long long)covered_bytes, (long long)file->data_bytes);
    return SM_OK;
}

static sm_status read_header(sm_safetensors *file, int64_t file_bytes) {
    uint64_t length;
    SM_FAIL_IF(file_bytes < LENGTH_BYTES, SM_ERR_FORMAT, "%s: %lld bytes are too short for a safetensors file",
               file->path, (long long)file_bytes);
    SM_TRY(sm_input_read(file->fd, file->path, 0, &length, sizeof length));
    SM_FAIL_IF(length == 0 || length > (uint64_t)(file_bytes - LENGTH_BYTES), SM_ERR_FORMAT,
               "%s: a header of %llu bytes does not fit the file's %lld bytes", file->path, (unsigned long long)length,
               (long long)file_bytes);
    SM_FAIL_IF(length > (uint64_t)MAX_HEADER_BYTES, SM_ERR_FORMAT,
               "%s: a header of %llu bytes is longer than the %lld that are allowed", file->path,
               (unsigned long long)length, (long long)MAX_HEADER_BYTES);
    SM_FREED char *text = malloc(length);
    SM_FAIL_IF(text == NULL, SM_ERR_OOM, "%s: no memory for a header of %llu bytes", file->path,
               (unsigned long long)length);
    file->data_offset = LENGTH_BYTES + (int64_t)length;
    file->data_bytes = file_bytes - file->data_offset;
    SM_TRY(sm_input_read(file->fd, file->path, LENGTH_BYTES, text, length));
    json_error_t error;
    SM_FAIL_IF(text[0] != '{', SM_ERR_FORMAT, "%s: the header does not begin with '{': not a safetensors file",
               file->path);
    file->header = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    SM_FAIL_IF(file->header == NULL, SM_ERR_FORMAT, "%s: the header is not JSON: %s, byte %d", file->path,
               sm_is_printable(error.text) ? error.text : "control character", error.position);
    SM_TRY(parse_entries(file));
    return check_cover(file);
}

static sm_safetensors *new_file(const char *path) {
    sm_safetensors *file = sm_calloc(1, sizeof *file);
    file->path = sm_strdup(path);
    file->fd = -1;
    return file;
}

sm_status sm_safetensors_open(const char *path, sm_safetensors **file) {
    int64_t file_bytes;
    *file = NULL;
    SM_OWN(sm_safetensors) *f = new_file(path);
    SM_TRY(sm_input_open(path, &f->fd, &file_bytes));
    SM_TRY(read_header(f, file_bytes));
    *file = sm_give(&f);
    return SM_OK;
}

void sm_safetensors_close(sm_safetensors *file) {
    if (file == NULL) {
        return;
    }
    sm_close_at(&file->fd);
    for (int i = 0; i < file->n_parts; i++) {
        sm_safetensors_close(file->parts[i]);
    }
    free(file->parts);
    free(file->part_paths);
    json_decref(file->header);
    free(file->entries);
    free(file->path);
    free(file);
}

// ---- several files ----

// Names of files in the index's own folder.
static bool is_plain_name(const char *name) {
    return name != NULL && name[0] != '\0' && strlen(name) <= SM_SAFETENSORS_MAX_NAME && strchr(name, '/') == NULL &&
           strcmp(name, ".") != 0 && strcmp(name, "..") != 0 && sm_is_printable(name);
}

// The names of the files that a map lists, as keys.
static sm_status list_parts(const char *path, const json_t *map, json_t *names) {
    const char *tensor;
    json_t *name;
    SM_FAIL_IF(json_object_size(map) == 0, SM_ERR_FORMAT,
               "%s: has no weight_map, an object with the file of each tensor", path);
    json_object_foreach((json_t *)map, tensor, name) {
        SM_FAIL_IF(!is_plain_name(json_string_value(name)), SM_ERR_FORMAT,
                   "%s: tensor '%.100s': its file is not the name of one in the same folder", path,
                   sm_is_printable(tensor) ? tensor : "?");
        json_object_set(names, json_string_value(name), json_null());
    }
    return SM_OK;
}

static sm_status open_part(sm_safetensors *file, const char *name) {
    char path[PATH_MAX];
    const char *slash = strrchr(file->path, '/');
    const int n_folder = slash != NULL ? (int)(slash + 1 - file->path) : 0;
    SM_TRY(sm_make_path(path, "%.*s%s", n_folder, file->path, name));
    const sm_status status = sm_safetensors_open(path, &file->parts[file->n_parts]);
    SM_FAIL_IF(status == SM_ERR_IO, status, "%s; it is a part of the model that %s lists", sm_error_message(),
               file->path);
    SM_TRY(status);
    const sm_safetensors *part = file->parts[file->n_parts];
    file->part_paths[file->n_parts++] = part->path;
    sm_safetensors_entry *grown =
        sm_realloc(file->entries, (size_t)(file->n_entries + part->n_entries + 1) * sizeof *grown);
    file->entries = grown;
    for (int i = 0; i < part->n_entries; i++) {
        grown[file->n_entries] = part->entries[i];
        grown[file->n_entries++].part = file->n_parts - 1;
    }
    return SM_OK;
}

static int compare_names(const void *left, const void *right) {
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

static sm_status open_parts(sm_safetensors *file, json_t *names) {
    const size_t n = json_object_size(names);
    SM_FREED const char **sorted = sm_calloc(n, sizeof(*sorted));
    size_t i = 0;
    const char *name;
    json_t *part;
    file->parts = sm_calloc(n, sizeof(*file->parts));
    file->part_paths = sm_calloc(n, sizeof(*file->part_paths));
    json_object_foreach(names, name, part) { sorted[i++] = name; }
    qsort(sorted, n, sizeof(*sorted), compare_names);
    for (i = 0; i < n; i++) {
        SM_TRY(open_part(file, sorted[i]));
        json_object_set(names, sorted[i], file->parts[i]->header);
    }
    return SM_OK;
}

sm_status sm_safetensors_open_index(const char *path, sm_safetensors **file) {
    enum { MAX_INDEX_BYTES = 1 << 26 };
    json_auto_t *index = NULL;
    json_auto_t *parts = json_object(); // headers by name
    const char *tensor;
    json_t *name;
    *file = NULL;
    SM_OWN(sm_safetensors) *f = new_file(path);
    SM_TRY(sm_json_read(path, MAX_INDEX_BYTES, &index));
    json_t *map = json_object_get(index, "weight_map");
    SM_TRY(list_parts(path, map, parts));
    SM_TRY(open_parts(f, parts));
    json_object_foreach(map, tensor, name) {
        SM_FAIL_IF(json_object_get(json_object_get(parts, json_string_value(name)), tensor) == NULL, SM_ERR_FORMAT,
                   "%s: tensor '%.100s' is not in %s, as it says", path, sm_is_printable(tensor) ? tensor : "?",
                   json_string_value(name));
    }
    *file = sm_give(&f);
    return SM_OK;
}

const char *sm_safetensors_name(const sm_safetensors *file) { return file->path; }

char *const *sm_safetensors_paths(const sm_safetensors *file, int *n) {
    *n = file->n_parts > 0 ? file->n_parts : 1;
    return file->n_parts > 0 ? file->part_paths : &file->path;
}

// ---- tensors ----

int sm_safetensors_count(const sm_safetensors *file) { return file->n_entries; }

const sm_safetensors_entry *sm_safetensors_at(const sm_safetensors *file, int index) { return &file->entries[index]; }

const char *sm_safetensors_metadata(const sm_safetensors *file, const char *key) {
    return json_string_value(json_object_get(json_object_get(file->header, METADATA_KEY), key));
}

// n_elems values of `dtype` at `source`, of any alignment.
static void convert(sm_safetensors_dtype dtype, const unsigned char *source, int64_t n_elems, float *values) {
    for (int64_t i = 0; i < n_elems; i++) {
        if (dtype == SM_ST_F64) {
            double value;
            memcpy(&value, source + 8 * i, sizeof value);
            values[i] = (float)value;
        } else if (dtype == SM_ST_U8) {
            values[i] = source[i];
        } else {
            uint16_t bits;
            memcpy(&bits, source + 2 * i, sizeof bits);
            values[i] = dtype == SM_ST_F16 ? sm_f16_widen(bits) : sm_bf16_widen(bits);
        }
    }
}

sm_status sm_safetensors_read(const sm_safetensors *file, const sm_safetensors_entry *entry, float *values) {
    if (file->n_parts > 0) {
        file = file->parts[entry->part];
    }
    int64_t offset = file->data_offset + entry->begin_bytes;
    sm_safetensors_dtype dtype = entry->dtype;
    SM_FAIL_IF(!sm_safetensors_is_float(dtype) && dtype != SM_ST_U8, SM_ERR_UNSUPPORTED,
               "%s: tensor '%s' is %s; only F32, F64, F16, BF16 and U8 can be read", file->path, entry->name,
               dtypes[dtype].name);
    if (dtype == SM_ST_F32) {
        return sm_input_read(file->fd, file->path, offset, values, (size_t)entry->n_elems * sizeof *values);
    }
    unsigned char piece[16384];
    int64_t elem_bytes = dtypes[dtype].bits / 8;
    int64_t piece_elems = (int64_t)sizeof piece / elem_bytes;
    for (int64_t first = 0; first < entry->n_elems; first += piece_elems) {
        int64_t left = entry->n_elems - first;
        int64_t n = left < piece_elems ? left : piece_elems;
        SM_TRY(sm_input_read(file->fd, file->path, offset + first * elem_bytes, piece, (size_t)(n * elem_bytes)));
        convert(dtype, piece, n, values + first);
    }
    return SM_OK;
}

// ---- writing ----

struct sm_safetensors_writer {
    sm_atomic_file *file;
    char *path;
    int64_t size_bytes; // of all tensors
    int64_t written_bytes;
};

// Adds the description of one tensor at *at_bytes of the data, and advances *at_bytes.
static sm_status describe(const char *path, json_t *header, const sm_safetensors_spec *spec, sm_safetensors_dtype dtype,
                          int64_t *at_bytes) {
    int64_t begin = *at_bytes;
    int64_t size = dtypes[dtype].bits / 8;
    bool fits = true;
    json_t *shape = json_array();
    json_t *info = json_pack("{s:s, s:o}", "dtype", dtypes[dtype].name, "shape", shape);
    json_object_set_new(header, spec->name, info);
    for (int i = 0; i < spec->n_dims; i++) {
        json_array_append_new(shape, json_integer(spec->dims[i]));
        fits = fits && !__builtin_mul_overflow(size, spec->dims[i], &size);
    }
    fits = fits && !__builtin_add_overflow(begin, size, at_bytes);
    SM_FAIL_IF(!fits, SM_ERR_INVALID, "%s: tensor '%s': its size overflows", path, spec->name);
    json_object_set_new(info, "data_offsets", json_pack("[I, I]", (json_int_t)begin, (json_int_t)*at_bytes));
    return SM_OK;
}

// The header as JSON; sets *size_bytes to the size of the data.
static sm_status build_header(const char *path, const sm_safetensors_spec *specs, int n_specs, int n_floats,
                              const sm_safetensors_pair *pairs, int n_pairs, json_t *header, int64_t *size_bytes) {
    json_t *metadata = json_pack("{s:s}", "format", "pt");
    json_object_set_new(header, METADATA_KEY, metadata);
    for (int i = 0; i < n_pairs; i++) {
        json_object_set_new(metadata, pairs[i].key, json_string(pairs[i].value));
    }
    *size_bytes = 0;
    for (int i = 0; i < n_specs; i++) {
        SM_TRY(describe(path, header, &specs[i], i < n_floats ? SM_ST_F32 : SM_ST_U8, size_bytes));
    }
    return SM_OK;
}

sm_status sm_safetensors_create(const char *path, const sm_safetensors_spec *specs, int n_specs, int n_floats,
                                const sm_safetensors_pair *metadata, int n_metadata, char *digest,
                                sm_safetensors_writer **writer) {
    *writer = NULL;
    json_auto_t *header = json_object();
    SM_OWN(sm_safetensors_writer) *w = sm_calloc(1, sizeof *w);
    w->path = sm_strdup(path);
    SM_TRY(build_header(path, specs, n_specs, n_floats, metadata, n_metadata, header, &w->size_bytes));
    SM_TRY(sm_atomic_open(path, &w->file));
    if (digest != NULL) {
        sm_atomic_take_digest(w->file, digest);
    }
    // Writes length and header; trailing spaces align the data to 8 bytes.
    SM_FREED char *text = json_dumps(header, JSON_COMPACT);
    size_t size_bytes = strlen(text);
    size_t padding = (8 - size_bytes % 8) % 8;
    uint64_t length = size_bytes + padding;
    SM_TRY(sm_atomic_write(w->file, &length, sizeof length));
    SM_TRY(sm_atomic_write(w->file, text, size_bytes));
    SM_TRY(sm_atomic_write(w->file, "        ", padding));
    *writer = sm_give(&w);
    return SM_OK;
}

sm_status sm_safetensors_append_bytes(sm_safetensors_writer *writer, const void *bytes, int64_t size_bytes) {
    SM_FAIL_IF(size_bytes < 0 || size_bytes > writer->size_bytes - writer->written_bytes, SM_ERR_INTERNAL,
               "%s: more data than its header tells of", writer->path);
    writer->written_bytes += size_bytes;
    return sm_atomic_write(writer->file, bytes, (size_t)size_bytes);
}

sm_status sm_safetensors_append(sm_safetensors_writer *writer, const float *values, int64_t n_elems) {
    int64_t size_bytes;
    const bool fits = !__builtin_mul_overflow(n_elems, (int64_t)sizeof *values, &size_bytes);
    return sm_safetensors_append_bytes(writer, values, fits ? size_bytes : -1); // -1: more than any header tells of
}

sm_status sm_safetensors_finish(sm_safetensors_writer *writer) {
    SM_FAIL_IF(writer->written_bytes != writer->size_bytes, SM_ERR_INTERNAL, "%s: %lld of %lld bytes were written",
               writer->path, (long long)writer->written_bytes, (long long)writer->size_bytes);
    return sm_atomic_commit(writer->file);
}

void sm_safetensors_end(sm_safetensors_writer *writer) {
    if (writer != NULL) {
        sm_atomic_close(writer->file);
        free(writer->path);
        free(writer);
    }
}
