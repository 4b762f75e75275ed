// The tokenizer: GPT-2's alphabet and cuts; ids and learned vocabularies against a slow implementation of the
// definition; files in both formats, and files that are not as they should be.
#include <sys/inotify.h>

#include "clock.h"
#include "tests/support/full_disk.h"
#include "philox.h"
#include "tests/support/source_text.h"
#include "tests/support/temp_folder.h"
#include "src/tokenizer/bpe_train.h"
#include "src/tokenizer/encoder.h"
#include "src/tokenizer/pretokens.h"

enum { CORPUS_BYTES = 200000, N_MERGES = 200 };

TEST(the_alphabet_is_gpt2_s) {
    uint8_t order[SM_N_BYTES], bytes[SM_N_BYTES];
    char text[SM_ALPHABET_CHAR_BYTES * SM_N_BYTES];
    size_t n;
    sm_byte_alphabet_order(order);
    assert_int_equal(order[0], '!');
    assert_int_equal(order[93], '~');
    assert_int_equal(order[94], 0xa1);
    assert_int_equal(order[188], 0); // after the 188 that stand for themselves
    assert_int_equal(order[220], ' ');
    const size_t length = sm_byte_alphabet_write(order, SM_N_BYTES, text);
    assert_true(sm_byte_alphabet_read(text, length, bytes, &n));
    assert_int_equal(n, SM_N_BYTES);
    assert_memory_equal(bytes, order, SM_N_BYTES);
    assert_int_equal(sm_byte_alphabet_write((const uint8_t *)" a\n", 3, text), 5);
    assert_memory_equal(text, "ĠaĊ", 5);
    assert_false(sm_byte_alphabet_read(" ", 1, bytes, &n));
    assert_false(sm_byte_alphabet_read("\xc4", 1, bytes, &n));
    assert_false(sm_byte_alphabet_read("\xc5\x84", 2, bytes, &n)); // U+0144, one too many
    assert_false(sm_byte_alphabet_read("▁", strlen("▁"), bytes, &n));
}

// --- cuts ----------------------------------------------------------------------------------

// Gives the pieces of a text, one after the other.
static void each_piece(const uint8_t *text, size_t n, void (*take)(void *ctx, const uint8_t *piece, size_t length),
                       void *ctx) {
    SM_OWN(sm_pretokens) *pretokens = sm_pretokens_new();
    size_t end;
    sm_pretokens_begin(pretokens, text, n);
    for (size_t begin = 0; sm_pretokens_next(pretokens, &end); begin = end) {
        take(ctx, text + begin, end - begin);
    }
}

// Writes the pieces with '|' behind each.
static void write_piece(void *ctx, const uint8_t *piece, size_t length) {
    snprintf((char *)ctx + strlen(ctx), length + 2, "%.*s|", (int)length, (const char *)piece);
}

TEST(text_is_cut_as_gpt2_cuts_it) {
    static const char *const cases[] = {
        "Hello| world|,| don|'t|!",
        "a| 12|b|3",
        "   | x",
        "x|  | y",
        "x|\n\n",
        "x|\n\n| y",
        "I|'ll|'s|''|S|'",
        "日本|。|語",
        "é|\xcc\x81|e",
        "a|\xff\xfe|b| \x80|c",
        "a|\xe2\x82|1",
        "\xed\xa0\x80",
        "x|\u3000|y",
        "x|\u180e|y",
        "\ua7cb\U000105c0|\U00010d40|\u2603",
        "a\U0001df25|!",
        "'re|'re",
        "a|\xc2\x85|b",
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[128], cuts[256] = "";
        size_t n = 0;
        for (const char *c = cases[i]; *c != '\0'; c++) {
            if (*c != '|') {
                text[n++] = *c;
            }
        }
        each_piece((const uint8_t *)text, n, write_piece, cuts);
        cuts[strlen(cuts) - 1] = '\0';
        FAIL_IF(strcmp(cuts, cases[i]) != 0, "'%s' is cut as '%s'", cases[i], cuts);
    }
}

// --- the definition, slowly ----------------------------------------------------------------

typedef struct {
    int32_t left, right;
} pair;

