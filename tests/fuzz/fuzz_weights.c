// fuzz_weights.c: files of a very small model: the parameters (even first byte), or the optimizer's state with the
// number of steps in its metadata (odd).
#include "harness_support.h"
#include "src/weights/weights.h"

static const sm_model_config config = {.model = &sm_model_gpt2,
                                       .n_layer = 1,
                                       .n_head = 1,
                                       .d_model = 2,
                                       .d_ff = 3,
                                       .vocab = 3,
                                       .context = 2,
                                       .norm_eps = 1e-5};

static sm_session *session;
static char genuine[1 << 14]; // the model as saved
static size_t genuine_bytes;

static void open_session(void) {
    static sm_device *device;
    const sm_plan_options options = {
        .B = 1, .T = 2, .dtype = SM_F32, .backward = true, .optimizer = &sm_optimizer_adamw};
    sm_plan *plan;
    fuzz_expect(sm_backend_find("reference")->open(0, &(sm_open_options){0}, &device) == SM_OK, "a device");
    fuzz_expect(sm_model_build(&config, &options, &plan) == SM_OK, "a plan");
    fuzz_expect(sm_session_open(device, plan, &session) == SM_OK, "a session");
    fuzz_expect(sm_weights_save(fuzz_folder(), &config, session, 0) == SM_OK, "a model's folder");
    FILE *file = fopen(fuzz_path("model.safetensors"), "rb");
    fuzz_expect(file != NULL, "a model");
    genuine_bytes = fread(genuine, 1, sizeof genuine, file);
    fuzz_expect(genuine_bytes < sizeof genuine, "a model that small");
    fclose(file);
}

void fuzz_one(const uint8_t *data, size_t size_bytes) {
    int64_t step = 0;
    if (session == NULL) {
        open_session();
    }
    if (size_bytes == 0) {
        return;
    }
    if (data[0] % 2 == 0) {
        fuzz_write(fuzz_path("model.safetensors"), data + 1, size_bytes - 1);
        sm_weights_load(fuzz_folder(), &config, session, NULL);
        return;
    }
    fuzz_write(fuzz_path("model.safetensors"), genuine, genuine_bytes);
    fuzz_write(fuzz_path("optimizer.safetensors"), data + 1, size_bytes - 1);
    if (sm_weights_load(fuzz_folder(), &config, session, &step) == SM_OK) {
        fuzz_expect(step >= 0, "a number of steps");
    }
}
