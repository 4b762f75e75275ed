// schema.c: --schema: the JSON Schema of a subcommand's records, on stdout.
#include <stdio.h>
#include <string.h>

#include "bench/rows/row_json_schema.h"
#include "bench/tables/json_schema.h"
#include "cli/front/front.h"

sm_status cli_print_schema(cli_command command) {
    char title[128];
    const cli_subcommand *c = &cli_commands[command];
    snprintf(title, sizeof(title), "record of stepmark %s", c->name);
    json_t *schema =
        c->table == &sm_row_table ? sm_row_json_schema() : sm_table_json_schema(c->table, title, c->purpose);
    bool written = json_dumpf(schema, stdout, JSON_INDENT(2)) == 0;
    json_decref(schema);
    putchar('\n');
    return written ? SM_OK : sm_fail(SM_ERR_IO, "stdout: could not be written");
}