// GPT-2's own way: of all pairs in the piece that whose merge is first, everywhere; again until there is none.
static size_t slow_merge(const sm_tokenizer *t, const uint8_t *bytes, size_t n, int32_t *ids) {
    for (size_t i = 0; i < n; i++) {
        ids[i] = t->byte_ids[bytes[i]];
    }
    for (;;) {
        int32_t best = t->n_merges;
        for (int32_t rank = t->n_merges - 1; rank >= 0; rank--) {
            for (size_t i = 0; i + 1 < n; i++) {
                best = ids[i] == t->merges[rank].left && ids[i + 1] == t->merges[rank].right ? rank : best;
            }
        }
        if (best == t->n_merges) {
            return n;
        }
        size_t kept = 0;
        for (size_t i = 0; i < n; i++) {
            const bool is_pair = i + 1 < n && ids[i] == t->merges[best].left && ids[i + 1] == t->merges[best].right;
            ids[kept++] = is_pair ? t->merges[best].result : ids[i];
            i += is_pair;
        }
        n = kept;
    }
}

typedef struct {
    const sm_tokenizer *tokenizer;
    sm_ids ids;
} slow_encoding;

static void encode_piece(void *ctx, const uint8_t *piece, size_t length) {
    slow_encoding *slow = ctx;
    sm_ids_reserve(&slow->ids, length);
    slow->ids.n += slow_merge(slow->tokenizer, piece, length, slow->ids.ids + slow->ids.n);
}

// --- vocabularies --------------------------------------------------------------------------

static void count_piece(void *ctx, const uint8_t *piece, size_t length) {
    expect_ok("add", sm_word_counts_add(ctx, piece, length, 1));
}

static sm_tokenizer *learn(size_t n_bytes, int64_t vocab_size) {
    sm_tokenizer *tokenizer;
    SM_AT_END(sm_word_counts_free) sm_word_counts words = {0};
    const sm_bpe_settings settings = {.vocab_size = vocab_size, .min_frequency = 2};
    each_piece(source_text(), n_bytes, count_piece, &words);
    expect_ok("train", sm_bpe_train(&words, &settings, &tokenizer));
    return tokenizer;
}

// Counts all pairs of all words again.
static pair slow_best(const int32_t *ids, const uint8_t *ends_word, size_t n, int32_t n_tokens, int64_t *count) {
    SM_FREED int64_t *counts = calloc((size_t)n_tokens * (size_t)n_tokens, sizeof(*counts));
    pair best = {0, 0};
    assert_non_null(counts);
    for (size_t i = 0; i + 1 < n; i++) {
        counts[ids[i] * n_tokens + ids[i + 1]] += !ends_word[i];
    }
    *count = 0;
    for (int32_t left = 0; left < n_tokens; left++) {
        for (int32_t right = 0; right < n_tokens; right++) {
            if (counts[left * n_tokens + right] > *count) { // of equal ones the first
                *count = counts[left * n_tokens + right];
                best = (pair){left, right};
            }
        }
    }
    return best;
}

static void mark_end(void *ends_word, const uint8_t *piece, size_t length) {
    ((uint8_t *)ends_word)[piece + length - 1 - source_text()] = 1;
}

TEST(vocabularies_are_learned_as_defined) {
    enum { N = 30000 };
    static int32_t ids[N];
    static uint8_t ends_word[N];
    SM_OWN(sm_tokenizer) *t = learn(N, 257 + N_MERGES);
    assert_int_equal(t->n_tokens, 257 + N_MERGES);
    assert_int_equal(t->n_merges, N_MERGES);
    assert_int_equal(t->end_of_text, 0);
    each_piece(source_text(), N, mark_end, ends_word);
    size_t n = N;
    for (size_t i = 0; i < n; i++) {
        ids[i] = t->byte_ids[source_text()[i]];
    }
    for (int32_t rank = 0; rank < N_MERGES; rank++) {
        int64_t count;
        const pair best = slow_best(ids, ends_word, n, 257 + rank, &count);
        FAIL_IF(best.left != t->merges[rank].left || best.right != t->merges[rank].right, "merge %d: %d %d, not %d %d",
                rank, t->merges[rank].left, t->merges[rank].right, best.left, best.right);
        assert_int_equal(t->merges[rank].result, 257 + rank);
        size_t kept = 0;
        for (size_t i = 0; i < n; i++) {
            const bool is_pair = i + 1 < n && !ends_word[i] && ids[i] == best.left && ids[i + 1] == best.right;
            const uint8_t ends = is_pair ? ends_word[i + 1] : ends_word[i];
            ids[kept] = is_pair ? 257 + rank : ids[i];
            ends_word[kept++] = ends;
            i += is_pair;
        }
        n = kept;
    }
}

