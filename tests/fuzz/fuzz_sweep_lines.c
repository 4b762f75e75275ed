// fuzz_sweep_lines.c: the file of `run --file`. Device and order are given, so that no device is searched for.

#include "harness_support.h"
#include "cli/sweep/sweep.h"

// A line stands for a product of lists.
const double fuzz_longest_us_per_byte = 0;

void fuzz_one(const uint8_t *data, size_t size_bytes) {
    static cli_options options;
    cli_sweep_plan plan;
    char *words[] = {"run", "--backend=reference", "--order=given", "--file", (char *)fuzz_file(data, size_bytes),
                     NULL};
    fuzz_expect(cli_options_parse(CLI_RUN, false, 5, words, &options) == SM_OK, "a command line");
    if (cli_sweep_plan_make(&options, &plan) == SM_OK) {
        fuzz_expect(plan.n > 0, "a plan has configurations");
        cli_sweep_plan_free(&plan);
    }
}
