// tuning.h: choices made by measurement, saved from one run to the next.
//
// One file a key, CACHE/stepmark/tuning/HASH. The key is a text of all that a measurement depends on and that does
// not change while the program runs: the device, its driver, the libraries, the number of threads; the build is added
// to it. In the file, a choice has a name (what was chosen for: an operation and its shape) and a value (what was
// chosen). Both are texts of the caller's making; a value that the caller does not know is to be treated as not there.
//
//     tuning = host_tuning_open(key);
//     value = host_tuning_get(tuning, "matmul_forward 512x768x3072");
//     if (value == NULL) { ... measure ...; host_tuning_put(tuning, "matmul_forward 512x768x3072", "depth=768"); }
//     host_tuning_save(tuning);
//     host_tuning_free(tuning);
//
// Nothing that is wrong with the cache is a failure. A broken file, or one of another key, counts as empty; what
// cannot be saved is measured again next time. host_tuning_warning() says so in one line.
#pragma once

#include "status.h"

typedef struct host_tuning host_tuning;

// Reads the choices for the key.
host_tuning *host_tuning_open(const char *key);
void host_tuning_free(host_tuning *tuning); // NULL is fine

// The value chosen for that name; NULL: none yet. Valid until the next put for that name.
const char *host_tuning_get(const host_tuning *tuning, const char *name);

// Sets a choice.
void host_tuning_put(host_tuning *tuning, const char *name, const char *value);

// Writes the file again if there are new choices. Keeps choices that another process has saved meanwhile.
void host_tuning_save(host_tuning *tuning);

// The first problem with the cache so far, one line; "" if none.
const char *host_tuning_warning(const host_tuning *tuning);
