// data_format.c: beginnings that are known, then what only a look at more bytes shows.
#include "src/data/data_format.h"

#include "utf8.h"
#include "src/io/input_file.h"
#include "src/io/json_text.h"

SM_WORDS(sm_tokens_format_name, sm_tokens_format, SM_TOKENS_FORMAT_LIST)

static uint64_t number_at(const uint8_t *bytes, int n) {
    uint64_t number = 0;
    for (int i = n - 1; i >= 0; i--) {
        number = number << 8 | bytes[i];
    }
    return number;
}

static uint32_t word_at(const uint8_t *bytes, int index) { return (uint32_t)number_at(bytes + 4 * index, 4); }

// ---- llm.c ----------------------------------------------------------------------------------

// The magic number implies the width of ids.
static const struct {
    uint32_t magic, version;
    int64_t id_bytes;
} llmc_variants[] = {{20240520, 1, 2}, {20240801, 7, 4}};

enum { N_LLMC_VARIANTS = SM_COUNT(llmc_variants) };

// Index of the variant with these first bytes, or -1.
static int llmc_variant(const uint8_t *head, size_t n) {
    for (int i = 0; i < N_LLMC_VARIANTS && n >= 4; i++) {
        if (word_at(head, 0) == llmc_variants[i].magic) {
            return i;
        }
    }
    return -1;
}

sm_status sm_llmc_parse(const char *path, const uint8_t *head, size_t n, int64_t size_bytes, sm_id_layout *layout) {
    const int variant = llmc_variant(head, n);
    SM_FAIL_IF(n < SM_LLMC_HEADER_BYTES || variant < 0, SM_ERR_FORMAT,
               "%s: does not begin with llm.c's header of %d bytes, magic number %u or %u", path, SM_LLMC_HEADER_BYTES,
               llmc_variants[0].magic, llmc_variants[1].magic);
    SM_FAIL_IF(word_at(head, 1) != llmc_variants[variant].version, SM_ERR_UNSUPPORTED,
               "%s: version %u of llm.c's format; with magic number %u only %u is supported", path, word_at(head, 1),
               llmc_variants[variant].magic, llmc_variants[variant].version);
    const int64_t told = (int64_t)number_at(head + 8, 8);
    const int64_t found_bytes = size_bytes - SM_LLMC_HEADER_BYTES;
    const int64_t id_bytes = llmc_variants[variant].id_bytes;
    SM_FAIL_IF(told != found_bytes / id_bytes || found_bytes % id_bytes != 0, SM_ERR_FORMAT,
               "%s: its header tells of %lld tokens, but %lld bytes follow it", path, (long long)told,
               (long long)found_bytes);
    *layout = (sm_id_layout){.offset_bytes = SM_LLMC_HEADER_BYTES, .count = told, .id_bytes = id_bytes};
    return SM_OK;
}

void sm_llmc_header(int64_t id_bytes, int64_t count, uint8_t header[SM_LLMC_HEADER_BYTES]) {
    const int variant = id_bytes == 2 ? 0 : 1;
    const uint64_t n = (uint64_t)count;
    const uint32_t words[] = {llmc_variants[variant].magic, llmc_variants[variant].version, (uint32_t)n,
                              (uint32_t)(n >> 32)};
    memset(header, 0, SM_LLMC_HEADER_BYTES);
    for (size_t i = 0; i < sizeof words; i++) {
        header[i] = (uint8_t)(words[i / 4] >> 8 * (i % 4));
    }
}

// ---- beginnings that are refused ------------------------------------------------------------

#define UNPACK(tool)  tool " it first"
#define NO_DATA       "it holds neither text nor token ids"
#define AS_TEXT       "write its text as UTF-8, or as lines {\"text\": ...}"
#define MODEL         "it holds a model, no data; give it as --weights"
#define NO_PICKLE     "stepmark runs no pickle; save ids by np.save, or text"
#define TO_UTF8(from) "convert it: iconv -f " from " -t UTF-8"
#define AT(at, bytes) at, sizeof(bytes) - 1, bytes

