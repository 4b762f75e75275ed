// overview.c: --help of the whole program, its greeting, and its build's facts.
#include "backend.h"
#include "bench/rows/machine.h"
#include "cli/front/front.h"

void cli_front_help(FILE *stream) {
    fprintf(stream, "stepmark %s.\n\nusage: stepmark SUBCOMMAND [flags]\n\n", CLI_PURPOSE_TEXT);
    for (int i = 0; i < CLI_COMMAND_COUNT; i++) {
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
    fputs("stepmark measures the training step of GPT-2, Llama and Qwen 3. Try:\n"
          "\n"
          "  stepmark devices    list the devices that can run here\n"
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
