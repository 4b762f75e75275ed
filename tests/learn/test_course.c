// The course: every command and every number in its lessons.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

static void lessons_print_what_they_say(void **state) {
    (void)state;
    assert_int_equal(system("/usr/bin/python3 tools/test_course.py " SM_TEST_BINARY), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(lessons_print_what_they_say)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
