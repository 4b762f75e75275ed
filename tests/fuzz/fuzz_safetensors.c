// fuzz_safetensors.c: a file of tensors, and the data of each float tensor.

#include "harness_support.h"
#include "src/io/safetensors.h"

void fuzz_one(const uint8_t *data, size_t size_bytes) {
    SM_OWN(sm_safetensors) *file = NULL;
    if (sm_safetensors_open(fuzz_file(data, size_bytes), &file) != SM_OK) {
        return;
    }
    for (int i = 0; i < sm_safetensors_count(file); i++) {
        const sm_safetensors_entry *entry = sm_safetensors_at(file, i);
        fuzz_expect(entry->n_elems <= (int64_t)size_bytes, "a tensor's data is in the file");
        SM_FREED float *values = malloc((size_t)entry->n_elems * sizeof(float) + 1);
        sm_status status = sm_safetensors_read(file, entry, values);
        fuzz_expect(!sm_safetensors_is_float(entry->dtype) || status == SM_OK, "a tensor that was accepted is read");
    }
    sm_safetensors_metadata(file, "step");
}
