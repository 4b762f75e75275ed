// Files written whole or not at all; safetensors, well-formed and malformed.
#include <jansson.h>

#include "tests/support/full_disk.h"
#include "tests/support/temp_folder.h"
#include "src/io/atomic_file.h"
#include "src/io/safetensors.h"

// ---- atomic files ----

static void expect_content(const char *path, const char *text) { assert_string_equal(file_text(path), text); }

TEST(a_file_is_replaced_at_commit) {
    const char *folder = temp_path("atomic");
    const char *path = temp_path("atomic/file");
    sm_atomic_file *file;
    struct stat info;
    expect_ok("folder", sm_make_folder(folder));
    expect_ok("folder again", sm_make_folder(folder));
    expect_ok("new", sm_atomic_write_all(path, "old", 3));
    assert_int_equal(chmod(path, 0640), 0);

    expect_ok("open", sm_atomic_open(path, &file));
    expect_ok("write", sm_atomic_write(file, "new ", 4));
    expect_ok("write", sm_atomic_write(file, "text", 4));
    expect_content(path, "old");
    expect_ok("commit", sm_atomic_commit(file));
    sm_atomic_close(file);
    expect_content(path, "new text");
    assert_int_equal(temp_count(folder), 1);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0640);

    expect_ok("open", sm_atomic_open(path, &file));
    expect_ok("write", sm_atomic_write(file, "never", 5));
    sm_atomic_close(file);
    expect_content(path, "new text");
    assert_int_equal(temp_count(folder), 1);
}

TEST(a_relative_path_is_in_the_working_folder) {
    char back[PATH_MAX];
    assert_non_null(getcwd(back, sizeof back));
    assert_int_equal(chdir(temp_folder), 0);
    expect_ok("relative", sm_atomic_write_all("relative", "here", 4));
    assert_int_equal(chdir(back), 0);
    expect_content(temp_path("relative"), "here");
}

TEST(a_path_that_cannot_be_written_is_named) {
    const char *folder = temp_path("unwritable");
    const char *file = temp_path("unwritable/file");
    expect_ok("folder", sm_make_folder(folder));
    expect_ok("file", sm_atomic_write_all(file, "x", 1));
    const struct {
        const char *name, *message;
    } cases[] = {
        {"unwritable", "unwritable|not a regular file"},
        {"missing/file", "missing/file|No such file"},
        {"unwritable/file/x", "file/x|Not a directory"},
        {"unwritable/", "not the name of a file"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *path = temp_path(cases[i].name);
        expect_failure(cases[i].name, sm_atomic_write_all(path, "x", 1), SM_ERR_IO, cases[i].message);
    }
    expect_failure("device", sm_atomic_write_all("/dev/null", "x", 1), SM_ERR_IO, "/dev/null|not a regular file");
    expect_failure("empty", sm_atomic_write_all("", "x", 1), SM_ERR_IO, "not the name of a file");
    expect_failure("folder", sm_make_folder(file), SM_ERR_IO, "unwritable/file|a file has that name");
    expect_failure("folder", sm_make_folder(temp_path("no/such")), SM_ERR_IO, "no/such|No such file");
}

TEST(a_full_disk_leaves_the_old_file) {
    static const char data[8192] = {0};
    const char *folder = temp_path("full");
    const char *path = temp_path("full/file");
    expect_ok("folder", sm_make_folder(folder));
    expect_ok("file", sm_atomic_write_all(path, "old", 3));
    limit_files(4096);
    sm_status status = sm_atomic_write_all(path, data, sizeof data);
    limit_files(RLIM_INFINITY);

    expect_failure("full", status, SM_ERR_IO, "full/file|cannot write|File too large");
    expect_content(path, "old");
    assert_int_equal(temp_count(folder), 1);
}

// What a killed process leaves goes with the next write; what a living one is writing stays.
TEST(temporaries_of_the_dead_go) {
    const char *folder = temp_path("temporaries");
    const char *path = temp_path("temporaries/file");
    sm_atomic_file *file;
    expect_ok("folder", sm_make_folder(folder));
    temp_put_text("temporaries/file.tmp-77-1/inner", "x");
    temp_put_text("temporaries/file.tmp-77-2", "x");
    temp_put_text("temporaries/file.tmp-77-x", "x"); // not a temporary's name
    expect_ok("living", sm_atomic_open(path, &file));
    assert_int_equal(temp_count(folder), 2);
    expect_ok("second", sm_atomic_write_all(path, "second", 6));
    assert_int_equal(temp_count(folder), 3);
    expect_ok("write", sm_atomic_write(file, "first", 5));
    expect_ok("commit", sm_atomic_commit(file));
    sm_atomic_close(file);
    expect_content(path, "first");
    assert_int_equal(temp_count(folder), 2);
}

// ---- safetensors ----

// A file of `length` (the header's own if 0), the header and n zeros. Returns its size.
static size_t make_safetensors(const char *header, uint64_t length, size_t n_zeros, char *bytes, size_t capacity) {
    size_t header_bytes = strlen(header);
    uint64_t written = length != 0 ? length : header_bytes;
    assert_true(8 + header_bytes + n_zeros <= capacity);
    memset(bytes, 0, capacity);
    memcpy(bytes, &written, 8);
    memcpy(bytes + 8, header, header_bytes);
    return 8 + header_bytes + n_zeros;
}

#define F32(name, shape, begin, end) \
    "\"" name "\":{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":[" #begin "," #end "]}"

