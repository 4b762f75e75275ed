// made_row.h: members of result rows as text.
#pragma once

#include <jansson.h>

#include "tests/support/test.h"

// The row with these members instead of its own: JSON with single quotes, "'mode': 'fused', 'n_batch': 4".
static inline json_t *with_members(json_t *row, const char *members) {
    const char *text = textf("{%s}", members);
    for (char *quote = strchr(text, '\''); quote != NULL; quote = strchr(quote, '\'')) {
        *quote = '"';
    }
    json_auto_t *given = json_loads(text, 0, NULL);
    FAIL_IF(given == NULL || json_object_update(row, given) != 0, "no members of a row: %s", members);
    return row;
}