TEST(few_words_make_few_tokens) {
    sm_tokenizer *t;
    SM_AT_END(sm_word_counts_free) sm_word_counts words = {0};
    sm_bpe_settings settings = {.vocab_size = 1000, .min_frequency = 3};
    expect_ok("add", sm_word_counts_add(&words, (const uint8_t *)"abab", 4, 2));
    expect_ok("add", sm_word_counts_add(&words, (const uint8_t *)"cd", 2, 2));
    expect_ok("train", sm_bpe_train(&words, &settings, &t));
    assert_int_equal(t->n_tokens, 258); // ab, four times; abab and cd only twice
    assert_int_equal(t->n_merges, 1);
    sm_tokenizer_free(t);
    settings.vocab_size = 256;
    expect_failure("too few", sm_bpe_train(&words, &settings, &t), SM_ERR_INVALID, "256|257");
}

// --- ids -----------------------------------------------------------------------------------

static bool are_equal(const sm_ids *a, const sm_ids *b) {
    return a->n == b->n && (a->n == 0 || memcmp(a->ids, b->ids, a->n * sizeof(*a->ids)) == 0);
}

// The ids of a text, which are the same in parts cut out of pieces of so many bytes, as blocks of text are encoded.
static sm_ids encode(const char *label, const sm_tokenizer *t, const uint8_t *text, size_t n, size_t piece_bytes) {
    SM_OWN(sm_encoder) *encoder = NULL;
    sm_ids ids = {0}, parts = {0};
    expect_ok(label, sm_encoder_new(t, &encoder));
    expect_ok(label, sm_encoder_encode(encoder, text, n, &ids));
    for (size_t begin = 0, part; begin < n; begin += part) {
        part = n - begin > piece_bytes ? sm_encoder_part(t, text + begin, piece_bytes, 1) : 0;
        part = part > 0 ? part : n - begin;
        expect_ok(label, sm_encoder_encode(encoder, text + begin, part, &parts));
    }
    FAIL_IF(!are_equal(&parts, &ids), "%s: parts give other ids than the whole", label);
    free(parts.ids);
    return ids;
}

static void expect_ids(const char *label, const sm_tokenizer *t, const uint8_t *text, size_t n) {
    slow_encoding slow = {.tokenizer = t};
    sm_ids ids = encode(label, t, text, n, 997);
    each_piece(text, n, encode_piece, &slow);
    FAIL_IF(!are_equal(&ids, &slow.ids), "%s: other ids than the definition's", label);
    assert_true(are_ids_of(t, &ids, text, n));
    free(slow.ids.ids);
    free(ids.ids);
}

static size_t put_character(uint8_t *text, uint32_t c) {
    if (c < 0x80) {
        text[0] = (uint8_t)c;
        return 1;
    }
    const int n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (int i = n - 1; i > 0; i--, c >>= 6) {
        text[i] = (uint8_t)(0x80 | (c & 0x3f));
    }
    text[0] = (uint8_t)((0xf00 >> n) | c);
    return (size_t)n;
}

TEST(ids_are_those_of_the_definition) {
    enum { N = 60000 };
    static uint8_t text[N + 8];
    SM_OWN(sm_tokenizer) *t = learn(CORPUS_BYTES, 257 + N_MERGES);
    expect_ids("sources", t, source_text(), CORPUS_BYTES / 4);
    for (size_t i = 0; i < N; i++) {
        text[i] = (uint8_t)sm_philox4x32(1, i, 0).word[0];
    }
    expect_ids("random bytes", t, text, N);
    size_t n = 0;
    for (uint64_t i = 0; n < N; i++) {
        const sm_philox_block draw = sm_philox4x32(2, i, 0);
        const uint32_t plane = draw.word[0] % 4 == 0 ? 0x110000 : draw.word[0] % 4 == 1 ? 0x3000 : 0x80;
        n += put_character(text + n, draw.word[1] % plane); // surrogates, which are invalid, among them
    }
    expect_ids("all planes", t, text, n);
    for (size_t length = 0; length < 300; length++) { // around the border between short and long pieces
        memset(text, 'e', length);
        expect_ids("e", t, text, length);
    }
}

