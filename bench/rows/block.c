// block.c: see read_rows.h. The text between the two lines in brackets is JSON, compressed by zlib with the dictionary
// below, six bits a character. The characters are those that neither HTML, Markdown nor mail programs change.
#include "bench/rows/read_rows.h"

#include <ctype.h>
#include <zlib.h>

enum { MOST_JSON_BYTES = 1 << 17, LINE_CHARACTERS = 72, BITS = 6 };

static const char header[] = "[stepmark block 1, ";
static const char footer[] = "[end of stepmark block]";
static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+.";

// The fields that a reader may know; flags only if they name no file (may_share).
#define SHARED                                                                                                      \
    "schema_version score build_commit test_time status busy stop_reason model_arch model_type model_n_params "     \
    "backend backend_used device cpu_info gpu_info isa tier mode recompute attention products precision emulated "  \
    "loss_scale n_threads pass_type test n_batch n_seq n_accum vocab n_ctx n_layer n_head n_kv_head head_dim "      \
    "d_model d_ff dropout optimizer seed run_args data_digest weights_digest padding n_warmup "                     \
    "warmup_ns samples_ns median_ns ci95_lo_ns ci95_hi_ns noise_percent noise_verdict median_ts real_tokens flops " \
    "peak_flops mfu datasheet_flops datasheet_mfu energy_j energy_source sensors.own_cpus "                         \
    "sensors.other_cpus sensors.steal_share sensors.involuntary_switches peak_rss_bytes device_peak_bytes "         \
    "loss loss_checked loss_reference loss_check gradient_error gradient_tolerance "                                \
    "update_error spot_error losses context.os context.kernel context.cpu.name "                                    \
    "context.cpu.cores context.cpu.threads context.memory_bytes context.compiler context.device.name "              \
    "context.device.driver "

// Texts that most blocks have: what compresses well. Blocks that were made with it need it: it stays as it is.
static const char dictionary[] =
    SHARED "--model-size=small --batch-size=1 --seq-len=1024 --pass-type=step --dropout=0 --optimizer=adamw "
           "--long-documents=refuse --accum=1 --data-format=auto --seed=42 --backend=opencl:0.0 --products=own "
           "--precision=bf16 --precision=fp32 --loss-scale-interval=2000 --mode=fused --warmup=1 --repetitions=7 "
           "--check-seed= --max-noise=0.5 --min-samples=6 --max-samples=60 --min-time=5 --max-time=25 --no-phases "
           "--delay=0 --timeout=0 Intel(R) Xeon(R) Platinum Processor AMD EPYC -Core Ryzen NVIDIA H100 80GB HBM3 "
           "GeForce RTX Radeon RX Instinct Debian GNU/Linux 12 (bookworm) Ubuntu 24.04 LTS Linux 6.1.0-amd64 x86_64 "
           "gcc 12.2.0 POSIX threads first 32 tokens of 1 of 1 sequences, each against the reference stepmark-124M-v1 "
           "avx512_bf16 tensor false \"type\":\"gpt2\",\"none\",\"steady\",\"test\":\"step b1s1024\",fnv1a64:";

// --- the line for people ---------------------------------------------------------------------------

// Removes from the beginning of `from` up to the end of `to`, which may be a part of it.
static bool leave_out(char *name, const char *from, const char *to) {
    char *begin = strstr(name, from);
    char *end = begin != NULL ? strstr(begin, to) : NULL;
    if (end != NULL) {
        memmove(begin, end + strlen(to), strlen(end + strlen(to)) + 1);
    }
    return end != NULL;
}

// Without what says nothing of a chip: "EPYC 9654 96-Core Processor", "Xeon (Ice Lake)", "Xeon Processor".
static void name_chip(const json_t *row, char *chip, size_t size_bytes) {
    sm_rows_chip(row, chip, size_bytes);
    char *cores = strstr(chip, "-Core");
    while (cores != NULL && cores > chip && *cores != ' ') {
        cores--;
    }
    if (cores != NULL && cores > chip) {
        *cores = '\0';
    }
    while (leave_out(chip, " (", ")") || leave_out(chip, " Processor", "sor") || leave_out(chip, " CPU", "U")) {
    }
}