static const struct {
    const char *name, *advice;
    size_t at, n;
    const char *bytes;
} beginnings[] = {
    {"gzip", UNPACK("gunzip"), AT(0, "\x1f\x8b\x08")},
    {"xz", UNPACK("unxz"), AT(0, "\3757zXZ\0")},
    {"zstd", UNPACK("unzstd"), AT(0, "\x28\xb5\x2f\xfd")},
    {"zstd or lz4", UNPACK("unpack"), AT(1, "\x2a\x4d\x18")}, // its first frame is to be skipped
    {"bzip2", UNPACK("bunzip2"), AT(4, "1AY&SY")},
    {"lz4", UNPACK("unlz4"), AT(0, "\x04\x22\x4d\x18")},
    {"lz4", UNPACK("unlz4"), AT(0, "\x02\x21\x4c\x18")}, // its older form
    {"lzip", UNPACK("lunzip"), AT(0, "LZIP\x01")},
    {"lzma", UNPACK("unlzma"), AT(0, "\x5d\0\0\x80\0")},
    {"compress (.Z)", UNPACK("uncompress"), AT(0, "\x1f\x9d\x90")},
    {"Snappy", UNPACK("unpack"), AT(0, "\xff\x06\0\0sNaPpY")},
    {"7z", UNPACK("unpack"), AT(0, "7z\xbc\xaf\x27\x1c")},
    {"RAR", UNPACK("unpack"), AT(0, "Rar!\x1a\x07")},
    {"tar", UNPACK("unpack"), AT(257, "ustar")},
    {"cpio", UNPACK("unpack"), AT(0, "070701")},
    {"cpio", UNPACK("unpack"), AT(0, "070707")},
    {"a cabinet", UNPACK("unpack"), AT(0, "MSCF\0\0\0\0")},
    {"RPM", UNPACK("unpack"), AT(0, "\xed\xab\xee\xdb")},
    {"zip", UNPACK("unzip"), AT(0, "PK\x05\x06")},
    {"an ar archive", UNPACK("unpack"), AT(0, "!<arch>\n")},
    {"Parquet", AS_TEXT, AT(0, "PAR1")},
    {"Parquet, encrypted", AS_TEXT, AT(0, "PARE")},
    {"Arrow", AS_TEXT, AT(0, "ARROW1\0\0")},
    {"Feather", AS_TEXT, AT(0, "FEA1")},
    {"Avro", AS_TEXT, AT(0, "Obj\x01")},
    {"SQLite", AS_TEXT, AT(0, "SQLite format 3\0")},
    {"HDF5", AS_TEXT, AT(0, "\x89HDF\r\n\x1a\n")},
    {"LMDB", AS_TEXT, AT(16, "\xde\xc0\xef\xbe")},
    {"MATLAB", AS_TEXT, AT(0, "MATLAB 5.0 MAT-file")},
    {"pickle", NO_PICKLE, AT(0, "(lp0\n")}, // of the protocols before 2
    {"pickle", NO_PICKLE, AT(0, "(dp0\n")},
    {"pickle", NO_PICKLE, AT(0, "]q\0(")},
    {"pickle", NO_PICKLE, AT(0, "}q\0(")},
    {"PDF", AS_TEXT, AT(0, "%PDF-")},
    {"PostScript", AS_TEXT, AT(0, "%!PS")},
    {"RTF", AS_TEXT, AT(0, "{\\rtf")},
    {"a document of Microsoft Office", AS_TEXT, AT(0, "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1")},
    {"Megatron-LM's index", "give the .bin next to it, with --data-format uint16, uint32 or int64",
     AT(0, "MMIDIDX\0\0")},
    {"GGUF", MODEL, AT(0, "GGUF")},
    {"PyTorch", MODEL, AT(0, "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19")},
    {"PNG", NO_DATA, AT(0, "\x89PNG\r\n\x1a\n")},
    {"JPEG", NO_DATA, AT(0, "\xff\xd8\xff")},
    {"GIF", NO_DATA, AT(0, "GIF87a")},
    {"GIF", NO_DATA, AT(0, "GIF89a")},
    {"TIFF", NO_DATA, AT(0, "II*\0")},
    {"TIFF", NO_DATA, AT(0, "MM\0*")},
    {"WAV", NO_DATA, AT(8, "WAVEfmt ")},
    {"WebP", NO_DATA, AT(8, "WEBPVP8")},
    {"AVI", NO_DATA, AT(8, "AVI LIST")},
    {"Ogg", NO_DATA, AT(0, "OggS\0")},
    {"FLAC", NO_DATA, AT(0, "fLaC\0")},
    {"MP3", NO_DATA, AT(0, "ID3\x03\0")},
    {"MP3", NO_DATA, AT(0, "ID3\x04\0")},
    {"MP4", NO_DATA, AT(4, "ftyp")},
    {"Matroska", NO_DATA, AT(0, "\x1a\x45\xdf\xa3")},
    {"ELF", NO_DATA, AT(0, "\177ELF")},
    {"Mach-O", NO_DATA, AT(0, "\xcf\xfa\xed\xfe")},
    {"a Java class", NO_DATA, AT(0, "\xca\xfe\xba\xbe")},
    {"WebAssembly", NO_DATA, AT(0, "\0asm\x01")},
    {"a Windows program", NO_DATA, AT(0, "MZ\x90\0")},
    {"UTF-32", TO_UTF8("UTF-32"), AT(0, "\xff\xfe\0\0")},
    {"UTF-32", TO_UTF8("UTF-32"), AT(0, "\0\0\xfe\xff")},
    {"UTF-16", TO_UTF8("UTF-16"), AT(0, "\xff\xfe")},
    {"UTF-16", TO_UTF8("UTF-16"), AT(0, "\xfe\xff")},
};

