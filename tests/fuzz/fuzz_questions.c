// fuzz_questions.c: a file of questions with a choice of endings.
#include "harness_support.h"
#include "src/text/questions.h"

void fuzz_one(const uint8_t *data, size_t size_bytes) {
    SM_OWN(sm_questions) *questions = NULL;
    const sm_question *question;
    size_t line = 0;
    if (sm_questions_open(fuzz_file(data, size_bytes), &questions) != SM_OK) {
        return;
    }
    while (sm_questions_next(questions, &question) == SM_OK && question != NULL) {
        fuzz_expect(question->line > line, "lines in order");
        fuzz_expect(question->n_endings >= 2 && question->n_endings <= SM_MOST_ENDINGS, "a choice");
        fuzz_expect(question->label < question->n_endings && question->ctx != NULL, "a right ending");
        for (size_t i = 0; i < question->n_endings; i++) {
            fuzz_expect(question->endings[i] != NULL, "texts");
        }
        line = question->line;
    }
}
