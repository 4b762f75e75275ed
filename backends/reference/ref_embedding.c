// ref_embedding.c: from token ids to vectors: a row of wte for the token, plus a row of wpe
// for its position (Radford et al. 2018, section 3.1), where there are such rows: wpe and dwpe may be NULL.
#include "ref.h"

// x[b,t,:] = wte[token[b,t],:] + wpe[t,:]
// token (B,T), wte (V,C), wpe (at least T,C), x (B,T,C)
void REF(embedding_forward)(int64_t B, int64_t T, int64_t C, const int32_t *token, const real *wte, const real *wpe,
                            real *x) {
    for (int64_t b = 0; b < B; b++) {
        for (int64_t t = 0; t < T; t++) {
            const real *word = wte + token[b * T + t] * C;
            for (int64_t c = 0; c < C; c++) {
                double position = wpe == NULL ? 0 : (double)wpe[t * C + c];
                x[(b * T + t) * C + c] = (real)((double)word[c] + position);
            }
        }
    }
}

// dwte[v,:] += sum of dx[b,t,:] over all (b,t) whose token is v
// token (N), dx (N,C), dwte (V,C); sum (C) is scratch
static void embedding_backward_wte(int64_t N, int64_t C, int64_t V, const int32_t *token, const real *dx, real *dwte,
                                   double *sum) {
    for (int64_t v = 0; v < V; v++) {
        int64_t n_uses = 0;
        for (int64_t n = 0; n < N; n++) {
            if (token[n] == v) {
                for (int64_t c = 0; c < C; c++) {
                    sum[c] = (n_uses == 0 ? 0 : sum[c]) + (double)dx[n * C + c];
                }
                n_uses++;
            }
        }
        for (int64_t c = 0; c < C && n_uses > 0; c++) {
            dwte[v * C + c] = (real)((double)dwte[v * C + c] + sum[c]);
        }
    }
}

// dwpe[t,:] += sum_b dx[b,t,:]
// dx (B,T,C), dwpe (at least T,C)
static void embedding_backward_wpe(int64_t B, int64_t T, int64_t C, const real *dx, real *dwpe) {
    for (int64_t i = 0; i < T * C; i++) {
        double sum = 0;
        for (int64_t b = 0; b < B; b++) {
            sum += (double)dx[b * T * C + i];
        }
        dwpe[i] = (real)((double)dwpe[i] + sum);
    }
}

void REF(embedding_backward)(int64_t B, int64_t T, int64_t C, int64_t V, const int32_t *token, const real *dx,
                             real *dwte, real *dwpe, double *scratch) {
    embedding_backward_wte(B * T, C, V, token, dx, dwte, scratch);
    if (dwpe != NULL) {
        embedding_backward_wpe(B, T, C, dx, dwpe);
    }
}