// Leaves out what tells least, until the name fits; then the last words.
static void shorten(char *chip, int width) {
    static const char *const words[] = {"NVIDIA ", "Intel ",    "AMD ",  "GeForce ", "Radeon ",  "Arm ",
                                        "Core ",   "Platinum ", "Gold ", "Silver ",  "Instinct "};
    char *generation = strstr(chip, " Gen ");
    if (generation != NULL && (int)strlen(chip) > width) { // "13th Gen Intel Core i7-13700K"
        memmove(chip, generation + 5, strlen(generation + 5) + 1);
    }
    for (size_t i = 0; i < SM_COUNT(words) && (int)strlen(chip) > width; i++) {
        leave_out(chip, words[i], " ");
    }
    while ((int)strlen(chip) > width) {
        char *blank = strrchr(chip, ' ');
        *(blank != NULL ? blank : chip + width) = '\0';
    }
}

void sm_block_machine(const json_t *row, int width, char *name, size_t size_bytes) {
    char chip[128], more[48] = "";
    const double n = sm_json_number(row, "n_threads");
    const bool is_card = sm_rows_has(row, "gpu_info");
    const char *program = sm_rows_text(row, "backend_used");
    if (strcmp(program, is_card ? "opencl" : "cpu") != 0) {
        const bool is_opencl = strcmp(program, "opencl") == 0;
        const bool is_pytorch = strncmp(program, "pytorch", 7) == 0;
        snprintf(more, sizeof(more), ", %.8s", is_opencl ? "OpenCL" : is_pytorch ? "PyTorch" : program);
    } else if (!is_card && n > 0) {
        snprintf(more, sizeof(more), ", %.0f core%s", n, sm_plural((size_t)n));
    }
    name_chip(row, chip, sizeof(chip));
    if ((int)(strlen(chip) + strlen(more)) > width && strstr(more, " core") != NULL) {
        snprintf(more, sizeof(more), " x%.0f", n);
    }
    shorten(chip, width - (int)strlen(more));
    const bool has_no_chip = chip[0] == '\0' && more[0] == ','; // rows that were made of a log
    snprintf(name, size_bytes, "%s%s", chip, has_no_chip ? more + 2 : more);
}

void sm_block_line(const json_t *row, char line[SM_BLOCK_LINE_SIZE]) {
    enum { COLUMNS = 80, MOST_RATE = 7 };
    char name[192], peak[16] = "";
    const char *score = sm_rows_text(row, "score");
    const char *precision = sm_rows_text(row, "precision");
    const double mfu = sm_json_number(row, "mfu");
    const double median = sm_json_number(row, "median_ns");
    const double far =
        fmax(sm_json_number(row, "ci95_hi_ns") / median - 1, 1 - sm_json_number(row, "ci95_lo_ns") / median);
    const int width = COLUMNS - 62 - (strlen(precision) > 4 ? (int)strlen(precision) - 4 : 0);
    sm_block_machine(row, width, name, sizeof(name));
    const char *spread = SM_TEXT_SPREAD(100 * far);
    if (isfinite(mfu)) {
        snprintf(peak, sizeof(peak), "%.0f%% peak", fmin(100 * mfu, 999));
    }
    snprintf(line, SM_BLOCK_LINE_SIZE, "%.16s  %-*.40s %*s tok/s %s%-4.8s %-4.8s %8s %s", score, width, name, MOST_RATE,
             SM_TEXT_COUNT(sm_json_number(row, "median_ts")), spread[0] != '\0' ? "± " : "  ",
             far > 0.5 ? ">50%" : spread, precision, peak,
             json_is_true(sm_json_get(row, "busy"))                                        ? "busy"
             : sm_json_number(row, "gradient_error") >= 0 && strcmp(precision, "fp8") != 0 ? "verified"
                                                                                           : "losses");
}

// --- making ------------------------------------------------------------------------------------------

