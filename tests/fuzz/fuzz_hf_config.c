// fuzz_hf_config.c: a model's config.json.
#include "harness_support.h"
#include "src/weights/model_folder.h"

void fuzz_one(const uint8_t *data, size_t size_bytes) {
    sm_model_config config;
    if (sm_hf_config_read(fuzz_file(data, size_bytes), &config) == SM_OK) {
        fuzz_expect(config.n_head > 0 && config.d_model % config.n_head == 0, "heads divide the width");
    }
}
