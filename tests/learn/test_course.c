// The course: every command and every number in its lessons.
#include "tests/support/test.h"

TEST(lessons_print_what_they_say) {
    assert_int_equal(system("/usr/bin/python3 tools/tests/course.py " SM_TEST_BINARY), 0);
}

int main(void) { return cmocka_run_group_tests(tests, NULL, NULL); }
