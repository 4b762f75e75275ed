// read_rows.h: result files that this program, an older one of it, or another program wrote.
//
// A file holds JSON objects, one row each: a JSON array (-o json), a line each (-o jsonl), or one after the other.
//   unknown fields    stay in the row
//   an older version  is read; figures that follow from its samples are filled in
//   a newer version   is read, with a warning
//   damaged text      is set aside with a warning that names the place
//   a contradiction   makes a row an error without figures, with a warning (sm_row_contradicts)
//   other objects     are skipped with a warning that says why (sm_row_recognise)
//   a block           is found in any text, of which nothing else is read; its rows have the field `block`, the number
//                     of its first line. One that cannot be read becomes an error
// A file without a single row is an error. The time to read a file depends only on its size.
//
// Rows come from outside: callers may not assume a field's type. The readers below do not.
#pragma once

#include "bench/rows/row.h"
#include "bench/tables/show.h"

#include <signal.h>

typedef struct {
    json_t *rows;     // array of objects, in the order of reading
    json_t *warnings; // array of texts
    json_t *rungs;    // rungs of `stepmark ladder`, likewise; NULL, as at first: they are not read
    const volatile sig_atomic_t *interrupted; // tested while reading; NULL is fine
} sm_rows;

sm_rows sm_rows_new(void); // all empty; nothing interrupts
void sm_rows_free(sm_rows *rows);

// Appends the rows of a file or pipe. A failure has the path, and leaves `rows` unchanged.
sm_status sm_rows_read(const char *path, sm_rows *rows);

// The same for text in memory; messages show `name` as the path.
sm_status sm_rows_parse(const char *name, const char *text, size_t size_bytes, sm_rows *rows);

// A text field; "" if it is null, absent or not a text.
const char *sm_rows_text(const json_t *row, const char *name);
bool sm_rows_has(const json_t *row, const char *name); // another than ""
bool sm_rows_is(const json_t *row, const char *name, const char *text);

// The value of a flag in a row's run_args, by its name without dashes: "" of a switch; NULL: not given.
const char *sm_rows_flag(const json_t *args, const char *name);

// "own code" if a user's kernels or backend ran (own_kernels): such rows are ranked separately; otherwise "".
const char *sm_rows_own_code(const json_t *row);

// Whether its number format loses nothing but the last digits: fp32, or what is as exact.
bool sm_rows_is_exact(const json_t *row);

// The model's name for readers: "small", or "llama small" if the architecture is not the default.
const char *sm_rows_model(const json_t *row, char *text, size_t size_bytes);
#define SM_ROWS_MODEL(row) sm_rows_model((row), (char[160]){""}, 160)

// The name of the card or processor, without trademarks and clock: "Intel Xeon Platinum 8581C".
const char *sm_rows_chip(const json_t *row, char *text, size_t size_bytes);
#define SM_ROWS_CHIP(row) sm_rows_chip((row), (char[128]){""}, 128)

// The limit that a step is nearest to: "bound by arithmetic: 62% of its measured peak"; "" where no peak was measured.
const char *sm_rows_bound(const json_t *row, char *text, size_t size_bytes);
#define SM_ROWS_BOUND(row) sm_rows_bound((row), (char[256]){""}, 256)

// The row's architecture if it is not the default; otherwise "".
const char *sm_rows_other_arch(const json_t *row);
const char *sm_rows_other_optimizer(const json_t *row);

// "ok" if the row has figures but no status.
const char *sm_rows_status(const json_t *row);

// The positive, finite numbers of an array field, in order; *n counts them. The caller frees them.
double *sm_rows_samples(const json_t *row, const char *name, size_t *n);

// --- what a row may hold -------------------------------------------------------------------------

// A result row (row_fields.h) as JSON Schema, draft 2020-12: any field may be null. Other fields are allowed. Free it.
json_t *sm_row_json_schema(void);

bool sm_row_is_status(const json_t *value); // ok, oom, timeout, skipped or error

// Whether this object is a readable row: it has a schema_version or a time, a known status (optional if it has a time),
// and no value of a wrong type. SM_ERR_FORMAT names what is missing.
sm_status sm_row_recognise(const json_t *object);

enum { SM_CONTRADICTION_SIZE = 256 };

// Whether a row contradicts itself or the world (consistent.c); `text` says where: "median_ts is 1.6e+06, where its
// other fields give 16612". Figures that follow from other fields are computed again: statistics and rates from
// samples, shares from work and peaks, sums from parts, marks from flags. Errors are compared with their allowances,
// dates with the calendar, shares with the measured ceiling. Missing fields contradict nothing.
bool sm_row_contradicts(const json_t *row, char text[SM_CONTRADICTION_SIZE]);

// Takes a JSON row's figures of speed away, as sm_row_clear_speed, and gives it a status that is not ok.
void sm_row_withdraw(json_t *row, const char *status, const char *reason);

