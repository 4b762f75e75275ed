// test_pattern.c: patterns of --filter.
#include "tests/support/test.h"

#include "src/io/pattern.h"

TEST(patterns_match_anywhere) {
    static const struct {
        const char *pattern, *subject;
        bool matches;
    } cases[] = {
        {"gelu", "gelu_forward N=3", true},       {"^gelu_forward ", "gelu_forward N=3", true},
        {"^elu", "gelu_forward N=3", false},      {"^(bias|gelu)_forward", "gelu_forward N=3", true},
        {"N=3( |$)", "gelu_forward N=33", false}, {"N=3( |$)", "gelu_forward N=3", true},
        {"", "gelu_forward N=3", true},           {"[^abfm]$", "step", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        SM_OWN(sm_pattern) *pattern = NULL;
        assert_int_equal(sm_pattern_new(cases[i].pattern, &pattern), SM_OK);
        assert_int_equal(sm_pattern_matches(pattern, cases[i].subject), cases[i].matches);
    }
}

TEST(wrong_patterns_are_refused) {
    sm_pattern *pattern;
    assert_int_equal(sm_pattern_new("a(b", &pattern), SM_ERR_USAGE);
    assert_non_null(strstr(sm_error_message(), "'a(b'"));
    assert_non_null(strstr(sm_error_message(), "at character 3"));
}
