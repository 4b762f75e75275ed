// Matrix units of AMD and Intel: which a device has, that two products are right, and that a unit which ends the
// process that tries it is not used. The device is PoCL's, and says that it is such a card (tools/vendors/emulated.sh);
// `make check-emulated` runs all products on it.
#include "tests/support/temp_folder.h"

static char said[1 << 16];

// The exit code that the program gives as the card's: 0 where it could run.
static int run(const char *environment, const char *card, const char *words) {
    FILE *pipe = popen(textf("%s STEPMARK_EMULATED_CACHE=%s/cache tools/vendors/emulated.sh %s %s %s 2>&1", environment,
                             temp_folder, card, SM_TEST_BINARY, words),
                       "r");
    assert_non_null(pipe);
    said[fread(said, 1, sizeof said - 1, pipe)] = '\0';
    return pclose(pipe);
}

static void expect(const char *text) { FAIL_IF(strstr(said, text) == NULL, "no '%s' in: %.2000s", text, said); }

static void skip_without_opencl(void) {
    SKIP_IF(system("[ \"$(uname -m)\" = x86_64 ] && [ -e \"$(cc -print-file-name=libOpenCL.so.1)\" ] && ls "
                   "/usr/lib/*/libpocl.so.2 >/dev/null 2>&1") != 0);
}

// Nothing is believed before it was tried, and nothing is tried by `devices` alone.
TEST(test_levels) {
    skip_without_opencl();
    assert_int_equal(run("", "dg2", "devices -o json"), 0);
    expect("no dpas8: not tried yet");
    expect("\"tier\": \"local\"");
    assert_int_equal(run("", "gfx908", "devices -o json"), 0); // has a unit whose instructions are not these
    FAIL_IF(strstr(said, "not tried yet") != NULL, "not tried: %.2000s", said);
}

TEST(test_crash) {
    skip_without_opencl();
    assert_int_equal(run("STEPMARK_CRASH=-DA_TRANSPOSED", "gfx942", "devices --probe -o json"), 0);
    expect("mfma: bf16 products NT, through local memory: right");
    expect("mfma: bf16 products TN, through local memory: the driver or its compiler ended the process");
    expect("no mfma: mfma: bf16 products TN");
}