static sm_status refuse(const char *path, const char *name, const char *advice) {
    return sm_fail(SM_ERR_FORMAT, "%s: %s: %s", path, name, advice);
}

static sm_status check_beginning(const char *path, const uint8_t *head, size_t n) {
    for (size_t i = 0; i < SM_COUNT(beginnings); i++) {
        if (n >= beginnings[i].at + beginnings[i].n &&
            memcmp(head + beginnings[i].at, beginnings[i].bytes, beginnings[i].n) == 0) {
            return refuse(path, beginnings[i].name, beginnings[i].advice);
        }
    }
    return SM_OK;
}

// The name of its first member tells who wrote it.
static sm_status check_zip(const char *path, const uint8_t *head, size_t n) {
    enum { NAME_AT = 30 };
    if (n < NAME_AT || memcmp(head, "PK\x03\x04", 4) != 0) {
        return SM_OK;
    }
    const size_t told = (size_t)number_at(head + 26, 2);
    const size_t n_name = told < n - NAME_AT ? told : n - NAME_AT;
    const uint8_t *end = head + NAME_AT + n_name;
    if (n_name > 4 && memcmp(end - 4, ".npy", 4) == 0) {
        return refuse(path, "NumPy's .npz", "save each array as .npy: np.save");
    }
    return memmem(head + NAME_AT, n_name, "data.pkl", 8) != NULL ? refuse(path, "PyTorch", MODEL)
                                                                 : refuse(path, "zip", "unzip it first");
}

