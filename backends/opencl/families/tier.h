// tier.h: families of kernels. A tier says which devices it suits, by what they tell of themselves
// and never by their vendor alone, and how it launches the kinds of op that differ between tiers: matrix
// products and attention. All other kernels are the same, with work-items and vectors of the tier's size.
#ifndef STEPMARK_BACKENDS_OPENCL_FAMILIES_TIER_H
#define STEPMARK_BACKENDS_OPENCL_FAMILIES_TIER_H

#include "backends/opencl/bind/bind.h"

struct opencl_tier {
    const char *name;                                  // "registers"; `--isa` takes it
    const char *why;                                   // what makes a device suit, in words: "a processor: ..."
    const char *(*explain)(const opencl_facts *facts); // the same where it depends on the device; else NULL
    bool (*suits)(const opencl_facts *facts);
    const char *(*lacks)(const opencl_facts *facts); // what the device cannot do without here, "" if it has all; NULL:
                                                     // these kernels run on any device
    bool multiplies_narrow;                          // has units that multiply numbers of 16 bits
    bool rounds_products;                            // multiplies floats as a plan of tf32 or tf32x3 says
    int row_items;                                   // work-items that share a row
    const char *options;                             // of all its programs; NULL: none
    int (*vector)(const opencl_facts *facts);        // floats a work-item handles at a time
    int group;                                       // work-items in a work-group of element-by-element kernels
    // Ways to compute a product: 0 is chosen by a rule, the others are for mode tuned. matmul_way writes what a way
    // is ("128x128x8 of 16x8, 4 parts"), or is false: there is no such way, or it is none for this product.
    bool (*matmul_way)(const opencl_facts *facts, const opencl_product *product, int way, char *text, size_t size);
    void (*matmul)(opencl_binder *b, const opencl_product *product, int way);
    size_t (*matmul_scratch_elems)(const opencl_facts *facts, const opencl_product *product, int way);
    void (*attention)(opencl_binder *b, const opencl_attention *attention);
    size_t (*attention_scratch_elems)(const opencl_facts *facts, const sm_plan *plan,
                                      const opencl_attention *attention);
    bool (*uses_maps)(const opencl_facts *facts, const sm_plan *plan); // tensor maps; NULL: never
    int most_head_channels;                                            // largest HS that attention has room for
};

// Whether a tier multiplies floats that way, beside plainly.
static inline bool opencl_tier_multiplies(const opencl_tier *tier, sm_products products) {
    return tier->rounds_products && (products == SM_PRODUCTS_TF32 || products == SM_PRODUCTS_TF32X3);
}

// The first tier that suits the device, or the one with that name (SM_ERR_UNSUPPORTED when there is none).
sm_status opencl_choose_tier(const opencl_facts *facts, const char *name, const char *device_id,
                             const opencl_tier **tier);

extern const opencl_tier opencl_tier_tensor;
extern const opencl_tier opencl_tier_local;
extern const opencl_tier opencl_tier_registers;

#endif