TEST(a_megabyte_without_a_space_ends_soon) {
    enum { N = 1 << 20, LONGEST_S = 20 };
    SM_FREED uint8_t *text = malloc(N);
    SM_OWN(sm_tokenizer) *t = learn(CORPUS_BYTES, 600);
    SM_OWN(sm_encoder) *encoder = NULL;
    sm_ids ids = {0};
    assert_non_null(text);
    for (size_t i = 0; i < N; i++) {
        text[i] = "etaoinsh"[sm_philox4x32(3, i, 0).word[0] % 8];
    }
    const int64_t begin_ns = sm_now_ns();
    expect_ok("new", sm_encoder_new(t, &encoder));
    expect_ok("encode", sm_encoder_encode(encoder, text, N, &ids));
    assert_true(sm_now_ns() - begin_ns < (int64_t)LONGEST_S * 1000000000);
    assert_true(are_ids_of(t, &ids, text, N));
    free(ids.ids);
}

TEST(added_tokens_come_first) {
    static const char text[] = "a<|endoftext|>b<|endoftext|<|endoftext|>";
    SM_OWN(sm_tokenizer) *t = learn(1000, 257);
    sm_ids ids = encode("added", t, (const uint8_t *)text, strlen(text), SIZE_MAX);
    assert_int_equal(ids.n, 1 + 1 + 1 + 12 + 1);
    assert_int_equal(ids.ids[1], 0);
    assert_int_equal(ids.ids[2], t->byte_ids['b']);
    assert_int_equal(ids.ids[ids.n - 1], 0);
    free(ids.ids);
}

// --- files ---------------------------------------------------------------------------------

// What is read there has the digest of the other.
static void expect_same_tokenizer(const char *path, const sm_tokenizer *other) {
    char digests[2][SM_TOKENIZER_DIGEST_SIZE];
    SM_OWN(sm_tokenizer) *t = NULL;
    expect_ok(path, sm_tokenizer_read(path, &t));
    assert_int_equal(t->end_of_text, 0);
    sm_tokenizer_digest(t, digests[0]);
    sm_tokenizer_digest(other, digests[1]);
    assert_string_equal(digests[0], digests[1]);
}

TEST(both_formats_are_read_as_they_were_written) {
    const char *folder = temp_path("tokenizer");
    const char *json = temp_path("tokenizer/tokenizer.json");
    SM_OWN(sm_tokenizer) *t = learn(CORPUS_BYTES, 700);
    expect_ok("write", sm_tokenizer_write(t, folder));
    assert_true(sm_tokenizer_is_in(folder));
    expect_same_tokenizer(json, t);
    expect_same_tokenizer(folder, t);
    assert_int_equal(unlink(json), 0); // vocab.json and merges.txt are left
    expect_same_tokenizer(folder, t);
}

// The files belong together: where the last of them does not fit, the others stay as they were.
TEST(a_full_disk_leaves_the_old_tokenizer) {
    const char *folder = temp_path("kept");
    SM_OWN(sm_tokenizer) *old = learn(CORPUS_BYTES, 300);
    SM_OWN(sm_tokenizer) *new = learn(CORPUS_BYTES, 700);
    expect_ok("write", sm_tokenizer_write(old, folder));
    limit_files(16384); // tokenizer.json is larger, vocab.json and merges.txt are not
    const sm_status status = sm_tokenizer_write(new, folder);
    limit_files(RLIM_INFINITY);
    expect_failure("full", status, SM_ERR_IO, "kept/tokenizer.json|cannot write|File too large");
    assert_int_equal(temp_count(folder), 4);
    expect_same_tokenizer(folder, old);
    assert_int_equal(unlink(temp_path("kept/tokenizer.json")), 0); // vocab.json and merges.txt are left
    expect_same_tokenizer(folder, old);
}