// Magic numbers of llm.c are dates.
static sm_status check_llmc(const char *path, const uint8_t *head, size_t n) {
    static const struct {
        uint32_t magic;
        const char *what;
    } others[] = {
        {20240522, "questions"},   {20240326, "weights"}, {20240803, "weights"},
        {20240328, "a tokenizer"}, {20240327, "a state"}, {20240527, "a state"},
    };
    const uint32_t magic = n >= SM_LLMC_HEADER_BYTES ? word_at(head, 0) : 0;
    const char *what = "something else";
    for (size_t i = 0; i < SM_COUNT(others); i++) {
        what = magic == others[i].magic ? others[i].what : what;
    }
    const bool is_date = magic / 10000 >= 2024 && magic / 10000 < 2030 && magic / 100 % 100 >= 1 &&
                         magic / 100 % 100 <= 12 && magic % 100 >= 1 && magic % 100 <= 31;
    return is_date && word_at(head, 1) < 100
               ? sm_fail(SM_ERR_FORMAT,
                         "%s: a file of llm.c's with %s (magic number %u), not tokens; give one of tokens", path, what,
                         magic)
               : SM_OK;
}

static sm_status check_safetensors(const char *path, const uint8_t *head, size_t n, int64_t size_bytes) {
    return n > 9 && head[8] == '{' && (head[9] == '"' || head[9] == '}') &&
                   number_at(head, 8) <= (uint64_t)size_bytes - 8
               ? refuse(path, "safetensors", MODEL)
               : SM_OK;
}

// A message of a stream: a mark, the length of its description, a multiple of 8, and that.
static sm_status check_arrow(const char *path, const uint8_t *head, size_t n, int64_t size_bytes) {
    const uint32_t length = n >= 16 && word_at(head, 0) == UINT32_MAX ? word_at(head, 1) : 0;
    return length > 0 && length % 8 == 0 && length <= size_bytes - 8 ? refuse(path, "an Arrow stream", AS_TEXT) : SM_OK;
}

// Ids may have its first two bytes, too: so the frame of protocol 4 and later must fit, and earlier ones must begin
// with a collection that is remembered, with a name, or with a text that fits.
static sm_status check_pickle(const char *path, const uint8_t *head, size_t n, int64_t size_bytes) {
    if (n < 12 || head[0] != 0x80 || head[1] < 2 || head[1] > 5) {
        return SM_OK;
    }
    const bool is_framed = head[2] == 0x95 && number_at(head + 3, 8) <= (uint64_t)size_bytes - 11;
    const bool is_collection = memchr("}](", head[2], 3) != NULL && head[3] == 'q' && head[4] == 0;
    const bool is_name = head[2] == 'c' && memchr(head + 3, '\n', n - 3) != NULL && head[3] >= 'A' && head[3] <= 'z';
    const bool is_text = (head[2] == 'X' || head[2] == 'T') && number_at(head + 3, 4) <= (uint64_t)size_bytes - 8;
    return is_framed || is_collection || is_name || is_text ? refuse(path, "pickle", NO_PICKLE) : SM_OK;
}

// A record has its length, a checksum of that (CRC-32C, masked), data, and a checksum.
static sm_status check_tfrecord(const char *path, const uint8_t *head, size_t n, int64_t size_bytes) {
    uint32_t crc = ~UINT32_C(0);
    if (n < 16 || number_at(head, 8) > (uint64_t)size_bytes - 16) {
        return SM_OK;
    }
    for (int i = 0; i < 64; i++) {
        crc = crc >> 1 ^ (((crc ^ head[i / 8] >> i % 8) & 1) != 0 ? UINT32_C(0x82f63b78) : 0);
    }
    crc = ~crc;
    return word_at(head, 2) == (crc >> 15 | crc << 17) + UINT32_C(0xa282ead8) ? refuse(path, "TFRecord", AS_TEXT)
                                                                              : SM_OK;
}

// ---- text -----------------------------------------------------------------------------------

// Control characters that texts have: backspace, tab, line feed, vertical tab, form feed, return, escape.
static bool is_control(uint8_t byte) {
    return (byte < 0x20 && (byte < 8 || byte > 13) && byte != 0x1b) || byte == 0x7f;
}

