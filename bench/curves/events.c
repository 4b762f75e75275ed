// events.c: a training as TensorBoard's event file. A record is its length, a checksum of that, the bytes, a checksum
// of them; the bytes are a protocol buffer:
//
//     Event   {double wall_time = 1; int64 step = 2; string file_version = 3; Summary summary = 5}
//     Summary {repeated Value value = 1}
//     Value   {string tag = 1; float simple_value = 2}
#include <math.h>
#include <string.h>
#include <time.h>

#include "bench/curves/curves.h"
#include "bench/tables/json_values.h"

// --- bytes -------------------------------------------------------------------------------------

enum { MESSAGE_BYTES = 512 };

typedef struct {
    uint8_t bytes[MESSAGE_BYTES];
    size_t n;
} message;

static void put_byte(message *m, uint64_t byte) {
    if (m->n < MESSAGE_BYTES) {
        m->bytes[m->n++] = (uint8_t)byte;
    }
}

static void put_varint(message *m, uint64_t value) {
    for (; value >= 0x80; value >>= 7) {
        put_byte(m, value | 0x80);
    }
    put_byte(m, value);
}

static void put_fixed(message *m, uint64_t value, int n_bytes) {
    for (int i = 0; i < n_bytes; i++) {
        put_byte(m, value >> 8 * i);
    }
}

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

static void put_key(message *m, unsigned field, unsigned kind) { put_varint(m, field << 3 | kind); }

static void put_double(message *m, unsigned field, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_key(m, field, FIXED64);
    put_fixed(m, bits, 8);
}

static void put_bytes(message *m, unsigned field, const void *bytes, size_t n) {
    put_key(m, field, BYTES);
    put_varint(m, n);
    for (size_t i = 0; i < n; i++) {
        put_byte(m, ((const uint8_t *)bytes)[i]);
    }
}

// --- records -----------------------------------------------------------------------------------

// CRC-32C (Castagnoli), rotated and offset as in TFRecord.
static uint32_t masked_crc(const uint8_t *bytes, size_t n) {
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < n; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++) {
            crc = crc >> 1 ^ (0x82f63b78U & (0U - (crc & 1)));
        }
    }
    crc = ~crc;
    return (crc >> 15 | crc << 17) + 0xa282ead8U;
}

static void write_record(const message *m, FILE *out) {
    message length = {.n = 0};
    message sums[2] = {{.n = 0}, {.n = 0}};
    put_fixed(&length, m->n, 8);
    put_fixed(&sums[0], masked_crc(length.bytes, length.n), 4);
    put_fixed(&sums[1], masked_crc(m->bytes, m->n), 4);
    fwrite(length.bytes, 1, length.n, out);
    fwrite(sums[0].bytes, 1, sums[0].n, out);
    fwrite(m->bytes, 1, m->n, out);
    fwrite(sums[1].bytes, 1, sums[1].n, out);
}

static void add_value(message *summary, const char *tag, double value) {
    message one = {.n = 0};
    if (isfinite(value)) {
        const float narrow = (float)value;
        uint32_t bits;
        memcpy(&bits, &narrow, sizeof bits);
        put_bytes(&one, 1, tag, strlen(tag));
        put_key(&one, 2, FIXED32);
        put_fixed(&one, bits, 4);
        put_bytes(summary, 1, one.bytes, one.n);
    }
}

// --- the training ------------------------------------------------------------------------------

// When the run began; 0: unknown.
static double began(const sm_curve *c) {
    const char *text =
        json_string_value(json_object_get(json_array_get(json_object_get(c->run, "starts"), 0), "time_utc"));
    struct tm t = {.tm_year = 70, .tm_mday = 1};
    if (text != NULL &&
        sscanf(text, "%d-%d-%dT%d:%d:%d", &t.tm_year, &t.tm_mon, &t.tm_mday, &t.tm_hour, &t.tm_min, &t.tm_sec) == 6) {
        t.tm_year -= 1900;
        t.tm_mon -= 1;
        return (double)timegm(&t);
    }
    return 0;
}

sm_status sm_curve_events(const sm_curve *c, FILE *out) {
    static const char version[] = "brain.Event:2";
    const double begin_s = began(c);
    message first = {.n = 0};
    size_t next = 0;
    put_double(&first, 1, begin_s);
    put_bytes(&first, 3, version, sizeof version - 1);
    write_record(&first, out);
    for (size_t i = 0; i < c->log.n_steps; i++) {
        const sm_logged_step *s = &c->log.steps[i];
        message summary = {.n = 0};
        add_value(&summary, "train/loss", s->loss);
        add_value(&summary, "train/grad_norm", s->grad_norm);
        add_value(&summary, "train/lr", s->lr);
        add_value(&summary, "train/tokens_per_second", (double)s->tokens / s->time_s);
        for (; next < c->log.n_validations && c->log.validations[next].step <= s->step; next++) {
            add_value(&summary, "validation/loss", c->log.validations[next].loss);
        }
        message event = {.n = 0};
        put_double(&event, 1, begin_s + c->time_s[i]);
        put_key(&event, 2, VARINT);
        put_varint(&event, (uint64_t)s->step);
        put_bytes(&event, 5, summary.bytes, summary.n);
        write_record(&event, out);
    }
    return ferror(out) == 0 ? SM_OK : sm_fail(SM_ERR_IO, "cannot write events");
}
