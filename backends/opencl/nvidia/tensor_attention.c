// tensor_attention.c: attention on matrix units (cl/nvidia/attention_tensor.cl): the choice of kernels and their sizes.

#include "backends/opencl/nvidia/tensor.h"

enum { OPTIONS_SIZE = 256, WARP_ITEMS = 32, CHUNK_BYTES = 16, MOST_HEAD_CHANNELS = 128 };

// --- the rule ---------------------------------------------------------------------------------------

static bool may_round(const sm_plan *plan, const opencl_attention *a) {
    return sm_dtype_is_narrow(plan->tensors[a->qkv].dtype) || plan->products != SM_PRODUCTS_PLAIN;
}

// Heads that wgmma has kernels for have kernels for mma.sync, too.
bool opencl_tensor_attends(const opencl_facts *facts, const sm_plan *plan, const opencl_attention *a) {
    bool attends = !a->stores_weights && may_round(plan, a) && a->HS % 8 == 0 && a->HS <= MOST_HEAD_CHANNELS &&
                   opencl_is_attention_aligned(plan, a, CHUNK_BYTES);
    for (int part = opencl_first_part(a); attends && part <= opencl_last_part(a); part++) {
        opencl_score_sizes sizes;
        attends = opencl_mma_score_sizes(facts, part, a->HS, (int)sm_dtype_size(plan->tensors[a->qkv].dtype), &sizes);
    }
    return attends;
}

// --- launches ---------------------------------------------------------------------------------------

static opencl_heads heads_of(const opencl_binder *b, const opencl_attention *a) {
    return opencl_kind_of_heads(&b->e->device->facts, b->e->base.plan->tensors[a->qkv].dtype, a->HS, a->T,
                                a->B * a->NH * a->T);
}

// Uses wgmma only if it was tested, or if programs are only listed.
static bool uses_wgmma(const opencl_binder *b, const opencl_attention *a) {
    const opencl_facts *facts = &b->e->device->facts;
    const opencl_heads heads = heads_of(b, a);
    const sm_dtype dtype = b->e->base.plan->tensors[a->qkv].dtype;
    return heads != OPENCL_OTHER_HEADS && (b->e->wanted != NULL ? opencl_find_matrix_units(facts)->has_wgmma
                                                                : opencl_has_wgmma_attention(facts, dtype, heads));
}

static void begin(opencl_binder *b, const opencl_attention *a, int part, opencl_score_sizes *s) {
    char options[OPTIONS_SIZE];
    if (uses_wgmma(b, a)) {
        *s = opencl_wgmma_score_sizes(heads_of(b, a), part);
    } else {
        opencl_mma_score_sizes(&b->e->device->facts, part, a->HS,
                               (int)sm_dtype_size(b->e->base.plan->tensors[a->qkv].dtype), s);
    }
    opencl_attention_options(s, part, a->HS, a->threshold > 0, options, sizeof options);
    strncat(options, opencl_documents_option(a), sizeof options - strlen(options) - 1);
    if (b->e->base.plan->products == SM_PRODUCTS_TF32X3) {
        strncat(options, " -DSPLIT=1", sizeof options - strlen(options) - 1);
    }
    opencl_begin(b, s->stages > 0 ? "attention_wgmma" : "attention_tensor", options, opencl_attention_kernels[part]);
}

// Maps of qkv and, backward, dy.
static void arg_maps(opencl_binder *b, const opencl_attention *a) {
    const sm_dtype dtype = b->e->base.plan->tensors[a->qkv].dtype;
    opencl_tensor_map maps[] = {opencl_map_rows(dtype, a->B, a->T, (a->NH + 2 * a->NKV) * a->HS),
                                opencl_map_rows(dtype, a->B, a->T, a->NH * a->HS)};
    maps[0].tensor = a->qkv;
    maps[1].tensor = a->dy;
    opencl_arg_maps(b, maps, a->forward ? 1 : 2);
}

static void launch(opencl_binder *b, const opencl_attention *a, int part) {
    const int64_t n_heads = part == OPENCL_ATTENTION_KEYS ? a->NKV : a->NH;
    opencl_score_sizes s = {0};
    begin(b, a, part, &s);
    opencl_arg_heads(b, a);
    OPENCL_ARGS(b, arg_count(a->B * n_heads), arg_tensor(a->starts));
    opencl_arg_mask(b, a);
    if (s.stages > 0) {
        arg_maps(b, a);
    }
    opencl_arg_attention(b, a, part);
    opencl_launch_groups(b, a->B * n_heads * opencl_count_up(a->T, opencl_own_rows(&s)), 1,
                         (size_t)(s.warps * WARP_ITEMS));
}

enum { WARNING_SIZE = sizeof((sm_device_info *)0)->warnings[0] };

// Warns if 16-bit data is multiplied as fp32, though the device has units.
static void warn_of_local(const opencl_binder *b, const opencl_attention *a) {
    static const char fact[] = "attention runs as in family local: ";
    char *text = may_round(b->e->base.plan, a) ? opencl_new_warning(&b->e->device->base.info, fact) : NULL;
    if (text != NULL && a->stores_weights) {
        snprintf(text, WARNING_SIZE, "%sits weights are stored", fact);
    } else if (text != NULL) {
        snprintf(text, WARNING_SIZE, "%sheads of %lld channels, and matrix units take multiples of 8 up to %d", fact,
                 (long long)a->HS, MOST_HEAD_CHANNELS);
    }
}

// Warns if wgmma was tested and failed.
static void warn_of_mma(const opencl_binder *b, const opencl_attention *a) {
    static const char fact[] = "attention is computed by mma.sync: ";
    const sm_dtype dtype = b->e->base.plan->tensors[a->qkv].dtype;
    const bool has_wgmma = opencl_find_matrix_units(&b->e->device->facts)->has_wgmma;
    const opencl_heads heads = heads_of(b, a);
    if (has_wgmma && heads != OPENCL_OTHER_HEADS && !uses_wgmma(b, a)) {
        char *text = opencl_new_warning(&b->e->device->base.info, fact);
        if (text != NULL) {
            snprintf(text, WARNING_SIZE, "%sby wgmma: %.200s", fact,
                     opencl_wgmma_attention_trouble(&b->e->device->facts, dtype, heads));
        }
    }
}

void opencl_tensor_attention(opencl_binder *b, const opencl_attention *a) {
    if (!opencl_tensor_attends(&b->e->device->facts, b->e->base.plan, a)) {
        b->e->n_beside_units += may_round(b->e->base.plan, a);
        warn_of_local(b, a);
        opencl_family_local.attention(b, a);
        return;
    }
    b->e->n_on_units++;
    warn_of_mma(b, a);
    for (int part = opencl_first_part(a); part <= opencl_last_part(a); part++) {
        launch(b, a, part);
    }
}

size_t opencl_tensor_attention_scratch_elems(const opencl_facts *facts, const sm_plan *plan,
                                             const opencl_attention *a) {
    return opencl_tensor_attends(facts, plan, a) ? (size_t)(a->B * a->NH * a->T) // D
                                                 : opencl_family_local.attention_scratch_elems(facts, plan, a);
}