// Flags whose value is no path; --cpu-mask and --isa are words.
static json_t *shared_flags(const json_t *args) {
    json_t *flags = json_array();
    SM_EACH(arg, args) {
        const char *flag = json_is_string(arg) ? json_string_value(arg) : "/";
        if (strchr(flag, '/') == NULL && strncmp(flag, "--data=", 7) != 0 && strncmp(flag, "--weights=", 10) != 0) {
            json_array_append(flags, arg);
        }
    }
    return flags;
}

static json_t *facts_of(const json_t *row) {
    json_t *facts = json_object();
    const char *names = SHARED;
    for (char name[128]; sm_next_word(&names, name, sizeof(name));) {
        json_t *value = sm_json_get(row, name);
        if (value != NULL && !json_is_null(value)) {
            sm_json_set_new(facts, name, strcmp(name, "run_args") == 0 ? shared_flags(value) : json_deep_copy(value));
        }
    }
    return facts;
}

static void put_characters(FILE *out, const unsigned char *bytes, size_t n) {
    unsigned held = 0;
    int n_held = 0, n_written = 0;
    for (size_t i = 0; i < n || n_held > 0;) {
        if (n_held < BITS && i < n) {
            held = held << 8 | bytes[i++];
            n_held += 8;
        } else if (n_held < BITS) {
            held <<= BITS - n_held;
            n_held = BITS;
        }
        for (; n_held >= BITS; n_held -= BITS) {
            fputs(n_written++ % LINE_CHARACTERS == 0 ? "\n    " : "", out);
            fputc(alphabet[held >> (n_held - BITS) & 63], out);
        }
    }
}

static unsigned char *compress_text(const char *text, size_t *size_bytes) {
    z_stream stream = {.next_in = (unsigned char *)(uintptr_t)text, .avail_in = (unsigned)strlen(text)};
    deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, 15, 9, Z_DEFAULT_STRATEGY);
    deflateSetDictionary(&stream, (const unsigned char *)dictionary, sizeof(dictionary) - 1);
    stream.avail_out = (unsigned)deflateBound(&stream, stream.avail_in);
    unsigned char *bytes = sm_malloc(stream.avail_out);
    stream.next_out = bytes;
    deflate(&stream, Z_FINISH);
    *size_bytes = stream.total_out;
    deflateEnd(&stream);
    return bytes;
}

static char *make(const json_t *rows, size_t n_rows) {
    char *text = NULL;
    size_t size_bytes = 0;
    char digest[SM_DIGEST_SIZE];
    FILE *out = sm_memstream(&text, &size_bytes);
    SM_OWN(json_t) *facts = json_array();
    for (size_t i = 0; i < n_rows; i++) {
        json_array_append_new(facts, facts_of(json_array_get(rows, i)));
    }
    SM_FREED char *json = json_dumps(facts, JSON_COMPACT | JSON_REAL_PRECISION(7));
    SM_OWN(json_t) *read = json_loads(json, 0, NULL); // the lines are of the rounded figures, as a reader has them
    for (size_t i = 0; i < n_rows; i++) {
        char line[SM_BLOCK_LINE_SIZE];
        sm_block_line(json_array_get(read, i), line);
        fprintf(out, "    %s\n", line);
    }
    SM_FREED unsigned char *bytes = compress_text(json, &size_bytes);
    sm_digest_bytes(json, strlen(json), digest);
    fprintf(out, "    %s%s]", header, digest);
    put_characters(out, bytes, size_bytes);
    fprintf(out, "\n    %s\n", footer);
    sm_memstream_close(out);
    return text;
}

char *sm_block_make(const json_t *rows, size_t *n_rows) {
    for (*n_rows = json_array_size(rows);; (*n_rows)--) {
        char *text = make(rows, *n_rows);
        if (strlen(text) <= SM_BLOCK_MOST_BYTES || *n_rows <= 1) {
            return text;
        }
        free(text);
    }
}

// --- reading -----------------------------------------------------------------------------------------

