// bundle.h: rows of one machine in one file, to be given to others: a header line with the digest of all that follows,
// a line with the facts of the machine and the build that wrote it, then a row a line. Whatever was changed since, be
// it one byte, is refused.
//
//   {"stepmark_bundle": 1, "bytes": 123456, "digest": "fnv1a64:..."}
//   {"machine": {...}, "created": "2026-11-22T10:00:00Z", "program": "0.1.0"}
//   {"schema_version": 1, ...}
//
// The digest detects damage and edits by hand; it is no signature.
#ifndef STEPMARK_BUNDLE_H
#define STEPMARK_BUNDLE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "status.h"

// The text of a bundle; the caller frees it. `machine` is what sm_machine_facts() gives.
void sm_bundle_make(const json_t *rows, const json_t *machine, char **text, size_t *size_bytes);

// Whether a text begins as a bundle does; and where the lines of its rows begin. SM_ERR_FORMAT, with the path, where it is
// none, or was changed.
bool sm_bundle_is_one(const char *text, size_t size_bytes);
sm_status sm_bundle_rows(const char *path, const char *text, size_t size_bytes, const char **rows);

// The rows of a bundle that is whole, a new array. SM_ERR_FORMAT, with the path, where it is none, or was changed.
sm_status sm_bundle_read(const char *path, json_t **rows);

// The rows of the bundles of bench/results/, which are built into the program: a new array, read by the same checks.
sm_status sm_bundle_references(json_t **rows);

// The rows of published.bundle there: figures that others published, each with its `source`; nobody here checked them.
sm_status sm_bundle_published(json_t **rows);

#endif
