// cli_front.c: --help of the program as a whole, and its first words.
#include "cli_front.h"

void cli_front_help(FILE *stream) {
    fprintf(stream, "stepmark %s.\n\nusage: stepmark SUBCOMMAND [flags]\n\n", CLI_PURPOSE_TEXT);
    for (int i = 0; i < CLI_COMMAND_COUNT; i++) {
        fprintf(stream, "  %-10s %s\n", cli_command_name((cli_command)i), cli_command_purpose((cli_command)i));
    }
    fputs("\n", stream);
#define X(name, argument, help) \
    fprintf(stream, "  %s%s%s\n             %s\n", name, argument[0] != '\0' ? " " : "", argument, help);
    CLI_FRONT_LIST(X)
#undef X
    fputs("\nExamples\n"
          "  stepmark run              measure GPT-2 124M on every device, about a minute\n"
          "  stepmark walk --values    follow a tiny model's step with its numbers\n"
          "\nExit codes: " CLI_EXIT_TEXT ".\n",
          stream);
}

void cli_front_hello(FILE *stream) {
    fputs("stepmark measures the training step of GPT-2 and Llama on this machine. Try:\n\n"
          "  stepmark devices    what can run here\n"
          "  stepmark run        how fast it is, on each device: about a minute\n"
          "  stepmark profile    where the time goes, op by op\n"
          "\n`stepmark --help` lists the rest.\n",
          stream);
}