// Moves over a tag of HTML or an entity; false: there is none.
static bool skip_markup(const char **at, const char *end) {
    const char close = **at == '<' ? '>' : ';';
    const char *last = **at == '<' || **at == '&' ? memchr(*at, close, (size_t)(end - *at)) : NULL;
    *at = last != NULL ? last + 1 : *at;
    return last != NULL;
}

// A byte as mails write it, "=C2".
static bool is_byte(const char *at, const char *end) {
    return *at == '=' && end - at > 2 && isxdigit((unsigned char)at[1]) && isxdigit((unsigned char)at[2]);
}

// A character that a page has as a number: some programs write "+" as "&#43;". 0: another entity, or none.
static char numbered(const char *at, const char *end) {
    static const char *const numbers[] = {"&#43;", "&#x2b;", "&#x2B;", "&#46;", "&#x2e;", "&#x2E;"};
    for (size_t i = 0; i < SM_COUNT(numbers); i++) {
        const size_t length = strlen(numbers[i]);
        if ((size_t)(end - at) >= length && memcmp(at, numbers[i], length) == 0) {
            return i < 3 ? '+' : '.';
        }
    }
    return '\0';
}

// The bytes of the characters between two places; *n counts them. NULL: there are others.
static unsigned char *read_characters(const char *at, const char *end, size_t *n) {
    unsigned char *bytes = sm_malloc((size_t)(end - at) + 1);
    unsigned held = 0;
    int n_held = 0;
    for (*n = 0; at < end;) {
        const char given = *at == '&' ? numbered(at, end) : *at;
        const char *found = given != '\0' ? strchr(alphabet, given) : NULL;
        if (found == NULL && !skip_markup(&at, end)) {
            const bool is_ascii = (unsigned char)*at < 0x80; // others are spaces that do not break, and the like
            if (is_ascii && !isspace((unsigned char)*at) && strchr(">|=\\", *at) == NULL) {
                free(bytes);
                return NULL;
            }
            at += is_byte(at, end) ? 3 : 1;
        }
        if (found == NULL) {
            continue;
        }
        held = held << BITS | (unsigned)(found - alphabet);
        n_held += BITS;
        if (n_held >= 8) {
            n_held -= 8;
            bytes[(*n)++] = (unsigned char)(held >> n_held);
        }
        at = *at == '&' ? strchr(at, ';') + 1 : at + 1;
    }
    return bytes;
}

// NULL: not what compress_text makes, or much more than a block has.
static char *expand(const unsigned char *bytes, size_t n) {
    z_stream stream = {.next_in = (unsigned char *)(uintptr_t)bytes, .avail_in = (unsigned)n};
    char *text = sm_malloc(MOST_JSON_BYTES + 1);
    inflateInit(&stream);
    stream.next_out = (unsigned char *)text;
    stream.avail_out = MOST_JSON_BYTES;
    int code = inflate(&stream, Z_FINISH);
    if (code == Z_NEED_DICT &&
        inflateSetDictionary(&stream, (const unsigned char *)dictionary, sizeof(dictionary) - 1) == Z_OK) {
        code = inflate(&stream, Z_FINISH);
    }
    text[stream.total_out] = '\0';
    inflateEnd(&stream);
    if (code != Z_STREAM_END) {
        free(text);
        return NULL;
    }
    return text;
}

static json_t *read_rows(const char *body, const char *end, const char *digest, char why[SM_BLOCK_WHY_SIZE]) {
    char found[SM_DIGEST_SIZE];
    size_t n = 0;
    SM_FREED unsigned char *bytes = read_characters(body, end, &n);
    SM_FREED char *text = bytes != NULL ? expand(bytes, n) : NULL;
    SM_OWN(json_t) *rows = NULL;
    if (text == NULL) {
        snprintf(why, SM_BLOCK_WHY_SIZE, "damaged: some of its characters are lost or changed; ask for it again");
    } else {
        sm_digest_bytes(text, strlen(text), found);
        rows = strncmp(found, digest, strlen(found)) == 0 ? json_loads(text, 0, NULL) : NULL;
        snprintf(why, SM_BLOCK_WHY_SIZE, "%s",
                 json_is_array(rows) ? "" : "changed: its digest is not that of its facts");
    }
    return json_is_array(rows) ? json_incref(rows) : NULL;
}

