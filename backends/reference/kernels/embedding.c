// embedding.c: from token ids to vectors: a row of wte for the token, plus a row of wpe
// for its position (Radford et al. 2018, section 3.1), where there are such rows: wpe and dwpe may be NULL. Positions
// count from the start of the token's document: starts (B,T), or NULL where that is the start of the row.
#include "backends/reference/ref.h"

static int64_t position_of(const int32_t *starts, int64_t T, int64_t n) {
    return n % T - (starts == NULL ? 0 : starts[n]);
}

// x[b,t,:] = wte[token[b,t],:] + wpe[t - starts[b,t],:]
// token (B,T), wte (V,C), wpe (at least T,C), x (B,T,C)
void REF(embedding_forward)(int64_t B, int64_t T, int64_t C, const int32_t *token, const int32_t *starts,
                            const real *wte, const real *wpe, real *x) {
    for (int64_t b = 0; b < B; b++) {
        for (int64_t t = 0; t < T; t++) {
            const real *word = wte + token[b * T + t] * C;
            const int64_t at = position_of(starts, T, b * T + t);
            for (int64_t c = 0; c < C; c++) {
                double position = wpe == NULL ? 0 : (double)wpe[at * C + c];
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

// dwpe[p,:] += sum of dx[b,t,:] over all (b,t) whose position is p
// dx (B,T,C), dwpe (at least T,C)
static void embedding_backward_wpe(int64_t B, int64_t T, int64_t C, const int32_t *starts, const real *dx, real *dwpe) {
    for (int64_t i = 0; i < T * C; i++) {
        double sum = 0;
        for (int64_t n = 0; n < B * T; n++) {
            sum += position_of(starts, T, n) == i / C ? (double)dx[n * C + i % C] : 0;
        }
        dwpe[i] = (real)((double)dwpe[i] + sum);
    }
}

void REF(embedding_backward)(int64_t B, int64_t T, int64_t C, int64_t V, const int32_t *token, const int32_t *starts,
                             const real *dx, real *dwte, real *dwpe, double *scratch) {
    embedding_backward_wte(B * T, C, V, token, dx, dwte, scratch);
    if (dwpe != NULL) {
        embedding_backward_wpe(B, T, C, starts, dx, dwpe);
    }
}
