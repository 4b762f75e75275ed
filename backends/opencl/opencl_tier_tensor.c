// opencl_tier_tensor.c: the tier for cards whose matrix units multiply 16-bit numbers and tf32. What they cannot do
// (fp32 as it is, rows that do not begin at multiples of 16 bytes) runs as in tier `local`, op by op.
#include <stdio.h>

#include "opencl_tier.h"

static const char *lacks(const opencl_facts *facts) {
    return opencl_find_matrix_units(facts)->missing;
}

static bool suits(const opencl_facts *facts) {
    return opencl_tier_local.suits(facts) && opencl_find_matrix_units(facts)->has_mma;
}

static int vector(const opencl_facts *facts) { return opencl_tier_local.vector(facts); }

// --- matmul -----------------------------------------------------------------------------------------

static bool matmul_way(const opencl_facts *facts, const opencl_product *p, int way, char *text, size_t size_bytes) {
    return opencl_tier_local.matmul_way(facts, p, way, text, size_bytes);
}

static size_t matmul_scratch_elems(const opencl_facts *facts, const opencl_product *p, int way) {
    return opencl_tier_local.matmul_scratch_elems(facts, p, way);
}

static void matmul(opencl_binder *b, const opencl_product *p, int way) { opencl_tier_local.matmul(b, p, way); }

// --- attention --------------------------------------------------------------------------------------

static void attention(opencl_binder *b, const opencl_attention *a) { opencl_tier_local.attention(b, a); }

static size_t attention_scratch_elems(const opencl_attention *a) {
    return opencl_tier_local.attention_scratch_elems(a);
}

const opencl_tier opencl_tier_tensor = {
    .name = "tensor",
    .why = "matrix units that compute rightly: products on them",
    .suits = suits,
    .lacks = lacks,
    .row_items = 128,
    .vector = vector,
    .group = 128,
    .matmul_way = matmul_way,
    .matmul = matmul,
    .matmul_scratch_elems = matmul_scratch_elems,
    .attention = attention,
    .attention_scratch_elems = attention_scratch_elems,
    .most_head_channels = 256,
};