// Whatever ends the program meanwhile, tokenizer.json is the old one until all is there.
TEST(the_file_that_is_read_first_comes_last) {
    _Alignas(struct inotify_event) char events[4096];
    const struct inotify_event *last = NULL;
    SM_OWN(sm_tokenizer) *t = learn(1000, 257);
    const int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    shell("mkdir $T/order");
    assert_true(inotify_add_watch(watch, temp_path("order"), IN_MOVED_TO) >= 0);
    expect_ok("write", sm_tokenizer_write(t, temp_path("order")));
    const ssize_t n = read(watch, events, sizeof events);
    for (const char *at = events; at < events + n; at += sizeof *last + last->len) {
        last = (const struct inotify_event *)(const void *)at;
    }
    close(watch);
    assert_non_null(last);
    assert_string_equal(last->name, "tokenizer.json");
}

// A tokenizer.json of all bytes and these tokens, merges and added tokens.
static char *make_json(const char *tokens, const char *merges, const char *added, const char *more) {
    uint8_t order[SM_N_BYTES];
    char *text = NULL;
    size_t size_bytes;
    FILE *file = open_memstream(&text, &size_bytes);
    assert_non_null(file);
    sm_byte_alphabet_order(order);
    fprintf(file, "{\"added_tokens\": [%s], \"pre_tokenizer\": {\"type\": \"ByteLevel\"}, %s \"model\": {\"vocab\": {",
            added, more);
    for (int i = 0; i < SM_N_BYTES; i++) {
        char character[SM_ALPHABET_CHAR_BYTES + 1] = "";
        sm_byte_alphabet_write(&order[i], 1, character);
        const bool is_escaped = character[0] == '"' || character[0] == '\\';
        fprintf(file, "%s\"%s%s\": %d", i > 0 ? ", " : "", is_escaped ? "\\" : "", character, i);
    }
    fprintf(file, "%s}, \"merges\": [%s]}}", tokens, merges);
    assert_int_equal(fclose(file), 0);
    return text;
}