// Letters and digits alone, without markup and the "=C2=B1" of mails: what no program changes.
static char *plain(const char *at, const char *end) {
    char *text = sm_malloc((size_t)(end - at) + 1);
    size_t n = 0;
    while (at < end) {
        if (skip_markup(&at, end)) {
            continue;
        }
        if (isalnum((unsigned char)*at)) {
            text[n++] = *at;
        }
        at += is_byte(at, end) ? 3 : 1;
    }
    text[n] = '\0';
    return text;
}

// Whether a plain text is a line for people: a rate and a verdict follow the work's name. Others only name it.
static bool is_line(const char *text, const char *name) {
    enum { MOST_CHARACTERS = 72 };
    char head[MOST_CHARACTERS + 1];
    snprintf(head, sizeof(head), "%s", text + strlen(name));
    char *next = strstr(head, name);
    if (next != NULL) {
        *next = '\0';
    }
    const char *rate = strstr(head, "toks");
    return rate != NULL &&
           (strstr(rate, "verified") != NULL || strstr(rate, "losses") != NULL || strstr(rate, "busy") != NULL);
}

// Whether the last lines for people between two places are those of rows: as many as there are rows, since lines
// further above may be of others.
static bool lines_agree(const char *at, const char *end, const json_t *rows) {
    char line[SM_BLOCK_LINE_SIZE];
    SM_FREED char *text = plain(at, end);
    const char *score = sm_rows_text(json_array_get(rows, 0), "score");
    SM_FREED char *name = plain(score, score + strlen(score));
    size_t n = 0, last_wrong = 0; // counted from 1
    for (const char *found = name[0] != '\0' ? strstr(text, name) : NULL; found != NULL;
         found = strstr(found + 1, name)) {
        bool agrees = false;
        for (size_t i = 0; i < json_array_size(rows) && !agrees; i++) {
            sm_block_line(json_array_get(rows, i), line);
            SM_FREED char *expected = plain(line, line + strlen(line));
            agrees = strncmp(found, expected, strlen(expected)) == 0;
        }
        n += is_line(found, name);
        last_wrong = is_line(found, name) && !agrees ? n : last_wrong;
    }
    return last_wrong == 0 || last_wrong + json_array_size(rows) <= n;
}

static const char *find(const char *at, const char *end, const char *word) {
    return at < end ? memmem(at, (size_t)(end - at), word, strlen(word)) : NULL;
}

bool sm_block_next(const char *text, size_t size_bytes, size_t *at, size_t *begin, json_t **rows,
                   char why[SM_BLOCK_WHY_SIZE]) {
    enum { MOST_BYTES_ABOVE = 1500 };
    const char *end = text + size_bytes;
    const char *block = find(text + *at, end, header);
    *rows = NULL;
    why[0] = '\0';
    if (block == NULL) {
        return false;
    }
    const char *digest = block + strlen(header);
    const char *next = find(digest, end, header);
    const char *limit = next != NULL ? next : end; // nothing is looked for beyond: a text is read once
    const char *body = memchr(digest, ']', (size_t)(limit - digest));
    const char *last = body != NULL ? find(body, limit, footer) : NULL;
    *begin = (size_t)(block - text);
    if (last == NULL) {
        snprintf(why, SM_BLOCK_WHY_SIZE, "damaged: its last line, %s, is missing; ask for it again", footer);
        *at = (size_t)(digest - text);
        return true;
    }
    *rows = read_rows(body + 1, last, digest, why);
    // The lines for people lie after the block before, and not far above.
    const char *above = block - (text + *at) > MOST_BYTES_ABOVE ? block - MOST_BYTES_ABOVE : text + *at;
    if (*rows != NULL && !lines_agree(above, block, *rows)) {
        snprintf(why, SM_BLOCK_WHY_SIZE, "the line above it is not what its facts say");
    }
    *at = (size_t)(last - text) + strlen(footer);
    return true;
}
