// questions.h: questions with a choice of endings, one a line, in HellaSwag's form:
// {"ctx": ..., "endings": [...], "label": N}, N being the number of the right ending, or its digits as a text.
// Blank lines and a byte order mark are passed over.
#pragma once

#include "status.h"

enum { SM_MOST_ENDINGS = 16 };

typedef struct {
    size_t line;
    const char *ctx;
    const char *endings[SM_MOST_ENDINGS];
    size_t n_endings; // at least 2
    size_t label;     // below n_endings
} sm_question;

typedef struct sm_questions sm_questions;

sm_status sm_questions_open(const char *path, sm_questions **questions);
void sm_questions_close(sm_questions *questions); // NULL is fine
SM_OWNABLE(sm_questions, sm_questions_close)

// The next question, valid until the next call; NULL: there are no more. SM_ERR_FORMAT names the line and its fault.
sm_status sm_questions_next(sm_questions *questions, const sm_question **question);