TEST(malformed_tokenizers_are_refused) {
#define AB ", \"ab\": 256"
#define POST                                                                                               \
    "\"post_processor\": {\"type\": \"Sequence\", \"processors\": [{\"type\": \"ByteLevel\"}, {\"type\": " \
    "\"TemplateProcessing\", \"single\": ["
    static const struct {
        const char *tokens, *merges, *added, *more;
        sm_status status;
        const char *message;
    } cases[] = {
        {AB, "\"a b\"", "", "", SM_OK, ""},
        {AB, "[\"a\", \"b\"]", "", "\"normalizer\": null,", SM_OK, ""},
        {AB, "\"a b\"", "{\"id\": 257, \"content\": \"<s>\"}", "", SM_OK, ""},
        {", \"ab\": 257", "", "", "", SM_ERR_FORMAT, "id 257|257 tokens"},
        {", \"ab\": 4000000000000", "", "", "", SM_ERR_FORMAT, "id 4000000000000"},
        {", \"ab\": -1", "", "", "", SM_ERR_FORMAT, "id -1"},
        {", \"ab\": 9", "", "", "", SM_ERR_FORMAT, "id 9|two tokens"},
        {", \"ab\": \"256\"", "", "", "", SM_ERR_FORMAT, "'ab'|not a whole number"},
        {", \"ab\": 1e3", "", "", "", SM_ERR_FORMAT, "'ab'|not a whole number"},
        {AB ", \"ab\": 257", "", "", "", SM_ERR_FORMAT, "duplicate"},
        {", \"\": 256", "", "", "", SM_ERR_FORMAT, "empty token"},
        {", \"▁a\": 256", "", "", "", SM_ERR_UNSUPPORTED, "alphabet"},
        {AB, "\"a c\"", "", "", SM_ERR_FORMAT, "merge 0|'ac'|not in the vocabulary"},
        {AB, "\"a b\", \"zz b\"", "", "", SM_ERR_FORMAT, "merge 1|'zz'"},
        {AB, "\"ab\"", "", "", SM_ERR_FORMAT, "merge 0|not two tokens"},
        {AB, "\"a b c\"", "", "", SM_ERR_FORMAT, "merge 0|not two tokens"},
        {AB, "[\"a\"]", "", "", SM_ERR_FORMAT, "merge 0|neither"},
        {AB, "7", "", "", SM_ERR_FORMAT, "merge 0|neither"},
        {AB, "", "{\"id\": 999, \"content\": \"<s>\"}", "", SM_ERR_FORMAT, "id 999"},
        {AB, "", "{\"content\": \"<s>\"}", "", SM_ERR_FORMAT, "added token 0"},
        {AB, "", "{\"id\": 257, \"content\": \"<s>\", \"lstrip\": true}", "", SM_ERR_UNSUPPORTED, "lstrip"},
        {AB, "", "{\"id\": 257, \"content\": \"\"}", "", SM_ERR_FORMAT, "empty token"},
        {AB, "", "", "\"normalizer\": {\"type\": \"NFC\"},", SM_ERR_UNSUPPORTED, "normalizer"},
        {AB, "\"a b\"", "{\"id\": 0, \"content\": \"<s>\"}", "", SM_ERR_FORMAT,
         "'<s>' is listed with the id 0|get 257"},
        {AB, "\"a b\"", "{\"id\": 3, \"content\": \"ab\"}", "", SM_ERR_FORMAT, "'ab' is listed with the id 3|get 256"},
        {AB, "\"a b\"", "{\"id\": 220, \"content\": \"Ġ\"}", "", SM_ERR_UNSUPPORTED, "'Ġ'|stands for other bytes"},
        {AB, "", "{\"id\": 257, \"content\": \"<s>\", \"special\": \"true\"}", "", SM_ERR_FORMAT, "neither true nor"},
        {AB, "", "", "\"version\": \"2.0\",", SM_ERR_UNSUPPORTED, "version 2.0 of tokenizer.json"},
        {AB, "\"a b\"", "", "\"post_processor\": {\"type\": \"RobertaProcessing\"},", SM_ERR_UNSUPPORTED,
         "post_processor is RobertaProcessing, which adds tokens"},
        {AB, "\"a b\"", "", POST "{\"SpecialToken\": {\"id\": \"a\"}}, {\"Sequence\": {\"id\": \"A\"}}]}]},",
         SM_ERR_UNSUPPORTED, "post_processor is TemplateProcessing, which adds tokens"},
        {AB, "\"a b\"", "", POST "{\"Sequence\": {\"id\": \"A\"}}]}]},", SM_OK, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sm_tokenizer *t;
        SM_FREED char *text = make_json(cases[i].tokens, cases[i].merges, cases[i].added, cases[i].more);
        const char *label = textf("case %zu", i);
        sm_status status = sm_tokenizer_read(temp_put_text("malformed.json", text), &t);
        expect_failure(label, status, cases[i].status, status == SM_OK ? "" : cases[i].message);
        sm_tokenizer_free(t);
        for (size_t cut_at = 0; i == 0 && cut_at < strlen(text); cut_at += 97) { // no part of it is whole
            assert_int_equal(sm_tokenizer_read(temp_put("malformed.json", text, cut_at), &t), SM_ERR_FORMAT);
        }
    }
}

static void expect_text_ids(const char *label, const char *folder, const char *text, const char *expected) {
    SM_OWN(sm_tokenizer) *t = NULL;
    char found[400] = "";
    expect_ok(label, sm_tokenizer_read(folder, &t));
    sm_ids ids = encode(label, t, (const uint8_t *)text, strlen(text), 4);
    for (size_t i = 0, used = 0; i < ids.n; i++) {
        used += (size_t)snprintf(found + used, sizeof found - used, i > 0 ? " %d" : "%d", ids.ids[i]);
    }
    FAIL_IF(strcmp(found, expected) != 0, "%s: '%s' has the ids %s, not %s", label, text, found, expected);
    free(ids.ids);
}

// Ids of `tokenizers`: those that are not normalized come first, then the leftmost, then the longest. A byte has its id
// in the order of its character: 'a' is 64, a space 220.
TEST(added_tokens_overlap_as_in_tokenizers) {
#define TOKEN(id, content, normalized) \
    "{\"id\": " #id ", \"content\": \"" content "\", \"special\": false, \"normalized\": " #normalized "}"
    static const struct {
        const char *added, *text, *ids;
    } cases[] = {
        {TOKEN(257, "<|x|>", false) ", " TOKEN(258, "ab<|x|>", true), "ab<|x|> ab<|x|>", "256 257 220 256 257"},
        {TOKEN(257, "<|x|>", true) ", " TOKEN(258, "ab<|x|>", false), "ab<|x|> ab<|x|>", "258 220 258"},
        {TOKEN(257, "<|x|>", true) ", " TOKEN(258, "ab<|x|>", true), "ab<|x|>", "258"},
        {TOKEN(257, "aa", false) ", " TOKEN(258, "aaa", false), "aaaaa", "258 257"},
        {TOKEN(64, "a", false), "abab", "64 65 64 65"},
        {TOKEN(64, "a", false) ", " TOKEN(256, "ab", true), "abab", "64 65 64 65"},
        {TOKEN(257, "a b", false), "xa ba b a", "87 257 257 220 64"},
        {TOKEN(257, "\\n", true), "a\\nb\nc", "64 59 77 65 257 66"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        SM_FREED char *json = make_json(AB, "\"a b\"", cases[i].added, "");
        expect_text_ids(cases[i].added, temp_put_text("overlap.json", json), cases[i].text, cases[i].ids);
    }
}

// vocab.json and merges.txt with <|endoftext|> as 257, and the files next to them.
TEST(added_tokens_of_every_file_are_one_id) {
    static const char text[] = "XX ab<y>PAD<|endoftext|>";
    static const struct {
        const char *config, *map, *added, *ids; // NULL: no such file
        const char *refused;
    } cases[] = {
        {NULL, NULL, NULL, "55 55 220 256 27 88 29 47 32 35 257", NULL},
        {NULL, NULL, "{\"XX\": 258, \"<y>\": 259}", "258 220 256 259 47 32 35 257", NULL},
        {NULL, NULL, "{\"<y>\": 259, \"XX\": 258, \"ab\": 256}", "258 220 256 259 47 32 35 257", NULL},
        {"{\"added_tokens_decoder\": {\"259\": {\"content\": \"<y>\"}, \"258\": {\"content\": \"XX\"}}}", NULL, NULL,
         "258 220 256 259 47 32 35 257", NULL},
        {"{\"added_tokens_decoder\": {\"258\": {\"content\": \"XX\"}}, \"model_max_length\": "
         "1000000000000000019884624838656}",
         "{\"pad_token\": \"PAD\"}", "{\"<y>\": 259}", "258 220 256 27 88 29 47 32 35 257", NULL},
        {NULL, "{\"pad_token\": \"PAD\", \"additional_special_tokens\": [\"<y>\"]}", NULL, "55 55 220 256 259 258 257",
         NULL},
        {"{\"pad_token\": \"XX\"}", "{\"pad_token\": {\"content\": \"PAD\", \"lstrip\": false}}", "{\"<y>\": 258}",
         "55 55 220 256 258 259 257", NULL},
        {"{\"pad_token\": \"PAD\", \"extra_special_tokens\": {\"y_token\": \"<y>\"}}", NULL, NULL,
         "55 55 220 256 259 258 257", NULL},
        {"\xef\xbb\xbf{\"y_token\": \"<y>\", \"pad_token\": null}", NULL, NULL, "55 55 220 256 258 47 32 35 257", NULL},
        {NULL, NULL, "{\"XX\": 260}", NULL, "'XX' is listed with the id 260, and would get 258"},
        {NULL, NULL, "{\"XX\": \"258\"}", NULL, "added_tokens.json: added token 0"},
        {NULL, "{\"pad_token\": {\"content\": \"PAD\", \"lstrip\": true}}", NULL, NULL, "an added token's lstrip"},
        {"{\"added_tokens_decoder\": {\"258\": {\"content\": \"XX\", \"rstrip\": true}}}", NULL, NULL, NULL,
         "tokenizer_config.json: an added token's rstrip"},
        {"{\"added_tokens_decoder\": {\"x\": {\"content\": \"XX\"}}}", NULL, NULL, NULL, "added token 0"},
        {"{\"added_tokens_decoder\": {\"258\": {\"content\": 1}}}", NULL, NULL, NULL, "added token 0"},
        {"{\"added_tokens_decoder\": [{\"content\": \"XX\"}]}", NULL, NULL, NULL, "added_tokens_decoder is no list"},
        {"{\"additional_special_tokens\": \"XX\"}", NULL, NULL, NULL, "additional_special_tokens is no list of tokens"},
        {NULL, "{\"extra_special_tokens\": \"XX\"}", NULL, NULL, "extra_special_tokens is no list of tokens"},
        {"{\"add_bos_token\": true}", NULL, NULL, NULL, "tokenizer_config.json: add_bos_token is set"},
        {"{\"add_prefix_space\": true}", NULL, NULL, NULL, "add_prefix_space is set"},
        {"{\"tokenizer_class\": \"Qwen2Tokenizer\"}", NULL, NULL, NULL, "tokenizer_class is 'Qwen2Tokenizer'"},
    };
    static const char *const names[] = {"pair/tokenizer_config.json", "pair/special_tokens_map.json",
                                        "pair/added_tokens.json"};
    const char *folder = temp_path("pair");
    SM_FREED char *json = make_json(AB ", \"<|endoftext|>\": 257", "", "", "");
    char *vocab = strstr(json, "\"vocab\": ") + strlen("\"vocab\": ");
    *strstr(vocab, ", \"merges\"") = '\0';
    temp_put_text("pair/vocab.json", vocab);
    temp_put_text("pair/merges.txt", "#version: 0.2\na b\n");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *const texts[] = {cases[i].config, cases[i].map, cases[i].added};
        sm_tokenizer *t;
        const char *label = textf("case %zu", i);
        for (int k = 0; k < 3; k++) {
            (void)unlink(temp_path(names[k]));
            if (texts[k] != NULL) {
                temp_put_text(names[k], texts[k]);
            }
        }
        if (cases[i].refused != NULL) {
            const sm_status status = sm_tokenizer_read(folder, &t);
            expect_failure(label, status, status != SM_OK ? status : SM_ERR_FORMAT, cases[i].refused);
        } else {
            expect_text_ids(label, folder, text, cases[i].ids);
        }
    }
    sm_tokenizer *t;
    SM_FREED char *whole = make_json(AB ", \"<|endoftext|>\": 257", "\"a b\"", "", "");
    temp_put_text("pair/tokenizer.json", whole);
    expect_failure("both", sm_tokenizer_read(folder, &t), SM_ERR_UNSUPPORTED, "tokenizer_class is 'Qwen2Tokenizer'");
    assert_int_equal(unlink(temp_path(names[0])), 0);
    expect_text_ids("whole", folder, text, cases[0].ids); // <|endoftext|> is one, though nothing lists it
}

TEST(what_is_no_tokenizer_is_refused) {
#define BYTE_LEVEL "{\"pre_tokenizer\": {\"type\": \"ByteLevel\""
#define A_MODEL    ", \"model\": {\"vocab\": {\"a\": 0}, \"merges\": []}}"
    static const struct {
        const char *text;
        sm_status status;
        const char *message;
    } cases[] = {
        {BYTE_LEVEL "}, \"added_tokens\": {\"<x>\": 1}" A_MODEL, SM_ERR_FORMAT, "added_tokens is no list of tokens"},
        {"", SM_ERR_FORMAT, "not JSON"},
        {"[]", SM_ERR_FORMAT, "not a JSON object"},
        {"{}", SM_ERR_FORMAT, "'model'"},
        {"{\"model\": {\"type\": \"WordPiece\", \"vocab\": {}}}", SM_ERR_UNSUPPORTED, "WordPiece"},
        {"{\"pre_tokenizer\": {\"type\": \"Metaspace\"}" A_MODEL, SM_ERR_UNSUPPORTED, "pre_tokenizer"},
        {BYTE_LEVEL ", \"use_regex\": 0}" A_MODEL, SM_ERR_UNSUPPORTED, "pre_tokenizer"},
        {BYTE_LEVEL "}" A_MODEL, SM_ERR_UNSUPPORTED, "0x00|not a byte-level vocabulary"},
    };
    sm_tokenizer *t;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        expect_failure(cases[i].text, sm_tokenizer_read(temp_put_text("other.json", cases[i].text), &t),
                       cases[i].status, cases[i].message);
    }
    expect_failure("empty folder", sm_tokenizer_read("/proc/self/task", &t), SM_ERR_IO, "holds no tokenizer.json");
    expect_failure("nothing", sm_tokenizer_read("/nowhere", &t), SM_ERR_IO, "/nowhere");
}
