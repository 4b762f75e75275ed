// test_questions.c: files of questions with a choice of endings: what is read, and what is refused with its line.
#include "tests/support/temp_folder.h"
#include "src/text/questions.h"

#define QUESTION(label) "{\"ctx\": \"a\", \"endings\": [\"b\", \"c\", \"d\"], \"label\": " label "}"

static sm_questions *open_questions(const char *text) {
    sm_questions *questions = NULL;
    expect_ok("open", sm_questions_open(temp_put_text("q.jsonl", text), &questions));
    return questions;
}

TEST(only_whole_numbers_in_range_are_labels) {
    static const struct {
        const char *text;
        int label; // -1: refused
    } cases[] = {
        {QUESTION("0"), 0},           {QUESTION("2"), 2},
        {QUESTION("\"1\""), 1},       {QUESTION("\"02\""), 2},
        {QUESTION("-0"), 0},          {QUESTION("1, \"score\": NaN, \"n\": 99999999999999999999"), 1},
        {QUESTION("3"), -1},          {QUESTION("-1"), -1},
        {QUESTION("\"\""), -1},       {QUESTION("null"), -1},
        {QUESTION("1.0"), -1},        {QUESTION("1.5"), -1},
        {QUESTION("\"x\""), -1},      {QUESTION("true"), -1},
        {QUESTION("false"), -1},      {QUESTION("\"1 \""), -1},
        {QUESTION("\"-0\""), -1},     {QUESTION("\"+1\""), -1},
        {QUESTION("\"1.0\""), -1},    {QUESTION("[1]"), -1},
        {QUESTION("{}"), -1},         {QUESTION("\"3\""), -1},
        {QUESTION("1e0"), -1},        {QUESTION("\"18446744073709551617\""), -1},
        {QUESTION("NaN"), -1},        {QUESTION("1e999"), -1},
        {QUESTION("4294967296"), -1}, {QUESTION("-18446744073709551615"), -1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        SM_OWN(sm_questions) *questions = open_questions(cases[i].text);
        const sm_question *question;
        const sm_status status = sm_questions_next(questions, &question);
        if (cases[i].label < 0) {
            expect_failure(cases[i].text, status, SM_ERR_FORMAT, "q.jsonl: line 1: ");
        } else {
            expect_ok(cases[i].text, status);
            assert_int_equal(question->label, cases[i].label);
            assert_string_equal(question->endings[2], "d");
        }
    }
}

TEST(blank_lines_and_a_mark_are_passed_over) {
    static const char text[] = "\xef\xbb\xbf\n \t\r\n" QUESTION("1") "\r\n\n" QUESTION("2") "\n\n  " QUESTION("0");
    static const size_t lines[] = {3, 5, 7};
    static const size_t labels[] = {1, 2, 0};
    SM_OWN(sm_questions) *questions = open_questions(text);
    const sm_question *question;
    for (size_t i = 0; i < 3; i++) {
        expect_ok("next", sm_questions_next(questions, &question));
        assert_int_equal(question->line, lines[i]);
        assert_int_equal(question->label, labels[i]);
    }
    expect_ok("end", sm_questions_next(questions, &question));
    assert_null(question);
}

TEST(what_is_no_question_is_refused_by_its_line) {
    static const char *const cases[] = {"{",
                                        "x",
                                        "[]",
                                        "{\"ctx\": \"a\", \"endings\": [\"b\", \"c\"]}",
                                        "{\"ctx\": 1, \"endings\": [\"b\", \"c\"], \"label\": 0}",
                                        "{\"ctx\": \"a\", \"endings\": [\"b\"], \"label\": 0}",
                                        "{\"ctx\": \"a\", \"endings\": [\"b\", 1], \"label\": 0}",
                                        "{\"ctx\": \"a\", \"endings\": \"bc\", \"label\": 0}",
                                        "{\"ctx\": \"a\\u0000\", \"endings\": [\"b\", \"c\"], \"label\": 0}",
                                        QUESTION("0") QUESTION("1"),
                                        "[" QUESTION("0") "]",
                                        "\xef\xbb\xbf" QUESTION("0")};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const sm_question *question;
        const char *text = textf(QUESTION("1") "\n\n%s\n", cases[i]);
        SM_OWN(sm_questions) *questions = open_questions(text);
        expect_ok("first", sm_questions_next(questions, &question));
        expect_failure(text, sm_questions_next(questions, &question), SM_ERR_FORMAT, "q.jsonl: line 3: no {|label");
        assert_null(question);
    }
}
