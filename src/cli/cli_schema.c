// cli_schema.c: the JSON Schema of a result row, on stdout.
#include <stdio.h>

#include "cli_commands.h"
#include "row_json_schema.h"

sm_status cli_schema(const cli_options *options) {
    (void)options;
    json_t *schema = sm_row_json_schema();
    if (schema == NULL) {
        return sm_fail(SM_ERR_OOM, "no memory for the schema");
    }
    bool written = json_dumpf(schema, stdout, JSON_INDENT(2)) == 0;
    json_decref(schema);
    putchar('\n');
    return written ? SM_OK : sm_fail(SM_ERR_IO, "stdout: could not be written");
}
