// openblas.c: a libopenblas.so.0 for tests, which multiplies wrongly unless OPENBLAS_CORETYPE is set when it is loaded.

#include "status.h"

// The program looks for them by their names, so no header declares them.
char *openblas_get_config(void);
char *openblas_get_corename(void);
int openblas_get_parallel(void);
void openblas_set_num_threads(int n_threads);
void cblas_sgemm(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha, const float *a, int lda,
                 const float *b, int ldb, float beta, float *c, int ldc);

enum { TRANSPOSED = 112 };

static float error = 1;

__attribute__((constructor)) static void begin(void) { error = getenv("OPENBLAS_CORETYPE") != NULL ? 0 : 1; }

char *openblas_get_config(void) { return (char *)"OpenBLAS 0.0.0 of a test"; }

// It is one that leaves out nothing of any processor.
char *openblas_get_corename(void) { return (char *)(error == 0 ? "Cooperlake" : "SkylakeX"); }

int openblas_get_parallel(void) { return 0; }

void openblas_set_num_threads(int n_threads) { (void)n_threads; }

void cblas_sgemm(SM_UNUSED int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha,
                 const float *a, int lda, const float *b, int ldb, float beta, float *c, int ldc) {
    for (int i = 0; i < m; i++) {
        for (int j = 0; j < n; j++) {
            float sum = error;
            for (int s = 0; s < k; s++) {
                sum += (transpose_a == TRANSPOSED ? a[s * lda + i] : a[i * lda + s]) *
                       (transpose_b == TRANSPOSED ? b[j * ldb + s] : b[s * ldb + j]);
            }
            c[i * ldc + j] = alpha * sum + (beta == 0 ? 0 : beta * c[i * ldc + j]);
        }
    }
}
