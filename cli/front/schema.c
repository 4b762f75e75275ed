// schema.c: the JSON Schema of the subcommands' records, on stdout.
#include <stdio.h>
#include <string.h>

#include "bench/rows/row_json_schema.h"
#include "bench/tables/json_schema.h"
#include "cli/flags/options.h"

static sm_status no_schema(const char *name) {
    char known[512] = "";
    for (int i = 0; i < CLI_COMMAND_COUNT; i++) {
        const size_t used = strlen(known);
        if (cli_commands[i].table->n_columns > 0) {
            snprintf(known + used, sizeof(known) - used, "%s%s", used > 0 ? ", " : "", cli_commands[i].name);
        }
    }
    return sm_fail(SM_ERR_USAGE, "schema: no records of '%s'; there are those of %s", name, known);
}

static sm_status schema_of(const char *name, json_t **schema) {
    char title[128];
    const cli_command command = cli_command_find(name);
    const sm_table *table = command < CLI_COMMAND_COUNT ? cli_commands[command].table : &cli_no_table;
    if (table->n_columns == 0) {
        return no_schema(name);
    }
    snprintf(title, sizeof(title), "record of stepmark %s", name);
    *schema = table == &sm_row_table ? sm_row_json_schema()
                                     : sm_table_json_schema(table, title, cli_commands[command].purpose);
    return SM_OK;
}

sm_status cli_schema(const cli_options *options) {
    json_t *schema = NULL;
    if (options->n_operands > 1) {
        return sm_fail(SM_ERR_USAGE, "schema: give one subcommand");
    }
    SM_TRY(schema_of(options->n_operands > 0 ? options->operands[0] : "run", &schema));
    if (schema == NULL) {
        return sm_fail(SM_ERR_OOM, "no memory for the schema");
    }
    bool written = json_dumpf(schema, stdout, JSON_INDENT(2)) == 0;
    json_decref(schema);
    putchar('\n');
    return written ? SM_OK : sm_fail(SM_ERR_IO, "stdout: could not be written");
}