TEST(malformed_safetensors_are_refused) {
    static const struct {
        const char *label, *header;
        uint64_t length; // 0: the header's own
        size_t n_zeros;  // of data
        const char *message;
    } cases[] = {
        {"longer than the file", "{}", 3, 0, "header of 3 bytes|10 bytes"},
        {"2^63", "{}", (uint64_t)1 << 63, 0, "header of 9223372036854775808 bytes"},
        {"2^64 - 1", "{}", UINT64_MAX, 0, "header of 18446744073709551615 bytes"},
        {"not an object", "[1]", 0, 0, "does not begin with '{'"},
        {"space before", " {}", 0, 0, "does not begin with '{'"},
        {"not JSON", "{oops}", 0, 0, "not JSON"},
        {"cut JSON", "{\"a\":", 0, 0, "not JSON"},
        {"text after", "{} x", 0, 0, "not JSON"},
        {"a line break in it", "{\"a\n\":1}", 0, 0, "not JSON"},
        {"nul in a name", "{\"a\\u0000b\":1}", 0, 0, "not JSON"},
        {"duplicate", "{" F32("a", "[1]", 0, 4) "," F32("a", "[1]", 4, 8) "}", 0, 8, "not JSON|uplicate"},
        {"duplicate metadata", "{\"__metadata__\":{},\"__metadata__\":{}}", 0, 0, "not JSON|uplicate"},
        {"metadata no object", "{\"__metadata__\":[]}", 0, 0, "__metadata__"},
        {"metadata no string", "{\"__metadata__\":{\"step\":1}}", 0, 0, "__metadata__"},
        {"entry no object", "{\"a\":[]}", 0, 0, "'a'|object"},
        {"empty name", "{" F32("", "[1]", 0, 4) "}", 0, 4, "name"},
        {"control character", "{" F32("a\\u001b[m", "[1]", 0, 4) "}", 0, 4, "unprintable"},
        {"no dtype", "{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 0, 4, "'a'|dtype"},
        {"dtype no string", "{\"a\":{\"dtype\":4,\"shape\":[1],\"data_offsets\":[0,4]}}", 0, 4, "'a'|dtype"},
        {"unknown dtype", "{\"a\":{\"dtype\":\"F31\",\"shape\":[1],\"data_offsets\":[0,4]}}", 0, 4, "'a'|'F31'"},
        {"no shape", "{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 0, 4, "'a'|shape"},
        {"negative dim", "{" F32("a", "[1,-1]", 0, 4) "}", 0, 4, "'a'|dim 1"},
        {"broken dim", "{" F32("a", "[1.0]", 0, 4) "}", 0, 4, "'a'|dim 0"},
        {"nine dims", "{" F32("a", "[1,1,1,1,1,1,1,1,1]", 0, 4) "}", 0, 4, "'a'|9 dims"},
        {"lying shape", "{" F32("a", "[2]", 0, 4) "}", 0, 4, "'a'|8 bytes|hold 4"},
        {"product overflows", "{" F32("a", "[4294967296,4294967296]", 0, 4) "}", 0, 4, "'a'|overflows"},
        {"product wraps to 1", "{" F32("a", "[4294967295,4294967297,2]", 0, 4) "}", 0, 4, "'a'|overflows"},
        {"bytes overflow", "{" F32("a", "[4611686018427387905]", 0, 4) "}", 0, 4, "'a'|overflows"},
        {"dim too large", "{" F32("a", "[9223372036854775808]", 0, 4) "}", 0, 4, "not JSON"},
        {"no offsets", "{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 0, 4, "'a'|data_offsets"},
        {"one offset", "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4]}}", 0, 4, "'a'|data_offsets"},
        {"broken offset", "{" F32("a", "[1]", 0, 4.0) "}", 0, 4, "'a'|data_offsets"},
        {"negative offset", "{" F32("a", "[1]", -4, 0) "}", 0, 4, "'a'|[-4, 0]"},
        {"backwards", "{" F32("a", "[1]", 4, 0) "}", 0, 4, "'a'|[4, 0]"},
        {"beyond the data", "{" F32("a", "[2]", 0, 8) "}", 0, 7, "'a'|[0, 8]|7 bytes"},
        {"overlap", "{" F32("a", "[2]", 0, 8) "," F32("b", "[2]", 4, 12) "}", 0, 12, "'a' and 'b' overlap"},
        {"the same bytes", "{" F32("a", "[1]", 0, 4) "," F32("b", "[1]", 0, 4) "}", 0, 4, "overlap"},
        {"hole at the start", "{" F32("a", "[1]", 4, 8) "}", 0, 8, "hole of 4 bytes|'a'"},
        {"hole", "{" F32("b", "[1]", 12, 16) "," F32("a", "[2]", 0, 8) "}", 0, 16, "hole of 4 bytes|'b'"},
        {"hole at the end", "{" F32("a", "[1]", 0, 4) "}", 0, 5, "cover 4 of 5 bytes"},
        {"data without tensors", "{}", 0, 1, "cover 0 of 1 bytes"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char bytes[512];
        sm_safetensors *file;
        size_t n = make_safetensors(cases[i].header, cases[i].length, cases[i].n_zeros, bytes, sizeof bytes);
        expect_failure(cases[i].label, sm_safetensors_open(temp_put("malformed.safetensors", bytes, n), &file),
                       SM_ERR_FORMAT, textf("malformed.safetensors|%s", cases[i].message));
        assert_null(file);
    }
}

TEST(files_without_a_header_are_refused) {
    sm_safetensors *file;
    const char *path = temp_path("short.safetensors");
    temp_write(path, "", 0);
    expect_failure("empty", sm_safetensors_open(path, &file), SM_ERR_FORMAT, "short.safetensors|0 bytes are too short");
    temp_write(path, "1234567", 7);
    expect_failure("7 bytes", sm_safetensors_open(path, &file), SM_ERR_FORMAT, "7 bytes are too short");
    temp_write(path, "\0\0\0\0\0\0\0\0", 8);
    expect_failure("no header", sm_safetensors_open(path, &file), SM_ERR_FORMAT, "header of 0 bytes");
    temp_write(path, "\x01\xe1\xf5\x05\0\0\0\0{", 9); // 100 MB + 1, in a file with a hole
    assert_int_equal(truncate(path, 100000009), 0);
    expect_failure("100 MB", sm_safetensors_open(path, &file), SM_ERR_FORMAT, "100000001 bytes|100000000");
    assert_int_equal(unlink(path), 0);
    expect_failure("missing", sm_safetensors_open(path, &file), SM_ERR_IO, "short.safetensors|No such file");
    expect_failure("folder", sm_safetensors_open(temp_folder, &file), SM_ERR_IO, "a folder; give a file");
}

// One tensor of every kind that can be read, unaligned, with known values; and one that cannot.
TEST(floats_of_every_width_are_read) {
    static const char header[] =
        "{\"mask\":{\"dtype\":\"BOOL\",\"shape\":[1],\"data_offsets\":[0,1]},\"half\":{\"dtype\":\"F16\",\"shape\":[2,"
        "4],\"data_offsets\":[1,17]},\"brain\":{\"dtype\":\"BF16\",\"shape\":[4],\"data_offsets\":[17,25]},\"double\":{"
        "\"dtype\":\"F64\",\"shape\":[3],\"data_offsets\":[25,49]},\"single\":{\"dtype\":\"F32\",\"shape\":[],\"data_"
        "offsets\":[49,53]},\"none\":{\"dtype\":\"F32\",\"shape\":[0,7],\"data_offsets\":[53,53]},\"__metadata__\":{"
        "\"format\":\"np\"}}   ";
    static const uint16_t half[] = {0x3c00, 0xc000, 0x3555, 0x0001, 0x83ff, 0x7bff, 0xfc00, 0x8000};
    static const uint16_t brain[] = {0x3f80, 0xc040, 0x0001, 0x7f80};
    static const double wide[] = {0.1, -1e300, 3};
    static const float single = 1e-40f; // subnormal
    static const struct {
        const char *name;
        int n;
        float values[8];
    } expected[] = {
        {"half", 8, {1, -2, 0x1.554p-2f, 0x1p-24f, -0x1.ff8p-15f, 65504, -INFINITY, -0.0f}},
        {"brain", 4, {1, -3, 0x1p-133f, INFINITY}},
        {"double", 3, {0.1f, -INFINITY, 3}},
        {"single", 1, {1e-40f}},
        {"none", 0, {0}},
    };
    char bytes[1024];
    size_t n = make_safetensors(header, 0, 53, bytes, sizeof bytes);
    memcpy(bytes + n - 52, half, sizeof half);
    memcpy(bytes + n - 36, brain, sizeof brain);
    memcpy(bytes + n - 28, wide, sizeof wide);
    memcpy(bytes + n - 4, &single, sizeof single);
    const char *path = temp_put("widths.safetensors", bytes, n);
    SM_OWN(sm_safetensors) *file = NULL;
    expect_ok("open", sm_safetensors_open(path, &file));
    assert_int_equal(sm_safetensors_count(file), 6);
    assert_string_equal(sm_safetensors_metadata(file, "format"), "np");
    assert_null(sm_safetensors_metadata(file, "step"));
    for (int i = 0; i < 5; i++) {
        const sm_safetensors_entry *entry = sm_safetensors_at(file, i + 1);
        float values[8];
        assert_string_equal(entry->name, expected[i].name);
        assert_int_equal(entry->n_elems, expected[i].n);
        expect_ok(entry->name, sm_safetensors_read(file, entry, values));
        assert_memory_equal(values, expected[i].values, (size_t)expected[i].n * sizeof(float));
    }
    float value;
    expect_failure("mask", sm_safetensors_read(file, sm_safetensors_at(file, 0), &value), SM_ERR_UNSUPPORTED,
                   "'mask' is BOOL");
    assert_int_equal(truncate(path, (off_t)n - 1), 0);
    expect_failure("cut", sm_safetensors_read(file, sm_safetensors_at(file, 4), &value), SM_ERR_IO, "too early");
}

// What files of other programs have, and no model here uses: elements of a few bits, and null as metadata.
TEST(elements_of_a_few_bits_have_their_size) {
    static const struct {
        const char *header;
        int64_t data_bytes;
        bool is_fine;
    } cases[] = {
        {"{\"__metadata__\":null,\"a\":{\"dtype\":\"F4\",\"shape\":[2,3],\"data_offsets\":[0,3]}}", 3, true},
        {"{\"a\":{\"dtype\":\"F6_E2M3\",\"shape\":[4],\"data_offsets\":[0,3]}}", 3, true},
        {"{\"a\":{\"dtype\":\"F6_E3M2\",\"shape\":[8],\"data_offsets\":[0,6]}}", 6, true},
        {"{\"a\":{\"dtype\":\"F8_E4M3FNUZ\",\"shape\":[5],\"data_offsets\":[0,5]}}", 5, true},
        {"{\"a\":{\"dtype\":\"F8_E5M2FNUZ\",\"shape\":[5],\"data_offsets\":[0,5]}}", 5, true},
        {"{\"a\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,2]}}", 2, false},
        {"{\"a\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,1]}}", 1, false},
        {"{\"a\":{\"dtype\":\"F6_E2M3\",\"shape\":[4],\"data_offsets\":[0,4]}}", 4, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char bytes[256];
        float value;
        SM_OWN(sm_safetensors) *file = NULL;
        const size_t n = make_safetensors(cases[i].header, 0, (size_t)cases[i].data_bytes, bytes, sizeof bytes);
        const char *path = temp_put("bits.safetensors", bytes, n);
        if (!cases[i].is_fine) {
            expect_failure(cases[i].header, sm_safetensors_open(path, &file), SM_ERR_FORMAT, "'a': its shape needs");
            continue;
        }
        expect_ok(cases[i].header, sm_safetensors_open(path, &file));
        expect_failure("read", sm_safetensors_read(file, sm_safetensors_at(file, 0), &value), SM_ERR_UNSUPPORTED,
                       "'a'");
    }
}

static const sm_safetensors_spec written[] = {
    {"b", 2, {3, 2}},
    {"a.weight", 1, {1}},
    {"scalar", 0, {0}},
    {"\u00e9\"", 2, {0, 5}},
};
enum { N_WRITTEN = sizeof written / sizeof written[0], N_WRITTEN_ELEMS = 8 };
static const float values[N_WRITTEN_ELEMS + 1] = {1, -2, 3.5f, 1e-40f, INFINITY, -0.0f, 7, 8, 9};

static void write_safetensors(const char *path) {
    const sm_safetensors_pair step = {"step", "12"};
    sm_safetensors_writer *writer;
    expect_ok("create", sm_safetensors_create(path, written, N_WRITTEN, N_WRITTEN, &step, 1, NULL, &writer));
    expect_ok("append", sm_safetensors_append(writer, values, 3));
    expect_ok("append", sm_safetensors_append(writer, values + 3, N_WRITTEN_ELEMS - 3));
    expect_ok("finish", sm_safetensors_finish(writer));
    sm_safetensors_end(writer);
}

TEST(what_is_written_is_read) {
    const char *path = temp_path("written.safetensors");
    write_safetensors(path);
    SM_OWN(sm_safetensors) *file = NULL;
    int64_t n_elems = 0;
    expect_ok("open", sm_safetensors_open(path, &file));
    assert_int_equal(sm_safetensors_count(file), N_WRITTEN);
    assert_string_equal(sm_safetensors_metadata(file, "format"), "pt");
    assert_string_equal(sm_safetensors_metadata(file, "step"), "12");
    for (int i = 0; i < N_WRITTEN; i++) {
        const sm_safetensors_entry *entry = sm_safetensors_at(file, i);
        float read[N_WRITTEN_ELEMS];
        assert_string_equal(entry->name, written[i].name);
        assert_int_equal(entry->dtype, SM_ST_F32);
        assert_int_equal(entry->n_dims, written[i].n_dims);
        assert_memory_equal(entry->dims, written[i].dims, (size_t)entry->n_dims * sizeof entry->dims[0]);
        expect_ok(entry->name, sm_safetensors_read(file, entry, read));
        assert_memory_equal(read, values + n_elems, (size_t)entry->n_elems * sizeof(float));
        n_elems += entry->n_elems;
    }
    assert_int_equal(n_elems, N_WRITTEN_ELEMS);
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(((size_t)info.st_size - N_WRITTEN_ELEMS * sizeof(float)) % 8, 0); // the data is aligned
}

TEST(an_unfinished_file_leaves_nothing) {
    const char *folder = temp_path("unfinished");
    const char *path = temp_path("unfinished/x.safetensors");
    sm_safetensors_writer *writer;
    expect_ok("folder", sm_make_folder(folder));
    expect_ok("create", sm_safetensors_create(path, written, N_WRITTEN, N_WRITTEN, NULL, 0, NULL, &writer));
    expect_failure("too much", sm_safetensors_append(writer, values, N_WRITTEN_ELEMS + 1), SM_ERR_INTERNAL,
                   "more data");
    expect_ok("append", sm_safetensors_append(writer, values, N_WRITTEN_ELEMS - 1));
    expect_failure("too little", sm_safetensors_finish(writer), SM_ERR_INTERNAL, "28 of 32 bytes");
    sm_safetensors_end(writer);
    expect_ok("create", sm_safetensors_create(path, written, N_WRITTEN, N_WRITTEN, NULL, 0, NULL, &writer));
    sm_safetensors_end(writer);
    const sm_safetensors_spec huge = {"huge", 2, {INT64_MAX, 2}};
    expect_failure("huge", sm_safetensors_create(path, &huge, 1, 1, NULL, 0, NULL, &writer), SM_ERR_INVALID,
                   "'huge'|overflows");
    assert_int_equal(temp_count(folder), 0);
}

// Whatever a byte of the header becomes, and wherever the file ends: an answer, no crash.
TEST(damaged_files_never_crash) {
    static const char replacements[] = {0, ' ', '"', '9', '-', '[', '}', (char)0xff};
    const char *path = temp_path("damaged.safetensors");
    size_t size_bytes;
    sm_safetensors *file;
    write_safetensors(path);
    SM_FREED char *bytes = temp_read(path, &size_bytes);
    size_t n_head = size_bytes - N_WRITTEN_ELEMS * sizeof(float);
    for (size_t i = 0; i < n_head; i++) {
        char original = bytes[i];
        for (size_t k = 0; k < sizeof replacements; k++) {
            bytes[i] = replacements[k];
            temp_write(path, bytes, size_bytes);
            sm_status status = sm_safetensors_open(path, &file);
            assert_true(status == SM_OK || status == SM_ERR_FORMAT);
            sm_safetensors_close(file);
        }
        bytes[i] = original;
    }
    for (size_t n = 0; n < size_bytes; n++) {
        temp_write(path, bytes, n);
        assert_int_equal(sm_safetensors_open(path, &file), SM_ERR_FORMAT);
    }
}
