// overview.c: --help of the program as a whole, and its first words.
#include "cli/flags/overview.h"

#include "cli/front/help.h"

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
    fputs("stepmark measures the training step of GPT-2, Llama and Qwen 3. Try:\n\n"
          "  stepmark devices    what can run here\n"
          "  stepmark run        how fast it is, on each device: about a minute\n"
          "  stepmark profile    where the time goes, op by op\n"
          "\n`stepmark --help` lists the rest.\n",
          stream);
}