// Bytes that are not UTF-8, and control characters.
static size_t count_not_text(const uint8_t *text, size_t n) {
    size_t count = 0;
    for (size_t at = 0; at < n;) {
        const size_t length = sm_utf8_bytes(text + at, n - at); // one that the end cuts counts as whole
        count += length == 0 || is_control(text[at]);
        at += length > 0 ? length : 1;
    }
    return count;
}

// Text in units of `width` bytes without a mark: nearly all units have their character's byte first or last, and zeros.
static bool is_wide_text(const uint8_t *head, size_t n, size_t width, size_t place) {
    size_t n_text = 0;
    const size_t n_units = n / width;
    for (size_t i = 0; i < n_units; i++) {
        size_t n_zeros = 0;
        for (size_t k = 0; k < width; k++) {
            n_zeros += k != place && head[i * width + k] == 0;
        }
        const uint8_t byte = head[i * width + place];
        n_text += n_zeros == width - 1 && byte != 0 && !is_control(byte);
    }
    return n_units >= 4 && 10 * n_text >= 9 * n_units;
}

static sm_status check_wide(const char *path, const uint8_t *head, size_t n) {
    static const struct {
        const char *name, *advice;
        size_t width, place;
    } forms[] = {
        {"UTF-16 without a mark", TO_UTF8("UTF-16LE"), 2, 0},
        {"UTF-16 without a mark", TO_UTF8("UTF-16BE"), 2, 1},
        {"UTF-32 without a mark", TO_UTF8("UTF-32LE"), 4, 0},
        {"UTF-32 without a mark", TO_UTF8("UTF-32BE"), 4, 3},
    };
    for (size_t i = 0; i < SM_COUNT(forms); i++) {
        if (is_wide_text(head, n, forms[i].width, forms[i].place)) {
            return refuse(path, forms[i].name, forms[i].advice);
        }
    }
    return SM_OK;
}

// A tenth may be of another encoding; a binary file has more, or zero bytes.
static sm_status check_text(const char *path, const uint8_t *head, size_t n) {
    enum { A_FEW = 2 };
    const size_t n_not = count_not_text(head, n);
    return n_not <= A_FEW + n / 10 && memchr(head, '\0', n) == NULL
               ? SM_OK
               : sm_fail(SM_ERR_FORMAT,
                         "%s: no text: %zu of its first %zu bytes are not UTF-8, or are control characters; convert "
                         "another encoding by iconv, or give --data-format uint16, uint32 or int64 for token ids, "
                         "--data-format bytes for anything",
                         path, n_not, n);
}

static size_t skip_space(const char *text, size_t n, size_t at) {
    while (at < n && strchr(" \t\r\n", text[at]) != NULL && text[at] != '\0') {
        at++;
    }
    return at;
}

// Whether a value and a comma follow a bracket; after a text or an array the end may, too. "[1] Who" is a text's.
static bool is_json_array(const char *text, size_t n) {
    size_t at = 0;
    size_t depth = 0;
    for (; at < n && text[at] == '['; depth++) {
        at = skip_space(text, n, at + 1);
    }
    const size_t begin = at;
    if (depth == 0 || at == n) {
        return false;
    }
    if (text[at] == '{') {
        at = skip_space(text, n, at + 1);
        return at < n && text[at] == '"';
    }
    if (text[at] == '"') {
        for (at++; at < n && text[at] != '"'; at++) {
            at += text[at] == '\\';
        }
        at++;
    } else {
        while (at < n && strchr("+-.0123456789Ee", text[at]) != NULL && text[at] != '\0') {
            at++;
        }
    }
    const bool is_text = text[begin] == '"';
    at = at > begin ? skip_space(text, n, at) : n;
    return at < n && (text[at] == ',' || (text[at] == ']' && (is_text || depth > 1)));
}