// Makes an error without figures of a row that contradicts itself, as every reader does. `text` as above, or "".
void sm_row_hold_to_itself(json_t *row, char text[SM_CONTRADICTION_SIZE]);

// --- blocks --------------------------------------------------------------------------------------

// Rows as a short text that people paste into a forum, an issue or a mail: a line for people for each row, and
// below them the facts that a reader may know, compressed, with a digest. Each line is indented by four spaces, which
// Markdown shows as it is.
//
//   stepmark-124M-v1  AMD EPYC, 2 cores      262 tok/s ± 0.6% fp32  84% peak verified
//   [stepmark block 1, fnv1a64:0123456789abcdef]
//   eNrtV01v4zYQ...
//   [end of stepmark block]
//
// The facts are chosen by a list (block.c): no name of a host or user, and no path, leaves the machine. A reader finds
// blocks in any text: quoted by "> ", in a saved page, between other lines. The digest detects damage and edits by
// hand; it is no signature.

enum { SM_BLOCK_MOST_BYTES = 2500, SM_BLOCK_LINE_SIZE = 256, SM_BLOCK_WHY_SIZE = 256 };

// The device that ran, in at most `width` characters: "AMD EPYC, 2 cores", "EPYC 9654 x96", "H100 80GB HBM3".
void sm_block_machine(const json_t *row, int width, char *name, size_t size_bytes);

// A row as a line of 80 columns; its fields `score` and `busy` (others had the processors, too) are first and last.
void sm_block_line(const json_t *row, char line[SM_BLOCK_LINE_SIZE]);

// The rows as a text of at most SM_BLOCK_MOST_BYTES, without the last ones if they do not fit; *n_rows is the number of
// those that do. The caller frees the text.
char *sm_block_make(const json_t *rows, size_t *n_rows);

// The next block from byte *at of a text on, which moves past it; false: there is none. *begin is where it begins.
// *rows: its rows, a new array, or NULL: it is damaged, and `why` says how. `why` is also set for the rows of a block
// whose lines for people say something else.
bool sm_block_next(const char *text, size_t size_bytes, size_t *at, size_t *begin, json_t **rows,
                   char why[SM_BLOCK_WHY_SIZE]);

// --- bundles -------------------------------------------------------------------------------------

// Rows of one machine in one file, to be given to others: a header line with the digest of all that follows,
// a line with the facts of the machine and the build that wrote it, then a row a line. A file in which a single byte
// was changed since is refused.
//
//   {"stepmark_bundle": 1, "bytes": 123456, "digest": "fnv1a64:..."}
//   {"machine": {...}, "created": "2026-11-22T10:00:00Z", "program": "0.1.0"}
//   {"schema_version": 1, ...}
//
// The digest detects damage and edits by hand; it is no signature.

// The text of a bundle; the caller frees it. `machine` is what sm_machine_facts() gives.
void sm_bundle_make(const json_t *rows, const json_t *machine, char **text, size_t *size_bytes);

// Whether a text begins as a bundle does; and where the lines of its rows begin. SM_ERR_FORMAT, with the path, where it
// is none, or was changed.
bool sm_bundle_is_one(const char *text, size_t size_bytes);
sm_status sm_bundle_rows(const char *path, const char *text, size_t size_bytes, const char **rows);

// The rows of a bundle that is whole, a new array. SM_ERR_FORMAT, with the path, where it is none, or was changed.
sm_status sm_bundle_read(const char *path, json_t **rows);

// The rows of the bundles of bench/results/, which are built into the program: a new array, read by the same checks
// (and whole: a test reads them).
json_t *sm_bundle_references(void);

// The rows of published.bundle there: figures that others published, each with its `source`; nobody here checked them.
json_t *sm_bundle_published(void);

// --- the file of a run ------------------------------------------------------------------------------

// The file of a run's rows: a JSON object a line, appended in one write and made durable before the next configuration
// starts. However the run ends, the file has every finished row.

typedef struct sm_sweep_log sm_sweep_log;

// Opens `path`, creates it if missing, and locks it against a second run. An incomplete last line is moved to
// "PATH.damaged"; sm_sweep_log_rows(log)->warnings reports this and other anomalies.
// `only_reads`: the file, if it exists, without making, locking or moving anything; nothing may then be appended.
sm_status sm_sweep_log_open(const char *path, bool only_reads, sm_sweep_log **log);
void sm_sweep_log_close(sm_sweep_log *log); // NULL is fine
SM_OWNABLE(sm_sweep_log, sm_sweep_log_close)

// The row with this sweep_key; NULL if there is none. Borrowed.
json_t *sm_sweep_log_find(const sm_sweep_log *log, const char *key);

// Appends a row with a new sweep_key. After a failure (a full disk) the file is unchanged.
sm_status sm_sweep_log_append(sm_sweep_log *log, json_t *row);

const sm_rows *sm_sweep_log_rows(const sm_sweep_log *log);
