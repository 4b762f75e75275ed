// The course: every command and every number in its lessons.
#include "tests/support/test.h"

TEST(lessons_print_what_they_say) { shell("/usr/bin/python3 tools/tests/course.py " SM_TEST_BINARY); }