// Whether it holds a JSON object a line: its first line has one with a text, or is longer than the head and begins so.
// Other JSON, or a file with the name of JSON, is refused.
static sm_status check_json(const char *path, const uint8_t *head, size_t n, int64_t size_bytes, bool *is_jsonl) {
    static const char advice[] = "give a line {\"text\": ...} for each document, or --data-format text";
    const size_t at = skip_space((const char *)head, n, sm_mark_bytes((const char *)head, n));
    const char *text = (const char *)head + at;
    const size_t inner = skip_space(text, n - at, at < n);
    const bool is_named = sm_ends_with(path, ".jsonl") || sm_ends_with(path, ".ndjson") || sm_ends_with(path, ".json");
    const bool is_object = n - at > inner && text[0] == '{' && text[inner] == '"';
    const char *end = memchr(text, '\n', n - at);
    *is_jsonl = false;
    if (is_json_array(text, n - at)) {
        return sm_fail(SM_ERR_UNSUPPORTED, "%s: a JSON array: %s", path, advice);
    }
    if (at == n || (!is_object && !is_named && text[0] != '{')) {
        return SM_OK;
    }
    if (end == NULL && (int64_t)n < size_bytes && is_object) {
        *is_jsonl = true;
        return SM_OK;
    }
    json_auto_t *line = sm_json_line(text, end != NULL ? (size_t)(end - text) : n - at, NULL);
    const json_t *value = json_object_get(line, "text");
    *is_jsonl = json_is_string(value);
    if (*is_jsonl || (line == NULL && !is_object && !is_named)) {
        return SM_OK;
    }
    const char *key = json_object_iter_key(json_object_iter(line));
    key = key != NULL && sm_is_printable(key) ? key : "";
    return value != NULL ? sm_fail(SM_ERR_UNSUPPORTED, "%s: JSON whose \"text\" is no text: %s", path, advice)
           : line != NULL
               ? sm_fail(SM_ERR_UNSUPPORTED, "%s: JSON with \"%.60s\", and no \"text\": %s", path, key, advice)
               : sm_fail(SM_ERR_UNSUPPORTED, "%s: JSON whose first line is no object: %s", path, advice);
}

// ---- raw ids --------------------------------------------------------------------------------

// Half-word i of ids whose bytes are in the opposite order, as if they were not.
static uint64_t half_word(const uint8_t *head, size_t i, bool is_swapped) {
    const uint8_t *at = head + 2 * (is_swapped ? i ^ 3 : i);
    return number_at(at, 2) >> (is_swapped ? 8 : 0) | (is_swapped ? (uint64_t)at[0] << 8 : 0);
}

// Ids of 32 or 64 bits have small upper halves: as 16-bit ids every second one would be 0, or tiny among large ones.
// Returns their width, or 16.
static int find_width(const uint8_t *head, size_t n, bool is_swapped) {
    enum { LEAST = 16, TINY = 16 };
    const size_t n_ids = n / 8 * 4;
    size_t zeros[4] = {0};
    size_t tiny[4] = {0};
    bool varies = false;
    for (size_t i = 0; i < n_ids; i++) {
        const uint64_t id = half_word(head, i, is_swapped);
        zeros[i % 4] += id == 0;
        tiny[i % 4] += id < TINY;
        varies |= i % 4 == 0 && id != half_word(head, 0, is_swapped);
    }
    const size_t n_second = zeros[1] + zeros[3];
    const bool has_upper = 100 * n_second >= 99 * (n_ids / 2) || (100 * (tiny[1] + tiny[3]) >= 99 * (n_ids / 2) &&
                                                                  10 * (tiny[0] + tiny[2]) <= 6 * (n_ids / 2));
    if (n_ids < LEAST || !has_upper || !varies) {
        return 16;
    }
    return 100 * zeros[2] >= 99 * (n_ids / 4) && 100 * zeros[0] < 99 * (n_ids / 4) ? 64 : 32;
}

