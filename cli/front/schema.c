// schema.c: the JSON Schema of what subcommands print, on stdout.
#include <stdio.h>
#include <string.h>

#include "bench/compare/advice.h"
#include "bench/compare/again.h"
#include "bench/compare/compare.h"
#include "bench/compare/leaderboard.h"
#include "bench/compare/recommend.h"
#include "bench/profile/profile.h"
#include "bench/rows/row_json_schema.h"
#include "bench/runs/run_check.h"
#include "bench/runs/scaling.h"
#include "bench/tables/json_schema.h"
#include "cli/flags/commands.h"
#include "cli/flags/tables.h"

// Subcommands whose records are not rows.
static const struct {
    cli_command command;
    const sm_table *table;
} tables[] = {
    {CLI_ABLATE, &cli_ablate_table},      {CLI_ADVISE, &sm_advice_table},      {CLI_AGAIN, &sm_again_table},
    {CLI_CHECK_RUN, &sm_run_check_table}, {CLI_COMPARE, &sm_compare_table},    {CLI_DEVICES, &cli_devices_table},
    {CLI_ESTIMATE, &cli_estimate_table},  {CLI_EXERCISE, &cli_exercise_table}, {CLI_LEADERBOARD, &sm_leaderboard_table},
    {CLI_LADDER, &cli_ladder_table},      {CLI_PEAKS, &cli_peaks_table},       {CLI_PROFILE, &sm_profile_table},
    {CLI_RECOMMEND, &sm_recommend_table}, {CLI_SCALING, &sm_scaling_table},    {CLI_VERIFY, &cli_verify_table},
    {CLI_WALK, &cli_walk_table},
};

static sm_status no_schema(const char *name) {
    char known[512] = "run, sweep, loop";
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
        const size_t used = strlen(known);
        snprintf(known + used, sizeof(known) - used, ", %s", cli_command_name(tables[i].command));
    }
    return sm_fail(SM_ERR_USAGE, "schema: no records of '%s'; there are those of %s", name, known);
}

static sm_status schema_of(const char *name, json_t **schema) {
    char title[128];
    const cli_command command = cli_command_find(name);
    if (command == CLI_COMMAND_COUNT) {
        return no_schema(name);
    }
    if (command == CLI_RUN || command == CLI_SWEEP || command == CLI_LOOP) {
        *schema = sm_row_json_schema();
        return SM_OK;
    }
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
        if (tables[i].command == command) {
            snprintf(title, sizeof(title), "record of stepmark %s", name);
            *schema = sm_table_json_schema(tables[i].table, title, cli_command_purpose(command));
            return SM_OK;
        }
    }
    return no_schema(name);
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
