// rows_foreign.h: recognises files without result rows, for a better message.
#ifndef STEPMARK_ROWS_FOREIGN_H
#define STEPMARK_ROWS_FOREIGN_H

#include <jansson.h>
#include <stddef.h>

// "a training log (stepmark train --log)", "rows as CSV (-o csv)", ...; "" if unknown. `first_object`: the first JSON
// object in it, or NULL.
void sm_foreign_text(const char *file_text, size_t file_bytes, const json_t *first_object, char *text,
                     size_t size_bytes);

#endif