// Lower bytes of many 16-bit ids reach as far as upper ones: else their order is the other, or each is an id.
static void look_at_bytes(const uint8_t *head, size_t n, bool *is_swapped, bool *is_bytes) {
    enum { MANY = 256, VARIED = 16 };
    uint8_t largest[2] = {0};
    bool is_there[UINT8_MAX + 1] = {false};
    int n_there = 0;
    for (size_t i = 0; i + 1 < n; i += 2) {
        largest[0] = head[i] > largest[0] ? head[i] : largest[0];
        largest[1] = head[i + 1] > largest[1] ? head[i + 1] : largest[1];
        n_there += !is_there[head[i + 1]];
        is_there[head[i + 1]] = true;
    }
    const bool is_odd = n >= 2 * MANY && n_there >= VARIED;
    *is_bytes = is_odd && largest[0] < 128 && largest[1] < 128 && largest[0] >= VARIED;
    *is_swapped = is_odd && !*is_bytes && largest[0] < 250 && largest[1] > largest[0];
}

static sm_status check_width(const char *path, const uint8_t *head, size_t n) {
    static const char other[] = "if they are 16-bit ids, uint16";
    bool is_swapped;
    bool is_bytes;
    look_at_bytes(head, n, &is_swapped, &is_bytes);
    const int width = find_width(head, n, false);
    const int swapped_width = find_width(head, n, true);
    SM_FAIL_IF(width > 16, SM_ERR_FORMAT, "%s: these look like %d-bit ids: --data-format %s; %s", path, width,
               width == 64 ? "int64" : "uint32", other);
    SM_FAIL_IF(swapped_width > 16 || is_swapped, SM_ERR_FORMAT,
               "%s: these look like big-endian %d-bit ids: save them as .npy: np.save(NEW, np.fromfile(FILE, '>u%d')); "
               "if they are little-endian, --data-format uint16",
               path, swapped_width, swapped_width / 8);
    return is_bytes ? sm_fail(SM_ERR_FORMAT, "%s: these look like 8-bit ids: --data-format bytes; %s", path, other)
                    : SM_OK;
}

// ---- all ------------------------------------------------------------------------------------

sm_status sm_data_format_find(const char *path, const uint8_t *head, size_t n, int64_t size_bytes,
                              sm_tokens_format asked, sm_tokens_format *format) {
    bool is_jsonl;
    *format = asked;
    if (asked == SM_TOKENS_TEXT) {
        return check_text(path, head, n);
    }
    if (asked != SM_TOKENS_AUTO) {
        return SM_OK;
    }
    if (llmc_variant(head, n) >= 0 || sm_npy_begins(head, n)) {
        *format = sm_npy_begins(head, n) ? SM_TOKENS_NPY : SM_TOKENS_LLMC;
        return SM_OK;
    }
    SM_TRY(check_beginning(path, head, n));
    SM_TRY(check_zip(path, head, n));
    SM_TRY(check_llmc(path, head, n));
    SM_TRY(check_safetensors(path, head, n, size_bytes));
    SM_TRY(check_arrow(path, head, n, size_bytes));
    SM_TRY(check_pickle(path, head, n, size_bytes));
    SM_TRY(check_tfrecord(path, head, n, size_bytes));
    if (sm_ends_with(path, ".bin")) {
        *format = SM_TOKENS_UINT16;
        SM_FAIL_IF(n > 0 && count_not_text(head, n) == 0, SM_ERR_FORMAT,
                   "%s: named as token ids, but all of its bytes are text; give --data-format text or uint16", path);
        return check_width(path, head, n);
    }
    SM_TRY(check_wide(path, head, n));
    SM_TRY(check_json(path, head, n, size_bytes, &is_jsonl));
    *format = is_jsonl ? SM_TOKENS_JSONL : SM_TOKENS_TEXT;
    return is_jsonl ? SM_OK : check_text(path, head, n);
}
