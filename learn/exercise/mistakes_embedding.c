// mistakes_embedding.c: common mistakes in the embedding and in its gradient.
#include "learn/exercise/mistakes.h"

#define IN(name) const float *name = sm_mistaken_in(c, #name)

enum { F_NO_POSITION = 1, F_FIRST_SEQUENCE, F_POSITION_0, F_FIRST_TOKEN };

static void embedding_forward(const sm_exercise_case *c, int mistake, float *const out[SM_MAX_OUT]) {
    const int64_t B = sm_mistaken_size(c, "B");
    const int64_t T = sm_mistaken_size(c, "T");
    const int64_t C = sm_mistaken_size(c, "C");
    const int32_t *token = sm_mistaken_in(c, "token");
    IN(wte);
    IN(wpe);
    for (int64_t n = 0; n < B * T; n++) {
        const int64_t t = n % T;
        const int32_t id = token[mistake == F_FIRST_SEQUENCE ? t : mistake == F_FIRST_TOKEN ? n - t : n];
        for (int64_t k = 0; k < C; k++) {
            const float position = wpe == NULL ? 0 : wpe[(mistake == F_POSITION_0 ? 0 : t) * C + k];
            out[0][n * C + k] = wte[id * C + k] + (mistake == F_NO_POSITION ? 0 : position);
        }
    }
}

enum { B_LAST_TOKEN = 1, B_FIRST_SEQUENCE, B_ONE_SEQUENCE, B_NO_POSITION, B_NO_TOKEN, B_LAST_SEQUENCE };

static void embedding_backward(const sm_exercise_case *c, int mistake, float *const out[SM_MAX_OUT]) {
    const int64_t B = sm_mistaken_size(c, "B");
    const int64_t T = sm_mistaken_size(c, "T");
    const int64_t C = sm_mistaken_size(c, "C");
    const int32_t *token = sm_mistaken_in(c, "token");
    IN(dx);
    for (int64_t n = 0; n < B * T; n++) {
        const int64_t t = n % T;
        float *dwte = out[0] + (int64_t)token[mistake == B_FIRST_SEQUENCE ? t : n] * C;
        float *dwpe = out[1] == NULL ? NULL : out[1] + t * C;
        for (int64_t k = 0; k < C; k++) {
            const float d = dx[n * C + k];
            dwte[k] = mistake == B_NO_TOKEN ? dwte[k] : mistake == B_LAST_TOKEN ? d : dwte[k] + d;
            if (dwpe != NULL && mistake != B_NO_POSITION && (mistake != B_ONE_SEQUENCE || n < T)) {
                dwpe[k] = mistake == B_LAST_SEQUENCE ? d : dwpe[k] + d;
            }
        }
    }
}

const sm_mistakes sm_mistakes_embedding[] = {
    {SM_OP_EMBEDDING_FORWARD,
     embedding_forward,
     {"the position is missing: x = wte[token] + wpe[t], where there is a wpe",
      "every sequence takes the tokens of the first: the token of (b,t) is token[b * T + t]",
      "every token takes position 0: the row of wpe is t", "every token takes the first token of its sequence", NULL}},
    {SM_OP_EMBEDDING_BACKWARD,
     embedding_backward,
     {"a token that occurs several times keeps only its last gradient: dwte[token] += dx, on top of what it holds",
      "every sequence takes the tokens of the first: the token of (b,t) is token[b * T + t]",
      "dwpe has the first sequence only: it is a sum over all B sequences", "dwpe is not computed: dwpe[t] += dx[b,t]",
      "dwte is not computed: dwte[token] += dx", "dwpe is overwritten: dwpe[t] += dx, of all sequences", NULL}},
    SM_NO_MISTAKES,
};
