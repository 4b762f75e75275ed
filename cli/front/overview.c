// overview.c: --help of the whole program, its greeting, and its build's facts.
#include <string.h>

#include "backend.h"
#include "bench/rows/machine.h"
#include "cli/front/front.h"
#include "src/models/model.h"

const char *cli_models_text(void) {
    static char text[256];
    const int n = sm_model_count();
    text[0] = '\0';
    for (int i = 0; i < n; i++) {
        const size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%s%s",
                 i == 0      ? ""
                 : i + 1 < n ? ", "
                             : " and ",
                 sm_model_at(i)->title);
    }
    return text;
}

void cli_front_help(FILE *stream) {
    fprintf(stream, "stepmark " CLI_PURPOSE_TEXT ".\n\nusage: stepmark SUBCOMMAND [flags]\n\n", cli_models_text());
    for (int i = 0; i < CLI_COMMAND_COUNT; i++) {
        if (cli_command_is_form((cli_command)i)) {
            continue;
        }
        if (cli_commands[i].heading != NULL) {
            fprintf(stream, "%s%s\n", i > 0 ? "\n" : "", cli_commands[i].heading);
        }
        fprintf(stream, "  %-12s %s\n", cli_commands[i].name, cli_commands[i].purpose);
    }
    fputs("\nIn place of a subcommand\n", stream);
#define X(name, argument, help) \
    fprintf(stream, "  %s%s%s\n               %s\n", name, argument[0] != '\0' ? " " : "", argument, help);
    CLI_FRONT_LIST(X)
#undef X
    fputs("\nExamples\n"
          "  stepmark run              measure GPT-2 124M on every device, about a minute\n"
          "  stepmark walk --values    follow a tiny model's step with its numbers\n",
          stream);
    char codes[CLI_HELP_SIZE];
    cli_exit_text(CLI_COMMAND_COUNT, codes);
    fprintf(stream, "\nExit codes: %s\n", codes);
}

void cli_front_hello(FILE *stream) {
    fprintf(stream, "stepmark measures the training step of %s. Try:\n\n", cli_models_text());
    fputs("  stepmark devices    list the devices that can run here\n"
          "  stepmark run        measure the speed of each device: about a minute\n"
          "  stepmark profile    show where the time goes, op by op\n"
          "\n"
          "`stepmark --help` lists the rest.\n",
          stream);
}

static const char *yes_no(bool is_so) { return is_so ? "yes" : "no"; }

void cli_version_print(FILE *stream) {
    fprintf(stream, "stepmark %s\n", sm_build_version());
    fprintf(stream, "commit: %s, of %s%s\n", sm_build_commit(), sm_build_date(),
            sm_build_is_dirty() ? ", with changes" : "");
    fprintf(stream, "compiler: %s\n", sm_build_compiler());
    fprintf(stream, "flags: %s\n", sm_build_flags());
    fprintf(stream, "instruction sets: %s\n", sm_build_isas());
    fprintf(stream, "backends:");
    for (int i = 0; i < sm_backend_count(); i++) {
        fprintf(stream, " %s", sm_backend_at(i)->name);
    }
    fprintf(stream, "\nOpenCL: %s\nMPI: %s\n", yes_no(sm_build_has_opencl()), yes_no(sm_build_has_mpi()));
}
